//! The live state of one server, for as long as some snapshot has it.
//!
//! It lies at the server's number in rows ([`thalweg_live::Rows`]) that snapshots share. So all of it is
//! words and locks, which [`ServerState::begin`] sets for the server that has the number from then on.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use thalweg_balance::{Limits, Queue};
use thalweg_config::model::{ProxyId, Server, ServerId};
use thalweg_shared::{AtomicBool, AtomicU32, AtomicU64, Mutex};

use super::adaptive::Adaptive;
use super::health::Reports;
use super::outliers::Watched;
use super::seats::Seats;
use super::service::Service;
use super::standing::{Past, Standing};
use super::transition::Transition;

/// See the module's documentation.
pub(crate) struct ServerState {
    /// Where threads keep what is theirs of it: see [`crate::Instance::server_index`].
    pub flat: AtomicU32,
    /// The first snapshot that has it.
    pub since: AtomicU64,
    minconn: AtomicU32,
    /// What takes the place of both limits.
    pub adaptive: Adaptive,
    pub maxqueue: AtomicU32,
    pub service: Service,
    backup: AtomicBool,
    pub queue: Queue,
    pub queue_max: AtomicU32,
    pub weight: AtomicU32,
    pub standing: Mutex<Standing>,
    /// Where it stood before.
    pub past: Mutex<VecDeque<Past>>,
    /// Whose state it has.
    tracked: Mutex<Option<(ProxyId, ServerId)>>,
    /// What its checks found out.
    pub reports: Reports,
    /// What `standing` says of it, for traffic.
    pub up: AtomicBool,
    /// It gets no new sessions though it is up.
    pub closing: AtomicBool,
    pub transition: Transition,
    /// When its drain ends by itself, in milliseconds of the clock; 0 when it does not.
    pub drain_end_ms: AtomicU64,
    /// Whether it is worse than others.
    pub watched: Watched,
    /// Counts the changes of what it is called and where it is reached; 0 while it is as configured.
    pub version: AtomicU32,
    /// Those of its connections, once one was opened under `strict-maxconn`.
    pub seats: Mutex<Option<Arc<Seats>>>,
}

// Two of them are made together ([`thalweg_live::Rows`]), in a quarter of a page: there may be 100,000.
const _: () = assert!(2 * size_of::<ServerState>() + 2 * size_of::<usize>() <= 1024);

impl Default for ServerState {
    /// That of a number without a server.
    fn default() -> ServerState {
        ServerState {
            flat: AtomicU32::new(0),
            since: AtomicU64::new(0),
            minconn: AtomicU32::new(0),
            adaptive: Adaptive::default(),
            maxqueue: AtomicU32::new(0),
            service: Service::new(),
            backup: AtomicBool::new(false),
            queue: Queue::new(),
            queue_max: AtomicU32::new(0),
            weight: AtomicU32::new(0),
            standing: Mutex::new(Standing::none()),
            past: Mutex::default(),
            tracked: Mutex::new(None),
            reports: Reports::default(),
            up: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            transition: Transition::default(),
            drain_end_ms: AtomicU64::new(0),
            watched: Watched::default(),
            version: AtomicU32::new(0),
            seats: Mutex::new(None),
        }
    }
}

impl ServerState {
    /// From now on it is that of this server, which all snapshots from `since` on have, at `flat` in what threads have. Nobody uses the
    /// number meanwhile.
    pub fn begin(&self, server: &Server, flat: u32, since: u64) {
        let standing = Standing::new(server);
        self.flat.store(flat, Ordering::Relaxed);
        self.since.store(since, Ordering::Relaxed);
        self.set_limits(server);
        self.service.begin(server);
        self.queue_max.store(0, Ordering::Relaxed);
        self.weight.store(u32::from(server.weight), Ordering::Relaxed);
        self.past.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.set_tracked(server.rare().track);
        self.reports.begin(Some(server));
        self.up.store(standing.is_up(), Ordering::Relaxed);
        self.closing.store(false, Ordering::Relaxed);
        self.transition.begin(server);
        self.drain_end_ms.store(0, Ordering::Relaxed);
        self.watched.begin();
        self.version.store(0, Ordering::Relaxed);
        *self.seats.lock().unwrap_or_else(PoisonError::into_inner) = None;
        *self.standing.lock().unwrap_or_else(PoisonError::into_inner) = standing;
    }

    /// The limits and the role that a line gives it.
    pub fn set_limits(&self, server: &Server) {
        self.minconn.store(server.minconn, Ordering::Relaxed);
        self.adaptive.follow(server);
        self.maxqueue.store(server.maxqueue, Ordering::Relaxed);
        self.backup.store(server.backup, Ordering::Relaxed);
    }

    /// It has the state of this one.
    pub fn set_tracked(&self, tracked: Option<(ProxyId, ServerId)>) {
        *self.tracked.lock().unwrap_or_else(PoisonError::into_inner) = tracked;
    }

    /// No server has the number any more: nobody is balanced to it or waits for it.
    pub fn end(&self) {
        self.up.store(false, Ordering::SeqCst);
        self.weight.store(0, Ordering::SeqCst);
        self.minconn.store(0, Ordering::Relaxed);
        self.adaptive.end();
        self.backup.store(false, Ordering::Relaxed);
        self.set_tracked(None);
        self.reports.begin(None);
        *self.standing.lock().unwrap_or_else(PoisonError::into_inner) = Standing::none();
    }

    #[inline]
    pub fn limits(&self) -> Limits {
        let maxconn = self.service.maxconn.load(Ordering::Relaxed);
        let maxqueue = self.maxqueue.load(Ordering::Relaxed);
        match self.adaptive.limit() {
            0 => Limits { maxconn, minconn: self.minconn.load(Ordering::Relaxed), maxqueue },
            found => Limits { maxconn: found.min(maxconn), minconn: 0, maxqueue },
        }
    }

    pub fn is_backup(&self) -> bool {
        self.backup.load(Ordering::Relaxed)
    }

    /// Whose state it has.
    pub fn tracked(&self) -> Option<(ProxyId, ServerId)> {
        *self.tracked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether new requests may go to it: it is up, not draining, and its weight is not zero.
    #[inline]
    pub fn is_usable(&self) -> bool {
        self.up.load(Ordering::Relaxed)
            && !self.closing.load(Ordering::Relaxed)
            && self.weight.load(Ordering::Relaxed) != 0
    }
}
