//! Idle connections to servers: which are kept, and the task of each thread that looks after them.

use std::rc::Rc;

use thalweg_config::model::{Proxy, Reuse, Server};
use thalweg_runtime::pool::Block;
use thalweg_runtime::timer::{self, timeout_at};
use thalweg_runtime::{Kind, clock, spawn};

use super::connect::ServerConn;
use super::demand::Demand;
use super::pool::IdlePool;
use super::seats::Seat;
use crate::connection::body::BodyReader;
use crate::connection::line::Line;
use crate::counters::{Counters, OfServer};
use crate::worker::{Thread, Worker};

/// Keeps a connection that ended its request on a message boundary for the next one, or closes it.
#[inline]
pub fn give_back(
    worker: &Worker,
    (proxy, server): (&Proxy, &Server),
    of_server: OfServer<'_>,
    mut conn: Block<ServerConn>,
) {
    let backend = proxy.id;
    let pool = server.pool;
    let exhausted = pool.max_reuse >= 0 && i64::from(conn.requests) > i64::from(pool.max_reuse);
    if proxy.http_reuse == Reuse::Never || pool.max_conn == 0 || pool.purge_delay_ms == 0 || exhausted {
        return;
    }
    // Another request needs its seat.
    if conn.seat.as_ref().is_some_and(Seat::is_wanted) {
        return;
    }
    // A server that went out of service has lost its idle connections; those that come back late follow them.
    if !worker.backend(backend).is_up(server.id) {
        return;
    }
    // Neither has one whose server moved meanwhile.
    let moves = worker.moves(backend, server);
    if conn.moves != moves {
        return;
    }
    // The limit is for all threads together. The connections that are idle already stay: they have proved to last.
    if let Ok(max) = u64::try_from(pool.max_conn) {
        let idle_now = worker.instance.servers.sum(of_server.index, |c| &c.idle_connections);
        if idle_now >= max {
            return;
        }
    }
    // The stream that gives the connection back is still counted.
    let demand = Demand {
        others: to_usize(of_server.counters.current.get()).saturating_sub(1),
        needed: to_usize(of_server.counters.needed_connections.get()),
        low: pool.low_conn as usize,
        shortage: worker.shortage(),
    };
    worker.with_pool_of(of_server, |idle| {
        let (true, Line::Wire(io)) = (idle.follow(moves), &mut conn.port.line) else { return };
        io.watch(worker.janitor.get());
        // Nothing of the last message is left but how it was read.
        debug_assert!(conn.port.is_idle());
        conn.port.body = BodyReader::default();
        worker.wake_janitor(idle.put(conn, demand, u64::from(pool.purge_delay_ms)));
    });
}

static JANITOR: Kind = Kind::new("idle-connections");

/// Pause before another janitor takes the place of one that a bug ended, in milliseconds.
const JANITOR_PAUSE_MS: u64 = 1000;

/// Starts to look after the idle connections of this thread, in `delay_ms`.
pub fn start_janitor(own: &Rc<Thread>, delay_ms: u64) {
    let janitor = Janitor(Rc::clone(own));
    spawn(&JANITOR, async move {
        if delay_ms > 0 {
            timer::sleep(delay_ms).await;
        }
        look_after_idle(&janitor.0).await;
    });
}

/// The task that looks after idle connections. There is always one.
struct Janitor(Rc<Thread>);

impl Drop for Janitor {
    fn drop(&mut self) {
        if std::thread::panicking() {
            start_janitor(&self.0, JANITOR_PAUSE_MS);
        }
    }
}

/// Looks after the idle connections of one thread: closes those the server closed, and, every `pool-purge-delay` of
/// each server, half of those that are not needed. Sleeps while there are none.
async fn look_after_idle(worker: &Thread) {
    worker.janitor.set(thalweg_runtime::current_task());
    // There may be connections already, of a janitor before this one.
    let mut next_purge = 0;
    loop {
        let deadline = (next_purge != u64::MAX).then_some(next_purge);
        worker.janitor_sleeps_until.set(next_purge);
        if crate::plant::bug("spin") {
            thalweg_runtime::current_task().wake(thalweg_runtime::Reason::OTHER);
        }
        // Woken by input on an idle connection, by one that comes in before all others are due, or by the time: any
        // wake-up ends the wait, so only the clock tells what is due.
        let _ = timeout_at(deadline, wait_once()).await;
        // Whoever has its turn between two looks says so, whenever that is due.
        worker.janitor_sleeps_until.set(u64::MAX);
        let now = clock::now_ms();
        next_purge = u64::MAX;
        let look = |counters: &Counters, pool: &mut IdlePool| {
            pool.drop_closed();
            crate::plant::here("janitor");
            if pool.purge_due().is_some_and(|due| due <= now) {
                purge(counters, pool, now);
            }
            next_purge = next_purge.min(pool.purge_due().unwrap_or(u64::MAX));
        };
        let looked_at = worker.each_pool(look).await;
        let came_meanwhile = worker.janitor_sleeps_until.get() == 0;
        if rest(worker, next_purge, looked_at).await || came_meanwhile {
            next_purge = 0;
        }
    }
}

/// Idle connections of so many servers are looked at for each millisecond of rest after that: of ten thousand servers some connection
/// is closed, or due, in every millisecond, and each look is at all of them.
const LOOKED_AT_PER_MS: usize = 16;

/// The longest rest, in milliseconds.
const REST_MAX_MS: u64 = 1000;

/// How long nothing is looked after once the connections of so many servers were, in milliseconds. Who takes one that its server has
/// closed meanwhile finds out.
fn rest_ms(looked_at: usize) -> u64 {
    ((looked_at / LOOKED_AT_PER_MS) as u64).min(REST_MAX_MS)
}

/// Rests. Whether something happened meanwhile.
async fn rest(worker: &Thread, next_purge: u64, looked_at: usize) -> bool {
    let rest_ms = rest_ms(looked_at);
    if rest_ms == 0 {
        return false;
    }
    worker.janitor_sleeps_until.set(next_purge);
    let until = timer::deadline_in(rest_ms);
    let mut happened = false;
    while clock::now_ms() < until {
        happened |= timeout_at(Some(until), wait_once()).await.is_ok();
    }
    happened
}

/// Closes half of the connections of a pool that are in excess, and estimates anew how many are needed.
fn purge(server: &Counters, pool: &mut IdlePool, now_ms: u64) {
    let used = server.current.get();
    let needed = server.needed_connections.get();
    pool.purge(to_usize(used), to_usize(needed), now_ms);
    // A burst counts less and less, and is not forgotten at once.
    server.needed_connections.set((needed + server.used_connections_max.get()) / 2);
    server.used_connections_max.set(used);
}

fn to_usize(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// Pending the first time it is polled, ready the second: waits for whatever wakes the task.
fn wait_once() -> impl Future<Output = ()> {
    let mut polled = false;
    std::future::poll_fn(move |_| {
        if std::mem::replace(&mut polled, true) {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_at_very_many_is_followed_by_a_rest() {
        assert_eq!([15, 16, 5_000, 100_000].map(rest_ms), [0, 1, 312, REST_MAX_MS]);
    }
}
