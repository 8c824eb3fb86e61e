//! Traffic that tells of a server's health (manual: `observe`, `error-limit`, `on-error`): errors in a row count like a failed
//! check, and bring the next check forward.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use thalweg_check::{Status, Verdict};
use thalweg_config::model::{ObserveLayer, OnError, Proxy, ProxyId, Server};
use thalweg_runtime::{Reason, TaskId, clock, current_task, timer};
use thalweg_shared::{AtomicU32, AtomicU64, Mutex};

use super::What;
use super::checker::Checker;
use crate::backend::assign;
use crate::backend::connect::ConnectError;
use crate::backend::outliers::Failure;
use crate::worker::{self, Worker};

/// What a stream found out about a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A connection was made.
    Connected,
    /// None could be made.
    NotConnected,
    /// None could be made, as the server refused it.
    Refused,
    /// A response came, with this status.
    Response(u16),
    /// What came is no response.
    Malformed,
    /// The connection ended in place of a response.
    Ended,
    /// None came in time.
    Timeout,
}

impl From<&ConnectError> for Seen {
    fn from(error: &ConnectError) -> Seen {
        if matches!(error, ConnectError::Refused(_)) { Seen::Refused } else { Seen::NotConnected }
    }
}

impl Seen {
    /// Whether it speaks against the server.
    pub fn is_failure(self) -> bool {
        self.judge(ObserveLayer::Http).is_some_and(|wrong| wrong.is_some())
    }

    /// Whether it counts on this layer, and then what is wrong about it, if anything.
    fn judge(self, layer: ObserveLayer) -> Option<Option<&'static str>> {
        let http = layer == ObserveLayer::Http;
        Some(match self {
            Seen::NotConnected | Seen::Refused => Some("L4 unsuccessful connection"),
            Seen::Connected if http => return None,
            Seen::Connected => None,
            _ if !http => return None,
            Seen::Response(100..=499 | 501 | 505) => None,
            Seen::Response(_) => Some("Wrong http response"),
            Seen::Malformed => Some("Invalid http response (headers)"),
            Seen::Ended => Some("Read error (http)"),
            Seen::Timeout => Some("Read timeout (http)"),
        })
    }
}

/// What traffic said of a server that is observed.
#[derive(Default)]
pub(super) struct Observed {
    /// Errors in a row.
    errors: AtomicU32,
    /// How often they were as many as are allowed (`hanafail`).
    alarms: AtomicU64,
    /// Its checks, while there are any.
    hurry: Mutex<Option<Arc<Hurry>>>,
}

impl Observed {
    /// From now on it is about another server.
    pub(super) fn begin(&self) {
        self.errors.store(0, Ordering::Relaxed);
        self.alarms.store(0, Ordering::Relaxed);
        *self.hurry.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// How often errors were too many.
    pub(super) fn alarms(&self) -> u64 {
        self.alarms.load(Ordering::Relaxed)
    }

    /// The calling task is that of the checks.
    pub(super) fn hear(&self) -> Arc<Hurry> {
        let hurry = Arc::new(Hurry { due_ms: AtomicU64::new(0), task: current_task() });
        *self.hurry.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&hurry));
        hurry
    }
}

/// Brings the next check forward.
pub(super) struct Hurry {
    /// When it is due, in milliseconds of the clock; 0 for when it would be anyway.
    due_ms: AtomicU64,
    /// The task of the checks.
    task: TaskId,
}

impl Hurry {
    fn ask(&self, due_ms: u64) {
        self.due_ms.store(due_ms.max(1), Ordering::SeqCst);
        self.task.wake(Reason::OTHER);
    }
}

/// Waits until a check is due: at `start_ms`, or earlier if traffic asks for it. Returns when it was due.
pub(super) async fn due(hurry: Option<&Hurry>, mut start_ms: u64) -> u64 {
    let Some(hurry) = hurry else {
        timer::sleep_until(start_ms).await;
        return start_ms;
    };
    std::future::poll_fn(|_| {
        let asked = hurry.due_ms.swap(0, Ordering::SeqCst);
        if asked != 0 {
            start_ms = start_ms.min(asked);
        }
        if clock::now_ms() >= start_ms {
            return std::task::Poll::Ready(start_ms);
        }
        timer::want(start_ms);
        std::task::Poll::Pending
    })
    .await
}

/// Tells what a stream found out about a server.
#[inline]
pub fn observe(worker: &Worker, proxy: ProxyId, server: &Server, seen: Seen) {
    if let Some(layer) = server.rare().observe {
        note(worker, proxy, server, layer, seen);
    }
}

/// The same where no response came, which the choice of servers may go by, too.
#[cold]
pub fn observe_failure(worker: &Worker, proxy: &Proxy, server: &Server, seen: Seen) {
    observe(worker, proxy.id, server, seen);
    if proxy.learns() {
        let how = if seen == Seen::Refused { Failure::Refused } else { Failure::Other };
        assign::failed(worker, proxy, server.id, how);
    }
}

#[cold]
fn note(worker: &Worker, proxy: ProxyId, server: &Server, layer: ObserveLayer, seen: Seen) {
    let observed = worker.backend(proxy).observed(server.id);
    // Without checks nobody would bring it back.
    let Some(check) = server.check.as_deref() else { return };
    let Some(found) = seen.judge(layer) else { return };
    let Some(error) = found else {
        // Written only where there is something to forget.
        if observed.errors.load(Ordering::Relaxed) != 0 {
            observed.errors.store(0, Ordering::Relaxed);
        }
        return;
    };
    let rare = server.rare();
    let errors = observed.errors.fetch_add(1, Ordering::Relaxed) + 1;
    if errors < rare.error_limit.unwrap_or(ERROR_LIMIT) {
        return;
    }
    observed.errors.store(0, Ordering::Relaxed);
    observed.alarms.fetch_add(1, Ordering::Relaxed);
    let blow = match rare.on_error {
        OnError::FastInter => None,
        OnError::FailCheck => Some(None),
        // One more failed check takes it down.
        OnError::SuddenDeath => Some(Some(2)),
        OnError::MarkDown => Some(Some(1)),
    };
    if let (Some(failures_left), Some(worker)) = (blow, worker::current()) {
        let info = format!("Detected {errors} consecutive errors, last one was: {error}");
        let verdict = Verdict { status: Status::Analyzed, code: 0, info };
        let checker = Checker { worker, proxy, server: server.id, what: What::Health };
        checker.conclude_analysis(verdict, failures_left);
    }
    let hurry = observed.hurry.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some(hurry) = hurry {
        hurry.ask(clock::now_ms() + u64::from(check.fastinter_ms.unwrap_or(check.inter_ms)));
    }
}

/// Errors in a row that are too many, where no line says.
const ERROR_LIMIT: u32 = 10;
