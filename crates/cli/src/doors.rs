//! Where clients of the CLI come in: the `stats socket` lines in force, and the connections that a master makes.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use thalweg_runtime::net::Port;
use thalweg_runtime::{TaskId, kill};

use crate::Socket;

/// A socket that is listened on. Its line may change while it is open: that is so for sessions that begin then.
pub struct Door {
    line: Mutex<Arc<Socket>>,
    /// A master makes its connections without one.
    is_masters: bool,
    /// None there, and once the process stops.
    port: Mutex<Option<Arc<Port>>>,
    /// What accepts.
    task: OnceLock<TaskId>,
}

impl Door {
    /// What its line says, and the socket if it is one of ours.
    pub fn new(line: Socket, port: Option<Arc<Port>>) -> Arc<Door> {
        Arc::new(Door {
            line: Mutex::new(Arc::new(line)),
            is_masters: port.is_none(),
            port: Mutex::new(port),
            task: OnceLock::new(),
        })
    }

    /// Whether the connections of a master come in here.
    pub fn is_masters(&self) -> bool {
        self.is_masters
    }

    /// What its line says now.
    pub fn line(&self) -> Arc<Socket> {
        Arc::clone(&self.line.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Its line says this from now on.
    pub fn set_line(&self, line: Socket) {
        *self.line.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(line);
    }

    /// The socket.
    pub fn port(&self) -> Option<Arc<Port>> {
        self.port.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// This task accepts.
    pub(crate) fn served_by(&self, task: TaskId) {
        // One does, from the beginning on.
        let _ = self.task.set(task);
    }

    /// Nobody comes in any more; sessions that are there stay.
    pub fn close(&self) {
        if let Some(task) = self.task.get() {
            kill(*task);
        }
        self.let_go();
    }

    /// What accepts ends otherwise.
    fn let_go(&self) {
        drop(self.port.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// All doors: those of the lines in force, in their order, and behind them that of a master.
pub struct Doors(Mutex<Vec<Arc<Door>>>);

impl Doors {
    /// These.
    pub fn new(all: Vec<Arc<Door>>) -> Doors {
        Doors(Mutex::new(all))
    }

    /// All of them now.
    pub fn all(&self) -> Vec<Arc<Door>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Those that are listened on, as they are called, with their sockets.
    pub fn ports(&self) -> Vec<(String, Arc<Port>)> {
        self.all().iter().filter_map(|door| Some((door.line().name.clone(), door.port()?))).collect()
    }

    /// These are all from now on.
    pub fn replace(&self, all: Vec<Arc<Door>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = all;
    }

    /// The process stops, and ends what accepts.
    pub fn stop(&self) {
        self.all().iter().for_each(|door| door.let_go());
    }
}
