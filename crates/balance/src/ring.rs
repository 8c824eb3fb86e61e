//! Consistent hashing: servers at many points of a circle of 2^32, a key goes to the nearest point.
//!
//! When a server comes or goes only the keys nearest to its points move.

use crate::hash::avalanche;
use crate::sync::{AtomicU64, Ordering};
use crate::turns::Entry;

/// Points per unit of weight, as in the reference. Effective weights are already in 16ths.
pub const POINTS_PER_WEIGHT: u32 = 16;

/// Distance, before hashing, between the first points of servers with neighbouring ids.
const ID_STRIDE: u32 = 4096;

/// The points of all usable servers in the order of the circle.
#[derive(Debug)]
pub struct Ring {
    points: Box<[(u32, u32)]>,
    walk: AtomicU64,
}

/// The number from which the points of a server with numeric identifier `uid` are derived (`hash-key id`).
pub fn seed_of_id(uid: u32) -> u32 {
    uid.wrapping_mul(ID_STRIDE)
}

impl Ring {
    /// Builds the circle; weights are in 16ths, and `seed` gives the number from which a server's points come.
    pub fn new(entries: &[Entry], seed: impl Fn(u32) -> u32) -> Ring {
        let total = entries.iter().map(|e| e.weight as usize).sum();
        let mut points = Vec::with_capacity(total);
        for entry in entries {
            let seed = seed(entry.server);
            points.extend((0..entry.weight).map(|j| (avalanche(seed.wrapping_add(j)), entry.server)));
        }
        points.sort_unstable();
        Ring { points: points.into_boxed_slice(), walk: AtomicU64::new(0) }
    }

    /// The server nearest to `hash`, skipping those `skip` refuses by walking up the circle. When all are refused,
    /// the last one met.
    pub fn nearest(&self, hash: u32, mut skip: impl FnMut(u32) -> bool) -> Option<u32> {
        if self.points.is_empty() {
            return None;
        }
        let above = self.points.partition_point(|&(point, _)| point < hash);
        let next = above % self.points.len();
        let previous = (above + self.points.len() - 1) % self.points.len();
        let distance_up = self.points[next].0.wrapping_sub(hash);
        let distance_down = hash.wrapping_sub(self.points[previous].0);
        let start = if distance_down <= distance_up { previous } else { next };
        self.walk_from(start, &mut skip)
    }

    /// The next server of a walk around the circle: what is used for requests without a key.
    pub fn next(&self, mut skip: impl FnMut(u32) -> bool) -> Option<u32> {
        if self.points.is_empty() {
            return None;
        }
        let start = self.walk.fetch_add(1, Ordering::Relaxed) % self.points.len() as u64;
        let found = self.walk_from(start as usize, &mut skip)?;
        (!skip(found)).then_some(found)
    }

    fn walk_from(&self, start: usize, skip: &mut impl FnMut(u32) -> bool) -> Option<u32> {
        // Runs of points of one server are asked once.
        let mut refused = None;
        for step in 0..self.points.len() {
            let server = self.points[(start + step) % self.points.len()].1;
            if refused == Some(server) {
                continue;
            }
            if !skip(server) {
                return Some(server);
            }
            refused = Some(server);
        }
        refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
