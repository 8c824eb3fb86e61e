//! What a task is called, why it was woken, and how to wake it.

use std::fmt;
use std::panic::Location;

pub(crate) mod slot;
mod turn;
mod wait;

pub use turn::Turn;
pub use wait::{give_way, in_class, reasons, set_class, set_nice, yield_now};

/// Names a task of any thread: the thread's slot, the index of the task on it, and a generation that tells a task
/// from the next one with the same index. A stale identifier is harmless: waking or killing it does nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TaskId(u64);

const INDEX_BITS: u32 = 26;
const GENERATION_BITS: u32 = 28;
pub(crate) const GENERATION_MASK: u32 = (1 << GENERATION_BITS) - 1;

/// Threads (of all runtimes of the process) at one time.
pub const THREADS_MAX: usize = (1 << (64 - INDEX_BITS - GENERATION_BITS)) - 1;
/// Tasks of one thread at one time.
pub const TASKS_MAX: usize = 1 << INDEX_BITS;

impl TaskId {
    /// No task: what [`current_task`] returns outside of one.
    pub const NONE: TaskId = TaskId(u64::MAX);

    pub(crate) const fn new(slot: u32, index: u32, generation: u32) -> TaskId {
        let generation = (generation & GENERATION_MASK) as u64;
        TaskId(
            (slot as u64) << (INDEX_BITS + GENERATION_BITS) | (index as u64) << GENERATION_BITS | generation,
        )
    }

    /// The identifier as one word, for completion tokens; see [`TaskId::from_user_bits`].
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// The reverse of [`TaskId::to_bits`]. Any word is safe: one that names no task wakes nothing.
    pub const fn from_user_bits(bits: u64) -> TaskId {
        TaskId(bits)
    }

    pub(crate) const fn slot(self) -> u32 {
        (self.0 >> (INDEX_BITS + GENERATION_BITS)) as u32
    }

    pub(crate) const fn index(self) -> u32 {
        (self.0 >> GENERATION_BITS) as u32 & ((1 << INDEX_BITS) - 1)
    }

    pub(crate) const fn generation(self) -> u32 {
        self.0 as u32 & GENERATION_MASK
    }

    /// Wakes the task from any thread. On its own thread this is a push to the local run queue, without any atomic
    /// operation; from elsewhere it goes through the thread's mailbox. Wake-ups of a task that has not run yet are
    /// merged, with all their reasons.
    #[inline]
    #[track_caller]
    pub fn wake(self, reason: Reason) {
        crate::scheduler::wake(self, reason, Location::caller());
    }

    /// Wakes the task; the caller is on the task's thread (drivers use this). A task of another thread is woken
    /// through its mailbox all the same, so a mistake costs time, not correctness.
    #[inline]
    #[track_caller]
    pub fn wake_local(self, reason: Reason) {
        // Who waits for nothing has nobody to wake, which is asked for each frame that comes.
        if self != TaskId::NONE {
            crate::scheduler::wake(self, reason, Location::caller());
        }
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == TaskId::NONE {
            return f.write_str("TaskId(none)");
        }
        write!(f, "TaskId({}:{}#{})", self.slot(), self.index(), self.generation())
    }
}

/// Why a task runs: a set, merged over all wake-ups since it last ran.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Reason(pub u32);

impl Reason {
    /// Its first run.
    pub const SPAWN: Reason = Reason(1 << 0);
    /// A descriptor became ready or an operation completed.
    pub const IO: Reason = Reason(1 << 1);
    /// A deadline passed.
    pub const TIMER: Reason = Reason(1 << 2);
    /// Another task or thread sent something.
    pub const MESSAGE: Reason = Reason(1 << 3);
    /// It yielded.
    pub const YIELD: Reason = Reason(1 << 4);
    /// It is to be dropped instead of polled.
    pub const KILL: Reason = Reason(1 << 5);
    /// A resource (a buffer, a queue slot) came free.
    pub const RESOURCE: Reason = Reason(1 << 6);
    /// Through a standard [`std::task::Waker`], which carries no reason.
    pub const OTHER: Reason = Reason(1 << 7);

    /// No reason.
    pub const fn empty() -> Reason {
        Reason(0)
    }

    /// Whether all of `other` are among these reasons.
    pub const fn contains(self, other: Reason) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any of `other` is among these reasons.
    pub const fn intersects(self, other: Reason) -> bool {
        self.0 & other.0 != 0
    }
}

impl std::ops::BitOr for Reason {
    type Output = Reason;
    fn bitor(self, other: Reason) -> Reason {
        Reason(self.0 | other.0)
    }
}

impl std::ops::BitOrAssign for Reason {
    fn bitor_assign(&mut self, other: Reason) {
        self.0 |= other.0;
    }
}

impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 8] = ["SPAWN", "IO", "TIMER", "MESSAGE", "YIELD", "KILL", "RESOURCE", "OTHER"];
        let mut first = true;
        for (bit, name) in NAMES.iter().enumerate() {
            if self.0 & (1 << bit) != 0 {
                write!(f, "{}{name}", if first { "" } else { "|" })?;
                first = false;
            }
        }
        if first { f.write_str("none") } else { Ok(()) }
    }
}

/// The task being polled on this thread; [`TaskId::NONE`] outside of a poll.
#[inline]
pub fn current_task() -> TaskId {
    crate::scheduler::current_task()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_pack_and_unpack() {
        for (slot, index, generation) in [(0, 0, 0), (1022, (1 << 26) - 1, (1 << 28) - 1), (5, 77, 12345)] {
            let id = TaskId::new(slot, index, generation);
            assert_eq!((id.slot(), id.index(), id.generation()), (slot, index, generation));
            assert_eq!(TaskId::from_user_bits(id.to_bits()), id);
            assert_ne!(id, TaskId::NONE);
        }
    }

    #[test]
    fn reasons_merge() {
        let r = Reason::IO | Reason::TIMER;
        assert!(r.contains(Reason::IO) && !r.contains(Reason::IO | Reason::KILL));
        assert!(r.intersects(Reason::TIMER | Reason::KILL));
        assert_eq!(format!("{r:?} {:?}", Reason::empty()), "IO|TIMER none");
    }
}
