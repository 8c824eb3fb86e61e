//! Regular expressions with PCRE semantics, bounded in steps.

use std::cell::RefCell;
use std::fmt;
use thalweg_syntax::carry::restore;
use thalweg_sys::pcre::{Pcre, PcreMemory};

/// A compiled regular expression over bytes.
pub struct Regex {
    inner: Pcre,
    text: Box<str>,
}

/// A match is given up after this many steps (PCRE2's match limit): a fraction of a second for an expression that goes
/// through all ways to split its subject.
const STEPS_MAX: u32 = 1_000_000;

thread_local! {
    /// What matches need besides the expression, kept for the next one.
    static MEMORY: RefCell<PcreMemory> = RefCell::new(PcreMemory::new(GROUPS_MAX as u32, STEPS_MAX));
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
    /// Compiles the bytes that `text`, a word of the configuration, carries.
    ///
    /// # Errors
    /// The text of the problem, worded as in the reference.
    pub fn new(text: &str, case_sensitive: bool) -> Result<Regex, RegexError> {
        let inner = Pcre::new(&restore(text.as_bytes()), case_sensitive).map_err(|e| {
            RegexError(format!("regex '{text}' is invalid (error={}, erroffset={})", e.message, e.offset))
        })?;
        Ok(Regex { inner, text: text.into() })
    }

    /// The expression as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// True when the expression matches somewhere in `bytes`. An expression that gives up (too many steps) does not match.
    pub fn is_match(&self, bytes: &[u8]) -> bool {
        MEMORY.with_borrow_mut(|memory| self.inner.find(bytes, false, memory)) == Ok(true)
    }

    /// Finds the first match at or after `start` and fills `groups` with the positions of the whole match and of up to
    /// nine groups. False when there is none. What is before `start` is not seen: `^` matches there only when it is 0.
    pub fn find_groups(&self, bytes: &[u8], start: usize, groups: &mut RegexScratch) -> bool {
        groups.groups.clear();
        let Some(rest) = bytes.get(start..) else { return false };
        MEMORY.with_borrow_mut(|memory| {
            if self.inner.find(rest, start > 0, memory) != Ok(true) {
                return false;
            }
            for i in 0..GROUPS_MAX {
                let group = memory.group(i).map_or((usize::MAX, usize::MAX), |(a, b)| (a + start, b + start));
                groups.groups.push(group);
            }
            true
        })
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
        assert_eq!(text, "regex '(' is invalid (error=missing closing parenthesis, erroffset=1)");
    }

    #[test]
    fn catastrophic_expressions_give_up() {
        let re = Regex::new("^(a+)+$", true).unwrap();
        let mut input = vec![b'a'; 60];
        input.push(b'b');
        assert!(!re.is_match(&input));
    }
}
