//! The PROXY protocol, versions 1 and 2, both ways (`proxy-protocol.txt` sections 2.1 and 2.2).
//!
//! Pure code: bytes in, addresses out. The receiver never consumes more than the header, and a header is
//! complete or an error after at most [`V1_LEN_MAX`] bytes (version 1) or the length it declares (version 2).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The longest legal version 1 line, CR LF included (section 2.1).
pub const V1_LEN_MAX: usize = 107;

/// The twelve bytes that start a version 2 header (section 2.2).
pub const V2_SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";

const V2_FIXED_LEN: usize = 16;

/// TLV types (section 2.2.x).
pub mod tlv {
    pub const ALPN: u8 = 0x01;
    pub const AUTHORITY: u8 = 0x02;
    pub const CRC32C: u8 = 0x03;
    pub const NOOP: u8 = 0x04;
    pub const UNIQUE_ID: u8 = 0x05;
    pub const SSL: u8 = 0x20;
}

/// What is in a TLV of the type [`tlv::SSL`] (section 2.2.6): flags, the result of the verification, further TLVs.
pub mod ssl {
    /// Flags and the result of the verification.
    pub const FIXED_LEN: usize = 5;

    /// Flag: the client speaks TLS.
    pub const CLIENT_SSL: u8 = 0x01;
    /// Flag: it showed a certificate on this connection.
    pub const CLIENT_CERT_CONNECTION: u8 = 0x02;
    /// Flag: it showed a certificate in this session, on this connection or on one before.
    pub const CLIENT_CERT_SESSION: u8 = 0x04;

    pub const VERSION: u8 = 0x21;
    pub const COMMON_NAME: u8 = 0x22;
    pub const CIPHER: u8 = 0x23;
    pub const SIGNATURE_ALGORITHM: u8 = 0x24;
    pub const KEY_ALGORITHM: u8 = 0x25;
}

/// What a header says about the connection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Header {
    /// Source and destination, absent for `UNKNOWN`, `LOCAL` and families that carry no IP address.
    pub addresses: Option<(SocketAddr, SocketAddr)>,
    /// Type and value of each TLV, in order.
    pub tlvs: Vec<(u8, Vec<u8>)>,
}

/// Outcome of [`parse`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parsed {
    /// More bytes are needed to decide.
    Partial,
    /// A complete header of `len` bytes.
    Complete { header: Header, len: usize },
    /// The bytes are not a PROXY header, or a broken one: the connection must be closed.
    Invalid,
    /// A header of version 1 for a protocol that there is not.
    Unhandled,
}

/// Reads the header at the start of `data`.
pub fn parse(data: &[u8]) -> Parsed {
    let probe = data.len().min(V2_SIGNATURE.len());
    if data[..probe] == V2_SIGNATURE[..probe] && !data.is_empty() {
        return if probe == V2_SIGNATURE.len() { parse_v2(data) } else { Parsed::Partial };
    }
    let probe = data.len().min(6);
    if data[..probe] == b"PROXY "[..probe] { parse_v1(data) } else { Parsed::Invalid }
}

/// Whether `data`, as far as it goes, begins as a header of some version does.
pub fn looks_like_header(data: &[u8]) -> bool {
    [&V2_SIGNATURE[..], b"PROXY "].iter().any(|start| {
        let probe = data.len().min(start.len());
        data[..probe] == start[..probe]
    })
}

fn parse_v1(data: &[u8]) -> Parsed {
    let window = &data[..data.len().min(V1_LEN_MAX)];
    let Some(end) = memchr::memchr(b'\n', window) else {
        return if data.len() >= V1_LEN_MAX { Parsed::Invalid } else { Parsed::Partial };
    };
    if end == 0 || window[end - 1] != b'\r' {
        return Parsed::Invalid;
    }
    let Ok(line) = std::str::from_utf8(&window[6..end - 1]) else { return Parsed::Invalid };
    let complete =
        |addresses| Parsed::Complete { header: Header { addresses, tlvs: Vec::new() }, len: end + 1 };
    let mut words = line.split(' ');
    let family = words.next().unwrap_or("");
    match family {
        "UNKNOWN" => return complete(None),
        "TCP4" | "TCP6" => {}
        _ => return Parsed::Unhandled,
    }
    let (Some(src), Some(dst), Some(sport), Some(dport), None) =
        (words.next(), words.next(), words.next(), words.next(), words.next())
    else {
        return Parsed::Invalid;
    };
    let ips: Option<(IpAddr, IpAddr)> = match family {
        "TCP4" => {
            src.parse::<Ipv4Addr>().ok().zip(dst.parse::<Ipv4Addr>().ok()).map(|(a, b)| (a.into(), b.into()))
        }
        "TCP6" => {
            src.parse::<Ipv6Addr>().ok().zip(dst.parse::<Ipv6Addr>().ok()).map(|(a, b)| (a.into(), b.into()))
        }
        _ => None,
    };
    match (ips, port(sport), port(dport)) {
        (Some((src, dst)), Some(sport), Some(dport)) => {
            complete(Some((SocketAddr::new(src, sport), SocketAddr::new(dst, dport))))
        }
        _ => Parsed::Invalid,
    }
}

/// A decimal port without sign or leading zero, as section 2.1 demands.
fn port(text: &str) -> Option<u16> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    (digits && (text.len() == 1 || !text.starts_with('0'))).then(|| text.parse().ok()).flatten()
}

fn parse_v2(data: &[u8]) -> Parsed {
    if data.len() < V2_FIXED_LEN {
        return Parsed::Partial;
    }
    let (version_command, family) = (data[12], data[13]);
    let body_len = usize::from(u16::from_be_bytes([data[14], data[15]]));
    if version_command >> 4 != 2 || version_command & 0x0f > 1 {
        return Parsed::Invalid;
    }
    let len = V2_FIXED_LEN + body_len;
    if data.len() < len {
        return Parsed::Partial;
    }
    let body = &data[V2_FIXED_LEN..len];
    if version_command & 0x0f == 0 {
        // LOCAL: the connection was opened by the sender itself; the addresses must be ignored.
        return Parsed::Complete { header: Header::default(), len };
    }
    let (addresses, address_len) = match family {
        0x11 | 0x12 if body.len() >= 12 => {
            let ip = |at: usize| IpAddr::from([body[at], body[at + 1], body[at + 2], body[at + 3]]);
            let port = |at: usize| u16::from_be_bytes([body[at], body[at + 1]]);
            let family_is_stream = family == 0x11;
            let pair = (SocketAddr::new(ip(0), port(8)), SocketAddr::new(ip(4), port(10)));
            (family_is_stream.then_some(pair), 12)
        }
        0x21 | 0x22 if body.len() >= 36 => {
            let ip = |at: usize| {
                let mut octets = [0; 16];
                octets.copy_from_slice(&body[at..at + 16]);
                IpAddr::from(octets)
            };
            let port = |at: usize| u16::from_be_bytes([body[at], body[at + 1]]);
            let family_is_stream = family == 0x21;
            let pair = (SocketAddr::new(ip(0), port(32)), SocketAddr::new(ip(16), port(34)));
            (family_is_stream.then_some(pair), 36)
        }
        0x11 | 0x12 | 0x21 | 0x22 => return Parsed::Invalid,
        // Unix socket addresses: two paths of 108 bytes, which say nothing about the client's network address.
        0x31 | 0x32 if body.len() >= 216 => (None, 216),
        _ => (None, body.len()),
    };
    match parse_tlvs(&data[..len], V2_FIXED_LEN + address_len) {
        Some(tlvs) => Parsed::Complete { header: Header { addresses, tlvs }, len },
        None => Parsed::Invalid,
    }
}

/// The TLVs from `at` to the end of `header`, or `None` when a length exceeds what is there or the CRC is wrong.
fn parse_tlvs(header: &[u8], mut at: usize) -> Option<Vec<(u8, Vec<u8>)>> {
    let mut tlvs = Vec::new();
    while at < header.len() {
        let [kind, high, low] = *header.get(at..at + 3)? else { return None };
        let value_at = at + 3;
        let value = header.get(value_at..value_at + usize::from(u16::from_be_bytes([high, low])))?;
        if kind == tlv::CRC32C {
            let expected = u32::from_be_bytes(value.try_into().ok()?);
            let mut crc = crc32c::crc32c(&header[..value_at]);
            crc = crc32c::crc32c_append(crc, &[0; 4]);
            if crc32c::crc32c_append(crc, &header[value_at + 4..]) != expected {
                return None;
            }
        }
        if kind != tlv::NOOP {
            tlvs.push((kind, value.to_vec()));
        }
        at = value_at + value.len();
    }
    Some(tlvs)
}

/// Appends a version 1 line; without addresses it says `UNKNOWN`.
pub fn write_v1(out: &mut Vec<u8>, addresses: Option<(SocketAddr, SocketAddr)>) {
    use std::io::Write;
    let Some((src, dst)) = addresses else {
        out.extend_from_slice(b"PROXY UNKNOWN\r\n");
        return;
    };
    let (family, src_ip, dst_ip) = match (src.ip(), dst.ip()) {
        (IpAddr::V4(a), IpAddr::V4(b)) => ("TCP4", IpAddr::V4(a), IpAddr::V4(b)),
        (a, b) => ("TCP6", IpAddr::V6(as_v6(a)), IpAddr::V6(as_v6(b))),
    };
    let written = write!(out, "PROXY {family} {src_ip} {dst_ip} {} {}\r\n", src.port(), dst.port());
    debug_assert!(written.is_ok(), "writing to a vector cannot fail");
}

/// Bytes of type and length in front of a TLV's value.
const TLV_HEADER: usize = 3;

/// Bytes of a TLV with a CRC32c.
const CRC_LEN: usize = TLV_HEADER + 4;

/// Appends a TLV, or nothing if its value is longer than its length can say.
pub fn write_tlv(out: &mut Vec<u8>, kind: u8, value: &[u8]) {
    let Ok(len) = u16::try_from(value.len()) else { return };
    out.push(kind);
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(value);
}

/// Appends a version 2 header with the given TLVs, as far as they fit into the 65,535 bytes that a header can have; without
/// addresses it is a `LOCAL` one when `local`, else of unspecified family. With `crc_at`, a CRC32c TLV in that place among the
/// others covers the whole header.
pub fn write_v2(
    out: &mut Vec<u8>,
    addresses: Option<(SocketAddr, SocketAddr)>,
    local: bool,
    tlvs: &[(u8, &[u8])],
    crc_at: Option<usize>,
) {
    let start = out.len();
    out.extend_from_slice(&V2_SIGNATURE);
    out.push(if local { 0x20 } else { 0x21 });
    match addresses {
        None => out.extend_from_slice(&[0, 0, 0]),
        Some((src, dst)) => match (src.ip(), dst.ip()) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                out.extend_from_slice(&[0x11, 0, 0]);
                out.extend_from_slice(&a.octets());
                out.extend_from_slice(&b.octets());
                out.extend_from_slice(&src.port().to_be_bytes());
                out.extend_from_slice(&dst.port().to_be_bytes());
            }
            (a, b) => {
                out.extend_from_slice(&[0x21, 0, 0]);
                out.extend_from_slice(&as_v6(a).octets());
                out.extend_from_slice(&as_v6(b).octets());
                out.extend_from_slice(&src.port().to_be_bytes());
                out.extend_from_slice(&dst.port().to_be_bytes());
            }
        },
    }
    // What does not fit is left out: a length that says less than what follows would turn the rest into a request.
    let mut room = usize::from(u16::MAX) - (out.len() - start - V2_FIXED_LEN);
    room -= crc_at.map_or(0, |_| CRC_LEN);
    let (before, behind) = tlvs.split_at(crc_at.unwrap_or(0).min(tlvs.len()));
    let mut add = |out: &mut Vec<u8>, tlvs: &[(u8, &[u8])]| {
        for (kind, value) in tlvs {
            if let Some(left) = room.checked_sub(TLV_HEADER + value.len()) {
                room = left;
                write_tlv(out, *kind, value);
            }
        }
    };
    add(out, before);
    let sum_at = crc_at.map(|_| {
        write_tlv(out, tlv::CRC32C, &[0; 4]);
        out.len() - 4
    });
    add(out, behind);
    let body_len = u16::try_from(out.len() - start - V2_FIXED_LEN).unwrap_or(u16::MAX);
    out[start + 14..start + 16].copy_from_slice(&body_len.to_be_bytes());
    if let Some(at) = sum_at {
        let sum = crc32c::crc32c(&out[start..]).to_be_bytes();
        out[at..at + 4].copy_from_slice(&sum);
    }
}

fn as_v6(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(text: &str) -> SocketAddr {
        text.parse().expect("a socket address")
    }

    fn complete(addresses: Option<(&str, &str)>, len: usize) -> Parsed {
        let addresses = addresses.map(|(a, b)| (addr(a), addr(b)));
        Parsed::Complete { header: Header { addresses, tlvs: Vec::new() }, len }
    }

    /// However much is given, what the header says of its length is true.
    #[test]
    fn what_does_not_fit_into_a_header_is_left_out() {
        let (large, whole) = (vec![b'x'; 40_000], vec![b'y'; 65_536]);
        let given: [(u8, &[u8]); 5] =
            [(0xe0, &large), (0xe1, &large), (0xe2, &whole), (0xe3, b"small"), (0xe4, b"")];
        let addresses = Some((addr("1.2.3.4:5"), addr("6.7.8.9:10")));
        for crc in [None, Some(0), Some(3)] {
            let mut out = Vec::new();
            write_v2(&mut out, addresses, false, &given, crc);
            let Parsed::Complete { header, len } = parse(&out) else { panic!("not complete") };
            assert_eq!(len, out.len());
            let kinds: Vec<u8> = header.tlvs.iter().map(|(kind, _)| *kind).filter(|k| *k >= 0xe0).collect();
            assert_eq!(kinds, [0xe0, 0xe3, 0xe4]);
        }
    }

    #[test]
    fn version_1_lines() {
        let check = |input: &[u8], expected: Parsed| assert_eq!(parse(input), expected, "{input:?}");
        check(
            b"PROXY TCP4 1.2.3.4 5.6.7.8 1000 80\r\nGET",
            complete(Some(("1.2.3.4:1000", "5.6.7.8:80")), 36),
        );
        check(
            b"PROXY TCP6 ::1 2001:db8::2 1 65535\r\n",
            complete(Some(("[::1]:1", "[2001:db8::2]:65535")), 36),
        );
        check(b"PROXY UNKNOWN\r\n", complete(None, 15));
        check(b"PROXY UNKNOWN whatever it says\r\n", complete(None, 32));
        check(b"PROXY TCP4 1.2.3.4", Parsed::Partial);
        check(b"", Parsed::Partial);
        for bad in [
            &b"GET / HTTP/1.1\r\n"[..],
            b"PROXY TCP4 1.2.3.4 5.6.7.8 1000 80\n",
            b"PROXY TCP4 1.2.3.4 5.6.7.8 01000 80\r\n",
            b"PROXY TCP4 1.2.3.4 5.6.7.8 +1 80\r\n",
            b"PROXY TCP4 1.2.3.4 5.6.7.8 1000 65536\r\n",
            b"PROXY TCP4 1.2.3.4 ::1 1000 80\r\n",
            b"PROXY TCP4  1.2.3.4 5.6.7.8 1000 80\r\n",
            b"PROXY TCP4 1.2.3.4 5.6.7.8 1000 80 \r\n",
            &[b"PROXY UNKNOWN ".as_slice(), &[b'x'; 200]].concat(),
        ] {
            check(bad, Parsed::Invalid);
        }
        for other in [&b"PROXY UDP4 1.2.3.4 5.6.7.8 1000 80\r\n"[..], b"PROXY \r\n", b"PROXY UNKNOWNX\r\n"] {
            check(other, Parsed::Unhandled);
        }
    }

    #[test]
    fn version_2_round_trip_cut_at_every_byte() {
        for (src, dst) in
            [("1.2.3.4:5", "6.7.8.9:10"), ("[::1]:5", "[2001:db8::1]:65535"), ("1.2.3.4:5", "[::2]:1")]
        {
            let mut out = Vec::new();
            write_v2(&mut out, Some((addr(src), addr(dst))), false, &[(tlv::UNIQUE_ID, b"abc")], Some(1));
            for cut in 0..out.len() {
                assert_eq!(parse(&out[..cut]), Parsed::Partial, "cut at {cut}");
            }
            let Parsed::Complete { header, len } = parse(&out) else { panic!("not complete") };
            assert_eq!(len, out.len());
            let (got_src, got_dst) = header.addresses.expect("addresses");
            assert_eq!((got_src.port(), got_dst.port()), (addr(src).port(), addr(dst).port()));
            assert_eq!(header.tlvs[0], (tlv::UNIQUE_ID, b"abc".to_vec()));
            let last = out.len() - 1;
            out[last] ^= 1;
            assert_eq!(parse(&out), Parsed::Invalid, "a wrong checksum is refused");
        }
    }

    #[test]
    fn version_2_refusals() {
        let mut out = Vec::new();
        write_v2(&mut out, Some((addr("1.2.3.4:5"), addr("6.7.8.9:10"))), false, &[], None);
        let mut short = out.clone();
        short[15] = 11;
        assert_eq!(parse(&short), Parsed::Invalid, "too short for its family");
        let mut version = out.clone();
        version[12] = 0x31;
        assert_eq!(parse(&version), Parsed::Invalid);
        let mut tlv = out.clone();
        tlv[15] = 16;
        tlv.extend_from_slice(&[1, 0, 9, 0]);
        assert_eq!(parse(&tlv), Parsed::Invalid, "a TLV longer than the header");
        let mut local = out;
        local[12] = 0x20;
        assert_eq!(parse(&local), complete(None, 28));
    }

    #[test]
    fn version_1_text() {
        let check = |addresses: Option<(&str, &str)>, expected: &str| {
            let mut out = Vec::new();
            write_v1(&mut out, addresses.map(|(a, b)| (addr(a), addr(b))));
            assert_eq!(String::from_utf8_lossy(&out), expected);
        };
        check(None, "PROXY UNKNOWN\r\n");
        check(Some(("1.2.3.4:5", "6.7.8.9:10")), "PROXY TCP4 1.2.3.4 6.7.8.9 5 10\r\n");
        check(Some(("[::1]:5", "6.7.8.9:10")), "PROXY TCP6 ::1 ::ffff:6.7.8.9 5 10\r\n");
    }
}
