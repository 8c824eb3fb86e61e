//! An idle server connection goes from the thread that owns it to one that needs it, by message.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use thalweg_runtime::{Kind, Reason, current_task, run_on, spawn};

use super::pool::ConnectionKey;
use crate::worker;

static HAND_OVER: Kind = Kind::new("hand-over");

/// A connection on its way between threads.
pub struct Handed {
    pub fd: OwnedFd,
    /// Requests it has carried.
    pub requests: u32,
}

/// The answer of the owner: `None` while it is awaited, `Some(None)` when there is no such connection after all.
type Answer = Arc<Mutex<Option<Option<Handed>>>>;

/// Asks thread `owner` for an idle connection to the server with that flat number. When the asking task ends before the
/// answer comes, the connection is closed.
pub async fn ask(
    owner: usize,
    server: usize,
    key: Option<ConnectionKey>,
    proven_only: bool,
) -> Option<Handed> {
    let answer: Answer = Arc::default();
    let asking = current_task();
    let reply = Arc::clone(&answer);
    run_on(owner, move || {
        // Cancelling a receive that runs ahead can take a moment, hence a task.
        spawn(&HAND_OVER, async move {
            let handed = take(server, key.as_ref(), proven_only).await;
            *reply.lock().unwrap_or_else(PoisonError::into_inner) = Some(handed);
            asking.wake(Reason::MESSAGE);
        });
    });
    std::future::poll_fn(|_| match answer.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(handed) => Poll::Ready(handed),
        None => Poll::Pending,
    })
    .await
}

/// Takes a connection out of this thread's pool and off this thread.
async fn take(server: usize, key: Option<&ConnectionKey>, proven_only: bool) -> Option<Handed> {
    let worker = worker::current()?;
    let (taken, dropped) = worker.pools.borrow_mut()[server].take(key, proven_only);
    let gone = dropped + usize::from(taken.is_some());
    worker.idle_count.set(worker.idle_count.get() - gone);
    worker.counters().servers[server].idle_connections.sub(gone as u64);
    let mut idle = taken?;
    std::future::poll_fn(|_| idle.io.poll_detach()).await;
    match idle.io.into_fd() {
        Ok((fd, ahead)) if ahead.is_empty() => Some(Handed { fd, requests: idle.requests }),
        _ => None,
    }
}
