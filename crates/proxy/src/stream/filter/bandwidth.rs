//! `filter bwlim-in`, `filter bwlim-out`: so many bytes per period and no more.

use std::rc::Rc;

use thalweg_stick::{DataType, Held};

use super::Pass;

/// Once the limit was met, what a period allows passes in so many portions, or in one every [`PORTION_MS`]: often enough
/// to flow, seldom enough not to cost a call for every few bytes.
const PORTIONS: u64 = 5;
const PORTION_MS: u64 = 200;

/// Parts of a period in which passed bytes are counted.
const SLOTS: usize = 16;

/// A limit on the bytes of any period. The first ones pass at once, as many as a period allows; then it is an even flow.
#[derive(Debug)]
pub struct Bandwidth {
    /// Bytes per period, at least 1.
    limit: u64,
    /// Milliseconds, at least 1.
    period_ms: u64,
    /// Bytes that are waited for, so that fewer are not sent; 1 to `limit`.
    min_size: u64,
    counted: Counted,
    /// The limit was met, and since then there was no period without traffic.
    met: bool,
    /// Nothing more passes before this millisecond.
    next_ms: u64,
}

/// Where passed bytes are counted.
#[derive(Debug)]
enum Counted {
    /// Those of this stream.
    Here {
        /// In each part of the last period, by the part's number modulo their count.
        passed: [u64; SLOTS],
        /// The part that is counted in, since the clock's beginning.
        part: u64,
    },
    /// Those of all streams with the same key, in the entry of the key.
    Shared(Rc<Held>, DataType),
}

impl Bandwidth {
    /// `limit` bytes per `period_ms`, at a time at least `min_size`.
    pub fn new(limit: u32, period_ms: u32, min_size: u32, now_ms: u64) -> Bandwidth {
        let limit = u64::from(limit.max(1));
        let mut bandwidth = Bandwidth {
            limit,
            period_ms: u64::from(period_ms.max(1)),
            // What is more than the limit would never pass.
            min_size: u64::from(min_size).clamp(1, limit),
            counted: Counted::Here { passed: [0; SLOTS], part: 0 },
            met: false,
            next_ms: now_ms,
        };
        bandwidth.turn(now_ms);
        bandwidth
    }

    /// The same for all streams that have this entry. They share what is left of a period equally; the period is that of the
    /// table's rate.
    pub fn shared(entry: Rc<Held>, incoming: bool, limits: (u32, u32, u32), now_ms: u64) -> Bandwidth {
        let (limit, period_ms, min_size) = limits;
        let rate = if incoming { DataType::BytesInRate } else { DataType::BytesOutRate };
        let counted = Counted::Shared(entry, rate);
        Bandwidth { counted, ..Bandwidth::new(limit, period_ms, min_size, now_ms) }
    }

    /// How many of `len` bytes may pass. `last`: there are no more behind them, so that fewer than the minimum may.
    pub fn room(&mut self, len: usize, last: bool, now_ms: u64) -> Pass {
        if now_ms < self.next_ms {
            return Pass::NotBefore(self.next_ms);
        }
        self.turn(now_ms);
        self.met &= now_ms < self.next_ms + self.period_ms;
        let room = self.left(now_ms);
        let wanted = if last { self.min_size.min(len as u64) } else { self.min_size };
        if room < wanted {
            self.met = true;
            // The next part forgets what passed a period before it.
            return Pass::NotBefore((self.part_at(now_ms) + 1) * self.part_ms());
        }
        let portion = if self.met { self.portion() } else { u64::MAX };
        Pass::Bytes(usize::try_from(room.min(portion)).unwrap_or(usize::MAX).min(len))
    }

    /// So many passed.
    pub fn passed(&mut self, len: usize, now_ms: u64) {
        self.turn(now_ms);
        let len = len as u64;
        let slot = self.slot(self.part_at(now_ms));
        match &mut self.counted {
            Counted::Here { passed, .. } => passed[slot] += len,
            Counted::Shared(entry, rate) => {
                entry.values().add(*rate, len, now_ms);
                entry.values().touch(now_ms);
            }
        }
        self.met |= self.left(now_ms) == 0;
        if self.met {
            self.next_ms = now_ms + (len * self.period_ms / self.limit).min(self.period_ms);
        }
    }

    /// What a period that ends now has left for this stream.
    fn left(&self, now_ms: u64) -> u64 {
        match &self.counted {
            Counted::Here { passed, .. } => self.limit.saturating_sub(passed.iter().sum()),
            Counted::Shared(entry, rate) => {
                let values = entry.values();
                let all = self.limit.saturating_sub(values.get(*rate, now_ms).unwrap_or(0));
                // Who comes later finds something, too; the last bytes go to whoever asks.
                (all / u64::from(values.trackers().max(1))).max(all.min(self.min_size))
            }
        }
    }

    /// What passes at a time once the limit was met.
    fn portion(&self) -> u64 {
        let every_ms = (self.period_ms / PORTIONS).clamp(1, PORTION_MS);
        (self.limit * every_ms / self.period_ms).max(self.min_size)
    }

    fn part_ms(&self) -> u64 {
        self.period_ms.div_ceil(SLOTS as u64)
    }

    /// Where a part is counted. Short periods have fewer parts than there are slots.
    fn slot(&self, part: u64) -> usize {
        (part % self.period_ms.div_ceil(self.part_ms())) as usize
    }

    fn part_at(&self, now_ms: u64) -> u64 {
        now_ms / self.part_ms()
    }

    /// Forgets what passed more than a period before `now_ms`.
    fn turn(&mut self, now_ms: u64) {
        let now = self.part_at(now_ms);
        let slots = self.period_ms.div_ceil(self.part_ms());
        let Counted::Here { passed, part } = &mut self.counted else { return };
        let gone = now.saturating_sub(*part).min(SLOTS as u64);
        for n in 1..=gone {
            passed[((*part + n) % slots) as usize] = 0;
        }
        *part = now.max(*part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes `total` bytes from millisecond 1000 on; the moments and amounts.
    fn pass_all(limit: &mut Bandwidth, total: usize) -> Vec<(u64, usize)> {
        let (mut now, mut left, mut steps) = (1000, total, Vec::new());
        while left > 0 {
            match limit.room(left, true, now) {
                Pass::Bytes(n) => {
                    assert!(n > 0);
                    limit.passed(n, now);
                    left -= n;
                    steps.push((now, n));
                }
                Pass::NotBefore(at) => {
                    assert!(at > now);
                    now = at;
                }
            }
            assert!(steps.len() < 100_000);
        }
        steps
    }

    /// Most bytes in any window of `period_ms`.
    fn densest(steps: &[(u64, usize)], period_ms: u64) -> usize {
        let from = |start: u64| steps.iter().filter(move |(at, _)| (start..start + period_ms).contains(at));
        steps.iter().map(|(start, _)| from(*start).map(|(_, n)| n).sum()).max().unwrap_or(0)
    }

    #[test]
    fn the_rate_is_kept_and_used() {
        for (limit, period, min) in [(20_000, 1000, 0), (20_000, 100, 3000), (1000, 1000, 2000), (1, 10, 0)] {
            let mut bandwidth = Bandwidth::new(limit, period, min, 1000);
            let total = limit as usize * 10;
            let steps = pass_all(&mut bandwidth, total);
            let took = steps.last().map_or(0, |(at, _)| at - 1000);
            let ideal = u64::from(period) * 9;
            assert!(
                took >= ideal * 9 / 10 && took <= ideal * 12 / 10,
                "{limit}/{period}: {took} for {ideal}"
            );
            let most = densest(&steps, u64::from(period));
            assert!(most <= limit as usize, "{limit}/{period}: {most}");
        }
    }

    #[test]
    fn portions_are_not_too_small() {
        let mut bandwidth = Bandwidth::new(100_000, 1000, 4000, 1000);
        let steps = pass_all(&mut bandwidth, 1_000_000);
        let (last, others) = steps.split_last().expect("steps");
        assert!(others.iter().all(|(_, n)| *n >= 4000), "{others:?}");
        assert!(last.1 <= 100_000);
    }

    #[test]
    fn a_minimum_above_the_limit_does_not_stop_everything() {
        let mut bandwidth = Bandwidth::new(1000, 1000, 1_000_000, 1000);
        assert_eq!(bandwidth.room(5000, false, 1000), Pass::Bytes(1000));
    }
}
