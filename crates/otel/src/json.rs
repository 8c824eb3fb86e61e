//! Writing JSON (RFC 8259; for what OTLP makes of numbers and identifiers, its specification, "JSON Protobuf Encoding").

/// Text, which comes from anywhere: what is not UTF-8 becomes U+FFFD.
pub fn text(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    for chunk in bytes.utf8_chunks() {
        for byte in chunk.valid().bytes() {
            match byte {
                b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
                0..0x20 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
                _ => out.push(byte),
            }
        }
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
    out.push(b'"');
}

/// A name and the colon behind it, with a comma in front unless it is the first one of its object.
pub fn name(out: &mut Vec<u8>, name: &str) {
    if !matches!(out.last(), None | Some(b'{')) {
        out.push(b',');
    }
    text(out, name.as_bytes());
    out.push(b':');
}

/// Bytes as lowercase hexadecimal digits between quotes, as identifiers are written.
pub fn hex(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    bytes.iter().for_each(|byte| out.extend_from_slice(&hex_digits(*byte)));
    out.push(b'"');
}

/// A number of 64 bits, which is written as text: JSON's numbers are not that long everywhere.
pub fn long(out: &mut Vec<u8>, number: impl std::fmt::Display) {
    out.extend_from_slice(format!("\"{number}\"").as_bytes());
}

/// The two digits of a byte.
pub fn hex_digits(byte: u8) -> [u8; 2] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        let mut out = Vec::new();
        text(&mut out, b"a\"b\\c\n\x01\xc3\xa9\xff\xfe/");
        assert_eq!(
            String::from_utf8(out).expect("UTF-8"),
            "\"a\\\"b\\\\c\\u000a\\u0001\u{e9}\u{fffd}\u{fffd}/\""
        );
    }
}
