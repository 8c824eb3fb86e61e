//! Scenarios of the simulator: a fixed set, those that once found something, and fresh ones.
//!
//! A failing seed is played again, with everything that happened, by `make simulate SEED=<n>`.

use thalweg_simulate::play;

/// Scenarios of the fixed set.
const FIXED: u64 = 300;

/// Scenarios of the fresh set.
const FRESH: u64 = 100;

/// Seeds that find a defect that there was, with the plans as they are now: `make simulate-planted BUG=...` puts it back.
const ONCE_FAILED: [(u64, &str); 12] = [
    (102, "deaf-listener: a listener that could not be registered again at once never accepted again"),
    (131, "cut-at-close: the last response on a kept connection was cut when the connection was closed"),
    (136, "former-line: connections that a server's former line made were used for its new one"),
    (1023, "a connection of HTTP/2 that was made during a soft stop stayed in its pool"),
    (2684, "a body of HTTP/2 that was buffered, somewhat larger than a buffer, was taken for cut"),
    (1_014_497, "an earlier response was cut when the client ended its direction under the next request"),
    (
        1_011_671,
        "an earlier response that a slow client still took was cut when the next request was answered",
    ),
    (9_500_871, "a body that rules waited for was lost when there was no buffer for more of it"),
    (9_513_075, "a body of HTTP/2 whose sender learned late that the window is small could not end"),
    (9_851_865, "the end of a tunnel's client was not heard while others held all buffers"),
    (9_873_018, "tasks that had ended were woken again and again for buffers that they had waited for"),
    (
        795_375_077_066,
        "a soft stop made the task of a client's HTTP/2 connection run without end while the client read nothing",
    ),
];

fn check(seeds: impl Iterator<Item = u64>) {
    let mut wrong = String::new();
    let mut counts = [0; 3];
    for seed in seeds {
        let outcome = play(seed, false);
        counts.iter_mut().zip(outcome.counts).for_each(|(sum, n)| *sum += n);
        if !outcome.complaints.is_empty() {
            wrong.push_str(&format!("seed {seed}:\n  {}\n", outcome.complaints.join("\n  ")));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    // A simulator in which nothing happens finds nothing.
    let [requests, responses, attempts] = counts;
    println!("{requests} requests, {responses} answers, servers saw {attempts}");
    assert!(responses > requests / 2 && attempts > requests / 2);
}

#[test]
fn fixed_scenarios() {
    check(1..=FIXED);
}

#[test]
fn scenarios_that_found_something() {
    check(ONCE_FAILED.iter().map(|(seed, _)| *seed));
}

#[test]
fn fresh_scenarios() {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let first = now.as_secs() % 1_000_000_000 * 1_000;
    println!("seeds from {first} on: make simulate FIRST={first} SEEDS={FRESH}");
    check(first..first + FRESH);
}

#[test]
fn a_seed_decides_everything() {
    for seed in [3, 15, 17, 40, 56, 246] {
        let (first, second) = (play(seed, true), play(seed, false));
        assert_eq!(first.report.trace, second.report.trace, "seed {seed}");
        assert_eq!(first.report.virtual_ms, second.report.virtual_ms, "seed {seed}");
        assert!(!first.report.journal.is_empty() && second.report.journal.is_empty());
    }
}
