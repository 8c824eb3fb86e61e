//! The envelope of a log line: what each `format` puts before the message (manual section 3.1 `log`).
//!
//! The date is the same for all lines of a second, so it is formatted once per second and thread.

use std::fmt::Write as _;

use thalweg_config::model::{Facility, LogFormatKind, LogLevel};

pub(super) const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// What the envelope says besides the message.
#[derive(Clone, Copy)]
pub struct Envelope<'a> {
    pub format: LogFormatKind,
    pub facility: Facility,
    pub level: LogLevel,
    /// Microseconds since the Unix epoch.
    pub wall_us: u64,
    /// Name of this host, for the formats that carry one.
    pub hostname: &'a [u8],
    /// Name of the program (`log-tag`).
    pub tag: &'a [u8],
    pub pid: u32,
    /// RFC 5424 structured data, brackets included; empty for none.
    pub structured_data: &'a [u8],
}

/// The current second's date in the two notations that envelopes use.
#[derive(Default)]
pub struct DateCache {
    second: Option<u64>,
    /// `Nov 21 07:41:27`.
    rfc3164: String,
    /// `2026-11-21T07:41:27`.
    iso: String,
    /// `+00:00`.
    offset: String,
}

impl DateCache {
    /// The date of the last second that was asked for, as RFC 3164 writes it.
    pub(super) fn rfc3164(&self) -> &str {
        &self.rfc3164
    }

    /// Its year, and its month counted from 0.
    pub(super) fn year_and_month(&self) -> (i32, usize) {
        let number = |range| self.iso.get(range).and_then(|digits: &str| digits.parse::<i32>().ok());
        let month = number(5..7).and_then(|month| usize::try_from(month).ok()).unwrap_or(1);
        (number(0..4).unwrap_or(1970), month.saturating_sub(1))
    }

    pub(super) fn refresh(&mut self, second: u64) {
        if self.second == Some(second) {
            return;
        }
        let t = thalweg_sys::time::local(i64::try_from(second).unwrap_or(i64::MAX));
        self.rfc3164.clear();
        self.iso.clear();
        self.offset.clear();
        let month = MONTHS[usize::from(t.month.clamp(1, 12)) - 1];
        let sign = if t.utc_offset_s < 0 { '-' } else { '+' };
        let minutes = t.utc_offset_s.unsigned_abs() / 60;
        // Writing to a String cannot fail.
        let _ = write!(self.rfc3164, "{month} {:2} {:02}:{:02}:{:02}", t.day, t.hour, t.minute, t.second);
        let _ = write!(
            self.iso,
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
            t.year, t.month, t.day, t.hour, t.minute, t.second
        );
        let _ = write!(self.offset, "{sign}{:02}:{:02}", minutes / 60, minutes % 60);
        self.second = Some(second);
    }
}

/// Appends the envelope to `out`; the message follows it.
pub fn write_envelope(out: &mut Vec<u8>, dates: &mut DateCache, e: &Envelope<'_>) {
    dates.refresh(e.wall_us / 1_000_000);
    match e.format {
        LogFormatKind::Unspecified | LogFormatKind::Local | LogFormatKind::Rfc3164 => {
            priority(out, e);
            out.extend_from_slice(dates.rfc3164.as_bytes());
            out.push(b' ');
            if e.format == LogFormatKind::Rfc3164 {
                out.extend_from_slice(e.hostname);
                out.push(b' ');
            }
            out.extend_from_slice(e.tag);
            out.push(b'[');
            decimal(out, u64::from(e.pid));
            out.extend_from_slice(b"]: ");
        }
        LogFormatKind::Rfc5424 => {
            priority(out, e);
            out.extend_from_slice(b"1 ");
            iso_date(out, dates, e.wall_us);
            for word in [e.hostname, e.tag] {
                out.push(b' ');
                out.extend_from_slice(or_dash(word));
            }
            out.push(b' ');
            decimal(out, u64::from(e.pid));
            out.extend_from_slice(b" - ");
            out.extend_from_slice(or_dash(e.structured_data));
            out.push(b' ');
        }
        LogFormatKind::Priority => priority(out, e),
        LogFormatKind::Short => level_only(out, e),
        LogFormatKind::Timed => {
            level_only(out, e);
            iso_date(out, dates, e.wall_us);
            out.push(b' ');
        }
        LogFormatKind::Iso => {
            iso_date(out, dates, e.wall_us);
            out.push(b' ');
        }
        LogFormatKind::Raw => {}
    }
}

/// RFC 5424 section 6: a missing value is a dash.
pub(super) fn or_dash(bytes: &[u8]) -> &[u8] {
    if bytes.is_empty() { b"-" } else { bytes }
}

fn priority(out: &mut Vec<u8>, e: &Envelope<'_>) {
    out.push(b'<');
    decimal(out, u64::from(e.facility.0) * 8 + e.level as u64);
    out.push(b'>');
}

fn level_only(out: &mut Vec<u8>, e: &Envelope<'_>) {
    out.extend_from_slice(&[b'<', b'0' + e.level as u8, b'>']);
}

pub(super) fn iso_date(out: &mut Vec<u8>, dates: &DateCache, wall_us: u64) {
    out.extend_from_slice(dates.iso.as_bytes());
    out.push(b'.');
    let mut micros = [b'0'; 6];
    let mut rest = wall_us % 1_000_000;
    for digit in micros.iter_mut().rev() {
        *digit = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
    }
    out.extend_from_slice(&micros);
    out.extend_from_slice(dates.offset.as_bytes());
}

pub(super) fn decimal(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(value % 10).unwrap_or(0);
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format() {
        let check = |format, expected: &str| {
            let e = Envelope {
                format,
                facility: Facility(16),
                level: LogLevel::Info,
                wall_us: 1_795_246_887_000_042,
                hostname: b"lb1",
                tag: b"haproxy",
                pid: 4242,
                structured_data: b"",
            };
            let mut out = Vec::new();
            write_envelope(&mut out, &mut DateCache::default(), &e);
            // The expectation holds in any time zone: only the shape of the date is compared.
            let shape: String = String::from_utf8_lossy(&out)
                .chars()
                .scan(' ', |_, c| {
                    Some(if c.is_ascii_digit() {
                        '9'
                    } else if c == '-' {
                        '+'
                    } else {
                        c
                    })
                })
                .collect();
            let month = shape
                .find(|c: char| MONTHS.iter().any(|m| m.starts_with(c)))
                .map_or("", |i| &shape[i..i + 3]);
            let shape = if MONTHS.contains(&month) { shape.replace(month, "Mmm") } else { shape.clone() };
            assert_eq!(shape, expected, "{format:?}");
        };
        check(LogFormatKind::Local, "<999>Mmm 99 99:99:99 haproxy[9999]: ");
        check(LogFormatKind::Rfc3164, "<999>Mmm 99 99:99:99 lb9 haproxy[9999]: ");
        check(LogFormatKind::Rfc5424, "<999>9 9999+99+99T99:99:99.999999+99:99 lb9 haproxy 9999 + + ");
        check(LogFormatKind::Priority, "<999>");
        check(LogFormatKind::Short, "<9>");
        check(LogFormatKind::Timed, "<9>9999+99+99T99:99:99.999999+99:99 ");
        check(LogFormatKind::Iso, "9999+99+99T99:99:99.999999+99:99 ");
        check(LogFormatKind::Raw, "");
    }

    #[test]
    fn the_priority_combines_facility_and_level() {
        let mut e = Envelope {
            format: LogFormatKind::Priority,
            facility: Facility(16),
            level: LogLevel::Info,
            wall_us: 42,
            hostname: b"",
            tag: b"",
            pid: 1,
            structured_data: b"[a b=\"c\"]",
        };
        let text = |e: &Envelope<'_>| {
            let mut out = Vec::new();
            write_envelope(&mut out, &mut DateCache::default(), e);
            String::from_utf8_lossy(&out).into_owned()
        };
        assert_eq!(text(&e), "<134>");
        e.level = LogLevel::Emerg;
        e.facility = Facility(0);
        assert_eq!(text(&e), "<0>");
        e.format = LogFormatKind::Rfc5424;
        assert!(
            text(&e).ends_with(" - - 1 - [a b=\"c\"] "),
            "missing names are dashes, structured data is kept"
        );
    }
}
