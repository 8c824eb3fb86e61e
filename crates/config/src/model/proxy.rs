//! Frontends, backends and listens.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use thalweg_sample::args::Arg;

use super::{
    Algorithm, BalanceKey, Bind, Filters, HashFunction, HashMethod, LogStep, LogTarget, Places,
    PreserveAffinity, ProxyId, Server, ServerId, Shared, StatsPage,
};
use crate::compiled::{Condition, ErrorReplies, Expr, LogFormat, Ruleset};
use crate::outline::Said;
use crate::written::NewLines;

/// A frontend, a backend, or both (`listen`).
#[derive(Clone)]
pub struct Proxy {
    pub id: ProxyId,
    /// The user-visible number: `id`, or numbered from 2 in order.
    pub uid: u32,
    /// `id` gave it.
    pub uid_given: bool,
    pub name: Arc<str>,
    pub kind: ProxyKind,
    pub mode: Mode,
    pub file: Arc<str>,
    pub line: u32,
    pub disabled: bool,
    pub description: Option<Arc<str>>,
    pub guid: Option<Arc<str>>,
    /// Rules or expressions name it, or its stick table: it stays.
    pub is_referenced: bool,
    /// What its lines say but for those of its servers, and the lines that it inherits.
    pub said: Said,
    /// It was added to a configuration in force (`add backend`), and is in no file.
    pub is_dynamic: bool,
    pub extra: Option<Arc<RareSettings>>,

    // The frontend's side.
    pub binds: Vec<Bind>,
    /// Most concurrent connections of a frontend (computed from the process's when not given).
    pub maxconn: u32,
    /// `rate-limit sessions`: new sessions per second, 0 for no limit.
    pub fe_sps_limit: u32,
    /// 0: from `maxconn`.
    pub backlog: u32,
    pub default_backend: Option<ProxyId>,
    pub use_backend: Vec<UseBackend>,
    pub monitor_uri: Option<Arc<[u8]>>,
    pub monitor_fail: Vec<Arc<Condition>>,
    /// `force-be-switch`: backends that are disabled or unpublished may be chosen all the same.
    pub force_be_switch: Vec<(Arc<Condition>, bool)>,

    pub rules: Rules,
    /// None where no line declares one.
    pub filters: Option<Arc<Filters>>,
    pub inspect_delay_req_ms: Option<u64>,
    pub inspect_delay_res_ms: Option<u64>,
    pub timeouts: Timeouts,
    pub opts: ProxyOptions,
    pub cli_keepalive: KeepAliveProbe,
    pub srv_keepalive: KeepAliveProbe,
    pub forwardfor: Option<Arc<ForwardFor>>,
    pub originalto: Option<Arc<ForwardFor>>,
    pub forwarded: Option<Arc<ForwardedHeader>>,

    // The backend's side.
    /// In declaration order. See [`Proxy::server`].
    pub servers: Vec<Shared<Server>>,
    /// Where those are whose number is not their position; see [`Proxy::reindex`].
    pub(crate) server_places: Places,
    pub balance: Balance,
    pub use_server: Vec<UseServer>,
    pub persist_rules: Vec<PersistRule>,
    /// `stick` rules, in order.
    pub stick_rules: Vec<StickRule>,
    pub cookie: Option<Arc<CookiePersistence>>,
    /// Secret of `cookie ... dynamic`.
    pub dynamic_cookie_key: Option<Arc<str>>,
    /// `persist rdp-cookie(<name>)`.
    pub persist_rdp_cookie: Option<Arc<str>>,
    pub source: Option<Arc<SourceAddress>>,
    /// Connections of this backend at which `minconn` servers are fully loaded; 0: a tenth of the frontends'.
    pub fullconn: u32,
    /// Further attempts after a failed one (default 3).
    pub retries: u16,
    pub retry_on: RetryOn,
    pub http_reuse: Reuse,
    /// -1: no limit.
    pub max_keep_alive_queue: i32,
    /// `http-send-name-header`: header carrying the name of the server.
    pub http_send_name_header: Option<Arc<[u8]>>,
    /// `be-unpublished`: this backend is not eligible for `use_backend`.
    pub unpublished: bool,

    // Errors and logs.
    pub errors: Option<Arc<ErrorReplies>>,
    pub log_targets: Arc<[LogTarget]>,
    pub formats: LogFormats,
    pub log_tag: Option<Arc<str>>,
    /// Steps that log a line; empty for the usual one at the end.
    pub log_steps: Arc<[LogStep]>,
    pub request_captures: Arc<[Capture]>,
    pub response_captures: Arc<[Capture]>,
    pub cookie_capture: Option<Arc<CookieCapture>>,
    pub unique_id_format: Option<Arc<LogFormat>>,
    pub unique_id_header: Option<Arc<[u8]>>,
    /// The statistics page.
    pub stats: Option<Arc<StatsPage>>,
    /// What checks of servers do; `None` without a backend's side.
    pub check: Option<Arc<thalweg_check::Program>>,
}

/// Settings few proxies have.
#[derive(Clone, Debug, Default)]
pub struct RareSettings {
    /// Who is told by e-mail about its servers.
    pub email: Option<super::EmailAlert>,
    /// Percentage of the requests that may be sent again (`retry-budget`); none for as many as `retries` allows.
    pub retry_budget: Option<u32>,
    /// When a second server is asked (`option hedge`).
    pub hedge: Option<HedgeDelay>,
    /// How servers are found that are worse than the others (`option outlier-detection`).
    pub outliers: Option<OutlierDetection>,
    /// A server has, or had, a limit that follows how long its answers take (`adaptive-maxconn`).
    pub adapts_limits: bool,
    /// Idle server connections that one session keeps for itself, at most (`max-session-srv-conns`), if a line says.
    pub session_srv_conns: Option<u32>,
    /// Where this process is, as far as its servers are concerned (`zone`).
    pub zone: Option<Zone>,
    /// What servers may start with that are added at run time; absent where no line says anything.
    pub(crate) presets: Option<crate::presets::Presets>,
    /// The lines of a section of no file: of a backend that was added at run time.
    pub added: Option<Arc<NewLines>>,
}

impl RareSettings {
    const NONE: RareSettings = RareSettings {
        email: None,
        retry_budget: None,
        hedge: None,
        outliers: None,
        adapts_limits: false,
        session_srv_conns: None,
        zone: None,
        presets: None,
        added: None,
    };

    /// Whether the outcomes of requests are counted, as somebody judges servers by them.
    pub fn counts_outcomes(&self) -> bool {
        self.outliers.is_some() || self.adapts_limits
    }
}

/// `zone`: requests stay with servers of the same zone while there are enough of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// What `zone` of a server is compared with.
    pub name: Arc<str>,
    /// The zone keeps all requests while this percentage of the weight of its servers is usable.
    pub spill_over: u32,
}

/// `option hedge`: how long the first server may take before a second one is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HedgeDelay {
    /// So many milliseconds.
    After(u64),
    /// As long as this percentage of the requests take.
    Percentile(u32),
}

/// `option outlier-detection`: when a server is ejected for a while. A server that refuses connections is, always.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutlierDetection {
    /// Requests in a row that fail; 0 for never.
    pub errors: u32,
    /// Its share of requests that go well is below this percentage of that of the others; 0 for never.
    pub success_rate: u32,
    /// Its answers take this many times as long as those of the others; 0 for never.
    pub latency: u32,
    /// Requests in an interval that a server, and the others together, must have to be compared.
    pub requests: u32,
    /// How often they are compared, in milliseconds.
    pub interval_ms: u64,
    /// How long a server is ejected the first time, in milliseconds.
    pub hold_ms: u64,
    /// How long at most.
    pub max_hold_ms: u64,
    /// Percentage of the servers that are ejected at once, at most.
    pub max_ejected: u32,
}

impl Default for OutlierDetection {
    fn default() -> OutlierDetection {
        OutlierDetection {
            errors: 5,
            success_rate: 90,
            latency: 0,
            requests: 100,
            interval_ms: 10_000,
            hold_ms: 10_000,
            max_hold_ms: 300_000,
            max_ejected: 30,
        }
    }
}

impl Proxy {
    /// The settings few proxies have, at their defaults when none was given.
    pub fn rare(&self) -> &RareSettings {
        static NONE: RareSettings = RareSettings::NONE;
        self.extra.as_deref().unwrap_or(&NONE)
    }

    /// Whether a server is in another zone than this process. One without a zone is in all.
    pub fn is_elsewhere(&self, server: &Server) -> bool {
        match (&self.rare().zone, &server.rare().zone) {
            (Some(own), Some(zone)) => own.name != *zone,
            _ => false,
        }
    }

    /// Whether the outcome of each request is asked for, as it says something of its server.
    #[inline]
    pub fn learns(&self) -> bool {
        let counts = |rare: &Arc<RareSettings>| rare.counts_outcomes();
        self.balance.algo.measures_servers() || self.extra.as_ref().is_some_and(counts)
    }

    pub(crate) fn rare_mut(&mut self) -> &mut RareSettings {
        Arc::make_mut(self.extra.get_or_insert_default())
    }

    /// Whether connections arrive here.
    pub fn is_fe(&self) -> bool {
        matches!(self.kind, ProxyKind::Frontend | ProxyKind::Listen)
    }

    /// Whether requests leave to servers here.
    pub fn is_be(&self) -> bool {
        matches!(self.kind, ProxyKind::Backend | ProxyKind::Listen)
    }

    /// Whether `use_backend` may choose it: neither `disabled` nor `be-unpublished`.
    pub fn is_eligible(&self) -> bool {
        !self.disabled && !self.unpublished
    }

    /// The server of that name.
    pub fn server_by_name(&self, name: &str) -> Option<&Server> {
        self.servers.iter().map(|server| &**server).find(|server| &*server.name == name)
    }

    /// The server with that number, if this snapshot has it.
    #[inline]
    pub fn server(&self, id: ServerId) -> Option<&Server> {
        self.shared_server(id).map(|server| &**server)
    }

    /// The same, to be kept.
    #[inline]
    pub fn shared_server(&self, id: ServerId) -> Option<&Shared<Server>> {
        match self.servers.get(id.0 as usize) {
            Some(server) if server.id == id => Some(server),
            _ => Some(&self.servers[self.server_places.find(id.0)?]),
        }
    }

    /// To be called when a server was put into the list or taken out of it.
    pub fn reindex(&mut self) {
        self.server_places = Places::of(self.servers.iter().map(|server| server.id.0));
        if self.servers.iter().any(|server| server.rare().adaptive_maxconn) {
            self.rare_mut().adapts_limits = true;
        }
    }
}

/// Which section declared the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyKind {
    Frontend,
    Backend,
    Listen,
    /// Presets; never in a finished configuration.
    Defaults,
}

impl ProxyKind {
    /// The word that opens the section.
    pub fn keyword(self) -> &'static str {
        match self {
            ProxyKind::Frontend => "frontend",
            ProxyKind::Backend => "backend",
            ProxyKind::Listen => "listen",
            ProxyKind::Defaults => "defaults",
        }
    }
}

/// What the proxy understands of its traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Mode {
    #[default]
    Tcp,
    Http,
    /// A backend of log servers.
    Log,
}

impl Mode {
    /// As written in the file.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Tcp => "tcp",
            Mode::Http => "http",
            Mode::Log => "log",
        }
    }
}

/// One `use_backend` line.
#[derive(Clone, Debug)]
pub struct UseBackend {
    pub cond: Option<Arc<Condition>>,
    pub target: DynamicTarget,
    pub line: u32,
}

/// A backend known at start, or a name computed per request.
#[derive(Clone, Debug)]
pub enum DynamicTarget {
    Static(ProxyId),
    /// Evaluates to the name of a backend; the default one is taken when there is none of that name.
    Dynamic(Arc<LogFormat>),
}

/// One `use-server` line.
#[derive(Clone, Debug)]
pub struct UseServer {
    pub cond: Option<Arc<Condition>>,
    pub server: UseServerTarget,
    pub line: u32,
}

/// A server known at start, or a name computed per request.
#[derive(Clone, Debug)]
pub enum UseServerTarget {
    Static(ServerId),
    Dynamic(Arc<LogFormat>),
}

/// `force-persist` and `ignore-persist`, in the order of the file.
#[derive(Clone, Debug)]
pub struct PersistRule {
    pub cond: Arc<Condition>,
    /// True for `force-persist`.
    pub force: bool,
}

/// Rulesets, by the moment at which they run. Those of a named defaults section come first.
#[derive(Clone, Default)]
pub struct Rules {
    pub tcp_connection: Arc<Ruleset>,
    pub tcp_session: Arc<Ruleset>,
    pub tcp_content_req: Arc<Ruleset>,
    pub tcp_content_res: Arc<Ruleset>,
    pub http_request: Arc<Ruleset>,
    /// `redirect` rules, which run whatever those before said.
    pub redirect: Arc<Ruleset>,
    pub http_response: Arc<Ruleset>,
    pub http_after_response: Arc<Ruleset>,
}

/// When a key is kept with the server that was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StickStore {
    /// Taken from the request (`stick on`, `stick store-request`).
    Request,
    /// Taken from the response (`stick store-response`).
    Response,
}

/// A `stick` rule.
#[derive(Clone)]
pub struct StickRule {
    /// The table says which server is to be used.
    pub matches: bool,
    /// The table is told which server was used.
    pub store: Option<StickStore>,
    /// The key.
    pub expr: Arc<thalweg_sample::Expr>,
    pub cond: Option<Arc<thalweg_sample::Condition>>,
    pub table: thalweg_sample::TableId,
}

/// `timeout` keywords, in milliseconds; `None` is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Timeouts {
    pub client: Option<u64>,
    pub client_fin: Option<u64>,
    /// Handshakes of the client's side; `client` when not set.
    pub client_hs: Option<u64>,
    pub server: Option<u64>,
    pub server_fin: Option<u64>,
    pub connect: Option<u64>,
    /// `connect` when not set.
    pub queue: Option<u64>,
    /// `client` when not set.
    pub http_request: Option<u64>,
    /// `http_request` when not set.
    pub http_keep_alive: Option<u64>,
    pub tunnel: Option<u64>,
    /// `connect` when not set.
    pub tarpit: Option<u64>,
    pub check: Option<u64>,
}

/// `option` keywords that are on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ProxyOptions {
    /// Statistics per listener (`socket-stats`).
    pub socket_stats: bool,
    /// Close the server's connection after each response, keep the client's.
    pub http_server_close: bool,
    /// Close both.
    pub httpclose: bool,
    pub http_pretend_keepalive: bool,
    pub http_buffer_request: bool,
    pub http_no_delay: bool,
    pub http_ignore_probes: bool,
    pub http_use_proxy_header: bool,
    pub http_drop_request_trailers: bool,
    pub http_drop_response_trailers: bool,
    pub restrict_req_hdr_names: Option<RestrictHeaderNames>,
    /// What the RFCs say must be refused is refused: requests in a frontend, responses in a backend. Ours; it has
    /// precedence over the two options below.
    pub http_strict: bool,
    pub accept_unsafe_req: bool,
    pub accept_unsafe_res: bool,
    pub h1_case_adjust_bogus_client: bool,
    pub h1_case_adjust_bogus_server: bool,
    pub idle_close_on_response: bool,
    pub disable_h2_upgrade: bool,
    pub checkcache: bool,
    /// Give up a queued or connecting request when the client is gone. On by default in HTTP backends.
    pub abortonclose: bool,
    pub dontlognull: bool,
    pub dontlog_normal: bool,
    pub logasap: bool,
    pub log_separate_errors: bool,
    pub log_health_checks: bool,
    /// What clients send is acknowledged with what is sent to them. On by default in HTTP frontends.
    pub tcp_smart_accept: bool,
    pub tcp_smart_connect: bool,
    /// Keep-alive probes towards clients (`option clitcpka`, `option tcpka`).
    pub tcpka_cli: bool,
    pub tcpka_srv: bool,
    pub nolinger: bool,
    pub splice_auto: bool,
    pub splice_request: bool,
    pub splice_response: bool,
    pub independent_streams: bool,
    pub persist: bool,
    pub prefer_last_server: bool,
    pub allbackups: bool,
    /// `option redispatch <n>`: positive, at every n-th retry; negative, n before the last; `None`: off.
    pub redispatch: Option<i32>,
}

/// `option http-restrict-req-hdr-names`: what becomes of names other than letters, digits and dashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestrictHeaderNames {
    Preserve,
    Delete,
    Reject,
}

/// Parameters of keep-alive probes; 0 is the system's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct KeepAliveProbe {
    pub cnt: u32,
    pub idle_s: u32,
    pub intvl_s: u32,
}

/// An address with a prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Net {
    pub addr: IpAddr,
    pub bits: u8,
}

impl Net {
    /// Whether `ip` lies in the network.
    pub fn contains(&self, ip: IpAddr) -> bool {
        match (self.addr, ip) {
            (IpAddr::V4(n), IpAddr::V4(a)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits.min(32))).unwrap_or(0);
                u32::from(n) & mask == u32::from(a) & mask
            }
            (IpAddr::V6(n), IpAddr::V6(a)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits.min(128))).unwrap_or(0);
                u128::from(n) & mask == u128::from(a) & mask
            }
            _ => false,
        }
    }
}

/// `option forwardfor` and `option originalto`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardFor {
    /// Name of the header (`X-Forwarded-For` or `X-Original-To` unless given).
    pub header: Arc<[u8]>,
    /// Addresses for which nothing is added.
    pub except: Option<Net>,
    /// Only when the request has no such header yet.
    pub if_none: bool,
}

/// `option forwarded`: what the RFC 7239 header carries.
#[derive(Clone, Debug)]
pub struct ForwardedHeader {
    pub proto: bool,
    pub host: Option<ForwardedField>,
    pub by: Option<ForwardedField>,
    pub by_port: Option<ForwardedField>,
    pub for_: Option<ForwardedField>,
    pub for_port: Option<ForwardedField>,
}

/// Where a parameter of the header comes from.
#[derive(Clone, Debug)]
pub enum ForwardedField {
    /// The connection (or the `Host` header).
    Own,
    Expr(Arc<Expr>),
}

/// How a server is chosen.
#[derive(Clone, Debug, Default)]
pub struct Balance {
    pub algo: BalanceAlgo,
    pub hash: HashType,
    /// `hash-balance-factor` in percent, 0 for off, else above 100.
    pub hash_balance_factor: u32,
    pub preserve_affinity: PreserveAffinity,
}

/// `balance`.
#[derive(Clone, Debug)]
pub enum BalanceAlgo {
    /// By the servers alone.
    Servers(Algorithm),
    /// By the hash of something of the stream.
    Key(Arc<dyn BalanceKey>),
    /// By the hash of what an expression gives.
    Hash(Arc<Expr>),
    /// Log backends: by the hash of the line, through converters.
    LogHash(Arc<Expr>),
}

impl Default for BalanceAlgo {
    fn default() -> BalanceAlgo {
        BalanceAlgo::Servers(Algorithm::default())
    }
}

impl BalanceAlgo {
    /// As it is written.
    pub fn name(&self) -> &'static str {
        match self {
            BalanceAlgo::Servers(algorithm) => algorithm.traits().name,
            BalanceAlgo::Key(key) => key.name(),
            BalanceAlgo::Hash(_) => "hash",
            BalanceAlgo::LogHash(_) => "log-hash",
        }
    }

    /// Whether it goes by how long servers take, and by their failures (`ewma`).
    #[inline]
    pub fn measures_servers(&self) -> bool {
        matches!(self, BalanceAlgo::Servers(algorithm) if algorithm.traits().measures_servers)
    }
}

/// `hash-type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct HashType {
    pub method: HashMethod,
    pub function: HashFunction,
    /// Scatter the bits of the function's result.
    pub avalanche: bool,
}

/// `cookie`: persistence by a cookie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CookiePersistence {
    pub name: Arc<[u8]>,
    pub mode: CookieMode,
    pub indirect: bool,
    pub nocache: bool,
    pub postonly: bool,
    pub preserve: bool,
    pub httponly: bool,
    pub secure: bool,
    /// Ready to append: `; domain=a; domain=b`.
    pub domains: Vec<Arc<str>>,
    /// Seconds, 0 for none.
    pub maxidle_s: u32,
    pub maxlife_s: u32,
    pub dynamic: bool,
    pub attrs: Vec<Arc<str>>,
}

/// Who makes the cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CookieMode {
    /// Only read.
    Passive,
    Rewrite,
    Insert,
    Prefix,
}

/// `source`: where connections to servers leave from.
#[derive(Clone, Debug)]
pub struct SourceAddress {
    pub addr: Option<SocketAddr>,
    /// Source ports, inclusive; the system chooses when absent.
    pub ports: Option<(u16, u16)>,
    pub interface: Option<Arc<str>>,
    pub mode: SourceMode,
}

/// `usesrc`: pretend to be someone else.
#[derive(Clone, Debug)]
pub enum SourceMode {
    Own,
    Addr(SocketAddr),
    Client,
    ClientIp,
    /// Whose address a field of the request has.
    Header(HeaderSource),
}

/// `usesrc hdr_ip(<name>,<occurrence>)`
#[derive(Clone, Debug)]
pub struct HeaderSource {
    pub name: Arc<str>,
    /// The same, as it is looked for; any field without a name.
    pub field: Arg,
    /// Which of the values: from 1 up, or from -1 down for the last ones.
    pub occurrence: i32,
}

/// `retry-on`: after which failures a request may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryOn {
    pub conn_failure: bool,
    pub empty_response: bool,
    pub junk_response: bool,
    pub response_timeout: bool,
    pub early_data_rejected: bool,
    statuses: u16,
}

impl RetryOn {
    /// Status codes that may be listed.
    pub const STATUSES: [u16; 13] = [401, 403, 404, 408, 421, 425, 429, 500, 501, 502, 503, 504, 0];

    /// Nothing is retried.
    pub const NONE: RetryOn = RetryOn {
        conn_failure: false,
        empty_response: false,
        junk_response: false,
        response_timeout: false,
        early_data_rejected: false,
        statuses: 0,
    };

    /// Adds a status; false when it is not one that may be listed.
    pub fn add_status(&mut self, status: u16) -> bool {
        match RetryOn::STATUSES.iter().position(|s| *s == status && status != 0) {
            Some(i) => {
                self.statuses |= 1 << i;
                true
            }
            None => false,
        }
    }

    /// Whether a response of this status is tried again.
    pub fn has_status(&self, status: u16) -> bool {
        RetryOn::STATUSES
            .iter()
            .position(|s| *s == status && status != 0)
            .is_some_and(|i| self.statuses & (1 << i) != 0)
    }

    /// Whether a request may have to be sent twice, so that its bytes must be kept.
    pub fn needs_request(&self) -> bool {
        self.empty_response
            || self.junk_response
            || self.response_timeout
            || self.early_data_rejected
            || self.statuses != 0
    }
}

impl Default for RetryOn {
    fn default() -> RetryOn {
        RetryOn { conn_failure: true, ..RetryOn::NONE }
    }
}

/// `http-reuse`: when a request may take an idle server connection made for another session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Reuse {
    Never,
    /// All but the first request of a session.
    #[default]
    Safe,
    /// The first one too, over connections that already proved reusable.
    Aggressive,
    Always,
}

/// Compiled log formats of a proxy.
#[derive(Clone, Debug, Default)]
pub struct LogFormats {
    /// `None`: the short line "Connect from ...".
    pub log: Option<Arc<LogFormat>>,
    pub error: Option<Arc<LogFormat>>,
    pub sd: Option<Arc<LogFormat>>,
    /// The format is one for HTTP: a line is also wanted per request.
    pub is_http: bool,
}

/// A captured header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capture {
    /// Empty for a slot made by `declare capture`.
    pub name: Arc<[u8]>,
    pub len: u32,
}

/// `capture cookie`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CookieCapture {
    pub name: Arc<[u8]>,
    /// The name is a prefix (it was given with no `=`).
    pub prefix: bool,
    pub len: u32,
}
