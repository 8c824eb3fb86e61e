//! Lists inside field values (RFC 9110 section 5.6.1), split the way the reference splits them.

use crate::ascii::is_ows;

/// The elements of a comma-separated list, without surrounding white space and without empty ones.
/// Commas inside quoted strings do not separate.
#[inline]
pub fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    list_with_empty(value).filter(|element| !element.is_empty())
}

/// The elements of a comma-separated list, without surrounding white space; empty ones are reported,
/// and an empty value is one empty element.
#[inline]
pub fn list_with_empty(value: &[u8]) -> List<'_> {
    List { rest: Some(value), offset: 0 }
}

/// An iterator over the elements of a list. See [`list_with_empty`].
#[derive(Clone, Debug)]
pub struct List<'a> {
    rest: Option<&'a [u8]>,
    offset: usize,
}

impl<'a> List<'a> {
    /// The next element and its offset in the whole value.
    pub fn next_at(&mut self) -> Option<(usize, &'a [u8])> {
        let rest = self.rest?;
        let end = element_end(rest);
        let start = self.offset;
        match rest.get(end + 1..) {
            Some(after) if end < rest.len() => {
                self.rest = Some(after);
                self.offset += end + 1;
            }
            _ => self.rest = None,
        }
        let mut element = &rest[..end];
        let mut lead = 0;
        while let [first, tail @ ..] = element {
            if !is_ows(*first) {
                break;
            }
            element = tail;
            lead += 1;
        }
        while let [head @ .., last] = element {
            if !is_ows(*last) {
                break;
            }
            element = head;
        }
        Some((start + lead, element))
    }

    /// The offset in the whole value of what was not read yet, if anything is left.
    pub fn rest_offset(&self) -> Option<usize> {
        self.rest.map(|_| self.offset)
    }
}

impl<'a> Iterator for List<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<Self::Item> {
        self.next_at().map(|(_, element)| element)
    }
}

/// The offset of the comma that ends the first element, or the length. A backslash inside quotes takes
/// the next byte with it; an unterminated quote runs to the end.
fn element_end(value: &[u8]) -> usize {
    let mut at = 0;
    // Elements are short: a loop over bytes is faster than a call.
    while let Some(&byte) = value.get(at) {
        match byte {
            b',' => return at,
            b'"' => return quoted_end(value, at),
            _ => at += 1,
        }
    }
    at
}

/// The same for an element with a quote at `at`.
fn quoted_end(value: &[u8], mut at: usize) -> usize {
    let mut quoted = false;
    while let Some(&byte) = value.get(at) {
        match byte {
            b'\\' if quoted => at += 1,
            b'"' => quoted = !quoted,
            b',' if !quoted => return at,
            _ => {}
        }
        at += 1;
    }
    value.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_split_at_commas_outside_quotes() {
        for (input, expected) in [
            ("", &[""][..]),
            ("a", &["a"]),
            ("a,b", &["a", "b"]),
            (" a , b ", &["a", "b"]),
            ("a,,b,", &["a", "", "b", ""]),
            ("\"a,b\",c", &["\"a,b\"", "c"]),
            ("\"a\\\",b\",c", &["\"a\\\",b\"", "c"]),
            ("\"a,b", &["\"a,b"]),
            ("a\\,b", &["a\\", "b"]),
            ("\"a\\", &["\"a\\"]),
        ] {
            let found: Vec<_> = list_with_empty(input.as_bytes())
                .map(|element| std::str::from_utf8(element).unwrap())
                .collect();
            assert_eq!(found, expected, "{input:?}");
        }
        assert_eq!(list(b",a,, b").collect::<Vec<_>>(), [b"a", b"b"]);
        let mut offsets = list_with_empty(b"ab, c ,d");
        assert_eq!(offsets.next_at(), Some((0, &b"ab"[..])));
        assert_eq!(offsets.next_at(), Some((4, &b"c"[..])));
        assert_eq!(offsets.next_at(), Some((7, &b"d"[..])));
        assert_eq!(offsets.next_at(), None);
    }
}
