//! Servers and backends that are added to a configuration in force (management manual: `add server`, `add backend`).

use std::sync::Arc;

use thalweg_syntax::{Environment, Line};

use crate::build::{Building, Cx, DefaultsSection};
use crate::keyword::{Status, find};
use crate::load::LoadOptions;
use crate::model::{Config, Mode, Proxy, ProxyId, ProxyKind, Server, ServerId, Shared, SharedLive};
use crate::presets;
use crate::sample_env::NameTable;
use crate::table::SERVER;
use crate::written::{self, sentence};
use crate::{finish, proxy, server, tls};

/// The options that such a server may have, in the order in which the reference lists them (`add server help`). Those of them
/// that do not work here are refused as in a file.
pub const DYNAMIC_OPTIONS: &[&str] = &[
    "allow-0rtt",
    "alpn",
    "ca-file",
    "check-alpn",
    "check-sni",
    "check-ssl",
    "ciphers",
    "ciphersuites",
    "client-sigalgs",
    "crl-file",
    "curves",
    "crt",
    "force-sslv3",
    "force-tlsv10",
    "force-tlsv11",
    "force-tlsv12",
    "force-tlsv13",
    "ktls",
    "no-check-sni-auto",
    "no-renegotiate",
    "no-sni-auto",
    "no-ssl-reuse",
    "no-sslv3",
    "no-tlsv10",
    "no-tlsv11",
    "no-tlsv12",
    "no-tlsv13",
    "no-tls-tickets",
    "npn",
    "renegotiate",
    "send-proxy-v2-ssl",
    "send-proxy-v2-ssl-cn",
    "sigalgs",
    "sni",
    "ssl",
    "ssl-min-ver",
    "ssl-max-ver",
    "tls-tickets",
    "verify",
    "verifyhost",
    "backup",
    "adaptive-maxconn",
    "cookie",
    "disabled",
    "error-limit",
    "guid",
    "ws",
    "hash-key",
    "id",
    "idle-ping",
    "init-state",
    "maxconn",
    "maxqueue",
    "minconn",
    "no-backup",
    "no-send-proxy",
    "no-send-proxy-v2",
    "no-tfo",
    "observe",
    "on-error",
    "on-marked-down",
    "on-marked-up",
    "pool-conn-name",
    "pool-low-conn",
    "pool-max-conn",
    "pool-purge-delay",
    "proto",
    "proxy-v2-options",
    "send-proxy",
    "send-proxy-v2",
    "set-proxy-v2-tlv-fmt",
    "shard",
    "slowstart",
    "source",
    "strict-maxconn",
    "tfo",
    "track",
    "usesrc",
    "weight",
    "zone",
    "healthcheck",
    "addr",
    "agent-addr",
    "agent-check",
    "agent-inter",
    "agent-port",
    "agent-send",
    "check",
    "check-pool-conn-name",
    "check-proto",
    "check-reuse-pool",
    "check-send-proxy",
    "check-via-socks4",
    "rise",
    "fall",
    "inter",
    "fastinter",
    "downinter",
    "port",
];

/// What a line says about a server.
pub struct NewServer {
    /// The server, as a file that says `disabled` would have it, without a number of its own.
    pub server: Server,
    /// Certificates and the lines that use them, if this is the first one that does.
    pub tls: Option<SharedLive>,
}

/// Reads what follows `add server <backend>/<name>`: an address and options. `name` is that of the server, `words` the rest.
///
/// # Errors
/// What is wrong, in one sentence.
pub fn new_server(
    options: &LoadOptions<'_>,
    config: &Config,
    backend: &Proxy,
    name: &str,
    words: &[&str],
) -> Result<NewServer, String> {
    let mut cx = Cx::new(options);
    cx.in_force = Some(config);
    cx.config.global = config.global.clone();
    cx.config.tls.clone_from(&config.tls);
    cx.registry = Arc::clone(&config.registry);
    let line = line_of(&mut cx, name, words)?;
    let title = format!("'server {}/{name}' : ", backend.name);
    let plain = |message: &str| message.strip_prefix(&title).unwrap_or(message).to_owned();
    for word in words.iter().skip(1) {
        let option = word.split('(').next().unwrap_or(word);
        let is_option = !presets::WORDS.contains(&option)
            && find(SERVER, option).is_some_and(|keyword| !matches!(keyword.status, Status::Removed(_)));
        if is_option && !DYNAMIC_OPTIONS.contains(&option) && !follows_an_option(words, word) {
            return Err(format!("'{word}' option is not accepted for dynamic server"));
        }
    }
    let mut b = backend_of(&line, backend);
    server::server(&mut cx, &mut b, &line).map_err(|complaint| plain(&complaint.message))?;
    let track = b.tracks.pop().map(|(_, wanted, _)| wanted);
    let uses_names = !b.proxy_fields.is_empty()
        || !b.pool_names.is_empty()
        || b.p.servers.iter().any(|server| server.tls.is_some());
    if uses_names {
        cx.name_table = NameTable::of(config);
    }
    finish::proxy_fields(&mut cx, &mut b);
    finish::names::compile(&mut cx, &mut b);
    tls::load_servers(&mut cx, &mut b);
    // Its checks do what its own line says of them, not what traffic does.
    for server in &mut b.p.servers {
        if let Some(tls) = &mut server.tls {
            let tls = Arc::make_mut(tls);
            tls.check_ssl &= tls.words.check_ssl == Some(true);
        }
    }
    finish::checks::server(&mut cx, &mut b, 0);
    let alert = cx.diagnostics.iter().find(|d| d.severity == thalweg_syntax::Severity::Alert);
    if let Some(alert) = alert {
        let message = alert.message.split_once(": ").map_or(&*alert.message, |_| &alert.message);
        let at = message.find(&title).map_or(0, |at| at + title.len());
        return Err(message[at..].to_owned());
    }
    let Some(server) = b.p.servers.pop() else { return Err("nothing was read".into()) };
    let mut server = Server::clone(&server);
    if server.rare().datagram {
        let mode = backend.mode.name();
        return Err(format!("unsupported transport for server address in '{mode}' backend."));
    }
    let usable = finish::checks::usable_protocols(backend.mode);
    if server.rare().proto.as_deref().is_some_and(|proto| !usable.contains(&proto)) {
        return Err("MUX protocol is not usable for server.".into());
    }
    if finish::checks::is_checked_otherwise(backend, &server) {
        return Err("incompatible MUX protocol for the selected check type.".into());
    }
    if let Some(wanted) = track {
        let tracked = tracked(config, backend, &wanted)?;
        Arc::make_mut(server.extra.get_or_insert_default()).track = Some(tracked);
    }
    let said = written::words(line.words.iter().map(|word| word.text()));
    Arc::make_mut(server.extra.get_or_insert_default()).added = Some(Arc::new(said));
    server.disabled = true;
    server.is_dynamic = true;
    server.uid_given = server.uid != 0;
    check_unique(config, backend, &server)?;
    let tls = cx.config.tls.filter(|_| config.tls.is_none());
    Ok(NewServer { server, tls })
}

/// Whether a word is what follows an option that takes one, so that it only looks like an option (`cookie disabled`).
fn follows_an_option(words: &[&str], word: &&str) -> bool {
    const TAKE_ONE: [&str; 13] = [
        "cookie",
        "from",
        "guid",
        "agent-send",
        "check-sni",
        "sni",
        "crt",
        "ca-file",
        "crl-file",
        "pool-conn-name",
        "check-pool-conn-name",
        "verifyhost",
        "track",
    ];
    let at = words.iter().position(|other| std::ptr::eq(other, word));
    at.and_then(|at| words.get(at.checked_sub(1)?)).is_some_and(|before| TAKE_ONE.contains(before))
}

/// The words as a line of a file.
fn line_of(cx: &mut Cx<'_>, name: &str, words: &[&str]) -> Result<Line, String> {
    let all: Vec<&str> = ["server", name].into_iter().chain(words.iter().copied()).collect();
    words_line(cx, &all)
}

/// Words as a line that is read at run time.
pub(crate) fn words_line<S: AsRef<str>>(cx: &mut Cx<'_>, words: &[S]) -> Result<Line, String> {
    let file = cx.sources.add("CLI", (sentence(words) + "\n").into_bytes());
    cx.reader.start_file(file);
    cx.reader.next_line(&cx.sources, &mut cx.diagnostics).ok_or_else(|| "the line cannot be read.".to_owned())
}

/// The backend without its servers, to read a line of.
fn backend_of(line: &Line, backend: &Proxy) -> Building {
    let mut b = proxy::fresh(line.span());
    b.p = backend.clone();
    b.p.servers = Vec::new();
    b.p.reindex();
    b
}

/// The server that another one is to have the state of, by `server` or `backend/server`.
fn tracked(config: &Config, own: &Proxy, wanted: &str) -> Result<(ProxyId, ServerId), String> {
    let (proxy, name) = match wanted.split_once('/') {
        None => (own, wanted),
        Some((backend, name)) => {
            let mut backends = config.proxies.iter().filter(|proxy| proxy.is_be());
            let found = backends.find(|proxy| &*proxy.name == backend);
            let missing = || format!("unable to find required proxy '{backend}' for tracking.");
            (&**found.ok_or_else(missing)?, name)
        }
    };
    let missing = || format!("unable to find required server '{name}' for tracking.");
    let server = proxy.server_by_name(name).ok_or_else(missing)?;
    if server.is_dynamic {
        return Err(format!("unable to use {}/{name} for tracking as it is a dynamic server.", proxy.name));
    }
    let has_agent = server.rare().agent.as_ref().is_some_and(|agent| agent.asked);
    if server.check.is_none() && !has_agent && server.rare().track.is_none() {
        return Err(format!(
            "unable to use {}/{name} for tracking as it does not have any check nor agent enabled.",
            proxy.name
        ));
    }
    Ok((proxy.id, server.id))
}

/// A number and a `guid` belong to one.
fn check_unique(config: &Config, backend: &Proxy, server: &Server) -> Result<(), String> {
    let same = |other: &&Shared<Server>| other.uid == server.uid;
    if let Some(other) = backend.servers.iter().filter(|_| server.uid != 0).find(same) {
        return Err(format!(
            "'id' : custom id {} already used at {}:{} ('server {}').",
            server.uid, other.file, other.line, other.name
        ));
    }
    match server.rare().guid.as_deref().and_then(|guid| guid_owner(config, guid)) {
        Some(owner) => Err(format!("'guid': duplicate entry with {owner}.")),
        None => Ok(()),
    }
}

/// Makes what `add backend <name> from <preset> [mode <mode>] [guid <guid>]` asks for.
///
/// # Errors
/// What is wrong, in one sentence.
pub fn new_backend(
    options: &LoadOptions<'_>,
    config: &Config,
    name: &str,
    preset: &str,
    mode: Option<&str>,
    guid: Option<&str>,
) -> Result<Proxy, String> {
    if let Some(c) = name.chars().find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':')))
    {
        return Err(format!("Invalid character '{c}' in backend name."));
    }
    let Some(from) = config.preset(preset) else {
        return Err(format!("Cannot find default proxy '{preset}'."));
    };
    let mode_given = mode;
    let mode = mode_of(from, preset, mode)?;
    let failed = |what: String| format!("Error during backend creation : {what}");
    if let Some(other) = config.proxies.iter().find(|proxy| &*proxy.name == name) {
        let title = format!("{} {}", other.kind.keyword(), other.name);
        return Err(failed(format!("name is already used by other proxy '{title}'.")));
    }
    let mut cx = joining(options, config);
    cx.defaults.push(Arc::clone(from));
    let line = words_line(&mut cx, &["backend", name, "from", preset])?;
    let mut b = proxy::open(&mut cx, &line, ProxyKind::Backend).map_err(|e| failed(e.message.clone()))?;
    b.p.mode = mode;
    b.p.unpublished = true;
    if let Some(guid) = guid {
        let taken = guid_owner(config, guid);
        if let Some(owner) = taken {
            return Err(failed(format!("GUID insertion : duplicate entry with {owner}.")));
        }
        b.p.guid = Some(cx.name(guid));
    }
    proxy::close(&mut cx, b);
    finish::finish(&mut cx);
    if let Some(alert) = cx.diagnostics.iter().find(|d| d.severity == thalweg_syntax::Severity::Alert) {
        return Err(failed(alert.message.clone()));
    }
    let made = cx.config.proxies.pop().ok_or_else(|| failed("nothing was read.".into()))?;
    let mut made = Proxy::clone(&made);
    made.uid = (2..).find(|uid| config.proxies.iter().all(|proxy| proxy.uid != *uid)).unwrap_or(u32::MAX);
    made.is_referenced = false;
    made.is_dynamic = true;
    let mode = mode_given.map(|mode| written::words(["mode", mode]));
    let guid = guid.map(|guid| written::words(["guid", guid]));
    let section = [written::words(["backend", name, "from", preset])];
    made.rare_mut().added = Some(Arc::new(section.into_iter().chain(mode).chain(guid).collect()));
    Ok(made)
}

/// What a backend without a number is read in, that may use all that there is in a configuration.
fn joining<'a>(options: &'a LoadOptions<'a>, config: &'a Config) -> Cx<'a> {
    let mut cx = Cx::new(options);
    cx.in_force = Some(config);
    cx.is_numberless = true;
    cx.config.global = config.global.clone();
    cx.config.userlists.clone_from(&config.userlists);
    cx.config.http_errors.clone_from(&config.http_errors);
    cx.config.log_profiles.clone_from(&config.log_profiles);
    cx.config.resolvers.clone_from(&config.resolvers);
    cx.config.opentelemetry.clone_from(&config.opentelemetry);
    cx.mailers = config.mailers.iter().map(|mailers| (Arc::clone(mailers), String::new())).collect();
    cx.registry = Arc::clone(&config.registry);
    // Lines that are inherited say where they are.
    for text in config.written.texts() {
        cx.sources.add(&*text.name, Vec::new());
    }
    cx
}

/// The mode of a backend that is added.
fn mode_of(from: &DefaultsSection, preset: &str, given: Option<&str>) -> Result<Mode, String> {
    match given {
        Some("tcp") => Ok(Mode::Tcp),
        Some("http") => Ok(Mode::Http),
        Some("log" | "spop") => Err(ONLY_TCP_OR_HTTP.into()),
        Some(_) => Err("Unknown proxy mode.".into()),
        None if !from.building.mode_here => {
            Err(format!("Mode is required as '{preset}' default proxy does not explicitly defines it."))
        }
        None if from.building.p.mode == Mode::Log => Err(ONLY_TCP_OR_HTTP.into()),
        None => Ok(from.building.p.mode),
    }
}

const ONLY_TCP_OR_HTTP: &str = "Dynamic backends are compatible with only TCP or HTTP mode.";

/// A backend that was added to configuration `before`, as its preset has it in the one that follows. Where that preset is gone
/// it stays as it is, unless that had rules: what these name may be gone, too.
///
/// # Errors
/// Why it cannot stay.
pub(crate) fn followed(
    environment: &Environment,
    config: &Config,
    before: &Config,
    backend: &Shared<Proxy>,
) -> Result<Shared<Proxy>, String> {
    let lines = backend.rare().added.as_deref().map_or(&[][..], |lines| lines);
    let word = |name: &str, at: usize| {
        let line = lines.iter().find(|line| &*line[0] == name)?;
        line.get(at).map(|word| &**word)
    };
    let preset = word("backend", 3).unwrap_or_default();
    let had_rules = before.preset(preset).is_some_and(|section| section.building.has_rules);
    if config.preset(preset).is_none() && !had_rules {
        return Ok(backend.clone());
    }
    let options = LoadOptions { environment: environment.clone(), ..LoadOptions::default() };
    let mut made = new_backend(&options, config, &backend.name, preset, word("mode", 1), word("guid", 1))?;
    made.id = backend.id;
    if config.proxies.iter().all(|proxy| proxy.uid != backend.uid) {
        made.uid = backend.uid;
    }
    Ok(made.into())
}

/// Who has a `guid`.
fn guid_owner(config: &Config, guid: &str) -> Option<String> {
    config.proxies.iter().find_map(|proxy| {
        if proxy.guid.as_deref() == Some(guid) {
            return Some(format!("{} {}", proxy.kind.keyword(), proxy.name));
        }
        if let Some(bind) = proxy.binds.iter().find(|bind| bind.guid.as_deref() == Some(guid)) {
            return Some(format!("listener {} ({})", bind.name.as_deref().unwrap_or("?"), proxy.name));
        }
        let server = proxy.servers.iter().find(|server| server.rare().guid.as_deref() == Some(guid))?;
        Some(format!("server {}/{}", proxy.name, server.name))
    })
}
