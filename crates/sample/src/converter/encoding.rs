//! Encodings of bytes as text and back: base64, hexadecimal, binary digits, numbers, percent-encoding.

use super::ConverterDef;
use super::shape::{entry, text_of, to_bin, to_int, to_str};
use crate::args::{ArgKind, ArgSpec, Args};
use crate::context::{Ctx, Out};
use crate::env::CompileEnv;
use crate::value::{Sample, Type};

const BIN_STR: (Type, Type) = (Type::Bin, Type::Str);
const CHUNKS: &[ArgKind] = &[ArgKind::Str, ArgKind::Int, ArgKind::Int];

/// The converters of this family.
pub static ENCODING: &[ConverterDef] = &[
    entry(
        "b64dec",
        (Type::Str, Type::Bin),
        ArgSpec::NONE,
        None,
        |_, s, c| to_bin(s, c, base64_decode),
        "Decodes base64.",
    ),
    entry(
        "base2",
        BIN_STR,
        ArgSpec::NONE,
        None,
        |_, s, c| to_str(s, c, base2),
        "Eight binary digits for each byte.",
    ),
    entry(
        "base64",
        BIN_STR,
        ArgSpec::NONE,
        None,
        |_, s, c| to_str(s, c, base64_encode),
        "Encodes in base64.",
    ),
    entry(
        "be2dec",
        BIN_STR,
        ArgSpec::new(1, CHUNKS),
        Some(check_decimal_chunks),
        |a, s, c| to_str(s, c, |i, o| decimal_chunks(a, i, o, false)),
        "Big-endian numbers in decimal, one for each chunk.",
    ),
    entry(
        "be2hex",
        BIN_STR,
        ArgSpec::new(1, CHUNKS),
        Some(check_hex_chunks),
        |a, s, c| to_str(s, c, |i, o| hex_chunks(a, i, o)),
        "Hexadecimal digits with a separator after each chunk.",
    ),
    entry(
        "hex",
        BIN_STR,
        ArgSpec::NONE,
        None,
        |_, s, c| to_str(s, c, hex),
        "Two hexadecimal digits for each byte.",
    ),
    entry(
        "hex2i",
        (Type::Str, Type::Int),
        ArgSpec::NONE,
        None,
        |_, s, c| to_int(s, c, hex_to_int),
        "The number written in hexadecimal digits.",
    ),
    entry(
        "le2dec",
        BIN_STR,
        ArgSpec::new(1, CHUNKS),
        Some(check_decimal_chunks),
        |a, s, c| to_str(s, c, |i, o| decimal_chunks(a, i, o, true)),
        "Little-endian numbers in decimal, one for each chunk.",
    ),
    entry(
        "ub64dec",
        (Type::Str, Type::Bin),
        ArgSpec::NONE,
        None,
        |_, s, c| to_bin(s, c, base64url_decode),
        "Decodes base64url.",
    ),
    entry(
        "ub64enc",
        BIN_STR,
        ArgSpec::NONE,
        None,
        |_, s, c| to_str(s, c, base64url_encode),
        "Encodes in base64url, without padding.",
    ),
    entry(
        "url_dec",
        (Type::Str, Type::Str),
        ArgSpec::new(0, &[ArgKind::Int]),
        None,
        url_dec,
        "Decodes percent-encoding.",
    ),
    entry(
        "url_enc",
        (Type::Str, Type::Str),
        ArgSpec::new(1, &[ArgKind::Str]),
        Some(check_url_enc),
        |_, s, c| to_str(s, c, url_encode),
        "Encodes what is not unreserved as percent sequences.",
    ),
];

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const BASE64_URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const NOT_BASE64: u8 = 255;

const fn inverse(alphabet: &[u8; 64]) -> [u8; 256] {
    let mut table = [NOT_BASE64; 256];
    let mut i = 0;
    while i < 64 {
        table[alphabet[i] as usize] = i as u8;
        i += 1;
    }
    table
}

static FROM_BASE64: [u8; 256] = inverse(BASE64);
static FROM_BASE64_URL: [u8; 256] = {
    let mut table = inverse(BASE64_URL);
    // The reference reads padding, which base64url does not have, as the last digit.
    table[b'=' as usize] = 63;
    table
};

fn encode64(input: &[u8], out: &mut Out, alphabet: &[u8; 64], pad: bool) -> bool {
    for chunk in input.chunks(3) {
        let bits = chunk.iter().fold(0u32, |bits, &b| bits << 8 | u32::from(b)) << (8 * (3 - chunk.len()));
        let digit = |shift: u32| alphabet[(bits >> shift & 63) as usize];
        let digits = [digit(18), digit(12), digit(6), digit(0)];
        if !out.extend(&digits[..chunk.len() + 1]) || pad && !out.extend(&b"=="[..3 - chunk.len()]) {
            return false;
        }
    }
    true
}

/// Appends `input` in base64, with padding.
pub(super) fn base64_encode(input: &[u8], out: &mut Out) -> bool {
    encode64(input, out, BASE64, true)
}

fn base64url_encode(input: &[u8], out: &mut Out) -> bool {
    encode64(input, out, BASE64_URL, false)
}

/// Decodes whole groups of four digits of which the last ones, but not the first, may be `=`.
pub(super) fn base64_decode(input: &[u8], out: &mut Out) -> bool {
    if !input.len().is_multiple_of(4) {
        return false;
    }
    let body = &input[..input.iter().rposition(|&b| b != b'=').map_or(0, |at| at + 1)];
    let padding = input.len() - body.len();
    if padding > 3 {
        return false;
    }
    if padding < 3 {
        return decode64(body, out, &FROM_BASE64);
    }
    // One digit and three paddings are accepted; the digit says nothing.
    let (body, digit) = body.split_at(body.len() - 1);
    FROM_BASE64[usize::from(digit[0])] != NOT_BASE64 && decode64(body, out, &FROM_BASE64)
}

/// Decodes base64url without padding.
pub(super) fn base64url_decode(input: &[u8], out: &mut Out) -> bool {
    input.len() % 4 != 1 && decode64(input, out, &FROM_BASE64_URL)
}

fn decode64(input: &[u8], out: &mut Out, table: &[u8; 256]) -> bool {
    for chunk in input.chunks(4) {
        let mut bits = 0u32;
        for &b in chunk {
            let digit = table[usize::from(b)];
            if digit == NOT_BASE64 {
                return false;
            }
            bits = bits << 6 | u32::from(digit);
        }
        bits <<= 6 * (4 - chunk.len());
        let [_, a, b, c] = bits.to_be_bytes();
        if !out.extend(&[a, b, c][..chunk.len() - 1]) {
            return false;
        }
    }
    true
}

const HEX: &[u8; 16] = b"0123456789ABCDEF";

fn hex_digits(b: u8) -> [u8; 2] {
    [HEX[usize::from(b >> 4)], HEX[usize::from(b & 15)]]
}

fn hex(input: &[u8], out: &mut Out) -> bool {
    input.iter().all(|&b| out.extend(&hex_digits(b)))
}

fn base2(input: &[u8], out: &mut Out) -> bool {
    input.iter().all(|&b| (0..8).rev().all(|bit| out.push(b'0' + (b >> bit & 1))))
}

/// Digits beyond the 16th push the first ones out.
fn hex_to_int(input: &[u8]) -> Option<i64> {
    let mut value = 0u64;
    for &b in input {
        value = value << 4 | u64::from(char::from(b).to_digit(16)?);
    }
    Some(value.cast_signed())
}

fn check_truncate(args: &Args) -> Result<(), String> {
    match args.int(2) {
        None | Some(0 | 1) => Ok(()),
        Some(other) => Err(format!("Unsupported truncate value ({other})")),
    }
}

fn check_decimal_chunks(args: &mut Args, _: &mut CompileEnv) -> Result<(), String> {
    let size = args.int(1).unwrap_or(0);
    if !(1..=8).contains(&size) {
        return Err(format!("chunk_size out of [1..8] range ({size})"));
    }
    check_truncate(args)
}

fn check_hex_chunks(args: &mut Args, _: &mut CompileEnv) -> Result<(), String> {
    let size = args.int(1).unwrap_or(0);
    if !text_of(args, 0).is_empty() && size <= 0 {
        return Err(format!("chunk_size needs to be positive ({size})"));
    }
    check_truncate(args)
}

/// The bytes to convert: all, or those that fill whole chunks.
fn whole_chunks<'i>(args: &Args, input: &'i [u8], size: usize) -> &'i [u8] {
    if args.int(2) == Some(1) { &input[..input.len() - input.len() % size] } else { input }
}

/// Numbers of up to eight bytes. What does not fit is left out, as is the last byte of a value, which the
/// reference keeps for its own terminator.
fn decimal_chunks(args: &Args, input: &[u8], out: &mut Out, little_endian: bool) -> bool {
    let separator = text_of(args, 0);
    let size = args.int(1).and_then(|n| usize::try_from(n).ok()).unwrap_or(1).clamp(1, 8);
    let mut digits = [0; 20];
    for (i, chunk) in whole_chunks(args, input, size).chunks(size).enumerate() {
        let join = |value: u64, b: &u8| value << 8 | u64::from(*b);
        let value = if little_endian { chunk.iter().rev().fold(0, join) } else { chunk.iter().fold(0, join) };
        let text = unsigned_decimal(value, &mut digits);
        let separator = if i == 0 { &[][..] } else { separator };
        if out.remaining() <= separator.len() + text.len() {
            break;
        }
        out.extend(separator);
        out.extend(text);
    }
    true
}

fn unsigned_decimal(mut value: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            return &digits[at..];
        }
    }
}

fn hex_chunks(args: &Args, input: &[u8], out: &mut Out) -> bool {
    let separator = text_of(args, 0);
    let size = args.int(1).and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
    if size == 0 {
        return hex(input, out);
    }
    let input = whole_chunks(args, input, size);
    for (i, &b) in input.iter().enumerate() {
        let separator = if i > 0 && i % size == 0 { separator } else { &[] };
        if out.remaining() < separator.len() + 3 {
            break;
        }
        out.extend(separator);
        out.extend(&hex_digits(b));
    }
    true
}

fn url_dec(args: &Args, sample: &mut Sample, cx: &mut Ctx) -> bool {
    let form = args.int(0).is_some_and(|n| n != 0);
    to_str(sample, cx, |input, out| url_decode(input, out, form))
}

/// Decodes `%XX`, and `+` as a space: everywhere in a form, else after a question mark.
pub(super) fn url_decode(input: &[u8], out: &mut Out, form: bool) -> bool {
    let mut plus_is_space = form;
    let mut rest = input;
    while let Some((&b, after)) = rest.split_first() {
        rest = after;
        let decoded = match b {
            b'+' if plus_is_space => b' ',
            b'%' => {
                let Some(([high, low], after)) = rest.split_first_chunk::<2>() else { return false };
                let digit = |b: u8| char::from(b).to_digit(16);
                let (Some(high), Some(low)) = (digit(*high), digit(*low)) else { return false };
                rest = after;
                (high * 16 + low) as u8
            }
            b'?' => {
                plus_is_space = true;
                b
            }
            _ => b,
        };
        if !out.push(decoded) {
            return false;
        }
    }
    true
}

fn check_url_enc(args: &mut Args, _: &mut CompileEnv) -> Result<(), String> {
    match text_of(args, 0) {
        b"" | b"query" => Ok(()),
        _ => Err("Unexpected encode type. Allowed value is 'query'".into()),
    }
}

fn url_encode(input: &[u8], out: &mut Out) -> bool {
    input.iter().all(|&b| match b {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(b),
        _ => {
            let [high, low] = hex_digits(b);
            out.extend(&[b'%', high, low])
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Arg;

    type Map = fn(&[u8], &mut Out) -> bool;

    fn run(map: impl FnOnce(&[u8], &mut Out) -> bool, input: &[u8]) -> Option<Vec<u8>> {
        let mut memory = [0; 256];
        let mut out = Out::new(&mut memory);
        map(input, &mut out).then(|| out.as_slice().to_vec())
    }

    #[test]
    fn base64_both_ways() {
        let check = |map: Map, input: &[u8], expected: Option<&[u8]>| {
            assert_eq!(run(map, input).as_deref(), expected, "{:?}", String::from_utf8_lossy(input));
        };
        check(base64_encode, b"hello", Some(b"aGVsbG8="));
        check(base64_encode, b"hell", Some(b"aGVsbA=="));
        check(base64_encode, b"", Some(b""));
        check(base64url_encode, b"hell", Some(b"aGVsbA"));
        check(base64url_encode, b"\xfb\xff", Some(b"-_8"));
        check(base64_decode, b"aGVsbG8=", Some(b"hello"));
        check(base64_decode, b"aGVsbG8", None);
        check(base64_decode, b"aGVs=bG8", None);
        check(base64_decode, b"aGV=", Some(b"he"));
        check(base64_decode, b"a===", Some(b""));
        check(base64_decode, b"!===", None);
        check(base64_decode, b"====", None);
        check(base64_decode, b"", Some(b""));
        check(base64_decode, b"AA-_", None);
        check(base64url_decode, b"aGVsbG8", Some(b"hello"));
        check(base64url_decode, b"aGVsbG8-_w", Some(b"hello>\xff"));
        check(base64url_decode, b"aGVsbG8=", Some(b"hello?"));
        check(base64url_decode, b"aGVsbG8+", None);
        check(base64url_decode, b"a", None);
        check(base64url_decode, b"ab", Some(b"i"));
        check(base64url_decode, b"abcde", None);
    }

    #[test]
    fn digits() {
        let check = |input: &str, expected| assert_eq!(hex_to_int(input.as_bytes()), expected, "{input}");
        check("0a1b", Some(2587));
        check("0x1b", None);
        check("", Some(0));
        check("-f", None);
        check("ffffffffffffffffff", Some(-1));
        check("8000000000000000", Some(i64::MIN));
        assert_eq!(run(base2, b"ab").as_deref(), Some(&b"0110000101100010"[..]));
        assert_eq!(run(hex, b"\x00\xfa").as_deref(), Some(&b"00FA"[..]));
    }

    #[test]
    fn chunks() {
        let args = |separator: &str, size, truncate| {
            let mut args = Args::default();
            args.put(0, Arg::Str(separator.as_bytes().into()));
            args.put(1, Arg::Int(size));
            args.put(2, Arg::Int(truncate));
            args
        };
        let check =
            |got: Option<Vec<u8>>, expected: &str| assert_eq!(got.as_deref(), Some(expected.as_bytes()));
        let seven = &[1, 2, 3, 4, 5, 6, 7];
        let decimal =
            |args: &Args, input: &[u8], little| run(|i, o| decimal_chunks(args, i, o, little), input);
        check(decimal(&args(":", 2, 0), seven, false), "258:772:1286:7");
        check(decimal(&args("-", 2, 1), seven, false), "258-772-1286");
        check(decimal(&args("", 2, 1), seven, false), "2587721286");
        check(decimal(&args(".", 8, 0), &[255; 8], false), "18446744073709551615");
        check(decimal(&args(".", 2, 1), &[1], false), "");
        check(decimal(&args(":", 2, 0), seven, true), "513:1027:1541:7");
        let hexa = |args: &Args, input: &[u8]| run(|i, o| hex_chunks(args, i, o), input);
        check(hexa(&args(":", 2, 0), seven), "0102:0304:0506:07");
        check(hexa(&args("--", 2, 1), seven), "0102--0304--0506");
        check(hexa(&args("", 3, 1), &[1, 2, 3, 4, 5, 6, 7, 8]), "010203040506");
        check(hexa(&args("", 0, 0), seven), "01020304050607");
    }

    #[test]
    fn percent_encoding_both_ways() {
        let check = |input: &str, form, expected: Option<&str>| {
            let got = run(|i, o| url_decode(i, o, form), input.as_bytes());
            assert_eq!(got.as_deref(), expected.map(str::as_bytes), "{input}");
        };
        check("a%20b", true, Some("a b"));
        check("a+b?c+d", true, Some("a b?c d"));
        check("a+b?c+d", false, Some("a+b?c d"));
        check("%3f+", false, Some("?+"));
        check("a%2", true, None);
        check("a%", true, None);
        check("a%zz", true, None);
        check("a%00b", true, Some("a\0b"));
        assert_eq!(run(url_encode, b"a-z_.~ /\xff").as_deref(), Some(&b"a-z_.~%20%2F%FF"[..]));
    }
}
