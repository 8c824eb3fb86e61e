//! Both ends of connections through a proxy in TCP mode. A client says its number in ten bytes first.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use thalweg_runtime::net::{ConnectOptions, SockAddr, Stream};
use thalweg_runtime::{clock, timer};

use super::{Got, Line, PAUSES_MAX, accept, add, both};
use crate::body;
use crate::plan::{Act, How, Plan, TcpSession};
use crate::record::{End, Record};

/// Bytes of a client's number, a line feed behind it.
pub const NUMBER: usize = 10;

/// As long as nothing should take.
const PATIENCE_MS: u64 = 600_000;

/// Plays the client of the `n`th session.
pub async fn play(plan: Arc<Plan>, record: Rc<Record>, n: usize) {
    let Some(tcp) = &plan.tcp else { return };
    let session = tcp.sessions[n];
    timer::sleep(session.start_ms).await;
    let source = SockAddr::from(std::net::SocketAddr::from(([10, 2, 0, n as u8 + 1], 0)));
    let options = ConnectOptions { source: Some(source), ..ConnectOptions::default() };
    let connecting = Stream::connect(&SockAddr::from(tcp.front), &options);
    let patience = Some(clock::now_ms() + PATIENCE_MS);
    if let Ok(Ok(stream)) = timer::timeout_at(patience, connecting).await {
        let address = stream.local_addr().map_or(String::new(), |a| a.to_string());
        record.tcp(n, |r| r.address = address);
        let line = Line::new(stream);
        let work = both(send(&record, n, &line, &session), receive(&record, n, &line, &session));
        if timer::timeout_at(patience, work).await.is_err() {
            record.complain(format!("TCP client {n} waits for ever"));
        }
        line.close();
    }
    record.client_done();
}

async fn send(record: &Record, n: usize, line: &Line, session: &TcpSession) {
    let mut bytes = format!("{n:0>width$}\n", width = NUMBER - 1).into_bytes();
    bytes.extend(body::bytes(body::request_key(n), 0, session.up));
    let until = session.leave.map_or(bytes.len(), |(at, _)| (at + NUMBER).min(bytes.len()));
    let mut pauses = PAUSES_MAX;
    for part in bytes[..until].chunks(session.piece.max(bytes.len() / 200)) {
        record.tcp(n, |r| r.sent += part.len() as u64);
        if !line.send(part).await {
            return;
        }
        if session.pause_ms > 0 && pauses > 0 {
            pauses -= 1;
            timer::sleep(session.pause_ms).await;
        }
    }
    record.tcp(n, |r| r.sent_all = true);
    match session.leave {
        Some((_, how)) => {
            record.tcp(n, |r| r.left = true);
            record.network.note(|| format!("actor TCP client {n} leaves: {how:?}"));
            if how == How::Reset { line.reset() } else { line.close() }
        }
        None if session.half_closes => line.half_close(),
        None => {}
    }
}

async fn receive(record: &Record, n: usize, line: &Line, session: &TcpSession) {
    loop {
        let end = match line.recv(1 << 16).await {
            Got::Bytes(bytes) => {
                let at = record.tcp(n, |r| add(&mut r.received, bytes.len() as u64));
                if let Some(place) = body::first_difference(body::response_key(n, 0), at, &bytes) {
                    record.complain(format!("TCP client {n}: byte {place} is wrong"));
                    return line.close();
                }
                let sent = record.tcp(n, |r| r.sent_all);
                if session.half_closes || !sent || at + (bytes.len() as u64) < session.down as u64 {
                    continue;
                }
                End::Own
            }
            Got::Fin => End::Fin,
            Got::Reset => End::Reset,
            Got::Gone => End::Own,
        };
        record.tcp(n, |r| r.end = Some(end));
        record.network.note(|| format!("actor TCP client {n} is done: {end:?}"));
        // What there is to send is still sent after the server's end.
        if end != End::Fin {
            line.close();
        }
        return;
    }
}

/// Serves the connections of one of the servers for ever.
pub async fn serve(plan: Arc<Plan>, record: Rc<Record>, server: usize) {
    let Some(tcp) = &plan.tcp else { return };
    let listens = accept(tcp.servers[server], |line| {
        let (plan, record) = (Arc::clone(&plan), Rc::clone(&record));
        async move {
            answer(&plan, &record, &line).await;
            line.close();
        }
    });
    if !listens.await {
        record.complain("a TCP server could not listen");
    }
}

async fn answer(plan: &Plan, record: &Record, line: &Line) {
    let mut first = Vec::new();
    while first.len() < NUMBER {
        match line.recv(NUMBER - first.len()).await {
            Got::Bytes(bytes) => first.extend(bytes),
            _ => return,
        }
    }
    let number = std::str::from_utf8(&first).ok().and_then(|text| text.trim_end().parse::<usize>().ok());
    let session = number.and_then(|n| Some((n, *plan.tcp.as_ref()?.sessions.get(n)?)));
    let Some((n, session)) = session else {
        return record.complain(format!("a TCP server was sent {first:?}"));
    };
    if record.tcp(n, |r| add(&mut r.attempts, 1)) > 0 {
        record.complain(format!("TCP client {n} came to servers twice"));
    }
    let ended = Cell::new(false);
    let upload = async {
        loop {
            match line.recv(1 << 16).await {
                Got::Bytes(bytes) => {
                    let at = record.tcp(n, |r| add(&mut r.got, bytes.len() as u64));
                    if let Some(place) = body::first_difference(body::request_key(n), at, &bytes) {
                        record.complain(format!("byte {place} of TCP client {n} came wrong"));
                    }
                }
                end => {
                    record.tcp(n, |r| r.server_saw_end = matches!(end, Got::Fin));
                    return ended.set(true);
                }
            }
        }
    };
    let download = async {
        if session.half_closes {
            std::future::poll_fn(|_| {
                if ended.get() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
            })
            .await;
        }
        reply(record, n, line, &session).await;
    };
    both(upload, download).await;
}

async fn reply(record: &Record, n: usize, line: &Line, session: &TcpSession) {
    let until = session.fault.map_or(session.down, |(at, _)| at.min(session.down));
    let bytes = body::bytes(body::response_key(n, 0), 0, until);
    for part in bytes.chunks(session.piece.max(bytes.len() / 200).max(1)) {
        record.tcp(n, |r| r.server_sent += part.len() as u64);
        if !line.send(part).await {
            return;
        }
    }
    match session.fault {
        Some((_, Act::Close)) => line.close(),
        Some((_, Act::Reset)) => line.reset(),
        // The other direction ends it.
        Some((_, Act::Stall)) => {}
        None => line.half_close(),
    }
}
