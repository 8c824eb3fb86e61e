//! A `peers` section: its tables, its peers, and who learns from whom.

use std::sync::Arc;

use xxhash_rust::xxh64::xxh64;

use super::entry::{Definition, Incoming, put_definition, put_entry};
use super::hello::{Hello, Status};
use super::log::Log;
use super::session::{Broken, Lesson, Session};
use super::wire::{self, Control, Input, MESSAGE_MAX, Message, Parsed};
use crate::table::Table;

/// Who has nothing to say says so after so many milliseconds.
const HEARTBEAT_MS: u64 = 3000;
/// Who was not heard of for so many milliseconds is gone.
const SILENCE_MS: u64 = 5000;
/// How long a predecessor is waited for, and then somebody to ask, in milliseconds.
const LEARN_MS: u64 = 5000;
/// Bytes that are written in a row at most, but for the last message.
const SEND_MAX: usize = 16_384;
/// Entries of a table that are looked at in a row when all are taught: some numbers may have none.
const TEACH_LOOKS: u32 = 4096;

/// A peer as it is declared.
#[derive(Clone, Debug)]
pub struct PeerSpec {
    /// Its name.
    pub name: Arc<str>,
    /// Where it is, for people.
    pub address: String,
    /// The share of the keys that it gets; 0: all.
    pub shard: u32,
}

/// A table of a section.
pub struct TableSpec {
    /// Which.
    pub table: Arc<Table>,
    /// What peers call it.
    pub name: Arc<str>,
    /// The one that gets what peers say of servers and tags, too.
    pub write_to: Option<Arc<Table>>,
}

/// A section as it is declared.
pub struct SectionSpec {
    /// Its name.
    pub name: Arc<str>,
    /// All peers, this process among them.
    pub peers: Vec<PeerSpec>,
    /// Which of the peers this process is.
    pub local: usize,
    /// Its tables.
    pub tables: Vec<TableSpec>,
    /// Shares that keys are divided into; 0: none.
    pub shards: u32,
    /// Entries that are sent in a row at most (`tune.peers.max-updates-at-once`).
    pub updates_max: usize,
}

/// Where this process learns what was there before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learning {
    /// It waits for the process that was here before.
    Predecessor {
        /// Until then, in milliseconds.
        until_ms: u64,
    },
    /// It waits for a peer to ask.
    Anyone {
        /// Until then.
        until_ms: u64,
    },
    /// It is being taught.
    From {
        /// On this connection.
        link: Link,
        /// Something has to come until then.
        until_ms: u64,
    },
    /// It knows what there is to know; or nobody told.
    Done,
}

/// A connection to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Which peer.
    pub peer: usize,
    number: u64,
}

/// What is said of the last attempt to talk to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Last {
    None,
    Connecting,
    Unreachable,
    Established,
    Refused(u16),
    Closed,
}

/// A peer and what was said to it so far.
pub struct Peer {
    /// What it is.
    pub spec: PeerSpec,
    pub(crate) session: Option<Session>,
    /// By table, the last change that it acknowledged.
    pub(crate) acknowledged: Vec<u32>,
    /// It said that it does not know everything.
    pub(crate) is_partial: bool,
    pub(crate) last: Last,
    pub(crate) last_hello_ms: Option<u64>,
    /// When it is connected to again, for people.
    pub reconnect_ms: Option<u64>,
    pub(crate) connections: u64,
    pub(crate) collisions: u64,
    pub(crate) violations: u64,
    pub(crate) heartbeats_sent: u64,
    pub(crate) heartbeats_heard: u64,
    pub(crate) silences: u64,
    pub(crate) confirmations: u64,
}

/// A table and in which order its entries changed.
pub(crate) struct Shared {
    pub table: Arc<Table>,
    pub name: Arc<str>,
    pub log: Log,
    pub write_to: Option<Arc<Table>>,
    /// Entries that were sent or learnt.
    pub updates: u64,
    shard_seed: u64,
}

/// See the module.
pub struct Section {
    pub(crate) name: Arc<str>,
    pub(crate) peers: Vec<Peer>,
    pub(crate) local: usize,
    pub(crate) tables: Vec<Shared>,
    shards: u32,
    updates_max: usize,
    pub(crate) learning: Learning,
    next_link: u64,
    incoming: Incoming,
    scratch: Vec<u8>,
}

impl Section {
    /// A section whose process begins now.
    pub fn new(spec: SectionSpec, now_ms: u64) -> Section {
        let count = spec.tables.len();
        let peer = |spec: PeerSpec| Peer {
            spec,
            session: None,
            acknowledged: vec![0; count],
            is_partial: false,
            last: Last::None,
            last_hello_ms: None,
            reconnect_ms: None,
            connections: 0,
            collisions: 0,
            violations: 0,
            heartbeats_sent: 0,
            heartbeats_heard: 0,
            silences: 0,
            confirmations: 0,
        };
        let shared = |spec: TableSpec| Shared {
            shard_seed: xxh64(spec.table.spec().name.as_bytes(), 0),
            table: spec.table,
            name: spec.name,
            log: Log::default(),
            write_to: spec.write_to,
            updates: 0,
        };
        Section {
            name: spec.name,
            peers: spec.peers.into_iter().map(peer).collect(),
            local: spec.local,
            tables: spec.tables.into_iter().map(shared).collect(),
            shards: spec.shards,
            updates_max: spec.updates_max.max(1),
            learning: Learning::Anyone { until_ms: now_ms + LEARN_MS },
            next_link: 0,
            incoming: Incoming::default(),
            scratch: Vec::new(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Its peers, this process among them.
    pub fn peers(&mut self) -> &mut [Peer] {
        &mut self.peers
    }

    /// Which of the peers this process is.
    pub fn local(&self) -> usize {
        self.local
    }

    /// Whether a peer is connected.
    pub fn is_connected(&self, peer: usize) -> bool {
        self.peers[peer].session.is_some()
    }

    /// The process that was here before is about to teach this one.
    pub fn expect_predecessor(&mut self, now_ms: u64) {
        self.learning = Learning::Predecessor { until_ms: now_ms + LEARN_MS };
    }

    /// Peers that are connected to or are being connected to, and those that are.
    pub fn counts(&self) -> (usize, usize) {
        let connected = self.peers.iter().filter(|peer| peer.session.is_some()).count();
        let connecting =
            self.peers.iter().filter(|peer| peer.session.is_none() && peer.last == Last::Connecting);
        (connected + connecting.count(), connected)
    }

    /// A peer could not be reached.
    pub fn unreachable(&mut self, peer: usize) {
        if self.peers[peer].last == Last::Connecting {
            self.peers[peer].last = Last::Unreachable;
        }
    }

    /// How far it is with learning.
    pub fn learning(&self, now_ms: u64) -> Learning {
        match self.learning {
            Learning::Predecessor { until_ms } if now_ms >= until_ms => {
                Learning::Anyone { until_ms: until_ms + LEARN_MS }
            }
            other => other,
        }
    }

    /// The number of the last change of a table of this section by this process.
    pub fn local_updates(&self, table: &Table) -> Option<u32> {
        let shared = self.tables.iter().find(|shared| std::ptr::eq::<Table>(&*shared.table, table))?;
        Some(shared.log.last())
    }

    /// The share that a key is in, from 1; 0 when there are none.
    pub fn shard_of(&self, table: &Table, key: &[u8]) -> u32 {
        let shared = self.tables.iter().find(|shared| std::ptr::eq::<Table>(&*shared.table, table));
        shared.map_or(0, |shared| shard(shared.shard_seed, self.shards, key))
    }

    #[cfg(all(test, not(loom)))]
    pub(crate) fn set_shards(&mut self, shards: u32) {
        self.shards = shards;
    }

    /// Notes which entries changed. True when some did.
    pub fn collect(&mut self) -> bool {
        let mut any = false;
        for shared in &mut self.tables {
            let log = &mut shared.log;
            let before = log.last();
            shared.table.take_changed(|entry| log.note(entry));
            any |= log.last() != before;
        }
        any
    }

    // ---- connections ----------------------------------------------------------------------------

    /// Somebody who connected says hello.
    ///
    /// # Errors
    /// When it is not welcome.
    pub fn accept(&mut self, hello: &Hello, now_ms: u64) -> Result<Link, Status> {
        if *hello.to != *self.peers[self.local].spec.name {
            return Err(Status::NotMe);
        }
        let peer = self.peers.iter().position(|peer| *peer.spec.name == *hello.from);
        let link = self.open(peer.ok_or(Status::Unknown)?, hello.minor, now_ms);
        if link.peer == self.local {
            // Nobody else has this name: it is the process that was here before, and it is here to teach.
            self.learning = Learning::From { link, until_ms: now_ms + LEARN_MS };
        }
        Ok(link)
    }

    /// This process connects to a peer.
    pub fn connecting(&mut self, peer: usize) {
        self.peers[peer].last = Last::Connecting;
        self.peers[peer].connections += 1;
    }

    /// A peer did not want to talk.
    pub fn refused(&mut self, peer: usize, status: u16) {
        self.peers[peer].last = Last::Refused(status);
    }

    /// A peer answered the hello of this process.
    pub fn opened(&mut self, peer: usize, now_ms: u64) -> Link {
        let link = self.open(peer, 1, now_ms);
        if peer == self.local
            && let Some(session) = &mut self.peers[peer].session
        {
            // The process that comes after this one: it is told everything.
            session.lesson = Some(Lesson::default());
        }
        link
    }

    fn open(&mut self, at: usize, minor: u32, now_ms: u64) -> Link {
        self.next_link += 1;
        let link = Link { peer: at, number: self.next_link };
        let peer = &mut self.peers[at];
        if peer.session.is_some() {
            peer.collisions += 1;
            self.lost(at, now_ms);
        }
        let peer = &mut self.peers[at];
        peer.last = Last::Established;
        peer.last_hello_ms = Some(now_ms);
        let mut session = Session::new(link.number, minor, self.tables.len(), now_ms);
        for (seen, acknowledged) in session.seen.iter_mut().zip(&peer.acknowledged) {
            seen.pushed = *acknowledged;
        }
        // Who asks to be taught asks one peer. A share is known to its owner alone, and the peer may have come back without memory.
        if at != self.local && self.tables.iter().any(|shared| shared.table.spec().fleet) {
            session.lesson = Some(Lesson { of_shares: true, ..Lesson::default() });
        }
        peer.session = Some(session);
        link
    }

    /// The connection to a peer is over: whoever taught does not go on.
    fn lost(&mut self, peer: usize, now_ms: u64) {
        let until_ms = now_ms + LEARN_MS;
        if matches!(self.learning, Learning::From { link, .. } if link.peer == peer) {
            self.learning = match peer == self.local {
                true => Learning::Predecessor { until_ms },
                false => Learning::Anyone { until_ms },
            };
        }
        self.peers[peer].session = None;
    }

    /// A connection was closed.
    pub fn closed(&mut self, link: Link, why: Option<Broken>, now_ms: u64) {
        let peer = &mut self.peers[link.peer];
        match why {
            Some(Broken::Protocol | Broken::TooLong) => peer.violations += 1,
            Some(Broken::Silent) => peer.silences += 1,
            _ => {}
        }
        if peer.session.as_ref().is_some_and(|session| session.number == link.number) {
            peer.last = Last::Closed;
            self.lost(link.peer, now_ms);
        }
    }

    fn session(&mut self, link: Link) -> Result<&mut Session, Broken> {
        let session = self.peers[link.peer].session.as_mut();
        session.filter(|session| session.number == link.number).ok_or(Broken::Replaced)
    }

    /// Whether the process that comes next was taught everything and said that it noticed.
    pub fn has_taught(&self, link: Link) -> bool {
        let session = self.peers[link.peer].session.as_ref();
        session.is_some_and(|session| session.number == link.number && session.taught && session.confirmed)
    }

    /// When something is to be done on a connection although nothing happens, in milliseconds.
    pub fn deadline_ms(&self, link: Link) -> u64 {
        let Some(session) = &self.peers[link.peer].session else { return 0 };
        let learning = match self.learning {
            Learning::Predecessor { until_ms }
            | Learning::Anyone { until_ms }
            | Learning::From { until_ms, .. } => until_ms,
            Learning::Done => u64::MAX,
        };
        let alive = match session.minor {
            0 => u64::MAX,
            _ => (session.sent_ms + HEARTBEAT_MS).min(session.heard_ms + SILENCE_MS),
        };
        learning.min(alive)
    }

    // ---- receiving ------------------------------------------------------------------------------

    /// Takes what a peer sent, and returns how many bytes that was: the rest is the beginning of a message.
    ///
    /// # Errors
    /// When the connection is over.
    pub fn receive(&mut self, link: Link, bytes: &[u8], now_ms: u64) -> Result<usize, Broken> {
        let mut taken = 0;
        loop {
            match wire::parse(&bytes[taken..]) {
                Parsed::Message(message, len) => {
                    self.session(link)?.heard_ms = now_ms;
                    self.take(link, message, now_ms)?;
                    taken += len;
                }
                Parsed::Partial => return Ok(taken),
                Parsed::TooLong => return Err(Broken::TooLong),
                Parsed::Malformed => return Err(Broken::Protocol),
            }
        }
    }

    fn take(&mut self, link: Link, message: Message, now_ms: u64) -> Result<(), Broken> {
        match message {
            Message::Control(control) => self.take_control(link, control, now_ms)?,
            Message::Error => return Err(Broken::Complained),
            Message::Update { numbered, timed, body } => {
                self.take_update(link, numbered, timed, body, now_ms)?;
                if let Learning::From { link: teacher, until_ms } = &mut self.learning
                    && *teacher == link
                {
                    *until_ms = now_ms + LEARN_MS;
                }
            }
            Message::Definition(body) => {
                let definition = Definition::read(body).ok_or(Broken::Protocol)?;
                let own = self.tables.iter().position(|shared| *shared.name.as_bytes() == *definition.name);
                // One that is not known here, or has other keys, is passed over with its entries.
                let own = own.filter(|own| definition.fits(&self.tables[*own].table));
                self.session(link)?.define(definition, own);
            }
            Message::Switch(body) => {
                let number = Input(body).number().ok_or(Broken::Protocol)?;
                let session = self.session(link)?;
                if !session.switch(number) && session.current.is_none() {
                    return Err(Broken::Protocol);
                }
            }
            Message::Acknowledgement(body) => {
                let mut input = Input(body);
                let (Some(table), Some(number)) = (input.number(), input.word()) else {
                    return Err(Broken::Protocol);
                };
                let at = usize::try_from(table).ok().and_then(|table| table.checked_sub(1));
                let Some(at) = at.filter(|at| *at < self.tables.len()) else { return Ok(()) };
                let pushed = self.session(link)?.seen[at].pushed;
                let known = &mut self.peers[link.peer].acknowledged[at];
                // Only what was sent and not acknowledged yet can be: anything else is not believed.
                if number.wrapping_sub(*known) <= pushed.wrapping_sub(*known) {
                    *known = number;
                }
            }
            Message::Unknown => {}
        }
        Ok(())
    }

    fn take_control(&mut self, link: Link, control: Control, now_ms: u64) -> Result<(), Broken> {
        let is_local = link.peer == self.local;
        let is_teacher = matches!(self.learning, Learning::From { link: teacher, .. } if teacher == link);
        let session = self.session(link)?;
        match control {
            Control::Teach => {
                session.lesson = Some(Lesson::default());
                (session.taught, session.confirmed) = (false, false);
            }
            Control::Finished => {
                session.owes_confirmation = true;
                if is_teacher {
                    self.learning = Learning::Done;
                }
            }
            Control::Partial => {
                session.owes_confirmation = true;
                if is_teacher {
                    let until_ms = now_ms + LEARN_MS;
                    self.peers[link.peer].is_partial = true;
                    self.learning = match is_local {
                        true => Learning::Predecessor { until_ms },
                        false => Learning::Anyone { until_ms },
                    };
                }
            }
            Control::Confirmed => {
                session.confirmed = session.taught;
                self.peers[link.peer].confirmations += 1;
            }
            Control::Heartbeat => self.peers[link.peer].heartbeats_heard += 1,
        }
        Ok(())
    }

    fn take_update(
        &mut self,
        link: Link,
        numbered: bool,
        timed: bool,
        body: &[u8],
        now_ms: u64,
    ) -> Result<(), Broken> {
        let mut incoming = std::mem::take(&mut self.incoming);
        let session = self.session(link)?;
        let (definition, own) = session.current.as_ref().ok_or(Broken::Protocol)?;
        let mut input = Input(body);
        let number = match numbered {
            true => Some(input.word().ok_or(Broken::Protocol)?),
            false => None,
        };
        let left_ms = match timed {
            true => Some(input.word().ok_or(Broken::Protocol)?),
            false => None,
        };
        let read = incoming.read(input.0, definition, &mut session.heard);
        // The names of an entry that is not for this process are remembered: they may come again without their text.
        let Some(own) = *own else { return Ok(()) };
        read.ok_or(Broken::Protocol)?;
        let seen = &mut session.seen[own];
        (seen.got, seen.owes) = (number.unwrap_or(seen.got.wrapping_add(1)), true);
        let shared = &mut self.tables[own];
        shared.updates += 1;
        // What another process counted is kept apart in a fleet; the one that was here before this one counted for it.
        let share = match link.peer == self.local || !shared.table.spec().fleet {
            true => Some(&*shared.table),
            false => shared.table.share_of(&self.peers[link.peer].spec.name),
        };
        if let Some(table) = share {
            // Where there is no room, there is none.
            let _ = incoming.store(table, shared.write_to.as_deref(), left_ms, now_ms);
        }
        self.incoming = incoming;
        Ok(())
    }

    // ---- sending --------------------------------------------------------------------------------

    /// Writes what is to be sent now, about [`SEND_MAX`] bytes at most. True when there is more to do at once.
    ///
    /// # Errors
    /// When the connection is over.
    pub fn send(&mut self, link: Link, out: &mut Vec<u8>, now_ms: u64) -> Result<bool, Broken> {
        let before = out.len();
        self.settle_learning(now_ms);
        let asks = matches!(self.learning, Learning::Anyone { .. })
            && link.peer != self.local
            && !self.peers[link.peer].is_partial;
        let session = self.session(link)?;
        if session.minor > 0 && now_ms >= session.heard_ms + SILENCE_MS {
            return Err(Broken::Silent);
        }
        if std::mem::take(&mut session.owes_confirmation) {
            wire::put_control(out, Control::Confirmed);
        }
        for seen in session.seen.iter_mut().filter(|seen| seen.owes) {
            seen.owes = false;
            seen.acknowledged = seen.got;
            if let Some(remote) = seen.remote {
                wire::put_acknowledgement(out, remote, seen.got);
            }
        }
        if asks {
            wire::put_control(out, Control::Teach);
            self.learning = Learning::From { link, until_ms: now_ms + LEARN_MS };
        }
        let mut left = self.updates_max;
        let all = self.teach(link, out, &mut left, now_ms) && self.push(link, out, &mut left, now_ms);
        let session = self.session(link)?;
        if out.len() > before {
            session.sent_ms = now_ms;
        } else if session.minor > 0 && now_ms >= session.sent_ms + HEARTBEAT_MS {
            wire::put_control(out, Control::Heartbeat);
            session.sent_ms = now_ms;
            self.peers[link.peer].heartbeats_sent += 1;
        }
        Ok(!all)
    }

    fn settle_learning(&mut self, now_ms: u64) {
        let until_ms = now_ms + LEARN_MS;
        match self.learning {
            Learning::Predecessor { until_ms: end } if now_ms >= end => {
                self.learning = Learning::Anyone { until_ms };
            }
            Learning::Anyone { until_ms: end } if now_ms >= end => self.learning = Learning::Done,
            Learning::From { link, until_ms: end } if now_ms >= end => {
                // It said that it would, and does not: somebody else may.
                self.peers[link.peer].is_partial = true;
                self.learning = match link.peer == self.local {
                    true => Learning::Predecessor { until_ms },
                    false => Learning::Anyone { until_ms },
                };
            }
            _ => {}
        }
    }

    /// Goes on with a lesson: every entry of every table, wherever it came from. True when nothing of it is left.
    fn teach(&mut self, link: Link, out: &mut Vec<u8>, left: &mut usize, now_ms: u64) -> bool {
        let knows_all = self.learning == Learning::Done;
        let is_local = link.peer == self.local;
        let peer = &mut self.peers[link.peer];
        let wanted = if is_local { 0 } else { peer.spec.shard };
        let Some(session) = &mut peer.session else { return true };
        let Some(Lesson { mut table, mut entry, of_shares }) = session.lesson else { return true };
        let mut looks = TEACH_LOOKS;
        while let Some(shared) = self.tables.get_mut(table) {
            if of_shares && !shared.table.spec().fleet {
                table += 1;
                continue;
            }
            if entry == 0 {
                // What changes from here on is sent afterwards.
                session.seen[table].pushed = shared.log.last();
            }
            while entry < shared.table.numbers() {
                if *left == 0 || looks == 0 || out.len() >= SEND_MAX {
                    session.lesson = Some(Lesson { table, entry, of_shares });
                    return false;
                }
                looks -= 1;
                let number = session.seen[table].pushed;
                if put(
                    shared,
                    table,
                    session,
                    out,
                    &mut self.scratch,
                    (number, entry),
                    (self.shards, wanted),
                    true,
                    now_ms,
                ) {
                    *left -= 1;
                }
                entry += 1;
            }
            (table, entry) = (table + 1, 0);
        }
        session.lesson = None;
        if !of_shares {
            wire::put_control(out, if knows_all { Control::Finished } else { Control::Partial });
            session.taught = true;
        }
        true
    }

    /// Sends what changed, in this order. True when that was all.
    fn push(&mut self, link: Link, out: &mut Vec<u8>, left: &mut usize, now_ms: u64) -> bool {
        let peer = &mut self.peers[link.peer];
        let wanted = if link.peer == self.local { 0 } else { peer.spec.shard };
        let Some(session) = &mut peer.session else { return true };
        for (table, shared) in self.tables.iter_mut().enumerate() {
            let mut pushed = session.seen[table].pushed;
            if pushed == shared.log.last() {
                continue;
            }
            // Taken out for as long as it is gone through.
            let log = std::mem::take(&mut shared.log);
            let mut all = true;
            for (number, entry) in log.after(pushed) {
                if *left == 0 || out.len() >= SEND_MAX {
                    all = false;
                    break;
                }
                if put(
                    shared,
                    table,
                    session,
                    out,
                    &mut self.scratch,
                    (number, entry),
                    (self.shards, wanted),
                    false,
                    now_ms,
                ) {
                    *left -= 1;
                }
                pushed = number;
            }
            shared.log = log;
            session.seen[table].pushed = if all { shared.log.last() } else { pushed };
            if !all {
                return false;
            }
        }
        true
    }
}

pub(crate) fn shard(seed: u64, shards: u32, key: &[u8]) -> u32 {
    if shards == 0 { 0 } else { (xxh64(key, seed) % u64::from(shards)) as u32 + 1 }
}

/// Writes an entry, behind the definition of its table if that was not the last one. False when there is nothing to write.
#[allow(clippy::too_many_arguments, reason = "parts of one section that are borrowed apart")]
fn put(
    shared: &mut Shared,
    at: usize,
    session: &mut Session,
    out: &mut Vec<u8>,
    scratch: &mut Vec<u8>,
    (number, entry): (u32, u32),
    (shards, wanted): (u32, u32),
    timed: bool,
    now_ms: u64,
) -> bool {
    let Some(entry) = shared.table.entry_at(entry) else { return false };
    let values = entry.values();
    if wanted != 0 && shards != 0 {
        let (mut buf, mut long) = ([0; 64], Vec::new());
        if shard(shared.shard_seed, shards, values.key_bytes(&mut buf, &mut long)) != wanted {
            return false;
        }
    }
    // Peers of before take no deadlines.
    let timed = timed && session.minor > 0;
    if session.defined != Some(at) {
        scratch.clear();
        put_definition(scratch, at as u32 + 1, &shared.name, &shared.table);
        wire::put_definition(out, scratch);
        session.defined = Some(at);
    }
    scratch.clear();
    scratch.extend(number.to_be_bytes());
    if timed {
        scratch.extend(values.expires_in(now_ms).to_be_bytes());
    }
    put_entry(scratch, &shared.table, values, &mut session.told, now_ms);
    // The peer would close the connection, again and again.
    if scratch.len() + 8 > MESSAGE_MAX {
        return false;
    }
    wire::put_update(out, timed, scratch);
    shared.updates += 1;
    true
}
