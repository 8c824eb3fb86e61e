//! A strict reader of DER (ITU-T X.690): definite, minimal lengths, one-byte tags, nothing left unread by accident.
//!
//! Certificates come from the network before anything is authenticated, so every step is bounds-checked and an
//! unexpected byte is an error, never a guess. What is read are slices of the input; nothing is copied.

use std::fmt;

/// Input that is not the DER that was asked for. Where in a certificate it was does not help anybody who has no
/// ASN.1 dump at hand, so it carries nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not valid DER")
    }
}

impl std::error::Error for Malformed {}

/// Tags of universal types, and constructors of the others.
pub mod tag {
    pub const BOOLEAN: u8 = 0x01;
    pub const INTEGER: u8 = 0x02;
    pub const BIT_STRING: u8 = 0x03;
    pub const OCTET_STRING: u8 = 0x04;
    pub const NULL: u8 = 0x05;
    pub const OID: u8 = 0x06;
    pub const ENUMERATED: u8 = 0x0a;
    pub const UTF8_STRING: u8 = 0x0c;
    pub const UTC_TIME: u8 = 0x17;
    pub const GENERALIZED_TIME: u8 = 0x18;
    pub const SEQUENCE: u8 = 0x30;
    pub const SET: u8 = 0x31;

    /// `[n]` of a primitive type with IMPLICIT tagging. `n` is below 31.
    pub const fn context(n: u8) -> u8 {
        0x80 | n
    }

    /// `[n]` of a constructed type, or with EXPLICIT tagging.
    pub const fn explicit(n: u8) -> u8 {
        0xa0 | n
    }
}

/// One value: its tag, its content, and both together with the length between them.
#[derive(Clone, Copy, Debug)]
pub struct Value<'a> {
    pub tag: u8,
    pub content: &'a [u8],
    pub whole: &'a [u8],
}

/// Reads values one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(input: &'a [u8]) -> Reader<'a> {
        Reader { rest: input }
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// What was not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The tag of the next value, if there is one.
    pub fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// The next value, whatever its type.
    pub fn value(&mut self) -> Result<Value<'a>, Malformed> {
        let (&tag, after) = self.rest.split_first().ok_or(Malformed)?;
        if tag & 0x1f == 0x1f {
            return Err(Malformed);
        }
        let (&first, after) = after.split_first().ok_or(Malformed)?;
        let (length, after) = if first < 0x80 {
            (usize::from(first), after)
        } else {
            let count = usize::from(first & 0x7f);
            if !(1..=4).contains(&count) || after.len() < count {
                return Err(Malformed);
            }
            let (bytes, after) = after.split_at(count);
            let length = bytes.iter().fold(0usize, |sum, byte| sum << 8 | usize::from(*byte));
            // A shorter form would have done.
            if bytes[0] == 0 || length < 0x80 {
                return Err(Malformed);
            }
            (length, after)
        };
        let content = after.get(..length).ok_or(Malformed)?;
        let whole = &self.rest[..self.rest.len() - after.len() + length];
        self.rest = &after[length..];
        Ok(Value { tag, content, whole })
    }

    /// The next value, which must have this tag.
    pub fn expect(&mut self, tag: u8) -> Result<Value<'a>, Malformed> {
        let value = self.value()?;
        if value.tag == tag { Ok(value) } else { Err(Malformed) }
    }

    /// The content of the next value, which must have this tag, to be read further.
    pub fn inside(&mut self, tag: u8) -> Result<Reader<'a>, Malformed> {
        Ok(Reader::new(self.expect(tag)?.content))
    }

    /// The next value if it has this tag; nothing is read otherwise.
    pub fn optional(&mut self, tag: u8) -> Result<Option<Value<'a>>, Malformed> {
        if self.peek() == Some(tag) { self.value().map(Some) } else { Ok(None) }
    }

    /// The end, where one is required.
    pub fn end(&self) -> Result<(), Malformed> {
        if self.rest.is_empty() { Ok(()) } else { Err(Malformed) }
    }

    /// A BOOLEAN with a default.
    pub fn boolean_or(&mut self, default: bool) -> Result<bool, Malformed> {
        match self.optional(tag::BOOLEAN)? {
            None => Ok(default),
            Some(value) => match value.content {
                [0] => Ok(false),
                // DER wants 0xff; certificates with 1 exist and every library reads them as true.
                [_] => Ok(true),
                _ => Err(Malformed),
            },
        }
    }

    /// A non-negative INTEGER that fits 32 bits.
    pub fn small(&mut self) -> Result<u32, Malformed> {
        let content = self.expect(tag::INTEGER)?.content;
        small(content)
    }

    /// The octets of a BIT STRING without unused bits, as keys and signatures are.
    pub fn bits(&mut self) -> Result<&'a [u8], Malformed> {
        match self.expect(tag::BIT_STRING)?.content {
            [0, bytes @ ..] => Ok(bytes),
            _ => Err(Malformed),
        }
    }
}

/// Whether an INTEGER is encoded in as few octets as it can be: the one form that DER has for it. Serial numbers are
/// compared as octets, so that a second form would be a second number.
pub fn is_minimal(content: &[u8]) -> bool {
    match content {
        [] => false,
        [0, second, ..] => second & 0x80 != 0,
        [0xff, second, ..] => second & 0x80 == 0,
        _ => true,
    }
}

/// The content of a non-negative INTEGER that fits 32 bits.
pub fn small(content: &[u8]) -> Result<u32, Malformed> {
    let digits = match content {
        _ if !is_minimal(content) => return Err(Malformed),
        [first, ..] if first & 0x80 != 0 => return Err(Malformed),
        [0, rest @ ..] => rest,
        all => all,
    };
    if digits.len() > 4 {
        return Err(Malformed);
    }
    Ok(digits.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte)))
}

/// Writes one value: tag, minimal length, content.
pub fn write(out: &mut Vec<u8>, tag: u8, content: &[u8]) {
    out.push(tag);
    let length = content.len();
    if length < 0x80 {
        out.push(length as u8);
    } else {
        let bytes = length.to_be_bytes();
        let skip = bytes.iter().take_while(|byte| **byte == 0).count();
        out.push(0x80 | (bytes.len() - skip) as u8);
        out.extend_from_slice(&bytes[skip..]);
    }
    out.extend_from_slice(content);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_definite_minimal_and_within_the_input() {
        for bad in [
            &b""[..],
            b"\x30",
            b"\x30\x01",
            b"\x30\x80\x00\x00",
            b"\x30\x81\x7f",
            b"\x30\x82\x00\x80",
            b"\x30\x85\x00\x00\x00\x00\x01",
            b"\x1f\x81\x00\x00",
        ] {
            assert!(Reader::new(bad).value().is_err(), "{bad:x?}");
        }
        let mut long = vec![0x04, 0x81, 0x80];
        long.resize(3 + 0x80, 7);
        let value = Reader::new(&long).value().unwrap();
        assert_eq!((value.content.len(), value.whole.len()), (0x80, 0x83));
    }

    #[test]
    fn what_is_written_reads_back() {
        for length in [0, 1, 0x7f, 0x80, 0xff, 0x100, 0x1_0000] {
            let content = vec![5; length];
            let mut out = Vec::new();
            write(&mut out, tag::OCTET_STRING, &content);
            let mut reader = Reader::new(&out);
            assert_eq!(reader.expect(tag::OCTET_STRING).unwrap().content, content);
            reader.end().unwrap();
        }
    }

    #[test]
    fn integers_are_not_negative_and_fit() {
        assert_eq!(small(&[0]), Ok(0));
        assert_eq!(small(&[0, 0xff, 0xff, 0xff, 0xff]), Ok(u32::MAX));
        assert_eq!(small(&[0x80]), Err(Malformed));
        assert_eq!(small(&[1, 0, 0, 0, 0]), Err(Malformed));
        assert_eq!(small(&[]), Err(Malformed));
        for longer in [&[0, 5][..], &[0, 0], &[0, 0, 0x80], &[0xff, 0x80]] {
            assert!(!is_minimal(longer) && small(longer).is_err(), "{longer:?}");
        }
    }
}
