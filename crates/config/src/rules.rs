//! Rules of proxies: `acl`, `http-request` and its siblings, `tcp-request`, `redirect`.

use std::sync::Arc;

use thalweg_rules::{CaptureSlots, HttpErrors, Kind, References, RuleEnv, Ruleset};
use thalweg_sample::{AclSet, Points};
use thalweg_syntax::{Diagnostic, Lead, Line, Severity, TimeError};

use crate::build::{Building, Cx};
use crate::keyword::{Outcome, fail, sentence};
use crate::model::Mode;
use crate::numbers::duration_ms;
use crate::sample_env::{with_acls, with_env, words};

/// Rules of a section while its late lines are read.
#[derive(Default)]
pub(crate) struct Drafts {
    pub acls: AclSet,
    pub sets: [Ruleset; 7],
    pub redirects: Ruleset,
}

/// `acl <name> <test>`
pub(crate) fn acl(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    let words = words(line, 1);
    let mut drafts = b.drafts.take().unwrap_or_default();
    // The `acl()` fetch looks at those before; a copy costs a little for each of them, so it is made when needed.
    let known = words.iter().any(|w| w.contains("acl(")).then(|| drafts.acls.clone());
    let result =
        with_acls(cx, b, known.as_ref(), line.span(), Points::ALL, "", |env| drafts.acls.add(&words, env));
    b.drafts = Some(drafts);
    result.map_err(|e| whole(fail(line, 0, sentence(&e)), line))
}

/// A complaint about the line as a whole.
fn whole(mut complaint: Box<Diagnostic>, line: &Line) -> Box<Diagnostic> {
    complaint.span = Some(line.span());
    complaint
}

fn push(cx: &mut Cx<'_>, b: &mut Building, line: &Line, kind: Kind, from: usize, redirect: bool) -> Outcome {
    let arguments = words(line, from);
    let experimental = cx.config.global.expose_experimental;
    let mut captures = slots(b);
    let before = (captures.request.len(), captures.response.len());
    // The set is taken out so that the environment may look at the named ACLs meanwhile.
    let drafts = b.drafts.get_or_insert_default();
    let mut set = if redirect {
        std::mem::take(&mut drafts.redirects)
    } else {
        std::mem::take(&mut drafts.sets[kind as usize])
    };
    let context = match kind {
        Kind::TcpConnection => "tcp-request connection expression",
        Kind::TcpSession => "tcp-request session expression",
        Kind::TcpRequest => "tcp-request content expression",
        Kind::TcpResponse => "tcp-response content expression",
        Kind::HttpRequest => "http-request expression",
        Kind::HttpResponse => "http-response expression",
        Kind::HttpAfter => "http-after-response expression",
    };
    let result = with_env(cx, b, line.span(), Points::ALL, context, |env| {
        env.points = kind.points(&env.proxy);
        let mut env =
            RuleEnv { compile: env, experimental, captures: &mut captures, services: cx.options.services };
        if redirect {
            return set.push_redirect(&arguments, &mut env);
        }
        let result = set.push(kind, &arguments, &mut env);
        // The reference warns about rules after a final one in HTTP only.
        if !kind.is_http() {
            env.compile.warnings.retain(|w| !w.contains("further entries are NOOP"));
        }
        result
    });
    let drafts = b.drafts.get_or_insert_default();
    if redirect {
        drafts.redirects = set;
    } else {
        drafts.sets[kind as usize] = set;
    }
    for len in &captures.request[before.0..] {
        crate::proxy::add_slot(b, "request", *len);
    }
    for len in &captures.response[before.1..] {
        crate::proxy::add_slot(b, "response", *len);
    }
    if result.as_ref().is_err_and(|e| e.contains("experimental"))
        || experimental && uses_experimental(line, from)
    {
        cx.experimental_used = true;
    }
    result.map_err(|e| whole(fail(line, from, e), line))
}

fn uses_experimental(line: &Line, from: usize) -> bool {
    let name = line.text(from).split('(').next().unwrap_or("");
    thalweg_rules::all_actions().any(|a| a.experimental && a.name == name)
}

/// The capture slots declared so far.
fn slots(b: &Building) -> CaptureSlots {
    CaptureSlots {
        request: b.p.request_captures.iter().map(|c| c.len as usize).collect(),
        response: b.p.response_captures.iter().map(|c| c.len as usize).collect(),
    }
}

/// `http-request`, `http-response`, `http-after-response`.
pub(crate) fn http_rule(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    let kind = match line.text(0) {
        "http-request" => Kind::HttpRequest,
        "http-response" => Kind::HttpResponse,
        _ => Kind::HttpAfter,
    };
    push(cx, b, line, kind, 1, false)
}

/// `redirect`
pub(crate) fn redirect(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    push(cx, b, line, Kind::HttpRequest, 1, true)
}

/// `tcp-request` and `tcp-response`.
pub(crate) fn tcp_rule(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    let (name, what) = (line.text(0), line.text(1));
    let title = b.title();
    if what.is_empty() {
        return Err(fail(line, 1, format!("missing argument for '{name}' in {title}")));
    }
    let kind = match (name, what) {
        (_, "inspect-delay") => return inspect_delay(cx, b, line),
        ("tcp-request", "connection") => Kind::TcpConnection,
        ("tcp-request", "session") => Kind::TcpSession,
        ("tcp-request", "content") => Kind::TcpRequest,
        ("tcp-response", "content") => Kind::TcpResponse,
        _ => {
            let expects = if name == "tcp-request" {
                "'tcp-request' expects 'inspect-delay', 'connection', or 'content'"
            } else {
                "'tcp-response' expects 'inspect-delay' or 'content'"
            };
            return Err(fail(line, 1, format!("{expects} in {title} (got '{what}')")));
        }
    };
    let side = match kind {
        Kind::TcpConnection | Kind::TcpSession if !b.may_be_frontend() => Some("frontend"),
        Kind::TcpResponse if !b.may_be_backend() => Some("backend"),
        _ => None,
    };
    if side.is_some() && name == "tcp-response" {
        let message =
            "tcp-response content is only allowed in 'backend' sections or 'defaults' section with a name";
        return Err(fail(line, 0, message));
    }
    if let Some(side) = side {
        let message =
            format!("{name} {what} is not allowed because {} {} is not a {side}", b.kind_shown(), b.p.name);
        return Err(fail(line, 0, message));
    }
    push(cx, b, line, kind, 2, false)
}

/// `tcp-request inspect-delay` and `tcp-response inspect-delay`.
pub(crate) fn inspect_delay(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    let name = line.text(0);
    if name == "tcp-response" && !b.may_be_backend() {
        let message = "tcp-response inspect-delay is only allowed in 'backend' sections or 'defaults' section with a name";
        return Err(fail(line, 0, message));
    }
    let title = b.title();
    let expects = format!("'{name} inspect-delay' expects a positive delay in milliseconds, in {title}");
    let text = line.text(2);
    let ms = duration_ms(cx, line, 2).map_err(|e| {
        let suffix = match e {
            TimeError::Unexpected(at) | TimeError::Trailing(at) => {
                format!(" (unexpected character '{}')", text[at..].chars().next().unwrap_or('?'))
            }
            TimeError::Overflow => {
                format!(" (timer overflow in '{text}', maximum value is 2147483647 ms or ~24.8 days)")
            }
            TimeError::Underflow => format!(" (timer underflow in '{text}', minimum non-null value is 1 ms)"),
            TimeError::Empty => String::new(),
        };
        fail(line, 2, format!("{expects}{suffix}"))
    })?;
    let place =
        if name == "tcp-request" { &mut b.p.inspect_delay_req_ms } else { &mut b.p.inspect_delay_res_ms };
    *place = (ms != 0).then_some(ms);
    Ok(())
}

/// Puts the rules of a section, and of the one it inherits from, where the data path reads them.
pub(crate) fn settle(cx: &mut Cx<'_>, b: &mut Building, inherited: Option<&[Ruleset; 7]>) {
    let mut drafts = b.drafts.take().unwrap_or_default();
    // Redirections run after the other rules on requests.
    let redirects = std::mem::take(&mut drafts.redirects);
    if !redirects.is_empty() && b.p.mode != Mode::Http {
        needs_http(cx, b, "redirect");
    } else if !redirects.is_empty() {
        let mut all = redirects;
        all.inherit(&drafts.sets[Kind::HttpRequest as usize]);
        drafts.sets[Kind::HttpRequest as usize] = all;
    }
    let captures = slots(b);
    for (index, kind) in Kind::ALL.into_iter().enumerate() {
        let mut set = std::mem::take(&mut drafts.sets[index]);
        let own = !set.is_empty();
        if let Some(parent) = inherited.map(|sets| &sets[index]).filter(|s| !s.is_empty()) {
            set.inherit(parent);
        }
        if set.is_empty() {
            continue;
        }
        let groups = &cx.config.http_errors;
        let profiles = &cx.config.log_profiles;
        let references = References {
            http_errors: &|name: &str| groups.iter().find(|g: &&Arc<HttpErrors>| &*g.name == name).cloned(),
            log_profile: &|name: &str| profiles.iter().any(|p| &*p.name == name),
            patterns: &cx.registry,
            captures: b.p.is_fe().then_some(&captures),
            bandwidth_filter: &|name: &str| {
                b.p.filters.iter().find_map(|f| f.bandwidth_of(name)).map(|f| f.id)
            },
        };
        for message in set.resolve(kind, &b.p.name, &references) {
            cx.diagnostics.push(Diagnostic::new(Severity::Alert, Lead::Bare, Some(b.span), message));
        }
        if kind.is_http() && b.p.mode != Mode::Http {
            // Inherited rules are meant for the proxies that can use them.
            if own {
                needs_http(cx, b, kind.name());
            }
            continue;
        }
        let set = Arc::new(set);
        let rules = &mut b.p.rules;
        match kind {
            Kind::TcpConnection => rules.tcp_connection = set,
            Kind::TcpSession => rules.tcp_session = set,
            Kind::TcpRequest => rules.tcp_content_req = set,
            Kind::TcpResponse => rules.tcp_content_res = set,
            Kind::HttpRequest => rules.http_request = set,
            Kind::HttpResponse => rules.http_response = set,
            Kind::HttpAfter => rules.http_after_response = set,
        }
    }
}

/// Says that rules are ignored because the proxy does not speak HTTP.
fn needs_http(cx: &mut Cx<'_>, b: &Building, name: &str) {
    let message = format!("'{name}' rules ignored for {} as they require HTTP mode.", b.title());
    cx.diagnostics.push(Diagnostic::new(Severity::Warning, Lead::Bare, Some(b.span), message));
}
