//! The task that checks a server.

use std::rc::Rc;

use thalweg_check::{Passed, Verdict};
use thalweg_config::model::{CheckConfig, LogLevel, Proxy, ProxyId, Server, ServerId};
use thalweg_runtime::timer;
use thalweg_runtime::{clock, pool, spawn};

use super::super::standing::Operation;
use super::super::{Backend, track};
use super::tell::{Before, reason, tell};
use super::{CHECK, CROWDED_PAUSE_MS, RUNNING};
use crate::instance::Stopping;
use crate::worker::Worker;

pub(super) struct Checker {
    pub(super) worker: Rc<Worker>,
    pub(super) proxy: ProxyId,
    pub(super) server: ServerId,
}

impl Drop for Checker {
    /// A server that nobody checks would stay what it was for ever: when a bug ends its checker, another one goes on an
    /// interval later.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let next = Checker { worker: Rc::clone(&self.worker), proxy: self.proxy, server: self.server };
        let delay = self.config().1.check.as_ref().map_or(1000, |c| u64::from(c.inter_ms).max(1));
        spawn(&CHECK, next.run(delay));
    }
}

/// A check in progress.
struct Running<'a> {
    backend: &'a Backend,
    server: ServerId,
}

impl<'a> Running<'a> {
    fn begin(backend: &'a Backend, server: ServerId) -> Running<'a> {
        RUNNING.set(RUNNING.get() + 1);
        backend.reports.change(server, |r| r.running = true);
        Running { backend, server }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        RUNNING.set(RUNNING.get() - 1);
        self.backend.reports.change(self.server, |r| r.running = false);
    }
}

impl Checker {
    pub(super) fn config(&self) -> (&Proxy, &Server) {
        let proxy = self.worker.proxy(self.proxy);
        (proxy, &proxy.servers[self.server.0 as usize])
    }

    pub(super) fn backend(&self) -> &Backend {
        self.worker.backend(self.proxy)
    }

    /// Checks for as long as the process serves, from `delay_ms` on.
    pub(super) async fn run(self, delay_ms: u64) {
        let worker = &*self.worker;
        let (_, server) = self.config();
        let Some(check) = server.check.as_ref() else { return };
        let global = &worker.instance.config.global;
        let mut start_ms = timer::deadline_in(delay_ms);
        loop {
            timer::sleep_until(start_ms).await;
            while global.tune.max_checks_per_thread != 0 && RUNNING.get() >= global.tune.max_checks_per_thread
            {
                timer::sleep(CROWDED_PAUSE_MS).await;
            }
            if worker.instance.stopping() != Stopping::No {
                return;
            }
            let begun_ms = clock::now_ms();
            if self.backend().standing(self.server).takes_verdicts() {
                let running = Running::begin(self.backend(), self.server);
                // Boxed: there may be very many servers, most of which are not being checked now.
                let verdict = pool::boxed(self.converse(check, begun_ms)).await;
                drop(running);
                self.conclude(verdict, clock::now_ms().saturating_sub(begun_ms));
            }
            let interval = self.interval(check);
            // From start to start; a check that took longer is followed by the next at once.
            start_ms = (start_ms + interval).max(clock::now_ms());
        }
    }

    /// Milliseconds to the next check.
    fn interval(&self, check: &CheckConfig) -> u64 {
        let health = self.backend().standing(self.server).health;
        let ms = match (health.is_changing(), health.is_up()) {
            (true, _) => check.fastinter_ms,
            (false, false) => check.downinter_ms,
            (false, true) => None,
        };
        let ms = u64::from(ms.unwrap_or(check.inter_ms)).max(1);
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
        let (proxy, server) = self.config();
        let backend = self.backend();
        let passed = verdict.status.passed();
        let before = Before::look(backend, self.server);
        // Who was taken out of service meanwhile is not judged any more.
        let judged = backend.judge(self.server, passed);
        let changed = backend.reports.change(self.server, |report| {
            let judged = judged?;
            if passed == Passed::No && judged.before != Operation::Stopped {
                report.failures += 1;
            }
            let news = judged.moved || report.verdict.status != verdict.status;
            report.verdict = verdict.clone();
            report.duration_ms = Some(duration_ms);
            Some((judged, news))
        });
        let Some((judged, news)) = changed.flatten() else { return };
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
                backend.standing(self.server).health
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

    fn size_of_future<F: Future>(_: fn(Checker, u64) -> F) -> usize {
        size_of::<F>()
    }

    /// What a server's checker takes between two checks, besides the runtime's own record of it.
    #[test]
    fn a_waiting_check_is_small() {
        let size = size_of_future(Checker::run);
        assert!(size <= 128, "{size} bytes");
    }

    #[test]
    fn a_check_in_progress_is_small() {
        fn size_of_future<'a, F: Future>(_: fn(&'a Checker, &'a CheckConfig, u64) -> F) -> usize {
            size_of::<F>()
        }
        let size = size_of_future(Checker::converse);
        assert!(size <= 1024, "{size} bytes");
    }
}
