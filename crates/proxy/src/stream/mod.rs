//! A stream: one request and its response, or one TCP exchange.
//!
//! [`http`] and [`tcp`] are the life of a stream, top to bottom, with one context, [`Stream`]. [`rules`] evaluates rulesets
//! and awaits what they wait for, [`route`] says where the stream goes, [`attempt`] gets it there, [`exchange`] talks to one
//! server. [`pump`] and [`relay`] move bytes, [`waiting`] and [`deadline`] say how long to wait for whom, [`reply`] answers
//! in the server's place, [`ending`] says what follows from what went wrong, [`finish`] counts and logs.

pub mod answer;
pub mod attempt;
pub mod captures;
pub mod cookie;
pub mod deadline;
pub mod deliver;
pub mod early;
pub mod ending;
pub mod entry;
pub mod exchange;
pub mod filter;
pub mod finish;
pub mod forwarded;
pub mod framed;
pub mod hedge;
pub mod http;
pub mod limit;
pub mod pump;
pub mod relay;
pub mod reply;
pub mod route;
pub mod rules;
pub mod service;
pub mod statistics;
pub mod stay;
pub mod stick;
mod tally;
pub mod tcp;
pub mod track;
pub mod tunnel;
pub mod waiting;
mod watch;

use std::rc::Rc;

use thalweg_config::model::{LogStep, Proxy, ProxyId, ServerId};
use thalweg_h1::parse::{HeadParser, ParseOptions, Parsed};
use thalweg_http::semantics::Framing;
use thalweg_http::{Head, Method};
use thalweg_rules::Effects;
use thalweg_runtime::{clock, profile};
use thalweg_sample::context::{Ctx, Payload};
use thalweg_sample::facts::{self, Session, StreamFacts};

use crate::connection::port::Port;
use crate::frontend::ClientSession;
use crate::stream::answer::Answer;
use crate::stream::ending::Cause;
use crate::stream::entry::Entry;
use crate::stream::stay::Stay;
use crate::worker::Worker;

/// What becomes of the client's connection after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// Another request may follow.
    KeepAlive,
    /// Close in order: what was sent must arrive.
    Close,
    /// Nobody is there any more, or nobody must be told: close at once.
    Drop,
    /// Not all of the head has come: the session waits for more ([`ClientSession::half`]), and serves the request again.
    Incomplete,
}

/// Why a stream ended before it was with a server, or there.
pub enum Stop<'a> {
    /// Answered, or nothing to answer: this becomes of the connection.
    Ended(After),
    /// To be answered like this.
    Answer(Answer<'a>),
}

/// Everything that serves a stream needs, lent for its duration: one request and its response, or a TCP exchange.
pub struct Stream<'a> {
    pub worker: &'a Worker,
    pub session: &'a ClientSession,
    pub client: &'a mut Port,
    pub state: &'a mut StreamState,
    frontend: &'a Proxy,
    backend: &'a Proxy,
    /// It is the first of its connection.
    pub first: bool,
    /// The client's connection may carry another request afterwards, as far as the request says.
    pub keep_alive: bool,
    /// The client ended its request too early while that was buffered.
    pub cut: bool,
    /// The client broke its connection while rules waited.
    pub broken: bool,
    /// Counts the stream in its backend, once there is one.
    pub in_backend: Option<Stay<'a>>,
}

impl<'a> Stream<'a> {
    /// A stream that begins.
    pub fn new(
        worker: &'a Worker,
        session: &'a ClientSession,
        client: &'a mut Port,
        state: &'a mut StreamState,
        first: bool,
    ) -> Stream<'a> {
        let frontend = worker.proxy(session.frontend);
        Stream {
            worker,
            session,
            client,
            state,
            frontend,
            backend: frontend,
            first,
            keep_alive: false,
            cut: false,
            broken: false,
            in_backend: None,
        }
    }

    /// Whether an idle connection that its server closes in this moment would cost more than another attempt: the client of a first
    /// request does not know that such a thing may happen. One that speaks HTTP/2 does, from its beginning on.
    #[inline]
    pub fn needs_fresh_connection(&self) -> bool {
        self.first && !self.client.line.is_framed()
    }

    /// The frontend.
    #[inline]
    pub fn frontend(&self) -> &'a Proxy {
        self.frontend
    }

    /// The backend in charge; the frontend until one was chosen.
    #[inline]
    pub fn backend(&self) -> &'a Proxy {
        debug_assert_eq!(self.backend.id, self.state.backend());
        self.backend
    }

    /// The stream is in the charge of this backend from here on.
    fn set_backend(&mut self, backend: &'a Proxy) {
        self.backend = backend;
        self.state.facts.backend = facts::ProxyId(backend.id.0);
        self.state.facts.backend_assigned = true;
        self.state.entry.set_backend(backend.id);
    }

    /// Evaluates something against the request and what is there of its body. `last` says that no more data will come
    /// before the decision.
    pub fn evaluate<R>(&mut self, last: bool, f: impl FnOnce(&mut Ctx<'_>, &mut Effects) -> R) -> R {
        let body = self.client.look();
        let payload = body.payload();
        if !self.state.facts.is_http {
            let session = &mut self.session.facts_mut();
            return self.state.evaluate_on_bytes(self.worker, session, payload, last, f);
        }
        let bodies = Bodies { request: payload, ..Bodies::default() };
        self.state.evaluate(self.worker, &mut self.session.facts_mut(), bodies, false, last, f)
    }

    /// Evaluates what makes the stream's response, and lends it the head and the body for that.
    pub fn make_answer<R>(
        &mut self,
        f: impl FnOnce(&mut Ctx<'_>, &mut Effects, &mut Head, &mut Vec<u8>) -> R,
    ) -> R {
        let body = self.client.look();
        let StreamState { facts, request, response, effects, body: made, has_request, .. } = &mut *self.state;
        let mut session = self.session.facts_mut();
        let mut scratch = self.worker.scratch.borrow_mut();
        let mut cx = Ctx::new(self.worker.clock(), self.worker, &mut session, &mut scratch);
        cx.stream = Some(facts);
        cx.request = has_request.then_some(request);
        cx.req_body = body.payload();
        cx.last = true;
        cx.reset();
        f(&mut cx, effects, response, made)
    }

    /// The name that a server is asked for by TLS (`sni`, `sni-auto`).
    pub fn server_name(&mut self, server: &thalweg_config::model::Server) -> Option<Box<[u8]>> {
        let name = server.traffic_tls()?.sni.as_ref()?;
        self.text_of(name)
    }

    /// The name of the connection, if a server's line says how it gets one (`pool-conn-name`); none when there is nothing to
    /// call it by.
    #[inline]
    pub fn connection_name(&mut self, server: &thalweg_config::model::Server) -> Option<Option<Box<[u8]>>> {
        let name = server.rare().pool_conn_name.as_ref()?;
        Some(self.text_of(name))
    }

    fn text_of(&mut self, expr: &thalweg_config::compiled::Expr) -> Option<Box<[u8]>> {
        self.evaluate(true, |cx, _| {
            let sample = expr.eval_as(thalweg_sample::Type::Str, cx)?;
            Some(cx.bytes(&sample.value)).filter(|text| !text.is_empty()).map(Box::from)
        })
    }

    /// Whether the client's handshake was not done when this was [last looked at](early::look_again).
    pub fn is_early(&self) -> bool {
        self.session.facts().rare().is_early
    }

    /// Microseconds since the stream began.
    #[inline]
    pub fn elapsed_us(&self) -> i64 {
        self.state.facts.timers.since(clock::now_us())
    }

    /// The stream reached a step at which a line may be wanted.
    #[inline]
    pub fn log_step(&mut self, step: LogStep) {
        finish::step(self.worker, self.session, self.state, self.frontend(), step);
    }

    /// An operator ended the stream: nothing more is said to the client.
    pub fn killed(&mut self) -> Stop<'a> {
        self.stop(Cause::Killed)
    }
}

/// The memory of one stream. Reused from stream to stream, so that nothing is allocated in the steady state.
pub struct StreamState {
    pub facts: StreamFacts,
    pub request: Head,
    pub response: Head,
    pub parser: HeadParser,
    pub effects: Effects,
    /// What was decided about the request as it was received, before any rule.
    pub request_framing: Framing,
    /// The method the client used, before any rule changed it.
    pub client_method: Method,
    /// A request head was received and is valid.
    pub has_request: bool,
    /// A response head exists.
    pub has_response: bool,
    /// Why it ended; as if all was well until something goes wrong.
    pub ended: Cause,
    /// Bytes the request head had when it was received.
    pub head_len: usize,
    /// Bytes of the request's body that are in the stream's count.
    pub body_counted: u64,
    /// The client's persistence cookie.
    pub cookie: cookie::Seen,
    /// Keys that stick tables are to keep with the server.
    pub stick: stick::Pending,
    /// Body of an answer of our own.
    pub body: Vec<u8>,
    /// The server's number of shutdowns when the stream came to it: see [`crate::backend::Backend::shut_epoch`].
    pub shut_epoch: u32,
    /// It began as a stream of TCP, and its first request is still to be served.
    pub upgraded: Option<Box<Upgraded>>,
    /// What operators see of the stream.
    pub entry: Rc<Entry>,
}

/// A stream that became one of HTTP (`switch-mode http`, a backend of HTTP): what it goes on with, beside its own memory. The
/// `tcp-request content` rules of its frontend are behind it.
pub struct Upgraded {
    /// What its rules are evaluated against, to its end.
    pub worker: Rc<Worker>,
    /// The backend that it has got to already.
    pub backend: Option<ProxyId>,
}

impl StreamState {
    /// Memory that is seen through `entry`.
    pub fn new(entry: Rc<Entry>) -> StreamState {
        StreamState {
            facts: StreamFacts::new(facts::ProxyId(0), true),
            request: Head::new(),
            response: Head::new(),
            parser: HeadParser::new(),
            effects: Effects::new(),
            request_framing: Framing::default(),
            client_method: Method::Get,
            has_request: false,
            has_response: false,
            ended: Cause::Completed,
            head_len: 0,
            body_counted: 0,
            cookie: cookie::Seen::default(),
            stick: stick::Pending::default(),
            body: Vec::new(),
            shut_epoch: 0,
            upgraded: None,
            entry,
        }
    }
}

/// Settings of a proxy that a stream starts with, and that its rules may change. Those of another backend replace what
/// rules of the frontend had set.
fn inherit_settings(facts: &mut StreamFacts, proxy: &Proxy, with_tarpit: bool) {
    facts.max_retries = u32::from(proxy.retries);
    let from = &proxy.timeouts;
    let set = &mut facts.timeouts;
    for (own, given) in [
        (&mut set.connect, from.connect),
        (&mut set.queue, from.queue),
        (&mut set.server, from.server),
        (&mut set.tunnel, from.tunnel),
    ] {
        *own = given.unwrap_or(0);
    }
    if with_tarpit {
        set.tarpit = from.tarpit.unwrap_or(0);
    }
}

/// Whether the stream must end: because its server went down, or another one came back, since it was assigned
/// ([`StreamState::assign_server`]), or because an operator said so.
fn shut_check<'a>(worker: &'a Worker, state: &StreamState) -> impl Fn() -> bool + use<'a> {
    let backend = worker.backend(state.backend());
    let server = state.facts.server.map(|s| ServerId(s.index));
    let began = state.shut_epoch;
    let entry = Rc::clone(&state.entry);
    move || entry.is_killed() || server.is_some_and(|s| backend.shut_epoch(s) != began)
}

/// Runs `future` to its end, or until the [server was shut down](shut_check): `None` then.
async fn unless_shut<F: Future>(shut: impl Fn() -> bool, future: F) -> Option<F::Output> {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|cx| match shut() {
        true => std::task::Poll::Ready(None),
        false => future.as_mut().poll(cx).map(Some),
    })
    .await
}

/// Bytes of the bodies that are there for rules to look at.
#[derive(Clone, Copy, Default)]
pub struct Bodies<'a> {
    pub request: Payload<'a>,
    pub response: Payload<'a>,
}

impl StreamState {
    /// Makes the memory ready for a new stream of `frontend`.
    pub fn begin(&mut self, frontend: ProxyId, is_http: bool, first: bool) {
        self.facts.is_http = is_http;
        self.facts.reset(facts::ProxyId(frontend.0));
        self.facts.first_request = first;
        self.request.clear();
        self.response.clear();
        self.parser.reset();
        self.effects.reset();
        self.request_framing = Framing::default();
        self.has_request = false;
        self.has_response = false;
        self.ended = Cause::Completed;
        self.body_counted = 0;
        self.cookie = cookie::Seen::default();
        self.stick.clear();
        self.body.clear();
        profile::begin_figures();
    }

    /// Makes the memory of a TCP stream ready for the request that it goes on with. What its rules set stays.
    fn go_on_as_http(&mut self) {
        self.facts.is_http = true;
        self.facts.timers.idle_us = 0;
        self.request.clear();
        self.parser.reset();
    }

    /// Applies what the rules that just ran asked of the client's connection and of the task.
    pub fn apply_overrides(&mut self, client: &Port) {
        let overrides = &mut self.effects.overrides;
        if let Some(nice) = overrides.nice.take() {
            thalweg_runtime::task::set_nice(nice);
        }
        if let Some(mark) = overrides.fc_mark.take() {
            client.line.set_mark(mark);
        }
        if let Some(tos) = overrides.fc_tos.take() {
            client.line.set_tos(tos);
        }
    }

    /// The stream goes to a server of its backend.
    pub fn assign_server(&mut self, worker: &Worker, server: ServerId) {
        let backend = self.facts.backend;
        self.facts.server = Some(facts::ServerId { proxy: backend, index: server.0 });
        self.shut_epoch = worker.backend(self.backend()).shut_epoch(server);
        self.entry.set_server(server);
    }

    /// The backend in charge.
    #[inline]
    pub fn backend(&self) -> ProxyId {
        ProxyId(self.facts.backend.0)
    }

    /// Evaluates something against a session that has no stream yet.
    pub fn evaluate_session<R>(
        &mut self,
        worker: &Worker,
        session: &mut Session,
        f: impl FnOnce(&mut Ctx<'_>, &mut Effects) -> R,
    ) -> R {
        let mut scratch = worker.scratch.borrow_mut();
        let mut cx = Ctx::new(worker.clock(), worker, session, &mut scratch);
        cx.reset();
        f(&mut cx, &mut self.effects)
    }

    /// Evaluates something against a stream of bytes, of which the client said `payload` so far. That may be a request:
    /// then its head is there for as long.
    pub fn evaluate_on_bytes<R>(
        &mut self,
        worker: &Worker,
        session: &mut Session,
        payload: Payload<'_>,
        last: bool,
        f: impl FnOnce(&mut Ctx<'_>, &mut Effects) -> R,
    ) -> R {
        let found =
            HeadParser::new().parse_request(&ParseOptions::default(), payload.data(), &mut self.request);
        let may_come = found == Ok(Parsed::Partial) && !payload.is_complete();
        self.has_request = matches!(found, Ok(Parsed::Complete(_)));
        let bodies = Bodies { request: payload, ..Bodies::default() };
        let result = self.evaluate(worker, session, bodies, false, last, |cx, fx| {
            cx.request_may_come = may_come;
            f(cx, fx)
        });
        self.has_request = false;
        result
    }

    /// Evaluates something against this stream. `last` says that no more data will come before the decision.
    pub fn evaluate<R>(
        &mut self,
        worker: &Worker,
        session: &mut Session,
        bodies: Bodies<'_>,
        response_side: bool,
        last: bool,
        f: impl FnOnce(&mut Ctx<'_>, &mut Effects) -> R,
    ) -> R {
        let mut scratch = worker.scratch.borrow_mut();
        let mut cx = Ctx::new(worker.clock(), worker, session, &mut scratch);
        cx.stream = Some(&mut self.facts);
        cx.request = self.has_request.then_some(&mut self.request);
        cx.response = self.has_response.then_some(&mut self.response);
        cx.req_body = bodies.request;
        cx.res_body = bodies.response;
        cx.response_side = response_side;
        cx.last = last;
        cx.reset();
        f(&mut cx, &mut self.effects)
    }
}
