//! What is printed while starting: HAProxy's `[ALERT]    (pid) : text` lines on the standard error.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Mutex;

use thalweg_syntax::render::{message_line, paint};
use thalweg_syntax::{Diagnostics, RenderOptions, Severity, SourceMap};
use thalweg_sys::fd::complain;

use crate::program::Program;

/// `-q` and `-V`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verbosity {
    /// Print nothing.
    pub quiet: bool,
    /// Print also what goes well.
    pub verbose: bool,
}

/// What was reported so far, for `show startup-logs`.
static STARTUP_LOG: Mutex<String> = Mutex::new(String::new());

/// As much as is kept of it, in bytes.
const STARTUP_LOG_MAX: usize = 64 * 1024;

/// What was reported so far.
pub fn startup_log() -> String {
    crate::locked(&STARTUP_LOG).clone()
}

/// Prints messages, the version first when something is wrong.
#[derive(Clone, Debug)]
pub struct Reporter {
    title: &'static str,
    version: &'static str,
    /// `-q`, or `quiet` in the configuration.
    pub verbosity: Verbosity,
    /// Whether the lines about the version were printed.
    introduced: bool,
    /// Whether a warning was reported, for `-dW`.
    warned: bool,
    /// Whether what nobody reads now is dropped rather than waited for.
    heedless: bool,
}

impl Reporter {
    /// Nothing printed yet.
    pub fn new(program: &Program, verbosity: Verbosity) -> Reporter {
        let (title, version) = (program.title(), program.version());
        Reporter { title, version, verbosity, introduced: false, warned: false, heedless: false }
    }

    /// One that never waits for whoever reads the messages: what a process that serves does must not depend on them.
    pub fn heedless(&self) -> Reporter {
        Reporter { heedless: true, ..self.clone() }
    }

    /// Something that prevents the start.
    pub fn alert(&mut self, text: &str) {
        self.say(Severity::Alert, text);
    }

    /// Something to look at.
    pub fn warning(&mut self, text: &str) {
        self.say(Severity::Warning, text);
    }

    /// Something to know.
    pub fn notice(&mut self, text: &str) {
        self.say(Severity::Notice, text);
    }

    /// Whether a warning was reported about the configuration.
    pub fn warned(&self) -> bool {
        self.warned
    }

    /// All that was said about a configuration, a hint for who has many errors, and the verdict, which scripts look for at the
    /// end.
    pub fn diagnostics(
        &mut self,
        diagnostics: &Diagnostics,
        sources: &SourceMap,
        diagnostic_mode: bool,
        hint: Option<&str>,
    ) {
        self.warned |= diagnostics.has_warnings();
        if diagnostics.has_errors() || diagnostics.has_warnings() {
            self.introduce();
        }
        let pid = std::process::id();
        self.print(&diagnostics.render(sources, RenderOptions { pid, diagnostic_mode }));
        if let Some(hint) = hint {
            self.notice(hint);
        }
        self.print(&diagnostics.verdict(pid));
    }

    fn say(&mut self, severity: Severity, text: &str) {
        if severity >= Severity::Warning {
            self.introduce();
        }
        self.print(&message_line(severity, std::process::id(), text));
    }

    fn introduce(&mut self) {
        if std::mem::replace(&mut self.introduced, true) {
            return;
        }
        let pid = std::process::id();
        let version = format!("{} version is {}", self.title, self.version);
        self.print(&message_line(Severity::Notice, pid, &version));
        if let Ok(path) = std::env::current_exe() {
            let path = format!("path to executable is {}", path.display());
            self.print(&message_line(Severity::Notice, pid, &path));
        }
    }

    fn print(&self, text: &str) {
        let mut log = crate::locked(&STARTUP_LOG);
        let room = STARTUP_LOG_MAX.saturating_sub(log.len());
        log.push_str(&text[..text.floor_char_boundary(room)]);
        drop(log);
        if self.verbosity.quiet {
            return;
        }
        let painted = colours().then(|| paint(text));
        let text = painted.as_deref().unwrap_or(text).as_bytes();
        if self.heedless {
            complain(text);
        } else {
            error_output(text);
        }
    }
}

/// Whether messages have colours: on a terminal that can show them, unless NO_COLOR says otherwise (no-color.org).
fn colours() -> bool {
    let unset = |name: &str| std::env::var_os(name).is_none_or(|value| value.is_empty());
    std::io::stderr().is_terminal()
        && unset("NO_COLOR")
        && std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
}

/// Prints on the standard error. Whoever closed it does not want to know.
pub fn error_output(text: &[u8]) {
    let _ = std::io::stderr().write_all(text);
}

/// Panics are told without waiting for whoever reads the standard error: the task that ends must not keep its thread.
pub fn tell_of_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let backtrace = std::backtrace::Backtrace::capture();
        let mut text = format!("thread '{}' {panic}\n", std::thread::current().name().unwrap_or("?"));
        if backtrace.status() == std::backtrace::BacktraceStatus::Captured {
            text.push_str(&backtrace.to_string());
        }
        complain(text.as_bytes());
    }));
}

/// Prints on the standard output; an output that was closed is not an error.
pub fn output(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}
