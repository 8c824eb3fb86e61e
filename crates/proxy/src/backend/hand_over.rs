//! A server connection that nobody uses goes from the thread that owns it to one that needs it, by message.
//!
//! One that carries a request at a time is given to who asks. One that carries many goes into the pool of the thread that asks,
//! with whatever was received meanwhile: its own task gives it up, so that it is the same thread's from the first byte to the
//! last that is handled of each receive.
//!
//! Neither the question nor the answer takes a lock, or memory of the allocator's: [`ask`]. What a connection is known by
//! crosses as a value, and its key as the count that who asks has of it.

use std::sync::Arc;

use thalweg_config::model::Reuse;
use thalweg_runtime::pool::Block;
use thalweg_runtime::{Kind, Question, ask, spawn, timer};
use thalweg_sample::facts::Endpoint;

use super::connect::{ServerConn, Target};
use super::key::ConnectionKey;
use super::seats::Seat;
use super::shared::Arriving;
use crate::connection::transport::Detached;
use crate::worker;

static HAND_OVER: Kind = Kind::new("hand-over");

/// A connection on its way between threads.
pub struct Handed {
    wire: Detached,
    /// Requests it has carried.
    requests: u32,
    /// Its own address and the server's.
    ends: (Endpoint, Endpoint),
    seat: Option<Seat>,
}

/// What came of it.
pub enum Given {
    /// A connection that carries a request at a time.
    Alone(Handed),
    /// One with room for many.
    Many(Box<Arriving>),
}

/// What another thread is asked for.
pub struct Wanted {
    /// The flat number of its server.
    server: usize,
    /// Made after this many changes of its address.
    moves: u32,
    key: Option<Arc<ConnectionKey>>,
    proven_only: bool,
    /// One that has requests now is waited for.
    waits: bool,
}

/// The answer on its way: whoever asked hears of it however the owner's task ends.
pub type Reply = thalweg_runtime::Reply<Wanted>;

impl Question for Wanted {
    type Answer = Given;

    fn put(self, reply: Reply) {
        // Cancelling a receive that runs ahead can take a moment, hence a task.
        spawn(&HAND_OVER, async move {
            crate::plant::here("hand-over");
            take(&self, reply).await;
        });
    }

    /// One that carries a request at a time is closed. One with room for many is as good as any other that is kept, and the server
    /// may have made it, so that there is no other.
    fn unclaimed(given: Given) {
        if let Given::Many(arriving) = given {
            arriving.arrive();
        }
    }
}

/// How long a request waits at most for a connection that has others on another thread, in milliseconds. Only where none can be
/// made.
const WAIT_MS: u64 = 500;

/// Takes a connection out of this thread's pool and off this thread.
async fn take(wanted: &Wanted, reply: Reply) {
    let Some(worker) = worker::current() else { return };
    let key = wanted.key.as_deref();
    let taken = worker.with_known_pool(wanted.server, |pool, _| {
        if !pool.follow(wanted.moves) {
            return (None, None);
        }
        match pool.take(key, wanted.proven_only) {
            None => (None, pool.take_quiet(key, wanted.proven_only)),
            alone => (alone, None),
        }
    });
    let (alone, shared) = taken.unwrap_or_default();
    let idle = match (alone, shared) {
        (_, Some(shared)) => return shared.hand_to(reply),
        (Some(idle), None) => idle,
        (None, None) => {
            if wanted.waits {
                worker.with_known_pool(wanted.server, |pool, _| pool.wait(wanted.key.clone(), reply));
            }
            return;
        }
    };
    let ServerConn { port, requests, ends, seat, .. } = Block::into_inner(idle);
    let Some(mut io) = port.line.into_wire() else { return };
    std::future::poll_fn(|_| io.poll_detach()).await;
    if let Some(wire) = io.into_detached().filter(Detached::is_silent) {
        reply.give(Given::Alone(Handed { wire, requests, ends, seat }));
    }
}

impl Target<'_> {
    /// An idle connection of another thread, when that is allowed (`tune.idle-pool.shared`, `pool-low-conn`): its owner is
    /// asked for it, nobody reaches into another thread's memory.
    pub async fn take_siblings_idle(&self, first_request: bool) -> Option<ServerConn> {
        let worker = self.worker;
        let instance = &worker.instance;
        let reuse = self.proxy.http_reuse;
        let allowed = match reuse {
            // There is no other way to such a server.
            _ if self.is_reverse() => true,
            Reuse::Never => false,
            Reuse::Safe => !first_request,
            Reuse::Aggressive | Reuse::Always => true,
        };
        if !allowed || instance.threads.len() < 2 || !instance.config.global.tune.idle_pool_shared {
            return None;
        }
        let server = instance.server_index(self.proxy.id, self.server.id);
        let of = |thread: usize| instance.servers.of(server, thread);
        if !self.is_reverse() {
            // A thread may end what another one began: a number below 0 is none.
            let idle_of = |thread: &usize| i64::try_from(of(*thread).idle_connections.get()).unwrap_or(0);
            let total: i64 = (0..instance.threads.len()).map(|thread| idle_of(&thread)).sum();
            if total <= i64::from(self.server.pool.low_conn) {
                return None;
            }
            let others = (0..instance.threads.len()).filter(|thread| *thread != worker.thread);
            let owner = others.max_by_key(idle_of).filter(|thread| idle_of(thread) > 0)?;
            let proven_only = reuse == Reuse::Aggressive && first_request;
            return self.ask(owner, server, first_request, (proven_only, false)).await;
        }
        // No other one can be made: all are asked, at last for those that are in use.
        let deadline = WAIT_MS.min(self.proxy.timeouts.connect.unwrap_or(WAIT_MS));
        let asked = async {
            for waits in [false, true] {
                for owner in (0..instance.threads.len()).filter(|thread| *thread != worker.thread) {
                    if of(owner).shared_connections.get() == 0 {
                        continue;
                    }
                    let taken = self.ask(owner, server, first_request, (false, waits)).await;
                    if taken.is_some() {
                        return taken;
                    }
                }
            }
            None
        };
        timer::timeout_at(Some(timer::deadline_in(deadline)), asked).await.ok().flatten()
    }

    /// Asks one thread.
    async fn ask(
        &self,
        owner: usize,
        server: usize,
        first_request: bool,
        (proven_only, waits): (bool, bool),
    ) -> Option<ServerConn> {
        let (moves, key) = (self.moves(), self.key.clone());
        match ask(owner, Wanted { server, moves, key, proven_only, waits }).await? {
            Given::Alone(handed) => self.take_handed(handed),
            // It is in the pool of this thread from here on.
            Given::Many(arriving) => {
                let arrived = arriving.arrive().then(|| self.take_idle(first_request));
                arrived.flatten().map(Block::into_inner)
            }
        }
    }

    fn take_handed(&self, handed: Handed) -> Option<ServerConn> {
        let Handed { wire, requests, ends, seat } = handed;
        let (mut io, _) = wire.attach().ok()?;
        io.set_reset_on_close(true);
        if seat.is_some() {
            io.set_prompt_close();
        }
        self.note_use(true);
        self.count_reuse();
        let conn = ServerConn::new(io, self.key.clone(), (requests + 1, true), ends, self.moves());
        Some(ServerConn { seat, ..conn })
    }
}
