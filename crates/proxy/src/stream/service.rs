//! Services: what answers requests in a server's place (`use-service`), behind the same rules and in the same logs.
//!
//! A service is given a request and makes a head; its body comes in steps, which the client's connection sets the pace of.
//! To the rules on responses it is a server, and to the log it is a name in angle brackets.

use std::task::Poll;

use thalweg_config::model::{Proxy, StatsPage};
use thalweg_h1::parse::ParseOptions;
use thalweg_http::semantics::{BodyLength, Framing, parse_length};
use thalweg_http::{Head, HeaderId, Method};
use thalweg_rules::Kind;
use thalweg_sample::facts::Responder;

use super::answer::Answer;
use super::deliver::{Delivered, Maker};
use super::ending::Cause;
use super::exchange;
use super::reply;
use super::rules::{self, Source};
use super::{After, Stop, Stream};
use crate::connection::line::Line;
pub use crate::connection::local::Body;
use crate::connection::local::Local;
use crate::connection::port::Port;

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

/// What the statistics page needs to know beside the request.
#[derive(Clone, Copy)]
pub struct Page<'a> {
    /// Whose page it is.
    pub proxy: &'a Proxy,
    /// How it is to be.
    pub page: &'a StatsPage,
    /// Servers may be changed (`stats admin`).
    pub admin: bool,
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
    /// Makes the head of the answer, with the body's length where that is known, and what the body comes from, if there is one.
    /// A request that it cannot answer gets an error of this status.
    fn answer(&self, request: &Request<'_>, response: &mut Head) -> Result<Option<Box<dyn Body>>, u16>;
}

/// Lets the service of that name answer.
pub async fn serve<'a>(http: &mut Stream<'a>, name: &str) -> Result<After, Stop<'a>> {
    let Some(service) = http.worker.instance.service(name) else {
        return Err(Stop::Answer(Answer::Error(503)));
    };
    answer(http, service, None, true).await
}

/// From here on the request is a service's.
pub fn begin(http: &mut Stream<'_>, service: &dyn Service) {
    http.state.facts.responder = Responder::Service(service.title());
    let now = http.elapsed_us();
    let timers = &mut http.state.facts.timers;
    (timers.queue_us, timers.connect_us) = (now, now);
}

/// Lets a service answer, whose answer the rules on responses may see.
pub async fn answer<'a>(
    http: &mut Stream<'a>,
    service: &dyn Service,
    page: Option<Page<'a>>,
    with_response_rules: bool,
) -> Result<After, Stop<'a>> {
    begin(http, service);
    if service.wants_body(&http.state.request) {
        http.receive_body().await?;
    }
    let look = http.client.look();
    let body_is_complete = look.ended();
    let payload = look.payload();
    let request = Request { head: &http.state.request, body: payload.data(), body_is_complete, page };
    let answered = service.answer(&request, &mut http.state.response);
    let body = answered.map_err(|status| Stop::Answer(Answer::Error(status)))?;
    http.state.has_response = true;
    http.state.facts.status = i32::from(http.state.response.status());
    http.state.facts.timers.response_us = http.elapsed_us();
    let length = frame(http, body.is_some());
    if with_response_rules {
        let (be, fe) = (http.backend(), http.frontend());
        for rules in exchange::http_rules_on_responses(be, fe) {
            let _ = rules::run(http, be, rules, Kind::HttpResponse, &mut Source::Nobody).await?;
        }
    }
    let mut from = Port::new(Line::Local(Some(Box::new(Local::new(body)))));
    from.body.begin(length, &ParseOptions::default());
    // What its first step makes goes with the head.
    if let Poll::Ready(Ok(buf)) = from.poll_recv()
        && !buf.is_empty()
    {
        from.input = Some(buf);
    }
    let delivered = reply::deliver_local(http, &mut from, Maker::Service).await;
    Ok(match delivered {
        Delivered::Whole => reply::after_answer(http),
        Delivered::Not(cause) => http.end(cause),
        Delivered::RewriteFailed | Delivered::BadBody => {
            reply::internal_error(http, Cause::AfterRewriteFailed).await
        }
    })
}

/// Says how the end of a service's body is found: by the length that its head gives, or where it ends.
fn frame(http: &mut Stream<'_>, has_body: bool) -> BodyLength {
    let is_head = http.state.request.method() == Method::Head;
    let response = &mut http.state.response;
    let given = response.value(HeaderId::ContentLength).and_then(parse_length);
    let length = match given {
        Some(length) => BodyLength::Sized(length),
        None if has_body => BodyLength::UntilClose,
        None => BodyLength::None,
    };
    if length == BodyLength::None && !is_head {
        // Without a length its body would end with the connection. There is room: it is the head's last field.
        let _ = response.push(b"content-length", b"0");
    }
    response.set_framing(Framing { body: length, ..Framing::default() });
    length
}
