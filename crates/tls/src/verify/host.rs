//! Does a certificate belong to a host name? (RFC 6125, as the reference applies it.)

use std::net::IpAddr;

use crate::der::tag;
use crate::x509::{Certificate, name};

/// Whether `host` is named by the certificate: by a DNS name or an address among its alternative names, or, when it
/// has no DNS name, by its common name.
pub fn matches(certificate: &Certificate, host: &[u8]) -> bool {
    let host = host.strip_suffix(b".").unwrap_or(host);
    if let Some(address) = std::str::from_utf8(host).ok().and_then(|text| text.parse::<IpAddr>().ok()) {
        let named = |octets: &[u8]| {
            certificate
                .general_names()
                .iter()
                .any(|name| name.tag == tag::context(7) && name.content == octets)
        };
        let found = match address {
            IpAddr::V4(v4) => named(&v4.octets()),
            IpAddr::V6(v6) => named(&v6.octets()),
        };
        return found || certificate.dns_names().any(|name| name == host);
    }
    let mut names = certificate.dns_names().peekable();
    if names.peek().is_some() {
        return names.any(|pattern| pattern_matches(pattern, host));
    }
    name::common_name(certificate.subject()).is_some_and(|pattern| pattern_matches(pattern, host))
}

/// Whether `pattern`, a name with perhaps a `*` in its first label, stands for `host`. Case does not matter.
pub fn pattern_matches(pattern: &[u8], host: &[u8]) -> bool {
    if pattern.is_empty() || host.is_empty() || pattern.contains(&0) {
        return false;
    }
    let Some(star) = pattern.iter().position(|byte| *byte == b'*') else {
        return pattern.eq_ignore_ascii_case(host);
    };
    let Some(pattern_dot) = pattern.iter().position(|byte| *byte == b'.') else { return false };
    let Some(host_dot) = host.iter().position(|byte| *byte == b'.') else { return false };
    let (pattern_rest, host_rest) = (&pattern[pattern_dot..], &host[host_dot..]);
    // One star, in the first label, above at least two labels, and never inside of a punycode label.
    let well_formed = star < pattern_dot
        && !pattern[star + 1..].contains(&b'*')
        && pattern_rest[1..].contains(&b'.')
        && (pattern_dot == 1 || !host[..host_dot].to_ascii_lowercase().starts_with(b"xn--"));
    if !well_formed || !pattern_rest.eq_ignore_ascii_case(host_rest) {
        return false;
    }
    let (before, after) = (&pattern[..star], &pattern[star + 1..pattern_dot]);
    let label = &host[..host_dot];
    // The star stands for something.
    label.len() > before.len() + after.len()
        && label[..before.len()].eq_ignore_ascii_case(before)
        && label[label.len() - after.len()..].eq_ignore_ascii_case(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, host, expected) in [
            ("a.example.com", "A.Example.com", true),
            ("*.example.com", "a.example.com", true),
            ("*.example.com", "example.com", false),
            ("*.example.com", "a.b.example.com", false),
            ("*.example.com", ".example.com", false),
            ("f*.example.com", "foo.example.com", true),
            ("f*o.example.com", "foo.example.com", true),
            ("f*.example.com", "f.example.com", false),
            ("f*.example.com", "xn--foo.example.com", false),
            ("x*.example.com", "xn--foo.example.com", false),
            ("*.com", "example.com", false),
            ("*", "example.com", false),
            ("a.*.com", "a.example.com", false),
            ("*.*.com", "a.example.com", false),
            ("a.example.com\0.evil.com", "a.example.com\0.evil.com", false),
            ("", "", false),
        ] {
            assert_eq!(pattern_matches(pattern.as_bytes(), host.as_bytes()), expected, "{pattern} {host}");
        }
    }
}
