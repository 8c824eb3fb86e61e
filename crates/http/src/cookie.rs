//! Cookies in `Cookie` and `Set-Cookie`, read as tolerantly as the reference reads them (RFC 6265
//! section 5, and what browsers and servers really send).

use crate::ascii::is_ows;

/// One cookie found in a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cookie<'a> {
    /// The name, without surrounding white space.
    pub name: &'a [u8],
    /// The value, without surrounding white space; quotes stay.
    pub value: &'a [u8],
    /// Offset of the name in the value of the field.
    pub name_offset: usize,
    /// Offset of the value in the value of the field.
    pub value_offset: usize,
}

/// The cookies of one `Cookie` field, separated by semicolons or commas outside quotes. A part without an
/// equals sign is not a cookie, and neither is one whose name is empty or begins with a dollar sign
/// (RFC 2965): they are passed over.
pub fn request_cookies(value: &[u8]) -> Cookies<'_> {
    Cookies { text: value, at: 0, response: false }
}

/// The cookies of one `Set-Cookie` field: what follows a semicolon is attributes, but a comma begins
/// another cookie, as in old servers' lists.
pub fn response_cookies(value: &[u8]) -> Cookies<'_> {
    Cookies { text: value, at: 0, response: true }
}

/// An iterator over cookies.
#[derive(Clone, Debug)]
pub struct Cookies<'a> {
    text: &'a [u8],
    at: usize,
    response: bool,
}

impl<'a> Iterator for Cookies<'a> {
    type Item = Cookie<'a>;

    fn next(&mut self) -> Option<Cookie<'a>> {
        while self.at < self.text.len() {
            let start = self.at;
            let rest = &self.text[start..];
            let name_end = rest.iter().position(|b| matches!(b, b'=' | b';' | b',')).unwrap_or(rest.len());
            if rest.get(name_end) != Some(&b'=') {
                self.at = start + name_end + 1;
                continue;
            }
            let value_end = name_end + 1 + end_of(&rest[name_end + 1..], |b| matches!(b, b';' | b','));
            self.at = start + value_end + 1;
            if self.response && rest.get(value_end) == Some(&b';') {
                self.at += 1 + end_of(&rest[value_end + 1..], |b| b == b',');
            }
            let (name, lead) = trim(&rest[..name_end]);
            if name.is_empty() || name[0] == b'$' {
                continue;
            }
            let (value, value_lead) = trim(&rest[name_end + 1..value_end]);
            return Some(Cookie {
                name,
                value,
                name_offset: start + lead,
                value_offset: start + name_end + 1 + value_lead,
            });
        }
        None
    }
}

/// The offset of the first byte outside quotes for which `ends` says so, or the length. A backslash
/// inside quotes takes the next byte with it, and a quote that never closes runs to the end.
fn end_of(text: &[u8], ends: impl Fn(u8) -> bool) -> usize {
    let mut quoted = false;
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'\\' if quoted => at += 1,
            b'"' => quoted = !quoted,
            byte if !quoted && ends(byte) => return at,
            _ => {}
        }
        at += 1;
    }
    text.len()
}

fn trim(bytes: &[u8]) -> (&[u8], usize) {
    let lead = bytes.iter().take_while(|&&b| is_ows(b)).count();
    (crate::ascii::trim_ows(bytes), lead)
}

/// The cookies with this name in one field, as `req.cook` and `res.cook` see them: an equals sign at the
/// very end of the field does not make a cookie there.
pub fn named<'a>(cookies: Cookies<'a>, name: &'a [u8]) -> impl Iterator<Item = Cookie<'a>> {
    let len = cookies.text.len();
    cookies
        .filter(move |cookie| cookie.name == name && !(cookie.value.is_empty() && cookie.value_offset >= len))
}

/// The value of the first cookie with this name in one `Cookie` field.
pub fn find<'a>(value: &'a [u8], name: &'a [u8]) -> Option<&'a [u8]> {
    named(request_cookies(value), name).next().map(|cookie| cookie.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_separated() {
        for (input, expected) in [
            ("", &[][..]),
            ("a=1", &[("a", "1")]),
            ("a=1; b=2", &[("a", "1"), ("b", "2")]),
            ("a=1;b=2;", &[("a", "1"), ("b", "2")]),
            (" a = 1 ; b = 2 ", &[("a", "1"), ("b", "2")]),
            ("a", &[]),
            ("a; b=2", &[("b", "2")]),
            (";;a=1", &[("a", "1")]),
            ("a=b=c", &[("a", "b=c")]),
            ("a=\"x;y\"; b=2", &[("a", "\"x;y\""), ("b", "2")]),
            ("a=\"x; b=2", &[("a", "\"x; b=2")]),
            ("a=x\"y;z\"; b=2", &[("a", "x\"y;z\""), ("b", "2")]),
            ("a=1,b=2 ,c=3", &[("a", "1"), ("b", "2"), ("c", "3")]),
            ("a=1 2; b=2", &[("a", "1 2"), ("b", "2")]),
            ("$Version=1; a=1", &[("a", "1")]),
            ("b;a=1", &[("a", "1")]),
            ("a=\"x\\\";y\"; b=2", &[("a", "\"x\\\";y\""), ("b", "2")]),
            ("=1; b=2", &[("b", "2")]),
            ("a=", &[("a", "")]),
        ] {
            let found: Vec<_> = request_cookies(input.as_bytes())
                .map(|cookie| {
                    let at = &input.as_bytes()[cookie.value_offset..];
                    assert!(at.starts_with(cookie.value));
                    assert!(input.as_bytes()[cookie.name_offset..].starts_with(cookie.name));
                    (std::str::from_utf8(cookie.name).unwrap(), std::str::from_utf8(cookie.value).unwrap())
                })
                .collect();
            assert_eq!(found, expected, "{input:?}");
        }
        assert_eq!(find(b"a=1; b=2", b"b"), Some(&b"2"[..]));
        assert_eq!(find(b"a=1; b=2", b"B"), None);
        assert_eq!(find(b"a=", b"a"), None);
        assert_eq!(find(b"a=;b=2", b"a"), Some(&b""[..]));
        for (input, expected) in [
            ("sid=x; Path=/; HttpOnly", &[("sid", "x")][..]),
            ("a=1, b=2", &[("a", "1"), ("b", "2")]),
            ("a=1; b=2", &[("a", "1")]),
            ("a=\"x;y\"; b=2", &[("a", "\"x;y\"")]),
            ("a=1; Expires=Wed, 09 Jun 2021 10:18:14 GMT; Path=/", &[("a", "1"), ("Path", "/")]),
            ("Secure; a=2", &[("a", "2")]),
            ("$a=1", &[]),
        ] {
            let found: Vec<_> = response_cookies(input.as_bytes())
                .map(|cookie| {
                    (std::str::from_utf8(cookie.name).unwrap(), std::str::from_utf8(cookie.value).unwrap())
                })
                .collect();
            assert_eq!(found, expected, "{input:?}");
        }
    }
}
