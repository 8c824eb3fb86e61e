//! Changing what is in force: the next snapshot from the one before, and what follows for the live state.
//!
//! One change is made at a time. It makes the next [`Instance`], which shares with the one before what stays, makes it the
//! current one and lets every thread know. Streams that are there go on with what they began with.
//!
//! **Numbers.** A server that is added gets a number in its backend, and a place in what threads keep. Both are held by its line
//! ([`thalweg_config::model::Server::keep`]), and so by each snapshot that has it: when the last one is gone, no stream on any
//! thread can name the server any more. The next change then asks every thread to forget what it keeps at that place, and
//! when all have, the numbers are free.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};

use thalweg_config::model::{Keep, Proxy, ProxyId, Server, ServerId, Shared, SharedLive};
use thalweg_runtime::run_on;
use thalweg_shared::{AtomicU32, Mutex, MutexGuard};

use crate::backend::{Backend, health, track};
use crate::instance::{Instance, Live};
use crate::worker::{self, Worker};

/// Where changes are made.
#[derive(Default)]
pub(crate) struct Changes {
    /// Held by who makes one.
    changing: Mutex<()>,
    /// Places of threads that nobody uses.
    places: Mutex<Vec<u32>>,
    /// Behind the highest place.
    end: AtomicU32,
    /// Numbers of proxies that nobody uses.
    proxies: Mutex<Vec<u32>>,
    /// Numbers that no snapshot has any more, and that threads may still keep something at.
    gone: Mutex<Vec<Number>>,
}

/// What is set aside for somebody who comes and goes.
enum Number {
    Server(ServerNumber),
    Proxy(ProxyId),
}

/// The numbers of a server.
struct ServerNumber {
    backend: Weak<Backend>,
    server: ServerId,
    /// Its place in what threads keep.
    flat: u32,
}

/// The numbers of a server or a proxy for as long as some snapshot has it.
struct Held {
    live: Weak<Live>,
    /// Taken when it goes.
    number: Option<Number>,
}

impl Held {
    fn keep(live: &Arc<Live>, number: Number) -> Keep {
        Keep::of(Held { live: Arc::downgrade(live), number: Some(number) })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let (Some(live), Some(number)) = (self.live.upgrade(), self.number.take()) {
            locked(&live.changes.gone).push(number);
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The process ends.
    Ending,
    /// There is no such proxy or server any more.
    Gone,
    /// There is one of that name already.
    NameTaken,
    /// The server is named by rules, by expressions, or by a server that has its state.
    Referenced,
    /// The server is not in maintenance.
    InService,
    /// Streams are on it, or wait for it.
    InUse,
    /// The backend is not unpublished.
    Published,
    /// The backend has servers.
    HasServers,
    /// It is a section that accepts, too.
    Listens,
}

impl Changes {
    /// With `places` places of threads in use.
    pub(crate) fn new(places: u32) -> Changes {
        Changes { end: AtomicU32::new(places), ..Changes::default() }
    }

    fn take_place(&self) -> u32 {
        locked(&self.places).pop().unwrap_or_else(|| self.end.fetch_add(1, Ordering::Relaxed))
    }
}

impl Instance {
    /// The next snapshot, in which a proxy is another one. Its number and its name are as before.
    fn with_proxy(&self, id: ProxyId, change: impl FnOnce(&mut Proxy)) -> Option<Instance> {
        let mut config = self.config.clone();
        let proxy = config.proxies.iter_mut().find(|proxy| proxy.id == id)?;
        change(proxy);
        Some(self.like(config))
    }
}

/// Adds a server to a backend, at the end of its list, out of service. `tls` is what lines with TLS share, if this is the
/// first one.
///
/// # Errors
/// Nothing was changed.
pub fn add_server(
    worker: &Worker,
    proxy: ProxyId,
    mut server: Server,
    tls: Option<SharedLive>,
) -> Result<(), Refused> {
    let live = &worker.live;
    let _changing = locked(&live.changes.changing);
    forget_gone(live);
    let now = live.current().ok_or(Refused::Ending)?;
    let of = now.config.find_proxy(proxy).ok_or(Refused::Gone)?;
    let backend = now.backends.get(proxy.0 as usize).ok_or(Refused::Gone)?;
    if backend.server_by_name(of, &server.name).is_some() {
        return Err(Refused::NameTaken);
    }
    if server.uid == 0 {
        server.uid = (1..).find(|uid| of.servers.iter().all(|other| other.uid != *uid)).unwrap_or(u32::MAX);
    }
    let (id, flat) = (backend.take_number(), live.changes.take_place());
    let number = ServerNumber { backend: Arc::downgrade(backend), server: id, flat };
    server.id = id;
    server.keep = Held::keep(live, Number::Server(number));
    backend.admit(of, &server, flat);
    let server = Shared::from(server);
    let added = server.clone();
    let next = now.with_proxy(proxy, |proxy| {
        proxy.servers.push(added);
        proxy.reindex();
    });
    let mut next = next.ok_or(Refused::Gone)?;
    if let Some(tls) = tls {
        next.config.tls = Some(tls);
    }
    live.put_in_force(Arc::new(next));
    if let Some(tracked) = server.rare().track {
        track::begin(worker, tracked, (proxy, id));
    }
    let thread = flat as usize % live.threads.len();
    run_on(thread, move || {
        if let Some(worker) = worker::current() {
            health::start_server(&worker, proxy, &server);
        }
    });
    Ok(())
}

/// Whether a server can be removed now.
///
/// # Errors
/// Why not.
pub fn is_removable(instance: &Instance, proxy: &Proxy, server: &Server) -> Result<(), Refused> {
    let backend = &instance.backends[proxy.id.0 as usize];
    if server.is_referenced || instance.trackers.has_any((proxy.id, server.id)) {
        return Err(Refused::Referenced);
    }
    if !backend.standing(server.id).in_maintenance() {
        return Err(Refused::InService);
    }
    let is_used =
        instance.server_streams(proxy.id, server.id) != 0 || backend.server_queue_len(server.id) != 0;
    if is_used { Err(Refused::InUse) } else { Ok(()) }
}

/// Removes a server, with its idle connections. A stream that was about to be sent to it on another thread still is: its
/// snapshot has it.
///
/// # Errors
/// Nothing was changed.
pub fn remove_server(worker: &Worker, proxy: ProxyId, server: ServerId) -> Result<(), Refused> {
    let live = &worker.live;
    let _changing = locked(&live.changes.changing);
    let now = live.current().ok_or(Refused::Ending)?;
    let of = now.config.find_proxy(proxy).ok_or(Refused::Gone)?;
    let line = of.server(server).ok_or(Refused::Gone)?;
    is_removable(&now, of, line)?;
    let next = now.with_proxy(proxy, |proxy| {
        proxy.servers.retain(|other| other.id != server);
        proxy.reindex();
    });
    crate::resolvers::forget(&now, proxy, line);
    if let Some(tracked) = line.rare().track {
        live.trackers.forget(tracked, (proxy, server));
    }
    live.put_in_force(Arc::new(next.ok_or(Refused::Gone)?));
    let backend = &now.backends[proxy.0 as usize];
    backend.dismiss(server);
    backend.drop_idle_connections(server);
    Ok(())
}

/// Adds a backend without servers, which rules may not choose yet.
///
/// # Errors
/// Nothing was changed.
pub fn add_backend(worker: &Worker, mut proxy: Proxy) -> Result<(), Refused> {
    let live = &worker.live;
    let _changing = locked(&live.changes.changing);
    forget_gone(live);
    let now = live.current().ok_or(Refused::Ending)?;
    if now.config.proxies.iter().any(|other| other.name == proxy.name) {
        return Err(Refused::NameTaken);
    }
    let free = locked(&live.changes.proxies).pop();
    let number = free.unwrap_or_else(|| u32::try_from(now.backends.len()).unwrap_or(u32::MAX));
    proxy.id = ProxyId(number);
    proxy.keep = Held::keep(live, Number::Proxy(proxy.id));
    live.unpublished[number as usize].store(proxy.unpublished, Ordering::SeqCst);
    let backend = Arc::new(Backend::new(&proxy, 0));
    let mut config = now.config.clone();
    config.proxies.push(proxy.into());
    config.reindex();
    live.put_in_force(Arc::new(now.with_backends(config, now.backends.with(number as usize, Some(backend)))));
    Ok(())
}

/// Whether a backend can be removed now.
///
/// # Errors
/// Why not.
pub fn is_backend_removable(instance: &Instance, proxy: &Proxy) -> Result<(), Refused> {
    let at = proxy.id.0 as usize;
    if proxy.is_fe() {
        return Err(Refused::Listens);
    }
    if proxy.is_referenced {
        return Err(Refused::Referenced);
    }
    if !instance.unpublished[at].load(Ordering::SeqCst) {
        return Err(Refused::Published);
    }
    if !proxy.servers.is_empty() {
        return Err(Refused::HasServers);
    }
    let is_used = instance.backend_streams(proxy.id) != 0 || instance.backends[at].queue_len() != 0;
    if is_used { Err(Refused::InUse) } else { Ok(()) }
}

/// Removes a backend.
///
/// # Errors
/// Nothing was changed.
pub fn remove_backend(worker: &Worker, proxy: ProxyId) -> Result<(), Refused> {
    let live = &worker.live;
    let _changing = locked(&live.changes.changing);
    let now = live.current().ok_or(Refused::Ending)?;
    is_backend_removable(&now, now.config.find_proxy(proxy).ok_or(Refused::Gone)?)?;
    let mut config = now.config.clone();
    config.proxies.retain(|other| other.id != proxy);
    config.reindex();
    live.put_in_force(Arc::new(now.with_backends(config, now.backends.with(proxy.0 as usize, None))));
    Ok(())
}

impl Live {
    /// Makes a snapshot the current one and lets every thread know. On one of the runtime's threads.
    fn put_in_force(self: &Arc<Live>, next: Arc<Instance>) {
        self.set_current(&next);
        drop(next);
        for thread in 0..self.threads.len() {
            run_on(thread, worker::follow_current);
        }
        // Who made the change goes on with it.
        worker::follow_current();
    }
}

/// Lets every thread forget what it keeps of servers that no snapshot has any more. Their numbers are free when all have.
fn forget_gone(live: &Arc<Live>) {
    let gone = std::mem::take(&mut *locked(&live.changes.gone));
    if gone.is_empty() {
        return;
    }
    let release = Arc::new(Release {
        live: Arc::downgrade(live),
        left: AtomicU32::new(u32::try_from(live.threads.len()).unwrap_or(u32::MAX)),
        gone,
    });
    for thread in 0..live.threads.len() {
        let release = Arc::clone(&release);
        run_on(thread, move || {
            if let Some(worker) = worker::current() {
                release.gone.iter().for_each(|number| match number {
                    Number::Server(number) => worker.forget_server(number.flat as usize),
                    Number::Proxy(proxy) => worker.forget_proxy(*proxy),
                });
            }
            release.one_has();
        });
    }
}

/// Numbers that are on their way back.
struct Release {
    live: Weak<Live>,
    /// Threads that have not forgotten yet.
    left: AtomicU32,
    gone: Vec<Number>,
}

impl Release {
    fn one_has(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        let Some(live) = self.live.upgrade() else { return };
        for number in &self.gone {
            match number {
                Number::Server(number) => {
                    live.server_peaks[number.flat as usize].reset();
                    if let Some(backend) = number.backend.upgrade() {
                        backend.give_number(number.server);
                    }
                    locked(&live.changes.places).push(number.flat);
                }
                Number::Proxy(proxy) => {
                    let at = proxy.0 as usize;
                    live.backend_peaks[at].reset();
                    live.log_counters[at].store(0, Ordering::Relaxed);
                    live.refused.forget(*proxy);
                    locked(&live.changes.proxies).push(proxy.0);
                }
            }
        }
    }
}
