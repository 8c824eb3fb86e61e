//! What is kept of each stream of a connection.

use std::collections::VecDeque;
use std::io;

use thalweg_h2::connection::Connection;
use thalweg_h2::error::ErrorCode;
use thalweg_h2::message::Message;
use thalweg_http::Head;
use thalweg_runtime::buffer::{Buf, default_size};
use thalweg_runtime::{Reason, TaskId, clock};

use super::{NoHead, OUTPUT_HIGH};
use crate::plant::bug;

/// How far this side's direction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// More is to come.
    No,
    /// The next payload is the last.
    Next,
    /// It ends behind what waits.
    Asked,
    /// The peer was told.
    Done,
}

/// Interim responses that wait to be forwarded, with the final one behind them.
const HEADS_MAX: usize = 8;

/// See the module's documentation.
pub struct Slot {
    pub id: u32,
    /// Received and not taken; bounded by the window.
    incoming: VecDeque<Buf>,
    /// The peer's direction ended.
    pub ended: bool,
    /// The peer gave the stream up, or the connection broke.
    pub reset: bool,
    /// For what the peer gave it up.
    pub reset_code: Option<u32>,
    /// The peer ended its direction of the connection.
    pub left: bool,
    pub trailers_in: Option<Box<Head>>,
    /// Heads of responses, interim ones in front.
    pub heads: VecDeque<(Box<Head>, Message)>,
    /// Why none will come.
    pub no_head: Option<NoHead>,
    /// Given to be sent, beyond what the windows allow.
    pub outgoing: Option<Buf>,
    /// Some of that stayed behind when the connection sent what it could.
    pub stalled: bool,
    pub trailers_out: Option<Box<Head>>,
    pub finish: Finish,
    /// The task that waits for input, and that for room.
    pub reader: TaskId,
    pub writer: TaskId,
    pub received_ms: u64,
    pub sent_ms: u64,
    /// What the peer is told if the stream is given up.
    pub code: Option<ErrorCode>,
    /// Its task is gone; only what waits is to be sent.
    pub dropped: bool,
}

impl Slot {
    pub fn new(id: u32, ended: bool) -> Slot {
        let now = clock::now_ms();
        Slot {
            id,
            incoming: VecDeque::new(),
            ended,
            reset: false,
            reset_code: None,
            left: false,
            trailers_in: None,
            heads: VecDeque::new(),
            no_head: None,
            outgoing: None,
            stalled: false,
            trailers_out: None,
            finish: Finish::No,
            reader: TaskId::NONE,
            writer: TaskId::NONE,
            received_ms: now,
            sent_ms: now,
            code: None,
            dropped: false,
        }
    }

    /// The head of a response came. Of interim ones that nobody took, only so many are kept.
    pub fn take_head(&mut self, head: Box<Head>, message: Message, ended: bool) {
        self.received_ms = clock::now_ms();
        self.ended = ended;
        if self.heads.len() >= HEADS_MAX {
            self.heads.pop_front();
        }
        self.heads.push_back((head, message));
        self.wake_reader();
    }

    /// Payload came.
    pub fn add(&mut self, mut data: &[u8]) {
        self.received_ms = clock::now_ms();
        while !data.is_empty() {
            let room = self.incoming.back().map_or(0, |last| last.spare());
            if room == 0 {
                // Outside of the limit on buffers if need be: how much may come is bounded by the window.
                let buf = Buf::with_capacity_default();
                self.incoming.push_back(buf.unwrap_or_else(|| Buf::large(data.len().min(default_size()))));
                continue;
            }
            let (part, rest) = data.split_at(room.min(data.len()));
            if let Some(last) = self.incoming.back_mut() {
                // It has this room.
                let _ = last.extend_from_slice(part);
            }
            data = rest;
        }
    }

    /// Takes payload, at most `max` bytes.
    pub fn take(&mut self, max: usize) -> Option<Buf> {
        let front = self.incoming.front_mut()?;
        if front.len() > max {
            return Some(front.split_to(max));
        }
        self.incoming.pop_front()
    }

    pub fn has_input(&self) -> bool {
        !self.incoming.is_empty()
    }

    /// Nothing arrives any more in either direction.
    pub fn cut(&mut self) {
        self.reset = true;
        self.outgoing = None;
        self.wake_reader();
        self.wake_writer();
    }

    /// Nobody takes or gives what waits.
    #[cold]
    fn let_go(&mut self) {
        (self.incoming, self.outgoing) = (VecDeque::new(), None);
    }

    pub fn wake_reader(&mut self) {
        std::mem::replace(&mut self.reader, TaskId::NONE).wake_local(Reason::IO);
    }

    pub fn wake_writer(&mut self) {
        std::mem::replace(&mut self.writer, TaskId::NONE).wake_local(Reason::IO);
    }

    /// Whether what waits is to be sent from where it lies, by the task of the connection.
    #[inline]
    pub fn leaves_apart(&self, h2: &mut Connection) -> bool {
        self.outgoing.as_ref().is_some_and(|buf| h2.leaves_apart(self.id, buf.len()))
    }

    /// Whether the message ends with the payload that waits.
    pub fn ends_behind_payload(&self) -> bool {
        ends_behind_payload(self.finish, self.trailers_out.as_deref())
    }

    /// Makes frames of what waits, as far as windows and the room for frames allow.
    pub fn push(&mut self, h2: &mut Connection) {
        while let Some(buf) = &mut self.outgoing {
            if h2.leaves_apart(self.id, buf.len()) || h2.output().len() >= OUTPUT_HIGH {
                return;
            }
            let room = h2.room(self.id);
            if room == 0 {
                return;
            }
            let n = room.min(buf.len());
            let ends = n == buf.len() && ends_behind_payload(self.finish, self.trailers_out.as_deref());
            if !h2.send_data(self.id, &buf[..n], ends) {
                // The stream is gone, which its reader is told.
                self.outgoing = None;
                return;
            }
            self.sent_ms = clock::now_ms();
            if ends {
                self.finish = Finish::Done;
            }
            buf.advance(n);
            if buf.is_empty() {
                self.outgoing = None;
            }
        }
        if self.finish == Finish::Asked {
            self.finish = Finish::Done;
            if bug("end-unsaid") {
                return;
            }
            match self.trailers_out.take() {
                Some(trailers) => h2.send_trailers(self.id, &trailers),
                None => h2.send_data(self.id, &[], true),
            };
        }
    }

    /// Whether something of it waits for a window, or for room.
    fn waits(&self) -> bool {
        self.outgoing.is_some() || self.writer != TaskId::NONE
    }
}

/// Slots that a connection keeps for its next streams while it has some.
const SPARE_MAX: usize = 128;
/// Of these, those that are kept for the next connection.
const SPARE_LENT: usize = 16;
/// Streams that the next connection has room for, at most.
const STREAMS_LENT: usize = 128;

#[inline]
fn ends_behind_payload(finish: Finish, trailers: Option<&Head>) -> bool {
    finish == Finish::Next || (finish == Finish::Asked && trailers.is_none())
}

/// All of a connection, by their numbers, which only grow.
#[derive(Default)]
pub struct Slots {
    // Boxed, so that forgetting one moves words and no slots. The oldest are mostly the first to go.
    sorted: VecDeque<Box<Slot>>,
    /// Used before, for others.
    #[allow(clippy::vec_box)]
    spare: Vec<Box<Slot>>,
    /// Those that have a task.
    held: u32,
    /// Whose turn it is to be the first.
    turn: u32,
}

impl Slots {
    #[inline]
    fn at(&self, id: u32) -> Option<usize> {
        // Where it is if all of those before it are there.
        let guess = (id.checked_sub(self.sorted.front()?.id)? / 2) as usize;
        if self.sorted.get(guess).is_some_and(|slot| slot.id == id) {
            return Some(guess);
        }
        self.sorted.binary_search_by_key(&id, |slot| slot.id).ok()
    }

    pub fn get(&self, id: u32) -> Option<&Slot> {
        self.at(id).map(|at| &*self.sorted[at])
    }

    pub fn get_mut(&mut self, id: u32) -> Option<&mut Slot> {
        self.at(id).map(|at| &mut *self.sorted[at])
    }

    /// Adds a stream whose number is larger than all before.
    pub fn add(&mut self, slot: Slot) {
        debug_assert!(self.sorted.back().is_none_or(|last| last.id < slot.id));
        self.held += 1;
        let boxed = match self.spare.pop() {
            Some(mut spare) => {
                *spare = slot;
                spare
            }
            None => Box::new(slot),
        };
        self.sorted.push_back(boxed);
    }

    /// The task of a stream is gone; what it left to be sent remains.
    pub fn leave(&mut self, id: u32) {
        if let Some(slot) = self.get_mut(id)
            && !slot.dropped
        {
            slot.dropped = true;
            (slot.reader, slot.writer) = (TaskId::NONE, TaskId::NONE);
            self.held -= 1;
        }
    }

    /// Forgets a stream that has no task.
    pub fn remove(&mut self, id: u32) {
        if let Some(mut slot) = self.at(id).and_then(|at| self.sorted.remove(at)) {
            debug_assert!(slot.dropped, "a stream is forgotten once its task is gone");
            if slot.has_input() || slot.outgoing.is_some() {
                slot.let_go();
            }
            if self.spare.len() < SPARE_MAX {
                self.spare.push(slot);
            }
        }
    }

    /// Streams that have a task.
    pub fn held(&self) -> usize {
        self.held as usize
    }

    /// The memory of a connection without streams, for one that will have some. More than most need is given to the allocator.
    pub fn give_back(&mut self) -> Slots {
        debug_assert!(self.sorted.is_empty());
        let mut slots = std::mem::take(self);
        if slots.spare.len() > SPARE_LENT {
            slots.spare.truncate(SPARE_LENT);
        }
        if slots.sorted.capacity() > STREAMS_LENT || slots.spare.capacity() > STREAMS_LENT {
            (slots.sorted, slots.spare) = (VecDeque::new(), Vec::new());
        }
        slots
    }

    /// What another connection gave back, unless it has memory of its own.
    pub fn lend(&mut self, slots: Slots) {
        if self.sorted.capacity() == 0 && self.spare.capacity() == 0 {
            // It has nothing that would have to be dropped.
            std::mem::forget(std::mem::replace(self, slots));
        }
    }

    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Slot> {
        self.sorted.iter_mut().map(|slot| &mut **slot)
    }

    /// Lets all that wait go on as far as they can, each time from another one on: `apart` sends from where it lies, behind the
    /// output, and says whether more may be sent then. Whether something waits still.
    pub fn push_all(
        &mut self,
        h2: &mut Connection,
        apart: &mut dyn FnMut(&mut Connection, &mut Slot) -> io::Result<bool>,
    ) -> io::Result<bool> {
        let count = self.sorted.len();
        self.turn = self.turn.wrapping_add(1);
        let turn = self.turn as usize;
        let mut waits = false;
        let mut takes_more = true;
        for n in 0..count {
            let slot = &mut self.sorted[(turn + n) % count];
            if !slot.waits() {
                continue;
            }
            slot.push(h2);
            while takes_more && slot.leaves_apart(h2) {
                takes_more = apart(h2, slot)?;
                slot.push(h2);
            }
            slot.stalled |= slot.outgoing.is_some();
            if slot.outgoing.is_none() && h2.output().len() < OUTPUT_HIGH {
                slot.wake_writer();
            }
            waits |= slot.waits();
        }
        // Those whose tasks are gone are forgotten when they said everything.
        self.sorted.retain(|slot| {
            let over = slot.dropped && (slot.reset || slot.finish == Finish::Done);
            if over {
                h2.reset(slot.id, ErrorCode::NoError);
            }
            !over
        });
        Ok(waits)
    }
}
