//! `server`, `default-server` and `server-template`: the lines.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use thalweg_dns::Name;
use thalweg_syntax::address::{PortSpec, Transport};
use thalweg_syntax::{Address, AddressOptions, Diagnostic, Lead, Line, did_you_mean};

use crate::build::{Building, Cx, InitAddr, NamedDraft, ResolutionDraft, ServerDraft};
use crate::keyword::{Keyword, NoteBoxed, Outcome, Status, fail, find, not_supported};
use crate::meaning::Servers;
use crate::model::{PortMode, Server, ServerAddr, ServerId};
use crate::numbers::strict;
use crate::presets;
use crate::resolve;
use crate::setter::Setter;
use crate::table::SERVER;

/// Servers one `server-template` line may make: a typing error must not fill the memory.
const TEMPLATE_MAX: i64 = 100_000;

/// Gives a complaint the form that the reference uses for servers.
fn located(mut diagnostic: Box<Diagnostic>) -> Box<Diagnostic> {
    diagnostic.lead = Lead::Located;
    diagnostic
}

/// Refuses the line in a section that has no servers.
fn check_section(cx: &Cx<'_>, b: &Building, line: &Line) -> Outcome {
    if b.may_be_backend() {
        return Ok(());
    }
    let message = format!(
        "parsing [{}:{}] : '{}' not allowed because {} has no backend capability.",
        cx.sources.name(line.file),
        line.number,
        line.text(0),
        b.title()
    );
    Err(located(fail(line, 0, message)))
}

fn legal_name(line: &Line, index: usize) -> Outcome {
    let name = line.text(index);
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    match name.chars().find(|c| !legal(*c)) {
        None => Ok(()),
        Some(c) => Err(located(fail(
            line,
            index,
            format!("character '{c}' is not permitted in server name '{name}'."),
        ))),
    }
}

/// `default-server [name <name>] [from <origin>] <options>`
pub(crate) fn default_server(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    check_section(cx, b, line)?;
    let name = if line.text(1) == "name" { Some(preset_name(cx, b, line)?) } else { None };
    let at = if name.is_some() { 3 } else { 1 };
    let origin = presets::origin(cx, b, line, at).map_err(located)?;
    let says_nothing = origin.as_ref().is_some_and(|(_, next)| *next == line.words.len());
    let is_reset = says_nothing && line.text(at + 1) == "none";
    let (mut draft, next) = match (origin, &name) {
        (Some(origin), _) => origin,
        (None, None) => (ServerDraft::clone(&b.presets.unnamed), at),
        (None, Some(name)) => {
            let known = b.presets.named(name);
            (known.map_or_else(presets::nothing, |draft| ServerDraft::clone(draft)), at)
        }
    };
    draft.backend = Arc::clone(&b.p.name);
    options(cx, line, next, &mut draft, (b.whose, None))?;
    draft.server.said = draft.server.said.and(cx.said);
    match name {
        Some(name) => b.presets.set(name, line.number, draft),
        None => {
            b.presets.unnamed = Arc::new(draft);
            b.presets.is_set = !is_reset;
        }
    }
    Ok(())
}

/// The name of a preset, which no server has.
fn preset_name(cx: &mut Cx<'_>, b: &Building, line: &Line) -> Result<Arc<str>, Box<Diagnostic>> {
    let text = line.text(2);
    if text.is_empty() {
        return Err(located(fail(line, 2, "default-server name: missing value.")));
    }
    if let Some(first) = b.server_names.get(text) {
        let message = format!("default-server name '{text}' conflicts with server defined at line {first}.");
        return Err(located(fail(line, 2, message)));
    }
    Ok(cx.name(text))
}

/// `server`
pub(crate) fn server(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    check_section(cx, b, line)?;
    if b.p.kind == crate::model::ProxyKind::Defaults {
        return Err(located(fail(line, 0, "'server' not allowed in 'defaults' section.")));
    }
    if line.words.len() < 3 {
        return Err(located(fail(
            line,
            line.words.len(),
            "'server' expects <name> and <addr>[:<port>] as arguments.",
        )));
    }
    legal_name(line, 1)?;
    let title = format!("'server {}/{}' : ", b.p.name, line.text(1));
    let (mut draft, next) = start(cx, b, line, 3, &title)?;
    address(cx, line, 2, &mut draft, &title)?;
    options(cx, line, next, &mut draft, (b.whose, Some(&title)))?;
    let name = cx.name(line.text(1));
    push(cx, b, line, draft, name, &title)
}

/// `server <name> [options]` of a `peers` section, for this process itself.
pub(crate) fn without_address(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    legal_name(line, 1)?;
    let title = format!("'server {}/{}' : ", b.p.name, line.text(1));
    let (mut draft, next) = start(cx, b, line, 2, &title)?;
    options(cx, line, next, &mut draft, (b.whose, Some(&title))).map_err(|mut e| {
        if e.message.contains("unknown keyword") && !e.message.ends_with('?') {
            let message = e.message.trim_end_matches('.').to_owned();
            e.message = message + ". Hint: no address was expected for this server.";
        }
        e
    })?;
    let name = cx.name(line.text(1));
    push(cx, b, line, draft, name, &title)
}

/// What follows the address of a name server that is asked over streams.
pub(crate) fn of_name_server(
    cx: &mut Cx<'_>,
    b: &mut Building,
    line: &Line,
    addr: SocketAddr,
    is_mptcp: bool,
) -> Outcome {
    let title = format!("'server (null)/{}' : ", line.text(1));
    let (mut draft, next) = start(cx, b, line, 3, &title)?;
    draft.server.addr = ServerAddr::Tcp(addr);
    if is_mptcp {
        crate::server_options::rare(&mut draft).mptcp = true;
    }
    options(cx, line, next, &mut draft, (b.whose, Some(&title)))?;
    let name = cx.name(line.text(1));
    push(cx, b, line, draft, name, &title)
}

/// `server-template <prefix> <count|low-high> <addr>`
pub(crate) fn server_template(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    check_section(cx, b, line)?;
    if b.p.kind == crate::model::ProxyKind::Defaults {
        return Err(located(fail(line, 0, "'server-template' not allowed in 'defaults' section.")));
    }
    if line.words.len() < 4 {
        let usage = "'server-template' expects <prefix> <nb | range> <addr>[:<port>] as arguments.";
        return Err(located(fail(line, line.words.len(), usage)));
    }
    legal_name(line, 1)?;
    let text = line.text(2);
    let (low, high) = match text.split_once('-') {
        Some((low, high)) => (strict(low), strict(high)),
        None => (Some(1), strict(text)),
    };
    let (Some(low), Some(high)) = (low, high) else {
        return Err(located(fail(line, 2, format!("Wrong server-template number or range arg '{text}'."))));
    };
    if low < 0 || high < low {
        return Err(located(fail(line, 2, format!("Wrong server-template number or range arg '{text}'."))));
    }
    if high - low >= TEMPLATE_MAX {
        return Err(located(fail(line, 2, format!("Wrong server-template number or range arg '{text}'.")))
            .note_boxed(format!("one line makes at most {TEMPLATE_MAX} servers")));
    }
    let title = format!("'server-template {}/{}' : ", b.p.name, line.text(1));
    let (mut draft, next) = start(cx, b, line, 4, &title)?;
    address(cx, line, 3, &mut draft, &title)?;
    options(cx, line, next, &mut draft, (b.whose, Some(&title)))?;
    for number in low..=high {
        let name = cx.name(&format!("{}{number}", line.text(1)));
        let mut one = draft.clone();
        // An explicit id belongs to the first; the others are numbered.
        if number > low {
            one.server.uid = 0;
        }
        push(cx, b, line, one, name, &title)?;
    }
    Ok(())
}

/// What the server of a line starts with, as `from` at `at` says, and where the line goes on.
fn start(
    cx: &Cx<'_>,
    b: &Building,
    line: &Line,
    at: usize,
    title: &str,
) -> Result<(ServerDraft, usize), Box<Diagnostic>> {
    let origin = presets::origin(cx, b, line, at).map_err(|mut e| {
        e.message.insert_str(0, title);
        located(e)
    })?;
    let (mut draft, next) = match origin {
        Some(origin) => origin,
        None => (ServerDraft::clone(&b.presets.unnamed), at),
    };
    draft.backend = Arc::clone(&b.p.name);
    if cx.in_force.is_some() {
        // Nobody resolves the name of a server that is added at run time.
        draft.init_addr = Arc::from([InitAddr::None]);
    }
    Ok((draft, next))
}

/// Adds a finished server to its backend, refusing a name taken already.
fn push(
    cx: &mut Cx<'_>,
    b: &mut Building,
    line: &Line,
    draft: ServerDraft,
    name: Arc<str>,
    title: &str,
) -> Outcome {
    let preset = b.presets.line_of(&name);
    if let Some(first) = b.server_names.get(&name).copied().or(preset) {
        let message = format!(
            "{title}another server named '{name}' was already defined at line {first}, please use a distinct name."
        );
        return Err(located(fail(line, 1, message)));
    }
    let mut server = draft.server;
    check_id(b, line, &server, title)?;
    server.file = cx.file_of(line);
    server.line = line.number;
    server.id = ServerId(b.p.servers.len() as u32);
    server.said = server.said.and(cx.said);
    server.name = Arc::clone(&name);
    // Without `check`, its parameters have nothing to act on.
    if let Some(check) = &server.check {
        (server.rise, server.fall) = (check.rise, check.fall);
    }
    agent(line, &mut server, &name)?;
    if !draft.check {
        server.check = None;
    }
    if let ServerAddr::Unresolved(name, _) = &server.addr {
        Arc::make_mut(server.extra.get_or_insert_default()).fqdn = Some(Arc::clone(name));
    }
    let later = draft.resolvers.is_some();
    if let Some((section, span)) = draft.resolvers {
        let wrong = server.rare().fqdn.as_ref().filter(|name| Name::new(name).is_err());
        if let Some(wrong) = wrong {
            let message = format!("{title}Can't create DNS resolution for server '{name}'");
            let at = if line.text(0) == "server" { 2 } else { 3 };
            return Err(located(fail(line, at, message)).note_boxed(format!(
                "'{wrong}' is no name that can be asked for: those have letters, digits, '-', '_' and dots between them"
            )));
        }
        let (server, preference) = (b.p.servers.len(), draft.preference);
        b.resolutions.push(ResolutionDraft { server, section, span, preference });
    }
    b.datagram_servers |= draft.datagram;
    if draft.datagram {
        Arc::make_mut(server.extra.get_or_insert_default()).datagram = true;
    }
    if let Some((wanted, span)) = draft.track {
        if server.check.is_some() {
            let message = format!("{title}unable to enable checks and tracking at the same time!");
            return Err(located(fail(line, 0, message)));
        }
        b.tracks.push((b.p.servers.len(), wanted, span));
    }
    let position = b.p.servers.len();
    b.healthchecks.extend(draft.healthcheck.map(|(name, span)| (position, name, span)));
    if !draft.proxy_fields.is_empty() {
        b.proxy_fields.push((position, draft.proxy_fields));
    }
    b.pool_names.extend(draft.pool_name.map(|(text, span)| (position, text, span)));
    if matches!(server.addr, ServerAddr::Unresolved(..)) {
        b.named.push(NamedDraft {
            server: position,
            methods: Arc::clone(&draft.init_addr),
            later,
            span: line.span_at(if line.text(0) == "server" { 2 } else { 3 }),
        });
    }
    b.server_names.insert(name, line.number);
    b.p.servers.push(server.into());
    Ok(())
}

/// The number of a server that has one must not be another one's.
fn check_id(b: &Building, line: &Line, server: &Server, title: &str) -> Outcome {
    if server.uid != 0
        && let Some(other) = b.p.servers.iter().find(|s| s.uid == server.uid)
    {
        let at = (0..line.words.len()).rev().find(|i| line.text(*i) == "id").unwrap_or(0);
        let message = format!(
            "{title}'id' : custom id {} already used at {}:{} ('server {}').",
            server.uid, other.file, other.line, other.name
        );
        return Err(located(fail(line, at, message)));
    }
    Ok(())
}

/// An agent is where the checks go, unless its own words say otherwise.
fn agent(line: &Line, server: &mut Server, name: &str) -> Outcome {
    let Some(mut agent) = server.rare().agent.clone() else { return Ok(()) };
    if let Some(check) = server.check.as_deref()
        && (agent.addr.is_none() || agent.port.is_none())
    {
        let filled = Arc::make_mut(&mut agent);
        filled.addr = filled.addr.or(check.addr.map(|addr| addr.ip()));
        filled.port = filled.port.or(check.port);
        Arc::make_mut(server.extra.get_or_insert_default()).agent = Some(Arc::clone(&agent));
    }
    if agent.asked && agent.port.is_none() {
        let at = (0..line.words.len()).rev().find(|at| line.text(*at) == "agent-check").unwrap_or(0);
        let message = format!("server {name} does not have agent port. Agent check has been disabled.");
        return Err(located(fail(line, at, message)));
    }
    Ok(())
}

/// Resolves the host names of servers by the methods of `init-addr`. `last` is the address that a server had in a former
/// process.
pub(crate) fn resolve_names(cx: &mut Cx<'_>, b: &mut Building, last: impl Fn(ServerId) -> Option<IpAddr>) {
    for draft in std::mem::take(&mut b.named) {
        let server = &b.p.servers[draft.server];
        let ServerAddr::Unresolved(name, port) = server.addr.clone() else { continue };
        match find_address(cx, &draft, &name, last(server.id)) {
            Ok(None) => {}
            Ok(Some(ip)) => b.p.servers[draft.server].addr = ServerAddr::Tcp(SocketAddr::new(ip, port)),
            // `-dr` asks for a look at the rest of the file, wherever names cannot be resolved.
            Err(_) if cx.options.ignore_resolution => {}
            Err(what) => {
                let message =
                    format!("'server {}/{}' : {what} resolve address '{name}'.", b.p.name, server.name);
                let alert = Diagnostic::alert_at(draft.span, message).lead(Lead::BareLocated);
                cx.diagnostics.push(alert.help("'init-addr none' starts without an address"));
            }
        }
    }
}

/// The address of a name; `None` when the server may start without one. One that is resolved later anyway may, unless its line
/// says how it is to be found.
fn find_address(
    cx: &mut Cx<'_>,
    draft: &NamedDraft,
    name: &Arc<str>,
    last: Option<IpAddr>,
) -> Result<Option<IpAddr>, &'static str> {
    const USUAL: [InitAddr; 3] = [InitAddr::Last, InitAddr::Libc, InitAddr::None];
    let methods = match &*draft.methods {
        [] if draft.later => &USUAL[..],
        [] => &USUAL[..2],
        given => given,
    };
    // The system's resolver knows nothing of services.
    let is_service = name.starts_with('_');
    let mut failure = "no method found to";
    for method in methods {
        let found = match method {
            InitAddr::Last => last,
            InitAddr::Libc if is_service => None,
            InitAddr::Libc => {
                failure = "could not";
                cx.host_cache.get(name).copied().flatten().or_else(|| {
                    let ip = (cx.options.resolver)(name, thalweg_syntax::address::Family::Any);
                    cx.host_cache.insert(Arc::clone(name), ip);
                    ip
                })
            }
            InitAddr::None => return Ok(None),
            InitAddr::Ip(ip) => Some(*ip),
        };
        if found.is_some() {
            return Ok(found);
        }
    }
    Err(failure)
}

/// Reads the address of a server into the draft.
fn address(cx: &mut Cx<'_>, line: &Line, index: usize, draft: &mut ServerDraft, title: &str) -> Outcome {
    let parsed = resolve::address(cx, line, index, &AddressOptions::SERVER, title).map_err(located)?;
    let family = parsed.family_name();
    let (fixed, mode) = match parsed.port() {
        PortSpec::Fixed(0) | PortSpec::None => (0, PortMode::SameAsClient),
        PortSpec::Fixed(port) | PortSpec::Range(port, _) => (port, PortMode::Fixed),
        PortSpec::Offset(offset) => (0, PortMode::Offset(offset)),
    };
    if matches!(
        parsed,
        Address::Ip { transport: Transport::Mptcp, .. } | Address::Name { transport: Transport::Mptcp, .. }
    ) {
        crate::server_options::rare(draft).mptcp = true;
    }
    let server = &mut draft.server;
    server.port_mode = mode;
    server.addr = match parsed {
        Address::Ip { transport: Transport::Stream | Transport::Mptcp, ip, .. } => {
            ServerAddr::Tcp(SocketAddr::new(ip, fixed))
        }
        Address::Name { transport: Transport::Stream | Transport::Mptcp, name, .. } => {
            ServerAddr::Unresolved(cx.name(&name), fixed)
        }
        Address::Ip { transport: Transport::Datagram, ip, .. } => {
            draft.datagram = true;
            ServerAddr::Tcp(SocketAddr::new(ip, fixed))
        }
        Address::Unix { transport: Transport::Stream, path } => {
            server.port_mode = PortMode::Fixed;
            ServerAddr::Unix(Arc::new(PathBuf::from(path)))
        }
        Address::Abstract { transport: Transport::Stream, name, zero_terminated } => {
            server.port_mode = PortMode::Fixed;
            let name = name.into_bytes().into();
            if zero_terminated { ServerAddr::AbstractZ(name) } else { ServerAddr::Abstract(name) }
        }
        Address::ReverseHttp { name } => {
            crate::keyword::experimental_address(cx, line, index, title).map_err(located)?;
            if !name.is_empty() {
                let message = format!("{title}'rhttp@' of a server has nothing behind it (got '{name}')");
                return Err(located(fail(line, index, message)));
            }
            server.port_mode = PortMode::Fixed;
            ServerAddr::Reverse
        }
        _ => {
            let mut e = not_supported(line, index, family, "connecting to this kind of address is not built");
            e.message = format!("{title}{}", e.message);
            return Err(located(e));
        }
    };
    Ok(())
}

/// The options from the word at `at` on, of whose servers. `title` is absent for `default-server`.
pub(crate) fn options(
    cx: &mut Cx<'_>,
    line: &Line,
    mut at: usize,
    draft: &mut ServerDraft,
    (whose, title): (Servers, Option<&str>),
) -> Outcome {
    let prefix = title.unwrap_or("");
    while at < line.words.len() {
        let word = line.text(at);
        // `set-proxy-v2-tlv-fmt(0x20)` carries an argument in its name.
        let name = word.split('(').next().unwrap_or(word);
        let is_option = |name: &&str| !presets::WORDS.contains(name);
        let Some(keyword) = find(SERVER, name).filter(|_| is_option(&name)) else {
            let names = SERVER.iter().map(|k: &Keyword<Setter<ServerDraft>>| k.name);
            let near = did_you_mean(word, names.filter(is_option));
            let hint = near.map_or(String::new(), |n| format!("; did you mean '{n}' maybe ?"));
            let end = if title.is_some() {
                if near.is_some() { "" } else { "." }
            } else if near.is_some() {
                " Hint: no address was expected for this server."
            } else {
                ". Hint: no address was expected for this server."
            };
            return Err(located(fail(line, at, format!("{prefix}unknown keyword '{word}'{hint}{end}"))));
        };
        match keyword.status {
            Status::Works(setter) => match setter.read(cx, line, at, draft) {
                Ok(words) => {
                    whose.look_at(cx, line, at, name).map_err(|mut e| {
                        e.message = format!("{prefix}{}.", e.message);
                        located(e)
                    })?;
                    at += words;
                }
                Err(mut e) => {
                    if e.lead == Lead::Parsing {
                        e.message = format!("{prefix}{}.", e.message);
                        e.lead = Lead::Located;
                    }
                    return Err(e);
                }
            },
            Status::NotYet(why) => {
                let mut e = not_supported(line, at, name, why);
                e.message = format!("{prefix}{}", e.message);
                return Err(located(e));
            }
            Status::Removed(sentence) => return Err(located(fail(line, at, format!("{prefix}{sentence}")))),
        }
    }
    Ok(())
}
