//! What all threads see of `resolvers` sections.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use thalweg_config::model::Config;
use thalweg_dns::Tally;
use thalweg_shared::{AtomicU64, Mutex};

/// What all threads see of a section: what its thread counted.
pub struct SectionCounts {
    tallies: Mutex<Box<[Tally]>>,
    failures: AtomicU64,
}

impl SectionCounts {
    /// Of each section, nothing yet.
    pub(crate) fn of(config: &Config) -> Box<[SectionCounts]> {
        let new = |name_servers: usize| SectionCounts {
            tallies: Mutex::new(vec![Tally::default(); name_servers].into_boxed_slice()),
            failures: AtomicU64::new(0),
        };
        config.resolvers.iter().map(|section| new(section.name_servers.len())).collect()
    }

    /// What was counted about each name server.
    pub fn tallies(&self) -> Box<[Tally]> {
        self.tallies.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Lookups that failed.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    pub(super) fn set(&self, tallies: &[Tally], failures: u64) {
        self.tallies.lock().unwrap_or_else(PoisonError::into_inner).copy_from_slice(tallies);
        self.failures.store(failures, Ordering::Relaxed);
    }
}
