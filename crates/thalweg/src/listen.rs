//! Opens the listening sockets of a configuration, before any thread exists and while the process still has its
//! privileges. Sockets that another process handed over, or that were inherited, are used instead of new ones.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thalweg_cli::doors::Door;
use thalweg_config::model::{Bind, BindAddr, Config, Proxy, ProxyId};
use thalweg_proxy::ThreadSocket;
use thalweg_proxy::announce;
use thalweg_proxy::log_forward::LogSocket;
use thalweg_runtime::net::listener::{self, Refused};
use thalweg_runtime::net::{
    Datagram, DatagramOptions, LetGo, ListenOptions, Md5Key, Port, SockAddr, descriptor,
};
use thalweg_syntax::source::os_message;
use thalweg_sys::handover::HandedSocket;
use thalweg_sys::inherited;

use crate::service::{Network, SharedSocket};
use crate::stats_socket;

/// The sockets of one `bind`.
#[derive(Debug)]
pub struct OpenListener {
    /// The proxy it belongs to.
    pub proxy: ProxyId,
    /// Position in the proxy's binds.
    pub bind: usize,
    /// One socket per shard, at least one. With fewer shards than threads, threads share.
    pub shards: Vec<OpenSocket>,
}

/// A listening socket.
#[derive(Debug)]
pub struct OpenSocket {
    fd: OwnedFd,
    /// It came from another process, which may still have it.
    shared: bool,
}

impl OpenSocket {
    fn into_port(self, how: LetGo) -> Arc<Port> {
        let port = Port::new(self.fd, how);
        if self.shared {
            port.share();
        }
        Arc::new(port)
    }
}

/// `defer-accept` waits this long for the first bytes before it lets a silent connection through.
const DEFER_ACCEPT_SECONDS: u32 = 1;

/// Sockets received from another process, until a `bind` claims them.
#[derive(Default)]
pub struct Handed {
    sockets: Vec<(SockAddr, Network, OwnedFd)>,
}

impl Handed {
    /// Sorts what was received by address. What is no socket is dropped.
    pub fn new(sockets: Vec<HandedSocket>) -> Handed {
        let known = |socket: HandedSocket| {
            let kind = descriptor::inspect(socket.fd.as_fd()).ok()?;
            let HandedSocket { fd, namespace, interface } = socket;
            kind.stream.then_some((final_name(kind.local), Network { namespace, interface }, fd))
        };
        Handed { sockets: sockets.into_iter().filter_map(known).collect() }
    }

    /// The next socket of that address and surroundings.
    fn claim(&mut self, address: &SockAddr, there: &Network) -> Option<OwnedFd> {
        let at = self.sockets.iter().position(|(a, other, _)| a == address && other == there)?;
        Some(self.sockets.swap_remove(at).2)
    }
}

/// A unix socket is bound under a temporary name, `<path>.<pid>.tmp`, and renamed: the kernel remembers the former.
fn final_name(address: SockAddr) -> SockAddr {
    if let SockAddr::Unix(path) = &address
        && let Some(name) = path.to_str().and_then(|p| p.strip_suffix(".tmp"))
        && let Some((name, pid)) = name.rsplit_once('.')
        && !pid.is_empty()
        && pid.bytes().all(|b| b.is_ascii_digit())
    {
        return SockAddr::Unix(Path::new(name).into());
    }
    address
}

/// What a listener takes from what it belongs to.
struct Owner {
    backlog: u32,
    maxconn: u32,
    /// `option tcp-smart-accept`.
    no_quick_ack: bool,
}

/// More clients than this wait for nobody on a CLI socket.
const CLI_BACKLOG: u32 = 128;

impl Owner {
    const CLI: Owner = Owner { backlog: CLI_BACKLOG, maxconn: 0, no_quick_ack: false };
    /// There are as many peers as the configuration has, and few.
    const PEERS: Owner = Owner::CLI;

    fn of(proxy: &Proxy) -> Owner {
        Owner { backlog: proxy.backlog, maxconn: proxy.maxconn, no_quick_ack: proxy.opts.tcp_smart_accept }
    }
}

/// Opens what is not open yet. On failure, returns a message for each listener that could not be opened; what could be
/// is kept, so that trying again opens only the rest.
pub fn open(
    config: &Config,
    handed: &mut Handed,
    opened: &mut Vec<OpenListener>,
    warnings: &mut Vec<String>,
) -> Result<(), Vec<String>> {
    let mut failures = Vec::new();
    for proxy in config.proxies.iter().filter(|proxy| !proxy.disabled) {
        for (index, bind) in proxy.binds.iter().enumerate() {
            let connects = matches!(bind.addr, BindAddr::Reverse(_));
            if connects || opened.iter().any(|open| open.proxy == proxy.id && open.bind == index) {
                continue;
            }
            open_into(config, (proxy, index), handed, opened, warnings)
                .unwrap_or_else(|failure| failures.push(failure));
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(failures) }
}

/// Opens one bind of a proxy. On failure, the message for it.
fn open_into(
    config: &Config,
    (proxy, index): (&Proxy, usize),
    handed: &mut Handed,
    opened: &mut Vec<OpenListener>,
    warnings: &mut Vec<String>,
) -> Result<(), String> {
    let bind = &proxy.binds[index];
    let title = announce::title(proxy);
    let mut refused = Vec::new();
    let opening = open_bind(config, &Owner::of(proxy), bind, handed, &mut refused);
    // Each shard was refused the same.
    refused.dedup_by_key(|(what, _)| *what);
    warnings.extend(refused.iter().map(|(what, error)| left_out(&title, bind, *what, error)));
    let shards = opening.map_err(|error| failure(&title, bind, &error))?;
    opened.push(OpenListener { proxy: proxy.id, bind: index, shards });
    Ok(())
}

/// What a configuration that follows another one has to listen on besides.
pub struct Following {
    pub sockets: Vec<OpenListener>,
    /// The numbers of the listeners whose sockets of before are to be closed then.
    pub closing: Vec<u32>,
}

/// Opens what `now` listens on and `before` does not, and anew what it listens on otherwise. On failure, one message for each, and
/// nothing stays open.
pub fn open_following(
    before: &Config,
    now: &Config,
    warnings: &mut Vec<String>,
) -> Result<Following, Vec<String>> {
    let listeners = |config: &'_ Config| -> Vec<(ProxyId, usize, u32)> {
        let proxies = config.proxies.iter().filter(|proxy| !proxy.disabled);
        let of =
            |proxy: &Proxy| proxy.binds.iter().enumerate().map(|(at, b)| (proxy.id, at, b.number)).collect();
        proxies.flat_map(|proxy| -> Vec<_> { of(proxy) }).collect()
    };
    let (old, new) = (listeners(before), listeners(now));
    let stays = |(proxy, at, number): &(ProxyId, usize, u32)| {
        let known = old.iter().find(|(_, _, other)| other == number);
        known.is_some_and(|(old_proxy, old_at, _)| {
            listens_alike((before, *old_proxy, *old_at), (now, *proxy, *at))
        })
    };
    let staying: Vec<u32> =
        new.iter().filter(|listener| stays(listener)).map(|(_, _, number)| *number).collect();
    let mut opened: Vec<OpenListener> = new
        .iter()
        .filter(|(_, _, number)| staying.contains(number))
        .map(|(proxy, bind, _)| OpenListener { proxy: *proxy, bind: *bind, shards: Vec::new() })
        .collect();
    open(now, &mut Handed::default(), &mut opened, warnings)?;
    let closing =
        old.iter().map(|(_, _, number)| *number).filter(|number| !staying.contains(number)).collect();
    // What stays was only in the list so that it is not opened again.
    opened.retain(|open| !open.shards.is_empty());
    Ok(Following { sockets: opened, closing })
}

/// Whether the sockets of two listeners at the same address are made alike.
fn listens_alike(before: (&Config, ProxyId, usize), now: (&Config, ProxyId, usize)) -> bool {
    let made = |(config, proxy, at): (&Config, ProxyId, usize)| {
        let proxy = config.proxy(proxy);
        let bind = &proxy.binds[at];
        let mut options = options(config, &Owner::of(proxy), bind, false);
        // It is that of the socket that is there.
        options.backlog = 0;
        options.fastopen = options.fastopen.map(|_| 0);
        (options, bind.addr.clone(), bind.sockets(&config.global), bind.threads.clone())
    };
    made(before) == made(now)
}

/// Opens the sockets of the CLI (`stats socket`). On failure, one message for each.
pub fn open_cli(config: &Config, handed: &mut Handed) -> Result<Vec<Arc<Door>>, Vec<String>> {
    let opened = open_cli_following(None, config, handed)?;
    Ok(opened.into_iter().filter_map(CliSocket::opened).collect())
}

/// What becomes of a `stats socket` line.
pub enum CliSocket {
    /// Its socket is open.
    Opened(Arc<Door>),
    /// That of the line at this position before is its own.
    Stays(usize),
}

impl CliSocket {
    fn opened(self) -> Option<Arc<Door>> {
        match self {
            CliSocket::Opened(door) => Some(door),
            CliSocket::Stays(_) => None,
        }
    }
}

/// Opens what `now` has of these sockets and `before` has not, or has otherwise: one for each line. On failure, one message for each.
pub fn open_cli_following(
    before: Option<&Config>,
    now: &Config,
    handed: &mut Handed,
) -> Result<Vec<CliSocket>, Vec<String>> {
    let (mut all, mut failures) = (Vec::new(), Vec::new());
    let made = |config: &Config, bind: &Bind| (bind.addr.clone(), options(config, &Owner::CLI, bind, false));
    for bind in &now.global.stats_sockets {
        let stays = before.and_then(|before| {
            let mut lines = before.global.stats_sockets.iter();
            lines.position(|old| made(before, old) == made(now, bind))
        });
        match stays {
            Some(at) => all.push(CliSocket::Stays(at)),
            None => match open_cli_bind(now, bind, handed) {
                Ok(door) => all.push(CliSocket::Opened(door)),
                Err(error) => failures.push(failure("frontend GLOBAL", bind, &error)),
            },
        }
    }
    if failures.is_empty() { Ok(all) } else { Err(failures) }
}

fn open_cli_bind(config: &Config, bind: &Bind, handed: &mut Handed) -> io::Result<Arc<Door>> {
    // One that is inherited is kept open by its number as well: nothing else uses it, and it ends with the process.
    let socket = open_one(config, &Owner::CLI, bind, handed)?;
    let kind = descriptor::inspect(socket.fd.as_fd())?;
    let port = socket.into_port(let_go_of(config, &Owner::CLI, bind));
    Ok(Door::new(stats_socket::line(bind, kind.local.is_unix()), Some(port)))
}

/// The sockets of `log-forward` sections.
#[derive(Default)]
pub struct OpenLogs {
    /// Each with the position of its section.
    pub sockets: Vec<(usize, LogSocket)>,
    /// Those that may be handed over.
    pub shared: Vec<SharedSocket>,
}

/// The sockets of `peers` sections.
#[derive(Default)]
pub struct OpenPeers {
    /// Each with the position of its section.
    pub sockets: Vec<(usize, Arc<Port>)>,
    /// The same, to be handed over.
    pub shared: Vec<SharedSocket>,
}

/// Opens the sockets of `peers` sections. On failure, one message for each.
pub fn open_peers(config: &Config, handed: &mut Handed) -> Result<OpenPeers, Vec<String>> {
    let mut opened = OpenPeers::default();
    let mut failures = Vec::new();
    for (section, peers) in config.peers.iter().enumerate() {
        match open_stream(config, &Owner::PEERS, &peers.bind, handed) {
            Ok(port) => {
                opened.shared.push(SharedSocket::of(None, &port, &peers.bind));
                opened.sockets.push((section, port));
            }
            Err(error) => failures.push(failure(&format!("peers {}", peers.name), &peers.bind, &error)),
        }
    }
    if failures.is_empty() { Ok(opened) } else { Err(failures) }
}

/// Opens the sockets of `log-forward` sections. On failure, one message for each.
pub fn open_log_forwards(config: &Config, handed: &mut Handed) -> Result<OpenLogs, Vec<String>> {
    let mut opened = OpenLogs::default();
    let mut failures = Vec::new();
    for (section, forward) in config.log_forwards.iter().enumerate() {
        let title = format!("log-forward {}", forward.name);
        let owner = Owner { backlog: forward.backlog, maxconn: forward.maxconn, no_quick_ack: false };
        for (at, bind) in forward.binds.iter().enumerate() {
            match open_stream(config, &owner, bind, handed) {
                Ok(port) => {
                    opened.shared.push(SharedSocket::of(None, &port, bind));
                    opened.sockets.push((section, LogSocket::Streams(at, port)));
                }
                Err(error) => failures.push(failure(&title, bind, &error)),
            }
        }
        for bind in &forward.dgram_binds {
            // Another process, old or new, has the address at the same time for a while.
            let options = DatagramOptions {
                reuseport: !config.global.noreuseport,
                namespace: bind.namespace.clone(),
                interface: bind.interface.as_deref().map(Into::into),
                transparent: bind.transparent,
                ..DatagramOptions::default()
            };
            let address = address_of(bind).ok_or_else(|| io::ErrorKind::InvalidInput.into());
            match address.and_then(|address| Datagram::open(&address, &options)) {
                Ok(fd) => opened.sockets.push((section, LogSocket::Datagrams(fd))),
                Err(error) => failures.push(failure(&title, bind, &error)),
            }
        }
    }
    if failures.is_empty() { Ok(opened) } else { Err(failures) }
}

/// A socket that one thread serves.
fn open_stream(config: &Config, owner: &Owner, bind: &Bind, handed: &mut Handed) -> io::Result<Arc<Port>> {
    let socket = open_one(config, owner, bind, handed)?;
    Ok(socket.into_port(let_go_of(config, owner, bind)))
}

/// What this process does to let go of the address of a bind.
fn let_go_of(config: &Config, owner: &Owner, bind: &Bind) -> LetGo {
    match (&bind.addr, address_of(bind)) {
        (BindAddr::Tcp(_), _) => LetGo::Unlisten(options(config, owner, bind, false).listening()),
        (BindAddr::Abstract(_) | BindAddr::AbstractZ(_), Some(address)) => {
            let options = options(config, owner, bind, false);
            LetGo::Close(Box::new(move || listener::open(&address, &options)))
        }
        // A path is taken over by whoever comes next, and a descriptor is the parent's.
        _ => LetGo::Keep,
    }
}

/// Makes the sockets ports, and gives each thread its own. Each thread that a bind allows gets one; where there are fewer
/// shards than threads, threads share. Besides, all of them, to hand them over and to let go of them; a port is closed
/// once this list is dropped and its threads let go of it.
pub fn distribute(
    opened: Vec<OpenListener>,
    config: &Config,
    threads: usize,
) -> (Vec<Vec<ThreadSocket>>, Vec<SharedSocket>) {
    let mut sockets: Vec<Vec<ThreadSocket>> = Vec::new();
    sockets.resize_with(threads, Vec::new);
    let mut shared = Vec::new();
    for open in opened {
        let proxy = config.proxy(open.proxy);
        let bind = &proxy.binds[open.bind];
        let owner = Owner::of(proxy);
        let port = |shard: OpenSocket| shard.into_port(let_go_of(config, &owner, bind));
        let ports: Vec<Arc<Port>> = open.shards.into_iter().map(port).collect();
        shared.extend(ports.iter().map(|port| SharedSocket::of(Some(bind.number), port, bind)));
        let allowed = &config.proxy(open.proxy).binds[open.bind].threads.0;
        let mut takers: Vec<usize> = (0..threads)
            .filter(|t| allowed.is_empty() || allowed.iter().any(|a| usize::from(*a) == *t))
            .collect();
        if takers.is_empty() {
            // A set that names only threads that do not exist would leave clients waiting for ever.
            takers = (0..threads).collect();
        }
        for (rank, thread) in takers.into_iter().enumerate() {
            let port = Arc::clone(&ports[rank % ports.len()]);
            sockets[thread].push(ThreadSocket { listener: bind.number as usize, port });
        }
    }
    (sockets, shared)
}

/// Takes over the descriptors named by `fd@`. Each bind gets a copy, so that two may name the same one; the
/// originals are closed, or they would keep their ports open after a soft stop.
pub fn inherit(
    config: &Config,
    opened: &mut Vec<OpenListener>,
    warnings: &mut Vec<String>,
) -> Result<(), Vec<String>> {
    let mut failures = Vec::new();
    let mut originals = Vec::new();
    for proxy in config.proxies.iter().filter(|proxy| !proxy.disabled) {
        for (index, bind) in proxy.binds.iter().enumerate() {
            let (BindAddr::Fd(fd) | BindAddr::SockPair(fd)) = bind.addr else { continue };
            open_into(config, (proxy, index), &mut Handed::default(), opened, warnings)
                .unwrap_or_else(|failure| failures.push(failure));
            if !originals.contains(&fd) {
                originals.push(fd);
            }
        }
    }
    if !failures.is_empty() {
        return Err(failures);
    }
    // What is lent to a log stays.
    originals.into_iter().for_each(|fd| drop(inherited::take(fd)));
    Ok(())
}

fn take_inherited(
    fd: i32,
    bind: &Bind,
    options: &ListenOptions,
    refused: &mut Vec<(Refused, io::Error)>,
) -> io::Result<OpenSocket> {
    let socket = inherited::copy(fd)?;
    let kind = descriptor::inspect(socket.as_fd())?;
    if matches!(bind.addr, BindAddr::Fd(_)) {
        listener::tune_bound(socket.as_fd(), options, refused)?;
        match kind.listening {
            true => listener::acknowledge(socket.as_fd(), options.listening()),
            false => listener::listen(socket.as_fd(), options.listening())?,
        }
    }
    Ok(OpenSocket { fd: socket, shared: true })
}

/// The first socket of a bind that must have all of its options.
fn open_one(config: &Config, owner: &Owner, bind: &Bind, handed: &mut Handed) -> io::Result<OpenSocket> {
    let mut refused = Vec::new();
    let mut sockets = open_bind(config, owner, bind, handed, &mut refused)?;
    if let Some((_, error)) = refused.pop() {
        return Err(error);
    }
    sockets.truncate(1);
    sockets.pop().ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

fn open_bind(
    config: &Config,
    owner: &Owner,
    bind: &Bind,
    handed: &mut Handed,
    refused: &mut Vec<(Refused, io::Error)>,
) -> io::Result<Vec<OpenSocket>> {
    let reuseport = bind.may_shard() && !config.global.noreuseport;
    let options = options(config, owner, bind, reuseport);
    if let BindAddr::Fd(fd) | BindAddr::SockPair(fd) = bind.addr {
        return take_inherited(fd, bind, &options, refused).map(|socket| vec![socket]);
    }
    // What connects is refused before.
    let address = address_of(bind).ok_or(io::ErrorKind::InvalidInput)?;
    let count = bind.sockets(&config.global);
    let there = Network::of(bind);
    (0..count)
        .map(|_| match handed.claim(&address, &there) {
            // The process that had it may have let go of it.
            Some(fd) => listener::tune_bound(fd.as_fd(), &options, refused)
                .and_then(|()| listener::listen(fd.as_fd(), options.listening()))
                .map(|()| OpenSocket { fd, shared: true }),
            None => listener::open_leaving_out(&address, &options, refused)
                .map(|fd| OpenSocket { fd, shared: false }),
        })
        .collect()
}

/// What is bound; `None` for a descriptor.
fn address_of(bind: &Bind) -> Option<SockAddr> {
    match &bind.addr {
        BindAddr::Fd(_) | BindAddr::SockPair(_) | BindAddr::Reverse(_) => None,
        BindAddr::Tcp(address) => Some(SockAddr::from(*address)),
        BindAddr::Unix(path) => Some(SockAddr::Unix(path.as_path().into())),
        BindAddr::Abstract(name) => Some(SockAddr::Abstract(padded(name))),
        BindAddr::AbstractZ(name) => Some(SockAddr::Abstract(name.as_slice().into())),
    }
}

/// `abns@` addresses are padded with zeroes to the full length of a unix address; the zero in front is not counted.
fn padded(name: &[u8]) -> Box<[u8]> {
    let mut full = name.to_vec();
    full.resize(thalweg_syntax::address::UNIX_PATH_MAX, 0);
    full.into()
}

fn backlog(config: &Config, owner: &Owner, bind: &Bind) -> u32 {
    let global = u32::try_from(config.global.maxconn).unwrap_or(u32::MAX);
    [bind.backlog, owner.backlog, bind.maxconn, owner.maxconn, global]
        .into_iter()
        .find(|n| *n > 0)
        .unwrap_or(1024)
}

fn options(config: &Config, owner: &Owner, bind: &Bind, reuseport: bool) -> ListenOptions {
    let given = |value: u32| (value > 0).then_some(value);
    let backlog = backlog(config, owner, bind);
    ListenOptions {
        backlog,
        reuseport,
        v6only: bind.v4v6.map(|both| !both),
        transparent: bind.transparent,
        namespace: bind.namespace.clone(),
        interface: bind.interface.as_deref().map(Into::into),
        mss: u32::try_from(bind.mss).ok().and_then(given),
        defer_accept_s: bind.defer_accept.then_some(DEFER_ACCEPT_SECONDS),
        mptcp: bind.mptcp,
        md5: bind.md5.as_deref().map(|key| Md5Key(key.as_bytes().into())),
        fastopen: bind.tfo.then_some(backlog),
        save_syn: (bind.save_syn != 0).then_some(bind.save_syn),
        congestion: bind.cc.as_deref().map(Into::into),
        user_timeout_ms: given(bind.tcp_ut_ms),
        no_quick_ack: owner.no_quick_ack,
        receive_buffer: given(config.global.tune.rcvbuf_client),
        send_buffer: given(config.global.tune.sndbuf_client),
        notsent_lowat: given(config.global.tune.notsent_lowat_client),
        mode: bind.owner.mode,
        uid: bind.owner.uid,
        gid: bind.owner.gid,
        ..ListenOptions::default()
    }
}

/// The message for a warning about an option that the kernel refused, in the words of the reference.
fn left_out(title: &str, bind: &Bind, what: Refused, error: &io::Error) -> String {
    let error = os_message(error);
    let (protocol, address) = match &bind.addr {
        BindAddr::Tcp(address) => (bind.tcp_name(), format!("{}:{}", address.ip(), address.port())),
        BindAddr::Fd(fd) => ("tcp", format!("fd@{fd}")),
        _ => ("unix_stream", bind.shown.to_string()),
    };
    let what = match what {
        Refused::Interface => {
            let device = bind.interface.as_deref().unwrap_or("");
            return format!(
                "Binding [{}:{}] for {title}: protocol {protocol}: cannot bind receiver to device '{device}' ({error}) \
                 for [{address}].",
                bind.file, bind.line
            );
        }
        Refused::Mss(mss) => format!("cannot set MSS to {mss}"),
        Refused::DeferAccept => "cannot enable DEFER_ACCEPT".into(),
        Refused::SaveSyn => "cannot keep the SYN of connections".into(),
        Refused::FastOpen => "cannot enable TCP_FASTOPEN".into(),
        Refused::Congestion => "cannot set TCP congestion control algorithm".into(),
        Refused::UserTimeout => "cannot set TCP User Timeout".into(),
        Refused::NotSentLowat => "cannot set 'tune.notsent-lowat.client'".into(),
    };
    format!(
        "Starting [{}:{}] for {title}: protocol {protocol}: {what}, ({error}) for [{address}].",
        bind.file, bind.line
    )
}

/// The message for an alert, in the words of the reference.
fn failure(title: &str, bind: &Bind, error: &io::Error) -> String {
    let place = format!("Binding [{}:{}] for {title}", bind.file, bind.line);
    let error = os_message(error);
    match &bind.addr {
        BindAddr::Tcp(address) => {
            let protocol = if address.is_ipv4() { "tcpv4" } else { "tcpv6" };
            let ip = address.ip();
            format!(
                "{place}: protocol {protocol}: cannot bind socket ({error}) for [{ip}:{}].",
                address.port()
            )
        }
        BindAddr::Unix(path) => {
            format!("{place}: protocol unix_stream: cannot bind UNIX socket ({error}) [{}].", path.display())
        }
        BindAddr::Abstract(name) | BindAddr::AbstractZ(name) => {
            let name = String::from_utf8_lossy(name);
            format!("{place}: protocol unix_stream: cannot bind UNIX socket ({error}) [abns@{name}].")
        }
        BindAddr::Fd(fd) | BindAddr::SockPair(fd) => {
            format!("{place}: cannot use file descriptor '{fd}' : {error}.")
        }
        // It connects, and takes nothing that could be refused.
        BindAddr::Reverse(server) => format!("{place}: cannot connect ({error}) [rhttp@{server}]."),
    }
}

/// Keeps the unix sockets of a previous process under a second name while new ones take their place, so that a start
/// that fails leaves the service as it was.
pub struct Backups(Vec<(PathBuf, PathBuf)>);

impl Backups {
    /// Links each unix socket of the configuration that exists.
    pub fn make(config: &Config) -> Backups {
        let mut made = Vec::new();
        let proxies = config.proxies.iter().filter(|proxy| !proxy.disabled);
        let logs = config.log_forwards.iter().flat_map(|forward| &forward.binds);
        let peers = config.peers.iter().map(|section| &section.bind);
        let all = proxies
            .flat_map(|proxy| &proxy.binds)
            .chain(&config.global.stats_sockets)
            .chain(logs)
            .chain(peers);
        for bind in all {
            if let BindAddr::Unix(path) = &bind.addr {
                let mut name = path.as_os_str().to_owned();
                name.push(format!(".{}.bak", std::process::id()));
                let backup = PathBuf::from(name);
                // Usually there is nothing to keep; and if it cannot be kept, the start is still worth trying.
                let _ = std::fs::remove_file(&backup);
                if std::fs::hard_link(path, &backup).is_ok() {
                    made.push((path.clone(), backup));
                }
            }
        }
        Backups(made)
    }

    /// Puts them back: the start failed.
    pub fn restore(self) {
        for (path, backup) in self.0 {
            let _ = std::fs::rename(backup, path);
        }
    }

    /// Forgets them: the new sockets are there to stay.
    pub fn discard(self) {
        for (_, backup) in self.0 {
            let _ = std::fs::remove_file(backup);
        }
    }
}
