//! A table as one thread refers to it, and the entries that the thread tracked last.

use std::cell::Cell;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use crate::data::Event;
use crate::entry::{Entry, GONE, LOOKER, TRACKER, Tracked, Values, trackers};
use crate::key::{Key, KeyType};
use crate::layout::header;
use crate::sync::{AtomicU32, Ordering};
use crate::table::{Refused, Table};

/// Entries that a thread remembers, 8 bytes each.
const REMEMBERED: usize = 256;

/// A table as one thread refers to it: the count of references is the thread's own, so that tracking an entry does not
/// write a word that all threads share.
#[derive(Clone)]
pub struct Local(Rc<Own>);

struct Own {
    table: Arc<Table>,
    /// Where entries of short keys were found the last time, by [`Key::mark`]. Any of them may be gone, or another one's.
    recent: Box<[Cell<Recent>; REMEMBERED]>,
}

/// A key's mark, and the number of its entry.
#[derive(Clone, Copy)]
struct Recent {
    mark: u32,
    at: u32,
}

impl Recent {
    /// No table has an entry of this number.
    const NONE: Recent = Recent { mark: 0, at: u32::MAX };
}

impl Local {
    /// A thread's own reference.
    pub fn new(table: Arc<Table>) -> Local {
        let recent = Box::new([const { Cell::new(Recent::NONE) }; REMEMBERED]);
        Local(Rc::new(Own { table, recent }))
    }

    /// Tracks the entry of a key, which is made if there is none: it stays until the result is dropped, and one connection
    /// is counted for as long. `event` is [`Event::Tracked`] or [`Event::TrackedByRequest`].
    ///
    /// # Errors
    /// When there is no room.
    pub fn track(&self, key: Key, event: Event, now_ms: u64) -> Result<Tracked, Refused> {
        let values = match self.recall_key(key, TRACKER, now_ms) {
            Some(values) => values,
            None => self.find_and_remember(key, now_ms)?.begin_tracking(),
        };
        Ok(self.begin(values, event, now_ms))
    }

    /// Tracks the entry of an IPv4 address in a table of these, if this thread found it last: the short way of [`Local::track`].
    #[inline(always)]
    pub fn track_again(&self, ip: [u8; 4], event: Event, now_ms: u64) -> Option<Tracked> {
        debug_assert_eq!(self.spec().key, KeyType::Ip4);
        let word = u32::from_ne_bytes(ip);
        let is_key = |words: &[AtomicU32]| words[header::LEN].load(Ordering::Acquire) == word;
        let values = self.recall(word, is_key, TRACKER, now_ms)?;
        Some(self.begin(values, event, now_ms))
    }

    /// As [`Table::find_or_insert`]. An entry that this thread found last is found again without a search.
    ///
    /// # Errors
    /// When there is no room.
    pub fn entry(&self, key: Key, now_ms: u64) -> Result<Entry<'_>, Refused> {
        match self.recall_key(key, LOOKER, now_ms) {
            Some(values) => Ok(Entry::held(values)),
            None => self.find_and_remember(key, now_ms),
        }
    }

    /// Where the entry of a key with this mark is remembered.
    #[inline]
    fn recent(&self, mark: u32) -> &Cell<Recent> {
        // The upper bits of a product depend on all bits of the mark.
        let slot = mark.wrapping_mul(0x9e37_79b1) >> (u32::BITS - REMEMBERED.ilog2());
        &self.0.recent[slot as usize]
    }

    /// The entry of a key if it is the one that is remembered, held from now on by one of `holder`.
    fn recall_key(&self, key: Key, holder: u32, now_ms: u64) -> Option<Values<'_>> {
        self.recall(key.mark()?, |words| self.has_key(words, key), holder, now_ms)
    }

    /// The entry of the key with this mark, as [`Local::recall_key`]. `is_key` says whether words are those of its entry.
    #[inline(always)]
    fn recall(
        &self,
        mark: u32,
        is_key: impl Fn(&[AtomicU32]) -> bool,
        holder: u32,
        now_ms: u64,
    ) -> Option<Values<'_>> {
        let Recent { mark: known, at } = self.recent(mark).get();
        if known != mark {
            return None;
        }
        // What the header has is found without further looks at how many words there are.
        let values = self.known_at(at).filter(|values| values.words.narrow.len() > header::LEN)?;
        self.hold_again(values, is_key, holder, now_ms).then_some(values)
    }

    fn find_and_remember(&self, key: Key, now_ms: u64) -> Result<Entry<'_>, Refused> {
        let entry = self.find_or_insert(key, now_ms)?;
        if let Some(mark) = key.mark() {
            self.recent(mark).set(Recent { mark, at: entry.number() });
        }
        Ok(entry)
    }

    /// An entry that is held from now on.
    #[inline(always)]
    fn begin(&self, values: Values, event: Event, now_ms: u64) -> Tracked {
        values.count(event, 1, now_ms);
        values.touch(now_ms);
        Tracked::new(self.clone(), values.at)
    }

    /// Holds an entry as one of `holder`, if it is that of a key and not over. No word of the table is needed to know: a
    /// key has one entry, and as long as an entry is held its key stays.
    #[inline(always)]
    fn hold_again(
        &self,
        values: Values,
        is_key: impl Fn(&[AtomicU32]) -> bool,
        holder: u32,
        now_ms: u64,
    ) -> bool {
        let holders = &values.words.narrow[header::HOLDERS];
        let seen = holders.load(Ordering::Acquire);
        if seen & GONE != 0 || trackers(seen) == 0 && self.is_due(values.words.narrow, now_ms) {
            return false;
        }
        // No comparison with what was seen: threads that track one entry must not get into each other's way.
        let seen = holders.fetch_add(holder, Ordering::AcqRel);
        if seen & GONE == 0 && is_key(values.words.narrow) {
            return true;
        }
        holders.fetch_sub(holder, Ordering::AcqRel);
        false
    }
}

impl Deref for Local {
    type Target = Table;

    fn deref(&self) -> &Table {
        &self.0.table
    }
}
