//! `http-err-codes`, `http-fail-codes`: which statuses of servers stick tables count as errors and as failures.

use thalweg_syntax::Line;

use crate::build::Cx;
use crate::keyword::{Outcome, fail};
use crate::model::StatusCodes;

/// `http-err-codes [+-]<range>[,...] ...` and `http-fail-codes`.
pub(crate) fn status_codes(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    let name = line.text(0).to_owned();
    if line.words.len() < 2 {
        return Err(fail(line, 1, format!("Missing status codes range for '{name}'.")));
    }
    let global = &mut cx.config.global;
    let codes =
        if name == "http-err-codes" { &mut global.http_err_codes } else { &mut global.http_fail_codes };
    for at in 1..line.words.len() {
        let text = line.text(at);
        let (adds, list) = match text.as_bytes()[0] {
            b'+' => (true, &text[1..]),
            b'-' => (false, &text[1..]),
            _ => {
                *codes = StatusCodes::NONE;
                (true, text)
            }
        };
        let mut position = text.len() - list.len();
        for range in list.split(',') {
            let malformed = |offset: usize| {
                let form = "Ranges must be in the form [+-]{low[-{high}]}[,...].";
                let place = position + offset;
                fail(
                    line,
                    at,
                    format!("Invalid status codes range '{text}' in '{name}' at position {place}. {form}"),
                )
            };
            let (low, high) = range.split_once('-').unwrap_or((range, range));
            let number = |digits: &str, offset: usize| {
                let bad = digits.bytes().position(|b| !b.is_ascii_digit());
                match bad.or(digits.is_empty().then_some(0)) {
                    Some(bad) => Err(malformed(offset + bad)),
                    None => Ok(digits.parse::<u16>().unwrap_or(u16::MAX)),
                }
            };
            let low_code = number(low, 0)?;
            let high_code = if range.contains('-') { number(high, low.len() + 1)? } else { low_code };
            if !(100..600).contains(&low_code) || !(low_code..600).contains(&high_code) {
                let form = "Codes must be between 100 and 599 and ranges in ascending order.";
                return Err(fail(
                    line,
                    at,
                    format!("Invalid status codes range '{text}' in '{name}'.\n {form}"),
                ));
            }
            (low_code..=high_code).for_each(|code| codes.set(code, adds));
            position += range.len() + 1;
        }
    }
    Ok(())
}
