//! A connection to a peer: introductions, and then whatever the section has to say and is told.

use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::Poll;

use thalweg_config::model::LogLevel;
use thalweg_rules::Overrides;
use thalweg_runtime::buffer::Buf;
use thalweg_runtime::net::Stream;
use thalweg_runtime::timer::{self, timeout_at};
use thalweg_runtime::{Turn, clock, give_way, pool};
use thalweg_stick::peers::{Broken, Link, Status, read_hello, read_status, wire, write_hello};

use super::{Listed, Service, Stranger};
use crate::connection::forerunner::{self, Forerunner};
use crate::connection::handshake;
use crate::connection::port::{Port, RECV_MAX};
use crate::connection::transport::Transport;

/// Introductions have to be over after so many milliseconds.
pub(super) const HELLO_MS: u64 = 5000;
/// A peer that takes nothing of what it is sent for so many milliseconds is gone.
const STUCK_MS: u64 = 30_000;

/// Serves somebody who connected.
pub(super) async fn incoming(stranger: Stranger, fd: OwnedFd) {
    let service = Rc::clone(&stranger.0);
    let _listed = Listed::enter(&service);
    let Ok(stream) = Stream::from_accepted(fd) else { return };
    let deadline = timer::deadline_in(HELLO_MS);
    let mut port = Port::new(Transport::from(stream));
    // Who a peer is its hello says, wherever its connection comes from.
    for awaited in Forerunner::of(&service.config().bind, &Overrides::default()) {
        if let Err(error) = forerunner::receive(&mut port, awaited, Some(deadline)).await {
            let what = format!("a connection did not begin as it must: {}.", error.message());
            return service.log(LogLevel::Warning, &what);
        }
    }
    if let Some(line) = service.config().bind.tls.as_deref().and_then(|tls| tls.line.as_ref()) {
        let limits = service.limits;
        let shaking = handshake::accept(&mut port, line.selection(), limits, Some(deadline));
        match pool::boxed(shaking).await {
            Ok(facts) => service.own.count_tls_client(facts.known.resumed),
            Err(error) => {
                let what = format!("a connection could not be encrypted: {error:?}");
                return service.log(LogLevel::Warning, &what);
            }
        }
    }
    let mut conversation = Conversation::new(port);
    let Some(hello) = conversation.introduction(deadline, read_hello).await else { return };
    let accepted = match hello {
        Ok(hello) => {
            let accepted = service.live.section().accept(&hello, clock::now_ms());
            accepted.inspect_err(|status| {
                let what = format!("'{}', who wants to talk to '{}', was refused", hello.from, hello.to);
                service.log(LogLevel::Warning, &format!("{what}: {}.", *status as u16));
            })
        }
        Err(status) => Err(status),
    };
    let status = accepted.err().unwrap_or(Status::Succeeded);
    let answered = conversation.say(status.line().as_bytes(), deadline).await;
    let Ok(link) = accepted else {
        conversation.bid_farewell(deadline).await;
        return;
    };
    drop(stranger);
    // Whoever was connected to this peer before is told to go.
    service.wake_sessions();
    let open = Open { service: Rc::clone(&service), link, why: None };
    if answered {
        conversation.run(open, |_| false).await;
    }
}

/// Introduces this process to a peer that it connected to, and returns the answer; `None` when there was none.
pub(super) async fn introduce(service: &Service, peer: usize, port: Port) -> Option<(Conversation, u16)> {
    let config = service.config();
    let local = &config.peers[config.local].server.name;
    let deadline = timer::deadline_in(HELLO_MS);
    let mut conversation = Conversation::new(port);
    let hello = write_hello(&config.peers[peer].server.name, local, std::process::id());
    if !conversation.say(hello.as_bytes(), deadline).await {
        return None;
    }
    let status = conversation.introduction(deadline, read_status).await?.ok()?;
    Some((conversation, status))
}

/// An open connection, which the section forgets when this is dropped.
pub(super) struct Open {
    pub service: Rc<Service>,
    pub link: Link,
    pub why: Option<Broken>,
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut section = self.service.live.section();
        section.closed(self.link, self.why, clock::now_ms());
        let name = section.peers()[self.link.peer].spec.name.clone();
        drop(section);
        if let Some(why) = self.why.filter(|why| *why != Broken::Replaced) {
            self.service.log(LogLevel::Warning, &format!("peer '{name}' was left: {why}."));
        } else {
            self.service.log(LogLevel::Info, &format!("peer '{name}' is not connected any more."));
        }
    }
}

/// A connection and what was received on it and not understood yet.
pub(super) struct Conversation {
    port: Port,
    input: Vec<u8>,
}

impl Conversation {
    fn new(mut port: Port) -> Conversation {
        let input = port.input.take().map_or_else(Vec::new, |input| input.to_vec());
        Conversation { port, input }
    }

    /// Reads an introduction. `None` when the connection ended before there was one.
    async fn introduction<T>(
        &mut self,
        deadline: u64,
        read: impl Fn(&[u8]) -> Result<Option<(T, usize)>, Status>,
    ) -> Option<Result<T, Status>> {
        loop {
            match read(&self.input) {
                Ok(Some((found, len))) => {
                    self.input.drain(..len);
                    return Some(Ok(found));
                }
                Ok(None) => {}
                Err(status) => return Some(Err(status)),
            }
            let received = timeout_at(Some(deadline), self.port.line.recv(RECV_MAX)).await.ok()?.ok()?;
            if received.is_empty() {
                return None;
            }
            self.input.extend_from_slice(&received);
        }
    }

    /// Sends something and waits until it left. False when it did not.
    async fn say(&mut self, bytes: &[u8], deadline: u64) -> bool {
        let line = &mut self.port.line;
        if !matches!(timeout_at(Some(deadline), line.send_ready()).await, Ok(Ok(()))) {
            return false;
        }
        line.start_send(Buf::copy_of(bytes));
        matches!(timeout_at(Some(deadline), line.send_ready()).await, Ok(Ok(())))
    }

    /// Closes so that what was said last arrives: what nobody reads would turn the end into a reset.
    async fn bid_farewell(mut self, deadline: u64) {
        let _ = self.port.line.shutdown_write();
        while let Ok(Ok(received)) = timeout_at(Some(deadline), self.port.line.recv(RECV_MAX)).await {
            if received.is_empty() {
                return;
            }
        }
    }

    /// Talks until the connection ends, or `is_over` says that it may.
    pub async fn run(mut self, mut open: Open, is_over: impl Fn(Link) -> bool) {
        let name = open.service.live.section().peers()[open.link.peer].spec.name.clone();
        open.service.log(LogLevel::Info, &format!("peer '{name}' is connected."));
        let (mut out, mut turn) = (Vec::new(), Turn::default());
        let ended = loop {
            match self.turn(&open, &mut out).await {
                Ok(true) if is_over(open.link) => return,
                Ok(true) => {}
                Ok(false) => break None,
                Err(broken) => break Some(broken),
            }
            // A peer may have more to say than this process takes: it would never wait.
            if turn.is_over() {
                give_way().await;
            }
        };
        open.why = ended;
        if let Some(complaint) = ended.and_then(Broken::complaint) {
            let mut last = Vec::new();
            wire::put_complaint(&mut last, complaint);
            let deadline = timer::deadline_in(HELLO_MS);
            drop(open);
            if self.say(&last, deadline).await {
                self.bid_farewell(deadline).await;
            }
        }
    }

    /// Sends what is to be sent if there is room, or takes what arrives. False when the connection is over.
    async fn turn(&mut self, open: &Open, out: &mut Vec<u8>) -> Result<bool, Broken> {
        let (service, link) = (&open.service, open.link);
        // What came with the introduction is understood first.
        if !self.input.is_empty() {
            let taken = service.live.section().receive(link, &self.input, clock::now_ms())?;
            self.input.drain(..taken);
        }
        let mut more = false;
        let event = std::future::poll_fn(|_| {
            let now_ms = clock::now_ms();
            match self.port.line.poll_send_ready() {
                Poll::Ready(Ok(())) => {
                    let mut section = service.live.section();
                    match section.send(link, out, now_ms) {
                        Ok(has_more) => more = has_more,
                        Err(broken) => return Poll::Ready(Err(broken)),
                    }
                    if !out.is_empty() || more {
                        return Poll::Ready(Ok(Event::Send));
                    }
                    timer::want(section.deadline_ms(link));
                }
                Poll::Ready(Err(_)) => return Poll::Ready(Ok(Event::Over)),
                Poll::Pending => {
                    let stuck = self.port.line.last_sent_ms().saturating_add(STUCK_MS);
                    if now_ms >= stuck {
                        return Poll::Ready(Err(Broken::Silent));
                    }
                    timer::want(stuck);
                }
            }
            match self.port.line.poll_recv(RECV_MAX) {
                Poll::Ready(Ok(bytes)) if bytes.is_empty() => Poll::Ready(Ok(Event::Over)),
                Poll::Ready(Ok(bytes)) => Poll::Ready(Ok(Event::Received(bytes))),
                Poll::Ready(Err(_)) => Poll::Ready(Ok(Event::Over)),
                Poll::Pending => Poll::Pending,
            }
        })
        .await?;
        match event {
            Event::Over => return Ok(false),
            Event::Send => {
                if !out.is_empty() {
                    self.port.line.start_send(Buf::copy_of(out));
                    out.clear();
                }
                if more {
                    give_way().await;
                }
            }
            Event::Received(bytes) => {
                self.input.extend_from_slice(&bytes);
                let taken = service.live.section().receive(link, &self.input, clock::now_ms())?;
                self.input.drain(..taken);
                if self.input.is_empty() {
                    // A connection that waits holds nothing.
                    self.input = Vec::new();
                }
            }
        }
        Ok(true)
    }
}

enum Event {
    Send,
    Received(Buf),
    Over,
}
