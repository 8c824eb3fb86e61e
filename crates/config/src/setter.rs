//! How an option of a line becomes a value: the part of a `bind` or `server` keyword's entry that sets something.

use std::sync::Arc;

use thalweg_syntax::{Diagnostic, Line};

use crate::build::Cx;
use crate::keyword::fail;
use crate::numbers::lenient;

/// How many words an option took, or the one complaint about it.
pub(crate) type Took = Result<usize, Box<Diagnostic>>;

/// One of the words that an option takes, and what it sets.
pub(crate) type Choice<T> = (&'static str, fn(&mut T));

/// What an option takes and what it sets on a `T`. Most options need no code but their setter.
pub(crate) enum Setter<T: 'static> {
    /// No value.
    Flag(fn(&mut T)),
    /// A text of one word.
    Text {
        /// The complaint when there is none.
        missing: &'static str,
        /// Keeps it.
        set: fn(&mut T, Arc<str>),
    },
    /// A number, of which what follows its digits is passed over.
    Number {
        /// The complaint when there is none; absent where that is 0, as the reference has it.
        missing: Option<&'static str>,
        /// Keeps it, or says why it cannot be.
        set: fn(&mut T, i64) -> Result<(), String>,
    },
    /// One of a few words.
    Word {
        /// The words, and what each sets.
        words: &'static [Choice<T>],
        /// The complaint about another one.
        wrong: fn(&str) -> String,
    },
    /// Whatever its own reader makes of the words from its name (at the index) on.
    Reads(fn(&mut Cx<'_>, &Line, usize, &mut T) -> Took),
}

impl<T> Clone for Setter<T> {
    fn clone(&self) -> Setter<T> {
        *self
    }
}

impl<T> Copy for Setter<T> {}

impl<T> Setter<T> {
    /// Reads the option whose name is at `at`.
    pub(crate) fn read(self, cx: &mut Cx<'_>, line: &Line, at: usize, target: &mut T) -> Took {
        let wrong = |message: String| fail(line, at + 1, message);
        match self {
            Setter::Flag(set) => {
                set(target);
                return Ok(1);
            }
            Setter::Text { missing, set } => {
                let text = value(line, at, missing)?;
                set(target, cx.name(text));
            }
            Setter::Number { missing, set } => {
                if let Some(missing) = missing {
                    value(line, at, missing)?;
                }
                set(target, lenient(cx, line, at + 1)).map_err(wrong)?;
            }
            Setter::Word { words, wrong: complain } => {
                let text = line.text(at + 1);
                let found = words.iter().find(|(word, _)| *word == text);
                let (_, set) = found.ok_or_else(|| wrong(complain(text)))?;
                set(target);
            }
            Setter::Reads(read) => return read(cx, line, at, target),
        }
        Ok(2)
    }
}

/// The word after the name at `at`, which must be there.
pub(crate) fn value<'l>(line: &'l Line, at: usize, missing: &str) -> Result<&'l str, Box<Diagnostic>> {
    match line.text(at + 1) {
        "" => Err(fail(line, at + 1, missing)),
        text => Ok(text),
    }
}
