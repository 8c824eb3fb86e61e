//! The stage: the data path with its binds and servers in the simulated network.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

use thalweg_config::Config;
use thalweg_config::model::{BindAddr, Proxy, Server, ServerAddr, ServerTls, Timeouts};
use thalweg_proxy::{Instance, Stopping, ThreadSocket, worker};
use thalweg_runtime::driver::sim::{self, Network, SimConfig};
use thalweg_runtime::net::{LetGo, Port, SockAddr};
use thalweg_runtime::{clock, kill, spawn};

use crate::recorder::{Events, Recorder};
use crate::running::Scene;
use crate::server::{self, ACTOR, Script};
use crate::{Ask, Explanation, Protocol, client};

/// The port that the client's connection comes from.
const CLIENT_PORT: u16 = 49_152;

/// Addresses of servers whose name could not be resolved (RFC 5737).
const NOWHERE: [u8; 3] = [192, 0, 2];

/// Explains what becomes of a request.
///
/// # Errors
/// Why it comes nowhere.
pub fn explain(scene: Scene, ask: &Ask) -> Result<Explanation, String> {
    let ask = ask.clone();
    // What a worker holds lives as long as its thread.
    let played = std::thread::spawn(move || play(scene, &ask)).join();
    played.unwrap_or_else(|_| Err("the simulation failed".into()))
}

fn play(mut scene: Scene, ask: &Ask) -> Result<Explanation, String> {
    prepare(&mut scene.config);
    let chosen = choose(&scene.config, ask)?;
    let result: Rc<RefCell<Result<Explanation, String>>> =
        Rc::new(RefCell::new(Err("nothing happened".into())));
    let (ask, told) = (ask.clone(), Rc::clone(&result));
    let setting = SimConfig { buffers: buffers(&scene.config), ..SimConfig::faultless() };
    let report = sim::run(1, setting, move |network: Network| async move {
        let explained = perform(&network, scene, &ask, chosen).await;
        *told.borrow_mut() = explained;
        let tasks = network.tasks();
        tasks
            .into_iter()
            .filter(|(task, _)| *task != thalweg_runtime::current_task())
            .for_each(|(t, _)| kill(t));
        worker::uninstall();
    });
    if let Some(verdict) = report.verdict.filter(|_| result.borrow().is_err()) {
        return Err(verdict);
    }
    result.replace(Err(String::new()))
}

fn buffers(config: &Config) -> thalweg_runtime::buffer::BufferConfig {
    thalweg_runtime::buffer::BufferConfig { size: config.global.tune.bufsize, ..Default::default() }
}

/// What has no place on the stage: checks, logs, certificates of servers, files.
fn prepare(config: &mut Config) {
    config.global.nbthread = 1;
    config.global.quiet = true;
    config.global.log_targets = Arc::from([]);
    let mut unresolved = 0u8;
    for proxy in &mut config.proxies {
        proxy.log_targets = Arc::from([]);
        for bind in &mut proxy.binds {
            bind.accept_proxy = false;
            bind.netscaler_magic = 0;
            bind.interface = None;
        }
        for server in &mut proxy.servers {
            server.check = None;
            server.tls = server.tls.take().map(played);
            if let ServerAddr::Unresolved(_, port) = server.addr {
                unresolved = unresolved.wrapping_add(1);
                let [a, b, c] = NOWHERE;
                server.addr = ServerAddr::Tcp((Ipv4Addr::new(a, b, c, unresolved), port).into());
            }
        }
    }
}

/// TLS of a server line as it is played: with any certificate.
fn played(tls: Arc<ServerTls>) -> Arc<ServerTls> {
    let mut played = ServerTls::clone(&tls);
    played.line = tls.line.as_ref().and_then(|line| line.lenient()).map(Arc::new);
    Arc::new(played)
}

/// The bind that a request comes to.
struct Chosen {
    proxy: usize,
    bind: usize,
    address: SocketAddr,
    reason: String,
}

fn choose(config: &Config, ask: &Ask) -> Result<Chosen, String> {
    let listens = |proxy: &&Proxy| proxy.is_fe() && !proxy.disabled;
    let mut best: Option<(u32, Chosen)> = None;
    for (number, proxy) in config.proxies.iter().map(|p| &**p).enumerate().filter(|(_, p)| listens(p)) {
        for (position, bind) in proxy.binds.iter().enumerate() {
            let BindAddr::Tcp(address) = bind.addr else { continue };
            let tls = bind.tls.as_ref().is_some_and(|tls| tls.ssl);
            let (same_tls, same_port) = (tls == ask.url.https, address.port() == ask.url.port);
            let named = ask.to.as_ref().is_some_and(|to| {
                **to == *proxy.name
                    || **to == *bind.shown
                    || bind.name.as_deref() == Some(to)
                    || *to == address.to_string()
            });
            if ask.to.is_some() && !named {
                continue;
            }
            let score = 4 * u32::from(named) + 2 * u32::from(same_tls) + u32::from(same_port);
            if best.as_ref().is_some_and(|(most, _)| *most >= score) {
                continue;
            }
            let what = if tls { "with TLS" } else { "without TLS" };
            let reason = match (named, same_tls, same_port) {
                (true, ..) => "it was asked for".to_owned(),
                (_, true, true) => format!("port {} {what}", address.port()),
                (_, true, false) => format!("the first one {what}; none has port {}", ask.url.port),
                (_, false, true) => format!("port {}, though it is {what}", address.port()),
                _ => format!("the first one; none has port {}, nor TLS as the URL says", ask.url.port),
            };
            let address = SocketAddr::new(reachable(address.ip(), ask.from), address.port());
            best = Some((score, Chosen { proxy: number, bind: position, address, reason }));
        }
    }
    best.map(|(_, chosen)| chosen).ok_or_else(|| match &ask.to {
        Some(to) => format!("no frontend, bind or address is called '{to}'"),
        None => "no frontend listens on an IP address".into(),
    })
}

/// The address of this machine that stands for "all of them".
fn reachable(ip: IpAddr, from: IpAddr) -> IpAddr {
    match (ip.is_unspecified(), from) {
        (false, _) => ip,
        (true, IpAddr::V4(_)) => Ipv4Addr::LOCALHOST.into(),
        (true, IpAddr::V6(_)) => Ipv6Addr::LOCALHOST.into(),
    }
}

async fn perform(network: &Network, scene: Scene, ask: &Ask, chosen: Chosen) -> Result<Explanation, String> {
    let Scene { config, live } = scene;
    let instance = Instance::new(config, "thalweg", "localhost", clock::wall_us());
    if let Some(live) = &live {
        live.set_up(&instance);
    }
    let (sockets, taken) = listeners(network, &instance, &chosen)?;
    thalweg_proxy::start_thread(&instance, 0, sockets);
    let events: Events = Rc::default();
    if let Some(worker) = worker::current() {
        let mut scratch = worker.scratch.borrow_mut();
        scratch.watch = Some(Box::new(Recorder::new(&events)));
        // Maps and lists of a process are used where they are.
        scratch.withheld = live.is_some().then(Vec::new);
    }
    let speaks_tls = |server: &Server| server.tls.as_ref().is_some_and(|tls| tls.line.is_some());
    let has_tls = instance.config.proxies.iter().any(|proxy| proxy.servers.iter().any(|s| speaks_tls(s)));
    let tls = if has_tls { server::encryption() } else { None };
    let script = Script { answer: Rc::new(ask.answer.clone()), sent: Rc::default(), tls };
    let sent = Rc::clone(&script.sent);
    for address in server_addresses(&instance).into_iter().filter(|address| !taken.contains(address)) {
        spawn(&ACTOR, server::serve(SockAddr::from(address), script.clone()));
    }
    thalweg_runtime::timer::sleep(1).await;
    let proxy = &instance.config.proxies[chosen.proxy];
    let bind = &proxy.binds[chosen.bind];
    let tls = bind.tls.as_ref().is_some_and(|tls| tls.ssl);
    let from = SocketAddr::new(ask.from, CLIENT_PORT);
    let began = clock::now_ms();
    let only_h2 = bind.proto.as_deref() == Some("h2");
    let usual = if only_h2 { Protocol::Http2 } else { Protocol::Http1 };
    let ends = (SockAddr::from(from), SockAddr::from(chosen.address));
    let received = client::exchange(ask, ends, tls, ask.protocol.unwrap_or(usual)).await?;
    let took_ms = clock::now_ms() - began;
    // What follows an answer, such as its counting, takes its turn.
    thalweg_runtime::timer::sleep(1).await;
    let mut explanation = Explanation {
        bind: format!("{}{}", chosen.address, if tls { " (TLS)" } else { "" }),
        bind_place: format!("{}:{}", bind.file, bind.line),
        bind_reason: chosen.reason,
        frontend: proxy.name.to_string(),
        http: proxy.mode == thalweg_config::model::Mode::Http,
        from: Some(from),
        sent: sent.borrow_mut().take(),
        received,
        took_ms,
        notes: live.map_or_else(Vec::new, |live| live.notes),
        ..Explanation::default()
    };
    way(&instance, chosen.proxy, ask, &mut explanation);
    explanation.events = events.take();
    instance.stop(Stopping::Hard);
    Ok(explanation)
}

/// Listens on every IP address of the configuration, so that frontends may be servers of others.
fn listeners(
    network: &Network,
    instance: &Arc<Instance>,
    chosen: &Chosen,
) -> Result<(Vec<ThreadSocket>, BTreeSet<SocketAddr>), String> {
    let (mut sockets, mut taken) = (Vec::new(), BTreeSet::new());
    for (number, proxy) in instance.config.proxies.iter().enumerate().filter(|(_, p)| !p.disabled) {
        for (position, bind) in proxy.binds.iter().enumerate() {
            let BindAddr::Tcp(address) = bind.addr else { continue };
            let is_chosen = (number, position) == (chosen.proxy, chosen.bind);
            let loopback =
                if address.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
            let address = match is_chosen {
                true => chosen.address,
                false => SocketAddr::new(reachable(address.ip(), loopback), address.port()),
            };
            // Two binds may mean the same address here; one of them is the one that was chosen.
            if !taken.insert(address) || !is_chosen && address == chosen.address {
                continue;
            }
            let fd = network
                .listen(&SockAddr::from(address), &Default::default())
                .map_err(|error| format!("cannot listen on {address}: {error}"))?;
            let port = Arc::new(Port::new(fd, LetGo::Keep));
            sockets.push(ThreadSocket { listener: bind.number as usize, port });
        }
    }
    Ok((sockets, taken))
}

fn server_addresses(instance: &Instance) -> BTreeSet<SocketAddr> {
    let servers = instance.config.proxies.iter().flat_map(|proxy| proxy.servers.iter());
    servers
        .filter_map(|server| match server.addr {
            ServerAddr::Tcp(address) => Some(address),
            _ => None,
        })
        .collect()
}

/// Backends and servers that were used, and the timeouts that were in force on the way.
fn way(instance: &Instance, frontend: usize, ask: &Ask, explanation: &mut Explanation) {
    let counters = &instance.threads[0];
    let front = &instance.config.proxies[frontend];
    timeouts(&front.name, &front.timeouts, true, front.is_be(), &mut explanation.timeouts);
    for (number, proxy) in instance.config.proxies.iter().enumerate() {
        if !proxy.is_be() || counters.backends[number].total.get() == 0 {
            continue;
        }
        explanation.backends.push(proxy.name.to_string());
        if number != frontend {
            timeouts(&proxy.name, &proxy.timeouts, false, true, &mut explanation.timeouts);
        }
        for server in &proxy.servers {
            let used = instance.servers.of(instance.server_index(proxy.id, server.id), 0).total.get() > 0;
            if used {
                explanation
                    .servers
                    .push((format!("{}/{}", proxy.name, server.name), why(instance, proxy, server, ask)));
            }
        }
    }
}

/// How a server was chosen.
fn why(instance: &Instance, proxy: &Proxy, server: &Server, ask: &Ask) -> String {
    let has_cookie = proxy.cookie.as_ref().zip(server.cookie.as_deref()).is_some_and(|(policy, value)| {
        let wanted = format!("{}={value}", String::from_utf8_lossy(&policy.name));
        let cookies = ask.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("cookie"));
        cookies.flat_map(|(_, value)| value.split(';')).any(|pair| pair.trim() == wanted)
    });
    let backend = &instance.backends[proxy.id.0 as usize];
    let usable =
        proxy.servers.iter().filter(|s| backend.is_usable(s.id) && s.backup == server.backup).count();
    if has_cookie {
        return format!("the request has its cookie '{}'", server.cookie.as_deref().unwrap_or_default());
    }
    let algorithm = proxy.balance.algo.name();
    match usable {
        1 => "it is the only one in service".into(),
        _ => format!("{algorithm} chose it among {usable}"),
    }
}

fn timeouts(
    name: &str,
    timeouts: &Timeouts,
    client: bool,
    server: bool,
    all: &mut Vec<(String, &'static str, u64)>,
) {
    let of_client = [
        ("http-request", timeouts.http_request),
        ("client", timeouts.client),
        ("http-keep-alive", timeouts.http_keep_alive),
        ("client-fin", timeouts.client_fin),
    ];
    let of_server = [
        ("queue", timeouts.queue.or(timeouts.connect)),
        ("connect", timeouts.connect),
        ("server", timeouts.server),
        ("server-fin", timeouts.server_fin),
        ("tunnel", timeouts.tunnel),
    ];
    let wanted = of_client.iter().filter(|_| client).chain(of_server.iter().filter(|_| server));
    all.extend(wanted.filter_map(|(which, ms)| Some((name.to_owned(), *which, (*ms)?))));
}
