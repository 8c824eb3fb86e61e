//! The time, as it is given to this crate.

use std::sync::Arc;

use thalweg_shared::{AtomicU64, Ordering};

use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;

/// Says what time it is.
pub trait Clock: std::fmt::Debug + Send + Sync {
    /// Seconds since 1970-01-01 00:00 UTC.
    fn now(&self) -> u64;
}

/// A clock that stands until it is set: for tests and simulations, and for a proxy that sets it once per round.
#[derive(Debug, Default)]
pub struct FixedClock(AtomicU64);

impl FixedClock {
    pub fn at(now: u64) -> FixedClock {
        FixedClock(AtomicU64::new(now))
    }

    pub fn set(&self, now: u64) {
        self.0.store(now, Ordering::Relaxed);
    }
}

impl Clock for FixedClock {
    fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> u64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(0, |since| since.as_secs())
    }
}

/// A clock as rustls asks for it.
#[derive(Debug)]
pub(crate) struct Time(pub Arc<dyn Clock>);

impl TimeProvider for Time {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(std::time::Duration::from_secs(self.0.now())))
    }
}
