//! Deadlines of entries, and the changes that peers are told.

use std::sync::PoisonError;

use super::Table;
use crate::entry::Values;
use crate::layout::header;
use crate::queue::{LIFETIME, Queue, SLOTS};
use crate::sync::{AtomicU32, Ordering};

impl Table {
    /// Takes away entries that are due, a slot's width late at most, and looks at no more than about `most` of this table and of
    /// each peer's share. True when there may be more.
    pub fn expire(&self, now_ms: u64, most: usize) -> bool {
        let mut more = self.expire_own(now_ms, most);
        for share in self.shares.iter() {
            more |= share.expire(now_ms, most);
        }
        more
    }

    fn expire_own(&self, now_ms: u64, most: usize) -> bool {
        let mut left = most;
        if self.spec.expire_ms == 0 {
            return false;
        }
        self.shards.iter().any(|shard| {
            let mut queue = shard.queue.lock().unwrap_or_else(PoisonError::into_inner);
            self.expire_shard(&mut queue, now_ms, &mut left);
            left == 0
        })
    }

    /// Shares of the entries that are below a lock each: see [`Table::expire_exactly`].
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Takes away the entries of a shard that are due in the slot that is not over, which [`Table::expire`] leaves. Looks at all of that
    /// slot, and returns how many these were: for whoever is about to look at all entries anyway.
    pub fn expire_exactly(&self, shard: usize, now_ms: u64) -> u32 {
        if self.spec.expire_ms == 0 {
            return 0;
        }
        let mut queue = self.shards[shard].queue.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = queue.first(now_ms / self.slot_ms);
        let mut looked = 0;
        while let Some(at) = next {
            looked += 1;
            next = queue.after(&self.arena, at);
            if self.is_over(self.values_at(at), now_ms) {
                self.take_away(&mut queue, at, 0);
            }
        }
        looked
    }

    pub(super) fn expire_shard(&self, queue: &mut Queue, now_ms: u64, left: &mut usize) {
        let end = now_ms / self.slot_ms;
        // After a long sleep every slot is due once.
        queue.due = queue.due.max(end.saturating_sub(SLOTS));
        while let Some(slot) = queue.occupied(queue.due, end) {
            queue.due = slot;
            // What moves to the end of the slot while it is emptied was not due. That happens when the work is far behind; then
            // the slot is done as a whole, or it would never be.
            let last = queue.last(slot);
            let behind = end - slot >= SLOTS - LIFETIME - 1;
            while let Some(at) = queue.first(slot) {
                if *left == 0 && !behind {
                    return;
                }
                *left = left.saturating_sub(1);
                self.settle(queue, at, now_ms);
                if Some(at) == last {
                    break;
                }
            }
            queue.due = slot + 1;
        }
        queue.due = queue.due.max(end);
    }

    /// An entry whose slot is due goes away, or to the slot of its deadline.
    fn settle(&self, queue: &mut Queue, at: u32, now_ms: u64) -> bool {
        if self.is_over(self.values_at(at), now_ms) && self.take_away(queue, at, 0) {
            return true;
        }
        let stamp = self.values_at(at).words.narrow[header::STAMP].load(Ordering::Acquire);
        queue.remove(&self.arena, at);
        let slot = match self.left(stamp, now_ms) {
            // Who holds it past its deadline keeps it; it is over as soon as it is let go.
            0 => now_ms / self.slot_ms + 1,
            _ => self.slot_of(stamp, now_ms),
        };
        queue.push(&self.arena, at, slot);
        false
    }

    /// What the stamp of an entry that is used now is: its deadline, or the time in units of 64 ms where there are
    /// no deadlines.
    #[inline]
    pub(crate) fn stamp(&self, now_ms: u64) -> u32 {
        match self.spec.expire_ms {
            0 => (now_ms >> 6) as u32,
            expire_ms => (now_ms as u32).wrapping_add(expire_ms),
        }
    }

    /// Milliseconds to the deadline.
    #[inline]
    pub(crate) fn left(&self, stamp: u32, now_ms: u64) -> u32 {
        if self.spec.expire_ms == 0 {
            return 0;
        }
        (stamp.wrapping_sub(now_ms as u32) as i32).max(0) as u32
    }

    /// True when it is past its deadline and nobody tracks it.
    #[inline]
    pub(crate) fn is_over(&self, values: Values, now_ms: u64) -> bool {
        self.is_due(values.words.narrow, now_ms) && values.trackers() == 0
    }

    /// True when the entry of these words is past its deadline.
    #[inline]
    pub(crate) fn is_due(&self, words: &[AtomicU32], now_ms: u64) -> bool {
        self.spec.expire_ms != 0 && self.left(words[header::STAMP].load(Ordering::Acquire), now_ms) == 0
    }

    /// The slot of a stamp, counted from the beginning of time. Without deadlines there is one.
    pub(super) fn slot_of(&self, stamp: u32, now_ms: u64) -> u64 {
        match self.spec.expire_ms {
            0 => 0,
            _ => (now_ms + u64::from(self.left(stamp, now_ms))) / self.slot_ms,
        }
    }

    /// How long ago a stamp was written, for comparisons only: in milliseconds, or in units of 64 ms where there are no deadlines.
    pub(super) fn age(&self, stamp: u32, now_ms: u64) -> i64 {
        match self.spec.expire_ms {
            0 => i64::from(self.stamp(now_ms).wrapping_sub(stamp)),
            expire_ms => i64::from(expire_ms) - i64::from(stamp.wrapping_sub(now_ms as u32) as i32),
        }
    }

    /// Whether an entry of this stamp was last used more than so many milliseconds ago.
    pub(crate) fn is_idle_for(&self, stamp: u32, ms: u32, now_ms: u64) -> bool {
        match self.spec.expire_ms {
            0 => self.age(stamp, now_ms) > i64::from(ms >> 6),
            expire_ms => u64::from(self.left(stamp, now_ms)) + u64::from(ms) < u64::from(expire_ms),
        }
    }

    #[inline]
    pub(crate) fn touch(&self, at: u32, now_ms: u64) {
        let words = self.arena.entry(at).narrow;
        words[header::STAMP].store(self.stamp(now_ms), Ordering::Release);
        self.note_change(at, words);
    }

    /// An entry is to be sent to the peers, if there are any.
    #[inline]
    pub(crate) fn note_change(&self, at: u32, words: &[AtomicU32]) {
        if let Some(link) = self.layout.link {
            self.changed.push(&words[link], at);
        }
    }

    /// Calls `note` once when an entry changes and none had since the last [`Table::take_changed`]: for who sends them to
    /// the peers. It may be called by any thread, and has to be quick. The first one stays.
    pub fn on_change(&self, note: impl Fn() + Send + Sync + 'static) {
        self.changed.on_change(Box::new(note));
    }

    /// Gives the numbers of the entries that were used since the last call, each once, and forgets them. Some may be no
    /// entries any more, or others than they were.
    pub fn take_changed(&self, mut each: impl FnMut(u32)) {
        let Some(link) = self.layout.link else { return };
        self.changed.take(|at| &self.arena.entry(at).narrow[link], &mut each);
    }
}
