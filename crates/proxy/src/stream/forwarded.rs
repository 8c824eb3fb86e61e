//! What tells the server who is asking: `option forwardfor`, `option originalto`, `option forwarded`, fields of a PROXY header.

use std::fmt::Write as _;
use std::net::IpAddr;

use thalweg_config::model::{ForwardFor, ForwardedField, ForwardedHeader, Proxy, ProxyHeader, Server};
use thalweg_http::Head;
use thalweg_sample::Type;
use thalweg_sample::facts::Endpoint;
use thalweg_sample::logformat::make_unique_id;

use super::Stream;
use crate::backend::introduction::{self, HeaderField};

/// Adds what the options of frontend and backend ask for. False when the head has no room left.
#[inline]
pub fn apply(http: &mut Stream<'_>, fe: &Proxy, be: &Proxy) -> bool {
    let adds = |proxy: &Proxy| proxy.forwardfor.is_some() || proxy.originalto.is_some();
    if !adds(fe) && !adds(be) && be.forwarded.is_none() {
        return true;
    }
    let mut ok = true;
    let source = http.state.facts.src.unwrap_or_else(|| http.session.facts().source());
    let destination = http.state.facts.dst.unwrap_or_else(|| http.session.facts().destination());
    if let Some(option) = be.forwarded.as_deref() {
        ok &= add_forwarded(http, option, source, destination);
    }
    ok &= add_addresses(
        &mut http.state.request,
        fe.forwardfor.as_deref(),
        be.forwardfor.as_deref(),
        source.ip(),
    );
    ok &= add_addresses(
        &mut http.state.request,
        fe.originalto.as_deref(),
        be.originalto.as_deref(),
        destination.ip(),
    );
    ok
}

/// The backend's option decides about the name. What either side excepts has no header, and `if-none` counts only when no side
/// asks for the header in any case.
fn add_addresses(
    request: &mut Head,
    fe: Option<&ForwardFor>,
    be: Option<&ForwardFor>,
    address: Option<IpAddr>,
) -> bool {
    let Some(option) = be.or(fe) else { return true };
    let both = || [fe, be].into_iter().flatten();
    let excepted = |address: IpAddr| both().any(|o| o.except.is_some_and(|net| net.contains(address)));
    let if_none = both().all(|o| o.if_none);
    let Some(address) = address.filter(|address| !excepted(*address)) else { return true };
    add_address(request, option, if_none, address)
}

fn add_address(request: &mut Head, option: &ForwardFor, if_none: bool, address: IpAddr) -> bool {
    if if_none && request.find(&option.header).is_some() {
        return true;
    }
    let mut text = TextBuffer { bytes: [0; 48], len: 0 };
    // An address fits in the buffer.
    let _ = write!(text, "{address}");
    request.push(&option.header, text.as_bytes()).is_ok()
}

/// RFC 7239 section 4. A value that cannot be determined is left out.
fn add_forwarded(
    http: &mut Stream<'_>,
    option: &ForwardedHeader,
    source: Endpoint,
    destination: Endpoint,
) -> bool {
    let mut value = String::new();
    let mut add = |name: &str, text: &str| {
        if !value.is_empty() {
            value.push(';');
        }
        // A host is always quoted: it nearly always has a colon or a bracket.
        let plain = name != "host"
            && !text.is_empty()
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b));
        // Anything that is not a token goes between quotes; quotes and backslashes in it are escaped.
        let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
        let _ = if plain { write!(value, "{name}={text}") } else { write!(value, "{name}=\"{escaped}\"") };
    };
    if option.proto {
        let is_encrypted = http.session.facts().rare().tls.is_some();
        add("proto", if is_encrypted { "https" } else { "http" });
    }
    if let Some(field) = &option.host {
        let host = match field {
            ForwardedField::Own => http
                .state
                .request
                .value(thalweg_http::HeaderId::Host)
                .map(|v| String::from_utf8_lossy(v).into_owned()),
            ForwardedField::Expr(expr) => evaluate(http, expr),
        };
        if let Some(host) = host {
            add("host", &host);
        }
    }
    for (name, node, port, endpoint) in
        [("by", &option.by, &option.by_port, destination), ("for", &option.for_, &option.for_port, source)]
    {
        if node.is_none() && port.is_none() {
            continue;
        }
        let mut text = match node {
            Some(ForwardedField::Own) => match endpoint.ip() {
                Some(IpAddr::V6(ip)) => format!("[{ip}]"),
                Some(IpAddr::V4(ip)) => ip.to_string(),
                None => "unknown".to_owned(),
            },
            Some(ForwardedField::Expr(expr)) => match evaluate(http, expr) {
                Some(text) if text.parse::<std::net::Ipv6Addr>().is_ok() => format!("[{text}]"),
                Some(text) => obfuscated_node(text),
                None => "unknown".to_owned(),
            },
            None => "unknown".to_owned(),
        };
        let port = match port {
            Some(ForwardedField::Own) => endpoint.port().map(|p| p.to_string()),
            Some(ForwardedField::Expr(expr)) => evaluate(http, expr).map(obfuscated_port),
            None => None,
        };
        if let Some(port) = port {
            text.push(':');
            text.push_str(&port);
        }
        add(name, &text);
    }
    value.is_empty() || http.state.request.push(b"forwarded", value.as_bytes()).is_ok()
}

fn evaluate(http: &mut Stream<'_>, expr: &thalweg_sample::Expr) -> Option<String> {
    http.evaluate(true, |cx, _| {
        let sample = expr.eval_as(Type::Str, cx)?;
        Some(String::from_utf8_lossy(cx.bytes(&sample.value)).into_owned())
    })
}

/// RFC 7239 section 6.3: what is no address is a name made up by the sender, and begins with an underscore.
fn obfuscated_node(text: String) -> String {
    let address =
        text.parse::<IpAddr>().is_ok() || text.eq_ignore_ascii_case("unknown") || text.starts_with('_');
    if address { text } else { format!("_{text}") }
}

/// As [`obfuscated_node`], for ports.
fn obfuscated_port(text: String) -> String {
    if text.parse::<u16>().is_ok() || text.starts_with('_') { text } else { format!("_{text}") }
}

/// Room for an address as text.
struct TextBuffer {
    bytes: [u8; 48],
    len: usize,
}

impl TextBuffer {
    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl std::fmt::Write for TextBuffer {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.len + text.len();
        self.bytes.get_mut(self.len..end).ok_or(std::fmt::Error)?.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

impl Stream<'_> {
    /// What the PROXY header to a server carries besides.
    #[inline]
    pub fn header_fields(&mut self, server: &Server) -> Vec<HeaderField> {
        let ProxyHeader::V2(options) = &server.send_proxy else { return Vec::new() };
        if options.unique_id {
            // A stream of bytes has no identifier before somebody asks for it.
            self.evaluate(true, |cx, _| make_unique_id(cx));
        }
        let fields = &server.rare().proxy_fields;
        if fields.is_empty() {
            return Vec::new();
        }
        self.evaluate(true, |cx, _| introduction::fields(fields, cx))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use thalweg_config::model::Net;

    fn head(fields: &[(&str, &str)]) -> Head {
        let mut head = Head::new();
        head.start_request(b"GET", b"/", thalweg_http::Version::HTTP_11).expect("room");
        for (name, value) in fields {
            head.push(name.as_bytes(), value.as_bytes()).expect("room");
        }
        head
    }

    #[test]
    fn forwardfor_adds_excepts_and_respects_if_none() {
        let check = |except: Option<(&str, u8)>,
                     if_none: bool,
                     given: Option<&str>,
                     address: &str,
                     expected: &[&str]| {
            let option = ForwardFor {
                header: Arc::from(b"x-forwarded-for".as_slice()),
                except: except.map(|(a, bits)| Net { addr: a.parse().expect("address"), bits }),
                if_none,
            };
            let mut request = head(&given.map(|v| ("X-Forwarded-For", v)).into_iter().collect::<Vec<_>>());
            assert!(add_addresses(&mut request, None, Some(&option), address.parse().ok()));
            let got: Vec<String> = request
                .find_all(b"x-forwarded-for")
                .map(|f| String::from_utf8_lossy(f.value).into_owned())
                .collect();
            assert_eq!(got, expected);
        };
        check(None, false, None, "192.0.2.1", &["192.0.2.1"]);
        check(None, false, Some("a"), "2001:db8::1", &["a", "2001:db8::1"]);
        check(None, true, Some("a"), "192.0.2.1", &["a"]);
        check(Some(("192.0.2.0", 24)), false, None, "192.0.2.1", &[]);
        check(Some(("192.0.2.0", 24)), false, None, "192.0.3.1", &["192.0.3.1"]);
        check(Some(("2001:db8::", 32)), false, None, "2001:db8::1", &[]);
    }

    #[test]
    fn what_either_side_excepts_is_excepted() {
        let option = |name: &str, except: &str| ForwardFor {
            header: Arc::from(name.as_bytes()),
            except: except.parse().ok().map(|addr| Net { addr, bits: 24 }),
            if_none: false,
        };
        for (fe, be, expected) in [
            (option("x-fe", ""), option("x-be", ""), 1),
            (option("x-fe", "192.0.2.0"), option("x-be", ""), 0),
            (option("x-fe", ""), option("x-be", "192.0.2.0"), 0),
            (option("x-fe", "192.0.2.0"), option("x-be", "198.51.100.0"), 0),
        ] {
            let mut request = head(&[]);
            assert!(add_addresses(&mut request, Some(&fe), Some(&be), "192.0.2.1".parse().ok()));
            assert_eq!(request.find_all(b"x-be").count(), expected);
            assert_eq!(request.find_all(b"x-fe").count(), 0);
        }
    }
}
