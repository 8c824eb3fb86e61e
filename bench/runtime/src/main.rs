//! Measures the scheduler beside other runtimes, in one run, and writes `target/bench/runtime.tsv`.
//!
//! Each line is an experiment, a subject, a metric and a value. `ns_per_op` is the median over several turns, the
//! subjects taking turns so that a disturbance hits all of them; `cpu_ns_per_op` is the process's CPU time in the same
//! turns, which says more on a busy machine. Name experiments on the command line to run only those, or one subject of
//! one as `wake_self/thalweg`.

#![forbid(unsafe_code)]

mod latency;
mod on_monoio;
mod on_thalweg;
mod on_tokio;
mod presence;
mod work;

use std::fmt::Write as _;
use std::time::Duration;

/// As in the proxy.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Turns per subject and experiment.
const TURNS: usize = 7;

/// Nanoseconds per operation: elapsed, and of CPU.
type PerOp = (f64, f64);

type Run = fn() -> PerOp;

/// An experiment: what one operation is, and the subjects that can do it.
struct Experiment {
    name: &'static str,
    subjects: &'static [(&'static str, Run)],
}

const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "spawn_run",
        subjects: &[
            ("thalweg", on_thalweg::spawn_run),
            ("tokio-current", on_tokio::spawn_run_current),
            ("tokio-multi", on_tokio::spawn_run_multi),
            ("monoio", on_monoio::spawn_run),
        ],
    },
    Experiment {
        name: "wake_self",
        subjects: &[
            ("thalweg", on_thalweg::wake_self),
            ("tokio-current", on_tokio::wake_self_current),
            ("tokio-multi", on_tokio::wake_self_multi),
            ("monoio", on_monoio::wake_self),
        ],
    },
    Experiment {
        name: "wake_thread_latency",
        subjects: &[
            ("thalweg", on_thalweg::wake_thread_latency),
            ("tokio-current", on_tokio::wake_thread_latency_current),
            ("tokio-multi", on_tokio::wake_thread_latency_multi),
        ],
    },
    Experiment {
        name: "wake_thread_throughput",
        subjects: &[
            ("thalweg", on_thalweg::wake_thread_throughput),
            ("tokio-current", on_tokio::wake_thread_throughput_current),
            ("tokio-multi", on_tokio::wake_thread_throughput_multi),
        ],
    },
    Experiment {
        name: "socket_ping_pong",
        subjects: &[
            ("thalweg", on_thalweg::socket_ping_pong),
            ("thalweg-epoll", on_thalweg::socket_ping_pong_epoll),
            ("tokio-current", on_tokio::socket_ping_pong_current),
            ("tokio-multi", on_tokio::socket_ping_pong_multi),
            ("monoio", on_monoio::socket_ping_pong),
        ],
    },
    Experiment {
        name: "timers_arm",
        subjects: &[
            ("thalweg", || on_thalweg::timers().0),
            ("tokio-current", || on_tokio::timers_current().0),
            ("tokio-multi", || on_tokio::timers_multi().0),
            ("monoio", || on_monoio::timers().0),
        ],
    },
    Experiment {
        name: "timers_move",
        subjects: &[
            ("thalweg", || on_thalweg::timers().1),
            ("tokio-current", || on_tokio::timers_current().1),
            ("tokio-multi", || on_tokio::timers_multi().1),
            ("monoio", || on_monoio::timers().1),
        ],
    },
    Experiment {
        name: "yield_10000",
        subjects: &[
            ("thalweg", on_thalweg::yield_tasks),
            ("tokio-current", on_tokio::yield_tasks_current),
            ("tokio-multi", on_tokio::yield_tasks_multi),
            ("monoio", on_monoio::yield_tasks),
        ],
    },
];

fn main() -> std::io::Result<()> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let chosen = |name: &str| {
        wanted.is_empty() || wanted.iter().any(|w| name.starts_with(w.split('/').next().unwrap_or(w)))
    };
    let subject_chosen =
        |subject: &str| wanted.iter().filter_map(|w| w.split_once('/')).all(|(_, chosen)| chosen == subject);
    let mut table = String::from("experiment\tsubject\tmetric\tvalue\n");
    for experiment in EXPERIMENTS.iter().filter(|e| chosen(e.name)) {
        let subjects: Vec<_> =
            experiment.subjects.iter().filter(|(subject, _)| subject_chosen(subject)).collect();
        let mut values = vec![(Vec::new(), Vec::new()); subjects.len()];
        let turns = if experiment.name.starts_with("timers") { 3 } else { TURNS };
        for _ in 0..turns {
            for ((_, run), (wall, cpu)) in subjects.iter().zip(&mut values) {
                let (wall_ns, cpu_ns) = run();
                wall.push(wall_ns);
                cpu.push(cpu_ns);
            }
        }
        let medians: Vec<(f64, f64)> =
            values.iter_mut().map(|(wall, cpu)| (median(wall), median(cpu))).collect();
        for ((subject, _), (wall, cpu)) in subjects.iter().zip(&medians) {
            _ = writeln!(table, "{}\t{subject}\tns_per_op\t{wall:.1}", experiment.name);
            _ = writeln!(table, "{}\t{subject}\tcpu_ns_per_op\t{cpu:.1}", experiment.name);
            println!(
                "{:<24}{subject:<16}{wall:>10.1} ns per operation ({:.2} times {}), {cpu:>10.1} ns of CPU ({:.2} times)",
                experiment.name,
                wall / medians[0].0,
                subjects[0].0,
                cpu / medians[0].1,
            );
        }
    }
    if chosen("latency") {
        for (subject, result) in latency::all(6, Duration::from_secs(2)) {
            for (metric, value) in [
                ("p50_us", result.p50_us),
                ("p99_us", result.p99_us),
                ("max_us", result.max_us),
                ("own_p99_us", result.own_p99_us),
                ("own_max_us", result.own_max_us),
                ("light_per_s", result.light_per_s),
                ("heavy_per_s", result.heavy_per_s),
                ("heavy_us", result.heavy_us),
            ] {
                _ = writeln!(table, "latency\t{subject}\t{metric}\t{value:.0}");
            }
            println!(
                "{:<24}{subject:<20} p50 {:>7.0} us, p99 {:>7.0} us, max {:>7.0} us (without what the kernel \
                 took {:>7.0}, {:>7.0}); {:.0} light/s, {:.0} heavy/s of {:.0} us",
                "latency",
                result.p50_us,
                result.p99_us,
                result.max_us,
                result.own_p99_us,
                result.own_max_us,
                result.light_per_s,
                result.heavy_per_s,
                result.heavy_us
            );
        }
    }
    std::fs::create_dir_all("target/bench")?;
    std::fs::write("target/bench/runtime.tsv", table)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
