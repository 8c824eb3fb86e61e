//! `peers`: processes that share stick tables (manual section 11.2).

use std::net::SocketAddr;
use std::sync::Arc;

use thalweg_stick::KeyType;
use thalweg_syntax::{Diagnostic, Lead, Line, Severity, Span};

use crate::bind::{BindContext, parse_addresses, parse_options};
use crate::build::{Building, Cx};
use crate::keyword::{NoteBoxed, Outcome, at_most, fail, legal_name, not_supported};
use crate::meaning::Servers;
use crate::model::{
    Bind, BindAddr, LogTarget, Peer, PeersSection, PortMode, ProxyHeader, ProxyKind, Server, ServerAddr,
    Shared,
};
use crate::numbers::leading;
use crate::proxy::{TableDraft, table};

/// A section that is being read. Its peers are the servers of a proxy, its listener that proxy's.
pub(crate) struct PeersDraft {
    name: Arc<str>,
    span: Span,
    pub building: Box<Building>,
    /// Options of the listener (`default-bind`).
    bind_defaults: Option<Bind>,
    /// There is a `peer` line, which makes the listener, or a `bind` line.
    made_by: Option<MadeBy>,
    shards: u32,
    disabled: bool,
    targets: Vec<LogTarget>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum MadeBy {
    Peer,
    Bind(Span),
}

const SECTION: &str = "peers";

pub(crate) fn open(cx: &mut Cx<'_>, line: &Line) -> Result<PeersDraft, Box<Diagnostic>> {
    if line.words.len() < 2 {
        return Err(fail(line, 1, "missing name for peers section."));
    }
    legal_name(line)?;
    at_most(line, 1, 1)?;
    let name = cx.name(line.text(1));
    if let Some(other) = cx.peers.iter().find(|other| other.name == name) {
        let message = format!(
            "Parsing [{}:{}]: peers section '{name}' has the same name as another peers section declared at {}:{}.",
            cx.sources.name(line.file),
            line.number,
            cx.sources.name(other.span.file),
            other.span.line
        );
        let mut e = fail(line, 1, message);
        e.lead = Lead::Config;
        return Err(e);
    }
    let mut building = Box::new(crate::proxy::fresh(line.span()));
    // Messages about its lines call the proxy by the name of this process.
    building.p.name = local_name(cx);
    building.p.kind = ProxyKind::Listen;
    building.p.mode = crate::model::Mode::Tcp;
    building.whose = Servers::Peers;
    Ok(PeersDraft {
        name,
        span: line.span(),
        building,
        bind_defaults: None,
        made_by: None,
        shards: 0,
        disabled: false,
        targets: Vec::new(),
    })
}

/// The name of this process among its peers.
fn local_name(cx: &Cx<'_>) -> Arc<str> {
    // It begins as the name of the host.
    let known = cx.reader.environment.get("HAPROXY_LOCALPEER");
    known.map_or_else(|| Arc::from(""), |name| Arc::from(String::from_utf8_lossy(name)))
}

pub(crate) fn line(cx: &mut Cx<'_>, draft: &mut PeersDraft, line: &Line) -> Outcome {
    match line.text(0) {
        "bind" => bind(cx, draft, line),
        "default-bind" => {
            let nowhere = BindAddr::Tcp(SocketAddr::from(([0, 0, 0, 0], 0)));
            let mut defaults = [draft.bind_defaults.take().unwrap_or_else(|| {
                let file = cx.file_of(line);
                Bind::new(nowhere, file, line.number)
            })];
            let read = parse_options(cx, line, 1, &BindContext::Section(SECTION), &mut defaults);
            // Its words begin where an address would stand.
            read.map_err(|mut e| {
                e.message =
                    e.message.replace("'bind default-bind'", &format!("'default-bind {}'", line.text(1)));
                e
            })?;
            let [defaults] = defaults;
            draft.bind_defaults = Some(defaults);
            Ok(())
        }
        "default-server" => crate::server::default_server(cx, &mut draft.building, line),
        "peer" | "server" => peer(cx, draft, line),
        "table" => one_table(cx, draft, line),
        "shards" => {
            if line.words.len() < 2 {
                return Err(fail(line, 1, "'shards' : missing value"));
            }
            let (number, rest) = leading(line.text(1));
            if !rest.is_empty() {
                let message = format!("'shards' : expects an integer argument, found '{}'", line.text(1));
                return Err(fail(line, 1, message));
            }
            let message = "'shards' : expects a strictly positive integer argument";
            draft.shards =
                u32::try_from(number).ok().filter(|n| *n > 0).ok_or_else(|| fail(line, 1, message))?;
            Ok(())
        }
        "log" => {
            let section = format!("peers section '{}'", draft.name);
            crate::log::add_line(cx, line, &section, &mut draft.targets)?;
            Ok(())
        }
        "disabled" => {
            draft.disabled = true;
            Ok(())
        }
        "enabled" => {
            draft.disabled = false;
            Ok(())
        }
        other => Err(fail(line, 0, format!("unknown keyword '{other}' in 'peers' section"))),
    }
}

const ONE_LISTENER: &str = "Only one listener per \"peers\" section is authorized. Multiple listening addresses or port range are not supported.";
const MIXED: &str = "mixing \"peer\" and \"bind\" line is forbidden";

fn bind(cx: &mut Cx<'_>, draft: &mut PeersDraft, line: &Line) -> Outcome {
    match draft.made_by {
        Some(MadeBy::Peer) => return Err(fail(line, 0, MIXED)),
        Some(MadeBy::Bind(first)) => {
            let (file, number) = (cx.sources.name(first.file), first.line);
            let message = format!(
                "One listener per \"peers\" section is authorized but another is already configured at [{file}:{number}]."
            );
            return Err(fail(line, 0, message).note_boxed(ONE_LISTENER));
        }
        None => {}
    }
    let context = BindContext::Section(SECTION);
    if line.words.len() < 2 {
        return Err(fail(line, 1, "'bind' expects [<address>]:<port> or /<path> as argument."));
    }
    let mut binds = parse_addresses(cx, line, 1, &context)?;
    if binds.len() != 1 {
        return Err(fail(line, 1, ONE_LISTENER));
    }
    if let Some(defaults) = &draft.bind_defaults {
        binds[0] = under(defaults, &binds[0]);
    }
    parse_options(cx, line, 2, &context, &mut binds)?;
    draft.made_by = Some(MadeBy::Bind(line.span()));
    draft.building.p.binds = binds;
    Ok(())
}

/// A listener at the address of `bind` with the options of `defaults`.
fn under(defaults: &Bind, bind: &Bind) -> Bind {
    Bind {
        addr: bind.addr.clone(),
        shown: Arc::clone(&bind.shown),
        file: Arc::clone(&bind.file),
        line: bind.line,
        mptcp: bind.mptcp,
        owner: if defaults.owner == Default::default() { bind.owner.clone() } else { defaults.owner.clone() },
        ..defaults.clone()
    }
}

/// `peer <name> <address>`, `server <name> [<address>]`
fn peer(cx: &mut Cx<'_>, draft: &mut PeersDraft, line: &Line) -> Outcome {
    let is_peer = line.text(0) == "peer";
    if is_peer && matches!(draft.made_by, Some(MadeBy::Bind(_))) {
        return Err(fail(line, 0, MIXED));
    }
    let name = cx.name(line.text(1));
    let local = local_name(cx);
    let is_local = name == local;
    let title = format!("peer {name}");
    if is_local && let Some(other) = draft.building.p.servers.iter().find(|server| server.name == local) {
        let message = format!(
            "'{title}' : local peer name already referenced at {}:{}. {local}",
            other.file, other.line
        );
        return Err(fail(line, 1, message));
    }
    // With a listener of its own, this process has no other address.
    let has_bind = matches!(draft.made_by, Some(MadeBy::Bind(_)));
    let option = |word: &str| crate::table::SERVER.iter().any(|known| known.name == word);
    let has_address = line.words.len() > 2 && !option(line.text(2));
    if is_local && (has_bind || !is_peer && !has_address) {
        return crate::server::without_address(cx, &mut draft.building, line);
    }
    if !has_address {
        cx.warn(line, 1, format!("'{title}' : ignoring invalid peer definition (missing address:port)"));
        return Ok(());
    }
    crate::server::server(cx, &mut draft.building, line)?;
    // `init-addr` was said to be ignored.
    draft.building.named.iter_mut().for_each(|named| named.methods = Arc::new([]));
    crate::server::resolve_names(cx, &mut draft.building, |_| None);
    draft.building.resolutions.clear();
    let Some(server) = draft.building.p.servers.last_mut() else { return Ok(()) };
    if server.port_mode != PortMode::Fixed {
        draft.building.p.servers.pop();
        let message = format!("'{title}' : missing port specification in '{}'", line.text(2));
        return Err(fail(line, 2, message));
    }
    if std::mem::take(&mut draft.building.datagram_servers) {
        return Err(fail(line, 2, "peers are reached over streams, not over datagrams."));
    }
    if matches!(server.addr, ServerAddr::SockPair(_) | ServerAddr::Reverse) {
        return Err(not_supported(line, 2, line.text(2), "peers are reached at IP and unix addresses only"));
    }
    // Said to be ignored.
    (server.check, server.send_proxy) = (None, ProxyHeader::None);
    if !crate::tls::uses_tls(server) {
        // The rest would be for health checks.
        server.tls = None;
    }
    let shard = server.rare().shard;
    if shard > draft.shards && draft.shards > 0 {
        let what = format!("{shard} peer shard greater value than {} shards value is ignored.", draft.shards);
        cx.warn(line, 0, format!("'{title}' : {what}"));
    }
    if is_local {
        let (addr, mptcp) = (listens_at(&server.addr), server.rare().mptcp);
        let Some(addr) = addr else {
            let why = "listening on this kind of address is not built";
            return Err(not_supported(line, 2, line.text(2), why));
        };
        listen_as_peer(cx, draft, line, addr, mptcp);
    }
    Ok(())
}

/// This process listens where its own `peer` line says that it is.
fn listen_as_peer(cx: &mut Cx<'_>, draft: &mut PeersDraft, line: &Line, addr: BindAddr, mptcp: bool) {
    draft.made_by = Some(MadeBy::Peer);
    let shown = cx.name(line.text(2));
    let mut bind = Bind { shown, mptcp, ..Bind::new(addr, cx.file_of(line), line.number) };
    bind.owner = cx.unix_bind.owner.clone();
    if let Some(defaults) = &draft.bind_defaults {
        bind = under(defaults, &bind);
    }
    draft.building.p.binds = vec![bind];
}

fn listens_at(addr: &ServerAddr) -> Option<BindAddr> {
    Some(match addr {
        ServerAddr::Tcp(address) => BindAddr::Tcp(*address),
        ServerAddr::Unix(path) => BindAddr::Unix(path.to_path_buf()),
        ServerAddr::Abstract(name) => BindAddr::Abstract(name.to_vec()),
        ServerAddr::AbstractZ(name) => BindAddr::AbstractZ(name.to_vec()),
        ServerAddr::SockPair(_) | ServerAddr::Reverse | ServerAddr::Unresolved(..) => return None,
    })
}

/// `table <name> type ...`
fn one_table(cx: &mut Cx<'_>, draft: &mut PeersDraft, line: &Line) -> Outcome {
    let own = line.text(1).to_owned();
    let name = cx.name(&format!("{}/{own}", draft.name));
    if let Some(other) = cx.tables.iter().find(|other| other.spec.name == name) {
        let (file, number) = (cx.sources.name(other.span.file), other.span.line);
        let message = format!(
            "stick-table name '{own}' conflicts with table declared in {} at {file}:{number}.",
            other.section
        );
        return Err(fail(line, 0, message));
    }
    let (mut spec, write_to) = table(cx, line, 2, name, true)?;
    spec.peers = Some(Arc::clone(&draft.name));
    cx.tables.push(TableDraft {
        spec,
        section: format!("peers '{}'", draft.name),
        span: line.span(),
        write_to,
    });
    Ok(())
}

pub(crate) fn close(cx: &mut Cx<'_>, draft: PeersDraft) {
    cx.peers.push(draft);
}

/// Once all is read: sections and tables find each other. The sections' servers were given their TLS.
pub(crate) fn finish(cx: &mut Cx<'_>) {
    let local = local_name(cx);
    let mut drafts = std::mem::take(&mut cx.peers);
    for at in 0..cx.tables.len() {
        resolve_table(cx, &drafts, at);
    }
    for draft in &mut drafts {
        crate::finish::names::compile(cx, &mut draft.building);
        let servers = std::mem::take(&mut draft.building.p.servers);
        if draft.disabled {
            leave(cx, &draft.name);
            continue;
        }
        let own = servers.iter().position(|server| server.name == local);
        let Some(own) = own.filter(|_| !draft.building.p.binds.is_empty()) else {
            warn(
                cx,
                format!("Removing incomplete section 'peers {}' (no peer named '{local}').", draft.name),
            );
            leave(cx, &draft.name);
            continue;
        };
        let with_tls = |tls: bool| if tls { "SSL" } else { "non-SSL" };
        let listener = draft.building.p.binds[0].tls.as_ref().is_some_and(|tls| tls.ssl);
        let server = crate::tls::uses_tls(&servers[own]);
        if listener != server {
            warn(
                cx,
                format!(
                    "Peers section '{}': local peer have a {} listener and a {} server configured at line {}:{}.",
                    draft.name,
                    with_tls(listener),
                    with_tls(server),
                    servers[own].file,
                    servers[own].line,
                ),
            );
        }
        let shards = draft.shards;
        let peer = |server: Shared<Server>| {
            let shard = Some(server.rare().shard).filter(|shard| *shard <= shards && server.name != local);
            Peer { shard: shard.unwrap_or(0), server }
        };
        for server in servers.iter().filter(|server| shards == 0 && server.rare().shard > 0) {
            warn(
                cx,
                format!(
                    "Peers section '{}': shard ignored for '{}' local peer because {} shard value is greater than the section number of shards (0)",
                    draft.name,
                    server.name,
                    server.rare().shard,
                ),
            );
        }
        cx.config.peers.push(PeersSection {
            name: Arc::clone(&draft.name),
            bind: draft.building.p.binds.remove(0),
            peers: servers.into_iter().map(peer).collect(),
            local: own,
            shards,
            log_targets: std::mem::take(&mut draft.targets).into(),
            tables: tables_of(cx, &draft.name),
        });
    }
}

/// A warning about a section as a whole. What follows from a line that could not be read would only repeat it in other words.
fn warn(cx: &mut Cx<'_>, message: String) {
    if !cx.diagnostics.has_errors() {
        cx.diagnostics.push(Diagnostic::new(Severity::Warning, Lead::Bare, None, message));
    }
}

/// The tables of a section stand alone from here on.
fn leave(cx: &mut Cx<'_>, section: &Arc<str>) {
    for table in cx.tables.iter_mut().filter(|table| table.spec.peers.as_ref() == Some(section)) {
        table.spec.peers = None;
    }
}

/// The tables that a section shares, by number: its own, the last first, then those of proxies.
fn tables_of(cx: &Cx<'_>, section: &Arc<str>) -> Vec<usize> {
    let shared = |at: &usize| cx.tables[*at].spec.peers.as_ref() == Some(section);
    let is_own = |at: &usize| cx.tables[*at].spec.name.contains('/');
    let all = 0..cx.tables.len();
    let own = all.clone().rev().filter(|at| shared(at) && is_own(at));
    own.chain(all.clone().filter(|at| shared(at) && !is_own(at))).collect()
}

fn resolve_table(cx: &mut Cx<'_>, sections: &[PeersDraft], at: usize) {
    let bare = |span, message| Diagnostic::new(Severity::Alert, Lead::Bare, Some(span), message);
    let TableDraft { spec, span, write_to, .. } = &cx.tables[at];
    if let Some(section) = &spec.peers
        && !sections.iter().any(|known| known.name == *section)
    {
        let message = format!("Proxy '{}': unable to find sync peers '{section}'.", spec.name);
        let alert = bare(*span, message);
        cx.tables[at].spec.peers = None;
        return cx.diagnostics.push(alert);
    }
    let Some(target) = write_to else { return };
    let place = format!("Parsing [{}:{}]", cx.sources.name(span.file), span.line);
    let failed = |what: String| {
        bare(*span, format!("{place}: failed to initialize '{}' stick-table: write-to: {what}.", spec.name))
    };
    let found = cx.tables.iter().position(|other| other.spec.name == *target);
    let kind = |key: KeyType| key.name();
    match found {
        None => {
            let alert = failed(format!("table '{target}' doesn't exist"));
            cx.diagnostics.push(alert);
        }
        Some(other) => {
            let key = cx.tables[other].spec.key;
            if key != spec.key {
                let alert = failed(format!(
                    "cannot mix table types ('{target}' has '{}' type and '{}' has '{}' type)",
                    kind(key),
                    spec.name,
                    kind(spec.key)
                ));
                return cx.diagnostics.push(alert);
            }
            // Into itself is where it goes anyway.
            cx.tables[at].spec.write_to = u32::try_from(other).ok().filter(|_| other != at);
        }
    }
}
