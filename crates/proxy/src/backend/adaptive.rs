//! `adaptive-maxconn` (ours): the limit on a server's concurrent requests follows how long its answers take.
//!
//! The thread whose request finds that an interval is over looks at what all threads counted ([`thalweg_balance::adaptive`] says
//! what follows). A request in between reads two words.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use thalweg_balance::ServerIndex;
use thalweg_balance::adaptive::{AdaptiveLimit, Bounds, INTERVAL_MS};
use thalweg_config::model::{Proxy, Server, ServerId};
use thalweg_runtime::clock;
use thalweg_shared::{AtomicU32, AtomicU64, Mutex};

use super::{Backend, outliers};
use crate::worker::Worker;

/// The limit of one server.
#[derive(Default)]
pub(super) struct Adaptive {
    /// 0 where it does not follow anything.
    limit: AtomicU32,
    /// It does not go below this, `minconn`.
    low: AtomicU32,
    /// When it is looked at next, in milliseconds of the clock.
    due_ms: AtomicU64,
    found: Mutex<AdaptiveLimit>,
}

impl Adaptive {
    /// The limit for now, 0 where there is none of this kind.
    #[inline]
    pub fn limit(&self) -> u32 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Does what the line of a server says. What was found out stays while it says the same.
    pub fn follow(&self, server: &Server) {
        self.low.store(server.minconn, Ordering::Relaxed);
        let bounds = Bounds { low: server.minconn, high: server.maxconn };
        match (server.rare().adaptive_maxconn, self.limit()) {
            (false, _) => self.end(),
            (true, 0) => self.limit.store(AdaptiveLimit::first(bounds), Ordering::Relaxed),
            (true, _) => {}
        }
    }

    /// Nothing is known of the server that has it from now on.
    pub fn end(&self) {
        self.limit.store(0, Ordering::Relaxed);
        self.due_ms.store(0, Ordering::Relaxed);
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = AdaptiveLimit::default();
    }
}

/// The outcome of a request of a server was counted: looks at its limit if it is time to.
pub fn look_when_due(worker: &Worker, be: &Proxy, server: ServerId) {
    if !be.rare().adapts_limits {
        return;
    }
    let backend = worker.backend(be.id);
    let adaptive = &backend.state(server).adaptive;
    let (now, due) = (clock::now_ms(), adaptive.due_ms.load(Ordering::Relaxed));
    if now < due || adaptive.limit() == 0 {
        return;
    }
    let next = now + INTERVAL_MS;
    if adaptive.due_ms.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        look(worker, backend, server, now);
    }
}

fn look(worker: &Worker, backend: &Backend, server: ServerId, now_ms: u64) {
    let adaptive = &backend.state(server).adaptive;
    let before = adaptive.limit();
    let bounds = Bounds { low: adaptive.low.load(Ordering::Relaxed), high: backend.maxconn(server) };
    let counted = outliers::outcomes(&worker.instance, backend.id, server);
    let now = adaptive.found.lock().unwrap_or_else(PoisonError::into_inner).look(
        now_ms,
        counted,
        backend.needs_limit(server, before),
        bounds,
    );
    // It may have become another server's, which has none.
    let _ = adaptive.limit.compare_exchange(before, now, Ordering::Relaxed, Ordering::Relaxed);
    if now > before {
        // Whoever waits may fit now.
        backend.limit_changed(server);
    }
}

impl Backend {
    /// Whether as many requests as its limit allows, or nearly, want a server.
    fn needs_limit(&self, server: ServerId, limit: u32) -> bool {
        let served = self.balancer.load(ServerIndex(server.0)).served();
        u64::from(served) * 2 >= u64::from(limit)
            || self.server_queue_len(server) != 0
            || self.queue_len() != 0
    }

    /// The limit that follows a server's answers, if one does.
    pub fn adaptive_limit(&self, server: ServerId) -> Option<u32> {
        let state = self.state(server);
        (state.adaptive.limit() != 0).then(|| state.limits().maxconn)
    }
}
