//! Times in certificates: seconds since 1970 for comparing, and the texts the reference prints.

use crate::der::{Malformed, Value, tag};

/// A moment, in seconds since 1970-01-01 00:00 UTC.
pub type Seconds = i64;

/// Reads a UTCTime or a GeneralizedTime in the forms that RFC 5280 section 4.1.2.5 allows: with seconds, in UTC.
pub fn parse(value: &Value<'_>) -> Result<Seconds, Malformed> {
    let (year, rest) = match value.tag {
        tag::UTC_TIME => {
            let (year, rest) = digits(value.content, 2)?;
            (if year >= 50 { 1900 + year } else { 2000 + year }, rest)
        }
        tag::GENERALIZED_TIME => digits(value.content, 4)?,
        _ => return Err(Malformed),
    };
    let (month, rest) = digits(rest, 2)?;
    let (day, rest) = digits(rest, 2)?;
    let (hour, rest) = digits(rest, 2)?;
    let (minute, rest) = digits(rest, 2)?;
    let (second, rest) = digits(rest, 2)?;
    let in_range = (1..=12).contains(&month)
        && (1..=days_of(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    if rest != b"Z" || !in_range {
        return Err(Malformed);
    }
    Ok(days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
}

/// A time as `ssl_c_notbefore` and its siblings print it: two digits of the year, no matter how it is encoded.
pub fn short(value: &Value<'_>) -> Vec<u8> {
    match value.tag {
        tag::GENERALIZED_TIME => value.content.get(2..).unwrap_or_default().to_vec(),
        _ => value.content.to_vec(),
    }
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A time as OpenSSL prints it, `Nov  2 03:04:05 2026 GMT`.
pub fn openssl(time: Seconds) -> String {
    let (year, month, day) = civil(time.div_euclid(86_400));
    let second = time.rem_euclid(86_400);
    let month = MONTHS[month as usize - 1];
    format!("{month} {day:2} {:02}:{:02}:{:02} {year} GMT", second / 3600, second / 60 % 60, second % 60)
}

/// A time as `show ssl ocsp-updates` prints it, `02/Nov/2026:03:04:05 +0000`.
pub fn log(time: Seconds) -> String {
    let (year, month, day) = civil(time.div_euclid(86_400));
    let second = time.rem_euclid(86_400);
    let month = MONTHS[month as usize - 1];
    format!("{day:02}/{month}/{year}:{:02}:{:02}:{:02} +0000", second / 3600, second / 60 % 60, second % 60)
}

/// The year of a time, and the time as `YYYYMMDDHHMMSSZ`.
pub(super) fn digits_of(time: Seconds) -> (i64, String) {
    let (year, month, day) = civil(time.div_euclid(86_400));
    let second = time.rem_euclid(86_400);
    let of_day = format!("{:02}{:02}{:02}Z", second / 3600, second / 60 % 60, second % 60);
    (year, format!("{year:04}{month:02}{day:02}{of_day}"))
}

fn digits(text: &[u8], count: usize) -> Result<(i64, &[u8]), Malformed> {
    let (head, rest) = text.split_at_checked(count).ok_or(Malformed)?;
    if !head.iter().all(u8::is_ascii_digit) {
        return Err(Malformed);
    }
    Ok((head.iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0')), rest))
}

fn days_of(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days since 1970-01-01 of a date in the Gregorian calendar, counted in eras of 400 years from March on.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The inverse of [`days_since_1970`].
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(tag: u8, text: &str, expected: Option<Seconds>) {
        let value = Value { tag, content: text.as_bytes(), whole: &[] };
        assert_eq!(parse(&value).ok(), expected, "{text}");
    }

    #[test]
    fn both_encodings_and_nothing_else() {
        check(tag::UTC_TIME, "700101000000Z", Some(0));
        check(tag::UTC_TIME, "491231235959Z", Some(2_524_607_999));
        check(tag::UTC_TIME, "500101000000Z", Some(-631_152_000));
        check(tag::GENERALIZED_TIME, "20240229120000Z", Some(1_709_208_000));
        check(tag::GENERALIZED_TIME, "99991231235959Z", Some(253_402_300_799));
        for bad in
            ["20230229120000Z", "20240229120000", "20240229120000+0100", "2024022912000Z", "20241301000000Z"]
        {
            check(tag::GENERALIZED_TIME, bad, None);
        }
        check(tag::INTEGER, "700101000000Z", None);
    }

    #[test]
    fn dates_and_days_agree_for_eight_hundred_years() {
        for days in -100_000..200_000 {
            let (year, month, day) = civil(days);
            assert_eq!(days_since_1970(year, month, day), days);
        }
        assert_eq!(openssl(1_709_208_000), "Feb 29 12:00:00 2024 GMT");
        assert_eq!(openssl(1_793_588_645), "Nov  2 03:04:05 2026 GMT");
    }
}
