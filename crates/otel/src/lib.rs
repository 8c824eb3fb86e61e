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

/// How many of the spans of a message a collector took it without (`ExportTracePartialSuccess`), as the body of its answer says.
pub fn rejected_spans(answer: &[u8]) -> u64 {
    const NAME: &[u8] = b"\"rejectedSpans\"";
    let Some(at) = answer.windows(NAME.len()).position(|part| part == NAME) else { return 0 };
    // A number of 64 bits is written as text, and may be written as a number.
    let digits = answer[at + NAME.len()..].trim_ascii_start().strip_prefix(b":").unwrap_or_default();
    let digits = digits.trim_ascii_start();
    let digits = digits.strip_prefix(b"\"").unwrap_or(digits);
    let end = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
    std::str::from_utf8(&digits[..end]).ok().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// Whether what was answered so may be sent again later (OTLP specification, "Retryable Response Codes").
pub fn is_retryable(status: u16) -> bool {
    matches!(status, 429 | 502 | 503 | 504)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_say_what_was_rejected() {
        for (answer, expected) in [
            ("", 0),
            ("{}", 0),
            ("{\"partialSuccess\":{}}", 0),
            ("{\"partialSuccess\":{\"rejectedSpans\":\"7\",\"errorMessage\":\"no\"}}", 7),
            ("{\"partialSuccess\": {\"rejectedSpans\" : 12 }}", 12),
            ("{\"rejectedSpans\":\"-1\"}", 0),
            ("{\"rejectedSpans\":99999999999999999999}", 0),
            ("{\"rejectedSpans\"", 0),
        ] {
            assert_eq!(rejected_spans(answer.as_bytes()), expected, "{answer}");
        }
    }
}
