//! Idle server connections, per server and per thread (manual: `http-reuse`, `pool-max-conn`, `pool-purge-delay`).
//!
//! A connection goes in when a response ended on a message boundary in both directions and the server agreed to keep
//! it. Only the owning thread touches a pool.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use thalweg_runtime::pool::Block;
use thalweg_runtime::{clock, give_way};
use thalweg_sys::dense::densely;

use super::connect::ServerConn;
use super::demand::Demand;
use super::descriptors::Shortage;
use super::hand_over::Reply;
use super::key::ConnectionKey;
use super::rack::{Age, Rack};
use super::shared::{Place, SharedConnection};
use super::shelf::{Shared, Shelf};
use crate::counters::{Counters, Kept, OfServer};
use crate::in_turn::close_in_turn;
use crate::plant::bug;
use crate::worker::{Thread, Worker};

/// The idle connections of the servers of a thread, by flat number. A pool is made when its server has its first, and goes when nobody
/// knows the server any more. Numbers can be high although few servers are there, so that places are made for neighbours at a time.
#[derive(Default)]
pub(crate) struct Pools {
    all: RefCell<Vec<Option<Box<Neighbours>>>>,
    /// Room for those that are looked after, who mostly are few: it is used again each time.
    due: Cell<Vec<Rc<Pool>>>,
}

/// Those of servers whose numbers are next to each other.
type Neighbours = [Option<Rc<Pool>>; NEIGHBOURS];

const NEIGHBOURS: usize = 64;

/// Those of one server, with the counters that tell others of them.
pub(crate) struct Pool {
    idle: RefCell<IdlePool>,
    counters: Kept,
}

impl Pools {
    /// The pool of a server, if there is one.
    #[inline]
    pub fn get(&self, server: usize) -> Option<Rc<Pool>> {
        self.all.borrow().get(server / NEIGHBOURS)?.as_ref()?[server % NEIGHBOURS].clone()
    }

    /// The same, made if there is none.
    #[inline]
    pub fn get_or_make(&self, server: usize, counters: impl FnOnce() -> Kept) -> Rc<Pool> {
        self.get(server).unwrap_or_else(|| self.make(server, counters()))
    }

    #[cold]
    fn make(&self, server: usize, counters: Kept) -> Rc<Pool> {
        let pool = densely(|| Rc::new(Pool { idle: RefCell::default(), counters }));
        let mut all = self.all.borrow_mut();
        let at = server / NEIGHBOURS;
        if all.len() <= at {
            all.resize_with(at + 1, || None);
        }
        let places = all[at].get_or_insert_with(|| densely(|| Box::new([const { None }; NEIGHBOURS])));
        places[server % NEIGHBOURS] = Some(Rc::clone(&pool));
        pool
    }

    /// Those in which there is something to look after.
    fn due(&self) -> Vec<Rc<Pool>> {
        let is_due = |pool: &&Rc<Pool>| pool.idle.borrow().purge_due().is_some();
        let mut due = self.due.take();
        let places = self.all.borrow();
        let all = places.iter().flatten().flat_map(|places| places.iter().flatten());
        due.extend(all.filter(is_due).cloned());
        due
    }

    /// They were looked after.
    fn give_back(&self, mut due: Vec<Rc<Pool>>) {
        due.clear();
        if due.capacity() <= NEIGHBOURS {
            self.due.set(due);
        }
    }

    /// Nobody knows the server any more.
    pub fn forget(&self, server: usize) {
        let mut all = self.all.borrow_mut();
        let neighbours = all.get_mut(server / NEIGHBOURS);
        let gone = neighbours.and_then(|places| {
            let gone = places.as_mut()?[server % NEIGHBOURS].take();
            if places.as_ref()?.iter().all(Option::is_none) {
                *places = None;
            }
            gone
        });
        if gone.is_some() {
            while all.pop_if(|last| last.is_none()).is_some() {}
            // Half of it is left free, so that numbers that come and go do not move it each time.
            let len = all.len();
            if len < all.capacity() / 4 {
                all.shrink_to(2 * len);
            }
        }
        drop(all);
        // What is closed with it may look for another pool.
        drop(gone);
    }
}

impl Pool {
    /// Runs `f` with it. What others see of the number of connections follows from what there is afterwards, even when `f` does not
    /// come to its end.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(&mut IdlePool, &Counters) -> R) -> R {
        let counted = Counted { pool: &mut self.idle.borrow_mut(), counters: &self.counters };
        f(counted.pool, counted.counters)
    }
}

/// A pool in use. Its numbers are brought up to date when this goes.
struct Counted<'a> {
    pool: &'a mut IdlePool,
    counters: &'a Counters,
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        let counters = self.counters;
        // Who carries many requests has proven itself with the first.
        let quiet = self.pool.quiet().get();
        counters.idle_connections.set((self.pool.len() + quiet) as u64);
        counters.proven_connections.set((self.pool.proven() + quiet) as u64);
        counters.shared_connections.set(self.pool.shared() as u64);
    }
}

impl Thread {
    /// Runs `f` with the idle connections to the server of that flat number, if there ever were any. What others see of their
    /// number follows from what there is afterwards, even when `f` does not come to its end.
    pub(crate) fn with_known_pool<R>(
        &self,
        server: usize,
        f: impl FnOnce(&mut IdlePool, &Counters) -> R,
    ) -> Option<R> {
        self.pools.get(server).map(|pool| pool.with(f))
    }

    /// The same, with a pool that is made if there is none; `None` when the thread ends.
    pub(crate) fn with_pool<R>(&self, server: usize, f: impl FnOnce(&mut IdlePool) -> R) -> Option<R> {
        let pin = self.pin()?;
        let pool = self.pools.get_or_make(server, || pin.instance.servers.hold(server, self.thread));
        Some(pool.with(|pool, _| f(pool)))
    }

    /// Closes the idle connections to servers, which nobody gets any more from now on. No pool is made for one that never had any.
    pub(crate) fn clear_pools(&self, servers: &[usize]) {
        let mut idle = Vec::new();
        for server in servers {
            self.with_known_pool(*server, |pool, _| pool.empty(&mut idle));
        }
        close_in_turn(idle);
    }

    /// Runs `f` with each pool in which there is something to look after, and this thread's counters of its server. There may be
    /// many: others have their turn after some. How many there were.
    pub(crate) async fn each_pool(&self, mut f: impl FnMut(&Counters, &mut IdlePool)) -> usize {
        let due = self.pools.due();
        let count = due.len();
        for some in due.chunks(NEIGHBOURS) {
            if count > NEIGHBOURS {
                give_way().await;
            }
            some.iter().for_each(|pool| pool.with(|pool, counters| f(counters, pool)));
        }
        self.pools.give_back(due);
        count
    }

    /// Closes every idle server connection.
    pub fn drop_idle_connections(&self) {
        let due = self.pools.due();
        due.iter().for_each(|pool| pool.with(|pool, _| pool.empty(&mut Vec::new())));
        self.pools.give_back(due);
    }
}

impl Worker {
    /// Runs `f` with the idle connections to a server, as [`Thread::with_known_pool`] does; a pool is made if there is none.
    pub fn with_pool_of<R>(&self, server: OfServer<'_>, f: impl FnOnce(&mut IdlePool) -> R) -> R {
        let hold = || self.instance.servers.hold(server.index, self.thread);
        self.pools.get_or_make(server.index, hold).with(|pool, _| f(pool))
    }
}

/// The idle connections of one server on one thread.
///
/// Those that were never used again are taken first, and of them the one that has been idle for longest: what a server
/// says out of turn, or its end, has had the most time to come and to be noticed.
#[derive(Default)]
pub struct IdlePool {
    /// Connections that carry one request at a time.
    alone: Rack<Block<ServerConn>>,
    /// Connections that carry many requests at once, with and without any on them. The oldest with room is taken, so that those
    /// that are not needed are left idle.
    shared: Shelf<SharedConnection>,
    /// Those of them without any.
    quiet: Rc<Cell<usize>>,
    /// `pool-purge-delay`, in milliseconds.
    purge_delay: u64,
    /// When those in excess are closed, in milliseconds of the monotonic clock; nothing is planned while there are none.
    purge_due: Option<u64>,
    /// Other threads' requests that wait for one of them.
    asking: VecDeque<(Option<Arc<ConnectionKey>>, Reply)>,
    /// How often the server's address had changed when these were made.
    moves: u32,
}

/// The most that may wait for a connection that is in use; more are refused.
const ASKING_MAX: usize = 1000;

impl IdlePool {
    /// Number of idle connections that carry one request at a time.
    pub fn len(&self) -> usize {
        self.alone.len()
    }

    /// How many of them have carried more than one request.
    pub fn proven(&self) -> usize {
        self.alone.count(Age::Proven)
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.alone.is_empty()
    }

    /// Keeps a connection if it may be needed, else closes it: no more are kept, with those in use, than are needed at
    /// once. One is always kept, and one that has proved to last. There is a purge every `purge_delay` milliseconds; returns
    /// when the next one is due.
    #[inline]
    pub fn put(&mut self, connection: Block<ServerConn>, demand: Demand, purge_delay: u64) -> u64 {
        self.purge_delay = purge_delay;
        let age = if connection.is_proven() { Age::Proven } else { Age::Fresh };
        let is_only = self.proven() == 0 && (age == Age::Proven || self.alone.count(Age::Fresh) == 0);
        let is_needed = self.len() + demand.others < demand.needed + demand.low;
        let is_kept = match demand.shortage {
            Shortage::None => is_only || is_needed,
            Shortage::Low => is_only,
            Shortage::High => false,
        };
        if is_kept {
            let key = connection.key.clone();
            self.alone.put(key.as_ref(), age, connection);
        }
        *self.purge_due.get_or_insert_with(|| clock::now_ms() + self.purge_delay)
    }

    /// Takes a connection that is interchangeable with `key`. One on which something has arrived (the server closed it,
    /// or spoke out of turn) is dropped on the way.
    pub fn take(&mut self, key: Option<&ConnectionKey>, proven_only: bool) -> Option<Block<ServerConn>> {
        let ages: &[Age] = if proven_only { &[Age::Proven] } else { &[Age::Fresh, Age::Proven] };
        self.alone.take(key, ages, is_silent)
    }

    /// Adds a connection that carries many requests at once. There is a purge every `purge_delay` milliseconds; returns its
    /// number here, and when the next purge is due.
    pub fn share(&mut self, connection: SharedConnection, purge_delay: u64) -> (u64, u64) {
        self.purge_delay = purge_delay;
        let number = self.shared.add(connection);
        (number, *self.purge_due.get_or_insert_with(|| clock::now_ms() + self.purge_delay))
    }

    /// A connection that carries many requests at once is over.
    pub fn forget(&mut self, number: u64) {
        self.shared.remove(number);
    }

    /// A place for another request on a connection that is interchangeable with `key`. One that has carried `most` requests
    /// (`max-reuse`) is left to end.
    pub fn take_place(&mut self, key: Option<&ConnectionKey>, most: Option<u32>) -> Option<Place> {
        if self.shared.is_empty() {
            return None;
        }
        let (number, connection) = self.shared.roomy(key)?;
        let place = connection.place();
        if most.is_some_and(|most| place.requests >= most) {
            self.shared.remove(number);
        }
        Some(place)
    }

    /// A connection without any request on it, for another thread. See [`IdlePool::take`].
    pub fn take_quiet(&mut self, key: Option<&ConnectionKey>, proven_only: bool) -> Option<SharedConnection> {
        let fits = |c: &SharedConnection| (!proven_only || c.is_proven()) && c.may_move();
        let number = self.shared.resting(key).find(|(_, c)| fits(c)).map(|(number, _)| number)?;
        self.shared.remove(number)
    }

    /// Whoever asks for a connection that is interchangeable with `key` gets the next one that has no request any more. False when
    /// there is none to wait for, or too many wait.
    pub fn wait(&mut self, key: Option<Arc<ConnectionKey>>, asking: Reply) -> bool {
        let waits = self.shared.lasts(key.as_deref()) && self.asking.len() < ASKING_MAX;
        if waits {
            self.asking.push_back((key, asking));
        }
        waits
    }

    /// A connection has no request any more: it goes to who waits for it, or is closed if there are more of those than `demand`
    /// needs.
    pub fn rests(&mut self, number: u64, demand: Demand) {
        self.shared.rests(number, true);
        let Some(connection) = self.shared.get(number) else { return };
        if connection.may_move()
            && let Some(first) = self.asking.iter().position(|(key, _)| connection.is_for(key.as_deref()))
            && let Some((_, asking)) = self.asking.remove(first)
        {
            if let Some(connection) = self.shared.remove(number) {
                connection.hand_to(asking);
            }
            return;
        }
        let (idle, is_only) = (self.len() + self.quiet.get(), self.quiet.get() <= 1);
        let in_excess = match demand.shortage {
            Shortage::None => !is_only && idle + demand.others > demand.needed + demand.low,
            Shortage::Low => !is_only,
            Shortage::High => true,
        };
        if in_excess && !connection.is_attached() {
            self.shared.remove(number);
        }
    }

    /// A connection has requests again.
    pub fn works(&mut self, number: u64) {
        self.shared.rests(number, false);
    }

    /// How many carry many requests at once, with and without any.
    pub fn shared(&self) -> usize {
        self.shared.len()
    }

    /// How many of those have none: they count themselves.
    pub fn quiet(&self) -> &Rc<Cell<usize>> {
        &self.quiet
    }

    /// Closes the connection that is needed least, if one has no request. One that carries many at once is closed in a moment.
    pub fn close_one(&mut self) -> bool {
        for age in [Age::Fresh, Age::Proven] {
            if self.alone.count(age) > 0 {
                self.alone.drop_oldest(age, 1);
                return true;
            }
        }
        let mut closed = false;
        self.shared
            .retain(|c| closed || c.is_attached() || !c.may_move() || std::mem::replace(&mut closed, true));
        closed
    }

    /// Drops the connections on which something arrived.
    pub fn drop_closed(&mut self) {
        self.alone.retain(is_silent);
        self.shared.retain(|c| !c.is_spent());
    }

    /// The server's address has changed `moves` times: closes the connections to a former one. False when those here lead
    /// to a later one than that, and so are not for whoever asks.
    #[inline]
    pub fn follow(&mut self, moves: u32) -> bool {
        if moves > self.moves {
            let mut idle = Vec::new();
            self.empty(&mut idle);
            close_in_turn(idle);
            self.moves = moves;
        }
        moves == self.moves
    }

    /// When [`IdlePool::purge`] is due; `None` while there is nothing to plan for.
    pub fn purge_due(&self) -> Option<u64> {
        self.purge_due
    }

    /// Closes half of the connections in excess, oldest first, when `used` are in use and `needed` are needed: first
    /// those that were never needed again.
    pub fn purge(&mut self, used: usize, needed: usize, now_ms: u64) {
        let excess = (self.len() + used).saturating_sub(needed);
        if excess > 0 {
            // One more than half, so that the last one goes, too.
            let n = (excess.div_ceil(2) + 1).min(self.len());
            let fresh = n.min(self.alone.count(Age::Fresh));
            self.alone.drop_oldest(Age::Fresh, fresh);
            self.alone.drop_oldest(Age::Proven, n - fresh);
        }
        // Of those with room for many, one without any is enough, while traffic goes on.
        let mut keep = usize::from(needed > 0);
        self.shared.retain(|c| c.is_attached() || !c.is_idle() || std::mem::replace(&mut keep, 0) > 0);
        self.purge_due = (!self.is_empty() || !self.shared.is_empty()).then_some(now_ms + self.purge_delay);
    }

    /// Takes out those that carry one request at a time, and lets go of the others.
    fn empty(&mut self, alone: &mut impl Extend<Block<ServerConn>>) {
        alone.extend(self.alone.take_all());
        self.shared.clear();
        self.asking.clear();
    }
}

/// Whether nothing has arrived on an idle connection.
fn is_silent(connection: &mut Block<ServerConn>) -> bool {
    !connection.port.line.has_input_now() || bug("dirty-pool")
}
