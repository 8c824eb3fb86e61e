//! Search structures over numbers and addresses.

use super::super::block::Block;
use super::super::parse::{self, Net, Range};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Sorted keys with a few levels of signposts above them, so that a search touches few cache lines: a node of each level is
/// sixteen neighbours, found by a node of the level above.
#[derive(Debug)]
struct Sorted<K> {
    /// The keys first, then every sixteenth of the level before, until few are left.
    levels: Vec<Box<[K]>>,
}

const NODE: usize = 16;

impl<K: Copy + Ord> Sorted<K> {
    fn new(keys: Vec<K>) -> Sorted<K> {
        let mut levels: Vec<Box<[K]>> = vec![keys.into()];
        while let Some(last) = levels.last().filter(|level| level.len() > 4 * NODE) {
            let next = last.iter().copied().step_by(NODE).collect();
            levels.push(next);
        }
        Sorted { levels }
    }

    /// How many keys are at most `key`.
    #[inline]
    fn up_to(&self, key: K) -> usize {
        let mut node: Option<usize> = None;
        for level in self.levels.iter().rev() {
            // The first key of each node is a key of the level above: the node of the last one that is not greater holds
            // the answer.
            let (start, end) = match node {
                None => (0, level.len()),
                Some(node) => (node * NODE, level.len().min((node + 1) * NODE)),
            };
            let count = start + level[start..end].partition_point(|k| *k <= key);
            match count.checked_sub(1) {
                Some(last) => node = Some(last),
                None => return 0,
            }
        }
        node.map_or(0, |last| last + 1)
    }
}

/// Ranges of integers: disjoint intervals, each with the records that cover it, first one first.
#[derive(Debug)]
pub struct Ranges {
    /// Start of each interval, ascending; the first is `i64::MIN`.
    starts: Sorted<i64>,
    /// The records of each interval, in order: a part of `records`.
    spans: Box<[(u32, u32)]>,
    records: Box<[u32]>,
}

/// Intervals that many ranges overlap keep this many of them: enough when some are removed at run time.
const OVERLAP_MAX: usize = 8;

impl Ranges {
    pub(super) fn build(block: &Block, versions: bool) -> Ranges {
        let parse = if versions { parse::version_range } else { parse::range };
        let mut ranges: Vec<(Range, u32)> = Vec::with_capacity(block.len());
        for record in block.records() {
            if let Some(range) = std::str::from_utf8(block.key_at(record)).ok().and_then(|t| parse(t).ok()) {
                ranges.push((range, record));
            }
        }
        // Sweep over the bounds, keeping the set of ranges that cover the present point. Records grow in order, so
        // the set's own order is the order of the patterns.
        let mut events: Vec<(i128, bool, u32)> = Vec::with_capacity(ranges.len() * 2);
        for (range, record) in &ranges {
            events.push((i128::from(range.min), true, *record));
            events.push((i128::from(range.max) + 1, false, *record));
        }
        events.sort_unstable();
        let mut active = std::collections::BTreeSet::new();
        let (mut starts, mut spans, mut records) = (vec![i64::MIN], vec![(0u32, 0u32)], Vec::new());
        let mut i = 0;
        while i < events.len() {
            let at = events[i].0;
            while i < events.len() && events[i].0 == at {
                let (_, begins, record) = events[i];
                if begins {
                    active.insert(record);
                } else {
                    active.remove(&record);
                }
                i += 1;
            }
            let Ok(at) = i64::try_from(at) else { break };
            let first = records.len() as u32;
            records.extend(active.iter().take(OVERLAP_MAX).copied());
            let span = (first, records.len() as u32);
            if at == i64::MIN {
                spans[0] = span;
            } else {
                starts.push(at);
                spans.push(span);
            }
        }
        Ranges { starts: Sorted::new(starts), spans: spans.into(), records: records.into() }
    }

    pub(super) fn find(&self, block: &Block, value: i64) -> Option<u32> {
        let at = self.starts.up_to(value).checked_sub(1)?;
        let (first, end) = self.spans[at];
        self.records[first as usize..end as usize].iter().copied().find(|r| block.is_live(*r))
    }
}

/// One address family: disjoint intervals of addresses, each with its most precise prefix.
#[derive(Debug)]
struct Prefixes<A> {
    starts: Sorted<A>,
    /// For each interval, its prefix's record and its number in `owners`, plus one; 0: none.
    tops: Box<[(u32, u32)]>,
    /// Each prefix's record and the number of the prefix around it, plus one.
    owners: Box<[(u32, u32)]>,
}

/// What the two families have in common.
trait Address: Copy + Ord {
    const ZERO: Self;
    /// The address after the prefix of `bits` bits that starts here, unless it is the end of the space.
    fn after(self, bits: u32) -> Option<Self>;
}

impl Address for u32 {
    const ZERO: u32 = 0;
    fn after(self, bits: u32) -> Option<u32> {
        if bits == 0 { None } else { self.checked_add(1 << (32 - bits)) }
    }
}

impl Address for u128 {
    const ZERO: u128 = 0;
    fn after(self, bits: u32) -> Option<u128> {
        if bits == 0 { None } else { self.checked_add(1 << (128 - bits)) }
    }
}

impl<A: Address> Prefixes<A> {
    /// Builds from `(start, bits, record)`; records in order.
    fn build(mut prefixes: Vec<(A, u8, u32)>) -> Prefixes<A> {
        // Outer prefixes first; of equal ones the first pattern innermost, for it to be found first.
        prefixes.sort_unstable_by(|a, b| {
            (a.0, a.1, std::cmp::Reverse(a.2)).cmp(&(b.0, b.1, std::cmp::Reverse(b.2)))
        });
        let mut starts: Vec<A> = vec![A::ZERO];
        let mut tops: Vec<u32> = vec![0];
        let mut owners: Vec<(u32, u32)> = Vec::with_capacity(prefixes.len());
        // The prefixes around the present point: number and end.
        let mut open: Vec<(u32, Option<A>)> = Vec::new();
        let mut put = |at: A, top: u32| {
            if starts.last() == Some(&at) {
                if let Some(last) = tops.last_mut() {
                    *last = top;
                }
            } else {
                starts.push(at);
                tops.push(top);
            }
        };
        for (start, bits, record) in prefixes {
            while let Some(&(_, Some(end))) = open.last() {
                if end > start {
                    break;
                }
                open.pop();
                put(end, open.last().map_or(0, |(n, _)| *n));
            }
            owners.push((record, open.last().map_or(0, |(n, _)| *n)));
            let number = owners.len() as u32;
            open.push((number, start.after(u32::from(bits))));
            put(start, number);
        }
        while let Some((_, end)) = open.pop() {
            if let Some(end) = end {
                put(end, open.last().map_or(0, |(n, _)| *n));
            }
        }
        let record_of = |top: &u32| top.checked_sub(1).map_or(0, |i| owners[i as usize].0);
        let tops = tops.iter().map(|top| (record_of(top), *top)).collect();
        Prefixes { starts: Sorted::new(starts), tops, owners: owners.into() }
    }

    #[inline]
    fn find(&self, block: &Block, address: A) -> Option<u32> {
        let mut found = None;
        self.each(address, |record| {
            let live = block.is_live(record);
            if live {
                found = Some(record);
            }
            !live
        });
        found
    }

    /// Calls `visit` with the record of each prefix around `address`, narrowest first, until it returns false.
    #[inline]
    fn each(&self, address: A, mut visit: impl FnMut(u32) -> bool) -> bool {
        let Some(at) = self.starts.up_to(address).checked_sub(1) else { return true };
        let (record, owner) = self.tops[at];
        if owner == 0 {
            return true;
        }
        if !visit(record) {
            return false;
        }
        // Only when the narrowest is not enough, those around it.
        let mut owner = self.owners[owner as usize - 1].1;
        while owner != 0 {
            let (record, parent) = self.owners[owner as usize - 1];
            if !visit(record) {
                return false;
            }
            owner = parent;
        }
        true
    }
}

/// Addresses.
#[derive(Debug)]
pub struct Addresses {
    v4: Prefixes<u32>,
    v6: Prefixes<u128>,
    /// Masks that are no prefixes, in order.
    odd: Box<[(u32, u32, u32)]>,
}

impl Addresses {
    pub(super) fn build(block: &Block) -> Addresses {
        let (mut v4, mut v6, mut odd) = (Vec::new(), Vec::new(), Vec::new());
        for record in block.records() {
            match std::str::from_utf8(block.key_at(record)).ok().and_then(|t| parse::net(t).ok()) {
                Some(Net::V4 { addr, mask }) if mask.leading_ones() + mask.trailing_zeros() >= 32 => {
                    v4.push((addr, mask.leading_ones() as u8, record));
                }
                Some(Net::V4 { addr, mask }) => odd.push((addr, mask, record)),
                Some(Net::V6 { addr, bits }) => v6.push((addr, bits, record)),
                None => {}
            }
        }
        Addresses { v4: Prefixes::build(v4), v6: Prefixes::build(v6), odd: odd.into() }
    }

    fn find_v4(&self, block: &Block, ip: u32) -> Option<u32> {
        self.v4.find(block, ip).or_else(|| {
            self.odd
                .iter()
                .find(|(addr, mask, r)| ip & mask == *addr && block.is_live(*r))
                .map(|(_, _, r)| *r)
        })
    }

    fn each_v4(&self, ip: u32, visit: &mut dyn FnMut(u32) -> bool) -> bool {
        self.v4.each(ip, &mut *visit)
            && self
                .odd
                .iter()
                .filter(|(addr, mask, _)| ip & mask == *addr)
                .all(|(_, _, record)| visit(*record))
    }

    pub(super) fn each(&self, ip: std::net::IpAddr, visit: &mut dyn FnMut(u32) -> bool) {
        match ip {
            std::net::IpAddr::V4(ip) => {
                let _ = self.each_v4(ip.to_bits(), visit)
                    && self.v6.each(Ipv4Addr::to_ipv6_mapped(&ip).to_bits(), &mut *visit);
            }
            std::net::IpAddr::V6(ip) => {
                if self.v6.each(Ipv6Addr::to_bits(ip), &mut *visit)
                    && let Some(ip) = crate::cast::v6_to_v4(ip)
                {
                    self.each_v4(ip.to_bits(), visit);
                }
            }
        }
    }

    pub(super) fn find(&self, block: &Block, ip: std::net::IpAddr) -> Option<u32> {
        match ip {
            std::net::IpAddr::V4(ip) => self
                .find_v4(block, ip.to_bits())
                .or_else(|| self.v6.find(block, Ipv4Addr::to_ipv6_mapped(&ip).to_bits())),
            std::net::IpAddr::V6(ip) => self
                .v6
                .find(block, Ipv6Addr::to_bits(ip))
                .or_else(|| self.find_v4(block, crate::cast::v6_to_v4(ip)?.to_bits())),
        }
    }
}
