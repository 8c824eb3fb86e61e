#![forbid(unsafe_code)]
//! The data path: from an accepted connection to its last byte.
//!
//! [`Instance`] is what all threads share, [`worker::Worker`] what one thread owns. `docs/life-of-a-request.md` in the
//! repository follows a request through these modules.

pub mod announce;
pub mod backend;
pub mod change;
pub mod change_set;
pub mod connection;
pub mod counters;
mod crt_watch;
mod figures;
pub mod frontend;
pub mod gate;
mod in_turn;
pub mod instance;
pub mod latency;
mod log_backends;
mod log_feed;
pub mod log_forward;
pub mod mail;
mod ocsp;
pub mod operator;
pub mod peers;
pub(crate) mod plant;
pub mod rate;
pub mod refused;
pub mod reload;
pub mod resolvers;
mod sessions;
pub mod spans;
mod stopping;
pub mod stream;
pub mod tables;
pub mod traces;
pub mod worker;
mod world;

use std::sync::Arc;

use thalweg_runtime::net::Port;
use thalweg_runtime::{Handle, Reason, kill};

pub use backend::restore::saved_states;
pub use instance::{Instance, Live};
pub use stopping::Stopping;
use worker::Thread;

/// A listening socket for one thread.
pub struct ThreadSocket {
    /// The number of the listener that it belongs to ([`thalweg_config::model::Bind::number`]).
    pub listener: usize,
    /// The socket, which other threads may accept from, too.
    pub port: Arc<Port>,
}

/// Serves sockets of `log-forward` sections, each with the position of its section, on the calling thread.
pub fn start_log_forwards(sockets: Vec<(usize, log_forward::LogSocket)>) {
    if let Some(worker) = worker::current() {
        sockets.into_iter().for_each(|(section, socket)| log_forward::start(&worker, section, socket));
    }
}

/// Serves `peers` sections on the calling thread: their positions and sockets.
pub fn start_peers(sockets: Vec<(usize, Arc<Port>)>) {
    if let Some(worker) = worker::current() {
        sockets.into_iter().for_each(|(section, port)| peers::start(&worker, section, port));
    }
}

/// Starts to serve on the calling thread, one of the runtime's.
pub fn start_thread(instance: &Arc<Instance>, thread: usize, sockets: Vec<ThreadSocket>) {
    let own = Thread::new(Arc::clone(instance), thread);
    worker::install(&own);
    backend::idle::start_janitor(&own, 0);
    let Some(worker) = own.pin() else { return };
    if thread == 0 {
        instance.log.feeds(&instance.config).into_iter().for_each(|feed| log_feed::start(&worker, feed));
        tables::start_expiry(&worker);
        ocsp::start(&worker);
        crt_watch::start(&worker);
    }
    backend::health::start(&worker);
    resolvers::start(&worker);
    if thread == 0 {
        backend::restore::announce(&worker);
    }
    frontend::reverse::start(&worker);
    for socket in sockets {
        frontend::listener::start(&worker, socket.listener, socket.port);
    }
}

/// Stops listening and lets what is in progress finish; the runtime stops when nothing is left.
pub fn soft_stop(live: &Arc<Live>, handle: &Handle) {
    live.stop(Stopping::Soft);
    live.set_handle(handle.clone());
    for thread in 0..live.threads.len() {
        let live = Arc::clone(live);
        handle.run_on(thread, move || stop_accepting(&live));
    }
}

/// The part of a soft stop that the calling thread has: its listeners serve who waits and end, it closes idle connections,
/// and has its sessions look at whether they may go on.
pub fn stop_accepting(live: &Live) {
    let Some(worker) = worker::current() else {
        live.thread_stopped_accepting();
        return stop_when_idle(live);
    };
    worker.until_stop.take().into_iter().for_each(kill);
    peers::stop(&worker);
    worker.accepting.borrow().iter().for_each(|(_, task)| task.wake(Reason::OTHER));
    worker.wake_span_sender();
    worker.drop_idle_connections();
    worker.wake_sessions();
    thread_may_have_stopped(&worker);
    // Acceptors that noticed the stop by themselves may have ended before there was a handle to stop the runtime with.
    stop_when_idle(&worker.instance);
}

/// After a soft stop began, or a task that accepts ended: whether this was the last one of the thread.
fn thread_may_have_stopped(own: &Thread) {
    if own.live.stopping() != Stopping::No && own.accepting.borrow().is_empty() && !own.stopped.replace(true)
    {
        own.live.thread_stopped_accepting();
        stop_when_idle(&own.live);
    }
}

/// Ends every session; the caller stops the runtime.
pub fn hard_stop(live: &Arc<Live>, handle: &Handle) {
    live.stop(Stopping::Hard);
    for thread in 0..live.threads.len() {
        handle.run_on(thread, || {
            if let Some(worker) = worker::current() {
                worker.wake_sessions();
            }
        });
    }
}

/// Stops accepting for a while; connections wait in the kernel.
pub fn set_paused(live: &Arc<Live>, handle: &Handle, paused: bool) {
    for thread in 0..live.threads.len() {
        handle.run_on(thread, move || {
            if let Some(worker) = worker::current() {
                worker.paused.set(paused);
                worker.accepting.borrow().iter().for_each(|(_, task)| task.wake(Reason::OTHER));
            }
        });
    }
}

/// Stops the runtime when a soft stop was asked for and the last connection is gone.
fn stop_when_idle(live: &Live) {
    if live.is_idle()
        && let Some(handle) = live.handle()
    {
        handle.stop();
    }
}
