//! The second tokenizer: arguments between parentheses, as in `streq(a,"b c")` or `regsub(x,y,g)`
//! (configuration manual, section 2.2).
//!
//! It runs on a word, after the line's own quotes and escapes are gone. Commas separate, a parenthesis ends,
//! quotes protect both, and blanks are data.

use std::ops::Range;

/// One argument, its quotes and escapes resolved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Argument {
    /// The value.
    pub text: Vec<u8>,
    /// Where it stands in the text given to [`split_arguments`], quotes included.
    pub range: Range<usize>,
    /// Whether some part of it was between quotes: `""` is an empty string, nothing is a missing argument.
    pub quoted: bool,
}

/// The arguments of one pair of parentheses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArgumentList {
    /// The arguments in order. `()` has none, `(,)` has two empty ones.
    pub arguments: Vec<Argument>,
    /// Offset just after the closing parenthesis.
    pub end: usize,
}

/// Why a list cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArgumentError {
    /// A quote has no match before the end of the text; holds its offset and the number of the argument,
    /// from 1.
    UnmatchedQuote {
        /// Offset of the quote.
        at: usize,
        /// Number of the argument, from 1.
        argument: usize,
    },
    /// The text ends before the closing parenthesis.
    MissingParenthesis {
        /// Offset of the end of the text.
        at: usize,
        /// Number of the argument being read, from 1.
        argument: usize,
    },
}

/// Splits the text that follows an opening parenthesis, up to the matching closing one.
pub fn split_arguments(text: &[u8]) -> Result<ArgumentList, ArgumentError> {
    let mut arguments = Vec::new();
    let mut current = Argument::default();
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match byte {
            b',' => {
                current.range.end = at;
                arguments.push(std::mem::take(&mut current));
                at += 1;
                current.range = at..at;
            }
            b')' => {
                current.range.end = at;
                if !(arguments.is_empty() && current.range.is_empty()) {
                    arguments.push(current);
                }
                return Ok(ArgumentList { arguments, end: at + 1 });
            }
            b'\'' => {
                let Some(length) = memchr::memchr(b'\'', &text[at + 1..]) else {
                    return Err(ArgumentError::UnmatchedQuote { at, argument: arguments.len() + 1 });
                };
                current.text.extend_from_slice(&text[at + 1..at + 1 + length]);
                current.quoted = true;
                at += length + 2;
            }
            b'"' => {
                let open = at;
                current.quoted = true;
                at += 1;
                loop {
                    match text.get(at) {
                        None => {
                            return Err(ArgumentError::UnmatchedQuote {
                                at: open,
                                argument: arguments.len() + 1,
                            });
                        }
                        Some(b'"') => break,
                        Some(b'\\') => at += unescape(&text[at..], &mut current.text),
                        Some(&byte) => {
                            current.text.push(byte);
                            at += 1;
                        }
                    }
                }
                at += 1;
            }
            b'\\' => at += unescape(&text[at..], &mut current.text),
            _ => {
                current.text.push(byte);
                at += 1;
            }
        }
    }
    Err(ArgumentError::MissingParenthesis { at: text.len(), argument: arguments.len() + 1 })
}

/// Appends what the backslash at the start of `text` stands for; returns how many bytes were read (1 or 2).
fn unescape(text: &[u8], out: &mut Vec<u8>) -> usize {
    let byte = match text.get(1) {
        Some(&byte @ (b' ' | b'\\' | b'"' | b'\'')) => byte,
        Some(b'n') => b'\n',
        Some(b'r') => b'\r',
        Some(b't') => b'\t',
        _ => {
            out.push(b'\\');
            return 1;
        }
    };
    out.push(byte);
    2
}
