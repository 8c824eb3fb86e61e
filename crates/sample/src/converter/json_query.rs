//! `json_query`: a value out of a JSON document, by path.
//!
//! The document is walked once, whatever the path; nesting is bounded. What the reference's parser accepts is
//! accepted here too, such as a comma before a closing bracket.

use super::ConverterDef;
use super::shape::{entry, text_of};
use crate::args::{Arg, ArgKind, ArgSpec, Args};
use crate::context::{Ctx, Out};
use crate::env::CompileEnv;
use crate::value::{Sample, Text, Type, Value};
use std::fmt::Write as _;
use std::ops::Range;

/// The converters of this family.
pub static JSON_QUERY: &[ConverterDef] = &[entry(
    "json_query",
    (Type::Str, Type::Any),
    QUERY,
    Some(check_query),
    |args, sample, cx| sample.value.text().is_some_and(|text| query(args, text, sample, cx)),
    "A value out of a JSON document, by path.",
)];

/// The arguments of a query: a path, and `int` for numbers as integers.
pub(super) const QUERY: ArgSpec = ArgSpec::new(1, &[ArgKind::Str, ArgKind::Str]);

/// Arrays and objects may be nested this deep.
const DEPTH_MAX: usize = 20;
/// Integers beyond this are not exact in JSON, whose numbers are floating-point.
const INT_MAX: i64 = (1 << 53) - 1;

/// Checks the arguments of a query.
pub(super) fn check_query(args: &mut Args, _: &mut CompileEnv) -> Result<(), String> {
    if text_of(args, 0).is_empty() {
        return Err("json_path must not be empty".into());
    }
    match text_of(args, 1) {
        b"" => {}
        b"int" => args.put(1, Arg::Int(1)),
        _ => return Err("output_type only supports \"int\" as argument".into()),
    }
    Ok(())
}

/// Looks up the path of `args` in the document `text` and replaces the sample by what is there.
pub(super) fn query(args: &Args, text: Text, sample: &mut Sample, cx: &mut Ctx) -> bool {
    let Some((kind, range)) = find(cx.text(text), text_of(args, 0)) else { return false };
    let token = text.slice(range.start, range.len());
    let as_int = args.int(1) == Some(1);
    let value = match kind {
        Kind::True => Value::Bool(true),
        Kind::False => Value::Bool(false),
        Kind::Array => Value::Str(token),
        Kind::Null | Kind::Object => return false,
        Kind::Number if as_int => {
            let number = c_integer(cx.text(token));
            if !(-INT_MAX..=INT_MAX).contains(&number) {
                return false;
            }
            Value::Int(number)
        }
        Kind::Number => {
            match cx.map_bytes(token, |input, out| put_double(double(input).map_or(0.0, |(n, _)| n), out)) {
                Some(text) => Value::Str(text),
                None => return false,
            }
        }
        Kind::String => match cx.map_bytes(token, unescape) {
            Some(text) => Value::Str(text),
            None => return false,
        },
    };
    sample.value = value;
    true
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Object,
    Array,
    /// Its bytes are those between the quotes.
    String,
    Number,
    True,
    False,
    Null,
}

/// What may come next in a document.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expect {
    Value,
    Key,
    Colon,
    CommaOrEnd,
}

/// How much of a path was matched so far.
struct Search<'p> {
    path: &'p [u8],
    /// Containers that are open.
    depth: usize,
    /// Containers that the matched part of the path goes into.
    matched: usize,
    /// The number of the element in the array being counted, and the one that is wanted.
    index: i64,
    wanted: i64,
    /// The path goes on with a key of the object at depth `matched`.
    key: bool,
    /// The array or object that is the result started here.
    start: Option<(usize, usize, Kind)>,
}

impl Search<'_> {
    /// True when the value that starts now is the wanted one.
    fn here(&self) -> bool {
        self.path.is_empty() && self.depth == self.matched && !self.key
    }

    fn open(&mut self, at: usize, kind: Kind) {
        if self.here() && self.start.is_none() {
            self.start = Some((at, self.depth, kind));
        }
        if self.depth == self.matched && self.start.is_none() {
            match (kind, self.path.first()) {
                (Kind::Object, Some(b'.')) => {
                    self.path = &self.path[1..];
                    self.matched += 1;
                    self.key = true;
                }
                (Kind::Array, Some(b'[')) => {
                    self.index = 0;
                    self.wanted = index_in(self.path);
                    self.enter_element();
                }
                _ => {}
            }
        }
        self.depth += 1;
    }

    /// If the element that starts now is the wanted one, the path goes on inside it.
    fn enter_element(&mut self) {
        if self.index == self.wanted
            && let Some(end) = memchr::memchr(b']', self.path)
        {
            self.path = &self.path[end + 1..];
            self.matched += 1;
            self.wanted = -1;
        }
    }

    fn comma(&mut self) {
        if self.depth == self.matched + 1 && !self.key && self.start.is_none() && self.wanted >= 0 {
            self.index += 1;
            self.enter_element();
        }
    }

    /// False when the wanted value cannot come any more.
    fn key(&mut self, key: &[u8]) -> bool {
        if self.start.is_some() {
            return true;
        }
        if self.depth < self.matched {
            return false;
        }
        if self.key && self.depth == self.matched {
            let len = step_len(self.path);
            if same_key(&self.path[..len], key) {
                self.path = &self.path[len..];
                self.key = false;
            }
        } else if self.depth == self.matched {
            // The key that was matched had another value than the path asks for.
            return false;
        }
        true
    }

    /// The whole array or object, when the one that ends now is the result.
    fn close(&mut self, end: usize) -> Option<(Kind, Range<usize>)> {
        self.depth -= 1;
        let (start, depth, kind) = self.start?;
        (depth == self.depth).then_some((kind, start..end))
    }
}

/// The number in `[number]` at the start of `path`; what is no number counts as 0, a missing bracket as none.
fn index_in(path: &[u8]) -> i64 {
    let inner = &path[1..];
    let Some(end) = memchr::memchr(b']', inner) else { return -1 };
    let inner = &inner[..end];
    if inner.iter().any(u8::is_ascii_whitespace) {
        return -1;
    }
    crate::value::leading_int(inner).0
}

/// The length of a key in a path: up to the next `.` or `[` that no backslash precedes.
fn step_len(path: &[u8]) -> usize {
    let mut at = 0;
    while at < path.len() && !matches!(path[at], b'.' | b'[') {
        at += if path[at] == b'\\' { 2 } else { 1 };
    }
    at.min(path.len())
}

/// True when `step`, with its backslashes resolved, is `key`.
fn same_key(step: &[u8], key: &[u8]) -> bool {
    let mut key = key.iter();
    let mut step = step.iter();
    while let Some(mut b) = step.next() {
        if *b == b'\\' {
            let Some(next) = step.next() else { return false };
            b = next;
        }
        if key.next() != Some(b) {
            return false;
        }
    }
    key.next().is_none()
}

/// Finds the value at `path` and says what it is and where.
fn find(json: &[u8], path: &[u8]) -> Option<(Kind, Range<usize>)> {
    let mut search = Search {
        path: path.strip_prefix(b"$")?,
        depth: 0,
        matched: 0,
        index: 0,
        wanted: -1,
        key: false,
        start: None,
    };
    let mut nesting = [Kind::Null; DEPTH_MAX];
    let mut expect = Expect::Value;
    let mut at = 0;
    while at < json.len() {
        let b = json[at];
        if matches!(b, b' ' | b'\t' | b'\r' | b'\n') {
            at += 1;
            continue;
        }
        match (expect, b) {
            (Expect::Value, b'{' | b'[') => {
                let kind = if b == b'{' { Kind::Object } else { Kind::Array };
                *nesting.get_mut(search.depth)? = kind;
                search.open(at, kind);
                expect = if kind == Kind::Object { Expect::Key } else { Expect::Value };
                at += 1;
            }
            // An array may end where a value could start: it is empty, or ends with a comma.
            (Expect::Value | Expect::CommaOrEnd, b']') | (Expect::Key | Expect::CommaOrEnd, b'}') => {
                let kind = if b == b'}' { Kind::Object } else { Kind::Array };
                if search.depth == 0 || nesting[search.depth - 1] != kind {
                    return None;
                }
                at += 1;
                if let Some(found) = search.close(at) {
                    return Some(found);
                }
                if search.depth == 0 {
                    return None;
                }
                expect = Expect::CommaOrEnd;
            }
            (Expect::Value, _) => {
                let (kind, range, next) = scalar(json, at)?;
                if search.here() && search.start.is_none() {
                    return Some((kind, range));
                }
                at = next?;
                if search.depth == 0 {
                    return None;
                }
                expect = Expect::CommaOrEnd;
            }
            (Expect::Key, b'"') => {
                let end = string_end(json, at)?;
                if !search.key(&json[at + 1..end]) {
                    return None;
                }
                at = end + 1;
                expect = Expect::Colon;
            }
            (Expect::Colon, b':') => {
                at += 1;
                expect = Expect::Value;
            }
            (Expect::CommaOrEnd, b',') => {
                search.comma();
                at += 1;
                expect = if nesting[search.depth - 1] == Kind::Object { Expect::Key } else { Expect::Value };
            }
            _ => return None,
        }
    }
    None
}

/// The scalar at `at`: what it is, its bytes, and where it ends, if it ends well.
fn scalar(json: &[u8], at: usize) -> Option<(Kind, Range<usize>, Option<usize>)> {
    let rest = &json[at..];
    let word = |kind, text: &[u8]| {
        rest.starts_with(text).then_some((kind, at..at + text.len(), Some(at + text.len())))
    };
    match rest[0] {
        b'"' => string_end(json, at).map(|end| (Kind::String, at + 1..end, Some(end + 1))),
        b't' => word(Kind::True, b"true"),
        b'f' => word(Kind::False, b"false"),
        b'n' => word(Kind::Null, b"null"),
        b'-' | b'0'..=b'9' => {
            let len = rest
                .iter()
                .take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'+' | b'.'))
                .count();
            Some((Kind::Number, at..at + len, double(rest).map(|(_, len)| at + len)))
        }
        _ => None,
    }
}

/// The position of the quote that ends the string that starts at `at`.
fn string_end(json: &[u8], at: usize) -> Option<usize> {
    let mut from = at + 1;
    loop {
        let found = from + memchr::memchr2(b'"', b'\\', json.get(from..)?)?;
        if json[found] == b'"' {
            return Some(found);
        }
        from = found + 2;
    }
}

/// The number that `text` starts with and its length. A point must be followed by a digit or an exponent.
fn double(text: &[u8]) -> Option<(f64, usize)> {
    let digits = |from: usize| text[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let sign = usize::from(text.first() == Some(&b'-'));
    let whole = digits(sign);
    if whole == 0 {
        return None;
    }
    let mut mantissa = sign + whole;
    let mut fraction = usize::MAX;
    if text.get(mantissa) == Some(&b'.') {
        fraction = digits(mantissa + 1);
        mantissa += 1 + fraction;
    }
    let mut len = mantissa;
    let mut exponent_digits = 0;
    if matches!(text.get(mantissa), Some(b'e' | b'E')) {
        len += 1 + usize::from(matches!(text.get(mantissa + 1), Some(b'+' | b'-')));
        exponent_digits = digits(len);
        len += exponent_digits;
    } else if fraction == 0 {
        return None;
    }
    let number = std::str::from_utf8(&text[..if exponent_digits > 0 { len } else { mantissa }]).ok()?;
    let value: f64 = number.parse().ok()?;
    // The reference computes with plain products and loses what is below the normal range.
    Some((if value.is_subnormal() { 0.0 } else { value }, len))
}

/// The integer that `text` starts with, as C's `strtoll` reads it: `0x` for hexadecimal, `0` for octal.
fn c_integer(text: &[u8]) -> i64 {
    let (negative, digits) = match text.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (radix, digits) = match digits {
        [b'0', b'x' | b'X', rest @ ..] if rest.first().is_some_and(u8::is_ascii_hexdigit) => (16, rest),
        [b'0', rest @ ..] => (8, rest),
        _ => (10, digits),
    };
    let mut value = 0i64;
    for &b in digits {
        let Some(digit) = char::from(b).to_digit(radix) else { break };
        value = value.saturating_mul(i64::from(radix)).saturating_add(i64::from(digit));
    }
    if negative { -value } else { value }
}

/// Writes a number with six significant digits, as C's `%g` does.
fn put_double(value: f64, out: &mut Out) -> bool {
    if !value.is_finite() {
        return out.extend(if value < 0.0 { b"-inf" } else { b"inf" });
    }
    let mut memory = [0; 32];
    let mut text = Out::new(&mut memory);
    if write!(text, "{value:.5e}").is_err() {
        return false;
    }
    let text = text.as_slice();
    let split = memchr::memchr(b'e', text).unwrap_or(text.len());
    let exponent = text.get(split + 1..).map_or(0, |e| crate::value::leading_int(e).0);
    if (-4..6).contains(&exponent) {
        let decimals = usize::try_from(5 - exponent).unwrap_or(0);
        let mut memory = [0; 32];
        let mut fixed = Out::new(&mut memory);
        return write!(fixed, "{value:.decimals$}").is_ok() && out.extend(without_zeroes(fixed.as_slice()));
    }
    out.extend(without_zeroes(&text[..split]))
        && out.push(b'e')
        && write!(out, "{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs()).is_ok()
}

fn without_zeroes(number: &[u8]) -> &[u8] {
    if !number.contains(&b'.') {
        return number;
    }
    let end = number.iter().rposition(|&b| b != b'0').map_or(0, |at| at + 1);
    number[..end].strip_suffix(b".").unwrap_or(&number[..end])
}

/// Resolves the escapes of a string. Only those of single bytes are known: `\u00XX`, and not `\/`.
fn unescape(input: &[u8], out: &mut Out) -> bool {
    let mut rest = input;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        if !out.extend(&rest[..at]) {
            return false;
        }
        let (b, used) = match rest.get(at + 1) {
            Some(b'b') => (8, 2),
            Some(b'f') => (12, 2),
            Some(b'n') => (b'\n', 2),
            Some(b'r') => (b'\r', 2),
            Some(b't') => (b'\t', 2),
            Some(&b @ (b'\\' | b'"')) => (b, 2),
            Some(b'u') if rest.len() >= at + 6 && rest[at + 2..at + 4] == *b"00" => {
                (loose_hex(rest[at + 4]) << 4 | loose_hex(rest[at + 5]), 6)
            }
            _ => return false,
        };
        if !out.push(b) {
            return false;
        }
        rest = &rest[at + used..];
    }
    out.extend(rest)
}

/// The value of a hexadecimal digit; other bytes give something, too, as in the reference.
fn loose_hex(b: u8) -> u8 {
    match b {
        b'0'..=b'9' => b - b'0',
        b'A'..=b'F' => b - b'A' + 10,
        _ => b.wrapping_sub(b'a').wrapping_add(10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(json: &str, path: &str) -> Option<String> {
        find(json.as_bytes(), path.as_bytes()).map(|(kind, range)| format!("{kind:?} {}", &json[range]))
    }

    #[test]
    fn paths() {
        let check = |json: &str, path: &str, expected: Option<&str>| {
            assert_eq!(found(json, path).as_deref(), expected, "{json} {path}");
        };
        check(r#"{"a":5}"#, "$.a", Some("Number 5"));
        check(r#" { "a" : "x" } "#, "$.a", Some("String x"));
        check(r#"{"a":[1,"x",{"k":2}],"b":1}"#, "$.a", Some(r#"Array [1,"x",{"k":2}]"#));
        check(r#"{"a":[1,"x",{"k":2}],"b":1}"#, "$.a[2].k", Some("Number 2"));
        check(r#"{"a":[1,"x",{"k":2}],"b":1}"#, "$.a[2]", Some(r#"Object {"k":2}"#));
        check(r#"{"a":[1,"x",{"k":2}],"b":1}"#, "$.a[9]", None);
        check(r#"{"a":[[1,2],[3,4]]}"#, "$.a[1][0]", Some("Number 3"));
        check(r#"{"a":{"b":5},"b":6}"#, "$.b", Some("Number 6"));
        check(r#"{"x":{"a":{"a":1}},"a":2}"#, "$.a", Some("Number 2"));
        check(r#"{"a.b":5}"#, r"$.a\.b", Some("Number 5"));
        check(r#"{"a.b":5}"#, "$.a.b", None);
        check(r#"{"":5}"#, "$.", Some("Number 5"));
        check(r#"{"a":{"":5}}"#, "$.a.", Some("Number 5"));
        check(r#"{"a":{"b":1},"a":{"c":2}}"#, "$.a.c", None);
        check(r#"{"a":1,"a":{"c":2}}"#, "$.a.c", None);
        check("[1,2]", "$[1]", Some("Number 2"));
        check("[1,2]", "$.[1]", None);
        check("[1,2]", "$", Some("Array [1,2]"));
        check("[5,6]", "$[*]", Some("Number 5"));
        check("[5,6]", "$[01]", Some("Number 6"));
        check("[5,6]", "$[ 1 ]", None);
        check("[5,6]", "$[1", None);
        check("[1,2,3]", "$[-1]", None);
        check("5", "$", Some("Number 5"));
        check("null", "$", Some("Null null"));
        check("[1,[2,[3]],4]", "$[2]", Some("Number 4"));
        check("[[],[1]]", "$[1][0]", Some("Number 1"));
        check(r#"{"a":5}"#, "a", None);
        check(r#"{"a":5}"#, "$.a[0]", None);
        check(r#"{"a":[5]}"#, "$.a.b", None);
        check(r#"{"ab":5}"#, "$.a", None);
    }

    #[test]
    fn the_rest_of_the_document_must_be_well_formed_up_to_the_value() {
        let check = |value: &str, good: bool| {
            let json = format!(r#"{{"x":{value},"a":2}}"#);
            assert_eq!(found(&json, "$.a").as_deref(), good.then_some("Number 2"), "{json}");
        };
        for good in [
            "\"\\x\"",
            "1e",
            "05",
            "1.e5",
            "1e+",
            "1e-5",
            "[1,]",
            "{\"q\":1,}",
            "null",
            "[ ]",
            "{ }",
            "[[],]",
        ] {
            check(good, true);
        }
        for bad in [
            "1.",
            "-",
            "0x10",
            "1.5.5",
            "--5",
            "[,1]",
            "{\"q\":1,,}",
            "{\"q\"}",
            "[1 2]",
            "true1",
            "tru",
            "+1",
            "[1,,]",
            "[}",
            "{]",
            "",
        ] {
            check(bad, false);
        }
    }

    #[test]
    fn depth_is_bounded() {
        for (depth, good) in [(19, true), (20, true), (21, false), (4000, false)] {
            let json = "[".repeat(depth) + "5" + &"]".repeat(depth);
            assert_eq!(found(&json, &("$".to_string() + &"[0]".repeat(depth))).is_some(), good, "{depth}");
        }
    }

    #[test]
    fn numbers_are_written_like_c() {
        let check = |text: &str, expected: &str| {
            let mut memory = [0; 32];
            let mut out = Out::new(&mut memory);
            assert!(put_double(double(text.as_bytes()).map_or(0.0, |(n, _)| n), &mut out));
            assert_eq!(std::str::from_utf8(out.as_slice()), Ok(expected), "{text}");
        };
        check("4", "4");
        check("1.5", "1.5");
        check("-0", "-0");
        check("123456", "123456");
        check("1234567", "1.23457e+06");
        check("1234565", "1.23456e+06");
        check("1234575", "1.23458e+06");
        check("999999.5", "1e+06");
        check("0.0001", "0.0001");
        check("0.00012345678", "0.000123457");
        check("0.000001", "1e-06");
        check("99999999999999999999", "1e+20");
        check("1e400", "inf");
        check("1e-400", "0");
        check("1e", "1");
        check("1.", "0");
        check("-", "0");
        check("1e308", "1e+308");
        check("2.50", "2.5");
        check("100.0", "100");
    }

    #[test]
    fn integers_are_read_like_c() {
        let check = |text: &str, expected| assert_eq!(c_integer(text.as_bytes()), expected, "{text}");
        check("1.5", 1);
        check("1e5", 1);
        check("010", 8);
        check("0x1fG", 31);
        check("-0x10", -16);
        check("-", 0);
        check("0b11", 0);
        check("99999999999999999999", i64::MAX);
    }

    #[test]
    fn escapes() {
        let check = |input: &str, expected: Option<&[u8]>| {
            let mut memory = [0; 32];
            let mut out = Out::new(&mut memory);
            let got = unescape(input.as_bytes(), &mut out).then(|| out.as_slice().to_vec());
            assert_eq!(got.as_deref(), expected, "{input}");
        };
        check(r"a\nb\u0041", Some(b"a\nbA"));
        check(r"\u00e9", Some(b"\xe9"));
        check(r"\u00zz", Some(b"3"));
        check(r"\u20ac", None);
        check(r"\u004", None);
        check(r"\/", None);
        check(r"\x", None);
    }
}
