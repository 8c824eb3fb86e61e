//! What the peers of a fleet counted themselves: a table for each, made when the peer is heard of first.

use std::sync::{Arc, OnceLock};

use crate::table::Table;

/// Peers whose shares are kept at most.
pub(crate) const SHARES_MAX: usize = 64;

/// The shares by the names of their peers. One is never taken away: its entries go when they are due.
pub(crate) struct Shares(Box<[OnceLock<Share>]>);

struct Share {
    peer: Arc<str>,
    table: Table,
}

impl Shares {
    /// None yet; none ever, where nothing is summed.
    pub fn new(any: bool) -> Shares {
        Shares((0..if any { SHARES_MAX } else { 0 }).map(|_| OnceLock::new()).collect())
    }

    /// The share of a peer.
    pub fn of(&self, peer: &str, make: impl Fn() -> Table) -> Option<&Table> {
        self.0.iter().find_map(|slot| {
            let share = slot.get_or_init(|| Share { peer: Arc::from(peer), table: make() });
            (*share.peer == *peer).then_some(&share.table)
        })
    }

    /// Those that there are.
    pub fn iter(&self) -> impl Iterator<Item = &Table> {
        self.0.iter().map_while(OnceLock::get).map(|share| &share.table)
    }
}
