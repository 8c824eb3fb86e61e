//! The NetScaler client IP insertion protocol, both forms (`netscaler-client-ip-insertion-protocol.txt`).
//!
//! A magic number, lengths, and the IP and TCP headers of the client's own last packet. The older form has one length behind the
//! number, so that the first byte behind both is that of an IP header; the newer one has a type there, whose first byte is 0.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Magic number and a length.
const START_LEN: usize = 8;
/// What the newer form has behind it: a type and the length of the headers.
const TYPE_LEN: usize = 4;
const IPV4_LEN_MIN: usize = 20;
const IPV6_LEN: usize = 40;
/// The ports, which are all that is read of a TCP header.
const PORTS_LEN: usize = 4;
/// The protocol number of TCP.
const TCP: u8 = 6;

/// Outcome of [`parse`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed {
    /// More bytes are needed to decide.
    Partial,
    /// A complete header of `len` bytes, with source and destination.
    Complete { addresses: (SocketAddr, SocketAddr), len: usize },
    /// It begins with another magic number.
    BadMagic,
    /// Not TCP over IP, or headers that are longer than what is said to be there.
    Unhandled,
}

/// Reads the header at the start of `data`, which has to begin with `magic`.
pub fn parse(data: &[u8], magic: u32) -> Parsed {
    let magic = magic.to_be_bytes();
    let probe = data.len().min(magic.len());
    if data[..probe] != magic[..probe] {
        return Parsed::BadMagic;
    }
    let Some(&first) = data.get(START_LEN) else { return Parsed::Partial };
    let (headers_at, headers_len) = match first >> 4 {
        4 | 6 => (START_LEN, u32::from_be_bytes([data[4], data[5], data[6], data[7]])),
        0 => match data.get(START_LEN + 2..START_LEN + TYPE_LEN) {
            Some(&[high, low]) => (START_LEN + TYPE_LEN, u32::from(u16::from_be_bytes([high, low]))),
            _ => return Parsed::Partial,
        },
        _ => return Parsed::Unhandled,
    };
    let len = headers_at.saturating_add(usize::try_from(headers_len).unwrap_or(usize::MAX));
    // What cannot be told from the first byte on is told before the rest is waited for.
    if data.get(headers_at).is_some_and(|first| !matches!(first >> 4, 4 | 6)) {
        return Parsed::Unhandled;
    }
    let Some(headers) = data.get(headers_at..len) else { return Parsed::Partial };
    match addresses(headers) {
        Some(addresses) => Parsed::Complete { addresses, len },
        None => Parsed::Unhandled,
    }
}

/// Source and destination of an IP and a TCP header.
fn addresses(headers: &[u8]) -> Option<(SocketAddr, SocketAddr)> {
    let first = *headers.first()?;
    let (protocol, source, destination, ip_len): (u8, IpAddr, IpAddr, usize) = match first >> 4 {
        4 => {
            let ip = headers.first_chunk::<IPV4_LEN_MIN>()?;
            let octets = |at: usize| Ipv4Addr::new(ip[at], ip[at + 1], ip[at + 2], ip[at + 3]);
            (ip[9], octets(12).into(), octets(16).into(), usize::from(first & 0x0f) * 4)
        }
        6 => {
            let ip = headers.first_chunk::<IPV6_LEN>()?;
            let octets = |at: usize| ip[at..].first_chunk::<16>().map(|octets| Ipv6Addr::from(*octets));
            (ip[6], octets(8)?.into(), octets(24)?.into(), IPV6_LEN)
        }
        _ => return None,
    };
    let ports = headers.get(ip_len..)?.first_chunk::<PORTS_LEN>()?;
    let port = |at: usize| u16::from_be_bytes([ports[at], ports[at + 1]]);
    let is_tcp = protocol == TCP && ip_len >= IPV4_LEN_MIN;
    is_tcp.then_some((SocketAddr::new(source, port(0)), SocketAddr::new(destination, port(2))))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAGIC: u32 = 0x0bad_cafe;

    fn parsed(data: &[u8]) -> Parsed {
        parse(data, MAGIC)
    }

    /// An IPv4 header of `words` times four bytes, and the start of a TCP header.
    fn ipv4(words: u8) -> Vec<u8> {
        let mut bytes = vec![0x40 | words, 0, 0, 60, 0, 1, 0, 0, 64, TCP, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
        bytes.resize(usize::from(words) * 4, 1);
        bytes.extend_from_slice(&[0x03, 0xe8, 0, 80]);
        bytes.extend_from_slice(&[0; 16]);
        bytes
    }

    fn ipv6() -> Vec<u8> {
        let mut bytes = vec![0x60, 0, 0, 0, 0, 20, TCP, 64];
        bytes.extend_from_slice(&"2001:db8::1".parse::<Ipv6Addr>().expect("an address").octets());
        bytes.extend_from_slice(&"2001:db8::2".parse::<Ipv6Addr>().expect("an address").octets());
        bytes.extend_from_slice(&[0x03, 0xe8, 0, 80]);
        bytes.extend_from_slice(&[0; 16]);
        bytes
    }

    fn older(headers: &[u8], len: u32) -> Vec<u8> {
        [&MAGIC.to_be_bytes()[..], &len.to_be_bytes(), headers].concat()
    }

    fn newer(headers: &[u8], len: u16) -> Vec<u8> {
        let whole = u32::from(len) + 12;
        [&MAGIC.to_be_bytes()[..], &whole.to_be_bytes(), &[0, 1], &len.to_be_bytes(), headers].concat()
    }

    fn both(headers: &[u8]) -> [Vec<u8>; 2] {
        let len = u16::try_from(headers.len()).expect("a length");
        [older(headers, u32::from(len)), newer(headers, len)]
    }

    #[test]
    fn both_forms_cut_at_every_byte() {
        let pair = |a: &str, b: &str| (a.parse().expect("an address"), b.parse().expect("an address"));
        let four = pair("1.2.3.4:1000", "5.6.7.8:80");
        let six = pair("[2001:db8::1]:1000", "[2001:db8::2]:80");
        for (headers, addresses) in [(ipv4(5), four), (ipv4(15), four), (ipv6(), six)] {
            for mut header in both(&headers) {
                let len = header.len();
                for cut in 0..len {
                    assert_eq!(parsed(&header[..cut]), Parsed::Partial, "cut at {cut} of {len}");
                }
                header.extend_from_slice(b"GET");
                assert_eq!(parsed(&header), Parsed::Complete { addresses, len });
                header[0] = 1;
                assert_eq!(parsed(&header), Parsed::BadMagic);
            }
        }
    }

    #[test]
    fn what_is_no_tcp_over_ip() {
        let with = |at: usize, byte: u8| {
            let mut headers = ipv4(5);
            headers[at] = byte;
            headers
        };
        let udp6 = [&ipv6()[..6], &[17], &ipv6()[7..]].concat();
        // Another protocol, another version, an IP header that is too short, or longer than what is there.
        for headers in [with(9, 17), with(0, 0x55), with(0, 0x44), with(0, 0x4a), udp6] {
            for header in both(&headers) {
                assert_eq!(parsed(&header), Parsed::Unhandled, "{header:x?}");
            }
        }
        // Lengths that leave no room for the ports.
        for len in [0, 1, 19, 20, 23] {
            let headers = ipv4(5);
            assert_eq!(parsed(&older(&headers, len.into())), Parsed::Unhandled, "{len}");
            assert_eq!(parsed(&newer(&headers, len)), Parsed::Unhandled, "{len}");
        }
        assert_eq!(parsed(&older(&ipv4(5), u32::MAX)), Parsed::Partial, "no length overflows");
    }

    /// However a byte of a header is changed, what is taken is no longer than what is there.
    #[test]
    fn any_byte_may_be_any_other() {
        for header in [both(&ipv4(5)), both(&ipv6())].concat() {
            for at in 0..header.len() {
                for byte in 0..=u8::MAX {
                    let mut changed = header.clone();
                    changed[at] = byte;
                    if let Parsed::Complete { len, .. } = parsed(&changed) {
                        assert!(len <= changed.len());
                    }
                }
            }
        }
    }
}
