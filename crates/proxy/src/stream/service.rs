//! Services: what answers requests in a server's place (`use-service`), behind the same rules and in the same logs.
//!
//! A service is given a request and makes a head; its body comes in steps, which the client's connection sets the pace of.
//! To the rules on responses it is a server, and to the log it is a name in angle brackets.

use thalweg_http::{Head, HeaderId, Method};
use thalweg_rules::Kind;
use thalweg_runtime::buffer::Buf;
use thalweg_runtime::yield_now;
use thalweg_sample::facts::Responder;

use super::ending::Cause;
use super::exchange;
use super::http::{After, Http, Stop};
use super::reply::{self, Answer};
use super::rules::{self, Source};
use super::statistics::Page;
use crate::connection::body::wrap_chunk;

/// Bytes of a body that are sent at a time.
const PIECE: usize = 16 * 1024;

/// What a service is asked.
pub struct Request<'a> {
    pub head: &'a Head,
    /// The body, without its framing, as far as it was [waited for](Service::wants_body): at most `tune.bufsize` bytes.
    pub body: &'a [u8],
    /// All of the body is there.
    pub body_is_complete: bool,
    /// For the statistics page: whose it is.
    pub page: Option<Page<'a>>,
}

/// A service of this process. One object serves all requests, on all threads.
pub trait Service: Send + Sync {
    /// How `use-service` calls it.
    fn name(&self) -> &'static str;
    /// What stands in a log line for the server: `<PROMEX>`.
    fn title(&self) -> &'static str;
    /// Whether the answer depends on the request's body: as much of it as fits into a buffer is received first.
    fn wants_body(&self, _request: &Head) -> bool {
        false
    }
    /// Makes the head of the answer, with the body's length if it is known, and what its body comes from. A request that it
    /// cannot answer gets an error of this status.
    fn answer(&self, request: &Request<'_>, response: &mut Head) -> Result<Box<dyn Body>, u16>;
}

/// The body of an answer that is being made.
pub trait Body {
    /// Appends some of it, perhaps nothing, in no more time than a task may take. False when that was the end.
    fn step(&mut self, out: &mut Vec<u8>) -> bool;
}

/// Lets the service of that name answer.
pub async fn serve<'a>(http: &mut Http<'a>, name: &str) -> Result<After, Stop<'a>> {
    let Some(service) = http.worker.instance.service(name) else {
        return Err(Stop::Answer(Answer::Error(503)));
    };
    answer(http, service, None, true).await
}

/// From here on the request is a service's.
pub fn begin(http: &mut Http<'_>, service: &dyn Service) {
    http.state.facts.responder = Responder::Service(service.title());
    let now = http.elapsed_us();
    let timers = &mut http.state.facts.timers;
    (timers.queue_us, timers.connect_us) = (now, now);
}

/// Lets a service answer, whose answer the rules on responses may see.
pub async fn answer<'a>(
    http: &mut Http<'a>,
    service: &dyn Service,
    page: Option<Page<'a>>,
    with_response_rules: bool,
) -> Result<After, Stop<'a>> {
    begin(http, service);
    if service.wants_body(&http.state.request) {
        http.receive_body().await?;
    }
    let look = http.client.look();
    let body_is_complete = look.payload_ended();
    let payload = look.payload();
    let request = Request { head: &http.state.request, body: payload.data(), body_is_complete, page };
    let answered = service.answer(&request, &mut http.state.response);
    let body = answered.map_err(|status| Stop::Answer(Answer::Error(status)))?;
    http.state.has_response = true;
    http.state.facts.status = i32::from(http.state.response.status());
    http.state.facts.timers.response_us = http.elapsed_us();
    let (be, fe) = (http.backend(), http.frontend());
    if with_response_rules {
        for rules in exchange::http_rules_on_responses(be, fe) {
            let _ = rules::run(http, be, rules, Kind::HttpResponse, &mut Source::Nobody).await?;
        }
    }
    deliver(http, body).await
}

/// Sends head and body.
async fn deliver<'a>(http: &mut Http<'a>, mut body: Box<dyn Body>) -> Result<After, Stop<'a>> {
    let has_length = http.state.response.value(HeaderId::ContentLength).is_some();
    let is_head = http.state.client_method == Method::Head;
    let chunked = http.state.request.version().is_11_or_later() && !has_length && !is_head;
    if has_length || is_head {
        // Its end is known.
    } else if !chunked {
        http.keep_alive = false;
    } else if http.state.response.set(b"transfer-encoding", b"chunked").is_err() {
        return Ok(reply::internal_error(http, Cause::AfterRewriteFailed).await);
    }
    if !rules::after_response(http).await {
        return Ok(reply::internal_error(http, Cause::AfterRewriteFailed).await);
    }
    http.state.facts.status = i32::from(http.state.response.status());
    let Some(head) = reply::final_head(http) else {
        return Ok(http.end(Cause::NoBufferForAnswer));
    };
    if !send(http, head).await {
        return Ok(After::Drop);
    }
    if http.state.client_method == Method::Head {
        return Ok(reply::after_answer(http));
    }
    let mut text = Vec::with_capacity(PIECE * 2);
    loop {
        let more = body.step(&mut text);
        if text.len() < PIECE && more {
            // Others get their turn: the next step may take as long as this one.
            yield_now().await;
            continue;
        }
        for piece in text.chunks(PIECE * 2) {
            let piece = Buf::copy_of(piece);
            let Ok(piece) = (if chunked { wrap_chunk(piece) } else { Ok(piece) }) else {
                return Ok(http.end(Cause::NoBufferInBody));
            };
            if !send(http, piece).await {
                return Ok(After::Drop);
            }
        }
        text.clear();
        if !more {
            break;
        }
    }
    if chunked && !send(http, Buf::copy_of(thalweg_h1::encode::LAST_CHUNK)).await {
        return Ok(After::Drop);
    }
    Ok(reply::after_answer(http))
}

/// Sends once the client takes more; false when it left, or took too long.
async fn send(http: &mut Http<'_>, buf: Buf) -> bool {
    if !reply::ready_to_send(http).await {
        http.end(Cause::ClientLeftUnanswered);
        return false;
    }
    http.state.facts.res_bytes_in += buf.len() as u64;
    http.state.facts.res_bytes_out += buf.len() as u64;
    http.client.line.start_send(buf);
    true
}
