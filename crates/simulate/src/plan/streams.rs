//! Connections that carry many requests at once: clients, servers or both speak HTTP/2.

use std::fmt::Write;
use std::net::SocketAddr;

use super::{How, Trouble};
use crate::random::Random;

/// The part of a scenario in which HTTP/2 is spoken.
#[derive(Clone, Debug)]
pub struct StreamsPlan {
    pub front: SocketAddr,
    pub servers: Vec<SocketAddr>,
    /// Who speaks HTTP/2; the other side speaks HTTP/1.
    pub clients_framed: bool,
    pub servers_framed: bool,
    /// Octets of window that servers give to each stream.
    pub server_window: u32,
    pub sessions: Vec<StreamsSession>,
}

/// A client's connection. Its requests have the numbers that follow those of the session before.
#[derive(Clone, Debug)]
pub struct StreamsSession {
    pub start_ms: u64,
    /// The number of its first request.
    pub first: usize,
    pub streams: Vec<StreamPlan>,
    /// Octets of window that the client gives to each stream.
    pub window: u32,
    /// Most octets that it takes or sends at a time, and the pause behind each time.
    pub piece: usize,
    pub pause_ms: u64,
    /// The client leaves in this way once it has received so many bytes.
    pub leave: Option<(u64, How)>,
}

/// A request and its response.
#[derive(Clone, Copy, Debug)]
pub struct StreamPlan {
    /// How long after the one before it begins.
    pub gap_ms: u64,
    /// Octets of the request's body and of the response's.
    pub up: usize,
    pub down: usize,
    /// Whether the lengths are announced.
    pub sized: bool,
    /// The server answers before it has all of the request.
    pub early: bool,
    /// The client gives the stream up once it has so many octets of the response.
    pub gives_up: Option<usize>,
    /// The server does this once it has sent so many octets of the response.
    pub fault: Option<(usize, Break)>,
}

/// What a server does to a stream or its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    Close,
    Reset,
    /// It sends nothing more of this response.
    Stall,
    /// RST_STREAM; over HTTP/1 it closes.
    ResetStream,
    /// It says that it processed nothing of this stream, with RST_STREAM or GOAWAY.
    Refuse,
    Goaway,
}

/// Where this part is in the configuration.
pub const STREAMS_FRONT: &str = "fm0";

/// The first number of its requests.
pub const STREAMS_FIRST: usize = 500_000;

impl StreamsPlan {
    /// Connections, and the sections for them, which are added to a configuration.
    pub fn draw(random: &mut Random, trouble: &Trouble, text: &mut String) -> StreamsPlan {
        let front = SocketAddr::from(([10, 0, 4, 1], 80));
        let servers: Vec<_> =
            (0..random.within(1, 2) as u8).map(|n| SocketAddr::from(([10, 0, 5, n + 1], 80))).collect();
        let (clients_framed, servers_framed) = *random.pick(&[(true, false), (true, true), (false, true)]);
        _ = writeln!(text, "frontend {STREAMS_FRONT}\n bind {front}\n capture request header x-id len 20");
        _ = write!(text, " default_backend bm0\nbackend bm0\n retries {}\n", random.below(3));
        _ = writeln!(text, " http-reuse {}", random.pick(&["never", "safe", "aggressive", "always"]));
        if random.chance(20) {
            text.push_str(" option http-buffer-request\n");
        }
        let proto = if servers_framed { " proto h2" } else { "" };
        let limit = if trouble.crowded && random.chance(30) { " maxconn 2" } else { "" };
        for (n, server) in servers.iter().enumerate() {
            _ = writeln!(text, " server m{n} {server}{proto}{limit}");
        }
        if random.chance(50) {
            // Then bodies are larger than what may be on its way.
            let (window, shared) = (random.pick(&[600, 4_000, 16_384]), random.pick(&[4_000, 40_000]));
            text.push_str("global\n");
            for side in ["fe", "be"] {
                _ = writeln!(
                    text,
                    " tune.h2.{side}.initial-window-size {window}\n tune.h2.{side}.rxbuf {shared}"
                );
            }
        }
        let mut first = STREAMS_FIRST;
        let mut sessions: Vec<_> = (0..random.within(1, 3))
            .map(|_| {
                let session = StreamsSession::draw(random, trouble, first, clients_framed);
                first += session.streams.len();
                session
            })
            .collect();
        for session in sessions.iter_mut().filter(|s| s.window < DRIBBLE && clients_framed) {
            session.streams.iter_mut().for_each(|stream| stream.down = stream.down.min(DRIBBLED_MAX));
        }
        let server_window = window(random);
        if server_window < DRIBBLE && servers_framed {
            let streams = sessions.iter_mut().flat_map(|session| &mut session.streams);
            streams.for_each(|stream| stream.up = stream.up.min(DRIBBLED_MAX));
        }
        StreamsPlan { front, servers, clients_framed, servers_framed, server_window, sessions }
    }

    /// A request by its number.
    pub fn stream(&self, id: usize) -> Option<&StreamPlan> {
        self.sessions.iter().find_map(|s| s.streams.get(id.checked_sub(s.first)?))
    }

    /// How many requests there are.
    pub fn count(&self) -> usize {
        self.sessions.iter().map(|s| s.streams.len()).sum()
    }
}

/// A window below which payload goes out by the drop: who lets much of it out like that is sent away (docs/http2.md).
const DRIBBLE: u32 = 512;
/// Octets of a body that a window below it lets out without that: all bodies of a plan together need fewer than 1,000 increments.
const DRIBBLED_MAX: usize = 1_000;

/// Small windows are what flow control is about.
fn window(random: &mut Random) -> u32 {
    *random.pick(&[100, 1_000, 16_384, 65_535, 65_535, 1 << 20])
}

impl StreamsSession {
    fn draw(random: &mut Random, trouble: &Trouble, first: usize, framed: bool) -> StreamsSession {
        let most = if framed { 12 } else { 4 };
        let how = *random.pick(&[How::Close, How::Reset]);
        let leaves = random.chance(trouble.clients_leave);
        StreamsSession {
            start_ms: random.below(1_000),
            first,
            streams: (0..random.within(1, most)).map(|_| StreamPlan::draw(random, trouble)).collect(),
            window: window(random),
            piece: if random.chance(60) { 1 << 16 } else { random.size().max(50) },
            pause_ms: if random.chance(trouble.slow) { random.within(1, 100) } else { 0 },
            leave: leaves.then(|| (random.size() as u64, how)),
        }
    }
}

impl StreamPlan {
    fn draw(random: &mut Random, trouble: &Trouble) -> StreamPlan {
        let up = if random.chance(50) { 0 } else { random.size() };
        let down = random.size();
        // What concerns one stream alone is drawn as often as what all of its connection suffer from, which hides it.
        let breaks = [
            Break::Close,
            Break::Reset,
            Break::Stall,
            Break::ResetStream,
            Break::ResetStream,
            Break::Refuse,
            Break::Goaway,
        ];
        let gives_up = random.chance(trouble.clients_leave / 2);
        let fails = random.chance(trouble.server_faults / 2);
        StreamPlan {
            gap_ms: if random.chance(60) { 0 } else { random.below(200) },
            up,
            down,
            sized: random.chance(60),
            early: random.chance(if trouble.calm { 0 } else { 15 }),
            gives_up: gives_up.then(|| random.below(down as u64 + 1) as usize),
            fault: fails.then(|| {
                let at = if random.chance(50) { 0 } else { random.below(down as u64 + 1) as usize };
                (at, *random.pick(&breaks))
            }),
        }
    }
}
