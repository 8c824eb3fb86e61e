//! The task that checks a server.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use thalweg_check::{Passed, Status, Verdict};
use thalweg_config::model::{LogLevel, Proxy, ProxyId, Server, ServerId, Shared};
use thalweg_runtime::{Kind, clock, pool, spawn, timer};

use super::super::standing::Operation;
use super::super::{Backend, track};
use super::bunch;
use super::hurry::{self, Hurry};
use super::report::What;
use super::tell::{Before, reason, status, tell};
use crate::stopping::Stopping;
use crate::traces;
use crate::worker::{Thread, Worker};

static CHECK: Kind = Kind::new("health-check");

/// Pause before looking again whether a check may start (`tune.max-checks-per-thread`), in milliseconds.
const CROWDED_PAUSE_MS: u64 = 10;

thread_local! {
    /// Checks in progress on this thread.
    static RUNNING: Cell<u32> = const { Cell::new(0) };
}

/// One of the two tasks that a server may have, for as long as it is in the configuration: for its checks, and for its agent.
pub(super) struct Checks {
    own: Rc<Thread>,
    proxy: ProxyId,
    /// As it was when they began: one that has its number later is another one.
    server: Shared<Server>,
    what: What,
}

impl Drop for Checks {
    /// A server that nobody checks would stay what it was for ever: when a bug ends its checks, others go on an interval
    /// later.
    fn drop(&mut self) {
        let interval_ms = inter_ms(&self.server, self.what);
        bunch::leave(interval_ms);
        if std::thread::panicking() {
            let next = Checks::new(&self.own, self.proxy, &self.server, self.what);
            spawn(&CHECK, next.run(interval_ms));
        }
    }
}

/// The configured time between two checks of a server, in milliseconds.
fn inter_ms(server: &Server, what: What) -> u64 {
    let ms = match what {
        What::Health => server.check.as_ref().map(|check| check.inter_ms),
        What::Agent => server.rare().agent.as_ref().map(|agent| agent.inter_ms),
    };
    u64::from(ms.unwrap_or_default()).max(1)
}

impl Checks {
    /// Begins to check a server on this thread, `delay_ms` from now.
    pub(super) fn start(
        worker: &Worker,
        proxy: &Proxy,
        (server, what): (&Shared<Server>, What),
        delay_ms: u64,
    ) {
        spawn(&CHECK, Checks::new(worker.own(), proxy.id, server, what).run(delay_ms));
    }

    fn new(own: &Rc<Thread>, proxy: ProxyId, server: &Shared<Server>, what: What) -> Checks {
        bunch::join(inter_ms(server, what));
        Checks { own: Rc::clone(own), proxy, server: server.clone(), what }
    }

    /// When a check that is due at `due_ms` begins.
    fn moment(&self, due_ms: u64) -> u64 {
        bunch::moment(due_ms, inter_ms(&self.server, self.what))
    }

    /// What is to be checked now, by what is in force; `None` when the server is gone, or the thread.
    fn next(&self) -> Option<Checker> {
        let worker = self.own.pin()?;
        let server = worker.instance.config.find_proxy(self.proxy)?.shared_server(self.server.id)?;
        // One that has its number later is another one; one whose line changed is checked by another task.
        let is_it = server.revision == self.server.revision;
        is_it.then(|| Checker { proxy: self.proxy, server: self.server.id, what: self.what, worker })
    }

    /// What brings the next check forward, if traffic may.
    fn hurry(&self) -> Option<Arc<Hurry>> {
        let is_observed = self.what == What::Health && self.server.rare().observe.is_some();
        let worker = self.own.pin().filter(|_| is_observed)?;
        Some(worker.backend(self.proxy).observed(self.server.id).hear())
    }

    /// Checks from `delay_ms` on.
    async fn run(self, delay_ms: u64) {
        let mut start_ms = timer::deadline_in(delay_ms);
        let hurry = self.hurry();
        loop {
            // The next one is counted from when this one was due, not from when its bunch was.
            let came_ms = hurry::due(hurry.as_deref(), self.moment(start_ms)).await;
            start_ms = start_ms.min(came_ms);
            while self.own.live.stopping() == Stopping::No && self.is_crowded() {
                timer::sleep(CROWDED_PAUSE_MS).await;
            }
            if self.own.live.stopping() != Stopping::No {
                return;
            }
            let begun_ms = clock::now_ms();
            let Some(checker) = self.next() else { return };
            if checker.is_due() {
                // Boxed: there may be very many servers, most of which are not being checked now.
                pool::boxed(checker.check(begun_ms)).await;
            }
            let Some(checker) = self.next() else { return };
            // From start to start; a check that took longer is followed by the next at once.
            start_ms = (start_ms + checker.interval()).max(clock::now_ms());
        }
    }

    /// Whether as many checks as are allowed are in progress on this thread.
    fn is_crowded(&self) -> bool {
        self.own.pin().is_some_and(|worker| {
            let most = worker.instance.config.global.tune.max_checks_per_thread;
            most != 0 && RUNNING.get() >= most
        })
    }
}

/// One check of a server.
pub(super) struct Checker {
    pub(super) worker: Rc<Worker>,
    pub(super) proxy: ProxyId,
    pub(super) server: ServerId,
    pub(super) what: What,
}

/// A check in progress.
struct Running<'a> {
    backend: &'a Backend,
    server: ServerId,
    what: What,
}

impl<'a> Running<'a> {
    fn begin(backend: &'a Backend, server: ServerId, what: What) -> Running<'a> {
        RUNNING.set(RUNNING.get() + 1);
        backend.change_report(server, what, |report| report.running = true);
        Running { backend, server, what }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        RUNNING.set(RUNNING.get() - 1);
        self.backend.change_report(self.server, self.what, |report| report.running = false);
    }
}

impl Checker {
    /// The server, which the pin has, and its proxy.
    pub(super) fn config(&self) -> Option<(&Proxy, &Server)> {
        let proxy = self.worker.proxy(self.proxy);
        Some((proxy, self.worker.server(proxy, self.server)?))
    }

    pub(super) fn backend(&self) -> &Backend {
        self.worker.backend(self.proxy)
    }

    /// The configured time between two checks, in milliseconds.
    pub(super) fn inter_ms(&self) -> u64 {
        self.config().map_or(1, |(_, server)| inter_ms(server, self.what))
    }

    fn is_due(&self) -> bool {
        let standing = self.backend().standing(self.server);
        match self.what {
            What::Health => standing.takes_verdicts(),
            // It may be the one who ends a maintenance.
            What::Agent => standing.agent_asked,
        }
    }

    async fn check(self, begun_ms: u64) {
        let running = Running::begin(self.backend(), self.server, self.what);
        self.trace(traces::CHECK_START, None);
        let mut heard = self.converse(begun_ms).await;
        if crate::plant::bug("check-content") {
            heard.verdict.status = Status::L7Ok;
        }
        drop(running);
        let passed = heard.verdict.status.passed() != Passed::No;
        self.trace(if passed { traces::CHECK_PASSED } else { traces::CHECK_FAILED }, Some(&heard.verdict));
        let duration_ms = clock::now_ms().saturating_sub(begun_ms);
        match self.what {
            What::Health => self.conclude(heard.verdict, duration_ms),
            What::Agent => self.follow_agent(heard, duration_ms),
        }
    }

    fn trace(&self, event: traces::Event<'_>, verdict: Option<&Verdict>) {
        let tracing = &self.worker.live.tracing;
        let Some((proxy, server)) = self.config().filter(|_| tracing.wants(event.source)) else { return };
        let name = self.backend().identity(server).name;
        let result = verdict.map_or(String::new(), |verdict| format!(" - {}", reason(verdict, None)));
        self.worker.tell_of_check((proxy.id, server.id), (&proxy.name, &name), event, &result);
    }

    /// Milliseconds to the next check.
    fn interval(&self) -> u64 {
        let server = self.config().map(|(_, server)| server).filter(|_| self.what == What::Health);
        let check = server.and_then(|server| server.check.as_deref());
        let health = self.backend().standing(self.server).health;
        let special = check.and_then(|check| match (health.is_changing(), health.is_up()) {
            (true, _) => check.fastinter_ms,
            (false, false) => check.downinter_ms,
            (false, true) => None,
        });
        let ms = special.map_or_else(|| self.inter_ms(), u64::from).max(1);
        let percent = u64::from(self.worker.instance.config.global.spread_checks);
        let range = ms * percent / 100;
        if range == 0 {
            return ms;
        }
        // Anywhere from that much earlier to that much later.
        ms - range + self.worker.next_random() % (2 * range + 1)
    }

    /// Counts a verdict, marks the server, tells the logs.
    fn conclude(&self, verdict: Verdict, duration_ms: u64) {
        self.judge(verdict, Some(duration_ms), None);
    }

    /// The same of what traffic found out. `failures_left` is how many failed checks, this one included, may still take the
    /// server down at most.
    pub(super) fn conclude_analysis(&self, verdict: Verdict, failures_left: Option<u32>) {
        self.judge(verdict, None, failures_left);
    }

    fn judge(&self, verdict: Verdict, duration_ms: Option<u64>, failures_left: Option<u32>) {
        let Some((proxy, server)) = self.config() else { return };
        let backend = self.backend();
        let passed = verdict.status.passed();
        let before = Before::look(backend, self.server);
        // Who was taken out of service meanwhile is not judged any more.
        let judged = backend.judge(self.server, passed, failures_left);
        let changed = backend.change_report(self.server, self.what, |report| {
            let judged = judged?;
            if passed == Passed::No && judged.before != Operation::Stopped {
                report.failures += 1;
            }
            let news = judged.moved || report.verdict.status != verdict.status;
            report.verdict = verdict.clone();
            report.duration_ms = duration_ms;
            Some((judged, news))
        });
        let Some((judged, news)) = changed.flatten() else { return };
        let after = backend.standing(self.server);
        // Most checks find what the one before found, and nobody is told anything.
        if !(proxy.opts.log_health_checks && news) && judged.before == after.operation {
            return track::follow(&self.worker, self.proxy, self.server);
        }
        let reason = reason(&verdict, duration_ms);
        if proxy.opts.log_health_checks && news {
            let backup = if server.backup { "backup " } else { "" };
            let how = match passed {
                Passed::Yes => "succeeded",
                Passed::Conditionally => "conditionally succeeded",
                Passed::No => "failed",
            };
            let line = format!(
                "Health check for {backup}server {}/{} {how}, {reason}, status: {}.",
                proxy.name,
                backend.identity(server).name,
                status(&after.health.to_string(), backend.weight(self.server)),
            );
            tell(&self.worker, self.proxy, LogLevel::Notice, &line);
        }
        // Its own lines told the reason already.
        let reason = if proxy.opts.log_health_checks { String::new() } else { format!(", {reason}") };
        before.tell_change(&self.worker, self.proxy, self.server, judged.before, &reason);
        track::follow(&self.worker, self.proxy, self.server);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_future<F: Future>(_: fn(Checks, u64) -> F) -> usize {
        size_of::<F>()
    }

    /// What a server's checker takes between two checks, besides the runtime's own record of it.
    #[test]
    fn a_waiting_check_is_small() {
        let size = size_of_future(Checks::run);
        assert!(size <= 128, "{size} bytes");
    }

    #[test]
    fn a_check_in_progress_is_small() {
        fn size_of_future<'a, F: Future>(_: fn(&'a Checker, u64) -> F) -> usize {
            size_of::<F>()
        }
        let size = size_of_future(Checker::converse);
        assert!(size <= 1024, "{size} bytes");
    }
}
