//! The runtime CLI (`stats socket`), first version: what scripts need to find the process and to replace it
//! (management manual, section 9.3).
//!
//! It runs on threads of its own that only wait and write text, so that nothing it does can hold up traffic. One
//! command per connection unless `prompt` is given first; every answer ends with an empty line.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use thalweg_config::model::CliLevel;
use thalweg_sys::fd::wait_readable;
use thalweg_sys::handover::{SocketToHand, hand_over};

use crate::service::{Control, SharedSocket};

/// A line longer than this is not a command.
const LINE_MAX: u64 = 16 * 1024;

/// Without `stats timeout`, a client that says nothing is dropped after this long.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);

/// The stack of a thread that reads commands and writes text.
const STACK_SIZE: usize = 256 * 1024;

/// A CLI socket that listens.
pub struct CliListener {
    /// The socket.
    pub fd: OwnedFd,
    /// How `show cli sockets` calls it.
    pub name: String,
    /// What its users may do.
    pub level: CliLevel,
    /// `expose-fd listeners`.
    pub gives_listeners: bool,
    /// Whether it is a unix socket.
    pub unix: bool,
}

/// What all connections share.
pub struct CliShared {
    /// The version shown by `show version`.
    pub version: String,
    /// The name of the product shown by `show info`.
    pub product: String,
    /// When the process started.
    pub started: Instant,
    /// `stats timeout`.
    pub timeout: Option<Duration>,
    /// `stats maxconn`.
    pub connections_max: usize,
    /// Name and level of each socket.
    pub sockets: Vec<(String, CliLevel)>,
    /// The process.
    pub control: Control,
}

/// Starts a thread per socket. They end when `stop` is closed, letting go of their sockets.
pub fn start(listeners: Vec<CliListener>, shared: CliShared, stop: &Arc<UnixStream>) -> io::Result<()> {
    let shared = Arc::new(shared);
    let open = Arc::new(AtomicUsize::new(0));
    for listener in listeners {
        let (shared, open, stop) = (shared.clone(), open.clone(), stop.try_clone()?);
        thread::Builder::new()
            .name("cli".into())
            .stack_size(STACK_SIZE)
            .spawn(move || accept(&listener, &shared, &open, &stop))?;
    }
    Ok(())
}

enum Client {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Client {
    fn set_up(&self, timeout: Duration) -> io::Result<()> {
        match self {
            Client::Tcp(stream) => {
                stream.set_nonblocking(false)?;
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))
            }
            Client::Unix(stream) => {
                stream.set_nonblocking(false)?;
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))
            }
        }
    }

    fn reader(&self) -> io::Result<Box<dyn Read>> {
        Ok(match self {
            Client::Tcp(stream) => Box::new(stream.try_clone()?),
            Client::Unix(stream) => Box::new(stream.try_clone()?),
        })
    }
}

impl Write for Client {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Client::Tcp(stream) => stream.write(bytes),
            Client::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn accept(listener: &CliListener, shared: &Arc<CliShared>, open: &Arc<AtomicUsize>, stop: &UnixStream) {
    enum Socket {
        Tcp(TcpListener),
        Unix(UnixListener),
    }
    let Ok(fd) = listener.fd.try_clone() else { return };
    let socket = if listener.unix { Socket::Unix(fd.into()) } else { Socket::Tcp(fd.into()) };
    let timeout = shared.timeout.unwrap_or(TIMEOUT_DEFAULT);
    loop {
        match wait_readable(&[stop.as_fd(), listener.fd.as_fd()]) {
            Ok(1) => {}
            _ => return,
        }
        // Non-blocking: another thread or process may have taken the connection.
        let accepted = match &socket {
            Socket::Tcp(socket) => socket.accept().map(|(stream, _)| Client::Tcp(stream)),
            Socket::Unix(socket) => socket.accept().map(|(stream, _)| Client::Unix(stream)),
        };
        let Ok(client) = accepted else {
            // Out of files, usually: waiting is all there is to do, but not in a tight loop.
            thread::sleep(Duration::from_millis(20));
            continue;
        };
        if open.fetch_add(1, Ordering::SeqCst) >= shared.connections_max {
            open.fetch_sub(1, Ordering::SeqCst);
            continue;
        }
        let session = Session {
            shared: shared.clone(),
            level: listener.level,
            gives_listeners: listener.gives_listeners,
            interactive: false,
        };
        let counted = open.clone();
        let serve = move || {
            // A client that went away needs no answer.
            let _ = client.set_up(timeout).and_then(|()| session.serve(client));
            counted.fetch_sub(1, Ordering::SeqCst);
        };
        let thread = thread::Builder::new().name("cli".into()).stack_size(STACK_SIZE).spawn(serve);
        if thread.is_err() {
            open.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

struct Session {
    shared: Arc<CliShared>,
    level: CliLevel,
    gives_listeners: bool,
    interactive: bool,
}

/// What is said about commands, in the order of `help`.
const COMMANDS: [(&str, &str); 9] = [
    ("show env [var]", "dump environment variables known to the process"),
    ("show info", "report information about the running process"),
    ("show version", "show version of the current process"),
    ("show cli level", "display the level of the current CLI session"),
    ("show cli sockets", "dump list of cli sockets"),
    ("operator", "lower the level of the current CLI session to operator"),
    ("user", "lower the level of the current CLI session to user"),
    ("prompt", "toggle interactive mode with prompt"),
    ("quit", "disconnect"),
];

enum Answer {
    Text(String),
    Prompt,
    Sockets,
    Quit,
}

impl Session {
    fn serve(mut self, mut client: Client) -> io::Result<()> {
        let mut reader = BufReader::new(client.reader()?);
        loop {
            let mut line = Vec::new();
            if reader.by_ref().take(LINE_MAX).read_until(b'\n', &mut line)? == 0 {
                return Ok(());
            }
            if !line.ends_with(b"\n") && line.len() as u64 >= LINE_MAX {
                return client.write_all(b"The command is too long for the buffer size.\n\n");
            }
            let line = String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_string();
            for command in split_commands(&line) {
                match self.answer(&command) {
                    Answer::Text(text) => client.write_all(format!("{text}\n").as_bytes())?,
                    Answer::Prompt => {
                        self.interactive = !self.interactive;
                        client.write_all(b"\n")?;
                    }
                    Answer::Sockets => return self.hand_listeners(client),
                    Answer::Quit => return Ok(()),
                }
            }
            if !self.interactive {
                return Ok(());
            }
            client.write_all(b"> ")?;
        }
    }

    fn answer(&mut self, command: &str) -> Answer {
        let words: Vec<&str> = command.split_whitespace().collect();
        Answer::Text(match words.as_slice() {
            [] => String::new(),
            ["help", ..] => help("The following commands are valid at this level:"),
            ["prompt", ..] => return Answer::Prompt,
            ["quit"] => return Answer::Quit,
            ["_getsocks"] => return Answer::Sockets,
            ["operator"] => {
                self.level = self.level.min(CliLevel::Operator);
                String::new()
            }
            ["user"] => {
                self.level = self.level.min(CliLevel::User);
                String::new()
            }
            ["show", "version"] => format!("{}\n", self.shared.version),
            ["show", "info"] => self.info(),
            ["show", "cli", "level"] => format!("{}\n", level_name(self.level)),
            ["show", "cli", "sockets"] => {
                let mut text = "# socket lvl processes\n".to_string();
                for (name, level) in &self.shared.sockets {
                    text.push_str(&format!("{name} {} all\n", level_name(*level)));
                }
                text
            }
            ["show", "env", ..] if self.level < CliLevel::Operator => "Permission denied\n".to_string(),
            ["show", "env", rest @ ..] => environment(rest.first().copied()),
            [first, ..] => help(&format!("Unknown command: '{first}'. The commands known so far are:")),
        })
    }

    fn info(&self) -> String {
        let figures = self.shared.control.figures();
        let seconds = self.shared.started.elapsed().as_secs();
        let uptime = format!(
            "{}d {}h{:02}m{:02}s",
            seconds / 86400,
            seconds / 3600 % 24,
            seconds / 60 % 60,
            seconds % 60
        );
        let mut text = String::new();
        for (name, value) in [
            ("Name", self.shared.product.clone()),
            ("Version", self.shared.version.clone()),
            ("Nbthread", figures.threads.to_string()),
            ("Nbproc", "1".into()),
            ("Process_num", "1".into()),
            ("Pid", std::process::id().to_string()),
            ("Uptime", uptime),
            ("Uptime_sec", seconds.to_string()),
            ("Ulimit-n", figures.file_limit.to_string()),
            ("Maxconn", figures.maxconn.to_string()),
            ("Hard_maxconn", figures.maxconn.to_string()),
            ("CurrConns", figures.connections.to_string()),
            ("node", figures.node),
            ("Stopping", u8::from(figures.stopping).to_string()),
            ("Listeners", figures.listeners.to_string()),
        ] {
            text.push_str(&format!("{name}: {value}\n"));
        }
        text
    }

    /// `_getsocks`: passes the listening sockets to a new process.
    fn hand_listeners(&self, client: Client) -> io::Result<()> {
        // As in the reference, whoever may not have them is left without an answer.
        let Client::Unix(mut stream) = client else { return Ok(()) };
        if !self.gives_listeners || self.level < CliLevel::Admin {
            return Ok(());
        }
        let sockets = self.shared.control.listening_sockets();
        let sockets: Vec<SocketToHand<'_>> = sockets.iter().map(SharedSocket::to_hand).collect();
        hand_over(&mut stream, &sockets)
    }
}

fn level_name(level: CliLevel) -> &'static str {
    match level {
        CliLevel::User => "user",
        CliLevel::Operator => "operator",
        CliLevel::Admin => "admin",
    }
}

fn help(title: &str) -> String {
    let mut text = format!("{title}\n");
    for (command, meaning) in COMMANDS {
        text.push_str(&format!("  {command:<40}: {meaning}\n"));
    }
    text
}

fn environment(name: Option<&str>) -> String {
    match name {
        Some(name) => match std::env::var_os(name) {
            Some(value) => format!("{name}={}\n", value.to_string_lossy()),
            None => "Variable not found\n".to_string(),
        },
        None => std::env::vars_os()
            .map(|(name, value)| format!("{}={}\n", name.to_string_lossy(), value.to_string_lossy()))
            .collect(),
    }
}

/// Cuts a line at semicolons; `\;` is a semicolon.
fn split_commands(line: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut command = String::new();
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\\' if characters.peek() == Some(&';') => {
                characters.next();
                command.push(';');
            }
            ';' => commands.push(std::mem::take(&mut command)),
            _ => command.push(character),
        }
    }
    commands.push(command);
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_hold_several_commands() {
        for (line, expected) in [
            ("show info", &["show info"][..]),
            ("a;b", &["a", "b"]),
            (r"a\;b;c\d", &["a;b", r"c\d"]),
            ("", &[""]),
            (";", &["", ""]),
        ] {
            assert_eq!(split_commands(line), expected, "{line}");
        }
    }
}
