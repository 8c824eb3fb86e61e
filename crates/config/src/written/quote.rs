//! Words as a configuration file has to write them.

use std::borrow::Cow;
use std::fmt::Write as _;

use thalweg_syntax::carry::{is_carrier, restore};

/// A word such that a configuration file that has it says just this.
pub fn quoted(word: &str) -> Cow<'_, str> {
    let is_special = |c: char| matches!(c, ' ' | '\t' | '#' | '"' | '\'' | '\\');
    let needs_escape = |c: char| c.is_control() && c != '\t' || is_carrier(c);
    if word.chars().any(|c| c == '\'' || needs_escape(c)) {
        return Cow::Owned(escaped(word));
    }
    if word.is_empty() || word.contains(is_special) {
        return Cow::Owned(format!("'{word}'"));
    }
    Cow::Borrowed(word)
}

/// With a backslash before what would be read otherwise.
fn escaped(word: &str) -> String {
    let mut text = String::with_capacity(word.len() + 8);
    for c in word.chars() {
        match c {
            ' ' | '#' | '"' | '\'' | '\\' => text.extend(['\\', c]),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            _ if c.is_control() || is_carrier(c) => {
                for byte in &*restore(c.encode_utf8(&mut [0; 4]).as_bytes()) {
                    // Writing to a String cannot fail.
                    let _ = write!(text, "\\x{byte:02x}");
                }
            }
            _ => text.push(c),
        }
    }
    text
}

/// Words as a line, without its end.
pub fn sentence<S: AsRef<str>>(words: &[S]) -> String {
    words.iter().map(|word| quoted(word.as_ref())).collect::<Vec<_>>().join(" ")
}
