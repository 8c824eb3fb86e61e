//! Scanning several bytes at once, for the parts of a head that are long.
//!
//! Eight bytes are looked at as one number. The tricks are those of "Bit Twiddling Hacks": a byte below
//! `n` borrows from its high bit when `n` is subtracted from every byte. A borrow may spill into the
//! byte above, so only the lowest flag of a group is exact, and that is the only one used.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

#[inline]
fn load(bytes: &[u8], at: usize) -> Option<u64> {
    let group = bytes.get(at..at + 8)?;
    Some(u64::from_le_bytes(group.try_into().ok()?))
}

/// Flags bytes below `n`, which must be at most 128. Exact for the lowest flag.
#[inline]
fn below(group: u64, n: u8) -> u64 {
    group.wrapping_sub(ONES * n as u64) & !group & HIGHS
}

/// Flags bytes equal to `byte`. Exact for the lowest flag.
#[inline]
fn equal(group: u64, byte: u8) -> u64 {
    below(group ^ (ONES * byte as u64), 1)
}

/// The offset, from `at` on, of the first byte below 0x20, tabs included, or the length of `bytes`.
#[inline]
pub fn control(bytes: &[u8], mut at: usize) -> usize {
    while let Some(group) = load(bytes, at) {
        let found = below(group, 0x20);
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while at < bytes.len() && bytes[at] >= 0x20 {
        at += 1;
    }
    at
}

/// The offset, from `at` on, of the first byte that may not be in a request target: white space, a
/// control byte, `#`, DEL, or one above; or the length of `bytes`.
#[inline]
pub fn target_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(group) = load(bytes, at) {
        let found = below(group, 0x21) | equal(group, b'#') | equal(group, 0x7f) | (group & HIGHS);
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while at < bytes.len() && crate::ascii::is_target_byte(bytes[at]) {
        at += 1;
    }
    at
}

/// The offset, from `at` on, of the first byte that is not a token character, or the length of `bytes`.
#[inline]
pub fn token_end(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or(b"");
    rest.iter().position(|&b| !crate::ascii::is_tchar(b)).map_or(bytes.len(), |len| at + len)
}

/// Puts the letters of a token in lower case. All bytes must be below 128, as those of a token are; a
/// byte above may come out changed.
#[inline]
pub fn lower_token(token: &mut [u8]) {
    let (groups, rest) = token.as_chunks_mut::<8>();
    for group in groups {
        *group = lower_group(u64::from_le_bytes(*group)).to_le_bytes();
    }
    if rest.is_empty() {
        return;
    }
    // The last group overlaps the one before: what is in lower case stays so.
    if let Some(group) = token.last_chunk_mut::<8>() {
        *group = lower_group(u64::from_le_bytes(*group)).to_le_bytes();
    } else if let Some(group) = token.first_chunk_mut::<4>() {
        *group = lower_four(*group);
        if let Some(group) = token.last_chunk_mut::<4>() {
            *group = lower_four(*group);
        }
    } else {
        for byte in token {
            *byte = byte.to_ascii_lowercase();
        }
    }
}

#[inline]
fn lower_four(group: [u8; 4]) -> [u8; 4] {
    (lower_group(u64::from(u32::from_le_bytes(group))) as u32).to_le_bytes()
}

#[inline]
fn lower_group(group: u64) -> u64 {
    let low = group & !HIGHS;
    // No byte carries into the next: each sum is at most 0x7f + 0x3f.
    let from_a = low.wrapping_add(ONES * (0x80 - b'A' as u64));
    let above_z = low.wrapping_add(ONES * (0x7f - b'Z' as u64));
    group | ((from_a & !above_z & HIGHS) >> 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every byte at every place of a text long enough for several groups.
    fn each_place(mut check: impl FnMut(&[u8], usize, u8)) {
        for len in 0..26 {
            for place in 0..len {
                for byte in 0..=255u8 {
                    let mut text = vec![b'a'; len];
                    text[place] = byte;
                    check(&text, place, byte);
                }
            }
        }
    }

    #[test]
    fn the_first_odd_byte_is_found_wherever_it_is() {
        each_place(|text, place, byte| {
            let expect = |odd: bool| if odd { place } else { text.len() };
            assert_eq!(control(text, 0), expect(byte < 0x20), "control {byte} at {place}");
            let odd = !crate::ascii::is_target_byte(byte);
            assert_eq!(target_end(text, 0), expect(odd), "target {byte} at {place}");
            let odd = !crate::ascii::is_tchar(byte);
            assert_eq!(token_end(text, 0), expect(odd), "token {byte} at {place}");
        });
        // Bytes next to each other, where a borrow could spill.
        for first in 0..=255u8 {
            for second in 0..=255u8 {
                let text = [b'a', first, second, b'a', b'a', b'a', b'a', b'a', b'a'];
                let slow = text.iter().position(|&b| b < 0x20).unwrap_or(9);
                assert_eq!(control(&text, 0), slow, "{first} {second}");
                let slow = text.iter().position(|&b| !crate::ascii::is_target_byte(b)).unwrap_or(9);
                assert_eq!(target_end(&text, 0), slow, "{first} {second}");
            }
        }
        assert_eq!(control(b"\0aaaaaaaaaaaa", 1), 13);
    }

    #[test]
    fn tokens_are_put_in_lower_case() {
        each_place(|text, _, byte| {
            if byte < 0x80 {
                let mut ours = text.to_vec();
                lower_token(&mut ours);
                assert_eq!(ours, text.to_ascii_lowercase(), "{byte}");
            }
        });
    }
}
