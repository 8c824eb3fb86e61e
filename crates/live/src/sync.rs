//! The one door through which atomics, locks and counted references enter this crate, so that the same code runs under loom.

#[cfg(not(loom))]
mod real {
    pub(crate) use std::sync::{Arc, OnceLock};
    pub(crate) use thalweg_shared::{AtomicU32, AtomicU64, Mutex, MutexGuard, Ordering};
}

#[cfg(loom)]
mod real {
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
    pub(crate) use loom::sync::{Arc, Mutex, MutexGuard};

    /// The planted bug: what is set may be seen before what is in it.
    const PUBLISH: Ordering = if cfg!(planted) { Ordering::Relaxed } else { Ordering::Release };

    /// As the standard library's, which loom does not know. Only one thread sets it: who looks is checked to see either nothing or
    /// what was there when it was set.
    #[derive(Debug)]
    pub(crate) struct OnceLock<T> {
        is_set: loom::sync::atomic::AtomicBool,
        value: std::sync::OnceLock<T>,
    }

    impl<T> Default for OnceLock<T> {
        fn default() -> OnceLock<T> {
            OnceLock { is_set: loom::sync::atomic::AtomicBool::new(false), value: std::sync::OnceLock::new() }
        }
    }

    impl<T> OnceLock<T> {
        pub(crate) fn new() -> OnceLock<T> {
            OnceLock::default()
        }

        pub(crate) fn get(&self) -> Option<&T> {
            self.value.get().filter(|_| self.is_set.load(Ordering::Acquire))
        }

        pub(crate) fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
            let is_new = self.value.get().is_none();
            let value = self.value.get_or_init(make);
            if is_new {
                self.is_set.store(true, PUBLISH);
            }
            value
        }
    }
}

pub(crate) use real::*;

/// What is behind a lock, whoever panicked with it.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
