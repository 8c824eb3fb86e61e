//! What must be true of connections in TCP mode.

use crate::actor::tcp::NUMBER;
use crate::plan::{Plan, TcpSession};
use crate::record::{End, LogLine, Record, TcpRecord};

use super::stormed;

/// See the module's documentation.
pub fn check(plan: &Plan, record: &Record) {
    let Some(tcp) = &plan.tcp else { return };
    let lines = record.lines.borrow();
    for (n, (session, seen)) in tcp.sessions.iter().zip(record.tcp.borrow().iter()).enumerate() {
        if seen.address.is_empty() {
            continue;
        }
        let of: Vec<&LogLine> = lines.iter().filter(|l| l.client == seen.address).collect();
        if of.len() > 1 || of.is_empty() && !stormed(record) && plan.soft_stop_ms.is_none() {
            record.complain(format!("TCP client {n} has {} log lines", of.len()));
        }
        if let Some(what) = of.first().and_then(|line| one(plan, record, session, seen, line)) {
            record.complain(format!("TCP client {n}: {what}: {} {seen:?}", of[0].text));
        }
    }
}

fn one(
    plan: &Plan,
    record: &Record,
    session: &TcpSession,
    seen: &TcpRecord,
    line: &LogLine,
) -> Option<&'static str> {
    let normal = line.state.starts_with("--");
    let (up, down) = ((session.up + NUMBER) as u64, session.down as u64);
    if plan.calm && !normal {
        return Some("nothing went wrong");
    }
    if plan.calm && (seen.received != down || seen.got + NUMBER as u64 != up) {
        return Some("bytes are missing");
    }
    if normal
        && !stormed(record)
        && !seen.left
        && seen.end == Some(End::Fin)
        && seen.received < seen.server_sent
        && session.fault.is_none()
    {
        return Some("the line says that all went well, and the client's side was cut");
    }
    if seen.received > seen.server_sent || seen.got + NUMBER as u64 > seen.sent.max(NUMBER as u64) {
        return Some("more came than was sent");
    }
    if normal && !stormed(record) && !seen.left && session.fault.is_none() {
        let expected = [up, up, down, down];
        if line.bytes != expected {
            return Some("the line has other bytes");
        }
    }
    None
}
