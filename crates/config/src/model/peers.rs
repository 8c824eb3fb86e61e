//! `peers` sections.

use std::sync::Arc;

use super::{Bind, LogTarget, Server, Shared};

/// Processes that share stick tables.
#[derive(Clone, Debug)]
pub struct PeersSection {
    pub name: Arc<str>,
    /// Where this process waits for the others.
    pub bind: Bind,
    /// All of them, this process among them.
    pub peers: Vec<Peer>,
    /// Which of them this process is.
    pub local: usize,
    /// Shares that the keys are divided into; 0: none.
    pub shards: u32,
    pub log_targets: Arc<[LogTarget]>,
    /// Its tables, by their number.
    pub tables: Vec<usize>,
}

/// One process.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its name, and how it is reached. This process has no address where a `bind` line says where it listens.
    pub server: Shared<Server>,
    /// The share of the keys that it gets; 0: all.
    pub shard: u32,
}
