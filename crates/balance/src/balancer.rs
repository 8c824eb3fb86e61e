//! One backend's choice of server, shared by all threads.

mod ranks;
mod snapshots;

use thalweg_live::Rows;

use crate::algorithm::{Choice, Method, NewWeight, Usable};
use crate::answer_times::AnswerTimes;
use crate::estimates::Estimates;
use crate::hash::NodeKey;
use crate::load::{Load, LoadNow};
use crate::retry_budget::RetryBudget;
use crate::seats::Seats;
use crate::settings::{PreserveAffinity, ServerSpec, Settings};
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering};
use crate::tournament::{Tournaments, less_loaded};
use crate::turns::Entry;
use crate::zone::{Blend, Shares, blend};
use crossbeam_utils::CachePadded;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, PoisonError};

/// Position of a server in its backend's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerIndex(pub u32);

impl Settings {
    fn has_fixed_weights(&self) -> bool {
        self.algorithm.traits().has_fixed_weights
    }
}

/// What only the caller knows about servers at the time of a pick.
pub trait ServerView {
    /// No slot is free: maxconn is reached, or requests already wait for this server.
    fn is_full(&self, server: ServerIndex, load: LoadNow) -> bool;
    /// The queue of this server has reached its maxqueue.
    fn queue_is_full(&self, _server: ServerIndex, _load: LoadNow) -> bool {
        false
    }
    /// Requests over the last second; decides between equally loaded servers.
    fn rate(&self, _server: ServerIndex) -> u32 {
        0
    }
}

/// A view for backends where no server has limits.
pub struct NeverFull;

impl ServerView for NeverFull {
    fn is_full(&self, _server: ServerIndex, _load: LoadNow) -> bool {
        false
    }
}

/// The circumstances of one pick.
pub struct PickContext<'a, V: ServerView> {
    pub servers: &'a V,
    /// The server that just failed this request: used again only if there is no other.
    pub avoid: Option<ServerIndex>,
    /// 64 random bits; used by `random` and `ewma` only.
    pub random: u64,
    /// Microseconds of the monotonic clock; used by `ewma` only.
    pub now_us: i64,
}

/// A thread's last seen plan of a backend. Keep one per thread and backend.
#[derive(Default, Debug)]
pub struct View {
    seen: Seen,
    /// For `ewma`: how long servers take to answer, as this thread knows it.
    pub estimates: Estimates,
    /// For `retry-budget`: what this thread may send again.
    pub retry_budget: RetryBudget,
    /// For `option hedge p95`: how long requests take, whichever server answers.
    pub answer_times: AnswerTimes,
}

#[derive(Default, Debug)]
struct Seen {
    generation: u64,
    plan: Option<Arc<Plan>>,
}

/// Chooses the server of each request of one backend.
///
/// Invariants: what requests write is one word per server ([`Load`]), plus one shared position for algorithms
/// that take turns, one ticket counter for `leastconn` and one total with `hash-balance-factor`. The set of usable
/// servers is a plan: it is rebuilt under a lock when a server changes state, by the first pick after
/// the change, and every thread fetches it once per change. Only weights change within it, at a cost that does not grow with the
/// number of servers by more than its logarithm.
///
/// Each snapshot of a configuration has its own way to it, which keeps what the servers of that snapshot are doing ([`Balancer::next`]).
#[derive(Debug)]
pub struct Balancer {
    loads: Rows<Load>,
    common: Arc<Common>,
}

/// What is there once, whatever snapshots have the backend.
#[derive(Debug)]
struct Common {
    // Boxed, as few have it. It is made when servers are first chosen by their load, and then stays.
    tournament: OnceLock<Box<Tournaments>>,
    tickets: CachePadded<AtomicU64>,
    total: CachePadded<AtomicU64>,
    /// Requests are counted in `total`: there was a `hash-balance-factor` at the start.
    counts_total: bool,
    generation: AtomicU64,
    control: Mutex<Control>,
}

/// State changed by operators and health checks, never by requests.
#[derive(Debug)]
struct Control {
    settings: Settings,
    /// By number.
    servers: Vec<Status>,
    /// The numbers of those that there are, in the order of the backend's list. While somebody changes many, those that left are
    /// still in it.
    order: Vec<u32>,
    has_left: bool,
    plan: Option<Arc<Plan>>,
    /// What the zones have in `plan`.
    shares: Option<Shares>,
    previous: Option<Arc<Plan>>,
    /// For `sticky`: servers by the turn in which they became usable.
    arrivals: BTreeMap<u64, u32>,
    /// Who changes many servers at once, and whether something was changed meanwhile.
    holders: u32,
    is_late: bool,
}

/// For as long as this is there servers are chosen as they were before: many changes make one plan. See [`Balancer::hold`].
#[must_use]
pub struct Held<'b>(&'b Balancer);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut control = self.0.lock();
        let control = &mut *control;
        control.holders -= 1;
        control.forget_left();
        if control.holders == 0 && std::mem::take(&mut control.is_late) {
            control.previous = control.plan.take().or_else(|| control.previous.take());
            // Not by whoever picks next: with very many servers it takes milliseconds.
            self.0.make_plan(control);
            self.0.common.generation.fetch_add(1, Ordering::Release);
        }
    }
}

/// See [`Balancer::keep`].
pub struct Kept {
    _load: thalweg_live::Held<Load>,
}

/// What is known of a server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Status {
    /// Somebody has the number.
    exists: bool,
    /// The turn in which it became usable, if it is: see [`Control::arrivals`].
    arrival: Option<u64>,
    pub uid: u32,
    /// As configured: what algorithms go by whose weights are fixed.
    configured_weight: u32,
    backup: bool,
    up: bool,
    elsewhere: bool,
    drain: bool,
    /// It is the last choice: it gets requests when all others are, too.
    last: bool,
    /// As set by the operator: 0 to 256.
    weight: u32,
    /// In 16ths of a weight; below `16 * weight` during a slow start.
    effective: u32,
    pub node_key: NodeKey,
}

/// What the state of servers comes to: which are used, and how one of them is chosen.
#[derive(Debug)]
pub(crate) struct Plan {
    settings: Settings,
    pub seats: Arc<Seats>,
    method: Method,
    /// A server that is the only one is chosen even when it is full.
    insists: bool,
    /// Servers of other zones, for what finds all of `seats` full.
    spare: Seats,
}

impl Status {
    fn new(spec: &ServerSpec) -> Status {
        Status {
            exists: true,
            arrival: None,
            uid: spec.uid,
            configured_weight: spec.weight,
            backup: spec.backup,
            up: spec.up,
            elsewhere: spec.elsewhere,
            drain: false,
            last: false,
            weight: spec.weight,
            effective: spec.weight * 16,
            node_key: spec.node_key,
        }
    }

    /// The weight that requests are balanced by, in 16ths; 0 for a server that gets none.
    fn weight_now(&self, settings: &Settings) -> u32 {
        match self.weight {
            0 => 0,
            // A weight changed on the fly has no effect on a table; 0 takes the server out all the same.
            _ if settings.has_fixed_weights() => self.configured_weight.max(1) * 16,
            _ => self.effective.max(1),
        }
    }

    /// That of a number without a server.
    fn none() -> Status {
        Status { exists: false, ..Status::new(&NOBODY) }
    }
}

impl Control {
    /// A server became usable, or is so no longer.
    fn arrives(&mut self, server: u32, up: bool) {
        let Some(status) = self.servers.get_mut(server as usize) else { return };
        if let Some(turn) = status.arrival.take() {
            self.arrivals.remove(&turn);
        }
        if up {
            let turn = self.arrivals.last_key_value().map_or(0, |(last, _)| last + 1);
            status.arrival = Some(turn);
            self.arrivals.insert(turn, server);
        }
    }

    /// Takes those that left out of the list: one by one that would be a walk through it for each.
    fn forget_left(&mut self) {
        if std::mem::take(&mut self.has_left) {
            let servers = &self.servers;
            self.order.retain(|&server| servers[server as usize].exists);
            give_room_back(&mut self.order);
            self.forget_numbers();
        }
    }

    /// Frees what is kept for numbers behind the last server.
    fn forget_numbers(&mut self) {
        while self.servers.pop_if(|last| !last.exists).is_some() {}
        give_room_back(&mut self.servers);
    }
}

/// Frees memory of a list that was much longer. Half of it is left free, so that servers that come and go do not move it each time.
fn give_room_back<T>(list: &mut Vec<T>) {
    if list.len() < list.capacity() / 4 {
        list.shrink_to(2 * list.len());
    }
}

/// A number that no server has.
const NOBODY: ServerSpec =
    ServerSpec { uid: 0, weight: 0, backup: false, up: false, elsewhere: false, node_key: NodeKey::Id };

impl Balancer {
    pub fn new(settings: Settings, servers: &[ServerSpec]) -> Balancer {
        let ranked = settings.algorithm.traits().keeps_ranks;
        let statuses: Vec<Status> = servers.iter().map(Status::new).collect();
        let order = (0..servers.len() as u32).collect();
        let mut control = Control {
            settings,
            servers: statuses,
            order,
            has_left: false,
            plan: None,
            shares: None,
            previous: None,
            arrivals: BTreeMap::new(),
            holders: 0,
            is_late: false,
        };
        servers.iter().zip(0..).filter(|(spec, _)| spec.up).for_each(|(_, i)| control.arrives(i, true));
        let loads = Rows::<Load>::new(servers.len());
        (0..servers.len()).for_each(|i| loads.at(i).begin(i as u64));
        let common = Common {
            tournament: match ranked {
                true => OnceLock::from(Box::new(Tournaments::new(servers.len()))),
                false => OnceLock::new(),
            },
            tickets: CachePadded::new(AtomicU64::new(servers.len() as u64)),
            total: CachePadded::new(AtomicU64::new(0)),
            counts_total: settings.balance_factor != 0,
            generation: AtomicU64::new(1),
            control: Mutex::new(control),
        };
        Balancer { loads, common: Arc::new(common) }
    }

    /// What was configured.
    pub fn settings(&self) -> Settings {
        self.lock().settings
    }

    /// Whether it can follow other settings: who did not count requests at the start cannot begin with it, as it would not know
    /// how many there are.
    pub fn can_follow(&self, settings: Settings) -> bool {
        self.common.counts_total || settings.balance_factor == 0
    }

    /// The configuration says something else of the backend: servers are chosen like that from now on. What was said of servers at
    /// run time stays, and so does what they are doing.
    pub fn follow(&self, settings: Settings) {
        let mut control = self.lock();
        let control = &mut *control;
        if control.settings == settings {
            return;
        }
        control.settings = settings;
        if settings.algorithm.traits().keeps_ranks {
            let servers = control.servers.len();
            // Its places are made before anybody looks for them.
            self.loads.each(|load| load.weight().store(0, Ordering::SeqCst));
            let tournament = self.common.tournament.get_or_init(|| Box::new(Tournaments::new(servers)));
            tournament.grow(servers, &self.loads);
            (0..servers).for_each(|server| tournament.update(server as u32, &self.loads));
        }
        self.changed_plan(control);
    }

    /// Chooses a server. `key` is the hash of the request's key, when the algorithm uses one and there is one.
    ///
    /// `None` means that no server can take the request now: none is usable, or all usable ones are full and the
    /// algorithm does not insist on one. The request then waits in the backend's queue, or gets a 503 when
    /// [`Balancer::usable`] is 0.
    pub fn pick<V: ServerView>(
        &self,
        view: &mut View,
        key: Option<u32>,
        cx: &PickContext<'_, V>,
    ) -> Option<ServerIndex> {
        let View { seen, estimates, .. } = view;
        let plan = self.plan(seen);
        match plan.seats.len() {
            0 => return None,
            // One server: nothing to choose. Hashing insists on it even when it is full.
            1 if plan.spare.len() == 0 => {
                let (insists, only) = (key.is_some() || plan.insists, plan.seats.at(0).server);
                return (insists || !self.full(only, cx)).then_some(ServerIndex(only));
            }
            _ => {}
        }
        let choice = Choice { balancer: self, plan, estimates, key, cx };
        let found = plan.method.pick(&choice);
        let spare = || self.least_of(&plan.spare, |server| choice.refuses(server));
        // Rather the server that failed than none at all.
        let is_used = |server: u32| plan.seats.place(server).is_some();
        let again =
            || cx.avoid.map(|failed| failed.0).filter(|&server| is_used(server) && !choice.is_full(server));
        found.or_else(spare).or_else(again).map(ServerIndex)
    }

    /// A request starts on `server`, whatever its limits.
    pub fn conn_started(&self, server: ServerIndex) {
        self.changed(server, |load, ticket| {
            load.start(ticket);
        });
        self.count_total(1);
    }

    /// A request starts on `server` if fewer than `limit` are being served: the check and the count are one step,
    /// so `limit` holds with any number of threads.
    pub fn try_conn_started(&self, server: ServerIndex, limit: u32) -> bool {
        let mut fits = false;
        self.changed(server, |load, ticket| fits = load.start_below(limit, ticket));
        if fits {
            self.count_total(1);
        }
        fits
    }

    /// A request has left `server`. Exactly one call for each start.
    pub fn conn_ended(&self, server: ServerIndex) {
        self.changed(server, |load, ticket| {
            load.end(ticket);
        });
        self.count_total(-1);
    }

    /// A request waits for `server`: it counts as load, but holds no slot.
    pub fn queued(&self, server: ServerIndex) {
        self.changed(server, |load, ticket| {
            load.enqueue(ticket);
        });
    }

    /// A request no longer waits for `server`.
    pub fn dequeued(&self, server: ServerIndex) {
        self.changed(server, |load, ticket| {
            load.dequeue(ticket);
        });
    }

    /// What `server` is doing.
    pub fn load(&self, server: ServerIndex) -> LoadNow {
        self.loads.find(server.0 as usize).map_or_else(|| Load::new().now(), Load::now)
    }

    /// Whether anybody has a slot on a server, or waits for it. Who asks does not keep what the server is doing.
    pub fn is_busy(&self, server: ServerIndex) -> bool {
        self.loads.peek(server.0 as usize, |load| load.now().total() != 0) == Some(true)
    }

    /// What a server is doing is known for as long as what this returns is there, or the snapshot with this way to it.
    pub fn keep(&self, server: ServerIndex) -> Kept {
        Kept { _load: self.loads.hold(server.0 as usize) }
    }

    /// Many servers are about to change. Each change costs a plan otherwise, which takes longer the more servers there are, for the first
    /// request behind it.
    pub fn hold(&self) -> Held<'_> {
        self.lock().holders += 1;
        Held(self)
    }

    /// A server joins the others, at the end of their list. Its number is not in use.
    pub fn add(&self, server: ServerIndex, spec: &ServerSpec) {
        let mut control = self.lock();
        let (control, at) = (&mut *control, server.0 as usize);
        // The number may be that of one that just left.
        control.forget_left();
        if control.servers.len() <= at {
            control.servers.resize(at + 1, Status::none());
        }
        control.servers[at] = Status::new(spec);
        control.order.push(server.0);
        control.arrives(server.0, spec.up);
        // Its places are made before anybody looks for them.
        let load = self.loads.at(at);
        debug_assert_eq!(load.now().total(), 0, "whoever used the number before has left");
        if let Some(tournament) = self.common.tournament.get() {
            load.weight().store(0, Ordering::SeqCst);
            tournament.grow(control.servers.len(), &self.loads);
            tournament.update(server.0, &self.loads);
        }
        self.changed_plan(control);
    }

    /// A server leaves the others. Its number may be given to another one when nobody knows it any more.
    pub fn remove(&self, server: ServerIndex) {
        let mut control = self.lock();
        let control = &mut *control;
        control.arrives(server.0, false);
        if let Some(status) = control.servers.get_mut(server.0 as usize) {
            *status = Status::none();
            control.has_left = true;
        }
        if control.holders == 0 {
            control.forget_left();
        }
        self.changed_plan(control);
    }

    /// The configuration says something else of a server; what was said of it at run time stays.
    pub fn reconfigure(&self, server: ServerIndex, spec: &ServerSpec) {
        self.change(server, |status| {
            status.uid = spec.uid;
            status.configured_weight = spec.weight;
            status.backup = spec.backup;
            status.elsewhere = spec.elsewhere;
            status.node_key = spec.node_key;
        });
    }

    /// The servers come in this order in the list of the backend. Those that are not named follow in the order of before.
    pub fn arrange(&self, order: impl Iterator<Item = ServerIndex>) {
        let mut control = self.lock();
        let control = &mut *control;
        let mut rank = vec![u32::MAX; control.servers.len()];
        for (server, at) in order.zip(0..) {
            if let Some(rank) = rank.get_mut(server.0 as usize) {
                *rank = at;
            }
        }
        if !control.order.is_sorted_by_key(|&server| rank[server as usize]) {
            control.order.sort_by_key(|&server| rank[server as usize]);
            self.changed_plan(control);
        }
    }

    /// Marks a server up or down.
    pub fn set_up(&self, server: ServerIndex, up: bool) {
        self.change(server, |status| status.up = up);
    }

    /// A draining server gets no new requests but stays up for those that stick to it.
    pub fn set_drain(&self, server: ServerIndex, drain: bool) {
        self.change(server, |status| status.drain = drain);
    }

    /// A server that is the last choice gets requests only while all others of its kind are, too.
    pub fn set_last_choice(&self, server: ServerIndex, last: bool) {
        self.change(server, |status| status.last = last);
    }

    /// Sets the weight an operator chose, 0 to 256.
    pub fn set_weight(&self, server: ServerIndex, weight: u32) {
        self.change_weight(server, |status| {
            status.weight = weight.min(256);
            status.effective = status.weight * 16;
        });
    }

    /// Places a server elsewhere in a consistent hash: its address changed.
    pub fn set_node_key(&self, server: ServerIndex, node_key: NodeKey) {
        self.change(server, |status| status.node_key = node_key);
    }

    /// Sets the weight in effect, in 16ths, for slow start. See [`crate::slowstart_weight`].
    pub fn set_effective_weight(&self, server: ServerIndex, sixteenths: u32) {
        self.change_weight(server, |status| status.effective = sixteenths.min(16 * status.weight));
    }

    /// Number of servers requests can be balanced to: all usable active ones, or, when there is none, the backup
    /// server in use or all of them with `allbackups`.
    pub fn usable(&self, view: &mut View) -> usize {
        self.plan(&mut view.seen).seats.len()
    }

    /// Sum of the effective weights of those servers, in 16ths.
    pub fn total_weight(&self, view: &mut View) -> u64 {
        self.plan(&mut view.seen).seats.total_weight()
    }

    /// True when this server takes part in balancing at the moment.
    pub fn takes_part(&self, view: &mut View, server: ServerIndex) -> bool {
        let plan = self.plan(&mut view.seen);
        plan.seats.place(server.0).is_some() || plan.spare.place(server.0).is_some()
    }

    fn changed(&self, server: ServerIndex, step: impl FnOnce(&Load, u64)) {
        let load = self.loads.at(server.0 as usize);
        match self.common.tournament.get() {
            Some(tournament) => {
                step(load, self.common.tickets.fetch_add(1, Ordering::Relaxed));
                tournament.update(server.0, &self.loads);
            }
            None => step(load, 0),
        }
    }

    fn count_total(&self, by: i64) {
        if self.common.counts_total {
            self.common.total.fetch_add(by as u64, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(crate) fn full<V: ServerView>(&self, server: u32, cx: &PickContext<'_, V>) -> bool {
        cx.servers.is_full(ServerIndex(server), self.loads.at(server as usize).now())
    }

    /// As many as `hash-balance-factor` allows: that percentage of all requests, this one included and rounded up, are slots, of which
    /// the servers up to each one, in the order of their lines, have their share, rounded down; and no server has none.
    pub(crate) fn overloaded(&self, server: u32, plan: &Plan) -> bool {
        let factor = u128::from(plan.settings.balance_factor);
        if factor == 0 {
            return false;
        }
        let Some(place) = plan.seats.place(server) else { return false };
        let requests = u128::from(self.common.total.load(Ordering::Relaxed)) + 1;
        let slots = (requests * factor).div_ceil(100);
        let total = u128::from(plan.seats.total_weight().max(1));
        let before = u128::from(plan.seats.weight_before(place));
        let up_to_here = before + u128::from(plan.seats.at(place).weight);
        let allowed = (up_to_here * slots / total).saturating_sub(before * slots / total).max(1);
        u128::from(self.loads.at(server as usize).now().served()) >= allowed
    }

    pub(crate) fn disqualified<V: ServerView>(
        &self,
        server: u32,
        plan: &Plan,
        cx: &PickContext<'_, V>,
    ) -> bool {
        let index = ServerIndex(server);
        match plan.settings.preserve_affinity {
            PreserveAffinity::Always => {}
            PreserveAffinity::MaxConn if self.full(server, cx) => return true,
            PreserveAffinity::MaxQueue if cx.servers.queue_is_full(index, self.load(index)) => return true,
            PreserveAffinity::MaxConn | PreserveAffinity::MaxQueue => {}
        }
        self.overloaded(server, plan)
    }

    /// The least loaded one that is not refused.
    pub(crate) fn least_of(&self, seats: &Seats, refuse: impl Fn(u32) -> bool) -> Option<u32> {
        let mut best: Option<(Entry, LoadNow)> = None;
        for entry in seats.iter().filter(|e| !refuse(e.server)) {
            let load = self.loads.at(entry.server as usize).now();
            match best {
                Some((kept, kept_load)) if !less_loaded(load, entry.weight, kept_load, kept.weight) => {}
                _ => best = Some((entry, load)),
            }
        }
        best.map(|(entry, _)| entry.server)
    }

    fn lock(&self) -> MutexGuard<'_, Control> {
        // Nothing in the critical sections can leave the state half-changed.
        self.common.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, server: ServerIndex, step: impl FnOnce(&mut Status)) {
        let mut control = self.lock();
        let control = &mut *control;
        let Some(status) = control.servers.get_mut(server.0 as usize) else { return };
        let was_up = status.up;
        step(status);
        let is_up = status.up;
        if was_up != is_up {
            control.arrives(server.0, is_up);
        }
        self.changed_plan(control);
    }

    /// As [`Balancer::change`], where nothing but a weight changes: as long as the same servers take part the plan stays.
    fn change_weight(&self, server: ServerIndex, step: impl FnOnce(&mut Status)) {
        let mut control = self.lock();
        let control = &mut *control;
        let Some(status) = control.servers.get_mut(server.0 as usize) else { return };
        let before = status.weight_now(&control.settings);
        step(status);
        let weight = status.weight_now(&control.settings);
        let stays =
            before == weight || (before != 0 && weight != 0 && self.reweigh(control, server, before, weight));
        if !stays {
            self.changed_plan(control);
        }
    }

    /// Gives a server another weight in the plan. False when that takes another plan.
    fn reweigh(&self, control: &mut Control, server: ServerIndex, before: u32, weight: u32) -> bool {
        if control.holders > 0 {
            return false;
        }
        // Where there is none, or this server is not in it, there is nothing to change.
        let Some(plan) = &control.plan else { return true };
        let status = &control.servers[server.0 as usize];
        let (place, spare) = (plan.seats.place(server.0), plan.spare.place(server.0));
        let weight = match &mut control.shares {
            Some(shares) if place.or(spare).is_some() => shares.reweigh(!status.elsewhere, before, weight),
            _ => Some(weight),
        };
        let Some(weight) = weight else { return false };
        spare.inspect(|&place| plan.spare.reweigh(place, weight));
        let Some(place) = place else { return true };
        let change =
            NewWeight { balancer: self, seats: &plan.seats, place, server: server.0, status, weight };
        let stays = plan.method.reweigh(&change);
        if stays {
            plan.seats.reweigh(place, weight);
        }
        stays
    }

    /// The next pick of each thread fetches another plan.
    fn changed_plan(&self, control: &mut Control) {
        if control.holders > 0 {
            control.is_late = true;
            return;
        }
        if let Some(old) = control.plan.take() {
            control.previous = Some(old);
        }
        self.common.generation.fetch_add(1, Ordering::Release);
    }

    fn plan<'v>(&self, view: &'v mut Seen) -> &'v Plan {
        let generation = self.common.generation.load(Ordering::Acquire);
        if view.plan.is_none() || view.generation != generation {
            let mut control = self.lock();
            // Read again under the lock: no change can slip in between the number and the plan.
            view.generation = self.common.generation.load(Ordering::Acquire);
            if control.plan.is_none() {
                self.make_plan(&mut control);
            }
            view.plan = control.plan.clone();
        }
        match &view.plan {
            Some(plan) => plan,
            None => unreachable!("the plan was stored just above"),
        }
    }

    fn make_plan(&self, control: &mut Control) {
        let blend = self.entries(control);
        control.shares = blend.shares;
        control.plan = Some(Arc::new(self.build(control, &blend)));
        control.previous = None;
    }

    fn build(&self, control: &Control, Blend { entries, spare, .. }: &Blend) -> Plan {
        let is_bounded = control.settings.balance_factor != 0;
        let seats = Arc::new(if is_bounded { Seats::with_sums(entries) } else { Seats::new(entries) });
        let algorithm = control.settings.algorithm;
        let usable = Usable {
            entries,
            seats: &seats,
            servers: &control.servers,
            arrivals: &control.arrivals,
            balancer: self,
            before: control.previous.as_ref().map(|plan| &plan.method),
        };
        let method = Method::new(algorithm, &usable);
        Plan {
            settings: control.settings,
            seats,
            method,
            insists: algorithm.traits().insists,
            spare: Seats::new(spare),
        }
    }

    /// Whether weights are fixed at the start: on the fly a server can only be taken out and put back.
    pub fn is_static(&self) -> bool {
        self.settings().has_fixed_weights()
    }

    /// The servers requests go to: usable active ones, else the first usable backup, or all of them. Of those that are the last
    /// choice there are none, or all.
    fn entries(&self, control: &Control) -> Blend {
        let settings = &control.settings;
        let usable = |backup: bool| {
            let could = move |s: &Status| s.backup == backup && s.up && !s.drain && s.weight != 0;
            let all_are_last = control
                .order
                .iter()
                .map(|&server| &control.servers[server as usize])
                .all(|s| s.last || !could(s));
            control.order.iter().filter_map(move |&server| {
                let status = &control.servers[server as usize];
                let takes = could(status) && (all_are_last || !status.last);
                takes.then(|| Entry { server, weight: status.weight_now(settings) })
            })
        };
        let active: Vec<Entry> = usable(false).collect();
        if active.is_empty() {
            let backups = usable(true);
            let entries = if settings.all_backups { backups.collect() } else { backups.take(1).collect() };
            return Blend::plain(entries);
        }
        let Some(spill_over) = settings.zone_spill_over else {
            return Blend::plain(active);
        };
        let is_near = |server: u32| !control.servers[server as usize].elsewhere;
        let (near, far) = active.into_iter().partition(|entry| is_near(entry.server));
        let near_full = control.order.iter().filter(|server| is_near(**server)).map(|&server| {
            let status = &control.servers[server as usize];
            if status.backup { 0 } else { u64::from(status.configured_weight) * 16 }
        });
        blend(near, far, near_full.sum(), spill_over, settings.has_fixed_weights())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_picks_next_makes_no_plan_of_many_changes() {
        let balancer = Balancer::new(Settings::default(), &[1, 2, 3].map(|uid| ServerSpec::new(uid, 1)));
        let held = balancer.hold();
        balancer.remove(ServerIndex(1));
        assert!(balancer.lock().plan.is_none());
        drop(held);
        assert!(balancer.lock().plan.is_some());
    }
}
