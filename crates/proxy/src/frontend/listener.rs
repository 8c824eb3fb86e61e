//! Accepting connections: within the limits, on the thread that has the least to do (manual: `maxconn`,
//! `tune.listener.multi-queue`).

use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use thalweg_config::model::{MultiQueue, ProxyId};
use thalweg_runtime::net::{Listener, SockAddr};
use thalweg_runtime::{Class, Kind, SpawnOptions, current_task, run_on, spawn_with, thread_index, timer};

use super::session;
use crate::backend::connect::libc_codes;
use crate::instance::Instance;
use crate::worker::{self, Worker};

static SESSION: Kind = Kind::new("session");
static ACCEPT: Kind = Kind::new("accept");

/// Pause after the process ran out of descriptors or memory, in milliseconds. Connections wait in the backlog.
const EXHAUSTED_PAUSE_MS: u64 = 100;

/// A thread hands a connection over only to one that has this many fewer.
const IMBALANCE_MIN: u32 = 2;

/// Starts accepting on `fd` for a listener. Returns the task, which is killed to stop.
pub fn start(worker: &Rc<Worker>, listener: usize, fd: OwnedFd) -> std::io::Result<thalweg_runtime::TaskId> {
    let socket = Listener::from_fd(fd)?;
    let options = SpawnOptions { class: Class::Normal, nice: worker.instance.bind(listener).nice };
    Ok(spawn_with(&ACCEPT, options, accept(Rc::clone(worker), listener, socket)))
}

async fn accept(worker: Rc<Worker>, listener: usize, mut socket: Listener) {
    let (frontend, _) = worker.instance.listeners[listener];
    let multi_queue = worker.instance.config.global.tune.listener_multi_queue != MultiQueue::Off;
    let mut in_a_row = 0;
    loop {
        enter(&worker.instance, frontend, listener, &mut socket).await;
        let paused = worker.paused.get();
        if paused {
            leave(&worker.instance, frontend, listener);
            socket.pause();
            wait_while_paused(&worker).await;
            // A socket that cannot be resumed tells again at the next accept.
            let _ = socket.resume();
            continue;
        }
        match std::future::poll_fn(|_| match socket.poll_accept() {
            Poll::Ready(result) => Poll::Ready(Some(result)),
            Poll::Pending if worker.paused.get() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        })
        .await
        {
            Some(Ok((fd, peer))) => {
                dispatch(&worker, listener, fd, peer, multi_queue);
                in_a_row += 1;
                if in_a_row >= 32 {
                    in_a_row = 0;
                    thalweg_runtime::yield_now().await;
                }
            }
            Some(Err(error)) => {
                leave(&worker.instance, frontend, listener);
                let code = error.raw_os_error().unwrap_or(0);
                if matches!(
                    code,
                    libc_codes::EMFILE | libc_codes::ENFILE | libc_codes::ENOMEM | libc_codes::ENOBUFS
                ) {
                    socket.pause();
                    timer::sleep(EXHAUSTED_PAUSE_MS).await;
                    // If it still cannot be resumed, the next accept says so and the pause repeats.
                    let _ = socket.resume();
                }
            }
            None => leave(&worker.instance, frontend, listener),
        }
    }
}

/// Waits until one more connection fits in all limits, and counts it there.
async fn enter(instance: &Instance, frontend: ProxyId, listener: usize, socket: &mut Listener) {
    let gates = [
        &instance.process_gate,
        &instance.frontend_gates[frontend.0 as usize],
        &instance.listener_gates[listener],
    ];
    loop {
        let entered = gates.iter().take_while(|gate| gate.try_enter()).count();
        if entered == gates.len() {
            if socket.is_paused() {
                // As above: the next accept tells.
                let _ = socket.resume();
            }
            return;
        }
        gates[..entered].iter().for_each(|gate| gate.leave());
        socket.pause();
        let full = gates[entered];
        std::future::poll_fn(|_| if full.wait(current_task()) { Poll::Ready(()) } else { Poll::Pending }).await;
    }
}

fn leave(instance: &Instance, frontend: ProxyId, listener: usize) {
    instance.listener_gates[listener].leave();
    instance.frontend_gates[frontend.0 as usize].leave();
    instance.process_gate.leave();
}

async fn wait_while_paused(worker: &Worker) {
    std::future::poll_fn(|_| if worker.paused.get() { Poll::Pending } else { Poll::Ready(()) }).await;
}

/// Starts the session here, or on the thread with the fewest connections when the difference is worth the message.
fn dispatch(worker: &Rc<Worker>, listener: usize, fd: OwnedFd, peer: SockAddr, multi_queue: bool) {
    let instance = &worker.instance;
    let here = thread_index();
    if multi_queue && instance.threads.len() > 1 {
        let load = |thread: usize| instance.thread_load[thread].load(Ordering::Relaxed);
        let allowed = &instance.bind(listener).threads.0;
        let least = (0..instance.threads.len())
            .filter(|t| allowed.is_empty() || allowed.iter().any(|a| usize::from(*a) == *t))
            .min_by_key(|t| load(*t));
        if let Some(thread) = least.filter(|t| *t != here && load(*t) + IMBALANCE_MIN <= load(here)) {
            run_on(thread, move || {
                if let Some(worker) = worker::current() {
                    spawn_session(&worker, listener, fd, peer);
                }
            });
            return;
        }
    }
    spawn_session(worker, listener, fd, peer);
}

fn spawn_session(worker: &Rc<Worker>, listener: usize, fd: OwnedFd, peer: SockAddr) {
    let options = SpawnOptions { class: Class::Normal, nice: worker.instance.bind(listener).nice };
    spawn_with(&SESSION, options, session::serve(Rc::clone(worker), listener, fd, peer));
}
