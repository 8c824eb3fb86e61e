//! `log-forward`: the sockets on which messages of other programs arrive, each served by one task of one thread, and a task
//! for each stream. What a message is, and how it is sent on, is in [`thalweg_operate::log::forward`].

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use thalweg_config::model::{LogFormatKind, LogForward, LogHost, Shared};
use thalweg_operate::log::Route;
use thalweg_operate::log::forward::{Framed, Framer, Message, Rewrite};
use thalweg_rules::Overrides;
use thalweg_runtime::net::{Datagram, DatagramOptions, Listener, Port, SockAddr, Stream};
use thalweg_runtime::{Kind, clock, pool, spawn, timer};

use crate::connection::forerunner::{self, Forerunner};
use crate::connection::tls::RecordLimits;
use crate::connection::transport::Transport;
use crate::connection::{handshake, port};
use crate::worker::{Thread, Worker};

static DATAGRAMS: Kind = Kind::new("log-datagrams");
static ACCEPT: Kind = Kind::new("log-accept");
static STREAM: Kind = Kind::new("log-stream");

/// Pause after the process ran out of descriptors, or a socket failed, in milliseconds.
const PAUSE_MS: u64 = 100;

/// A socket of a `log-forward` section.
pub enum LogSocket {
    /// Streams are accepted on it, as the `bind` at this position of the section says.
    Streams(usize, Arc<Port>),
    /// Datagrams arrive on it.
    Datagrams(OwnedFd),
}

/// Serves a socket of a section on the calling thread, one of the runtime's, until a soft stop.
pub fn start(worker: &Rc<Worker>, section: usize, socket: LogSocket) {
    let Some(relay) = Relay::new(worker, section) else { return };
    let task = match socket {
        LogSocket::Datagrams(fd) => spawn(&DATAGRAMS, datagrams(relay, fd)),
        LogSocket::Streams(bind, port) => spawn(&ACCEPT, accept(relay, bind, Listener::on(port))),
    };
    worker.until_stop.borrow_mut().push(task);
}

/// One section, on one thread.
#[derive(Clone)]
struct Relay {
    own: Rc<Thread>,
    section: usize,
    settings: Shared<LogForward>,
    /// How much is received at once.
    room: usize,
    limits: RecordLimits,
    /// Where its messages go; `None` without a `log` line.
    route: Option<Rc<Route>>,
}

impl Relay {
    fn new(worker: &Rc<Worker>, section: usize) -> Option<Relay> {
        let config = &worker.instance.config;
        let settings = config.log_forwards.get(section)?.clone();
        let route = worker.log_route(&settings.targets);
        let room = config.global.tune.bufsize;
        let limits = worker.record_limits();
        Some(Relay { own: Rc::clone(worker.own()), section, settings, room, limits, route })
    }

    /// Sends one message on.
    fn send(&self, bytes: &[u8], sender: Option<IpAddr>) {
        self.own.counters().received_logs.add(1);
        let settings = &self.settings;
        let (Some(route), Some(message)) = (&self.route, Message::read(bytes, settings.dont_parse)) else {
            return;
        };
        let rewrite = Rewrite {
            // What was not read cannot be written in another form by itself.
            format: if settings.dont_parse { LogFormatKind::Raw } else { LogFormatKind::Unspecified },
            priority: 0,
            host: if settings.dont_parse { LogHost::Keep } else { settings.host },
            sender,
            wall_us: clock::wall_us(),
        };
        self.own.relay_log(route, &message, &rewrite);
    }
}

fn ip_of(address: &SockAddr) -> Option<IpAddr> {
    // An IPv4 address that came through an IPv6 socket is an IPv4 address.
    address.to_std().map(|address| address.ip().to_canonical())
}

async fn datagrams(relay: Relay, fd: OwnedFd) {
    let Ok(mut socket) = Datagram::from_fd(fd, &DatagramOptions::default()) else { return };
    loop {
        match socket.recv_from().await {
            Ok(received) => relay.send(&received.bytes, ip_of(&received.from)),
            Err(_) => timer::sleep(PAUSE_MS).await,
        }
    }
}

async fn accept(relay: Relay, bind: usize, mut listener: Listener) {
    loop {
        match listener.accept().await {
            Ok((fd, peer)) => {
                let gate = &relay.own.live.log_forward_gates[relay.section];
                // Beyond the limit a client waits here, and those behind it in the backlog.
                gate.enter_in_turn().await;
                let place = Place(relay.clone());
                spawn(&STREAM, stream(place, bind, fd, peer));
            }
            Err(_) => listener.rest(PAUSE_MS).await,
        }
    }
}

/// A place below the `maxconn` of a section.
struct Place(Relay);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.own.live.log_forward_gates[self.0.section].leave();
    }
}

/// Serves a stream to its end: that of the connection, a silence of `timeout client`, or something that is no message. TLS
/// comes first if the `bind` says so, and before that who the sender is (`accept-proxy`,
/// `accept-netscaler-cip`).
async fn stream(place: Place, bind: usize, fd: OwnedFd, peer: SockAddr) {
    let relay = &place.0;
    let Ok(stream) = Stream::from_accepted(fd) else { return };
    let (settings, room) = (&relay.settings, relay.room);
    let mut client = port::Port::new(Transport::from(stream));
    let mut sender = ip_of(&peer);
    for awaited in Forerunner::of(&settings.binds[bind], &Overrides::default()) {
        let deadline = settings.timeout_client_ms.map(timer::deadline_in);
        let Ok(header) = pool::boxed(forerunner::receive(&mut client, awaited, deadline)).await else {
            return;
        };
        sender = header.addresses.map_or(sender, |(from, _)| Some(from.ip().to_canonical()));
    }
    if let Some(line) = settings.binds[bind].tls.as_deref().and_then(|tls| tls.line.as_ref()) {
        let deadline = settings.timeout_client_ms.map(timer::deadline_in);
        let shaking = handshake::accept(&mut client, line.selection(), relay.limits, deadline);
        let Ok(facts) = pool::boxed(shaking).await else { return };
        relay.own.count_tls_client(facts.known.resumed);
    }
    let framer = Framer::new(settings.assume_rfc6587_ntf, room);
    let mut bytes: Vec<u8> = Vec::new();
    loop {
        let received = match client.input.take() {
            // It came with what had to come first.
            Some(input) => input,
            None => {
                let deadline = settings.timeout_client_ms.map(timer::deadline_in);
                let Ok(Ok(received)) = timer::timeout_at(deadline, client.line.recv(room)).await else {
                    return;
                };
                received
            }
        };
        let ended = received.is_empty();
        bytes.extend_from_slice(&received);
        drop(received);
        let mut at = 0;
        loop {
            match framer.next(&bytes[at..], ended) {
                Framed::Message { from, to, next } => {
                    relay.send(&bytes[at + from..at + to], sender);
                    at += next;
                }
                Framed::Partial => break,
                Framed::Broken => return,
            }
        }
        if ended {
            return;
        }
        bytes.drain(..at);
        if bytes.is_empty() {
            // A stream that waits holds nothing.
            bytes = Vec::new();
        }
    }
}
