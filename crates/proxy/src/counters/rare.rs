//! Counters of what seldom happens, or never where it is not configured: a place without them takes a pointer.

use std::sync::OnceLock;

use super::Counter;

/// Counters by index, made when the first of them counts something.
pub(super) struct Rare<const N: usize>(OnceLock<Box<[Counter; N]>>);

impl<const N: usize> Default for Rare<N> {
    fn default() -> Rare<N> {
        Rare(OnceLock::new())
    }
}

impl<const N: usize> Rare<N> {
    /// Adds `n`. Only the owning thread may call this.
    pub(super) fn add(&self, index: usize, n: u64) {
        self.0.get_or_init(|| Box::new(std::array::from_fn(|_| Counter::default())))[index].add(n);
    }

    /// This thread's share.
    pub(super) fn get(&self, index: usize) -> u64 {
        self.0.get().and_then(|all| all.get(index)).map_or(0, Counter::get)
    }

    /// Starts anew. Only the owning thread may call this.
    pub(super) fn reset(&self) {
        self.0.get().into_iter().flat_map(|all| all.iter()).for_each(|counter| counter.set(0));
    }

    /// Counts what others counted, too. Only the owning thread may call this.
    pub(super) fn take_over(&self, other: &Rare<N>) {
        if other.0.get().is_some() {
            (0..N).for_each(|index| self.add(index, other.get(index)));
        }
    }
}
