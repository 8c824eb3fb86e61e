//! The data path beside the reference's: scripted clients and servers exchange bytes through an installed HAProxy and
//! through this build with each I/O driver. What both sides saw, when, how their connections ended, the log lines and
//! the counters must be the same.
//!
//! `HAPROXY_ORACLE` names the program to compare with; otherwise it is the `haproxy` found in `PATH`. Without one the
//! test says so and passes. What differs on purpose is listed in `known.rs` with the reason.
//!
//! Nothing depends on the machine's speed: an exchange that differs is played again, almost alone, and only what
//! differs every time counts. Moments may be 50 ms apart, and more when this process itself was kept waiting.
//!
//! To look at some exchanges: `EXCHANGES='timeouts/*' EXCHANGES_SHOW=1 cargo test -p thalweg --test differential --
//! --nocapture` prints what each program showed. With `EXCHANGES_KNOWN=0` known differences count as well.
//! `EXCHANGES_SEED=7 EXCHANGES_MIXTURES=500 EXCHANGES='mix/*'` plays other mixtures than `make test` does, and more;
//! `EXCHANGES_HTTP2=10000` does the same for those of HTTP/2, `http2/*`.
//! `EXCHANGES_IO` names the only I/O driver to compare.

mod support;

#[path = "differential/actor.rs"]
mod actor;
#[path = "differential/case.rs"]
mod case;
#[path = "differential/compare.rs"]
mod compare;
#[path = "differential/families/mod.rs"]
mod families;
#[path = "differential/http2.rs"]
mod http2;
#[path = "differential/known.rs"]
mod known;
#[path = "differential/known_http2.rs"]
mod known_http2;
#[path = "differential/play.rs"]
mod play;
#[path = "differential/script.rs"]
mod script;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use case::Case;
use compare::{Difference, compare, transcript};
use play::{Numbered, Player, Seen, Stage, shown_config};
use thalweg_runtime::driver::{Driver, DriverKind, DriverOptions};

/// Cases in one process.
const BATCH: usize = 48;
/// Batches at once.
const STAGES: usize = 4;
/// How often a difference must be seen again.
const REPLAYS: usize = 3;
/// Cases at once when they are played again.
const REPLAYED_AT_ONCE: usize = 24;
/// How far moments may be apart.
const TOLERANCE: Duration = Duration::from_millis(50);

/// The installed HAProxy, if it is one whose behaviour is ours.
fn reference() -> Result<PathBuf, String> {
    let path = match std::env::var_os("HAPROXY_ORACLE") {
        Some(path) => PathBuf::from(path),
        None => std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
            .chain([PathBuf::from("/usr/sbin")])
            .map(|dir| dir.join("haproxy"))
            .find(|path| path.is_file())
            .ok_or("no HAProxy found to compare with (set HAPROXY_ORACLE)")?,
    };
    let output = Command::new(&path).arg("-v").output().map_err(|e| format!("{}: {e}", path.display()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.lines().next().unwrap_or("").to_string();
    // Our own program may be installed under this name.
    if !version.contains("version 3.5") || text.to_lowercase().contains("thalweg") {
        return Err(format!("{} is not HAProxy 3.5: {version}", path.display()));
    }
    Ok(path)
}

fn players(reference: PathBuf) -> Vec<Player> {
    let mut players = vec![Player::Reference(reference), Player::Ours("epoll")];
    match Driver::new(DriverKind::Uring, &DriverOptions::default()) {
        Ok(_) => players.push(Player::Ours("io_uring")),
        Err(error) => eprintln!("skipped with io_uring, which this kernel does not allow: {error}"),
    }
    if let Ok(only) = std::env::var("EXCHANGES_IO") {
        players.retain(|player| matches!(player, Player::Reference(_)) || player.name() == only);
    }
    players
}

/// What a case showed with each player.
type Played = Vec<Seen>;

/// Measures how long a thread of this process waits for a processor: moments are no more exact than that.
struct Noise {
    worst_us: AtomicU64,
    stop: AtomicBool,
}

impl Noise {
    const STEP: Duration = Duration::from_millis(4);

    fn watch(&self) {
        while !self.stop.load(Ordering::Relaxed) {
            let before = Instant::now();
            thread::sleep(Noise::STEP);
            let late = before.elapsed().saturating_sub(Noise::STEP).as_micros();
            self.worst_us.fetch_max(u64::try_from(late).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }

    fn take(&self) -> Duration {
        Duration::from_micros(self.worst_us.swap(0, Ordering::Relaxed))
    }
}

/// Ends the measurement however the test ends.
struct StopWhenDropped<'a>(&'a Noise);

impl Drop for StopWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

/// Plays cases with every player, in batches that share the lines of `global`.
fn play_all(
    players: &[Player],
    cases: &[Numbered<'_>],
    at_once: usize,
    stages: usize,
) -> BTreeMap<usize, Played> {
    let mut by_global: BTreeMap<&str, Vec<Numbered<'_>>> = BTreeMap::new();
    for case in cases {
        by_global.entry(&case.1.global).or_default().push(*case);
    }
    let batches: VecDeque<Vec<Numbered<'_>>> =
        by_global.values().flat_map(|cases| cases.chunks(at_once).map(<[_]>::to_vec)).collect();
    let batches = Mutex::new(batches);
    let played = Mutex::new(BTreeMap::new());
    thread::scope(|scope| {
        for _ in 0..stages {
            scope.spawn(|| {
                let stage = Stage::new();
                loop {
                    let Some(batch) = batches.lock().unwrap().pop_front() else { return };
                    let seen: Vec<Vec<Seen>> =
                        players.iter().map(|player| stage.play(player, &batch)).collect();
                    // One refused configuration, or one crash, is not the others' fault.
                    if batch.len() > 1 && seen.iter().any(|seen| seen[0].failure.is_some()) {
                        let mut batches = batches.lock().unwrap();
                        batches.extend(batch.chunks(batch.len().div_ceil(2)).map(<[_]>::to_vec));
                        continue;
                    }
                    let mut played = played.lock().unwrap();
                    for (i, (number, _)) in batch.iter().enumerate() {
                        played.insert(*number, seen.iter().map(|seen| seen[i].clone()).collect::<Vec<_>>());
                    }
                }
            });
        }
    });
    played.into_inner().unwrap()
}

/// The differences of each player of ours, by its index and by aspect.
type Differences = BTreeMap<(usize, String), Difference>;

fn differences(case: &Case, played: &Played, tolerance: Duration) -> Differences {
    let mut all = Differences::new();
    for (i, ours) in played.iter().enumerate().skip(1) {
        for difference in compare(case, &played[0], ours, tolerance) {
            all.insert((i, difference.aspect.clone()), difference);
        }
    }
    all
}

fn explained(case: &Case, aspect: &str) -> bool {
    known::reason(&case.name, aspect).is_some() && std::env::var("EXCHANGES_KNOWN").as_deref() != Ok("0")
}

fn unexplained(case: &Case, differences: &Differences) -> bool {
    differences.keys().any(|(_, aspect)| !explained(case, aspect))
}

#[test]
fn the_reference_agrees() {
    let path = match reference() {
        Ok(path) => path,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    let players = players(path);
    let only = std::env::var("EXCHANGES").ok();
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    let seed: Option<u64> = number("EXCHANGES_SEED");
    let mixtures = number("EXCHANGES_MIXTURES").map_or(families::MIXTURES, |n| n as usize);
    let http2 = number("EXCHANGES_HTTP2").map_or(families::HTTP2, |n| n as usize);
    let all = families::all(seed.unwrap_or(families::SEED), mixtures, http2);
    let names: BTreeSet<&str> = all.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names.len(), all.len(), "two cases have the same name");
    let cases: Vec<Numbered<'_>> = all
        .iter()
        .enumerate()
        .filter(|(_, case)| only.as_ref().is_none_or(|only| known::matches(only, &case.name)))
        .collect();
    let start = Instant::now();
    let noise = Noise { worst_us: AtomicU64::new(0), stop: AtomicBool::new(false) };
    let report = thread::scope(|scope| {
        scope.spawn(|| noise.watch());
        let _stop = StopWhenDropped(&noise);
        run(&players, &cases, &noise)
    });
    eprintln!(
        "{} exchanges with {} programs in {:.0} s: {} differ as known, {} differ",
        cases.len(),
        players.len(),
        start.elapsed().as_secs_f32(),
        report.known,
        report.differ.len()
    );
    for difference in &report.differ {
        eprintln!("{difference}");
    }
    assert!(report.differ.is_empty(), "{} exchanges differ", report.differ.len());
}

struct Report {
    known: usize,
    differ: Vec<String>,
}

fn run(players: &[Player], cases: &[Numbered<'_>], noise: &Noise) -> Report {
    let show = std::env::var_os("EXCHANGES_SHOW").is_some();
    let mut played = play_all(players, cases, BATCH, STAGES);
    let tolerance = |noise: Duration| TOLERANCE + 3 * noise;
    let mut allowed = tolerance(noise.take());
    let mut found: BTreeMap<usize, Differences> =
        cases.iter().map(|(number, case)| (*number, differences(case, &played[number], allowed))).collect();
    for _ in 0..REPLAYS {
        let again: Vec<Numbered<'_>> =
            cases.iter().filter(|(number, case)| unexplained(case, &found[number])).copied().collect();
        if again.is_empty() {
            break;
        }
        let replayed = play_all(players, &again, REPLAYED_AT_ONCE, 2);
        allowed = tolerance(noise.take());
        for (number, case) in again {
            let now = differences(case, &replayed[&number], allowed);
            found.get_mut(&number).expect("every case was played").retain(|key, _| now.contains_key(key));
        }
        played.extend(replayed);
    }
    let mut report = Report { known: 0, differ: Vec::new() };
    for (number, case) in cases {
        let found = &found[number];
        let transcripts = || {
            let of = |(player, seen)| format!("{}:\n{}", Player::name(player), transcript(case, seen));
            players.iter().zip(&played[number]).map(of).collect::<String>()
        };
        if unexplained(case, found) {
            let mut text = format!("--- {}\n", case.name);
            for ((player, aspect), difference) in found {
                let known = known::reason(&case.name, aspect).map_or("", |_| " (known)");
                let name = players[*player].name();
                let Difference { theirs, ours, .. } = difference;
                text += &format!(
                    "  {aspect} with {name}{known}:\n    reference: {theirs}\n    ours:      {ours}\n"
                );
            }
            report.differ.push(text + &transcripts());
        } else if !found.is_empty() {
            report.known += 1;
        }
        if show {
            eprintln!("=== {}\n{}{}", case.name, shown_config((*number, case)), transcripts());
        }
    }
    report
}
