//! What algorithms that go by ranks ask of a balancer: [`crate::tournament`].

use super::{Balancer, ServerIndex};
use crate::load::Rank;
use crate::seats::Seats;
use crate::sync::Ordering;
use crate::turns::Entry;

impl Balancer {
    /// For an algorithm that goes by ranks: these are the servers it may choose.
    pub(crate) fn set_ranks(&self, entries: &[Entry]) {
        let Some(tournament) = self.common.tournament.get() else { return };
        let end = entries.iter().map(|entry| entry.server as usize + 1).max().unwrap_or(0);
        let mut weights = vec![0; end];
        entries.iter().for_each(|entry| weights[entry.server as usize] = u64::from(entry.weight));
        // Each number that ever had a server has to lose it, unless what that did is forgotten.
        self.loads.each_with_number(|number, load| {
            let weight = weights.get(number).copied().unwrap_or(0);
            // Most are what they were: a weight that changes costs the matches of one server.
            if load.weight().swap(weight, Ordering::SeqCst) != weight {
                tournament.update(number as u32, &self.loads);
            }
        });
    }

    /// For an algorithm that goes by ranks: a server that it may choose gets another weight.
    pub(crate) fn set_rank(&self, server: u32, weight: u32) {
        self.move_rank(ServerIndex(server), |before| Some(before & Rank::LAST | u64::from(weight)));
    }

    /// For an algorithm that goes by ranks: until [`Balancer::put_back`], or until any server changes, a server stands behind all
    /// others whatever its load. One that refuses connections has the least, and would be chosen again and again. False when it does
    /// already, or where there are no ranks.
    pub fn put_last(&self, server: ServerIndex) -> bool {
        self.move_rank(server, |weight| (weight != 0 && weight < Rank::LAST).then_some(weight | Rank::LAST))
    }

    /// It stands where its load says again.
    pub fn put_back(&self, server: ServerIndex) {
        self.move_rank(server, |weight| (weight >= Rank::LAST).then_some(weight & !Rank::LAST));
    }

    fn move_rank(&self, server: ServerIndex, step: impl FnMut(u64) -> Option<u64>) -> bool {
        let (Some(tournament), Some(load)) =
            (self.common.tournament.get(), self.loads.find(server.0 as usize))
        else {
            return false;
        };
        let moved = load.weight().fetch_update(Ordering::SeqCst, Ordering::SeqCst, step).is_ok();
        if moved {
            tournament.update(server.0, &self.loads);
        }
        moved
    }

    /// The server with the least load, where there are ranks.
    #[inline]
    pub(crate) fn first_in_rank(&self) -> Option<u32> {
        self.common.tournament.get()?.winner(&self.loads)
    }

    /// The one of these with the least load that is not refused, by their ranks.
    pub(crate) fn next_in_rank(&self, seats: &Seats, refuse: impl Fn(u32) -> bool) -> Option<u32> {
        let rank = |server: u32| self.loads.at(server as usize).rank();
        let kept = seats.iter().map(|entry| entry.server).filter(|&server| !refuse(server));
        kept.reduce(|best, server| if rank(server).beats(rank(best)) { server } else { best })
    }
}
