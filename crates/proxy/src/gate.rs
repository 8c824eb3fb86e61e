//! A limit on how many of something exist at once, shared by all threads: connections of the process, of a frontend,
//! of a listener. Entering costs one locked addition per connection, never per request.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::task::Poll;

use thalweg_runtime::{Reason, TaskId, current_task};
use thalweg_shared::{AtomicBool, AtomicU32, Mutex};

/// See the module's documentation.
pub struct Gate {
    current: AtomicU32,
    peak: AtomicU32,
    /// How often the last place was taken.
    filled: AtomicU32,
    /// 0: no limit.
    limit: AtomicU32,
    has_waiters: AtomicBool,
    waiters: Mutex<Vec<TaskId>>,
}

/// One that lets all through.
impl Default for Gate {
    fn default() -> Gate {
        Gate::new(0)
    }
}

impl Gate {
    /// A gate that lets `limit` through, 0 for all.
    pub fn new(limit: u32) -> Gate {
        Gate {
            current: AtomicU32::new(0),
            peak: AtomicU32::new(0),
            filled: AtomicU32::new(0),
            limit: AtomicU32::new(limit),
            has_waiters: AtomicBool::new(false),
            waiters: Mutex::new(Vec::new()),
        }
    }

    /// How many are inside.
    pub fn current(&self) -> u32 {
        self.current.load(Ordering::Relaxed)
    }

    /// The most that were inside at once.
    pub fn peak(&self) -> u32 {
        self.peak.load(Ordering::Relaxed)
    }

    /// How often somebody took the last place. Wraps.
    pub fn filled(&self) -> u32 {
        self.filled.load(Ordering::Relaxed)
    }

    /// Forgets how many were inside at once.
    pub fn reset_peak(&self) {
        self.peak.store(self.current(), Ordering::Relaxed);
    }

    /// The limit, 0 for none.
    pub fn limit(&self) -> u32 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Changes the limit and lets those who wait try again.
    pub fn set_limit(&self, limit: u32) {
        self.limit.store(limit, Ordering::Relaxed);
        self.wake_waiters();
    }

    /// Enters when there is room.
    pub fn try_enter(&self) -> bool {
        let limit = self.limit.load(Ordering::Relaxed);
        let inside = self.current.fetch_add(1, Ordering::SeqCst) + 1;
        if limit != 0 && inside > limit {
            self.current.fetch_sub(1, Ordering::SeqCst);
            return false;
        }
        self.entered(inside, limit);
        true
    }

    /// Enters as soon as there is room.
    pub async fn enter_in_turn(&self) {
        while !self.try_enter() {
            std::future::poll_fn(|_| match self.wait(current_task()) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            })
            .await;
        }
    }

    /// Enters even when there is no room: for what was accepted already and for what must never be refused.
    pub fn enter(&self) {
        let limit = self.limit.load(Ordering::Relaxed);
        let inside = self.current.fetch_add(1, Ordering::SeqCst) + 1;
        self.entered(inside, limit);
    }

    fn entered(&self, inside: u32, limit: u32) {
        self.peak.fetch_max(inside, Ordering::Relaxed);
        if limit != 0 && inside >= limit {
            self.filled.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// As if so many were inside, but for one place where there is a limit: for what has just begun.
    pub(crate) fn occupy(&self, inside: u32) {
        let room = self.limit().checked_sub(1).unwrap_or(u32::MAX);
        self.current.fetch_add(inside.min(room), Ordering::SeqCst);
    }

    /// Leaves, and lets those who wait try again.
    pub fn leave(&self) {
        self.current.fetch_sub(1, Ordering::SeqCst);
        if self.has_waiters.load(Ordering::SeqCst) {
            self.wake_waiters();
        }
    }

    /// Whether one more would fit.
    pub fn has_room(&self) -> bool {
        let limit = self.limit.load(Ordering::Relaxed);
        limit == 0 || self.current.load(Ordering::SeqCst) < limit
    }

    /// Has `task` woken once somebody leaves. True when there is room after all: then it need not wait.
    pub fn wait(&self, task: TaskId) -> bool {
        let mut waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        if !waiters.contains(&task) {
            waiters.push(task);
        }
        // The flag is raised before the count is read again, and `leave` lowers the count before it reads the flag:
        // one of the two sees the other, so that nobody sleeps beside a free place.
        self.has_waiters.store(true, Ordering::SeqCst);
        self.has_room()
    }

    fn wake_waiters(&self) {
        let waiting = {
            let mut waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
            self.has_waiters.store(false, Ordering::SeqCst);
            std::mem::take(&mut *waiters)
        };
        for task in waiting {
            task.wake(Reason::OTHER);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_counts_and_refuses() {
        let gate = Gate::new(2);
        assert!(gate.try_enter() && gate.try_enter() && !gate.try_enter());
        assert_eq!((gate.current(), gate.peak(), gate.filled()), (2, 2, 1));
        gate.enter();
        assert_eq!((gate.current(), gate.peak(), gate.has_room(), gate.filled()), (3, 3, false, 2));
        gate.leave();
        gate.leave();
        assert!(gate.has_room() && gate.try_enter());
        gate.set_limit(0);
        assert!(gate.try_enter() && gate.try_enter());
    }
}
