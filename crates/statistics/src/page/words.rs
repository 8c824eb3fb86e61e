//! Figures and names as people read them.

use std::fmt::Write as _;

use crate::format::whole_number;

/// Text in HTML, in an element or in an attribute with quotes.
pub fn escaped(out: &mut String, text: &str) {
    if text
        .bytes()
        .all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'&' | b'<' | b'>' | b'"' | b'\''))
    {
        out.push_str(text);
        return;
    }
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Neither HTML nor anybody's eyes have a use for these.
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
}

/// What one of the functions below writes of a number.
pub fn written(write: fn(&mut String, u64), n: u64) -> String {
    let mut text = String::new();
    write(&mut text, n);
    text
}

/// A count in few digits: `9999`, `12.3k`, `4.56M`.
pub fn count(out: &mut String, n: u64) {
    scaled(out, n, &["", "k", "M", "G", "T", "P", "E"]);
}

/// Bytes in few digits: `512 B`, `12.3 MB`.
pub fn bytes(out: &mut String, n: u64) {
    scaled(out, n, &[" B", " kB", " MB", " GB", " TB", " PB", " EB"]);
}

/// Below this a number is written as it is.
const PLAIN: u64 = 10_000;

fn scaled(out: &mut String, n: u64, units: &[&str]) {
    if n < PLAIN {
        whole_number(out, n);
        out.push_str(units[0]);
        return;
    }
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    three_digits(out, value);
    out.push_str(units[unit]);
}

/// Microseconds in few digits: `85 us`, `1.25 ms`, `3.10 s`.
pub fn time(out: &mut String, us: u64) {
    let unit = match us {
        0..1000 => {
            whole_number(out, us);
            " us"
        }
        1000..1_000_000 => {
            three_digits(out, us as f64 / 1e3);
            " ms"
        }
        _ => {
            three_digits(out, us as f64 / 1e6);
            " s"
        }
    };
    out.push_str(unit);
}

fn three_digits(out: &mut String, value: f64) {
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    // Writing to a text does not fail.
    _ = write!(out, "{value:.digits$}");
}

/// `1 thread`, `2 threads`.
pub fn counted(n: u64, what: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{n} {what}{plural}")
}

/// Seconds in two units: `42 s`, `3 min 5 s`, `2 d 4 h`.
pub fn duration(out: &mut String, s: u64) {
    let mut part = |n: u64, unit: &str| {
        whole_number(out, n);
        out.push_str(unit);
    };
    match s {
        0..60 => part(s, " s"),
        60..3600 => {
            part(s / 60, " min ");
            part(s % 60, " s");
        }
        3600..86_400 => {
            part(s / 3600, " h ");
            part(s % 3600 / 60, " min");
        }
        _ => {
            part(s / 86_400, " d ");
            part(s % 86_400 / 3600, " h");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        for (n, text) in
            [(0, "0"), (9999, "9999"), (12_345, "12.3k"), (1_000_000, "1.00M"), (123_456_789, "123M")]
        {
            assert_eq!(written(count, n), text);
        }
        assert_eq!(written(count, u64::MAX), "18.4E");
        assert_eq!(written(bytes, 12_345_678), "12.3 MB");
        for (us, text) in [(999, "999 us"), (1250, "1.25 ms"), (45_678, "45.7 ms"), (3_100_000, "3.10 s")] {
            assert_eq!(written(time, us), text);
        }
        for (s, text) in [(59, "59 s"), (61, "1 min 1 s"), (3661, "1 h 1 min"), (90_000, "1 d 1 h")] {
            assert_eq!(written(duration, s), text);
        }
    }

    #[test]
    fn markup_is_text() {
        let mut out = String::new();
        escaped(&mut out, "<script>\"a\" & 'b'\u{7}");
        assert_eq!(out, "&lt;script&gt;&quot;a&quot; &amp; &#39;b&#39;\u{fffd}");
    }
}
