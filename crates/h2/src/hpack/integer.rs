//! Integers with a prefix (RFC 7541 section 5.1).

use super::DecodeError;

/// Most octets of an integer behind its prefix. Five hold 35 bits, more than any length or index here.
const CONTINUATION_MAX: usize = 5;

/// Reads an integer whose first `prefix` bits (1 to 8) are the low ones of the first octet. Returns its value and how
/// many octets it took.
///
/// # Errors
/// [`DecodeError::Truncated`] when more octets are needed, [`DecodeError::Integer`] when it exceeds 32 bits or is
/// written with more octets than any such value needs.
#[inline]
pub fn decode(input: &[u8], prefix: u32) -> Result<(usize, usize), DecodeError> {
    let mask = ((1u32 << prefix) - 1) as u8;
    let first = *input.first().ok_or(DecodeError::Truncated)? & mask;
    if first < mask {
        return Ok((usize::from(first), 1));
    }
    let mut value = u64::from(mask);
    for i in 0..CONTINUATION_MAX {
        let octet = *input.get(1 + i).ok_or(DecodeError::Truncated)?;
        value += u64::from(octet & 0x7f) << (7 * i);
        if octet & 0x80 == 0 {
            return match u32::try_from(value) {
                Ok(value) => Ok((value as usize, 2 + i)),
                Err(_) => Err(DecodeError::Integer),
            };
        }
    }
    Err(DecodeError::Integer)
}

/// Writes `value` with a prefix of `prefix` bits; `flags` are the high bits of the first octet.
#[inline]
pub fn encode(value: usize, prefix: u32, flags: u8, out: &mut Vec<u8>) {
    let mask = (1usize << prefix) - 1;
    if value < mask {
        out.push(flags | value as u8);
        return;
    }
    out.push(flags | mask as u8);
    let mut rest = value - mask;
    while rest >= 0x80 {
        out.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(value: usize, prefix: u32, flags: u8) -> Vec<u8> {
        let mut out = Vec::new();
        encode(value, prefix, flags, &mut out);
        out
    }

    #[test]
    fn the_examples_of_the_rfc() {
        // RFC 7541 appendix C.1.
        assert_eq!(encoded(10, 5, 0), [10]);
        assert_eq!(encoded(1337, 5, 0), [31, 154, 10]);
        assert_eq!(encoded(42, 8, 0), [42]);
        assert_eq!(decode(&[0xea], 5), Ok((10, 1)));
        assert_eq!(decode(&[0xff, 154, 10], 5), Ok((1337, 3)));
        assert_eq!(decode(&[42], 8), Ok((42, 1)));
    }

    #[test]
    fn what_was_written_is_read() {
        for prefix in 1..=8 {
            for value in [0, 1, 2, 126, 127, 128, 254, 255, 256, 16_383, 16_384, 1 << 21, u32::MAX as usize] {
                let out = encoded(value, prefix, 0);
                assert_eq!(decode(&out, prefix), Ok((value, out.len())), "{value} in {prefix} bits");
                for cut in 0..out.len() {
                    assert_eq!(decode(&out[..cut], prefix), Err(DecodeError::Truncated));
                }
            }
        }
    }

    #[test]
    fn too_large_and_endless_ones_are_refused() {
        assert_eq!(decode(&[0xff, 0x80, 0xfe, 0xff, 0xff, 0x0f], 8), Ok((u32::MAX as usize, 6)));
        assert_eq!(decode(&[0xff, 0x81, 0xfe, 0xff, 0xff, 0x0f], 8), Err(DecodeError::Integer));
        assert_eq!(decode(&[0xff, 0x80, 0x80, 0x80, 0x80, 0x80], 8), Err(DecodeError::Integer));
        assert_eq!(decode(&[0xff, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01], 8), Err(DecodeError::Integer));
    }
}
