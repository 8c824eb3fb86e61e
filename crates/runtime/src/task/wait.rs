//! What a task may ask of the scheduler about itself.

use super::{Reason, TaskId, current_task};
use crate::scheduler::{self, Class, NICE_MAX, NICE_MIN};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Why the current task runs now: the reasons of all wake-ups since its last run.
pub fn reasons() -> Reason {
    scheduler::current_reasons()
}

/// Moves the current task to another class, from its next turn on. Nothing outside of a task, nor in a shared one.
pub fn set_class(class: Class) {
    scheduler::set_current_class(class);
}

/// Sets the current task's nice value (clamped to -1024..=1024) from its next turn on. One unit is worth one full
/// round of the loop: a task of nice -3 is queued as if it had come three rounds earlier.
pub fn set_nice(nice: i16) {
    scheduler::set_current_nice(nice.clamp(NICE_MIN, NICE_MAX));
}

/// Lets others run: the task is queued again at once and goes on at its next turn.
pub fn yield_now() -> impl Future<Output = ()> {
    Yield(TaskId::NONE)
}

/// Moves the current task to `class` and goes on when that class has its turn: around work that cannot yield,
/// `in_class(Class::Heavy).await`, then the work, then `set_class(Class::Normal)`.
pub async fn in_class(class: Class) {
    set_class(class);
    yield_now().await;
}

/// Lets all others run, those among them whose input comes only now: heavy work has one turn before the driver is asked what came.
/// With [`yield_now`] a task has all turns of a round where nobody else has work. The task is of the normal class afterwards.
pub async fn give_way() {
    in_class(Class::Heavy).await;
    set_class(Class::Normal);
}

struct Yield(TaskId);

impl Future for Yield {
    type Output = ();
    #[track_caller]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.0 != TaskId::NONE {
            return Poll::Ready(());
        }
        self.0 = current_task();
        match self.0 {
            // Polled by someone else's executor.
            TaskId::NONE => {
                self.0 = TaskId::from_user_bits(0);
                cx.waker().wake_by_ref();
            }
            id => id.wake(Reason::YIELD),
        }
        Poll::Pending
    }
}
