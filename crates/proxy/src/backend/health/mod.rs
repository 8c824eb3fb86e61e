//! Health checks: one task per checked server, spread over the threads. The conversation itself and the counting are
//! in `thalweg_check`; here are the sockets, the clock, the log lines, and what others may see of it.
//!
//! - [`checker`]: the task of a server: when it is checked, and what its verdict does.
//! - [`agent`]: what an agent's words do.
//! - [`bunch`]: which checks begin together.
//! - [`converse`]: one check over a connection.
//! - [`external`]: one check by a program.
//! - [`observe`]: what traffic says of a server, and [`hurry`] how that brings a check forward.
//! - [`report`]: what was found out, as the statistics show it.
//! - [`evaluate`]: what the texts of a check are computed from.
//! - [`tell`]: the lines about servers that change.

mod agent;
mod bunch;
mod checker;
mod converse;
mod evaluate;
mod external;
mod hurry;
pub mod observe;
mod report;
mod reuse;
mod tell;

use std::rc::Rc;
use std::sync::PoisonError;

use thalweg_check::{Health, Initial};
use thalweg_config::model::{CheckConfig, InitState, ProxyId, Server, ServerId, Shared};
use thalweg_shared::Mutex;

pub use report::{CheckReport, What};
pub use tell::say;
pub(crate) use tell::{Before, tell, title};

use self::checker::Checks;
use self::hurry::Observed;
use super::Backend;
use crate::worker::Worker;

/// What was found out about a server, as far as it has checks. The locks are taken by checks and by those who look, never by
/// traffic.
#[derive(Default)]
pub(super) struct Reports {
    check: Mutex<Option<Box<CheckReport>>>,
    agent: Mutex<Option<Box<CheckReport>>>,
    observed: Observed,
}

impl Reports {
    /// From now on they are those of this server; of none without one.
    pub(super) fn begin(&self, server: Option<&Server>) {
        self.observed.begin();
        for report in [&self.check, &self.agent] {
            *report.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        server.into_iter().for_each(|server| self.reconfigure(server));
    }

    /// The line of the server is another one: there is a report for each of its checks, with what was known before.
    pub(super) fn reconfigure(&self, server: &Server) {
        let agent = server.rare().agent.as_ref().filter(|agent| agent.asked);
        for (report, there) in [(&self.check, server.check.is_some()), (&self.agent, agent.is_some())] {
            let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
            let known = report.take();
            *report = there.then(|| known.unwrap_or_default());
        }
    }
}

impl Backend {
    pub(super) fn change_report<R>(
        &self,
        server: ServerId,
        what: What,
        f: impl FnOnce(&mut CheckReport) -> R,
    ) -> Option<R> {
        let reports = &self.state(server).reports;
        let report = match what {
            What::Health => &reports.check,
            What::Agent => &reports.agent,
        };
        report.lock().unwrap_or_else(PoisonError::into_inner).as_deref_mut().map(f)
    }

    /// What checks, or the agent, found out about a server; `None` when it has none.
    pub fn check_report(&self, server: ServerId, what: What) -> Option<CheckReport> {
        self.change_report(server, what, |report| report.clone())
    }

    /// What traffic said of a server.
    fn observed(&self, server: ServerId) -> &Observed {
        &self.state(server).reports.observed
    }

    /// How often traffic found too many errors in a row of a server (`hanafail`).
    pub fn alarms(&self, server: ServerId) -> u64 {
        self.observed(server).alarms()
    }

    /// Forgets how many checks of a server failed.
    pub fn clear_failures(&self, server: ServerId) {
        self.change_report(server, What::Health, |report| report.failures = 0);
    }
}

pub(super) fn initial_health(server: &Server, check: &CheckConfig) -> Health {
    let initial = match server.rare().init_state {
        InitState::FullyUp => Initial::FullyUp,
        InitState::Up | InitState::None => Initial::Up,
        InitState::Down => Initial::Down,
        InitState::FullyDown => Initial::FullyDown,
    };
    Health::new(check.rise, check.fall, initial)
}

/// The kinds of checks that a server has, and their intervals in milliseconds.
fn kinds(server: &Server) -> impl Iterator<Item = (What, u64)> + Clone {
    // The first of them decide about a server that nobody knows yet, and come as fast as those that do.
    let soon = |check: &CheckConfig| check.fastinter_ms.map_or(check.inter_ms, |ms| ms.min(check.inter_ms));
    let check = server.check.as_ref().map(|check| (What::Health, u64::from(soon(check))));
    let agent = server.rare().agent.as_ref().filter(|agent| agent.asked);
    check.into_iter().chain(agent.map(|agent| (What::Agent, u64::from(agent.inter_ms))))
}

/// Starts the checks that belong to this thread.
pub fn start(worker: &Rc<Worker>) {
    let config = &worker.instance.config;
    let proxies = config.proxies.iter().filter(|p| !p.disabled);
    // There may be very many: gone through twice rather than written down.
    let checks = proxies.flat_map(|p| p.servers.iter().flat_map(move |s| kinds(s).map(move |k| (p, s, k))));
    // The first checks of all servers are spread over the smallest interval.
    let (count, smallest) = checks
        .clone()
        .fold((0, u64::MAX), |(count, smallest), (_, _, (_, inter))| (count + 1, smallest.min(inter)));
    let spread = config.global.max_spread_checks_ms.map_or(smallest, |max| max.min(smallest));
    let threads = worker.instance.threads.len();
    for (i, (proxy, server, (what, _))) in checks.enumerate().filter(|(i, _)| i % threads == worker.thread) {
        Checks::start(worker, proxy, (server, what), spread * i as u64 / count);
    }
}

/// Starts the checks of a server that was added, or whose line changed, on this thread, `delay_ms` from now.
pub(crate) fn start_server(worker: &Worker, proxy: ProxyId, server: &Shared<Server>, delay_ms: u64) {
    let Some(of) = worker.instance.config.find_proxy(proxy).filter(|of| !of.disabled) else { return };
    for (what, _) in kinds(server) {
        Checks::start(worker, of, (server, what), delay_ms);
    }
}

/// The shortest time between two of a server's first checks, in milliseconds; `None` without checks.
pub(crate) fn smallest_interval(server: &Server) -> Option<u64> {
    kinds(server).map(|(_, inter)| inter).min()
}
