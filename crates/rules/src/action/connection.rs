//! The client's and the server's connections: addresses, marks, PROXY header, and the mode of the stream.

use super::{Action, Step};
use crate::compile;
use crate::effects::Effects;
use crate::keyword::{ActionDef, RuleEnv, Rulesets, Words};
use crate::ruleset::Kind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use thalweg_sample::{Ctx, Endpoint, Expr, Type, Value};

/// A change of what is known of the connections, or of how they behave.
pub(crate) enum Setting {
    Address { end: End, expr: Expr },
    Port { end: End, expr: Expr },
    Mark { side: Side, value: Number },
    Tos { side: Side, value: Number },
    ExpectProxy,
    ExpectNetScaler,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Source,
    Destination,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

/// A number known now, or evaluated for each request.
pub(crate) enum Number {
    Known(i64),
    Expr(Box<Expr>),
}

const FRONT: Rulesets = Rulesets::ALL.without(Rulesets::HTTP_AFTER);
const ADDRESS: Rulesets = Rulesets::REQUESTS;
const BACK: Rulesets = Rulesets::REQUEST_CONTENT;

pub(crate) static ACTIONS: &[ActionDef] = &[
    ActionDef::new(
        "expect-netscaler-cip",
        Rulesets::TCP_CONNECTION,
        "layer4",
        "reads a NetScaler client IP header before anything else",
        |w, e| expect(w, e, "expect-netscaler-cip", Setting::ExpectNetScaler),
    ),
    ActionDef::new(
        "expect-proxy",
        Rulesets::TCP_CONNECTION,
        "layer4",
        "reads a PROXY protocol header before anything else",
        |w, e| expect(w, e, "expect-proxy", Setting::ExpectProxy),
    ),
    ActionDef::new(
        "set-bc-mark",
        BACK,
        "{ <mark> | <expr> }",
        "sets the mark of packets to the server",
        |w, e| mark(w, e, Side::Server),
    ),
    ActionDef::new(
        "set-bc-tos",
        BACK,
        "{ <tos> | <expr> }",
        "sets the TOS field of packets to the server",
        |w, e| tos(w, e, Side::Server),
    ),
    ActionDef::new("set-dst", ADDRESS, "<expr>", "sets the destination address", |w, e| {
        address(w, e, End::Destination)
    }),
    ActionDef::new("set-dst-port", ADDRESS, "<expr>", "sets the destination port", |w, e| {
        port(w, e, End::Destination)
    }),
    ActionDef::new(
        "set-fc-mark",
        FRONT,
        "{ <mark> | <expr> }",
        "sets the mark of packets to the client",
        |w, e| mark(w, e, Side::Client),
    ),
    ActionDef::new(
        "set-fc-tos",
        FRONT,
        "{ <tos> | <expr> }",
        "sets the TOS field of packets to the client",
        |w, e| tos(w, e, Side::Client),
    ),
    ActionDef::new("set-mark", FRONT, "<mark>", "deprecated alias of 'set-fc-mark'", |w, e| {
        mark(w, e, Side::Client)
    }),
    ActionDef::new("set-src", ADDRESS, "<expr>", "sets the source address", |w, e| {
        address(w, e, End::Source)
    }),
    ActionDef::new("set-src-port", ADDRESS, "<expr>", "sets the source port", |w, e| port(w, e, End::Source)),
    ActionDef::new("set-tos", FRONT, "<tos>", "deprecated alias of 'set-fc-tos'", |w, e| {
        tos(w, e, Side::Client)
    }),
];

fn wrap(setting: Setting) -> Action {
    Action::Connection(Box::new(setting))
}

/// What has to come before anything else, below everything that is spoken.
fn expect(words: &mut Words, env: &mut RuleEnv, name: &str, setting: Setting) -> Result<Action, String> {
    if words.take("layer4") {
        return Ok(wrap(setting));
    }
    Err(format!(
        "'{} {name}' only supports 'layer4' in {} (got '{}')",
        words.kind.name(),
        crate::keyword::section(env.compile),
        words.peek().unwrap_or("")
    ))
}

fn address(words: &mut Words, env: &mut RuleEnv, end: End) -> Result<Action, String> {
    Ok(wrap(Setting::Address { end, expr: compile::expression(words.next(), env.compile)? }))
}

fn port(words: &mut Words, env: &mut RuleEnv, end: End) -> Result<Action, String> {
    Ok(wrap(Setting::Port { end, expr: compile::expression(words.next(), env.compile)? }))
}

/// Reads a number, or else an expression.
pub(crate) fn number(words: &mut Words, env: &mut RuleEnv, missing: &str) -> Result<Number, String> {
    let word = words.next().ok_or(missing)?;
    match compile::number(word) {
        Some(value) => Ok(Number::Known(value as i64)),
        None => Ok(Number::Expr(Box::new(compile::expression(Some(word), env.compile)?))),
    }
}

fn mark(words: &mut Words, env: &mut RuleEnv, side: Side) -> Result<Action, String> {
    Ok(wrap(Setting::Mark { side, value: number(words, env, "expects an argument")? }))
}

fn tos(words: &mut Words, env: &mut RuleEnv, side: Side) -> Result<Action, String> {
    Ok(wrap(Setting::Tos { side, value: number(words, env, "expects an argument")? }))
}

impl Number {
    /// The number; none when the expression gives none (`cx.may_change` then says whether to wait).
    pub fn eval(&self, cx: &mut Ctx) -> Option<i64> {
        match self {
            Number::Known(value) => Some(*value),
            Number::Expr(expr) => match expr.eval_as(Type::Int, cx)?.value {
                Value::Int(value) => Some(value),
                _ => None,
            },
        }
    }
}

/// Go on, unless the expression that gave nothing waits for data.
pub(crate) fn missed<'r>(cx: &Ctx) -> Step<'r> {
    if cx.may_change && !cx.last { Step::Wait } else { Step::Next }
}

impl Setting {
    pub fn run<'r>(&self, kind: Kind, cx: &mut Ctx, fx: &mut Effects) -> Step<'r> {
        match self {
            Setting::Address { end, expr } => {
                let ip = match expr.eval_as(Type::Addr, cx).map(|s| s.value) {
                    Some(Value::Ip4(ip)) => IpAddr::V4(ip),
                    Some(Value::Ip6(ip)) => IpAddr::V6(ip),
                    _ => return missed(cx),
                };
                let port = current(*end, kind, cx).port().unwrap_or(0);
                store(*end, kind, cx, SocketAddr::new(ip, port));
            }
            Setting::Port { end, expr } => {
                let Some(Value::Int(port)) = expr.eval_as(Type::Int, cx).map(|s| s.value) else {
                    return missed(cx);
                };
                let ip = current(*end, kind, cx).ip().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
                // Only the low 16 bits of the number count.
                store(*end, kind, cx, SocketAddr::new(ip, port as u16));
            }
            Setting::Mark { side, value } => {
                let Some(value) = value.eval(cx) else { return missed(cx) };
                match side {
                    Side::Client => fx.overrides.fc_mark = Some(value as u32),
                    Side::Server => fx.overrides.bc_mark = Some(value as u32),
                }
            }
            Setting::Tos { side, value } => {
                let Some(value) = value.eval(cx) else { return missed(cx) };
                match side {
                    Side::Client => fx.overrides.fc_tos = Some(value as u8),
                    Side::Server => fx.overrides.bc_tos = Some(value as u8),
                }
            }
            Setting::ExpectProxy => fx.overrides.expect_proxy = true,
            Setting::ExpectNetScaler => fx.overrides.expect_netscaler = true,
        }
        Step::Next
    }
}

/// True for rules of the connection; the others change the stream only.
fn of_session(kind: Kind, cx: &Ctx) -> bool {
    matches!(kind, Kind::TcpConnection | Kind::TcpSession) || cx.stream.is_none()
}

fn current(end: End, kind: Kind, cx: &Ctx) -> Endpoint {
    let stream = cx.stream.as_deref().filter(|_| !of_session(kind, cx));
    match end {
        End::Source => stream.and_then(|s| s.src).unwrap_or_else(|| cx.session.source()),
        End::Destination => stream.and_then(|s| s.dst).unwrap_or_else(|| cx.session.destination()),
    }
}

fn store(end: End, kind: Kind, cx: &mut Ctx, address: SocketAddr) {
    let value = Endpoint::Inet(address);
    let of_session = of_session(kind, cx);
    match (cx.stream.as_deref_mut().filter(|_| !of_session), end) {
        (Some(stream), End::Source) => stream.src = Some(value),
        (Some(stream), End::Destination) => stream.dst = Some(value),
        (None, End::Source) => cx.session.rare_mut().src = Some(Box::new(value)),
        (None, End::Destination) => cx.session.rare_mut().dst = Some(Box::new(value)),
    }
}
