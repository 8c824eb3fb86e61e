//! Calendar time through the C library, which knows the system's time zone.

use std::mem::MaybeUninit;

/// A moment as a wall clock shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokenDownTime {
    /// Year, as in 2026.
    pub year: i32,
    /// Month, 1 to 12.
    pub month: u8,
    /// Day of the month, 1 to 31.
    pub day: u8,
    /// Hour, 0 to 23.
    pub hour: u8,
    /// Minute, 0 to 59.
    pub minute: u8,
    /// Second, 0 to 60.
    pub second: u8,
    /// Day of the week, 0 (Sunday) to 6.
    pub weekday: u8,
    /// Day of the year, 0 to 365.
    pub yearday: u16,
    /// Seconds east of UTC.
    pub utc_offset_s: i32,
}

/// `secs` seconds after the Unix epoch, in the system's time zone.
pub fn local(secs: i64) -> BrokenDownTime {
    broken_down(local_tm(secs))
}

/// Has the C library read the system's time zone. It does so once, the first time that it needs it: too late for a process that entered
/// another root (`chroot`), which has no such file.
pub fn learn_zone() {
    local(0);
}

/// `secs` seconds after the Unix epoch, in UTC.
pub fn utc(secs: i64) -> BrokenDownTime {
    broken_down(utc_tm(secs))
}

/// `strftime(3)` on `secs` seconds after the Unix epoch, in the system's time zone or in UTC.
///
/// Returns `None` when the result would exceed `limit` bytes, when it is empty, or when the format holds a NUL byte.
pub fn format(secs: i64, in_utc: bool, format: &[u8], limit: usize) -> Option<Vec<u8>> {
    let format = std::ffi::CString::new(format).ok()?;
    let tm = if in_utc { utc_tm(secs) } else { local_tm(secs) };
    let mut out = vec![0u8; limit];
    // SAFETY: `out` has `limit` writable bytes, `format` is NUL-terminated, `tm` is initialised.
    let len = unsafe { libc::strftime(out.as_mut_ptr().cast(), limit, format.as_ptr(), &tm) };
    out.truncate(len);
    (len > 0).then_some(out)
}

fn local_tm(secs: i64) -> libc::tm {
    let mut tm = MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: both pointers are valid; a zeroed `tm` is a valid value when the call fails.
    unsafe {
        libc::localtime_r(&secs, tm.as_mut_ptr());
        tm.assume_init()
    }
}

fn utc_tm(secs: i64) -> libc::tm {
    let mut tm = MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: both pointers are valid; a zeroed `tm` is a valid value when the call fails.
    unsafe {
        libc::gmtime_r(&secs, tm.as_mut_ptr());
        tm.assume_init()
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // The C library's ranges, named on the fields.
fn broken_down(tm: libc::tm) -> BrokenDownTime {
    BrokenDownTime {
        year: tm.tm_year + 1900,
        month: tm.tm_mon as u8 + 1,
        day: tm.tm_mday as u8,
        hour: tm.tm_hour as u8,
        minute: tm.tm_min as u8,
        second: tm.tm_sec as u8,
        weekday: tm.tm_wday as u8,
        yearday: tm.tm_yday as u16,
        utc_offset_s: tm.tm_gmtoff as i32,
    }
}

/// Microseconds of the system's monotonic clock.
pub fn monotonic_us() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is writable for the call; this clock exists on every system.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec.unsigned_abs() * 1_000_000 + now.tv_nsec.unsigned_abs() / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_moment() {
        let t = utc(1_795_000_000);
        assert_eq!((t.year, t.month, t.day, t.hour, t.minute, t.second), (2026, 11, 18, 11, 6, 40));
        assert_eq!((t.weekday, t.yearday, t.utc_offset_s), (3, 321, 0));
        assert_eq!(format(0, true, b"%Y-%m-%d %H:%M:%S", 64).as_deref(), Some(&b"1970-01-01 00:00:00"[..]));
        assert_eq!(format(0, true, b"%Y", 3), None, "too long for the limit");
    }
}
