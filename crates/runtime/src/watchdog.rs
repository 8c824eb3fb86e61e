//! Finds tasks that run too long without yielding.
//!
//! Each thread has a kernel timer on its own CPU time, whose signal is delivered to that thread. Its handler notes
//! whether the same run of the same task still goes on as at the tick before. A thread that sleeps uses no CPU time,
//! so nothing wakes it; a task that yields in time costs one load. What is found is reported by the thread itself
//! when the task returns; a task that does not return for ten budgets is reported from the handler, straight to
//! standard error.
//!
//! While profiling is on, runs are timed anyway, and a run that exceeded the budget by sleeping in a system call is
//! found as well.

use crate::scheduler::{Local, local_ptr};
use std::cell::Cell;
use std::mem;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Ticks per budget: a run is over budget when it was seen by more than this many ticks in a row.
const TICKS: u32 = 4;
/// After this many budgets the handler itself reports.
const STUCK: u32 = 10;

/// Where handler and thread meet; both run on one thread, so relaxed atomics are plain accesses that the compiler does
/// not tear or cache.
#[derive(Default)]
pub(crate) struct Marks {
    /// The number of the run at the last tick.
    run: AtomicU64,
    /// Ticks that run has seen.
    ticks: AtomicU32,
}

impl Marks {
    /// Whether the run in progress (or just over) has seen a tick.
    #[inline]
    pub(crate) fn is_marked(&self) -> bool {
        self.ticks.load(Ordering::Relaxed) != 0
    }

    /// After a run: the ticks it saw, which are forgotten.
    pub(crate) fn take(&self) -> u32 {
        self.ticks.swap(0, Ordering::Relaxed)
    }
}

/// How long a run of `ticks` ticks took at least, if that is over the budget.
pub(crate) fn over_budget(ticks: u32, budget: Duration) -> Option<Duration> {
    // n ticks within a run are n - 1 whole intervals.
    (ticks > TICKS).then(|| budget / TICKS * (ticks - 1))
}

/// Stops the timer when dropped.
pub(crate) struct Watch {
    timer: libc::timer_t,
    _local: Cell<()>,
}

fn signal() -> libc::c_int {
    libc::SIGRTMIN() + 4
}

/// Starts the calling thread's watchdog. `None` when the kernel has no timer left: then there is none.
pub(crate) fn watch_current_thread(_local: &Local, budget: Duration) -> Option<Watch> {
    let tick = (budget / TICKS).max(Duration::from_millis(1));
    // SAFETY: plain system calls with initialised structures; all-zero is valid for each of these C types. The handler
    // only does what is allowed in one (see there).
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = on_tick as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        if libc::sigaction(signal(), &action, std::ptr::null_mut()) != 0 {
            return None;
        }
        let mut event: libc::sigevent = mem::zeroed();
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signal();
        event.sigev_notify_thread_id = libc::gettid();
        let mut timer: libc::timer_t = mem::zeroed();
        if libc::timer_create(libc::CLOCK_THREAD_CPUTIME_ID, &mut event, &mut timer) != 0 {
            return None;
        }
        let interval = libc::timespec { tv_sec: tick.as_secs() as i64, tv_nsec: tick.subsec_nanos() as i64 };
        let setting = libc::itimerspec { it_interval: interval, it_value: interval };
        if libc::timer_settime(timer, 0, &setting, std::ptr::null_mut()) != 0 {
            libc::timer_delete(timer);
            return None;
        }
        Some(Watch { timer, _local: Cell::new(()) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // SAFETY: made by `timer_create`, deleted once.
        unsafe { libc::timer_delete(self.timer) };
    }
}

/// Async-signal-safe: thread-local and atomic loads and stores, and at most one `write`.
extern "C" fn on_tick(_signal: libc::c_int) {
    // SAFETY: the pointer is valid while it is set, and we interrupted the thread that sets it.
    let Some(local) = (unsafe { local_ptr().as_ref() }) else { return };
    let run = local.runs.get();
    let marks = &local.watch;
    if !local.in_task() || marks.run.swap(run, Ordering::Relaxed) != run {
        marks.run.store(run, Ordering::Relaxed);
        // Only a run that is under way is marked; the one after it starts clean.
        marks.ticks.store(local.in_task() as u32, Ordering::Relaxed);
        return;
    }
    let ticks = marks.ticks.load(Ordering::Relaxed) + 1;
    marks.ticks.store(ticks, Ordering::Relaxed);
    if ticks == STUCK * TICKS {
        let (kind, file, line) = local.current_for_signal();
        let mut message = Line { bytes: [0; 400], len: 0 };
        message.text("a task does not yield: '");
        message.text(kind);
        message.text("', last woken from ");
        message.text(file);
        message.text(":");
        message.number(line);
        message.text("; its thread serves nobody meanwhile\n");
        // SAFETY: the bytes are initialised up to `len`. errno is not looked at by the code we interrupt: `write` to
        // standard error is the only call here, and the error number is put back.
        unsafe {
            let errno = *libc::__errno_location();
            libc::write(2, message.bytes.as_ptr().cast(), message.len);
            *libc::__errno_location() = errno;
        }
    }
}

/// A line put together without allocating.
struct Line {
    bytes: [u8; 400],
    len: usize,
}

impl Line {
    fn text(&mut self, text: &str) {
        for &byte in text.as_bytes() {
            if self.len < self.bytes.len() {
                self.bytes[self.len] = byte;
                self.len += 1;
            }
        }
    }

    fn number(&mut self, mut n: u32) {
        let mut digits = [0u8; 10];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + (n % 10) as u8;
            n /= 10;
            if n == 0 {
                break;
            }
        }
        self.text(std::str::from_utf8(&digits[at..]).unwrap_or("?"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_counted_in_whole_intervals() {
        let budget = Duration::from_millis(100);
        assert_eq!(over_budget(4, budget), None, "may be just under the budget");
        assert_eq!(over_budget(5, budget), Some(Duration::from_millis(100)));
        assert_eq!(over_budget(41, budget), Some(Duration::from_millis(1000)));
    }

    #[test]
    fn lines_are_bounded() {
        let mut line = Line { bytes: [0; 400], len: 0 };
        line.number(0);
        line.number(4_294_967_295);
        assert_eq!(&line.bytes[..line.len], b"04294967295");
        (0..100).for_each(|_| line.text("0123456789"));
        assert_eq!(line.len, 400);
    }
}
