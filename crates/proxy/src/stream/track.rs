//! What happens to a session or a stream, counted on the entries of stick tables that it tracks.
//!
//! Tracking begins in rules (`rules::action::track`), and ends with the stream or the session. Who tracks nothing pays a
//! test of a length at each of these places.

use std::net::SocketAddr;

use thalweg_rules::{Ruleset, TrackSource};
use thalweg_runtime::clock;
use thalweg_sample::facts::Endpoint;
use thalweg_sample::track::count;
use thalweg_stick::{Event, Local, Tracked};

use super::ending::Cause;
use super::{Stream, StreamState};
use crate::frontend::ClientSession;
use crate::worker::Worker;

/// A session passed the rules of connections and sessions: those that it tracks have one more.
pub fn session_began(session: &ClientSession) {
    count_on(session.facts().tracking(), Event::Session, 1);
}

/// A request begins. What its own rules will track counts it when they do.
pub fn request_began(session: &ClientSession) {
    count_on(session.facts().tracking(), Event::Request, 1);
}

/// What a TCP stream tracks that goes on with a request.
pub fn stream_became_request(state: &StreamState) {
    count_on(state.facts.tracking.slots(), Event::Request, 1);
}

/// A client broke the rules of its protocol, so often.
pub fn glitches(session: &ClientSession, n: u32) {
    count_on(session.facts().tracking(), Event::Glitches, u64::from(n));
}

/// The bytes of a stream that is over: those of its client, and those that came from a server. What it tracks is let go with it
/// where nobody looks at it any more, as a log line may.
#[inline]
pub fn stream_over(worker: &Worker, session: &ClientSession, state: &mut StreamState, now_ms: u64) {
    if !session.facts().tracking().is_empty() || !state.facts.tracking.slots().is_empty() {
        count_bytes(worker, session, state, now_ms);
    }
}

#[inline(never)]
fn count_bytes(worker: &Worker, session: &ClientSession, state: &mut StreamState, now_ms: u64) {
    let facts = &mut state.facts;
    let bytes = [(Event::BytesIn, facts.req_bytes_in), (Event::BytesOut, facts.res_bytes_in)];
    if !session.facts().tracking().is_empty() {
        count_each(session.facts().tracking(), bytes, now_ms);
    }
    match worker.logs(session.frontend) || worker.live.tracing.wants_ends() {
        true => count_each(facts.tracking.slots(), bytes, now_ms),
        false => facts.tracking.end(bytes, now_ms),
    }
}

#[inline(never)]
fn count_each(tracking: &[Option<Tracked>], bytes: [(Event, u64); 2], now_ms: u64) {
    count(tracking, bytes, now_ms);
}

#[inline]
fn count_on(tracking: &[Option<Tracked>], event: Event, n: u64) {
    if !tracking.is_empty() && n > 0 {
        count(tracking, [(event, n)], clock::now_ms());
    }
}

/// Whose fault a cause is, as far as `http_err_cnt` and `http_fail_cnt` say (manual section 11.1). A client that is slow or says
/// nothing made no error: browsers open connections that they may not need.
const fn fault(cause: Cause) -> Option<Event> {
    match cause {
        Cause::ClientSaidNothing
        | Cause::ClientLeftInHead
        | Cause::BadRequest
        | Cause::BadRequestInRules
        | Cause::BadRequestBody
        | Cause::BadHeaderName
        | Cause::DeniedByRule
        | Cause::TarpitBegan => Some(Event::ClientFault),
        Cause::NoResponse
        | Cause::ResponseHeadCut
        | Cause::BadResponse
        | Cause::ResponseTimeout
        | Cause::ServerStuck
        | Cause::BadFirstChunk
        | Cause::ServerLeftInBody
        | Cause::BadResponseBody
        | Cause::ServerSilentInBody => Some(Event::ServerFault),
        _ => None,
    }
}

/// Tracks an address that this thread did not track just before. Nothing is tracked where the table has no room.
#[inline(never)]
fn track_anew(table: &Local, ip: [u8; 4], event: Event, now_ms: u64) -> Option<Tracked> {
    table.track(table.spec().key.key(&ip)?, event, now_ms).ok()
}

impl Stream<'_> {
    /// Does what the first of these rules ask for as long as that is to track the client's address: nothing has to be looked at
    /// for it, and most files begin with it. How many were done.
    #[inline]
    pub fn track_source(&mut self, rules: &Ruleset) -> usize {
        let leading = rules.leading();
        // Who explains rules wants to be told of each.
        if leading.is_empty() || self.worker.scratch.borrow().watch.is_some() {
            return 0;
        }
        if leading.iter().all(|rule| self.track_one(*rule)) { leading.len() } else { 0 }
    }

    /// False when the client has no address that can be tracked so. It is a function of its own for each rule: what a loop keeps at
    /// hand would not be in registers.
    #[inline(never)]
    fn track_one(&mut self, TrackSource { slot, table }: TrackSource) -> bool {
        let facts = &mut self.state.facts;
        // The first rule that is executed decides.
        let is_tracked = |slots: &[Option<Tracked>]| slots.get(slot).is_some_and(Option::is_some);
        let source = {
            let session = self.session.facts();
            if is_tracked(session.tracking()) {
                return true;
            }
            match facts.src.as_ref().unwrap_or_else(|| session.source_ref()) {
                Endpoint::Inet(SocketAddr::V4(source)) => *source.ip(),
                _ => return false,
            }
        };
        let Some(table) = self.worker.tables.get(table.0 as usize) else { return true };
        if is_tracked(facts.tracking.slots()) {
            return true;
        }
        let (ip, now_ms) = (source.octets(), clock::now_ms());
        let event = if facts.is_http { Event::TrackedByRequest } else { Event::Tracked };
        let found = table.track_again(ip, event, now_ms);
        if let Some(tracked) = found.or_else(|| track_anew(table, ip, event, now_ms)) {
            facts.tracking.set(slot, tracked);
        }
        true
    }

    /// The stream ends for this reason: whose fault that is.
    pub fn count_fault(&self, cause: Cause) {
        if self.state.facts.is_http
            && let Some(event) = fault(cause)
        {
            self.count_http(event);
        }
    }

    /// A rule asked for a name and a password: there were none, or wrong ones.
    pub fn count_unauthorized(&self) {
        self.count_http(Event::ClientFault);
    }

    /// A server answered with this status. Counted for what rules on the response track, too, and before rules look that
    /// come after those.
    #[inline]
    pub fn count_status(&self, status: u16) {
        if self.session.facts().tracking().is_empty() && self.state.facts.tracking.slots().is_empty() {
            return;
        }
        let global = &self.worker.instance.config.global;
        if global.http_err_codes.has(status) {
            self.count_http(Event::ClientFault);
        }
        if global.http_fail_codes.has(status) {
            self.count_http(Event::ServerFault);
        }
    }

    fn count_http(&self, event: Event) {
        for tracking in [self.session.facts().tracking(), self.state.facts.tracking.slots()] {
            count_on(tracking, event, 1);
        }
    }
}
