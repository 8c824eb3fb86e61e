//! Connections through a proxy in TCP mode: what each side sends, and who ends what.

use std::fmt::Write;
use std::net::SocketAddr;

use super::{Act, How, Trouble};
use crate::random::Random;

/// The part of a scenario that is in TCP mode.
#[derive(Clone, Debug)]
pub struct TcpPlan {
    pub front: SocketAddr,
    pub servers: Vec<SocketAddr>,
    pub sessions: Vec<TcpSession>,
}

/// A connection.
#[derive(Clone, Copy, Debug)]
pub struct TcpSession {
    pub start_ms: u64,
    /// Bytes from the client to the server, and from the server to the client.
    pub up: usize,
    pub down: usize,
    /// The client ends its direction when it has sent everything, and the server answers only then; otherwise the client
    /// closes when it has everything.
    pub half_closes: bool,
    pub piece: usize,
    pub pause_ms: u64,
    /// The client leaves in this way once it has sent so many bytes.
    pub leave: Option<(usize, How)>,
    /// The server does this once it has sent so many bytes.
    pub fault: Option<(usize, Act)>,
}

/// Where the TCP part is in the configuration.
pub const TCP_FRONT: &str = "ft0";

const FORMAT: &str = "%ci:%cp %f %b %s -1 %U %[req.bytes_out] %B %[res.bytes_out] %ts-- %rc %Tw/%Tc/%Tt -";

impl TcpPlan {
    /// Connections, and the sections for them, which are added to a configuration.
    pub fn draw(random: &mut Random, trouble: &Trouble, text: &mut String) -> TcpPlan {
        let front = SocketAddr::from(([10, 0, 2, 1], 80));
        let servers: Vec<_> =
            (0..random.within(1, 2) as u8).map(|n| SocketAddr::from(([10, 0, 3, n + 1], 80))).collect();
        _ = write!(text, "frontend {TCP_FRONT}\n mode tcp\n bind {front}\n log-format \"{FORMAT}\"\n");
        if random.chance(30) {
            text.push_str(
                " tcp-request inspect-delay 100ms\n tcp-request content accept if { req.len gt 0 }\n",
            );
        }
        _ = write!(text, " default_backend bt0\nbackend bt0\n mode tcp\n retries {}\n", random.below(3));
        _ = writeln!(text, " balance {}", random.pick(&["roundrobin", "leastconn", "source", "random"]));
        if random.chance(30) {
            text.push_str(" option redispatch 1\n");
        }
        let limit = if trouble.crowded && random.chance(50) { " maxconn 1" } else { "" };
        for (n, server) in servers.iter().enumerate() {
            _ = writeln!(text, " server t{n} {server}{limit}");
        }
        let sessions = (0..random.within(1, 4)).map(|_| TcpSession::draw(random, trouble)).collect();
        TcpPlan { front, servers, sessions }
    }
}

impl TcpSession {
    fn draw(random: &mut Random, trouble: &Trouble) -> TcpSession {
        let (up, down) = (random.size(), random.size());
        let how = *random.pick(&[How::Close, How::Reset]);
        let act = *random.pick(&[Act::Close, Act::Reset, Act::Stall]);
        let leaves = random.chance(trouble.clients_leave);
        let fails = random.chance(trouble.server_faults);
        TcpSession {
            start_ms: random.below(1_000),
            up,
            down,
            half_closes: random.chance(50),
            piece: if random.chance(50) { 1 << 20 } else { random.size().max(10) },
            pause_ms: if random.chance(trouble.slow) { random.within(1, 150) } else { 0 },
            leave: leaves.then(|| (random.below(up as u64 + 1) as usize, how)),
            fault: fails.then(|| (random.below(down as u64 + 1) as usize, act)),
        }
    }
}
