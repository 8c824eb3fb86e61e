//! Budgets against peers that make us work for nothing.
//!
//! Each kind of cheap frame or breach costs points. Points come back with time and with honest work: a browser that cancels
//! a page full of images, or a gRPC client that pings, never gets near the bottom. When a budget is used up the
//! connection ends with ENHANCE_YOUR_CALM, and the reason is known by name. What this answers: Rapid Reset
//! (CVE-2023-44487), MadeYouReset (CVE-2025-8671), the floods of 2019 (CVE-2019-9511 to 9518) and of CONTINUATION (2024).

/// What costs points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Abuse {
    /// The peer reset a stream that was not answered yet.
    RapidReset,
    /// The peer broke a rule in a way that makes us reset a stream.
    ForcedReset,
    /// PING frames.
    Ping,
    /// SETTINGS frames.
    Settings,
    /// PRIORITY frames, frames of unknown types, acknowledgements of nothing, and what comes for streams that are over.
    Noise,
    /// DATA frames without data, and nothing ended by them.
    EmptyData,
    /// WINDOW_UPDATE frames that give next to nothing.
    TinyWindow,
    /// Other WINDOW_UPDATE frames: what was sent pays for them.
    Window,
    /// Interim responses.
    Interim,
    /// Header blocks in many small CONTINUATION frames.
    Continuation,
    /// Other breaches of the protocol that are not worth an error by themselves.
    Glitch,
}

impl Abuse {
    /// How many there are.
    pub const COUNT: usize = Abuse::Glitch as usize + 1;

    /// Points each costs.
    fn cost(self) -> u32 {
        match self {
            Abuse::RapidReset | Abuse::ForcedReset => 100,
            Abuse::Settings => 100,
            Abuse::Ping | Abuse::Continuation => 20,
            Abuse::Glitch | Abuse::Interim => 50,
            Abuse::EmptyData | Abuse::TinyWindow => 32,
            Abuse::Noise | Abuse::Window => 32,
        }
    }
}

impl std::fmt::Display for Abuse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Abuse::RapidReset => "requests that were taken back",
            Abuse::ForcedReset => "breaches that end streams",
            Abuse::Ping => "PING",
            Abuse::Settings => "SETTINGS",
            Abuse::Noise => "frames that do nothing",
            Abuse::EmptyData => "empty DATA",
            Abuse::TinyWindow => "tiny WINDOW_UPDATE",
            Abuse::Window => "WINDOW_UPDATE",
            Abuse::Interim => "interim responses",
            Abuse::Continuation => "CONTINUATION",
            Abuse::Glitch => "breaches of the protocol",
        })
    }
}

/// Points a connection begins with, and has at most: 1,000 resets, or 3,125 priorities, at once. What is sent a frame at a time
/// costs some ten microseconds each: whoever reads it must do so for each of them.
const POINTS_MAX: u32 = 100_000;
/// Points that come back in each millisecond: 100 resets a second, or 500 pings.
const POINTS_PER_MS: u32 = 10;
/// Points that come back with a stream that was served to its end.
const POINTS_PER_STREAM: u32 = 100;

/// Points that come back with a DATA frame that was sent: its receiver gives two windows back.
const POINTS_PER_FRAME: u32 = 64;
/// Octets of such a frame for each point more: some give windows back for each part that they read.
const OCTETS_PER_POINT: usize = 16;

/// The budget of one connection.
#[derive(Clone, Debug)]
pub struct Budget {
    points: u32,
    at_ms: u64,
    breaches: u32,
}

/// The budget is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhausted(pub Abuse);

impl Budget {
    /// A full budget.
    pub fn new(now_ms: u64) -> Budget {
        Budget { points: POINTS_MAX, at_ms: now_ms, breaches: 0 }
    }

    /// Pays for something.
    ///
    /// # Errors
    /// [`Exhausted`] when there are no points left.
    pub fn pay(&mut self, abuse: Abuse, now_ms: u64) -> Result<(), Exhausted> {
        self.pay_times(1, abuse, now_ms)
    }

    /// Pays so many times as much for something.
    ///
    /// # Errors
    /// [`Exhausted`] when there are no points left.
    pub fn pay_times(&mut self, times: u32, abuse: Abuse, now_ms: u64) -> Result<(), Exhausted> {
        let passed = u32::try_from(now_ms.saturating_sub(self.at_ms)).unwrap_or(u32::MAX);
        if passed > 0 {
            self.at_ms = now_ms;
            self.give(passed.saturating_mul(POINTS_PER_MS));
        }
        // What honest peers do now and then is none.
        let is_breach = match abuse {
            Abuse::Ping | Abuse::Settings | Abuse::RapidReset | Abuse::Noise => false,
            Abuse::Window | Abuse::Interim => false,
            Abuse::ForcedReset | Abuse::EmptyData | Abuse::TinyWindow => true,
            Abuse::Continuation | Abuse::Glitch => true,
        };
        if is_breach {
            self.note_breach();
        }
        match self.points.checked_sub(times * abuse.cost()) {
            Some(points) => {
                self.points = points;
                Ok(())
            }
            None => Err(Exhausted(abuse)),
        }
    }

    /// Counts what no honest peer does, where nothing has to be paid for it.
    pub fn note_breach(&mut self) {
        self.breaches = self.breaches.saturating_add(1);
    }

    /// A stream was served to its end.
    pub fn served(&mut self) {
        self.give(POINTS_PER_STREAM);
    }

    /// A DATA frame of so many octets was sent, or as many of them as a window let out.
    #[inline]
    pub fn sent(&mut self, octets: usize, is_cut: bool) {
        let more = u32::try_from(octets / OCTETS_PER_POINT).unwrap_or(POINTS_MAX);
        self.give(if is_cut { more } else { more.saturating_add(POINTS_PER_FRAME) });
    }

    fn give(&mut self, points: u32) {
        self.points = self.points.saturating_add(points).min(POINTS_MAX);
    }

    /// How often something was paid for that no honest peer does: the `fc_glitches` of a connection.
    pub fn glitches(&self) -> u32 {
        self.breaches
    }
}

/// DATA of fewer octets is small: most of it is its frame.
pub const SMALL_DATA: usize = 64;
/// Small DATA frames that may come at once.
const SMALL_MAX: u32 = 16_000;
/// Those that may come in each millisecond beyond that.
const SMALL_PER_MS: u32 = 20;
/// How many of them a receive counts for in which nothing but some of them came, and a DATA frame that is sent back: answers are worth
/// their questions, and who sends each by itself and gets none waits until some are there.
const SMALL_PER_RECEIVE: u32 = 60;
/// How long a peer that sends more of them is not listened to, in milliseconds.
const REST_MS: u64 = 5;
/// The same where more than such a rest allows wait already: what a look at them costs besides is spread over so many more.
const LONG_REST_MS: u64 = 20;
/// Small frames that are looked at in one go, from which on the next rest is a long one.
const MANY: u32 = SMALL_PER_MS * REST_MS as u32;

/// How fast small DATA frames may come. Streams of small messages are made of them, so that too many end nothing: they wait, in
/// the kernel and at their sender, which is what flow control does with large ones.
#[derive(Clone, Debug)]
pub struct Pace {
    left: u32,
    at_ms: u64,
    /// How many came since the last look.
    came: u32,
    /// Until when the connection rests.
    until_ms: u64,
}

impl Pace {
    /// Nothing came yet.
    pub fn new(now_ms: u64) -> Pace {
        Pace { left: SMALL_MAX, at_ms: now_ms, came: 0, until_ms: 0 }
    }

    /// One more came. False when no more should be looked at for a while.
    pub fn small(&mut self, now_ms: u64) -> bool {
        self.came = self.came.saturating_add(1);
        self.take(1, now_ms)
    }

    /// What was received was looked at.
    #[inline]
    pub fn received(&mut self, now_ms: u64) {
        if self.came > 0 {
            self.take(SMALL_PER_RECEIVE, now_ms);
            self.came = 0;
        }
    }

    /// A DATA frame was sent.
    #[inline]
    pub fn sent(&mut self) {
        self.left = self.left.saturating_add(SMALL_PER_RECEIVE + 1).min(SMALL_MAX);
    }

    fn take(&mut self, times: u32, now_ms: u64) -> bool {
        let passed = u32::try_from(now_ms.saturating_sub(self.at_ms)).unwrap_or(u32::MAX);
        if passed > 0 {
            self.at_ms = now_ms;
            self.left = self.left.saturating_add(passed.saturating_mul(SMALL_PER_MS)).min(SMALL_MAX);
        }
        self.left = self.left.saturating_sub(times);
        if self.left == 0 {
            self.until_ms = now_ms + if self.came >= MANY { LONG_REST_MS } else { REST_MS };
        }
        self.left > 0
    }

    /// Until when nothing more should be looked at.
    #[inline]
    pub fn rests_until(&self, now_ms: u64) -> Option<u64> {
        (self.until_ms > now_ms).then_some(self.until_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_data_is_slowed_down_and_a_steady_stream_of_it_is_not() {
        let mut pace = Pace::new(0);
        let (mut taken, mut looks) = (0u64, 0);
        for now in 0..10_000 {
            if pace.rests_until(now).is_none() {
                taken += 1 + (0..1_000_000).take_while(|_| pace.small(now)).count() as u64;
                pace.received(now);
                looks += 1;
            }
        }
        assert!((200_000..220_000).contains(&taken), "{taken}");
        assert!((490..510).contains(&looks), "{looks}");
        let mut pace = Pace::new(0);
        for now in 0..10_000 {
            assert!((0..SMALL_PER_MS).all(|_| pace.small(now)));
        }
    }

    /// One at a time: what answers may go on, and what has none is looked at now and then.
    #[test]
    fn small_data_by_itself_is_looked_at_seldom_unless_it_is_answered() {
        let receives = |answered: bool| {
            let (mut pace, mut receives) = (Pace::new(0), 0);
            for now in 0..10_000 {
                for _ in 0..40 {
                    if !answered && pace.rests_until(now).is_some() {
                        break;
                    }
                    pace.small(now);
                    pace.received(now);
                    receives += 1;
                    if answered {
                        pace.sent();
                        assert_eq!(pace.rests_until(now), None);
                    }
                }
            }
            receives
        };
        assert_eq!(receives(true), 400_000);
        let alone = receives(false);
        assert!((3_500..4_500).contains(&alone), "{alone}");
    }

    #[test]
    fn a_flood_ends_and_a_steady_trickle_does_not() {
        let mut budget = Budget::new(0);
        let paid = (0..100_000).take_while(|_| budget.pay(Abuse::RapidReset, 1).is_ok()).count();
        assert!((1000..1100).contains(&paid), "{paid}");
        let mut budget = Budget::new(0);
        for ms in (0..100_000).step_by(10) {
            budget.pay(Abuse::RapidReset, ms).unwrap();
        }
    }

    #[test]
    fn honest_work_pays_for_resets() {
        let mut budget = Budget::new(0);
        for _ in 0..100_000 {
            budget.served();
            budget.pay(Abuse::RapidReset, 0).unwrap();
        }
    }

    #[test]
    fn the_clock_may_stand_still_or_go_back() {
        let mut budget = Budget::new(1000);
        budget.pay(Abuse::Ping, 500).unwrap();
        budget.pay(Abuse::Ping, u64::MAX).unwrap();
    }
}
