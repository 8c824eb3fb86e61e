//! Who runs next: see the crate's front page for the rules, and each module for its invariants.

mod ask;
mod local;
mod queue;
mod runtime;
mod shared;
mod successor;
#[cfg(test)]
mod tests;
mod thread;
mod wheel;

pub use ask::{Question, Reply, ask};
pub use local::SpawnOptions;
pub(crate) use local::{Local, local, local_ptr};
pub use queue::{Class, NICE_MAX, NICE_MIN};
pub use runtime::{Config, Handle, Runtime, block_on, handle, stop, stopping};
pub use shared::SHARED_MAX;
pub use successor::go_on_with;

use crate::profile::Kind;
use crate::task::{Reason, TaskId};
use std::future::Future;
use std::panic::Location;
use std::time::Duration;
use thread::Entry;

/// Something that went wrong in a task and was contained; passed to [`Config::on_incident`].
#[derive(Debug)]
pub struct Incident<'a> {
    /// What happened.
    pub cause: Cause,
    /// On which thread of the runtime.
    pub thread: usize,
    /// The task's kind.
    pub kind: &'static str,
    /// Where the task was last woken from.
    pub woken_from: &'static Location<'static>,
    /// The panic's text, if it has one.
    pub message: &'a str,
    /// How long the task ran without yielding.
    pub duration: Option<Duration>,
}

/// The cause of an [`Incident`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The task panicked; it was dropped, others go on.
    Panic,
    /// The task ran longer than [`Config::budget`] without yielding.
    OverBudget,
    /// The driver's poll failed.
    Driver,
}

/// Spawns a task on this thread: normal class, nice 0. `kind` names it in the profile. The task is queued; it does not
/// run before the caller returns to the loop.
///
/// # Panics
/// Outside of a runtime's thread.
#[inline]
#[track_caller]
pub fn spawn(kind: &'static Kind, future: impl Future<Output = ()> + 'static) -> TaskId {
    local::expect_local().spawn(kind, SpawnOptions::default(), future, Location::caller())
}

/// As [`spawn`], with a class and a nice value.
#[inline]
#[track_caller]
pub fn spawn_with(
    kind: &'static Kind,
    options: SpawnOptions,
    future: impl Future<Output = ()> + 'static,
) -> TaskId {
    local::expect_local().spawn(kind, options, future, Location::caller())
}

/// Spawns a task that any thread of this runtime may run, a different one each time it is woken. With one thread, or
/// beyond [`SHARED_MAX`] such tasks, it is an ordinary task of this thread.
///
/// # Panics
/// Outside of a runtime's thread; see [`Handle::spawn_shared`] there.
#[track_caller]
pub fn spawn_shared(kind: &'static Kind, future: impl Future<Output = ()> + Send + 'static) -> TaskId {
    shared::spawn_shared(kind, future, Location::caller())
}

/// Runs `f` on thread `thread` of this runtime, in its loop, soon; it may spawn there. What is sent before the runtime is
/// stopped runs, what is sent later may find that the thread has ended, which drops it unrun.
///
/// # Panics
/// Outside of a runtime's thread (see [`Handle::run_on`] there), or if there is no such thread.
pub fn run_on(thread: usize, f: impl FnOnce() + Send + 'static) {
    let local = local::expect_local();
    if thread == local.index {
        local.push_job(Box::new(f));
    } else {
        local.runtime.threads[thread].send_job(Box::new(f));
    }
}

/// This thread's number within its runtime; 0 outside of one.
#[inline]
pub fn thread_index() -> usize {
    local().map_or(0, |l| l.index)
}

/// Tasks of this thread that wait for their turn; 0 outside of a runtime.
pub fn waiting_tasks() -> usize {
    local().map_or(0, |l| l.queued().iter().sum())
}

/// The number of threads of this runtime; 1 outside of one.
#[inline]
pub fn thread_count() -> usize {
    local().map_or(1, |l| l.runtime.threads.len())
}

/// Drops a task, queued, waiting or running (then when its poll returns), on its own thread, at its next turn. From any
/// thread. Nothing if it is over.
#[track_caller]
pub fn kill(id: TaskId) {
    let from = Location::caller();
    match local() {
        Some(local) if id.slot() == local.slot => local.wake(id, Reason::KILL, from),
        _ => match thread::entry(id.slot()) {
            // By message and not by wake-up: the wake-up of a slot may reach a later task, which must not die.
            Some(Entry::Thread(endpoint)) => endpoint.send_job(Box::new(move || {
                if let Some(local) = self::local()
                    && id.slot() == local.slot
                {
                    local.wake(id, Reason::KILL, from);
                }
            })),
            Some(Entry::Tasks(tasks)) => tasks.wake(id, Reason::KILL, from),
            None => {}
        },
    }
}

/// See [`TaskId::wake`].
#[inline]
pub(crate) fn wake(id: TaskId, reason: Reason, from: &'static Location<'static>) {
    match local() {
        Some(local) if id.slot() == local.slot => local.wake(id, reason, from),
        _ => wake_elsewhere(id, reason, from),
    }
}

/// False for a task of the calling thread that ended.
pub(crate) fn may_live(id: TaskId) -> bool {
    let lives = |local: &Local| local.slots.find(id.index(), id.generation()).is_some();
    local().is_none_or(|local| id.slot() != local.slot || lives(local))
}

/// Whether a task of the calling thread is of this kind.
pub(crate) fn is_of_kind(id: TaskId, kind: &'static Kind) -> bool {
    let slot = local().and_then(|local| local.slots.find(id.index(), id.generation()));
    slot.is_some_and(|slot| std::ptr::eq(slot.kind.get(), kind))
}

#[cold]
#[inline(never)]
fn wake_elsewhere(id: TaskId, reason: Reason, from: &'static Location<'static>) {
    match thread::entry(id.slot()) {
        Some(Entry::Thread(endpoint)) => endpoint.send_wake(id.index(), reason, from),
        Some(Entry::Tasks(tasks)) => tasks.wake(id, reason, from),
        None => {}
    }
}

#[inline]
pub(crate) fn current_task() -> TaskId {
    local().map_or(TaskId::NONE, Local::current)
}

pub(crate) fn current_reasons() -> Reason {
    local().map_or(Reason::empty(), Local::reasons)
}

/// Tasks that this thread ran so far; 0 outside of a runtime.
pub(crate) fn runs() -> u64 {
    local().map_or(0, |local| local.runs.get())
}

pub(crate) fn set_current_class(class: Class) {
    if let Some(local) = local() {
        local.set_class(class);
    }
}

pub(crate) fn set_current_nice(nice: i16) {
    if let Some(local) = local() {
        local.set_nice(nice);
    }
}

/// See [`crate::timer::want`].
#[inline]
pub(crate) fn want(deadline_ms: u64) {
    if let Some(local) = local() {
        local.want(deadline_ms);
    }
}
