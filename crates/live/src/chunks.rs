//! A long row of values of which a thread may use few: they are made, a chunk at a time, when one is first used.
//!
//! With many servers and many threads, what each thread keeps for each server would be most of the process's memory,
//! and most of it would never be touched.

use crate::growing::Growing;
use crate::sync::OnceLock;

/// Values that are made together: see [`crate::rows`].
const CHUNK: usize = if cfg!(loom) { 1 } else { 8 };

/// See the module's documentation. One thread uses it ([`Chunks::mine`]), any may look at it ([`Chunks::get`]).
pub struct Chunks<T> {
    chunks: Growing<OnceLock<Box<[T; CHUNK]>>>,
}

impl<T> Chunks<T> {
    /// A row of `len` values at first, none of which is made yet.
    pub fn new(len: usize) -> Chunks<T> {
        Chunks { chunks: (0..len.div_ceil(CHUNK)).map(|_| OnceLock::new()).collect() }
    }

    /// A value, made if it was not. For the thread whose row it is.
    #[inline]
    pub fn mine(&self, at: usize) -> &T
    where
        T: Default,
    {
        let chunk = &self.chunks[at / CHUNK];
        let values = match chunk.get() {
            Some(made) => made,
            None => make_chunk(chunk),
        };
        &values[at % CHUNK]
    }

    /// A value, if it was made.
    pub fn get(&self, at: usize) -> Option<&T> {
        Some(&self.chunks.get(at / CHUNK)?.get()?[at % CHUNK])
    }

    /// Those that were made, each with its place: those that were used, and some of their neighbours.
    pub fn made(&self) -> impl Iterator<Item = (usize, &T)> {
        let chunks = self.chunks.iter().filter_map(|(n, chunk)| Some((n, chunk.get()?)));
        chunks.flat_map(|(n, chunk)| (n * CHUNK..).zip(chunk.iter()))
    }
}

#[cold]
fn make_chunk<T: Default>(chunk: &OnceLock<Box<[T; CHUNK]>>) -> &[T; CHUNK] {
    chunk.get_or_init(|| Box::new(std::array::from_fn(|_| T::default())))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn values_are_made_when_they_are_used() {
        thread_local!(static MADE: Cell<usize> = const { Cell::new(0) });
        struct Value(Cell<usize>);
        impl Default for Value {
            fn default() -> Value {
                MADE.set(MADE.get() + 1);
                Value(Cell::new(0))
            }
        }
        let row: Chunks<Value> = Chunks::new(100_001);
        assert_eq!((MADE.get(), row.made().count()), (0, 0));
        row.mine(100_000).0.set(7);
        row.mine(100_000).0.set(row.mine(100_000).0.get() + 1);
        assert_eq!((MADE.get(), row.made().count()), (CHUNK, CHUNK));
        assert!(row.made().any(|(at, value)| at == 100_000 && value.0.get() == 8));
        assert_eq!(row.get(100_000).map(|v| v.0.get()), Some(8));
        assert!(row.get(3).is_none() && row.get(1 << 30).is_none());
        // It grows.
        row.mine(200_000).0.set(9);
        assert_eq!(row.get(200_000).map(|v| v.0.get()), Some(9));
        assert_eq!(row.made().filter(|(at, value)| *at == 200_000 && value.0.get() == 9).count(), 1);
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::sync::{Arc, AtomicU32, Ordering};

    #[derive(Default)]
    struct Count(AtomicU32);

    impl Count {
        fn get(&self) -> u32 {
            self.0.load(Ordering::Relaxed)
        }

        fn add(&self) {
            self.0.store(self.get() + 1, Ordering::Relaxed);
        }
    }

    /// A thread counts at places of which one was there at the start and the other is made in a row behind that, while another
    /// thread adds up, twice: it sees whole values only, and no sum that is less than one before. Seen to fail with `--cfg planted`,
    /// by which a row is seen before what is in it.
    #[test]
    fn loom_sums_of_what_one_thread_counts_only_grow() {
        loom::model(|| {
            let row: Arc<Chunks<Count>> = Arc::new(Chunks::new(1));
            let reader = {
                let row = Arc::clone(&row);
                loom::thread::spawn(move || {
                    let sum = || row.made().map(|(_, count)| count.get()).sum::<u32>();
                    let (before, now) = (sum(), sum());
                    assert!(before <= now && now <= 3, "{before} and then {now}");
                    row.get(1).map_or(0, Count::get)
                })
            };
            row.mine(0).add();
            row.mine(1).add();
            row.mine(1).add();
            assert!(reader.join().expect("the reader ends") <= 2);
            assert_eq!(row.made().map(|(_, count)| count.get()).sum::<u32>(), 3);
        });
    }
}
