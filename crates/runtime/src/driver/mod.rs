//! The I/O drivers: io_uring, epoll, and a simulated network, behind one seam.
//!
//! A thread has one driver, installed with [`install`] and reached with [`with`]. The scheduler calls
//! [`Driver::poll`] once per round; everything else goes through `crate::net`. Whatever the driver, the same
//! calls have the same observable results; what differs is when system calls are made:
//!
//! | | epoll | io_uring |
//! |---|---|---|
//! | receive | `recv` at once when an event said so | multishot, into the thread's ring of blocks; bulk as with epoll |
//! | send | `send` at once | queued, submitted with the next poll; at once if it is 8 kB or more, or would be alone there |
//! | connect | `connect` at once; to this machine it has ended with the call | queued; at once to this machine |
//! | room to send | registered with the poller when there was none for the first time | a poll when there is none |
//! | accept | `accept4` at once when an event said so | the same, the event from a multishot poll |
//! | last send | `send` at once, held back until the close that follows | the same |
//! | close | at once, or the socket is kept for a connection of its kind (`spare`) | queued behind what is in flight, and what is in flight is cancelled; the end of a connection is said at once where that is asked for; kept likewise |
//!
//! A deadline that moves with each round needs no timer of its own for each wait: there is one timer, which stays as it is when
//! the next wait may last longer ([`Alarm`]). What it costs is a wait that ends for nothing now and then.
//!
//! Accepting goes through readiness in both: a multishot accept would take connections out of the backlog that
//! nobody asked for yet, which `maxconn`, a pause and a reload must not do, and would need a call per connection
//! for the peer's address anyway.

pub(crate) mod epoll;
pub mod sim;
pub(crate) mod socket;
mod spare;
mod table;
pub(crate) mod uring;

use crate::buffer::{Buf, pool, ring};
use crate::net::datagram::Outbox;
use crate::net::options::set;
use crate::net::port::Events;
use crate::net::syscall;
use crate::net::{SockAddr, SocketId};
use crate::pool::Stock;
use crate::task::{TaskId, current_task};
use socket::{Bits, ConnectAddress, Extra, Listening, Op, Socket, SocketRef};
use spare::Spares;
use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use table::SocketTable;

/// Which driver to use.
#[derive(Clone, Debug, Default)]
pub enum DriverKind {
    /// io_uring where the kernel offers all that is needed, else epoll.
    #[default]
    Auto,
    /// io_uring, or an error.
    Uring,
    /// epoll.
    Epoll,
    /// An in-memory network in virtual time; see [`sim`].
    Sim(sim::Network),
}

/// Settings of a driver. The defaults are what measurements favoured.
#[derive(Clone, Debug)]
pub struct DriverOptions {
    /// Submission queue entries (io_uring), a power of two.
    pub submission_entries: u32,
    /// Completion queue entries (io_uring), a power of two of at least twice the above.
    pub completion_entries: u32,
    /// Bytes per block of the receive ring (io_uring).
    pub ring_block_size: usize,
    /// Blocks that are lent to the kernel at first (io_uring); doubles whenever they run out, up to 4096.
    pub ring_blocks: usize,
    /// Events taken per `epoll_wait` (`tune.maxpollevents`).
    pub events_max: usize,
    /// Most bytes that are received ahead of the task that takes them, per connection, before the receive is
    /// paused (io_uring).
    pub receive_ahead: usize,
}

impl Default for DriverOptions {
    fn default() -> Self {
        DriverOptions {
            submission_entries: 4096,
            completion_entries: 32_768,
            ring_block_size: 4096,
            ring_blocks: 64,
            events_max: 200,
            receive_ahead: 32_768,
        }
    }
}

/// How long a poll may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Not at all.
    Now,
    /// At most until this moment of [`clock::precise_ns`]. It may end earlier, without an event.
    Until(u64),
    /// Until something happens.
    Forever,
}

/// When the one timer of a driver will go off.
#[derive(Debug)]
struct Alarm {
    at_ns: u64,
}

impl Alarm {
    const UNSET: Alarm = Alarm { at_ns: u64::MAX };

    /// It has to go off by then: true when it must be set anew for that, which is taken for done.
    #[inline]
    fn must_move(&mut self, by_ns: u64) -> bool {
        let moves = by_ns < self.at_ns;
        self.at_ns = self.at_ns.min(by_ns);
        moves
    }

    /// It went off.
    fn went_off(&mut self) {
        *self = Alarm::UNSET;
    }
}

/// What one poll did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PollStats {
    /// Events or completions handled.
    pub events: u32,
    /// Operations submitted (io_uring).
    pub submitted: u32,
    /// Whether the kernel was asked at all.
    pub entered: bool,
}

/// Sums since the driver was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriverStats {
    /// Polls that asked the kernel.
    pub polls: u64,
    /// Events or completions handled.
    pub events: u64,
    /// Operations submitted (io_uring).
    pub submitted: u64,
    /// Receives that found no block in the ring (io_uring).
    pub ring_exhausted: u64,
    /// Sockets registered now.
    pub sockets: usize,
}

enum Inner {
    Uring(Box<uring::Uring>),
    Epoll(epoll::Epoll),
    Sim(sim::SimDriver),
}

/// A thread's I/O driver.
pub struct Driver {
    inner: Inner,
    sockets: SocketTable,
    /// Sockets that are open, but for those that listen, which threads share.
    open: usize,
    /// Of connections on which something is said, and of those on which nothing is.
    spares: [Spares; 2],
    /// Datagram sockets with something queued for the end of the round.
    outboxes: Vec<Rc<RefCell<Outbox>>>,
    wake: Arc<OwnedFd>,
    stats: DriverStats,
    /// Last: what comes before is gone when the thread may have another driver.
    _only: Only,
}

/// Runs the same method on whichever driver there is.
macro_rules! each {
    ($self:expr, $d:ident => $e:expr) => {
        match &mut $self.inner {
            Inner::Uring($d) => $e,
            Inner::Epoll($d) => $e,
            Inner::Sim($d) => $e,
        }
    };
}

impl Driver {
    /// Opens a driver. It stays on the thread that opens it, which has no other one meanwhile: sockets and buffers find
    /// their driver through the thread, and would take a second one for theirs.
    ///
    /// # Errors
    /// When this thread has a driver, or sockets of one that ended. When the kernel refuses: for [`DriverKind::Uring`] also
    /// when a needed feature is missing, or when buffers of this thread's last ring are in use.
    pub fn new(kind: DriverKind, opts: &DriverOptions) -> io::Result<Driver> {
        Driver::woken_by(&RemoteWaker::new()?, kind, opts)
    }

    /// The same, woken by what may be there already.
    pub(crate) fn woken_by(
        waker: &RemoteWaker,
        kind: DriverKind,
        opts: &DriverOptions,
    ) -> io::Result<Driver> {
        let only = Only::claim()?;
        // What woke the thread before is not for this one, which looks at its mailbox before it sleeps for the first time.
        waker.drain();
        let wake = waker.event.clone();
        let inner = match kind {
            DriverKind::Uring => Inner::Uring(Box::new(uring::Uring::new(opts, wake.as_raw_fd())?)),
            DriverKind::Epoll => Inner::Epoll(epoll::Epoll::new(opts, wake.as_raw_fd())?),
            DriverKind::Sim(network) => Inner::Sim(sim::SimDriver::new(network)),
            DriverKind::Auto => match uring::Uring::new(opts, wake.as_raw_fd()) {
                Ok(uring) => Inner::Uring(Box::new(uring)),
                Err(_) => Inner::Epoll(epoll::Epoll::new(opts, wake.as_raw_fd())?),
            },
        };
        Ok(Driver {
            inner,
            sockets: SocketTable::new(),
            open: 0,
            spares: Default::default(),
            outboxes: Vec::new(),
            wake,
            stats: DriverStats::default(),
            _only: only,
        })
    }

    /// `"io_uring"`, `"epoll"` or `"sim"`.
    pub fn kind_name(&self) -> &'static str {
        match self.inner {
            Inner::Uring(_) => "io_uring",
            Inner::Epoll(_) => "epoll",
            Inner::Sim(_) => "sim",
        }
    }

    /// Sends queued datagrams, submits what is queued, and collects what happened, waking the tasks that wait for it;
    /// waits at most `wait` for the first event. An interruption by a signal ends the wait without an error.
    ///
    /// The thread's clock is read anew after the wait, before anything that happened is handled.
    #[inline]
    pub fn poll(&mut self, wait: Wait) -> io::Result<PollStats> {
        if !self.outboxes.is_empty() {
            self.flush_outboxes();
        }
        pool::wake_waiters();
        let wait = if pool::must_not_sleep() { Wait::Now } else { wait };
        let Driver { inner, sockets, .. } = self;
        let stats = match inner {
            Inner::Uring(d) => d.poll(wait, sockets)?,
            Inner::Epoll(d) => d.poll(wait, sockets)?,
            Inner::Sim(d) => d.poll(wait)?,
        };
        self.stats.polls += u64::from(stats.entered);
        self.stats.events += u64::from(stats.events);
        self.stats.submitted += u64::from(stats.submitted);
        Ok(stats)
    }

    /// A handle that wakes this thread out of [`Driver::poll`], from any thread.
    pub fn remote_waker(&self) -> RemoteWaker {
        RemoteWaker { event: self.wake.clone() }
    }

    /// Sums since the driver was made.
    pub fn stats(&self) -> DriverStats {
        let ring_exhausted = match &self.inner {
            Inner::Uring(d) => d.ring_exhausted(),
            _ => 0,
        };
        DriverStats { sockets: self.sockets.in_use(), ring_exhausted, ..self.stats }
    }

    /// Gives the memory back that was needed only while there were more sockets, or more to receive.
    pub(crate) fn trim(&mut self) {
        self.sockets.trim();
        ring::trim();
        self.close_spares();
    }

    /// What the records of sockets take.
    pub(crate) fn stock(&self) -> Stock {
        self.sockets.stock()
    }

    /// The simulated network this driver belongs to.
    pub(crate) fn simulated(&mut self) -> Option<&mut sim::SimDriver> {
        match &mut self.inner {
            Inner::Sim(d) => Some(d),
            _ => None,
        }
    }

    fn flush_outboxes(&mut self) {
        let mut outboxes = std::mem::take(&mut self.outboxes);
        outboxes.retain(|outbox| {
            let mut outbox = outbox.borrow_mut();
            if outbox.flush(self.simulated()) {
                return false;
            }
            // The kernel had no room: an event says when there is some, and the next poll tries again.
            // SAFETY: an outbox with something left is open, so its owner still holds the record.
            let s = unsafe { &mut *outbox.socket().as_ptr() };
            s.bits.clear(Bits::WRITABLE);
            each!(self, d => d.want_output(s));
            true
        });
        outboxes.append(&mut self.outboxes);
        self.outboxes = outboxes;
    }

    pub(crate) fn queue_outbox(&mut self, outbox: &Rc<RefCell<Outbox>>) {
        self.outboxes.push(outbox.clone());
    }

    // What follows is called by `net` with a record that the caller owns.

    /// Registers a non-blocking descriptor; the record owns it from then on.
    pub(crate) fn adopt(&mut self, fd: OwnedFd, bits: Bits) -> io::Result<SocketRef> {
        let socket = self.register(fd.as_raw_fd(), bits, None)?;
        let _ = fd.into_raw_fd();
        Ok(socket)
    }

    /// The record of a socket that may be gone.
    pub(crate) fn find(&self, id: SocketId) -> Option<&Socket> {
        let (number, turn) = id.parts();
        // SAFETY: the record lives as long as the table, and drivers and owners keep no reference between calls.
        let s = unsafe { self.sockets.at(number)?.as_ref() };
        (s.turn == turn && !s.bits.has(Bits::CLOSING)).then_some(s)
    }

    /// Whether listeners wait on [`Events`].
    pub(crate) fn waits_on_events(&self) -> bool {
        matches!(self.inner, Inner::Uring(_))
    }

    /// Registers one that listens, and that other threads may have, too. `events` is ready when there is a connection, and
    /// does not keep the socket open.
    pub(crate) fn adopt_listener(
        &mut self,
        socket: Arc<OwnedFd>,
        events: Option<Arc<Events>>,
    ) -> io::Result<SocketRef> {
        let fd = socket.as_raw_fd();
        let listening = Listening { socket: Some(socket), events };
        let extra = Some(Box::new(Extra::Listening(listening)));
        self.register(fd, Bits::LISTENER | Bits::READABLE, extra)
    }

    fn register(&mut self, fd: RawFd, bits: Bits, extra: Option<Box<Extra>>) -> io::Result<SocketRef> {
        let socket = self.sockets.insert(fd, bits);
        // SAFETY: just inserted, nobody else refers to it.
        let s = unsafe { &mut *socket.as_ptr() };
        s.extra = extra;
        each!(self, d => d.register(s)).inspect_err(|_| self.sockets.remove(socket))?;
        self.open += usize::from(!bits.has(Bits::LISTENER));
        Ok(socket)
    }

    /// Sockets that are open, but for those that listen.
    #[inline]
    pub(crate) fn open(&self) -> usize {
        self.open
    }

    /// Ends the ownership: the descriptor is closed, what is in flight is cancelled, and the record is freed
    /// once nothing is in flight any more. A send that was only queued gets one attempt first.
    pub(crate) fn close(&mut self, socket: SocketRef) {
        // SAFETY: called by the owner, who gives it up.
        let s = unsafe { &mut *socket.as_ptr() };
        s.reader = TaskId::NONE;
        s.writer = TaskId::NONE;
        s.clear_rx();
        s.bits.set(Bits::CLOSING);
        self.open -= usize::from(!s.bits.has(Bits::LISTENER));
        if s.bits.has(Bits::LENT) && self.keeps_socket(s) {
            return self.sockets.remove(socket);
        }
        // Whoever closes first keeps the port for a minute; a peer that was first has that behind it.
        if s.bits.has(Bits::ABORTIVE) && !s.is_announced() {
            match self.simulated() {
                Some(sim) => sim.set_reset(s),
                // Without it the connection ends in order, which costs a port.
                None => drop(set::linger_reset(s.fd)),
            }
        }
        each!(self, d => d.close(s));
        if s.ops == 0 {
            self.sockets.remove(socket);
        }
    }

    fn unregister(&mut self, s: &mut Socket) {
        each!(self, d => d.unregister(s));
    }

    /// Gives the descriptor back without closing it. The caller made sure that nothing is in flight.
    pub(crate) fn release(&mut self, socket: SocketRef) -> OwnedFd {
        // SAFETY: called by the owner, who gives it up.
        let s = unsafe { &mut *socket.as_ptr() };
        debug_assert!(s.ops == 0 && !s.bits.has(Bits::LISTENER));
        if s.bits.has(Bits::LENT) {
            self.give_back(s, None);
        }
        if s.bits.has(Bits::NODELAY_DUE) {
            s.set_nodelay();
        }
        each!(self, d => d.unregister(s));
        self.open -= 1;
        // SAFETY: the record owned it and is removed.
        let fd = unsafe { OwnedFd::from_raw_fd(s.fd) };
        self.sockets.remove(socket);
        fd
    }

    #[inline]
    pub(crate) fn poll_recv(&mut self, s: &mut Socket, max: usize) -> Poll<io::Result<Buf>> {
        each!(self, d => d.poll_recv(s, max))
    }

    #[inline]
    pub(crate) fn poll_readable(&mut self, s: &mut Socket) -> Poll<io::Result<()>> {
        each!(self, d => d.poll_readable(s))
    }

    #[inline]
    pub(crate) fn has_input(&mut self, s: &mut Socket) -> bool {
        each!(self, d => d.has_input(s))
    }

    /// Whether input is there, also such that no poll told of yet.
    pub(crate) fn ask_input(&mut self, s: &mut Socket) -> bool {
        self.has_input(s)
            || match &mut self.inner {
                Inner::Uring(d) => d.ask_input(s),
                Inner::Epoll(_) => s.look(),
                Inner::Sim(_) => false,
            }
    }

    /// Whether the peer announced its end, or broke the connection, behind whatever it sent before. If not, input wakes
    /// the current task.
    pub(crate) fn is_leaving(&mut self, s: &mut Socket) -> bool {
        each!(self, d => d.is_leaving(s))
    }

    /// Makes input wake `task`; input that is there already does so at once.
    pub(crate) fn watch(&mut self, s: &mut Socket, task: TaskId) {
        if self.has_input(s) {
            task.wake_local(crate::task::Reason::IO);
            return;
        }
        s.reader = task;
        each!(self, d => d.arm_input(s));
    }

    #[inline]
    pub(crate) fn start_send(&mut self, s: &mut Socket) {
        if s.bits.has(Bits::NODELAY_DUE) && s.sent > 0 {
            s.set_nodelay();
        }
        each!(self, d => d.start_send(s));
    }

    pub(crate) fn shutdown_write(&mut self, s: &mut Socket) -> io::Result<()> {
        if s.bits.has(Bits::SENDING) {
            s.bits.set(Bits::SHUT_PENDING);
            return Ok(());
        }
        each!(self, d => d.shutdown_write(s))
    }

    /// `is_loopback`: the address is one of this machine by its form. `is_silent`: nothing will be sent or received.
    pub(crate) fn start_connect(
        &mut self,
        s: &mut Socket,
        address: ConnectAddress,
        is_loopback: bool,
        is_silent: bool,
    ) -> io::Result<()> {
        s.bits.set(Bits::CONNECTING);
        match &mut self.inner {
            Inner::Epoll(d) => d.connect(s, &address, is_loopback, is_silent),
            Inner::Uring(d) if is_loopback => {
                d.connect_here(s, &address);
                Ok(())
            }
            Inner::Uring(d) => {
                s.extra = Some(Box::new(Extra::Connect(address)));
                d.start_connect(s)
            }
            Inner::Sim(d) => d.start_connect(s),
        }
    }

    /// Whether the connection attempt ended, and how.
    pub(crate) fn poll_connected(&mut self, s: &mut Socket) -> Poll<io::Result<()>> {
        if s.bits.has(Bits::CONNECTING) {
            s.writer = current_task();
            return Poll::Pending;
        }
        Poll::Ready(s.tx_error.take().map_or(Ok(()), Err))
    }

    /// Ready when a direct receive or accept may be tried; after it said "nothing there" the caller clears
    /// [`Bits::READABLE`] and asks again.
    #[inline]
    pub(crate) fn poll_input(&mut self, s: &mut Socket) -> Poll<()> {
        if s.bits.has(Bits::READABLE) {
            return Poll::Ready(());
        }
        s.reader = current_task();
        each!(self, d => d.want_input(s));
        Poll::Pending
    }

    /// Likewise for a direct send and [`Bits::WRITABLE`].
    #[inline]
    pub(crate) fn poll_output(&mut self, s: &mut Socket) -> Poll<()> {
        if s.bits.has(Bits::WRITABLE) {
            return Poll::Ready(());
        }
        s.writer = current_task();
        each!(self, d => d.want_output(s));
        Poll::Pending
    }

    /// Stops receives that run ahead; `true` once none is in flight.
    #[inline]
    pub(crate) fn quiesce(&mut self, s: &mut Socket) -> bool {
        match &mut self.inner {
            Inner::Uring(d) => d.quiesce(s),
            _ => true,
        }
    }

    /// Stops everything that is not a send; `true` once nothing is in flight.
    pub(crate) fn detach(&mut self, s: &mut Socket) -> bool {
        match &mut self.inner {
            Inner::Uring(d) => d.detach(s),
            _ => true,
        }
    }

    /// Stops readiness events of a listener, so that a thread that does not want connections lets the others
    /// that share the socket have them.
    pub(crate) fn pause(&mut self, s: &mut Socket) {
        each!(self, d => d.unregister(s));
        s.bits.clear(Bits::READABLE);
    }

    pub(crate) fn resume(&mut self, s: &mut Socket) -> io::Result<()> {
        s.bits.set(Bits::READABLE);
        each!(self, d => d.register(s))
    }

    /// Receives past the driver's own machinery; the record is quiesced. The error is the `errno`.
    #[inline]
    pub(crate) fn direct_recv(&mut self, s: &mut Socket, buf: &mut [u8], flags: i32) -> Result<usize, i32> {
        let received = match &mut self.inner {
            Inner::Sim(d) => d.recv(s, buf, flags),
            _ => syscall::recv(s.fd, buf, flags),
        };
        if matches!(received, Ok(n) if n > 0) {
            s.rx_ms = socket::moment();
        }
        received
    }

    #[inline]
    pub(crate) fn direct_send(&mut self, s: &mut Socket, buf: &[u8]) -> Result<usize, i32> {
        match &mut self.inner {
            Inner::Sim(d) => d.send(s, &[buf]),
            _ => syscall::send(s.fd, buf, 0),
        }
    }

    /// As [`direct_send`](Self::direct_send), of what lies in several places.
    #[inline]
    pub(crate) fn direct_send_parts(&mut self, s: &mut Socket, parts: &[&[u8]]) -> Result<usize, i32> {
        if s.bits.has(Bits::NODELAY_DUE) && s.sent > 0 {
            s.set_nodelay();
        }
        match &mut self.inner {
            Inner::Sim(d) => d.send(s, parts),
            _ => syscall::send_parts(s.fd, parts, s.send_flags()),
        }
    }

    /// A direct receive returned less than it had room for: nothing is left, and anything later raises an event,
    /// unless the end was announced already. The simulator cuts receives short on purpose, so there it means nothing.
    pub(crate) fn took_less(&mut self, s: &mut Socket) {
        if !s.bits.has(Bits::ANNOUNCED) && !matches!(self.inner, Inner::Sim(_)) {
            s.bits.clear(Bits::READABLE);
        }
    }

    pub(crate) fn accept(&mut self, s: &mut Socket) -> Result<(OwnedFd, SockAddr), i32> {
        match &mut self.inner {
            Inner::Sim(d) => d.accept(s),
            _ => {
                // SAFETY: all-zero bytes are valid for these C structures.
                let mut address: ConnectAddress = unsafe { std::mem::zeroed() };
                let accepted = syscall::accept(s.fd, &mut address);
                if let Err(errno) = accepted {
                    s.bits.clear(Bits::CROWDED);
                    self.make_room(errno);
                } else if !s.bits.has(Bits::CROWDED) {
                    // Trying in vain costs ten times what asking does, as the kernel makes a socket first.
                    match syscall::is_readable(s.fd) {
                        true => s.bits.set(Bits::CROWDED),
                        false => s.bits.clear(Bits::READABLE),
                    }
                }
                accepted.map(|fd| (fd, SockAddr::from_raw(&address)))
            }
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.flush_outboxes();
        if let Inner::Uring(d) = &mut self.inner {
            d.finish(&mut self.sockets);
        }
        LEFT.set(LEFT.get() + self.sockets.in_use());
    }
}

/// A thread's right to one driver.
struct Only;

impl Only {
    fn claim() -> io::Result<Only> {
        if CLAIMED.get() {
            return Err(io::Error::other("this thread has an I/O driver already"));
        }
        if LEFT.get() > 0 {
            return Err(io::Error::other("sockets of this thread's last I/O driver are still open"));
        }
        CLAIMED.set(true);
        Ok(Only)
    }
}

impl Drop for Only {
    fn drop(&mut self) {
        CLAIMED.set(false);
    }
}

/// Notes that the owner of a socket that outlived its driver let go of it.
pub(crate) fn left_one() {
    LEFT.set(LEFT.get().saturating_sub(1));
}

/// Token of an operation on a record.
#[inline]
pub(crate) fn token(s: &Socket, op: Op) -> u64 {
    s.address() as u64 | op as u64
}

/// Wakes a thread out of its poll; usable from any thread.
#[derive(Clone, Debug)]
pub struct RemoteWaker {
    event: Arc<OwnedFd>,
}

impl RemoteWaker {
    /// One that wakes nobody yet.
    pub(crate) fn new() -> io::Result<RemoteWaker> {
        Ok(RemoteWaker { event: Arc::new(eventfd()?) })
    }

    /// Forgets the wake-ups that nobody has seen.
    fn drain(&self) {
        let mut count = 0u64;
        // SAFETY: eight writable bytes. It does not block; where there was no wake-up it fails, which is what is wanted.
        unsafe { libc::read(self.event.as_raw_fd(), (&raw mut count).cast(), 8) };
    }

    /// Wakes the thread: its current or next poll returns at once.
    pub fn wake(&self) {
        let v = 1u64;
        // SAFETY: eight readable bytes. A full counter (2^64 unread wake-ups) would be woken already.
        unsafe { libc::write(self.event.as_raw_fd(), (&raw const v).cast(), 8) };
    }
}

fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: takes no pointer; the result is checked before it is owned.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` is open and owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

// The driver is reached through a plain pointer, so that each of the several uses per request costs one load. The
// owner beside it drops the driver when the thread ends; the pointer is null before and after.
thread_local! {
    static DRIVER: Cell<*mut Driver> = const { Cell::new(std::ptr::null_mut()) };
    static BORROWED: Cell<bool> = const { Cell::new(false) };
    static CLAIMED: Cell<bool> = const { Cell::new(false) };
    /// Sockets that outlived the driver.
    static LEFT: Cell<usize> = const { Cell::new(0) };
    static OWNER: RefCell<Owner> = const { RefCell::new(Owner(None)) };
}

struct Owner(Option<Box<Driver>>);

impl Drop for Owner {
    fn drop(&mut self) {
        DRIVER.set(std::ptr::null_mut());
    }
}

/// Makes `driver` this thread's driver. There is none to replace: a thread has one at a time.
pub fn install(driver: Driver) {
    OWNER.with_borrow_mut(|owner| {
        // Of the box in its final place: moving it would take the pointer's rights away.
        DRIVER.set(std::ptr::from_mut(owner.0.insert(Box::new(driver))));
    });
}

/// Removes this thread's driver. Sockets that still exist are closed plainly when they are dropped.
pub fn uninstall() -> Option<Driver> {
    OWNER.with_borrow_mut(|owner| {
        DRIVER.set(std::ptr::null_mut());
        owner.0.take().map(|old| *old)
    })
}

/// Calls `f` with this thread's driver; `None` where none is installed. `f` must not come back here.
#[inline]
pub(crate) fn try_with<R>(f: impl FnOnce(&mut Driver) -> R) -> Option<R> {
    let ptr = DRIVER.get();
    if ptr.is_null() {
        return None;
    }
    debug_assert!(!BORROWED.replace(true), "the driver was entered from inside itself");
    // SAFETY: the pointer is this thread's and valid until the owner nulls it; drivers run no foreign code (waking
    // a task only queues it), so no second reference exists.
    let result = f(unsafe { &mut *ptr });
    if cfg!(debug_assertions) {
        BORROWED.set(false);
    }
    Some(result)
}

/// Calls `f` with this thread's driver.
///
/// # Panics
/// When the thread has none.
#[inline]
pub fn with<R>(f: impl FnOnce(&mut Driver) -> R) -> R {
    try_with(f).expect("no driver is installed on this thread")
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_driver_is_not_woken_for_the_thread_before() {
        let waker = RemoteWaker::new().unwrap();
        waker.wake();
        let mut driver =
            Driver::woken_by(&waker, DriverKind::Epoll, &DriverOptions::default()).expect("epoll is there");
        assert_eq!(driver.poll(Wait::Until(0)).unwrap().events, 0);
        waker.wake();
        assert_eq!(driver.poll(Wait::Until(0)).unwrap().events, 1);
    }
}
