//! Figures and names as people read them.

/// Text in HTML, in an element or in an attribute with quotes.
pub fn escaped(out: &mut String, text: &str) {
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

/// A count in few digits: `9999`, `12.3k`, `4.56M`.
pub fn count(n: u64) -> String {
    scaled(n, 10_000, 1000.0, &["", "k", "M", "G", "T", "P", "E"])
}

/// Bytes in few digits: `512 B`, `12.3 MB`.
pub fn bytes(n: u64) -> String {
    scaled(n, 10_000, 1000.0, &[" B", " kB", " MB", " GB", " TB", " PB", " EB"])
}

fn scaled(n: u64, plain: u64, step: f64, units: &[&str]) -> String {
    if n < plain {
        return format!("{n}{}", units[0]);
    }
    let mut value = n as f64;
    let mut unit = 0;
    while value >= step && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    format!("{}{}", three_digits(value), units[unit])
}

/// Microseconds in few digits: `85 us`, `1.25 ms`, `3.10 s`.
pub fn time(us: u64) -> String {
    match us {
        0..1000 => format!("{us} us"),
        1000..1_000_000 => format!("{} ms", three_digits(us as f64 / 1e3)),
        _ => format!("{} s", three_digits(us as f64 / 1e6)),
    }
}

fn three_digits(value: f64) -> String {
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$}")
}

/// `1 thread`, `2 threads`.
pub fn counted(n: u64, what: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{n} {what}{plural}")
}

/// Seconds in two units: `42 s`, `3 min 5 s`, `2 d 4 h`.
pub fn duration(s: u64) -> String {
    match s {
        0..60 => format!("{s} s"),
        60..3600 => format!("{} min {} s", s / 60, s % 60),
        3600..86_400 => format!("{} h {} min", s / 3600, s % 3600 / 60),
        _ => format!("{} d {} h", s / 86_400, s % 86_400 / 3600),
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
            assert_eq!(count(n), text);
        }
        assert_eq!(count(u64::MAX), "18.4E");
        assert_eq!(bytes(12_345_678), "12.3 MB");
        assert_eq!(
            (time(999), time(1250), time(45_678), time(3_100_000)),
            ("999 us".into(), "1.25 ms".into(), "45.7 ms".into(), "3.10 s".into())
        );
        assert_eq!(
            (duration(59), duration(61), duration(90_000)),
            ("59 s".into(), "1 min 1 s".into(), "1 d 1 h".into())
        );
    }

    #[test]
    fn markup_is_text() {
        let mut out = String::new();
        escaped(&mut out, "<script>\"a\" & 'b'\u{7}");
        assert_eq!(out, "&lt;script&gt;&quot;a&quot; &amp; &#39;b&#39;\u{fffd}");
    }
}
