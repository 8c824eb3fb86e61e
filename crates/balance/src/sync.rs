//! The one door through which atomics enter this crate, so that the same code runs under loom, and so that tests can
//! count how often a thread writes what others write.

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
pub use shared::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Mutex};
#[cfg(loom)]
pub use std::sync::Mutex;
pub use std::sync::MutexGuard;
#[cfg(loom)]
pub use std::sync::atomic::AtomicUsize;
#[cfg(not(loom))]
pub use std::sync::atomic::Ordering;

/// How often the calling thread has written a word that other threads write, or taken a lock. Builds without debug
/// assertions do not count: 0.
#[cfg(not(loom))]
pub fn shared_writes() -> u64 {
    shared::count()
}

/// Atomics and locks that are the standard library's, and count in builds with debug assertions.
#[cfg(not(loom))]
mod shared {
    use std::sync::atomic::Ordering;
    use std::sync::{LockResult, MutexGuard};

    #[cfg(debug_assertions)]
    thread_local! {
        static WRITES: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    }

    #[cfg(debug_assertions)]
    fn written() {
        WRITES.set(WRITES.get() + 1);
    }

    #[cfg(not(debug_assertions))]
    #[inline(always)]
    fn written() {}

    #[cfg(debug_assertions)]
    pub fn count() -> u64 {
        WRITES.get()
    }

    #[cfg(not(debug_assertions))]
    pub fn count() -> u64 {
        0
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

                /// Writes if it is what it was thought to be.
                ///
                /// # Errors
                /// What it is instead.
                #[inline(always)]
                pub fn compare_exchange(
                    &self,
                    current: $value,
                    new: $value,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$value, $value> {
                    written();
                    self.0.compare_exchange(current, new, success, failure)
                }

                /// The same, but may fail without a reason.
                ///
                /// # Errors
                /// What it is instead.
                #[inline(always)]
                pub fn compare_exchange_weak(
                    &self,
                    current: $value,
                    new: $value,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$value, $value> {
                    written();
                    self.0.compare_exchange_weak(current, new, success, failure)
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
        AtomicU32: u32, { swap fetch_add fetch_sub fetch_max };
        AtomicU64: u64, { swap fetch_add fetch_sub fetch_max };
        AtomicUsize: usize, { swap fetch_add fetch_sub fetch_max };
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
            written();
            self.0.lock()
        }
    }
}
