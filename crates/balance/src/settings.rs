//! What the configuration says of a backend and its servers.

use crate::algorithm::Algorithm;
use crate::hash::NodeKey;

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

/// The weight in effect, in 16ths, `elapsed_ms` after a server with `weight` came up, when its slow start lasts
/// `slowstart_ms` (manual section 5.2): it grows linearly and is never 0.
pub fn slowstart_weight(weight: u32, elapsed_ms: u64, slowstart_ms: u64) -> u32 {
    let full = u64::from(weight) * 16;
    if slowstart_ms == 0 || elapsed_ms >= slowstart_ms {
        return full as u32;
    }
    (full * elapsed_ms / slowstart_ms).clamp(1.min(full), full) as u32
}
