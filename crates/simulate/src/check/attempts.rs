//! What servers must have seen: each request once, or again where that is allowed.

use crate::plan::{Fault, Kind, Plan};
use crate::record::{Attempt, Record};

use super::stormed;

/// See the module's documentation.
pub fn check(plan: &Plan, record: &Record) {
    let attempts = record.attempts.borrow();
    for id in 0..plan.requests.len() {
        let of: Vec<&Attempt> = attempts.iter().filter(|a| a.id == id).collect();
        if !of.is_empty() && !plan.is_forwarded(id) {
            record.complain(format!("request {id} came to a server although a rule answers it"));
        }
        let backend = &plan.proxy.backends[plan.requests[id].backend];
        // A request may be hedged once, however often it is repeated.
        let is_hedged = backend.hedges && plan.requests[id].may_be_hedged();
        let most = if is_hedged { 2 } else { 1 };
        if plan.calm && of.len() > most && !backend.retry.statuses {
            record.complain(format!("request {id} came to servers {} times", of.len()));
        }
        let request = &plan.requests[id];
        if let ([attempt], true) = (&of[..], plan.calm && request.kind == Kind::Upgrade)
            && attempt.body != request.padding as u64
        {
            record.complain(format!("{} bytes came through the tunnel of request {id}", attempt.body));
        }
        if is_hedged {
            let attempts = backend.retries as usize + most;
            // What an idle connection that had ended was given does not count as an attempt.
            let on_idle = of.iter().filter(|attempt| attempt.turn > 0).count();
            if of.len() > attempts + on_idle {
                record.complain(format!("request {id} came to servers {} times", of.len()));
            }
            continue;
        }
        for pair in of.windows(2) {
            if let Err(why) = may_repeat(plan, record, pair[0], attempt_number(&of, pair[0])) {
                record.complain(format!("request {id} was repeated: {why}"));
            }
        }
    }
}

fn attempt_number(of: &[&Attempt], one: &Attempt) -> usize {
    of.iter().position(|a| std::ptr::eq(*a, one)).unwrap_or(0)
}

/// Whether the request of an attempt may have been sent again.
fn may_repeat(plan: &Plan, record: &Record, attempt: &Attempt, number: usize) -> Result<(), String> {
    let request = &plan.requests[attempt.id];
    let retry = &plan.proxy.backends[request.backend].retry;
    let answer = request.answer(number);
    let reused = attempt.turn > 0;
    // What the network loses is as if it had not been sent.
    let storm = stormed(record);
    let came = attempt.sent > 0 && !storm && !attempt.cut_off;
    if !came && reused && request.is_idempotent() {
        return Ok(());
    }
    if !came && retry.empty_response && (attempt.misbehaved || attempt.cut_off || storm) {
        return Ok(());
    }
    if retry.response_timeout {
        return Ok(());
    }
    if retry.statuses && matches!(answer.status, 404 | 500 | 503) {
        return Ok(());
    }
    let cut_head = attempt.misbehaved && !attempt.sent_all;
    if retry.junk_response && (answer.fault == Some(Fault::Junk) || cut_head || storm) {
        return Ok(());
    }
    Err(format!("attempt {number} at {} ms: {attempt:?}", attempt.at_ms))
}
