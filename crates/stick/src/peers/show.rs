//! `show peers`, in the words of the reference.

use std::fmt::Write as _;

use super::entry::NAMES_MAX;
use super::section::{Last, Learning, Section};
use super::session::Session;

/// What stands for addresses in memory, which scripts expect: nothing is at them.
const POINTERS: u64 = 0x3000_0000_0000;

/// A duration from now, as the reference writes it.
fn until(at_ms: Option<u64>, now_ms: u64) -> String {
    match at_ms {
        None => "<NEVER>".to_owned(),
        Some(at) if at <= now_ms => "<PAST>".to_owned(),
        Some(at) => format!("{}s", (at - now_ms) / 1000),
    }
}

fn since(at_ms: Option<u64>, now_ms: u64) -> String {
    at_ms.map_or_else(|| "<NEVER>".to_owned(), |at| format!("{}s", now_ms.saturating_sub(at) / 1000))
}

impl Section {
    /// The lines of this section. `date` is when its process began, `dict` asks for the names that were exchanged, and
    /// `number` tells sections apart.
    pub fn show(&self, out: &mut String, number: usize, date: &str, dict: bool, now_ms: u64) {
        let base = POINTERS + number as u64 * 0x1_0000_0000;
        let resync = match self.learning(now_ms) {
            Learning::Done => Some(0),
            Learning::Predecessor { until_ms }
            | Learning::Anyone { until_ms }
            | Learning::From { until_ms, .. } => Some(until_ms),
        };
        // The two lowest bits are those that people look at: nothing is expected any more of the process before, of others.
        let done = self.learning == Learning::Done;
        let local_over = done || !matches!(self.learning, Learning::Predecessor { .. });
        let flags = u32::from(local_over) | u32::from(done) << 1;
        let _ = writeln!(
            out,
            "{base:#x}: [{date}] id={} disabled=0 flags={flags:#x} resync_timeout={} task_calls=0",
            self.name,
            until(resync, now_ms),
        );
        // The last one first, as in the reference.
        for at in (0..self.peers.len()).rev() {
            self.show_peer(out, base, at, dict, now_ms);
        }
    }

    fn show_peer(&self, out: &mut String, base: u64, at: usize, dict: bool, now_ms: u64) {
        let peer = &self.peers[at];
        let session = peer.session.as_ref();
        let status = match peer.last {
            Last::None => "NONE",
            Last::Connecting | Last::Unreachable => "CONN",
            Last::Established | Last::Closed => "ESTA",
            Last::Refused(300) => "RETR",
            Last::Refused(502) => "VERS",
            Last::Refused(503 | 504) => "NAME",
            Last::Refused(_) => "PROT",
        };
        let learns = matches!(self.learning, Learning::From { link, .. } if link.peer == at);
        let _ = writeln!(
            out,
            "  {:#x}: id={}({},{}) addr={} app_state={} learn_state={} last_status={status} last_hdshk={}",
            base + 0x1000 * (at as u64 + 1),
            peer.spec.name,
            if at == self.local { "local" } else { "remote" },
            if session.is_some() { "active" } else { "inactive" },
            peer.spec.address,
            if session.is_some() { "RUNNING" } else { "STOPPED" },
            if learns { "PROCESSING" } else { "NOTASSIGNED" },
            since(peer.last_hello_ms, now_ms),
        );
        let heartbeat = session.filter(|session| session.minor > 0).map(|session| session.sent_ms + 3000);
        let _ = writeln!(
            out,
            "        reconnect={} heartbeat={} confirm={} tx_hbt={} rx_hbt={} no_hbt={} new_conn={} proto_err={} coll={}",
            until(peer.reconnect_ms, now_ms),
            until(heartbeat, now_ms),
            peer.confirmations,
            peer.heartbeats_sent,
            peer.heartbeats_heard,
            peer.silences,
            peer.connections,
            peer.violations,
            peer.collisions,
        );
        let teaches = session.is_some_and(|session| session.lesson.is_some());
        let flags = u32::from(learns) | u32::from(teaches) << 1 | u32::from(peer.is_partial) << 2;
        match session {
            None => _ = writeln!(out, "        flags={flags:#x}"),
            Some(session) => {
                let _ = writeln!(
                    out,
                    "        flags={flags:#x} appctx:{:#x} st0=7 st1=0 task_calls=0 state=EST",
                    base + session.number * 16,
                );
                let table = |at: usize| {
                    let (shared, seen) = (&self.tables[at], &session.seen[at]);
                    let pointer = self.pointer(base, at);
                    let (name, remote) = (&shared.table.spec().name, seen.remote.unwrap_or(0));
                    format!("{pointer:#x} id={name} local_id={} remote_id={remote}", at + 1)
                };
                if let Some((_, Some(at))) = &session.current {
                    let _ = writeln!(out, "        remote_table:{}", table(*at));
                }
                if let Some(at) = session.defined {
                    let _ = writeln!(out, "        last_local_table:{}", table(at));
                }
            }
        }
        if self.tables.is_empty() {
            return;
        }
        out.push_str("        shared tables:\n");
        for table in (0..self.tables.len()).rev() {
            self.show_table(out, base, at, table, session);
            match dict {
                true => show_names(out, session),
                false => out.push_str("        Dictionary cache not dumped (use \"show peers dict\")\n"),
            }
        }
    }

    fn pointer(&self, base: u64, table: usize) -> u64 {
        base + 0x1000_0000 + 0x100 * table as u64
    }

    fn show_table(&self, out: &mut String, base: u64, peer: usize, at: usize, session: Option<&Session>) {
        let shared = &self.tables[at];
        let none = super::session::Seen::default();
        let seen = session.map_or(&none, |session| &session.seen[at]);
        let pointer = self.pointer(base, at);
        let _ = writeln!(
            out,
            "          {pointer:#x} local_id={} remote_id={} flags=0x0 remote_data={:#x}",
            at + 1,
            seen.remote.unwrap_or(0),
            seen.bits,
        );
        let _ = writeln!(
            out,
            "              last_acked={} last_pushed={} last_get={} teaching_origin=0 update={}",
            seen.acknowledged, seen.pushed, seen.got, self.peers[peer].acknowledged[at],
        );
        let _ = writeln!(
            out,
            "              table:{:#x} id={} update={} localupdate={} refcnt=1",
            pointer + 0x80,
            shared.table.spec().name,
            shared.updates,
            shared.log.last(),
        );
    }
}

fn show_names(out: &mut String, session: Option<&Session>) {
    out.push_str("        TX dictionary cache:");
    for (at, name) in session.iter().flat_map(|session| session.told.names()).enumerate() {
        let _ = write!(out, "{}        {:>3} -> {name}", if at % 4 == 0 { "\n" } else { "" }, at + 1);
    }
    out.push_str("\n        RX dictionary cache:");
    for at in 0..NAMES_MAX {
        let name = session.and_then(|session| session.heard.name(at));
        let name = name.map_or("-", |name| name);
        let _ = match at % 4 {
            0 => write!(out, "\n          {at:>3} -> {name}"),
            _ => write!(out, "  {at:>3} -> {name}"),
        };
    }
    out.push('\n');
}
