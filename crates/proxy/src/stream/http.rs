//! The life of a request: receive its head, evaluate rules, choose a backend and a server, exchange, answer, log.

use std::pin::pin;
use std::rc::Rc;

use thalweg_balance::ServerIndex;
use thalweg_config::model::{
    BalanceAlgo, DynamicTarget, LogStep, Mode, Proxy, ProxyId, ServerId, UseServerTarget,
};
use thalweg_h1::ParseErrorKind;
use thalweg_h1::parse::{HeadParser, ParseOptions, Parsed};
use thalweg_http::semantics::{BodyLength, FramingPolicy, Strictness};
use thalweg_http::{Head, HeaderId, Method};
use thalweg_rules::{Kind, Ruleset};
use thalweg_runtime::net::Departure;
use thalweg_runtime::{clock, timer};
use thalweg_sample::acl::Verdict;
use thalweg_sample::facts;

use super::ending::Cause;
use super::entry::unless_killed;
use super::exchange::{self, Exchanged};
use super::rules::{self, Passed, Source};
pub use super::{After, Stop, Stream, Stream as Http};
use super::{StreamState, cookie, finish, forwarded, reply, service, statistics, waiting};
use crate::backend::Slot;
use crate::backend::assign::{self, Choice, NoServer};
use crate::backend::connect::{LineValues, Target};
use crate::connection::port::Port;
use crate::counters::Present;
use crate::frontend::ClientSession;
use crate::worker::Worker;

/// A request's head that has not come to its end: all of its stream that must not be forgotten meanwhile. Its bytes are
/// the connection's input.
pub struct HalfHead {
    parser: HeadParser,
    head: Head,
    stream_id: u32,
    idle_us: i64,
    request_wall_us: i64,
    /// When its first bytes came.
    began_ms: u64,
    /// When it must be complete (`timeout http-request`).
    complete_by: Option<u64>,
}

impl HalfHead {
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

/// Serves one request, whose first bytes are in `client.input`. `began` is when the session began or the previous request
/// ended: microseconds of the monotonic clock, and since 1970. `missing` says that nothing more will come of the request.
pub async fn serve(
    worker: &Worker,
    session: &mut ClientSession,
    client: &mut Port,
    state: &mut StreamState,
    first: bool,
    began: (u64, i64),
    missing: Option<NoRequest>,
) -> After {
    state.begin(session.frontend, true, first);
    let t = &mut state.facts.timers;
    t.accept_mono_us = began.0;
    t.accept_wall_us = began.1;
    t.handshake_us = if first { session.facts.handshake_us.max(0) } else { 0 };
    t.idle_us = i64::try_from(clock::now_us().saturating_sub(began.0)).unwrap_or(0) - t.handshake_us;
    t.request_wall_us = i64::try_from(clock::wall_us()).unwrap_or(0);
    let half = session.half.take();
    let mut http = Stream::new(worker, session, client, state, first);
    let fe = http.frontend();
    super::inherit_settings(&mut http.state.facts, fe, true);
    http.state.facts.log_early = fe.opts.logasap;
    http.state.facts.timeouts.client = fe.timeouts.client.unwrap_or(0);
    let waiting = match half {
        Some(half) => Some(http.resume(*half)),
        None => {
            http.state.facts.id = worker.next_stream_id();
            None
        }
    };
    let entry = Rc::clone(&http.state.entry);
    entry.begin(http.state.facts.id, fe.id, http.session.facts.source());
    let served = match http.receive_head(missing) {
        Ok(true) => {
            // Futures that are large and part of every request are pinned: that leaves out one of two copies of each.
            let served = unless_killed(entry, pin!(http.run())).await;
            served.unwrap_or_else(|| Err(http.killed()))
        }
        Ok(false) => {
            http.keep_half(waiting);
            return After::Incomplete;
        }
        Err(stop) => Err(stop),
    };
    let after = match served {
        Ok(after) => after,
        Err(Stop::Ended(after)) => after,
        Err(Stop::Answer(answer)) => reply::send(&mut http, answer).await,
    };
    finish::http(&mut http, fe);
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
        let HalfHead { parser, head, stream_id, idle_us, request_wall_us, began_ms, complete_by } = half;
        let state = &mut *self.state;
        state.parser = parser;
        state.request = head;
        state.facts.id = stream_id;
        state.facts.timers.idle_us = idle_us;
        state.facts.timers.request_wall_us = request_wall_us;
        (began_ms, complete_by)
    }

    /// Leaves the head, which is not complete, with the session. `waiting` is since when, and until when, if it was waited
    /// for before.
    fn keep_half(&mut self, waiting: Option<(u64, Option<u64>)>) {
        // The time allowed for a head counts from its first byte; waiting for that byte has its own limit.
        let (began_ms, complete_by) = waiting.unwrap_or_else(|| {
            (clock::now_ms(), self.frontend().timeouts.http_request.map(timer::deadline_in))
        });
        let state = &mut *self.state;
        self.session.half = Some(Box::new(HalfHead {
            parser: state.parser,
            head: std::mem::take(&mut state.request),
            stream_id: state.facts.id,
            idle_us: state.facts.timers.idle_us,
            request_wall_us: state.facts.timers.request_wall_us,
            began_ms,
            complete_by,
        }));
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
        self.log_step(LogStep::Accept);
        self.log_step(LogStep::Request);
        self.captures(fe);
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
            self.request_rules(fe, rules, kind).await?;
        }
        if let Some(page) = &fe.stats {
            Box::pin(statistics::serve(self, fe, page)).await?;
        }
        if !fe.rules.redirect.is_empty() {
            self.request_rules(fe, &fe.rules.redirect, Kind::HttpRequest).await?;
        }
        self.restrict_names(fe)?;
        self.choose_backend(fe)?;
        let be = self.backend();
        if be.id != fe.id {
            if buffers_requests(be) && !buffers_requests(fe) {
                let limit = be.timeouts.http_request.or(fe.timeouts.client);
                waiting::body_of_client(self, limit, 0).await?;
            }
            for (rules, kind) in rules_on_requests(be) {
                self.request_rules(be, rules, kind).await?;
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
        if self.cut {
            return Err(self.stop(Cause::ClientLeftInRules));
        }
        self.prepare_forwarding(fe, be)?;
        crate::plant::here("backend");
        pin!(self.talk_to_server(be)).await
    }

    /// Reads the head of the request, as far as it was received, and judges it. False when more of it has to come, which
    /// it does not when something is `missing`.
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
                self.client.input = None;
                self.client.body.begin_until_close();
                self.note_request_line();
                return Err(self.stop_with(Cause::BadRequest, reply::Answer::Error(status)));
            }
        }
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
        self.client.body.begin(body, &options);
        self.note_request_line();
        let framing = self.state.request_framing;
        self.keep_alive = framing.keep_alive && !fe.opts.httpclose;
        Ok(true)
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

    fn captures(&mut self, fe: &Proxy) {
        let n = fe.request_captures.len();
        if n > 0 {
            self.state.facts.req_captures.reset(n);
            for (i, capture) in fe.request_captures.iter().enumerate().filter(|(_, c)| !c.name.is_empty()) {
                if let Some(field) = self.state.request.find_all(&capture.name).last() {
                    self.state.facts.req_captures.set(i, field.value, capture.len as usize);
                }
            }
        }
        self.state.facts.res_captures.reset(fe.response_captures.len());
        if let Some(capture) = &fe.cookie_capture {
            self.state.facts.captured_cookie = capture_cookie(&self.state.request, HeaderId::Cookie, capture);
        }
    }

    /// `monitor-uri` and `monitor fail`.
    fn monitor(&mut self, fe: &'a Proxy) -> Option<reply::Answer<'a>> {
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
        Some(reply::Answer::Error(if failed { 503 } else { 200 }))
    }

    /// Evaluates one ruleset on the request.
    pub(super) async fn request_rules(
        &mut self,
        proxy: &'a Proxy,
        rules: &'a Ruleset,
        kind: Kind,
    ) -> Result<(), Stop<'a>> {
        self.limit_request();
        match rules::run(self, proxy, rules, kind, &mut Source::Client).await? {
            Passed::On | Passed::AsHttp => Ok(()),
            Passed::ToService(name) => Err(Stop::Ended(service::serve(self, name).await?)),
        }
    }

    /// Head and buffered body share a buffer: what rules may add is what is left of it, and at least
    /// `tune.maxrewrite`.
    fn limit_request(&mut self) {
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

    /// The server this session stays with: the one it has a connection of its own to, because it authenticates on that or
    /// with `option prefer-last-server`, as long as no more than `max-keep-alive-queue` requests wait for it. A hash
    /// decides for itself.
    fn last_server(&self, be: &Proxy) -> Option<ServerIndex> {
        // Who authenticates a connection needs that connection again.
        let id = self.session.last_private_server(be.id, !be.opts.prefer_last_server)?;
        let backend = self.worker.backend(be.id);
        let queue_max = u32::try_from(be.max_keep_alive_queue).unwrap_or(u32::MAX);
        (backend.is_usable(id) && backend.server_queue_len(id) <= queue_max).then_some(ServerIndex(id.0))
    }

    /// `use_backend` and `default_backend`.
    fn choose_backend(&mut self, fe: &'a Proxy) -> Result<(), Stop<'a>> {
        let mut chosen = None;
        let forced = !fe.force_be_switch.is_empty() && self.is_switch_forced(fe);
        for rule in &fe.use_backend {
            let worker = self.worker;
            let found = self.evaluate(true, |cx, _| {
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
            match found {
                // Not eligible: the next rules may name another one.
                Some(Some(id)) if !forced && !worker.instance.is_eligible(id) => {}
                // A name that no backend has leads to the default one.
                Some(target) => {
                    chosen = target;
                    break;
                }
                None => {}
            }
        }
        let target = chosen.or(fe.default_backend).or_else(|| fe.is_be().then_some(fe.id));
        let Some(target) = target else {
            self.state.facts.timers.request_us = -1;
            return Err(self.stop(Cause::NoBackend));
        };
        let be = self.worker.proxy(target);
        if be.mode != Mode::Http {
            return Err(self.stop(Cause::BackendOfTcp));
        }
        self.assign_backend(be);
        Ok(())
    }

    /// `force-be-switch`.
    fn is_switch_forced(&mut self, fe: &Proxy) -> bool {
        self.evaluate(true, |cx, _| {
            fe.force_be_switch.iter().any(|(condition, _)| condition.eval(cx) == Verdict::Pass)
        })
    }

    fn assign_backend(&mut self, be: &Proxy) {
        let now_ms = clock::now_ms();
        self.state.facts.backend = facts::ProxyId(be.id.0);
        self.state.facts.backend_assigned = true;
        self.state.entry.set_backend(be.id);
        cookie::begin(be, &mut self.state.facts.termination);
        if be.id != self.session.frontend {
            super::inherit_settings(&mut self.state.facts, be, false);
        }
        self.in_backend = Some(self.worker.begin_stream(be.id));
        let counters = self.worker.be_counters(be.id);
        counters.requests.add(1);
        counters.request_rate.add(now_ms);
    }

    /// The header edits that options ask for, once all rules have run.
    fn prepare_forwarding(&mut self, fe: &'a Proxy, be: &'a Proxy) -> Result<(), Stop<'a>> {
        let mut ok = true;
        if fe.unique_id_format.is_some() || self.state.facts.unique_id.is_some() {
            finish::ensure_unique_id(self);
            if let (Some(name), Some(id)) = (&fe.unique_id_header, &self.state.facts.unique_id) {
                self.state.request.remove_all(name);
                ok &= self.state.request.push(name, id).is_ok();
            }
        }
        ok &= forwarded::apply(self, fe, be);
        if !ok {
            self.worker.fe_counters(self.session.listener).failed_rewrites.add(1);
        }
        Ok(())
    }

    /// Chooses servers and exchanges with them until one answers or the attempts are used up.
    async fn talk_to_server(&mut self, be: &'a Proxy) -> Result<After, Stop<'a>> {
        if !be.persist_rules.is_empty() {
            cookie::persist_rules(self, be);
        }
        let mut choice = Choice { wanted: self.use_server(be), ..Choice::default() };
        if let Some(policy) = &be.cookie {
            choice.wanted = cookie::request(self, be, policy, choice.wanted);
        }
        if choice.wanted.is_none() {
            choice.key = self.balance_key(be);
            if choice.key.is_none() {
                choice.wanted = self.last_server(be);
            }
        }
        // The slot held on a server; kept from attempt to attempt on the same one.
        let mut held: Option<Lease<'a>> = None;
        // The server of the attempt that failed, whether it was connected, and whether another attempt there should wait
        // a little.
        let mut failed = None;
        let mut fresh = false;
        loop {
            let chosen_again = held.is_none();
            let server_id = match &held {
                Some(lease) => lease.server(),
                None => {
                    let slot = self.assign_server(be, choice).await?;
                    held = Some(Lease::new(self.worker, be.id, slot));
                    let id = slot.server();
                    self.state.assign_server(self.worker, id);
                    self.state.facts.timers.queue_us = self.elapsed_us();
                    id
                }
            };
            if let Some((before, connected, wait)) = failed.take() {
                if before != server_id {
                    cookie::redispatched(self.state);
                }
                finish::count_retry(self.worker, self.state, before, server_id, connected);
                if before == server_id && wait {
                    self.pause(be).await?;
                    if chosen_again {
                        // It was not ready for the stream before that.
                        self.state.facts.timers.queue_us = self.elapsed_us();
                    }
                }
            }
            // What is sent again because its connection had ended is the same attempt.
            if !fresh {
                self.worker.count_attempt(be.id, server_id);
            }
            let server = &be.servers[server_id.0 as usize];
            if let (Some(prefix), true) =
                (&server.rare().redir, matches!(self.state.request.method(), Method::Get | Method::Head))
            {
                let answer = reply::Answer::ServerRedirect(prefix);
                return Err(self.stop_with(Cause::RedirectedToServer, answer));
            }
            let is_fresh = std::mem::take(&mut fresh);
            let exchanged = pin!(exchange::with_server(self, be, server, is_fresh)).await;
            match exchanged {
                Exchanged::Answered(after) => return Ok(after),
                Exchanged::Failed(stop) => return Err(stop),
                // An idle connection had been closed by the server: nothing was lost, nothing counts.
                // If others were, too, all of them would get the request.
                Exchanged::RetryReused => fresh = true,
                Exchanged::Retry { connected, same_server_delay } => {
                    self.state.facts.retries += 1;
                    failed = Some((server_id, connected, same_server_delay));
                    let facts = &self.state.facts;
                    if !self.state.cookie.forced
                        && assign::may_redispatch(self.worker, be, choice, facts.retries, facts.max_retries)
                    {
                        held = None;
                        choice.wanted = None;
                        choice.avoid = Some(ServerIndex(server_id.0));
                    }
                }
            }
        }
    }

    /// Waits before another attempt on the same server, unless the client leaves meanwhile.
    async fn pause(&mut self, be: &Proxy) -> Result<(), Stop<'a>> {
        let ms = be.timeouts.connect.unwrap_or(1000).min(1000);
        match waiting::pause(self.client, ms, be.opts.abortonclose).await {
            true if self.has_reset() => Err(self.stop(Cause::ClientResetRetrying)),
            true => Err(self.stop(Cause::ClientLeftRetrying)),
            false => Ok(()),
        }
    }

    /// Whether the client broke its connection, rather than ended its direction.
    fn has_reset(&mut self) -> bool {
        self.client.line.departure() == Departure::Reset
    }

    fn use_server(&mut self, be: &Proxy) -> Option<ServerIndex> {
        for rule in &be.use_server {
            let worker = self.worker;
            let found = self.evaluate(true, |cx, _| {
                if rule.cond.as_ref().is_some_and(|c| c.eval(cx) != Verdict::Pass) {
                    return None;
                }
                match &rule.server {
                    UseServerTarget::Static(id) => Some(Some(*id)),
                    UseServerTarget::Dynamic(format) => {
                        let mut text = worker.text.borrow_mut();
                        text.clear();
                        format.render(cx, &mut text);
                        let name = std::str::from_utf8(&text).ok()?;
                        Some(worker.backend(be.id).server_by_name(be, name).map(|s| s.id))
                    }
                }
            });
            // A server that is down is not insisted on.
            let insist = be.opts.persist || self.state.cookie.forced;
            if let Some(id) = found.flatten().filter(|id| insist || worker.backend(be.id).is_up(*id)) {
                return Some(ServerIndex(id.0));
            }
        }
        None
    }

    fn balance_key(&mut self, be: &Proxy) -> Option<u32> {
        match &be.balance.algo {
            BalanceAlgo::Hash(expr) => self.evaluate(true, |cx, _| {
                let sample = expr.eval_as(thalweg_sample::Type::Bin, cx)?;
                Some(assign::hasher(be).bytes(cx.bytes(&sample.value)))
            }),
            algo => {
                let request = &self.state.request;
                let key = assign::key_hash(be, &self.session.facts, &self.state.facts, Some(request), &[]);
                let BalanceAlgo::UrlParam { name } = algo else { return key };
                if key.is_some() || self.state.request.method() != Method::Post {
                    return key;
                }
                // The form in a body that was waited for.
                let body = self.client.look();
                let value = thalweg_http::uri::posted_parameter(body.payload().data(), name)?;
                Some(assign::hasher(be).bytes(value))
            }
        }
    }

    async fn assign_server(&mut self, be: &'a Proxy, choice: Choice) -> Result<Slot, Stop<'a>> {
        let timeout = match self.state.facts.timeouts.queue {
            0 => be.timeouts.queue.or(be.timeouts.connect),
            ms => Some(ms),
        };
        let abort = be.opts.abortonclose;
        let client = &mut *self.client;
        let gave_up = || waiting::has_left(client, abort);
        let assigned = assign::assign(self.worker, be, choice, &mut self.state.facts, timeout, gave_up).await;
        if matches!(assigned, Err(NoServer::Timeout | NoServer::Abandoned)) {
            self.state.facts.timers.queue_us = self.elapsed_us();
        }
        assigned.map_err(|why| {
            let cause = match why {
                NoServer::NoneUsable => Cause::NoServer,
                NoServer::QueueFull => Cause::QueueFull,
                NoServer::Timeout => Cause::QueueTimeout,
                NoServer::Abandoned if self.has_reset() => Cause::ClientResetInQueue,
                NoServer::Abandoned => Cause::ClientLeftInQueue,
            };
            self.stop(cause)
        })
    }

    /// The connection this request would use.
    pub fn target(
        &mut self,
        be: &'a Proxy,
        server: &'a thalweg_config::model::Server,
        name: Option<Box<[u8]>>,
    ) -> Target<'a> {
        let values = LineValues { header_fields: self.header_fields(server), name };
        let overrides = &self.state.effects.overrides;
        let (session, facts) = (&self.session.facts, &self.state.facts);
        Target::new(self.worker, be.id, server, session, facts, overrides, values)
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
    proxy.opts.http_buffer_request || matches!(proxy.balance.algo, BalanceAlgo::UrlParam { .. })
}

/// A slot on a server, given back when dropped. Counts the stream on the server for as long.
pub struct Lease<'a> {
    worker: &'a Worker,
    proxy: ProxyId,
    slot: Slot,
    _present: Present<'a>,
}

impl<'a> Lease<'a> {
    /// Takes charge of a slot that was just taken.
    pub fn new(worker: &'a Worker, proxy: ProxyId, slot: Slot) -> Lease<'a> {
        let present = worker.srv_counters(proxy, slot.server()).enter();
        Lease { worker, proxy, slot, _present: present }
    }

    /// The server.
    pub fn server(&self) -> ServerId {
        self.slot.server()
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        if crate::plant::bug("slot-kept") {
            return;
        }
        self.worker.backend(self.proxy).end(self.slot);
    }
}

/// The value to log of a captured cookie, `name=value`.
pub fn capture_cookie(
    head: &thalweg_http::Head,
    id: HeaderId,
    capture: &thalweg_config::model::CookieCapture,
) -> Option<Vec<u8>> {
    head.get_all(id).find_map(|field| {
        field.value.split(|b| *b == b';').map(<[u8]>::trim_ascii).find_map(|pair| {
            let rest = pair.strip_prefix(&*capture.name)?;
            let matches = capture.prefix || rest.first() == Some(&b'=');
            matches.then(|| pair[..pair.len().min(capture.len as usize)].to_vec())
        })
    })
}
