//! Whether descriptors are short, so that fewer idle connections are kept (manual: `tune.pool-low-fd-ratio`,
//! `tune.pool-high-fd-ratio`).

use std::cell::Cell;

use thalweg_runtime::{clock, profile};

use crate::worker::Worker;

/// How short they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shortage {
    #[default]
    None,
    /// No more idle connections are kept than one of each server.
    Low,
    /// None is kept, and for each that is made one that is idle is closed.
    High,
}

/// What a thread found out last.
#[derive(Default)]
pub(crate) struct Descriptors {
    looked_ms: Cell<u64>,
    shortage: Cell<Shortage>,
}

impl Worker {
    /// Whether descriptors are short. All threads are looked at once in a millisecond, and each time while they are.
    #[inline]
    pub fn shortage(&self) -> Shortage {
        let (known, now_ms) = (&self.descriptors, clock::now_ms());
        if known.looked_ms.get() != now_ms || known.shortage.get() != Shortage::None {
            known.looked_ms.set(now_ms);
            known.shortage.set(self.look_for_shortage());
        }
        known.shortage.get()
    }

    #[cold]
    fn look_for_shortage(&self) -> Shortage {
        let global = &self.instance.config.global;
        let (low, high) = (global.tune.pool_low_fd_percent, global.tune.pool_high_fd_percent);
        let used = profile::open_sockets() as u64;
        let is_above = |percent: u32| used * 100 > global.ulimit_n * u64::from(percent);
        match (is_above(high), is_above(low)) {
            (true, _) => Shortage::High,
            (false, true) => Shortage::Low,
            (false, false) => Shortage::None,
        }
    }
}
