//! A table as one thread refers to it, and the entries that the thread tracked last.

use std::cell::Cell;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use crate::data::Event;
use crate::entry::{GONE, TRACKER, Tracked, Values, trackers};
use crate::key::Key;
use crate::layout::header;
use crate::sync::Ordering;
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

/// A key's mark, and the number of its entry plus one; 0: none.
#[derive(Clone, Copy, Default)]
struct Recent {
    mark: u32,
    at: u32,
}

impl Local {
    /// A thread's own reference.
    pub fn new(table: Arc<Table>) -> Local {
        let recent = Box::new(std::array::from_fn(|_| Cell::default()));
        Local(Rc::new(Own { table, recent }))
    }

    /// Tracks the entry of a key, which is made if there is none: it stays until the result is dropped, and one connection
    /// is counted for as long. `event` is [`Event::Tracked`] or [`Event::TrackedByRequest`].
    ///
    /// # Errors
    /// When there is no room.
    pub fn track(&self, key: Key, event: Event, now_ms: u64) -> Result<Tracked, Refused> {
        let Some(mark) = key.mark() else {
            let values = self.find_or_insert(key, now_ms)?.begin_tracking();
            return Ok(self.begin(values, event, now_ms));
        };
        // The upper bits of a product depend on all bits of the mark.
        let slot = mark.wrapping_mul(0x9e37_79b1) >> (u32::BITS - REMEMBERED.ilog2());
        let recent = &self.0.recent[slot as usize];
        let Recent { mark: known, at } = recent.get();
        if known == mark
            && let Some(at) = at.checked_sub(1)
        {
            let values = self.values_at(at);
            if self.hold_again(values, key, now_ms) {
                return Ok(self.begin(values, event, now_ms));
            }
        }
        let values = self.find_or_insert(key, now_ms)?.begin_tracking();
        recent.set(Recent { mark, at: values.at + 1 });
        Ok(self.begin(values, event, now_ms))
    }

    /// An entry that is held from now on.
    #[inline]
    fn begin(&self, values: Values, event: Event, now_ms: u64) -> Tracked {
        values.count(event, [1, 0], now_ms);
        values.touch(now_ms);
        Tracked::new(self.clone(), values.at)
    }

    /// Holds an entry as one who tracks it, if it is that of a key and not over. No word of the table is needed to know: a
    /// key has one entry, and as long as an entry is held its key stays.
    #[inline]
    fn hold_again(&self, values: Values, key: Key, now_ms: u64) -> bool {
        let holders = &values.words.narrow[header::HOLDERS];
        let seen = holders.load(Ordering::Acquire);
        if seen & GONE != 0 || trackers(seen) == 0 && self.is_over(values, now_ms) {
            return false;
        }
        // No comparison with what was seen: threads that track one entry must not get into each other's way.
        let seen = holders.fetch_add(TRACKER, Ordering::AcqRel);
        if seen & GONE == 0 && self.has_key(values.words.narrow, key) {
            return true;
        }
        holders.fetch_sub(TRACKER, Ordering::AcqRel);
        false
    }
}

impl Deref for Local {
    type Target = Table;

    fn deref(&self) -> &Table {
        &self.0.table
    }
}
