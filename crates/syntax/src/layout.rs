//! A file as it is written: its lines with their words, blanks and comments.
//!
//! [`Reader`](crate::Reader) gives what lines *mean*, with quotes gone and variables replaced. Tools that write a file
//! anew (`thalweg fmt`, `thalweg upgrade`) need what it *looks like*: nothing here is lost, and putting all parts of a
//! line together again gives the line.

use std::borrow::Cow;

/// One line of a file, in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenLine<'t> {
    /// Its number, from 1.
    pub number: u32,
    /// The whole line, without its end.
    pub text: &'t str,
    /// Its words as they are written, with quotes, escapes and variables.
    pub words: Vec<Written<'t>>,
    /// From `#` to the end of the line, without blanks at its end; empty when there is none. What follows a carriage
    /// return within a line is never read, and is here, too.
    pub comment: &'t str,
    /// What ends it: a line feed, perhaps after carriage returns; empty at the end of a file that lacks it.
    pub end: &'t str,
    /// A quote has no match: the words are those before it, and what follows is in none of them.
    pub broken: bool,
}

/// A word as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written<'t> {
    /// The bytes of the file.
    pub raw: &'t str,
    /// Where it begins in its line.
    pub start: usize,
}

impl<'t> Written<'t> {
    /// Where it ends in its line.
    pub fn end(&self) -> usize {
        self.start + self.raw.len()
    }

    /// What it says, without quotes and escapes. Variables stay as they are written, and so does `\xNN`.
    pub fn text(&self) -> Cow<'t, str> {
        if !self.raw.contains(['"', '\'', '\\']) {
            return Cow::Borrowed(self.raw);
        }
        let mut text = String::with_capacity(self.raw.len());
        let mut quote = None;
        let mut rest = self.raw.chars().peekable();
        while let Some(c) = rest.next() {
            match (c, quote) {
                ('\'', Some('\'')) | ('"', Some('"')) => quote = None,
                ('\'' | '"', None) => quote = Some(c),
                ('\\', None | Some('"')) => match rest.peek().copied() {
                    Some(next @ (' ' | '\\' | '"' | '\'' | '#')) => {
                        rest.next();
                        text.push(next);
                    }
                    Some('n') => {
                        rest.next();
                        text.push('\n');
                    }
                    Some('r') => {
                        rest.next();
                        text.push('\r');
                    }
                    Some('t') => {
                        rest.next();
                        text.push('\t');
                    }
                    _ => text.push('\\'),
                },
                _ => text.push(c),
            }
        }
        Cow::Owned(text)
    }
}

impl<'t> WrittenLine<'t> {
    /// The blanks before the first word, or before the comment.
    pub fn indent(&self) -> &'t str {
        let rest = self.text.trim_start_matches([' ', '\t']);
        &self.text[..self.text.len() - rest.len()]
    }

    /// The text of a word, empty when there is none.
    pub fn word(&self, index: usize) -> Cow<'t, str> {
        self.words.get(index).map_or(Cow::Borrowed(""), Written::text)
    }

    /// Whether there is nothing on it.
    pub fn is_blank(&self) -> bool {
        self.words.is_empty() && self.comment.is_empty() && !self.broken
    }

    /// What is between the last word and the comment, or the end of the line.
    pub fn gap(&self) -> &'t str {
        let rest = &self.text[self.words.last().map_or(0, Written::end)..];
        &rest[..rest.len() - rest.trim_start_matches([' ', '\t']).len()]
    }
}

/// Words that begin a section.
pub const SECTIONS: [&str; 25] = [
    "acme",
    "backend",
    "cache",
    "crt-store",
    "defaults",
    "fcgi-app",
    "frontend",
    "global",
    "healthcheck",
    "http-errors",
    "listen",
    "log-forward",
    "log-profile",
    "mailers",
    "namespace_list",
    "opentelemetry",
    "peers",
    "program",
    "resolvers",
    "ring",
    "spoe-agent",
    "spoe-group",
    "spoe-message",
    "traces",
    "userlist",
];

/// Whether a line begins a section.
pub fn begins_section(line: &WrittenLine<'_>) -> bool {
    !line.broken && SECTIONS.contains(&&*line.word(0))
}

/// Cuts a file into lines, and these into words.
pub fn lines(text: &str) -> Vec<WrittenLine<'_>> {
    let pieces = text.split_inclusive('\n').enumerate();
    pieces.map(|(index, piece)| line(piece, u32::try_from(index + 1).unwrap_or(u32::MAX))).collect()
}

fn line(piece: &str, number: u32) -> WrittenLine<'_> {
    let text = piece.trim_end_matches(['\r', '\n']);
    let end = &piece[text.len()..];
    let bytes = text.as_bytes();
    let mut words = Vec::new();
    let mut at = 0;
    loop {
        while matches!(bytes.get(at), Some(b' ' | b'\t')) {
            at += 1;
        }
        match bytes.get(at) {
            None => return WrittenLine { number, text, words, comment: "", end, broken: false },
            // A carriage return ends what is read of a line, wherever it is.
            Some(b'#' | b'\r') => {
                let comment = text[at..].trim_end_matches([' ', '\t', '\r']);
                return WrittenLine { number, text, words, comment, end, broken: false };
            }
            Some(_) => {}
        }
        let Some(length) = word_length(&bytes[at..]) else {
            return WrittenLine { number, text, words, comment: "", end, broken: true };
        };
        words.push(Written { raw: &text[at..at + length], start: at });
        at += length;
    }
}

/// Where a word ends that begins here; `None` when a quote in it has no match.
fn word_length(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b' ' | b'\t' | b'#' | b'\r' => break,
            b'\'' => {
                let length = bytes[at + 1..].iter().position(|b| matches!(b, b'\'' | b'\r'))?;
                at += 1 + length;
                if bytes[at] == b'\r' {
                    return None;
                }
                at += 1;
            }
            b'"' => at = weak_quotes_end(bytes, at + 1)?,
            b'\\' => at += escape_length(bytes, at),
            _ => at += 1,
        }
    }
    Some(at.min(bytes.len()))
}

/// Bytes of an escape: two before what can be escaped, else only the backslash.
fn escape_length(bytes: &[u8], at: usize) -> usize {
    1 + usize::from(matches!(bytes.get(at + 1), Some(b' ' | b'\\' | b'"' | b'\'' | b'#')))
}

/// The byte after the closing quote.
fn weak_quotes_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\r' => return None,
            b'\\' if bytes.get(at + 1) == Some(&b'$') => at += 2,
            b'\\' => at += escape_length(bytes, at),
            // Quotes have no meaning in the default of a variable.
            b'$' if bytes.get(at + 1) == Some(&b'{') => {
                at += bytes[at..].iter().position(|b| *b == b'}').unwrap_or(0) + 1;
            }
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::Environment;
    use crate::source::SourceMap;
    use crate::tokenizer::{Variables, tokenize};
    use proptest::prelude::*;

    #[test]
    fn a_line_comes_in_parts() {
        let text = "\tbind :80  \"a b\"   # c \n#x\n\n  acl a path \\#\\ b#c\r\nlast 'x";
        let lines = lines(text);
        let parts = |n: usize| {
            let line = &lines[n];
            (line.indent(), line.words.iter().map(|w| w.raw).collect::<Vec<_>>(), line.gap(), line.comment)
        };
        assert_eq!(parts(0), ("\t", vec!["bind", ":80", "\"a b\""], "   ", "# c"));
        assert_eq!(parts(1), ("", vec![], "", "#x"));
        assert!(lines[2].is_blank());
        assert_eq!(parts(3), ("  ", vec!["acl", "a", "path", "\\#\\ b"], "", "#c"));
        assert_eq!((lines[3].end, lines[3].word(3).as_ref()), ("\r\n", "# b"));
        assert!(lines[4].broken && lines[4].end.is_empty());
    }

    proptest! {
        /// The words are those of the reader, at the same places, as long as no variable makes more or fewer of them.
        #[test]
        fn words_are_where_the_reader_finds_them(
            text in "([ \ta-c:]|\\\\|\"|'|#|\\$\\{A-|\\}|\\$A|\r|x41|n){0,24}"
        ) {
            let mut sources = SourceMap::new();
            let file = sources.add("x", Vec::new());
            let environment = Environment::empty();
            let variables = Variables { environment: &environment, file: "x", line: 1, section: "" };
            let line = line(&text, 1);
            prop_assert_eq!(format!("{}{}", line.text, line.end), text.clone());
            if let Ok(words) = tokenize(text.as_bytes(), file, 1, &variables) {
                prop_assert!(!line.broken);
                let found: Vec<_> = line.words.iter().map(|w| (w.start, w.end())).collect();
                let expected: Vec<_> =
                    words.iter().map(|w| (w.span.start as usize, w.span.end as usize)).collect();
                prop_assert_eq!(found, expected);
                if !text.contains(['$']) && !text.contains("\\x") {
                    let texts: Vec<_> = line.words.iter().map(|w| w.text().into_owned()).collect();
                    prop_assert_eq!(texts, words.iter().map(|w| w.text().to_owned()).collect::<Vec<_>>());
                }
            }
        }
    }
}
