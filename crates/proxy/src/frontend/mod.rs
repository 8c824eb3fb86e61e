//! The client's side: listeners and sessions.

pub mod listener;
pub mod session;

use thalweg_config::model::{ProxyId, ServerId};
use thalweg_sample::facts::Session;

use crate::backend::connect::ServerConn;

/// A client's stay: its connection's facts, and where it came in.
pub struct ClientSession {
    pub facts: Session,
    pub frontend: ProxyId,
    /// Position of the listener in the instance.
    pub listener: usize,
    /// A server connection that no other session may use (`http-reuse never`).
    private: Vec<PrivateConnection>,
}

struct PrivateConnection {
    backend: ProxyId,
    server: ServerId,
    conn: ServerConn,
}
