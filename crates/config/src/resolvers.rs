//! `resolvers`: name servers, and how they are asked (manual section 5.3.2).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use thalweg_dns::Settings;
use thalweg_syntax::address::{PortSpec, Transport};
use thalweg_syntax::{Address, AddressOptions, Diagnostic, Lead, Line, Severity, Span, TimeUnit};

use crate::build::{Building, Cx};
use crate::keyword::{NoteBoxed, Outcome, fail, legal_name, not_supported, pass_over};
use crate::meaning::Servers;
use crate::model::{NameServer, ProxyKind, Resolvers};
use crate::numbers::{leading, strict, time};
use crate::proxy::small;
use crate::resolve::address;

/// A section that is being read.
pub(crate) struct ResolversDraft {
    section: Resolvers,
    span: Span,
    /// Where each name server is declared: a file and a line.
    places: Vec<(String, u32)>,
    /// Those that are asked over streams, as the servers of a backend of the same name.
    servers: Box<Building>,
}

/// Where the system keeps its name servers.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// The port of DNS.
const PORT: u16 = 53;

/// The section that there is without a word in the file.
pub(crate) const DEFAULT: &str = "default";

fn empty(name: Arc<str>) -> Resolvers {
    Resolvers { name, name_servers: Vec::new(), settings: Settings::default() }
}

pub(crate) fn open(cx: &mut Cx<'_>, line: &Line) -> Result<ResolversDraft, Box<Diagnostic>> {
    if line.words.len() < 2 {
        return Err(fail(line, 1, "missing name for resolvers section."));
    }
    legal_name(line)?;
    pass_over(cx, line, 1, 1);
    let name = cx.name(line.text(1));
    if let Some((_, other)) = cx.resolvers_names.iter().find(|(other, _)| *other == name) {
        let message = format!(
            "Parsing [{}:{}]: resolvers '{name}' has same name as another resolvers (declared at {}:{}).",
            cx.sources.name(line.file),
            line.number,
            cx.sources.name(other.file),
            other.line
        );
        return Err(bare(fail(line, 1, message)));
    }
    cx.resolvers_names.push((Arc::clone(&name), line.span()));
    let mut servers = Box::new(crate::proxy::fresh(line.span()));
    servers.p.name = Arc::clone(&name);
    servers.p.kind = ProxyKind::Backend;
    servers.whose = Servers::OfDns;
    Ok(ResolversDraft { section: empty(name), span: line.span(), places: Vec::new(), servers })
}

/// The form of messages that say where by themselves.
fn bare(mut diagnostic: Box<Diagnostic>) -> Box<Diagnostic> {
    diagnostic.lead = Lead::Config;
    diagnostic
}

pub(crate) fn line(cx: &mut Cx<'_>, draft: &mut ResolversDraft, line: &Line) -> Outcome {
    match line.text(0) {
        "nameserver" => name_server(cx, draft, line),
        "parse-resolv-conf" => {
            pass_over(cx, line, 1, 0);
            let read = cx.options.loader.read(RESOLV_CONF);
            let text = read.map_err(|error| fail(line, 0, format!("cannot open {RESOLV_CONF}: {error}.")))?;
            for found in of_the_system(&String::from_utf8_lossy(&text)) {
                take_system(cx, draft, line, found);
            }
            Ok(())
        }
        "hold" => hold(cx, draft, line),
        "timeout" => timeout(cx, draft, line),
        "accepted_payload_size" => {
            let text = value(line, "'accepted_payload_size' expects <nb> as argument.")?;
            pass_over(cx, line, 1, 1);
            draft.section.settings.payload_max = strict(text)
                .and_then(|size| u16::try_from(size).ok())
                .filter(|size| *size >= 12)
                .ok_or_else(|| {
                    let message = format!(
                        "'accepted_payload_size' must be between 12 and 65535 inclusive (was {text})."
                    );
                    fail(line, 1, message)
                })?;
            Ok(())
        }
        "resolve_retries" => {
            let text = value(line, "'resolve_retries' expects <nb> as argument.")?;
            pass_over(cx, line, 1, 1);
            // As everywhere, what is no count is none, and none is one try.
            draft.section.settings.tries = u32::try_from(leading(text).0).unwrap_or(0).max(1);
            Ok(())
        }
        "resolution_pool_size" => {
            let message = "'resolution_pool_size' directive is not supported anymore (it never appeared in a stable release).";
            Err(fail(line, 0, message))
        }
        other => Err(fail(line, 0, format!("unknown keyword '{other}' in 'resolvers' section"))),
    }
}

fn value<'l>(line: &'l Line, missing: &str) -> Result<&'l str, Box<Diagnostic>> {
    match line.text(1) {
        "" => Err(fail(line, 1, missing)),
        text => Ok(text),
    }
}

fn hold(cx: &mut Cx<'_>, draft: &mut ResolversDraft, line: &Line) -> Outcome {
    if line.text(2).is_empty() {
        let message = "'hold' expects an <event> and a <time> as arguments.";
        return Err(fail(line, line.words.len(), message)
            .note_boxed("<event> can be 'valid', 'obsolete', 'nx', 'refused', 'timeout' or 'other'"));
    }
    pass_over(cx, line, 1, 2);
    let event = line.text(1);
    if !matches!(event, "nx" | "other" | "refused" | "timeout" | "valid" | "obsolete") {
        let message = format!(
            "'hold' unknown <event>: '{event}', expects either 'nx', 'timeout', 'valid', 'obsolete' or 'other'."
        );
        return Err(fail(line, 1, message));
    }
    let ms = time(cx, line, 2, TimeUnit::Milliseconds, "hold")?;
    small(cx, line, 2, ms, &format!("'hold {event} {}' looks", line.text(2)));
    let settings = &mut draft.section.settings;
    match event {
        "nx" => settings.hold_nx_ms = ms,
        "refused" => settings.hold_refused_ms = ms,
        "timeout" => settings.hold_timeout_ms = ms,
        "valid" => settings.hold_valid_ms = ms,
        "obsolete" => settings.hold_obsolete_ms = ms,
        _ => settings.hold_other_ms = ms,
    }
    Ok(())
}

fn timeout(cx: &mut Cx<'_>, draft: &mut ResolversDraft, line: &Line) -> Outcome {
    let event = value(line, "'timeout' expects 'retry' or 'resolve' and <time> as arguments.")?;
    if !matches!(event, "retry" | "resolve") {
        let message =
            format!("'timeout' expects 'retry' or 'resolve' and <time> as arguments got '{event}'.");
        return Err(fail(line, 1, message));
    }
    if line.text(2).is_empty() {
        return Err(fail(line, 2, format!("'timeout {event}' expects <time> as argument.")));
    }
    pass_over(cx, line, 2, 1);
    let ms = time(cx, line, 2, TimeUnit::Milliseconds, &format!("timeout {event}"))?;
    small(cx, line, 2, ms, &format!("'timeout {event} {}' looks", line.text(2)));
    let settings = &mut draft.section.settings;
    if event == "retry" {
        settings.retry_ms = ms;
    } else {
        settings.resolve_ms = ms;
    }
    Ok(())
}

/// `nameserver <name> <address>:<port>`. What follows an address of streams are parameters of a server.
fn name_server(cx: &mut Cx<'_>, draft: &mut ResolversDraft, line: &Line) -> Outcome {
    if line.words.len() < 3 {
        let message = "'nameserver' expects <name> and <addr>[:<port>] as arguments.";
        return Err(fail(line, line.words.len(), message));
    }
    let name = line.text(1);
    if let Some(c) = name.chars().find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':')))
    {
        return Err(fail(line, 1, format!("character '{c}' is not permitted in server name '{name}'.")));
    }
    if let Some(i) = draft.section.name_servers.iter().position(|server| &*server.name == name) {
        let (file, at) = &draft.places[i];
        let message = format!(
            "Parsing [{}:{}]: nameserver '{name}' has same name as another nameserver (declared at {file}:{at}).",
            cx.sources.name(line.file),
            line.number,
        );
        return Err(bare(fail(line, 1, message)));
    }
    let (addr, transport) = reached(cx, line)?;
    if transport == Transport::Datagram {
        pass_over(cx, line, 1, 2);
    } else {
        let is_mptcp = transport == Transport::Mptcp;
        crate::server::of_name_server(cx, &mut draft.servers, line, addr, is_mptcp)?;
    }
    let name = cx.name(name);
    draft.section.name_servers.push(NameServer { name, addr, stream: None });
    draft.places.push((cx.sources.name(line.file).to_owned(), line.number));
    Ok(())
}

/// Where a name server is, and how it is reached.
fn reached(cx: &Cx<'_>, line: &Line) -> Result<(SocketAddr, Transport), Box<Diagnostic>> {
    let prefix = format!("'nameserver {}' : ", line.text(1));
    match address(cx, line, 2, &AddressOptions::NAMESERVER, &prefix)? {
        Address::Ip { ip, port: PortSpec::Fixed(port), transport } => match transport {
            Transport::Datagram | Transport::Stream | Transport::Mptcp => {
                Ok((SocketAddr::new(ip, port), transport))
            }
            Transport::Quic => Err(not_reached(line, line.text(2))),
        },
        other => Err(not_reached(line, other.family_name())),
    }
}

fn not_reached(line: &Line, what: &str) -> Box<Diagnostic> {
    not_supported(line, 2, what, "name servers are asked over UDP and TCP")
}

/// The name servers of a `resolv.conf(5)`, each with its line.
fn of_the_system(text: &str) -> Vec<(u32, String, Option<IpAddr>)> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let mut words = line.split_ascii_whitespace();
        if words.next() == Some("nameserver")
            && let Some(word) = words.next()
        {
            found.push((number, word.to_owned(), word.parse().ok()));
        }
    }
    found
}

/// Adds one of the system's name servers.
fn take_system(
    cx: &mut Cx<'_>,
    draft: &mut ResolversDraft,
    line: &Line,
    (number, text, ip): (u32, String, Option<IpAddr>),
) {
    let warning = match ip {
        // `fe80::1%eth0`: an address that means something on one link only.
        None => Some(format!(
            "Parsing [{RESOLV_CONF}:{number}] : address '{text}' could not be recognized, nameserver will be excluded."
        )),
        Some(_) => {
            draft.section.name_servers.iter().position(|server| *server.name == *text).map(|i| {
                let (file, at) = &draft.places[i];
                format!(
                    "Parsing [{RESOLV_CONF}:{number}] : generated name for {RESOLV_CONF} nameserver '{text}' conflicts with \
                     another nameserver (declared at {file}:{at}), it appears to be a duplicate and will be excluded."
                )
            })
        }
    };
    if let Some(message) = warning {
        cx.diagnostics.push(Diagnostic::warning_at(line.span(), message));
        return;
    }
    let Some(ip) = ip else { return };
    let addr = SocketAddr::new(ip, PORT);
    draft.section.name_servers.push(NameServer { name: cx.name(&text), addr, stream: None });
    draft.places.push((RESOLV_CONF.to_owned(), number));
}

pub(crate) fn close(cx: &mut Cx<'_>, draft: ResolversDraft) {
    // What could not be read may have been one.
    if draft.section.name_servers.is_empty() && !cx.diagnostics.has_errors() {
        let message = format!(
            "resolvers '{}' [{}:{}] has no nameservers configured!",
            draft.section.name,
            cx.sources.name(draft.span.file),
            draft.span.line
        );
        cx.diagnostics.push(Diagnostic::new(Severity::Warning, Lead::Bare, Some(draft.span), message));
    }
    cx.name_servers.push((cx.config.resolvers.len(), draft.servers));
    cx.config.resolvers.push(Arc::new(draft.section));
}

/// Gives the section at a position those of its name servers that are asked over streams, whose certificates and authorities are
/// loaded by now.
pub(crate) fn settle(cx: &mut Cx<'_>, position: usize, mut servers: Building) {
    // Connections to name servers are not told apart.
    servers.pool_names.clear();
    crate::finish::names::compile(cx, &mut servers);
    let section = Arc::make_mut(&mut cx.config.resolvers[position]);
    for mut server in servers.p.servers {
        // Said to be ignored.
        server.check = None;
        let asked = section.name_servers.iter_mut().find(|asked| asked.name == server.name);
        if let Some(asked) = asked {
            asked.stream = Some(server);
        }
    }
}

/// Adds the section that there is without a word in the file, when the system knows name servers (manual section 5.3.2).
pub(crate) fn add_default(cx: &mut Cx<'_>) {
    let is_declared = cx.config.resolvers.iter().any(|section| &*section.name == DEFAULT);
    if is_declared || !cx.config.global.default_resolvers {
        return;
    }
    // Without a word about it, nothing is said when there are none.
    let Ok(text) = cx.options.loader.read(RESOLV_CONF) else { return };
    let mut section = empty(cx.name(DEFAULT));
    for (_, text, ip) in of_the_system(&String::from_utf8_lossy(&text)) {
        let Some(ip) = ip else { continue };
        if section.name_servers.iter().all(|server| *server.name != *text) {
            let addr = SocketAddr::new(ip, PORT);
            section.name_servers.push(NameServer { name: cx.name(&text), addr, stream: None });
        }
    }
    if !section.name_servers.is_empty() {
        cx.config.resolvers.push(Arc::new(section));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_servers_of_the_system_are_found() {
        let text = "# comment\nsearch test\nnameserver 192.0.2.1\n nameserver\t2001:db8::1 # second\noptions ndots:5\n\
                    nameserver fe80::1%eth0\nnameserver\nnameservers 192.0.2.9\n";
        let found: Vec<(u32, Option<String>)> =
            of_the_system(text).into_iter().map(|(at, _, ip)| (at, ip.map(|ip| ip.to_string()))).collect();
        assert_eq!(found, [(3, Some("192.0.2.1".into())), (4, Some("2001:db8::1".into())), (6, None)]);
    }
}
