//! `random`: of some servers that are [drawn](crate::urn), the one with the least load for its weight.

use super::{Algorithm, Choice, Choose, NewWeight, Traits, Usable, Written};
use crate::balancer::{ServerIndex, ServerView};
use crate::load::LoadNow;
use crate::turns::Entry;
use crate::urn::{Draws, Urn};

/// Where nothing is said.
pub(super) const USUAL_DRAWS: u32 = 2;

pub(super) const TRAITS: Traits = Traits {
    is_for_logs: true,
    goes_by_load: true,
    ..Traits::new(
        "random",
        Written::WithNumber {
            what: "number of draws",
            usual: USUAL_DRAWS,
            with: |draws| Algorithm::Random { draws },
        },
    )
};

#[derive(Debug)]
pub(crate) struct Random {
    urn: Urn,
    draws: u32,
}

impl Random {
    pub fn new(usable: &Usable<'_>, draws: u32) -> Random {
        Random { urn: Urn::new(usable.seats), draws }
    }
}

impl Choose for Random {
    #[inline]
    fn pick<V: ServerView>(&self, choice: &Choice<'_, V>) -> Option<u32> {
        let refuse = |server| choice.refuses(server) || choice.overloads(server);
        let rate = |server| choice.cx.servers.rate(ServerIndex(server));
        let beats = |a, b| less_busy(a, b, |server| choice.load(server), rate);
        self.urn.pick(self.draws, &mut Draws::new(choice.cx.random), refuse, beats)
    }

    fn reweigh(&self, change: &NewWeight<'_>) -> bool {
        self.urn.reweigh(change.place, change.weight);
        true
    }
}

/// The server with less load for its weight beats the other one; of equals, the one with the lower rate.
fn less_busy(a: Entry, b: Entry, load: impl Fn(u32) -> LoadNow, rate: impl Fn(u32) -> u32) -> bool {
    let per_weight = |of: &dyn Fn(u32) -> u32| {
        let scaled = |one: Entry, other: Entry| u64::from(of(one.server)) * u64::from(other.weight);
        (scaled(a, b), scaled(b, a))
    };
    let (left, right) = per_weight(&|server| load(server).total());
    if left != right {
        return left < right;
    }
    let (left, right) = per_weight(&rate);
    left < right
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Load;
    use crate::seats::Seats;
    use std::sync::Arc;

    fn urn_of(servers: u32) -> Urn {
        let entries: Vec<_> = (0..servers).map(|server| Entry { server, weight: 1 }).collect();
        Urn::new(&Arc::new(Seats::new(&entries)))
    }

    #[test]
    fn two_draws_never_take_the_most_loaded() {
        let urn = urn_of(4);
        let loads: Vec<Load> = (0..4).map(|_| Load::new()).collect();
        (0..10).for_each(|t| {
            loads[2].start(t);
        });
        let mut source = Draws::new(1);
        let mut hits = 0;
        for _ in 0..4000 {
            hits += u32::from(
                urn.pick(
                    2,
                    &mut source,
                    |_| false,
                    |a, b| less_busy(a, b, |s| loads[s as usize].now(), |_| 0),
                ) == Some(2),
            );
        }
        // Only when it is drawn three times in a row: 1 in 64 of the first draws that are it.
        assert!(hits < 4000 / 32, "{hits}");
    }

    #[test]
    fn ties_go_to_the_lower_rate() {
        let urn = urn_of(2);
        let mut source = Draws::new(3);
        let wins = (0..1000)
            .filter(|_| {
                urn.pick(
                    4,
                    &mut source,
                    |_| false,
                    |a, b| less_busy(a, b, |_| Load::new().now(), |s| if s == 0 { 9 } else { 1 }),
                ) == Some(1)
            })
            .count();
        assert!(wins > 950, "{wins}");
    }
}
