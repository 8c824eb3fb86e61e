//! The lines about servers that change.

use std::sync::atomic::Ordering;

use thalweg_check::Verdict;
use thalweg_config::model::{LogLevel, ProxyId, ServerId};
use thalweg_sys::fd::complain;

use super::super::Backend;
use super::super::standing::Operation;
use crate::mail;
use crate::worker::Worker;

/// What a change is compared with.
pub(crate) struct Before {
    usable: u32,
    requeued: u32,
    /// Whether new requests went to the server: losing it is an alert.
    took_part: bool,
}

impl Before {
    pub(crate) fn look(backend: &Backend, server: ServerId) -> Before {
        Before {
            usable: backend.usable_count(),
            requeued: backend.server_queue_len(server),
            took_part: backend.is_usable(server),
        }
    }

    /// Says that a server went down, came up, or began to stop, if it did, and why.
    pub(crate) fn tell_change(
        &self,
        worker: &Worker,
        proxy: ProxyId,
        server: ServerId,
        before: Operation,
        reason: &str,
    ) {
        let after = worker.backend(proxy).standing(server).operation;
        if before == after {
            return;
        }
        match after {
            Operation::Stopped => {
                self.tell_down(worker, proxy, server, &format!("is DOWN{reason}"));
            }
            Operation::Running => self.tell_up(worker, proxy, server, &format!("is UP{reason}")),
            // What its check said is told when it comes back.
            Operation::Stopping if reason.starts_with(", reason") => {
                self.tell_up(worker, proxy, server, "is stopping");
            }
            Operation::Stopping => self.tell_up(worker, proxy, server, &format!("is stopping{reason}")),
        }
    }

    /// Says that a server lost its traffic, and what is left.
    pub(crate) fn tell_down(&self, worker: &Worker, proxy: ProxyId, server: ServerId, what: &str) {
        let backend = worker.backend(proxy);
        let (active, backups) = backend.active_and_backup();
        let on_backup = if active == 0 && backups > 0 { " Running on backup." } else { "" };
        let line = format!(
            "{} {what}. {active} active and {backups} backup servers left.{on_backup} {} sessions active, {} requeued, {} \
             remaining in queue.",
            title(worker, proxy, server),
            worker.instance.server_streams(proxy, server),
            self.requeued,
            backend.queue_len(),
        );
        let level = if self.took_part { LogLevel::Alert } else { LogLevel::Notice };
        tell(worker, proxy, level, &line);
        self.tell_if_none_left(worker, proxy);
    }

    /// Says that a server is up, if only to serve what it has.
    pub(crate) fn tell_up(&self, worker: &Worker, proxy: ProxyId, server: ServerId, what: &str) {
        let backend = worker.backend(proxy);
        let (active, backups) = backend.active_and_backup();
        let on_backup = if active == 0 && backups > 0 { " Running on backup." } else { "" };
        let line = format!(
            "{} {what}. {active} active and {backups} backup servers online.{on_backup} {} sessions requeued, {} total in queue.",
            title(worker, proxy, server),
            self.requeued,
            backend.queue_len(),
        );
        tell(worker, proxy, LogLevel::Notice, &line);
        self.tell_if_none_left(worker, proxy);
    }

    /// Says that the backend lost its last server, if it did.
    pub(crate) fn tell_if_none_left(&self, worker: &Worker, proxy: ProxyId) {
        if self.usable > 0 && worker.backend(proxy).usable_count() == 0 {
            let what = if worker.proxy(proxy).is_fe() { "proxy" } else { "backend" };
            let name = &worker.proxy(proxy).name;
            worker.log(
                proxy,
                LogLevel::Emerg,
                b"",
                format!("{what} {name} has no server available!").as_bytes(),
            );
            say(worker, "ALERT", &format!("{what} '{name}' has no server available!"));
        }
    }
}

/// How lines call a server.
pub(crate) fn title(worker: &Worker, proxy: ProxyId, server: ServerId) -> String {
    let proxy = worker.proxy(proxy);
    let Some(server) = proxy.server(server) else { return format!("Server {}/?", proxy.name) };
    let backup = if server.backup { "Backup " } else { "" };
    format!("{backup}Server {}/{}", proxy.name, worker.backend(proxy.id).identity(server).name)
}

/// A line about a server, to the logs of its backend, to the standard error, and by e-mail to whoever wants to hear of it.
pub(crate) fn tell(worker: &Worker, proxy: ProxyId, level: LogLevel, line: &str) {
    worker.log(proxy, level, b"", line.as_bytes());
    say(worker, "WARNING", line);
    mail::alert(worker, proxy, level, line);
}

/// Writes a line to the standard error, as the reference does until it is put in the background; it counts as a warning if
/// it is one.
pub fn say(worker: &Worker, severity: &str, line: &str) {
    if severity == "WARNING" {
        worker.instance.warnings.fetch_add(1, Ordering::Relaxed);
    }
    if !worker.instance.config.global.quiet {
        let lead = format!("[{severity}]");
        complain(format!("{lead:<10} ({}) : {line}\n", std::process::id()).as_bytes());
    }
}

/// How healthy a server is, as lines tell it: one without weight gets no new sessions though it is up.
pub(super) fn status(health: &str, weight: u32) -> String {
    match health.strip_suffix("UP") {
        Some(count) if weight == 0 => format!("{count}DRAIN"),
        _ => health.to_owned(),
    }
}

pub(super) fn reason(verdict: &Verdict, duration_ms: Option<u64>) -> String {
    let mut out = format!("reason: {}", verdict.status.description());
    if verdict.status.has_code() {
        out.push_str(&format!(", code: {}", verdict.code));
    }
    if !verdict.info.is_empty() {
        // What a server says must not break the line.
        let info: String = verdict.info.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        out.push_str(&format!(", info: \"{info}\""));
    }
    if let Some(duration_ms) = duration_ms {
        out.push_str(&format!(", check duration: {duration_ms}ms"));
    }
    out
}
