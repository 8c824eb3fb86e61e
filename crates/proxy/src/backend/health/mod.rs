//! Health checks: one task per checked server, spread over the threads. The conversation itself and the counting are
//! in `thalweg_check`; here are the sockets, the clock, the log lines, and what others may see of it.
//!
//! - [`checker`]: the task of a server: when it is checked, and what its verdict does.
//! - [`converse`]: one check over a connection.
//! - [`evaluate`]: what the texts of a check are computed from.
//! - [`tell`]: the lines about servers that change.

mod checker;
mod converse;
mod evaluate;
mod tell;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::PoisonError;

use thalweg_balance::sync::Mutex;
use thalweg_check::{Health, Initial, Passed, Status, Verdict};
use thalweg_config::model::{CheckConfig, InitState, Proxy, Server, ServerId};
use thalweg_runtime::{Kind, spawn};

pub use tell::say;
pub(crate) use tell::{Before, tell, title};

use self::checker::Checker;
use super::Backend;
use crate::worker::Worker;

static CHECK: Kind = Kind::new("health-check");

/// Pause before looking again whether a check may start (`tune.max-checks-per-thread`), in milliseconds.
const CROWDED_PAUSE_MS: u64 = 10;

thread_local! {
    /// Checks in progress on this thread.
    static RUNNING: Cell<u32> = const { Cell::new(0) };
}

/// What is known of a server's health, as the statistics show it.
#[derive(Clone, Debug)]
pub struct CheckReport {
    /// What the last check found out.
    pub verdict: Verdict,
    /// How long it took, in milliseconds; `None` before the first.
    pub duration_ms: Option<u64>,
    /// One is in progress.
    pub running: bool,
    /// Checks that failed while the server was up (`chkfail`).
    pub failures: u64,
}

/// The reports of a backend's servers. The lock is taken by checks and by those who look, never by traffic.
pub struct Reports(Box<[Option<Mutex<CheckReport>>]>);

impl Reports {
    pub(super) fn new(proxy: &Proxy) -> Reports {
        let report = |server: &Server| {
            server.check.as_ref()?;
            Some(Mutex::new(CheckReport {
                verdict: Verdict::default(),
                duration_ms: None,
                running: false,
                failures: 0,
            }))
        };
        Reports(proxy.servers.iter().map(|server| report(server)).collect())
    }

    fn change<R>(&self, server: ServerId, f: impl FnOnce(&mut CheckReport) -> R) -> Option<R> {
        let report = self.0.get(server.0 as usize)?.as_ref()?;
        Some(f(&mut report.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl Backend {
    /// What checks found out about a server; `None` when it has no checks.
    pub fn check_report(&self, server: ServerId) -> Option<CheckReport> {
        self.reports.change(server, |r| r.clone())
    }

    /// Forgets how many checks of a server failed.
    pub fn clear_failures(&self, server: ServerId) {
        self.reports.change(server, |report| report.failures = 0);
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

/// Starts the checks that belong to this thread.
pub fn start(worker: &Rc<Worker>) {
    let config = &worker.instance.config;
    let proxies = config.proxies.iter().filter(|p| !p.disabled);
    let servers = proxies.flat_map(|p| p.servers.iter().map(move |s| (p, s)));
    // There may be very many: gone through twice rather than written down.
    let checked = servers.filter_map(|(p, s)| Some((p, s, s.check.as_ref()?)));
    // The first checks of all servers are spread over the smallest interval.
    let (count, smallest) = checked.clone().fold((0, u64::MAX), |(count, smallest), (_, _, check)| {
        (count + 1, smallest.min(u64::from(check.inter_ms)))
    });
    let spread = config.global.max_spread_checks_ms.map_or(smallest, |max| max.min(smallest));
    let threads = worker.instance.threads.len();
    for (i, (proxy, server, _)) in checked.enumerate().filter(|(i, _)| i % threads == worker.thread) {
        let delay = spread * i as u64 / count;
        let checker = Checker { worker: Rc::clone(worker), proxy: proxy.id, server: server.id };
        spawn(&CHECK, checker.run(delay));
    }
}

/// The word of the statistics for a report: `* ` before it while a check runs.
impl CheckReport {
    /// `srv_check_result` of `show servers state`: 0 unknown, 2 failed, 3 passed, 4 conditionally.
    pub fn result_number(&self) -> u8 {
        match self.verdict.status.passed() {
            _ if self.duration_ms.is_none() => 0,
            Passed::No => 2,
            Passed::Yes => 3,
            Passed::Conditionally => 4,
        }
    }

    /// `check_status`: `L7OK`, `* L4CON`, `INI`.
    pub fn status_word(&self) -> String {
        let mark = if self.running && self.verdict.status != Status::Initializing { "* " } else { "" };
        format!("{mark}{}", self.verdict.status.word())
    }
}
