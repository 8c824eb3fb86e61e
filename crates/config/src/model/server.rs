//! One server of a backend.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use thalweg_sys::namespace::Namespace;

use super::{ProxyId, Resolution, ServerId, ServerTls, SourceAddress};
use crate::compiled::{Expr, LogFormat};
use crate::outline::Said;
use crate::written::Words;

/// A server. Rare settings sit behind [`Server::extra`] so that ten thousand plain servers stay small.
#[derive(Clone, Debug)]
pub struct Server {
    pub id: ServerId,
    /// What its line says, and the `default-server` lines before it.
    pub said: Said,
    /// Grows when its line becomes another one, or its number another one's: what belongs to another revision, as a connection, is
    /// none of its own.
    pub revision: u32,
    /// It was added to a configuration in force (`add server`), and is in no file.
    pub is_dynamic: bool,
    /// The user-visible number: `id`, or numbered from 1 in order.
    pub uid: u32,
    /// `id` gave it.
    pub uid_given: bool,
    /// A rule or an expression names it, so that it keeps its name.
    pub is_referenced: bool,
    pub name: Arc<str>,
    pub file: Arc<str>,
    pub line: u32,
    pub addr: ServerAddr,
    pub port_mode: PortMode,
    /// 0 to 256.
    pub weight: u16,
    pub backup: bool,
    pub disabled: bool,
    /// Passed and failed checks that bring it up and take it down, which an operator's word counts in even where there
    /// are no checks.
    pub rise: u32,
    pub fall: u32,
    /// 0: no limit.
    pub maxconn: u32,
    /// 0: `maxconn` is not dynamic.
    pub minconn: u32,
    /// 0: no limit.
    pub maxqueue: u32,
    /// Value of the persistence cookie.
    pub cookie: Option<Arc<str>>,
    /// That value is none of its own: it follows from its address and a secret (`cookie ... dynamic`).
    pub cookie_is_dynamic: bool,
    pub send_proxy: ProxyHeader,
    pub pool: PoolConfig,
    pub hash_key: HashKey,
    pub check: Option<Arc<CheckConfig>>,
    /// TLS, for traffic ([`ServerTls::ssl`]) or for health checks; absent when it is used for neither.
    pub tls: Option<Arc<ServerTls>>,
    pub extra: Option<Arc<SlowSettings>>,
}

/// Settings few servers have.
#[derive(Clone, Debug, Default)]
pub struct SlowSettings {
    pub source: Option<SourceAddress>,
    /// Prefix of a `Location` sent to the client instead of forwarding GET and HEAD.
    pub redir: Option<Arc<str>>,
    pub slowstart_ms: u32,
    /// `maxconn` follows how long answers take, down to `minconn`.
    pub adaptive_maxconn: bool,
    /// `maxconn` is also the most connections that there may be, idle ones included.
    pub strict_maxconn: bool,
    pub tcp_ut_ms: u32,
    /// Time between pings of connections without streams, in milliseconds, 0 for none.
    pub idle_ping_ms: u32,
    pub tfo: bool,
    /// Where it is.
    pub zone: Option<Arc<str>>,
    /// What segments are signed with (`tcp-md5sig`).
    pub md5: Option<Arc<str>>,
    /// Several ways may carry a connection at once (`mptcp@`).
    pub mptcp: bool,
    /// The network namespace that connections to it are made in.
    pub namespace: Option<Namespace>,
    /// What is sent to it is not learnt by stick tables.
    pub non_stick: bool,
    /// The share of the keys that it gets as a peer; 0: all.
    pub shard: u32,
    pub cc: Option<Arc<str>>,
    pub init_state: InitState,
    pub guid: Option<Arc<str>>,
    /// The server whose state this one has.
    pub track: Option<(ProxyId, ServerId)>,
    /// Connections to this server close their other clients' when it goes down.
    pub shutdown_sessions_on_down: bool,
    /// Backup servers' sessions are shut when this one comes back.
    pub shutdown_backup_on_up: bool,
    /// A SOCKS4 proxy that connections to it go through.
    pub socks4: Option<SocketAddr>,
    /// What was said of an agent, asked or not.
    pub agent: Option<Arc<AgentConfig>>,
    /// What of traffic tells of its health.
    pub observe: Option<ObserveLayer>,
    /// Errors in a row that are too many, if a line says.
    pub error_limit: Option<u32>,
    /// What they do.
    pub on_error: OnError,
    /// `proto`: the only protocol that is spoken to it, `h1`, `h2` or `none`.
    pub proto: Option<Arc<str>>,
    /// `ws`.
    pub ws: WebSocketProtocol,
    pub pool_conn_name: Option<Arc<Expr>>,
    /// Reached over datagrams; for servers of logs.
    pub datagram: bool,
    /// Octet counting towards a log server.
    pub octet_count: bool,
    /// Bytes of lines that wait for a log server (`log-bufsize`).
    pub log_bufsize: Option<u32>,
    /// What a version 2 PROXY header carries besides: type and value (`set-proxy-v2-tlv-fmt`).
    pub proxy_fields: Vec<(u8, Option<Arc<LogFormat>>)>,
    /// The name that its line has in place of an address, or that of its service.
    pub fqdn: Option<Arc<str>>,
    /// How that name, or another one that an operator gives, is resolved while the program runs.
    pub resolution: Option<Arc<Resolution>>,
    /// The words of a line of no file: of a server that was added at run time.
    pub added: Option<Arc<Words>>,
}

impl Server {
    /// TLS for traffic.
    #[inline]
    pub fn traffic_tls(&self) -> Option<&ServerTls> {
        self.tls.as_deref().filter(|tls| tls.line.as_ref().map_or(tls.ssl, |line| line.is_on()))
    }

    /// Whether its `maxconn` depends on how many requests its backend has.
    pub fn follows_load(&self) -> bool {
        self.minconn != 0 && !self.rare().adaptive_maxconn
    }

    /// The settings few servers have, at their defaults when none was given.
    pub fn rare(&self) -> &SlowSettings {
        static NONE: SlowSettings = SlowSettings::NONE;
        self.extra.as_deref().unwrap_or(&NONE)
    }
}

impl SlowSettings {
    const NONE: SlowSettings = SlowSettings {
        source: None,
        redir: None,
        slowstart_ms: 0,
        adaptive_maxconn: false,
        strict_maxconn: false,
        tcp_ut_ms: 0,
        idle_ping_ms: 0,
        tfo: false,
        zone: None,
        md5: None,
        mptcp: false,
        namespace: None,
        non_stick: false,
        shard: 0,
        cc: None,
        init_state: InitState::Up,
        guid: None,
        track: None,
        shutdown_sessions_on_down: false,
        shutdown_backup_on_up: false,
        socks4: None,
        agent: None,
        observe: None,
        error_limit: None,
        on_error: OnError::FailCheck,
        proto: None,
        ws: WebSocketProtocol::Auto,
        pool_conn_name: None,
        datagram: false,
        octet_count: false,
        log_bufsize: None,
        proxy_fields: Vec::new(),
        fqdn: None,
        resolution: None,
        added: None,
    };
}

/// What carries a WebSocket to a server (`ws`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum WebSocketProtocol {
    /// What carries other requests, but HTTP/1 where ALPN lets the server choose that.
    #[default]
    Auto,
    Http1,
    Http2,
}

/// Address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerAddr {
    Tcp(SocketAddr),
    Unix(Arc<PathBuf>),
    /// `abns@`: padded with zeroes to the full length.
    Abstract(Arc<[u8]>),
    /// `abnsz@`.
    AbstractZ(Arc<[u8]>),
    /// `sockpair@n`.
    SockPair(i32),
    /// `rhttp@`: it connects to us, and is asked on those connections.
    Reverse,
    /// A name that could not be resolved at start and may be later (`init-addr none`).
    Unresolved(Arc<str>, u16),
}

/// Where the port comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PortMode {
    #[default]
    Fixed,
    /// No port: the one the client connected to.
    SameAsClient,
    /// `+n` or `-n`: the one the client connected to, shifted.
    Offset(i32),
}

/// PROXY protocol header sent at the start of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum ProxyHeader {
    #[default]
    None,
    V1,
    V2(ProxyHeaderV2),
}

/// What a version 2 header carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ProxyHeaderV2 {
    pub ssl: bool,
    pub cert_cn: bool,
    pub ssl_cipher: bool,
    pub cert_sig: bool,
    pub cert_key: bool,
    pub authority: bool,
    pub crc32c: bool,
    pub unique_id: bool,
}

impl ProxyHeaderV2 {
    /// Whether the header says anything of the client's TLS.
    pub fn tells_of_tls(&self) -> bool {
        self.ssl || self.cert_cn || self.ssl_cipher || self.cert_sig || self.cert_key
    }
}

/// Limits of the pool of idle connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// Below this many idle connections, none is taken from another thread.
    pub low_conn: u32,
    /// Idle connections kept; -1 for no limit, 0 to keep none.
    pub max_conn: i32,
    /// Milliseconds between purges.
    pub purge_delay_ms: u32,
    /// Requests per connection; -1 for no limit.
    pub max_reuse: i32,
}

impl Default for PoolConfig {
    fn default() -> PoolConfig {
        PoolConfig { low_conn: 0, max_conn: -1, purge_delay_ms: 5000, max_reuse: -1 }
    }
}

/// What a consistent hash places a server by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum HashKey {
    #[default]
    Id,
    Id32,
    Guid,
    Addr,
    AddrPort,
}

/// State before the first health check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum InitState {
    FullyUp,
    #[default]
    Up,
    Down,
    FullyDown,
    /// `none`: up, and marked up again after an address change.
    None,
}

/// Health check of a server. Times in milliseconds.
#[derive(Clone, Debug)]
pub struct CheckConfig {
    pub inter_ms: u32,
    pub fastinter_ms: Option<u32>,
    pub downinter_ms: Option<u32>,
    pub rise: u32,
    pub fall: u32,
    pub port: Option<u16>,
    pub addr: Option<SocketAddr>,
    pub send_proxy: bool,
    /// `check-via-socks4`
    pub via_socks4: bool,
    /// `check-reuse-pool`: checks of HTTP/1 go over connections that traffic left idle, if there are any.
    pub reuse_pool: bool,
    /// `check-pool-conn-name`: the name that such a connection has.
    pub pool_conn_name: Option<Arc<str>>,
    /// `check-proto`
    pub protocol: Option<thalweg_check::Protocol>,
    /// What a `healthcheck` section says, in place of the backend's lines.
    pub program: Option<Arc<thalweg_check::Program>>,
}

/// `observe`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObserveLayer {
    /// `layer4`: whether connections can be made.
    Connections,
    /// `layer7`: that, and what responses say.
    Http,
}

/// `on-error`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// The next check comes at `fastinter`, as it does with the others.
    FastInter,
    /// As a failed check.
    #[default]
    FailCheck,
    /// As the last failed check but one.
    SuddenDeath,
    /// The server goes down.
    MarkDown,
}

/// `agent-check` and its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentConfig {
    /// `agent-check`: whether it is asked.
    pub asked: bool,
    pub inter_ms: u32,
    /// Where it is, if not at the server's address.
    pub addr: Option<IpAddr>,
    /// Required where it is asked.
    pub port: Option<u16>,
    /// What it wants to hear first.
    pub send: Option<Arc<[u8]>>,
}

impl Default for AgentConfig {
    fn default() -> AgentConfig {
        AgentConfig { asked: false, inter_ms: 2000, addr: None, port: None, send: None }
    }
}

impl Default for CheckConfig {
    fn default() -> CheckConfig {
        CheckConfig {
            inter_ms: 2000,
            fastinter_ms: None,
            downinter_ms: None,
            rise: 2,
            fall: 3,
            port: None,
            addr: None,
            send_proxy: false,
            via_socks4: false,
            reuse_pool: false,
            pool_conn_name: None,
            protocol: None,
            program: None,
        }
    }
}
