//! Names of hosts and services.

use std::fmt;
use std::sync::Arc;

/// A name that can be asked for: in lower case, without a dot at its end.
///
/// Letters, digits, `-`, `_` and dots, labels of 1 to 63 bytes, 253 bytes at most (RFC 1035, section 2.3.4). What DNS can carry
/// beyond that is no name of a host.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Arc<str>);

/// Why a text is no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameError {
    /// Nothing, or two dots in a row.
    EmptyLabel,
    /// A label of more than 63 bytes.
    LongLabel,
    /// More than 253 bytes.
    Long,
    /// Something else than letters, digits, `-` and `_`.
    Character,
}

/// Longest name in its text form, without the last dot: what 255 bytes on the wire hold.
const LENGTH_MAX: usize = 253;

impl Name {
    /// Reads a name, with or without a dot at its end.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(text: &str) -> Result<Name, NameError> {
        let text = text.strip_suffix('.').unwrap_or(text);
        if text.len() > LENGTH_MAX {
            return Err(NameError::Long);
        }
        for label in text.split('.') {
            match label.len() {
                0 => return Err(NameError::EmptyLabel),
                1..=63 => {}
                _ => return Err(NameError::LongLabel),
            }
            if !label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_')) {
                return Err(NameError::Character);
            }
        }
        Ok(Name(text.to_ascii_lowercase().into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text, to be shared.
    pub fn text(&self) -> &Arc<str> {
        &self.0
    }

    /// Whether it is the name of a service: the reference takes what begins with an underscore for one.
    pub fn is_service(&self) -> bool {
        self.0.starts_with('_')
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read() {
        let long = "a".repeat(63);
        for good in ["a", "A.b", "_http._tcp.x-y", "1.2", &long] {
            assert!(Name::new(good).is_ok(), "{good}");
        }
        assert_eq!(Name::new("WWW.Example.").map(|n| n.to_string()), Ok("www.example".into()));
        let three = [long.as_str(); 4].join(".");
        for (bad, why) in [
            ("", NameError::EmptyLabel),
            (".", NameError::EmptyLabel),
            ("a..b", NameError::EmptyLabel),
            (".a", NameError::EmptyLabel),
            ("a b", NameError::Character),
            ("a/b", NameError::Character),
            ("\u{e4}", NameError::Character),
            (&format!("{long}a"), NameError::LongLabel),
            (&three, NameError::Long),
        ] {
            assert_eq!(Name::new(bad), Err(why), "{bad}");
        }
    }
}
