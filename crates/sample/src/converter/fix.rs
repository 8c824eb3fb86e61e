//! FIX (Financial Information eXchange) messages: `tag=value` fields, each ended by a byte 1.

use super::ConverterDef;
use super::shape::{entry, text_of, to_part};
use crate::args::{Arg, ArgKind, ArgSpec, Args};
use crate::context::Ctx;
use crate::env::CompileEnv;
use crate::value::{Sample, Type, Value, leading_int};
use std::ops::Range;

/// The converters of this family.
pub static FIX: &[ConverterDef] = &[
    entry(
        "fix_is_valid",
        (Type::Bin, Type::Bool),
        ArgSpec::NONE,
        None,
        is_valid,
        "True for a well-formed FIX message with a right length and checksum.",
    ),
    entry(
        "fix_tag_value",
        (Type::Bin, Type::Bin),
        ArgSpec::new(1, &[ArgKind::Str]),
        Some(check_tag),
        tag_value,
        "The value of a field of a FIX message.",
    ),
];

const BEGIN_STRING: u64 = 8;
const BODY_LENGTH: u64 = 9;
const CHECK_SUM: u64 = 10;
const MSG_TYPE: u64 = 35;
/// Fields that may be asked for by name.
const NAMES: [(&str, u64); 6] = [
    ("BeginString", BEGIN_STRING),
    ("BodyLength", BODY_LENGTH),
    ("CheckSum", CHECK_SUM),
    ("MsgType", MSG_TYPE),
    ("SenderCompID", 49),
    ("TargetCompID", 56),
];
const VERSIONS: [&[u8]; 6] = [b"FIX.4.0", b"FIX.4.1", b"FIX.4.2", b"FIX.4.3", b"FIX.4.4", b"FIXT.1.1"];
/// No message is shorter than `8=FIX.4.0|9=5|35=0|10=000|` without its last two bytes.
const MESSAGE_MIN: usize = 26;

const END: u8 = 1;

/// One field: its tag, its value, and where the next field starts. Positions are from the start of the message.
struct Field {
    tag: u64,
    value: Range<usize>,
    next: usize,
}

/// Why there is no field.
#[derive(Debug, PartialEq, Eq)]
enum Missing {
    /// The end of the field was not received.
    Incomplete,
    /// It has no number before an equals sign.
    Malformed,
}

fn field(message: &[u8], start: usize) -> Result<Field, Missing> {
    let rest = message.get(start..).unwrap_or_default();
    // A field is judged once all of it is there: as long as there is no equals sign, one may come.
    let equals = memchr::memchr(b'=', rest).ok_or(Missing::Incomplete)?;
    let len = equals + memchr::memchr(END, &rest[equals..]).ok_or(Missing::Incomplete)?;
    let digits = &rest[..equals];
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Missing::Malformed);
    }
    let tag = leading_int(digits).0.unsigned_abs();
    Ok(Field { tag, value: start + equals + 1..start + len, next: start + len + 1 })
}

/// True or false once that can be told, `None` while more bytes are needed.
fn validate(message: &[u8]) -> Option<bool> {
    if message.len() < MESSAGE_MIN {
        return None;
    }
    match check(message) {
        Ok(()) => Some(true),
        Err(Missing::Malformed) => Some(false),
        Err(Missing::Incomplete) => None,
    }
}

fn check(message: &[u8]) -> Result<(), Missing> {
    let is = |good: bool| if good { Ok(()) } else { Err(Missing::Malformed) };
    // The version is one of few, which can be told before the end of its field.
    if let Some(version) = message.strip_prefix(b"8=") {
        is(VERSIONS
            .iter()
            .any(|known| version.starts_with(known) && version.get(known.len()) == Some(&END)))?;
    }
    let begin = field(message, 0)?;
    is(begin.tag == BEGIN_STRING && VERSIONS.contains(&&message[begin.value]))?;
    let length = field(message, begin.next)?;
    let digits = &message[length.value];
    is(length.tag == BODY_LENGTH && !digits.is_empty() && digits.iter().all(u8::is_ascii_digit))?;
    let body_len = usize::try_from(leading_int(digits).0).unwrap_or(usize::MAX);
    let kind = field(message, length.next)?;
    is(kind.tag == MSG_TYPE && !kind.value.is_empty())?;
    let mut at = kind.next;
    loop {
        let start = at;
        let field = field(message, at)?;
        at = field.next;
        if field.tag == CHECK_SUM {
            is(start - length.next == body_len)?;
            let sum = message[..start].iter().fold(0u8, |sum, b| sum.wrapping_add(*b));
            let value = &message[field.value];
            return is(value.len() == 3
                && value.iter().all(u8::is_ascii_digit)
                && leading_int(value).0 == i64::from(sum));
        }
    }
}

fn is_valid(_: &Args, sample: &mut Sample, cx: &mut Ctx) -> bool {
    let Some(text) = sample.value.text() else { return false };
    let Some(valid) = validate(cx.text(text)) else {
        cx.may_change = true;
        return false;
    };
    sample.value = Value::Bool(valid);
    // More bytes cannot change the verdict on what is complete.
    sample.flags.may_change = false;
    true
}

fn check_tag(args: &mut Args, _: &mut CompileEnv) -> Result<(), String> {
    let text = text_of(args, 0);
    let named = NAMES.iter().find(|(name, _)| name.as_bytes() == text).map(|(_, tag)| *tag);
    let number = || {
        (!text.is_empty() && text.iter().all(u8::is_ascii_digit)).then(|| leading_int(text).0.unsigned_abs())
    };
    match named.or_else(number).filter(|tag| *tag != 0) {
        Some(tag) => {
            args.put(0, Arg::Int(i64::try_from(tag).unwrap_or(i64::MAX)));
            Ok(())
        }
        None => Err(format!("Unknown FIX tag name '{}'", String::from_utf8_lossy(text))),
    }
}

fn tag_value(args: &Args, sample: &mut Sample, cx: &mut Ctx) -> bool {
    let wanted = args.int(0).unwrap_or(0).unsigned_abs();
    let Some(text) = sample.value.text() else { return false };
    match find(cx.text(text), wanted) {
        Ok(_) => {
            let done = to_part(sample, cx, |message| find(message, wanted).ok());
            sample.value = sample.value.text().map_or(sample.value, Value::Bin);
            done
        }
        Err(Missing::Incomplete) => {
            cx.may_change = true;
            false
        }
        Err(Missing::Malformed) => false,
    }
}

/// The value of the first field with this tag, unless it is empty.
fn find(message: &[u8], wanted: u64) -> Result<Range<usize>, Missing> {
    let mut at = 0;
    loop {
        let field = field(message, at)?;
        if field.tag == wanted {
            return if field.value.is_empty() { Err(Missing::Malformed) } else { Ok(field.value) };
        }
        at = field.next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(version: &str, body: &str, check: Option<&str>) -> Vec<u8> {
        let mut text = format!("8={version}|9={}|{body}", body.len()).replace('|', "\x01").into_bytes();
        let sum = text.iter().fold(0u8, |sum, b| sum.wrapping_add(*b));
        let check = check.map_or_else(|| format!("{sum:03}"), str::to_string);
        text.extend_from_slice(format!("10={check}\x01").as_bytes());
        text
    }

    #[test]
    fn validity() {
        let check = |message: &[u8], expected| {
            assert_eq!(validate(message), expected, "{:?}", String::from_utf8_lossy(message));
        };
        let good = message("FIX.4.4", "35=A|34=1|49=SND|56=TGT|98=0|", None);
        check(&good, Some(true));
        check(&[&good[..], b"x"].concat(), Some(true));
        check(&good[..good.len() - 1], None);
        for version in ["FIX.4.0", "FIX.4.1", "FIX.4.2", "FIX.4.3", "FIXT.1.1"] {
            check(&message(version, "35=A|", None), Some(true));
        }
        for version in ["FIX.4.9", "FIX.5.0", "FIX.3.0", "fix.4.4"] {
            check(&message(version, "35=A|", None), Some(false));
        }
        check(&message("FIX.4.4", "34=1|35=A|", None), Some(false));
        check(&message("FIX.4.4", "35=A|34=|", None), Some(true));
        check(&message("FIX.4.4", "35=A|=5|", None), Some(false));
        check(&message("FIX.4.4", "35=A|3x=5|", None), Some(false));
        check(&message("FIX.4.4", "35=A|34|", None), Some(false));
        check(&message("FIX.4.4", "35=A|", Some("0180")), Some(false));
        check(&message("FIX.4.4", "35=A|", Some("000")), Some(false));
        check(b"8=FIX.4.4\x019=6\x0135=A\x0110=181\x01", Some(false));
        check(b"", None);
    }

    #[test]
    fn values() {
        let good = message("FIX.4.4", "35=A|34=1|58=a=b|", None);
        let check = |tag, expected: Result<&str, Missing>| {
            assert_eq!(find(&good, tag).map(|range| &good[range]), expected.map(str::as_bytes), "{tag}");
        };
        check(8, Ok("FIX.4.4"));
        check(35, Ok("A"));
        check(58, Ok("a=b"));
        check(99, Err(Missing::Incomplete));
        assert_eq!(find(b"35=A\x0134=\x0158=x\x01", 34), Err(Missing::Malformed));
        assert_eq!(find(b"35=A\x0134=\x0158=x\x01", 58), Ok(12..13));
    }
}
