//! What the configuration says of a backend and its servers.

use std::net::IpAddr;

use crate::algorithm::Algorithm;
use crate::hash::{KeyHash, avalanche};

/// How a hash designates a server (`hash-type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum HashMethod {
    /// A table with one slot per unit of weight.
    #[default]
    MapBased,
    /// A circle where each server has many points.
    Consistent,
}

/// `hash-preserve-affinity`: when a hashed request may leave the server its key designates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PreserveAffinity {
    #[default]
    Always,
    /// When that server has reached its maxconn.
    MaxConn,
    /// When that server's queue is full.
    MaxQueue,
}

/// From what the points of a server on the circle are computed (`hash-key`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKey {
    /// The numeric identifier.
    Id,
    /// All 32 bits of the identifier.
    Id32,
    /// A number derived from the server's guid or address.
    Seed(u32),
}

impl NodeKey {
    /// `hash-key guid`.
    pub fn guid(guid: &[u8]) -> NodeKey {
        NodeKey::Seed(xxhash_rust::xxh32::xxh32(guid, 0))
    }

    /// `hash-key addr`, or with a port `hash-key addr-port`.
    ///
    /// The four words of an IPv6 address are combined by exclusive or.
    pub fn address(address: IpAddr, port: Option<u16>) -> NodeKey {
        // The reference hashes addresses as they are in memory on little-endian machines.
        let number = KeyHash::default().address(address).swap_bytes();
        NodeKey::Seed(avalanche(number.wrapping_add(port.map_or(0, |port| avalanche(port.into())))))
    }
}

/// What the configuration says about one server.
#[derive(Clone, Copy, Debug)]
pub struct ServerSpec {
    /// The user-visible numeric identifier.
    pub uid: u32,
    /// 0 to 256.
    pub weight: u32,
    pub backup: bool,
    /// False for a server that starts disabled or down.
    pub up: bool,
    /// It is in another zone than this process.
    pub elsewhere: bool,
    pub node_key: NodeKey,
}

impl ServerSpec {
    /// An active server that is up.
    pub fn new(uid: u32, weight: u32) -> ServerSpec {
        ServerSpec { uid, weight, backup: false, up: true, elsewhere: false, node_key: NodeKey::Id }
    }
}

/// The settings of a backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    pub algorithm: Algorithm,
    /// `option allbackups`: use all backup servers at once rather than the first that works.
    pub all_backups: bool,
    /// `hash-balance-factor` in percent, above 100; 0 when not set.
    pub balance_factor: u32,
    pub preserve_affinity: PreserveAffinity,
    /// Requests stay in the own zone while this percentage of its weight is usable; absent where zones do not matter.
    pub zone_spill_over: Option<u32>,
}
