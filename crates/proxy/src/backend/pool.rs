//! Idle server connections, per server and per thread (manual: `http-reuse`, `pool-max-conn`, `pool-purge-delay`).
//!
//! A connection goes in when a response ended on a message boundary in both directions and the server agreed to keep
//! it; the one used last is taken first, so that the ones in excess grow old and are purged. Only the owning thread
//! touches a pool.

use std::rc::Rc;

use thalweg_runtime::clock;
use thalweg_runtime::net::Stream;
use thalweg_sample::facts::Endpoint;

use crate::plant::bug;

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

/// How many connections to a server a thread has in use, and how many it needs.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    /// In use by other streams.
    pub others: usize,
    /// Needed at once, as estimated from what was in use lately.
    pub needed: usize,
    /// Kept beyond that in any case (`pool-low-conn`).
    pub low: usize,
}

/// The idle connections of one server on one thread.
pub struct IdlePool {
    /// The one used last is at the end.
    idle: Vec<IdleConnection>,
    /// How many have carried more than one request.
    proven: usize,
    /// `pool-purge-delay`, in milliseconds.
    purge_delay: u64,
    /// When those in excess are closed, in milliseconds of the monotonic clock; nothing is planned while there are none.
    purge_due: Option<u64>,
}

impl IdlePool {
    /// No connection, with a purge every `purge_delay` milliseconds once there are some.
    pub fn new(purge_delay: u64) -> IdlePool {
        IdlePool { idle: Vec::new(), proven: 0, purge_delay, purge_due: None }
    }

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

    /// Keeps a connection if it may be needed, else closes it: no more are kept, with those in use, than are needed at
    /// once. One is always kept, and one that has proved to last. Returns when the next purge is due.
    #[inline]
    pub fn put(&mut self, connection: IdleConnection, demand: Demand) -> u64 {
        let is_proven = connection.is_proven();
        let is_only = self.proven == 0 && (is_proven || self.idle.is_empty());
        let is_needed = self.idle.len() + demand.others < demand.needed + demand.low;
        if is_only || is_needed {
            self.proven += usize::from(is_proven);
            self.idle.push(connection);
        }
        *self.purge_due.get_or_insert_with(|| clock::now_ms() + self.purge_delay)
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
            if !taken.io.has_input_now() || bug("dirty-pool") {
                return Some(taken);
            }
        }
        None
    }

    /// Drops the connections on which something arrived.
    pub fn drop_closed(&mut self) {
        self.idle.retain_mut(|c| !c.io.has_input_now() || bug("dirty-pool"));
        self.count_proven();
    }

    /// When [`IdlePool::purge`] is due; `None` while there is nothing to plan for.
    pub fn purge_due(&self) -> Option<u64> {
        self.purge_due
    }

    /// Closes half of the connections in excess, oldest first, when `used` are in use and `needed` are needed.
    pub fn purge(&mut self, used: usize, needed: usize, now_ms: u64) {
        let excess = (self.idle.len() + used).saturating_sub(needed);
        if excess > 0 {
            // One more than half, so that the last one goes, too.
            let n = (excess.div_ceil(2) + 1).min(self.idle.len());
            self.idle.drain(..n);
            self.count_proven();
        }
        self.purge_due = (!self.idle.is_empty()).then_some(now_ms + self.purge_delay);
    }

    /// Closes all.
    pub fn clear(&mut self) {
        self.idle.clear();
        self.proven = 0;
    }

    fn count_proven(&mut self) {
        self.proven = self.idle.iter().filter(|c| c.is_proven()).count();
    }
}
