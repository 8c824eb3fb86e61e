//! Raw packet headers, as `fc_saved_syn` gives them: Ethernet, IPv4, IPv6 and TCP.

use super::ConverterDef;
use super::shape::{entry, to_bin, to_int, to_part};
use crate::args::{ArgKind, ArgSpec, Args};
use crate::context::{Ctx, Out};
use crate::value::{Sample, Type, Value};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

const BIN_BIN: (Type, Type) = (Type::Bin, Type::Bin);
const BIN_INT: (Type, Type) = (Type::Bin, Type::Int);
const BIN_ADDR: (Type, Type) = (Type::Bin, Type::Addr);
const NONE: ArgSpec = ArgSpec::NONE;

/// The converters of this family.
pub static PACKET: &[ConverterDef] = &[
    entry(
        "eth.data",
        BIN_BIN,
        NONE,
        None,
        |_, s, c| part(s, c, |p| Some(eth(p)?.1..p.len())),
        "What follows the Ethernet header and its VLAN tags.",
    ),
    entry(
        "eth.dst",
        BIN_BIN,
        NONE,
        None,
        |_, s, c| part(s, c, |p| (p.len() >= 6).then_some(0..6)),
        "The destination of an Ethernet frame.",
    ),
    entry(
        "eth.hdr",
        BIN_BIN,
        NONE,
        None,
        |_, s, c| part(s, c, |p| Some(0..eth(p)?.1)),
        "The Ethernet header with its VLAN tags.",
    ),
    entry(
        "eth.proto",
        BIN_INT,
        NONE,
        None,
        |_, s, c| to_int(s, c, |p| Some(eth(p)?.0.into())),
        "The protocol inside an Ethernet frame.",
    ),
    entry(
        "eth.src",
        BIN_BIN,
        NONE,
        None,
        |_, s, c| part(s, c, |p| (p.len() >= 12).then_some(6..12)),
        "The source of an Ethernet frame.",
    ),
    entry(
        "eth.vlan",
        BIN_INT,
        NONE,
        None,
        |_, s, c| to_int(s, c, |p| Some(eth(p)?.2?.into())),
        "The last VLAN of an Ethernet frame.",
    ),
    entry(
        "ip.data",
        BIN_BIN,
        NONE,
        None,
        |_, s, c| part(s, c, |p| Some(ip(p)?.1..p.len())),
        "What follows the IP header, its options and extensions.",
    ),
    entry(
        "ip.df",
        BIN_INT,
        NONE,
        None,
        |_, s, c| to_int(s, c, ip_df),
        "1 when the packet must not be fragmented.",
    ),
    entry("ip.dst", BIN_ADDR, NONE, None, |_, s, c| address(s, c, 1), "The destination of an IP packet."),
    entry(
        "ip.fp",
        BIN_BIN,
        ArgSpec::new(0, &[ArgKind::Int]),
        None,
        fingerprint,
        "A fingerprint of the IP and TCP headers.",
    ),
    entry(
        "ip.hdr",
        BIN_BIN,
        NONE,
        None,
        |_, s, c| part(s, c, |p| Some(0..ip(p)?.1)),
        "The IP header with its options and extensions.",
    ),
    entry(
        "ip.proto",
        BIN_INT,
        NONE,
        None,
        |_, s, c| to_int(s, c, ip_proto),
        "The protocol inside an IP packet.",
    ),
    entry("ip.src", BIN_ADDR, NONE, None, |_, s, c| address(s, c, 0), "The source of an IP packet."),
    entry(
        "ip.tos",
        BIN_INT,
        NONE,
        None,
        |_, s, c| to_int(s, c, |p| Some(ip_tos(p)?.into())),
        "The type of service or traffic class.",
    ),
    entry(
        "ip.ttl",
        BIN_INT,
        NONE,
        None,
        |_, s, c| to_int(s, c, |p| Some(ip_ttl(p)?.into())),
        "The time to live or hop limit.",
    ),
    entry(
        "ip.ver",
        BIN_INT,
        NONE,
        None,
        |_, s, c| to_int(s, c, |p| Some((p.first()? >> 4).into())),
        "The version of IP.",
    ),
    entry(
        "tcp.dst",
        BIN_INT,
        NONE,
        None,
        |_, s, c| to_int(s, c, |p| Some(tcp(p)?.u16(2).into())),
        "The destination port.",
    ),
    entry(
        "tcp.flags",
        BIN_INT,
        NONE,
        None,
        |_, s, c| to_int(s, c, |p| Some(tcp(p)?.0[13].into())),
        "The flags of a TCP segment.",
    ),
    entry(
        "tcp.options.mss",
        BIN_INT,
        NONE,
        None,
        |_, s, c| to_int(s, c, |p| tcp_option(p, 2, |v| int(v, 2))),
        "The maximum segment size, or 0.",
    ),
    entry(
        "tcp.options.sack",
        BIN_INT,
        NONE,
        None,
        |_, s, c| to_int(s, c, |p| tcp_option(p, 4, |_| 1)),
        "1 when selective acknowledgements are permitted.",
    ),
    entry(
        "tcp.options.tsopt",
        BIN_INT,
        NONE,
        None,
        |_, s, c| to_int(s, c, |p| tcp_option(p, 8, |_| 1)),
        "1 when there is a timestamp.",
    ),
    entry(
        "tcp.options.tsval",
        BIN_INT,
        NONE,
        None,
        |_, s, c| to_int(s, c, |p| tcp_option(p, 8, |v| int(v, 4))),
        "The timestamp, or 0.",
    ),
    entry(
        "tcp.options.wscale",
        BIN_INT,
        NONE,
        None,
        |_, s, c| to_int(s, c, |p| tcp_option(p, 3, |v| int(v, 1))),
        "The window scale, or 0.",
    ),
    entry(
        "tcp.options.wsopt",
        BIN_INT,
        NONE,
        None,
        |_, s, c| to_int(s, c, |p| tcp_option(p, 3, |_| 1)),
        "1 when there is a window scale.",
    ),
    entry(
        "tcp.options_list",
        BIN_BIN,
        NONE,
        None,
        |_, s, c| to_bin(s, c, option_list),
        "The kinds of the TCP options.",
    ),
    entry(
        "tcp.seq",
        BIN_INT,
        NONE,
        None,
        |_, s, c| to_int(s, c, |p| Some(int(&tcp(p)?.0[4..], 4))),
        "The sequence number.",
    ),
    entry(
        "tcp.src",
        BIN_INT,
        NONE,
        None,
        |_, s, c| to_int(s, c, |p| Some(tcp(p)?.u16(0).into())),
        "The source port.",
    ),
    entry(
        "tcp.win",
        BIN_INT,
        NONE,
        None,
        |_, s, c| to_int(s, c, |p| Some(tcp(p)?.u16(14).into())),
        "The window.",
    ),
];

/// Keeps a part of the sample, which becomes a blob.
fn part(sample: &mut Sample, cx: &mut Ctx, map: impl FnOnce(&[u8]) -> Option<Range<usize>>) -> bool {
    let done = to_part(sample, cx, map);
    if let Some(text) = sample.value.text() {
        sample.value = Value::Bin(text);
    }
    done
}

/// A big-endian integer at the start of `bytes`; what is not there counts as 0.
fn int(bytes: &[u8], len: usize) -> i64 {
    (0..len).fold(0, |value, i| value << 8 | i64::from(bytes.get(i).copied().unwrap_or(0)))
}

const VLAN: u16 = 0x8100;

/// The protocol of a frame, where its data starts, and its last VLAN. There must be some data.
fn eth(frame: &[u8]) -> Option<(u16, usize, Option<u16>)> {
    let mut at = 12;
    let mut vlan = None;
    loop {
        let bytes = frame.get(at..at + 2)?;
        let proto = u16::from_be_bytes([bytes[0], bytes[1]]);
        if proto != VLAN {
            return (frame.len() > at + 2).then_some((proto, at + 2, vlan));
        }
        let tag = frame.get(at + 2..at + 4)?;
        vlan = Some(u16::from_be_bytes([tag[0], tag[1]]) & 0xfff);
        at += 4;
    }
}

const IP4_HEADER: usize = 20;
const IP6_HEADER: usize = 40;
const TCP: u8 = 6;

/// The protocol inside a packet and where it starts.
fn ip(packet: &[u8]) -> Option<(u8, usize)> {
    match packet.first()? >> 4 {
        4 => {
            let len = usize::from(packet[0] & 15) * 4;
            (packet.len() >= IP4_HEADER && packet.len() >= len).then(|| (packet[9], len))
        }
        6 => {
            let mut proto = *packet.get(6)?;
            let mut at = IP6_HEADER;
            while is_extension(proto) {
                let header = packet.get(at..at + 2)?;
                proto = header[0];
                at += (usize::from(header[1]) + 1) * 8;
            }
            (proto != NO_NEXT_HEADER && proto != ESP && packet.len() >= at).then_some((proto, at))
        }
        _ => None,
    }
}

const ESP: u8 = 50;
const NO_NEXT_HEADER: u8 = 59;

/// Extensions of IPv6 whose second byte is a length: options, routing, fragment, authentication, mobility...
fn is_extension(proto: u8) -> bool {
    matches!(proto, 0 | 43 | 44 | 51 | 60 | 135 | 139 | 140 | 253 | 254)
}

fn ip_proto(packet: &[u8]) -> Option<i64> {
    match packet.first()? >> 4 {
        4 => packet.get(9).map(|proto| i64::from(*proto)),
        _ => ip(packet).map(|(proto, _)| i64::from(proto)),
    }
}

fn ip_df(packet: &[u8]) -> Option<i64> {
    match packet.first()? >> 4 {
        4 => packet.get(6).map(|b| i64::from(b >> 6 & 1)),
        6 => Some(1),
        _ => None,
    }
}

fn ip_tos(packet: &[u8]) -> Option<u8> {
    match packet.first()? >> 4 {
        4 => packet.get(1).copied(),
        6 => Some(packet[0] << 4 | packet.get(1)? >> 4),
        _ => None,
    }
}

fn ip_ttl(packet: &[u8]) -> Option<u8> {
    match packet.first()? >> 4 {
        4 if packet.len() >= IP4_HEADER => Some(packet[8]),
        6 if packet.len() >= IP6_HEADER => Some(packet[7]),
        _ => None,
    }
}

/// The source (0) or destination (1) of a packet.
fn ip_address(packet: &[u8], which: usize) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => {
            let bytes = packet.get(..IP4_HEADER)?[12 + 4 * which..].first_chunk::<4>()?;
            Some(Ipv4Addr::from(*bytes).into())
        }
        6 => {
            let bytes = packet.get(..IP6_HEADER)?[8 + 16 * which..].first_chunk::<16>()?;
            Some(Ipv6Addr::from(*bytes).into())
        }
        _ => None,
    }
}

fn address(sample: &mut Sample, cx: &mut Ctx, which: usize) -> bool {
    let Some(text) = sample.value.text() else { return false };
    let Some(ip) = ip_address(cx.text(text), which) else { return false };
    sample.value = ip.into();
    true
}

const TCP_HEADER: usize = 20;

/// A segment with at least the fixed part of its header.
struct Segment<'s>(&'s [u8]);

fn tcp(segment: &[u8]) -> Option<Segment<'_>> {
    (segment.len() >= TCP_HEADER).then_some(Segment(segment))
}

impl<'s> Segment<'s> {
    fn u16(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.0[at], self.0[at + 1]])
    }

    /// The length of the header, when all of it is there.
    fn header_len(&self) -> Option<usize> {
        let len = usize::from(self.0[12] >> 4) * 4;
        (len >= TCP_HEADER && len <= self.0.len()).then_some(len)
    }

    /// The options in order: kind, whether its length makes sense, and the bytes from its value to the end of
    /// the options. The first one that makes no sense is the last.
    fn options(&self) -> Option<impl Iterator<Item = (u8, bool, &'s [u8])> + use<'s>> {
        let mut rest = &self.0[TCP_HEADER..self.header_len()?];
        Some(std::iter::from_fn(move || {
            let (&kind, after) = rest.split_first()?;
            match kind {
                0 => None,
                1 => {
                    rest = after;
                    Some((kind, true, after))
                }
                _ => {
                    let len = after.first().map_or(0, |len| usize::from(*len));
                    let good = len >= 2 && len <= rest.len();
                    let value = after.get(1..).unwrap_or_default();
                    rest = if good { &rest[len..] } else { &[] };
                    Some((kind, good, value))
                }
            }
        }))
    }
}

/// What `map` makes of the first option of a kind, or 0.
fn tcp_option(segment: &[u8], wanted: u8, map: impl FnOnce(&[u8]) -> i64) -> Option<i64> {
    let mut options = tcp(segment)?.options()?;
    Some(options.find(|(kind, good, _)| *good && *kind == wanted).map_or(0, |(.., value)| map(value)))
}

fn option_list(segment: &[u8], out: &mut Out) -> bool {
    let Some(mut options) = tcp(segment).and_then(|segment| segment.options()) else { return false };
    options.all(|(kind, ..)| out.push(kind))
}

fn fingerprint(args: &Args, sample: &mut Sample, cx: &mut Ctx) -> bool {
    let mode = args.int(0).unwrap_or(0);
    to_bin(sample, cx, |packet, out| write_fingerprint(packet, mode, out).is_some())
}

/// Writes the eight bytes of the manual, and what `mode` adds to them.
fn write_fingerprint(packet: &[u8], mode: i64, out: &mut Out) -> Option<()> {
    let (proto, at) = ip(packet)?;
    if proto != TCP {
        return None;
    }
    let v6 = packet[0] >> 4 == 6;
    let segment = tcp(&packet[at..])?;
    let header_len = segment.header_len()?;
    let ttl = ip_ttl(packet)?;
    let announced =
        if v6 { IP6_HEADER + int(&packet[4..], 2) as usize } else { int(&packet[2..], 2) as usize };
    let (mut mss, mut scale, mut kinds) = (0, 0, 0u8);
    for (kind, good, value) in segment.options()? {
        if !good {
            break;
        }
        match kind {
            2 => mss = int(value, 2),
            3 => scale = (int(value, 1) + 1).min(15),
            _ => {}
        }
        match kind {
            0 | 1 => {}
            2..=8 => kinds |= 1 << (kind - 2),
            _ => kinds |= 0x80,
        }
    }
    let flag = |on: bool, bit: u32| u8::from(on) << bit;
    let ttl_class = match ttl {
        0..=32 => 0,
        33..=64 => 1,
        65..=128 => 2,
        _ => 3,
    };
    let flags = segment.0[13];
    let second = flag(v6, 7)
        | flag(ip_df(packet)? == 1, 6)
        | ttl_class << 4
        | flag(at > if v6 { IP6_HEADER } else { IP4_HEADER }, 3)
        | flag(announced > at + header_len, 2)
        | flags >> 6 & 3;
    let third = segment.0[12] & 0xf0 | scale as u8;
    let [_, _, mss_high, mss_low] = (mss as u32).to_be_bytes();
    let done =
        out.extend(&[ip_tos(packet)?, second, third, segment.0[14], segment.0[15], mss_high, mss_low, kinds])
            && (mode & 1 == 0 || out.push(ttl))
            && (mode & 2 == 0
                || segment.options()?.filter(|(_, good, _)| *good).all(|(kind, ..)| out.push(kind)))
            && (mode & 4 == 0
                || match ip_address(packet, 0)? {
                    IpAddr::V4(ip) => out.extend(&ip.octets()),
                    IpAddr::V6(ip) => out.extend(&ip.octets()),
                });
    done.then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: &[u8] = b"\x30\x39\0\x50\xde\xad\xbe\xef\0\0\0\0\xa0\x02\xfa\xf0\0\0\0\0\
        \x02\x04\x05\xb4\x04\x02\x08\x0a\0\0\0\x01\0\0\0\x02\x01\x03\x03\x07";
    const IP4: &[u8] = b"\x45\x10\0\x3c\x12\x34\x40\0\x40\x06\0\0\x0a\0\0\x01\xc0\xa8\x01\x02";

    fn packet() -> Vec<u8> {
        [IP4, SEGMENT].concat()
    }

    fn print(packet: &[u8], mode: i64) -> Option<String> {
        let mut memory = [0; 64];
        let mut out = Out::new(&mut memory);
        write_fingerprint(packet, mode, &mut out)?;
        Some(out.as_slice().iter().map(|b| format!("{b:02X}")).collect())
    }

    #[test]
    fn frames() {
        let frame =
            |tags: &[u8]| [b"\x01\x02\x03\x04\x05\x06\x0a\x0b\x0c\x0d\x0e\x0f", tags, b"\x08\0x"].concat();
        assert_eq!(eth(&frame(b"")), Some((0x800, 14, None)));
        assert_eq!(eth(&frame(b"\x81\0\x01\x23")), Some((0x800, 18, Some(0x123))));
        assert_eq!(eth(&frame(b"\x81\0\0\x01\x81\0\0\x02")), Some((0x800, 22, Some(2))));
        assert_eq!(eth(&frame(b"")[..14]), None);
        assert_eq!(eth(&frame(b"\x81\0\x01\x23")[..17]), None);
        assert_eq!(eth(b""), None);
    }

    #[test]
    fn segments() {
        let option = |kind, len| tcp_option(SEGMENT, kind, |value| int(value, len));
        assert_eq!(option(2, 2), Some(1460));
        assert_eq!(option(3, 1), Some(7));
        assert_eq!(option(8, 4), Some(1));
        assert_eq!(option(9, 4), Some(0));
        assert_eq!(tcp_option(&SEGMENT[..30], 2, |_| 1), None);
        assert_eq!(tcp_option(&SEGMENT[..19], 2, |_| 1), None);
        let mut memory = [0; 64];
        let mut out = Out::new(&mut memory);
        assert!(option_list(SEGMENT, &mut out));
        assert_eq!(out.as_slice(), b"\x02\x04\x08\x01\x03");
    }

    #[test]
    fn packets() {
        assert_eq!(ip(&packet()), Some((6, 20)));
        assert_eq!(ip(&packet()[..19]), None);
        assert_eq!(ip_proto(&packet()[..19]), Some(6));
        assert_eq!(ip_df(&packet()), Some(1));
        assert_eq!(ip_tos(&packet()), Some(16));
        assert_eq!(ip_ttl(&packet()), Some(64));
        assert_eq!(ip_address(&packet(), 1), Some(Ipv4Addr::new(192, 168, 1, 2).into()));
        assert_eq!(ip(b"\x60"), None);
        assert_eq!(ip(b""), None);
    }

    #[test]
    fn fingerprints() {
        assert_eq!(print(&packet(), 0).as_deref(), Some("1050A8FAF005B447"));
        assert_eq!(print(&packet(), 7).as_deref(), Some("1050A8FAF005B4474002040801030A000001"));
        assert_eq!(print(&packet()[..45], 0), None);
        let mut data = packet();
        data[3] += 5;
        data.extend_from_slice(b"hello");
        assert_eq!(print(&data, 0).as_deref(), Some("1054A8FAF005B447"));
        let mut udp = packet();
        udp[9] = 17;
        assert_eq!(print(&udp, 0), None);
    }
}
