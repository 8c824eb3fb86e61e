//! What a keyword is: everything known about it in one place.
//!
//! The tables (`table::*`) list every keyword of the language, the ones that work, the ones that are known and do
//! not work yet, and the ones that were removed, so that each gets its own answer. Completion, `-dK`, the reference
//! documentation and "did you mean" derive from them.

use thalweg_syntax::{Diagnostic, Line, did_you_mean};

use crate::build::{Building, Cx};

/// What reading a line gives: nothing, or the one complaint that made it unreadable.
pub(crate) type Outcome = Result<(), Box<Diagnostic>>;

/// Reads a line of the `global` section.
pub(crate) type GlobalFn = fn(&mut Cx<'_>, &Line) -> Outcome;

/// Reads a line of a proxy or of a `defaults` section.
pub(crate) type ProxyFn = fn(&mut Cx<'_>, &mut Building, &Line) -> Outcome;

/// Whether a keyword works.
#[derive(Clone, Copy)]
pub enum Status<F> {
    /// It does, through this function.
    Works(F),
    /// It is known and not supported yet, for this reason.
    NotYet(&'static str),
    /// The reference removed it; the whole sentence that says so.
    Removed(&'static str),
}

/// One keyword of one section.
#[derive(Clone, Copy)]
pub struct Keyword<F> {
    /// Its words: one, or several for a family such as `timeout client`.
    pub name: &'static str,
    /// What it does, in one line.
    pub doc: &'static str,
    /// Whether it works.
    pub status: Status<F>,
    /// Read once all names of all files are known, because it holds expressions that may name what comes later.
    /// The lines of one section that are read late keep their order.
    pub late: bool,
}

/// Shorthands for the tables.
pub(crate) const fn works<F>(name: &'static str, doc: &'static str, f: F) -> Keyword<F>
where
    F: Copy,
{
    Keyword { name, doc, status: Status::Works(f), late: false }
}

/// A keyword that is read once all names are known.
pub(crate) const fn late<F: Copy>(name: &'static str, doc: &'static str, f: F) -> Keyword<F> {
    Keyword { name, doc, status: Status::Works(f), late: true }
}

pub(crate) const fn not_yet<F: Copy>(name: &'static str, doc: &'static str, why: &'static str) -> Keyword<F> {
    Keyword { name, doc, status: Status::NotYet(why), late: false }
}

pub(crate) const fn removed<F: Copy>(name: &'static str, sentence: &'static str) -> Keyword<F> {
    Keyword { name, doc: "Removed.", status: Status::Removed(sentence), late: false }
}

/// The entry of that name in a table.
pub(crate) fn find<'t, F>(table: &'t [Keyword<F>], name: &str) -> Option<&'t Keyword<F>> {
    table.iter().find(|k| k.name == name)
}

/// The nearest keyword of a table, for a suggestion.
pub(crate) fn near<F>(table: &[Keyword<F>], word: &str) -> Option<&'static str> {
    did_you_mean(word, table.iter().filter(|k| !matches!(k.status, Status::Removed(_))).map(|k| k.name))
}

/// A message with the full stop that ends it, unless it ends with a question.
pub(crate) fn sentence(message: &str) -> String {
    if message.ends_with('?') { message.to_owned() } else { format!("{message}.") }
}

/// A refusal that concerns the word at `index`, or the place where it is missing.
pub(crate) fn fail(line: &Line, index: usize, message: impl Into<String>) -> Box<Diagnostic> {
    Box::new(Diagnostic::alert_at(line.span_at(index), message))
}

/// Refuses words beyond the `max` arguments of a keyword made of `words` words.
pub(crate) fn at_most(line: &Line, words: usize, max: usize) -> Outcome {
    match line.words.get(words + max) {
        None => Ok(()),
        Some(extra) => {
            let name = (0..words).map(|i| line.text(i)).collect::<Vec<_>>().join(" ");
            Err(fail(line, words + max, format!("'{name}' cannot handle unexpected argument '{extra}'."))
                .note_boxed(match max {
                    0 => format!("'{name}' takes no argument"),
                    1 => format!("'{name}' takes one argument"),
                    n => format!("'{name}' takes at most {n} arguments"),
                }))
        }
    }
}

/// Warns about words beyond the `max` arguments of a keyword made of `words` words, where the reference passes over
/// them in silence: what a file says and what runs should not differ without a word.
pub(crate) fn pass_over(cx: &mut Cx<'_>, line: &Line, words: usize, max: usize) {
    let Some(extra) = line.words.get(words + max) else { return };
    let name = (0..words).map(|i| line.text(i)).collect::<Vec<_>>().join(" ");
    let message = format!("'{name}' ignores unexpected argument '{extra}'.");
    cx.diagnostics.push(Diagnostic::warning_at(extra.span, message));
}

/// Refuses the name of a section, its first word, with characters that names do not have.
pub(crate) fn legal_name(line: &Line) -> Outcome {
    let (keyword, name) = (line.text(0), line.text(1));
    match name.chars().find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':'))) {
        None => Ok(()),
        Some(c) => {
            let message = format!("character '{c}' is not permitted in '{keyword}' name '{name}'.");
            Err(fail(line, 1, message).note_boxed("names are made of letters, digits, '-', '_', '.' and ':'"))
        }
    }
}

/// The answer to an address of a kind that must be allowed, unless it is.
pub(crate) fn experimental_address(cx: &mut Cx<'_>, line: &Line, index: usize, title: &str) -> Outcome {
    cx.experimental_used = true;
    if cx.config.global.expose_experimental {
        return Ok(());
    }
    let message = format!(
        "{title}Address '{}' is experimental, must be allowed via a global 'expose-experimental-directives'",
        line.text(index)
    );
    Err(fail(line, index, message))
}

/// The answer to a keyword that is known and does not work yet.
pub(crate) fn not_supported(line: &Line, index: usize, what: &str, why: &str) -> Box<Diagnostic> {
    fail(line, index, format!("'{what}' is not supported yet: {why}.")).note_boxed(
        "the keyword is known and valid, it is not ignored: remove it or wait for a later version",
    )
}

/// Adding a note to a boxed diagnostic.
pub(crate) trait NoteBoxed {
    fn note_boxed(self, note: impl Into<String>) -> Self;
    fn help_boxed(self, help: impl Into<String>) -> Self;
}

impl NoteBoxed for Box<Diagnostic> {
    fn note_boxed(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    fn help_boxed(mut self, help: impl Into<String>) -> Self {
        self.help.push(help.into());
        self
    }
}
