//! `set server <b>/<s> agent|agent-addr|agent-port|agent-send`.

use std::net::IpAddr;

use thalweg_config::model::{Proxy, Server};
use thalweg_proxy::Instance;
use thalweg_proxy::backend::identity::Identity;
use thalweg_proxy::operator::Hand;

use crate::output::Reply;

/// Changes what `what` says, as `args` say.
pub(super) fn set(instance: &Instance, proxy: &Proxy, server: &Server, what: &str, args: &[&str]) -> Reply {
    let backend = &instance.backends[proxy.id.0 as usize];
    let first = args.first().copied();
    let is_asked = backend.standing(server.id).agent_asked;
    match (what, first) {
        ("agent", _) if !is_asked => Reply::error("agent checks are not enabled on this server."),
        ("agent", Some(word @ ("up" | "down"))) => {
            if let Some(worker) = crate::worker() {
                Hand { worker: &worker, proxy: proxy.id, server: server.id }.say_agent(word == "up", "CLI");
            }
            Reply::Done
        }
        ("agent", _) => Reply::error("'set server <srv> agent' expects 'up' or 'down'."),
        ("agent-send", _) if !is_asked => Reply::error("agent checks are not enabled on this server."),
        ("agent-send", text) => {
            let text = text.filter(|text| !text.is_empty()).map(|text| text.as_bytes().into());
            backend.change_identity(proxy, server, |now, _| now.agent_send = text);
            Reply::Done
        }
        ("agent-addr", None) => {
            Reply::error("set server <b>/<s> agent-addr requires an address and optionally a port.")
        }
        (_, None) => Reply::error("set server <b>/<s> agent-port requires a port."),
        (_, Some(_)) if !is_asked => Reply::warning("agent checks are not enabled on this server"),
        ("agent-addr", Some(name)) => {
            // Other words than `port` say nothing in the reference.
            let port = (args.get(1) == Some(&"port")).then(|| args.get(2).copied().unwrap_or_default());
            match backend.change_identity(proxy, server, |now, _| set_address(now, name, port)) {
                Ok(()) => Reply::Done,
                Err(why) => Reply::warning(why),
            }
        }
        (_, Some(text)) => match port(text) {
            Err(why) => Reply::warning(why),
            Ok(port) => {
                backend.change_identity(proxy, server, |now, _| now.agent_port = Some(port));
                Reply::Done
            }
        },
    }
}

/// Where an agent is asked.
pub(crate) fn set_address(now: &mut Identity, ip: &str, at: Option<&str>) -> Result<(), String> {
    // No names: whoever looks one up waits, and traffic with him.
    let ip: IpAddr = ip.parse().map_err(|_| format!("invalid addr '{ip}'"))?;
    let at = at.map(port).transpose()?;
    now.agent_addr = Some(ip);
    now.agent_port = at.or(now.agent_port);
    Ok(())
}

/// The port of an agent.
pub(crate) fn port(text: &str) -> Result<u16, &'static str> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err("provided port is not an integer");
    }
    text.parse().map_err(|_| "provided port is invalid")
}
