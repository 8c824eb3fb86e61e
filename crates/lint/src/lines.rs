//! Lines in their sections.

use std::borrow::Cow;
use std::collections::HashMap;

use thalweg_syntax::layout::{self, WrittenLine};

use crate::{Known, Lines, Section};

/// Puts lines into sections. Those under `.if` are all looked at, whichever of them count today.
pub fn collect<'a>(files: Vec<Vec<WrittenLine<'a>>>, known: &'a Known) -> Lines<'a> {
    let mut sections: Vec<Section<'a>> = Vec::new();
    let mut defaults = None;
    let mut named: HashMap<String, usize> = HashMap::new();
    for (file, lines) in files.into_iter().enumerate() {
        for line in lines.into_iter().filter(|line| !line.words.is_empty() && !line.broken) {
            if layout::begins_section(&line) {
                let (kind, name) = (line.word(0).into_owned(), line.word(1).into_owned());
                let from = (1..line.words.len()).find(|at| line.word(*at) == "from");
                let parent = match from {
                    Some(at) => named.get(&*line.word(at + 1)).copied(),
                    None if kind == "defaults" => None,
                    None => defaults,
                };
                if kind == "defaults" {
                    defaults = Some(sections.len());
                    named.insert(name.clone(), sections.len());
                }
                sections.push(Section { kind, name, lines: Vec::new(), defaults: parent });
            }
            if let Some(section) = sections.last_mut() {
                section.lines.push((file, line));
            }
        }
    }
    Lines { sections, known }
}

impl<'a> Section<'a> {
    /// Whether it is one of these kinds.
    pub fn is(&self, kinds: &[&str]) -> bool {
        kinds.contains(&self.kind.as_str())
    }

    /// Its lines that begin with these words.
    pub fn with<'s>(
        &'s self,
        words: &'s [&'s str],
    ) -> impl Iterator<Item = &'s (usize, WrittenLine<'a>)> + 's {
        self.lines.iter().skip(1).filter(move |(_, line)| begins(line, words))
    }
}

/// Whether a line begins with these words.
pub fn begins(line: &WrittenLine<'_>, words: &[&str]) -> bool {
    words.iter().enumerate().all(|(at, word)| line.word(at) == *word)
}

impl<'a> Lines<'a> {
    /// The lines of a section that begin with these words, and those it inherits.
    pub fn inherited<'s>(
        &'s self,
        section: &'s Section<'a>,
        words: &'s [&'s str],
    ) -> Vec<&'s (usize, WrittenLine<'a>)> {
        let mut all: Vec<_> = section.with(words).collect();
        let mut parent = section.defaults;
        // A `defaults` section may inherit from one before it, never from itself.
        while let Some(number) = parent {
            all.extend(self.sections[number].with(words));
            parent = self.sections[number].defaults.filter(|next| *next < number);
        }
        all
    }

    /// `mode http`, of its own or inherited.
    pub fn is_http(&self, section: &Section<'a>) -> bool {
        self.inherited(section, &["mode"]).first().is_some_and(|(_, line)| line.word(1) == "http")
    }
}

/// The condition on a line: the position of `if` or `unless`.
pub fn condition(line: &WrittenLine<'_>) -> Option<usize> {
    (1..line.words.len()).find(|at| matches!(&*line.word(*at), "if" | "unless"))
}

/// The words of a line from a position on, as text.
pub fn text(line: &WrittenLine<'_>, from: usize) -> String {
    let words: Vec<Cow<'_, str>> = line.words.iter().skip(from).map(|word| word.text()).collect();
    words.join(" ")
}
