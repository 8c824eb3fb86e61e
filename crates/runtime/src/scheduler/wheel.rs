//! The deadlines of a thread's tasks.
//!
//! A hierarchical wheel of milliseconds: 256 slots of 1 ms, then four levels of 64 slots, 2^32 ms in all. An entry
//! is eight bytes (the low half of the deadline and the task's index) in the vector of its bucket; the level is given
//! by the highest bit in which the deadline differs from now, so a bucket is either wholly before or wholly after
//! another, and finding the earliest is a look at five bitmaps.
//!
//! Entries are not removed when a deadline moves later or its task ends. When the wheel comes to one, the owner says
//! what it means now: nothing, a later deadline, or that it is due. So that dead entries cannot pile up, the owner
//! sweeps a bucket per round once more than half of the entries are dead ([`Wheel::sweep`]); the work is then
//! proportional to the deadlines set earlier.

use std::mem;

const LEVELS: usize = 5;
/// The lowest bit of each level's slot number, and one past the last level's highest.
const SHIFT: [u32; LEVELS + 1] = [0, 8, 14, 20, 26, 32];
/// The first bucket of each level, and the number of buckets.
const FIRST: [usize; LEVELS + 1] = [0, 256, 320, 384, 448, 512];
const BUCKETS: usize = FIRST[LEVELS];
/// An emptied bucket keeps its memory up to this many entries.
const KEEP_ENTRIES: usize = 256;
/// Dead entries are tolerated up to this number.
const DEAD_MIN: usize = 1024;

#[derive(Clone, Copy)]
struct Entry {
    deadline: u32,
    index: u32,
}

/// What an entry of the wheel turns out to mean.
pub(crate) enum Due {
    /// It is dead, or was handled.
    Done,
    /// The deadline moved to this millisecond.
    Later(u64),
}

/// See the module.
pub(crate) struct Wheel {
    /// All entries due at or before this millisecond were handed out.
    now: u64,
    /// Which buckets have entries, by bucket number.
    occupied: [u64; BUCKETS / 64],
    /// The earliest deadline in each bucket.
    earliest: Box<[u32; BUCKETS]>,
    buckets: Box<[Vec<Entry>]>,
    /// Entries more than 2^32 ms away, and how they are kept: the high half must change before they matter.
    beyond: Vec<(u64, u32)>,
    entries: usize,
    sweep_at: usize,
    sweep_threshold: usize,
}

impl Wheel {
    pub(crate) fn new(now: u64) -> Wheel {
        Wheel {
            now,
            occupied: [0; BUCKETS / 64],
            earliest: Box::new([0; BUCKETS]),
            buckets: (0..BUCKETS).map(|_| Vec::new()).collect(),
            beyond: Vec::new(),
            entries: 0,
            sweep_at: BUCKETS,
            sweep_threshold: DEAD_MIN,
        }
    }

    /// Entries, dead ones included.
    pub(crate) fn len(&self) -> usize {
        self.entries
    }

    /// Adds an entry. A deadline that is not in the future is due at the next millisecond. Returns the deadline
    /// under which it is filed.
    #[inline]
    pub(crate) fn insert(&mut self, deadline: u64, index: u32) -> u64 {
        let deadline = deadline.max(self.now + 1);
        self.entries += 1;
        let distance = deadline ^ self.now;
        let level = match distance {
            0..0x100 => 0,
            0x100..0x4000 => 1,
            0x4000..0x10_0000 => 2,
            0x10_0000..0x400_0000 => 3,
            0x400_0000..0x1_0000_0000 => 4,
            _ => {
                self.beyond.push((deadline, index));
                return deadline;
            }
        };
        let slots = FIRST[level + 1] - FIRST[level];
        let bucket = FIRST[level] + (deadline >> SHIFT[level]) as usize % slots;
        let deadline32 = deadline as u32;
        let bit = 1 << (bucket % 64);
        let word = &mut self.occupied[bucket / 64];
        if *word & bit == 0 || deadline32 < self.earliest[bucket] {
            self.earliest[bucket] = deadline32;
        }
        *word |= bit;
        self.buckets[bucket].push(Entry { deadline: deadline32, index });
        deadline
    }

    /// The millisecond of the earliest entry.
    pub(crate) fn next(&self) -> Option<u64> {
        let mut earliest = None::<u32>;
        for level in 0..LEVELS {
            // Within a level buckets are in order of time: none lies before the current slot, none wraps.
            let words = &self.occupied[FIRST[level] / 64..FIRST[level + 1] / 64];
            if let Some((n, word)) = words.iter().enumerate().find(|(_, word)| **word != 0) {
                let bucket = FIRST[level] + n * 64 + word.trailing_zeros() as usize;
                let deadline = self.earliest[bucket];
                earliest = Some(earliest.map_or(deadline, |e| e.min(deadline)));
            }
        }
        match earliest {
            Some(low) => Some(self.now & !0xffff_ffff | low as u64),
            None if self.beyond.is_empty() => None,
            // Nothing can be due before the high half changes; the entries are filed again then.
            None => Some((self.now | 0xffff_ffff) + 1),
        }
    }

    /// Moves to `now` and asks `due(index, low half of the filed deadline)` about each entry passed on the way.
    /// `due` gets entries filed at or before `now`, and entries of a bucket that `now` has reached, which it must
    /// answer with their deadline when that is still to come.
    pub(crate) fn advance(&mut self, now: u64, mut due: impl FnMut(u32, u32) -> Due) {
        if now <= self.now {
            return;
        }
        let old = mem::replace(&mut self.now, now);
        if self.entries == 0 {
            return;
        }
        for level in 0..LEVELS {
            let slots = FIRST[level + 1] - FIRST[level];
            // The level's whole turn is over when a higher bit changed; otherwise up to the current slot.
            let turned = (old ^ now) >> SHIFT[level + 1] != 0;
            let last = if turned { slots - 1 } else { (now >> SHIFT[level]) as usize % slots };
            self.drain(FIRST[level], FIRST[level] + last, &mut due);
        }
        if (old ^ now) >> 32 != 0 && !self.beyond.is_empty() {
            for (deadline, index) in mem::take(&mut self.beyond) {
                self.entries -= 1;
                match due(index, deadline as u32) {
                    Due::Done => {}
                    Due::Later(deadline) => _ = self.insert(deadline, index),
                }
            }
        }
    }

    fn drain(&mut self, first: usize, last: usize, due: &mut impl FnMut(u32, u32) -> Due) {
        for word in first / 64..=last / 64 {
            let mut bits = self.occupied[word];
            if word == last / 64 && last % 64 != 63 {
                bits &= (1 << (last % 64 + 1)) - 1;
            }
            self.occupied[word] &= !bits;
            while bits != 0 {
                let bucket = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let mut entries = mem::take(&mut self.buckets[bucket]);
                self.entries -= entries.len();
                for entry in &entries {
                    if let Due::Later(deadline) = due(entry.index, entry.deadline) {
                        self.insert(deadline, entry.index);
                    }
                }
                if entries.capacity() <= KEEP_ENTRIES && self.buckets[bucket].capacity() == 0 {
                    entries.clear();
                    self.buckets[bucket] = entries;
                }
            }
        }
    }

    /// Removes dead entries from one bucket when there are many; `armed` is the number of live ones and
    /// `alive(index, low half)` tells. Called once per round.
    #[inline]
    pub(crate) fn sweep(&mut self, armed: usize, alive: impl Fn(u32, u32) -> bool) {
        if self.sweep_at == BUCKETS {
            if self.entries <= self.sweep_threshold || self.entries <= 2 * armed + DEAD_MIN {
                return;
            }
            self.sweep_at = 0;
        }
        self.sweep_bucket(armed, alive);
    }

    #[cold]
    fn sweep_bucket(&mut self, armed: usize, alive: impl Fn(u32, u32) -> bool) {
        let bucket = self.sweep_at;
        self.sweep_at += 1;
        let entries = &mut self.buckets[bucket];
        let before = entries.len();
        if before > 0 {
            entries.retain(|e| alive(e.index, e.deadline));
            self.entries -= before - entries.len();
            if entries.capacity() > KEEP_ENTRIES.max(2 * entries.len()) {
                entries.shrink_to_fit();
            }
            match entries.iter().map(|e| e.deadline).min() {
                Some(earliest) => self.earliest[bucket] = earliest,
                None => self.occupied[bucket / 64] &= !(1 << (bucket % 64)),
            }
        }
        if self.sweep_at == BUCKETS {
            // What is left although dead (two entries with one deadline) must not start the next sweep at once.
            self.sweep_threshold = (2 * armed + DEAD_MIN).max(self.entries + self.entries / 2);
        }
    }

    /// Removes all dead entries at once, and gives back what they took.
    pub(crate) fn trim(&mut self, armed: usize, alive: impl Fn(u32, u32) -> bool) {
        self.sweep_at = 0;
        while self.sweep_at < BUCKETS {
            self.sweep_bucket(armed, &alive);
        }
        for bucket in &mut self.buckets {
            if bucket.capacity() > 2 * bucket.len() {
                bucket.shrink_to_fit();
            }
        }
    }

    /// Bytes of heap memory.
    pub(crate) fn memory(&self) -> usize {
        self.buckets.iter().map(|b| b.capacity() * size_of::<Entry>()).sum::<usize>()
            + self.beyond.capacity() * size_of::<(u64, u32)>()
            + BUCKETS * (size_of::<Vec<Entry>>() + 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// A small deterministic generator, so that a failure names its seed.
    struct Random(u64);
    impl Random {
        fn below(&mut self, n: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % n
        }
    }

    const STARTS: [u64; 6] =
        [0, 1000, (1 << 32) - 3, (1 << 32) - 70_000, (1 << 33) - 20_000_000, (1 << 40) + 255];

    /// Fires everything due up to `now` from a model of the live deadlines.
    fn fire(wheel: &mut Wheel, live: &mut BTreeMap<u32, u64>, now: u64) -> Vec<(u32, u64)> {
        let mut fired = Vec::new();
        wheel.advance(now, |index, _| match live.get(&index) {
            Some(&deadline) if deadline <= now => {
                live.remove(&index);
                fired.push((index, deadline));
                Due::Done
            }
            Some(&deadline) => Due::Later(deadline),
            None => Due::Done,
        });
        fired
    }

    #[test]
    fn fires_exactly_on_time_whatever_the_distance_and_start() {
        for start in STARTS {
            for distance in
                [1, 2, 255, 256, 257, 16_383, 16_384, 70_000, 1 << 20, (1 << 26) + 5, 1 << 31, 5 << 32]
            {
                let mut wheel = Wheel::new(start);
                let deadline = start + distance;
                let mut live = BTreeMap::from([(3, deadline)]);
                wheel.insert(deadline, 3);
                let mut hops = 0;
                // Sleeping until what the wheel says, as an idle thread does.
                loop {
                    let next = wheel.next().expect("armed");
                    assert!(next <= deadline, "an idle thread would oversleep: {start} {distance}");
                    assert!(fire(&mut wheel, &mut live, next - 1).is_empty(), "early: {start} {distance}");
                    if !fire(&mut wheel, &mut live, next).is_empty() {
                        assert_eq!(next, deadline);
                        break;
                    }
                    hops += 1;
                    assert!(hops < 10);
                }
                assert!(
                    (start ^ deadline) >> 32 != 0 || hops == 0,
                    "one sleep is enough: {start} {distance}"
                );
                assert_eq!((wheel.len(), wheel.next()), (0, None));
            }
        }
    }

    #[test]
    fn agrees_with_a_sorted_map() {
        for seed in 1..=20u64 {
            let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let mut now = STARTS[seed as usize % STARTS.len()];
            let mut wheel = Wheel::new(now);
            let mut live = BTreeMap::new();
            for _ in 0..3000 {
                match random.below(4) {
                    0 | 1 => {
                        let index = random.below(50) as u32;
                        let deadline = now + 1 + (1 << random.below(28)) + random.below(300);
                        // As the scheduler does: later moves cost nothing, earlier ones add an entry.
                        let filed = live.insert(index, deadline);
                        if filed.is_none_or(|f| deadline < f) {
                            wheel.insert(deadline, index);
                        }
                    }
                    2 => _ = live.remove(&(random.below(50) as u32)),
                    _ => {
                        now += 1 + (1 << random.below(24));
                        if let (Some(next), Some(earliest)) = (wheel.next(), live.values().min()) {
                            assert!(next <= *earliest, "seed {seed}");
                        }
                        let due: Vec<_> =
                            live.iter().filter(|(_, d)| **d <= now).map(|(i, d)| (*i, *d)).collect();
                        let mut fired = fire(&mut wheel, &mut live, now);
                        fired.sort();
                        assert_eq!(fired, due, "seed {seed}");
                    }
                }
            }
        }
    }

    #[test]
    fn dead_entries_are_bounded() {
        let mut wheel = Wheel::new(0);
        // A task per request, each with a deadline 30 s away, none of them alive for long.
        for now in 0..200_000u64 {
            wheel.advance(now / 10, |_, _| Due::Done);
            wheel.insert(now / 10 + 30_000, now as u32);
            wheel.sweep(1, |index, _| index as u64 == now);
            assert!(wheel.len() < 3 * DEAD_MIN, "{}", wheel.len());
        }
        assert!(wheel.memory() < 200_000, "{}", wheel.memory());
    }

    #[test]
    fn a_million_entries_cost_little() {
        let mut random = Random(7);
        let mut wheel = Wheel::new(1 << 33);
        for index in 0..1_000_000u32 {
            wheel.insert((1 << 33) + 1 + random.below(60_000), index);
        }
        assert!(wheel.memory() / 1_000_000 < 36, "bytes per entry, beside the task's own 64");
    }
}
