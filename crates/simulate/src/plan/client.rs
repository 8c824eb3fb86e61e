//! A client: one connection, what it sends on it, how it reads, and when it leaves.

use super::{ProxyPlan, RequestPlan, Trouble};
use crate::random::Random;

/// See the module's documentation.
#[derive(Clone, Debug)]
pub struct ClientPlan {
    pub start_ms: u64,
    /// The frontend it connects to.
    pub front: usize,
    pub groups: Vec<Group>,
    pub write: Pace,
    pub read: Pace,
    pub leave: Option<Leave>,
    pub ending: Ending,
}

/// Requests that are sent one behind the other without waiting for answers.
#[derive(Clone, Debug)]
pub struct Group {
    pub gap_ms: u64,
    /// Numbers of requests.
    pub requests: Vec<usize>,
}

/// Most bytes at a time, and the pause after each time.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub most: usize,
    pub pause_ms: u64,
}

/// A client that does not stay to the end.
#[derive(Clone, Copy, Debug)]
pub struct Leave {
    pub when: When,
    pub how: How,
}

/// At what point a client leaves.
#[derive(Clone, Copy, Debug)]
pub enum When {
    /// So many bytes were sent.
    Sent(u64),
    /// So many bytes were received.
    Received(u64),
    /// So many milliseconds after the connection was made.
    At(u64),
}

/// How a client leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Close,
    Reset,
    /// It sends nothing more, and goes on reading.
    HalfClose,
}

/// What a client does once it has all answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Close,
    /// It waits until the proxy closes.
    Wait,
    HalfClose,
}

impl ClientPlan {
    /// A client with requests that are added to those there are.
    pub fn draw(
        random: &mut Random,
        trouble: &Trouble,
        proxy: &ProxyPlan,
        requests: &mut Vec<RequestPlan>,
    ) -> ClientPlan {
        let mut groups = Vec::new();
        for n in 0..random.within(1, 4) {
            let depth = if random.chance(20) { random.within(2, 4) } else { 1 };
            let mut group = Vec::new();
            for _ in 0..depth {
                group.push(requests.len());
                requests.push(RequestPlan::draw(random, trouble, proxy.backends.len(), &proxy.kinds));
            }
            let gap_ms = match random.below(4) {
                _ if n == 0 => 0,
                0 => 0,
                1 => random.below(10),
                2 => random.below(300),
                _ => random.below(if trouble.slow > 0 { 3_000 } else { 600 }),
            };
            groups.push(Group { gap_ms, requests: group });
        }
        let leaves = random.chance(trouble.clients_leave);
        ClientPlan {
            start_ms: if trouble.crowded { random.below(20) } else { random.below(1_500) },
            front: random.below(proxy.fronts.len() as u64) as usize,
            groups,
            write: pace(random, trouble),
            read: pace(random, trouble),
            leave: leaves.then(|| leave(random)),
            ending: *random.pick(&[Ending::Close, Ending::Wait, Ending::HalfClose]),
        }
    }
}

fn pace(random: &mut Random, trouble: &Trouble) -> Pace {
    if random.chance(trouble.slow) {
        return Pace { most: random.size().max(20), pause_ms: random.within(1, 150) };
    }
    let most = if random.chance(60) { 1 << 16 } else { random.size().max(10) };
    Pace { most, pause_ms: 0 }
}

fn leave(random: &mut Random) -> Leave {
    let how = *random.pick(&[How::Close, How::Reset, How::HalfClose]);
    let bytes = match random.below(4) {
        0 => random.within(1, 80),
        1 => random.within(80, 400),
        _ => random.size() as u64,
    };
    let when = match random.below(3) {
        0 => When::Sent(bytes),
        1 => When::Received(bytes),
        _ => When::At(random.below(2_000)),
    };
    Leave { when, how }
}
