//! A little JSON (RFC 8259): what [`crate::Explanation::json`] needs.

use std::fmt::Write as _;

/// A string with its quotes.
pub fn string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if u32::from(c) < 0x20 => {
                // Writing to a string does not fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// `null` for nothing.
pub fn option(value: Option<String>) -> String {
    value.unwrap_or_else(|| "null".into())
}

/// An array of values that are JSON already.
pub fn array(values: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", values.into_iter().collect::<Vec<_>>().join(","))
}

/// An object of values that are JSON already.
pub fn object<'k>(pairs: impl IntoIterator<Item = (&'k str, String)>) -> String {
    let pairs = pairs.into_iter().map(|(name, value)| format!("{}:{value}", string(name)));
    format!("{{{}}}", pairs.collect::<Vec<_>>().join(","))
}
