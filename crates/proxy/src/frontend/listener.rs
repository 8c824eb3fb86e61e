//! Accepting connections: within the limits, on the thread that has the least to do (manual: `maxconn`,
//! `tune.listener.multi-queue`).

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use thalweg_config::model::{MultiQueue, ProxyId};
use thalweg_runtime::net::{Listener, Port};
use thalweg_runtime::{
    Class, Kind, SpawnOptions, current_task, memory, run_on, spawn_with, thread_index, timer,
};

use super::admission::{Accepted, Admission, Gates, sleep};
use super::session;
use crate::stopping::Stopping;
use crate::worker::{self, Thread, Worker};

static ACCEPT: Kind = Kind::new("accept");

/// Pause after a failure to accept, as when the process ran out of descriptors or memory, in milliseconds. Connections
/// wait in the backlog.
const EXHAUSTED_PAUSE_MS: u64 = 100;

/// Connections taken from the backlog before other tasks get their turn, unless `tune.maxaccept` says how many. More of
/// them in a row cost more: see docs/tuning.md.
const ACCEPTS_IN_A_ROW: u32 = 4;

/// A thread hands a connection over only to one that has this many fewer.
const IMBALANCE_MIN: u32 = 2;

/// Starts accepting on a port for a listener, until the port is retired or the process stops.
pub fn start(worker: &Rc<Worker>, listener: usize, port: Arc<Port>) {
    // A wildcard takes connections to any address of this host, a transparent listener to those of others.
    let address = port.local_addr().ok().and_then(|addr| addr.to_std());
    let only =
        address.filter(|addr| !addr.ip().is_unspecified() && !worker.instance.bind(listener).transparent);
    spawn_acceptor(worker, Place { listener, only }, Listener::on(port), 0);
}

/// Where connections come in.
#[derive(Clone, Copy)]
struct Place {
    /// The number of the listener.
    listener: usize,
    /// The address that every connection came to, where there is only one: saves asking the kernel for each of them.
    only: Option<SocketAddr>,
}

/// A task that accepts. A bug that ends it must not close the door: another one takes its place.
struct Acceptor {
    own: Rc<Thread>,
    place: Place,
    /// Taken when it is handed to the successor.
    socket: Option<Listener>,
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        let own = Rc::clone(&self.own);
        let me = current_task();
        own.accepting.borrow_mut().retain(|(_, task)| *task != me);
        if let Some(socket) = self.socket.take()
            && std::thread::panicking()
            && let Some(worker) = own.pin()
        {
            spawn_acceptor(&worker, self.place, socket, EXHAUSTED_PAUSE_MS);
        }
        own.left_listener(self.place.listener);
        crate::thread_may_have_stopped(&own);
    }
}

fn spawn_acceptor(worker: &Rc<Worker>, place: Place, socket: Listener, delay_ms: u64) {
    let nice = worker.instance.find_bind(place.listener).map_or(0, |bind| bind.nice);
    let options = SpawnOptions { class: Class::Normal, nice };
    let acceptor = Acceptor { own: Rc::clone(worker.own()), place, socket: Some(socket) };
    let task = spawn_with(&ACCEPT, options, accept(acceptor, delay_ms));
    worker.accepting.borrow_mut().push((place.listener, task));
}

async fn accept(mut acceptor: Acceptor, delay_ms: u64) {
    if delay_ms > 0 {
        timer::sleep(delay_ms).await;
    }
    let Acceptor { own, place, socket } = &mut acceptor;
    let (place, Some(socket)) = (*place, socket) else { return };
    let own = Rc::clone(own);
    let listener = place.listener;
    let frontend = own.live.listeners[listener].frontend();
    let Some((multi_queue, in_a_row_max)) = own.pin().map(|worker| {
        let tune = &worker.instance.config.global.tune;
        let in_a_row_max = match tune.maxaccept {
            0 => ACCEPTS_IN_A_ROW,
            given => u32::try_from(given).unwrap_or(u32::MAX),
        };
        (tune.listener_multi_queue != MultiQueue::Off, in_a_row_max)
    }) else {
        return;
    };
    let gates = Gates::of(&own.live, frontend, listener);
    let mut in_a_row = 0;
    loop {
        if own.live.is_shut(frontend) || has_stopped(&own, frontend, socket) {
            return;
        }
        if is_held(&own, frontend, socket) || !gates.have_room() || gates.rate_wait_ms() > 0 {
            socket.pause();
            wait_while_held(&own, frontend, socket).await;
            gates.wait_for_room(socket).await;
            resume(socket).await;
        }
        if memory::is_short() {
            // Whoever comes waits in the backlog until there is room for it.
            socket.pause();
            while memory::is_short() && !has_stopped(&own, frontend, socket) {
                sleep(EXHAUSTED_PAUSE_MS, socket).await;
            }
            resume(socket).await;
            continue;
        }
        let accepted = std::future::poll_fn(|_| match socket.poll_accept() {
            Poll::Ready(result) => Poll::Ready(Some(result)),
            Poll::Pending if is_held(&own, frontend, socket) || has_stopped(&own, frontend, socket) => {
                Poll::Ready(None)
            }
            Poll::Pending => Poll::Pending,
        })
        .await;
        match accepted {
            None => {}
            Some(Ok((fd, peer))) => {
                // Another thread may have taken the last place: then this connection waits for the next one here
                // rather than in the backlog.
                gates.enter(socket).await;
                let admission = Admission { live: Arc::clone(&own.live), listener };
                crate::plant::here("accept");
                let accepted = Accepted { admission, fd, peer, only: place.only };
                dispatch(&own, accepted, multi_queue);
                in_a_row += 1;
                if in_a_row >= in_a_row_max {
                    in_a_row = 0;
                    thalweg_runtime::yield_now().await;
                }
            }
            Some(Err(error)) if concerns_one_connection(&error) => {}
            Some(Err(_)) => {
                socket.pause();
                sleep(EXHAUSTED_PAUSE_MS, socket).await;
                resume(socket).await;
            }
        }
    }
}

/// Accepts again. A socket that cannot be registered with the driver, for lack of memory or because the user has too many
/// registered, is tried again: nobody else would.
async fn resume(socket: &mut Listener) {
    while socket.resume().is_err() && !crate::plant::bug("deaf-listener") {
        sleep(EXHAUSTED_PAUSE_MS, socket).await;
    }
}

/// Whether the next attempt has a chance (accept(2), "Error handling"). Anything else, as a lack of descriptors or memory,
/// would be there again at once.
fn concerns_one_connection(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{
        ConnectionAborted, HostUnreachable, NetworkDown, NetworkUnreachable, PermissionDenied,
    };
    matches!(
        error.kind(),
        ConnectionAborted | HostUnreachable | NetworkDown | NetworkUnreachable | PermissionDenied
    )
}

/// Whether nothing is to be accepted now: the process is paused, or an operator holds or closes this frontend. What was
/// waiting when a pause took the port away is served all the same.
fn is_held(own: &Thread, frontend: ProxyId, socket: &mut Listener) -> bool {
    let live = &own.live;
    live.is_paused(frontend) || live.is_shut(frontend) || own.paused.get() && !socket.has_left()
}

/// Whether nothing is to be accepted any more: the process stops, and what was waiting then is served or not wanted.
fn has_stopped(own: &Thread, frontend: ProxyId, socket: &mut Listener) -> bool {
    let is_over = own.live.stopping() != Stopping::No || socket.is_retired();
    is_over && (own.live.is_paused(frontend) || !socket.has_left())
}

/// Waits until something may be accepted, or nothing ever will be.
async fn wait_while_held(own: &Thread, frontend: ProxyId, socket: &mut Listener) {
    std::future::poll_fn(|_| {
        socket.keep_up();
        let over = own.live.is_shut(frontend) || has_stopped(own, frontend, socket);
        if is_held(own, frontend, socket) && !over { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
}

/// Starts the session here, or on the thread with the fewest connections when the difference is worth the message.
fn dispatch(own: &Thread, accepted: Accepted, multi_queue: bool) {
    let Some(worker) = own.pin_for(accepted.admission.listener) else { return };
    let instance = &worker.instance;
    let here = thread_index();
    if multi_queue && instance.threads.len() > 1 {
        let load = |thread: usize| instance.thread_load[thread].load(Ordering::Relaxed);
        let bind = instance.find_bind(accepted.admission.listener);
        let allowed = bind.map_or(&[][..], |bind| &bind.threads.0);
        let least = (0..instance.threads.len())
            .filter(|t| allowed.is_empty() || allowed.iter().any(|a| usize::from(*a) == *t))
            .min_by_key(|t| load(*t));
        if let Some(thread) = least.filter(|t| *t != here && load(*t) + IMBALANCE_MIN <= load(here)) {
            let by = Arc::clone(instance);
            run_on(thread, move || {
                let own = worker::current().map(|worker| Rc::clone(worker.own()));
                if let Some(worker) = own.and_then(|own| own.pin_by(accepted.admission.listener, &by)) {
                    session::start(&worker, accepted);
                }
            });
            return;
        }
    }
    session::start(&worker, accepted);
}
