//! The state of a task that any thread may run, in one word.
//!
//! ```text
//!            wake: push            take                  ready
//!   Idle ------------------> Queued -----> Running -------------------> Free (next generation)
//!    ^                          ^            |  | wake
//!    |           pending        |            |  v
//!    +---------------------------------------+ RunningWoken
//!                               |   pending: push  |
//!                               +------------------+
//! ```
//!
//! The word holds generation, state and the merged reasons; every change is one exchange of it, so exactly one
//! caller learns that it must push the task.

use crate::sync::{AtomicU64, Ordering, spin_loop};

const FREE: u64 = 0;
const IDLE: u64 = 1;
const QUEUED: u64 = 2;
const RUNNING: u64 = 3;
const RUNNING_WOKEN: u64 = 4;

const REASONS: u64 = (1 << 24) - 1;
const STATE_SHIFT: u32 = 24;
const STATE: u64 = 0xff << STATE_SHIFT;
const GENERATION_SHIFT: u32 = 32;

fn state(word: u64) -> u64 {
    (word & STATE) >> STATE_SHIFT
}

fn with_state(word: u64, state: u64) -> u64 {
    word & !STATE | state << STATE_SHIFT
}

/// What to do after a poll that was pending.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// Nothing: the next wake-up pushes it.
    Rest,
    /// It was woken meanwhile: push it.
    Push,
    /// It was killed meanwhile: drop it.
    Drop,
}

#[cfg(not(planted))]
const HAND_OVER: Ordering = Ordering::AcqRel;
/// The planted bug: the next thread may see the future as it was before the last poll.
#[cfg(planted)]
const HAND_OVER: Ordering = Ordering::Relaxed;

/// See the module. All-zero is a free slot of generation 0.
pub(crate) struct SharedState(AtomicU64);

impl SharedState {
    #[cfg(test)]
    pub(crate) fn new() -> SharedState {
        SharedState(AtomicU64::new(0))
    }

    fn update(&self, change: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let next = change(word)?;
            match self.0.compare_exchange_weak(word, next, HAND_OVER, Ordering::Relaxed) {
                Ok(_) => return Some(word),
                Err(now) => word = now,
            }
            spin_loop();
        }
    }

    /// The owner of a free slot makes it a queued task, with `reasons`. Returns the generation.
    pub(crate) fn start(&self, reasons: u32) -> u32 {
        let word = self.0.load(Ordering::Relaxed);
        debug_assert_eq!(state(word), FREE);
        let generation = word >> GENERATION_SHIFT;
        self.0.store(
            generation << GENERATION_SHIFT | QUEUED << STATE_SHIFT | reasons as u64 & REASONS,
            Ordering::Release,
        );
        generation as u32
    }

    /// Adds reasons. True when the caller must push the task.
    #[must_use]
    pub(crate) fn wake(&self, generation: u32, reasons: u32) -> bool {
        let before = self.update(|word| {
            if word >> GENERATION_SHIFT != generation as u64 {
                return None;
            }
            let next = match state(word) {
                FREE => return None,
                IDLE => QUEUED,
                RUNNING => RUNNING_WOKEN,
                same => same,
            };
            Some(with_state(word, next) | reasons as u64 & REASONS)
        });
        before.is_some_and(|word| state(word) == IDLE)
    }

    /// Who popped the task starts to run it. Returns generation and reasons.
    pub(crate) fn take(&self) -> (u32, u32) {
        let word = self.update(|word| Some(with_state(word & !REASONS, RUNNING))).unwrap_or_default();
        debug_assert_eq!(state(word), QUEUED);
        ((word >> GENERATION_SHIFT) as u32, (word & REASONS) as u32)
    }

    /// Its poll was pending. `kill` are the reasons that end it.
    pub(crate) fn rest(&self, kill: u32) -> After {
        let word = self
            .update(|word| match state(word) {
                RUNNING => Some(with_state(word, IDLE)),
                _ if word & kill as u64 != 0 => Some(word),
                _ => Some(with_state(word, QUEUED)),
            })
            .unwrap_or_default();
        match state(word) {
            RUNNING => After::Rest,
            _ if word & kill as u64 != 0 => After::Drop,
            _ => After::Push,
        }
    }

    /// It is over, and its future dropped: the slot is free, under the next generation.
    pub(crate) fn finish(&self, mask: u32) {
        self.update(|word| {
            Some((((word >> GENERATION_SHIFT) as u32).wrapping_add(1) & mask) as u64 * (1 << 32))
        });
    }

    /// Whether a task is here. Only meaningful when nobody runs it.
    pub(crate) fn is_live(&self) -> bool {
        state(self.0.load(Ordering::Acquire)) != FREE
    }

    /// Its generation now.
    pub(crate) fn generation(&self) -> u32 {
        (self.0.load(Ordering::Acquire) >> GENERATION_SHIFT) as u32
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn transitions() {
        let s = SharedState::new();
        assert!(!s.wake(0, 1), "free");
        assert_eq!(s.start(1), 0);
        assert!(!s.wake(0, 2), "queued already");
        assert_eq!(s.take(), (0, 3), "reasons are merged");
        assert_eq!(s.rest(16), After::Rest);
        assert!(s.wake(0, 4));
        assert_eq!(s.take(), (0, 4));
        assert!(!s.wake(0, 8), "running");
        assert_eq!(s.rest(16), After::Push);
        assert_eq!(s.take(), (0, 8));
        assert!(!s.wake(0, 16));
        assert_eq!(s.rest(16), After::Drop);
        s.finish(u32::MAX);
        assert!(!s.is_live());
        assert!(!s.wake(0, 1), "stale");
        assert_eq!(s.start(1), 1);
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::mailbox::ring::Ring;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;

    struct Task {
        state: SharedState,
        ring: Ring,
        /// Stands for the future: only one thread may touch it at a time.
        polls: UnsafeCell<u32>,
    }

    impl Task {
        fn wake(&self) {
            if self.state.wake(0, 2) {
                assert!(self.ring.push(0), "queued once at most");
            }
        }

        /// What a thread does with the ring: runs the task if it is there. Returns the reasons.
        fn run(&self) -> u32 {
            if self.ring.pop().is_none() {
                return 0;
            }
            let (_, reasons) = self.state.take();
            // SAFETY: loom checks that no other thread does the same.
            self.polls.with_mut(|p| unsafe { *p += 1 });
            if self.state.rest(0) == After::Push {
                assert!(self.ring.push(0), "queued once at most");
            }
            reasons
        }
    }

    /// A task is run by one thread while another wakes it and would run it too. It is never in the queue twice, never
    /// run by two threads at once, and runs again after the wake-up. Seen to fail with `--cfg planted`, which relaxes
    /// the exchange of the word: "Causality violation" on the future.
    #[test]
    fn loom_shared_task_runs_on_one_thread_at_a_time() {
        loom::model(|| {
            let task =
                Arc::new(Task { state: SharedState::new(), ring: Ring::new(2), polls: UnsafeCell::new(0) });
            task.state.start(1);
            assert!(task.ring.push(0));
            let other = {
                let task = task.clone();
                loom::thread::spawn(move || {
                    task.wake();
                    task.run()
                })
            };
            let mut seen = task.run();
            seen |= other.join().unwrap();
            loop {
                match task.run() {
                    0 => break,
                    reasons => seen |= reasons,
                }
            }
            assert_eq!(seen, 3, "no reason is lost");
        });
    }
}
