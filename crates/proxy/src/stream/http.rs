//! The life of a request: receive its head, evaluate rules, choose a backend and a server, exchange, answer, log.

use std::pin::pin;
use std::rc::Rc;

use thalweg_config::model::{LogStep, Mode, Proxy};
use thalweg_h1::ParseErrorKind;
use thalweg_h1::parse::{HeadParser, ParseOptions, Parsed};
use thalweg_http::Method;
use thalweg_http::semantics::{BodyLength, FramingPolicy, Strictness};
use thalweg_rules::{Kind, Ruleset};
use thalweg_runtime::net::Departure;
use thalweg_runtime::{clock, pool, timer};
use thalweg_sample::acl::Verdict;
use thalweg_sample::logformat::make_unique_id;

use super::answer::Answer;
use super::attempt::{Attempts, note_stream};
use super::ending::Cause;
use super::entry::unless_killed;
use super::exchange::{self, Exchanged};
use super::rules::{self, Begun, Passed, Source};
use super::{
    After, Stop, Stream, StreamState, captures, early, finish, forwarded, reply, route, service, statistics,
    track, waiting,
};
use crate::backend::algorithm;
use crate::connection::line::Line;
use crate::connection::port::Port;
use crate::frontend::ClientSession;
use crate::traces::{self, Way};
use crate::worker::Worker;

/// A request's head that has not come to its end: all of its stream that must not be forgotten meanwhile. Its bytes are
/// the connection's input, from which its fields are read again when it is complete.
pub struct HalfHead {
    parser: HeadParser,
    stream_id: u32,
    idle_us: i64,
    request_wall_us: i64,
    /// When its first bytes came.
    began_ms: u64,
    /// When it must be complete (`timeout http-request`).
    complete_by: Option<u64>,
}

impl HalfHead {
    /// One that begins now, of which nothing was read yet. `limit_ms` is the time it may take.
    pub fn new(limit_ms: Option<u64>) -> HalfHead {
        HalfHead {
            parser: HeadParser::new(),
            stream_id: 0,
            idle_us: 0,
            request_wall_us: 0,
            began_ms: clock::now_ms(),
            complete_by: limit_ms.map(timer::deadline_in),
        }
    }

    /// When the wait for more of it ends, as far as it counts from the last byte, which was `received_ms`.
    pub fn deadline(&self, fe: &Proxy, received_ms: u64) -> Option<u64> {
        // Silence is limited as well as the whole.
        let silence = |ms: u64| received_ms.max(self.began_ms).saturating_add(ms + 1);
        earlier(self.complete_by, fe.timeouts.client.map(silence))
    }
}

impl<'a> Stream<'a> {
    /// How the requests of this frontend's clients are read.
    pub fn request_options(&self, frontend: &Proxy) -> ParseOptions {
        let opts = &frontend.opts;
        self.parse_options(opts.http_strict, opts.accept_unsafe_req)
    }

    /// How the responses of this backend's servers are read.
    pub fn response_options(&self, backend: &Proxy) -> ParseOptions {
        let opts = &backend.opts;
        self.parse_options(opts.http_strict, opts.accept_unsafe_res)
    }

    fn parse_options(&self, strict: bool, accept_unsafe: bool) -> ParseOptions {
        let strictness = match (strict, accept_unsafe) {
            (true, _) => Strictness::Strict,
            (false, true) => Strictness::Relaxed,
            (false, false) => Strictness::Compatible,
        };
        let global = &self.worker.instance.config.global;
        ParseOptions {
            head_max: global.tune.bufsize - global.tune.maxrewrite,
            // The setting counts the first line, too.
            fields_max: global.tune.http_maxhdr.saturating_sub(1),
            framing: FramingPolicy {
                strictness,
                payload_with_any_method: global.h1_accept_payload_with_any_method,
                keep_insecure: global.h1_do_not_close_on_insecure_te,
            },
        }
    }
}

/// A request that comes on a connection of one message at a time.
pub struct Arrival<'s> {
    /// It is the first of its connection.
    pub first: bool,
    /// When the session began or the previous request ended: microseconds of the monotonic clock, and since 1970.
    pub began: (u64, i64),
    /// Nothing more will come of it.
    pub missing: Option<NoRequest>,
    /// What came of its head before.
    pub half: &'s mut Option<Box<HalfHead>>,
}

/// Serves one request, whose first bytes are in `client.input`. `state` is new memory, or that of the TCP stream which the
/// request goes on with.
pub async fn serve(
    worker: Rc<Worker>,
    session: &ClientSession,
    client: &mut Port,
    state: &mut StreamState,
    arrival: Arrival<'_>,
) -> After {
    let worker = &*worker;
    let Arrival { first, began, missing, half } = arrival;
    let was_tcp = state.upgraded.is_some();
    if was_tcp {
        state.go_on_as_http();
    } else {
        begin(state, session, first, began);
    }
    let mut http = Stream::new(worker, session, client, state, first);
    if !was_tcp {
        http.inherit_of_frontend();
    }
    let waiting = match half.take() {
        Some(half) => Some(http.resume(*half)),
        None => {
            if was_tcp {
                track::stream_became_request(http.state);
            } else {
                http.state.facts.id = worker.next_stream_id();
            }
            track::request_began(http.session);
            None
        }
    };
    http.enter();
    let received = match http.receive_head(missing) {
        Ok(false) => {
            if first && waiting.is_none() {
                http.ask_for_more();
            }
            *half = Some(http.keep_half(waiting));
            return After::Incomplete;
        }
        Ok(true) => {
            if first && !http.has_all() {
                http.ask_for_more();
            }
            Ok(())
        }
        Err(stop) => Err(stop),
    };
    live(&mut http, received).await
}

/// Makes `state` ready for a request that begins now. `began` is as in [`Arrival`].
pub fn begin(state: &mut StreamState, session: &ClientSession, first: bool, began: (u64, i64)) {
    state.begin(session.frontend, true, first);
    let t = &mut state.facts.timers;
    t.accept_mono_us = began.0;
    t.accept_wall_us = began.1;
    t.handshake_us = if first { i64::from(session.facts().handshake_us.max(0)) } else { 0 };
    t.idle_us = i64::try_from(clock::now_us().saturating_sub(began.0)).unwrap_or(0) - t.handshake_us;
    t.request_wall_us = i64::try_from(clock::wall_us()).unwrap_or(0);
}

/// Serves one request of a connection that carries several. Its head was judged and is in `state`, which [`begin`] had made
/// ready for it; what is not a request is answered with 400.
pub async fn serve_framed(
    worker: &Worker,
    session: &ClientSession,
    client: &mut Port,
    state: &mut StreamState,
    is_request: bool,
) -> After {
    let first = state.facts.first_request;
    let mut http = Stream::new(worker, session, client, state, first);
    http.inherit_of_frontend();
    http.state.facts.id = worker.next_stream_id();
    track::request_began(http.session);
    http.state.facts.fs = http.client.line.seen();
    http.enter();
    worker.fe_counters(session.listener).h2_streams.add(1);
    let received = match is_request {
        true => {
            let options = http.request_options(http.frontend());
            http.accept_head(&options);
            Ok(())
        }
        false => {
            worker.count_request(session.listener);
            Err(http.stop_with(Cause::BadRequest, Answer::Error(400)))
        }
    };
    let after = live(&mut http, received).await;
    if let (Cause::RejectedByRule, Line::Mux(line)) = (http.state.ended, &mut http.client.line) {
        line.kick();
    }
    after
}

/// Counts, and perhaps logs, what came in place of a request on a connection that carries several, or broke the connection
/// without being one. Nobody is answered: the sender knows from the reset which stream it was.
pub fn refuse_framed(
    worker: &Worker,
    session: &ClientSession,
    first: bool,
    began: (u64, i64),
    logged: bool,
    cause: Cause,
) {
    let is_request = cause == Cause::BadRequest;
    let mut state = worker.take_stream();
    begin(&mut state, session, first, began);
    let mut nobody = Port::new(Line::Local(None));
    let mut http = Stream::new(worker, session, &mut nobody, &mut state, first);
    http.inherit_of_frontend();
    http.state.facts.id = worker.next_stream_id();
    if is_request {
        track::request_began(session);
        worker.count_request(session.listener);
    }
    http.end(cause);
    http.state.facts.status = 0;
    if !logged {
        http.state.facts.log_level = Some(255);
    }
    let fe = http.frontend();
    if is_request {
        finish::http(&mut http, fe);
    } else {
        finish::log_stream(worker, session, http.state, fe);
    }
    drop(http);
    worker.give_stream(state);
}

/// The life of a stream whose head was `received`, to its end.
#[inline]
async fn live<'a>(http: &mut Stream<'a>, received: Result<(), Stop<'a>>) -> After {
    let served = match received {
        Ok(()) => {
            let entry = Rc::clone(&http.state.entry);
            // Futures that are large and part of every request are pinned: that leaves out one of two copies of each.
            let served = unless_killed(entry, pin!(http.run())).await;
            served.unwrap_or_else(|| Err(http.killed()))
        }
        Err(stop) => Err(stop),
    };
    let after = match served {
        Ok(after) => after,
        Err(Stop::Ended(after)) => after,
        Err(Stop::Answer(answer)) => reply::send(http, answer).await,
    };
    let fe = http.frontend();
    http.state.facts.fs = http.client.line.seen();
    finish::http(http, fe);
    after
}

/// The rulesets of a proxy that look at requests, in their order, as far as there are rules in them: running one costs a
/// future.
fn rules_on_requests(proxy: &Proxy) -> impl Iterator<Item = (&Ruleset, Kind)> {
    let rules = &proxy.rules;
    [(&*rules.tcp_content_req, Kind::TcpRequest), (&*rules.http_request, Kind::HttpRequest)]
        .into_iter()
        .filter(|(rules, _)| !rules.is_empty())
}

/// Why no request came, or no more of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRequest {
    /// The client left, or stopped sending.
    Closed,
    /// Nothing came in time.
    Timeout,
    /// There was no buffer for more of it.
    NoRoom,
}

impl<'a> Stream<'a> {
    /// What the frontend sets for its streams.
    fn inherit_of_frontend(&mut self) {
        let fe = self.frontend();
        super::inherit_settings(&mut self.state.facts, fe, true);
        self.state.facts.log_early = fe.opts.logasap;
        self.state.facts.timeouts.client = fe.timeouts.client.unwrap_or(0);
    }

    /// From here on operators see the stream.
    fn enter(&mut self) {
        let source = self.session.facts().source();
        self.state.entry.begin(self.state.facts.id, self.session.frontend, source);
        if self.state.upgraded.is_none() {
            self.trace(traces::STREAM_NEW);
        }
    }

    /// A connection that ends before its first byte.
    fn no_request(&mut self, why: NoRequest) -> Stop<'a> {
        // There was no request to be idle before.
        self.state.facts.timers.idle_us = 0;
        self.worker.fe_counters(self.session.listener).silent.add(1);
        self.worker.count_request(self.session.listener);
        self.stop(match why {
            NoRequest::Closed => Cause::ClientSaidNothing,
            NoRequest::Timeout => Cause::ClientSilent,
            NoRequest::NoRoom => Cause::NoRoomForHead,
        })
    }

    /// Goes on with a head of which more came. Returns when it must be complete, and since when it is waited for.
    fn resume(&mut self, half: HalfHead) -> (u64, Option<u64>) {
        let HalfHead { parser, stream_id, idle_us, request_wall_us, began_ms, complete_by } = half;
        let state = &mut *self.state;
        state.parser = parser;
        state.facts.id = stream_id;
        state.facts.timers.idle_us = idle_us;
        state.facts.timers.request_wall_us = request_wall_us;
        (began_ms, complete_by)
    }

    /// Whether all of the request came with its head.
    fn has_all(&self) -> bool {
        let here = self.client.input.as_ref().map_or(0, |input| input.len() as u64);
        self.client.body.remaining().is_some_and(|left| left <= here)
    }

    /// More of the first request has to come, and its client may wait for the acknowledgement of what it sent (RFC 896), which
    /// `option tcp-smart-accept` puts off: it is sent now.
    #[cold]
    fn ask_for_more(&self) {
        if self.frontend().opts.tcp_smart_accept
            && let Some(wire) = self.client.line.wire()
        {
            // A unix socket acknowledges nothing.
            let _ = wire.set_quickack(true);
        }
    }

    /// Takes out what is to be kept of the head, which is not complete, for the session to do so. `waiting` is since when, and until when, if it was waited
    /// for before.
    fn keep_half(&mut self, waiting: Option<(u64, Option<u64>)>) -> Box<HalfHead> {
        // The time allowed for a head counts from its first byte; waiting for that byte has its own limit.
        let (began_ms, complete_by) = waiting.unwrap_or_else(|| {
            (clock::now_ms(), self.frontend().timeouts.http_request.map(timer::deadline_in))
        });
        let state = &mut *self.state;
        state.parser.forget_fields(self.client.received(), &mut state.request);
        Box::new(HalfHead {
            parser: state.parser,
            stream_id: state.facts.id,
            idle_us: state.facts.timers.idle_us,
            request_wall_us: state.facts.timers.request_wall_us,
            began_ms,
            complete_by,
        })
    }

    /// The request was received and judged: whatever was waited for on the way, such as its body, belongs to that
    /// (`%TR`).
    pub fn note_decision(&mut self) {
        if self.state.facts.timers.request_us < 0 {
            self.state.facts.timers.request_us = self.elapsed_us();
        }
    }

    async fn run(&mut self) -> Result<After, Stop<'a>> {
        let fe = self.frontend();
        early::look_again(self);
        let was_tcp = self.state.upgraded.is_some();
        if !was_tcp {
            self.log_step(LogStep::Accept);
        }
        self.log_step(LogStep::Request);
        captures::of_request(self, fe);
        if let Some(answer) = self.monitor(fe) {
            self.note_decision();
            return Err(Stop::Answer(answer));
        }
        if buffers_requests(fe) {
            let limit = fe.timeouts.http_request.or(fe.timeouts.client);
            waiting::body_of_client(self, limit, 0).await?;
            waiting::note_cut(self);
        }
        for (rules, kind) in rules_on_requests(fe) {
            if was_tcp && kind == Kind::TcpRequest {
                continue;
            }
            if let Some(begun) = self.begin_rules(fe, rules, kind) {
                self.go_on_with_rules(fe, rules, kind, begun).await?;
            }
        }
        if let Some(page) = &fe.stats {
            Box::pin(statistics::serve(self, fe, page)).await?;
        }
        if !fe.rules.redirect.is_empty() {
            self.request_rules(fe, &fe.rules.redirect, Kind::HttpRequest).await?;
        }
        self.restrict_names(fe)?;
        let be = self.choose_backend(fe)?;
        if be.id != fe.id {
            if buffers_requests(be) && !buffers_requests(fe) {
                let limit = be.timeouts.http_request.or(fe.timeouts.client);
                waiting::body_of_client(self, limit, 0).await?;
            }
            for (rules, kind) in rules_on_requests(be) {
                if let Some(begun) = self.begin_rules(be, rules, kind) {
                    self.go_on_with_rules(be, rules, kind, begun).await?;
                }
            }
            if let Some(page) = &be.stats {
                Box::pin(statistics::serve(self, be, page)).await?;
            }
            if !be.rules.redirect.is_empty() {
                self.request_rules(be, &be.rules.redirect, Kind::HttpRequest).await?;
            }
            self.restrict_names(be)?;
        }
        self.note_decision();
        if self.broken {
            return Err(self.stop(Cause::ClientResetInRules));
        }
        self.was_taken_back()?;
        if self.cut {
            return Err(self.stop(Cause::ClientLeftInRules));
        }
        self.prepare_forwarding(fe, be)?;
        crate::plant::here("backend");
        pin!(self.talk_to_server(be)).await
    }

    /// Who takes a request back at once makes no server work.
    fn was_taken_back(&mut self) -> Result<(), Stop<'a>> {
        let client = &mut self.client;
        if !client.line.is_framed() || client.line.departure() != Departure::Reset {
            return Ok(());
        }
        Err(self.stop(match self.client.body.is_ended() {
            true => Cause::ClientResetInRules,
            false => Cause::ClientLeftInRules,
        }))
    }

    /// Reads the head of the request, as far as it was received, and judges it. False when more of it has to come, which
    /// it does not when something is `missing`.
    #[inline]
    fn receive_head(&mut self, missing: Option<NoRequest>) -> Result<bool, Stop<'a>> {
        let fe = self.frontend();
        let options = self.request_options(fe);
        let Some(input) = self.client.input.as_mut().filter(|input| !input.is_empty()) else {
            return Err(self.no_request(missing.unwrap_or(NoRequest::Closed)));
        };
        let input_len = input.len();
        match self.state.parser.parse_request(&options, input, &mut self.state.request) {
            Ok(Parsed::Complete(len)) => {
                input.advance(len);
                self.state.facts.req_bytes_in += len as u64;
                if input.is_empty() {
                    self.client.input = None;
                }
            }
            Ok(Parsed::Partial) => {
                let Some(why) = missing else { return Ok(false) };
                self.worker.count_request(self.session.listener);
                if why == NoRequest::NoRoom {
                    self.note_refused_head(ParseErrorKind::HeadTooLarge, input_len);
                } else {
                    self.state.facts.req_bytes_in += self.client.input.take().map_or(0, |b| b.len() as u64);
                }
                return Err(self.stop(match why {
                    NoRequest::Closed => Cause::ClientLeftInHead,
                    NoRequest::Timeout => Cause::HeadTimeout,
                    NoRequest::NoRoom => Cause::NoRoomForHead,
                }));
            }
            Err(error) => {
                self.worker.count_request(self.session.listener);
                let status = error.status();
                self.state.facts.req_bytes_in += input_len as u64;
                self.note_refused_head(error.kind, error.offset);
                self.trace(traces::H1_ERROR);
                self.client.input = None;
                self.client.body.begin_until_close();
                self.note_request_line();
                return Err(self.stop_with(Cause::BadRequest, Answer::Error(status)));
            }
        }
        self.accept_head(&options);
        Ok(true)
    }

    /// A request was received and judged to be one.
    #[inline]
    fn accept_head(&mut self, options: &ParseOptions) {
        self.worker.count_request(self.session.listener);
        self.state.has_request = true;
        self.state.client_method = self.state.request.method();
        self.state.head_len = self.state.request.encoded_len();
        self.state.request_framing = self.state.request.framing();
        let body = match self.state.request_framing.body {
            // The tunnel is no part of the request: nothing of it is taken before the server has agreed to it.
            BodyLength::Tunnel => BodyLength::None,
            body => body,
        };
        self.client.begin_body(body, options);
        self.note_request_line();
        self.trace_request(Way::Received, self.client.line.is_framed());
        let framing = self.state.request_framing;
        self.keep_alive = framing.keep_alive && !self.frontend().opts.httpclose;
    }

    /// Keeps the request line as it was received, for `%r` and the `capture.req` fetches.
    fn note_request_line(&mut self) {
        let limit = self.worker.instance.config.global.tune.http_logurilen;
        let request = &self.state.request;
        let line = &mut self.state.facts.request_line;
        line.clear();
        if request.method_bytes().is_empty() || !self.state.has_request {
            return;
        }
        match request.bytes(request.line_span()).strip_suffix(b"\r\n") {
            // Nearly all are there as they are to be kept.
            Some(whole) if whole.len() < limit => line.extend_from_slice(whole),
            _ => {
                line.extend_from_slice(request.method_bytes());
                line.push(b' ');
                line.extend_from_slice(request.target());
                line.truncate(limit.saturating_sub(1));
                line.push(b' ');
                let version = request.version();
                line.extend_from_slice(&[
                    b'H',
                    b'T',
                    b'T',
                    b'P',
                    b'/',
                    b'0' + version.major,
                    b'.',
                    b'0' + version.minor,
                ]);
                line.truncate(limit.saturating_sub(1));
            }
        }
        self.state.entry.set_line(line);
    }

    /// Counts what was taken of the body since this was last called, and returns how much that was. What is sent again to
    /// another server counts once.
    pub fn count_body(&mut self) -> u64 {
        let received = self.client.body.received();
        let counted = &mut self.state.body_counted;
        let more = received.saturating_sub(*counted);
        self.state.facts.req_bytes_in += more;
        *counted = received.max(*counted);
        more
    }

    /// The same, when what was taken went to a server.
    pub fn count_sent_body(&mut self) {
        let sent = self.count_body();
        self.state.facts.req_bytes_out += sent;
    }

    /// `monitor-uri` and `monitor fail`.
    #[inline]
    fn monitor(&mut self, fe: &'a Proxy) -> Option<Answer<'a>> {
        let uri = fe.monitor_uri.as_deref()?;
        let target = self.state.request.target();
        // A path is one in every form of the target; anything else is the target itself.
        let asked = if uri.starts_with(b"/") { thalweg_http::uri::path_and_query(target) } else { target };
        if asked != uri {
            return None;
        }
        let failed = fe
            .monitor_fail
            .iter()
            .any(|condition| self.evaluate(true, |cx, _| condition.eval(cx) == Verdict::Pass));
        self.end(Cause::Monitored);
        // The requests of a monitor are never logged.
        self.state.facts.log_level = Some(255);
        Some(Answer::Error(if failed { 503 } else { 200 }))
    }

    /// Evaluates one ruleset on the request.
    pub(super) async fn request_rules(
        &mut self,
        proxy: &'a Proxy,
        rules: &'a Ruleset,
        kind: Kind,
    ) -> Result<(), Stop<'a>> {
        match self.begin_rules(proxy, rules, kind) {
            Some(begun) => self.go_on_with_rules(proxy, rules, kind, begun).await,
            None => Ok(()),
        }
    }

    /// Looks at rules on the request. Mostly they let it pass, and there is nothing to wait for: `None`.
    #[inline]
    fn begin_rules(&mut self, proxy: &Proxy, rules: &'a Ruleset, kind: Kind) -> Option<Begun<'a>> {
        rules::begin(self, proxy, rules, kind, &mut Source::Client)
    }

    async fn go_on_with_rules(
        &mut self,
        proxy: &'a Proxy,
        rules: &'a Ruleset,
        kind: Kind,
        begun: Begun<'a>,
    ) -> Result<(), Stop<'a>> {
        match rules::go_on(self, proxy, rules, kind, &mut Source::Client, begun).await? {
            Passed::On | Passed::AsHttp => Ok(()),
            Passed::ToService(name) => {
                let serving = pool::boxed_with(|| service::serve(self, name));
                Err(Stop::Ended(serving.await?))
            }
        }
    }

    /// Head and buffered body share a buffer: what rules may add is what is left of it, and at least
    /// `tune.maxrewrite`.
    pub fn limit_request(&mut self) {
        let body = self.client.input.as_ref().map_or(0, |b| b.len());
        let tune = &self.worker.instance.config.global.tune;
        let limit = exchange::head_limit(tune.bufsize, tune.maxrewrite, self.state.head_len, body);
        self.state.request.set_limit(limit);
    }

    /// Waits for the body on behalf of who answers the request, as far as it fits into a buffer. Who ends it too early gets no
    /// answer but an error.
    pub async fn receive_body(&mut self) -> Result<(), Stop<'a>> {
        let timeouts = &self.frontend().timeouts;
        waiting::body_of_client(self, timeouts.http_request.or(timeouts.client), 0).await?;
        if self.cut { Err(self.stop(Cause::ClientLeftInRules)) } else { Ok(()) }
    }

    /// `option http-restrict-req-hdr-names`.
    fn restrict_names(&mut self, proxy: &Proxy) -> Result<(), Stop<'a>> {
        use thalweg_config::model::RestrictHeaderNames as Configured;
        use thalweg_http::semantics::NamePolicy;
        let policy = match proxy.opts.restrict_req_hdr_names {
            None | Some(Configured::Preserve) => return Ok(()),
            Some(Configured::Delete) => NamePolicy::Delete,
            Some(Configured::Reject) => NamePolicy::Reject,
        };
        if policy.apply(&mut self.state.request) {
            return Ok(());
        }
        self.note_decision();
        Err(self.stop(Cause::BadHeaderName))
    }

    /// The header edits that options ask for, once all rules have run.
    #[inline]
    fn prepare_forwarding(&mut self, fe: &'a Proxy, be: &'a Proxy) -> Result<(), Stop<'a>> {
        let mut ok = true;
        if fe.unique_id_format.is_some() || self.state.facts.unique_id.is_some() {
            self.evaluate(true, |cx, _| make_unique_id(cx));
            if let (Some(name), Some(id)) = (&fe.unique_id_header, &self.state.facts.unique_id) {
                self.state.request.remove_all(name);
                ok &= self.state.request.push(name, id).is_ok();
            }
        }
        ok &= forwarded::apply(self, fe, be);
        ok &= early::mark(self);
        if !ok {
            self.worker.fe_counters(self.session.listener).failed_rewrites.add(1);
        }
        Ok(())
    }

    /// `use_backend` and `default_backend`, unless the stream has got to a backend before it became one of HTTP.
    #[inline]
    fn choose_backend(&mut self, fe: &'a Proxy) -> Result<&'a Proxy, Stop<'a>> {
        let chosen = self.state.upgraded.as_ref().and_then(|before| before.backend);
        let Some(be) = chosen.map(|id| self.worker.proxy(id)).or_else(|| route::backend(self, fe)) else {
            self.state.facts.timers.request_us = -1;
            return Err(self.stop(Cause::NoBackend));
        };
        route::enter(self, be);
        if be.mode == Mode::Http { Ok(be) } else { Err(self.stop(Cause::BackendOfTcp)) }
    }

    /// Chooses servers and exchanges with them until one answers or the attempts are used up.
    async fn talk_to_server(&mut self, be: &'a Proxy) -> Result<After, Stop<'a>> {
        let mut attempts = Attempts::new(be, route::choice(self, be));
        loop {
            let server = match attempts.next_at_once(self) {
                Some(server) => server,
                None => pin!(attempts.next(self)).await?,
            };
            if let Some(prefix) = &server.rare().redir
                && matches!(self.state.request.method(), Method::Get | Method::Head)
            {
                let answer = Answer::ServerRedirect(prefix);
                return Err(self.stop_with(Cause::RedirectedToServer, answer));
            }
            if let Some(target) = attempts.take_idle(self, server) {
                pin!(attempts.open(self, server, target)).await?;
            }
            let Some(mut with) = attempts.connected(self, server) else { continue };
            let exchanged = pin!(exchange::with_server(self, be, &mut with)).await;
            let server = with.server;
            note_stream(self, with.conn);
            // It leaves the connection.
            self.state.facts.bc_streams = 0;
            attempts.leave(self, server);
            match exchanged {
                Exchanged::Answered(after) => return Ok(after),
                Exchanged::Failed(stop) => return Err(stop),
                Exchanged::Repeat => attempts.repeat(),
                Exchanged::Retry => attempts.failed(self),
            }
        }
    }
}

/// The earlier of two moments that may be set.
pub fn earlier(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// Whether a request waits until its body is there, or as much of it as fits: `option http-buffer-request`, or `balance
/// url_param`, which looks for its parameter in the body of a POST.
fn buffers_requests(proxy: &Proxy) -> bool {
    proxy.opts.http_buffer_request || algorithm::looks_into_bodies(proxy)
}
