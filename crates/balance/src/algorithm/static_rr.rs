//! `static-rr`: turns in an order that is written out once, with the weights of the start.

use super::{Algorithm, Choice, Choose, Traits, Usable, Written};
use crate::balancer::ServerView;
use crate::turns::Schedule;

pub(super) const TRAITS: Traits =
    Traits { has_fixed_weights: true, ..Traits::new("static-rr", Written::Alone(Algorithm::StaticRr)) };

#[derive(Debug)]
pub(crate) struct StaticRr(Schedule);

impl StaticRr {
    pub fn new(usable: &Usable<'_>) -> StaticRr {
        StaticRr(usable.continued(Schedule::fixed(usable.entries)))
    }
}

impl Choose for StaticRr {
    #[inline]
    fn pick<V: ServerView>(&self, choice: &Choice<'_, V>) -> Option<u32> {
        choice.take_turn(&self.0)
    }

    fn turns(&self) -> Option<&Schedule> {
        Some(&self.0)
    }
}
