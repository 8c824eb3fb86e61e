//! A small world for tests of expressions: fixed names and figures, no system calls.

use crate::context::{ProxyFigures, ProxyTimeouts, ServerFigures, TcpInfo, World};
use crate::env::Names;
use crate::facts::{ListenerId, ProxyId, ServerId};
use crate::vars::{Scope, VarSet};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::RwLock;

/// Two proxies, `fe` (0) and `be` (1), and two servers of `be`, `s1` (up) and `s2` (down).
#[derive(Debug)]
pub struct FakeWorld {
    /// `proc` variables.
    pub vars: RwLock<VarSet>,
    /// Files that patterns are read from.
    pub files: HashMap<String, Vec<u8>>,
}

impl Default for FakeWorld {
    fn default() -> FakeWorld {
        FakeWorld { vars: RwLock::new(VarSet::new(Scope::Proc)), files: HashMap::new() }
    }
}

const BE: ProxyId = ProxyId(1);

impl World for FakeWorld {
    fn proxy_name(&self, id: ProxyId) -> &str {
        if id == BE { "be" } else { "fe" }
    }
    fn proxy_number(&self, id: ProxyId) -> u32 {
        id.0 + 2
    }
    fn default_backend_name(&self, _: ProxyId) -> Option<&str> {
        Some("be")
    }
    fn proxy_figures(&self, id: ProxyId) -> ProxyFigures {
        ProxyFigures {
            conn: 10 + id.0,
            queue: 4,
            total_queue: 6,
            servers_up: 1,
            sess_rate: 3,
            req_rate: 5,
            conn_free: 90,
            conn_slots: 190,
        }
    }
    fn proxy_timeouts(&self, _: ProxyId) -> ProxyTimeouts {
        ProxyTimeouts { client: 1000, connect: 2000, queue: 3000, server: 4000, tarpit: 5000, tunnel: 6000 }
    }
    fn proxy_retries(&self, _: ProxyId) -> u32 {
        3
    }
    fn frontend_by_name(&self, name: &[u8]) -> Option<ProxyId> {
        (name == b"fe").then_some(ProxyId(0))
    }
    fn backend_by_name(&self, name: &[u8]) -> Option<ProxyId> {
        (name == b"be").then_some(BE)
    }
    fn server_by_name(&self, backend: ProxyId, name: &[u8]) -> Option<ServerId> {
        let index = match name {
            b"s1" => 0,
            b"s2" => 1,
            _ => return None,
        };
        (backend == BE).then_some(ServerId { proxy: backend, index })
    }
    fn server_name(&self, id: ServerId) -> &str {
        if id.index == 0 { "s1" } else { "s2" }
    }
    fn server_number(&self, id: ServerId) -> u32 {
        id.index + 1
    }
    fn server_figures(&self, id: ServerId) -> ServerFigures {
        ServerFigures {
            conn: 7,
            maxconn: 100,
            queue: 2,
            sess_rate: 1,
            up: id.index == 0,
            initial_weight: 1,
            user_weight: 50,
            weight: 100,
        }
    }
    fn listener_name(&self, _: ListenerId) -> Option<&str> {
        Some("sock-1")
    }
    fn listener_number(&self, _: ListenerId) -> u32 {
        1
    }
    fn listener_is_tls(&self, _: ListenerId) -> bool {
        false
    }
    fn listener_connections(&self, _: ListenerId) -> u32 {
        8
    }
    fn active_connections(&self) -> u32 {
        42
    }
    fn hostname(&self) -> &str {
        "host"
    }
    fn pid(&self) -> u32 {
        1234
    }
    fn thread(&self) -> u32 {
        0
    }
    fn uptime(&self) -> u64 {
        99
    }
    fn stopping(&self) -> bool {
        false
    }
    fn is_local(&self, addr: IpAddr) -> bool {
        addr.is_loopback()
    }
    fn tcp_info(&self, _: i32) -> Option<TcpInfo> {
        Some(TcpInfo { rtt_us: 1500, rttvar_us: 700, lost: 1, ..TcpInfo::default() })
    }
    fn random(&self) -> u64 {
        0x0123_4567_89ab_cdef
    }
    fn check_auth(&self, list: u32, user: &[u8], password: &[u8]) -> bool {
        list == 0 && user == b"joe" && password == b"secret"
    }
    fn user_in_group(&self, list: u32, user: &[u8], group: &[u8]) -> bool {
        list == 0 && user == b"joe" && group == b"admins"
    }
    fn process_vars(&self) -> &RwLock<VarSet> {
        &self.vars
    }
}

impl Names for FakeWorld {
    fn frontend(&self, name: &str) -> Option<ProxyId> {
        self.frontend_by_name(name.as_bytes())
    }
    fn backend(&self, name: &str) -> Option<ProxyId> {
        self.backend_by_name(name.as_bytes())
    }
    fn server(&self, backend: ProxyId, name: &str) -> Option<ServerId> {
        self.server_by_name(backend, name.as_bytes())
    }
    fn userlist(&self, name: &str) -> Option<u32> {
        (name == "users").then_some(0)
    }
    fn environment(&self, name: &str) -> Option<String> {
        (name == "SET").then(|| "value".to_string())
    }
    fn read_file(&self, path: &str) -> std::io::Result<Vec<u8>> {
        self.files.get(path).cloned().ok_or_else(|| std::io::ErrorKind::NotFound.into())
    }
}
