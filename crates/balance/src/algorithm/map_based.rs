//! `hash-type map-based`: the table of `static-rr`, and in it the slot that the hash of the request's key says. A request without
//! a key takes the next turn.

use super::{Choice, Choose, Traits, Usable, Written};
use crate::balancer::ServerView;
use crate::turns::Schedule;

pub(super) const TRAITS: Traits = Traits { has_fixed_weights: true, ..Traits::new("hash", Written::ByKey) };

#[derive(Debug)]
pub(crate) struct MapBased(Schedule);

impl MapBased {
    pub fn new(usable: &Usable<'_>) -> MapBased {
        MapBased(usable.continued(Schedule::fixed(usable.entries)))
    }
}

impl Choose for MapBased {
    /// The owner of the slot, or when it must be avoided, of the next slot with another owner.
    #[inline]
    fn pick<V: ServerView>(&self, choice: &Choice<'_, V>) -> Option<u32> {
        let Some(hash) = choice.key else { return choice.take_turn(&self.0) };
        let owner = self.0.by_hash(hash)?;
        if !choice.avoids(owner) {
            return Some(owner);
        }
        (1..self.0.len() as u32)
            .filter_map(|step| self.0.by_hash(hash.wrapping_add(step)))
            .find(|&server| !choice.avoids(server))
            .or(Some(owner))
    }

    fn turns(&self) -> Option<&Schedule> {
        Some(&self.0)
    }
}
