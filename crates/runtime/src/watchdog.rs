//! Finds tasks that run too long without yielding.
//!
//! Each thread has a kernel timer on its own CPU time, whose signal is delivered to that thread. Its handler marks the
//! run it interrupts with the CPU time of that moment. A thread that sleeps uses no CPU time, so nothing wakes it; a task
//! that yields in time costs one load. When a marked run ends, the thread looks how long ago the mark was made and
//! reports the task if that is more than the budget; a task that does not return for ten budgets is reported from the
//! handler, straight to standard error.
//!
//! While profiling is on, runs are timed anyway, and a run that exceeded the budget by sleeping in a system call is
//! found as well.

use crate::clock;
use crate::scheduler::{Local, local_ptr};
use std::mem;
use std::time::Duration;

use thalweg_shared::{AtomicBool, AtomicU64, Ordering};

/// Ticks per budget: how much later than the start of a run its mark may be.
const TICKS: u32 = 4;
/// After this many budgets the handler itself reports.
const STUCK: u64 = 10;

/// Where handler and thread meet; both run on one thread, so relaxed atomics are plain accesses that the compiler does
/// not tear or cache.
#[derive(Default)]
pub(crate) struct Marks {
    /// The number of the run that is marked.
    run: AtomicU64,
    /// The thread's CPU time when it was, in nanoseconds; 0 for no mark.
    since_ns: AtomicU64,
    /// Whether that run was reported as stuck.
    stuck: AtomicBool,
}

impl Marks {
    /// Whether the run in progress (or just over) is marked.
    #[inline]
    pub(crate) fn is_marked(&self) -> bool {
        self.since_ns.load(Ordering::Relaxed) != 0
    }

    /// After a run: for how long it went on at least, if it is over the budget. Forgets the mark.
    pub(crate) fn take(&self, budget: Duration) -> Option<Duration> {
        let since_ns = self.since_ns.swap(0, Ordering::Relaxed);
        if since_ns == 0 {
            return None;
        }
        let ran = Duration::from_nanos(clock::thread_cpu_ns().saturating_sub(since_ns));
        (ran > budget).then_some(ran)
    }
}

/// Stops the timer when dropped.
pub(crate) struct Watch {
    timer: libc::timer_t,
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
        Some(Watch { timer })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // SAFETY: made by `timer_create`, deleted once.
        unsafe { libc::timer_delete(self.timer) };
    }
}

/// Async-signal-safe: thread-local and atomic loads and stores, `clock_gettime`, and at most one `write`.
extern "C" fn on_tick(_signal: libc::c_int) {
    // SAFETY: the pointer is valid while it is set, and we interrupted the thread that sets it.
    let Some(local) = (unsafe { local_ptr().as_ref() }) else { return };
    let run = local.runs.get();
    let marks = &local.watch;
    if !local.in_task() {
        return marks.since_ns.store(0, Ordering::Relaxed);
    }
    let now_ns = clock::thread_cpu_ns();
    let since_ns = marks.since_ns.load(Ordering::Relaxed);
    if since_ns == 0 || marks.run.load(Ordering::Relaxed) != run {
        marks.run.store(run, Ordering::Relaxed);
        marks.stuck.store(false, Ordering::Relaxed);
        return marks.since_ns.store(now_ns.max(1), Ordering::Relaxed);
    }
    let budget_ns = local.runtime.config.budget.map_or(u64::MAX, |b| b.as_nanos() as u64);
    if now_ns - since_ns >= budget_ns.saturating_mul(STUCK) && !marks.stuck.swap(true, Ordering::Relaxed) {
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
    fn only_a_mark_older_than_the_budget_counts() {
        let marks = Marks::default();
        assert_eq!(marks.take(Duration::ZERO), None, "no mark");
        marks.since_ns.store(clock::thread_cpu_ns(), Ordering::Relaxed);
        assert!(marks.is_marked());
        assert_eq!(marks.take(Duration::from_secs(1000)), None);
        assert!(!marks.is_marked(), "forgotten");
        marks.since_ns.store(1, Ordering::Relaxed);
        assert!(marks.take(Duration::ZERO).is_some());
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
