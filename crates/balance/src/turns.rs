//! `roundrobin` and `static-rr`: whose turn is it.
//!
//! Both are written out in advance as a cycle of turns, so that a pick is one increment of one shared counter:
//! the order is exact whatever the number of threads, and nobody takes a lock.

use crate::sync::{AtomicU64, Ordering};
use crossbeam_utils::CachePadded;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The longest cycle kept, in turns, unless there are more servers than that. Above it, weights are scaled down:
/// with so many turns a weight is off by less than one turn in the cycle.
const CYCLE_MAX: u64 = 1 << 16;

/// The most steps spent on a map of slots: slots times servers.
const MAP_WORK_MAX: u64 = 1 << 28;

/// A server and its weight, in any unit common to the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub server: u32,
    pub weight: u32,
}

/// A precomputed order of turns: an opening played once, then a cycle.
#[derive(Debug)]
pub struct Schedule {
    turns: Box<[u32]>,
    /// Length of the cycle, which ends `turns`.
    cycle: u64,
    position: CachePadded<AtomicU64>,
}

impl Schedule {
    /// Turns proportional to weights, as far apart as possible for each server: `balance roundrobin`.
    ///
    /// `entries` are in declaration order and have weights above 0.
    pub fn smooth(entries: &[Entry]) -> Schedule {
        let entries = reduced(entries, CYCLE_MAX);
        if entries.iter().all(|e| e.weight == 1) {
            let turns: Vec<u32> = entries.iter().map(|e| e.server).collect();
            let cycle = turns.len() as u64;
            return Schedule::new(turns, cycle);
        }
        let (turns, cycle) = smooth_turns(&entries);
        Schedule::new(turns, cycle)
    }

    /// The table of `static-rr` and of map-based hashing, which is also indexed by hash.
    pub fn fixed(entries: &[Entry]) -> Schedule {
        let turns = map_turns(entries);
        let cycle = turns.len() as u64;
        Schedule::new(turns, cycle)
    }

    fn new(turns: Vec<u32>, cycle: u64) -> Schedule {
        Schedule { turns: turns.into_boxed_slice(), cycle, position: CachePadded::new(AtomicU64::new(0)) }
    }

    /// Takes the next turn.
    pub fn next(&self) -> Option<u32> {
        if self.cycle == 0 {
            return None;
        }
        Some(self.at(self.position.fetch_add(1, Ordering::Relaxed)))
    }

    /// The server that owns slot `hash` modulo the length of the table.
    pub fn by_hash(&self, hash: u32) -> Option<u32> {
        if self.cycle == 0 {
            return None;
        }
        Some(self.turns[(u64::from(hash) % self.cycle) as usize])
    }

    /// Number of turns in the cycle.
    pub fn len(&self) -> usize {
        self.cycle as usize
    }

    /// True when no server has a turn.
    pub fn is_empty(&self) -> bool {
        self.cycle == 0
    }

    /// Starts this schedule with the server that would have come next in `old`, so that a server which comes or
    /// goes does not send everybody back to the first one.
    pub fn continue_from(&self, old: &Schedule) {
        if old.cycle == 0 || self.cycle == 0 {
            return;
        }
        let from = old.position.load(Ordering::Relaxed);
        if from == 0 {
            return;
        }
        let steady = self.turns.len() as u64 - self.cycle;
        for step in 0..old.cycle {
            let wanted = old.at(from + step);
            if let Some(found) = self.turns[steady as usize..].iter().position(|&s| s == wanted) {
                self.position.store(steady + found as u64, Ordering::Relaxed);
                return;
            }
        }
    }

    fn at(&self, position: u64) -> u32 {
        let len = self.turns.len() as u64;
        let index = if position < len {
            position
        } else {
            (len - self.cycle) + (position - (len - self.cycle)) % self.cycle
        };
        self.turns[index as usize]
    }
}

/// Divides weights by their common divisor, and scales them down where the cycle would be too long.
fn reduced(entries: &[Entry], cap: u64) -> Vec<Entry> {
    let total: u64 = entries.iter().map(|e| u64::from(e.weight)).sum();
    let divisor = entries.iter().fold(0, |g, e| gcd(g, e.weight)).max(1);
    let cap = cap.max(entries.len() as u64);
    let shrink = |w: u32| -> u32 {
        let w = u64::from(w);
        let scaled = if total / u64::from(divisor) <= cap {
            w / u64::from(divisor)
        } else {
            (u128::from(w) * u128::from(cap) / u128::from(total)) as u64
        };
        scaled.max(1) as u32
    };
    entries.iter().map(|e| Entry { server: e.server, weight: shrink(e.weight) }).collect()
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// A server waiting for its turn: due at `due`, ties to the heavier (less a part of the turn it is still owed),
/// then to the one that has waited longest.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    due: u64,
    lightness: i64,
    since: u64,
    index: usize,
    /// The part of a turn, in units of 1/weight, not yet counted in `due`.
    rest: u64,
}

/// The turns until they repeat, and how many of the last ones repeat.
///
/// Each server is due again `total / weight` turns after its turn, fractions carried. A turn goes to the server that
/// is due; when none is, to the heaviest that has not yet had any, which spreads the light ones between the heavy
/// ones; and when all have, to the one due first.
fn smooth_turns(entries: &[Entry]) -> (Vec<u32>, u64) {
    let total: u64 = entries.iter().map(|e| u64::from(e.weight)).sum();
    let mut fresh: Vec<usize> = (0..entries.len()).collect();
    // Heaviest last, earliest declared last among equals, because they are taken from the end.
    fresh.sort_by_key(|&i| (entries[i].weight, Reverse(i)));
    let mut waiting: BinaryHeap<Reverse<Waiting>> = BinaryHeap::with_capacity(entries.len());
    let mut turns = Vec::with_capacity(2 * total as usize);
    let mut rounds: Vec<Vec<(usize, u64, u64)>> = Vec::new();
    let limit = CYCLE_MAX.max(2 * total);
    for now in 0..limit {
        if now % total == 0 && now != 0 {
            // The future depends on who is due when, relative to now: once that has been seen before, it repeats.
            let mut round: Vec<&Waiting> = waiting.iter().map(|w| &w.0).collect();
            round.sort_unstable();
            let round: Vec<_> = round.iter().map(|w| (w.index, w.due.wrapping_sub(now), w.rest)).collect();
            if let Some(back) = rounds.iter().rev().position(|r| *r == round) {
                return (turns, total * (back as u64 + 1));
            }
            rounds.push(round);
        }
        let due = waiting.peek().is_some_and(|w| w.0.due <= now);
        let (index, at, rest) = match (due, fresh.pop()) {
            (false, Some(index)) => (index, now, 0),
            (_, put_back) => {
                fresh.extend(put_back);
                let Some(Reverse(w)) = waiting.pop() else { break };
                (w.index, w.due, w.rest)
            }
        };
        turns.push(entries[index].server);
        let weight = u64::from(entries[index].weight);
        let mut due = at + total / weight;
        let mut rest = rest + total % weight;
        if rest >= weight {
            rest -= weight;
            due += 1;
        }
        let lightness = rest as i64 - weight as i64;
        waiting.push(Reverse(Waiting { due, lightness, since: now, index, rest }));
    }
    // Not seen to repeat within the limit: the last whole round is as good a cycle as any.
    turns.truncate((limit - limit % total) as usize);
    (turns, total)
}

/// One slot per unit of weight. Every slot pays each server its weight; the slot goes to the first declared
/// server among those whose savings are in the highest whole multiple of the total, and costs it the total.
fn map_turns(entries: &[Entry]) -> Vec<u32> {
    let total: u64 = entries.iter().map(|e| u64::from(e.weight)).sum();
    // The position of each server in the map is part of the contract with the reference, so the weights are
    // scaled down only where building the map would take seconds.
    let cap = if total.saturating_mul(entries.len() as u64) < MAP_WORK_MAX { u64::MAX } else { CYCLE_MAX };
    let entries = reduced(entries, cap);
    let total: i64 = entries.iter().map(|e| i64::from(e.weight)).sum();
    if entries.iter().all(|e| e.weight == 1) {
        return entries.iter().map(|e| e.server).collect();
    }
    let mut savings = vec![0i64; entries.len()];
    let mut turns = Vec::with_capacity(total as usize);
    for _ in 0..total {
        let mut best = 0;
        let mut best_class = i64::MIN;
        for (i, entry) in entries.iter().enumerate() {
            savings[i] += i64::from(entry.weight);
            let class = (savings[i] + total) / total;
            if class > best_class {
                best_class = class;
                best = i;
            }
        }
        savings[best] -= total;
        turns.push(entries[best].server);
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entries(weights: &[u32]) -> Vec<Entry> {
        weights.iter().enumerate().map(|(i, &weight)| Entry { server: i as u32, weight }).collect()
    }

    fn played(schedule: &Schedule, turns: usize) -> String {
        (0..turns).map(|_| schedule.next().unwrap().to_string()).collect()
    }

    #[test]
    fn smooth_order_is_the_reference_order() {
        for (weights, want) in [
            (&[1, 1, 1][..], "012012012"),
            (&[1, 2][..], "110110110"),
            (&[2, 1][..], "001001001"),
            (&[1, 2, 3][..], "212021212021212"),
            (&[3, 2, 1][..], "010201010201010"),
            (&[5, 1, 1][..], "00010020001002000"),
            (&[10, 7, 3][..], "0101020101020101001201010201010201010012010"),
            (&[1, 4, 2, 8][..], "331323130313231331323130313231331"),
            (&[100, 50, 25][..], "001020100102010010201001020100102010010201001020100102010010"),
            (&[3, 3, 2][..], "0101201021012010210"),
            (&[7, 7, 7, 1][..], "01201201201201201201230120120120120120120123012"),
            (
                &[37, 29, 19, 25, 23, 2, 30][..],
                "061304610325640136021403614026310460312604130261403610243601",
            ),
            (
                &[33, 40, 4, 30, 36, 26, 26][..],
                "140315406314501634210534610543160415306413501463104561340514",
            ),
            (&[20, 6, 10, 7, 22][..], "404204304204104320404214034024040134204042034104204304214040"),
        ] {
            assert_eq!(played(&Schedule::smooth(&entries(weights)), want.len()), want, "{weights:?}");
        }
    }

    #[test]
    fn the_map_is_the_reference_map() {
        for (weights, want) in [
            (&[1, 1, 1][..], "012012012"),
            (&[1, 2][..], "011011011"),
            (&[2, 1][..], "001001001"),
            (&[1, 2, 3][..], "021212021212021"),
            (&[3, 2, 1][..], "001012001012001"),
            (&[5, 1, 1][..], "00010020001002000"),
            (&[10, 7, 3][..], "0010102010101200101200101020101012001012001"),
            (&[1, 4, 2, 8][..], "031313231323133031313231323133031"),
            (&[100, 50, 25][..], "001010200101020010102001010200101020010102001010200101020010"),
            (&[3, 3, 2][..], "0102101201021012010"),
            (&[7, 7, 7, 1][..], "01201201201201201201230120120120120120120123012"),
            (
                &[37, 29, 19, 25, 23, 2, 30][..],
                "012306140261304360123460140612306314026103460123460120631403",
            ),
            (
                &[33, 40, 4, 30, 36, 26, 26][..],
                "012314056140335640113456013445601310456130415630412356401415",
            ),
            (&[20, 6, 10, 7, 22][..], "014024024304014204304104204324034014024024014034024024134004"),
        ] {
            assert_eq!(played(&Schedule::fixed(&entries(weights)), want.len()), want, "{weights:?}");
        }
    }

    #[test]
    fn a_departure_does_not_restart_the_tour() {
        let old = Schedule::smooth(&entries(&[1, 1, 1, 1]));
        assert_eq!(played(&old, 2), "01");
        let mut left = entries(&[1, 1, 1, 1]);
        left.remove(0);
        let new = Schedule::smooth(&left);
        new.continue_from(&old);
        assert_eq!(played(&new, 4), "2312");
        // The one whose turn it was leaves: its successor comes next.
        left.remove(1);
        let next = Schedule::smooth(&left);
        assert_eq!(played(&new, 2), "31");
        next.continue_from(&new);
        assert_eq!(played(&next, 2), "31");
    }

    #[test]
    fn a_cycle_is_bounded() {
        let many: Vec<u32> = (0..5000).map(|i| 1 + i * 7919 % 4096).collect();
        assert!(Schedule::smooth(&entries(&many)).len() as u64 <= CYCLE_MAX + 5000);
    }

    proptest! {
        #[test]
        fn turns_follow_weights(weights in prop::collection::vec(1u32..40, 1..9)) {
            for schedule in [Schedule::smooth(&entries(&weights)), Schedule::fixed(&entries(&weights))] {
                let total: u32 = weights.iter().sum();
                let mut count = vec![0u32; weights.len()];
                for _ in 0..total * 20 {
                    count[schedule.next().unwrap() as usize] += 1;
                }
                for (c, w) in count.iter().zip(&weights) {
                    prop_assert!(c.abs_diff(w * 20) <= 1, "{weights:?} {count:?}");
                }
            }
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;

    /// Two threads take two turns each of a cycle of two: each server has two, in every interleaving.
    #[test]
    fn concurrent_turns_are_neither_lost_nor_given_twice() {
        loom::model(|| {
            let schedule = loom::sync::Arc::new(Schedule::fixed(&[
                Entry { server: 0, weight: 1 },
                Entry { server: 1, weight: 1 },
            ]));
            let other = schedule.clone();
            let hand = loom::thread::spawn(move || [other.next(), other.next()]);
            let mut all: Vec<_> = [schedule.next(), schedule.next()].into();
            all.extend(hand.join().unwrap());
            all.sort_unstable();
            assert_eq!(all, [Some(0), Some(0), Some(1), Some(1)]);
        });
    }
}
