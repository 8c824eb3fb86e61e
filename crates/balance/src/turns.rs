//! `roundrobin` and `static-rr`: whose turn is it.
//!
//! Both are written out in advance as a cycle of turns, so that a pick is one increment of one shared counter:
//! the order is exact whatever the number of threads, and nobody takes a lock. When a weight changes, turns are worked out one by
//! one ([`crate::tour`]), under a lock, until they repeat and are written out again.

use std::sync::{Arc, PoisonError};

use crate::seats::Seats;
use crate::sync::{AtomicU32, AtomicU64, Mutex, MutexGuard, Ordering};
use crate::tour::{CYCLE_MAX, Cycle, Tour, written_out};
use crossbeam_utils::CachePadded;
use thalweg_live::Growing;

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
    turns: Growing<AtomicU32>,
    /// How many turns there are, and in the upper half how many of the last ones are the cycle.
    shape: AtomicU64,
    /// The next turn. With [`LIVE`] set it is not among these.
    position: CachePadded<AtomicU64>,
    live: Mutex<Option<Box<Live>>>,
}

/// Set in a position while turns are worked out one by one.
const LIVE: u64 = 1 << 63;

/// What works them out. It stays when they are written out, for the next time.
#[derive(Debug)]
struct Live {
    seats: Arc<Seats>,
    tour: Tour,
    /// Where, in the order that was written out before, the next server is that had no turn since.
    list: u64,
}

impl Schedule {
    /// Turns proportional to weights, as far apart as possible for each server: `balance roundrobin`.
    ///
    /// `entries` are in declaration order and have weights above 0.
    pub fn smooth(entries: &[Entry]) -> Schedule {
        let is_equal = entries.windows(2).all(|pair| pair[0].weight == pair[1].weight);
        if is_equal {
            return Schedule::new(entries.iter().map(|e| e.server).collect(), entries.len() as u64);
        }
        let Cycle { turns, cycle } = written_out(entries);
        Schedule::new(turns, cycle)
    }

    /// The table of `static-rr` and of map-based hashing, which is also indexed by hash.
    pub fn fixed(entries: &[Entry]) -> Schedule {
        let turns = map_turns(entries);
        let cycle = turns.len() as u64;
        Schedule::new(turns, cycle)
    }

    fn new(turns: Vec<u32>, cycle: u64) -> Schedule {
        Schedule {
            shape: AtomicU64::new(cycle << 32 | turns.len() as u64),
            turns: turns.into_iter().map(AtomicU32::new).collect(),
            position: CachePadded::new(AtomicU64::new(0)),
            live: Mutex::new(None),
        }
    }

    /// Takes the next turn.
    #[inline]
    pub fn next(&self) -> Option<u32> {
        if self.is_empty() {
            return None;
        }
        match self.position.fetch_add(1, Ordering::AcqRel) {
            position if position < LIVE => Some(self.at(position)),
            _ => Some(self.work_out()),
        }
    }

    /// The server that owns slot `hash` modulo the length of the table.
    pub fn by_hash(&self, hash: u32) -> Option<u32> {
        if self.is_empty() {
            return None;
        }
        Some(self.turn(u64::from(hash) % self.len() as u64))
    }

    /// Number of turns in the cycle.
    pub fn len(&self) -> usize {
        (self.shape.load(Ordering::Relaxed) >> 32) as usize
    }

    /// True when no server has a turn.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Starts this schedule with the server that would have come next in `old`, which nobody uses any more, so that a server which
    /// comes or goes does not send everybody back to the first one.
    pub fn continue_from(&self, old: &Schedule) {
        if old.position.load(Ordering::Relaxed) == 0 {
            return;
        }
        let (len, cycle) = self.shape();
        for _ in 0..old.len() {
            let wanted = old.next();
            if let Some(found) = (len - cycle..len).find(|&at| Some(self.turn(at)) == wanted) {
                return self.position.store(found, Ordering::Relaxed);
            }
        }
    }

    /// The server at a place of `seats`, the servers that this was made of, gets another weight. It still has the one of before
    /// there.
    pub(crate) fn reweigh(&self, seats: &Arc<Seats>, place: usize, weight: u32) {
        let mut live = self.live();
        let live = live.get_or_insert_with(|| Box::new(Live::new(seats)));
        let position = self.position.swap(LIVE, Ordering::AcqRel);
        if position < LIVE {
            live.list = position;
            live.tour.begin_lap();
        }
        live.tour.reweigh(place, weight);
    }

    /// The next turn after a weight changed.
    #[inline(never)]
    fn work_out(&self) -> u32 {
        let mut live = self.live();
        let Some(live) = live.as_mut().filter(|_| self.position.load(Ordering::Relaxed) >= LIVE) else {
            // They were written out while this one waited.
            return self.at(self.position.fetch_add(1, Ordering::Relaxed));
        };
        let Live { seats, tour, list } = &mut **live;
        let turn = tour.turn(|| {
            let server = self.at(*list);
            *list += 1;
            seats.place(server)
        });
        if let Some(Cycle { turns, cycle }) = tour.cycle() {
            let repeated = turns.iter().skip(turns.len() - cycle as usize);
            repeated.enumerate().for_each(|(at, &server)| self.turns[at].store(server, Ordering::Relaxed));
            self.shape.store(cycle << 32 | cycle, Ordering::Relaxed);
            self.position.store(cycle, Ordering::Release);
        }
        turn
    }

    fn live(&self) -> MutexGuard<'_, Option<Box<Live>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many turns there are, and how many of the last ones are the cycle.
    fn shape(&self) -> (u64, u64) {
        let shape = self.shape.load(Ordering::Relaxed);
        (shape & u64::from(u32::MAX), shape >> 32)
    }

    fn turn(&self, at: u64) -> u32 {
        self.turns[at as usize].load(Ordering::Relaxed)
    }

    fn at(&self, position: u64) -> u32 {
        let (len, cycle) = self.shape();
        let opening = len - cycle;
        self.turn(if position < len { position } else { opening + (position - opening) % cycle })
    }
}

impl Live {
    fn new(seats: &Arc<Seats>) -> Live {
        Live { seats: Arc::clone(seats), tour: Tour::new(&mut seats.iter()), list: 0 }
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

pub(crate) fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
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

    /// A weight changes while another thread takes turns, and again when they are about to be written out: each turn is a server's, and
    /// in the end they are exact.
    #[test]
    fn turns_go_on_while_a_weight_changes() {
        loom::model(|| {
            let weights = [1, 2].map(|weight| Entry { server: weight - 1, weight });
            let seats = Arc::new(Seats::new(&weights));
            let schedule = loom::sync::Arc::new(Schedule::smooth(&weights));
            let reweigh = |weight| {
                schedule.reweigh(&seats, 0, weight);
                seats.reweigh(0, weight);
            };
            reweigh(2);
            (0..7).for_each(|_| _ = schedule.next());
            let other = schedule.clone();
            let hand = loom::thread::spawn(move || [other.next(), other.next()]);
            reweigh(1);
            assert!(hand.join().unwrap().iter().all(|turn| turn.is_some_and(|server| server < 2)));
            (0..20).for_each(|_| _ = schedule.next());
            assert!(schedule.position.load(Ordering::Relaxed) < LIVE);
            let turns: Vec<_> = (0..3).filter_map(|_| schedule.next()).collect();
            assert_eq!(turns.iter().sum::<u32>(), 2, "{turns:?}");
        });
    }
}
