//! Consistent hashing: servers at many points of a circle of 2^32, a key goes to the nearest point.
//!
//! When a server comes or goes only the keys nearest to its points move. The circle is cut into arcs of the same length with a few points
//! each, which are in no order: a point comes or goes by one store, so that weights change while servers are chosen, without a lock.

use std::iter;
use std::ops::Range;

use crate::hash::avalanche;
use crate::sync::{AtomicU64, Ordering};
use crate::turns::Entry;

/// Points per unit of weight, as in the reference. Effective weights are already in 16ths.
pub const POINTS_PER_WEIGHT: u32 = 16;

/// Distance, before hashing, between the first points of servers with neighbouring ids.
const ID_STRIDE: u32 = 4096;

/// Points of an arc, on average: what a choice looks at.
const POINTS_PER_ARC: usize = 4;

/// Slots of an arc that are free at first, beside those that an average arc would need: among a million arcs one runs out of them
/// by the time that all points are others.
const ROOM: usize = 12;

/// A slot without a point: one that was left, behind which there may be points, and one behind which there are none. Of points this is
/// below all, and that above all.
const LEFT: u64 = 0;
const FREE: u64 = u64::MAX;

/// The points of all usable servers.
#[derive(Debug)]
pub struct Ring {
    /// The slots of all arcs, with [points](point) in them.
    slots: Box<[AtomicU64]>,
    /// Where the slots of each arc begin, and where those of the last one end.
    arcs: Box<[usize]>,
    /// The last point of a walk around the circle.
    walk: AtomicU64,
}

/// The number from which the points of a server with numeric identifier `uid` are derived (`hash-key id`).
pub fn seed_of_id(uid: u32) -> u32 {
    uid.wrapping_mul(ID_STRIDE)
}

/// The points of a server, by the number from which they are derived, that it has with one weight and not with a lesser one.
fn points(seed: u32, server: u32, weights: Range<u32>) -> impl Iterator<Item = u64> {
    weights.map(move |weight| point(avalanche(seed.wrapping_add(weight)), server))
}

/// A place on the circle, and the server that has it, as a word that is neither [`LEFT`] nor [`FREE`].
fn point(place: u32, server: u32) -> u64 {
    (u64::from(place) << 32) | (u64::from(server) + 1)
}

fn place_of(point: u64) -> u32 {
    (point >> 32) as u32
}

fn server_of(point: u64) -> u32 {
    point as u32 - 1
}

/// The one of so many arcs that a point is in.
fn arc_of(point: u64, arcs: usize) -> usize {
    (((point >> 32) * arcs as u64) >> 32) as usize
}

impl Ring {
    /// Builds the circle; weights are in 16ths, and `seed` gives the number from which a server's points come.
    pub fn new(entries: &[Entry], seed: impl Fn(u32) -> u32) -> Ring {
        let all = entries.iter().flat_map(|e| points(seed(e.server), e.server, 0..e.weight));
        let mut points = Vec::with_capacity(entries.iter().map(|e| e.weight as usize).sum());
        points.extend(all);
        // In their order they come to neighbouring slots one after another.
        points.sort_unstable();
        let arcs = points.len().div_ceil(POINTS_PER_ARC);
        let mut slots = Vec::with_capacity(points.len() + arcs * (POINTS_PER_ARC + ROOM));
        let mut starts = Vec::with_capacity(arcs + 1);
        starts.push(0);
        let mut points = points.into_iter().peekable();
        for arc in 0..arcs {
            let before = slots.len();
            slots.extend(
                iter::from_fn(|| points.next_if(|&point| arc_of(point, arcs) == arc)).map(AtomicU64::new),
            );
            let room = POINTS_PER_ARC.saturating_sub(slots.len() - before) + ROOM;
            slots.extend((0..room).map(|_| AtomicU64::new(FREE)));
            starts.push(slots.len());
        }
        let slots = slots.into_boxed_slice();
        Ring { slots, arcs: starts.into(), walk: AtomicU64::new(LEFT) }
    }

    /// A server gets another weight: only one thread at a time may say so. Who chooses meanwhile may see some points of before and some
    /// of now. False when there is no room for a point, and the ring has to be made anew.
    pub fn reweigh(&self, seed: u32, server: u32, before: u32, now: u32) -> bool {
        let replace = |point, is_free: fn(u64, u64) -> bool, by| {
            let slots = self.slots(arc_of(point, self.arcs()));
            let slot = slots.iter().find(|slot| is_free(slot.load(Ordering::Relaxed), point));
            slot.inspect(|slot| slot.store(by, Ordering::Relaxed)).is_some()
        };
        points(seed, server, now..before).all(|point| replace(point, |slot, point| slot == point, LEFT))
            && points(seed, server, before..now)
                .all(|point| replace(point, |slot, _| slot == LEFT || slot == FREE, point))
    }

    /// The server nearest to `hash`, skipping those `skip` refuses by walking up the circle. When all are refused,
    /// the last one met.
    pub fn nearest(&self, hash: u32, mut skip: impl FnMut(u32) -> bool) -> Option<u32> {
        if self.arcs() == 0 {
            return None;
        }
        let key = u64::from(hash) << 32 | 1;
        let arc = arc_of(key, self.arcs());
        let (below, above) = self.beside(arc, key);
        let below = if below == LEFT { self.last_before(arc)? } else { below };
        let above = if above == FREE { self.first_behind(arc)? } else { above };
        let distance_up = place_of(above).wrapping_sub(hash);
        let distance_down = hash.wrapping_sub(place_of(below));
        let start = if distance_down <= distance_up { below } else { above };
        self.walk_from(start, &mut skip)
    }

    /// The next server of a walk around the circle: what is used for requests without a key.
    pub fn next(&self, mut skip: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut start = None;
        let step = |last| {
            start = self.behind(last);
            start
        };
        self.walk.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step).ok()?;
        let found = self.walk_from(start?, &mut skip)?;
        (!skip(found)).then_some(found)
    }

    fn walk_from(&self, start: u64, skip: &mut impl FnMut(u32) -> bool) -> Option<u32> {
        // Runs of points of one server are asked once.
        let (mut point, mut refused) = (start, None);
        // The point where this began may go meanwhile.
        for _ in 0..self.slots.len() {
            let server = server_of(point);
            if refused != Some(server) {
                if !skip(server) {
                    return Some(server);
                }
                refused = Some(server);
            }
            point = self.behind(point)?;
            if point == start {
                break;
            }
        }
        refused
    }

    /// The next point.
    fn behind(&self, point: u64) -> Option<u64> {
        if self.arcs() == 0 {
            return None;
        }
        let arc = arc_of(point, self.arcs());
        match self.beside(arc, point + 1) {
            (_, FREE) => self.first_behind(arc),
            (_, found) => Some(found),
        }
    }

    fn first_behind(&self, arc: usize) -> Option<u64> {
        let mut others = (arc + 1..self.arcs()).chain(0..=arc);
        others.find_map(|arc| Some(self.beside(arc, LEFT + 1).1).filter(|&first| first != FREE))
    }

    fn last_before(&self, arc: usize) -> Option<u64> {
        let mut others = (0..arc).rev().chain((arc..self.arcs()).rev());
        others.find_map(|arc| Some(self.beside(arc, FREE).0).filter(|&last| last != LEFT))
    }

    /// Of the points of an arc the last one below a key, or [`LEFT`], and the first one of those that are not, or [`FREE`].
    #[inline]
    fn beside(&self, arc: usize, key: u64) -> (u64, u64) {
        let (mut below, mut above) = (LEFT, FREE);
        for slot in self.slots(arc) {
            match slot.load(Ordering::Relaxed) {
                FREE => break,
                point if point < key => below = below.max(point),
                point => above = above.min(point),
            }
        }
        (below, above)
    }

    fn slots(&self, arc: usize) -> &[AtomicU64] {
        &self.slots[self.arcs[arc]..self.arcs[arc + 1]]
    }

    fn arcs(&self) -> usize {
        self.arcs.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// All points in the order of the circle: what a ring is.
    struct Plain(Vec<(u32, u32)>);

    impl Plain {
        fn new(weights: &[u32]) -> Plain {
            let points = (0..).zip(weights).flat_map(|(server, &weight)| {
                (0..weight).map(move |j| (avalanche(seed_of_id(server).wrapping_add(j)), server))
            });
            let mut points: Vec<_> = points.collect();
            points.sort_unstable();
            Plain(points)
        }

        /// Servers as they follow the point nearest to a hash.
        fn from(&self, hash: u32) -> impl Iterator<Item = u32> {
            let len = self.0.len();
            let above = self.0.partition_point(|&(point, _)| point < hash);
            let (next, previous) = (above % len, (above + len - 1) % len);
            let up = self.0[next].0.wrapping_sub(hash);
            let start = if hash.wrapping_sub(self.0[previous].0) <= up { previous } else { next };
            (0..len).map(move |step| self.0[(start + step) % len].1)
        }
    }

    fn reweigh(ring: &Ring, weights: &mut [u32], server: usize, weight: u32) -> bool {
        let before = std::mem::replace(&mut weights[server], weight);
        ring.reweigh(seed_of_id(server as u32), server as u32, before, weight)
    }

    proptest! {
        /// Whatever weights were before, keys go where a ring made of those of now says, and the walk passes all points.
        #[test]
        fn a_changed_ring_is_the_ring_of_the_weights_of_now(
            weights in prop::collection::vec(1u32..60, 1..12),
            changes in prop::collection::vec((any::<prop::sample::Index>(), 1u32..60), 0..30),
            keys in prop::collection::vec(any::<u32>(), 50),
            refused in any::<u32>(),
        ) {
            let mut weights = weights;
            let made = |weights: &[u32]| {
                let entries = (0..).zip(weights).map(|(server, &weight)| Entry { server, weight });
                Ring::new(&entries.collect::<Vec<_>>(), seed_of_id)
            };
            let mut ring = made(&weights);
            for (server, weight) in changes {
                let server = server.index(weights.len());
                if !reweigh(&ring, &mut weights, server, weight) {
                    ring = made(&weights);
                }
            }
            let plain = Plain::new(&weights);
            let ends = plain.0.iter().flat_map(|&(point, _)| [point.wrapping_sub(1), point, point.wrapping_add(1)]);
            for hash in keys.into_iter().chain(ends) {
                let skip = |server| refused >> server & 1 == 1;
                let expected = plain.from(hash).find(|&server| !skip(server)).or(plain.from(hash).last());
                prop_assert_eq!(ring.nearest(hash, skip), expected, "{} of {:?}", hash, weights);
            }
            ring.walk.store(LEFT, Ordering::Relaxed);
            for &(_, server) in plain.0.iter().chain(&plain.0) {
                prop_assert_eq!(ring.next(|_| false), Some(server));
            }
        }
    }

    /// With as many points as before a ring is hardly ever made anew, and with twice as many a few times.
    #[test]
    fn there_is_room_for_changes() {
        let mut weights = vec![16; 2000];
        let made = |weights: &[u32]| {
            let entries = (0..).zip(weights).map(|(server, &weight)| Entry { server, weight });
            Ring::new(&entries.collect::<Vec<_>>(), seed_of_id)
        };
        let (mut ring, mut anew) = (made(&weights), 0);
        let mut play = |weights: &mut Vec<u32>, by: fn(u32) -> u32| {
            for server in 0..weights.len() {
                let weight = by(weights[server]);
                if !reweigh(&ring, weights, server, weight) {
                    (ring, anew) = (made(weights), anew + 1);
                }
            }
            std::mem::take(&mut anew)
        };
        let same = (0..20).map(|_| play(&mut weights, |weight| 48 - weight)).sum::<u32>();
        assert!(same < 3, "{same}");
        let twice = play(&mut weights, |weight| 2 * weight);
        assert!(twice < 6, "{twice}");
    }

    fn ring(servers: &[(u32, u32)]) -> Ring {
        let entries: Vec<Entry> = servers
            .iter()
            .enumerate()
            .map(|(i, &(_, w))| Entry { server: i as u32, weight: w * POINTS_PER_WEIGHT })
            .collect();
        Ring::new(&entries, |s| seed_of_id(servers[s as usize].0))
    }

    #[test]
    fn the_walk_is_the_reference_walk() {
        let ring = ring(&[(1, 2), (2, 3), (3, 2)]);
        let got: String = (0..43).map(|_| ring.next(|_| false).unwrap().to_string()).collect();
        assert_eq!(got, "2220121100001201120120002101101201221200010");
    }

    #[test]
    fn only_the_keys_of_a_lost_server_move() {
        let full = ring(&[(1, 1), (2, 1), (3, 1)]);
        let entries = [0, 2].map(|server| Entry { server, weight: POINTS_PER_WEIGHT });
        let without = Ring::new(&entries, |s| seed_of_id(s + 1));
        for key in (0..2000u32).map(|k| k.wrapping_mul(0x9e37_79b9)) {
            let before = full.nearest(key, |_| false);
            if before != Some(1) {
                assert_eq!(without.nearest(key, |_| false), before);
            }
        }
    }

    #[test]
    fn refused_servers_are_passed_over() {
        let ring = ring(&[(1, 1), (2, 1)]);
        for key in (0..100u32).map(|k| k.wrapping_mul(0x9e37_79b9)) {
            assert_eq!(ring.nearest(key, |s| s == 0), Some(1));
            assert!(ring.nearest(key, |_| true).is_some());
        }
        assert_eq!(ring.next(|_| true), None);
    }
}
