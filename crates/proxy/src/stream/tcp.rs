//! The life of a TCP stream: inspect, choose a backend and a server, relay, log.

use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use thalweg_balance::ServerIndex;
use thalweg_config::model::{DynamicTarget, LogStep, Mode, Proxy, UseServerTarget};
use thalweg_rules::Kind;
use thalweg_runtime::net::{Departure, TransferMode};
use thalweg_runtime::{clock, timer};
use thalweg_sample::acl::Verdict;
use thalweg_sample::context::Payload;
use thalweg_sample::facts;

use super::deadline::Limits;
use super::ending::{self, Cause};
use super::entry::unless_killed;
use super::filter::{Direction, Filtered};
use super::finish;
use super::http::Lease;
use super::pump::Pump;
use super::relay::{RelayEnd, relay};
use super::rules::{self, Passed, Source};
use super::waiting::{self, Upward};
use super::{After, Bodies, Stop, Stream, StreamState, shut_check, unless_shut};
use crate::backend::assign::{self, Choice, NoServer};
use crate::backend::connect::{ConnectError, ServerConn};
use crate::connection::body::BodyReader;
use crate::connection::port::Port;
use crate::frontend::ClientSession;
use crate::instance::Stopping;
use crate::worker::Worker;

/// What a TCP stream came to.
pub enum TcpEnd {
    /// Over. True when the connection may be closed in order.
    Over { orderly: bool },
    /// `switch-mode http`, or a backend that speaks HTTP: the stream goes on as HTTP.
    BecameHttp,
}

/// Serves one TCP connection.
pub async fn serve(
    worker: &Worker,
    session: &mut ClientSession,
    client: &mut Port,
    state: &mut StreamState,
) -> TcpEnd {
    state.begin(session.frontend, false, true);
    let t = &mut state.facts.timers;
    t.accept_mono_us = session.facts.accept_mono_us;
    t.accept_wall_us = session.facts.accept_wall_us;
    t.request_wall_us = session.facts.accept_wall_us;
    t.handshake_us = session.facts.handshake_us.max(0);
    let fe = worker.proxy(session.frontend);
    super::inherit_settings(&mut state.facts, fe, true);
    state.facts.log_early = fe.opts.logasap;
    state.facts.timeouts.client = fe.timeouts.client.unwrap_or(0);
    state.facts.id = worker.next_stream_id();
    let mut stream = Stream::new(worker, session, client, state, true);
    let entry = Rc::clone(&stream.state.entry);
    entry.begin(stream.state.facts.id, fe.id, stream.session.facts.source());
    // Nothing that comes is a message: rules look at all of it.
    stream.client.body.begin_until_close();
    let end = unless_killed(entry, pin!(run(&mut stream))).await;
    let end = match end.unwrap_or_else(|| Err(stream.killed())) {
        Ok(TcpEnd::BecameHttp) => {
            stream.client.body = BodyReader::default();
            stream.state.facts.backend_assigned = false;
            return TcpEnd::BecameHttp;
        }
        Ok(end) => end,
        Err(stop) => TcpEnd::Over { orderly: !matches!(stop, Stop::Ended(After::Drop)) },
    };
    let fe = worker.proxy(stream.session.frontend);
    let now = stream.elapsed_us();
    stream.state.facts.timers.close_us = now;
    finish::stream_counters(worker, stream.session, stream.state);
    if !fe.opts.logasap || stream.state.facts.timers.connect_us < 0 {
        finish::log_stream(worker, stream.session, stream.state, fe);
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
        return Ok(TcpEnd::BecameHttp);
    }
    let Some(be) = choose_backend(stream, fe) else {
        return Err(stream.stop(Cause::NoBackend));
    };
    if be.mode == Mode::Http && fe.mode == Mode::Tcp {
        return Ok(TcpEnd::BecameHttp);
    }
    stream.state.facts.backend = facts::ProxyId(be.id.0);
    stream.state.facts.backend_assigned = true;
    stream.state.entry.set_backend(be.id);
    if be.id != fe.id {
        super::inherit_settings(&mut stream.state.facts, be, false);
    }
    stream.in_backend = Some(stream.worker.begin_stream(be.id));
    if be.id != fe.id && content_rules(stream, be).await? == Passed::AsHttp {
        return Ok(TcpEnd::BecameHttp);
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

/// Counts what the client said although it went nowhere, up to what would have been looked at.
pub fn count_unsent(stream: &mut Stream<'_>) {
    let tune = &stream.worker.instance.config.global.tune;
    let mut said = stream.client.received().len();
    said += stream.client.line.discard_input((tune.bufsize - tune.maxrewrite).saturating_sub(said));
    stream.state.facts.req_bytes_in += said as u64;
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
            Poll::Ready(Ok(buf)) if !buf.is_empty() => drop(stream.client.append(buf)),
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

fn choose_backend<'a>(stream: &mut Stream<'a>, fe: &'a Proxy) -> Option<&'a Proxy> {
    for rule in &fe.use_backend {
        let data: &[u8] = stream.client.received();
        let bodies = Bodies { request: Payload::new(data, true, None), response: Payload::default() };
        let worker = stream.worker;
        let chosen =
            stream.state.evaluate(worker, &mut stream.session.facts, bodies, false, true, |cx, _| {
                if rule.cond.as_ref().is_some_and(|c| c.eval(cx) != Verdict::Pass) {
                    return None;
                }
                match &rule.target {
                    DynamicTarget::Static(id) => Some(Some(*id)),
                    DynamicTarget::Dynamic(format) => {
                        let mut text = worker.text.borrow_mut();
                        text.clear();
                        format.render(cx, &mut text);
                        Some(worker.instance.backend_by_name(&text).map(|p| p.id))
                    }
                }
            });
        match chosen {
            Some(Some(id)) if !worker.instance.is_eligible(id) => {}
            Some(Some(id)) => return Some(worker.proxy(id)),
            Some(None) => break,
            None => {}
        }
    }
    fe.default_backend.or_else(|| fe.is_be().then_some(fe.id)).map(|id| stream.worker.proxy(id))
}

/// `force-persist` and `ignore-persist`: the first one that holds.
fn persist_rules(stream: &mut Stream<'_>, be: &Proxy) {
    for rule in &be.persist_rules {
        let facts = &mut stream.session.facts;
        let holds = stream.state.evaluate(stream.worker, facts, Bodies::default(), false, true, |cx, _| {
            rule.cond.eval(cx) == Verdict::Pass
        });
        if holds {
            stream.state.cookie.ignored = !rule.force;
            stream.state.cookie.forced = rule.force;
            return;
        }
    }
}

fn choice<'a>(stream: &mut Stream<'a>, be: &'a Proxy) -> Choice {
    persist_rules(stream, be);
    // A server that is down is not insisted on, unless that is asked for.
    let insist = be.opts.persist || stream.state.cookie.forced;
    for rule in &be.use_server {
        let worker = stream.worker;
        let found = stream.state.evaluate(
            worker,
            &mut stream.session.facts,
            Bodies::default(),
            false,
            true,
            |cx, _| {
                if rule.cond.as_ref().is_some_and(|c| c.eval(cx) != Verdict::Pass) {
                    return None;
                }
                match &rule.server {
                    UseServerTarget::Static(id) => Some(*id),
                    UseServerTarget::Dynamic(format) => {
                        let mut text = worker.text.borrow_mut();
                        text.clear();
                        format.render(cx, &mut text);
                        let name = std::str::from_utf8(&text).ok()?;
                        worker.backend(be.id).server_by_name(be, name).map(|s| s.id)
                    }
                }
            },
        );
        if let Some(id) = found.filter(|id| insist || worker.backend(be.id).is_up(*id)) {
            return Choice { wanted: Some(ServerIndex(id.0)), ..Choice::default() };
        }
    }
    if let (Some(name), Some(input)) = (&be.persist_rdp_cookie, stream.client.input.as_deref())
        && !stream.state.cookie.ignored
        && let Some(server) = super::cookie::rdp_server(stream.worker, be, name, input, insist)
    {
        return Choice { wanted: Some(server), ..Choice::default() };
    }
    let key = match &be.balance.algo {
        thalweg_config::model::BalanceAlgo::Hash(expr) => {
            let data: &[u8] = stream.client.received();
            let bodies = Bodies { request: Payload::new(data, true, None), response: Payload::default() };
            stream.state.evaluate(stream.worker, &mut stream.session.facts, bodies, false, true, |cx, _| {
                let sample = expr.eval_as(thalweg_sample::Type::Bin, cx)?;
                Some(assign::hasher(be).bytes(cx.bytes(&sample.value)))
            })
        }
        _ => {
            let data = stream.client.input.as_deref().unwrap_or(&[]);
            assign::key_hash(be, &stream.session.facts, &stream.state.facts, None, data)
        }
    };
    Choice { key, ..Choice::default() }
}

async fn talk_to_server<'a>(
    stream: &mut Stream<'a>,
    fe: &'a Proxy,
    be: &'a Proxy,
) -> Result<TcpEnd, Stop<'a>> {
    let mut choice = choice(stream, be);
    let worker = stream.worker;
    let abort = be.opts.abortonclose;
    let mut held: Option<Lease<'a>> = None;
    // The server of the attempt that failed, and whether another one there should wait a little.
    let mut failed = None;
    let mut conn = loop {
        let chosen_again = held.is_none();
        let id = match &held {
            Some(lease) => lease.server(),
            None => {
                let client = &mut *stream.client;
                let gave_up = || waiting::has_left(client, abort) || came_for_nothing(client);
                let timeout = be.timeouts.queue.or(be.timeouts.connect);
                let assigned =
                    assign::assign(worker, be, choice, &mut stream.state.facts, timeout, gave_up).await;
                let slot = match assigned {
                    Ok(slot) => slot,
                    Err(why) => return Err(no_server(stream, why)),
                };
                held = Some(Lease::new(worker, be.id, slot));
                let id = slot.server();
                stream.state.assign_server(worker, id);
                stream.state.facts.timers.queue_us = stream.elapsed_us();
                id
            }
        };
        if let Some((before, wait)) = failed.take() {
            finish::count_retry(worker, stream.state, before, id, false);
            if before == id && wait {
                pause(stream, be).await?;
                if chosen_again {
                    // It was not ready for the stream before that.
                    stream.state.facts.timers.queue_us = stream.elapsed_us();
                }
            }
        }
        let server = &be.servers[id.0 as usize];
        worker.count_attempt(be.id, id);
        let name = stream.server_name(server);
        let target = stream.target(be, server, name);
        let shut = shut_check(worker, stream.state);
        let Some(opened) = unless_shut(shut, target.open(be.timeouts.connect)).await else {
            return Err(waiting::server_shut(stream));
        };
        if let Err(error) = &opened {
            let failure = target.failure();
            super::exchange::note_failure(&mut stream.state.facts, error, failure);
        }
        match opened {
            Ok(_) if abort && came_for_nothing(stream.client) => return Ok(ENDED),
            Ok(conn) => break conn,
            // Nobody is there, and nothing was said that another attempt could deliver.
            Err(_) if came_for_nothing(stream.client) => return Ok(ENDED),
            Err(error) if !ending::may_retry(stream.state, &be.retry_on, Cause::from(&error)) => {
                return Err(stream.stop(Cause::from(&error)));
            }
            Err(error) => {
                stream.state.facts.retries += 1;
                failed = Some((id, error != ConnectError::Timeout));
                let facts = &stream.state.facts;
                if !stream.state.cookie.forced
                    && assign::may_redispatch(worker, be, choice, facts.retries, facts.max_retries)
                {
                    held = None;
                    choice.wanted = None;
                    choice.avoid = Some(ServerIndex(id.0));
                }
            }
        }
    };
    stream.state.facts.timers.connect_us = stream.elapsed_us();
    crate::plant::here("connected");
    stream.log_step(LogStep::Connect);
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
    if let Some(end) = response_rules(stream, be, &mut conn, &mut up).await? {
        count_held_response(stream, &conn.port);
        if end == RelayEnd::ClientAborted {
            conn.port.line.set_linger_rst();
        }
        return end.cause().map_or(Ok(ENDED), |cause| Err(stream.stop(cause)));
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
    stream.state.facts.req_bytes_in += relayed.up;
    stream.state.facts.req_bytes_out += relayed.up;
    stream.state.facts.res_bytes_in += relayed.down;
    stream.state.facts.res_bytes_out += relayed.down;
    if relayed.end == RelayEnd::ClientAborted {
        // The server hears of it in the same way: not everything was said.
        conn.port.line.set_linger_rst();
    }
    drop(held);
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

/// Counts what went to the server before the relay.
fn count_sent(stream: &mut Stream<'_>) {
    let sent = stream.client.body.received();
    stream.state.facts.req_bytes_in += sent;
    stream.state.facts.req_bytes_out += sent;
}

/// Counts what went to the server, and what came of it although the client does not get that.
pub fn count_held_response(stream: &mut Stream<'_>, server: &Port) {
    count_sent(stream);
    stream.state.facts.res_bytes_in += server.received().len() as u64;
}

/// Waits before another attempt on the same server, unless the client leaves meanwhile.
async fn pause<'a>(stream: &mut Stream<'a>, be: &Proxy) -> Result<(), Stop<'a>> {
    let ms = be.timeouts.connect.unwrap_or(1000).min(1000);
    let over = timer::Deadline(Some(timer::deadline_in(ms)));
    let abort = be.opts.abortonclose;
    let client = &mut *stream.client;
    let left = std::future::poll_fn(|_| match waiting::has_left(client, abort) || came_for_nothing(client) {
        true => Poll::Ready(true),
        false => over.poll().map(|()| false),
    })
    .await;
    let has_reset = stream.client.line.departure() == Departure::Reset;
    match left {
        true if has_reset => Err(stream.stop(Cause::ClientResetUnconnected)),
        true => Err(stream.stop(Cause::ClientLeftConnecting)),
        false => Ok(()),
    }
}

fn no_server<'a>(stream: &mut Stream<'a>, why: NoServer) -> Stop<'a> {
    if why != NoServer::NoneUsable {
        stream.state.facts.timers.queue_us = stream.elapsed_us();
    }
    let cause = match why {
        NoServer::NoneUsable => Cause::NoServer,
        NoServer::QueueFull => Cause::QueueFull,
        NoServer::Timeout => Cause::QueueTimeout,
        // A broken connection is an error of the client's, whatever was waited for.
        NoServer::Abandoned if stream.client.line.departure() == Departure::Reset => {
            Cause::ClientResetUnconnected
        }
        NoServer::Abandoned => Cause::ClientLeftInQueue,
    };
    stream.stop(cause)
}

/// Whether the client ended its direction and had said nothing: what it may still hear is not worth waiting for a server.
fn came_for_nothing(client: &mut Port) -> bool {
    if client.eof || client.has_input() || client.line.departure() != Departure::Ended {
        return client.eof && !client.has_input();
    }
    // What it said, if anything, lies before its end.
    match client.poll_recv() {
        Poll::Ready(Ok(buf)) if !buf.is_empty() => drop(client.append(buf)),
        _ => {}
    }
    client.eof && !client.has_input()
}
