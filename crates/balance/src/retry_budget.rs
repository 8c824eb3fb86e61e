//! `retry-budget`: how many requests may be sent again, of those that there are.
//!
//! When servers fail, each attempt that is repeated is load on those that are left. A budget lets a share of the requests be
//! repeated, and refuses more: then a failure is told instead of multiplied.

/// What one repetition costs, in hundredths: each request brings as many as the percentage says.
const COST: u64 = 100;

/// Repetitions that are saved up at most, so that a quiet day does not pay for a storm.
const SAVED_MAX: u64 = 100 * COST;

/// Repetitions that there are before the first request, and that come back by themselves, one each second: who has few requests
/// may still repeat one.
const SAVED_AT_FIRST: u64 = 10 * COST;

/// A second, in milliseconds.
const SECOND_MS: u64 = 1000;

/// The budget of one backend on one thread. It is looked at when something is to be repeated, and costs nothing before.
#[derive(Clone, Debug)]
pub struct RetryBudget {
    /// In hundredths of a repetition.
    saved: u64,
    /// How many requests there had been when it was looked at last, and when that was.
    requests: u64,
    at_ms: Option<u64>,
}

impl Default for RetryBudget {
    fn default() -> RetryBudget {
        RetryBudget { saved: SAVED_AT_FIRST, requests: 0, at_ms: None }
    }
}

impl RetryBudget {
    /// Takes one repetition, if there is one, when so many `requests` were there since the start, of which `percent` may be
    /// repeated.
    pub fn take(&mut self, percent: u32, requests: u64, now_ms: u64) -> bool {
        let passed_ms = now_ms.saturating_sub(self.at_ms.unwrap_or(now_ms));
        let earned = requests.saturating_sub(self.requests).saturating_mul(percent.into());
        let by_itself =
            (passed_ms.saturating_mul(COST) / SECOND_MS).min(SAVED_AT_FIRST.saturating_sub(self.saved));
        self.saved = self.saved.saturating_add(by_itself).saturating_add(earned).min(SAVED_MAX);
        self.requests = requests;
        // What did not make a hundredth counts the next time.
        if by_itself > 0 || self.at_ms.is_none() || self.saved >= SAVED_AT_FIRST {
            self.at_ms = Some(now_ms);
        }
        let is_enough = self.saved >= COST;
        if is_enough {
            self.saved -= COST;
        }
        is_enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of so many attempts to repeat are granted, all at one moment.
    fn granted(budget: &mut RetryBudget, percent: u32, requests: u64, now_ms: u64, attempts: u32) -> u32 {
        (0..attempts).filter(|_| budget.take(percent, requests, now_ms)).count() as u32
    }

    #[test]
    fn a_share_of_the_requests_may_be_repeated() {
        let mut budget = RetryBudget::default();
        assert_eq!(granted(&mut budget, 20, 0, 5000, 50), 10, "at first");
        assert_eq!(granted(&mut budget, 20, 100, 5000, 50), 20);
        assert_eq!(granted(&mut budget, 20, 101, 5000, 50), 0, "a fifth of one");
        assert_eq!(granted(&mut budget, 20, 105, 5000, 50), 1, "five fifths");
    }

    #[test]
    fn a_quiet_day_does_not_pay_for_a_storm() {
        let mut budget = RetryBudget::default();
        assert_eq!(granted(&mut budget, 50, 1_000_000, 1, 1000), 100);
    }

    #[test]
    fn some_come_back_by_themselves() {
        let mut budget = RetryBudget::default();
        assert_eq!(granted(&mut budget, 0, 0, 1000, 50), 10);
        assert_eq!(granted(&mut budget, 0, 0, 1999, 50), 0);
        assert_eq!(granted(&mut budget, 0, 0, 2010, 50), 1);
        // No more than there were at first.
        assert_eq!(granted(&mut budget, 0, 0, 500_000, 50), 10);
        // Looking often loses nothing.
        assert_eq!((500_001..510_001).filter(|&ms| budget.take(0, 0, ms)).count(), 10);
    }

    #[test]
    fn counters_that_begin_anew_earn_nothing() {
        let mut budget = RetryBudget::default();
        assert_eq!(granted(&mut budget, 10, 1000, 0, 200), 100);
        assert_eq!(granted(&mut budget, 10, 5, 0, 200), 0);
    }
}
