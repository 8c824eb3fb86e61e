//! The io_uring driver: one ring per thread, one `io_uring_enter` per round.
//!
//! - Receives are multishot and wait for an event first; the kernel picks blocks of the thread's receive ring.
//! - Sends, connects and closes are queued and submitted with the next poll, in the order in which they were made.
//! - At most one send per socket is in flight; `MSG_WAITALL` makes the kernel continue a partial one.
//!
//! Ownership of what an operation touches is described in [`super::socket`]. The ring is used by its thread alone
//! (`SINGLE_ISSUER`), and completions are produced only while the thread asks for them (`DEFER_TASKRUN`).

use super::socket::{Bits, Extra, Op, Socket, SocketRef, SocketTable};
use super::{DriverOptions, PollStats, Wait, token};
use crate::buffer::{Buf, ring};
use crate::clock;
use crate::net::syscall;
use crate::task::current_task;
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, cqueue, opcode, squeue};
use std::io;
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::task::Poll;

/// Token of operations whose outcome does not matter (cancel, close).
const IGNORE: u64 = 0;
/// Token of the wake-up event.
const WAKE: u64 = 8;
/// The buffer group of the thread's receive ring.
const GROUP: u16 = 0;
/// `IORING_RECVSEND_POLL_FIRST`: arm the poll without trying first.
const POLL_FIRST: u16 = 1;
/// `IORING_ENTER_GETEVENTS`.
const GETEVENTS: u32 = 1;
/// How often the end of a driver asks the kernel for the last completions.
const FINISH_ROUNDS: usize = 64;

pub(crate) struct Uring {
    ring: IoUring,
    wake: RawFd,
    wake_armed: bool,
    /// Receives that found the ring of blocks empty and wait for blocks.
    starved: Vec<SocketRef>,
    receive_ahead: u32,
    /// The kernel ends a multishot receive by itself after so many bytes (6.17). Without that, one that runs ahead is
    /// cancelled, by when it may have taken much more.
    limits_receives: bool,
    ring_exhausted: u64,
    submitted: u32,
}

impl Uring {
    /// # Errors
    /// When the kernel has no io_uring, forbids it, or lacks an operation that is needed (multishot receive: 6.0).
    pub fn new(opts: &DriverOptions, wake: RawFd) -> io::Result<Uring> {
        let ring = open(opts)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        // SEND_ZC came with 6.0, as did multishot receive, which no probe reports by itself.
        if !probe.is_supported(opcode::SendZc::CODE) {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "the kernel's io_uring is too old, 6.1 is needed",
            ));
        }
        // Saves the kernel a look-up per call; not having it changes nothing else.
        let _ = ring.submitter().register_ring_fd();
        let blocks = ring::RingBuffers::new(opts.ring_block_size, opts.ring_blocks)?;
        // SAFETY: the table is page-aligned, has this many entries, and stays mapped until `finish` unregistered it
        // or the ring is closed.
        unsafe {
            ring.submitter().register_buf_ring_with_flags(
                blocks.table(),
                ring::BLOCKS_MAX as u16,
                GROUP,
                0,
            )?;
        }
        if !ring::install(blocks) {
            return Err(io::Error::other("this thread has an io_uring driver already"));
        }
        Ok(Uring {
            ring,
            wake,
            wake_armed: false,
            starved: Vec::new(),
            limits_receives: true,
            receive_ahead: opts.receive_ahead.clamp(1, 1 << 30) as u32,
            ring_exhausted: 0,
            submitted: 0,
        })
    }

    pub fn ring_exhausted(&self) -> u64 {
        self.ring_exhausted
    }

    /// Queues an operation.
    ///
    /// The caller guarantees what `squeue::push` asks for: everything the entry points at stays valid until its last
    /// completion, which holds because it is owned by the record whose `ops` bit is set.
    #[inline]
    fn push(&mut self, entry: squeue::Entry) {
        loop {
            // SAFETY: see above.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                self.submitted += 1;
                return;
            }
            // The queue is full: hand it to the kernel now. Completions wait in their queue.
            if let Err(e) = self.ring.submit() {
                match e.raw_os_error() {
                    Some(libc::EINTR) => {}
                    // Short of memory for requests: let others run and free some.
                    Some(libc::EAGAIN | libc::EBUSY) => std::thread::yield_now(),
                    _ => panic!("io_uring: submission failed for good: {e}"),
                }
            }
        }
    }

    fn cancel(&mut self, s: &Socket, op: Op) {
        if s.ops & op.bit() != 0 {
            self.push(
                opcode::AsyncCancel::new(token(s, op))
                    .build()
                    .flags(squeue::Flags::SKIP_SUCCESS)
                    .user_data(IGNORE),
            );
        }
    }

    pub fn register(&mut self, s: &mut Socket) -> io::Result<()> {
        s.bits.set(Bits::REGISTERED | Bits::WRITABLE);
        if s.bits.has(Bits::LISTENER) {
            self.arm_watch(s);
        }
        Ok(())
    }

    pub fn unregister(&mut self, s: &mut Socket) {
        s.bits.clear(Bits::REGISTERED);
        self.cancel(s, Op::Watch);
    }

    fn arm_watch(&mut self, s: &mut Socket) {
        if s.ops & Op::Watch.bit() == 0 {
            let exclusive = if s.bits.has(Bits::LISTENER) { libc::EPOLLEXCLUSIVE } else { 0 };
            let entry =
                opcode::PollAdd::new(Fd(s.fd), (libc::EPOLLIN | exclusive) as u32).multi(true).build();
            s.ops |= Op::Watch.bit();
            self.push(entry.user_data(token(s, Op::Watch)));
        }
    }

    pub fn close(&mut self, s: &mut Socket) {
        // In queue order: a send that was only queued is tried before it is cancelled, and the close comes last.
        for op in [Op::Recv, Op::Send, Op::Connect, Op::PollIn, Op::PollOut, Op::Watch] {
            self.cancel(s, op);
        }
        let entry = opcode::Close::new(Fd(s.fd)).build();
        self.push(entry.flags(squeue::Flags::SKIP_SUCCESS).user_data(IGNORE));
        self.unstarve(s);
        if s.ops & Op::Send.bit() == 0 {
            s.clear_tx();
        }
        s.fd = -1;
    }

    #[inline]
    fn arm_recv(&mut self, s: &mut Socket) {
        if !s.bits.has(Bits::TYPED) {
            s.bits.set(Bits::TYPED);
            if is_unix(s.fd) {
                s.bits.set(Bits::LOCAL);
            }
        }
        let mut entry = opcode::RecvMulti::new(Fd(s.fd), GROUP).build();
        if s.bits.has(Bits::EXPECT_DATA) {
            s.bits.clear(Bits::EXPECT_DATA);
        } else {
            poll_first(&mut entry);
        }
        if self.limits_receives {
            limit_total(&mut entry, self.receive_ahead);
        }
        s.ops |= Op::Recv.bit();
        self.push(entry.user_data(token(s, Op::Recv)));
    }

    #[inline]
    pub fn poll_recv(&mut self, s: &mut Socket, max: usize) -> Poll<io::Result<Buf>> {
        if let Some(buf) = s.pop_rx_joined(max) {
            return Poll::Ready(Ok(buf));
        }
        if s.rx_error != 0 {
            // As with `recv`: an error is told once, after it the stream is at its end.
            s.bits.set(Bits::EOF);
            return Poll::Ready(Err(io::Error::from_raw_os_error(std::mem::take(&mut s.rx_error))));
        }
        if s.bits.has(Bits::EOF) {
            return Poll::Ready(Ok(Buf::empty()));
        }
        s.reader = current_task();
        self.arm_input(s);
        Poll::Pending
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
        s.rx.is_some() || s.rx_error != 0 || s.bits.has(Bits::EOF)
    }

    pub fn is_leaving(&mut self, s: &mut Socket) -> bool {
        s.reader = current_task();
        if s.rx_error != 0 || s.bits.has(Bits::EOF) {
            return true;
        }
        // What comes first is received ahead, so that the end behind it is seen.
        if s.rx_queued <= self.receive_ahead {
            self.arm_input(s);
        }
        false
    }

    #[inline]
    pub fn arm_input(&mut self, s: &mut Socket) {
        if s.ops & Op::Recv.bit() == 0 && !s.bits.has(Bits::STARVED) {
            self.arm_recv(s);
        }
    }

    pub fn want_input(&mut self, s: &mut Socket) {
        if s.bits.has(Bits::LISTENER) || s.ops & Op::Watch.bit() != 0 {
            return;
        }
        if s.ops & Op::PollIn.bit() == 0 {
            let events = libc::POLLIN | libc::POLLRDHUP;
            let entry = opcode::PollAdd::new(Fd(s.fd), events as u32).build();
            s.ops |= Op::PollIn.bit();
            self.push(entry.user_data(token(s, Op::PollIn)));
        }
    }

    pub fn want_output(&mut self, s: &mut Socket) {
        if s.ops & Op::PollOut.bit() == 0 {
            let entry = opcode::PollAdd::new(Fd(s.fd), libc::POLLOUT as u32).build();
            s.ops |= Op::PollOut.bit();
            self.push(entry.user_data(token(s, Op::PollOut)));
        }
    }

    /// `true` once no multishot receive is in flight. What it received stays queued.
    pub fn quiesce(&mut self, s: &mut Socket) -> bool {
        self.unstarve(s);
        if s.ops & Op::Recv.bit() == 0 {
            return true;
        }
        self.cancel_recv(s);
        s.reader = current_task();
        false
    }

    /// `true` once nothing is in flight; the last completion wakes the current task until then.
    pub fn detach(&mut self, s: &mut Socket) -> bool {
        let quiet = self.quiesce(s);
        for op in [Op::PollIn, Op::PollOut] {
            self.cancel(s, op);
        }
        s.reader = current_task();
        s.writer = current_task();
        quiet && s.ops == 0
    }

    fn unstarve(&mut self, s: &mut Socket) {
        if s.bits.has(Bits::STARVED) {
            let me = NonNull::from(&*s);
            self.starved.retain(|other| *other != me);
            s.bits.clear(Bits::STARVED);
        }
    }

    fn cancel_recv(&mut self, s: &mut Socket) {
        if !s.bits.has(Bits::RECV_CANCEL) {
            s.bits.set(Bits::RECV_CANCEL);
            self.cancel(s, Op::Recv);
        }
    }

    #[inline]
    pub fn start_send(&mut self, s: &mut Socket) {
        s.bits.set(Bits::SENDING);
        self.push_send(s);
    }

    #[inline]
    fn push_send(&mut self, s: &mut Socket) {
        let flags = s.send_flags() | libc::MSG_WAITALL;
        let entry = match (&s.tx, s.second()) {
            (Some(one), None) => {
                opcode::Send::new(Fd(s.fd), one.read_ptr(), one.len() as u32).flags(flags).build()
            }
            _ => opcode::SendMsg::new(Fd(s.fd), s.prepare_message()).flags(flags as u32).build(),
        };
        s.ops |= Op::Send.bit();
        self.push(entry.user_data(token(s, Op::Send)));
    }

    pub fn shutdown_write(&mut self, s: &mut Socket) -> io::Result<()> {
        syscall::shutdown_write(s.fd)
    }

    pub fn start_connect(&mut self, s: &mut Socket) -> io::Result<()> {
        let Some(Extra::Connect(address)) = s.extra.as_deref() else { return Ok(()) };
        let entry = opcode::Connect::new(Fd(s.fd), (&raw const address.storage).cast(), address.len).build();
        s.ops |= Op::Connect.bit();
        self.push(entry.user_data(token(s, Op::Connect)));
        Ok(())
    }

    pub fn poll(&mut self, wait: Wait, sockets: &mut SocketTable) -> io::Result<PollStats> {
        if !self.wake_armed {
            let entry = opcode::PollAdd::new(Fd(self.wake), libc::POLLIN as u32).multi(true).build();
            self.push(entry.user_data(WAKE));
            self.wake_armed = true;
        }
        if !self.starved.is_empty() {
            self.rearm_starved();
        }
        let submitted = std::mem::take(&mut self.submitted);
        let entered = self.enter(wait);
        clock::refresh();
        let entered = entered?;
        let events = self.drain(sockets);
        Ok(PollStats { events, submitted, entered })
    }

    #[inline]
    fn enter(&mut self, wait: Wait) -> io::Result<bool> {
        let (queued, must_enter) = {
            let sq = self.ring.submission();
            (sq.len() as u32, sq.taskrun() || sq.cq_overflow())
        };
        let wait = if self.ring.completion().is_empty() { wait } else { Wait::Now };
        let result = match wait {
            Wait::Now => {
                if queued == 0 && !must_enter {
                    return Ok(false);
                }
                // SAFETY: no argument is passed; the queue holds valid entries.
                unsafe { self.ring.submitter().enter::<libc::sigset_t>(queued, 0, GETEVENTS, None) }
            }
            Wait::Forever => self.ring.submitter().submit_and_wait(1),
            Wait::For(d) => {
                let time = Timespec::from(d);
                self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&time))
            }
        };
        match result {
            Ok(_) => Ok(true),
            Err(e) => match e.raw_os_error() {
                // The wait ended (ETIME), a signal came, or the completion queue must be drained first.
                Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY) => Ok(true),
                _ => Err(e),
            },
        }
    }

    fn drain(&mut self, sockets: &mut SocketTable) -> u32 {
        let mut events = 0;
        // The borrow of the completion queue must end before an entry is handled, which may queue operations; taking
        // them in batches keeps the shared head's update off every single one.
        let mut batch = [const { std::mem::MaybeUninit::<cqueue::Entry>::uninit() }; 64];
        loop {
            let entries = self.ring.completion().fill(&mut batch).iter();
            let count = entries.len();
            for entry in entries {
                self.complete(entry.user_data(), entry.result(), entry.flags(), sockets);
            }
            events += count as u32;
            if count < 64 {
                return events;
            }
        }
    }

    #[inline]
    fn complete(&mut self, token: u64, result: i32, flags: u32, sockets: &mut SocketTable) {
        if token < 64 {
            if token == WAKE && !cqueue::more(flags) {
                self.wake_armed = false;
            }
            return;
        }
        let Some(op) = Op::from_token(token) else { return };
        let socket = (token & !63) as *mut Socket;
        // SAFETY: a token of an operation in flight is the address of a record whose `ops` bit keeps it alive; the
        // owner's references do not outlive its calls into the driver, and it is not running now.
        let s = unsafe { &mut *socket };
        if !cqueue::more(flags) {
            s.ops &= !op.bit();
        }
        match op {
            Op::Recv => self.received(s, result, flags),
            Op::Send => self.sent(s, result),
            Op::Connect => {
                s.extra = None;
                s.bits.clear(Bits::CONNECTING);
                s.tx_error = if result < 0 { -result } else { 0 };
                s.wake_writer();
            }
            Op::PollIn => {
                s.bits.set(Bits::READABLE);
                s.wake_reader();
            }
            Op::PollOut => {
                s.bits.set(Bits::WRITABLE);
                s.wake_writer();
            }
            Op::Watch => {
                s.bits.set(Bits::READABLE);
                s.wake_reader();
                let over = s.ops & Op::Watch.bit() == 0;
                if over && s.bits.has(Bits::REGISTERED) && !s.bits.has(Bits::CLOSING) {
                    self.arm_watch(s);
                }
            }
        }
        if s.bits.has(Bits::CLOSING) && s.ops == 0 {
            sockets.remove(NonNull::from(s));
        }
    }

    #[inline]
    fn received(&mut self, s: &mut Socket, result: i32, flags: u32) {
        if let Some(bid) = cqueue::buffer_select(flags) {
            let len = result.max(0) as usize;
            let Some((buf, pressed)) = ring::with(|r| (r.take(bid, len), r.under_pressure())) else { return };
            if s.bits.has(Bits::CLOSING) || len == 0 {
                drop(buf);
            } else {
                s.push_rx(if pressed { buf.into_owned() } else { buf });
            }
        }
        if s.ops & Op::Recv.bit() == 0 {
            s.bits.clear(Bits::RECV_CANCEL);
        }
        if s.bits.has(Bits::CLOSING) {
            return;
        }
        match result {
            0 => s.bits.set(Bits::EOF),
            n if n > 0 => {
                // Seen on Linux 6.18: when the end of a unix stream comes together with its last bytes, the receive
                // that is in flight is not told of it.
                if s.bits.has(Bits::LOCAL) && at_end(s.fd) {
                    s.bits.set(Bits::EOF);
                }
                if s.rx_queued > self.receive_ahead && s.ops & Op::Recv.bit() != 0 {
                    self.cancel_recv(s);
                }
            }
            n => match -n {
                libc::ENOBUFS => {
                    self.ring_exhausted += 1;
                    ring::with(ring::RingBuffers::exhausted);
                    if !s.bits.has(Bits::STARVED) {
                        s.bits.set(Bits::STARVED);
                        self.starved.push(NonNull::from(s));
                    }
                    return;
                }
                // The kernel does not know the limit.
                libc::EINVAL if self.limits_receives => self.limits_receives = false,
                // It ended without a verdict on the stream. Whoever waits asks again and arms the next one.
                libc::ECANCELED | libc::EINTR | libc::EAGAIN => {}
                errno => s.rx_error = errno,
            },
        }
        s.wake_reader();
    }

    #[inline]
    fn sent(&mut self, s: &mut Socket, result: i32) {
        if s.bits.has(Bits::CLOSING) {
            s.clear_tx();
            return;
        }
        if result >= 0 {
            if !s.tx_advance(result as usize) {
                // Short despite MSG_WAITALL: a signal or memory pressure. Go on where it stopped.
                self.push_send(s);
                return;
            }
        } else if matches!(-result, libc::EAGAIN | libc::EINTR) {
            self.push_send(s);
            return;
        } else {
            s.tx_failed(-result);
        }
        if s.bits.has(Bits::SHUT_PENDING) {
            s.bits.clear(Bits::SHUT_PENDING);
            let _ = syscall::shutdown_write(s.fd);
        }
        s.wake_writer();
    }

    fn rearm_starved(&mut self) {
        while ring::with(|r| r.has_posted()) == Some(true) {
            let Some(socket) = self.starved.pop() else { return };
            // SAFETY: an owner that closes its record takes it off this list first.
            let s = unsafe { &mut *socket.as_ptr() };
            s.bits.clear(Bits::STARVED);
            if s.ops & Op::Recv.bit() == 0 {
                // The data that found no block is still there: no need to wait for an event.
                s.bits.set(Bits::EXPECT_DATA);
                self.arm_recv(s);
            }
        }
    }

    /// Ends the driver: cancels everything and collects the completions, so that nothing the kernel may still touch
    /// is freed. Records of sockets that still have an owner stay with it.
    pub fn finish(&mut self, sockets: &mut SocketTable) {
        let all = io_uring::types::CancelBuilder::any();
        let entry = opcode::AsyncCancel2::new(all).build();
        self.push(entry.user_data(IGNORE));
        for _ in 0..FINISH_ROUNDS {
            let _ = self.enter(Wait::For(std::time::Duration::from_millis(1)));
            if self.drain(sockets) == 0 {
                break;
            }
        }
        let _ = self.ring.submitter().unregister_buf_ring(GROUP);
        ring::uninstall();
    }
}

fn open(opts: &DriverOptions) -> io::Result<IoUring> {
    let build = |no_array: bool| {
        let mut builder = IoUring::builder();
        builder
            .setup_cqsize(opts.completion_entries)
            .setup_clamp()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_coop_taskrun()
            .setup_submit_all();
        if no_array {
            builder.setup_no_sqarray();
        }
        builder.build(opts.submission_entries)
    };
    // NO_SQARRAY came with 6.6.
    build(true).or_else(|_| build(false)).map_err(|e| {
        let why = match e.raw_os_error() {
            Some(libc::ENOSYS) => "the kernel has no io_uring",
            Some(libc::EPERM) => "io_uring is forbidden here (see the sysctl kernel.io_uring_disabled)",
            Some(libc::EINVAL) => "the kernel's io_uring is too old, 6.1 is needed",
            _ => return e,
        };
        let kind = if e.raw_os_error() == Some(libc::EPERM) { e.kind() } else { io::ErrorKind::Unsupported };
        io::Error::new(kind, why)
    })
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
}

impl std::ops::BitOr for Bits {
    type Output = Bits;
    fn bitor(self, other: Bits) -> Bits {
        Bits(self.0 | other.0)
    }
}
/// Whether a descriptor is a unix socket.
fn is_unix(fd: RawFd) -> bool {
    let mut domain: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the pointers describe `domain`, which the kernel fills with at most `len` bytes.
    let failed = unsafe {
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_DOMAIN, (&raw mut domain).cast(), &mut len)
    };
    failed == 0 && domain == libc::AF_UNIX
}

/// Whether all input was received and the peer will send no more.
fn at_end(fd: RawFd) -> bool {
    let mut byte = 0u8;
    // SAFETY: the pointer and the length describe `byte`.
    let n = unsafe { libc::recv(fd, (&raw mut byte).cast(), 1, libc::MSG_PEEK | libc::MSG_DONTWAIT) };
    n == 0
}
