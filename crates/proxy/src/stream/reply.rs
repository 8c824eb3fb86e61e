//! Answers of our own: errors, `return`, `deny`, redirections, challenges, interim responses.

use std::pin::pin;
use std::task::Poll;

use thalweg_config::model::Proxy;
use thalweg_h1::encode::EncodeOptions;
use thalweg_h1::parse::{HeadParser, ParseOptions};
use thalweg_http::semantics::{BodyLength, RequestContext};
use thalweg_http::{Head, HeaderId, Version};
use thalweg_rules::reply::reply_for;
use thalweg_rules::{Realm, Reply};
use thalweg_runtime::buffer::Buf;
use thalweg_runtime::timer;

use super::answer::Answer;
use super::deadline::Waits;
use super::deliver::{Delivered, Maker, deliver, encode};
use super::ending::{self, Cause};
use super::pump::Pump;
use super::{After, Stream};
use crate::connection::body::BodyError;
use crate::connection::line::Line;
use crate::connection::port::Port;

/// Bytes of an unwanted request body that are read and thrown away to keep the connection.
const DRAIN_MAX: u64 = 1024 * 1024;

/// How long that may take, in milliseconds, when `timeout client` allows more.
const DRAIN_MS: u64 = 30_000;

/// Answers the request, evaluates `http-after-response`, and deals with what is left of the request's body.
pub async fn send<'a>(http: &mut Stream<'a>, answer: Answer<'a>) -> After {
    let mut failed = false;
    // Its parts may be made of the request's body, so that is given up afterwards.
    match build(http, &answer) {
        Ok(true) => {}
        Ok(false) => {
            http.answer_sent();
            return After::Close;
        }
        Err(()) => {
            failed = true;
            http.answer_failed();
            if build(http, &Answer::Error(500)).is_err() {
                return After::Close;
            }
        }
    }
    if http.state.has_request && http.keep_alive && !http.client.body.is_ended() {
        if discard_what_is_there(http.client).is_err() {
            ending::end_instead(http.worker, http.session.listener, http.state, Cause::BadBodyUnread);
            http.keep_alive = false;
            if build(http, &Answer::Error(400)).is_err() {
                return After::Close;
            }
        } else if !http.client.body.is_ended() && http.state.request_framing.expect_continue {
            // The client was never told to send its body and may not do so.
            http.keep_alive = false;
        }
    }
    http.state.has_response = true;
    // A message that was no request is none for rules either.
    let rules = http.state.has_request;
    deliver_own(http, rules, failed).await
}

/// A rewrite of the response failed: the client gets a 500 instead, on which no rule is evaluated.
pub async fn internal_error(http: &mut Stream<'_>, cause: Cause) -> After {
    http.end(cause);
    // What follows a request to switch protocols need not be a request.
    if http.state.request_framing.upgrade || http.state.request_framing.body == BodyLength::Tunnel {
        http.keep_alive = false;
    }
    if build(http, &Answer::Error(500)).is_err() {
        return After::Close;
    }
    deliver_own(http, false, true).await
}

/// Sends the answer that was built, after `http-after-response` rules if those are to see it. The connection may be kept even
/// when some of the request's body is to come: see [`drain`]. `failed`: it stands for another answer, which could not be made.
async fn deliver_own(http: &mut Stream<'_>, mut rules: bool, mut failed: bool) -> After {
    loop {
        let body = &http.state.body;
        let mut from = Port::new(Line::Local(None));
        from.body.begin(BodyLength::Sized(body.len() as u64), &ParseOptions::default());
        from.input = (!body.is_empty()).then(|| Buf::copy_for_sending(body));
        let delivered = deliver_local(http, &mut from, Maker::Own { rules }).await;
        if !failed && delivered != Delivered::RewriteFailed {
            http.answer_sent();
        }
        match delivered {
            Delivered::Whole => return after_answer(http),
            Delivered::RewriteFailed => {
                failed = true;
                http.answer_failed();
                if build(http, &Answer::Error(500)).is_err() {
                    return After::Close;
                }
                rules = false;
            }
            Delivered::BadBody => return http.end(Cause::NoBufferForAnswer),
            Delivered::Not(cause) => return http.end(cause),
        }
    }
}

/// Sends a response that is made here. What is left of the request's body stays where it is.
pub async fn deliver_local(http: &mut Stream<'_>, from: &mut Port, maker: Maker) -> Delivered {
    let mut up = Pump::plain(None);
    up.abandon();
    let mut waits = Waits::of_answer(http.frontend(), http.backend(), &http.state.facts);
    pin!(deliver(http, from, &mut up, &mut waits, maker)).await
}

/// Puts head and body of the answer into the stream, and the status it stands for: what an `errorfile` or an `errorloc`
/// says instead is between them and the client. `Ok(false)`: nothing is to be sent.
fn build<'a>(http: &mut Stream<'a>, answer: &Answer<'a>) -> Result<bool, ()> {
    let fe = http.frontend();
    let be = http.backend();
    let errors = |proxy: &'a Proxy| proxy.errors.as_deref();
    http.state.has_response = false;
    http.state.body.clear();
    let from = |http: &mut Stream<'a>, reply: &Reply| {
        let reply = reply.resolved(errors(be), errors(fe));
        http.make_answer(|cx, fx, head, body| reply.write(cx, fx, head, body)).map_err(drop)
    };
    let mut meant = None;
    let result = match answer {
        Answer::Error(status) => {
            meant = Some(*status);
            from(http, reply_for(*status, errors(be), errors(fe)))
        }
        Answer::Reply(reply) => {
            meant = Some(reply.status);
            from(http, reply)
        }
        Answer::Redirect(redirect) => {
            redirect.write(&http.state.effects, &mut http.state.response).map(|()| true).map_err(drop)
        }
        Answer::Auth(realm) => {
            // A proxy to its clients is only who says so: others are the server that a whole URI names.
            let status = if fe.opts.http_use_proxy_header { Realm::status(&http.state.request) } else { 401 };
            from(http, reply_for(status, errors(be), errors(fe)))
                .and_then(|sent| realm.write(status, &mut http.state.response).map(|()| sent).map_err(drop))
        }
        Answer::ServerRedirect(prefix) => {
            let mut location = prefix.as_bytes().to_vec();
            location.extend_from_slice(thalweg_http::uri::path_and_query(http.state.request.target()));
            let head = &mut http.state.response;
            head.clear();
            head.start_response(Version::HTTP_11, 302, Some(b"Found"))
                .and_then(|()| head.push_id(HeaderId::CacheControl, b"no-cache"))
                .and_then(|()| head.push_id(HeaderId::ContentLength, b"0"))
                .and_then(|()| head.push_id(HeaderId::Location, &location))
                .map(|()| true)
                .map_err(drop)
        }
    };
    http.state.facts.status = i32::from(meant.unwrap_or(http.state.response.status()));
    result
}

/// What becomes of the client's connection when it has its answer.
pub fn after_answer(http: &Stream<'_>) -> After {
    let too_long = http.client.body.remaining().is_some_and(|n| n > DRAIN_MAX);
    if http.keep_alive && !too_long { After::KeepAlive } else { After::Close }
}

/// Waits until the client took what was sent, for as long as it takes some of it within each `timeout client`.
async fn ready_to_send(http: &mut Stream<'_>) -> bool {
    let silence = http.frontend().timeouts.client;
    http.client.all_is_sent(silence).await
}

/// Throws away what has been received of the body, to learn whether all of it came and was well-formed.
fn discard_what_is_there(client: &mut Port) -> Result<(), BodyError> {
    let end = client.body.received() + DRAIN_MAX;
    loop {
        client.discard_body()?;
        if client.body.is_ended() || client.eof || client.body.received() > end {
            return Ok(());
        }
        match client.poll_recv() {
            Poll::Ready(Ok(buf)) if !buf.is_empty() => client.append(buf)?,
            Poll::Ready(_) => client.eof = true,
            Poll::Pending => return Ok(()),
        }
    }
}

/// Reads the rest of a request that was answered, so that the next one can be found. False when the connection must be
/// closed.
pub async fn drain(fe: &Proxy, client: &mut Port) -> bool {
    let end = client.body.received() + DRAIN_MAX;
    // However slowly it comes, all of it must be there by then.
    let deadline = Some(timer::deadline_in(fe.timeouts.client.map_or(DRAIN_MS, |ms| ms.min(DRAIN_MS))));
    loop {
        if client.discard_body().is_err() || client.body.received() > end {
            return false;
        }
        if client.body.is_ended() {
            return true;
        }
        if client.eof {
            return false;
        }
        match timer::timeout_at(deadline, std::future::poll_fn(|_| client.poll_recv())).await {
            Ok(Ok(buf)) if !buf.is_empty() => {
                if client.append(buf).is_err() {
                    return false;
                }
            }
            _ => {
                client.eof = true;
                return false;
            }
        }
    }
}

/// Forwards a 1xx response to a client that knows what it is.
pub async fn forward_interim(http: &mut Stream<'_>) {
    if !http.state.request.version().is_11_or_later() {
        return;
    }
    if http.client.line.is_framed() {
        http.state.facts.res_bytes_out += http.state.response.encoded_len() as u64;
        // A client that is gone is noticed when the final response is sent.
        http.client.line.send_head(&http.state.response, false);
        return;
    }
    let options = EncodeOptions {
        connection: None,
        proxy_connection: false,
        case: http.worker.response_case(http.session.frontend),
    };
    if let Some(head) = encode(&http.state.response, &options) {
        send_interim(http, head).await;
    }
}

/// `100 Continue`, on our own account.
pub async fn send_continue(http: &mut Stream<'_>) {
    send_own_interim(http, b"HTTP/1.1 100 Continue\r\n\r\n").await;
}

/// The 103 whose fields rules collected.
pub async fn early_hints(http: &mut Stream<'_>) {
    let fields = std::mem::take(&mut http.state.effects.early_hints);
    if http.state.request.version().is_11_or_later() {
        let text = [b"HTTP/1.1 103 Early Hints\r\n".as_slice(), &fields, b"\r\n"].concat();
        send_own_interim(http, &text).await;
    }
}

/// Sends an interim response that is made here, which is written as HTTP/1 reads it.
async fn send_own_interim(http: &mut Stream<'_>, text: &[u8]) {
    if !http.client.line.is_framed() {
        return send_interim(http, Buf::copy_of(text)).await;
    }
    let (mut head, mut parser) = (Head::new(), HeadParser::new());
    let context = RequestContext::of(&http.state.request);
    // The fields were accepted one by one when they were set.
    if parser.parse_response(&ParseOptions::default(), &context, text, &mut head).is_ok() {
        http.state.facts.res_bytes_out += head.encoded_len() as u64;
        http.client.line.send_head(&head, false);
    }
}

async fn send_interim(http: &mut Stream<'_>, head: Buf) {
    // A client that is gone is noticed when the final response is sent.
    if ready_to_send(http).await {
        http.state.facts.res_bytes_out += head.len() as u64;
        http.client.line.start_send(head);
    }
}
