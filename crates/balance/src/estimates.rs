//! `ewma`: of two servers drawn at random, the one that is thought to answer first.
//!
//! What a request costs on a server is how long answers take there, times the requests that it has, this one included.
//! How long answers take is an average that follows bad news at once and good news slowly (a peak-sensitive,
//! exponentially weighted moving average), which each thread keeps for itself: nothing of it is shared. How many
//! requests there are is the word that all threads write anyway ([`crate::load`]).

use crate::load::LoadNow;
use crate::turns::Entry;
use crate::urn::{Draws, Urn};

/// After this time an answer counts a third (1/e) of what it counted, in microseconds.
const FORGOTTEN_AFTER_US: f64 = 5_000_000.0;

/// What a request counts that failed, in microseconds: a server that fails at once must not look like the fastest.
const FAILURE_US: f64 = 1_000_000.0;

/// How long a server is the last choice after a request failed on it, in microseconds; twice as long after each further one in a
/// row, up to 32 times.
const AVOIDED_US: i64 = 1_000_000;
const DOUBLINGS_MAX: u32 = 5;

/// How many servers are drawn.
const DRAWS: u32 = 2;

/// How long one server takes to answer, as a thread knows it.
#[derive(Clone, Copy, Debug, Default)]
struct Estimate {
    /// In microseconds; 0 when nothing was seen lately.
    us: f64,
    /// When that was so, in microseconds of the monotonic clock.
    at_us: i64,
    /// Requests in a row that failed.
    failures: u32,
}

impl Estimate {
    fn weight_of_the_past(self, now_us: i64) -> f64 {
        let elapsed = now_us.saturating_sub(self.at_us).max(0);
        (-(elapsed as f64) / FORGOTTEN_AFTER_US).exp()
    }

    /// What was seen is forgotten little by little, so that a server that nobody asks any more is asked again.
    fn now(self, now_us: i64) -> f64 {
        self.us * self.weight_of_the_past(now_us)
    }

    fn see(&mut self, us: f64, now_us: i64) {
        let past = self.weight_of_the_past(now_us);
        let average = if us > self.us { us } else { self.us * past + us * (1.0 - past) };
        (self.us, self.at_us) = (average, now_us);
    }

    fn is_avoided(self, now_us: i64) -> bool {
        let doublings = self.failures.saturating_sub(1).min(DOUBLINGS_MAX);
        self.failures > 0 && now_us < self.at_us.saturating_add(AVOIDED_US << doublings)
    }
}

/// How long the servers of one backend take to answer, as one thread knows it. By number; as long as the highest number
/// that was seen.
#[derive(Debug, Default)]
pub struct Estimates(Vec<Estimate>);

impl Estimates {
    /// A server answered after `us` microseconds.
    pub fn answered(&mut self, server: u32, us: u64, now_us: i64) {
        let estimate = self.of(server);
        estimate.failures = 0;
        estimate.see(us as f64, now_us);
    }

    /// A request failed on a server.
    pub fn failed(&mut self, server: u32, now_us: i64) {
        let estimate = self.of(server);
        estimate.failures = estimate.failures.saturating_add(1);
        estimate.see(FAILURE_US, now_us);
    }

    fn of(&mut self, server: u32) -> &mut Estimate {
        let at = server as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, Estimate::default());
        }
        &mut self.0[at]
    }

    /// What one more request costs on a server that has this load. Of one that nothing is known of, the first request
    /// costs nothing and others much, until it has answered.
    fn cost(&self, server: u32, load: LoadNow, now_us: i64) -> f64 {
        let us = self.0.get(server as usize).map_or(0.0, |estimate| estimate.now(now_us));
        let requests = f64::from(load.total());
        if us < 1.0 && requests > 0.0 { FAILURE_US * requests } else { us * (requests + 1.0) }
    }

    fn is_avoided(&self, server: u32, now_us: i64) -> bool {
        self.0.get(server as usize).is_some_and(|estimate| estimate.is_avoided(now_us))
    }

    /// Chooses a server that `refuse` accepts, rather one on which nothing failed lately. `None` when every server is refused.
    pub(crate) fn pick(
        &self,
        urn: &Urn,
        source: &mut Draws,
        now_us: i64,
        mut refuse: impl FnMut(u32) -> bool,
        load: impl Fn(u32) -> LoadNow,
    ) -> Option<u32> {
        let cost = |server| self.cost(server, load(server), now_us);
        let is_cheaper = |a: Entry, b: Entry| {
            let (a_cost, b_cost) = (cost(a.server), cost(b.server));
            a_cost * f64::from(b.weight) < b_cost * f64::from(a.weight)
        };
        let avoid = |server| refuse(server) || self.is_avoided(server, now_us);
        let found = urn.pick(DRAWS, source, avoid, is_cheaper);
        found.or_else(|| urn.pick(DRAWS, source, refuse, is_cheaper))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Load;
    use crate::seats::Seats;
    use std::sync::Arc;

    const MS: i64 = 1000;
    const SECOND: i64 = 1000 * MS;

    fn urn(servers: u32) -> Urn {
        let entries: Vec<_> = (0..servers).map(|server| Entry { server, weight: 16 }).collect();
        Urn::new(&Arc::new(Seats::new(&entries)))
    }

    /// How often each server is chosen of 1000 times.
    fn shares(estimates: &Estimates, loads: &[Load], now_us: i64) -> Vec<u32> {
        let urn = urn(loads.len() as u32);
        let mut source = Draws::new(5);
        let mut shares = vec![0; loads.len()];
        for _ in 0..1000 {
            let load = |server: u32| loads[server as usize].now();
            let chosen = estimates.pick(&urn, &mut source, now_us, |_| false, load).expect("a server");
            shares[chosen as usize] += 1;
        }
        shares
    }

    fn idle(servers: usize) -> Vec<Load> {
        (0..servers).map(|_| Load::new()).collect()
    }

    #[test]
    fn bad_news_counts_at_once_and_good_news_slowly() {
        let mut estimate = Estimate::default();
        estimate.see(1000.0, 0);
        estimate.see(50_000.0, MS);
        assert_eq!(estimate.us, 50_000.0);
        estimate.see(1000.0, 2 * MS);
        assert!(estimate.us > 49_000.0, "{estimate:?}");
        (0..300).for_each(|n| estimate.see(1000.0, n * 100 * MS));
        assert!((1000.0..1200.0).contains(&estimate.us), "{estimate:?}");
    }

    #[test]
    fn the_slow_one_gets_what_nothing_else_was_drawn_for() {
        let mut estimates = Estimates::default();
        (0..4).for_each(|server| estimates.answered(server, if server == 2 { 10_000 } else { 1000 }, 0));
        let shares = shares(&estimates, &idle(4), MS);
        // Only when it is drawn three times in a row.
        assert!(shares[2] < 60, "{shares:?}");
        assert!([0, 1, 3].iter().all(|&other| shares[other] > 250), "{shares:?}");
    }

    #[test]
    fn outstanding_requests_count() {
        let mut estimates = Estimates::default();
        (0..2).for_each(|server| estimates.answered(server, 1000 * (u64::from(server) + 1), 0));
        let loads = idle(2);
        (0..2).for_each(|ticket| {
            loads[0].start(ticket);
        });
        // Three times one millisecond against one time two.
        let shares = shares(&estimates, &loads, MS);
        assert!(shares[1] > 700, "{shares:?}");
    }

    #[test]
    fn a_server_that_fails_at_once_is_the_last_choice_and_is_asked_again_later() {
        let mut estimates = Estimates::default();
        (0..3).for_each(|server| estimates.answered(server, 1000, 0));
        estimates.failed(1, MS);
        assert_eq!(shares(&estimates, &idle(3), 2 * MS)[1], 0);
        // The second failure counts twice as long.
        estimates.failed(1, 2 * MS);
        assert_eq!(shares(&estimates, &idle(3), 2001 * MS)[1], 0);
        assert!(shares(&estimates, &idle(3), 2003 * MS)[1] > 0);
        // The others answer all the time.
        for second in 1..120 {
            [0, 2].iter().for_each(|&server| estimates.answered(server, 1000, second * SECOND));
        }
        assert!(shares(&estimates, &idle(3), 120 * SECOND)[1] > 300);
        // Where all failed, all are asked.
        (0..3).for_each(|server| estimates.failed(server, 121 * SECOND));
        assert!(shares(&estimates, &idle(3), 121 * SECOND).iter().all(|&share| share > 200));
    }

    #[test]
    fn a_server_that_nothing_is_known_of_gets_one_request_first() {
        let mut estimates = Estimates::default();
        estimates.answered(0, 1000, 0);
        let loads = idle(2);
        assert!(shares(&estimates, &loads, MS)[1] > 700);
        loads[1].start(1);
        assert!(shares(&estimates, &loads, MS)[1] < 300);
    }

    #[test]
    fn the_last_one_standing_is_found() {
        let estimates = Estimates::default();
        let pick = |refuse: fn(u32) -> bool| {
            estimates.pick(&urn(8), &mut Draws::new(3), 0, refuse, |_| Load::new().now())
        };
        assert_eq!(pick(|server| server != 6), Some(6));
        assert_eq!(pick(|_| true), None);
    }
}
