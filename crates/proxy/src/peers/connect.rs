//! Connecting to peers: when, and how.

use std::rc::Rc;

use thalweg_config::model::{BindAddr, PeersSection, Server, ServerAddr};
use thalweg_runtime::net::SockAddr;
use thalweg_runtime::{clock, timer};

use super::session::{HELLO_MS, Open, introduce};
use super::{Listed, Service};
use crate::backend::connect::local_address;
use crate::backend::reach::reach;
use crate::connection::port::Port;

/// Pause after a peer could not be reached, in milliseconds.
const RECONNECT_MS: u64 = 5000;
/// After a connection ended, both sides would connect at the same time: the pause is somewhere between this and
/// [`RECONNECT_SPREAD_MS`] more.
const RECONNECT_MIN_MS: u64 = 50;
const RECONNECT_SPREAD_MS: u64 = 2000;
/// Two that start together would connect to each other together, and by the protocol each closes the connection that it made or
/// took first: mostly both. The one whose name comes first in the alphabet is so much ahead.
const HEAD_START_MS: u64 = 200;

/// Where a peer is, for people.
pub(super) fn shown(section: &PeersSection, peer: usize) -> String {
    let server = &section.peers[peer].server;
    let path = |path: &std::path::Path| path.display().to_string();
    if peer == section.local {
        return match &section.bind.addr {
            BindAddr::Tcp(address) => address.to_string(),
            BindAddr::Unix(name) => path(name),
            _ => section.bind.shown.to_string(),
        };
    }
    match &server.addr {
        ServerAddr::Tcp(address) => address.to_string(),
        ServerAddr::Unix(name) => path(name),
        ServerAddr::Abstract(name) | ServerAddr::AbstractZ(name) => {
            format!("abns@{}", String::from_utf8_lossy(name))
        }
        ServerAddr::SockPair(fd) => format!("sockpair@{fd}"),
        ServerAddr::Reverse => "rhttp@".into(),
        ServerAddr::Unresolved(name, port) => format!("{name}:{port}"),
    }
}

/// Connects to a peer whenever neither side is connected to the other.
pub(super) async fn keep_connected(service: Rc<Service>, peer: usize) {
    // Peers that connected before this process listened come first: two connections would be one too many.
    let config = service.config();
    let (own, other) = (&config.peers[config.local].server.name, &config.peers[peer].server.name);
    timer::sleep(RECONNECT_MIN_MS + head_start_ms(own, other)).await;
    loop {
        let mut pause_ms = pause(&service);
        if !service.live.section().is_connected(peer) {
            match attempt(&service, peer).await {
                Attempt::Talked => {}
                Attempt::Unreachable => {
                    service.live.section().unreachable(peer);
                    pause_ms = RECONNECT_MS;
                }
            }
        }
        set_reconnect(&service, peer, Some(clock::now_ms() + pause_ms));
        timer::sleep(pause_ms).await;
    }
}

/// How long the process with the name `own` lets a peer go first. Of two, one waits.
fn head_start_ms(own: &str, other: &str) -> u64 {
    if own < other { 0 } else { HEAD_START_MS }
}

fn pause(service: &Service) -> u64 {
    RECONNECT_MIN_MS + service.own.next_random() % RECONNECT_SPREAD_MS
}

fn set_reconnect(service: &Service, peer: usize, at_ms: Option<u64>) {
    service.live.section().peers()[peer].reconnect_ms = at_ms;
}

enum Attempt {
    /// There was a connection, which is over.
    Talked,
    /// There was none.
    Unreachable,
}

async fn attempt(service: &Rc<Service>, peer: usize) -> Attempt {
    let _listed = Listed::enter(service);
    service.live.section().connecting(peer);
    let server = &service.config().peers[peer].server;
    let address = match &server.addr {
        ServerAddr::Tcp(address) => Some(SockAddr::from(*address)),
        other => local_address(other),
    };
    let Some(address) = address else { return Attempt::Unreachable };
    let Some(port) = open(service, server, &address).await else { return Attempt::Unreachable };
    match introduce(service, peer, port).await {
        Some((conversation, 200)) => {
            let link = service.live.section().opened(peer, clock::now_ms());
            service.wake_sessions();
            let open = Open { service: Rc::clone(service), link, why: None };
            conversation.run(open, |_| false).await;
            Attempt::Talked
        }
        Some((_, status)) => {
            service.live.section().refused(peer, status);
            Attempt::Unreachable
        }
        // It may be about to connect itself, and have closed this one for that.
        None => Attempt::Talked,
    }
}

/// Opens a connection, as the peer's line says.
async fn open(service: &Service, server: &Server, address: &SockAddr) -> Option<Port> {
    let deadline = timer::deadline_in(HELLO_MS);
    let reached = reach(&service.own, server, address, service.limits, Some(deadline)).await;
    reached.ok().map(Port::new)
}

/// What became of teaching the process that comes next.
pub(super) enum Taught {
    Yes,
    /// Nobody was there.
    Nobody,
    /// The connection broke before the end.
    Broken,
}

/// Connects to the process that listens where this one did, and tells it everything.
pub(super) async fn teach_successor(service: &Rc<Service>) -> Taught {
    let local = service.config().local;
    let server = &service.config().peers[local].server;
    let Some(address) = &service.here else { return Taught::Nobody };
    let Some(port) = open(service, server, address).await else { return Taught::Nobody };
    let Some((conversation, 200)) = introduce(service, local, port).await else { return Taught::Nobody };
    let link = service.live.section().opened(local, clock::now_ms());
    let _listed = Listed::enter(service);
    let open = Open { service: Rc::clone(service), link, why: None };
    let taught = std::cell::Cell::new(false);
    let is_over = |link| {
        taught.set(service.live.section().has_taught(link));
        taught.get()
    };
    conversation.run(open, is_over).await;
    if taught.get() { Taught::Yes } else { Taught::Broken }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_that_start_together_one_goes_first() {
        for (one, other) in [("lb1", "lb2"), ("a", "ab"), ("Z", "a"), ("10.0.0.1", "lb")] {
            let waits = [head_start_ms(one, other), head_start_ms(other, one)];
            assert_eq!(waits, [0, HEAD_START_MS], "{one} {other}");
        }
    }
}
