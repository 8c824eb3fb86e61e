//! What the system is asked for.

use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::arena::CHUNK;

/// Addresses without memory, which begin at a multiple of [`CHUNK`].
pub(super) fn reserve(len: usize) -> Option<*mut u8> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | if cfg!(miri) { 0 } else { libc::MAP_NORESERVE };
    let rights = if cfg!(miri) { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_NONE };
    // SAFETY: a fresh mapping; the result is looked at.
    let start = unsafe { libc::mmap(ptr::null_mut(), len + CHUNK, rights, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return None;
    }
    let start = start.cast::<u8>();
    let region = start.wrapping_add(start.addr().next_multiple_of(CHUNK) - start.addr());
    // A page that is used is not to take 2 MB.
    if cfg!(not(miri)) {
        // SAFETY: of the mapping that was just made.
        unsafe { libc::madvise(region.cast(), len, libc::MADV_NOHUGEPAGE) };
    }
    Some(region)
}

/// Lets a part of it be used, which is zeros. False where there is no memory for it.
pub(super) fn open(start: *mut u8, len: usize) -> bool {
    // SAFETY: of a mapping of this module, and nobody uses it yet.
    cfg!(miri) || unsafe { libc::mprotect(start.cast(), len, libc::PROT_READ | libc::PROT_WRITE) == 0 }
}

/// Takes that back, with what is in it, which nobody uses any more. False where it stays as it is.
pub(super) fn close(start: *mut u8, len: usize) -> bool {
    // SAFETY: of a mapping of this module, and nobody uses it.
    give_back(start, len)
        && (cfg!(miri) || unsafe { libc::mprotect(start.cast(), len, libc::PROT_NONE) == 0 })
}

/// Returns memory that nobody uses, whole pages of the system. It is zeros then, unless this is false.
pub(super) fn give_back(start: *mut u8, len: usize) -> bool {
    if cfg!(miri) {
        // SAFETY: of a mapping of this module, and nobody uses it.
        unsafe { start.write_bytes(0, len) };
        return true;
    }
    // SAFETY: of a mapping of this module, and nobody uses it.
    unsafe { libc::madvise(start.cast(), len, libc::MADV_DONTNEED) == 0 }
}

/// Bytes of a page of the system.
pub(super) fn page_len() -> usize {
    static LEN: AtomicUsize = AtomicUsize::new(0);
    match LEN.load(Ordering::Relaxed) {
        0 => {
            // SAFETY: asks for a number.
            let len = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(CHUNK);
            LEN.store(len, Ordering::Relaxed);
            len
        }
        len => len,
    }
}
