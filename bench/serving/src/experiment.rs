//! The experiments: what is run, how often, and what is written down.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::distance;
use crate::load::{self, Loaders, Observed, Requests};
use crate::machine::{self, Folder};
use crate::measure::{Rounds, cpu_ns};
use crate::memory::{self, Held};
use crate::peer::{self, Key, LOG_PORT, ORIGIN_PORTS, PROXY_PORT, Running, Setup, Subject, Tracked};
use crate::{NOISY, Options};

/// One kind of load.
#[derive(Clone, Copy)]
enum Load {
    Saturate(Requests),
    Offer {
        connections: usize,
        rate: u64,
    },
    Hold {
        held: Held,
        connections: usize,
    },
    Calls(Requests),
    /// Full handshakes, one connection after the other.
    Shake,
    /// Saturation during which one of two servers is killed, and started again.
    Failover(Requests),
}

#[derive(Clone, Copy)]
struct Experiment {
    name: &'static str,
    what: &'static str,
    setup: Setup,
    load: Load,
    /// Part of the quick run.
    quick: bool,
}

const fn get(connections: usize, path: &'static str) -> Load {
    Load::Saturate(Requests { connections, path, ..SMALL })
}

const fn post(connections: usize, bytes: usize) -> Load {
    Load::Saturate(Requests { connections, path: "/post", post: bytes, ..SMALL })
}

const SMALL: Requests =
    Requests { connections: 100, path: "/", close: false, post: 0, tls: false, streams: 0 };
const FRAMED: Setup = Setup { h2_clients: true, ..Setup::PLAIN };
const FRAMED_TLS: Setup = Setup { h2_clients: true, ..ECDSA };
const TO_FRAMED: Setup = Setup { h2_servers: true, ..Setup::PLAIN };

/// Over HTTP/2: so many connections of so many requests at once.
const fn framed(connections: usize, streams: usize) -> Requests {
    Requests { connections, streams, ..SMALL }
}
const TLS: Requests = Requests { tls: true, ..SMALL };
const ECDSA: Setup = Setup { tls: Some(Key::Ecdsa), ..Setup::PLAIN };
const RSA: Setup = Setup { tls: Some(Key::Rsa), ..Setup::PLAIN };
const TRACKED: Setup = Setup { tracked: Some(Tracked::Source), ..Setup::PLAIN };
/// How often a turn is tried again before the cores are said to be too far apart.
const TRIES: usize = 300;
/// How long to wait before asking again how far they are.
const AWAY: Duration = Duration::from_millis(300);

const SPLICE: Setup = Setup { splice: true, ..Setup::PLAIN };

macro_rules! experiments {
    ($($name:literal $(($quick:ident))?: $what:literal, $setup:expr, $load:expr;)*) => {
        &[$(Experiment {
            name: $name,
            what: $what,
            setup: $setup,
            load: $load,
            quick: experiments!(@quick $($quick)?),
        },)*]
    };
    (@quick) => { false };
    (@quick quick) => { true };
}

const EXPERIMENTS: &[Experiment] = experiments! {
    "keepalive-100" (quick): "1 kB responses, keep-alive on both sides, 100 connections, saturated, one thread",
        Setup::PLAIN, Load::Saturate(SMALL);
    "keepalive-1000" (quick): "the same with 1000 connections", Setup::PLAIN, get(1000, "/");
    "keepalive-1": "the same with one connection, one request at a time", Setup::PLAIN, get(1, "/");
    "log-and-rules-100" (quick): "100 connections, httplog to a UDP socket and twenty rules",
        Setup { log_and_rules: true, ..Setup::PLAIN }, Load::Saturate(SMALL);
    "tracked-one-key": "100 connections, `track-sc0 src` with four counters: all requests count on one entry",
        TRACKED, Load::Saturate(SMALL);
    "tracked-million-keys": "the same, each request by one of 1,000,000 keys",
        Setup { tracked: Some(Tracked::Million), ..Setup::PLAIN }, Load::Saturate(SMALL);
    "tracked-one-key-two-threads": "`track-sc0 src` with two threads on both cores, sharing them with the load",
        Setup { threads: 2, ..TRACKED }, Load::Saturate(SMALL);
    "offered-10k" (quick): "10,000 requests per second offered over 100 connections",
        Setup::PLAIN, Load::Offer { connections: 100, rate: 10_000 };
    "connection-per-request" (quick): "a client connection per request, 100 at a time",
        Setup::PLAIN, Load::Saturate(Requests { close: true, ..SMALL });
    "body-16k" (quick): "16 kB responses, 50 connections", Setup::PLAIN, get(50, "/16k");
    "body-64k" (quick): "64 kB responses, 50 connections", Setup::PLAIN, get(50, "/64k");
    "body-1m" (quick): "1 MB responses, 20 connections", Setup::PLAIN, get(20, "/1m");
    "body-1m-splice": "1 MB responses, 20 connections, `option splice-auto`", SPLICE, get(20, "/1m");
    "chunked-16k": "16 kB responses in chunks, 50 connections", Setup::PLAIN, get(50, "/chunked/16k");
    "chunked-64k": "64 kB responses in chunks, 50 connections", Setup::PLAIN, get(50, "/chunked/64k");
    "chunked-1m": "1 MB responses in chunks, 20 connections", Setup::PLAIN, get(20, "/chunked/1m");
    "chunked-1m-splice": "1 MB responses in chunks, 20 connections, `option splice-auto`",
        SPLICE, get(20, "/chunked/1m");
    "post-16k": "16 kB request bodies, 50 connections", Setup::PLAIN, post(50, 16 << 10);
    "post-64k" (quick): "64 kB request bodies, 50 connections", Setup::PLAIN, post(50, 64 << 10);
    "post-1m": "1 MB request bodies, 20 connections", Setup::PLAIN, post(20, 1 << 20);
    "failover": "two checked servers, 100 connections; one server is killed in the middle and comes back",
        Setup { failover: true, ..Setup::PLAIN }, Load::Failover(SMALL);
    "idle-5000" (quick): "anonymous memory per idle keep-alive connection, 5,000 of them",
        Setup { connections: 9000, ..Setup::PLAIN }, Load::Hold { held: Held::Idle, connections: 5000 };
    "idle-100000": "the same with 100,000",
        Setup { connections: 101_000, ..Setup::PLAIN }, Load::Hold { held: Held::Idle, connections: 100_000 };
    "half-head-5000" (quick): "anonymous memory per connection that has sent half a request's head, 5,000 of them",
        Setup { connections: 9000, ..Setup::PLAIN }, Load::Hold { held: Held::HalfHead, connections: 5000 };
    "tls-keepalive-100" (quick): "1 kB responses over TLS, keep-alive on both sides, 100 connections", ECDSA, Load::Saturate(TLS);
    "tls-handshake-ecdsa" (quick): "a full TLS 1.3 handshake with an ECDSA P-256 certificate per request, one after the other",
        ECDSA, Load::Shake;
    "tls-handshake-rsa": "the same with an RSA 2048 certificate", RSA, Load::Shake;
    "tls-resumed" (quick): "a connection per request that resumes a session, 100 at a time",
        ECDSA, Load::Saturate(Requests { close: true, ..TLS });
    "tls-body-1m" (quick): "1 MB responses over TLS, 20 connections",
        ECDSA, Load::Saturate(Requests { connections: 20, path: "/1m", ..TLS });
    "tls-idle-3000": "anonymous memory per idle keep-alive connection over TLS, 3,000 of them",
        Setup { connections: 9000, ..ECDSA }, Load::Hold { held: Held::Tls, connections: 3000 };
    "h2-10x100" (quick): "1 kB responses over HTTP/2 from servers of HTTP/1, 10 connections of 100 streams",
        FRAMED, Load::Saturate(framed(10, 100));
    "h2-100x10": "the same with 100 connections of 10 streams", FRAMED, Load::Saturate(framed(100, 10));
    "h2-tls-10x100": "the same over TLS, 10 connections of 100 streams",
        FRAMED_TLS, Load::Saturate(Requests { tls: true, ..framed(10, 100) });
    "h2-tls-100x10": "the same over TLS, 100 connections of 10 streams",
        FRAMED_TLS, Load::Saturate(Requests { tls: true, ..framed(100, 10) });
    "h2-to-h2-10x100": "1 kB responses over HTTP/2 on both sides, 10 connections of 100 streams",
        Setup { h2_servers: true, ..FRAMED }, Load::Saturate(framed(10, 100));
    "h2-to-h2-100x10": "the same with 100 connections of 10 streams",
        Setup { h2_servers: true, ..FRAMED }, Load::Saturate(framed(100, 10));
    "h1-to-h2-100": "1 kB responses to 100 connections of HTTP/1 from servers of HTTP/2", TO_FRAMED, Load::Saturate(SMALL);
    "h2-body-1m": "1 MB responses over HTTP/2, 4 connections of 5 streams",
        FRAMED, Load::Saturate(Requests { path: "/1m", ..framed(4, 5) });
    "h2-connection-per-request": "a client connection of HTTP/2 per request, 200 at a time",
        FRAMED, Load::Saturate(Requests { close: true, ..framed(1, 1) });
    "system-calls": "system calls per request, 100 connections, counted by strace (which slows everything down)",
        Setup::PLAIN, Load::Calls(SMALL);
    "keepalive-100-two-threads": "100 connections, two threads on both cores, sharing them with the load",
        Setup { threads: 2, ..Setup::PLAIN }, Load::Saturate(SMALL);
};

/// Metric and value, in the order they are printed.
type Figures = Vec<(&'static str, f64)>;

/// The figures of every subject.
type Results = BTreeMap<usize, BTreeMap<&'static str, Rounds>>;

/// What all turns of a run use.
struct Ground {
    folder: Folder,
    loaders: Loaders,
    nginx: PathBuf,
    seconds: u64,
    /// [`Options::near`].
    near: Option<f64>,
}

/// Runs everything, prints as it goes, and writes the table.
///
/// # Errors
/// When nginx or wrk is missing, or the results cannot be written.
pub fn run(options: &Options) -> io::Result<()> {
    let need = |name: &str| {
        peer::in_path(name)
            .ok_or_else(|| io::Error::other(format!("{name} is not installed; `make bench` installs it")))
    };
    let ground = Ground {
        folder: Folder::new()?,
        loaders: Loaders { wrk: need("wrk")?, h2load: peer::in_path("h2load") },
        nginx: need("nginx")?,
        seconds: options.seconds,
        near: options.near,
    };
    if !machine::has_real_time() {
        println!("real-time priorities are not permitted here: other processes take part in every figure");
    }
    swallow_logs()?;
    peer::make_certificates(ground.folder.path())?;
    let subjects = subjects(options, &ground.nginx);
    let _origin = peer::start_origin(&ground.nginx, ground.folder.path(), ORIGIN_PORTS[0])?;
    let mut table = String::from("experiment\tsubject\tmetric\tvalue\tspread\n");
    for experiment in EXPERIMENTS {
        let wanted = options.only.iter().any(|only| experiment.name.contains(only.as_str()));
        let part = options.only.is_empty() && (experiment.quick || !options.quick);
        if !wanted && !part {
            continue;
        }
        println!("\n{}: {}", experiment.name, experiment.what);
        if experiment.setup.h2_clients && ground.loaders.h2load.is_none() {
            println!("  skipped: h2load is not installed");
            continue;
        }
        let experiment = &within_descriptors(experiment);
        let (results, distances) = turns(experiment, &subjects, &ground, options.rounds)?;
        report(experiment, &subjects, &results, &mut table);
        report_distance(experiment, &distances, options.near.is_some(), &mut table);
    }
    let out = options.out.clone().unwrap_or_else(|| PathBuf::from("target/bench/serving.tsv"));
    write(&out, &table)
}

/// Writes a table and says where.
///
/// # Errors
/// When it cannot be written.
pub fn write(out: &Path, table: &str) -> io::Result<()> {
    if let Some(parent) = out.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::File::create(out)?.write_all(table.as_bytes())?;
    println!("\nAll figures: {}", out.display());
    Ok(())
}

/// The experiment with no more connections than the machine's descriptors allow; says so when those are fewer.
fn within_descriptors(experiment: &Experiment) -> Experiment {
    let mut fitting = *experiment;
    if let Load::Hold { connections, .. } = &mut fitting.load {
        let files = machine::descriptors();
        // The reference sets two aside for each connection that it may have.
        let most = usize::try_from(files / 2).unwrap_or(usize::MAX).saturating_sub(700);
        if *connections > most {
            println!("  with {most} connections: a process may have only {files} descriptors here");
            *connections = most;
            fitting.setup.connections = most + 200;
        }
    }
    fitting
}

/// Somebody has to take the log lines.
fn swallow_logs() -> io::Result<()> {
    let drain = UdpSocket::bind(("127.0.0.1", LOG_PORT))?;
    std::thread::spawn(move || {
        let mut line = [0; 2048];
        while drain.recv(&mut line).is_ok() {}
    });
    Ok(())
}

fn subjects(options: &Options, nginx: &Path) -> Vec<Subject> {
    let ours =
        |program: &PathBuf, driver, label| Subject::Thalweg { program: program.clone(), driver, label };
    let mut subjects = vec![ours(&options.thalweg, "io_uring", "thalweg")];
    if !options.quick {
        subjects.push(ours(&options.thalweg, "epoll", "thalweg"));
    }
    if let Some(baseline) = &options.baseline {
        subjects.push(ours(baseline, "io_uring", "baseline"));
        if !options.quick {
            subjects.push(ours(baseline, "epoll", "baseline"));
        }
    }
    match &options.haproxy {
        Some(path) => subjects.push(Subject::Haproxy(path.clone())),
        None => println!("haproxy is not installed: no ratios to it in this run"),
    }
    if !options.quick {
        subjects.push(Subject::Nginx(nginx.to_path_buf()));
    }
    subjects
}

/// All rounds of an experiment, and how far the cores were apart in each turn.
fn turns(
    experiment: &Experiment,
    subjects: &[Subject],
    ground: &Ground,
    rounds: usize,
) -> io::Result<(Results, Rounds)> {
    let (mut results, mut distances) = (Results::new(), Rounds::default());
    // nginx has no such option, and speaks HTTP/1 to servers.
    let setup = &experiment.setup;
    let takes_part =
        |subject: &Subject| !((setup.splice || setup.h2_servers) && matches!(subject, Subject::Nginx(_)));
    let mut add = |i: usize, figures: io::Result<Figures>| match figures {
        Ok(figures) => {
            for (metric, value) in figures {
                results.entry(i).or_default().entry(metric).or_default().push(value);
            }
        }
        Err(error) => println!("  {}: {error}", subjects[i].name()),
    };
    // Memory is that of a fresh process, once; everything else is measured side by side.
    if let Load::Hold { held, connections } = experiment.load {
        for (i, subject) in subjects.iter().enumerate() {
            add(i, hold(experiment, subject, ground, held, connections));
        }
        return Ok((results, distances));
    }
    let mut running = Vec::new();
    for (i, subject) in subjects.iter().enumerate().filter(|(_, s)| takes_part(s)) {
        let port = PROXY_PORT + i as u16;
        match peer::start(subject, experiment.setup, port, ground.folder.path()) {
            Ok(process) => running.push((i, port, process)),
            Err(error) => println!("  {}: {error}", subject.name()),
        }
    }
    for round in 0..=rounds {
        for (i, port, process) in &running {
            // The first round warms up and is not counted.
            let (seconds, counted) = if round == 0 { (1, false) } else { (ground.seconds, true) };
            let (figures, distance) =
                turn_in_reach(ground.near, || turn(experiment, process, *port, ground, seconds))?;
            if counted || figures.is_err() {
                add(*i, figures);
                distances.push(distance);
            }
        }
    }
    Ok((results, distances))
}

/// A turn during which the cores were no further apart than `near` nanoseconds, at its beginning and at its end; made again
/// when they were. With it the larger of the two distances.
///
/// # Errors
/// When the cores were not that near in [`TRIES`] turns, or their distance cannot be measured.
fn turn_in_reach(
    near: Option<f64>,
    mut turn: impl FnMut() -> io::Result<Figures>,
) -> io::Result<(io::Result<Figures>, f64)> {
    for _ in 0..TRIES {
        let before = distance::between_cores()?;
        if near.is_some_and(|near| before > near) {
            std::thread::sleep(AWAY);
            continue;
        }
        let figures = turn();
        let distance = before.max(distance::between_cores()?);
        if near.is_none_or(|near| distance <= near) {
            return Ok((figures, distance));
        }
    }
    Err(io::Error::other("the cores are too far apart for --near: try again later, or with a larger figure"))
}

fn hold(
    experiment: &Experiment,
    subject: &Subject,
    ground: &Ground,
    held: Held,
    connections: usize,
) -> io::Result<Figures> {
    let process = peer::start(subject, experiment.setup, PROXY_PORT, ground.folder.path())?;
    let grown = memory::measure(&process, PROXY_PORT, held, connections)?;
    Ok(vec![
        ("bytes_per_connection", grown.bytes_per_connection),
        ("given_back_percent", grown.given_back_percent),
    ])
}

/// One subject's turn.
fn turn(
    experiment: &Experiment,
    process: &Running,
    port: u16,
    ground: &Ground,
    seconds: u64,
) -> io::Result<Figures> {
    let dir = ground.folder.path();
    let cpu = || process.pids.iter().map(|pid| cpu_ns(*pid)).sum::<u64>();
    let before = cpu();
    match experiment.load {
        Load::Saturate(requests) => {
            let observed = load::saturate(&ground.loaders, dir, port, requests, seconds)?;
            Ok(figures(observed, cpu() - before))
        }
        Load::Offer { connections, rate } => {
            let observed = load::offer(port, connections, rate, seconds)?;
            Ok(figures(observed, cpu() - before))
        }
        Load::Failover(requests) => {
            let observed = failover(ground, port, requests, seconds.max(2))?;
            Ok(figures(observed, cpu() - before))
        }
        Load::Shake => Ok(figures(load::shake(port, seconds)?, cpu() - before)),
        Load::Calls(requests) => {
            let calls =
                strace(process, dir, || load::saturate(&ground.loaders, dir, port, requests, seconds))?;
            Ok(vec![("calls_per_request", calls)])
        }
        Load::Hold { .. } => Ok(Vec::new()),
    }
}

/// Saturates while the second origin comes, and goes without a word.
fn failover(ground: &Ground, port: u16, requests: Requests, seconds: u64) -> io::Result<Observed> {
    let dir = ground.folder.path();
    let origin = peer::start_origin(&ground.nginx, dir, ORIGIN_PORTS[1])?;
    std::thread::scope(|scope| {
        let load = scope.spawn(|| load::saturate(&ground.loaders, dir, port, requests, seconds));
        std::thread::sleep(Duration::from_millis(seconds * 400));
        drop(origin);
        std::thread::sleep(Duration::from_millis(seconds * 200));
        let _back = peer::start_origin(&ground.nginx, dir, ORIGIN_PORTS[1])?;
        load.join().map_err(|_| io::Error::other("the load ended early"))?
    })
}

/// System calls of a process per request of a load.
fn strace(process: &Running, dir: &Path, load: impl FnOnce() -> io::Result<Observed>) -> io::Result<f64> {
    let counts = dir.join("strace");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-c", "-U", "calls,name", "-o"]).arg(&counts);
    for pid in &process.pids {
        strace.args(["-p", &pid.to_string()]);
    }
    let mut tracer = strace.stderr(Stdio::null()).spawn()?;
    std::thread::sleep(Duration::from_millis(300));
    let observed = load()?;
    let _ = Command::new("kill").args(["-INT", &tracer.id().to_string()]).status();
    tracer.wait()?;
    let calls: u64 = fs::read_to_string(&counts)?
        .lines()
        .filter(|line| line.trim_end().ends_with("total"))
        .filter_map(|line| line.split_whitespace().next()?.parse::<u64>().ok())
        .sum();
    Ok(calls as f64 / observed.requests as f64)
}

fn figures(observed: Observed, cpu: u64) -> Figures {
    let requests = observed.requests as f64;
    vec![
        ("cpu_us_per_request", cpu as f64 / 1e3 / requests),
        ("requests_per_s", requests / observed.seconds),
        ("p50_us", observed.p50_us),
        ("p99_us", observed.p99_us),
        ("errors", observed.errors as f64),
    ]
}

/// In the order in which they are printed.
const METRICS: [&str; 8] = [
    "cpu_us_per_request",
    "requests_per_s",
    "p50_us",
    "p99_us",
    "bytes_per_connection",
    "given_back_percent",
    "calls_per_request",
    "errors",
];

fn report(experiment: &Experiment, subjects: &[Subject], results: &Results, table: &mut String) {
    let rounds = |i: usize, metric: &str| results.get(&i).and_then(|m| m.get(metric));
    let reference = subjects.iter().position(|s| matches!(s, Subject::Haproxy(_)));
    let mut noisiest = 0.0_f64;
    for (i, subject) in subjects.iter().enumerate() {
        let mut line = format!("  {:18}", subject.name());
        for metric in METRICS {
            let Some(figure) = rounds(i, metric) else { continue };
            let (median, spread) = (figure.median(), figure.spread());
            let row = |metric: &str, value: f64| {
                format!("{}\t{}\t{metric}\t{value:.3}\t{spread:.3}\n", experiment.name, subject.name())
            };
            table.push_str(&row(metric, median));
            line.push_str(&format!("  {metric} {median:.1}"));
            if metric == "cpu_us_per_request" {
                line.push_str(&format!(" ±{:.0}%", spread * 50.0));
                noisiest = noisiest.max(spread);
            }
            let base = reference.and_then(|r| rounds(r, metric)).map(Rounds::median).filter(|b| *b > 0.0);
            let compared = subject.is_ours() && !matches!(metric, "errors" | "given_back_percent");
            if let (true, Some(base)) = (compared, base) {
                table.push_str(&row(&format!("{metric}_ratio"), median / base));
                line.push_str(&format!(" ({:.2})", median / base));
            }
        }
        println!("{line}");
    }
    if noisiest > NOISY {
        println!(
            "  noisy machine: rounds differ by up to {:.0} % of their median; take these figures with care",
            noisiest * 100.0
        );
    }
}

/// Says how far the cores were apart, and when that changed between turns; not where far turns were `made_again`.
fn report_distance(experiment: &Experiment, distances: &Rounds, made_again: bool, table: &mut String) {
    let Some((nearest, farthest)) = distances.extremes() else { return };
    let (median, spread) = (distances.median(), distances.spread());
    table.push_str(&format!("{}\tmachine\tcore_distance_ns\t{median:.0}\t{spread:.3}\n", experiment.name));
    println!("  cores {median:.0} ns apart");
    if !made_again && farthest > nearest * distance::MOVED {
        println!(
            "  the cores were {nearest:.0} ns apart in one turn and {farthest:.0} ns in another: compare no figures of such \
             a run with another's, or use --near"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_per_request() {
        let observed = Observed { requests: 1000, errors: 0, seconds: 2.0, p50_us: 1.0, p99_us: 2.0 };
        let got: BTreeMap<_, _> = figures(observed, 10_000_000).into_iter().collect();
        assert_eq!((got["cpu_us_per_request"], got["requests_per_s"]), (10.0, 500.0));
    }

    #[test]
    fn names_are_unique() {
        let names: std::collections::BTreeSet<_> = EXPERIMENTS.iter().map(|e| e.name).collect();
        assert_eq!(names.len(), EXPERIMENTS.len());
    }
}
