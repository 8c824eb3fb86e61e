//! What other threads may touch of a thread: its mailbox, whether it sleeps, and counters they read.
//!
//! Endpoints are found by the thread part of a [`crate::TaskId`] in a process-wide table, so that a waker needs no
//! reference to anything. They are never freed: when a thread ends, its endpoint waits for the next thread that
//! starts. A stale waker therefore always finds valid memory; what it wakes is decided by the owner.
//!
//! Invariants
//! - A [`RemoteSlot`] is in the mailbox exactly while its `reasons` are not zero, so a task that is woken many times
//!   from elsewhere is in the mailbox once, and sending needs no memory.
//! - The owner takes a slot out of the mailbox before it zeroes the reasons; only then may it be sent again.
//! - `sleep` and the two ends of the mailbox lie on cache lines of their own; so does each remote slot.

use super::local::Job;
use super::shared::SharedTasks;
use crate::driver::RemoteWaker;
use crate::mailbox::queue::{Node, Pop, Queue};
use crate::mailbox::sleep::{Bell, Sleep};
use crate::mailbox::{Header, JOB, LETTER, WAKE, letter};
use crate::pages::Pages;
use crate::profile::{Activity, Costs};
use crate::task::{Reason, TASKS_MAX, THREADS_MAX};
use crossbeam_utils::CachePadded;
use std::io;
use std::panic::Location;
use std::ptr::{self, NonNull};
use std::sync::{OnceLock, PoisonError};

use thalweg_shared::{AtomicBool, AtomicPtr, AtomicU32, Mutex, Ordering};

/// How a task is woken from elsewhere. All-zero is the valid initial state.
#[repr(C, align(64))]
struct RemoteSlot {
    header: Header,
    index: AtomicU32,
    reasons: AtomicU32,
    from: AtomicPtr<Location<'static>>,
}

#[repr(C)]
struct JobMessage {
    header: Header,
    job: Job,
}

const CHUNK: usize = 1024;
const CHUNKS: usize = TASKS_MAX / CHUNK;

/// What the owner finds in its mailbox.
pub(crate) enum Mail {
    None,
    /// A producer is half-way: look again soon.
    Busy,
    Wake {
        index: u32,
        reason: Reason,
        from: &'static Location<'static>,
    },
    Job(Job),
    /// To be opened, or discarded.
    Letter(NonNull<Header>),
}

/// See the module.
pub(crate) struct Endpoint {
    mailbox: Queue,
    pub(crate) sleep: CachePadded<Sleep>,
    /// Wakes the owner out of its poll, and whoever is the owner after it: so it is there without a lock for who looks. None
    /// before the first one has its driver.
    waker: OnceLock<RemoteWaker>,
    open: AtomicBool,
    /// The owner never announces its sleep (it is the only thread of its runtime): the bell is used instead.
    alone: AtomicBool,
    pub(crate) bell: CachePadded<Bell>,
    // 512 kB, of which hardly any are touched.
    remote: &'static [AtomicPtr<RemoteSlot>],
    epoch: AtomicU32,
    pub(crate) activity: CachePadded<Activity>,
    pub(crate) costs: Costs,
}

/// An entry of the table: a thread, or the shared tasks of a runtime.
pub(crate) enum Entry {
    Thread(Endpoint),
    Tasks(SharedTasks),
}

static ENTRIES: [AtomicPtr<Entry>; THREADS_MAX] = [const { AtomicPtr::new(ptr::null_mut()) }; THREADS_MAX];

struct Free {
    used: u32,
    threads: Vec<u32>,
    tasks: Vec<u32>,
}

static FREE: Mutex<Free> = Mutex::new(Free { used: 0, threads: Vec::new(), tasks: Vec::new() });

/// The entry of a thread number.
#[inline]
pub(crate) fn entry(slot: u32) -> Option<&'static Entry> {
    let entry = ENTRIES.get(slot as usize)?.load(Ordering::Acquire);
    // SAFETY: entries come from leaked boxes and are never freed.
    unsafe { entry.as_ref() }
}

/// Takes a number and its endpoint for a new thread.
pub(crate) fn claim_thread() -> Option<(u32, &'static Endpoint)> {
    let slot = claim(|free| free.threads.pop(), || Entry::Thread(Endpoint::new()))?;
    match entry(slot) {
        Some(Entry::Thread(endpoint)) => Some((slot, endpoint)),
        _ => None,
    }
}

/// Takes a number for a runtime's shared tasks.
pub(crate) fn claim_tasks() -> Option<(u32, &'static SharedTasks)> {
    let slot = claim(|free| free.tasks.pop(), || Entry::Tasks(SharedTasks::new()))?;
    match entry(slot) {
        Some(Entry::Tasks(tasks)) => Some((slot, tasks)),
        _ => None,
    }
}

fn claim(reuse: impl FnOnce(&mut Free) -> Option<u32>, make: impl FnOnce() -> Entry) -> Option<u32> {
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(slot) = reuse(&mut free) {
        return Some(slot);
    }
    let slot = free.used;
    // The number itself is kept out of reach of `TaskId::NONE`, whose thread part is all ones.
    let entry = ENTRIES.get(slot as usize)?;
    free.used += 1;
    entry.store(Box::leak(Box::new(make())), Ordering::Release);
    Some(slot)
}

/// Gives a number back; its thread has ended.
pub(crate) fn release(slot: u32) {
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    match entry(slot) {
        Some(Entry::Thread(_)) => free.threads.push(slot),
        Some(Entry::Tasks(_)) => free.tasks.push(slot),
        None => {}
    }
}

/// Room for all chunks, of which there is none yet. Endpoints are there for as long as the process.
fn no_chunks() -> &'static [AtomicPtr<RemoteSlot>] {
    let pages = Pages::of::<AtomicPtr<RemoteSlot>>(CHUNKS);
    let start = pages.leak().cast::<AtomicPtr<RemoteSlot>>();
    // SAFETY: there are as many, they are never freed, and one that is all zeros is a null pointer.
    unsafe { std::slice::from_raw_parts(start.as_ptr(), CHUNKS) }
}

impl Endpoint {
    fn new() -> Endpoint {
        Endpoint {
            mailbox: Queue::new(),
            sleep: CachePadded::new(Sleep::new()),
            waker: OnceLock::new(),
            open: AtomicBool::new(false),
            alone: AtomicBool::new(false),
            bell: CachePadded::new(Bell::new()),
            remote: no_chunks(),
            epoch: AtomicU32::new(0),
            activity: CachePadded::new(Activity::default()),
            costs: Costs::default(),
        }
    }

    /// Where the generations of the next owner's tasks start: far from those of the last one's.
    pub(crate) fn next_generation(&self) -> u32 {
        self.epoch.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9)
    }

    /// The owner starts: messages are accepted from here on. `alone` when no other thread of its runtime exists.
    pub(crate) fn open(&self, alone: bool) {
        self.sleep.awake();
        self.alone.store(alone, Ordering::Relaxed);
        self.bell.answer();
        self.activity.reset();
        self.costs.reset();
        // SAFETY: called by the owner, before its loop.
        unsafe { self.discard() };
        self.open.store(true, Ordering::Release);
    }

    /// What the owner's driver is woken by.
    pub(crate) fn waker(&self) -> io::Result<&RemoteWaker> {
        if let Some(waker) = self.waker.get() {
            return Ok(waker);
        }
        let waker = RemoteWaker::new()?;
        Ok(self.waker.get_or_init(|| waker))
    }

    /// The owner ends: later messages are dropped.
    pub(crate) fn close(&self) {
        self.open.store(false, Ordering::Release);
        self.alone.store(false, Ordering::Relaxed);
        self.sleep.awake();
        // SAFETY: still the owner.
        unsafe { self.discard() };
    }

    /// Empties the mailbox without running anything. What comes when its owner has looked for the last time is found when the last
    /// thread of the runtime is gone.
    ///
    /// # Safety
    /// Only the owner may call this.
    pub(crate) unsafe fn discard(&self) {
        loop {
            // SAFETY: passed on.
            match unsafe { self.take() } {
                Mail::None | Mail::Busy => return,
                Mail::Wake { .. } | Mail::Job(_) => {}
                // SAFETY: whoever took it out of the mailbox carries it.
                Mail::Letter(letter) => unsafe { letter::discard(letter) },
            }
        }
    }

    /// Wakes one task of this thread, from another one.
    pub(crate) fn send_wake(&self, index: u32, reason: Reason, from: &'static Location<'static>) {
        let slot = self.remote_slot(index);
        slot.from.store(ptr::from_ref(from).cast_mut(), Ordering::Relaxed);
        if slot.reasons.fetch_or(reason.0, Ordering::AcqRel) == 0 {
            // SAFETY: the reasons were zero, so the slot is in no queue and now ours to queue; it is never freed.
            unsafe { self.mailbox.push(NonNull::from(slot).cast()) };
            self.notify();
        }
    }

    /// Sends a job to this thread. Dropped when the thread has ended.
    pub(crate) fn send_job(&self, job: Job) {
        if !self.open.load(Ordering::Acquire) {
            return;
        }
        let message = Box::new(JobMessage { header: Header { node: Node::new(), what: JOB }, job });
        // SAFETY: a fresh node, freed by `take` after its pop.
        unsafe { self.mailbox.push(NonNull::from(Box::leak(message)).cast()) };
        self.notify();
    }

    /// Sends a letter to this thread. False, and the caller carries it still, when the thread has ended.
    ///
    /// # Safety
    /// The caller carries the letter, and no longer does when this is true.
    pub(crate) unsafe fn send_letter(&self, letter: NonNull<Header>) -> bool {
        let open = self.open.load(Ordering::Acquire);
        if open {
            // SAFETY: what is carried is in no queue, and stays until it was opened or discarded.
            unsafe { self.mailbox.push(letter.cast()) };
            self.notify();
        }
        open
    }

    /// After a push: wakes the owner if it sleeps.
    fn notify(&self) {
        let wake = if self.alone.load(Ordering::Relaxed) { self.bell.ring() } else { self.sleep.must_wake() };
        if wake {
            self.wake_now();
        }
    }

    /// Wakes the owner out of its poll, whether it sleeps or not.
    pub(crate) fn wake_now(&self) {
        if let Some(waker) = self.waker.get() {
            waker.wake();
        }
    }

    /// Takes the oldest message.
    ///
    /// # Safety
    /// Only the owner may call this.
    pub(crate) unsafe fn take(&self) -> Mail {
        // SAFETY: passed on.
        let node = match unsafe { self.mailbox.pop() } {
            Pop::Empty => return Mail::None,
            Pop::Busy => return Mail::Busy,
            Pop::Node(node) => node,
        };
        // SAFETY: every node in a mailbox starts a `Header`.
        match unsafe { node.cast::<Header>().as_ref() }.what {
            JOB => {
                // SAFETY: such a header starts a boxed `JobMessage`, which the queue has let go.
                let message = unsafe { Box::from_raw(node.cast::<JobMessage>().as_ptr()) };
                return Mail::Job(message.job);
            }
            LETTER => return Mail::Letter(node.cast()),
            _ => {}
        }
        // SAFETY: the other kind starts a `RemoteSlot`, never freed.
        let slot = unsafe { node.cast::<RemoteSlot>().as_ref() };
        let index = slot.index.load(Ordering::Relaxed);
        // From here on it may be sent again.
        let reason = Reason(slot.reasons.swap(0, Ordering::AcqRel));
        // SAFETY: stored before the push from a `&'static Location`.
        let from = unsafe { &*slot.from.load(Ordering::Relaxed) };
        Mail::Wake { index, reason, from }
    }

    /// Whether nothing was sent. Only exact after [`Sleep::announce`].
    ///
    /// # Safety
    /// Only the owner may call this.
    pub(crate) unsafe fn is_empty(&self) -> bool {
        // SAFETY: passed on.
        unsafe { self.mailbox.is_empty() }
    }

    #[inline]
    fn remote_slot(&self, index: u32) -> &RemoteSlot {
        let chunk = self.remote[index as usize / CHUNK].load(Ordering::Acquire);
        let chunk = if chunk.is_null() { self.add_chunk(index) } else { chunk };
        // SAFETY: chunks have CHUNK slots, all-zero is valid, and they are never freed.
        let slot = unsafe { &*chunk.add(index as usize % CHUNK) };
        slot.index.store(index, Ordering::Relaxed);
        slot
    }

    #[cold]
    fn add_chunk(&self, index: u32) -> *mut RemoteSlot {
        // Pages no task was woken through stay untouched.
        let pages = Pages::of::<RemoteSlot>(CHUNK);
        let chunk = pages.start().cast::<RemoteSlot>().as_ptr();
        let place = &self.remote[index as usize / CHUNK];
        match place.compare_exchange(ptr::null_mut(), chunk, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                pages.leak();
                chunk
            }
            Err(theirs) => theirs,
        }
    }
}

const _: () = assert!(WAKE == 0, "zeroed remote slots are wake messages");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_chunks_takes_memory_only_where_it_is_used() {
        // SAFETY: of this process only: a huge page would be there as a whole.
        unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
        let endpoint = Endpoint::new();
        assert_eq!(crate::pages::resident(endpoint.remote), 0);
        endpoint.remote_slot(0);
        assert_eq!(crate::pages::resident(endpoint.remote), 1);
    }
}
