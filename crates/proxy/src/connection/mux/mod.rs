//! A connection that carries many messages at once (HTTP/2), shared by its own task and those of its streams.
//!
//! One task owns the transport ([`Carrier`]): it hands what it receives to the protocol, and sends what all streams of a
//! round have to say in one call. A stream has a [`MuxStream`] in place of a connection: a number and a reference to what
//! is shared, which is borrowed for the time of one call and never across an await. Neither waits for the other: what a
//! stream cannot send yet stays with it, one buffer at most, and what it does not take yet is bounded by the window that its
//! peer was given, which grows again when a stream took the bytes. Dropping a stream resets it, unless both sides said
//! everything.
//!
//! The same serves clients and servers: which end this is knows [`thalweg_h2::connection::Role`].

mod carrier;
mod slot;

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::task::Poll;

use thalweg_h2::connection::{Config, Connection, Failure, Role, Tally};
use thalweg_h2::error::ErrorCode;
use thalweg_http::Head;
use thalweg_runtime::buffer::Buf;
use thalweg_runtime::net::Departure;
use thalweg_runtime::{Reason, TaskId, clock, current_task};

pub use carrier::{Carrier, Opened, Step};
use slot::{Finish, Slot, Slots};

/// Octets of frames that wait for the transport, above which no stream adds data to them.
const OUTPUT_HIGH: usize = 64 * 1024;

/// Packets of the connection are to be marked, once its task runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Marks {
    /// `set-fc-mark`.
    pub mark: Option<u32>,
    /// `set-fc-tos`.
    pub tos: Option<u8>,
}

/// What the task of a connection shares with its streams.
pub struct Mux {
    state: RefCell<State>,
    /// The connection's task.
    task: Cell<TaskId>,
    /// The number of the transport's descriptor.
    fd: i32,
}

struct State {
    h2: Connection,
    slots: Slots,
    /// A stream may wait for a window, or for room.
    waiting: bool,
    /// The peer answered a ping.
    pong: bool,
    wish: Wish,
    marks: Marks,
}

/// What a stream wants of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Go,
    Vanish,
    Kick,
}

impl std::fmt::Debug for Mux {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mux({:?})", self.task.get())
    }
}

impl Mux {
    /// A connection on which nothing was exchanged yet, of the calling task.
    fn new(role: Role, config: Config, fd: i32) -> Rc<Mux> {
        let h2 = Connection::new(role, config, clock::now_ms());
        Rc::new(Mux {
            state: RefCell::new(State {
                h2,
                slots: Slots::default(),
                waiting: false,
                pong: false,
                wish: Wish::Go,
                marks: Marks::default(),
            }),
            task: Cell::new(current_task()),
            fd,
        })
    }

    /// The streams that this process has not let go.
    pub fn streams(&self) -> usize {
        self.state.borrow().slots.held()
    }

    /// What was counted on the connection so far.
    pub fn tally(&self) -> Tally {
        self.state.borrow().h2.tally()
    }

    /// What the peer did that it should not have done (`fc_glitches`).
    pub fn glitches(&self) -> u32 {
        self.state.borrow().h2.glitches()
    }

    /// Whether the peer answered a ping since this was last asked.
    pub fn take_pong(&self) -> bool {
        std::mem::take(&mut self.state.borrow_mut().pong)
    }

    /// Why the protocol ended, if the peer broke it.
    pub fn failure(&self) -> Option<Failure> {
        self.state.borrow().h2.failure()
    }

    /// The peer is told that the connection will end, before new streams are refused.
    pub fn announce_end(&self) {
        self.with(|state| {
            state.h2.announce_end();
            state.h2.ping();
        });
    }

    /// No new streams are taken from here on.
    pub fn goaway(&self, code: ErrorCode) {
        self.with(|state| state.h2.goaway(code));
    }

    /// Whether the connection ends with its last stream.
    pub fn is_closing(&self) -> bool {
        self.state.borrow().h2.is_closing()
    }

    /// Asks whether the peer is still there.
    pub fn ping(&self) {
        self.with(|state| state.h2.ping());
    }

    /// The connection may wait for long: what only streams need is given back.
    pub fn rest(&self) {
        self.state.borrow_mut().slots.trim();
    }

    /// A stream as something that a message is received from and sent to.
    pub fn stream(self: &Rc<Mux>, id: u32) -> MuxStream {
        MuxStream { mux: Rc::clone(self), id }
    }

    /// Changes the state, and sees to it that what comes of it is sent.
    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.state.borrow_mut();
        let done = f(&mut state);
        if !state.h2.output().is_empty() {
            self.task.get().wake_local(Reason::MESSAGE);
        }
        done
    }
}

/// One stream of a connection, as its own task has it.
#[derive(Debug)]
pub struct MuxStream {
    mux: Rc<Mux>,
    id: u32,
}

/// What a peer that is gone means to who wants to send or receive.
fn gone() -> io::Error {
    io::Error::from(io::ErrorKind::ConnectionReset)
}

impl MuxStream {
    fn with<R>(&mut self, f: impl FnOnce(&mut Connection, &mut Slot) -> R) -> Option<R> {
        let id = self.id;
        self.mux.with(|state| state.slots.get_mut(id).map(|slot| f(&mut state.h2, slot)))
    }

    /// See [`super::line::Line::poll_recv`].
    pub fn poll_recv(&mut self, max: usize) -> Poll<io::Result<Buf>> {
        let polled = self.with(|h2, slot| match slot.take(max) {
            Some(buf) => {
                h2.consumed(slot.id, buf.len());
                Poll::Ready(Ok(buf))
            }
            None if slot.ended => Poll::Ready(Ok(Buf::empty())),
            None if slot.reset || slot.left => Poll::Ready(Err(gone())),
            None => {
                slot.reader = current_task();
                Poll::Pending
            }
        });
        polled.unwrap_or_else(|| Poll::Ready(Err(gone())))
    }

    /// See [`super::line::Line::poll_send_ready`].
    pub fn poll_send_ready(&mut self) -> Poll<io::Result<()>> {
        let polled = self.with(|h2, slot| {
            if slot.reset {
                Poll::Ready(Err(gone()))
            } else if slot.outgoing.is_none() && h2.output().len() < OUTPUT_HIGH {
                Poll::Ready(Ok(()))
            } else {
                slot.writer = current_task();
                Poll::Pending
            }
        });
        if matches!(polled, Some(Poll::Pending)) {
            self.mux.state.borrow_mut().waiting = true;
        }
        polled.unwrap_or_else(|| Poll::Ready(Err(gone())))
    }

    /// Sends payload. See [`super::line::Line::start_send`].
    pub fn start_send(&mut self, buf: Buf) {
        self.push(|slot| {
            debug_assert!(slot.outgoing.is_none(), "one send at a time");
            slot.outgoing = Some(buf).filter(|buf| !buf.is_empty());
        });
    }

    /// Makes frames of what waits, after a change.
    fn push(&mut self, f: impl FnOnce(&mut Slot)) {
        let id = self.id;
        self.mux.with(|state| {
            if let Some(slot) = state.slots.get_mut(id) {
                f(slot);
                slot.push(&mut state.h2);
                state.waiting |= slot.outgoing.is_some();
            }
        });
    }

    /// The next payload is the last one, and nothing follows it.
    pub fn end_with_next_send(&mut self) {
        self.with(|_, slot| slot.finish = Finish::Next);
    }

    /// Sends a head: of an interim response, or of the message, which has no body if it `ends` with that. False when the
    /// stream is gone.
    pub fn send_head(&mut self, head: &Head, ends: bool) -> bool {
        let sent = self.with(|h2, slot| {
            if slot.reset || !h2.respond(slot.id, head, ends) {
                return false;
            }
            slot.sent_ms = clock::now_ms();
            if ends {
                slot.finish = Finish::Done;
            }
            true
        });
        sent.unwrap_or(false)
    }

    /// Ends the message, behind what was given to be sent, with trailer fields if there are any.
    pub fn finish(&mut self, trailers: Option<&Head>) {
        self.push(|slot| {
            if slot.finish != Finish::Done {
                slot.trailers_out = trailers.cloned().map(Box::new);
                slot.finish = Finish::Asked;
            }
        });
    }

    /// Trailer fields that came behind the body.
    pub fn trailers(&self) -> Option<Head> {
        let state = self.mux.state.borrow();
        state.slots.get(self.id).and_then(|slot| slot.trailers_in.as_deref().cloned())
    }

    /// What the peer is told if the stream is dropped before its end.
    pub fn leave_with(&mut self, code: ErrorCode) {
        self.with(|_, slot| slot.code = Some(code));
    }

    /// The connection ends once its streams do: the message said that nothing is to follow it.
    pub fn announce_end(&mut self) {
        self.mux.goaway(ErrorCode::NoError);
    }

    /// The connection disappears without a word.
    pub fn vanish(&mut self) {
        self.mux.state.borrow_mut().wish = Wish::Vanish;
        self.mux.task.get().wake_local(Reason::MESSAGE);
    }

    /// The peer shall not come again: its stream and the connection end, with a code that says so.
    pub fn kick(&mut self) {
        let id = self.id;
        self.mux.with(|state| {
            state.h2.reset(id, ErrorCode::EnhanceYourCalm);
            state.h2.goaway(ErrorCode::EnhanceYourCalm);
            state.wish = Wish::Kick;
        });
    }

    /// Throws away what was received, at most `max` bytes; how much that was.
    pub fn discard_input(&mut self, max: usize) -> usize {
        let mut taken = 0;
        while taken < max {
            match self.poll_recv(max - taken) {
                Poll::Ready(Ok(buf)) if !buf.is_empty() => taken += buf.len(),
                _ => break,
            }
        }
        taken
    }

    /// Bytes that were given to be sent and that no frame has yet.
    pub fn in_flight(&self) -> usize {
        self.look(0, |slot| slot.outgoing.as_ref().map_or(0, |buf| buf.len()))
    }

    /// When payload was last received.
    pub fn last_received_ms(&self) -> u64 {
        self.look(0, |slot| slot.received_ms)
    }

    /// When something was last sent.
    pub fn last_sent_ms(&self) -> u64 {
        self.look(0, |slot| slot.sent_ms)
    }

    /// Whether the peer gave the stream up, or left. What happens to it wakes the current task.
    pub fn departure(&mut self) -> Departure {
        let departed = self.with(|_, slot| {
            slot.reader = current_task();
            match (slot.reset, slot.left) {
                (true, _) => Departure::Reset,
                (false, true) => Departure::Ended,
                (false, false) => Departure::No,
            }
        });
        departed.unwrap_or(Departure::Reset)
    }

    /// Whether all payload was taken, and no more will come.
    pub fn has_ended(&self) -> bool {
        self.look(false, |slot| slot.ended && !slot.has_input())
    }

    /// Whether something was received that nobody took.
    pub fn has_input_now(&self) -> bool {
        self.look(true, |slot| slot.has_input() || slot.ended || slot.reset)
    }

    /// What happens on the stream wakes `task`.
    pub fn watch(&mut self, task: TaskId) {
        self.with(|_, slot| slot.reader = task);
    }

    /// The task of the connection.
    pub fn keeper(&self) -> TaskId {
        self.mux.task.get()
    }

    /// The number of the connection's descriptor.
    pub fn fd(&self) -> i32 {
        self.mux.fd
    }

    /// Packets of the connection are to be marked.
    pub fn set_marks(&self, marks: Marks) {
        let mut state = self.mux.state.borrow_mut();
        let Marks { mark, tos } = marks;
        state.marks = Marks { mark: mark.or(state.marks.mark), tos: tos.or(state.marks.tos) };
        self.mux.task.get().wake_local(Reason::MESSAGE);
    }

    fn look<R>(&self, otherwise: R, f: impl FnOnce(&Slot) -> R) -> R {
        let state = self.mux.state.borrow();
        state.slots.get(self.id).map_or(otherwise, f)
    }
}

impl Drop for MuxStream {
    fn drop(&mut self) {
        let id = self.id;
        self.mux.with(|state| {
            state.slots.leave(id);
            let Some(slot) = state.slots.get_mut(id) else { return };
            // What is on its way to the peer leaves without its task.
            if slot.outgoing.is_some() && matches!(slot.finish, Finish::Asked | Finish::Next) {
                return;
            }
            let whole = slot.finish == Finish::Done;
            let code = slot.code.unwrap_or(if whole { ErrorCode::NoError } else { ErrorCode::Cancel });
            state.slots.remove(id);
            state.h2.reset(id, code);
        });
        // Its task may wait for the last stream.
        self.mux.task.get().wake_local(Reason::MESSAGE);
    }
}
