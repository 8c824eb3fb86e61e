//! Text: case, trimming, fields and words, parts, joining, host names.

use super::ConverterDef;
use super::arithmetic::{int_or_var, want_int_or_var};
use super::shape::{entry, text_of, to_bool, to_int, to_part, to_str, var_text, want_var};
use crate::args::{ArgKind, ArgSpec, Args};
use crate::context::{Ctx, Out};
use crate::env::CompileEnv;
use crate::value::{Sample, Text, Type, Value, leading_int};
use std::ops::Range;

const STR_STR: (Type, Type) = (Type::Str, Type::Str);
const CHARS: ArgSpec = ArgSpec::new(1, &[ArgKind::Str]);
const FIELDS: ArgSpec = ArgSpec::new(2, &[ArgKind::Int, ArgKind::Str, ArgKind::Int]);
const JOIN: &[ArgKind] = &[ArgKind::Str, ArgKind::Str, ArgKind::Str];

/// The converters of this family.
pub static TEXT: &[ConverterDef] = &[
    entry(
        "add_item",
        STR_STR,
        ArgSpec::new(2, JOIN),
        Some(check_add_item),
        add_item,
        "Appends a delimiter, a variable and a suffix, but no delimiter to an empty string.",
    ),
    entry(
        "bytes",
        (Type::Bin, Type::Bin),
        ArgSpec::new(1, &[ArgKind::Str, ArgKind::Str]),
        Some(check_bytes),
        bytes,
        "A part given by offset and length, as numbers or variables.",
    ),
    entry(
        "concat",
        STR_STR,
        ArgSpec::new(1, JOIN),
        Some(check_concat),
        concat,
        "Appends a string, a variable and another string.",
    ),
    entry(
        "cut_crlf",
        STR_STR,
        ArgSpec::NONE,
        None,
        |_, s, c| to_part(s, c, |i| Some(0..first_line(i))),
        "What comes before the first CR or LF.",
    ),
    entry(
        "field",
        STR_STR,
        FIELDS,
        Some(check_fields),
        |a, s, c| fields(a, s, c, field),
        "Fields by number, counted from the start or the end.",
    ),
    entry(
        "has_ctl",
        (Type::Bin, Type::Bool),
        ArgSpec::new(0, &[ArgKind::Str]),
        Some(check_has_ctl),
        has_ctl,
        "True when there are control characters, or those of a mask.",
    ),
    entry("host_only", STR_STR, ArgSpec::NONE, None, host_only, "A host without its port, in lower case."),
    entry(
        "language",
        STR_STR,
        ArgSpec::new(1, &[ArgKind::Str, ArgKind::Str]),
        None,
        language,
        "The preferred one of some languages.",
    ),
    entry(
        "length",
        (Type::Str, Type::Int),
        ArgSpec::NONE,
        None,
        |_, s, c| to_int(s, c, |i| i64::try_from(i.len()).ok()),
        "The number of bytes.",
    ),
    entry(
        "lower",
        STR_STR,
        ArgSpec::NONE,
        None,
        |_, s, c| to_str(s, c, |i, o| recase(i, o, <[u8]>::make_ascii_lowercase)),
        "ASCII letters in lower case.",
    ),
    entry(
        "ltrim",
        STR_STR,
        CHARS,
        None,
        |a, s, c| to_part(s, c, |i| Some(ltrim(i, text_of(a, 0)))),
        "Without the given characters at the start.",
    ),
    entry(
        "param",
        STR_STR,
        ArgSpec::new(1, &[ArgKind::Str, ArgKind::Str]),
        Some(check_param),
        param,
        "The value of a name in a list of name=value.",
    ),
    entry(
        "port_only",
        (Type::Str, Type::Int),
        ArgSpec::NONE,
        None,
        |_, s, c| to_int(s, c, |i| Some(i64::from(port(i)))),
        "The port after a host, or 0.",
    ),
    entry(
        "reverse",
        STR_STR,
        ArgSpec::NONE,
        None,
        |_, s, c| to_str(s, c, reverse),
        "The bytes in reverse order.",
    ),
    entry(
        "reverse_dom",
        STR_STR,
        ArgSpec::NONE,
        None,
        |_, s, c| to_str(s, c, reverse_dom),
        "The labels of a host name in reverse order.",
    ),
    entry(
        "rtrim",
        STR_STR,
        CHARS,
        None,
        |a, s, c| to_part(s, c, |i| Some(rtrim(i, text_of(a, 0)))),
        "Without the given characters at the end.",
    ),
    entry(
        "strcmp",
        (Type::Str, Type::Int),
        CHARS,
        Some(check_var),
        strcmp,
        "Compares with a variable: negative, zero or positive.",
    ),
    entry(
        "upper",
        STR_STR,
        ArgSpec::NONE,
        None,
        |_, s, c| to_str(s, c, |i, o| recase(i, o, <[u8]>::make_ascii_uppercase)),
        "ASCII letters in upper case.",
    ),
    entry(
        "word",
        STR_STR,
        FIELDS,
        Some(check_fields),
        |a, s, c| fields(a, s, c, word),
        "Words by number, counted from the start or the end; empty ones do not count.",
    ),
];

fn check_var(args: &mut Args, _: &mut CompileEnv) -> Result<(), String> {
    want_var(args, 0)
}

fn recase(input: &[u8], out: &mut Out, change: fn(&mut [u8])) -> bool {
    let start = out.len();
    let done = out.extend(input);
    change(&mut out.as_mut_slice()[start..]);
    done
}

fn first_line(input: &[u8]) -> usize {
    memchr::memchr2(b'\r', b'\n', input).unwrap_or(input.len())
}

fn ltrim(input: &[u8], chars: &[u8]) -> Range<usize> {
    let set = ByteSet::new(chars);
    input.iter().position(|&b| !set.has(b)).unwrap_or(input.len())..input.len()
}

fn rtrim(input: &[u8], chars: &[u8]) -> Range<usize> {
    let set = ByteSet::new(chars);
    0..input.iter().rposition(|&b| !set.has(b)).map_or(0, |at| at + 1)
}

/// A set of bytes, so that looking one up costs the same whatever the number of delimiters.
struct ByteSet([u64; 4]);

impl ByteSet {
    fn new(bytes: &[u8]) -> ByteSet {
        let mut set = [0; 4];
        for &b in bytes {
            set[usize::from(b >> 6)] |= 1 << (b & 63);
        }
        ByteSet(set)
    }

    fn has(&self, b: u8) -> bool {
        self.0[usize::from(b >> 6)] >> (b & 63) & 1 == 1
    }
}

fn check_fields(args: &mut Args, _: &mut CompileEnv) -> Result<(), String> {
    if args.int(0) == Some(0) {
        return Err("Unexpected value 0 for index".into());
    }
    if text_of(args, 1).is_empty() {
        return Err("Empty separators list".into());
    }
    Ok(())
}

type Cut = fn(&[u8], i64, &ByteSet, i64) -> Option<Range<usize>>;

fn fields(args: &Args, sample: &mut Sample, cx: &mut Ctx, cut: Cut) -> bool {
    let index = args.int(0).unwrap_or(1);
    let set = ByteSet::new(text_of(args, 1));
    let count = args.int(2).unwrap_or(1);
    to_part(sample, cx, |input| cut(input, index, &set, count))
}

/// `count` fields from the one numbered `index`. Zero or less means all that remain.
fn field(input: &[u8], index: i64, set: &ByteSet, count: i64) -> Option<Range<usize>> {
    let last =
        if count > 0 { index.unsigned_abs().saturating_add(count.unsigned_abs()) - 1 } else { u64::MAX };
    let first = index.unsigned_abs();
    let mut number = 1;
    if index > 0 {
        let mut start = 0;
        for (at, &b) in input.iter().enumerate() {
            if !set.has(b) {
                continue;
            }
            if number == last {
                return Some(start..at);
            }
            number += 1;
            if number == first {
                start = at + 1;
            }
        }
        (number >= first).then_some(start..input.len())
    } else {
        let mut end = input.len();
        for (at, &b) in input.iter().enumerate().rev() {
            if !set.has(b) {
                continue;
            }
            if number == last {
                return Some(at + 1..end);
            }
            number += 1;
            if number == first {
                end = at;
            }
        }
        (number >= first).then_some(0..end)
    }
}

/// Like [`field`], but runs of delimiters count as one and those at the ends do not count.
fn word(input: &[u8], index: i64, set: &ByteSet, count: i64) -> Option<Range<usize>> {
    let last =
        if count > 0 { index.unsigned_abs().saturating_add(count.unsigned_abs()) - 1 } else { u64::MAX };
    let first = index.unsigned_abs();
    let mut number = 0;
    let mut inside = false;
    if index > 0 {
        let mut start = 0;
        for (at, &b) in input.iter().enumerate() {
            if set.has(b) {
                if inside && number == last {
                    return Some(start..at);
                }
                inside = false;
            } else if !inside {
                inside = true;
                number += 1;
                if number == first {
                    start = at;
                }
            }
        }
        (number >= first).then_some(start..input.len())
    } else {
        let mut end = input.len();
        for (at, &b) in input.iter().enumerate().rev() {
            if set.has(b) {
                if inside && number == last {
                    return Some(at + 1..end);
                }
                inside = false;
            } else if !inside {
                inside = true;
                number += 1;
                if number == first {
                    end = at + 1;
                }
            }
        }
        (number >= first).then_some(0..end)
    }
}

fn check_bytes(args: &mut Args, _: &mut CompileEnv) -> Result<(), String> {
    want_int_or_var(args, 0)?;
    if args.int(0).is_some_and(|offset| offset < 0) {
        return Err("expects a non-negative integer".into());
    }
    if args.is_set(1) {
        want_int_or_var(args, 1)?;
        if args.int(1).is_some_and(|len| len <= 0) {
            return Err("expects a positive integer".into());
        }
    }
    Ok(())
}

fn bytes(args: &Args, sample: &mut Sample, cx: &mut Ctx) -> bool {
    let Some(offset) = int_or_var(args, 0, cx).and_then(|n| usize::try_from(n).ok()) else { return false };
    let mut len = usize::MAX;
    if args.is_set(1) {
        let Some(given) = int_or_var(args, 1, cx).and_then(|n| usize::try_from(n).ok()) else { return false };
        len = given;
    }
    to_part(sample, cx, |input| {
        let start = offset.min(input.len());
        Some(start..start.saturating_add(len).min(input.len()))
    })
}

fn check_concat(args: &mut Args, _: &mut CompileEnv) -> Result<(), String> {
    if !text_of(args, 1).is_empty() { want_var(args, 1) } else { Ok(()) }
}

fn concat(args: &Args, sample: &mut Sample, cx: &mut Ctx) -> bool {
    let middle = args.var(1).and_then(|var| var_text(cx, var)).unwrap_or(Text::EMPTY);
    join(sample, cx, middle, |input, middle, out| {
        out.extend(input)
            && out.extend(text_of(args, 0))
            && out.extend(middle)
            && out.extend(text_of(args, 2))
    })
}

fn join(
    sample: &mut Sample,
    cx: &mut Ctx,
    middle: Text,
    map: impl FnOnce(&[u8], &[u8], &mut Out) -> bool,
) -> bool {
    let Some(text) = sample.value.text() else { return false };
    let Some(text) = cx.map_two(text, middle, map) else { return false };
    sample.value = Value::Str(text);
    true
}

fn check_add_item(args: &mut Args, _: &mut CompileEnv) -> Result<(), String> {
    if text_of(args, 1).is_empty() {
        if text_of(args, 2).is_empty() {
            return Err("one of the optional arguments has to be nonempty".into());
        }
        return Ok(());
    }
    want_var(args, 1)
}

fn add_item(args: &Args, sample: &mut Sample, cx: &mut Ctx) -> bool {
    let middle = args.var(1).and_then(|var| var_text(cx, var)).unwrap_or(Text::EMPTY);
    let suffix = text_of(args, 2);
    join(sample, cx, middle, |input, middle, out| {
        let delimiter =
            if input.is_empty() || middle.is_empty() && suffix.is_empty() { &[] } else { text_of(args, 0) };
        out.extend(input) && out.extend(delimiter) && out.extend(middle) && out.extend(suffix)
    })
}

/// The control characters `has_ctl` looks for by default: all but the tab.
const ALL_BUT_TAB: i64 = 0x1_ffff_fdff;
const ALL_CONTROLS: i64 = 0x1_ffff_ffff;
/// NUL, LF and CR, which HTTP forbids in values.
const FORBIDDEN_IN_HTTP: i64 = 0x2401;

fn check_has_ctl(args: &mut Args, _: &mut CompileEnv) -> Result<(), String> {
    let Some(text) = args.str(0) else { return Ok(()) };
    let mask = parse_ctl_mask(text)?;
    args.put(0, crate::args::Arg::Int(mask));
    Ok(())
}

fn parse_ctl_mask(text: &[u8]) -> Result<i64, String> {
    match text {
        b"any" => return Ok(ALL_CONTROLS),
        b"http" => return Ok(FORBIDDEN_IN_HTTP),
        b"" => return Ok(0),
        _ => {}
    }
    let shown = String::from_utf8_lossy(text);
    let (mask, read) = match text.strip_prefix(b"0x") {
        Some(hex) => {
            let digits = hex.iter().take_while(|b| b.is_ascii_hexdigit()).count();
            let value = hex[..digits].iter().fold(0u64, |value, &b| {
                value.saturating_mul(16).saturating_add(u64::from(char::from(b).to_digit(16).unwrap_or(0)))
            });
            (i64::try_from(value).unwrap_or(i64::MAX), 2 + digits)
        }
        None => leading_int(text),
    };
    if read != text.len() || read == 0 {
        return Err(format!(
            "cannot parse value '{shown}', problem at position {read}; expecting an integer value (decimal or hex with '0x' prefix)"
        ));
    }
    let excess = mask & !ALL_CONTROLS;
    if excess != 0 {
        return Err(format!("unsupported excess bits {excess:#x} in argument value {shown}"));
    }
    Ok(mask)
}

fn has_ctl(args: &Args, sample: &mut Sample, cx: &mut Ctx) -> bool {
    let mask = args.int(0).unwrap_or(ALL_BUT_TAB);
    to_bool(sample, cx, |input| {
        Some(input.iter().any(|&b| match b {
            0..=31 => mask >> b & 1 == 1,
            127 => mask >> 32 & 1 == 1,
            _ => false,
        }))
    })
}

/// Where the port's colon is: the last one that no closing bracket follows.
fn port_colon(input: &[u8]) -> Option<usize> {
    memchr::memrchr2(b':', b']', input).filter(|&at| input[at] == b':')
}

fn host_only(_: &Args, sample: &mut Sample, cx: &mut Ctx) -> bool {
    to_str(sample, cx, |input, out| {
        recase(&input[..port_colon(input).unwrap_or(input.len())], out, <[u8]>::make_ascii_lowercase)
    })
}

/// The port as the reference computes it: every byte counts as a digit, in 32 bits. Only digits
/// make sense there, but a rule may compare whatever comes out.
fn port(input: &[u8]) -> u32 {
    let digits = port_colon(input).map_or(&[][..], |at| &input[at + 1..]);
    digits
        .iter()
        .fold(0u32, |port, &b| port.wrapping_mul(10).wrapping_add(u32::from(b).wrapping_sub(u32::from(b'0'))))
}

fn check_param(args: &mut Args, _: &mut CompileEnv) -> Result<(), String> {
    let Some(text) = args.str(1) else { return Ok(()) };
    let delimiter = match *text {
        [one] => one,
        [b'0', b'x', high, low] => hex_pair(high, low).ok_or(BAD_DELIMITER)?,
        _ => return Err(BAD_DELIMITER.into()),
    };
    args.put(1, crate::args::Arg::Int(i64::from(delimiter)));
    Ok(())
}

const BAD_DELIMITER: &str = "Delimiter must be either exactly 1 character, or 0xHH for an ASCII code .";

fn hex_pair(high: u8, low: u8) -> Option<u8> {
    let digit = |b: u8| char::from(b).to_digit(16);
    u8::try_from(digit(high)? << 4 | digit(low)?).ok()
}

fn param(args: &Args, sample: &mut Sample, cx: &mut Ctx) -> bool {
    let delimiter = args.int(1).and_then(|b| u8::try_from(b).ok()).unwrap_or(b'&');
    let name = text_of(args, 0);
    to_part(sample, cx, |input| find_param(input, name, delimiter))
}

fn find_param(input: &[u8], name: &[u8], delimiter: u8) -> Option<Range<usize>> {
    let mut start = 0;
    while start < input.len() {
        let end = memchr::memchr(delimiter, &input[start..]).map_or(input.len(), |len| start + len);
        if let Some(rest) = input[start..end].strip_prefix(name) {
            match rest.first() {
                None => return Some(end..end),
                Some(b'=') => return Some(start + name.len() + 1..end),
                Some(_) => {}
            }
        }
        start = end + 1;
    }
    None
}

fn reverse(input: &[u8], out: &mut Out) -> bool {
    let done = out.extend(input);
    out.as_mut_slice().reverse();
    done
}

fn reverse_dom(input: &[u8], out: &mut Out) -> bool {
    let name = input.strip_suffix(b".").unwrap_or(input);
    if name.is_empty() {
        return false;
    }
    for (i, label) in name.rsplit(|&b| b == b'.').enumerate() {
        if label.is_empty() || i > 0 && !out.push(b'.') || !out.extend(label) {
            return false;
        }
    }
    true
}

fn strcmp(args: &Args, sample: &mut Sample, cx: &mut Ctx) -> bool {
    let Some(other) = args.var(0).and_then(|var| var_text(cx, var)) else { return false };
    let Some(text) = sample.value.text() else { return false };
    let (left, right) = (cx.text(text), cx.text(other));
    sample.value = Value::Int(compare(left, right));
    true
}

/// The difference of the first two bytes that differ, else 1 or -1 for the longer or shorter one.
fn compare(left: &[u8], right: &[u8]) -> i64 {
    match left.iter().zip(right).find(|(a, b)| a != b) {
        Some((a, b)) => i64::from(*a) - i64::from(*b),
        None => match left.len().cmp(&right.len()) {
            std::cmp::Ordering::Less => -1,
            std::cmp::Ordering::Equal => 0,
            std::cmp::Ordering::Greater => 1,
        },
    }
}

fn language(args: &Args, sample: &mut Sample, cx: &mut Ctx) -> bool {
    let Some(text) = sample.value.text() else { return false };
    let accepted = text_of(args, 0);
    let found = match preferred_language(cx.text(text), accepted) {
        Some(range) => &accepted[range],
        None => match args.str(1) {
            Some(default) => default,
            None => return false,
        },
    };
    let Some(text) = cx.store(found) else { return false };
    sample.value = Value::Str(text);
    true
}

/// The place in `accepted` (names separated by `;`) of the name `header` likes best. An entry of the header
/// is a name, blanks, and a `q` parameter that only counts when it comes first.
fn preferred_language(header: &[u8], accepted: &[u8]) -> Option<Range<usize>> {
    let mut best = None;
    let mut best_quality = 0;
    for entry in header.split(|&b| b == b',') {
        let entry = skip_blanks(entry);
        let name_len = entry.iter().position(|b| matches!(b, b';' | b' ' | b'\t')).unwrap_or(entry.len());
        let (name, rest) = entry.split_at(name_len);
        let rest = skip_blanks(rest);
        let Some(found) = find_language(name, accepted) else { continue };
        let quality = match rest.split_first() {
            None => 1000,
            Some((b';', parameter)) => quality(parameter),
            Some(_) => continue,
        };
        if quality > best_quality {
            best_quality = quality;
            best = Some(found);
        }
    }
    best
}

fn skip_blanks(bytes: &[u8]) -> &[u8] {
    let start = bytes.iter().position(|b| !matches!(b, b' ' | b'\t')).unwrap_or(bytes.len());
    &bytes[start..]
}

/// The first of the accepted names that is `name` or what `name` has before a dash.
fn find_language(name: &[u8], accepted: &[u8]) -> Option<Range<usize>> {
    let mut start = 0;
    for candidate in accepted.split(|&b| b == b';') {
        let rest = name.strip_prefix(candidate).filter(|_| !candidate.is_empty());
        if rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'-'))) {
            return Some(start..start + candidate.len());
        }
        start += candidate.len() + 1;
    }
    None
}

/// The weight of a language in thousandths, from the text after the `;`. What is no weight counts as 1.
fn quality(parameter: &[u8]) -> u32 {
    let parse = || {
        let rest = skip_blanks(parameter).strip_prefix(b"q")?;
        let rest = skip_blanks(rest).strip_prefix(b"=")?;
        let rest = skip_blanks(rest).strip_prefix(b"0")?;
        let decimals = rest.strip_prefix(b".").unwrap_or_default();
        let digits = decimals.iter().take(3).take_while(|b| b.is_ascii_digit());
        Some(digits.zip([100, 10, 1]).map(|(&b, unit)| u32::from(b - b'0') * unit).sum())
    };
    parse().unwrap_or(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_words_count_from_both_ends() {
        let check = |cut: Cut, input: &str, index, chars: &str, count, expected: Option<&str>| {
            let got = cut(input.as_bytes(), index, &ByteSet::new(chars.as_bytes()), count);
            assert_eq!(got.map(|range| &input[range]), expected, "{input} {index} {chars} {count}");
        };
        let f = "f1_f2_f3__f5";
        check(field, f, 4, "_", 1, Some(""));
        check(field, f, 5, "_", 1, Some("f5"));
        check(field, f, 6, "_", 1, None);
        check(field, f, 2, "_", 0, Some("f2_f3__f5"));
        check(field, f, 2, "_", 2, Some("f2_f3"));
        check(field, f, 2, "_", 9, Some("f2_f3__f5"));
        check(field, f, -2, "_", 3, Some("f2_f3_"));
        check(field, f, -3, "_", 0, Some("f1_f2_f3"));
        check(field, f, -5, "_", 9, Some("f1"));
        check(field, f, -6, "_", 1, None);
        check(field, f, 1, "_", -1, Some(f));
        check(field, "a.b.c", -2, ".", -1, Some("a.b"));
        check(field, "", 1, "_", 1, Some(""));
        check(field, "_", 2, "_", 1, Some(""));
        check(field, ".", -3, ".", 1, None);
        check(field, "abc", i64::MIN, ".", i64::MAX, None);
        check(word, f, 4, "_", 1, Some("f5"));
        check(word, f, 5, "_", 1, None);
        check(word, f, 3, "_", 2, Some("f3__f5"));
        check(word, f, -2, "_", 3, Some("f1_f2_f3"));
        check(word, f, -3, "_", 0, Some("f1_f2"));
        check(word, "/f1////f2/f3/f4/", 4, "/", 0, Some("f4/"));
        check(word, "/f1////f2/f3/f4//", -1, "/", 0, Some("/f1////f2/f3/f4"));
        check(word, "//f1////f2/f3/f4//", -4, "/", 9, Some("//f1"));
        check(word, "//a//b//", 1, "/", 5, Some("a//b//"));
        check(word, "//a//b//", 1, "/", 2, Some("a//b"));
        check(word, "//a//b//", -1, "/", 2, Some("a//b"));
        check(word, "///", 1, "/", 1, None);
        check(word, "///", -1, "/", 1, None);
        check(word, "", 1, "/", 1, None);
    }

    #[test]
    fn parameters_are_found_whole() {
        let check = |input: &str, name: &str, delimiter, expected: Option<&str>| {
            let got = find_param(input.as_bytes(), name.as_bytes(), delimiter);
            assert_eq!(got.map(|range| &input[range]), expected, "{input} {name}");
        };
        check("a=b&c=d&a=r", "a", b'&', Some("b"));
        check("a&b=c", "a", b'&', Some(""));
        check("a=&b&c=a", "b", b'&', Some(""));
        check("a=1;b=2;c=4", "b", b';', Some("2"));
        check("aa=1&a=2", "a", b'&', Some("2"));
        check("a=1=2&b", "a", b'&', Some("1=2"));
        check("a=1", "b", b'&', None);
        check("=5", "", b'&', Some("5"));
        check("&=5&", "", b'&', Some(""));
        check("", "", b'&', None);
        check("a&", "", b'&', None);
    }

    #[test]
    fn ports_are_read_as_the_reference_does() {
        let check = |input: &str, expected| assert_eq!(port(input.as_bytes()), expected, "{input}");
        check("host:80", 80);
        check("host", 0);
        check("[::1]", 0);
        check("[::1]:80", 80);
        check("::1", 1);
        check("a:b", 50);
        check("a:8x", 152);
        check("a:-5", 4_294_967_271);
        check("a:99999999999999999999", 1_661_992_959);
        check("a:5]x", 0);
        check("", 0);
    }

    #[test]
    fn languages_follow_the_weights() {
        let check = |header: &str, accepted: &str, expected: Option<&str>| {
            let got = preferred_language(header.as_bytes(), accepted.as_bytes());
            assert_eq!(got.map(|range| &accepted[range]), expected, "{header}");
        };
        let both = "fr;en";
        check("fr;q=0.8,en;q=0.9", both, Some("en"));
        check("fr; q=0.5 , en ;q=0.7", both, Some("en"));
        check("fr;q=abc,en;q=0.1", both, Some("fr"));
        check("fr q=0.5,en", both, Some("en"));
        check("fr q=0.5", both, None);
        check("en;q=0.001,fr;q=0.0019", both, Some("en"));
        check("fr-FR,en;q=0.9", both, Some("fr"));
        check("fr-FR,en;q=0.9", "es;fr-FR;en", Some("fr-FR"));
        check("fr;q=0,en;q=0.1", both, Some("en"));
        check("en;x=1;q=0.1,fr;q=0.9", both, Some("en"));
        check("en;q=00.5,fr;q=0.4", both, Some("fr"));
        check("en;q =0.1,fr;q=0.2", both, Some("fr"));
        check("enx,fr;q=0.1", both, Some("fr"));
        check("*", both, None);
        check("-en", both, None);
    }

    #[test]
    fn control_masks() {
        let check = |text: &str, expected: Result<i64, &str>| {
            assert_eq!(parse_ctl_mask(text.as_bytes()), expected.map_err(str::to_string), "{text}");
        };
        check("any", Ok(ALL_CONTROLS));
        check("http", Ok(0x2401));
        check("0x200", Ok(512));
        check("512", Ok(512));
        check("0x3ffffffff", Err("unsupported excess bits 0x200000000 in argument value 0x3ffffffff"));
        check("-1", Err("unsupported excess bits 0xfffffffe00000000 in argument value -1"));
        check(
            "x",
            Err(
                "cannot parse value 'x', problem at position 0; expecting an integer value (decimal or hex with '0x' prefix)",
            ),
        );
    }

    #[test]
    fn comparisons_and_names() {
        assert_eq!(compare(b"abcd", b"abc"), 1);
        assert_eq!(compare(b"zbc", b"abc"), 25);
        assert_eq!(compare(b"a", b"\x80"), -31);
        let mut memory = [0; 64];
        let mut check = |input: &str, expected: Option<&str>| {
            let mut out = Out::new(&mut memory);
            let got = reverse_dom(input.as_bytes(), &mut out)
                .then(|| String::from_utf8_lossy(out.as_slice()).into_owned());
            assert_eq!(got.as_deref(), expected, "{input}");
        };
        check("mail.example.com", Some("com.example.mail"));
        check("mail.example.com.", Some("com.example.mail"));
        check("a..b", None);
        check(".a", None);
        check(".", None);
        check("", None);
    }
}
