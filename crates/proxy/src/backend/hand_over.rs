//! An idle server connection goes from the thread that owns it to one that needs it, by message.

use std::os::fd::OwnedFd;
use std::sync::{Arc, PoisonError};
use std::task::Poll;

use thalweg_runtime::{Kind, Reason, TaskId, current_task, run_on, spawn};
use thalweg_shared::Mutex;

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

/// Asks thread `owner` for an idle connection to the server with that flat number, made after `moves` changes of its
/// address. When the asking task ends before the
/// answer comes, the connection is closed.
pub async fn ask(
    owner: usize,
    server: usize,
    moves: u32,
    key: Option<ConnectionKey>,
    proven_only: bool,
) -> Option<Handed> {
    let answer: Answer = Arc::default();
    let asking = current_task();
    let reply = Reply { answer: Arc::clone(&answer), asking, handed: None };
    run_on(owner, move || {
        // Cancelling a receive that runs ahead can take a moment, hence a task.
        spawn(&HAND_OVER, async move {
            crate::plant::here("hand-over");
            let handed = take(server, moves, key.as_ref(), proven_only).await;
            reply.send(handed);
        });
    });
    std::future::poll_fn(|_| match answer.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(handed) => Poll::Ready(handed),
        None => Poll::Pending,
    })
    .await
}

/// The answer on its way: whoever asked hears of it however the owner's task ends.
struct Reply {
    answer: Answer,
    asking: TaskId,
    handed: Option<Handed>,
}

impl Reply {
    fn send(mut self, handed: Option<Handed>) {
        self.handed = handed;
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.handed.take());
        self.asking.wake(Reason::MESSAGE);
    }
}

/// Takes a connection out of this thread's pool and off this thread.
async fn take(server: usize, moves: u32, key: Option<&ConnectionKey>, proven_only: bool) -> Option<Handed> {
    let worker = worker::current()?;
    let idle =
        worker.with_pool(server, |pool| pool.follow(moves).then(|| pool.take(key, proven_only)).flatten())?;
    let requests = idle.requests;
    let mut io = idle.port.line.into_wire()?;
    std::future::poll_fn(|_| io.poll_detach()).await;
    match io.into_fd() {
        Some((fd, ahead)) if ahead.is_empty() => Some(Handed { fd, requests }),
        _ => None,
    }
}
