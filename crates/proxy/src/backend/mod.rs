//! The live state of one backend: its load balancer, its servers, its queues. Shared by all threads.

mod adaptive;
pub mod algorithm;
pub mod assign;
pub mod connect;
pub mod connect_error;
mod demand;
pub(crate) mod descriptors;
mod drain;
mod follow;
mod hand_over;
pub mod health;
pub mod identity;
pub mod idle;
pub mod introduction;
pub mod key;
pub mod outliers;
pub mod pool;
pub(crate) mod rack;
pub mod reach;
pub mod refused;
pub mod resolved;
pub(crate) mod restore;
mod seating;
pub mod seats;
pub mod service;
pub mod shared;
pub(crate) mod shelf;
pub(crate) mod sockets;
pub mod standing;
mod state;
pub mod track;
mod transition;

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, PoisonError};

use thalweg_balance::{
    Balancer, Kept, LoadNow, Place, Priority, Queue, ServerIndex, ServerSpec, ServerView, Settings, Turn,
};
use thalweg_config::model::{self, Proxy, Server, ServerId};
use thalweg_live::{FreeNumbers, Rows};
use thalweg_runtime::{Reason, TaskId};
use thalweg_shared::{AtomicBool, AtomicU32, AtomicU64, Mutex};

use seats::Seats;
use service::{Service, UpTime};
use standing::Standing;
use state::ServerState;

/// See the module's documentation. The way of one or more snapshots to it, which keeps what their servers have.
pub struct Backend {
    common: Arc<Common>,
    pub balancer: Balancer,
    /// By number.
    servers: Rows<ServerState>,
    /// How many servers there were when this was made.
    made_for: usize,
}

impl Deref for Backend {
    type Target = Common;

    #[inline]
    fn deref(&self) -> &Common {
        &self.common
    }
}

/// What is there once per backend, whatever snapshots have it.
pub struct Common {
    id: model::ProxyId,
    /// Of servers.
    numbers: FreeNumbers,
    /// Servers of the file, and the flat number of the first of them: they have a row of places.
    configured: u32,
    first_flat: u32,
    /// Where places come from.
    places: Arc<FreeNumbers>,
    /// Some server has, or had, a limit that depends on how many requests its backend has.
    has_minconn: AtomicBool,
    /// Requests that wait for any server.
    queue: Queue,
    /// The most that did at once.
    queue_max: AtomicU32,
    /// Requests in some queue of this backend, by the token they are queued under.
    waiting: Mutex<HashMap<u64, Arc<Ticket>>>,
    next_token: AtomicU64,
    usable: AtomicU32,
    /// Who changes many servers at once: they are counted when all of them changed.
    holders: AtomicU32,
    pub(crate) up_time: UpTime,
    fullconn: AtomicU32,
    /// Whether requests are counted per server where all threads see it: for the algorithm or for a limit. Once they
    /// are, they always will be.
    tracks_load: AtomicBool,
    /// What servers are called and where they are reached, when that is not as configured.
    identities: identity::Identities,
    identity_versions: AtomicU32,
    /// How cookies come to be that the configuration does not name.
    dynamic_cookies: Mutex<identity::DynamicCookies>,
    /// Which servers are worse than others.
    watch: outliers::Watch,
}

impl Common {
    /// Whether the number of a server has a place of its own in what threads keep, whoever has the number.
    pub(crate) fn has_own_place(&self, server: ServerId) -> bool {
        server.0 < self.configured
    }

    /// Nobody knows the server of that number any more.
    pub(crate) fn give_number(&self, server: ServerId) {
        self.numbers.give(server.0);
    }
}

/// A server's place goes back with the server, if it is there as long as the backend. Those of servers that went before stayed the
/// backend's.
impl Drop for Common {
    fn drop(&mut self) {
        for row in self.numbers.rows() {
            let own = row.start.min(self.configured)..row.end.min(self.configured);
            self.places.give_row(self.first_flat + own.start..self.first_flat + own.end);
        }
    }
}

/// See [`Backend::hold`].
#[must_use]
pub(crate) struct Held<'b> {
    backend: &'b Backend,
    _plan: thalweg_balance::Held<'b>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.backend.holders.fetch_sub(1, Ordering::SeqCst);
        self.backend.count_usable();
    }
}

/// A request's place on a server. Whoever holds it gives it back with [`Backend::end`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    server: ServerIndex,
    /// It was counted. Those of before counting began are not, and must not be taken off.
    counted: bool,
}

impl Slot {
    /// The server.
    pub fn server(self) -> ServerId {
        ServerId(self.server.0)
    }
}

/// A request in a queue, as whoever frees a slot sees it.
pub struct Ticket {
    task: TaskId,
    /// Position of the server whose slot was handed over, plus one; 0 while waiting; `GONE` when the server went
    /// down and another one must be chosen.
    granted: AtomicU32,
    /// Which one it was that its queue served, once a slot was handed over.
    turn: AtomicU64,
    /// What the server of that slot is doing: whoever handed it over may have another way to it than who waited, and go.
    kept: OnceLock<Kept>,
}

const GONE: u32 = u32::MAX;

/// What became of a queued request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// Still waiting.
    No,
    /// It holds this slot.
    Server(Slot),
    /// Its server is gone: choose again.
    Again,
}

/// A place in a queue. Whoever drops it without having been served must call [`Backend::leave_queue`].
pub struct Queued {
    ticket: Arc<Ticket>,
    token: u64,
    place: Place,
    server: Option<ServerIndex>,
}

impl Queued {
    /// What became of it.
    pub fn grant(&self) -> Grant {
        match self.ticket.granted.load(Ordering::Acquire) {
            0 => Grant::No,
            GONE => Grant::Again,
            n => Grant::Server(Slot { server: ServerIndex(n - 1), counted: true }),
        }
    }

    /// The server it waits for, when it waits for a certain one.
    pub fn server(&self) -> Option<ServerIndex> {
        self.server
    }
}

impl Backend {
    /// The state of a backend that all snapshots from `since` on have. What threads have of its servers begins at `first_flat`, a row
    /// that was taken of `places`.
    pub fn new(proxy: &Proxy, first_flat: u32, places: &Arc<FreeNumbers>, since: u64) -> Backend {
        let specs: Vec<ServerSpec> = proxy.servers.iter().map(|server| spec(proxy, server)).collect();
        let settings = settings(proxy);
        let by_load = goes_by_load(proxy);
        let limited = proxy.servers.iter().any(|s| s.maxconn != 0);
        let common = Common {
            id: proxy.id,
            numbers: FreeNumbers::from(specs.len() as u32),
            configured: specs.len() as u32,
            first_flat,
            places: Arc::clone(places),
            has_minconn: AtomicBool::new(proxy.servers.iter().any(|s| s.follows_load())),
            queue: Queue::new(),
            queue_max: AtomicU32::new(0),
            waiting: Mutex::default(),
            next_token: AtomicU64::new(1),
            usable: AtomicU32::new(0),
            holders: AtomicU32::new(0),
            up_time: UpTime::new(),
            fullconn: AtomicU32::new(proxy.fullconn),
            // With a single server there is nothing to compare: only a limit needs the count.
            tracks_load: AtomicBool::new(limited || (by_load && proxy.servers.len() > 1)),
            identities: identity::Identities::default(),
            identity_versions: AtomicU32::new(0),
            dynamic_cookies: Mutex::new(identity::DynamicCookies::of(proxy)),
            watch: outliers::Watch::default(),
        };
        let servers = Rows::<ServerState>::new(proxy.servers.len());
        for (server, flat) in proxy.servers.iter().zip(first_flat..) {
            servers.at(server.id.0 as usize).begin(server, flat, since);
        }
        let balancer = Balancer::new(settings, &specs);
        let backend = Backend { common: Arc::new(common), balancer, servers, made_for: proxy.servers.len() };
        backend.usable.store(backend.usable_now(), Ordering::SeqCst);
        backend
    }

    fn state(&self, server: ServerId) -> &ServerState {
        self.servers.at(server.0 as usize)
    }

    /// The states of all numbers that are in use, and of some that are not: those are down, and nobody waits for them.
    fn states(&self) -> impl Iterator<Item = &ServerState> {
        self.servers.iter().map(|(_, state)| state)
    }

    /// The way of the next snapshot, in which the backend has these servers and no others.
    pub(crate) fn next(&self, now: &Proxy) -> Backend {
        let used = || now.servers.iter().map(|server| server.id.0 as usize);
        let (balancer, servers) = (self.balancer.next(used()), self.servers.next(used()));
        Backend { common: Arc::clone(&self.common), balancer, servers, made_for: now.servers.len() }
    }

    /// Servers for which memory is taken, their neighbours included.
    pub fn made(&self) -> usize {
        let mut made = 0;
        self.servers.each(|_| made += 1);
        made
    }

    /// No snapshot that comes has it. What its servers had goes with those that have them, not with the last that has the backend, which
    /// may have had fewer and stay for long.
    pub(crate) fn part(&self) {
        self.balancer.part();
        self.servers.part();
    }

    /// Frees the memory of servers that no snapshot has any more.
    pub(crate) fn free_left(&self) {
        self.balancer.free_left();
        self.servers.free_left();
    }

    /// Whether it was made for as many servers, with numbers up to the same.
    pub(crate) fn suits(&self, proxy: &Proxy) -> bool {
        let room = proxy.servers.iter().map(|server| server.id.0 as usize + 1).max().unwrap_or(0);
        (self.made_for, self.servers.room()) == (proxy.servers.len(), room)
    }

    /// What all snapshots share of it.
    pub(crate) fn common(&self) -> &Arc<Common> {
        &self.common
    }

    /// Where threads keep what is theirs of a server.
    #[inline]
    pub fn flat(&self, server: ServerId) -> usize {
        match server.0 < self.configured {
            true => (self.first_flat + server.0) as usize,
            false => self.state(server).flat.load(Ordering::Relaxed) as usize,
        }
    }

    #[inline]
    fn fullconn(&self) -> u32 {
        self.fullconn.load(Ordering::Relaxed)
    }

    /// A number for a server that is to join the others.
    pub(crate) fn take_number(&self) -> ServerId {
        ServerId(self.numbers.take())
    }

    /// Where threads are to keep what is theirs of a server that joins the others: `fresh` is asked for a place unless the
    /// number has one.
    pub(crate) fn place_of(&self, server: ServerId, fresh: impl FnOnce() -> u32) -> u32 {
        if self.has_own_place(server) { self.first_flat + server.0 } else { fresh() }
    }

    /// The same, for who looks for it before the server joins.
    pub(crate) fn set_place(&self, server: ServerId, flat: u32) {
        // The snapshots so far, which may stay for long, do not keep it.
        self.servers.make(server.0 as usize, |state| state.flat.store(flat, Ordering::Relaxed));
    }

    /// The first snapshot that has a server.
    pub fn since(&self, server: ServerId) -> u64 {
        self.state(server).since.load(Ordering::Relaxed)
    }

    /// Whether anybody has a slot on a server, or waits for one: who was given its slot may not know yet that it is gone.
    pub(crate) fn is_in_use(&self, server: ServerId) -> bool {
        let waits = self.servers.peek(server.0 as usize, |state| !state.queue.is_empty());
        self.balancer.is_busy(ServerIndex(server.0)) || waits == Some(true)
    }

    /// A server joins the others with snapshot `since`. Its number is not in use, and `flat` is where threads keep what is theirs of
    /// it.
    pub(crate) fn admit(&self, proxy: &Proxy, server: &Server, flat: u32, since: u64) {
        self.state(server.id).begin(server, flat, since);
        if server.follows_load() {
            self.has_minconn.store(true, Ordering::SeqCst);
        }
        if server.maxconn != 0 || goes_by_load(proxy) {
            self.start_counting();
        }
        self.balancer.add(ServerIndex(server.id.0), &spec(proxy, server));
        self.count_usable();
    }

    /// A server leaves the others: it gets nothing any more, and who waits for it chooses again.
    pub(crate) fn dismiss(&self, server: ServerId) {
        self.set_up(server, false);
        self.state(server).end();
        self.balancer.remove(ServerIndex(server.0));
        self.forget_identity(server);
        self.count_usable();
    }

    /// The part of a server's state that changes rarely.
    pub(crate) fn service(&self, server: ServerId) -> &Service {
        &self.servers.at(server.0 as usize).service
    }

    /// A server's limit changed: whoever waits may fit now.
    pub(crate) fn limit_changed(&self, server: ServerId) {
        self.serve_queue(ServerIndex(server.0));
    }

    /// The seats of the connections to a server.
    pub(crate) fn seats(&self, server: ServerId) -> Arc<Seats> {
        let seats = &self.state(server).seats;
        Arc::clone(seats.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
    }

    /// Whether a server is up.
    pub fn is_up(&self, server: ServerId) -> bool {
        self.servers.at(server.0 as usize).up.load(Ordering::Relaxed)
    }

    /// Whether new requests may go to a server: it is up, not draining, and its weight is not zero.
    pub fn is_usable(&self, server: ServerId) -> bool {
        self.state(server).is_usable()
    }

    /// Servers that requests can be balanced to: active ones, or backup ones when no active one is left.
    pub fn usable_count(&self) -> u32 {
        self.usable.load(Ordering::Relaxed)
    }

    /// Usable active and backup servers.
    pub fn active_and_backup(&self) -> (u32, u32) {
        let mut counts = (0, 0);
        for server in self.states().filter(|server| server.is_usable()) {
            if server.is_backup() { counts.1 += 1 } else { counts.0 += 1 }
        }
        counts
    }

    /// The weight an operator gave a server.
    pub fn weight(&self, server: ServerId) -> u32 {
        self.servers.at(server.0 as usize).weight.load(Ordering::Relaxed)
    }

    /// Requests that wait for any server.
    pub fn queue_len(&self) -> u32 {
        u32::try_from(self.queue.len()).unwrap_or(u32::MAX)
    }

    /// Requests that wait for this server.
    pub fn server_queue_len(&self, server: ServerId) -> u32 {
        u32::try_from(self.servers.at(server.0 as usize).queue.len()).unwrap_or(u32::MAX)
    }

    /// The most requests that waited at once for any server, and for this one when it is given.
    pub fn queue_max(&self, server: Option<ServerId>) -> u32 {
        server.map_or(&self.queue_max, |s| &self.servers.at(s.0 as usize).queue_max).load(Ordering::Relaxed)
    }

    /// Starts those maxima anew.
    pub fn reset_queue_max(&self) {
        self.queue_max.store(self.queue_len(), Ordering::Relaxed);
        for server in self.states() {
            server.queue_max.store(u32::try_from(server.queue.len()).unwrap_or(u32::MAX), Ordering::Relaxed);
        }
    }

    /// The limit on a server's requests, 0 for none. With `minconn` it is the highest that the limit may get.
    pub fn maxconn(&self, server: ServerId) -> u32 {
        self.service(server).maxconn.load(Ordering::Relaxed)
    }

    /// Requests a server may serve at once now; 0 for no limit.
    pub fn dynamic_maxconn(&self, server: &Server) -> u32 {
        let limits = self.state(server.id).limits();
        if limits.minconn == 0 || limits.minconn >= limits.maxconn {
            return limits.maxconn;
        }
        self.limit(ServerIndex(server.id.0), self.backend_requests())
    }

    fn limit(&self, server: ServerIndex, backend_requests: u32) -> u32 {
        let state = self.servers.at(server.0 as usize);
        state.limits().now(backend_requests, self.fullconn(), state.transition.ramp())
    }

    /// Requests being served and waiting on all servers; only looked at when a limit depends on it.
    fn backend_requests(&self) -> u32 {
        if !self.has_minconn.load(Ordering::Relaxed) {
            return 0;
        }
        let end = self.numbers.end();
        let served: u32 = (0..end).map(|number| self.balancer.load(ServerIndex(number)).served()).sum();
        served + self.queue_len()
    }

    /// Lets traffic see a server up or down. Requests that wait for a server that goes down choose again; when one comes up,
    /// those that wait for any are served.
    fn set_up(&self, server: ServerId, up: bool) {
        let index = ServerIndex(server.0);
        if self.servers.at(server.0 as usize).up.swap(up, Ordering::SeqCst) == up {
            return;
        }
        self.service(server).up_time.changed(up);
        self.balancer.set_up(index, up);
        self.count_usable();
        self.follow_up(server, up);
        if up {
            self.serve_queue(index);
        } else {
            let tokens = self.servers.at(server.0 as usize).queue.drain();
            for token in tokens {
                self.hand_over(Turn { token, turn: 0 }, GONE);
            }
        }
    }

    /// Changes a server's weight, 0 to 256.
    pub fn set_weight(&self, server: ServerId, weight: u32) {
        let before = self.servers.at(server.0 as usize).weight.swap(weight, Ordering::SeqCst);
        self.balancer.set_weight(ServerIndex(server.0), weight);
        // Counting looks at all servers.
        if (before == 0) != (weight == 0) {
            self.count_usable();
        }
        self.serve_queue(ServerIndex(server.0));
    }

    fn usable_now(&self) -> u32 {
        let (active, backup) = self.active_and_backup();
        if active > 0 { active } else { backup }
    }

    /// Many servers are about to change: until what this returns is dropped they are chosen as before, and not counted after each.
    pub(crate) fn hold(&self) -> Held<'_> {
        self.holders.fetch_add(1, Ordering::SeqCst);
        Held { backend: self, _plan: self.balancer.hold() }
    }

    fn count_usable(&self) {
        if self.holders.load(Ordering::SeqCst) > 0 {
            return;
        }
        let now = self.usable_now();
        let before = self.usable.swap(now, Ordering::SeqCst);
        if (before == 0) != (now == 0) {
            self.up_time.changed(now > 0);
        }
    }

    pub(crate) fn start_counting(&self) {
        self.tracks_load.store(true, Ordering::SeqCst);
    }

    fn counts(&self) -> bool {
        self.tracks_load.load(Ordering::Relaxed)
    }

    /// Takes a slot on a server if it has one free and nobody waits for it.
    #[inline]
    pub fn try_start(&self, server: ServerIndex) -> Option<Slot> {
        if !self.counts() {
            return Some(Slot { server, counted: false });
        }
        let state = self.servers.at(server.0 as usize);
        if state.limits().maxconn == 0 {
            self.balancer.conn_started(server);
            return Some(Slot { server, counted: true });
        }
        let free = state.queue.is_empty()
            && self.balancer.try_conn_started(server, self.limit(server, self.backend_requests()));
        free.then_some(Slot { server, counted: true })
    }

    /// Gives a slot back, to the request that waited longest if there is one.
    pub fn end(&self, slot: Slot) {
        if !slot.counted {
            return;
        }
        self.balancer.conn_ended(slot.server);
        if self.servers.at(slot.server.0 as usize).limits().maxconn != 0 {
            self.serve_queue(slot.server);
        }
    }

    /// Hands free slots of a server to whoever waits for it.
    fn serve_queue(&self, server: ServerIndex) {
        let state = self.servers.at(server.0 as usize);
        let id = ServerId(server.0);
        // Who is ejected serves those that wait for it.
        let usable = self.is_usable(id) && (!self.is_ejected(id) || self.takes_part(id));
        loop {
            let any_waits = !state.queue.is_empty() || (usable && !self.queue.is_empty());
            if !any_waits {
                return;
            }
            let limit = self.limit(server, self.backend_requests());
            if limit == 0 {
                self.balancer.conn_started(server);
            } else if !self.balancer.try_conn_started(server, limit) {
                return;
            }
            let taken =
                if usable { Queue::pop_first_of(&state.queue, &self.queue) } else { state.queue.pop() };
            let Some(turn) = taken else {
                self.balancer.conn_ended(server);
                return;
            };
            self.hand_over(turn, server.0 + 1);
        }
    }

    fn hand_over(&self, turn: Turn, what: u32) {
        let ticket = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&turn.token);
        if let Some(ticket) = ticket {
            ticket.turn.store(turn.turn, Ordering::Relaxed);
            if what != GONE {
                ticket.kept.get_or_init(|| self.balancer.keep(ServerIndex(what - 1)));
            }
            ticket.granted.store(what, Ordering::Release);
            if !crate::plant::bug("lost-wakeup") {
                ticket.task.wake(Reason::RESOURCE);
            }
        }
    }

    /// Enters the queue of a server, or of the backend. `None` when the server's queue is full.
    pub fn enter_queue(
        &self,
        server: Option<ServerIndex>,
        priority: Priority,
        now_ms: u64,
        task: TaskId,
    ) -> Option<Queued> {
        let (queue, max) = match server {
            Some(s) => {
                let state = self.servers.at(s.0 as usize);
                (&state.queue, state.maxqueue.load(Ordering::Relaxed) as usize)
            }
            None => (&self.queue, 0),
        };
        let token = self.next_token.fetch_add(1, Ordering::Relaxed);
        let ticket = Arc::new(Ticket {
            task,
            granted: AtomicU32::new(0),
            turn: AtomicU64::new(0),
            kept: OnceLock::new(),
        });
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(token, Arc::clone(&ticket));
        let Some(place) = queue.push(token, priority, now_ms, max) else {
            self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&token);
            return None;
        };
        let most = server.map_or(&self.queue_max, |s| &self.servers.at(s.0 as usize).queue_max);
        most.fetch_max(u32::try_from(queue.len()).unwrap_or(u32::MAX), Ordering::Relaxed);
        let queued = Queued { ticket, token, place, server };
        // A slot may have come free between the failed attempt and the push; then nobody else would look.
        match server {
            Some(s) => self.serve_queue(s),
            None => {
                for (number, _) in self.servers.iter() {
                    let id = ServerId(number as u32);
                    if self.is_usable(id) && self.takes_part(id) {
                        self.serve_queue(ServerIndex(id.0));
                    }
                    if queued.grant() != Grant::No {
                        break;
                    }
                }
            }
        }
        Some(queued)
    }

    /// A backup server takes part only when no active one is left.
    fn takes_part(&self, server: ServerId) -> bool {
        let mut view = thalweg_balance::View::default();
        self.balancer.takes_part(&mut view, ServerIndex(server.0))
    }

    /// How many requests the queue served while this one waited, itself included whether it was served or not: `%sq`
    /// and `%bq`.
    pub fn waited_for(&self, queued: &Queued) -> u32 {
        let queue = match queued.server {
            Some(s) => &self.servers.at(s.0 as usize).queue,
            None => &self.queue,
        };
        let turn = match queued.grant() {
            Grant::Server(_) => queued.ticket.turn.load(Ordering::Relaxed),
            Grant::Again | Grant::No => queue.next_turn(),
        };
        u32::try_from(queued.place.waited_for(turn)).unwrap_or(u32::MAX)
    }

    /// Gives a place in a queue up. When a slot had been handed over meanwhile, it is returned here: the caller must
    /// either use it or give it back with [`Backend::end`].
    pub fn leave_queue(&self, queued: Queued) -> Option<Slot> {
        let queue = match queued.server {
            Some(s) => &self.servers.at(s.0 as usize).queue,
            None => &self.queue,
        };
        if queue.remove(queued.place) {
            self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&queued.token);
            return None;
        }
        // It was taken out already; the grant is stored before the task is woken, but perhaps not yet.
        loop {
            match queued.grant() {
                Grant::Server(slot) => {
                    self.take_over(slot);
                    return Some(slot);
                }
                Grant::Again => return None,
                Grant::No => std::hint::spin_loop(),
            }
        }
    }

    /// A slot that was handed over is about to be used, or given back, this way. Its place in the queue is still there.
    pub(crate) fn take_over(&self, slot: Slot) {
        self.balancer.load(slot.server);
    }

    /// How the balancer sees this backend's servers.
    pub fn view(&self) -> Limited<'_> {
        Limited { backend: self, requests: self.backend_requests() }
    }
}

/// The servers' limits, for the balancer.
pub struct Limited<'a> {
    backend: &'a Backend,
    requests: u32,
}

impl ServerView for Limited<'_> {
    fn is_full(&self, server: ServerIndex, load: LoadNow) -> bool {
        let state = self.backend.servers.at(server.0 as usize);
        if state.limits().maxconn == 0 {
            return false;
        }
        state.limits().is_full(
            load.served(),
            state.queue.len(),
            self.requests,
            self.backend.fullconn(),
            state.transition.ramp(),
        )
    }

    fn queue_is_full(&self, server: ServerIndex, _load: LoadNow) -> bool {
        let state = self.backend.servers.at(server.0 as usize);
        state.limits().queue_is_full(state.queue.len())
    }
}

/// How the servers of a backend are chosen.
pub(crate) fn settings(proxy: &Proxy) -> Settings {
    Settings {
        algorithm: algorithm::picker(proxy),
        all_backups: proxy.opts.allbackups,
        balance_factor: proxy.balance.hash_balance_factor,
        zone_spill_over: proxy.rare().zone.as_ref().map(|zone| zone.spill_over),
        preserve_affinity: proxy.balance.preserve_affinity,
    }
}

/// Whether the choice of a server needs to know how many requests each has.
fn goes_by_load(proxy: &Proxy) -> bool {
    algorithm::picker(proxy).traits().goes_by_load || proxy.balance.hash_balance_factor != 0
}

fn spec(proxy: &Proxy, server: &Server) -> ServerSpec {
    ServerSpec {
        uid: server.uid,
        weight: u32::from(server.weight),
        backup: server.backup,
        up: Standing::new(server).is_up(),
        elsewhere: proxy.is_elsewhere(server),
        node_key: identity::Identity::of(server).node_key(server),
    }
}
