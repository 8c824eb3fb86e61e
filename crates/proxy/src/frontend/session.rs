//! A client's stay, from the accepted connection to its end: connection rules, PROXY header, session rules, then one
//! TCP stream or any number of requests.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::Poll;

use thalweg_config::model::{Global, Mode, Proxy};
use thalweg_h1::parse::is_h2_preface;
use thalweg_rules::{Kind, Overrides, Ruleset};
use thalweg_runtime::buffer::{BULK_SIZE, Buf};
use thalweg_runtime::net::{Departure, Keepalive, SockAddr, Stream};
use thalweg_runtime::{Kind as TaskKind, clock, go_on_with, pool, spawn_with, timer};
use thalweg_sample::facts::{self, ConnError, Endpoint, Session};

use super::admission::{Accepted, Admission};
use super::listed::Listed;
use super::parting::{self, Parting};
use super::streams::Sitting;
use super::{ClientSession, Framed, client_timeout, of_frontend, reverse};
use crate::connection::forerunner::{self, Forerunner};
use crate::connection::handshake::{self, HandshakeError};
use crate::connection::port::Port;
use crate::connection::transport::Transport;
use crate::plant::bug;
use crate::stopping::Stopping;
use crate::stream::ending::{self, Cause};
use crate::stream::http::{self, Arrival, HalfHead, NoRequest};
use crate::stream::reply;
use crate::stream::rules::{self, Source};
use crate::stream::tcp::{self, TcpEnd};
use crate::stream::{self, After, StreamState, Upgraded, finish};
use crate::traces;
use crate::worker::{Thread, Worker};

static SESSION: TaskKind = TaskKind::new("session");

/// Bytes of the preface of HTTP/2 that are a whole head in HTTP/1.
const PREFACE_HEAD: usize = 18;

/// Begins to serve an accepted connection of a listener, by a task of its own. Nothing when the connection is gone already.
pub fn start(worker: &Rc<Worker>, accepted: Accepted) {
    let Accepted { admission, fd, peer, only } = accepted;
    let Ok(io) = Stream::from_accepted(fd) else { return };
    let listener = admission.listener();
    let client = Port::new(Transport::from(io));
    let session = ClientSession::new(worker, listener, &client, (&peer, only));
    let options = reverse::options(worker, listener);
    worker.session_starts(listener);
    let (listed, stay) = (Listed::new(worker.own(), None), Stay::new(client, session, admission));
    spawn_with(&SESSION, options, serve(listed, stay));
}

/// The same on a connection that this process made, on which HTTP/2 is spoken. `ending` goes with the session.
pub(super) fn start_dialed(worker: &Rc<Worker>, admission: Admission, client: Port, ending: reverse::Ending) {
    let listener = admission.listener();
    let Some(Ok(peer)) = client.line.wire().map(Transport::peer_addr) else { return };
    let session = ClientSession::new(worker, listener, &client, (&peer, None));
    session.framed.set(Framed::Dialed);
    let options = reverse::options(worker, listener);
    let (listed, stay) = (Listed::new(worker.own(), Some(ending)), Stay::new(client, session, admission));
    spawn_with(&SESSION, options, serve(listed, stay));
}

/// All that a connection keeps while it waits, in the order in which it is to be dropped.
///
/// There may be very many of these, so it lives in the memory of its task once: the future owns it and lends it to all
/// that it calls, and what a request needs beyond is boxed for the time of the request.
struct Stay {
    client: Port,
    session: ClientSession,
    /// The request that is on its way, while not all of its head has come.
    half: Option<Box<HalfHead>>,
    /// The TCP stream that the first request goes on with.
    begun: Option<Box<StreamState>>,
    admission: Admission,
    /// When the session began or the last request ended: microseconds of the monotonic clock, and since 1970.
    began: (u64, i64),
    wait: Wait,
}

/// The connection's whole life. Not an `async fn`: such a one has its arguments twice. `listed` is mentioned first, and so dropped before
/// what it is the session of.
#[allow(clippy::manual_async_fn)]
fn serve(mut listed: Listed, mut stay: Stay) -> impl Future<Output = ()> {
    async move {
        listed.enter(&stay.session);
        // Boxed, as everything that a waiting connection does not need: its memory is given back when it is done.
        if !pool::boxed(enter(&listed, &mut stay)).await {
            return;
        }
        if stay.agreed_on_frames(&listed.own) {
            return begin_frames(listed, stay);
        }
        // Requests, one after the other, until the client or the rules end it.
        loop {
            stay.begin_wait(&listed.own);
            let missing = poll_fn(|_| stay.poll_request(&listed.own)).await;
            if stay.session.first.get() && stay.may_change_to_frames(&listed.own) {
                match is_h2_preface(stay.client.received()) {
                    Some(true) => return begin_frames(listed, stay),
                    None if missing.is_none() && stay.client.received().len() >= PREFACE_HEAD => {
                        stay.wait_for_preface(&listed.own);
                        continue;
                    }
                    _ => {}
                }
            }
            if missing.is_some() && stay.ends_in_silence(&listed.own) {
                stay.client.line.say_end();
                // The connection is idle as far as requests go; the last response may still be leaving.
                if !stay.session.first.get() && stay.client.line.in_flight() > 0 && !bug("cut-at-close") {
                    pool::boxed(parting::in_order(&listed.own, stay.ends())).await;
                }
                return;
            }
            // The stream's memory is taken for the time of the request only: a connection that waits holds little.
            let mut state = stay.begun.take().unwrap_or_else(|| listed.own.take_stream());
            // What is in force when a stream begins is what it is served by; a connection that waits keeps nothing of it.
            let worker = match &state.upgraded {
                Some(before) => Rc::clone(&before.worker),
                None => match listed.own.pin_for(stay.session.listener) {
                    Some(worker) => worker,
                    None => return,
                },
            };
            let after = {
                let Stay { client, session, half, began, .. } = &mut stay;
                let arrival = Arrival { first: session.first.get(), began: *began, missing, half };
                let state = &mut *state;
                pool::boxed_with(move || http::serve(worker, session, client, state, arrival)).await
            };
            if after == After::Incomplete && state.upgraded.is_some() {
                state.entry.end();
                stay.begun = Some(state);
            } else {
                listed.own.give_stream(state);
            }
            match after {
                // It may wait for long: what is there of it takes as little room as it needs.
                After::Incomplete => stay.client.input = stay.client.input.take().map(Buf::fitted),
                After::KeepAlive
                    if stay.client.body.is_ended() || pool::boxed(stay.drain(&listed.own)).await =>
                {
                    stay.session.first.set(false);
                    stay.began = (clock::now_us(), listed.own.clock().wall_us);
                }
                After::KeepAlive | After::Close => {
                    return pool::boxed(parting::in_order(&listed.own, stay.ends())).await;
                }
                After::Drop => {
                    if bug("session-counted") {
                        listed.own.fe_counters(stay.session.listener).current.add(1);
                    }
                    // An earlier response may still be leaving: what becomes of this request is no reason to cut that.
                    if !stay.session.first.get() && stay.client.line.in_flight() > 0 && !bug("cut-at-close") {
                        return pool::boxed(drop_when_sent(&listed.own, &mut stay)).await;
                    }
                    return parting::at_once(&listed.own, stay.ends());
                }
            }
        }
    }
}

/// What comes before the first request: whatever the connection must pass to become a session, and a TCP stream. The session is
/// here from then on. False when the connection is to be closed.
async fn enter(listed: &Listed, stay: &mut Stay) -> bool {
    let Some(worker) = listed.own.pin_for(stay.session.listener) else { return false };
    if is_reflected(&worker, &stay.session) {
        return false;
    }
    crate::plant::here("session");
    if !begin(&worker, stay).await {
        return false;
    }
    listed.count(stay.admission.listener());
    let is_http = worker.proxy(stay.session.frontend).mode == Mode::Http;
    is_http || pool::boxed(as_tcp(&worker, stay)).await
}

/// Whether it comes from a port that services have: known to reflect traffic, and nothing honest connects from there.
fn is_reflected(worker: &Worker, session: &ClientSession) -> bool {
    global(worker).reject_privileged_ports_tcp
        && matches!(session.facts().fc_src, Endpoint::Inet(from) if (1..1024).contains(&from.port()))
}

/// The session of a client that sends several requests at once.
struct Frames {
    sitting: Sitting,
    admission: Admission,
    listed: Listed,
}

/// The client sends several requests at once from here on: the task goes on with what that needs, in memory of its size.
fn begin_frames(listed: Listed, stay: Stay) {
    let Stay { mut client, session, admission, began, begun, .. } = stay;
    if let Some(state) = begun {
        // Each request in frames is a stream of its own, and none of them that of the connection.
        listed.own.give_stream(state);
    }
    let is_attached = session.facts().rare().attached.is_some();
    let attached = if is_attached { session.facts_mut().rare_mut().attached.take() } else { None };
    if let Some(attached) = attached {
        return go_on_with(async move {
            reverse::attach(&listed.own, &session, client, *attached, admission).await;
        });
    }
    let Some(worker) = listed.own.pin_for(session.listener) else {
        return parting::at_once(&listed.own, (&session, &mut client));
    };
    let sitting = Sitting::new(&worker, Rc::new(session), client, began);
    go_on_with(in_frames(Frames { sitting, admission, listed }));
}

/// Serves such a client. Not an `async fn`, as [`serve`].
#[allow(clippy::manual_async_fn)]
fn in_frames(mut frames: Frames) -> impl Future<Output = ()> {
    async move {
        let orderly = poll_fn(|_| frames.sitting.poll(&frames.listed.own)).await;
        pool::boxed_with(move || leave_frames(frames, orderly)).await;
    }
}

/// Closes the connection of a client on which nobody is served any more.
async fn leave_frames(frames: Frames, orderly: bool) {
    let Frames { sitting, admission, listed } = frames;
    let (session, mut client, parting) = sitting.part(&listed.own, orderly);
    match parting {
        Parting::InOrder => parting::in_order(&listed.own, (&session, &mut client)).await,
        Parting::Unheard => parting::unheard(&mut client).await,
        Parting::AtOnce => parting::at_once(&listed.own, (&session, &mut client)),
    }
    drop((client, session));
    drop(admission);
}

/// The same, once the client has taken what it was sent before.
async fn drop_when_sent(own: &Thread, stay: &mut Stay) {
    let limit = client_timeout(own, &stay.session);
    stay.client.all_is_sent(limit).await;
    parting::at_once(own, stay.ends());
}

/// Serves a TCP stream. True when it became one of HTTP.
async fn as_tcp(worker: &Rc<Worker>, stay: &mut Stay) -> bool {
    let Stay { client, session, begun, .. } = stay;
    let mut state = worker.take_stream();
    let end = tcp::serve(worker, session, client, &mut state).await;
    if let TcpEnd::BecameHttp(backend) = end {
        state.upgraded = Some(Box::new(Upgraded { worker: Rc::clone(worker), backend }));
        *begun = Some(state);
        return true;
    }
    worker.give_stream(state);
    match end {
        TcpEnd::BecameHttp(_) | TcpEnd::Over { orderly: true } => {
            // What nobody will read must not turn the end into a reset.
            if client.line.discard_input(parting::UNREAD_MAX) == parting::UNREAD_MAX {
                // There may be more. The client hears of the end before the reset that follows.
                let _ = client.line.shutdown_write();
            }
        }
        TcpEnd::Over { orderly: false } => parting::at_once(worker, stay.ends()),
    }
    false
}

impl ClientSession {
    /// Of a connection from `peer` to the address that all connections of its listener come to, if there is only one.
    fn new(
        worker: &Worker,
        listener: usize,
        client: &Port,
        (peer, only): (&SockAddr, Option<SocketAddr>),
    ) -> ClientSession {
        let frontend = worker.live.listeners[listener].frontend();
        let id = facts::ListenerId(u32::try_from(listener).unwrap_or(0));
        let mut session = Session::new(facts::ProxyId(frontend.0), id);
        session.accept_mono_us = clock::now_us();
        session.accept_wall_us = worker.clock().wall_us;
        session.fc_src = endpoint(peer);
        session.fc_dst = match only {
            Some(only) => Endpoint::Inet(only),
            None => {
                let local = client.line.wire().and_then(|wire| wire.local_addr().ok());
                local.map_or(Endpoint::Unknown, |addr| endpoint(&addr))
            }
        };
        session.socket = client.line.socket_id().into();
        ClientSession {
            facts: RefCell::new(session),
            frontend,
            listener,
            first: Cell::new(true),
            framed: Cell::new(Framed::Unknown),
            private: Cell::default(),
        }
    }

    /// When it began: microseconds of the monotonic clock, and since 1970.
    pub fn began(&self) -> (u64, i64) {
        let facts = self.facts();
        (facts.accept_mono_us, facts.accept_wall_us)
    }
}

fn endpoint(addr: &SockAddr) -> Endpoint {
    match addr.to_std() {
        Some(addr) => Endpoint::Inet(addr),
        None => Endpoint::Unix,
    }
}

fn global(worker: &Worker) -> &Global {
    &worker.instance.config.global
}

/// Options of an accepted socket. `mss` is that of the listener: negative lowers what the kernel found.
fn prepare_socket(fe: &Proxy, mss: i32, client: &Port) {
    let Some(wire) = client.line.wire() else { return };
    // A unix socket has no such options; nothing is lost when they cannot be set.
    if mss < 0 {
        let _ = wire.lower_mss(mss.unsigned_abs());
    }
    if fe.opts.tcpka_cli {
        let some = |n: u32| (n != 0).then_some(n);
        let probe = &fe.cli_keepalive;
        let _ = wire.set_keepalive(&Keepalive {
            count: some(probe.cnt),
            idle_s: some(probe.idle_s),
            interval_s: some(probe.intvl_s),
        });
    }
}

/// Connection rules, PROXY header or that of a NetScaler, session rules. False when the connection must be closed.
async fn begin(worker: &Rc<Worker>, stay: &mut Stay) -> bool {
    let Stay { client, session, .. } = stay;
    let fe = worker.proxy(session.frontend);
    let bind = worker.instance.bind(session.listener);
    prepare_socket(fe, bind.mss, client);
    if let (1.., Some(wire)) = (bind.save_syn, client.line.wire()) {
        // None was kept of a client that came with a cookie.
        session.facts_mut().rare_mut().saved_syn = wire.saved_syn().unwrap_or_default();
    }
    worker.count_connection(session.listener);
    let mut asked = Overrides::default();
    if !fe.rules.tcp_connection.is_empty() {
        let rules = &fe.rules.tcp_connection;
        let Some(passed) = early_rules(worker, session, client, rules, Kind::TcpConnection).await else {
            return false;
        };
        asked = passed;
        // What these rules set is what the connection says from here on.
        let mut facts = session.facts_mut();
        if facts.rare().src.is_some() || facts.rare().dst.is_some() {
            let changed = facts.rare_mut();
            let (src, dst) = (changed.src.take(), changed.dst.take());
            facts.fc_src = src.map_or(facts.fc_src, |src| *src);
            facts.fc_dst = dst.map_or(facts.fc_dst, |dst| *dst);
        }
    }
    for awaited in Forerunner::of(worker.instance.bind(session.listener), &asked) {
        if let Err(error) = read_forerunner(fe, session, client, awaited).await {
            session.facts_mut().error = error;
            let received = client.input.is_some();
            finish::log_session_error(worker, session, Cause::NoProxyHeader, received);
            return ended_early(worker, session, Cause::NoProxyHeader);
        }
    }
    let tls = worker.instance.bind(session.listener).tls.as_deref().filter(|tls| tls.ssl);
    if let Some(line) = tls.and_then(|tls| tls.line.as_ref()) {
        worker.trace_session(session, traces::TLS_NEW);
        let deadline = fe.timeouts.client_hs.or(fe.timeouts.client).map(timer::deadline_in);
        let (selection, limits) = (line.selection(), worker.record_limits());
        // What a request was sent ahead for can be said of it (`Early-Data`), and it can be made to wait; other bytes cannot.
        let shaken = match fe.mode {
            Mode::Http => handshake::accept_early(client, selection, limits, deadline).await,
            _ => handshake::accept(client, selection, limits, deadline).await,
        };
        match shaken {
            Ok(facts) => {
                worker.trace_session(session, traces::TLS_AGREED);
                worker.count_client_handshake(session.listener, Some(&facts));
                let mut known = session.facts_mut();
                known.rare_mut().tls = Some(Box::new(facts));
                known.rare_mut().is_early = client.line.is_early();
            }
            Err(error) => {
                session.facts_mut().error = error.number();
                worker.count_client_handshake(session.listener, None);
                worker.trace_session(session, traces::TLS_FAILED);
                let received = !matches!(error, HandshakeError::Closed { heard: false, .. });
                session.facts_mut().rare_mut().tls = Some(error.into_facts());
                finish::log_session_error(worker, session, Cause::NoClientTls, received);
                return ended_early(worker, session, Cause::NoClientTls);
            }
        }
    }
    if !fe.rules.tcp_session.is_empty() {
        let rules = &fe.rules.tcp_session;
        if early_rules(worker, session, client, rules, Kind::TcpSession).await.is_none() {
            return false;
        }
    }
    stream::track::session_began(session);
    let mut facts = session.facts_mut();
    facts.handshake_us =
        i32::try_from(clock::now_us().saturating_sub(facts.accept_mono_us)).unwrap_or(i32::MAX);
    true
}

/// The session ends before there is a stream. False, as [`begin`] says it.
fn ended_early(worker: &Worker, session: &ClientSession, cause: Cause) -> bool {
    ending::end_session(worker, session.listener, cause);
    false
}

/// Rules that run before there is a stream. What they ask for; `None` when the connection is to be closed.
async fn early_rules(
    worker: &Worker,
    session: &ClientSession,
    client: &mut Port,
    rules: &Ruleset,
    kind: Kind,
) -> Option<Overrides> {
    let mut state = worker.take_stream();
    state.begin(session.frontend, false, true);
    let t = &mut state.facts.timers;
    (t.accept_mono_us, t.accept_wall_us) = session.began();
    t.request_wall_us = t.accept_wall_us;
    let passed = {
        let mut stream = stream::Stream::new(worker, session, client, &mut state, true);
        let fe = stream.frontend();
        rules::run(&mut stream, fe, rules, kind, &mut Source::Nobody).await.is_ok()
    };
    let asked = state.effects.overrides;
    if let Some(attached) = state.effects.attached.take() {
        session.facts_mut().rare_mut().attached = Some(Box::new(attached));
    }
    worker.give_stream(state);
    passed.then_some(asked)
}

/// Reads the header that must come first, within the time a handshake may take.
/// Its addresses are the session's (`src`, `dst`); those of the connection (`fc_src`, `fc_dst`) stay what they were.
async fn read_forerunner(
    fe: &Proxy,
    session: &ClientSession,
    client: &mut Port,
    awaited: Forerunner,
) -> Result<(), ConnError> {
    let deadline = fe.timeouts.client_hs.or(fe.timeouts.client).map(timer::deadline_in);
    let header = forerunner::receive(client, awaited, deadline).await?;
    let mut facts = session.facts_mut();
    if let Some((src, dst)) = header.addresses {
        let rare = facts.rare_mut();
        let changed = |to| Some(Box::new(Endpoint::Inet(to)));
        (rare.src, rare.dst) = (changed(src), changed(dst));
    }
    facts.rcvd_proxy |= awaited == Forerunner::Proxy;
    for (kind, value) in &header.tlvs {
        let len = u16::try_from(value.len()).unwrap_or(0);
        let tlvs = &mut facts.rare_mut().pp_tlvs;
        tlvs.push(*kind);
        tlvs.extend_from_slice(&len.to_be_bytes());
        tlvs.extend_from_slice(value);
    }
    Ok(())
}

/// No such moment.
const NEVER: u64 = u64::MAX;

/// The wait for the first byte of a request.
#[derive(Clone, Copy, Default)]
struct Wait {
    /// When it must have come.
    until_ms: u64,
    /// When to leave because the process stops; 0: not known yet.
    leave_at_ms: u64,
}

impl Stay {
    /// Of a connection that was just made.
    fn new(client: Port, session: ClientSession, admission: Admission) -> Stay {
        let began = session.began();
        Stay { client, session, half: None, begun: None, admission, began, wait: Wait::default() }
    }

    /// Who is served, and the port.
    fn ends(&mut self) -> (&ClientSession, &mut Port) {
        (&self.session, &mut self.client)
    }

    /// Whether HTTP/2 is spoken from the first byte on: by the word of the listener, or because TLS agreed on it.
    fn agreed_on_frames(&self, own: &Thread) -> bool {
        match self.session.framed.get() {
            Framed::Unknown => {}
            said => return said != Framed::No,
        }
        let facts = self.session.facts();
        match facts.rare().tls.as_deref().and_then(|tls| tls.known.alpn.as_deref()) {
            Some(protocol) => protocol == b"h2",
            None => {
                let listener = self.session.listener;
                own.pin_for(listener)
                    .is_some_and(|w| w.instance.bind(listener).proto.as_deref() == Some("h2"))
            }
        }
    }

    /// Whether a client that was not asked may begin with the preface of HTTP/2.
    fn may_change_to_frames(&self, own: &Thread) -> bool {
        let Some(worker) = own.pin_for(self.session.listener) else { return false };
        let fe = worker.instance.config.find_proxy(self.session.frontend);
        self.session.framed.get() == Framed::Unknown
            && fe.is_some_and(|fe| !fe.opts.disable_h2_upgrade)
            && worker.instance.bind(self.session.listener).proto.is_none()
    }

    /// What came is the beginning of the preface, and to who does not know that a request. More of it has to come: what was
    /// taken for the beginning of a head says how long that may take.
    fn wait_for_preface(&mut self, own: &Thread) {
        let limit = of_frontend(own, &self.session, |fe| fe.timeouts.http_request).flatten();
        self.half.get_or_insert_with(|| Box::new(HalfHead::new(limit)));
    }

    /// The wait for a request begins, unless one has begun already.
    #[inline]
    fn begin_wait(&mut self, own: &Thread) {
        if self.half.is_none() {
            // A client that never said anything must keep within both limits.
            let limit = of_frontend(own, &self.session, |fe| match self.session.first.get() {
                true => http::earlier(fe.timeouts.http_request, fe.timeouts.client),
                false => fe.timeouts.http_keep_alive.or(fe.timeouts.http_request).or(fe.timeouts.client),
            })
            .flatten();
            // By the round's clock, as whatever else is counted from what was received or sent.
            let until_ms = limit.map_or(NEVER, |ms| clock::now_ms().saturating_add(ms + 1));
            self.wait = Wait { until_ms, leave_at_ms: 0 };
        }
    }

    /// Waits for the first byte of a request, or for more of its head. Ready when something came, or with the reason why
    /// nothing will.
    #[inline]
    fn poll_request(&mut self, own: &Thread) -> Poll<Option<NoRequest>> {
        let Stay { client, session, half, wait, .. } = self;
        if half.is_none() && client.has_input() {
            // What a client sent ahead that has broken its connection since is not served.
            let left = !session.first.get() && client.line.departure() == Departure::Reset;
            if left {
                client.eof = true;
                client.line.discard_input(parting::UNREAD_MAX);
            }
            return Poll::Ready(left.then_some(NoRequest::Closed));
        }
        match client.poll_recv_up_to(BULK_SIZE) {
            Poll::Ready(Ok(buf)) if !buf.is_empty() => {
                return Poll::Ready(client.append(buf).is_err().then_some(NoRequest::NoRoom));
            }
            Poll::Ready(_) => {
                client.eof = true;
                return Poll::Ready(Some(NoRequest::Closed));
            }
            Poll::Pending => {}
        }
        session.look_after_private();
        let now = clock::now_ms();
        let leaves = half.is_none() && !session.first.get() && own.leaves(session.listener);
        let until = match half.is_some() || leaves {
            false => wait.until_ms,
            true => match self.wait_ends_at(own, leaves, now) {
                Some(until) => until,
                None => return Poll::Ready(Some(NoRequest::Closed)),
            },
        };
        if now >= until {
            return Poll::Ready(Some(NoRequest::Timeout));
        }
        timer::want(until);
        Poll::Pending
    }

    /// When the wait ends by what is in force now; `None`: at once. `leaves`: the connection is to end when it is idle.
    fn wait_ends_at(&mut self, own: &Thread, leaves: bool, now: u64) -> Option<u64> {
        let Stay { client, session, half, wait, .. } = self;
        // Only what is in force is asked: whoever waits for a request keeps nothing of what was.
        let worker = own.pin_for(session.listener)?;
        let fe = worker.instance.config.find_proxy(session.frontend)?;
        if leaves {
            if wait.leave_at_ms == 0 {
                wait.leave_at_ms = leave_idle_at(&worker, fe, now).unwrap_or(NEVER);
            }
            // A request that came at the same time is on its way here and will be answered.
            if worker.instance.stopping() == Stopping::Hard
                || (now >= wait.leave_at_ms && !client.line.ask_input())
            {
                return None;
            }
            timer::want(wait.leave_at_ms);
        }
        Some(match half {
            Some(half) => half.deadline(fe, client.line.last_received_ms()).unwrap_or(NEVER),
            None => wait.until_ms,
        })
    }

    /// Throws away what is left of a request that was answered; false when the connection had better be closed.
    async fn drain(&mut self, own: &Thread) -> bool {
        let Some(worker) = own.pin_for(self.session.listener) else { return false };
        match worker.instance.config.find_proxy(self.session.frontend) {
            Some(fe) => reply::drain(fe, &mut self.client).await,
            None => false,
        }
    }

    /// Nothing will come: whether the connection ends without a word, as between requests, or as one that was only opened
    /// to see whether somebody listens.
    fn ends_in_silence(&self, own: &Thread) -> bool {
        let ignores_probes = || of_frontend(own, &self.session, |fe| fe.opts.http_ignore_probes);
        self.half.is_none() && (!self.session.first.get() || ignores_probes().unwrap_or(true))
    }
}

/// When an idle connection is closed during a soft stop that is noticed at `now_ms`; `None`: it waits for its next
/// request (`option idle-close-on-response`, `close-spread-time`).
fn leave_idle_at(worker: &Worker, fe: &Proxy, now_ms: u64) -> Option<u64> {
    if fe.opts.idle_close_on_response { None } else { worker.leaves_at(now_ms) }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::connection::mux::Mux;

    fn size_of_future<F: Future>(_: fn(Listed, Stay) -> F) -> usize {
        size_of::<F>()
    }

    fn size_in_frames<F: Future>(_: fn(Frames) -> F) -> usize {
        size_of::<F>()
    }

    /// What a connection that waits for a request costs besides the runtime's own record of it.
    #[test]
    fn a_waiting_session_is_small() {
        let framed = size_in_frames(in_frames);
        let (sitting, mux) = (size_of::<Sitting>(), size_of::<Mux>());
        println!("in frames: {framed}, of which {sitting} are its sitting; its mux: {mux}");
        assert!(framed <= 256, "a session in frames takes {framed} bytes, and blocks are multiples of 64");
        assert!(mux <= 624, "what a session in frames shares with its streams takes {mux} bytes");
        let size = size_of_future(serve);
        let (session, client) = (size_of::<ClientSession>(), size_of::<Port>());
        println!("all: {size}, session: {session}, facts: {}, client: {client}", size_of::<Session>());
        assert!(size <= 384, "a session takes {size} bytes, and blocks are multiples of 64");
    }
}
