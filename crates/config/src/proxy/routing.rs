//! Where a request goes: `default_backend`, `use_backend`, `use-server`, `monitor`.

use thalweg_syntax::Line;

use crate::build::{Building, Cx};
use crate::keyword::{Outcome, at_most, fail};
use crate::model::{DynamicTarget, Mode, ProxyId, UseBackend, UseServer, UseServerTarget};
use crate::sample_env::{self, Where};

pub(crate) fn default_backend(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    b.needs_frontend(cx, line, "default_backend", "");
    if line.words.len() < 2 {
        return Err(fail(line, 1, "'default_backend' expects a backend name."));
    }
    at_most(line, 1, 1)?;
    b.default_backend = Some((cx.name(line.text(1)), line.span_at(1)));
    Ok(())
}

/// `use_backend <name or format> [if|unless ...]`, read late.
pub(crate) fn use_backend(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    b.needs_frontend(cx, line, "use_backend", "");
    if line.words.len() < 2 {
        return Err(fail(line, 1, "'use_backend' expects a backend name."));
    }
    let cond = match line.text(2) {
        "" => None,
        "if" | "unless" => Some(sample_env::condition(cx, b, line, 2, Where::UseBackend, "switching")?),
        other => {
            let message = format!(
                "unexpected keyword '{other}' after switching rule, only 'if' and 'unless' are allowed."
            );
            return Err(fail(line, 2, message));
        }
    };
    let name = line.text(1);
    let target = if name.contains('%') {
        DynamicTarget::Dynamic(sample_env::log_format(cx, b, line, 1, Where::UseBackend, "use_backend")?)
    } else {
        static_backend(cx, b, line, name)?
    };
    b.p.use_backend.push(UseBackend { cond, target, line: line.number });
    Ok(())
}

fn static_backend(
    cx: &Cx<'_>,
    b: &Building,
    line: &Line,
    name: &str,
) -> Result<DynamicTarget, Box<thalweg_syntax::Diagnostic>> {
    backend_named(cx, b, line.span_at(1), name, "use_backend").map(DynamicTarget::Static)
}

/// The backend of that name, or the complaint that there is none, or that it is the one that asks.
pub(crate) fn backend_named(
    cx: &Cx<'_>,
    b: &Building,
    span: thalweg_syntax::Span,
    name: &str,
    what: &str,
) -> Result<ProxyId, Box<thalweg_syntax::Diagnostic>> {
    use thalweg_syntax::{Diagnostic, Lead};
    match cx.by_name.get(name) {
        Some(id) if *id == b.p.id && b.p.is_be() => {
            let message = format!("Proxy '{}': loop detected for {what}: '{name}'.", b.p.name);
            Err(Box::new(Diagnostic::new(thalweg_syntax::Severity::Alert, Lead::Bare, Some(span), message)))
        }
        Some(id) if cx.sides[id.0 as usize].backend => {
            let mode = cx.sides[id.0 as usize].mode;
            // A TCP connection may become HTTP on its way, not the other way round.
            if mode != b.p.mode && !(b.p.mode == Mode::Tcp && mode == Mode::Http) {
                let other = cx.places.get(id.0 as usize).copied().unwrap_or(span);
                let how = match what {
                    "default_backend" => "as its default backend".to_owned(),
                    rule => format!("in a '{rule}' rule"),
                };
                let message = format!(
                    "{} {} ({}:{}) tries to use incompatible {} backend '{name}' ({}:{}) {how} (see 'mode').",
                    b.p.mode.name(),
                    b.title(),
                    b.p.file,
                    b.p.line,
                    mode.name(),
                    cx.sources.name(other.file),
                    other.line,
                );
                let complaint =
                    Diagnostic::new(thalweg_syntax::Severity::Alert, Lead::Bare, Some(span), message);
                return Err(Box::new(complaint));
            }
            Ok(*id)
        }
        _ => {
            let message = format!("Proxy '{}': unable to find required {what}: '{name}'.", b.p.name);
            let near = thalweg_syntax::did_you_mean(
                name,
                cx.by_name.iter().filter(|(_, id)| cx.sides[id.0 as usize].backend).map(|(n, _)| &**n),
            );
            let mut e = Diagnostic::new(thalweg_syntax::Severity::Alert, Lead::Bare, Some(span), message);
            if let Some(near) = near {
                e = e.help(format!("there is a backend named '{near}'"));
            }
            Err(Box::new(e))
        }
    }
}
/// `use-server <name or format> if|unless ...`, read late.
pub(crate) fn use_server(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    b.needs_backend(cx, line, "use-server", "");
    if line.words.len() < 2 {
        return Err(fail(line, 1, "'use-server' expects a server name."));
    }
    if !matches!(line.text(2), "if" | "unless") {
        return Err(fail(line, 2, "'use-server' requires either 'if' or 'unless' followed by a condition."));
    }
    let cond = Some(sample_env::condition(cx, b, line, 2, Where::UseServer, "use-server")?);
    let name = line.text(1);
    let server = if name.contains('%') {
        UseServerTarget::Dynamic(sample_env::log_format(cx, b, line, 1, Where::UseServer, "use-server")?)
    } else {
        match b.p.servers.iter().position(|s| &*s.name == name) {
            Some(index) => {
                b.p.servers[index].is_referenced = true;
                UseServerTarget::Static(b.p.servers[index].id)
            }
            None => {
                let message = format!(
                    "{} : unable to find server '{name}' referenced in a 'use-server' rule.",
                    b.title()
                );
                let mut e = fail(line, 1, message);
                e.lead = thalweg_syntax::Lead::Bare;
                return Err(e);
            }
        }
    };
    b.p.use_server.push(UseServer { cond, server, line: line.number });
    Ok(())
}

pub(crate) fn monitor_uri(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    b.needs_frontend(cx, line, "monitor-uri", "");
    let Some(uri) = line.word(1) else {
        return Err(fail(line, 1, "'monitor-uri' expects an URI."));
    };
    at_most(line, 1, 1)?;
    b.p.monitor_uri = Some(uri.bytes().into());
    Ok(())
}

/// `monitor fail if|unless ...`, read late.
pub(crate) fn monitor(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    b.needs_frontend(cx, line, "monitor", "");
    if line.text(1) != "fail" {
        return Err(fail(line, 1, "'monitor' only supports 'fail'."));
    }
    if !matches!(line.text(2), "if" | "unless") {
        return Err(fail(
            line,
            2,
            "'monitor fail' requires either 'if' or 'unless' followed by a condition.",
        ));
    }
    let cond = sample_env::condition(cx, b, line, 2, Where::MonitorFail, "monitor fail")?;
    b.p.monitor_fail.push(cond);
    Ok(())
}

/// `force-be-switch if|unless ...`, read late.
pub(crate) fn force_be_switch(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    if !b.may_be_frontend() {
        return Err(fail(line, 0, "'force-be-switch' only available in frontend or listen section."));
    }
    let cond = sample_env::required_condition(cx, b, line, 1, "force-be-switch", Where::ForceSwitch)?;
    b.p.force_be_switch.push((cond, true));
    Ok(())
}

/// `monitor-net`, removed: the message says what to write for this network.
pub(crate) fn monitor_net(_: &mut Cx<'_>, _: &mut Building, line: &Line) -> Outcome {
    let message = format!(
        "'monitor-net' doesn't exist anymore. Please use 'http-request return status 200 if {{ src {} }}' instead.",
        line.text(1)
    );
    Err(fail(line, 0, message))
}
