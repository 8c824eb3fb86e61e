//! What must be true whenever the configuration changes: whoever is served is served by one of them from start to end, by none
//! that was followed by nobody any more, and nothing is left of those that were in force.

use crate::plan::{ChangePlan, Plan};
use crate::record::{Attempt, Received, Record, Sent};

/// See the module's documentation.
pub fn check(plan: &Plan, record: &Record) {
    let Some(change) = &plan.change else { return };
    for client in record.clients.borrow().iter() {
        for (request, response) in client.requests.iter().zip(&client.responses) {
            answer(record, request, response);
        }
    }
    for attempt in record.attempts.borrow().iter() {
        connection(change, record, attempt);
    }
    snapshots(record);
}

/// All that says by which configuration a request was served says the same.
fn answer(record: &Record, request: &Sent, response: &Received) {
    let attempts = record.attempts.borrow();
    let lines = record.lines.borrow();
    let of_attempts = attempts.iter().filter(|a| a.id == request.id).flat_map(|a| a.generations);
    let of_lines = lines.iter().filter(|line| line.id == Some(request.id)).map(|line| line.generation);
    let all = of_attempts.chain(of_lines).chain(response.generations).flatten();
    let mut all: Vec<usize> = all.collect();
    all.sort_unstable();
    all.dedup();
    match all[..] {
        // What is refused before there is a request has no number.
        [] => {}
        [one] if one >= request.generation => {}
        [one] => record.complain(format!(
            "request {} was served by configuration {one} when {} was followed",
            request.id, request.generation
        )),
        _ => record.complain(format!("request {} was served by configurations {all:?}", request.id)),
    }
}

/// A connection carries requests only of configurations by which its server has the line that it was made by.
fn connection(change: &ChangePlan, record: &Record, attempt: &Attempt) {
    let Some(generation) = attempt.generations[1] else { return };
    let (made, now) = (attempt.connected_by, generation.max(attempt.connected_by));
    if !change.is_unchanged(attempt.server, made, now) {
        record.complain(format!(
            "request {} of configuration {generation} came to server {} on a connection of {made}, by another line",
            attempt.id, attempt.server
        ));
    }
}

/// Those that were in force are gone, but for the last.
fn snapshots(record: &Record) {
    let snapshots = record.snapshots.borrow();
    let last = snapshots.iter().rposition(|snapshot| snapshot.strong_count() > 0);
    let left = snapshots.iter().take(last.unwrap_or(0)).filter_map(std::sync::Weak::upgrade);
    for snapshot in left {
        record.complain(format!("configuration {} is still there", snapshot.generation));
    }
}
