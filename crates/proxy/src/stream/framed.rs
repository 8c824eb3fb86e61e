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
        // Nobody checks what comes of it: streams of HTTP/2 have no such key (RFC 8441 section 5).
        let key = websocket_key([http.worker.next_random(), http.worker.next_random()]);
        http.state.request.push(b"sec-websocket-key", &key)?;
    }
    Ok(())
}

/// A server is asked for the path alone, unless a rule named another place.
fn as_origin_form(http: &mut Stream<'_>) -> Result<(), RewriteError> {
    let request = &mut http.state.request;
    let target = request.target();
    if matches!(target.first(), Some(b'/' | b'*')) || request.method() == Method::Connect {
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

/// Sixteen octets as base64 writes them.
fn websocket_key(random: [u64; 2]) -> [u8; 24] {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits = u128::from(random[0]) << 64 | u128::from(random[1]);
    let mut key = [b'='; 24];
    for (at, digit) in key.iter_mut().take(22).enumerate() {
        // The last digit has the last two bits, and zeros behind them.
        let shifted = if at < 21 { bits >> (122 - 6 * at) } else { bits << 4 };
        *digit = DIGITS[(shifted & 63) as usize];
    }
    key
}

#[cfg(test)]
mod tests {
    use super::websocket_key;

    #[test]
    fn keys_are_sixteen_octets() {
        let of = |bytes: &[u8; 16]| {
            let half = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap());
            websocket_key([half(0), half(8)])
        };
        assert_eq!(&of(b"the sample nonce"), b"dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(&of(&[255; 16]), b"/////////////////////w==");
    }
}
