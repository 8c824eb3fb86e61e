//! What an operator changed at run time about servers, frontends and backends.

use std::sync::atomic::Ordering;

use thalweg_balance::sync::{AtomicU32, AtomicU64};

use thalweg_config::model::{ProxyId, Server, ServerId};
use thalweg_runtime::clock;

use crate::backend::Backend;
use crate::backend::health::Before;
use crate::backend::standing::Said;
use crate::backend::track;
use crate::instance::Instance;
use crate::worker::Worker;

/// What became of a server over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    /// Millisecond of the last change between up and down.
    pub since_ms: u64,
    /// Changes from up to down.
    pub downs: u64,
    /// Seconds it was down.
    pub down_s: u64,
}

impl History {
    /// Seconds since the last change between up and down.
    pub fn since_s(&self) -> u64 {
        clock::now_ms().saturating_sub(self.since_ms) / 1000
    }
}

/// When something was up and when it was not.
pub(crate) struct UpTime {
    since_ms: AtomicU64,
    downs: AtomicU64,
    down_ms: AtomicU64,
}

impl UpTime {
    /// At start.
    pub(crate) fn new() -> UpTime {
        UpTime {
            since_ms: AtomicU64::new(clock::now_ms()),
            downs: AtomicU64::new(0),
            down_ms: AtomicU64::new(0),
        }
    }

    /// It went up or down.
    pub(crate) fn changed(&self, up: bool) {
        let now_ms = clock::now_ms();
        let before = self.since_ms.swap(now_ms, Ordering::Relaxed);
        if up {
            self.down_ms.fetch_add(now_ms.saturating_sub(before), Ordering::Relaxed);
        } else {
            self.downs.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn history(&self, up: bool) -> History {
        let since_ms = self.since_ms.load(Ordering::Relaxed);
        let mut down_ms = self.down_ms.load(Ordering::Relaxed);
        if !up {
            down_ms += clock::now_ms().saturating_sub(since_ms);
        }
        History { since_ms, downs: self.downs.load(Ordering::Relaxed), down_s: down_ms / 1000 }
    }
}

/// The part of a server's state that changes rarely.
pub(crate) struct Service {
    pub(crate) up_time: UpTime,
    /// The limit on its requests, 0 for none.
    pub(crate) maxconn: AtomicU32,
}

impl Service {
    /// At start.
    pub(crate) fn new(server: &Server) -> Service {
        Service { up_time: UpTime::new(), maxconn: AtomicU32::new(server.maxconn) }
    }
}

impl Backend {
    /// When a server was up and when it was not.
    pub fn history(&self, server: ServerId) -> History {
        self.service(server).up_time.history(self.is_up(server))
    }

    /// When the backend had a server and when it had none.
    pub fn own_history(&self) -> History {
        self.up_time.history(self.usable_count() > 0)
    }

    /// Forgets how often a server went down.
    pub fn clear_downs(&self, server: ServerId) {
        self.service(server).up_time.downs.store(0, Ordering::Relaxed);
    }

    /// Forgets how often the backend lost its last server.
    pub fn clear_own_downs(&self) {
        self.up_time.downs.store(0, Ordering::Relaxed);
    }

    /// Changes the limit on a server's requests, 0 for none. When it is the first of the backend, requests are counted
    /// from now on, and those that are there already are not: until they end there may be that many more.
    pub fn set_maxconn(&self, server: ServerId, maxconn: u32) {
        self.start_counting();
        self.service(server).maxconn.store(maxconn, Ordering::SeqCst);
        self.limit_changed(server);
    }
}

/// An operator's hand on a server: what it does is told to the logs of its backend.
pub struct Hand<'a> {
    /// The thread that does it.
    pub worker: &'a Worker,
    /// The backend.
    pub proxy: ProxyId,
    /// The server.
    pub server: ServerId,
}

impl Hand<'_> {
    fn backend(&self) -> &Backend {
        self.worker.backend(self.proxy)
    }

    /// Changes where the server stands; the logs hear what came of it, and servers that track it follow.
    fn change(&self, f: impl FnOnce(&Backend)) {
        let before = Before::look(self.backend(), self.server);
        let was = self.backend().standing(self.server);
        f(self.backend());
        before.tell_standing(self.worker, self.proxy, self.server, &was);
        track::follow(self.worker, self.proxy, self.server);
    }

    /// Takes the server out of service.
    pub fn maintain(&self) {
        self.change(|backend| {
            backend.maintain(self.server);
        });
    }

    /// Lets the server finish what it has, and gives it nothing new.
    pub fn start_drain(&self) {
        self.change(|backend| backend.start_drain(self.server));
    }

    /// Ends the server's maintenance and its drain.
    pub fn make_ready(&self) {
        self.change(|backend| backend.make_ready(self.server));
    }

    /// Changes the server's weight, 0 to 256.
    pub fn set_weight(&self, weight: u32) {
        let before = Before::look(self.backend(), self.server);
        self.backend().set_weight(self.server, weight);
        before.tell_if_none_left(self.worker, self.proxy);
    }

    /// Says how healthy the server is, until its next check; the logs hear where that was said (`CLI`).
    pub fn say_health(&self, said: Said, place: &str) {
        let before = Before::look(self.backend(), self.server);
        let was = self.backend().standing(self.server);
        self.backend().say_health(self.server, said);
        before.tell_change(
            self.worker,
            self.proxy,
            self.server,
            was.operation,
            &format!(", changed from {place}"),
        );
        track::follow(self.worker, self.proxy, self.server);
    }
}

impl Instance {
    /// Whether switching rules may choose a backend.
    #[inline]
    pub fn is_eligible(&self, id: ProxyId) -> bool {
        !self.config.proxy(id).disabled && !self.unpublished[id.0 as usize].load(Ordering::Relaxed)
    }

    /// Whether an operator stopped a frontend for a while.
    pub fn is_paused(&self, id: ProxyId) -> bool {
        self.frontend_paused[id.0 as usize].load(Ordering::Relaxed)
    }

    /// Whether an operator shut a frontend down.
    pub fn is_shut(&self, id: ProxyId) -> bool {
        self.frontend_shut[id.0 as usize].load(Ordering::Relaxed)
    }

    /// Shuts a frontend down, once those who accept for it are woken; false when it was already.
    pub fn shut_down(&self, id: ProxyId) -> bool {
        !self.frontend_shut[id.0 as usize].swap(true, Ordering::SeqCst)
    }

    /// Seconds since the start.
    pub fn uptime_s(&self) -> u64 {
        clock::wall_us().saturating_sub(self.start_wall_us) / 1_000_000
    }
}
