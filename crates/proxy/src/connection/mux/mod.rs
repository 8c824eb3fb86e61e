//! A connection that carries many messages at once (HTTP/2), shared by its own task and those of its streams.
//!
//! One task owns the transport ([`Carrier`]): it hands what it receives to the protocol, and sends what all streams of a
//! round have to say in one call. A stream has a [`MuxStream`] in place of a connection: a number and a reference to what
//! is shared, which is borrowed for the time of one call and never across an await. Neither waits for the other: what a
//! stream cannot send yet stays with it, one buffer at most, and what it does not take yet is bounded by the window that its
//! peer was given, which grows again when a stream took the bytes. Dropping a stream resets it, unless both sides said
//! everything.
//!
//! The same serves clients and servers: which end this is knows [`thalweg_h2::connection::Role`]. A stream to a server begins
//! as a place on the connection ([`Mux::place`]), and is opened by its request.

mod carrier;
mod counted;
mod direct;
mod idle_ping;
mod slot;
mod store;

use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::rc::Rc;
use std::task::Poll;

use thalweg_config::model::{H2Side, Tune};
use thalweg_h2::connection::{Config, Connection, Failure, Role, Tally};
use thalweg_h2::error::ErrorCode;
use thalweg_h2::message::Message;
use thalweg_h2::settings::Settings;
use thalweg_http::Head;
use thalweg_runtime::buffer::Buf;
use thalweg_runtime::net::{Departure, SocketId};
use thalweg_runtime::profile::thread_busy_percent;
use thalweg_runtime::{Reason, TaskId, clock, current_task};
use thalweg_sample::facts::TlsFacts;
use thalweg_tls as tls;

pub use carrier::{Carrier, Moving, Opened, Step};
pub use counted::{Counted, Owner};
pub use idle_ping::IdlePing;
use slot::{Finish, Slot, Slots};

use super::line::Line;
use crate::backend::shelf::Ticket;
use crate::plant::bug;
use crate::worker::Worker;

/// Octets of frames that wait for the transport, above which no stream adds data to them.
const OUTPUT_HIGH: usize = 64 * 1024;

/// The least that a peer must be allowed to send in a frame (RFC 9113 section 4.2).
const FRAME_MIN: u32 = 16_384;

/// Payload that is not copied together with other frames: below that, one call for many of them costs less than the copy.
const APART_MIN: usize = 16 * 1024;

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
    /// The transport's.
    socket: SocketId,
    /// What is known of TLS on it.
    tls: Option<Rc<TlsFacts>>,
    /// What of TLS the connection ended for.
    tls_failure: OnceCell<Box<tls::Failure>>,
    /// The client's handshake is not done.
    is_early: Cell<bool>,
    /// Who is to hear of room for another request.
    room_wanted: Cell<Option<Ticket>>,
}

struct State {
    role: Role,
    h2: Connection,
    slots: Slots,
    /// A stream may wait for a window, or for room.
    waiting: bool,
    /// The peer answered a ping.
    pong: bool,
    wish: Wish,
    marks: Marks,
    /// When something was last received, in milliseconds of the runtime's clock.
    heard_ms: u64,
    /// The peer takes no new requests, or should not get any: it does not answer.
    retired: bool,
    /// The transport is gone.
    over: bool,
    /// The peer's settings came.
    settled: bool,
    unsettled: Unsettled,
}

/// Tasks that wait for the peer's settings. Boxed, since few connections have any.
#[allow(clippy::box_collection)]
type Unsettled = Option<Box<Vec<TaskId>>>;

/// What a stream wants of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Go,
    /// With the time to live of a reset.
    Vanish(Option<u8>),
    Kick,
}

impl std::fmt::Debug for Mux {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mux({:?})", self.task.get())
    }
}

/// What is told to the peers of a side, and kept of theirs, as `tune.h2.*` has it.
pub fn config(tune: &Tune, side: &H2Side) -> Config {
    let (h2, bufsize) = (&tune.h2, u32::try_from(tune.bufsize).unwrap_or(u32::MAX));
    Config {
        settings: Settings {
            enable_push: false,
            max_concurrent_streams: h2.streams(side),
            initial_window: h2.window(side),
            max_frame_size: h2.max_frame_size.unwrap_or(bufsize).min(bufsize).max(FRAME_MIN),
            header_table_size: h2.header_table_size,
            ..Settings::default()
        },
        window: (1 << 31) - 1,
        receive_shared: h2.shared(side, tune.bufsize),
        encoder_table: h2.header_table_size as usize,
        apart_min: if h2.zero_copy_send && !tune.disable_zero_copy { APART_MIN } else { usize::MAX },
        fields_max: tune.http_maxhdr.saturating_sub(1),
        head_max: tune.bufsize - tune.maxrewrite,
        frames_at_once: side.frames_at_once,
        ..Config::default()
    }
}

/// Gives the allocator back what this thread keeps for connections that will have streams.
pub fn trim() {
    store::trim();
}

/// Whether this thread is so busy that it lets go of peers that reached the limit of glitches
/// (`tune.glitches.kill.cpu-usage`).
pub fn may_end_for_glitches(worker: &Worker) -> bool {
    let least = worker.instance.config.global.tune.h2.kill_busy_percent;
    least == 0 || thread_busy_percent() >= u64::from(least)
}

impl Mux {
    /// A connection on which nothing was exchanged yet, of the calling task.
    fn new(role: Role, config: Config, line: &Line) -> Rc<Mux> {
        Mux::with_state(role, Connection::new(role, store::shared(config), clock::now_ms()), line)
    }

    fn with_state(role: Role, h2: Connection, line: &Line) -> Rc<Mux> {
        Rc::new(Mux {
            state: RefCell::new(State {
                role,
                h2,
                slots: Slots::default(),
                waiting: false,
                pong: false,
                wish: Wish::Go,
                marks: Marks::default(),
                heard_ms: clock::now_ms(),
                retired: false,
                over: false,
                settled: false,
                unsettled: None,
            }),
            task: Cell::new(current_task()),
            socket: line.socket_id(),
            tls: line.tls_facts().cloned(),
            tls_failure: OnceCell::new(),
            is_early: Cell::new(line.is_early()),
            room_wanted: Cell::default(),
        })
    }

    /// Whether the client's handshake is not done: see [`Line::is_early`].
    pub fn is_early(&self) -> bool {
        self.is_early.get()
    }

    /// See [`Line::tls_failure`].
    pub fn tls_failure(&self) -> Option<&tls::Failure> {
        self.tls_failure.get().map(|failure| &**failure)
    }

    /// Whether nothing of any stream is left to be sent or received.
    pub fn is_quiet(&self) -> bool {
        self.state.borrow().slots.is_empty()
    }

    /// The streams that this process has not let go.
    pub fn streams(&self) -> usize {
        self.state.borrow().slots.held()
    }

    /// What was counted on the connection since this was last asked.
    fn take_tally(&self) -> Tally {
        self.state.borrow_mut().h2.take_tally()
    }

    /// The most streams that the peer takes at once; 0: it sets no limit.
    pub fn streams_limit(&self) -> u32 {
        self.state.borrow().h2.remote_settings().max_concurrent_streams.unwrap_or(0)
    }

    /// What the peer did that it should not have done (`fc_glitches`).
    pub fn glitches(&self) -> u32 {
        self.state.borrow().h2.glitches()
    }

    /// Whether the frame that came last has to do with the head of a message.
    pub fn is_in_head(&self) -> bool {
        self.state.borrow().h2.is_in_head()
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
        store::take_back(&mut self.state.borrow_mut());
    }

    /// Whether the peer told its settings.
    pub fn is_settled(&self) -> bool {
        self.state.borrow().settled
    }

    /// Whether a request may be sent now: of those at once there are fewer than this side and the peer allow.
    pub fn has_room(&self) -> bool {
        let state = self.state.borrow();
        !state.retired && !state.over && state.h2.openable() > 0
    }

    /// The ticket is used when there is room for a request again.
    pub fn await_room(&self, ticket: Ticket) {
        self.room_wanted.set(Some(ticket));
    }

    /// There may be more room than before.
    fn tell_room(&self) {
        if let Some(ticket) = self.room_wanted.take() {
            match self.has_room() {
                true => ticket.use_up(),
                false => self.room_wanted.set(Some(ticket)),
            }
        }
    }

    /// Whether no request will ever be sent on it again.
    pub fn is_spent(&self) -> bool {
        let state = self.state.borrow();
        state.retired || state.over || state.h2.is_closing()
    }

    /// The task of the connection.
    pub fn keeper(&self) -> TaskId {
        self.task.get()
    }

    /// A place for a request, which opens the stream.
    pub fn place(self: &Rc<Mux>) -> MuxStream {
        MuxStream { mux: Rc::clone(self), id: NOT_OPEN }
    }

    /// A stream as something that a message is received from and sent to.
    pub fn stream(self: &Rc<Mux>, id: u32) -> MuxStream {
        MuxStream { mux: Rc::clone(self), id }
    }

    /// Changes the state, and sees to it that what comes of it is sent.
    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.state.borrow_mut();
        let waiting = state.h2.output().len();
        let done = f(&mut state);
        // What waited before is on its way, or for a peer that does not read: the connection's own task may ask for something
        // in each turn (to end, when the process stops) that adds nothing, and must not wake itself for it.
        if state.h2.output().len() > waiting {
            self.task.get().wake_local(Reason::MESSAGE);
        }
        done
    }
}

/// The number of a stream that is not open yet.
const NOT_OPEN: u32 = 0;

/// How long a server may be silent, in milliseconds, before one that left a request unanswered gets no more on that
/// connection.
const SILENCE_MS: u64 = 1000;

/// Why no head of a response comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoHead {
    /// The server did not process the request, and says so (RFC 9113 section 8.7): it may be sent again.
    Refused,
    /// What came is no response.
    Malformed,
    /// The server ended the stream, which it may have begun to process.
    GaveUp,
    /// The same, and it says that nobody waits for it any more: a server of gRPC whose client's time is over.
    Cancelled,
    /// The connection broke.
    Gone,
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
                if !bug("window-kept") {
                    h2.consumed(slot.id, buf.len());
                }
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

    /// See [`Line::poll_complete`].
    pub fn poll_complete(&mut self) -> Poll<io::Result<()>> {
        if !self.mux.is_early() {
            return Poll::Ready(Ok(()));
        }
        let polled = self.with(|_, slot| match slot.reset || slot.left {
            true => Poll::Ready(Err(gone())),
            false => {
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

    /// Whether the server lets streams change to other protocols (RFC 8441), once it told its settings.
    pub fn poll_takes_upgrades(&self) -> Poll<bool> {
        let mut state = self.mux.state.borrow_mut();
        if state.over {
            return Poll::Ready(false);
        }
        if state.settled {
            return Poll::Ready(state.h2.remote_settings().enable_connect_protocol);
        }
        state.unsettled.get_or_insert_default().push(current_task());
        Poll::Pending
    }

    /// Opens the stream with its request, which has no body if it `ends` with that. Where there is no room after all,
    /// [`MuxStream::poll_head`] says that it was refused.
    pub fn open(&mut self, head: &Head, scheme: &[u8], ends: bool) {
        debug_assert!(self.id == NOT_OPEN, "a stream has one request");
        let opened = self.mux.with(|state| {
            store::lend(state);
            let id = state.h2.open(head, scheme, ends).ok()?;
            let mut slot = Slot::new(id, false);
            slot.finish = if ends { Finish::Done } else { Finish::No };
            state.slots.add(slot);
            Some(id)
        });
        self.id = opened.unwrap_or(NOT_OPEN);
    }

    /// Waits for the head of a response, interim ones included.
    pub fn poll_head(&mut self, head: &mut Head) -> Poll<Result<Message, NoHead>> {
        let polled = self.mux.with(|state| {
            let slot = state.slots.get_mut(self.id)?;
            if let Some((mut came, message)) = slot.heads.pop_front() {
                std::mem::swap(head, &mut came);
                store::give_head(came);
                return Some(Poll::Ready(Ok(message)));
            }
            Some(match slot.no_head {
                Some(why) => Poll::Ready(Err(why)),
                None if slot.reset || slot.left => Poll::Ready(Err(NoHead::Gone)),
                None => {
                    slot.reader = current_task();
                    Poll::Pending
                }
            })
        });
        let otherwise = if self.id == NOT_OPEN { NoHead::Refused } else { NoHead::Gone };
        polled.unwrap_or(Poll::Ready(Err(otherwise)))
    }

    /// Its number, and what the peer said of it, for fetches (`fs.id` and its kin).
    pub fn seen(&self) -> thalweg_sample::facts::MuxStream {
        let reset = self.look(None, |slot| slot.reset_code);
        thalweg_sample::facts::MuxStream { id: self.id, reset }
    }

    /// The connection.
    pub fn mux(&self) -> &Rc<Mux> {
        &self.mux
    }

    /// Makes frames of what waits, after a change.
    fn push(&mut self, f: impl FnOnce(&mut Slot)) {
        let id = self.id;
        self.mux.with(|state| {
            if let Some(slot) = state.slots.get_mut(id) {
                f(slot);
                slot.push(&mut state.h2);
                state.waiting |= slot.outgoing.is_some();
                if slot.leaves_apart(&mut state.h2) {
                    self.mux.task.get().wake_local(Reason::MESSAGE);
                }
            }
        });
    }

    /// See [`Line::take_stall`].
    pub fn take_stall(&mut self) -> bool {
        self.with(|_, slot| std::mem::take(&mut slot.stalled)).unwrap_or(false)
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
    pub fn finish(&mut self, trailers: Option<Box<Head>>) {
        self.push(|slot| {
            if slot.finish != Finish::Done {
                slot.trailers_out = trailers;
                slot.finish = Finish::Asked;
            }
        });
    }

    /// Trailer fields that came behind the body.
    pub fn trailers(&self) -> Option<Box<Head>> {
        let trailers = self.look(None, |slot| slot.trailers_in.clone());
        trailers.filter(|trailers| !trailers.is_empty())
    }

    /// What the peer is told if the stream is dropped before its end, unless that was said before.
    pub fn leave_with(&mut self, code: ErrorCode) {
        self.with(|_, slot| slot.code = slot.code.or(Some(code)));
    }

    /// The connection ends once its streams do: the message said that nothing is to follow it.
    pub fn announce_end(&mut self) {
        self.mux.goaway(ErrorCode::NoError);
    }

    /// The connection disappears without a word; see [`Line::vanish`].
    pub fn vanish(&mut self, ttl: Option<u8>) {
        self.mux.state.borrow_mut().wish = Wish::Vanish(ttl);
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

    /// Whether something was received that nobody took, or the connection takes no request any more.
    pub fn has_input_now(&self) -> bool {
        if self.id == NOT_OPEN {
            return self.mux.is_spent();
        }
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

    /// What is known of TLS on the connection.
    pub fn tls_facts(&self) -> Option<&Rc<TlsFacts>> {
        self.mux.tls.as_ref()
    }

    /// The connection's socket.
    pub fn socket_id(&self) -> SocketId {
        self.mux.socket
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
            // A server that says nothing at all gets no more to do.
            let silent = state.heard_ms <= slot.sent_ms && clock::now_ms() >= slot.sent_ms + SILENCE_MS;
            state.retired |= silent && !slot.ended && state.role == Role::Client;
            // What is on its way to a client leaves without its task.
            let leaves = slot.outgoing.is_some() && matches!(slot.finish, Finish::Asked | Finish::Next);
            if leaves && state.role == Role::Server {
                return;
            }
            let whole = slot.finish == Finish::Done && (state.role == Role::Server || slot.ended);
            let code = slot.code.unwrap_or(if whole { ErrorCode::NoError } else { ErrorCode::Cancel });
            state.slots.remove(id);
            state.h2.reset(id, code);
        });
        self.mux.tell_room();
        // Its task may wait for the last stream.
        self.mux.task.get().wake_local(Reason::MESSAGE);
    }
}
