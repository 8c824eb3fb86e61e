//! Backends in `mode log`: lines are spread over servers of logs, each reached over datagrams or, through a ring of
//! its own, over a stream.

use std::sync::Arc;

use thalweg_config::model::{Proxy, ProxyId, Server, ServerAddr, ServerId, Shared};
use thalweg_runtime::net::{Datagram, DatagramOptions, SockAddr};

use super::ring::{Feed, Ring};

/// Longest line that a stream server gets.
const LINE_MAX: usize = 65_536;

/// The server that a line goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    pub server: ServerId,
    /// How often its address changed: not at all while it is as configured.
    pub moves: u32,
}

/// What the process decides about such backends, as operators and checks have it, on the calling thread.
pub trait Backends: Send + Sync {
    /// Where a line goes to; `None` when no server may be used.
    fn choose(&self, backend: ProxyId, line: &[u8]) -> Option<Chosen>;
    /// Where a server is now.
    fn address(&self, backend: ProxyId, server: ServerId) -> Option<ServerAddr>;
}

/// One backend; shared by all threads.
pub struct LogBackend {
    pub name: Arc<str>,
    pub(super) id: ProxyId,
    /// By number.
    ways: Vec<Way>,
}

/// How the lines of one server get there.
enum Way {
    Datagrams,
    Stream(Arc<Ring>),
}

/// The address of a socket; `None` for those that the configuration refuses for logs.
pub fn socket_address(addr: &ServerAddr) -> Option<SockAddr> {
    match addr {
        ServerAddr::Tcp(addr) => Some(SockAddr::from(*addr)),
        ServerAddr::Unix(path) => Some(SockAddr::Unix(path.as_path().into())),
        _ => None,
    }
}

impl LogBackend {
    /// The backend of a proxy in `mode log`. `ring_size` is the size of the buffer of each stream server that names none
    /// (`log-bufsize`), in bytes.
    pub fn new(proxy: &Proxy, ring_size: usize) -> LogBackend {
        let way = |server: &Shared<Server>| match server.rare().datagram {
            true => Way::Datagrams,
            false => {
                let size = server.rare().log_bufsize.map_or(ring_size, |bytes| bytes as usize);
                Way::Stream(Arc::new(Ring::new(size, LINE_MAX)))
            }
        };
        LogBackend {
            name: Arc::clone(&proxy.name),
            id: proxy.id,
            ways: proxy.servers.iter().map(way).collect(),
        }
    }

    /// The rings of the stream servers and where they lead.
    pub(super) fn feeds(&self, proxy: &Proxy) -> Vec<Feed> {
        let timeouts = (proxy.timeouts.connect, proxy.timeouts.server);
        let feed = |(server, way): (&Shared<Server>, &Way)| match way {
            Way::Stream(ring) => {
                let feed = Feed::of(ring, server, timeouts)?;
                Some(Feed { movable: Some((proxy.id, server.id)), ..feed })
            }
            Way::Datagrams => None,
        };
        proxy.servers.iter().zip(&self.ways).filter_map(feed).collect()
    }
}

/// A thread's way to one backend.
pub(super) struct Outlets {
    backend: Arc<LogBackend>,
    /// By number of the server.
    sockets: Vec<Outlet>,
}

/// A thread's socket to a server that is reached over datagrams; none before the first line.
#[derive(Default)]
struct Outlet {
    socket: Option<Datagram>,
    /// How often the server had moved when it was opened.
    moves: u32,
}

impl Outlets {
    pub(super) fn new(backend: &Arc<LogBackend>) -> Outlets {
        let sockets = backend.ways.iter().map(|_| Outlet::default()).collect();
        Outlets { backend: Arc::clone(backend), sockets }
    }

    /// Sends a line to the server that is to have it. False when there is none, or it cannot take it.
    pub(super) fn send(&mut self, backends: &dyn Backends, line: &[u8]) -> bool {
        let Some(Chosen { server, moves }) = backends.choose(self.backend.id, line) else { return false };
        let at = server.0 as usize;
        match (self.backend.ways.get(at), self.sockets.get_mut(at)) {
            (Some(Way::Stream(ring)), _) => ring.push(line),
            (Some(Way::Datagrams), Some(outlet)) => {
                if outlet.socket.is_none() || outlet.moves != moves {
                    let address = backends.address(self.backend.id, server);
                    *outlet = Outlet { socket: address.as_ref().and_then(open), moves };
                }
                outlet.socket.as_mut().is_some_and(|socket| socket.queue(line))
            }
            _ => false,
        }
    }
}

fn open(address: &ServerAddr) -> Option<Datagram> {
    Datagram::connect(&socket_address(address)?, &DatagramOptions::default()).ok()
}
