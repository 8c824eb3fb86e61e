//! A collector of OpenTelemetry, as one thread reaches it: messages over HTTP/1.1, one after the other on one connection.

use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use thalweg_config::model::{OpenTelemetry, Server, ServerAddr};
use thalweg_h1::parse::{HeadParser, ParseOptions, Parsed};
use thalweg_http::semantics::{BodyLength, RequestContext, is_interim};
use thalweg_http::{Head, Method};
use thalweg_otel::{CONTENT_TYPE, is_retryable, rejected_spans};
use thalweg_proxy::Stopping;
use thalweg_proxy::backend::reach::reach;
use thalweg_proxy::connection::transport::Transport;
use thalweg_proxy::worker::Thread;
use thalweg_runtime::buffer::Buf;
use thalweg_runtime::net::SockAddr;
use thalweg_runtime::timer;

/// How often a message is offered to collectors that cannot be reached, or ask for it again later.
const ATTEMPTS: u32 = 5;

/// How long the first pause between two attempts is, in milliseconds; each further one is twice as long.
const PAUSE_MS: u64 = 500;

/// The most bytes of an answer that are looked at. It says how many spans were refused, at most.
const ANSWER_MAX: usize = 64 * 1024;

/// Bytes that are received at once.
const PIECE: usize = 4096;

/// How long a collector may take for a message once the process is to end, in milliseconds.
const LAST_MS: u64 = 5000;

/// The collectors of the section, and the connection to one of them.
pub struct Collector {
    own: Rc<Thread>,
    settings: Arc<OpenTelemetry>,
    /// The one that is told.
    at: usize,
    connection: Option<Transport>,
}

/// What a collector answered.
struct Answer {
    status: u16,
    /// Spans that it did not take although it took the message.
    rejected: u64,
    /// The connection may be used again.
    keep: bool,
}

/// Why a message was not taken.
#[derive(Debug)]
pub enum Failure {
    /// Nobody was reached, or what came is no answer.
    NoAnswer(String),
    /// The collector said this.
    Status(u16),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::NoAnswer(why) => f.write_str(why),
            Failure::Status(status) => write!(f, "it answered {status}"),
        }
    }
}

impl Failure {
    fn no_answer(why: impl std::fmt::Display) -> Failure {
        Failure::NoAnswer(why.to_string())
    }

    fn may_be_repeated(&self) -> bool {
        match self {
            Failure::NoAnswer(_) => true,
            Failure::Status(status) => is_retryable(*status),
        }
    }
}

impl Collector {
    /// No connection yet.
    pub fn new(own: &Rc<Thread>, settings: &Arc<OpenTelemetry>) -> Collector {
        Collector { own: Rc::clone(own), settings: Arc::clone(settings), at: 0, connection: None }
    }

    /// The name of the one that was asked last.
    pub fn name(&self) -> &str {
        &self.server().name
    }

    fn server(&self) -> &Server {
        &self.settings.servers[self.at]
    }

    /// While nobody has anything to say, a connection that the collector closes goes. The calling task is woken then.
    pub fn watch(&mut self) {
        if let Some(io) = &mut self.connection
            && io.poll_recv(PIECE).is_ready()
        {
            self.connection = None;
        }
    }

    /// Hands a message over, to another collector if one fails. Gives how many of its spans were not taken.
    ///
    /// # Errors
    /// Nobody took it; why the last one did not.
    pub async fn tell(&mut self, path: &str, message: &[u8]) -> Result<u64, Failure> {
        let (mut attempts, mut pause_ms) = (0, PAUSE_MS);
        loop {
            attempts += 1;
            let own = Rc::clone(&self.own);
            let why = match in_time(&own, self.settings.timeout_ms, self.post(path, message)).await {
                Some(Ok(Answer { status: 200..=299, rejected, .. })) => return Ok(rejected),
                Some(Ok(answer)) => Failure::Status(answer.status),
                Some(Err(why)) => why,
                None => Failure::no_answer("it took too long"),
            };
            let ends = own.live.stopping() != Stopping::No;
            if attempts == ATTEMPTS || !why.may_be_repeated() || ends {
                return Err(why);
            }
            if self.settings.servers.len() > 1 {
                self.at = (self.at + 1) % self.settings.servers.len();
                self.connection = None;
            }
            self.pause(pause_ms).await;
            pause_ms *= 2;
        }
    }

    /// Waits, but not for longer than the process goes on.
    async fn pause(&self, ms: u64) {
        let over = timer::Deadline(Some(timer::deadline_in(ms)));
        std::future::poll_fn(|_| match self.own.live.stopping() {
            Stopping::No => over.poll(),
            _ => Poll::Ready(()),
        })
        .await;
    }

    /// One attempt.
    async fn post(&mut self, path: &str, message: &[u8]) -> Result<Answer, Failure> {
        let (mut transport, kept) = match self.connection.take() {
            Some(transport) => (transport, true),
            None => (self.connect().await?, false),
        };
        let answered = match self.exchange(&mut transport, path, message).await {
            // A connection that was kept may have been closed meanwhile.
            Err(_) if kept => {
                transport = self.connect().await?;
                self.exchange(&mut transport, path, message).await
            }
            answered => answered,
        };
        let answer = answered?;
        self.connection = answer.keep.then_some(transport);
        Ok(answer)
    }

    async fn connect(&self) -> Result<Transport, Failure> {
        let server = self.server();
        let address = match &server.addr {
            ServerAddr::Tcp(address) => SockAddr::from(*address),
            ServerAddr::Unix(path) => SockAddr::Unix(path.as_path().into()),
            _ => return Err(Failure::no_answer("its address is none that can be connected to")),
        };
        let limits = self.own.pin().map(|pin| pin.record_limits());
        let limits = limits.ok_or_else(|| Failure::no_answer("the process ends"))?;
        reach(&self.own, server, &address, limits, None).await.map_err(Failure::no_answer)
    }

    /// The head of a request with a message of this length.
    fn head(&self, path: &str, length: usize) -> Vec<u8> {
        let host = match &self.server().addr {
            ServerAddr::Tcp(address) => address.to_string(),
            _ => "localhost".to_owned(),
        };
        let mut head = format!(
            "POST {}{path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: {CONTENT_TYPE}\r\ncontent-length: {length}\r\n",
            self.settings.path
        );
        for (name, value) in &self.settings.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        head.into_bytes()
    }

    /// Sends a message and reads the answer.
    async fn exchange(&self, io: &mut Transport, path: &str, message: &[u8]) -> Result<Answer, Failure> {
        let head = self.head(path, message.len());
        for part in [&head[..], message].into_iter().flat_map(|part| part.chunks(SEND_MAX)) {
            // What is left of a handshake, or of the part before.
            io.send_ready().await.map_err(Failure::no_answer)?;
            io.start_send(Buf::copy_of(part));
        }
        io.send_ready().await.map_err(Failure::no_answer)?;
        let context = RequestContext { method: Method::Post, upgrade: false, websocket: false };
        let (mut parser, mut head, mut answer) = (HeadParser::new(), Head::new(), Vec::new());
        let mut from = 0;
        let body_at = loop {
            match parser.parse_response(&ParseOptions::default(), &context, &answer[from..], &mut head) {
                Ok(Parsed::Complete(length)) if is_interim(head.status()) => {
                    from += length;
                    parser.reset();
                    head.clear();
                    continue;
                }
                Ok(Parsed::Complete(length)) => break from + length,
                Ok(Parsed::Partial) => {}
                Err(_) => return Err(Failure::no_answer("what it says is not HTTP")),
            }
            receive(io, &mut answer).await?;
        };
        let framing = head.framing();
        let whole = match framing.body {
            BodyLength::None => Some(body_at),
            BodyLength::Sized(length) => {
                usize::try_from(length).ok().and_then(|length| body_at.checked_add(length))
            }
            // Where it ends matters only to those that follow.
            _ => None,
        };
        let Some(whole) = whole.filter(|whole| *whole <= ANSWER_MAX) else {
            return Ok(Answer { status: head.status(), rejected: 0, keep: false });
        };
        while answer.len() < whole {
            receive(io, &mut answer).await?;
        }
        let rejected = rejected_spans(&answer[body_at..whole]);
        Ok(Answer { status: head.status(), rejected, keep: framing.keep_alive && answer.len() == whole })
    }
}

/// Bytes that are handed to the kernel at once.
const SEND_MAX: usize = 64 * 1024;

/// Runs an attempt to its end, or until its time is over: `None` then. That time is short once the process is to end.
async fn in_time<F: Future>(own: &Thread, ms: u64, attempt: F) -> Option<F::Output> {
    let mut attempt = pin!(attempt);
    let (mut deadline_ms, mut hurries) = (timer::deadline_in(ms), false);
    std::future::poll_fn(|cx| {
        if let Poll::Ready(done) = attempt.as_mut().poll(cx) {
            return Poll::Ready(Some(done));
        }
        if own.live.stopping() != Stopping::No && !std::mem::replace(&mut hurries, true) {
            deadline_ms = deadline_ms.min(timer::deadline_in(LAST_MS));
        }
        timer::Deadline(Some(deadline_ms)).poll().map(|()| None)
    })
    .await
}

/// Receives some of an answer.
async fn receive(io: &mut Transport, answer: &mut Vec<u8>) -> Result<(), Failure> {
    let received = io.recv(PIECE).await.map_err(Failure::no_answer)?;
    if received.is_empty() || answer.len() > ANSWER_MAX {
        return Err(Failure::no_answer("it ended the connection before its answer"));
    }
    answer.extend_from_slice(&received);
    Ok(())
}
