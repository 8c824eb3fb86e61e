//! Reload in place, as the program does it: the files of the command line are read again on a thread of its own, compared with what
//! is in force, and put in its place if nothing stands in the way. What each step does to live state is in
//! [`thalweg_proxy::reload`].

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak, mpsc};

use thalweg_cli::{Cli, Reload};
use thalweg_config::model::{BindAddr, Config, Global};
use thalweg_config::{After, Comparison, compare};
use thalweg_proxy::reload::{self, Next, Overtaken, Reserved};
use thalweg_proxy::{Instance, Live, Stopping};
use thalweg_runtime::Handle;
use thalweg_runtime::topology::roam;
use thalweg_syntax::RenderOptions;
use thalweg_sys::process::{Limit, file_limit, give_way_a_little, set_file_limit};

use crate::aside::Aside;
use crate::cli::Options;
use crate::listen::{self, Backups, CliSocket, Handed};
use crate::load;
use crate::stats_socket::{self, SharedSockets};

/// How often it is tried anew because somebody else changed what is in force meanwhile.
const TRIES: u32 = 5;
/// Differences that an answer lists.
const SHOWN_MAX: usize = 200;
/// The stack of the thread that reads files: as that of the program's first thread.
const STACK_SIZE: usize = 8 << 20;

/// Reloads this process.
pub struct Reloader {
    options: Options,
    live: Arc<Live>,
    shared: SharedSockets,
    handle: OnceLock<Handle>,
    /// What is asked through it refers to this.
    cli: OnceLock<Weak<Cli>>,
    /// Held by the reload that is in progress.
    busy: Mutex<()>,
    /// Where reloads are made.
    works: Aside,
    /// Where files are read. It gives way a little to those that serve: it takes long, and holds nothing that they wait for. What
    /// comes after it does, for a moment, and is not delayed.
    reads: Aside,
}

/// What came of a reload.
pub struct Outcome {
    pub success: bool,
    /// Lines for people, each with its end.
    pub log: String,
}

impl Outcome {
    fn failure(log: String) -> Outcome {
        Outcome { success: false, log }
    }

    /// As a master answers it.
    pub fn text(&self) -> String {
        format!("Success={}\n--\n{}", u8::from(self.success), self.log)
    }
}

/// What was said of a reload, by [its text](Outcome::text).
///
/// # Errors
/// It failed: the first line about why.
pub fn succeeded(text: &str) -> Result<&str, &str> {
    match text.strip_prefix("Success=1\n--\n") {
        Some(said) => Ok(said.strip_suffix('\n').unwrap_or(said)),
        None => {
            let log = text.strip_prefix("Success=0\n--\n").unwrap_or(text);
            Err(log.lines().next().unwrap_or("it ended.").trim_start_matches("! "))
        }
    }
}

/// A configuration that was read to follow the one in force.
struct Read {
    reserved: Reserved,
    config: Config,
    found: Comparison,
    /// What was said about it.
    said: String,
}

impl Reloader {
    /// Of a process that was started like this.
    pub fn new(options: &Options, live: &Arc<Live>, shared: &SharedSockets) -> Arc<Reloader> {
        Arc::new(Reloader {
            options: options.clone(),
            live: Arc::clone(live),
            shared: Arc::clone(shared),
            handle: OnceLock::new(),
            cli: OnceLock::new(),
            busy: Mutex::new(()),
            works: Aside::new("reload", STACK_SIZE, roam),
            reads: Aside::new("reload-files", STACK_SIZE, || {
                roam();
                give_way_a_little();
            }),
        })
    }

    /// The threads run: from now on it can be asked for.
    pub fn set_handle(&self, handle: Handle) {
        let _ = self.handle.set(handle);
    }

    /// The CLI, whose sockets follow.
    pub fn set_cli(&self, cli: &Arc<Cli>) {
        let _ = self.cli.set(Arc::downgrade(cli));
    }

    /// Does it on a thread of its own, which `answer` is called on.
    pub fn start(self: &Arc<Self>, what: Reload, answer: Box<dyn FnOnce(String) + Send>) {
        let reloader = Arc::clone(self);
        // Without a thread whoever asked hears that nothing is known of it.
        let _ = self.works.run(move || {
            answer(match what {
                Reload::Apply { force } => reloader.reload(force).text(),
                Reload::Compare { files } => reloader.compare(files).text(),
            });
        });
    }

    /// Reads the files again and serves what they say.
    pub fn reload(self: &Arc<Self>, force: bool) -> Outcome {
        let Ok(_one) = self.busy.try_lock() else {
            return Outcome::failure("Another reload is in progress: nothing was changed.\n".into());
        };
        for _ in 0..TRIES {
            // Overtaken by somebody else's change: once more.
            if let Ok(outcome) = self.try_once(force) {
                return outcome;
            }
        }
        Outcome::failure(
            "Others change the configuration all the time: nothing was changed. Try again.\n".into(),
        )
    }

    /// What a reload would do, of these files in place of those of the command line, if there are any.
    pub fn compare(self: &Arc<Self>, files: Vec<String>) -> Outcome {
        match self.read_aside(files, false) {
            Ok(read) => {
                let success = read.found.obstacles.is_empty();
                let kept = kept(read.reserved.base(), &read.config, false);
                Outcome { success, log: format!("{}{}{kept}", read.said, listed(&read.found)) }
            }
            Err(outcome) => outcome,
        }
    }

    /// [Reads](Self::read) on a thread of its own, or on this one if there is no memory for one.
    fn read_aside(self: &Arc<Self>, files: Vec<String>, force: bool) -> Result<Read, Outcome> {
        let (tell, told) = mpsc::channel();
        let (reloader, named) = (Arc::clone(self), files.clone());
        let read = move || _ = tell.send(reloader.read(&named, force));
        match self.reads.run(read) {
            Ok(()) => told.recv().unwrap_or_else(|_| {
                Err(Outcome::failure(
                    "Reading the files ended in an error of the program: nothing was changed.\n".into(),
                ))
            }),
            Err(_) => self.read(&files, force),
        }
    }

    fn read(&self, files: &[String], force: bool) -> Result<Read, Outcome> {
        if self.live.stopping() != Stopping::No {
            return Err(Outcome::failure("The process is on its way out: nothing was changed.\n".into()));
        }
        let Some(reserved) = Reserved::new(&self.live) else {
            return Err(Outcome::failure("The process has ended.\n".into()));
        };
        let base = Arc::clone(reserved.base());
        let after = After { config: &base.config, numbers: &reserved, force };
        let loaded = load::load_following(&self.options, files, after);
        let pid = std::process::id();
        let mut said = loaded
            .diagnostics
            .render(&loaded.sources, RenderOptions { pid, diagnostic_mode: self.options.diagnostic_mode });
        said.push_str(&loaded.diagnostics.verdict(pid));
        let Some(config) = loaded.config.filter(|_| !loaded.diagnostics.has_errors()) else {
            said.push_str("Nothing was changed.\n");
            return Err(Outcome::failure(said));
        };
        let zero_warning = self.options.zero_warning || config.global.zero_warning;
        if loaded.diagnostics.has_warnings() && zero_warning {
            said.push_str("Some warnings were found and 'zero-warning' is set: nothing was changed.\n");
            return Err(Outcome::failure(said));
        }
        let mut found = compare(&base.config, &config);
        reload::obstacles(&base, &config, &mut found);
        inherited(&base, &config, &mut found);
        if let Err(obstacle) = files_needed(&base.config.global, &config.global) {
            found.obstacles.push(obstacle);
        }
        Ok(Read { reserved, config, found, said })
    }

    fn try_once(self: &Arc<Self>, force: bool) -> Result<Outcome, Overtaken> {
        let Read { reserved, config, found, said } = match self.read_aside(Vec::new(), force) {
            Ok(read) => read,
            Err(outcome) => return Ok(outcome),
        };
        if !found.obstacles.is_empty() {
            let log = format!(
                "{said}{}Nothing was changed: restart, or take these lines back.\n",
                obstacles(&found)
            );
            return Ok(Outcome::failure(log));
        }
        let Some(handle) = self.handle.get() else {
            return Ok(Outcome::failure("The process is not serving yet.\n".into()));
        };
        let base = Arc::clone(reserved.base());
        // More are allowed than are used, should nothing come of it: that does no harm.
        if let Ok(Some(limit)) = files_needed(&base.config.global, &config.global)
            && let Err(error) = set_file_limit(limit)
        {
            let files = limit.soft;
            let log = format!("{said}{files} open files are not allowed : {error}. Nothing was changed.\n");
            return Ok(Outcome::failure(log));
        }
        let mut warnings = Vec::new();
        let backups = Backups::make(&config);
        let opened = listen::open_following(&base.config, &config, &mut warnings).and_then(|opened| {
            let doors = listen::open_cli_following(Some(&base.config), &config, &mut Handed::default())?;
            Ok((opened, doors))
        });
        let (opened, doors) = match opened {
            Ok(opened) => opened,
            Err(messages) => {
                backups.restore();
                let lines: String = messages.iter().map(|message| format!("{message}\n")).collect();
                return Ok(Outcome::failure(format!("{said}{lines}Nothing was changed.\n")));
            }
        };
        let kept = kept(&base, &config, force);
        let (sockets, ports) = listen::distribute(opened.sockets, &config, base.threads.len());
        let generation = match Next::of(reserved, config).put_in_force(handle, sockets) {
            Ok(generation) => generation,
            Err(overtaken) => {
                backups.restore();
                return Err(overtaken);
            }
        };
        backups.discard();
        if let (Some(cli), Some(now)) = (self.cli.get().and_then(Weak::upgrade), self.live.current()) {
            follow_doors(&cli, &now.config, doors, handle);
        }
        let mut shared = crate::locked(&self.shared);
        let closing =
            shared.extract_if(.., |s| s.listener.is_some_and(|number| opened.closing.contains(&number)));
        closing.for_each(|socket| socket.port.retire());
        shared.extend(ports);
        drop(shared);
        let warnings: String = warnings.iter().map(|message| format!("{message}\n")).collect();
        let log = format!("{said}{warnings}Generation {generation} is in force.\n{}{kept}", listed(&found));
        Ok(Outcome { success: true, log })
    }
}

/// The sockets of the CLI are those of the lines in force. Sessions stay what they began as.
fn follow_doors(cli: &Arc<Cli>, config: &Config, sockets: Vec<CliSocket>, handle: &Handle) {
    let before = cli.doors.all();
    let (mut doors, mut fresh) = (Vec::new(), Vec::new());
    for (bind, socket) in config.global.stats_sockets.iter().zip(sockets) {
        match socket {
            CliSocket::Opened(door) => {
                fresh.push((doors.len(), Arc::clone(&door)));
                doors.push(door);
            }
            CliSocket::Stays(at) => {
                let Some(door) = before.get(at) else { continue };
                door.set_line(stats_socket::line(bind, door.line().unix));
                doors.push(Arc::clone(door));
            }
        }
    }
    doors.extend(before.iter().filter(|door| door.is_masters()).cloned());
    for door in before.iter().filter(|old| !doors.iter().any(|door| Arc::ptr_eq(door, old))) {
        if let Some(port) = door.port() {
            port.retire();
        }
        door.close();
    }
    cli.doors.replace(doors);
    cli.gate.set_limit(config.global.stats_maxconn.max(1));
    for (number, door) in fresh {
        let cli = Arc::clone(cli);
        handle.run_on(number % handle.thread_count(), move || thalweg_cli::start_thread(&cli, vec![door]));
    }
}

/// The limit of open files that is to be set first, if the one in force is too low for another `maxconn`.
///
/// # Errors
/// Why it cannot be.
fn files_needed(before: &Global, global: &Global) -> Result<Option<Limit>, String> {
    let needed = global.ulimit_n;
    match file_limit() {
        _ if global.maxconn == before.maxconn => Ok(None),
        Ok(limit) if needed <= limit.soft => Ok(None),
        Ok(limit) if needed <= limit.hard => Ok(Some(Limit { soft: needed, hard: limit.hard })),
        Ok(limit) if global.strict_limits => Err(format!(
            "'maxconn {}' needs {needed} open files, and the hard limit is {}: that needs a restart with a higher one.",
            global.maxconn, limit.hard
        )),
        _ => Ok(None),
    }
}

/// Descriptors of the parent are taken over at the start only, and what connects to its clients begins then.
fn inherited(base: &Instance, config: &Config, found: &mut Comparison) {
    let of = |config: &Config, wanted: fn(&BindAddr) -> bool| -> BTreeSet<u32> {
        let binds = config.proxies.iter().filter(|proxy| !proxy.disabled).flat_map(|proxy| &proxy.binds);
        binds.filter(|bind| wanted(&bind.addr)).map(|bind| bind.number).collect()
    };
    let is_descriptor = |addr: &BindAddr| matches!(addr, BindAddr::Fd(_) | BindAddr::SockPair(_));
    let is_known = |addr: &BindAddr| base.config.global.stats_sockets.iter().any(|bind| bind.addr == *addr);
    let of_cli = config.global.stats_sockets.iter().map(|bind| &bind.addr);
    if of_cli.filter(|addr| is_descriptor(addr)).any(|addr| !is_known(addr)) {
        found
            .obstacles
            .push("A new 'stats socket' at a descriptor of the parent process needs a restart.".into());
    }
    if !of(config, is_descriptor).is_subset(&of(&base.config, is_descriptor)) {
        found.obstacles.push("A new 'bind' to a descriptor of the parent process needs a restart.".into());
    }
    let connects = |addr: &BindAddr| matches!(addr, BindAddr::Reverse(_));
    if of(config, connects) != of(&base.config, connects) {
        found.obstacles.push("A change of 'bind rhttp@' lines needs a restart.".into());
    }
}

fn obstacles(found: &Comparison) -> String {
    found.obstacles.iter().map(|obstacle| format!("! {obstacle}\n")).collect()
}

/// The differences, one a line, as many as are good to read.
fn listed(found: &Comparison) -> String {
    let mut text = obstacles(found);
    if found.changes.is_empty() {
        text.push_str("No section differs.\n");
    }
    found.changes.iter().take(SHOWN_MAX).for_each(|change| text.push_str(&format!("{change}\n")));
    if let Some(more) = found.changes.len().checked_sub(SHOWN_MAX).filter(|more| *more > 0) {
        text.push_str(&format!("and {more} more\n"));
    }
    found.losses.iter().for_each(|loss| text.push_str(&format!("lost: {loss}\n")));
    text
}

/// What was changed at run time and is in no file: whether it stays.
fn kept(base: &Instance, config: &Config, force: bool) -> String {
    let word = if force { "dropped" } else { "kept" };
    let mut text = String::new();
    for set in base.config.registry.changed() {
        let name = set.name().unwrap_or_default();
        if config.registry.find(name).is_some() {
            text.push_str(&format!("{word}: changes at run time of {name}\n"));
        }
    }
    let changes = |config: &Config| {
        let live = config.tls.as_ref().map(|tls| tls.lock().unwrap_or_else(PoisonError::into_inner));
        live.map_or_else(Vec::new, |live| live.changes())
    };
    let taken_over: BTreeSet<_> = changes(config).into_iter().collect();
    for change in changes(&base.config) {
        let word = if taken_over.contains(&change) { "kept" } else { "dropped" };
        let how = if change.is_new { ", added at run time" } else { " as set at run time" };
        text.push_str(&format!("{word}: {} {}{how}\n", change.kind.word(), change.name));
    }
    // What a file has meanwhile stays for that.
    let word = |now: Option<bool>| match now {
        Some(false) => None,
        Some(true) => Some("kept"),
        None => Some("dropped"),
    };
    for proxy in &base.config.proxies {
        let now = config.find_proxy(proxy.id);
        if proxy.is_dynamic
            && let Some(word) = word(now.map(|now| now.is_dynamic))
        {
            text.push_str(&format!("{word}: backend {}, added at run time\n", proxy.name));
        }
        for server in proxy.servers.iter().filter(|server| server.is_dynamic) {
            let now = now.and_then(|now| now.server(server.id));
            if let Some(word) = word(now.map(|now| now.is_dynamic)) {
                text.push_str(&format!("{word}: server {}/{}, added at run time\n", proxy.name, server.name));
            }
        }
    }
    text
}
