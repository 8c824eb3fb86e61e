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
