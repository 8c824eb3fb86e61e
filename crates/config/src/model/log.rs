//! Where logs go, and the sections that concern logs only.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use super::{Bind, Server, Shared};
use crate::compiled::LogFormat;

/// One `log` line.
#[derive(Clone, Debug)]
pub struct LogTarget {
    pub dest: LogDest,
    /// Longest line, in bytes (default 1024).
    pub len: u32,
    pub format: LogFormatKind,
    pub facility: Facility,
    /// Least urgent level that is sent.
    pub level: LogLevel,
    /// Most urgent level as which a line is sent: more urgent ones are lowered to it.
    pub minlevel: LogLevel,
    pub sample: Option<Arc<LogSample>>,
    /// Name of a `log-profile` section.
    pub profile: Option<Arc<str>>,
    /// Which line of `global` this is (the first is 0), there and wherever `log global` took it over.
    pub global: Option<usize>,
}

/// Destination of a log line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogDest {
    Udp(SocketAddr),
    /// A datagram socket in the file system, as `/dev/log`.
    Unix(PathBuf),
    /// `fd@n`, written one line per write; 1 and 2 are `stdout` and `stderr`.
    Fd(i32),
    Stdout,
    Stderr,
    /// Name of one of [`super::Config::rings`].
    Ring(Arc<str>),
    /// Name of a backend in `mode log`.
    Backend(Arc<str>),
}

/// How the line is wrapped (`format`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LogFormatKind {
    /// Not given: `rfc3164`, or what the destination needs.
    #[default]
    Unspecified,
    Local,
    Rfc3164,
    Rfc5424,
    Priority,
    Short,
    Timed,
    Iso,
    Raw,
}

/// Syslog facility, 0 (`kern`) to 23 (`local7`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facility(pub u8);

impl Facility {
    /// Names in numeric order.
    pub const NAMES: [&'static str; 24] = [
        "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "auth2", "ftp",
        "ntp", "audit", "alert", "cron2", "local0", "local1", "local2", "local3", "local4", "local5",
        "local6", "local7",
    ];
}

/// Syslog severity, most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum LogLevel {
    Emerg,
    Alert,
    Crit,
    Err,
    Warning,
    Notice,
    Info,
    Debug,
}

impl LogLevel {
    /// Names in numeric order.
    pub const NAMES: [&'static str; 8] =
        ["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"];
    const ALL: [LogLevel; 8] = [
        LogLevel::Emerg,
        LogLevel::Alert,
        LogLevel::Crit,
        LogLevel::Err,
        LogLevel::Warning,
        LogLevel::Notice,
        LogLevel::Info,
        LogLevel::Debug,
    ];

    /// The level of that name.
    pub fn from_name(name: &str) -> Option<LogLevel> {
        LogLevel::NAMES.iter().position(|n| *n == name).map(|i| LogLevel::ALL[i])
    }
}

/// `sample <ranges>:<size>`: of every `size` lines, those whose 1-based position is in one of the ranges are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSample {
    /// Sorted, disjoint, inclusive.
    pub ranges: Vec<(u32, u32)>,
    pub size: u32,
}

/// A `ring` section.
#[derive(Clone, Debug)]
pub struct Ring {
    pub name: Arc<str>,
    pub description: Option<Arc<str>>,
    /// Bytes of the buffer.
    pub size: usize,
    pub maxlen: u32,
    pub format: LogFormatKind,
    pub timeout_connect_ms: Option<u64>,
    pub timeout_server_ms: Option<u64>,
    pub backing_file: Option<PathBuf>,
    pub servers: Vec<RingServer>,
}

/// A server that a ring feeds.
#[derive(Clone, Debug)]
pub struct RingServer {
    pub server: Shared<Server>,
    /// `log-proto octet-count` rather than one line per message.
    pub octet_count: bool,
}

/// A `log-forward` section.
#[derive(Clone, Debug)]
pub struct LogForward {
    pub name: Arc<str>,
    /// Where streams are accepted.
    pub binds: Vec<Bind>,
    /// Where datagrams are received; their addresses are [`super::BindAddr::Tcp`].
    pub dgram_binds: Vec<Bind>,
    pub targets: Arc<[LogTarget]>,
    /// Streams at the same time; 0 for the limit of the process.
    pub maxconn: u32,
    pub backlog: u32,
    pub timeout_client_ms: Option<u64>,
    /// Messages are sent on as they came (`option dont-parse-log`).
    pub dont_parse: bool,
    /// Messages on streams end with a line feed, whatever they begin with.
    pub assume_rfc6587_ntf: bool,
    pub host: LogHost,
}

/// `option host`: what becomes of the host field of a relayed line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LogHost {
    /// It stays as it is, or missing.
    Keep,
    /// It is the sender's address.
    Replace,
    /// It is the sender's address where it is missing.
    #[default]
    Fill,
    /// The sender's address is added behind a comma.
    Append,
}

/// A `log-profile` section.
#[derive(Clone, Debug)]
pub struct LogProfile {
    pub name: Arc<str>,
    pub log_tag: Option<Arc<str>>,
    pub steps: Vec<(LogStep, ProfileStep)>,
}

impl LogProfile {
    /// What was said about a step, or else about any.
    pub fn step(&self, step: LogStep) -> Option<&ProfileStep> {
        let at = |wanted| self.steps.iter().find(|s| s.0 == wanted).map(|s| &s.1);
        at(step).or_else(|| at(LogStep::Any))
    }
}

/// What a profile does with the lines of one step.
#[derive(Clone, Debug)]
pub enum ProfileStep {
    Drop,
    Log { format: Option<Arc<LogFormat>>, sd: Option<Arc<LogFormat>> },
}

/// A moment at which a line may be logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LogStep {
    Accept,
    Request,
    Connect,
    Response,
    Close,
    Error,
    Any,
    QuicInit,
    TcpReqConn,
    TcpReqSess,
    TcpReqCont,
    TcpResCont,
    HttpReq,
    HttpRes,
    HttpAfterRes,
}
