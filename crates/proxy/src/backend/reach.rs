//! Connecting to a server for the process itself, whom no client asked: what rings, log backends, peers, name servers and
//! collectors of traces have in common.

use std::io;

use thalweg_config::model::{ProxyHeader, Server, SourceMode};
use thalweg_runtime::buffer::Buf;
use thalweg_runtime::net::{ConnectOptions, SockAddr, Stream};
use thalweg_runtime::pool;
use thalweg_runtime::timer::timeout_at;
use thalweg_sample::Type;
use thalweg_sample::context::Ctx;
use thalweg_sample::facts::{ListenerId, ProxyId, Session};

use super::{introduction, sockets};
use crate::connection::tls::RecordLimits;
use crate::connection::transport::Transport;
use crate::connection::{handshake, socks};
use crate::worker::Thread;

/// Connects to a server at `address` as its line says: from where, through which proxy, with a PROXY header or without, and encrypted
/// or not. All of it is over by
/// `deadline_ms`, if that is given.
///
/// # Errors
/// Somebody on the way refused, or the time was over.
pub async fn reach(
    own: &Thread,
    server: &Server,
    address: &SockAddr,
    limits: RecordLimits,
    deadline_ms: Option<u64>,
) -> io::Result<Transport> {
    let via = server.rare().socks4.map(SockAddr::from);
    let connecting = Stream::connect(via.as_ref().unwrap_or(address), &options(server));
    let mut stream = timeout_at(deadline_ms, connecting).await.map_err(|_| io::ErrorKind::TimedOut)??;
    if via.is_some() {
        let to = address.to_std().ok_or(io::ErrorKind::InvalidInput)?;
        let asking = socks::connect(&mut stream, to, deadline_ms);
        pool::boxed(asking).await.map_err(|error| io::Error::other(format!("SOCKS4: {error:?}")))?;
    }
    if server.send_proxy != ProxyHeader::None {
        let pin = own.pin().ok_or(io::ErrorKind::NotConnected)?;
        let never_local = pin.instance.config.global.pp2_never_send_local;
        let ends = stream.local_addr()?.to_std().zip(address.to_std());
        let header =
            introduction::of_check(&server.send_proxy, ends.filter(|_| never_local), never_local, &[]);
        stream.start_send(Buf::copy_of(&header));
    }
    let Some(line) = server.traffic_tls().and_then(|tls| tls.line.as_ref()) else {
        return Ok(Transport::from(stream));
    };
    let name = asked_name(own, server);
    let asked = (name.as_deref(), None);
    let shaking = handshake::connect(stream, line.context(), asked, limits, deadline_ms);
    let transport = pool::boxed(shaking).await.map_err(|_| io::Error::other("TLS was not agreed on"))?;
    own.count_tls_server(transport.tls_facts().is_some_and(|tls| tls.known.resumed));
    Ok(transport)
}

/// The name that TLS asks for (`sni`). There is no client and no request: what needs one has no value, and nothing is asked for.
pub fn asked_name(own: &Thread, server: &Server) -> Option<Box<[u8]>> {
    let name = server.traffic_tls()?.sni.as_ref()?;
    let worker = own.pin()?;
    let mut session = Session::new(ProxyId(0), ListenerId(0));
    let mut scratch = worker.scratch.borrow_mut();
    let mut cx = Ctx::new(worker.clock(), &*worker, &mut session, &mut scratch);
    let sample = name.eval_as(Type::Str, &mut cx)?;
    Some(cx.bytes(&sample.value)).filter(|name| !name.is_empty()).map(Box::from)
}

/// The socket of such a connection. There is no client whose address it could have (`usesrc client`).
fn options(server: &Server) -> ConnectOptions {
    let rare = server.rare();
    let source = rare.source.as_ref();
    let from = source.and_then(|source| match source.mode {
        SourceMode::Addr(address) => Some(address),
        SourceMode::Own | SourceMode::Client | SourceMode::ClientIp | SourceMode::Header(_) => source.addr,
    });
    ConnectOptions {
        source: from.map(SockAddr::from),
        source_ports: source.and_then(|source| source.ports),
        transparent: source.is_some_and(|source| matches!(source.mode, SourceMode::Addr(_))),
        interface: source.and_then(|source| source.interface.as_deref()).map(Box::from),
        // What is sent is whole messages.
        nodelay: true,
        user_timeout_ms: (rare.tcp_ut_ms != 0).then_some(rare.tcp_ut_ms),
        congestion: rare.cc.as_deref().map(Box::from),
        fastopen: rare.tfo,
        ..sockets::options(server)
    }
}
