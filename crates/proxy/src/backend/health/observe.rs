//! Traffic that tells of a server's health (manual: `observe`, `error-limit`, `on-error`): errors in a row count like a failed
//! check, and bring the next check forward.

use thalweg_check::{Status, Verdict};
use thalweg_config::model::{ObserveLayer, OnError, Proxy, ProxyId, Server};

use super::checker::Checker;
use super::report::What;
use crate::backend::assign;
use crate::backend::connect_error::ConnectError;
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
    let Some(error) = found else { return observed.forget_errors() };
    let rare = server.rare();
    let Some(errors) = observed.count_error(rare.error_limit.unwrap_or(ERROR_LIMIT)) else { return };
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
    observed.hurry_up(u64::from(check.fastinter_ms.unwrap_or(check.inter_ms)));
}

/// Errors in a row that are too many, where no line says.
const ERROR_LIMIT: u32 = 10;
