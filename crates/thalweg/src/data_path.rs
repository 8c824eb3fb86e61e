//! The seam to the data path: what each thread does with its listeners, and how it is told to stop.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use thalweg_config::Config;
use thalweg_runtime::net::Listener;
use thalweg_runtime::{Handle, Kind, TaskId, kill, spawn};

use crate::listen::ThreadListener;

static ACCEPT: Kind = Kind::new("accept");

thread_local! {
    static LISTENERS: RefCell<Vec<TaskId>> = const { RefCell::new(Vec::new()) };
}

/// What all threads share.
#[derive(Clone)]
pub struct DataPath(Arc<Inner>);

struct Inner {
    config: Config,
    /// Threads that still listen.
    listening: AtomicUsize,
}

impl DataPath {
    /// Prepares the live state for a configuration. `program` is the name that tags logs.
    pub fn new(config: Config, _program: &str) -> DataPath {
        DataPath(Arc::new(Inner { config, listening: AtomicUsize::new(0) }))
    }

    /// Starts to serve on the calling thread.
    pub fn start_thread(&self, _thread: usize, sockets: Vec<ThreadListener>) {
        self.0.listening.fetch_add(1, Ordering::SeqCst);
        for socket in sockets {
            let id = spawn(&ACCEPT, async move {
                let Ok(mut listener) = Listener::from_fd(socket.fd) else { return };
                while listener.accept().await.is_ok() {}
            });
            LISTENERS.with_borrow_mut(|tasks| tasks.push(id));
        }
    }

    /// Stops listening on every thread; the runtime stops when nothing is left to do.
    pub fn soft_stop(&self, handle: &Handle) {
        for thread in 0..handle.thread_count() {
            let (inner, last) = (self.0.clone(), handle.clone());
            handle.run_on(thread, move || {
                LISTENERS.with_borrow_mut(|tasks| tasks.drain(..).for_each(kill));
                if inner.listening.fetch_sub(1, Ordering::SeqCst) == 1 {
                    last.stop();
                }
            });
        }
    }

    /// Ends every session.
    pub fn hard_stop(&self, _handle: &Handle) {}

    /// Stops listening for a while.
    pub fn pause(&self, _handle: &Handle) {}

    /// Listens again.
    pub fn resume(&self, _handle: &Handle) {}

    /// One line for each server and each proxy, for SIGHUP.
    pub fn server_states(&self) -> Vec<String> {
        self.0.config.proxies.iter().map(|proxy| format!("Proxy {}.", proxy.name)).collect()
    }
}
