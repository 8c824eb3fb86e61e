//! Draw a few servers, keep the best of them (the power of two choices): what `random` and `ewma` share.

use crate::turns::Entry;

/// The urn servers are drawn from, each as often as its weight says.
#[derive(Debug)]
pub struct Urn {
    servers: Box<[u32]>,
    weights: Box<[u32]>,
    /// Sums of weights up to and including each server; empty when all weights are equal.
    sums: Box<[u64]>,
    total: u64,
}

/// A reproducible source of draws, seeded by the caller for each request: this crate has no entropy of its own.
#[derive(Clone, Copy, Debug)]
pub struct Draws(u64);

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
    pub fn new(entries: &[Entry]) -> Urn {
        let equal = entries.windows(2).all(|w| w[0].weight == w[1].weight);
        let mut total = 0;
        let sums: Vec<u64> = entries
            .iter()
            .map(|e| {
                total += u64::from(e.weight);
                total
            })
            .collect();
        Urn {
            servers: entries.iter().map(|e| e.server).collect(),
            weights: entries.iter().map(|e| e.weight).collect(),
            sums: if equal { Box::default() } else { sums.into_boxed_slice() },
            total,
        }
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
        if self.servers.is_empty() {
            return None;
        }
        let better = |one: usize, kept: Option<usize>| match kept {
            Some(kept) if !beats(self.entry(one), self.entry(kept)) => kept,
            _ => one,
        };
        // Above the number of servers more draws change nothing but the time they take.
        let draws = draws.clamp(1, 2 * self.servers.len() as u32);
        let mut best: Option<usize> = None;
        for _ in 0..draws {
            let mut drawn = self.draw(source);
            // Comparing a server with itself teaches nothing: look once at another.
            if best == Some(drawn) {
                drawn = self.draw(source);
            }
            if !refuse(self.servers[drawn]) {
                best = Some(better(drawn, best));
            }
        }
        if best.is_none() {
            // Every draw was refused: look at all, from a random place.
            let start = source.below(self.servers.len() as u64) as usize;
            for step in 0..self.servers.len() {
                let at = (start + step) % self.servers.len();
                if !refuse(self.servers[at]) {
                    best = Some(better(at, best));
                }
            }
        }
        best.map(|best| self.servers[best])
    }

    fn entry(&self, at: usize) -> Entry {
        Entry { server: self.servers[at], weight: self.weights[at] }
    }

    fn draw(&self, source: &mut Draws) -> usize {
        if self.sums.is_empty() {
            return source.below(self.servers.len() as u64) as usize;
        }
        let ticket = source.below(self.total);
        self.sums.partition_point(|&sum| sum <= ticket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn urn(weights: &[u32]) -> Urn {
        let entries: Vec<_> =
            weights.iter().enumerate().map(|(i, &weight)| Entry { server: i as u32, weight }).collect();
        Urn::new(&entries)
    }

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
