//! The text that a file is to have with all that was changed at run time (`commit config to`).

use std::collections::VecDeque;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use thalweg_config::written::Written;

use super::Running;
use super::save::digest;

/// The text of a file, with its changes.
pub struct Commit {
    pub text: Vec<u8>,
    /// The text that the file had when it was read; none if it is none of the configuration's.
    pub before: Option<Vec<u8>>,
    /// What was changed, as lines.
    pub changes: Vec<String>,
    /// What is left out, for no line can say it.
    pub left_out: Vec<String>,
}

impl Commit {
    /// What was written to a file, as lines for people.
    pub fn said(&self, name: &str) -> String {
        let mut said = match self.changes.len() {
            0 => format!("{name} has the configuration in force: nothing was changed at run time.\n"),
            _ => format!("{name} has what was changed at run time:\n"),
        };
        self.changes.iter().for_each(|line| said.extend([line, "\n"]));
        if !self.left_out.is_empty() {
            said.push_str("Left out, for no line can say it:\n");
            self.left_out.iter().for_each(|line| said.extend([line, "\n"]));
        }
        said
    }
}

impl Running {
    /// What the file called `name` is to hold. What no line can say is left out if that is wanted (`partly`).
    ///
    /// # Errors
    /// Why it cannot be written, and what to do: lines for people.
    pub fn commit(&self, name: &str, partly: bool) -> Result<Commit, String> {
        let left_out: Vec<String> =
            self.unwritten().map(|(difference, detail)| difference.line(0, Some(detail))).collect();
        if !left_out.is_empty() && !partly {
            return Err(format!(
                "No line of a configuration can say this:\n{}\nTake it back, or leave it out with 'partly' behind the name of the file. \
                 Nothing was written.\n",
                left_out.join("\n")
            ));
        }
        let refused = |why: String| format!("{why}. Nothing was written.\n");
        let mut texts = self.edits.texts(&self.written, &self.lines).map_err(refused)?;
        let own = self.own_text(name);
        let before = own.map(|at| self.written.texts()[at].bytes.to_vec());
        let text = match own {
            _ if texts.len() == 1 => texts.remove(0),
            Some(at) => {
                let others = self.written.texts().iter().zip(&texts).enumerate();
                let mut changed = others.filter(|(other, (text, now))| *other != at && *text.bytes != ***now);
                if let Some((_, (text, _))) = changed.next() {
                    return Err(refused(format!(
                        "There are changes for {} as well: name a file that is none of the configuration's, which gets all of them",
                        text.name
                    )));
                }
                texts.swap_remove(at)
            }
            None => self.joined(texts).map_err(refused)?,
        };
        let written = |line: &String| !left_out.contains(line);
        let changes =
            self.differences.iter().flat_map(|difference| difference.lines(0)).filter(written).collect();
        Ok(Commit { text, before, changes, left_out })
    }

    /// The position of the text that was read from this file.
    fn own_text(&self, name: &str) -> Option<usize> {
        let texts = self.written.texts();
        let real = fs::canonicalize(name).ok();
        let is_it = |other: &str| other == name || real.is_some() && fs::canonicalize(other).ok() == real;
        // Under another root the names that a process knows lead nowhere.
        let ends_alike = |other: &str| Path::new(name).is_absolute() && Path::new(name).ends_with(other);
        texts
            .iter()
            .position(|text| is_it(&text.name))
            .or_else(|| texts.iter().position(|text| ends_alike(&text.name)))
    }

    fn joined(&self, texts: Vec<Vec<u8>>) -> Result<Vec<u8>, String> {
        let is_relative = |words: &[Box<str>]| {
            &*words[0] == "default-path"
                && words.get(1).is_some_and(|mode| matches!(&**mode, "config" | "parent"))
        };
        if self.lines.iter().any(|line| is_relative(&line.words)) {
            return Err(
                "'default-path' goes by the names of the files, which one file for all would change".into()
            );
        }
        Ok(texts.join(&b'\n'))
    }
}

/// Texts that were given out to be written, by what tells them apart: a file that holds one of them was changed by nobody else.
#[derive(Default)]
pub struct Committed(Mutex<(Weak<Written>, VecDeque<u64>)>);

/// The most texts that are remembered.
const REMEMBERED_MAX: usize = 16;

impl Committed {
    /// Notes a text, made from what these files say, and gives all that may be found in its place.
    pub fn note(&self, written: &Arc<Written>, commit: &Commit) -> Vec<u64> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.0.ptr_eq(&Arc::downgrade(written)) {
            *known = (Arc::downgrade(written), VecDeque::new());
        }
        let mut all: Vec<u64> = known.1.iter().copied().collect();
        all.extend(commit.before.as_deref().map(digest));
        let new = digest(&commit.text);
        known.1.retain(|other| *other != new);
        known.1.push_back(new);
        if known.1.len() > REMEMBERED_MAX {
            known.1.pop_front();
        }
        all.push(new);
        all
    }
}
