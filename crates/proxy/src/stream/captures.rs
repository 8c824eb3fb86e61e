//! What is kept of heads for logs and rules (manual: `capture request header`, `capture response header`, `capture cookie`).

use thalweg_config::model::{CookieCapture, Proxy};
use thalweg_http::{Head, HeaderId};

use super::Stream;

/// Keeps what logs and rules want of the request.
#[inline]
pub fn of_request(http: &mut Stream<'_>, fe: &Proxy) {
    let n = fe.request_captures.len();
    if n > 0 {
        if http.state.upgraded.is_none() {
            http.state.facts.req_captures.reset(n);
        }
        for (i, capture) in fe.request_captures.iter().enumerate().filter(|(_, c)| !c.name.is_empty()) {
            if let Some(field) = http.state.request.find_all(&capture.name).last() {
                http.state.facts.req_captures.set(i, field.value, capture.len as usize);
            }
        }
    }
    http.state.facts.res_captures.reset(fe.response_captures.len());
    if let Some(capture) = &fe.cookie_capture {
        http.state.facts.captured_cookie = cookie(&http.state.request, HeaderId::Cookie, capture);
    }
}

/// Keeps what logs and rules want of the response.
#[inline]
pub fn of_response(http: &mut Stream<'_>) {
    let fe = http.frontend();
    for (i, capture) in fe.response_captures.iter().enumerate().filter(|(_, c)| !c.name.is_empty()) {
        if let Some(field) = http.state.response.find_all(&capture.name).last() {
            http.state.facts.res_captures.set(i, field.value, capture.len as usize);
        }
    }
    if let Some(capture) = &fe.cookie_capture {
        http.state.facts.captured_set_cookie = cookie(&http.state.response, HeaderId::SetCookie, capture);
    }
}

/// The value to log of a captured cookie, `name=value`.
fn cookie(head: &Head, id: HeaderId, capture: &CookieCapture) -> Option<Vec<u8>> {
    head.get_all(id).find_map(|field| {
        field.value.split(|b| *b == b';').map(<[u8]>::trim_ascii).find_map(|pair| {
            let rest = pair.strip_prefix(&*capture.name)?;
            let matches = capture.prefix || rest.first() == Some(&b'=');
            matches.then(|| pair[..pair.len().min(capture.len as usize)].to_vec())
        })
    })
}
