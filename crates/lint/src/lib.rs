//! What is worth a second look in a configuration that loads: `thalweg lint`.
//!
//! The loader refuses what is wrong and warns about what is surely not meant. Here is what may well be meant, and often
//! is not: rules that never match, conditions and backends that nothing uses, timeouts that are missing or odd, servers
//! whose certificates nobody verifies, certificates that end soon.
//!
//! Rules look at lines as they are written ([`File`]), so that each finding has its place and the author's words. What
//! only the loaded configuration knows comes in as [`Known`]. Each rule is a [`Rule`] in [`RULES`]; there is no other list.
#![forbid(unsafe_code)]

mod conditions;
mod lines;
mod output;
mod rules;

use thalweg_syntax::layout::{self, WrittenLine};

pub use output::{Form, render};

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// To know.
    Note,
    /// To look at: the run fails.
    Warning,
}

impl Level {
    /// Its name, as in SARIF.
    pub fn name(self) -> &'static str {
        match self {
            Level::Note => "note",
            Level::Warning => "warning",
        }
    }
}

/// One thing to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule that found it.
    pub rule: &'static str,
    /// How much it matters.
    pub level: Level,
    /// The file, as an index.
    pub file: usize,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1, in bytes.
    pub column: usize,
    /// What was found, as a sentence without a full stop.
    pub message: String,
}

/// A rule.
pub struct Rule {
    /// Its name.
    pub name: &'static str,
    /// How much its findings matter.
    pub level: Level,
    /// Why it looks for this, in a sentence or two.
    pub why: &'static str,
    /// Looks.
    pub(crate) run: fn(&Rule, &Lines<'_>, &mut Vec<Finding>),
}

/// Every rule, in alphabetical order.
pub static RULES: &[Rule] = rules::ALL;

/// A file to look at.
#[derive(Clone, Copy, Debug)]
pub struct File<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its text; what is not UTF-8 may be replaced.
    pub text: &'a str,
}

/// What the loader found out.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Its warnings: file, line, column and text.
    pub warnings: Vec<(usize, u32, usize, String)>,
    /// Certificates in use: the name of each, and the second since 1970 that its validity ends with.
    pub certificates: Vec<(String, i64)>,
    /// The time, in seconds since 1970.
    pub now: i64,
    /// Certificates that end within this many seconds are found.
    pub soon_s: i64,
}

/// The lines of all files, with the sections they are in.
pub(crate) struct Lines<'a> {
    pub sections: Vec<Section<'a>>,
    pub known: &'a Known,
}

/// A section with its lines.
pub(crate) struct Section<'a> {
    pub kind: String,
    pub name: String,
    /// File and line; the first one begins it.
    pub lines: Vec<(usize, WrittenLine<'a>)>,
    /// What the `defaults` section has that this one inherits from, as an index.
    pub defaults: Option<usize>,
}

/// Looks at files that load.
pub fn lint(files: &[File<'_>], known: &Known) -> Vec<Finding> {
    let texts: Vec<Vec<WrittenLine<'_>>> = files.iter().map(|file| layout::lines(file.text)).collect();
    let lines = lines::collect(texts, known);
    let mut findings = Vec::new();
    for rule in RULES {
        (rule.run)(rule, &lines, &mut findings);
    }
    findings.sort_by(|a, b| (a.file, a.line, a.column, a.rule).cmp(&(b.file, b.line, b.column, b.rule)));
    findings.dedup();
    findings
}
