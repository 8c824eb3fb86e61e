//! `tcp-check`, `http-check` and the options that choose a kind of health check (manual, section 4.2).
//!
//! The lines of a section are kept as they are until all names are known: their formats may name what comes later.
//! The first line of a section replaces what it inherited.

use std::net::SocketAddr;
use std::sync::Arc;

use thalweg_check::{
    Assignment, Connect, Dialect, Expect, HttpRequest, Kind, LDAP_BIND, Match, MatchMethod, Matcher, Port,
    Program, Source, Status, Step, StepKind, Text, mysql_login, parse_hex, pgsql_startup, tls_hello,
};
use thalweg_sample::pattern::Regex;
use thalweg_sample::vars::SetConditions;
use thalweg_sample::{LogFormat, Point, Usage, VarRef};
use thalweg_syntax::address::PortSpec;
use thalweg_syntax::{Address, AddressOptions, Diagnostic, Lead, Line};

use crate::build::{Building, Cx};
use crate::keyword::{Outcome, at_most, fail, not_supported, pass_over};
use crate::numbers::strict;
use crate::proxy::OptionHow;
use crate::sample_env::{expression_here, format_at};

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

/// `option httpchk`, `tcp-check`, and those that speak a protocol: `smtpchk`, `redis-check`, `mysql-check`, `pgsql-check`,
/// `ldap-check`, `ssl-hello-chk`.
pub(crate) fn option(cx: &mut Cx<'_>, b: &mut Building, line: &Line, how: OptionHow) -> Outcome {
    let name = line.text(1);
    if how != OptionHow::On {
        return Err(fail(line, 1, format!("negation/default is not supported for option '{name}'.")));
    }
    // Mistakes are mistakes even where the line has no effect.
    if !b.may_be_backend() {
        cx.warn(line, 1, format!("'{name}' ignored because {} has no backend capability.", b.title()));
    }
    let draft = Arc::make_mut(&mut b.check);
    match name {
        "httpchk" => {
            at_most(line, 2, 4)?;
            if line.text(4).contains('\r') || line.text(4).contains('\n') {
                return Err(fail(
                    line,
                    4,
                    "'option httpchk' : hiding headers or body at the end of the version string is unsupported.Use 'http-check \
                     send' directive instead..",
                ));
            }
            draft.kind = Kind::Http;
            draft.own(true);
        }
        "tcp-check" => {
            at_most(line, 2, 0)?;
            draft.kind = Kind::Tcp;
        }
        _ => {
            match name {
                "redis-check" | "ldap-check" | "ssl-hello-chk" => at_most(line, 2, 0)?,
                "smtpchk" => at_most(line, 2, 2)?,
                "mysql-check" if !matches!(line.text(2), "" | "user") => {
                    let got = line.text(2);
                    return Err(fail(
                        line,
                        2,
                        format!("'option mysql-check' only supports optional values: 'user' (got '{got}')."),
                    ));
                }
                "mysql-check" if line.text(2) == "user" => {
                    if line.text(3).is_empty() {
                        return Err(fail(
                            line,
                            3,
                            "'option mysql-check user' expects <username> as argument.",
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
                            "'option pgsql-check' expects 'user <username>' as argument.",
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

/// One `tcp-check` or `http-check` line.
pub(crate) fn rule(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    let (name, word) = (line.text(0), line.text(1));
    let http = name == "http-check";
    if !b.may_be_backend() {
        cx.warn(line, 0, format!("'{name}' ignored because {} has no backend capability.", b.title()));
    }
    let verb = word.split('(').next().unwrap_or(word);
    let draft = Arc::make_mut(&mut b.check);
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
        Ok(program) => {
            check_ports(cx, b, &program);
            b.p.check = Some(Arc::new(program));
        }
        Err(complaint) => cx.diagnostics.push(*complaint),
    }
}

/// Somewhere a port must come from.
fn check_ports(cx: &mut Cx<'_>, b: &Building, program: &Program) {
    let first = program.steps.iter().find_map(|s| match &s.kind {
        StepKind::Connect(connect) => Some(connect),
        _ => None,
    });
    let has_port = first.is_some_and(|c| c.port.is_some() || c.addr.is_some_and(|a| a.port() != 0));
    for server in &b.p.servers {
        let Some(check) = &server.check else { continue };
        let portless = match &server.addr {
            crate::model::ServerAddr::Tcp(addr) => addr.port() == 0,
            crate::model::ServerAddr::Unresolved(_, port) => *port == 0,
            _ => false,
        };
        if portless && check.port.is_none() && check.addr.is_none_or(|a| a.port() == 0) && !has_port {
            let message = format!(
                "config: backend '{}': server '{}' has neither service port nor check port.",
                b.p.name, server.name
            );
            cx.diagnostics.push(Diagnostic::new(thalweg_syntax::Severity::Alert, Lead::Bare, None, message));
        }
    }
}

fn program(cx: &mut Cx<'_>, b: &Building, draft: &CheckDraft) -> Read<Program> {
    let mut steps = Vec::new();
    // Lines of a kind that was not chosen are read all the same: their mistakes are mistakes.
    let tcp = rules(cx, b, &draft.tcp)?;
    let mut http = rules(cx, b, &draft.http)?;
    let connect = |s: &Step| matches!(s.kind, StepKind::Connect(_));
    match draft.kind {
        Kind::Plain => return Ok(Program::plain()),
        Kind::Tcp => steps = tcp,
        Kind::Http => {
            requests(cx, b, draft, &mut http)?;
            steps = http;
        }
        Kind::Dialect => dialect(draft, &mut steps),
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
    Ok(Program { kind: draft.kind, steps, disable_on_404: draft.disable_on_404 })
}

fn dialect(draft: &CheckDraft, steps: &mut Vec<Step>) {
    let Some(line) = &draft.option else { return };
    let mut push = |kind| steps.push(Step::implicit(kind));
    let send = |bytes: Vec<u8>| StepKind::Send(Text::Fixed(bytes.into()));
    match line.text(1) {
        "smtpchk" => {
            // The reference takes any other word for HELO, and needs both or none.
            let (hello, domain) = match (line.text(2), line.text(3)) {
                (hello @ ("HELO" | "EHLO"), domain) if !domain.is_empty() => (hello, domain),
                _ => ("HELO", "localhost"),
            };
            push(StepKind::Answer(Dialect::Smtp));
            push(send(format!("{hello} {domain}\r\n").into_bytes()));
            push(StepKind::Answer(Dialect::Smtp));
            push(send(b"QUIT\r\n".to_vec()));
            push(StepKind::Answer(Dialect::Smtp));
        }
        "redis-check" => {
            push(send(b"*1\r\n$4\r\nPING\r\n".to_vec()));
            push(StepKind::Answer(Dialect::Redis));
        }
        "mysql-check" => {
            // As the reference does, the login goes out before the greeting that it answers.
            let user = line.word(3);
            if let Some(user) = user {
                let version = if line.text(4).is_empty() { "post-41" } else { line.text(4) };
                push(send(mysql_login(user.bytes(), version)));
            }
            push(StepKind::Answer(Dialect::MysqlGreeting));
            if user.is_some() {
                push(StepKind::Answer(Dialect::MysqlLogin));
            }
        }
        "ldap-check" => {
            push(send(LDAP_BIND.to_vec()));
            push(StepKind::Answer(Dialect::Ldap));
        }
        "ssl-hello-chk" => {
            push(send(tls_hello()));
            // A handshake or an alert: the server speaks TLS.
            let Ok(regex) = Regex::new("^1[56]", true) else { return };
            let mut expect = Expect::new(Matcher::HexRegex(Arc::new(regex)));
            expect.ok_status = Some(Status::L6Ok);
            expect.error_status = Some(Status::L6Response);
            expect.timeout_status = Some(Status::L6Timeout);
            // The header of a record.
            expect.min_recv = 5;
            let number = 2;
            steps.push(Step { number, ..Step::implicit(StepKind::Expect(Box::new(expect))) });
        }
        _ => {
            push(send(pgsql_startup(line.word(3).map_or(&b""[..], |w| w.bytes()))));
            push(StepKind::Answer(Dialect::Pgsql));
        }
    }
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

fn rules(cx: &mut Cx<'_>, b: &Building, lines: &[Line]) -> Read<Vec<Step>> {
    let mut steps = Vec::new();
    for (i, line) in lines.iter().enumerate() {
        let number = u32::try_from(i + 1).unwrap_or(u32::MAX);
        let name = format!("'{} {}'", line.text(0), line.text(1));
        let mut comment = None;
        let verb = line.text(1);
        let kind = match verb.split('(').next().unwrap_or(verb) {
            "comment" => {
                let text = needed(line, 2, &format!("{name} : expects a string as argument."))?;
                comment = Some(Arc::from(text));
                StepKind::Comment
            }
            "connect" => StepKind::Connect(connect(cx, b, line, &name, &mut comment)?),
            "send" if line.text(0) == "http-check" => request(cx, b, line, &name, &mut comment)?,
            "expect" => expect(cx, b, line, &name, &mut comment)?,
            "set-var" | "set-var-fmt" | "unset-var" => assign(cx, b, line, &name)?,
            _ => send(cx, b, line, &name, &mut comment)?,
        };
        steps.push(Step { number, comment, kind });
    }
    Ok(steps)
}

fn needed<'l>(line: &'l Line, at: usize, message: &str) -> Read<&'l str> {
    match line.text(at) {
        "" => Err(fail(line, at, message)),
        text => Ok(text),
    }
}

/// `comment <text>` among the arguments.
fn comment_at(line: &Line, at: usize, name: &str, comment: &mut Option<Arc<str>>) -> Read<usize> {
    let text = needed(line, at + 1, &format!("{name} : expects a string as argument."))?;
    *comment = Some(Arc::from(text));
    Ok(at + 2)
}

fn bytes(line: &Line, at: usize) -> Arc<[u8]> {
    line.word(at).map_or(&b""[..], |w| w.bytes()).into()
}

/// A format at `at`; one without variables is a plain text.
fn format(cx: &mut Cx<'_>, b: &Building, line: &Line, at: usize, name: &str) -> Read<Text> {
    let format = log_format(cx, b, line, at, name)?;
    Ok(match format.as_literal() {
        Some(bytes) => Text::Fixed(bytes.into()),
        None => Text::Format(format),
    })
}

fn log_format(cx: &mut Cx<'_>, b: &Building, line: &Line, at: usize, name: &str) -> Read<Arc<LogFormat>> {
    let text = line.text(at);
    format_at(cx, b, text, line.span_at(at), Point::Check.set(), Usage::Raw, "")
        .map(Arc::new)
        .map_err(|e| fail(line, at, format!("{name} : '{text}' invalid log-format string ({e}).")))
}

fn hex(line: &Line, at: usize, name: &str) -> Read<Text> {
    parse_hex(&bytes(line, at)).map(|b| Text::Fixed(b.into())).ok_or_else(|| {
        fail(line, at, format!("{name} : invalid binary string (an even number of hex digit is expected)."))
    })
}

fn connect(
    cx: &mut Cx<'_>,
    b: &Building,
    line: &Line,
    name: &str,
    comment: &mut Option<Arc<str>>,
) -> Read<Connect> {
    let mut connect = Connect::default();
    let mut at = 2;
    while at < line.words.len() {
        match line.text(at) {
            "comment" => {
                at = comment_at(line, at, name, comment)?;
                continue;
            }
            "default" => connect.as_server = true,
            "ssl" => connect.ssl = true,
            "sni" => {
                let text = needed(line, at + 1, &format!("{name} : 'sni' expects a string as argument."))?;
                connect.sni = Some(cx.name(text));
                at += 1;
            }
            "linger" => connect.linger = true,
            "send-proxy" => connect.send_proxy = true,
            "port" => {
                let text = needed(
                    line,
                    at + 1,
                    &format!("{name} : 'port' expects a port number or a sample expression as argument."),
                )?;
                let wrong = || {
                    let message = format!(
                        "{name} : expects a valid TCP port (from range 1 to 65535) or a sample expression, got {text}.."
                    );
                    fail(line, at + 1, message)
                };
                connect.port = Some(match strict(text) {
                    Some(port) => Port::Fixed(u16::try_from(port).ok().filter(|p| *p > 0).ok_or_else(wrong)?),
                    None => {
                        let expr = expression_here(cx, b, text, line.span_at(at + 1), Point::Check.set(), "");
                        Port::Expr(Arc::new(expr.map_err(|_| wrong())?))
                    }
                });
                at += 1;
            }
            "addr" => {
                needed(line, at + 1, &format!("{name} : 'addr' expects an address as argument."))?;
                let options = AddressOptions { port: true, ..AddressOptions::HOST };
                match crate::resolve::address(cx, line, at + 1, &options, &format!("{name} : "))? {
                    Address::Ip { ip, port, .. } => {
                        let port = if let PortSpec::Fixed(port) = port { port } else { 0 };
                        connect.addr = Some(SocketAddr::new(ip, port));
                    }
                    other => {
                        return Err(not_supported(
                            line,
                            at + 1,
                            other.family_name(),
                            "checks go to IP addresses",
                        ));
                    }
                }
                at += 1;
            }
            "alpn" => {
                let text = needed(
                    line,
                    at + 1,
                    &format!("{name} : 'alpn' expects a comma-separated list of protocols as argument."),
                )?;
                let http = line.text(0) == "http-check";
                let protocols = crate::tls::check_protocols(http, text);
                connect.protocols =
                    Some(protocols.map_err(|why| fail(line, at + 1, format!("{name} : {why}")))?);
                at += 1;
            }
            "via-socks4" => return Err(not_supported(line, at, "via-socks4", "SOCKS4 is not built")),
            "proto" => match line.text(at + 1) {
                "h1" if line.text(0) == "http-check" => at += 1,
                "none" if line.text(0) == "tcp-check" => at += 1,
                other @ ("h1" | "none") => {
                    let message =
                        format!("{name} : 'proto' : invalid MUX protocol '{other}' for {}.", line.text(0));
                    return Err(fail(line, at + 1, message));
                }
                other => {
                    return Err(not_supported(
                        line,
                        at,
                        &format!("proto {other}"),
                        "checks speak HTTP/1 only",
                    ));
                }
            },
            other => {
                let message = format!(
                    "{name} : expects 'comment', 'port', 'addr', 'send-proxy', 'ssl', 'sni', 'alpn' or 'via-socks4', \
                     'linger', 'default' but got '{other}' as argument.."
                );
                return Err(fail(line, at, message));
            }
        }
        at += 1;
    }
    Ok(connect)
}

fn send(
    cx: &mut Cx<'_>,
    b: &Building,
    line: &Line,
    name: &str,
    comment: &mut Option<Arc<str>>,
) -> Read<StepKind> {
    let verb = line.text(1);
    let what = if verb.contains("binary") { "binary string" } else { "string" };
    needed(line, 2, &format!("{name} : '{what}' expects a {verb} as argument."))?;
    let text = match verb {
        "send" => Text::Fixed(bytes(line, 2)),
        "send-lf" => format(cx, b, line, 2, name)?,
        "send-binary" => hex(line, 2, name)?,
        _ => Text::HexFormat(log_format(cx, b, line, 2, name)?),
    };
    match line.text(3) {
        "" => {}
        "comment" => {
            comment_at(line, 3, name, comment)?;
            at_most(line, 2, 3)?;
        }
        other => {
            return Err(fail(
                line,
                3,
                format!("{name} : expects 'comment', but got '{other}' as argument.."),
            ));
        }
    }
    Ok(StepKind::Send(text))
}

fn request(
    cx: &mut Cx<'_>,
    b: &Building,
    line: &Line,
    name: &str,
    comment: &mut Option<Arc<str>>,
) -> Read<StepKind> {
    let mut request = plain_request();
    let mut at = 2;
    while at < line.words.len() {
        let word = line.text(at);
        let value = |missing: &str| {
            needed(line, at + 1, &format!("{name} : '{word}' expects {missing} as argument."))
        };
        match word {
            "comment" => {
                at = comment_at(line, at, name, comment)?;
                continue;
            }
            "meth" => {
                value("a string")?;
                request.method = bytes(line, at + 1);
            }
            "ver" => {
                value("a string")?;
                request.version = bytes(line, at + 1);
            }
            "uri" => {
                value("a string")?;
                request.uri = Text::Fixed(bytes(line, at + 1));
            }
            "uri-lf" => {
                value("a string")?;
                request.uri = format(cx, b, line, at + 1, name)?;
            }
            "body" => {
                value("a string")?;
                request.body = Some(Text::Fixed(bytes(line, at + 1)));
            }
            "body-lf" => {
                value("a string")?;
                request.body = Some(format(cx, b, line, at + 1, name)?);
            }
            "hdr" => {
                if line.words.len() < at + 3 {
                    return Err(fail(
                        line,
                        at,
                        format!("{name} : 'hdr' expects <name> and <value> as arguments."),
                    ));
                }
                let name_bytes = bytes(line, at + 1);
                // The length comes from the body.
                if !name_bytes.eq_ignore_ascii_case(b"content-length")
                    && !name_bytes.eq_ignore_ascii_case(b"transfer-encoding")
                {
                    if name_bytes.eq_ignore_ascii_case(b"host") && request.headers.iter().any(is_host) {
                        return Err(fail(line, at + 1, format!("{name} : 'host' header already defined.")));
                    }
                    let value = format(cx, b, line, at + 2, name)?;
                    request.headers.push((name_bytes, value));
                }
                at += 1;
            }
            other => {
                let message = format!(
                    "{name} : expects 'comment', 'meth', 'uri', 'uri-lf', 'ver', 'hdr', 'body' or 'body-lf' but got \
                     '{other}' as argument.."
                );
                return Err(fail(line, at, message));
            }
        }
        at += 2;
    }
    Ok(StepKind::Request(Box::new(request)))
}

fn is_host(header: &(Arc<[u8]>, Text)) -> bool {
    header.0.eq_ignore_ascii_case(b"host")
}

fn assign(cx: &mut Cx<'_>, b: &Building, line: &Line, name: &str) -> Read<StepKind> {
    let word = line.text(1);
    let (verb, inner) = word.split_once('(').unwrap_or((word, ""));
    let Some(inner) = inner.strip_suffix(')').filter(|i| !i.is_empty()) else {
        return Err(fail(line, 1, format!("{name} : expects the name of a variable between parentheses.")));
    };
    let mut parts = inner.split(',');
    let variable =
        VarRef::parse(parts.next().unwrap_or("")).map_err(|e| fail(line, 1, format!("{name} : {e}.")))?;
    let mut conditions: Option<SetConditions> = None;
    for part in parts {
        let known = conditions.get_or_insert_default().add(part);
        known.map_err(|_| fail(line, 1, format!("{name} : unknown condition \"{part}\".")))?;
    }
    let source = match verb {
        "unset-var" => {
            pass_over(cx, line, 2, 0);
            Source::Nothing
        }
        "set-var" => {
            let text = needed(line, 2, &format!("{name} : expects an expression."))?;
            let expr = expression_here(cx, b, text, line.span_at(2), Point::Check.set(), "");
            Source::Expr(Arc::new(expr.map_err(|e| fail(line, 2, format!("{name} : {e}.")))?))
        }
        _ => {
            needed(line, 2, &format!("{name} : expects a format."))?;
            Source::Format(log_format(cx, b, line, 2, name)?)
        }
    };
    if verb == "set-var" {
        pass_over(cx, line, 2, 1);
    } else if verb != "unset-var" {
        at_most(line, 2, 1)?;
    }
    Ok(StepKind::Assign(Box::new(Assignment { variable, conditions, source })))
}

fn regex(line: &Line, at: usize, name: &str) -> Read<Arc<Regex>> {
    Regex::new(line.text(at), true).map(Arc::new).map_err(|e| fail(line, at, format!("{name} : {e}.")))
}

fn expect(
    cx: &mut Cx<'_>,
    b: &Building,
    line: &Line,
    name: &str,
    comment: &mut Option<Arc<str>>,
) -> Read<StepKind> {
    let http = line.text(0) == "http-check";
    let mut expect = Expect::new(Matcher::Status(Arc::new([])));
    let mut matcher = None;
    let mut at = 2;
    if line.words.len() < 3 {
        return Err(fail(line, 2, format!("{name} : expects at least a matching pattern as arguments.")));
    }
    while at < line.words.len() {
        let word = line.text(at);
        let status = |allowed: &[&str], shown: &str| -> Read<Option<Status>> {
            let got = line.text(at + 1);
            match Status::named(got).filter(|_| allowed.contains(&got)) {
                Some(status) => Ok(Some(status)),
                None => Err(fail(
                    line,
                    at + 1,
                    format!("{name} : '{word}' only supports {shown} status (got '{got}').."),
                )),
            }
        };
        match word {
            "comment" => {
                at = comment_at(line, at, name, comment)?;
                continue;
            }
            "min-recv" => {
                let value =
                    strict(line.text(at + 1)).and_then(|v| i32::try_from(v).ok()).filter(|v| *v >= -1);
                expect.min_recv = value.ok_or_else(|| {
                    fail(
                        line,
                        at + 1,
                        format!("{name} : 'min-recv' expects -1 or an integer in the range 0..2147483647."),
                    )
                })?;
            }
            "ok-status" => {
                let words = ["L4OK", "L6OK", "L7OK", "L7OKC"];
                expect.ok_status = status(&words, "'L4OK', 'L6OK', 'L7OK' or 'L7OKC'")?;
            }
            "error-status" => {
                let words = ["L4CON", "L6RSP", "L7RSP", "L7STS", "L7OKC"];
                expect.error_status = status(&words, "'L4CON', 'L6RSP', 'L7RSP', 'L7STS' or 'L7OKC'")?;
            }
            "tout-status" => {
                let words = ["L4TOUT", "L6TOUT", "L7TOUT"];
                expect.timeout_status = status(&words, "'L4TOUT', 'L6TOUT' or 'L7TOUT'")?;
            }
            "on-success" => expect.on_success = Some(log_format(cx, b, line, at + 1, name)?),
            "on-error" => expect.on_error = Some(log_format(cx, b, line, at + 1, name)?),
            "status-code" => {
                let text = needed(
                    line,
                    at + 1,
                    &format!("{name} : 'status-code' expects an expression as argument."),
                )?;
                let expr = expression_here(cx, b, text, line.span_at(at + 1), Point::Check.set(), "");
                expect.status_code =
                    Some(Arc::new(expr.map_err(|e| fail(line, at + 1, format!("{name} : {e}.")))?));
            }
            "!" => {
                expect.negate = !expect.negate;
                at += 1;
                continue;
            }
            _ => {
                if matcher.is_some() {
                    return Err(fail(line, at, format!("{name} : only one pattern expected.")));
                }
                let (negate, kind) = word.strip_prefix('!').map_or((false, word), |w| (true, w));
                expect.negate ^= negate;
                let (found, words) = matcher_at(cx, b, line, at, kind, http, name)?;
                matcher = Some(found);
                at += words;
                continue;
            }
        }
        at += 2;
    }
    expect.matcher = matcher.ok_or_else(|| {
        fail(line, 2, format!("{name} : expects at least a matching pattern as arguments."))
    })?;
    Ok(StepKind::Expect(Box::new(expect)))
}

/// A pattern from its keyword at `at` on, and how many words it took.
fn matcher_at(
    cx: &mut Cx<'_>,
    b: &Building,
    line: &Line,
    at: usize,
    kind: &str,
    http: bool,
    name: &str,
) -> Read<(Matcher, usize)> {
    let known = match kind {
        "string" | "rstring" | "string-lf" => true,
        "binary" | "rbinary" | "binary-lf" => !http,
        "status" | "rstatus" | "hdr" | "fhdr" => http,
        _ => false,
    };
    if !known {
        let kinds = if http {
            "'[!]string', '[!]rstring', '[!]string-lf', '[!]status', '[!]rstatus', [!]hdr, [!]fhdr or comment"
        } else {
            "'[!]binary', '[!]string', '[!]rstring', '[!]string-lf''[!]rbinary', '[!]binary-lf' or comment"
        };
        return Err(fail(
            line,
            at,
            format!("{name} : 'only supports min-recv, {kinds} but got '{kind}' as argument.."),
        ));
    }
    if !matches!(kind, "hdr" | "fhdr") {
        needed(line, at + 1, &format!("{name} : '{kind}' expects a <pattern> as argument."))?;
    }
    let matcher = match kind {
        "string" => Matcher::String(Text::Fixed(bytes(line, at + 1))),
        "string-lf" => Matcher::String(Text::Format(log_format(cx, b, line, at + 1, name)?)),
        "rstring" => Matcher::Regex(regex(line, at + 1, name)?),
        "binary" => Matcher::Binary(hex(line, at + 1, name)?),
        "binary-lf" => Matcher::Binary(Text::HexFormat(log_format(cx, b, line, at + 1, name)?)),
        "rbinary" => Matcher::HexRegex(regex(line, at + 1, name)?),
        "rstatus" => Matcher::StatusRegex(regex(line, at + 1, name)?),
        "status" => Matcher::Status(statuses(line, at + 1, name)?),
        _ => {
            let mut next = at + 1;
            let usage = format!(
                "{name} : '{kind}' expects at the name keyword as first argument followed by a pattern."
            );
            let lf = match line.text(next) {
                "name" => false,
                "name-lf" => true,
                _ => return Err(fail(line, next, usage)),
            };
            next += 1;
            let header = pattern(cx, b, line, &mut next, lf, true, name)?;
            let lf = match line.text(next) {
                "value" => Some(false),
                "value-lf" => Some(true),
                _ => None,
            };
            let value = match lf {
                Some(lf) => {
                    next += 1;
                    Some(pattern(cx, b, line, &mut next, lf, false, name)?)
                }
                None => None,
            };
            return Ok((Matcher::Header { name: header, value, full: kind == "fhdr" }, next - at));
        }
    };
    Ok((matcher, 2))
}

/// `[-m <method>] <pattern>`; `next` moves behind it.
fn pattern(
    cx: &mut Cx<'_>,
    b: &Building,
    line: &Line,
    next: &mut usize,
    lf: bool,
    header_name: bool,
    name: &str,
) -> Read<Match> {
    let mut method = MatchMethod::Exact;
    let mut is_regex = false;
    if line.text(*next) == "-m" {
        method = match line.text(*next + 1) {
            "str" => MatchMethod::Exact,
            "beg" => MatchMethod::Prefix,
            "end" => MatchMethod::Suffix,
            "sub" => MatchMethod::Substring,
            "reg" if !lf => {
                is_regex = true;
                MatchMethod::Exact
            }
            "reg" => {
                return Err(fail(
                    line,
                    *next + 1,
                    format!("{name} : log-format string is not supported with a regex matching method."),
                ));
            }
            other => {
                return Err(fail(
                    line,
                    *next + 1,
                    format!(
                        "{name} : '-m' only supports 'str', 'beg', 'end', 'sub' or 'reg' (got '{other}')."
                    ),
                ));
            }
        };
        *next += 2;
    }
    needed(line, *next, &format!("{name} : expects a pattern."))?;
    let at = *next;
    *next += 1;
    if is_regex {
        // Names of header fields have no case.
        let compiled = Regex::new(line.text(at), !header_name);
        let compiled = compiled.map_err(|e| fail(line, at, format!("{name} : {e}.")))?;
        return Ok(Match { method: MatchMethod::Regex(Arc::new(compiled)), text: Text::Fixed(Arc::new([])) });
    }
    let text = if lf { format(cx, b, line, at, name)? } else { Text::Fixed(bytes(line, at)) };
    Ok(Match { method, text })
}

/// `200,201,300-310`
fn statuses(line: &Line, at: usize, name: &str) -> Read<Arc<[(u16, u16)]>> {
    let text = line.text(at);
    if let Some(wrong) = text.chars().find(|c| !c.is_ascii_digit() && !matches!(c, ',' | '-')) {
        return Err(fail(
            line,
            at,
            format!("{name} : invalid character '{wrong}' in the list of status codes."),
        ));
    }
    // Statuses that no server sends are of no use, and of no harm.
    let code = |part: &str| part.parse::<u32>().ok().map(|c| u16::try_from(c).unwrap_or(u16::MAX));
    text.strip_suffix(',')
        .unwrap_or(text)
        .split(',')
        .map(|part| {
            let (low, high) = part.split_once('-').unwrap_or((part, part));
            let low = if low.is_empty() && part.starts_with('-') { "0" } else { low };
            match (code(low), code(high)) {
                (Some(low), Some(high)) if low <= high => Ok((low, high)),
                _ => Err(fail(line, at, format!("{name} : invalid status code or range '{part}'."))),
            }
        })
        .collect()
}
