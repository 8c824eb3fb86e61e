//! Getting a connection to a server: an idle one when the rules of `http-reuse` allow, else a new one.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use thalweg_config::model::{
    Mode, PortMode, Proxy, ProxyHeader, ProxyId, Reuse, Server, ServerAddr, SourceAddress, SourceMode,
    WebSocketProtocol,
};
use thalweg_rules::Overrides;
use thalweg_runtime::buffer::Buf;
use thalweg_runtime::net::{ConnectOptions, Keepalive, SockAddr, Stream};
use thalweg_runtime::pool::{self, Block};
use thalweg_runtime::timer::{self, timeout_at};
use thalweg_sample::facts::{ConnError, Endpoint, Session, StreamFacts, TlsFacts};
use thalweg_tls::engine::SentEarly;
use thalweg_tls::server::ServerContext;

use super::connect_error::{ConnectError, libc_codes};
use super::descriptors::Shortage;
use super::health::observe::{Seen, observe, observe_failure};
use super::introduction::{self, HeaderField, Introduced};
use super::key::ConnectionKey;
use super::seats::Seat;
use super::shared::{self, Place};
use super::sockets;
use crate::connection::handshake::{self, HandshakeError};
use crate::connection::line::Line;
use crate::connection::port::Port;
use crate::connection::socks::{self, SocksError};
use crate::connection::tls;
use crate::connection::transport::Transport;
use crate::counters::OfServer;
use crate::worker::Worker;

/// A connection to a server, with a stream on it or idle.
///
/// It is in a block of its thread when it may be kept, and moves from stream to pool and back as a pointer.
pub struct ServerConn {
    pub port: Port,
    /// What it is interchangeable with; `None` for "any of this server". Other threads are asked by it without a copy.
    pub key: Option<Arc<ConnectionKey>>,
    /// Requests it has carried, this one included.
    pub requests: u32,
    /// It had carried a request before this one.
    pub reused: bool,
    /// Its own address and the server's: asked of the kernel once, not per request.
    pub ends: (Endpoint, Endpoint),
    /// A client authenticates on it, so that nobody else may use it.
    pub authenticated: bool,
    /// Another request may follow on it: it is kept when the stream leaves it.
    pub keep: bool,
    /// How often the server's address had changed when it was chosen: see [`Way::moves`].
    pub moves: u32,
    /// How much of its first request the server has already: it came as early data.
    pub sent_early: usize,
    /// Its seat among those of the server (`strict-maxconn`), where it is not one of many places on a connection.
    pub seat: Option<Seat>,
}

impl ServerConn {
    /// A stream on a line: what the connection is interchangeable with, how many requests it has carried with this one and whether
    /// it had been used before, its own address and the server's, and how often that had changed.
    pub(super) fn new(
        line: impl Into<Line>,
        key: Option<Arc<ConnectionKey>>,
        (requests, reused): (u32, bool),
        ends: (Endpoint, Endpoint),
        moves: u32,
    ) -> ServerConn {
        ServerConn {
            port: Port::new(line),
            key,
            requests,
            reused,
            ends,
            authenticated: false,
            keep: false,
            moves,
            sent_early: 0,
            seat: None,
        }
    }

    /// Whether it carries many requests at once, and is not for others (`http-reuse never`). It is a place for another
    /// request then.
    #[inline]
    pub fn is_own_of_session(&mut self, proxy: &Proxy) -> bool {
        let own = proxy.http_reuse == Reuse::Never;
        let place = match &self.port.line {
            Line::Mux(stream) if own && !stream.mux().is_spent() => stream.mux().place(),
            _ => return false,
        };
        self.port = Port::new(Line::Mux(Box::new(place)));
        true
    }

    /// It was used again once: the server keeps its connections open.
    pub fn is_proven(&self) -> bool {
        self.requests >= 2
    }

    /// Whether both are places on one connection.
    pub fn is_on_the_same(&self, other: &ServerConn) -> bool {
        match (&self.port.line, &other.port.line) {
            (Line::Mux(here), Line::Mux(there)) => Rc::ptr_eq(here.mux(), there.mux()),
            _ => false,
        }
    }

    /// Another place on a connection that carries many requests at once; `None` for others, and without room.
    pub fn another_place(&self) -> Option<ServerConn> {
        let Line::Mux(stream) = &self.port.line else { return None };
        stream.mux().has_room().then(|| {
            ServerConn::new(
                Line::Mux(Box::new(stream.mux().place())),
                self.key.clone(),
                (self.requests + 1, true),
                self.ends,
                self.moves,
            )
        })
    }
}

/// What a server's line says of a stream's connection in expressions, evaluated.
pub struct LineValues {
    /// Fields of the PROXY header.
    pub header_fields: Vec<HeaderField>,
    /// What the server is asked for by TLS.
    pub sni: Option<Box<[u8]>>,
    /// The name of the connection, if its line says how it gets one (`pool-conn-name`).
    pub name: Option<Option<Box<[u8]>>>,
    /// The request wants to become a WebSocket.
    pub websocket: bool,
    /// The address that it has for the connection to come from (`usesrc hdr_ip`).
    pub source: Option<IpAddr>,
}

/// A server, and what a connection to it must be for a stream: what is asked of those that are idle.
pub struct Way<'a> {
    pub(super) worker: &'a Worker,
    pub(super) proxy: &'a Proxy,
    pub(super) server: &'a Server,
    of_server: OfServer<'a>,
    /// What a connection for this stream is interchangeable with.
    pub(super) key: Option<Arc<ConnectionKey>>,
    /// How often the server's address had changed: connections of before lead elsewhere.
    moves: u32,
}

impl<'a> Way<'a> {
    /// The way to a server whose line says nothing by which one connection differs from another, as most do not. `None` for others:
    /// [`Target::new`] works theirs out. `is_special` says that the stream asks for something.
    #[inline]
    pub fn plain(
        worker: &'a Worker,
        (proxy, server): (&'a Proxy, &'a Server),
        of_server: OfServer<'a>,
        is_special: bool,
    ) -> Option<Way<'a>> {
        let is_fixed = match &server.addr {
            ServerAddr::Tcp(addr) => server.port_mode == PortMode::Fixed && !addr.ip().is_unspecified(),
            _ => true,
        };
        let is_plain = is_fixed
            && server.extra.is_none()
            && server.tls.is_none()
            && server.send_proxy == ProxyHeader::None
            && proxy.source.is_none()
            && !is_special
            && worker.changed(proxy.id, server.id).is_none();
        let moves = if crate::plant::bug("former-line") { 0 } else { server.revision };
        is_plain.then_some(Way { worker, proxy, server, of_server, key: None, moves })
    }

    fn new(
        worker: &'a Worker,
        (proxy, server): (&'a Proxy, &'a Server),
        key: Option<Arc<ConnectionKey>>,
        moves: u32,
    ) -> Way<'a> {
        let of_server = worker.of_server(proxy.id, server.id);
        Way { worker, proxy, server, of_server, key, moves }
    }

    /// How often the server's address had changed when this was made.
    pub fn moves(&self) -> u32 {
        self.moves
    }

    /// What a connection for this stream is interchangeable with.
    pub fn key(&self) -> Option<&ConnectionKey> {
        self.key.as_deref()
    }

    /// Whether connections of the server are those that it makes.
    pub fn is_reverse(&self) -> bool {
        self.server.addr == ServerAddr::Reverse
    }

    /// An idle connection this stream may use, if there is one.
    pub fn take_idle(&self, first_request: bool) -> Option<Block<ServerConn>> {
        let aggressive_first = match self.proxy.http_reuse {
            // There is no other way to such a server.
            _ if self.is_reverse() => false,
            Reuse::Never => return None,
            Reuse::Safe if first_request => return None,
            Reuse::Aggressive => first_request,
            Reuse::Safe | Reuse::Always => false,
        };
        let most = u32::try_from(self.server.pool.max_reuse).ok().map(|reuses| reuses + 1);
        let (place, taken) = self.worker.with_pool_of(self.of_server, |pool| {
            if !pool.follow(self.moves) {
                return (None, None);
            }
            match pool.take_place(self.key.as_deref(), most) {
                None => (None, pool.take(self.key.as_deref(), aggressive_first)),
                place => (place, None),
            }
        });
        let conn = match (place, taken) {
            (Some(place), _) => Block::new(self.on(place)),
            (None, taken) => {
                let mut conn = taken?;
                conn.requests += 1;
                conn.reused = true;
                conn
            }
        };
        self.note_use(true);
        self.count_reuse();
        Some(conn)
    }

    /// What a place on a connection that carries many requests is to a stream.
    fn on(&self, place: Place) -> ServerConn {
        let Place { stream, key, requests, ends } = place;
        ServerConn::new(Line::Mux(Box::new(stream)), key, (requests, requests > 1), ends, self.moves)
    }

    /// A connection that was used before is used again.
    #[inline]
    pub fn count_reuse(&self) {
        self.of_server.counters.connection_reuses.add(1);
        self.worker.be_counters(self.proxy.id).connection_reuses.add(1);
    }

    /// A connection is used now. As many of those that others may use later as are in use at once will be needed again;
    /// one of a session's own is as good as any other until it is connected.
    #[inline]
    pub(super) fn note_use(&self, shared: bool) {
        let counters = self.of_server.counters;
        let now = if shared { counters.current.get() } else { 1 };
        counters.used_connections_max.raise_to(now);
        counters.needed_connections.raise_to(now);
    }
}

/// Where a connection for this stream would go and what it would look like.
pub struct Target<'a> {
    way: Way<'a>,
    addr: Option<SockAddr>,
    source: Option<SocketAddr>,
    /// TLS as it is spoken to the server now.
    tls: Option<Arc<ServerContext>>,
    /// What the server is asked for by TLS, where that is not the name of the connection.
    sni: Option<Box<[u8]>>,
    /// Why TLS failed.
    failure: RefCell<Option<Rc<TlsFacts>>>,
    /// What became of the early data.
    sent_early: Cell<SentEarly>,
}

impl<'a> Deref for Target<'a> {
    type Target = Way<'a>;

    #[inline]
    fn deref(&self) -> &Way<'a> {
        &self.way
    }
}

impl<'a> Target<'a> {
    /// Works out address, source, PROXY header, marks and TLS for a stream.
    pub fn new(
        worker: &'a Worker,
        backend: ProxyId,
        server: &'a Server,
        session: &Session,
        facts: &StreamFacts,
        overrides: &Overrides,
        values: LineValues,
    ) -> Target<'a> {
        let LineValues { header_fields, mut sni, name, websocket, source } = values;
        let proxy = worker.proxy(backend);
        let client = facts.src.unwrap_or_else(|| session.source());
        let local = facts.dst.unwrap_or_else(|| session.destination());
        let changed = worker.changed(backend, server.id);
        let (addr, per_request) = match &changed {
            None => address(&server.addr, server.port_mode, local),
            Some(changed) => address(&changed.identity.addr, changed.identity.port_mode, local),
        };
        let moves = changed.map_or(0, |changed| changed.moves) + server.revision;
        let source = source_config(proxy, server).and_then(|config| source_address(config, client, source));
        if server.addr == ServerAddr::Reverse {
            // What was made by the other end has its name, and nothing else of the line.
            let name = name.unwrap_or_else(|| sni.take());
            let key =
                name.map(|name| Arc::new(ConnectionKey { name: Some(name), ..ConnectionKey::default() }));
            let way = Way::new(worker, (proxy, server), key, moves);
            return Target {
                way,
                addr,
                source,
                tls: None,
                sni,
                failure: RefCell::default(),
                sent_early: Cell::default(),
            };
        }
        let mut key = None;
        let is_marked = overrides.bc_mark.is_some() || overrides.bc_tos.is_some();
        let tls = server.traffic_tls().and_then(|tls| tls.line.as_ref()).map(|line| line.context());
        let protocol = if websocket { websocket_protocol(server, tls.as_deref()) } else { None };
        let has_header = server.send_proxy != ProxyHeader::None;
        let is_special = per_request || source.is_some() || has_header || is_marked || protocol.is_some();
        if is_special || tls.is_some() || name.is_some() {
            let introduced = Introduced {
                ends: (client, local),
                tls: session.rare().tls.as_deref().map(|tls| &tls.known),
                unique_id: facts.unique_id.as_deref(),
            };
            let header = introduction::of_client(&server.send_proxy, &introduced, &header_fields);
            key = Some(Arc::new(ConnectionKey {
                source,
                target: if per_request { addr.as_ref().and_then(SockAddr::to_std) } else { None },
                proxy_header: header,
                mark: overrides.bc_mark,
                tos: overrides.bc_tos,
                protocol,
                name: name.unwrap_or_else(|| sni.take()),
                tls: tls.as_ref().map(|context| context.id()),
            }));
        }
        let way = Way::new(worker, (proxy, server), key, moves);
        Target { way, addr, source, tls, sni, failure: RefCell::default(), sent_early: Cell::default() }
    }

    /// Why TLS failed, after [`ConnectError::Handshake`].
    pub fn failure(&self) -> Option<Rc<TlsFacts>> {
        self.failure.take()
    }

    /// What became of the early data of [`Target::open`].
    pub fn sent_early(&self) -> SentEarly {
        self.sent_early.get()
    }

    /// Whether a request may go with the handshake: its line allows that, and HTTP/1 is all that may be agreed on.
    pub fn takes_early_requests(&self) -> bool {
        self.tls.as_deref().is_some_and(|tls| tls.sends_early_data() && !tls.offers(b"h2"))
            && self.protocol().is_none()
            && self.server.rare().proto.as_deref() != Some("h2")
            && self.proxy.mode == Mode::Http
    }

    /// The version of HTTP that the stream needs, if not that of the others.
    fn protocol(&self) -> Option<WebSocketProtocol> {
        self.key.as_ref().and_then(|key| key.protocol)
    }

    /// Whether HTTP/2 is spoken on a new connection: as its line says, or as was agreed on by ALPN.
    fn is_framed(&self, io: &Transport) -> bool {
        if self.proxy.mode != Mode::Http {
            return false;
        }
        if let (None, Some(asked)) = (&self.tls, self.protocol()) {
            return asked == WebSocketProtocol::Http2;
        }
        match self.server.rare().proto.as_deref() {
            Some(proto) => proto == "h2",
            None => io.tls_facts().is_some_and(|tls| tls.known.alpn.as_deref() == Some(b"h2")),
        }
    }

    /// Speaks HTTP/2 on a new connection, on which others find room, too, unless it is to be its session's own.
    fn share(&self, io: Transport, ends: (Endpoint, Endpoint), seat: Option<Seat>) -> ServerConn {
        let pool = self.server.pool;
        let is_kept = pool.max_conn != 0 && pool.purge_delay_ms != 0 && pool.max_reuse != 0;
        let pooled = self.proxy.http_reuse != Reuse::Never && is_kept;
        let to = (self.proxy, self.server);
        let port = Port::new(io);
        let place = shared::begin(self.worker, to, port, self.key.clone(), ends, (self.moves, pooled), seat);
        self.on(place)
    }

    /// Whether the server never has more connections than its `maxconn` (`strict-maxconn`).
    pub(super) fn is_strict(&self) -> bool {
        self.server.rare().strict_maxconn
    }

    /// The same on a connection that a check made.
    pub(super) fn share_unseated(&self, io: Transport) -> ServerConn {
        let ends = ends(&io);
        self.share(io, ends, None)
    }

    /// Opens a new connection, within `timeout_ms`, and sends the PROXY header if there is one. `early` is what goes with the
    /// handshake of TLS, where the server allowed that.
    pub async fn open(&self, timeout_ms: Option<u64>, early: Box<[u8]>) -> Result<ServerConn, ConnectError> {
        let opened = self.make(timeout_ms, early).await;
        match &opened {
            Ok(_) => observe(self.worker, self.proxy.id, self.server, Seen::Connected),
            // What this process lacks says nothing of a server.
            Err(ConnectError::Resource(_) | ConnectError::NoSource(_) | ConnectError::NoSeat) => {}
            Err(error) => observe_failure(self.worker, self.proxy, self.server, Seen::from(error)),
        }
        opened
    }

    async fn make(&self, timeout_ms: Option<u64>, early: Box<[u8]>) -> Result<ServerConn, ConnectError> {
        let worker = self.worker;
        let seat = match self.is_strict() {
            false => None,
            true => pool::boxed(self.seat(timeout_ms)).await?,
        };
        if worker.shortage() == Shortage::High {
            worker.with_known_pool(self.of_server.index, |pool, _| pool.close_one());
        }
        self.of_server.counters.connection_attempts.add(1);
        self.note_use(shares_connections(self.proxy));
        worker.be_counters(self.proxy.id).connection_attempts.add(1);
        let (io, ends) = self.dial(timeout_ms, early).await?;
        if self.is_framed(&io) {
            return Ok(self.share(io, ends, seat));
        }
        let mut conn = ServerConn::new(io, self.key.clone(), (1, false), ends, self.moves);
        conn.seat = seat;
        if let SentEarly::Accepted(sent) = self.sent_early.get() {
            conn.sent_early = sent;
        }
        Ok(conn)
    }

    /// Connects, sends the PROXY header if there is one, and shakes hands. Its own address and the server's come with it.
    pub async fn dial(
        &self,
        timeout_ms: Option<u64>,
        early: Box<[u8]>,
    ) -> Result<(Transport, (Endpoint, Endpoint)), ConnectError> {
        let Some(addr) = &self.addr else { return Err(ConnectError::Refused(ConnError::SOCK_ERR)) };
        let options = self.options();
        let deadline = timeout_ms.map(timer::deadline_in);
        let via = self.server.rare().socks4.map(SockAddr::from);
        let connected = timeout_at(deadline, Stream::connect(via.as_ref().unwrap_or(addr), &options)).await;
        let mut stream = match connected {
            Err(_elapsed) => return Err(ConnectError::Timeout),
            Ok(Err(error)) => return Err(ConnectError::of(&error)),
            Ok(Ok(stream)) => stream,
        };
        if via.is_some() {
            // Boxed: few servers are behind such a proxy, and all connections have room for it otherwise.
            pool::boxed(ask_proxy(&mut stream, addr, deadline)).await?;
        }
        if let Some(header) = self.key.as_ref().map(|k| &k.proxy_header).filter(|h| !h.is_empty()) {
            stream.start_send(Buf::copy_of(header));
        }
        let here =
            stream.local_addr().ok().and_then(|a| a.to_std()).map_or(Endpoint::Unknown, Endpoint::Inet);
        let there = addr.to_std().map_or(Endpoint::Unknown, Endpoint::Inet);
        let io = match &self.tls {
            None => Transport::from(stream),
            Some(context) => pool::boxed(self.encrypt(stream, context, early, deadline)).await?,
        };
        Ok((io, (here, there)))
    }

    /// Shakes hands with the server, within what is left of the time for connecting.
    async fn encrypt(
        &self,
        stream: Stream,
        context: &Arc<ServerContext>,
        early: Box<[u8]>,
        deadline: Option<u64>,
    ) -> Result<Transport, ConnectError> {
        let name = match self.server.rare().pool_conn_name {
            None => self.key.as_ref().and_then(|key| key.name.as_deref()),
            Some(_) => self.sni.as_deref(),
        };
        let limits = self.worker.record_limits();
        let place = tls::Place::take(&self.worker.live).ok_or(ConnectError::Resource(libc_codes::ENOBUFS))?;
        let protocols: Option<&[Vec<u8>]> = match self.protocol() {
            None | Some(WebSocketProtocol::Auto) => None,
            Some(WebSocketProtocol::Http1) => Some(&[b"http/1.1".to_vec()]),
            Some(WebSocketProtocol::Http2) => Some(&[b"h2".to_vec()]),
        };
        let (context, asked) = (Arc::clone(context), (name, protocols));
        let (shaken, sent_early) =
            handshake::connect_with_early_data(stream, context, asked, early, limits, deadline).await;
        self.sent_early.set(sent_early);
        let agreed = shaken.as_ref().ok().and_then(|transport| transport.tls_facts());
        self.worker.count_server_handshake(self.proxy.id, self.server.id, agreed.map(|facts| &**facts));
        let may_have_request = matches!(sent_early, SentEarly::Unanswered(_) | SentEarly::Accepted(_));
        match shaken {
            Ok(mut transport) => {
                transport.holds(place);
                Ok(transport)
            }
            Err(HandshakeError::Timeout) if !may_have_request => Err(ConnectError::Timeout),
            Err(error) => {
                let number = error.number();
                *self.failure.borrow_mut() = Some(Rc::from(error.into_facts()));
                Err(match may_have_request {
                    true => ConnectError::HandshakeWithRequest(number),
                    false => ConnectError::Handshake(number),
                })
            }
        }
    }

    fn options(&self) -> ConnectOptions {
        let rare = self.server.rare();
        let tune = &self.worker.instance.config.global.tune;
        let some = |n: u32| (n != 0).then_some(n);
        let source_config = source_config(self.proxy, self.server);
        let keepalive = self.proxy.opts.tcpka_srv.then_some(Keepalive {
            count: some(self.proxy.srv_keepalive.cnt),
            idle_s: some(self.proxy.srv_keepalive.idle_s),
            interval_s: some(self.proxy.srv_keepalive.intvl_s),
        });
        ConnectOptions {
            source: self.source.map(SockAddr::from),
            // Who presents another address has that one's port.
            source_ports: source_config
                .filter(|config| config.addr == self.source)
                .and_then(|config| config.ports),
            transparent: source_config.is_some_and(|config| !matches!(config.mode, SourceMode::Own)),
            interface: source_config.and_then(|s| s.interface.as_deref()).map(Box::from),
            keepalive,
            user_timeout_ms: some(rare.tcp_ut_ms),
            congestion: rare.cc.as_deref().map(Box::from),
            fastopen: rare.tfo,
            // A request is ready to be sent, and takes the acknowledgement of the handshake with it.
            no_quick_ack: self.proxy.opts.tcp_smart_connect || self.proxy.mode == Mode::Http,
            receive_buffer: some(tune.rcvbuf_server),
            send_buffer: some(tune.sndbuf_server),
            notsent_lowat: some(tune.notsent_lowat_server),
            mark: self.key.as_ref().and_then(|key| key.mark),
            tos: self.key.as_ref().and_then(|key| key.tos),
            // What is closed with its response complete has nothing more to say; a TCP stream may have.
            reset_on_close: self.proxy.mode == Mode::Http,
            prompt_close: rare.strict_maxconn,
            ..sockets::options(self.server)
        }
    }
}

/// Has a SOCKS4 proxy connect to a server.
async fn ask_proxy(stream: &mut Stream, to: &SockAddr, deadline: Option<u64>) -> Result<(), ConnectError> {
    let to = to.to_std().ok_or(ConnectError::Refused(ConnError::SOCK_ERR))?;
    socks::connect(stream, to, deadline).await.map_err(|error| match error {
        SocksError::Timeout => ConnectError::Timeout,
        SocksError::Io(error) if error.kind() == io::ErrorKind::ConnectionReset => {
            ConnectError::Refused(ConnError::SOCKS4_ABORT)
        }
        SocksError::Io(error) => ConnectError::of(&error),
        SocksError::Ended => ConnectError::Refused(ConnError::SOCKS4_ABORT),
        SocksError::Denied => ConnectError::Refused(ConnError::SOCKS4_DENY),
        SocksError::Address => ConnectError::Refused(ConnError::SOCK_ERR),
    })
}

/// The version of HTTP that a WebSocket to a server needs, if it is not that of other requests (`ws`).
fn websocket_protocol(server: &Server, tls: Option<&ServerContext>) -> Option<WebSocketProtocol> {
    let rare = server.rare();
    match (rare.ws, tls) {
        // The server may choose, so let it choose what always works.
        (WebSocketProtocol::Auto, Some(context)) if context.offers(b"h2") && context.offers(b"http/1.1") => {
            Some(WebSocketProtocol::Http1)
        }
        (WebSocketProtocol::Auto, _) => None,
        (asked, Some(context)) => (!context.offers_nothing()).then_some(asked),
        (asked, None) => {
            let is_usual = (asked == WebSocketProtocol::Http2) == (rare.proto.as_deref() == Some("h2"));
            (!is_usual).then_some(asked)
        }
    }
}

/// Both addresses of a connection.
pub(super) fn ends(io: &Transport) -> (Endpoint, Endpoint) {
    let inet = |addr: io::Result<SockAddr>| {
        addr.ok().and_then(|a| a.to_std()).map_or(Endpoint::Unknown, Endpoint::Inet)
    };
    (inet(io.local_addr()), inet(io.peer_addr()))
}

/// A server's address for a client that connected to `local`, and whether it depends on that.
fn address(addr: &ServerAddr, port_mode: PortMode, local: Endpoint) -> (Option<SockAddr>, bool) {
    let client_port = i32::from(local.port().unwrap_or(0));
    match addr {
        ServerAddr::Tcp(addr) => {
            let mut addr = *addr;
            let port = match port_mode {
                PortMode::Fixed => None,
                PortMode::SameAsClient => Some(client_port),
                PortMode::Offset(offset) => Some(client_port + offset),
            };
            if let Some(port) = port {
                addr.set_port(u16::try_from(port).unwrap_or(0));
            }
            // `0.0.0.0` stands for the address the client connected to.
            let unspecified = addr.ip().is_unspecified();
            if let (true, Some(ip)) = (unspecified, local.ip()) {
                addr.set_ip(ip);
            }
            (Some(SockAddr::from(addr)), port.is_some() || unspecified)
        }
        other => (local_address(other), false),
    }
}

/// The address of a server on this host; `None` for others.
pub(crate) fn local_address(addr: &ServerAddr) -> Option<SockAddr> {
    match addr {
        ServerAddr::Unix(path) => Some(SockAddr::Unix(path.as_path().into())),
        ServerAddr::Abstract(name) | ServerAddr::AbstractZ(name) => {
            let mut name = name.to_vec();
            if matches!(addr, ServerAddr::Abstract(_)) {
                // `abns@` names fill the whole address, as the reference has them.
                name.resize(thalweg_runtime::net::address::UNIX_NAME_MAX, 0);
            }
            Some(SockAddr::Abstract(name.into()))
        }
        ServerAddr::Tcp(_) | ServerAddr::SockPair(_) | ServerAddr::Reverse | ServerAddr::Unresolved(..) => {
            None
        }
    }
}

/// What is said of where connections to a server come from.
pub fn source_config<'a>(proxy: &'a Proxy, server: &'a Server) -> Option<&'a SourceAddress> {
    server.rare().source.as_ref().or(proxy.source.as_deref())
}

fn source_address(source: &SourceAddress, client: Endpoint, in_header: Option<IpAddr>) -> Option<SocketAddr> {
    match &source.mode {
        SourceMode::Own => source.addr,
        SourceMode::Header(_) => {
            let named = in_header.filter(|ip| !ip.is_unspecified());
            named.map(|ip| SocketAddr::new(ip, 0)).or(source.addr)
        }
        SourceMode::Addr(addr) => Some(*addr),
        SourceMode::Client => match client {
            Endpoint::Inet(addr) => Some(addr),
            _ => None,
        },
        SourceMode::ClientIp => client.ip().map(|ip| SocketAddr::new(ip, 0)),
    }
}

/// Whether requests of one session may go over connections that another one has left.
pub fn shares_connections(proxy: &Proxy) -> bool {
    proxy.mode == Mode::Http && proxy.http_reuse != Reuse::Never
}
