//! Dates in the one format that is generated (RFC 9110 section 5.6.7, IMF-fixdate).

const DAYS: [&[u8; 3]; 7] = [b"Sun", b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat"];
const MONTHS: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// The length of a formatted date in bytes.
pub const LEN: usize = 29;

/// A civil date and time in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    /// The year, for example 2026.
    pub year: i64,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 59.
    pub second: u8,
    /// 0 for Sunday.
    pub weekday: u8,
}

/// The civil date of a number of seconds since 1970-01-01 00:00:00 UTC.
pub fn civil(unix_s: i64) -> Civil {
    let days = unix_s.div_euclid(86400);
    let second_of_day = unix_s.rem_euclid(86400);
    // The year is taken to begin in March, so that the leap day comes last.
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    Civil {
        year: year_of_era + era * 400 + i64::from(month <= 2),
        month: month as u8,
        day: day as u8,
        hour: (second_of_day / 3600) as u8,
        minute: (second_of_day / 60 % 60) as u8,
        second: (second_of_day % 60) as u8,
        weekday: (days + 4).rem_euclid(7) as u8,
    }
}

/// Seconds since 1970-01-01 00:00:00 UTC of a civil date; the weekday is not looked at.
pub fn unix_seconds(year: i64, month: u8, day: u8, hour: u8, minute: u8, second: u8) -> i64 {
    let y = year - i64::from(month <= 2);
    let era = y.div_euclid(400);
    let year_of_era = y.rem_euclid(400);
    let month = i64::from(month);
    let day_of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = era * 146_097 + day_of_era - 719_468;
    days * 86400 + i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second)
}

/// Formats a date, for example `Sun, 06 Nov 1994 08:49:37 GMT`. Years outside 0 to 9999 show their last
/// four digits.
pub fn format(unix_s: i64) -> [u8; LEN] {
    let c = civil(unix_s);
    let mut out = *b"Xxx, 00 Xxx 0000 00:00:00 GMT";
    out[..3].copy_from_slice(DAYS[c.weekday as usize % 7]);
    out[8..11].copy_from_slice(MONTHS[(c.month as usize + 11) % 12]);
    two_digits(&mut out[5..7], c.day);
    let year = c.year.rem_euclid(10_000);
    two_digits(&mut out[12..14], (year / 100) as u8);
    two_digits(&mut out[14..16], (year % 100) as u8);
    two_digits(&mut out[17..19], c.hour);
    two_digits(&mut out[20..22], c.minute);
    two_digits(&mut out[23..25], c.second);
    out
}

fn two_digits(out: &mut [u8], number: u8) {
    out[0] = b'0' + number / 10 % 10;
    out[1] = b'0' + number % 10;
}

/// The formatted date of the second it was last asked for.
#[derive(Clone, Debug)]
pub struct DateCache {
    unix_s: i64,
    text: [u8; LEN],
}

impl Default for DateCache {
    fn default() -> Self {
        Self { unix_s: 0, text: format(0) }
    }
}

impl DateCache {
    /// The formatted date of this second; formatted again only when the second changed.
    pub fn get(&mut self, unix_s: i64) -> &[u8; LEN] {
        if self.unix_s != unix_s {
            self.unix_s = unix_s;
            self.text = format(unix_s);
        }
        &self.text
    }
}

/// Reads a date in any of the three formats of RFC 9110 section 5.6.7. `now_unix_s` settles the century
/// of the two-digit years of RFC 850: a date that seems more than 50 years ahead is in the past.
pub fn parse(text: &[u8], now_unix_s: i64) -> Option<i64> {
    let text = crate::ascii::trim_ows(text);
    let comma = memchr::memchr(b',', text);
    let (day, month, year, time) = match comma {
        // "Sun, 06 Nov 1994 08:49:37 GMT"
        Some(3) => {
            if text.len() != LEN || !text.ends_with(b" GMT") || text[7] != b' ' || text[11] != b' ' {
                return None;
            }
            (number(&text[5..7])?, month(&text[8..11])?, number(&text[12..16])?, &text[17..25])
        }
        // "Sunday, 06-Nov-94 08:49:37 GMT"
        Some(at) => {
            let rest = text.get(at + 2..)?;
            if rest.len() != 22 || !rest.ends_with(b" GMT") || rest[2] != b'-' || rest[6] != b'-' {
                return None;
            }
            let this_year = civil(now_unix_s).year;
            let mut year = this_year - this_year.rem_euclid(100) + number(&rest[7..9])?;
            if year > this_year + 50 {
                year -= 100;
            }
            (number(&rest[..2])?, month(&rest[3..6])?, year, &rest[10..18])
        }
        // "Sun Nov  6 08:49:37 1994"
        None => {
            if text.len() != 24 {
                return None;
            }
            let day = if text[8] == b' ' { number(&text[9..10])? } else { number(&text[8..10])? };
            (day, month(&text[4..7])?, number(&text[20..24])?, &text[11..19])
        }
    };
    if time[2] != b':' || time[5] != b':' {
        return None;
    }
    let (hour, minute, second) = (number(&time[..2])?, number(&time[3..5])?, number(&time[6..8])?);
    if !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    Some(unix_seconds(year, month, day as u8, hour as u8, minute as u8, second as u8))
}

fn number(digits: &[u8]) -> Option<i64> {
    crate::semantics::parse_length(digits).and_then(|number| i64::try_from(number).ok())
}

fn month(name: &[u8]) -> Option<u8> {
    MONTHS.iter().position(|month| &month[..] == name).map(|at| at as u8 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_formatted_and_read_back() {
        for (unix_s, text) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (4_102_444_799, "Thu, 31 Dec 2099 23:59:59 GMT"),
            (-1, "Wed, 31 Dec 1969 23:59:59 GMT"),
        ] {
            assert_eq!(std::str::from_utf8(&format(unix_s)).unwrap(), text);
            assert_eq!(parse(text.as_bytes(), 0), Some(unix_s), "{text}");
        }
        for day in (-800_000..800_000).step_by(97) {
            let unix_s = day * 86400 + 3661;
            let c = civil(unix_s);
            assert_eq!(unix_seconds(c.year, c.month, c.day, c.hour, c.minute, c.second), unix_s);
        }
    }

    #[test]
    fn all_three_formats_are_read_and_others_are_not() {
        let now = 1_700_000_000;
        for (text, expected) in [
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(784_111_777)),
            ("Sun Nov  6 08:49:37 1994", Some(784_111_777)),
            ("Sun Nov 06 08:49:37 1994", Some(784_111_777)),
            ("", None),
            ("Sun, 06 Nov 1994 08:49:37 CET", None),
            ("Sun, 06 Xxx 1994 08:49:37 GMT", None),
            ("Sun, 00 Nov 1994 08:49:37 GMT", None),
            ("Sun, 06 Nov 1994 24:49:37 GMT", None),
            ("Sun, 06 Nov 1994", None),
            (",", None),
            ("x,yyy", None),
        ] {
            assert_eq!(parse(text.as_bytes(), now), expected, "{text}");
        }
    }

    #[test]
    fn the_cache_follows_the_clock() {
        let mut cache = DateCache::default();
        assert_eq!(cache.get(0), &format(0));
        assert_eq!(cache.get(784_111_777), &format(784_111_777));
        assert_eq!(cache.get(784_111_777), &format(784_111_777));
    }
}
