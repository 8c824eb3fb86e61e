//! Classes of bytes that several parsers share (RFC 9110 section 5.6.2, RFC 3986).

const TCHAR: u8 = 1;
const PLAIN_NAME: u8 = 2;
const DIGIT: u8 = 4;
const TARGET: u8 = 8;

const fn classes() -> [u8; 256] {
    let mut table = [0u8; 256];
    let mut byte = 0usize;
    while byte < 256 {
        let c = byte as u8;
        let mut class = 0;
        if c.is_ascii_alphanumeric() {
            class |= TCHAR | PLAIN_NAME;
        }
        if c.is_ascii_digit() {
            class |= DIGIT;
        }
        if matches!(
            c,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        ) {
            class |= TCHAR;
        }
        if c == b'-' {
            class |= PLAIN_NAME;
        }
        if c > 0x20 && c < 0x7f && c != b'#' {
            class |= TARGET;
        }
        table[byte] = class;
        byte += 1;
    }
    table
}

static CLASS: [u8; 256] = classes();

/// Whether `byte` may appear in a token: a method or a field name (RFC 9110 section 5.6.2).
#[inline]
pub fn is_tchar(byte: u8) -> bool {
    CLASS[byte as usize] & TCHAR != 0
}

/// Whether every byte of a non-empty `name` is a token character.
#[inline]
pub fn is_token(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|&b| is_tchar(b))
}

/// Whether `byte` is in `[A-Za-z0-9-]`, the set `option http-restrict-req-hdr-names` allows.
#[inline]
pub fn is_plain_name_byte(byte: u8) -> bool {
    CLASS[byte as usize] & PLAIN_NAME != 0
}

/// Whether `byte` may appear in a request target when nothing is relaxed: visible US-ASCII except `#`.
#[inline]
pub fn is_target_byte(byte: u8) -> bool {
    CLASS[byte as usize] & TARGET != 0
}

/// Whether `byte` is optional white space (RFC 9110 section 5.6.3): a space or a tab.
#[inline]
pub fn is_ows(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// `bytes` without optional white space at both ends.
#[inline]
pub fn trim_ows(mut bytes: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = bytes {
        if !is_ows(*first) {
            break;
        }
        bytes = rest;
    }
    while let [rest @ .., last] = bytes {
        if !is_ows(*last) {
            break;
        }
        bytes = rest;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_characters_are_those_of_the_rfc() {
        let allowed = b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
        for byte in 0..=255u8 {
            assert_eq!(is_tchar(byte), allowed.contains(&byte), "byte {byte:#x}");
        }
        assert!(!is_token(b""));
        assert!(is_token(b"x-y"));
        assert!(!is_token(b"x y"));
    }

    #[test]
    fn white_space_is_trimmed_at_both_ends_only() {
        for (input, expected) in
            [("", ""), (" ", ""), (" a ", "a"), ("\t a b\t", "a b"), ("a", "a"), ("\x0ba", "\x0ba")]
        {
            assert_eq!(trim_ows(input.as_bytes()), expected.as_bytes(), "{input:?}");
        }
    }
}
