//! What the log must say: one line for each request, and in it what the client saw.

use crate::plan::{Delimited, Plan, STREAMS_FRONT, Upload};
use crate::record::{ClientRecord, End, LogLine, Received, Record, Sent};

use super::stormed;

/// A client that is slow takes some of its response more often than this, and packets do not need as long.
const PAUSE_MAX_MS: u64 = 400;

/// See the module's documentation.
pub fn check(plan: &Plan, record: &Record) {
    let lines = record.lines.borrow();
    let clients = record.clients.borrow();
    for line in lines.iter() {
        if line.frontend == STREAMS_FRONT {
            continue;
        }
        let tcp = record.tcp.borrow().iter().any(|t| t.address == line.client);
        if plan.calm && !tcp && !clients.iter().any(|c| c.address == line.client) {
            record.complain(format!("a log line of nobody: {}", line.text));
        }
    }
    for (n, client) in clients.iter().enumerate().filter(|(_, c)| !c.address.is_empty()) {
        // The relay behind a door tries again when the first connection breaks, and says the same address both times.
        let may_come_twice = plan.has_door(n) && stormed(record);
        let mut of: Vec<&LogLine> = lines.iter().filter(|l| l.client == client.address).collect();
        if may_come_twice && of.len() > client.responses.len().max(1) {
            of.retain(|line| !is_of_no_request(line));
        }
        of_client(plan, record, n, client, &of);
    }
    for attempt in record.attempts.borrow().iter() {
        if lines.iter().filter(|l| l.id == Some(attempt.id)).count() != 1 {
            record
                .complain(format!("request {} came to a server and has no log line, or several", attempt.id));
        }
    }
}

/// Whether a connection broke before anything was asked on it.
fn is_of_no_request(line: &LogLine) -> bool {
    line.bytes[0] == 0 && line.state.starts_with("CR")
}

fn of_client(plan: &Plan, record: &Record, n: usize, client: &ClientRecord, lines: &[&LogLine]) {
    if lines.len() > client.requests.len().max(1) {
        record.complain(format!(
            "client {n} sent {} requests and has {} lines",
            client.requests.len(),
            lines.len()
        ));
    }
    if lines.len() < client.responses.len() {
        record.complain(format!(
            "client {n} got {} answers and has {} lines",
            client.responses.len(),
            lines.len()
        ));
    }
    for (i, line) in lines.iter().enumerate() {
        let (request, response) = (client.requests.get(i), client.responses.get(i));
        if let (Some(request), Some(id)) = (request, line.id)
            && request.id != id
        {
            record.complain(format!(
                "request {} of client {n} has the line of another: {}",
                request.id, line.text
            ));
        }
        if let Some(what) = one(plan, record, n, client, request, response, line) {
            record.complain(format!("client {n}: {what}: {}", line.text));
        }
    }
}

/// What is wrong with a line.
fn one(
    plan: &Plan,
    record: &Record,
    n: usize,
    client: &ClientRecord,
    request: Option<&Sent>,
    response: Option<&Received>,
    line: &LogLine,
) -> Option<String> {
    let normal = line.state.starts_with("--");
    let storm = stormed(record);
    match response {
        None if normal && client.left_ms.is_none() && !storm && client.end != Some(End::Own) => {
            return Some("the line says that all went well, and no answer came".to_owned());
        }
        // A response that its server's end cut is logged as a 500, whatever it began with (docs/endings.md); so is one that had
        // come before the request was over. Nobody sees that one was cut whose end is that of its connection.
        Some(response)
            if line.status == 500
                && line.state.starts_with(['D', 'U', 'K'])
                && (!response.complete
                    || ends_with_connection(plan, response)
                    || request.is_some_and(|r| plan.requests[r.id].upload != Upload::None)) => {}
        Some(response) if i32::from(response.status) != line.status => {
            return Some(format!("the client got a {}", response.status));
        }
        // A line is written when the last send begins; what the client does not take of that in time, it does not get. The
        // reference does the same. What lies between a door and its frontend is taken later than it is shown.
        Some(response)
            if normal
                && !response.complete
                && client.end == Some(End::Fin)
                && !plan.has_door(n)
                && plan.proxy.client_timeout_ms >= PAUSE_MAX_MS
                && !storm =>
        {
            return Some("the line says that all went well, and the answer was cut".to_owned());
        }
        Some(response) if normal && response.complete && !bytes_fit(plan, response, line) => {
            return Some(format!("the client got {} bytes", response.wire));
        }
        _ => {}
    }
    if plan.calm
        && !normal
        && request.is_some_and(|r| plan.is_forwarded(r.id))
        && client.end != Some(End::Own)
    {
        return Some("nothing went wrong".to_owned());
    }
    // Once its request is there, nothing is due from a client before it has its response.
    let owes_nothing = request.is_some_and(|r| plan.requests[r.id].upload == Upload::None);
    if line.state.starts_with("cH") && owes_nothing {
        return Some("nobody waited for the client".to_owned());
    }
    cause(plan, record, client, line)
}

/// Whether a response has no other end than its connection's. A client of HTTP/1.0 gets no chunks.
fn ends_with_connection(plan: &Plan, response: &Received) -> bool {
    let has_no_size = response.from_server.is_some_and(|(id, attempt)| {
        let request = &plan.requests[id];
        match request.answer(attempt).delimited {
            Delimited::Close => true,
            Delimited::Chunked => !request.is_11,
            Delimited::Sized => false,
        }
    });
    response.status == 101 || has_no_size
}

/// Whether the bytes to the client are those that it got. Chunks may be written in another form than they came in, and
/// the count is of the form in which they came.
fn bytes_fit(plan: &Plan, response: &Received, line: &LogLine) -> bool {
    match response.from_server {
        Some((id, attempt)) if plan.requests[id].answer(attempt).delimited != Delimited::Sized => true,
        Some(_) if response.status == 101 => true,
        _ => response.wire == line.bytes[3],
    }
}

/// Whether anything explains the cause that a line gives.
fn cause(plan: &Plan, record: &Record, client: &ClientRecord, line: &LogLine) -> Option<String> {
    let storm = stormed(record);
    let gone = client.left_ms.is_some() || matches!(client.end, Some(End::Own)) || storm;
    let ok = match line.state.as_bytes().first() {
        Some(b'C') => gone,
        Some(b'R') => storm || plan.proxy.is_short_of_buffers,
        Some(b'I') => false,
        Some(b'S' | b's' | b'c' | b'P' | b'D') => {
            !plan.calm || line.status == 403 || line.state.starts_with("PT")
        }
        _ => true,
    };
    (!ok).then(|| "nothing explains the cause".to_owned())
}
