//! `option outlier-detection` (ours): servers that are worse than the others are ejected for a while.
//!
//! Every request tells its outcome ([`failed`], [`went_well`]). Errors in a row, and a connection that is refused, count at once.
//! Shares and times are compared once in an interval, by the thread whose request finds that it is over, from what all threads
//! counted. Who is ejected is the last choice of the balancer, and gets requests again when its time is over.
//!
//! A request that goes well writes its thread's counters only, unless there were errors before it.

use std::rc::Rc;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use thalweg_balance::ServerIndex;
use thalweg_balance::outlier::{Criteria, Outcomes, Outlier, hold_ms, may_eject, outliers};
use thalweg_config::model::{LogLevel, OutlierDetection, Proxy, ProxyId, ServerId};
use thalweg_runtime::{Class, Kind, clock, in_class, spawn, timer};
use thalweg_shared::{AtomicU32, AtomicU64, Mutex};

use super::Backend;
use super::health::{tell, title};
use crate::counters::{Counter, Counters};
use crate::instance::Instance;
use crate::worker::{self, Thread, Worker};

static HOLD: Kind = Kind::new("outlier");
static COMPARE: Kind = Kind::new("outliers");

/// What is known of one server.
#[derive(Default)]
pub(super) struct Watched {
    /// Requests in a row that failed.
    errors: AtomicU32,
    /// Until when it is ejected, in milliseconds of the clock; 0 while it is not.
    until_ms: AtomicU64,
    /// How often it was ejected, less the intervals in which it was not since.
    times: AtomicU32,
    /// What was counted of it when servers were compared last.
    before: Mutex<Outcomes>,
}

impl Watched {
    /// From now on it is about another server.
    pub(super) fn begin(&self) {
        self.errors.store(0, Ordering::Relaxed);
        self.until_ms.store(0, Ordering::Relaxed);
        self.times.store(0, Ordering::Relaxed);
        *self.before.lock().unwrap_or_else(PoisonError::into_inner) = Outcomes::default();
    }

    fn is_ejected(&self) -> bool {
        self.until_ms.load(Ordering::Relaxed) != 0
    }
}

/// What the servers of a backend have in common.
#[derive(Default)]
pub(super) struct Watch {
    /// When servers are compared next, in milliseconds of the clock; 0 before the first request.
    due_ms: AtomicU64,
    /// Held by who decides, so that no more are ejected than may be.
    deciding: Mutex<()>,
}

/// Why a server is ejected.
#[derive(Clone, Copy)]
enum Why {
    Refused,
    Errors(u32),
    Compared(Outlier),
}

impl Why {
    fn text(self) -> String {
        match self {
            Why::Refused => "it refused a connection".into(),
            Why::Errors(n) => format!("{n} requests in a row failed"),
            Why::Compared(Outlier::Fails { percent, others }) => {
                format!("{percent}% of its requests went well, {others}% of those of the others")
            }
            Why::Compared(Outlier::Slow { us, others }) => format!(
                "its answers took {:.1}ms, those of the others {:.1}ms",
                us as f64 / 1e3,
                others as f64 / 1e3
            ),
        }
    }
}

/// How a request failed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The server refused the connection.
    Refused,
    /// Anything else.
    Other,
}

/// A request went well on a server, which was counted.
pub fn went_well(worker: &Worker, be: &Proxy, server: ServerId) {
    let Some(rules) = &be.rare().outliers else { return };
    let backend = worker.backend(be.id);
    let watched = &backend.state(server).watched;
    // Written only where there is something to forget.
    if watched.errors.load(Ordering::Relaxed) != 0 {
        watched.errors.store(0, Ordering::Relaxed);
    }
    compare_when_due(backend, rules);
}

/// A request failed on a server, which was counted.
#[cold]
pub fn failed(worker: &Worker, be: &Proxy, server: ServerId, how: Failure) {
    let Some(rules) = &be.rare().outliers else { return };
    let backend = worker.backend(be.id);
    let watched = &backend.state(server).watched;
    let errors = watched.errors.fetch_add(1, Ordering::Relaxed).saturating_add(1);
    if how == Failure::Refused {
        backend.eject(worker, rules, server, Why::Refused);
    } else if rules.errors != 0 && errors >= rules.errors {
        backend.eject(worker, rules, server, Why::Errors(errors));
    }
    compare_when_due(backend, rules);
}

/// Has servers compared if it is time to.
fn compare_when_due(backend: &Backend, rules: &OutlierDetection) {
    let (now, due) = (clock::now_ms(), backend.watch.due_ms.load(Ordering::Relaxed));
    if now < due {
        return;
    }
    let next = now + rules.interval_ms;
    let is_ours =
        backend.watch.due_ms.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    if is_ours {
        let proxy = backend.id;
        spawn(&COMPARE, async move {
            in_class(Class::Heavy).await;
            if let Some(worker) = worker::current() {
                compare(&worker, proxy);
            }
        });
    }
}

/// Compares the servers of a backend by what came since they were compared last.
fn compare(worker: &Worker, proxy: ProxyId) {
    let Some(be) = worker.instance.config.find_proxy(proxy) else { return };
    let Some(rules) = &be.rare().outliers else { return };
    let backend = worker.backend(proxy);
    let mut servers = Vec::with_capacity(be.servers.len());
    let mut seen = Vec::with_capacity(be.servers.len());
    for server in &be.servers {
        let watched = &backend.state(server.id).watched;
        let now = outcomes(&worker.instance, proxy, server.id);
        let mut before = watched.before.lock().unwrap_or_else(PoisonError::into_inner);
        let since = now.since(std::mem::replace(&mut *before, now));
        if watched.is_ejected() {
            continue;
        }
        // Each interval in which it was in use makes the next time shorter.
        let _ = watched.times.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        if backend.is_usable(server.id) {
            servers.push(server.id);
            seen.push(since);
        }
    }
    let criteria =
        Criteria { success_rate: rules.success_rate, latency: rules.latency, requests: rules.requests };
    for (at, outlier) in outliers(&seen, criteria) {
        backend.eject(worker, rules, servers[at], Why::Compared(outlier));
    }
}

/// What all threads counted of a server.
pub(super) fn outcomes(instance: &Instance, proxy: ProxyId, server: ServerId) -> Outcomes {
    let index = instance.server_index(proxy, server);
    let of = |counter: fn(&Counters) -> &Counter| instance.servers.sum(index, counter);
    Outcomes {
        requests: of(|c| &c.outcomes),
        failures: of(|c| &c.failed_outcomes),
        answer_us: of(|c| &c.answer_us),
    }
}

impl Backend {
    /// Whether a server is ejected for now.
    pub fn is_ejected(&self, server: ServerId) -> bool {
        self.state(server).watched.is_ejected()
    }

    /// Servers that are ejected, and those that requests could be balanced to, these included.
    fn ejected(&self) -> (usize, usize) {
        let mut counts = (0, 0);
        for state in self.states().filter(|state| state.is_usable() && !state.is_backup()) {
            counts.0 += usize::from(state.watched.is_ejected());
            counts.1 += 1;
        }
        counts
    }

    /// Leaves a server alone for a while, if it is not already, and if not too many are.
    fn eject(&self, worker: &Worker, rules: &OutlierDetection, server: ServerId, why: Why) {
        let deciding = self.watch.deciding.lock().unwrap_or_else(PoisonError::into_inner);
        let watched = &self.state(server).watched;
        if watched.is_ejected() || !self.is_usable(server) {
            return;
        }
        let (already, servers) = self.ejected();
        // Who refuses connections serves nothing, however few are left.
        if !matches!(why, Why::Refused) && !may_eject(servers, already, rules.max_ejected) {
            return;
        }
        let times = watched.times.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let hold = hold_ms(rules.hold_ms, rules.max_hold_ms, times);
        let until = clock::now_ms() + hold;
        watched.until_ms.store(until, Ordering::Relaxed);
        watched.errors.store(0, Ordering::Relaxed);
        self.balancer.set_last_choice(ServerIndex(server.0), true);
        drop(deciding);
        worker.srv_counters(self.id, server).ejections.add(1);
        worker.be_counters(self.id).ejections.add(1);
        let line = format!(
            "{} is ejected for {hold}ms: {}. {} of {servers} servers are ejected.",
            title(worker, self.id, server),
            why.text(),
            self.ejected().0,
        );
        tell(worker, self.id, LogLevel::Warning, &line);
        spawn(&HOLD, hold_until(Rc::clone(worker.own()), self.id, server, until));
    }

    /// The time of a server that is ejected is over, or somebody says so. False when it was not ejected until `until`, if
    /// that is given.
    pub(crate) fn take_back(&self, server: ServerId, until: Option<u64>) -> bool {
        let _deciding = self.watch.deciding.lock().unwrap_or_else(PoisonError::into_inner);
        let watched = &self.state(server).watched;
        let held = watched.until_ms.load(Ordering::Relaxed);
        if held == 0 || until.is_some_and(|until| until != held) {
            return false;
        }
        watched.until_ms.store(0, Ordering::Relaxed);
        watched.errors.store(0, Ordering::Relaxed);
        self.balancer.set_last_choice(ServerIndex(server.0), false);
        true
    }
}

/// Lets a server have requests again when its time is over.
async fn hold_until(own: Rc<Thread>, proxy: ProxyId, server: ServerId, until: u64) {
    timer::sleep_until(until).await;
    let Some(worker) = own.pin() else { return };
    let Some(backend) = worker.instance.backends.get(proxy.0 as usize) else { return };
    if backend.take_back(server, Some(until)) {
        // Whoever waits may fit there.
        backend.limit_changed(server);
        let line = format!("{} gets requests again.", title(&worker, proxy, server));
        tell(&worker, proxy, LogLevel::Notice, &line);
    }
}
