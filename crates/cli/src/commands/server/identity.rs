//! `set server <b>/<s> addr|check-addr|check-port|name`: what a server is called and where it is reached.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use thalweg_config::model::{PortMode, Proxy, Server, ServerAddr};
use thalweg_proxy::Instance;
use thalweg_proxy::backend::health;
use thalweg_proxy::backend::identity::Identity;

use crate::output::Reply;

/// Longest name of a server, in bytes (the reference's).
const NAME_MAX: usize = 63;

/// Changes what `what` says, as `args` say.
pub(crate) fn set(instance: &Instance, proxy: &Proxy, server: &Server, what: &str, args: &[&str]) -> Reply {
    let backend = &instance.backends[proxy.id.0 as usize];
    let Some(first) = args.first().copied() else {
        return Reply::error(match what {
            "addr" => "set server <b>/<s> addr requires an address and optionally a port.",
            "check-addr" => "set server <b>/<s> check-addr requires an address and optionally a port.",
            "check-port" => "set server <b>/<s> check-port requires a port.",
            _ => "set server <b>/<s> name requires a new name.",
        });
    };
    // Other words than `port` say nothing in the reference.
    let port = (args.get(1) == Some(&"port")).then(|| args.get(2).copied().unwrap_or_default());
    match what {
        "addr" => backend.change_identity(proxy, server, |now, _| set_address(server, now, first, port)),
        "check-addr" | "check-port" if server.check.is_none() => {
            Reply::warning("health checks are not enabled on this server")
        }
        "check-addr" => backend.change_identity(proxy, server, |now, _| set_check_address(now, first, port)),
        "check-port" => backend.change_identity(proxy, server, |now, _| match set_check_port(now, first) {
            Ok(()) => Reply::Done,
            Err(why) => Reply::warning(why),
        }),
        _ => {
            let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b':' | b'_' | b'-');
            if !first.bytes().all(allowed) {
                return Reply::error("Server name contains invalid characters.");
            }
            if first.len() > NAME_MAX {
                return Reply::error("Server name too long.");
            }
            if !backend.standing(server.id).in_maintenance() {
                return Reply::error(
                    "Server must be in maintenance mode to be renamed (set server <b>/<s> state maint).",
                );
            }
            let renamed =
                backend.change_identity(proxy, server, |now, is_taken| rename(server, now, first, is_taken));
            match renamed {
                Err(refused) => Reply::error(refused),
                Ok(before) => {
                    if let (Some(before), Some(worker)) = (before, crate::worker()) {
                        // Only now: the line may go to servers of this very backend.
                        let line = format!("Server {}/{first} renamed from '{before}'.", proxy.name);
                        health::say(&worker, "NOTICE", &line);
                    }
                    Reply::notice("Server name updated.")
                }
            }
        }
    }
}

/// The port of a server, or how far its port is from the client's, modulo 65536.
pub(super) fn port_or_offset(server: &Identity, addr: SocketAddr) -> u16 {
    match server.port_mode {
        PortMode::Fixed => addr.port(),
        PortMode::SameAsClient => 0,
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        PortMode::Offset(offset) => offset as u16,
    }
}

/// Whether the port depends on the client's, as the reference writes it: `80`, `+10`.
fn port_text(server: &Identity, addr: SocketAddr) -> String {
    let mark = if server.port_mode == PortMode::Fixed { "" } else { "+" };
    format!("{mark}{}", port_or_offset(server, addr))
}

/// An address as a number: no name, no port, no prefix.
fn numeric_address(text: &str) -> Option<IpAddr> {
    if text == "*" { Some(Ipv4Addr::UNSPECIFIED.into()) } else { text.parse().ok() }
}

fn set_address(server: &Server, now: &mut Identity, ip: &str, port: Option<&str>) -> Reply {
    let Some(ip) = numeric_address(ip) else { return Reply::warning(format!("Invalid addr '{ip}'")) };
    let ServerAddr::Tcp(old) = now.addr else {
        return Reply::warning(
            "Update for the current server address family is only supported through configuration file.",
        );
    };
    let port = match port.map(|text| (text, port_mode(text))) {
        None => None,
        Some((_, Some(port))) => Some(port),
        Some((text, None)) => return Reply::warning(format!("problem converting port '{text}' to an int")),
    };
    let mut changes = Vec::new();
    let mut new = old;
    if ip != old.ip() {
        changes.push(format!("IP changed from '{}' to '{ip}'", old.ip()));
        new.set_ip(ip);
    }
    let before = port_text(now, old);
    if let Some((mode, port)) = port {
        let is_mapped = mode != PortMode::Fixed;
        let mut after = now.clone();
        after.port_mode = mode;
        let mut at = new;
        at.set_port(port);
        let text = port_text(&after, at);
        if text != before && is_mapped && server.check.is_some() && now.check_port.is_none() {
            changes.push(
                "can't change <port> to port map because it is incompatible with current health check port configuration \
                 (use 'port' statement from the 'server' directive)."
                    .into(),
            );
        } else if text != before {
            changes.push(format!("port changed from '{before}' to '{text}'"));
            now.port_mode = mode;
            new = at;
        }
    }
    now.addr = ServerAddr::Tcp(new);
    if changes.is_empty() {
        return Reply::warning("nothing changed");
    }
    let mut text = changes.join(", ");
    let _ = write!(text, " by 'stats socket command'");
    Reply::warning(text)
}

/// A port, or `+n`, `-n`: that far from the one that the client connected to. The number to keep is the one that the
/// configuration would have left in the address.
fn port_mode(text: &str) -> Option<(PortMode, u16)> {
    if let Some(offset) = text.strip_prefix(['+', '-']) {
        let distance = i32::from(number(offset)?);
        let offset = if text.starts_with('-') { -distance } else { distance };
        return Some((PortMode::Offset(offset), 0));
    }
    Some((PortMode::Fixed, number(text)?))
}

/// A number of 16 bits, digits only.
fn number(text: &str) -> Option<u16> {
    if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// Where checks go. Nothing is changed where it is a message that is returned.
pub(crate) fn set_check_address(now: &mut Identity, ip: &str, port: Option<&str>) -> Reply {
    let Some(address) = numeric_address(ip) else { return Reply::warning(format!("invalid addr '{ip}'")) };
    let before = now.clone();
    if let Some(port) = port
        && let Err(why) = set_check_port(now, port)
    {
        *now = before;
        return Reply::warning(why);
    }
    now.check_addr = Some(SocketAddr::new(address, 0));
    Reply::Done
}

/// 0 for the port of the traffic.
pub(crate) fn set_check_port(now: &mut Identity, text: &str) -> Result<(), &'static str> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err("provided port is not an integer");
    }
    let port = number(text).ok_or("provided port is invalid")?;
    if port == 0 && now.port_mode != PortMode::Fixed {
        return Err("can't unset 'port' since MAPPORTS is in use");
    }
    now.check_port = (port != 0).then_some(port);
    Ok(())
}

/// The name that it had, if it was another one.
fn rename(
    server: &Server,
    now: &mut Identity,
    name: &str,
    is_taken: &dyn Fn(&str) -> bool,
) -> Result<Option<Arc<str>>, &'static str> {
    if server.is_referenced {
        return Err(
            "Cannot rename: server's name is statically referenced (use-server, track, or sample argument).",
        );
    }
    if is_taken(name) {
        return Err("A server with the same name already exists in this backend.");
    }
    let is_new = name != &*now.name;
    Ok(is_new.then(|| std::mem::replace(&mut now.name, name.into())))
}
