//! Where a stream goes: its backend, and the server that a rule, its persistence or its balance key asks for.
//!
//! Requests and TCP streams are routed in the same way. What only one of them has (cookies, the cookie of RDP) is asked for
//! where it exists.

use std::sync::Arc;

use thalweg_balance::ServerIndex;
use thalweg_config::compiled::{Condition, LogFormat};
use thalweg_config::model::{BalanceAlgo, DynamicTarget, Proxy, ProxyId, ServerId, UseServerTarget};
use thalweg_runtime::clock;
use thalweg_sample::acl::Verdict;

use super::stay::Stay;
use super::watch::{announce, is_watched};
use super::{Stream, cookie, stick};
use crate::backend::algorithm::{Chooser, hasher};
use crate::backend::assign::Choice;
use crate::traces;
use crate::worker::Worker;

/// `use_backend` and `default_backend`: the backend of a frontend's stream, if anything names one.
pub fn backend<'a>(stream: &mut Stream<'a>, fe: &'a Proxy) -> Option<&'a Proxy> {
    let worker = stream.worker;
    ruled_backend(stream, fe)
        .or(fe.default_backend)
        .or_else(|| fe.is_be().then_some(fe.id))
        .map(|id| worker.proxy(id))
}

fn ruled_backend(stream: &mut Stream<'_>, fe: &Proxy) -> Option<ProxyId> {
    // `force-be-switch` makes backends eligible that are not.
    let forced = fe.force_be_switch.iter().any(|(condition, _)| holds(stream, condition));
    let watched = !fe.use_backend.is_empty() && is_watched(stream);
    for rule in &fe.use_backend {
        if watched {
            let target = match &rule.target {
                DynamicTarget::Static(id) => &*stream.worker.proxy(*id).name,
                DynamicTarget::Dynamic(_) => "a name that is computed",
            };
            announce(stream, "use_backend", target, &fe.file, rule.line);
        }
        if !applies(stream, rule.cond.as_ref()) {
            continue;
        }
        let target = match &rule.target {
            DynamicTarget::Static(id) => Some(*id),
            DynamicTarget::Dynamic(format) => {
                named(stream, format, |worker, name| Some(worker.instance.backend_by_name(name)?.id))
            }
        };
        match target {
            // Not eligible: the next rules may name another one.
            Some(id) if !forced && !stream.worker.instance.is_eligible(id) => {}
            // A name that no backend has leads to the default one.
            target => return target,
        }
    }
    None
}

/// The stream is in the charge of a backend from here on.
pub fn enter<'a>(stream: &mut Stream<'a>, be: &'a Proxy) {
    stream.set_backend(be);
    if be.id != stream.session.frontend {
        super::inherit_settings(&mut stream.state.facts, be, false);
    }
    stream.in_backend = Some(Stay::in_backend(stream.worker, be.id));
    stream.trace(traces::BACKEND_CHOSEN);
    if stream.state.facts.is_http {
        cookie::begin(be, &mut stream.state.facts.termination);
        let counters = stream.worker.be_counters(be.id);
        counters.requests.add(1);
        counters.request_rate.add(clock::now_ms());
    }
}

/// What the stream asks for in its backend.
#[inline]
pub fn choice(stream: &mut Stream<'_>, be: &Proxy) -> Choice {
    let mut choice = Choice::default();
    persist_rules(stream, be);
    choice.wanted = use_server(stream, be);
    match &be.cookie {
        Some(policy) if stream.state.facts.is_http => {
            choice.wanted = cookie::request(stream, be, policy, choice.wanted);
        }
        _ => choice.wanted = choice.wanted.or_else(|| rdp_server(stream, be)),
    }
    if !be.stick_rules.is_empty() {
        choice.wanted = choice.wanted.or(stick::request(stream, be, choice.wanted.is_some()));
    }
    if choice.wanted.is_none() {
        choice.key = balance_key(stream, be);
        if choice.key.is_none() {
            choice.wanted = last_server(stream, be);
        }
    }
    choice
}

/// `force-persist` and `ignore-persist`: the first rule that applies decides.
fn persist_rules(stream: &mut Stream<'_>, be: &Proxy) {
    for rule in &be.persist_rules {
        if holds(stream, &rule.cond) {
            stream.state.cookie.ignored = !rule.force;
            stream.state.cookie.forced = rule.force;
            return;
        }
    }
}

/// Whether a server is named although it is down.
fn insists(stream: &Stream<'_>, be: &Proxy) -> bool {
    be.opts.persist || stream.state.cookie.forced
}

/// `use-server`. A server that is down is not insisted on, unless that is asked for.
#[inline]
fn use_server(stream: &mut Stream<'_>, be: &Proxy) -> Option<ServerIndex> {
    let watched = !be.use_server.is_empty() && is_watched(stream);
    for rule in &be.use_server {
        if watched {
            let name = match &rule.server {
                UseServerTarget::Static(id) => be.server(*id).map_or("", |server| &*server.name),
                UseServerTarget::Dynamic(_) => "a name that is computed",
            };
            announce(stream, "use-server", name, &be.file, rule.line);
        }
        if !applies(stream, rule.cond.as_ref()) {
            continue;
        }
        let server = match &rule.server {
            UseServerTarget::Static(id) => Some(*id),
            UseServerTarget::Dynamic(format) => named(stream, format, |worker, name| {
                let name = std::str::from_utf8(name).ok()?;
                worker.backend(be.id).server_by_name(be, name).map(|server| server.id)
            }),
        };
        if let Some(ServerId(n)) =
            server.filter(|id| insists(stream, be) || stream.worker.backend(be.id).is_up(*id))
        {
            return Some(ServerIndex(n));
        }
    }
    None
}

/// `persist rdp-cookie`, in what a TCP client sent first.
fn rdp_server(stream: &Stream<'_>, be: &Proxy) -> Option<ServerIndex> {
    let name = be.persist_rdp_cookie.as_ref()?;
    if stream.state.facts.is_http || stream.state.cookie.ignored {
        return None;
    }
    cookie::rdp_server(stream.worker, be, name, stream.client.received(), insists(stream, be))
}

/// The server this session stays with: the one it has a connection of its own to, because it authenticates on that or
/// with `option prefer-last-server`, as long as no more than `max-keep-alive-queue` requests wait for it. A hash
/// decides for itself.
#[inline]
fn last_server(stream: &Stream<'_>, be: &Proxy) -> Option<ServerIndex> {
    // Who authenticates a connection needs that connection again.
    let id = stream.session.last_private_server(be.id, !be.opts.prefer_last_server)?;
    let backend = stream.worker.backend(be.id);
    let queue_max = u32::try_from(be.max_keep_alive_queue).unwrap_or(u32::MAX);
    (backend.is_usable(id) && backend.server_queue_len(id) <= queue_max).then_some(ServerIndex(id.0))
}

/// The number that a hashing algorithm derives from the stream.
#[inline]
fn balance_key(stream: &mut Stream<'_>, be: &Proxy) -> Option<u32> {
    let key = match &be.balance.algo {
        BalanceAlgo::Servers(_) => return None,
        BalanceAlgo::Key(key) => {
            let state = &*stream.state;
            let source = state.facts.src.unwrap_or_else(|| stream.session.facts().source());
            let request = state.facts.is_http.then_some(&state.request);
            key.hash(&mut Chooser { source, request, client: stream.client }, hasher(be))
        }
        BalanceAlgo::Hash(expr) | BalanceAlgo::LogHash(expr) => stream.evaluate(true, |cx, _| {
            let sample = expr.eval_as(thalweg_sample::Type::Bin, cx)?;
            Some(hasher(be).bytes(cx.bytes(&sample.value)))
        }),
    };
    if is_watched(stream) {
        let key = key.map_or_else(|| "nothing to hash".to_owned(), |key| format!("hash {key:08x}"));
        announce(stream, "balance", &format!("{}: {key}", be.balance.algo.name()), &be.file, be.line);
    }
    key
}

/// Whether a rule applies, which it does without a condition.
fn applies(stream: &mut Stream<'_>, condition: Option<&Arc<Condition>>) -> bool {
    condition.is_none_or(|condition| holds(stream, condition))
}

fn holds(stream: &mut Stream<'_>, condition: &Condition) -> bool {
    stream.evaluate(true, |cx, _| condition.eval_watched(cx) == Verdict::Pass)
}

/// What has the name that a format gives for this stream.
fn named<R>(
    stream: &mut Stream<'_>,
    format: &LogFormat,
    find: impl FnOnce(&Worker, &[u8]) -> Option<R>,
) -> Option<R> {
    let worker = stream.worker;
    stream.evaluate(true, |cx, _| {
        let mut text = worker.text.borrow_mut();
        text.clear();
        format.render(cx, &mut text);
        find(worker, &text)
    })
}
