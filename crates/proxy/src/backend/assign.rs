//! Choosing the server of a stream, waiting for a slot when there is none (manual: `balance`, `use-server`,
//! `maxconn`, `timeout queue`).

use std::task::Poll;

use thalweg_balance::{PickContext, Priority, ServerIndex};
use thalweg_config::model::{Proxy, ProxyId, ServerId};
use thalweg_runtime::{clock, current_task, timer};
use thalweg_sample::facts::{self, StreamFacts};

use super::outliers::{self, Failure};
use super::{Backend, Grant, Slot, adaptive};
use crate::worker::Worker;

/// Why a stream got no server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoServer {
    /// No server is usable.
    NoneUsable,
    /// The queue of the server is full (`maxqueue`).
    QueueFull,
    /// `timeout queue` passed.
    Timeout,
    /// The client went away (or `gave_up` said so).
    Abandoned,
}

/// Whether the attempt after `retries` failed ones, the last of them on `server`, may go to another server (`option redispatch`).
pub fn may_redispatch(
    worker: &Worker,
    proxy: &Proxy,
    choice: Choice,
    server: ServerId,
    (retries, max): (u32, u32),
) -> bool {
    // Who asked for no certain server is better off elsewhere.
    if choice.wanted.is_none() && worker.backend(proxy.id).is_ejected(server) {
        return true;
    }
    let Some(interval) = proxy.opts.redispatch else { return false };
    let (done, max) = (i64::from(retries), i64::from(max));
    let due = match i64::from(interval) {
        n if n > 0 => done % n == 0,
        0 => false,
        n => done == max + 1 + n,
    };
    // Nothing but its turn tied the stream to its server, and there are others.
    let free = choice.wanted.is_none() && choice.key.is_none() && worker.backend(proxy.id).usable_count() > 1;
    due || free
}

/// The percentage of the requests that a second server may be asked of where no `retry-budget` says.
const HEDGE_BUDGET: u32 = 10;

/// Whether the budget of a backend pays for another attempt (`retry-budget`); if so, it has.
pub fn pays_retry(worker: &Worker, proxy: &Proxy) -> bool {
    proxy.rare().retry_budget.is_none_or(|percent| pays(worker, proxy, percent))
}

/// Whether the same budget pays for asking a second server; there always is one for that.
pub fn pays_hedge(worker: &Worker, proxy: &Proxy) -> bool {
    pays(worker, proxy, proxy.rare().retry_budget.unwrap_or(HEDGE_BUDGET))
}

fn pays(worker: &Worker, proxy: &Proxy, percent: u32) -> bool {
    let requests = worker.be_counters(proxy.id).total.get();
    let pays = worker.with_view(proxy.id, |view| view.retry_budget.take(percent, requests, clock::now_ms()));
    if !pays {
        worker.be_counters(proxy.id).refused_retries.add(1);
    }
    pays
}

/// A stream is sent to the same server again, or to another one after there was a connection.
pub fn count_retry(worker: &Worker, proxy: ProxyId, server: ServerId) {
    worker.be_counters(proxy).retries.add(1);
    worker.srv_counters(proxy, server).retries.add(1);
}

/// One attempt of the load balancer.
fn pick(
    worker: &Worker,
    backend: &Backend,
    proxy: &Proxy,
    key: Option<u32>,
    avoid: Option<ServerIndex>,
) -> Option<ServerIndex> {
    let view = backend.view();
    let cx = PickContext {
        servers: &view,
        avoid,
        random: worker.next_random(),
        now_us: clock::now_us().cast_signed(),
    };
    let picked = worker.with_view(proxy.id, |v| backend.balancer.pick(v, key, &cx))?;
    // To stay where it was is no choice.
    if Some(picked) != avoid {
        worker.be_counters(proxy.id).chosen.add(1);
        worker.srv_counters(proxy.id, ServerId(picked.0)).chosen.add(1);
    }
    Some(picked)
}

/// A server answered a request, or was connected to, after so many microseconds: what `balance ewma` and the detection of
/// outliers go by. For backends that [learn](Proxy::learns) from it.
#[inline(never)]
pub fn answered(worker: &Worker, proxy: &Proxy, server: ServerId, after_us: i64) {
    let us = u64::try_from(after_us).unwrap_or(0).max(1);
    if proxy.balance.algo.measures_servers() {
        worker
            .with_view(proxy.id, |view| view.estimates.answered(server.0, us, clock::now_us().cast_signed()));
    }
    if proxy.rare().counts_outcomes() {
        let counters = worker.srv_counters(proxy.id, server);
        counters.outcomes.add(1);
        counters.answer_us.add(us);
        outliers::went_well(worker, proxy, server);
        adaptive::look_when_due(worker, proxy, server);
    }
}

/// A request that may be hedged was answered after so many microseconds, by whichever server: what `option hedge p95` goes by.
pub fn note_answer_time(worker: &Worker, proxy: &Proxy, after_us: i64) {
    let us = u64::try_from(after_us).unwrap_or(0);
    worker.with_view(proxy.id, |view| view.answer_times.note(us));
}

/// The time within which this percentage of a backend's requests is answered, in milliseconds, if that is known.
pub fn answer_percentile_ms(worker: &Worker, proxy: &Proxy, percent: u32) -> Option<u64> {
    let us = worker.with_view(proxy.id, |view| view.answer_times.percentile(percent))?;
    Some(us.div_ceil(1000).max(1))
}

/// A request failed on a server. For backends that [learn](Proxy::learns) from it.
pub fn failed(worker: &Worker, proxy: &Proxy, server: ServerId, how: Failure) {
    if proxy.balance.algo.measures_servers() {
        worker.with_view(proxy.id, |view| view.estimates.failed(server.0, clock::now_us().cast_signed()));
    }
    if proxy.rare().counts_outcomes() {
        let counters = worker.srv_counters(proxy.id, server);
        counters.outcomes.add(1);
        counters.failed_outcomes.add(1);
        outliers::failed(worker, proxy, server, how);
        adaptive::look_when_due(worker, proxy, server);
    }
}

/// Where a stream must go.
#[derive(Clone, Copy, Debug, Default)]
pub struct Choice {
    /// `use-server` or persistence named this one.
    pub wanted: Option<ServerIndex>,
    /// The hash of the request's key.
    pub key: Option<u32>,
    /// The server that just failed: another one is preferred.
    pub avoid: Option<ServerIndex>,
}

/// Why there is no slot at once.
#[derive(Clone, Copy, Debug)]
pub enum Full {
    /// No server is usable.
    NoneUsable,
    /// This server has none left; all of them without one.
    Busy(Option<ServerIndex>),
}

/// Chooses a server and takes a slot on it, if it has one.
pub fn at_once(worker: &Worker, proxy: &Proxy, choice: Choice) -> Result<Slot, Full> {
    let backend = worker.backend(proxy.id);
    let wanted = match choice.wanted {
        Some(server) => Some(server),
        None if backend.usable_count() == 0 => return Err(Full::NoneUsable),
        None => pick(worker, backend, proxy, choice.key, choice.avoid),
    };
    wanted.and_then(|server| backend.try_start(server)).ok_or(Full::Busy(wanted))
}

/// Chooses a server and takes a slot on it, waiting in a queue as there was none [at once](at_once). `gave_up` is asked at
/// every wake-up while waiting: it returns true when the client is gone.
pub async fn wait(
    worker: &Worker,
    proxy: &Proxy,
    choice: Choice,
    mut full: Full,
    facts: &mut StreamFacts,
    timeout_ms: Option<u64>,
    mut gave_up: impl FnMut() -> bool,
) -> Result<Slot, NoServer> {
    let backend = worker.backend(proxy.id);
    loop {
        let Full::Busy(wanted) = full else { return Err(NoServer::NoneUsable) };
        // A server that was named, or that a hash designates, is waited for; otherwise any will do.
        let insists = choice.wanted.is_some() || choice.key.is_some();
        let queue_of = wanted.filter(|_| insists);
        let priority = Priority::clamped(i64::from(facts.prio_class), i64::from(facts.prio_offset));
        // Who waits for a server has one, as far as logs are concerned, and keeps its number.
        facts.server = queue_of
            .filter(|s| worker.server(proxy, ServerId(s.0)).is_some())
            .map(|s| facts::ServerId { proxy: facts::ProxyId(proxy.id.0), index: s.0 })
            .or(facts.server);
        let entered = backend.enter_queue(queue_of, priority, clock::now_ms(), current_task());
        let Some(queued) = entered else { return Err(NoServer::QueueFull) };
        let deadline = timer::Deadline(timeout_ms.map(timer::deadline_in));
        let mut guard = InQueue { backend, queued: Some(queued) };
        let end = std::future::poll_fn(|_| {
            match guard.queued.as_ref().map(super::Queued::grant) {
                Some(Grant::Server(slot)) => {
                    backend.take_over(slot);
                    return Poll::Ready(Ok(Some(slot)));
                }
                Some(Grant::Again) | None => return Poll::Ready(Ok(None)),
                Some(Grant::No) => {}
            }
            crate::plant::here("queued");
            match gave_up() {
                true => Poll::Ready(Err(NoServer::Abandoned)),
                false => deadline.poll().map(|()| Err(NoServer::Timeout)),
            }
        })
        .await;
        let waited_for = guard.queued.as_ref().map_or(0, |queued| backend.waited_for(queued));
        let position = if queue_of.is_some() { &mut facts.srv_queue_pos } else { &mut facts.be_queue_pos };
        *position = position.saturating_add(waited_for);
        let granted = end?;
        // The place was given up for it.
        guard.queued = None;
        full = match granted.map_or_else(|| at_once(worker, proxy, choice), Ok) {
            Ok(slot) => return Ok(slot),
            Err(full) => full,
        };
    }
}

/// A place in a queue that is given up when the stream ends while it waits, whatever the reason.
struct InQueue<'a> {
    backend: &'a Backend,
    queued: Option<super::Queued>,
}

impl Drop for InQueue<'_> {
    fn drop(&mut self) {
        if crate::plant::bug("queue-place-kept") {
            return;
        }
        if let Some(slot) = self.queued.take().and_then(|q| self.backend.leave_queue(q)) {
            self.backend.end(slot);
        }
    }
}
