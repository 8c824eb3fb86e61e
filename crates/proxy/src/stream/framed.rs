//! Messages on lines with frames (HTTP/2): requests on their way to a server of HTTP/1, and what servers that have frames
//! are asked and answer.

use std::task::Poll;

use thalweg_config::model::Proxy;
use thalweg_http::semantics::{BodyLength, RequestContext, may_have_body};
use thalweg_http::uri::origin_form;
use thalweg_http::values::list;
use thalweg_http::{Head, HeaderId, Method, RewriteError};
use thalweg_runtime::timer;

use super::{Stream, StreamState};
use crate::backend::connect::ServerConn;
use crate::connection::line::Line;
use crate::connection::mux::{MuxStream, NoHead};

/// Makes the head of the request one that HTTP/1 can carry: what frames and pseudo-header fields said is said in fields.
/// Another attempt finds nothing left to do.
pub fn as_http1(http: &mut Stream<'_>) -> Result<(), RewriteError> {
    let framing = http.state.request_framing;
    if framing.body == BodyLength::Chunked {
        http.state.request.set(b"transfer-encoding", b"chunked")?;
    }
    as_origin_form(http)?;
    if framing.websocket && !http.state.request.has(HeaderId::SecWebsocketKey) {
        let random = [http.worker.next_random().to_be_bytes(), http.worker.next_random().to_be_bytes()];
        http.state.request.push(b"sec-websocket-key", base64(&random.concat()).as_bytes())?;
    }
    Ok(())
}

/// A server is asked for the path alone, unless a rule named another place.
fn as_origin_form(http: &mut Stream<'_>) -> Result<(), RewriteError> {
    let request = &mut http.state.request;
    let target = request.target();
    let scheme = thalweg_http::uri::split(target).scheme;
    let is_ours = scheme.eq_ignore_ascii_case(b"http") || scheme.eq_ignore_ascii_case(b"https");
    if !is_ours || request.method() == Method::Connect || request.is_elsewhere() {
        return Ok(());
    }
    let path = origin_form(target, request.method()).to_vec();
    request.set_target(&path)
}

/// What a key's server appends to it (RFC 6455 section 4.2.2).
const WEBSOCKET_GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Whether the client of an extended CONNECT would take a response for the agreement that it is not: any success is one to it
/// (RFC 8441 section 5), and a WebSocket's key, from which it could tell, it has not.
#[inline]
pub fn misleads(http: &Stream<'_>) -> bool {
    let (request, response) = (&http.state.request, &http.state.response);
    let framing = http.state.request_framing;
    if !http.client.line.is_framed() || !framing.upgrade {
        return false;
    }
    if response.status() != 101 || !framing.websocket {
        return (200..300).contains(&response.status());
    }
    // A server with frames was given no key either.
    let Some(key) = request.value(HeaderId::SecWebsocketKey) else { return false };
    response.value(HeaderId::SecWebsocketAccept) != Some(accept_of(key).as_bytes())
}

/// What a server makes of a WebSocket's key (RFC 6455 section 4.2.2).
fn accept_of(key: &[u8]) -> String {
    base64(&thalweg_sample::sha1(&[key, WEBSOCKET_GUID].concat()))
}

/// Octets as base64 writes them (RFC 4648 section 4).
fn base64(octets: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(octets.len().div_ceil(3) * 4);
    for three in octets.chunks(3) {
        let octet = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let bits = octet(0) << 16 | octet(1) << 8 | octet(2);
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= three.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

/// The scheme that a server is asked for: what the client asked for. One that named none is taken to be on its way to a secure
/// place, as the reference does.
pub fn scheme(state: &StreamState) -> &[u8] {
    let uri = thalweg_http::uri::split(state.request.target());
    match uri.scheme {
        b"" if state.request_framing.clear_scheme => b"http",
        b"" => b"https",
        scheme => scheme,
    }
}

/// Waits for the head of a response, and says what of a body it has in HTTP/1's terms.
pub fn poll_response(
    stream: &mut MuxStream,
    state: &mut StreamState,
    context: &RequestContext,
) -> Poll<Result<(), NoHead>> {
    let Poll::Ready(came) = stream.poll_head(&mut state.response) else { return Poll::Pending };
    Poll::Ready(came.and_then(|_| {
        let response = &mut state.response;
        state.facts.res_bytes_in += response.encoded_len() as u64;
        let status = response.status();
        let mut framing = response.framing();
        if (200..300).contains(&status) && state.request_framing.upgrade {
            framing.body = BodyLength::Tunnel;
            response.set_framing(framing);
            return switched(response, &state.request);
        }
        let accepts = (200..300).contains(&status) && context.method == Method::Connect;
        framing.body = match framing.body {
            _ if accepts => BodyLength::Tunnel,
            _ if !may_have_body(context.method, status) => BodyLength::None,
            // Frames say where it ends.
            BodyLength::Chunked => BodyLength::UntilClose,
            body => body,
        };
        response.set_framing(framing);
        Ok(())
    }))
}

/// Whether a server may be asked for another protocol with this request: in frames, one without a body, and once the server told
/// its settings (RFC 8441). One that tells none within the time for connecting takes none.
pub async fn may_ask_for_upgrade(http: &Stream<'_>, conn: &mut ServerConn, be: &Proxy) -> bool {
    let Line::Mux(stream) = &mut conn.port.line else { return true };
    if !http.client.body.is_ended() && http.state.request_framing.body != BodyLength::Tunnel {
        return false;
    }
    let soon = be.timeouts.connect.map(timer::deadline_in);
    let told = std::future::poll_fn(|_| stream.poll_takes_upgrades());
    timer::timeout_at(soon, told).await.unwrap_or(false)
}

/// The answer to an extended CONNECT, as HTTP/1 has it: a 101 that proves to have read the request's key (RFC 6455 section
/// 4.2.2).
fn switched(response: &mut Head, request: &Head) -> Result<(), NoHead> {
    let malformed = |_: RewriteError| NoHead::Malformed;
    response.set_status(101, None).map_err(malformed)?;
    response.push(b"connection", b"upgrade").map_err(malformed)?;
    let protocol = request.value(HeaderId::Upgrade).and_then(|protocols| list(protocols).next());
    response.push(b"upgrade", protocol.unwrap_or(b"")).map_err(malformed)?;
    let Some(key) = request.value(HeaderId::SecWebsocketKey) else { return Ok(()) };
    response.remove_id(HeaderId::SecWebsocketAccept);
    response.push(b"sec-websocket-accept", accept_of(key).as_bytes()).map_err(malformed)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 6455 section 1.3, and lengths that are no multiple of three.
    #[test]
    fn keys_and_what_servers_make_of_them() {
        let key = base64(b"the sample nonce");
        assert_eq!(key, "dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(accept_of(key.as_bytes()), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_eq!(
            (base64(b"ab"), base64(b"abc"), base64(b"")),
            ("YWI=".into(), "YWJj".into(), String::new())
        );
    }
}
