//! Keys: what a table is looked up by.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::sync::{AtomicU32, Ordering};

/// The longest key that a thread remembers the entry of.
const MARKED_MAX: usize = 64;

/// The kind of keys of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyType {
    /// `ip`, `ipv4`: 4 bytes in network order.
    Ip4,
    /// `ipv6`: 16 bytes.
    Ip6,
    /// `integer`: 32 bits, in network order.
    Integer,
    /// `string`: at most so many bytes.
    String(u16),
    /// `binary`: so many bytes, shorter ones padded with zeros.
    Binary(u16),
}

impl KeyType {
    /// What `show table` calls it.
    pub const fn name(self) -> &'static str {
        match self {
            KeyType::Ip4 => "ip",
            KeyType::Ip6 => "ipv6",
            KeyType::Integer => "integer",
            KeyType::String(_) => "string",
            KeyType::Binary(_) => "binary",
        }
    }

    /// The most bytes of a key.
    pub const fn len_max(self) -> usize {
        match self {
            KeyType::Ip4 | KeyType::Integer => 4,
            KeyType::Ip6 => 16,
            KeyType::String(len) | KeyType::Binary(len) => len as usize,
        }
    }

    /// Words of an entry that hold the bytes of its key.
    pub(crate) const fn content_words(self) -> usize {
        self.len_max().div_ceil(4)
    }

    /// Words of an entry that its key takes: those of its bytes, and its length where that differs.
    pub(crate) const fn words(self) -> usize {
        self.content_words() + matches!(self, KeyType::String(_)) as usize
    }

    /// The key that these bytes are: cut to the longest length, `None` when an address or number has another one.
    #[inline]
    pub fn key(self, bytes: &[u8]) -> Option<Key<'_>> {
        let bytes = match self {
            KeyType::Ip4 | KeyType::Ip6 | KeyType::Integer if bytes.len() != self.len_max() => return None,
            KeyType::String(_) => &bytes[..bytes.len().min(self.len_max())],
            KeyType::Binary(_) => {
                // Padding is not part of the key, so that a padded key is the same as one that is not.
                let cut = &bytes[..bytes.len().min(self.len_max())];
                &cut[..cut.iter().rposition(|b| *b != 0).map_or(0, |last| last + 1)]
            }
            _ => bytes,
        };
        Some(Key { bytes })
    }
}

/// A key in the form of its table: see [`KeyType::key`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key<'k> {
    bytes: &'k [u8],
}

impl<'k> Key<'k> {
    /// Its bytes; those of a binary key without the zeros at its end.
    pub const fn bytes(&self) -> &'k [u8] {
        self.bytes
    }

    /// The words of its bytes, the last one filled up with zeros.
    pub(crate) fn words(&self) -> impl Iterator<Item = u32> + use<'k> {
        self.bytes.chunks(4).map(|chunk| {
            let mut word = [0; 4];
            word[..chunk.len()].copy_from_slice(chunk);
            u32::from_ne_bytes(word)
        })
    }

    /// A word that tells short keys apart mostly, and those of four bytes always; `None` for long ones. It costs less than a
    /// hash, and may be steered: who finds the entry of another key looks for its own.
    #[inline]
    pub(crate) fn mark(&self) -> Option<u32> {
        if let Ok(four) = <[u8; 4]>::try_from(self.bytes) {
            return Some(u32::from_ne_bytes(four));
        }
        if self.bytes.len() > MARKED_MAX {
            return None;
        }
        let (eights, rest) = self.bytes.as_chunks::<8>();
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        let mix = |mark: u64, eight: &[u8; 8]| {
            (mark ^ u64::from_ne_bytes(*eight)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32)
        };
        Some(mix(eights.iter().fold(self.bytes.len() as u64, mix), &last) as u32)
    }

    /// Whether these are the words of its bytes, followed by zeros.
    #[inline]
    pub(crate) fn is_in(&self, words: &[AtomicU32]) -> bool {
        let (fours, rest) = self.bytes.as_chunks::<4>();
        let Some((whole, others)) = words.split_at_checked(fours.len()) else { return false };
        let same =
            |(word, four): (&AtomicU32, &[u8; 4])| word.load(Ordering::Acquire) == u32::from_ne_bytes(*four);
        if !whole.iter().zip(fours).all(same) {
            return false;
        }
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        let Some((first, zeros)) = others.split_first() else { return rest.is_empty() };
        same((first, &last)) && zeros.iter().all(|word| word.load(Ordering::Acquire) == 0)
    }

    /// A hash that who does not know the seed cannot steer.
    #[inline]
    pub(crate) fn hash(&self, seed: u64) -> u64 {
        match <[u8; 4]>::try_from(self.bytes) {
            // Addresses and numbers: two multiplications are enough to spread them.
            Ok(four) => {
                let x = u64::from(u32::from_ne_bytes(four)) ^ seed;
                fold(fold(x, 0x9e37_79b9_7f4a_7c15) ^ seed.rotate_left(32), 0xd6e8_feb8_6659_fd93)
            }
            Err(_) => xxhash_rust::xxh3::xxh3_64_with_seed(self.bytes, seed),
        }
    }
}

/// Both halves of a product, so that every bit of the input reaches the low ones.
fn fold(x: u64, by: u64) -> u64 {
    let product = u128::from(x) * u128::from(by);
    (product >> 64) as u64 ^ product as u64
}

/// The bytes of an IPv4 key.
pub fn ip4(ip: Ipv4Addr) -> [u8; 4] {
    ip.octets()
}

/// The bytes of an IPv6 key.
pub fn ip6(ip: Ipv6Addr) -> [u8; 16] {
    ip.octets()
}

/// The bytes of a number.
pub fn integer(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn keys_are_cut_and_padded() {
        let key = |kind: KeyType, bytes: &'static [u8]| kind.key(bytes).map(|k| k.bytes().to_vec());
        assert_eq!(key(KeyType::String(5), b"abcdefgh"), Some(b"abcde".to_vec()));
        assert_eq!(key(KeyType::Binary(4), b"ab\0\0\0\0"), Some(b"ab".to_vec()));
        assert_eq!(key(KeyType::Binary(4), b"ab"), Some(b"ab".to_vec()));
        assert_eq!(key(KeyType::Binary(4), b"\0\0"), Some(Vec::new()));
        assert_eq!(key(KeyType::Ip4, b"abc"), None);
        assert_eq!(key(KeyType::String(5), b""), Some(Vec::new()));
    }

    /// Addresses in a row must not share buckets.
    #[test]
    fn hashes_spread() {
        let mut buckets = vec![0u8; 1 << 16];
        for n in 0..1u32 << 16 {
            let hash = KeyType::Ip4.key(&integer(0x7f00_0000 + n)).map(|k| k.hash(7)).unwrap_or(0);
            buckets[hash as usize & 0xffff] += 1;
        }
        assert!(buckets.iter().all(|n| *n < 12), "{:?}", buckets.iter().max());
    }

    /// A key is in its own words and in no others, whatever is left of the last one.
    #[test]
    fn words_are_those_of_one_key() {
        let bytes: Vec<u8> = (1..30).collect();
        for len in 0..bytes.len() {
            let key = KeyType::String(64).key(&bytes[..len]).unwrap();
            let words: Vec<AtomicU32> = key.words().chain([0; 2]).map(AtomicU32::new).collect();
            assert!(key.is_in(&words), "{len}");
            assert!(key.is_in(&words[..len.div_ceil(4)]), "{len}");
            assert!(len == 0 || !key.is_in(&words[..len.div_ceil(4) - 1]), "{len}");
            for word in &words {
                let was = word.load(Ordering::Acquire);
                word.store(was ^ 0x8000_0000, Ordering::Release);
                assert!(!key.is_in(&words), "{len}");
                word.store(was, Ordering::Release);
            }
        }
    }

    #[test]
    fn marks_tell_short_keys_apart() {
        let mark = |text: &str| KeyType::String(100).key(text.as_bytes()).unwrap().mark();
        let marks = ["", "a", "b", "ab", "abc\0", "abcdefgh", "abcdefghi", "bcdefgha"].map(mark);
        for (i, one) in marks.iter().enumerate() {
            assert!(one.is_some() && !marks[..i].contains(one), "{i}");
        }
        assert_eq!(mark(&"x".repeat(65)), None);
    }
}
