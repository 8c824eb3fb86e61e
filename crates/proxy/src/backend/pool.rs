//! Idle server connections, per server and per thread (manual: `http-reuse`, `pool-max-conn`, `pool-purge-delay`).
//!
//! A connection goes in when a response ended on a message boundary in both directions and the server agreed to keep
//! it; the one used last is taken first, so that the ones in excess grow old and are purged. Only the owning thread
//! touches a pool.

use std::rc::Rc;

use thalweg_runtime::net::Stream;
use thalweg_sample::facts::Endpoint;

/// Everything besides the server that makes two connections interchangeable; `None` in [`IdleConnection`] for the
/// usual case in which nothing does.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct ConnectionKey {
    /// Source address and port the connection was bound to.
    pub source: Option<std::net::SocketAddr>,
    /// Target address, when it depends on the request.
    pub target: Option<std::net::SocketAddr>,
    /// The PROXY header that was sent.
    pub proxy_header: Vec<u8>,
    /// Mark of its packets (`set-bc-mark`): they took another route.
    pub mark: Option<u32>,
    /// Type of service of its packets (`set-bc-tos`).
    pub tos: Option<u8>,
}

/// A server connection without a stream.
pub struct IdleConnection {
    /// The connection.
    pub io: Stream,
    /// What it is interchangeable with.
    pub key: Option<Rc<ConnectionKey>>,
    /// Requests it has carried.
    pub requests: u32,
    /// Its own address and the server's.
    pub ends: (Endpoint, Endpoint),
}

impl IdleConnection {
    /// It was used again once: the server keeps its connections open.
    fn is_proven(&self) -> bool {
        self.requests >= 2
    }
}

/// The idle connections of one server on one thread.
#[derive(Default)]
pub struct IdlePool {
    /// The one used last is at the end.
    idle: Vec<IdleConnection>,
    /// How many have carried more than one request.
    proven: usize,
    /// The fewest that were idle at once since the last purge: none of these was needed.
    spare: usize,
    /// Most streams on this server at once since the last purge, and in the period before.
    peak: usize,
    last_peak: usize,
}

impl IdlePool {
    /// Number of idle connections.
    pub fn len(&self) -> usize {
        self.idle.len()
    }

    /// How many of them have carried more than one request.
    pub fn proven(&self) -> usize {
        self.proven
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.idle.is_empty()
    }

    /// Takes note of how many streams this thread has on the server.
    #[inline]
    pub fn note_streams(&mut self, streams: usize) {
        self.peak = self.peak.max(streams);
    }

    /// Whether one more idle connection may be needed: no more are kept, with those in use by `others`, than were in
    /// use at once lately (`low` more are kept in any case). One is always kept.
    pub fn has_use_for_more(&self, others: usize, low: usize) -> bool {
        self.idle.is_empty() || self.idle.len() + others < self.peak.max(self.last_peak) + low
    }

    /// Puts a connection in.
    pub fn put(&mut self, connection: IdleConnection) {
        self.proven += usize::from(connection.is_proven());
        self.idle.push(connection);
    }

    /// Takes the connection used last that is interchangeable with `key`. One on which something has arrived (the
    /// server closed it, or spoke out of turn) is dropped on the way.
    pub fn take(&mut self, key: Option<&ConnectionKey>, proven_only: bool) -> Option<IdleConnection> {
        let mut at = self.idle.len();
        while at > 0 {
            at -= 1;
            let candidate = &mut self.idle[at];
            if candidate.key.as_deref() != key || (proven_only && !candidate.is_proven()) {
                continue;
            }
            let mut taken = self.idle.remove(at);
            self.proven -= usize::from(taken.is_proven());
            self.spare = self.spare.min(self.idle.len());
            if !taken.io.has_input_now() {
                return Some(taken);
            }
        }
        None
    }

    /// Drops the connections on which something arrived.
    pub fn drop_closed(&mut self) {
        self.idle.retain_mut(|c| !c.io.has_input_now());
        self.count_proven();
        self.spare = self.spare.min(self.idle.len());
    }

    /// Closes half of the connections that were not needed since the last purge, oldest first, but not below `keep`.
    pub fn purge(&mut self, keep: usize) {
        let unneeded = self.spare.min(self.idle.len().saturating_sub(keep));
        let n = unneeded.div_ceil(2);
        self.idle.drain(..n);
        self.count_proven();
        self.spare = self.idle.len();
        self.last_peak = std::mem::take(&mut self.peak);
    }

    /// Closes all.
    pub fn clear(&mut self) {
        self.idle.clear();
        self.proven = 0;
        self.spare = 0;
    }

    fn count_proven(&mut self) {
        self.proven = self.idle.iter().filter(|c| c.is_proven()).count();
    }
}
