//! Whether a request target goes with its method and its `Host` (RFC 9112 sections 3.2 and 3.3), and
//! the normalisation of both (RFC 3986 section 6.2.3).
//!
//! A rule that looks at `Host` and a server that looks at the target must not see two different hosts,
//! so a request in which they differ is refused. A port that the scheme implies is dropped from both, as
//! long as both agree on it.

use crate::authority::{self, Authority};
use crate::head::{Head, Span};
use crate::header_id::HeaderId;
use crate::method::{Method, Version};
use crate::semantics::{Violation, ViolationKind};
use crate::uri::{self, Form};

/// Checks the target and the `Host` of a received request, and normalises them. With `accept_unsafe`,
/// the authority of `CONNECT` and the agreement of target and `Host` are not checked.
///
/// # Errors
/// A [`Violation`] that says which rule was broken.
pub fn accept(head: &mut Head, accept_unsafe: bool) -> Result<(), Violation> {
    let method = head.method();
    // `PRI` is how HTTP/2 begins, so that an HTTP/1 parser stops at it (RFC 9113 section 3.4).
    if method == Method::Other && head.method_bytes().eq_ignore_ascii_case(b"PRI") {
        let is_preface = head.target() == b"*" && head.version() == Version::HTTP_2;
        let kind = if is_preface { ViolationKind::Preface } else { ViolationKind::BadTarget };
        return Err(Violation { kind, offset: head.target_span().off });
    }
    // Nearly every request: a path, and a `Host` that stands alone.
    if head.target().first() == Some(&b'/') && method != Method::Connect {
        return hosts(head);
    }
    let bad = Err(Violation { kind: ViolationKind::BadTarget, offset: head.target_span().off });
    let uri = uri::split(head.target());
    match uri.form {
        Form::Origin => bad,
        Form::Asterisk => {
            if !matches!(method, Method::Options | Method::Other) {
                return bad;
            }
            hosts(head)
        }
        Form::Authority => {
            if method != Method::Connect {
                return bad;
            }
            hosts(head)?;
            connect(head, accept_unsafe)
        }
        Form::Absolute => {
            if method == Method::Connect {
                return bad;
            }
            hosts(head)?;
            absolute(head, accept_unsafe)
        }
    }
}

/// Checks all `Host` fields and keeps the first one.
fn hosts(head: &mut Head) -> Result<(), Violation> {
    let Some(first) = head.get(HeaderId::Host) else { return Ok(()) };
    if !authority::is_host(first.value) {
        return Err(Violation { kind: ViolationKind::BadHost, offset: first.value_span.off });
    }
    let (mut next, host) = (first.index + 1, first.value_span);
    while let Some(again) = head.get_from(HeaderId::Host, next) {
        if !again.value.eq_ignore_ascii_case(head.bytes(host)) {
            return Err(Violation { kind: ViolationKind::ConflictingHost, offset: again.value_span.off });
        }
        next = again.index + 1;
        head.remove(next - 1);
    }
    Ok(())
}

/// `CONNECT host:port` (RFC 9112 section 3.2.3): the port is required. The target is kept as it is.
fn connect(head: &mut Head, accept_unsafe: bool) -> Result<(), Violation> {
    let target = head.target_span();
    let parts = authority::split(head.target());
    let port = parts.port.unwrap_or(b"");
    let bad = ViolationKind::BadTarget;
    if port.is_empty()
        || !port.iter().all(u8::is_ascii_digit)
        || !authority::is_host(parts.host_port)
        || head.target().contains(&b'/')
    {
        return if accept_unsafe { Ok(()) } else { Err(Violation { kind: bad, offset: target.off }) };
    }
    let implied = matches!(port, b"80" | b"443") && is_one_host(parts.host);
    let (full, bare) = (parts.host_port, parts.host);
    let Some(host) = head.get(HeaderId::Host) else { return Ok(()) };
    let (index, value) = (host.index, host.value_span);
    if host.value.eq_ignore_ascii_case(full) {
        if implied {
            let bare_len = host.value.len() - port.len() - 1;
            head.set_value_span(index, Span { off: value.off, len: bare_len as u32 });
        }
        return Ok(());
    }
    if accept_unsafe || (implied && same_host(host.value, bare)) {
        return Ok(());
    }
    Err(Violation { kind: ViolationKind::HostMismatch, offset: value.off })
}

/// Whether `host` is `bare`, or `bare` with an empty port.
fn same_host(host: &[u8], bare: &[u8]) -> bool {
    host.strip_suffix(b":").unwrap_or(host).eq_ignore_ascii_case(bare)
}

/// Whether a host has no colon but inside brackets. One that does is let through as it is: without its
/// port, what is left would read as another host and port.
fn is_one_host(host: &[u8]) -> bool {
    !host.contains(&b':')
        || (host.first() == Some(&b'[') && memchr::memchr(b']', host) == Some(host.len() - 1))
}

/// `GET scheme://authority/path` (RFC 9112 section 3.2.2).
fn absolute(head: &mut Head, accept_unsafe: bool) -> Result<(), Violation> {
    let target = head.target_span();
    let uri = uri::split(head.target());
    let Authority { host_port, host: bare, port, .. } = authority::split(uri.authority);
    if !authority::is_host(host_port) {
        // What is not understood is not rewritten.
        return if accept_unsafe {
            Ok(())
        } else {
            Err(Violation { kind: ViolationKind::BadTarget, offset: target.off })
        };
    }
    let default = authority::default_port(uri.scheme);
    let is_implied = |port: &[u8]| port.is_empty() || default == Some(port);
    // "http://host:80" and "http://host:" say no more than "http://host".
    let drops_port = is_one_host(bare) && port.is_some_and(is_implied);
    // Without a path, `OPTIONS` concerns the server as a whole (RFC 9112 section 3.2.4): a slash would
    // make it concern the root.
    let slash = uri.path_and_query.is_empty() && head.method() != Method::Options;
    let normalises = drops_port || (slash && is_one_host(bare));
    let host_start = target.off as usize + uri.scheme.len() + 3 + uri.authority.len() - host_port.len();
    let kept = if drops_port { bare } else { host_port };
    let kept = Span::new(host_start, host_start + kept.len());
    let mut replaced = None;
    if let Some(host) = head.get(HeaderId::Host) {
        let parts = authority::split(host.value);
        let same = host.value.eq_ignore_ascii_case(host_port);
        let equivalent = parts.port.is_none_or(is_implied)
            && (drops_port || port.is_none())
            && parts.host.eq_ignore_ascii_case(bare);
        if !same && !equivalent && !accept_unsafe {
            return Err(Violation { kind: ViolationKind::HostMismatch, offset: host.value_span.off });
        }
        // Once the target is rewritten, both are written alike.
        replaced = normalises.then_some((host.index, host.value_span));
    }
    let authority_end = uri.scheme.len() + 3 + uri.authority.len();
    let dropped = if drops_port { port.map_or(0, |port| port.len() + 1) } else { 0 };
    match replaced {
        Some((index, value)) if kept.len <= value.len => head.shrink_value_to(index, kept),
        // Only a host that disagrees with the target is shorter, and only relaxed does it get here.
        Some((index, _)) => {
            let host = head.bytes(kept).to_vec();
            if head.replace_value(index, &host).is_err() {
                return Err(Violation { kind: ViolationKind::HostMismatch, offset: target.off });
            }
        }
        None => {}
    }
    head.edit_target(authority_end - dropped, dropped, slash);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::method::Version;

    fn request(method: &str, target: &str, hosts: &[&str]) -> Head {
        let mut head = Head::new();
        head.start_request(method.as_bytes(), target.as_bytes(), Version::HTTP_11).unwrap();
        for host in hosts {
            head.push(b"host", host.as_bytes()).unwrap();
        }
        head
    }

    #[test]
    fn targets_and_hosts_are_normalised_together() {
        use ViolationKind::*;
        for (method, target, hosts, expected) in [
            ("GET", "/", &[][..], Ok(("/", ""))),
            ("GET", "/", &["a:80"], Ok(("/", "a:80"))),
            ("GET", "/", &["a", "A"], Ok(("/", "a"))),
            ("GET", "/", &["a", "b"], Err(ConflictingHost)),
            ("GET", "/", &["a,b"], Err(BadHost)),
            ("GET", "*", &["a"], Err(BadTarget)),
            ("OPTIONS", "*", &["a"], Ok(("*", "a"))),
            ("OPTIONS", "*/x", &["a"], Err(BadTarget)),
            ("PATCH", "*", &["a"], Ok(("*", "a"))),
            ("GET", "a", &["a"], Err(BadTarget)),
            ("GET", "a:80", &["a"], Err(BadTarget)),
            ("GET", "http://a/x", &["a"], Ok(("http://a/x", "a"))),
            ("GET", "http://a/x", &[], Ok(("http://a/x", ""))),
            ("GET", "http://u:p@a:80/x", &["a:80"], Ok(("http://u:p@a/x", "a"))),
            ("GET", "http://a:8080/x", &["a:8080"], Ok(("http://a:8080/x", "a:8080"))),
            ("GET", "http://a:8080/x", &["a"], Err(HostMismatch)),
            ("GET", "http://a/x", &["a:81"], Err(HostMismatch)),
            ("GET", "http://a/x", &["a:80"], Ok(("http://a/x", "a:80"))),
            ("GET", "https://a/x", &["a:443"], Ok(("https://a/x", "a:443"))),
            ("GET", "https://a:80/x", &["a:80"], Ok(("https://a:80/x", "a:80"))),
            ("GET", "http://a:/x", &["a"], Ok(("http://a/x", "a"))),
            ("GET", "http://a/x", &["a:"], Ok(("http://a/x", "a:"))),
            ("GET", "http://a:80/x", &["a:"], Ok(("http://a/x", "a"))),
            ("GET", "http://a:/x", &["a:80"], Ok(("http://a/x", "a"))),
            ("GET", "http://:", &[":80"], Ok(("http:///", ""))),
            ("GET", "http://A:80/", &["a:80"], Ok(("http://A/", "A"))),
            ("GET", "http://A:80/", &["a"], Ok(("http://A/", "A"))),
            ("GET", "http://a:443/", &["a"], Err(HostMismatch)),
            ("GET", "HTTPS://a:443/", &["a"], Ok(("HTTPS://a/", "a"))),
            ("GET", "http://a]b@c/", &["c"], Ok(("http://a]b@c/", "c"))),
            ("GET", "http://a::80/", &["a::80"], Ok(("http://a::80/", "a::80"))),
            ("GET", "http://a::/", &["a:"], Err(HostMismatch)),
            ("GET", "http://[::1]::/", &["[::1]::"], Ok(("http://[::1]::/", "[::1]::"))),
            ("CONNECT", "a::80", &["a::80"], Ok(("a::80", "a::80"))),
            ("OPTIONS", "http://a", &["a"], Ok(("http://a", "a"))),
            ("OPTIONS", "http://a:80", &["a"], Ok(("http://a", "a"))),
            ("PRI", "*", &[], Err(BadTarget)),
            ("pri", "/", &[], Err(BadTarget)),
            ("GET", "http://a", &["a:80"], Ok(("http://a/", "a"))),
            ("GET", "http://u@A", &["a:"], Ok(("http://u@A/", "A"))),
            ("OPTIONS", "http://A", &["a:80"], Ok(("http://A", "a:80"))),
            ("GET", "foo://a:/", &["a"], Ok(("foo://a/", "a"))),
            ("GET", "foo://a/", &["a:"], Ok(("foo://a/", "a:"))),
            ("GET", "http://a", &["a"], Ok(("http://a/", "a"))),
            ("GET", "http://a:80?c=d", &["a:80"], Ok(("http://a?c=d", "a"))),
            ("GET", "ftp://a:80/", &["a"], Err(HostMismatch)),
            ("GET", "http://a,b/", &["a,b"], Err(BadHost)),
            ("GET", "http://a,b/", &[], Err(BadTarget)),
            ("CONNECT", "a:80", &["a:80"], Ok(("a:80", "a"))),
            ("CONNECT", "a:80", &["a"], Ok(("a:80", "a"))),
            ("CONNECT", "a:80", &["a:"], Ok(("a:80", "a:"))),
            ("CONNECT", "a:8443", &["a:8443"], Ok(("a:8443", "a:8443"))),
            ("CONNECT", "a:8443", &["a"], Err(HostMismatch)),
            ("CONNECT", "a:80", &["a:443"], Err(HostMismatch)),
            ("CONNECT", "a", &["a"], Err(BadTarget)),
            ("CONNECT", "a:", &["a"], Err(BadTarget)),
            ("CONNECT", "/", &["a"], Err(BadTarget)),
            ("CONNECT", "http://a:80", &["a"], Err(BadTarget)),
            ("CONNECT", "*", &[], Err(BadTarget)),
        ] {
            let mut head = request(method, target, hosts);
            let found = accept(&mut head, false).map_err(|violation| violation.kind);
            head.check_invariants();
            let host = head.value(HeaderId::Host).unwrap_or(b"");
            let found = found
                .map(|()| (std::str::from_utf8(head.target()).unwrap(), std::str::from_utf8(host).unwrap()));
            assert_eq!(found, expected, "{method} {target} {hosts:?}");
        }
    }

    #[test]
    fn relaxed_requests_may_disagree_with_themselves() {
        for (method, target, host, expected) in [
            ("GET", "http://a/", "b", Some(("http://a/", "b"))),
            ("GET", "http://a:80", "a:80", Some(("http://a/", "a"))),
            ("GET", "http://a:80/", "b", Some(("http://a/", "a"))),
            ("GET", "http://a.example", "b", Some(("http://a.example/", "a.example"))),
            ("GET", "http://a,b:80", "b", Some(("http://a,b:80", "b"))),
            ("CONNECT", "nowhere", "a", Some(("nowhere", "a"))),
            ("CONNECT", "a:80", "a:80", Some(("a:80", "a"))),
            ("CONNECT", "/", "a", None),
            ("GET", "/", "a,b", None),
            ("GET", "*", "a", None),
        ] {
            let mut head = request(method, target, &[host]);
            let found = accept(&mut head, true).ok().map(|()| (head.target(), head.value(HeaderId::Host)));
            let expected = expected.map(|(target, host)| (target.as_bytes(), Some(host.as_bytes())));
            assert_eq!(found, expected, "{method} {target} {host}");
        }
    }
}
