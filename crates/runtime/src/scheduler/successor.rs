//! What a task goes on with when its future is ready.
//!
//! A task that was something large and becomes something small (or the other way round) can change its future, and with that the
//! memory that it has, without becoming another task for those that know it.
//!
//! Invariants
//! - The thread has a successor only while the task that asked for it runs: the end of that run takes it, whatever end that is. A
//!   ready future is followed by it; a task that was killed, panicked or waits after all drops it.
//! - Who asks is in state `Running` or `RunningWoken`, and in the latter from then on: so only runs that end like that look for one,
//!   and what is dropped (state `Dying`) cannot come back.

use super::local::expect_local;
use crate::task::Reason;
use crate::task::slot::{Slot, State, Storage, Vtable, place};
use std::future::Future;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::{self, NonNull};

/// The next future of a task, before its first poll.
pub(crate) struct Successor {
    storage: Storage,
    vtable: &'static Vtable,
}

impl Successor {
    fn new(future: impl Future<Output = ()> + 'static) -> Successor {
        let mut storage = MaybeUninit::<Storage>::uninit();
        // SAFETY: the place is valid for writes and holds no future. It is moved from here on, but never after a poll.
        let vtable = unsafe { place(NonNull::from(&mut storage).cast(), future) };
        // SAFETY: `place` filled it; a future that is smaller leaves bytes that a union need not have.
        Successor { storage: unsafe { storage.assume_init() }, vtable }
    }

    /// Takes the place of a task's future, which was dropped. The task is to be queued. False, and the successor is dropped, when
    /// the task was killed meanwhile.
    pub(crate) fn take_over(self, slot: &Slot) -> bool {
        debug_assert_eq!(slot.state.get(), State::Dying);
        if slot.reasons.get() & Reason::KILL.0 != 0 {
            return false;
        }
        let this = ManuallyDrop::new(self);
        // SAFETY: a task that dies has no future in its slot any more, so nothing is overwritten. What is read is not used here again.
        unsafe { slot.storage().write(ptr::read(&raw const this.storage)) };
        slot.vtable.set(this.vtable);
        slot.state.set(State::Queued);
        true
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        // SAFETY: `place` filled the storage for this table, and the future was neither dropped nor given to a slot.
        unsafe { (self.vtable.drop)(NonNull::from(&mut self.storage)) };
    }
}

/// The current task goes on with `future` once the one that runs is ready, which it must be in this very run: it stays the same
/// task to everybody, of its kind and class, in memory of the size that `future` needs. A task that is killed or waits instead
/// drops it.
///
/// # Panics
/// Outside of the poll of a task that has a thread of its own, and while a task's future is dropped.
pub fn go_on_with(future: impl Future<Output = ()> + 'static) {
    let local = expect_local();
    let slot = local.current_slot().expect("only a task of this thread can go on");
    assert!(
        matches!(slot.state.get(), State::Running | State::RunningWoken),
        "a task that ends cannot go on"
    );
    slot.state.set(State::RunningWoken);
    // One that was there before is dropped behind the change.
    drop(local.successor.replace(Some(Successor::new(future))));
}
