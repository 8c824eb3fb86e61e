//! Host and port, as they appear in `Host` and in the target of a request.

/// The parts of an authority (RFC 3986 section 3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Authority<'a> {
    /// What precedes the last `@`, without it.
    pub userinfo: Option<&'a [u8]>,
    /// Host and port as written.
    pub host_port: &'a [u8],
    /// The host, with the brackets of an address if it has them.
    pub host: &'a [u8],
    /// What follows the colon after the host, possibly empty; `None` without a colon.
    pub port: Option<&'a [u8]>,
}

/// Splits an authority. It never fails; whether the parts are good is for [`is_host`] to say.
pub fn split(authority: &[u8]) -> Authority<'_> {
    let (userinfo, host_port) = match memchr::memrchr(b'@', authority) {
        Some(at) => (Some(&authority[..at]), &authority[at + 1..]),
        None => (None, authority),
    };
    // A colon inside brackets is part of an IPv6 address.
    let (host, port) = match memchr::memrchr2(b':', b']', host_port) {
        Some(at) if host_port[at] == b':' => (&host_port[..at], Some(&host_port[at + 1..])),
        _ => (host_port, None),
    };
    Authority { userinfo, host_port, host, port }
}

impl Authority<'_> {
    /// The port as a number, if it is one between 0 and 65535.
    pub fn port_number(&self) -> Option<u16> {
        let port = self.port?;
        let number = crate::semantics::parse_length(port)?;
        u16::try_from(number).ok()
    }
}

/// Whether `host_port` may be the value of `Host`: visible US-ASCII without the delimiters that end an
/// authority, without a comma, which would make it a list, and with brackets only around an address at
/// the start. An empty value is allowed (RFC 9110 section 7.2).
pub fn is_host(host_port: &[u8]) -> bool {
    let rest = match host_port {
        [b'[', inside @ ..] => match memchr::memchr(b']', inside) {
            Some(end) => {
                if !inside[..end].iter().all(|&b| is_host_byte(b)) {
                    return false;
                }
                let after = &inside[end + 1..];
                if !after.is_empty() && after[0] != b':' {
                    return false;
                }
                after
            }
            None => return false,
        },
        _ => host_port,
    };
    crate::scan::is_plain_host(rest) || rest.iter().all(|&b| is_host_byte(b))
}

/// Whether `host_port` is a host and perhaps a port as the grammar has them (RFC 3986 section 3.2.2): a name of
/// unreserved characters, sub-delimiters and percent-encoded bytes, an IPv4 address, or an address in brackets. Unlike
/// [`is_host`] it is not empty and has no user information.
pub fn is_exact_host(host_port: &[u8]) -> bool {
    let parts = split(host_port);
    let port = parts.port.is_none_or(|port| port.is_empty() || parts.port_number().is_some());
    port && parts.userinfo.is_none()
        && match parts.host {
            [] => false,
            [b'[', inside @ .., b']'] => is_address(inside),
            name => is_name(name),
        }
}

fn is_address(inside: &[u8]) -> bool {
    match inside {
        // An address of a later version says which: "v1.x".
        [b'v' | b'V', later @ ..] => match memchr::memchr(b'.', later) {
            Some(dot) => {
                let (version, address) = (&later[..dot], &later[dot + 1..]);
                !version.is_empty()
                    && version.iter().all(u8::is_ascii_hexdigit)
                    && !address.is_empty()
                    && address.iter().all(|&b| b == b':' || is_name_byte(b))
            }
            None => false,
        },
        _ => std::str::from_utf8(inside).is_ok_and(|text| text.parse::<std::net::Ipv6Addr>().is_ok()),
    }
}

fn is_name(name: &[u8]) -> bool {
    let mut at = 0;
    while let Some(&byte) = name.get(at) {
        at += match byte {
            b'%' if name.get(at + 1..at + 3).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit)) => 3,
            byte if is_name_byte(byte) => 1,
            _ => return false,
        };
    }
    true
}

/// Unreserved characters and sub-delimiters (RFC 3986 sections 2.2 and 2.3).
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&byte)
}

static HOST_BYTE: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0x21;
    while byte < 0x7f {
        table[byte] = !matches!(byte as u8, b'#' | b',' | b'/' | b'?' | b'@' | b'[' | b'\\' | b']');
        byte += 1;
    }
    table
};

fn is_host_byte(byte: u8) -> bool {
    HOST_BYTE[byte as usize]
}

/// The port that a scheme implies.
pub fn default_port(scheme: &[u8]) -> Option<&'static [u8]> {
    if scheme.eq_ignore_ascii_case(b"http") {
        Some(b"80")
    } else if scheme.eq_ignore_ascii_case(b"https") {
        Some(b"443")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_hosts() {
        for (host, expected) in [
            ("a", true),
            ("a.b_c-d~", true),
            ("1.2.3.4:80", true),
            ("a:", true),
            ("a,b", true),
            ("%61", true),
            ("[::1]", true),
            ("[::1]:8080", true),
            ("[v1.a:b]", true),
            ("", false),
            (":80", false),
            ("a:b", false),
            ("a:65536", false),
            ("a::80", false),
            ("a@b", false),
            ("a b", false),
            ("a\"b", false),
            ("%6", false),
            ("%zz", false),
            ("[::1", false),
            ("[::1]x", false),
            ("[1.2.3.4]", false),
            ("[v1]", false),
            ("\u{e9}", false),
        ] {
            assert_eq!(is_exact_host(host.as_bytes()), expected, "{host}");
        }
    }

    #[test]
    fn authorities_are_split() {
        for (input, userinfo, host, port) in [
            ("a", None, "a", None),
            ("a:80", None, "a", Some("80")),
            ("a:", None, "a", Some("")),
            ("u:p@a:80", Some("u:p"), "a", Some("80")),
            ("u@v@a", Some("u@v"), "a", None),
            ("[::1]", None, "[::1]", None),
            ("[::1]:443", None, "[::1]", Some("443")),
            ("", None, "", None),
            (":80", None, "", Some("80")),
        ] {
            let found = split(input.as_bytes());
            assert_eq!(found.userinfo, userinfo.map(str::as_bytes), "{input}");
            assert_eq!(found.host, host.as_bytes(), "{input}");
            assert_eq!(found.port, port.map(str::as_bytes), "{input}");
        }
        assert_eq!(split(b"a:8080").port_number(), Some(8080));
        assert_eq!(split(b"a:65536").port_number(), None);
        assert_eq!(split(b"a:").port_number(), None);
    }

    #[test]
    fn hosts_are_checked() {
        for (input, expected) in [
            ("", true),
            ("a", true),
            ("a:80", true),
            ("a:x", true),
            ("[::1]", true),
            ("[::1]:80", true),
            ("[]", true),
            ("[::1", false),
            ("[::1]x", false),
            ("a]", false),
            ("a[b]", false),
            ("a,b", false),
            ("a/b", false),
            ("a@b", false),
            ("a b", false),
            ("a\\b", false),
            ("a\x01", false),
            ("a\x7f", false),
            ("\u{e9}", false),
        ] {
            assert_eq!(is_host(input.as_bytes()), expected, "{input:?}");
        }
    }
}
