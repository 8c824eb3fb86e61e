//! What happens to a session or a stream, counted on the entries of stick tables that it tracks.
//!
//! Tracking begins in rules (`rules::action::track`), and ends with the stream or the session. Who tracks nothing pays a
//! test of a length at each of these places.

use thalweg_runtime::clock;
use thalweg_sample::track::count;
use thalweg_stick::data::DataType::{
    BytesInCnt, BytesInRate, BytesOutCnt, BytesOutRate, GlitchCnt, GlitchRate, HttpErrCnt, HttpErrRate,
    HttpFailCnt, HttpFailRate, HttpReqCnt, HttpReqRate, SessCnt, SessRate,
};
use thalweg_stick::{DataType, Tracked};

use super::ending::Cause;
use super::{Stream, StreamState};
use crate::frontend::ClientSession;

/// A session passed the rules of connections and sessions: those that it tracks have one more.
pub fn session_began(session: &ClientSession) {
    count_on(session.facts().tracking(), [SessCnt, SessRate], 1);
}

/// A request begins. What its own rules will track counts it when they do.
pub fn request_began(session: &ClientSession) {
    count_on(session.facts().tracking(), [HttpReqCnt, HttpReqRate], 1);
}

/// A client broke the rules of its protocol, so often.
pub fn glitches(session: &ClientSession, n: u32) {
    count_on(session.facts().tracking(), [GlitchCnt, GlitchRate], u64::from(n));
}

/// The bytes of a stream that is over: those of its client, and those that came from a server.
pub fn stream_over(session: &ClientSession, state: &StreamState) {
    let (received, sent) = (state.facts.req_bytes_in, state.facts.res_bytes_in);
    for tracking in [session.facts().tracking(), state.facts.tracking.slots()] {
        if !tracking.is_empty() {
            let kinds =
                [(BytesInCnt, received), (BytesInRate, received), (BytesOutCnt, sent), (BytesOutRate, sent)];
            count(tracking, kinds, clock::now_ms());
        }
    }
}

#[inline]
fn count_on(tracking: &[Option<Tracked>], kinds: [DataType; 2], n: u64) {
    if !tracking.is_empty() && n > 0 {
        count(tracking, kinds.map(|kind| (kind, n)), clock::now_ms());
    }
}

/// Whose fault a cause is, as far as `http_err_cnt` and `http_fail_cnt` say (manual section 11.1): the kinds to be counted.
const fn fault(cause: Cause) -> Option<[DataType; 2]> {
    match cause {
        Cause::ClientSaidNothing
        | Cause::ClientSilent
        | Cause::ClientLeftInHead
        | Cause::HeadTimeout
        | Cause::BadRequest
        | Cause::BadRequestInRules
        | Cause::BadRequestBody
        | Cause::BodyTimeout
        | Cause::BadHeaderName
        | Cause::DeniedByRule
        | Cause::TarpitBegan => Some([HttpErrCnt, HttpErrRate]),
        Cause::NoResponse
        | Cause::ResponseHeadCut
        | Cause::BadResponse
        | Cause::ResponseTimeout
        | Cause::ServerStuck
        | Cause::BadFirstChunk
        | Cause::ServerLeftInBody
        | Cause::BadResponseBody
        | Cause::ServerSilentInBody => Some([HttpFailCnt, HttpFailRate]),
        _ => None,
    }
}

impl Stream<'_> {
    /// The stream ends for this reason: whose fault that is.
    pub fn count_fault(&self, cause: Cause) {
        if self.state.facts.is_http
            && let Some(kinds) = fault(cause)
        {
            self.count_http(kinds);
        }
    }

    /// A rule asked for a name and a password: there were none, or wrong ones.
    pub fn count_unauthorized(&self) {
        self.count_http([HttpErrCnt, HttpErrRate]);
    }

    /// A server answered with this status. Counted for what rules on the response track, too, and before rules look that
    /// come after those.
    pub fn count_status(&self, status: u16) {
        if self.session.facts().tracking().is_empty() && self.state.facts.tracking.slots().is_empty() {
            return;
        }
        let global = &self.worker.instance.config.global;
        if global.http_err_codes.has(status) {
            self.count_http([HttpErrCnt, HttpErrRate]);
        }
        if global.http_fail_codes.has(status) {
            self.count_http([HttpFailCnt, HttpFailRate]);
        }
    }

    fn count_http(&self, kinds: [DataType; 2]) {
        for tracking in [self.session.facts().tracking(), self.state.facts.tracking.slots()] {
            count_on(tracking, kinds, 1);
        }
    }
}
