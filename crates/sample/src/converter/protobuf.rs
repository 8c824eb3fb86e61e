//! Protocol Buffers messages, bare or framed by gRPC: fields by their path of numbers.

use super::ConverterDef;
use super::shape::{entry, text_of};
use crate::args::{Arg, ArgKind, ArgSpec, Args};
use crate::context::Ctx;
use crate::env::CompileEnv;
use crate::value::{Sample, Type, Value};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

const FIELD: ArgSpec = ArgSpec::new(1, &[ArgKind::ProtobufField, ArgKind::Str]);

/// The converters of this family.
pub static PROTOBUF: &[ConverterDef] = &[
    entry(
        "protobuf",
        (Type::Bin, Type::Bin),
        FIELD,
        Some(check_field),
        protobuf,
        "A field of a Protocol Buffers message.",
    ),
    entry(
        "ungrpc",
        (Type::Bin, Type::Bin),
        FIELD,
        Some(check_field),
        ungrpc,
        "A field of a Protocol Buffers message in a gRPC frame.",
    ),
];

/// A gRPC frame starts with a flag and a length of four bytes.
const GRPC_HEADER: usize = 5;

/// How a field is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wire {
    Varint,
    Fixed64,
    Length,
    Fixed32,
}

/// How its bytes become an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    Plain,
    ZigZag,
    Signed32,
    Float,
}

const TYPES: [(&[u8], Wire, Reading); 14] = [
    (b"int32", Wire::Varint, Reading::Plain),
    (b"int64", Wire::Varint, Reading::Plain),
    (b"uint32", Wire::Varint, Reading::Plain),
    (b"uint64", Wire::Varint, Reading::Plain),
    (b"bool", Wire::Varint, Reading::Plain),
    (b"enum", Wire::Varint, Reading::Plain),
    (b"sint32", Wire::Varint, Reading::ZigZag),
    (b"sint64", Wire::Varint, Reading::ZigZag),
    (b"fixed64", Wire::Fixed64, Reading::Plain),
    (b"sfixed64", Wire::Fixed64, Reading::Plain),
    (b"double", Wire::Fixed64, Reading::Float),
    (b"fixed32", Wire::Fixed32, Reading::Plain),
    (b"sfixed32", Wire::Fixed32, Reading::Signed32),
    (b"float", Wire::Fixed32, Reading::Float),
];

/// Where a field is, and how to read it.
struct FieldPath {
    numbers: SmallVec<[u64; 4]>,
    reading: Option<(Wire, Reading)>,
}

/// The numbers of a path such as `48.59.1`; a missing one counts as 0.
fn parse_path(text: &[u8]) -> Option<SmallVec<[u64; 4]>> {
    if text.is_empty() || text.ends_with(b".") {
        return None;
    }
    text.split(|&b| b == b'.')
        .map(|part| {
            part.iter().try_fold(0u32, |number, &b| {
                let digit = char::from(b).to_digit(10)?;
                // As in the reference, numbers are those of 32 bits.
                Some(number.wrapping_mul(10).wrapping_add(digit))
            })
        })
        .map(|number| number.map(u64::from))
        .collect()
}

fn check_field(args: &mut Args, _: &mut CompileEnv) -> Result<(), String> {
    let text = text_of(args, 0);
    let numbers = parse_path(text).ok_or_else(|| {
        format!(
            "failed to parse '{}' as type 'Protocol buffers field number' at position 1",
            String::from_utf8_lossy(text)
        )
    })?;
    let reading = match args.str(1) {
        None => None,
        Some(name) => match TYPES.iter().find(|(known, ..)| *known == name) {
            Some(&(_, wire, reading)) => Some((wire, reading)),
            None => return Err(format!("Wrong protocol buffer type '{}'", String::from_utf8_lossy(name))),
        },
    };
    args.put(0, Arg::Compiled(Arc::new(FieldPath { numbers, reading })));
    Ok(())
}

fn protobuf(args: &Args, sample: &mut Sample, cx: &mut Ctx) -> bool {
    look_up(args, sample, cx, 0..usize::MAX)
}

fn ungrpc(args: &Args, sample: &mut Sample, cx: &mut Ctx) -> bool {
    let Some(text) = sample.value.text() else { return false };
    let Some((header, message)) = cx.text(text).split_first_chunk::<GRPC_HEADER>() else { return false };
    let [_, len @ ..] = *header;
    let len = u32::from_be_bytes(len) as usize;
    len <= message.len() && look_up(args, sample, cx, GRPC_HEADER..GRPC_HEADER + len)
}

/// Looks the field up in a part of the sample.
fn look_up(args: &Args, sample: &mut Sample, cx: &mut Ctx, part: Range<usize>) -> bool {
    let (Some(path), Some(text)) = (args.compiled::<FieldPath>(0), sample.value.text()) else { return false };
    let text = text.slice(part.start, part.len());
    let message = cx.text(text);
    let Some((wire, range)) = find(message, &path.numbers) else { return false };
    match path.reading {
        None => sample.value = Value::Bin(text.slice(range.start, range.len())),
        Some((expected, reading)) => {
            let Some(value) = (wire == expected).then(|| integer(&message[range], wire, reading)).flatten()
            else {
                return false;
            };
            sample.value = Value::Int(value);
        }
    }
    true
}

/// Finds the first field at the path: how it is written, and where its value is.
fn find(message: &[u8], path: &[u64]) -> Option<(Wire, Range<usize>)> {
    let mut within = 0..message.len();
    for (i, wanted) in path.iter().enumerate() {
        let (wire, range) = find_number(message, within, *wanted)?;
        if i + 1 == path.len() {
            return Some((wire, range));
        }
        if wire != Wire::Length {
            return None;
        }
        within = range;
    }
    None
}

fn find_number(message: &[u8], within: Range<usize>, wanted: u64) -> Option<(Wire, Range<usize>)> {
    let bytes = &message[..within.end];
    let mut at = within.start;
    while at < bytes.len() {
        let (key, len) = varint(&bytes[at..])?;
        at += len;
        let (wire, range) = match key & 7 {
            // A field whose value is missing altogether at the end is an empty one.
            0 if at == bytes.len() => (Wire::Varint, at..at),
            0 => (Wire::Varint, at..at + varint(&bytes[at..])?.1),
            1 => (Wire::Fixed64, at..at + 8),
            2 if at == bytes.len() => (Wire::Length, at..at),
            2 => {
                let (value_len, len) = varint(&bytes[at..])?;
                let start = at + len;
                (Wire::Length, start..start.checked_add(usize::try_from(value_len).ok()?)?)
            }
            5 => (Wire::Fixed32, at..at + 4),
            _ => return None,
        };
        if range.end > bytes.len() {
            return None;
        }
        if key >> 3 == wanted {
            return Some((wire, range));
        }
        at = range.end;
    }
    None
}

/// Reads a number of seven bits per byte; returns it and its length. At most ten bytes.
fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for (i, &b) in bytes.iter().take(10).enumerate() {
        value |= u64::from(b & 0x7f) << (7 * i);
        if b & 0x80 == 0 {
            return Some((value, i + 1));
        }
    }
    None
}

/// The integer in the bytes of a field. Floating-point numbers lose their fraction.
fn integer(bytes: &[u8], wire: Wire, reading: Reading) -> Option<i64> {
    Some(match (wire, reading) {
        (Wire::Varint, reading) => {
            let raw = if bytes.is_empty() { 0 } else { varint(bytes)?.0 };
            match reading {
                Reading::ZigZag => (raw >> 1 ^ (raw & 1).wrapping_neg()).cast_signed(),
                _ => raw.cast_signed(),
            }
        }
        (Wire::Fixed64, reading) => {
            let raw = u64::from_le_bytes(bytes.try_into().ok()?);
            if reading == Reading::Float { f64::from_bits(raw) as i64 } else { raw.cast_signed() }
        }
        (Wire::Fixed32, reading) => {
            let raw = u32::from_le_bytes(bytes.try_into().ok()?);
            match reading {
                Reading::Float => f32::from_bits(raw) as i64,
                Reading::Signed32 => i64::from(raw.cast_signed()),
                _ => i64::from(raw),
            }
        }
        (Wire::Length, _) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &[u8] =
        b"\x08\x96\x01\x12\x07testing\x1a\x05\x08\x05\x12\x01x\x25\0\0\x80\x3f\x29\0\0\0\0\0\0\xf0\x3f\
        \x30\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x38\x03\x08\x07\xe0\x12\x09";

    fn read(message: &[u8], path: &str, kind: &str) -> Option<i64> {
        let &(_, wire, reading) = TYPES.iter().find(|(name, ..)| *name == kind.as_bytes()).unwrap();
        let (found, range) = find(message, &parse_path(path.as_bytes())?)?;
        (wire == found).then(|| integer(&message[range], wire, reading))?
    }

    #[test]
    fn integers() {
        let check = |path: &str, kind: &str, expected| {
            assert_eq!(read(MESSAGE, path, kind), expected, "{path} {kind}");
        };
        check("1", "int32", Some(150));
        check("1", "sint64", Some(75));
        check("1", "fixed32", None);
        check("2", "int32", None);
        check("3.1", "int32", Some(5));
        check("3.1", "sint32", Some(-3));
        check("4", "float", Some(1));
        check("4", "fixed32", Some(0x3f80_0000));
        check("5", "double", Some(1));
        check("6", "int64", Some(-1));
        check("6", "sint32", Some(i64::MIN));
        check("300", "int32", Some(9));
        check("4294967297", "int32", Some(150));
        check("8", "int32", None);
        assert_eq!(read(b"\x0d\xff\xff\xff\xff", "1", "sfixed32"), Some(-1));
        assert_eq!(read(b"\x0d\xff\xff\xff\xff", "1", "fixed32"), Some(0xffff_ffff));
        assert_eq!(read(b"\x08\x96", "1", "int32"), None);
        assert_eq!(read(b"\x08", "1", "int32"), Some(0));
        assert_eq!(read(b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "1", "int64"), None);
    }

    #[test]
    fn bytes() {
        let check = |message: &[u8], path: &str, expected: Option<&[u8]>| {
            let found =
                find(message, &parse_path(path.as_bytes()).unwrap()).map(|(_, range)| &message[range]);
            assert_eq!(found, expected, "{path}");
        };
        check(MESSAGE, "2", Some(b"testing"));
        check(MESSAGE, "3", Some(b"\x08\x05\x12\x01x"));
        check(MESSAGE, "3.2", Some(b"x"));
        check(MESSAGE, "3.3", None);
        check(MESSAGE, "1.1", None);
        check(MESSAGE, "1..2", None);
        check(b"\x12", "2", Some(b""));
        check(b"\x12\x05", "2", None);
        check(b"\x12\x05A", "2", None);
        check(b"\x0b\x08\x05\x0c", "1", None);
        check(b"\x0a\x02\x10\x05\x08\x05\x08\x05", "1.1", None);
        check(b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "2", None);
        check(b"", "2", None);
    }

    #[test]
    fn paths() {
        let check = |text: &str, expected: Option<&[u64]>| {
            assert_eq!(parse_path(text.as_bytes()).as_deref(), expected, "{text}");
        };
        check("48.59.1", Some(&[48, 59, 1]));
        check(".1", Some(&[0, 1]));
        check("1.", None);
        check("", None);
        check("x", None);
        check("-1", None);
    }
}
