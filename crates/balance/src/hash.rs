//! From the bytes of a key to the 32 bits that choose a server.
//!
//! The functions are those `hash-type` names (manual section 4.2). They must give exactly the numbers the
//! reference gives, or a client that moves from one to the other loses its server, its cache and its session.

use std::net::IpAddr;

/// The function applied to the bytes of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum HashFunction {
    /// The hash of the sdbm database library; the default.
    #[default]
    Sdbm,
    /// Dan Bernstein's hash, in its "multiply by 33 and add" form.
    Djb2,
    /// A byte-wise mixing of two rotating words.
    Wt6,
    /// The CRC-32 of Ethernet, gzip and PNG.
    Crc32,
    /// No function: the key is text and is read as a decimal integer.
    None,
}

impl HashFunction {
    /// Finds the function by the word used in the configuration.
    pub fn from_name(name: &str) -> Option<HashFunction> {
        Some(match name {
            "sdbm" => HashFunction::Sdbm,
            "djb2" => HashFunction::Djb2,
            "wt6" => HashFunction::Wt6,
            "crc32" => HashFunction::Crc32,
            "none" => HashFunction::None,
            _ => return None,
        })
    }

    /// Hashes `bytes`, without the avalanche step.
    pub fn hash(self, bytes: &[u8]) -> u32 {
        match self {
            HashFunction::Sdbm => sdbm(bytes),
            HashFunction::Djb2 => djb2(bytes),
            HashFunction::Wt6 => wt6(bytes),
            HashFunction::Crc32 => crc32(bytes),
            HashFunction::None => leading_integer(bytes),
        }
    }
}

/// How keys become hashes in one backend: a function, and whether its result is mixed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct KeyHash {
    pub function: HashFunction,
    /// The `avalanche` modifier; implied by `hash-type consistent` when no function is named.
    pub avalanche: bool,
}

impl KeyHash {
    /// The hash of a text or binary key.
    pub fn bytes(self, key: &[u8]) -> u32 {
        self.finish(self.function.hash(key))
    }

    /// The hash of a source address, as `balance source` uses it.
    ///
    /// An IPv4 address is its own hash, as a number in host order: the function is not applied, the avalanche
    /// is. The four words of an IPv6 address are combined by exclusive or.
    pub fn address(self, address: IpAddr) -> u32 {
        let raw = match address {
            IpAddr::V4(v4) => u32::from(v4),
            IpAddr::V6(v6) => v6
                .octets()
                .chunks_exact(4)
                .fold(0, |acc, w| acc ^ u32::from_be_bytes([w[0], w[1], w[2], w[3]])),
        };
        self.finish(raw)
    }

    fn finish(self, hash: u32) -> u32 {
        if self.avalanche { avalanche(hash) } else { hash }
    }
}

/// Hash of the sdbm database library: `h = byte + h * 65599`.
pub fn sdbm(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0u32, |h, &b| h.wrapping_mul(65599).wrapping_add(b.into()))
}

/// Dan Bernstein's `h = h * 33 + byte`, from 5381.
pub fn djb2(bytes: &[u8]) -> u32 {
    bytes.iter().fold(5381u32, |h, &b| h.wrapping_mul(33).wrapping_add(b.into()))
}

/// Two words that each byte disturbs, then rotate by amounts that depend on themselves.
pub fn wt6(bytes: &[u8]) -> u32 {
    let mut left = 0xa53c_965a_u32;
    let mut right = 0x5ca6_953a_u32;
    let (mut turn_left, mut turn_right) = (6, 18);
    for &byte in bytes {
        let mixed_left = !(left ^ u32::from(byte));
        let mixed_right = !right.wrapping_add(byte.into());
        left = mixed_right.rotate_left(turn_left);
        right = mixed_left.rotate_left(turn_right);
        let turns = ((left >> 16) ^ right) & 0xffff;
        turn_left = turns & 0x1f;
        turn_right = turns >> 11;
    }
    left ^ right
}

/// The CRC-32 of Ethernet (polynomial 0xedb88320 reflected).
pub fn crc32(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = crc32_table();
    !bytes.iter().fold(!0u32, |crc, &b| TABLE[usize::from((crc as u8) ^ b)] ^ (crc >> 8))
}

const fn crc32_table() -> [u32; 256] {
    let mut table = [0u32; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
}

/// Spreads the entropy of every bit of `a` over the whole word.
///
/// The first six steps are one of Bob Jenkins' public-domain integer hashes; the last, an odd multiplier with
/// two high bits, only touches the two top bits of the result.
pub fn avalanche(a: u32) -> u32 {
    let a = a.wrapping_add(0x7ed5_5d16).wrapping_add(a << 12);
    let a = (a ^ 0xc761_c23c) ^ (a >> 19);
    let a = a.wrapping_add(0x1656_67b1).wrapping_add(a << 5);
    let a = a.wrapping_add(0xd3a2_646c) ^ (a << 9);
    let a = a.wrapping_add(0xfd70_46c5).wrapping_add(a << 3);
    let a = (a ^ 0xb55a_4f09) ^ (a >> 16);
    a.wrapping_mul(0xc000_0001)
}

/// The decimal integer a text starts with, as the C library reads it: 0 when it starts with something else, the nearest
/// 64-bit number when it is larger, of which the low half counts.
fn leading_integer(bytes: &[u8]) -> u32 {
    let bytes = bytes.trim_ascii_start();
    let (negative, digits) = match bytes {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let digits = digits.iter().take_while(|b| b.is_ascii_digit()).map(|b| i64::from(b - b'0'));
    // Counted downwards, where there is one number more.
    let below = digits.fold(0i64, |n, digit| n.saturating_mul(10).saturating_sub(digit));
    let value = if negative { below } else { below.checked_neg().unwrap_or(i64::MAX) };
    value as u32
}

/// What part of the URI `balance uri` hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UriKey {
    /// Keep at most this many bytes; `None` keeps all.
    pub len: Option<usize>,
    /// Keep at most this many directory levels, one per slash; `None` keeps all.
    pub depth: Option<usize>,
    /// Keep the query string.
    pub whole: bool,
    /// Start at the first slash of the path, dropping a scheme and authority.
    pub path_only: bool,
}

impl UriKey {
    /// The bytes of `uri` to hash. With `path_only`, the caller passes the path and query only.
    pub fn select<'u>(&self, uri: &'u [u8]) -> &'u [u8] {
        let mut end = uri.len().min(self.len.unwrap_or(usize::MAX));
        let mut slashes = 0;
        for (i, &b) in uri[..end].iter().enumerate() {
            if b == b'/' {
                slashes += 1;
                if self.depth.is_some_and(|depth| slashes > depth) {
                    end = i;
                    break;
                }
            } else if b == b'?' && !self.whole {
                end = i;
                break;
            }
        }
        &uri[..end]
    }
}

/// The part of a host name that `balance hdr(host) use_domain_only` hashes: the label before the last dot.
///
/// `www.example.com` gives `example`, as does `example.com:80`. A dot at the very start does not count, and without
/// another one all of the value is hashed, a port included. Two dots in a row are one.
pub fn domain_only(host: &[u8]) -> &[u8] {
    let is_dot = |b: &u8| *b == b'.';
    let Some(last) = host.iter().skip(1).rposition(is_dot).map(|at| at + 1) else { return host };
    let start = host[..last - 1].iter().rposition(is_dot).map_or(0, |at| at + 1);
    &host[start..last]
}

/// How a hash designates a server (`hash-type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum HashMethod {
    /// A table with one slot per unit of weight.
    #[default]
    MapBased,
    /// A circle where each server has many points.
    Consistent,
}

/// From what the points of a server on the circle are computed (`hash-key`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKey {
    /// The numeric identifier.
    Id,
    /// All 32 bits of the identifier.
    Id32,
    /// A number derived from the server's guid or address.
    Seed(u32),
}

impl NodeKey {
    /// `hash-key guid`.
    pub fn guid(guid: &[u8]) -> NodeKey {
        NodeKey::Seed(xxhash_rust::xxh32::xxh32(guid, 0))
    }

    /// `hash-key addr`, or with a port `hash-key addr-port`.
    ///
    /// The four words of an IPv6 address are combined by exclusive or.
    pub fn address(address: IpAddr, port: Option<u16>) -> NodeKey {
        // The reference hashes addresses as they are in memory on little-endian machines.
        let number = KeyHash::default().address(address).swap_bytes();
        NodeKey::Seed(avalanche(number.wrapping_add(port.map_or(0, |port| avalanche(port.into())))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_match_the_reference() {
        // Columns: key, sdbm, sdbm+avalanche, djb2, wt6, crc32; printed by the reference's converters.
        for (key, s, sa, d, w, c) in [
            ("a", 97, 1830748055, 177670, 1900802597, 3904355907),
            ("b", 98, 3356184089, 177671, 1900540901, 1908338681),
            ("ab", 6363201, 3352188731, 5863208, 314091001, 2659403885),
            ("10.0.0.1", 2328198470, 1884530463, 2449759777, 2819036262, 654229907),
            ("/url1", 4103199409, 2561722472, 194222904, 2463210733, 380733385),
        ] {
            let b = key.as_bytes();
            assert_eq!(sdbm(b), s, "sdbm {key}");
            assert_eq!(avalanche(sdbm(b)), sa, "avalanche {key}");
            assert_eq!(djb2(b), d, "djb2 {key}");
            assert_eq!(wt6(b), w, "wt6 {key}");
            assert_eq!(crc32(b), c, "crc32 {key}");
        }
    }

    #[test]
    fn an_integer_key_is_read_from_its_text() {
        for (text, want) in [
            ("12", 12),
            ("127.0.0.1", 127),
            ("", 0),
            ("x", 0),
            ("-1", u32::MAX),
            ("4294967296", 0),
            (" 7", 7),
            ("99999999999999999999", u32::MAX),
        ] {
            assert_eq!(HashFunction::None.hash(text.as_bytes()), want, "{text}");
        }
    }

    #[test]
    fn an_ipv4_source_is_its_own_hash() {
        let plain = KeyHash { function: HashFunction::Djb2, avalanche: false };
        assert_eq!(plain.address("127.0.0.1".parse().unwrap()), 0x7f00_0001);
        let mixed = KeyHash { function: HashFunction::Djb2, avalanche: true };
        assert_eq!(mixed.address("127.0.0.1".parse().unwrap()), avalanche(0x7f00_0001));
    }

    #[test]
    fn uri_parts() {
        let all = UriKey::default();
        assert_eq!(all.select(b"/a/b?c=d"), b"/a/b");
        assert_eq!(UriKey { whole: true, ..all }.select(b"/a/b?c=d"), b"/a/b?c=d");
        assert_eq!(UriKey { len: Some(3), ..all }.select(b"/a/b?c=d"), b"/a/");
        assert_eq!(UriKey { depth: Some(1), ..all }.select(b"/a/b?c=d"), b"/a");
        assert_eq!(UriKey { depth: Some(2), ..all }.select(b"/a/b/c"), b"/a/b");
    }

    #[test]
    fn domain_parts() {
        for (host, want) in [
            ("www.example.com", "example"),
            ("example.com:80", "example"),
            ("localhost", "localhost"),
            ("localhost:80", "localhost:80"),
            ("a.b.c.d", "c"),
            ("a.b.c:8.0", "c:8"),
            (".com", ".com"),
            (".a.b", "a"),
            ("a..b", "a."),
            ("..", "."),
            ("...", "."),
            ("", ""),
        ] {
            assert_eq!(domain_only(host.as_bytes()), want.as_bytes(), "{host}");
        }
    }
}
