//! Dates: reading HTTP dates, writing times in HTTP's or any format.

use super::ConverterDef;
use super::shape::{entry, put_str, text_of, to_int};
use crate::args::{Arg, ArgKind, ArgSpec, Args};
use crate::context::{Ctx, Out};
use crate::env::CompileEnv;
use crate::value::{Sample, Type, Value};
use std::ffi::{CStr, CString};
use std::fmt::Write as _;
use std::sync::Arc;
use thalweg_http::date::Civil;
use thalweg_sys::calendar::format_into;

const INT_STR: (Type, Type) = (Type::Int, Type::Str);
const FORMAT: ArgSpec = ArgSpec::new(1, &[ArgKind::Str, ArgKind::Int]);

/// The converters of this family.
pub static DATE: &[ConverterDef] = &[
    entry(
        "date",
        (Type::Str, Type::Int),
        ArgSpec::NONE,
        None,
        |_, s, c| to_int(s, c, parse_http_date),
        "Seconds since 1970 from an HTTP date.",
    ),
    entry(
        "http_date",
        INT_STR,
        ArgSpec::new(0, &[ArgKind::Int, ArgKind::Str]),
        Some(check_http_date),
        http_date,
        "An HTTP date from seconds, milliseconds or microseconds since 1970.",
    ),
    entry(
        "ltime",
        INT_STR,
        FORMAT,
        Some(check_format),
        |a, s, c| seconds(a, s, c, false),
        "A local time in any format, from seconds since 1970.",
    ),
    entry(
        "ms_ltime",
        INT_STR,
        FORMAT,
        Some(check_format),
        |a, s, c| fractions(a, s, c, 1000, false),
        "A local time in any format, from milliseconds since 1970.",
    ),
    entry(
        "ms_utime",
        INT_STR,
        FORMAT,
        Some(check_format),
        |a, s, c| fractions(a, s, c, 1000, true),
        "A UTC time in any format, from milliseconds since 1970.",
    ),
    entry(
        "us_ltime",
        INT_STR,
        FORMAT,
        Some(check_format),
        |a, s, c| fractions(a, s, c, 1_000_000, false),
        "A local time in any format, from microseconds since 1970.",
    ),
    entry(
        "us_utime",
        INT_STR,
        FORMAT,
        Some(check_format),
        |a, s, c| fractions(a, s, c, 1_000_000, true),
        "A UTC time in any format, from microseconds since 1970.",
    ),
    entry(
        "utime",
        INT_STR,
        FORMAT,
        Some(check_format),
        |a, s, c| seconds(a, s, c, true),
        "A UTC time in any format, from seconds since 1970.",
    ),
];

/// Seconds are cut to this many bits, so that every one has a year the C library can write.
const SECONDS_MASK: i64 = (1 << 55) - 1;

const MONTHS: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// What is left of a date to be read.
struct Reader<'d>(&'d [u8]);

impl Reader<'_> {
    fn skip(&mut self, expected: &[u8]) -> Option<()> {
        self.0 = self.0.strip_prefix(expected)?;
        Some(())
    }

    /// A number of exactly `len` digits; the first may be a space if `blank`.
    fn number(&mut self, len: usize, blank: bool) -> Option<i64> {
        let (digits, rest) = self.0.split_at_checked(len)?;
        let mut value = 0;
        for (i, &b) in digits.iter().enumerate() {
            value = value * 10
                + match b {
                    b'0'..=b'9' => i64::from(b - b'0'),
                    b' ' if blank && i == 0 => 0,
                    _ => return None,
                };
        }
        self.0 = rest;
        Some(value)
    }

    fn month(&mut self) -> Option<i64> {
        let (name, rest) = self.0.split_first_chunk::<3>()?;
        let month = MONTHS.iter().position(|month| *month == name)?;
        self.0 = rest;
        Some(month as i64 + 1)
    }

    /// Seconds of the day, whatever the numbers are.
    fn time(&mut self) -> Option<i64> {
        let hours = self.number(2, false)?;
        self.skip(b":")?;
        let minutes = self.number(2, false)?;
        self.skip(b":")?;
        Some(hours * 3600 + minutes * 60 + self.number(2, false)?)
    }
}

/// Reads the three formats of RFC 9110 section 5.6.7. What follows the date is ignored, and so is whether the
/// day of the week is the right one and whether numbers are in their ranges.
fn parse_http_date(text: &[u8]) -> Option<i64> {
    let day_name = DAYS.iter().find(|day| text.starts_with(&day.as_bytes()[..3]))?;
    let mut rest = Reader(&text[3..]);
    let (year, month, day, time);
    match rest.0.first()? {
        // Sun, 06 Nov 1994 08:49:37 GMT
        b',' => {
            rest.skip(b", ")?;
            day = rest.number(2, false)?;
            rest.skip(b" ")?;
            month = rest.month()?;
            rest.skip(b" ")?;
            year = rest.number(4, false)?;
            rest.skip(b" ")?;
            time = rest.time()?;
            rest.skip(b" GMT")?;
        }
        // Sun Nov  6 08:49:37 1994
        b' ' => {
            rest.skip(b" ")?;
            month = rest.month()?;
            rest.skip(b" ")?;
            day = rest.number(2, true)?;
            rest.skip(b" ")?;
            time = rest.time()?;
            rest.skip(b" ")?;
            year = rest.number(4, false)?;
        }
        // Sunday, 06-Nov-94 08:49:37 GMT
        _ => {
            rest.skip(&day_name.as_bytes()[3..])?;
            rest.skip(b", ")?;
            day = rest.number(2, false)?;
            rest.skip(b"-")?;
            month = rest.month()?;
            rest.skip(b"-")?;
            year = match rest.number(4, false) {
                Some(year) => year,
                None => match rest.number(2, false)? {
                    year @ 0..=60 => 2000 + year,
                    year => 1900 + year,
                },
            };
            rest.skip(b" ")?;
            time = rest.time()?;
            rest.skip(b" GMT")?;
        }
    }
    // The reference counts days without a sign: those before 1970 come out far in the future.
    let days = days_before(year, month) + day - 1;
    Some(i64::from(days as u32) * 86400 + time)
}

/// Days from 1970 to the first day of a month.
fn days_before(year: i64, month: i64) -> i64 {
    // Years start in March here, so that a leap day is the last of its year.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn check_http_date(args: &mut Args, _: &mut CompileEnv) -> Result<(), String> {
    let Some(unit) = args.str(1) else { return Ok(()) };
    let per_second = match unit {
        b"s" => 1,
        b"ms" => 1000,
        b"us" => 1_000_000,
        other => return Err(format!("expects 's', 'ms' or 'us', got '{}'", String::from_utf8_lossy(other))),
    };
    args.put(1, Arg::Int(per_second));
    Ok(())
}

fn number(sample: &Sample) -> Option<i64> {
    match sample.value {
        Value::Int(value) => Some(value),
        Value::Bool(value) => Some(i64::from(value)),
        _ => None,
    }
}

fn http_date(args: &Args, sample: &mut Sample, cx: &mut Ctx) -> bool {
    let Some(value) = number(sample) else { return false };
    let value = value.wrapping_add(args.int(0).unwrap_or(0));
    let per_second = args.int(1).unwrap_or(1).max(1);
    let (secs, fraction) = ((value / per_second) & SECONDS_MASK, value % per_second);
    put_str(sample, cx, |out| write_http_date(secs, fraction, per_second, out))
}

fn write_http_date(secs: i64, fraction: i64, per_second: i64, out: &mut Out) -> bool {
    let Civil { year, month, day, hour, minute, second, weekday } = thalweg_http::date::civil(secs);
    let weekday = DAYS[usize::from(weekday)];
    let month = MONTHS[usize::from(month - 1)];
    let month = std::str::from_utf8(month).unwrap_or_default();
    let fits = write!(out, "{}, {day:02} {month} {year} {hour:02}:{minute:02}:{second:02}", &weekday[..3]).is_ok()
        // The fraction is a plain number, as in the reference, not digits after the point.
        && (per_second == 1 || write!(out, ".{fraction}").is_ok());
    fits && out.extend(b" GMT")
}

/// A format, ready for the C library.
struct Format {
    /// As written.
    plain: CString,
    /// True when it has a `%N`, which the C library does not know.
    fraction: bool,
}

fn check_format(args: &mut Args, _: &mut CompileEnv) -> Result<(), String> {
    let text = text_of(args, 0);
    // Text ends at a NUL byte for the C library.
    let text = text.split(|&b| b == 0).next().unwrap_or_default();
    let plain = CString::new(text).map_err(|e| e.to_string())?;
    let fraction = steps(text).any(|step| matches!(step, Step::Fraction(_)));
    args.put(0, Arg::Compiled(Arc::new(Format { plain, fraction })));
    Ok(())
}

enum Step<'f> {
    Text(&'f [u8]),
    /// Nanoseconds, to this many digits.
    Fraction(usize),
}

/// Cuts a format at each `%N` or `%<width>N`. As in the reference, a percent sign is looked at on its own: that
/// of `%%N` starts a fraction, too.
fn steps(format: &[u8]) -> impl Iterator<Item = Step<'_>> {
    let mut rest = format;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut at = 0;
        while let Some(found) = memchr::memchr(b'%', &rest[at..]) {
            at += found;
            let digits = rest[at + 1..].iter().take_while(|b| b.is_ascii_digit()).count();
            if rest.get(at + 1 + digits) == Some(&b'N') {
                if at > 0 {
                    break;
                }
                let width = match digits {
                    0 => 9,
                    _ => usize::try_from(crate::value::leading_int(&rest[1..=digits]).0)
                        .map_or(9, |n| n.min(9)),
                };
                rest = &rest[digits + 2..];
                return Some(Step::Fraction(width));
            }
            at += 1;
        }
        let end = match rest.get(at) {
            Some(b'%') if at > 0 && is_fraction(&rest[at..]) => at,
            _ => rest.len(),
        };
        let (text, after) = rest.split_at(end);
        rest = after;
        Some(Step::Text(text))
    })
}

fn is_fraction(text: &[u8]) -> bool {
    let digits = text[1..].iter().take_while(|b| b.is_ascii_digit()).count();
    text.get(1 + digits) == Some(&b'N')
}

fn seconds(args: &Args, sample: &mut Sample, cx: &mut Ctx, utc: bool) -> bool {
    let (Some(value), Some(format)) = (number(sample), args.compiled::<Format>(0)) else { return false };
    let secs = (value & SECONDS_MASK).wrapping_add(args.int(1).unwrap_or(0));
    put_str(sample, cx, |out| write_time(secs, utc, &format.plain, out))
}

fn write_time(secs: i64, utc: bool, format: &CStr, out: &mut Out) -> bool {
    let len = format_into(secs, utc, format, out.spare());
    out.advance(len);
    true
}

fn fractions(args: &Args, sample: &mut Sample, cx: &mut Ctx, per_second: i64, utc: bool) -> bool {
    let (Some(value), Some(format)) = (number(sample), args.compiled::<Format>(0)) else { return false };
    // The offset is in seconds whatever the unit of the input, as in the reference, not as its manual says.
    let secs = (value / per_second).wrapping_add(args.int(1).unwrap_or(0));
    if !format.fraction {
        return put_str(sample, cx, |out| write_time(secs, utc, &format.plain, out));
    }
    // A time before 1970 has a negative remainder, which is written as the huge number its bits make.
    let nanos = (value % per_second * (1_000_000_000 / per_second)).cast_unsigned();
    let mark = cx.mark();
    let Some(text) = cx.write(|out| write_format(format.plain.as_bytes(), nanos, out)) else { return false };
    let done = cx.map_bytes(text, |format, out| {
        CStr::from_bytes_with_nul(format).is_ok_and(|format| write_time(secs, utc, format, out))
    });
    match done {
        Some(text) => {
            sample.value = Value::Str(text);
            true
        }
        None => {
            cx.release(mark);
            false
        }
    }
}

/// Writes the format with each fraction in digits, for the C library to do the rest, and a NUL byte.
fn write_format(format: &[u8], nanos: u64, out: &mut Out) -> bool {
    let mut memory = [0; 32];
    let mut digits = Out::new(&mut memory);
    if write!(digits, "{nanos:09}").is_err() {
        return false;
    }
    let done = steps(format).all(|step| match step {
        Step::Text(text) => out.extend(text),
        Step::Fraction(width) => out.extend(&digits.as_slice()[..width]),
    });
    done && out.push(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_dates_are_read_leniently() {
        let check = |text: &str, expected| assert_eq!(parse_http_date(text.as_bytes()), expected, "{text}");
        check("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777));
        check("Sunday, 06-Nov-94 08:49:37 GMT", Some(784_111_777));
        check("Sun Nov  6 08:49:37 1994", Some(784_111_777));
        check("Sun Nov 06 08:49:37 1994", Some(784_111_777));
        check("Sun Nov 60 08:49:37 1994", Some(788_777_377));
        check("Mon, 06 Nov 1994 08:49:37 GMTx", Some(784_111_777));
        check("Sun, 31 Feb 1994 08:49:37 GMT", Some(762_684_577));
        check("Sun, 06 Nov 1994 99:99:99 GMT", Some(784_442_439));
        check("Sunday, 06-Nov-60 08:49:37 GMT", Some(2_866_956_577));
        check("Sunday, 06-Nov-61 08:49:37 GMT", Some(371_084_917_106_977));
        check("Sunday, 06-Nov-1994 08:49:37 GMT", Some(784_111_777));
        check("Thu, 29 Feb 1900 00:00:00 GMT", Some(371_082_970_483_200));
        check("Fri, 31 Dec 9999 23:59:59 GMT", Some(253_402_300_799));
        for bad in [
            "",
            "x",
            "Sun",
            "Sun,",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "sun, 06 Nov 1994 08:49:37 GMT",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 94 08:49:37 GMT",
            "Sun, 06-Nov-94 08:49:37 GMT",
            "Sunday, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-994 08:49:37 GMT",
            "Sun Nov 6 08:49:37 1994",
            "Sun, 06 Nov 1994 8:49:37 GMT",
        ] {
            check(bad, None);
        }
    }

    #[test]
    fn http_dates_are_written() {
        let check = |secs, fraction, per_second, expected: &str| {
            let mut memory = [0; 64];
            let mut out = Out::new(&mut memory);
            assert!(write_http_date(secs, fraction, per_second, &mut out));
            assert_eq!(std::str::from_utf8(out.as_slice()), Ok(expected));
        };
        check(0, 0, 1, "Thu, 01 Jan 1970 00:00:00 GMT");
        check(1_700_000_000, 0, 1, "Tue, 14 Nov 2023 22:13:20 GMT");
        check(1_700_000_000, 123, 1000, "Tue, 14 Nov 2023 22:13:20.123 GMT");
        check(1_700_000_000, 123_456, 1_000_000, "Tue, 14 Nov 2023 22:13:20.123456 GMT");
        check(1_700_000_000, 5, 1000, "Tue, 14 Nov 2023 22:13:20.5 GMT");
        check(253_402_300_800, 0, 1, "Sat, 01 Jan 10000 00:00:00 GMT");
        check(SECONDS_MASK, 0, 1, "Sun, 13 Jun 1141709097 06:26:07 GMT");
    }

    #[test]
    fn fractions_are_cut_to_their_width() {
        let check = |format: &str, nanos: u64, expected: &str| {
            let mut memory = [0; 64];
            let mut out = Out::new(&mut memory);
            assert!(write_format(format.as_bytes(), nanos, &mut out));
            assert_eq!(std::str::from_utf8(out.as_slice()), Ok(&*format!("{expected}\0")), "{format}");
        };
        check("%Y", 123_000_000, "%Y");
        check("%N", 123_000_000, "123000000");
        check("%s.%3N%6N|", 123_456_000, "%s.123123456|");
        check("%0N%12N", 123_000_000, "123000000");
        check("%%N", 123_000_000, "%123000000");
        check("%%%N", 1, "%%000000001");
        check("a%3%N%", 1, "a%3000000001%");
        check("%NN", 5, "000000005N");
        check("", 5, "");
    }
}
