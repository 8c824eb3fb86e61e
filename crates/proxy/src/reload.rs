//! Reload in place: another configuration takes the place of the one in force, and nothing that goes on is lost.
//!
//! 1. [`Reserved::new`] takes the configuration in force as the one to follow, and gives numbers to what a new one has besides.
//! 2. The new one is read and compared, on a thread that serves nobody.
//! 3. [`Next::of`] finds out what follows for live state: the servers that come, go and change.
//! 4. [`Next::put_in_force`] does that, still on that thread, and lets every thread know.
//!
//! Streams that are there go on with what they began with, and so do sessions whose listener is gone until they are idle.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use thalweg_config::model::{Config, Proxy, ProxyId, Server, ServerId, Shared};
use thalweg_config::{Comparison, Numbers};
use thalweg_live::Gone;
use thalweg_runtime::Handle;
use thalweg_shared::Mutex;

use crate::backend::{self, Backend, health};
use crate::change::{Number, forget_gone_by, locked, settle};
use crate::in_turn::each_in_turn;
use crate::instance::{Backends, Instance, Live, limit_variables};
use crate::worker::{self, Worker};
use crate::{ThreadSocket, crt_watch, frontend, ocsp, resolvers, tables};

/// Numbers for what a new configuration has and the one in force has not. Those that nobody uses in the end come back.
pub struct Reserved {
    base: Arc<Instance>,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    proxies: Vec<ProxyId>,
    servers: Vec<(ProxyId, ServerId)>,
    listeners: Vec<u32>,
    /// Where threads are to keep what is theirs of servers.
    places: Vec<Range<u32>>,
}

impl Reserved {
    /// To follow what is in force now; `None` when the process ends.
    pub fn new(live: &Live) -> Option<Reserved> {
        Some(Reserved { base: live.current()?, taken: Mutex::default() })
    }

    /// Places of threads for so many servers, one behind the other: the first.
    fn places(&self, count: usize) -> u32 {
        let places = self.base.live.changes.take_row_of_places(count);
        let first = places.start;
        locked(&self.taken).places.push(places);
        first
    }

    /// What is to be followed.
    pub fn base(&self) -> &Arc<Instance> {
        &self.base
    }
}

impl Numbers for Reserved {
    fn proxy(&self) -> ProxyId {
        let proxy = self.base.live.changes.take_proxy();
        locked(&self.taken).proxies.push(proxy);
        proxy
    }

    fn server(&self, backend: ProxyId) -> ServerId {
        // Who has had no servers so far has a backend all the same.
        let server = self.base.backends[backend.0 as usize].take_number();
        locked(&self.taken).servers.push((backend, server));
        server
    }

    fn listener(&self) -> u32 {
        let listener = self.base.live.changes.take_listener();
        locked(&self.taken).listeners.push(listener);
        listener
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let taken = std::mem::take(&mut *locked(&self.taken));
        self.base.live.changes.give_back(&taken.proxies, &taken.listeners, taken.places);
        for (proxy, server) in taken.servers {
            self.base.backends[proxy.0 as usize].give_number(server);
        }
    }
}

/// Somebody else changed what is in force meanwhile, or the process ends: it has to be read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overtaken;

/// A configuration that is to be put in force, with what follows for live state.
pub struct Next {
    reserved: Reserved,
    config: Config,
    follows: Follows,
}

/// What follows for live state.
#[derive(Default)]
struct Follows {
    /// By the number of the proxy.
    backends: Vec<(usize, Arc<Backend>)>,
    added: Vec<(ProxyId, Shared<Server>)>,
    /// As they were, and as they are.
    changed: Vec<(ProxyId, Shared<Server>, Shared<Server>)>,
    /// Servers that got another number for users, as one came or went before them.
    renumbered: Vec<(ProxyId, Shared<Server>)>,
    removed: Vec<(Arc<Backend>, Shared<Server>, ProxyId)>,
    /// Those of backends that are gone as a whole. Streams that are on their way there are balanced to them still.
    left: Vec<(ProxyId, Shared<Server>)>,
    /// Those backends.
    parting: Vec<Arc<Backend>>,
    gone: Vec<Gone<Number>>,
}

/// What cannot be changed in place besides what [`thalweg_config::compare`] finds.
pub fn obstacles(base: &Instance, config: &Config, found: &mut Comparison) {
    for proxy in config.proxies.iter().filter(|proxy| proxy.is_be()) {
        let known = base.config.find_proxy(proxy.id).filter(|before| before.is_be());
        let Some(backend) = known.and_then(|_| base.backends.get(proxy.id.0 as usize)) else { continue };
        if !backend.balancer.can_follow(backend::settings(proxy)) {
            found.obstacles.push(format!(
                "[{}:{}] : backend '{}' : 'hash-balance-factor' where there was none needs a restart.",
                proxy.file, proxy.line, proxy.name
            ));
        }
    }
}

impl Next {
    /// What follows for live state. Long lists are gone through here, where nobody waits.
    pub fn of(reserved: Reserved, mut config: Config) -> Next {
        let base = &reserved.base;
        let mut follows = Follows::default();
        for proxy in &mut config.proxies {
            match base.config.find_proxy(proxy.id) {
                None => follows.begin(&reserved, proxy),
                // One that was added at run time, and is kept.
                Some(before) if std::ptr::eq(before, &**proxy) => follows.keep(base, proxy),
                Some(before) => {
                    follows.keep(base, before);
                    follows.compare(base, before, proxy);
                }
            }
        }
        for before in base.config.proxies.iter().filter(|before| config.find_proxy(before.id).is_none()) {
            follows.end(base, before);
        }
        Next { reserved, config, follows }
    }

    /// Puts it in force. `sockets` are those that each thread accepts on besides what it has. To be called on a thread that is none
    /// of the runtime's.
    ///
    /// # Errors
    /// Nothing was changed.
    pub fn put_in_force(self, handle: &Handle, sockets: Vec<Vec<ThreadSocket>>) -> Result<u64, Overtaken> {
        let Next { reserved, config, follows } = self;
        let Follows { backends, added, changed, renumbered, removed, left, parting, gone } = follows;
        let base = Arc::clone(&reserved.base);
        let live = Arc::clone(&base.live);
        let _changing = locked(&live.changes.changing);
        forget_gone_by(&live, handle);
        if !live.current().is_some_and(|now| Arc::ptr_eq(&now, &base)) {
            return Err(Overtaken);
        }
        *locked(&reserved.taken) = Taken::default();
        process(&base, &config);
        frontends(&base, &config);
        live.trackers.replace(&config);
        if config.traces != base.config.traces {
            live.tracing.replace(config.traces.clone());
        }
        let backends = Backends::of(backends);
        let places = places(&live, &base, &backends, &added);
        let next = Arc::new(base.with_all(config, backends, gone));
        // From here on, a stream that still follows the one before finds what it may be given. Until all is done it is balanced as
        // before: ten thousand servers that come and go are one change, not as many.
        live.set_current(&next);
        let held: Vec<_> = next.backends.iter().map(|backend| backend.hold()).collect();
        for ((proxy, server), flat) in added.iter().zip(places) {
            // A backend that is new has its servers.
            if let Some(flat) = flat {
                let backend = &next.backends[proxy.0 as usize];
                backend.admit(next.config.proxy(*proxy), server, flat, next.generation);
            }
        }
        // Before anybody follows the next one, where they are not known; the new ones are there by now.
        for (backend, server, _) in &removed {
            backend.retire_server(server.id);
        }
        for (proxy, before, now) in &changed {
            let of = next.config.proxy(*proxy);
            next.backends[proxy.0 as usize].reconfigure_server(of, before, now);
        }
        for (proxy, server) in &renumbered {
            next.backends[proxy.0 as usize].renumber(next.config.proxy(*proxy), server);
        }
        for proxy in &next.config.proxies {
            if base.config.find_proxy(proxy.id).is_some_and(|before| !std::ptr::eq(before, &**proxy)) {
                let backend = &next.backends[proxy.id.0 as usize];
                backend.reconfigure(proxy);
                backend.arrange(proxy);
            }
        }
        drop(held);
        parting.iter().for_each(|backend| backend.part());
        let pools: Arc<[usize]> = removed
            .iter()
            .map(|(backend, server, _)| backend.flat(server.id))
            .chain(changed.iter().map(|(proxy, _, server)| next.server_index(*proxy, server.id)))
            .collect();
        let mut checks = checks_of(&next, added.iter().map(|(proxy, server)| (*proxy, server)), &changed);
        for (thread, sockets) in sockets.into_iter().enumerate() {
            let (pools, checks) = (Arc::clone(&pools), checks.get_mut(thread).map(std::mem::take));
            let next = Arc::clone(&next);
            handle.run_on(thread, move || follow(&next, sockets, &pools, checks.unwrap_or_default()));
        }
        let generation = next.generation;
        let watched = Arc::clone(&live);
        handle.run_on(0, move || settle(&watched));
        let left = left.into_iter().chain(removed.into_iter().map(|(_, server, proxy)| (proxy, server)));
        let removed: Vec<(ProxyId, Shared<Server>)> = left.collect();
        handle.run_on(0, move || tell_others(base, removed, added, changed));
        Ok(generation)
    }
}

impl Follows {
    /// A proxy is new, with all of its servers.
    fn begin(&mut self, reserved: &Reserved, proxy: &mut Proxy) {
        for server in &mut proxy.servers {
            server.revision = reserved.base.live.changes.next_revision();
        }
        let first = reserved.places(proxy.servers.len());
        let (places, since) = (&reserved.base.live.changes.places, reserved.base.generation + 1);
        let backend = Arc::new(Backend::new(proxy, first, places, since));
        self.backends.push((proxy.id.0 as usize, backend));
        self.added.extend(proxy.servers.iter().map(|server| (proxy.id, server.clone())));
    }

    fn keep(&mut self, base: &Instance, proxy: &Proxy) {
        let at = proxy.id.0 as usize;
        self.backends.extend(base.backends.get(at).map(|backend| (at, Arc::clone(backend))));
    }

    /// A proxy was there before.
    fn compare(&mut self, base: &Instance, before: &Proxy, proxy: &mut Proxy) {
        let (id, proxy_is_disabled) = (proxy.id, proxy.disabled);
        let known: HashMap<ServerId, &Shared<Server>> =
            before.servers.iter().map(|server| (server.id, server)).collect();
        for server in &mut proxy.servers {
            match known.get(&server.id) {
                Some(old) if server.is(old) => {}
                Some(old) => {
                    server.revision = old.revision;
                    if old.uid != server.uid {
                        self.renumbered.push((id, server.clone()));
                    }
                    if old.said != server.said || before.disabled != proxy_is_disabled {
                        server.revision = base.live.changes.next_revision();
                        self.changed.push((id, (*old).clone(), server.clone()));
                    }
                }
                None => {
                    server.revision = base.live.changes.next_revision();
                    self.added.push((id, server.clone()));
                }
            }
        }
        let stay: HashSet<ServerId> = proxy.servers.iter().map(|server| server.id).collect();
        if let Some(backend) = base.backends.get(id.0 as usize) {
            for server in before.servers.iter().filter(|server| !stay.contains(&server.id)) {
                self.removed.push((Arc::clone(backend), server.clone(), id));
                self.gone.push(Number::server(id, backend, server.id));
            }
        }
        self.gone.extend(lost_listeners(base, before, Some(proxy)));
    }

    /// A proxy is gone, with all that it had.
    fn end(&mut self, base: &Instance, before: &Proxy) {
        if let Some(backend) = base.backends.get(before.id.0 as usize) {
            let numbers = before.servers.iter().map(|server| Number::server(before.id, backend, server.id));
            self.gone.extend(numbers);
            self.left.extend(before.servers.iter().map(|server| (before.id, server.clone())));
            self.parting.push(Arc::clone(backend));
        }
        self.gone.extend(lost_listeners(base, before, None));
        self.gone.push(Number::proxy(&base.live, before.id));
    }
}

/// The numbers of listeners that a frontend has no more.
fn lost_listeners<'p>(
    base: &'p Instance,
    before: &'p Proxy,
    now: Option<&'p Proxy>,
) -> impl Iterator<Item = Gone<Number>> + 'p {
    let is_lost =
        move |number: u32| !now.is_some_and(|now| now.binds.iter().any(|bind| bind.number == number));
    let lost = before.binds.iter().map(|bind| bind.number).filter(move |number| is_lost(*number));
    lost.map(|number| Number::listener(&base.live, number, before.id))
}

/// What threads share of the process, whose limits follow their lines where those changed. What was set at run time stays otherwise.
fn process(base: &Instance, config: &Config) {
    let (live, before, now) = (&base.live, &base.config.global, &config.global);
    if before.maxconn != now.maxconn {
        live.process_gate.set_limit(u32::try_from(now.maxconn).unwrap_or(u32::MAX));
    }
    if before.maxsslconn != now.maxsslconn {
        live.tls_gate.set_limit(now.maxsslconn);
    }
    for (gate, before, now) in [
        (&live.connection_rate, before.maxconnrate, now.maxconnrate),
        (&live.session_rate, before.maxsessrate, now.maxsessrate),
        (&live.tls_rate, before.maxsslrate, now.maxsslrate),
    ] {
        if before != now {
            gate.set_limit(now);
        }
    }
    limit_variables(&now.tune);
}

/// What threads share of frontends, whose limits follow their lines where those changed.
fn frontends(base: &Instance, config: &Config) {
    let live = &base.live;
    for proxy in &config.proxies {
        let at = proxy.id.0 as usize;
        let before = base.config.find_proxy(proxy.id);
        if before.is_none_or(|before| before.maxconn != proxy.maxconn) {
            live.frontend_gates[at].set_limit(proxy.maxconn);
        }
        if before.is_none_or(|before| before.fe_sps_limit != proxy.fe_sps_limit) {
            live.frontend_rates[at].set_limit(proxy.fe_sps_limit);
        }
        if before.is_none_or(|before| before.unpublished != proxy.unpublished) {
            live.unpublished[at].store(proxy.unpublished, Ordering::SeqCst);
        }
        if before.is_none() {
            live.frontend_paused[at].store(false, Ordering::SeqCst);
            live.frontend_shut[at].store(false, Ordering::SeqCst);
            live.proxy_since[at].store(base.generation + 1, Ordering::Relaxed);
        }
        for bind in &proxy.binds {
            let known = before.and_then(|before| before.binds.iter().find(|old| old.number == bind.number));
            match known {
                Some(old) => live.listeners[bind.number as usize].reconfigure(old, bind),
                None => live.admit_listener(proxy.id, bind, base.generation + 1),
            }
        }
    }
}

/// Where threads are to keep what is theirs of servers that join backends that were there before, which is known to those from here on.
fn places(
    live: &Live,
    base: &Instance,
    backends: &Backends,
    added: &[(ProxyId, Shared<Server>)],
) -> Vec<Option<u32>> {
    let place = |(proxy, server): &(ProxyId, Shared<Server>)| {
        let backend = base.config.find_proxy(*proxy).and(backends.get(proxy.0 as usize))?;
        let flat = backend.place_of(server.id, || live.changes.take_place());
        backend.set_place(server.id, flat);
        Some(flat)
    };
    added.iter().map(place).collect()
}

/// A server to be checked, by the thread that does, and after how many milliseconds.
type Check = (ProxyId, Shared<Server>, u64);

/// The checks of servers that are new or changed, by thread, spread over time as at the start.
fn checks_of<'s>(
    next: &Instance,
    added: impl Iterator<Item = (ProxyId, &'s Shared<Server>)>,
    changed: &'s [(ProxyId, Shared<Server>, Shared<Server>)],
) -> Vec<Vec<Check>> {
    let threads = next.threads.len();
    let mut checks: Vec<Vec<Check>> = Vec::new();
    checks.resize_with(threads, Vec::new);
    let changed = changed.iter().map(|(proxy, _, server)| (*proxy, server));
    let all: Vec<_> =
        added.chain(changed).filter(|(_, server)| health::smallest_interval(server).is_some()).collect();
    let smallest = all.iter().filter_map(|(_, server)| health::smallest_interval(server)).min().unwrap_or(0);
    let spread = next.config.global.max_spread_checks_ms.map_or(smallest, |max| max.min(smallest));
    for (at, (proxy, server)) in all.iter().enumerate() {
        let delay = spread * at as u64 / all.len() as u64;
        checks[at % threads].push((*proxy, (*server).clone(), delay));
    }
    checks
}

/// What each thread does.
fn follow(next: &Arc<Instance>, sockets: Vec<ThreadSocket>, pools: &[usize], checks: Vec<Check>) {
    worker::follow_current();
    let Some(worker) = worker::current() else { return };
    for socket in sockets {
        // Yet another reload may have come meanwhile, and the listener be gone: who waits there is served all the same.
        if let Some(worker) = worker.own().pin_by(socket.listener, next) {
            frontend::listener::start(&worker, socket.listener, socket.port);
        }
    }
    worker.clear_pools(pools);
    if crate::plant::bug("counters-forgotten") {
        pools.iter().for_each(|flat| worker.forget_server(*flat));
    }
    each_in_turn(
        checks.into_iter(),
        |(proxy, server, delay_ms)| {
            if let Some(worker) = worker::current() {
                health::start_server(&worker, proxy, &server, delay_ms);
            }
        },
        || {},
    );
}

/// What one thread does for all: name servers, servers that have the state of others, slow starts.
fn tell_others(
    base: Arc<Instance>,
    removed: Vec<(ProxyId, Shared<Server>)>,
    added: Vec<(ProxyId, Shared<Server>)>,
    changed: Vec<(ProxyId, Shared<Server>, Shared<Server>)>,
) {
    let Some(worker) = worker::current() else { return };
    tables::start_expiry(&worker);
    ocsp::start(&worker);
    crt_watch::start(&worker);
    drop(worker);
    let before = changed.iter().map(|(proxy, before, _)| (*proxy, before.clone()));
    let gone: Vec<_> = removed.into_iter().chain(before).collect();
    let now = changed.into_iter().map(|(proxy, _, now)| (proxy, now));
    let begun: Vec<_> = now.chain(added).collect();
    let begin_all = || {
        each_in_turn(
            begun.into_iter(),
            |(proxy, server)| {
                if let Some(worker) = worker::current() {
                    begin(&worker, proxy, &server);
                }
            },
            || {},
        );
    };
    each_in_turn(
        gone.into_iter(),
        move |(proxy, server)| resolvers::forget(&base, proxy, &server),
        begin_all,
    );
}

fn begin(worker: &Worker, proxy: ProxyId, server: &Server) {
    // Yet another change may have come meanwhile.
    if worker.instance.config.find_proxy(proxy).and_then(|of| of.server(server.id)).is_none() {
        return;
    }
    resolvers::follow(&worker.instance, proxy, server);
    let backend = worker.backend(proxy);
    backend.follow_if_tracking(server);
    backend.watch_warming(worker, server.id);
}
