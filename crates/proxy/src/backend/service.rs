//! Since when servers and backends have been up or down, and the limits on what servers get.

use std::sync::atomic::Ordering;

use thalweg_config::model::{Server, ServerId};
use thalweg_runtime::clock;
use thalweg_shared::{AtomicU32, AtomicU64};

use super::Backend;

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

    /// It begins now.
    pub(crate) fn begin(&self) {
        self.since_ms.store(clock::now_ms(), Ordering::Relaxed);
        self.downs.store(0, Ordering::Relaxed);
        self.down_ms.store(0, Ordering::Relaxed);
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

    /// It has been as it is for this many milliseconds, in a former process; no longer than the machine runs is known.
    pub(crate) fn restore(&self, age_ms: u64) {
        self.begin();
        self.since_ms.store(clock::now_ms().saturating_sub(age_ms), Ordering::Relaxed);
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
    /// Without a limit.
    pub(crate) fn new() -> Service {
        Service { up_time: UpTime::new(), maxconn: AtomicU32::new(0) }
    }

    /// From now on it is that of this server.
    pub(crate) fn begin(&self, server: &Server) {
        self.up_time.begin();
        self.maxconn.store(server.maxconn, Ordering::SeqCst);
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
}
