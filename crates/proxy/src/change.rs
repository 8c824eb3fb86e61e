//! Changing what is in force: the next snapshot from the one before, and what follows for the live state.
//!
//! One change is made at a time. It makes the next [`Instance`], which shares with the one before what stays, makes it the
//! current one and lets every thread know. Streams that are there go on with what they began with.
//!
//! **Numbers.** A server gets a number in its backend, and a place in what threads keep. When it goes, both come back with the last
//! snapshot that has it ([`thalweg_live::lease`]). Every thread is asked soon then, or by the next change if that is sooner, to forget
//! what it keeps at that place. When all have, whoever had just chosen it for a stream of an older snapshot has found out that it
//! is gone, but for those that wait for a slot on it, or were given one: if there are none, the numbers are free, and otherwise
//! all are asked again. So do those of proxies and listeners.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};
use std::thread::JoinHandle;

use thalweg_config::model::{Proxy, ProxyId, Server, ServerId, SharedLive};
use thalweg_live::{FreeNumbers, Gone, Parting, Returns};
use thalweg_runtime::topology::roam;
use thalweg_runtime::{Class, Handle, Kind, SpawnOptions, run_on, spawn_with, timer};
use thalweg_shared::{AtomicBool, AtomicU32, Mutex, MutexGuard};
use thalweg_sys::dense::allocate_densely;
use thalweg_sys::memory::{free_emptied_pages, give_back_pages, give_back_what_is_left};
use thalweg_sys::process::give_way;

use crate::backend::{Backend, Common};
use crate::change_set::{self, ChangeSet, Failed, OldBackend, OldServer};
use crate::in_turn::each_in_turn;
use crate::instance::{Instance, Live};
use crate::stopping::Stopping;
use crate::worker::{self, Worker};

static SETTLE: Kind = Kind::new("former-snapshots");

/// The stack of a thread that takes a snapshot apart, in bytes.
const BURY_STACK: usize = 256 * 1024;

/// Where changes are made.
#[derive(Default)]
pub(crate) struct Changes {
    /// Held by who makes one.
    pub(crate) changing: Mutex<()>,
    /// Places of threads.
    pub(crate) places: Arc<FreeNumbers>,
    proxies: FreeNumbers,
    listeners: FreeNumbers,
    /// Numbers that no snapshot has any more, and that threads may still keep something at.
    gone: Mutex<Vec<Number>>,
    /// Some task looks after what changes leave behind.
    is_settling: AtomicBool,
    /// Of servers, the last: see [`Server::revision`].
    revisions: AtomicU32,
}

/// What is set aside for somebody who comes and goes.
pub(crate) enum Number {
    Server(ServerNumber),
    Proxy(ProxyId),
    /// A listener, and the frontend that it counted for.
    Listener(u32, ProxyId),
}

/// The numbers of a server.
#[derive(Clone)]
pub(crate) struct ServerNumber {
    pub backend: Weak<Common>,
    pub proxy: ProxyId,
    pub server: ServerId,
    /// Its place in what threads keep.
    pub flat: u32,
}

impl Number {
    /// What a server had that is gone.
    pub fn server(proxy: ProxyId, backend: &Backend, server: ServerId) -> Gone<Number> {
        let flat = u32::try_from(backend.flat(server)).unwrap_or(u32::MAX);
        let number = ServerNumber { backend: Arc::downgrade(backend.common()), proxy, server, flat };
        Gone { since: backend.since(server), what: Number::Server(number) }
    }

    /// What a proxy had that is gone.
    pub fn proxy(live: &Live, proxy: ProxyId) -> Gone<Number> {
        let since = live.proxy_since[proxy.0 as usize].load(Ordering::Relaxed);
        Gone { since, what: Number::Proxy(proxy) }
    }

    /// What a listener of that frontend had that is gone.
    pub fn listener(live: &Live, number: u32, frontend: ProxyId) -> Gone<Number> {
        let since = live.listeners[number as usize].since();
        Gone { since, what: Number::Listener(number, frontend) }
    }
}

impl ServerNumber {
    /// Whether a stream that was given its slot has not found out yet that it is gone.
    fn is_in_use(&self, now: &Instance) -> bool {
        let Some(common) = self.backend.upgrade() else { return false };
        // While somebody is served by a former backend it may be anything.
        let here = now.backends.get(self.proxy.0 as usize);
        let here = here.filter(|backend| Arc::ptr_eq(backend.common(), &common));
        here.is_none_or(|backend| backend.is_in_use(self.server))
    }
}

impl Returns<Number> for Weak<Live> {
    fn take_back(&self, mut numbers: Vec<Number>) {
        if let Some(live) = self.upgrade() {
            locked(&live.changes.gone).append(&mut numbers);
        }
    }
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
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
    /// With these places of threads, and so many numbers of proxies and listeners in use.
    pub(crate) fn new(places: Arc<FreeNumbers>, proxies: usize, listeners: usize) -> Changes {
        let behind = |count| FreeNumbers::from(u32::try_from(count).unwrap_or(u32::MAX));
        Changes { places, proxies: behind(proxies), listeners: behind(listeners), ..Changes::default() }
    }

    pub(crate) fn take_place(&self) -> u32 {
        self.places.take()
    }

    pub(crate) fn take_row_of_places(&self, count: usize) -> Range<u32> {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.places.take_row_from(if count > SHORT_ROW { PLACES_OF_SHORT_ROWS } else { 0 }, count)
    }

    pub(crate) fn take_proxy(&self) -> ProxyId {
        ProxyId(self.proxies.take())
    }

    pub(crate) fn take_listener(&self) -> u32 {
        self.listeners.take()
    }

    /// Numbers that were taken for nothing: nobody used them.
    pub(crate) fn give_back(&self, proxies: &[ProxyId], listeners: &[u32], places: Vec<Range<u32>>) {
        proxies.iter().for_each(|proxy| self.proxies.give(proxy.0));
        listeners.iter().for_each(|listener| self.listeners.give(*listener));
        places.into_iter().for_each(|row| self.places.give_row(row));
    }

    /// The revision of a server that joins others, or whose line is another one now.
    pub(crate) fn next_revision(&self) -> u32 {
        self.revisions.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }
}

/// Adds a server to a backend, at the end of its list, out of service. `tls` is what lines with TLS share, if this is the
/// first one.
///
/// # Errors
/// Nothing was changed.
pub fn add_server(
    worker: &Worker,
    backend: &Arc<str>,
    server: Server,
    tls: Option<SharedLive>,
) -> Result<(), Refused> {
    let new_servers = vec![(Arc::clone(backend), server)];
    one(worker, ChangeSet { new_servers, tls, ..ChangeSet::default() })
}

/// Makes one change.
fn one(worker: &Worker, set: ChangeSet) -> Result<(), Refused> {
    change_set::apply(worker, set).map_err(|failed| match failed {
        Failed::Refused(_, why) => why,
        // It was made for no snapshot, so that none can overtake it.
        Failed::Overtaken => Refused::Gone,
    })
}

/// Whether a server can be removed now.
///
/// # Errors
/// Why not.
pub fn is_removable(instance: &Instance, proxy: &Proxy, server: &Server) -> Result<(), Refused> {
    is_removable_once(instance, proxy, server, false)
}

/// The same, once it is out of service if it is taken out (`maintain`).
pub(crate) fn is_removable_once(
    instance: &Instance,
    proxy: &Proxy,
    server: &Server,
    maintain: bool,
) -> Result<(), Refused> {
    let backend = &instance.backends[proxy.id.0 as usize];
    if server.is_referenced || instance.trackers.has_any((proxy.id, server.id)) {
        return Err(Refused::Referenced);
    }
    if !maintain && !backend.standing(server.id).in_maintenance() {
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
    let old_servers = vec![OldServer { proxy, server, maintain: false }];
    one(worker, ChangeSet { old_servers, ..ChangeSet::default() })
}

/// Adds a backend without servers, which rules may not choose yet.
///
/// # Errors
/// Nothing was changed.
pub fn add_backend(worker: &Worker, proxy: Proxy) -> Result<(), Refused> {
    one(worker, ChangeSet { new_backends: vec![proxy], ..ChangeSet::default() })
}

/// Whether a backend can be removed now.
///
/// # Errors
/// Why not.
pub fn is_backend_removable(instance: &Instance, proxy: &Proxy) -> Result<(), Refused> {
    is_backend_removable_once(instance, proxy, !proxy.servers.is_empty(), false)
}

/// The same, with or without servers, once rules may not choose it if that is so from now on (`unpublish`).
pub(crate) fn is_backend_removable_once(
    instance: &Instance,
    proxy: &Proxy,
    has_servers: bool,
    unpublish: bool,
) -> Result<(), Refused> {
    let at = proxy.id.0 as usize;
    if proxy.is_fe() {
        return Err(Refused::Listens);
    }
    if proxy.is_referenced {
        return Err(Refused::Referenced);
    }
    if !unpublish && !instance.unpublished[at].load(Ordering::SeqCst) {
        return Err(Refused::Published);
    }
    if has_servers {
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
    let old_backends = vec![OldBackend { proxy, unpublish: false }];
    one(worker, ChangeSet { old_backends, ..ChangeSet::default() })
}

impl Live {
    /// Makes a snapshot the current one and lets every thread know. On one of the runtime's threads.
    pub(crate) fn put_in_force(self: &Arc<Live>, next: Arc<Instance>) {
        self.set_current(&next);
        drop(next);
        for thread in 0..self.threads.len() {
            run_on(thread, worker::follow_current);
        }
        // Who made the change goes on with it.
        worker::follow_current();
        settle(self);
    }
}

/// Where places of servers are that come a few at a time: long rows come and go behind. With those between, what is kept by place would
/// have room for all of them for as long as the few stay.
const PLACES_OF_SHORT_ROWS: u32 = 256;
const SHORT_ROW: u32 = 32;

/// How soon it is looked whether anybody is still served by former snapshots, in milliseconds, and how seldom if that lasts.
const SETTLE_MS: u64 = 100;
const SETTLE_MAX_MS: u64 = 2000;

/// Has a task of this thread deal with what changes leave behind: large former snapshots are taken apart once nothing is served
/// by them any more, and what no snapshot has any more is forgotten.
pub(crate) fn settle(live: &Arc<Live>) {
    if live.is_settled() || live.changes.is_settling.swap(true, Ordering::SeqCst) {
        return;
    }
    let live = Arc::clone(live);
    let options = SpawnOptions { class: Class::Bulk, ..SpawnOptions::default() };
    spawn_with(&SETTLE, options, async move {
        let (mut pause_ms, mut was_large) = (SETTLE_MS, false);
        // One at a time: it gives way, and on a busy machine dozens of threads would come together.
        let mut burial: Option<JoinHandle<()>> = None;
        while live.stopping() == Stopping::No {
            timer::sleep(pause_ms).await;
            pause_ms = (pause_ms * 2).min(SETTLE_MAX_MS);
            let is_free = burial.as_ref().is_none_or(JoinHandle::is_finished);
            let unpinned = if is_free { live.take_unpinned() } else { Vec::new() };
            if !unpinned.is_empty() {
                (pause_ms, was_large) = (SETTLE_MS, true);
                let aside = std::thread::Builder::new().name("snapshots".into()).stack_size(BURY_STACK);
                let live = Arc::downgrade(&live);
                // Without memory for a thread it is done here.
                burial = aside.spawn(move || bury(unpinned, &live)).ok();
            }
            forget_gone(&live);
            if live.is_settled() && burial.as_ref().is_none_or(JoinHandle::is_finished) {
                // Of small ones, which nobody takes apart aside. It is a look at the chunks of what changed.
                if let Some(now) = live.current() {
                    now.free_left();
                }
                if std::mem::take(&mut was_large) {
                    // What was allocated by those who serve, and was freed by others: the first look finds it, the second one frees
                    // the pages that are empty since.
                    give_back_what_is_left();
                    for _ in 0..2 {
                        (0..live.threads.len()).for_each(|thread| run_on(thread, free_emptied_pages));
                        timer::sleep(SETTLE_MS).await;
                    }
                }
                live.changes.is_settling.store(false, Ordering::SeqCst);
                // What was left behind just now is seen by this task or by the next.
                if live.is_settled() || live.changes.is_settling.swap(true, Ordering::SeqCst) {
                    return;
                }
            }
        }
    });
}

/// Takes snapshots apart, and what went with them.
fn bury(snapshots: Vec<Arc<Instance>>, live: &Weak<Live>) {
    roam();
    give_way();
    allocate_densely();
    drop(snapshots);
    if let Some(now) = live.upgrade().and_then(|live| live.current()) {
        now.free_left();
    }
    give_back_pages();
}

impl Live {
    /// Whether changes left nothing behind that somebody has to come back to.
    fn is_settled(&self) -> bool {
        let waits = || self.current().is_some_and(|now| now.lease().has_waiting());
        self.former_count() == 0 && locked(&self.changes.gone).is_empty() && !waits()
    }
}

/// Lets every thread forget what it keeps of what no snapshot has any more. The numbers are free when all have.
pub(crate) fn forget_gone(live: &Arc<Live>) {
    forget(live, run_on);
}

/// The same on a thread that is none of the runtime's.
pub(crate) fn forget_gone_by(live: &Arc<Live>, handle: &Handle) {
    forget(live, |thread, f| handle.run_on(thread, f));
}

fn forget(live: &Arc<Live>, on: impl Fn(usize, Box<dyn FnOnce() + Send>)) {
    let mut gone = std::mem::take(&mut *locked(&live.changes.gone));
    if gone.is_empty() {
        return;
    }
    // What a listener counted goes to its frontend, which is forgotten after that.
    gone.sort_by_key(|number| matches!(number, Number::Proxy(_)));
    let release = Arc::new(Release {
        live: Arc::downgrade(live),
        threads: Parting::of(u32::try_from(live.threads.len()).unwrap_or(u32::MAX)),
        gone,
    });
    for thread in 0..live.threads.len() {
        let release = Arc::clone(&release);
        on(thread, Box::new(move || forget_here(release)));
    }
}

/// The calling thread forgets them, and the last one that does gives them back.
fn forget_here(release: Arc<Release>) {
    let (own, numbers) = (Arc::clone(&release), 0..release.gone.len());
    let give_back = move |numbers: Range<usize>| {
        if release.threads.one_has() {
            each_in_turn(numbers, move |at| release.give(&release.gone[at]), || {});
        }
    };
    each_in_turn(numbers.clone(), move |at| own.gone[at].forget(), move || give_back(numbers));
}

/// Numbers that are on their way back.
struct Release {
    live: Weak<Live>,
    /// Those that have not forgotten yet.
    threads: Parting,
    gone: Vec<Number>,
}

impl Number {
    /// The calling thread forgets what it keeps there.
    fn forget(&self) {
        let Some(worker) = worker::current() else { return };
        match self {
            Number::Server(number) => worker.forget_server(number.flat as usize),
            Number::Proxy(proxy) => worker.forget_proxy(*proxy),
            Number::Listener(listener, frontend) => worker.forget_listener(*listener, *frontend),
        }
    }
}

impl Release {
    /// Every thread has forgotten it.
    fn give(&self, number: &Number) {
        let Some(live) = self.live.upgrade() else { return };
        match number {
            Number::Server(number) => {
                let Some(now) = live.current() else { return };
                if number.is_in_use(&now) {
                    locked(&live.changes.gone).push(Number::Server(number.clone()));
                    return settle(&live);
                }
                now.servers.forget_peaks(number.flat as usize);
                match number.backend.upgrade() {
                    // The place goes with the number, as long as the backend is there.
                    Some(backend) if backend.has_own_place(number.server) => {
                        return backend.give_number(number.server);
                    }
                    Some(backend) => backend.give_number(number.server),
                    None => {}
                }
                live.changes.places.give(number.flat);
            }
            Number::Proxy(proxy) => {
                let at = proxy.0 as usize;
                live.backend_peaks[at].reset();
                live.frontend_peaks[at].reset();
                live.log_counters[at].store(0, Ordering::Relaxed);
                live.refused.forget(*proxy);
                live.changes.proxies.give(proxy.0);
            }
            Number::Listener(listener, frontend) => {
                live.forget_listener(*listener, *frontend);
                live.changes.listeners.give(*listener);
            }
        }
    }
}
