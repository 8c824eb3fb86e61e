//! The io_uring driver: one ring per thread, one `io_uring_enter` per round.
//!
//! - Receives wait for an event first; the kernel picks blocks of the thread's receive ring. See [`receive`].
//! - Sends, connects and closes are queued and submitted with the next poll, in the order in which they were made.
//!   Connections to this machine are made at once.
//! - At most one send per socket is in flight; `MSG_WAITALL` makes the kernel continue a partial one. Much at once
//!   ([`DIRECT_SEND`]) is sent at once, while it is in the processor's cache, and so is what would be alone in the queue
//!   ([`LONE_EVENTS`]); only what the kernel has no room for is queued then.
//!
//! Ownership of what an operation touches is described in [`super::socket`]. The ring is used by its thread alone
//! (`SINGLE_ISSUER`), and completions are produced only while the thread asks for them (`DEFER_TASKRUN`).
//!
//! # Kernels
//!
//! Known from the kernel's history; only 6.18 was at hand to run the tests on.
//!
//! | Kernel | What it lacks, and what happens then |
//! |---|---|
//! | before 6.1 | `DEFER_TASKRUN`: opening the ring fails, `auto` takes epoll |
//! | 6.1 | `NO_SQARRAY` (6.6): the ring is opened again without it. A receive goes on until nothing is left, so its own way to miss an end is not there yet |
//! | 6.6, 6.8, 6.12 | the limit on a multishot receive (6.17): found out once, by [`Uring::probe_limit`], as such kernels answer `EINVAL`. A receive that runs too far ahead is cancelled instead, by when it may have taken more |
//! | 6.17, 6.18 | nothing. Unix sockets now say how much is left, and so their ends can be missed as resets on TCP are since 6.5; see [`receive`] |
//!
//! Containers often forbid io_uring altogether, by `EPERM` or `ENOSYS`; `auto` takes epoll then, too.

mod receive;
#[cfg(test)]
mod tests;

use super::socket::{Bits, ConnectAddress, Extra, Listening, Op, Socket, SocketRef, canonical};
use super::table::SocketTable;
use super::{Alarm, DriverOptions, PollStats, Wait, token};
use crate::buffer::ring;
use crate::clock;
use crate::net::{descriptor, syscall};
use crate::task::current_task;
use io_uring::types::{Fd, TimeoutFlags, Timespec};
use io_uring::{IoUring, Probe, cqueue, opcode, squeue};
use std::collections::VecDeque;
use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

/// Token of operations whose outcome does not matter (cancel, close).
const IGNORE: u64 = 0;
/// Token of the wake-up event.
const WAKE: u64 = 8;
/// Token of the timer.
const ALARM: u64 = 16;
/// The buffer group of the thread's receive ring.
const GROUP: u16 = 0;
/// `IORING_ENTER_GETEVENTS`.
const GETEVENTS: u32 = 1;
/// Sends of at least so many bytes are tried directly: what saving a call would gain is less than what it costs to bring
/// the bytes back into the cache, and their buffer is free for the next receive.
const DIRECT_SEND: usize = 8192;
/// After a poll that brought no more events than this, what is sent would be alone when it is submitted: a call for it costs
/// less than its way through the ring, and leaves no completion that the next wait would end for.
const LONE_EVENTS: u32 = 1;
/// How often the end of a driver asks the kernel for the last completions.
const FINISH_ROUNDS: usize = 64;
/// How long each of them waits at most, in nanoseconds.
const FINISH_WAIT_NS: u64 = 1_000_000;
/// How often a ring is asked for again that the kernel has no memory for, and how long after.
const MEMORY_RETRIES: u32 = 10;
const MEMORY_PAUSE: Duration = Duration::from_millis(50);

pub(crate) struct Uring {
    ring: IoUring,
    wake: RawFd,
    wake_armed: bool,
    /// Receives that found the ring of blocks empty and wait for blocks.
    starved: VecDeque<SocketRef>,
    /// Sockets whose end was announced in this poll.
    hung: Vec<SocketRef>,
    receive_ahead: u32,
    /// The kernel ends a multishot receive by itself after so many bytes (6.17). Without that, one that runs ahead is
    /// cancelled, by when it may have taken much more.
    limits_receives: bool,
    ring_exhausted: u64,
    submitted: u32,
    /// The last poll brought [`LONE_EVENTS`] at most.
    is_quiet: bool,
    alarm: Alarm,
    /// What the kernel reads when the timer is set.
    alarm_time: Timespec,
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
            return Err(io::Error::other("buffers of this thread's last io_uring are still in use"));
        }
        let mut uring = Uring {
            ring,
            wake,
            wake_armed: false,
            starved: VecDeque::new(),
            hung: Vec::new(),
            limits_receives: false,
            receive_ahead: opts.receive_ahead.clamp(1, 1 << 30) as u32,
            ring_exhausted: 0,
            submitted: 0,
            is_quiet: false,
            alarm: Alarm::UNSET,
            alarm_time: Timespec::new(),
        };
        if let Err(e) = uring.probe_limit() {
            ring::uninstall();
            return Err(e);
        }
        Ok(uring)
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
            self.make_room();
        }
    }

    /// The queue is full: hands it to the kernel now. Completions wait in their queue.
    #[cold]
    fn make_room(&mut self) {
        if let Err(e) = self.ring.submit() {
            match e.raw_os_error() {
                Some(libc::EINTR) => {}
                // Short of memory for requests: let others run and free some.
                Some(libc::EAGAIN | libc::EBUSY) => std::thread::yield_now(),
                _ => panic!("io_uring: submission failed for good: {e}"),
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
        self.unstarve(s);
        self.cancel(s, Op::Watch);
    }

    fn arm_watch(&mut self, s: &mut Socket) {
        if s.ops & Op::Watch.bit() == 0 {
            // Of several threads one is enough, but only where it can pass on what it does not use.
            let (fd, exclusive) = match s.extra.as_deref() {
                Some(Extra::Listening(Listening { events: Some(events), .. })) => {
                    (events.fd(), libc::EPOLLEXCLUSIVE)
                }
                _ => (s.fd, 0),
            };
            let entry = opcode::PollAdd::new(Fd(fd), (libc::EPOLLIN | exclusive) as u32).multi(true).build();
            s.ops |= Op::Watch.bit();
            self.push(entry.user_data(token(s, Op::Watch)));
        }
    }

    pub fn close(&mut self, s: &mut Socket) {
        if s.bits.has(Bits::PROMPT) {
            let _ = syscall::shutdown_write(s.fd);
        }
        // In queue order: a send that was only queued is tried before it is cancelled, and the close comes last.
        for op in Op::ALL {
            self.cancel(s, op);
        }
        if !s.leave_shared() {
            let entry = opcode::Close::new(Fd(s.fd)).build();
            self.push(entry.flags(squeue::Flags::SKIP_SUCCESS).user_data(IGNORE));
        }
        self.unstarve(s);
        if s.ops & Op::Send.bit() == 0 {
            s.clear_tx();
        }
        s.fd = -1;
    }

    pub fn want_input(&mut self, s: &mut Socket) {
        if s.bits.has(Bits::LISTENER) || s.ops & Op::Watch.bit() != 0 {
            return;
        }
        self.arm_poll(s, Op::PollIn, libc::POLLIN | libc::POLLRDHUP);
    }

    pub fn want_output(&mut self, s: &mut Socket) {
        self.arm_poll(s, Op::PollOut, libc::POLLOUT);
    }

    /// Sees to it that `op` tells of one of these events, or of an error.
    fn arm_poll(&mut self, s: &mut Socket, op: Op, events: i16) {
        if s.ops & op.bit() == 0 {
            let entry = opcode::PollAdd::new(Fd(s.fd), events as u32).build();
            s.ops |= op.bit();
            self.push(entry.user_data(token(s, op)));
        }
    }

    /// `true` once nothing is in flight; the last completion wakes the current task until then.
    pub fn detach(&mut self, s: &mut Socket) -> bool {
        let quiet = self.quiesce(s);
        for op in [Op::PollIn, Op::PollOut, Op::Hangup, Op::Broken] {
            self.cancel(s, op);
        }
        s.reader = current_task();
        s.writer = current_task();
        quiet && s.ops == 0
    }

    #[inline]
    pub fn start_send(&mut self, s: &mut Socket) {
        s.bits.set(Bits::SENDING);
        if self.is_quiet || s.bits.has(Bits::LAST) || s.tx_left() >= DIRECT_SEND {
            return self.send_at_once(s);
        }
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

    /// Much is sent while it is in the cache, and what has no company needs no queue. What is sent last is sent at once,
    /// too: the close follows in this turn, and its segment shall take the data with it. (The kernel has a shutdown that
    /// could be linked to a send, but runs it on a thread of its own.)
    fn send_at_once(&mut self, s: &mut Socket) {
        match s.send_now() {
            (_, Err(libc::EAGAIN)) => self.push_send(s),
            (_, Err(errno)) => s.tx_failed(errno),
            (_, Ok(n)) if s.tx_advance(n) => {}
            _ => {
                s.settle_tx();
                self.push_send(s);
            }
        }
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

    /// Connects to this machine, whose kernel plays both sides within the call. It says that the attempt is under way all the
    /// same, but knows the peer then, unless it was refused or the listener's queue is full.
    pub fn connect_here(&mut self, s: &mut Socket, address: &ConnectAddress) {
        match syscall::connect(s.fd, address) {
            Err(libc::EINPROGRESS) if descriptor::peer_addr(s.fd).is_err() => self.want_output(s),
            Ok(_) | Err(libc::EINPROGRESS) => s.connect_ended(0),
            Err(errno) => s.connect_ended(errno),
        }
    }

    #[inline]
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
        let mut events = self.drain(sockets);
        if !self.hung.is_empty() {
            // What was queued meanwhile may have filled the submission queue and completed at once.
            while !self.ring.completion().is_empty() {
                events += self.drain(sockets);
            }
            self.settle_hung();
        }
        self.is_quiet = events <= LONE_EVENTS;
        Ok(PollStats { events, submitted, entered })
    }

    /// Has the timer end the next wait by then. The kernel reads the time when the entry is submitted, which the next call
    /// does.
    fn set_alarm(&mut self, by_ns: u64) {
        let is_set = self.alarm.at_ns != u64::MAX;
        if !self.alarm.must_move(by_ns) {
            return;
        }
        self.alarm_time = Timespec::from(Duration::from_nanos(by_ns));
        let (time, flags) = (&raw const self.alarm_time, TimeoutFlags::ABS);
        self.push(match is_set {
            false => opcode::Timeout::new(time).flags(flags).build().user_data(ALARM),
            // If it just went off there is nothing to move, and its completion ends the wait.
            true => opcode::TimeoutUpdate::new(ALARM, time)
                .flags(flags)
                .build()
                .flags(squeue::Flags::SKIP_SUCCESS)
                .user_data(IGNORE),
        });
    }

    #[inline]
    fn enter(&mut self, wait: Wait) -> io::Result<bool> {
        let wait = if self.ring.completion().is_empty() { wait } else { Wait::Now };
        if let Wait::Until(at_ns) = wait {
            self.set_alarm(at_ns);
        }
        let (queued, must_enter) = {
            let sq = self.ring.submission();
            (sq.len() as u32, sq.taskrun() || sq.cq_overflow())
        };
        let result = match wait {
            Wait::Now => {
                if queued == 0 && !must_enter {
                    return Ok(false);
                }
                // SAFETY: no argument is passed; the queue holds valid entries.
                unsafe { self.ring.submitter().enter::<libc::sigset_t>(queued, 0, GETEVENTS, None) }
            }
            Wait::Until(_) | Wait::Forever => self.ring.submitter().submit_and_wait(1),
        };
        match result {
            Ok(_) => Ok(true),
            Err(e) => match e.raw_os_error() {
                // A signal came, or the completion queue must be drained first.
                Some(libc::EINTR | libc::EAGAIN | libc::EBUSY) => Ok(true),
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
                let told = self.complete(entry.user_data(), entry.result(), entry.flags(), sockets);
                events += u32::from(told);
            }
            if count < 64 {
                return events;
            }
        }
    }

    /// False when nothing but time passed.
    #[inline]
    fn complete(&mut self, token: u64, result: i32, flags: u32, sockets: &mut SocketTable) -> bool {
        if token < 64 {
            match token {
                WAKE if !cqueue::more(flags) => self.wake_armed = false,
                ALARM => self.alarm.went_off(),
                _ => {}
            }
            return token != ALARM;
        }
        let Some(op) = Op::from_token(token) else { return true };
        let Some(socket) = canonical((token & !63) as usize) else { return true };
        // SAFETY: a token of an operation in flight is the address of a record whose `ops` bit keeps it alive; the
        // owner's references do not outlive its calls into the driver, and it is not running now.
        let s = unsafe { &mut *socket.as_ptr() };
        if !cqueue::more(flags) {
            s.ops &= !op.bit();
        }
        match op {
            Op::Recv => self.received(s, result, flags),
            Op::Send => self.sent(s, result),
            Op::Connect => {
                s.extra = None;
                s.connect_ended((-result).max(0));
                s.wake_writer();
            }
            Op::PollIn => {
                s.bits.set(Bits::READABLE);
                s.wake_reader();
            }
            Op::PollOut => {
                if s.bits.has(Bits::CONNECTING) && !s.bits.has(Bits::CLOSING) {
                    s.connect_ended(syscall::take_error(s.fd));
                }
                s.bits.set(Bits::WRITABLE);
                s.wake_writer();
            }
            Op::Watch => {
                s.bits.set(Bits::READABLE);
                s.wake_reader();
                let over = s.ops & Op::Watch.bit() == 0;
                if over && s.bits.has(Bits::REGISTERED) && !s.bits.has(Bits::CLOSING) {
                    self.arm_watch(s);
                } else if over
                    && let Some(Extra::Listening(Listening { events: Some(events), .. })) = s.extra.as_deref()
                {
                    // Until now a connection may have woken this thread, which waits no longer, in place of another.
                    events.again();
                }
            }
            Op::Hangup => self.hung_up(s, result),
            Op::Broken => self.broken(s, result),
        }
        if s.bits.has(Bits::CLOSING) && s.ops == 0 {
            sockets.remove(socket);
        }
        true
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

    /// Ends the driver: cancels everything and collects the completions, so that nothing the kernel may still touch
    /// is freed. Records of sockets that still have an owner stay with it.
    pub fn finish(&mut self, sockets: &mut SocketTable) {
        let all = io_uring::types::CancelBuilder::any();
        let entry = opcode::AsyncCancel2::new(all).build();
        self.push(entry.user_data(IGNORE));
        for _ in 0..FINISH_ROUNDS {
            let _ = self.enter(Wait::Until(clock::precise_ns() + FINISH_WAIT_NS));
            if self.drain(sockets) == 0 {
                break;
            }
        }
        self.hung.clear();
        self.starved.clear();
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
    let either = || build(true).or_else(|_| build(false));
    let mut made = either();
    // What rings of programs that ended had is given back a little later.
    for _ in 0..MEMORY_RETRIES {
        match &made {
            Err(e) if e.raw_os_error() == Some(libc::ENOMEM) => std::thread::sleep(MEMORY_PAUSE),
            _ => break,
        }
        made = either();
    }
    made.map_err(|e| {
        let why = match e.raw_os_error() {
            Some(libc::ENOSYS) => "the kernel has no io_uring",
            Some(libc::EPERM) => "io_uring is forbidden here (see the sysctl kernel.io_uring_disabled)",
            Some(libc::EINVAL) => "the kernel's io_uring is too old, 6.1 is needed",
            Some(libc::ENOMEM) => {
                "the kernel has no memory for an io_uring now; 'tune.io.driver epoll' needs none"
            }
            _ => return e,
        };
        let passing = matches!(e.raw_os_error(), Some(libc::EPERM | libc::ENOMEM));
        let kind = if passing { e.kind() } else { io::ErrorKind::Unsupported };
        io::Error::new(kind, why)
    })
}

impl std::ops::BitOr for Bits {
    type Output = Bits;
    fn bitor(self, other: Bits) -> Bits {
        Bits(self.0 | other.0)
    }
}
