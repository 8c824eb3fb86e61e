//! `roundrobin`: servers take turns, each as often as its weight says.

use super::{Algorithm, Choice, Choose, NewWeight, Traits, Usable, Written};
use crate::balancer::ServerView;
use crate::turns::Schedule;

pub(super) const TRAITS: Traits =
    Traits { is_for_logs: true, ..Traits::new("roundrobin", Written::Alone(Algorithm::RoundRobin)) };

#[derive(Debug)]
pub(crate) struct RoundRobin(Schedule);

impl RoundRobin {
    pub fn new(usable: &Usable<'_>) -> RoundRobin {
        RoundRobin(usable.continued(Schedule::smooth(usable.entries)))
    }
}

impl Choose for RoundRobin {
    #[inline]
    fn pick<V: ServerView>(&self, choice: &Choice<'_, V>) -> Option<u32> {
        choice.take_turn(&self.0)
    }

    fn turns(&self) -> Option<&Schedule> {
        Some(&self.0)
    }
    fn reweigh(&self, change: &NewWeight<'_>) -> bool {
        self.0.reweigh(change.seats, change.place, change.weight);
        true
    }
}
