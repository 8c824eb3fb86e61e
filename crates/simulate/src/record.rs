//! What the parties of a scenario saw. Filled while it runs, judged afterwards.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use thalweg_runtime::driver::sim::Network;
use thalweg_runtime::{Reason, TaskId, clock};

use crate::plan::{Plan, STREAMS_FIRST};

/// What a client saw.
#[derive(Debug, Default)]
pub struct ClientRecord {
    /// Its address, as log lines name it; empty when it was never connected.
    pub address: String,
    /// Requests of which at least a byte was handed to the network, in order.
    pub requests: Vec<Sent>,
    /// Final responses, in order.
    pub responses: Vec<Received>,
    /// The client left before its end; when.
    pub left_ms: Option<u64>,
    /// How the other direction ended.
    pub end: Option<End>,
    /// It waited for longer than anything should take.
    pub lost_patience: bool,
    /// Bytes sent and received.
    pub sent: u64,
    pub received: u64,
}

/// A request as far as it was sent.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub id: usize,
    /// All of its head was handed to the network, and all of it.
    pub head: bool,
    pub complete: bool,
    pub began_ms: u64,
    /// The configuration that is followed when it begins: none before that may serve it.
    pub generation: usize,
}

/// A response as far as it was received.
#[derive(Clone, Debug, Default)]
pub struct Received {
    pub status: u16,
    /// The number it carries, and which attempt of the server's it is; none on the proxy's own answers.
    pub from_server: Option<(usize, usize)>,
    /// The configurations of the frontend and of the backend that say so.
    pub generations: [Option<usize>; 2],
    pub body: u64,
    /// Bytes on the wire, interim responses before it included.
    pub wire: u64,
    pub complete: bool,
    pub closes: bool,
    pub at_ms: u64,
}

/// How a direction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Fin,
    Reset,
    /// This side closed first.
    Own,
}

/// One time a server saw a request.
#[derive(Clone, Debug)]
pub struct Attempt {
    pub id: usize,
    /// The server's position.
    pub server: usize,
    /// The configurations of the frontend and of the backend that say so, and the one in force when the connection came.
    pub generations: [Option<usize>; 2],
    pub connected_by: usize,
    /// Which request of its connection it was, from 0.
    pub turn: usize,
    pub at_ms: u64,
    /// Bytes of the request's body that came, and whether all of it did.
    pub body: u64,
    pub body_complete: bool,
    /// Bytes of the response (interim ones apart) that were handed to the network.
    pub sent: u64,
    /// Bytes before them.
    pub interim: u64,
    pub sent_all: bool,
    /// The server did something else than answer well: closed, reset, stalled, spoke nonsense, or went down.
    pub misbehaved: bool,
    /// It did nothing for a long time.
    pub stalled: bool,
    /// It closed before the request's end.
    pub cut_off: bool,
}

/// What both ends of a connection in TCP mode saw.
#[derive(Clone, Debug, Default)]
pub struct TcpRecord {
    /// As log lines name the client; empty when it was never connected.
    pub address: String,
    /// Bytes of the client, and of those the server has got, the number apart.
    pub sent: u64,
    pub sent_all: bool,
    pub got: u64,
    /// Bytes of the server, and of those the client has got.
    pub server_sent: u64,
    pub received: u64,
    /// The client left before its end.
    pub left: bool,
    /// How the client's connection ended.
    pub end: Option<End>,
    pub server_saw_end: bool,
    /// Times that servers saw it.
    pub attempts: u64,
}

/// What was seen of a request on a connection that carries many.
#[derive(Clone, Debug, Default)]
pub struct StreamRecord {
    /// Its head was sent; octets of its body that were, and whether that was all.
    pub asked: bool,
    pub sent: u64,
    pub sent_all: bool,
    /// Times that servers saw it; octets of its body that the last one got, and whether one got all.
    pub attempts: u64,
    pub got: u64,
    pub got_all: bool,
    /// Octets of the response that servers sent.
    pub server_sent: u64,
    /// Final heads that came, the status of the last, and whether it is a server's.
    pub answers: u64,
    pub status: u16,
    pub of_server: bool,
    pub received: u64,
    pub closes: bool,
    pub end: Option<StreamEnd>,
    /// The client gave it up.
    pub left: bool,
}

/// How a stream ended for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    Whole,
    Reset,
    /// Its connection ended.
    Gone,
}

/// A line of the log.
#[derive(Clone, Debug)]
pub struct LogLine {
    pub client: String,
    pub frontend: String,
    pub backend: String,
    pub server: String,
    pub status: i32,
    /// Bytes of the request from the client and to the server, and of the response from the server and to the client.
    pub bytes: [u64; 4],
    /// Cause, phase, and what became of the cookie.
    pub state: String,
    pub retries: u64,
    pub redispatched: bool,
    /// Whether a server was reached.
    pub has_connected: bool,
    pub id: Option<usize>,
    /// The number of the configuration, where configurations have one.
    pub generation: Option<usize>,
    /// The line itself.
    pub text: String,
}

/// Everything seen, and what is wrong with it.
pub struct Record {
    pub network: Network,
    pub clients: RefCell<Vec<ClientRecord>>,
    pub attempts: RefCell<Vec<Attempt>>,
    pub tcp: RefCell<Vec<TcpRecord>>,
    /// By the number of the request, from [`STREAMS_FIRST`] on.
    pub streams: RefCell<Vec<StreamRecord>>,
    pub lines: RefCell<Vec<LogLine>>,
    /// Addresses of clients for which the log says that their handshake took too long.
    pub without_tls: RefCell<Vec<String>>,
    /// When servers said something that nobody had asked for.
    pub goodbyes_ms: RefCell<Vec<u64>>,
    /// The configuration that is in force, and the one that is followed by now.
    pub in_force: Cell<usize>,
    pub followed: Cell<usize>,
    /// All but the first.
    pub snapshots: RefCell<Vec<std::sync::Weak<thalweg_proxy::Instance>>>,
    /// What is wrong.
    pub complaints: RefCell<Vec<String>>,
    /// The millisecond the scenario began.
    pub began_ms: u64,
    /// Clients still at work, and who waits for them.
    live: Cell<usize>,
    waiting: Cell<TaskId>,
}

impl Record {
    /// Of a scenario that begins now.
    pub fn new(network: &Network, plan: &Plan) -> Rc<Record> {
        let clients = plan.clients.len();
        let sessions = plan.tcp.as_ref().map_or(0, |tcp| tcp.sessions.len());
        let (muxed, streams) = plan.streams.as_ref().map_or((0, 0), |s| (s.sessions.len(), s.count()));
        Rc::new(Record {
            network: network.clone(),
            clients: RefCell::new((0..clients).map(|_| ClientRecord::default()).collect()),
            attempts: RefCell::default(),
            tcp: RefCell::new(vec![TcpRecord::default(); sessions]),
            streams: RefCell::new(vec![StreamRecord::default(); streams]),
            lines: RefCell::default(),
            without_tls: RefCell::default(),
            goodbyes_ms: RefCell::default(),
            in_force: Cell::new(0),
            followed: Cell::new(0),
            snapshots: RefCell::default(),
            complaints: RefCell::default(),
            began_ms: clock::now_ms(),
            live: Cell::new(clients + sessions + muxed),
            waiting: Cell::new(thalweg_runtime::current_task()),
        })
    }

    /// Milliseconds since the scenario began.
    pub fn now_ms(&self) -> u64 {
        clock::now_ms().saturating_sub(self.began_ms)
    }

    /// Something is wrong.
    pub fn complain(&self, what: impl Into<String>) {
        let what = what.into();
        self.network.note(|| format!("WRONG {what}"));
        self.complaints.borrow_mut().push(what);
    }

    /// Changes what is known of a client.
    pub fn client<R>(&self, n: usize, f: impl FnOnce(&mut ClientRecord) -> R) -> R {
        f(&mut self.clients.borrow_mut()[n])
    }

    /// Changes what is known of a connection in TCP mode.
    pub fn tcp<R>(&self, n: usize, f: impl FnOnce(&mut TcpRecord) -> R) -> R {
        f(&mut self.tcp.borrow_mut()[n])
    }

    /// Changes what is known of a request by its number, of those on connections that carry many.
    pub fn stream<R>(&self, id: usize, f: impl FnOnce(&mut StreamRecord) -> R) -> R {
        f(&mut self.streams.borrow_mut()[id - STREAMS_FIRST])
    }

    /// Changes what is known of an attempt.
    pub fn attempt<R>(&self, n: usize, f: impl FnOnce(&mut Attempt) -> R) -> R {
        f(&mut self.attempts.borrow_mut()[n])
    }

    /// A client is done.
    pub fn client_done(&self) {
        self.live.set(self.live.get() - 1);
        if self.live.get() == 0 {
            self.waiting.get().wake(Reason::OTHER);
        }
    }

    /// Waits for all clients.
    pub async fn clients_done(&self) {
        std::future::poll_fn(|_| match self.live.get() {
            0 => std::task::Poll::Ready(()),
            _ => std::task::Poll::Pending,
        })
        .await;
    }
}
