//! The health service of gRPC (`grpc.health.v1.Health/Check`): what a check asks, and what the answer means.
//!
//! A call is a request of HTTP/2 whose body is one message; the answer is 200 with one message behind it, and the result of the
//! call in the trailers, or in the head if there is nothing else. A message has five octets in front: whether it is compressed,
//! and its length. Source: grpc/doc/health-checking.md and PROTOCOL-HTTP2.md.

use std::sync::Arc;

use thalweg_http::Head;

use crate::Status;
use crate::answer::Answer;
use crate::http::Response;
use crate::program::{HttpRequest, Text};

/// Octets in front of a message.
const PREFIX: usize = 5;

/// `HealthCheckRequest.service` and `HealthCheckResponse.status`: each is the first and only field of its message.
const FIELD: u8 = 1 << 3;
/// Types of values: a number, eight octets, so many octets, four octets.
const NUMBER: u8 = 0;
const EIGHT: u8 = 1;
const SIZED: u8 = 2;
const FOUR: u8 = 5;

/// `SERVING` of `HealthCheckResponse.ServingStatus`.
const SERVING: u64 = 1;

/// The call for the state of `service`; of the whole server without a name. `authority` is what the server is called.
pub fn health_call(service: &[u8], authority: &[u8]) -> HttpRequest {
    let mut message = Vec::new();
    if !service.is_empty() {
        message.push(FIELD | SIZED);
        put_number(&mut message, service.len());
        message.extend_from_slice(service);
    }
    let mut body = vec![0];
    body.extend_from_slice(&u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes());
    body.append(&mut message);
    let fixed = |text: &[u8]| Text::Fixed(text.into());
    let field = |name: &[u8], value: &[u8]| (Arc::from(name), fixed(value));
    HttpRequest {
        method: Arc::from(&b"POST"[..]),
        uri: fixed(b"/grpc.health.v1.Health/Check"),
        version: Arc::from(&b"HTTP/2.0"[..]),
        headers: vec![
            field(b"host", authority),
            field(b"te", b"trailers"),
            field(b"content-type", b"application/grpc"),
        ],
        body: Some(fixed(&body)),
        send_state: false,
    }
}

fn put_number(out: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Judges an answer that is over: its head, its payload, and what came behind that.
pub(crate) fn judge(response: &Response, payload: &[u8]) -> Answer {
    let bad = |status, code, info: String| Answer::Bad { status, code: Some(code), info };
    if !response.has_head() {
        return bad(Status::L7Response, 0, "no answer to the call".into());
    }
    let http = response.head.status();
    if http != 200 {
        return bad(Status::L7Status, http.into(), format!("HTTP status {http}"));
    }
    let result = [&response.trailers, &response.head].into_iter().find_map(result);
    match result {
        None => bad(Status::L7Response, 0, "no grpc-status".into()),
        Some((0, _)) => match serving(payload) {
            None => bad(Status::L7Response, 0, "no message of the health service".into()),
            Some(SERVING) => Answer::Good { len: payload.len(), code: 0, info: "SERVING".into() },
            Some(other) => bad(Status::L7Status, 0, serving_name(other).into()),
        },
        Some((code, message)) => bad(Status::L7Status, code, format!("grpc-status {code}{message}")),
    }
}

/// What a call came to: its number, and words about it.
fn result(fields: &Head) -> Option<(i64, String)> {
    let value = |name: &[u8]| fields.fields().find(|field| field.name == name).map(|field| field.value);
    let code = std::str::from_utf8(value(b"grpc-status")?).ok()?.parse().ok()?;
    let message = value(b"grpc-message").map(|message| format!(": {}", String::from_utf8_lossy(message)));
    Some((code, message.unwrap_or_default()))
}

/// The status in a message of the health service; 0, which is left out, for one without.
fn serving(payload: &[u8]) -> Option<u64> {
    let (prefix, message) = payload.split_first_chunk::<PREFIX>()?;
    let [compressed, len @ ..] = *prefix;
    if compressed != 0 || u32::from_be_bytes(len) as usize != message.len() {
        return None;
    }
    let (mut rest, mut status) = (message, 0);
    while let Some((key, after)) = rest.split_first() {
        rest = after;
        let number = |rest: &mut &[u8]| {
            let mut number = 0u64;
            for shift in (0..64).step_by(7) {
                let (byte, after) = rest.split_first()?;
                *rest = after;
                number |= u64::from(byte & 0x7f) << shift;
                if byte & 0x80 == 0 {
                    return Some(number);
                }
            }
            None
        };
        let skipped = match key & 7 {
            NUMBER => {
                let value = number(&mut rest)?;
                if *key == FIELD | NUMBER {
                    status = value;
                }
                0
            }
            EIGHT => 8,
            SIZED => usize::try_from(number(&mut rest)?).ok()?,
            FOUR => 4,
            _ => return None,
        };
        rest = rest.get(skipped..)?;
    }
    Some(status)
}

fn serving_name(status: u64) -> &'static str {
    match status {
        0 => "UNKNOWN",
        2 => "NOT_SERVING",
        3 => "SERVICE_UNKNOWN",
        _ => "a status that is not known here",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use thalweg_http::Version;

    fn message(bytes: &[u8]) -> Vec<u8> {
        [&[0][..], &(bytes.len() as u32).to_be_bytes(), bytes].concat()
    }

    fn told(status: u16, trailers: &[(&[u8], &[u8])], payload: &[u8]) -> String {
        let mut response = Response::new(b"POST", false);
        let mut head = Head::new();
        head.start_response(Version::HTTP_2, status, None).unwrap();
        response.take_head(&mut head);
        for (name, value) in trailers {
            response.trailers.push(name, value).unwrap();
        }
        match judge(&response, payload) {
            Answer::Wait => "wait".into(),
            Answer::Good { info, .. } => format!("good {info}"),
            Answer::Bad { code, info, .. } => format!("bad {} {info}", code.unwrap()),
        }
    }

    #[test]
    fn calls_name_their_service() {
        let body = |service: &[u8]| match health_call(service, b"h").body {
            Some(Text::Fixed(bytes)) => bytes.to_vec(),
            other => panic!("{other:?}"),
        };
        assert_eq!(body(b""), [0; 5]);
        assert_eq!(body(b"a.B"), *b"\0\0\0\0\x05\x0a\x03a.B");
        assert_eq!(body(&[b'x'; 200])[..9], *b"\0\0\0\0\xcb\x0a\xc8\x01x");
    }

    #[test]
    fn answers_are_judged() {
        const OK: &[(&[u8], &[u8])] = &[(b"grpc-status", b"0")];
        assert_eq!(told(200, OK, &message(b"\x08\x01")), "good SERVING");
        assert_eq!(told(200, OK, &message(b"\x12\x02zz\x08\x01\x19........\x25....")), "good SERVING");
        assert_eq!(told(200, OK, &message(b"\x08\x02")), "bad 0 NOT_SERVING");
        assert_eq!(told(200, OK, &message(b"")), "bad 0 UNKNOWN");
        assert_eq!(told(200, OK, b""), "bad 0 no message of the health service");
        assert_eq!(told(200, OK, &message(b"\x08")), "bad 0 no message of the health service");
        assert_eq!(told(200, OK, b"\x01\0\0\0\x02\x08\x01"), "bad 0 no message of the health service");
        assert_eq!(told(200, &[], &message(b"\x08\x01")), "bad 0 no grpc-status");
        assert_eq!(told(404, OK, b""), "bad 404 HTTP status 404");
        let unknown: &[(&[u8], &[u8])] = &[(b"grpc-status", b"5"), (b"grpc-message", b"unknown service")];
        assert_eq!(told(200, unknown, b""), "bad 5 grpc-status 5: unknown service");
    }

    proptest! {
        #[test]
        fn any_message_is_read(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = serving(&bytes);
            let _ = serving(&message(&bytes));
        }
    }
}
