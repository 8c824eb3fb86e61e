//! What the compilation of an expression needs to know: where it stands, and which names exist.

use crate::facts::{ProxyId, ServerId, TableId};
use crate::pattern::Registry;
use crate::point::Points;
use std::sync::Arc;

/// The protocol of a proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// `mode tcp`.
    #[default]
    Tcp,
    /// `mode http`.
    Http,
    /// `mode log`.
    Log,
    /// `mode spop`.
    Spop,
}

/// The proxy (or other section) an expression is written in.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProxyScope<'e> {
    /// Its name; empty in `global`.
    pub name: &'e str,
    /// Its identifier, when it is a real proxy.
    pub id: Option<ProxyId>,
    /// True for `frontend` and `listen`.
    pub frontend: bool,
    /// True for `backend` and `listen`.
    pub backend: bool,
    /// True for a `defaults` section: names must be given in full.
    pub defaults: bool,
    /// Its protocol.
    pub mode: Mode,
}

/// Names that arguments refer to. The configuration registers the names of all proxies, servers and user lists
/// before it compiles expressions, so that references may point forward.
pub trait Names {
    /// A proxy with frontend capability.
    fn frontend(&self, name: &str) -> Option<ProxyId>;
    /// A proxy with backend capability.
    fn backend(&self, name: &str) -> Option<ProxyId>;
    /// A server of a backend.
    fn server(&self, backend: ProxyId, name: &str) -> Option<ServerId>;
    /// A stick table, and the kind of its keys.
    fn table(&self, name: &str) -> Option<(TableId, thalweg_stick::KeyType)> {
        let _ = name;
        None
    }
    /// A user list.
    fn userlist(&self, name: &str) -> Option<u32>;
    /// Whether there is a ring of this name.
    fn ring(&self, name: &str) -> bool;
    /// An environment variable, for `env()`.
    fn environment(&self, name: &str) -> Option<Vec<u8>> {
        std::env::var_os(name).map(std::os::unix::ffi::OsStringExt::into_vec)
    }
    /// Reads a file of patterns. A test gives its own.
    ///
    /// # Errors
    /// What the system said.
    fn read_file(&self, path: &str) -> std::io::Result<Vec<u8>> {
        std::fs::read(path)
    }
    /// Whether there is a certificate of this name, for converters of tokens; it is loaded then.
    fn certificate(&self, name: &str) -> bool {
        let _ = name;
        false
    }
    /// A file that an expression names has this public key, in DER: variables may name it, too, while traffic is served.
    fn keep_token_key(&self, path: &str, key: &Arc<[u8]>) {
        let _ = (path, key);
    }
    /// How tokens may be encrypted.
    fn token_algorithms(&self) -> crate::TokenAlgorithms {
        crate::TokenAlgorithms::default()
    }
    /// The addresses of a host, for `ip` patterns that are names.
    fn resolve(&self, host: &str) -> Vec<std::net::IpAddr> {
        let _ = host;
        Vec::new()
    }
}

/// No names at all: for expressions outside any configuration, and tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoNames;

impl Names for NoNames {
    fn frontend(&self, _: &str) -> Option<ProxyId> {
        None
    }
    fn backend(&self, _: &str) -> Option<ProxyId> {
        None
    }
    fn server(&self, _: ProxyId, _: &str) -> Option<ServerId> {
        None
    }
    fn userlist(&self, _: &str) -> Option<u32> {
        None
    }
    fn ring(&self, _: &str) -> bool {
        false
    }
}

/// Where an expression is compiled.
pub struct CompileEnv<'e> {
    /// The configuration file.
    pub file: &'e str,
    /// The line, from 1.
    pub line: u32,
    /// The section.
    pub proxy: ProxyScope<'e>,
    /// Where the expression will be evaluated.
    pub points: Points,
    /// Names that arguments refer to.
    pub names: &'e dyn Names,
    /// Pattern files and maps of the process.
    pub registry: &'e Registry,
    /// What the expression is part of, for messages: `http-request expression`, `ACL 'x'`...
    pub context: &'e str,
    /// Errors that do not stop the compilation, in order: names that do not exist. To be shown as
    /// `parsing [file:line]: text`, after the others.
    pub late: Vec<String>,
    /// The named ACLs defined so far in this section.
    pub acls: Option<&'e crate::acl::AclSet>,
    /// Warnings to show, in order.
    pub warnings: Vec<String>,
    /// True when a condition looks at bytes as they were received, which suits `mode tcp` only.
    pub raw_bytes: bool,
    /// The largest value (`tune.bufsize`).
    pub bufsize: usize,
    /// How many entries of stick tables a session and a stream may track at once (`tune.stick-counters`).
    pub stick_counters: usize,
}

impl<'e> CompileEnv<'e> {
    /// An environment at `file:line` of `proxy`, for expressions evaluated at `points`.
    pub fn new(
        file: &'e str,
        line: u32,
        proxy: ProxyScope<'e>,
        points: Points,
        names: &'e dyn Names,
        registry: &'e Registry,
    ) -> CompileEnv<'e> {
        CompileEnv {
            file,
            line,
            proxy,
            points,
            names,
            registry,
            context: "",
            late: Vec::new(),
            acls: None,
            warnings: Vec::new(),
            raw_bytes: false,
            bufsize: 16384,
            stick_counters: 3,
        }
    }
}
