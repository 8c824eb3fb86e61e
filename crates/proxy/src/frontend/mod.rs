//! The client's side: listeners and sessions.

pub mod listener;
pub mod session;

use thalweg_config::model::{ProxyId, ServerId};
use thalweg_runtime::buffer::Buf;
use thalweg_runtime::net::Stream;
use thalweg_sample::facts::Session;

use crate::backend::connect::ServerConn;

/// A client's connection.
pub struct Client {
    pub io: Stream,
    /// Received and not consumed yet.
    pub input: Option<Buf>,
    /// The client will send nothing more.
    pub eof: bool,
    /// The last request was answered before all of it had come.
    pub expects_more: bool,
}

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
