//! The simulated network itself: endpoints, what is on its way between them, and the clock.
//!
//! Time only moves in [`World::advance`]. What happens later is an [`Event`] in one queue ordered by time, and by
//! the order of scheduling where times are equal; bytes of one direction of a connection never overtake each
//! other. Everything random comes from one generator, so a seed decides the whole run.

use super::SimConfig;
use super::journal::Journal;
use super::rng::Rng;
use crate::net::SockAddr;
use crate::task::current_task;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::os::fd::RawFd;

pub(crate) type EndpointId = u32;

/// What happens at some time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// A connection request reaches its destination.
    Request(EndpointId),
    /// The answer reaches the client: 0, or the error.
    Answer(EndpointId, i32),
    Bytes(EndpointId, Vec<u8>),
    /// The peer read bytes: there is room for more.
    Room(EndpointId, u64),
    End(EndpointId),
    Reset(EndpointId),
    Datagram(EndpointId, SockAddrKey, Vec<u8>),
}

/// A sender's address, kept in a form that can be ordered.
pub(crate) type SockAddrKey = String;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Listener,
    Stream,
    Datagram,
}

pub(crate) struct Endpoint {
    pub kind: Kind,
    pub local: SockAddr,
    pub remote: SockAddr,
    pub peer: Option<EndpointId>,
    /// Address of the record that owns it in the driver; none between `accept` and adoption.
    pub socket: Option<usize>,
    /// The real descriptor that stands for it, and the number of its file.
    pub token: Option<(RawFd, u64)>,
    /// The descriptor is another process's.
    pub is_others: bool,
    pub established: bool,
    pub rx: VecDeque<u8>,
    pub rx_end: bool,
    pub error: i32,
    /// Bytes sent and not read by the peer.
    pub outstanding: u64,
    pub room: u64,
    pub tx_end: bool,
    pub linger_reset: bool,
    /// Nothing that is sent may arrive before what was sent earlier.
    pub arrival_ns: u64,
    /// Listeners: connections not accepted yet.
    pub backlog: VecDeque<EndpointId>,
    pub backlog_max: usize,
    pub datagrams: VecDeque<(SockAddr, Vec<u8>)>,
}

/// What the run counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimCounts {
    /// Events delivered.
    pub events: u64,
    /// Connections established.
    pub connections: u64,
    /// Stream bytes that arrived.
    pub bytes: u64,
    /// Faults injected.
    pub faults: u64,
    /// Those of them that broke a connection.
    pub resets: u64,
    /// Those of them that kept a connection from being made: refused, unanswered, no descriptor, no memory.
    pub unconnected: u64,
    /// Those of them in which the process stood still.
    pub pauses: u64,
    /// Polls.
    pub rounds: u64,
}

pub(crate) struct World {
    pub config: SimConfig,
    /// Tasks that play other processes.
    pub others: Option<&'static crate::Kind>,
    pub rng: Rng,
    pub now_ns: u64,
    pub wall_us: i64,
    queue: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    pub endpoints: BTreeMap<EndpointId, Endpoint>,
    next_id: EndpointId,
    next_port: u16,
    addresses: BTreeMap<SockAddrKey, SockAddr>,
    tokens: BTreeMap<RawFd, EndpointId>,
    /// Endpoints that were closed, and when what they sent last arrives.
    gone: BTreeMap<EndpointId, u64>,
    /// Endpoints whose readiness changed: readable (1), writable (2), failed (4).
    pub ready: Vec<(EndpointId, u8)>,
    pub counts: SimCounts,
    pub trace: u64,
    /// Something happened since the last poll: a call that moved bytes or connections.
    pub active: bool,
    pub verdict: Option<String>,
    pub incidents: Vec<String>,
    pub journal: Journal,
}

pub(crate) const READABLE: u8 = 1;
pub(crate) const WRITABLE: u8 = 2;
pub(crate) const FAILED: u8 = 4;

/// Virtual time starts here, away from zero.
pub(crate) const START_NS: u64 = 1_000_000_000_000;
/// 2026-01-01 00:00:00 UTC.
const START_WALL_US: i64 = 1_767_225_600_000_000;
/// How long a request without an answer lasts, as Linux has it by default.
const CONNECT_TIMEOUT_NS: u64 = 127_000_000_000;
/// What bytes need from one unix socket to another, at most.
const LOCAL_LATENCY_NS: u64 = 10_000;
/// Datagrams a receiver keeps.
const DATAGRAMS_MAX: usize = 256;

impl World {
    pub fn new(seed: u64, config: SimConfig) -> World {
        World {
            config,
            others: None,
            rng: Rng::new(seed),
            now_ns: START_NS,
            wall_us: START_WALL_US,
            queue: BinaryHeap::new(),
            sequence: 0,
            endpoints: BTreeMap::new(),
            next_id: 0,
            next_port: 32_768,
            addresses: BTreeMap::new(),
            tokens: BTreeMap::new(),
            gone: BTreeMap::new(),
            ready: Vec::new(),
            counts: SimCounts::default(),
            trace: 0xcbf2_9ce4_8422_2325,
            active: false,
            verdict: None,
            incidents: Vec::new(),
            journal: Journal::default(),
        }
    }

    fn note(&mut self, what: u64) {
        self.trace = (self.trace ^ what).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(17);
    }

    /// Whether a fault happens now, by its probability in the configuration.
    pub fn fault(&mut self, per_million: impl FnOnce(&SimConfig) -> u32) -> bool {
        let hit = self.rng.chance(per_million(&self.config));
        self.counts.faults += u64::from(hit);
        hit
    }

    /// Likewise for one that keeps a connection from being made; `what` says so in the journal.
    pub fn prevented(&mut self, per_million: impl FnOnce(&SimConfig) -> u32, what: &str) -> bool {
        let hit = self.fault(per_million);
        if hit {
            self.counts.unconnected += 1;
            self.write_down(|_| format!("fault {what}"));
        }
        hit
    }

    fn latency(&mut self) -> u64 {
        let (low, high) = self.config.latency_us;
        self.rng.within(low * 1000, high * 1000)
    }

    /// How long what an endpoint sends is on its way: what stays on this machine is there at once.
    fn latency_from(&mut self, id: EndpointId) -> u64 {
        if self.is_local(id) { self.rng.below(LOCAL_LATENCY_NS) } else { self.latency() }
    }

    /// Whether it is a unix socket: no network between it and its peer.
    fn is_local(&self, id: EndpointId) -> bool {
        self.endpoints.get(&id).is_some_and(|e| e.local.is_unix() && e.kind != Kind::Datagram)
    }

    fn schedule(&mut self, at_ns: u64, event: Event) {
        self.sequence += 1;
        self.queue.push(Reverse((at_ns, self.sequence, event)));
    }

    /// Schedules an event towards `to`, after everything `from` sent before.
    fn send_in_order(&mut self, from: EndpointId, event: Event) {
        let at = self.now_ns + self.latency_from(from);
        let at = match self.endpoints.get_mut(&from) {
            Some(e) => {
                e.arrival_ns = e.arrival_ns.max(at);
                e.arrival_ns
            }
            None => at,
        };
        self.schedule(at, event);
    }

    pub fn add(&mut self, kind: Kind, local: SockAddr, remote: SockAddr) -> EndpointId {
        let id = self.next_id;
        self.next_id += 1;
        let (low, high) = self.config.send_buffer;
        let room = self.rng.within(low as u64, high as u64).max(1);
        self.endpoints.insert(
            id,
            Endpoint {
                kind,
                local,
                remote,
                peer: None,
                socket: None,
                token: None,
                is_others: false,
                established: false,
                rx: VecDeque::new(),
                rx_end: false,
                error: 0,
                outstanding: 0,
                room,
                tx_end: false,
                linger_reset: false,
                arrival_ns: 0,
                backlog: VecDeque::new(),
                backlog_max: 0,
                datagrams: VecDeque::new(),
            },
        );
        id
    }

    /// Descriptors that stand for endpoints, open now.
    pub fn descriptors(&self) -> usize {
        self.endpoints.values().filter(|e| e.token.is_some()).count()
    }

    /// Whether the task that runs plays another process.
    pub fn is_others(&self) -> bool {
        self.others.is_some_and(|kind| crate::scheduler::is_of_kind(current_task(), kind))
    }

    /// Whether one more descriptor may be opened.
    pub fn may_open(&mut self) -> Result<(), i32> {
        let own = self.endpoints.values().filter(|e| e.token.is_some() && !e.is_others).count();
        if own >= self.config.descriptors_max && !self.is_others() {
            self.counts.unconnected += 1;
            self.write_down(|_| "fault no descriptor is left".to_owned());
            return Err(libc::EMFILE);
        }
        if self.prevented(|c| c.emfile_ppm, "EMFILE") { Err(libc::EMFILE) } else { Ok(()) }
    }

    pub fn bind_token(&mut self, id: EndpointId, fd: RawFd, file: u64) {
        // The number was free, so whoever had it before closed it without our seeing.
        if let Some(old) = self.tokens.insert(fd, id)
            && old != id
        {
            self.close(old);
        }
        let is_others = self.is_others();
        if let Some(e) = self.endpoints.get_mut(&id) {
            e.token = Some((fd, file));
            e.is_others = is_others;
        }
        self.active = true;
    }

    pub fn of_token(&self, fd: RawFd) -> Option<EndpointId> {
        self.tokens.get(&fd).copied()
    }

    pub fn pick_port(&mut self) -> u16 {
        self.next_port = self.next_port.checked_add(1).unwrap_or(32_768);
        self.next_port
    }

    fn listener_for(&mut self, to: &SockAddr) -> Option<EndpointId> {
        let matching = |local: &SockAddr| match (local.to_std(), to.to_std()) {
            (Some(l), Some(t)) => l.port() == t.port() && (l.ip() == t.ip() || l.ip().is_unspecified()),
            _ => local == to,
        };
        let all: Vec<EndpointId> = self
            .endpoints
            .iter()
            .filter(|(_, e)| e.kind == Kind::Listener && e.token.is_some() && matching(&e.local))
            .map(|(id, _)| *id)
            .collect();
        let pick = self.rng.below(all.len() as u64) as usize;
        all.get(pick).copied()
    }

    pub fn address_taken(&self, address: &SockAddr, kind: Kind) -> bool {
        self.endpoints.values().any(|e| e.kind == kind && e.token.is_some() && e.local == *address)
    }

    pub fn connect(&mut self, id: EndpointId) {
        self.active = true;
        if self.is_local(id) {
            return self.send_in_order(id, Event::Request(id));
        }
        if self.prevented(|c| c.refuse_ppm, "a connection is refused") {
            let at = self.now_ns + self.latency() * 2;
            return self.schedule(at, Event::Answer(id, libc::ECONNREFUSED));
        }
        if self.prevented(|c| c.unanswered_ppm, "a connection request is lost") {
            return self.schedule(self.now_ns + CONNECT_TIMEOUT_NS, Event::Answer(id, libc::ETIMEDOUT));
        }
        self.send_in_order(id, Event::Request(id));
    }

    pub fn recv(&mut self, id: EndpointId, buf: &mut [u8], peek: bool) -> Result<usize, i32> {
        let short = !peek && self.fault(|c| c.short_read_ppm);
        let cut = self.rng.next();
        let Some(e) = self.endpoints.get_mut(&id) else { return Err(libc::EBADF) };
        if !e.rx.is_empty() {
            let mut n = buf.len().min(e.rx.len());
            if short && n > 1 {
                n = 1 + (cut % (n as u64 - 1)) as usize;
            }
            if peek {
                for (to, from) in buf.iter_mut().zip(&e.rx) {
                    *to = *from;
                }
                return Ok(n);
            }
            for (to, from) in buf.iter_mut().zip(e.rx.drain(..n)) {
                *to = from;
            }
            self.active = true;
            if let Some(peer) = e.peer {
                self.send_in_order(id, Event::Room(peer, n as u64));
            }
            return Ok(n);
        }
        if e.error != 0 {
            return Err(std::mem::take(&mut e.error));
        }
        if e.rx_end { Ok(0) } else { Err(libc::EAGAIN) }
    }

    pub fn send(&mut self, id: EndpointId, parts: &[&[u8]]) -> Result<usize, i32> {
        let short = self.fault(|c| c.short_write_ppm);
        let reset = !self.is_local(id) && self.fault(|c| c.reset_ppm);
        let cut = self.rng.next();
        let Some(e) = self.endpoints.get_mut(&id) else { return Err(libc::EBADF) };
        if e.error != 0 {
            return Err(std::mem::take(&mut e.error));
        }
        let Some(peer) = e.peer.filter(|_| e.established && !e.tx_end) else { return Err(libc::EPIPE) };
        if reset {
            // The network breaks the connection: both ends find out.
            self.counts.resets += 1;
            self.write_down(|w| format!("fault the network breaks {}", w.name_of(id)));
            self.break_connection(id);
            return Err(libc::ECONNRESET);
        }
        let total = parts.iter().map(|part| part.len()).sum::<usize>();
        let mut n = total.min(e.room.saturating_sub(e.outstanding) as usize);
        if n == 0 {
            return Err(libc::EAGAIN);
        }
        if short && n > 1 {
            n = 1 + (cut % (n as u64 - 1)) as usize;
        }
        e.outstanding += n as u64;
        let mut bytes = Vec::with_capacity(n);
        for part in parts {
            bytes.extend_from_slice(&part[..part.len().min(n - bytes.len())]);
        }
        self.active = true;
        self.send_in_order(id, Event::Bytes(peer, bytes));
        Ok(n)
    }

    fn break_connection(&mut self, id: EndpointId) {
        let Some(e) = self.endpoints.get_mut(&id) else { return };
        e.tx_end = true;
        e.rx_end = true;
        e.error = 0;
        let peer = e.peer;
        self.ready.push((id, READABLE | WRITABLE | FAILED));
        if let Some(peer) = peer {
            let at = self.now_ns + self.latency();
            self.schedule(at, Event::Reset(peer));
        }
    }

    pub fn shutdown(&mut self, id: EndpointId) -> Result<(), i32> {
        let Some(e) = self.endpoints.get_mut(&id) else { return Err(libc::EBADF) };
        let Some(peer) = e.peer.filter(|_| e.established) else { return Err(libc::ENOTCONN) };
        if !e.tx_end {
            e.tx_end = true;
            self.write_down(|w| format!("call  {} sends its end", w.name_of(id)));
            self.active = true;
            self.send_in_order(id, Event::End(peer));
        }
        Ok(())
    }

    pub fn accept(&mut self, listener: EndpointId) -> Result<EndpointId, i32> {
        let Some(l) = self.endpoints.get_mut(&listener) else { return Err(libc::EBADF) };
        if l.backlog.is_empty() {
            return Err(libc::EAGAIN);
        }
        self.may_open()?;
        let Some(l) = self.endpoints.get_mut(&listener) else { return Err(libc::EBADF) };
        let id = l.backlog.pop_front().ok_or(libc::EAGAIN)?;
        self.active = true;
        Ok(id)
    }

    /// The descriptor of an endpoint was closed.
    pub fn close(&mut self, id: EndpointId) {
        self.write_down(|w| format!("call  {} is closed", w.name_of(id)));
        let Some(e) = self.endpoints.get_mut(&id) else { return };
        self.active = true;
        e.socket = None;
        if let Some((fd, _)) = e.token.take()
            && self.tokens.get(&fd) == Some(&id)
        {
            self.tokens.remove(&fd);
        }
        if e.kind == Kind::Listener {
            for waiting in std::mem::take(&mut e.backlog) {
                self.close(waiting);
            }
        } else if let (Kind::Stream, Some(peer)) = (e.kind, e.peer) {
            // As TCP does: unread data, or the wish for it, turns the end into a reset. A unix socket does not know that wish.
            let reset = e.linger_reset && !e.local.is_unix() || !e.rx.is_empty();
            let ended = e.tx_end;
            if reset {
                self.send_in_order(id, Event::Reset(peer));
            } else if !ended {
                self.send_in_order(id, Event::End(peer));
            }
        }
        if let Some(gone) = self.endpoints.remove(&id) {
            self.gone.insert(id, gone.arrival_ns);
        }
    }

    pub fn send_datagram(&mut self, id: EndpointId, bytes: &[u8], to: Option<SockAddr>) {
        let Some(e) = self.endpoints.get(&id) else { return };
        let from = e.local.clone();
        let to = to.unwrap_or_else(|| e.remote.clone());
        if self.fault(|c| c.datagram_loss_ppm) {
            return;
        }
        let key = from.to_string();
        self.addresses.insert(key.clone(), from);
        let target = self.endpoints.iter().find(|(_, e)| e.kind == Kind::Datagram && e.local == to);
        let Some((&target, _)) = target else { return };
        self.active = true;
        let copies = if self.fault(|c| c.datagram_twice_ppm) { 2 } else { 1 };
        for _ in 0..copies {
            let event = Event::Datagram(target, key.clone(), bytes.to_vec());
            if self.config.datagram_reorder {
                let at = self.now_ns + self.latency();
                self.schedule(at, event);
            } else {
                self.send_in_order(id, event);
            }
        }
    }

    /// When the next event is due.
    pub fn next_event(&self) -> Option<u64> {
        self.queue.peek().map(|Reverse((at, ..))| *at)
    }

    /// Moves the clock to `to_ns` and lets everything happen that is due by then.
    pub fn advance(&mut self, to_ns: u64) -> u32 {
        let mut happened = 0;
        self.wall_us += ((to_ns - self.now_ns) / 1000).cast_signed();
        self.now_ns = to_ns;
        while self.next_event().is_some_and(|at| at <= to_ns) {
            let Some(Reverse((at, _, event))) = self.queue.pop() else { break };
            self.note(at);
            happened += 1;
            self.counts.events += 1;
            self.write_event(&event);
            self.happen(event);
        }
        happened
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Request(client) => self.requested(client),
            Event::Answer(client, error) => {
                self.note(u64::from(client) << 8 | 1);
                if let Some(e) = self.endpoints.get_mut(&client) {
                    e.established = error == 0;
                    e.error = error;
                    self.ready.push((client, WRITABLE | if error == 0 { 0 } else { READABLE | FAILED }));
                } else if error == 0 {
                    // The client gave up meanwhile.
                    self.counts.connections -= 1;
                }
            }
            Event::Bytes(to, bytes) => {
                self.note(u64::from(to) << 32 | bytes.len() as u64);
                match self.endpoints.get_mut(&to) {
                    Some(e) if !e.rx_end => {
                        self.counts.bytes += bytes.len() as u64;
                        e.rx.extend(bytes);
                        self.ready.push((to, READABLE));
                    }
                    Some(_) => {}
                    None => self.answer_with_reset(to),
                }
            }
            Event::Room(to, n) => {
                if let Some(e) = self.endpoints.get_mut(&to) {
                    e.outstanding = e.outstanding.saturating_sub(n);
                    self.ready.push((to, WRITABLE));
                }
            }
            Event::End(to) => {
                self.note(u64::from(to) << 8 | 2);
                if let Some(e) = self.endpoints.get_mut(&to) {
                    e.rx_end = true;
                    self.ready.push((to, READABLE));
                }
            }
            Event::Reset(to) => {
                self.note(u64::from(to) << 8 | 3);
                if let Some(e) = self.endpoints.get_mut(&to) {
                    e.error = libc::ECONNRESET;
                    e.tx_end = true;
                    e.rx_end = true;
                    e.peer = None;
                    self.ready.push((to, READABLE | WRITABLE | FAILED));
                }
            }
            Event::Datagram(to, from, bytes) => {
                self.note(u64::from(to) << 32 | bytes.len() as u64 | 1 << 31);
                let Some(from) = self.addresses.get(&from).cloned() else { return };
                if let Some(e) = self.endpoints.get_mut(&to)
                    && e.datagrams.len() < DATAGRAMS_MAX
                {
                    e.datagrams.push_back((from, bytes));
                    self.ready.push((to, READABLE));
                }
            }
        }
    }

    /// Bytes arrived for an endpoint that is gone: whoever sent them is told.
    fn answer_with_reset(&mut self, gone: EndpointId) {
        let senders: Vec<EndpointId> =
            self.endpoints.iter().filter(|(_, e)| e.peer == Some(gone)).map(|(id, _)| *id).collect();
        for sender in senders {
            // It does not overtake what was sent before.
            let at =
                (self.now_ns + self.latency_from(sender)).max(self.gone.get(&gone).copied().unwrap_or(0));
            self.schedule(at, Event::Reset(sender));
        }
    }

    fn requested(&mut self, client: EndpointId) {
        let Some(c) = self.endpoints.get(&client) else { return };
        let (client_address, to) = (c.local.clone(), c.remote.clone());
        self.note(u64::from(client) << 8 | 4);
        let Some(listener) = self.listener_for(&to) else {
            let at = self.now_ns + self.latency_from(client);
            return self.schedule(at, Event::Answer(client, libc::ECONNREFUSED));
        };
        if self.endpoints.get(&listener).is_some_and(|l| l.backlog.len() >= l.backlog_max) {
            if self.is_local(client) {
                return self.schedule(self.now_ns, Event::Answer(client, libc::EAGAIN));
            }
            // As Linux does: the request is dropped, and sent again a second later.
            return self.schedule(self.now_ns + 1_000_000_000, Event::Request(client));
        }
        let server = self.add(Kind::Stream, to, client_address);
        if let Some(e) = self.endpoints.get_mut(&server) {
            e.peer = Some(client);
            e.established = true;
        }
        if let Some(e) = self.endpoints.get_mut(&client) {
            e.peer = Some(server);
        }
        if let Some(l) = self.endpoints.get_mut(&listener) {
            l.backlog.push_back(server);
        }
        self.counts.connections += 1;
        self.ready.push((listener, READABLE));
        self.send_in_order(server, Event::Answer(client, 0));
    }

    /// What exists and would have to be gone at the end of a run.
    pub fn leftovers(&self) -> Vec<String> {
        self.endpoints
            .values()
            .filter(|e| e.token.is_some())
            .map(|e| format!("{:?} {} -> {}", e.kind, e.local, e.remote))
            .collect()
    }
}
