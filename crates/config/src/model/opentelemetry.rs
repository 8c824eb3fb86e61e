//! Traces and metrics for collectors of OpenTelemetry.

use std::sync::Arc;

use super::{Server, Shared};

/// The `opentelemetry` section.
#[derive(Clone, Debug)]
pub struct OpenTelemetry {
    /// Collectors: one of them gets each message, the next one when that fails.
    pub servers: Vec<Shared<Server>>,
    /// What this process calls itself.
    pub service_name: Arc<str>,
    /// What else collectors are told of it: names and values.
    pub attributes: Vec<(Arc<str>, Arc<str>)>,
    /// Fields of each request to a collector.
    pub headers: Vec<(Arc<str>, Arc<str>)>,
    /// What comes in front of the paths that the protocol has; empty, or begins with a slash and ends without one.
    pub path: Arc<str>,
    /// How requests come to their traces.
    pub beginning: thalweg_rules::TraceBeginning,
    /// How often metrics are sent, in milliseconds; not at all without.
    pub metrics_ms: Option<u64>,
    /// How long spans wait for others at most, in milliseconds.
    pub interval_ms: u64,
    /// How long a collector may take for a message, in milliseconds.
    pub timeout_ms: u64,
    /// Bytes of spans that wait in the whole process; what comes on top of that is dropped.
    pub queue_size: usize,
    /// Where the section is: its file and line.
    pub place: (Arc<str>, u32),
}
