//! Dates written by `strftime(3)` into memory of the caller: the version of [`crate::time`] for the data path.

use std::ffi::CStr;
use std::mem::MaybeUninit;

/// Writes the moment `secs` seconds after the Unix epoch, in the system's time zone or in UTC, as `format` asks for.
///
/// Returns the number of bytes written: 0 when the result is empty or does not fit, the byte for the C library's
/// terminator included, or when the year is out of the C library's range.
pub fn format_into(secs: i64, in_utc: bool, format: &CStr, out: &mut [u8]) -> usize {
    let mut tm = MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: both pointers are valid for the time of the call; a zeroed `tm` is a valid value when the call fails.
    let tm = unsafe {
        let filled = if in_utc {
            libc::gmtime_r(&secs, tm.as_mut_ptr())
        } else {
            libc::localtime_r(&secs, tm.as_mut_ptr())
        };
        if filled.is_null() {
            return 0;
        }
        tm.assume_init()
    };
    // SAFETY: `out` has `out.len()` writable bytes, `format` ends with NUL, `tm` was filled by the C library.
    unsafe { libc::strftime(out.as_mut_ptr().cast(), out.len(), format.as_ptr(), &tm) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_written_or_refused_whole() {
        let check = |secs, format: &CStr, room: usize, expected: &str| {
            let mut out = vec![0; room];
            let len = format_into(secs, true, format, &mut out);
            assert_eq!(std::str::from_utf8(&out[..len]), Ok(expected));
        };
        check(1_700_000_000, c"%Y-%m-%dT%H:%M:%S %Z %z", 64, "2023-11-14T22:13:20 GMT +0000");
        check(-1, c"%Y %s", 64, "1969 -1");
        check(0, c"%Y", 4, "");
        check(0, c"%Y", 5, "1970");
        check(0, c"", 5, "");
        check(i64::MAX, c"%Y", 64, "");
        check(0, c"%9999999Y", 64, "");
    }
}
