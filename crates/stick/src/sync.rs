//! The one door through which atomics and locks enter this crate, so that the same code runs under loom.

#[cfg(loom)]
pub(crate) use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU32, AtomicU64, Ordering, fence},
};
#[cfg(not(loom))]
pub(crate) use thalweg_shared::{AtomicU32, AtomicU64, Mutex, MutexGuard, Ordering, fence};
