//! What resolving names changes about servers, and what the logs hear of it. Called by [`crate::resolvers`] alone.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use thalweg_config::model::{LogLevel, PortMode, Proxy, ProxyId, Server, ServerAddr, ServerId};

use super::health::{self, Before};
use super::identity::Identity;
use super::track;
use crate::operator::Hand;
use crate::worker::Worker;

/// A server that follows a name, on the thread that resolves it.
pub struct Resolved<'a> {
    /// That thread's.
    pub worker: &'a Worker,
    /// The backend.
    pub proxy: &'a Proxy,
    /// The server.
    pub server: &'a Server,
}

impl<'a> Resolved<'a> {
    /// The server of these numbers, if there is one.
    pub fn new(worker: &'a Worker, proxy: ProxyId, server: ServerId) -> Option<Resolved<'a>> {
        let proxy = worker.proxy(proxy);
        Some(Resolved { worker, proxy, server: proxy.server(server)? })
    }

    fn identity(&self) -> Identity {
        self.worker.backend(self.proxy.id).identity(self.server)
    }

    fn change(&self, f: impl FnOnce(&mut Identity)) {
        self.worker.backend(self.proxy.id).change_identity(self.proxy, self.server, |now, _| f(now));
    }

    fn tell(&self, line: &str) {
        health::tell(self.worker, self.proxy.id, LogLevel::Notice, line);
    }

    /// The name to show for an address that there is not.
    fn name(&self, now: &Identity) -> Arc<str> {
        now.fqdn.clone().or_else(|| self.server.rare().fqdn.clone()).unwrap_or_default()
    }

    /// The server is there. `by` says who says so; a port that comes with it is told, too, if `tells_port`.
    pub fn is_at(&self, address: IpAddr, port: Option<u16>, by: &str, tells_port: bool) {
        let before = self.identity();
        let (old, old_port) = match &before.addr {
            ServerAddr::Tcp(addr) => (Some(addr.ip()), addr.port()),
            ServerAddr::Unresolved(_, port) => (None, *port),
            // A server of another kind has no name that is resolved.
            _ => return,
        };
        self.change(|now| {
            now.addr = ServerAddr::Tcp(SocketAddr::new(address, port.unwrap_or(old_port)));
            if port.is_some() {
                now.port_mode = PortMode::Fixed;
            }
        });
        if old != Some(address) {
            let shown = old.map_or("(none)".to_owned(), |ip| ip.to_string());
            let mark = if before.port_mode == PortMode::Fixed { "" } else { "+" };
            let ports = match port.filter(|port| tells_port && (*port != old_port || !mark.is_empty())) {
                Some(port) => format!(", port changed from '{mark}{old_port}' to '{port}'"),
                None => String::new(),
            };
            let (backend, server) = (&self.proxy.name, &before.name);
            self.tell(&format!(
                "{backend}/{server}: IP changed from '{shown}' to '{address}'{ports} by '{by}'."
            ));
        }
        if self.worker.backend(self.proxy.id).find_address(self.server.id) {
            let title = health::title(self.worker, self.proxy.id, self.server.id);
            let name = self.name(&self.identity());
            self.tell(&format!("{title} ('{name}') is UP/READY (resolves again)."));
            self.tell(&format!("{title} administratively READY thanks to valid DNS answer."));
            track::follow(self.worker, self.proxy.id, self.server.id);
        }
    }

    /// The server has no address any more, for this reason.
    pub fn is_lost(&self, reason: &str) {
        let backend = self.worker.backend(self.proxy.id);
        let before = Before::look(backend, self.server.id);
        let was_up = backend.is_up(self.server.id);
        let is_new = backend.lose_address(self.server.id);
        self.change(|now| {
            let port = if let ServerAddr::Tcp(addr) = &now.addr { addr.port() } else { 0 };
            now.addr = ServerAddr::Unresolved(self.name(now), port);
        });
        if !is_new {
            return;
        }
        if was_up {
            let what = format!("is going DOWN for maintenance ({reason})");
            before.tell_down(self.worker, self.proxy.id, self.server.id, &what);
        } else {
            let title = health::title(self.worker, self.proxy.id, self.server.id);
            self.tell(&format!("{title} was DOWN and now enters maintenance ({reason})."));
        }
        track::follow(self.worker, self.proxy.id, self.server.id);
    }

    /// The server, one of a service, has another host, or none.
    pub fn has_host(&self, host: Option<&Arc<str>>) {
        let before = self.identity();
        self.change(|now| {
            now.fqdn = host.cloned();
            now.fqdn_changed = true;
            if host.is_none() {
                now.addr = ServerAddr::Unresolved(self.name(now), 0);
            }
        });
        if let Some(host) = host {
            let line = renamed(self.proxy, &before, host, "SRV record");
            self.worker.log(self.proxy.id, LogLevel::Notice, b"", line.as_bytes());
        }
    }

    /// The server, one of a service, has this weight.
    pub fn has_weight(&self, weight: u16) {
        let hand = Hand { worker: self.worker, proxy: self.proxy.id, server: self.server.id };
        hand.set_weight(u32::from(weight));
    }
}

/// The line about a server that has another name to be resolved.
pub fn renamed(proxy: &Proxy, before: &Identity, name: &str, by: &str) -> String {
    let old = before.fqdn.as_deref().unwrap_or("(null)");
    format!("{}/{} changed its FQDN from {old} to {name} by '{by}'", proxy.name, before.name)
}
