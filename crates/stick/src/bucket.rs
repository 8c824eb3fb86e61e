//! Token buckets: so many events per period, and a burst on top of what a steady rate would allow.
//!
//! A bucket is one word: the moment at which it will be full again, in nanoseconds of the monotonic clock. Taking a token moves
//! that moment on by the time that one token needs to come back; when it would lie further ahead than a whole bucket takes to
//! fill, there is no token (this is the generic cell rate algorithm of ATM networks, ITU-T I.371). A word of zero is a full
//! bucket, so that a new entry needs no preparation, and one that nobody used for the time that a bucket takes to fill can be
//! forgotten.

use crate::sync::{AtomicU64, Ordering};

/// The most tokens of a bucket, and that come back per period.
pub const TOKENS_MAX: u32 = 1 << 20;

/// How fast tokens come back, and how many there are at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Tokens that come back per period; 0: none, nothing is ever allowed.
    pub tokens: u32,
    /// The period in milliseconds, at least 1.
    pub period_ms: u32,
    /// Tokens of a full bucket, at least 1.
    pub burst: u32,
}

/// What became of an attempt to take a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// There was one.
    pub is_allowed: bool,
    /// Tokens that are left.
    pub left: u32,
    /// Microseconds until the bucket is full again.
    pub full_in_us: u64,
    /// Microseconds until there is a token; 0 when one is left now.
    pub next_in_us: u64,
}

impl Bucket {
    /// Nanoseconds that a token takes to come back.
    fn interval_ns(self) -> u64 {
        (u64::from(self.period_ms.max(1)) * 1_000_000 / u64::from(self.tokens.clamp(1, TOKENS_MAX))).max(1)
    }

    /// Nanoseconds that an empty bucket takes to fill.
    fn depth_ns(self) -> u64 {
        self.interval_ns().saturating_mul(u64::from(self.burst.clamp(1, TOKENS_MAX)))
    }

    /// Milliseconds after which an unused bucket is full, whatever was taken from it.
    pub fn fills_in_ms(self) -> u64 {
        self.depth_ns().div_ceil(1_000_000)
    }

    /// Takes a token of a bucket that is full again at `full_ns`, now. The new moment, if there was a token, and what to say.
    fn take(self, full_ns: u64, now_ns: u64) -> (Option<u64>, Taken) {
        if self.tokens == 0 {
            // There never is one: whoever asks again does so a period later.
            let period_us = u64::from(self.period_ms.max(1)) * 1000;
            let never = Taken { is_allowed: false, left: 0, full_in_us: period_us, next_in_us: period_us };
            return (None, never);
        }
        let (interval, room) = (self.interval_ns(), self.depth_ns());
        // What lies further ahead than a bucket is deep was written for another limit: it counts as an empty one.
        let missing = full_ns.saturating_sub(now_ns).min(room);
        let is_allowed = missing <= room - interval;
        let missing = if is_allowed { missing + interval } else { missing };
        let taken = Taken {
            is_allowed,
            left: ((room - missing) / interval) as u32,
            full_in_us: missing.div_ceil(1000),
            next_in_us: missing.saturating_sub(room - interval).div_ceil(1000),
        };
        (is_allowed.then_some(now_ns.saturating_add(missing)), taken)
    }

    /// Takes a token of the bucket that threads share in a word.
    pub(crate) fn take_shared(self, word: &AtomicU64, now_us: u64) -> Taken {
        let now_ns = now_us.saturating_mul(1000);
        let mut seen = word.load(Ordering::Acquire);
        loop {
            let (full_ns, taken) = self.take(seen, now_ns);
            let Some(full_ns) = full_ns else { return taken };
            match word.compare_exchange_weak(seen, full_ns, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return taken,
                Err(now) => seen = now,
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEN_PER_SECOND: Bucket = Bucket { tokens: 10, period_ms: 1000, burst: 5 };

    fn allowed(bucket: Bucket, word: &AtomicU64, moments_ms: impl IntoIterator<Item = u64>) -> usize {
        moments_ms.into_iter().filter(|ms| bucket.take_shared(word, ms * 1000).is_allowed).count()
    }

    #[test]
    fn a_burst_and_then_the_rate() {
        let word = AtomicU64::new(0);
        assert_eq!(allowed(TEN_PER_SECOND, &word, std::iter::repeat_n(5000, 9)), 5);
        assert_eq!(allowed(TEN_PER_SECOND, &word, [5099]), 0);
        assert_eq!(allowed(TEN_PER_SECOND, &word, [5100, 5100, 5200]), 2);
        // Every millisecond for ten seconds: the rate.
        assert_eq!(allowed(TEN_PER_SECOND, &word, 6000..16_000), 100 + 4);
    }

    #[test]
    fn what_is_said_is_what_happens() {
        let word = AtomicU64::new(0);
        let take = |ms: u64| TEN_PER_SECOND.take_shared(&word, ms * 1000);
        let said = |is_allowed, left, full_in_ms: u64, next_in_ms: u64| Taken {
            is_allowed,
            left,
            full_in_us: full_in_ms * 1000,
            next_in_us: next_in_ms * 1000,
        };
        assert_eq!(take(1000), said(true, 4, 100, 0));
        for left in [3, 2, 1] {
            assert_eq!(take(1000), said(true, left, 500 - 100 * u64::from(left), 0));
        }
        assert_eq!(take(1000), said(true, 0, 500, 100));
        assert_eq!(take(1000), said(false, 0, 500, 100));
        assert_eq!(take(1060), said(false, 0, 440, 40));
        assert_eq!(take(1100), said(true, 0, 500, 100));
    }

    #[test]
    fn nothing_per_period_allows_nothing() {
        let word = AtomicU64::new(0);
        let nothing = Bucket { tokens: 0, ..TEN_PER_SECOND };
        assert_eq!(allowed(nothing, &word, 0..1000), 0);
        // Nothing is left, and it is no use to ask again at once.
        let said = Taken { is_allowed: false, left: 0, full_in_us: 1_000_000, next_in_us: 1_000_000 };
        assert_eq!(nothing.take_shared(&word, 5), said);
    }

    proptest! {
        /// In any stretch of time no more than a full bucket and what came back meanwhile; and what is refused is refused for
        /// as long as was said.
        #[test]
        fn never_more_than_promised(
            tokens in 1u32..50,
            period_ms in 1u32..5000,
            burst in 1u32..50,
            steps in prop::collection::vec(0u64..300, 1..200),
        ) {
            let bucket = Bucket { tokens, period_ms, burst };
            let word = AtomicU64::new(0);
            let (mut now, mut times) = (1_000_000u64, Vec::new());
            for step in steps {
                now += step * 1000;
                let taken = bucket.take_shared(&word, now);
                if taken.is_allowed {
                    times.push(now);
                } else {
                    let again = AtomicU64::new(word.load(Ordering::Relaxed));
                    prop_assert!(!bucket.take_shared(&again, now + taken.next_in_us.saturating_sub(2)).is_allowed);
                    prop_assert!(bucket.take_shared(&again, now + taken.next_in_us).is_allowed);
                }
            }
            for (i, from) in times.iter().enumerate() {
                for (j, to) in times.iter().enumerate().skip(i) {
                    let came_back = (to - from) * 1000 / bucket.interval_ns();
                    prop_assert!((j - i) as u64 <= u64::from(burst) + came_back);
                }
            }
        }

        /// No arithmetic overflows, whatever the word and the limit are.
        #[test]
        fn anything(tokens: u32, period_ms: u32, burst: u32, word: u64, now_us: u64) {
            Bucket { tokens, period_ms, burst }.take_shared(&AtomicU64::new(word), now_us >> 12);
        }
    }
}
