//! What a client or a server of an exchange does on one connection, step by step.

use super::http2::Mark;

/// One step. A step that waits gives up after [`super::actor::LIMIT`]; one whose connection ends ends the script.
#[derive(Clone, Debug)]
pub enum Step {
    Send(Vec<u8>),
    /// Waits for these bytes, after those that earlier steps waited for.
    Until(Vec<u8>),
    /// Waits for so many more bytes.
    Exactly(usize),
    /// Waits for a whole message, as its head frames it.
    Message,
    /// Waits for something of HTTP/2; then its stream is the one at hand.
    Frames(Mark),
    /// Sends frames of HTTP/2, for the stream at hand.
    Reply(Vec<u8>),
    /// Sends payload of HTTP/2, on a stream or on the one at hand, as the windows allow.
    Data {
        stream: u32,
        octets: Vec<u8>,
        end: bool,
    },
    Pause(u64),
    /// Tells the other parts of the exchange that this point was reached.
    Tell(&'static str),
    /// Waits until another part of the exchange has told this.
    Await(&'static str),
    HalfClose,
    Close,
    Reset,
    /// Stops receiving. The first step of a script, so that nothing was received before.
    Deaf,
    /// Waits for the other side's end.
    End,
    /// Goes on receiving for so many milliseconds, or until the other side's end.
    Look(u64),
    /// Repeats steps until the connection ends.
    Forever(Vec<Step>),
}

/// How long a connection is looked at after its last step, in milliseconds: whatever the proxy still does comes at once. Like all that
/// drawn scripts do a multiple of 55 ms, at which no timeout of theirs ends.
pub const LOOK: u64 = 220;

#[derive(Clone, Debug, Default)]
pub struct Script {
    /// What must have been told before a client connects.
    pub after: Option<&'static str>,
    pub steps: Vec<Step>,
}

/// Starts a script.
pub fn script() -> Script {
    Script::default()
}

impl Script {
    fn then(mut self, step: Step) -> Script {
        self.steps.push(step);
        self
    }

    /// Connects only once something was told.
    pub fn after(mut self, what: &'static str) -> Script {
        self.after = Some(what);
        self
    }

    pub fn send(self, bytes: impl AsRef<[u8]>) -> Script {
        self.then(Step::Send(bytes.as_ref().to_vec()))
    }

    /// Sends piece after piece, each after a pause.
    pub fn trickle(self, pieces: &[&str], pause: u64) -> Script {
        pieces.iter().fold(self, |script, piece| script.pause(pause).send(piece))
    }

    pub fn until(self, bytes: impl AsRef<[u8]>) -> Script {
        self.then(Step::Until(bytes.as_ref().to_vec()))
    }

    pub fn head(self) -> Script {
        self.until("\r\n\r\n")
    }

    pub fn exactly(self, len: usize) -> Script {
        self.then(Step::Exactly(len))
    }

    pub fn message(self) -> Script {
        self.then(Step::Message)
    }

    pub fn frames(self, mark: Mark) -> Script {
        self.then(Step::Frames(mark))
    }

    pub fn reply(self, frames: impl AsRef<[u8]>) -> Script {
        self.then(Step::Reply(frames.as_ref().to_vec()))
    }

    pub fn data(self, stream: u32, octets: impl AsRef<[u8]>, end: bool) -> Script {
        self.then(Step::Data { stream, octets: octets.as_ref().to_vec(), end })
    }

    pub fn pause(self, ms: u64) -> Script {
        self.then(Step::Pause(ms))
    }

    pub fn tell(self, what: &'static str) -> Script {
        self.then(Step::Tell(what))
    }

    pub fn hear(self, what: &'static str) -> Script {
        self.then(Step::Await(what))
    }

    pub fn half_close(self) -> Script {
        self.then(Step::HalfClose)
    }

    pub fn close(self) -> Script {
        self.then(Step::Close)
    }

    pub fn reset(self) -> Script {
        self.then(Step::Reset)
    }

    pub fn deaf(self) -> Script {
        self.then(Step::Deaf)
    }

    pub fn end(self) -> Script {
        self.then(Step::End)
    }

    pub fn look(self, ms: u64) -> Script {
        self.then(Step::Look(ms))
    }

    pub fn forever(self, steps: Script) -> Script {
        self.then(Step::Forever(steps.steps))
    }

    /// Goes on with another script's steps.
    pub fn chain(mut self, other: Script) -> Script {
        self.steps.extend(other.steps);
        self
    }
}

/// A server that answers every request with the same bytes, once it has the whole of it.
pub fn answers(response: impl AsRef<[u8]>) -> Script {
    script().forever(script().message().send(response))
}

/// A response with a body.
pub fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// A request without a body.
pub fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n")
}

/// A request with a body and its length.
pub fn post(path: &str, body: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}
