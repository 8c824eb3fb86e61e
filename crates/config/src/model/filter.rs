//! Filters: what looks at, holds back or changes the payload of streams (manual chapter 9).

use std::sync::Arc;

use thalweg_sample::{Expr, TableId};

/// The filters of a proxy that has some.
#[derive(Clone, Debug, Default)]
pub struct Filters {
    /// In the order of their lines.
    pub(crate) declared: Vec<Filter>,
    /// Which of them look at requests, in their order, where `filter-sequence request` says it: positions in `declared`.
    pub request: Option<Vec<usize>>,
    /// The same of responses.
    pub response: Option<Vec<usize>>,
}

impl Filters {
    /// Those that look at requests, or at responses, in their order.
    pub fn of(&self, requests: bool) -> impl Iterator<Item = &Filter> {
        let sequence = if requests { &self.request } else { &self.response };
        let all = sequence.is_none().then_some(0..self.declared.len());
        let some = sequence.iter().flatten().copied();
        all.into_iter().flatten().chain(some).filter_map(|at| self.declared.get(at))
    }

    /// The bandwidth limitation of that name.
    pub fn bandwidth_of(&self, name: &str) -> Option<&BandwidthFilter> {
        self.declared.iter().find_map(|filter| filter.bandwidth_of(name))
    }
}

/// A filter of a proxy.
#[derive(Clone, Debug)]
pub enum Filter {
    /// `filter bwlim-in` or `filter bwlim-out`.
    Bandwidth(BandwidthFilter),
    /// `filter trace`.
    Trace(TraceFilter),
}

impl Filter {
    /// The word behind `filter` on its line, which `filter-sequence` calls it by.
    pub fn keyword(&self) -> &'static str {
        match self {
            Filter::Bandwidth(filter) if filter.incoming => "bwlim-in",
            Filter::Bandwidth(_) => "bwlim-out",
            Filter::Trace(_) => "trace",
        }
    }

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
