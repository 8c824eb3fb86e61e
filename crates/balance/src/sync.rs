//! The one door through which atomics enter this crate, so that the same code runs under loom, and so that tests can
//! count how often a thread writes what others write.

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(loom)]
pub use std::sync::Mutex;
pub use std::sync::MutexGuard;
#[cfg(loom)]
pub use std::sync::atomic::AtomicUsize;
#[cfg(not(loom))]
pub use thalweg_shared::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Mutex, Ordering};
