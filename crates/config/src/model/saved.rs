//! What a server was in a former process.

use std::net::IpAddr;
use std::sync::Arc;

use super::{ProxyId, ServerId};

/// What a server did (`srv_op_state` of `show servers state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SavedOperation {
    /// It was down.
    Stopped,
    /// It was up.
    Running,
    /// It served what it had.
    Stopping,
}

/// One row of a `server-state-file`, as far as it fits the server that it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedState {
    /// The backend.
    pub proxy: ProxyId,
    /// The server.
    pub server: ServerId,
    /// Where it was reached (`init-addr last`).
    pub address: Option<IpAddr>,
    /// What it did; `None` when it was out of service.
    pub operation: Option<SavedOperation>,
    /// An operator had it out of service.
    pub maintenance: bool,
    /// Its line said `disabled`, and an operator had it in service.
    pub enabled: bool,
    /// An operator let it finish what it had.
    pub drain: bool,
    /// Its weight, unless its line has another one than then.
    pub weight: Option<u32>,
    /// For how many seconds it had been up or down.
    pub since_s: u64,
    /// What its last check found out, by the number of `srv_check_status`.
    pub check_status: u8,
    /// An operator had stopped its checks.
    pub checks_disabled: bool,
    /// An operator had stopped the questions to its agent.
    pub agent_disabled: bool,
    /// The name that an operator gave it to be resolved.
    pub fqdn: Option<Arc<str>>,
    /// Its port.
    pub port: Option<u16>,
    /// The port of its checks, if another one.
    pub check_port: Option<u16>,
    /// The address of its checks, if another one.
    pub check_address: Option<IpAddr>,
    /// The port of its agent.
    pub agent_port: Option<u16>,
    /// The address of its agent, if another one.
    pub agent_address: Option<IpAddr>,
}
