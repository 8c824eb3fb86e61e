//! Rules of proxies: `acl`, `http-request` and its siblings, `tcp-request`, `redirect`.

use std::sync::Arc;

use thalweg_rules::{CaptureSlots, HttpErrors, Kind, References, RuleEnv, Ruleset};
use thalweg_sample::{AclSet, Points, ProxyId};
use thalweg_syntax::{Diagnostic, Lead, Line, Severity, TimeError};

use crate::build::{Building, Cx};
use crate::keyword::{Outcome, fail, sentence};
use crate::made_tables::MadeTables;
use crate::model::{DynamicTarget, Mode, OpenTelemetry};
use crate::numbers::duration_ms;
use crate::sample_env::{with_acls, with_env, words};

/// Rules of a section while its late lines are read.
#[derive(Default)]
pub(crate) struct Drafts {
    pub acls: AclSet,
    pub sets: [Ruleset; 7],
    pub redirects: Ruleset,
    /// `stats http-request`
    pub stats: Ruleset,
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

/// Which of the rulesets of a section a rule belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The one of this kind.
    Kind(Kind),
    /// `redirect`, after `http-request`.
    Redirects,
    /// `stats http-request`
    Stats,
}

impl Place {
    fn kind(self) -> Kind {
        match self {
            Place::Kind(kind) => kind,
            Place::Redirects | Place::Stats => Kind::HttpRequest,
        }
    }

    fn of(self, drafts: &mut Drafts) -> &mut Ruleset {
        match self {
            Place::Kind(kind) => &mut drafts.sets[kind as usize],
            Place::Redirects => &mut drafts.redirects,
            Place::Stats => &mut drafts.stats,
        }
    }
}

/// Reads the rule in the words from `from` on.
pub(crate) fn push(cx: &mut Cx<'_>, b: &mut Building, line: &Line, place: Place, from: usize) -> Outcome {
    let mut arguments = words(line, from);
    if place == Place::Stats && arguments.first() == Some(&"auth") && arguments.get(1) != Some(&"realm") {
        // Elsewhere it would be the name of the proxy.
        arguments.splice(1..1, ["realm", crate::model::DEFAULT_REALM]);
    }
    let kind = place.kind();
    let experimental = cx.config.global.expose_experimental;
    let before = slots(b);
    // The set is taken out so that the environment may look at the named ACLs meanwhile.
    let mut set = std::mem::take(place.of(b.drafts.get_or_insert_default()));
    let mut captures = before.clone();
    let result = compile(cx, b, line.span(), kind, &mut captures, |env| match place {
        Place::Redirects => set.push_redirect(&arguments, env),
        Place::Kind(_) | Place::Stats => {
            let result = set.push(kind, &arguments, env);
            // The reference warns about rules after a final one in HTTP only, and in its own way about those of a page.
            if !kind.is_http() || place == Place::Stats {
                env.compile.warnings.retain(|w| !w.contains("further entries are NOOP"));
            }
            result
        }
    });
    *place.of(b.drafts.get_or_insert_default()) = set;
    for len in &captures.request[before.request.len()..] {
        crate::proxy::add_slot(b, "request", *len);
    }
    for len in &captures.response[before.response.len()..] {
        crate::proxy::add_slot(b, "response", *len);
    }
    if result.as_ref().is_err_and(|e| e.contains("experimental"))
        || experimental && uses_experimental(line, from)
    {
        cx.experimental_used = true;
    }
    result.map_err(|e| whole(fail(line, from, e), line))
}

/// Compiles a rule of this kind in the environment of a section.
pub(crate) fn compile<T>(
    cx: &mut Cx<'_>,
    b: &Building,
    span: thalweg_syntax::Span,
    kind: Kind,
    captures: &mut CaptureSlots,
    rule: impl FnOnce(&mut RuleEnv<'_, '_>) -> T,
) -> T {
    let context = match kind {
        Kind::TcpConnection => "tcp-request connection expression",
        Kind::TcpSession => "tcp-request session expression",
        Kind::TcpRequest => "tcp-request content expression",
        Kind::TcpResponse => "tcp-response content expression",
        Kind::HttpRequest => "http-request expression",
        Kind::HttpResponse => "http-response expression",
        Kind::HttpAfter => "http-after-response expression",
    };
    let experimental = cx.config.global.expose_experimental;
    let services = cx.options.services;
    let mut tables = MadeTables::begin(cx, b, span);
    let result = with_env(cx, b, span, Points::ALL, context, |env| {
        env.points = kind.points(&env.proxy);
        rule(&mut RuleEnv { compile: env, experimental, captures, services, tables: &mut tables })
    });
    tables.end(cx);
    result
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
    push(cx, b, line, Place::Kind(kind), 1)
}

/// `redirect`
pub(crate) fn redirect(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    push(cx, b, line, Place::Redirects, 1)
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
    push(cx, b, line, Place::Kind(kind), 2)
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
    for (index, kind) in Kind::ALL.into_iter().enumerate() {
        let own = std::mem::take(&mut drafts.sets[index]);
        let parent = inherited.map(|sets| &sets[index]);
        let Some(set) = settled(cx, b, kind, kind.name(), own, parent) else { continue };
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
    let redirects = std::mem::take(&mut drafts.redirects);
    // A `defaults` section has none.
    if let Some(set) = settled(cx, b, Kind::HttpRequest, "redirect", redirects, None) {
        b.p.rules.redirect = set;
    }
}

/// The rules of one kind with those that are inherited before them, unless there are none or the proxy cannot use them.
fn settled(
    cx: &mut Cx<'_>,
    b: &Building,
    kind: Kind,
    name: &str,
    mut set: Ruleset,
    parent: Option<&Ruleset>,
) -> Option<Arc<Ruleset>> {
    let own = !set.is_empty();
    if let Some(parent) = parent.filter(|set| !set.is_empty()) {
        set.inherit(parent);
    }
    let traces = begins_traces(cx, b, kind, name);
    if set.is_empty() && traces.is_none() {
        return None;
    }
    resolve(cx, b, kind, &set);
    if kind.is_http() && b.p.mode != Mode::Http {
        // Inherited rules are meant for the proxies that can use them.
        if own && !becomes_http(cx, b) {
            needs_http(cx, b, name);
        }
        if b.p.is_be() {
            return None;
        }
    }
    if let Some(telemetry) = traces {
        let (file, line) = &telemetry.place;
        set.begin_traces(telemetry.beginning, (file, *line));
    }
    Some(Arc::new(set))
}

/// Whether a line says that connections of a TCP frontend go on as HTTP: `switch-mode`, one that names a backend of HTTP, or one
/// whose name is computed, which may do so. What is a backend as well never does. What such a frontend says of requests is about
/// those.
pub(crate) fn becomes_http(cx: &Cx<'_>, b: &Building) -> bool {
    let is_http = |id: ProxyId| cx.sides[id.0 as usize].mode == Mode::Http;
    let drafts = b.drafts.as_ref().map(|drafts| &drafts.sets[Kind::TcpRequest as usize]);
    b.p.mode == Mode::Tcp
        && !b.p.is_be()
        && (b.p.rules.tcp_content_req.switches_mode()
            || drafts.is_some_and(Ruleset::switches_mode)
            || b.p.default_backend.is_some_and(is_http)
            || b.p.use_backend.iter().any(|rule| match rule.target {
                DynamicTarget::Static(id) => is_http(id),
                DynamicTarget::Dynamic(_) => true,
            }))
}

/// Who says how requests come to their traces, if these are the rules that each request of a frontend goes through.
fn begins_traces(cx: &Cx<'_>, b: &Building, kind: Kind, name: &str) -> Option<Arc<OpenTelemetry>> {
    let all = kind == Kind::HttpRequest
        && name == kind.name()
        && b.p.is_fe()
        && (b.p.mode == Mode::Http || !b.p.is_be());
    cx.config.opentelemetry.clone().filter(|_| all)
}

/// Resolves what rules refer to by name.
pub(crate) fn resolve(cx: &mut Cx<'_>, b: &Building, kind: Kind, set: &Ruleset) {
    let captures = slots(b);
    let groups = &cx.config.http_errors;
    let sections = &cx.config.resolvers;
    let profiles = &cx.config.log_profiles;
    let references = References {
        http_errors: &|name: &str| groups.iter().find(|g: &&Arc<HttpErrors>| &*g.name == name).cloned(),
        log_profile: &|name: &str| profiles.iter().any(|p| &*p.name == name),
        patterns: &cx.registry,
        traces: cx.config.opentelemetry.is_some(),
        captures: b.p.is_fe().then_some(&captures),
        resolvers: &|name: &str| sections.iter().position(|section| &*section.name == name),
        bandwidth_filter: &|name: &str| {
            let found = b.p.filters.as_ref().and_then(|filters| filters.bandwidth_of(name));
            found.map(|f| thalweg_rules::BandwidthFilter { id: f.id, shared: f.shared.clone() })
        },
    };
    for message in set.resolve(kind, &b.p.name, &references) {
        cx.diagnostics.push(Diagnostic::new(Severity::Alert, Lead::Bare, Some(b.span), message));
    }
}

/// Says that rules are ignored because the proxy does not speak HTTP.
fn needs_http(cx: &mut Cx<'_>, b: &Building, name: &str) {
    let message = format!("'{name}' rules ignored for {} as they require HTTP mode.", b.title());
    cx.diagnostics.push(Diagnostic::new(Severity::Warning, Lead::Bare, Some(b.span), message));
}
