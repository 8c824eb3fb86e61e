//! Requests that came on a line with frames (HTTP/2), on their way to a server of HTTP/1.

use thalweg_http::semantics::BodyLength;
use thalweg_http::uri::path_and_query;
use thalweg_http::{HeaderId, Method, RewriteError};

use super::Stream;

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
    if !is_ours || request.method() == Method::Connect {
        return Ok(());
    }
    let path = path_and_query(target);
    let place = &target[..target.len() - path.len()];
    let line = &http.state.facts.request_line;
    let received = line.splitn(2, |b| *b == b' ').nth(1).unwrap_or(b"");
    if !received.starts_with(place) {
        return Ok(());
    }
    let path = if path.is_empty() { b"/".to_vec() } else { path.to_vec() };
    request.set_target(&path)
}

/// What a key's server appends to it (RFC 6455 section 4.2.2).
const WEBSOCKET_GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Whether a server agreed to something else than the WebSocket that it was asked for: the client of an extended CONNECT has no
/// key to find out (RFC 8441 section 5).
pub fn agreed_to_another(http: &Stream<'_>) -> bool {
    let (request, response) = (&http.state.request, &http.state.response);
    if !http.client.line.is_framed() || !http.state.request_framing.websocket || response.status() != 101 {
        return false;
    }
    let key = request.value(HeaderId::SecWebsocketKey).unwrap_or(b"");
    let expected = base64(&thalweg_sample::sha1(&[key, WEBSOCKET_GUID].concat()));
    response.value(HeaderId::SecWebsocketAccept) != Some(expected.as_bytes())
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

#[cfg(test)]
mod tests {
    use super::{WEBSOCKET_GUID, base64};

    /// The example of RFC 6455 section 1.3, and lengths that are no multiple of three.
    #[test]
    fn keys_and_what_servers_make_of_them() {
        let key = base64(b"the sample nonce");
        assert_eq!(key, "dGhlIHNhbXBsZSBub25jZQ==");
        let accept = thalweg_sample::sha1(&[key.as_bytes(), WEBSOCKET_GUID].concat());
        assert_eq!(base64(&accept), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_eq!(
            (base64(b"ab"), base64(b"abc"), base64(b"")),
            ("YWI=".into(), "YWJj".into(), String::new())
        );
    }
}
