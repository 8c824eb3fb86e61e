#![forbid(unsafe_code)]
//! Measures Thalweg beside the peers that are installed, on this machine, in one interleaved run.
//!
//! The proxy under test has one core to itself; the origin (nginx) and the load share another. All of them run at
//! real-time priority where that is permitted, so that nothing else on the machine can take their time. The subjects of
//! an experiment are all running while each gets its short turn of load, one after the other, round after round: what
//! the machine does meanwhile hits all of them alike. The first figure is the CPU time the proxy's processes were given
//! per request, as the kernel's scheduler counts it. The median of the rounds is kept, with the spread beside it; a
//! spread over [`NOISY`] is pointed out, and beside the figures stands how far the two cores were [apart](distance).
//!
//! Usage: see [`USAGE`].

mod distance;
mod experiment;
mod load;
mod machine;
mod measure;
mod memory;
mod peer;
mod sweep;

use std::path::PathBuf;

/// What `--help` prints.
const USAGE: &str = "\
usage: thalweg-bench-serving [sweep] [options]
  sweep              tunables over a range of values instead of experiments beside peers
  --quick            fewer experiments, shorter rounds: under three minutes
  --rounds N         turns of each subject in each experiment (5; quick: 3)
  --seconds N        length of a turn (2; quick: 1)
  --near NS          count only turns with the cores this near (see `cores ... apart`), and make others again
  --only WORD        only experiments whose name contains this; may be repeated
  --thalweg PATH     the program under test (target/release/thalweg)
  --baseline PATH    an older build of it, measured beside it
  --haproxy PATH     the reference (the one in PATH)
  --out FILE         where all figures go (target/bench/serving.tsv)
";

/// Rounds that differ by more than this share of their median say more about the machine than about the program.
pub const NOISY: f64 = 0.15;

/// What the command line says.
pub struct Options {
    /// Turns of each subject in each experiment.
    pub rounds: usize,
    /// Length of one turn in seconds.
    pub seconds: u64,
    /// Leave out what takes long.
    pub quick: bool,
    /// Nanoseconds: a turn counts only when the cores were no further apart before and behind it.
    pub near: Option<f64>,
    /// Only experiments whose name contains one of these; all when empty.
    pub only: Vec<String>,
    /// The program under test.
    pub thalweg: PathBuf,
    /// An older build to compare with.
    pub baseline: Option<PathBuf>,
    /// The reference, when it is installed.
    pub haproxy: Option<PathBuf>,
    /// Where results go.
    pub out: Option<PathBuf>,
}

fn main() {
    let mut args = std::env::args().skip(1).peekable();
    match args.peek().map(String::as_str) {
        // The load generators re-run this program, so that they can be pinned and limited.
        Some("offer") => return load::offer_main(&args.skip(1).collect::<Vec<_>>()),
        Some("distance") => return distance::distance_main(),
        Some("hold") => return memory::hold_main(&args.skip(1).collect::<Vec<_>>()),
        _ => {}
    }
    let sweeping = args.next_if(|arg| arg == "sweep").is_some();
    let mut options = Options {
        rounds: 0,
        seconds: 0,
        quick: false,
        near: None,
        only: Vec::new(),
        thalweg: PathBuf::from("target/release/thalweg"),
        baseline: None,
        haproxy: peer::in_path("haproxy"),
        out: None,
    };
    while let Some(arg) = args.next() {
        let mut value = || args.next().unwrap_or_else(|| usage(&arg));
        match arg.as_str() {
            "--quick" => options.quick = true,
            "--rounds" => options.rounds = value().parse().unwrap_or_else(|_| usage(&arg)),
            "--seconds" => options.seconds = value().parse().unwrap_or_else(|_| usage(&arg)),
            "--near" => options.near = Some(value().parse().unwrap_or_else(|_| usage(&arg))),
            "--only" => options.only.push(value()),
            "--thalweg" => options.thalweg = PathBuf::from(value()),
            "--baseline" => options.baseline = Some(PathBuf::from(value())),
            "--haproxy" => options.haproxy = Some(PathBuf::from(value())),
            "--out" => options.out = Some(PathBuf::from(value())),
            _ => usage(&arg),
        }
    }
    let (rounds, seconds) = if options.quick { (3, 1) } else { (5, 2) };
    if options.rounds == 0 {
        options.rounds = rounds;
    }
    if options.seconds == 0 {
        options.seconds = seconds;
    }
    let done = if sweeping { sweep::run(&options) } else { experiment::run(&options) };
    if let Err(error) = done {
        eprintln!("bench: {error}");
        std::process::exit(1);
    }
}

fn usage(arg: &str) -> ! {
    eprint!("bench: cannot use '{arg}'\n{USAGE}");
    std::process::exit(2)
}
