//! The options of a server.

use std::net::SocketAddr;
use std::sync::Arc;

use thalweg_check::Protocol;
use thalweg_dns::Network;
use thalweg_http::HeaderId;
use thalweg_sample::args::Arg;
use thalweg_syntax::address::PortSpec;
use thalweg_syntax::{Address, AddressOptions, Diagnostic, Line, TimeError, TimeUnit};

use crate::build::{Cx, InitAddr, ProxyFieldDraft, ProxyHeaderDraft, ServerDraft};
use crate::keyword::{fail, not_supported};
use crate::model::{CheckConfig, HeaderSource, SlowSettings, SourceAddress, SourceMode, WebSocketProtocol};
use crate::numbers::{count, duration_ms, lenient};
use crate::resolve::address;
use crate::setter::{Took, value};

pub(crate) fn rare(draft: &mut ServerDraft) -> &mut SlowSettings {
    Arc::make_mut(draft.server.extra.get_or_insert_with(Arc::default))
}

pub(crate) fn check(draft: &mut ServerDraft) -> &mut CheckConfig {
    Arc::make_mut(draft.server.check.get_or_insert_with(Arc::default))
}

/// `check`: with the usual parameters unless others are given.
pub(crate) fn checked(draft: &mut ServerDraft) {
    check(draft);
    draft.check = true;
}

/// `send-proxy`, `no-send-proxy-v2` and their kin: changes what was said of the PROXY header.
pub(crate) fn proxy_header(draft: &mut ServerDraft, change: impl FnOnce(&mut ProxyHeaderDraft)) {
    change(&mut draft.proxy_header);
    draft.server.send_proxy = draft.proxy_header.outcome();
}

/// Counts are read as the reference reads them: what is no count is none.
pub(crate) fn count_or_none(value: i64) -> u32 {
    u32::try_from(value).unwrap_or(0)
}

/// `rise` and `fall`
pub(crate) fn times(name: &str, value: i64) -> Result<u32, String> {
    count(value).filter(|n| *n > 0).ok_or_else(|| format!("'{name}' has to be > 0."))
}

/// `proxy-v2-options <option>[,<option>]*`: added to those that the line has.
pub(crate) fn proxy_v2_options(_: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Took {
    let mut v2 = draft.proxy_header.options;
    for option in line.text(at + 1).split(',') {
        let told = match option {
            "authority" => &mut v2.authority,
            "cert-cn" => &mut v2.cert_cn,
            "cert-key" => &mut v2.cert_key,
            "cert-sig" => &mut v2.cert_sig,
            "crc32c" => &mut v2.crc32c,
            "ssl" => &mut v2.ssl,
            "ssl-cipher" => &mut v2.ssl_cipher,
            "unique-id" => &mut v2.unique_id,
            _ => return Err(fail(line, at + 1, format!("'{option}' : proxy v2 option not implemented"))),
        };
        *told = true;
    }
    proxy_header(draft, |header| header.options = v2);
    Ok(2)
}

/// `track [<backend>/]<server>`
pub(crate) fn track(cx: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Took {
    let text = value(line, at, "'track' expects [<proxy>/]<server> as argument.")?;
    draft.track = Some((cx.name(text), line.span_at(at + 1)));
    Ok(2)
}

/// `set-proxy-v2-tlv-fmt(<type>) [<format>]`: without a format the value is empty.
pub(crate) fn proxy_field(cx: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Took {
    let word = line.text(at);
    let complaint = |text: &str| fail(line, at, format!("'{word}' : {text}"));
    let expects = "expects set-proxy-v2-tlv-fmt(<TLV ID>)";
    let number = word.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    let Some(number) = number else { return Err(complaint(expects)) };
    let (digits, radix) = match (number.strip_prefix("0x").or(number.strip_prefix("0X")), number) {
        (Some(hex), _) => (hex, 16),
        (None, octal) if octal.starts_with('0') => (octal, 8),
        (None, decimal) => (decimal, 10),
    };
    let taken = digits.chars().take_while(|c| c.is_digit(radix)).count();
    if taken == 0 {
        return Err(complaint("could not convert TLV ID"));
    }
    if taken < digits.len() {
        return Err(complaint(expects));
    }
    let Ok(kind) = u8::from_str_radix(digits, radix) else {
        return Err(complaint("the maximum allowed TLV ID is 255"));
    };
    let text = (at + 1 < line.words.len()).then(|| cx.name(line.text(at + 1)));
    let words = 1 + usize::from(text.is_some());
    let field = ProxyFieldDraft { kind, text, span: line.span_at(at) };
    Arc::make_mut(&mut draft.proxy_fields).push(field);
    Ok(words)
}

pub(crate) fn weight(cx: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Took {
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

/// A count that is -1 for no limit.
pub(crate) fn limit(value: i64) -> i32 {
    i32::try_from(value.max(-1)).unwrap_or(i32::MAX)
}

pub(crate) fn id(cx: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Took {
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

pub(crate) fn guid(cx: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Took {
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

/// The duration after the name at `at`, in milliseconds. The words are the reference's, which calls `inter`
/// `agent-inter`.
fn milliseconds(cx: &mut Cx<'_>, line: &Line, at: usize) -> Result<u32, Box<Diagnostic>> {
    let (name, text) = (line.text(at), line.text(at + 1));
    let server = server_of(line);
    let message = match duration_ms(cx, line, at + 1) {
        Ok(ms) => return Ok(ms as u32),
        Err(TimeError::Overflow) => format!(
            "timer overflow in argument <{text}> to <{name}> of server {server}, maximum value is 2147483647 ms \
             (~24.8 days)."
        ),
        Err(TimeError::Underflow) => format!(
            "timer underflow in argument <{text}> to <{name}> of server {server}, minimum non-null value is 1 ms."
        ),
        Err(TimeError::Empty) => "unexpected character '".to_owned(),
        Err(TimeError::Unexpected(i) | TimeError::Trailing(i)) => {
            let c = text[i..].chars().next().unwrap_or('?');
            let shown = if name == "inter" { "agent-inter" } else { name };
            format!("unexpected character '{c}' in '{shown}' argument of server {server}.")
        }
    };
    Err(fail(line, at + 1, message))
}

/// The server a line is about, for messages.
fn server_of(line: &Line) -> &str {
    if line.text(0) == "server" { line.text(1) } else { "(null)" }
}

/// A time between checks, in milliseconds.
pub(crate) fn between_checks(
    cx: &mut Cx<'_>,
    line: &Line,
    at: usize,
    draft: &ServerDraft,
) -> Result<u32, Box<Diagnostic>> {
    let (name, text, server) = (line.text(at), line.text(at + 1), server_of(line));
    let ms = milliseconds(cx, line, at)?;
    if ms == 0 {
        return Err(fail(line, at + 1, format!("invalid value 0 for argument '{name}' of server {server}.")));
    }
    if ms < 100 && text.bytes().all(|b| b.is_ascii_digit()) {
        let message = format!(
            "'server {}/{server}' : '{name} {text}' in server '{server}' is suspiciously small for a value in \
             milliseconds. Please use an explicit unit ('{text}ms') if that was the intent.",
            draft.backend
        );
        let warning = Diagnostic::warning_at(line.span_at(at + 1), message);
        cx.diagnostics.push(warning.lead(thalweg_syntax::Lead::Located));
    }
    Ok(ms)
}

/// `inter`
pub(crate) fn inter(cx: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Took {
    value(line, at, "'inter' expects a delay as argument.")?;
    check(draft).inter_ms = between_checks(cx, line, at, draft)?;
    Ok(2)
}

/// `slowstart`, which counts in seconds, rounded up.
pub(crate) fn slowstart(cx: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Took {
    rare(draft).slowstart_ms = milliseconds(cx, line, at)?.div_ceil(1000) * 1000;
    Ok(2)
}

/// `addr` of the check.
pub(crate) fn check_addr(cx: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Took {
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

/// `socks4 <addr>:<port>`
pub(crate) fn socks4(cx: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Took {
    let text = value(line, at, "'socks4' expects <addr>:<port> as argument.")?;
    let options = AddressOptions { port: true, port_mandatory: true, ..AddressOptions::HOST };
    match address(cx, line, at + 1, &options, &format!("'socks4 {text}' : "))? {
        Address::Ip { ip, port: PortSpec::Fixed(port), .. } => {
            rare(draft).socks4 = Some(SocketAddr::new(ip, port));
        }
        other => {
            let why = "a SOCKS4 proxy has an IP address";
            return Err(not_supported(line, at + 1, other.family_name(), why));
        }
    }
    Ok(2)
}

pub(crate) fn tcp_ut(cx: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Took {
    value(line, at, "'tcp-ut' : missing TCP User Timeout value")?;
    match duration_ms(cx, line, at + 1) {
        Ok(ms) => rare(draft).tcp_ut_ms = ms as u32,
        Err(_) => return Err(fail(line, at + 1, "'tcp-ut' : expects a positive delay in milliseconds")),
    }
    Ok(2)
}

/// The longest password that the kernel signs segments with (tcp(7), `TCP_MD5SIG_MAXKEYLEN`).
const MD5_PASSWORD_MAX: usize = 80;

/// The password of `tcp-md5sig`.
pub(crate) fn md5_password(cx: &mut Cx<'_>, line: &Line, at: usize) -> Result<Arc<str>, Box<Diagnostic>> {
    let text = value(line, at, "'tcp-md5sig' : missing TCP MD5 signature password")?;
    if text.len() > MD5_PASSWORD_MAX {
        let message =
            format!("'tcp-md5sig' : password too long (at most {MD5_PASSWORD_MAX} characters expected)");
        return Err(fail(line, at + 1, message));
    }
    Ok(cx.name(text))
}

/// `tcp-md5sig <password>`
pub(crate) fn tcp_md5sig(cx: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Took {
    rare(draft).md5 = Some(md5_password(cx, line, at)?);
    Ok(2)
}

/// `from` and `name`, which are read before the options are.
pub(crate) fn in_front(_: &mut Cx<'_>, line: &Line, at: usize, _: &mut ServerDraft) -> Took {
    Err(fail(line, at, format!("unknown keyword '{}'", line.text(at))))
}

/// `pool-conn-name`: compiled when all names are known.
pub(crate) fn pool_conn_name(cx: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Took {
    let text = value(line, at, "'pool-conn-name' expects <value> as argument.")?;
    draft.pool_name = Some((cx.name(text), line.span_at(at + 1)));
    Ok(2)
}

pub(crate) fn pool_purge_delay(cx: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Took {
    value(line, at, "'pool-purge-delay' expects <value> as argument.")?;
    let ms = crate::numbers::time(cx, line, at + 1, TimeUnit::Milliseconds, "pool-purge-delay")?;
    draft.server.pool.purge_delay_ms = ms as u32;
    Ok(2)
}

pub(crate) fn idle_ping(cx: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Took {
    value(line, at, "'idle-ping' expects an argument.")?;
    rare(draft).idle_ping_ms =
        crate::numbers::time(cx, line, at + 1, TimeUnit::Milliseconds, "idle-ping")? as u32;
    Ok(2)
}

pub(crate) fn init_addr(_: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Took {
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

/// Protocols that the reference has and that are not built.
pub(crate) const UNBUILT_PROTOCOLS: &[&str] = &["quic", "qmux", "fcgi", "spop"];

/// A protocol by its name.
pub(crate) fn protocol(name: &str) -> Option<Protocol> {
    match name {
        "none" => Some(Protocol::Raw),
        "h1" => Some(Protocol::Http1),
        "h2" => Some(Protocol::Http2),
        _ => None,
    }
}

/// The protocol that the word at `at` asks for.
fn protocol_at(line: &Line, at: usize) -> Result<(&str, Protocol), Box<Diagnostic>> {
    let (word, name) = (line.text(at), line.text(at + 1));
    match protocol(name) {
        Some(protocol) => Ok((name, protocol)),
        None if name.is_empty() => Err(fail(line, at + 1, format!("'{word}' : missing value"))),
        None if UNBUILT_PROTOCOLS.contains(&name) => {
            Err(not_supported(line, at + 1, &format!("{word} {name}"), "only HTTP/1 and HTTP/2 are built"))
        }
        None => Err(fail(line, at + 1, format!("'{word}' :  unknown MUX protocol '{name}'"))),
    }
}

pub(crate) fn proto(cx: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Took {
    let (name, _) = protocol_at(line, at)?;
    rare(draft).proto = Some(cx.name(name));
    Ok(2)
}

pub(crate) fn check_proto(_: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Took {
    check(draft).protocol = Some(protocol_at(line, at)?.1);
    Ok(2)
}

pub(crate) fn ws(_: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Took {
    rare(draft).ws = match line.text(at + 1) {
        "auto" => WebSocketProtocol::Auto,
        "h1" => WebSocketProtocol::Http1,
        "h2" => WebSocketProtocol::Http2,
        _ => return Err(fail(line, at + 1, "'ws' has to be 'auto', 'h1' or 'h2'")),
    };
    Ok(2)
}

/// `source <addr>[:<ports>] [usesrc ...] [interface ...]` on a server.
pub(crate) fn source(cx: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Took {
    value(
        line,
        at,
        "'source' expects <addr>[:<port>[-<port>]], and optionally 'usesrc' <addr>, and 'interface' <name> as argument.",
    )?;
    let (source, words) = parse_source(cx, line, at, "server", true)?;
    rare(draft).source = Some(source);
    Ok(words)
}

pub(crate) fn usesrc(_: &mut Cx<'_>, line: &Line, at: usize, _: &mut ServerDraft) -> Took {
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
        addr: (!ip.is_unspecified()).then(|| SocketAddr::new(ip, port)),
        ports,
        interface: None,
        mode: SourceMode::Own,
    };
    let mut i = at + 2;
    loop {
        match line.text(i) {
            "usesrc" => {
                source.mode = source_mode(cx, line, i + 1)?;
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

/// What follows `usesrc`.
fn source_mode(cx: &mut Cx<'_>, line: &Line, at: usize) -> Result<SourceMode, Box<Diagnostic>> {
    let word = line.text(at);
    match word {
        "" => Err(fail(line, at, "'usesrc' expects <addr>[:<port>], 'client', or 'clientip' as argument.")),
        "client" => Ok(SourceMode::Client),
        "clientip" => Ok(SourceMode::ClientIp),
        _ if word.starts_with("hdr_ip(") => {
            let source = header_source(&word["hdr_ip(".len()..]).map_err(|why| fail(line, at, why))?;
            Ok(source.map_or(SourceMode::Own, SourceMode::Header))
        }
        _ => match address(cx, line, at, &AddressOptions::SOURCE, &format!("'usesrc {word}' : "))? {
            Address::Ip { ip, port, .. } => {
                let port = if let PortSpec::Fixed(port) = port { port } else { 0 };
                Ok(SourceMode::Addr(SocketAddr::new(ip, port)))
            }
            other => Err(not_supported(line, at, other.family_name(), "a source is an IP address")),
        },
    }
}

/// `<name>[,<occurrence>]` as the reference reads it: what follows is passed over, and what is no number is 0, which switches it off.
fn header_source(text: &str) -> Result<Option<HeaderSource>, &'static str> {
    let text = text.trim_start();
    let ends = |c: char| matches!(c, ',' | ')') || c.is_ascii_whitespace();
    let (name, rest) = text.split_at(text.find(ends).unwrap_or(text.len()));
    let occurrence = match rest.trim_start().strip_prefix(',') {
        None => -1,
        Some(number) => {
            let digits = number.strip_prefix('-').unwrap_or(number);
            let len = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
            let value = digits[..len]
                .bytes()
                .fold(0i32, |value, digit| value.saturating_mul(10).saturating_add(i32::from(digit - b'0')));
            if number.starts_with('-') { -value } else { value }
        }
    };
    if occurrence < -10 {
        return Err("usesrc hdr_ip(name,num) does not support negative occurrences values smaller than 10.");
    }
    let lower: Box<[u8]> = name.to_ascii_lowercase().into_bytes().into();
    let field = match name {
        "" => Arg::Missing,
        _ => Arg::Header(HeaderId::from_lower(&lower), lower),
    };
    Ok((occurrence != 0).then(|| HeaderSource { name: name.into(), field, occurrence }))
}

/// A network as a text: `10.0.0.0/8`, `10.0.0.0/255.0.0.0`, `::1`.
fn network(text: &str) -> Option<Network> {
    let (address, bits) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
    let address: std::net::IpAddr = address.parse().ok()?;
    let longest = if address.is_ipv4() { 32 } else { 128 };
    let bits = match bits {
        None => longest,
        Some(bits) => match bits.parse() {
            Ok(n) => Some(n).filter(|n: &u8| *n <= longest)?,
            // A mask whose ones are in front.
            Err(_) if address.is_ipv4() => {
                let mask = u32::from(bits.parse::<std::net::Ipv4Addr>().ok()?);
                u8::try_from(mask.leading_ones()).ok().filter(|_| mask.leading_ones() == mask.count_ones())?
            }
            Err(_) => return None,
        },
    };
    Some(Network { address, bits })
}

/// `resolvers`: a section that may be declared later.
pub(crate) fn resolvers(cx: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Took {
    draft.resolvers = Some((cx.name(line.text(at + 1)), line.span_at(at + 1)));
    Ok(2)
}

/// `resolve-opts`, which only matters with `resolvers`. An empty list is one without options.
pub(crate) fn resolve_opts(_: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Took {
    let text = line.text(at + 1);
    for option in text.split(',').filter(|option| !option.is_empty()) {
        match option {
            "allow-dup-ip" => draft.preference.duplicates = true,
            "prevent-dup-ip" => draft.preference.duplicates = false,
            "ignore-weight" => draft.preference.ignore_weight = true,
            _ => return Err(fail(line, at + 1, format!("'resolve-opts' : unknown value '{text}'"))),
        }
    }
    Ok(2)
}

/// `resolve-net`, which only matters with `resolvers`.
pub(crate) fn resolve_net(_: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Took {
    let text = line.text(at + 1);
    let networks: Option<Vec<Network>> = text.split(',').map(network).collect();
    let message = match networks {
        _ if text.is_empty() => "'resolve-net' : unknown value ''".to_owned(),
        _ if text.split(',').count() > 5 => "'resolve-net' exceed 5 networks.".to_owned(),
        None => format!("'resolve-net' invalid network '{text}'."),
        Some(networks) => {
            draft.preference.networks = networks;
            return Ok(2);
        }
    };
    Err(fail(line, at + 1, message))
}
