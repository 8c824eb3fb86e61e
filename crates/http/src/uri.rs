//! The parts of a request target, as the reference's `path`, `pathq`, `query` and `url` see them.

use crate::Method;
use crate::ascii::is_tchar;

/// The forms of a request target (RFC 9112 section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `/path?query`.
    Origin,
    /// `scheme://authority/path?query`.
    Absolute,
    /// `host:port`, for `CONNECT`.
    Authority,
    /// `*`, for `OPTIONS`.
    Asterisk,
}

/// A request target in parts, all of them slices of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uri<'a> {
    /// Which form it has.
    pub form: Form,
    /// The scheme of an absolute form, without `://`.
    pub scheme: &'a [u8],
    /// The authority of an absolute or authority form, user information included.
    pub authority: &'a [u8],
    /// Path and query: all that follows the authority. Empty for `*`.
    pub path_and_query: &'a [u8],
}

/// Splits a target. Anything that is neither `*` nor begins with a slash or a scheme counts as an
/// authority.
pub fn split(target: &[u8]) -> Uri<'_> {
    let empty = &target[..0];
    match target {
        [b'/', ..] => Uri { form: Form::Origin, scheme: empty, authority: empty, path_and_query: target },
        [b'*'] => Uri { form: Form::Asterisk, scheme: empty, authority: empty, path_and_query: empty },
        _ => match scheme_len(target) {
            Some(len) => {
                let rest = &target[len + 3..];
                let end = memchr::memchr3(b'/', b'?', b'#', rest).unwrap_or(rest.len());
                Uri {
                    form: Form::Absolute,
                    scheme: &target[..len],
                    authority: &rest[..end],
                    path_and_query: &rest[end..],
                }
            }
            None => Uri { form: Form::Authority, scheme: empty, authority: target, path_and_query: empty },
        },
    }
}

/// The length of the scheme of `scheme://...` (RFC 3986 section 3.1), if the target has one.
fn scheme_len(target: &[u8]) -> Option<usize> {
    // Nearly all, and each of HTTP/2.
    if let Some(rest) = target.strip_prefix(b"http") {
        match rest {
            [b':', b'/', b'/', ..] => return Some(4),
            [b's', b':', b'/', b'/', ..] => return Some(5),
            _ => {}
        }
    }
    if !target.first()?.is_ascii_alphabetic() {
        return None;
    }
    let len = target.iter().position(|&b| !(b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.')))?;
    target[len..].starts_with(b"://").then_some(len)
}

/// The path, without the query.
pub fn path(target: &[u8]) -> &[u8] {
    let path_and_query = path_and_query(target);
    match memchr::memchr(b'?', path_and_query) {
        Some(at) => &path_and_query[..at],
        None => path_and_query,
    }
}

/// The path with the query and its question mark.
#[inline]
pub fn path_and_query(target: &[u8]) -> &[u8] {
    match target {
        [b'/', ..] => target,
        _ => split(target).path_and_query,
    }
}

/// What a server is asked for in place of a whole URI: the path with the query. Where there is no path that is `/`, and the server
/// as a whole for OPTIONS (RFC 9112 section 3.2.4).
pub fn origin_form(target: &[u8], method: Method) -> &[u8] {
    match path_and_query(target) {
        b"" if method == Method::Options => b"*",
        b"" => b"/",
        path => path,
    }
}

/// What follows the question mark. `None` without one.
pub fn query(target: &[u8]) -> Option<&[u8]> {
    let path_and_query = path_and_query(target);
    memchr::memchr(b'?', path_and_query).map(|at| &path_and_query[at + 1..])
}

/// The value of a parameter of the query, as received, as `balance url_param` sees it: parameters are separated by
/// `&`. The first one with the name counts, and one without an equals sign is none.
pub fn query_parameter<'a>(target: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    form_parameter(query(target)?, name)
}

/// The value of a parameter in the body of a form, as `balance url_param` sees it: what follows the equals sign up to
/// `&` or white space. A value with bytes that are neither escaped nor allowed in a name is none: the body is no form.
pub fn posted_parameter<'a>(body: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let value = form_parameter(body, name)?;
    let end = value.iter().position(|b| matches!(b, b' ' | b'\t' | b'\r' | b'\n')).unwrap_or(value.len());
    let value = &value[..end];
    value.iter().all(|b| is_tchar(*b)).then_some(value)
}

fn form_parameter<'a>(form: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    form.split(|&b| b == b'&').find_map(|parameter| parameter.strip_prefix(name)?.strip_prefix(b"="))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_split() {
        for (input, form, scheme, authority, path, query) in [
            ("/", Form::Origin, "", "", "/", None),
            ("/a?b=c", Form::Origin, "", "", "/a", Some("b=c")),
            ("/a?b?c", Form::Origin, "", "", "/a", Some("b?c")),
            ("/?", Form::Origin, "", "", "/", Some("")),
            ("//x/y", Form::Origin, "", "", "//x/y", None),
            ("*", Form::Asterisk, "", "", "", None),
            ("http://h/p?q", Form::Absolute, "http", "h", "/p", Some("q")),
            ("http://h", Form::Absolute, "http", "h", "", None),
            ("http://h?q", Form::Absolute, "http", "h", "", Some("q")),
            ("http://u:p@h:80/x", Form::Absolute, "http", "u:p@h:80", "/x", None),
            ("h+1.x://h/", Form::Absolute, "h+1.x", "h", "/", None),
            ("a:80", Form::Authority, "", "a:80", "", None),
            ("1http://h/", Form::Authority, "", "1http://h/", "", None),
            ("http:/h", Form::Authority, "", "http:/h", "", None),
            ("", Form::Authority, "", "", "", None),
        ] {
            let uri = split(input.as_bytes());
            assert_eq!(uri.form, form, "{input}");
            assert_eq!(uri.scheme, scheme.as_bytes(), "{input}");
            assert_eq!(uri.authority, authority.as_bytes(), "{input}");
            assert_eq!(super::path(input.as_bytes()), path.as_bytes(), "{input}");
            assert_eq!(super::query(input.as_bytes()), query.map(str::as_bytes), "{input}");
        }
    }

    #[test]
    fn query_parameters_are_found() {
        for (target, name, expected) in [
            ("/?a=1&b=2", "b", Some("2")),
            ("/?a=1;b=2", "b", None),
            ("/?a=1;b=2", "a", Some("1;b=2")),
            ("/?a=1?b=2", "b", None),
            ("/?a&b=2", "a", None),
            ("/?a=&b=2", "a", Some("")),
            ("/?xa=1&a=2", "a", Some("2")),
            ("/?a=1&a=2", "a", Some("1")),
            ("/?a==1", "a", Some("=1")),
            ("/a=1", "a", None),
            ("http://h?a=1", "a", Some("1")),
        ] {
            let found = query_parameter(target.as_bytes(), name.as_bytes());
            assert_eq!(found, expected.map(str::as_bytes), "{target} {name}");
        }
    }
    #[test]
    fn posted_parameters_are_found() {
        for (body, name, expected) in [
            ("a=1&b=2", "b", Some("2")),
            ("b&b=2", "b", Some("2")),
            ("a=", "a", Some("")),
            ("a=1 2", "a", Some("1")),
            ("a=1\r\n", "a", Some("1")),
            ("a=%20b", "a", Some("%20b")),
            ("x=/&a=1", "a", Some("1")),
            ("a=1/2", "a", None),
            ("a=1,2&a=3", "a", None),
            ("xa=1", "a", None),
            ("", "a", None),
        ] {
            let found = posted_parameter(body.as_bytes(), name.as_bytes());
            assert_eq!(found, expected.map(str::as_bytes), "{body} {name}");
        }
    }
}
