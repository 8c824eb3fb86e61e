//! Early data (0-RTT): requests that are sent, or were received, before a handshake of TLS is done (RFC 8446 section 2.3,
//! RFC 8470). Whoever listened on the way can have them processed once more, as they are.

use thalweg_config::model::{Proxy, Server};
use thalweg_http::HeaderId;
use thalweg_http::semantics::BodyLength;
use thalweg_runtime::timer;

use super::ending::Cause;
use super::{Stop, Stream, exchange};
use crate::backend::connect::Target;

/// The server finds that it is too early for this request (RFC 8470 section 5.2).
pub const TOO_EARLY: u16 = 425;

/// A request that may go to its server with the ClientHello, as it will be sent; empty for others. The user said that
/// repeating requests of the backend does no harm (`retry-on 0rtt-rejected`), or the client took that upon itself. All the
/// same only what changes nothing is sent, without a body (RFC 8470 section 4).
pub fn request(http: &mut Stream<'_>, be: &Proxy, server: &Server, target: &Target<'_>) -> Box<[u8]> {
    let framing = http.state.request_framing;
    let is_wanted = be.retry_on.early_data_rejected || http.is_early();
    let is_harmless = http.state.request.method().is_safe()
        && matches!(framing.body, BodyLength::None | BodyLength::Sized(0))
        && !framing.upgrade
        && !framing.expect_continue;
    if !is_wanted || !is_harmless || !target.takes_early_requests() {
        return Box::default();
    }
    exchange::encode_request(http, be, server).map_or_else(Box::default, |head| Box::from(&*head))
}

/// Whether the server refuses what was sent early on our own account. The client, which does not know of that, must not hear of
/// it (RFC 8470 section 5.2).
pub fn is_refused(http: &Stream<'_>, be: &Proxy, sent_early: usize, status: u16) -> bool {
    status == TOO_EARLY
        && sent_early > 0
        && be.retry_on.early_data_rejected
        && !http.state.request.has(HeaderId::EarlyData)
}

/// What is known of the client's handshake is what it was some time ago: looks again.
pub fn look_again(stream: &mut Stream<'_>) {
    if stream.session.facts().rare().is_early && !stream.client.line.is_early() {
        stream.session.facts_mut().rare_mut().is_early = false;
    }
}

/// Waits until the client's handshake is done (`http-request wait-for-handshake`), for as long as handshakes may take.
pub async fn wait_for_handshake<'a>(stream: &mut Stream<'a>) -> Result<(), Stop<'a>> {
    let timeouts = &stream.frontend().timeouts;
    let limit = timeouts.client_hs.or(timeouts.client).map(timer::deadline_in);
    let client = &mut *stream.client;
    let complete = timer::timeout_at(limit, std::future::poll_fn(|_| client.line.poll_complete())).await;
    look_again(stream);
    match complete {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(stream.stop(Cause::ClientLeftInRules)),
        Err(_elapsed) => Err(stream.stop(Cause::BodyTimeout)),
    }
}

/// Tells the server that the request may be one that somebody else sends once more (RFC 8470 section 5.1).
#[inline]
pub fn mark(stream: &mut Stream<'_>) -> bool {
    look_again(stream);
    let is_marked = stream.state.request.has(HeaderId::EarlyData);
    !stream.is_early() || is_marked || stream.state.request.push(b"early-data", b"1").is_ok()
}
