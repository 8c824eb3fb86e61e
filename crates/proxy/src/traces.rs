//! What the process tells of itself while it works (`trace`): the points that [`thalweg_trace`] has names for, and where
//! their lines go.
//!
//! Who reaches such a point looks at one word that changes with commands only; all else is done for those who asked.

use std::fmt::Write;

use thalweg_config::model::{LogDest, ProxyId, ServerId};
use thalweg_h2::frame::{Header, PREFACE};
use thalweg_http::Head;
use thalweg_sample::facts::Endpoint;
use thalweg_shared::{AtomicU32, Mutex, MutexGuard, Ordering};
use thalweg_sys::fd::complain;
use thalweg_trace::source::{check, h1, h2, session, ssl, stream, verbosity};
use thalweg_trace::{Criterion, Events, Level, Sink, Source, Subject, Traces};

use crate::frontend::ClientSession;
use crate::stream::Stream;
use crate::stream::ending::Cause;
use crate::worker::{SessionEntry, Thread};

/// The bit of [`Tracing`] that no source has: streams have spans.
const SPANS: u32 = 1 << 31;

/// The traces of the process.
pub struct Tracing {
    /// The sources that somebody asked for, as bits, and [`SPANS`].
    wanted: AtomicU32,
    /// [`SPANS`], or nothing.
    spans: u32,
    traces: Mutex<Traces>,
}

/// Something that happened.
#[derive(Clone, Copy)]
pub struct Event<'a> {
    pub source: Source,
    pub events: Events,
    pub level: Level,
    pub message: &'a str,
}

impl Event<'static> {
    const fn user(source: Source, events: Events, message: &'static str) -> Event<'static> {
        Event { source, events, level: Level::User, message }
    }
}

pub const SESSION_NEW: Event<'static> = Event::user(Source::Session, session::NEW, "new session");
const SESSION_END: Event<'static> = Event::user(Source::Session, session::END, "releasing session");
pub const TLS_NEW: Event<'static> = Event::user(Source::Ssl, ssl::NEW, "new SSL connection");
pub const TLS_AGREED: Event<'static> = Event::user(Source::Ssl, ssl::HANDSHAKE, "SSL handshake done");
pub const TLS_FAILED: Event<'static> = Event {
    source: Source::Ssl,
    events: ssl::ERROR | ssl::HANDSHAKE,
    level: Level::Error,
    message: "SSL handshake failed",
};
pub const STREAM_NEW: Event<'static> = Event::user(Source::Stream, stream::NEW, "new stream");
pub const STREAM_FREE: Event<'static> = Event::user(Source::Stream, stream::FREE, "releasing stream");
pub const BACKEND_CHOSEN: Event<'static> =
    Event { level: Level::State, ..Event::user(Source::Stream, stream::ANALYSIS, "backend chosen") };
pub const SERVER_ASSIGNED: Event<'static> =
    Event { level: Level::State, ..Event::user(Source::Stream, stream::CONNECTOR, "server assigned") };
pub const H1_ERROR: Event<'static> =
    Event { level: Level::Error, ..Event::user(Source::H1, h1::ERROR, "H1 parsing error in request") };
pub const CHECK_START: Event<'static> = Event::user(Source::Check, check::START, "health-check started");
pub const CHECK_PASSED: Event<'static> =
    Event::user(Source::Check, check::END | check::SUCCESS, "health-check succeeded");
pub const CHECK_FAILED: Event<'static> = Event {
    level: Level::Error,
    ..Event::user(Source::Check, check::END | check::FAILURE, "health-check failed")
};

/// The two ways of a message, or of a frame.
#[derive(Clone, Copy)]
pub enum Way {
    Received,
    Sent,
}

/// Frames of a connection of HTTP/2 that are to be told of.
#[derive(Default)]
pub struct Frames {
    /// Whether anybody wants to know.
    pub wanted: bool,
    // Boxed because few connections are traced.
    #[allow(clippy::box_collection)]
    noted: Option<Box<Vec<(Way, Header)>>>,
}

impl Frames {
    /// Notes a frame.
    #[inline]
    pub fn note(&mut self, way: Way, frame: &Header) {
        if self.wanted {
            self.noted.get_or_insert_default().push((way, *frame));
        }
    }

    /// Notes all in what is to be sent, which begins with one, or with what a client says first.
    pub fn note_sent(&mut self, output: &[u8]) {
        if !self.wanted {
            return;
        }
        let mut left = output.strip_prefix(PREFACE).unwrap_or(output);
        while let Some((bytes, rest)) = left.split_first_chunk() {
            let frame = Header::parse(bytes);
            self.note(Way::Sent, &frame);
            left = rest.get(frame.len..).unwrap_or_default();
        }
    }

    /// Whether there is anything to be told.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.noted.is_none()
    }
}

impl Tracing {
    /// As the configuration says; `spans` says whether streams have spans.
    pub fn new(traces: Traces, spans: bool) -> Tracing {
        let spans = if spans { SPANS } else { 0 };
        Tracing { wanted: AtomicU32::new(traces.wanted() | spans), spans, traces: Mutex::new(traces) }
    }

    fn lock(&self) -> MutexGuard<'_, Traces> {
        self.traces.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Whether anybody wants to know that a stream ends: who traces streams, or a collector.
    #[inline]
    pub fn wants_ends(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) & (1 << Source::Stream as u8 | SPANS) != 0
    }

    fn set_wanted(&self, traces: &Traces) {
        self.wanted.store(traces.wanted() | self.spans, Ordering::Relaxed);
    }

    /// Whether anybody asked for that source.
    #[inline]
    pub fn wants(&self, source: Source) -> bool {
        self.wanted.load(Ordering::Relaxed) >> source as u8 & 1 == 1
    }

    /// What another configuration says takes the place of what was asked for.
    pub fn replace(&self, traces: Traces) {
        let mut own = self.lock();
        *own = traces;
        self.set_wanted(&own);
    }

    /// The command `trace`.
    ///
    /// # Errors
    /// See [`Traces::command`].
    pub fn command(&self, words: &[&str], sinks: &[Sink<'_>]) -> Result<String, String> {
        let mut traces = self.lock();
        let said = traces.command(words, sinks);
        self.set_wanted(&traces);
        said
    }

    /// The command `show trace`.
    ///
    /// # Errors
    /// See [`Traces::show`].
    pub fn show(&self, words: &[&str], sinks: &[Sink<'_>]) -> Result<String, String> {
        self.lock().show(words, sinks)
    }
}

/// A number for a server, among those of all backends.
fn server_number(backend: ProxyId, server: ServerId) -> u64 {
    u64::from(backend.0) << 32 | u64::from(server.0)
}

impl Thread {
    /// Tells of something, if it is asked for. `more` adds what a verbosity above the quiet one has.
    #[cold]
    pub fn tell(&self, event: Event<'_>, subject: Subject, more: impl FnOnce(&mut String, usize)) {
        let subject = subject.with(Criterion::Thread, self.thread as u64);
        let mut traces = self.live.tracing.lock();
        let telling = traces.offer(event.source, event.events, event.level, &subject);
        let told = telling.map(|telling| (telling.sink.to_owned(), telling.verbosity));
        // An event may have stopped its trace.
        self.live.tracing.set_wanted(&traces);
        drop(traces);
        let Some((sink, detail)) = told else { return };
        let info = event.source.info();
        let name = info.events.get(event.events.trailing_zeros() as usize).map_or("", |event| event.name);
        let (source, level) = (info.name, event.level as u8);
        let mut line = format!("[{:02}|{source}|{level}|{name}] {}", self.thread, event.message);
        if detail > verbosity::QUIET {
            more(&mut line, detail);
        }
        match &*sink {
            "stderr" => complain(line_of(&line).as_bytes()),
            "stdout" => thalweg_sys::fd::say(line_of(&line).as_bytes()),
            ring => {
                // A sink that is gone with its configuration takes nothing.
                if self.live.log.ring(ring).is_some() {
                    self.note(&LogDest::Ring(ring.into()), line.as_bytes());
                }
            }
        }
    }

    /// Tells of a client's connection.
    #[inline]
    pub fn trace_session(&self, session: &ClientSession, event: Event<'_>) {
        if self.live.tracing.wants(event.source) {
            let source = session.facts().source();
            self.tell(event, of_session(self.thread, session), |line, _| add_client(line, source));
        }
    }

    /// Tells that a client's connection is gone.
    #[inline]
    pub fn trace_session_end(&self, entry: &SessionEntry) {
        if self.live.tracing.wants(Source::Session) {
            let subject = of_connection(self.thread, entry.frontend, u64::from(entry.listener), entry.socket);
            let client = entry.source.map(|(ip, port)| Endpoint::Inet((ip, port).into()));
            self.tell(SESSION_END, subject, |line, _| add_client(line, client.unwrap_or(Endpoint::Unix)));
        }
    }

    /// Tells of frames of a client's connection.
    pub fn trace_client_frames(&self, session: &ClientSession, frames: &mut Frames) {
        let source = session.facts().source();
        self.trace_frames(of_session(self.thread, session), frames, |line| add_client(line, source));
    }

    /// Tells of frames of a connection to a server.
    pub fn trace_server_frames(&self, (backend, server): (ProxyId, ServerId), frames: &mut Frames) {
        let subject = Subject::default()
            .with(Criterion::Backend, u64::from(backend.0))
            .with(Criterion::Server, server_number(backend, server));
        self.trace_frames(subject, frames, |line| {
            let Some(worker) = self.pin() else { return };
            if let Some(proxy) = worker.instance.config.find_proxy(backend)
                && let Some(server) = proxy.server(server)
            {
                worker.with_name(backend, server, |name| {
                    let _ = write!(line, " : server={}/{name}", proxy.name);
                });
            }
        });
    }

    /// Tells of the frames that were noted, and has those that come be noted as long as somebody asks for them.
    #[inline]
    fn trace_frames(&self, subject: Subject, frames: &mut Frames, of: impl Fn(&mut String)) {
        for (way, frame) in frames.noted.take().into_iter().flat_map(|noted| *noted) {
            let (message, sent) = match way {
                Way::Received => ("rcvd frame", false),
                Way::Sent => ("sent frame", true),
            };
            let events = h2::of_frame(frame.kind.number(), sent);
            let event = Event { source: Source::H2, events, level: Level::Proto, message };
            self.tell(event, subject, |line, _| {
                of(line);
                let Header { len, kind, flags, stream } = frame;
                let _ = write!(line, " {kind:?} flags={flags:#04x} len={len} stream={stream}");
            });
        }
    }

    /// Whether somebody asks for frames.
    #[inline]
    pub fn traces_frames(&self) -> bool {
        self.live.tracing.wants(Source::H2)
    }

    /// Tells of a health check, for who found that it is asked for. `result` says more, once there is one.
    pub fn tell_of_check(
        &self,
        of: (ProxyId, ServerId),
        names: (&str, &str),
        event: Event<'_>,
        result: &str,
    ) {
        let number = server_number(of.0, of.1);
        let subject = Subject::default()
            .with(Criterion::Backend, u64::from(of.0.0))
            .with(Criterion::Server, number)
            .with(Criterion::Check, number);
        self.tell(event, subject, |line, _| {
            let _ = write!(line, " : server={}/{}{result}", names.0, names.1);
        });
    }
}

fn line_of(text: &str) -> String {
    format!("{text}\n")
}

/// The number of a client's socket among those of its thread.
pub fn socket_number(session: &ClientSession) -> u32 {
    // The higher half says how often the number was used.
    session.facts().socket as u32
}

fn of_session(thread: usize, session: &ClientSession) -> Subject {
    of_connection(thread, session.frontend, session.listener as u64, socket_number(session))
}

fn of_connection(thread: usize, frontend: ProxyId, listener: u64, socket: u32) -> Subject {
    Subject::default()
        .with(Criterion::Frontend, u64::from(frontend.0))
        .with(Criterion::Listener, listener)
        .with(Criterion::Session, (thread as u64) << 32 | u64::from(socket))
}

fn add_client(line: &mut String, source: Endpoint) {
    // Writing to a string does not fail.
    let _ = match source {
        Endpoint::Inet(source) => write!(line, " : client={source}"),
        Endpoint::Unix => write!(line, " : client=unix"),
        Endpoint::Unknown => write!(line, " : client=?"),
    };
}

impl Stream<'_> {
    /// Tells of this stream.
    #[inline]
    pub fn trace(&self, event: Event<'_>) {
        if self.worker.live.tracing.wants(event.source) {
            self.tell(event, None);
        }
    }

    /// Tells why this stream ends.
    #[inline]
    pub fn trace_end(&self, cause: Cause) {
        if self.worker.live.tracing.wants(Source::Stream) {
            let message = format!("stream ends : {cause:?}");
            self.tell(
                Event {
                    source: Source::Stream,
                    events: stream::ERROR,
                    level: Level::User,
                    message: &message,
                },
                None,
            );
        }
    }

    /// Tells of a request that was received from the client or sent to the server.
    #[inline]
    pub fn trace_request(&self, way: Way, framed: bool) {
        if self.worker.live.tracing.wants(source_of(framed)) {
            let message = match way {
                Way::Received => "rcvd request headers",
                Way::Sent => "sending request headers",
            };
            self.tell(of_head(way, framed, message), Some(&self.state.request));
        }
    }

    /// Tells of a response that was received from the server or sent to the client.
    #[inline]
    pub fn trace_response(&self, way: Way, framed: bool) {
        if self.worker.live.tracing.wants(source_of(framed)) {
            let message = match way {
                Way::Received => "rcvd response headers",
                Way::Sent => "sending response headers",
            };
            self.tell(of_head(way, framed, message), Some(&self.state.response));
        }
    }

    #[cold]
    fn tell(&self, event: Event<'_>, head: Option<&Head>) {
        let facts = &self.state.facts;
        let mut subject =
            of_session(self.worker.thread, self.session).with(Criterion::Stream, u64::from(facts.id));
        let backend = facts.backend_assigned.then(|| self.state.backend());
        if let Some(backend) = backend {
            subject = subject.with(Criterion::Backend, u64::from(backend.0));
        }
        let server = backend.zip(facts.server).map(|(backend, server)| (backend, ServerId(server.index)));
        if let Some((backend, server)) = server {
            subject = subject.with(Criterion::Server, server_number(backend, server));
        }
        self.worker.tell(event, subject, |line, detail| {
            add_client(line, self.session.facts().source());
            let config = &self.worker.instance.config;
            let _ = write!(line, " strm={} fe={}", facts.id, self.frontend().name);
            if let Some(backend) = backend.and_then(|backend| config.find_proxy(backend)) {
                let _ = write!(line, " be={}", backend.name);
                if let Some(server) = server.and_then(|(_, server)| backend.server(server)) {
                    self.worker.with_name(backend.id, server, |name| {
                        let _ = write!(line, " srv={name}");
                    });
                }
            }
            if let Some(head) = head {
                add_head(line, head, detail);
            }
        });
    }
}

fn source_of(framed: bool) -> Source {
    if framed { Source::H2 } else { Source::H1 }
}

fn of_head(way: Way, framed: bool, message: &str) -> Event<'_> {
    let events = match (way, framed) {
        (Way::Received, false) => h1::RX_HEADERS,
        (Way::Sent, false) => h1::TX_HEADERS,
        (Way::Received, true) => h2::RX_HEADERS,
        (Way::Sent, true) => h2::TX_HEADERS,
    };
    Event { source: source_of(framed), events, level: Level::User, message }
}

/// The first line of a message, and its fields, as far as they are wanted. What a peer sent does not end the line.
fn add_head(line: &mut String, head: &Head, detail: usize) {
    let plain = |bytes: &[u8]| bytes.escape_ascii().to_string();
    if detail >= verbosity::SIMPLE {
        let _ = match head.status() {
            0 => write!(line, " - {} {}", plain(head.method_bytes()), plain(head.target())),
            status => write!(line, " - {status} {}", plain(head.reason())),
        };
    }
    if detail >= verbosity::ADVANCED {
        for field in head.fields() {
            let _ = write!(line, " | {}: {}", plain(field.name), plain(field.value));
        }
    }
}
