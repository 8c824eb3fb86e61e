//! Sums of weights of all servers before one, when weights may change (a Fenwick tree): asking and changing cost the logarithm of
//! the number of servers.

use crate::sync::{AtomicU64, Ordering};

/// At `i - 1` the sum of as many weights, up to the `i`th one, as the lowest bit of `i` says. A weight that changes is in as many of
/// them as a question looks at.
#[derive(Debug)]
pub(crate) struct Sums(Box<[AtomicU64]>);

/// The places behind `place` at which a sum has its weight, that one included.
fn with(place: usize, len: usize) -> impl Iterator<Item = usize> {
    let next = |i: &usize| Some(i + (i & i.wrapping_neg()));
    std::iter::successors(Some(place + 1), next).take_while(move |&i| i <= len).map(|i| i - 1)
}

impl Sums {
    pub fn new(weights: impl Iterator<Item = u32>) -> Sums {
        let mut sums: Vec<u64> = weights.map(u64::from).collect();
        for place in 0..sums.len() {
            if let Some(next) = with(place, sums.len()).nth(1) {
                sums[next] += sums[place];
            }
        }
        Sums(sums.into_iter().map(AtomicU64::new).collect())
    }

    /// The weight at a place changes. Who asks meanwhile may see some sums of before and some of now.
    pub fn change(&self, place: usize, before: u32, weight: u32) {
        for at in with(place, self.0.len()) {
            let sum = self.0[at].load(Ordering::Relaxed);
            self.0[at].store(sum - u64::from(before) + u64::from(weight), Ordering::Relaxed);
        }
    }

    /// The sum of the weights before a place.
    pub fn before(&self, place: usize) -> u64 {
        let shorter = |i: &usize| Some(i & (i - 1)).filter(|i| *i != 0);
        let parts = std::iter::successors(Some(place).filter(|i| *i != 0), shorter);
        parts.map(|i| self.0[i - 1].load(Ordering::Relaxed)).sum()
    }

    /// The place whose weight covers a ticket below the sum of all. Beyond the last one is who saw another sum.
    pub fn find(&self, mut ticket: u64) -> usize {
        let (mut place, mut step) = (0, self.0.len().next_power_of_two());
        while step > 0 {
            if let Some(sum) = self.0.get(place + step - 1).map(|sum| sum.load(Ordering::Relaxed))
                && sum <= ticket
            {
                ticket -= sum;
                place += step;
            }
            step /= 2;
        }
        place
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn sums_follow_weights() {
        let mut weights = vec![3u32, 0, 7, 1, 1, 4, 2];
        let sums = Sums::new(weights.iter().copied());
        for (place, weight) in [(2, 1), (0, 9), (6, 0), (1, 5)] {
            sums.change(place, weights[place], weight);
            weights[place] = weight;
            for place in 0..=weights.len() {
                let sum: u64 = weights[..place].iter().copied().map(u64::from).sum();
                assert_eq!(sums.before(place), sum, "{weights:?} before {place}");
                if weights.get(place).is_some_and(|weight| *weight != 0) {
                    assert_eq!(sums.find(sum), place, "{weights:?}");
                }
            }
        }
    }
}
