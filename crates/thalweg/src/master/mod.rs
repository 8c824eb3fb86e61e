//! The master (`-W`, `-Ws`; management manual, sections 3 and 9.4): a small process that starts a worker, replaces it by
//! another one when it is told to reload, and tells the service manager. It moves no traffic and has no privileges to
//! lose: a reload works as the start did.
//!
//! ```text
//! signals ---+                            +-> worker that serves
//! master CLI +-> events -> this thread ---+-> worker that starts     (link.rs, over a pair of sockets each)
//! workers ---+                            +-> workers that finish
//! ```
//!
//! A worker of the same program follows another configuration by itself, if it can ([`in_place`]). Else another worker is started,
//! and takes its place.
//!
//! One thread owns all decisions. Others wait for one thing each, and turn it into an [`Event`]; sessions of the master CLI
//! ([`session`]) read what they show under a lock.
//!
//! A worker is the program as it is on the disk now. Once a new one serves, and if the file is not the one that this process
//! was started from, the master becomes the new program as well: a program that does not work costs a failed reload, and
//! nothing else.

mod begin;
mod commands;
mod in_place;
pub mod link;
mod notify;
mod processes;
mod session;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use thalweg_cli::Begin;
use thalweg_config::model::CliLevel;
use thalweg_syntax::render::message_line;
use thalweg_syntax::{Environment, Severity};
use thalweg_sys::child::{self, Exit};
use thalweg_sys::inherited;
use thalweg_sys::process::{self as sys, Ready};
use thalweg_sys::signal::{self, Signal};

use self::begin::{Begun, begin};
use self::in_place::Following;
use self::link::{Part, Said, WORKER_VARIABLE};
use self::notify::Notify;
use self::processes::{Processes, Role, Worker};
use crate::cli::Options;
use crate::locked;
use crate::program::Program;
use crate::report::Reporter;

/// The signals that a master acts on.
const HANDLED: [Signal; 9] = Signal::ALL;

/// The stack of a thread that waits for one thing.
const STACK_SIZE: usize = 256 * 1024;

/// How this process finds what it had before it became another program.
const MASTER_VARIABLE: &str = "THALWEG_MASTER";

/// How long a client may take for the outcome of the reload that it asked for, before the master becomes another program.
const TELL_PATIENCE: Duration = Duration::from_secs(1);

/// Workers that die one after the other within [`CRASH_WINDOW`] are replaced this often.
const CRASHES_MAX: usize = 5;
const CRASH_WINDOW: Duration = Duration::from_secs(60);
/// After that, a master that must stay (`master-worker no-exit-on-failure`) waits this long before each of them.
const CRASH_PAUSE: Duration = Duration::from_secs(1);

/// What the master's thread acts on.
pub enum Event {
    /// A signal.
    Signal(Signal),
    /// A worker said something.
    Said(u32, Said),
    /// A worker will say nothing more.
    Silent(u32),
    /// What the worker that serves answered when it was told to reload in place.
    Followed(u32, std::io::Result<String>),
    /// `reload` or `hard-reload` on the master CLI; how it went is sent back.
    Reload {
        /// Former workers leave at once.
        hard: bool,
        /// Who waits for the outcome.
        reply: Reply,
    },
}

/// A session that waits for the outcome of a reload.
pub struct Reply {
    /// Where it waits.
    pub to: Sender<Outcome>,
    /// Its other end is dropped when the client was told.
    pub told: Receiver<Infallible>,
}

/// How a reload went.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// A new worker serves.
    pub success: bool,
    /// What was said meanwhile.
    pub log: String,
}

/// What the sessions of the master CLI see.
pub struct Shared {
    /// Everything that is known.
    pub processes: Mutex<Processes>,
    /// The version of this program.
    pub version: &'static str,
    /// Where events go.
    pub events: Sender<Event>,
    /// The sockets of the master CLI, as `show cli sockets` has them, and their levels.
    pub sockets: Vec<(String, CliLevel)>,
    /// The environment, with what the manual says that a master adds.
    pub environment: Environment,
    /// Held while a connection to the master CLI is accepted, and by a master that becomes another program: clients who come
    /// then are that program's.
    pub accepting: Mutex<()>,
}

/// A reload in progress, or the start.
struct Starting {
    pid: u32,
    hard: bool,
    /// The file it was started from.
    program: Option<FileId>,
    replies: Vec<Reply>,
    /// What was said so far.
    log: String,
}

/// Which file it is, so that another one under the same name is noticed.
type FileId = (u64, u64, i64, i64);

/// A reload that was asked for while another one was in progress.
#[derive(Default)]
struct Wanted {
    hard: bool,
    replies: Vec<Reply>,
}

struct Master<'a> {
    program: &'a Program,
    /// An output that nobody reads holds nobody up.
    reporter: Reporter,
    shared: Arc<Shared>,
    events: Receiver<Event>,
    notify: Notify,
    /// The program's file, as an absolute path.
    file: PathBuf,
    /// Which file this process is.
    running: Option<FileId>,
    /// The sockets of the master CLI, which another program takes over.
    listening: Vec<Arc<OwnedFd>>,
    /// No connection to the former worker's CLI is made (`-x /dev/null`).
    no_hand_over: bool,
    daemon: bool,
    /// What leaving the terminal needs, and the process that waits for it.
    launcher: Option<(File, Ready)>,
    starting: Option<Starting>,
    following: Option<Following>,
    wanted: Option<Wanted>,
    /// Set from the worker that serves.
    max_reloads: u32,
    stays: bool,
    crashes: VecDeque<Instant>,
    /// When the next worker is started in place of one that died.
    revive_at: Option<Instant>,
    /// All are told to leave; the status to leave with, and whether that is said.
    stopping: Option<(i32, bool)>,
}

/// Runs a master to its end.
pub fn run(program: &Program, options: &Options, reporter: &mut Reporter) -> ExitCode {
    let inherited = std::env::var(MASTER_VARIABLE)
        .ok()
        .and_then(|text| Processes::decode(&text, |number| inherited::take(number).ok()));
    match begin(program, options, reporter, inherited) {
        Ok(Begun::Serving(mut master)) => ExitCode::from(master.run()),
        Ok(Begun::Launched(true)) => ExitCode::SUCCESS,
        Ok(Begun::Launched(false)) | Err(()) => ExitCode::FAILURE,
    }
}

fn file_id(path: &Path) -> Option<FileId> {
    std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino(), found.mtime(), found.mtime_nsec()))
}

/// A thread that waits for something.
fn wait_in_thread(name: &str, wait: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    thread::Builder::new().name(name.into()).stack_size(STACK_SIZE).spawn(wait).map(drop)
}

impl Master<'_> {
    fn run(&mut self) -> u8 {
        loop {
            let revive = self.revive_at.map(|at| at.saturating_duration_since(Instant::now()));
            let patience = [revive, self.notify.watchdog].into_iter().flatten().min();
            let event = match patience {
                None => self.events.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(patience) => self.events.recv_timeout(patience),
            };
            match event {
                Ok(Event::Signal(signal)) => self.on_signal(signal),
                Ok(Event::Said(pid, said)) => self.on_said(pid, said),
                Ok(Event::Silent(pid)) => self.note_end(pid, None),
                Ok(Event::Followed(pid, answer)) => self.on_followed(pid, answer),
                Ok(Event::Reload { hard, reply }) => self.reload(hard, Some(reply)),
                Err(RecvTimeoutError::Timeout) => {
                    if self.notify.watchdog.is_some() {
                        self.notify.alive();
                    }
                }
                // `self.shared` has a sender.
                Err(RecvTimeoutError::Disconnected) => return 1,
            }
            if self.revive_at.is_some_and(|at| at <= Instant::now()) {
                self.start_worker(false, Vec::new(), String::new());
            }
            if let Some((status, say)) = self.stopping
                && self.known().workers.is_empty()
            {
                if say {
                    self.warning(&format!("All workers exited. Exiting... ({status})"));
                }
                return status as u8;
            }
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Processes> {
        locked(&self.shared.processes)
    }

    fn on_signal(&mut self, signal: Signal) {
        match signal {
            Signal::User2 | Signal::Hangup => self.reload(false, None),
            Signal::Child => {
                while let Some((pid, exit)) = child::ended() {
                    self.note_end(pid, Some(exit));
                }
            }
            Signal::Terminate => self.stop(signal, 0),
            Signal::Interrupt => self.stop(signal, 130),
            Signal::User1 => self.stop(signal, 0),
            Signal::TerminalOutput | Signal::TerminalInput => self.tell_current(signal),
            Signal::Quit => self.tell_current(signal),
        }
    }

    /// Tells the worker that serves.
    fn tell_current(&self, signal: Signal) {
        if let Some(worker) = self.known().in_role(Role::Current) {
            let _ = signal::send(worker.pid, signal);
        }
    }

    /// Tells all workers to leave; the master follows them.
    fn stop(&mut self, signal: Signal, status: i32) {
        if self.stopping.is_none() {
            self.notify.stopping();
            self.warning("Exiting Master process...");
        }
        self.stopping = Some((status, true));
        self.revive_at = None;
        for worker in &self.known().workers {
            // One that starts has no clients, and does not wait for signals yet.
            let signal = if worker.role == Role::Starting { Signal::Terminate } else { signal };
            let _ = signal::send(worker.pid, signal);
        }
    }

    fn reload(&mut self, hard: bool, reply: Option<Reply>) {
        if self.stopping.is_some() {
            // The channel's end tells who waits.
            return;
        }
        if self.starting.is_some() || self.following.is_some() {
            // What is being read may be older than what is to be read now.
            let wanted = self.wanted.get_or_insert_default();
            wanted.hard |= hard;
            wanted.replies.extend(reply);
            return;
        }
        self.notify.reloading();
        self.notice(&format!("Reloading {}", if self.program.as_haproxy { "HAProxy" } else { "Thalweg" }));
        self.begin_reload(hard, reply.into_iter().collect());
    }

    /// Has the worker that serves follow the files, or starts another one.
    fn begin_reload(&mut self, hard: bool, replies: Vec<Reply>) {
        match self.may_follow().filter(|_| !hard) {
            Some((pid, link)) => self.tell_to_follow(pid, link, replies),
            None => self.start_worker(hard, replies, String::new()),
        }
    }

    /// Starts a worker that will replace the one that serves. `said` is what was said before that.
    fn start_worker(&mut self, hard: bool, replies: Vec<Reply>, said: String) {
        self.revive_at = None;
        let program = file_id(&self.file);
        let mut starting = Starting { pid: 0, hard, program, replies, log: said };
        match self.spawn() {
            Ok((pid, link)) => {
                starting.pid = pid;
                starting.log += &self.notice(&format!("Initializing new worker ({pid})"));
                let worker = Worker {
                    pid,
                    role: Role::Starting,
                    link: Arc::clone(&link),
                    since: SystemTime::now(),
                    reloads: 0,
                    follows: false,
                    version: self.shared.version.to_owned(),
                    exit: None,
                    silent: false,
                };
                self.known().workers.push(worker);
                self.starting = Some(starting);
                self.listen_to(pid, link);
            }
            Err(error) => {
                let text = format!("Cannot start a worker : {} : {error}.", self.file.display());
                starting.log += &self.alert(&text);
                self.starting = Some(starting);
                self.start_failed();
            }
        }
    }

    fn spawn(&self) -> std::io::Result<(u32, Arc<OwnedFd>)> {
        let (ours, theirs) = child::packet_pair()?;
        let (mut predecessor, mut old) = (None, Vec::new());
        for worker in &self.known().workers {
            old.push(worker.pid);
            if worker.role == Role::Current && !self.no_hand_over {
                predecessor = link::connect(worker.link.as_fd(), Begin::ONE_LINE).ok();
            }
        }
        let part = Part::new(&theirs, predecessor.as_ref(), old, self.daemon);
        let mut arguments = std::env::args_os();
        let mut command = Command::new(&self.file);
        if let Some(name) = arguments.next() {
            command.arg0(name);
        }
        command.args(arguments).env(WORKER_VARIABLE, part.encode()).env_remove(MASTER_VARIABLE);
        let mut kept: Vec<BorrowedFd<'_>> = vec![theirs.as_fd()];
        kept.extend(predecessor.as_ref().map(|p| p.as_fd()));
        child::keep_open(&mut command, &kept);
        Ok((command.spawn()?.id(), Arc::new(ours)))
    }

    /// Hears what a worker says.
    fn listen_to(&mut self, pid: u32, link: Arc<OwnedFd>) {
        let events = self.shared.events.clone();
        let hear = move || {
            while let Ok(Some(said)) = link::hear(link.as_fd()) {
                if events.send(Event::Said(pid, said)).is_err() {
                    return;
                }
            }
            let _ = events.send(Event::Silent(pid));
        };
        if let Err(error) = wait_in_thread("worker", hear) {
            // It will not be heard that it serves.
            self.alert(&format!("Cannot start a thread : {error}."));
            let _ = signal::send(pid, Signal::Terminate);
            self.note_end(pid, None);
        }
    }

    fn on_said(&mut self, pid: u32, said: Said) {
        let Some(starting) = self.starting.as_mut().filter(|starting| starting.pid == pid) else { return };
        match said {
            Said::Follows => {
                let mut known = locked(&self.shared.processes);
                known
                    .workers
                    .iter_mut()
                    .filter(|worker| worker.pid == pid)
                    .for_each(|worker| worker.follows = true);
            }
            Said::Failed { log } => starting.log.push_str(&log),
            Said::Ready { version, max_reloads, master_stays, log } => {
                starting.log.push_str(&log);
                (self.max_reloads, self.stays) = (max_reloads, master_stays);
                self.serves(pid, version);
            }
        }
    }

    /// A new worker serves.
    fn serves(&mut self, pid: u32, version: String) {
        let Some(mut starting) = self.starting.take() else { return };
        starting.log += &self.notice("Loading success.");
        let max_reloads = self.max_reloads;
        let mut leaving = Vec::new();
        {
            let mut known = self.known();
            let replaces = known.in_role(Role::Current).is_some();
            known.promote(pid);
            known.failed = 0;
            known.reloads += u32::from(replaces);
            known.log.clone_from(&starting.log);
            for worker in &mut known.workers {
                if worker.pid == pid {
                    worker.version.clone_from(&version);
                } else if starting.hard || worker.reloads > max_reloads {
                    leaving.push((worker.pid, Signal::Terminate));
                } else {
                    leaving.push((worker.pid, Signal::User1));
                }
            }
        }
        for (pid, signal) in leaving {
            let _ = signal::send(pid, signal);
        }
        let shared = Arc::clone(&self.shared);
        let becomes = starting.program.is_some() && starting.program != self.running;
        let _nobody_comes = becomes.then(|| locked(&shared.accepting));
        let outcome = Outcome { success: true, log: starting.log };
        starting.replies.iter().for_each(|reply| _ = reply.to.send(outcome.clone()));
        if let Some((null, ready)) = self.launcher.take() {
            // Whatever is said from here on goes to the logs.
            let _ = sys::close_terminal(null);
            self.reporter.verbosity.quiet = true;
            ready.tell();
        }
        if becomes {
            for reply in starting.replies {
                // Nothing is ever sent: this waits for the other end to be dropped.
                let _ = reply.told.recv_timeout(TELL_PATIENCE);
            }
            self.become_it();
        }
        self.finish_reload();
    }

    /// What follows a start or a reload, however it went.
    fn finish_reload(&mut self) {
        if let Some(Wanted { hard, replies }) = self.wanted.take() {
            self.notify.reloading();
            self.begin_reload(hard, replies);
        } else if self.known().in_role(Role::Current).is_some() {
            self.notify.ready();
        }
    }

    /// This process becomes the program that the new worker is.
    fn become_it(&mut self) {
        // A reload that waits would be forgotten; the next one does it.
        if self.wanted.is_some() {
            return;
        }
        let sockets: Vec<i32> = self.listening.iter().map(|socket| socket.as_raw_fd()).collect();
        let (text, links) = {
            let known = self.known();
            let links: Vec<Arc<OwnedFd>> = known.workers.iter().map(|w| Arc::clone(&w.link)).collect();
            (known.encode(&sockets, self.daemon), links)
        };
        let mut kept: Vec<BorrowedFd<'_>> = self.listening.iter().map(|socket| socket.as_fd()).collect();
        kept.extend(links.iter().map(|link| link.as_fd()));
        let arguments: Vec<OsString> = std::env::args_os().collect();
        let variable = (MASTER_VARIABLE, text.as_str());
        let Err(error) = child::become_program(self.file.as_os_str(), &arguments, variable, &kept);
        self.warning(&format!(
            "The master goes on as it was until the next reload: cannot become {} : {error}.",
            self.file.display()
        ));
    }

    /// The worker that was started will not serve.
    fn start_failed(&mut self) {
        let Some(starting) = self.starting.take() else { return };
        let serving = {
            let mut known = self.known();
            known.failed += 1;
            known.log.clone_from(&starting.log);
            known.in_role(Role::Current).is_some()
        };
        let outcome = Outcome { success: false, log: starting.log };
        starting.replies.iter().for_each(|reply| _ = reply.to.send(outcome.clone()));
        if !serving {
            // Nobody serves: there is nothing to watch over.
            match self.stays && self.stopping.is_none() {
                true => self.revive_at = Some(Instant::now() + CRASH_PAUSE),
                false => self.stopping = self.stopping.or(Some((1, false))),
            }
            return;
        }
        self.notify.reload_failed();
        if let Some(Wanted { hard, replies }) = self.wanted.take() {
            self.notify.reloading();
            self.begin_reload(hard, replies);
        }
    }

    /// A worker ended, or will say nothing more. Only both are its end: what it said last may come behind the news of its
    /// exit.
    fn note_end(&mut self, pid: u32, exit: Option<Exit>) {
        let ended = {
            let mut known = self.known();
            // A process that this one was given by somebody else is of no interest.
            let Some(at) = known.workers.iter().position(|worker| worker.pid == pid) else { return };
            let worker = &mut known.workers[at];
            match exit {
                Some(exit) => worker.exit = Some(exit),
                None => worker.silent = true,
            }
            match (worker.exit, worker.silent) {
                (Some(exit), true) => Some((known.workers.remove(at).role, exit)),
                _ => None,
            }
        };
        if let Some((role, exit)) = ended {
            self.on_end(pid, role, exit);
        }
    }

    fn on_end(&mut self, pid: u32, role: Role, exit: Exit) {
        let told = format!("({pid}) exited with code {} ({})", exit.status(), exit.reason());
        match role {
            Role::Starting => {
                let said = self.warning(&format!("Failed to load worker {told}"));
                if let Some(starting) = &mut self.starting {
                    starting.log.push_str(&said);
                }
                self.start_failed();
            }
            Role::Former => _ = self.warning(&format!("Former worker {told}")),
            Role::Current if exit == Exit::Code(0) => {
                self.warning(&format!("Current worker {told}"));
                // Somebody told it to finish: nothing went wrong, and nothing is left to do.
                if self.stopping.is_none() {
                    self.stop(Signal::User1, 0);
                }
            }
            Role::Current => {
                self.alert(&format!("Current worker {told}"));
                if self.stopping.is_none() {
                    self.replace_dead(exit);
                }
            }
        }
    }

    /// The worker that served died.
    fn replace_dead(&mut self, exit: Exit) {
        if self.starting.is_some() {
            // Its successor is on its way.
            return;
        }
        let now = Instant::now();
        self.crashes.push_back(now);
        self.crashes.retain(|at| now.duration_since(*at) < CRASH_WINDOW);
        let often = self.crashes.len() > CRASHES_MAX;
        if often && !self.stays {
            self.alert("Workers die too often: killing every processes with SIGTERM");
            self.stop(Signal::Terminate, exit.status());
            return;
        }
        self.revive_at = Some(if often { now + CRASH_PAUSE } else { now });
    }

    fn notice(&mut self, text: &str) -> String {
        self.reporter.notice(text);
        message_line(Severity::Notice, std::process::id(), text)
    }

    fn warning(&mut self, text: &str) -> String {
        self.reporter.warning(text);
        message_line(Severity::Warning, std::process::id(), text)
    }

    fn alert(&mut self, text: &str) -> String {
        self.reporter.alert(text);
        message_line(Severity::Alert, std::process::id(), text)
    }
}
