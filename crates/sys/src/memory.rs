//! Memory, as far as the program's allocator is asked for more than to allocate.

// For its library, which has the function below.
use mimalloc as _;

unsafe extern "C" {
    /// mimalloc's: frees what the calling thread's heap keeps for later; `force`: and returns all free pages to the system
    /// now rather than when it next has reason to.
    fn mi_collect(force: bool);
}

/// Frees pages of the calling thread that other threads emptied: those who allocate small things only would not look at them.
/// Takes some 10 microseconds, and no longer when much is in use.
pub fn free_emptied_pages() {
    // SAFETY: as below.
    unsafe { mi_collect(false) };
}

/// Returns the pages that mimalloc keeps for the calling thread, and those it keeps for all, to the system. Takes longer
/// than is good on the path of a request. Without effect where another allocator is in use.
pub fn give_back_pages() {
    // SAFETY: takes no pointer, may be called on any thread at any time outside of an allocation.
    unsafe { mi_collect(true) };
}
