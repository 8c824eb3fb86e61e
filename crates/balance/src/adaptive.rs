//! `adaptive-maxconn`: how many requests a server may have at once, found out from how long its answers take.
//!
//! A server with fewer requests than it can work on answers in the least time that it can. With more of them requests wait inside of
//! it, and answers take longer without coming any faster. So the limit grows while answers take about the least time seen, and
//! shrinks by the gradient, that time over the present one, when they take longer.
//!
//! Pure arithmetic over what was counted; the caller says what time it is.

use crate::outlier::Outcomes;

/// How often a limit is looked at, in milliseconds.
pub const INTERVAL_MS: u64 = 100;

/// Requests without which an interval says nothing, and goes on.
const ENOUGH: u64 = 10;

/// Times below a millisecond are as much those of the machine as of the server: so many microseconds are nothing.
const SLACK_US: u64 = 500;

/// A limit to begin with, where it is not bounded above it.
const FIRST: u32 = 8;

/// How long the least time is believed, in milliseconds. Then requests are held back for a moment to see it anew: a server that
/// got slower for good would be held down for ever otherwise.
const BELIEVED_MS: u64 = 30_000;

/// How many intervals that takes.
const PROBES: u32 = 3;

/// The bounds of a limit: `minconn` and `maxconn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// At least 1.
    pub low: u32,
    pub high: u32,
}

impl Bounds {
    fn hold(self, limit: u32) -> u32 {
        limit.max(self.low).min(self.high).max(1)
    }
}

/// The limit of one server, and what it follows from.
#[derive(Clone, Copy, Debug, Default)]
pub struct AdaptiveLimit {
    /// 0 before the first look.
    limit: u32,
    /// What was counted up to the end of the last interval.
    before: Outcomes,
    /// Microseconds that answers take when nothing waits; 0 before there were any.
    least_us: u64,
    /// When that was seen.
    seen_ms: u64,
    /// It shrank once: from then on it grows in small steps.
    has_shrunk: bool,
    probing: Option<Probing>,
}

/// Requests are held back.
#[derive(Clone, Copy, Debug)]
struct Probing {
    intervals_left: u32,
    /// What the limit was, and is afterwards.
    limit: u32,
    least_us: u64,
}

impl AdaptiveLimit {
    /// The limit that a server begins with.
    pub fn first(bounds: Bounds) -> u32 {
        bounds.hold(FIRST)
    }

    /// Looks at what was counted so far, and gives the limit from now on. `is_wanted` says that requests need the limit, so that it
    /// may grow.
    pub fn look(&mut self, now_ms: u64, counted: Outcomes, is_wanted: bool, bounds: Bounds) -> u32 {
        if self.limit == 0 {
            self.limit = AdaptiveLimit::first(bounds);
        }
        let since = counted.since(self.before);
        if since == Outcomes::default() {
            // Nothing came, or counters began anew.
            self.before = counted;
        } else if since.requests >= ENOUGH {
            self.before = counted;
            self.limit = self.next(now_ms, since, is_wanted);
        }
        self.limit = bounds.hold(self.limit);
        self.limit
    }

    fn next(&mut self, now_ms: u64, since: Outcomes, is_wanted: bool) -> u32 {
        if since.failures.saturating_mul(2) > since.requests {
            // Who fails that often may have too much to do, and says nothing of how long answers take.
            self.has_shrunk = true;
            return self.limit / 2;
        }
        let us = since.average_us().max(1);
        if let Some(probing) = self.probing.take() {
            return self.probe(now_ms, us, probing);
        }
        if self.least_us == 0 || us <= self.least_us {
            (self.least_us, self.seen_ms) = (us, now_ms);
        } else if now_ms.saturating_sub(self.seen_ms) >= BELIEVED_MS {
            return self.doubt(now_ms, us, is_wanted);
        }
        let tolerated = self.least_us + self.least_us / 2 + SLACK_US;
        if us > tolerated {
            self.has_shrunk = true;
            let followed = u64::from(self.limit).saturating_mul(tolerated) / us;
            return u32::try_from(followed).unwrap_or(self.limit).max(self.limit / 2);
        }
        match (is_wanted, self.has_shrunk) {
            (false, _) => self.limit,
            (true, false) => self.limit.saturating_mul(2),
            (true, true) => self.limit.saturating_add(self.limit.isqrt().max(1)),
        }
    }

    /// The least time was not seen for long: it is another one if nothing waits now, and is looked for otherwise.
    fn doubt(&mut self, now_ms: u64, us: u64, is_wanted: bool) -> u32 {
        if !is_wanted {
            (self.least_us, self.seen_ms) = (us, now_ms);
            return self.limit;
        }
        self.probing = Some(Probing { intervals_left: PROBES, limit: self.limit, least_us: u64::MAX });
        self.limit / 2
    }

    /// One interval with few requests is over.
    fn probe(&mut self, now_ms: u64, us: u64, probing: Probing) -> u32 {
        let least_us = probing.least_us.min(us);
        if probing.intervals_left > 1 {
            self.probing = Some(Probing { intervals_left: probing.intervals_left - 1, least_us, ..probing });
            return self.limit;
        }
        (self.least_us, self.seen_ms) = (least_us, now_ms);
        probing.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that works on so many requests at once, each of which takes so many microseconds; others wait inside of it.
    #[derive(Clone, Copy)]
    struct Server {
        at_once: u64,
        us: u64,
    }

    /// Clients that want so many requests at once, seen in virtual time.
    struct Play {
        limit: AdaptiveLimit,
        bounds: Bounds,
        now_ms: u64,
        counted: Outcomes,
        in_use: u32,
    }

    impl Play {
        fn new(low: u32, high: u32) -> Play {
            let bounds = Bounds { low, high };
            let in_use = AdaptiveLimit::first(bounds);
            Play { limit: AdaptiveLimit::default(), bounds, now_ms: 0, counted: Outcomes::default(), in_use }
        }

        /// The limits of so many seconds, one for each interval.
        fn play(&mut self, seconds: u64, server: Server, wanted: u32) -> Vec<u32> {
            let intervals = seconds * 1000 / INTERVAL_MS;
            (0..intervals).map(|_| self.interval(server, wanted)).collect()
        }

        fn interval(&mut self, server: Server, wanted: u32) -> u32 {
            let have = u64::from(self.in_use.min(wanted));
            // Little's law: what is there is the rate times the time each takes.
            let us = server.us * have.max(server.at_once) / server.at_once;
            let answers = have * INTERVAL_MS * 1000 / us;
            self.counted.requests += answers;
            self.counted.answer_us += answers * us;
            self.now_ms += INTERVAL_MS;
            let is_wanted = wanted >= self.in_use;
            self.in_use = self.limit.look(self.now_ms, self.counted, is_wanted, self.bounds);
            self.in_use
        }
    }

    fn settled(limits: &[u32]) -> (u32, u32) {
        let last = &limits[limits.len() / 2..];
        (*last.iter().min().expect("some"), *last.iter().max().expect("some"))
    }

    #[test]
    fn it_finds_what_a_server_can_do() {
        let server = Server { at_once: 50, us: 10_000 };
        let (least, most) = settled(&Play::new(1, 1000).play(20, server, 5000));
        assert!(least >= 50, "all it can do is used: {least}");
        assert!(most <= 100, "and little waits inside of it: {most}");
    }

    #[test]
    fn it_follows_a_server_that_can_do_less_and_then_more() {
        let mut play = Play::new(2, 1000);
        play.play(10, Server { at_once: 200, us: 10_000 }, 5000);
        let (_, most) = settled(&play.play(10, Server { at_once: 10, us: 10_000 }, 5000));
        assert!(most <= 25, "{most}");
        let (least, _) = settled(&play.play(20, Server { at_once: 200, us: 10_000 }, 5000));
        assert!(least >= 200, "{least}");
    }

    #[test]
    fn it_stays_within_its_bounds() {
        let slow = Server { at_once: 1, us: 100_000 };
        let mut play = Play::new(7, 40);
        let fast = settled(&play.play(5, Server { at_once: 500, us: 5000 }, 5000));
        assert_eq!(fast, (40, 40));
        let (least, most) = settled(&play.play(60, slow, 5000));
        assert!(least >= 7 && most <= 40, "{least} to {most}");
        assert_eq!(AdaptiveLimit::first(Bounds { low: 1, high: 5 }), 5);
        assert_eq!(AdaptiveLimit::first(Bounds { low: 20, high: 50 }), 20);
    }

    #[test]
    fn what_nobody_needs_does_not_grow() {
        let server = Server { at_once: 50, us: 10_000 };
        assert_eq!(settled(&Play::new(1, 1000).play(10, server, 4)), (8, 8));
    }

    #[test]
    fn a_server_that_got_slower_for_good_is_known_again() {
        let mut play = Play::new(1, 1000);
        play.play(10, Server { at_once: 50, us: 2000 }, 5000);
        let limits = play.play(120, Server { at_once: 50, us: 20_000 }, 5000);
        let few = settled(&limits[..200]).1;
        let (least, most) = settled(&limits);
        assert!(few < 50, "at first it looks as if requests waited: {few}");
        assert!(least >= 25 && most <= 110, "then what it takes is known: {least} to {most}");
    }

    #[test]
    fn who_fails_gets_less_and_counters_may_begin_anew() {
        let (mut limit, bounds) = (AdaptiveLimit::default(), Bounds { low: 1, high: 100 });
        let counted = |requests, failures| Outcomes { requests, failures, answer_us: requests * 1000 };
        assert_eq!(limit.look(100, counted(20, 0), true, bounds), 16);
        assert_eq!(limit.look(200, counted(40, 15), true, bounds), 8);
        assert_eq!(limit.look(300, counted(49, 24), true, bounds), 8, "too few to say");
        assert_eq!(limit.look(400, counted(3, 3), true, bounds), 8);
        assert_eq!(limit.look(500, counted(23, 3), true, bounds), 10);
    }
}
