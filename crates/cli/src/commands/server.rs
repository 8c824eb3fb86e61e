//! Servers and backends.

pub(crate) mod agent;
pub(crate) mod identity;

use std::io;
use std::net::IpAddr;

use thalweg_config::model::CliLevel::{Admin, User};
use thalweg_config::model::{Proxy, Server, ServerAddr, ServerTls};
use thalweg_proxy::Instance;
use thalweg_proxy::backend::connect::shares_connections;
use thalweg_proxy::backend::health::What;
use thalweg_proxy::backend::identity::Identity;
use thalweg_proxy::backend::resolved;
use thalweg_proxy::backend::standing::Said;
use thalweg_proxy::counters::{Counter, Counters};
use thalweg_proxy::operator::Hand;
use thalweg_proxy::resolvers::{self, NameChange};
use thalweg_syntax::{TimeUnit, parse_time};

use self::identity::port_or_offset;
use super::{find_proxy, find_server};
use crate::anonymous;
use crate::command::{Call, Command, Run};
use crate::json::Shape;
use crate::output::{Level, Reply};

/// What this family adds to the table.
pub static COMMANDS: &[Command] = &[
    Command::new("show backend", User, Run::Waiting(|call| Box::pin(show_backend(call))))
        .help("", "list the backends")
        .json(|_| Shape::Table),
    Command::new("show servers conn", User, Run::Waiting(|call| Box::pin(show_connections(call))))
        .help("[<backend>]", "show the connections to servers")
        .json(|_| Shape::Table),
    Command::new("show servers state", User, Run::Waiting(|call| Box::pin(show_state(call))))
        .help("[<backend>]", "show the live state of servers, as a state file holds it")
        .json(|_| Shape::Table),
    Command::new("show default-server", User, Run::Waiting(|call| Box::pin(show_presets(call))))
        .help("[<backend>]", "list the presets of servers (default-server)")
        .json(|_| Shape::Lines),
    Command::new("get weight", User, Run::Now(|call| get_weight(call.instance(), call.args)))
        .help("<bk>/<srv>", "show the weight of a server"),
    Command::new("set weight", Admin, Run::Now(|call| set_weight(call.instance(), call.args)))
        .help("<bk>/<srv>  (DEPRECATED)", "change the weight of a server (rather: 'set server')")
        .noted(),
    Command::new("set server", Admin, Run::Now(|call| set(call.instance(), call.args)))
        .help("<bk>/<srv> [opts]", "change the state, health, weight or address of a server")
        .noted(),
    Command::new("set maxconn server", Admin, Run::Now(|call| set_maxconn(call.instance(), call.args)))
        .help("<bk>/<srv>", "change the request limit of a server")
        .noted(),
    Command::new("enable server", Admin, Run::Now(|call| enable(call.instance(), call.args, true)))
        .help(" (DEPRECATED)", "end a server's maintenance (rather: 'set server')")
        .noted(),
    Command::new("disable server", Admin, Run::Now(|call| enable(call.instance(), call.args, false)))
        .help("(DEPRECATED)", "put a server into maintenance (rather: 'set server')")
        .noted(),
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
async fn show_backend(call: Call<'_>) -> io::Result<Reply> {
    let Call { session, output, .. } = call;
    output.text.push_str("# name\n");
    for proxy in session.instance.config.proxies.iter().filter(|p| p.is_be()) {
        output.text.push_str(&proxy.name);
        output.text.push('\n');
        output.end_row().await?;
    }
    Ok(Reply::Done)
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
        | ServerAddr::SockPair(_)
        | ServerAddr::Reverse => ("-".into(), 0),
    }
}

fn was_switched(tls: &ServerTls) -> bool {
    tls.line.as_ref().is_some_and(|line| line.was_switched())
}

/// `show servers state` (management manual: version 1 of the state file).
async fn show_state(call: Call<'_>) -> io::Result<Reply> {
    let Call { session, output, args, .. } = call;
    let instance = &session.instance;
    let backends = match chosen(instance, args) {
        Ok(backends) => backends,
        Err(reply) => return Ok(reply),
    };
    output.text.push_str(STATE_TITLE);
    for proxy in backends {
        for server in &proxy.servers {
            output.text.push_str(&state(instance, (proxy, server), session.anon_key));
            output.end_row().await?;
        }
    }
    Ok(Reply::Done)
}

/// The states of all servers, as `show servers state` shows them.
pub fn all_states(instance: &Instance) -> String {
    let backends = instance.config.proxies.iter().map(|p| &**p).filter(|p| p.is_be());
    let servers = backends.flat_map(|proxy| proxy.servers.iter().map(move |server| (proxy, &**server)));
    std::iter::once(STATE_TITLE.to_owned()).chain(servers.map(|of| state(instance, of, 0))).collect()
}

/// The version of the format, and what its columns are.
const STATE_TITLE: &str = "1\n# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight srv_iweight \
     srv_time_since_last_change srv_check_status srv_check_result srv_check_health srv_check_state srv_agent_state \
     bk_f_forced_id srv_f_forced_id srv_fqdn srv_port srvrecord srv_use_ssl srv_check_port srv_check_addr \
     srv_agent_addr srv_agent_port\n";

/// The state of a server: a line.
fn state(instance: &Instance, (proxy, server): (&Proxy, &Server), anon_key: u32) -> String {
    let backend = &instance.backends[proxy.id.0 as usize];
    let now = backend.identity(server);
    let (address, port) = address_and_port(&now);
    let address = anonymous::server_address(anon_key, &address);
    let standing = backend.standing(server.id);
    // Of the check: its status and its result; then the health and what the check does.
    let (status, result, running) = match backend.check_report(server.id, What::Health) {
        Some(report) => (report.verdict.status.number(), report.result_number(), u32::from(report.running)),
        None => (1, 0, 0),
    };
    let check = format!("{status} {result} {} {}", standing.health.value(), standing.check_bits() | running);
    let name = now.fqdn.as_deref().unwrap_or("-");
    // A name of a service begins with an underscore.
    let service = server.rare().fqdn.as_deref().filter(|name| name.starts_with('_')).unwrap_or("-");
    let renamed = u32::from(now.fqdn_changed) << 6;
    let of_agent = backend.check_report(server.id, What::Agent);
    let agent = standing.agent_bits() | u32::from(of_agent.is_some_and(|report| report.running));
    let ssl = match server.tls.as_deref() {
        Some(_) if server.traffic_tls().is_some() => 1,
        Some(tls) if tls.words.ssl == Some(false) && !was_switched(tls) => -1,
        _ => 0,
    };
    let targets = targets(&now, anon_key);
    format!(
        "{} {} {} {} {address} {} {} {} {} {} {check} {agent} {} {} {name} {port} {service} {ssl} {targets}\n",
        proxy.uid,
        anonymous::text(anon_key, &proxy.name),
        server.uid,
        anonymous::text(anon_key, &now.name),
        standing.operation as u32,
        standing.admin_bits() | renamed,
        backend.weight(server.id),
        server.weight,
        backend.history(server.id).since_s(),
        u32::from(proxy.uid_given),
        u32::from(server.uid_given),
    )
}

/// Where a server's checks go, and where its agent is: port and address of the one, address and port of the other.
fn targets(now: &Identity, anon_key: u32) -> String {
    let shown = |ip: Option<IpAddr>| match ip {
        None => "-".into(),
        Some(ip) => anonymous::server_address(anon_key, &ip.to_string()).into_owned(),
    };
    let check_ip = now.check_addr.map(|addr| addr.ip());
    // An agent is where the checks go unless said otherwise.
    let agent = (shown(now.agent_addr.or(check_ip)), now.agent_port.or(now.check_port).unwrap_or(0));
    format!("{} {} {} {}", now.check_port.unwrap_or(0), shown(check_ip), agent.0, agent.1)
}

/// `show servers conn`.
async fn show_connections(call: Call<'_>) -> io::Result<Reply> {
    let Call { session, output, args, .. } = call;
    let instance = &session.instance;
    let backends = match chosen(instance, args) {
        Ok(backends) => backends,
        Err(reply) => return Ok(reply),
    };
    let threads = instance.threads.len();
    output.text.push_str(&format!(
        "# bkname/svname bkid/svid addr port - purge_delay served used_cur used_max need_est idle_sess unsafe_nb safe_nb \
         idle_lim idle_cur idle_per_thr[{threads}]\n"
    ));
    for proxy in backends {
        for server in &proxy.servers {
            connections(&mut output.text, instance, (proxy, server), session.anon_key);
            output.end_row().await?;
        }
    }
    Ok(Reply::Done)
}

/// The connections to a server: a line.
fn connections(text: &mut String, instance: &Instance, (proxy, server): (&Proxy, &Server), anon_key: u32) {
    let index = instance.server_index(proxy.id, server.id);
    let now = instance.backends[proxy.id.0 as usize].identity(server);
    let (address, port) = address_and_port(&now);
    let address = anonymous::server_address(anon_key, &address);
    let of = |counter: fn(&Counters) -> &Counter| instance.servers.sum(index, counter);
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
        for thread in instance.servers.all(index) {
            text.push_str(&format!(" {}", thread.idle_connections.get()));
        }
    }
    text.push('\n');
}

/// `show default-server`.
async fn show_presets(call: Call<'_>) -> io::Result<Reply> {
    let Call { session, output, args, .. } = call;
    let anon_key = session.anon_key;
    let backends = match chosen(&session.instance, args) {
        Ok(backends) => backends,
        Err(reply) => return Ok(reply),
    };
    for proxy in backends {
        output.end_row().await?;
        let Some((is_set, named)) = proxy.server_presets() else { continue };
        let (text, backend) = (&mut output.text, anonymous::text(anon_key, &proxy.name));
        // The first line of a backend has a mark.
        let mut mark = '*';
        if is_set {
            text.push_str(&format!("{mark} {backend}\n"));
            mark = ' ';
        }
        for name in named {
            text.push_str(&format!("{mark} {backend}/{}\n", anonymous::text(anon_key, name)));
            mark = ' ';
        }
    }
    Ok(Reply::Done)
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
        Some(weight) => change_weight(proxy, server, weight),
        None => Reply::error("Require <weight> or <weight%>."),
    }
}

fn change_weight(proxy: &Proxy, server: &Server, text: &str) -> Reply {
    let Some(worker) = crate::worker() else { return Reply::Done };
    done(Hand { worker: &worker, proxy: proxy.id, server: server.id }.change_weight(text))
}

fn done(result: Result<(), &'static str>) -> Reply {
    result.map_or_else(Reply::error, |()| Reply::Done)
}

const SET_SERVER_USAGE: &str = "usage: set server <backend>/<server> addr | agent | agent-addr | agent-port | agent-send | \
                                check-addr | check-port | fqdn | health | name | ssl | state | weight";

/// `set server ... state drain [timeout <time>]`; the timeout is ours.
fn drain(hand: &Hand<'_>, args: &[&str]) -> Reply {
    let timeout = match args {
        ["timeout", rest @ ..] => {
            let time = rest
                .first()
                .and_then(|text| parse_time(text, TimeUnit::Milliseconds, TimeUnit::Milliseconds).ok());
            match time.filter(|ms| *ms > 0) {
                Some(ms) => Some(ms),
                None => {
                    return Reply::error("'set server <srv> state drain timeout' expects a time above 0.");
                }
            }
        }
        // What else follows is passed over, as by the reference.
        _ => None,
    };
    hand.drain_for(timeout);
    Reply::Done
}

/// `set server`.
fn set(instance: &Instance, args: &[&str]) -> Reply {
    let (proxy, server) = match find_server(instance, args) {
        Ok(found) => found,
        Err(reply) => return reply,
    };
    change(instance, proxy, server, &args[1..])
}

/// What follows the server's name in `set server`.
pub(crate) fn change(instance: &Instance, proxy: &Proxy, server: &Server, args: &[&str]) -> Reply {
    let value = args.get(1).copied();
    match (args.first().copied(), value) {
        (Some("weight"), Some(weight)) => change_weight(proxy, server, weight),
        (Some("weight"), None) => Reply::error("Require <weight> or <weight%>."),
        (Some("state"), value) => {
            let Some(worker) = crate::worker() else { return Reply::Done };
            let hand = Hand { worker: &worker, proxy: proxy.id, server: server.id };
            match value {
                Some("ready") => hand.make_ready(),
                Some("drain") => return drain(&hand, &args[2..]),
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
            identity::set(instance, proxy, server, what, &args[1..])
        }
        (Some("fqdn"), None) => Reply::error("set server <b>/<s> fqdn requires a FQDN."),
        (Some("fqdn"), Some(name)) => set_name(instance, proxy, server, name),
        (Some(what @ ("agent" | "agent-addr" | "agent-port" | "agent-send")), _) => {
            agent::set(instance, proxy, server, what, &args[1..])
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

/// `set server ... fqdn`.
fn set_name(instance: &Instance, proxy: &Proxy, server: &Server, name: &str) -> Reply {
    let Some(worker) = crate::worker() else { return Reply::Done };
    let before = instance.backends[proxy.id.0 as usize].identity(server);
    let title = format!("{}/{}", proxy.name, before.name);
    match resolvers::set_name(&worker, proxy.id, server, name) {
        Ok(()) => Reply::warning(resolved::renamed(proxy, &before, name, "stats socket command")),
        Err(NameChange::NoResolution) => {
            Reply::error("set server <b>/<s> fqdn failed because no resolution is configured.")
        }
        Err(NameChange::Service) => {
            Reply::error("set server <b>/<s> fqdn failed because SRV resolution is configured.")
        }
        Err(NameChange::Same) => Reply::warning("no need to change the FDQN by 'stats socket command'"),
        Err(NameChange::NoName) => {
            Reply::warning(format!("could not update {title} FQDN by 'stats socket command'"))
        }
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

/// `enable agent`, `disable agent`.
fn enable_agent(instance: &Instance, args: &[&str], on: bool) -> Reply {
    let (proxy, server) = match find_server(instance, args) {
        Ok(found) => found,
        Err(reply) => return reply,
    };
    if instance.backends[proxy.id.0 as usize].enable_agent(server.id, on) {
        Reply::Done
    } else {
        Reply::error("Agent was not configured on this server, cannot enable.")
    }
}

/// `set maxconn server`.
fn set_maxconn(instance: &Instance, args: &[&str]) -> Reply {
    let (proxy, server) = match find_server(instance, args) {
        Ok(found) => found,
        Err(reply) => return reply,
    };
    let Some(text) = args.get(1) else { return Reply::error("Require <maxconn>.") };
    let Some(worker) = crate::worker() else { return Reply::Done };
    done(Hand { worker: &worker, proxy: proxy.id, server: server.id }.change_maxconn(text))
}
