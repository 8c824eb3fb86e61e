//! From header blocks to fields.

use super::table::{Name, STATIC, TABLE_MAX, Table};
use super::{DecodeError, huffman, integer};

/// Takes the fields of a block, in order.
pub trait Sink {
    /// A field. `clean` says that the value has no character that a value may not have (RFC 9113 section 8.2.1).
    fn field(&mut self, kind: Name, name: &[u8], value: &[u8], clean: bool);
}

/// Octets of decoded strings whose memory is kept for the next block: long ones are rare.
const STRINGS_KEPT: usize = 16 * 1024;

/// What coded strings are decoded into. Nothing of a block is in it when that was read, so that all connections of a thread can
/// have the same.
#[derive(Default)]
pub struct Strings {
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Strings {
    fn trim(&mut self) {
        if self.name.capacity() + self.value.capacity() > STRINGS_KEPT {
            *self = Strings::default();
        }
    }
}

/// The decoder of one direction of a connection.
pub struct Decoder {
    table: Table,
    /// What the peer may use at most: the SETTINGS_HEADER_TABLE_SIZE that it acknowledged.
    allowed: u32,
    string_max: u32,
    /// A reduction of `allowed` that the next block must begin with (RFC 7541 section 4.2).
    must_shrink: bool,
}

/// A value may have what a field value has (RFC 9110 section 5.5).
fn is_clean(value: &[u8]) -> bool {
    value.iter().all(|b| !matches!(b, 0..=8 | 10..=31 | 127))
}

enum Text<'a> {
    Plain(&'a [u8]),
    Decoded,
}

impl Decoder {
    /// A decoder whose dynamic table may have `table_max` octets, by the RFC's way of counting and [`TABLE_MAX`] at most, and
    /// whose strings may be `string_max` octets long.
    pub fn new(table_max: usize, string_max: usize) -> Decoder {
        Decoder {
            table: Table::new(table_max),
            allowed: table_max.min(TABLE_MAX) as u32,
            string_max: u32::try_from(string_max).unwrap_or(u32::MAX),
            must_shrink: false,
        }
    }

    /// The peer acknowledged another SETTINGS_HEADER_TABLE_SIZE.
    pub fn set_allowed(&mut self, octets: usize) {
        self.must_shrink = octets < self.table.max();
        self.allowed = octets.min(TABLE_MAX) as u32;
    }

    /// Octets that the dynamic table uses, by the RFC's way of counting.
    pub fn table_size(&self) -> usize {
        self.table.size()
    }

    /// Decodes a whole block.
    ///
    /// # Errors
    /// Any [`DecodeError`] ends the connection: the tables of both ends differ from then on.
    pub fn decode(
        &mut self,
        block: &[u8],
        strings: &mut Strings,
        sink: &mut impl Sink,
    ) -> Result<(), DecodeError> {
        let done = self.fields(block, strings, sink);
        strings.trim();
        done
    }

    fn fields(
        &mut self,
        block: &[u8],
        strings: &mut Strings,
        sink: &mut impl Sink,
    ) -> Result<(), DecodeError> {
        let mut rest = block;
        let mut may_resize = true;
        while let Some(first) = rest.first() {
            match first {
                0x80.. => {
                    let index = self.integer(&mut rest, 7)?;
                    self.indexed(index, sink)?;
                }
                0x40..=0x7f => self.literal(&mut rest, 6, true, sink, strings)?,
                0x20..=0x3f => {
                    let max = self.integer(&mut rest, 5)?;
                    if !may_resize || max > self.allowed as usize {
                        return Err(DecodeError::TableSize);
                    }
                    self.table.set_max(max);
                    self.must_shrink = false;
                    continue;
                }
                // Without indexing, and never indexed: we keep no difference, since nothing is inserted when it is
                // forwarded.
                _ => self.literal(&mut rest, 4, false, sink, strings)?,
            }
            if may_resize && self.must_shrink {
                return Err(DecodeError::TableSize);
            }
            may_resize = false;
        }
        Ok(())
    }

    fn integer(&self, rest: &mut &[u8], prefix: u32) -> Result<usize, DecodeError> {
        let (value, used) = integer::decode(rest, prefix)?;
        *rest = &rest[used..];
        Ok(value)
    }

    fn indexed(&self, index: usize, sink: &mut impl Sink) -> Result<(), DecodeError> {
        let at = index.checked_sub(1).ok_or(DecodeError::Index)?;
        if let Some(entry) = STATIC.get(at) {
            sink.field(entry.kind, entry.name, entry.value, true);
            return Ok(());
        }
        let entry = self.table.get(at - STATIC.len()).ok_or(DecodeError::Index)?;
        sink.field(entry.kind, entry.name, entry.value, entry.clean);
        Ok(())
    }

    fn literal(
        &mut self,
        rest: &mut &[u8],
        prefix: u32,
        insert: bool,
        sink: &mut impl Sink,
        strings: &mut Strings,
    ) -> Result<(), DecodeError> {
        let index = self.integer(rest, prefix)?;
        let string_max = self.string_max as usize;
        let Strings { name: name_space, value: value_space } = strings;
        let new_name = match index {
            0 => Some(string(rest, string_max, name_space)?),
            _ => None,
        };
        let value = match string(rest, string_max, value_space)? {
            Text::Plain(text) => text,
            Text::Decoded => value_space,
        };
        let clean = is_clean(value);
        if let Some(name) = new_name {
            let name = match name {
                Text::Plain(text) => text,
                Text::Decoded => name_space,
            };
            let kind = Name::of(name);
            sink.field(kind, name, value, clean);
            if insert {
                self.table.insert(kind, name, value, clean, 0);
            }
        } else if let Some(entry) = STATIC.get(index - 1) {
            sink.field(entry.kind, entry.name, value, clean);
            if insert {
                self.table.insert(entry.kind, entry.name, value, clean, 0);
            }
        } else {
            let age = index - 1 - STATIC.len();
            let entry = self.table.get(age).ok_or(DecodeError::Index)?;
            sink.field(entry.kind, entry.name, value, clean);
            if insert {
                self.table.insert_with_name_of(age, value, clean);
            }
        }
        Ok(())
    }
}

/// A string (RFC 7541 section 5.2): a part of the block, or decoded into `space`.
fn string<'a>(rest: &mut &'a [u8], max: usize, space: &mut Vec<u8>) -> Result<Text<'a>, DecodeError> {
    let first = *rest.first().ok_or(DecodeError::Truncated)?;
    let (len, used) = integer::decode(rest, 7)?;
    if len > max {
        return Err(DecodeError::StringLength);
    }
    let text = rest.get(used..used + len).ok_or(DecodeError::Truncated)?;
    *rest = &rest[used + len..];
    if first & 0x80 == 0 {
        return Ok(Text::Plain(text));
    }
    space.clear();
    huffman::decode(text, space)?;
    if space.len() > max { Err(DecodeError::StringLength) } else { Ok(Text::Decoded) }
}
