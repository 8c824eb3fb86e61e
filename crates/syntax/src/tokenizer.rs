//! Cutting one line into words: blanks, comments, quotes, escapes and environment variables
//! (configuration manual, sections 2.2 and 2.3).

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use crate::carry::carry;
use crate::environment::Environment;
use crate::source::{FileId, Span};

/// A line may hold this many words, its keyword included. The reference has the same limit.
pub const WORDS_MAX: usize = 64;

/// A line may grow to this many bytes once its variables are replaced by their values.
pub const LINE_EXPANDED_MAX: usize = 16 << 20;

/// One word of a line, with its quotes removed and its variables replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    bytes: Vec<u8>,
    /// The text that carries `bytes`, present only when they are not UTF-8.
    carried: Option<Box<str>>,
    /// Where each byte came from, present only when the word differs from its source text.
    columns: Option<Box<[u32]>>,
    /// Where the word is in the file, quotes included.
    pub span: Span,
    /// Whether some part of the word was between quotes.
    pub quoted: bool,
}

impl Word {
    /// A word that comes from the command line or from a test, at a place of your choice.
    pub fn new(text: impl Into<Vec<u8>>, span: Span) -> Self {
        Self::from_parts(text.into(), None, span, false)
    }

    fn from_parts(bytes: Vec<u8>, columns: Option<Box<[u32]>>, span: Span, quoted: bool) -> Self {
        let carried = match carry(&bytes) {
            Cow::Borrowed(_) => None,
            Cow::Owned(text) => Some(text.into_boxed_str()),
        };
        Self { bytes, carried, columns, span, quoted }
    }

    /// The exact bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The word as text, for comparing with keywords, for messages and for compilers. Bytes that are not UTF-8 (they
    /// can come from `\xNN`) are carried in it: whoever makes bytes of the text calls [`restore`](crate::carry::restore).
    pub fn text(&self) -> &str {
        match &self.carried {
            Some(text) => text,
            // `carried` is absent only when the bytes are UTF-8.
            None => std::str::from_utf8(&self.bytes).unwrap_or_default(),
        }
    }

    /// The word as text only if it is UTF-8.
    pub fn utf8(&self) -> Option<&str> {
        std::str::from_utf8(&self.bytes).ok()
    }

    /// Whether there is nothing in it (`""`).
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The place in the file of a part of the word, given as offsets in [`Word::bytes`].
    pub fn span_of(&self, part: Range<usize>) -> Span {
        let end = part.end.min(self.bytes.len());
        let start = part.start.min(end);
        match &self.columns {
            None => {
                let base = self.span.start;
                Span { start: base + start as u32, end: base + end as u32, ..self.span }
            }
            Some(columns) => {
                // A quote or an escape lies between two columns: the end of a byte is one after its own
                // column, and a position at the very end is the end of the word.
                let column = |at: usize| columns.get(at).copied().unwrap_or(self.span.end);
                let first = column(start);
                let last = if end > start { column(end - 1) + 1 } else { first };
                Span { start: first, end: last.max(first), ..self.span }
            }
        }
    }
}

impl PartialEq<str> for Word {
    fn eq(&self, other: &str) -> bool {
        self.bytes == other.as_bytes()
    }
}

impl PartialEq<&str> for Word {
    fn eq(&self, other: &&str) -> bool {
        self.bytes == other.as_bytes()
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.text())
    }
}

/// A line that has at least one word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The words, never empty.
    pub words: Vec<Word>,
    /// The file it is in.
    pub file: FileId,
    /// Its number, from 1.
    pub number: u32,
}

impl Line {
    /// The first word.
    pub fn keyword(&self) -> &Word {
        &self.words[0]
    }

    /// The words after the first one.
    pub fn arguments(&self) -> &[Word] {
        &self.words[1..]
    }

    /// The word at an index; the keyword is number 0.
    pub fn word(&self, index: usize) -> Option<&Word> {
        self.words.get(index)
    }

    /// The text of the word at an index, empty when there is none, as most keywords want it.
    pub fn text(&self, index: usize) -> &str {
        self.words.get(index).map_or("", Word::text)
    }

    /// From the first word to the last.
    pub fn span(&self) -> Span {
        self.span_from(0)
    }

    /// From the word at an index to the last one; the place after the last word when there is none such.
    pub fn span_from(&self, index: usize) -> Span {
        match (self.words.get(index), self.words.last()) {
            (Some(first), Some(last)) => first.span.to(last.span),
            _ => self.end(),
        }
    }

    /// The word's place, or the place where it is missing.
    pub fn span_at(&self, index: usize) -> Span {
        self.words.get(index).map_or_else(|| self.end(), |w| w.span)
    }

    /// The place just after the last word, to point at what is missing.
    pub fn end(&self) -> Span {
        match self.words.last() {
            Some(last) => Span { start: last.span.end, ..last.span },
            None => Span { file: self.file, line: self.number, start: 0, end: 0 },
        }
    }
}

/// Why a line cannot be cut into words. Columns are byte offsets in the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenError {
    /// The cause.
    pub kind: TokenErrorKind,
    /// Where, as a byte offset in the line.
    pub column: u32,
    /// How many bytes are concerned, at least 1.
    pub width: u32,
}

/// The causes of a [`TokenError`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenErrorKind {
    /// A quote has no match on the line.
    UnmatchedQuote,
    /// `\x` is not followed by two hexadecimal digits.
    BadHex,
    /// `\x00`, or a NUL byte in the file.
    Nul,
    /// A `${` has no `}`.
    UnmatchedBrace,
    /// A `$` is not followed by a name.
    BadVariableName,
    /// A `[` in a variable is not `[*]`.
    BadExpansion,
    /// More words than [`WORDS_MAX`]; holds the first word too many.
    TooManyWords(String),
    /// Longer than [`LINE_EXPANDED_MAX`].
    TooLong,
}

impl TokenError {
    /// The message, in the words of the reference.
    pub fn message(&self) -> String {
        let position = self.column + 1;
        match &self.kind {
            TokenErrorKind::UnmatchedQuote => format!("unmatched quote at position {position}:"),
            TokenErrorKind::BadHex => {
                format!("truncated or invalid hexadecimal sequence at position {position}:")
            }
            TokenErrorKind::Nul => format!("Stray NUL character at position {position}."),
            TokenErrorKind::UnmatchedBrace => {
                format!("unmatched brace in environment variable name at position {position}:")
            }
            TokenErrorKind::BadVariableName => {
                format!("forbidden first char in environment variable name at position {position}:")
            }
            TokenErrorKind::BadExpansion => {
                format!("truncated or invalid word expansion sequence at position {position}:")
            }
            TokenErrorKind::TooManyWords(word) => {
                format!(
                    "too many words, truncating after word {WORDS_MAX}, position {}: <{word}>.",
                    self.column
                )
            }
            TokenErrorKind::TooLong => {
                format!("line too long once its variables are expanded (limit is {LINE_EXPANDED_MAX} bytes).")
            }
        }
    }

    /// The short form printed for `-cc`.
    pub fn short(&self) -> &'static str {
        match self.kind {
            TokenErrorKind::UnmatchedQuote => "Unmatched quote",
            TokenErrorKind::BadHex => "Truncated or invalid hexadecimal sequence",
            TokenErrorKind::Nul => "Stray NUL character",
            TokenErrorKind::UnmatchedBrace => "Unmatched brace in variable name",
            TokenErrorKind::BadVariableName => "Forbidden first char in variable name",
            TokenErrorKind::BadExpansion => "Truncated or invalid word expansion sequence",
            TokenErrorKind::TooManyWords(_) => "Too many words",
            TokenErrorKind::TooLong => "Line too long",
        }
    }

    /// What to do about it.
    pub fn help(&self) -> Option<&'static str> {
        match self.kind {
            TokenErrorKind::UnmatchedQuote => {
                Some("close the quote, or write \\\" or \\' for a quote that is part of the text")
            }
            TokenErrorKind::BadHex => {
                Some("write two hexadecimal digits after \\x, or \\\\x for a backslash followed by 'x'")
            }
            TokenErrorKind::Nul => Some("a configuration is text: remove the NUL byte"),
            TokenErrorKind::UnmatchedBrace => {
                Some("write ${NAME}, ${NAME-default} or ${NAME[*]} between double quotes")
            }
            TokenErrorKind::BadVariableName => Some(
                "a '$' between double quotes begins a variable: write \\$ or use single quotes for a plain '$'",
            ),
            TokenErrorKind::BadExpansion => Some("only '[*]' may follow the name of a variable: ${NAME[*]}"),
            TokenErrorKind::TooManyWords(_) => Some("cut the line, or quote words that belong together"),
            TokenErrorKind::TooLong => None,
        }
    }
}

/// What variables are replaced by.
#[derive(Clone, Copy, Debug)]
pub struct Variables<'a> {
    /// The environment.
    pub environment: &'a Environment,
    /// The value of `.FILE`.
    pub file: &'a str,
    /// The value of `.LINE`.
    pub line: u32,
    /// The value of `.SECTION`.
    pub section: &'a str,
}

impl<'a> Variables<'a> {
    fn value(&self, name: &[u8]) -> Option<Cow<'a, [u8]>> {
        match name {
            b".FILE" => Some(Cow::Borrowed(self.file.as_bytes())),
            b".LINE" => Some(Cow::Owned(self.line.to_string().into_bytes())),
            b".SECTION" => Some(Cow::Borrowed(self.section.as_bytes())),
            _ => self.environment.get(name).map(Cow::Borrowed),
        }
    }
}

/// Cuts a line (without its line feed) into words. `at` gives the file and line of the spans. On error, what
/// was cut so far is lost: a line that cannot be read has no meaning.
pub fn tokenize(
    line: &[u8],
    file: FileId,
    number: u32,
    variables: &Variables<'_>,
) -> Result<Vec<Word>, TokenError> {
    Tokenizer {
        line,
        at: 0,
        place: Span { file, line: number, start: 0, end: 0 },
        words: Vec::new(),
        word: Vec::new(),
        columns: Vec::new(),
        started: None,
        quoted: false,
        verbatim: true,
        produced: 0,
        variables,
    }
    .run()
}

/// `at` only moves forward: each step consumes at least one byte of the line.
struct Tokenizer<'a> {
    line: &'a [u8],
    at: usize,
    place: Span,
    words: Vec<Word>,
    word: Vec<u8>,
    columns: Vec<u32>,
    /// Column of the first byte of the word being built; `None` between words.
    started: Option<usize>,
    quoted: bool,
    /// Whether the word is so far the same bytes as in the line, without a gap.
    verbatim: bool,
    produced: usize,
    variables: &'a Variables<'a>,
}

impl Tokenizer<'_> {
    fn run(mut self) -> Result<Vec<Word>, TokenError> {
        while let Some(&byte) = self.line.get(self.at) {
            match byte {
                b' ' | b'\t' => {
                    self.finish_word(self.at)?;
                    self.at += 1;
                }
                b'#' | b'\r' | b'\n' => break,
                b'"' => self.weak_quotes()?,
                b'\'' => self.strong_quotes()?,
                b'\\' => self.escape(false)?,
                0 => return Err(self.error(TokenErrorKind::Nul, self.at, 1)),
                _ => self.plain(),
            }
        }
        // Comments are text, too.
        if let Some(at) = self.line.get(self.at..).unwrap_or_default().iter().position(|byte| *byte == 0) {
            return Err(self.error(TokenErrorKind::Nul, self.at + at, 1));
        }
        self.finish_word(self.at)?;
        Ok(self.words)
    }

    fn error(&self, kind: TokenErrorKind, column: usize, width: usize) -> TokenError {
        TokenError { kind, column: column as u32, width: width.max(1) as u32 }
    }

    /// Marks the word as begun, and as different from its source.
    fn transform(&mut self, column: usize) {
        let start = *self.started.get_or_insert(column);
        if self.verbatim {
            self.verbatim = false;
            self.columns.clear();
            self.columns.extend((0..self.word.len()).map(|i| (start + i) as u32));
        }
    }

    fn push(&mut self, byte: u8, column: usize) {
        self.started.get_or_insert(column);
        self.word.push(byte);
        if !self.verbatim {
            self.columns.push(column as u32);
        }
    }

    /// A run of bytes that have no meaning outside quotes, taken at once.
    fn plain(&mut self) {
        let rest = &self.line[self.at..];
        let length = rest
            .iter()
            .position(|b| matches!(b, b' ' | b'\t' | b'#' | b'\r' | b'\n' | b'"' | b'\'' | b'\\' | 0))
            .unwrap_or(rest.len());
        self.started.get_or_insert(self.at);
        self.word.extend_from_slice(&rest[..length]);
        if !self.verbatim {
            let at = self.at;
            self.columns.extend((at..at + length).map(|c| c as u32));
        }
        self.at += length;
    }

    fn finish_word(&mut self, end: usize) -> Result<(), TokenError> {
        let Some(start) = self.started.take() else { return Ok(()) };
        if self.words.len() == WORDS_MAX {
            let word = String::from_utf8_lossy(&self.word).into_owned();
            return Err(self.error(TokenErrorKind::TooManyWords(word), start, end - start));
        }
        let columns = (!self.verbatim).then(|| std::mem::take(&mut self.columns).into_boxed_slice());
        let span = Span { start: start as u32, end: end as u32, ..self.place };
        // A copy of the exact size; the scratch buffer keeps its capacity for the next word.
        let bytes = self.word.as_slice().to_vec();
        self.word.clear();
        self.words.push(Word::from_parts(bytes, columns, span, self.quoted));
        self.verbatim = true;
        self.quoted = false;
        Ok(())
    }

    fn strong_quotes(&mut self) -> Result<(), TokenError> {
        let open = self.at;
        self.transform(open);
        self.quoted = true;
        self.at += 1;
        loop {
            match self.line.get(self.at) {
                None | Some(b'\r' | b'\n') => {
                    return Err(self.error(TokenErrorKind::UnmatchedQuote, open, 1));
                }
                Some(b'\'') => break,
                Some(0) => return Err(self.error(TokenErrorKind::Nul, self.at, 1)),
                Some(&byte) => {
                    self.push(byte, self.at);
                    self.at += 1;
                }
            }
        }
        self.at += 1;
        Ok(())
    }

    fn weak_quotes(&mut self) -> Result<(), TokenError> {
        let open = self.at;
        // `""` is an empty word, but `"${LIST[*]}"` with an empty list is no word at all: only an expansion
        // decides later whether the word has begun.
        let was_started = self.started.is_some();
        self.transform(open);
        self.quoted = true;
        self.at += 1;
        let mut only_lists = true;
        loop {
            match self.line.get(self.at) {
                None | Some(b'\r' | b'\n') => {
                    return Err(self.error(TokenErrorKind::UnmatchedQuote, open, 1));
                }
                Some(b'"') => break,
                Some(b'\\') => {
                    self.ensure_started(open);
                    only_lists = false;
                    self.escape(true)?;
                }
                Some(b'$') => only_lists &= self.variable(open)?,
                Some(0) => return Err(self.error(TokenErrorKind::Nul, self.at, 1)),
                Some(&byte) => {
                    self.ensure_started(open);
                    only_lists = false;
                    self.push(byte, self.at);
                    self.at += 1;
                }
            }
        }
        let empty_quotes = self.at == open + 1;
        self.at += 1;
        if only_lists && !empty_quotes && !was_started && self.word.is_empty() {
            self.started = None;
            self.verbatim = true;
            self.quoted = false;
        }
        Ok(())
    }

    /// After a list ended a word inside quotes, the next byte begins another word.
    fn ensure_started(&mut self, column: usize) {
        if self.started.is_none() {
            self.started = Some(column);
            self.quoted = true;
            self.verbatim = false;
            self.columns.clear();
        }
    }

    fn escape(&mut self, weak: bool) -> Result<(), TokenError> {
        let at = self.at;
        let replacement = match self.line.get(at + 1) {
            Some(&byte @ (b' ' | b'\\' | b'"' | b'\'' | b'#')) => byte,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'$') if weak => b'$',
            Some(b'x') => {
                let digit = |i: usize| self.line.get(i).and_then(|b| char::from(*b).to_digit(16));
                let (Some(high), Some(low)) = (digit(at + 2), digit(at + 3)) else {
                    let width = 2 + usize::from(digit(at + 2).is_some());
                    return Err(self.error(TokenErrorKind::BadHex, at, width));
                };
                let byte = (high * 16 + low) as u8;
                if byte == 0 {
                    return Err(self.error(TokenErrorKind::Nul, at, 4));
                }
                self.transform(at);
                self.push(byte, at);
                self.at += 4;
                return Ok(());
            }
            // Any other backslash stands for itself, and what follows it is read as usual.
            _ => {
                self.push(b'\\', at);
                self.at += 1;
                return Ok(());
            }
        };
        self.transform(at);
        self.push(replacement, at);
        self.at += 2;
        Ok(())
    }

    /// Replaces a variable by its value. Returns whether it was a list (`[*]`).
    fn variable(&mut self, open: usize) -> Result<bool, TokenError> {
        let dollar = self.at;
        let braced = self.line.get(dollar + 1) == Some(&b'{');
        let name_start = dollar + 1 + usize::from(braced);
        let pseudo = self.line.get(name_start) == Some(&b'.');
        let rest = &self.line[name_start.min(self.line.len())..];
        let skip = usize::from(pseudo);
        let name_length = skip
            + rest.get(skip..).map_or(0, |r| {
                r.iter().position(|b| !(b.is_ascii_alphanumeric() || *b == b'_')).unwrap_or(r.len())
            });
        let name = &rest[..name_length.min(rest.len())];
        let valid = match name.first() {
            Some(b'.') => matches!(name, b".FILE" | b".LINE" | b".SECTION"),
            Some(first) => first.is_ascii_alphabetic() || *first == b'_',
            None => false,
        };
        if !valid {
            return Err(self.error(TokenErrorKind::BadVariableName, name_start, name.len()));
        }
        let mut after = name_start + name.len();
        let mut list = false;
        let mut default: Option<&[u8]> = None;
        if braced {
            if self.line.get(after) == Some(&b'[') {
                if self.line[after..].starts_with(b"[*]") {
                    list = true;
                    after += 3;
                } else {
                    return Err(self.error(TokenErrorKind::BadExpansion, after, 1));
                }
            }
            let unmatched =
                |t: &Self| t.error(TokenErrorKind::UnmatchedBrace, dollar + 1, after - dollar - 1);
            match self.line.get(after) {
                Some(b'}') => {}
                Some(b'-') => {
                    let text = &self.line[after + 1..];
                    let Some(length) = memchr::memchr(b'}', text) else { return Err(unmatched(self)) };
                    default = Some(&text[..length]);
                    after += 1 + length;
                }
                _ => return Err(unmatched(self)),
            }
            after += 1;
        }
        let value = self.variables.value(name).or_else(|| default.map(Cow::Borrowed)).unwrap_or_default();
        self.produced += value.len();
        if self.produced > LINE_EXPANDED_MAX {
            return Err(self.error(TokenErrorKind::TooLong, dollar, after - dollar));
        }
        self.at = after;
        if list {
            for &byte in value.iter() {
                if byte == b' ' || (b'\t'..=b'\r').contains(&byte) {
                    // A blank ends the word only if there is one: leading and repeated blanks count once.
                    if !self.word.is_empty() {
                        self.finish_word(after)?;
                    }
                } else {
                    self.ensure_started(dollar);
                    self.push(byte, dollar);
                }
            }
        } else {
            self.ensure_started(open);
            for &byte in value.iter() {
                self.push(byte, dollar);
            }
        }
        Ok(list)
    }
}
