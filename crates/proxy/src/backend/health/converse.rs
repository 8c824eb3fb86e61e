//! One check over a connection.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use thalweg_check::{Connect, Conversation, Next, Program, Protocol, Verdict};
use thalweg_config::model::{Proxy, ProxyHeader, Server, ServerAddr};
use thalweg_runtime::buffer::Buf;
use thalweg_runtime::net::{ConnectOptions, SockAddr, SourceError, Stream};
use thalweg_runtime::timer::timeout_at;
use thalweg_runtime::{clock, pool};
use thalweg_tls::files;

use super::super::connect::local_address;
use super::super::connect_error::ConnectError;
use super::super::identity::Identity;
use super::super::introduction;
use super::super::seats::Seat;
use super::super::sockets;
use super::What;
use super::checker::Checker;
use super::evaluate::Evaluator;
use super::reuse;
use crate::connection::handshake::{self, HandshakeError};
use crate::connection::line::Line;
use crate::connection::socks::{self, SocksError};
use crate::connection::transport::Transport;

/// Sends what a check says, and waits until it left.
async fn send(line: &mut Line, bytes: &[u8]) -> io::Result<()> {
    poll_fn(|_| line.poll_send_ready()).await?;
    line.start_send(Buf::copy_of(bytes));
    poll_fn(|_| line.poll_send_ready()).await
}

/// What came of a check.
pub(super) struct Heard {
    pub(super) verdict: Verdict,
    /// What an agent said.
    pub(super) answer: Vec<u8>,
    /// Its connection stays until it was concluded: who sees the end of it finds that what was said has been done.
    _open: Open,
}

/// The connection that a check is on.
#[derive(Default)]
struct Open {
    line: Option<Line>,
    /// Behind the connection, which goes before its seat is free.
    seat: Option<Seat>,
}

impl Checker {
    /// What is asked now.
    fn program(&self) -> Arc<Program> {
        let Some((proxy, server)) = self.config() else { return Arc::new(Program::plain()) };
        match self.what {
            What::Health => {
                let of_server = server.check.as_ref().and_then(|check| check.program.as_ref());
                of_server.or(proxy.check.as_ref()).cloned().unwrap_or_else(|| Arc::new(Program::plain()))
            }
            What::Agent => Arc::new(Program::agent(self.backend().identity(server).agent_send.as_deref())),
        }
    }

    /// One check from its first connection to its verdict.
    pub(super) async fn converse(&self, begun_ms: u64) -> Heard {
        let program = self.program();
        if let Some(external) = &program.external {
            // Boxed: few checks are of this kind, and all have room for it otherwise.
            let verdict = pool::boxed(self.run_program(external, begun_ms)).await;
            return Heard { verdict, answer: Vec::new(), _open: Open::default() };
        }
        let input_max = self.worker.instance.config.global.tune.bufsize;
        let mut conversation = Conversation::new(program, input_max);
        let (mut may_reuse, mut open) = (true, Open::default());
        let verdict = loop {
            match self.talk(&mut conversation, &mut open, begun_ms, may_reuse).await {
                Some(verdict) => break verdict,
                // An idle connection had come to its end, which says nothing of the server.
                None if may_reuse => conversation = Conversation::new(self.program(), input_max),
                None => break Verdict::default(),
            }
            (may_reuse, open) = (false, Open::default());
        };
        // Whatever a server said is let go with the conversation; an agent's words are still to be followed.
        let answer = if self.what == What::Agent { conversation.heard().to_vec() } else { Vec::new() };
        Heard { verdict, answer, _open: open }
    }

    /// `None` when it was begun on an idle connection, as it may be if `may_reuse`, and nothing came on that.
    async fn talk(
        &self,
        conversation: &mut Conversation,
        Open { line: io, seat }: &mut Open,
        begun_ms: u64,
        may_reuse: bool,
    ) -> Option<Verdict> {
        let (proxy, server) = self.config()?;
        let mut evaluator = Evaluator::new(&self.worker, proxy, server);
        crate::plant::here("check");
        let inter = self.inter_ms();
        let mut deadline = begun_ms + inter;
        // An idle connection that nothing was heard on yet.
        let mut is_reused = false;
        loop {
            match conversation.next(&mut evaluator) {
                Next::Done(verdict) => return Some(verdict),
                Next::Connect { connect, port } => {
                    drop(io.take());
                    is_reused = false;
                    let shares = self.shares(conversation, &connect);
                    if shares
                        && may_reuse
                        && let Some((idle, its)) = pool::boxed(self.idle_connection()).await
                    {
                        reuse::begin(conversation, &idle);
                        (*io, *seat, is_reused) = (Some(idle), its, true);
                        continue;
                    }
                    if let Some(limit) = proxy.timeouts.check.and(proxy.timeouts.connect) {
                        deadline = clock::now_ms() + limit.min(inter);
                    }
                    let asked = (connect, port);
                    let to = (proxy, server);
                    // Boxed: it is soon over, and what it needs is not held while the check goes on.
                    match pool::boxed(self.connect(conversation, &mut evaluator, to, asked, deadline)).await {
                        Ok(transport) if shares => *io = Some(self.share(conversation, transport)),
                        Ok(transport) => *io = Some(Line::from(transport)),
                        Err(verdict) => return Some(verdict),
                    }
                    if let Some(limit) = proxy.timeouts.check {
                        deadline = clock::now_ms() + limit;
                    }
                }
                Next::Send(bytes) => {
                    let Some(line) = io else { return Some(conversation.failed("")) };
                    match timeout_at(Some(deadline), send(line, &bytes)).await {
                        Err(_elapsed) => return Some(conversation.timed_out()),
                        Ok(Err(_)) if is_reused => return None,
                        Ok(Err(error)) => return Some(conversation.failed(&system_words(&error))),
                        Ok(Ok(())) => {}
                    }
                }
                Next::Request { head, body } => {
                    let Some(line) = io else { return Some(conversation.failed("")) };
                    reuse::request(line, &head, &body);
                }
                Next::Receive => {
                    let Some(line) = io else { return Some(conversation.failed("")) };
                    let heard = timeout_at(Some(deadline), reuse::hear(line, conversation)).await;
                    match heard {
                        Err(_elapsed) => return Some(conversation.timed_out()),
                        Ok(Err(_)) if is_reused => return None,
                        Ok(Ok(false)) if is_reused => return None,
                        Ok(Err(error)) => return Some(conversation.failed(&system_words(&error))),
                        Ok(Ok(false)) => conversation.ended(),
                        Ok(Ok(true)) => is_reused = false,
                    }
                }
            }
        }
    }

    /// Makes the connection that a check asks for.
    async fn connect(
        &self,
        conversation: &mut Conversation,
        evaluator: &mut Evaluator<'_>,
        (proxy, server): (&Proxy, &Server),
        (connect, port): (Connect, Option<u16>),
        deadline: u64,
    ) -> Result<Transport, Verdict> {
        let now = self.backend().identity(server);
        let found = match self.what {
            What::Health => address(&now, &connect, port),
            What::Agent => agent_address(&now),
        };
        let Some(address) = found else {
            return Err(conversation.failed("no address to connect to"));
        };
        let via = self.socks_proxy(server, &connect);
        if via.is_some() && !matches!(address.to_std(), Some(SocketAddr::V4(_))) {
            return Err(conversation.failed(&socks_words(&SocksError::Address)));
        }
        // Made apart, so that the options are gone while it is waited for.
        let options = ConnectOptions {
            // What is said first takes the acknowledgement of the handshake with it, as does the end where nothing is said.
            no_quick_ack: !conversation.is_greeted(),
            reset_on_close: !connect.linger,
            silent: self.is_silent(conversation, server, &connect),
            ..options(proxy, server)
        };
        let attempt = Stream::connect(via.as_ref().unwrap_or(&address), &options);
        let to = via.and_then(|_| address.to_std());
        drop(address);
        match timeout_at(Some(deadline), attempt).await {
            Err(_elapsed) => Err(conversation.timed_out()),
            Ok(Err(error)) => Err(conversation.failed(&system_words(&error))),
            Ok(Ok(stream)) => {
                conversation.connected();
                let header = self.proxy_header(&connect, (&stream, to), evaluator);
                let first = (to, header);
                self.introduce(server, conversation, &connect, stream, first, deadline).await
            }
        }
    }

    /// Whether a connection is all that is asked for.
    fn is_silent(&self, conversation: &Conversation, server: &Server, connect: &Connect) -> bool {
        let is_plain =
            server.tls.is_none() && server.send_proxy == ProxyHeader::None && server.rare().socks4.is_none();
        let of_server = server.check.as_ref().is_some_and(|check| check.send_proxy);
        is_plain
            && !conversation.speaks_http()
            && conversation.is_silent()
            && !(of_server || connect.send_proxy || connect.ssl)
    }

    /// What a connection begins with: a word to the SOCKS proxy that leads to the server, the PROXY header, TLS.
    async fn introduce(
        &self,
        server: &Server,
        conversation: &mut Conversation,
        connect: &Connect,
        mut stream: Stream,
        (to, header): (Option<SocketAddr>, Vec<u8>),
        deadline: u64,
    ) -> Result<Transport, Verdict> {
        if let Some(to) = to {
            match pool::boxed(socks::connect(&mut stream, to, Some(deadline))).await {
                Ok(()) => {}
                Err(SocksError::Timeout) => return Err(conversation.timed_out()),
                Err(error) => return Err(conversation.failed(&socks_words(&error))),
            }
        }
        if !header.is_empty() {
            stream.start_send(Buf::copy_of(&header));
        }
        match self.encrypt(server, connect, stream, deadline).await {
            Ok(transport) => {
                if transport.is_encrypted() {
                    conversation.encrypted();
                }
                let may_be_framed = conversation.speaks_http() && is_framed(server, connect, &transport);
                if may_be_framed || conversation.needs_frames() {
                    conversation.framed(transport.is_encrypted());
                }
                Ok(transport)
            }
            Err(in_time) => Err(conversation.not_encrypted(in_time)),
        }
    }

    /// The proxy that this connection goes through, if it does.
    fn socks_proxy(&self, server: &Server, connect: &Connect) -> Option<SockAddr> {
        let of_server = server.check.as_ref().is_some_and(|check| check.via_socks4);
        let is_asked = self.what == What::Health && (of_server || connect.via_socks4);
        server.rare().socks4.filter(|_| is_asked).map(SockAddr::from)
    }

    /// The PROXY header on a connection, which leads to its peer or, through a SOCKS proxy, to another address.
    fn proxy_header(
        &self,
        connect: &Connect,
        (stream, to): (&Stream, Option<SocketAddr>),
        evaluator: &mut Evaluator<'_>,
    ) -> Vec<u8> {
        let none = Vec::new();
        let Some((_, server)) = self.config() else { return none };
        let Some(check) = server.check.as_ref().filter(|_| self.what == What::Health) else { return none };
        let now = self.backend().identity(server);
        // A check that goes elsewhere than traffic does not speak as traffic does unless told so.
        let elsewhere = now.check_port.is_some()
            || now.check_addr.is_some()
            || connect.port.is_some()
            || connect.addr.is_some();
        // A server that was added says for itself what its checks do.
        let as_traffic = server.send_proxy != ProxyHeader::None && !elsewhere && !server.is_dynamic;
        if !(connect.send_proxy || check.send_proxy || as_traffic) {
            return none;
        }
        let here = stream.local_addr().ok().and_then(|addr| addr.to_std());
        let there = to.or_else(|| stream.peer_addr().ok().and_then(|addr| addr.to_std()));
        let never_local = self.worker.instance.config.global.pp2_never_send_local;
        let fields = evaluator.header_fields();
        introduction::of_check(&server.send_proxy, here.zip(there), never_local, &fields)
    }

    /// Speaks TLS on the connection of a check, if that is asked for. The error says whether its time was over.
    async fn encrypt(
        &self,
        server: &Server,
        connect: &Connect,
        stream: Stream,
        deadline: u64,
    ) -> Result<Transport, bool> {
        let tls = server.tls.as_deref().filter(|_| self.what == What::Health);
        let tls = tls.filter(|tls| connect.is_encrypted(tls.check_ssl));
        let Some((tls, line)) = tls.and_then(|tls| Some((tls, tls.line.as_ref()?))) else {
            return Ok(Transport::from(stream));
        };
        let of_server = tls.check_sni.as_deref().filter(|_| !connect.ssl);
        let name = connect.sni.as_deref().or(of_server).map(str::as_bytes);
        let limits = self.worker.record_limits();
        let of_server = tls.check_protocols.as_deref().filter(|_| !connect.ssl);
        let asked = (name, connect.protocols.as_deref().or(of_server));
        let shaking = handshake::connect(stream, line.context(), asked, limits, Some(deadline));
        let shaken = pool::boxed(shaking).await;
        let agreed = shaken.as_ref().ok().and_then(|transport| transport.tls_facts());
        self.worker.count_server_handshake(self.proxy, self.server, agreed.map(|facts| &**facts));
        shaken.map_err(|error| matches!(error, HandshakeError::Timeout))
    }
}

/// Whether HTTP/2 is spoken on the connection of a check: as its line says, or that of the server, or as was agreed on by ALPN.
fn is_framed(server: &Server, connect: &Connect, io: &Transport) -> bool {
    let of_check = server.check.as_ref().and_then(|check| check.protocol);
    let of_server = || server.rare().proto.as_deref().map(|proto| proto == "h2");
    let as_server = connect.as_server.then(|| of_check.map(|p| p == Protocol::Http2).or_else(of_server));
    let said = connect.protocol.map(|protocol| protocol == Protocol::Http2).or(as_server.flatten());
    said.unwrap_or_else(|| io.tls_facts().is_some_and(|tls| tls.known.alpn.as_deref() == Some(b"h2")))
}

/// Where a check connects to: `connect` before `port` and `addr` of the server before its own address.
fn address(server: &Identity, connect: &Connect, port: Option<u16>) -> Option<SockAddr> {
    let not_zero = |p: u16| (p != 0).then_some(p);
    let own = match &server.addr {
        ServerAddr::Tcp(addr) => Some(*addr),
        _ => None,
    };
    let Some(mut addr) = connect.addr.or(server.check_addr).or(own) else {
        return local_address(&server.addr).filter(|_| !crate::plant::bug("unix-check"));
    };
    let port = port
        .or(connect.addr.and_then(|a| not_zero(a.port())))
        .or(server.check_port)
        .or(server.check_addr.and_then(|a| not_zero(a.port())))
        .or(own.and_then(|a| not_zero(a.port())))?;
    addr.set_port(port);
    Some(SockAddr::from(addr))
}

/// Where an agent is: at the server's address unless said otherwise.
fn agent_address(server: &Identity) -> Option<SockAddr> {
    let own = match &server.addr {
        ServerAddr::Tcp(addr) => Some(addr.ip()),
        _ => None,
    };
    let port = server.agent_port.filter(|port| *port != 0)?;
    Some(SockAddr::from(SocketAddr::new(server.agent_addr.or(own)?, port)))
}

fn options(proxy: &Proxy, server: &Server) -> ConnectOptions {
    let source = server.rare().source.as_ref().or(proxy.source.as_deref());
    ConnectOptions {
        source: source.and_then(|s| s.addr).map(SockAddr::from),
        source_ports: source.and_then(|s| s.ports),
        interface: source.and_then(|s| s.interface.as_deref()).map(Box::from),
        ..sockets::options(server)
    }
}

/// The same of a proxy on the way.
fn socks_words(error: &SocksError) -> String {
    match error {
        SocksError::Io(error) => system_words(error),
        SocksError::Ended => "SOCKS4 Proxy handshake aborted by server".into(),
        SocksError::Address => "General socket error (Invalid argument)".into(),
        SocksError::Denied | SocksError::Timeout => "SOCKS4 Proxy deny the request".into(),
    }
}

/// The system's error as the reference words it: `ECONNREFUSED returned by OS (Connection refused)`.
fn system_words(error: &io::Error) -> String {
    if let Some(source) = SourceError::of(error) {
        let what = ConnectError::of(error).number().message();
        return format!("{what} ({})", files::reason(source.system()));
    }
    let Some(code) = error.raw_os_error() else { return error.to_string() };
    let text = files::reason(error);
    let name = match code {
        11 => "EAGAIN",
        13 => "EACCES",
        2 => "ENOENT",
        1 => "EPERM",
        22 => "EINVAL",
        24 => "EMFILE",
        23 => "ENFILE",
        32 => "EPIPE",
        98 => "EADDRINUSE",
        99 => "EADDRNOTAVAIL",
        100 => "ENETDOWN",
        // No connection was begun: the reference has one word for all such causes.
        101 => return format!("General socket error ({text})"),
        103 => "ECONNABORTED",
        104 => "ECONNRESET",
        105 => "ENOBUFS",
        107 => "ENOTCONN",
        110 => "ETIMEDOUT",
        111 => "ECONNREFUSED",
        113 => "EHOSTUNREACH",
        _ => return format!("errno={code} returned by OS ({text})"),
    };
    format!("{name} returned by OS ({text})")
}
