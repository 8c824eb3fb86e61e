//! Handshakes of TLS, with clients and with servers: on a line that carries bytes as they are, which carries them encrypted
//! afterwards.
//!
//! A handshake costs a thousand times what a request costs, so that its steps run in the class of heavy work: one in a
//! round of the scheduler, whatever else there is to do.

use std::io;
use std::rc::Rc;
use std::sync::Arc;

use thalweg_runtime::buffer::Buf;
use thalweg_runtime::net::Stream;
use thalweg_runtime::timer::timeout_at;
use thalweg_runtime::{Class, in_class, set_class};
use thalweg_sample::facts::{ConnError, TlsFacts};
use thalweg_tls::Failure;
use thalweg_tls::engine::{Accepting, Connected, Connecting, SentEarly, Step};
use thalweg_tls::facts::Facts;
use thalweg_tls::select::Selection;
use thalweg_tls::server::ServerContext;

use super::line::Line;
use super::port::{Port, RECV_MAX};
use super::tls::{RecordLimits, Tls};
use super::transport::Transport;

/// How many records one turn looks at, as long as nothing is to be sent: most of them cost little.
const RECORDS_PER_TURN: usize = 16;

/// Why there is no encrypted connection.
#[derive(Debug)]
pub enum HandshakeError {
    /// The peer left: whether it had said something, and had been said something.
    Closed { heard: bool, answered: bool },
    /// The connection broke.
    Broken(io::Error),
    /// Its time was over.
    Timeout,
    /// One side did not accept the other; what is known of it.
    Refused(Box<TlsFacts>),
    /// The line is none that can be encrypted.
    NoSocket,
}

/// Either side of a handshake.
enum Side {
    /// A client, and whether what it sends ahead may be used before the handshake is done.
    Client(Box<Accepting>, bool),
    Server(Box<Connecting>),
}

impl HandshakeError {
    /// What is known of the connection. Where neither side refused the other, nothing went wrong as far as TLS is concerned.
    pub fn into_facts(self) -> Box<TlsFacts> {
        match self {
            HandshakeError::Refused(facts) => facts,
            _ => Box::new(TlsFacts { known: Facts::default(), failure: None }),
        }
    }

    /// The number of `fc_err` and `bc_err`.
    pub fn number(&self) -> ConnError {
        const EMPTY: ConnError = ConnError(24);
        const ABORT: ConnError = ConnError(25);
        const TIMEOUT: ConnError = ConnError(26);
        const CA_FAIL: ConnError = ConnError(30);
        const CRT_FAIL: ConnError = ConnError(31);
        const HANDSHAKE: ConnError = ConnError(34);
        match self {
            HandshakeError::Closed { answered: false, .. } => EMPTY,
            HandshakeError::Closed { answered: true, .. } | HandshakeError::Broken(_) => HANDSHAKE,
            HandshakeError::NoSocket => ABORT,
            HandshakeError::Timeout => TIMEOUT,
            HandshakeError::Refused(facts) => match facts.failure {
                Some(Failure::Certificate { leaf: false, .. }) => CA_FAIL,
                Some(Failure::Certificate { leaf: true, .. }) => CRT_FAIL,
                _ => HANDSHAKE,
            },
        }
    }
}

impl Side {
    fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Failure> {
        match self {
            Side::Client(accepting, _) => accepting.feed(bytes, out),
            Side::Server(connecting) => connecting.feed(bytes),
        }
    }

    fn is_ready(&self) -> bool {
        match self {
            Side::Client(accepting, _) => accepting.is_ready(),
            Side::Server(connecting) => connecting.is_ready(),
        }
    }

    /// One turn: some records, until there is something to send.
    fn turn(&mut self, out: &mut Vec<u8>) -> Result<Step, Failure> {
        for _ in 0..RECORDS_PER_TURN {
            let step = match self {
                Side::Client(accepting, _) => accepting.step(out)?,
                Side::Server(connecting) => connecting.step(out)?,
            };
            if step == Step::Done || !out.is_empty() || !self.is_ready() {
                return Ok(step);
            }
        }
        Ok(Step::More)
    }

    /// Whether data of the client is there that may be used before the handshake is done.
    fn is_early(&self) -> bool {
        matches!(self, Side::Client(accepting, true) if accepting.is_early())
    }

    /// The connection: the handshake is done, or the client is [early](Side::is_early).
    fn finish(self, out: &mut Vec<u8>) -> Result<Connected, Failure> {
        match self {
            Side::Client(accepting, true) if accepting.is_early() => accepting.into_early(),
            Side::Client(accepting, _) => {
                let mut connected = accepting.finish(out)?;
                connected.connection.keep(out);
                Ok(connected)
            }
            Side::Server(connecting) => connecting.finish(),
        }
    }

    /// What became of our early data.
    fn sent_early(&self) -> SentEarly {
        match self {
            Side::Client(..) => SentEarly::Not,
            Side::Server(connecting) => connecting.sent_early(),
        }
    }

    /// What is known of the peer although there is no connection.
    fn facts(&self, failure: Failure) -> Box<TlsFacts> {
        let known = match self {
            Side::Client(accepting, _) => accepting.so_far(),
            Side::Server(connecting) => {
                let (peer, verdict) =
                    connecting.peer().map(|(chain, verdict)| (chain.to_vec(), verdict)).unwrap_or_default();
                Facts { peer, verdict, ..Facts::default() }
            }
        };
        Box::new(TlsFacts { known, failure: Some(failure) })
    }
}

/// Shakes hands with the client on a port, which may have sent something already.
pub async fn accept(
    port: &mut Port,
    selection: Arc<Selection>,
    limits: RecordLimits,
    deadline: Option<u64>,
) -> Result<TlsFacts, HandshakeError> {
    accept_as(port, Side::Client(Box::new(Accepting::new(selection)), false), limits, deadline).await
}

/// The same, and what a client sends ahead (0-RTT) is there before the handshake is done: see [`Line::is_early`].
pub async fn accept_early(
    port: &mut Port,
    selection: Arc<Selection>,
    limits: RecordLimits,
    deadline: Option<u64>,
) -> Result<TlsFacts, HandshakeError> {
    accept_as(port, Side::Client(Box::new(Accepting::new(selection)), true), limits, deadline).await
}

async fn accept_as(
    port: &mut Port,
    side: Side,
    limits: RecordLimits,
    deadline: Option<u64>,
) -> Result<TlsFacts, HandshakeError> {
    let received = port.input.take();
    let stream = take_stream(&mut port.line).ok_or(HandshakeError::NoSocket)?;
    let Shaken { stream, result, .. } = shake(stream, side, received, deadline).await;
    put(&mut port.line, stream, result, limits)
}

/// Shakes hands with the server on a socket, asking for a name and offering protocols other than those of its line. The
/// connection keeps what is known of it.
pub async fn connect(
    stream: Stream,
    context: Arc<ServerContext>,
    asked: (Option<&[u8]>, Option<&[Vec<u8>]>),
    limits: RecordLimits,
    deadline: Option<u64>,
) -> Result<Transport, HandshakeError> {
    connect_with_early_data(stream, context, asked, Box::default(), limits, deadline).await.0
}

/// The same, and `early` goes with it, if the server allowed that before. Also what became of that, as far as it is known.
pub async fn connect_with_early_data(
    stream: Stream,
    context: Arc<ServerContext>,
    (name, protocols): (Option<&[u8]>, Option<&[Vec<u8>]>),
    early: Box<[u8]>,
    limits: RecordLimits,
    deadline: Option<u64>,
) -> (Result<Transport, HandshakeError>, SentEarly) {
    let side = match Connecting::with_early_data(context, name, protocols, early) {
        Ok(connecting) => Side::Server(Box::new(connecting)),
        Err(failure) => {
            let facts = TlsFacts { known: Facts::default(), failure: Some(failure) };
            return (Err(HandshakeError::Refused(Box::new(facts))), SentEarly::Not);
        }
    };
    let Shaken { stream, sent_early, result } = shake(stream, side, None, deadline).await;
    let connected = result.map(|Connected { connection, facts, rest, early }| {
        let mut tls = Tls::new(stream, connection, &rest, &early, limits);
        tls.facts = Some(Rc::new(TlsFacts { known: facts, failure: None }));
        Transport::Tls(Box::new(tls))
    });
    (connected, sent_early)
}

/// Takes the socket out of a line, which is put back with [`put`].
fn take_stream(line: &mut Line) -> Option<Stream> {
    match std::mem::replace(line, Line::Local(None)) {
        Line::Wire(Transport::Plain(stream)) => Some(stream),
        other => {
            *line = other;
            None
        }
    }
}

fn put(
    line: &mut Line,
    stream: Stream,
    result: Result<Connected, HandshakeError>,
    limits: RecordLimits,
) -> Result<TlsFacts, HandshakeError> {
    match result {
        Ok(Connected { connection, facts, rest, early }) => {
            let tls = Tls::new(stream, connection, &rest, &early, limits);
            *line = Line::Wire(Transport::Tls(Box::new(tls)));
            Ok(TlsFacts { known: facts, failure: None })
        }
        Err(error) => {
            *line = Line::Wire(Transport::Plain(stream));
            Err(error)
        }
    }
}

/// What came of a handshake. The socket comes back in any case.
struct Shaken {
    stream: Stream,
    /// What became of our early data.
    sent_early: SentEarly,
    result: Result<Connected, HandshakeError>,
}

/// The whole handshake.
async fn shake(mut stream: Stream, mut side: Side, received: Option<Buf>, deadline: Option<u64>) -> Shaken {
    let ran = run(&mut stream, &mut side, received, deadline).await;
    let sent_early = side.sent_early();
    let result = match ran {
        Ok(mut out) => {
            let peer = side.facts(Failure::Closed);
            match side.finish(&mut out) {
                Ok(connected) => send(&mut stream, &mut out, deadline).await.map(|()| connected),
                Err(failure) => {
                    let _ = send(&mut stream, &mut out, deadline).await;
                    let facts = TlsFacts { failure: Some(failure), ..*peer };
                    Err(HandshakeError::Refused(Box::new(facts)))
                }
            }
        }
        Err(error) => Err(error),
    };
    Shaken { stream, sent_early, result }
}

/// Goes from step to step, and gives what the last one wrote, which is not sent yet.
async fn run(
    stream: &mut Stream,
    side: &mut Side,
    received: Option<Buf>,
    deadline: Option<u64>,
) -> Result<Vec<u8>, HandshakeError> {
    let mut out = Vec::new();
    let (mut heard, mut answered) = (false, false);
    let mut next = received;
    loop {
        let is_first = !heard;
        if let Some(bytes) = next.take() {
            heard = true;
            if let Err(failure) = side.feed(&bytes, &mut out) {
                let _ = send(stream, &mut out, deadline).await;
                return Err(HandshakeError::Refused(side.facts(failure)));
            }
        }
        while side.is_ready() {
            in_class(Class::Heavy).await;
            let stepped = side.turn(&mut out);
            set_class(Class::Normal);
            if let Ok(step) = stepped
                && (step == Step::Done || side.is_early())
            {
                return Ok(out);
            }
            answered |= !out.is_empty();
            let sent = send(stream, &mut out, deadline).await;
            match stepped {
                Err(failure) => return Err(HandshakeError::Refused(side.facts(failure))),
                Ok(_) => sent?,
            }
        }
        if is_first && heard && !answered && matches!(side, Side::Client(..)) {
            // Its client may wait for the acknowledgement of what it sent, which listeners of HTTP put off.
            let _ = stream.set_quickack(true);
        }
        match timeout_at(deadline, stream.recv(RECV_MAX)).await {
            Err(_elapsed) => return Err(HandshakeError::Timeout),
            Ok(Err(error)) => return Err(HandshakeError::Broken(error)),
            Ok(Ok(bytes)) if bytes.is_empty() => return Err(HandshakeError::Closed { heard, answered }),
            Ok(Ok(bytes)) => next = Some(bytes),
        }
    }
}

/// Sends what a step wrote, once what it wrote before is sent.
async fn send(stream: &mut Stream, out: &mut Vec<u8>, deadline: Option<u64>) -> Result<(), HandshakeError> {
    if out.is_empty() {
        return Ok(());
    }
    match timeout_at(deadline, stream.send_ready()).await {
        Err(_elapsed) => Err(HandshakeError::Timeout),
        Ok(Err(error)) => Err(HandshakeError::Broken(error)),
        Ok(Ok(())) => {
            stream.start_send(Buf::copy_of(out));
            out.clear();
            Ok(())
        }
    }
}
