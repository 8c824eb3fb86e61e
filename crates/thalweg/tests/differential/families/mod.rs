//! The exchanges, by family.

mod aborts;
mod framing;
mod timeouts;

use super::case::Case;

/// The seed of the mixtures that are made by chance.
pub const SEED: u64 = 0x7468_616c_7765_6721;

pub fn all(_seed: u64) -> Vec<Case> {
    let mut cases = Vec::new();
    cases.extend(framing::cases());
    cases.extend(aborts::cases());
    cases.extend(timeouts::cases());
    cases
}
