//! When the entries of a shard are due.
//!
//! A wheel of slots. An entry is put into the slot of its deadline; touching it writes a later deadline and leaves it where
//! it is. When its slot is due, it goes to the slot of its deadline, or away: each entry is looked at about once per
//! lifetime, whatever happened to it. Tables without `expire` use one slot as a list in order of insertion.

use crate::arena::Arena;
use crate::layout::header;
use crate::sync::Ordering::Relaxed;
use crate::table::LOOKS_MAX;

/// Slots of the wheel.
pub(crate) const SLOTS: u64 = 64;

/// Slots that a lifetime covers. The rest is what the work may lag behind before a deadline falls into a slot that is
/// still due for the turn before.
pub(crate) const LIFETIME: u64 = SLOTS / 2;

/// The entries of one shard, below its lock.
pub(crate) struct Queue {
    /// First and last of each slot: their numbers plus one, 0 in an empty one.
    ends: [(u32, u32); SLOTS as usize],
    /// A bit for each slot that has entries.
    occupied: u64,
    /// Slots before this one were dealt with. Counts on, without the wheel's end.
    pub due: u64,
    /// How old entries are that make room for others, about: see [`Table`](crate::table::Table).
    pub age: Option<i64>,
    /// Entries that may be looked at for the next one to go.
    pub looks: u32,
}

impl Queue {
    pub const fn new() -> Queue {
        Queue { ends: [(0, 0); SLOTS as usize], occupied: 0, due: 0, age: None, looks: LOOKS_MAX }
    }

    pub fn is_empty(&self) -> bool {
        self.occupied == 0
    }

    /// The first entry of a slot.
    pub fn first(&self, slot: u64) -> Option<u32> {
        self.ends[(slot % SLOTS) as usize].0.checked_sub(1)
    }

    /// The last entry of a slot.
    pub fn last(&self, slot: u64) -> Option<u32> {
        self.ends[(slot % SLOTS) as usize].1.checked_sub(1)
    }

    /// The entry after another one in its slot.
    pub fn after(&self, arena: &Arena, at: u32) -> Option<u32> {
        arena.entry(at).narrow[header::AFTER].load(Relaxed).checked_sub(1)
    }

    /// The next slot that has entries, from `slot` on and before `end`.
    pub fn occupied(&self, slot: u64, end: u64) -> Option<u64> {
        let turned = self.occupied.rotate_right((slot % SLOTS) as u32);
        let found = slot + u64::from(turned.trailing_zeros());
        (turned != 0 && found < end).then_some(found)
    }

    /// Adds an entry at the end of a slot.
    pub fn push(&mut self, arena: &Arena, at: u32, slot: u64) {
        let slot = slot % SLOTS;
        let words = arena.entry(at).narrow;
        let tag = &words[header::TAG];
        tag.store(tag.load(Relaxed) & !(SLOTS as u32 - 1) | slot as u32, Relaxed);
        let (first, last) = &mut self.ends[slot as usize];
        words[header::AFTER].store(0, Relaxed);
        words[header::BEFORE].store(*last, Relaxed);
        match last.checked_sub(1) {
            Some(before) => arena.entry(before).narrow[header::AFTER].store(at + 1, Relaxed),
            None => *first = at + 1,
        }
        *last = at + 1;
        self.occupied |= 1 << slot;
    }

    /// Takes an entry out of its slot.
    pub fn remove(&mut self, arena: &Arena, at: u32) {
        let words = arena.entry(at).narrow;
        let slot = (words[header::TAG].load(Relaxed) % SLOTS as u32) as usize;
        let (after, before) = (words[header::AFTER].load(Relaxed), words[header::BEFORE].load(Relaxed));
        match after.checked_sub(1) {
            Some(after) => arena.entry(after).narrow[header::BEFORE].store(before, Relaxed),
            None => self.ends[slot].1 = before,
        }
        match before.checked_sub(1) {
            Some(before) => arena.entry(before).narrow[header::AFTER].store(after, Relaxed),
            None => self.ends[slot].0 = after,
        }
        if self.ends[slot].0 == 0 {
            self.occupied &= !(1 << slot);
        }
    }
}
