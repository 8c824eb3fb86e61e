//! The life of a TCP stream: inspect, choose a backend and a server, relay, log.

use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use thalweg_config::model::{LogStep, Mode, Proxy, ProxyId, ServerId};
use thalweg_rules::Kind;
use thalweg_runtime::clock;
use thalweg_runtime::net::TransferMode;

use super::attempt::Attempts;
use super::deadline::Limits;
use super::ending::Cause;
use super::entry::unless_killed;
use super::filter::{Direction, Filtered};
use super::finish;
use super::pump::Pump;
use super::relay::{RelayEnd, relay};
use super::rules::{self, Passed, Source};
use super::tally::{count_held_response, count_sent, count_unsent};
use super::waiting::Upward;
use super::{After, Stop, Stream, StreamState, route, shut_check, stick};
use crate::backend::connect::ServerConn;
use crate::connection::body::BodyReader;
use crate::connection::port::Port;
use crate::frontend::ClientSession;
use crate::stopping::Stopping;
use crate::traces;
use crate::worker::Worker;

/// What a TCP stream came to.
pub enum TcpEnd {
    /// Over. True when the connection may be closed in order.
    Over { orderly: bool },
    /// `switch-mode http`, or a backend that speaks HTTP: the stream goes on as HTTP, with the backend that it has got to.
    BecameHttp(Option<ProxyId>),
}

/// Serves one TCP connection.
pub async fn serve(
    worker: &Worker,
    session: &ClientSession,
    client: &mut Port,
    state: &mut StreamState,
) -> TcpEnd {
    state.begin(session.frontend, false, true);
    let t = &mut state.facts.timers;
    t.accept_mono_us = session.facts().accept_mono_us;
    t.accept_wall_us = session.facts().accept_wall_us;
    t.request_wall_us = session.facts().accept_wall_us;
    t.handshake_us = i64::from(session.facts().handshake_us.max(0));
    let fe = worker.proxy(session.frontend);
    super::inherit_settings(&mut state.facts, fe, true);
    state.facts.req_captures.reset(fe.request_captures.len());
    state.facts.res_captures.reset(fe.response_captures.len());
    state.facts.log_early = fe.opts.logasap;
    state.facts.timeouts.client = fe.timeouts.client.unwrap_or(0);
    state.facts.id = worker.next_stream_id();
    // To the process every stream is a request.
    worker.counters().process.requests.add(1);
    let mut stream = Stream::new(worker, session, client, state, true);
    let entry = Rc::clone(&stream.state.entry);
    entry.begin(stream.state.facts.id, fe.id, stream.session.facts().source());
    stream.trace(traces::STREAM_NEW);
    if worker.live.tracing.wants_ends() {
        stream.begin_trace();
    }
    // Nothing that comes is a message: rules look at all of it.
    stream.client.body.begin_until_close();
    let end = unless_killed(entry, pin!(run(&mut stream))).await;
    let end = match end.unwrap_or_else(|| Err(stream.killed())) {
        Ok(TcpEnd::BecameHttp(backend)) => {
            stream.client.body = BodyReader::default();
            stream.state.facts.backend_assigned = false;
            stream.state.entry.end();
            return TcpEnd::BecameHttp(backend);
        }
        Ok(end) => end,
        Err(stop) => TcpEnd::Over { orderly: !matches!(stop, Stop::Ended(After::Drop)) },
    };
    let fe = worker.proxy(stream.session.frontend);
    let now = stream.elapsed_us();
    stream.state.facts.timers.close_us = now;
    finish::note_failed_tls(stream.session, stream.client);
    finish::stream_counters(worker, stream.session, stream.state);
    if !fe.opts.logasap || stream.state.facts.timers.connect_us < 0 {
        finish::log_stream(worker, stream.session, stream.state, fe);
    }
    if worker.live.tracing.wants_ends() {
        stream.trace(traces::STREAM_FREE);
        stream.record_span();
    }
    stream.state.facts.backend_assigned = false;
    end
}

/// The client is told in order that nothing more comes.
const ENDED: TcpEnd = TcpEnd::Over { orderly: true };

async fn run<'a>(stream: &mut Stream<'a>) -> Result<TcpEnd, Stop<'a>> {
    let fe = stream.frontend();
    stream.log_step(LogStep::Accept);
    if content_rules(stream, fe).await? == Passed::AsHttp {
        return become_http(stream, None);
    }
    let Some(be) = route::backend(stream, fe) else {
        return Err(stream.stop(Cause::NoBackend));
    };
    if be.mode == Mode::Http && fe.mode == Mode::Tcp {
        return become_http(stream, Some(be.id));
    }
    route::enter(stream, be);
    if be.id != fe.id && content_rules(stream, be).await? == Passed::AsHttp {
        return become_http(stream, Some(be.id));
    }
    let end = if stream.broken {
        Err(stream.stop(Cause::ClientResetInRules))
    } else {
        talk_to_server(stream, fe, be).await
    };
    if stream.state.facts.timers.connect_us < 0 {
        count_unsent(stream);
    }
    end
}

/// The stream becomes one of HTTP, unless its listener has that nothing but bytes is spoken there (`proto none`).
fn become_http<'a>(stream: &mut Stream<'a>, backend: Option<ProxyId>) -> Result<TcpEnd, Stop<'a>> {
    let bind = stream.worker.instance.bind(stream.session.listener);
    if bind.proto.as_deref() == Some("none") {
        return Err(stream.stop(Cause::RejectedByRule));
    }
    Ok(TcpEnd::BecameHttp(backend))
}

/// `tcp-request content`.
async fn content_rules<'a>(stream: &mut Stream<'a>, proxy: &'a Proxy) -> Result<Passed<'a>, Stop<'a>> {
    let content = &proxy.rules.tcp_content_req;
    if content.is_empty() {
        return Ok(Passed::On);
    }
    receive_what_is_there(stream).await;
    rules::run(stream, proxy, content, Kind::TcpRequest, &mut Source::Client).await
}

/// Most clients speak first, and what they say is there by now: rules look at it, and it is counted.
async fn receive_what_is_there(stream: &mut Stream<'_>) {
    for again in [true, false] {
        if stream.client.has_input() || stream.client.eof {
            return;
        }
        match stream.client.poll_recv() {
            Poll::Ready(Ok(buf)) if !buf.is_empty() => stream.client.keep(buf),
            Poll::Ready(end) => note_end(stream, end.is_err()),
            Poll::Pending if again => thalweg_runtime::yield_now().await,
            Poll::Pending => {}
        }
    }
}

/// Nothing more comes of the client.
fn note_end(stream: &mut Stream<'_>, broken: bool) {
    stream.client.eof = true;
    stream.broken |= broken;
}

async fn talk_to_server<'a>(
    stream: &mut Stream<'a>,
    fe: &'a Proxy,
    be: &'a Proxy,
) -> Result<TcpEnd, Stop<'a>> {
    let worker = stream.worker;
    let mut attempts = Attempts::new(be, route::choice(stream, be));
    let conn = loop {
        let server = match attempts.next_at_once(stream) {
            Some(server) => server,
            None => attempts.next(stream).await?,
        };
        if let Some(target) = attempts.take_idle(stream, server) {
            attempts.open(stream, server, target).await?;
        }
        if let Some(with) = attempts.connected(stream, server) {
            break with.conn;
        }
    };
    if fe.opts.logasap {
        finish::log_early_tcp(worker, stream.session, stream.state, fe);
    }
    let splice = |wanted: bool| {
        let auto = be.opts.splice_auto || fe.opts.splice_auto;
        let global = &worker.instance.config.global;
        let allowed = !global.nosplice && !global.tune.disable_zero_copy && global.tune.pt_zero_copy;
        Some(if allowed && (wanted || auto) { TransferMode::Splice } else { TransferMode::Copy })
    };
    let since_ms = clock::now_ms();
    let limits =
        Limits::of_relay(fe, be, &stream.state.facts, false).map(|limits| Limits { since_ms, ..limits });
    conn.port.body.begin_until_close();
    let mut up = Pump::plain(splice(be.opts.splice_request || fe.opts.splice_request));
    let mut down = Pump::plain(splice(be.opts.splice_response || fe.opts.splice_response));
    up.filter(Filtered::of(Direction::Request, worker, fe, be));
    down.filter(Filtered::of(Direction::Response, worker, fe, be));
    limit(stream, &mut up);
    if let Some(end) = response_rules(stream, be, conn, &mut up).await? {
        count_held_response(stream, &conn.port);
        if end == RelayEnd::ClientAborted {
            conn.port.line.set_linger_rst();
        }
        return end.cause().map_or(Ok(ENDED), |cause| Err(stream.stop(cause)));
    }
    if !be.stick_rules.is_empty()
        && let Some(server) =
            stream.state.facts.server.and_then(|id| stream.worker.server(be, ServerId(id.index)))
    {
        stick::response(stream, be, server, &conn.port);
    }
    limit(stream, &mut up);
    limit(stream, &mut down);
    count_sent(stream);
    let shut = shut_check(worker, stream.state);
    let relayed = relay(stream.client, &mut conn.port, [up, down], limits, || {
        worker.instance.stopping() == Stopping::Hard || shut()
    })
    .await;
    let cause = if shut() { Some(Cause::ServerWentDownInBody) } else { relayed.end.cause() };
    finish::note_failed_server_tls(stream, &conn.port);
    stream.state.facts.req_bytes_in += relayed.up;
    stream.state.facts.req_bytes_out += relayed.up;
    stream.state.facts.res_bytes_in += relayed.down;
    stream.state.facts.res_bytes_out += relayed.down;
    if relayed.end == RelayEnd::ClientAborted {
        // The server hears of it in the same way: not everything was said.
        conn.port.line.set_linger_rst();
    }
    drop(attempts);
    cause.map_or(Ok(ENDED), |cause| Err(stream.stop(cause)))
}

/// Turns on the bandwidth limitations that rules asked for.
fn limit(stream: &Stream<'_>, pump: &mut Pump) {
    if let Some(filters) = pump.filters() {
        filters.apply(&stream.state.effects.bandwidth, clock::now_ms());
    }
}

/// `tcp-response content` rules, on the first bytes of the server. Gives the end of the stream if one side broke its
/// connection meanwhile.
async fn response_rules<'a>(
    stream: &mut Stream<'a>,
    be: &'a Proxy,
    conn: &mut ServerConn,
    up: &mut Pump,
) -> Result<Option<RelayEnd>, Stop<'a>> {
    let content = &be.rules.tcp_content_res;
    if content.is_empty() {
        return Ok(None);
    }
    // What the client has said goes to the server first: a rule that closes at once must not keep it back. Whatever else
    // comes of it shows again when the streams are relayed.
    let _ = std::future::poll_fn(|_| Poll::Ready(up.poll(stream.client, &mut conn.port.line))).await;
    let mut source = Source::Server { port: &mut conn.port, up: Some(Upward::through(up)) };
    let _ = rules::run(stream, be, content, Kind::TcpResponse, &mut source).await?;
    Ok(match source {
        Source::Server { up: Some(up), .. } => up.broken,
        _ => None,
    })
}
