//! `ring`: lines kept in memory and the servers they are sent to.

use std::sync::Arc;

use thalweg_syntax::{Diagnostic, Line, TimeUnit};

use crate::build::{Building, Cx};
use crate::keyword::{Outcome, fail, legal_name, not_supported};
use crate::meaning::Servers;
use crate::model::{LogFormatKind, ProxyHeader, ProxyKind, Ring, RingServer, Server, ServerAddr};
use crate::numbers::{leading, time};

/// A ring that is being read. Its servers are those of a backend of the same name.
pub(crate) struct RingDraft {
    ring: Ring,
    servers: Box<Building>,
}

/// Bytes of the longest line of a ring that does not say.
const MAXLEN_USUAL: u32 = 1024;

/// A ring by default: the size of a buffer, and lines of the usual length.
pub(crate) fn usual(cx: &Cx<'_>, name: Arc<str>) -> Ring {
    of_size(name, cx.config.global.tune.bufsize)
}

fn of_size(name: Arc<str>, size: usize) -> Ring {
    Ring {
        name,
        description: None,
        size,
        maxlen: MAXLEN_USUAL,
        format: LogFormatKind::Raw,
        timeout_connect_ms: None,
        timeout_server_ms: None,
        backing_file: None,
        servers: Vec::new(),
    }
}

/// The ring that is there without a section.
pub(crate) fn buf0() -> Ring {
    let size = 1 << 20;
    Ring {
        description: Some("in-memory ring buffer".into()),
        format: LogFormatKind::Timed,
        ..of_size("buf0".into(), size)
    }
}

pub(crate) fn open(cx: &mut Cx<'_>, line: &Line) -> Result<RingDraft, Box<Diagnostic>> {
    if line.words.len() < 2 {
        return Err(fail(line, 1, "missing ring name."));
    }
    legal_name(line)?;
    let name = cx.name(line.text(1));
    if cx.config.rings.iter().any(|r| r.name == name) || matches!(&*name, "stdout" | "stderr") {
        return Err(fail(line, 1, format!("sink named '{name}' already exists.")));
    }
    let mut servers = Box::new(crate::proxy::fresh(line.span()));
    servers.p.name = Arc::clone(&name);
    servers.p.kind = ProxyKind::Backend;
    servers.whose = Servers::OfRing;
    Ok(RingDraft { ring: usual(cx, name), servers })
}

pub(crate) fn line(cx: &mut Cx<'_>, draft: &mut RingDraft, line: &Line) -> Outcome {
    let ring = &mut draft.ring;
    let value = line.text(1);
    match line.text(0) {
        "size" => {
            let size = thalweg_syntax::parse_size(value, 1 << 40).ok().filter(|s| *s > 0);
            ring.size = size
                .and_then(|s| usize::try_from(s).ok())
                .ok_or_else(|| fail(line, 1, format!("invalid size '{value}' for new sink buffer.")))?;
        }
        "maxlen" => {
            ring.maxlen = u32::try_from(leading(value).0)
                .ok()
                .filter(|n| *n > 0)
                .ok_or_else(|| fail(line, 1, format!("invalid size '{value}' for new sink buffer.")))?;
        }
        "format" => {
            ring.format = crate::log::format_kind(value)
                .ok_or_else(|| fail(line, 1, format!("unknown format '{value}'.")))?;
        }
        "description" => {
            if value.is_empty() {
                return Err(fail(line, 1, "missing ring description text."));
            }
            ring.description = Some(cx.name(value));
        }
        "timeout" => {
            let place = match value {
                "connect" => &mut ring.timeout_connect_ms,
                "server" => &mut ring.timeout_server_ms,
                _ => return Err(fail(line, 1, format!("unknown statement 'timeout {value}'."))),
            };
            if line.text(2).is_empty() {
                return Err(fail(line, 2, format!("'timeout {value}' expects <time> as argument.")));
            }
            let ms = time(cx, line, 2, TimeUnit::Milliseconds, &format!("timeout {value}"))?;
            *place = (ms != 0).then_some(ms);
        }
        "server" => server(cx, &mut draft.servers, line, "rings")?,
        "backing-file" => {
            return Err(not_supported(line, 0, "backing-file", "rings are kept in memory only"));
        }
        other => return Err(fail(line, 0, format!("unknown statement '{other}'."))),
    }
    Ok(())
}

/// A server of a section that is no proxy, as `what` has them: it is connected to as its line says, and not looked for.
pub(crate) fn server(cx: &mut Cx<'_>, servers: &mut Building, line: &Line, what: &str) -> Outcome {
    let datagrams = std::mem::take(&mut servers.datagram_servers);
    crate::server::server(cx, servers, line)?;
    crate::server::resolve_names(cx, servers, |_| None);
    if servers.datagram_servers || datagrams {
        let message = format!("servers of {what} are reached over streams, not over datagrams.");
        return Err(fail(line, 2, message));
    }
    if let Some(server) = servers.p.servers.last_mut() {
        // Said to be ignored.
        (server.check, server.send_proxy) = (None, ProxyHeader::None);
    }
    let last = servers.p.servers.last();
    let reachable = |s: &Server| matches!(s.addr, ServerAddr::Tcp(_) | ServerAddr::Unix(_));
    let wrong = if !last.is_some_and(|s| reachable(s)) {
        (2, line.text(2), format!("{what} are sent to IP and unix addresses only"))
    } else if last.is_some_and(|s| crate::tls::asks_by_expression(s)) {
        (0, "sni", format!("servers of {what} are not asked for by name"))
    } else if !servers.resolutions.is_empty() {
        (0, "resolvers", format!("{what} stay with the address of the start"))
    } else {
        return Ok(());
    };
    let (at, word, why) = wrong;
    Err(not_supported(line, at, word, &why))
}

pub(crate) fn close(cx: &mut Cx<'_>, draft: RingDraft) {
    let mut ring = draft.ring;
    // A line without any room for text is of no use; lines that exceed the ring are cut.
    let longest = u32::try_from(ring.size).unwrap_or(u32::MAX);
    if ring.maxlen > longest && ring.maxlen != MAXLEN_USUAL {
        let message = format!(
            "ring '{}' event max length '{}' exceeds max payload size, forced to '{longest}'.",
            ring.name, ring.maxlen
        );
        cx.diagnostics.push(Diagnostic::warning(message));
    }
    ring.maxlen = ring.maxlen.min(longest);
    cx.ring_servers.push((Arc::clone(&ring.name), draft.servers));
    cx.config.rings.push(ring);
}

/// Gives a ring its servers, whose certificates and authorities are loaded by now.
pub(crate) fn settle(cx: &mut Cx<'_>, name: &str, servers: Building) {
    let Some(ring) = cx.config.rings.iter_mut().find(|ring| *ring.name == *name) else { return };
    for server in servers.p.servers {
        let octet_count = server.rare().octet_count;
        ring.servers.push(RingServer { server, octet_count });
    }
}
