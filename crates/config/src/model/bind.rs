//! One listening address.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use thalweg_sys::namespace::Namespace;

use super::Global;

/// A listening address with its options. A `bind` line with a list or a port range makes one per address.
#[derive(Clone, Debug)]
pub struct Bind {
    /// Its number among the listeners of all proxies, for as long as any snapshot has it: its place in the file it was read
    /// from. 0 of what belongs to no proxy.
    pub number: u32,
    pub addr: BindAddr,
    /// The address as written, for messages; all addresses of a list have the whole list.
    pub shown: Arc<str>,
    /// `name`; shown in logs (`%ft` has the proxy's) and in statistics.
    pub name: Option<Arc<str>>,
    /// `label`: a name that listeners may have in common. As in the reference, nothing asks for it.
    pub label: Option<Arc<str>>,
    /// The user-visible number: `id`, or numbered from 1 in order.
    pub uid: u32,
    pub file: Arc<str>,
    pub line: u32,
    /// Its identifier in a statistics file (`guid-prefix`).
    pub guid: Option<Arc<str>>,
    /// 0: no limit of its own.
    pub maxconn: u32,
    /// 0: from the proxy's `backlog`, else its `maxconn`.
    pub backlog: u32,
    /// -1024 to 1024; lower is served first.
    pub nice: i16,
    /// The PROXY protocol header is mandatory on every connection.
    pub accept_proxy: bool,
    /// The header of a NetScaler with this magic number is mandatory on every connection; 0: it is not.
    pub netscaler_magic: u32,
    pub defer_accept: bool,
    pub tfo: bool,
    /// `tcp-ss`: the SYN of each connection is kept, 1 without and 2 with the header of the link; 0: it is not.
    pub save_syn: u8,
    /// What segments are signed with (`tcp-md5sig`).
    pub md5: Option<Arc<str>>,
    /// Several ways may carry a connection at once (`mptcp@`).
    pub mptcp: bool,
    /// 0: the system's; negative: the system's less that much.
    pub mss: i32,
    pub interface: Option<Arc<str>>,
    /// The network namespace that its socket is in.
    pub namespace: Option<Namespace>,
    pub transparent: bool,
    /// Accept IPv4 on an IPv6 wildcard address: `v4v6` true, `v6only` false, neither: the system's default.
    pub v4v6: Option<bool>,
    pub shards: Shards,
    /// Threads that may accept; empty means all.
    pub threads: ThreadSet,
    /// Congestion control algorithm.
    pub cc: Option<Arc<str>>,
    /// TCP_USER_TIMEOUT in milliseconds, 0 for none.
    pub tcp_ut_ms: u32,
    /// Time between pings of connections without streams, in milliseconds, 0 for none.
    pub idle_ping_ms: u32,
    pub owner: UnixOwner,
    /// Rights of a `stats socket`.
    pub level: CliLevel,
    /// `expose-fd listeners`.
    pub expose_fd_listeners: bool,
    /// `severity-output number|string` on a CLI socket: Some(true) for the number.
    pub severity_number: Option<bool>,
    /// TLS; absent when no word is about it.
    pub tls: Option<Box<super::BindTls>>,
    /// The server that [`BindAddr::Reverse`] names.
    pub dials: Option<(super::ProxyId, super::ServerId)>,
    /// `nbconn`: connections that are kept to it.
    pub connections: u32,
    /// `proto`: the only protocol spoken here, `h1`, `h2` or `none`.
    pub proto: Option<Arc<str>>,
}

/// Where a listener listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindAddr {
    Tcp(SocketAddr),
    Unix(PathBuf),
    /// `abns@`: an abstract socket whose name is padded with zeroes to the full length.
    Abstract(Vec<u8>),
    /// `abnsz@`: an abstract socket whose name ends where it ends.
    AbstractZ(Vec<u8>),
    /// `fd@n`: a socket inherited from the parent, bound, possibly already listening.
    Fd(i32),
    /// `sockpair@n`: one end of a socket pair over which connections arrive as descriptors.
    SockPair(i32),
    /// `rhttp@backend/server`: connections are made to that server, which asks on them.
    Reverse(Arc<str>),
}

/// As `show cli sockets`, `HAPROXY_CLI` and `HAPROXY_MASTER_CLI` have it: the address behind its kind.
impl fmt::Display for BindAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BindAddr::Tcp(address) if address.is_ipv4() => write!(f, "ipv4@{address}"),
            BindAddr::Tcp(address) => write!(f, "ipv6@{address}"),
            BindAddr::Unix(path) => write!(f, "unix@{}", path.display()),
            BindAddr::Abstract(name) => write!(f, "abns@{}", String::from_utf8_lossy(name)),
            BindAddr::AbstractZ(name) => write!(f, "abnsz@{}", String::from_utf8_lossy(name)),
            BindAddr::Fd(fd) => write!(f, "fd@{fd}"),
            BindAddr::SockPair(fd) => write!(f, "sockpair@{fd}"),
            BindAddr::Reverse(server) => write!(f, "rhttp@{server}"),
        }
    }
}

/// How many sockets one address gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Shards {
    /// `tune.listener.default-shards` decides.
    #[default]
    Default,
    ByThread,
    ByGroup,
    Count(u32),
}

/// A set of thread numbers (0-based, below 64 per group; groups follow one another), empty for all.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ThreadSet(pub Vec<u16>);

/// Who owns a unix socket and who may connect.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct UnixOwner {
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    /// Permission bits.
    pub mode: Option<u32>,
}

/// What a user of the CLI may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum CliLevel {
    User,
    #[default]
    Operator,
    Admin,
}

impl Bind {
    /// What the reference calls the protocol of a listener at an IP address.
    pub fn tcp_name(&self) -> &'static str {
        let is_v6 = matches!(self.addr, BindAddr::Tcp(addr) if addr.is_ipv6());
        match (self.mptcp, is_v6) {
            (false, false) => "tcpv4",
            (false, true) => "tcpv6",
            (true, false) => "mptcpv4",
            (true, true) => "mptcpv6",
        }
    }

    /// Whether several sockets may have the address.
    pub fn may_shard(&self) -> bool {
        matches!(self.addr, BindAddr::Tcp(_))
    }

    /// How many sockets the address gets.
    pub fn sockets(&self, global: &Global) -> usize {
        if !self.may_shard() || global.noreuseport {
            return 1;
        }
        let threads = global.nbthread.max(1);
        let accepting = if self.threads.0.is_empty() { threads } else { self.threads.0.len() };
        let shards = match self.shards {
            Shards::Default => global.tune.listener_default_shards,
            given => given,
        };
        match shards {
            Shards::ByThread => accepting,
            Shards::Default | Shards::ByGroup => 1,
            Shards::Count(count) => (count as usize).clamp(1, accepting),
        }
    }

    /// A listener on `addr` with every option at its default.
    pub fn new(addr: BindAddr, file: Arc<str>, line: u32) -> Bind {
        Bind {
            number: 0,
            addr,
            shown: Arc::from(""),
            name: None,
            uid: 0,
            file,
            line,
            maxconn: 0,
            backlog: 0,
            nice: 0,
            accept_proxy: false,
            netscaler_magic: 0,
            defer_accept: false,
            tfo: false,
            save_syn: 0,
            label: None,
            md5: None,
            mptcp: false,
            mss: 0,
            guid: None,
            interface: None,
            namespace: None,
            transparent: false,
            v4v6: None,
            shards: Shards::Default,
            threads: ThreadSet::default(),
            cc: None,
            tcp_ut_ms: 0,
            idle_ping_ms: 0,
            owner: UnixOwner::default(),
            level: CliLevel::default(),
            expose_fd_listeners: false,
            severity_number: None,
            tls: None,
            dials: None,
            connections: 1,
            proto: None,
        }
    }
}
