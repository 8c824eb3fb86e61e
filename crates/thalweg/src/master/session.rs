//! The master CLI: its sockets (`-S`), and one thread for each connection.
//!
//! A session is a loop over lines, as on the CLI of a worker. A command with a prefix, and every command after a prefix
//! alone on its line, is passed to a worker as it was typed, over a connection made for it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use thalweg_cli::{Begin, SessionMode, help, level_name, shown, words};
use thalweg_config::model::{BindAddr, CliLevel};
use thalweg_config::{Config, Input, LoadOptions};
use thalweg_syntax::carry::restore;
use thalweg_sys::fd::wait_readable;

use super::commands::{PROMPT_HELP, listed};
use super::processes::Role;
use super::{Event, Reply, Shared, link, wait_in_thread};
use crate::cli::Options;
use crate::listen::{self, Handed};
use crate::locked;

/// Sessions at the same time; further clients wait in the backlog.
const SESSIONS_MAX: usize = 32;
/// The longest line, and the longest payload behind `<<`.
const LINE_MAX: usize = 16 * 1024;
const PAYLOAD_MAX: usize = 1024 * 1024;
/// Pause after the process ran out of descriptors.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);

/// A socket of the master CLI.
pub struct Listener {
    /// How it is called: `unix@/path`.
    pub name: String,
    /// What its users may do.
    pub level: CliLevel,
    /// It is a unix socket.
    pub unix: bool,
    /// The socket.
    pub socket: Arc<OwnedFd>,
}

/// The socket that one `-S` asks for, or several where its address has commas. The error is for an alert.
fn parse(given: &str) -> Result<Config, String> {
    // The same as a line of the configuration. Who may open it decides about everything, unless it says otherwise.
    let (address, rest) = given.split_once(',').unwrap_or((given, ""));
    let text = format!("global\n    stats socket {address} level admin {}\n", rest.replace(',', " "));
    let input = Input::Memory { name: "-S".into(), text: text.into_bytes() };
    let loaded = thalweg_config::load(&LoadOptions { files: vec![input], ..LoadOptions::default() });
    let encrypted = |config: &Config| config.global.stats_sockets.iter().any(|bind| bind.tls.is_some());
    if loaded.config.as_ref().is_some_and(encrypted) {
        return Err(format!("master CLI socket '{given}' : TLS is not spoken here; use a unix socket"));
    }
    loaded.config.ok_or_else(|| {
        // Those without a place count the others, and name a file that nobody wrote.
        let placed = loaded.diagnostics.iter().filter(|diagnostic| diagnostic.span.is_some());
        let said: Vec<String> = placed.map(|diagnostic| diagnostic.message.clone()).collect();
        format!("master CLI socket '{given}' : {}", said.join(" "))
    })
}

/// Opens the sockets of the master CLI, or takes those that this process has `already`. The error is for an alert.
pub fn listen(options: &Options, already: Option<&[OwnedFd]>) -> Result<Vec<Listener>, String> {
    let mut config = Config::default();
    // The last one is first, as in the reference's list.
    for given in options.master_cli.iter().rev() {
        config.global.stats_sockets.extend(parse(given)?.global.stats_sockets.iter().cloned());
    }
    for bind in &mut config.global.stats_sockets {
        if let BindAddr::Unix(path) = &mut bind.addr {
            *path = options.directory.as_deref().unwrap_or(Path::new("")).join(&*path);
        }
    }
    if let Some(already) = already {
        let sockets = config.global.stats_sockets.iter().zip(already);
        return sockets
            .map(|(bind, socket)| {
                let socket = socket.try_clone().map_err(|error| error.to_string())?;
                let unix = !matches!(bind.addr, BindAddr::Tcp(_));
                Ok(Listener {
                    name: bind.addr.to_string(),
                    level: bind.level,
                    unix,
                    socket: Arc::new(socket),
                })
            })
            .collect();
    }
    let opened = listen::open_cli(&config, &mut Handed::default()).map_err(|said| said.join(" "))?;
    let opened = opened.into_iter().filter_map(|door| {
        let (line, socket) = (door.line(), door.port()?.socket()?);
        Some(Listener { name: line.name.clone(), level: line.level, unix: line.unix, socket })
    });
    Ok(opened.collect())
}

/// Accepts connections in a thread of its own.
pub fn serve(listener: Listener, shared: &Arc<Shared>) -> io::Result<()> {
    let socket = listener.socket.try_clone()?;
    let accept: Box<dyn Fn() -> io::Result<OwnedFd> + Send> = if listener.unix {
        let unix = UnixListener::from(socket);
        unix.set_nonblocking(true)?;
        Box::new(move || unix.accept().map(|(stream, _)| stream.into()))
    } else {
        let tcp = TcpListener::from(socket);
        tcp.set_nonblocking(true)?;
        Box::new(move || tcp.accept().map(|(stream, _)| stream.into()))
    };
    let shared = Arc::clone(shared);
    let places = Arc::new(Places { taken: Mutex::new(0), left: Condvar::new() });
    wait_in_thread("master-cli", move || {
        loop {
            let place = Places::take(&places);
            let waited = wait_readable(&[listener.socket.as_fd()]);
            let accepting = locked(&shared.accepting);
            let accepted = waited.and_then(|_| accept());
            drop(accepting);
            match accepted {
                Ok(client) => {
                    let session = Session::new(client, listener.level, Arc::clone(&shared));
                    // Without a thread the client sees its connection end.
                    let _ = wait_in_thread("master-session", move || {
                        let _place = place;
                        // A client that is gone needs no answer.
                        let _ = session.run();
                    });
                }
                // The client left again.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => std::thread::sleep(EXHAUSTED_PAUSE),
            }
        }
    })
}

/// Counts sessions.
struct Places {
    taken: Mutex<usize>,
    left: Condvar,
}

struct Place(Arc<Places>);

impl Places {
    fn take(places: &Arc<Places>) -> Place {
        let mut taken = locked(&places.taken);
        while *taken >= SESSIONS_MAX {
            taken = places.left.wait(taken).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        *taken += 1;
        Place(Arc::clone(places))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        *locked(&self.0.taken) -= 1;
        self.0.left.notify_one();
    }
}

/// What follows a command behind `<<`.
struct Payload {
    /// The line that ends it.
    marker: String,
    lines: String,
}

/// A command as it is sent to a worker, with its payload and what ends that.
fn as_sent(command: &str, payload: Option<&Payload>) -> String {
    match payload {
        Some(Payload { marker, lines }) => format!("{command} <<{marker}\n{lines}{marker}\n"),
        None => format!("{command}\n"),
    }
}

/// Who runs a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Master,
    /// The process with this id.
    Worker(u32),
}

struct Session {
    client: File,
    shared: Arc<Shared>,
    /// Received and not used yet.
    input: Vec<u8>,
    ended: bool,
    /// Who runs commands without a prefix.
    target: Target,
    level: CliLevel,
    prompt: bool,
    timed: bool,
    expert: bool,
    experimental: bool,
    debug: bool,
}

/// Whether the session goes on.
type Goes = io::Result<bool>;

impl Session {
    fn new(client: OwnedFd, level: CliLevel, shared: Arc<Shared>) -> Session {
        Session {
            client: File::from(client),
            shared,
            input: Vec::new(),
            ended: false,
            target: Target::Master,
            level,
            prompt: false,
            timed: false,
            expert: false,
            experimental: false,
            debug: false,
        }
    }

    fn run(mut self) -> io::Result<()> {
        while let Some(line) = self.next_line(LINE_MAX)? {
            let line = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(&line)).into_owned();
            let (line, payload) = match words::payload_marker(&line) {
                Some((before, marker)) => match self.payload(marker)? {
                    Some(lines) => (before.to_owned(), Some(Payload { marker: marker.to_owned(), lines })),
                    None => return Ok(()),
                },
                None => (line, None),
            };
            if !self.line(&line, payload.as_ref())? {
                return Ok(());
            }
            if self.prompt {
                let prompt = self.prompt_text();
                self.client.write_all(prompt.as_bytes())?;
            }
        }
        Ok(())
    }

    /// One line of commands.
    fn line(&mut self, line: &str, payload: Option<&Payload>) -> Goes {
        // `@@` takes the rest of the line with all its commands.
        let commands = words::commands(line);
        let mut at = 0;
        for (number, command) in commands.iter().enumerate() {
            let rest = &line[at..];
            at += command.len() + 1;
            let last = number + 1 == commands.len();
            let command = command.trim_start();
            if let Some(direct) = rest.trim_start().strip_prefix("@@") {
                return self.direct(direct, payload);
            }
            if !self.command(command, payload.filter(|_| last))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// One command, which may begin with who runs it.
    fn command(&mut self, command: &str, payload: Option<&Payload>) -> Goes {
        let Some(prefixed) = command.strip_prefix('@') else {
            return self.run_at(self.target, command, payload);
        };
        let (name, rest) = prefixed.split_once([' ', '\t']).unwrap_or((prefixed, ""));
        let Some(target) = self.find(name) else {
            self.say(&format!("Can't find the target PID matching the prefix '@{name}'\n"))?;
            return Ok(true);
        };
        if rest.trim().is_empty() {
            self.target = target;
            return Ok(true);
        }
        self.run_at(target, rest, payload)
    }

    /// Whom a prefix means: nothing, `0` or `master`; a relative number, which is 1; or `!` and a process id.
    fn find(&self, name: &str) -> Option<Target> {
        let known = locked(&self.shared.processes);
        match name {
            "" | "0" | "master" => Some(Target::Master),
            "1" => known.in_role(Role::Current).map(|worker| Target::Worker(worker.pid)),
            _ => {
                let pid: u32 = name.strip_prefix('!')?.parse().ok()?;
                match pid == std::process::id() {
                    true => Some(Target::Master),
                    false => known.by_pid(pid).map(|worker| Target::Worker(worker.pid)),
                }
            }
        }
    }

    fn run_at(&mut self, target: Target, command: &str, payload: Option<&Payload>) -> Goes {
        // What belongs to this session and not to a process.
        let typed = words::words(command);
        let typed: Vec<&str> = typed.iter().map(String::as_str).collect();
        match *typed {
            [] => return Ok(true),
            ["quit"] => return Ok(false),
            ["prompt", ref args @ ..] => {
                self.set_prompt(args)?;
                return Ok(true);
            }
            ["expert-mode" | "experimental-mode" | "mcli-debug-mode", ref args @ ..] => {
                self.switch(typed[0], args)?;
                return Ok(true);
            }
            ["user" | "operator"] if target == Target::Master => {
                let level = if typed[0] == "user" { CliLevel::User } else { CliLevel::Operator };
                self.lower(level)?;
                return Ok(true);
            }
            _ => {}
        }
        match target {
            Target::Master => self.own(&typed),
            Target::Worker(pid) => {
                match self.connect(pid, SessionMode::Single) {
                    Some(worker) => self.pass(worker, command, payload)?,
                    None => self.say(&format!("The process {pid} is gone.\n"))?,
                }
                Ok(true)
            }
        }
    }

    /// An answer of the master, and the empty line that ends it.
    fn say(&mut self, text: &str) -> io::Result<()> {
        let end = if text.is_empty() || text.ends_with('\n') { "\n" } else { "\n\n" };
        self.client.write_all(&[&*restore(text.as_bytes()), end.as_bytes()].concat())
    }

    fn own(&mut self, typed: &[&str]) -> Goes {
        let answer = match *typed {
            ["help", ref about @ ..] => {
                help::list_of(&listed(), "The following commands are valid at this level:", about)
            }
            ["show", "env" | "startup-logs" | "proc", ..]
            | ["reload" | "hard-reload" | "_loadstatus", ..]
                if self.level < CliLevel::Operator =>
            {
                "Permission denied".to_owned()
            }
            ["show", "proc", what, ..] if what != "debug" => {
                "'show proc' only supports 'debug' as argument".to_owned()
            }
            ["show", "proc", ref args @ ..] => {
                let debug = args.first() == Some(&"debug");
                locked(&self.shared.processes).show(self.shared.version, debug)
            }
            ["show", "version", ..] => self.shared.version.to_owned(),
            ["show", "cli", "level", ..] => level_name(self.level).to_owned(),
            ["show", "cli", "sockets", ..] => {
                shown::sockets(self.shared.sockets.iter().map(|(name, level)| (&**name, *level)))
            }
            ["echo", ref text @ ..] => text.join(" "),
            ["show", "env", ref name @ ..] => {
                shown::environment(&self.shared.environment, name.first().copied())
                    .unwrap_or_else(|| "Variable not found".to_owned())
            }
            ["show", "startup-logs", ..] => locked(&self.shared.processes).log.clone(),
            ["_loadstatus", ..] => {
                let known = locked(&self.shared.processes);
                format!("Success={}\n--\n{}", u8::from(known.failed == 0), known.log)
            }
            ["reload" | "hard-reload", ..] => {
                let (to, outcome) = mpsc::channel();
                // Dropped at the end of this, when the client was told.
                let (_telling, told) = mpsc::channel();
                let (hard, reply) = (typed[0] == "hard-reload", Reply { to, told });
                let asked = self.shared.events.send(Event::Reload { hard, reply });
                if let (Ok(()), Ok(outcome)) = (asked, outcome.recv()) {
                    let text = format!("Success={}\n--\n{}", u8::from(outcome.success), outcome.log);
                    self.say(&text)?;
                }
                // As the reference does: a client reads the outcome up to the end of the connection.
                return Ok(false);
            }
            _ => help::list_of(
                &listed(),
                &format!(
                    "Unknown command: '{}', but maybe one of the following ones is a better match:",
                    typed.first().unwrap_or(&"")
                ),
                typed,
            ),
        };
        self.say(&answer).map(|()| true)
    }

    fn set_prompt(&mut self, args: &[&str]) -> io::Result<()> {
        if args.is_empty() {
            self.prompt = !self.prompt;
        }
        for arg in args {
            match *arg {
                "i" => self.prompt = false,
                "p" => self.prompt = true,
                "timed" => (self.prompt, self.timed) = (true, !self.timed),
                _ => return self.client.write_all(PROMPT_HELP.as_bytes()),
            }
        }
        Ok(())
    }

    fn switch(&mut self, mode: &str, args: &[&str]) -> io::Result<()> {
        if self.level < CliLevel::Admin {
            return self.say("Permission denied!\n");
        }
        let switch = match mode {
            "expert-mode" => &mut self.expert,
            "experimental-mode" => &mut self.experimental,
            _ => &mut self.debug,
        };
        match args {
            [] => {
                let text = format!("{mode} is {}\n", if *switch { "ON" } else { "OFF" });
                self.say(&text)
            }
            [word] => {
                *switch = *word == "on";
                Ok(())
            }
            _ => self.say(&format!("'{mode}' expects 'on' or 'off'.\n")),
        }
    }

    /// Rights are only ever given up.
    fn lower(&mut self, level: CliLevel) -> io::Result<()> {
        if self.level < level {
            return self.say("Permission denied!\n");
        }
        self.level = level;
        (self.expert, self.experimental, self.debug) = (false, false, false);
        Ok(())
    }

    fn prompt_text(&self) -> String {
        let known = locked(&self.shared.processes);
        let (name, since) = match self.target {
            Target::Master if known.failed > 0 => ("master[ReloadFailed]".to_owned(), known.since),
            Target::Master => ("master".to_owned(), known.since),
            Target::Worker(pid) => (pid.to_string(), known.by_pid(pid).map_or(known.since, |w| w.since)),
        };
        let mut flags: String = [(self.experimental, 'x'), (self.expert, 'e'), (self.debug, 'd')]
            .iter()
            .filter_map(|(on, flag)| on.then_some(*flag))
            .collect();
        if !flags.is_empty() {
            flags = format!("({flags})");
        }
        let mut time = String::new();
        if self.timed {
            time = format!("[{}] ", shown::prompt_time(since.elapsed().unwrap_or_default().as_secs()));
        }
        format!("{time}{name}{flags}> ")
    }

    /// A connection to the CLI of a worker.
    fn connect(&self, pid: u32, mode: SessionMode) -> Option<UnixStream> {
        let link = Arc::clone(&locked(&self.shared.processes).by_pid(pid)?.link);
        let begin = Begin {
            level: self.level,
            mode,
            timed: self.timed && mode == SessionMode::Prompt,
            expert: self.expert,
            experimental: self.experimental,
        };
        link::connect(link.as_fd(), begin).ok()
    }

    /// Passes a command to a worker, and its answer to the client.
    fn pass(&mut self, mut worker: UnixStream, command: &str, payload: Option<&Payload>) -> io::Result<()> {
        let line = as_sent(command, payload);
        let mut buffer = [0; LINE_MAX];
        // A worker that ends meanwhile has nothing more to say.
        if worker.write_all(line.as_bytes()).is_err() {
            return Ok(());
        }
        let _ = worker.shutdown(std::net::Shutdown::Write);
        loop {
            match worker.read(&mut buffer) {
                Ok(0) | Err(_) => return Ok(()),
                Ok(n) => self.client.write_all(&buffer[..n])?,
            }
        }
    }

    /// `@@<pid> [commands]`: both directions are passed on until the worker ends its session.
    fn direct(&mut self, rest: &str, payload: Option<&Payload>) -> Goes {
        let (name, commands) = rest.split_once([' ', '\t']).unwrap_or((rest, ""));
        let (name, commands) = (name.trim(), commands.trim());
        let target = self.find(name);
        let Some(Target::Worker(pid)) = target else {
            self.say(&format!("Can't find the target PID matching the prefix '@@{name}'\n"))?;
            return Ok(true);
        };
        let mode = match commands.is_empty() {
            false => SessionMode::Single,
            true if self.prompt => SessionMode::Prompt,
            true => SessionMode::Interactive,
        };
        let Some(mut worker) = self.connect(pid, mode) else {
            self.say(&format!("The process {pid} is gone.\n"))?;
            return Ok(true);
        };
        let mut first = std::mem::take(&mut self.input);
        if !commands.is_empty() {
            let line = as_sent(commands, payload);
            first = [line.as_bytes(), &first].concat();
        }
        if worker.write_all(&first).is_err() {
            return Ok(true);
        }
        if self.ended {
            let _ = worker.shutdown(std::net::Shutdown::Write);
        }
        let mut buffer = [0; LINE_MAX];
        loop {
            let readable = match self.ended {
                true => 0,
                false => wait_readable(&[worker.as_fd(), self.client.as_fd()])?,
            };
            if readable == 0 {
                match worker.read(&mut buffer) {
                    Ok(0) | Err(_) => return Ok(true),
                    Ok(n) => self.client.write_all(&buffer[..n])?,
                }
                continue;
            }
            let n = self.client.read(&mut buffer)?;
            if n == 0 {
                self.ended = true;
                let _ = worker.shutdown(std::net::Shutdown::Write);
            } else if worker.write_all(&buffer[..n]).is_err() {
                return Ok(true);
            }
        }
    }

    /// The lines up to the marker; `None` at the end of the connection, or when there are too many.
    fn payload(&mut self, marker: &str) -> io::Result<Option<String>> {
        let mut payload = String::new();
        while payload.len() <= PAYLOAD_MAX {
            let Some(line) = self.next_raw_line(PAYLOAD_MAX)? else { return Ok(None) };
            let line = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(&line)).into_owned();
            if line == marker {
                return Ok(Some(payload));
            }
            payload.push_str(&line);
            payload.push('\n');
        }
        self.say("The payload is too big.\n")?;
        Ok(None)
    }

    /// The next line of commands: a newline behind a backslash belongs to it.
    fn next_line(&mut self, max: usize) -> io::Result<Option<Vec<u8>>> {
        let mut whole: Vec<u8> = Vec::new();
        loop {
            let Some(line) = self.next_raw_line(max)? else { return Ok(None) };
            whole.extend_from_slice(&line);
            let escaped = whole.iter().rev().take_while(|b| **b == b'\\').count() % 2 == 1;
            if !escaped {
                return Ok(Some(whole));
            }
            whole.push(b'\n');
            if whole.len() > max {
                self.say("The command line is too big.\n")?;
                return Ok(None);
            }
        }
    }

    /// The next line without its newline; `None` at the end of the connection, or when it is too long. The last line needs
    /// no newline.
    fn next_raw_line(&mut self, max: usize) -> io::Result<Option<Vec<u8>>> {
        let mut searched = 0;
        loop {
            if let Some(end) = self.input[searched..].iter().position(|b| *b == b'\n') {
                let end = searched + end;
                let line = self.input[..end].to_vec();
                self.input.drain(..=end);
                return Ok(Some(line));
            }
            searched = self.input.len();
            if searched > max {
                self.say("The line is too big.\n")?;
                return Ok(None);
            }
            if self.ended {
                return Ok((searched > 0).then(|| std::mem::take(&mut self.input)));
            }
            let mut buffer = [0; LINE_MAX];
            match self.client.read(&mut buffer)? {
                0 => self.ended = true,
                n => self.input.extend_from_slice(&buffer[..n]),
            }
        }
    }
}
