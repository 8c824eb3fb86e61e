//! Words and locks that threads share: the standard library's, which count in builds with debug assertions what a thread
//! writes of them. A test holds a request of the steady state to what ARCHITECTURE.md says that it writes
//! (`crates/proxy/tests/shared_words.rs`), so this is the one door through which the crates of the data path get them. Builds
//! without debug assertions have the standard library's and nothing else.
//!
//! What only its own thread writes, and others read, is not shared in this sense.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub use std::sync::atomic::{Ordering, fence};
use std::sync::{LockResult, TryLockResult};
pub use std::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

#[cfg(debug_assertions)]
thread_local! {
    static WRITES: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    static LOCKS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// How often the calling thread has written a word that other threads write, or taken a lock. Builds without debug
/// assertions do not count: 0.
pub fn writes() -> u64 {
    #[cfg(debug_assertions)]
    return WRITES.get();
    #[cfg(not(debug_assertions))]
    return 0;
}

/// How many of those writes took a lock, or tried to.
pub fn locks() -> u64 {
    #[cfg(debug_assertions)]
    return LOCKS.get();
    #[cfg(not(debug_assertions))]
    return 0;
}

#[inline(always)]
fn locked() {
    written();
    #[cfg(debug_assertions)]
    LOCKS.set(LOCKS.get() + 1);
}

#[inline(always)]
fn written() {
    #[cfg(debug_assertions)]
    WRITES.set(WRITES.get() + 1);
}

/// Both compare-and-exchange methods of an atomic.
macro_rules! compare_exchange {
    ($value:ty, $($(#[$about:meta])* $method:ident)+) => {$(
        $(#[$about])*
        ///
        /// # Errors
        /// What it is instead.
        #[inline(always)]
        pub fn $method(
            &self,
            current: $value,
            new: $value,
            success: Ordering,
            failure: Ordering,
        ) -> Result<$value, $value> {
            written();
            self.0.$method(current, new, success, failure)
        }
    )+};
}

macro_rules! atomic {
    ($($name:ident: $value:ty, { $($method:ident)* };)+) => {$(
        /// A word that several threads write.
        #[derive(Debug, Default)]
        pub struct $name(std::sync::atomic::$name);

        impl $name {
            /// A new one.
            pub const fn new(value: $value) -> $name {
                $name(std::sync::atomic::$name::new(value))
            }

            /// Reads.
            #[inline(always)]
            pub fn load(&self, order: Ordering) -> $value {
                self.0.load(order)
            }

            /// Writes.
            #[inline(always)]
            pub fn store(&self, value: $value, order: Ordering) {
                written();
                self.0.store(value, order);
            }

            compare_exchange! {
                $value,
                /// Writes if it is what it was thought to be.
                compare_exchange
                /// The same, but may fail without a reason.
                compare_exchange_weak
            }

            /// Writes what `f` makes of it, or nothing.
            ///
            /// # Errors
            /// What it is when `f` made nothing of it.
            #[inline(always)]
            pub fn fetch_update(
                &self,
                set: Ordering,
                fetch: Ordering,
                f: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                written();
                self.0.fetch_update(set, fetch, f)
            }

            $(
                /// As in the standard library: changes the word and returns what it was.
                #[inline(always)]
                pub fn $method(&self, value: $value, order: Ordering) -> $value {
                    written();
                    self.0.$method(value, order)
                }
            )*
        }
    )+};
}

atomic! {
    AtomicBool: bool, { swap };
    AtomicU8: u8, { swap fetch_max };
    AtomicU32: u32, { swap fetch_add fetch_sub fetch_max fetch_or };
    AtomicU64: u64, { swap fetch_add fetch_sub fetch_max fetch_or fetch_and };
    AtomicUsize: usize, { swap fetch_add fetch_sub fetch_max };
}

/// A pointer that several threads write.
#[derive(Debug)]
pub struct AtomicPtr<T>(std::sync::atomic::AtomicPtr<T>);

impl<T> AtomicPtr<T> {
    /// A new one.
    pub const fn new(value: *mut T) -> AtomicPtr<T> {
        AtomicPtr(std::sync::atomic::AtomicPtr::new(value))
    }

    /// Reads.
    #[inline(always)]
    pub fn load(&self, order: Ordering) -> *mut T {
        self.0.load(order)
    }

    /// Writes.
    #[inline(always)]
    pub fn store(&self, value: *mut T, order: Ordering) {
        written();
        self.0.store(value, order);
    }

    /// Writes and returns what it was.
    #[inline(always)]
    pub fn swap(&self, value: *mut T, order: Ordering) -> *mut T {
        written();
        self.0.swap(value, order)
    }

    compare_exchange! {
        *mut T,
        /// Writes if it is what it was thought to be.
        compare_exchange
    }
}

/// A lock.
#[derive(Debug, Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// A new one.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(std::sync::Mutex::new(value))
    }

    /// Waits for it.
    ///
    /// # Errors
    /// When somebody panicked with it.
    #[inline(always)]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        locked();
        self.0.lock()
    }

    /// Takes it if nobody has it.
    ///
    /// # Errors
    /// When somebody has it, or panicked with it.
    #[inline(always)]
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        locked();
        self.0.try_lock()
    }

    /// What it guards, of its one owner.
    ///
    /// # Errors
    /// When somebody panicked with it.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.0.get_mut()
    }

    /// What it guarded.
    ///
    /// # Errors
    /// When somebody panicked with it.
    pub fn into_inner(self) -> LockResult<T> {
        self.0.into_inner()
    }
}

/// A lock that several may read behind. Who reads writes its word, too.
#[derive(Debug, Default)]
pub struct RwLock<T>(std::sync::RwLock<T>);

impl<T> RwLock<T> {
    /// A new one.
    pub const fn new(value: T) -> RwLock<T> {
        RwLock(std::sync::RwLock::new(value))
    }

    /// Waits until nobody writes.
    ///
    /// # Errors
    /// When somebody panicked who wrote.
    #[inline(always)]
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        locked();
        self.0.read()
    }

    /// Waits until nobody reads or writes.
    ///
    /// # Errors
    /// When somebody panicked who wrote.
    #[inline(always)]
    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        locked();
        self.0.write()
    }

    /// What it guards, of its one owner.
    ///
    /// # Errors
    /// When somebody panicked who wrote.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.0.get_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_counted() {
        if !cfg!(debug_assertions) {
            return;
        }
        let (word, lock, many) = (AtomicU64::new(1), Mutex::new(2), RwLock::new(3));
        let counted = |act: &dyn Fn()| {
            let before = writes();
            act();
            writes() - before
        };
        let before = locks();
        assert_eq!(counted(&|| assert_eq!(word.load(Ordering::Relaxed), 1)), 0);
        assert_eq!(counted(&|| word.store(2, Ordering::Relaxed)), 1);
        assert_eq!(counted(&|| assert_eq!(word.fetch_add(2, Ordering::Relaxed), 2)), 1);
        assert_eq!(counted(&|| drop(lock.lock())), 1);
        assert_eq!(counted(&|| drop(many.read())), 1);
        assert_eq!(counted(&|| drop(many.write())), 1);
        assert_eq!(locks() - before, 3);
        std::thread::scope(|s| s.spawn(|| word.store(3, Ordering::Relaxed)).join().unwrap());
        assert_eq!(counted(&|| ()), 0, "only what this thread does");
    }
}
