//! What changed since a configuration was read, as edits of its lines: made to the lines that count (`show config`), and to the
//! texts with all that is around those (`commit config to`).

use std::collections::{BTreeMap, BTreeSet};

use thalweg_syntax::carry::{carry, restore};
use thalweg_syntax::layout::{self, WrittenLine};

use super::splice;
use super::{CountingLine, INDENT, Place, Words, Written, sentence, words};

/// Lines to come, in order.
pub type NewLines = Vec<Words>;

/// See the module's documentation. A section is named by the place of the line that begins it.
#[derive(Clone, Debug, Default)]
pub struct Edits {
    replaced: BTreeMap<Place, NewLines>,
    appended: BTreeMap<Place, NewLines>,
    removed: BTreeSet<Place>,
    first: NewLines,
    last: Vec<NewLines>,
}

impl Edits {
    /// These lines come in place of one; none for no line.
    pub fn replace(&mut self, place: Place, lines: NewLines) {
        self.replaced.insert(place, lines);
    }

    /// These lines come behind the others of a section.
    pub fn append(&mut self, section: Place, lines: NewLines) {
        self.appended.entry(section).or_default().extend(lines);
    }

    /// A section goes.
    pub fn remove(&mut self, section: Place) {
        self.removed.insert(section);
    }

    /// A line of a `global` section that begins the first file.
    pub fn begin_with_global(&mut self, line: Words) {
        self.first.push(line);
    }

    /// A section that ends the last file; its first line begins it.
    pub fn end_with(&mut self, section: NewLines) {
        self.last.push(section);
    }

    /// The texts with something to change.
    fn concerned(&self, texts: usize) -> BTreeSet<u32> {
        let places = self.replaced.keys().chain(self.appended.keys()).chain(&self.removed);
        let mut all: BTreeSet<u32> = places.map(|place| place.text).collect();
        if !self.first.is_empty() {
            all.insert(0);
        }
        if !self.last.is_empty() {
            all.insert(u32::try_from(texts.saturating_sub(1)).unwrap_or(0));
        }
        all
    }

    /// The lines as they are with these edits.
    pub fn lines(&self, lines: &[CountingLine]) -> Vec<CountingLine> {
        let mut all = Vec::with_capacity(lines.len());
        let mut section = None;
        if !self.first.is_empty() {
            all.push(added(words(["global"]), true));
            all.extend(self.first.iter().map(|line| added(line.clone(), false)));
        }
        for line in lines {
            if line.opens {
                self.end_section(section, &mut all);
                section = line.place;
            }
            if section.is_some_and(|section| self.removed.contains(&section)) {
                continue;
            }
            match line.place.and_then(|place| self.replaced.get(&place)) {
                None => all.push(line.clone()),
                Some(lines) => all
                    .extend(lines.iter().map(|words| CountingLine { words: words.clone(), ..line.clone() })),
            }
        }
        self.end_section(section, &mut all);
        for section in &self.last {
            all.extend(section.iter().enumerate().map(|(at, line)| added(line.clone(), at == 0)));
        }
        all
    }

    fn end_section(&self, section: Option<Place>, all: &mut Vec<CountingLine>) {
        let appended = section.and_then(|section| self.appended.get(&section));
        all.extend(appended.into_iter().flatten().map(|line| added(line.clone(), false)));
    }

    /// The texts of the files with these edits. All that is around the words that changed stays as it is.
    ///
    /// # Errors
    /// The texts would not say it, because of what is around the lines: a sentence for people.
    pub fn texts(&self, written: &Written, lines: &[CountingLine]) -> Result<Vec<Vec<u8>>, String> {
        let concerned = self.concerned(written.texts().len());
        let last = written.texts().len().saturating_sub(1);
        let mut texts = Vec::with_capacity(written.texts().len());
        for (at, text) in written.texts().iter().enumerate() {
            let number = u32::try_from(at).unwrap_or(u32::MAX);
            texts.push(match concerned.contains(&number) {
                false => text.bytes.to_vec(),
                true => self.text(number, &text.bytes, lines, at == last)?,
            });
        }
        let expected = self.lines(lines);
        let found = written.lines_of(texts.iter().cloned())?;
        match expected.iter().zip(&found).find(|(expected, found)| expected.words != found.words) {
            None if expected.len() == found.len() => Ok(texts),
            differing => {
                let what =
                    differing.map_or_else(String::new, |(line, _)| format!(" '{}'", sentence(&line.words)));
                Err(format!(
                    "the lines around{what} stand in the way, such as '.if' or 'setenv': write it by hand"
                ))
            }
        }
    }

    fn text(
        &self,
        number: u32,
        bytes: &[u8],
        lines: &[CountingLine],
        is_last: bool,
    ) -> Result<Vec<u8>, String> {
        let text = carry(bytes);
        let raw = layout::lines(&text);
        let sections = sections(number, lines, &raw);
        let mut gone = BTreeSet::new();
        let mut behind: BTreeMap<u32, (String, &NewLines)> = BTreeMap::new();
        for section in &sections {
            let place = Place { text: number, line: section.first };
            if self.removed.contains(&place) {
                gone.extend(section.range(&raw)?);
            }
            if let Some(lines) = self.appended.get(&place) {
                behind.insert(section.end(&raw), (section.indent.clone(), lines));
            }
        }
        let said: BTreeMap<u32, &CountingLine> = lines
            .iter()
            .filter_map(|line| Some((line.place.filter(|place| place.text == number)?.line, line)))
            .collect();
        let mut out = String::with_capacity(text.len() + 256);
        if number == 0 && !self.first.is_empty() {
            out.push_str("global\n");
            self.first.iter().for_each(|line| splice::line(&mut out, INDENT, line, "\n"));
            out.push('\n');
        }
        for line in &raw {
            let replaced = self.replaced.get(&Place { text: number, line: line.number });
            match (replaced, said.get(&line.number)) {
                _ if gone.contains(&line.number) => {}
                (Some(lines), Some(said)) => splice::replace(&mut out, line, &said.words, lines),
                _ => out.extend([line.text, line.end]),
            }
            if let Some((indent, lines)) = behind.get(&line.number) {
                let end = splice::end_line(&mut out, line);
                lines.iter().for_each(|words| splice::line(&mut out, indent, words, end));
            }
        }
        if is_last && !self.last.is_empty() {
            self.last.iter().for_each(|section| splice::section(&mut out, section));
        }
        Ok(restore(out.as_bytes()).into_owned())
    }
}

fn added(words: Words, opens: bool) -> CountingLine {
    CountingLine { place: None, words, opens }
}

/// A section of one text, by numbers of lines.
struct Section {
    /// The line that begins it, and the last one that counts.
    first: u32,
    last: u32,
    /// The blanks before its lines.
    indent: String,
}

/// The sections of a text, in order.
fn sections(number: u32, lines: &[CountingLine], raw: &[WrittenLine<'_>]) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for line in lines {
        let Some(place) = line.place.filter(|place| place.text == number) else { continue };
        if line.opens {
            sections.push(Section { first: place.line, last: place.line, indent: INDENT.to_owned() });
        } else if let Some(section) = sections.last_mut() {
            if section.last == section.first
                && let Some(raw) = raw.get(place.line as usize - 1)
            {
                raw.indent().clone_into(&mut section.indent);
            }
            section.last = place.line;
        }
    }
    sections
}

/// Whether a line is one of the preprocessor.
fn is_directive(line: &WrittenLine<'_>) -> bool {
    line.words.first().is_some_and(|word| word.raw.starts_with('.'))
}

impl Section {
    /// Its lines in the text, to be taken out.
    fn range(&self, raw: &[WrittenLine<'_>]) -> Result<std::ops::RangeInclusive<u32>, String> {
        let next = raw.iter().skip(self.last as usize).find(|line| layout::begins_section(line));
        let end = next.map_or(raw.len(), |line| line.number as usize - 1);
        if raw[self.first as usize - 1..end].iter().any(is_directive) {
            let header = raw[self.first as usize - 1].text;
            return Err(format!(
                "'{header}' is gone, and has '.if' or the like among its lines: take it out by hand"
            ));
        }
        Ok(self.first..=self.last)
    }

    /// The line behind which lines join it: the last one that counts, or the end of what that is in.
    fn end(&self, raw: &[WrittenLine<'_>]) -> u32 {
        let mut depth = 0i32;
        for line in &raw[self.first as usize..] {
            match line.words.first().map(|word| word.raw) {
                Some(".if") => depth += 1,
                Some(".endif") => depth -= 1,
                _ => {}
            }
            if line.number >= self.last && depth <= 0 {
                return line.number;
            }
        }
        self.last
    }
}
