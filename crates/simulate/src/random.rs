//! The numbers that a plan is drawn from: the same seed gives the same plan on every machine. The network has a generator of
//! its own, so that a change in how a scenario runs does not change what it is.

use thalweg_runtime::driver::sim::Rng;

/// See the module's documentation.
#[derive(Clone, Debug)]
pub struct Random(Rng);

impl Random {
    /// The numbers of a seed.
    pub fn new(seed: u64) -> Random {
        // Not the numbers that the network draws from the same seed; the last term undoes the generator's own.
        let own = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d;
        Random(Rng::new(own ^ 0x9e37_79b9_7f4a_7c15))
    }

    /// A number below `n` (0 for 0).
    pub fn below(&mut self, n: u64) -> u64 {
        self.0.below(n)
    }

    /// A number from `low` to `high`, both included.
    pub fn within(&mut self, low: u64, high: u64) -> u64 {
        self.0.within(low, high)
    }

    /// True `percent` times in a hundred.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of several.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u64) as usize]
    }

    /// A size of a body or of a piece: mostly small, sometimes about a multiple of a buffer, rarely many of them.
    pub fn size(&mut self) -> usize {
        let n = match self.below(20) {
            0..=2 => 0,
            3..=9 => self.within(1, 300),
            10..=14 => self.within(300, 6_000),
            15..=17 => (self.within(1, 4) * 8_192).saturating_add_signed(self.below(41) as i64 - 20),
            18 => self.within(16_000, 80_000),
            _ => self.within(60_000, 200_000),
        };
        n as usize
    }
}
