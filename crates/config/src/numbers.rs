//! Numbers, durations and sizes as arguments of keywords.

use thalweg_syntax::{Diagnostic, Line, TimeError, TimeUnit, parse_size, parse_time};

use crate::build::Cx;
use crate::keyword::fail;

/// The leading integer of a word, as the reference reads most of its numbers: `10k` is 10, `abc` is 0. What it
/// ignores is warned about here, because it never is what was meant.
pub(crate) fn lenient(cx: &mut Cx<'_>, line: &Line, index: usize) -> i64 {
    let text = line.text(index);
    let (value, rest) = leading(text);
    if !rest.is_empty() || text.is_empty() {
        let note = format!("'{text}' is not a number and is read as {value}");
        cx.diagnostics.push(Diagnostic::diag_at(line.span_at(index), note));
    }
    value
}

/// The leading integer of a text and what follows it, saturating at the limits of 32 bits.
pub(crate) fn leading(text: &str) -> (i64, &str) {
    let trimmed = text.trim_start();
    let (negative, digits) = match trimmed.as_bytes().first() {
        Some(b'-') => (true, &trimmed[1..]),
        Some(b'+') => (false, &trimmed[1..]),
        _ => (false, trimmed),
    };
    let end = digits.bytes().take_while(u8::is_ascii_digit).count();
    let value = digits[..end].parse::<i64>().unwrap_or(if end == 0 { 0 } else { i64::from(u32::MAX) });
    (if negative { -value } else { value }, &digits[end..])
}

/// A whole, clean integer.
pub(crate) fn strict(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    (!digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

/// A duration in milliseconds; the unit of a bare number is given. `name` is how the keyword calls itself.
pub(crate) fn time(line: &Line, index: usize, default: TimeUnit, name: &str) -> Result<u64, Box<Diagnostic>> {
    let text = line.text(index);
    parse_time(text, default, TimeUnit::Milliseconds).map_err(|error| {
        let message = match error {
            TimeError::Overflow => {
                format!("timer overflow in argument <{text}> to <{name}>, maximum value is 2147483647 ms (~24.8 days)")
            }
            TimeError::Underflow => {
                format!("timer underflow in argument <{text}> to <{name}>, minimum non-null value is 1 ms")
            }
            TimeError::Empty => format!("'{name}' expects <time> as argument."),
            TimeError::Unexpected(at) | TimeError::Trailing(at) => {
                let c = text[at.min(text.len())..].chars().next().unwrap_or('?');
                format!("unexpected character '{c}' in argument to <{name}>.")
            }
        };
        fail(line, index, message)
    })
}

/// A size in bytes, at most `max`, as the `tune.*` keywords take it.
pub(crate) fn size(line: &Line, index: usize, max: u64, name: &str) -> Result<u64, Box<Diagnostic>> {
    let text = line.text(index);
    if text.is_empty() {
        return Err(fail(line, index, format!("'{name}' expects an integer argument.")));
    }
    parse_size(text, max).map_err(|error| {
        let at = match error {
            thalweg_syntax::SizeError::Unexpected(at) => at.min(text.len()),
            _ => 0,
        };
        fail(line, index, format!("unexpected '{}' after size passed to '{name}'", &text[at..]))
    })
}
