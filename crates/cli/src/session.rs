//! One connection to the CLI: reads lines, runs their commands, answers.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use thalweg_config::model::CliLevel;
use thalweg_proxy::Instance;
use thalweg_proxy::Stopping;
use thalweg_proxy::connection::handshake;
use thalweg_proxy::connection::port::Port;
use thalweg_proxy::connection::transport::Transport;
use thalweg_runtime::net::Stream;
use thalweg_runtime::{pool, timer};
use thalweg_syntax::carry::{carry, restore};
use thalweg_tls::live::BindLine;

use crate::command;
use crate::complete::complete;
use crate::output::Output;
use crate::transaction::Transaction;
use crate::{Begin, Cli, Severity, Socket, commands, shown, words};

/// How long a client that sent too much is read from, in milliseconds.
const LINGER_MS: u64 = 1000;

/// Bytes received at once.
const RECEIVE_MAX: usize = 16 * 1024;

/// How a session goes on after a line (`prompt`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// One line, then the connection ends.
    #[default]
    Single,
    /// Any number of lines.
    Interactive,
    /// The same, and a prompt says when the next one may be typed.
    Prompt,
}

/// The state of a session.
pub struct Session {
    /// What all sessions share.
    pub cli: Arc<Cli>,
    /// What was in force when the last command began.
    pub instance: Arc<Instance>,
    /// Where it came in.
    pub socket: Arc<Socket>,
    /// What it may do now.
    pub level: CliLevel,
    /// How it goes on.
    pub mode: Mode,
    /// The prompt shows the uptime.
    pub timed: bool,
    /// Whether messages begin with their severity.
    pub severity: Severity,
    /// `expert-mode on`.
    pub expert: bool,
    /// `experimental-mode on`.
    pub experimental: bool,
    /// The key of its anonymous dumps, 0 while they are not (`set anon`).
    pub anon_key: u32,
    /// Changes that it notes to make them all at once.
    pub transaction: Option<Transaction>,
    /// A command ended it.
    pub end: Option<End>,
}

/// Serves a connection to its end.
pub async fn serve(cli: Arc<Cli>, socket: Arc<Socket>, fd: OwnedFd) {
    let _place = Place(Arc::clone(&cli));
    let level = socket.level;
    let begin = Begin { level, mode: Mode::Single, timed: false, expert: false, experimental: false };
    let Some(stream) = accepted(fd) else { return };
    let io = match &socket.tls {
        None => Some(Transport::from(stream)),
        Some(line) => encrypt(&cli, line, stream).await,
    };
    if let Some(io) = io {
        converse(cli, socket, io, begin).await;
    }
}

/// A connection of an operator, who is heard when clients wait for buffers.
fn accepted(fd: OwnedFd) -> Option<Stream> {
    let mut stream = Stream::from_accepted(fd).ok()?;
    stream.set_vital();
    Some(stream)
}

/// Shakes hands with a client, within `stats timeout`.
async fn encrypt(cli: &Cli, line: &BindLine, stream: Stream) -> Option<Transport> {
    let worker = crate::worker()?;
    let deadline = cli.live.current()?.config.global.stats_timeout_ms.map(timer::deadline_in);
    let mut port = Port::new(Transport::from(stream));
    let shaking = handshake::accept(&mut port, line.selection(), worker.record_limits(), deadline);
    let facts = pool::boxed(shaking).await.ok()?;
    worker.count_tls_client(facts.known.resumed);
    port.line.into_wire()
}

/// The same, of a session that begins as it is told.
pub async fn begin(cli: Arc<Cli>, socket: Arc<Socket>, fd: OwnedFd, begin: Begin) {
    let Some(stream) = accepted(fd) else { return };
    converse(cli, socket, Transport::from(stream), begin).await;
}

async fn converse(cli: Arc<Cli>, socket: Arc<Socket>, io: Transport, begin: Begin) {
    let severity = socket.severity;
    let Begin { level, mode, timed, expert, experimental } = begin;
    let Some(instance) = cli.live.current() else { return };
    let timeout_ms = instance.config.global.stats_timeout_ms;
    let mut output = Output::new(io, timeout_ms, Arc::clone(&cli.counts));
    let mut session = Session {
        cli,
        instance,
        socket,
        level,
        mode,
        timed,
        severity,
        expert,
        experimental,
        anon_key: 0,
        transaction: None,
        end: None,
    };
    // A client that is gone needs no answer, and one that says nothing gets none.
    match session.run(&mut output).await {
        Ok(End::HandListeners) => session.hand_listeners(output).await,
        // An end that was not announced may have been made by anybody on the way.
        Ok(End::Closed) if output.stream().is_encrypted() => drop(output.stream().shutdown_write()),
        _ => {}
    }
}

/// A place below `stats maxconn`.
struct Place(Arc<Cli>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.gate.leave();
    }
}

/// How a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By closing the connection.
    Closed,
    /// By handing the listening sockets over.
    HandListeners,
}

/// What was received and not used yet.
#[derive(Default)]
pub struct Input {
    bytes: Vec<u8>,
    /// Where the next line begins: lines are not moved out of the way one by one.
    start: usize,
    /// Up to here there is no newline.
    searched: usize,
    ended: bool,
}

impl Input {
    /// The next line of commands without its newline. One after a backslash belongs to the line.
    fn commands(&mut self) -> Option<Vec<u8>> {
        self.line_that_ends(|before| before.iter().rev().take_while(|b| **b == b'\\').count() % 2 == 0)
    }

    /// The next line without its newline.
    fn line(&mut self) -> Option<Vec<u8>> {
        self.line_that_ends(|_| true)
    }

    /// The next line, up to a newline that ends it: `ends` is told what is before the newline.
    fn line_that_ends(&mut self, ends: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
        let (bytes, start) = (&self.bytes, self.start);
        let found = (self.searched.max(start)..bytes.len())
            .find(|at| bytes[*at] == b'\n' && ends(&bytes[start..*at]));
        let Some(end) = found else {
            self.searched = self.bytes.len();
            return None;
        };
        self.start = end + 1;
        Some(self.bytes[start..end].to_vec())
    }

    /// Bytes that no line was made of yet.
    fn pending(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Forgets what lines were made of.
    fn compact(&mut self) {
        self.bytes.drain(..self.start);
        self.searched = self.searched.saturating_sub(self.start);
        self.start = 0;
    }

    /// Ready when the client said something, which is thrown away, or will say nothing more.
    ///
    /// # Errors
    /// The connection broke.
    pub fn poll_any(&mut self, output: &mut Output) -> Poll<io::Result<()>> {
        if self.pending() == 0 && !self.ended {
            match output.stream().poll_recv(RECEIVE_MAX) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(said)) => self.ended = said.is_empty(),
            }
        }
        self.bytes.clear();
        (self.start, self.searched) = (0, 0);
        Poll::Ready(Ok(()))
    }

    /// Throws away what the client still sends, for a while: closing with something unread would reset the connection,
    /// and a reset may overtake the answer.
    async fn drop_rest(&mut self, output: &mut Output) {
        let deadline = Some(timer::deadline_in(LINGER_MS));
        while let Ok(Ok(buf)) = timer::timeout_at(deadline, output.stream().recv(RECEIVE_MAX)).await {
            if buf.is_empty() {
                return;
            }
        }
    }

    /// Waits for more. An error when the client is silent for too long.
    async fn receive(&mut self, output: &mut Output) -> io::Result<()> {
        let deadline = output.timeout_ms.map(timer::deadline_in);
        match timer::timeout_at(deadline, output.stream().recv(RECEIVE_MAX)).await {
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
            Ok(Err(error)) => Err(error),
            Ok(Ok(buf)) => {
                self.ended = buf.is_empty();
                self.compact();
                self.bytes.extend_from_slice(&buf);
                Ok(())
            }
        }
    }
}

impl Session {
    /// Whether commands that need this mode may be given.
    pub fn allows(&self, mode: command::Mode) -> bool {
        match mode {
            command::Mode::Any => true,
            command::Mode::Experimental => self.experimental,
            command::Mode::Expert => self.expert,
        }
    }

    async fn run(&mut self, output: &mut Output) -> io::Result<End> {
        let mut input = Input::default();
        let mut asked = false;
        if self.mode == Mode::Prompt {
            output.text.push_str(&self.prompt());
            output.flush().await?;
        }
        loop {
            let Some(line) = self.next_line(&mut input, output).await? else { return Ok(End::Closed) };
            if !std::mem::replace(&mut asked, true) {
                self.cli.counts.requests.fetch_add(1, Ordering::Relaxed);
            }
            // A client whose lines end in CR and LF ends all of them so.
            let (line, ends_crlf) = match line.strip_suffix(b"\r") {
                Some(line) => (line, true),
                None => (&*line, false),
            };
            // What is not UTF-8 goes through all commands and comes out again as it came in.
            let line = carry(line);
            let (line, payload) = match words::payload_marker(&line) {
                Some((before, marker)) => {
                    let Some(payload) = self.payload(&mut input, output, marker, ends_crlf).await? else {
                        return Ok(End::Closed);
                    };
                    (before, Some(payload))
                }
                None => (&*line, None),
            };
            if self.mode != Mode::Single
                && let Some(line) = line.strip_suffix('\t')
            {
                let begun = words::commands(line).pop().unwrap_or("");
                output.text.push_str(&complete(self, begun));
                self.end_line(output).await?;
                continue;
            }
            let commands = words::commands(line);
            let last = commands.len() - 1;
            for (i, command) in commands.into_iter().enumerate() {
                let words = words::words(command);
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                // A payload belongs to the last command of its line.
                let payload = payload.as_deref().filter(|_| i == last);
                if let Some(now) = self.cli.live.current() {
                    self.instance = now;
                }
                command::run(self, output, &mut input, &words, payload).await?;
                if let Some(end) = self.end {
                    // Whoever asks for sockets waits for them, and for nothing else.
                    if end == End::Closed {
                        output.flush().await?;
                    }
                    return Ok(end);
                }
                output.text.push('\n');
                output.end_row().await?;
            }
            self.end_line(output).await?;
            if self.mode == Mode::Single || self.instance.stopping() == Stopping::Hard {
                return Ok(End::Closed);
            }
        }
    }

    /// Sends what a line was answered with.
    async fn end_line(&self, output: &mut Output) -> io::Result<()> {
        if self.mode == Mode::Prompt {
            output.text.push_str(&self.prompt());
        }
        output.flush().await
    }

    fn prompt(&self) -> String {
        if !self.timed {
            return "> ".into();
        }
        format!("[{}]> ", shown::prompt_time(commands::uptime_s(&self.cli)))
    }

    /// The next line; `None` at the end of the connection or when it is too long.
    async fn next_line(&self, input: &mut Input, output: &mut Output) -> io::Result<Option<Vec<u8>>> {
        loop {
            let line = input.commands();
            // However it came: a line that is complete at once may be too long as well.
            let len = line.as_ref().map_or(input.pending(), Vec::len);
            if len >= self.instance.config.global.tune.bufsize {
                output.text.push_str("The command line is too big for the buffer size. Please change 'tune.bufsize' in the configuration to use a bigger command.\n");
                output.flush().await?;
                input.drop_rest(output).await;
                return Ok(None);
            }
            if line.is_some() || input.ended {
                return Ok(line);
            }
            input.receive(output).await?;
        }
    }

    /// The lines up to the marker, without the CR at their ends if the first line had one; `None` at the end of the
    /// connection or when there are too many.
    async fn payload(
        &self,
        input: &mut Input,
        output: &mut Output,
        marker: &str,
        ends_crlf: bool,
    ) -> io::Result<Option<String>> {
        let limit = self.instance.config.global.tune.cli_max_payload_size;
        let mut payload = Vec::new();
        let marker = restore(marker.as_bytes());
        loop {
            let line = input.line().map(|mut line| {
                if ends_crlf && line.last() == Some(&b'\r') {
                    line.pop();
                }
                line
            });
            match line {
                Some(line) if line == *marker => return Ok(Some(carry(&payload).into_owned())),
                Some(line) => {
                    payload.extend_from_slice(&line);
                    payload.push(b'\n');
                }
                None => {
                    if self.mode == Mode::Prompt {
                        output.text.push_str("+ ");
                        output.flush().await?;
                    }
                    // Half a payload is not what was meant.
                    if input.ended {
                        return Ok(None);
                    }
                    input.receive(output).await?;
                }
            }
            if payload.len() + input.pending() > limit.max(1) {
                output.text.push_str("The payload is too big. Please change 'tune.cli.max-payload-size' in the configuration to use a bigger payload.\n");
                output.flush().await?;
                input.drop_rest(output).await;
                return Ok(None);
            }
        }
    }

    /// `_getsocks`: leaves the connection to the program, which passes the listening sockets over it.
    async fn hand_listeners(&self, output: Output) {
        let socket = &self.socket;
        // As in the reference, whoever may not have them is left without an answer.
        if !socket.unix || !socket.gives_listeners || self.level < CliLevel::Admin {
            return;
        }
        let mut stream = output.into_stream();
        std::future::poll_fn(|_| stream.poll_detach()).await;
        if let Some(fd) = stream.into_fd() {
            self.cli.process.hand_listeners(fd);
        }
    }
}
