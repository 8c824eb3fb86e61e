//! `log-forward`: messages of other programs, received over datagrams and streams, and sent on (manual section 12.6).

use std::net::SocketAddr;
use std::sync::Arc;

use thalweg_syntax::address::Transport;
use thalweg_syntax::{Address, AddressOptions, Diagnostic, Line, Span, TimeUnit};

use crate::bind::{BindContext, parse_addresses, parse_options};
use crate::build::{Building, Cx};
use crate::keyword::{Outcome, at_most, fail, legal_name, not_supported};
use crate::model::{Bind, BindAddr, LogForward, LogHost, LogTarget, ProxyKind};
use crate::namespaces;
use crate::numbers::{count, lenient, time};
use crate::resolve::addresses;

/// A section that is being read.
pub(crate) struct ForwardDraft {
    forward: LogForward,
    targets: Vec<LogTarget>,
    span: Span,
}

/// Streams at the same time, where a section does not say.
const MAXCONN_USUAL: u32 = 10;

const SECTION: &str = "log-forward";

pub(crate) fn open(cx: &mut Cx<'_>, line: &Line) -> Result<ForwardDraft, Box<Diagnostic>> {
    if line.words.len() < 2 {
        return Err(fail(line, 1, "missing name for log-forward section."));
    }
    at_most(line, 1, 1)?;
    legal_name(line)?;
    let name = cx.name(line.text(1));
    if let Some((_, other)) = cx.log_forward_names.iter().find(|(other, _)| *other == name) {
        let message = format!(
            "log-forward section '{name}' has the same name as another log-forward section declared at {}:{}.",
            cx.sources.name(other.file),
            other.line
        );
        return Err(fail(line, 1, message));
    }
    if let Some(proxy) = cx.by_name.get(&name).map(|id| &cx.proxies[id.0 as usize]) {
        let message = format!(
            "log forward section '{name}' has the same name as {} '{name}' declared at {}:{}.",
            proxy.p.kind.keyword(),
            proxy.p.file,
            proxy.p.line
        );
        return Err(fail(line, 1, message));
    }
    cx.log_forward_names.push((Arc::clone(&name), line.span()));
    let forward = LogForward {
        name,
        binds: Vec::new(),
        dgram_binds: Vec::new(),
        targets: Arc::new([]),
        maxconn: MAXCONN_USUAL,
        backlog: 0,
        timeout_client_ms: None,
        dont_parse: false,
        assume_rfc6587_ntf: false,
        host: LogHost::default(),
    };
    Ok(ForwardDraft { forward, targets: Vec::new(), span: line.span() })
}

pub(crate) fn line(cx: &mut Cx<'_>, draft: &mut ForwardDraft, line: &Line) -> Outcome {
    let forward = &mut draft.forward;
    match line.text(0) {
        "bind" => {
            let context = BindContext::Section(SECTION);
            if line.words.len() < 2 {
                let message =
                    "'bind' expects {<path>|[addr1]:port1[-end1]}{,[addr]:port[-end]}... as arguments.";
                return Err(fail(line, 1, message));
            }
            let mut binds = parse_addresses(cx, line, 1, &context)?;
            parse_options(cx, line, 2, &context, &mut binds)?;
            forward.binds.append(&mut binds);
        }
        "dgram-bind" => forward.dgram_binds.append(&mut datagrams(cx, line)?),
        "log" => {
            let section = format!("log-forward section '{}'", forward.name);
            crate::log::add_line(cx, line, &section, &mut draft.targets)?;
        }
        "maxconn" | "backlog" => {
            let name = line.text(0);
            if line.words.len() < 2 {
                return Err(fail(line, 1, format!("'{name}' expects an integer argument.")));
            }
            at_most(line, 1, 1)?;
            let number = count(lenient(cx, line, 1)).unwrap_or(0);
            if name == "maxconn" {
                forward.maxconn = number;
            } else {
                forward.backlog = number;
            }
        }
        "timeout" if line.text(1) == "client" => {
            if line.text(2).is_empty() {
                return Err(fail(line, 2, "missing timeout client value."));
            }
            let ms = time(cx, line, 2, TimeUnit::Milliseconds, "timeout client")?;
            forward.timeout_client_ms = (ms != 0).then_some(ms);
        }
        "timeout" => {
            let message = format!("unknown keyword 'timeout {}' in log-forward section.", line.text(1));
            return Err(fail(line, 1, message));
        }
        "option" => return option(forward, line, 1),
        "no" if line.text(1) == "option" => return option(forward, line, 2),
        other => return Err(fail(line, 0, format!("unknown keyword '{other}' in log-forward section."))),
    }
    Ok(())
}

/// The option whose name is the word at `at`: the first behind `option`, the second behind `no option`.
fn option(forward: &mut LogForward, line: &Line, at: usize) -> Outcome {
    let on = at == 1;
    match line.text(at) {
        "" => return Err(fail(line, at, "'option' expects an option name.")),
        "assume-rfc6587-ntf" => forward.assume_rfc6587_ntf = on,
        "dont-parse-log" => forward.dont_parse = on,
        "host" if on => {
            forward.host = match line.text(2) {
                "replace" => LogHost::Replace,
                "fill" => LogHost::Fill,
                "keep" => LogHost::Keep,
                "append" => LogHost::Append,
                _ => {
                    let message = "option 'host' expects {replace|fill|keep|append}.";
                    return Err(fail(line, 2, message));
                }
            };
            return at_most(line, 3, 0);
        }
        other => return Err(fail(line, at, format!("unknown option '{other}' in log-forward section."))),
    }
    at_most(line, at + 1, 0)
}

/// The addresses of `dgram-bind`, with the options that mean something for datagrams.
fn datagrams(cx: &mut Cx<'_>, line: &Line) -> Result<Vec<Bind>, Box<Diagnostic>> {
    let shown = cx.name(line.text(1));
    if shown.is_empty() {
        return Err(fail(
            line,
            1,
            "'dgram-bind' expects [addr1]:port1[-end1]{,[addr]:port[-end]}... as arguments.",
        ));
    }
    let file = cx.file_of(line);
    let mut binds = Vec::new();
    for address in addresses(cx, line, 1, &AddressOptions::DGRAM_BIND, &format!("'dgram-bind {shown}' : "))? {
        let family = address.family_name();
        let Address::Ip { transport: Transport::Datagram, ip, port } = address else {
            let why = "datagrams are received at IP addresses only";
            return Err(not_supported(line, 1, family, why));
        };
        for port in port.ports() {
            let address = BindAddr::Tcp(SocketAddr::new(ip, port));
            binds.push(Bind {
                shown: Arc::clone(&shown),
                ..Bind::new(address, Arc::clone(&file), line.number)
            });
        }
    }
    for at in 2..line.words.len() {
        let value_of = |name: &str| line.text(at - 1) == name;
        match line.text(at) {
            _ if value_of("interface") => {
                binds.iter_mut().for_each(|bind| bind.interface = Some(cx.name(line.text(at))));
            }
            _ if value_of("namespace") => {
                let namespace = namespaces::open(line, at)?;
                binds.iter_mut().for_each(|bind| bind.namespace = Some(namespace.clone()));
            }
            _ if value_of("name") => {}
            "transparent" => binds.iter_mut().for_each(|bind| bind.transparent = true),
            "interface" | "name" | "namespace" if at + 1 < line.words.len() => {}
            name @ ("interface" | "name" | "namespace") => {
                return Err(fail(line, at, format!("'dgram-bind {shown}' : '{name}' expects an argument.")));
            }
            name => {
                let why = "of the options of 'bind', 'interface', 'namespace', 'transparent' and 'name' mean something for datagrams";
                return Err(not_supported(line, at, &format!("dgram-bind ... {name}"), why));
            }
        }
    }
    Ok(binds)
}

pub(crate) fn close(cx: &mut Cx<'_>, draft: ForwardDraft) {
    let ForwardDraft { mut forward, targets, span } = draft;
    if forward.binds.is_empty() && forward.dgram_binds.is_empty() {
        let message = format!(
            "frontend '{}' has no 'bind' directive. Please declare it as a backend if this was intended.",
            forward.name
        );
        cx.diagnostics.push(Diagnostic::warning_at(span, message));
    }
    forward.targets = targets.into();
    let mut listens = Box::new(crate::proxy::fresh(span));
    listens.p.name = Arc::clone(&forward.name);
    listens.p.kind = ProxyKind::Frontend;
    listens.p.binds = std::mem::take(&mut forward.binds);
    cx.log_forwards.push((forward, listens));
}

/// The section with its listeners, whose certificates are loaded by now.
pub(crate) fn settle(cx: &mut Cx<'_>, mut forward: LogForward, listens: Building) {
    forward.binds = listens.p.binds;
    cx.config.log_forwards.push(forward.into());
}
