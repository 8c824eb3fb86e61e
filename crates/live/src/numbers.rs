//! Numbers that are used again.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::sync::{AtomicU32, Mutex, Ordering, locked};

/// Numbers that nobody uses.
#[derive(Debug)]
pub struct FreeNumbers {
    /// Those that were in use: rows of them, each with its length. No row ends where another one begins.
    again: Mutex<BTreeMap<u32, u32>>,
    end: AtomicU32,
}

impl FreeNumbers {
    /// Those from `end` on.
    pub fn from(end: u32) -> FreeNumbers {
        FreeNumbers { again: Mutex::new(BTreeMap::new()), end: AtomicU32::new(end) }
    }

    /// Behind the highest that is or was in use.
    pub fn end(&self) -> u32 {
        self.end.load(Ordering::Acquire)
    }

    /// One of them.
    pub fn take(&self) -> u32 {
        self.take_row(1).start
    }

    /// As many as that, one behind the other: the lowest there are, so that what lies at them does not grow without need.
    pub fn take_row(&self, count: u32) -> Range<u32> {
        self.take_row_from(0, count)
    }

    /// The same from a number on: those before are left to others.
    pub fn take_row_from(&self, least: u32, count: u32) -> Range<u32> {
        let mut again = locked(&self.again);
        let usable = |(first, len): (&u32, &u32)| {
            let (start, end) = (*first.max(&least), first + len);
            (start < end && end - start >= count).then_some((*first, start, end))
        };
        let found = again.iter().find_map(usable).filter(|_| count > 0);
        let (first, start, end) = found.unwrap_or_else(|| {
            // With the lock: one at a time goes here.
            let end = self.end.load(Ordering::SeqCst);
            let last = again.last_key_value().filter(|(first, len)| *first + *len == end);
            let first = last.filter(|_| count > 0).map_or(end, |(first, _)| *first);
            let start = first.max(least);
            self.end.store(start.saturating_add(count), Ordering::SeqCst);
            (first, start, start.saturating_add(count))
        });
        again.remove(&first);
        for left in [first..start, start.saturating_add(count)..end] {
            if !left.is_empty() {
                again.insert(left.start, left.len() as u32);
            }
        }
        start..start.saturating_add(count)
    }

    /// Nobody uses it any more.
    pub fn give(&self, number: u32) {
        self.give_row(number..number.saturating_add(1));
    }

    /// Nobody uses any of them any more.
    pub fn give_row(&self, row: Range<u32>) {
        if row.is_empty() {
            return;
        }
        let mut again = locked(&self.again);
        let behind = again.remove(&row.end).unwrap_or(0);
        let before = again.range(..row.start).next_back().filter(|(first, len)| **first + **len == row.start);
        let (first, len) = before.map_or((row.start, 0), |(first, len)| (*first, *len));
        again.insert(first, len + (row.end - row.start) + behind);
    }

    /// Those that were in use and are not, in rows.
    pub fn rows(&self) -> Vec<Range<u32>> {
        locked(&self.again).iter().map(|(first, len)| *first..first.saturating_add(*len)).collect()
    }
}

impl Default for FreeNumbers {
    /// All numbers.
    fn default() -> FreeNumbers {
        FreeNumbers::from(0)
    }
}

#[cfg(not(planted))]
const FORGOTTEN: Ordering = Ordering::AcqRel;
/// The planted bug: the last one may not see what the others did.
#[cfg(planted)]
const FORGOTTEN: Ordering = Ordering::Relaxed;

/// Threads that are to forget what they keep at some numbers. Those are free when all have.
#[derive(Debug)]
pub struct Parting {
    left: AtomicU32,
}

impl Parting {
    /// So many have to, one at least.
    pub fn of(threads: u32) -> Parting {
        Parting { left: AtomicU32::new(threads) }
    }

    /// One has. Whether it is the last, which then sees all that the others did.
    pub fn one_has(&self) -> bool {
        self.left.fetch_sub(1, FORGOTTEN) == 1
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_again() {
        let free = FreeNumbers::from(5);
        assert_eq!((free.take(), free.take_row(3), free.take(), free.end()), (5, 6..9, 9, 10));
        free.give(7);
        assert_eq!((free.take(), free.take(), free.end()), (7, 10, 11));
        free.give_row(6..8);
        free.give(10);
        free.give_row(8..10);
        free.give_row(11..11);
        assert_eq!((free.rows().first(), free.rows().len()), (Some(&(6..11)), 1));
        assert_eq!((free.take_row(5), free.rows().len()), (6..11, 0));
    }

    #[test]
    fn long_rows_leave_the_first_numbers_to_short_ones() {
        let free = FreeNumbers::from(3);
        let only_row = |free: &FreeNumbers| match &free.rows()[..] {
            [row] => (row.start, row.end),
            rows => panic!("{rows:?}"),
        };
        assert_eq!((free.take_row_from(8, 10), only_row(&free)), (8..18, (3, 8)));
        assert_eq!((free.take_row(2), free.take_row(4)), (3..5, 18..22));
        assert_eq!((free.take_row_from(8, 3), free.take_row_from(8, 0).len()), (22..25, 0));
        free.give_row(8..18);
        assert_eq!((free.take_row_from(8, 10), only_row(&free)), (8..18, (5, 8)));
        // What is free at the end is a part of what is taken there.
        free.give_row(22..25);
        assert_eq!((free.take_row_from(8, 5), free.take_row(3), free.end()), (22..27, 5..8, 27));
        free.give_row(0..27);
        assert_eq!((free.take_row_from(30, 4), only_row(&free)), (30..34, (0, 30)));
    }

    /// Backends with many servers that come and go, one after the other, take no more numbers than the largest.
    #[test]
    fn rows_are_used_again() {
        let free = FreeNumbers::from(0);
        let mut used: Vec<Range<u32>> = Vec::new();
        for count in [10, 1000, 1, 500, 1000, 0, 1000, 999].repeat(20) {
            let row = free.take_row(count);
            assert_eq!(row.len(), count as usize);
            let is_apart = |other: &Range<u32>| row.end <= other.start || other.end <= row.start;
            assert!(used.iter().filter(|other| !other.is_empty()).all(is_apart), "{row:?} in {used:?}");
            used.push(row);
            if used.len() > 2 {
                // In an order that makes rows grow together from both sides.
                let gone = used.remove(0);
                let (even, odd): (Vec<u32>, Vec<u32>) = gone.partition(|number| number % 2 == 0);
                even.into_iter().chain(odd).for_each(|number| free.give(number));
            }
        }
        assert!(free.end() <= 4000, "{} numbers for 3,000 at once", free.end());
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use loom::sync::Arc;

    /// Each thread has something of its own at a number. Who gets the number next sees nothing of it. Seen to fail with `--cfg
    /// planted`, by which the last thread that forgets need not see what the others did.
    #[test]
    fn loom_a_number_is_used_again_when_every_thread_forgot_it() {
        const NUMBER: u32 = 0;
        loom::model(|| {
            let kept: Arc<[AtomicU32; 2]> = Arc::new([AtomicU32::new(7), AtomicU32::new(7)]);
            let (parting, free) = (Arc::new(Parting::of(2)), Arc::new(FreeNumbers::from(NUMBER + 1)));
            let threads = [0, 1].map(|own| {
                let (kept, parting, free) = (Arc::clone(&kept), Arc::clone(&parting), Arc::clone(&free));
                loom::thread::spawn(move || {
                    kept[own].store(0, Ordering::Relaxed);
                    if parting.one_has() {
                        free.give(NUMBER);
                    }
                })
            });
            if free.take() == NUMBER {
                assert!(kept.iter().all(|kept| kept.load(Ordering::Relaxed) == 0));
            }
            threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
        });
    }

    /// A number is given to one only.
    #[test]
    fn loom_a_number_has_one_user() {
        loom::model(|| {
            let free = Arc::new(FreeNumbers::from(1));
            free.give(0);
            let other = {
                let free = Arc::clone(&free);
                loom::thread::spawn(move || free.take())
            };
            let mine = free.take();
            assert_ne!(mine, other.join().expect("it ends"));
        });
    }
}
