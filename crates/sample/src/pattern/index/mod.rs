//! One search structure per matching method, each over the records of one [`Block`].
//!
//! None costs more per pattern added than the logarithm of their number, except regular expressions, which are tried one
//! by one, and none costs more than linear time in the length of the value.

use super::block::Block;
use super::parse::{self, Net, Range};
use super::{Method, Regex};
use aho_corasick::AhoCorasick;
use smallvec::SmallVec;
use std::net::{Ipv4Addr, Ipv6Addr};
use thalweg_syntax::carry::carry;

/// A slot of a hash table that holds nothing.
const EMPTY: u64 = u64::MAX;

/// A hash table from 64-bit hashes to records, open addressing, half full at most. Records of equal keys are found in the
/// order they were added.
#[derive(Debug)]
struct Table {
    /// High half: high half of the hash. Low half: the record's offset.
    slots: Box<[u64]>,
    mask: usize,
}

impl Table {
    fn new(entries: usize) -> Table {
        let size = (entries * 2).next_power_of_two().max(4);
        Table { slots: vec![EMPTY; size].into_boxed_slice(), mask: size - 1 }
    }

    fn insert(&mut self, hash: u64, record: u32) {
        let mut at = hash as usize & self.mask;
        while self.slots[at] != EMPTY {
            at = (at + 1) & self.mask;
        }
        let slot = hash & 0xffff_ffff_0000_0000 | u64::from(record);
        // A record at offset u32::MAX cannot exist: its header would not fit below 4 GiB.
        self.slots[at] = slot;
    }

    /// The records whose hash has the same high half, in order of insertion.
    #[inline]
    fn candidates(&self, hash: u64) -> impl Iterator<Item = u32> + '_ {
        let mut at = hash as usize & self.mask;
        std::iter::from_fn(move || {
            loop {
                let slot = self.slots[at];
                if slot == EMPTY {
                    return None;
                }
                at = (at + 1) & self.mask;
                if slot >> 32 == hash >> 32 {
                    return Some(slot as u32);
                }
            }
        })
    }
}

/// A hash that can be extended byte by byte, so that all prefixes of a value are hashed in one pass.
#[derive(Clone, Copy)]
struct Rolling(u64);

impl Rolling {
    const fn new() -> Rolling {
        Rolling(0xcbf2_9ce4_8422_2325)
    }

    #[inline]
    fn push(&mut self, byte: u8) {
        self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(5);
    }

    #[inline]
    fn finish(self) -> u64 {
        let h = (self.0 ^ (self.0 >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        h ^ (h >> 29)
    }
}

#[inline]
fn fold(byte: u8, icase: bool) -> u8 {
    if icase { byte.to_ascii_lowercase() } else { byte }
}

#[inline]
fn same(a: &[u8], b: &[u8], icase: bool) -> bool {
    if icase { a.eq_ignore_ascii_case(b) } else { a == b }
}

/// Exact strings.
#[derive(Debug)]
pub struct Exact {
    table: Table,
    icase: bool,
    hex: bool,
}

#[inline]
fn exact_hash(bytes: &[u8], icase: bool) -> u64 {
    if !icase {
        return xxhash_rust::xxh3::xxh3_64(bytes);
    }
    let mut hash = Rolling::new();
    for byte in bytes {
        hash.push(byte.to_ascii_lowercase());
    }
    hash.finish()
}

impl Exact {
    fn build(block: &Block, icase: bool, hex: bool) -> Exact {
        let mut table = Table::new(block.len());
        for record in block.records() {
            let key = block.key_at(record);
            if hex {
                let bytes =
                    std::str::from_utf8(key).ok().and_then(|t| parse::hex(t).ok()).unwrap_or_default();
                table.insert(exact_hash(&bytes, false), record);
            } else {
                table.insert(exact_hash(key, icase), record);
            }
        }
        Exact { table, icase, hex }
    }

    #[inline]
    fn matches(&self, block: &Block, record: u32, value: &[u8]) -> bool {
        let key = block.key_at(record);
        let equal = if self.hex {
            key.len() == value.len() * 2
                && key.chunks_exact(2).zip(value).all(|(pair, byte)| {
                    std::str::from_utf8(pair).ok().and_then(|p| u8::from_str_radix(p, 16).ok()) == Some(*byte)
                })
        } else {
            same(key, value, self.icase)
        };
        equal && block.is_live(record)
    }

    #[inline]
    fn find(&self, block: &Block, value: &[u8]) -> Option<u32> {
        self.table
            .candidates(exact_hash(value, self.icase))
            .find(|record| self.matches(block, *record, value))
    }

    fn each(&self, block: &Block, value: &[u8], mut visit: impl FnMut(u32) -> bool) {
        for record in self.table.candidates(exact_hash(value, self.icase)) {
            if self.matches(block, record, value) && !visit(record) {
                return;
            }
        }
    }
}

/// Prefixes, or suffixes when `reverse`.
#[derive(Debug)]
pub struct Affix {
    table: Table,
    lengths: Box<[u32]>,
    icase: bool,
    reverse: bool,
}

impl Affix {
    fn build(block: &Block, icase: bool, reverse: bool) -> Affix {
        let mut table = Table::new(block.len());
        let mut lengths = Vec::new();
        for record in block.records() {
            let key = block.key_at(record);
            let mut hash = Rolling::new();
            if reverse {
                key.iter().rev().for_each(|b| hash.push(fold(*b, icase)));
            } else {
                key.iter().for_each(|b| hash.push(fold(*b, icase)));
            }
            table.insert(hash.finish(), record);
            lengths.push(key.len() as u32);
        }
        lengths.sort_unstable();
        lengths.dedup();
        Affix { table, lengths: lengths.into_boxed_slice(), icase, reverse }
    }

    /// Calls `visit` with every record that matches, shortest first, until it returns false.
    fn each(&self, block: &Block, value: &[u8], mut visit: impl FnMut(u32) -> bool) {
        let mut hash = Rolling::new();
        let mut hashed = 0usize;
        let mut found: SmallVec<[(u32, u64); 16]> = SmallVec::new();
        for &length in &self.lengths {
            let length = length as usize;
            if length > value.len() {
                break;
            }
            while hashed < length {
                let byte = if self.reverse { value[value.len() - 1 - hashed] } else { value[hashed] };
                hash.push(fold(byte, self.icase));
                hashed += 1;
            }
            found.push((length as u32, hash.finish()));
        }
        // Longest first: for prefixes that is the one that is wanted, and the texts are compared once.
        for (length, hash) in found.into_iter().rev() {
            let length = length as usize;
            let part = if self.reverse { &value[value.len() - length..] } else { &value[..length] };
            for record in self.table.candidates(hash) {
                if same(block.key_at(record), part, self.icase) && block.is_live(record) && !visit(record) {
                    return;
                }
            }
        }
    }
}

/// Whole words: patterns that match between delimiters.
#[derive(Debug)]
pub struct Words {
    table: Table,
    /// Most delimiters inside one pattern: how far a match can reach from the start of a word.
    inner_max: usize,
    /// Length of the longest pattern.
    length_max: usize,
    delimiters: &'static [u8],
    icase: bool,
}

/// Cuts the delimiters off both ends of a word pattern.
fn trim<'k>(key: &'k [u8], delimiters: &[u8]) -> &'k [u8] {
    let start = key.iter().position(|b| !delimiters.contains(b)).unwrap_or(key.len());
    let end = key.iter().rposition(|b| !delimiters.contains(b)).map_or(start, |at| at + 1);
    &key[start..end]
}

impl Words {
    fn build(block: &Block, icase: bool, delimiters: &'static [u8]) -> Words {
        let mut table = Table::new(block.len());
        let (mut inner_max, mut length_max) = (0, 0);
        for record in block.records() {
            let key = trim(block.key_at(record), delimiters);
            if key.is_empty() {
                continue;
            }
            inner_max = inner_max.max(key.iter().filter(|b| delimiters.contains(b)).count());
            length_max = length_max.max(key.len());
            let mut hash = Rolling::new();
            key.iter().for_each(|b| hash.push(fold(*b, icase)));
            table.insert(hash.finish(), record);
        }
        Words { table, inner_max, length_max, delimiters, icase }
    }

    fn each(&self, block: &Block, value: &[u8], mut visit: impl FnMut(u32) -> bool) {
        let mut start = 0;
        while start < value.len() {
            if self.delimiters.contains(&value[start]) {
                start += 1;
                continue;
            }
            // From the start of this word, hash on to the end of each word a pattern can reach.
            let mut hash = Rolling::new();
            let mut crossed = 0;
            let mut at = start;
            let mut next_word = None;
            loop {
                let end = at == value.len() || self.delimiters.contains(&value[at]);
                if end {
                    next_word.get_or_insert(at);
                    for record in self.table.candidates(hash.finish()) {
                        let key = trim(block.key_at(record), self.delimiters);
                        if same(key, &value[start..at], self.icase) && block.is_live(record) && !visit(record)
                        {
                            return;
                        }
                    }
                    if at == value.len() || crossed == self.inner_max {
                        break;
                    }
                    crossed += 1;
                }
                if at - start == self.length_max {
                    // No pattern is longer; look for the end of this word only.
                    next_word.get_or_insert_with(|| {
                        at + value[at..]
                            .iter()
                            .position(|b| self.delimiters.contains(b))
                            .unwrap_or(value.len() - at)
                    });
                    break;
                }
                hash.push(fold(value[at], self.icase));
                at += 1;
            }
            start = next_word.unwrap_or(value.len());
        }
    }
}

/// Substrings.
pub struct Substrings {
    automaton: Option<AhoCorasick>,
    /// One pattern needs no automaton.
    single: Option<memchr::memmem::Finder<'static>>,
    records: Box<[u32]>,
    /// A pattern without any byte matches everything.
    empty: Option<u32>,
}

impl Substrings {
    fn build(block: &Block, icase: bool) -> Result<Substrings, String> {
        let empty = block.records().find(|r| block.key_at(*r).is_empty());
        let records: Box<[u32]> = block.records().filter(|r| !block.key_at(*r).is_empty()).collect();
        if let ([only], false) = (&*records, icase) {
            let single = Some(memchr::memmem::Finder::new(block.key_at(*only)).into_owned());
            return Ok(Substrings { automaton: None, single, records, empty });
        }
        let automaton = if records.is_empty() {
            None
        } else {
            Some(
                AhoCorasick::builder()
                    .ascii_case_insensitive(icase)
                    .build(records.iter().map(|r| block.key_at(*r)))
                    .map_err(|e| format!("too many substrings: {e}"))?,
            )
        };
        Ok(Substrings { automaton, single: None, records, empty })
    }

    fn each(&self, block: &Block, value: &[u8], mut visit: impl FnMut(u32) -> bool) {
        if let Some(record) = self.empty
            && block.is_live(record)
            && !visit(record)
        {
            return;
        }
        if let Some(finder) = &self.single {
            if finder.find(value).is_some() && block.is_live(self.records[0]) {
                visit(self.records[0]);
            }
        } else if let Some(automaton) = &self.automaton {
            for found in automaton.find_overlapping_iter(value) {
                let record = self.records[found.pattern().as_usize()];
                if block.is_live(record) && !visit(record) {
                    return;
                }
            }
        }
    }
}

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
    fn build(block: &Block, versions: bool) -> Ranges {
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

    fn find(&self, block: &Block, value: i64) -> Option<u32> {
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
    fn build(block: &Block) -> Addresses {
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

    fn each(&self, ip: std::net::IpAddr, visit: &mut dyn FnMut(u32) -> bool) {
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

    fn find(&self, block: &Block, ip: std::net::IpAddr) -> Option<u32> {
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

/// Visits the records that match until the visitor returns false.
type Each<'e> = dyn Fn(&mut dyn FnMut(u32) -> bool) + 'e;

/// A handful of strings: comparing them all is faster than any structure.
#[derive(Debug)]
pub struct Few {
    records: SmallVec<[u32; FEW]>,
    method: Method,
    icase: bool,
}

/// How many strings are a handful.
const FEW: usize = 4;

impl Few {
    fn build(block: &Block, method: Method, icase: bool) -> Option<Few> {
        let simple = matches!(method, Method::Str | Method::Beg | Method::End);
        (simple && block.len() <= FEW).then(|| Few { records: block.records().collect(), method, icase })
    }

    #[inline]
    fn matches(&self, block: &Block, record: u32, value: &[u8]) -> bool {
        let key = block.key_at(record);
        let part = match self.method {
            Method::Str => value,
            Method::Beg => value.get(..key.len()).unwrap_or(b""),
            _ => value.len().checked_sub(key.len()).map_or(&b""[..], |at| &value[at..]),
        };
        part.len() == key.len() && same(key, part, self.icase) && block.is_live(record)
    }

    /// The first match, or for prefixes the longest.
    fn find(&self, block: &Block, value: &[u8]) -> Option<u32> {
        let mut matching = self.records.iter().copied().filter(|record| self.matches(block, *record, value));
        if self.method == Method::Beg {
            // Of equal ones the first: `max_by_key` would take the last.
            return matching.reduce(|a, b| if block.key_at(b).len() > block.key_at(a).len() { b } else { a });
        }
        matching.next()
    }

    fn each(&self, block: &Block, value: &[u8], visit: impl FnMut(u32) -> bool) {
        let _ = self.records.iter().copied().filter(|record| self.matches(block, *record, value)).all(visit);
    }
}

/// What is searched for.
#[derive(Clone, Copy)]
pub enum Needle<'v> {
    /// A text.
    Bytes(&'v [u8]),
    /// A number, or the length of a text.
    Int(i64),
    /// An address.
    Ip(std::net::IpAddr),
}

/// The structure of one matching method over one block.
pub enum Structure {
    /// `str`, `beg` and `end` with few patterns.
    Few(Few),
    /// `str`, `bin`.
    Exact(Exact),
    /// `beg`, `end`.
    Affix(Affix),
    /// `dir`, `dom`.
    Words(Words),
    /// `sub`.
    Substrings(Box<Substrings>),
    /// `reg`.
    Regexes(Box<[(Regex, u32)]>),
    /// `int`, `len` and versions.
    Ranges(Ranges),
    /// `ip`.
    Addresses(Box<Addresses>),
    /// `found`, `bool`: patterns mean nothing.
    None,
}

impl Structure {
    /// Builds the structure of `method` over `block`.
    ///
    /// # Errors
    /// The text of the problem, for patterns that cannot be compiled.
    pub fn build(method: Method, icase: bool, block: &Block) -> Result<Structure, String> {
        if let Some(few) = Few::build(block, method, icase) {
            return Ok(Structure::Few(few));
        }
        Ok(match method {
            Method::Found | Method::Bool => Structure::None,
            Method::Str => Structure::Exact(Exact::build(block, icase, false)),
            Method::Bin => Structure::Exact(Exact::build(block, false, true)),
            Method::Beg => Structure::Affix(Affix::build(block, icase, false)),
            Method::End => Structure::Affix(Affix::build(block, icase, true)),
            Method::Dir => Structure::Words(Words::build(block, icase, b"/?")),
            Method::Dom => Structure::Words(Words::build(block, icase, b"/?.:")),
            Method::Sub => Structure::Substrings(Box::new(Substrings::build(block, icase)?)),
            Method::Reg => {
                let mut all = Vec::with_capacity(block.len());
                for record in block.records() {
                    let text = carry(block.key_at(record));
                    all.push((Regex::new(&text, !icase).map_err(|e| e.to_string())?, record));
                }
                Structure::Regexes(all.into())
            }
            Method::Int | Method::Len => Structure::Ranges(Ranges::build(block, false)),
            Method::Version => Structure::Ranges(Ranges::build(block, true)),
            Method::Ip => Structure::Addresses(Box::new(Addresses::build(block))),
        })
    }

    /// The record to use for `needle`. With `any`, whichever is found first; otherwise the most precise of prefixes and
    /// addresses, the first of other patterns.
    #[inline]
    pub fn find(&self, block: &Block, needle: Needle, any: bool) -> Option<u32> {
        match (self, needle) {
            (Structure::Few(few), Needle::Bytes(value)) => few.find(block, value),
            (Structure::Exact(exact), Needle::Bytes(value)) => exact.find(block, value),
            (Structure::Addresses(addresses), Needle::Ip(ip)) => addresses.find(block, ip),
            (Structure::Ranges(ranges), Needle::Int(value)) => ranges.find(block, value),
            _ => self.find_one(block, needle, any),
        }
    }

    fn find_one(&self, block: &Block, needle: Needle, any: bool) -> Option<u32> {
        let first = |each: &Each| {
            let mut best: Option<u32> = None;
            each(&mut |record| {
                best = Some(best.map_or(record, |b| b.min(record)));
                !any
            });
            best
        };
        match (self, needle) {
            (Structure::Affix(affix), Needle::Bytes(value)) if affix.reverse && !any => {
                first(&|visit| affix.each(block, value, visit))
            }
            (Structure::Affix(affix), Needle::Bytes(value)) => {
                let mut longest = None;
                affix.each(block, value, |record| {
                    longest = Some(record);
                    false
                });
                longest
            }
            (Structure::Words(words), Needle::Bytes(value)) => {
                first(&|visit| words.each(block, value, visit))
            }
            (Structure::Substrings(subs), Needle::Bytes(value)) => {
                first(&|visit| subs.each(block, value, visit))
            }
            (Structure::Regexes(all), Needle::Bytes(value)) => {
                all.iter().find(|(regex, r)| block.is_live(*r) && regex.is_match(value)).map(|(_, r)| *r)
            }
            _ => None,
        }
    }
}

impl Structure {
    /// Calls `visit` with every record that matches, in no particular order, until it returns false. Nothing for numbers
    /// and regular expressions, whose matches cannot be listed.
    pub fn each(&self, block: &Block, needle: Needle, mut visit: impl FnMut(u32) -> bool) {
        match (self, needle) {
            (Structure::Few(few), Needle::Bytes(value)) => few.each(block, value, visit),
            (Structure::Exact(exact), Needle::Bytes(value)) => exact.each(block, value, visit),
            (Structure::Affix(affix), Needle::Bytes(value)) => affix.each(block, value, visit),
            (Structure::Words(words), Needle::Bytes(value)) => words.each(block, value, visit),
            (Structure::Substrings(subs), Needle::Bytes(value)) => subs.each(block, value, visit),
            (Structure::Addresses(addresses), Needle::Ip(ip)) => addresses.each(ip, &mut visit),
            _ => {}
        }
    }
}

impl std::fmt::Debug for Structure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Structure::Few(_) => "Few",
            Structure::Exact(_) => "Exact",
            Structure::Affix(_) => "Affix",
            Structure::Words(_) => "Words",
            Structure::Substrings(_) => "Substrings",
            Structure::Regexes(_) => "Regexes",
            Structure::Ranges(_) => "Ranges",
            Structure::Addresses(_) => "Addresses",
            Structure::None => "None",
        })
    }
}
