//! What must be true of requests on connections that carry many of them.

use crate::plan::{Break, Plan, STREAMS_FRONT, StreamPlan, StreamsPlan};
use crate::record::{LogLine, Record, StreamEnd, StreamRecord};

use super::stormed;

/// See the module's documentation.
pub fn check(plan: &Plan, record: &Record) {
    let Some(streams) = &plan.streams else { return };
    let lines = record.lines.borrow();
    for line in lines.iter().filter(|line| line.frontend == STREAMS_FRONT) {
        if line.id.is_some_and(|id| streams.stream(id).is_none()) {
            record.complain(format!("a log line of nobody: {}", line.text));
        }
    }
    // Where there was no buffer for a head, its line does not know who asked.
    let may_be = plan.proxy.is_short_of_buffers;
    let mut nameless: Vec<&LogLine> = lines.iter().filter(|line| may_be && has_no_head(line)).collect();
    for session in &streams.sessions {
        // What one stream's server does to a connection, others on it feel.
        let spoilt =
            streams.servers_framed && streams.sessions.iter().flat_map(|s| &s.streams).any(breaks_all);
        for id in session.first..session.first + session.streams.len() {
            let seen = record.stream(id, |s| s.clone());
            let mut of: Vec<&LogLine> = lines.iter().filter(|line| line.id == Some(id)).collect();
            if of.is_empty() && (seen.status, seen.attempts) == (500, 0) && !seen.of_server {
                of.extend(nameless.pop());
            }
            if let Some(what) = one(plan, streams, record, id, &seen, &of, spoilt) {
                let line = of.first().map_or("no line", |line| &line.text);
                record.complain(format!("request {id}: {what}: {line} {seen:?}"));
            }
        }
    }
}

/// Whether a line is one of a request for whose head there was no buffer.
fn has_no_head(line: &LogLine) -> bool {
    line.frontend == STREAMS_FRONT && line.id.is_none() && line.status == 500 && line.state.starts_with("RR")
}

/// Whether the server of a stream ends its whole connection.
fn breaks_all(plan: &StreamPlan) -> bool {
    matches!(plan.fault, Some((_, Break::Close | Break::Reset | Break::Goaway)))
}

fn one(
    plan: &Plan,
    streams: &StreamsPlan,
    record: &Record,
    id: usize,
    seen: &StreamRecord,
    lines: &[&LogLine],
    spoilt: bool,
) -> Option<&'static str> {
    let stream = streams.stream(id)?;
    if !seen.asked {
        return (!lines.is_empty()).then_some("nobody asked, and there is a line");
    }
    let storm = stormed(record);
    let whole = seen.end == Some(StreamEnd::Whole);
    if plan.calm && !(whole && seen.status == 200 && seen.attempts == 1) {
        return Some("nothing went wrong");
    }
    if whole && seen.of_server && seen.received != stream.down as u64 {
        return Some("a complete answer has another length");
    }
    if seen.received > seen.server_sent && seen.of_server {
        return Some("more came than was sent");
    }
    // What is said to a connection that waited too long has no line of its own; a request may cross it.
    let answered = seen.answers > 0 && (seen.status != 408 || streams.clients_framed);
    if lines.len() > 1 || (lines.is_empty() && (seen.attempts > 0 || answered)) {
        return Some("there are none or several lines");
    }
    let left = seen.left || seen.end == Some(StreamEnd::Gone);
    if let Some(line) = lines.first() {
        if seen.status != 0 && line.status != i32::from(seen.status) && !left && whole {
            return Some("the line has another status");
        }
        let normal = line.state.starts_with("--");
        if normal && !whole && !left && !storm {
            return Some("the line says that all went well, and the answer was cut");
        }
        if normal && whole && seen.answers == 0 {
            return Some("the line says that all went well, and no answer came");
        }
    }
    let fine = !spoilt && !storm;
    // What a server did not process, or a kept connection that ended, may be tried again.
    if seen.attempts > 1
        && fine
        && stream.fault.is_none()
        && stream.up > 0
        && streams.sessions.iter().all(|s| s.leave.is_none())
    {
        return Some("a POST was repeated");
    }
    let reset = matches!(stream.fault, Some((_, Break::ResetStream)));
    if seen.attempts > 1 && fine && reset && streams.servers_framed {
        return Some("what its server gave up was repeated");
    }
    None
}
