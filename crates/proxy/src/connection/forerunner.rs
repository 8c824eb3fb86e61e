//! Waiting for the PROXY header that must come before anything else on a connection.

use thalweg_runtime::timer::timeout_at;
use thalweg_sample::facts::ConnError;

use super::port::{Port, RECV_MAX};
use super::proxy_header::{self, Header, Parsed};

/// What may be wrong with a PROXY header, by the numbers of `fc_err`.
const PRX_EMPTY: ConnError = ConnError(11);
const PRX_ABORT: ConnError = ConnError(12);
const PRX_TIMEOUT: ConnError = ConnError(13);
const PRX_TRUNCATED: ConnError = ConnError(14);
const PRX_NOT_HDR: ConnError = ConnError(15);
const PRX_BAD_HDR: ConnError = ConnError(16);
const PRX_BAD_PROTO: ConnError = ConnError(17);

/// Receives the header, and leaves in the port what came behind it.
///
/// # Errors
/// What came is no header, or it did not come by `deadline_ms`.
pub async fn receive(client: &mut Port, deadline_ms: Option<u64>) -> Result<Header, ConnError> {
    loop {
        if let Some(input) = client.input.as_mut() {
            match proxy_header::parse(input) {
                Parsed::Complete { header, len } => {
                    input.advance(len);
                    if input.is_empty() {
                        client.input = None;
                    }
                    return Ok(header);
                }
                Parsed::Invalid => {
                    let looks = proxy_header::looks_like_header(input);
                    return Err(if looks { PRX_BAD_HDR } else { PRX_NOT_HDR });
                }
                Parsed::Unhandled => return Err(PRX_BAD_PROTO),
                Parsed::Partial => {}
            }
        }
        match timeout_at(deadline_ms, client.line.recv(RECV_MAX)).await {
            Ok(Ok(buf)) if !buf.is_empty() => {
                if client.append(buf).is_err() {
                    return Err(PRX_BAD_HDR);
                }
            }
            _ if client.input.is_some() => return Err(PRX_TRUNCATED),
            Ok(Ok(_)) => return Err(PRX_EMPTY),
            Ok(Err(_)) => return Err(PRX_ABORT),
            Err(_) => return Err(PRX_TIMEOUT),
        }
    }
}
