//! The connections to a server that never has more of them than its `maxconn` (manual: `strict-maxconn`).
//!
//! A connection has a seat from before it is opened until it is closed, in use or idle, on whatever thread it is. Who finds no
//! seat free closes an idle connection of its own thread, or else has another thread close one. If none is idle, it waits: what
//! becomes idle meanwhile is closed instead of kept, and so is what sessions keep for themselves, unless a client authenticated on
//! it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use thalweg_runtime::{Reason, TaskId, current_task};
use thalweg_shared::{AtomicU32, Mutex, MutexGuard};

/// The seats of one server.
#[derive(Default)]
pub struct Seats {
    taken: AtomicU32,
    /// How many wait for one.
    wanted: AtomicU32,
    waiting: Mutex<Vec<TaskId>>,
    /// Sessions that keep an idle connection for themselves.
    keepers: Mutex<Vec<TaskId>>,
}

fn locked(tasks: &Mutex<Vec<TaskId>>) -> MutexGuard<'_, Vec<TaskId>> {
    tasks.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wake_all(tasks: &Mutex<Vec<TaskId>>) {
    locked(tasks).iter().for_each(|task| task.wake(Reason::MESSAGE));
}

fn remove(tasks: &mut Vec<TaskId>, task: TaskId) {
    if let Some(at) = tasks.iter().position(|other| *other == task) {
        tasks.swap_remove(at);
    }
}

impl Seats {
    /// One of `limit` seats, of which 0 is any number of.
    pub(super) fn take(self: &Arc<Seats>, limit: u32) -> Option<Seat> {
        let one_more = |taken: u32| (limit == 0 || taken < limit).then_some(taken + 1);
        let taken = self.taken.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more);
        taken.is_ok().then(|| Seat(Arc::clone(self)))
    }

    fn change_waiting(&self, change: impl FnOnce(&mut Vec<TaskId>)) {
        let mut waiting = locked(&self.waiting);
        change(&mut waiting);
        self.wanted.store(u32::try_from(waiting.len()).unwrap_or(u32::MAX), Ordering::SeqCst);
    }
}

/// A seat that is taken, until this is dropped: after what sits on it.
pub struct Seat(Arc<Seats>);

impl Seat {
    /// Whether somebody waits for a seat, so that a connection without a request should be closed.
    pub fn is_wanted(&self) -> bool {
        self.0.wanted.load(Ordering::SeqCst) > 0
    }

    /// A session that keeps the connection for itself is woken when a seat is wanted.
    pub fn tell(&self, keeper: TaskId) -> Told {
        locked(&self.0.keepers).push(keeper);
        Told { seats: Arc::clone(&self.0), keeper }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::SeqCst);
        if self.is_wanted() {
            wake_all(&self.0.waiting);
        }
    }
}

/// A session among those that are woken when a seat is wanted.
pub struct Told {
    seats: Arc<Seats>,
    keeper: TaskId,
}

impl Drop for Told {
    fn drop(&mut self) {
        remove(&mut locked(&self.seats.keepers), self.keeper);
    }
}

/// The current task among those that wait.
pub(super) struct Waiting<'a>(&'a Seats, TaskId);

impl Waiting<'_> {
    pub(super) fn begin(seats: &Seats) -> Waiting<'_> {
        let task = current_task();
        seats.change_waiting(|waiting| waiting.push(task));
        wake_all(&seats.keepers);
        Waiting(seats, task)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.change_waiting(|waiting| remove(waiting, self.1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_seats_as_the_limit_says() {
        let seats = Arc::new(Seats::default());
        let first = seats.take(2);
        let second = seats.take(2);
        assert!(first.is_some() && second.is_some());
        assert!(seats.take(2).is_none(), "both are taken");
        assert!(seats.take(0).is_some(), "without a limit");
        drop(first);
        let third = seats.take(2);
        assert!(third.is_some(), "one was given back");
        assert!(seats.take(1).is_none(), "a lower limit holds for those that come");
    }
}
