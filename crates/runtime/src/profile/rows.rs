//! What `show profiling`, `show tasks` and `show threads` are made of.

use super::Costs;
use crate::scheduler::{Local, local};
use crate::task::{Reason, current_task};
use crate::{clock, timer};
use std::future::poll_fn;
use std::panic::Location;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

/// A thread that has not answered after this long is taken for stuck.
const ANSWER_MS: u64 = 500;

/// How the costs of tasks are sorted.
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

/// Which costs are wanted, and how.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProfileOptions {
    /// How to sort.
    pub order: Order,
    /// One row per kind (`aggr`), whoever wakes it.
    pub aggregate: bool,
    /// The most rows; 0 for all.
    pub rows_max: usize,
}

/// What a kind of task costs on all threads, where it is woken from one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskCost {
    /// The kind.
    pub name: &'static str,
    /// Where it is woken; `None` for all places together.
    pub from: Option<&'static Location<'static>>,
    /// Runs.
    pub calls: u64,
    /// Nanoseconds in them.
    pub cpu_ns: u64,
    /// Nanoseconds from wake-ups to runs.
    pub latency_ns: u64,
}

/// What was profiled, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskCosts {
    /// Microseconds from the beginning of the profile to its end.
    pub length_us: u64,
    /// How long ago that end was; 0 while it goes on.
    pub ended_us: u64,
    /// The costs.
    pub rows: Vec<TaskCost>,
}

impl Costs {
    fn rows(&self, out: &mut Vec<TaskCost>) {
        for e in &self.0 {
            // SAFETY: only references to `'static` values are ever stored.
            let (kind, from) =
                unsafe { (e.kind.load(Ordering::Acquire).as_ref(), e.from.load(Ordering::Relaxed).as_ref()) };
            let calls = e.calls.load(Ordering::Relaxed);
            if let Some(kind) = kind
                && calls > 0
            {
                out.push(TaskCost {
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

/// What each kind of task costs; `None` when nothing was profiled yet.
pub fn task_costs(options: ProfileOptions) -> Option<TaskCosts> {
    let local = local()?;
    let mut rows = Vec::new();
    local.runtime.threads.iter().for_each(|t| t.costs.rows(&mut rows));
    if rows.is_empty() {
        return None;
    }
    let from = local.runtime.profiled_from.load(Ordering::Relaxed);
    let now = clock::now_us();
    let until = match local.runtime.profiled_until.load(Ordering::Relaxed) {
        0 => now,
        until => until,
    };
    Some(TaskCosts {
        length_us: until.saturating_sub(from),
        ended_us: now.saturating_sub(until),
        rows: arrange(rows, options),
    })
}

/// Merges the threads' rows and sorts them.
fn arrange(rows: Vec<TaskCost>, options: ProfileOptions) -> Vec<TaskCost> {
    let mut merged: Vec<TaskCost> = Vec::new();
    for mut row in rows {
        if options.aggregate {
            row.from = None;
        }
        match merged.iter_mut().find(|m| m.name == row.name && m.from == row.from) {
            Some(m) => {
                m.calls += row.calls;
                m.cpu_ns += row.cpu_ns;
                m.latency_ns += row.latency_ns;
            }
            None => merged.push(row),
        }
    }
    merged.sort_by(|a, b| {
        let by_calls = b.calls.cmp(&a.calls);
        match options.order {
            Order::Usage => by_calls,
            Order::Address => a.name.cmp(b.name).then(by_calls),
            Order::Time => b.cpu_ns.cmp(&a.cpu_ns),
            Order::Context => {
                let place = |row: &TaskCost| row.from.map(|f| (f.file(), f.line()));
                place(a).cmp(&place(b)).then(by_calls)
            }
        }
    });
    if options.rows_max > 0 {
        merged.truncate(options.rows_max);
    }
    merged
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

/// Tasks of one kind that wait for their turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedTasks {
    /// The kind.
    pub name: &'static str,
    /// How many.
    pub places: u64,
    /// Nanoseconds that they have waited, in all; known while profiling is on.
    pub latency_ns: u64,
}

fn add_queued(all: &mut Vec<QueuedTasks>, more: QueuedTasks) {
    match all.iter_mut().find(|kind| kind.name == more.name) {
        Some(kind) => {
            kind.places += more.places;
            kind.latency_ns += more.latency_ns;
        }
        None => all.push(more),
    }
}

fn queued(local: &Local) -> Vec<QueuedTasks> {
    let mut kinds = Vec::new();
    let now = super::queue_stamp();
    local.each_queued(|slot| {
        let latency_ns = match slot.queued_at.get() {
            0 => 0,
            at if local.profiling.get() => (now.wrapping_sub(at) as i32).max(0) as u64 * 64,
            _ => 0,
        };
        add_queued(&mut kinds, QueuedTasks { name: slot.kind.get().name(), places: 1, latency_ns });
    });
    kinds
}

/// What waits in the run queues of all threads, by kind, most first. Asks the threads by message, so none is stopped.
pub async fn queued_tasks() -> Vec<QueuedTasks> {
    let mut kinds = Vec::new();
    gather(queued).await.into_iter().flatten().flatten().for_each(|more| add_queued(&mut kinds, more));
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind.places));
    kinds
}

/// A thread of the runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadState {
    /// Rounds of its loop so far.
    pub loops: u64,
    /// Runs of tasks so far.
    pub runs: u64,
    /// What it said of itself; `None` when it did not answer in time.
    pub answer: Option<ThreadAnswer>,
}

/// What a thread says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadAnswer {
    /// What the C library calls it.
    pub id: u64,
    /// It is the one that asked.
    pub is_here: bool,
    /// Tasks that wait for their turn: urgent, normal, bulk, heavy.
    pub queued: [usize; 4],
    /// All of its tasks.
    pub tasks: u32,
    /// Those that have a deadline.
    pub timers: usize,
    /// Runs are timed.
    pub profiling: bool,
    /// Nanoseconds of CPU so far.
    pub cpu_ns: u64,
    /// When it last asked the kernel for events, by the loop's clock.
    pub polled_us: u64,
}

fn answer(local: &Local) -> ThreadAnswer {
    ThreadAnswer {
        // SAFETY: takes nothing and cannot fail.
        id: unsafe { libc::pthread_self() },
        is_here: false,
        queued: local.queued(),
        tasks: local.slots.live(),
        timers: local.timers().0,
        profiling: local.profiling.get(),
        cpu_ns: clock::thread_cpu_ns(),
        polled_us: local.meter.polled_us.get(),
    }
}

/// What each thread does, in their order. Asks them by message, so none is stopped.
pub async fn thread_states() -> Vec<ThreadState> {
    let answers = gather(answer).await;
    let Some(local) = local() else { return Vec::new() };
    let here = crate::thread_index();
    let states = answers.into_iter().zip(&local.runtime.threads).enumerate();
    states
        .map(|(thread, (answer, known))| ThreadState {
            loops: known.activity.loops.load(Ordering::Relaxed),
            runs: known.activity.runs.load(Ordering::Relaxed),
            answer: answer.map(|answer| ThreadAnswer { is_here: thread == here, ..answer }),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_merged_and_sorted() {
        let here = Location::caller();
        let row = |name, from, calls, cpu_ns| TaskCost { name, from, calls, cpu_ns, latency_ns: 0 };
        let rows = vec![
            row("b", Some(here), 5, 100),
            row("a", Some(here), 7, 50),
            row("b", Some(here), 4, 1),
            row("b", None, 1, 1000),
        ];
        let names = |order, aggregate, rows_max| -> Vec<(&str, u64)> {
            let options = ProfileOptions { order, aggregate, rows_max };
            arrange(rows.clone(), options).iter().map(|row| (row.name, row.calls)).collect()
        };
        assert_eq!(names(Order::Usage, false, 0), [("b", 9), ("a", 7), ("b", 1)]);
        assert_eq!(names(Order::Address, false, 0), [("a", 7), ("b", 9), ("b", 1)]);
        assert_eq!(names(Order::Time, false, 2), [("b", 1), ("b", 9)]);
        assert_eq!(names(Order::Context, false, 0), [("b", 1), ("b", 9), ("a", 7)]);
        assert_eq!(names(Order::Usage, true, 0), [("b", 10), ("a", 7)]);
    }
}
