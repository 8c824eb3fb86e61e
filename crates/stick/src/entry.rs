//! Entries that are held, and their values.
//!
//! # Who holds an entry
//!
//! One word says so: the lower 22 bits count those who track it (`use` of `show table`), the next 9 those who look at it
//! for a moment, and the highest bit says that it is no entry at all. An entry is taken away by a step from "nobody" to
//! "no entry", so that who holds it keeps it, and who comes too late finds that out.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::arena::Words;
use crate::bucket::{Bucket, Taken};
use crate::data::{DataType, Event, Shape};
use crate::key::KeyType;
use crate::layout::{NONE, Place, Rate, header};
use crate::local::Local;
use crate::sliding::{Shared, Sliding, add_to_period};
use crate::sync::Ordering;
use crate::table::Table;

/// One who tracks.
pub(crate) const TRACKER: u32 = 1;
/// One who looks.
pub(crate) const LOOKER: u32 = 1 << 22;
/// No entry.
pub(crate) const GONE: u32 = 1 << 31;

/// Those who track an entry, of the word that counts its holders.
#[inline]
pub(crate) const fn trackers(holders: u32) -> u32 {
    holders & (LOOKER - 1)
}

/// An entry that is looked at: it stays an entry until this is dropped.
pub struct Entry<'t> {
    values: Values<'t>,
}

impl<'t> Entry<'t> {
    /// One that is held by one who looks.
    #[inline]
    pub(crate) fn held(values: Values<'t>) -> Entry<'t> {
        Entry { values }
    }

    /// Its values.
    #[inline]
    pub fn values(&self) -> Values<'t> {
        self.values
    }

    /// Its number, which it keeps as long as it is in the table. What `ptr` of the CLI is made of.
    pub fn number(&self) -> u32 {
        self.values.at
    }

    /// Puts its deadline off: it was used.
    pub fn touch(&self, now_ms: u64) {
        self.values.touch(now_ms);
    }

    /// Makes who looks one who tracks, in one step: the entry is held throughout.
    pub(crate) fn begin_tracking(self) -> Values<'t> {
        let values = self.values();
        let holders = &values.words.narrow[header::HOLDERS];
        holders.fetch_add(TRACKER.wrapping_sub(LOOKER), Ordering::AcqRel);
        std::mem::forget(self);
        values
    }

    /// Keeps it, without a connection being counted.
    pub fn keep(self, local: &Local) -> Held {
        debug_assert!(std::ptr::eq::<Table>(self.values.table, &**local));
        Held { table: local.clone(), at: self.begin_tracking().at }
    }
}

/// An entry that is kept: one more of those who use it (`use` of `show table`).
pub struct Held {
    table: Local,
    at: u32,
}

impl Held {
    /// Its values.
    pub fn values(&self) -> Values<'_> {
        self.table.values_at(self.at)
    }
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Held({})", self.at)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.values().words.narrow[header::HOLDERS].fetch_sub(TRACKER, Ordering::AcqRel);
    }
}

impl Drop for Entry<'_> {
    #[inline]
    fn drop(&mut self) {
        self.values().words.narrow[header::HOLDERS].fetch_sub(LOOKER, Ordering::AcqRel);
    }
}

/// The number of an entry that is tracked no more: no table has one with it.
const LET_GO: u32 = u32::MAX;

/// An entry that a session or a stream tracks.
pub struct Tracked {
    table: Local,
    at: u32,
}

impl Tracked {
    /// An entry that is held by one who tracks it.
    pub(crate) fn new(table: Local, at: u32) -> Tracked {
        Tracked { table, at }
    }

    /// Its table.
    pub fn table(&self) -> &Local {
        &self.table
    }

    /// Its values.
    #[inline]
    pub fn values(&self) -> Values<'_> {
        self.table.values_at(self.at)
    }

    /// Puts its deadline off: it was used.
    #[inline]
    pub fn touch(&self, now_ms: u64) {
        self.table.touch(self.at, now_ms);
    }

    /// Counts events and their amounts: see [`Values::count`]. Nothing is told of amounts that are zero.
    #[inline]
    pub fn count<const N: usize>(&self, events: [(Event, u64); N], now_ms: u64) {
        let values = self.values();
        if values.count_each(events, now_ms) {
            values.touch(now_ms);
        }
    }

    /// Counts the last events, and lets the entry go.
    #[inline(always)]
    pub fn end<const N: usize>(mut self, events: [(Event, u64); N], now_ms: u64) {
        let values = self.values();
        if values.count_each(events, now_ms) {
            values.put_off(now_ms);
        }
        self.let_go(values);
        self.at = LET_GO;
    }

    /// One connection less. Peers are told.
    #[inline(always)]
    fn let_go(&self, values: Values<'_>) {
        if let Some(connections) = self.table.layout.connections {
            let word = &values.words.narrow[usize::from(connections)];
            // It may have been set to zero meanwhile (`set table`).
            let _ = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1));
        }
        self.table.note_change(self.at, values.words.narrow);
        values.words.narrow[header::HOLDERS].fetch_sub(TRACKER, Ordering::AcqRel);
    }

    /// The entry of the same key in another table whose keys are the same.
    pub fn elsewhere<'t>(&self, other: &'t Table, now_ms: u64) -> Option<Entry<'t>> {
        if std::ptr::eq(other, &*self.table) {
            return other.hold(self.at);
        }
        let (mut buf, mut long) = ([0; 64], Vec::new());
        let key = other.spec().key.key(self.values().key_bytes(&mut buf, &mut long))?;
        other.find(key, now_ms)
    }

    #[inline(never)]
    fn let_go_at_last(&self) {
        self.let_go(self.values());
    }
}

impl Drop for Tracked {
    // Whoever counted the last events knows that there is nothing to do.
    #[inline(always)]
    fn drop(&mut self) {
        if self.at != LET_GO {
            self.let_go_at_last();
        }
    }
}

/// The values of an entry. They change under whoever looks at them; each is read and written as a whole.
#[derive(Clone, Copy)]
pub struct Values<'t> {
    pub(crate) table: &'t Table,
    pub(crate) at: u32,
    pub(crate) words: Words<'t>,
}

impl<'t> Values<'t> {
    /// How many track the entry (`use` of `show table`).
    pub fn trackers(&self) -> u32 {
        trackers(self.words.narrow[header::HOLDERS].load(Ordering::Acquire))
    }

    /// Puts the entry's deadline off: it was used.
    #[inline]
    pub fn touch(&self, now_ms: u64) {
        self.put_off(now_ms);
        self.table.note_change(self.at, self.words.narrow);
    }

    /// Puts the entry's deadline off, and tells no peers.
    #[inline]
    fn put_off(&self, now_ms: u64) {
        let (stamp, now) = (&self.words.narrow[header::STAMP], self.table.stamp(now_ms));
        // A word that other threads read stays in their caches when it stays the same.
        if stamp.load(Ordering::Relaxed) != now {
            stamp.store(now, Ordering::Release);
        }
    }

    /// A peer used the entry: its deadline is `expires_in_ms` away, at most as far as the table has it; `None`: as if it
    /// had been used here. Peers are not told.
    pub fn learnt(&self, expires_in_ms: Option<u32>, now_ms: u64) {
        let full = self.table.stamp(now_ms);
        let stamp = match (self.table.spec().expire_ms, expires_in_ms) {
            (1.., Some(left)) => full.wrapping_sub(self.table.spec().expire_ms.saturating_sub(left)),
            _ => full,
        };
        self.words.narrow[header::STAMP].store(stamp, Ordering::Release);
    }

    /// Milliseconds until the entry expires; 0 when that is due, or when entries of the table do not expire.
    #[inline]
    pub fn expires_in(&self, now_ms: u64) -> u32 {
        self.table.left(self.words.narrow[header::STAMP].load(Ordering::Acquire), now_ms)
    }

    fn long<'w>(words: &'w Words<'t>, place: Place) -> &'w crate::sync::AtomicU64 {
        &words.wide[usize::from(place.at)]
    }

    fn rate(&self, place: Place, index: u16) -> Shared<'_> {
        let at = usize::from(place.at) + 2 * usize::from(index);
        Shared { now: &self.words.wide[at], before: &self.words.wide[at + 1] }
    }

    /// A value as it is now: a counter, a tag, bytes, events per period; the name's number in the dictionary. `None` when the
    /// table does not store it.
    #[inline]
    pub fn get(&self, kind: DataType, now_ms: u64) -> Option<u64> {
        self.get_at(kind, 0, now_ms)
    }

    /// Element `index` of an array.
    pub fn get_at(&self, kind: DataType, index: u16, now_ms: u64) -> Option<u64> {
        let (place, index) = self.table.layout.find(kind, index)?;
        Some(match place.shape {
            Shape::Counter | Shape::Name => {
                let word = &self.words.narrow[usize::from(place.at + index)];
                u64::from(word.load(Ordering::Acquire))
            }
            Shape::Long => Self::long(&self.words, place).load(Ordering::Acquire),
            Shape::Rate => {
                let value = self.rate(place, index).load().value(now_ms as u32, place.stored.period_ms);
                u64::from(value) * u64::from(self.factor(kind))
            }
        })
    }

    /// A rate with its period's start and counts, for the peers protocol.
    pub fn sliding(&self, kind: DataType, index: u16) -> Option<Sliding> {
        let (place, index) = self.table.layout.find(kind, index)?;
        (place.shape == Shape::Rate).then(|| self.rate(place, index).load())
    }

    /// The table that the entry is in.
    pub fn table(&self) -> &'t Table {
        self.table
    }

    /// The same as [`Values::get_at`], summed over this process and all peers that were heard of: see [`Table::sum`].
    pub fn sum_at(&self, kind: DataType, index: u16, now_ms: u64) -> Option<u64> {
        self.sum_at_of(self.table, kind, index, now_ms)
    }

    /// The same of the entry's key in a table that may be another one: that whose share it is in.
    pub fn sum_at_of(&self, table: &Table, kind: DataType, index: u16, now_ms: u64) -> Option<u64> {
        let (mut buf, mut long) = ([0; 64], Vec::new());
        let key = self.table.spec().key.key(self.key_bytes(&mut buf, &mut long))?;
        table.sum(key, kind, index, now_ms)
    }

    /// Replaces a rate.
    pub fn set_sliding(&self, kind: DataType, index: u16, value: Sliding) -> bool {
        let Some((place, index)) = self.table.layout.find(kind, index) else { return false };
        let is_rate = place.shape == Shape::Rate;
        if is_rate {
            self.rate(place, index).store(value);
        }
        is_rate
    }

    /// Replaces a value; what does not fit is cut to its lower bits. A rate begins a period now with so many events.
    pub fn set_at(&self, kind: DataType, index: u16, value: u64, now_ms: u64) -> bool {
        let Some((place, index)) = self.table.layout.find(kind, index) else { return false };
        match place.shape {
            Shape::Counter | Shape::Name => {
                self.words.narrow[usize::from(place.at + index)].store(value as u32, Ordering::Release);
            }
            Shape::Long => Self::long(&self.words, place).store(value, Ordering::Release),
            Shape::Rate => self.rate(place, index).store(Sliding {
                began_ms: now_ms as u32,
                current: value as u32,
                previous: 0,
            }),
        }
        true
    }

    /// The same for what is no array.
    pub fn set(&self, kind: DataType, value: u64, now_ms: u64) -> bool {
        self.set_at(kind, 0, value, now_ms)
    }

    /// Adds to a value, or events to a rate. False when the table does not store it.
    #[inline]
    pub fn add(&self, kind: DataType, n: u64, now_ms: u64) -> bool {
        self.add_at(kind, 0, n, now_ms).is_some()
    }

    /// Adds to element `index` of an array, and returns what a counter is then; 0 for rates.
    #[inline]
    pub fn add_at(&self, kind: DataType, index: u16, n: u64, now_ms: u64) -> Option<u64> {
        let (place, index) = self.table.layout.find(kind, index)?;
        Some(match place.shape {
            Shape::Counter | Shape::Name => {
                let word = &self.words.narrow[usize::from(place.at + index)];
                u64::from(word.fetch_add(n as u32, Ordering::AcqRel).wrapping_add(n as u32))
            }
            Shape::Long => Self::long(&self.words, place).fetch_add(n, Ordering::AcqRel).wrapping_add(n),
            Shape::Rate => {
                // Divisions are for the few that are asked for.
                let factor = self.factor(kind);
                let n = if factor == 1 { n } else { n.div_ceil(u64::from(factor)) };
                self.rate(place, index).add(n, now_ms as u32, place.stored.period_ms);
                0
            }
        })
    }

    /// Takes a token of the entry's bucket. `None` when the table has none.
    pub fn take(&self, bucket: Bucket, now_us: u64) -> Option<Taken> {
        Some(bucket.take_shared(&self.words.wide[self.table.layout.bucket?], now_us))
    }

    /// When the entry's bucket is full again, in nanoseconds of the monotonic clock. `None` when the table has none.
    pub(crate) fn bucket_full_ns(&self) -> Option<u64> {
        Some(self.words.wide[self.table.layout.bucket?].load(Ordering::Acquire))
    }

    /// Replaces that, where there is one.
    pub(crate) fn set_bucket_full_ns(&self, full_ns: u64) {
        if let Some(at) = self.table.layout.bucket {
            self.words.wide[at].store(full_ns, Ordering::Release);
        }
    }

    /// Sets a counter and returns what it was.
    pub fn swap_at(&self, kind: DataType, index: u16, value: u32) -> Option<u32> {
        let (place, index) = self.table.layout.find(kind, index)?;
        (place.shape == Shape::Counter)
            .then(|| self.words.narrow[usize::from(place.at + index)].swap(value, Ordering::AcqRel))
    }

    /// Counts an event: its amount, which is not zero, is added to what the table stores of it. True when there is something to
    /// be told: the table stores some of it.
    #[inline(always)]
    pub fn count(&self, event: Event, n: u64, now_ms: u64) -> bool {
        let counts = self.table.layout.counts(event);
        if !counts.are_stored {
            return false;
        }
        // Only bytes are counted in 64 bits, and they are counted nowhere else. Who calls this mostly says at once which event it is.
        if matches!(event, Event::BytesIn | Event::BytesOut) {
            if counts.wide != NONE {
                self.words.wide[usize::from(counts.wide)].fetch_add(n, Ordering::AcqRel);
            }
        } else {
            for at in counts.narrow.iter().take_while(|at| **at != NONE) {
                self.words.narrow[usize::from(*at)].fetch_add(n as u32, Ordering::AcqRel);
            }
        }
        for rate in counts.rates.iter().take_while(|rate| rate.at != NONE) {
            self.add_events(rate, n, now_ms);
        }
        true
    }

    /// Counts events and their amounts, of which some may be zero. True when there is something to be told.
    #[inline(always)]
    fn count_each<const N: usize>(&self, events: [(Event, u64); N], now_ms: u64) -> bool {
        let mut is_told = false;
        for (event, n) in events {
            is_told |= n > 0 && self.count(event, n, now_ms);
        }
        is_told
    }

    #[inline(always)]
    fn add_events(&self, rate: &Rate, n: u64, now_ms: u64) {
        // Divisions are for the few that are asked for.
        let n = if rate.factor == 1 || n == 1 { n } else { n.div_ceil(u64::from(rate.factor)) };
        let now = &self.words.wide[usize::from(rate.at)];
        if !add_to_period(now, n, now_ms as u32, rate.period_ms) {
            self.begin_period(rate, n, now_ms);
        }
    }

    #[cold]
    #[inline(never)]
    fn begin_period(&self, rate: &Rate, n: u64, now_ms: u64) {
        if let [now, before, ..] = &self.words.wide[usize::from(rate.at)..] {
            Shared { now, before }.add(n, now_ms as u32, rate.period_ms);
        }
    }

    /// What one event of a rate stands for.
    #[inline]
    fn factor(&self, kind: DataType) -> u32 {
        if kind.is_byte_rate() { self.table.spec().byte_rate_factor } else { 1 }
    }

    /// The bytes of the key: in `buf` when they fit, in `long` otherwise. Those of a binary key have its full length.
    pub fn key_bytes<'b>(&self, buf: &'b mut [u8; 64], long: &'b mut Vec<u8>) -> &'b [u8] {
        let kind = self.table.spec().key;
        let words = &self.words.narrow[header::LEN..];
        let len = match kind {
            KeyType::String(max) => {
                (words[kind.content_words()].load(Ordering::Acquire) as usize).min(usize::from(max))
            }
            _ => kind.len_max(),
        };
        let out: &mut [u8] = if len <= buf.len() {
            &mut buf[..len]
        } else {
            long.clear();
            long.resize(len, 0);
            long
        };
        for (chunk, word) in out.chunks_mut(4).zip(words) {
            chunk.copy_from_slice(&word.load(Ordering::Acquire).to_ne_bytes()[..chunk.len()]);
        }
        out
    }

    /// The key of a table of addresses or numbers, as a number.
    pub fn key_value(&self) -> KeyValue {
        let (mut buf, mut long) = ([0; 64], Vec::new());
        let bytes = self.key_bytes(&mut buf, &mut long);
        match self.table.spec().key {
            KeyType::Ip4 => {
                bytes.try_into().map_or(KeyValue::Bytes, |b: [u8; 4]| KeyValue::Ip4(Ipv4Addr::from(b)))
            }
            KeyType::Ip6 => {
                bytes.try_into().map_or(KeyValue::Bytes, |b: [u8; 16]| KeyValue::Ip6(Ipv6Addr::from(b)))
            }
            KeyType::Integer => {
                bytes.try_into().map_or(KeyValue::Bytes, |b| KeyValue::Integer(u32::from_be_bytes(b)))
            }
            KeyType::String(_) | KeyType::Binary(_) => KeyValue::Bytes,
        }
    }
}

/// A key as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyValue {
    /// Of a table of IPv4 addresses.
    Ip4(Ipv4Addr),
    /// Of a table of IPv6 addresses.
    Ip6(Ipv6Addr),
    /// Of a table of numbers.
    Integer(u32),
    /// Anything else: see [`Values::key_bytes`].
    Bytes,
}
