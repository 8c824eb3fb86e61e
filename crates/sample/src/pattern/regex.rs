//! Regular expressions with PCRE semantics, bounded in steps.

use std::fmt;

/// A compiled regular expression over bytes.
pub struct Regex {
    inner: pcre2::bytes::Regex,
    text: Box<str>,
}

/// Why a regular expression was refused.
#[derive(Debug)]
pub struct RegexError(pub String);

impl fmt::Display for RegexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Reusable memory for captures, one per thread.
#[derive(Debug, Default)]
pub struct RegexScratch {
    /// Start and end of each group of the last match; `usize::MAX` when a group did not take part.
    pub groups: Vec<(usize, usize)>,
}

impl fmt::Debug for Regex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Regex({:?})", self.text)
    }
}

/// Most groups whose positions are reported, the whole match included.
pub const GROUPS_MAX: usize = 10;

impl Regex {
    /// Compiles `text`.
    ///
    /// # Errors
    /// The text of the problem, worded as in the reference.
    pub fn new(text: &str, case_sensitive: bool) -> Result<Regex, RegexError> {
        let inner = pcre2::bytes::RegexBuilder::new()
            .caseless(!case_sensitive)
            .utf(false)
            .ucp(false)
            .jit_if_available(true)
            .max_jit_stack_size(Some(512 * 1024))
            .build(text)
            .map_err(|e| {
                let at = e.offset().map_or(String::new(), |at| format!(" at position {at}"));
                let what = e.to_string();
                RegexError(format!("regex '{text}' is invalid ({what}{at})"))
            })?;
        Ok(Regex { inner, text: text.into() })
    }

    /// The expression as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// True when the expression matches somewhere in `bytes`. An expression that gives up (too many steps) does not match.
    pub fn is_match(&self, bytes: &[u8]) -> bool {
        self.inner.is_match(bytes).unwrap_or(false)
    }

    /// Finds the first match at or after `start` and fills `groups` with the positions of the whole match and of up to
    /// nine groups. False when there is none.
    pub fn find_groups(&self, bytes: &[u8], start: usize, groups: &mut RegexScratch) -> bool {
        groups.groups.clear();
        if start > bytes.len() {
            return false;
        }
        let mut locations = self.inner.capture_locations();
        match self.inner.captures_read_at(&mut locations, bytes, start) {
            Ok(Some(_)) => {
                for i in 0..locations.len().min(GROUPS_MAX) {
                    groups.groups.push(locations.get(i).unwrap_or((usize::MAX, usize::MAX)));
                }
                true
            }
            _ => false,
        }
    }
}

impl RegexScratch {
    /// The bytes of group `i` of the last match over `subject`; nothing when it did not take part.
    pub fn group<'s>(&self, i: usize, subject: &'s [u8]) -> &'s [u8] {
        self.groups.get(i).and_then(|&(start, end)| subject.get(start..end)).unwrap_or(&[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_bytes_not_characters() {
        let check = |re: &str, case: bool, input: &[u8], expected: bool| {
            assert_eq!(Regex::new(re, case).unwrap().is_match(input), expected, "{re} on {input:?}");
        };
        check("^a.c$", true, b"a\xffc", true);
        check("^abc$", false, b"ABC", true);
        check("^abc$", true, b"ABC", false);
        check("(?<=x)y", true, b"xy", true);
    }

    #[test]
    fn groups_are_reported() {
        let re = Regex::new("(a)|(b)", true).unwrap();
        let mut scratch = RegexScratch::default();
        assert!(re.find_groups(b"xb", 0, &mut scratch));
        assert_eq!(scratch.group(0, b"xb"), b"b");
        assert_eq!(scratch.group(1, b"xb"), b"");
        assert_eq!(scratch.group(2, b"xb"), b"b");
    }

    #[test]
    fn errors_name_the_expression() {
        let text = Regex::new("(", true).unwrap_err().to_string();
        assert!(text.starts_with("regex '(' is invalid ("), "{text}");
    }

    #[test]
    fn catastrophic_expressions_give_up() {
        let re = Regex::new("^(a+)+$", true).unwrap();
        let mut input = vec![b'a'; 60];
        input.push(b'b');
        assert!(!re.is_match(&input));
    }
}
