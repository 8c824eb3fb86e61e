//! `leastconn`: the server with the least load for its weight. Who that is, a [tournament](crate::tournament) always knows.

use super::{Algorithm, Choice, Choose, NewWeight, Traits, Usable, Written};
use crate::balancer::ServerView;

pub(super) const TRAITS: Traits = Traits {
    goes_by_load: true,
    keeps_ranks: true,
    ..Traits::new("leastconn", Written::Alone(Algorithm::LeastConn))
};

/// What it goes by is the balancer's, as it changes with each request.
#[derive(Debug)]
pub(crate) struct LeastConn;

impl LeastConn {
    pub fn new(usable: &Usable<'_>) -> LeastConn {
        usable.balancer.set_ranks(usable.entries);
        LeastConn
    }
}

impl Choose for LeastConn {
    #[inline]
    fn pick<V: ServerView>(&self, choice: &Choice<'_, V>) -> Option<u32> {
        let refuse = |server: u32| choice.refuses(server);
        let best = choice.balancer.first_in_rank();
        // When that one is full or just failed, the others are compared one by one.
        best.filter(|&server| !refuse(server))
            .or_else(|| choice.balancer.next_in_rank(&choice.plan.seats, refuse))
    }
    fn reweigh(&self, change: &NewWeight<'_>) -> bool {
        change.balancer.set_rank(change.server, change.weight);
        true
    }
}
