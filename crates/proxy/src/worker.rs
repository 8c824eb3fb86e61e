//! What one thread owns ([`Thread`]: its counters, its idle server connections, its log sockets, its memory for requests), and
//! what it sees of the configuration ([`Worker`]).
//!
//! **Invariant:** nothing here is touched by another thread. Cells are never borrowed across an `await`.

use std::cell::{Cell, OnceCell, RefCell};
use std::ops::Deref;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use thalweg_balance::View;
use thalweg_config::model::{Global, LogDest, LogLevel, LogTarget, Proxy, ProxyId, Server, ServerId, Shared};
use thalweg_h1::CaseMap;
use thalweg_operate::log::forward::{Message, Rewrite};
use thalweg_operate::log::{Logger, Route};
use thalweg_runtime::pool::{Stock, TakeStock};
use thalweg_runtime::{Reason, TaskId, clock};
use thalweg_sample::context::{Clock, Scratch};
use thalweg_shared::AtomicU64;

use crate::backend::Backend;
use crate::backend::descriptors::Descriptors;
use crate::backend::pool::Pools;
use crate::connection::tls::RecordLimits;
use crate::counters::{Counters, Kept, OfServer, PastSecond, Rate, ThreadCounters};
use crate::instance::{Instance, Lent, Live, STREAM_BLOCK};
pub use crate::sessions::SessionEntry;
use crate::sessions::SessionList;
use crate::spans::Spans;
use crate::stopping::Stopping;
use crate::stream::StreamState;
use crate::stream::entry::Entries;

/// A thread and the configuration that it works by: a snapshot that is pinned for as long as anybody on the thread holds this.
/// A request, a TCP stream, a check holds one from its start to its end; what lives longer holds the [`Thread`], and asks it
/// anew each time ([`Thread::pin`]). Costs no atomic operation.
pub struct Worker {
    pub instance: Arc<Instance>,
    own: Rc<Thread>,
    /// By proxy.
    routes: Routes,
    /// Stick tables, as this thread refers to them.
    pub tables: Rc<[thalweg_stick::Local]>,
    /// Servers that were added since: see [`Worker::server`].
    later: OnceCell<Box<Later>>,
}

/// Where the log lines of each proxy go.
type Routes = Rc<[Option<Rc<Route>>]>;

/// A server that is newer than a pin, and was given to one of its streams. A list: there are none or few, and what was lent of
/// it stays where it is.
struct Later {
    proxy: ProxyId,
    server: Shared<Server>,
    _keeps_numbers: Lent,
    next: OnceCell<Box<Later>>,
}

impl Deref for Worker {
    type Target = Thread;

    #[inline]
    fn deref(&self) -> &Thread {
        &self.own
    }
}

/// See the module's documentation.
pub struct Thread {
    pub live: Arc<Live>,
    /// This thread's number, from 0.
    pub thread: usize,
    counters: Arc<ThreadCounters>,
    /// What is in force.
    pinned: RefCell<Option<Rc<Worker>>>,
    /// Of every snapshot that something on this thread is served by.
    pins: RefCell<Vec<Weak<Worker>>>,
    /// Listeners that are not in force any more and have sessions on this thread, with what serves those.
    left_behind: RefCell<Vec<(u32, Rc<Worker>)>>,
    has_left_behind: Cell<bool>,
    /// The listeners of sessions that are on their way into the list.
    starting: RefCell<Vec<u32>>,
    pub(crate) looks_after: LooksAfter,
    /// By flat server number.
    pub(crate) pools: Pools,
    pub(crate) descriptors: Descriptors,
    /// The task that looks after idle server connections.
    pub janitor: Cell<TaskId>,
    /// The millisecond of the monotonic clock until which it sleeps; 0 while it is awake.
    pub janitor_sleeps_until: Cell<u64>,
    /// This thread's view of each backend's load balancer, by proxy.
    views: RefCell<Vec<View>>,
    logger: RefCell<Logger>,
    pub scratch: RefCell<Scratch>,
    /// Rendered log lines and other short-lived text.
    pub text: RefCell<Vec<u8>>,
    // Boxed, so that taking and giving moves a pointer rather than two kilobytes.
    #[allow(clippy::vec_box)]
    spare_streams: RefCell<Vec<Box<StreamState>>>,
    random: Cell<u64>,
    /// The number of the next stream; at the start of a block, another one is due.
    next_stream: Cell<u32>,
    /// What limits that are only tried out would have refused.
    pub dry_runs: crate::stream::limit::DryRuns,
    /// The sessions on this thread.
    pub sessions: RefCell<SessionList>,
    /// The streams on this thread.
    pub streams: Entries,
    /// The tasks that accept on this thread, with their listeners.
    pub accepting: RefCell<Vec<(usize, TaskId)>>,
    /// Tasks that a soft stop ends at once: what accepts for the CLI.
    pub until_stop: RefCell<Vec<TaskId>>,
    /// `peers` sections that live on this thread.
    pub peers: RefCell<Vec<Rc<crate::peers::Service>>>,
    /// A soft stop was asked for, and no task accepts any more.
    pub stopped: Cell<bool>,
    /// What collectors are to be told of this thread's streams.
    pub(crate) spans: Spans,
    /// Alerts by e-mail on their way.
    pub(crate) mails: Cell<u32>,
    /// Nothing is accepted for now (SIGTTOU).
    pub paused: Cell<bool>,
    case: Option<CaseMap>,
    /// Servers that are not as configured: see [`Worker::changed`].
    pub(crate) copies: crate::backend::identity::Copies,
    /// The `resolvers` sections that belong to this thread.
    pub(crate) sections: crate::resolvers::Sections,
    /// Memory of crypt(3), for hashed passwords.
    pub crypt: RefCell<thalweg_sys::crypt::Crypt>,
}

/// What one thread does for all, once there is something to do.
pub(crate) struct LooksAfter {
    /// Entries of stick tables that are due.
    pub tables: Cell<bool>,
    /// The task for answers about certificates.
    pub responses: Cell<TaskId>,
    /// Files of certificates.
    pub files: Cell<bool>,
}

impl Default for LooksAfter {
    fn default() -> LooksAfter {
        LooksAfter { tables: Cell::default(), responses: Cell::new(TaskId::NONE), files: Cell::default() }
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<Thread>>> = const { RefCell::new(None) };
}

/// Makes `thread` the one that is called so.
pub fn install(thread: &Rc<Thread>) {
    CURRENT.with_borrow_mut(|current| *current = Some(Rc::clone(thread)));
}

/// The thread has no configuration any more, and nothing begins on it.
pub fn uninstall() {
    if let Some(thread) = CURRENT.with_borrow_mut(Option::take) {
        let pinned = (thread.pinned.take(), thread.left_behind.take());
        drop(pinned);
        thread.live.end();
    }
}

/// What this thread works by now; `None` before its start and after its end.
#[inline]
pub fn current() -> Option<Rc<Worker>> {
    CURRENT.with_borrow(|current| current.as_ref()?.pin())
}

/// From now on the calling thread works by what is current, if it works at all.
pub fn follow_current() {
    let thread = CURRENT.with_borrow(Clone::clone);
    if let Some(thread) = thread
        && let Some(now) = thread.live.current()
        && !thread.pin().is_some_and(|pin| Arc::ptr_eq(&pin.instance, &now))
    {
        thread.follow(now);
    }
}

/// Streams kept for reuse while this thread is busy: as many as ten connections of HTTP/2 have at once.
const SPARE_STREAMS_MAX: usize = 1024;

impl Thread {
    /// The state of thread `thread`. Must run on that thread: it opens sockets.
    pub fn new(instance: Arc<Instance>, thread: usize) -> Rc<Thread> {
        let global = &instance.config.global;
        let live = Arc::clone(&instance.live);
        let log_backends: Arc<dyn thalweg_operate::log::backend::Backends> = live.clone();
        let logger = Logger::new(global, &live.program, &live.hostname, Arc::clone(&live.log), log_backends);
        let mut seed = [0u8; 8];
        // Seeds differ between threads and starts; it need not be secret.
        seed.copy_from_slice(
            &(clock::wall_us() ^ (thread as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)).to_ne_bytes(),
        );
        let counters = Arc::clone(&live.threads[thread]);
        let thread = Rc::new(Thread {
            thread,
            counters,
            pinned: RefCell::new(None),
            pins: RefCell::default(),
            left_behind: RefCell::default(),
            has_left_behind: Cell::new(false),
            starting: RefCell::default(),
            looks_after: LooksAfter::default(),
            pools: Pools::default(),
            descriptors: Descriptors::default(),
            janitor: Cell::new(TaskId::NONE),
            janitor_sleeps_until: Cell::new(0),
            views: RefCell::default(),
            logger: RefCell::new(logger),
            scratch: RefCell::new(Scratch::new(global.tune.bufsize)),
            text: RefCell::new(Vec::with_capacity(4096)),
            spare_streams: RefCell::new(Vec::new()),
            random: Cell::new(u64::from_ne_bytes(seed) | 1),
            next_stream: Cell::new(0),
            dry_runs: Default::default(),
            sessions: RefCell::default(),
            streams: Entries::default(),
            accepting: RefCell::default(),
            until_stop: RefCell::default(),
            peers: RefCell::default(),
            stopped: Cell::new(false),
            spans: Spans::default(),
            mails: Cell::new(0),
            paused: Cell::new(false),
            case: case_map(global),
            copies: Default::default(),
            sections: Default::default(),
            crypt: RefCell::default(),
            live,
        });
        thread.follow(instance);
        thread
    }

    /// From now on this is in force: what begins on this thread works by it.
    pub fn follow(self: &Rc<Self>, instance: Arc<Instance>) {
        let before = self.pin();
        let same = before.as_ref().filter(|before| before.instance.has_proxies_of(&instance));
        let routes = same.map_or_else(|| self.routes(&instance), |before| Rc::clone(&before.routes));
        let tables = tables_of(&instance, before.as_deref());
        let mut views = self.views.borrow_mut();
        let proxies = views.len().max(instance.backends.len());
        views.resize_with(proxies, View::default);
        drop(views);
        let pin = Rc::new(Worker { instance, own: Rc::clone(self), routes, tables, later: OnceCell::new() });
        self.pins.borrow_mut().retain(|pin| pin.strong_count() > 0);
        self.pins.borrow_mut().push(Rc::downgrade(&pin));
        let last = self.pinned.replace(Some(Rc::clone(&pin)));
        if let Some(before) = before {
            self.leave_behind(&before, &pin);
        }
        // What is dropped with it may look at this thread.
        drop(last);
        self.logger.borrow_mut().forget_unused();
    }

    /// Sessions whose listener is not in force any more are served by what last had it, and are to end.
    fn leave_behind(&self, before: &Rc<Worker>, now: &Worker) {
        let lost = |listener: u32| now.instance.find_bind(listener as usize).is_none();
        let binds = before.instance.config.proxies.iter().flat_map(|proxy| &proxy.binds);
        let lost: Vec<u32> = binds.map(|bind| bind.number).filter(|number| lost(*number)).collect();
        if lost.is_empty() {
            return;
        }
        let mut left = self.left_behind.borrow_mut();
        for listener in lost {
            if self.serves(listener) {
                left.push((listener, Rc::clone(before)));
            }
        }
        self.has_left_behind.set(!left.is_empty());
        drop(left);
        self.wake_sessions();
    }

    /// What a session of this listener is served by now: what is in force, or what last had the listener.
    #[inline]
    pub fn pin_for(&self, listener: usize) -> Option<Rc<Worker>> {
        let pin = self.pin()?;
        if crate::plant::bug("pin-left") {
            std::mem::forget(Rc::clone(&pin));
        }
        if self.has_left_behind.get() { self.last_pin_for(listener).or(Some(pin)) } else { Some(pin) }
    }

    #[cold]
    fn last_pin_for(&self, listener: usize) -> Option<Rc<Worker>> {
        let left = self.left_behind.borrow();
        left.iter().find(|(left, _)| *left as usize == listener).map(|(_, pin)| Rc::clone(pin))
    }

    /// What serves a connection that came to a listener by a snapshot that this thread may not follow any more.
    pub fn pin_by(self: &Rc<Self>, listener: usize, instance: &Arc<Instance>) -> Option<Rc<Worker>> {
        let now = self.pin_for(listener)?;
        if now.instance.find_bind(listener).is_some() {
            return Some(now);
        }
        instance.find_bind(listener)?;
        let (instance, own) = (Arc::clone(instance), Rc::clone(self));
        let (routes, tables) = (self.routes(&instance), tables_of(&instance, Some(&now)));
        let pin = Rc::new(Worker { instance, own, routes, tables, later: OnceCell::new() });
        self.pins.borrow_mut().push(Rc::downgrade(&pin));
        self.left_behind.borrow_mut().push((u32::try_from(listener).ok()?, Rc::clone(&pin)));
        self.has_left_behind.set(true);
        Some(pin)
    }

    /// Whether a session of this listener is to end when it is idle: the process stops, or the listener is not in force any more.
    #[inline]
    pub fn leaves(&self, listener: usize) -> bool {
        self.live.stopping() != Stopping::No
            || self.has_left_behind.get() && self.last_pin_for(listener).is_some()
    }

    /// A session of a listener is on its way.
    pub fn session_starts(&self, listener: usize) {
        self.starting.borrow_mut().push(u32::try_from(listener).unwrap_or(u32::MAX));
    }

    /// It is there: its slot in the list.
    pub fn session_began(&self, session: SessionEntry) -> usize {
        let mut starting = self.starting.borrow_mut();
        if let Some(at) = starting.iter().position(|listener| *listener == session.listener) {
            starting.swap_remove(at);
        }
        self.sessions.borrow_mut().insert(session)
    }

    /// Whether anything on this thread is about this listener.
    fn serves(&self, listener: u32) -> bool {
        self.accepting.borrow().iter().any(|(other, _)| *other == listener as usize)
            || self.starting.borrow().contains(&listener)
            || self.sessions.borrow().iter().any(|session| session.listener == listener)
    }

    /// A session of a listener ended, or what accepted for it: if nothing is left of what was left behind, what served it goes.
    pub fn left_listener(&self, listener: usize) {
        let listener = u32::try_from(listener).unwrap_or(u32::MAX);
        if !self.has_left_behind.get() {
            return;
        }
        if !self.serves(listener) {
            let mut left = self.left_behind.borrow_mut();
            let over: Vec<_> = left.extract_if(.., |(other, _)| *other == listener).collect();
            self.has_left_behind.set(!left.is_empty());
            drop(left);
            drop(over);
        }
    }

    /// The snapshots that something on this thread is served by, with how much of it.
    pub fn pins(&self) -> Vec<(u64, usize)> {
        let pins = self.pins.borrow();
        let held =
            pins.iter().filter_map(|pin| Some((pin.upgrade()?.instance.generation, pin.strong_count())));
        held.collect()
    }

    /// Writes a line to one destination of logs, without a level or a sender.
    pub fn note(&self, dest: &LogDest, line: &[u8]) {
        self.logger.borrow_mut().note(dest, line, clock::wall_us());
    }

    fn routes(&self, instance: &Instance) -> Routes {
        let mut logger = self.logger.borrow_mut();
        let mut routes = vec![None; instance.backends.len()];
        for proxy in &instance.config.proxies {
            routes[proxy.id.0 as usize] = logger.route(&proxy.log_targets);
        }
        Routes::from(routes)
    }

    /// What is in force on this thread; `None` once it has ended.
    #[inline]
    pub fn pin(&self) -> Option<Rc<Worker>> {
        self.pinned.borrow().clone()
    }

    /// This thread's counters.
    #[inline]
    pub fn counters(&self) -> &ThreadCounters {
        &self.counters
    }

    /// This thread's counters of a listener, which are its frontend's.
    #[inline]
    pub fn fe_counters(&self, listener: usize) -> &Counters {
        self.counters().listeners.mine(listener)
    }

    /// A connection was accepted.
    pub fn count_connection(&self, listener: usize) {
        let now_ms = clock::now_ms();
        let instance = &*self.live;
        let proxy = instance.listeners[listener].frontend();
        let counters = self.fe_counters(listener);
        counters.connections.add(1);
        if let Some(past) = counters.connection_rate.add(now_ms) {
            let rates = instance.frontend_counters(proxy).map(|c| &c.connection_rate);
            raise(&instance.frontend_peaks[proxy.0 as usize].connections, rates, past);
        }
        let process = &self.counters().process;
        process.connections.add(1);
        if let Some(past) = process.connection_rate.add(now_ms) {
            let rates = instance.threads.iter().map(|t| &t.process.connection_rate);
            raise(&instance.process_peaks.connections, rates, past);
        }
    }

    /// A session of a listener begins, which [ends](Thread::end_session) once.
    pub fn begin_session(&self, listener: usize) {
        let now_ms = clock::now_ms();
        let instance = &*self.live;
        let proxy = instance.listeners[listener].frontend();
        let counters = self.fe_counters(listener);
        counters.total.add(1);
        if let Some(past) = counters.session_rate.add(now_ms) {
            let rates = instance.frontend_counters(proxy).map(|c| &c.session_rate);
            raise(&instance.frontend_peaks[proxy.0 as usize].sessions, rates, past);
        }
        let process = &self.counters().process;
        if let Some(past) = process.session_rate.add(now_ms) {
            let rates = instance.threads.iter().map(|t| &t.process.session_rate);
            raise(&instance.process_peaks.sessions, rates, past);
        }
        counters.come();
    }

    /// A session that [began](Thread::begin_session) is over.
    pub fn end_session(&self, listener: usize) {
        self.fe_counters(listener).leave();
    }

    /// A request begins on a listener.
    #[inline]
    pub fn count_request(&self, listener: usize) {
        let counters = self.fe_counters(listener);
        counters.requests.add(1);
        self.counters().process.requests.add(1);
        if let Some(past) = counters.request_rate.add(clock::now_ms()) {
            let instance = &*self.live;
            let proxy = instance.listeners[listener].frontend();
            let rates = instance.frontend_counters(proxy).map(|c| &c.request_rate);
            raise(&instance.frontend_peaks[proxy.0 as usize].requests, rates, past);
        }
    }

    /// A stream comes to a backend, whose counters this returns.
    #[inline]
    pub fn count_stream(&self, backend: ProxyId) -> &Counters {
        let counters = self.be_counters(backend);
        counters.total.add(1);
        if let Some(past) = counters.session_rate.add(clock::now_ms()) {
            let at = backend.0 as usize;
            let rates = self.live.threads.iter().map(|t| &t.backends[at].session_rate);
            raise(&self.live.backend_peaks[at].sessions, rates, past);
        }
        counters
    }

    /// This thread's counters of a backend.
    #[inline]
    pub fn be_counters(&self, id: ProxyId) -> &Counters {
        self.counters().backends.mine(id.0 as usize)
    }

    /// Runs `f` with this thread's view of a backend's balancer.
    pub fn with_view<R>(&self, id: ProxyId, f: impl FnOnce(&mut View) -> R) -> R {
        f(&mut self.views.borrow_mut()[id.0 as usize])
    }

    /// The time, for expressions.
    #[inline]
    pub fn clock(&self) -> Clock {
        Clock { mono_us: clock::now_us(), wall_us: i64::try_from(clock::wall_us()).unwrap_or(i64::MAX) }
    }

    /// A number that no other stream has, for `%rt`: counted per thread, in blocks.
    #[inline]
    pub fn next_stream_id(&self) -> u32 {
        let next = self.next_stream.get();
        if !next.is_multiple_of(STREAM_BLOCK) {
            self.next_stream.set(next.wrapping_add(1));
            return next;
        }
        let block = self.live.stream_blocks.fetch_add(1, Ordering::Relaxed);
        let first = block.wrapping_mul(STREAM_BLOCK);
        self.next_stream.set(first.wrapping_add(1));
        first
    }

    /// 64 random bits, good for spreading load, not for secrets (xorshift64*).
    #[inline]
    pub fn next_random(&self) -> u64 {
        let mut x = self.random.get();
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.random.set(x);
        x.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Where messages for these targets go.
    pub fn log_route(&self, targets: &Arc<[LogTarget]>) -> Option<Rc<Route>> {
        self.logger.borrow_mut().route(targets)
    }

    /// Sends a line that is about no proxy.
    pub fn log_line(&self, route: &Route, level: LogLevel, message: &[u8]) {
        self.logger.borrow_mut().send(route, level, None, b"-", message, clock::wall_us());
    }

    /// Sends a message of another program on.
    pub fn relay_log(&self, route: &Route, message: &Message<'_>, rewrite: &Rewrite) {
        self.logger.borrow_mut().relay(route, message, rewrite);
    }

    /// Memory for one request, used before or new.
    pub fn take_stream(&self) -> Box<StreamState> {
        let spare = self.spare_streams.borrow_mut().pop();
        spare.unwrap_or_else(|| Box::new(StreamState::new(self.streams.add())))
    }

    /// Gives the memory of a request back.
    pub fn give_stream(&self, mut stream: Box<StreamState>) {
        stream.entry.end();
        stream.facts.tracking.clear();
        stream.effects.bandwidth.clear();
        stream.upgraded = None;
        let mut spare = self.spare_streams.borrow_mut();
        if spare.len() < SPARE_STREAMS_MAX {
            spare.push(stream);
        }
    }

    /// Gives memory back that was needed only while there was more to do.
    pub fn trim(&self) {
        let spare = std::mem::take(&mut *self.spare_streams.borrow_mut());
        drop(spare);
        self.sessions.borrow_mut().trim();
        crate::connection::mux::trim();
    }

    /// Tells what this thread keeps for streams and sessions, but for what their heads and texts take beside them.
    pub fn take_stock(&self, take: &mut TakeStock<'_>) {
        let free = self.spare_streams.borrow().len();
        let used = self.streams.alive().saturating_sub(free);
        take(Stock { name: "stream", object_size: size_of::<StreamState>(), used, free });
        take(self.sessions.borrow().stock());
    }

    /// Nobody knows the server of that flat number any more: what this thread keeps of it is as if there had been none.
    pub(crate) fn forget_server(&self, server: usize) {
        self.pools.forget(server);
        if let Some(pin) = self.pin() {
            pin.instance.servers.forget(server, self.thread);
        }
        self.copies.forget(server);
    }

    /// The same for a proxy.
    pub(crate) fn forget_proxy(&self, proxy: ProxyId) {
        if let Some(view) = self.views.borrow_mut().get_mut(proxy.0 as usize) {
            *view = View::default();
        }
        self.counters.backends.forget(proxy.0 as usize);
        self.counters.frontends.forget(proxy.0 as usize);
    }

    /// Nobody knows the listener any more: what it counted counts for its frontend.
    pub(crate) fn forget_listener(&self, listener: u32, frontend: ProxyId) {
        self.counters.listeners.move_to(listener as usize, &self.counters.frontends, frontend.0 as usize);
    }

    /// Lets every session look at whether the process stops.
    pub fn wake_sessions(&self) {
        self.sessions.borrow().wake_all();
    }

    /// Idle connections are to be looked after at `at_ms`: the janitor must not sleep longer.
    #[inline]
    pub fn wake_janitor(&self, at_ms: u64) {
        if at_ms < self.janitor_sleeps_until.get() {
            self.janitor_sleeps_until.set(0);
            self.janitor.get().wake(Reason::OTHER);
        }
    }
}

impl Worker {
    /// The thread, for what lives longer than this.
    pub fn own(&self) -> &Rc<Thread> {
        &self.own
    }

    /// A stream is about to be sent to a server.
    #[inline]
    pub fn count_attempt(&self, server: OfServer<'_>) {
        server.counters.total.add(1);
        if let Some(past) = server.counters.session_rate.add(clock::now_ms()) {
            let all = &self.instance.servers;
            let rates = all.all(server.index).map(|counters| &counters.session_rate);
            raise(&all.own_peaks(server.index).sessions, rates, past);
        }
    }

    /// What this thread counts of a server.
    #[inline]
    pub fn of_server(&self, proxy: ProxyId, server: ServerId) -> OfServer<'_> {
        let index = self.instance.server_index(proxy, server);
        OfServer { index, counters: self.instance.servers.mine(index, self.thread) }
    }

    /// The same, for who stays longer than this pin.
    pub(crate) fn keep_counters(&self, proxy: ProxyId, server: ServerId) -> Kept {
        self.instance.servers.hold(self.instance.server_index(proxy, server), self.thread)
    }

    /// This thread's counters of a server.
    #[inline]
    pub fn srv_counters(&self, proxy: ProxyId, server: ServerId) -> &Counters {
        self.of_server(proxy, server).counters
    }

    /// A proxy of the running configuration.
    #[inline]
    pub fn proxy(&self, id: ProxyId) -> &Proxy {
        self.instance.config.proxy(id)
    }

    /// A server of a proxy of this pin. One that was added since belongs to it from when it was first given to one of its
    /// streams: balancers and queues are shared with streams that are newer. `None` when it is gone again.
    #[inline]
    pub fn server<'a>(&'a self, proxy: &'a Proxy, id: ServerId) -> Option<&'a Server> {
        proxy.server(id).or_else(|| self.later_server(proxy.id, id))
    }

    #[cold]
    fn later_server(&self, proxy: ProxyId, id: ServerId) -> Option<&Server> {
        let mut end = &self.later;
        while let Some(known) = end.get() {
            if known.proxy == proxy && known.server.id == id {
                return Some(&known.server);
            }
            end = &known.next;
        }
        let now = self.live.current()?;
        let server = now.config.find_proxy(proxy)?.shared_server(id)?.clone();
        let later = Box::new(Later { proxy, server, _keeps_numbers: now.lease(), next: OnceCell::new() });
        Some(&end.get_or_init(|| later).server)
    }

    /// The live state of a backend.
    #[inline]
    pub fn backend(&self, id: ProxyId) -> &Backend {
        &self.instance.backends[id.0 as usize]
    }

    /// Sends a message of no proxy to the targets of the `global` section.
    pub fn log_globally(&self, level: LogLevel, message: &[u8]) {
        let mut logger = self.logger.borrow_mut();
        if let Some(route) = logger.route(&self.instance.config.global.log_targets) {
            logger.send(&route, level, None, b"", message, clock::wall_us());
        }
    }

    /// How large records of TLS are, and how often a peer may change its key.
    pub fn record_limits(&self) -> RecordLimits {
        let tls = &self.instance.config.global.tls;
        RecordLimits::new(tls.record_max, tls.record_hard_max, tls.key_updates_max)
    }

    /// Whether anybody wants log lines of this proxy.
    #[inline]
    pub fn logs(&self, id: ProxyId) -> bool {
        self.routes[id.0 as usize].is_some()
    }

    /// Sends a log line of a proxy.
    pub fn log(&self, id: ProxyId, level: LogLevel, structured_data: &[u8], message: &[u8]) {
        if let Some(route) = &self.routes[id.0 as usize] {
            let tag = self.proxy(id).log_tag.as_deref().map(str::as_bytes);
            self.logger.borrow_mut().send(route, level, tag, structured_data, message, clock::wall_us());
        }
    }

    /// Where the lines of a proxy go.
    #[inline]
    pub fn route(&self, id: ProxyId) -> Option<&Rc<Route>> {
        self.routes[id.0 as usize].as_ref()
    }

    /// Sends a line to one target of a route. `tag` replaces the proxy's.
    pub fn log_to(
        &self,
        id: ProxyId,
        index: usize,
        level: LogLevel,
        tag: Option<&str>,
        structured_data: &[u8],
        message: &[u8],
    ) {
        if let Some(route) = self.route(id) {
            let tag = tag.or(self.proxy(id).log_tag.as_deref()).map(str::as_bytes);
            let mut logger = self.logger.borrow_mut();
            logger.send_one(route, index, level, tag, structured_data, message, clock::wall_us());
        }
    }

    /// Names of request fields to send to a backend's servers in another case.
    pub fn request_case(&self, backend: ProxyId) -> Option<&CaseMap> {
        self.case.as_ref().filter(|_| self.proxy(backend).opts.h1_case_adjust_bogus_server)
    }

    /// Names of response fields to send to a frontend's clients in another case.
    pub fn response_case(&self, frontend: ProxyId) -> Option<&CaseMap> {
        self.case.as_ref().filter(|_| self.proxy(frontend).opts.h1_case_adjust_bogus_client)
    }
}

/// The tables of a snapshot: those that `before` has, too, as it refers to them.
fn tables_of(instance: &Instance, before: Option<&Worker>) -> Rc<[thalweg_stick::Local]> {
    let known: &[thalweg_stick::Local] = before.map_or(&[], |before| &before.tables);
    if let Some(before) = before.filter(|_| known.len() == instance.tables.len()) {
        return Rc::clone(&before.tables);
    }
    let fresh = instance.tables.iter().skip(known.len());
    let known = known.iter().take(instance.tables.len()).cloned();
    known.chain(fresh.map(|table| thalweg_stick::Local::new(Arc::clone(table)))).collect()
}

/// A second is over: if it had more events than any before, that is the new peak.
#[cold]
pub(crate) fn raise<'a>(peak: &AtomicU64, rates: impl Iterator<Item = &'a Rate>, past: PastSecond) {
    let kept: u64 = rates.map(|rate| rate.in_second(past.second)).sum();
    peak.fetch_max(past.forgotten + kept, Ordering::Relaxed);
}

/// `h1-case-adjust`; `None` when nothing is adjusted.
fn case_map(global: &Global) -> Option<CaseMap> {
    if global.h1_case_adjust.is_empty() {
        return None;
    }
    let mut map = CaseMap::default();
    for (from, to) in &global.h1_case_adjust {
        // The configuration checked that both spell the same name.
        let _ = map.add(from.as_bytes(), to.as_bytes());
    }
    Some(map)
}
