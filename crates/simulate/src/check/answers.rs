//! What clients must have seen: every request gets one answer, whole and its own, unless something went wrong that
//! explains why not.

use crate::plan::{Delimited, Plan};
use crate::record::{ClientRecord, End, Received, Record, Sent};

use super::stormed;

/// See the module's documentation.
pub fn check(plan: &Plan, record: &Record) {
    for (n, client) in record.clients.borrow().iter().enumerate() {
        if client.address.is_empty() {
            if plan.calm {
                record.complain(format!("client {n} was not connected"));
            }
            continue;
        }
        for (request, response) in client.requests.iter().zip(&client.responses) {
            answer(plan, record, n, request, response);
        }
        if client.responses.len() > client.requests.len().max(1) {
            record.complain(format!("client {n} has more answers than requests"));
        }
        unanswered(plan, record, n, client);
    }
}

/// One answer.
fn answer(plan: &Plan, record: &Record, n: usize, request: &Sent, response: &Received) {
    let id = request.id;
    let Some((_, attempt)) = response.from_server else {
        return own_answer(plan, record, n, request, response);
    };
    if !plan.is_forwarded(id) {
        record.complain(format!("request {id} should not have got to a server"));
    }
    let planned = plan.requests[id].answer(attempt);
    let (said, status) = (plan.requests[id].status(planned), response.status);
    if status != said {
        record.complain(format!("request {id}: the server said {said}, client {n} got {status}"));
    }
    let expected = plan.requests[id].len(planned) as u64;
    // A client of HTTP/1.0 cannot tell a response that was cut from one that ended.
    let can_be_cut = status == 101 || !plan.requests[id].is_11 || planned.delimited == Delimited::Close;
    if response.complete && response.body != expected && !(can_be_cut && response.body < expected) {
        record.complain(format!(
            "request {id}: client {n} has a complete body of {} bytes instead of {expected}",
            response.body
        ));
    }
    // A request that was sent behind one whose answer closes may turn that close into a reset.
    if plan.calm && !response.complete && !(can_be_cut && response.body == expected) {
        record.complain(format!("request {id}: client {n} got {} of {expected} bytes", response.body));
    }
}

/// An answer of the proxy's.
fn own_answer(plan: &Plan, record: &Record, n: usize, request: &Sent, response: &Received) {
    let (id, status) = (request.id, response.status);
    let of_rules = plan.requests[id].kind.own_status();
    let usual = matches!(status, 400 | 408 | 413 | 500 | 502 | 503 | 504);
    if of_rules != Some(status) && !usual {
        record.complain(format!("request {id}: client {n} got a {status} that nobody sent"));
    }
    if plan.calm && of_rules != Some(status) {
        record.complain(format!("request {id}: client {n} got a {status} although nothing went wrong"));
    }
}

/// Requests that were sent and not answered.
fn unanswered(plan: &Plan, record: &Record, n: usize, client: &ClientRecord) {
    let Some(request) = client.requests.get(client.responses.len()) else { return };
    let explained = client.left_ms.is_some()
        || client.responses.last().is_some_and(|r| r.closes || !r.complete)
        || client.end.is_some_and(|end| end != End::Fin || plan.has_door(n)) && stormed(record)
        || plan.proxy.is_short_of_buffers
        || record.without_tls.borrow().contains(&client.address);
    if explained {
        return;
    }
    let id = request.id;
    let lines = record.lines.borrow();
    let line = lines.iter().find(|l| l.id == Some(id));
    let seen = record.attempts.borrow().iter().any(|a| a.id == id);
    let later = client.requests.first().is_some_and(|first| first.id != id);
    let fine = match line {
        // An idle connection may be closed while a request is on its way: the client may send it again.
        None => !seen && (later && !plan.calm || stormed(record) || plan.soft_stop_ms.is_some()),
        // A server connection that was kept may end under a request that must not be repeated, with the same meaning.
        Some(line) => line.state.starts_with("SH") && later && !plan.requests[id].is_repeatable(),
    };
    if !fine {
        let line = line.map_or("none", |l| &l.text);
        record.complain(format!(
            "request {id} of client {n} was not answered (end: {:?}, line: {line})",
            client.end
        ));
    }
}
