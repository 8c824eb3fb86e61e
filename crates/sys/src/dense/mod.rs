//! An allocator that shrinks again, for what stays when much around it goes.
//!
//! mimalloc, which allocates everything else, has pages of 64 kB with blocks of one size each, for each thread. That is fast, but where
//! a configuration of 10,000 servers gives way to one of a few, what is left of it is some blocks of each size, and each of
//! those keeps a page. So threads that read configurations ([`allocate_densely`]), and what those who serve keep of each server
//! ([`densely`]), allocate here:
//!
//! ```text
//! region --- chunk of 1 MB, open ----- notes of its pages (4 kB)
//!        |                         |-- page of 4 kB: blocks of one size
//!        |                         |-- pages of 4 kB: one block
//!        |                         `-- free pages, which go back to the system with `give_back`
//!        `-- chunk, closed: addresses only
//! ```
//!
//! There is one lock for each [`Purpose`]. Who serves never waits for it: a block is then allocated by mimalloc, and one that
//! is freed lies in a list until somebody else has the lock. All blocks are in one region of addresses, by which it is
//! known whose they are.

mod arena;
mod system;

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

use arena::{ARENA, Arena, MOST, PAGE};

/// What is allocated here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// What threads allocate that serve nobody.
    Aside,
    /// What others keep for long.
    Kept,
}

thread_local! {
    /// What the thread allocates here, if it does.
    static PURPOSE: Cell<Option<Purpose>> = const { Cell::new(None) };
}

/// The calling thread, which serves nobody, allocates here from now on.
pub fn allocate_densely() {
    PURPOSE.set(Some(Purpose::Aside));
}

/// What `make` allocates is here, as it stays for long and little.
#[cold]
pub fn densely<T>(make: impl FnOnce() -> T) -> T {
    struct Before(Option<Purpose>);
    impl Drop for Before {
        fn drop(&mut self) {
            PURPOSE.set(self.0);
        }
    }
    let before = PURPOSE.get();
    let _before = Before(before);
    PURPOSE.set(Some(before.unwrap_or(Purpose::Kept)));
    make()
}

/// What the calling thread allocates from now on is not in pages of what was there before, which may all go together. Without
/// effect while so much is free in those that they had better be filled.
pub fn begin_anew() {
    if let Some(purpose) = PURPOSE.get() {
        locked(purpose).begin_anew();
    }
}

/// Returns pages that are free to the system. A thread that serves leaves those of others to them, as there may be many.
pub(crate) fn give_back() {
    if REGION.load(Ordering::Relaxed) == NOWHERE {
        return;
    }
    if PURPOSE.get() == Some(Purpose::Aside) {
        locked(Purpose::Aside).give_back();
    }
    if let Some(mut arena) = locked_for_caller(Purpose::Kept) {
        arena.give_back();
    }
}

/// Where all of it is.
static REGION: AtomicUsize = AtomicUsize::new(NOWHERE);
/// No block is as many bytes behind it as are in the region.
const NOWHERE: usize = 1 << (usize::BITS - 1);

static ARENAS: [Mutex<Arena>; 2] = [const { Mutex::new(Arena::new()) }; 2];

/// Blocks that were freed while the arena was locked, each with the address of the next.
static LEFT: [AtomicPtr<u8>; 2] = [const { AtomicPtr::new(ptr::null_mut()) }; 2];

/// What it was allocated for, if it was here.
#[inline]
fn purpose_of(block: *mut u8) -> Option<Purpose> {
    match block.addr().wrapping_sub(REGION.load(Ordering::Relaxed)) {
        at if at >= 2 * ARENA => None,
        at if at >= ARENA => Some(Purpose::Kept),
        _ => Some(Purpose::Aside),
    }
}

/// The arena of a purpose. What it holds is valid at any time, whatever happened to who had it.
fn locked(purpose: Purpose) -> MutexGuard<'static, Arena> {
    let mut arena = ARENAS[purpose as usize].lock().unwrap_or_else(PoisonError::into_inner);
    free_left(&mut arena, purpose);
    arena
}

/// Frees what others freed while it was locked.
fn free_left(arena: &mut Arena, purpose: Purpose) {
    let left = &LEFT[purpose as usize];
    if left.load(Ordering::Relaxed).is_null() {
        return;
    }
    let mut block = left.swap(ptr::null_mut(), Ordering::Acquire);
    while !block.is_null() {
        // SAFETY: who left it wrote the next one there, and every block has room for that and is aligned for it.
        let next = unsafe { block.cast::<*mut u8>().read() };
        // SAFETY: it is of this arena, and was freed.
        unsafe { arena.free(block) };
        block = next;
    }
}

/// The arena, if nobody has it.
fn locked_now(purpose: Purpose) -> Option<MutexGuard<'static, Arena>> {
    let mut arena = match ARENAS[purpose as usize].try_lock() {
        Ok(arena) => arena,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => return None,
    };
    free_left(&mut arena, purpose);
    Some(arena)
}

/// The arena, for a thread that serves nobody; for others only if nobody has it.
fn locked_for_caller(purpose: Purpose) -> Option<MutexGuard<'static, Arena>> {
    match PURPOSE.get() {
        Some(Purpose::Aside) => Some(locked(purpose)),
        _ => locked_now(purpose),
    }
}

/// Where blocks are, once there are any. None where the process may not have so many addresses.
fn region() -> Option<*mut u8> {
    struct Region(*mut u8);
    // SAFETY: an address.
    unsafe impl Send for Region {}
    // SAFETY: an address.
    unsafe impl Sync for Region {}
    static WHERE: OnceLock<Option<Region>> = OnceLock::new();
    let region = WHERE.get_or_init(|| {
        let region = system::reserve(2 * ARENA)?;
        REGION.store(region.expose_provenance(), Ordering::Relaxed);
        Some(Region(region))
    });
    region.as_ref().map(|region| region.0)
}

/// An allocator, beside which this one is used.
pub struct Dense<A>(pub A);

impl<A: GlobalAlloc> Dense<A> {
    /// A block from here, and whether it is all zeros.
    #[cold]
    fn alloc(purpose: Purpose, layout: Layout) -> Option<(NonNull<u8>, bool)> {
        if layout.size() > MOST || layout.align() > PAGE || layout.size() == 0 {
            return None;
        }
        let mut arena = locked_for_caller(purpose)?;
        if !arena.has_begun() {
            arena.begin(region()?.wrapping_add(purpose as usize * ARENA));
        }
        arena.alloc(layout)
    }

    /// Frees a block from here.
    #[cold]
    unsafe fn free(purpose: Purpose, block: *mut u8) {
        match locked_for_caller(purpose) {
            // SAFETY: the caller says that it is one, and of this arena as its address says.
            Some(mut arena) => unsafe { arena.free(block) },
            None => {
                let left = &LEFT[purpose as usize];
                let mut next = left.load(Ordering::Relaxed);
                loop {
                    // SAFETY: nobody uses the block, which has room for an address and is aligned for it.
                    unsafe { block.cast::<*mut u8>().write(next) };
                    match left.compare_exchange_weak(next, block, Ordering::Release, Ordering::Relaxed) {
                        Ok(_) => break,
                        Err(now) => next = now,
                    }
                }
            }
        }
    }

    /// Moves a block from here or to here, or leaves it where there is room.
    #[cold]
    unsafe fn resize(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if let Some(purpose) = purpose_of(block) {
            let room = locked_for_caller(purpose).map_or(layout.size(), |mut arena| arena.room(block));
            if size <= room && size >= room / 2 {
                return block;
            }
        }
        // SAFETY: the alignment is that of a layout, and the caller says that the size is not too large for it.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        // SAFETY: the caller says that it is not empty.
        let moved = unsafe { GlobalAlloc::alloc(self, wanted) };
        if !moved.is_null() {
            // SAFETY: both have room for as much, and one of them was just made.
            unsafe { ptr::copy_nonoverlapping(block, moved, layout.size().min(size)) };
            // SAFETY: it was allocated with that layout, and the caller uses the other one from now on.
            unsafe { self.dealloc(block, layout) };
        }
        moved
    }
}

// SAFETY: every block comes from here or from the allocator inside, and goes back to where it came from, which its address tells.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Dense<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if let Some(purpose) = PURPOSE.get()
            && let Some((block, _)) = Self::alloc(purpose, layout)
        {
            return block.as_ptr();
        }
        // SAFETY: the caller keeps the promises that the allocator inside asks for.
        unsafe { self.0.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if let Some(purpose) = PURPOSE.get()
            && let Some((block, is_zero)) = Self::alloc(purpose, layout)
        {
            if !is_zero {
                // SAFETY: it is at least as long.
                unsafe { block.as_ptr().write_bytes(0, layout.size()) };
            }
            return block.as_ptr();
        }
        // SAFETY: as above.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if PURPOSE.get().is_some() || purpose_of(block).is_some() {
            // SAFETY: the caller's promises are passed on.
            return unsafe { self.resize(block, layout, size) };
        }
        // SAFETY: as above; the block is not from here.
        unsafe { self.0.realloc(block, layout, size) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match purpose_of(block) {
            // SAFETY: it is from here, and the caller does not use it any more.
            Some(purpose) => unsafe { Self::free(purpose, block) },
            // SAFETY: as above.
            None => unsafe { self.0.dealloc(block, layout) },
        }
    }
}

#[cfg(test)]
mod tests;
