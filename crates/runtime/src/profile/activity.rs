//! `show activity`, and how busy threads are.
//!
//! The layout is the reference's, for the eyes and scripts that know it.

use super::Activity;
use crate::scheduler::local;
use crate::{clock, driver, pool};
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// A counter that other parts of a program add to `show activity`: its name, and its value on a thread.
pub type ExtraCounter<'a> = (&'a str, &'a dyn Fn(usize) -> u64);

/// `show activity`: counters of each thread. `thread` is `None` for all columns, `Some(0)` for the sum only, else the
/// number of a thread, from 1. `extra` appends counters that the runtime does not know, such as `stream_calls`.
pub fn show_activity(thread: Option<usize>, extra: &[ExtraCounter<'_>]) -> String {
    let Some(local) = local() else { return String::new() };
    let threads = &local.runtime.threads;
    let now = clock::now_us();
    let (wall, up) = (clock::wall_us(), now.saturating_sub(local.runtime.started_us));
    let mut out = format!(
        "thread_id: {} (1..{})\ndate_now: {}.{:06}\nuptime_now: {}.{:06}\n",
        local.index + 1,
        threads.len(),
        wall / 1_000_000,
        wall % 1_000_000,
        up / 1_000_000,
        up % 1_000_000
    );
    let mut row = |name: &str, mean: bool, value: &dyn Fn(usize) -> u64| {
        // Like the reference's, the counters are 32 bits wide.
        let values: Vec<u64> = (0..threads.len()).map(|t| value(t) & 0xffff_ffff).collect();
        let sum = values.iter().sum::<u64>();
        let total = if mean { sum.div_ceil(values.len() as u64) } else { sum & 0xffff_ffff };
        _ = match thread {
            None if values.len() > 1 => {
                let columns: Vec<String> = values.iter().map(u64::to_string).collect();
                writeln!(out, "{name}: {total} [ {} ]", columns.join(" "))
            }
            None | Some(0) => writeln!(out, "{name}: {total}"),
            Some(t) => writeln!(out, "{name}: {}", values.get(t - 1).copied().unwrap_or(0)),
        };
    };
    let of = |t: usize| &*threads[t].activity;
    let get = |c: &AtomicU64| c.load(Ordering::Relaxed);
    let fresh = |t: usize, c: &AtomicU64| if is_fresh(of(t), now) { get(c) } else { 0 };
    row("ctxsw", false, &|t| get(&of(t).runs) + get(&of(t).jobs));
    row("tasksw", false, &|t| get(&of(t).runs));
    row("empty_rq", false, &|t| get(&of(t).empty_rounds));
    row("long_rq", false, &|t| get(&of(t).long_rounds));
    row("curr_rq", false, &|t| get(&of(t).queued));
    row("loops", false, &|t| get(&of(t).loops));
    row("wake_tasks", false, &|t| get(&of(t).busy_polls));
    row("wake_remote", false, &|t| get(&of(t).remote_wakes));
    row("shared_runs", false, &|t| get(&of(t).shared_runs));
    row("poll_io", false, &|t| get(&of(t).event_polls));
    row("poll_exp", false, &|t| get(&of(t).expired_polls));
    row("panics", false, &|t| get(&of(t).panics));
    row("over_budget", false, &|t| get(&of(t).over_budget));
    let failures: u64 = pool::counters().iter().map(|p| p.failed).sum();
    row("pool_fail", false, &|t| if t == 0 { failures } else { 0 });
    row("cpust_ms_tot", false, &|t| get(&of(t).stolen_ms));
    row("cpust_ms_1s", false, &|t| fresh(t, &of(t).stolen_1s_ms));
    row("cpust_ms_15s", false, &|t| fresh(t, &of(t).stolen_15s_ms));
    row("avg_cpu_pct", true, &|t| fresh(t, &of(t).busy_percent));
    row("avg_loop_us", true, &|t| get(&of(t).loop_us));
    for (name, value) in extra {
        row(name, false, value);
    }
    out
}

/// A thread that sleeps does not measure itself: its shares are nil after so long, in microseconds.
const FRESH_US: u64 = 1_500_000;

/// Whether a thread measured itself lately.
fn is_fresh(activity: &Activity, now_us: u64) -> bool {
    now_us.saturating_sub(activity.measured_us.load(Ordering::Relaxed)) < FRESH_US
}

/// The share of its time that a thread was awake lately, in percent.
fn busy_percent(activity: &Activity, now_us: u64) -> u64 {
    if is_fresh(activity, now_us) { activity.busy_percent.load(Ordering::Relaxed) } else { 0 }
}

/// The share of its time that this thread was awake lately, in percent.
pub fn thread_busy_percent() -> u64 {
    local().map_or(0, |local| busy_percent(&local.endpoint.activity, clock::now_us()))
}

/// Sockets that the threads of this runtime have open, but for those that listen: of this one now, of the others as of their last
/// round.
pub fn open_sockets() -> usize {
    let Some(local) = local() else { return 0 };
    let others = local.runtime.threads.iter().enumerate().filter(|(thread, _)| *thread != local.index);
    let of_others: u64 = others.map(|(_, thread)| thread.activity.sockets.load(Ordering::Relaxed)).sum();
    driver::with(|d| d.open()) + usize::try_from(of_others).unwrap_or(usize::MAX / 2)
}

/// The same of all threads of this runtime, on average.
pub fn mean_busy_percent() -> u64 {
    let Some(local) = local() else { return 0 };
    let (threads, now_us) = (&local.runtime.threads, clock::now_us());
    let sum: u64 = threads.iter().map(|thread| busy_percent(&thread.activity, now_us)).sum();
    sum / threads.len().max(1) as u64
}
