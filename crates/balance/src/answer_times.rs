//! How long requests take of late, for `option hedge p95`: a histogram of one thread that forgets.

/// Buckets are eight to a doubling, from 16 microseconds to some 17 minutes: what is read from them is at most an eighth too long.
const BUCKETS: usize = 8 * DOUBLINGS as usize;
const DOUBLINGS: u32 = 26;
const FIRST: u32 = 4;

/// When so many are counted, all counts are halved: what was long ago counts less and less.
const MOST: u32 = 4096;

/// Nothing is said of fewer.
const FEWEST: u32 = 100;

/// See the module's documentation. It has memory once there is something to keep.
#[derive(Debug, Default)]
pub struct AnswerTimes {
    counts: Option<Box<[u32; BUCKETS]>>,
    total: u32,
}

impl AnswerTimes {
    /// A request took so many microseconds.
    pub fn note(&mut self, us: u64) {
        let counts = self.counts.get_or_insert_with(|| Box::new([0; BUCKETS]));
        counts[bucket(us)] += 1;
        self.total += 1;
        if self.total >= MOST {
            for count in counts.iter_mut() {
                *count /= 2;
            }
            self.total = counts.iter().sum();
        }
    }

    /// The microseconds within which this percentage of the requests were done; `None` when too few are known.
    pub fn percentile(&self, percent: u32) -> Option<u64> {
        let counts = self.counts.as_deref().filter(|_| self.total >= FEWEST)?;
        let wanted = (u64::from(self.total) * u64::from(percent)).div_ceil(100);
        let mut seen = 0;
        let at = counts.iter().position(|count| {
            seen += u64::from(*count);
            seen >= wanted
        })?;
        Some(end_us(at))
    }
}

/// The bucket of a time.
fn bucket(us: u64) -> usize {
    let us = us.max(1 << FIRST);
    let doubling = us.ilog2();
    let eighth = (us >> (doubling - 3)) & 7;
    ((doubling - FIRST) as usize * 8 + eighth as usize).min(BUCKETS - 1)
}

/// Where a bucket ends, in microseconds.
fn end_us(bucket: usize) -> u64 {
    let doubling = FIRST + (bucket / 8) as u32;
    (9 + (bucket % 8) as u64) << (doubling - 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_says_nothing() {
        let mut times = AnswerTimes::default();
        (1..FEWEST).for_each(|_| times.note(1000));
        assert_eq!(times.percentile(95), None);
        times.note(1000);
        assert!(times.percentile(95).is_some());
    }

    #[test]
    fn a_percentile_is_at_most_an_eighth_too_long() {
        for scale in [20, 1_000, 77_777, 900_000] {
            let mut times = AnswerTimes::default();
            (1..=1000).for_each(|n| times.note(n * scale));
            for percent in [50, 95, 99] {
                let (found, exact) = (times.percentile(percent).unwrap(), u64::from(percent) * 10 * scale);
                assert!((exact..=exact + exact / 8 + 1).contains(&found), "p{percent} of {scale}: {found}");
            }
        }
    }

    #[test]
    fn what_was_long_ago_is_forgotten() {
        let mut times = AnswerTimes::default();
        (0..20_000).for_each(|_| times.note(1_000_000));
        (0..20_000).for_each(|_| times.note(1000));
        assert!(times.percentile(95).unwrap() < 1200);
    }

    #[test]
    fn times_beyond_all_sense_are_counted() {
        let mut times = AnswerTimes::default();
        (0..200).for_each(|n| times.note(if n % 2 == 0 { 0 } else { u64::MAX }));
        assert!(times.percentile(50).unwrap() < 20);
        assert!(times.percentile(99).unwrap() > 1_000_000_000);
    }
}
