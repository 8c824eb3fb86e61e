//! What every kind of task costs.

use crate::driver::{PollStats, Wait};
use crate::scheduler::{Cause, Incident, Local};
use crate::task::slot::Slot;
use crate::{clock, watchdog};
use std::panic::Location;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Kinds that have counters of their own; later ones are counted together as kind 0.
pub(crate) const KINDS_MAX: usize = 256;

/// A kind of task, for the profile: a static beside the code that spawns it.
///
/// ```
/// static SESSION: thalweg_runtime::Kind = thalweg_runtime::Kind::new("session");
/// ```
pub struct Kind {
    name: &'static str,
    /// Its number; 0 until it is first used.
    id: AtomicU32,
}

static KINDS: Mutex<Vec<&'static Kind>> = Mutex::new(Vec::new());

impl Kind {
    /// A kind called `name`.
    pub const fn new(name: &'static str) -> Kind {
        Kind { name, id: AtomicU32::new(0) }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Its number, given at first use.
    #[inline]
    pub(crate) fn id(&'static self) -> usize {
        match self.id.load(Ordering::Relaxed) {
            0 => self.register(),
            id => id as usize % KINDS_MAX,
        }
    }

    #[cold]
    fn register(&'static self) -> usize {
        let mut kinds = KINDS.lock().unwrap_or_else(PoisonError::into_inner);
        if self.id.load(Ordering::Relaxed) == 0 {
            let id = if kinds.len() + 1 < KINDS_MAX {
                kinds.push(self);
                kinds.len()
            } else {
                KINDS_MAX
            };
            self.id.store(id as u32, Ordering::Relaxed);
        }
        self.id.load(Ordering::Relaxed) as usize % KINDS_MAX
    }
}

/// Adds to a counter that only this thread writes: a plain load and store, no locked instruction.
#[inline]
pub(crate) fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
}

/// Whether runs are timed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profiling {
    /// Never.
    Off,
    /// Always.
    On,
    /// On a thread while its rounds are slow: it serves as a tripwire at no cost the rest of the time.
    #[default]
    Auto,
}

/// The costs of one kind of task on one thread. Written by the thread, read by all.
#[derive(Default)]
pub(crate) struct KindCounters {
    pub(crate) calls: AtomicU64,
    pub(crate) cpu_ns: AtomicU64,
    pub(crate) latency_ns: AtomicU64,
}

impl KindCounters {
    pub(crate) fn reset(&self) {
        [&self.calls, &self.cpu_ns, &self.latency_ns].iter().for_each(|c| c.store(0, Ordering::Relaxed));
    }
}

/// What a thread has done. Written by the thread, read by all.
#[derive(Default)]
pub(crate) struct Activity {
    pub(crate) loops: AtomicU64,
    pub(crate) runs: AtomicU64,
    pub(crate) shared_runs: AtomicU64,
    pub(crate) remote_wakes: AtomicU64,
    pub(crate) jobs: AtomicU64,
    pub(crate) panics: AtomicU64,
    pub(crate) over_budget: AtomicU64,
    pub(crate) polls: AtomicU64,
    pub(crate) sleeps: AtomicU64,
    pub(crate) slept_us: AtomicU64,
    pub(crate) events: AtomicU64,
}

impl Activity {
    pub(crate) fn reset(&self) {
        let Activity {
            loops,
            runs,
            shared_runs,
            remote_wakes,
            jobs,
            panics,
            over_budget,
            polls,
            sleeps,
            slept_us,
            events,
        } = self;
        for c in [
            loops,
            runs,
            shared_runs,
            remote_wakes,
            jobs,
            panics,
            over_budget,
            polls,
            sleeps,
            slept_us,
            events,
        ] {
            c.store(0, Ordering::Relaxed);
        }
    }
}

/// Stands for a caller nobody recorded: a wake-up through a standard waker.
#[track_caller]
pub(crate) fn unknown_caller() -> &'static Location<'static> {
    const fn here() -> &'static Location<'static> {
        Location::caller()
    }
    here()
}

pub(crate) fn enter(local: &Local) {
    local.profiling.set(local.runtime.config.profiling == Profiling::On);
}

pub(crate) fn housekeeping(_local: &Local) {}

/// After a poll.
#[inline]
pub(crate) fn count_poll(local: &Local, stats: &PollStats, wait: Wait, slept_from_us: u64, now_us: u64) {
    let activity = &local.endpoint.activity;
    add(&activity.polls, stats.entered as u64);
    add(&activity.events, stats.events as u64);
    if wait != Wait::Now {
        add(&activity.sleeps, 1);
        add(&activity.slept_us, now_us.saturating_sub(slept_from_us));
    }
}

/// After a task's run, while profiling or when the watchdog marked the run. The slot may be free already.
#[cold]
pub(crate) fn after_run(local: &Local, slot: &Slot) {
    let kind = slot.kind.get();
    let mut duration = None;
    if local.profiling.get() {
        let end = clock::precise_ns();
        let ns = end.saturating_sub(local.run_started.replace(end));
        let counters = &local.endpoint.kinds[kind.id()];
        add(&counters.calls, 1);
        add(&counters.cpu_ns, ns);
        duration = Some(Duration::from_nanos(ns));
    }
    let ticks = local.watch.take();
    let Some(budget) = local.runtime.config.budget else { return };
    let over = match duration {
        Some(duration) => (duration > budget).then_some(duration),
        None => watchdog::over_budget(ticks, budget),
    };
    if over.is_some() {
        add(&local.endpoint.activity.over_budget, 1);
        local.runtime.report(&Incident {
            cause: Cause::OverBudget,
            thread: local.index,
            kind: kind.name(),
            woken_from: slot.woken_from.get(),
            message: "",
            duration: over,
        });
    }
}
