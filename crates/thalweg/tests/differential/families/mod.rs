//! The exchanges, by family.

mod aborts;
mod cookies;
mod framing;
mod logs;
mod rules;
mod servers;
mod timeouts;
mod upgrades;

use super::case::Case;

/// The seed of the mixtures that are made by chance.
pub const SEED: u64 = 0x7468_616c_7765_6721;

pub fn all(_seed: u64) -> Vec<Case> {
    let mut cases = Vec::new();
    cases.extend(framing::cases());
    cases.extend(aborts::cases());
    cases.extend(timeouts::cases());
    cases.extend(servers::cases());
    cases.extend(cookies::cases());
    cases.extend(rules::cases());
    cases.extend(upgrades::cases());
    cases.extend(logs::cases());
    cases
}
