//! Sets of patterns: shared by name, changed at run time without stopping readers.
//!
//! A set is a list of blocks. A change adds a small block or marks entries as removed; small blocks are merged as they
//! accumulate, so that a change costs the logarithm of the size and a lookup visits few blocks. Readers hold a snapshot per thread and
//! notice a change by one relaxed load of a number that rarely moves.

use super::block::{Block, BlockBuilder};
use super::index::{Needle, Structure};
use super::{Method, parse};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError};

use thalweg_shared::{AtomicU64, Mutex, MutexGuard, Ordering};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Merge two neighbouring blocks when the older one is less than this many times the newer one.
const MERGE_RATIO: usize = 8;

/// The name of a set as written: `file@` and `opt@` are not part of it, `virt@` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetName<'n> {
    /// The name that identifies the set.
    pub name: &'n str,
    /// True when no file is read (`virt@`).
    pub is_virtual: bool,
    /// True when the file may be absent (`opt@`).
    pub optional: bool,
}

impl<'n> SetName<'n> {
    /// Reads the prefix of a name.
    pub fn parse(text: &'n str) -> SetName<'n> {
        if let Some(name) = text.strip_prefix("opt@") {
            SetName { name, is_virtual: false, optional: true }
        } else if text.starts_with("virt@") {
            SetName { name: text, is_virtual: true, optional: false }
        } else {
            SetName { name: text.strip_prefix("file@").unwrap_or(text), is_virtual: false, optional: false }
        }
    }
}

/// One entry, as the CLI shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryView {
    /// Its stable identifier.
    pub id: u64,
    /// The pattern.
    pub key: Vec<u8>,
    /// The value, for maps.
    pub value: Vec<u8>,
}

/// A list of patterns and, for a map, values.
pub struct PatternSet {
    id: u32,
    name: Option<String>,
    /// What `show acl` and `show map` say after the name.
    display: Mutex<String>,
    state: Mutex<State>,
    /// Counts changes at run time, for those who have copied patterns.
    changes: Arc<AtomicU64>,
}

/// An entry of a version being prepared: the pattern and its value.
type Pending = (Vec<u8>, Vec<u8>);

#[derive(Default)]
struct State {
    is_map: bool,
    is_acl: bool,
    blocks: Vec<Arc<Block>>,
    next_order: u64,
    generation: u32,
    next_generation: u32,
    pending: BTreeMap<u32, Vec<Pending>>,
    /// Entries of versions that were prepared and given up.
    dropped: u64,
    indexes: Vec<Arc<Index>>,
}

impl fmt::Debug for PatternSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PatternSet(#{} {:?})", self.id, self.name)
    }
}

/// One block and its search structure.
struct Segment {
    block: Arc<Block>,
    structure: Structure,
}

/// The search structures of one way of using a set, at one moment.
#[derive(Default)]
struct Snapshot {
    segments: Vec<Arc<Segment>>,
}

/// One way of using a set: a matching method, with or without regard to case.
pub struct Index {
    method: Method,
    icase: bool,
    /// Where threads keep what they have seen of it. Used again when nobody uses this any more.
    slot: usize,
    /// The number of what is current, which no other snapshot of any index has: a slot may still have that of another one.
    version: AtomicU64,
    current: Mutex<Arc<Snapshot>>,
}

/// Snapshots so far.
static SNAPSHOTS: AtomicU64 = AtomicU64::new(0);

/// Slots that were in use, and those of them that are free.
static SLOTS: Mutex<(usize, Vec<usize>)> = Mutex::new((0, Vec::new()));

fn take_slot() -> usize {
    let (used, free) = &mut *lock(&SLOTS);
    free.pop().unwrap_or_else(|| {
        *used += 1;
        *used - 1
    })
}

impl Drop for Index {
    fn drop(&mut self) {
        lock(&SLOTS).1.push(self.slot);
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Index({:?})", self.method)
    }
}

/// A match: the entry, until the snapshot it comes from is given back.
pub struct Hit<'s> {
    block: &'s Block,
    record: u32,
}

impl<'s> Hit<'s> {
    /// The pattern.
    pub fn key(&self) -> &'s [u8] {
        self.block.key_at(self.record)
    }

    /// The value.
    pub fn value(&self) -> &'s [u8] {
        self.block.value_at(self.record)
    }

    /// The entry's identifier.
    pub fn id(&self) -> u64 {
        self.block.order_at(self.record)
    }
}

/// The snapshots a thread has seen.
#[derive(Default)]
pub struct SnapshotCache {
    slots: Vec<Option<(u64, Arc<Snapshot>)>>,
}

impl fmt::Debug for SnapshotCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SnapshotCache({})", self.slots.len())
    }
}

impl Snapshot {
    #[inline]
    fn find(&self, needle: Needle, prefer: Prefer) -> Option<Hit<'_>> {
        if let [segment] = &self.segments[..] {
            let record = segment.structure.find(&segment.block, needle, prefer == Prefer::Any)?;
            return Some(Hit { block: &segment.block, record });
        }
        self.find_in_all(needle, prefer)
    }

    fn find_in_all(&self, needle: Needle, prefer: Prefer) -> Option<Hit<'_>> {
        let mut best: Option<Hit> = None;
        for segment in &self.segments {
            let Some(record) = segment.structure.find(&segment.block, needle, prefer == Prefer::Any) else {
                continue;
            };
            let hit = Hit { block: &segment.block, record };
            if prefer == Prefer::Any {
                return Some(hit);
            }
            let better = match (&best, prefer) {
                (None, _) => true,
                (Some(old), Prefer::Longest) => hit.key().len() > old.key().len(),
                (Some(old), Prefer::Narrowest) => narrowness(hit.key()) > narrowness(old.key()),
                (Some(old), _) => hit.id() < old.id(),
            };
            if better {
                best = Some(hit);
            }
        }
        best
    }
}

/// How many addresses a network leaves out; a longer mask is narrower, whatever the family.
fn narrowness(key: &[u8]) -> u32 {
    match std::str::from_utf8(key).ok().and_then(|t| parse::net(t).ok()) {
        Some(parse::Net::V4 { mask, .. }) => 96 + mask.leading_ones(),
        Some(parse::Net::V6 { bits, .. }) => u32::from(bits),
        None => 0,
    }
}

/// Which of several matches is wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Prefer {
    /// Whichever is found first: only whether there is one matters.
    Any,
    /// The first in the order of the patterns.
    First,
    /// The longest prefix.
    Longest,
    /// The narrowest network.
    Narrowest,
}

impl Index {
    /// The matching method.
    pub fn method(&self) -> Method {
        self.method
    }

    /// Finds `needle` and calls `with` on the match. `any` when only its existence matters.
    #[inline]
    pub fn find<R>(
        &self,
        cache: &mut SnapshotCache,
        needle: Needle,
        any: bool,
        with: impl FnOnce(Hit) -> R,
    ) -> Option<R> {
        let snapshot = self.take(cache);
        let prefer = match self.method {
            _ if any => Prefer::Any,
            Method::Beg => Prefer::Longest,
            Method::Ip => Prefer::Narrowest,
            _ => Prefer::First,
        };
        let result = snapshot.1.find(needle, prefer).map(with);
        cache.slots[self.slot] = Some(snapshot);
        result
    }

    /// This thread's snapshot, refreshed if the set has changed. Taken out of the cache, so that no count is touched.
    #[inline]
    fn take(&self, cache: &mut SnapshotCache) -> (u64, Arc<Snapshot>) {
        if cache.slots.len() <= self.slot {
            cache.slots.resize_with(self.slot + 1, || None);
        }
        let version = self.version.load(Ordering::Acquire);
        match cache.slots[self.slot].take() {
            Some(seen) if seen.0 == version => seen,
            _ => (version, lock(&self.current).clone()),
        }
    }

    /// Makes `segments` what readers see.
    fn publish(&self, segments: Vec<Arc<Segment>>) {
        *lock(&self.current) = Arc::new(Snapshot { segments });
        self.version.store(SNAPSHOTS.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Release);
    }

    fn segment(&self, block: &Arc<Block>) -> Result<Arc<Segment>, String> {
        // A block that an older snapshot already has keeps its structure.
        if let Some(known) = lock(&self.current).segments.iter().find(|s| Arc::ptr_eq(&s.block, block)) {
            return Ok(Arc::clone(known));
        }
        let structure = Structure::build(self.method, self.icase, block)?;
        Ok(Arc::new(Segment { block: Arc::clone(block), structure }))
    }
}

impl State {
    /// Rebuilds what readers see after `blocks` changed.
    fn publish(&self) -> Result<(), String> {
        for index in &self.indexes {
            let segments = self.blocks.iter().map(|block| index.segment(block)).collect::<Result<_, _>>()?;
            index.publish(segments);
        }
        Ok(())
    }

    fn validate(&self, key: &[u8]) -> Result<(), String> {
        self.indexes.iter().try_for_each(|index| parse::validate(index.method, index.icase, key))
    }

    /// Adds entries with their ranks as a block.
    fn append(&mut self, entries: &[(u64, &[u8], &[u8])]) {
        let mut builder = BlockBuilder::ranked();
        for (order, key, value) in entries {
            builder.push(key, value, *order);
        }
        self.blocks.push(Arc::new(builder.build()));
    }

    /// Merges the newest blocks while they are of similar size, and drops empty ones.
    fn merge(&mut self) {
        while let [.., older, newer] = &self.blocks[..] {
            if older.live() >= MERGE_RATIO * newer.live().max(1) {
                break;
            }
            let mut all: Vec<(u64, &Block, u32)> = Vec::with_capacity(older.live() + newer.live());
            for block in [older, newer] {
                all.extend(block.iter().map(|r| (block.order_at(r), &**block, r)));
            }
            all.sort_unstable_by_key(|(order, ..)| *order);
            let mut merged = BlockBuilder::ranked();
            for (order, block, r) in all {
                merged.push(block.key_at(r), block.value_at(r), order);
            }
            let merged = Arc::new(merged.build());
            let keep = self.blocks.len() - 2;
            self.blocks.truncate(keep);
            self.blocks.push(merged);
        }
        self.blocks.retain(|block| block.live() > 0);
    }

    fn each_live(&self, mut visit: impl FnMut(&Block, u32)) {
        for block in &self.blocks {
            for record in block.iter() {
                visit(block, record);
            }
        }
    }
}

/// Cuts one line of a pattern file: nothing for comments and blank lines.
fn cut_line(line: &[u8], is_map: bool) -> Option<(&[u8], &[u8])> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let blank = |b: &u8| matches!(b, b' ' | b'\t');
    let start = line.iter().position(|b| !blank(b))?;
    let line = &line[start..];
    if line[0] == b'#' {
        return None;
    }
    if !is_map {
        return Some((line, b""));
    }
    let end = line.iter().position(blank).unwrap_or(line.len());
    let (key, rest) = line.split_at(end);
    let value = &rest[rest.iter().position(|b| !blank(b)).unwrap_or(rest.len())..];
    // Blanks within a value are part of it, those around it are not.
    let end = value.iter().rposition(|b| !blank(b)).map_or(0, |last| last + 1);
    Some((key, &value[..end]))
}

impl PatternSet {
    /// The number that `#id` selects in the CLI.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The name, for sets that have one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// What `show acl` and `show map` say about where it is used.
    pub fn display(&self) -> String {
        lock(&self.display).clone()
    }

    /// Adds a use to [`PatternSet::display`].
    pub fn add_use(&self, text: &str) {
        let mut display = lock(&self.display);
        if !display.is_empty() {
            display.push_str(", by ");
        }
        display.push_str(text);
    }

    /// True when it holds values.
    pub fn is_map(&self) -> bool {
        lock(&self.state).is_map
    }

    /// True when an ACL uses it.
    pub fn is_acl(&self) -> bool {
        lock(&self.state).is_acl
    }

    /// Marks it as used by an ACL.
    pub fn mark_acl(&self) {
        lock(&self.state).is_acl = true;
    }

    /// The structure for one way of using the set, built on first demand.
    ///
    /// # Errors
    /// The text of the problem with the first pattern that `method` cannot read.
    pub fn index(&self, method: Method, icase: bool) -> Result<Arc<Index>, String> {
        let mut state = lock(&self.state);
        if let Some(index) = state.indexes.iter().find(|i| i.method == method && i.icase == icase) {
            return Ok(Arc::clone(index));
        }
        let mut problem = Ok(());
        if matches!(
            method,
            Method::Int | Method::Len | Method::Version | Method::Ip | Method::Bin | Method::Reg
        ) {
            state.each_live(|block, r| {
                if problem.is_ok() {
                    problem = parse::validate(method, icase, block.key_at(r));
                }
            });
        }
        problem?;
        let index = Arc::new(Index {
            method,
            icase,
            slot: take_slot(),
            version: AtomicU64::new(0),
            current: Mutex::default(),
        });
        let segments = state.blocks.iter().map(|block| index.segment(block)).collect::<Result<_, _>>()?;
        index.publish(segments);
        state.indexes.push(Arc::clone(&index));
        Ok(index)
    }

    /// Whether it was changed at run time.
    pub fn is_changed(&self) -> bool {
        self.changes.load(Ordering::Acquire) != 0
    }

    /// Loads the text of a file: the first content of the set.
    fn load(&self, text: &[u8]) -> Result<(), String> {
        let mut state = lock(&self.state);
        let is_map = state.is_map;
        let mut builder = BlockBuilder::sequential(state.next_order);
        let lines = memchr::memchr_iter(b'\n', text).count() + 1;
        builder.reserve(lines, text.len());
        for line in text.split(|b| *b == b'\n') {
            if let Some((key, value)) = cut_line(line, is_map)
                && !builder.push(key, value, 0)
            {
                return Err("the file is too large".into());
            }
        }
        if builder.len() == 0 {
            return Ok(());
        }
        state.next_order += builder.len() as u64;
        let block = Arc::new(builder.build());
        state.blocks.push(block);
        state.publish()
    }

    /// Adds an entry after the others.
    ///
    /// # Errors
    /// The text of the problem, when a use of the set cannot read the pattern.
    pub fn add(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
        self.add_all(&[(key, value)])
    }

    /// Adds entries in one go.
    ///
    /// # Errors
    /// The text of the problem of the first bad pattern; nothing is added then.
    pub fn add_all(&self, entries: &[(&[u8], &[u8])]) -> Result<(), String> {
        self.changes.fetch_add(1, Ordering::Release);
        let mut state = lock(&self.state);
        entries.iter().try_for_each(|(key, _)| state.validate(key))?;
        let first = state.next_order;
        state.next_order += entries.len() as u64;
        let ranked: Vec<_> =
            entries.iter().enumerate().map(|(i, (k, v))| (first + i as u64, *k, *v)).collect();
        state.append(&ranked);
        state.merge();
        state.publish()
    }

    /// Removes every entry whose pattern is exactly `key`; returns how many there were.
    pub fn delete(&self, key: &[u8]) -> usize {
        self.remove_where(|block, r| block.key_at(r) == key)
    }

    /// Removes the entry with identifier `id`; returns how many there were.
    pub fn delete_id(&self, id: u64) -> usize {
        self.remove_where(|block, r| block.order_at(r) == id)
    }

    fn remove_where(&self, which: impl Fn(&Block, u32) -> bool) -> usize {
        self.changes.fetch_add(1, Ordering::Release);
        let mut state = lock(&self.state);
        let mut removed = 0;
        state.each_live(|block, r| {
            if which(block, r) {
                block.remove_at(r);
                removed += 1;
            }
        });
        state.blocks.retain(|block| block.live() > 0);
        if removed > 0 {
            // Readers see the marks at once; structures are dropped with their last entry.
            let _ = state.publish();
        }
        removed
    }

    /// Changes the value of every entry whose pattern is exactly `key`; returns how many there were.
    pub fn set(&self, key: &[u8], value: &[u8]) -> usize {
        self.change_where(value, |block, r| block.key_at(r) == key)
    }

    /// Changes the value of the entry with identifier `id`.
    pub fn set_id(&self, id: u64, value: &[u8]) -> usize {
        self.change_where(value, |block, r| block.order_at(r) == id)
    }

    fn change_where(&self, value: &[u8], which: impl Fn(&Block, u32) -> bool) -> usize {
        self.changes.fetch_add(1, Ordering::Release);
        let mut state = lock(&self.state);
        let mut changed: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut old = Vec::new();
        for block in &state.blocks {
            for r in block.iter() {
                if which(block, r) && block.value_at(r) != value {
                    changed.push((block.order_at(r), block.key_at(r).to_vec()));
                    old.push((Arc::clone(block), r));
                }
            }
        }
        let mut found = changed.len();
        if found == 0 {
            state.each_live(|block, r| found += usize::from(which(block, r)));
            return found;
        }
        // The new entries are there before the old ones go, so that no reader misses both.
        let entries: Vec<_> = changed.iter().map(|(order, key)| (*order, &key[..], value)).collect();
        state.append(&entries);
        let _ = state.publish();
        for (block, r) in &old {
            block.remove_at(*r);
        }
        state.merge();
        let _ = state.publish();
        found
    }

    /// Sets the value of `key`, adding the entry when it is not there (`http-request set-map`).
    ///
    /// # Errors
    /// The text of the problem, when a use of the set cannot read the pattern.
    pub fn set_or_add(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
        if self.set(key, value) == 0 { self.add(key, value) } else { Ok(()) }
    }

    /// Removes everything, or what was prepared as version `generation`.
    pub fn clear(&self, generation: Option<u32>) {
        self.changes.fetch_add(1, Ordering::Release);
        let mut state = lock(&self.state);
        match generation {
            Some(generation) if generation != state.generation => {
                let given_up = state.pending.remove(&generation).map_or(0, |entries| entries.len());
                state.dropped += given_up as u64;
            }
            _ => {
                state.blocks.clear();
                let _ = state.publish();
            }
        }
    }

    /// Begins a new version and returns its number.
    pub fn prepare(&self) -> u32 {
        let mut state = lock(&self.state);
        state.next_generation = state.next_generation.wrapping_add(1);
        let generation = state.next_generation;
        state.pending.insert(generation, Vec::new());
        generation
    }

    /// Adds an entry to a version that was prepared.
    ///
    /// # Errors
    /// The text of the problem.
    pub fn add_prepared(&self, generation: u32, key: &[u8], value: &[u8]) -> Result<(), String> {
        let mut state = lock(&self.state);
        state.validate(key)?;
        match state.pending.get_mut(&generation) {
            Some(entries) => {
                entries.push((key.to_vec(), value.to_vec()));
                Ok(())
            }
            None => Err("Version number in the future.".into()),
        }
    }

    /// Replaces the content by a version that was prepared, and forgets older ones.
    ///
    /// # Errors
    /// The text of the problem, when there is no such version.
    pub fn commit(&self, generation: u32) -> Result<(), String> {
        self.changes.fetch_add(1, Ordering::Release);
        let mut state = lock(&self.state);
        if generation == state.generation {
            return Ok(());
        }
        let Some(entries) = state.pending.remove(&generation) else {
            return Err("Version number out of range.".into());
        };
        let newer = state.pending.split_off(&generation);
        let given_up: usize = std::mem::replace(&mut state.pending, newer).values().map(Vec::len).sum();
        state.dropped += given_up as u64;
        state.generation = generation;
        let mut builder = BlockBuilder::sequential(state.next_order);
        state.next_order += entries.len() as u64;
        for (key, value) in &entries {
            builder.push(key, value, 0);
        }
        state.blocks.clear();
        if builder.len() > 0 {
            state.blocks.push(Arc::new(builder.build()));
        }
        state.publish()
    }

    /// The version in use and the one that was prepared last.
    pub fn versions(&self) -> (u32, u32) {
        let state = lock(&self.state);
        (state.generation, state.next_generation)
    }

    /// True when `generation` is the version in use or one that is being prepared.
    pub fn has_version(&self, generation: u32) -> bool {
        let state = lock(&self.state);
        generation == state.generation || state.pending.contains_key(&generation)
    }

    /// Entries that were ever added, by the file or later, and those of them that are gone.
    pub fn added_and_freed(&self) -> (u64, u64) {
        let state = lock(&self.state);
        let prepared: usize = state.pending.values().map(Vec::len).sum();
        let live: usize = state.blocks.iter().map(|block| block.live()).sum();
        let added = state.next_order + prepared as u64 + state.dropped;
        (added, added - (live + prepared) as u64)
    }

    /// Number of entries in use.
    pub fn len(&self) -> usize {
        lock(&self.state).blocks.iter().map(|block| block.live()).sum()
    }

    /// True when there is no entry in use.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Entries from rank `from` on, at most `max` of them, in order: a page of a dump that holds no lock between pages.
    /// With a prepared version, all of it at once.
    pub fn entries(&self, generation: Option<u32>, from: u64, max: usize) -> Vec<EntryView> {
        let state = lock(&self.state);
        if let Some(entries) = generation.and_then(|g| state.pending.get(&g)) {
            return entries
                .iter()
                .enumerate()
                .skip(from as usize)
                .take(max)
                .map(|(i, (k, v))| EntryView { id: i as u64, key: k.clone(), value: v.clone() })
                .collect();
        }
        let mut all: Vec<(u64, &Block, u32)> = Vec::new();
        for block in &state.blocks {
            // Records are in rank order inside a block, so the first `max` past `from` are enough.
            let page =
                block.iter().map(|r| (block.order_at(r), &**block, r)).filter(|(order, ..)| *order >= from);
            all.extend(page.take(max));
        }
        all.sort_unstable_by_key(|(order, ..)| *order);
        all.truncate(max);
        all.into_iter()
            .map(|(id, b, r)| EntryView { id, key: b.key_at(r).to_vec(), value: b.value_at(r).to_vec() })
            .collect()
    }

    /// The first entry whose pattern is exactly `key`.
    pub fn entry(&self, key: &[u8]) -> Option<EntryView> {
        let state = lock(&self.state);
        let mut best: Option<EntryView> = None;
        state.each_live(|b, r| {
            let id = b.order_at(r);
            if b.key_at(r) == key && best.as_ref().is_none_or(|e| e.id > id) {
                best = Some(EntryView { id, key: key.to_vec(), value: b.value_at(r).to_vec() });
            }
        });
        best
    }

    /// The ways the set is used, for `get map` and `get acl`.
    pub fn indexes(&self) -> Vec<(Arc<Index>, Method, bool)> {
        lock(&self.state).indexes.iter().map(|i| (Arc::clone(i), i.method, i.icase)).collect()
    }

    /// The patterns in use, in order.
    pub(crate) fn keys(&self) -> Vec<Vec<u8>> {
        self.entries(None, 0, usize::MAX).into_iter().map(|e| e.key).collect()
    }

    /// Bytes of memory of the entries.
    pub fn memory(&self) -> usize {
        lock(&self.state).blocks.iter().map(|b| b.memory()).sum()
    }
}

/// All sets of patterns of the process.
#[derive(Debug, Default)]
pub struct Registry {
    sets: Mutex<Vec<Arc<PatternSet>>>,
    inline_changes: Arc<AtomicU64>,
    /// Sets of the configuration before that were changed at run time: they are taken over, not read.
    changed: Vec<Arc<PatternSet>>,
}

impl Registry {
    /// The sets of a configuration that follows another one. Sets of `before` that have a name and were changed at run time are
    /// taken over as they are; all others are read.
    pub fn following(before: Option<&Registry>) -> Registry {
        Registry { changed: before.map_or_else(Vec::new, Registry::changed), ..Registry::default() }
    }

    /// The sets with a name that were changed at run time.
    pub fn changed(&self) -> Vec<Arc<PatternSet>> {
        let is_changed = |set: &&Arc<PatternSet>| set.name.is_some() && set.is_changed();
        lock(&self.sets).iter().filter(is_changed).cloned().collect()
    }

    /// Counts the changes at run time of the sets without a name, all together.
    pub fn inline_changes(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.inline_changes)
    }

    fn create(
        &self,
        sets: &mut Vec<Arc<PatternSet>>,
        name: Option<&str>,
        display: &str,
        is_map: bool,
    ) -> Arc<PatternSet> {
        let set = Arc::new(PatternSet {
            id: self.free_id(sets),
            name: name.map(str::to_string),
            display: Mutex::new(display.to_string()),
            state: Mutex::new(State { is_map, is_acl: !is_map, ..State::default() }),
            changes: if name.is_none() { Arc::clone(&self.inline_changes) } else { Arc::default() },
        });
        sets.push(Arc::clone(&set));
        set
    }

    /// A number that no set has, neither of those that there are nor of those that may be taken over.
    fn free_id(&self, sets: &[Arc<PatternSet>]) -> u32 {
        let first = sets.len() as u32;
        if self.changed.is_empty() {
            return first;
        }
        let is_free = |id: &u32| sets.iter().chain(&self.changed).all(|set| set.id != *id);
        (0..).find(is_free).unwrap_or(first)
    }

    /// A set without a name: the patterns written on one line. `display` tells `show acl` where.
    ///
    /// # Errors
    /// Never for now; kept for the bounds of a set.
    pub fn inline(&self, patterns: &[&[u8]], display: &str) -> Result<Arc<PatternSet>, String> {
        let set = self.create(&mut lock(&self.sets), None, display, false);
        let before = self.inline_changes.load(Ordering::Acquire);
        if !patterns.is_empty() {
            let entries: Vec<_> = patterns.iter().map(|p| (*p, &b""[..])).collect();
            set.add_all(&entries)?;
        }
        // Its first content is no change.
        self.inline_changes.store(before, Ordering::Release);
        Ok(set)
    }

    /// The set named `text` (with an optional `file@`, `opt@` or `virt@`), read through `read` the first time.
    ///
    /// # Errors
    /// The text of the problem, worded as in the reference.
    pub fn open(
        &self,
        text: &str,
        is_map: bool,
        display: &str,
        read: impl FnOnce(&str) -> std::io::Result<Vec<u8>>,
    ) -> Result<Arc<PatternSet>, String> {
        let spec = SetName::parse(text);
        let mut sets = lock(&self.sets);
        if let Some(set) = sets.iter().find(|set| set.name.as_deref() == Some(spec.name)) {
            let set = Arc::clone(set);
            drop(sets);
            if is_map && !set.is_map() {
                return Err(format!(
                    "The file \"{}\" is already used as pattern file, and it does not contain values",
                    spec.name
                ));
            }
            if !is_map {
                set.mark_acl();
            }
            set.add_use(display);
            return Ok(set);
        }
        let kept = self.changed.iter().find(|set| set.name.as_deref() == Some(spec.name));
        if let Some(set) = kept.filter(|set| set.is_map() || !is_map) {
            *lock(&set.display) = display.to_string();
            sets.push(Arc::clone(set));
            return Ok(Arc::clone(set));
        }
        let content = match spec.is_virtual {
            true => Vec::new(),
            false => match read(spec.name) {
                Ok(content) => content,
                Err(e) if spec.optional && e.kind() == std::io::ErrorKind::NotFound => Vec::new(),
                Err(_) => return Err(format!("failed to open pattern file <{}>", spec.name)),
            },
        };
        let set = self.create(&mut sets, Some(spec.name), display, is_map);
        drop(sets);
        set.load(&content)?;
        Ok(set)
    }

    /// Every set, by number.
    pub fn sets(&self) -> Vec<Arc<PatternSet>> {
        let mut sets = lock(&self.sets).clone();
        sets.sort_by_key(|set| set.id);
        sets
    }

    /// The set that `#id` or a name selects.
    pub fn find(&self, text: &str) -> Option<Arc<PatternSet>> {
        let sets = lock(&self.sets);
        match text.strip_prefix('#') {
            Some(id) => {
                let id = id.parse::<u32>().ok()?;
                sets.iter().find(|set| set.id == id).cloned()
            }
            None => {
                let name = SetName::parse(text).name;
                sets.iter().find(|set| set.name.as_deref() == Some(name)).cloned()
            }
        }
    }
}

#[cfg(test)]
mod tests;
