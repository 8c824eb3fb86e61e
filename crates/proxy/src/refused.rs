//! The last message of each side of each proxy that was not understood, for operators (management manual: `show errors`).
//!
//! Messages that are understood cost nothing here. A refused one is copied, up to `tune.bufsize` of it, under a lock of its
//! proxy's; the next one takes its place.

use std::fmt::Display;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use thalweg_config::model::{ProxyId, ServerId};
use thalweg_h1::ParseErrorKind;
use thalweg_live::Growing;
use thalweg_runtime::clock;
use thalweg_sample::facts::Endpoint;
use thalweg_shared::{AtomicU64, Mutex};

use crate::connection::body::RefusedChunks;
use crate::connection::port::Port;
use crate::stream::{Stream, StreamState};
use crate::worker::Worker;

/// Which message of an exchange it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// A client's; kept with its frontend.
    Request,
    /// A server's; kept with its backend.
    Response,
}

/// A message that was refused.
#[derive(Clone, Debug)]
pub struct Refused {
    /// Microseconds since 1970.
    pub wall_us: u64,
    /// Which one of all it is, from 0.
    pub number: u64,
    /// Where the client came in.
    pub frontend: ProxyId,
    /// The backend, if one was chosen.
    pub backend: Option<ProxyId>,
    /// The server, if one was chosen.
    pub server: Option<ServerId>,
    /// The client.
    pub source: Endpoint,
    /// What there was of the message: its head if that was refused, else of its body what had come together.
    pub bytes: Box<[u8]>,
    /// Where in it reading ended.
    pub position: usize,
    /// Why, in words.
    pub why: String,
}

/// The last request and the last response of a proxy.
type Last = [Option<Box<Refused>>; 2];

/// See the module's documentation.
pub struct LastRefused {
    /// By proxy.
    last: Growing<Mutex<Last>>,
    count: AtomicU64,
}

impl LastRefused {
    /// None yet, of that many proxies.
    pub fn new(proxies: usize) -> LastRefused {
        LastRefused { last: (0..proxies).map(|_| Mutex::default()).collect(), count: AtomicU64::new(0) }
    }

    /// Nobody has that number any more.
    pub(crate) fn forget(&self, proxy: ProxyId) {
        *self.last[proxy.0 as usize].lock().unwrap_or_else(PoisonError::into_inner) = Last::default();
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// The last one that a proxy refused.
    pub fn get(&self, proxy: ProxyId, side: Side) -> Option<Box<Refused>> {
        self.last[proxy.0 as usize].lock().unwrap_or_else(PoisonError::into_inner)[side as usize].clone()
    }
}

/// What of a message was refused.
#[derive(Debug)]
pub struct Fault<'a> {
    /// Which message.
    pub side: Side,
    /// What there was of it.
    pub bytes: &'a [u8],
    /// Where in it reading ended.
    pub position: usize,
    /// Why.
    pub why: &'a dyn FaultReason,
}

/// Why a message was refused, in words.
pub trait FaultReason: Display + std::fmt::Debug {}
impl<T: Display + std::fmt::Debug> FaultReason for T {}

impl Worker {
    /// Keeps a message that was refused.
    #[cold]
    pub fn note_refused(&self, frontend: ProxyId, source: Endpoint, state: &StreamState, fault: &Fault<'_>) {
        let facts = &state.facts;
        let all = &self.instance.refused;
        let backend = facts.backend_assigned.then_some(ProxyId(facts.backend.0));
        let keeper = match fault.side {
            Side::Request => frontend,
            Side::Response => backend.unwrap_or(frontend),
        };
        let len = fault.bytes.len().min(self.instance.config.global.tune.bufsize);
        let refused = Box::new(Refused {
            wall_us: clock::wall_us(),
            number: all.count.fetch_add(1, Ordering::Relaxed),
            frontend,
            backend,
            server: facts.server.map(|server| ServerId(server.index)),
            source,
            bytes: fault.bytes[..len].into(),
            position: fault.position,
            why: fault.why.to_string(),
        });
        let mut last = all.last[keeper.0 as usize].lock().unwrap_or_else(PoisonError::into_inner);
        last[fault.side as usize] = Some(refused);
    }
}

impl Stream<'_> {
    /// Who asks, as rules see it.
    pub fn source(&self) -> Endpoint {
        self.state.facts.src.unwrap_or_else(|| self.session.facts().source())
    }

    /// Keeps a head that was refused, for operators.
    #[cold]
    pub fn note_refused_head(&self, kind: ParseErrorKind, position: usize) {
        let Some(bytes) = self.client.input.as_deref() else { return };
        let fault = Fault { side: Side::Request, bytes, position, why: &kind };
        self.worker.note_refused(self.session.frontend, self.source(), self.state, &fault);
    }

    /// Keeps what was refused of the bodies of the client and of `server`.
    #[cold]
    pub fn note_refused_bodies(&self, server: Option<&Port>) {
        let sides = [(Side::Request, Some(&*self.client)), (Side::Response, server)];
        for (side, port) in sides {
            let Some(refused) = port.and_then(|port| port.body.refused()) else { continue };
            let RefusedChunks { bytes, position, error } = refused;
            let fault = Fault { side, bytes, position: *position, why: error };
            self.worker.note_refused(self.session.frontend, self.source(), self.state, &fault);
        }
    }
}
