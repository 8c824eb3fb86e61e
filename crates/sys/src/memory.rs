//! Memory, as far as the program's allocator is asked for more than to allocate.
//!
//! What a thread left behind that ended is nobody's: mimalloc has the first thread of the process take it over when that one gives
//! its own pages back, which takes milliseconds where there is much of it. So the first thread serves nobody ([`keep_while`]).

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

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

/// Returns the pages that mimalloc keeps for the calling thread, and those it keeps for all, to the system, and those of what is
/// [allocated densely](crate::dense), of which a thread that serves leaves to others what others allocated. Takes longer than is good on
/// the path of a request. Without effect where another allocator is in use.
pub fn give_back_pages() {
    crate::dense::give_back();
    // SAFETY: takes no pointer, may be called on any thread at any time outside of an allocation.
    unsafe { mi_collect(true) };
}

/// The thread in [`keep_while`].
static KEEPER: OnceLock<Thread> = OnceLock::new();
/// It was asked to give back what others left. The first time nobody has to: the start left much.
static IS_ASKED: AtomicBool = AtomicBool::new(true);
/// How long it waits for more of that, and for those to end who asked.
const GATHERING: Duration = Duration::from_secs(1);

/// Much was freed, or threads end that had much: in a while, what they leave is given back. Without effect where no thread is in
/// [`keep_while`].
pub fn give_back_what_is_left() {
    if let Some(keeper) = KEEPER.get() {
        IS_ASKED.store(true, Ordering::Release);
        keeper.unpark();
    }
}

/// Has a thread of that name do `work`. Until it ended, the calling thread, the first one of the process, gives back what other
/// threads leave.
///
/// # Errors
/// There can be no such thread.
///
/// # Panics
/// If `work` does.
pub fn keep_while<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<T> {
    /// Wakes the keeper, also when the work panics.
    struct Ends {
        is_over: Arc<AtomicBool>,
        keeper: Thread,
    }
    impl Drop for Ends {
        fn drop(&mut self) {
            self.is_over.store(true, Ordering::Release);
            self.keeper.unpark();
        }
    }
    let is_over = Arc::new(AtomicBool::new(false));
    let ends = Ends { is_over: Arc::clone(&is_over), keeper: thread::current() };
    let worker = thread::Builder::new().name(name.to_owned()).spawn(move || {
        let _ends = ends;
        work()
    })?;
    // It does not give way: how nice the process is shown to be is how nice its first thread is.
    let _ = KEEPER.set(thread::current());
    crate::dense::allocate_densely();
    while !is_over.load(Ordering::Acquire) {
        if !IS_ASKED.swap(false, Ordering::Acquire) {
            thread::park();
            continue;
        }
        let since = Instant::now();
        while let Some(left) =
            GATHERING.checked_sub(since.elapsed()).filter(|_| !is_over.load(Ordering::Acquire))
        {
            thread::park_timeout(left);
        }
        give_back_pages();
    }
    worker.join().or_else(|panic| resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_on_another_thread_and_its_end_is_the_end() {
        let here = thread::current().id();
        let kept = keep_while("works", move || {
            // While it waits for more of this, too.
            give_back_what_is_left();
            let since = Instant::now();
            while IS_ASKED.load(Ordering::Acquire) {
                assert!(since.elapsed() < Duration::from_secs(20), "nobody gives back");
                thread::yield_now();
            }
            (thread::current().id() != here, thread::current().name().map(str::to_owned))
        });
        assert_eq!(kept.unwrap(), (true, Some("works".to_owned())));
        let panicked = std::panic::catch_unwind(|| keep_while("panics", || panic!("as it has to")));
        assert!(panicked.is_err());
    }
}
