//! The client's side: listeners and sessions.

pub mod listener;
pub mod session;

use std::rc::Rc;

use thalweg_config::model::{ProxyId, ServerId};
use thalweg_sample::facts::Session;

use crate::backend::connect::ServerConn;
use crate::stream::http::HalfHead;
use crate::worker::Worker;

/// A client's stay: its connection's facts, and where it came in.
pub struct ClientSession {
    pub facts: Session,
    pub frontend: ProxyId,
    /// No request was served yet.
    pub first: bool,
    /// Position of the listener in the instance.
    pub listener: usize,
    /// The request that is on its way, while not all of its head has come.
    pub half: Option<Box<HalfHead>>,
    /// Server connections that no other session may use (`http-reuse never`, or a client that authenticated its
    /// connection).
    // Boxed because few have one.
    #[allow(clippy::box_collection)]
    private: Option<Box<Vec<PrivateConnection>>>,
}

/// An idle server connection of one session. It counts for as long as it is kept.
struct PrivateConnection {
    backend: ProxyId,
    server: ServerId,
    conn: ServerConn,
    _counted: PrivateIdle,
}

/// One in the number of idle private connections of a server.
struct PrivateIdle {
    worker: Rc<Worker>,
    server: usize,
}

impl PrivateIdle {
    fn new(worker: Rc<Worker>, server: usize) -> PrivateIdle {
        worker.counters().servers.mine(server).private_idle_connections.add(1);
        PrivateIdle { worker, server }
    }
}

impl Drop for PrivateIdle {
    fn drop(&mut self) {
        self.worker.counters().servers.mine(self.server).private_idle_connections.sub(1);
    }
}
