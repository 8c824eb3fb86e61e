//! Draw a few servers, keep the best of them (the power of two choices): what `random` and `ewma` share.

use std::sync::Arc;

use crate::seats::Seats;
use crate::sums::Sums;
use crate::sync::{AtomicU64, Ordering};
use crate::turns::Entry;

/// The urn servers are drawn from, each as often as its weight says.
#[derive(Debug)]
pub(crate) struct Urn {
    seats: Arc<Seats>,
    sums: Sums,
    /// Sum of all weights; 0 while they are equal, and nothing is to be looked up.
    total: AtomicU64,
}

/// A reproducible source of draws, seeded by the caller for each request: this crate has no entropy of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draws(u64);

impl Draws {
    pub fn new(seed: u64) -> Draws {
        Draws(seed)
    }

    /// The next number (splitmix64).
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which must not be 0.
    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

impl Urn {
    pub fn new(seats: &Arc<Seats>) -> Urn {
        let weights = || seats.iter().map(|entry| entry.weight);
        let is_equal = weights().zip(weights().skip(1)).all(|(one, next)| one == next);
        Urn {
            seats: Arc::clone(seats),
            sums: Sums::new(weights()),
            total: AtomicU64::new(if is_equal { 0 } else { seats.total_weight() }),
        }
    }

    /// The server at a place gets another weight: to be called before its seat is told. Who draws meanwhile may see some sums of
    /// before and some of now.
    pub fn reweigh(&self, place: usize, weight: u32) {
        let before = self.seats.at(place).weight;
        self.sums.change(place, before, weight);
        let total = self.seats.total_weight() - u64::from(before) + u64::from(weight);
        self.total.store(total, Ordering::Relaxed);
    }

    /// Draws `draws` servers that `refuse` accepts and gives the best of them, as `beats` says of two. `None` when every server
    /// is refused.
    pub fn pick(
        &self,
        draws: u32,
        source: &mut Draws,
        mut refuse: impl FnMut(u32) -> bool,
        beats: impl Fn(Entry, Entry) -> bool,
    ) -> Option<u32> {
        if self.seats.len() == 0 {
            return None;
        }
        let better = |one: usize, kept: Option<usize>| match kept {
            Some(kept) if !beats(self.seats.at(one), self.seats.at(kept)) => kept,
            _ => one,
        };
        // Above the number of servers more draws change nothing but the time they take.
        let draws = draws.clamp(1, 2 * self.seats.len() as u32);
        let mut best: Option<usize> = None;
        for _ in 0..draws {
            let mut drawn = self.draw(source);
            // Comparing a server with itself teaches nothing: look once at another.
            if best == Some(drawn) {
                drawn = self.draw(source);
            }
            if !refuse(self.seats.at(drawn).server) {
                best = Some(better(drawn, best));
            }
        }
        if best.is_none() {
            // Every draw was refused: look at all, from a random place.
            let start = source.below(self.seats.len() as u64) as usize;
            for step in 0..self.seats.len() {
                let at = (start + step) % self.seats.len();
                if !refuse(self.seats.at(at).server) {
                    best = Some(better(at, best));
                }
            }
        }
        best.map(|best| self.seats.at(best).server)
    }

    fn draw(&self, source: &mut Draws) -> usize {
        let total = self.total.load(Ordering::Relaxed);
        if total == 0 {
            return source.below(self.seats.len() as u64) as usize;
        }
        // Beyond the last one is who saw another total than sums.
        self.sums.find(source.below(total)).min(self.seats.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn urn(weights: &[u32]) -> Urn {
        let entries: Vec<_> =
            weights.iter().enumerate().map(|(i, &weight)| Entry { server: i as u32, weight }).collect();
        Urn::new(&Arc::new(Seats::new(&entries)))
    }

    /// As often as weights say, those of the start and those that they are changed to.
    #[test]
    fn one_draw_follows_weights() {
        let urn = urn(&[1, 3, 4]);
        let mut source = Draws::new(7);
        let mut count = [0u32; 3];
        for _ in 0..80_000 {
            count[urn.pick(1, &mut source, |_| false, |_, _| false).unwrap() as usize] += 1;
        }
        for (got, want) in count.iter().zip([10_000u32, 30_000, 40_000]) {
            assert!(got.abs_diff(want) < want / 20, "{count:?}");
        }
    }

    #[test]
    fn the_last_one_standing_is_found() {
        let urn = urn(&[1000, 1, 1000]);
        for seed in 0..50 {
            let got = urn.pick(2, &mut Draws::new(seed), |s| s != 1, |_, _| false);
            assert_eq!(got, Some(1));
        }
        assert_eq!(urn.pick(2, &mut Draws::new(0), |_| true, |_, _| false), None);
    }
}
