//! `bind` and `stats socket`: addresses and their options.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use thalweg_syntax::address::Transport;
use thalweg_syntax::{Address, AddressOptions, Diagnostic, Lead, Line, TimeUnit, did_you_mean};

use crate::build::{Building, Cx};
use crate::global::number_set;
use crate::keyword::{Keyword, Outcome, Status, fail, find, not_supported};
use crate::meaning;
use crate::model::{Bind, BindAddr, Shards};
use crate::numbers::{leading, strict, time};
use crate::resolve::addresses;
use crate::setter::{Setter, Took, value};
use crate::table::BIND;

/// Which statement the options belong to: it shapes the messages.
pub(crate) enum BindContext {
    StatsSocket,
    /// A `bind` of a section of this kind.
    Section(&'static str),
}

impl BindContext {
    /// Whether clients are served there, and not operators, peers or other programs' logs.
    pub fn is_of_proxy(&self) -> bool {
        matches!(self, BindContext::Section(section) if !matches!(*section, "peers" | "log-forward"))
    }
}

/// `bind` in a proxy.
pub(crate) fn bind(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    crate::proxy::not_in_defaults(b, line)?;
    b.needs_frontend(cx, line, "bind", "");
    if line.words.len() < 2 {
        return Err(fail(
            line,
            1,
            "'bind' expects {<path>|[addr1]:port1[-end1]}{,[addr]:port[-end]}... as arguments.",
        ));
    }
    b.bind_seen = true;
    let context = BindContext::Section(b.p.kind.keyword());
    let mut binds = parse_addresses(cx, line, 1, &context)?;
    parse_options(cx, line, 2, &context, &mut binds)?;
    number_guids(cx, line, &mut binds)?;
    for bind in binds.iter().filter(|x| x.uid != 0) {
        if let Some(other) = b.p.binds.iter().find(|x| x.uid == bind.uid) {
            let at = (0..line.words.len()).rev().find(|i| line.text(*i) == "id").unwrap_or(0);
            let message = format!(
                "'bind {}' in section '{}' : 'id' : custom id {} already used at {}:{} ('bind {}')",
                bind.shown,
                b.p.kind.keyword(),
                bind.uid,
                other.file,
                other.line,
                other.shown
            );
            return Err(fail(line, at + 1, message));
        }
    }
    b.p.binds.append(&mut binds);
    Ok(())
}

/// Makes each listener's identifier of the line's `guid-prefix`.
fn number_guids(cx: &mut Cx<'_>, line: &Line, binds: &mut [Bind]) -> Outcome {
    for (number, bind) in binds.iter_mut().enumerate() {
        let Some(prefix) = &bind.guid else { continue };
        let guid = cx.name(&format!("{prefix}-{number}"));
        let complain = |why: &str| {
            let message =
                format!("error on GUID generation : {why}. You may fix it by adjusting guid-prefix.");
            let mut e = fail(line, 0, message);
            e.lead = Lead::BareLocated;
            Err(e)
        };
        if guid.len() > crate::proxy::GUID_LEN_MAX {
            return complain("invalid length");
        }
        if let Err(c) = crate::proxy::legal_guid(&guid) {
            return complain(&format!("invalid character '{c}'"));
        }
        if cx.guids.insert(Arc::clone(&guid), line.span()).is_some() {
            return complain(&format!("duplicate entry '{guid}'"));
        }
        bind.guid = Some(guid);
    }
    Ok(())
}

/// The addresses at `index`, each as a listener with the default options.
pub(crate) fn parse_addresses(
    cx: &mut Cx<'_>,
    line: &Line,
    index: usize,
    context: &BindContext,
) -> Result<Vec<Bind>, Box<Diagnostic>> {
    let keyword = match context {
        BindContext::StatsSocket => "stats socket",
        _ => "bind",
    };
    let file = cx.file_of(line);
    let list = addresses(cx, line, index, &AddressOptions::BIND, &format!("'{keyword}' : "))?;
    let mut binds = Vec::new();
    for address in list {
        let family = address.family_name();
        match address {
            Address::Ip { transport: transport @ (Transport::Stream | Transport::Mptcp), ip, port } => {
                for port in port.ports() {
                    let addr = BindAddr::Tcp(SocketAddr::new(ip, port));
                    let mptcp = transport == Transport::Mptcp;
                    binds.push(Bind { mptcp, ..Bind::new(addr, Arc::clone(&file), line.number) });
                }
            }
            Address::Unix { transport: Transport::Stream, path } => {
                let full = match &cx.unix_bind.prefix {
                    Some(prefix) if path.starts_with('/') => format!("{prefix}{path}"),
                    _ => path,
                };
                binds.push(Bind::new(BindAddr::Unix(PathBuf::from(full)), Arc::clone(&file), line.number));
            }
            Address::Abstract { transport: Transport::Stream, name, zero_terminated } => {
                let name = name.into_bytes();
                let addr = if zero_terminated { BindAddr::AbstractZ(name) } else { BindAddr::Abstract(name) };
                binds.push(Bind::new(addr, Arc::clone(&file), line.number));
            }
            Address::Descriptor { transport: Transport::Stream, fd } => {
                inherited_socket(cx, line, index, keyword, fd)?;
                binds.push(Bind::new(BindAddr::Fd(fd), Arc::clone(&file), line.number));
            }
            Address::SocketPair { fd } => {
                inherited_socket(cx, line, index, keyword, fd)?;
                binds.push(Bind::new(BindAddr::SockPair(fd), Arc::clone(&file), line.number));
            }
            Address::ReverseHttp { name } if context.is_of_proxy() => {
                let title = format!("'{keyword}' : ");
                crate::keyword::experimental_address(cx, line, index, &title)?;
                let addr = BindAddr::Reverse(cx.name(&name));
                binds.push(Bind::new(addr, Arc::clone(&file), line.number));
            }
            _ => {
                return Err(not_supported(
                    line,
                    index,
                    family,
                    "listening on this kind of address is not built",
                ));
            }
        }
    }
    let shown = cx.name(line.text(index));
    for bind in &mut binds {
        bind.owner = cx.unix_bind.owner.clone();
        bind.shown = Arc::clone(&shown);
    }
    Ok(binds)
}

/// Refuses a descriptor that whoever started the program did not open, or that is no socket.
fn inherited_socket(cx: &Cx<'_>, line: &Line, index: usize, keyword: &str, fd: i32) -> Outcome {
    (cx.options.inherited)(fd)
        .map_err(|why| fail(line, index, format!("'{keyword}' : cannot use file descriptor '{fd}' : {why}.")))
}

/// The options from the word at `from` on, applied to every listener of the line.
pub(crate) fn parse_options(
    cx: &mut Cx<'_>,
    line: &Line,
    from: usize,
    context: &BindContext,
    binds: &mut [Bind],
) -> Outcome {
    let Some((first, others)) = binds.split_first_mut() else { return Ok(()) };
    let address = line.text(from.saturating_sub(1));
    // How messages begin: they name the address, except for the CLI's sockets.
    let (unknown, wrong, end) = match context {
        BindContext::StatsSocket => ("'stats socket' : ".to_owned(), "'stats socket' : '".to_owned(), "'"),
        BindContext::Section(section) => (
            format!("'bind {address}' in section '{section}': "),
            format!("'bind {address}' in section '{section}' : "),
            "",
        ),
    };
    let mut at = from;
    while at < line.words.len() {
        let name = line.text(at);
        let Some(keyword) = find(BIND, name) else {
            let near = did_you_mean(name, BIND.iter().map(|k: &Keyword<Setter<Bind>>| k.name));
            let hint = match (near, context) {
                (None, _) => String::new(),
                (Some(n), BindContext::StatsSocket) => format!(". Did you mean '{n}' maybe ?"),
                (Some(n), _) => format!("; did you mean '{n}' maybe ?"),
            };
            return Err(fail(line, at, format!("{unknown}unknown keyword '{name}'{hint}")));
        };
        match keyword.status {
            Status::Works(setter) => match setter.read(cx, line, at, first) {
                Ok(words) => {
                    meaning::look_at_bind(cx, line, at, context, &unknown)?;
                    at += words;
                }
                Err(mut e) => {
                    e.message = format!("{wrong}{}{end}", e.message);
                    return Err(e);
                }
            },
            Status::NotYet(why) => return Err(not_supported(line, at, &format!("bind ... {name}"), why)),
            Status::Removed(sentence) => return Err(fail(line, at, format!("{wrong}{sentence}"))),
        }
    }
    reversed(line, from, first, &wrong)?;
    if first.uid != 0 && !others.is_empty() {
        let at = (from..line.words.len()).find(|i| line.text(*i) == "id").unwrap_or(from);
        return Err(fail(line, at, format!("{wrong}'id' can only be used with a single socket{end}")));
    }
    for other in others {
        let addr = other.addr.clone();
        *other = Bind { addr, ..first.clone() };
    }
    Ok(())
}

/// What a listener that connects by itself may have, and what only such a one has.
fn reversed(line: &Line, from: usize, bind: &Bind, wrong: &str) -> Outcome {
    let at = |name: &str| (from..line.words.len()).find(|i| line.text(*i) == name);
    let (forbidden, what): (&[&str], _) = match bind.addr {
        BindAddr::Reverse(_) => {
            (&["proto", "ssl", "accept-proxy"], "option is not accepted for reverse HTTP")
        }
        _ => (&["nbconn"], "only valid for reverse HTTP listeners."),
    };
    match forbidden.iter().find_map(|name| Some((name, at(name)?))) {
        None => Ok(()),
        Some((name, at)) if *name == "nbconn" => Err(fail(line, at, format!("{wrong}'{name}' : {what}"))),
        Some((name, at)) => Err(fail(line, at, format!("'{name}' {what}"))),
    }
}

/// `id`
pub(crate) fn id(_: &mut Cx<'_>, line: &Line, at: usize, bind: &mut Bind) -> Took {
    let text = value(line, at, "'id' : value expected")?;
    let Some(id) = strict(text) else {
        return Err(fail(line, at + 1, format!("'id' : expects an integer argument, found '{text}'")));
    };
    match crate::numbers::count(id) {
        Some(uid) if uid > 0 => bind.uid = uid,
        _ => return Err(fail(line, at + 1, "'id' : custom id has to be > 0")),
    }
    Ok(2)
}

/// `uid` and `gid`
pub(crate) fn account_number(line: &Line, at: usize) -> Result<u32, Box<Diagnostic>> {
    let name = line.text(at);
    let text = value(line, at, &format!("'{name}' : missing value"))?;
    strict(text)
        .and_then(|v| u32::try_from(v).ok())
        .ok_or_else(|| fail(line, at + 1, format!("'{name}' : '{text}' is not a number")))
}

/// `user` and `group`, which `find` looks up.
pub(crate) fn account(line: &Line, at: usize, find: fn(&str) -> Option<u32>) -> Result<u32, Box<Diagnostic>> {
    let name = line.text(at);
    let text = value(line, at, &format!("'{name}' : missing value"))?;
    find(text).ok_or_else(|| fail(line, at + 1, format!("'{name}' : unknown {name} name '{text}'")))
}

pub(crate) fn mode(_: &mut Cx<'_>, line: &Line, at: usize, bind: &mut Bind) -> Took {
    let text = line.text(at + 1);
    match u32::from_str_radix(text, 8) {
        Ok(mode @ 0..=0o7777) => bind.owner.mode = Some(mode),
        _ => {
            return Err(fail(
                line,
                at + 1,
                format!("'mode' : missing or invalid mode '{text}' (octal integer expected)"),
            ));
        }
    }
    Ok(2)
}

pub(crate) fn tcp_ut(cx: &mut Cx<'_>, line: &Line, at: usize, bind: &mut Bind) -> Took {
    value(line, at, "'tcp-ut' : missing TCP User Timeout value")?;
    match time(cx, line, at + 1, TimeUnit::Milliseconds, "tcp-ut") {
        Ok(ms) => bind.tcp_ut_ms = ms as u32,
        Err(_) => return Err(fail(line, at + 1, "'tcp-ut' : expects a positive delay in milliseconds")),
    }
    Ok(2)
}

pub(crate) fn tcp_md5sig(cx: &mut Cx<'_>, line: &Line, at: usize, bind: &mut Bind) -> Took {
    bind.md5 = Some(crate::server_options::md5_password(cx, line, at)?);
    Ok(2)
}

/// `tcp-ss <mode>`
pub(crate) fn tcp_ss(_: &mut Cx<'_>, line: &Line, at: usize, bind: &mut Bind) -> Took {
    let text = line.text(at + 1);
    bind.save_syn = match leading(text).0 {
        mode @ 0..=2 if text.starts_with(|c: char| c.is_ascii_digit()) => mode as u8,
        _ => {
            let message = "'tcp-ss' : TCP Save SYN option expects an integer argument from 0 to 2";
            return Err(fail(line, at + 1, message));
        }
    };
    Ok(2)
}

pub(crate) fn idle_ping(cx: &mut Cx<'_>, line: &Line, at: usize, bind: &mut Bind) -> Took {
    value(line, at, "'idle-ping' expects an argument.")?;
    bind.idle_ping_ms = time(cx, line, at + 1, TimeUnit::Milliseconds, "idle-ping")? as u32;
    Ok(2)
}

pub(crate) fn proto(cx: &mut Cx<'_>, line: &Line, at: usize, bind: &mut Bind) -> Took {
    match line.text(at + 1) {
        "" => Err(fail(line, at + 1, "'proto' : missing value")),
        name @ ("h1" | "h2" | "none") => {
            bind.proto = Some(cx.name(name));
            Ok(2)
        }
        name @ ("quic" | "qmux" | "fcgi" | "spop") => {
            Err(not_supported(line, at + 1, &format!("proto {name}"), "'h1' and 'h2' are built"))
        }
        other => Err(fail(line, at + 1, format!("'proto' :  unknown MUX protocol '{other}'"))),
    }
}

pub(crate) fn shards(_: &mut Cx<'_>, line: &Line, at: usize, bind: &mut Bind) -> Took {
    let text = value(line, at, "'shards' : missing value")?;
    bind.shards = match text {
        "by-thread" => Shards::ByThread,
        "by-group" => Shards::ByGroup,
        _ => match crate::numbers::leading(text).0 {
            n @ 1..=1024 => Shards::Count(n as u32),
            n => {
                let expected = "allowed range is 1..1024 or 'by-thread'";
                return Err(fail(line, at + 1, format!("'shards' : invalid value {n}, {expected}")));
            }
        },
    };
    Ok(2)
}

/// `thread [<group>/]<threads>[,...]`
pub(crate) fn thread(_: &mut Cx<'_>, line: &Line, at: usize, bind: &mut Bind) -> Took {
    let text = value(line, at, "'thread' : missing value")?;
    for part in text.split(',') {
        let (group, threads) = part.split_once('/').map_or((None, part), |(g, t)| (Some(g), t));
        let group = match group {
            None => 0,
            Some(g) => match strict(g) {
                Some(n @ 1..=16) => n as usize - 1,
                _ => {
                    return Err(fail(
                        line,
                        at + 1,
                        format!("'thread' : invalid thread-group number '{g}', permitted range is 1..16"),
                    ));
                }
            },
        };
        if threads == "all" && text == "all" {
            bind.threads.0.clear();
            return Ok(2);
        }
        // Without a group, threads are numbered over all of them.
        let most = if part.contains('/') { 64 } else { 1024 };
        let Some(set) = number_set(threads, most) else {
            let message = format!(
                "invalid first thread number '{threads}', permitted range is 1..{most}, or 'all', 'odd', 'even'."
            );
            return Err(fail(line, at + 1, message));
        };
        bind.threads.0.extend(set.into_iter().map(|t| (group * 64 + t - 1) as u16));
    }
    bind.threads.0.sort_unstable();
    bind.threads.0.dedup();
    Ok(2)
}

pub(crate) fn process(_: &mut Cx<'_>, line: &Line, at: usize, _: &mut Bind) -> Took {
    let text = line.text(at + 1);
    Err(fail(
        line,
        at,
        format!("'process {text}' on 'bind' lines is not supported anymore, please use 'thread' instead."),
    ))
}
