//! Search structures over texts.

use super::super::block::Block;
use super::super::parse;
use super::Method;
use aho_corasick::AhoCorasick;
use smallvec::SmallVec;

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
    pub(super) fn build(block: &Block, icase: bool, hex: bool) -> Exact {
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
    pub(super) fn find(&self, block: &Block, value: &[u8]) -> Option<u32> {
        self.table
            .candidates(exact_hash(value, self.icase))
            .find(|record| self.matches(block, *record, value))
    }

    pub(super) fn each(&self, block: &Block, value: &[u8], mut visit: impl FnMut(u32) -> bool) {
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
    /// Whether it is of suffixes.
    pub(super) fn is_of_ends(&self) -> bool {
        self.reverse
    }

    pub(super) fn build(block: &Block, icase: bool, reverse: bool) -> Affix {
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
    pub(super) fn each(&self, block: &Block, value: &[u8], mut visit: impl FnMut(u32) -> bool) {
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
    pub(super) fn build(block: &Block, icase: bool, delimiters: &'static [u8]) -> Words {
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

    pub(super) fn each(&self, block: &Block, value: &[u8], mut visit: impl FnMut(u32) -> bool) {
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
    pub(super) fn build(block: &Block, icase: bool) -> Result<Substrings, String> {
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

    pub(super) fn each(&self, block: &Block, value: &[u8], mut visit: impl FnMut(u32) -> bool) {
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
    pub(super) fn build(block: &Block, method: Method, icase: bool) -> Option<Few> {
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
    pub(super) fn find(&self, block: &Block, value: &[u8]) -> Option<u32> {
        let mut matching = self.records.iter().copied().filter(|record| self.matches(block, *record, value));
        if self.method == Method::Beg {
            // Of equal ones the first: `max_by_key` would take the last.
            return matching.reduce(|a, b| if block.key_at(b).len() > block.key_at(a).len() { b } else { a });
        }
        matching.next()
    }

    pub(super) fn each(&self, block: &Block, value: &[u8], visit: impl FnMut(u32) -> bool) {
        let _ = self.records.iter().copied().filter(|record| self.matches(block, *record, value)).all(visit);
    }
}
