//! Events over a sliding period.
//!
//! A rate counts the events of the current period and remembers those of the one before. What it reports is the
//! current count plus the share of the previous one that the period, ending now, still covers:
//!
//! ```text
//!   previous period     current period
//! |------------------|---------.          now is at the dot
//!            |<---- one period ---->|
//!            covered share of the previous one
//! ```
//!
//! The first event after a silence of two periods begins a period of its own; otherwise periods follow each other
//! without a gap. A single event is reported until two periods are over: half an event is no use to anybody. This was found
//! by reading the reference's values after `set table` and requests at known times.

use crate::sync::{AtomicU64, Ordering};

/// A rate as plain values: the start of its period in milliseconds, and the events of it and of the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sliding {
    /// When the current period began, in milliseconds; wraps.
    pub began_ms: u32,
    /// Events of the current period.
    pub current: u32,
    /// Events of the period before.
    pub previous: u32,
}

/// Threads may come by in another order than they read the time: what seems to be a moment before the period began,
/// by less than a minute, is its beginning.
const EARLY: u32 = u32::MAX - 60_000;

impl Sliding {
    /// One whose last event, if there ever was one, is two periods ago: the next one begins a period of its own.
    #[must_use]
    pub fn idle(now_ms: u32, period_ms: u32) -> Sliding {
        Sliding {
            began_ms: now_ms.wrapping_sub(period_ms.saturating_mul(2).min(EARLY)),
            ..Sliding::default()
        }
    }

    /// Moves to the period that `now_ms` is in.
    #[must_use]
    #[inline]
    pub fn at(self, now_ms: u32, period_ms: u32) -> Sliding {
        let period_ms = period_ms.max(1);
        let since = now_ms.wrapping_sub(self.began_ms);
        if since < period_ms || since > EARLY {
            self
        } else if since - period_ms < period_ms {
            let began_ms = self.began_ms.wrapping_add(period_ms);
            Sliding { began_ms, current: 0, previous: self.current }
        } else {
            Sliding { began_ms: now_ms, current: 0, previous: 0 }
        }
    }

    /// Adds `n` events now.
    #[must_use]
    #[inline]
    pub fn add(self, n: u32, now_ms: u32, period_ms: u32) -> Sliding {
        let moved = self.at(now_ms, period_ms);
        Sliding { current: moved.current.saturating_add(n), ..moved }
    }

    /// Events in the period that ends now.
    pub fn value(self, now_ms: u32, period_ms: u32) -> u32 {
        let period_ms = period_ms.max(1);
        let Sliding { began_ms, current, previous } = self.at(now_ms, period_ms);
        if current == 0 && previous <= 1 {
            return previous;
        }
        let since = now_ms.wrapping_sub(began_ms);
        let since = if since > EARLY { 0 } else { since };
        let left = period_ms.saturating_sub(since);
        // Below `previous`, as `left` is at most the period.
        let rest = u64::from(previous) * u64::from(left) / u64::from(period_ms);
        current.saturating_add(u32::try_from(rest).unwrap_or(u32::MAX))
    }
}

/// The same in two words that threads share.
///
/// The first word holds the period's start and its count, so that the thread that begins a period learns how many events
/// the old one had in the step that ends it. The second says which period it is the predecessor of: a reader that finds
/// another one knows that a period is just beginning, and looks again.
pub(crate) struct Shared<'w> {
    pub now: &'w AtomicU64,
    pub before: &'w AtomicU64,
}

const fn pack(high: u32, low: u32) -> u64 {
    (high as u64) << 32 | low as u64
}

const fn unpack(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

/// How often a reader looks again for two words that belong together. The writer between them has two instructions to
/// go; when it lost its processor just there, the count of the current period alone is what is known.
const LOOKS: u32 = 64;

/// A count that is below this, and events that are fewer than [`SMALL`] each, do not overflow the count's half of the word
/// however many threads add at once: there are fewer than 32,768.
const PLENTY: u32 = 1 << 31;
const SMALL: u64 = 1 << 16;

impl Shared<'_> {
    /// What the words say.
    pub fn load(&self) -> Sliding {
        for _ in 0..LOOKS {
            let (began_ms, current) = unpack(self.now.load(Ordering::Acquire));
            let (successor, previous) = unpack(self.before.load(Ordering::Acquire));
            if successor == began_ms {
                return Sliding { began_ms, current, previous };
            }
            std::hint::spin_loop();
        }
        let (began_ms, current) = unpack(self.now.load(Ordering::Acquire));
        Sliding { began_ms, current, previous: 0 }
    }

    /// Replaces both. Events that others add in between may be lost.
    pub fn store(&self, value: Sliding) {
        self.now.store(pack(value.began_ms, value.current), Ordering::Release);
        self.before.store(pack(value.began_ms, value.previous), Ordering::Release);
    }

    /// Adds events now.
    #[inline]
    pub fn add(&self, n: u64, now_ms: u32, period_ms: u32) {
        if !add_to_period(self.now, n, now_ms, period_ms) {
            self.add_slowly(u32::try_from(n).unwrap_or(u32::MAX), now_ms, period_ms);
        }
    }

    #[cold]
    fn add_slowly(&self, n: u32, now_ms: u32, period_ms: u32) {
        let mut seen = self.now.load(Ordering::Acquire);
        loop {
            let (began_ms, current) = unpack(seen);
            // What the period before had is not needed to begin the next one.
            let next = Sliding { began_ms, current, previous: 0 }.add(n, now_ms, period_ms);
            let new = pack(next.began_ms, next.current);
            match self.now.compare_exchange_weak(seen, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) if next.began_ms == began_ms => return,
                Ok(_) => {
                    self.before.store(pack(next.began_ms, next.previous), Ordering::Release);
                    return;
                }
                Err(now) => seen = now,
            }
        }
    }
}

/// Adds events to the period of this word, if it goes on and the sum is far from its end, as mostly: then threads need not agree on
/// what was there. When another one begins a period in between, the events are of that one. False when nothing was done.
#[inline(always)]
pub(crate) fn add_to_period(now: &AtomicU64, n: u64, now_ms: u32, period_ms: u32) -> bool {
    let (began_ms, current) = unpack(now.load(Ordering::Acquire));
    let since = now_ms.wrapping_sub(began_ms);
    let goes_on = (since < period_ms || since > EARLY) && current < PLENTY && n < SMALL;
    if goes_on {
        now.fetch_add(n, Ordering::AcqRel);
    }
    goes_on
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Read from the reference after `set table ... data.http_req_rate(1s) N`: how long after it the value changed.
    #[test]
    fn values_are_those_of_the_reference() {
        let check = |n: u32, steps: &[(u32, u32)]| {
            let rate = Sliding { began_ms: 5, current: n, previous: 0 };
            for (after, value) in steps {
                assert_eq!(rate.value(5 + after, 1000), *value, "{n} after {after} ms");
            }
        };
        check(1, &[(0, 1), (999, 1), (1001, 1), (1999, 1), (2002, 0)]);
        check(2, &[(0, 2), (999, 2), (1002, 1), (1500, 1), (1501, 0)]);
        check(3, &[(1001, 2), (1333, 2), (1334, 1), (1667, 0)]);
        check(7, &[(1002, 6), (1145, 5), (1287, 4), (1429, 3), (1573, 2), (1716, 1), (1858, 0)]);
        check(1000, &[(1006, 994), (1311, 689), (1982, 18), (2012, 0)]);
    }

    /// 1000 at 0, one more at 1510: the second period began at 1000, not at the event.
    #[test]
    fn periods_follow_each_other() {
        let rate = Sliding { began_ms: 0, current: 1000, previous: 0 }.add(1, 1510, 1000);
        assert_eq!(rate, Sliding { began_ms: 1000, current: 1, previous: 1000 });
        assert_eq!([1511, 1999, 2018, 2999, 3000].map(|t| rate.value(t, 1000)), [490, 2, 1, 1, 0]);
        let late = Sliding { began_ms: 0, current: 1000, previous: 0 }.add(1, 2718, 1000);
        assert_eq!([2718, 3718, 4717, 4718].map(|t| late.value(t, 1000)), [1, 1, 1, 0]);
    }

    proptest! {
        /// The shared words say what the plain values say.
        #[test]
        fn words_are_values(period in 1u32..5000, start: u32, steps in prop::collection::vec((0u32..7000, 0u32..50), 1..60)) {
            let (now, before) = (AtomicU64::new(pack(start, 0)), AtomicU64::new(pack(start, 0)));
            let shared = Shared { now: &now, before: &before };
            let mut plain = Sliding { began_ms: start, ..Sliding::default() };
            let mut t = start;
            for (step, n) in steps {
                t = t.wrapping_add(step);
                plain = plain.add(n, t, period);
                shared.add(u64::from(n), t, period);
                prop_assert_eq!(shared.load(), plain);
                prop_assert!(plain.value(t, period) >= plain.current);
            }
        }

        /// Never more than what happened in the last two periods, never less than in the current one.
        #[test]
        fn bounds(period in 1u32..2000, steps in prop::collection::vec((0u32..900, 1u32..9), 1..50)) {
            let (mut rate, mut t, mut log) = (Sliding::default(), 0u32, Vec::new());
            for (step, n) in steps {
                t += step;
                rate = rate.add(n, t, period);
                log.push((t, n));
                let recent: u32 = log.iter().filter(|(at, _)| t - at < 2 * period).map(|(_, n)| n).sum();
                prop_assert!(rate.value(t, period) <= recent.max(1));
            }
        }

        /// No arithmetic overflows, whatever the words are.
        #[test]
        fn anything(began_ms: u32, current: u32, previous: u32, now: u32, period: u32, n: u32) {
            let rate = Sliding { began_ms, current, previous };
            rate.value(now, period);
            rate.add(n, now, period).value(now, period);
        }
    }
}
