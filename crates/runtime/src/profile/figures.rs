//! What the task that runs now has cost, for those whose work it does (`cpu_calls`, `cpu_ns_tot` and their kin of a request).
//!
//! Calls are counted always, in the task's slot. Times are known only of runs that were profiled: they are in a table beside
//! the slots that is empty until then, and grows with the tasks that run while profiling is on.

use super::Meter;
use crate::clock;
use crate::scheduler::{Local, local};
use crate::task::TaskId;
use std::cell::{Cell, RefCell};

/// What the current task took since it was spawned, or since [`begin_figures`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Runs, the present one included; wraps after 2^32.
    pub calls: u32,
    /// Nanoseconds in them, up to now. Those of runs that were not profiled are missing.
    pub ran_ns: u64,
    /// Nanoseconds from wake-ups to the runs that followed. Likewise.
    pub waited_ns: u64,
}

/// The times of one task.
#[derive(Clone, Copy, Default)]
struct Times {
    /// Whose they are, of the tasks that have been in this slot.
    generation: u32,
    ran_ns: u64,
    waited_ns: u64,
}

/// The times of the tasks of a thread, by the index of their slots.
#[derive(Default)]
pub(super) struct Table {
    times: RefCell<Vec<Times>>,
    /// Something was profiled: `times` is not empty.
    is_used: Cell<bool>,
    /// When figures were last begun anew: of a run that began before, only what follows counts.
    begun_ns: Cell<u64>,
}

impl Table {
    /// The times of a task, all nil if it is new here.
    fn with<R>(&self, id: TaskId, f: impl FnOnce(&mut Times) -> R) -> R {
        let mut times = self.times.borrow_mut();
        let index = id.index() as usize;
        if times.len() <= index {
            times.resize(index + 1, Times::default());
            self.is_used.set(true);
        }
        let found = &mut times[index];
        if found.generation != id.generation() {
            *found = Times { generation: id.generation(), ..Times::default() };
        }
        f(found)
    }

    /// The task begins to run after it waited so long.
    pub(super) fn waited(&self, id: TaskId, ns: u64) {
        self.with(id, |times| times.waited_ns += ns);
    }

    /// The task has run from one moment to another.
    pub(super) fn ran(&self, id: TaskId, from_ns: u64, until_ns: u64) {
        let from_ns = from_ns.max(self.begun_ns.get());
        self.with(id, |times| times.ran_ns += until_ns.saturating_sub(from_ns));
    }
}

/// What the current task has cost so far; nothing outside of a task of this thread.
pub fn figures() -> Figures {
    let Some(local) = local() else { return Figures::default() };
    let Some(slot) = local.current_slot() else { return Figures::default() };
    let Meter { figures: table, run_began_ns, .. } = &local.meter;
    let mut figures = Figures { calls: slot.calls.get(), ..Figures::default() };
    if table.is_used.get() {
        table.with(local.current(), |times| {
            (figures.ran_ns, figures.waited_ns) = (times.ran_ns, times.waited_ns)
        });
    }
    if local.profiling.get() {
        let from_ns = run_began_ns.get().max(table.begun_ns.get());
        figures.ran_ns += clock::precise_ns().saturating_sub(from_ns);
    }
    figures
}

/// The current task begins another piece of work, whose [`figures`] start with this run.
#[inline]
pub fn begin_figures() {
    let Some(local) = local() else { return };
    let Some(slot) = local.current_slot() else { return };
    slot.calls.set(1);
    if local.meter.figures.is_used.get() {
        begin_times(local);
    }
}

#[cold]
fn begin_times(local: &Local) {
    let Meter { figures: table, run_latency_ns, .. } = &local.meter;
    // What woke the task is what begins now, as a rule.
    let waited_ns = if local.profiling.get() { run_latency_ns.get() } else { 0 };
    table.with(local.current(), |times| *times = Times { waited_ns, ran_ns: 0, ..*times });
    table.begun_ns.set(clock::precise_ns());
}
