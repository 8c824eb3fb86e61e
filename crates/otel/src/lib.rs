#![forbid(unsafe_code)]
//! OpenTelemetry without a socket: where a trace comes from and goes on to (W3C Trace Context), what is told of a request
//! (a span) and of what was counted (metrics), and how a collector is told (OTLP over HTTP, in its JSON form).
//!
//! Names of attributes are those of OpenTelemetry's semantic conventions for HTTP where these have one.

pub mod batch;
pub mod context;
mod json;
pub mod resource;
pub mod span;

pub use batch::Batch;
pub use context::{Context, Parent, Share};
pub use resource::Resource;
pub use span::{Span, Value};

/// Where traces go, below what a collector's address has in front of it.
pub const TRACES_PATH: &str = "/v1/traces";

/// Where metrics go.
pub const METRICS_PATH: &str = "/v1/metrics";

/// What requests to a collector carry.
pub const CONTENT_TYPE: &str = "application/json";

/// Whether what was answered so may be sent again later (OTLP specification, "Retryable Response Codes").
pub fn is_retryable(status: u16) -> bool {
    matches!(status, 429 | 502 | 503 | 504)
}
