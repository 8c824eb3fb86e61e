//! The one door through which concurrent code gets its atomics, so that the same code runs under loom.
//!
//! Only what several threads really share goes through here: [`crate::mailbox`]. Under `--cfg loom` nothing else of
//! the crate is compiled.

#[cfg(loom)]
pub(crate) use loom::{
    hint::spin_loop,
    sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};

#[cfg(not(loom))]
pub(crate) use std::hint::spin_loop;
#[cfg(not(loom))]
pub(crate) use thalweg_shared::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

/// A sequentially consistent fence that directly follows a read-modify-write by this thread.
///
/// On x86-64 the locked instruction already is a full barrier, and a second one costs 20 to 40 cycles; only the
/// compiler must be held back. Everywhere else, and under loom, it is the fence.
#[inline]
pub(crate) fn fence_after_rmw() {
    #[cfg(planted)]
    return;
    #[cfg(all(not(loom), target_arch = "x86_64"))]
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
    #[cfg(any(loom, not(target_arch = "x86_64")))]
    #[allow(unreachable_code, reason = "the planted bug returns before")]
    fence(Ordering::SeqCst);
}
