//! The texts of `show profiling`, `show tasks`, `show activity`, `show threads` and `show pools`.
//!
//! The layouts are the reference's, for the eyes and scripts that know it. Columns and counters without a meaning here
//! (time spent in locks: there are none) are present and empty.

use super::{Activity, Costs};
use crate::scheduler::{Local, local};
use crate::task::{Reason, current_task};
use crate::{clock, pool, timer};
use std::fmt::Write;
use std::future::poll_fn;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

/// A thread that has not answered after this long is shown as stuck.
const ANSWER_MS: u64 = 500;

/// How `show profiling` is sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Most calls first.
    #[default]
    Usage,
    /// By name (`byaddr`).
    Address,
    /// Most CPU time first (`bytime`).
    Time,
    /// By the place that wakes (`byctx`).
    Context,
}

/// Arguments of `show profiling`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProfileOptions {
    /// How to sort.
    pub order: Order,
    /// One line per kind (`aggr`), whoever wakes it.
    pub aggregate: bool,
    /// The most lines; 0 for all.
    pub lines_max: usize,
}

#[derive(Clone, Debug)]
struct Line {
    name: &'static str,
    from: Option<&'static Location<'static>>,
    calls: u64,
    cpu_ns: u64,
    latency_ns: u64,
}

impl Costs {
    fn lines(&self, out: &mut Vec<Line>) {
        for e in &self.0 {
            // SAFETY: only references to `'static` values are ever stored.
            let (kind, from) =
                unsafe { (e.kind.load(Ordering::Acquire).as_ref(), e.from.load(Ordering::Relaxed).as_ref()) };
            let calls = e.calls.load(Ordering::Relaxed);
            if let Some(kind) = kind
                && calls > 0
            {
                out.push(Line {
                    name: kind.name(),
                    from,
                    calls,
                    cpu_ns: e.cpu_ns.load(Ordering::Relaxed),
                    latency_ns: e.latency_ns.load(Ordering::Relaxed),
                });
            }
        }
    }
}

/// The settings part of `show profiling`.
pub fn show_profiling_status() -> String {
    let tasks = super::profiling().name();
    format!(
        "Per-task CPU profiling              : {tasks:<8}      # set profiling tasks {{on|auto|off}}\n\
         Memory usage profiling              : off           # set profiling memory {{on|off}}\n"
    )
}

/// The tasks part of `show profiling`; empty when nothing was profiled yet.
pub fn show_profiling_tasks(options: ProfileOptions) -> String {
    let Some(local) = local() else { return String::new() };
    let mut lines = Vec::new();
    local.runtime.threads.iter().for_each(|t| t.costs.lines(&mut lines));
    if lines.is_empty() {
        return String::new();
    }
    let from = local.runtime.profiled_from.load(Ordering::Relaxed);
    let now = clock::now_us();
    let until = match local.runtime.profiled_until.load(Ordering::Relaxed) {
        0 => now,
        until => until,
    };
    let seconds = |us: u64| format!("{}.{:03}", us / 1_000_000, us / 1000 % 1000);
    let mut out = format!(
        "Tasks activity over {} sec till {} sec ago:\n",
        seconds(until.saturating_sub(from)),
        seconds(now.saturating_sub(until))
    );
    out.push_str(
        "  function                      calls   cpu_tot   cpu_avg   lkw_avg   lkd_avg   mem_avg   lat_avg\n",
    );
    for line in arrange(lines, options) {
        write_line(&mut out, &line);
    }
    out
}

/// Merges the threads' lines and sorts them.
fn arrange(lines: Vec<Line>, options: ProfileOptions) -> Vec<Line> {
    let mut merged: Vec<Line> = Vec::new();
    for mut line in lines {
        if options.aggregate {
            line.from = None;
        }
        match merged.iter_mut().find(|m| m.name == line.name && m.from == line.from) {
            Some(m) => {
                m.calls += line.calls;
                m.cpu_ns += line.cpu_ns;
                m.latency_ns += line.latency_ns;
            }
            None => merged.push(line),
        }
    }
    merged.sort_by(|a, b| {
        let by_calls = b.calls.cmp(&a.calls);
        match options.order {
            Order::Usage => by_calls,
            Order::Address => a.name.cmp(b.name).then(by_calls),
            Order::Time => b.cpu_ns.cmp(&a.cpu_ns),
            Order::Context => {
                let place = |l: &Line| l.from.map(|f| (f.file(), f.line()));
                place(a).cmp(&place(b)).then(by_calls)
            }
        }
    });
    if options.lines_max > 0 {
        merged.truncate(options.lines_max);
    }
    merged
}

fn write_line(out: &mut String, line: &Line) {
    const NONE: &str = "   -   ";
    _ = write!(
        out,
        "  {:<24}{:>11}   {}   {}   {NONE}   {NONE}   {NONE}   {}",
        line.name,
        line.calls,
        time_or_none(line.cpu_ns),
        time_or_none(line.cpu_ns / line.calls.max(1)),
        time_or_none(line.latency_ns / line.calls.max(1)),
    );
    if let Some(from) = line.from {
        _ = write!(out, " <- {}:{}", from.file(), from.line());
    }
    out.push('\n');
}

fn time_or_none(ns: u64) -> String {
    if ns == 0 { "   -   ".into() } else { format!("{:<7}", short_time(ns)) }
}

/// Four digits and a unit.
fn short_time(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => (ns as f64, "ns"),
        1_000..1_000_000 => (ns as f64 / 1e3, "us"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        1_000_000_000..60_000_000_000 => (ns as f64 / 1e9, "s"),
        60_000_000_000..3_600_000_000_000 => (ns as f64 / 60e9, "m"),
        _ => (ns as f64 / 3600e9, "h"),
    };
    let places = match value {
        v if ns < 1000 && v >= 100.0 => 1,
        v if v < 10.0 => 3,
        v if v < 100.0 => 2,
        v if v < 1000.0 => 1,
        _ => 0,
    };
    format!("{value:.places$}{unit}")
}

/// Asks every thread of the runtime for something about itself. `None` for a thread that did not answer in time.
async fn gather<T: Send + 'static>(ask: fn(&Local) -> T) -> Vec<Option<T>> {
    let Some(here) = local() else { return Vec::new() };
    let count = here.runtime.threads.len();
    let answers: Arc<Mutex<Vec<Option<T>>>> = Arc::new(Mutex::new((0..count).map(|_| None).collect()));
    let left = Arc::new(AtomicUsize::new(count));
    let asker = current_task();
    for thread in 0..count {
        let (answers, left) = (answers.clone(), left.clone());
        crate::run_on(thread, move || {
            if let Some(local) = local() {
                answers.lock().unwrap_or_else(PoisonError::into_inner)[thread] = Some(ask(local));
            }
            if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                asker.wake(Reason::MESSAGE);
            }
        });
    }
    let deadline = clock::now_ms() + ANSWER_MS;
    let all = poll_fn(|_| if left.load(Ordering::Acquire) == 0 { Poll::Ready(()) } else { Poll::Pending });
    _ = timer::timeout_at(Some(deadline), all).await;
    std::mem::take(&mut *answers.lock().unwrap_or_else(PoisonError::into_inner))
}

struct QueuedKind {
    name: &'static str,
    places: u64,
    latency_ns: u64,
}

fn queued_kinds(local: &Local) -> Vec<QueuedKind> {
    let mut kinds: Vec<QueuedKind> = Vec::new();
    let now = super::queue_stamp();
    local.each_queued(|slot| {
        let name = slot.kind.get().name();
        let waited = match slot.queued_at.get() {
            0 => 0,
            at if local.profiling.get() => (now.wrapping_sub(at) as i32).max(0) as u64 * 64,
            _ => 0,
        };
        match kinds.iter_mut().find(|k| k.name == name) {
            Some(k) => {
                k.places += 1;
                k.latency_ns += waited;
            }
            None => kinds.push(QueuedKind { name, places: 1, latency_ns: waited }),
        }
    });
    kinds
}

/// `show tasks`: what waits in the run queues, by kind. Asks the threads by message, so none is stopped.
pub async fn show_tasks() -> String {
    let answers = gather(queued_kinds).await;
    let threads = answers.len();
    let mut kinds: Vec<QueuedKind> = Vec::new();
    for k in answers.into_iter().flatten().flatten() {
        match kinds.iter_mut().find(|have| have.name == k.name) {
            Some(have) => {
                have.places += k.places;
                have.latency_ns += k.latency_ns;
            }
            None => kinds.push(k),
        }
    }
    kinds.sort_by_key(|k| std::cmp::Reverse(k.places));
    let total: u64 = kinds.iter().map(|k| k.places).sum();
    let plural = if threads == 1 { "" } else { "s" };
    let mut out = format!("Running tasks: {total} ({threads} thread{plural})\n");
    out.push_str(
        "  function                     places     %    lat_tot   lat_avg  calls_tot  calls_avg calls%\n",
    );
    for k in kinds {
        let permille = k.places * 1000 / total.max(1);
        _ = writeln!(
            out,
            "  {:<24}{:>11}  {:>3}.{}   {}   {}{:>11}{:>11}    0.0",
            k.name,
            k.places,
            permille / 10,
            permille % 10,
            time_or_none(k.latency_ns),
            time_or_none(k.latency_ns / k.places.max(1)),
            0,
            0
        );
    }
    out
}

struct ThreadReport {
    id: u64,
    loops: u64,
    runs: u64,
    queued: [usize; 4],
    tasks: u32,
    timers: usize,
    profiling: bool,
    cpu_ns: u64,
    polled_us: u64,
}

fn report(local: &Local) -> ThreadReport {
    let activity = &local.endpoint.activity;
    ThreadReport {
        // SAFETY: takes nothing and cannot fail.
        id: unsafe { libc::pthread_self() },
        loops: activity.loops.load(Ordering::Relaxed),
        runs: activity.runs.load(Ordering::Relaxed),
        queued: local.queued(),
        tasks: local.slots.live(),
        timers: local.timers().0,
        profiling: local.profiling.get(),
        cpu_ns: clock::thread_cpu_ns(),
        polled_us: local.meter.polled_us.get(),
    }
}

/// `show threads`: one block per thread; `*` marks the one that answers, `>` one that does not.
pub async fn show_threads() -> String {
    let answers = gather(report).await;
    let count = answers.len();
    let here = crate::thread_index();
    let mut out = String::new();
    for (thread, answer) in answers.into_iter().enumerate() {
        let number = thread + 1;
        let mark = match &answer {
            None => '>',
            Some(_) if thread == here => '*',
            Some(_) => ' ',
        };
        let Some(r) = answer else {
            let activity = &local().expect("runs in a task").runtime.threads[thread].activity;
            _ = writeln!(
                out,
                "{mark} Thread {number:<2}: does not answer\n      1/{number:<4} loops={} ctxsw={} stuck=1",
                activity.loops.load(Ordering::Relaxed),
                activity.runs.load(Ordering::Relaxed),
            );
            continue;
        };
        let queued: usize = r.queued.iter().sum();
        _ = writeln!(
            out,
            "{mark} Thread {number:<2}: id={:#x} act={} glob=0 wq={} rq={} tl={} tlsz={} rqsz={queued}",
            r.id,
            (queued > 0) as u8,
            (r.timers > 0) as u8,
            (queued > 0) as u8,
            (r.queued[0] + r.queued[2] + r.queued[3] > 0) as u8,
            r.queued[0] + r.queued[2] + r.queued[3],
        );
        _ = writeln!(
            out,
            "      1/{number:<4} loops={} ctxsw={} stuck=0 prof={} harmless={} isolated=0 locks=0",
            r.loops,
            r.runs,
            r.profiling as u8,
            (thread != here) as u8,
        );
        _ = writeln!(
            out,
            "             cpu_ns: now={} since_poll_us={}",
            r.cpu_ns,
            clock::now_us().saturating_sub(r.polled_us)
        );
        _ = writeln!(
            out,
            "             tasks={} timers={} urgent={} normal={} bulk={} heavy={}",
            r.tasks, r.timers, r.queued[0], r.queued[1], r.queued[2], r.queued[3]
        );
    }
    debug_assert!(count == crate::thread_count());
    out
}

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

/// `show pools`: the pools of all threads, summed. `prefix` keeps those whose name starts with it.
pub fn show_pools(prefix: &str) -> String {
    let mut out = String::from("Dumping pools usage. Use SIGQUIT to flush them.\n");
    let (mut pools, mut allocated, mut used) = (0, 0, 0);
    for p in pool::counters().iter().filter(|p| p.name.starts_with(prefix)) {
        let size = p.object_size as u64;
        let have = p.used + p.free;
        pools += 1;
        allocated += have * size;
        used += p.used * size;
        _ = writeln!(
            out,
            "  - Pool {} ({size} bytes) : {have} allocated ({} bytes), {} used (~{} by thread caches), peak {}, {} failures, {} users",
            p.name,
            have * size,
            p.used,
            p.free,
            p.peak,
            p.failed,
            p.threads
        );
    }
    _ = writeln!(
        out,
        "Total: {pools} pools, {allocated} bytes allocated, {used} used (~{} by thread caches).",
        allocated - used
    );
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

/// The same of all threads of this runtime, on average.
pub fn mean_busy_percent() -> u64 {
    let Some(local) = local() else { return 0 };
    let (threads, now_us) = (&local.runtime.threads, clock::now_us());
    let sum: u64 = threads.iter().map(|thread| busy_percent(&thread.activity, now_us)).sum();
    sum / threads.len().max(1) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_four_digits() {
        for (ns, text) in [
            (7, "7.000ns"),
            (467, "467.0ns"),
            (1_432, "1.432us"),
            (24_910, "24.91us"),
            (178_300, "178.3us"),
            (8_570_000, "8.570ms"),
            (644_400_000, "644.4ms"),
            (1_590_000_000, "1.590s"),
            (34_360_000_000, "34.36s"),
            (90_000_000_000, "1.500m"),
            (7_200_000_000_000, "2.000h"),
        ] {
            assert_eq!(short_time(ns), text);
        }
    }

    #[test]
    fn a_profile_line_has_the_reference_columns() {
        let mut out = String::new();
        let line =
            Line { name: "h1_io_cb", from: None, calls: 344, cpu_ns: 8_570_000, latency_ns: 467 * 344 };
        write_line(&mut out, &line);
        let expected = "  h1_io_cb                        344   8.570ms   24.91us      -         -         -      467.0ns\n";
        assert_eq!(out, expected);
    }

    #[test]
    fn lines_are_merged_and_sorted() {
        let here = Location::caller();
        let line = |name, from, calls, cpu_ns| Line { name, from, calls, cpu_ns, latency_ns: 0 };
        let lines = vec![
            line("b", Some(here), 5, 100),
            line("a", Some(here), 7, 50),
            line("b", Some(here), 4, 1),
            line("b", None, 1, 1000),
        ];
        let names = |order, aggregate, lines_max| -> Vec<(&str, u64)> {
            let options = ProfileOptions { order, aggregate, lines_max };
            arrange(lines.clone(), options).iter().map(|l| (l.name, l.calls)).collect()
        };
        assert_eq!(names(Order::Usage, false, 0), [("b", 9), ("a", 7), ("b", 1)]);
        assert_eq!(names(Order::Address, false, 0), [("a", 7), ("b", 9), ("b", 1)]);
        assert_eq!(names(Order::Time, false, 2), [("b", 1), ("b", 9)]);
        assert_eq!(names(Order::Context, false, 0), [("b", 1), ("b", 9), ("a", 7)]);
        assert_eq!(names(Order::Usage, true, 0), [("b", 10), ("a", 7)]);
    }
}
