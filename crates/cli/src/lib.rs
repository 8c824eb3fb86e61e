#![forbid(unsafe_code)]
//! The runtime CLI: what an operator asks a running process, over a `stats socket` (management manual, section 9.3).
//!
//! [`start_thread`] accepts connections at the [`doors`], [`session`] is one connection, [`words`] cuts what it received into commands,
//! [`command`] says what a command is and runs it, and `commands/` has the entries and functions, one file per family.
//! The figures that it shows are in `thalweg_statistics`.

mod anonymous;
pub mod command;
pub mod commands;
mod complete;
pub mod doors;
pub mod help;
pub mod json;
pub mod machine;
pub mod output;
pub mod running;
mod session;
pub mod shown;
mod threads;
pub mod transaction;
pub mod variables;
pub mod words;

pub use commands::all_states;
pub use session::Mode as SessionMode;
pub use thalweg_tls::live::BindLine;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use doors::{Door, Doors};
use thalweg_config::model::CliLevel;
use thalweg_proxy::Live;
use thalweg_proxy::gate::Gate;
use thalweg_proxy::worker::{self, Worker};
use thalweg_runtime::net::Listener;
use thalweg_runtime::{Class, Kind, SpawnOptions, spawn_with};

static ACCEPT: Kind = Kind::new("cli-accept");
static SESSION: Kind = Kind::new("cli");

/// The CLI comes before all traffic: who asks why a thread is slow must get an answer from it.
pub(crate) const NICE: i16 = thalweg_runtime::NICE_MIN;

/// Pause after the process ran out of descriptors, in milliseconds.
const EXHAUSTED_PAUSE_MS: u64 = 100;

/// A `stats socket`, as it is shown and what its users may do.
#[derive(Clone, Debug)]
pub struct Socket {
    /// How `show cli sockets` calls it: `unix@/path`, `ipv4@127.0.0.1:99`.
    pub name: String,
    /// The level a session begins with.
    pub level: CliLevel,
    /// `expose-fd listeners`: `_getsocks` is answered.
    pub gives_listeners: bool,
    /// `severity-output` of the socket.
    pub severity: Severity,
    /// Whether it is a unix socket.
    pub unix: bool,
    /// What is shown to clients where TLS is spoken.
    pub tls: Option<Arc<BindLine>>,
}

/// Whether messages begin with their severity (`set severity-output`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Severity {
    /// They do not.
    #[default]
    None,
    /// As a number: `[6]: `.
    Number,
    /// As a word: `[info]: `.
    Word,
}

/// What the CLI needs from the program around it.
pub trait Process: Send + Sync {
    /// What was said while starting, for `show startup-logs`.
    fn startup_log(&self) -> String;
    /// Passes the listening sockets over a client's unix socket (`_getsocks`). May not block.
    fn hand_listeners(&self, client: OwnedFd);
    /// The number of listening sockets.
    fn listeners(&self) -> usize;
    /// Reads the files of the command line again, on a thread of its own. `answer` gets what is to be said of it, which begins with
    /// `Success=1` or `Success=0`. May not block.
    fn reload(&self, what: Reload, answer: Box<dyn FnOnce(String) + Send>);
}

/// What is to be done with the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reload {
    /// Serve what they say. What was changed at run time is dropped only by force.
    Apply { force: bool },
    /// Say what that would change; of these files, if there are any, in place of those of the command line.
    Compare { files: Vec<String> },
}

/// What all CLI sessions share.
pub struct Cli {
    /// What there is once per process, and what is in force.
    pub live: Arc<Live>,
    /// The program around it.
    pub process: Box<dyn Process>,
    /// `HAProxy` or `Thalweg`.
    pub product: String,
    /// The version, as `show version` shows it.
    pub version: String,
    /// The date of that version, as `yyyy/mm/dd`.
    pub release_date: String,
    /// Every `stats socket`.
    pub doors: Doors,
    /// `stats maxconn`.
    pub gate: Gate,
    /// The key of anonymous dumps for sessions that name none, 0 for none (`set anon global-key`).
    pub anon_key: AtomicU32,
    /// Changes that sessions made and that are in no snapshot: see [`Cli::revision`].
    pub changes: AtomicU64,
    /// What the sessions did so far.
    pub counts: Arc<Counts>,
    /// Texts of the configuration that were given out to be written.
    pub committed: running::commit::Committed,
}

/// What `show info` adds to the figures of the traffic.
#[derive(Debug, Default)]
pub struct Counts {
    /// Connections accepted.
    pub connections: AtomicU64,
    /// Those that asked something.
    pub requests: AtomicU64,
    /// Bytes of answers.
    pub bytes_out: AtomicU64,
}

/// Accepts connections to the CLI on the calling thread, one of the runtime's.
pub fn start_thread(cli: &Arc<Cli>, doors: Vec<Arc<Door>>) {
    let Some(worker) = worker::current() else { return };
    for door in doors {
        let Some(port) = door.port() else { continue };
        let options = SpawnOptions { class: Class::Normal, nice: NICE };
        let accept = accept(Arc::clone(cli), Arc::clone(&door), Listener::on(port));
        let task = spawn_with(&ACCEPT, options, accept);
        door.served_by(task);
        // A soft stop ends what accepts, and closes the socket with it.
        worker.until_stop.borrow_mut().push(task);
    }
}

/// How a session begins that another process asks for on a client's behalf (`@` and `@@` of the master CLI).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begin {
    /// What it may do.
    pub level: CliLevel,
    /// How it goes on after a line.
    pub mode: SessionMode,
    /// The prompt shows the uptime.
    pub timed: bool,
    /// `expert-mode on`.
    pub expert: bool,
    /// `experimental-mode on`.
    pub experimental: bool,
}

impl Begin {
    /// For one line of the process's own, which may do everything.
    pub const ONE_LINE: Begin = Begin {
        level: CliLevel::Admin,
        mode: SessionMode::Single,
        timed: false,
        expert: false,
        experimental: false,
    };
}

/// Serves a connection that another process made and passed on, on the calling thread, one of the runtime's. Such sessions do not count for `stats maxconn`: they are how a process is reached
/// whose own sockets are busy.
pub fn adopt(cli: &Arc<Cli>, door: &Door, fd: OwnedFd, begin: Begin) {
    cli.counts.connections.fetch_add(1, Ordering::Relaxed);
    let options = SpawnOptions { class: Class::Normal, nice: NICE };
    spawn_with(&SESSION, options, session::begin(Arc::clone(cli), door.line(), fd, begin));
}

async fn accept(cli: Arc<Cli>, door: Arc<Door>, mut listener: Listener) {
    loop {
        match listener.accept().await {
            Ok((fd, _)) => {
                cli.counts.connections.fetch_add(1, Ordering::Relaxed);
                // Beyond the limit a client waits here, and those behind it in the backlog.
                cli.gate.enter_in_turn().await;
                let options = SpawnOptions { class: Class::Normal, nice: NICE };
                spawn_with(&SESSION, options, session::serve(Arc::clone(&cli), door.line(), fd));
            }
            Err(_) => {
                listener.rest(EXHAUSTED_PAUSE_MS).await;
            }
        }
    }
}

/// The worker of this thread; every CLI task runs on one of the runtime's threads.
fn worker() -> Option<std::rc::Rc<Worker>> {
    worker::current()
}

/// The name of a level, as in the configuration.
pub fn level_name(level: CliLevel) -> &'static str {
    match level {
        CliLevel::User => "user",
        CliLevel::Operator => "operator",
        CliLevel::Admin => "admin",
    }
}
