//! Tunables over a range of values, under saturation with many connections: where the defaults come from.

use std::io;
use std::path::PathBuf;

use crate::Options;
use crate::experiment::write;
use crate::load::{self, Loaders, Requests};
use crate::machine::Folder;
use crate::measure::{Rounds, cpu_ns};
use crate::peer::{self, ORIGIN_PORTS, PROXY_PORT, Setup, Subject};

struct Sweep {
    keyword: &'static str,
    /// The line of the `global` section for each value.
    lines: &'static [(&'static str, &'static str)],
    requests: Requests,
}

macro_rules! lines {
    ($keyword:literal: $($value:literal)*) => {
        &[$((stringify!($value), concat!("    ", $keyword, " ", $value, "\n")),)*]
    };
}

const SWEEPS: &[Sweep] = &[
    Sweep {
        keyword: "tune.runqueue-depth",
        lines: lines!("tune.runqueue-depth": 10 20 40 80 200 400),
        requests: Requests { connections: 1000, path: "/", close: false, post: 0, tls: false, streams: 0 },
    },
    Sweep {
        keyword: "tune.maxaccept",
        lines: lines!("tune.maxaccept": 1 2 4 8 16 64),
        requests: Requests { connections: 1000, path: "/", close: true, post: 0, tls: false, streams: 0 },
    },
];

/// Runs every sweep with one and with two threads.
///
/// # Errors
/// When nginx or wrk is missing, a value is refused, or the table cannot be written.
pub fn run(options: &Options) -> io::Result<()> {
    let need = |name: &str| peer::in_path(name).ok_or_else(|| io::Error::other(format!("{name} is missing")));
    let loaders = Loaders { wrk: need("wrk")?, h2load: peer::in_path("h2load") };
    let (nginx, folder) = (need("nginx")?, Folder::new()?);
    let _origin = peer::start_origin(&nginx, folder.path(), ORIGIN_PORTS[0])?;
    let mut table =
        String::from("keyword\tthreads\tdriver\tvalue\tcpu_us_per_request\trequests_per_s\tspread\n");
    for sweep in SWEEPS {
        if !options.only.is_empty() && !options.only.iter().any(|only| sweep.keyword.contains(only.as_str()))
        {
            continue;
        }
        for (threads, driver) in [(1, "io_uring"), (2, "io_uring"), (1, "epoll"), (2, "epoll")] {
            println!("\n{} with {threads} thread(s), {driver}", sweep.keyword);
            let subject = Subject::Thalweg { program: options.thalweg.clone(), driver, label: "thalweg" };
            let running = sweep
                .lines
                .iter()
                .zip(PROXY_PORT..)
                .map(|((_, global), port)| {
                    let setup = Setup { threads, global, ..Setup::PLAIN };
                    peer::start(&subject, setup, port, folder.path())
                })
                .collect::<io::Result<Vec<_>>>()?;
            let mut figures = vec![(Rounds::default(), Rounds::default()); running.len()];
            for round in 0..=options.rounds {
                for ((process, port), (cpu_figures, rates)) in
                    running.iter().zip(PROXY_PORT..).zip(&mut figures)
                {
                    let cpu = || process.pids.iter().map(|pid| cpu_ns(*pid)).sum::<u64>();
                    let before = cpu();
                    let observed =
                        load::saturate(&loaders, folder.path(), port, sweep.requests, options.seconds)?;
                    if round > 0 {
                        cpu_figures.push((cpu() - before) as f64 / 1e3 / observed.requests as f64);
                        rates.push(observed.requests as f64 / observed.seconds);
                    }
                }
            }
            for ((value, _), (cpu, rates)) in sweep.lines.iter().zip(&figures) {
                let (us, rate, spread) = (cpu.median(), rates.median(), cpu.spread());
                println!(
                    "  {value:>5}  {us:7.2} us per request  {rate:9.0} requests/s  spread {:.0} %",
                    spread * 100.0
                );
                table.push_str(&format!(
                    "{}\t{threads}\t{driver}\t{value}\t{us:.3}\t{rate:.0}\t{spread:.3}\n",
                    sweep.keyword
                ));
            }
        }
    }
    write(&options.out.clone().unwrap_or_else(|| PathBuf::from("target/bench/sweep.tsv")), &table)
}
