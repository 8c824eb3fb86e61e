//! A limit on how many of something begin per second, shared by all threads (manual: `rate-limit sessions`,
//! `maxconnrate`, `maxsessrate`). Without a limit nothing is shared and nothing is written.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use thalweg_shared::{AtomicU32, Mutex};

/// See the module's documentation.
pub struct RateGate {
    /// 0: no limit.
    limit: AtomicU32,
    window: Mutex<Window>,
}

/// What began in this second and in the one before.
#[derive(Default)]
pub(crate) struct Window {
    second: u64,
    current: u32,
    previous: u32,
}

impl Window {
    fn move_to(&mut self, now_ms: u64) {
        let second = now_ms / 1000;
        if second != self.second {
            self.previous = if second == self.second + 1 { self.current } else { 0 };
            self.current = 0;
            self.second = second;
        }
    }

    /// Counts one more: how many that makes in the second that ends at `now_ms`.
    pub(crate) fn count(&mut self, now_ms: u64) -> u32 {
        self.move_to(now_ms);
        self.current = self.current.saturating_add(1);
        self.rate(now_ms)
    }

    /// Events in the second that ends at `now_ms`: what is left of the last one plus what this one has.
    fn rate(&self, now_ms: u64) -> u32 {
        let left = u64::from(self.previous) * (1000 - now_ms % 1000) / 1000;
        self.current.saturating_add(u32::try_from(left).unwrap_or(u32::MAX))
    }
}

/// One that lets all through.
impl Default for RateGate {
    fn default() -> RateGate {
        RateGate::new(0)
    }
}

impl RateGate {
    /// A gate that lets `limit` through per second, 0 for all.
    pub fn new(limit: u32) -> RateGate {
        RateGate { limit: AtomicU32::new(limit), window: Mutex::default() }
    }

    /// The limit per second, 0 for none.
    pub fn limit(&self) -> u32 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Changes the limit. Those who wait look at it when their wait is over.
    pub fn set_limit(&self, limit: u32) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// How many milliseconds must pass before another one may begin; 0 when it may begin now.
    pub fn wait_ms(&self, now_ms: u64) -> u64 {
        let limit = self.limit();
        if limit == 0 {
            return 0;
        }
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        window.move_to(now_ms);
        if window.rate(now_ms) < limit { 0 } else { u64::from(1000 / limit).max(1) }
    }

    /// Lets one through: counts it and returns 0, or returns how many milliseconds to wait before asking again.
    pub fn take(&self, now_ms: u64) -> u64 {
        let limit = self.limit();
        if limit == 0 {
            return 0;
        }
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        window.move_to(now_ms);
        if window.rate(now_ms) < limit {
            window.current += 1;
            return 0;
        }
        u64::from(1000 / limit).max(1)
    }
}

/// How fast a count grows, as whoever asks finds it: nothing is done while nobody asks, and nothing where it is counted.
pub struct Sampled(Mutex<[(u64, u64); 2]>);

impl Sampled {
    /// A count that began with 0 at `now_ms`.
    pub fn new(now_ms: u64) -> Sampled {
        Sampled(Mutex::new([(now_ms, 0); 2]))
    }

    /// The count is `total` now: how much it grew per second since it was asked for the last time, if that was a second
    /// or more ago, else since the time before.
    pub fn per_second(&self, now_ms: u64, total: u64) -> u64 {
        let mut samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let [before, last] = &mut *samples;
        if now_ms.saturating_sub(last.0) >= 1000 {
            *before = *last;
            *last = (now_ms, total);
        }
        let grown = u128::from(total.saturating_sub(before.1));
        let elapsed_ms = u128::from(now_ms.saturating_sub(before.0).max(1));
        u64::try_from(grown * 1000 / elapsed_ms).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_that_of_the_last_second_or_more() {
        let rate = Sampled::new(1000);
        // Since the start.
        assert_eq!(rate.per_second(3000, 4000), 2000);
        // Soon after, it is still that of the longer time.
        assert_eq!(rate.per_second(3500, 5000), 2000);
        assert_eq!(rate.per_second(4000, 14_000), 10_000);
        assert_eq!(rate.per_second(14_000, 14_000), 0);
        assert_eq!(rate.per_second(14_000, 24_000), 1000);
    }

    #[test]
    fn no_more_than_the_limit_begin_in_any_second() {
        let gate = RateGate::new(10);
        let mut begun = Vec::new();
        for now in 10_000..15_000u64 {
            while gate.take(now) == 0 {
                begun.push(now);
            }
        }
        for start in 10_000..14_000 {
            let within = begun.iter().filter(|t| (start..start + 1000).contains(*t)).count();
            assert!(within <= 20, "{within} within a second from {start}");
        }
        assert!((40..=60).contains(&begun.len()), "{}", begun.len());
    }

    #[test]
    fn a_gate_without_a_limit_lets_all_through() {
        let gate = RateGate::new(0);
        assert!((0..1000).all(|_| gate.take(5) == 0));
        gate.set_limit(1);
        assert_eq!((gate.take(5), gate.take(5), gate.wait_ms(5)), (0, 1000, 1000));
        gate.set_limit(0);
        assert_eq!((gate.take(5), gate.wait_ms(5)), (0, 0));
    }
}
