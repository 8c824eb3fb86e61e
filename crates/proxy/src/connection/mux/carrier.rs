//! The end of a multiplexed connection that its own task has: the transport, and what is received from and sent to it.

use std::io;
use std::rc::Rc;
use std::task::Poll;

use thalweg_h2::connection::{Config, Connection, Event, Failure, Handler, Role};
use thalweg_h2::error::ErrorCode;
use thalweg_h2::frame::Header;
use thalweg_h2::message::{Malformed, Message};
use thalweg_http::Head;
use thalweg_runtime::buffer::{BULK_SIZE, Buf};
use thalweg_runtime::{Reason, clock, current_task, timer};

use super::slot::{Slot, Slots};
use super::{Marks, Mux, NoHead, OUTPUT_HIGH, State, Unsettled, Wish, direct, store};
use crate::connection::port::Port;
use crate::connection::transport::Detached;
use crate::plant::bug;
use crate::traces::{Frames, Way};

/// Octets that are received before other tasks get their turn.
const TURN_MAX: usize = 512 * 1024;

/// Room for frames that a connection without streams keeps.
const OUTPUT_KEPT: usize = 4096;

/// A request that came.
pub enum Opened<'a> {
    /// Its stream exists. The head may be swapped for another one.
    #[allow(missing_docs)]
    Request { id: u32, head: &'a mut Head, message: Message, ends: bool },
    /// It is none, which is answered: its stream exists.
    Bad(u32),
    /// It is not even that; its stream was reset.
    Malformed(Malformed),
}

/// Why nothing more comes.
#[derive(Debug)]
pub enum Step {
    /// The peer ended what it sends.
    Closed,
    /// The connection broke.
    Broken(io::Error),
    /// The peer does not keep to the protocol. What it is told of that waits to be sent.
    Failed(Failure),
    /// A stream wants the connection to disappear.
    Vanish,
    /// A stream wants the connection to end, of which the peer was told.
    Kicked,
}

/// A connection without streams between two threads.
pub struct Moving {
    role: Role,
    h2: Box<Connection>,
    wire: Detached,
    /// Received and not handled: the beginning of a frame.
    input: Vec<u8>,
    /// The peer's settings came.
    settled: bool,
    heard_ms: u64,
}

/// See the module's documentation.
pub struct Carrier {
    pub port: Port,
    pub mux: Rc<Mux>,
    /// What is told of its frames.
    pub frames: Frames,
}

impl Carrier {
    /// Speaks the protocol on a connection on which nothing was exchanged yet, but for what is in the port.
    pub fn new(port: Port, role: Role, config: Config) -> Carrier {
        let mux = Mux::new(role, config, &port.line);
        Carrier { port, mux, frames: Frames::default() }
    }

    /// Stops what of a quiet connection is bound to this thread, behind what waits to be sent. False: it broke.
    pub fn poll_detach(&mut self) -> Poll<bool> {
        if self.flush().is_err() {
            return Poll::Ready(false);
        }
        let Some(wire) = self.port.line.wire_mut() else { return Poll::Ready(false) };
        wire.poll_detach().map(|()| true)
    }

    /// Takes a quiet connection that was [detached](Carrier::poll_detach) off its thread. `None`, and it is closed, when somebody
    /// has a place on it, or nobody should get one.
    pub fn into_moving(self) -> Option<Moving> {
        let Carrier { port, mux, .. } = self;
        if port.eof || mux.is_spent() {
            return None;
        }
        let State { role, h2, slots, heard_ms, settled, .. } = Rc::into_inner(mux)?.state.into_inner();
        let input = port.received().to_vec();
        let wire = port.line.into_wire()?.into_detached()?;
        slots.is_empty().then(|| Moving { role, h2: Box::new(h2), wire, input, settled, heard_ms })
    }

    /// The connection, of the calling task from here on.
    ///
    /// # Errors
    /// When the thread's driver does not take its socket.
    pub fn resume(moving: Moving) -> io::Result<Carrier> {
        let Moving { role, h2, wire, input, settled, heard_ms } = moving;
        let (transport, ahead) = wire.attach()?;
        let mut port = Port::new(transport);
        port.input = (!input.is_empty()).then(|| Buf::copy_of(&input));
        if let Some(ahead) = ahead {
            port.append(ahead).map_err(|_| io::ErrorKind::OutOfMemory)?;
        }
        let mux = Mux::with_state(role, *h2, &port.line);
        {
            let mut state = mux.state.borrow_mut();
            state.heard_ms = heard_ms;
            state.settled = settled;
        }
        Ok(Carrier { port, mux, frames: Frames::default() })
    }

    /// The calling task is the connection's from here on.
    pub fn adopt(&self) {
        self.mux.task.set(current_task());
    }

    /// Receives and sends what it can. Ready when nothing more comes; requests are given to `opened`, which must leave the
    /// connection alone.
    pub fn poll(&mut self, opened: &mut dyn FnMut(Opened<'_>)) -> Poll<Step> {
        if let Some(step) = self.obey() {
            return Poll::Ready(step);
        }
        // What was received together with the preface.
        let mut received = self.port.has_input();
        let mut taken = 0;
        loop {
            if std::mem::take(&mut received)
                && let Err(failure) = self.receive(opened)
            {
                return Poll::Ready(Step::Failed(failure));
            }
            // The peer may allow more requests than before, or have ended some.
            self.mux.tell_room();
            if let Err(error) = self.flush() {
                return Poll::Ready(Step::Broken(error));
            }
            // A peer that does not read is not read from.
            if self.port.eof || self.mux.state.borrow_mut().h2.output().len() >= OUTPUT_HIGH {
                return Poll::Pending;
            }
            let rests_until = self.mux.state.borrow().h2.rests_until(clock::now_ms());
            if let Some(at) = rests_until {
                timer::want(at);
                return Poll::Pending;
            }
            let paused = self.port.has_input() && self.mux.state.borrow().h2.is_paused();
            if taken > TURN_MAX || paused {
                current_task().wake(Reason::YIELD);
                return Poll::Pending;
            }
            let polled = self.port.line.poll_recv(BULK_SIZE);
            if self.mux.is_early() && !self.port.line.is_early() {
                self.mux.is_early.set(false);
                self.wake_all();
            }
            match polled {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Step::Broken(error)),
                Poll::Ready(Ok(buf)) if buf.is_empty() => {
                    self.port.eof = true;
                    return Poll::Ready(Step::Closed);
                }
                Poll::Ready(Ok(buf)) => {
                    taken += buf.len();
                    self.mux.state.borrow_mut().heard_ms = clock::now_ms();
                    received = true;
                    if self.port.append(buf).is_err() {
                        return Poll::Ready(Step::Broken(io::ErrorKind::OutOfMemory.into()));
                    }
                }
            }
        }
    }

    /// What streams asked of the connection.
    fn obey(&mut self) -> Option<Step> {
        let mut state = self.mux.state.borrow_mut();
        let Marks { mark, tos } = std::mem::take(&mut state.marks);
        if let Some(mark) = mark {
            self.port.line.set_mark(mark);
        }
        if let Some(tos) = tos {
            self.port.line.set_tos(tos);
        }
        match state.wish {
            Wish::Go => None,
            Wish::Vanish(ttl) => {
                self.port.line.vanish(ttl);
                Some(Step::Vanish)
            }
            Wish::Kick => Some(Step::Kicked),
        }
    }

    /// Hands what was received to the protocol.
    fn receive(&mut self, opened: &mut dyn FnMut(Opened<'_>)) -> Result<(), Failure> {
        let Some(mut input) = self.port.input.take() else { return Ok(()) };
        let mut state = self.mux.state.borrow_mut();
        store::lend(&mut state);
        let State { role, h2, slots, waiting, pong, retired, settled, unsettled, .. } = &mut *state;
        let to = &mut Receiver { role: *role, slots, waiting, pong, retired, settled, unsettled };
        let mut after = After::default();
        let mut listener = Listener { to, after: &mut after, opened, frames: &mut self.frames };
        let used = h2.receive(&input, clock::now_ms(), &mut listener);
        for id in after.refused {
            h2.reset(id, ErrorCode::ProtocolError);
        }
        for (id, octets) in after.unwanted {
            h2.consumed(id, octets);
        }
        input.advance(used?);
        // The beginning of a frame may wait for long.
        self.port.input = Some(input).filter(|rest| !rest.is_empty()).map(Buf::fitted);
        Ok(())
    }

    /// Sends what waits, in as few calls as it takes.
    pub fn flush(&mut self) -> io::Result<()> {
        let mut state = self.mux.state.borrow_mut();
        loop {
            if state.h2.output().is_empty() && !state.waiting {
                return Ok(());
            }
            match self.port.line.poll_send_ready() {
                Poll::Pending => return Ok(()),
                Poll::Ready(ready) => ready?,
            }
            let State { h2, slots, waiting, .. } = &mut *state;
            if *waiting {
                let Carrier { port, frames, .. } = self;
                let mut takes_more = true;
                *waiting = slots.push_all(h2, &mut |h2, slot| {
                    takes_more = direct::send(&mut port.line, h2, slot, frames)?;
                    Ok(takes_more)
                })?;
                if !takes_more {
                    continue;
                }
            }
            let idle = slots.is_empty();
            let output = h2.output();
            if output.is_empty() {
                return Ok(());
            }
            self.frames.note_sent(output);
            let buf = direct::gathered(output);
            output.clear();
            if idle && output.capacity() > OUTPUT_KEPT || output.capacity() > 4 * OUTPUT_HIGH {
                *output = Vec::new();
            }
            self.port.line.start_send(buf);
        }
    }

    /// Whether all that was to be sent was accepted by the kernel.
    pub fn is_flushed(&mut self) -> bool {
        self.port.line.poll_send_ready().is_ready() && self.mux.state.borrow_mut().h2.output().is_empty()
    }

    /// When the transport last took something.
    pub fn last_sent_ms(&self) -> u64 {
        self.port.line.last_sent_ms()
    }

    /// Whether nobody can ask for a stream any more.
    pub fn is_forgotten(&self) -> bool {
        Rc::strong_count(&self.mux) == 1
    }

    /// Every stream is told that the peer is gone.
    pub fn cut(&mut self) {
        if let Some(failure) = self.port.line.tls_failure() {
            self.mux.tls_failure.get_or_init(|| Box::new(failure.clone()));
        }
        let mut state = self.mux.state.borrow_mut();
        state.over = true;
        state.settled = true;
        wake(state.unsettled.take());
        state.slots.iter_mut().for_each(Slot::cut);
    }

    /// Every stream is told that the client ended its direction: none of their requests will have more than there is of it.
    pub fn end_input(&mut self) {
        for slot in self.mux.state.borrow_mut().slots.iter_mut() {
            slot.left = true;
            slot.wake_reader();
        }
    }

    /// Every stream looks again at what it waits for.
    pub fn wake_all(&mut self) {
        for slot in self.mux.state.borrow_mut().slots.iter_mut() {
            slot.wake_reader();
            slot.wake_writer();
        }
    }
}

/// What a stream that ended with this code has in place of a head.
fn given_up(code: ErrorCode, by_peer: bool) -> NoHead {
    match code {
        ErrorCode::RefusedStream => NoHead::Refused,
        _ if bug("reset-repeated") => NoHead::Refused,
        ErrorCode::Cancel if by_peer => NoHead::Cancelled,
        _ => NoHead::GaveUp,
    }
}

/// Lets those go on who waited for the peer's settings.
fn wake(waiting: Unsettled) {
    waiting.into_iter().flat_map(|tasks| *tasks).for_each(|task| task.wake_local(Reason::IO));
}

/// What is to be done once all of the input was read.
#[derive(Default)]
struct After {
    refused: Vec<u32>,
    /// Payload that nobody takes.
    unwanted: Vec<(u32, usize)>,
}

/// What frames change, while the protocol reads them.
struct Receiver<'s> {
    role: Role,
    slots: &'s mut Slots,
    waiting: &'s mut bool,
    pong: &'s mut bool,
    retired: &'s mut bool,
    settled: &'s mut bool,
    unsettled: &'s mut Unsettled,
}

/// Who hears of what was received.
struct Listener<'s, 'r> {
    to: &'s mut Receiver<'r>,
    after: &'s mut After,
    opened: &'s mut dyn FnMut(Opened<'_>),
    frames: &'s mut Frames,
}

impl Handler for Listener<'_, '_> {
    #[inline]
    fn on(&mut self, event: Event<'_>) {
        self.to.take(event, self.after, self.opened);
    }

    #[inline]
    fn frame(&mut self, frame: &Header) {
        self.frames.note(Way::Received, frame);
    }
}

impl Receiver<'_> {
    /// What a frame does to its stream.
    fn take(&mut self, event: Event<'_>, after: &mut After, opened: &mut dyn FnMut(Opened<'_>)) {
        match event {
            Event::Head { stream, head, message, end } if self.role == Role::Client => {
                if let Some(slot) = self.slots.get_mut(stream) {
                    let mut kept = store::take_head();
                    std::mem::swap(&mut *kept, head);
                    slot.take_head(kept, message, end);
                }
            }
            Event::Head { stream, head, message, end } => {
                self.slots.add(Slot::new(stream, end));
                opened(Opened::Request { id: stream, head, message, ends: end });
            }
            // The protocol resets it itself.
            Event::Refused { stream, .. } if self.role == Role::Client => {
                self.no_head(stream, NoHead::Malformed);
            }
            Event::Refused { stream, why: Malformed::Request } => {
                self.slots.add(Slot::new(stream, true));
                opened(Opened::Bad(stream));
            }
            Event::Refused { stream, why } => {
                after.refused.push(stream);
                opened(Opened::Malformed(why));
            }
            Event::Data { stream, data, end } if bug("streams-crossed") => {
                let first = self.slots.iter_mut().find(|slot| !slot.dropped).map_or(stream, |slot| slot.id);
                for (id, data) in [(first, data), (stream, &b""[..])] {
                    if let Some(slot) = self.slots.get_mut(id) {
                        slot.add(data);
                        slot.ended |= end && id == stream;
                        slot.wake_reader();
                    }
                }
            }
            Event::Data { stream, data, end } => match self.slots.get_mut(stream) {
                Some(slot) if !slot.dropped => {
                    slot.add(data);
                    slot.ended |= end;
                    slot.wake_reader();
                }
                _ => after.unwanted.push((stream, data.len())),
            },
            Event::Trailers { stream, trailers } => {
                if let Some(slot) = self.slots.get_mut(stream) {
                    slot.trailers_in = Some(Box::new(std::mem::take(trailers)));
                    slot.ended = true;
                    slot.wake_reader();
                }
            }
            Event::Reset { stream, code, by_peer } => {
                self.no_head(stream, given_up(code, by_peer));
                if let Some(slot) = self.slots.get_mut(stream) {
                    slot.reset_code = by_peer.then(|| code.number());
                    slot.cut();
                    // One without a task is forgotten with the next look at all of them.
                    *self.waiting |= slot.dropped;
                }
            }
            Event::Room { .. } => *self.waiting = true,
            Event::Pong => *self.pong = true,
            Event::Goaway { last, .. } if self.role == Role::Client => {
                *self.retired = true;
                for slot in self.slots.iter_mut().filter(|slot| slot.id > last) {
                    slot.no_head.get_or_insert(NoHead::Refused);
                    slot.cut();
                    *self.waiting |= slot.dropped;
                }
            }
            Event::Goaway { .. } => {}
            Event::Ready => {
                *self.settled = true;
                wake(self.unsettled.take());
            }
        }
    }

    fn no_head(&mut self, stream: u32, why: NoHead) {
        if let Some(slot) = self.slots.get_mut(stream) {
            slot.no_head.get_or_insert(why);
        }
    }
}
