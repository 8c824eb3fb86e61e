//! `tcp-check`, `http-check` and the options that choose a kind of health check (manual, section 4.2).
//!
//! The lines of a section are kept as they are until all names are known: their formats may name what comes later.
//! The first line of a section replaces what it inherited.

mod dialect;
mod expect;
mod line;
pub(crate) mod section;

use std::sync::Arc;

use thalweg_check::{Connect, Expect, External, HttpRequest, Kind, Matcher, Program, Step, StepKind, Text};
use thalweg_syntax::{Diagnostic, Lead, Line};

use self::dialect::dialect;
use self::line::{format, rules};
use crate::build::{Building, Cx};
use crate::keyword::{Outcome, at_most, fail};
use crate::proxy::OptionHow;

type Read<T> = Result<T, Box<Diagnostic>>;

/// Checks of a section while it is read.
#[derive(Clone, Debug, Default)]
pub(crate) struct CheckDraft {
    kind: Kind,
    /// The `option` line that chose the kind.
    option: Option<Line>,
    /// Lines of `tcp-check` and of `http-check`, in order.
    tcp: Vec<Line>,
    http: Vec<Line>,
    send_state: bool,
    disable_on_404: bool,
    /// What this section said itself: the rest is inherited and gives way.
    own_tcp: bool,
    own_http: bool,
    /// `external-check`.
    command: Option<Arc<str>>,
    path: Option<Arc<str>>,
}

impl CheckDraft {
    /// What a section inherits of this one.
    pub(crate) fn heir(&self) -> CheckDraft {
        CheckDraft { own_tcp: false, own_http: false, ..self.clone() }
    }

    fn own(&mut self, http: bool) {
        if http && !std::mem::replace(&mut self.own_http, true) {
            self.http.clear();
            // The inherited request goes with the inherited rules.
            if self.kind == Kind::Http {
                self.option = None;
            }
        }
        if !http && !std::mem::replace(&mut self.own_tcp, true) {
            self.tcp.clear();
        }
    }
}

/// `option httpchk`, `tcp-check`, `external-check`, and those that speak a protocol: `smtpchk`, `redis-check`, `mysql-check`,
/// `pgsql-check`, `ldap-check`, `spop-check`, `ssl-hello-chk`, `grpc-check`.
pub(crate) fn option(cx: &mut Cx<'_>, b: &mut Building, line: &Line, how: OptionHow) -> Outcome {
    let name = line.text(1);
    if how != OptionHow::On {
        return Err(fail(line, 1, format!("negation/default is not supported for option '{name}'.")));
    }
    // Mistakes are mistakes even where the line has no effect.
    if !b.may_be_backend() {
        cx.warn(line, 1, format!("'{name}' ignored because {} has no backend capability.", b.title()));
    }
    choose(Arc::make_mut(&mut b.check), line)
}

/// The kind of check that a line chooses: `option` of a proxy, or `type` of a `healthcheck` section, and the kind's name.
fn choose(draft: &mut CheckDraft, line: &Line) -> Outcome {
    let (lead, name) = (line.text(0), line.text(1));
    match name {
        "httpchk" => {
            at_most(line, 2, 4)?;
            if line.text(4).contains('\r') || line.text(4).contains('\n') {
                return Err(fail(
                    line,
                    4,
                    format!(
                        "'{lead} httpchk' : hiding headers or body at the end of the version string is unsupported.Use 'http-check \
                     send' directive instead.."
                    ),
                ));
            }
            draft.kind = Kind::Http;
            draft.own(true);
        }
        "tcp-check" => {
            at_most(line, 2, 0)?;
            draft.kind = Kind::Tcp;
        }
        "external-check" => {
            at_most(line, 2, 0)?;
            draft.kind = Kind::External;
        }
        _ => {
            match name {
                "redis-check" | "ldap-check" | "spop-check" | "ssl-hello-chk" => at_most(line, 2, 0)?,
                "smtpchk" => at_most(line, 2, 2)?,
                "grpc-check" => grpc_arguments(line)?,
                "mysql-check" if !matches!(line.text(2), "" | "user") => {
                    let got = line.text(2);
                    return Err(fail(
                        line,
                        2,
                        format!("'{lead} mysql-check' only supports optional values: 'user' (got '{got}')."),
                    ));
                }
                "mysql-check" if line.text(2) == "user" => {
                    if line.text(3).is_empty() {
                        return Err(fail(
                            line,
                            3,
                            format!("'{lead} mysql-check user' expects <username> as argument."),
                        ));
                    }
                    if !matches!(line.text(4), "" | "pre-41" | "post-41" | "post-80") {
                        let got = line.text(4);
                        return Err(fail(
                            line,
                            4,
                            format!(
                                "keyword 'user' only supports 'post-41', 'pre-41' and 'post-80' (got '{got}')."
                            ),
                        ));
                    }
                    at_most(line, 2, 3)?;
                }
                "pgsql-check" => {
                    if line.text(2) != "user" || line.text(3).is_empty() {
                        return Err(fail(
                            line,
                            2,
                            format!("'{lead} pgsql-check' expects 'user <username>' as argument."),
                        ));
                    }
                    at_most(line, 2, 2)?;
                }
                _ => {}
            }
            draft.kind = Kind::Dialect;
        }
    }
    draft.option = Some(line.clone());
    Ok(())
}

/// `grpc-check [service <name>] [authority <name>]`: ours.
fn grpc_arguments(line: &Line) -> Outcome {
    let lead = line.text(0);
    for at in (2..line.words.len()).step_by(2) {
        let name = line.text(at);
        if !dialect::GRPC_ARGUMENTS.contains(&name) {
            let message =
                format!("'{lead} grpc-check' only supports 'service' and 'authority' (got '{name}').");
            return Err(fail(line, at, message));
        }
        if line.text(at + 1).is_empty() {
            return Err(fail(line, at, format!("'{lead} grpc-check {name}' expects a name as argument.")));
        }
    }
    at_most(line, 2, 2 * dialect::GRPC_ARGUMENTS.len())
}

/// One `tcp-check` or `http-check` line of a proxy.
pub(crate) fn rule(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    if !b.may_be_backend() {
        let name = line.text(0);
        cx.warn(line, 0, format!("'{name}' ignored because {} has no backend capability.", b.title()));
    }
    add(Arc::make_mut(&mut b.check), line)
}

/// `external-check command`, `external-check path`.
pub(crate) fn external(_: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    let draft = Arc::make_mut(&mut b.check);
    let place = match line.text(1) {
        "command" => &mut draft.command,
        "path" => &mut draft.path,
        "" => return Err(fail(line, 1, "missing argument after 'external-check'.")),
        other => {
            let message = format!("'external-check' only supports 'command' and 'path'. but got '{other}'.");
            return Err(fail(line, 1, message));
        }
    };
    if line.text(2).is_empty() {
        return Err(fail(line, 2, format!("missing argument after '{}'.", line.text(1))));
    }
    *place = Some(Arc::from(line.text(2)));
    if let Some(extra) = line.words.get(3) {
        return Err(fail(line, 3, format!("'external-check' cannot handle unexpected argument '{extra}'.")));
    }
    Ok(())
}

fn add(draft: &mut CheckDraft, line: &Line) -> Outcome {
    let (name, word) = (line.text(0), line.text(1));
    let http = name == "http-check";
    let verb = word.split('(').next().unwrap_or(word);
    match verb {
        "disable-on-404" | "send-state" if http => {
            if let Some(extra) = line.words.get(2) {
                return Err(fail(
                    line,
                    2,
                    format!("'http-check' cannot handle unexpected argument '{extra}'."),
                ));
            }
            if verb == "send-state" {
                draft.send_state = true
            } else {
                draft.disable_on_404 = true
            }
            return Ok(());
        }
        "comment" | "connect" | "send" | "expect" | "set-var" | "set-var-fmt" | "unset-var" => {}
        "send-lf" | "send-binary" | "send-binary-lf" if !http => {}
        _ => {
            let only = if http {
                "'disable-on-404', 'send-state', 'comment', 'connect', 'send', 'expect', "
            } else {
                "'comment', 'connect', 'send', 'send-binary', 'expect', "
            };
            return Err(fail(
                line,
                1,
                format!(
                    "'{name}' only supports {only}'set-var-fmt(*)', 'set-var(*)', 'unset-var(*)'. but got '{word}'"
                ),
            ));
        }
    }
    draft.own(http);
    let lines = if http { &mut draft.http } else { &mut draft.tcp };
    if verb == "connect"
        && let Some(first) = lines.iter().find(|l| is_exchange(l))
        && first.text(1) != "connect"
    {
        return Err(fail(
            line,
            0,
            format!(
                "'{name} connect' : first step MUST also be a 'connect', optionally preceded by a 'set-var', an \
                 'unset-var' or a 'comment', when there is a 'connect' step in the tcp-check ruleset."
            ),
        ));
    }
    // What is sent and what comes back alternate, connection by connection.
    if http && let Some(last) = lines.iter().rfind(|l| is_exchange(l)) {
        let missing = match (last.text(1), verb) {
            ("send" | "expect", "send") => "connect",
            ("connect", "expect") => "send",
            _ => "",
        };
        if !missing.is_empty() {
            let message = format!(
                "'{name} {verb}' : unable to add http-check {verb} rule at step {} (missing {missing} rule).",
                lines.len() + 1
            );
            return Err(fail(line, 0, message));
        }
    }
    lines.push(line.clone());
    Ok(())
}

fn is_exchange(line: &Line) -> bool {
    matches!(line.text(1), "connect" | "send" | "send-lf" | "send-binary" | "send-binary-lf" | "expect")
}

/// Compiles the checks of a proxy, once all names are known.
pub(crate) fn compile(cx: &mut Cx<'_>, b: &mut Building) {
    let draft = Arc::clone(&b.check);
    let title = b.p.name.clone();
    if !b.p.is_be() {
        for lines in [&draft.tcp, &draft.http] {
            if let Err(complaint) = rules(cx, b, lines) {
                cx.diagnostics.push(*complaint);
            }
        }
        if draft.kind != Kind::External {
            external_needs(cx, b, &draft);
        }
        return;
    }
    for (lines, own, option, kind) in [
        (&draft.tcp, draft.own_tcp, "tcp-check", Kind::Tcp),
        (&draft.http, draft.own_http && !draft.http.is_empty(), "httpchk", Kind::Http),
    ] {
        if own && draft.kind != kind {
            let name = if kind == Kind::Tcp { "tcp-check" } else { "http-check" };
            let message = format!(
                "backend '{title}' uses {name} rules without 'option {option}', so the rules are ignored."
            );
            let span = lines.first().map(Line::span);
            cx.diagnostics.push(Diagnostic::new(
                thalweg_syntax::Severity::Warning,
                Lead::Bare,
                span,
                message,
            ));
        }
    }
    match program(cx, b, &draft) {
        Ok(program) => b.p.check = Some(Arc::new(program)),
        Err(complaint) => cx.diagnostics.push(*complaint),
    }
    external_needs(cx, b, &draft);
    section::assign(cx, b);
    check_ports(cx, b);
}

/// What programs need elsewhere.
fn external_needs(cx: &mut Cx<'_>, b: &Building, draft: &CheckDraft) {
    use thalweg_syntax::Severity::{Alert, Warning};
    let mut say = |severity, message| {
        let span = draft.option.as_ref().map(Line::span);
        cx.diagnostics.push(Diagnostic::new(severity, Lead::Bare, span, message));
    };
    let name = &b.p.name;
    let side = if b.p.is_be() { "backend" } else { "frontend" };
    let global = &cx.config.global;
    if draft.kind != Kind::External {
        for (word, _) in
            [("command", &draft.command), ("path", &draft.path)].iter().filter(|(_, w)| w.is_some())
        {
            let message = format!(
                "'external-check {word}' will be ignored for {side} '{name}' (requires 'option external-check')."
            );
            say(Warning, message);
        }
        return;
    }
    if !global.external_check {
        say(
            Alert,
            format!(
                "Proxy '{name}' : 'option external-check' unable to find required 'global.external-check'."
            ),
        );
    }
    if draft.command.is_none() {
        say(
            Alert,
            format!(
                "Proxy '{name}' : 'option external-check' unable to find required 'external-check command'."
            ),
        );
    }
    if !global.insecure_fork_wanted {
        let message = format!(
            "Proxy '{name}' : 'insecure-fork-wanted' not enabled in the global section, 'option external-check' will fail."
        );
        say(Warning, message);
    }
}

/// Somewhere a port must come from.
fn check_ports(cx: &mut Cx<'_>, b: &Building) {
    for server in &b.p.servers {
        let Some(check) = &server.check else { continue };
        let Some(program) = check.program.as_ref().or(b.p.check.as_ref()) else { continue };
        let first = program.steps.iter().find_map(|s| match &s.kind {
            StepKind::Connect(connect) => Some(connect),
            _ => None,
        });
        let has_port = first.is_some_and(|c| c.port.is_some() || c.addr.is_some_and(|a| a.port() != 0));
        let portless = match &server.addr {
            // A server without an address yet is not asked for its port.
            crate::model::ServerAddr::Tcp(addr) => addr.port() == 0 && !addr.ip().is_unspecified(),
            // The port of a service is that of its records.
            crate::model::ServerAddr::Unresolved(name, port) => *port == 0 && !name.starts_with('_'),
            _ => false,
        };
        let is_asked = program.kind != Kind::External;
        if is_asked
            && portless
            && check.port.is_none()
            && check.addr.is_none_or(|a| a.port() == 0)
            && !has_port
        {
            // The reference takes names as they are, and finds out later that all checks fail.
            let (severity, end) = if server.rare().fqdn.is_some() {
                (thalweg_syntax::Severity::Warning, ": its health checks fail, and it is down.")
            } else {
                (thalweg_syntax::Severity::Alert, ".")
            };
            let message = format!(
                "config: backend '{}': server '{}' has neither service port nor check port{end}",
                b.p.name, server.name
            );
            cx.diagnostics.push(Diagnostic::new(severity, Lead::Bare, None, message));
        }
    }
}

fn program(cx: &mut Cx<'_>, b: &Building, draft: &CheckDraft) -> Read<Program> {
    let mut steps = Vec::new();
    // Lines of a kind that was not chosen are read all the same: their mistakes are mistakes.
    let (tcp, mut http) = match (rules(cx, b, &draft.tcp), rules(cx, b, &draft.http)) {
        (Ok(tcp), Ok(http)) => (tcp, http),
        (Err(first), Err(second)) => {
            cx.diagnostics.push(*first);
            return Err(second);
        }
        (Err(complaint), Ok(_)) | (Ok(_), Err(complaint)) => return Err(complaint),
    };
    let connect = |s: &Step| matches!(s.kind, StepKind::Connect(_));
    match draft.kind {
        Kind::Plain => return Ok(Program::plain()),
        Kind::Tcp => steps = tcp,
        Kind::Http => {
            requests(cx, b, draft, &mut http)?;
            steps = http;
        }
        Kind::Dialect => dialect(draft, &mut steps, cx.config.global.tune.bufsize),
        Kind::External => {
            let external = draft.command.as_ref().map(|command| External {
                command: Arc::clone(command),
                path: draft.path.clone().unwrap_or_default(),
            });
            return Ok(Program { kind: Kind::External, external, ..Program::default() });
        }
    }
    if !steps.iter().any(connect) {
        steps.insert(0, Step::implicit(StepKind::Connect(Connect::default())));
    }
    if draft.kind == Kind::Http {
        // A request whose answer nobody looks at is judged by its status.
        let sent = steps.iter().rposition(|s| matches!(s.kind, StepKind::Request(_)));
        let judged = steps.iter().rposition(|s| matches!(s.kind, StepKind::Expect(_)));
        if judged < sent {
            let ok = Matcher::Status(Arc::new([(200, 399)]));
            steps.push(Step::implicit(StepKind::Expect(Box::new(Expect::new(ok)))));
        }
    }
    Ok(Program { kind: draft.kind, steps, disable_on_404: draft.disable_on_404, external: None })
}

/// Puts the request of `option httpchk` where it belongs and tells all requests about `send-state`.
fn requests(cx: &mut Cx<'_>, b: &Building, draft: &CheckDraft, steps: &mut Vec<Step>) -> Read<()> {
    let mut base = plain_request();
    let mut given = false;
    if let Some(line) = draft.option.as_ref().filter(|l| l.text(1) == "httpchk") {
        let count = line.words.len();
        given = count > 2;
        // One word is the target; two are method and target.
        let (method, uri) = if count == 3 { (None, line.word(2)) } else { (line.word(2), line.word(3)) };
        if let Some(method) = method {
            base.method = method.bytes().into();
        }
        if let Some(uri) = uri {
            base.uri = Text::Fixed(uri.bytes().into());
        }
        if let Some(version) = line.word(4) {
            base.version = version.bytes().into();
        }
        if line.words.len() > 5 {
            base.headers.push((Arc::from(&b"host"[..]), format(cx, b, line, 5, "'option httpchk'")?));
        }
    }
    let first = steps.iter().position(|s| matches!(s.kind, StepKind::Request(_)));
    match first.map(|i| &mut steps[i].kind) {
        Some(StepKind::Request(request)) if given => {
            let default = plain_request();
            if request.method == default.method {
                request.method = base.method;
            }
            if matches!(&request.uri, Text::Fixed(uri) if &uri[..] == b"/") {
                request.uri = base.uri;
            }
            if request.version == default.version {
                request.version = base.version;
            }
            let has_host = request.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(b"host"));
            if !has_host {
                request.headers.splice(0..0, base.headers);
            }
        }
        Some(_) => {}
        None => {
            let at = steps.iter().position(|s| matches!(s.kind, StepKind::Connect(_))).map_or(0, |i| i + 1);
            steps.insert(at, Step::implicit(StepKind::Request(Box::new(base))));
        }
    }
    for step in steps {
        if let StepKind::Request(request) = &mut step.kind {
            request.send_state = draft.send_state;
        }
    }
    Ok(())
}

fn plain_request() -> HttpRequest {
    HttpRequest {
        method: Arc::from(&b"OPTIONS"[..]),
        uri: Text::Fixed(Arc::from(&b"/"[..])),
        version: Arc::from(&b"HTTP/1.0"[..]),
        headers: Vec::new(),
        body: None,
        send_state: false,
    }
}
