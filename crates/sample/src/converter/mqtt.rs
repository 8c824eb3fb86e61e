//! MQTT: the CONNECT and CONNACK packets of versions 3.1, 3.1.1 and 5.0.
//!
//! OASIS MQTT 3.1.1 and 5.0, sections 2 and 3.1 to 3.2.

use super::ConverterDef;
use super::shape::{entry, text_of};
use crate::args::{Arg, ArgKind, ArgSpec, Args};
use crate::context::Ctx;
use crate::env::CompileEnv;
use crate::value::{Sample, Text, Type, Value, leading_int};
use std::ops::Range;

/// The converters of this family.
pub static MQTT: &[ConverterDef] = &[
    entry(
        "mqtt_field_value",
        (Type::Bin, Type::Str),
        ArgSpec::new(2, &[ArgKind::Str, ArgKind::Str]),
        Some(check_field),
        field_value,
        "A field of an MQTT CONNECT or CONNACK packet.",
    ),
    entry(
        "mqtt_is_valid",
        (Type::Bin, Type::Bool),
        ArgSpec::NONE,
        None,
        is_valid,
        "True for a valid MQTT CONNECT or CONNACK packet.",
    ),
];

const CONNECT: u8 = 1;
const CONNACK: u8 = 2;
const PACKETS: [(&str, u8); 15] = [
    ("connect", 1),
    ("connack", 2),
    ("publish", 3),
    ("puback", 4),
    ("pubrec", 5),
    ("pubrel", 6),
    ("pubcomp", 7),
    ("subscribe", 8),
    ("suback", 9),
    ("unsubscribe", 10),
    ("unsuback", 11),
    ("pingreq", 12),
    ("pingresp", 13),
    ("disconnect", 14),
    ("auth", 15),
];

/// Fields that are no properties have numbers from here on.
const FLAGS: u8 = 100;
const PROTOCOL_NAME: u8 = 101;
const PROTOCOL_VERSION: u8 = 102;
const CLIENT_IDENTIFIER: u8 = 103;
const WILL_TOPIC: u8 = 104;
const WILL_PAYLOAD: u8 = 105;
const USERNAME: u8 = 106;
const PASSWORD: u8 = 107;
const KEEPALIVE: u8 = 108;
const REASON_CODE: u8 = 109;

const CONNECT_FIELDS: [(&str, u8); 9] = [
    ("flags", FLAGS),
    ("protocol_name", PROTOCOL_NAME),
    ("protocol_version", PROTOCOL_VERSION),
    ("client_identifier", CLIENT_IDENTIFIER),
    ("will_topic", WILL_TOPIC),
    ("will_payload", WILL_PAYLOAD),
    ("username", USERNAME),
    ("password", PASSWORD),
    ("keepalive", KEEPALIVE),
];
const CONNACK_FIELDS: [(&str, u8); 3] =
    [("flags", FLAGS), ("protocol_version", PROTOCOL_VERSION), ("reason_code", REASON_CODE)];

const SESSION_EXPIRY_INTERVAL: u8 = 17;
const USER_PROPERTY: u8 = 38;
const CONNECT_PROPERTIES: [u8; 9] = [17, 33, 39, 34, 25, 23, 38, 21, 22];
const WILL_PROPERTIES: [u8; 7] = [24, 1, 2, 3, 8, 9, 38];
const CONNACK_PROPERTIES: [u8; 17] = [17, 33, 36, 37, 39, 18, 34, 31, 38, 40, 41, 42, 19, 26, 28, 21, 22];
/// Properties that can be asked for by number, of each packet; others that exist are only skipped.
const CONNECT_NUMBERS: [u8; 14] = [SESSION_EXPIRY_INTERVAL, 33, 39, 34, 25, 23, 21, 22, 24, 1, 2, 3, 8, 9];

/// How the value of a property is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// An integer of so many bytes.
    Int(usize),
    /// A string or blob after its length.
    Bytes,
    /// Two strings.
    Pair,
}

fn form(property: u8) -> Form {
    match property {
        1 | 23 | 25 | 36 | 37 | 40 | 41 | 42 => Form::Int(1),
        19 | 33 | 34 => Form::Int(2),
        2 | SESSION_EXPIRY_INTERVAL | 24 | 39 => Form::Int(4),
        USER_PROPERTY => Form::Pair,
        _ => Form::Bytes,
    }
}

/// A field of a packet: where its bytes are, or its number.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Found {
    Bytes(Range<usize>),
    Number(u32),
}

/// Why a packet is no packet.
#[derive(Debug, PartialEq, Eq)]
enum Bad {
    /// More bytes are needed.
    Incomplete,
    /// It breaks the protocol.
    Invalid,
}

/// Reads one packet, and remembers the field that is wanted on the way.
struct Parser<'p> {
    bytes: &'p [u8],
    at: usize,
    wanted: u8,
    found: Option<Found>,
}

impl Parser<'_> {
    fn byte(&mut self) -> Result<u8, Bad> {
        let b = *self.bytes.get(self.at).ok_or(Bad::Invalid)?;
        self.at += 1;
        Ok(b)
    }

    fn int(&mut self, len: usize) -> Result<u32, Bad> {
        let mut value = 0;
        for _ in 0..len {
            value = value << 8 | u32::from(self.byte()?);
        }
        Ok(value)
    }

    /// A number of seven bits per byte, at most four bytes.
    fn varint(&mut self) -> Result<u32, Bad> {
        let mut value = 0;
        for i in 0..4 {
            let b = self.byte()?;
            value |= u32::from(b & 0x7f) << (7 * i);
            if b & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Bad::Invalid)
    }

    /// Bytes after a length of two bytes.
    fn string(&mut self) -> Result<Range<usize>, Bad> {
        let len = self.int(2)? as usize;
        let start = self.at;
        if self.bytes.len() - start < len {
            return Err(Bad::Invalid);
        }
        self.at += len;
        Ok(start..start + len)
    }

    fn note(&mut self, field: u8, found: Found) {
        if field == self.wanted {
            self.found = Some(found);
        }
    }

    fn noted_string(&mut self, field: u8) -> Result<(), Bad> {
        let range = self.string()?;
        self.note(field, Found::Bytes(range));
        Ok(())
    }

    /// A list of properties, each of which may come once, but for user properties.
    fn properties(&mut self, known: &[u8]) -> Result<(), Bad> {
        let len = self.varint()? as usize;
        let end = self.at.checked_add(len).filter(|end| *end <= self.bytes.len()).ok_or(Bad::Invalid)?;
        let whole = std::mem::take(&mut self.bytes);
        self.bytes = &whole[..end];
        let mut seen = 0u64;
        while self.at < end {
            let property = self.byte()?;
            if !known.contains(&property) {
                return Err(Bad::Invalid);
            }
            if property != USER_PROPERTY && seen >> property & 1 == 1 {
                return Err(Bad::Invalid);
            }
            seen |= 1 << property;
            match form(property) {
                Form::Int(len) => {
                    let value = self.int(len)?;
                    self.note(property, Found::Number(value));
                }
                Form::Bytes => self.noted_string(property)?,
                Form::Pair => {
                    self.string()?;
                    self.string()?;
                }
            }
        }
        self.bytes = whole;
        // An integer property that is absent counts as 0.
        if known.contains(&self.wanted) && self.found.is_none() && matches!(form(self.wanted), Form::Int(_)) {
            self.found = Some(Found::Number(0));
        }
        Ok(())
    }

    /// The fixed header; returns the type of the packet. The bytes end with the packet from now on.
    fn header(&mut self) -> Result<u8, Bad> {
        if self.bytes.len() < 2 {
            return Err(Bad::Incomplete);
        }
        let first = self.byte()?;
        let flags = match first >> 4 {
            0 => return Err(Bad::Invalid),
            // PUBLISH has flags of its own.
            3 => first & 15,
            6 | 8 | 10 => 2,
            _ => 0,
        };
        if first & 15 != flags {
            return Err(Bad::Invalid);
        }
        let len = match self.varint() {
            Ok(len) => len as usize,
            Err(_) if self.bytes.len() < 5 => return Err(Bad::Incomplete),
            Err(bad) => return Err(bad),
        };
        let end = self.at.checked_add(len).ok_or(Bad::Invalid)?;
        self.bytes = self.bytes.get(..end).ok_or(Bad::Incomplete)?;
        // Only these two come first.
        if !matches!(first >> 4, CONNECT | CONNACK) {
            return Err(Bad::Invalid);
        }
        Ok(first >> 4)
    }

    fn connect(&mut self) -> Result<(), Bad> {
        let name = self.string()?;
        if !matches!(&self.bytes[name.clone()], b"MQTT" | b"MQIsdp") {
            return Err(Bad::Invalid);
        }
        self.note(PROTOCOL_NAME, Found::Bytes(name));
        let version = self.byte()?;
        if !(3..=5).contains(&version) {
            return Err(Bad::Invalid);
        }
        self.note(PROTOCOL_VERSION, Found::Number(version.into()));
        let flags = self.byte()?;
        let has = |bit: u8| flags >> bit & 1 == 1;
        if has(0) {
            return Err(Bad::Invalid);
        }
        self.note(FLAGS, Found::Number(flags.into()));
        let keepalive = self.int(2)?;
        self.note(KEEPALIVE, Found::Number(keepalive));
        if version == 5 {
            self.properties(&CONNECT_PROPERTIES)?;
        }
        self.noted_string(CLIENT_IDENTIFIER)?;
        if has(2) {
            if version == 5 {
                self.properties(&WILL_PROPERTIES)?;
            }
            self.noted_string(WILL_TOPIC)?;
            self.noted_string(WILL_PAYLOAD)?;
        }
        if has(7) {
            self.noted_string(USERNAME)?;
        }
        if has(6) {
            self.noted_string(PASSWORD)?;
        }
        self.end()
    }

    fn connack(&mut self) -> Result<(), Bad> {
        let flags = self.byte()?;
        if flags > 1 {
            return Err(Bad::Invalid);
        }
        self.note(FLAGS, Found::Number(flags.into()));
        let reason = self.byte()?;
        self.note(REASON_CODE, Found::Number(reason.into()));
        // Version 5 adds properties: the packet itself does not tell its version.
        let version = if self.at < self.bytes.len() { 5 } else { 4 };
        self.note(PROTOCOL_VERSION, Found::Number(version));
        if version == 5 {
            self.properties(&CONNACK_PROPERTIES)?;
        }
        self.end()
    }

    fn end(&self) -> Result<(), Bad> {
        if self.at == self.bytes.len() { Ok(()) } else { Err(Bad::Invalid) }
    }
}

/// Reads a packet; returns its type and the wanted field.
fn parse(bytes: &[u8], wanted: u8) -> Result<(u8, Option<Found>), Bad> {
    let mut parser = Parser { bytes, at: 0, wanted, found: None };
    let kind = parser.header()?;
    if kind == CONNECT {
        parser.connect()?;
    } else {
        parser.connack()?;
    }
    Ok((kind, parser.found))
}

fn is_valid(_: &Args, sample: &mut Sample, cx: &mut Ctx) -> bool {
    let Some(text) = sample.value.text() else { return false };
    match parse(cx.text(text), 0) {
        Err(Bad::Incomplete) => {
            cx.may_change = true;
            false
        }
        result => {
            sample.value = Value::Bool(result.is_ok());
            // More bytes cannot change the verdict on what is complete.
            sample.flags.may_change = false;
            true
        }
    }
}

fn check_field(args: &mut Args, _: &mut CompileEnv) -> Result<(), String> {
    let given = String::from_utf8_lossy(text_of(args, 0)).into_owned();
    let name = String::from_utf8_lossy(text_of(args, 1)).into_owned();
    let whole_number = |text: &str| {
        let (value, read) = leading_int(text.as_bytes());
        u8::try_from(value).ok().filter(|_| read == text.len() && read > 0)
    };
    let packet = PACKETS.iter().find(|(known, _)| known.eq_ignore_ascii_case(&given)).map(|(_, kind)| *kind);
    let packet = packet.or_else(|| whole_number(&given).filter(|n| (1..=15).contains(n)));
    let Some(packet) = packet else { return Err(format!("Unknown MQTT type '{given}'")) };
    let (fields, numbers): (&[(&str, u8)], &[u8]) = match packet {
        CONNECT => (&CONNECT_FIELDS, &CONNECT_NUMBERS),
        CONNACK => (&CONNACK_FIELDS, &CONNACK_PROPERTIES),
        _ => (&[], &[]),
    };
    let field = fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(&name)).map(|(_, field)| *field);
    let number = whole_number(&name).filter(|n| numbers.contains(n) && *n != USER_PROPERTY);
    let Some(field) = field.or(number) else {
        return Err(format!("Unknown MQTT field name '{name}' for packet type '{given}'"));
    };
    args.put(0, Arg::Int(packet.into()));
    args.put(1, Arg::Int(field.into()));
    Ok(())
}

fn field_value(args: &Args, sample: &mut Sample, cx: &mut Ctx) -> bool {
    let arg = |i| args.int(i).and_then(|n| u8::try_from(n).ok()).unwrap_or(0);
    let Some(text) = sample.value.text() else { return false };
    let found = match parse(cx.text(text), arg(1)) {
        Ok((kind, found)) if kind == arg(0) => found,
        Ok(_) | Err(Bad::Invalid) => None,
        Err(Bad::Incomplete) => {
            cx.may_change = true;
            None
        }
    };
    let value: Option<Text> = match found {
        Some(Found::Bytes(range)) if !range.is_empty() => Some(text.slice(range.start, range.len())),
        Some(Found::Number(number)) => cx.write(|out| out.int(number.into())),
        _ => None,
    };
    let Some(value) = value else { return false };
    sample.value = Value::Bin(value);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4: &[u8] = b"\x10\x1d\0\x04MQTT\x04\xc6\0<\0\x03cid\0\x02wt\0\x02wp\0\x01u\0\x01p";
    const V5: &[u8] =
        b"\x10\x40\0\x04MQTT\x05\xee\0<\0\0\x03cid\x1b\x18\0\0\0\x07\x01\x01\x02\0\0\0\x09\x03\0\x02ct\
        \x08\0\x02rt\x09\0\x02cd\0\x02wt\0\x02wp\0\x04user\0\x04pass";

    fn value(packet: &[u8], field: u8) -> Option<String> {
        match parse(packet, field).ok()?.1? {
            Found::Bytes(range) => Some(String::from_utf8_lossy(&packet[range]).into_owned()),
            Found::Number(number) => Some(number.to_string()),
        }
    }

    #[test]
    fn fields() {
        let check = |packet: &[u8], field, expected: Option<&str>| {
            assert_eq!(value(packet, field).as_deref(), expected, "{field}");
        };
        check(V4, FLAGS, Some("198"));
        check(V4, PROTOCOL_NAME, Some("MQTT"));
        check(V4, PROTOCOL_VERSION, Some("4"));
        check(V4, CLIENT_IDENTIFIER, Some("cid"));
        check(V4, WILL_TOPIC, Some("wt"));
        check(V4, WILL_PAYLOAD, Some("wp"));
        check(V4, USERNAME, Some("u"));
        check(V4, PASSWORD, Some("p"));
        check(V4, KEEPALIVE, Some("60"));
        check(V4, 17, None);
        check(V5, 17, Some("0"));
        check(V5, 21, None);
        check(V5, 24, Some("7"));
        check(V5, 9, Some("cd"));
        check(V5, PASSWORD, Some("pass"));
        check(b"\x20\x02\x01\x05", REASON_CODE, Some("5"));
        check(b"\x20\x02\x01\x05", PROTOCOL_VERSION, Some("4"));
        check(b"\x20\x03\x01\0\0", PROTOCOL_VERSION, Some("5"));
        check(b"\x20\x08\0\0\x05\x11\0\0\0\x05", 17, Some("5"));
    }

    #[test]
    fn validity() {
        let check = |packet: &[u8], expected: Result<(), Bad>| {
            assert_eq!(parse(packet, 0).map(|_| ()), expected, "{packet:x?}");
        };
        check(V4, Ok(()));
        check(V5, Ok(()));
        check(&[V4, b"x"].concat(), Ok(()));
        check(&V4[..V4.len() - 1], Err(Bad::Incomplete));
        check(b"\x10", Err(Bad::Incomplete));
        check(b"0", Err(Bad::Incomplete));
        check(b"", Err(Bad::Incomplete));
        check(b"\x10\0", Err(Bad::Invalid));
        check(b"\x11\x0c\0\x04MQTT\x04\0\0<\0\0", Err(Bad::Invalid));
        check(b"\x10\x0c\0\x04MQTT\x04\0\0<\0\0", Ok(()));
        check(b"\x10\x0c\0\x04MQTX\x04\0\0<\0\0", Err(Bad::Invalid));
        check(b"\x10\x0c\0\x04MQTT\x06\0\0<\0\0", Err(Bad::Invalid));
        check(b"\x10\x0c\0\x04MQTT\x04\x01\0<\0\0", Err(Bad::Invalid));
        check(b"\x10\x0c\0\x04MQTT\x04\x80\0<\0\0", Err(Bad::Invalid));
        check(b"\x10\x0f\0\x04MQTT\x05\0\0<\x02\x99\0\0\0", Err(Bad::Invalid));
        check(b"\x10\x17\0\x04MQTT\x05\0\0<\x0a\x11\0\0\0\x05\x11\0\0\0\x05\0\0", Err(Bad::Invalid));
        check(b"\x20\x02\x02\0", Err(Bad::Invalid));
        check(b"\x30\x02\0\0", Err(Bad::Invalid));
        check(b"\x10\xff\xff\xff\xff\x7f", Err(Bad::Invalid));
    }
}
