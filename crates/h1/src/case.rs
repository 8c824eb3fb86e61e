//! Header names in another case, for peers that compare them as bytes (`h1-case-adjust`).

use std::collections::HashMap;

/// Why an adjustment was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaseError {
    /// The first name is not in lower case.
    NotLower,
    /// The names differ in more than their case.
    Different,
    /// The first name is already adjusted.
    Duplicate,
}

/// The adjustments of a configuration.
#[derive(Clone, Debug, Default)]
pub struct CaseMap {
    names: HashMap<Box<[u8]>, Box<[u8]>>,
}

impl CaseMap {
    /// Adds the adjustment of `from`, in lower case, to `to`.
    ///
    /// # Errors
    /// A [`CaseError`]; the map is unchanged.
    pub fn add(&mut self, from: &[u8], to: &[u8]) -> Result<(), CaseError> {
        if from.iter().any(u8::is_ascii_uppercase) {
            return Err(CaseError::NotLower);
        }
        if from.is_empty() || !from.eq_ignore_ascii_case(to) {
            return Err(CaseError::Different);
        }
        if self.names.contains_key(from) {
            return Err(CaseError::Duplicate);
        }
        self.names.insert(from.into(), to.into());
        Ok(())
    }

    /// The name to send instead of `lower`.
    pub fn adjusted<'a>(&'a self, lower: &'a [u8]) -> &'a [u8] {
        self.names.get(lower).map_or(lower, |name| name)
    }

    /// Whether nothing is adjusted.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_case_may_differ() {
        let mut map = CaseMap::default();
        for (from, to, expected) in [
            ("content-length", "Content-Length", Ok(())),
            ("content-length", "CONTENT-LENGTH", Err(CaseError::Duplicate)),
            ("Host", "HOST", Err(CaseError::NotLower)),
            ("host", "Hosts", Err(CaseError::Different)),
            ("", "", Err(CaseError::Different)),
        ] {
            assert_eq!(map.add(from.as_bytes(), to.as_bytes()), expected, "{from} {to}");
        }
        assert_eq!(map.adjusted(b"content-length"), b"Content-Length");
        assert_eq!(map.adjusted(b"host"), b"host");
    }
}
