//! How many idle connections are worth keeping.

use super::descriptors::Shortage;

/// How many connections to a server a thread has in use, and how many it needs.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    /// In use by other streams.
    pub others: usize,
    /// Needed at once, as estimated from what was in use lately.
    pub needed: usize,
    /// Kept beyond that in any case (`pool-low-conn`).
    pub low: usize,
    /// Of descriptors.
    pub shortage: Shortage,
}
