//! Typed values taken from traffic, and where the bytes of the textual ones live.
//!
//! A [`Value`] is a small `Copy` type. Strings and blobs are [`Text`]s: positions that are
//! resolved through the [`Ctx`](crate::Ctx) when the bytes are needed, so that a value can be
//! kept while other values are computed, without lifetimes and without copying.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The place the bytes of a [`Text`] live in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The evaluation's own scratch memory.
    Scratch,
    /// The request head.
    Request,
    /// The response head.
    Response,
    /// The request body, or the client's bytes in TCP rules.
    RequestBody,
    /// The response body, or the server's bytes in TCP rules.
    ResponseBody,
}

/// A run of bytes: either constant, or a position in one of the [`Place`]s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    /// Bytes that live as long as the program.
    Static(&'static [u8]),
    /// `len` bytes at offset `off` of a place.
    At {
        /// Where.
        place: Place,
        /// First byte.
        off: u32,
        /// Number of bytes.
        len: u32,
    },
}

impl Text {
    /// No bytes at all.
    pub const EMPTY: Text = Text::Static(b"");

    /// Number of bytes.
    pub fn len(&self) -> usize {
        match *self {
            Text::Static(bytes) => bytes.len(),
            Text::At { len, .. } => len as usize,
        }
    }

    /// True when there is no byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The part of this text that starts at `start` and has at most `len` bytes; both are cut to fit.
    #[must_use]
    pub fn slice(&self, start: usize, len: usize) -> Text {
        let start = start.min(self.len());
        let len = len.min(self.len() - start);
        match *self {
            Text::Static(bytes) => Text::Static(&bytes[start..start + len]),
            // The casts cannot lose anything: both values are at most the old `len`, a `u32`.
            Text::At { place, off, .. } => Text::At { place, off: off + start as u32, len: len as u32 },
        }
    }

    /// The text without its first `n` bytes.
    #[must_use]
    pub fn skip(&self, n: usize) -> Text {
        self.slice(n, usize::MAX)
    }
}

/// The types of values, as declared by fetches and converters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// Whatever comes.
    Any,
    /// The same type as the input (output of a converter).
    Same,
    /// A truth value.
    Bool,
    /// A signed 64-bit integer.
    Int,
    /// An IPv4 or IPv6 address.
    Addr,
    /// An IPv4 address.
    Ip4,
    /// An IPv6 address.
    Ip6,
    /// Text.
    Str,
    /// Raw bytes.
    Bin,
    /// An HTTP method.
    Method,
}

impl Type {
    /// The name that `-dKsmp` prints.
    pub const fn name(self) -> &'static str {
        match self {
            Type::Any => "any",
            Type::Same => "same",
            Type::Bool => "bool",
            Type::Int => "sint",
            Type::Addr => "addr",
            Type::Ip4 => "ipv4",
            Type::Ip6 => "ipv6",
            Type::Str => "str",
            Type::Bin => "bin",
            Type::Method => "meth",
        }
    }
}

/// A value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// A truth value.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An IPv4 address.
    Ip4(Ipv4Addr),
    /// An IPv6 address.
    Ip6(Ipv6Addr),
    /// Text, in no particular encoding.
    Str(Text),
    /// Raw bytes.
    Bin(Text),
    /// The name of an HTTP method.
    Method(Text),
}

impl Value {
    /// The type of this value.
    pub const fn kind(&self) -> Type {
        match self {
            Value::Bool(_) => Type::Bool,
            Value::Int(_) => Type::Int,
            Value::Ip4(_) => Type::Ip4,
            Value::Ip6(_) => Type::Ip6,
            Value::Str(_) => Type::Str,
            Value::Bin(_) => Type::Bin,
            Value::Method(_) => Type::Method,
        }
    }

    /// The bytes of a textual value (string, blob or method).
    pub const fn text(&self) -> Option<Text> {
        match *self {
            Value::Str(text) | Value::Bin(text) | Value::Method(text) => Some(text),
            _ => None,
        }
    }
}

impl From<IpAddr> for Value {
    fn from(ip: IpAddr) -> Value {
        match ip {
            IpAddr::V4(ip) => Value::Ip4(ip),
            IpAddr::V6(ip) => Value::Ip6(ip),
        }
    }
}

/// Facts about a sample that matter to whoever evaluates it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// The value may change while more data comes in.
    pub may_change: bool,
    /// Another value can be had by asking the same fetch again (several headers of one name).
    pub not_last: bool,
}

/// One value and what is known about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The value.
    pub value: Value,
    /// What is known about it.
    pub flags: Flags,
}

impl Sample {
    /// A value that will not change.
    pub const fn new(value: Value) -> Sample {
        Sample { value, flags: Flags { may_change: false, not_last: false } }
    }

    /// A truth value.
    pub const fn bool(value: bool) -> Sample {
        Sample::new(Value::Bool(value))
    }

    /// An integer.
    pub const fn int(value: i64) -> Sample {
        Sample::new(Value::Int(value))
    }

    /// Text.
    pub const fn str(text: Text) -> Sample {
        Sample::new(Value::Str(text))
    }

    /// Raw bytes.
    pub const fn bin(text: Text) -> Sample {
        Sample::new(Value::Bin(text))
    }

    /// Marks the value as one that may change while more data comes in.
    #[must_use]
    pub const fn volatile(mut self) -> Sample {
        self.flags.may_change = true;
        self
    }
}

/// Reads the decimal number at the start of `bytes` the way every integer conversion does:
/// an optional sign, digits up to the first other byte, saturation at the limits of `i64`.
/// Returns the number and how many bytes were read.
pub fn leading_int(bytes: &[u8]) -> (i64, usize) {
    let mut at = 0;
    let mut negative = false;
    match bytes.first() {
        Some(b'-') => {
            negative = true;
            at = 1;
        }
        Some(b'+') => at = 1,
        _ => {}
    }
    let mut value: i64 = 0;
    while let Some(digit) = bytes.get(at).copied().filter(u8::is_ascii_digit) {
        let digit = i64::from(digit - b'0');
        value = value.saturating_mul(10);
        value = if negative { value.saturating_sub(digit) } else { value.saturating_add(digit) };
        at += 1;
    }
    (value, at)
}

/// Writes `value` in decimal to the end of `buf` and returns the digits.
pub fn decimal(value: i64, buf: &mut [u8; 20]) -> &[u8] {
    let mut at = buf.len();
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        buf[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        at -= 1;
        buf[at] = b'-';
    }
    &buf[at..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_up_to_the_first_other_byte_and_saturate() {
        let check = |input: &str, value: i64, read: usize| {
            assert_eq!(leading_int(input.as_bytes()), (value, read), "{input:?}");
        };
        check("", 0, 0);
        check("12ab", 12, 2);
        check("-7", -7, 2);
        check("+7", 7, 2);
        check("x", 0, 0);
        check("99999999999999999999", i64::MAX, 20);
        check("-99999999999999999999", i64::MIN, 21);
        check("-9223372036854775808", i64::MIN, 20);
    }

    #[test]
    fn integers_are_written_in_full() {
        let check = |value: i64, expected: &str| {
            let mut buf = [0; 20];
            assert_eq!(decimal(value, &mut buf), expected.as_bytes());
        };
        check(0, "0");
        check(-1, "-1");
        check(i64::MAX, "9223372036854775807");
        check(i64::MIN, "-9223372036854775808");
    }

    #[test]
    fn slices_are_cut_to_fit() {
        let text = Text::At { place: Place::Request, off: 10, len: 5 };
        assert_eq!(text.slice(2, 100), Text::At { place: Place::Request, off: 12, len: 3 });
        assert_eq!(text.slice(9, 1), Text::At { place: Place::Request, off: 15, len: 0 });
        assert_eq!(Text::Static(b"abc").skip(1), Text::Static(b"bc"));
    }
}
