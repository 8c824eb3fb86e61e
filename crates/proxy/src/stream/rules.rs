//! Evaluating rules: one driver for all rulesets.
//!
//! [`Ruleset::run`] decides and edits, and takes no time. Here are the two tables that say the rest: what each ruleset may
//! wait for ([`may_wait_for`]), and what each decision means there ([`cause_of`]; what follows from a cause is in
//! [`super::ending`]).

use std::future::Future;
use std::net::IpAddr;
use std::task::Poll;

use thalweg_config::model::{Proxy, ServerId};
use thalweg_rules::{Effects, Kind, Outcome, Ruleset, Wanted};
use thalweg_runtime::net::Departure;
use thalweg_runtime::{pool, timer};
use thalweg_sample::Value;
use thalweg_sample::context::{Ctx, Payload};

use super::answer::Answer;
use super::ending::{self, Cause};
use super::reply;
use super::waiting::{self, More, Upward};
use super::{After, Bodies, Stop, Stream, cookie, early, finish, limit, tally};
use crate::connection::body::Look;
use crate::connection::port::Port;
use crate::frontend::Framed;
use crate::resolvers;

/// What a rule may have to wait for. A log line (`do-log`) takes no time, and is written anywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// More of what the ruleset looks at, within `inspect-delay`.
    Input,
    /// The body of the message (`wait-for-body`).
    Body,
    /// The time to pass (`pause`).
    Pause,
    /// The client to take an interim response (`early-hint`).
    Hints,
    /// The address of a host (`do-resolve`).
    Address,
    /// The end of the client's handshake (`wait-for-handshake`).
    Handshake,
}

/// What the rules of a kind may wait for (manual section 4.3).
const fn may_wait_for(kind: Kind) -> &'static [Wait] {
    match kind {
        Kind::TcpConnection | Kind::TcpSession => &[],
        Kind::TcpRequest => &[Wait::Input, Wait::Address],
        Kind::TcpResponse => &[Wait::Input],
        Kind::HttpRequest => &[Wait::Body, Wait::Pause, Wait::Hints, Wait::Address, Wait::Handshake],
        Kind::HttpResponse => &[Wait::Body, Wait::Pause],
        Kind::HttpAfter => &[],
    }
}

/// Whose bytes rules look at, and wait for more of.
pub enum Source<'s> {
    /// The client's.
    Client,
    /// A server's. While it is waited for, what the client says goes on to it, if that is given.
    Server { port: &'s mut Port, up: Option<Upward<'s>> },
    /// Nobody's: the answer is our own, or there is no stream yet.
    Nobody,
}

impl<'s> Source<'s> {
    /// A server, while nothing is sent to it.
    pub fn of_server(port: &'s mut Port) -> Source<'s> {
        Source::Server { port, up: None }
    }
}

/// Rules let a stream pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Passed<'a> {
    /// It goes on as it is.
    On,
    /// It goes on as HTTP (`switch-mode http`).
    AsHttp,
    /// It goes to the service of this name (`use-service`).
    ToService(&'a str),
}

/// Evaluates rules of a kind that `proxy` has, waiting for what they wait for. They are worth a call only when there are any, so
/// callers ask for that first. They are looked at before the future is made: mostly there is nothing to wait for, and then it
/// has nothing to hold but that.
pub fn run<'x, 'a, 's>(
    stream: &'x mut Stream<'a>,
    proxy: &'a Proxy,
    rules: &'a Ruleset,
    kind: Kind,
    source: &'x mut Source<'s>,
) -> impl Future<Output = Result<Passed<'a>, Stop<'a>>> + use<'x, 'a, 's> {
    let begun = begin(stream, proxy, rules, kind, source);
    async move {
        match begun {
            None => Ok(Passed::On),
            Some(begun) => go_on(stream, proxy, rules, kind, source, begun).await,
        }
    }
}

/// Looks at rules, and says how they are to be gone on with; `None`: they let the stream pass.
#[inline]
pub fn begin<'a>(
    stream: &mut Stream<'a>,
    proxy: &Proxy,
    rules: &'a Ruleset,
    kind: Kind,
    source: &mut Source<'_>,
) -> Option<Begun<'a>> {
    let done = match kind {
        Kind::HttpRequest | Kind::TcpRequest => stream.track_source(rules),
        _ => 0,
    };
    if done > 0 && done == rules.len() {
        return None;
    }
    begin_behind(done, stream, proxy, rules, kind, source)
}

/// The same, of the rules from number `done` on.
#[inline(never)]
fn begin_behind<'a>(
    done: usize,
    stream: &mut Stream<'a>,
    proxy: &Proxy,
    rules: &'a Ruleset,
    kind: Kind,
    source: &mut Source<'_>,
) -> Option<Begun<'a>> {
    if matches!(source, Source::Client) && stream.state.facts.is_http {
        stream.limit_request();
    }
    let delay = match kind {
        Kind::TcpRequest => proxy.inspect_delay_req_ms,
        Kind::TcpResponse => proxy.inspect_delay_res_ms,
        _ => None,
    };
    let deadline = delay.map(timer::deadline_in);
    // Without a delay rules decide on what there is.
    let last = deadline.is_none();
    let outcome = look(stream, rules, kind, source, (done, last));
    if matches!(outcome, Outcome::Done | Outcome::Accept) {
        stream.state.apply_overrides(stream.client);
        return None;
    }
    Some(Begun { outcome, last, deadline })
}

/// What rules came to when they were looked at first: they wait, or decided something.
#[must_use]
pub struct Begun<'a> {
    outcome: Outcome<'a>,
    /// No more input comes before they decide.
    last: bool,
    deadline: Option<u64>,
}

/// Goes on with rules that wait or decided.
pub fn go_on<'x, 'a, 's>(
    stream: &'x mut Stream<'a>,
    proxy: &'a Proxy,
    rules: &'a Ruleset,
    kind: Kind,
    source: &'x mut Source<'s>,
    begun: Begun<'a>,
) -> impl Future<Output = Result<Passed<'a>, Stop<'a>>> + use<'x, 'a, 's> {
    pool::boxed_with(|| decide(stream, proxy, rules, kind, source, begun))
}

/// Looks at rules, from number `from` on.
#[inline]
fn look<'a>(
    stream: &mut Stream<'a>,
    rules: &'a Ruleset,
    kind: Kind,
    source: &mut Source<'_>,
    (from, last): (usize, bool),
) -> Outcome<'a> {
    let outcome = evaluate(stream, kind, source, last, |cx, fx| rules.run(kind, from, cx, fx));
    count_failed_rewrites(stream);
    if let Some(table) = stream.state.effects.would_refuse.take() {
        limit::tell(stream, table);
    }
    outcome
}

/// Waits as rules want it, until they decided.
async fn decide<'a>(
    stream: &mut Stream<'a>,
    proxy: &'a Proxy,
    rules: &'a Ruleset,
    kind: Kind,
    source: &mut Source<'_>,
    begun: Begun<'a>,
) -> Result<Passed<'a>, Stop<'a>> {
    let Begun { mut outcome, mut last, deadline } = begun;
    loop {
        let from = match outcome {
            Outcome::Wait { resume } => {
                last |= !waits(kind, Wait::Input) || more(stream, source, deadline).await? != More::Came;
                resume
            }
            Outcome::WaitBody { ms, at_least, resume } => {
                if waits(kind, Wait::Body) {
                    wait_for_body(stream, source, ms, at_least).await?;
                }
                resume
            }
            Outcome::Pause { ms, resume } => {
                if waits(kind, Wait::Pause) {
                    pause(stream, kind, ms).await?;
                }
                resume
            }
            Outcome::EarlyHints { resume } => {
                if waits(kind, Wait::Hints) {
                    reply::early_hints(stream).await;
                }
                resume
            }
            Outcome::Resolve { wanted, resume } => {
                if waits(kind, Wait::Address) {
                    resolve(stream, kind, source, &wanted).await;
                }
                resume
            }
            Outcome::WaitHandshake { resume } => {
                if waits(kind, Wait::Handshake) {
                    early::wait_for_handshake(stream).await?;
                }
                resume
            }
            Outcome::Log { profile, resume } => {
                finish::log_now(stream.worker, stream.session, stream.state, kind, profile);
                resume
            }
            decision => return decided(stream, proxy, kind, source, decision).await,
        };
        outcome = look(stream, rules, kind, source, (from, last));
    }
}

/// `http-after-response` rules of the backend, then of the frontend. False when a rewrite failed that must not.
pub async fn after_response(stream: &mut Stream<'_>) -> bool {
    let (be, fe) = (stream.backend(), stream.frontend());
    for proxy in [Some(be), (be.id != fe.id).then_some(fe)].into_iter().flatten() {
        let rules = &proxy.rules.http_after_response;
        if !rules.is_empty() && run(stream, proxy, rules, Kind::HttpAfter, &mut Source::Nobody).await.is_err()
        {
            return false;
        }
    }
    true
}

/// Whether rules of a kind may wait for something. The configuration refuses what they may not.
fn waits(kind: Kind, wait: Wait) -> bool {
    let may = may_wait_for(kind).contains(&wait);
    debug_assert!(may, "{} rules wait for {wait:?}", kind.name());
    may
}

/// Whether rules of a kind are evaluated before there is a stream.
const fn is_early(kind: Kind) -> bool {
    matches!(kind, Kind::TcpConnection | Kind::TcpSession)
}

/// Shows rules what there is. `last` says that no more will come before they decide.
#[inline]
fn evaluate<R>(
    stream: &mut Stream<'_>,
    kind: Kind,
    source: &mut Source<'_>,
    last: bool,
    f: impl FnOnce(&mut Ctx<'_>, &mut Effects) -> R,
) -> R {
    let Stream { worker, session, client, state, .. } = stream;
    if is_early(kind) {
        return state.evaluate_session(worker, &mut session.facts_mut(), f);
    }
    let look = match source {
        Source::Client => Some(client.look()),
        Source::Server { port, .. } => Some(port.look()),
        Source::Nobody => None,
    };
    let payload = look.as_ref().map_or_else(Payload::default, Look::payload);
    let bodies = match kind.is_response() {
        true => Bodies { response: payload, ..Bodies::default() },
        false => Bodies { request: payload, ..Bodies::default() },
    };
    match kind {
        // A stream of HTTP has read its head; what is there of its body is not another one.
        Kind::TcpRequest if !state.facts.is_http => {
            state.evaluate_on_bytes(worker, &mut session.facts_mut(), payload, last, f)
        }
        _ => state.evaluate(worker, &mut session.facts_mut(), bodies, kind.is_response(), last, f),
    }
}

#[inline]
fn count_failed_rewrites(stream: &mut Stream<'_>) {
    let failed = std::mem::take(&mut stream.state.effects.failed_rewrites);
    if failed == 0 {
        return;
    }
    let (worker, failed) = (stream.worker, u64::from(failed));
    worker.fe_counters(stream.session.listener).failed_rewrites.add(failed);
    let facts = &stream.state.facts;
    if facts.backend_assigned {
        let backend = stream.state.backend();
        worker.be_counters(backend).failed_rewrites.add(failed);
        if let Some(server) = facts.server {
            worker.srv_counters(backend, ServerId(server.index)).failed_rewrites.add(failed);
        }
    }
}

async fn more<'a>(
    stream: &mut Stream<'a>,
    source: &mut Source<'_>,
    deadline: Option<u64>,
) -> Result<More, Stop<'a>> {
    match source {
        Source::Client => Ok(waiting::more_of_client(stream, deadline).await),
        Source::Server { port, up } => waiting::more_of_server(stream, port, up.as_mut(), deadline).await,
        Source::Nobody => Ok(More::Over),
    }
}

async fn wait_for_body<'a>(
    stream: &mut Stream<'a>,
    source: &mut Source<'_>,
    ms: u64,
    at_least: u64,
) -> Result<(), Stop<'a>> {
    match source {
        Source::Client => waiting::body_of_client(stream, Some(ms), at_least).await,
        Source::Server { port, .. } => waiting::body_of_server(stream, port, ms, at_least).await,
        Source::Nobody => Ok(()),
    }
}

/// Keeps the address of a host in a variable. One that has none, or a client that leaves meanwhile, leaves it unset.
async fn resolve(stream: &mut Stream<'_>, kind: Kind, source: &mut Source<'_>, wanted: &Wanted) {
    let found = {
        let client = &mut *stream.client;
        let mut answer = std::pin::pin!(resolvers::resolve(&stream.worker.instance, wanted));
        std::future::poll_fn(|cx| match waiting::has_left(client, false) {
            true => Poll::Ready(None),
            false => answer.as_mut().poll(cx),
        })
        .await
    };
    if let Some(address) = found {
        let value = match address {
            IpAddr::V4(ip) => Value::Ip4(ip),
            IpAddr::V6(ip) => Value::Ip6(ip),
        };
        evaluate(stream, kind, source, true, |cx, _| cx.set_var(wanted.variable, value));
    }
}

async fn pause<'a>(stream: &mut Stream<'a>, kind: Kind, ms: u64) -> Result<(), Stop<'a>> {
    if kind.is_response() {
        return waiting::pause_response(stream, ms).await;
    }
    // The rules go on at once when nobody waits for them any more.
    if waiting::pause(stream.client, ms, true).await {
        stream.broken = stream.client.line.departure() == Departure::Reset;
        // What is there of its body by then is all of it.
        waiting::note_cut(stream);
    }
    Ok(())
}

/// What a decision means: why the stream ends, or `None` when it does not, or when who called knows better.
fn cause_of(kind: Kind, decision: &Outcome<'_>, of_frontend: bool) -> Option<Cause> {
    use Kind::{HttpAfter, HttpRequest, HttpResponse, TcpConnection, TcpRequest, TcpResponse, TcpSession};
    Some(match (kind, decision) {
        (_, Outcome::Done | Outcome::Accept | Outcome::SwitchMode { .. }) | (HttpAfter, _) => return None,
        (TcpConnection | TcpSession, Outcome::SilentDrop { .. }) => Cause::SessionVanished,
        (TcpConnection, _) => Cause::ConnectionRejected,
        (TcpSession, _) => Cause::SessionRejected,
        (_, Outcome::SilentDrop { .. }) => Cause::SilentlyDropped,
        (HttpRequest, Outcome::Deny(_)) => Cause::DeniedByRule,
        (HttpRequest, Outcome::Tarpit(_)) => Cause::Tarpitted,
        (HttpRequest, Outcome::Return(_) | Outcome::Redirect(_) | Outcome::Auth(_)) => match of_frontend {
            true => Cause::AnsweredByFrontend,
            false => Cause::AnsweredByBackend,
        },
        (HttpRequest, Outcome::UseService(_)) => Cause::AnsweredByService,
        (HttpRequest, Outcome::BadRequest) => Cause::BadRequestInRules,
        (HttpRequest | TcpRequest, Outcome::RewriteFailed) => Cause::RequestRewriteFailed,
        (HttpRequest | TcpRequest, _) => Cause::RejectedByRule,
        (HttpResponse, Outcome::Return(_) | Outcome::Redirect(_)) => Cause::AnsweredForServer,
        (HttpResponse | TcpResponse, Outcome::RewriteFailed) => Cause::ResponseRewriteFailed,
        (HttpResponse, _) => Cause::ResponseDenied,
        (TcpResponse, Outcome::Close) => Cause::ResponseClosed,
        (TcpResponse, _) => Cause::ResponseRejected,
    })
}

/// What a decision answers itself.
fn answer_of<'a>(decision: &Outcome<'a>) -> Option<Answer<'a>> {
    match decision {
        Outcome::Deny(reply) | Outcome::Tarpit(reply) | Outcome::Return(reply) => Some(Answer::Reply(reply)),
        Outcome::Redirect(redirect) => Some(Answer::Redirect(redirect)),
        Outcome::Auth(realm) => Some(Answer::Auth(realm)),
        _ => None,
    }
}

/// Does what a decision asks for.
async fn decided<'a>(
    stream: &mut Stream<'a>,
    proxy: &'a Proxy,
    kind: Kind,
    source: &mut Source<'_>,
    decision: Outcome<'a>,
) -> Result<Passed<'a>, Stop<'a>> {
    if let Outcome::SilentDrop { rst_ttl } = decision {
        stream.client.line.vanish(rst_ttl);
    }
    let cause = cause_of(kind, &decision, proxy.id == stream.session.frontend);
    match decision {
        Outcome::Done | Outcome::Accept => {
            stream.state.apply_overrides(stream.client);
            return Ok(Passed::On);
        }
        Outcome::SwitchMode { proto } => {
            stream.session.framed.set(match proto {
                None => Framed::Unknown,
                Some("h2") => Framed::Yes,
                Some(_) => Framed::No,
            });
            return Ok(Passed::AsHttp);
        }
        Outcome::UseService(name) if kind == Kind::HttpRequest => {
            stream.note_decision();
            stream.end(Cause::AnsweredByService);
            return Ok(Passed::ToService(name));
        }
        Outcome::Deny(_) if kind == Kind::HttpRequest => {
            stream.note_decision();
            cookie::refused(stream, proxy);
        }
        Outcome::Tarpit(_) => {
            stream.end(Cause::TarpitBegan);
            cookie::refused(stream, proxy);
            tarpit(stream, proxy).await;
        }
        Outcome::Return(_) | Outcome::Redirect(_) | Outcome::Auth(_) if kind == Kind::HttpRequest => {
            if matches!(decision, Outcome::Auth(_)) {
                stream.count_unauthorized();
            }
            stream.note_decision();
        }
        _ => forget(stream, kind, source),
    }
    Err(match (cause, answer_of(&decision)) {
        // Before there is a stream.
        (Some(cause), _) if is_early(kind) => {
            ending::end_session(stream.worker, stream.session.listener, cause);
            Stop::Ended(After::Drop)
        }
        // What was received of the server is as much as was wanted.
        (Some(Cause::ResponseClosed), _) if !stream.state.facts.is_http => Stop::Ended(After::Close),
        (Some(cause), Some(answer)) => stream.stop_with(cause, answer),
        (Some(cause), None) => stream.stop(cause),
        (None, _) => Stop::Ended(After::Drop),
    })
}

/// What was received goes no further.
fn forget(stream: &mut Stream<'_>, kind: Kind, source: &Source<'_>) {
    match (kind, source) {
        (Kind::TcpRequest, _) if !stream.state.facts.is_http => tally::count_unsent(stream),
        (Kind::TcpResponse, Source::Server { port, .. }) if !stream.state.facts.is_http => {
            tally::count_held_response(stream, port);
        }
        // These rules decide on bytes: the response is none yet.
        (Kind::TcpResponse, _) => {
            stream.state.has_response = false;
            stream.state.facts.status = -1;
            stream.state.facts.server_status = -1;
            stream.state.facts.timers.response_us = -1;
        }
        _ => {}
    }
}

/// Holds the request for `timeout tarpit`, or until the client leaves.
async fn tarpit(stream: &mut Stream<'_>, proxy: &Proxy) {
    let fe = stream.frontend();
    let ms = match stream.state.facts.timeouts.tarpit {
        0 => {
            let of = |p: &Proxy| p.timeouts.tarpit.or(p.timeouts.connect.filter(|_| p.is_be()));
            of(proxy).or(of(fe)).unwrap_or(0)
        }
        ms => ms,
    };
    waiting::pause(stream.client, ms, true).await;
    stream.state.facts.timers.queue_us = stream.elapsed_us();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an action may have to wait for, by its name.
    const WAITING: [(&str, Wait); 4] = [
        ("wait-for-body", Wait::Body),
        ("pause", Wait::Pause),
        ("early-hint", Wait::Hints),
        ("wait-for-handshake", Wait::Handshake),
    ];

    #[test]
    fn what_actions_wait_for_is_waited_for_where_they_are_allowed() {
        for kind in Kind::ALL {
            for (name, wait) in WAITING {
                let allowed = thalweg_rules::all_actions()
                    .filter(|action| action.name == name)
                    .any(|action| action.is_supported() && action.rulesets.contains(kind));
                assert_eq!(may_wait_for(kind).contains(&wait), allowed, "{name} in {}", kind.name());
            }
        }
    }
}
