//! One attempt to get a response from one server.
//!
//! Both directions progress on their own: a response is forwarded while the request's body is still being sent, and
//! the body goes on after an early response as long as the server takes it.

use std::pin::pin;
use std::task::Poll;

use thalweg_config::model::{Proxy, Server, ServerId};
use thalweg_h1::encode::EncodeOptions;
use thalweg_h1::parse::{ParseOptions, Parsed};
use thalweg_h2::error::ErrorCode;
use thalweg_http::semantics::{BodyLength, RequestContext, connection_option, is_interim};
use thalweg_http::values::list;
use thalweg_http::{Head, HeaderId, Method};
use thalweg_rules::{Kind, Ruleset};
use thalweg_runtime::buffer::{BULK_SIZE, Buf};
use thalweg_runtime::net::{Departure, TransferMode};
use thalweg_runtime::timer;
use thalweg_sample::facts::ConnError;

use super::answer::Answer;
use super::attempt::{Engaged, note_stream};
use super::deadline::{Expects, Overdue, Waits};
use super::deliver::{Delivered, Maker, deliver, encode, filters, send_with, transfer_mode};
use super::ending::{self, Cause};
use super::filter::Direction;
use super::hedge::Hedge;
use super::pump::{Pump, PumpError};
use super::rules::{self, Source};
use super::tunnel::tunnel;
use super::{
    After, Stop, Stream, captures, cookie, early, finish, framed, reply, shut_check, stick, waiting,
};
use crate::backend::assign;
use crate::backend::connect::ServerConn;
use crate::backend::health::observe::{Seen, observe, observe_failure};
use crate::backend::outliers::Failure;
use crate::connection::body::{Delimiter, Form};
use crate::connection::line::Line;
use crate::connection::mux::NoHead;
use crate::connection::port::{Cut, RECV_MAX};
use crate::plant::bug;
use crate::refused::{Fault, Side};
use crate::stopping::Stopping;
use crate::traces::Way;

/// How long the last bytes of a request that was answered early may take to leave, in milliseconds.
const FLUSH_MS: u64 = 100;

/// What an attempt came to.
pub enum Exchanged<'a> {
    /// The client has its response, or what there was of it.
    Answered(After),
    /// No response, and no further attempt.
    Failed(Stop<'a>),
    /// Another attempt is to be made: what came is no response to forward.
    Retry,
    /// The idle connection that was taken had been closed by the server; nothing was received on it.
    Repeat,
}

/// Makes the request of `http` to the server that it is with.
pub async fn with_server<'a>(
    http: &mut Stream<'a>,
    be: &'a Proxy,
    with: &mut Engaged<'_, 'a>,
) -> Exchanged<'a> {
    let fe = http.frontend();
    send_name(http, be, with.server);
    let (keep_server, connection) = connection_field(http, be);
    let conn = &mut *with.conn;
    let mut replay = Replay::prepare(http, be, conn);
    let context = RequestContext::of(&http.state.request);
    if http.state.request_framing.upgrade && !pin!(framed::may_ask_for_upgrade(http, conn, be)).await {
        return Exchanged::Failed(http.stop(Cause::NoResponse));
    }
    let mut up = upload(http, be, conn.port.line.is_framed());
    let sent_early = std::mem::take(&mut conn.sent_early);
    if let Err(cause) = send_request(http, conn, &mut up, (connection, sent_early)) {
        return Exchanged::Failed(http.stop(cause));
    }
    let mut waits = Waits::of_exchange(fe, be, &http.state.facts);
    let mut hedge = Hedge::prepare(http, be, with, sent_early > 0);
    let end = pin!(receive_head(http, be, with, &mut up, context, &mut waits, &mut hedge)).await;
    let (server, conn) = (with.server, &mut *with.conn);
    match end {
        HeadEnd::Received if framed::misleads(http) => {
            return head_failed(http, (be, server), conn, HeadEnd::Malformed, replay);
        }
        HeadEnd::Received => {}
        end => return head_failed(http, (be, server), conn, end, replay),
    }
    let status = http.state.response.status();
    note_answer(http, be, server, status, hedge.settle(http, be));
    conn.authenticated |= authenticates_connection(&http.state.response);
    if is_tried_again(http, be, sent_early, status) {
        let kept = keep_server && leaves_connection(http, &up);
        if replay.restore(http).is_some() {
            keep_unwanted(http, conn, kept);
            return Exchanged::Retry;
        }
    }
    note_response(http, conn);
    // These decide on bytes: to what counts responses there is none yet.
    let rules = &be.rules.tcp_content_res;
    if !rules.is_empty()
        && let Err(stop) =
            rules::run(http, be, rules, Kind::TcpResponse, &mut Source::of_server(&mut conn.port)).await
    {
        return Exchanged::Failed(stop);
    }
    let counters = with.lease.counters();
    counters.requests.add(1);
    counters.response(status);
    captures::of_response(http);
    if be.opts.checkcache && cookie::is_shared(http) {
        let kept = keep_server && leaves_connection(http, &up);
        keep_unwanted(http, conn, kept);
        return Exchanged::Failed(http.stop(Cause::CacheableCookie));
    }
    // Rules may change what it says of its framing.
    let kept = keep_server && leaves_connection(http, &up);
    for rules in http_rules_on_responses(be, fe) {
        let mut source = Source::of_server(&mut conn.port);
        if let Err(stop) = rules::run(http, be, rules, Kind::HttpResponse, &mut source).await {
            if matches!(stop, Stop::Answer(_)) {
                keep_unwanted(http, conn, kept);
            }
            return Exchanged::Failed(stop);
        }
    }
    http.count_status(status);
    persist(http, be, server, conn);
    if http.state.response.framing().body == BodyLength::Tunnel {
        return Exchanged::Answered(pin!(tunnel(http, conn, up)).await);
    }
    let after = pin!(download(http, conn, &mut up, keep_server, &mut waits)).await;
    Exchanged::Answered(after)
}

/// `http-send-name-header`.
fn send_name(http: &mut Stream<'_>, be: &Proxy, server: &Server) {
    let Some(field) = &be.http_send_name_header else { return };
    let worker = http.worker;
    let set = worker.with_name(be.id, server, |name| http.state.request.set(field, name.as_bytes()));
    if set.is_err() {
        worker.be_counters(be.id).failed_rewrites.add(1);
    }
}

/// Whether the server's connection may carry another request, as far as this side says, and what the request's `Connection`
/// field says of it.
fn connection_field(http: &Stream<'_>, be: &Proxy) -> (bool, Option<&'static [u8]>) {
    let fe = http.frontend();
    // A rule may have asked for the end of the connection in the request's own words.
    let said_close = http.state.request.value(HeaderId::Connection).is_some_and(says_close);
    // `option httpclose` of a frontend is about its clients.
    let closes = be.opts.http_server_close || be.opts.httpclose || fe.opts.http_server_close;
    // The request goes out in the client's version, whose default the server goes by.
    let version = http.state.request.version();
    // Two parties may read HTTP/1.0 with chunks differently: nothing follows it (RFC 9112 section 6.1).
    let ambiguous = http.state.request_framing.body == BodyLength::Chunked && !version.is_11_or_later();
    let keep = !said_close && !closes && !ambiguous;
    // `Connection: upgrade` asks for more than to close would.
    let says_enough = said_close || http.state.request_framing.upgrade;
    let field = match says_enough {
        true => None,
        false => connection_option(version, version, keep || be.opts.http_pretend_keepalive),
    };
    (keep, field)
}

/// What moves the request's body to the server.
// There are two callers since requests may be hedged: the usual one is not to pay a call for that.
#[inline(always)]
fn upload(http: &Stream<'_>, be: &Proxy, framed: bool) -> Pump {
    let fe = http.frontend();
    let chunked = !framed && http.state.request_framing.body == BodyLength::Chunked;
    let form = Form {
        delimiter: if chunked { Delimiter::Chunked } else { Delimiter::Plain },
        drop_trailers: be.opts.http_drop_request_trailers || fe.opts.http_drop_request_trailers,
    };
    let mut up =
        Pump::new(form, transfer_mode(http, be.opts.splice_request || fe.opts.splice_request, be, fe));
    up.end_message(!goes_on(http));
    up.filter(filters(http, Direction::Request));
    up
}

/// Later requests of the client are to find the server again.
#[inline]
fn persist(http: &mut Stream<'_>, be: &Proxy, server: &Server, conn: &ServerConn) {
    if let Some(policy) = &be.cookie {
        cookie::response(http, be, policy, server);
    }
    if !be.stick_rules.is_empty() {
        stick::response(http, be, server, &conn.port);
    }
}

/// A response to forward came.
fn note_response(http: &mut Stream<'_>, conn: &ServerConn) {
    let status = i32::from(http.state.response.status());
    http.state.has_response = true;
    http.state.facts.status = status;
    http.state.facts.server_status = status;
    http.state.facts.timers.response_us = http.elapsed_us();
    note_stream(http, conn);
    http.trace_response(Way::Received, conn.port.line.is_framed());
    limit_response(http, conn);
}

/// A server answered that had the request since `turn_us`: what that says of its health, and how long it took where servers are
/// chosen by that.
#[inline]
fn note_answer(http: &Stream<'_>, be: &Proxy, server: &Server, status: u16, turn_us: i64) {
    observe(http.worker, be.id, server, Seen::Response(status));
    if !be.learns() {
        return;
    }
    if Seen::Response(status).is_failure() {
        assign::failed(http.worker, be, server.id, Failure::Other);
    } else {
        assign::answered(http.worker, be, server.id, http.elapsed_us() - turn_us);
    }
}

/// Whether this status is one for which a request is sent again, and that may be done once more.
#[inline]
fn is_tried_again(http: &Stream<'_>, be: &Proxy, sent_early: usize, status: u16) -> bool {
    (be.retry_on.has_status(status) || early::is_refused(http, be, sent_early, status))
        && ending::may_resend(http.state)
        && assign::pays_retry(http.worker, be)
}

/// Whether another request may follow on the server's connection, once the response that came is read.
fn leaves_connection(http: &Stream<'_>, up: &Pump) -> bool {
    let framing = http.state.response.framing();
    framing.keep_alive && framing.body != BodyLength::Tunnel && up.is_done(http.client)
}

/// A connection whose response nobody wants is kept if that `may` be and all of the response is here.
fn keep_unwanted(http: &Stream<'_>, conn: &mut ServerConn, may: bool) {
    conn.keep = may
        && conn.port.discard_body().is_ok()
        && conn.port.is_idle()
        && http.worker.instance.stopping() == Stopping::No;
}

/// The bytes of a small request body, kept for another attempt.
struct Replay {
    /// The body, when it was all there before the first attempt and is not empty.
    body: Option<Buf>,
    possible: bool,
}

impl Replay {
    #[inline]
    fn prepare(http: &mut Stream<'_>, be: &Proxy, conn: &ServerConn) -> Replay {
        http.client.fetch_first();
        if http.client.body.is_ended() {
            return Replay { body: None, possible: true };
        }
        // What a server with frames does not process it says so of, whatever was asked.
        let may_repeat = conn.reused && (conn.port.line.is_framed() || is_idempotent(http));
        let wanted = be.retry_on.needs_request() || may_repeat;
        let body = if wanted { http.client.copy_of_body() } else { None };
        Replay { possible: body.is_some(), body }
    }

    /// Gives the client's connection its body back; `None` when that is not possible.
    fn restore(&mut self, http: &mut Stream<'_>) -> Option<()> {
        if !self.possible {
            return None;
        }
        if let Some(body) = self.body.take() {
            let options = http.request_options(http.frontend());
            http.client.put_back(body, http.state.request_framing.body, &options).ok()?;
        }
        http.state.response.clear();
        http.state.has_response = false;
        http.state.facts.timers.connect_us = -1;
        Some(())
    }
}

/// Whether a request may be sent twice without asking (RFC 9110 section 9.2.2).
pub fn is_idempotent(http: &Stream<'_>) -> bool {
    bug("unsafe-repeat")
        || matches!(
            http.state.request.method(),
            Method::Get | Method::Head | Method::Options | Method::Put | Method::Delete | Method::Trace
        )
}

/// The head of the request as its server will get it in HTTP/1; `None` when it cannot be written.
pub fn encode_request(http: &mut Stream<'_>, be: &Proxy, server: &Server) -> Option<Buf> {
    send_name(http, be, server);
    let (_, connection) = connection_field(http, be);
    if http.client.line.is_framed() {
        framed::as_http1(http).ok()?;
    }
    encode_head(http, connection)
}

fn encode_head(http: &Stream<'_>, connection: Option<&'static [u8]>) -> Option<Buf> {
    let case = http.worker.request_case(http.state.backend());
    encode(&http.state.request, &EncodeOptions { connection, proxy_connection: false, case })
}

/// Sends the request, with this `Connection` field, but for what the server got early.
// There are two callers since requests may be hedged: the usual one is not to pay a call for that.
#[inline(always)]
fn send_request(
    http: &mut Stream<'_>,
    conn: &mut ServerConn,
    up: &mut Pump,
    (connection, sent_early): (Option<&'static [u8]>, usize),
) -> Result<(), Cause> {
    http.trace_request(Way::Sent, conn.port.line.is_framed());
    if conn.port.line.is_framed() {
        return send_frames(http, conn, up);
    }
    if http.client.line.is_framed() && framed::as_http1(http).is_err() {
        return Err(Cause::RequestRewriteFailed);
    }
    let Some(mut head) = encode_head(http, connection) else { return Err(Cause::NoBuffer) };
    http.state.facts.req_bytes_out += head.len() as u64;
    // The same head was encoded for that, and nothing has changed it since.
    debug_assert!(sent_early <= head.len());
    head.advance(sent_early.min(head.len()));
    let body = match up.take(http.client) {
        Ok(body) => body,
        Err(_) => {
            http.note_refused_bodies(None);
            return Err(Cause::BadRequestBody);
        }
    };
    if head.is_empty() && body.is_none() {
        return Ok(());
    }
    // A connection that just sent a PROXY header may still be busy with it; then the head waits in the pump.
    match conn.port.line.poll_send_ready() {
        Poll::Ready(Ok(())) => send_with(&mut conn.port.line, head, body),
        Poll::Pending => up.hold(head, body),
        // The failure shows again when the response is waited for.
        Poll::Ready(Err(_)) => {}
    }
    Ok(())
}

/// The same in frames.
fn send_frames(http: &mut Stream<'_>, conn: &mut ServerConn, up: &mut Pump) -> Result<(), Cause> {
    let Ok(first) = up.take_first(http.client) else {
        http.note_refused_bodies(None);
        return Err(Cause::BadRequestBody);
    };
    let line = &mut conn.port.line;
    line.open_stream(&http.state.request, framed::scheme(http.state), first.ends_with_head);
    http.state.facts.req_bytes_out += http.state.request.encoded_len() as u64;
    up.send_first(first, line);
    Ok(())
}

/// Sends a request that has no body to another server as well. `None` when that cannot be done.
pub fn ask_again(http: &mut Stream<'_>, be: &Proxy, server: &Server, conn: &mut ServerConn) -> Option<Pump> {
    send_name(http, be, server);
    let (_, connection) = connection_field(http, be);
    let mut up = upload(http, be, conn.port.line.is_framed());
    send_request(http, conn, &mut up, (connection, 0)).ok()?;
    Some(up)
}

/// Whether a tunnel may go on where the request ended.
fn goes_on(http: &Stream<'_>) -> bool {
    http.state.request_framing.upgrade || http.state.request.method() == Method::Connect
}

/// What came of waiting for a response's head.
pub enum HeadEnd {
    Received,
    /// Another server began to answer, and has taken the place of the first.
    Overtaken,
    /// The server said that it did not process the request.
    Refused,
    /// The server gave up the request, and not its connection.
    GaveUp,
    /// The same, as nobody waits for it any more.
    Cancelled,
    /// The connection to the server ended in order.
    ServerClosed,
    ServerReset,
    ServerTimeout,
    /// The server did not take the request in time.
    ServerStuck,
    /// The server went down and its streams must not outlive that (`on-marked-down`, `on-marked-up`).
    Shut,
    Malformed,
    /// The client ended its direction, or left in the middle of its request.
    ClientLeft,
    /// The client broke its connection after its request.
    ClientReset,
    ClientTimeout,
    BadBody,
    NoBuffer,
}

/// Waits for the head of the final response, forwarding interim ones, while the request's body is sent.
async fn receive_head<'a>(
    http: &mut Stream<'a>,
    be: &'a Proxy,
    with: &mut Engaged<'_, 'a>,
    up: &mut Pump,
    context: RequestContext,
    waits: &mut Waits,
    hedge: &mut Hedge<'a>,
) -> HeadEnd {
    let fe = http.frontend();
    // Of a body that may be spliced, only what comes with the head is copied.
    let room = match transfer_mode(http, be.opts.splice_response || fe.opts.splice_response, be, fe) {
        Some(TransferMode::Splice) => RECV_MAX,
        Some(TransferMode::Auto) if std::mem::take(&mut with.conn.port.was_moved) => RECV_MAX,
        _ => BULK_SIZE,
    };
    let wanted = Wanted { options: http.response_options(be), context, room };
    let abort = be.opts.abortonclose;
    let mut upload_done = false;
    loop {
        let shut = shut_check(http.worker, http.state);
        http.state.parser.reset();
        let end = std::future::poll_fn(|cx| {
            if shut() {
                return Poll::Ready(HeadEnd::Shut);
            }
            if !upload_done {
                match poll_upload(http, with.conn, up) {
                    Poll::Pending => {}
                    Poll::Ready(None) => upload_done = true,
                    Poll::Ready(Some(end)) => return Poll::Ready(end),
                }
            }
            let up_waits = up.blocked_on_send || up.is_held_back();
            if (upload_done || up_waits)
                && let Some(end) = departed(http, abort, upload_done)
            {
                return Poll::Ready(end);
            }
            let head = match upload_done && !hedge.is_off() {
                true => hedge.poll_head(http, be, with, &wanted, cx),
                false => poll_head(http, with.conn, &wanted),
            };
            if head.is_ready() {
                return head;
            }
            let owed = match upload_done {
                true if bug("timer-left") => (Expects::Bytes, Expects::Head),
                true => (Expects::Nothing, Expects::Head),
                false if up_waits => (Expects::Nothing, Expects::Nothing),
                false => (Expects::Bytes, Expects::Nothing),
            };
            overdue(http, with.conn, waits, owed, !upload_done && up.blocked_on_send)
        })
        .await;
        let end = match end {
            // Nobody may switch before the request is complete (RFC 9110 section 7.8).
            HeadEnd::Received if http.state.response.status() == 101 && !upload_done => HeadEnd::Malformed,
            end => end,
        };
        if matches!(end, HeadEnd::Overtaken) {
            continue;
        }
        hedge.call_off();
        let received = matches!(end, HeadEnd::Received);
        if !received || !is_interim(http.state.response.status()) {
            if received {
                with.conn.port.begin_response_body(http.state.response.framing().body, &wanted.options);
            }
            http.count_sent_body();
            return end;
        }
        // An interim response: the final one follows.
        count_interim(http, be);
        reply::forward_interim(http).await;
        waits.server.renew();
    }
}

/// Whether the client or the server is late with what each owes. While the body is being received it is the client who is waited for,
/// unless the server does not take what was received: `is_blocked` says so of what waits for it here.
#[inline]
fn overdue(
    http: &Stream<'_>,
    conn: &ServerConn,
    waits: &mut Waits,
    (client_owes, server_owes): (Expects, Expects),
    is_blocked: bool,
) -> Poll<HeadEnd> {
    if waits.client.check(&http.client.line, client_owes, false).is_some() {
        return Poll::Ready(HeadEnd::ClientTimeout);
    }
    match waits.server.check(&conn.port.line, server_owes, is_blocked || conn.port.line.in_flight() > 0) {
        None => Poll::Pending,
        Some(Overdue::Stuck) => Poll::Ready(HeadEnd::ServerStuck),
        Some(_) => Poll::Ready(HeadEnd::ServerTimeout),
    }
}

/// The server's requests are counted by their responses, and so that the classes add up to them, an interim one is one more.
fn count_interim(http: &Stream<'_>, be: &Proxy) {
    if let Some(server) = http.state.facts.server {
        let counters = http.worker.srv_counters(be.id, ServerId(server.index));
        counters.requests.add(1);
        counters.response(http.state.response.status());
    }
}

/// Whether the client is gone although a response is waited for.
fn departed(http: &mut Stream<'_>, abort: bool, upload_done: bool) -> Option<HeadEnd> {
    match http.client.line.departure() {
        // In frames, who resets a request before its end has not sent all of it.
        Departure::Reset if !upload_done && http.client.line.is_framed() => Some(HeadEnd::ClientLeft),
        Departure::Reset => Some(HeadEnd::ClientReset),
        Departure::Ended if abort && upload_done => Some(HeadEnd::ClientLeft),
        _ => None,
    }
}

/// Sends what is there of the request's body. `None` at its end, or when the server takes no more of it: it may have
/// answered already.
#[inline]
fn poll_upload(http: &mut Stream<'_>, conn: &mut ServerConn, up: &mut Pump) -> Poll<Option<HeadEnd>> {
    up.poll(http.client, &mut conn.port.line).map(|sent| match sent {
        Ok(()) | Err(PumpError::Send(_)) => None,
        Err(PumpError::Cut(Cut::Malformed(_))) => Some(HeadEnd::BadBody),
        Err(PumpError::Cut(Cut::NoBuffer)) => Some(HeadEnd::NoBuffer),
        Err(PumpError::Cut(Cut::Broken(_) | Cut::Closed)) => {
            http.client.eof = true;
            Some(HeadEnd::ClientLeft)
        }
    })
}

impl From<Result<(), NoHead>> for HeadEnd {
    fn from(came: Result<(), NoHead>) -> HeadEnd {
        match came {
            Ok(()) => HeadEnd::Received,
            Err(NoHead::Refused) => HeadEnd::Refused,
            Err(NoHead::Malformed) => HeadEnd::Malformed,
            Err(NoHead::GaveUp) => HeadEnd::GaveUp,
            Err(NoHead::Cancelled) => HeadEnd::Cancelled,
            Err(NoHead::Gone) => HeadEnd::ServerReset,
        }
    }
}

/// How a response's head is read.
pub struct Wanted {
    options: ParseOptions,
    context: RequestContext,
    /// Most bytes taken by one receive.
    room: usize,
}

/// Receives and reads what is there of a response's head.
// There are two callers since requests may be hedged: the usual one is not to pay a call for that.
#[inline(always)]
pub fn poll_head(http: &mut Stream<'_>, conn: &mut ServerConn, wanted: &Wanted) -> Poll<HeadEnd> {
    let Wanted { options, context, room } = wanted;
    if let Line::Mux(stream) = &mut conn.port.line {
        return framed::poll_response(stream, http.state, context).map(HeadEnd::from);
    }
    loop {
        if let Some(input) = conn.port.input.as_mut() {
            let state = &mut *http.state;
            match state.parser.parse_response(options, context, input, &mut state.response) {
                Ok(Parsed::Complete(len)) => {
                    input.advance(len);
                    state.facts.res_bytes_in += len as u64;
                    if input.is_empty() {
                        conn.port.input = None;
                    }
                    return Poll::Ready(HeadEnd::Received);
                }
                Ok(Parsed::Partial) => {}
                Err(error) => {
                    let fault = Fault {
                        side: Side::Response,
                        bytes: input,
                        position: error.offset,
                        why: &error.kind,
                    };
                    http.worker.note_refused(http.session.frontend, http.source(), http.state, &fault);
                    if bug("buffer-leak") {
                        std::mem::forget(conn.port.input.take());
                    }
                    return Poll::Ready(HeadEnd::Malformed);
                }
            }
        }
        let Poll::Ready(received) = conn.port.poll_recv_up_to(*room) else { return Poll::Pending };
        match received {
            Ok(buf) if buf.is_empty() => return Poll::Ready(HeadEnd::ServerClosed),
            Ok(buf) => match conn.port.append(buf) {
                Ok(()) => {}
                Err(_) => return Poll::Ready(HeadEnd::NoBuffer),
            },
            Err(_) => return Poll::Ready(HeadEnd::ServerReset),
        }
    }
}

/// No usable head came: decides between another attempt and an error.
fn head_failed<'a>(
    http: &mut Stream<'a>,
    (be, server): (&'a Proxy, &'a Server),
    conn: &ServerConn,
    end: HeadEnd,
    mut replay: Replay,
) -> Exchanged<'a> {
    let nothing_came = conn.port.input.is_none();
    let was_reset = matches!(end, HeadEnd::ServerReset) && !conn.port.line.is_framed();
    let passed_on = reset_to_pass_on(http, conn, &end);
    let cause = match end {
        HeadEnd::Received | HeadEnd::Overtaken => return Exchanged::Failed(Stop::Ended(After::Drop)),
        // It is safe to send again, once.
        HeadEnd::Refused if conn.reused && replay.restore(http).is_some() => return Exchanged::Repeat,
        // Nothing came on a connection that was idle before: the server had closed it, or was about to, when it was taken.
        // What is safe to send twice is sent again on a fresh one (RFC 9112 section 9.3.1).
        HeadEnd::ServerClosed | HeadEnd::ServerReset if conn.reused && nothing_came => {
            if is_idempotent(http) && replay.restore(http).is_some() {
                return Exchanged::Repeat;
            }
            // A client whose connection was kept knows that it may end this way, and may send the request again itself.
            if http.needs_fresh_connection() {
                Cause::IdleConnectionLostAtFirst
            } else {
                Cause::IdleConnectionLost
            }
        }
        HeadEnd::Refused | HeadEnd::GaveUp | HeadEnd::Cancelled => Cause::NoResponse,
        HeadEnd::ServerClosed | HeadEnd::ServerReset if nothing_came => Cause::NoResponse,
        // A head that is cut is an invalid response.
        HeadEnd::ServerClosed | HeadEnd::ServerReset => Cause::ResponseHeadCut,
        HeadEnd::ServerTimeout => Cause::ResponseTimeout,
        HeadEnd::ServerStuck => Cause::ServerStuck,
        HeadEnd::Malformed => Cause::BadResponse,
        HeadEnd::ClientLeft => Cause::ClientLeftWaiting,
        HeadEnd::ClientReset => Cause::ClientResetWaiting,
        HeadEnd::ClientTimeout => Cause::ClientSilentInBody,
        HeadEnd::Shut => return Exchanged::Failed(waiting::server_shut(http)),
        HeadEnd::BadBody => {
            http.note_refused_bodies(None);
            Cause::BadRequestBody
        }
        HeadEnd::NoBuffer => Cause::NoBuffer,
    };
    if was_reset {
        http.state.facts.bc_error = ConnError::ERESET;
    }
    finish::note_failed_server_tls(http, &conn.port);
    match cause {
        Cause::BadResponse | Cause::ResponseHeadCut => {
            observe_failure(http.worker, be, server, Seen::Malformed)
        }
        Cause::NoResponse => observe_failure(http.worker, be, server, Seen::Ended),
        Cause::ResponseTimeout => observe_failure(http.worker, be, server, Seen::Timeout),
        _ => {}
    }
    if ending::may_retry(http.state, &be.retry_on, cause)
        && assign::pays_retry(http.worker, be)
        && replay.restore(http).is_some()
    {
        ending::retried(http.worker, http.session.listener, http.state, cause);
        return Exchanged::Retry;
    }
    match passed_on {
        Some(code) => Exchanged::Failed(http.stop_with_reset(cause, code)),
        None => Exchanged::Failed(http.stop(cause)),
    }
}

/// What a client that has resets is told by one, in place of the answer to a request that failed: that nobody waits for it any more,
/// which one of gRPC takes for the end of its time; and that nothing was processed, where only the client has the request still.
fn reset_to_pass_on(http: &Stream<'_>, conn: &ServerConn, end: &HeadEnd) -> Option<ErrorCode> {
    match end {
        _ if !http.client.line.is_framed() => None,
        HeadEnd::Cancelled => Some(ErrorCode::Cancel),
        HeadEnd::Refused if conn.reused => Some(ErrorCode::RefusedStream),
        _ => None,
    }
}

/// The room for a head of `head` bytes beside `body` buffered bytes: what is left of the buffer, and at least
/// `tune.maxrewrite` more than the head has.
pub fn head_limit(bufsize: usize, maxrewrite: usize, head: usize, body: usize) -> usize {
    bufsize.saturating_sub(body).max(head + maxrewrite).min(bufsize)
}

/// `http-response` rules of the backend, then of the frontend, as far as there are any.
pub fn http_rules_on_responses<'a>(be: &'a Proxy, fe: &'a Proxy) -> impl Iterator<Item = &'a Ruleset> {
    let of_frontend = (be.id != fe.id).then_some(&*fe.rules.http_response);
    [Some(&*be.rules.http_response), of_frontend].into_iter().flatten().filter(|rules| !rules.is_empty())
}

/// Bounds what rules may make of the response's head.
fn limit_response(http: &mut Stream<'_>, conn: &ServerConn) {
    let tune = &http.worker.instance.config.global.tune;
    let buffered = conn.port.received().len();
    let head = &mut http.state.response;
    head.set_limit(head_limit(tune.bufsize, tune.maxrewrite, head.encoded_len(), buffered));
}

/// Whether the server asks the client to authenticate its connection rather than its requests (NTLM, and Negotiate, which
/// may come to that): whoever sends a request on that connection later does so in the client's name.
fn authenticates_connection(response: &Head) -> bool {
    let field = match response.status() {
        401 => HeaderId::WwwAuthenticate,
        407 => HeaderId::ProxyAuthenticate,
        _ => return false,
    };
    let names_one = |scheme: &[u8]| {
        scheme.get(..4).is_some_and(|s| s.eq_ignore_ascii_case(b"NTLM") || s.eq_ignore_ascii_case(b"Nego"))
    };
    response.get_all(field).flat_map(|field| list(field.value)).any(names_one)
}

/// Whether a `Connection` field asks for the end of the connection.
fn says_close(value: &[u8]) -> bool {
    value.split(|b| *b == b',').any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"))
}

/// Sends the response to the client, and decides what becomes of both connections.
async fn download<'a>(
    http: &mut Stream<'a>,
    conn: &mut ServerConn,
    up: &mut Pump,
    keep_server: bool,
    waits: &mut Waits,
) -> After {
    let keep_server = keep_server && http.state.response.framing().keep_alive;
    let delivered = pin!(deliver(http, &mut conn.port, up, waits, Maker::Server)).await;
    match delivered {
        Delivered::Whole => {}
        Delivered::Not(cause) => {
            http.note_refused_bodies(Some(&conn.port));
            finish::note_failed_server_tls(http, &conn.port);
            return http.end(cause);
        }
        Delivered::RewriteFailed => return reply::internal_error(http, Cause::AfterRewriteFailed).await,
        Delivered::BadBody => {
            http.note_refused_bodies(Some(&conn.port));
            // Nothing was sent yet, so the client can still be told.
            http.end(Cause::BadFirstChunk);
            http.state.facts.timers.response_us = -1;
            return reply::send(http, Answer::Error(502)).await;
        }
    }
    let kept = keep_server && up.is_done(http.client);
    if kept && conn.port.line.in_flight() > 0 && !conn.port.line.is_framed() {
        // The end of the request went out after the response had come, and the kernel has not said yet that it took it. It
        // takes no time, unless the server does not read; then the connection is no use.
        let soon = Some(timer::deadline_in(FLUSH_MS));
        let _ = timer::timeout_at(soon, conn.port.line.send_ready()).await;
    }
    conn.keep = kept && conn.port.is_idle() && http.worker.instance.stopping() == Stopping::No;
    // What is left of the request's body has nowhere to go. When all of it is here, another request may follow.
    if http.client.discard_body().is_err() || !http.client.body.is_ended() {
        http.keep_alive = false;
    }
    if http.keep_alive && !http.client.eof { After::KeepAlive } else { After::Close }
}
