//! A server connection that nobody uses goes from the thread that owns it to one that needs it, by message.
//!
//! One that carries a request at a time is given to who asks. One that carries many goes into the pool of the thread that asks,
//! with whatever was received meanwhile: its own task gives it up, so that it is the same thread's from the first byte to the
//! last that is handled of each receive.

use std::task::Poll;

use thalweg_config::model::Reuse;
use thalweg_live::answer;
use thalweg_runtime::{Kind, current_task, run_on, spawn, thread_index, timer};

use super::asking::Asking;
use super::connect::{ServerConn, Target, ends};
use super::key::ConnectionKey;
use super::seats::Seat;
use crate::connection::transport::Detached;
use crate::worker;

static HAND_OVER: Kind = Kind::new("hand-over");

/// A connection on its way between threads.
struct Handed {
    wire: Detached,
    /// Requests it has carried.
    requests: u32,
    seat: Option<Seat>,
}

/// What came of it.
enum Given {
    /// A connection.
    Alone(Handed),
    /// One with room for many, in the pool of the thread that asked.
    Arrived,
}

/// What is asked for.
struct Wanted {
    /// The flat number of its server.
    server: usize,
    /// Made after this many changes of its address.
    moves: u32,
    key: Option<ConnectionKey>,
    proven_only: bool,
    /// One that has requests now is waited for.
    waits: bool,
}

/// How long a request waits at most for a connection that has others on another thread, in milliseconds. Only where none can be
/// made.
const WAIT_MS: u64 = 500;

/// Asks thread `owner` for an idle connection. When the asking task ends before the answer comes, a connection that carries one
/// request at a time is closed.
async fn ask(owner: usize, wanted: Wanted) -> Option<Given> {
    let (answer, reply) = answer::ask(Asking(current_task()));
    let reply = Reply { thread: thread_index(), reply };
    run_on(owner, move || {
        // Cancelling a receive that runs ahead can take a moment, hence a task.
        spawn(&HAND_OVER, async move {
            crate::plant::here("hand-over");
            take(&wanted, reply).await;
        });
    });
    std::future::poll_fn(|_| answer.take().map_or(Poll::Pending, Poll::Ready)).await
}

/// The answer on its way: whoever asked hears of it however the owner's task ends.
pub struct Reply {
    /// Where it was asked.
    thread: usize,
    reply: answer::Reply<Given, Asking>,
}

impl Reply {
    fn give(self, given: Option<Given>) {
        self.reply.give(given);
    }

    /// Brings a connection to the thread that asked for it: `arrive` puts it into the pool there, and tells whether it could.
    pub fn bring(self, arrive: impl FnOnce() -> bool + Send + 'static) {
        run_on(self.thread, move || self.give(arrive().then_some(Given::Arrived)));
    }
}

/// Takes a connection out of this thread's pool and off this thread.
async fn take(wanted: &Wanted, reply: Reply) {
    let Some(worker) = worker::current() else { return };
    let key = wanted.key.as_ref();
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
    let ServerConn { port, requests, seat, .. } = *idle;
    let Some(mut io) = port.line.into_wire() else { return };
    std::future::poll_fn(|_| io.poll_detach()).await;
    let wire = io.into_detached().filter(Detached::is_silent);
    reply.give(wire.map(|wire| Given::Alone(Handed { wire, requests, seat })));
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
        let (moves, key) = (self.moves(), self.key().cloned());
        match ask(owner, Wanted { server, moves, key, proven_only, waits }).await? {
            Given::Alone(handed) => self.take_handed(handed),
            Given::Arrived => self.take_idle(first_request).map(|conn| *conn),
        }
    }

    fn take_handed(&self, handed: Handed) -> Option<ServerConn> {
        let (mut io, _) = handed.wire.attach().ok()?;
        io.set_reset_on_close(true);
        if handed.seat.is_some() {
            io.set_prompt_close();
        }
        let ends = ends(&io);
        self.note_use(true);
        self.count_reuse();
        let carried = (handed.requests + 1, true);
        let conn = ServerConn::new(io, self.key.clone(), carried, ends, self.moves());
        Some(ServerConn { seat: handed.seat, ..conn })
    }
}
