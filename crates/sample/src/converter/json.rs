//! `json`: text escaped for a JSON string.

use super::ConverterDef;
use super::shape::{entry, text_of, to_str};
use crate::args::{Arg, ArgKind, ArgSpec, Args};
use crate::context::Out;
use crate::env::CompileEnv;
use crate::value::Type;

/// The converters of this family.
pub static JSON: &[ConverterDef] = &[entry(
    "json",
    (Type::Str, Type::Str),
    ArgSpec::new(1, &[ArgKind::Str]),
    Some(check_json),
    |args, sample, cx| {
        let decoder = DECODERS[args.int(0).and_then(|i| usize::try_from(i).ok()).unwrap_or(0)].1;
        to_str(sample, cx, |input, out| escape(input, out, decoder))
    },
    "Escapes text for a JSON string.",
)];

/// How the input is read, and what happens to what is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Decoder {
    /// UTF-8 rather than single bytes.
    utf8: bool,
    /// Characters written with more bytes than needed are accepted.
    overlong: bool,
    /// What is not valid is left out rather than making the conversion fail.
    skip: bool,
}

const DECODERS: [(&[u8], Decoder); 6] = [
    (b"", Decoder { utf8: false, overlong: false, skip: false }),
    (b"ascii", Decoder { utf8: false, overlong: false, skip: false }),
    (b"utf8", Decoder { utf8: true, overlong: false, skip: false }),
    (b"utf8s", Decoder { utf8: true, overlong: false, skip: true }),
    (b"utf8p", Decoder { utf8: true, overlong: true, skip: false }),
    (b"utf8ps", Decoder { utf8: true, overlong: true, skip: true }),
];

fn check_json(args: &mut Args, _: &mut CompileEnv) -> Result<(), String> {
    let Some(i) = DECODERS.iter().position(|(name, _)| *name == text_of(args, 0)) else {
        return Err(
            "Unexpected input code type. Allowed value are 'ascii', 'utf8', 'utf8s', 'utf8p' and 'utf8ps'"
                .into(),
        );
    };
    args.put(0, Arg::Int(i as i64));
    Ok(())
}

fn escape(input: &[u8], out: &mut Out, decoder: Decoder) -> bool {
    let mut rest = input;
    while let Some(&first) = rest.first() {
        let (code, used) = match decoder.utf8 {
            false => (Ok(u32::from(first)), 1),
            true => decode(rest, decoder.overlong),
        };
        rest = &rest[used..];
        // JSON has four digits for a character: those beyond are as wrong as bad sequences.
        let done = match code.and_then(|code| u16::try_from(code).map_err(|_| Invalid)) {
            Ok(code) => put(code, out),
            Err(Invalid) => decoder.skip,
        };
        if !done {
            return false;
        }
    }
    true
}

fn put(code: u16, out: &mut Out) -> bool {
    let short = match code {
        0x08 => b'b',
        0x09 => b't',
        0x0a => b'n',
        0x0c => b'f',
        0x0d => b'r',
        0x22 | 0x2f | 0x5c => code as u8,
        0x20..=0x7e => return out.push(code as u8),
        _ => {
            let digit = |shift: u16| b"0123456789abcdef"[usize::from(code >> shift & 15)];
            return out.extend(&[b'\\', b'u', digit(12), digit(8), digit(4), digit(0)]);
        }
    };
    out.extend(&[b'\\', short])
}

struct Invalid;

/// Reads one character of up to six bytes, as the first UTF-8 had them; returns it and how many bytes it took.
fn decode(bytes: &[u8], overlong: bool) -> (Result<u32, Invalid>, usize) {
    let (len, first) = match bytes[0] {
        b @ 0..=0x7f => return (Ok(u32::from(b)), 1),
        b @ 0xc0..=0xdf => (2, b & 0x1f),
        b @ 0xe0..=0xef => (3, b & 0x0f),
        b @ 0xf0..=0xf7 => (4, b & 0x07),
        b @ 0xf8..=0xfb => (5, b & 0x03),
        b @ 0xfc..=0xfd => (6, b & 0x01),
        _ => return (Err(Invalid), 1),
    };
    let mut code = u32::from(first);
    for used in 1..len {
        match bytes.get(used) {
            Some(&b @ 0x80..=0xbf) => code = code << 6 | u32::from(b & 0x3f),
            _ => return (Err(Invalid), used),
        }
    }
    let smallest = [0, 0, 0x80, 0x800, 0x1_0000, 0x20_0000, 0x400_0000][len];
    let forbidden = matches!(code, 0xd800..=0xdfff | 0xfffe | 0xffff);
    if forbidden || code < smallest && !overlong {
        return (Err(Invalid), len);
    }
    (Ok(code), len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_decoder_has_its_own_idea_of_errors() {
        let check = |input: &[u8], expected: [Option<&str>; 5]| {
            for ((name, decoder), expected) in DECODERS[1..].iter().zip(expected) {
                let mut memory = [0; 64];
                let mut out = Out::new(&mut memory);
                let got = escape(input, &mut out, *decoder)
                    .then(|| String::from_utf8_lossy(out.as_slice()).into_owned());
                assert_eq!(got.as_deref(), expected, "{input:x?} {}", String::from_utf8_lossy(name));
            }
        };
        let all = |text| [Some(text); 5];
        check(b"a\"b\\c/d\tz", all(r#"a\"b\\c\/d\tz"#));
        check(b"\n\r\x08\x0c\x0b\x7f\0", all(r"\n\r\b\f\u000b\u007f\u0000"));
        check(b"\x80", [Some(r"\u0080"), None, Some(""), None, Some("")]);
        check(
            b"\xc3\xa9",
            [Some(r"\u00c3\u00a9"), Some(r"\u00e9"), Some(r"\u00e9"), Some(r"\u00e9"), Some(r"\u00e9")],
        );
        check(b"\xc3a", [Some(r"\u00c3a"), None, Some("a"), None, Some("a")]);
        check(b"\xe2\x82a", [Some(r"\u00e2\u0082a"), None, Some("a"), None, Some("a")]);
        check(b"\xc0\xaf", [Some(r"\u00c0\u00af"), None, Some(""), Some(r"\/"), Some(r"\/")]);
        check(b"\xed\xa0\x80", [Some(r"\u00ed\u00a0\u0080"), None, Some(""), None, Some("")]);
        check(b"\xef\xbf\xbf", [Some(r"\u00ef\u00bf\u00bf"), None, Some(""), None, Some("")]);
        check(b"\xf0\x9f\x98\x80", [Some(r"\u00f0\u009f\u0098\u0080"), None, Some(""), None, Some("")]);
        check(
            b"\xf8\x80\x80\x80\x80",
            [Some(r"\u00f8\u0080\u0080\u0080\u0080"), None, Some(""), Some(r"\u0000"), Some(r"\u0000")],
        );
        check(b"\xff", [Some(r"\u00ff"), None, Some(""), None, Some("")]);
    }
}
