//! Fetches of the distcc protocol (manual section 7.3.5): tokens of four letters and a number in eight hexadecimal
//! digits, most of which are followed by as many bytes as the number says.

use super::content::{current, raw, wait};
use super::{EITHER_BYTES, FetchDef};
use crate::args::{ArgKind, Args};
use crate::context::Ctx;
use crate::env::CompileEnv;
use crate::value::{Place, Sample, Text, Type};
use std::ops::Range;

const TOKEN_AND_OCCURRENCE: &[ArgKind] = &[ArgKind::Str, ArgKind::Int];

/// The fetches of this file.
pub static TABLE: &[FetchDef] = &[
    FetchDef::new("distcc_body", Type::Bin, EITHER_BYTES, "what follows a distcc token", |a, cx, _| {
        let (place, token) = token(a, cx)?;
        let body = token.body?;
        let (off, len) = (u32::try_from(body.start).ok()?, u32::try_from(body.len()).ok()?);
        Some(Sample::bin(Text::At { place, off, len }))
    })
    .takes(1, TOKEN_AND_OCCURRENCE)
    .checked(check),
    FetchDef::new("distcc_param", Type::Int, EITHER_BYTES, "the number of a distcc token", |a, cx, _| {
        let (_, token) = token(a, cx)?;
        Some(Sample::int(i64::from(token.param)))
    })
    .takes(1, TOKEN_AND_OCCURRENCE)
    .checked(check),
];

/// The length of a name and its number.
const TOKEN_LEN: usize = 12;

fn check(args: &mut Args, _: &mut CompileEnv) -> Result<(), String> {
    match args.str(0) {
        Some(name) if name.len() == 4 => Ok(()),
        _ => Err("token name must be exactly 4 characters".into()),
    }
}

/// A token that was found.
#[derive(Debug, PartialEq, Eq)]
struct Token {
    param: u32,
    /// Where its body is, empty for tokens without one. None while it is not there.
    body: Option<Range<usize>>,
}

/// The bytes of the side being processed and the token that the arguments name.
fn token(args: &Args, cx: &mut Ctx) -> Option<(Place, Token)> {
    let place = current(cx);
    let payload = raw(cx, place)?;
    // 0 is any, of which there is no other than the first.
    let occurrence = match args.int(1).unwrap_or(0) {
        0 => 1,
        n => n,
    };
    let (found, incomplete) = find(payload.data(), args.str(0)?, occurrence);
    if incomplete {
        wait(cx, payload);
    }
    Some((place, found?))
}

/// The token `name` that comes for the `occurrence`th time, and whether more bytes may bring it, or its body.
fn find(message: &[u8], name: &[u8], occurrence: i64) -> (Option<Token>, bool) {
    let mut at = 0;
    let mut seen = 0;
    while let Some(head) = message.get(at..at + TOKEN_LEN) {
        let Some(param) = number(&head[4..]) else { return (None, false) };
        let start = at + TOKEN_LEN;
        let has_body = !matches!(&head[..4], b"DIST" | b"ARGC" | b"NFIL" | b"DONE" | b"STAT");
        let end = if has_body { start.saturating_add(param as usize) } else { start };
        if &head[..4] == name {
            seen += 1;
            if seen == occurrence {
                let cut = end > message.len();
                let body = (!cut).then_some(start..end);
                return (Some(Token { param, body }), cut);
            }
        }
        at = end;
    }
    (None, true)
}

/// Eight hexadecimal digits.
fn number(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |number: u32, digit| Some(number << 4 | char::from(*digit).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_found_by_name_and_occurrence() {
        let message = b"DIST00000001ARGC00000002ARGV00000002gcARGV0000000A-xcARGVDIST-DOTI00000005he";
        let check = |name: &[u8], occurrence, expected: Option<(u32, Option<&str>)>, more| {
            let (found, incomplete) = find(message, name, occurrence);
            assert_eq!(incomplete, more, "{}", name.escape_ascii());
            let body = |range: Range<usize>| std::str::from_utf8(&message[range]).unwrap();
            let found = found.map(|token| (token.param, token.body.map(body)));
            assert_eq!(found, expected, "{} {occurrence}", name.escape_ascii());
        };
        check(b"DIST", 1, Some((1, Some(""))), false);
        check(b"ARGV", 1, Some((2, Some("gc"))), false);
        check(b"ARGV", 2, Some((10, Some("-xcARGVDIS"))), false);
        check(b"ARGV", 3, None, false);
        assert_eq!(find(&message[..47], b"DOTI", 1), (None, true));
    }

    #[test]
    fn what_is_not_there_is_awaited_or_refused() {
        let cut = |param| Some(Token { param, body: None });
        assert_eq!(find(b"ARGV00000005ab", b"ARGV", 1), (cut(5), true));
        assert_eq!(find(b"ARGVffffffffab", b"ARGV", 1), (cut(u32::MAX), true));
        assert_eq!(find(b"ARGV00000005ab", b"DOTI", 1), (None, true));
        assert_eq!(find(b"DIST0000000g", b"DIST", 1), (None, false));
        assert_eq!(find(b"DIST-0000001", b"DIST", 1), (None, false));
        assert_eq!(find(b"DIST0000", b"DIST", 1), (None, true));
        assert_eq!(find(b"", b"DIST", 1), (None, true));
        let empty = Some(Token { param: 0, body: Some(12..12) });
        assert_eq!(find(b"ARGV00000000", b"ARGV", 1), (empty, false));
    }
}
