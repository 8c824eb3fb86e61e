//! Memory under a limit: an allocation that fails is not the end of the process.
//!
//! Hardly anything here can go on without the memory that it asks for. So each thread of a runtime keeps a reserve once a
//! limit is set ([`limit`]). An allocation that fails gets a piece of it and is tried again, and from then on the process
//! is *short* ([`is_short`]): whoever would need more for new work, as acceptors and the pool of buffers do, waits. What goes
//! on meanwhile has the rest of the reserve. A few times per second each thread that gave some of its own up tries to get it
//! back; when all have theirs, the process is short no more.
//!
//! The reserve belongs to the thread's own heap in the allocator: what one thread frees is not at once there for another.
//! Other threads can have one ([`keep`]), which does not come back: they sleep until they are needed.

use std::alloc::{GlobalAlloc, Layout, alloc, dealloc};
use std::cell::Cell;
use std::ptr;

use thalweg_shared::{AtomicU32, AtomicU64, Ordering};

/// A piece of the reserve: larger than what is usually asked for, so that few are needed, and small enough to be found again
/// between what is in use.
const PIECE: Layout = match Layout::from_size_align(256 << 10, 64) {
    Ok(layout) => layout,
    Err(_) => unreachable!(),
};
/// Most pieces of a thread: 4 MB.
const PIECES_MAX: usize = 16;
/// Fewest pieces of a thread.
const PIECES_MIN: usize = 4;
/// All reserves together take this part of the limit, if that is within the bounds.
const SHARE: u64 = 8;

/// The limit in bytes, 0 for none.
static LIMIT: AtomicU64 = AtomicU64::new(0);
/// Threads that gave some of their reserve up.
static SHORT: AtomicU32 = AtomicU32::new(0);
/// Allocations that the reserve was needed for.
static FAILED: AtomicU64 = AtomicU64::new(0);

struct Reserve {
    pieces: [Cell<*mut u8>; PIECES_MAX],
    /// How many there are.
    held: Cell<usize>,
    /// How many there should be.
    wanted: Cell<usize>,
    /// The thread runs a loop, which gets back what it gave up.
    loops: Cell<bool>,
    /// The thread is counted in [`SHORT`].
    counted: Cell<bool>,
}

thread_local! {
    static RESERVE: Reserve = const {
        Reserve {
            pieces: [const { Cell::new(ptr::null_mut()) }; PIECES_MAX],
            held: Cell::new(0),
            wanted: Cell::new(0),
            loops: Cell::new(false),
            counted: Cell::new(false),
        }
    };
}

impl Reserve {
    fn count(&self, is_short: bool) {
        let is_short = is_short && self.loops.get();
        if self.counted.replace(is_short) != is_short {
            match is_short {
                true => SHORT.fetch_add(1, Ordering::Relaxed),
                false => SHORT.fetch_sub(1, Ordering::Relaxed),
            };
        }
    }

    /// Gives the allocator a piece back. False when there is none left.
    fn give_up(&self) -> bool {
        let Some(held) = self.held.get().checked_sub(1) else { return false };
        self.held.set(held);
        self.count(true);
        FAILED.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the piece came from `alloc` with this layout, and is no longer in the list.
        unsafe { dealloc(self.pieces[held].replace(ptr::null_mut()), PIECE) };
        true
    }

    /// Takes what is missing, as far as it is there.
    fn refill(&self) {
        let wanted = self.wanted.replace(0);
        let mut held = self.held.replace(0);
        while held < wanted {
            // Nothing is given up for it: no reserve is known meanwhile.
            // SAFETY: the layout is not empty.
            let piece = unsafe { alloc(PIECE) };
            if piece.is_null() {
                break;
            }
            self.pieces[held].set(piece);
            held += 1;
        }
        self.held.set(held);
        self.wanted.set(wanted);
        self.count(held < wanted);
    }
}

/// Says which limit the process was given, in bytes; 0 for none. The calling thread [keeps](keep) a reserve from now on, and
/// so does each that begins a loop.
pub fn limit(bytes: u64) {
    LIMIT.store(bytes, Ordering::Relaxed);
    keep();
}

/// The calling thread, which runs no loop, keeps a small reserve if there is a limit: what it does must not fail.
pub fn keep() {
    RESERVE.with(|reserve| {
        reserve.wanted.set(if limited_to() > 0 { PIECES_MIN } else { 0 });
        reserve.refill();
    });
}

/// The limit in bytes; 0 for none.
pub fn limited_to() -> u64 {
    LIMIT.load(Ordering::Relaxed)
}

/// Whether an allocation failed and not all of the reserve is there again: nothing new should be begun.
#[inline]
pub fn is_short() -> bool {
    SHORT.load(Ordering::Relaxed) > 0
}

/// How many allocations would have failed without a reserve, so far.
pub fn failures() -> u64 {
    FAILED.load(Ordering::Relaxed)
}

/// The thread begins its loop, as one of so many: it needs a reserve from now on, if there is a limit.
pub(crate) fn enter(threads: usize) {
    let limit = limited_to();
    if limit == 0 {
        return;
    }
    let pieces = limit / SHARE / PIECE.size() as u64 / threads as u64;
    RESERVE.with(|reserve| {
        reserve.loops.set(true);
        reserve.wanted.set((pieces as usize).clamp(PIECES_MIN, PIECES_MAX));
        reserve.refill();
    });
}

/// The thread's loop is over.
pub(crate) fn leave() {
    RESERVE.with(|reserve| {
        reserve.wanted.set(0);
        reserve.loops.set(false);
        reserve.count(false);
        while reserve.give_up() {
            FAILED.fetch_sub(1, Ordering::Relaxed);
        }
    });
}

/// Whether this thread gave some of its reserve up.
pub(crate) fn is_lacking() -> bool {
    RESERVE.with(|reserve| reserve.counted.get())
}

/// Tries to get the reserve back, once what is free was given to the allocator.
#[cold]
pub(crate) fn recover() {
    RESERVE.with(Reserve::refill);
}

/// An allocator that is given the thread's reserve when it fails.
pub struct WithReserve<A>(pub A);

impl<A> WithReserve<A> {
    #[cold]
    fn again(allocate: impl Fn() -> *mut u8) -> *mut u8 {
        while RESERVE.with(Reserve::give_up) {
            let block = allocate();
            if !block.is_null() {
                return block;
            }
        }
        ptr::null_mut()
    }
}

// SAFETY: every block comes from the allocator inside, and goes back to it with the layout it was asked for.
unsafe impl<A: GlobalAlloc> GlobalAlloc for WithReserve<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the promises that the allocator inside asks for.
        let allocate = || unsafe { self.0.alloc(layout) };
        let block = allocate();
        if block.is_null() { Self::again(allocate) } else { block }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        let allocate = || unsafe { self.0.alloc_zeroed(layout) };
        let block = allocate();
        if block.is_null() { Self::again(allocate) } else { block }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above; a block that could not be moved is still there.
        let allocate = || unsafe { self.0.realloc(block, layout, size) };
        let moved = allocate();
        if moved.is_null() { Self::again(allocate) } else { moved }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { self.0.dealloc(block, layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails as often as it is told to.
    struct Failing(Cell<u32>);

    // SAFETY: blocks are those of the process's allocator.
    unsafe impl GlobalAlloc for Failing {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            match self.0.get() {
                // SAFETY: the caller's promises are passed on.
                0 => unsafe { alloc(layout) },
                n => {
                    self.0.set(n - 1);
                    ptr::null_mut()
                }
            }
        }

        unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
            // SAFETY: as above.
            unsafe { dealloc(block, layout) }
        }
    }

    #[test]
    fn what_fails_gets_the_reserve_and_the_process_is_short_until_it_is_back() {
        // Before it runs a loop, a thread has one that nobody waits for.
        limit(8 << 20);
        let held = || RESERVE.with(|r| r.held.get());
        let allocator = WithReserve(Failing(Cell::new(1)));
        let layout = Layout::new::<u64>();
        // SAFETY: the layout is not empty, and the block came from this allocator with it.
        unsafe { allocator.dealloc(allocator.alloc(layout), layout) };
        assert_eq!((held(), is_short(), failures()), (3, false, 1));
        enter(1);
        assert_eq!((held(), is_short()), (4, false));
        allocator.0.0.set(3);
        // SAFETY: as above.
        let block = unsafe { allocator.alloc(layout) };
        assert!(!block.is_null() && is_short() && is_lacking());
        assert_eq!((held(), failures()), (1, 4));
        allocator.0.0.set(2);
        // SAFETY: as above.
        assert!(unsafe { allocator.alloc(layout) }.is_null(), "one piece is not enough for two failures");
        recover();
        assert_eq!((held(), is_short()), (4, false));
        // SAFETY: as above.
        unsafe { allocator.dealloc(block, layout) };
        leave();
        assert_eq!((held(), is_short(), is_lacking(), failures()), (0, false, false, 5));
        limit(0);
    }
}
