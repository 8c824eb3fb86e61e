//! What a server is called and where it is reached: as configured, until an operator says otherwise (management manual:
//! `set server`).
//!
//! A change is made under the lock of its backend and counted in the server's version. Traffic reads that number, which is
//! 0 for a server that is as configured; of others each thread keeps a copy of its own ([`Worker::changed`]), and takes
//! the lock once per change to renew it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use thalweg_balance::{NodeKey, ServerIndex};
use thalweg_config::dynamic_cookie_value;
use thalweg_config::model::{HashKey, PortMode, Proxy, ProxyId, Server, ServerAddr, ServerId};
use thalweg_shared::{Mutex, MutexGuard};

use super::Backend;
use crate::worker::Worker;

/// What of a server can change without the server becoming another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its name, by which commands and logs call it.
    pub name: Arc<str>,
    /// The name that its address comes from; of a server of a service, its host.
    pub fqdn: Option<Arc<str>>,
    /// That is not the one of its line.
    pub fqdn_changed: bool,
    /// Where traffic goes.
    pub addr: ServerAddr,
    /// Where the port comes from.
    pub port_mode: PortMode,
    /// Where checks go, if not there.
    pub check_addr: Option<SocketAddr>,
    /// The port of checks, if it is another one.
    pub check_port: Option<u16>,
    /// Where its agent is, if not at its own address.
    pub agent_addr: Option<IpAddr>,
    /// The port of its agent.
    pub agent_port: Option<u16>,
    /// What its agent wants to hear.
    pub agent_send: Option<Arc<[u8]>>,
    /// Value of the persistence cookie.
    pub cookie: Option<Arc<str>>,
}

impl Identity {
    /// As configured.
    pub fn of(server: &Server) -> Identity {
        let check = server.check.as_deref();
        let agent = server.rare().agent.as_deref();
        Identity {
            name: Arc::clone(&server.name),
            fqdn: server.rare().fqdn.clone().filter(|name| !name.starts_with('_')),
            fqdn_changed: false,
            addr: server.addr.clone(),
            port_mode: server.port_mode,
            check_addr: check.and_then(|check| check.addr),
            check_port: check.and_then(|check| check.port),
            agent_addr: agent.and_then(|agent| agent.addr),
            agent_port: agent.and_then(|agent| agent.port),
            agent_send: agent.and_then(|agent| agent.send.clone()),
            cookie: server.cookie.clone(),
        }
    }

    /// What places the server in a consistent hash.
    pub(super) fn node_key(&self, server: &Server) -> NodeKey {
        match (server.hash_key, &self.addr) {
            (HashKey::Id, _) => NodeKey::Id,
            (HashKey::Id32, _) => NodeKey::Id32,
            (HashKey::Guid, _) => match &server.rare().guid {
                Some(guid) => NodeKey::guid(guid.as_bytes()),
                None => NodeKey::Id,
            },
            (HashKey::Addr, ServerAddr::Tcp(addr)) => NodeKey::address(addr.ip(), None),
            (HashKey::AddrPort, ServerAddr::Tcp(addr)) => NodeKey::address(addr.ip(), Some(addr.port())),
            (HashKey::Addr | HashKey::AddrPort, _) => NodeKey::Id,
        }
    }
}

/// A server that is not as configured any more.
#[derive(Clone, Debug)]
pub struct Changed {
    /// What it is now.
    pub identity: Identity,
    /// How often its address changed: connections that were made before the last time lead elsewhere.
    pub moves: u32,
    version: u32,
}

/// The servers of one backend that are not as configured.
#[derive(Default)]
pub(super) struct Identities(Mutex<HashMap<ServerId, Arc<Changed>>>);

impl Identities {
    fn lock(&self) -> MutexGuard<'_, HashMap<ServerId, Arc<Changed>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One thread's copies, by flat number of the server.
#[derive(Default)]
pub struct Copies(RefCell<HashMap<usize, Rc<Changed>>>);

impl Copies {
    /// Nobody has that number any more.
    pub(crate) fn forget(&self, server: usize) {
        self.0.borrow_mut().remove(&server);
    }
}

impl Backend {
    pub(super) fn is_changed(&self, server: ServerId) -> bool {
        self.servers.at(server.0 as usize).version.load(Ordering::Acquire) != 0
    }

    /// What a server is called and where it is reached now. Takes a lock when that is not as configured: not for traffic.
    pub fn identity(&self, server: &Server) -> Identity {
        let changed = self.is_changed(server.id).then(|| self.identities.lock().get(&server.id).cloned());
        changed.flatten().map_or_else(|| Identity::of(server), |changed| changed.identity.clone())
    }

    /// Nobody has the number any more.
    pub(super) fn forget_identity(&self, server: ServerId) {
        self.identities.lock().remove(&server);
    }

    /// The server that has this name now. It takes a lock where servers were renamed. Those that came last are looked at first: they
    /// are asked for most.
    pub fn server_by_name<'p>(&self, proxy: &'p Proxy, name: &str) -> Option<&'p Server> {
        let mut servers = proxy.servers.iter().rev().map(|server| &**server);
        if self.identity_versions.load(Ordering::Acquire) == 0 {
            return servers.find(|server| &*server.name == name);
        }
        servers.find(|server| match self.is_changed(server.id) {
            false => &*server.name == name,
            true => &*self.identity(server).name == name,
        })
    }

    /// Changes what a server is called or where it is reached. `f` gets what it is now, and the names of the others of its
    /// backend; nobody else changes any of them meanwhile. Idle connections to a former address are closed.
    pub fn change_identity<R>(
        &self,
        proxy: &Proxy,
        server: &Server,
        f: impl FnOnce(&mut Identity, &dyn Fn(&str) -> bool) -> R,
    ) -> R {
        let mut all = self.identities.lock();
        let before = all.get(&server.id).cloned();
        let old = before.as_ref().map_or_else(|| Identity::of(server), |changed| changed.identity.clone());
        let mut new = old.clone();
        let is_taken = |name: &str| {
            proxy.servers.iter().filter(|other| other.id != server.id).any(|other| {
                let now = all.get(&other.id).map_or(&other.name, |changed| &changed.identity.name);
                &**now == name
            })
        };
        let result = f(&mut new, &is_taken);
        if server.cookie.is_none() || server.cookie_is_dynamic {
            new.cookie = self.dynamic_cookies().value(&new.addr);
        }
        if new == old {
            return result;
        }
        let moves = before.map_or(0, |changed| changed.moves);
        let is_moved = (&new.addr, new.port_mode) != (&old.addr, old.port_mode);
        let node_key = new.node_key(server);
        let is_placed_anew = node_key != old.node_key(server);
        // No two are alike, whatever server they are of: the number of a server may have been another one's.
        let version = self.identity_versions.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1);
        let moves = moves.wrapping_add(u32::from(is_moved));
        all.insert(server.id, Arc::new(Changed { identity: new, moves, version }));
        // Whoever sees the number finds what belongs to it.
        self.servers.at(server.id.0 as usize).version.store(version, Ordering::Release);
        drop(all);
        if is_placed_anew {
            self.balancer.set_node_key(ServerIndex(server.id.0), node_key);
        }
        if is_moved {
            self.drop_idle_connections(server.id);
        }
        result
    }
}

/// How the cookies of servers come to be that have none of their own (`cookie ... dynamic`, `dynamic-cookie-key`).
#[derive(Clone, Debug, Default)]
pub struct DynamicCookies {
    /// Whether there are any.
    pub enabled: bool,
    /// The secret.
    pub key: Option<Arc<str>>,
}

impl DynamicCookies {
    /// As configured.
    pub(super) fn of(proxy: &Proxy) -> DynamicCookies {
        let enabled = proxy.cookie.as_ref().is_some_and(|cookie| cookie.dynamic);
        DynamicCookies { enabled, key: proxy.dynamic_cookie_key.clone() }
    }

    fn value(&self, addr: &ServerAddr) -> Option<Arc<str>> {
        let key = self.key.as_ref().filter(|_| self.enabled)?;
        dynamic_cookie_value(key, addr).map(Arc::from)
    }
}

impl Backend {
    /// How dynamic cookies come to be now.
    pub fn dynamic_cookies(&self) -> DynamicCookies {
        self.dynamic_cookies.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes how dynamic cookies come to be, and so the cookies.
    pub fn change_dynamic_cookies(&self, proxy: &Proxy, f: impl FnOnce(&mut DynamicCookies)) {
        f(&mut self.dynamic_cookies.lock().unwrap_or_else(PoisonError::into_inner));
        for server in &proxy.servers {
            self.change_identity(proxy, server, |_, _| ());
        }
    }
}

impl Worker {
    /// Whether the cookie of a server has that value.
    #[inline]
    pub fn has_cookie(&self, proxy: ProxyId, server: &Server, value: &[u8]) -> bool {
        let is_it = |cookie: &Option<Arc<str>>| cookie.as_deref().is_some_and(|c| c.as_bytes() == value);
        match self.changed(proxy, server.id) {
            None => is_it(&server.cookie),
            Some(changed) => is_it(&changed.identity.cookie),
        }
    }

    /// What a server is called and where it is reached, unless that is as configured.
    #[inline]
    pub fn changed(&self, proxy: ProxyId, server: ServerId) -> Option<Rc<Changed>> {
        let version = self.backend(proxy).servers.at(server.0 as usize).version.load(Ordering::Acquire);
        if version == 0 { None } else { self.copy_of_changed(proxy, server, version) }
    }

    /// How often the address of a server changed, or its line.
    #[inline]
    pub fn moves(&self, proxy: ProxyId, server: &Server) -> u32 {
        self.changed(proxy, server.id).map_or(0, |changed| changed.moves) + server.revision
    }

    #[cold]
    fn copy_of_changed(&self, proxy: ProxyId, server: ServerId, version: u32) -> Option<Rc<Changed>> {
        let index = self.instance.server_index(proxy, server);
        let mut copies = self.copies.0.borrow_mut();
        if let Some(copy) = copies.get(&index).filter(|copy| copy.version == version) {
            return Some(Rc::clone(copy));
        }
        let changed = self.backend(proxy).identities.lock().get(&server).cloned()?;
        let copy = Rc::new(Changed::clone(&changed));
        copies.insert(index, Rc::clone(&copy));
        Some(copy)
    }

    /// Runs `f` with the name that a server has now.
    #[inline]
    pub fn with_name<R>(&self, proxy: ProxyId, server: &Server, f: impl FnOnce(&str) -> R) -> R {
        match self.changed(proxy, server.id) {
            None => f(&server.name),
            Some(changed) => f(&changed.identity.name),
        }
    }
}
