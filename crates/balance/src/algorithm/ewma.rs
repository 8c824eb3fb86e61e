//! `ewma` (ours): of two servers that are [drawn](crate::urn), the one that is [thought](crate::estimates) to answer first.

use super::{Algorithm, Choice, Choose, NewWeight, Traits, Usable, Written};
use crate::balancer::ServerView;
use crate::urn::{Draws, Urn};

pub(super) const TRAITS: Traits = Traits {
    goes_by_load: true,
    measures_servers: true,
    ..Traits::new("ewma", Written::Alone(Algorithm::Ewma))
};

#[derive(Debug)]
pub(crate) struct Ewma(Urn);

impl Ewma {
    pub fn new(usable: &Usable<'_>) -> Ewma {
        Ewma(Urn::new(usable.seats))
    }
}

impl Choose for Ewma {
    #[inline]
    fn pick<V: ServerView>(&self, choice: &Choice<'_, V>) -> Option<u32> {
        let refuse = |server| choice.refuses(server) || choice.overloads(server);
        let load = |server| choice.load(server);
        let mut source = Draws::new(choice.cx.random);
        choice.estimates.pick(&self.0, &mut source, choice.cx.now_us, refuse, load)
    }

    fn reweigh(&self, change: &NewWeight<'_>) -> bool {
        self.0.reweigh(change.place, change.weight);
        true
    }
}
