//! The time, read once per round of the loop.
//!
//! Each thread keeps the instant of its last poll; [`now_ms`] and [`now_us`] are a thread-local load. On a thread
//! that runs no loop they read the kernel's clock. The simulation driver replaces the source by virtual time
//! ([`set_virtual`]), so that nothing above can tell.

use std::cell::Cell;

/// The wall clock is compared with the monotonic one at most this often: a step by an administrator is seen this late.
const WALL_RESYNC_US: u64 = 10_000;

struct Clock {
    /// 0: this thread has no loop (or it has not polled yet), read the kernel's clock each time.
    now_us: Cell<u64>,
    /// The same in milliseconds: asked for many times in a round, and a division each time.
    now_ms: Cell<u64>,
    /// Wall minus monotonic, in microseconds.
    wall_offset_us: Cell<i64>,
    wall_synced_us: Cell<u64>,
    /// Virtual time in nanoseconds and the wall offset that goes with it.
    virtual_ns: Cell<Option<u64>>,
}

thread_local! {
    static CLOCK: Clock = const {
        Clock {
            now_us: Cell::new(0),
            now_ms: Cell::new(0),
            wall_offset_us: Cell::new(0),
            wall_synced_us: Cell::new(0),
            virtual_ns: Cell::new(None),
        }
    };
}

fn kernel_ns(id: libc::clockid_t) -> u64 {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `ts` is valid for writes; the clocks used here always exist.
    unsafe { libc::clock_gettime(id, &mut ts) };
    ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64
}

/// Milliseconds of the monotonic clock at this round of the loop. Never decreases on one thread.
#[inline]
pub fn now_ms() -> u64 {
    CLOCK.with(|c| match c.now_us.get() {
        0 => precise_ns() / 1_000_000,
        _ => c.now_ms.get(),
    })
}

/// Microseconds of the monotonic clock at this round of the loop. Never decreases on one thread.
#[inline]
pub fn now_us() -> u64 {
    CLOCK.with(|c| match c.now_us.get() {
        0 => precise_ns() / 1000,
        us => us,
    })
}

/// Microseconds since the Unix epoch at this round of the loop. May step when the system's clock is set.
#[inline]
pub fn wall_us() -> u64 {
    CLOCK.with(|c| {
        let now = now_us();
        if c.virtual_ns.get().is_none() && now.wrapping_sub(c.wall_synced_us.get()) >= WALL_RESYNC_US {
            let offset = (kernel_ns(libc::CLOCK_REALTIME) / 1000) as i64 - (precise_ns() / 1000) as i64;
            c.wall_offset_us.set(offset);
            c.wall_synced_us.set(now);
        }
        now.saturating_add_signed(c.wall_offset_us.get())
    })
}

/// Nanoseconds of the monotonic clock right now (a vDSO call, about 20 ns); virtual time in the simulation.
#[inline]
pub fn precise_ns() -> u64 {
    CLOCK.with(|c| c.virtual_ns.get()).unwrap_or_else(|| kernel_ns(libc::CLOCK_MONOTONIC))
}

/// CPU time this thread has used, in nanoseconds (a system call).
pub fn thread_cpu_ns() -> u64 {
    kernel_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time the process has used, in nanoseconds (a system call).
pub fn process_cpu_ns() -> u64 {
    kernel_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Re-reads the clock; called by the loop after each poll. Returns the new time in microseconds.
#[inline]
pub fn refresh() -> u64 {
    let us = (precise_ns() / 1000).max(1);
    CLOCK.with(|c| {
        c.now_us.set(us);
        c.now_ms.set(us / 1000);
    });
    us
}

/// Forgets the cached time when a thread's loop ends: later readers get the kernel's clock again.
pub fn leave() {
    CLOCK.with(|c| {
        c.now_us.set(0);
        c.virtual_ns.set(None);
        c.wall_synced_us.set(0);
    });
}

/// Whether this thread lives in virtual time.
pub(crate) fn is_virtual() -> bool {
    CLOCK.with(|c| c.virtual_ns.get().is_some())
}

/// Switches this thread to virtual time: the monotonic clock reads `mono_ns`, the wall clock `wall_us`.
/// Call it again to advance; `mono_ns` must not decrease. Takes effect at once for [`precise_ns`] and [`wall_us`],
/// at the next [`refresh`] for the per-round clock.
pub fn set_virtual(mono_ns: u64, wall_us: u64) {
    CLOCK.with(|c| {
        debug_assert!(c.virtual_ns.get().is_none_or(|old| old <= mono_ns), "virtual time went backwards");
        c.virtual_ns.set(Some(mono_ns));
        c.wall_offset_us.set(wall_us as i64 - (mono_ns / 1000) as i64);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_time_replaces_the_kernels() {
        set_virtual(5_000_000, 1_000_000_000);
        refresh();
        assert_eq!((now_ms(), now_us(), precise_ns(), wall_us()), (5, 5000, 5_000_000, 1_000_000_000));
        set_virtual(7_500_000, 900_000_000);
        assert_eq!(now_us(), 5000, "the round's clock moves at refresh");
        refresh();
        assert_eq!((now_us(), wall_us()), (7500, 900_000_000), "the wall clock may step back");
        leave();
        assert!(now_us() != 7500);
    }

    #[test]
    fn wall_clock_follows_the_system() {
        refresh();
        let system =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_micros() as i64;
        assert!((wall_us() as i64 - system).abs() < 1_000_000);
        leave();
    }
}
