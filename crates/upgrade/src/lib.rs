//! Configurations in the language of HAProxy 1.4 to 2.9, in today's words.
//!
//! [`upgrade`] takes the text of a file and gives it back with the lines changed that today's language lacks, each with a
//! [`Change`] that says what and why. Everything else, comments and blanks included, stays as it is. What cannot be
//! translated stays, too, below a comment that says why ([`MARK`]): the file is then refused at that line, which is
//! better than a guess.
//!
//! Nothing is read or written here, and no keyword of today is checked: a file that was wrong stays wrong.
#![forbid(unsafe_code)]

mod conditions;
mod global;
mod headers;
mod health;
mod names;
mod order;
mod proxy;
mod quote;
mod regex;
mod section;

use std::collections::HashMap;

use thalweg_syntax::carry::{carry, restore};
use thalweg_syntax::layout::{self, WrittenLine};

use names::Names;
use order::Class;
use section::Section;

/// Begins the comment above a line that could not be translated.
pub const MARK: &str = "# upgrade: ";

/// How well a line could be translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The new lines do what the old one did.
    Same,
    /// They do nearly so: the text says where they differ.
    Near,
    /// The line stays, marked: what to do is for people to decide.
    Left,
}

/// What became of one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The line in the old file, from 1.
    pub line: u32,
    /// How well it went.
    pub kind: Kind,
    /// What was done and why, as a sentence without a full stop.
    pub text: String,
}

/// An upgraded file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upgraded {
    /// Its bytes.
    pub text: Vec<u8>,
    /// What was changed, in the order of the lines.
    pub changes: Vec<Change>,
}

impl Upgraded {
    /// Whether every line could be translated.
    pub fn is_complete(&self) -> bool {
        self.changes.iter().all(|change| change.kind != Kind::Left)
    }
}

/// Translates a file.
pub fn upgrade(text: &[u8]) -> Upgraded {
    let mut changes = Vec::new();
    let text = quote::without_lone_quotes(&carry(text), &mut changes);
    let lines = layout::lines(&text);
    let sections = section::sections(&lines);
    let names = Names::new(&lines, &sections);
    let mut work = Work { changes, names, facts: Facts::new(&lines, &sections) };
    let mut out = String::with_capacity(text.len() + 256);
    for section in &sections {
        let mut pieces = Vec::new();
        for index in section.first..section.last {
            pieces.push(work.line(&lines, section, index));
        }
        order::put_in_order(&mut pieces, &mut work.changes);
        pieces.iter().flat_map(|piece| &piece.lines).for_each(|line| out.push_str(line));
    }
    work.changes.sort_by_key(|change| change.line);
    Upgraded { text: restore(out.as_bytes()).into_owned(), changes: work.changes }
}

/// What a line became.
pub(crate) struct Piece {
    /// Its lines, each with its end.
    pub lines: Vec<String>,
    /// The rules that are evaluated at a time of their own.
    pub class: Option<Class>,
    /// A comment alone on its line.
    pub comment: bool,
    /// A definition that rules refer to.
    pub is_acl: bool,
    /// A line of the preprocessor.
    pub is_directive: bool,
    /// The old line.
    pub number: u32,
}

/// What the translation of one line needs to know about others.
pub(crate) struct Facts {
    /// `nbproc`, if it is more than one.
    pub processes: Option<u32>,
    /// `nbthread` is set.
    pub has_threads: bool,
    /// Lines of servers in a section with `dispatch`, by the number of the section.
    pub dispatching: Vec<bool>,
    /// Whether a section has a line that begins with these words.
    starts: HashMap<(usize, String), u32>,
}

impl Facts {
    fn new(lines: &[WrittenLine<'_>], sections: &[Section]) -> Facts {
        let mut facts = Facts {
            processes: None,
            has_threads: false,
            dispatching: vec![false; sections.len()],
            starts: HashMap::new(),
        };
        for (number, section) in sections.iter().enumerate() {
            for line in &lines[section.first..section.last] {
                let first = line.word(0);
                match &*first {
                    "nbproc" => facts.processes = line.word(1).parse().ok().filter(|n| *n > 1),
                    "nbthread" => facts.has_threads = true,
                    "dispatch" => facts.dispatching[number] = true,
                    _ => {}
                }
                facts.starts.entry((number, format!("{first} {}", line.word(1)))).or_insert(line.number);
                facts.starts.entry((number, first.into_owned())).or_insert(line.number);
            }
        }
        facts
    }

    /// The first line of a section that begins with this word, or these two.
    pub fn line_with(&self, section: usize, words: &str) -> Option<u32> {
        self.starts.get(&(section, words.to_owned())).copied()
    }
}

/// What a handler decides about a line.
pub(crate) enum Decision {
    /// It stays as it is.
    Keep,
    /// It becomes these lines, without indentation; none: it goes.
    Become(Vec<String>, Kind, String),
    /// It stays and is marked, for this reason.
    Leave(String),
}

impl Decision {
    /// The same in other words.
    pub fn same(line: impl Into<String>, why: impl Into<String>) -> Decision {
        Decision::Become(vec![line.into()], Kind::Same, why.into())
    }

    /// Nearly the same in other words.
    pub fn near(lines: Vec<String>, why: impl Into<String>) -> Decision {
        Decision::Become(lines, Kind::Near, why.into())
    }

    /// It goes without a loss.
    pub fn gone(why: impl Into<String>) -> Decision {
        Decision::Become(Vec::new(), Kind::Same, why.into())
    }

    /// It stays.
    pub fn leave(why: impl Into<String>) -> Decision {
        Decision::Leave(why.into())
    }
}

/// A translation under way.
pub(crate) struct Work {
    changes: Vec<Change>,
    pub names: Names,
    pub facts: Facts,
}

impl Work {
    fn line(&mut self, lines: &[WrittenLine<'_>], section: &Section, index: usize) -> Piece {
        let line = &lines[index];
        let mut piece = Piece {
            lines: Vec::new(),
            class: None,
            comment: line.words.is_empty() && !line.comment.is_empty(),
            is_acl: line.word(0) == "acl",
            is_directive: line.word(0).starts_with('.'),
            number: line.number,
        };
        let is_header = index == section.first && section.has_header;
        let decision = match () {
            () if line.words.is_empty() || piece.is_directive => Decision::Keep,
            () if is_header => section::header(self, lines, section),
            () => self.body(line, section, &mut piece),
        };
        let end = if line.end.is_empty() { "\n" } else { line.end };
        if line.end.is_empty() && !line.text.is_empty() {
            self.note(line.number, Kind::Same, "the last line of a file must end with a line feed".into());
        }
        match decision {
            Decision::Keep => piece.lines.push(format!("{}{end}", line.text)),
            Decision::Become(new, kind, why) => {
                self.note(line.number, kind, why);
                let indent = line.indent();
                let comment = match (line.comment, new.is_empty()) {
                    ("", _) => String::new(),
                    (comment, true) => {
                        piece.lines.push(format!("{indent}{comment}{end}"));
                        String::new()
                    }
                    (comment, false) => format!("{}{comment}", line.gap()),
                };
                for (position, text) in new.iter().enumerate() {
                    // What follows a section's header belongs into it.
                    let indent = if is_header && position > 0 { section.indent.as_str() } else { indent };
                    let comment = if position == 0 { comment.as_str() } else { "" };
                    piece.lines.push(format!("{indent}{text}{comment}{end}"));
                }
            }
            Decision::Leave(why) => {
                let mark = format!("{}{MARK}{why}", line.indent());
                let is_marked = index.checked_sub(1).is_some_and(|before| lines[before].text == mark);
                if !is_marked {
                    piece.lines.push(format!("{mark}{end}"));
                }
                piece.lines.push(format!("{}{end}", line.text));
                self.note(line.number, Kind::Left, why);
            }
        }
        piece
    }

    /// A line that is not the header of its section.
    fn body(&mut self, line: &WrittenLine<'_>, section: &Section, piece: &mut Piece) -> Decision {
        match section.kind.as_str() {
            "global" => global::line(self, line),
            "frontend" | "backend" | "listen" | "defaults" | "ruleset" => {
                piece.class = order::class_of(line);
                proxy::line(self, line, section)
            }
            _ => Decision::Keep,
        }
    }

    pub fn note(&mut self, line: u32, kind: Kind, text: String) {
        self.changes.push(Change { line, kind, text });
    }
}
