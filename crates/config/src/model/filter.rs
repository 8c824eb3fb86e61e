//! Filters: what looks at, holds back or changes the payload of streams (manual chapter 9).

use std::sync::Arc;

use thalweg_sample::{Expr, TableId};

/// A filter of a proxy.
#[derive(Clone, Debug)]
pub enum Filter {
    /// `filter bwlim-in` or `filter bwlim-out`.
    Bandwidth(BandwidthFilter),
    /// `filter trace`.
    Trace(TraceFilter),
}

impl Filter {
    /// The bandwidth limitation of that name.
    pub fn bandwidth_of(&self, name: &str) -> Option<&BandwidthFilter> {
        match self {
            Filter::Bandwidth(filter) if &*filter.name == name => Some(filter),
            _ => None,
        }
    }
}

/// Limits how fast payload goes from one side to the other. Nothing is limited before a rule asks for it
/// (`set-bandwidth-limit`).
#[derive(Clone, Debug)]
pub struct BandwidthFilter {
    /// Its number among those of the configuration.
    pub id: u32,
    pub name: Arc<str>,
    /// From the client to the server (`bwlim-in`), else from the server to the client.
    pub incoming: bool,
    /// Bytes per period, unless a rule says otherwise.
    pub limit: u32,
    /// Milliseconds, unless a rule says otherwise.
    pub period_ms: u32,
    /// The key that streams share the limit by, and the table that counts for them; then the period is that of the
    /// table's rate, and the limit cannot be changed.
    pub shared: Option<(Arc<Expr>, TableId)>,
    /// Bytes that are forwarded at a time, at least, but for the last of them; 0 leaves it to the filter.
    pub min_size: u32,
}

/// Tells on the standard error stream what happens to a stream.
#[derive(Clone, Debug)]
pub struct TraceFilter {
    /// What its lines begin with.
    pub name: Arc<str>,
    /// It writes nothing.
    pub quiet: bool,
    /// It passes on random amounts of what there is.
    pub random_forwarding: bool,
    /// Most bytes that it passes on at a time, 0 for no limit.
    pub max_forward: u32,
    /// Its lines are followed by the bytes that it passes on.
    pub hexdump: bool,
}
