//! What is known about a session and a stream: the facts that fetches and log formats read.
//!
//! The proxy's own session and stream embed [`Session`] and [`StreamFacts`] and keep them up to
//! date, so that there is one place for each fact and nothing is copied to log it.

mod captures;
mod timers;

pub use captures::Captures;
pub use timers::{Durations, Timers};

use crate::track::Tracking;
use crate::vars::{Scope, VarSet};
use std::net::{IpAddr, SocketAddr};
use thalweg_stick::Tracked;

/// A frontend or backend, by its index in the running configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProxyId(pub u32);

/// A server, by its backend and its index in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerId {
    /// The backend.
    pub proxy: ProxyId,
    /// Its position in the backend.
    pub index: u32,
}

/// A stick table, by its index in the running configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableId(pub u32);

/// A listener (one `bind` address), by its index in the running configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListenerId(pub u32);

/// One end of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Endpoint {
    /// Not known.
    #[default]
    Unknown,
    /// An IP address and port.
    Inet(SocketAddr),
    /// A UNIX socket; the listener's identifier is printed as its port.
    Unix,
}

impl Endpoint {
    /// The IP address, if it is one.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Endpoint::Inet(addr) => Some(addr.ip()),
            _ => None,
        }
    }

    /// The port, if there is one.
    pub fn port(&self) -> Option<u16> {
        match self {
            Endpoint::Inet(addr) => Some(addr.port()),
            _ => None,
        }
    }
}

/// Why a connection failed: what `fc_err`, `fc_err_name` and `fc_err_str` report. The numbers are those that the
/// reference has: its manual's table of connection errors, and one more from 45 on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnError(pub u8);

impl ConnError {
    /// The process has no descriptor left.
    pub const PROC_FDLIM: ConnError = ConnError(2);
    /// The system has none left.
    pub const SYS_FDLIM: ConnError = ConnError(3);
    /// The system has no memory for it.
    pub const SYS_MEMLIM: ConnError = ConnError(4);
    /// No connection was begun, for another reason.
    pub const SOCK_ERR: ConnError = ConnError(6);
    /// The address to connect from is none of this machine's.
    pub const CANT_BIND: ConnError = ConnError(8);
    /// It has no free port.
    pub const FREE_PORTS: ConnError = ConnError(9);
    /// The system found no free port.
    pub const ADDR_INUSE: ConnError = ConnError(10);
    /// The proxy on the way said no.
    pub const SOCKS4_DENY: ConnError = ConnError(41);
    /// The proxy on the way ended the connection in place of an answer.
    pub const SOCKS4_ABORT: ConnError = ConnError(42);
    /// Nobody listens there.
    pub const EREFUSED: ConnError = ConnError(47);
    /// The other end reset the connection.
    pub const ERESET: ConnError = ConnError(48);

    /// A peer broke the rules of TLS after the handshake, or said that we did.
    pub const SSL_FATAL: ConnError = ConnError(43);
}

/// The facts of a client's connection.
#[derive(Debug)]
pub struct Session {
    /// The frontend that accepted it.
    pub frontend: ProxyId,
    /// The listener that accepted it.
    pub listener: ListenerId,
    /// The client's address as the connection says (a received PROXY header counts).
    pub fc_src: Endpoint,
    /// The local address as the connection says (a received PROXY header counts).
    pub fc_dst: Endpoint,
    /// When the connection was accepted: microseconds since 1970.
    pub accept_wall_us: i64,
    /// When the connection was accepted: microseconds on the monotonic clock.
    pub accept_mono_us: u64,
    /// How long its handshakes took, in microseconds, at most 35 minutes; -1: not done yet. A session that waits has one of
    /// these, hence its size.
    pub handshake_us: i32,
    /// What went wrong with the connection.
    pub error: ConnError,
    /// The HTTP version of the connection (1, 2 or 3), 1 until known.
    pub http_major: u8,
    /// True when a PROXY header was received.
    pub rcvd_proxy: bool,
    /// The socket, for [`World::tcp_info`](crate::World::tcp_info); 0: none.
    pub socket: u64,
    /// `sess` variables.
    pub vars: VarSet,
    rare: Option<Box<Rare>>,
    /// What rules of the connection and the session track; few connections do.
    tracking: Option<Box<Tracking>>,
}

/// What few connections have. It is apart, so that the many connections that wait without it take less.
#[derive(Debug)]
pub struct Rare {
    /// Suspicious protocol events seen on the connection.
    pub glitches: u32,
    /// Streams open on the connection.
    pub streams: u32,
    /// Most streams the connection may have open; 1 for HTTP/1.
    pub streams_limit: u32,
    /// The client's address as changed by `tcp-request connection|session set-src`. Boxed, as all that fewer have than those
    /// that have something rare: each connection of HTTP/2 is among these, and many wait.
    pub src: Option<Box<Endpoint>>,
    /// The local address as changed by `set-dst`.
    pub dst: Option<Box<Endpoint>>,
    /// The TLVs of the PROXY v2 header: type, two bytes of length, value, repeated.
    pub pp_tlvs: Vec<u8>,
    /// The SYN saved by the kernel (`tcp-ss`), empty if none.
    pub saved_syn: Vec<u8>,
    /// TLS of the connection, or why it failed; absent where none is spoken.
    pub tls: Option<Box<TlsFacts>>,
    /// The client sent data ahead, and when this was last looked at its handshake was not done (`ssl_fc_has_early`).
    pub is_early: bool,
    /// The server that a rule gave the connection to.
    pub attached: Option<Box<Attached>>,
}

/// A server that a rule gave a client's connection to (`attach-srv`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    /// The server.
    pub server: ServerId,
    /// The name that requests for the connection must have.
    pub name: Option<Box<[u8]>>,
}

/// What is known of a connection's TLS.
#[derive(Debug)]
pub struct TlsFacts {
    /// Of an established connection; of another one what was found out before it failed.
    pub known: thalweg_tls::facts::Facts,
    /// Why there is no connection.
    pub failure: Option<thalweg_tls::Failure>,
}

static NOTHING_RARE: Rare = Rare::NOTHING;

impl Rare {
    /// A connection that has nothing of this.
    const NOTHING: Rare = Rare {
        glitches: 0,
        streams: 1,
        streams_limit: 1,
        src: None,
        dst: None,
        pp_tlvs: Vec::new(),
        saved_syn: Vec::new(),
        tls: None,
        is_early: false,
        attached: None,
    };
}

impl Default for Rare {
    fn default() -> Rare {
        Rare::NOTHING
    }
}

impl Session {
    /// A session accepted now on `listener` of `frontend`.
    pub fn new(frontend: ProxyId, listener: ListenerId) -> Session {
        Session {
            frontend,
            listener,
            fc_src: Endpoint::Unknown,
            fc_dst: Endpoint::Unknown,
            accept_wall_us: 0,
            accept_mono_us: 0,
            handshake_us: 0,
            error: ConnError(0),
            http_major: 1,
            rcvd_proxy: false,
            socket: 0,
            vars: VarSet::new(Scope::Sess),
            rare: None,
            tracking: None,
        }
    }

    /// The entries of stick tables that the session tracks.
    #[inline]
    pub fn tracking(&self) -> &[Option<Tracked>] {
        self.tracking.as_deref().map_or(&[], Tracking::slots)
    }

    /// The same, to be changed. Makes room for it.
    pub fn tracking_mut(&mut self) -> &mut Tracking {
        self.tracking.get_or_insert_default()
    }

    /// What few connections have.
    pub fn rare(&self) -> &Rare {
        self.rare.as_deref().unwrap_or(&NOTHING_RARE)
    }

    /// The same, to be changed. Makes room for it.
    pub fn rare_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// The client's address as rules see it.
    pub fn source(&self) -> Endpoint {
        *self.source_ref()
    }

    /// The same, where it is kept.
    #[inline]
    pub fn source_ref(&self) -> &Endpoint {
        let changed = self.rare.as_deref().and_then(|rare| rare.src.as_deref());
        changed.unwrap_or(&self.fc_src)
    }

    /// The local address as rules see it.
    pub fn destination(&self) -> Endpoint {
        self.rare().dst.as_deref().copied().unwrap_or(self.fc_dst)
    }
}

/// What a rate limit said of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// The limit.
    pub bucket: thalweg_stick::bucket::Bucket,
    /// What became of the request's token.
    pub taken: thalweg_stick::bucket::Taken,
}

/// The four characters of the termination state (manual section 8.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Termination {
    /// Who ended the session: `C S P L R I D U K c s` or `-`.
    pub cause: u8,
    /// In which phase: `R Q C H D L T` or `-`.
    pub phase: u8,
    /// The client's persistence cookie: `N I D V E O U` or `-`.
    pub cookie_in: u8,
    /// What was done with the server's cookie: `N I U P R D` or `-`.
    pub cookie_out: u8,
}

impl Default for Termination {
    fn default() -> Termination {
        Termination { cause: b'-', phase: b'-', cookie_in: b'-', cookie_out: b'-' }
    }
}

/// Connection counts as they were when the stream ended, for the `%ac/%fc/%bc/%sc` fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnCounts {
    /// On the process.
    pub process: u32,
    /// On the frontend.
    pub frontend: u32,
    /// On the backend.
    pub backend: u32,
    /// On the server.
    pub server: u32,
}

/// Where a log line comes from (`%OG`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum LogOrigin {
    #[default]
    Unspecified,
    SessError,
    SessKilled,
    TxnAccept,
    TxnRequest,
    TxnConnect,
    TxnResponse,
    TxnClose,
    /// `do-log` in rules of this name (`http-req`, `tcp-req-conn`...).
    Rules(&'static str),
}

impl LogOrigin {
    /// The word `%OG` prints.
    pub const fn name(self) -> &'static str {
        match self {
            LogOrigin::Unspecified => "unspec",
            LogOrigin::SessError => "sess_error",
            LogOrigin::SessKilled => "sess_killed",
            LogOrigin::TxnAccept => "txn_accept",
            LogOrigin::TxnRequest => "txn_request",
            LogOrigin::TxnConnect => "txn_connect",
            LogOrigin::TxnResponse => "txn_response",
            LogOrigin::TxnClose => "txn_close",
            LogOrigin::Rules(name) => name,
        }
    }
}

/// What answered the request when it was not a server: the placeholder logs print as the server's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Responder {
    /// A server, or nothing (`<NOSRV>`).
    #[default]
    Server,
    /// The statistics page (`<STATS>`).
    Stats,
    /// The cache (`<CACHE>`).
    Cache,
    /// Another internal service (`<LUA>`, `<PROMEX>`...).
    Service(&'static str),
}

/// A stream of a connection that carries several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MuxStream {
    /// Its number; 0: the connection carries one at a time.
    pub id: u32,
    /// The code for which the peer gave it up.
    pub reset: Option<u32>,
}

/// The facts of one stream: one request and its response, or one TCP exchange.
#[derive(Debug, Default)]
pub struct StreamFacts {
    /// True when the stream speaks HTTP.
    pub is_http: bool,
    /// The backend in charge; the frontend itself until one was chosen.
    pub backend: ProxyId,
    /// True once a backend was assigned.
    pub backend_assigned: bool,
    /// Variables are those of the response: `res.` can be used, and `req.` no more.
    pub in_response: bool,
    /// The server in charge.
    pub server: Option<ServerId>,
    /// What answered when no server did.
    pub responder: Responder,
    /// The client's address as changed by content and http rules (`set-src`).
    pub src: Option<Endpoint>,
    /// The local address as changed by content and http rules (`set-dst`).
    pub dst: Option<Endpoint>,
    /// The address the server connection was made from.
    pub bc_src: Endpoint,
    /// The address the server connection was made to.
    pub bc_dst: Endpoint,
    /// What went wrong with the server connection.
    pub bc_error: ConnError,
    /// The stream of the client's connection that this is.
    pub fs: MuxStream,
    /// The stream of the server's connection that it was on last.
    pub bs: MuxStream,
    /// The HTTP version of the server connection.
    pub bc_http_major: u8,
    /// True when the server connection was reused.
    pub bc_reused: bool,
    /// Suspicious protocol events on the server connection.
    pub bc_glitches: u32,
    /// Streams open on the server connection.
    pub bc_streams: u32,
    /// Most streams the server connection may have open.
    pub bc_streams_limit: u32,
    /// TLS of the server connection, or why it failed.
    pub bc_tls: Option<std::rc::Rc<TlsFacts>>,
    /// The server connection's socket, for [`World::tcp_info`](crate::World::tcp_info); 0: none.
    pub bc_socket: u64,
    /// The moments of its life.
    pub timers: Timers,
    /// Bytes received from the client (`%U`, `req.bytes_in`).
    pub req_bytes_in: u64,
    /// Bytes sent to the server.
    pub req_bytes_out: u64,
    /// Bytes received from the server (`%B`, `res.bytes_in`).
    pub res_bytes_in: u64,
    /// Bytes sent to the client.
    pub res_bytes_out: u64,
    /// Connection counts at the end.
    pub counts: ConnCounts,
    /// Connection attempts after the first one.
    pub retries: u32,
    /// True when another server than the first choice was used.
    pub redispatched: bool,
    /// A second server was asked besides (1), and has answered (2).
    pub hedged: u8,
    /// Requests that were before it in the server's queue.
    pub srv_queue_pos: u32,
    /// Requests that were before it in the backend's queue.
    pub be_queue_pos: u32,
    /// `set-priority-class`.
    pub prio_class: i32,
    /// `set-priority-offset`.
    pub prio_offset: i32,
    /// The request line as received, for `%r` and `capture.req.*`; empty: no valid request.
    pub request_line: Vec<u8>,
    /// The status sent to the client; -1: none (`%ST`, `txn.status`).
    pub status: i32,
    /// The status the server sent; -1: none (`server_status`).
    pub server_status: i32,
    /// The response's version as captured for `capture.res.ver`: the minor number of HTTP/1.x, or none.
    pub res_version: Option<(u8, u8)>,
    /// True for the first request of its connection.
    pub first_request: bool,
    /// Captured request headers and values.
    pub req_captures: Captures,
    /// Captured response headers and values.
    pub res_captures: Captures,
    /// The captured request cookie, `name=value`.
    pub captured_cookie: Option<Vec<u8>>,
    /// The captured response cookie, `name=value`.
    pub captured_set_cookie: Option<Vec<u8>>,
    /// The unique identifier, made on first use.
    pub unique_id: Option<Vec<u8>>,
    /// `%rt`, `txn.id32`: the stream's number.
    pub id: u32,
    /// How it ended.
    pub termination: Termination,
    /// `set-log-level`: 0 to 7; None: the default. 255: silent.
    pub log_level: Option<u8>,
    /// Log lines may be written before the end (`option logasap`): some fields get a `+`.
    pub log_early: bool,
    /// Where the log line comes from.
    pub log_origin: LogOrigin,
    /// The frontend's log counter (`%lc`).
    pub log_counter: u64,
    /// The rule that ended the evaluation: file and line.
    pub last_rule: Option<(&'static str, u32)>,
    /// What last ended or suspended an evaluation (`last_entity`): a filter's name or a rule.
    pub last_entity: Option<&'static str>,
    /// What is being waited for (`waiting_entity`).
    pub waiting_entity: Option<&'static str>,
    /// Timeouts in effect, milliseconds; 0: none.
    pub timeouts: Timeouts,
    /// `set-retries` or the backend's `retries`.
    pub max_retries: u32,
    /// The entries of stick tables that the stream tracks.
    pub tracking: Tracking,
    /// What a rate limit said of the request; of several the one with the least left.
    pub limit: Option<RateLimit>,
    /// Its variables.
    pub vars: StreamVars,
    /// Its place in a trace: of the stream with this number, which may be one before, so that nothing is done for those that have none.
    trace: Option<Box<(u32, thalweg_otel::Context)>>,
}

/// The variables of a stream.
#[derive(Debug)]
pub struct StreamVars {
    /// `txn` variables.
    pub txn: VarSet,
    /// `req` variables.
    pub req: VarSet,
    /// `res` variables.
    pub res: VarSet,
}

impl Default for StreamVars {
    fn default() -> StreamVars {
        StreamVars {
            txn: VarSet::new(Scope::Txn),
            req: VarSet::new(Scope::Req),
            res: VarSet::new(Scope::Res),
        }
    }
}

/// Timeouts in effect for a stream, in milliseconds; 0: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Timeouts {
    pub client: u64,
    pub connect: u64,
    pub queue: u64,
    pub server: u64,
    pub tarpit: u64,
    pub tunnel: u64,
}

impl StreamFacts {
    /// A stream that starts on `frontend`.
    pub fn new(frontend: ProxyId, is_http: bool) -> StreamFacts {
        let mut facts = StreamFacts { is_http, ..StreamFacts::default() };
        facts.reset(frontend);
        facts
    }

    /// The place of the stream in a trace of OpenTelemetry, if it has one.
    pub fn trace(&self) -> Option<&thalweg_otel::Context> {
        self.trace.as_deref().filter(|(stream, _)| *stream == self.id).map(|(_, context)| context)
    }

    /// From here on the stream has this place in a trace.
    pub fn set_trace(&mut self, context: thalweg_otel::Context) {
        **self.trace.get_or_insert_default() = (self.id, context);
    }

    /// Makes the same memory ready for the next stream, which starts on `frontend`: captures and texts keep their capacity,
    /// all else begins anew.
    // In one piece, and one by one, as most of what a fresh value would consist of is memory that is kept; the list is complete,
    // or this does not compile.
    pub fn reset(&mut self, frontend: ProxyId) {
        let StreamFacts {
            is_http: _,
            backend,
            backend_assigned,
            in_response,
            server,
            responder,
            src,
            dst,
            bc_src,
            bc_dst,
            bc_error,
            fs,
            bs,
            bc_http_major,
            bc_reused,
            bc_glitches,
            bc_streams,
            bc_streams_limit,
            bc_tls,
            bc_socket,
            timers,
            req_bytes_in,
            req_bytes_out,
            res_bytes_in,
            res_bytes_out,
            counts,
            retries,
            redispatched,
            hedged,
            srv_queue_pos,
            be_queue_pos,
            prio_class,
            prio_offset,
            status,
            server_status,
            res_version,
            first_request,
            captured_cookie,
            captured_set_cookie,
            unique_id,
            id,
            termination,
            log_level,
            log_early,
            log_origin,
            log_counter,
            last_rule,
            last_entity,
            waiting_entity,
            timeouts,
            max_retries,
            request_line,
            req_captures,
            res_captures,
            tracking,
            limit,
            vars,
            trace: _,
        } = self;
        *backend = frontend;
        *backend_assigned = false;
        *in_response = false;
        *server = None;
        *responder = Responder::Server;
        *src = None;
        *dst = None;
        *bc_src = Endpoint::Unknown;
        *bc_dst = Endpoint::Unknown;
        *bc_error = ConnError(0);
        *fs = MuxStream::default();
        *bs = MuxStream::default();
        *bc_http_major = 1;
        *bc_reused = false;
        *bc_glitches = 0;
        *bc_streams = 0;
        *bc_streams_limit = 0;
        *bc_tls = None;
        *bc_socket = 0;
        *timers = Timers::default();
        *req_bytes_in = 0;
        *req_bytes_out = 0;
        *res_bytes_in = 0;
        *res_bytes_out = 0;
        *counts = ConnCounts::default();
        *retries = 0;
        *redispatched = false;
        *hedged = 0;
        *srv_queue_pos = 0;
        *be_queue_pos = 0;
        *prio_class = 0;
        *prio_offset = 0;
        *status = -1;
        *server_status = -1;
        *res_version = None;
        *first_request = true;
        *captured_cookie = None;
        *captured_set_cookie = None;
        *unique_id = None;
        *id = 0;
        *termination = Termination::default();
        *log_level = None;
        *log_early = false;
        *log_origin = LogOrigin::Unspecified;
        *log_counter = 0;
        *last_rule = None;
        *last_entity = None;
        *waiting_entity = None;
        *timeouts = Timeouts::default();
        *max_retries = 0;
        request_line.clear();
        // Slots are made once there is something to capture from.
        req_captures.reset(0);
        res_captures.reset(0);
        tracking.clear();
        *limit = None;
        vars.txn.clear();
        vars.req.clear();
        vars.res.clear();
    }
}
