//! `sticky`: the server that has been usable for longest, until it goes down (`mode log`).

use std::collections::HashSet;

use super::{Algorithm, Choice, Choose, NewWeight, Traits, Usable, Written};
use crate::balancer::ServerView;

pub(super) const TRAITS: Traits = Traits {
    is_for_logs: true,
    insists: true,
    ..Traits::new("sticky", Written::Alone(Algorithm::Sticky))
};

/// Servers, in the order in which they became usable.
#[derive(Debug)]
pub(crate) struct Sticky(Box<[u32]>);

impl Sticky {
    pub fn new(usable: &Usable<'_>) -> Sticky {
        let entries: HashSet<u32> = usable.entries.iter().map(|entry| entry.server).collect();
        Sticky(usable.arrivals.values().copied().filter(|server| entries.contains(server)).collect())
    }
}

impl Choose for Sticky {
    #[inline]
    fn pick<V: ServerView>(&self, choice: &Choice<'_, V>) -> Option<u32> {
        self.0.iter().copied().find(|&server| !choice.avoids(server))
    }
    /// Weights do not matter.
    fn reweigh(&self, _change: &NewWeight<'_>) -> bool {
        true
    }
}
