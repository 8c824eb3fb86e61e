//! Reverse HTTP: whom `bind rhttp@` connects to, and whom `attach-srv` gives connections to.

use thalweg_syntax::{Diagnostic, Lead, Severity};

use crate::build::{Building, Cx};
use crate::model::{BindAddr, Mode, ServerAddr, ServerId};

/// Finds the servers that are named, and says what is wrong with them.
pub(super) fn resolve(cx: &mut Cx<'_>) {
    let mut wrong = Vec::new();
    for b in &cx.proxies {
        servers(b, &mut wrong);
        attached(&cx.proxies, b, &mut wrong);
    }
    for at in 0..cx.proxies.len() {
        for bind in 0..cx.proxies[at].p.binds.len() {
            let BindAddr::Reverse(wanted) = &cx.proxies[at].p.binds[bind].addr else { continue };
            match dialed(&cx.proxies, &cx.proxies[at], wanted) {
                Ok((proxy, server)) => {
                    let of = &mut cx.proxies[proxy].p;
                    of.servers[server].is_referenced = true;
                    let dialed = (of.id, of.servers[server].id);
                    cx.proxies[at].p.binds[bind].dials = Some(dialed);
                }
                Err(what) => {
                    let b = &cx.proxies[at];
                    let line = &b.p.binds[bind];
                    let message = format!(
                        "{} : 'bind {}' at [{}:{}]: {what}.",
                        b.title(),
                        line.shown,
                        line.file,
                        line.line
                    );
                    wrong.push((b.span, message));
                }
            }
        }
    }
    for (span, message) in wrong {
        cx.diagnostics.push(Diagnostic::new(Severity::Alert, Lead::Bare, Some(span), message));
    }
}

type Wrong = Vec<(thalweg_syntax::Span, String)>;

/// Servers that others connect to us for.
fn servers(b: &Building, wrong: &mut Wrong) {
    for server in b.p.servers.iter().filter(|server| server.addr == ServerAddr::Reverse) {
        let name = &server.name;
        let mut complain =
            |what: &str| wrong.push((b.span, format!("backend '{}' : server {name} {what}.", b.p.name)));
        if b.p.mode != Mode::Http {
            complain("uses reverse HTTP addressing which can only be used with HTTP mode");
        }
        if server.check.is_some() {
            complain("uses reverse HTTP addressing, and checks on its connections are not supported yet");
        }
    }
}

/// The server that a listener connects to: the positions of its proxy and of itself.
fn dialed(proxies: &[Building], b: &Building, wanted: &str) -> Result<(usize, usize), String> {
    if b.p.mode != Mode::Http {
        return Err("reverse HTTP can only be used with HTTP mode".into());
    }
    let (backend, name) =
        wanted.split_once('/').ok_or_else(|| format!("expects '<backend>/<server>' (got '{wanted}')"))?;
    let proxy = proxies.iter().position(|b| b.p.is_be() && &*b.p.name == backend);
    let proxy = proxy.ok_or_else(|| format!("no such backend '{backend}'"))?;
    let server = proxies[proxy].p.servers.iter().position(|server| &*server.name == name);
    let server = server.ok_or_else(|| format!("no such server '{wanted}'"))?;
    if proxies[proxy].p.servers[server].addr == ServerAddr::Reverse {
        return Err(format!("server '{wanted}' has no address to connect to"));
    }
    Ok((proxy, server))
}

/// Whether those that connections are given to wait for them, and know them by the names that they have.
fn attached(proxies: &[Building], b: &Building, wrong: &mut Wrong) {
    for to in b.p.rules.tcp_session.attached_servers() {
        let Some(backend) = proxies.iter().map(|b| &b.p).find(|p| p.id == to.server.proxy) else { continue };
        let Some(server) = backend.server(ServerId(to.server.index)) else { continue };
        let name = format!("{}/{}", backend.name, server.name);
        let asked_by_name = server.rare().pool_conn_name.is_some()
            || server.tls.as_deref().is_some_and(|tls| tls.words.sni.is_some());
        let what = match (server.addr == ServerAddr::Reverse, to.named, asked_by_name) {
            (false, ..) => format!("attach-srv rule: server '{name}' has no 'rhttp@' address."),
            (_, true, false) => format!(
                "attach-srv rule has a name argument while server '{name}' does not use pool-conn-name; either \
                 reconfigure the server or remove the name argument from this attach-srv rule."
            ),
            (_, false, true) => format!(
                "attach-srv rule has no name argument while server '{name}' uses pool-conn-name; either add a name \
                 argument to the attach-srv rule or reconfigure the server."
            ),
            _ => continue,
        };
        wrong.push((b.span, format!("Proxy '{}': {what}", b.p.name)));
    }
}
