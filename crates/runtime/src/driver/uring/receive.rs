//! Receiving with io_uring, and not missing the end of what is received.
//!
//! The kernel completes a receive in flight when it is told of an event, and takes all events that came since it last
//! looked for one. Where it knows that nothing is left to read, it then goes back to waiting without asking the socket
//! (`msg_inq`: TCP since 6.5, unix sockets since 6.17). A receive that just delivered bytes may therefore have
//! swallowed the event of what came right behind them: a reset on TCP, any end on a unix socket. (An orderly end on TCP
//! counts as something left to read.) Arming a receive or a poll is different: the kernel looks at the socket's state
//! first and completes at once if there is something to tell. So:
//!
//! - The first receive of a socket is a single one. When somebody waits again, the next one is armed, and it looks.
//!   Many connections never need more, and then there is nothing to cancel when they are closed.
//! - From then on receives are multishot. When somebody waits on one that [delivered something](Bits::FED), a poll for
//!   the end of input and for errors is armed beside it ([`Op::Hangup`]), once: it stays until it has something to say,
//!   so that a connection that is kept alive pays for it once. When it fires, the socket is asked directly.
//! - Where receives fill the blocks of the ring ([`Bits::BULK`]), the blocks are what the data costs: then no receive is
//!   armed but a poll ([`Op::PollIn`]), which looks first, too, and what came is received directly, into a buffer that
//!   holds all of it. Multishot receives begin again when little came several times.
//! - A peer whose end was told may still break the connection, which matters to whoever works for it. While somebody waits
//!   for that, a poll for errors is armed ([`Op::Broken`]), a multishot one.
//!
//! The question can be asked directly, although a receive is in flight, because of `DEFER_TASKRUN`: the kernel takes
//! bytes out of the socket only while this thread is inside `io_uring_enter`. Once the completion queue was drained,
//! what the socket holds is what comes next.

use super::super::socket::{Bits, Errno, Op, Socket, moment};
use super::super::token;
use super::{GROUP, Uring};
use crate::buffer::{Buf, ring};
use crate::memory;
use crate::net::syscall;
use crate::task::current_task;
use io_uring::types::Fd;
use io_uring::{cqueue, opcode, squeue};
use std::io;
use std::task::Poll;

/// `IORING_RECVSEND_POLL_FIRST`: arm the poll without trying first.
const POLL_FIRST: u16 = 1;

/// What a poll says of a broken connection, whatever it was asked for.
const ERRORS: i32 = (libc::POLLERR | libc::POLLHUP) as i32;

/// In flight, these two together tell of everything.
const GUARDED: u8 = Op::Recv.bit() | Op::Hangup.bit();

impl Uring {
    #[inline]
    pub fn poll_recv(&mut self, s: &mut Socket, max: usize) -> Poll<io::Result<Buf>> {
        if let Some(buf) = s.pop_rx_joined(max) {
            return Poll::Ready(Ok(buf));
        }
        if let Some(verdict) = s.take_verdict() {
            return Poll::Ready(verdict);
        }
        let has_left = s.bits.has(Bits::STARVED) && s.bits.has(Bits::ANNOUNCED) && memory::is_short();
        if (s.bits.has(Bits::BULK) && is_ready(s)) || has_left {
            return self.recv_directly(s, max);
        }
        s.reader = current_task();
        self.arm_input(s);
        Poll::Pending
    }

    /// Receives with a call of our own, as nothing is in flight that would take what comes next.
    fn recv_directly(&mut self, s: &mut Socket, max: usize) -> Poll<io::Result<Buf>> {
        let Poll::Ready((mut buf, room)) = s.room(max) else {
            s.reader = current_task();
            if s.bits.has(Bits::ANNOUNCED) {
                return s.verdict_alone().map_or(Poll::Pending, Poll::Ready);
            }
            // Who waits for a buffer hears of the end all the same.
            self.arm_hangup(s);
            return Poll::Pending;
        };
        match syscall::recv(s.fd, &mut buf.unused_mut()[..room], 0) {
            Ok(0) => s.bits.set(Bits::ENDED),
            Ok(n) => {
                buf.commit(n);
                s.rx_ms = moment();
                s.note_received(n, room);
                if n < room {
                    // Nothing is left, and the poll that is armed when somebody waits again looks first.
                    s.bits.clear(Bits::READABLE);
                }
                return Poll::Ready(Ok(buf));
            }
            Err(libc::EAGAIN) => {
                s.bits.clear(Bits::READABLE);
                s.reader = current_task();
                self.arm_input(s);
                return Poll::Pending;
            }
            Err(errno) => s.rx_error = Errno::of(errno),
        }
        Poll::Ready(s.take_verdict().unwrap_or_else(|| Ok(Buf::empty())))
    }

    pub fn poll_readable(&mut self, s: &mut Socket) -> Poll<io::Result<()>> {
        if self.has_input(s) {
            return Poll::Ready(Ok(()));
        }
        s.reader = current_task();
        self.arm_input(s);
        Poll::Pending
    }

    #[inline]
    pub fn has_input(&mut self, s: &mut Socket) -> bool {
        s.rx.is_some() || s.has_verdict() || (s.bits.has(Bits::BULK) && self.looks_readable(s))
    }

    /// Whether something can be received directly.
    fn looks_readable(&mut self, s: &mut Socket) -> bool {
        if is_ready(s) && !s.look() {
            s.bits.clear(Bits::READABLE);
        }
        is_ready(s)
    }

    pub fn ask_input(&mut self, s: &mut Socket) -> bool {
        // What completed and was not handled yet may be this socket's.
        !self.ring.completion().is_empty() || s.look()
    }

    pub fn is_leaving(&mut self, s: &mut Socket) -> bool {
        s.reader = current_task();
        if s.has_verdict() || s.bits.has(Bits::ANNOUNCED) {
            // A peer that ended its direction may break the connection later, which no receive tells any more.
            if s.rx_error == Errno::NONE && !s.bits.has(Bits::BROKEN) {
                self.arm_broken(s);
            }
            return true;
        }
        if s.bits.has(Bits::BULK) && self.looks_readable(s) {
            // What comes first stays in the kernel: the end behind it is asked for by itself.
            self.arm_hangup(s);
        } else if s.rx_queued <= self.receive_ahead {
            // What comes first is received ahead, so that the end behind it is seen.
            self.arm_input(s);
        } else {
            self.arm_hangup(s);
        }
        false
    }

    /// Sees to it that whatever comes next is told: bytes, the end, or an error.
    #[inline]
    pub fn arm_input(&mut self, s: &mut Socket) {
        if s.ops & GUARDED != GUARDED {
            self.guard_input(s);
        }
        debug_assert!(will_tell(s), "an end would be missed: {:b} {:b}", s.ops, s.bits.0);
    }

    fn guard_input(&mut self, s: &mut Socket) {
        if s.ops & Op::Recv.bit() == 0 {
            if s.bits.has(Bits::STARVED) {
                return;
            }
            if s.bits.has(Bits::BULK) {
                self.want_input(s);
            } else {
                self.arm_recv(s);
            }
        } else if s.bits.has(Bits::FED) {
            self.arm_hangup(s);
        }
    }

    fn arm_hangup(&mut self, s: &mut Socket) {
        self.arm_poll(s, Op::Hangup, libc::POLLRDHUP);
    }

    /// The kernel tells every poll of an end, asked or not: a single one would say so again and again. One that goes on says
    /// it once, and then what changes.
    fn arm_broken(&mut self, s: &mut Socket) {
        if s.ops & Op::Broken.bit() == 0 {
            let entry = opcode::PollAdd::new(Fd(s.fd), 0).multi(true).build();
            s.ops |= Op::Broken.bit();
            self.push(entry.user_data(token(s, Op::Broken)));
        }
    }

    fn arm_recv(&mut self, s: &mut Socket) {
        let mut entry = if s.bits.has(Bits::SEASONED) {
            let mut entry = opcode::RecvMulti::new(Fd(s.fd), GROUP).build();
            if self.limits_receives {
                limit_total(&mut entry, self.receive_ahead);
                s.bits.set(Bits::LIMITED);
            }
            entry
        } else {
            let recv = opcode::Recv::new(Fd(s.fd), std::ptr::null_mut(), 0).buf_group(GROUP);
            recv.build().flags(squeue::Flags::BUFFER_SELECT)
        };
        if s.bits.has(Bits::EXPECT_DATA) {
            s.bits.clear(Bits::EXPECT_DATA);
        } else {
            poll_first(&mut entry);
        }
        s.bits.clear(Bits::FED);
        s.ops |= Op::Recv.bit();
        self.push(entry.user_data(token(s, Op::Recv)));
    }

    #[inline]
    pub(super) fn received(&mut self, s: &mut Socket, result: i32, flags: u32) {
        if let Some(bid) = cqueue::buffer_select(flags) {
            let len = result.max(0) as usize;
            let Some((buf, pressed)) = ring::with(|r| (r.take(bid, len), r.under_pressure())) else { return };
            if s.bits.has(Bits::CLOSING) || len == 0 {
                drop(buf);
            } else {
                s.note_received(len, buf.capacity());
                s.push_rx(if pressed { buf.into_owned() } else { buf });
            }
        }
        if result > 0 && s.ops & Op::Recv.bit() != 0 {
            s.bits.set(Bits::FED | Bits::SEASONED);
            if s.rx_queued > self.receive_ahead {
                self.cancel_recv(s);
            }
            s.wake_reader();
            return;
        }
        self.receive_ended(s, result);
    }

    /// The last completion of a receive: `result` bytes and no more of them, the end, or an error.
    fn receive_ended(&mut self, s: &mut Socket, result: i32) {
        let stopped = s.bits.has(Bits::RECV_CANCEL);
        let limited = s.bits.has(Bits::LIMITED);
        s.bits.clear(Bits::RECV_CANCEL | Bits::LIMITED | Bits::FED);
        if s.bits.has(Bits::CLOSING) {
            return;
        }
        match result {
            0 => s.bits.set(Bits::ENDED),
            n if n > 0 => s.bits.set(Bits::SEASONED),
            n => match -n {
                libc::ENOBUFS => {
                    self.ring_exhausted += 1;
                    ring::with(ring::RingBuffers::exhausted);
                    // Whoever stopped the receive waits for this, not for bytes.
                    if !stopped {
                        s.bits.set(Bits::STARVED);
                        self.starved.push_back(s.canonical());
                        return;
                    }
                }
                // The kernel does not know the limit, although it seemed to. Whoever waits asks again, without it.
                libc::EINVAL if limited => self.limits_receives = false,
                // It ended without a verdict on the stream. Whoever waits asks again and arms the next one.
                libc::ECANCELED | libc::EINTR | libc::EAGAIN => {}
                errno => s.rx_error = Errno::of(errno),
            },
        }
        s.wake_reader();
    }

    /// The poll for the end of input fired, or was cancelled.
    pub(super) fn hung_up(&mut self, s: &mut Socket, result: i32) {
        if s.bits.has(Bits::CLOSING) {
            return;
        }
        if result >= 0 && !s.has_verdict() {
            s.bits.set(Bits::ANNOUNCED);
            // Usually the receive says it, too, a moment later.
            self.hung.push(s.canonical());
        } else {
            s.wake_reader();
        }
    }

    /// The poll for errors behind the end of input fired, or was cancelled.
    pub(super) fn broken(&mut self, s: &mut Socket, result: i32) {
        if s.bits.has(Bits::CLOSING) {
            return;
        }
        // First it tells of the end, which is known.
        let is_error = result >= 0 && result & ERRORS != 0;
        if is_error {
            s.bits.set(Bits::BROKEN);
        }
        if is_error || s.ops & Op::Broken.bit() == 0 {
            s.wake_reader();
        }
    }

    /// Asks those sockets for their verdict whose end was announced and whose receive did not tell it. The completion
    /// queue was drained.
    pub(super) fn settle_hung(&mut self) {
        while let Some(socket) = self.hung.pop() {
            // SAFETY: the record was not being closed when it came into this list, and owners, who could close it, do
            // not run between that and this. No other reference to it exists.
            let s = unsafe { &mut *socket.as_ptr() };
            if s.has_verdict() {
                continue;
            }
            // The receive in flight brings what comes first, and whoever waits behind it arms the poll again.
            if !s.look_for_verdict() {
                // Not an end after all. Likewise.
                s.bits.clear(Bits::ANNOUNCED);
            }
            s.wake_reader();
        }
    }

    /// `true` once no receive is in flight. What it received stays queued.
    pub fn quiesce(&mut self, s: &mut Socket) -> bool {
        self.unstarve(s);
        if s.ops & Op::Recv.bit() == 0 {
            return true;
        }
        self.cancel_recv(s);
        s.reader = current_task();
        false
    }

    fn cancel_recv(&mut self, s: &mut Socket) {
        if !s.bits.has(Bits::RECV_CANCEL) {
            s.bits.set(Bits::RECV_CANCEL);
            self.cancel(s, Op::Recv);
        }
    }

    pub(super) fn unstarve(&mut self, s: &mut Socket) {
        if s.bits.has(Bits::STARVED) {
            let me = s.address();
            self.starved.retain(|other| other.as_ptr().addr() != me);
            s.bits.clear(Bits::STARVED);
        }
    }

    pub(super) fn rearm_starved(&mut self) {
        // Each at most once: one that is armed now may come back before the end of this round.
        for _ in 0..self.starved.len() {
            if ring::with(|r| r.has_posted()) != Some(true) {
                return;
            }
            let Some(socket) = self.starved.pop_front() else { return };
            // SAFETY: an owner that closes or releases its record takes it off this list first, and none runs now.
            let s = unsafe { &mut *socket.as_ptr() };
            s.bits.clear(Bits::STARVED);
            if s.ops & Op::Recv.bit() == 0 {
                // The data that found no block is still there: no need to wait for an event.
                s.bits.set(Bits::EXPECT_DATA);
                self.arm_recv(s);
            }
        }
    }

    /// Finds out whether the kernel knows limited receives (6.17): one that does not refuses the operation before it
    /// looks at the descriptor, which is none here.
    ///
    /// # Errors
    /// When the ring does not work at all.
    pub(super) fn probe_limit(&mut self) -> io::Result<()> {
        let mut entry = opcode::RecvMulti::new(Fd(-1), GROUP).build();
        limit_total(&mut entry, self.receive_ahead);
        self.push(entry.user_data(super::IGNORE));
        self.submitted = 0;
        self.ring.submit_and_wait(1)?;
        let answer = self.ring.completion().next();
        self.limits_receives = answer.is_some_and(|c| c.result() != -libc::EINVAL);
        Ok(())
    }
}

/// Whether a direct receive has a chance, and overtakes none that is in flight.
#[inline]
fn is_ready(s: &Socket) -> bool {
    s.bits.has(Bits::READABLE) && s.ops & Op::Recv.bit() == 0 && !s.bits.has(Bits::STARVED)
}

/// Whether something in flight, or a place in a list, makes sure that what comes next is told.
fn will_tell(s: &Socket) -> bool {
    let receiving = s.ops & Op::Recv.bit() != 0;
    s.bits.has(Bits::STARVED)
        || s.ops & GUARDED == GUARDED
        || s.ops & Op::PollIn.bit() != 0
        || receiving && (!s.bits.has(Bits::FED) || s.bits.has(Bits::RECV_CANCEL))
}

#[inline]
fn poll_first(entry: &mut squeue::Entry) {
    const { assert!(size_of::<squeue::Entry>() == 64) };
    // SAFETY: the entry is a transparent `io_uring_sqe`, whose 16-bit `ioprio` field lies at offset 2 and holds the
    // flags of receive operations.
    unsafe {
        let ioprio = (&raw mut *entry).cast::<u16>().add(1);
        *ioprio |= POLL_FIRST;
    }
}

#[inline]
fn limit_total(entry: &mut squeue::Entry, bytes: u32) {
    // SAFETY: the entry is a transparent `io_uring_sqe`, whose 32-bit `optlen` field lies at offset 44 and limits the
    // bytes of all shots of a receive together.
    unsafe { (&raw mut *entry).cast::<u32>().add(11).write(bytes) };
    #[cfg(test)]
    super::tests::play_old_kernel(entry);
}
