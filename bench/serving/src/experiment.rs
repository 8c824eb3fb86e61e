//! The experiments: what is run, how often, and what is written down.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::load::{self, Observed};
use crate::measure::{anonymous_bytes, cpu_ns};
use crate::peer::{self, LOG_PORT, Setup, Subject};
use crate::{Options, measure};

/// One kind of load.
#[derive(Clone, Copy)]
enum Load {
    Saturate { connections: usize, path: &'static str, close: bool },
    Offer { connections: usize, rate: u64 },
    Idle { connections: usize },
    Calls { connections: usize },
}

struct Experiment {
    name: &'static str,
    what: &'static str,
    setup: Setup,
    load: Load,
}

const ONE: Setup = Setup { threads: 1, log_and_rules: false, splice: false };

const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "keepalive-100",
        what: "1 kB responses, keep-alive on both sides, 100 connections, saturated, one thread",
        setup: ONE,
        load: Load::Saturate { connections: 100, path: "/", close: false },
    },
    Experiment {
        name: "keepalive-1000",
        what: "the same with 1000 connections",
        setup: ONE,
        load: Load::Saturate { connections: 1000, path: "/", close: false },
    },
    Experiment {
        name: "log-and-rules-100",
        what: "100 connections, httplog to a UDP socket and ten rules",
        setup: Setup { log_and_rules: true, ..ONE },
        load: Load::Saturate { connections: 100, path: "/", close: false },
    },
    Experiment {
        name: "offered-10k",
        what: "10,000 requests per second offered over 100 connections",
        setup: ONE,
        load: Load::Offer { connections: 100, rate: 10_000 },
    },
    Experiment {
        name: "body-1m",
        what: "1 MB responses, 20 connections",
        setup: ONE,
        load: Load::Saturate { connections: 20, path: "/1m", close: false },
    },
    Experiment {
        name: "body-1m-splice",
        what: "1 MB responses, 20 connections, `option splice-auto`",
        setup: Setup { splice: true, ..ONE },
        load: Load::Saturate { connections: 20, path: "/1m", close: false },
    },
    Experiment {
        name: "connection-per-request",
        what: "a client connection per request, 100 at a time",
        setup: ONE,
        load: Load::Saturate { connections: 100, path: "/", close: true },
    },
    Experiment {
        name: "idle-connections",
        what: "anonymous memory per idle keep-alive connection, 5000 of them",
        setup: ONE,
        load: Load::Idle { connections: 5000 },
    },
    Experiment {
        name: "system-calls",
        what: "system calls per request, 100 connections, counted by strace (which slows everything down)",
        setup: ONE,
        load: Load::Calls { connections: 100 },
    },
    Experiment {
        name: "keepalive-100-two-threads",
        what: "100 connections, two threads on both cores, sharing them with the load",
        setup: Setup { threads: 2, ..ONE },
        load: Load::Saturate { connections: 100, path: "/", close: false },
    },
];

/// Metric and value, in the order they are printed.
type Figures = Vec<(&'static str, f64)>;

/// Runs everything, prints as it goes, and writes the table.
pub fn run(options: &Options) -> io::Result<()> {
    let need = |name: &str| {
        peer::in_path(name)
            .ok_or_else(|| io::Error::other(format!("{name} is not installed; `make bench` installs it")))
    };
    let (nginx, wrk) = (need("nginx")?, need("wrk")?);
    let dir = std::env::temp_dir().join(format!("thalweg-bench-{}", std::process::id()));
    fs::create_dir_all(&dir)?;
    let mut subjects: Vec<Subject> = ["io_uring", "epoll"]
        .into_iter()
        .map(|driver| Subject::Thalweg { program: options.thalweg.clone(), driver })
        .collect();
    match &options.haproxy {
        Some(path) => subjects.push(Subject::Haproxy(path.clone())),
        None => println!("haproxy is not installed: no ratios to it in this run"),
    }
    subjects.push(Subject::Nginx(nginx.clone()));

    let drain = UdpSocket::bind(("127.0.0.1", LOG_PORT))?;
    std::thread::spawn(move || {
        let mut line = [0; 2048];
        while drain.recv(&mut line).is_ok() {}
    });
    let _origin = peer::start_origin(&nginx, &dir, "1")?;

    let mut table = String::from("experiment\tsubject\tmetric\tvalue\n");
    for experiment in EXPERIMENTS {
        if options.only.as_ref().is_some_and(|only| !experiment.name.contains(only.as_str())) {
            continue;
        }
        println!("\n{}: {}", experiment.name, experiment.what);
        let mut results: BTreeMap<usize, BTreeMap<&'static str, Vec<f64>>> = BTreeMap::new();
        for _ in 0..options.rounds {
            for (i, subject) in subjects.iter().enumerate() {
                if experiment.setup.splice && matches!(subject, Subject::Nginx(_)) {
                    continue;
                }
                match once(experiment, subject, &dir, &wrk, options.seconds) {
                    Ok(figures) => {
                        for (metric, value) in figures {
                            results.entry(i).or_default().entry(metric).or_default().push(value);
                        }
                    }
                    Err(error) => println!("  {}: {error}", subject.name()),
                }
            }
        }
        report(experiment, &subjects, &results, &mut table);
    }
    if let Some(parent) = options.out.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::File::create(&options.out)?.write_all(table.as_bytes())?;
    println!("\nAll figures: {}", options.out.display());
    // The folder holds only what this run put there.
    let _ = fs::remove_dir_all(&dir);
    Ok(())
}

fn once(
    experiment: &Experiment,
    subject: &Subject,
    dir: &Path,
    wrk: &Path,
    seconds: u64,
) -> io::Result<Figures> {
    let cores = if experiment.setup.threads == 1 { "0" } else { "0,1" };
    let running = peer::start(subject, experiment.setup, dir, cores)?;
    let cpu = || running.pids.iter().map(|pid| cpu_ns(*pid)).sum::<u64>();
    let memory = || running.pids.iter().map(|pid| anonymous_bytes(*pid)).sum::<u64>();
    match experiment.load {
        Load::Idle { connections } => {
            // Warm up first, so that what every process allocates once is not counted.
            drop(load::idle(50)?);
            let before = memory();
            let held = load::idle(connections)?;
            let grown = memory().saturating_sub(before);
            Ok(vec![("bytes_per_connection", grown as f64 / held.len() as f64)])
        }
        Load::Calls { connections } => {
            load::saturate(wrk, "1", connections, 1, "/", false)?;
            let counts = dir.join("strace");
            let mut strace = Command::new("strace");
            strace.args(["-f", "-c", "-U", "calls,name", "-o"]).arg(&counts);
            for pid in &running.pids {
                strace.args(["-p", &pid.to_string()]);
            }
            let mut tracer = strace.stderr(Stdio::null()).spawn()?;
            std::thread::sleep(std::time::Duration::from_millis(300));
            let observed = load::saturate(wrk, "1", connections, 2, "/", false)?;
            let _ = Command::new("kill").args(["-INT", &tracer.id().to_string()]).status();
            tracer.wait()?;
            let calls: u64 = fs::read_to_string(&counts)?
                .lines()
                .filter(|line| line.trim_end().ends_with("total"))
                .filter_map(|line| line.split_whitespace().next()?.parse::<u64>().ok())
                .sum();
            Ok(vec![("calls_per_request", calls as f64 / observed.requests as f64)])
        }
        Load::Saturate { connections, path, close } => {
            load::saturate(wrk, "1", connections, 1, path, close)?;
            let before = cpu();
            let observed = load::saturate(wrk, "1", connections, seconds, path, close)?;
            Ok(figures(observed, cpu() - before, path))
        }
        Load::Offer { connections, rate } => {
            load::offer("1", connections, rate, 1)?;
            let before = cpu();
            let observed = load::offer("1", connections, rate, seconds)?;
            Ok(figures(observed, cpu() - before, "/"))
        }
    }
}

fn figures(observed: Observed, cpu: u64, path: &str) -> Figures {
    let requests = observed.requests as f64;
    let mut figures = vec![("cpu_us_per_request", cpu as f64 / 1e3 / requests)];
    if path == "/1m" {
        figures.push(("cpu_ms_per_gb", cpu as f64 / 1e6 / (requests * 1.048_576e6 / 1e9)));
    }
    figures.extend([
        ("requests_per_s", requests / observed.seconds),
        ("p50_us", observed.p50_us),
        ("p99_us", observed.p99_us),
        ("errors", observed.errors as f64),
    ]);
    figures
}

fn report(
    experiment: &Experiment,
    subjects: &[Subject],
    results: &BTreeMap<usize, BTreeMap<&'static str, Vec<f64>>>,
    table: &mut String,
) {
    let value = |i: usize, metric: &str| {
        results.get(&i).and_then(|m| m.get(metric)).map(|v| measure::median(v.clone()))
    };
    let reference = subjects.iter().position(|s| matches!(s, Subject::Haproxy(_)));
    let metrics: Vec<&'static str> =
        ["cpu_us_per_request", "cpu_ms_per_gb", "requests_per_s", "p50_us", "p99_us"]
            .into_iter()
            .chain(["bytes_per_connection", "calls_per_request", "errors"])
            .filter(|metric| results.values().any(|m| m.contains_key(metric)))
            .collect();
    for (i, subject) in subjects.iter().enumerate() {
        let mut line = format!("  {:18}", subject.name());
        for metric in &metrics {
            let Some(figure) = value(i, metric) else { continue };
            table.push_str(&format!("{}\t{}\t{metric}\t{figure:.3}\n", experiment.name, subject.name()));
            line.push_str(&format!("  {metric} {figure:.1}"));
            let ratio =
                reference.and_then(|r| value(r, metric)).filter(|base| *base > 0.0).map(|base| figure / base);
            if let Some(ratio) = ratio.filter(|_| subject.is_ours() && *metric != "errors") {
                table.push_str(&format!(
                    "{}\t{}\t{metric}_ratio\t{ratio:.3}\n",
                    experiment.name,
                    subject.name()
                ));
                line.push_str(&format!(" ({ratio:.2})"));
            }
        }
        println!("{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_per_request_and_per_gigabyte() {
        let observed = Observed { requests: 1000, errors: 0, seconds: 2.0, p50_us: 1.0, p99_us: 2.0 };
        let got: BTreeMap<_, _> = figures(observed, 10_000_000, "/1m").into_iter().collect();
        assert_eq!((got["cpu_us_per_request"], got["requests_per_s"]), (10.0, 500.0));
        assert!((got["cpu_ms_per_gb"] - 9.5367).abs() < 0.001);
    }
}
