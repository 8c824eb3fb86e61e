//! Checks that are due within a few milliseconds begin together: each time that a thread wakes up for one alone costs as much as
//! a system call or two, and all that it needs has left the processor's cache.
//!
//! How far a check may be put off follows from how many a thread has: [`BUNCH`] of them in a bunch, so that whoever else is served
//! on that thread waits no longer for a bunch than for a large request, and never more than [`LATEST_MS`].

use std::cell::Cell;

/// How many checks begin together at most, on average.
const BUNCH: u64 = 16;
/// How much later than its moment a check may begin, in milliseconds, however few there are.
const LATEST_MS: u64 = 5;
/// The share of its interval by which a check may be late.
const LATE_SHARE: u64 = 200;

thread_local! {
    /// Checks of this thread in a million milliseconds.
    static PACE: Cell<u64> = const { Cell::new(0) };
}

/// A server is checked on this thread from now on, once in so many milliseconds.
pub(super) fn join(interval_ms: u64) {
    PACE.set(PACE.get() + share(interval_ms));
}

/// It is not any more.
pub(super) fn leave(interval_ms: u64) {
    PACE.set(PACE.get() - share(interval_ms));
}

fn share(interval_ms: u64) -> u64 {
    1_000_000 / interval_ms.max(1)
}

/// When a check begins that is due at `due_ms`, one of a server that is checked once in `interval_ms`.
pub(super) fn moment(due_ms: u64, interval_ms: u64) -> u64 {
    let most = LATEST_MS.min(interval_ms / LATE_SHARE);
    due_ms.next_multiple_of((BUNCH * 1_000_000 / PACE.get().max(1)).min(most).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_put_off_to_the_next_bunch_and_no_further() {
        // How many servers, their interval, and the milliseconds between two bunches.
        for (servers, interval_ms, apart) in [
            (1, 2_000, 5),
            (1, 600, 3),
            (1, 399, 1),
            (1, 1, 1),
            (1, 10_000_000, 5),
            (3_200, 1_000, 5),
            (4_000, 1_000, 4),
            (10_000, 2_000, 3),
            (100_000, 2_000, 1),
        ] {
            (0..servers).for_each(|_| join(interval_ms));
            let moments = (moment(6_000, interval_ms), moment(6_001, interval_ms));
            assert_eq!(moments, (6_000, 6_000 + apart), "{servers} {interval_ms}");
            (0..servers).for_each(|_| leave(interval_ms));
            assert_eq!(PACE.get(), 0, "{servers} {interval_ms}");
        }
    }
}
