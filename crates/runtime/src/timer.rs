//! Deadlines of the current task.
//!
//! A task has one timer. Each time it is polled, whatever in it waits for a time says so with [`want`]; the
//! earliest is the task's deadline until its next poll. A deadline that is not earlier than the one filed costs a
//! comparison. The task is woken with [`crate::Reason::TIMER`] once the millisecond has come, never before.
//!
//! Times are milliseconds of [`clock::now_ms`].

use crate::clock;
use crate::scheduler;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Asks that the current task runs again at `deadline_ms` at the latest. Holds until its next poll, which must ask
/// again. Nothing outside of a task.
#[inline]
pub fn want(deadline_ms: u64) {
    scheduler::want(deadline_ms);
}

/// Waits until `deadline_ms` has come.
pub fn sleep_until(deadline_ms: u64) -> SleepUntil {
    SleepUntil(deadline_ms)
}

/// Waits for at least `duration_ms`, counted from the call.
pub fn sleep(duration_ms: u64) -> SleepUntil {
    SleepUntil(deadline_in(duration_ms))
}

/// The first millisecond that begins at least `duration_ms` from now. Reads the clock anew, since the round's may be
/// behind.
pub fn deadline_in(duration_ms: u64) -> u64 {
    (clock::precise_ns().div_ceil(1_000_000)).saturating_add(duration_ms)
}

/// See [`sleep_until`].
#[derive(Debug)]
#[must_use = "it waits only when awaited"]
pub struct SleepUntil(u64);

impl Future for SleepUntil {
    type Output = ();
    #[inline]
    fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<()> {
        if clock::now_ms() >= self.0 {
            return Poll::Ready(());
        }
        want(self.0);
        Poll::Pending
    }
}

/// A point in time that may be moved or absent, to be polled beside other work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deadline(pub Option<u64>);

impl Deadline {
    /// Never.
    pub const NEVER: Deadline = Deadline(None);

    /// `duration_ms` after this round's time; `None` is never. The usual way to (re)arm a timeout: it does not read
    /// the clock.
    #[inline]
    pub fn after(duration_ms: Option<u64>) -> Deadline {
        Deadline(duration_ms.map(|d| clock::now_ms().saturating_add(d)))
    }

    /// Whether it has come.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.0.is_some_and(|d| clock::now_ms() >= d)
    }

    /// Ready when it has come; otherwise asks to be polled again then.
    #[inline]
    pub fn poll(&self) -> Poll<()> {
        match self.0 {
            Some(d) if clock::now_ms() >= d => Poll::Ready(()),
            Some(d) => {
                want(d);
                Poll::Pending
            }
            None => Poll::Pending,
        }
    }

    /// The earlier of two.
    pub fn min(self, other: Deadline) -> Deadline {
        match (self.0, other.0) {
            (Some(a), Some(b)) => Deadline(Some(a.min(b))),
            (a, b) => Deadline(a.or(b)),
        }
    }
}

/// The deadline of a [`timeout_at`] came first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the deadline passed")
    }
}

impl std::error::Error for Elapsed {}

/// Runs `future` until it is ready or `deadline_ms` has come. `None` never comes. A future that is ready at its deadline
/// wins.
pub fn timeout_at<F: Future>(deadline_ms: Option<u64>, future: F) -> Timeout<F> {
    Timeout { deadline: Deadline(deadline_ms), future }
}

/// See [`timeout_at`].
#[must_use = "it runs only when awaited"]
pub struct Timeout<F> {
    deadline: Deadline,
    future: F,
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;
    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: `future` is pinned with the whole and is not moved out of it; `deadline` is not pinned.
        let (future, deadline) = unsafe {
            let this = self.get_unchecked_mut();
            (Pin::new_unchecked(&mut this.future), this.deadline)
        };
        if let Poll::Ready(output) = future.poll(cx) {
            return Poll::Ready(Ok(output));
        }
        ready!(deadline.poll());
        Poll::Ready(Err(Elapsed))
    }
}

/// A periodic deadline without drift: ticks lie at whole multiples of the period from its start, however late each is
/// noticed.
#[derive(Clone, Copy, Debug)]
pub struct Interval {
    next_ms: u64,
    period_ms: u64,
}

impl Interval {
    /// Ticks every `period_ms` (at least 1), first one period from now.
    pub fn new(period_ms: u64) -> Interval {
        let period_ms = period_ms.max(1);
        Interval { next_ms: deadline_in(period_ms), period_ms }
    }

    /// Waits for the next tick. Returns how many have come since the last call: more than 1 when some were missed.
    pub fn tick(&mut self) -> impl Future<Output = u64> + '_ {
        std::future::poll_fn(move |_| self.poll_tick())
    }

    /// As [`Interval::tick`], to be polled beside other work.
    pub fn poll_tick(&mut self) -> Poll<u64> {
        let now = clock::now_ms();
        if now < self.next_ms {
            want(self.next_ms);
            return Poll::Pending;
        }
        let ticks = 1 + (now - self.next_ms) / self.period_ms;
        self.next_ms += ticks * self.period_ms;
        Poll::Ready(ticks)
    }

    /// When the next tick is due.
    pub fn next_ms(&self) -> u64 {
        self.next_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_combine() {
        let (a, b) = (Deadline(Some(5)), Deadline(Some(7)));
        assert_eq!((a.min(b), b.min(a), a.min(Deadline::NEVER), Deadline::NEVER.min(b)), (a, a, a, b));
        assert!(!Deadline::NEVER.is_over() && Deadline(Some(0)).is_over());
    }

    #[test]
    fn an_interval_does_not_drift() {
        clock::set_virtual(10_000_000_000, 0);
        clock::refresh();
        let mut interval = Interval::new(100);
        let mut seen = Vec::new();
        for ms in [10_099, 10_100, 10_150, 10_203, 10_399, 10_400, 10_755] {
            clock::set_virtual(ms * 1_000_000, 0);
            clock::refresh();
            if let Poll::Ready(n) = interval.poll_tick() {
                seen.push((ms, n, interval.next_ms()));
            }
        }
        assert_eq!(
            seen,
            [
                (10_100, 1, 10_200),
                (10_203, 1, 10_300),
                (10_399, 1, 10_400),
                (10_400, 1, 10_500),
                (10_755, 3, 10_800)
            ]
        );
        clock::leave();
    }
}
