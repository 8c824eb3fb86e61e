//! What a transaction sets of servers.

use std::net::IpAddr;

use thalweg_config::model::{Proxy, Server, ServerAddr};
use thalweg_proxy::Instance;
use thalweg_proxy::backend::algorithm::takes_new_servers;
use thalweg_proxy::operator::{Hand, maxconn_of, weight_of};
use thalweg_proxy::resolvers::{self, NameChange};
use thalweg_proxy::worker::Worker;

use crate::commands::server;
use crate::output::Reply;

/// Something that is set, which can be: it was looked at before.
pub(super) enum Setting {
    Weight(u32),
    Maxconn(u32),
    Ready,
    Drain,
    Maintenance,
    /// What follows the server's name in `set server`.
    Words(Vec<String>),
}

impl Setting {
    /// `set server <backend>/<server>`, and what follows. `is_new`: the server comes with the same transaction.
    ///
    /// # Errors
    /// Why it cannot be set.
    pub fn read(
        instance: &Instance,
        proxy: &Proxy,
        server: &Server,
        is_new: bool,
        words: &[&str],
    ) -> Result<Setting, String> {
        match words {
            ["weight", text] => Setting::weight(proxy, server, text),
            ["state", "ready"] => Ok(Setting::Ready),
            ["state", "drain"] => Ok(Setting::Drain),
            ["state", "maint"] => Ok(Setting::Maintenance),
            ["state", _] => Err("'set server <srv> state' expects 'ready', 'drain' and 'maint'.".into()),
            ["addr", args @ ..] => address(server, args).map(|()| Setting::words(words)),
            [
                "agent-addr" | "agent-port" | "agent-send" | "check-addr" | "check-port" | "fqdn" | "health"
                | "ssl",
                ..,
            ] if is_new => Err("What else is to be said of a new server is said by its 'add server'.".into()),
            _ => check(instance, proxy, server, words).map(|()| Setting::words(words)),
        }
    }

    pub fn weight(proxy: &Proxy, server: &Server, text: &str) -> Result<Setting, String> {
        let is_static = !takes_new_servers(proxy);
        weight_of(text, u32::from(server.weight), is_static).map(Setting::Weight).map_err(str::to_owned)
    }

    pub fn maxconn(text: &str) -> Result<Setting, String> {
        maxconn_of(text).map(Setting::Maxconn).map_err(str::to_owned)
    }

    fn words(words: &[&str]) -> Setting {
        Setting::Words(words.iter().map(|word| (*word).to_owned()).collect())
    }

    pub fn make(self, now: &Instance, worker: &Worker, proxy: &Proxy, server: &Server) {
        let hand = Hand { worker, proxy: proxy.id, server: server.id };
        match self {
            Setting::Weight(weight) => hand.set_weight(weight),
            Setting::Maxconn(maxconn) => now.backends[proxy.id.0 as usize].set_maxconn(server.id, maxconn),
            Setting::Ready => hand.make_ready(),
            Setting::Drain => hand.start_drain(),
            Setting::Maintenance => hand.maintain(),
            Setting::Words(words) => {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                // That nothing changed is no failure.
                let _ = server::change(now, proxy, server, &words);
            }
        }
    }
}

/// Whether a server can have this address.
fn address(server: &Server, args: &[&str]) -> Result<(), String> {
    let (ip, port) = match args {
        [ip] => (ip, None),
        [ip, "port", port] => (ip, Some(port)),
        _ => return Err("set server <b>/<s> addr requires an address and optionally a port.".into()),
    };
    if ip.parse::<IpAddr>().is_err() {
        return Err(format!("Invalid addr '{ip}'"));
    }
    if let Some(port) = port.filter(|port| port.parse::<u16>().is_err()) {
        return Err(format!("problem converting port '{port}' to an int"));
    }
    if !matches!(server.addr, ServerAddr::Tcp(_)) {
        return Err("A server without a numeric address gets none in a transaction.".into());
    }
    Ok(())
}

/// Whether the other things can be set, as far as somebody could still get in the way when they are.
fn check(instance: &Instance, proxy: &Proxy, server: &Server, words: &[&str]) -> Result<(), String> {
    let backend = &instance.backends[proxy.id.0 as usize];
    let mut now = backend.identity(server);
    let is_ready = |is_ready: bool, why: &str| if is_ready { Ok(()) } else { Err(why.to_owned()) };
    match words {
        ["check-addr" | "check-port", ..] if server.check.is_none() => {
            Err("health checks are not enabled on this server".into())
        }
        ["check-addr", ip] => said(&server::identity::set_check_address(&mut now, ip, None)),
        ["check-addr", ip, "port", port] => {
            said(&server::identity::set_check_address(&mut now, ip, Some(port)))
        }
        ["check-port", port] => server::identity::set_check_port(&mut now, port).map_err(str::to_owned),
        ["agent-addr" | "agent-port" | "agent-send", ..] if !backend.standing(server.id).agent_asked => {
            Err("agent checks are not enabled on this server".into())
        }
        ["agent-addr", ip] => server::agent::set_address(&mut now, ip, None),
        ["agent-addr", ip, "port", port] => {
            server::agent::set_address(&mut now, ip, Some(port))
        }
        ["agent-port", text] => server::agent::port(text).map(drop).map_err(str::to_owned),
        ["agent-send", _] => Ok(()),
        ["fqdn", name] => match resolvers::new_name(server, name) {
            Ok(_) => Ok(()),
            Err(NameChange::NoResolution) => Err("no resolution is configured.".into()),
            Err(NameChange::Service) => Err("SRV resolution is configured.".into()),
            Err(NameChange::Same | NameChange::NoName) => Err(format!("'{name}' is no name.")),
        },
        ["health", "up" | "stopping" | "down"] => {
            is_ready(server.rare().track.is_none(), "cannot change health on a tracking server.")
        }
        ["ssl", "on" | "off"] => {
            let can = server.tls.as_ref().is_some_and(|tls| tls.line.is_some());
            is_ready(can, "'set server <srv> ssl' cannot be set.  default-server should define ssl settings")
        }
        _ => Err("In a transaction 'set server' takes 'addr', 'agent-addr', 'agent-port', 'agent-send', 'check-addr', 'check-port', \
                  'fqdn', 'health', 'ssl', 'state' and 'weight', with what they are to be."
            .into()),
    }
}

/// The error of an answer.
fn said(reply: &Reply) -> Result<(), String> {
    match reply {
        Reply::Message(_, why) => Err(why.clone()),
        Reply::Done | Reply::Text(_) => Ok(()),
    }
}
