//! What an operator changed at run time about servers, frontends and backends.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use thalweg_config::model::{ProxyId, Server, ServerId};
use thalweg_runtime::clock;

use crate::backend::Backend;
use crate::instance::Instance;

/// What an operator sees of a server besides its counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdminState {
    /// It was taken out of service.
    pub maintenance: bool,
    /// It finishes what it has.
    pub drain: bool,
    /// Millisecond of the last change between up and down.
    pub since_ms: u64,
    /// Changes from up to down.
    pub downs: u64,
    /// Seconds it was down.
    pub down_s: u64,
}

impl AdminState {
    /// Seconds since the last change between up and down.
    pub fn since_s(&self) -> u64 {
        clock::now_ms().saturating_sub(self.since_ms) / 1000
    }
}

/// The part of a server's state that changes rarely.
pub(crate) struct Service {
    /// An operator, or `disabled`, keeps it out of service.
    maintenance: AtomicBool,
    /// What its health is apart from that.
    healthy: AtomicBool,
    since_ms: AtomicU64,
    downs: AtomicU64,
    down_ms: AtomicU64,
    /// The limit on its requests, 0 for none.
    pub(crate) maxconn: AtomicU32,
}

impl Service {
    /// At start: `healthy` is whether it can be used but for `disabled`.
    pub(crate) fn new(server: &Server, healthy: bool) -> Service {
        Service {
            maintenance: AtomicBool::new(server.disabled),
            healthy: AtomicBool::new(healthy),
            since_ms: AtomicU64::new(clock::now_ms()),
            downs: AtomicU64::new(0),
            down_ms: AtomicU64::new(0),
            maxconn: AtomicU32::new(server.maxconn),
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

    fn wants_up(&self) -> bool {
        self.healthy.load(Ordering::SeqCst) && !self.maintenance.load(Ordering::SeqCst)
    }
}

impl Backend {
    /// What an operator sees of a server.
    pub fn admin_state(&self, server: ServerId) -> AdminState {
        let service = self.service(server);
        let since_ms = service.since_ms.load(Ordering::Relaxed);
        let mut down_ms = service.down_ms.load(Ordering::Relaxed);
        if !self.is_up(server) {
            down_ms += clock::now_ms().saturating_sub(since_ms);
        }
        AdminState {
            maintenance: service.maintenance.load(Ordering::Relaxed),
            drain: self.is_draining(server),
            since_ms,
            downs: service.downs.load(Ordering::Relaxed),
            down_s: down_ms / 1000,
        }
    }

    /// Takes a server out of service, or lets its health decide again.
    pub fn set_maintenance(&self, server: ServerId, on: bool) {
        let service = self.service(server);
        service.maintenance.store(on, Ordering::SeqCst);
        self.set_up(server, service.wants_up());
    }

    /// Says whether a server is healthy; it is up when it is and nobody took it out of service.
    pub fn set_health(&self, server: ServerId, healthy: bool) {
        let service = self.service(server);
        service.healthy.store(healthy, Ordering::SeqCst);
        self.set_up(server, service.wants_up());
    }

    /// Changes the limit on a server's requests. False when requests are not counted because nothing asked for it at
    /// the start (no server of the backend has a limit).
    pub fn set_maxconn(&self, server: ServerId, maxconn: u32) -> bool {
        if self.tracks_load {
            self.service(server).maxconn.store(maxconn, Ordering::SeqCst);
            self.limit_changed(server);
        }
        self.tracks_load
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
