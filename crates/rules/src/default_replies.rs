//! The replies we make when nobody configured others. Scripts match these texts: they are those of the reference.

use crate::errors::{GENERATED_CODES, RawField, RawReply};
use crate::reply::Reply;
use std::sync::LazyLock;

/// Status, reason, text of the page. Those for which the connection is closed are `closes`.
const PAGES: [(u16, &str, &str, &str); 21] = [
    (200, "OK", "200 OK", "Service ready."),
    (400, "Bad request", "400 Bad request", "Your browser sent an invalid request."),
    (401, "Unauthorized", "401 Unauthorized", "You need a valid user and password to access this content."),
    (403, "Forbidden", "403 Forbidden", "Request forbidden by administrative rules."),
    (404, "Not Found", "404 Not Found", "The resource could not be found."),
    (
        405,
        "Method Not Allowed",
        "405 Method Not Allowed",
        "A request was made of a resource using a request method not supported by that resource.",
    ),
    (407, "Unauthorized", "407 Unauthorized", "You need a valid user and password to access this content."),
    (408, "Request Time-out", "408 Request Time-out", "Your browser didn't send a complete request in time."),
    (410, "Gone", "410 Gone", "The resource is no longer available and will not be available again."),
    (413, "Payload Too Large", "413 Payload Too Large", "The request entity exceeds the maximum allowed."),
    (414, "URI Too Long", "414 URI Too Long", "The URI provided was too long for the server to process."),
    (421, "Misdirected Request", "421 Misdirected Request", "Request sent to a non-authoritative server."),
    (
        422,
        "Unprocessable Content",
        "422 Unprocessable Content",
        "The server cannot process the contained instructions.",
    ),
    (425, "Too Early", "425 Too Early", "Your browser sent early data."),
    (
        429,
        "Too Many Requests",
        "429 Too Many Requests",
        "You have sent too many requests in a given amount of time.",
    ),
    (
        431,
        "Request Header Fields Too Large",
        "431 Request Header Fields Too Large",
        "Request Header Fields Too Large.",
    ),
    (500, "Internal Server Error", "500 Internal Server Error", "An internal server error occurred."),
    (
        501,
        "Not Implemented",
        "501 Not Implemented",
        "The server does not support the functionality required to fulfill the request.",
    ),
    (502, "Bad Gateway", "502 Bad Gateway", "The server returned an invalid or incomplete response."),
    (503, "Service Unavailable", "503 Service Unavailable", "No server is available to handle this request."),
    (504, "Gateway Time-out", "504 Gateway Time-out", "The server didn't respond in time."),
];

/// After these the connection cannot be used: the request was not understood or is not complete.
const CLOSES: [u16; 2] = [400, 408];

static REPLIES: LazyLock<Vec<Reply>> = LazyLock::new(|| {
    PAGES
        .iter()
        .map(|(status, reason, title, text)| {
            let body = format!("<html><body><h1>{title}</h1>\n{text}\n</body></html>\n").into_bytes();
            let mut fields: Vec<RawField> = vec![
                (b"content-length".as_slice().into(), body.len().to_string().into_bytes().into()),
                (b"cache-control".as_slice().into(), b"no-cache".as_slice().into()),
                (b"content-type".as_slice().into(), b"text/html".as_slice().into()),
            ];
            if CLOSES.contains(status) {
                fields.push((b"connection".as_slice().into(), b"close".as_slice().into()));
            }
            Reply::raw(*status, RawReply::new(*status, reason, fields, body))
        })
        .collect()
});

/// Our reply for `status`; that for 500 when we have none.
pub fn default_reply(status: u16) -> &'static Reply {
    let index = GENERATED_CODES
        .iter()
        .position(|&code| code == status)
        .or(GENERATED_CODES.iter().position(|&c| c == 500));
    &REPLIES[index.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_generated_code_has_its_page() {
        assert_eq!(PAGES.map(|p| p.0), GENERATED_CODES);
        for code in GENERATED_CODES {
            assert_eq!(default_reply(code).status, code);
        }
        assert_eq!(default_reply(418).status, 500);
    }
}
