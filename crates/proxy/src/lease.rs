//! When the numbers are free of what a snapshot has and the next one has not: when that snapshot is gone, and all before it.
//!
//! ```text
//! snapshot 1 --> lease 1 --> lease 2 --> lease 3
//!                              ^           ^
//!                         snapshot 2   snapshot 3
//! ```
//!
//! A lease is held by its snapshot and by the lease before it. So it is dropped once neither its snapshot nor an older one is
//! pinned by anybody, and no stream on any thread can name what went with it.

use std::sync::{Arc, OnceLock, PoisonError, Weak};

use thalweg_shared::Mutex;

/// Where numbers go that nobody can name any more.
pub trait Returns<N> {
    /// Takes them back.
    fn take_back(&self, numbers: Vec<N>);
}

/// See the module's documentation.
pub struct Lease<N, R: Returns<N>> {
    to: Weak<R>,
    next: OnceLock<Arc<Lease<N, R>>>,
    /// What its snapshot has and the next one has not.
    gone: Mutex<Vec<N>>,
}

impl<N, R: Returns<N>> Lease<N, R> {
    /// That of the first snapshot.
    pub fn new(to: Weak<R>) -> Arc<Lease<N, R>> {
        Arc::new(Lease { to, next: OnceLock::new(), gone: Mutex::default() })
    }

    /// That of the next snapshot, in which these are gone. Only of use once for each: changes are made one at a time.
    pub fn succeed(self: &Arc<Self>, gone: Vec<N>) -> Arc<Lease<N, R>> {
        *self.gone.lock().unwrap_or_else(PoisonError::into_inner) = gone;
        let next = Lease::new(self.to.clone());
        Arc::clone(self.next.get_or_init(|| next))
    }
}

impl<N, R: Returns<N>> Drop for Lease<N, R> {
    fn drop(&mut self) {
        let gone = std::mem::take(&mut *self.gone.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(to) = self.to.upgrade().filter(|_| !gone.is_empty()) {
            to.take_back(gone);
        }
        // One after the other rather than one within the other: there may be very many.
        let mut next = self.next.take();
        while let Some(mut last) = next.and_then(Arc::into_inner) {
            next = last.next.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Taken(Mutex<Vec<u32>>);

    impl Returns<u32> for Taken {
        fn take_back(&self, mut numbers: Vec<u32>) {
            self.0.lock().unwrap().append(&mut numbers);
        }
    }

    fn taken(by: &Taken) -> Vec<u32> {
        std::mem::take(&mut *by.0.lock().unwrap())
    }

    #[test]
    fn numbers_come_back_with_the_oldest_snapshot_that_may_name_them() {
        let back = Arc::new(Taken::default());
        let first = Lease::new(Arc::downgrade(&back));
        let second = first.succeed(vec![1]);
        let third = second.succeed(vec![2, 3]);
        drop(second);
        assert!(taken(&back).is_empty(), "the first snapshot may still be given what is newer than it");
        drop(first);
        assert_eq!(taken(&back), [1, 2, 3]);
        drop(third);
        assert!(taken(&back).is_empty());
    }

    #[test]
    fn a_long_row_of_snapshots_goes_at_once() {
        let back = Arc::new(Taken::default());
        let first = Lease::new(Arc::downgrade(&back));
        let mut last = Arc::clone(&first);
        for number in 0..200_000 {
            last = last.succeed(vec![number]);
        }
        assert_eq!(taken(&back).len(), 0);
        drop(first);
        assert_eq!(taken(&back).len(), 200_000);
        drop(last);
    }
}
