//! The record a driver keeps for each socket, and the table they live in.
//!
//! # Who may touch a record
//!
//! A record has a stable address for as long as the table lives. Two kinds of holders point at it, all on one
//! thread:
//!
//! - **one owner** (`net::Stream`, `net::Listener`, `net::Datagram`), from [`SocketTable::insert`] until it calls
//!   the driver's `close`;
//! - **the kernel**, under io_uring: every operation in flight carries the record's address as its token, one bit
//!   of [`Socket::ops`] each. What the operation reads or writes (the buffers to send, the boxed message or
//!   address) stays in the record until the operation's last completion cleared its bit.
//!
//! The record returns to the free list when the owner closed it *and* no bit of `ops` is left. References to a
//! record are made inside one driver call and never kept across calls. Whoever keeps an address (the kernel, lists of
//! a driver, the free list) keeps the canonical one, which has the rights of the table and not those of a reference
//! that ended: see [`SocketRef`].
//!
//! # What is known about a socket's input
//!
//! A stream's input is bytes and then one verdict: the end, or an error, which is followed by the end. Bytes that the
//! kernel handed over lie in `rx`; the verdict, once it is known that nothing comes before it any more, is
//! [`Bits::ENDED`] or `rx_error`. Until then a driver owes it, and whoever waits must be certain to be woken for it:
//!
//! | | what is certain to tell |
//! |---|---|
//! | epoll | an edge to come, as [`Bits::READABLE`] is cleared only by a receive that found nothing, or less than it asked for while no end was [`ANNOUNCED`](Bits::ANNOUNCED) |
//! | io_uring | a receive that was armed and delivered nothing since (arming looks at the socket's state); or one that did ([`FED`](Bits::FED)) with [`Op::Hangup`] beside it; or a poll ([`Op::PollIn`]) where [`BULK`](Bits::BULK) data is received directly; or a place in the list of [`STARVED`](Bits::STARVED) ones |
//!
//! A direct receive (`net::transfer`) asks for itself, and for an event ([`Op::PollIn`], which also looks first) when it
//! found nothing.

use crate::buffer::{self, BULK_MARGIN, Buf, poll_alloc};
use crate::clock;
use crate::memory;
use crate::net::options::set;
use crate::net::port::Events;
use crate::net::syscall;
use crate::task::{Reason, TaskId};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::Poll;

/// State bits of a record.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Bits(pub u32);

macro_rules! bits {
    ($($(#[$doc:meta])* $name:ident = $shift:expr;)*) => {
        impl Bits { $($(#[$doc])* pub const $name: Bits = Bits(1 << $shift);)* }
    };
}

bits! {
    /// A receive has a chance: an event came and no receive said "nothing there" since.
    READABLE = 0;
    /// A send has a chance, likewise.
    WRITABLE = 1;
    /// The end or an error was announced and comes behind what is still queued in the kernel. With epoll, a receive
    /// that returned less than it had room for does then not mean that nothing is left.
    ANNOUNCED = 2;
    /// Buffers in `tx` are on their way.
    SENDING = 3;
    /// `shutdown(SHUT_WR)` is due once nothing is on its way.
    SHUT_PENDING = 4;
    /// The next send carries `MSG_MORE`.
    MORE = 5;
    /// The owner let go; the record waits for the last completion.
    CLOSING = 6;
    /// The receive in flight is being cancelled.
    RECV_CANCEL = 7;
    /// The next receive is tried at once instead of waiting for an event first.
    EXPECT_DATA = 8;
    /// Waits in the list of receives to arm again once the ring has blocks.
    STARVED = 9;
    /// A listener: readiness is wanted by one thread of those that share the socket.
    LISTENER = 10;
    /// Registered with the poller.
    REGISTERED = 11;
    /// A connection attempt is under way.
    CONNECTING = 12;
    /// Input ended and all before that was taken from the kernel.
    ENDED = 13;
    /// The receive in flight delivered something since it was armed, so the kernel may owe the end (io_uring).
    FED = 14;
    /// A receive delivered something before: the next ones are multishot (io_uring).
    SEASONED = 15;
    /// The receive in flight carries a limit (io_uring).
    LIMITED = 16;
    /// Closing it before the peer did resets the connection.
    ABORTIVE = 17;
    /// The next send is the last one: the end of this direction leaves with its last bytes.
    LAST = 18;
    /// `TCP_NODELAY` is still to be set. A first send is never delayed, and many connections never see a second one.
    NODELAY_DUE = 19;
    /// Receives filled the room they had: the next ones get a bulk buffer, if their caller takes that much. Under
    /// io_uring they are made directly when an event says that there is something.
    BULK = 20;
    /// The last receive of a `BULK` one brought little. A second such, and it is none any more.
    WANING = 21;
    /// Its receives may take the reserve of buffers. It is a `BULK` one for good, so that they need no block of the ring.
    VITAL = 22;
    /// An error was told of behind the end of input (io_uring).
    BROKEN = 23;
    /// Events tell of room to send as well (epoll).
    OUTPUT_WATCHED = 24;
    /// Closing it ends the connection within the call (io_uring would do so with the next poll).
    PROMPT = 25;
    /// Its socket may have another connection afterwards (`driver::spare`).
    LENT = 26;
    /// Nothing is said on it.
    SILENT = 27;
    /// A listener on which several connections waited at once: the next accepts need not ask whether there is another.
    CROWDED = 28;
}

impl Bits {
    #[inline]
    pub fn has(self, b: Bits) -> bool {
        self.0 & b.0 != 0
    }
    #[inline]
    pub fn set(&mut self, b: Bits) {
        self.0 |= b.0;
    }
    #[inline]
    pub fn clear(&mut self, b: Bits) {
        self.0 &= !b.0;
    }
}

/// Receives of less than this are small ones.
const BULK_LEAST: usize = 4096;

/// Operations in flight under io_uring; also the low bits of a completion token (the record's address is a multiple of
/// 64).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Op {
    Recv = 1,
    Send = 2,
    Connect = 3,
    PollIn = 4,
    PollOut = 5,
    /// Multishot poll for readability (listeners).
    Watch = 6,
    /// Poll for the end of input and for errors, beside a multishot receive.
    Hangup = 7,
    /// Poll for errors alone, once the end of input was told.
    Broken = 8,
}

impl Op {
    /// All of them.
    pub const ALL: [Op; 8] =
        [Op::Recv, Op::Send, Op::Connect, Op::PollIn, Op::PollOut, Op::Watch, Op::Hangup, Op::Broken];

    pub fn from_token(token: u64) -> Option<Op> {
        Some(match token & 63 {
            1 => Op::Recv,
            2 => Op::Send,
            3 => Op::Connect,
            4 => Op::PollIn,
            5 => Op::PollOut,
            6 => Op::Watch,
            7 => Op::Hangup,
            8 => Op::Broken,
            _ => return None,
        })
    }
    #[inline]
    pub const fn bit(self) -> u8 {
        1 << (self as u8 - 1)
    }
}

/// A second buffer to send, and what a vectored send in flight points at.
pub(crate) struct Message {
    header: libc::msghdr,
    iov: [libc::iovec; 2],
    second: Option<Buf>,
}

/// What only some operations need; boxed, so that a record has two cache lines. What an operation in flight points at
/// stays in its box until the completion.
pub(crate) enum Extra {
    Connect(ConnectAddress),
    Send(Message),
    Listening(Listening),
}

/// What a listener has that others listen on, too.
pub(crate) struct Listening {
    /// The record's share in the descriptor; `None` once it is closed.
    pub socket: Option<Arc<OwnedFd>>,
    /// What tells of connections in its place; see [`crate::net::port`].
    pub events: Option<Arc<Events>>,
}

/// The address a connect in flight points at.
#[repr(C)]
pub(crate) struct ConnectAddress {
    pub storage: libc::sockaddr_storage,
    pub len: libc::socklen_t,
}

/// An error of the kernel, or none: all are below 4096.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Errno(u16);

impl Errno {
    pub const NONE: Errno = Errno(0);

    #[inline]
    pub fn of(errno: i32) -> Errno {
        debug_assert!((0..4096).contains(&errno), "{errno}");
        Errno(errno as u16)
    }

    #[inline]
    pub fn is_some(self) -> bool {
        self != Errno::NONE
    }

    /// The error, which is none afterwards.
    #[inline]
    pub fn take(&mut self) -> Option<io::Error> {
        match std::mem::take(self) {
            Errno::NONE => None,
            Errno(errno) => Some(io::Error::from_raw_os_error(errno.into())),
        }
    }
}

#[repr(C, align(64))]
pub(crate) struct Socket {
    pub fd: RawFd,
    pub bits: Bits,
    pub ops: u8,
    pub rx_error: Errno,
    pub tx_error: Errno,
    /// Its place in the table, which it keeps.
    pub number: u32,
    /// Tells the sockets apart that have the place one after the other; 0 while it is free.
    pub turn: u32,
    /// Whom to wake when something can be received; [`TaskId::NONE`] when nobody waits.
    pub reader: TaskId,
    /// Whom to wake when a send ended.
    pub writer: TaskId,
    /// First of the received and not yet taken buffers.
    pub rx: Option<Buf>,
    /// The others; allocated the first time there is more than one, and boxed because there rarely is.
    #[allow(clippy::box_collection)]
    pub rx_more: Option<Box<VecDeque<Buf>>>,
    /// Bytes in `rx` and `rx_more`.
    pub rx_queued: u32,
    /// The simulated endpoint, in the simulator.
    pub sim: u32,
    /// What is being sent, or comes first of it.
    pub tx: Option<Buf>,
    pub extra: Option<Box<Extra>>,
    /// Bytes the kernel accepted since the record was made.
    pub sent: u64,
    /// When bytes were last received, and when the send in flight began or last went on: the low half of
    /// [`clock::now_ms`].
    pub rx_ms: u32,
    pub tx_ms: u32,
}

/// The moment, as records keep it. Drivers read the clock anew after each wait, before they handle what came.
#[inline]
pub(crate) fn moment() -> u32 {
    clock::now_ms() as u32
}

impl Socket {
    /// Gives up a descriptor that others may have, too; false when the record is its only owner.
    pub fn leave_shared(&mut self) -> bool {
        let Some(Extra::Listening(listening)) = self.extra.as_deref_mut() else { return false };
        listening.socket = None;
        true
    }

    /// Whether the peer said that it will send nothing more, as far as events told.
    pub fn is_announced(&self) -> bool {
        self.bits.has(Bits::ENDED) || self.bits.has(Bits::ANNOUNCED)
    }

    pub(super) fn blank(number: u32) -> Socket {
        Socket {
            number,
            turn: 0,
            fd: -1,
            bits: Bits(0),
            ops: 0,
            rx_error: Errno::NONE,
            tx_error: Errno::NONE,
            reader: TaskId::NONE,
            writer: TaskId::NONE,
            rx: None,
            rx_more: None,
            rx_queued: 0,
            sim: u32::MAX,
            tx: None,
            extra: None,
            sent: 0,
            rx_ms: 0,
            tx_ms: 0,
        }
    }

    /// Whether input ended or broke, behind what is in `rx`.
    #[inline]
    pub fn has_verdict(&self) -> bool {
        self.rx_error.is_some() || self.bits.has(Bits::ENDED)
    }

    /// The verdict, to a reader that took everything before it. As with `recv`, an error is told once, and after it the
    /// stream is at its end.
    #[inline]
    pub fn take_verdict(&mut self) -> Option<io::Result<Buf>> {
        if !self.has_verdict() {
            return None;
        }
        self.bits.set(Bits::ENDED);
        Some(self.rx_error.take().map_or_else(|| Ok(Buf::empty()), Err))
    }

    /// Looks at what comes next in the kernel, without taking it: `true` when that is something. As looking takes an
    /// error out of the socket, it is kept as the verdict.
    pub fn look(&mut self) -> bool {
        match syscall::recv(self.fd, &mut [0], libc::MSG_PEEK) {
            Ok(_) => true,
            Err(libc::EAGAIN) => false,
            Err(errno) => {
                self.rx_error = Errno::of(errno);
                true
            }
        }
    }

    /// Keeps the verdict, if that is what comes next in the kernel: `false` when nothing comes yet. Nothing may be in flight that
    /// would take what comes before it.
    pub fn look_for_verdict(&mut self) -> bool {
        match syscall::recv(self.fd, &mut [0], libc::MSG_PEEK) {
            Ok(0) => self.bits.set(Bits::ENDED),
            Ok(_) => {}
            Err(libc::EAGAIN) => return false,
            Err(errno) => self.rx_error = Errno::of(errno),
        }
        true
    }

    /// The verdict, if that is what comes next: it takes no buffer, so whoever has to wait for one hears of it all the same.
    #[cold]
    pub fn verdict_alone(&mut self) -> Option<io::Result<Buf>> {
        self.look_for_verdict();
        let verdict = self.take_verdict();
        if verdict.is_some() {
            buffer::leave_queue();
        }
        verdict
    }

    #[inline]
    pub fn wake_reader(&mut self) {
        let task = std::mem::replace(&mut self.reader, TaskId::NONE);
        if task != TaskId::NONE {
            task.wake_local(Reason::IO);
        }
    }

    pub fn wake_writer(&mut self) {
        let task = std::mem::replace(&mut self.writer, TaskId::NONE);
        if task != TaskId::NONE {
            task.wake_local(Reason::IO);
        }
    }

    pub fn push_rx(&mut self, buf: Buf) {
        self.rx_ms = moment();
        self.rx_queued = self.rx_queued.saturating_add(buf.len() as u32);
        if self.rx.is_none() {
            self.rx = Some(buf);
        } else {
            self.rx_more.get_or_insert_default().push_back(buf);
        }
    }

    /// A buffer for a direct receive, and how much of its room to use. Otherwise the task waits for one.
    #[inline]
    pub fn room(&self, max: usize) -> Poll<(Buf, usize)> {
        if self.bits.has(Bits::BULK)
            && !self.bits.has(Bits::VITAL)
            && max > buffer::DEFAULT_SIZE
            && let Some(buf) = Buf::bulk()
        {
            let room = (buf.spare() - BULK_MARGIN).min(max);
            return Poll::Ready((buf, room));
        }
        let room = |buf: Buf| {
            let room = buf.capacity().min(max);
            (buf, room)
        };
        // Who has left is heard to the end, whatever that takes: it holds memory until then.
        if (self.bits.has(Bits::ANNOUNCED) || self.bits.has(Bits::VITAL))
            && let Some(buf) = Buf::from_reserve()
        {
            return Poll::Ready(room(buf));
        }
        if memory::is_short() && self.bits.has(Bits::ANNOUNCED) {
            return Poll::Pending;
        }
        poll_alloc().map(room)
    }

    /// A receive with room for `room` bytes brought `n`: decides how large the next ones are.
    #[inline]
    pub fn note_received(&mut self, n: usize, room: usize) {
        if self.bits.has(Bits::VITAL) {
            return;
        }
        if n >= room && room >= BULK_LEAST {
            self.bits.set(Bits::BULK);
            self.bits.clear(Bits::WANING);
        } else if self.bits.has(Bits::BULK) {
            // The end of a body may be short: one such receive says nothing.
            if n >= BULK_LEAST {
                self.bits.clear(Bits::WANING);
            } else if self.bits.has(Bits::WANING) {
                self.bits.clear(Bits::BULK | Bits::WANING);
            } else {
                self.bits.set(Bits::WANING);
            }
        }
    }

    /// `n` bytes were moved on without being looked at: whoever sends that much at once will do so again.
    #[inline]
    pub fn note_moved(&mut self, n: usize) {
        if n >= BULK_LEAST && !self.bits.has(Bits::VITAL) {
            self.bits.set(Bits::BULK);
            self.bits.clear(Bits::WANING);
        }
    }

    /// Takes at most `max` bytes of what was received.
    #[inline]
    pub fn pop_rx(&mut self, max: usize) -> Option<Buf> {
        let first = self.rx.as_mut()?;
        let taken = if first.len() > max {
            first.split_to(max)
        } else {
            let taken = self.rx.take()?;
            // Nothing is written when there is no other: what was written in pieces a moment ago is slow to read as a whole.
            if let Some(next) = self.rx_more.as_mut().and_then(|more| more.pop_front()) {
                self.rx = Some(next);
            }
            taken
        };
        self.rx_queued -= taken.len() as u32;
        Some(taken)
    }

    /// As [`pop_rx`](Self::pop_rx), but when several small blocks wait they are copied into one pooled buffer: the copy
    /// costs less than a send for each of them, and gives the scarce blocks back at once.
    #[inline]
    pub fn pop_rx_joined(&mut self, max: usize) -> Option<Buf> {
        if self.rx_more.as_ref().is_none_or(|more| more.is_empty()) {
            return self.pop_rx(max);
        }
        self.join_rx(max)
    }

    #[cold]
    fn join_rx(&mut self, max: usize) -> Option<Buf> {
        if self.rx.as_ref().is_some_and(|first| first.len() >= max) {
            return self.pop_rx(max);
        }
        let Some(mut joined) = Buf::with_capacity_default() else { return self.pop_rx(max) };
        let room = joined.capacity().min(max);
        let n = self.copy_rx(&mut joined.unused_mut()[..room]);
        joined.commit(n);
        Some(joined)
    }

    /// Copies as much as there is and fits, and takes it off the queue.
    pub fn copy_rx(&mut self, to: &mut [u8]) -> usize {
        let mut n = 0;
        while n < to.len() {
            let Some(first) = &mut self.rx else { break };
            let part = first.len().min(to.len() - n);
            to[n..n + part].copy_from_slice(&first[..part]);
            n += part;
            first.advance(part);
            if first.is_empty() {
                self.rx = self.rx_more.as_mut().and_then(|more| more.pop_front());
            }
        }
        self.rx_queued -= n as u32;
        n
    }

    pub fn clear_rx(&mut self) {
        self.rx = None;
        if let Some(more) = &mut self.rx_more {
            more.clear();
        }
        self.rx_queued = 0;
    }

    /// Takes over what is to be sent.
    #[inline]
    pub fn set_tx(&mut self, first: Buf, second: Option<Buf>) {
        self.tx_ms = moment();
        self.tx = Some(first);
        if let Some(second) = second {
            self.message().second = Some(second);
        }
    }

    fn message(&mut self) -> &mut Message {
        let fresh = || {
            // SAFETY: all-zero bytes are valid for these C structures.
            let (header, iov) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
            Box::new(Extra::Send(Message { header, iov, second: None }))
        };
        let extra = self.extra.get_or_insert_with(fresh);
        if !matches!(**extra, Extra::Send(_)) {
            // Sends begin after the attempt to connect ended.
            *extra = fresh();
        }
        match &mut **extra {
            Extra::Send(message) => message,
            Extra::Connect(_) | Extra::Listening(_) => unreachable!("just replaced"),
        }
    }

    /// What comes after `tx`.
    #[inline]
    pub fn second(&self) -> Option<&Buf> {
        match self.extra.as_deref() {
            Some(Extra::Send(message)) => message.second.as_ref(),
            _ => None,
        }
    }

    #[inline]
    fn take_second(&mut self) -> Option<Buf> {
        match self.extra.as_deref_mut() {
            Some(Extra::Send(message)) => message.second.take(),
            _ => None,
        }
    }

    /// Drops what is not sent.
    pub fn clear_tx(&mut self) {
        self.tx = None;
        self.take_second();
    }

    /// Bytes handed over for sending and not yet accepted by the kernel.
    pub fn tx_left(&self) -> usize {
        self.tx.as_ref().map_or(0, |b| b.len()) + self.second().map_or(0, |b| b.len())
    }

    /// Accounts for bytes that the kernel accepted.
    #[inline]
    pub fn note_sent(&mut self, n: usize) {
        self.sent += n as u64;
        self.tx_ms = moment();
    }

    /// Accounts for `n` bytes sent; `true` when nothing is left, and the buffers are given back then.
    pub fn tx_advance(&mut self, mut n: usize) -> bool {
        self.note_sent(n);
        while let Some(buf) = &mut self.tx {
            if n < buf.len() {
                buf.advance(n);
                return false;
            }
            n -= buf.len();
            self.tx = self.take_second();
        }
        self.bits.clear(Bits::SENDING);
        true
    }

    /// What is left to send waits for the receiver, who may be slow: bulk buffers are too few for that.
    pub fn settle_tx(&mut self) {
        if let Some(buf) = &mut self.tx {
            buf.leave_bulk();
        }
        if let Some(Extra::Send(message)) = self.extra.as_deref_mut()
            && let Some(second) = &mut message.second
        {
            second.leave_bulk();
        }
    }

    /// A send failed: what was to be sent is dropped and the error kept for the next `poll_send_ready`.
    pub fn tx_failed(&mut self, errno: i32) {
        self.clear_tx();
        self.bits.clear(Bits::SENDING);
        self.bits.clear(Bits::SHUT_PENDING);
        self.tx_error = Errno::of(errno);
    }

    /// An attempt to connect ended with this `errno`, or with 0.
    pub fn connect_ended(&mut self, errno: i32) {
        self.bits.clear(Bits::CONNECTING);
        self.tx_error = Errno::of(errno);
    }

    /// From the second send on small segments must not wait for the acknowledgement of others.
    #[cold]
    pub fn set_nodelay(&mut self) {
        self.bits.clear(Bits::NODELAY_DUE);
        // It worked for the kernel's own connection, or makes nothing but latency worse.
        let _ = set::nodelay(self.fd, true);
    }

    /// Flags of the next send.
    pub fn send_flags(&self) -> i32 {
        libc::MSG_NOSIGNAL | if self.bits.has(Bits::MORE | Bits::LAST) { libc::MSG_MORE } else { 0 }
    }

    /// Tries to send what is left, and says how much that was. The error is the `errno`.
    #[inline]
    pub fn send_now(&mut self) -> (usize, Result<usize, i32>) {
        let flags = self.send_flags();
        match (&self.tx, self.second()) {
            (Some(one), None) => (one.len(), syscall::send(self.fd, one, flags)),
            _ => {
                let left = self.tx_left();
                let message = self.prepare_message();
                // SAFETY: the message points at the record's buffers, which stay during the call.
                (left, unsafe { syscall::sendmsg(self.fd, message, flags) })
            }
        }
    }

    /// Fills the boxed message with what is left to send and returns its address.
    pub fn prepare_message(&mut self) -> *const libc::msghdr {
        let iov_of = |b: &Buf| libc::iovec { iov_base: b.read_ptr().cast_mut().cast(), iov_len: b.len() };
        let first = self.tx.as_ref().map(iov_of);
        let message = self.message();
        let mut count = 0;
        for iov in first.into_iter().chain(message.second.as_ref().map(iov_of)) {
            message.iov[count] = iov;
            count += 1;
        }
        message.header.msg_iov = message.iov.as_mut_ptr();
        message.header.msg_iovlen = count;
        &message.header
    }
}

/// Address of a record. `Copy`, but only its owner and the driver use it; see the module's first page.
///
/// Always the canonical one: made by the table, or found again from a number ([`canonical`]). One that was derived from
/// a reference would lose its rights as soon as the record is reached in another way.
pub(crate) type SocketRef = NonNull<Socket>;

/// The address of the record that a token or a reference names.
#[inline]
pub(crate) fn canonical(address: usize) -> Option<SocketRef> {
    // The table exposed the addresses of its chunks.
    NonNull::new(std::ptr::with_exposed_provenance_mut(address))
}

impl Socket {
    /// The number that names the record, in tokens and lists.
    #[inline]
    pub fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// The record's canonical address.
    #[inline]
    pub fn canonical(&self) -> SocketRef {
        canonical(self.address()).expect("a reference is not null")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_stay_small() {
        assert_eq!(size_of::<Socket>(), 128);
    }

    #[test]
    fn partial_sends_advance_over_both_buffers() {
        let mut s = Socket::blank(0);
        s.set_tx(Buf::copy_of(b"head"), Some(Buf::copy_of(b"body")));
        s.bits.set(Bits::SENDING);
        assert!(!s.tx_advance(2));
        assert_eq!(s.tx_left(), 6);
        assert!(!s.tx_advance(3));
        assert_eq!(s.tx_left(), 3);
        assert!(s.tx_advance(3));
        assert_eq!((s.sent, s.tx_left()), (8, 0));
    }

    #[test]
    fn received_bytes_come_out_in_order_and_in_pieces() {
        let mut s = Socket::blank(0);
        for part in [&b"abc"[..], b"defg", b"h"] {
            s.push_rx(Buf::copy_of(part));
        }
        let mut all = Vec::new();
        while let Some(b) = s.pop_rx(2) {
            assert!(b.len() <= 2);
            all.extend_from_slice(&b);
        }
        assert_eq!(all, b"abcdefgh");
        assert_eq!(s.rx_queued, 0);
    }

    #[test]
    fn several_blocks_are_joined() {
        let mut s = Socket::blank(0);
        for part in [&b"abc"[..], b"defg", b"h"] {
            s.push_rx(Buf::copy_of(part));
        }
        assert_eq!(&s.pop_rx_joined(2).unwrap()[..], b"ab");
        assert_eq!(&s.pop_rx_joined(4).unwrap()[..], b"cdef");
        assert_eq!(&s.pop_rx_joined(100).unwrap()[..], b"gh");
        assert!(s.pop_rx_joined(100).is_none());
        assert_eq!(s.rx_queued, 0);
    }
}
