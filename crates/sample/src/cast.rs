//! Conversions between types, applied silently between a fetch, its converters and its use.

use crate::context::Ctx;
use crate::value::{Sample, Text, Type, Value, leading_int};
use std::net::{Ipv4Addr, Ipv6Addr};

/// True when a value of type `from` can be turned into `to`, as far as can be told before seeing it.
/// `Any` can become anything: the value decides.
pub const fn possible(from: Type, to: Type) -> bool {
    use Type::{Addr, Any, Bin, Bool, Int, Ip4, Ip6, Method, Same, Str};
    matches!(
        (from, to),
        (_, Any | Same)
            | (Any | Same, _)
            | (Bool, Bool | Int | Str | Bin)
            | (Int, Bool | Int | Addr | Ip4 | Ip6 | Str | Bin)
            // An address that may be IPv6 is no number; only one known to be IPv4 is.
            | (Ip4, Addr | Ip4 | Ip6 | Int | Str | Bin)
            | (Addr | Ip6, Addr | Ip4 | Ip6 | Str | Bin)
            | (Str, _)
            | (Bin, Str | Bin | Method)
            | (Method, Method | Str | Bin)
    )
}

/// The IPv4 address inside an IPv6 address that maps, embeds or is compatible with one.
pub fn v6_to_v4(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let o = ip.octets();
    let tail = Ipv4Addr::new(o[12], o[13], o[14], o[15]);
    let zeroes = |n: usize| o[..n].iter().all(|b| *b == 0);
    match () {
        // ::ffff:a.b.c.d and ::a.b.c.d
        () if zeroes(10) && (o[10..12] == [0xff, 0xff] || o[10..12] == [0, 0]) => Some(tail),
        // ::ffff:0:a.b.c.d
        () if zeroes(8) && o[8..12] == [0xff, 0xff, 0, 0] => Some(tail),
        // 6to4: 2002:aabb:ccdd::
        () if o[..2] == [0x20, 0x02] => Some(Ipv4Addr::new(o[2], o[3], o[4], o[5])),
        () => None,
    }
}

impl Sample {
    /// Turns the sample into `to`, writing text to the scratch memory when there is new text. False when this
    /// value cannot be: there is no sample any more then.
    #[inline]
    pub fn cast(&mut self, to: Type, cx: &mut Ctx) -> bool {
        let value = match (self.value, to) {
            (_, Type::Any | Type::Same)
            | (Value::Bool(_), Type::Bool)
            | (Value::Int(_), Type::Int)
            | (Value::Ip4(_), Type::Ip4 | Type::Addr)
            | (Value::Ip6(_), Type::Ip6 | Type::Addr)
            | (Value::Str(_), Type::Str)
            | (Value::Bin(_), Type::Bin)
            | (Value::Method(_), Type::Method) => return true,
            (value, to) => cast_value(value, to, cx),
        };
        match value {
            Some(value) => {
                self.value = value;
                true
            }
            None => false,
        }
    }
}

fn cast_value(value: Value, to: Type, cx: &mut Ctx) -> Option<Value> {
    Some(match (value, to) {
        (Value::Bool(b), Type::Int) => Value::Int(i64::from(b)),
        (Value::Bool(b), Type::Str) => Value::Str(Text::Static(if b { b"1" } else { b"0" })),
        (Value::Bool(b), Type::Bin) => return cast_value(Value::Int(i64::from(b)), Type::Bin, cx),
        (Value::Int(i), Type::Bool) => Value::Bool(i != 0),
        (Value::Int(i), Type::Addr | Type::Ip4) => Value::Ip4(Ipv4Addr::from_bits(i as u32)),
        (Value::Int(i), Type::Ip6) => Value::Ip6(Ipv4Addr::from_bits(i as u32).to_ipv6_mapped()),
        (Value::Int(i), Type::Str) => Value::Str(cx.write(|out| out.int(i))?),
        (Value::Int(i), Type::Bin) => Value::Bin(cx.store(&i.to_be_bytes())?),
        (Value::Ip4(ip), Type::Bool) => Value::Bool(ip.to_bits() != 0),
        (Value::Ip4(ip), Type::Int) => Value::Int(i64::from(ip.to_bits())),
        (Value::Ip4(ip), Type::Ip6) => Value::Ip6(ip.to_ipv6_mapped()),
        (Value::Ip4(ip), Type::Bin) => Value::Bin(cx.store(&ip.octets())?),
        (Value::Ip4(ip), Type::Str) => Value::Str(cx.write(|out| write_ip(out, format_args!("{ip}")))?),
        (Value::Ip6(ip), Type::Ip4) => Value::Ip4(v6_to_v4(ip)?),
        (Value::Ip6(ip), Type::Bin) => Value::Bin(cx.store(&ip.octets())?),
        (Value::Ip6(ip), Type::Str) => Value::Str(cx.write(|out| write_ip6(out, ip))?),
        // An empty text is no number; one that does not start with a number counts as 0.
        (Value::Str(t), Type::Bool | Type::Int) if t.is_empty() => return None,
        (Value::Str(t), Type::Bool) => Value::Bool(leading_int(cx.text(t)).0 != 0),
        (Value::Str(t), Type::Int) => Value::Int(leading_int(cx.text(t)).0),
        (Value::Str(t), Type::Addr) => {
            let text = cx.text(t);
            match leading_ip4(text) {
                Some(ip) => Value::Ip4(ip),
                None => Value::Ip6(parse_ip6(text)?),
            }
        }
        (Value::Str(t), Type::Ip4) => Value::Ip4(leading_ip4(cx.text(t))?),
        (Value::Str(t), Type::Ip6) => Value::Ip6(parse_ip6(cx.text(t))?),
        (Value::Str(t), Type::Bin) => Value::Bin(t),
        (Value::Str(t) | Value::Bin(t), Type::Method) => Value::Method(t),
        // Text ends at the first NUL byte, as it does for every user of strings.
        (Value::Bin(t), Type::Str) => {
            let len = memchr::memchr(0, cx.text(t)).unwrap_or(t.len());
            Value::Str(t.slice(0, len))
        }
        (Value::Method(t), Type::Str) => Value::Str(t),
        (Value::Method(t), Type::Bin) => Value::Bin(t),
        _ => return None,
    })
}

fn write_ip(out: &mut crate::context::Out, text: std::fmt::Arguments) -> bool {
    std::fmt::Write::write_fmt(out, text).is_ok()
}

/// Writes an IPv6 address as the C library does: like RFC 5952, but with a dotted tail for every address that begins with
/// 96 zero bits and not with 112 of them, which are written as zeros: `::0.1.0.0` and `::2`.
pub fn write_ip6(out: &mut crate::context::Out, ip: Ipv6Addr) -> bool {
    let s = ip.segments();
    if s[..6] == [0; 6] && s[6] != 0 {
        let o = ip.octets();
        return write_ip(out, format_args!("::{}.{}.{}.{}", o[12], o[13], o[14], o[15]));
    }
    write_ip(out, format_args!("{ip}"))
}

/// Reads the dotted IPv4 address that `text` starts with: four decimal bytes. Leading zeroes are allowed, and
/// so is anything but a digit or a dot or a colon after it.
pub fn leading_ip4(text: &[u8]) -> Option<Ipv4Addr> {
    let mut octets = [0u8; 4];
    let mut at = 0;
    for (i, octet) in octets.iter_mut().enumerate() {
        let mut value: u32 = 0;
        let start = at;
        while let Some(digit) = text.get(at).copied().filter(u8::is_ascii_digit) {
            value = value * 10 + u32::from(digit - b'0');
            if value > 255 {
                return None;
            }
            at += 1;
        }
        if at == start {
            return None;
        }
        *octet = value as u8;
        if i < 3 {
            if text.get(at) != Some(&b'.') {
                return None;
            }
            at += 1;
        }
    }
    match text.get(at) {
        Some(b'.' | b':') => None,
        _ => Some(Ipv4Addr::from(octets)),
    }
}

/// Reads a dotted IPv4 address, the whole of `text`.
pub fn parse_ip4(text: &[u8]) -> Option<Ipv4Addr> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Reads an IPv6 address, the whole of `text`.
pub fn parse_ip6(text: &[u8]) -> Option<Ipv6Addr> {
    if text.len() > 45 {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{Clock, Scratch};
    use crate::facts::{ListenerId, ProxyId, Session};
    use crate::testing::FakeWorld;

    #[test]
    fn every_pair_of_types_is_possible_or_not() {
        // Rows: from; columns: bool, int, addr, ip4, ip6, str, bin, meth.
        let to =
            [Type::Bool, Type::Int, Type::Addr, Type::Ip4, Type::Ip6, Type::Str, Type::Bin, Type::Method];
        for (from, expected) in [
            (Type::Bool, "YY...YY."),
            (Type::Int, "YYYYYYY."),
            (Type::Ip4, ".YYYYYY."),
            (Type::Ip6, "..YYYYY."),
            (Type::Str, "YYYYYYYY"),
            (Type::Bin, ".....YYY"),
            (Type::Method, ".....YYY"),
        ] {
            let row: String = to.iter().map(|t| if possible(from, *t) { 'Y' } else { '.' }).collect();
            assert_eq!(row, expected, "{from:?}");
        }
    }

    #[test]
    fn values_are_converted() {
        let world = FakeWorld::default();
        let mut session = Session::new(ProxyId(0), ListenerId(0));
        let mut scratch = Scratch::default();
        let mut cx = Ctx::new(Clock::default(), &world, &mut session, &mut scratch);
        let str = |t: &'static str| Value::Str(Text::Static(t.as_bytes()));
        let bin = |t: &'static [u8]| Value::Bin(Text::Static(t));
        let mut check = |from: Value, to: Type, expected: Option<&str>| {
            let mut sample = Sample::new(from);
            let done = sample.cast(to, &mut cx) && sample.cast(Type::Str, &mut cx);
            let text = done.then(|| String::from_utf8_lossy(cx.bytes(&sample.value)).into_owned());
            assert_eq!(text.as_deref(), expected, "{from:?} to {to:?}");
        };
        check(Value::Bool(true), Type::Int, Some("1"));
        check(Value::Int(-7), Type::Bool, Some("1"));
        check(Value::Int(0x0102_0304), Type::Addr, Some("1.2.3.4"));
        check(Value::Int(-1), Type::Ip4, Some("255.255.255.255"));
        check(str("12ab"), Type::Int, Some("12"));
        check(str("true"), Type::Bool, Some("0"));
        check(str("1.2.3.4x"), Type::Addr, Some("1.2.3.4"));
        check(str("01.02.03.04"), Type::Addr, Some("1.2.3.4"));
        check(str("127.1"), Type::Addr, None);
        check(str("256.1.1.1"), Type::Addr, None);
        check(str(" 1.2.3.4"), Type::Addr, None);
        check(str("::1:80"), Type::Addr, Some("::0.1.0.128"));
        check(str("::1"), Type::Ip6, Some("::1"));
        check(str("::2"), Type::Ip6, Some("::2"));
        check(str("::1:0"), Type::Ip6, Some("::0.1.0.0"));
        check(str("::ffff:1.2.3.4"), Type::Ip6, Some("::ffff:1.2.3.4"));
        check(bin(b"AB\0C"), Type::Str, Some("AB"));
        check(Value::Ip6("::ffff:1.2.3.4".parse().unwrap()), Type::Ip4, Some("1.2.3.4"));
        check(Value::Ip6("2001:db8::1".parse().unwrap()), Type::Ip4, None);
        check(Value::Ip4("1.2.3.4".parse().unwrap()), Type::Ip6, Some("::ffff:1.2.3.4"));
        check(bin(b"AB"), Type::Int, None);
    }
}
