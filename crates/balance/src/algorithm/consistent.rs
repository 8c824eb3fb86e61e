//! `hash-type consistent`: the server whose point on a [circle](crate::ring) is nearest to the hash of the request's key. A request
//! without a key takes the next point of a walk around it.

use super::{Choice, Choose, NewWeight, Traits, Usable, Written};
use crate::balancer::{ServerView, Status};
use crate::hash::{NodeKey, avalanche};
use crate::ring::{Ring, seed_of_id};

pub(super) const TRAITS: Traits = Traits::new("hash", Written::ByKey);

#[derive(Debug)]
pub(crate) struct Consistent(Ring);

/// The number from which the points of a server are derived.
fn seed_of(status: &Status) -> u32 {
    match status.node_key {
        NodeKey::Id => seed_of_id(status.uid),
        NodeKey::Id32 => avalanche(status.uid.swap_bytes()),
        NodeKey::Seed(seed) => seed,
    }
}

impl Consistent {
    pub fn new(usable: &Usable<'_>) -> Consistent {
        Consistent(Ring::new(usable.entries, |server| seed_of(&usable.servers[server as usize])))
    }
}

impl Choose for Consistent {
    #[inline]
    fn pick<V: ServerView>(&self, choice: &Choice<'_, V>) -> Option<u32> {
        match choice.key {
            Some(hash) => self.0.nearest(hash, |server| {
                choice.avoids(server) || choice.balancer.disqualified(server, choice.plan, choice.cx)
            }),
            None => self.0.next(|server| choice.refuses(server) || choice.overloads(server)),
        }
    }

    fn reweigh(&self, change: &NewWeight<'_>) -> bool {
        let before = change.seats.at(change.place).weight;
        self.0.reweigh(seed_of(change.status), change.server, before, change.weight)
    }
}
