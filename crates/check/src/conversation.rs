//! One run of a check, step by step.
//!
//! ```text
//! next() -> Connect --connected()--> next() -> Send | Receive --received()/ended()--> next() ... -> Done
//!              \--------- failed(), timed_out() at any time ends it with a verdict ---------/
//! ```

use std::sync::Arc;

use thalweg_http::Head;
use thalweg_sample::Expr;
use thalweg_sample::logformat::LogFormat;

use crate::answer::Answer;
use crate::dialect::Dialect;
use crate::framed::{self, Frames};
use crate::grpc;
use crate::http::{self, Rendered, Response};
use crate::program::{
    Assignment, Connect, Expect, HttpRequest, Kind, Match, MatchMethod, Matcher, Port, Program, Step,
    StepKind, Text, parse_hex,
};
use crate::status::Status;

/// What the server said, as expressions see it.
pub struct Heard<'a> {
    /// The head of its response, in HTTP checks.
    pub response: Option<&'a mut Head>,
    /// The body of the response, or all that arrived.
    pub bytes: &'a [u8],
}

/// What a conversation needs from its owner to compute texts: expressions see the whole process.
pub trait Evaluate {
    /// Appends the rendered format.
    fn format(&mut self, format: &LogFormat, heard: Heard<'_>, out: &mut Vec<u8>);
    /// The number an expression gives.
    fn integer(&mut self, expr: &Expr, heard: Heard<'_>) -> Option<i64>;
    /// Changes a variable.
    fn assign(&mut self, assignment: &Assignment, heard: Heard<'_>);
    /// The value of `x-haproxy-server-state` (manual, `http-check send-state`).
    fn server_state(&mut self) -> Vec<u8>;
}

/// What to do now.
#[derive(Debug)]
pub enum Next {
    /// Close what is open and connect; then [`Conversation::connected`].
    Connect {
        /// Where to.
        connect: Connect,
        /// The port, computed; `None` for the server's.
        port: Option<u16>,
    },
    /// Send this, then ask again.
    Send(Vec<u8>),
    /// Make this request, then ask again: [`Conversation::on_shared`] said where it goes.
    #[allow(missing_docs)]
    Request { head: Box<Head>, body: Vec<u8> },
    /// Wait for input, then [`Conversation::received`] or [`Conversation::ended`].
    Receive,
    /// It is over.
    Done(Verdict),
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// What was found out.
    pub status: Status,
    /// A code of the protocol.
    pub code: i64,
    /// More about it; empty when there is nothing to say.
    pub info: String,
}

/// How HTTP/2 is spoken.
enum Framing {
    /// On a connection of the check's own.
    Own(Box<Frames>),
    /// On one that carries other requests, too, by whose it is.
    Shared,
}

impl Framing {
    fn is_broken(&self) -> bool {
        matches!(self, Framing::Own(frames) if frames.is_broken())
    }
}

/// Longest text kept about a check, in bytes.
const INFO_MAX: usize = 1024;

/// See the module's documentation.
pub struct Conversation {
    program: Arc<Program>,
    at: usize,
    connected: bool,
    /// The step whose send or receive is in progress, for messages about its failure.
    current: usize,
    input: Vec<u8>,
    /// Bytes received on this connection since the last send.
    input_max: usize,
    ended: bool,
    /// HTTP/2, where that is spoken on the connection.
    frames: Option<Framing>,
    // These are boxed, because a conversation may wait for long before there is a response.
    response: Option<Box<Response>>,
    /// The verdict if the program ended after the steps so far.
    so_far: Box<Verdict>,
}

impl Conversation {
    /// A new run. `input_max` bounds the bytes of one answer (`tune.bufsize`): what is judged then is what is there.
    pub fn new(program: Arc<Program>, input_max: usize) -> Conversation {
        Conversation {
            program,
            at: 0,
            connected: false,
            current: 0,
            input: Vec::new(),
            input_max: input_max.max(1),
            ended: false,
            frames: None,
            response: None,
            so_far: Box::default(),
        }
    }

    /// What arrived and no step took.
    pub fn heard(&self) -> &[u8] {
        &self.input
    }

    /// Room for input; never 0 while it waits for some.
    pub fn room(&self) -> usize {
        self.input_max.saturating_sub(self.input.len()).max(1)
    }

    /// The connection asked for is there.
    pub fn connected(&mut self) {
        let step = &self.program.steps[self.at.min(self.program.steps.len() - 1)];
        let info = if self.program.kind == Kind::Tcp && step.number != 0 { "(tcp-check)" } else { "" };
        *self.so_far = Verdict { status: Status::L4Ok, code: 0, info: info.into() };
        self.connected = true;
        self.at += 1;
        self.forget_answer();
        self.ended = false;
        self.frames = None;
    }

    /// The first step on the connection that is asked for.
    fn first_word(&self) -> Option<&StepKind> {
        let mut steps = self.program.steps.iter().skip(self.at + 1).map(|step| &step.kind);
        steps.find(|kind| !matches!(kind, StepKind::Comment | StepKind::Assign(_)))
    }

    /// Whether the server has the first word on the connection that is asked for.
    pub fn is_greeted(&self) -> bool {
        matches!(self.first_word(), Some(StepKind::Answer(_) | StepKind::Expect(_)))
    }

    /// Whether nothing is said on the connection that is asked for, by neither side.
    pub fn is_silent(&self) -> bool {
        matches!(self.first_word(), None | Some(StepKind::Connect(_)))
    }

    /// Whether requests of HTTP are made on its connections.
    pub fn speaks_http(&self) -> bool {
        self.program.kind == Kind::Http
    }

    /// Whether that is HTTP/2 whatever the lines of server and check say.
    pub fn needs_frames(&self) -> bool {
        self.program.steps.iter().any(|step| matches!(step.kind, StepKind::Answer(Dialect::Grpc)))
    }

    /// HTTP/2 is spoken on the connection.
    pub fn framed(&mut self, encrypted: bool) {
        self.frames = Some(Framing::Own(Box::new(Frames::new(encrypted))));
    }

    /// Whether HTTP/2 is spoken on the connection.
    pub fn is_framed(&self) -> bool {
        self.frames.is_some()
    }

    /// HTTP/2 is spoken on the connection, which carries other requests, too: whose it is makes the frames.
    pub fn on_shared(&mut self) {
        self.frames = Some(Framing::Shared);
    }

    /// Whether the head of a response is to come, on a connection that carries other requests, too; then
    /// [`Conversation::answered`].
    pub fn awaits_head(&self) -> bool {
        let has_head = self.response.as_ref().is_none_or(|response| response.has_head());
        matches!(self.frames, Some(Framing::Shared)) && !has_head
    }

    /// The head of a response came. What is received from there on is payload.
    pub fn answered(&mut self, head: &mut Head) {
        if let Some(response) = &mut self.response {
            response.take_head(head);
        }
    }

    /// What came behind the body.
    pub fn trailed(&mut self, trailers: Head) {
        if let Some(response) = &mut self.response {
            response.trailers = trailers;
        }
    }

    /// TLS is spoken on the connection.
    pub fn encrypted(&mut self) {
        self.so_far.status = Status::L6Ok;
    }

    /// TLS was not agreed on, within the time or at all.
    pub fn not_encrypted(&self, in_time: bool) -> Verdict {
        let (status, info) = match in_time {
            true => (Status::L6Timeout, self.place()),
            false => (Status::L6Response, format!("SSL handshake failure{}", self.place())),
        };
        Verdict { status, code: 0, info }
    }

    /// Bytes arrived.
    pub fn received(&mut self, bytes: &[u8]) {
        if let Some(Framing::Own(frames)) = &mut self.frames {
            // There is a response to be filled from the request on.
            let Some(response) = &mut self.response else { return };
            self.ended |= frames.received(bytes, response, &mut self.input, self.input_max);
            return;
        }
        let take = bytes.len().min(self.input_max.saturating_sub(self.input.len()));
        self.input.extend_from_slice(&bytes[..take]);
    }

    /// The server ended the connection.
    pub fn ended(&mut self) {
        self.ended = true;
    }

    fn forget_answer(&mut self) {
        self.input.clear();
        self.response = None;
    }

    /// The connection could not be made, or broke; `what` is the system's word for it.
    pub fn failed(&self, what: &str) -> Verdict {
        let status = if self.connected { Status::SocketError } else { Status::L4Connection };
        let info = if what.is_empty() { String::new() } else { format!("{what}{}", self.place()) };
        Verdict { status, code: 0, info }
    }

    /// Time is up.
    pub fn timed_out(&self) -> Verdict {
        let status = match self.program.steps.get(self.current).map(|s| &s.kind) {
            _ if !self.connected => Status::L4Timeout,
            Some(StepKind::Expect(expect)) => expect.timeout_status.unwrap_or(Status::L7Timeout),
            _ => Status::L7Timeout,
        };
        Verdict { status, code: 0, info: self.place() }
    }

    /// Where it happened, for checks made of numbered steps.
    fn place(&self) -> String {
        if self.program.kind != Kind::Tcp {
            return String::new();
        }
        let Some(step) = self.program.steps.get(self.current) else { return String::new() };
        if step.number == 0 {
            return " at initial connection step of tcp-check".into();
        }
        let what = match &step.kind {
            StepKind::Connect(Connect { port: Some(Port::Fixed(port)), .. }) => {
                format!("connect port {port}")
            }
            StepKind::Connect(Connect { port: Some(Port::Expr(_)), .. }) => "connect port expression".into(),
            StepKind::Connect(_) => "connect".into(),
            StepKind::Send(_) | StepKind::Request(_) => "send".into(),
            StepKind::Expect(expect) => match &expect.matcher {
                Matcher::String(Text::Fixed(text)) => {
                    format!("expect string '{}'", String::from_utf8_lossy(text))
                }
                Matcher::Binary(Text::Fixed(bytes)) => {
                    let digits: String = bytes.iter().map(|b| format!("{b:02X}")).collect();
                    format!("expect binary '{digits}'")
                }
                Matcher::String(_) => "expect log-format string".into(),
                Matcher::Binary(_) => "expect log-format binary".into(),
                Matcher::Regex(_) => "expect regex".into(),
                Matcher::HexRegex(_) => "expect binary regex".into(),
                _ => "expect".into(),
            },
            _ => String::new(),
        };
        let mut out = format!(" at step {} of tcp-check", step.number);
        if !what.is_empty() {
            out.push_str(&format!(" ({what})"));
        }
        if let Some(comment) = &step.comment {
            out.push_str(&format!(" comment: '{comment}'"));
        }
        out
    }

    /// What to do next.
    pub fn next(&mut self, evaluate: &mut dyn Evaluate) -> Next {
        match (self.step(evaluate), &mut self.frames) {
            // What the connection has to say for itself is said while something is waited for.
            (Next::Receive, Some(Framing::Own(frames))) => frames.output().map_or(Next::Receive, Next::Send),
            (next, _) => next,
        }
    }

    fn step(&mut self, evaluate: &mut dyn Evaluate) -> Next {
        let program = Arc::clone(&self.program);
        while let Some(step) = program.steps.get(self.at) {
            self.current = self.at;
            match &step.kind {
                StepKind::Comment => self.at += 1,
                StepKind::Assign(assignment) => {
                    evaluate.assign(assignment, heard(&self.input, &mut self.response));
                    self.at += 1;
                }
                StepKind::Connect(connect) => {
                    self.connected = false;
                    let port = match &connect.port {
                        None => None,
                        Some(Port::Fixed(port)) => Some(*port),
                        Some(Port::Expr(expr)) => {
                            let port = evaluate.integer(expr, heard(&self.input, &mut self.response));
                            match port.and_then(|p| u16::try_from(p).ok()).filter(|p| *p > 0) {
                                Some(port) => Some(port),
                                None => {
                                    let info = format!("TCPCHK failed to find a port{}", self.place());
                                    return done(Status::SocketError, 0, info);
                                }
                            }
                        }
                    };
                    let mut connect = connect.clone();
                    connect.as_server |= step.number == 0;
                    return Next::Connect { connect, port };
                }
                StepKind::Send(text) => {
                    let bytes = self.render(text, evaluate);
                    self.forget_answer();
                    self.at += 1;
                    // What a built-in protocol learned before it answers stays the news (a greeting's version).
                    if program.kind != Kind::Dialect {
                        let info = if program.kind == Kind::Tcp { "(tcp-check)" } else { "" };
                        *self.so_far = Verdict { status: Status::L7Ok, code: 0, info: info.into() };
                    }
                    if !bytes.is_empty() {
                        return Next::Send(bytes);
                    }
                }
                StepKind::Request(request) => {
                    let next = self.request(request, evaluate);
                    self.at += 1;
                    return next.unwrap_or_else(|| done(Status::SocketError, 0, String::new()));
                }
                StepKind::Answer(dialect) => match self.judge(*dialect) {
                    Answer::Wait => return Next::Receive,
                    Answer::Good { len, code, info } => {
                        self.input.drain(..len.min(self.input.len()));
                        self.at += 1;
                        // A login that is accepted says less than the greeting before it.
                        let keep = matches!(dialect, Dialect::MysqlLogin);
                        if !keep {
                            *self.so_far = Verdict { status: Status::L7Ok, code, info: shortened(info) };
                        }
                    }
                    // Whose greeting does not come is told as if it had been expected by a line.
                    Answer::Bad { status, .. } if self.input.is_empty() && dialect.is_mysql() => {
                        return done(
                            status,
                            0,
                            format!("TCPCHK got an empty response at step {}", self.at + 1),
                        );
                    }
                    Answer::Bad { status, code, info } => return done(status, code.unwrap_or(0), info),
                },
                StepKind::Expect(expect) => {
                    if let Some(next) = self.expect(step, expect, evaluate) {
                        return next;
                    }
                    self.at += 1;
                }
            }
        }
        Next::Done(std::mem::take(&mut *self.so_far))
    }

    /// Judges what arrived, where a built-in protocol answers.
    fn judge(&self, dialect: Dialect) -> Answer {
        let (Dialect::Grpc, Some(frames)) = (dialect, &self.frames) else {
            return dialect.judge(&self.input, self.is_last());
        };
        match &self.response {
            _ if frames.is_broken() => {
                Answer::Bad { status: Status::L7Response, code: None, info: "this is not HTTP/2".into() }
            }
            Some(response) if self.is_last() => grpc::judge(response, &self.input),
            _ => Answer::Wait,
        }
    }

    /// Nothing more will come, or could be kept.
    fn is_last(&self) -> bool {
        self.ended || self.input.len() >= self.input_max
    }

    fn render(&mut self, text: &Text, evaluate: &mut dyn Evaluate) -> Vec<u8> {
        let mut out = Vec::new();
        match text {
            Text::Fixed(bytes) => out.extend_from_slice(bytes),
            Text::Format(format) => evaluate.format(format, heard(&self.input, &mut self.response), &mut out),
            Text::HexFormat(format) => {
                evaluate.format(format, heard(&self.input, &mut self.response), &mut out);
                out = parse_hex(&out).unwrap_or_default();
            }
        }
        out
    }

    /// Begins a request: how it is to be made. `None` when none can be made of what its texts came to.
    fn request(&mut self, request: &HttpRequest, evaluate: &mut dyn Evaluate) -> Option<Next> {
        let parts = Rendered {
            uri: self.render(&request.uri, evaluate),
            headers: request.headers.iter().map(|(n, v)| (&n[..], self.render(v, evaluate))).collect(),
            body: request.body.as_ref().map(|b| self.render(b, evaluate)),
            state: request.send_state.then(|| evaluate.server_state()),
        };
        let upgrade = parts.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(b"upgrade"));
        self.forget_answer();
        self.response = Some(Box::new(Response::new(&request.method, upgrade)));
        *self.so_far = Verdict { status: Status::L7Ok, code: 0, info: String::new() };
        // In frames each request has its own end.
        self.ended &= self.frames.is_none();
        match &mut self.frames {
            Some(Framing::Own(frames)) => {
                frames.request(request, parts).then(|| frames.output()).flatten().map(Next::Send)
            }
            Some(Framing::Shared) => {
                let head = Box::new(framed::head(request, &parts).ok()?);
                Some(Next::Request { head, body: parts.body.unwrap_or_default() })
            }
            None => Some(Next::Send(http::write(request, &parts))),
        }
    }

    /// Judges an expectation: `None` when it is met.
    fn expect(&mut self, step: &Step, expect: &Expect, evaluate: &mut dyn Evaluate) -> Option<Next> {
        let last = self.is_last();
        let http = self.program.kind == Kind::Http;
        if http {
            let Some(response) = &mut self.response else {
                return Some(done(Status::L7Response, 0, "no request was sent".into()));
            };
            let broken = self.frames.as_ref().is_some_and(|frames| frames.is_broken());
            if broken || response.read(&self.input, last).is_err() {
                return Some(done(Status::SocketError, 0, String::new()));
            }
            if !response.has_head() {
                if last {
                    return Some(done(Status::SocketError, 0, String::new()));
                }
                return Some(Next::Receive);
            }
        } else if self.input.is_empty() {
            if last {
                let comment = step.comment.as_deref().map_or(String::new(), |c| format!(" comment: {c}"));
                let info = format!("TCPCHK got an empty response at step {}{comment}", step.number);
                return Some(done(expect.error_status.unwrap_or(Status::L7Response), 0, info));
            }
            return Some(Next::Receive);
        }
        if http && self.program.disable_on_404 && self.status() == 404 {
            return Some(done(Status::L7OkConditional, 404, String::new()));
        }
        let Some((found, conclusive)) = self.looks_for(expect, last, evaluate) else {
            return Some(Next::Receive);
        };
        let complete = last || self.response.as_ref().is_some_and(|r| r.complete);
        if !found && !conclusive && !complete && expect.min_recv < 0 {
            return Some(Next::Receive);
        }
        let code = self.code(expect, evaluate);
        if found != expect.negate {
            let info = match &expect.on_success {
                Some(format) => self.rendered(format, evaluate),
                None if http || self.program.kind == Kind::Dialect => String::new(),
                None => "(tcp-check)".into(),
            };
            *self.so_far = Verdict { status: expect.ok_status.unwrap_or(Status::L7Ok), code, info };
            return None;
        }
        let on_status =
            matches!(expect.matcher, Matcher::Status(_) | Matcher::StatusRegex(_) | Matcher::Header { .. });
        let status =
            expect.error_status.unwrap_or(if on_status { Status::L7Status } else { Status::L7Response });
        let info = match &expect.on_error {
            Some(format) => self.rendered(format, evaluate),
            None if self.program.kind == Kind::Dialect => String::new(),
            None => self.complaint(step, expect, on_status, evaluate),
        };
        Some(done(status, code, info))
    }

    /// Whether what is expected is there, and whether more input could not change that. `None` when there is not enough of it yet.
    fn looks_for(
        &mut self,
        expect: &Expect,
        last: bool,
        evaluate: &mut dyn Evaluate,
    ) -> Option<(bool, bool)> {
        Some(match &expect.matcher {
            Matcher::Status(ranges) => (ranges.iter().any(|(a, b)| (*a..=*b).contains(&self.status())), true),
            Matcher::StatusRegex(regex) => (regex.is_match(self.status().to_string().as_bytes()), true),
            Matcher::Header { name, value, full } => {
                (self.has_header(name, value.as_ref(), *full, evaluate), true)
            }
            Matcher::String(text) | Matcher::Binary(text) => {
                let wanted = self.render(text, evaluate);
                // No more bytes than the text has are needed to look for it.
                if !self
                    .has_enough(expect.min_recv.min(i32::try_from(wanted.len()).unwrap_or(i32::MAX)), last)
                {
                    return None;
                }
                (memchr::memmem::find(self.content(), &wanted).is_some(), false)
            }
            Matcher::Regex(regex) => {
                if !self.has_enough(expect.min_recv, last) {
                    return None;
                }
                (regex.is_match(self.content()), false)
            }
            Matcher::HexRegex(regex) => {
                if !self.has_enough(expect.min_recv, last) {
                    return None;
                }
                let digits: String = self.content().iter().map(|b| format!("{b:02X}")).collect();
                (regex.is_match(digits.as_bytes()), false)
            }
        })
    }

    fn code(&mut self, expect: &Expect, evaluate: &mut dyn Evaluate) -> i64 {
        match &expect.status_code {
            Some(expr) => evaluate.integer(expr, heard(&self.input, &mut self.response)).unwrap_or(0),
            None if self.program.kind == Kind::Http => i64::from(self.status()),
            None => 0,
        }
    }

    fn rendered(&mut self, format: &LogFormat, evaluate: &mut dyn Evaluate) -> String {
        let mut out = Vec::new();
        evaluate.format(format, heard(&self.input, &mut self.response), &mut out);
        shortened(String::from_utf8_lossy(&out).into_owned())
    }

    fn complaint(
        &mut self,
        step: &Step,
        expect: &Expect,
        on_status: bool,
        evaluate: &mut dyn Evaluate,
    ) -> String {
        let comment = step.comment.as_deref().map_or(String::new(), |c| format!(" comment: {c}"));
        if self.program.kind == Kind::Http {
            if on_status {
                let reason = self.response.as_ref().map_or(&b""[..], |r| r.head.reason());
                return format!("{}{comment}", String::from_utf8_lossy(reason));
            }
            let what = if expect.negate {
                "HTTP check matched unwanted content"
            } else {
                "HTTP content check did not match"
            };
            return format!("{what}{comment}");
        }
        let what =
            if expect.negate { "TCPCHK matched unwanted content" } else { "TCPCHK did not match content" };
        let content = match &expect.matcher {
            Matcher::String(text) => format!("'{}'", String::from_utf8_lossy(&self.render(text, evaluate))),
            Matcher::Binary(_) => "(binary)".into(),
            Matcher::HexRegex(_) => "(binary regex)".into(),
            _ => "(regex)".into(),
        };
        format!("{what} {content} at step {}{comment}", step.number)
    }

    fn content(&self) -> &[u8] {
        match &self.response {
            Some(response) => &response.body,
            None => &self.input,
        }
    }

    fn has_enough(&self, wanted: i32, last: bool) -> bool {
        let complete = last || self.response.as_ref().is_some_and(|r| r.complete);
        complete || usize::try_from(wanted).map_or(true, |wanted| self.content().len() >= wanted)
    }

    fn status(&self) -> u16 {
        self.response.as_ref().map_or(0, |r| r.head.status())
    }

    fn has_header(
        &mut self,
        name: &Match,
        value: Option<&Match>,
        full: bool,
        evaluate: &mut dyn Evaluate,
    ) -> bool {
        let name_text = self.render(&name.text, evaluate).to_ascii_lowercase();
        let value_text = value.map(|v| self.render(&v.text, evaluate)).unwrap_or_default();
        let Some(response) = &self.response else { return false };
        response.head.fields().filter(|f| matches(&name.method, &name_text, f.name)).any(
            |field| match value {
                None => true,
                Some(value) => http::values(field.value, full)
                    .into_iter()
                    .any(|v| matches(&value.method, &value_text, v)),
            },
        )
    }
}

fn matches(method: &MatchMethod, wanted: &[u8], text: &[u8]) -> bool {
    match method {
        MatchMethod::Exact => text == wanted,
        MatchMethod::Prefix => text.starts_with(wanted),
        MatchMethod::Suffix => text.ends_with(wanted),
        MatchMethod::Substring => memchr::memmem::find(text, wanted).is_some(),
        MatchMethod::Regex(regex) => regex.is_match(text),
    }
}

fn heard<'a>(input: &'a [u8], response: &'a mut Option<Box<Response>>) -> Heard<'a> {
    match response {
        Some(r) if r.has_head() => Heard { response: Some(&mut r.head), bytes: &r.body },
        _ => Heard { response: None, bytes: input },
    }
}

fn done(status: Status, code: i64, info: String) -> Next {
    Next::Done(Verdict { status, code, info: shortened(info) })
}

/// A text about a check, cut to the length that is kept of it, and where it is no text any more.
pub fn shortened(mut info: String) -> String {
    info.truncate(info.find('\0').unwrap_or(info.len()));
    if info.len() > INFO_MAX {
        let end = (0..=INFO_MAX).rev().find(|i| info.is_char_boundary(*i)).unwrap_or(0);
        info.truncate(end);
    }
    info
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Step;

    /// Who has the first word on a connection: an acknowledgement is not saved up for nobody, and nobody waits for events in vain.
    #[test]
    fn who_has_the_first_word_is_known_before_the_connection_is_made() {
        let connect = || StepKind::Connect(Connect::default());
        let send = || StepKind::Send(Text::Fixed(b"x".as_slice().into()));
        let answer = || StepKind::Answer(Dialect::Redis);
        for (steps, is_greeted, is_silent) in [
            (vec![connect()], false, true),
            (vec![connect(), StepKind::Comment], false, true),
            (vec![connect(), send()], false, false),
            (vec![connect(), answer(), send()], true, false),
            (vec![connect(), StepKind::Comment, answer()], true, false),
            (vec![connect(), connect(), answer()], false, true),
        ] {
            let shown = format!("{steps:?}");
            let steps = steps.into_iter().map(Step::implicit).collect();
            let conversation = Conversation::new(Arc::new(Program { steps, ..Program::default() }), 16);
            let found = (conversation.is_greeted(), conversation.is_silent());
            assert_eq!(found, (is_greeted, is_silent), "{shown}");
        }
    }
}
