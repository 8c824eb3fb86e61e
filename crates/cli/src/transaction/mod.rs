//! Several changes as one: noted while a session gives the commands, looked at together, and made all at once or not at all
//! (`begin config`, `check config`, `commit config`, `abort config`).
//!
//! A transaction is its session's, and goes with it. Nothing is changed before it is committed: commands that show something show
//! what is in force. A [`plan::Plan`] is made of the commands, which finds whatever could fail; carrying it out then cannot.

mod certificates;
mod files;
mod plan;
mod settings;

use std::sync::atomic::Ordering;

use crate::Cli;
use crate::command::Command;

pub use plan::{NotMade, Plan};

/// The most changes of a transaction, and bytes of their words and payloads.
const CHANGES_MAX: usize = 10_000;
const BYTES_MAX: usize = 16 << 20;

/// A command that was noted.
#[derive(Clone, Debug)]
pub struct Change {
    pub words: Vec<String>,
    pub payload: Option<String>,
}

/// See the module's documentation.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// The revision that it was begun or checked at.
    pub revision: u64,
    pub changes: Vec<Change>,
    bytes: usize,
}

impl Transaction {
    pub fn new(revision: u64) -> Transaction {
        Transaction { revision, changes: Vec::new(), bytes: 0 }
    }

    /// Notes a command. The error says why it is not.
    pub fn note(&mut self, words: &[&str], payload: Option<&str>) -> Result<usize, String> {
        let bytes = words.iter().map(|word| word.len()).sum::<usize>() + payload.map_or(0, str::len);
        if self.changes.len() >= CHANGES_MAX || self.bytes.saturating_add(bytes) > BYTES_MAX {
            return Err(format!(
                "A transaction has at most {CHANGES_MAX} changes and {} MB: commit these, and begin another one.",
                BYTES_MAX >> 20
            ));
        }
        self.bytes += bytes;
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        self.changes.push(Change { words, payload: payload.map(str::to_owned) });
        Ok(self.changes.len())
    }
}

/// First words of commands that change something.
const VERBS: [&str; 14] = [
    "abort",
    "add",
    "clear",
    "commit",
    "del",
    "disable",
    "enable",
    "new",
    "prepare",
    "publish",
    "reload",
    "set",
    "unpublish",
    "update",
];

/// Whether a command changes what others see: the configuration, or what stands for it at run time.
pub fn is_change(command: &Command) -> bool {
    let mut words = command.words.split(' ');
    let verb = words.next().unwrap_or_default();
    // What users may do concerns their session only.
    let is_own = command.level == thalweg_config::model::CliLevel::User || words.next() == Some("config");
    VERBS.contains(&verb) && !is_own
}

impl Cli {
    /// Grows with each change of what is in force, by whomever on whatever way: two who edit notice each other by it.
    pub fn revision(&self) -> u64 {
        let generation = self.live.current().map_or(0, |instance| instance.generation);
        self.changes.load(Ordering::SeqCst) + generation
    }

    /// Something was changed since `before`, if the revision does not say so by itself.
    pub fn count_change(&self, before: u64) {
        if self.revision() == before {
            self.changes.fetch_add(1, Ordering::SeqCst);
        }
    }
}
