//! `option outlier-detection`: which servers are worse than the others, and for how long they are ejected.
//!
//! Pure arithmetic over what was counted in an interval. A server is compared with the others taken together, so that a
//! failure that all of them share (a bad release, a database that is gone) makes none of them stand out.

/// When a server stands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Criteria {
    /// Its share of requests that went well is below this percentage of that of the others; 0 for never.
    pub success_rate: u32,
    /// Its answers take this many times as long as those of the others; 0 for never.
    pub latency: u32,
    /// Requests that it, and the others together, must have had.
    pub requests: u32,
}

/// What was counted of a server in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// Requests whose outcome is known.
    pub requests: u64,
    /// Those of them that failed.
    pub failures: u64,
    /// Microseconds that the answers of the others took.
    pub answer_us: u64,
}

impl Outcomes {
    /// What came since `before` was counted. Counters that began anew meanwhile say nothing.
    pub fn since(self, before: Outcomes) -> Outcomes {
        let is_older = self.requests < before.requests
            || self.failures < before.failures
            || self.answer_us < before.answer_us;
        if is_older {
            return Outcomes::default();
        }
        Outcomes {
            requests: self.requests - before.requests,
            failures: self.failures - before.failures,
            answer_us: self.answer_us - before.answer_us,
        }
    }

    fn plus(self, other: Outcomes) -> Outcomes {
        Outcomes {
            requests: self.requests.saturating_add(other.requests),
            failures: self.failures.saturating_add(other.failures),
            answer_us: self.answer_us.saturating_add(other.answer_us),
        }
    }

    fn minus(self, other: Outcomes) -> Outcomes {
        Outcomes {
            requests: self.requests.saturating_sub(other.requests),
            failures: self.failures.saturating_sub(other.failures),
            answer_us: self.answer_us.saturating_sub(other.answer_us),
        }
    }

    fn successes(self) -> u64 {
        self.requests.saturating_sub(self.failures)
    }

    /// Percentage of requests that went well.
    fn success_percent(self) -> u64 {
        self.successes().saturating_mul(100) / self.requests.max(1)
    }

    /// Microseconds that an answer took on average.
    pub(crate) fn average_us(self) -> u64 {
        self.answer_us / self.successes().max(1)
    }
}

/// Why a server stands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlier {
    /// So many percent of its requests went well, and of those of the others.
    Fails { percent: u64, others: u64 },
    /// Microseconds that its answers took on average, and those of the others.
    Slow { us: u64, others: u64 },
}

/// How often servers are compared with those that are left when the ones that stand out are taken away: a very bad one hides one
/// that is not as bad.
const ROUNDS: usize = 4;

/// The servers of `seen` that stand out, by their position, the worst ones of each kind first: those that fail, then the slow ones.
pub fn outliers(seen: &[Outcomes], criteria: Criteria) -> Vec<(usize, Outlier)> {
    let mut left: Vec<Outcomes> = seen.to_vec();
    let mut found = Vec::new();
    for _ in 0..ROUNDS {
        let more = stand_out(&left, criteria);
        more.iter().for_each(|(at, _)| left[*at] = Outcomes::default());
        let is_last = more.is_empty();
        found.extend(more);
        if is_last {
            break;
        }
    }
    found.sort_by_key(|(_, outlier)| match *outlier {
        Outlier::Fails { percent, .. } => (0, percent),
        Outlier::Slow { us, .. } => (1, u64::MAX - us),
    });
    found
}

/// Those that stand out from all others.
fn stand_out(seen: &[Outcomes], criteria: Criteria) -> Vec<(usize, Outlier)> {
    let all = seen.iter().fold(Outcomes::default(), |sum, one| sum.plus(*one));
    let judge_at = |(at, one): (usize, &Outcomes)| Some((at, judge(*one, all.minus(*one), criteria)?));
    seen.iter().enumerate().filter_map(judge_at).collect()
}

fn judge(one: Outcomes, others: Outcomes, criteria: Criteria) -> Option<Outlier> {
    let enough = u64::from(criteria.requests.max(1));
    if one.requests < enough || others.requests < enough {
        return None;
    }
    // Successes of both over the same number of requests, so that nothing is lost to rounding.
    let (own, theirs) = (
        u128::from(one.successes()) * u128::from(others.requests) * 100,
        u128::from(others.successes()) * u128::from(one.requests) * u128::from(criteria.success_rate),
    );
    if own < theirs {
        return Some(Outlier::Fails { percent: one.success_percent(), others: others.success_percent() });
    }
    let (us, theirs) = (one.average_us(), others.average_us());
    let is_slow = criteria.latency != 0
        && one.successes() > 0
        && others.successes() > 0
        && us >= theirs.saturating_mul(criteria.latency.into()).max(1);
    is_slow.then_some(Outlier::Slow { us, others: theirs })
}

/// How long a server is ejected that was so `times` times lately, this one included: twice as long each time, up to `max_ms`.
pub fn hold_ms(base_ms: u64, max_ms: u64, times: u32) -> u64 {
    let doublings = times.saturating_sub(1).min(63);
    base_ms.saturating_mul(1 << doublings).min(max_ms.max(base_ms))
}

/// Whether one more of `servers` may be ejected besides those that are: at most `percent` of them, but always one, and never all.
pub fn may_eject(servers: usize, already: usize, percent: u32) -> bool {
    let allowed = (servers as u64 * u64::from(percent) / 100).max(1);
    (already as u64) < allowed && already + 1 < servers
}

#[cfg(test)]
mod tests {
    use super::*;

    const CRITERIA: Criteria = Criteria { success_rate: 90, latency: 5, requests: 50 };

    fn seen(requests: u64, failures: u64, average_us: u64) -> Outcomes {
        Outcomes { requests, failures, answer_us: average_us * (requests - failures) }
    }

    /// The positions of those that stand out.
    fn found(seen: &[Outcomes]) -> Vec<usize> {
        outliers(seen, CRITERIA).into_iter().map(|(at, _)| at).collect()
    }

    #[test]
    fn who_fails_more_than_the_others_stands_out() {
        let good = seen(100, 0, 1000);
        assert_eq!(found(&[good, seen(100, 20, 1000), good]), [1]);
        assert_eq!(found(&[good, seen(100, 10, 1000), good]), [], "nine tenths are just enough");
        assert_eq!(found(&[good, seen(49, 49, 1000), good]), [], "too few to say");
        assert_eq!(found(&[seen(100, 60, 1000), seen(100, 55, 1000), seen(100, 58, 1000)]), [], "all fail");
        assert_eq!(found(&[seen(100, 100, 1000), seen(100, 100, 1000)]), [], "all fail always");
        assert_eq!(found(&[good, seen(100, 30, 1000), seen(100, 80, 1000)]), [2, 1], "the worst first");
    }

    #[test]
    fn who_takes_much_longer_stands_out() {
        let good = seen(100, 0, 1000);
        assert_eq!(found(&[good, good, seen(100, 0, 5000)]), [2]);
        assert_eq!(found(&[good, good, seen(100, 0, 4999)]), []);
        // Who fails has no answers that could be slow.
        assert_eq!(
            outliers(&[good, seen(100, 50, 9000)], CRITERIA)[0].1,
            Outlier::Fails { percent: 50, others: 100 }
        );
        let off = Criteria { success_rate: 0, latency: 0, requests: 0 };
        assert_eq!(outliers(&[good, seen(100, 99, 900_000), Outcomes::default()], off), []);
    }

    #[test]
    fn counters_that_begin_anew_say_nothing() {
        assert_eq!(seen(5, 0, 10).since(seen(100, 0, 10)), Outcomes::default());
        assert_eq!(seen(120, 7, 10).since(seen(100, 5, 10)), seen(20, 2, 10));
    }

    #[test]
    fn holds_double_up_to_their_limit() {
        let holds: Vec<u64> = (1..=5).map(|times| hold_ms(10, 60, times)).collect();
        assert_eq!(holds, [10, 20, 40, 60, 60]);
        assert_eq!((hold_ms(10, 5, 1), hold_ms(u64::MAX, u64::MAX, u32::MAX)), (10, u64::MAX));
    }

    #[test]
    fn a_share_may_be_ejected_but_never_all() {
        let ejected = |servers: usize, percent: u32| {
            (0..servers).take_while(|n| may_eject(servers, *n, percent)).count()
        };
        for (servers, percent, expected) in [
            (10, 30, 3),
            (10, 35, 3),
            (10, 0, 1),
            (3, 30, 1),
            (2, 30, 1),
            (1, 30, 0),
            (10, 100, 9),
            (0, 50, 0),
        ] {
            assert_eq!(ejected(servers, percent), expected, "{percent} % of {servers}");
        }
    }
}
