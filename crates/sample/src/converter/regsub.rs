//! `regsub`: substitution by a regular expression.

use super::ConverterDef;
use super::shape::{entry, text_of, to_str};
use crate::args::{Arg, ArgKind, ArgSpec, Args};
use crate::context::{Ctx, Out};
use crate::env::CompileEnv;
use crate::value::{Sample, Type};
use std::cell::RefCell;
use std::sync::Arc;
use thalweg_sys::pcre::{Pcre, PcreMemory};

/// The converters of this family.
pub static REGSUB: &[ConverterDef] = &[entry(
    "regsub",
    (Type::Str, Type::Str),
    ArgSpec::new(2, &[ArgKind::Regex, ArgKind::Str, ArgKind::Str]),
    Some(check_regsub),
    regsub,
    "Replaces what a regular expression matches.",
)];

/// Groups that a replacement may refer to, the whole match included.
const GROUPS: u32 = 10;
/// A match that takes more steps than this is given up, as if there were none.
const STEPS_MAX: u32 = 1_000_000;

thread_local! {
    static MEMORY: RefCell<PcreMemory> = RefCell::new(PcreMemory::new(GROUPS, STEPS_MAX));
}

/// A part of a replacement.
#[derive(Debug, PartialEq, Eq)]
enum Piece {
    Text(Box<[u8]>),
    Group(usize),
    /// A backslash that starts nothing: the substitution ends there.
    Stop,
}

struct Substitution {
    regex: Pcre,
    replacement: Box<[Piece]>,
    all: bool,
}

fn check_regsub(args: &mut Args, _: &mut CompileEnv) -> Result<(), String> {
    let (mut all, mut case_sensitive) = (false, true);
    for flag in text_of(args, 2) {
        match flag {
            b'g' => all = true,
            b'i' => case_sensitive = false,
            other => {
                let other = char::from(*other);
                return Err(format!("invalid regex flag '{other}', only 'i' and 'g' are supported"));
            }
        }
    }
    let pattern = text_of(args, 0);
    let regex = Pcre::new(pattern, case_sensitive).map_err(|e| {
        let shown = String::from_utf8_lossy(pattern);
        format!("regex '{shown}' is invalid (error={}, erroffset={})", e.message, e.offset)
    })?;
    let replacement = parse_replacement(text_of(args, 1));
    args.put(0, Arg::Compiled(Arc::new(Substitution { regex, replacement, all })));
    Ok(())
}

/// Cuts a replacement at its `\0` to `\9`; `\xHH` is a byte, and any other byte after a backslash is itself.
fn parse_replacement(text: &[u8]) -> Box<[Piece]> {
    let mut pieces = Vec::new();
    let mut run = Vec::new();
    let mut rest = text;
    while let Some((&b, after)) = rest.split_first() {
        rest = after;
        if b != b'\\' {
            run.push(b);
            continue;
        }
        let stop = match *after {
            [digit @ b'0'..=b'9', ..] => {
                pieces.push(Piece::Text(std::mem::take(&mut run).into()));
                pieces.push(Piece::Group(usize::from(digit - b'0')));
                rest = &after[1..];
                false
            }
            [b'x', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                let digit = |b: u8| char::from(b).to_digit(16).unwrap_or(0);
                run.push((digit(high) << 4 | digit(low)) as u8);
                rest = &after[3..];
                false
            }
            [b'x', ..] | [] => true,
            [other, ..] => {
                run.push(other);
                rest = &after[1..];
                false
            }
        };
        if stop {
            pieces.push(Piece::Text(run.into()));
            pieces.push(Piece::Stop);
            return pieces.into();
        }
    }
    pieces.push(Piece::Text(run.into()));
    pieces.retain(|piece| !matches!(piece, Piece::Text(text) if text.is_empty()));
    pieces.into()
}

fn regsub(args: &Args, sample: &mut Sample, cx: &mut Ctx) -> bool {
    let Some(substitution) = args.compiled::<Substitution>(0) else { return false };
    to_str(sample, cx, |input, out| {
        MEMORY.with_borrow_mut(|memory| substitute(substitution, input, out, memory));
        true
    })
}

/// Writes `input` with matches replaced; what does not fit is left out. Each search sees what follows the match
/// before as a text of its own, but not as the start of a line.
fn substitute(substitution: &Substitution, input: &[u8], out: &mut Out, memory: &mut PcreMemory) {
    let mut start = 0;
    loop {
        let rest = &input[start..];
        let found = substitution.regex.find(rest, start > 0, memory) == Ok(true);
        let Some((from, to)) = memory.group(0).filter(|_| found) else {
            out.extend_cut(rest);
            return;
        };
        out.extend_cut(&rest[..from]);
        if !write_pieces(&substitution.replacement, rest, out, memory) {
            return;
        }
        start += to;
        if from == to {
            // An empty match: the next byte is kept, so that each place is looked at once, but the end twice when
            // it is reached from before.
            match rest.get(to) {
                Some(next) if substitution.all => {
                    out.extend_cut(&[*next]);
                    start += 1;
                }
                None if rest.is_empty() => return,
                _ => {}
            }
        }
        if !substitution.all {
            out.extend_cut(&input[start..]);
            return;
        }
    }
}

/// False when the replacement stops the substitution.
fn write_pieces(pieces: &[Piece], subject: &[u8], out: &mut Out, memory: &PcreMemory) -> bool {
    for piece in pieces {
        match piece {
            Piece::Text(text) => {
                out.extend_cut(text);
            }
            Piece::Group(i) => {
                if let Some((from, to)) = memory.group(*i) {
                    out.extend_cut(&subject[from..to]);
                }
            }
            Piece::Stop => return false,
        }
    }
    true
}

/// Writes `replacement` with the groups of the last match over `subject`.
pub(super) fn expand(replacement: &[u8], subject: &[u8], out: &mut Out, memory: &PcreMemory) {
    if memchr::memchr(b'\\', replacement).is_none() {
        out.extend_cut(replacement);
    } else {
        write_pieces(&parse_replacement(replacement), subject, out, memory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn substitutions() {
        let check = |input: &str, pattern: &str, replacement: &str, flags: &str, expected: &str| {
            let mut args = Args::default();
            for (i, text) in [pattern, replacement, flags].into_iter().enumerate() {
                args.put(i, Arg::Str(text.as_bytes().into()));
            }
            let (case_sensitive, all) = (!flags.contains('i'), flags.contains('g'));
            let substitution = Substitution {
                regex: Pcre::new(pattern.as_bytes(), case_sensitive).unwrap(),
                replacement: parse_replacement(replacement.as_bytes()),
                all,
            };
            let mut memory = [0; 64];
            let mut out = Out::new(&mut memory);
            substitute(&substitution, input.as_bytes(), &mut out, &mut PcreMemory::new(GROUPS, STEPS_MAX));
            assert_eq!(
                std::str::from_utf8(out.as_slice()),
                Ok(expected),
                "{input} {pattern} {replacement} {flags}"
            );
        };
        check("aXbXc", "X", "y", "", "aybXc");
        check("aXbXc", "X", "y", "g", "aybyc");
        check("aXbXc", "x", "y", "gi", "aybyc");
        check("abc", "x*", "-", "g", "-a-b-c-");
        check("abc", "b*", "-", "g", "-a--c-");
        check("aaa", "a*", "-", "g", "--");
        check("abc", "x*", "-", "", "-abc");
        check("aaaa", "^a", "y", "g", "yaaa");
        check("abab", "\\bab", "y", "g", "yy");
        check("abc", "(a)(x)?(b)", r"<\1|\2|\3|\0|\9>", "", "<a||b|ab|>c");
        check("abc", "b", r"\", "", "a");
        check("abc", "b", r"\x4", "", "a");
        check("abc", "b", r"\x41\n\\", "", "aAn\\c");
        check("", "^$", "y", "g", "y");
        check("abc", "c$", "y", "g", "aby");
        check("abc", "$", "y", "", "abcy");
        check("abc", "$", "y", "g", "abcyy");
        check("/////a///b/c/", "/+", "/", "g", "/a/b/c/");
    }

    #[test]
    fn hopeless_matches_are_given_up() {
        let substitution = Substitution {
            regex: Pcre::new(b"^(a+)+$", true).unwrap(),
            replacement: parse_replacement(b"x"),
            all: true,
        };
        let input = [vec![b'a'; 4000], vec![b'b']].concat();
        let mut memory = [0; 8192];
        let mut out = Out::new(&mut memory);
        substitute(&substitution, &input, &mut out, &mut PcreMemory::new(GROUPS, STEPS_MAX));
        assert_eq!(out.as_slice(), input);
    }

    #[test]
    fn what_does_not_fit_is_left_out() {
        let substitution = Substitution {
            regex: Pcre::new(b"a", true).unwrap(),
            replacement: parse_replacement(b"xyz"),
            all: true,
        };
        let mut memory = [0; 8];
        let mut out = Out::new(&mut memory);
        substitute(&substitution, b"aaaa", &mut out, &mut PcreMemory::new(GROUPS, STEPS_MAX));
        assert_eq!(out.as_slice(), b"xyzxyzxy");
    }
}
