//! Settings of the stream: captures, log level, priority, retries, timeouts; and what ends or leaves the ruleset:
//! `do-log`, `switch-mode`, `use-service`.

use super::connection::{Number, missed, number};
use super::{Action, Step};
use crate::compile;
use crate::effects::Effects;
use crate::keyword::{ActionDef, RuleEnv, Rulesets, Words, section};
use crate::ruleset::{Kind, Outcome, References};
use std::sync::OnceLock;
use thalweg_sample::{Ctx, Expr, Type, Value};

/// A change of the stream's settings.
pub(crate) enum Setting {
    Capture {
        expr: Expr,
        slot: usize,
        by_id: bool,
        max: OnceLock<usize>,
    },
    LogLevel(u8),
    Nice(i16),
    PriorityClass(Expr),
    PriorityOffset(Expr),
    Retries(Number),
    NoL7Retry,
    Timeout(Timeout, Number),
    Log {
        profile: Option<Box<str>>,
    },
    SwitchMode {
        proto: Option<Box<str>>,
    },
    Service(Box<str>),
    /// Nothing is left to wait for: connections are handed over once their handshake is done.
    Handshake,
}

/// The timeouts that rules can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timeout {
    Client,
    Connect,
    Queue,
    Server,
    Tarpit,
    Tunnel,
}

/// Marks `set-log-level silent`: no line at all.
pub const SILENT: u8 = 255;

const LEVELS: [&str; 8] = ["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"];
const BOTH: Rulesets = Rulesets::HTTP_REQUEST.or(Rulesets::HTTP_RESPONSE);
const STREAM: Rulesets = Rulesets::TCP_REQUEST.or(Rulesets::TCP_RESPONSE).or(BOTH);

pub(crate) static ACTIONS: &[ActionDef] = &[
    ActionDef::new(
        "capture",
        Rulesets::TCP_REQUEST.or(Rulesets::HTTP),
        "<sample> [ len <length> | id <id> ]",
        "stores a value in a capture slot, for logs",
        capture,
    ),
    ActionDef::new(
        "disable-l7-retry",
        Rulesets::HTTP_REQUEST,
        "",
        "forbids to retry after a failed exchange",
        |_, _| Ok(wrap(Setting::NoL7Retry)),
    ),
    ActionDef::new("do-log", Rulesets::ALL, "[profile <log_profile>]", "emits a log line now", do_log),
    ActionDef::new(
        "set-log-level",
        STREAM.or(Rulesets::HTTP_AFTER),
        "{ <level> | silent }",
        "sets the level of the log line, or drops it",
        log_level,
    ),
    ActionDef::new("set-nice", STREAM, "<nice>", "sets the priority of processing, -1024 to 1024", nice),
    ActionDef::new(
        "set-priority-class",
        Rulesets::REQUEST_CONTENT,
        "<expr>",
        "sets the class in queues, -2047 to 2047; lower goes first",
        |w, e| Ok(wrap(Setting::PriorityClass(compile::expression(w.next(), e.compile)?))),
    ),
    ActionDef::new(
        "set-priority-offset",
        Rulesets::REQUEST_CONTENT,
        "<expr>",
        "shifts the place in queues, in milliseconds, -524287 to 524287",
        |w, e| Ok(wrap(Setting::PriorityOffset(compile::expression(w.next(), e.compile)?))),
    ),
    ActionDef::new(
        "set-retries",
        Rulesets::REQUEST_CONTENT,
        "{ <int> | <expr> }",
        "sets how many times a connection is tried again, 0 to 100",
        retries,
    ),
    ActionDef::new(
        "set-timeout",
        BOTH,
        "{ client | connect | queue | server | tarpit | tunnel } { <timeout> | <expr> }",
        "sets a timeout of this stream",
        timeout,
    ),
    ActionDef::new(
        "switch-mode",
        Rulesets::TCP_REQUEST,
        "http [proto <name>]",
        "changes the stream from TCP to HTTP",
        switch_mode,
    ),
    ActionDef::new(
        "use-service",
        Rulesets::REQUEST_CONTENT,
        "<service-name>",
        "lets a service answer",
        use_service,
    ),
    ActionDef::new(
        "wait-for-handshake",
        Rulesets::HTTP_REQUEST,
        "",
        "waits for the end of the handshakes of the client's connection",
        |_, _| Ok(wrap(Setting::Handshake)),
    ),
];

fn wrap(setting: Setting) -> Action {
    Action::Stream(Box::new(setting))
}

fn capture(words: &mut Words, env: &mut RuleEnv) -> Result<Action, String> {
    let tcp = words.kind == Kind::TcpRequest;
    let expects = "expects <expression> [ 'len' <length> | id <idx> ]";
    let Some(word) = words.next() else {
        return Err(if tcp {
            "'tcp-request content capture' : missing fetch method".into()
        } else {
            expects.into()
        });
    };
    let expr = compile::expression(Some(word), env.compile)?;
    let mut by_id = false;
    let (slot, max) = match (words.next(), words.next()) {
        (Some("len"), Some(length)) if !words.kind.is_response() => {
            let length = compile::leading(length);
            if length <= 0 {
                let text = "length must be > 0";
                return Err(if tcp {
                    format!("'tcp-request content capture' : {text}")
                } else {
                    text.into()
                });
            }
            if !env.compile.proxy.frontend {
                return Err(format!("proxy '{}' has no frontend capability", env.compile.proxy.name));
            }
            env.captures.request.push(length as usize);
            (env.captures.request.len() - 1, OnceLock::from(length as usize))
        }
        (None | Some("id"), _) if tcp => {
            return Err("'tcp-request content capture' : a positive 'len' argument is mandatory".into());
        }
        (Some("id"), Some(id)) => {
            by_id = true;
            let id = id.parse::<usize>().map_err(|_| format!("invalid 'id' argument '{id}'"))?;
            (id, OnceLock::new())
        }
        (Some(word @ ("len" | "id")), None) if word == "id" || !words.kind.is_response() => {
            return Err(expects.into());
        }
        (Some(other), _) if words.kind.is_response() => return Err(format!("expects 'id', found '{other}'")),
        (Some(other), _) => return Err(format!("expects 'len' or 'id', found '{other}'")),
        (None, _) => return Err(expects.into()),
    };
    Ok(wrap(Setting::Capture { expr, slot, by_id, max }))
}

fn do_log(words: &mut Words, _: &mut RuleEnv) -> Result<Action, String> {
    let mut profile = None;
    if words.take("profile") {
        profile = Some(words.value().ok_or("action 'do-log': 'profile' expects argument.")?.into());
    }
    Ok(wrap(Setting::Log { profile }))
}

fn log_level(words: &mut Words, _: &mut RuleEnv) -> Result<Action, String> {
    let expects = "expects exactly 1 argument (log level name or 'silent')";
    let word = words.next().ok_or(expects)?;
    let level = match LEVELS.iter().position(|&level| level == word) {
        Some(level) => level as u8,
        None if word == "silent" => SILENT,
        None => return Err(expects.into()),
    };
    Ok(wrap(Setting::LogLevel(level)))
}

fn nice(words: &mut Words, _: &mut RuleEnv) -> Result<Action, String> {
    let word = words.next().ok_or("expects exactly 1 argument (integer value)")?;
    Ok(wrap(Setting::Nice(compile::leading(word).clamp(-1024, 1024) as i16)))
}

fn retries(words: &mut Words, env: &mut RuleEnv) -> Result<Action, String> {
    let value = match words.peek() {
        None => {
            return Err("expects exactly 1 argument (an expression or an integer between 1 and 100)".into());
        }
        _ if env.compile.proxy.defaults => {
            return Err("'set-retries' is not allowed in 'defaults' sections".into());
        }
        _ if !env.compile.proxy.backend => {
            return Err("'set-retries' only available in backend or listen section".into());
        }
        _ => number(words, env, "")?,
    };
    if let Number::Known(value) = value
        && !(0..=100).contains(&value)
    {
        return Err("expects an expression or an integer between 1 and 100".into());
    }
    Ok(wrap(Setting::Retries(value)))
}

fn timeout(words: &mut Words, env: &mut RuleEnv) -> Result<Action, String> {
    let (Some(name), Some(value)) = (words.next(), words.next()) else {
        return Err("expects exactly 2 arguments".into());
    };
    let which = match name {
        "client" => Timeout::Client,
        "connect" => Timeout::Connect,
        "queue" => Timeout::Queue,
        "server" => Timeout::Server,
        "tarpit" => Timeout::Tarpit,
        "tunnel" => Timeout::Tunnel,
        other => {
            return Err(format!(
                "'set-timeout' rule supports 'client'/'connect'/'queue'/'server'/'tarpit'/'tunnel' (got '{other}')"
            ));
        }
    };
    let proxy = env.compile.proxy;
    let (able, capability) = match which {
        Timeout::Client => (proxy.frontend, "frontend"),
        Timeout::Tarpit => (true, ""),
        _ => (proxy.backend, "backend"),
    };
    if !able && !proxy.defaults {
        return Err(format!("'{}' has no {capability} capability", proxy.name));
    }
    let rule = format!("set-timeout {name}");
    let value = duration(value, &rule, env)?;
    if let Number::Known(0) = value {
        return Err(format!("null value is not valid for a '{rule}' rule"));
    }
    Ok(wrap(Setting::Timeout(which, value)))
}

/// Reads a duration, or else an expression of milliseconds.
pub(crate) fn duration(word: &str, rule: &str, env: &mut RuleEnv) -> Result<Number, String> {
    match compile::time_ms(word, env.compile) {
        Ok(ms) => Ok(Number::Known(ms as i64)),
        // A word that starts with a digit can only be a duration.
        Err(error) => match compile::expression(Some(word), env.compile) {
            Ok(expr) => Ok(Number::Expr(Box::new(expr))),
            Err(e) if word.starts_with(|c: char| c.is_ascii_digit()) || e.starts_with("unknown") => {
                Err(error.text(rule))
            }
            Err(e) => Err(e),
        },
    }
}

fn switch_mode(words: &mut Words, env: &mut RuleEnv) -> Result<Action, String> {
    if !env.compile.proxy.frontend {
        return Err(format!(
            "'tcp-request switch-mode' not allowed because {} has no frontend capability",
            section(env.compile)
        ));
    }
    match words.next().ok_or("'tcp-request switch-mode' expects a mode as argument.")? {
        "http" => {}
        other => return Err(format!("'tcp-request switch-mode' expects a valid mode (got '{other}').")),
    }
    let mut proto = None;
    if words.take("proto") {
        let word =
            words.next().ok_or("'tcp-request switch-mode': 'proto' expects a protocol as argument.")?;
        if !matches!(word, "h1" | "h2") {
            return Err(format!(
                "'tcp-request switch-mode': 'proto' expects a valid MUX protocol, if specified (got '{word}')"
            ));
        }
        proto = Some(word.into());
    }
    Ok(wrap(Setting::SwitchMode { proto }))
}

fn use_service(words: &mut Words, env: &mut RuleEnv) -> Result<Action, String> {
    let word = words.next().ok_or("'use-service' expects a service name.")?;
    if env.services.contains(&word) {
        return Ok(wrap(Setting::Service(word.into())));
    }
    if word == "prometheus-exporter" || word.starts_with("lua.") {
        return Err(format!("service '{word}' is known but not supported yet."));
    }
    Err(if words.kind.is_http() {
        format!("'{word}' unknown service name.")
    } else {
        "'content' unknown service name.".into()
    })
}

impl Setting {
    /// True when no rule after it runs.
    pub fn is_final(&self) -> bool {
        matches!(self, Setting::SwitchMode { .. } | Setting::Service(_))
    }

    /// True when the connection goes on as HTTP.
    pub fn switches_mode(&self) -> bool {
        matches!(self, Setting::SwitchMode { .. })
    }

    pub fn resolve(&self, kind: Kind, references: &References) -> Result<(), String> {
        match self {
            Setting::Capture { slot, max, by_id: true, .. } => {
                // In a backend the slots are those of whichever frontend the stream came through.
                let Some(slots) = references.captures else { return Ok(()) };
                let lengths = if kind.is_response() { &slots.response } else { &slots.request };
                match lengths.get(*slot) {
                    Some(&length) => {
                        let _ = max.set(length);
                        Ok(())
                    }
                    None => Err(format!(
                        "unable to find capture id '{slot}' referenced by {} capture rule.",
                        kind.name()
                    )),
                }
            }
            Setting::Log { profile: Some(profile) } if !(references.log_profile)(profile) => {
                Err(format!("do-log action: profile '{profile}' is invalid."))
            }
            _ => Ok(()),
        }
    }

    pub fn run<'r>(&'r self, kind: Kind, index: usize, cx: &mut Ctx, fx: &mut Effects) -> Step<'r> {
        match self {
            Setting::Capture { expr, slot, max, .. } => {
                let Some(sample) = expr.eval_as(Type::Str, cx) else { return missed(cx) };
                let max = max.get().copied().unwrap_or(CAPTURE_MAX);
                // The text may be in the request, the capture is in the stream: go through the buffer.
                fx.text.clear();
                fx.text.extend_from_slice(cx.bytes(&sample.value));
                if let Some(stream) = cx.stream.as_deref_mut() {
                    let captures =
                        if kind.is_response() { &mut stream.res_captures } else { &mut stream.req_captures };
                    captures.set(*slot, &fx.text, max);
                }
            }
            Setting::LogLevel(level) => {
                if let Some(stream) = cx.stream.as_deref_mut() {
                    stream.log_level = Some(*level);
                }
            }
            Setting::Nice(nice) => fx.overrides.nice = Some(*nice),
            Setting::PriorityClass(expr) => {
                let Some(Value::Int(value)) = expr.eval_as(Type::Int, cx).map(|s| s.value) else {
                    return missed(cx);
                };
                if let Some(stream) = cx.stream.as_deref_mut() {
                    stream.prio_class = value.clamp(-2047, 2047) as i32;
                }
            }
            Setting::PriorityOffset(expr) => {
                let Some(Value::Int(value)) = expr.eval_as(Type::Int, cx).map(|s| s.value) else {
                    return missed(cx);
                };
                if let Some(stream) = cx.stream.as_deref_mut() {
                    stream.prio_offset = value.clamp(-524_287, 524_287) as i32;
                }
            }
            Setting::Retries(value) => {
                let Some(value) = value.eval(cx) else { return missed(cx) };
                if let (true, Some(stream)) = ((0..=100).contains(&value), cx.stream.as_deref_mut()) {
                    stream.max_retries = value as u32;
                }
            }
            Setting::NoL7Retry => fx.overrides.no_l7_retry = true,
            Setting::Timeout(which, value) => {
                let Some(ms) = value.eval(cx).and_then(|ms| u64::try_from(ms).ok()).filter(|&ms| ms != 0)
                else {
                    return missed(cx);
                };
                if let Some(stream) = cx.stream.as_deref_mut() {
                    let timeouts = &mut stream.timeouts;
                    *match which {
                        Timeout::Client => &mut timeouts.client,
                        Timeout::Connect => &mut timeouts.connect,
                        Timeout::Queue => &mut timeouts.queue,
                        Timeout::Server => &mut timeouts.server,
                        Timeout::Tarpit => &mut timeouts.tarpit,
                        Timeout::Tunnel => &mut timeouts.tunnel,
                    } = ms;
                }
            }
            Setting::Log { profile } => {
                return Step::Stop(Outcome::Log { profile: profile.as_deref(), resume: index + 1 });
            }
            Setting::SwitchMode { proto } => {
                return Step::Stop(Outcome::SwitchMode { proto: proto.as_deref() });
            }
            Setting::Service(name) => return Step::Stop(Outcome::UseService(name)),
            Setting::Handshake if cx.session.rare().is_early => {
                return Step::Stop(Outcome::WaitHandshake { resume: index + 1 });
            }
            Setting::Handshake => {}
        }
        Step::Next
    }
}

/// The most bytes a capture by id keeps in a backend, where the frontend's slot is not known: the default size of a
/// captured URI.
const CAPTURE_MAX: usize = 1024;
