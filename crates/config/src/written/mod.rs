//! The texts that a configuration was read from, kept for whoever asks what is in force (`show config`) and writes it back
//! (`commit config to`).
//!
//! Nothing is printed from the model: what counts are the lines of the texts, cut into words again, with edits for what
//! changed since ([`Edits`]). So every keyword comes out as it went in, whatever it is, and what a person wrote around the
//! words stays where it is.

mod edit;
mod quote;
mod server;
mod splice;

use std::sync::Arc;

use thalweg_syntax::{Environment, Facts, Line, RenderOptions, SourceMap};

use crate::build::Cx;
use crate::keyword::find;
use crate::load::{Event, Input, LoadOptions, for_each_line};
use crate::table::SECTIONS;
use crate::{global, model::Config};

pub use edit::{Edits, NewLines};
pub use quote::{quoted, sentence};
pub use server::ServerWords;

/// A configuration file, as it was read.
#[derive(Clone, Debug)]
pub struct Text {
    /// Its name, as the command line has it.
    pub name: Arc<str>,
    pub bytes: Arc<[u8]>,
}

/// See the module's documentation.
#[derive(Clone, Debug, Default)]
pub struct Written {
    texts: Vec<Text>,
    /// What `.if` and variables were answered from.
    facts: Facts,
    environment: Environment,
    local_peer: Option<String>,
}

/// A line of a text: the position of the text, and the line's number from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    pub text: u32,
    pub line: u32,
}

/// What a line says: its words without quotes, with variables replaced. Bytes that are not UTF-8 are carried in them
/// ([`thalweg_syntax::carry`]).
pub type Words = Vec<Box<str>>;

/// A line that counts: no comment, and no `.if` passes it over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountingLine {
    /// Where it is; absent of one that is in no text.
    pub place: Option<Place>,
    pub words: Words,
    /// It begins a section.
    pub opens: bool,
}

/// Words from texts.
pub fn words<S: AsRef<str>>(all: impl IntoIterator<Item = S>) -> Words {
    all.into_iter().map(|word| Box::from(word.as_ref())).collect()
}

/// Keywords of `global` that change how the lines after them are read.
const CONTEXT: [&str; 11] = [
    "setenv",
    "presetenv",
    "unsetenv",
    "resetenv",
    "noepoll",
    "nopoll",
    "nosplice",
    "noreuseport",
    "nogetaddrinfo",
    "tune.disable-fast-forward",
    "tune.disable-zero-copy-forwarding",
];

impl Written {
    pub(crate) fn of(options: &LoadOptions<'_>, sources: &SourceMap) -> Written {
        let text = |file| Text { name: sources.name(file).into(), bytes: sources.text(file).into() };
        Written {
            texts: sources.files().map(text).collect(),
            facts: options.facts.clone(),
            environment: options.environment.clone(),
            local_peer: options.local_peer.clone(),
        }
    }

    /// The files, in the order in which they were read.
    pub fn texts(&self) -> &[Text] {
        &self.texts
    }

    /// Where a line is of the file with that name.
    pub fn place(&self, file: &str, line: u32) -> Option<Place> {
        let text = self.texts.iter().position(|text| &*text.name == file)?;
        Some(Place { text: u32::try_from(text).ok()?, line })
    }

    /// The lines that count, in order, as they were read.
    pub fn lines(&self) -> Vec<CountingLine> {
        self.lines_of(self.texts.iter().map(|text| text.bytes.to_vec())).unwrap_or_default()
    }

    /// The lines that would count, were these the texts of the files.
    ///
    /// # Errors
    /// They cannot be cut into words: messages for people.
    pub fn lines_of(&self, texts: impl Iterator<Item = Vec<u8>>) -> Result<Vec<CountingLine>, String> {
        let input = |(of, text): (&Text, Vec<u8>)| Input::Memory { name: of.name.to_string(), text };
        let options = LoadOptions {
            files: self.texts.iter().zip(texts).map(input).collect(),
            facts: self.facts.clone(),
            environment: self.environment.clone(),
            local_peer: self.local_peer.clone(),
            ..LoadOptions::default()
        };
        let mut cx = Cx::new(&options);
        let (mut lines, mut in_global) = (Vec::new(), false);
        for_each_line(&mut cx, |cx, event| {
            let Event::Line(line) = event else {
                in_global = false;
                return;
            };
            let opens = find(SECTIONS, line.text(0)).is_some();
            if opens {
                cx.reader.set_section(line.text(usize::from(line.words.len() > 1)));
                in_global = line.text(0) == "global";
            }
            lines.push(counting(&line, opens));
            if in_global && CONTEXT.contains(&line.text(0)) {
                // It was accepted before.
                let _ = global::line(cx, line);
            }
        });
        if cx.diagnostics.has_errors() || cx.diagnostics.aborted() {
            let pid = std::process::id();
            return Err(cx.diagnostics.render(&cx.sources, RenderOptions { pid, diagnostic_mode: false }));
        }
        Ok(lines)
    }

    /// All lines as those of one file that means the same wherever it is: what `default-path` takes from the names of files
    /// is said in words.
    pub fn in_one_file(&self, lines: Vec<CountingLine>) -> Vec<CountingLine> {
        let mut all = Vec::with_capacity(lines.len());
        let (mut mode, mut text): (Option<Box<str>>, Option<u32>) = (None, None);
        for mut line in lines {
            let here = line.place.map(|place| place.text).or(text);
            let is_policy = &*line.words[0] == "default-path";
            if let Some(mode) = mode.as_deref().filter(|_| here != text && !is_policy) {
                for words in [words(["global"]), self.default_path(mode, here)] {
                    all.push(CountingLine { place: None, opens: words.len() == 1, words });
                }
            }
            text = here;
            if is_policy {
                mode = line.words.get(1).filter(|mode| matches!(&***mode, "config" | "parent")).cloned();
                if let Some(mode) = &mode {
                    line.words = self.default_path(mode, here);
                }
            }
            all.push(line);
        }
        all
    }

    /// What `default-path config` or `default-path parent` means in one of the files.
    fn default_path(&self, mode: &str, text: Option<u32>) -> Words {
        let name = text.and_then(|text| self.texts.get(text as usize)).map_or("", |text| &*text.name);
        match (name.rsplit_once('/'), mode) {
            (None, "config") => words(["default-path", "current"]),
            (None, _) => words(["default-path", "origin", ".."]),
            (Some((directory, _)), "config") => words(["default-path", "origin", &format!("{directory}/")]),
            (Some((directory, _)), _) => words(["default-path", "origin", &format!("{directory}/..")]),
        }
    }
}

fn counting(line: &Line, opens: bool) -> CountingLine {
    let place = Place { text: u32::try_from(line.file.index()).unwrap_or(u32::MAX), line: line.number };
    CountingLine { place: Some(place), words: words(line.words.iter().map(|word| word.text())), opens }
}

/// Blanks before what is in a section, as `thalweg fmt` has them.
const INDENT: &str = "    ";

impl CountingLine {
    /// As a file has it, without its end.
    pub fn text(&self) -> String {
        format!("{}{}", if self.opens { "" } else { INDENT }, sentence(&self.words))
    }
}

impl Config {
    /// The texts that this was read from.
    pub fn written(&self) -> &Arc<Written> {
        &self.written
    }
}
