//! What every kind of task costs, and what each thread does.
//!
//! Counters belong to a thread, which adds to them with plain loads and stores; readers sum them up. While profiling
//! is off, a run costs two predictable branches. While it is on, each run and each wake-up reads the clock once, and
//! the run is counted by its kind and the place it was woken from.

mod activity;
mod figures;
mod rows;

pub use activity::{ExtraCounter, mean_busy_percent, open_sockets, show_activity, thread_busy_percent};
pub use figures::{Figures, begin_figures, figures};
pub use rows::{
    Order, ProfileOptions, QueuedTasks, TaskCost, TaskCosts, ThreadAnswer, ThreadState, queued_tasks,
    task_costs, thread_states,
};

use crate::clock;
use crate::driver::{self, PollStats, Wait};
use crate::scheduler::{Cause, Incident, Local, local};
use crate::task::TaskId;
use crate::task::slot::Slot;
use std::cell::Cell;
use std::panic::Location;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::time::Duration;

/// Pairs of kind and caller that a thread counts apart; the rest is counted together.
const ENTRIES: usize = 256;
/// Profiling turns itself on when the mean round takes this long, in microseconds.
const AUTO_ON_US: u64 = 1000;
/// And off below this.
const AUTO_OFF_US: u64 = 990;
/// Rounds the mean is taken over.
const MEAN_ROUNDS: u64 = 1024;

/// A kind of task, for the profile: a static beside the code that spawns it.
///
/// ```
/// static SESSION: thalweg_runtime::Kind = thalweg_runtime::Kind::new("session");
/// ```
#[derive(Debug)]
pub struct Kind {
    name: &'static str,
}

impl Kind {
    /// A kind called `name`.
    pub const fn new(name: &'static str) -> Kind {
        Kind { name }
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

/// Whether runs are timed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profiling {
    /// Never.
    Off,
    /// Always.
    On,
    /// On a thread while its mean round takes more than a millisecond: a tripwire that costs nothing the rest of the
    /// time.
    #[default]
    Auto,
}

impl Profiling {
    const ALL: [Profiling; 3] = [Profiling::Off, Profiling::On, Profiling::Auto];

    /// As written in the configuration and on the CLI.
    pub fn name(self) -> &'static str {
        match self {
            Profiling::Off => "off",
            Profiling::On => "on",
            Profiling::Auto => "auto",
        }
    }
}

/// Switches profiling of this runtime. Turning it on starts the statistics anew. Nothing outside of a runtime.
pub fn set_profiling(mode: Profiling) {
    if let Some(local) = local() {
        let switch = &local.runtime.profiling;
        let number = Profiling::ALL.iter().position(|m| *m == mode).unwrap_or(0) as u64;
        let old = switch.load(Ordering::Relaxed);
        // The number of switches, so that turning on what is on is noticed.
        switch.store((old / 4 + 1) * 4 + number, Ordering::Relaxed);
        let now = clock::now_us();
        match mode {
            Profiling::On => {
                local.runtime.profiled_from.store(now, Ordering::Relaxed);
                local.runtime.profiled_until.store(0, Ordering::Relaxed);
            }
            Profiling::Off => local.runtime.profiled_until.store(now, Ordering::Relaxed),
            Profiling::Auto => {}
        }
        local.runtime.threads.iter().for_each(|t| t.wake_now());
    }
}

/// How profiling of this runtime is switched.
pub fn profiling() -> Profiling {
    local().map_or(Profiling::Off, |l| mode(l.runtime.profiling.load(Ordering::Relaxed)))
}

pub(crate) fn mode(switch: u64) -> Profiling {
    Profiling::ALL[(switch % 4).min(2) as usize]
}

/// The word [`set_profiling`] changes, at first.
pub(crate) fn initial_switch(mode: Profiling) -> u64 {
    Profiling::ALL.iter().position(|m| *m == mode).unwrap_or(0) as u64
}

/// Adds to a counter that only this thread writes: a plain load and store, no locked instruction.
#[inline]
pub(crate) fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
}

#[inline]
fn set(gauge: &AtomicU64, n: u64) {
    gauge.store(n, Ordering::Relaxed);
}

/// What a kind costs when woken from one place, on one thread.
#[derive(Default)]
pub(crate) struct Entry {
    kind: AtomicPtr<Kind>,
    from: AtomicPtr<Location<'static>>,
    calls: AtomicU64,
    cpu_ns: AtomicU64,
    latency_ns: AtomicU64,
}

/// A thread's table of costs: open addressing, and the last entry for what does not fit.
pub(crate) struct Costs(Box<[Entry]>);

impl Default for Costs {
    fn default() -> Self {
        Costs((0..ENTRIES).map(|_| Entry::default()).collect())
    }
}

static OTHER: Kind = Kind::new("other");

impl Costs {
    pub(crate) fn reset(&self) {
        for e in &self.0 {
            set(&e.calls, 0);
            set(&e.cpu_ns, 0);
            set(&e.latency_ns, 0);
            e.kind.store(ptr::null_mut(), Ordering::Relaxed);
            e.from.store(ptr::null_mut(), Ordering::Relaxed);
        }
    }

    /// The entry of a pair; called by the owner only.
    fn of(&self, kind: &'static Kind, from: &'static Location<'static>) -> &Entry {
        let (kind, from) = (ptr::from_ref(kind).cast_mut(), ptr::from_ref(from).cast_mut());
        let hash =
            (kind as usize >> 3).wrapping_mul(0x9e37_79b9) ^ (from as usize >> 3).wrapping_mul(0x85eb_ca6b);
        for step in 0..8 {
            let entry = &self.0[(hash + step) % (ENTRIES - 1)];
            let owner = entry.kind.load(Ordering::Relaxed);
            if owner == kind && entry.from.load(Ordering::Relaxed) == from {
                return entry;
            }
            if owner.is_null() {
                entry.from.store(from, Ordering::Relaxed);
                entry.kind.store(kind, Ordering::Release);
                return entry;
            }
        }
        let entry = &self.0[ENTRIES - 1];
        entry.from.store(ptr::from_ref(unknown_caller()).cast_mut(), Ordering::Relaxed);
        entry.kind.store(ptr::from_ref(&OTHER).cast_mut(), Ordering::Release);
        entry
    }
}

/// What a thread has done. Written by the thread, read by all.
#[derive(Default)]
pub(crate) struct Activity {
    pub(crate) loops: AtomicU64,
    /// Local tasks run.
    pub(crate) runs: AtomicU64,
    pub(crate) shared_runs: AtomicU64,
    pub(crate) remote_wakes: AtomicU64,
    pub(crate) jobs: AtomicU64,
    pub(crate) panics: AtomicU64,
    pub(crate) over_budget: AtomicU64,
    /// Rounds that found nothing to run.
    pub(crate) empty_rounds: AtomicU64,
    /// Rounds that left something to run.
    pub(crate) long_rounds: AtomicU64,
    /// Polls that did not wait because something could run.
    pub(crate) busy_polls: AtomicU64,
    /// Polls that brought events.
    pub(crate) event_polls: AtomicU64,
    /// Polls that waited for a deadline in vain.
    pub(crate) expired_polls: AtomicU64,
    pub(crate) sleeps: AtomicU64,
    pub(crate) slept_us: AtomicU64,
    pub(crate) events: AtomicU64,
    // Gauges.
    pub(crate) queued: AtomicU64,
    /// Sockets that are open, but for those that listen.
    pub(crate) sockets: AtomicU64,
    /// Mean microseconds of a round without its sleep.
    pub(crate) loop_us: AtomicU64,
    /// Share of the last measured interval that was not slept.
    pub(crate) busy_percent: AtomicU64,
    /// Milliseconds awake without CPU: taken by others, in all and in the last second and quarter minute.
    pub(crate) stolen_ms: AtomicU64,
    pub(crate) stolen_1s_ms: AtomicU64,
    pub(crate) stolen_15s_ms: AtomicU64,
    /// When the gauges were last measured.
    pub(crate) measured_us: AtomicU64,
}

impl Activity {
    fn all(&self) -> [&AtomicU64; 23] {
        [
            &self.loops,
            &self.runs,
            &self.shared_runs,
            &self.remote_wakes,
            &self.jobs,
            &self.panics,
            &self.over_budget,
            &self.empty_rounds,
            &self.long_rounds,
            &self.busy_polls,
            &self.event_polls,
            &self.expired_polls,
            &self.sleeps,
            &self.slept_us,
            &self.events,
            &self.queued,
            &self.sockets,
            &self.loop_us,
            &self.busy_percent,
            &self.stolen_ms,
            &self.stolen_1s_ms,
            &self.stolen_15s_ms,
            &self.measured_us,
        ]
    }

    pub(crate) fn reset(&self) {
        self.all().iter().for_each(|c| set(c, 0));
    }
}

/// What a thread remembers between rounds to measure itself. Touched by the thread only.
#[derive(Default)]
pub(crate) struct Meter {
    /// The switch as last seen.
    switch: Cell<u64>,
    /// When the last poll ended.
    polled_us: Cell<u64>,
    /// Mean round in 1/1024 microseconds.
    loop_sum: Cell<u64>,
    /// Where the last measured interval began: time, time slept so far, CPU time.
    began_us: Cell<u64>,
    began_slept_us: Cell<u64>,
    began_cpu_ns: Cell<u64>,
    /// When the current run began (the end of the one before), and where it was woken.
    run_began_ns: Cell<u64>,
    run_from: Cell<Option<&'static Location<'static>>>,
    run_latency_ns: Cell<u64>,
    figures: figures::Table,
}

/// Stands for a caller nobody recorded: a wake-up through a standard waker.
pub(crate) fn unknown_caller() -> &'static Location<'static> {
    const UNKNOWN: &Location<'static> = Location::caller();
    UNKNOWN
}

pub(crate) fn enter(local: &Local) {
    let meter = &local.meter;
    meter.switch.set(local.runtime.profiling.load(Ordering::Relaxed));
    meter.polled_us.set(clock::now_us());
    meter.began_us.set(clock::now_us());
    meter.began_cpu_ns.set(clock::thread_cpu_ns());
    local.profiling.set(mode(meter.switch.get()) == Profiling::On);
}

/// When a task was queued, in units of 64 ns; never 0, which means unknown.
#[inline]
pub(crate) fn queue_stamp() -> u32 {
    (clock::precise_ns() >> 6) as u32 | 1
}

/// Before a round, while profiling.
pub(crate) fn before_round(local: &Local) {
    local.meter.run_began_ns.set(clock::precise_ns());
}

/// Before a run, while profiling.
#[inline]
pub(crate) fn before_run(local: &Local, from: &'static Location<'static>, queued: u32) {
    let meter = &local.meter;
    meter.run_from.set(Some(from));
    let latency_ns = match queued {
        0 => 0,
        // The stamp is rounded up by its lowest bit, so the difference may be just negative.
        queued => (((meter.run_began_ns.get() >> 6) as u32).wrapping_sub(queued) as i32).max(0) as u64 * 64,
    };
    meter.run_latency_ns.set(latency_ns);
    if local.current_slot().is_some() {
        meter.figures.waited(local.current(), latency_ns);
    }
}

/// After a local task's run, while profiling or when the watchdog marked the run. The slot may be free already.
#[cold]
#[inline(never)]
pub(crate) fn after_run(local: &Local, slot: &Slot, id: TaskId) {
    let began_ns = local.meter.run_began_ns.get();
    count_run(local, slot.kind.get(), slot.woken_from.get());
    if local.profiling.get() {
        local.meter.figures.ran(id, began_ns, local.meter.run_began_ns.get());
    }
}

/// After any task's run, as [`after_run`].
pub(crate) fn count_run(local: &Local, kind: &'static Kind, from: &'static Location<'static>) {
    let meter = &local.meter;
    let mut duration = None;
    let from = meter.run_from.take().unwrap_or(from);
    if local.profiling.get() {
        let end = clock::precise_ns();
        let ns = end.saturating_sub(meter.run_began_ns.replace(end));
        let entry = local.endpoint.costs.of(kind, from);
        add(&entry.calls, 1);
        add(&entry.cpu_ns, ns);
        add(&entry.latency_ns, meter.run_latency_ns.get());
        duration = Some(Duration::from_nanos(ns));
    }
    let Some(budget) = local.runtime.config.budget else { return };
    let marked = local.watch.take(budget);
    let over = match duration {
        Some(duration) => (duration > budget).then_some(duration),
        None => marked,
    };
    if over.is_some() {
        add(&local.endpoint.activity.over_budget, 1);
        local.runtime.report(&Incident {
            cause: Cause::OverBudget,
            thread: local.index,
            kind: kind.name(),
            woken_from: from,
            message: "",
            duration: over,
        });
    }
}

/// What the loop knows after a poll.
pub(crate) struct Polled {
    pub(crate) stats: PollStats,
    pub(crate) wait: Wait,
    /// When the sleep began, in microseconds; 0 when the poll did not wait.
    pub(crate) slept_from_us: u64,
    /// When it ended.
    pub(crate) now_us: u64,
    /// Tasks the round before ran, and left.
    pub(crate) ran: u32,
    pub(crate) left: u64,
}

/// After a poll.
#[inline]
pub(crate) fn count_round(local: &Local, polled: &Polled) {
    let activity = &local.endpoint.activity;
    let meter = &local.meter;
    add(&activity.loops, 1);
    add(&activity.runs, polled.ran as u64);
    set(&activity.queued, polled.left);
    set(&activity.sockets, driver::with(|d| d.open()) as u64);
    if polled.ran == 0 {
        add(&activity.empty_rounds, 1);
    } else if polled.left > 0 {
        add(&activity.long_rounds, 1);
    }
    let events = polled.stats.events as u64;
    if events > 0 {
        add(&activity.events, events);
        add(&activity.event_polls, 1);
    }
    let mut awake_until = polled.now_us;
    if polled.slept_from_us == 0 {
        add(&activity.busy_polls, 1);
    } else {
        awake_until = polled.slept_from_us;
        add(&activity.sleeps, 1);
        add(&activity.slept_us, polled.now_us.saturating_sub(polled.slept_from_us));
        if events == 0 && matches!(polled.wait, Wait::Until(_)) {
            add(&activity.expired_polls, 1);
        }
    }
    let round = awake_until.saturating_sub(meter.polled_us.replace(polled.now_us));
    meter.loop_sum.set(meter.loop_sum.get() - meter.loop_sum.get() / MEAN_ROUNDS + round);
    if meter.switch.get() != local.runtime.profiling.load(Ordering::Relaxed) {
        switched(local);
    }
}

#[cold]
fn switched(local: &Local) {
    let switch = local.runtime.profiling.load(Ordering::Relaxed);
    local.meter.switch.set(switch);
    match mode(switch) {
        Profiling::On => {
            local.endpoint.costs.reset();
            local.profiling.set(true);
        }
        Profiling::Off => local.profiling.set(false),
        // Decided at the next housekeeping; what was on stays on while it is slow.
        Profiling::Auto => {}
    }
}

/// A few times per second while the thread is awake.
pub(crate) fn housekeeping(local: &Local) {
    let (meter, activity) = (&local.meter, &local.endpoint.activity);
    let loop_us = meter.loop_sum.get() / MEAN_ROUNDS;
    set(&activity.loop_us, loop_us);
    if mode(meter.switch.get()) == Profiling::Auto {
        let on = loop_us >= if local.profiling.get() { AUTO_OFF_US } else { AUTO_ON_US };
        if on && !local.profiling.replace(on) && local.runtime.profiled_from.load(Ordering::Relaxed) == 0 {
            local.runtime.profiled_from.store(clock::now_us(), Ordering::Relaxed);
        }
        local.profiling.set(on);
    }
    let (now, slept, cpu) =
        (clock::now_us(), activity.slept_us.load(Ordering::Relaxed), clock::thread_cpu_ns());
    let elapsed = now.saturating_sub(meter.began_us.replace(now)).max(1);
    let asleep = slept.saturating_sub(meter.began_slept_us.replace(slept));
    let used = cpu.saturating_sub(meter.began_cpu_ns.replace(cpu)) / 1000;
    let awake = elapsed.saturating_sub(asleep);
    let stolen_ms = awake.saturating_sub(used) / 1000;
    add(&activity.stolen_ms, stolen_ms);
    // Sliding means over a second and a quarter minute.
    for (gauge, window_us) in [(&activity.stolen_1s_ms, 1_000_000), (&activity.stolen_15s_ms, 15_000_000)] {
        let old = gauge.load(Ordering::Relaxed);
        set(gauge, old - old * elapsed.min(window_us) / window_us + stolen_ms);
    }
    set(&activity.busy_percent, awake * 100 / elapsed);
    set(&activity.measured_us, now);
}
