//! The entries of stick tables, in one file of the directory: blocks of [`thalweg_stick::kept`]. Each look at the tables adds what
//! changed since the one before; when the file got much longer than what is in the tables, it is written anew.

use std::fs::File;
use std::io::{self, BufReader, Read, Write as _};
use std::sync::Arc;
use std::thread;

use thalweg_proxy::{Instance, Stopping};
use thalweg_runtime::clock;
use thalweg_stick::Table;
use thalweg_stick::kept::{HEAD_LEN, Head, Now, Outcome, Reader, Written};
use thalweg_sys::directory::Directory;

use super::{Failing, PERIOD};
use crate::service::Control;

/// The file.
pub(super) const TABLES: &str = "tables";

/// A file is written anew when it is longer than this many times what it began with, and than [`LONG`] bytes: so what is written is at
/// most twice what changed.
const GROWTH: u64 = 2;
const LONG: u64 = 4 * 1024 * 1024;

fn now() -> Now {
    Now { mono_us: clock::now_us(), wall_ms: clock::wall_us() / 1000 }
}

/// Puts what a former process kept into the tables. What could not be used is returned, as messages.
pub fn restore(directory: &Directory, tables: &[Arc<Table>]) -> Vec<String> {
    let Ok(file) = directory.read(TABLES) else { return Vec::new() };
    let mut file = BufReader::new(file);
    let (mut reader, mut told, mut body) = (Reader::default(), Vec::new(), Vec::new());
    while let Some(outcome) =
        next_block(&mut file, &mut body, |head, body| reader.take(head, body, tables, now()))
    {
        let (message, is_over) = match outcome {
            Outcome::Taken => continue,
            Outcome::NoTable(name) => (format!("there is no table '{name}' any more"), false),
            Outcome::OtherKeys(name) => (format!("table '{name}' has other keys than before"), false),
            Outcome::Broken => {
                let what = "is not whole, or was not written by this program";
                (format!("what follows {what}"), true)
            }
        };
        let message = format!("state-dir: '{TABLES}': {message}; its entries are not used.");
        if !told.contains(&message) {
            told.push(message);
        }
        if is_over {
            break;
        }
    }
    told
}

/// Reads a block. `None` at the end of the file.
fn next_block(
    file: &mut impl Read,
    body: &mut Vec<u8>,
    take: impl FnOnce(Head, &[u8]) -> Outcome,
) -> Option<Outcome> {
    let mut head = Vec::with_capacity(HEAD_LEN);
    let read = file.take(HEAD_LEN as u64).read_to_end(&mut head);
    if matches!(read, Ok(0)) {
        return None;
    }
    let head = head.as_slice().try_into().ok().and_then(Head::read);
    let Some(head) = head else { return Some(Outcome::Broken) };
    body.clear();
    let read = file.take(head.len as u64).read_to_end(body);
    Some(if read.is_ok() { take(head, body) } else { Outcome::Broken })
}

/// Writes what changes in the tables to the directory until the process begins to end.
///
/// # Errors
/// There is no thread for it.
pub(super) fn keep(directory: Directory, control: Control) -> io::Result<()> {
    let keeper = Keeper { directory, control, kept: Kept::default(), failing: Failing::default() };
    thread::Builder::new().name("state-tables".into()).spawn(move || keeper.run()).map(drop)
}

struct Keeper {
    directory: Directory,
    control: Control,
    kept: Kept,
    failing: Failing,
}

/// The file as far as it was written.
#[derive(Default)]
struct Kept {
    /// `None` before the first look, and after a failure: the next one writes all.
    file: Option<File>,
    /// Bytes of the file, and those that it began with.
    len: u64,
    began: u64,
    /// Its tables, and what of them is in it.
    tables: Vec<(Arc<Table>, Written)>,
    block: Vec<u8>,
}

/// Why a round of writing is over.
enum Ended {
    Done,
    /// The process begins to end.
    Stopping,
}

impl Keeper {
    fn run(mut self) {
        loop {
            thread::sleep(PERIOD);
            let Some(instance) = serving(&self.control) else { return };
            let written = self.kept.look(&self.directory, &instance, &self.control);
            drop(instance);
            if matches!(written, Ok(Ended::Stopping)) {
                return;
            }
            if written.is_err() {
                self.kept = Kept::default();
            }
            self.failing.tell(&self.control, TABLES, written.err());
        }
    }
}

/// What is in force, as long as this process is to go on.
fn serving(control: &Control) -> Option<Arc<Instance>> {
    control.instance().filter(|instance| instance.stopping() == Stopping::No)
}

impl Kept {
    fn look(&mut self, directory: &Directory, instance: &Instance, control: &Control) -> io::Result<Ended> {
        let live = || instance.named_tables().map(|(_, table)| table);
        let known = self.tables.iter().map(|(table, _)| table);
        let is_as_before = known.map(Arc::as_ptr).eq(live().map(Arc::as_ptr));
        let is_long = self.len > LONG.max(GROWTH * self.began);
        if let Some(mut file) = self.file.take().filter(|_| is_as_before && !is_long) {
            let before = self.len;
            let ended = self.write(&mut file, control)?;
            if self.len > before {
                file.sync_data()?;
            }
            self.file = Some(file);
            return Ok(ended);
        }
        self.tables = live().map(|table| (Arc::clone(table), Written::default())).collect();
        if self.tables.is_empty() {
            return Ok(Ended::Done);
        }
        self.len = 0;
        let mut draft = directory.draft(TABLES)?;
        let ended = self.write(&mut draft.file, control)?;
        if matches!(ended, Ended::Done) {
            self.file = Some(draft.finish()?);
            self.began = self.len;
        }
        Ok(ended)
    }

    /// Writes what changed in all tables.
    fn write(&mut self, file: &mut File, control: &Control) -> io::Result<Ended> {
        for (table, written) in &mut self.tables {
            loop {
                self.block.clear();
                let has_more = written.block(&mut self.block, table, now());
                file.write_all(&self.block)?;
                self.len += self.block.len() as u64;
                // Whoever comes after a process that is on its way out writes here by now.
                if serving(control).is_none() {
                    return Ok(Ended::Stopping);
                }
                if !has_more {
                    break;
                }
            }
        }
        Ok(Ended::Done)
    }
}
