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

/// The cookies of one `Cookie` field, separated by semicolons. A part without an equals sign is not a
/// cookie and is passed over.
pub fn request_cookies(value: &[u8]) -> Cookies<'_> {
    Cookies { text: value, at: 0, response: false }
}

/// The cookie that one `Set-Cookie` field sets: attributes are not cookies.
pub fn response_cookie(value: &[u8]) -> Option<Cookie<'_>> {
    Cookies { text: value, at: 0, response: true }.next()
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
            let end = part_end(self.text, start);
            self.at = if self.response { self.text.len() } else { end + 1 };
            let part = &self.text[start..end];
            let Some(equals) = memchr::memchr(b'=', part) else { continue };
            let (name, lead) = trim(&part[..equals]);
            let (value, value_lead) = trim(&part[equals + 1..]);
            return Some(Cookie {
                name,
                value,
                name_offset: start + lead,
                value_offset: start + equals + 1 + value_lead,
            });
        }
        None
    }
}

/// Where the part that begins at `start` ends: at a semicolon outside quotes, or at the end. Quotes
/// count only right after the equals sign, and one that never closes is an ordinary byte.
fn part_end(text: &[u8], start: usize) -> usize {
    let rest = &text[start..];
    let simple = memchr::memchr(b';', rest).unwrap_or(rest.len());
    let Some(equals) = memchr::memchr(b'=', &rest[..simple]) else { return start + simple };
    let mut at = equals + 1;
    while at < rest.len() && is_ows(rest[at]) {
        at += 1;
    }
    if rest.get(at) != Some(&b'"') {
        return start + simple;
    }
    at += 1;
    while let Some(&byte) = rest.get(at) {
        match byte {
            b'\\' => at += 1,
            b'"' => {
                let after = &rest[at..];
                return start + at + memchr::memchr(b';', after).unwrap_or(after.len());
            }
            _ => {}
        }
        at += 1;
    }
    start + simple
}

fn trim(bytes: &[u8]) -> (&[u8], usize) {
    let lead = bytes.iter().take_while(|&&b| is_ows(b)).count();
    (crate::ascii::trim_ows(bytes), lead)
}

/// The value of the first cookie with this name in one `Cookie` field.
pub fn find<'a>(value: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    request_cookies(value).find(|cookie| cookie.name == name).map(|cookie| cookie.value)
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
            ("a=\"x; b=2", &[("a", "\"x"), ("b", "2")]),
            ("a=\"x\\\";y\"; b=2", &[("a", "\"x\\\";y\""), ("b", "2")]),
            ("=1; b=2", &[("", "1"), ("b", "2")]),
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
        let set = response_cookie(b"sid=x; Path=/; HttpOnly").unwrap();
        assert_eq!((set.name, set.value), (&b"sid"[..], &b"x"[..]));
        assert_eq!(response_cookie(b"Secure; Path=/"), None);
    }
}
