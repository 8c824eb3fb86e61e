//! A server: when it is there, and how it treats its connections.

use thalweg_runtime::net::SockAddr;

use super::Trouble;
use crate::random::Random;

/// See the module's documentation.
#[derive(Clone, Debug)]
pub struct ServerPlan {
    pub address: SockAddr,
    /// What becomes of it, in order; it is up before.
    pub lives: Vec<(u64, Life)>,
    /// It closes a connection on which nothing came for so long.
    pub idle_ms: Option<u64>,
    /// It says so before, as if somebody had asked.
    pub says_goodbye: bool,
}

/// A time in a server's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    Up,
    /// Nobody listens; this becomes of the connections there are.
    Down(Drop),
    /// Connections are made, and nothing is ever answered.
    Deaf,
    /// It serves, and fails its health checks.
    Sick,
}

/// What becomes of the connections of a server that goes down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drop {
    Keep,
    Close,
    Reset,
}

impl ServerPlan {
    /// A server at an address.
    pub fn draw(random: &mut Random, trouble: &Trouble, address: SockAddr) -> ServerPlan {
        let mut lives = Vec::new();
        if trouble.servers_flap && random.chance(70) {
            let mut at = if random.chance(30) { 0 } else { random.below(2_000) };
            for _ in 0..random.within(1, 4) {
                let life = match random.below(8) {
                    0..=1 => Life::Down(Drop::Reset),
                    2 => Life::Down(Drop::Close),
                    3 => Life::Down(Drop::Keep),
                    4 => Life::Deaf,
                    5 => Life::Sick,
                    _ => Life::Up,
                };
                lives.push((at, life));
                at += random.within(10, 4_000);
            }
            lives.push((at, Life::Up));
        }
        let impatient = if trouble.server_faults > 0 { 40 } else { 10 };
        let idle_ms = (!trouble.calm && random.chance(impatient)).then(|| random.within(1, 700));
        ServerPlan { address, lives, idle_ms, says_goodbye: random.chance(40) }
    }
}
