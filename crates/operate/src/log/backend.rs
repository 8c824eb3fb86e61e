//! Backends in `mode log`: lines are spread over servers of logs, each reached over datagrams or, through a ring of
//! its own, over a stream.

use std::sync::{Arc, PoisonError};

use thalweg_config::model::{Algorithm, BalanceAlgo, Proxy, ProxyId, Server, ServerAddr, ServerId, Shared};
use thalweg_runtime::net::SockAddr;
use thalweg_shared::{AtomicU32, Mutex, Ordering};

use super::ring::{Feed, Ring};

/// Longest line that a stream server gets.
const LINE_MAX: usize = 65_536;

/// Which servers may be used now.
pub trait ServerStates: Send + Sync {
    /// Whether a server is up and wanted.
    fn is_usable(&self, backend: ProxyId, server: ServerId) -> bool;
    /// What a line comes to in a backend with `balance log-hash`, on the calling thread.
    fn hash(&self, backend: ProxyId, line: &[u8]) -> u32;
}

/// One backend; shared by all threads.
pub struct LogBackend {
    pub name: Arc<str>,
    id: ProxyId,
    method: Method,
    all_backups: bool,
    pub(super) servers: Vec<LogServer>,
}

/// How a server is chosen.
enum Method {
    /// Each in turn.
    RoundRobin(AtomicU32),
    /// Any.
    Random(AtomicU32),
    /// The same one for as long as it may be used; one that comes back waits behind the others.
    Sticky(Mutex<Vec<usize>>),
    /// The one that the line's hash says, of those that may be used.
    Hash,
}

/// Where the lines of one server go.
pub(super) enum Way {
    Datagrams(SockAddr),
    Stream(Arc<Ring>),
}

pub(super) struct LogServer {
    backup: bool,
    pub way: Option<Way>,
}

impl LogBackend {
    /// The backend of a proxy in `mode log`. `ring_size` is the size of the buffer of each stream server, in bytes.
    pub fn new(proxy: &Proxy, ring_size: usize) -> LogBackend {
        let way = |addr: &ServerAddr, datagrams: bool| {
            let address = match addr {
                ServerAddr::Tcp(addr) => SockAddr::from(*addr),
                ServerAddr::Unix(path) => SockAddr::Unix(path.as_path().into()),
                _ => return None,
            };
            Some(match datagrams {
                true => Way::Datagrams(address),
                false => Way::Stream(Arc::new(Ring::new(ring_size, LINE_MAX))),
            })
        };
        let servers = proxy
            .servers
            .iter()
            .map(|s| LogServer { backup: s.backup, way: way(&s.addr, s.rare().datagram) });
        LogBackend {
            name: Arc::clone(&proxy.name),
            id: proxy.id,
            method: match proxy.balance.algo {
                BalanceAlgo::Servers(Algorithm::Sticky) => Method::Sticky(Mutex::default()),
                BalanceAlgo::LogHash(_) => Method::Hash,
                BalanceAlgo::Servers(Algorithm::Random { .. }) => Method::Random(AtomicU32::new(0x9E37_79B9)),
                _ => Method::RoundRobin(AtomicU32::new(0)),
            },
            all_backups: proxy.opts.allbackups,
            servers: servers.collect(),
        }
    }

    /// The rings of the stream servers and where they lead.
    pub(super) fn feeds(&self, proxy: &Proxy) -> Vec<Feed> {
        let timeouts = (proxy.timeouts.connect, proxy.timeouts.server);
        let feed = |(server, ours): (&Shared<Server>, &LogServer)| match &ours.way {
            Some(Way::Stream(ring)) => Feed::of(ring, server, timeouts),
            _ => None,
        };
        proxy.servers.iter().zip(&self.servers).filter_map(feed).collect()
    }

    /// The server of a line; `None` when none may be used.
    pub fn choose(&self, states: &dyn ServerStates, line: &[u8]) -> Option<usize> {
        let usable =
            |index: usize| states.is_usable(self.id, ServerId(u32::try_from(index).unwrap_or(u32::MAX)));
        let all = || 0..self.servers.len();
        let count = all().filter(|i| !self.servers[*i].backup && usable(*i)).count();
        if count == 0 {
            let mut backups = all().filter(|i| self.servers[*i].backup && usable(*i));
            if !self.all_backups {
                return backups.next();
            }
        }
        let backup = count == 0;
        let candidate = |i: &usize| self.servers[*i].backup == backup && usable(*i);
        let count = u32::try_from(all().filter(candidate).count()).ok().filter(|n| *n > 0)?;
        let nth = |n: u32| all().filter(candidate).nth(n as usize);
        match &self.method {
            Method::Hash => nth(states.hash(self.id, line) % count),
            Method::RoundRobin(turn) => nth(turn.fetch_add(1, Ordering::Relaxed) % count),
            Method::Random(seed) => {
                // Numbers that spread lines, not secrets (xorshift32); a number lost to another thread does no harm.
                let mut x = seed.load(Ordering::Relaxed);
                x ^= x << 13;
                x ^= x >> 17;
                x ^= x << 5;
                seed.store(x, Ordering::Relaxed);
                nth(x % count)
            }
            Method::Sticky(order) => {
                let mut order = order.lock().unwrap_or_else(PoisonError::into_inner);
                order.retain(|i| candidate(i));
                for index in all().filter(candidate) {
                    if !order.contains(&index) {
                        order.push(index);
                    }
                }
                order.first().copied()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Up(Mutex<Vec<bool>>);

    impl ServerStates for Up {
        fn is_usable(&self, _: ProxyId, server: ServerId) -> bool {
            self.0.lock().unwrap()[server.0 as usize]
        }

        fn hash(&self, _: ProxyId, line: &[u8]) -> u32 {
            line.len() as u32
        }
    }

    fn backend(method: Method, backups: &[bool]) -> LogBackend {
        LogBackend {
            name: "b".into(),
            id: ProxyId(0),
            method,
            all_backups: false,
            servers: backups.iter().map(|backup| LogServer { backup: *backup, way: None }).collect(),
        }
    }

    #[test]
    fn round_robin_takes_turns_among_those_that_are_up() {
        let states = Up(Mutex::new(vec![true, false, true]));
        let b = backend(Method::RoundRobin(AtomicU32::new(0)), &[false, false, false]);
        let turns: Vec<_> = (0..4).map(|_| b.choose(&states, b"")).collect();
        assert_eq!(turns, [Some(0), Some(2), Some(0), Some(2)]);
    }

    #[test]
    fn backups_serve_when_no_other_is_left() {
        let states = Up(Mutex::new(vec![false, true, true]));
        let b = backend(Method::RoundRobin(AtomicU32::new(0)), &[false, true, true]);
        assert_eq!([b.choose(&states, b""), b.choose(&states, b"")], [Some(1), Some(1)]);
        *states.0.lock().unwrap() = vec![false, false, false];
        assert_eq!(b.choose(&states, b""), None);
    }

    #[test]
    fn sticky_stays_until_its_server_goes_and_does_not_come_back_by_itself() {
        let states = Up(Mutex::new(vec![true, true, true]));
        let b = backend(Method::Sticky(Mutex::default()), &[false, false, false]);
        let check = |up: [bool; 3], expected| {
            *states.0.lock().unwrap() = up.to_vec();
            assert_eq!(b.choose(&states, b""), expected, "{up:?}");
        };
        check([true, true, true], Some(0));
        check([false, true, true], Some(1));
        check([true, true, true], Some(1));
        check([true, false, true], Some(2));
    }

    #[test]
    fn a_line_goes_where_its_hash_says_among_those_that_are_up() {
        let states = Up(Mutex::new(vec![true, false, true]));
        let b = backend(Method::Hash, &[false, false, false]);
        let chosen: Vec<_> = [&b""[..], b"a", b"ab", b"abc"].map(|line| b.choose(&states, line)).into();
        assert_eq!(chosen, [Some(0), Some(2), Some(0), Some(2)]);
    }

    #[test]
    fn random_reaches_all() {
        let states = Up(Mutex::new(vec![true, true, true]));
        let b = backend(Method::Random(AtomicU32::new(7)), &[false, false, false]);
        let mut seen = [0; 3];
        (0..300).filter_map(|_| b.choose(&states, b"")).for_each(|i| seen[i] += 1);
        assert!(seen.iter().all(|n| *n > 50), "{seen:?}");
    }
}
