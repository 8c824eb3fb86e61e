//! Servers and backends.

use thalweg_config::model::{Proxy, Server, ServerAddr};
use thalweg_proxy::Instance;
use thalweg_proxy::counters::sum;

use super::{find_proxy, find_server};
use crate::output::{Level, Reply};

/// `show backend`.
pub fn show_backend(instance: &Instance) -> Reply {
    let mut text = String::from("# name\n");
    for proxy in instance.config.proxies.iter().filter(|p| p.is_be()) {
        text.push_str(&proxy.name);
        text.push('\n');
    }
    Reply::Text(text)
}

/// The backends that a command is about: the one named, or all.
fn chosen<'i>(instance: &'i Instance, args: &[&str]) -> Result<Vec<&'i Proxy>, Reply> {
    match args.first() {
        Some(name) => match find_proxy(instance, name, Proxy::is_be) {
            Some(proxy) => Ok(vec![proxy]),
            None => Err(Reply::error("Can't find backend.")),
        },
        None => Ok(instance.config.proxies.iter().filter(|p| p.is_be()).collect()),
    }
}

/// Address and port of a server, as these two columns show them.
fn address_and_port(server: &Server) -> (String, u16) {
    match &server.addr {
        ServerAddr::Tcp(addr) => (addr.ip().to_string(), addr.port()),
        ServerAddr::Unresolved(_, port) => ("-".into(), *port),
        ServerAddr::Unix(_)
        | ServerAddr::Abstract(_)
        | ServerAddr::AbstractZ(_)
        | ServerAddr::SockPair(_) => ("-".into(), 0),
    }
}

/// `show servers state` (management manual: version 1 of the state file).
pub fn show_state(instance: &Instance, args: &[&str]) -> Reply {
    let backends = match chosen(instance, args) {
        Ok(backends) => backends,
        Err(reply) => return reply,
    };
    let mut text = String::from(
        "1\n# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight srv_iweight \
         srv_time_since_last_change srv_check_status srv_check_result srv_check_health srv_check_state srv_agent_state \
         bk_f_forced_id srv_f_forced_id srv_fqdn srv_port srvrecord srv_use_ssl srv_check_port srv_check_addr \
         srv_agent_addr srv_agent_port\n",
    );
    for proxy in backends {
        let backend = &instance.backends[proxy.id.0 as usize];
        for server in &proxy.servers {
            let (address, port) = address_and_port(server);
            let state = backend.admin_state(server.id);
            // Bits: forced maintenance 1, by the configuration 4, forced drain 8.
            let admin = u32::from(state.maintenance)
                | u32::from(server.disabled && state.maintenance) << 2
                | u32::from(state.drain) << 3;
            // Of the check: its status, its result, the health, and bits: 1 running, 2 configured, 4 enabled, 8 paused.
            let check = match backend.check_report(server.id) {
                Some(report) => format!(
                    "{} {} {} {}",
                    report.verdict.status.number(),
                    report.result_number(),
                    report.health.value(),
                    6 | u32::from(report.running) | u32::from(state.maintenance) << 3,
                ),
                None => "1 0 1 0".to_owned(),
            };
            let operational = if backend.is_up(server.id) { 2 } else { 0 };
            let name = match &server.addr {
                ServerAddr::Unresolved(name, _) => name,
                _ => "-",
            };
            text.push_str(&format!(
                "{} {} {} {} {address} {operational} {admin} {} {} {} {check} 0 0 0 {name} {port} - 0 0 - - 0\n",
                proxy.uid,
                proxy.name,
                server.uid,
                server.name,
                backend.weight(server.id),
                server.weight,
                state.since_s(),
            ));
        }
    }
    Reply::Text(text)
}

/// `show servers conn`.
pub fn show_connections(instance: &Instance, args: &[&str]) -> Reply {
    let backends = match chosen(instance, args) {
        Ok(backends) => backends,
        Err(reply) => return reply,
    };
    let threads = instance.threads.len();
    let mut text = format!(
        "# bkname/svname bkid/svid addr port - purge_delay served used_cur used_max need_est idle_sess unsafe_nb safe_nb \
         idle_lim idle_cur idle_per_thr[{threads}]\n"
    );
    for proxy in backends {
        for server in &proxy.servers {
            let index = instance.server_index(proxy.id, server.id);
            let (address, port) = address_and_port(server);
            let served = instance.server_streams(proxy.id, server.id);
            let used_max = sum(&*instance.threads, |t| &t.servers[index].current_max);
            let idle: Vec<u64> =
                instance.threads.iter().map(|t| t.servers[index].idle_connections.get()).collect();
            let total = idle.iter().fold(0u64, |sum, n| sum.wrapping_add(*n));
            let idle: Vec<String> = idle.iter().map(u64::to_string).collect();
            text.push_str(&format!(
                "{}/{} {}/{} {address} {port} - {} {served} {served} {used_max} {served} 0 0 {total} {} {total} {}\n",
                proxy.name,
                server.name,
                proxy.uid,
                server.uid,
                server.pool.purge_delay_ms,
                server.pool.max_conn,
                idle.join(" ")
            ));
        }
    }
    Reply::Text(text)
}

/// `get weight`.
pub fn get_weight(instance: &Instance, args: &[&str]) -> Reply {
    match find_server(instance, args) {
        Ok((proxy, server)) => {
            let weight = instance.backends[proxy.id.0 as usize].weight(server.id);
            Reply::info(format!("{weight} (initial {})", server.weight))
        }
        Err(reply) => reply,
    }
}

/// `set weight`, and the same for `set server ... weight`.
pub fn set_weight(instance: &Instance, args: &[&str]) -> Reply {
    let (proxy, server) = match find_server(instance, args) {
        Ok(found) => found,
        Err(reply) => return reply,
    };
    match args.get(1) {
        Some(weight) => change_weight(instance, proxy, server, weight),
        None => Reply::error("Require <weight> or <weight%>."),
    }
}

/// The highest weight.
const WEIGHT_MAX: u64 = 256;

fn change_weight(instance: &Instance, proxy: &Proxy, server: &Server, text: &str) -> Reply {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let Ok(number) = text[..digits].parse::<u64>() else {
        return Reply::error("Empty weight string empty or preceded by garbage");
    };
    let weight = match &text[digits..] {
        "%" => {
            let weight = number.saturating_mul(u64::from(server.weight)) / 100;
            if weight > WEIGHT_MAX {
                return Reply::error(
                    "Relative weight can only be between 0 and 256 times the initial weight.",
                );
            }
            weight
        }
        "" if number > WEIGHT_MAX => {
            return Reply::error("Absolute weight can only be between 0 and 256 inclusive.");
        }
        "" => number,
        _ => return Reply::error("Trailing garbage in weight string"),
    };
    let backend = &instance.backends[proxy.id.0 as usize];
    backend.set_weight(server.id, u32::try_from(weight).unwrap_or(0));
    Reply::Done
}

const SET_SERVER_USAGE: &str = "usage: set server <backend>/<server> addr | agent | agent-addr | agent-port | agent-send | \
                                check-addr | check-port | fqdn | health | name | ssl | state | weight";

/// `set server`.
pub fn set(instance: &Instance, args: &[&str]) -> Reply {
    let (proxy, server) = match find_server(instance, args) {
        Ok(found) => found,
        Err(reply) => return reply,
    };
    let backend = &instance.backends[proxy.id.0 as usize];
    let value = args.get(2).copied();
    match (args.get(1).copied(), value) {
        (Some("weight"), Some(weight)) => change_weight(instance, proxy, server, weight),
        (Some("weight"), None) => Reply::error("Require <weight> or <weight%>."),
        (Some("state"), value) => {
            match value {
                Some("ready") => {
                    backend.set_maintenance(server.id, false);
                    backend.set_drain(server.id, false);
                }
                Some("drain") => {
                    backend.set_maintenance(server.id, false);
                    backend.set_drain(server.id, true);
                }
                Some("maint") => backend.set_maintenance(server.id, true),
                _ => return Reply::error("'set server <srv> state' expects 'ready', 'drain' and 'maint'."),
            }
            Reply::Done
        }
        (Some("health"), value) => {
            match value {
                Some("up") => {
                    backend.set_health(server.id, true);
                    backend.set_drain(server.id, false);
                }
                Some("stopping") => backend.set_drain(server.id, true),
                Some("down") => backend.set_health(server.id, false),
                _ => return Reply::error("'set server <srv> health' expects 'up', 'stopping', or 'down'."),
            }
            Reply::Done
        }
        (Some("agent"), _) => Reply::error("agent checks are not enabled on this server."),
        (Some(what @ ("addr" | "agent-addr" | "agent-port" | "agent-send")), _)
        | (Some(what @ ("check-addr" | "check-port" | "fqdn" | "name" | "ssl")), _) => Reply::error(format!(
            "'set server <srv> {what}' is known, but not supported yet by this program."
        )),
        _ => Reply::Message(Level::Error, SET_SERVER_USAGE.into()),
    }
}

/// `enable server`, `disable server`.
pub fn enable(instance: &Instance, args: &[&str], on: bool) -> Reply {
    match find_server(instance, args) {
        Ok((proxy, server)) => {
            instance.backends[proxy.id.0 as usize].set_maintenance(server.id, !on);
            Reply::Done
        }
        Err(reply) => reply,
    }
}

/// `set maxconn server`.
pub fn set_maxconn(instance: &Instance, args: &[&str]) -> Reply {
    let (proxy, server) = match find_server(instance, args) {
        Ok(found) => found,
        Err(reply) => return reply,
    };
    let Some(text) = args.get(1) else { return Reply::error("Require <maxconn>.") };
    match text.parse::<u32>() {
        Ok(maxconn) => {
            if instance.backends[proxy.id.0 as usize].set_maxconn(server.id, maxconn) {
                Reply::Done
            } else {
                Reply::error(
                    "No server of this backend has a 'maxconn' in the configuration: give one to any of them, even a \
                     large one, and it can be changed here.",
                )
            }
        }
        Err(_) => Reply::error("maxconn string empty or preceded by garbage"),
    }
}
