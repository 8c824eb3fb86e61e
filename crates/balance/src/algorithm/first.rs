//! `first`: of the servers in the order of their numbers, the first one that has a free slot.

use super::{Algorithm, Choice, Choose, NewWeight, Traits, Usable, Written};
use crate::balancer::ServerView;

pub(super) const TRAITS: Traits =
    Traits { goes_by_load: true, ..Traits::new("first", Written::Alone(Algorithm::First)) };

/// Servers, in the order in which they are tried.
#[derive(Debug)]
pub(crate) struct First(Box<[u32]>);

impl First {
    pub fn new(usable: &Usable<'_>) -> First {
        let mut order: Vec<u32> = usable.entries.iter().map(|e| e.server).collect();
        order.sort_by_key(|&server| usable.servers[server as usize].uid);
        First(order.into())
    }
}

impl Choose for First {
    #[inline]
    fn pick<V: ServerView>(&self, choice: &Choice<'_, V>) -> Option<u32> {
        self.0.iter().copied().find(|&server| !choice.refuses(server))
    }
    /// Weights do not matter.
    fn reweigh(&self, _change: &NewWeight<'_>) -> bool {
        true
    }
}
