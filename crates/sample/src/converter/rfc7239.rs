//! The `Forwarded` header (RFC 7239): its parameters and the nodes in them.

use super::ConverterDef;
use super::shape::{entry, put_str, text_of, to_bool, to_part};
use crate::args::{ArgKind, ArgSpec, Args};
use crate::cast::parse_ip6;
use crate::context::{Ctx, Out};
use crate::value::{Sample, Type, Value};
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;

/// The converters of this family.
pub static RFC7239: &[ConverterDef] = &[
    entry(
        "rfc7239_field",
        (Type::Str, Type::Str),
        ArgSpec::new(1, &[ArgKind::Str]),
        None,
        field,
        "A parameter of a Forwarded header.",
    ),
    entry(
        "rfc7239_is_valid",
        (Type::Str, Type::Bool),
        ArgSpec::NONE,
        None,
        |_, s, c| to_bool(s, c, |i| Some(parse(i).is_some())),
        "True for a valid Forwarded header of one element.",
    ),
    entry(
        "rfc7239_n2nn",
        (Type::Str, Type::Any),
        ArgSpec::NONE,
        None,
        node_name,
        "The address or name of a node.",
    ),
    entry("rfc7239_n2np", (Type::Str, Type::Any), ArgSpec::NONE, None, node_port, "The port of a node."),
    entry(
        "rfc7239_nn",
        (Type::Any, Type::Str),
        ArgSpec::NONE,
        None,
        write_name,
        "An address or a name as a node.",
    ),
    entry(
        "rfc7239_np",
        (Type::Any, Type::Str),
        ArgSpec::NONE,
        None,
        write_port,
        "A number or a name as the port of a node.",
    ),
];

/// The parameters of one element.
#[derive(Debug, Default, PartialEq, Eq)]
struct Forwarded {
    proto: Option<Range<usize>>,
    host: Option<Range<usize>>,
    by: Option<Range<usize>>,
    for_: Option<Range<usize>>,
}

impl Forwarded {
    fn slot(&mut self, name: &[u8]) -> Option<&mut Option<Range<usize>>> {
        match name {
            b"proto" => Some(&mut self.proto),
            b"host" => Some(&mut self.host),
            b"by" => Some(&mut self.by),
            b"for" => Some(&mut self.for_),
            _ => None,
        }
    }
}

/// Reads a whole header: parameters in lower case, each once, without blanks, and nothing else.
fn parse(input: &[u8]) -> Option<Forwarded> {
    let mut found = Forwarded::default();
    let mut at = 0;
    loop {
        let equals = at + memchr::memchr(b'=', &input[at..])?;
        let name = &input[at..equals];
        let slot = found.slot(name).filter(|slot| slot.is_none())?;
        let start = equals + 1;
        let (value, next) = match name {
            b"proto" => {
                let len = [&b"https"[..], b"http"].iter().find(|s| input[start..].starts_with(s))?.len();
                (start..start + len, start + len)
            }
            _ if input.get(start) == Some(&b'"') => {
                let end = start + 1 + memchr::memchr(b'"', &input[start + 1..])?;
                (start + 1..end, end + 1)
            }
            _ => {
                let len = memchr::memchr(b';', &input[start..]).unwrap_or(input.len() - start);
                // Colons and brackets only go between quotes.
                if input[start..start + len].iter().any(|b| matches!(b, b':' | b'[' | b']')) {
                    return None;
                }
                (start..start + len, start + len)
            }
        };
        let text = &input[value.clone()];
        match name {
            b"proto" => {}
            b"host" => host(text).then_some(())?,
            _ => node(text).filter(|node| node.len == text.len()).map(|_| ())?,
        }
        *slot = Some(value);
        match input.get(next) {
            None => return Some(found),
            Some(b';') => at = next + 1,
            Some(_) => return None,
        }
    }
}

/// True for a host with an optional port.
fn host(text: &[u8]) -> bool {
    let (name, port) = match text {
        [b'[', rest @ ..] => {
            let Some(end) = memchr::memchr(b']', rest) else { return false };
            if parse_ip6(&rest[..end]).is_none() {
                return false;
            }
            (&[][..], &rest[end + 1..])
        }
        _ => text.split_at(memchr::memchr(b':', text).unwrap_or(text.len())),
    };
    let good = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-');
    let (Some(first), Some(last)) = (name.first(), name.last()) else {
        return port.is_empty() || port_digits(port);
    };
    name.iter().all(good) && *first != b'-' && *last != b'-' && (port.is_empty() || port_digits(port))
}

fn port_digits(port: &[u8]) -> bool {
    port.strip_prefix(b":").is_some_and(|digits| {
        !digits.is_empty()
            && digits.iter().all(u8::is_ascii_digit)
            && (1..=65535).contains(&crate::value::leading_int(digits).0)
    })
}

#[derive(Debug, PartialEq, Eq)]
enum Name {
    Address(IpAddr),
    /// `unknown`, or an identifier that starts with an underscore.
    Text(Range<usize>),
}

#[derive(Debug, PartialEq, Eq)]
enum Port {
    Number(u16),
    /// An identifier that starts with an underscore.
    Text(Range<usize>),
}

/// A node: an address or name, and maybe a port.
#[derive(Debug, PartialEq, Eq)]
struct Node {
    name: Name,
    port: Option<Port>,
    /// How many bytes it takes.
    len: usize,
}

/// Reads the node that `text` starts with.
fn node(text: &[u8]) -> Option<Node> {
    let (name, mut len) = match text.first()? {
        b'0'..=b'9' => {
            let (ip, len) = leading_address(text)?;
            (Name::Address(ip.into()), len)
        }
        b'[' => {
            let end = memchr::memchr(b']', text)?;
            let inner = &text[1..end];
            let hex = |b: &u8| b.is_ascii_hexdigit() || *b == b':';
            (Name::Address(parse_ip6(inner).filter(|_| inner.iter().all(hex))?.into()), end + 1)
        }
        b'_' => {
            let len = identifier_len(text)?;
            (Name::Text(0..len), len)
        }
        _ => {
            text.starts_with(b"unknown").then_some(())?;
            (Name::Text(0..7), 7)
        }
    };
    let mut port = None;
    if text.get(len) == Some(&b':') {
        let start = len + 1;
        let rest = &text[start..];
        if rest.first() == Some(&b'_') {
            let id = identifier_len(rest)?;
            port = Some(Port::Text(start..start + id));
            len = start + id;
        } else {
            let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
            let number =
                u16::try_from(crate::value::leading_int(&rest[..digits]).0).ok().filter(|n| *n > 0)?;
            port = Some(Port::Number(number));
            len = start + digits;
        }
    }
    Some(Node { name, port, len })
}

/// The dotted address at the start, and its length.
fn leading_address(text: &[u8]) -> Option<(Ipv4Addr, usize)> {
    let len = text.iter().take_while(|b| b.is_ascii_digit() || **b == b'.').count();
    let ip = std::str::from_utf8(&text[..len]).ok()?.parse().ok()?;
    Some((ip, len))
}

/// The length of `_` and at least one letter, digit, dot, dash or underscore.
fn identifier_len(text: &[u8]) -> Option<usize> {
    let len = 1 + text[1..].iter().take_while(|b| is_identifier(b)).count();
    (len > 1).then_some(len)
}

fn is_identifier(b: &u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_')
}

fn field(args: &Args, sample: &mut Sample, cx: &mut Ctx) -> bool {
    to_part(sample, cx, |input| parse(input)?.slot(text_of(args, 0))?.take())
}

fn node_name(_: &Args, sample: &mut Sample, cx: &mut Ctx) -> bool {
    let Some(text) = sample.value.text() else { return false };
    let Some(node) = node(cx.text(text)) else { return false };
    sample.value = match node.name {
        Name::Address(ip) => ip.into(),
        Name::Text(range) => Value::Str(text.slice(range.start, range.len())),
    };
    true
}

fn node_port(_: &Args, sample: &mut Sample, cx: &mut Ctx) -> bool {
    let Some(text) = sample.value.text() else { return false };
    let Some(port) = node(cx.text(text)).and_then(|node| node.port) else { return false };
    sample.value = match port {
        Port::Number(number) => Value::Int(number.into()),
        Port::Text(range) => Value::Str(text.slice(range.start, range.len())),
    };
    true
}

fn write_name(_: &Args, sample: &mut Sample, cx: &mut Ctx) -> bool {
    match sample.value {
        Value::Ip4(ip) => put_str(sample, cx, |out| write!(out, "{ip}").is_ok()),
        Value::Ip6(ip) => put_str(sample, cx, |out| write!(out, "[{ip}]").is_ok()),
        _ => write_identifier(sample, cx, |out| out.extend(b"unknown")),
    }
}

fn write_port(_: &Args, sample: &mut Sample, cx: &mut Ctx) -> bool {
    match sample.value {
        // Only the low 32 bits are written.
        Value::Int(port) => put_str(sample, cx, |out| out.int(i64::from(port as u32))),
        _ => write_identifier(sample, cx, |_| false),
    }
}

/// The text of the sample after an underscore, if every byte may be in an identifier.
fn write_identifier(sample: &mut Sample, cx: &mut Ctx, empty: fn(&mut Out) -> bool) -> bool {
    if !sample.cast(Type::Str, cx) {
        return false;
    }
    super::shape::to_str(sample, cx, |input, out| {
        if input.is_empty() {
            return empty(out);
        }
        input.iter().all(is_identifier) && out.push(b'_') && out.extend(input)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers() {
        let check = |input: &str, expected: Option<[Option<&str>; 4]>| {
            let got = parse(input.as_bytes());
            let got =
                got.map(|f| [f.for_, f.host, f.proto, f.by].map(|range| range.map(|range| &input[range])));
            assert_eq!(got, expected, "{input}");
        };
        check("for=127.0.0.1;proto=http", Some([Some("127.0.0.1"), None, Some("http"), None]));
        check("for=\"[::1]:80\";by=_x", Some([Some("[::1]:80"), None, None, Some("_x")]));
        check("proto=https", Some([None, None, Some("https"), None]));
        check("host=\"x:80\"", Some([None, Some("x:80"), None, None]));
        check("host=\"\"", Some([None, Some(""), None, None]));
        check("host=\":80\"", Some([None, Some(":80"), None, None]));
        check("host=a..b", Some([None, Some("a..b"), None, None]));
        check("for=\"127.0.0.1:080\"", Some([Some("127.0.0.1:080"), None, None, None]));
        check("for=\"unknown:_x\"", Some([Some("unknown:_x"), None, None, None]));
        for bad in [
            "",
            "proto=custom",
            "FOR=127.0.0.1",
            "for=127.0.0.1:9999",
            "for=[::1]",
            "host=x:80",
            "proto=\"https\"",
            "for=a;;proto=http",
            "for=127.0.0.1;",
            ";for=127.0.0.1",
            "for = 127.0.0.1",
            "for=127.0.0.1 ; proto=http",
            "for=127.0.0.1;for=127.0.0.2",
            "for=127.0.0.1, for=127.0.0.2",
            "host=\"a b\"",
            "for=\"\"",
            "for=\"127.0.0.1:99999\"",
            "for=\"127.0.0.1:\"",
            "for=\"127.0.0.1:_\"",
            "for=_",
            "for=\"_a b\"",
            "ext=1",
            "for=1.2.3",
            "for=\"::1\"",
            "for=\"[::1\"",
            "for=\"[::1]80\"",
            "for=\"127.0.0.1:0\"",
            "for=Unknown",
            "for=\"[::ffff:1.2.3.4]\"",
            "for=\"127.0.0.1",
            "host=[::1]",
            "host=a_b",
            "host=a%20",
            "for=\"_a:_b:_c\"",
            "proto=http,for=x",
            "host=-",
            "host=\"a:b\"",
            "host=\"a:99999\"",
            "host=\"a:\"",
        ] {
            check(bad, None);
        }
    }

    #[test]
    fn nodes() {
        let check = |input: &str, name: Option<&str>, port: Option<&str>| {
            let node = node(input.as_bytes());
            let show = node.map(|node| {
                let name = match node.name {
                    Name::Address(ip) => ip.to_string(),
                    Name::Text(range) => input[range].to_string(),
                };
                let port = node.port.map(|port| match port {
                    Port::Number(number) => number.to_string(),
                    Port::Text(range) => input[range].to_string(),
                });
                (name, port)
            });
            assert_eq!(show, name.map(|name| (name.to_string(), port.map(str::to_string))), "{input}");
        };
        check("127.0.0.1:9999", Some("127.0.0.1"), Some("9999"));
        check("127.0.0.1x", Some("127.0.0.1"), None);
        check("127.0.0.1:8x", Some("127.0.0.1"), Some("8"));
        check("[::1]:80", Some("::1"), Some("80"));
        check("_a:_b", Some("_a"), Some("_b"));
        check("_a b", Some("_a"), None);
        check("unknown", Some("unknown"), None);
        check("::1", None, None);
        check("_", None, None);
        check("127.0.0.1:", None, None);
        check("127.0.0.1:0", None, None);
        check("127.0.0.1:65536", None, None);
        check("x", None, None);
        check("", None, None);
    }
}
