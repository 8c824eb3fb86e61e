//! `state-dir`: what is known of servers, what was counted and what stick tables hold is written to a directory while the process
//! runs, by threads of their own, so that the next one goes on from there however this one ends. The files of servers and counters are
//! those of [`thalweg_config::state_dir`]; that of tables, which may be large, is that of [`tables`].

mod tables;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

use thalweg_config::model::LogLevel;
use thalweg_config::state_dir::{COUNTERS, SERVERS, now_s, seal};
use thalweg_proxy::Stopping;
use thalweg_statistics::stats_file;
use thalweg_sys::directory::Directory;

use crate::service::Control;

pub use tables::restore as restore_tables;

/// How often it is looked whether there is something to write. With the time that writing takes, no crash forgets more than a second.
const PERIOD: Duration = Duration::from_millis(750);

/// The place of a row of servers that grows with time alone, from 0 (`srv_time_since_last_change`).
const SINCE: usize = 9;

/// Opens the directory, while the process has all of its rights. The message is for an alert.
pub fn open(path: &str) -> Result<Directory, String> {
    Directory::open(Path::new(path)).map_err(|error| {
        let error = thalweg_syntax::source::os_message(&error);
        format!("Cannot open state-dir {path} : {error}.")
    })
}

/// Writes to it until the process begins to end.
///
/// # Errors
/// There is no thread for it.
pub fn keep(directory: Directory, control: Control) -> io::Result<()> {
    tables::keep(directory.again()?, control.clone())?;
    let keeper = Keeper { directory, control, written: [None; 2], failing: Failing::default() };
    thread::Builder::new().name("state-dir".into()).spawn(move || keeper.run()).map(drop)
}

struct Keeper {
    directory: Directory,
    control: Control,
    /// Of what each file has: a number that other contents have not.
    written: [Option<u64>; 2],
    failing: Failing,
}

/// Whether the last attempt to write failed, which was told.
#[derive(Default)]
struct Failing(bool);

impl Keeper {
    fn run(mut self) {
        loop {
            thread::sleep(PERIOD);
            // Whoever comes after a process that is on its way out writes here by now.
            let Some(instance) = self.control.instance().filter(|i| i.stopping() == Stopping::No) else {
                return;
            };
            let files =
                [(SERVERS, thalweg_cli::all_states(&instance)), (COUNTERS, stats_file::dump(&instance))];
            drop(instance);
            for (at, (name, text)) in files.into_iter().enumerate() {
                let says = what_it_says(&text);
                if self.written[at] != Some(says) {
                    let written = self.directory.replace(name, seal(&text, now_s()).as_bytes());
                    self.written[at] = written.is_ok().then_some(says);
                    self.failing.tell(&self.control, name, written.err());
                }
            }
        }
    }
}

impl Failing {
    /// A failure is told once, and so is its end.
    fn tell(&mut self, control: &Control, name: &str, failure: Option<io::Error>) {
        match failure {
            Some(error) if !self.0 => {
                control.log(LogLevel::Err, format!("state-dir: cannot write '{name}': {error}"));
            }
            None if self.0 => {
                control.log(LogLevel::Notice, "state-dir: it can be written again".into());
            }
            _ => return,
        }
        self.0 = !self.0;
    }
}

/// A number for what a file says, whatever the time.
fn what_it_says(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    for line in text.lines() {
        for (at, field) in line.split(' ').enumerate().filter(|(at, _)| *at != SINCE) {
            (at, field).hash(&mut hasher);
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_alone_is_nothing_to_write() {
        let row =
            |since: u32, weight: u32| format!("1\n# be_id\n3 be 1 s 127.0.0.1 2 0 {weight} 1 {since} 6 3\n");
        assert_eq!(what_it_says(&row(1, 1)), what_it_says(&row(2, 1)));
        assert_ne!(what_it_says(&row(1, 1)), what_it_says(&row(1, 2)));
        assert_ne!(what_it_says("a b"), what_it_says("a\nb"));
    }
}
