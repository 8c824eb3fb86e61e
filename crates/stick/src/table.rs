//! The table that threads share.

mod room;
mod time;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, PoisonError};

use thalweg_shared::RwLock;

use crossbeam_utils::CachePadded;

use crate::arena::Arena;
use crate::changed::Changed;
use crate::data::{DataType, Shape, Stored};
use crate::entry::{Entry, GONE, LOOKER, Values};
use crate::key::{Key, KeyType};
use crate::layout::{Layout, header};
use crate::queue::{LIFETIME, Queue, SLOTS};
use crate::shares::Shares;
use crate::sliding::Sliding;
use crate::sync::{AtomicU32, Mutex, MutexGuard, Ordering};

pub(crate) use room::LOOKS_MAX;

/// How stickiness names a server (`srvkey`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerKey {
    /// By its name.
    #[default]
    Name,
    /// By its address and port.
    Address,
}

/// What a table is (manual section 11.1).
#[derive(Clone, Debug)]
pub struct Spec {
    /// Its name: that of its proxy, or `section/table` in a `peers` section.
    pub name: Arc<str>,
    /// Its keys.
    pub key: KeyType,
    /// The most entries; at least 1.
    pub size: u32,
    /// How long an entry that nobody uses is kept, in milliseconds, below 2^31; 0: until there is no room.
    pub expire_ms: u32,
    /// Takes the oldest entry away to make room (without `nopurge`).
    pub purge: bool,
    /// How servers are named.
    pub server_key: ServerKey,
    /// Bytes that one event of a byte rate stands for (`brates-factor`), 1 to 1024.
    pub byte_rate_factor: u32,
    /// The `peers` section that it is shared with.
    pub peers: Option<Arc<str>>,
    /// Peers may set what is otherwise this process's own, the number of connections (`recv-only`).
    pub recv_only: bool,
    /// The table that gets what peers say of servers and tags, too (`write-to`): its number.
    pub write_to: Option<u32>,
    /// Each peer counts for itself, and what others count is kept apart (`fleet`): see [`Table::sum`].
    pub fleet: bool,
    /// Its entries have a token bucket each: see [`crate::Values::take`].
    pub bucket: bool,
    /// What its entries hold, each kind once.
    pub data: Vec<Stored>,
}

impl Spec {
    /// A table whose line says no more than this: entries hold nothing and go when there is no room.
    pub fn new(name: impl Into<Arc<str>>, key: KeyType, size: u32) -> Spec {
        Spec {
            name: name.into(),
            key,
            size,
            expire_ms: 0,
            purge: true,
            server_key: ServerKey::Name,
            byte_rate_factor: 1,
            peers: None,
            recv_only: false,
            write_to: None,
            fleet: false,
            bucket: false,
            data: Vec::new(),
        }
    }
}

/// Why there is no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The table is full, and no entry may or can be taken away.
    Full,
}

/// Buckets that are made together.
const TOGETHER: usize = if cfg!(loom) { 16 } else { 4096 };
/// The hash that an entry remembers says which bucket it is in: it has so many bits.
const BUCKETS_MAX: usize = 1 << 26;
/// Entries per shard from which on there is a second one: below that, the oldest entry is known exactly.
const SHARD_ENTRIES: usize = if cfg!(loom) { 1 << 30 } else { 1024 };
const SHARDS_MAX: usize = 64;
/// Entries of a chain that are looked at without its lock: more means that the chain changes meanwhile.
const CHAIN_MAX: usize = 64;
/// The most names in a dictionary: those of servers.
const NAMES_MAX: usize = 65_536;

/// Its entries' share below one lock.
struct Shard {
    /// Counts the entries that were taken away: who read the chains meanwhile may have lost the way.
    version: AtomicU32,
    queue: Mutex<Queue>,
}

/// See the module and the crate.
pub struct Table {
    spec: Spec,
    pub(crate) layout: Layout,
    seed: u64,
    arena: Arena,
    bucket_mask: usize,
    /// The first entry of each bucket: its number plus one.
    buckets: Box<[OnceLock<Box<[AtomicU32]>>]>,
    shards: Box<[CachePadded<Shard>]>,
    used: CachePadded<AtomicU32>,
    /// Milliseconds per slot of the queues.
    slot_ms: u64,
    names: RwLock<Names>,
    shares: Shares,
    pub(crate) changed: Changed,
}

/// The dictionary: names by number, from 1, and back.
#[derive(Default)]
struct Names {
    by_number: Vec<Arc<str>>,
    by_name: HashMap<Arc<str>, u32>,
}

enum Probe {
    Found {
        at: u32,
        version: u32,
    },
    Absent,
    /// The chain changed on the way.
    Unsure,
}

impl Table {
    /// An empty table. `seed` is random: it keeps clients from choosing keys that share a bucket.
    pub fn new(mut spec: Spec, seed: u64) -> Table {
        spec.size = spec.size.max(1);
        spec.byte_rate_factor = spec.byte_rate_factor.max(1);
        let size = spec.size as usize;
        let buckets = size.next_power_of_two().clamp(16, BUCKETS_MAX);
        let shards = (size / SHARD_ENTRIES).next_power_of_two().clamp(1, SHARDS_MAX);
        let layout = Layout::new(&spec);
        let table = Table {
            arena: Arena::new(&layout, spec.size),
            layout,
            seed,
            bucket_mask: buckets - 1,
            buckets: (0..buckets.div_ceil(TOGETHER)).map(|_| OnceLock::new()).collect(),
            shards: (0..shards)
                .map(|_| {
                    let queue = Mutex::new(Queue::new());
                    CachePadded::new(Shard { version: AtomicU32::new(0), queue })
                })
                .collect(),
            used: CachePadded::new(AtomicU32::new(0)),
            slot_ms: u64::from(spec.expire_ms) / LIFETIME + 1,
            names: RwLock::default(),
            shares: Shares::new(spec.fleet),
            changed: Changed::default(),
            spec,
        };
        if cfg!(loom) {
            // Loom does not know the locks below which pieces are made later.
            (0..table.spec.size).for_each(|at| _ = table.arena.entry(at));
            (0..buckets).for_each(|number| _ = table.bucket((number as u32) << SLOTS.trailing_zeros()));
        }
        table
    }

    /// What it is.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// What it stores of a kind, under its own name.
    pub fn stored(&self, kind: DataType) -> Option<Stored> {
        self.layout.stored(kind)
    }

    /// True when it has values of a kind, be it as the first element of an array.
    pub fn has(&self, kind: DataType) -> bool {
        self.layout.find(kind, 0).is_some()
    }

    /// Entries it has now, those that are due among them.
    pub fn used(&self) -> u32 {
        self.used.load(Ordering::Relaxed)
    }

    /// Numbers that entries can have are below this.
    pub fn numbers(&self) -> u32 {
        self.arena.fresh()
    }

    /// The memory of an entry in bytes, its bucket included.
    pub fn entry_bytes(&self) -> usize {
        4 * (self.layout.narrow + 1) + 8 * self.layout.wide
    }

    // ---- reading --------------------------------------------------------------------------------

    /// What `look` reads from the entry of this key. Writes nothing; `look` may be called twice, and only what it says
    /// last counts.
    pub fn read<R>(&self, key: Key, now_ms: u64, look: impl Fn(Values) -> R) -> Option<R> {
        let hash = key.hash(self.seed);
        match self.probe(key, hash) {
            Probe::Absent => None,
            Probe::Found { at, version } => {
                let values = self.values_at(at);
                let (result, over) = (look(values), self.is_over(values, now_ms));
                if self.shard(hash).version.load(Ordering::Acquire) == version {
                    return (!over).then_some(result);
                }
                self.find(key, now_ms).map(|entry| look(entry.values()))
            }
            Probe::Unsure => self.find(key, now_ms).map(|entry| look(entry.values())),
        }
    }

    /// The entry of this key.
    pub fn find(&self, key: Key, now_ms: u64) -> Option<Entry<'_>> {
        self.find_hashed(key, key.hash(self.seed), now_ms)
    }

    fn find_hashed(&self, key: Key, hash: u64, now_ms: u64) -> Option<Entry<'_>> {
        let entry = match self.probe(key, hash) {
            Probe::Absent => return None,
            // As long as nothing was taken away, it is still the entry that was found.
            Probe::Found { at, version } => self.hold(at).filter(|entry| {
                self.shard(hash).version.load(Ordering::Acquire) == version
                    || self.is_key(entry.number(), key)
            }),
            Probe::Unsure => None,
        };
        let entry = entry.or_else(|| {
            let _queue = self.lock(hash);
            self.search(key, hash).and_then(|at| self.hold(at))
        })?;
        (!self.is_over(entry.values(), now_ms)).then_some(entry)
    }

    /// The entry with this number, if there is one.
    pub fn entry_at(&self, number: u32) -> Option<Entry<'_>> {
        if number < self.arena.fresh() { self.hold(number) } else { None }
    }

    /// The entry of this key, made if there is none.
    ///
    /// # Errors
    /// When there is no room.
    pub fn find_or_insert(&self, key: Key, now_ms: u64) -> Result<Entry<'_>, Refused> {
        let hash = key.hash(self.seed);
        match self.find_hashed(key, hash, now_ms) {
            Some(entry) => Ok(entry),
            None => self.insert(key, hash, now_ms),
        }
    }

    /// The entry of this key, which was not found.
    fn insert(&self, key: Key, hash: u64, now_ms: u64) -> Result<Entry<'_>, Refused> {
        let mut queue = self.lock(hash);
        if let Some(at) = self.search(key, hash) {
            // Somebody else made it, or it is over.
            if !self.is_over(self.values_at(at), now_ms) || !self.take_away(&mut queue, at, 0) {
                return self.hold(at).ok_or(Refused::Full);
            }
        }
        let at = self.room(&mut queue, hash, now_ms)?;
        self.fill(at, key, now_ms);
        let words = self.arena.entry(at).narrow;
        let tag = hash as u32 & !(SLOTS as u32 - 1);
        words[header::TAG].store(tag, Ordering::Release);
        words[header::STAMP].store(self.stamp(now_ms), Ordering::Release);
        queue.push(&self.arena, at, self.slot_of(self.stamp(now_ms), now_ms));
        // Who remembers the number of what was here before may be counting itself in just now, to find out: see `local`.
        words[header::HOLDERS].fetch_add(LOOKER.wrapping_sub(GONE), Ordering::AcqRel);
        let bucket = self.bucket(tag);
        words[header::NEXT].store(bucket.load(Ordering::Relaxed), Ordering::Release);
        bucket.store(at + 1, Ordering::Release);
        Ok(Entry::held(self.values_at(at)))
    }

    /// Takes an entry away. False, and nothing done, when somebody else holds it.
    pub fn remove(&self, entry: Entry) -> bool {
        let tag = entry.values().words.narrow[header::TAG].load(Ordering::Acquire);
        let mut queue = self.lock(u64::from(tag));
        let done = self.take_away(&mut queue, entry.number(), LOOKER);
        if done {
            // It is no entry any more: nothing is held.
            std::mem::forget(entry);
        }
        done
    }

    // ---- chains ---------------------------------------------------------------------------------

    fn shard_number(&self, hash: u64) -> usize {
        (hash as u32 >> SLOTS.trailing_zeros()) as usize & self.bucket_mask & (self.shards.len() - 1)
    }

    fn shard(&self, hash: u64) -> &Shard {
        &self.shards[self.shard_number(hash)]
    }

    fn lock(&self, hash: u64) -> MutexGuard<'_, Queue> {
        self.shard(hash).queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The head of the chain that an entry with this tag is in.
    fn bucket(&self, tag: u32) -> &AtomicU32 {
        let number = (tag >> SLOTS.trailing_zeros()) as usize & self.bucket_mask;
        let piece = self.buckets[number / TOGETHER]
            .get_or_init(|| (0..TOGETHER.min(self.bucket_mask + 1)).map(|_| AtomicU32::new(0)).collect());
        &piece[number % TOGETHER]
    }

    /// Looks for a key without a lock.
    #[inline]
    fn probe(&self, key: Key, hash: u64) -> Probe {
        let shard = self.shard(hash);
        let version = shard.version.load(Ordering::Acquire);
        let mut next = self.bucket(hash as u32).load(Ordering::Acquire);
        for _ in 0..CHAIN_MAX {
            let Some(at) = next.checked_sub(1) else {
                let same = shard.version.load(Ordering::Acquire) == version;
                return if same { Probe::Absent } else { Probe::Unsure };
            };
            if self.is_key(at, key) {
                return Probe::Found { at, version };
            }
            next = self.arena.entry(at).narrow[header::NEXT].load(Ordering::Acquire);
        }
        Probe::Unsure
    }

    /// Looks for a key below the lock of its shard.
    fn search(&self, key: Key, hash: u64) -> Option<u32> {
        let mut next = self.bucket(hash as u32).load(Ordering::Acquire);
        while let Some(at) = next.checked_sub(1) {
            if self.is_key(at, key) {
                return Some(at);
            }
            next = self.arena.entry(at).narrow[header::NEXT].load(Ordering::Acquire);
        }
        None
    }

    /// Whether an entry has, or had when it was one, this key.
    #[inline]
    pub(crate) fn is_key(&self, at: u32, key: Key) -> bool {
        self.has_key(self.arena.entry(at).narrow, key)
    }

    /// Whether an entry of these words is that of a key.
    #[inline]
    pub(crate) fn has_key(&self, words: &[AtomicU32], key: Key) -> bool {
        let words = &words[header::LEN..self.layout.values];
        // Most keys are one word.
        if let ([word], Ok(four)) = (words, <[u8; 4]>::try_from(key.bytes())) {
            return word.load(Ordering::Acquire) == u32::from_ne_bytes(four);
        }
        let content = self.spec.key.content_words();
        if let Some(len) = words.get(content)
            && len.load(Ordering::Acquire) as usize != key.bytes().len()
        {
            return false;
        }
        key.is_in(&words[..content])
    }

    /// Holds an entry that was found, if it still is one.
    #[inline]
    pub(crate) fn hold(&self, at: u32) -> Option<Entry<'_>> {
        let values = self.values_at(at);
        let holders = &values.words.narrow[header::HOLDERS];
        let mut seen = holders.load(Ordering::Acquire);
        while seen & GONE == 0 {
            match holders.compare_exchange_weak(seen, seen + LOOKER, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(Entry::held(values)),
                Err(now) => seen = now,
            }
        }
        None
    }

    /// Writes the key and empty values of an entry that nobody can find yet.
    fn fill(&self, at: u32, key: Key, now_ms: u64) {
        let words = self.arena.entry(at);
        let (header, values) = words.narrow[..self.layout.narrow].split_at(self.layout.values);
        let key_words = &header[header::LEN..];
        let content = self.spec.key.content_words();
        let mut given = key.words();
        for word in &key_words[..content] {
            word.store(given.next().unwrap_or(0), Ordering::Release);
        }
        if let Some(len) = key_words.get(content) {
            len.store(key.bytes().len() as u32, Ordering::Release);
        }
        // Not the link: the entry that was here before may still be among those that changed.
        let values = &values[..self.layout.link.unwrap_or(self.layout.narrow) - self.layout.values];
        values.iter().for_each(|word| word.store(0, Ordering::Release));
        words.wide[..self.layout.wide].iter().for_each(|word| word.store(0, Ordering::Release));
        let values = self.values_at(at);
        for stored in self.spec.data.iter().filter(|stored| stored.kind.shape() == Shape::Rate) {
            for i in 0..stored.count {
                values.set_sliding(stored.kind, i, Sliding::idle(now_ms as u32, stored.period_ms));
            }
        }
    }

    /// Takes an entry out of its chain and its slot if only `holders` hold it. Below the lock of its shard.
    fn take_away(&self, queue: &mut Queue, at: u32, holders: u32) -> bool {
        let words = self.arena.entry(at).narrow;
        if words[header::HOLDERS]
            .compare_exchange(holders, GONE, Ordering::AcqRel, Ordering::Acquire)
            .is_err()
        {
            return false;
        }
        let tag = words[header::TAG].load(Ordering::Acquire);
        let mut link = self.bucket(tag);
        loop {
            let next = link.load(Ordering::Acquire);
            if next == at + 1 {
                link.store(words[header::NEXT].load(Ordering::Acquire), Ordering::Release);
                break;
            }
            debug_assert_ne!(next, 0, "an entry is in the chain of its bucket");
            let Some(other) = next.checked_sub(1) else { break };
            link = &self.arena.entry(other).narrow[header::NEXT];
        }
        queue.remove(&self.arena, at);
        // From here on no reader comes by; those who are there must learn of it before the memory is used again.
        if cfg!(not(planted)) {
            self.shard(u64::from(tag)).version.fetch_add(1, Ordering::AcqRel);
        }
        self.arena.give(at);
        self.used.fetch_sub(1, Ordering::AcqRel);
        true
    }

    #[inline(always)]
    pub(crate) fn values_at(&self, at: u32) -> Values<'_> {
        Values { table: self, at, words: self.arena.entry(at) }
    }

    /// The same of any number: `None` when no entry ever had it.
    #[inline(always)]
    pub(crate) fn known_at(&self, at: u32) -> Option<Values<'_>> {
        Some(Values { table: self, at, words: self.arena.known(at)? })
    }

    // ---- shares of peers --------------------------------------------------------------------------

    /// Where what a peer counted is kept, apart from what this process counts. `None` in a table that has no shares, and when there
    /// are too many peers.
    pub fn share_of(&self, peer: &str) -> Option<&Table> {
        let spec = || Spec {
            name: Arc::from(format!("{}@{peer}", self.spec.name)),
            peers: None,
            write_to: None,
            fleet: false,
            // How many are connected to a peer is nothing that this process knows itself.
            recv_only: true,
            ..self.spec.clone()
        };
        self.shares.of(peer, || Table::new(spec(), self.seed))
    }

    /// What each peer that was heard of counted: its keys may be others than those of this process.
    pub fn shares(&self) -> impl Iterator<Item = &Table> {
        self.shares.iter()
    }

    /// A value summed over this process and all peers that were heard of. `None` when the table does not store it.
    pub fn sum(&self, key: Key, kind: DataType, index: u16, now_ms: u64) -> Option<u64> {
        self.layout.find(kind, index)?;
        let of =
            |table: &Table| table.read(key, now_ms, |values| values.get_at(kind, index, now_ms)).flatten();
        Some(self.shares.iter().chain([self]).filter_map(of).fold(0, u64::saturating_add))
    }

    // ---- names ----------------------------------------------------------------------------------

    /// The number of a name in the dictionary, from 1. `None` when the dictionary is full.
    pub fn name_number(&self, name: &str) -> Option<u32> {
        if let Some(known) = self.names.read().unwrap_or_else(PoisonError::into_inner).by_name.get(name) {
            return Some(*known);
        }
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        let Names { by_number, by_name } = &mut *names;
        if let Some(known) = by_name.get(name) {
            return Some(*known);
        }
        if by_number.len() >= NAMES_MAX {
            return None;
        }
        let name: Arc<str> = Arc::from(name);
        by_number.push(Arc::clone(&name));
        let number = u32::try_from(by_number.len()).ok()?;
        by_name.insert(name, number);
        Some(number)
    }

    /// The name with this number.
    pub fn name(&self, number: u64) -> Option<Arc<str>> {
        let at = usize::try_from(number).ok()?.checked_sub(1)?;
        self.names.read().unwrap_or_else(PoisonError::into_inner).by_number.get(at).cloned()
    }

    /// Every invariant that can be checked while no other thread is at work. For tests.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        let mut live = 0;
        for at in 0..self.numbers() {
            let words = self.arena.entry(at).narrow;
            if words[header::HOLDERS].load(Ordering::Acquire) & GONE != 0 {
                continue;
            }
            live += 1;
            let tag = words[header::TAG].load(Ordering::Acquire);
            let mut next = self.bucket(tag).load(Ordering::Acquire);
            while next != at + 1 {
                assert_ne!(next, 0, "entry {at} is in its chain");
                next = self.arena.entry(next - 1).narrow[header::NEXT].load(Ordering::Acquire);
            }
        }
        assert_eq!(live, self.used());
        let mut queued = 0;
        for shard in &self.shards {
            let queue = shard.queue.lock().unwrap_or_else(PoisonError::into_inner);
            for slot in 0..SLOTS {
                let mut next = queue.first(slot);
                while let Some(at) = next {
                    queued += 1;
                    next = queue.after(&self.arena, at);
                    assert!(next.is_some() || queue.last(slot) == Some(at));
                }
            }
            assert_eq!(queue.is_empty(), queue.occupied(0, SLOTS).is_none());
        }
        assert_eq!(queued, live);
    }
}
