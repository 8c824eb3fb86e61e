#![forbid(unsafe_code)]
//! Measures Thalweg beside the peers that are installed, in one interleaved run on this machine.
//!
//! The proxy under test has one core to itself; the origin (nginx) and the load share another. The first figure of
//! every experiment is the CPU time the proxy's process was given, per request, as the kernel's scheduler counts it.
//! Every experiment runs each subject in turn, several rounds, and the median of the rounds is kept.
//!
//! Usage: `thalweg-bench-serving [--rounds N] [--seconds N] [--only WORD] [--thalweg PATH] [--haproxy PATH]`

mod experiment;
mod load;
mod measure;
mod peer;

use std::path::PathBuf;

/// What the command line says.
pub struct Options {
    /// Times each subject runs in each experiment.
    pub rounds: usize,
    /// Length of one run.
    pub seconds: u64,
    /// Only experiments whose name contains this.
    pub only: Option<String>,
    /// The program under test.
    pub thalweg: PathBuf,
    /// The reference, when it is installed.
    pub haproxy: Option<PathBuf>,
    /// Where results go.
    pub out: PathBuf,
}

fn main() {
    let mut args = std::env::args().skip(1);
    let mut options = Options {
        rounds: 3,
        seconds: 4,
        only: None,
        thalweg: PathBuf::from("target/release/thalweg"),
        haproxy: peer::in_path("haproxy"),
        out: PathBuf::from("target/bench/serving.tsv"),
    };
    while let Some(arg) = args.next() {
        let mut value = || args.next().unwrap_or_else(|| usage(&arg));
        match arg.as_str() {
            // The load generator re-runs this program, so that it can be pinned to the other core.
            "load" => return load::main(std::env::args().skip(2).collect()),
            "--rounds" => options.rounds = value().parse().unwrap_or_else(|_| usage(&arg)),
            "--seconds" => options.seconds = value().parse().unwrap_or_else(|_| usage(&arg)),
            "--only" => options.only = Some(value()),
            "--thalweg" => options.thalweg = PathBuf::from(value()),
            "--haproxy" => options.haproxy = Some(PathBuf::from(value())),
            "--out" => options.out = PathBuf::from(value()),
            _ => usage(&arg),
        }
    }
    if let Err(error) = experiment::run(&options) {
        eprintln!("bench: {error}");
        std::process::exit(1);
    }
}

fn usage(arg: &str) -> ! {
    eprintln!("bench: cannot use '{arg}'; see the first lines of bench/serving/src/main.rs");
    std::process::exit(2)
}
