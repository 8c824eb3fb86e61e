//! Words on their way back into a line.

use std::borrow::Cow;

use thalweg_syntax::layout::{self, WrittenLine};

use crate::{Change, Kind};

/// A word that is read as exactly this text.
pub fn quoted(text: &str) -> Cow<'_, str> {
    let special = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '\\' | '#');
    if !text.is_empty() && !text.contains(special) {
        return Cow::Borrowed(text);
    }
    if !text.contains(['\'', '\n', '\r']) {
        return Cow::Owned(format!("'{text}'"));
    }
    let mut word = String::with_capacity(text.len() + 8);
    word.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' | '$' => word.extend(['\\', c]),
            '\n' => word.push_str("\\n"),
            '\r' => word.push_str("\\r"),
            _ => word.push(c),
        }
    }
    word.push('"');
    Cow::Owned(word)
}

/// A text that today is a log format, and was none.
pub fn literal_format(text: &str) -> String {
    text.replace('%', "%%")
}

/// The words of a line from `first` on, as they are written, with one blank between them.
pub fn rest(line: &WrittenLine<'_>, first: usize) -> String {
    let words: Vec<&str> = line.words.iter().skip(first).map(|word| word.raw).collect();
    words.join(" ")
}

/// A file in which quotes without a match are escaped: before 1.6, quotes were letters like others.
pub fn without_lone_quotes(text: &str, changes: &mut Vec<Change>) -> String {
    let mut out = String::with_capacity(text.len());
    for line in layout::lines(text) {
        if line.broken {
            out.push_str(&escaped(line.text));
            changes.push(Change {
                line: line.number,
                kind: Kind::Same,
                text: "a quote without a match was an ordinary letter before 1.6; it is escaped now".into(),
            });
        } else {
            out.push_str(line.text);
        }
        out.push_str(line.end);
    }
    out
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 4);
    let mut after_backslash = false;
    for c in text.chars() {
        if matches!(c, '"' | '\'') && !after_backslash {
            out.push('\\');
        }
        after_backslash = c == '\\' && !after_backslash;
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_quoted_is_read_as_it_was() {
        for text in ["a", "", "a b", "^([^ :]*) /x", "it's", "\"", "a'b\"c$d\\e", "#", "x\ty", "a'\r\nb"] {
            let word = quoted(text).into_owned();
            let lines = layout::lines(&word);
            assert_eq!(lines[0].words.len(), 1, "{word}");
            assert_eq!(lines[0].word(0).replace("\\$", "$"), text, "{word}");
        }
    }
}
