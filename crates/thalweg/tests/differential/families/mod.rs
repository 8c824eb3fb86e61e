//! The exchanges, by family.

mod aborts;
mod cookies;
mod draw;
mod endings;
mod framing;
mod http2;
mod logs;
mod mixtures;
mod rules;
mod servers;
mod timeouts;
mod upgrades;

use super::case::Case;

/// The seed of the mixtures that are made by chance, and how many there are, when nobody asks for others.
pub const SEED: u64 = 1;
pub const MIXTURES: usize = 100;
/// How many exchanges of HTTP/2 there are then.
pub const HTTP2: usize = 200;

pub fn all(seed: u64, mixtures: usize, http2: usize) -> Vec<Case> {
    let mut cases = Vec::new();
    cases.extend(framing::cases());
    cases.extend(aborts::cases());
    cases.extend(endings::cases());
    cases.extend(timeouts::cases());
    cases.extend(servers::cases());
    cases.extend(cookies::cases());
    cases.extend(rules::cases());
    cases.extend(upgrades::cases());
    cases.extend(logs::cases());
    cases.extend(mixtures::cases(seed, mixtures, seed != SEED));
    cases.extend(http2::cases(seed, http2));
    cases
}

/// Numbers behind certain words of a case's configuration: what its timeouts and its delays take, in milliseconds.
fn limits(case: &Case) -> (Vec<u64>, Vec<u64>) {
    let (mut timeouts, mut delays) = (Vec::new(), Vec::new());
    for line in [&case.defaults, &case.front, &case.back].into_iter().flat_map(|lines| lines.lines()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
        match words.iter().position(|word| ["time", "pause", "inspect-delay"].contains(word)) {
            Some(at) => delays.extend(number(at + 1)),
            None if words.first() == Some(&"timeout") => timeouts.extend(number(2)),
            None => {}
        }
    }
    (timeouts, delays)
}

/// In exchanges that are drawn, what a proxy does by itself is never due when a script does something.
#[test]
fn moments_are_apart() {
    /// What scripts do is done at multiples of this.
    const GRID: u64 = 55;
    let is_apart = |ms: u64| (10..=GRID - 10).contains(&(ms % GRID));
    assert_eq!(crate::script::LOOK % GRID, 0, "the end of a script is one of its moments");
    for seed in 1..=4 {
        for case in mixtures::cases(seed, 200, true).iter().chain(&http2::cases(seed, 400)) {
            let (timeouts, delays) = limits(case);
            for first in [&timeouts, &delays].into_iter().flatten() {
                assert!(is_apart(*first), "{}: {first} ms", case.name);
            }
            for (delay, timeout) in delays.iter().flat_map(|d| timeouts.iter().map(move |t| (d, t))) {
                assert!(is_apart(delay + timeout), "{}: {delay} and {timeout} ms", case.name);
            }
        }
    }
}
