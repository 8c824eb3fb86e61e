//! The options of a server.

use std::net::SocketAddr;
use std::sync::Arc;

use thalweg_syntax::address::PortSpec;
use thalweg_syntax::{Address, AddressOptions, Diagnostic, Line, TimeError, TimeUnit};

use crate::build::{Cx, InitAddr, ServerDraft};
use crate::keyword::{fail, not_supported};
use crate::model::{
    CheckConfig, HashKey, InitState, ProxyHeader, ProxyHeaderV2, SlowSettings, SourceAddress, SourceMode,
};
use crate::numbers::{count as count31, duration_ms, leading, lenient};
use crate::resolve::{address, addresses};

type Read = Result<usize, Box<Diagnostic>>;

fn rare(draft: &mut ServerDraft) -> &mut SlowSettings {
    Arc::make_mut(draft.server.extra.get_or_insert_with(Arc::default))
}

fn check(draft: &mut ServerDraft) -> &mut CheckConfig {
    Arc::make_mut(draft.server.check.get_or_insert_with(Arc::default))
}

fn value<'l>(line: &'l Line, at: usize, missing: &str) -> Result<&'l str, Box<Diagnostic>> {
    match line.text(at + 1) {
        "" => Err(fail(line, at + 1, missing)),
        text => Ok(text),
    }
}

/// What is on or off and has no value.
pub(crate) fn flag(_: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Read {
    match line.text(at) {
        "backup" => draft.server.backup = true,
        "no-backup" => draft.server.backup = false,
        "disabled" => draft.server.disabled = true,
        "enabled" => draft.server.disabled = false,
        "check" => {
            // With the usual parameters unless others are given.
            check(draft);
            draft.check = true;
        }
        "no-check" => draft.check = false,
        "check-send-proxy" => check(draft).send_proxy = true,
        "no-check-send-proxy" => check(draft).send_proxy = false,
        "tfo" => rare(draft).tfo = true,
        "no-tfo" if draft.server.extra.is_some() => rare(draft).tfo = false,
        "send-proxy" => draft.server.send_proxy = ProxyHeader::V1,
        "send-proxy-v2" => draft.server.send_proxy = ProxyHeader::V2(draft.v2_options),
        "no-send-proxy" if draft.server.send_proxy == ProxyHeader::V1 => {
            draft.server.send_proxy = ProxyHeader::None
        }
        "no-send-proxy-v2" | "no-send-proxy-v2-ssl" | "no-send-proxy-v2-ssl-cn"
            if matches!(draft.server.send_proxy, ProxyHeader::V2(_)) =>
        {
            draft.server.send_proxy = ProxyHeader::None;
        }
        // The others turn off what is never on here (`no-ssl`, `no-agent-check`, ...).
        _ => {}
    }
    Ok(1)
}

pub(crate) fn proxy_v2_options(_: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Read {
    let mut v2 = ProxyHeaderV2::default();
    for option in line.text(at + 1).split(',') {
        match option {
            "crc32c" => v2.crc32c = true,
            "unique-id" => v2.unique_id = true,
            "authority" | "ssl" | "cert-cn" | "ssl-cipher" | "cert-sig" | "cert-key" => {
                return Err(not_supported(
                    line,
                    at + 1,
                    &format!("proxy-v2-options {option}"),
                    "TLS is not built",
                ));
            }
            _ => return Err(fail(line, at + 1, format!("'{option}' : proxy v2 option not implemented"))),
        }
    }
    draft.v2_options = v2;
    if let ProxyHeader::V2(current) = &mut draft.server.send_proxy {
        *current = v2;
    }
    Ok(2)
}

pub(crate) fn weight(cx: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Read {
    let value = lenient(cx, line, at + 1);
    if !(0..=256).contains(&value) {
        let name = if line.text(0) == "server" { line.text(1) } else { "(null)" };
        return Err(fail(
            line,
            at + 1,
            format!("weight of server {name} is not within 0 and 256 ({value})."),
        ));
    }
    draft.server.weight = value as u16;
    Ok(2)
}

/// Counts: `maxconn`, `minconn`, `maxqueue`, `pool-low-conn`.
pub(crate) fn count(cx: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Read {
    let name = line.text(at);
    if name == "pool-low-conn" {
        value(line, at, "'pool-low-conn' expects <value> as argument.")?;
    }
    let value = u32::try_from(lenient(cx, line, at + 1)).unwrap_or(0);
    match name {
        "maxconn" => draft.server.maxconn = value,
        "minconn" => draft.server.minconn = value,
        "maxqueue" => draft.server.maxqueue = value,
        _ => draft.server.pool.low_conn = value,
    }
    Ok(2)
}

/// Counts that may be -1 for no limit: `pool-max-conn`, `max-reuse`.
pub(crate) fn limit(cx: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Read {
    let name = line.text(at);
    value(line, at, &format!("'{name}' expects <value> as argument."))?;
    let value = lenient(cx, line, at + 1);
    if name == "pool-max-conn" {
        if value < -1 || value > i64::from(i32::MAX) {
            return Err(fail(line, at + 1, "'pool-max-conn' must be >= -1"));
        }
        draft.server.pool.max_conn = i32::try_from(value).unwrap_or(i32::MAX);
    } else {
        draft.server.pool.max_reuse = i32::try_from(value.max(-1)).unwrap_or(i32::MAX);
    }
    Ok(2)
}

pub(crate) fn id(cx: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Read {
    if line.text(0) == "default-server" {
        let mut e = fail(line, at, "'id' option is not accepted in default-server sections");
        e.lead = thalweg_syntax::Lead::Located;
        return Err(e);
    }
    match u32::try_from(lenient(cx, line, at + 1)) {
        Ok(uid) if uid > 0 => draft.server.uid = uid,
        _ => return Err(fail(line, at + 1, "'id' : custom id has to be between 1 and 4294967295.")),
    }
    Ok(2)
}

/// Names and other plain texts.
pub(crate) fn text(cx: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Read {
    let name = line.text(at);
    let missing = match name {
        "cookie" => "'cookie' expects <value> as argument.",
        "redir" => "'redir' expects <prefix> as argument.",
        "cc" => "'cc' : missing TCP congestion control algorithm",
        "track" => "'track' expects [<proxy>/]<server> as argument.",
        _ => "expects a value",
    };
    let text = cx.name(value(line, at, missing)?);
    match name {
        "cookie" => draft.server.cookie = Some(text),
        "redir" => rare(draft).redir = Some(text),
        "cc" => rare(draft).cc = Some(text),
        _ => rare(draft).track = Some(text),
    }
    Ok(2)
}

pub(crate) fn guid(cx: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Read {
    let text = value(line, at, "'guid' : expects an argument")?;
    if line.text(0) == "default-server" {
        let message = "'guid' option is not accepted in default-server sections";
        cx.diagnostics
            .push(Diagnostic::warning_at(line.span_at(at), message).lead(thalweg_syntax::Lead::Located));
        return Ok(2);
    }
    crate::proxy::legal_guid(text)
        .map_err(|c| fail(line, at + 1, format!("'guid': invalid character '{c}'")))?;
    crate::proxy::claim_guid(cx, line, at + 1)?;
    rare(draft).guid = Some(cx.name(text));
    Ok(2)
}

/// Durations of health checks and of slow start. The words are the reference's, which names `agent-inter` for
/// `inter` as well, and `agent-inter`, which is checked.
pub(crate) fn delay(cx: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Read {
    let (name, text) = (line.text(at), line.text(at + 1));
    if text.is_empty() && name == "inter" {
        return Err(fail(line, at + 1, "'inter' expects a delay as argument."));
    }
    let server = if line.text(0) == "server" { line.text(1) } else { "(null)" };
    let shown = if name == "inter" { "agent-inter" } else { name };
    let ms = match duration_ms(cx, line, at + 1) {
        Ok(ms) => ms as u32,
        Err(TimeError::Overflow) => {
            let message = format!(
                "timer overflow in argument <{text}> to <{name}> of server {server}, maximum value is 2147483647 ms \
                 (~24.8 days)."
            );
            return Err(fail(line, at + 1, message));
        }
        Err(TimeError::Underflow) => {
            let message = format!(
                "timer underflow in argument <{text}> to <{name}> of server {server}, minimum non-null value is 1 ms."
            );
            return Err(fail(line, at + 1, message));
        }
        Err(TimeError::Empty) => return Err(fail(line, at + 1, "unexpected character '")),
        Err(TimeError::Unexpected(i) | TimeError::Trailing(i)) => {
            let c = text[i..].chars().next().unwrap_or('?');
            return Err(fail(
                line,
                at + 1,
                format!("unexpected character '{c}' in '{shown}' argument of server {server}."),
            ));
        }
    };
    if ms == 0 && name != "slowstart" {
        return Err(fail(line, at + 1, format!("invalid value 0 for argument '{name}' of server {server}.")));
    }
    if name != "slowstart" {
        let text = line.text(at + 1);
        if ms < 100 && text.bytes().all(|b| b.is_ascii_digit()) {
            let message = format!(
                "'server {}/{server}' : '{name} {text}' in server '{server}' is suspiciously small for a value in \
                 milliseconds. Please use an explicit unit ('{text}ms') if that was the intent.",
                draft.backend
            );
            cx.diagnostics.push(
                Diagnostic::warning_at(line.span_at(at + 1), message).lead(thalweg_syntax::Lead::Located),
            );
        }
    }
    match name {
        "inter" => check(draft).inter_ms = ms,
        "fastinter" => check(draft).fastinter_ms = Some(ms),
        "downinter" => check(draft).downinter_ms = Some(ms),
        // There is no agent to wait for.
        "agent-inter" => {}
        // Slow start counts in seconds, rounded up.
        _ => rare(draft).slowstart_ms = ms.div_ceil(1000) * 1000,
    }
    Ok(2)
}

/// `rise` and `fall`.
pub(crate) fn rise_fall(cx: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Read {
    let name = line.text(at);
    value(line, at, &format!("'{name}' expects an integer argument."))?;
    let Some(count) = count31(lenient(cx, line, at + 1)).filter(|c| *c > 0) else {
        return Err(fail(line, at + 1, format!("'{name}' has to be > 0.")));
    };
    match name {
        "rise" => check(draft).rise = count,
        _ => check(draft).fall = count,
    }
    Ok(2)
}

/// `port` of the check.
pub(crate) fn check_port(_: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Read {
    let text = value(line, at, "'port' expects a port number as argument.")?;
    check(draft).port = u16::try_from(leading(text).0).ok().filter(|p| *p > 0);
    Ok(2)
}

/// `addr` of the check.
pub(crate) fn check_addr(cx: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Read {
    value(line, at, "'addr' expects <address> as argument.")?;
    let options = AddressOptions { port: true, ..AddressOptions::HOST };
    match address(cx, line, at + 1, &options, "'addr' : ")? {
        Address::Ip { ip, port, .. } => {
            let port = if let PortSpec::Fixed(port) = port { port } else { 0 };
            check(draft).addr = Some(SocketAddr::new(ip, port));
        }
        other => {
            return Err(not_supported(line, at + 1, other.family_name(), "checks go to IP addresses"));
        }
    }
    Ok(2)
}

pub(crate) fn tcp_ut(cx: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Read {
    value(line, at, "'tcp-ut' : missing TCP User Timeout value")?;
    match duration_ms(cx, line, at + 1) {
        Ok(ms) => rare(draft).tcp_ut_ms = ms as u32,
        Err(_) => return Err(fail(line, at + 1, "'tcp-ut' : expects a positive delay in milliseconds")),
    }
    Ok(2)
}

pub(crate) fn pool_purge_delay(cx: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Read {
    value(line, at, "'pool-purge-delay' expects <value> as argument.")?;
    let ms = crate::numbers::time(cx, line, at + 1, TimeUnit::Milliseconds, "pool-purge-delay")?;
    draft.server.pool.purge_delay_ms = ms as u32;
    Ok(2)
}

pub(crate) fn hash_key(_: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Read {
    draft.server.hash_key = match line.text(at + 1) {
        "id" => HashKey::Id,
        "id32" => HashKey::Id32,
        "guid" => HashKey::Guid,
        "addr" => HashKey::Addr,
        "addr-port" => HashKey::AddrPort,
        _ => {
            return Err(fail(
                line,
                at + 1,
                "'hash-key' has to be 'id', 'id32', 'guid', 'addr', or 'addr-port'",
            ));
        }
    };
    Ok(2)
}

pub(crate) fn init_state(_: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Read {
    let state = match line.text(at + 1) {
        "none" => InitState::None,
        "fully-up" => InitState::FullyUp,
        "up" => InitState::Up,
        "down" => InitState::Down,
        "fully-down" => InitState::FullyDown,
        other => {
            let message = format!(
                "'init-state' expects one of 'none', 'fully-up', 'up', 'down', or 'fully-down' but got '{other}'"
            );
            return Err(fail(line, at + 1, message));
        }
    };
    rare(draft).init_state = state;
    Ok(2)
}

pub(crate) fn init_addr(_: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Read {
    let mut methods = Vec::new();
    for part in line.text(at + 1).split(',').filter(|part| !part.is_empty()) {
        methods.push(match part {
            "last" => InitAddr::Last,
            "libc" => InitAddr::Libc,
            "none" => InitAddr::None,
            other => match other.parse() {
                Ok(ip) => InitAddr::Ip(ip),
                Err(_) => {
                    let message = format!(
                        "'init-addr' : unknown init-addr method '{other}', supported methods are 'libc', 'last', 'none'."
                    );
                    return Err(fail(line, at + 1, message));
                }
            },
        });
    }
    if methods.is_empty() {
        return Err(fail(
            line,
            at + 1,
            "'init-addr' expects a list of 'libc', 'last', 'none' and addresses.",
        ));
    }
    draft.init_addr = methods.into();
    Ok(2)
}

pub(crate) fn on_marked(_: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Read {
    let (name, text) = (line.text(at), line.text(at + 1));
    match (name, text) {
        ("on-marked-down", "shutdown-sessions") => rare(draft).shutdown_sessions_on_down = true,
        ("on-marked-up", "shutdown-backup-sessions") => rare(draft).shutdown_backup_on_up = true,
        ("on-marked-down", _) => {
            return Err(fail(
                line,
                at + 1,
                format!("'on-marked-down' expects 'shutdown-sessions' but got '{text}'"),
            ));
        }
        _ => {
            return Err(fail(
                line,
                at + 1,
                format!("'on-marked-up' expects 'shutdown-backup-sessions' but got '{text}'"),
            ));
        }
    }
    Ok(2)
}

pub(crate) fn proto(cx: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Read {
    match line.text(at + 1) {
        "" => Err(fail(line, at + 1, "'proto' : missing value")),
        name @ ("h1" | "none") => {
            rare(draft).proto = Some(cx.name(name));
            Ok(2)
        }
        name @ ("h2" | "quic" | "qmux" | "fcgi" | "spop") => {
            Err(not_supported(line, at + 1, &format!("proto {name}"), "only HTTP/1 is built"))
        }
        other => Err(fail(line, at + 1, format!("'proto' :  unknown MUX protocol '{other}'"))),
    }
}

pub(crate) fn ws(_: &mut Cx<'_>, line: &Line, at: usize, _: &mut ServerDraft) -> Read {
    match line.text(at + 1) {
        "auto" | "h1" => Ok(2),
        "h2" => Err(not_supported(line, at + 1, "ws h2", "only HTTP/1 is built")),
        _ => Err(fail(line, at + 1, "'ws' has to be 'auto', 'h1' or 'h2'")),
    }
}

pub(crate) fn log_proto(_: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Read {
    match line.text(at + 1) {
        "legacy" => rare(draft).octet_count = false,
        "octet-count" => rare(draft).octet_count = true,
        other => {
            return Err(fail(
                line,
                at + 1,
                format!("'log-proto' expects one of 'legacy' or 'octet-count' but got '{other}'"),
            ));
        }
    }
    Ok(2)
}

/// `source <addr>[:<ports>] [usesrc ...] [interface ...]` on a server.
pub(crate) fn source(cx: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Read {
    value(
        line,
        at,
        "'source' expects <addr>[:<port>[-<port>]], and optionally 'usesrc' <addr>, and 'interface' <name> as argument.",
    )?;
    let (source, words) = parse_source(cx, line, at, "server", true)?;
    rare(draft).source = Some(source);
    Ok(words)
}

pub(crate) fn usesrc(_: &mut Cx<'_>, line: &Line, at: usize, _: &mut ServerDraft) -> Read {
    Err(fail(line, at, "'usesrc' only allowed after a 'source' statement."))
}

/// The words of a `source` statement from its keyword at `at` on; how many they are. On a server line, words that
/// do not belong to it end it; in a proxy (`stop` false) they are an error.
pub(crate) fn parse_source(
    cx: &mut Cx<'_>,
    line: &Line,
    at: usize,
    owner: &str,
    stop: bool,
) -> Result<(SourceAddress, usize), Box<Diagnostic>> {
    let text = line.text(at + 1);
    let parsed = address(cx, line, at + 1, &AddressOptions::SOURCE, &format!("'source {text}' : "))?;
    let Address::Ip { ip, port, .. } = parsed else {
        return Err(not_supported(line, at + 1, parsed.family_name(), "a source is an IP address"));
    };
    let (port, ports) = match port {
        PortSpec::Fixed(port) => (port, None),
        PortSpec::Range(..) if !stop => {
            let message = format!("'source {text}' : port range not permitted here in '{text}'");
            return Err(fail(line, at + 1, message));
        }
        PortSpec::Range(low, high) => (0, Some((low, high))),
        _ => (0, None),
    };
    let ports = ports.or((port != 0).then_some((port, port)));
    let mut source = SourceAddress {
        addr: (!ip.is_unspecified() || port != 0).then(|| SocketAddr::new(ip, port)),
        ports,
        interface: None,
        mode: SourceMode::Own,
    };
    let mut i = at + 2;
    loop {
        match line.text(i) {
            "usesrc" => {
                source.mode = match line.text(i + 1) {
                    "" => {
                        return Err(fail(
                            line,
                            i + 1,
                            "'usesrc' expects <addr>[:<port>], 'client', or 'clientip' as argument.",
                        ));
                    }
                    "client" => SourceMode::Client,
                    "clientip" => SourceMode::ClientIp,
                    word if word.starts_with("hdr_ip(") => {
                        let why =
                            "the source is known before the request is; use 'usesrc clientip' and 'set-src'";
                        return Err(not_supported(line, i + 1, "usesrc hdr_ip", why));
                    }
                    word => {
                        let prefix = format!("'usesrc {word}' : ");
                        match address(cx, line, i + 1, &AddressOptions::SOURCE, &prefix)? {
                            Address::Ip { ip, port, .. } => {
                                let port = if let PortSpec::Fixed(port) = port { port } else { 0 };
                                SourceMode::Addr(SocketAddr::new(ip, port))
                            }
                            other => {
                                return Err(not_supported(
                                    line,
                                    i + 1,
                                    other.family_name(),
                                    "a source is an IP address",
                                ));
                            }
                        }
                    }
                };
                i += 2;
            }
            "interface" => {
                if line.text(i + 1).is_empty() {
                    return Err(fail(line, i + 1, format!("'{owner}' : missing interface name")));
                }
                source.interface = Some(cx.name(line.text(i + 1)));
                i += 2;
            }
            "" => break,
            _ if stop => break,
            _ => {
                return Err(fail(
                    line,
                    i,
                    "'source' only supports optional keywords 'interface' and 'usesrc'.",
                ));
            }
        }
    }
    Ok((source, i - at))
}

/// Whether a text names a network: `10.0.0.0/8`, `::1`.
fn is_network(text: &str) -> bool {
    let (address, bits) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
    let longest = match address.parse() {
        Ok(std::net::IpAddr::V4(_)) => 32,
        Ok(std::net::IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    bits.is_none_or(|bits| {
        bits.parse().is_ok_and(|n: u8| n <= longest)
            || longest == 32 && bits.parse::<std::net::Ipv4Addr>().is_ok()
    })
}

/// `resolve-prefer`, `resolve-opts` and `resolve-net` only matter with `resolvers`.
pub(crate) fn resolve_option(_: &mut Cx<'_>, line: &Line, at: usize, _: &mut ServerDraft) -> Read {
    let (name, text) = (line.text(at), line.text(at + 1));
    let known = match name {
        "resolve-prefer" => matches!(text, "ipv4" | "ipv6"),
        // An empty list is one without options.
        "resolve-opts" => text
            .split(',')
            .filter(|o| !o.is_empty())
            .all(|o| matches!(o, "allow-dup-ip" | "ignore-weight" | "prevent-dup-ip")),
        _ => {
            let count = text.split(',').count();
            if count > 5 {
                return Err(fail(line, at + 1, "'resolve-net' exceed 5 networks."));
            }
            text.split(',').all(is_network)
        }
    };
    if !known && name == "resolve-net" && !text.is_empty() {
        return Err(fail(line, at + 1, format!("'resolve-net' invalid network '{text}'.")));
    }
    if !known {
        return Err(fail(line, at + 1, format!("'{name}' : unknown value '{text}'")));
    }
    Ok(2)
}

/// `error-limit`, `observe`, `on-error`: what traffic says about health, meaningful with `observe` only.
pub(crate) fn observe(_: &mut Cx<'_>, line: &Line, at: usize, _: &mut ServerDraft) -> Read {
    let (name, text) = (line.text(at), line.text(at + 1));
    match name {
        "error-limit" => {
            if !(1..=i64::from(i32::MAX)).contains(&leading(text).0) {
                return Err(fail(line, at + 1, "error-limit has to be > 0."));
            }
        }
        "on-error" => {
            if !matches!(text, "fastinter" | "fail-check" | "sudden-death" | "mark-down") {
                let message = format!(
                    "'on-error' expects one of 'fastinter', 'fail-check', 'sudden-death' or 'mark-down' but got '{text}'"
                );
                return Err(fail(line, at + 1, message));
            }
        }
        _ => match text {
            "none" => {}
            "layer4" | "layer7" => {
                return Err(not_supported(line, at, "observe", "health from traffic is not built"));
            }
            _ => {
                let message = format!("'observe' expects one of 'none', 'layer4', 'layer7' but got '{text}'");
                return Err(fail(line, at + 1, message));
            }
        },
    }
    Ok(2)
}

/// `agent-inter`, `agent-port`, `agent-addr`, `agent-send`: parameters of `agent-check`, which is refused.
pub(crate) fn agent_option(cx: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Read {
    let (name, text) = (line.text(at), line.text(at + 1));
    if text.is_empty() {
        return Err(fail(line, at + 1, format!("'{name}' expects an argument.")));
    }
    match name {
        "agent-inter" => return delay(cx, line, at, draft),
        "agent-addr" if addresses(cx, line, at + 1, &AddressOptions::HOST, "").is_err() => {
            return Err(fail(
                line,
                at + 1,
                format!("parsing agent-addr failed. Check if '{text}' is correct address."),
            ));
        }
        _ => {}
    }
    Ok(2)
}
