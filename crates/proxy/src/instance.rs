//! What all threads share: a configuration in force ([`Instance`]), and the live state that outlives it ([`Live`]).

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, OnceLock, PoisonError, Weak};

use smallvec::SmallVec;
use thalweg_config::follow::is_gone;
use thalweg_config::model::{Bind, Config, Proxy, ProxyId, ServerId, Tune};
use thalweg_live::{FreeNumbers, Gone, Growing, Lease};
use thalweg_operate::log::LogShared;
use thalweg_runtime::{Handle, clock};
use thalweg_sample::vars::{BUDGETS, Scope, VarSet};
use thalweg_shared::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Mutex};
use thalweg_shared::{MutexGuard, Ordering, RwLock};
use thalweg_stick::Table;

use crate::backend::track::Trackers;
use crate::backend::{Backend, restore};
use crate::change::{Changes, Number};
use crate::counters::{Counters, Peaks, ServerRows, ThreadCounters, TlsPeaks, peak};
use crate::gate::Gate;
use crate::rate::{RateGate, Sampled};
use crate::refused::LastRefused;
use crate::resolvers::counts::SectionCounts;
use crate::spans::Unsent;
use crate::stopping::Stopping;
use crate::stream::service::Service;
use crate::traces::Tracing;

/// A snapshot with more servers than this is taken apart by a thread of its own: it takes more than a moment.
const SMALL: usize = 1000;

/// So many servers may come or go at least, one by one, before rows are made for those that there are: that looks at all of them.
const FEW_IN_ROWS: usize = 256;

/// Numbers of streams that a thread takes at once, so that streams need not count together.
pub const STREAM_BLOCK: u32 = 4096;

/// A configuration in force, with the live state of what it names: what a stream is evaluated against from its start to its
/// end. Nothing in it changes; a change makes another one ([`Live::put_in_force`]), which shares with this one what stayed.
///
/// **Invariant:** no position and no address of it is kept by what outlives the [`crate::worker::Worker`] that it was found by.
pub struct Instance {
    pub config: Config,
    names: Arc<Names>,
    /// By proxy; those without servers have an empty one.
    pub backends: Backends,
    listeners: Places,
    /// Stick tables, by the configuration's number. Those that it has no more are there as long as the process.
    pub tables: Arc<[Arc<Table>]>,
    /// What is counted of servers, by flat number.
    pub servers: Arc<ServerRows>,
    /// Servers that are gone, and for which `servers` has room still.
    left_in_rows: usize,
    /// Snapshots before this one.
    pub generation: u64,
    /// Holds the numbers of what it has.
    lease: Lent,
    pub live: Arc<Live>,
}

/// Keeps the numbers of what a snapshot has.
pub(crate) type Lent = Arc<Lease<Number, Weak<Live>>>;

/// By the number of a listener, its proxy and its position among the proxy's.
type Places = Arc<[Option<(ProxyId, u32)>]>;

/// What all threads share of a listener, at its number. All of it is words and locks, so that the number can be used again.
#[derive(Default)]
pub struct Listening {
    /// Its connections.
    pub gate: Gate,
    /// The number of its frontend.
    frontend: AtomicU32,
    /// Whether its clients speak TLS.
    tls: AtomicBool,
    /// The first snapshot that has it.
    since: AtomicU64,
}

impl Listening {
    /// From now on the number is that of this listener, which `frontend` has in all snapshots from `since` on.
    pub(crate) fn begin(&self, frontend: ProxyId, bind: &Bind, since: u64) {
        self.since.store(since, Ordering::Relaxed);
        self.frontend.store(frontend.0, Ordering::Relaxed);
        self.tls.store(bind.tls.as_deref().is_some_and(|tls| tls.ssl), Ordering::Relaxed);
        self.gate.set_limit(bind.maxconn);
    }

    /// The line of the listener is another one; connections that are there count by the one that they came by.
    pub(crate) fn reconfigure(&self, before: &Bind, now: &Bind) {
        if before.maxconn != now.maxconn {
            self.gate.set_limit(now.maxconn);
        }
    }

    /// The first snapshot that has it.
    pub(crate) fn since(&self) -> u64 {
        self.since.load(Ordering::Relaxed)
    }

    /// The frontend that it belongs to.
    #[inline]
    pub fn frontend(&self) -> ProxyId {
        ProxyId(self.frontend.load(Ordering::Relaxed))
    }

    /// Whether its clients speak TLS.
    pub fn speaks_tls(&self) -> bool {
        self.tls.load(Ordering::Relaxed)
    }
}

/// The numbers of the listeners that a frontend has or had, and that count for it. Most have one or two.
type Listeners = SmallVec<[u32; 4]>;

/// Frontends and backends by name; a `listen` is in both.
struct Names {
    frontends: HashMap<Arc<str>, ProxyId>,
    backends: HashMap<Arc<str>, ProxyId>,
}

/// Backends by the number of their proxy.
#[derive(Clone)]
pub struct Backends(Arc<[Option<Arc<Backend>>]>);

impl Backends {
    /// These, each at its number.
    pub(crate) fn of(all: Vec<(usize, Arc<Backend>)>) -> Backends {
        let mut row = vec![None; all.iter().map(|(at, _)| at + 1).max().unwrap_or(0)];
        all.into_iter().for_each(|(at, backend)| row[at] = Some(backend));
        Backends(row.into())
    }

    /// Behind the highest number of a proxy.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The same with another one, or none, at a number.
    pub(crate) fn with(&self, at: usize, backend: Option<Arc<Backend>>) -> Backends {
        let mut all = self.0.to_vec();
        if all.len() <= at {
            all.resize(at + 1, None);
        }
        all[at] = backend;
        Backends(all.into())
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Backend>> {
        self.0.iter().flatten()
    }

    /// The backend of that number, if the snapshot has it.
    #[inline]
    pub fn get(&self, at: usize) -> Option<&Arc<Backend>> {
        self.0.get(at)?.as_ref()
    }
}

impl std::ops::Index<usize> for Backends {
    type Output = Backend;

    #[inline]
    fn index(&self, at: usize) -> &Backend {
        match &self.0[at] {
            Some(backend) => backend,
            None => panic!("no backend has the number {at}"),
        }
    }
}

impl Deref for Instance {
    type Target = Live;

    #[inline]
    fn deref(&self) -> &Live {
        &self.live
    }
}

/// What is there once per process, whatever configuration is in force. What belongs to a proxy or a server lies at its
/// number, which is its own for as long as any snapshot has it.
pub struct Live {
    /// The name the program was started under; tags log lines.
    pub program: String,
    pub hostname: String,
    /// By thread.
    pub threads: Box<[Arc<ThreadCounters>]>,
    /// The largest rates of each proxy as a frontend and as a backend.
    pub frontend_peaks: Growing<Peaks>,
    pub backend_peaks: Growing<Peaks>,
    /// Of the process.
    pub process_peaks: Peaks,
    pub tls_peaks: TlsPeaks,
    /// Connections of the process.
    pub process_gate: Gate,
    /// Connections by proxy, as a frontend.
    pub frontend_gates: Growing<Gate>,
    /// Streams by `log-forward` section.
    pub log_forward_gates: Box<[Gate]>,
    /// By number of the listener.
    pub listeners: Growing<Listening>,
    /// By proxy.
    counted: Growing<Mutex<Listeners>>,
    /// By proxy: the first snapshot that has it.
    pub(crate) proxy_since: Growing<AtomicU64>,
    /// New connections of the process per second (`maxconnrate`).
    pub connection_rate: RateGate,
    /// New sessions of the process per second (`maxsessrate`).
    pub session_rate: RateGate,
    /// New connections per second of lines that speak TLS (`maxsslrate`).
    pub tls_rate: RateGate,
    /// Connections on which TLS is spoken, with clients and for traffic with servers (`maxsslconn`).
    pub tls_gate: Gate,
    /// New sessions per second by proxy (`rate-limit sessions`).
    pub frontend_rates: Growing<RateGate>,
    /// Log line counters by proxy (`%lc`).
    pub log_counters: Growing<AtomicU64>,
    /// Processes that share them.
    pub peers: crate::peers::Sections,
    pub process_vars: RwLock<VarSet>,
    pub log: Arc<LogShared>,
    /// Microseconds since 1970 at start.
    pub start_wall_us: u64,
    /// How long the start took, until the process served.
    pub boot_ms: AtomicU32,
    /// Connections per thread, to hand new ones to the least busy.
    pub thread_load: Box<[AtomicU32]>,
    stopping: AtomicU8,
    /// A soft stop was asked for; `grace` is waited for before it begins, or was.
    stop_is_announced: AtomicBool,
    /// When the stop began, by the clock of the loop; 0: it did not.
    stopping_since_ms: AtomicU64,
    /// Threads that no longer accept, during a soft stop.
    stopped_threads: AtomicU32,
    handle: OnceLock<Handle>,
    /// What `use-service` may name. Set before the first request.
    services: OnceLock<Box<[Box<dyn Service>]>>,
    /// By proxy: switching rules may not choose it (`be-unpublished`, `unpublish backend`).
    pub unpublished: Growing<AtomicBool>,
    /// By proxy: its frontend accepts nothing for a while (`disable frontend`).
    pub frontend_paused: Growing<AtomicBool>,
    /// By proxy: its frontend accepts nothing any more (`shutdown frontend`).
    pub frontend_shut: Growing<AtomicBool>,
    /// How fast bytes leave for clients (`BytesOutRate`).
    pub bytes_out_rate: Sampled,
    /// Servers that have the state of others.
    pub(crate) trackers: Trackers,
    /// By `resolvers` section: what was counted about its name servers.
    pub resolvers: Box<[SectionCounts]>,
    /// What is told of what happens.
    pub tracing: Tracing,
    /// What collectors are still to be told.
    pub unsent_spans: Unsent,
    /// Messages that were not understood (`show errors`).
    pub refused: LastRefused,
    /// Warnings given since the start was over.
    pub warnings: AtomicU64,
    /// Blocks of numbers for streams (`%rt`) that were given to threads; see [`STREAM_BLOCK`].
    pub stream_blocks: AtomicU32,
    pub(crate) changes: Changes,
    /// What is in force; `None` once nobody serves any more.
    current: Mutex<Option<Arc<Instance>>>,
    /// Those that were in force before and may be pinned by somebody.
    former: Mutex<Vec<Arc<Instance>>>,
}

impl Instance {
    /// Prepares the live state for a configuration.
    pub fn new(config: Config, program: &str, hostname: &str, start_wall_us: u64) -> Arc<Instance> {
        let tables = crate::tables::of(&config);
        Instance::with_tables(config, tables, (program, hostname), start_wall_us)
    }

    /// The same, with stick tables that may have entries: those of [`crate::tables::of`].
    pub fn with_tables(
        config: Config,
        tables: Arc<[Arc<Table>]>,
        (program, hostname): (&str, &str),
        start_wall_us: u64,
    ) -> Arc<Instance> {
        let rows = Arc::new(FreeNumbers::from(0));
        let backend = |proxy: &Proxy| {
            let row = rows.take_row(u32::try_from(proxy.servers.len()).unwrap_or(0));
            Some(Arc::new(Backend::new(proxy, row.start, &rows, 0)))
        };
        let backends = Backends(config.proxies.iter().map(|proxy| &**proxy).map(backend).collect());
        let names = Arc::new(Names::of(&config));
        restore::apply(&config, &backends);
        let trackers = Trackers::new(&config, &backends);
        let peers = crate::peers::Sections::new(&config, &tables);
        let servers = rows.end() as usize;
        let live = Live::new(&config, rows, (trackers, peers), (program, hostname), start_wall_us);
        let live = Arc::new(live);
        let (listeners, lease) = (places(&config), Lease::new(Arc::downgrade(&live)));
        let servers = Arc::new(ServerRows::new(servers, live.threads.len()));
        let instance = Arc::new(Instance {
            servers,
            left_in_rows: 0,
            generation: 0,
            names,
            backends,
            listeners,
            tables,
            lease,
            live,
            config,
        });
        instance.live.set_current(&instance);
        instance
    }

    /// The next one, with the same proxies, as `config` has them. It is put in force: what is `gone` is in this one only.
    pub(crate) fn like(&self, config: Config, gone: Vec<Gone<Number>>) -> Instance {
        let (names, listeners) = (Arc::clone(&self.names), Arc::clone(&self.listeners));
        self.next((names, listeners), config, self.backends.clone(), gone)
    }

    /// The next one, whatever it has.
    pub(crate) fn with_all(&self, config: Config, backends: Backends, gone: Vec<Gone<Number>>) -> Instance {
        let mut next = self.with_backends(config, backends, gone);
        next.renew_rows();
        next
    }

    /// The next one, with other proxies.
    pub(crate) fn with_backends(
        &self,
        config: Config,
        backends: Backends,
        gone: Vec<Gone<Number>>,
    ) -> Instance {
        let (names, listeners) = (Arc::new(Names::of(&config)), places(&config));
        self.next((names, listeners), config, backends, gone)
    }

    fn next(
        &self,
        (names, listeners): (Arc<Names>, Places),
        config: Config,
        backends: Backends,
        gone: Vec<Gone<Number>>,
    ) -> Instance {
        let lost = gone.iter().filter(|gone| matches!(gone.what, Number::Server(_))).count();
        let mut next = Instance {
            tables: crate::tables::following(&self.tables, &config),
            servers: Arc::clone(&self.servers),
            left_in_rows: self.left_in_rows + lost,
            generation: self.generation + 1,
            lease: self.lease.succeed(gone),
            live: Arc::clone(&self.live),
            config,
            names,
            backends,
            listeners,
        };
        let servers = next.server_count();
        let has_shrunk = lost > 0 && next.left_in_rows > FEW_IN_ROWS.max(servers / 4);
        if has_shrunk || servers > FEW_IN_ROWS + 2 * next.servers.room() {
            next.renew_rows();
        }
        next
    }

    /// What is kept of servers that it has not goes with the snapshots before it, and what is kept of those that it has does not stay
    /// with those.
    fn renew_rows(&mut self) {
        let renewed = self.config.proxies.iter().filter_map(|proxy| {
            let at = proxy.id.0 as usize;
            let backend = self.backends.get(at)?;
            Some((at, if backend.suits(proxy) { Arc::clone(backend) } else { Arc::new(backend.next(proxy)) }))
        });
        self.backends = Backends::of(renewed.collect());
        let used = self.config.proxies.iter().flat_map(|proxy| {
            let backend = self.backends.get(proxy.id.0 as usize);
            proxy.servers.iter().filter_map(move |server| Some(backend?.flat(server.id)))
        });
        let servers = self.servers.next(used);
        self.servers = Arc::new(servers);
        self.left_in_rows = 0;
    }

    /// Frees the memory of servers that no snapshot has any more.
    pub(crate) fn free_left(&self) {
        self.backends.iter().for_each(|backend| backend.free_left());
        self.servers.free_left();
    }

    /// Keeps the numbers of what it has, for who was given some of it and does not keep all of it.
    pub(crate) fn lease(&self) -> Lent {
        Arc::clone(&self.lease)
    }

    /// Whether it has the proxies that another one has, though not their servers.
    pub(crate) fn has_proxies_of(&self, other: &Instance) -> bool {
        Arc::ptr_eq(&self.names, &other.names)
    }

    /// The stick tables that the configuration has, and their numbers. Those of before that it has no more are not among them.
    pub fn named_tables(&self) -> impl DoubleEndedIterator<Item = (usize, &Arc<Table>)> {
        let tables = self.tables.iter().enumerate().zip(self.config.tables.iter());
        tables.filter(|(_, spec)| !is_gone(spec)).map(|(table, _)| table)
    }

    /// Number of servers of all backends.
    pub fn server_count(&self) -> usize {
        self.config.proxies.iter().map(|proxy| proxy.servers.len()).sum()
    }

    /// The flat number of a server, under which threads keep their pools and counters.
    #[inline]
    pub fn server_index(&self, proxy: ProxyId, server: ServerId) -> usize {
        self.backends[proxy.0 as usize].flat(server)
    }

    /// The frontend of that name.
    pub fn frontend_by_name(&self, name: &[u8]) -> Option<&Proxy> {
        self.config.find_proxy(*self.names.frontends.get(std::str::from_utf8(name).ok()?)?)
    }

    /// The backend of that name.
    pub fn backend_by_name(&self, name: &[u8]) -> Option<&Proxy> {
        self.config.find_proxy(*self.names.backends.get(std::str::from_utf8(name).ok()?)?)
    }

    /// The listener with that number, which is of this configuration.
    ///
    /// # Panics
    /// When it is not.
    #[inline]
    pub fn bind(&self, listener: usize) -> &Bind {
        match self.find_bind(listener) {
            Some(bind) => bind,
            None => panic!("no listener has the number {listener}"),
        }
    }

    /// The listener with that number, if this configuration has it.
    #[inline]
    pub fn find_bind(&self, listener: usize) -> Option<&Bind> {
        let (proxy, at) = (*self.listeners.get(listener)?)?;
        self.config.find_proxy(proxy)?.binds.get(at as usize)
    }
}

/// By the number of a listener, its proxy and its position among the proxy's.
fn places(config: &Config) -> Places {
    let all = || {
        config
            .proxies
            .iter()
            .flat_map(|p| p.binds.iter().zip(0..).map(|(bind, at)| (bind.number, (p.id, at))))
    };
    let mut places = vec![None; all().map(|(number, _)| number as usize + 1).max().unwrap_or(0)];
    all().for_each(|(number, place)| places[number as usize] = Some(place));
    places.into()
}

impl Names {
    fn of(config: &Config) -> Names {
        let names = |wanted: fn(&Proxy) -> bool| {
            config.proxies.iter().filter(|p| wanted(p)).map(|p| (Arc::clone(&p.name), p.id)).collect()
        };
        Names { frontends: names(Proxy::is_fe), backends: names(Proxy::is_be) }
    }
}

impl Live {
    fn new(
        config: &Config,
        places: Arc<FreeNumbers>,
        (trackers, peers): (Trackers, crate::peers::Sections),
        (program, hostname): (&str, &str),
        start_wall_us: u64,
    ) -> Live {
        let proxies = config.proxies.len();
        let nbthread = config.global.nbthread.max(1);
        let count = config.proxies.iter().map(|proxy| proxy.binds.len()).sum();
        let listeners: Growing<Listening> = (0..count).map(|_| Listening::default()).collect();
        for (proxy, bind) in
            config.proxies.iter().flat_map(|proxy| proxy.binds.iter().map(|bind| (proxy.id, bind)))
        {
            listeners[bind.number as usize].begin(proxy, bind, 0);
        }
        let numbers = |proxy: &Proxy| Mutex::new(proxy.binds.iter().map(|bind| bind.number).collect());
        limit_variables(&config.global.tune);
        Live {
            program: program.to_owned(),
            hostname: hostname.to_owned(),
            threads: (0..nbthread).map(|_| Arc::new(ThreadCounters::new(proxies, count))).collect(),
            frontend_peaks: (0..proxies).map(|_| Peaks::default()).collect(),
            backend_peaks: (0..proxies).map(|_| Peaks::default()).collect(),
            process_peaks: Peaks::default(),
            tls_peaks: TlsPeaks::default(),
            process_gate: Gate::new(u32::try_from(config.global.maxconn).unwrap_or(u32::MAX)),
            frontend_gates: config.proxies.iter().map(|p| Gate::new(p.maxconn)).collect(),
            log_forward_gates: config.log_forwards.iter().map(|f| Gate::new(f.maxconn)).collect(),
            counted: config.proxies.iter().map(|proxy| numbers(proxy)).collect(),
            proxy_since: (0..proxies).map(|_| AtomicU64::new(0)).collect(),
            listeners,
            connection_rate: RateGate::new(config.global.maxconnrate),
            session_rate: RateGate::new(config.global.maxsessrate),
            tls_rate: RateGate::new(config.global.maxsslrate),
            tls_gate: Gate::new(config.global.maxsslconn),
            frontend_rates: config.proxies.iter().map(|p| RateGate::new(p.fe_sps_limit)).collect(),
            log_counters: (0..proxies).map(|_| AtomicU64::new(0)).collect(),
            peers,
            process_vars: RwLock::new(VarSet::new(Scope::Proc)),
            log: Arc::new(LogShared::new(config)),
            start_wall_us,
            boot_ms: AtomicU32::new(0),
            thread_load: (0..nbthread).map(|_| AtomicU32::new(0)).collect(),
            stopping: AtomicU8::new(0),
            stop_is_announced: AtomicBool::new(false),
            stopping_since_ms: AtomicU64::new(0),
            stopped_threads: AtomicU32::new(0),
            handle: OnceLock::new(),
            services: OnceLock::new(),
            unpublished: config.proxies.iter().map(|p| AtomicBool::new(p.unpublished)).collect(),
            frontend_paused: config.proxies.iter().map(|_| AtomicBool::new(false)).collect(),
            frontend_shut: config.proxies.iter().map(|_| AtomicBool::new(false)).collect(),
            bytes_out_rate: Sampled::new(start_wall_us / 1000),
            trackers,
            resolvers: SectionCounts::of(config),
            tracing: Tracing::new(config.traces.clone(), config.opentelemetry.is_some()),
            unsent_spans: Unsent::default(),
            refused: LastRefused::new(proxies),
            warnings: AtomicU64::new(0),
            stream_blocks: AtomicU32::new(0),
            changes: Changes::new(places, proxies, count),
            current: Mutex::new(None),
            former: Mutex::default(),
        }
    }

    /// What is in force now. `None` when the process ends, and nobody serves any more.
    pub fn current(&self) -> Option<Arc<Instance>> {
        self.lock_current().clone()
    }

    pub(crate) fn set_current(&self, instance: &Arc<Instance>) {
        let before = self.lock_current().replace(Arc::clone(instance));
        // A small one goes with its last pin, wherever that is. For the others somebody has to find the time.
        if let Some(before) = before.filter(|before| before.server_count() > SMALL) {
            self.lock_former().push(before);
        }
    }

    fn lock_former(&self) -> MutexGuard<'_, Vec<Arc<Instance>>> {
        self.former.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Large snapshots that were in force before and that nobody pins any more, to be taken apart.
    pub(crate) fn take_unpinned(&self) -> Vec<Arc<Instance>> {
        self.lock_former().extract_if(.., |snapshot| Arc::strong_count(snapshot) == 1).collect()
    }

    /// How many large snapshots were in force before and may be pinned by somebody.
    pub(crate) fn former_count(&self) -> usize {
        self.lock_former().len()
    }

    /// Nobody serves any more, and nothing is in force.
    pub fn end(&self) {
        let last = (self.lock_current().take(), std::mem::take(&mut *self.lock_former()));
        drop(last);
    }

    fn lock_current(&self) -> MutexGuard<'_, Option<Arc<Instance>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The counters of a frontend: those of its listeners on each thread, and what is left there of listeners that are gone.
    /// Takes a lock, so not for what is done per request.
    pub fn frontend_counters(&self, proxy: ProxyId) -> impl Iterator<Item = &Counters> + Clone {
        let at = proxy.0 as usize;
        let listeners = self.counted[at].lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.threads.iter().flat_map(move |thread| {
            let own = listeners.clone().into_iter().map(move |number| &thread.listeners[number as usize]);
            own.chain([&thread.frontends[at]])
        })
    }

    /// A listener joins those that count for its frontend, with snapshot `since`.
    pub(crate) fn admit_listener(&self, frontend: ProxyId, bind: &Bind, since: u64) {
        self.listeners[bind.number as usize].begin(frontend, bind, since);
        self.counted[frontend.0 as usize].lock().unwrap_or_else(PoisonError::into_inner).push(bind.number);
    }

    /// What a listener that is gone had counted is with its frontend by now.
    pub(crate) fn forget_listener(&self, listener: u32, frontend: ProxyId) {
        let mut counted = self.counted[frontend.0 as usize].lock().unwrap_or_else(PoisonError::into_inner);
        counted.retain(|other| *other != listener);
        self.listeners[listener as usize].gate.reset_peak();
    }

    /// Forgets the largest rates.
    pub fn reset_peaks(&self) {
        for peaks in [&self.frontend_peaks, &self.backend_peaks] {
            peaks.iter().for_each(|(_, peaks)| peaks.reset());
        }
        self.process_peaks.reset();
        self.tls_peaks.reset();
        if let Some(now) = self.current() {
            now.servers.reset_peaks();
        }
    }

    /// The largest rates of a frontend: sessions, requests, connections.
    pub fn frontend_peak_rates(&self, proxy: ProxyId) -> [u64; 3] {
        let peaks = &self.frontend_peaks[proxy.0 as usize];
        let all = self.frontend_counters(proxy);
        [
            peak(&peaks.sessions, all.clone().map(|c| &c.session_rate)),
            peak(&peaks.requests, all.clone().map(|c| &c.request_rate)),
            peak(&peaks.connections, all.map(|c| &c.connection_rate)),
        ]
    }

    /// Says which services there are, once, before there is traffic.
    pub fn offer(&self, services: Vec<Box<dyn Service>>) {
        let _ = self.services.set(services.into());
    }

    /// The service of that name.
    pub fn service(&self, name: &str) -> Option<&dyn Service> {
        self.services.get()?.iter().map(|service| &**service).find(|service| service.name() == name)
    }

    /// Remembers how to stop the runtime.
    pub fn set_handle(&self, handle: Handle) {
        // The first soft stop's handle is as good as a later one's.
        let _ = self.handle.set(handle);
    }

    /// How to stop the runtime, once a stop was asked for.
    pub fn handle(&self) -> Option<&Handle> {
        self.handle.get()
    }

    /// A thread closed its listeners.
    pub fn thread_stopped_accepting(&self) {
        self.stopped_threads.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether a soft stop has nothing left to wait for.
    pub fn is_idle(&self) -> bool {
        self.stopping() != Stopping::No
            && self.stopped_threads.load(Ordering::SeqCst) as usize >= self.threads.len()
            && self.process_gate.current() == 0
            && !self.peers.have_to_teach()
            && self.unsent_spans.is_none()
    }

    /// How far the process is on its way out.
    #[inline]
    pub fn stopping(&self) -> Stopping {
        Stopping::of_number(self.stopping.load(Ordering::Relaxed))
    }

    /// Tells those who ask that a soft stop will begin (`grace`). Nothing else changes before it does.
    pub fn announce_stop(&self) {
        self.stop_is_announced.store(true, Ordering::Relaxed);
    }

    /// What operators and rules hear: whether the process is on its way out, or will be when `grace` is over.
    pub fn says_it_stops(&self) -> bool {
        self.stopping() != Stopping::No || self.stop_is_announced.load(Ordering::Relaxed)
    }

    /// When the stop began, in milliseconds of the loop's clock; 0 before.
    pub fn stopping_since_ms(&self) -> u64 {
        self.stopping_since_ms.load(Ordering::Relaxed)
    }

    /// Begins or hastens the end; it never goes back.
    pub fn stop(&self, how: Stopping) {
        // Who was first stays.
        let now_ms = clock::now_ms().max(1);
        let _ = self.stopping_since_ms.compare_exchange(0, now_ms, Ordering::SeqCst, Ordering::SeqCst);
        self.stopping.fetch_max(how as u8, Ordering::SeqCst);
    }
}

/// `tune.vars.*-max-size`.
pub(crate) fn limit_variables(tune: &Tune) {
    for (budget, max) in [
        (&BUDGETS.global, tune.vars_global_max_size),
        (&BUDGETS.process, tune.vars_proc_max_size),
        (&BUDGETS.session, tune.vars_sess_max_size),
        (&BUDGETS.transaction, tune.vars_txn_max_size),
        (&BUDGETS.reqres, tune.vars_reqres_max_size),
        (&BUDGETS.check, tune.vars_check_max_size),
    ] {
        budget.max.store(max as u64, Ordering::Relaxed);
    }
}
