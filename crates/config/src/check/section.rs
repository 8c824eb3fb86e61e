//! `healthcheck` sections: checks that servers of any backend may name (manual, section 12.9).

use std::sync::Arc;

use thalweg_check::{Kind, Program};
use thalweg_syntax::{Diagnostic, Lead, Line, Severity, Span};

use super::{CheckDraft, add, choose, program};
use crate::build::{Building, Cx};
use crate::keyword::{Outcome, fail, legal_name};

/// A section that is being read, and then kept until all names are known.
#[derive(Clone, Debug)]
pub(crate) struct HealthcheckDraft {
    pub name: Arc<str>,
    span: Span,
    /// Its file and line, for messages.
    place: String,
    has_type: bool,
    check: CheckDraft,
    /// What it says, once that was read; nothing if it could not be.
    program: Option<Arc<Program>>,
}

const TYPES: &str = "'tcp-check', 'httpchk', 'ssl-hello-chk', 'smtpchk', 'pgsql-check', 'redis-check', 'mysql-check', 'ldap-check', \
                     'spop-check', 'grpc-check'";

pub(crate) fn open(cx: &mut Cx<'_>, line: &Line) -> Result<HealthcheckDraft, Box<Diagnostic>> {
    if line.words.len() < 2 {
        return Err(fail(line, 1, "missing name for healthcheck section."));
    }
    legal_name(line)?;
    let name = cx.name(line.text(1));
    if let Some(other) = cx.healthchecks.iter().find(|other| other.name == name) {
        let message = format!("healthcheck section '{name}' already defined at {}.", other.place);
        return Err(fail(line, 1, message));
    }
    let place = format!("{}:{}", cx.sources.name(line.file), line.number);
    let check = CheckDraft::default();
    Ok(HealthcheckDraft { name, span: line.span(), place, has_type: false, check, program: None })
}

pub(crate) fn line(draft: &mut HealthcheckDraft, line: &Line) -> Outcome {
    let word = line.text(0);
    match word {
        "type" => {
            if draft.has_type {
                return Err(fail(line, 0, "healthcheck type already defined."));
            }
            match line.text(1) {
                "" => return Err(fail(line, 1, "'type' expects a healthcheck type.")),
                "tcp-check" | "httpchk" | "ssl-hello-chk" | "smtpchk" | "pgsql-check" | "redis-check"
                | "mysql-check" | "ldap-check" | "spop-check" | "grpc-check" => {}
                other => {
                    let message = format!("unknown healthcheck type '{other}' (expects {TYPES}).");
                    return Err(fail(line, 1, message));
                }
            }
            draft.has_type = true;
            choose(&mut draft.check, line)
        }
        "tcp-check" | "http-check" => {
            let other = match (draft.has_type, draft.check.kind, word) {
                (false, ..) | (_, Kind::Tcp, "tcp-check") | (_, Kind::Http, "http-check") => None,
                (_, Kind::Http, _) => Some("HTTP"),
                _ => Some("TCP"),
            };
            if let Some(other) = other {
                return Err(fail(
                    line,
                    0,
                    format!("unable to configure '{word}' rule for '{other}' healthcheck"),
                ));
            }
            add(&mut draft.check, line)
        }
        _ => Err(fail(line, 0, format!("unknown keyword '{word}' in 'healthcheck' section"))),
    }
}

/// Reads the sections, once all names are known. Their texts are computed for the server that is checked.
pub(crate) fn compile(cx: &mut Cx<'_>) {
    let mut drafts = std::mem::take(&mut cx.healthchecks);
    for draft in &mut drafts {
        let check = &draft.check;
        for (lines, kind, words) in [
            (&check.tcp, Kind::Tcp, ("tcp-check", "tcp-check")),
            (&check.http, Kind::Http, ("http-check", "httpchk")),
        ] {
            if !lines.is_empty() && check.kind != kind {
                let message = format!(
                    "healthcheck section '{}' : {} rules without 'type {}', so the rules are ignored.",
                    draft.name, words.0, words.1
                );
                let warning = Diagnostic::warning_at(draft.span, message);
                cx.diagnostics.push(warning);
            }
        }
        let scope = crate::proxy::fresh(draft.span);
        match program(cx, &scope, check) {
            Ok(program) => draft.program = Some(Arc::new(program)),
            Err(complaint) => cx.diagnostics.push(*complaint),
        }
    }
    cx.healthchecks = drafts;
}

/// Gives the servers of a backend the sections that they name.
pub(super) fn assign(cx: &mut Cx<'_>, b: &mut Building) {
    for (at, name, span) in std::mem::take(&mut b.healthchecks) {
        let server = &mut b.p.servers[at];
        let Some(draft) = cx.healthchecks.iter().find(|draft| draft.name == name) else {
            let message = format!(
                "[{}:{}] : 'server {}/{}' : healthcheck section '{name}' not found for server '{}'.",
                server.file, server.line, b.p.name, server.name, server.name
            );
            cx.diagnostics.push(Diagnostic::new(Severity::Alert, Lead::Bare, Some(span), message));
            continue;
        };
        if let Some(check) = &mut server.check {
            Arc::make_mut(check).program = draft.program.clone();
        }
    }
}
