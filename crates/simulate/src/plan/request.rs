//! A request, and what the servers do each time they see it.

use super::Trouble;
use crate::random::Random;

/// A request of a client.
#[derive(Clone, Debug)]
pub struct RequestPlan {
    pub method: &'static str,
    /// HTTP/1.1 rather than 1.0.
    pub is_11: bool,
    pub kind: Kind,
    /// Which backend's path it has.
    pub backend: usize,
    pub upload: Upload,
    /// Bytes of a field that nobody needs.
    pub padding: usize,
    pub asks_to_close: bool,
    pub expects_continue: bool,
    /// What the servers do, by attempt; the last one is repeated.
    pub answers: Vec<Answer>,
}

/// Which rules of the configuration are about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Plain,
    Deny,
    Return,
    Redirect,
    Tarpit,
    WaitForBody,
    /// A tunnel, when the server agrees.
    Upgrade,
}

impl Kind {
    /// How its path begins.
    pub fn path(self) -> &'static str {
        match self {
            Kind::Plain => "plain",
            Kind::Deny => "deny",
            Kind::Return => "return",
            Kind::Redirect => "redirect",
            Kind::Tarpit => "tarpit",
            Kind::WaitForBody => "wait",
            Kind::Upgrade => "upgrade",
        }
    }

    /// The status of the answer that the rules give, if they do.
    pub fn own_status(self) -> Option<u16> {
        match self {
            Kind::Plain | Kind::WaitForBody | Kind::Upgrade => None,
            Kind::Deny => Some(403),
            Kind::Return => Some(200),
            Kind::Redirect => Some(302),
            Kind::Tarpit => Some(500),
        }
    }
}

/// The body of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upload {
    None,
    Sized(usize),
    /// Of so many bytes, in chunks of at most so many.
    Chunked(usize, usize),
}

impl Upload {
    /// Payload bytes.
    pub fn payload(self) -> usize {
        match self {
            Upload::None => 0,
            Upload::Sized(n) | Upload::Chunked(n, _) => n,
        }
    }
}

/// What a server does with a request.
#[derive(Clone, Debug)]
pub struct Answer {
    pub when: When,
    pub think_ms: u64,
    /// Interim responses before the final one.
    pub interim: u64,
    pub status: u16,
    pub delimited: Delimited,
    pub len: usize,
    /// Most bytes per send, and the pause between sends.
    pub piece: usize,
    pub pause_ms: u64,
    /// `Connection: close`, and the end of the connection.
    pub closes: bool,
    /// Before it closes it reads the request to its end, so that the end does not become a reset.
    pub lingers: bool,
    /// What goes wrong.
    pub fault: Option<Fault>,
}

/// When a server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// As soon as it has the head.
    Head,
    /// After so many bytes of the body.
    Bytes(usize),
    End,
}

/// How the end of a response is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delimited {
    Sized,
    Chunked,
    /// By the end of the connection.
    Close,
}

/// What goes wrong with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// After so many bytes of the response (head included) this happens.
    After(usize, Act),
    /// What is sent is no response.
    Junk,
    /// Bytes follow that nobody asked for.
    Extra,
}

/// What a server does in place of going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Close,
    Reset,
    /// Nothing, for a long time.
    Stall,
}

impl Answer {
    fn draw(random: &mut Random, trouble: &Trouble, first: bool) -> Answer {
        let slow = random.chance(trouble.slow);
        let len = random.size();
        let delimited = *random.pick(&[
            Delimited::Sized,
            Delimited::Sized,
            Delimited::Sized,
            Delimited::Chunked,
            Delimited::Chunked,
            Delimited::Close,
        ]);
        let faulty = random.chance(trouble.server_faults / if first { 1 } else { 2 });
        Answer {
            when: match random.below(6) {
                0 => When::Head,
                1 => When::Bytes(random.size()),
                _ => When::End,
            },
            think_ms: if slow { random.within(10, 3_000) } else { random.below(3) * random.below(20) },
            interim: if random.chance(8) { random.within(1, 3) } else { 0 },
            status: *random.pick(&[200, 200, 200, 200, 201, 204, 301, 304, 404, 500, 503]),
            delimited,
            len,
            piece: if random.chance(50) { 1 << 20 } else { random.size().max(1) },
            pause_ms: if slow { random.within(1, 200) } else { 0 },
            closes: delimited == Delimited::Close || random.chance(10),
            lingers: trouble.server_faults == 0 || random.chance(50),
            fault: faulty.then(|| Fault::draw(random, len)),
        }
    }

    /// Whether it has a body.
    pub fn has_body(&self, method: &str) -> bool {
        method != "HEAD" && !matches!(self.status, 204 | 304)
    }
}

impl Fault {
    fn draw(random: &mut Random, len: usize) -> Fault {
        let act = *random.pick(&[Act::Close, Act::Close, Act::Reset, Act::Stall]);
        match random.below(10) {
            // Before the first byte, in the head, in the body.
            0..=2 => Fault::After(0, act),
            3 => Fault::After(random.within(1, 60) as usize, act),
            4 | 5 => Fault::After(80 + random.below(len as u64 + 100) as usize, act),
            6 => Fault::Junk,
            _ => Fault::Extra,
        }
    }
}

impl RequestPlan {
    /// A request to one of `backends` backends, under the rules that there are for `kinds`.
    pub fn draw(random: &mut Random, trouble: &Trouble, backends: usize, kinds: &[Kind]) -> RequestPlan {
        let kind = if random.chance(12) && !kinds.is_empty() { *random.pick(kinds) } else { Kind::Plain };
        let method = match random.below(12) {
            _ if kind == Kind::Upgrade => "GET",
            0..=5 => "GET",
            6..=8 => "POST",
            9 => "PUT",
            10 => "HEAD",
            _ => "DELETE",
        };
        let upload = match (method, random.below(3)) {
            ("POST" | "PUT", 0) => Upload::Chunked(random.size(), random.size().max(1)),
            ("POST" | "PUT", _) => Upload::Sized(random.size()),
            _ => Upload::None,
        };
        let is_11 = random.chance(90) || kind == Kind::Upgrade;
        let upload = match upload {
            Upload::Chunked(n, _) if !is_11 => Upload::Sized(n),
            upload => upload,
        };
        let answers = (0..4).map(|n| Answer::draw(random, trouble, n == 0)).collect();
        RequestPlan {
            method,
            is_11,
            kind,
            backend: random.below(backends as u64) as usize,
            upload,
            padding: if random.chance(15) { random.below(2_300) as usize } else { 0 },
            asks_to_close: random.chance(6) && kind != Kind::Upgrade,
            expects_continue: upload != Upload::None && is_11 && random.chance(8),
            answers,
        }
    }

    /// What a server does the `attempt`th time it sees it, from 0.
    pub fn answer(&self, attempt: usize) -> &Answer {
        &self.answers[attempt.min(self.answers.len() - 1)]
    }

    /// Whether an answer begins a tunnel.
    pub fn agrees(&self, answer: &Answer) -> bool {
        self.kind == Kind::Upgrade && answer.fault.is_none()
    }

    /// The status of an answer.
    pub fn status(&self, answer: &Answer) -> u16 {
        if self.agrees(answer) { 101 } else { answer.status }
    }

    /// Payload bytes of an answer.
    pub fn len(&self, answer: &Answer) -> usize {
        if self.agrees(answer) || answer.has_body(self.method) { answer.len } else { 0 }
    }

    /// Whether a server closes behind an answer.
    pub fn ends_connection(&self, answer: &Answer) -> bool {
        answer.closes || answer.delimited == Delimited::Chunked && !self.is_11
    }

    /// The path.
    pub fn path(&self, id: usize) -> String {
        format!("/b{}/{}/{id}", self.backend, self.kind.path())
    }

    /// Its head on the wire.
    pub fn head(&self, id: usize) -> Vec<u8> {
        use std::fmt::Write;
        let version = if self.is_11 { "1.1" } else { "1.0" };
        let mut text =
            format!("{} {} HTTP/{version}\r\nHost: sim\r\nX-Id: {id}\r\n", self.method, self.path(id));
        if self.padding > 0 {
            _ = write!(text, "X-Padding: {}\r\n", "p".repeat(self.padding));
        }
        match self.upload {
            Upload::None => {}
            Upload::Sized(n) => _ = write!(text, "Content-Length: {n}\r\n"),
            Upload::Chunked(..) => text.push_str("Transfer-Encoding: chunked\r\n"),
        }
        if self.expects_continue {
            text.push_str("Expect: 100-continue\r\n");
        }
        if self.kind == Kind::Upgrade {
            text.push_str("Connection: upgrade\r\nUpgrade: sim\r\n");
        } else if self.asks_to_close && self.is_11 {
            text.push_str("Connection: close\r\n");
        } else if !self.asks_to_close && !self.is_11 {
            text.push_str("Connection: keep-alive\r\n");
        }
        text.push_str("\r\n");
        text.into_bytes()
    }

    /// Whether the proxy can and may send it again on a connection of its own.
    pub fn is_repeatable(&self) -> bool {
        self.is_idempotent() && self.upload == Upload::None
    }

    /// Whether a second server may be asked while the first has no answer.
    pub fn may_be_hedged(&self) -> bool {
        let has_body = !matches!(self.upload, Upload::None | Upload::Sized(0));
        self.is_idempotent() && !has_body && self.kind != Kind::Upgrade
    }

    /// Whether it may be sent twice without asking (RFC 9110 section 9.2.2).
    pub fn is_idempotent(&self) -> bool {
        self.method != "POST"
    }
}
