//! `mailers` sections and `email-alert`: who is told by e-mail about servers that change.

use std::net::SocketAddr;
use std::sync::Arc;

use thalweg_syntax::address::PortSpec;
use thalweg_syntax::{Address, AddressOptions, Diagnostic, Lead, Line, Severity, Span, TimeUnit};

use crate::build::{Building, Cx};
use crate::keyword::{Outcome, at_most, fail, legal_name};
use crate::model::{EmailAlert, LogLevel, Mailer, Mailers};
use crate::numbers::time;
use crate::resolve;

/// How long a mail may take if no line says, in milliseconds.
const TIMEOUT_USUAL_MS: u64 = 10_000;

/// Where a section may be reached that has a port of its own, and a name that is resolved now.
const MAILER: AddressOptions =
    AddressOptions { port: true, port_mandatory: true, resolve: true, ..AddressOptions::HOST };

/// A `mailers` section that is being read.
pub(crate) struct MailersDraft {
    mailers: Mailers,
    place: String,
}

/// What the lines of a proxy say of alerts.
#[derive(Clone, Debug, Default)]
pub(crate) struct EmailDraft {
    mailers: Option<(Arc<str>, Span)>,
    from: Option<Arc<str>>,
    to: Option<Arc<str>>,
    hostname: Option<Arc<str>>,
    level: Option<LogLevel>,
}

pub(crate) fn open(cx: &mut Cx<'_>, line: &Line) -> Result<MailersDraft, Box<Diagnostic>> {
    if line.words.len() < 2 {
        return Err(fail(line, 1, "missing name for mailers section."));
    }
    legal_name(line)?;
    let name = cx.name(line.text(1));
    let place = format!("{}:{}", cx.sources.name(line.file), line.number);
    if let Some((_, first)) = cx.mailers.iter().find(|(other, _)| other.name == name) {
        let message = format!(
            "mailers section '{name}' has the same name as another mailers section declared at {first}."
        );
        return Err(fail(line, 1, message));
    }
    Ok(MailersDraft { mailers: Mailers { name, servers: Vec::new(), timeout_ms: TIMEOUT_USUAL_MS }, place })
}

pub(crate) fn line(cx: &mut Cx<'_>, draft: &mut MailersDraft, line: &Line) -> Outcome {
    match line.text(0) {
        "mailer" => mailer(cx, draft, line),
        "timeout" => match (line.text(1), line.words.len()) {
            ("mail", 3) => {
                // None at all would let a mailer that says nothing hold its mails for ever.
                let ms = time(cx, line, 2, TimeUnit::Milliseconds, "timeout mail")?;
                draft.mailers.timeout_ms = if ms == 0 { TIMEOUT_USUAL_MS } else { ms };
                Ok(())
            }
            ("mail", 2) => Err(fail(line, 2, "'timeout mail' expects <time> as argument.")),
            ("mail", 4..) => at_most(line, 2, 1),
            ("", _) => Err(fail(line, 1, "'timeout' expects 'mail' and <time> as arguments.")),
            (other, _) => {
                Err(fail(line, 1, format!("'timeout' expects 'mail' and <time> as arguments got '{other}'.")))
            }
        },
        other => Err(fail(line, 0, format!("unknown keyword '{other}' in 'mailers' section"))),
    }
}

/// `mailer <name> <address>`
fn mailer(cx: &mut Cx<'_>, draft: &mut MailersDraft, line: &Line) -> Outcome {
    if line.words.len() < 3 {
        let usage = "'mailer' expects <name> and <addr>[:<port>] as arguments.";
        return Err(fail(line, line.words.len(), usage));
    }
    let title = format!("'mailer {}' : ", line.text(1));
    match resolve::address(cx, line, 2, &MAILER, &title)? {
        Address::Ip { ip, port: PortSpec::Fixed(port), .. } => {
            let name = cx.name(line.text(1));
            draft.mailers.servers.push(Mailer { name, addr: SocketAddr::new(ip, port) });
            Ok(())
        }
        _ => Err(fail(line, 2, format!("{title}TCP not supported for this address family."))),
    }
}

pub(crate) fn close(cx: &mut Cx<'_>, draft: MailersDraft) {
    cx.mailers.push((Arc::new(draft.mailers), draft.place));
}

/// `email-alert <what> <value>` of a proxy.
pub(crate) fn email_alert(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    let (what, value) = (line.text(1), line.text(2));
    if what.is_empty() {
        return Err(fail(line, 1, "missing argument after 'email-alert'."));
    }
    if !matches!(what, "from" | "level" | "mailers" | "myhostname" | "to") {
        return Err(fail(line, 1, format!("email-alert: unknown argument '{what}'.")));
    }
    if value.is_empty() {
        return Err(fail(line, 2, format!("'email-alert {what}' expects an argument.")));
    }
    at_most(line, 2, 1)?;
    let draft = &mut b.email;
    if what == "level" {
        let level = LogLevel::from_name(value);
        let unknown = || fail(line, 2, format!("unknown log level '{value}' after 'email-alert level'"));
        draft.level = Some(level.ok_or_else(unknown)?);
        return Ok(());
    }
    // What is sent to a mailer as it stands must not look like more than one word to it.
    if value.chars().any(|c| c.is_control() || matches!(c, ' ' | '<' | '>')) {
        return Err(fail(line, 2, format!("'email-alert {what}' expects one word, without '<' and '>'.")));
    }
    let text = Some(cx.name(value));
    match what {
        "from" => draft.from = text,
        "to" => draft.to = text,
        "myhostname" => draft.hostname = text,
        _ => draft.mailers = text.map(|name| (name, line.span_at(2))),
    }
    Ok(())
}

/// Some line about alerts is there, and not each that they need.
fn tell_incomplete(cx: &mut Cx<'_>, b: &Building) {
    let message = format!(
        "'email-alert' will be ignored for {} (the presence any of 'email-alert from', 'email-alert level' \
         'email-alert mailers', 'email-alert myhostname', or 'email-alert to' requires each of 'email-alert from', \
         'email-alert mailers' and 'email-alert to' to be present).",
        b.title()
    );
    cx.diagnostics.push(Diagnostic::new(Severity::Warning, Lead::Bare, None, message));
}

/// Finds the mailers of a proxy. Alerts are sent when it is known where, from whom and to whom.
pub(crate) fn resolve(cx: &mut Cx<'_>, b: &mut Building) {
    let draft = std::mem::take(&mut b.email);
    let Some((name, span)) = draft.mailers else {
        let is_said =
            draft.from.is_some() || draft.to.is_some() || draft.level.is_some() || draft.hostname.is_some();
        if is_said {
            tell_incomplete(cx, b);
        }
        return;
    };
    let known = cx.mailers.iter().map(|(mailers, _)| mailers).find(|mailers| mailers.name == name).cloned();
    let Some(mailers) = known else {
        let message = format!("{} : unable to find mailers section '{name}'.", b.title());
        cx.diagnostics.push(Diagnostic::new(Severity::Alert, Lead::Config, Some(span), message));
        return;
    };
    match (draft.from, draft.to) {
        (Some(from), Some(to)) => {
            let level = draft.level.unwrap_or(LogLevel::Alert);
            let alert = EmailAlert { mailers, from, to, level, hostname: draft.hostname };
            b.p.rare_mut().email = Some(alert);
        }
        _ => tell_incomplete(cx, b),
    }
}
