//! Writing the items of a log format: plain, JSON or CBOR.

use super::{Flags, Forced, Usage};
use crate::context::Ctx;
use crate::expr::Expr;
use crate::value::{Type, Value, decimal};
use std::io::Write as _;

/// Writes items to a line.
pub(crate) struct Emitter<'o> {
    out: &'o mut Vec<u8>,
    usage: Usage,
    global: Flags,
    flags: Flags,
    forced: Option<Forced>,
    /// True when the last byte is a blank, or nothing was written: a blank would merge.
    blank: bool,
    /// True when the whole is encoded as JSON or CBOR.
    encodes: bool,
    /// Number of named items written in an encoding.
    named: usize,
}

const DIGITS: &[u8; 16] = b"0123456789ABCDEF";

/// What each byte needs: bit 0, an escape in request lines; bit 1, an escape in captured headers.
static ESCAPES: [u8; 256] = {
    let mut table = [0u8; 256];
    let mut i = 0;
    while i < 256 {
        let byte = i as u8;
        if byte < 32 || byte > 126 || byte == b'"' || byte == b'#' {
            table[i] = 3;
        } else if byte == b'{' || byte == b'|' || byte == b'}' {
            table[i] = 2;
        }
        i += 1;
    }
    table
};

/// Bytes that are escaped in request lines.
#[inline]
fn escaped_in_uri(byte: u8) -> bool {
    ESCAPES[usize::from(byte)] & 1 != 0
}

/// Bytes that are escaped in captured headers.
#[inline]
fn escaped_in_header(byte: u8) -> bool {
    ESCAPES[usize::from(byte)] & 2 != 0
}

fn push_escaped(out: &mut Vec<u8>, bytes: &[u8], lead: u8, escaped: fn(u8) -> bool) {
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|b| escaped(*b)) {
        out.extend_from_slice(&rest[..at]);
        let byte = rest[at];
        out.extend_from_slice(&[lead, DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

fn push_captures<'v>(out: &mut Vec<u8>, values: impl Iterator<Item = Option<&'v [u8]>>) {
    out.push(b'{');
    for (i, value) in values.enumerate() {
        if i > 0 {
            out.push(b'|');
        }
        push_escaped(out, value.unwrap_or(b""), b'#', escaped_in_header);
    }
    out.push(b'}');
}

impl<'o> Emitter<'o> {
    pub fn new(out: &'o mut Vec<u8>, usage: Usage, global: Flags) -> Emitter<'o> {
        let encodes = !usage.is_for_headers() && (global.json || global.cbor);
        Emitter { out, usage, global, flags: Flags::default(), forced: None, blank: true, encodes, named: 0 }
    }

    #[inline]
    fn encodes(&self) -> bool {
        self.encodes
    }

    pub fn begin(&mut self) {
        if self.encodes() {
            if self.global.json {
                self.out.push(b'{');
            } else {
                self.cbor_bytes(&[0xbf]);
            }
        }
    }

    pub fn end(&mut self) {
        if self.encodes() {
            if self.global.json {
                self.out.push(b'}');
            } else {
                self.cbor_bytes(&[0xff]);
            }
        }
    }

    #[inline]
    pub fn literal(&mut self, text: &[u8]) {
        if !self.encodes() {
            match text {
                // Most literals are one separator.
                [byte] => self.out.push(*byte),
                text => self.out.extend_from_slice(text),
            }
            self.blank = false;
        }
    }

    pub fn blank(&mut self) {
        if !self.encodes() && !self.blank {
            self.out.push(b' ');
            self.blank = true;
        }
    }

    /// Begins an item; false when it is to be left out.
    #[inline]
    pub fn item(&mut self, name: Option<&str>, forced: Option<Forced>, flags: Flags) -> bool {
        self.flags = flags;
        self.forced = forced;
        if self.usage.is_for_headers() {
            (self.flags.json, self.flags.cbor) = (false, false);
        }
        !self.encodes() || self.named_item(name)
    }

    fn named_item(&mut self, name: Option<&str>) -> bool {
        (self.flags.json, self.flags.cbor) = (self.global.json, self.global.cbor);
        let Some(name) = name else { return false };
        if self.flags.cbor {
            self.cbor_text(name.as_bytes());
        } else {
            if self.named > 0 {
                self.out.extend_from_slice(b", ");
            }
            self.out.push(b'"');
            self.out.extend_from_slice(name.as_bytes());
            self.out.extend_from_slice(b"\": ");
        }
        self.named += 1;
        true
    }

    fn encoding(&self) -> bool {
        self.flags.json || self.flags.cbor
    }

    pub fn hex(&self) -> bool {
        self.flags.hex
    }

    // ---- values ----

    /// A number. Without an encoding, `plus` puts a `+` before it: it may still grow.
    pub fn int(&mut self, value: i64, plus: bool) {
        self.blank = false;
        if !self.encoding() && !plus {
            match value {
                0..=9 => return self.out.push(b'0' + value as u8),
                -1 => return self.out.extend_from_slice(b"-1"),
                _ => {}
            }
        }
        let mut digits = [0; 20];
        let text = decimal(value, &mut digits);
        match self.forced {
            // CBOR has numbers of its own; JSON writes them as it is told.
            Some(Forced::Str) if self.flags.json => self.encoded_text(text),
            Some(Forced::Bool) if self.encoding() => self.truth(value != 0),
            _ if self.flags.cbor => self.cbor_int(value),
            _ => {
                if plus && !self.encoding() {
                    self.out.push(b'+');
                }
                self.out.extend_from_slice(text);
            }
        }
    }

    /// A number in at least `width` hexadecimal digits when the `X` flag asks for that, in decimal otherwise.
    pub fn int_or_hex(&mut self, value: i64, width: usize) {
        if !self.flags.hex {
            return self.int(value, false);
        }
        self.blank = false;
        if self.encoding() {
            let text = format!("{value:0width$X}");
            self.encoded_text(text.as_bytes());
        } else {
            let _ = write!(self.out, "{value:0width$X}");
        }
    }

    fn truth(&mut self, value: bool) {
        self.blank = false;
        if self.flags.cbor {
            self.cbor_bytes(&[if value { 0xf5 } else { 0xf4 }]);
        } else {
            self.out.extend_from_slice(if value { b"true" } else { b"false" });
        }
    }

    /// Nothing: `-` in logs, nothing elsewhere.
    pub fn missing(&mut self) {
        if self.encoding() {
            // Whatever type was asked for: nothing is not zero.
            match self.flags.cbor {
                true => self.cbor_bytes(&[0xf6]),
                false => self.out.extend_from_slice(b"\"\""),
            }
            self.blank = false;
        } else if self.flags.quote {
            self.out.extend_from_slice(b"\"\"");
            self.blank = false;
        } else if self.usage == Usage::Log {
            self.out.push(b'-');
            self.blank = false;
        }
    }

    /// A list that is not configured at all: no text, or a null in an encoding.
    pub fn absent(&mut self) {
        if self.flags.cbor {
            self.cbor_bytes(&[0xf6]);
        } else if self.flags.json {
            self.out.extend_from_slice(b"null");
        }
    }

    /// A text as it is, never quoted: dates and states.
    pub fn word(&mut self, text: &[u8]) {
        self.blank = false;
        if self.encoding() { self.encoded_text(text) } else { self.out.extend_from_slice(text) }
    }

    /// A text, quoted and escaped as the flags say. An empty one counts as missing.
    #[inline]
    pub fn text(&mut self, text: &[u8]) {
        if text.is_empty() {
            return self.missing();
        }
        if self.encoding() {
            return self.encoded_text(text);
        }
        if !self.flags.quote && !self.flags.escape {
            self.out.extend_from_slice(text);
            self.blank = false;
            return;
        }
        self.any_text(text, |_| false);
    }

    /// A text that is written piece by piece, which shows in CBOR.
    pub fn pieces(&mut self, text: &[u8]) {
        self.any_text(text, |_| false);
    }

    /// A text from a request line: unsafe bytes become `#XX`. It may be empty.
    pub fn uri(&mut self, text: &[u8]) {
        self.any_text(text, escaped_in_uri);
    }

    /// A text from a header: unsafe bytes and separators become `#XX`.
    pub fn header(&mut self, text: &[u8]) {
        self.any_text(text, escaped_in_header);
    }

    fn any_text(&mut self, text: &[u8], escaped: fn(u8) -> bool) {
        if self.flags.cbor {
            self.cbor_bytes(&[0x7f]);
            self.cbor_pieces(text, escaped);
            return self.cbor_bytes(&[0xff]);
        }
        if self.encoding() {
            if !text.iter().any(|b| escaped(*b)) {
                return self.encoded_text(text);
            }
            let mut safe = Vec::with_capacity(text.len() + 16);
            push_escaped(&mut safe, text, b'#', escaped);
            return self.encoded_text(&safe);
        }
        let start = self.out.len();
        let quote = self.flags.quote;
        if quote {
            self.out.push(b'"');
        }
        if self.flags.escape {
            for byte in text {
                if matches!(byte, b'"' | b'\\' | b']') && !escaped(*byte) {
                    self.out.push(b'\\');
                }
                push_escaped(self.out, &[*byte], b'#', escaped);
            }
        } else {
            push_escaped(self.out, text, b'#', escaped);
        }
        if quote {
            self.out.push(b'"');
        }
        if self.out.len() > start {
            self.blank = false;
        }
    }

    /// Captured values between braces.
    pub fn captures<'v>(&mut self, values: impl Iterator<Item = Option<&'v [u8]>>) {
        if self.flags.cbor {
            self.cbor_bytes(&[0x7f]);
            for (i, value) in values.enumerate() {
                self.cbor_text(if i == 0 { b"{" } else { b"|" });
                self.cbor_pieces(value.unwrap_or(b""), escaped_in_header);
            }
            self.cbor_text(b"}");
            return self.cbor_bytes(&[0xff]);
        }
        if self.encoding() || self.flags.escape {
            let mut text = Vec::new();
            push_captures(&mut text, values);
            if self.encoding() {
                return self.encoded_text(&text);
            }
            return self.any_text(&text, |_| false);
        }
        let quote = self.flags.quote;
        if quote {
            self.out.push(b'"');
        }
        push_captures(self.out, values);
        if quote {
            self.out.push(b'"');
        }
        self.blank = false;
    }

    /// Captured values as separate fields.
    pub fn capture_list<'v>(&mut self, values: impl Iterator<Item = Option<&'v [u8]>>) {
        if self.flags.json {
            self.out.push(b'[');
        } else if self.flags.cbor {
            self.cbor_bytes(&[0x9f]);
        }
        for (i, value) in values.enumerate() {
            if self.encoding() {
                if i > 0 && self.flags.json {
                    self.out.extend_from_slice(b", ");
                }
                self.header(value.unwrap_or(if self.flags.quote { b"" } else { b"-" }));
                continue;
            }
            if i > 0 {
                self.out.push(b' ');
            }
            match value {
                Some(value) => self.header(value),
                None if self.flags.quote => self.out.extend_from_slice(b"\"\""),
                None => self.out.push(b'-'),
            }
        }
        if self.flags.json {
            self.out.push(b']');
        } else if self.flags.cbor {
            self.cbor_bytes(&[0xff]);
        }
        self.blank = false;
    }

    /// The value of an expression.
    pub fn expr(&mut self, expr: &Expr, cx: &mut Ctx) {
        if self.usage.is_for_headers() {
            // Unlike an alias it is never quoted, and nothing stands for what is missing.
            self.flags.quote = false;
        }
        let Some(mut sample) = expr.eval(cx) else {
            if self.forced != Some(Forced::Raw) || !self.encoding() {
                self.missing();
            }
            return;
        };
        if self.encoding() {
            if let Some(forced) = self.forced {
                let address = matches!(sample.value, Value::Ip4(_) | Value::Ip6(_));
                // An address is neither true nor false.
                if forced == Forced::Bool && address || !sample.cast(forced.kind(), cx) {
                    return self.missing();
                }
                if forced == Forced::Raw {
                    self.out.extend_from_slice(cx.bytes(&sample.value));
                    return;
                }
            }
            match sample.value {
                Value::Int(value) => return self.int(value, false),
                Value::Bool(value) => return self.truth(value),
                Value::Bin(text) if self.flags.cbor => {
                    let bytes = cx.text(text);
                    self.cbor_bytes(&[0x5f]);
                    self.cbor_head(2, bytes.len() as u64);
                    self.cbor_bytes(bytes);
                    return self.cbor_bytes(&[0xff]);
                }
                _ => {}
            }
            if self.flags.cbor {
                if !sample.cast(Type::Str, cx) {
                    return self.missing();
                }
                return self.text(cx.bytes(&sample.value));
            }
        }
        if let Value::Bin(text) = sample.value
            && (self.global.bin || self.encoding())
        {
            let bytes = cx.text(text);
            let cut =
                if self.global.bin { bytes.len() } else { memchr::memchr(0, bytes).unwrap_or(bytes.len()) };
            return self.plain(&bytes[..cut]);
        }
        if !sample.cast(Type::Str, cx) {
            return self.missing();
        }
        self.plain(cx.bytes(&sample.value));
    }

    fn plain(&mut self, bytes: &[u8]) {
        if self.usage.is_for_headers() {
            let unsafe_here = |b: u8| b < 32 && b != b'\t' || b == 127;
            if !self.flags.escape {
                return push_escaped(self.out, bytes, b'%', unsafe_here);
            }
            for byte in bytes {
                if matches!(byte, b'"' | b'\\' | b']') {
                    self.out.push(b'\\');
                }
                push_escaped(self.out, &[*byte], b'%', unsafe_here);
            }
            return;
        }
        self.text(bytes);
    }

    // ---- encodings ----

    fn encoded_text(&mut self, text: &[u8]) {
        self.blank = false;
        if self.flags.cbor {
            return self.cbor_text(text);
        }
        self.out.push(b'"');
        for byte in text {
            match byte {
                b'"' | b'\\' => self.out.extend_from_slice(&[b'\\', *byte]),
                b'\n' => self.out.extend_from_slice(b"\\n"),
                b'\r' => self.out.extend_from_slice(b"\\r"),
                b'\t' => self.out.extend_from_slice(b"\\t"),
                8 => self.out.extend_from_slice(b"\\b"),
                12 => self.out.extend_from_slice(b"\\f"),
                byte => self.out.push(*byte),
            }
        }
        self.out.push(b'"');
    }

    /// The pieces of a text of unknown length (RFC 8949 section 3.2.3): an escape is one of its own.
    fn cbor_pieces(&mut self, text: &[u8], escaped: fn(u8) -> bool) {
        let mut rest = text;
        while !rest.is_empty() {
            let plain = rest.iter().position(|b| escaped(*b)).unwrap_or(rest.len());
            // What is between two escapes is a piece even when there is nothing.
            self.cbor_text(&rest[..plain]);
            if let Some(byte) = rest.get(plain) {
                self.cbor_text(&[b'#', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
            }
            rest = rest.get(plain + 1..).unwrap_or_default();
        }
    }

    /// CBOR is printed in hexadecimal unless the `bin` flag is set for the whole.
    fn cbor_bytes(&mut self, bytes: &[u8]) {
        if self.global.bin {
            self.out.extend_from_slice(bytes);
        } else {
            for byte in bytes {
                self.out.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
            }
        }
    }

    /// The head of a CBOR item (RFC 8949 section 3).
    fn cbor_head(&mut self, major: u8, value: u64) {
        let major = major << 5;
        let bytes = value.to_be_bytes();
        match value {
            0..=23 => self.cbor_bytes(&[major | value as u8]),
            24..=0xff => self.cbor_bytes(&[major | 24, bytes[7]]),
            0x100..=0xffff => {
                self.cbor_bytes(&[major | 25]);
                self.cbor_bytes(&bytes[6..]);
            }
            0x1_0000..=0xffff_ffff => {
                self.cbor_bytes(&[major | 26]);
                self.cbor_bytes(&bytes[4..]);
            }
            _ => {
                self.cbor_bytes(&[major | 27]);
                self.cbor_bytes(&bytes);
            }
        }
    }

    fn cbor_int(&mut self, value: i64) {
        if value >= 0 {
            self.cbor_head(0, value as u64);
        } else {
            self.cbor_head(1, !(value as u64));
        }
    }

    fn cbor_text(&mut self, text: &[u8]) {
        self.cbor_head(3, text.len() as u64);
        self.cbor_bytes(text);
    }
}
