//! What is in force, as a configuration: the lines that were read, with edits for all that was changed at run time.
//!
//! `show config` prints the lines, `show config diff` what was changed, and `commit config` writes the edits into the texts.
//! What can be changed at run time is known here and nowhere else: a command that changes something more adds it to
//! [`Running::now`], as an edit or as something that no line can say ([`Detail::unwritten`]).

pub mod commit;
mod process;
mod proxies;
pub mod save;
mod servers;
mod shown;

use std::collections::HashMap;
use std::sync::Arc;

use thalweg_config::model::Proxy;
use thalweg_config::written::{CountingLine, Edits, Place, Words, Written, words};
use thalweg_proxy::Instance;
use thalweg_tls::live::{FileChange, FileKind};

/// See the module's documentation.
pub struct Running {
    pub written: Arc<Written>,
    /// The lines of the files that count.
    pub lines: Vec<CountingLine>,
    pub edits: Edits,
    pub differences: Vec<Difference>,
}

/// Something that is not as the files say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub how: How,
    /// What it is: `server`.
    pub kind: &'static str,
    /// Its name: `app/s1`; empty of what there is one of.
    pub name: String,
    /// What of it differs; of what came or went there may be none.
    pub details: Vec<Detail>,
}

/// How it differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    /// It is in no file. What its line says.
    Added(Words),
    Changed,
    /// It is in a file only.
    Removed,
}

/// One thing about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Detail {
    /// What is called so in a configuration, or by commands.
    pub field: &'static str,
    /// As the files say; empty where they say nothing.
    pub file: String,
    pub now: String,
    /// Why no line can say it.
    pub unwritten: Option<&'static str>,
}

impl Detail {
    fn new(field: &'static str, file: impl ToString, now: impl ToString) -> Detail {
        Detail { field, file: file.to_string(), now: now.to_string(), unwritten: None }
    }

    fn unwritten(self, why: &'static str) -> Detail {
        Detail { unwritten: Some(why), ..self }
    }
}

/// A section of the files.
struct Section<'r> {
    place: Place,
    /// Its lines, the one that begins it included.
    lines: &'r [CountingLine],
}

impl Section<'_> {
    /// Its lines that begin with this word.
    fn lines_with<'s>(&'s self, keyword: &'s str) -> impl Iterator<Item = &'s CountingLine> {
        self.lines[1..].iter().filter(move |line| &*line.words[0] == keyword)
    }
}

/// Sections by the place of their first line.
type Sections<'r> = HashMap<Place, Section<'r>>;

fn sections(lines: &[CountingLine]) -> Sections<'_> {
    let begins: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].opens).collect();
    let ends = begins.iter().skip(1).copied().chain([lines.len()]);
    let ranges = begins.iter().copied().zip(ends);
    ranges
        .filter_map(|(begin, end)| {
            let place = lines[begin].place?;
            Some((place, Section { place, lines: &lines[begin..end] }))
        })
        .collect()
}

impl Running {
    /// What is in force now. It takes time for large configurations: on a thread that serves nobody.
    pub fn now(instance: &Instance, anon_key: u32) -> Running {
        let written = Arc::clone(instance.config.written());
        let lines = written.lines();
        let mut running =
            Running { written, lines: Vec::new(), edits: Edits::default(), differences: Vec::new() };
        let sections = sections(&lines);
        running.look_at_process(instance, &sections, anon_key);
        running.look_at_proxies(instance, &lines, &sections);
        running.look_at_files(instance);
        running.lines = lines;
        running
    }

    /// The lines with what was changed, as those of one file.
    pub fn lines_now(&self) -> Vec<CountingLine> {
        self.written.in_one_file(self.edits.lines(&self.lines))
    }

    /// What was changed and no line can say.
    pub fn unwritten(&self) -> impl Iterator<Item = (&Difference, &Detail)> {
        let details = self.differences.iter().flat_map(|all| all.details.iter().map(move |one| (all, one)));
        details.filter(|(_, detail)| detail.unwritten.is_some())
    }

    fn section_of<'s, 'r>(&self, sections: &'s Sections<'r>, proxy: &Proxy) -> Option<&'s Section<'r>> {
        sections.get(&self.written.place(&proxy.file, proxy.line)?)
    }

    fn changed(&mut self, kind: &'static str, name: &str, details: Vec<Detail>) {
        if !details.is_empty() {
            self.differences.push(Difference { how: How::Changed, kind, name: name.to_owned(), details });
        }
    }

    /// Has a line of a section say this, in place of those that begin with the same word.
    fn set_line(&mut self, section: &Section<'_>, line: Words) {
        let places: Vec<Place> = section.lines_with(&line[0]).filter_map(|line| line.place).collect();
        if places.is_empty() {
            return self.edits.append(section.place, vec![line]);
        }
        places.into_iter().for_each(|place| self.edits.replace(place, vec![line.clone()]));
    }

    /// What files hold that the configuration names.
    fn look_at_files(&mut self, instance: &Instance) {
        for set in instance.config.registry.sets().iter().filter(|set| set.is_changed()) {
            let kind = if set.is_map() { "map" } else { "acl" };
            let name = set.name().map_or_else(|| format!("#{}", set.id()), str::to_owned);
            let why = match set.name() {
                Some(_) => "entries are in a file of their own, which is not written",
                None => "patterns are among the words of several lines",
            };
            self.changed(kind, &name, vec![Detail::new("entries", "", set.len()).unwritten(why)]);
        }
        let Some(tls) = &instance.config.tls else { return };
        let changes = tls.lock().unwrap_or_else(std::sync::PoisonError::into_inner).changes();
        for FileChange { kind, name, is_new } in changes {
            let details = vec![Detail::new("content", "", "set").unwritten(why_unwritten(kind))];
            let how = if is_new { How::Added(words(["new"])) } else { How::Changed };
            self.differences.push(Difference { how, kind: kind.word(), name, details });
        }
    }
}

/// Why no line can say what was changed of this.
fn why_unwritten(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Certificate => "certificates are in files of their own, which are not written",
        FileKind::CaFile => "authorities are in files of their own, which are not written",
        FileKind::CrlFile => "revocations are in files of their own, which are not written",
        FileKind::CrtList => "lists of certificates are in files of their own, which are not written",
        FileKind::TicketKeys => "keys of tickets are in files of their own, which are not written",
        FileKind::OcspResponse => "responses are in files of their own, which are not written",
        FileKind::Jwt => "'add ssl jwt' and 'del ssl jwt' are said of a certificate that is loaded",
    }
}
