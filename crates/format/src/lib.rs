//! The canonical layout of a configuration: `thalweg fmt`.
//!
//! [`format`] changes blanks and nothing else. Words stay as they are written, with their quotes; comments stay, and go
//! with what they are about:
//!
//! - Sections begin at the left edge, below one empty line; what is in them is indented by four blanks.
//! - Between `.if` and `.endif` the lines of a section are indented by four more; whole sections are not.
//! - One blank is between two words, two before a comment at the end of a line.
//! - A comment on a line of its own is where the line below it is. Above an empty line it keeps to the left edge if it is
//!   there and a section, or nothing, comes next; otherwise it belongs to the section it is in.
//! - There is never more than one empty line, none at the start or at the end, and each line ends with a line feed.
#![forbid(unsafe_code)]

use thalweg_syntax::carry::{carry, restore};
use thalweg_syntax::layout::{self, WrittenLine};

/// Blanks of one level.
const INDENT: &str = "    ";

/// Lays a file out anew.
pub fn format(text: &[u8]) -> Vec<u8> {
    let text = carry(text);
    let lines = layout::lines(&text);
    let places = places(&lines);
    let (code, stop) = ahead(&lines, &places);
    let mut out = Out { text: String::with_capacity(text.len()), blank: false, in_comment: false };
    let mut section_level = 0;
    for (index, line) in lines.iter().enumerate() {
        if line.is_blank() {
            out.blank = true;
            out.in_comment = false;
        } else if let Some(place) = &places[index] {
            out.blank |= place.apart && !out.in_comment;
            out.in_comment = false;
            out.line(place.level, line);
            section_level = place.below;
        } else {
            match places.get(stop[index]).and_then(Option::as_ref) {
                Some(place) => {
                    out.blank |= place.apart && !out.in_comment;
                    out.line(place.above, line);
                }
                None => {
                    let ends_section = lines.get(code[index]).is_none_or(layout::begins_section);
                    let at_edge = line.indent().is_empty() && ends_section;
                    out.line(if at_edge { 0 } else { section_level }, line);
                }
            }
            out.in_comment = true;
        }
    }
    restore(out.text.as_bytes()).into_owned()
}

/// For each line the next one, itself included, that is more than a comment; and the same or an empty one. The number of lines
/// where there is none.
fn ahead(lines: &[WrittenLine<'_>], places: &[Option<Place>]) -> (Vec<usize>, Vec<usize>) {
    let none = lines.len();
    let (mut code, mut stop) = (vec![none; none], vec![none; none]);
    for at in (0..none).rev() {
        let after = |next: &[usize]| next.get(at + 1).copied().unwrap_or(none);
        let is_code = places[at].is_some();
        code[at] = if is_code { at } else { after(&code) };
        stop[at] = if is_code || lines[at].is_blank() { at } else { after(&stop) };
    }
    (code, stop)
}

/// Where a line that is more than a comment goes.
struct Place {
    /// How far it is indented.
    level: usize,
    /// How far comments directly above it are.
    above: usize,
    /// How far comments below it are that nothing follows directly.
    below: usize,
    /// An empty line is above it, and above its comments.
    apart: bool,
}

/// What is open at a line.
#[derive(Default)]
struct Open {
    /// For each `.if`, whether it indents what is in it.
    blocks: Vec<bool>,
    /// How many of them do.
    deeper: usize,
    in_section: bool,
}

impl Open {
    fn begin(&mut self, indents: bool) {
        self.blocks.push(indents);
        self.deeper += usize::from(indents);
    }

    fn end(&mut self) -> Option<bool> {
        let indents = self.blocks.pop();
        self.deeper -= usize::from(indents == Some(true));
        indents
    }

    /// How far lines of a section are indented there.
    fn level(&self) -> usize {
        usize::from(self.in_section) + self.deeper
    }
}

fn places(lines: &[WrittenLine<'_>]) -> Vec<Option<Place>> {
    let holds_sections = holding_sections(lines);
    let mut open = Open::default();
    let mut places = Vec::with_capacity(lines.len());
    for (index, line) in lines.iter().enumerate() {
        if line.words.is_empty() && !line.broken {
            places.push(None);
            continue;
        }
        let here = open.level();
        places.push(Some(match &*line.word(0) {
            ".if" if holds_sections[index] => {
                open.begin(false);
                Place { level: 0, above: 0, below: here, apart: true }
            }
            ".if" => {
                open.begin(true);
                Place { level: here, above: here, below: here + 1, apart: false }
            }
            ".elif" | ".else" => match open.blocks.last() {
                Some(false) => Place { level: 0, above: here, below: here, apart: false },
                Some(true) => Place { level: here.saturating_sub(1), above: here, below: here, apart: false },
                None => Place { level: here, above: here, below: here, apart: false },
            },
            ".endif" => {
                let block = open.end();
                let outside = open.level();
                let level = if block == Some(false) { 0 } else { outside };
                Place { level, above: here, below: outside, apart: false }
            }
            _ if layout::begins_section(line) => {
                open.in_section = true;
                Place { level: 0, above: 0, below: open.level(), apart: true }
            }
            _ => Place { level: here, above: here, below: here, apart: false },
        }));
    }
    places
}

/// For each line whether it is an `.if` before whose `.endif` sections begin.
fn holding_sections(lines: &[WrittenLine<'_>]) -> Vec<bool> {
    let mut holding = vec![false; lines.len()];
    let mut open: Vec<usize> = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        match &*line.word(0) {
            ".if" => open.push(index),
            ".endif" => _ = open.pop(),
            _ if layout::begins_section(line) => {
                // Around one that holds some already, all do.
                for at in open.iter().rev() {
                    if std::mem::replace(&mut holding[*at], true) {
                        break;
                    }
                }
            }
            _ => {}
        }
    }
    holding
}

struct Out {
    text: String,
    /// An empty line is to come before the next one.
    blank: bool,
    /// The last line is a comment that stands alone.
    in_comment: bool,
}

impl Out {
    fn line(&mut self, level: usize, line: &WrittenLine<'_>) {
        if std::mem::take(&mut self.blank) && !self.text.is_empty() {
            self.text.push('\n');
        }
        for _ in 0..level {
            self.text.push_str(INDENT);
        }
        if line.broken {
            // It is refused whatever it looks like.
            self.text.push_str(line.text.trim_matches([' ', '\t', '\r']));
        } else {
            self.words(line);
        }
        self.text.push('\n');
    }

    fn words(&mut self, line: &WrittenLine<'_>) {
        let mut gap = "";
        for word in &line.words {
            self.text.push_str(gap);
            self.text.push_str(word.raw);
            gap = if escapes_blank(word.raw) { "\t" } else { " " };
        }
        if !line.comment.is_empty() {
            if !line.words.is_empty() {
                self.text.push_str(if gap == "\t" { "\t" } else { "  " });
            }
            self.text.push_str(line.comment);
        }
    }
}

/// Whether a blank after this word would be part of it: it ends with a backslash that stands for itself.
fn escapes_blank(word: &str) -> bool {
    word.ends_with('\\')
        && layout::lines(&format!("{word} x")).first().is_some_and(|line| line.words.len() == 1)
}
