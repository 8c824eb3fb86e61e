//! What the text of a pattern means for each matching method.

use super::{Method, Regex};
use crate::cast::{parse_ip4, parse_ip6};
use crate::expr::{parse_int, parse_mask4};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use thalweg_syntax::carry::carry;

/// An inclusive range of integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The least value.
    pub min: i64,
    /// The greatest value.
    pub max: i64,
}

/// A set of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Net {
    /// The IPv4 addresses that equal `addr` under `mask`, which need not be a prefix.
    V4 {
        /// The address, masked.
        addr: u32,
        /// The mask.
        mask: u32,
    },
    /// The IPv6 addresses that share the first `bits` bits.
    V6 {
        /// The address, masked.
        addr: u128,
        /// The length of the prefix.
        bits: u8,
    },
}

/// Reads a number or a range: `5`, `-5`, `5:9`, `5-9`, `5:`, `:9`, `:-9`.
///
/// A range that ends begins with a number that is not negative: to the reference `-5:9` is no range, and `-5` is all numbers
/// up to 5. Here `-5` is the number, and `-5:`, which operators make of it, all numbers from there on.
///
/// # Errors
/// The text of the problem.
pub fn range(text: &str) -> Result<Range, String> {
    let bad_range = || format!("'{text}' is not a valid number range");
    let number = |t: &str| t.parse::<i64>().ok().filter(|_| !t.starts_with('+'));
    // A dash separates too, but not before the first digit.
    let separator = text.char_indices().find(|(at, c)| *c == ':' || *c == '-' && *at > 0).map(|(at, _)| at);
    let Some(at) = separator else {
        let value = number(text).ok_or_else(|| format!("'{text}' is not a number"))?;
        return Ok(Range { min: value, max: value });
    };
    let (min, max) = (&text[..at], &text[at + 1..]);
    let open = min.is_empty() || max.is_empty();
    if min.is_empty() && max.is_empty() || !open && (min.starts_with('-') || max.starts_with('-')) {
        return Err(bad_range());
    }
    let min = if min.is_empty() { i64::MIN } else { number(min).ok_or_else(bad_range)? };
    let max = if max.is_empty() { i64::MAX } else { number(max).ok_or_else(bad_range)? };
    if min > max { Err(bad_range()) } else { Ok(Range { min, max }) }
}

/// Reads a version or a range of versions: `3.1`, `3.1:3.3`, `3.1-3.3`, `3.1:`, `:3.3`, as `major << 16 | minor`.
///
/// # Errors
/// The text of the problem.
pub fn version_range(text: &str) -> Result<Range, String> {
    let one = |t: &str| -> Option<i64> {
        let (major, minor) = t.split_once('.').unwrap_or((t, "0"));
        let part = |p: &str| parse_int(p.as_bytes()).filter(|n| (0..=65535).contains(n));
        Some(part(major)? << 16 | part(minor)?)
    };
    let bad = || format!("'{text}' is neither a number nor a supported operator");
    match text.split_once([':', '-']) {
        None => one(text).map(|v| Range { min: v, max: v }).ok_or_else(bad),
        Some((min, max)) => {
            let min = if min.is_empty() { i64::MIN } else { one(min).ok_or_else(bad)? };
            let max = if max.is_empty() { i64::MAX } else { one(max).ok_or_else(bad)? };
            if min > max {
                Err(format!("'{text}' is not a valid number range"))
            } else {
                Ok(Range { min, max })
            }
        }
    }
}

/// Reads an IPv4 address that may be abbreviated as `10.12` (10.0.0.12) or `127.1`.
fn short_ip4(text: &str) -> Option<Ipv4Addr> {
    if let Some(ip) = parse_ip4(text.as_bytes()) {
        return Some(ip);
    }
    let mut parts = text.split('.');
    let mut octets = [0u8; 4];
    let mut n = 0;
    let mut values = [0u32; 4];
    for part in parts.by_ref() {
        if n == 4 {
            return None;
        }
        if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        values[n] = u32::try_from(parse_int(part.as_bytes())?).ok()?;
        n += 1;
    }
    // The last part fills the remaining bytes.
    let (last, head) = values[..n].split_last()?;
    for (octet, value) in octets.iter_mut().zip(head) {
        *octet = u8::try_from(*value).ok()?;
    }
    let room = 4 - head.len();
    if room < 4 && *last >> (8 * room) != 0 {
        return None;
    }
    let tail = last.to_be_bytes();
    octets[head.len()..].copy_from_slice(&tail[4 - room..]);
    Some(Ipv4Addr::from(octets))
}

/// Reads an address with an optional `/mask`.
///
/// # Errors
/// The text of the problem.
pub fn net(text: &str) -> Result<Net, String> {
    let bad = || format!("'{text}' is not a valid IPv4 or IPv6 address");
    let (addr, mask) = match text.split_once('/') {
        Some((addr, mask)) => (addr, Some(mask)),
        None => (text, None),
    };
    if let Some(ip) = short_ip4(addr) {
        let mask = match mask {
            None => u32::MAX,
            Some(mask) => parse_mask4(mask.as_bytes()).ok_or_else(bad)?.to_bits(),
        };
        return Ok(Net::V4 { addr: ip.to_bits() & mask, mask });
    }
    if let Some(ip) = parse_ip6(addr.as_bytes()) {
        let bits = match mask {
            None => 128,
            Some(mask) => parse_int(mask.as_bytes()).filter(|n| (0..=128).contains(n)).ok_or_else(bad)? as u8,
        };
        return Ok(Net::V6 { addr: ip.to_bits() & v6_mask(bits), bits });
    }
    Err(bad())
}

/// The mask of an IPv6 prefix of `bits` bits.
pub fn v6_mask(bits: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0)
}

/// The set of one address.
pub fn host(ip: IpAddr) -> Net {
    match ip {
        IpAddr::V4(ip) => Net::V4 { addr: ip.to_bits(), mask: u32::MAX },
        IpAddr::V6(ip) => Net::V6 { addr: Ipv6Addr::to_bits(ip), bits: 128 },
    }
}

/// Reads pairs of hexadecimal digits.
///
/// # Errors
/// The text of the problem.
pub fn hex(text: &str) -> Result<Vec<u8>, String> {
    let bytes = text.as_bytes();
    if !bytes.len().is_multiple_of(2) {
        return Err("an even number of hex digit is expected".into());
    }
    let digit = |b: u8| {
        char::from(b)
            .to_digit(16)
            .ok_or_else(|| format!("an hex digit is expected (found '{}')", char::from(b)))
    };
    bytes.chunks_exact(2).map(|pair| Ok((digit(pair[0])? * 16 + digit(pair[1])?) as u8)).collect()
}

/// Says what is wrong with `text` as a pattern of `method`, if anything.
///
/// # Errors
/// The text of the problem.
pub fn validate(method: Method, icase: bool, text: &[u8]) -> Result<(), String> {
    let utf8 = || std::str::from_utf8(text).map_err(|_| "the pattern is not valid text".to_string());
    match method {
        Method::Int | Method::Len => range(utf8()?).map(drop),
        Method::Version => version_range(utf8()?).map(drop),
        Method::Ip => net(utf8()?).map(drop),
        Method::Bin => hex(utf8()?).map(drop),
        Method::Reg => Regex::new(&carry(text), !icase).map(drop).map_err(|e| e.to_string()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        let check =
            |text: &str, min: i64, max: i64| assert_eq!(range(text), Ok(Range { min, max }), "{text}");
        check("5", 5, 5);
        check("-5", -5, -5);
        check("5:9", 5, 9);
        check("5:", 5, i64::MAX);
        check(":9", i64::MIN, 9);
        check("-5:", -5, i64::MAX);
        check(":-9", i64::MIN, -9);
        for (text, why) in [
            ("xx", "'xx' is not a number"),
            ("5:3", "'5:3' is not a valid number range"),
            ("-10:-1", "'-10:-1' is not a valid number range"),
            ("5.0:6", "'5.0:6' is not a valid number range"),
            (":", "':' is not a valid number range"),
        ] {
            assert_eq!(range(text), Err(why.to_string()));
        }
        assert_eq!(version_range("3.1:3.3"), Ok(Range { min: 0x30001, max: 0x30003 }));
        assert_eq!(version_range("3.1-3.3"), version_range("3.1:3.3"));
        assert_eq!(version_range("3.1-"), version_range("3.1:"));
        assert_eq!(version_range("-3.3"), version_range(":3.3"));
        assert!(["a", "3.3-3.1", "3.0-3.1:3.2", "3.99999"].iter().all(|text| version_range(text).is_err()));
    }

    #[test]
    fn addresses() {
        let check = |text: &str, expected: &str| {
            let Ok(Net::V4 { addr, mask }) = net(text) else { panic!("{text}") };
            assert_eq!(
                format!("{}/{}", Ipv4Addr::from_bits(addr), Ipv4Addr::from_bits(mask)),
                expected,
                "{text}"
            );
        };
        check("1.2.3.4", "1.2.3.4/255.255.255.255");
        check("10.12/8", "10.0.0.0/255.0.0.0");
        check("10.12", "10.0.0.12/255.255.255.255");
        check("127.1", "127.0.0.1/255.255.255.255");
        check("127.0.0.1/255.0.0.255", "127.0.0.1/255.0.0.255");
        check("127/8", "0.0.0.0/255.0.0.0");
        check("0/0", "0.0.0.0/0.0.0.0");
        assert_eq!(net("2001:db8::1/32"), Ok(Net::V6 { addr: 0x2001_0db8 << 96, bits: 32 }));
        assert_eq!(net("::/0"), Ok(Net::V6 { addr: 0, bits: 0 }));
        for bad in ["abc", "1.2.3.4/33", "1.2.3.4.5", "256.1.1.1", "::1/129", "2001:db8::/ffff:ffff::", ""] {
            assert!(net(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn hexadecimal() {
        assert_eq!(hex("4a0F"), Ok(vec![0x4a, 0x0f]));
        assert_eq!(hex("4").unwrap_err(), "an even number of hex digit is expected");
        assert_eq!(hex("4g").unwrap_err(), "an hex digit is expected (found 'g')");
    }
}
