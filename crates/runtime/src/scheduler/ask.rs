//! A task asks another thread for something, and waits for the answer.

use super::local;
use super::thread::Endpoint;
use crate::mailbox::Header;
use crate::mailbox::letter::{self, Carried, Content};
use crate::task::{Reason, TaskId};
use std::future::poll_fn;
use std::ptr::NonNull;
use std::task::Poll;

/// What a thread asks another one for.
pub trait Question: Sized + Send + 'static {
    /// What it gets.
    type Answer: Send + 'static;

    /// Runs on the thread that is asked, in its loop, and may spawn there. Who asked waits as long as there is the reply.
    fn put(self, reply: Reply<Self>);

    /// Runs on the thread that asked, when the task that did is gone before it has its answer. In a runtime that ends the answer is
    /// dropped on whatever thread it is.
    fn unclaimed(answer: Self::Answer) {
        drop(answer);
    }
}

/// The answer on its way. One that is dropped is an answer, too: there is none.
pub struct Reply<Q: Question>(Carried<Asking<Q>>);

impl<Q: Question> Reply<Q> {
    /// Answers.
    pub fn give(self, answer: Q::Answer) {
        self.0.give(Some(answer));
    }
}

/// Asks a thread of this runtime for something. `None` when there is nothing to be had: it said so, ended, or panicked. Neither the
/// question nor the answer takes a lock, or memory beyond the blocks that this thread keeps. When the calling task ends before it is
/// answered, what it would have got is [`Question::unclaimed`].
///
/// # Panics
/// Outside of a runtime's thread, or if there is no such thread.
pub async fn ask<Q: Question>(thread: usize, question: Q) -> Option<Q::Answer> {
    let local = local::expect_local();
    let there = local.runtime.threads[thread];
    let home = Home { endpoint: local.endpoint, task: local.current() };
    let (mut awaited, letter) = letter::write(Asking(question), home);
    // SAFETY: a fresh letter, which is carried by who wrote it.
    if !unsafe { there.send_letter(letter) } {
        // SAFETY: it was not sent.
        unsafe { letter::discard(letter) };
    }
    poll_fn(|_| awaited.take().map_or(Poll::Pending, Poll::Ready)).await
}

struct Asking<Q>(Q);

impl<Q: Question> Content for Asking<Q> {
    type Answer = Q::Answer;
    type Home = Home;

    fn put(self, reply: Carried<Asking<Q>>) {
        self.0.put(Reply(reply));
    }

    fn unclaimed(answer: Q::Answer) {
        Q::unclaimed(answer);
    }
}

/// Who asked. Endpoints are never freed.
#[derive(Clone, Copy)]
struct Home {
    endpoint: &'static Endpoint,
    task: TaskId,
}

impl letter::Home for Home {
    unsafe fn send(self, letter: NonNull<Header>) -> bool {
        // SAFETY: passed on.
        unsafe { self.endpoint.send_letter(letter) }
    }

    fn wake(self) {
        self.task.wake(Reason::MESSAGE);
    }
}
