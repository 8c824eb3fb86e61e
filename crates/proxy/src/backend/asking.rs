//! Who waits for another thread's answer.

use thalweg_live::answer::Wakes;
use thalweg_runtime::{Reason, TaskId};

/// The task that asked.
pub(super) struct Asking(pub TaskId);

impl Wakes for Asking {
    fn wake(&self) {
        self.0.wake(Reason::MESSAGE);
    }
}
