//! What clients and operators are told of limits (`http-request limit`): fields of the response
//! (draft-ietf-httpapi-ratelimit-headers, and RFC 9110 section 10.2.3), and lines about what a dry run would have refused.

use std::cell::Cell;
use std::fmt::Write as _;
use std::sync::Arc;

use thalweg_config::model::LogLevel;
use thalweg_http::{HeaderId, RewriteError};
use thalweg_runtime::clock;
use thalweg_sample::TableId;
use thalweg_sample::facts::RateLimit;

use super::Stream;
use crate::backend::health::say;

/// A line about dry runs at most so often, from each thread.
const TELL_EVERY_MS: u64 = 1000;

/// What limits that are only tried out would have refused, on one thread.
#[derive(Default)]
pub struct DryRuns {
    requests: Cell<u64>,
    next_line_ms: Cell<u64>,
}

/// Adds the fields of a rate limit to the response. Those of a server that limits, too, are replaced: the client comes here first.
pub fn describe(stream: &mut Stream<'_>, limit: RateLimit) -> Result<(), RewriteError> {
    let RateLimit { bucket, taken } = limit;
    let response = &mut stream.state.response;
    let seconds = |us: u64| us.div_ceil(1_000_000).max(1);
    response.set_numbers([
        (HeaderId::RateLimitLimit, bucket.tokens.into()),
        (HeaderId::RateLimitRemaining, taken.left.into()),
        (HeaderId::RateLimitReset, seconds(taken.full_in_us)),
    ])?;
    match taken.is_allowed {
        true => Ok(()),
        false => response.set_numbers([(HeaderId::RetryAfter, seconds(taken.next_in_us))]),
    }
}

/// Says that a limit would have refused a request, if it is in force one day.
#[cold]
pub fn tell(stream: &mut Stream<'_>, table: TableId) {
    let worker = stream.worker;
    let DryRuns { requests, next_line_ms } = &worker.dry_runs;
    requests.set(requests.get() + 1);
    let now_ms = clock::now_ms();
    if now_ms < next_line_ms.get() {
        return;
    }
    next_line_ms.set(now_ms + TELL_EVERY_MS);
    let mut line = String::from("Dry run: ");
    let source = stream.state.facts.src.unwrap_or_else(|| stream.session.facts().source());
    let name = worker.tables.get(table.0 as usize).map(|table| Arc::clone(&table.spec().name));
    let _ = write!(line, "'{}' would have refused a request", name.as_deref().unwrap_or("limit"));
    if let Some(ip) = source.ip() {
        let _ = write!(line, " of {ip}");
    }
    let _ = write!(line, " ({} since the start on this thread).", requests.get());
    worker.log(stream.session.frontend, LogLevel::Notice, b"", line.as_bytes());
    say(worker, "NOTICE", &line);
}
