//! The end of a stream: what is counted and what is logged.

use std::rc::Rc;
use std::sync::Arc;

use thalweg_config::compiled::LogFormat;
use thalweg_config::model::{LogLevel, LogStep, Mode, ProfileStep, Proxy, ServerId};
use thalweg_rules::Kind;
use thalweg_runtime::clock;
use thalweg_sample::facts::{ConnCounts, ConnError, Endpoint, LogOrigin, TlsFacts};
use thalweg_sample::logformat::AskedCounts;

use thalweg_tls::Failure;

use super::ending::{self, Cause};
use super::{Bodies, Stream, StreamState, track};
use crate::backend::assign;
use crate::connection::port::Port;
use crate::counters::Counters;
use crate::frontend::ClientSession;
use crate::latency::Times;
use crate::plant::bug;
use crate::traces;
use crate::worker::Worker;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Counts and logs an HTTP stream.
pub fn http(http: &mut Stream<'_>, fe: &Proxy) {
    http.state.facts.timers.close_us = http.elapsed_us();
    let is_told = http.worker.live.tracing.wants_ends();
    if is_told && http.lacks_trace() {
        http.begin_trace();
    }
    stream_counters(http.worker, http.session, http.state);
    if http.state.ended != Cause::Completed {
        note_failed_tls(http.session, http.client);
    }
    let renewed = bug("pin-renewed").then(crate::worker::current).flatten();
    let fe = renewed.as_ref().map_or(fe, |now| now.proxy(fe.id));
    let lost = bug("line-lost") && http.state.facts.retries > 0;
    if (!fe.opts.logasap || http.state.facts.server_status < 0) && !lost {
        log_stream(http.worker, http.session, http.state, fe);
    }
    if is_told {
        http.trace(traces::STREAM_FREE);
        http.record_span();
    }
    http.state.facts.backend_assigned = false;
    http.in_backend = None;
}

/// Takes note of what went wrong with the client's TLS, if anything did: logs tell of it.
pub fn note_failed_tls(session: &ClientSession, client: &Port) {
    if let Some(failure) = client.line.tls_failure() {
        session.tls_failed(failure);
    }
}

/// Takes note of what went wrong with the server's TLS, if anything did: logs tell of it.
pub fn note_failed_server_tls(stream: &mut Stream<'_>, server: &Port) {
    let Some(failure) = server.line.tls_failure() else { return };
    let facts = &mut stream.state.facts;
    facts.bc_error = ConnError::SSL_FATAL;
    let known = facts.bc_tls.as_ref().map(|tls| tls.known.clone()).unwrap_or_default();
    facts.bc_tls = Some(Rc::new(TlsFacts { known, failure: Some(failure.clone()) }));
}

/// Adds a stream's bytes and timers to the counters of everything it passed through.
pub fn stream_counters(worker: &Worker, session: &ClientSession, state: &mut StreamState) {
    let now_ms = clock::now_ms();
    track::stream_over(worker, session, state, now_ms);
    let facts = &state.facts;
    let bytes = |counters: &Counters| {
        counters.request_bytes_in.add(facts.req_bytes_in);
        counters.request_bytes_out.add(facts.req_bytes_out);
        counters.response_bytes_in.add(facts.res_bytes_in);
        counters.response_bytes_out.add(facts.res_bytes_out);
    };
    let fe = worker.fe_counters(session.listener);
    bytes(fe);
    let status = u16::try_from(facts.status).unwrap_or(0);
    if facts.is_http {
        fe.response(status);
    }
    let t = &facts.timers;
    // Who did not get as far as its response says nothing about how long that takes.
    let got_there = t.connect_us >= 0 && (!facts.is_http || t.response_us >= 0);
    let now_us = clock::now_us();
    let spent = got_there.then(|| Times::new(&t.durations(now_us)));
    if let Some(spent) = &spent {
        fe.count_times(spent);
    }
    if !facts.backend_assigned {
        return;
    }
    let be = worker.be_counters(state.backend());
    let server =
        facts.server.map(|s| worker.srv_counters(state.backend(), thalweg_config::model::ServerId(s.index)));
    let times = got_there.then(|| {
        let positive = |ms: i64| u64::try_from(ms).unwrap_or(0);
        [positive(t.tw()), positive(t.tc()), positive(t.tr()), positive(t.ta(now_us))]
    });
    if facts.is_http {
        be.response(status);
    }
    if bug("counted-twice") && facts.retries > 0 {
        be.response(status);
    }
    for counters in [Some(be), server].into_iter().flatten() {
        bytes(counters);
        counters.last_session_ms.raise_to(now_ms);
    }
    be.time(times);
    if let Some(spent) = &spent {
        be.count_times(spent);
    }
    // Of a server's, those count that it answered.
    if let Some(server) = server.filter(|_| !facts.is_http || facts.server_status > 0) {
        server.time(times);
        if let Some(spent) = &spent {
            server.count_times(spent);
        }
    }
}

/// Writes the last log line of a stream, unless options say that it is not wanted.
pub fn log_stream(worker: &Worker, session: &ClientSession, state: &mut StreamState, fe: &Proxy) {
    let (step, origin) = match state.facts.is_http && !state.has_request {
        // Without a request there was no transaction: what went wrong is the session.
        true => (LogStep::Error, LogOrigin::SessError),
        false => (LogStep::Close, LogOrigin::TxnClose),
    };
    log_end(worker, session, state, fe, step, origin);
}

fn log_end(
    worker: &Worker,
    session: &ClientSession,
    state: &mut StreamState,
    fe: &Proxy,
    step: LogStep,
    origin: LogOrigin,
) {
    if !worker.logs(fe.id) {
        return;
    }
    let facts = &state.facts;
    if facts.log_level == Some(255) {
        return;
    }
    let session_error = step == LogStep::Error;
    if !session_error && !fe.log_steps.is_empty() && !wants(fe, step) {
        return;
    }
    let failed = session_error || is_error(state);
    if fe.opts.dontlog_normal && !failed {
        return;
    }
    // A client that said nothing is not worth a line when `option dontlognull` says so, even when it was greeted. Whether it
    // will say something is not known when the line is written early.
    let over = matches!(step, LogStep::Close | LogStep::Error);
    let nothing = over && facts.req_bytes_in == 0 && !state.has_request;
    if fe.opts.dontlognull && nothing {
        return;
    }
    let level = match facts.log_level {
        Some(n) => level_of(n),
        None if failed && fe.opts.log_separate_errors => LogLevel::Err,
        None => LogLevel::Info,
    };
    emit(worker, session, state, fe, level, Moment { step, origin, profile: None, fallback: b"" });
}

/// Whether `log-steps` lists a step.
fn wants(fe: &Proxy, step: LogStep) -> bool {
    fe.log_steps.iter().any(|s| *s == step || *s == LogStep::Any)
}

/// A step before the end of a stream was reached: `log-steps` may want a line about it. With no format at all, the
/// first step writes the short line "Connect from ...".
#[inline]
pub fn step(worker: &Worker, session: &ClientSession, state: &mut StreamState, fe: &Proxy, step: LogStep) {
    if fe.log_steps.is_empty() && (step != LogStep::Accept || fe.formats.log.is_some()) || !worker.logs(fe.id)
    {
        return;
    }
    let origin = match step {
        LogStep::Accept => LogOrigin::TxnAccept,
        LogStep::Request => LogOrigin::TxnRequest,
        LogStep::Connect => LogOrigin::TxnConnect,
        _ => LogOrigin::TxnResponse,
    };
    if fe.formats.log.is_none() && step == LogStep::Accept {
        let text = connect_from(worker, session, fe);
        worker.log(fe.id, LogLevel::Info, b"", &text);
    } else if wants(fe, step) && state.facts.log_level != Some(255) {
        let level = state.facts.log_level.map_or(LogLevel::Info, level_of);
        emit(worker, session, state, fe, level, Moment { step, origin, profile: None, fallback: b"" });
    }
}

/// The line of a proxy that was given no format.
fn connect_from(worker: &Worker, session: &ClientSession, fe: &Proxy) -> Vec<u8> {
    let uid = worker.instance.bind(session.listener).uid;
    let address = |endpoint: Endpoint| match endpoint {
        Endpoint::Inet(addr) => format!("{}:{}", addr.ip(), addr.port()),
        _ => format!("unix:{uid}"),
    };
    let mode = if fe.mode == Mode::Http { "HTTP" } else { "TCP" };
    let (from, to) = (address(session.facts().source()), address(session.facts().destination()));
    format!("Connect from {from} to {to} ({}/{mode})", fe.name).into_bytes()
}

/// Whether the stream counts as failed for `dontlog-normal` and `log-separate-errors`.
fn is_error(state: &StreamState) -> bool {
    let facts = &state.facts;
    let bad_status = facts.is_http && (facts.status >= 500 || facts.status < 0);
    state.ended.row().failure || facts.retries > 0 || facts.redispatched || bad_status
}

fn level_of(n: u8) -> LogLevel {
    use LogLevel::{Alert, Crit, Debug, Emerg, Err, Info, Notice, Warning};
    *[Emerg, Alert, Crit, Err, Warning, Notice, Info, Debug].get(usize::from(n)).unwrap_or(&Info)
}

/// When and why a line is written.
#[derive(Clone, Copy)]
struct Moment<'a> {
    step: LogStep,
    origin: LogOrigin,
    /// The profile that `do-log` names, for all targets.
    profile: Option<&'a str>,
    /// The line where no format applies; empty for none.
    fallback: &'a [u8],
}

/// Renders and sends one line with the frontend's format, or with what each target's profile says about the step.
fn emit(
    worker: &Worker,
    session: &ClientSession,
    state: &mut StreamState,
    fe: &Proxy,
    level: LogLevel,
    moment: Moment<'_>,
) {
    let Some(route) = worker.route(fe.id) else { return };
    let formats = &fe.formats;
    let usual = match moment.step {
        // Before there is a stream, the usual format has little to say.
        LogStep::Error if !moment.fallback.is_empty() => formats.error.as_ref(),
        LogStep::Error => formats.error.as_ref().or(formats.log.as_ref()),
        _ => formats.log.as_ref(),
    };
    let by_target = route.has_profiles() || moment.profile.is_some();
    // A profile changes lines and adds none: what has no format at the end has none by profile either.
    if usual.is_none() && (!by_target || moment.step == LogStep::Close) && moment.fallback.is_empty() {
        return;
    }
    let instance = &worker.instance;
    // Sums over all threads: only for those who show them.
    let asked = match by_target {
        true => AskedCounts { process: true, frontend: true, backend: true, server: true },
        false => [usual, formats.sd.as_ref()]
            .into_iter()
            .flatten()
            .map(|format| format.counts())
            .fold(AskedCounts::default(), |all, more| all | more),
    };
    state.facts.counts = counts(worker, state, fe, asked, moment.step);
    let before = std::mem::replace(&mut state.facts.log_origin, moment.origin);
    // A stream that got beyond its request rules has no variables of the request any more.
    state.facts.in_response |=
        moment.step == LogStep::Close && (state.facts.backend_assigned || state.facts.status >= 0);
    let mut line = (worker.text.take(), Vec::new());
    state.evaluate(worker, &mut session.facts_mut(), Bodies::default(), true, true, |cx, _| {
        let mut render =
            |line: &mut (Vec<u8>, Vec<u8>), format: Option<&Arc<LogFormat>>, sd: Option<&Arc<LogFormat>>| {
                let (text, data) = line;
                text.clear();
                data.clear();
                let Some(format) = format else {
                    text.extend_from_slice(moment.fallback);
                    return !text.is_empty();
                };
                format.render(cx, text);
                if let Some(sd) = sd {
                    sd.render(cx, data);
                }
                true
            };
        if !by_target {
            render(&mut line, usual, formats.sd.as_ref());
            worker.log(fe.id, level, &line.1, &line.0);
            return;
        }
        for (index, target) in route.targets().enumerate() {
            let profile = moment.profile.or(target.profile.as_deref());
            let profile =
                profile.and_then(|name| instance.config.log_profiles.iter().find(|p| &*p.name == name));
            let (format, sd) = match profile.and_then(|p| p.step(moment.step)) {
                Some(ProfileStep::Drop) => continue,
                Some(ProfileStep::Log { format, sd }) => {
                    (format.as_ref().or(usual), sd.as_ref().or(formats.sd.as_ref()))
                }
                None => (usual, formats.sd.as_ref()),
            };
            if render(&mut line, format, sd) {
                let tag = profile.and_then(|p| p.log_tag.as_deref());
                worker.log_to(fe.id, index, level, tag, &line.1, &line.0);
            }
        }
    });
    worker.text.replace(line.0);
    state.facts.log_origin = before;
}

/// How many of each kind exist now, as far as that is asked for.
fn counts(worker: &Worker, state: &StreamState, fe: &Proxy, asked: AskedCounts, step: LogStep) -> ConnCounts {
    let instance = &worker.instance;
    let be = state.backend();
    let server = state.facts.server.filter(|_| asked.server);
    ConnCounts {
        process: if asked.process { instance.process_gate.current() } else { 0 },
        frontend: if asked.frontend { instance.frontend_connections(fe.id) } else { 0 },
        // The last line is written when the stream has left its backend.
        backend: match asked.backend && state.facts.backend_assigned {
            true => instance.backend_streams(be).saturating_sub(u32::from(step == LogStep::Close)),
            false => 0,
        },
        server: server.map_or(0, |s| instance.server_streams(be, ServerId(s.index))),
    }
}

/// `option logasap`: the line is written when the response's head was sent.
pub fn log_early(http: &mut Stream<'_>) {
    let fe = http.frontend();
    log_end(http.worker, http.session, http.state, fe, LogStep::Response, LogOrigin::TxnResponse);
}

/// `option logasap` of a TCP stream: the line is written once the server is connected.
pub fn log_early_tcp(worker: &Worker, session: &ClientSession, state: &mut StreamState, fe: &Proxy) {
    log_end(worker, session, state, fe, LogStep::Connect, LogOrigin::TxnConnect);
}

/// `do-log`, in rules of a kind.
pub fn log_now(
    worker: &Worker,
    session: &ClientSession,
    state: &mut StreamState,
    kind: Kind,
    profile: Option<&str>,
) {
    let fe = worker.proxy(session.frontend);
    if !worker.logs(fe.id) || state.facts.log_level == Some(255) {
        return;
    }
    let (step, name) = match kind {
        Kind::TcpConnection => (LogStep::TcpReqConn, "tcp-req-conn"),
        Kind::TcpSession => (LogStep::TcpReqSess, "tcp-req-sess"),
        Kind::TcpRequest => (LogStep::TcpReqCont, "tcp-req-cont"),
        Kind::TcpResponse => (LogStep::TcpResCont, "tcp-res-cont"),
        Kind::HttpRequest => (LogStep::HttpReq, "http-req"),
        Kind::HttpResponse => (LogStep::HttpRes, "http-res"),
        Kind::HttpAfter => (LogStep::HttpAfterRes, "http-after-res"),
    };
    let level = state.facts.log_level.map_or(LogLevel::Info, level_of);
    emit(
        worker,
        session,
        state,
        fe,
        level,
        Moment { step, origin: LogOrigin::Rules(name), profile, fallback: b"" },
    );
}

/// The session ended before there was a stream, for the reason in its facts: in the error format, or in a short one
/// of its own (manual section 8.2.5).
pub fn log_session_error(worker: &Worker, session: &ClientSession, cause: Cause, received: bool) {
    if worker.proxy(session.frontend).opts.dontlognull && !received {
        return;
    }
    let why = session.facts().error.message();
    // What went wrong with TLS, where the number does not say it all.
    let details = match session.facts().rare().tls.as_ref().and_then(|tls| tls.failure.as_ref()) {
        Some(Failure::Certificate { .. }) | None => String::new(),
        Some(failure) => format!(" ({})", failure.text()),
    };
    log_session(worker, session, cause, &format!("{why}{details}"));
}

/// A line of the session itself: in the error format, or in the short one with the reason.
pub fn log_session(worker: &Worker, session: &ClientSession, cause: Cause, why: &str) {
    let fe = worker.proxy(session.frontend);
    if !worker.logs(fe.id) {
        return;
    }
    let level = if fe.opts.log_separate_errors { LogLevel::Err } else { LogLevel::Info };
    let bind = worker.instance.bind(session.listener);
    let address = match session.facts().source() {
        Endpoint::Inet(addr) => format!("{}:{}", addr.ip(), addr.port()),
        _ => format!("unix:{}", bind.uid),
    };
    let name = bind.name.as_deref().map_or_else(|| bind.uid.to_string(), str::to_owned);
    let wall_us = session.facts().accept_wall_us;
    let t = thalweg_sys::time::local(wall_us / 1_000_000);
    let month = MONTHS[usize::from(t.month.clamp(1, 12)) - 1];
    let text = format!(
        "{address} [{:02}/{month}/{:04}:{:02}:{:02}:{:02}.{:03}] {}/{name}: {why}",
        t.day,
        t.year,
        t.hour,
        t.minute,
        t.second,
        wall_us / 1000 % 1000,
        fe.name
    );
    let mut state = worker.take_stream();
    state.begin(session.frontend, fe.mode == Mode::Http, true);
    ending::mark(&mut state, cause);
    let t = &mut state.facts.timers;
    t.accept_mono_us = session.facts().accept_mono_us;
    t.accept_wall_us = wall_us;
    t.request_wall_us = wall_us;
    let moment = Moment {
        step: LogStep::Error,
        origin: LogOrigin::SessKilled,
        profile: None,
        fallback: text.as_bytes(),
    };
    emit(worker, session, &mut state, fe, level, moment);
    worker.give_stream(state);
}

/// Counts another attempt after one on `before`: on the same server a retry, on another one a redispatch and, if that
/// attempt was `connected`, a retry as well.
pub fn count_retry(
    worker: &Worker,
    state: &mut StreamState,
    before: ServerId,
    now: ServerId,
    connected: bool,
) {
    let be = state.backend();
    if connected || now == before {
        assign::count_retry(worker, be, before);
    }
    if now != before {
        state.facts.redispatched = true;
        worker.be_counters(be).redispatches.add(1);
        worker.srv_counters(be, before).redispatches.add(1);
    }
}
