//! Servers and backends.

mod identity;

use thalweg_config::model::CliLevel::{Admin, User};
use thalweg_config::model::{Proxy, Server, ServerAddr, ServerTls};
use thalweg_proxy::Instance;
use thalweg_proxy::backend::connect::shares_connections;
use thalweg_proxy::backend::identity::Identity;
use thalweg_proxy::backend::standing::Said;
use thalweg_proxy::counters::{Counter, Counters, sum};
use thalweg_proxy::operator::Hand;

use self::identity::port_or_offset;
use super::{find_proxy, find_server};
use crate::anonymous;
use crate::command::{Command, Run};
use crate::output::{Level, Reply};

/// What this family adds to the table.
pub static COMMANDS: &[Command] = &[
    Command::new("show backend", User, Run::Now(|call| show_backend(call.instance())))
        .help("", "list the backends"),
    Command::new(
        "show servers conn",
        User,
        Run::Now(|call| show_connections(call.instance(), call.args, call.session.anon_key)),
    )
    .help("[<backend>]", "show the connections to servers"),
    Command::new(
        "show servers state",
        User,
        Run::Now(|call| show_state(call.instance(), call.args, call.session.anon_key)),
    )
    .help("[<backend>]", "show the live state of servers, as a state file holds it"),
    Command::new("get weight", User, Run::Now(|call| get_weight(call.instance(), call.args)))
        .help("<bk>/<srv>", "show the weight of a server"),
    Command::new("set weight", Admin, Run::Now(|call| set_weight(call.instance(), call.args)))
        .help("<bk>/<srv>  (DEPRECATED)", "change the weight of a server (rather: 'set server')"),
    Command::new("set server", Admin, Run::Now(|call| set(call.instance(), call.args)))
        .help("<bk>/<srv> [opts]", "change the state, health, weight or address of a server")
        .lacks("agent, agent-addr, agent-port, agent-send, fqdn, as agents and resolvers are missing; addr of servers of logs"),
    Command::new("set maxconn server", Admin, Run::Now(|call| set_maxconn(call.instance(), call.args)))
        .help("<bk>/<srv>", "change the request limit of a server"),
    Command::new("enable server", Admin, Run::Now(|call| enable(call.instance(), call.args, true)))
        .help(" (DEPRECATED)", "end a server's maintenance (rather: 'set server')"),
    Command::new("disable server", Admin, Run::Now(|call| enable(call.instance(), call.args, false)))
        .help("(DEPRECATED)", "put a server into maintenance (rather: 'set server')"),
    Command::new("enable health", Admin, Run::Now(|call| enable_checks(call.instance(), call.args, true)))
        .help("", "let the checks of a server go on"),
    Command::new("disable health", Admin, Run::Now(|call| enable_checks(call.instance(), call.args, false)))
        .help("", "stop the checks of a server"),
    Command::new("enable agent", Admin, Run::Now(|call| enable_agent(call.instance(), call.args, true)))
        .help("", "let the agent checks of a server go on"),
    Command::new("disable agent", Admin, Run::Now(|call| enable_agent(call.instance(), call.args, false)))
        .help("", "stop the agent checks of a server"),
];

/// `show backend`.
fn show_backend(instance: &Instance) -> Reply {
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
        None => Ok(instance.config.proxies.iter().map(|p| &**p).filter(|p| p.is_be()).collect()),
    }
}

/// Address and port of a server, as these two columns show them.
fn address_and_port(server: &Identity) -> (String, u16) {
    match &server.addr {
        ServerAddr::Tcp(addr) => (addr.ip().to_string(), port_or_offset(server, *addr)),
        ServerAddr::Unresolved(_, port) => ("-".into(), *port),
        ServerAddr::Unix(_)
        | ServerAddr::Abstract(_)
        | ServerAddr::AbstractZ(_)
        | ServerAddr::SockPair(_) => ("-".into(), 0),
    }
}

fn was_switched(tls: &ServerTls) -> bool {
    tls.line.as_ref().is_some_and(|line| line.was_switched())
}

/// `show servers state` (management manual: version 1 of the state file).
fn show_state(instance: &Instance, args: &[&str], anon_key: u32) -> Reply {
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
            let now = backend.identity(server);
            let (address, port) = address_and_port(&now);
            let address = anonymous::server_address(anon_key, &address);
            let standing = backend.standing(server.id);
            // Of the check: its status and its result; then the health and what the check does.
            let (status, result, running) = match backend.check_report(server.id) {
                Some(report) => {
                    (report.verdict.status.number(), report.result_number(), u32::from(report.running))
                }
                None => (1, 0, 0),
            };
            let check =
                format!("{status} {result} {} {}", standing.health.value(), standing.check_bits() | running);
            let name = match &now.addr {
                ServerAddr::Unresolved(name, _) => name,
                _ => "-",
            };
            // An agent would be asked where the checks go.
            let check_port = now.check_port.unwrap_or(0);
            let check_address = now.check_addr.map(|addr| addr.ip().to_string());
            let check_address = match &check_address {
                None => "-".into(),
                Some(address) => anonymous::server_address(anon_key, address),
            };
            let ssl = match server.tls.as_deref() {
                Some(_) if server.traffic_tls().is_some() => 1,
                Some(tls) if tls.words.ssl == Some(false) && !was_switched(tls) => -1,
                _ => 0,
            };
            text.push_str(&format!(
                "{} {} {} {} {address} {} {} {} {} {} {check} 0 {} {} {name} {port} - {ssl} {check_port} {check_address} \
                 {check_address} {check_port}\n",
                proxy.uid,
                anonymous::text(anon_key, &proxy.name),
                server.uid,
                anonymous::text(anon_key, &now.name),
                standing.operation as u32,
                standing.admin_bits(),
                backend.weight(server.id),
                server.weight,
                backend.history(server.id).since_s(),
                u32::from(proxy.uid_given),
                u32::from(server.uid_given),
            ));
        }
    }
    Reply::Text(text)
}

/// `show servers conn`.
fn show_connections(instance: &Instance, args: &[&str], anon_key: u32) -> Reply {
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
            let now = instance.backends[proxy.id.0 as usize].identity(server);
            let (address, port) = address_and_port(&now);
            let address = anonymous::server_address(anon_key, &address);
            let of =
                |counter: fn(&Counters) -> &Counter| sum(&*instance.threads, |t| counter(&t.servers[index]));
            let served = instance.server_streams(proxy.id, server.id);
            // Connections of a session of its own are not counted among the used ones.
            let used = if shares_connections(proxy) { served } else { 0 };
            let idle = of(|c| &c.idle_connections);
            let safe = of(|c| &c.proven_connections);
            text.push_str(&format!(
                "{}/{} {}/{} {address} {port} - {} {served} {used} {} {} {} {} {safe} {} {idle}",
                anonymous::text(anon_key, &proxy.name),
                anonymous::text(anon_key, &now.name),
                proxy.uid,
                server.uid,
                server.pool.purge_delay_ms,
                of(|c| &c.used_connections_max),
                of(|c| &c.needed_connections),
                of(|c| &c.private_idle_connections),
                idle.saturating_sub(safe),
                server.pool.max_conn,
            ));
            // A server that may have none has no threads that have any.
            if server.pool.max_conn != 0 {
                for thread in instance.threads.iter() {
                    text.push_str(&format!(" {}", thread.servers[index].idle_connections.get()));
                }
            }
            text.push('\n');
        }
    }
    Reply::Text(text)
}

/// `get weight`.
fn get_weight(instance: &Instance, args: &[&str]) -> Reply {
    match find_server(instance, args) {
        Ok((proxy, server)) => {
            let weight = instance.backends[proxy.id.0 as usize].weight(server.id);
            Reply::Text(format!("{weight} (initial {})\n", server.weight))
        }
        Err(reply) => reply,
    }
}

/// `set weight`, and the same for `set server ... weight`.
fn set_weight(instance: &Instance, args: &[&str]) -> Reply {
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
const WEIGHT_MAX: i64 = 256;

fn change_weight(instance: &Instance, proxy: &Proxy, server: &Server, text: &str) -> Reply {
    let (number, rest) = match leading_number(text) {
        Some(found) => found,
        None => return Reply::error("Empty weight string empty or preceded by garbage"),
    };
    let initial = i64::from(server.weight);
    let weight = match rest {
        "%" if number < 0 => return Reply::error("Relative weight must be positive."),
        "%" => (number.saturating_mul(initial) / 100).min(WEIGHT_MAX),
        "" if !(0..=WEIGHT_MAX).contains(&number) => {
            return Reply::error("Absolute weight can only be between 0 and 256 inclusive.");
        }
        "" => number,
        _ => return Reply::error("Trailing garbage in weight string"),
    };
    let backend = &instance.backends[proxy.id.0 as usize];
    if backend.balancer.is_static() && weight != 0 && weight != initial {
        return Reply::error(
            "Backend is using a static LB algorithm and only accepts weights '0%' and '100%'.",
        );
    }
    if let Some(worker) = crate::worker() {
        let hand = Hand { worker: &worker, proxy: proxy.id, server: server.id };
        hand.set_weight(u32::try_from(weight).unwrap_or(0));
    }
    Reply::Done
}

/// The number at the front of a text, the nearest that fits, and what follows it.
fn leading_number(text: &str) -> Option<(i64, &str)> {
    let sign = usize::from(text.starts_with(['-', '+']));
    let digits = text.bytes().skip(sign).take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(sign + digits);
    let most = if number.starts_with('-') { i64::MIN } else { i64::MAX };
    (digits > 0).then(|| (number.parse().unwrap_or(most), rest))
}

const SET_SERVER_USAGE: &str = "usage: set server <backend>/<server> addr | agent | agent-addr | agent-port | agent-send | \
                                check-addr | check-port | fqdn | health | name | ssl | state | weight";

/// `set server`.
fn set(instance: &Instance, args: &[&str]) -> Reply {
    let (proxy, server) = match find_server(instance, args) {
        Ok(found) => found,
        Err(reply) => return reply,
    };
    let value = args.get(2).copied();
    match (args.get(1).copied(), value) {
        (Some("weight"), Some(weight)) => change_weight(instance, proxy, server, weight),
        (Some("weight"), None) => Reply::error("Require <weight> or <weight%>."),
        (Some("state"), value) => {
            let Some(worker) = crate::worker() else { return Reply::Done };
            let hand = Hand { worker: &worker, proxy: proxy.id, server: server.id };
            match value {
                Some("ready") => hand.make_ready(),
                Some("drain") => hand.start_drain(),
                Some("maint") => hand.maintain(),
                _ => return Reply::error("'set server <srv> state' expects 'ready', 'drain' and 'maint'."),
            }
            Reply::Done
        }
        (Some("health"), value) => {
            if server.rare().track.is_some() {
                return Reply::error("cannot change health on a tracking server.");
            }
            let said = match value {
                Some("up") => Said::Up,
                Some("stopping") => Said::Stopping,
                Some("down") => Said::Down,
                _ => return Reply::error("'set server <srv> health' expects 'up', 'stopping', or 'down'."),
            };
            if let Some(worker) = crate::worker() {
                Hand { worker: &worker, proxy: proxy.id, server: server.id }.say_health(said, "CLI");
            }
            Reply::Done
        }
        (Some(what @ ("addr" | "check-addr" | "check-port" | "name")), _) => {
            identity::set(instance, proxy, server, what, &args[2..])
        }
        (Some("fqdn"), None) => Reply::error("set server <b>/<s> fqdn requires a FQDN."),
        (Some("fqdn"), Some(_)) => {
            Reply::error("set server <b>/<s> fqdn failed because no resolution is configured.")
        }
        // No server has an agent.
        (Some("agent" | "agent-send"), _) => Reply::error("agent checks are not enabled on this server."),
        (Some("agent-addr"), None) => {
            Reply::error("set server <b>/<s> agent-addr requires an address and optionally a port.")
        }
        (Some("agent-port"), None) => Reply::error("set server <b>/<s> agent-port requires a port."),
        (Some("agent-addr" | "agent-port"), Some(_)) => {
            Reply::warning("agent checks are not enabled on this server")
        }
        (Some("ssl"), value) => match (server.tls.as_ref().and_then(|tls| tls.line.as_ref()), value) {
            (None, _) => Reply::error(
                "'set server <srv> ssl' cannot be set.  default-server should define ssl settings",
            ),
            (Some(line), Some(on @ ("on" | "off"))) => {
                line.switch(on == "on");
                Reply::notice("server ssl setting updated.")
            }
            (Some(_), _) => Reply::error("'set server <srv> ssl' expects 'on' or 'off'."),
        },
        _ => Reply::Message(Level::Error, SET_SERVER_USAGE.into()),
    }
}

/// `enable server`, `disable server`.
fn enable(instance: &Instance, args: &[&str], on: bool) -> Reply {
    let (proxy, server) = match find_server(instance, args) {
        Ok(found) => found,
        Err(reply) => return reply,
    };
    if let Some(worker) = crate::worker() {
        let hand = Hand { worker: &worker, proxy: proxy.id, server: server.id };
        if on { hand.make_ready() } else { hand.maintain() }
    }
    Reply::Done
}

/// `enable health`, `disable health`.
fn enable_checks(instance: &Instance, args: &[&str], on: bool) -> Reply {
    let (proxy, server) = match find_server(instance, args) {
        Ok(found) => found,
        Err(reply) => return reply,
    };
    if instance.backends[proxy.id.0 as usize].enable_checks(server.id, on) {
        Reply::Done
    } else {
        Reply::error("Health check was not configured on this server, cannot enable.")
    }
}

/// `enable agent`, `disable agent`: no server has one.
fn enable_agent(instance: &Instance, args: &[&str], on: bool) -> Reply {
    match find_server(instance, args) {
        Err(reply) => reply,
        Ok(_) if on => Reply::error("Agent was not configured on this server, cannot enable."),
        Ok(_) => Reply::Done,
    }
}

/// `set maxconn server`.
fn set_maxconn(instance: &Instance, args: &[&str]) -> Reply {
    let (proxy, server) = match find_server(instance, args) {
        Ok(found) => found,
        Err(reply) => return reply,
    };
    let Some(text) = args.get(1) else { return Reply::error("Require <maxconn>.") };
    match leading_number(text) {
        Some((number, "")) => match u32::try_from(number) {
            Ok(maxconn) => {
                instance.backends[proxy.id.0 as usize].set_maxconn(server.id, maxconn);
                Reply::Done
            }
            Err(_) => Reply::error("Value out of range."),
        },
        Some(_) => Reply::error("Trailing garbage in maxconn string"),
        None => Reply::error("maxconn string empty or preceded by garbage"),
    }
}
