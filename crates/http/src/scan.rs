//! Scanning several bytes at once, for the parts of a head that are long.
//!
//! Eight bytes are looked at as one number. The tricks are those of "Bit Twiddling Hacks": a byte below
//! `n` borrows from its high bit when `n` is subtracted from every byte. A borrow may spill into the
//! byte above, so only the lowest flag of a group is exact, and that is the only one used.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;
/// The bit in which the two cases of a letter differ.
const CASE: u64 = ONES * 0x20;

/// Bytes in a group.
const GROUP: usize = 8;

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

/// The offset, from `at` on, of the first byte that `stops` flags in a group, or the length of `bytes`. Fewer bytes than a group
/// has are asked for one by one, by `is_stop`.
#[inline]
fn find(bytes: &[u8], mut at: usize, stops: impl Fn(u64) -> u64, is_stop: impl Fn(u8) -> bool) -> usize {
    while let Some(group) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
        let flags = stops(u64::from_le_bytes(*group));
        if flags != 0 {
            return at + flags.trailing_zeros() as usize / GROUP;
        }
        at += GROUP;
    }
    let rest = bytes.get(at..).unwrap_or(b"");
    rest.iter().position(|&byte| is_stop(byte)).map_or(bytes.len(), |behind| at + behind)
}

/// The offset, from `at` on, of the first byte below 0x20, tabs included, or the length of `bytes`.
#[inline]
pub fn control(bytes: &[u8], at: usize) -> usize {
    find(bytes, at, |group| below(group, 0x20), |byte| byte < 0x20)
}

/// The offset, from `at` on, of the first colon, or the length of `bytes`.
#[inline]
pub fn colon(bytes: &[u8], at: usize) -> usize {
    find(bytes, at, |group| equal(group, b':'), |byte| byte == b':')
}

/// The offset, from `at` on, of the first byte that may not be in a request target: white space, a
/// control byte, `#`, DEL, or one above; or the length of `bytes`.
#[inline]
pub fn target_end(bytes: &[u8], at: usize) -> usize {
    let stops = |group| below(group, 0x21) | equal(group, b'#') | equal(group, 0x7f) | (group & HIGHS);
    find(bytes, at, stops, |byte| !crate::ascii::is_target_byte(byte))
}

/// Whether a host and port have only what nearly all have: letters, digits, hyphens, dots, and the colon. Fewer bytes than a
/// group has are not looked at: false.
#[inline]
pub fn is_plain_host(host: &[u8]) -> bool {
    let is_plain = |group: &[u8; GROUP]| {
        let group = u64::from_le_bytes(*group);
        let letters = within(group | CASE, b'a', b'z');
        let others = within(group, b'-', b':') & !within(group, b'/', b'/');
        (letters | others) & HIGHS == HIGHS
    };
    let Some(last) = host.last_chunk() else { return false };
    // The last group overlaps the one before.
    is_plain(last) && host.as_chunks().0.iter().all(is_plain)
}

/// Flags bytes from `first` to `last`, both below 128. Exact for every byte.
#[inline]
fn within(group: u64, first: u8, last: u8) -> u64 {
    // No byte carries into the next: each sum is at most 0x7f + 0x80.
    let low = group & !HIGHS;
    let from_first = low.wrapping_add(ONES * (0x80 - first as u64));
    let above_last = low.wrapping_add(ONES * (0x7f - last as u64));
    from_first & !above_last & !group & HIGHS
}

/// The first and the last bytes of a token: eight of each, or four, or all there are. Of tokens of one length, no two with
/// up to [`Ends::ALL`] bytes have the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ends {
    pub first: u64,
    pub last: u64,
}

impl Ends {
    /// Tokens up to this length are all ends.
    pub const ALL: usize = 16;

    /// Those of a token.
    #[inline]
    pub const fn of(token: &[u8]) -> Ends {
        match (token.first_chunk(), token.last_chunk()) {
            (Some(first), Some(last)) => {
                Ends { first: u64::from_le_bytes(*first), last: u64::from_le_bytes(*last) }
            }
            _ => Ends::of_short(token),
        }
    }

    /// Those of a token of fewer than eight bytes.
    #[inline]
    const fn of_short(token: &[u8]) -> Ends {
        if let (Some(first), Some(last)) = (token.first_chunk(), token.last_chunk()) {
            return Ends { first: u32::from_le_bytes(*first) as u64, last: u32::from_le_bytes(*last) as u64 };
        }
        let first = match *token {
            [] => 0,
            [one] => one as u64,
            [one, two] => one as u64 | (two as u64) << 8,
            [one, two, three, ..] => one as u64 | (two as u64) << 8 | (three as u64) << 16,
        };
        Ends { first, last: 0 }
    }

    /// The bits in which these may differ in case: those of letters.
    pub const fn case_bits(self) -> Ends {
        Ends { first: case_bits(self.first), last: case_bits(self.last) }
    }

    /// Whether these are `others`, which are in lower case, but for the bits in `ignored`.
    #[inline]
    pub fn are(self, others: Ends, ignored: Ends) -> bool {
        (self.first ^ others.first) & !ignored.first | (self.last ^ others.last) & !ignored.last == 0
    }

    /// A number that does not depend on the case.
    #[inline]
    pub const fn mix(self) -> u64 {
        (self.first | CASE).wrapping_add((self.last | CASE).rotate_left(23))
    }

    /// Overwrites a token's ends.
    #[inline]
    pub fn write(self, token: &mut [u8]) {
        if token.len() >= 8 {
            token.first_chunk_mut().into_iter().for_each(|place| *place = self.first.to_le_bytes());
            token.last_chunk_mut().into_iter().for_each(|place| *place = self.last.to_le_bytes());
        } else if token.len() >= 4 {
            token.first_chunk_mut().into_iter().for_each(|place| *place = (self.first as u32).to_le_bytes());
            token.last_chunk_mut().into_iter().for_each(|place| *place = (self.last as u32).to_le_bytes());
        } else {
            token.iter_mut().zip(self.first.to_le_bytes()).for_each(|(place, byte)| *place = byte);
        }
    }
}

/// The bit of the case in each byte that is a small letter.
const fn case_bits(word: u64) -> u64 {
    let mut bytes = word.to_le_bytes();
    let mut at = 0;
    while at < bytes.len() {
        bytes[at] = if bytes[at].is_ascii_lowercase() { CASE as u8 } else { 0 };
        at += 1;
    }
    u64::from_le_bytes(bytes)
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
            for from in [0, place / 2, place, place + 1, text.len()] {
                let expect = |odd: bool| if odd && from <= place { place } else { text.len() };
                assert_eq!(control(text, from), expect(byte < 0x20), "control {byte} at {place}");
                assert_eq!(colon(text, from), expect(byte == b':'), "colon {byte} at {place}");
                let odd = !crate::ascii::is_target_byte(byte);
                assert_eq!(target_end(text, from), expect(odd), "target {byte} at {place}");
            }
            let is_plain = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b':');
            assert_eq!(is_plain_host(text), is_plain && text.len() >= GROUP, "host {byte} at {place}");
        });
        // Bytes next to each other, where a borrow could spill.
        for first in 0..=255u8 {
            for second in 0..=255u8 {
                let text = [b'a', first, second, b'a', b'a', b'a', b'a', b'a', b'a'];
                let slow = text.iter().position(|&b| b < 0x20).unwrap_or(9);
                assert_eq!(control(&text, 0), slow, "{first} {second}");
                let slow = text.iter().position(|&b| b == b':').unwrap_or(9);
                assert_eq!(colon(&text, 0), slow, "{first} {second}");
                let slow = text.iter().position(|&b| !crate::ascii::is_target_byte(b)).unwrap_or(9);
                assert_eq!(target_end(&text, 0), slow, "{first} {second}");
            }
        }
        assert_eq!(control(b"\0aaaaaaaaaaaa", 1), 13);
        assert_eq!(control(b"aaaaaaaaaaaaaaaaaa\0aa\0", 3), 18, "the first of several");
    }

    #[test]
    fn ends_tell_short_tokens_apart_and_write_them() {
        for len in 0..=Ends::ALL {
            let token = vec![b'a'; len];
            let mut written = vec![b'?'; len];
            Ends::of(&token).write(&mut written);
            assert_eq!(written, token);
            for place in 0..len {
                let mut other = token.clone();
                other[place] = b'b';
                assert_ne!(Ends::of(&token), Ends::of(&other), "{place} of {len}");
            }
        }
    }

    #[test]
    fn only_letters_have_two_cases() {
        each_place(|text, _, byte| {
            let lower = Ends::of(text);
            let all_but = |bit: u8| -> Vec<u8> { text.iter().map(|b| b ^ bit).collect() };
            let upper = Ends::of(&all_but(0x20));
            let is_letters = text.len() <= 16 && byte.is_ascii_lowercase();
            if is_letters {
                assert!(upper.are(lower, lower.case_bits()), "{byte}");
                assert_eq!(upper.mix(), lower.mix());
            }
            assert!(!byte.is_ascii_lowercase() || !Ends::of(&all_but(0x10)).are(lower, lower.case_bits()));
            let odd = !byte.is_ascii_lowercase() && text.len() <= 16;
            assert!(!odd || !upper.are(lower, lower.case_bits()), "{byte}");
        });
    }
}
