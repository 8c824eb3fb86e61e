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

/// The leading integer of a text and what follows it, saturating where 64 bits end.
pub(crate) fn leading(text: &str) -> (i64, &str) {
    let trimmed = text.trim_start();
    let (negative, digits) = match trimmed.as_bytes().first() {
        Some(b'-') => (true, &trimmed[1..]),
        Some(b'+') => (false, &trimmed[1..]),
        _ => (false, trimmed),
    };
    let end = digits.bytes().take_while(u8::is_ascii_digit).count();
    let value = digits[..end].parse::<i64>().unwrap_or(if end == 0 { 0 } else { i64::MAX });
    (if negative { -value } else { value }, &digits[end..])
}

/// A value that is not negative and fits in 31 bits, the range of the reference's counts.
pub(crate) fn count(value: i64) -> Option<u32> {
    u32::try_from(value).ok().filter(|v| *v <= i32::MAX as u32)
}

/// A whole, clean integer.
pub(crate) fn strict(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    (!digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

/// A duration; the units of a bare number and of the result are given. What follows the unit is passed over with a
/// warning, as the reference does: `1s2` is one second.
pub(crate) fn duration(
    cx: &mut Cx<'_>,
    line: &Line,
    index: usize,
    default: TimeUnit,
    result: TimeUnit,
) -> Result<u64, TimeError> {
    let text = line.text(index);
    match parse_time(text, default, result) {
        Err(error @ TimeError::Trailing(at)) => {
            let span = line.words.get(index).map_or(line.span(), |word| word.span_of(error.range(text)));
            cx.diagnostics.push(Diagnostic::warning_at(span, TimeError::trailing_message(text, at)));
            parse_time(&text[..at], default, result)
        }
        other => other,
    }
}

/// A duration in milliseconds, from milliseconds.
pub(crate) fn duration_ms(cx: &mut Cx<'_>, line: &Line, index: usize) -> Result<u64, TimeError> {
    duration(cx, line, index, TimeUnit::Milliseconds, TimeUnit::Milliseconds)
}

/// A duration in milliseconds; the unit of a bare number is given. `name` is how the keyword calls itself.
pub(crate) fn time(
    cx: &mut Cx<'_>,
    line: &Line,
    index: usize,
    default: TimeUnit,
    name: &str,
) -> Result<u64, Box<Diagnostic>> {
    let text = line.text(index);
    duration(cx, line, index, default, TimeUnit::Milliseconds).map_err(|error| {
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
