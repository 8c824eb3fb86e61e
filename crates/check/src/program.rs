//! What the configuration asks a check to do.

use std::net::SocketAddr;
use std::sync::Arc;

use thalweg_sample::logformat::LogFormat;
use thalweg_sample::pattern::Regex;
use thalweg_sample::vars::SetConditions;
use thalweg_sample::{Expr, VarRef};

use crate::{Dialect, Status};

/// What kind of check it is: decides how answers are read and how failures are worded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// No check was chosen: connecting is all.
    #[default]
    Plain,
    /// `option tcp-check`.
    Tcp,
    /// `option httpchk`.
    Http,
    /// One of the built-in protocols (`option redis-check` and the like).
    Dialect,
    /// `option external-check`: a program is run; there are no steps.
    External,
}

/// The steps of a check, in order. The first that does something connects.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// What kind of check it is.
    pub kind: Kind,
    /// The steps.
    pub steps: Vec<Step>,
    /// `http-check disable-on-404`.
    pub disable_on_404: bool,
    /// What is run in place of steps.
    pub external: Option<External>,
}

/// A program that judges a server (`external-check command`, `external-check path`).
#[derive(Clone, Debug)]
pub struct External {
    /// Its file.
    pub command: Arc<str>,
    /// Its `PATH`.
    pub path: Arc<str>,
}

impl Program {
    /// Asks an agent: says what it wants to hear, and waits for its line.
    pub fn agent(send: Option<&[u8]>) -> Program {
        let mut steps = Program::plain().steps;
        let send = send.map(|text| StepKind::Send(Text::Fixed(text.into())));
        steps.extend(send.into_iter().chain([StepKind::Answer(Dialect::Agent)]).map(Step::implicit));
        Program { kind: Kind::Dialect, steps, ..Program::default() }
    }

    /// Only connects.
    pub fn plain() -> Program {
        Program { steps: vec![Step::implicit(StepKind::Connect(Connect::default()))], ..Program::default() }
    }
}

/// One step.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its number in the file, from 1; 0 for one that no line asked for.
    pub number: u32,
    /// What to add to messages about it.
    pub comment: Option<Arc<str>>,
    /// What it does.
    pub kind: StepKind,
}

impl Step {
    /// A step that no line asked for.
    pub fn implicit(kind: StepKind) -> Step {
        Step { number: 0, comment: None, kind }
    }
}

/// What a step does.
#[derive(Clone, Debug)]
pub enum StepKind {
    /// Opens a connection, closing the one before.
    Connect(Connect),
    /// Sends these bytes.
    Send(Text),
    /// Sends an HTTP request.
    Request(Box<HttpRequest>),
    /// Waits for an answer and judges it.
    Expect(Box<Expect>),
    /// Waits for an answer of a built-in protocol.
    Answer(Dialect),
    /// Changes a variable.
    Assign(Box<Assignment>),
    /// Nothing (`tcp-check comment`): it counts as a step.
    Comment,
}

/// Where to connect. What is absent comes from the server.
#[derive(Clone, Debug, Default)]
pub struct Connect {
    /// `addr`; its port, if not 0, counts too.
    pub addr: Option<SocketAddr>,
    /// `port`.
    pub port: Option<Port>,
    /// `send-proxy`.
    pub send_proxy: bool,
    /// `via-socks4`: through the proxy that the server's line names.
    pub via_socks4: bool,
    /// `linger`: end the connection cleanly, not by a reset.
    pub linger: bool,
    /// `ssl`: TLS is spoken.
    pub ssl: bool,
    /// `sni`: the name that is asked for.
    pub sni: Option<Arc<str>>,
    /// `alpn`: the protocols that are offered, in place of those of the server's line.
    pub protocols: Option<Arc<[Vec<u8>]>>,
    /// `proto`
    pub protocol: Option<Protocol>,
    /// `default`, or no line asked for it: TLS, and the protocol, are those that the server's line names for checks.
    pub as_server: bool,
}

impl Connect {
    /// Whether it says nothing of how the connection is made: it is as the server's line has it.
    pub fn is_default(&self) -> bool {
        let elsewhere = self.addr.is_some() || self.port.is_some() || self.via_socks4;
        let otherwise = self.send_proxy || self.ssl || self.sni.is_some() || self.protocols.is_some();
        self.as_server && self.protocol.is_none() && !elsewhere && !otherwise
    }

    /// Whether TLS is spoken, on a server whose line says this of checks.
    pub fn is_encrypted(&self, as_server: bool) -> bool {
        self.ssl || (self.as_server && as_server)
    }
}

/// A protocol that is spoken without negotiation (`proto`, `check-proto`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// `none`: bytes as they are.
    Raw,
    /// `h1`
    Http1,
    /// `h2`
    Http2,
}

/// `port` of a connection.
#[derive(Clone, Debug)]
pub enum Port {
    /// A number.
    Fixed(u16),
    /// Computed.
    Expr(Arc<Expr>),
}

/// Bytes to send or to look for.
#[derive(Clone, Debug)]
pub enum Text {
    /// Always the same.
    Fixed(Arc<[u8]>),
    /// Rendered each time.
    Format(Arc<LogFormat>),
    /// Rendered each time, as hexadecimal digits.
    HexFormat(Arc<LogFormat>),
}

/// A request of an HTTP check.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    /// The method.
    pub method: Arc<[u8]>,
    /// The target.
    pub uri: Text,
    /// `HTTP/1.0`.
    pub version: Arc<[u8]>,
    /// Names and values.
    pub headers: Vec<(Arc<[u8]>, Text)>,
    /// The body; no `Content-Length` without one.
    pub body: Option<Text>,
    /// `http-check send-state`.
    pub send_state: bool,
}

/// An answer that is waited for.
#[derive(Clone, Debug)]
pub struct Expect {
    /// Bytes that must be there before it is judged; -1: it is judged as it comes, and a mismatch waits for more.
    pub min_recv: i32,
    /// `!`: the answer must not match.
    pub negate: bool,
    /// What it is compared with.
    pub matcher: Matcher,
    /// `ok-status`.
    pub ok_status: Option<Status>,
    /// `error-status`.
    pub error_status: Option<Status>,
    /// `tout-status`.
    pub timeout_status: Option<Status>,
    /// `on-success`.
    pub on_success: Option<Arc<LogFormat>>,
    /// `on-error`.
    pub on_error: Option<Arc<LogFormat>>,
    /// `status-code`.
    pub status_code: Option<Arc<Expr>>,
}

impl Expect {
    /// An expectation with nothing special.
    pub fn new(matcher: Matcher) -> Expect {
        Expect {
            min_recv: -1,
            negate: false,
            matcher,
            ok_status: None,
            error_status: None,
            timeout_status: None,
            on_success: None,
            on_error: None,
            status_code: None,
        }
    }
}

/// What an answer is compared with.
#[derive(Clone, Debug)]
pub enum Matcher {
    /// Contains this text.
    String(Text),
    /// Contains these bytes; they are shown in hexadecimal.
    Binary(Text),
    /// Matches this expression.
    Regex(Arc<Regex>),
    /// Matches this expression once written in hexadecimal.
    HexRegex(Arc<Regex>),
    /// The HTTP status is in one of these ranges, bounds included.
    Status(Arc<[(u16, u16)]>),
    /// The HTTP status matches this expression.
    StatusRegex(Arc<Regex>),
    /// Some header field matches.
    Header {
        /// Which fields are looked at.
        name: NamePattern,
        /// What their value must be; absent: being there is enough.
        value: Option<Match>,
        /// `fhdr`: commas do not separate values.
        full: bool,
    },
}

/// Which header fields are looked at.
pub type NamePattern = Match;

/// A pattern for a text.
#[derive(Clone, Debug)]
pub struct Match {
    /// How.
    pub method: MatchMethod,
    /// With what.
    pub text: Text,
}

/// `-m`.
#[derive(Clone, Debug)]
pub enum MatchMethod {
    /// Equal.
    Exact,
    /// Begins with.
    Prefix,
    /// Ends with.
    Suffix,
    /// Contains.
    Substring,
    /// Matches; the text is not looked at.
    Regex(Arc<Regex>),
}

/// A change of a variable.
#[derive(Clone, Debug)]
pub struct Assignment {
    /// Which.
    pub variable: VarRef,
    /// When.
    pub conditions: Option<SetConditions>,
    /// To what.
    pub source: Source,
}

/// The new value of a variable.
#[derive(Clone, Debug)]
pub enum Source {
    /// `set-var`.
    Expr(Arc<Expr>),
    /// `set-var-fmt`.
    Format(Arc<LogFormat>),
    /// `unset-var`.
    Nothing,
}

/// Bytes from pairs of hexadecimal digits.
pub fn parse_hex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |b: u8| char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok());
    if !text.len().is_multiple_of(2) {
        return None;
    }
    text.chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}
