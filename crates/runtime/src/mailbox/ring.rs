//! A bounded queue of small numbers with many producers and many consumers.
//!
//! Each cell carries a sequence number that says whose turn it is, so producers and consumers only meet on the two
//! positions, which lie on separate cache lines. The algorithm is the well-known one by Dmitry Vyukov. A failed
//! exchange means that another thread got through, and each retry backs off with pause instructions.
//!
//! Capacity is a promise of the caller: the run-time never queues more than it has shared tasks.

use crate::sync::{AtomicU32, AtomicUsize, Ordering, spin_loop};
use crossbeam_utils::CachePadded;

struct Cell {
    sequence: AtomicUsize,
    value: AtomicU32,
}

/// See the module.
pub(crate) struct Ring {
    head: CachePadded<AtomicUsize>,
    tail: CachePadded<AtomicUsize>,
    cells: Box<[Cell]>,
}

#[cfg(not(planted))]
const PUBLISH: Ordering = Ordering::Release;
/// The planted bug: a consumer may take the cell and read the value before last.
#[cfg(planted)]
const PUBLISH: Ordering = Ordering::Relaxed;

/// Longest pause between two attempts, in pause instructions.
const BACKOFF_MAX: u32 = 64;

impl Ring {
    /// A ring of `capacity` cells, a power of two.
    pub(crate) fn new(capacity: usize) -> Ring {
        assert!(capacity.is_power_of_two());
        Ring {
            head: CachePadded::new(AtomicUsize::new(0)),
            tail: CachePadded::new(AtomicUsize::new(0)),
            cells: (0..capacity)
                .map(|i| Cell { sequence: AtomicUsize::new(i), value: AtomicU32::new(0) })
                .collect(),
        }
    }

    /// Appends a number; false when the ring is full.
    pub(crate) fn push(&self, value: u32) -> bool {
        let mut pause = 1;
        let mut at = self.tail.load(Ordering::Relaxed);
        loop {
            let cell = &self.cells[at & (self.cells.len() - 1)];
            let turn = cell.sequence.load(Ordering::Acquire).wrapping_sub(at) as isize;
            if turn == 0 {
                match self.tail.compare_exchange_weak(
                    at,
                    at.wrapping_add(1),
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                ) {
                    Ok(_) => {
                        cell.value.store(value, Ordering::Relaxed);
                        cell.sequence.store(at.wrapping_add(1), PUBLISH);
                        return true;
                    }
                    Err(now) => at = now,
                }
            } else if turn < 0 {
                return false;
            } else {
                at = self.tail.load(Ordering::Relaxed);
            }
            back_off(&mut pause);
        }
    }

    /// Takes the oldest number.
    pub(crate) fn pop(&self) -> Option<u32> {
        let mut pause = 1;
        let mut at = self.head.load(Ordering::Relaxed);
        loop {
            let cell = &self.cells[at & (self.cells.len() - 1)];
            let turn = cell.sequence.load(Ordering::Acquire).wrapping_sub(at.wrapping_add(1)) as isize;
            if turn == 0 {
                match self.head.compare_exchange_weak(
                    at,
                    at.wrapping_add(1),
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                ) {
                    Ok(_) => {
                        let value = cell.value.load(Ordering::Relaxed);
                        cell.sequence.store(at.wrapping_add(self.cells.len()), Ordering::Release);
                        return Some(value);
                    }
                    Err(now) => at = now,
                }
            } else if turn < 0 {
                return None;
            } else {
                at = self.head.load(Ordering::Relaxed);
            }
            back_off(&mut pause);
        }
    }

    /// How many numbers are queued, about.
    pub(crate) fn len(&self) -> usize {
        let head = self.head.load(Ordering::Relaxed);
        (self.tail.load(Ordering::Relaxed).wrapping_sub(head) as isize).max(0) as usize
    }
}

fn back_off(pause: &mut u32) {
    for _ in 0..*pause {
        spin_loop();
    }
    if cfg!(not(loom)) {
        *pause = (*pause * 2).min(BACKOFF_MAX);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn full_empty_and_order() {
        let ring = Ring::new(4);
        assert_eq!(ring.pop(), None);
        for lap in 0..5u32 {
            assert!((0..4).all(|n| ring.push(lap * 10 + n)));
            assert!(!ring.push(99), "full");
            assert_eq!(ring.len(), 4);
            assert!((0..4).all(|n| ring.pop() == Some(lap * 10 + n)));
            assert_eq!(ring.pop(), None);
        }
    }

    #[test]
    fn many_threads_lose_and_double_nothing() {
        const EACH: u64 = if cfg!(miri) { 40 } else { 50_000 };
        let ring = Arc::new(Ring::new(64));
        let (sum, count) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let mut threads = Vec::new();
        for _ in 0..3 {
            let ring = ring.clone();
            threads.push(std::thread::spawn(move || {
                for n in 1..=EACH {
                    while !ring.push(n as u32) {
                        std::thread::yield_now();
                    }
                }
            }));
        }
        let consumers: Vec<_> = (0..3)
            .map(|_| {
                let (ring, sum, count) = (ring.clone(), sum.clone(), count.clone());
                std::thread::spawn(move || {
                    while count.load(Ordering::Relaxed) < 3 * EACH {
                        match ring.pop() {
                            Some(n) => {
                                sum.fetch_add(n as u64, Ordering::Relaxed);
                                count.fetch_add(1, Ordering::Relaxed);
                            }
                            None => std::thread::yield_now(),
                        }
                    }
                })
            })
            .collect();
        threads.into_iter().chain(consumers).for_each(|t| t.join().unwrap());
        assert_eq!(sum.load(Ordering::Relaxed), 3 * EACH * (EACH + 1) / 2);
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use loom::sync::Arc;

    /// A producer and two consumers around a ring of two cells. Each number leaves once. Seen to fail with
    /// `--cfg planted`, which publishes cells with a relaxed store: a consumer returns 0, a number nobody pushed.
    #[test]
    fn loom_ring_hands_out_each_number_once() {
        loom::model(|| {
            let ring = Arc::new(Ring::new(2));
            let producer = {
                let ring = ring.clone();
                loom::thread::spawn(move || {
                    assert!(ring.push(1));
                    assert!(ring.push(2));
                })
            };
            let consumer = {
                let ring = ring.clone();
                loom::thread::spawn(move || ring.pop())
            };
            let here = ring.pop();
            producer.join().unwrap();
            let there = consumer.join().unwrap();
            let mut got: Vec<u32> = here.into_iter().chain(there).collect();
            while let Some(n) = ring.pop() {
                got.push(n);
            }
            got.sort_unstable();
            assert_eq!(got, [1, 2]);
        });
    }

    /// Two producers share the last free cell: exactly one gets it.
    #[test]
    fn loom_ring_full_refuses_one() {
        loom::model(|| {
            let ring = Arc::new(Ring::new(2));
            assert!(ring.push(1));
            let other = {
                let ring = ring.clone();
                loom::thread::spawn(move || ring.push(2))
            };
            let here = ring.push(3);
            assert!(here != other.join().unwrap());
            assert_eq!(ring.pop(), Some(1));
            assert_eq!(ring.pop(), Some(if here { 3 } else { 2 }));
        });
    }
}
