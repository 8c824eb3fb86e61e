//! Work that would hold a thread of the runtime up: reading files, asking the system, long computations. It is done on a thread
//! of its own, and a task waits for it.

use std::future::poll_fn;
use std::io;
use std::sync::{Arc, PoisonError};
use std::task::Poll;

use crate::task::{Reason, TaskId, current_task};
use crate::topology::roam;
use thalweg_shared::Mutex;

/// Stack of such a thread, in bytes: that of threads that run configurations and simulations.
const STACK: usize = 8 << 20;

/// What a thread will leave.
enum Slot<T> {
    Working,
    Done(T),
    /// It ended without a result.
    Gone,
}

/// Wakes the waiting task when the thread ends, however it does.
struct Ending<T> {
    slot: Arc<Mutex<Slot<T>>>,
    task: TaskId,
}

impl<T> Ending<T> {
    fn set(&self, slot: Slot<T>) {
        let mut place = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*place, Slot::Working) {
            *place = slot;
        }
    }
}

impl<T> Drop for Ending<T> {
    fn drop(&mut self) {
        self.set(Slot::Gone);
        self.task.wake(Reason::OTHER);
    }
}

/// Runs `work` on a thread of its own and waits for what it returns. When the waiting task is dropped, the work goes on, and its
/// result is dropped.
///
/// # Errors
/// The thread could not be started, or the work panicked.
///
/// # Panics
/// Outside of a task.
pub async fn aside<T: Send + 'static>(
    name: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let slot = Arc::new(Mutex::new(Slot::Working));
    let ending = Ending { slot: Arc::clone(&slot), task: current_task() };
    std::thread::Builder::new().name(name.into()).stack_size(STACK).spawn(move || {
        roam();
        let result = work();
        ending.set(Slot::Done(result));
    })?;
    poll_fn(|_| {
        let mut place = slot.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *place, Slot::Working) {
            Slot::Working => Poll::Pending,
            Slot::Done(result) => Poll::Ready(Ok(result)),
            Slot::Gone => Poll::Ready(Err(io::Error::other("the thread panicked"))),
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{current_cpus, pin_current_thread};
    use crate::{Config, CpuSet, block_on};

    #[test]
    fn a_task_gets_what_a_thread_computed() {
        assert_eq!(block_on(Config::default(), aside("test", || 6 * 7)).expect("a thread"), 42);
    }

    #[test]
    fn work_is_not_bound_to_the_cpu_of_who_waits() {
        let all = current_cpus().expect("the CPUs");
        let first: CpuSet = all.iter().take(1).collect();
        let own = first.clone();
        let seen = std::thread::spawn(move || {
            pin_current_thread(&own).expect("one CPU");
            let bound = current_cpus().expect("the CPUs");
            (
                bound,
                block_on(Config::default(), aside("test", || current_cpus().expect("the CPUs")))
                    .expect("a thread"),
            )
        });
        let (bound, aside) = seen.join().expect("no panic");
        assert_eq!((bound.iter().collect::<Vec<_>>(), aside.len()), (first.iter().collect(), all.len()));
    }

    #[test]
    fn work_that_panics_is_an_error() {
        let result = block_on(Config::default(), aside("test", || panic!("on purpose")));
        result.expect_err("the work panicked");
    }
}
