//! Servers and backends that come and go together: all of them in the next snapshot, or none.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use thalweg_config::model::{Config, Proxy, ProxyId, Server, ServerId, Shared, SharedLive};
use thalweg_runtime::run_on;

use crate::backend::{Backend, health, track};
use crate::change::{Number, Refused, forget_gone, is_backend_removable_once, is_removable_once, locked};
use crate::instance::{Backends, Instance, Live};
use crate::operator::Hand;
use crate::worker::{self, Worker};

/// See the module's documentation. What is new begins out of service, and rules may not choose it.
#[derive(Default)]
pub struct ChangeSet {
    pub new_backends: Vec<Proxy>,
    /// With the names of their backends, which may be new ones.
    pub new_servers: Vec<(Arc<str>, Server)>,
    /// What lines with TLS share, if one of those servers has the first.
    pub tls: Option<SharedLive>,
    pub old_servers: Vec<OldServer>,
    pub old_backends: Vec<OldBackend>,
    /// The snapshot that this was made for; of any if none is given.
    pub generation: Option<u64>,
}

/// A server that goes.
pub struct OldServer {
    pub proxy: ProxyId,
    pub server: ServerId,
    /// It is taken out of service first.
    pub maintain: bool,
}

/// A backend that goes.
pub struct OldBackend {
    pub proxy: ProxyId,
    /// Rules may not choose it from now on.
    pub unpublish: bool,
}

/// Why nothing was changed.
#[derive(Debug, PartialEq, Eq)]
pub enum Failed {
    /// Somebody else changed something since.
    Overtaken,
    /// This one stands in the way.
    Refused(String, Refused),
}

/// Makes all changes at once.
///
/// # Errors
/// Nothing was changed.
pub fn apply(worker: &Worker, set: ChangeSet) -> Result<(), Failed> {
    let live = &worker.live;
    let _changing = locked(&live.changes.changing);
    forget_gone(live);
    let now = live.current().ok_or_else(|| Failed::Refused(String::new(), Refused::Ending))?;
    if set.generation.is_some_and(|generation| generation != now.generation) {
        return Err(Failed::Overtaken);
    }
    set.check(&now)?;
    if !set.is_empty() {
        set.put_in_force(worker, &now);
    }
    Ok(())
}

impl ChangeSet {
    /// Whether all of it can be done now: from here on nothing fails.
    fn check(&self, now: &Instance) -> Result<(), Failed> {
        let refused = |name: String| move |why| Failed::Refused(name, why);
        for proxy in &self.new_backends {
            if now.config.proxies.iter().any(|other| other.name == proxy.name) {
                return Err(refused(proxy.name.to_string())(Refused::NameTaken));
            }
        }
        for (backend, server) in &self.new_servers {
            let fail = refused(format!("{backend}/{}", server.name));
            if self.new_backends.iter().any(|proxy| proxy.name == *backend) {
                continue;
            }
            let found = now.config.proxies.iter().find(|proxy| proxy.is_be() && proxy.name == *backend);
            let Some(proxy) = found else { return Err(fail(Refused::Gone)) };
            let taken = now.backends[proxy.id.0 as usize].server_by_name(proxy, &server.name);
            if taken.is_some_and(|other| !self.takes_away(proxy.id, other.id)) {
                return Err(fail(Refused::NameTaken));
            }
        }
        for old in &self.old_servers {
            let proxy = now.config.find_proxy(old.proxy);
            let Some((proxy, server)) = proxy.and_then(|proxy| Some((proxy, proxy.server(old.server)?)))
            else {
                return Err(refused(String::new())(Refused::Gone));
            };
            let fail = refused(format!("{}/{}", proxy.name, server.name));
            let is_tracked =
                |(_, new): &(Arc<str>, Server)| new.rare().track == Some((old.proxy, old.server));
            if self.new_servers.iter().any(is_tracked) {
                return Err(fail(Refused::Referenced));
            }
            is_removable_once(now, proxy, server, old.maintain).map_err(fail)?;
        }
        for old in &self.old_backends {
            let Some(proxy) = now.config.find_proxy(old.proxy) else {
                return Err(refused(String::new())(Refused::Gone));
            };
            let fail = refused(proxy.name.to_string());
            let stays = |server: &Shared<Server>| !self.takes_away(proxy.id, server.id);
            let gets_one = self.new_servers.iter().any(|(backend, _)| *backend == proxy.name);
            let has_servers = gets_one || proxy.servers.iter().any(stays);
            is_backend_removable_once(now, proxy, has_servers, old.unpublish).map_err(fail)?;
        }
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.new_backends.is_empty()
            && self.new_servers.is_empty()
            && self.old_servers.is_empty()
            && self.old_backends.is_empty()
    }

    fn takes_away(&self, proxy: ProxyId, server: ServerId) -> bool {
        self.old_servers.iter().any(|old| (old.proxy, old.server) == (proxy, server))
    }

    fn put_in_force(self, worker: &Worker, now: &Arc<Instance>) {
        let live = &worker.live;
        let (mut config, mut backends) = (now.config.clone(), now.backends.clone());
        // Many are one change for who chooses among them.
        let is_one = self.new_servers.len() + self.old_servers.len() <= 1;
        let changed = now.backends.iter().filter(|_| !is_one);
        let held: Vec<_> = changed.map(|backend| backend.hold()).collect();
        let (mut gone, since) = (Vec::new(), now.generation + 1);
        for old in self.old_servers.iter().filter(|old| old.maintain) {
            Hand { worker, proxy: old.proxy, server: old.server }.maintain();
        }
        let changes_backends = !self.new_backends.is_empty() || !self.old_backends.is_empty();
        for proxy in self.new_backends {
            backends = introduce(live, &mut config, &backends, proxy, since);
        }
        config.reindex();
        let mut free = FreeUids { coming: self.new_servers.len(), known: HashMap::new() };
        let mut added = Vec::new();
        for (backend, server) in self.new_servers {
            added.extend(admit((live, since), &mut config, &backends, &mut free, &backend, server));
        }
        free.known.keys().for_each(|at| config.proxies[*at].reindex());
        let mut lost: HashMap<ProxyId, Vec<ServerId>> = HashMap::new();
        for old in &self.old_servers {
            if let Some(backend) = now.backends.get(old.proxy.0 as usize) {
                gone.push(Number::server(old.proxy, backend, old.server));
            }
            lost.entry(old.proxy).or_default().push(old.server);
            let_go(now, old);
        }
        for proxy in &mut config.proxies {
            if let Some(lost) = lost.get_mut(&proxy.id) {
                lost.sort_unstable();
                proxy.servers.retain(|other| lost.binary_search(&other.id).is_err());
                proxy.reindex();
            }
        }
        for old in &self.old_backends {
            config.proxies.retain(|other| other.id != old.proxy);
            backends = backends.with(old.proxy.0 as usize, None);
            gone.push(Number::proxy(live, old.proxy));
        }
        if let Some(tls) = self.tls {
            config.tls = Some(tls);
        }
        let next = if changes_backends {
            config.reindex();
            now.with_backends(config, backends, gone)
        } else {
            now.like(config, gone)
        };
        live.put_in_force(Arc::new(next));
        for old in &self.old_servers {
            let backend = &now.backends[old.proxy.0 as usize];
            backend.dismiss(old.server);
            backend.drop_idle_connections(old.server);
        }
        drop(held);
        for old in &self.old_backends {
            now.backends[old.proxy.0 as usize].part();
        }
        added.into_iter().for_each(|(proxy, server, flat)| begin(worker, proxy, server, flat));
    }
}

/// Gives a new backend its number, from snapshot `since` on.
fn introduce(
    live: &Arc<Live>,
    config: &mut Config,
    backends: &Backends,
    mut proxy: Proxy,
    since: u64,
) -> Backends {
    proxy.id = live.changes.take_proxy();
    let number = proxy.id.0 as usize;
    live.unpublished[number].store(proxy.unpublished, Ordering::SeqCst);
    live.proxy_since[number].store(since, Ordering::Relaxed);
    let backend = Arc::new(Backend::new(&proxy, 0, &live.changes.places, since));
    config.proxies.push(proxy.into());
    backends.with(number, Some(backend))
}

/// Finds numbers for users that no server of a backend has.
struct FreeUids {
    /// How many servers come, at most all to the same backend.
    coming: usize,
    /// By position of the backend: which numbers are used, as far as free ones have to be looked for, and from where on.
    known: HashMap<usize, (Vec<bool>, usize)>,
}

impl FreeUids {
    /// The lowest number that no server of a backend has, unless it brings one.
    fn take(&mut self, at: usize, proxy: &Proxy, given: u32) -> u32 {
        // Of so many numbers not all are used, and 0 is none.
        let room = proxy.servers.len() + self.coming + 2;
        let (used, next) = self.known.entry(at).or_insert_with(|| {
            let mut used = vec![false; room];
            proxy.servers.iter().for_each(|server| mark(&mut used, server.uid));
            (used, 1)
        });
        if given != 0 {
            mark(used, given);
            return given;
        }
        *next += used.iter().skip(*next).take_while(|used| **used).count();
        let uid = u32::try_from(*next).unwrap_or(u32::MAX);
        mark(used, uid);
        uid
    }
}

fn mark(used: &mut [bool], uid: u32) {
    if let Some(used) = used.get_mut(uid as usize) {
        *used = true;
    }
}

/// Gives a new server its numbers from snapshot `since` on, and a place in its backend, which is to be indexed anew afterwards.
fn admit(
    (live, since): (&Arc<Live>, u64),
    config: &mut Config,
    backends: &Backends,
    free: &mut FreeUids,
    backend: &str,
    mut server: Server,
) -> Option<(ProxyId, Shared<Server>, u32)> {
    let at = config.proxies.iter().position(|proxy| proxy.is_be() && &*proxy.name == backend)?;
    let proxy = &mut config.proxies[at];
    let backend = backends.get(proxy.id.0 as usize)?;
    server.uid = free.take(at, proxy, server.uid);
    let id = backend.take_number();
    let flat = backend.place_of(id, || live.changes.take_place());
    (server.id, server.revision) = (id, live.changes.next_revision());
    backend.admit(proxy, &server, flat, since);
    let server = Shared::from(server);
    proxy.servers.push(server.clone());
    Some((proxy.id, server, flat))
}

/// What others do for a server ends.
fn let_go(now: &Instance, old: &OldServer) {
    let Some(line) = now.config.find_proxy(old.proxy).and_then(|proxy| proxy.server(old.server)) else {
        return;
    };
    crate::resolvers::forget(now, old.proxy, line);
    if let Some(tracked) = line.rare().track {
        now.live.trackers.forget(tracked, (old.proxy, old.server));
    }
}

/// What others do for a server begins.
fn begin(worker: &Worker, proxy: ProxyId, server: Shared<Server>, flat: u32) {
    if let Some(tracked) = server.rare().track {
        track::begin(worker, tracked, (proxy, server.id));
    }
    run_on(flat as usize % worker.live.threads.len(), move || {
        if let Some(worker) = worker::current() {
            health::start_server(&worker, proxy, &server, 0);
        }
    });
}
