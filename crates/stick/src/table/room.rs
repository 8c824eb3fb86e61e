//! Room for new entries: what is due or oldest goes.

use super::{Refused, Table};
use crate::layout::header;
use crate::queue::{Queue, SLOTS};
use crate::sync::Ordering;

/// Entries looked at for the oldest one.
const EVICT_LOOKS: usize = 32;
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
        for _ in 0..EVICT_LOOKS {
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

    fn evict_from(&self, queue: &mut Queue, slot: u64, now_ms: u64) -> bool {
        let mut oldest: Option<(i64, u32)> = None;
        let mut next = queue.first(slot);
        let mut young = [0; EVICT_LOOKS];
        let mut looked = 0;
        // Those that move do not count, but for one turn only: a slot far behind may be their own again.
        for _ in 0..2 * EVICT_LOOKS {
            let Some(at) = next.filter(|_| looked < EVICT_LOOKS) else { break };
            next = queue.after(&self.arena, at);
            let words = self.arena.entry(at).narrow;
            let stamp = words[header::STAMP].load(Ordering::Acquire);
            let its_slot = self.slot_of(stamp, now_ms);
            if its_slot > slot {
                // It was used since it was put here.
                queue.remove(&self.arena, at);
                queue.push(&self.arena, at, its_slot);
                continue;
            }
            young[looked] = at;
            looked += 1;
            let age = self.age(stamp, now_ms);
            let is_free = words[header::HOLDERS].load(Ordering::Acquire) == 0;
            if is_free && oldest.is_none_or(|(most, _)| age > most) {
                oldest = Some((age, at));
            }
        }
        if looked == EVICT_LOOKS && next.is_some() {
            // Those that were used lately make place at the front for others to be looked at next time.
            for at in &young[..looked] {
                let stamp = self.arena.entry(*at).narrow[header::STAMP].load(Ordering::Acquire);
                if oldest.is_none_or(|(most, oldest)| oldest != *at && self.age(stamp, now_ms) < most / 2) {
                    queue.remove(&self.arena, *at);
                    queue.push(&self.arena, *at, slot);
                }
            }
        }
        oldest.is_some_and(|(_, at)| self.take_away(queue, at, 0))
    }
}
