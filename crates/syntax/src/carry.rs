//! Bytes that are not UTF-8, carried in text.
//!
//! The words of a configuration are text for nearly everyone, but `\xNN` puts any byte into them, and what they end in
//! (headers, patterns, payloads) is bytes. A byte that is not part of valid UTF-8 is carried as one of the last 256
//! characters of the private use area, `U+10FF00` and the byte. Those characters themselves are carried byte by byte,
//! so that [`carry`] loses nothing and [`restore`] is its inverse for every input.

use std::borrow::Cow;

/// The character that carries the byte 0.
const FIRST: u32 = 0x10_ff00;

/// The first two bytes of every carrier in UTF-8.
const LEAD: [u8; 2] = [0xf4, 0x8f];

/// The text that carries `bytes`.
pub fn carry(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes)
        && !text.chars().any(is_carrier)
    {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(bytes.len() * 4);
    let raw = |out: &mut String, bytes: &[u8]| {
        out.extend(bytes.iter().filter_map(|byte| char::from_u32(FIRST + u32::from(*byte))));
    };
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if is_carrier(character) {
                raw(&mut out, character.encode_utf8(&mut [0; 4]).as_bytes());
            } else {
                out.push(character);
            }
        }
        raw(&mut out, chunk.invalid());
    }
    Cow::Owned(out)
}

/// The bytes that `text`, or a part of it, carries.
pub fn restore(text: &[u8]) -> Cow<'_, [u8]> {
    if !has_carrier(text) {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(&byte) = rest.first() {
        let carried = rest
            .get(..4)
            .and_then(|four| std::str::from_utf8(four).ok()?.chars().next())
            .filter(|c| is_carrier(*c));
        match carried {
            Some(character) => {
                // The last eight bits are the byte.
                out.push((u32::from(character) & 0xff) as u8);
                rest = &rest[4..];
            }
            None => {
                out.push(byte);
                rest = &rest[1..];
            }
        }
    }
    Cow::Owned(out)
}

/// Whether the character carries a byte: it is shown as U+FFFD.
pub fn is_carrier(character: char) -> bool {
    u32::from(character) >= FIRST
}

fn has_carrier(text: &[u8]) -> bool {
    text.windows(2).any(|pair| pair == LEAD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_comes_back() {
        let check = |bytes: &[u8], same: bool| {
            let text = carry(bytes);
            assert_eq!(&*restore(text.as_bytes()), bytes);
            assert_eq!(text.as_bytes() == bytes, same, "{bytes:x?}");
        };
        check(b"", true);
        check("plain, caf\u{e9}, \u{10fdff}".as_bytes(), true);
        check(b"-\xe0-", false);
        check(b"\xf4\x8f\xbc", false);
        check("\u{10ff00}x\u{10ffff}\u{10feff}".as_bytes(), false);
        check(&(0..=255).collect::<Vec<u8>>(), false);
        // Lone parts of a carrier are what they are.
        assert_eq!(&*restore(b"\xf4\x8f\xbc"), b"\xf4\x8f\xbc");
    }
}
