//! Sets of patterns: shared by name, changed at run time without stopping readers.
//!
//! A set is a list of blocks. A change adds a small block or marks entries as removed; small blocks are merged as they
//! accumulate, so that a change costs the logarithm of the size and a lookup visits few blocks. Readers hold a snapshot per thread and
//! notice a change by one relaxed load of a number that rarely moves.

use super::block::{Block, BlockBuilder};
use super::lookup::Index;
use super::{Method, parse};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError};

use thalweg_shared::{AtomicU64, Mutex, MutexGuard, Ordering};

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Merge two neighbouring blocks when the older one is less than this many times the newer one.
const MERGE_RATIO: usize = 8;

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
        self.indexes.iter().try_for_each(|index| index.validate(key))
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
    /// An empty one. `changes` counts what changes at run time.
    pub(super) fn new(
        id: u32,
        name: Option<&str>,
        display: &str,
        is_map: bool,
        changes: Arc<AtomicU64>,
    ) -> PatternSet {
        PatternSet {
            id,
            name: name.map(str::to_string),
            display: Mutex::new(display.to_string()),
            state: Mutex::new(State { is_map, is_acl: !is_map, ..State::default() }),
            changes,
        }
    }

    /// The first use in a configuration that took it over from the one before.
    pub(super) fn use_first(&self, text: &str) {
        *lock(&self.display) = text.to_string();
    }

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
        if let Some(index) = state.indexes.iter().find(|i| i.is_for(method, icase)) {
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
        let index = Arc::new(Index::new(method, icase));
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
    pub(super) fn load(&self, text: &[u8]) -> Result<(), String> {
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

    /// Whether a key can be added.
    ///
    /// # Errors
    /// The text of the problem, when a use of the set cannot read the pattern.
    pub fn check(&self, key: &[u8]) -> Result<(), String> {
        lock(&self.state).validate(key)
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
        lock(&self.state).indexes.iter().map(|i| (Arc::clone(i), i.method(), i.ignores_case())).collect()
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

#[cfg(test)]
mod tests;
