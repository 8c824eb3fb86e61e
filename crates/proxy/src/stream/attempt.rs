//! Getting a stream to a server: a slot on one, a connection to it, and what happens when that fails (manual: `retries`,
//! `option redispatch`, `retry-on`, `timeout queue`, `timeout connect`).
//!
//! Requests and TCP streams come here in the same way: who talks to the server asks for [the next attempt](Attempts::next),
//! then for its connection, and says when another attempt is to be made: a request that was answered badly comes back
//! with [`Attempts::failed`]. What most requests find at once, a server with room and an idle connection, is asked for
//! first and without a future ([`Attempts::next_at_once`], [`Attempts::take_idle`]).

use std::net::IpAddr;
use std::pin::pin;
use std::task::Poll;

use thalweg_balance::ServerIndex;
use thalweg_config::model::{LogStep, Proxy, ProxyId, Server, ServerId, SourceMode};
use thalweg_runtime::net::Departure;
use thalweg_runtime::pool::Block;
use thalweg_runtime::{clock, timer};
use thalweg_sample::facts::ConnError;
use thalweg_sample::fetch::http::header_address;
use thalweg_tls::engine::SentEarly;

use super::ending::{self, Cause};
use super::stay::Stay;
use super::{After, Stop, Stream, cookie, early, finish, shut_check, stick, waiting};
use crate::backend::Slot;
use crate::backend::assign::{self, Choice, Full, NoServer};
use crate::backend::connect::{LineValues, ServerConn, Target, Way, source_config};
use crate::backend::connect_error::ConnectError;
use crate::backend::refused;
use crate::connection::line::Line;
use crate::connection::port::Port;
use crate::counters::{Counters, OfServer};
use crate::traces;
use crate::worker::Worker;

/// Another attempt on the server that failed waits this long at most, in milliseconds, and `timeout connect` at most.
const DELAY_MS: u64 = 1000;

/// The attempts of one stream to be served by its backend.
pub struct Attempts<'a> {
    be: &'a Proxy,
    choice: Choice,
    /// The connection to the server, while there is one. It stays here, as moving it costs more than to look at it.
    conn: Option<Block<ServerConn>>,
    /// The slot on a server; kept from attempt to attempt on the same one.
    held: Option<Lease<'a>>,
    /// Why there was no slot at once.
    full: Option<Full>,
    failed: Option<Failed>,
    /// The next one must not be made on a connection that was idle.
    fresh: bool,
    /// The request went to a server before the handshake with it was done: once is enough.
    was_early: bool,
}

/// An attempt that failed.
#[derive(Clone, Copy)]
struct Failed {
    server: ServerId,
    /// There was a connection, and no response worth forwarding came on it.
    connected: bool,
    /// Another attempt on the same server should wait a little.
    delay: bool,
}

impl<'a> Attempts<'a> {
    /// Those of a stream that asks for `choice`.
    pub fn new(be: &'a Proxy, choice: Choice) -> Attempts<'a> {
        Attempts {
            be,
            choice,
            conn: None,
            held: None,
            full: None,
            failed: None,
            fresh: false,
            was_early: false,
        }
    }

    /// The server of the next attempt, if it has room for the stream, and nothing is to be waited for.
    pub fn next_at_once(&mut self, stream: &mut Stream<'a>) -> Option<&'a Server> {
        if self.failed.is_some() {
            return None;
        }
        if self.held.is_none() {
            match assign::at_once(stream.worker, self.be, self.choice) {
                Ok(slot) => self.hold(stream, slot),
                Err(full) => self.full = Some(full),
            }
        }
        self.server(stream)
    }

    /// The server of the next attempt, once it has room for the stream.
    pub async fn next(&mut self, stream: &mut Stream<'a>) -> Result<&'a Server, Stop<'a>> {
        let chosen = self.held.is_none();
        if chosen {
            let slot = match self.full.take() {
                Some(full) => Err(full),
                None => assign::at_once(stream.worker, self.be, self.choice),
            };
            let slot = match slot {
                Ok(slot) => slot,
                Err(full) => assigned(stream, self.be, self.choice, full).await?,
            };
            self.hold(stream, slot);
        }
        if let (Some(failed), Some(lease)) = (self.failed.take(), &self.held) {
            again(stream, self.be, failed, lease.server(), chosen).await?;
        }
        self.server(stream).ok_or_else(|| stream.stop(Cause::NoServer))
    }

    fn hold(&mut self, stream: &mut Stream<'a>, slot: Slot) {
        self.held = Some(Lease::new(stream.worker, self.be.id, slot));
        stream.state.assign_server(stream.worker, slot.server());
        stream.trace(traces::SERVER_ASSIGNED);
        stream.state.facts.timers.queue_us = stream.elapsed_us();
    }

    fn server(&mut self, stream: &Stream<'a>) -> Option<&'a Server> {
        let id = self.held.as_ref()?.server();
        let Some(server) = stream.worker.server(self.be, id) else {
            // It was removed a moment after it was chosen.
            self.held = None;
            return None;
        };
        // What is sent again because its connection had ended is the same attempt.
        if let (false, Some(lease)) = (self.fresh, &self.held) {
            lease.count_attempt();
        }
        Some(server)
    }

    /// What this thread has of the server of the attempt, which the lease looked up.
    #[inline]
    fn of_server(&self, worker: &'a Worker, server: &Server) -> OfServer<'a> {
        match &self.held {
            Some(lease) => lease.of_server,
            None => worker.of_server(self.be.id, server.id),
        }
    }

    /// Takes an idle connection for the attempt. Gives what must be [opened](Attempts::open) when there is none.
    pub fn take_idle(&mut self, stream: &mut Stream<'a>, server: &'a Server) -> Option<Target<'a>> {
        let is_http = stream.state.facts.is_http;
        let overrides = &stream.state.effects.overrides;
        let is_special = is_websocket(stream) || overrides.bc_mark.is_some() || overrides.bc_tos.is_some();
        // Where a connection would go is worked out only when one must be opened.
        let of_server = self.of_server(stream.worker, server);
        let plain = Way::plain(stream.worker, (self.be, server), of_server, is_special);
        if let (true, Some(way)) = (is_http, &plain)
            && self.take(stream, server, way)
        {
            return None;
        }
        let target = target(stream, self.be, server);
        let taken = is_http && plain.is_none() && self.take(stream, server, &target);
        (!taken).then_some(target)
    }

    /// Takes an idle connection of the session's own or of all, if there is one.
    fn take(&mut self, stream: &Stream<'a>, server: &Server, way: &Way<'a>) -> bool {
        self.conn = stream.session.take_private(self.be.id, server.id, way.key(), way.moves());
        if self.conn.is_some() {
            way.count_reuse();
        } else if !self.fresh || way.is_reverse() {
            self.conn = way.take_idle(stream.needs_fresh_connection());
        }
        self.conn.is_some()
    }

    /// Makes a connection for the attempt. None is there afterwards if that failed and may be tried again.
    pub async fn open(
        &mut self,
        stream: &mut Stream<'a>,
        server: &Server,
        target: Target<'a>,
    ) -> Result<(), Stop<'a>> {
        // It connects when it does, and not because somebody waits.
        let may_wait = !target.is_reverse();
        let early = match self.was_early {
            true => Box::default(),
            false => early::request(stream, self.be, server, &target),
        };
        let opened = opened(stream, &target, early, self.be, self.fresh).await?;
        let sent_early = target.sent_early();
        self.was_early |= sent_early != SentEarly::Not;
        match opened {
            Ok(conn) => self.conn = Some(Block::new(conn)),
            Err(error) => {
                // Nobody waits for another attempt, or for an error.
                if stream.state.facts.is_http && gave_up(stream.client, self.be, true) {
                    return Err(left(stream));
                }
                refused::stand_back(stream.worker, self.be.id, server.id);
                let cause = Cause::from(&error);
                let retry_on = &self.be.retry_on;
                let was_refused = sent_early == SentEarly::Refused
                    && retry_on.early_data_rejected
                    && ending::may_resend(stream.state);
                let may_retry = was_refused || ending::may_retry(stream.state, retry_on, cause);
                if !may_retry || !assign::pays_retry(stream.worker, self.be) {
                    return Err(stream.stop(cause));
                }
                // A server that is starting gets a moment; what is wrong here stays wrong.
                let gets_a_moment = !matches!(error, ConnectError::Timeout | ConnectError::NoSource(_));
                self.retry(stream, false, may_wait && gets_a_moment);
            }
        }
        Ok(())
    }

    /// The stream is with a server; `None` when there is no connection and another attempt is to be made.
    pub fn connected(&mut self, stream: &mut Stream<'a>, server: &'a Server) -> Option<Engaged<'_, 'a>> {
        self.fresh = false;
        let (Some(conn), Some(lease)) = (self.conn.as_deref_mut(), &mut self.held) else { return None };
        conn.keep = false;
        crate::plant::here("connected");
        let elapsed_us = stream.elapsed_us();
        let facts = &mut stream.state.facts;
        if !facts.is_http && self.be.learns() {
            // Nobody knows what an answer is.
            let after_us = elapsed_us - facts.timers.queue_us;
            assign::answered(stream.worker, self.be, lease.server(), after_us);
        }
        facts.timers.connect_us = elapsed_us;
        note_connection(stream, conn);
        stream.log_step(LogStep::Connect);
        if !self.be.stick_rules.is_empty() {
            stick::connected(stream, self.be, server);
        }
        Some(Engaged { server, conn, lease, is_free: self.choice.wanted.is_none() })
    }

    /// The stream leaves its connection, which may be [kept](ServerConn::keep).
    #[inline]
    pub fn leave(&mut self, stream: &mut Stream<'a>, server: &'a Server) {
        if let Some(conn) = self.conn.take_if(|conn| conn.is_own_of_session(self.be) || conn.keep) {
            let of_server = self.of_server(stream.worker, server);
            let keeper = stream.client.line.keeper();
            stream.session.keep(stream.worker, keeper, (self.be, server), of_server, conn);
        }
        self.conn = None;
    }

    /// What came of the attempt is no response to forward: another one is to be made.
    pub fn failed(&mut self, stream: &mut Stream<'a>) {
        self.retry(stream, true, false);
    }

    /// The idle connection that was taken had been closed by the server: nothing was lost, nothing counts. If others were,
    /// too, all of them would get the request.
    pub fn repeat(&mut self) {
        self.fresh = true;
    }

    fn retry(&mut self, stream: &mut Stream<'a>, connected: bool, delay: bool) {
        let Some(lease) = &self.held else { return };
        let server = lease.server();
        self.failed = Some(Failed { server, connected, delay });
        let facts = &mut stream.state.facts;
        facts.bc_error = ConnError::default();
        facts.retries += 1;
        if !stream.state.cookie.forced
            && assign::may_redispatch(
                stream.worker,
                self.be,
                self.choice,
                server,
                (facts.retries, facts.max_retries),
            )
        {
            self.held = None;
            self.choice.wanted = None;
            self.choice.avoid = Some(ServerIndex(server.0));
        }
    }
}

/// A stream that is with a server.
pub struct Engaged<'s, 'a> {
    pub server: &'a Server,
    pub conn: &'s mut ServerConn,
    pub lease: &'s mut Lease<'a>,
    /// Nothing but its turn led it there.
    pub is_free: bool,
}

fn is_websocket(stream: &Stream<'_>) -> bool {
    stream.state.facts.is_http && stream.state.request_framing.websocket
}

/// The address in the request that its connection is to come from (`usesrc hdr_ip`).
fn address_in_header(stream: &Stream<'_>, be: &Proxy, server: &Server) -> Option<IpAddr> {
    match &source_config(be, server)?.mode {
        SourceMode::Header(from) if stream.state.facts.is_http => {
            header_address(&stream.state.request, &from.field, from.occurrence)
        }
        _ => None,
    }
}

/// Where a connection of a stream to a server goes, and what it must be.
pub fn target<'a>(stream: &mut Stream<'a>, be: &Proxy, server: &'a Server) -> Target<'a> {
    let values = LineValues {
        header_fields: stream.header_fields(server),
        sni: stream.server_name(server),
        name: stream.connection_name(server),
        websocket: is_websocket(stream),
        source: address_in_header(stream, be, server),
    };
    let (session, facts) = (stream.session.facts(), &stream.state.facts);
    let overrides = &stream.state.effects.overrides;
    Target::new(stream.worker, be.id, server, &session, facts, overrides, values)
}

/// What fetches and logs tell of a stream's connection to its server.
pub fn note_connection(stream: &mut Stream<'_>, conn: &ServerConn) {
    let facts = &mut stream.state.facts;
    facts.bc_reused = conn.reused;
    facts.bc_socket = conn.port.line.socket_id().into();
    (facts.bc_src, facts.bc_dst) = conn.ends;
    facts.bc_tls = conn.port.line.tls_facts().cloned();
    if let Line::Mux(stream) = &conn.port.line {
        facts.bc_http_major = 2;
        facts.bc_glitches = stream.mux().glitches();
    }
}

/// What fetches tell of the stream that a request is on its way on, where its connection carries several.
#[inline]
pub fn note_stream(stream: &mut Stream<'_>, conn: &ServerConn) {
    if let Line::Mux(line) = &conn.port.line {
        let facts = &mut stream.state.facts;
        facts.bs = line.seen();
        facts.bc_streams = u32::try_from(line.mux().streams()).unwrap_or(u32::MAX);
        facts.bc_streams_limit = line.mux().streams_limit();
    }
}

/// Another attempt is made, on the server `now`: counted, and delayed if it is the one that failed. `chosen` says that it
/// had to be assigned anew.
async fn again<'a>(
    stream: &mut Stream<'a>,
    be: &Proxy,
    failed: Failed,
    now: ServerId,
    chosen: bool,
) -> Result<(), Stop<'a>> {
    if failed.server != now {
        cookie::redispatched(stream.state);
    }
    let delayed = failed.server == now && failed.delay;
    let count = |stream: &mut Stream<'a>| {
        finish::count_retry(stream.worker, stream.state, failed.server, now, failed.connected);
    };
    if delayed && chosen {
        delay(stream, be).await?;
        // It was not ready for the stream before that.
        stream.state.facts.timers.queue_us = stream.elapsed_us();
        count(stream);
        return Ok(());
    }
    count(stream);
    if delayed { delay(stream, be).await } else { Ok(()) }
}

/// Waits before another attempt on the same server, unless the client leaves meanwhile.
async fn delay<'a>(stream: &mut Stream<'a>, be: &Proxy) -> Result<(), Stop<'a>> {
    let ms = be.timeouts.connect.unwrap_or(DELAY_MS).min(DELAY_MS);
    let over = timer::Deadline(Some(timer::deadline_in(ms)));
    let is_http = stream.state.facts.is_http;
    let has_left = std::future::poll_fn(|_| match gave_up(stream.client, be, is_http) {
        true => Poll::Ready(true),
        false => over.poll().map(|()| false),
    })
    .await;
    if has_left { Err(left(stream)) } else { Ok(()) }
}

/// The client left between two attempts.
fn left<'a>(stream: &mut Stream<'a>) -> Stop<'a> {
    let is_http = stream.state.facts.is_http;
    // Who has not said everything of its request has broken it off.
    let is_cut = is_http && !stream.client.has_whole_body();
    let cause = match is_cut || has_reset(stream.client) {
        true if is_http => Cause::ClientResetRetrying,
        false if is_http => Cause::ClientLeftRetrying,
        true => Cause::ClientResetUnconnected,
        false => Cause::ClientLeftConnecting,
    };
    stream.stop(cause)
}

/// Whether nobody waits for a server any more.
fn gave_up(client: &mut Port, be: &Proxy, is_http: bool) -> bool {
    waiting::has_left(client, be.opts.abortonclose) || (!is_http && came_for_nothing(client))
}

/// Whether the client of a TCP stream ended its direction and had said nothing: what it may still hear is not worth waiting
/// for a server.
fn came_for_nothing(client: &mut Port) -> bool {
    if client.eof || client.has_input() || client.line.departure() != Departure::Ended {
        return client.eof && !client.has_input();
    }
    // What it said, if anything, lies before its end.
    match client.poll_recv() {
        Poll::Ready(Ok(buf)) if !buf.is_empty() => client.keep(buf),
        _ => {}
    }
    client.eof && !client.has_input()
}

/// Whether the client broke its connection, rather than ended its direction.
fn has_reset(client: &mut Port) -> bool {
    client.line.departure() == Departure::Reset
}

/// Waits in a queue for a slot, as there is none now.
async fn assigned<'a>(
    stream: &mut Stream<'a>,
    be: &'a Proxy,
    choice: Choice,
    full: Full,
) -> Result<Slot, Stop<'a>> {
    let timeout = match stream.state.facts.timeouts.queue {
        0 => be.timeouts.queue.or(be.timeouts.connect),
        ms => Some(ms),
    };
    let is_http = stream.state.facts.is_http;
    let Stream { worker, client, state, .. } = stream;
    let waiting =
        assign::wait(worker, be, choice, full, &mut state.facts, timeout, || gave_up(client, be, is_http));
    let why = match pin!(waiting).await {
        Ok(slot) => return Ok(slot),
        Err(why) => why,
    };
    let waited = match why {
        NoServer::NoneUsable => false,
        NoServer::QueueFull => !is_http,
        NoServer::Timeout | NoServer::Abandoned => true,
    };
    if waited {
        stream.state.facts.timers.queue_us = stream.elapsed_us();
    }
    let cause = match why {
        NoServer::NoneUsable => Cause::NoServer,
        NoServer::QueueFull => Cause::QueueFull,
        NoServer::Timeout => Cause::QueueTimeout,
        NoServer::Abandoned if !has_reset(stream.client) => Cause::ClientLeftInQueue,
        NoServer::Abandoned if is_http => Cause::ClientResetInQueue,
        // A broken connection is an error of the client's, whatever was waited for.
        NoServer::Abandoned => Cause::ClientResetUnconnected,
    };
    Err(stream.stop(cause))
}

/// A connection that another thread kept, or a new one, unless the stream ends meanwhile.
async fn opened<'a>(
    stream: &mut Stream<'a>,
    target: &Target<'a>,
    early: Box<[u8]>,
    be: &Proxy,
    fresh: bool,
) -> Result<Result<ServerConn, ConnectError>, Stop<'a>> {
    enum Opened {
        Done(Result<ServerConn, ConnectError>),
        ClientLeft,
        Shut,
    }
    let is_http = stream.state.facts.is_http;
    if is_http
        && (!fresh || target.is_reverse())
        && let Some(conn) = target.take_siblings_idle(stream.needs_fresh_connection()).await
    {
        return Ok(Ok(conn));
    }
    let timeout = match stream.state.facts.timeouts.connect {
        0 => be.timeouts.connect,
        ms => Some(ms),
    };
    let abort = be.opts.abortonclose;
    let shut = shut_check(stream.worker, stream.state);
    let client = &mut *stream.client;
    let mut opening = pin!(target.open(timeout, early));
    let mut left_ms = None;
    let opened = std::future::poll_fn(|cx| {
        if let Poll::Ready(opened) = opening.as_mut().poll(cx) {
            return Poll::Ready(Opened::Done(opened));
        }
        if shut() {
            return Poll::Ready(Opened::Shut);
        }
        if is_http && waiting::has_left(client, abort) {
            // A server that is near is connected in a moment, and learns that the request is given up.
            let now = clock::now_ms();
            let until = *left_ms.get_or_insert(now + 2);
            if now >= until {
                return Poll::Ready(Opened::ClientLeft);
            }
            timer::want(until);
        }
        Poll::Pending
    })
    .await;
    if let Opened::Done(Err(error)) = &opened {
        // What fetches and logs tell of it.
        stream.state.facts.bc_error = error.number();
        if matches!(error, ConnectError::Handshake(_) | ConnectError::HandshakeWithRequest(_)) {
            stream.state.facts.bc_tls = target.failure();
        }
    }
    match opened {
        // Nobody is there, and nothing was said that another attempt, or this one, could deliver.
        Opened::Done(opened) if !is_http && (abort || opened.is_err()) && came_for_nothing(client) => {
            Err(Stop::Ended(After::Close))
        }
        Opened::Done(opened) => Ok(opened),
        Opened::ClientLeft => Err(stream.stop(Cause::ClientLeftConnecting)),
        Opened::Shut => Err(waiting::server_shut(stream)),
    }
}

/// A slot on a server, given back when dropped. Counts the stream on the server for as long.
pub struct Lease<'a> {
    of_server: OfServer<'a>,
    /// Ends before the slot is given back, so that there are never more streams than slots.
    _stay: Stay<'a>,
    slot: HeldSlot<'a>,
}

/// A slot that is given back when this is dropped.
struct HeldSlot<'a> {
    worker: &'a Worker,
    proxy: ProxyId,
    slot: Slot,
}

impl<'a> Lease<'a> {
    /// Takes charge of a slot that was just taken.
    pub fn new(worker: &'a Worker, proxy: ProxyId, slot: Slot) -> Lease<'a> {
        let of_server = worker.of_server(proxy, slot.server());
        let stay = Stay::on_server(worker, of_server);
        Lease { of_server, _stay: stay, slot: HeldSlot { worker, proxy, slot } }
    }

    /// The server.
    pub fn server(&self) -> ServerId {
        self.slot.slot.server()
    }

    /// What this thread counts of the server.
    pub fn counters(&self) -> &'a Counters {
        self.of_server.counters
    }

    /// Counts an attempt on the server.
    pub fn count_attempt(&self) {
        self.slot.worker.count_attempt(self.of_server);
    }
}

impl Drop for HeldSlot<'_> {
    fn drop(&mut self) {
        if crate::plant::bug("slot-kept") {
            return;
        }
        self.worker.backend(self.proxy).end(self.slot);
    }
}
