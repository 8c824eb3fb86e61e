//! What readers have of a set: search structures that are replaced and never changed, and the snapshots of them that threads keep.

use super::block::Block;
use super::index::{Needle, Structure};
use super::set::lock;
use super::{Method, parse};
use std::fmt;
use std::sync::Arc;

use thalweg_shared::{AtomicU64, Mutex, Ordering};

/// One block and its search structure.
pub(super) struct Segment {
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
    /// One without any patterns yet.
    pub(super) fn new(method: Method, icase: bool) -> Index {
        Index { method, icase, slot: take_slot(), version: AtomicU64::new(0), current: Mutex::default() }
    }

    pub(super) fn is_for(&self, method: Method, icase: bool) -> bool {
        self.method == method && self.icase == icase
    }

    /// Whether it can read a pattern; the text of the problem otherwise.
    pub(super) fn validate(&self, key: &[u8]) -> Result<(), String> {
        parse::validate(self.method, self.icase, key)
    }

    /// The matching method.
    pub fn method(&self) -> Method {
        self.method
    }

    /// Whether letters match those of the other case.
    pub(super) fn ignores_case(&self) -> bool {
        self.icase
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
    pub(super) fn publish(&self, segments: Vec<Arc<Segment>>) {
        *lock(&self.current) = Arc::new(Snapshot { segments });
        self.version.store(SNAPSHOTS.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Release);
    }

    pub(super) fn segment(&self, block: &Arc<Block>) -> Result<Arc<Segment>, String> {
        // A block that an older snapshot already has keeps its structure.
        if let Some(known) = lock(&self.current).segments.iter().find(|s| Arc::ptr_eq(&s.block, block)) {
            return Ok(Arc::clone(known));
        }
        let structure = Structure::build(self.method, self.icase, block)?;
        Ok(Arc::new(Segment { block: Arc::clone(block), structure }))
    }
}
