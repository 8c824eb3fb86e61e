//! From a file to the lines that count: runs the preprocessor and gives each remaining line as words.

use crate::condition::{Facts, evaluate_condition, near_predicate};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::environment::Environment;
use crate::source::{FileId, SourceMap, Span};
use crate::suggest::did_you_mean;
use crate::tokenizer::{Line, TokenErrorKind, Variables, Word, tokenize};

/// An `.if` at this depth is refused, like the reference does: 99 levels can be open.
pub const NESTED_IF_MAX: usize = 100;

/// The directives of the preprocessor.
const DIRECTIVES: [&str; 8] = [".if", ".elif", ".else", ".endif", ".diag", ".notice", ".warning", ".alert"];

/// Reads files line by line. The caller says which section it is in and may change the environment and the facts
/// between two lines, as `setenv` and `noepoll` do: the lines that follow see the change.
#[derive(Debug)]
pub struct Reader {
    /// What `.if` predicates are answered from.
    pub facts: Facts,
    /// What variables are replaced from.
    pub environment: Environment,
    section: String,
    file: Option<FileId>,
    /// The last line read, from 1.
    number: u32,
    blocks: Vec<Block>,
}

#[derive(Debug)]
struct Block {
    opened: Span,
    state: BlockState,
    else_seen: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockState {
    /// The lines of this branch count.
    Active,
    /// No branch was taken yet; the lines of this one do not count.
    Waiting,
    /// A branch was taken before, or the block is inside one that does not count, or its condition cannot be
    /// evaluated: nothing more counts up to `.endif`.
    Finished,
}

impl Reader {
    /// A reader that has no file yet.
    pub fn new(facts: Facts, environment: Environment) -> Self {
        let (section, blocks) = (String::new(), Vec::new());
        Self { facts, environment, section, file: None, number: 0, blocks }
    }

    /// Begins a file. The previous one must have been read to its end.
    pub fn start_file(&mut self, file: FileId) {
        self.file = Some(file);
        self.number = 0;
        self.section.clear();
        self.blocks.clear();
    }

    /// Gives `.SECTION` its value: the name of the section, or its type when it has no name.
    pub fn set_section(&mut self, name: &str) {
        self.section.clear();
        self.section.push_str(name);
    }

    /// The next line that counts, or `None` at the end of the file. Lines that cannot be read are reported and
    /// left out.
    pub fn next_line(&mut self, sources: &SourceMap, diagnostics: &mut Diagnostics) -> Option<Line> {
        let file = self.file?;
        loop {
            let Some((text, terminated)) = sources.line_with_terminator(file, self.number + 1) else {
                self.end_of_file(file, sources, diagnostics);
                return None;
            };
            self.number += 1;
            if !terminated {
                let message = format!(
                    "Missing LF on last line, file might have been truncated at position {}.",
                    text.len() + 1
                );
                let place = self.place(file, text.len(), text.len());
                let help = "end the last line with a line feed";
                diagnostics.push(Diagnostic::alert_at(place, message).help(help));
            }
            let variables = Variables {
                environment: &self.environment,
                file: sources.name(file),
                line: self.number,
                section: &self.section,
            };
            let words = match tokenize(text, file, self.number, &variables) {
                Ok(words) => words,
                Err(error) => {
                    let column = error.column as usize;
                    let place = self.place(file, column, column + error.width as usize);
                    let mut diagnostic = Diagnostic::alert_at(place, error.message());
                    if let Some(help) = error.help() {
                        diagnostic = diagnostic.help(help);
                    }
                    if error.kind == TokenErrorKind::UnmatchedBrace {
                        diagnostic = diagnostic.note("a variable ends at the first '}' of its line");
                    }
                    diagnostics.push(diagnostic);
                    continue;
                }
            };
            // A line whose first word is empty says nothing; the reference passes over it as well.
            if words.first().is_none_or(Word::is_empty) {
                if let Some(word) = words.first() {
                    let message = "this line begins with an empty word and is ignored";
                    diagnostics.push(Diagnostic::diag_at(word.span, message));
                }
                continue;
            }
            let line = Line { words, file, number: self.number };
            if line.keyword().bytes().starts_with(b".") {
                self.directive(&line, diagnostics);
                continue;
            }
            if !self.active() {
                continue;
            }
            if let Some(index) = line.words.iter().position(Word::is_empty) {
                diagnostics.push(empty_word(&line, index));
                continue;
            }
            return Some(line);
        }
    }

    fn place(&self, file: FileId, start: usize, end: usize) -> Span {
        Span { file, line: self.number, start: start as u32, end: end as u32 }
    }

    /// Whether the lines at this place count.
    fn active(&self) -> bool {
        self.blocks.last().is_none_or(|block| block.state == BlockState::Active)
    }

    fn end_of_file(&mut self, file: FileId, sources: &SourceMap, diagnostics: &mut Diagnostics) {
        if let Some(block) = self.blocks.last() {
            let length = sources.line(file, self.number).map_or(0, <[u8]>::len);
            let diagnostic =
                Diagnostic::alert_at(self.place(file, length, length), "non-terminated '.if' block.")
                    .related(block.opened, "the '.if' without an '.endif' is here")
                    .help("close the block with '.endif'");
            diagnostics.push(diagnostic);
            diagnostics.abort();
        }
        self.blocks.clear();
        self.file = None;
    }

    fn directive(&mut self, line: &Line, diagnostics: &mut Diagnostics) {
        let name = line.keyword().text();
        match name {
            ".if" => self.open_block(line, diagnostics),
            ".elif" => self.alternative(line, true, diagnostics),
            ".else" => self.alternative(line, false, diagnostics),
            ".endif" => {
                no_arguments(line, diagnostics);
                if self.blocks.pop().is_none() {
                    lone(line, diagnostics);
                }
            }
            _ if !self.active() => {}
            ".diag" | ".notice" | ".warning" | ".alert" => message(line, diagnostics),
            _ => {
                let mut text = format!("unknown directive '{name}'.");
                if let Some(near) = did_you_mean(name, DIRECTIVES) {
                    text = format!("unknown directive '{name}'; did you mean '{near}' maybe ?");
                }
                let note = format!("directives are {}", DIRECTIVES.join(", "));
                diagnostics.push(Diagnostic::alert_at(line.keyword().span, text).note(note));
            }
        }
    }

    fn open_block(&mut self, line: &Line, diagnostics: &mut Diagnostics) {
        let opened = line.keyword().span;
        if self.blocks.len() + 1 >= NESTED_IF_MAX {
            // Reported once: the block is counted, so that its `.endif` finds it, but never evaluated.
            if self.blocks.len() + 1 == NESTED_IF_MAX {
                let message = format!("too many nested '.if', max is {NESTED_IF_MAX}.");
                diagnostics.alert(opened, message);
                diagnostics.abort();
            }
            self.blocks.push(Block { opened, state: BlockState::Finished, else_seen: false });
            return;
        }
        let state = if self.active() { self.evaluate(line, diagnostics) } else { BlockState::Finished };
        self.blocks.push(Block { opened, state, else_seen: false });
    }

    fn alternative(&mut self, line: &Line, conditional: bool, diagnostics: &mut Diagnostics) {
        if !conditional {
            no_arguments(line, diagnostics);
        }
        let Some(block) = self.blocks.last() else {
            lone(line, diagnostics);
            return;
        };
        if block.else_seen {
            let name = line.keyword();
            let diagnostic =
                Diagnostic::alert_at(name.span, format!("'{name}' after '.else' is not permitted."))
                    .related(block.opened, "the block begins here");
            diagnostics.push(diagnostic);
            diagnostics.abort();
            return;
        }
        let state = match block.state {
            BlockState::Active | BlockState::Finished => BlockState::Finished,
            BlockState::Waiting if conditional => self.evaluate(line, diagnostics),
            BlockState::Waiting => BlockState::Active,
        };
        if let Some(block) = self.blocks.last_mut() {
            block.state = state;
            block.else_seen = !conditional;
        }
    }

    /// Evaluates the condition on a line: its words, joined by single blanks.
    fn evaluate(&self, line: &Line, diagnostics: &mut Diagnostics) -> BlockState {
        let mut text = Vec::new();
        let mut starts = Vec::new();
        for word in line.arguments() {
            if !starts.is_empty() {
                text.push(b' ');
            }
            starts.push(text.len());
            text.extend_from_slice(word.bytes());
        }
        match evaluate_condition(&text, &self.facts, &self.environment) {
            Ok(true) => BlockState::Active,
            Ok(false) => BlockState::Waiting,
            Err(error) => {
                let index = starts.partition_point(|start| *start <= error.at);
                let place = match index.checked_sub(1).and_then(|i| Some((i, line.arguments().get(i)?))) {
                    Some((i, word)) if error.at - starts[i] < word.len() => {
                        let at = error.at - starts[i];
                        word.span_of(at..at + 1)
                    }
                    Some((_, word)) => Span { start: word.span.end, ..word.span },
                    None => line.end(),
                };
                let name = line.keyword();
                let message = format!("{} in '{name}' at position {}:", error.message, error.at + 1);
                let mut diagnostic = Diagnostic::alert_at(place, message);
                let rest = String::from_utf8_lossy(&text[error.at.min(text.len())..]).into_owned();
                if error.message.starts_with("unparsable")
                    && let Some(near) = near_predicate(&rest)
                {
                    diagnostic = diagnostic.help(format!("did you mean the predicate '{near}' maybe ?"));
                }
                diagnostics.push(diagnostic);
                diagnostics.abort();
                BlockState::Finished
            }
        }
    }
}

fn lone(line: &Line, diagnostics: &mut Diagnostics) {
    let name = line.keyword();
    diagnostics.alert(name.span, format!("lone '{name}' with no matching '.if'."));
    diagnostics.abort();
}

fn no_arguments(line: &Line, diagnostics: &mut Diagnostics) {
    if let Some(extra) = line.word(1) {
        let message = format!("Unexpected argument '{extra}' for '{}'.", line.keyword());
        diagnostics.alert(extra.span, message);
        diagnostics.abort();
    }
}

fn message(line: &Line, diagnostics: &mut Diagnostics) {
    let name = line.keyword();
    if let Some(extra) = line.word(2) {
        let message = format!(
            "Unexpected argument '{extra}' for '{name}'. Use quotes if the message should contain spaces."
        );
        diagnostics.alert(line.span_from(2), message);
        return;
    }
    let text = format!("'{}'.", line.text(1));
    // The message is the author's own: quoting the line below it would only repeat it.
    let diagnostic = match name.text() {
        ".diag" => Diagnostic::diag_at(name.span, text),
        ".notice" => Diagnostic::notice_at(name.span, text),
        ".warning" => Diagnostic::warning_at(name.span, text),
        _ => {
            diagnostics.abort();
            Diagnostic::alert_at(name.span, text)
        }
    };
    diagnostics.push(diagnostic.unquoted());
}

fn empty_word(line: &Line, index: usize) -> Diagnostic {
    let word = &line.words[index];
    let message = format!(
        "argument number {index} at position {} is empty and marks the end of the argument list:",
        word.span.start + 1
    );
    Diagnostic::alert_at(word.span, message).note("what follows an empty word would be ignored").help(
        "if a variable is empty, give it a default (\"${NAME-value}\") or let it vanish (\"${NAME[*]}\"): \
             see section 2.3 of the configuration manual",
    )
}
