//! `resolvers` sections, and how servers use them.

use std::net::SocketAddr;
use std::sync::Arc;

use thalweg_dns::{Preference, Settings};

use super::{Server, Shared};

/// Whom to ask for names, and how.
#[derive(Clone, Debug)]
pub struct Resolvers {
    pub name: Arc<str>,
    pub name_servers: Vec<NameServer>,
    /// Times and sizes; which name servers are asked over streams follows from them.
    pub settings: Settings,
}

impl Resolvers {
    /// The settings, with what follows from the name servers.
    pub fn settings(&self) -> Settings {
        let streams = self.name_servers.iter().map(|server| server.stream.is_some()).collect();
        Settings { streams, ..self.settings.clone() }
    }
}

/// One `nameserver`.
#[derive(Clone, Debug)]
pub struct NameServer {
    pub name: Arc<str>,
    pub addr: SocketAddr,
    /// How it is connected to, if it is asked over streams only (`tcp@`, `mptcp@`).
    pub stream: Option<Shared<Server>>,
}

/// How a server's name is resolved while the program runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolution {
    /// Position of the section in [`Config::resolvers`](super::Config::resolvers).
    pub section: usize,
    /// What the server wants of addresses. The families are those of `resolve-prefer`; `dns-accept-family` limits them.
    pub preference: Preference,
}
