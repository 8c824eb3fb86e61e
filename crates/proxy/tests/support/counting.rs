//! An allocator that counts what some threads ask of it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

struct Counting;

static COUNTING: AtomicBool = AtomicBool::new(false);
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Where the first allocation came from.
static FIRST: Mutex<Option<String>> = Mutex::new(None);

thread_local! {
    /// Set on the proxy's thread.
    static COUNTED: Cell<bool> = const { Cell::new(false) };
}

fn count() {
    if COUNTING.load(Ordering::Relaxed) && COUNTED.get() && COUNT.fetch_add(1, Ordering::Relaxed) == 0 {
        // Capturing allocates, too.
        COUNTED.set(false);
        let trace = Backtrace::force_capture().to_string();
        *FIRST.lock().unwrap() = Some(trace);
        COUNTED.set(true);
    }
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The calling thread's allocations are counted.
pub fn count_this_thread() {
    COUNTED.set(true);
}

/// How many there were while `f` ran.
pub fn counted(f: impl FnOnce()) -> usize {
    COUNT.store(0, Ordering::SeqCst);
    COUNTING.store(true, Ordering::SeqCst);
    f();
    COUNTING.store(false, Ordering::SeqCst);
    COUNT.load(Ordering::SeqCst)
}

/// Where the first one came from.
pub fn first() -> String {
    FIRST.lock().unwrap().take().unwrap_or_default()
}
