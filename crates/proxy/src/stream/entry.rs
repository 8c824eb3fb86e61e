//! A stream as an operator sees it: who it belongs to, where it goes, and whether it was told to end.
//!
//! Each memory of a stream ([`super::StreamState`]) has an entry of its own for as long as it lives, and each thread has
//! the list of them. A stream writes to its entry with plain stores; the list grows only when a thread has more streams
//! at once than ever before. Nothing here is touched by another thread: the CLI asks each one.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use thalweg_config::model::{ProxyId, ServerId};
use thalweg_runtime::{Reason, TaskId, clock, current_task};
use thalweg_sample::facts::Endpoint;

/// See the module's documentation.
#[derive(Debug)]
pub struct Entry {
    /// The task that serves it; [`TaskId::NONE`] while there is no stream.
    task: Cell<TaskId>,
    /// Its number, as `%rt` shows it.
    id: Cell<u32>,
    began_ms: Cell<u64>,
    frontend: Cell<ProxyId>,
    source: Cell<Endpoint>,
    backend: Cell<Option<ProxyId>>,
    server: Cell<Option<ServerId>>,
    killed: Cell<bool>,
    /// The request line, once there is one.
    line: RefCell<Vec<u8>>,
    /// How many of the thread's are alive.
    alive: Rc<Cell<usize>>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.alive.set(self.alive.get() - 1);
    }
}

impl Entry {
    fn new(alive: Rc<Cell<usize>>) -> Entry {
        alive.set(alive.get() + 1);
        Entry {
            alive,
            task: Cell::new(TaskId::NONE),
            id: Cell::new(0),
            began_ms: Cell::new(0),
            frontend: Cell::new(ProxyId(0)),
            source: Cell::new(Endpoint::Unknown),
            backend: Cell::new(None),
            server: Cell::new(None),
            killed: Cell::new(false),
            line: RefCell::default(),
        }
    }
}

/// What an entry says at one moment.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The stream's number, as `%rt` shows it.
    pub id: u32,
    /// The task that serves it.
    pub task: TaskId,
    /// Millisecond it began.
    pub began_ms: u64,
    /// The frontend it came through.
    pub frontend: ProxyId,
    /// The client's address.
    pub source: Endpoint,
    /// The backend, once one was chosen.
    pub backend: Option<ProxyId>,
    /// The server, once one was assigned.
    pub server: Option<ServerId>,
    /// It was told to end.
    pub killed: bool,
    /// The request line, empty while there is none; `None` if it was not asked for.
    pub line: Option<Box<[u8]>>,
}

impl Entry {
    /// A stream begins, in the calling task.
    #[inline]
    pub fn begin(&self, id: u32, frontend: ProxyId, source: Endpoint) {
        self.task.set(current_task());
        self.id.set(id);
        self.began_ms.set(clock::now_ms());
        self.frontend.set(frontend);
        self.source.set(source);
        self.backend.set(None);
        self.server.set(None);
        self.killed.set(false);
        self.line.borrow_mut().clear();
    }

    /// The stream is over.
    #[inline]
    pub fn end(&self) {
        self.task.set(TaskId::NONE);
    }

    /// A backend was chosen.
    #[inline]
    pub fn set_backend(&self, backend: ProxyId) {
        self.backend.set(Some(backend));
    }

    /// A server was assigned.
    #[inline]
    pub fn set_server(&self, server: ServerId) {
        self.server.set(Some(server));
    }

    /// The request line was read.
    #[inline]
    pub fn set_line(&self, line: &[u8]) {
        let mut kept = self.line.borrow_mut();
        kept.clear();
        kept.extend_from_slice(line);
    }

    /// Whether an operator told the stream to end.
    #[inline]
    pub fn is_killed(&self) -> bool {
        self.killed.get()
    }

    /// What there is to see of it; with its request line only if `lines` are wanted.
    fn seen(&self, lines: bool) -> Option<Seen> {
        (self.task.get() != TaskId::NONE).then(|| Seen {
            id: self.id.get(),
            task: self.task.get(),
            began_ms: self.began_ms.get(),
            frontend: self.frontend.get(),
            source: self.source.get(),
            backend: self.backend.get(),
            server: self.server.get(),
            killed: self.killed.get(),
            line: lines.then(|| self.line.borrow().as_slice().into()),
        })
    }
}

/// The entries of a thread.
#[derive(Debug, Default)]
pub struct Entries {
    all: RefCell<Vec<Weak<Entry>>>,
    /// At this many, those whose memory is gone are looked for.
    crowded: Cell<usize>,
    alive: Rc<Cell<usize>>,
}

/// A list this long is not worth looking through.
const CROWDED_MIN: usize = 64;

impl Entries {
    /// A new entry, listed for as long as it lives.
    pub fn add(&self) -> Rc<Entry> {
        let entry = Rc::new(Entry::new(Rc::clone(&self.alive)));
        let mut all = self.all.borrow_mut();
        if all.len() >= self.crowded.get().max(CROWDED_MIN) {
            all.retain(|entry| entry.strong_count() > 0);
            self.crowded.set(all.len() * 2);
        }
        all.push(Rc::downgrade(&entry));
        entry
    }

    /// How many live, whether a stream uses them or not.
    pub fn alive(&self) -> usize {
        self.alive.get()
    }

    /// The streams at some positions of the list, at most `max` of them from `from` on, and the position to go on from;
    /// `None` at the end. Streams that come and go meanwhile may be missed. Request lines are copied only if `lines` are wanted.
    pub fn page(&self, from: usize, max: usize, lines: bool) -> (Vec<Seen>, Option<usize>) {
        let all = self.all.borrow();
        let rest = all.get(from..).unwrap_or(&[]);
        let page = &rest[..rest.len().min(max)];
        let seen = page.iter().filter_map(|entry| entry.upgrade()?.seen(lines)).collect();
        (seen, (rest.len() > max).then_some(from + max))
    }

    /// Tells the streams that `wanted` picks to end; how many they are.
    pub fn kill(&self, wanted: impl Fn(&Seen) -> bool) -> usize {
        let mut count = 0;
        for entry in self.all.borrow().iter().filter_map(Weak::upgrade) {
            let Some(seen) = entry.seen(false).filter(|seen| wanted(seen)) else { continue };
            entry.killed.set(true);
            seen.task.wake(Reason::OTHER);
            count += 1;
        }
        count
    }
}

/// Runs `future`, a stream's life, to its end, or until an operator ended the stream: `None` then. What was done until
/// then is let go, as everything a stream holds knows how to go.
pub async fn unless_killed<F: Future>(
    entry: Rc<Entry>,
    mut future: std::pin::Pin<&mut F>,
) -> Option<F::Output> {
    std::future::poll_fn(move |cx| match future.as_mut().poll(cx) {
        std::task::Poll::Ready(output) => std::task::Poll::Ready(Some(output)),
        std::task::Poll::Pending if entry.is_killed() => std::task::Poll::Ready(None),
        std::task::Poll::Pending => std::task::Poll::Pending,
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_what_lives_and_stays_small() {
        let entries = Entries::default();
        let kept: Vec<Rc<Entry>> = (0..10).map(|_| entries.add()).collect();
        for _ in 0..10_000 {
            drop(entries.add());
        }
        assert!(entries.all.borrow().len() <= 2 * CROWDED_MIN);
        assert_eq!(entries.alive(), 10);
        assert_eq!(entries.page(0, 1000, false).0.len(), 0, "none of them is a stream");
        drop(kept);
        assert_eq!(entries.kill(|_| true), 0);
    }
}
