//! Where the pieces meet: configuration, runtime and data path. Everything else in this crate speaks only to what
//! is declared here.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use thalweg_syntax::source::expand_paths;
use thalweg_syntax::{Diagnostic, Diagnostics, DiskLoader, Environment, Reader, SourceMap};
use thalweg_sys::handover::HandedSocket;

use crate::cli::Options;
use crate::features;
use crate::limits::{Demand, Plan};
use crate::process::Privileges;
use crate::program::Program;

/// `MAX_TGROUPS` of `-vv`.
pub const THREAD_GROUPS_MAX: usize = 1;

/// `MAX_THREADS` of `-vv`.
pub const THREADS_MAX: usize = 64;

/// Name, mode, sides and implementation of each protocol that can carry traffic.
pub const MULTIPLEXERS: [(&str, &str, &str, &str); 4] = [
    ("<default>", "HTTP", "FE|BE", "H1"),
    ("h1", "HTTP", "FE|BE", "H1"),
    ("<default>", "TCP", "FE|BE", "PASS"),
    ("none", "TCP", "FE|BE", "PASS"),
];

/// Services for `use-service`.
pub const SERVICES: &[&str] = &[];

/// Filters for `filter`.
pub const FILTERS: &[&str] = &[];

/// The version of the PCRE2 library.
pub fn pcre_version() -> Option<String> {
    None
}

/// Name, preference and result of a test of each way to move bytes.
pub fn drivers() -> Vec<(&'static str, u32, bool)> {
    vec![("epoll", 300, true)]
}

/// What came out of reading the configuration.
pub struct Loaded {
    /// Absent when there were errors.
    pub configuration: Option<Configuration>,
    /// All that was said.
    pub diagnostics: Diagnostics,
    /// What it was said about.
    pub sources: SourceMap,
}

/// A valid configuration.
pub struct Configuration;

/// What the start needs to know of a configuration, the command line applied.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub daemon: bool,
    pub quiet: bool,
    pub zero_warning: bool,
    pub strict_limits: bool,
    pub pid_file: Option<PathBuf>,
    pub hard_stop_after: Option<Duration>,
    pub privileges: Privileges,
    pub demand: Demand,
}

/// Reads the files of the command line.
pub fn load(_program: &Program, options: &Options) -> Loaded {
    let mut sources = SourceMap::new();
    let mut diagnostics = Diagnostics::new();
    let refuse = |diagnostic: Diagnostic, sources, mut diagnostics: Diagnostics| {
        diagnostics.push(diagnostic);
        diagnostics.abort();
        Loaded { configuration: None, diagnostics, sources }
    };
    let paths = match expand_paths(&DiskLoader, &options.files) {
        Ok(paths) => paths,
        Err(diagnostic) => return refuse(diagnostic, sources, diagnostics),
    };
    let mut reader = Reader::new(features::facts(), Environment::from_process());
    for path in &paths {
        match sources.load(&DiskLoader, path) {
            Ok(file) => reader.start_file(file),
            Err(diagnostic) => return refuse(diagnostic, sources, diagnostics),
        }
        while reader.next_line(&sources, &mut diagnostics).is_some() {}
    }
    let configuration = (!diagnostics.has_errors()).then_some(Configuration);
    Loaded { configuration, diagnostics, sources }
}

/// The keywords of classes, for `-dK`.
pub fn keywords(_classes: &[String]) -> String {
    String::new()
}

impl Configuration {
    /// What the start needs to know.
    pub fn settings(&self, _options: &Options) -> Settings {
        Settings { strict_limits: true, ..Settings::default() }
    }

    /// Records what the limits of the system allow.
    pub fn set_limits(&mut self, _plan: &Plan) {}
}

/// The service: first prepared, then listening, then running.
pub struct Service;

impl Service {
    /// Prepares to serve a configuration, with the sockets another process handed over.
    pub fn new(_configuration: Configuration, _program: &Program, _handed: Vec<HandedSocket>) -> Service {
        Service
    }

    /// Opens the sockets that are not open yet. On failure, one message for each; it can be called again.
    pub fn listen(&mut self) -> Result<(), Vec<String>> {
        Err(vec!["this build has no data path".into()])
    }

    /// Does what needs the real root directory or privileges and is not done yet.
    pub fn before_privileges_drop(&mut self) {}

    /// How bytes are moved.
    pub fn driver_name(&self) -> &'static str {
        "epoll"
    }

    /// The handle for signals.
    pub fn control(&self) -> Control {
        Control
    }

    /// Serves until stopped.
    pub fn run(self) -> io::Result<()> {
        Ok(())
    }
}

/// What signals may ask for, from any thread.
#[derive(Clone)]
pub struct Control;

impl Control {
    /// Stop listening, finish what is in progress; then [`Service::run`] returns.
    pub fn soft_stop(&self) {}

    /// Let go of everything; [`Service::run`] returns soon.
    pub fn hard_stop(&self) {}

    /// Stop listening for a while.
    pub fn pause(&self) {}

    /// Listen again.
    pub fn resume(&self) {}

    /// One line for each server and proxy.
    pub fn server_states(&self) -> Vec<String> {
        Vec::new()
    }

    /// One line for each pool of objects.
    pub fn memory_states(&self) -> Vec<String> {
        Vec::new()
    }
}
