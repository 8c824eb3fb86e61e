//! Room for new entries: what is due or oldest goes.

use super::{Refused, Table};
use crate::layout::header;
use crate::queue::{Queue, SLOTS};
use crate::sync::Ordering;

/// Tables of up to so many entries give up exactly the oldest one.
const EXACT_MAX: u32 = 32;
/// Entries of a table without `purge` that are looked at for one that is due.
const OVER_LOOKS: usize = 32;
/// Entries that may be looked at for an old one, in the long run.
const LOOKS: u32 = 16;
/// The most at once, when few were needed before: those that are used again and again may lie in a row.
pub(crate) const LOOKS_MAX: u32 = 1024;
/// What lacks less than this part of the age of those that went before is as old.
const AS_OLD: i64 = 8;
/// The age that is kept is in parts of this size, and goes one of so many parts of the way to each that is found.
const FINE: i64 = 64;
/// Slots that are searched for an entry that may go.
const EVICT_SLOTS: u64 = 8;
/// Entries that are expired by whoever needs room.
const EXPIRE_SOME: usize = 64;

impl Table {
    /// The number of an entry to be filled.
    pub(super) fn room(&self, queue: &mut Queue, hash: u64, now_ms: u64) -> Result<u32, Refused> {
        let mut tries = 0;
        loop {
            let size = self.spec.size;
            let reserved = self
                .used
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, |used| (used < size).then_some(used + 1));
            if reserved.is_ok() {
                break;
            }
            tries += 1;
            if tries > 4 || !self.make_room(queue, hash, now_ms) {
                return Err(Refused::Full);
            }
        }
        // Another thread may be about to give the number of an entry back that it no longer counts.
        for _ in 0..1000 {
            if let Some(at) = self.arena.take() {
                return Ok(at);
            }
            std::hint::spin_loop();
        }
        self.used.fetch_sub(1, Ordering::AcqRel);
        Err(Refused::Full)
    }

    /// Takes entries away that are due, or the oldest one. The locks of other shards are tried only: two threads may be
    /// doing this at once.
    fn make_room(&self, queue: &mut Queue, hash: u64, now_ms: u64) -> bool {
        if self.make_room_in(queue, now_ms) {
            return true;
        }
        let own = self.shard_number(hash);
        (1..self.shards.len()).any(|i| {
            let shard = &self.shards[(own + i) % self.shards.len()];
            shard.queue.try_lock().is_ok_and(|mut queue| self.make_room_in(&mut queue, now_ms))
        })
    }

    fn make_room_in(&self, queue: &mut Queue, now_ms: u64) -> bool {
        let before = self.used();
        if self.spec.expire_ms != 0 {
            self.expire_shard(queue, now_ms, &mut { EXPIRE_SOME });
        }
        self.used() < before
            || self.spec.purge && self.evict(queue, now_ms)
            || !self.spec.purge && self.evict_over(queue, now_ms)
    }

    /// Takes away one entry that is due in the present slot.
    fn evict_over(&self, queue: &mut Queue, now_ms: u64) -> bool {
        let mut next = queue.first(now_ms / self.slot_ms);
        for _ in 0..OVER_LOOKS {
            let Some(at) = next else { return false };
            next = queue.after(&self.arena, at);
            if self.is_over(self.values_at(at), now_ms) && self.take_away(queue, at, 0) {
                return true;
            }
        }
        false
    }

    /// Takes away the oldest entry that nobody holds: exactly that in small tables, and about that in others.
    fn evict(&self, queue: &mut Queue, now_ms: u64) -> bool {
        let mut from = if self.spec.expire_ms == 0 { 0 } else { queue.due.min(now_ms / self.slot_ms) };
        let end = from + SLOTS;
        for _ in 0..EVICT_SLOTS {
            let Some(slot) = queue.occupied(from, end) else { return false };
            if self.evict_from(queue, slot, now_ms) {
                return true;
            }
            from = slot + 1;
        }
        false
    }

    /// In a flood the first one of a slot is as old as those that went before: it is looked at alone. Whoever is younger, or held, goes
    /// to the end, and is looked at again when all others were. If none is as old, the oldest of those that were looked at goes.
    fn evict_from(&self, queue: &mut Queue, slot: u64, now_ms: u64) -> bool {
        let is_small = self.spec.size <= EXACT_MAX;
        let as_old = match queue.age {
            Some(age) if !is_small => age - age / AS_OLD - FINE,
            _ => i64::MAX,
        };
        let looks = if is_small { EXACT_MAX } else { queue.looks };
        let (mut next, last) = (queue.first(slot), queue.last(slot));
        let mut oldest: Option<(i64, u32)> = None;
        let mut looked = 0;
        while let Some(at) = next.filter(|_| looked < looks) {
            looked += 1;
            next = queue.after(&self.arena, at).filter(|_| Some(at) != last);
            let words = self.arena.entry(at).narrow;
            let stamp = words[header::STAMP].load(Ordering::Acquire);
            // It may have been used since it was put here.
            let its_slot = self.slot_of(stamp, now_ms);
            if its_slot <= slot && words[header::HOLDERS].load(Ordering::Acquire) == 0 {
                let age = self.age(stamp, now_ms) * FINE;
                if oldest.is_none_or(|(most, _)| age > most) {
                    oldest = Some((age, at));
                }
                if age >= as_old {
                    break;
                }
            }
            if its_slot > slot || !is_small {
                queue.remove(&self.arena, at);
                queue.push(&self.arena, at, its_slot.max(slot));
            }
        }
        if queue.age.is_some() {
            queue.looks = (queue.looks.max(looked) + LOOKS - looked).min(LOOKS_MAX);
        }
        let Some((age, at)) = oldest else { return false };
        queue.age = Some(queue.age.map_or(age, |known| known + (age - known) / FINE));
        self.take_away(queue, at, 0)
    }
}
