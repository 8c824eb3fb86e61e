//! Connected stream sockets: TCP and unix.

use super::options::{self, ConnectOptions, Keepalive, TcpInfo, set};
use super::{SockAddr, SocketId, descriptor, syscall};
use crate::buffer::Buf;
use crate::clock;
use crate::driver;
use crate::driver::socket::{Bits, Errno, Socket, SocketRef};
use crate::task::{TaskId, current_task};
use std::cell::Cell;
use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::pin::Pin;
use std::task::{Context, Poll};

/// A connected stream socket of this thread's driver. Dropping it closes it: what the peer did not get yet of a send
/// in flight is given one attempt, then lost; a receive in flight is cancelled.
pub struct Stream {
    socket: SocketRef,
    _thread_local: PhantomData<*mut ()>,
}

impl Stream {
    fn from_socket(socket: SocketRef) -> Stream {
        Stream { socket, _thread_local: PhantomData }
    }

    #[inline]
    pub(crate) fn record(&mut self) -> &mut Socket {
        // SAFETY: this is the record's one owner, on the driver's thread; drivers hold no reference between their
        // calls, and `&mut self` keeps this one from being doubled.
        unsafe { self.socket.as_mut() }
    }

    #[inline]
    fn peek(&self) -> &Socket {
        // SAFETY: as `record`.
        unsafe { self.socket.as_ref() }
    }

    /// Registers a connected socket, for instance one that [`Listener::poll_accept`](super::Listener::poll_accept) on
    /// this or another thread returned. It is made non-blocking.
    ///
    /// # Errors
    /// When it cannot be registered (`ENOMEM`, `ENOSPC`); the descriptor is closed then.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Stream> {
        driver::with(|d| {
            if d.simulated().is_none() {
                syscall::set_nonblocking(fd.as_raw_fd())?;
            }
            Ok(Stream::from_socket(d.adopt(fd, Bits::READABLE | Bits::WRITABLE)?))
        })
    }

    /// As [`from_fd`](Self::from_fd) for a socket that is known to be non-blocking, as accepted ones are: saves a call.
    pub fn from_accepted(fd: OwnedFd) -> io::Result<Stream> {
        driver::with(|d| Ok(Stream::from_socket(d.adopt(fd, Bits::READABLE | Bits::WRITABLE)?)))
    }

    /// Connects. The future may be dropped at any time, which gives the attempt up.
    pub fn connect(address: &SockAddr, opts: &ConnectOptions) -> Connecting {
        let retry = opts.source_ports.map(|(first, last)| {
            let left = u32::from(last.saturating_sub(first));
            Box::new(Retry { address: address.clone(), opts: opts.clone(), left })
        });
        Connecting {
            state: match open(address, opts) {
                Ok(stream) => State::Waiting(stream),
                Err(e) => State::Failed(Some(e)),
            },
            retry,
        }
    }

    /// Receives what is there, at most `max` bytes; an empty buffer is the end of the stream. Registers the current
    /// task as the one to wake. While it is pending no buffer is held.
    ///
    /// # Errors
    /// The socket's error (`ECONNRESET`, `ETIMEDOUT`), once everything received before it was taken.
    #[inline]
    pub fn poll_recv(&mut self, max: usize) -> Poll<io::Result<Buf>> {
        let s = self.record();
        // No room at all would make "nothing" look like the end of the stream.
        driver::with(|d| d.poll_recv(s, max.max(1)))
    }

    /// [`poll_recv`](Self::poll_recv) as a future.
    pub fn recv(&mut self, max: usize) -> impl Future<Output = io::Result<Buf>> + '_ {
        std::future::poll_fn(move |_| self.poll_recv(max))
    }

    /// Ready when data, the end of the stream or an error is there, without taking it.
    pub fn poll_readable(&mut self) -> Poll<io::Result<()>> {
        let s = self.record();
        driver::with(|d| d.poll_readable(s))
    }

    /// Whether anything arrived on a connection that should be silent (data, end of stream or error), as far as
    /// the last poll knows: such a connection must not be reused. Costs no system call on a silent one.
    #[inline]
    pub fn has_input_now(&mut self) -> bool {
        let s = self.record();
        driver::with(|d| d.has_input(s))
    }

    /// As [`has_input_now`](Self::has_input_now), but asks the kernel, with a system call: for who is about to close the
    /// connection because nothing arrived.
    pub fn ask_input(&mut self) -> bool {
        let s = self.record();
        driver::with(|d| d.ask_input(s))
    }

    /// Makes input wake `task` instead of the current one: who looks after an idle connection.
    pub fn watch(&mut self, task: TaskId) {
        let s = self.record();
        driver::with(|d| d.watch(s, task));
    }

    /// Whether the peer is leaving, even when bytes that it sent before are still waiting to be received. Registers the
    /// current task as the one to wake, for any input.
    pub fn departure(&mut self) -> Departure {
        let s = self.record();
        if !driver::with(|d| d.is_leaving(s)) {
            return Departure::No;
        }
        let reset = match driver::with(|d| d.simulated().map(|sim| sim.is_broken(self.peek()))) {
            Some(reset) => reset,
            None => self.peek().rx_error.is_some() || self.tcp_info().is_ok_and(|info| info.is_gone),
        };
        if reset { Departure::Reset } else { Departure::Ended }
    }

    /// Its receives may take the reserve of buffers (`tune.buffers.reserve`), so that they go on when all others wait: for who
    /// looks after the process.
    pub fn set_vital(&mut self) {
        self.record().bits.set(Bits::VITAL | Bits::BULK);
    }

    /// Hints that data is there already (a listener with `TCP_DEFER_ACCEPT`), so that the first receive tries at once
    /// instead of waiting for an event.
    pub fn expect_data(&mut self) {
        self.record().bits.set(Bits::EXPECT_DATA);
    }

    /// Ready when no send is in flight.
    ///
    /// # Errors
    /// The error of the send that was in flight (`EPIPE`, `ECONNRESET`), once.
    #[inline]
    pub fn poll_send_ready(&mut self) -> Poll<io::Result<()>> {
        let s = self.record();
        if s.bits.has(Bits::SENDING) {
            s.writer = current_task();
            return Poll::Pending;
        }
        if let Some(error) = s.tx_error.take() {
            return Poll::Ready(Err(error));
        }
        Poll::Ready(Ok(()))
    }

    /// [`poll_send_ready`](Self::poll_send_ready) as a future.
    pub fn send_ready(&mut self) -> impl Future<Output = io::Result<()>> + '_ {
        std::future::poll_fn(move |_| self.poll_send_ready())
    }

    /// Sends all of `buf`, which returns to its pool when the kernel took it. The task is woken only if it waits in
    /// [`poll_send_ready`](Self::poll_send_ready).
    ///
    /// No send may be in flight; a second one is refused in debug builds and its bytes are lost otherwise, with
    /// `EALREADY` as the send's error.
    #[inline]
    pub fn start_send(&mut self, buf: Buf) {
        self.begin(buf, None);
    }

    /// Sends two buffers in one call.
    #[inline]
    pub fn start_send2(&mut self, head: Buf, body: Buf) {
        match (head.is_empty(), body.is_empty()) {
            (_, true) => self.begin(head, None),
            (true, false) => self.begin(body, None),
            (false, false) => self.begin(head, Some(body)),
        }
    }

    /// Sends as much of these parts, in their order, as the kernel takes at once, and says how many bytes that was. The parts
    /// stay the caller's: whoever has to send the rest gives it to [`start_send`](Self::start_send), which waits for room.
    ///
    /// No send may be in flight: [`poll_send_ready`](Self::poll_send_ready) said so.
    ///
    /// # Errors
    /// Why nothing can be sent any more.
    pub fn send_at_once(&mut self, parts: &[&[u8]]) -> io::Result<usize> {
        let s = self.record();
        debug_assert!(!s.bits.has(Bits::SENDING), "one send at a time");
        match driver::with(|d| d.direct_send_parts(s, parts)) {
            Ok(n) => {
                s.note_sent(n);
                Ok(n)
            }
            Err(libc::EAGAIN) => {
                s.bits.clear(Bits::WRITABLE);
                Ok(0)
            }
            Err(errno) => Err(io::Error::from_raw_os_error(errno)),
        }
    }

    #[inline]
    fn begin(&mut self, first: Buf, second: Option<Buf>) {
        let s = self.record();
        debug_assert!(!s.bits.has(Bits::SENDING), "one send at a time");
        if s.bits.has(Bits::SENDING) {
            s.tx_error = Errno::of(libc::EALREADY);
            return;
        }
        if first.is_empty() {
            return;
        }
        s.set_tx(first, second);
        driver::with(|d| d.start_send(s));
    }

    /// Whether more will follow the next sends at once (`MSG_MORE`), so that the kernel fills segments.
    #[inline]
    pub fn set_more(&mut self, more: bool) {
        let bits = &mut self.record().bits;
        if more { bits.set(Bits::MORE) } else { bits.clear(Bits::MORE) }
    }

    /// The next send is the last one. The end of this direction leaves with it, in one segment, which saves both sides a
    /// packet. The caller must close the stream, or call [`shutdown_write`](Self::shutdown_write), as soon as the send
    /// is done: the kernel may hold back the last bytes until then (at most 200 ms).
    #[inline]
    pub fn end_with_next_send(&mut self) {
        self.record().bits.set(Bits::LAST);
    }

    /// Bytes the kernel accepted for sending so far.
    pub fn sent_bytes(&self) -> u64 {
        self.peek().sent
    }

    /// When bytes were last received (or the stream was made), in milliseconds of [`clock::now_ms`]. What the kernel
    /// keeps until somebody asks for it is not received.
    #[inline]
    pub fn last_received_ms(&self) -> u64 {
        since(self.peek().rx_ms)
    }

    /// When a send last made progress: its start, or when the kernel last accepted a part of it (or the stream was made),
    /// in milliseconds of [`clock::now_ms`].
    #[inline]
    pub fn last_sent_ms(&self) -> u64 {
        since(self.peek().tx_ms)
    }

    /// Bytes handed over and not known to be accepted yet.
    pub fn in_flight(&self) -> usize {
        if self.peek().bits.has(Bits::SENDING) { self.peek().tx_left() } else { 0 }
    }

    /// Receives what is there, at most `max` bytes, and throws it away; returns how much that was. A connection that is
    /// closed with unread input is reset, which this is to prevent.
    pub fn discard_input(&mut self, max: usize) -> usize {
        let s = self.record();
        crate::net::transfer::with_shared(|buffer| {
            let mut taken = 0;
            while taken < max {
                let room = buffer.len().min(max - taken);
                let ahead = s.copy_rx(&mut buffer[..room]);
                if ahead > 0 {
                    taken += ahead;
                    continue;
                }
                match driver::with(|d| d.direct_recv(s, &mut buffer[..room], 0)) {
                    Ok(n) if n > 0 => taken += n,
                    _ => break,
                }
            }
            taken
        })
    }

    /// Ends this direction once everything handed over was sent.
    ///
    /// # Errors
    /// `ENOTCONN` and the like; not reported when it had to wait for a send.
    pub fn shutdown_write(&mut self) -> io::Result<()> {
        let s = self.record();
        driver::with(|d| d.shutdown_write(s))
    }

    /// Dropping the stream resets the connection instead of ending it orderly.
    pub fn set_linger_rst(&mut self) {
        if driver::with(|d| d.simulated().map(|sim| sim.set_reset(self.peek()))).is_none() {
            let _ = set::linger_reset(self.as_raw_fd());
        }
    }

    /// As [`ConnectOptions::reset_on_close`], from here on.
    pub fn set_reset_on_close(&mut self, on: bool) {
        let bits = &mut self.record().bits;
        if on { bits.set(Bits::ABORTIVE) } else { bits.clear(Bits::ABORTIVE) }
    }

    /// As [`ConnectOptions::prompt_close`], from here on.
    pub fn set_prompt_close(&mut self) {
        self.record().bits.set(Bits::PROMPT);
    }

    /// Prepares handing the connection to another thread: stops receives that run ahead. Ready once
    /// [`into_fd`](Self::into_fd) will succeed; waits for a send in flight.
    pub fn poll_detach(&mut self) -> Poll<()> {
        let s = self.record();
        if s.bits.has(Bits::SENDING) {
            s.writer = current_task();
            return Poll::Pending;
        }
        if driver::with(|d| d.detach(s)) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Takes the descriptor out without closing it, with what was received ahead of the task that would have taken it.
    ///
    /// # Errors
    /// The stream itself while something is in flight: see [`poll_detach`](Self::poll_detach).
    pub fn into_fd(mut self) -> Result<(OwnedFd, Vec<Buf>), Stream> {
        let s = self.record();
        if s.ops != 0 || s.bits.has(Bits::SENDING) {
            return Err(self);
        }
        let mut ahead = Vec::new();
        while let Some(buf) = s.pop_rx(usize::MAX) {
            ahead.push(buf);
        }
        let socket = self.socket;
        std::mem::forget(self);
        Ok((driver::with(|d| d.release(socket)), ahead))
    }

    /// The descriptor, for options.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the record owns the descriptor and `self` keeps it open.
        unsafe { BorrowedFd::borrow_raw(self.peek().fd) }
    }

    /// What it can be asked for by, even when it may be gone.
    #[inline]
    pub fn id(&self) -> SocketId {
        let s = self.peek();
        SocketId::of(s.number, s.turn)
    }

    /// The peer's address.
    pub fn peer_addr(&self) -> io::Result<SockAddr> {
        match driver::with(|d| d.simulated().map(|sim| sim.addresses(self.peek()).1)) {
            Some(address) => Ok(address),
            None => descriptor::peer_addr(self.as_raw_fd()),
        }
    }

    /// This end's address.
    pub fn local_addr(&self) -> io::Result<SockAddr> {
        match driver::with(|d| d.simulated().map(|sim| sim.addresses(self.peek()).0)) {
            Some(address) => Ok(address),
            None => descriptor::local_addr(self.as_raw_fd()),
        }
    }

    fn option(&self, f: impl FnOnce(RawFd) -> io::Result<()>) -> io::Result<()> {
        let is_simulated = driver::with(|d| {
            d.set_apart(self.socket);
            d.simulated().is_some()
        });
        if is_simulated { Ok(()) } else { f(self.as_raw_fd()) }
    }

    /// Sends small segments at once, or not.
    pub fn set_nodelay(&self, on: bool) -> io::Result<()> {
        self.option(|fd| set::nodelay(fd, on))
    }

    /// Acknowledges at once, or with the next data.
    pub fn set_quickack(&self, on: bool) -> io::Result<()> {
        self.option(|fd| set::quickack(fd, on))
    }

    /// Probes a silent peer.
    pub fn set_keepalive(&self, keepalive: &Keepalive) -> io::Result<()> {
        self.option(|fd| set::keepalive(fd, keepalive))
    }

    /// Sets the packet mark; needs a privilege.
    pub fn set_mark(&self, mark: u32) -> io::Result<()> {
        self.option(|fd| set::mark(fd, mark))
    }

    /// Sets the type of service or traffic class.
    pub fn set_tos(&self, tos: u8) -> io::Result<()> {
        self.option(|fd| set::tos(fd, tos))
    }

    /// Breaks the connection when data stays unacknowledged for `ms` milliseconds.
    pub fn set_user_timeout(&self, ms: u32) -> io::Result<()> {
        self.option(|fd| set::user_timeout_ms(fd, ms))
    }

    /// Makes the largest segment `by` bytes smaller than what the kernel chose.
    pub fn lower_mss(&self, by: u32) -> io::Result<()> {
        self.option(|fd| set::lower_mss(fd, by))
    }

    /// What the kernel measured.
    pub fn tcp_info(&self) -> io::Result<TcpInfo> {
        if driver::with(|d| d.simulated().is_some()) {
            return Ok(TcpInfo::default());
        }
        options::tcp_info(self.as_fd())
    }

    /// The SYN that the connection began with, if its listener had the kernel keep it ([`ListenOptions::save_syn`]): the kernel gives
    /// it once.
    ///
    /// [`ListenOptions::save_syn`]: super::ListenOptions::save_syn
    pub fn saved_syn(&self) -> io::Result<Vec<u8>> {
        if driver::with(|d| d.simulated().is_some()) {
            return Ok(Vec::new());
        }
        options::saved_syn(self.as_fd())
    }

    /// The destination before a firewall redirected the connection.
    pub fn original_destination(&self) -> io::Result<SockAddr> {
        let local = self.local_addr()?;
        if driver::with(|d| d.simulated().is_some()) {
            return Ok(local);
        }
        options::original_destination(self.as_raw_fd(), local.family())
    }
}

impl AsRawFd for Stream {
    fn as_raw_fd(&self) -> RawFd {
        self.peek().fd
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let socket = self.socket;
        if driver::try_with(|d| d.close(socket)).is_none() {
            // The driver is gone and has cancelled everything; its record was left to us.
            syscall::close(self.peek().fd);
            self.record().clear_rx();
            driver::left_one();
        }
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stream(fd {})", self.peek().fd)
    }
}

/// The full time of a record's stamp, which lies at most 24 days back.
#[inline]
fn since(stamp: u32) -> u64 {
    let now = clock::now_ms();
    let age = (now as u32).wrapping_sub(stamp);
    // A stamp of the future is one of a clock read later than this round's.
    if age > u32::MAX / 2 { now } else { now.saturating_sub(age.into()) }
}

/// What is known of a peer's going.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// It is there, as far as anyone can tell.
    No,
    /// It will send nothing more. Whether it still receives, nobody knows.
    Ended,
    /// The connection is broken: nothing sent will arrive.
    Reset,
}

fn open(address: &SockAddr, opts: &ConnectOptions) -> io::Result<Stream> {
    let raw = address.to_raw()?;
    let opened = driver::with(|d| d.simulated().map(|sim| sim.open_stream(address, opts)));
    let simulated = opened.is_some();
    let lent = driver::with(|d| d.lend(address, opts));
    let is_lent = lent.is_some();
    let fd = match (opened, lent.flatten()) {
        (Some(simulated), _) => simulated,
        (None, Some(spare)) => renew(&spare, opts).map(|()| spare),
        (None, None) => fresh(address, opts).inspect_err(|error| {
            driver::with(|d| d.make_room(error.raw_os_error().unwrap_or(0)));
        }),
    };
    let adopted = fd.and_then(|fd| driver::with(|d| d.adopt(fd, Bits(0))));
    let socket = adopted.inspect_err(|_| {
        if is_lent {
            driver::with(|d| d.not_used(opts));
        }
    })?;
    let mut stream = Stream::from_socket(socket);
    let s = stream.record();
    if is_lent {
        s.bits.set(Bits::LENT);
    }
    if opts.silent {
        s.bits.set(Bits::SILENT);
    }
    if opts.reset_on_close {
        s.bits.set(Bits::ABORTIVE);
    }
    if opts.prompt_close {
        s.bits.set(Bits::PROMPT);
    }
    if opts.nodelay && !address.is_unix() && !simulated {
        s.bits.set(Bits::NODELAY_DUE);
    }
    // With a source that was chosen, what was closed in this turn must be closed before, as it may have the same.
    let is_loopback =
        opts.source.is_none() && address.to_std().is_some_and(|address| address.ip().is_loopback());
    driver::with(|d| d.start_connect(s, raw, is_loopback, opts.silent))?;
    Ok(stream)
}

/// A socket with everything that was asked for.
fn fresh(address: &SockAddr, opts: &ConnectOptions) -> io::Result<OwnedFd> {
    let protocol = if opts.mptcp && !address.is_unix() { libc::IPPROTO_MPTCP } else { 0 };
    let fd = syscall::socket_in(opts.namespace.as_ref(), address.family(), libc::SOCK_STREAM, protocol)?;
    prepare(fd.as_raw_fd(), address, opts)?;
    Ok(fd)
}

/// What a socket that had a connection with the same options has lost with it.
fn renew(spare: &OwnedFd, opts: &ConnectOptions) -> io::Result<()> {
    if opts.no_quick_ack { set::quickack(spare.as_raw_fd(), false) } else { Ok(()) }
}

fn prepare(fd: RawFd, address: &SockAddr, opts: &ConnectOptions) -> io::Result<()> {
    if let Some(mark) = opts.mark {
        // Without the privilege the packets stay unmarked.
        let _ = set::mark(fd, mark);
    }
    if let Some(bytes) = opts.receive_buffer {
        set::receive_buffer(fd, bytes)?;
    }
    if let Some(bytes) = opts.send_buffer {
        set::send_buffer(fd, bytes)?;
    }
    if let (Some(bytes), false) = (opts.notsent_lowat, address.is_unix()) {
        set::notsent_lowat(fd, bytes)?;
    }
    if address.is_unix() {
        return Ok(());
    }
    if let Some(keepalive) = &opts.keepalive {
        set::keepalive(fd, keepalive)?;
    }
    if let Some(tos) = opts.tos {
        set::tos(fd, tos)?;
    }
    if let Some(ms) = opts.user_timeout_ms {
        set::user_timeout_ms(fd, ms)?;
    }
    if let Some(mss) = opts.mss {
        set::mss(fd, mss)?;
    }
    if let Some(name) = &opts.congestion {
        set::congestion(fd, name)?;
    }
    if let Some(key) = &opts.md5 {
        set::md5(fd, address, key)?;
    }
    // Over MPTCP there is no such option: when data is acknowledged is no matter of one path.
    if opts.no_quick_ack && !opts.mptcp {
        set::quickack(fd, false)?;
    }
    if opts.fastopen {
        set::flag(fd, libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT)?;
    }
    if let Some(name) = &opts.interface {
        set::interface(fd, name)?;
    }
    if let Some(source) = &opts.source {
        bind_source(fd, source, opts).map_err(SourceError::wrap)?;
    }
    Ok(())
}

/// The address that a connection was to come from is none of this machine's, or none of its ports is free: why
/// [`Stream::connect`] failed before it began. An [`io::Error`] has it inside.
#[derive(Debug)]
pub struct SourceError(io::Error);

impl SourceError {
    fn wrap(error: io::Error) -> io::Error {
        io::Error::new(error.kind(), SourceError(error))
    }

    /// What is inside of `error`, if that is one.
    pub fn of(error: &io::Error) -> Option<&SourceError> {
        error.get_ref()?.downcast_ref()
    }

    /// Whether its ports are all in use.
    pub fn is_for_ports(&self) -> bool {
        self.0.raw_os_error() == Some(libc::EADDRINUSE)
    }

    /// The system's error.
    pub fn system(&self) -> &io::Error {
        &self.0
    }
}

impl std::fmt::Display for SourceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cannot bind to the source address: {}", self.0)
    }
}

impl std::error::Error for SourceError {}

fn bind_source(fd: RawFd, source: &SockAddr, opts: &ConnectOptions) -> io::Result<()> {
    /// `IP_BIND_ADDRESS_NO_PORT`: the port is chosen when the destination is known.
    const NO_PORT: i32 = 24;
    set::flag(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR)?;
    if opts.transparent {
        set::transparent(fd, source.family())?;
    }
    let Some((first, last)) = opts.source_ports else {
        if source.port() == Some(0) {
            let _ = set::flag(fd, libc::IPPROTO_IP, NO_PORT);
        }
        return bind(fd, source);
    };
    // Ports are taken in turn, so that one that was just closed rests as long as possible.
    thread_local!(static NEXT: Cell<u32> = const { Cell::new(0) });
    let span = u32::from(last.saturating_sub(first)) + 1;
    let mut error = io::Error::from_raw_os_error(libc::EADDRINUSE);
    for _ in 0..span {
        let turn = NEXT.get();
        NEXT.set(turn.wrapping_add(1));
        let mut address = source.clone();
        address.set_port(first + (turn % span) as u16);
        match bind(fd, &address) {
            Err(e) if e.raw_os_error() == Some(libc::EADDRINUSE) => error = e,
            result => return result,
        }
    }
    Err(error)
}

pub(crate) fn bind(fd: RawFd, address: &SockAddr) -> io::Result<()> {
    let raw = address.to_raw()?;
    // SAFETY: the pointer and length describe `raw`.
    if unsafe { libc::bind(fd, (&raw const raw.storage).cast(), raw.len) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// A connection attempt; see [`Stream::connect`].
#[must_use = "an attempt is made only while it is awaited, and given up when it is dropped"]
pub struct Connecting {
    state: State,
    /// With a range of source ports: what another attempt needs.
    retry: Option<Box<Retry>>,
}

enum State {
    Waiting(Stream),
    Failed(Option<io::Error>),
}

struct Retry {
    address: SockAddr,
    opts: ConnectOptions,
    /// Ports of the range that were not tried yet.
    left: u32,
}

impl Future for Connecting {
    type Output = io::Result<Stream>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<Stream>> {
        let this = &mut *self;
        loop {
            let stream = match &mut this.state {
                State::Waiting(stream) => stream,
                State::Failed(e) => {
                    let late = || io::Error::other("a connection attempt was polled after its end");
                    return Poll::Ready(Err(e.take().unwrap_or_else(late)));
                }
            };
            let s = stream.record();
            let error = match driver::with(|d| d.poll_connected(s)) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) => {
                    return match std::mem::replace(&mut this.state, State::Failed(None)) {
                        State::Waiting(stream) => Poll::Ready(Ok(stream)),
                        State::Failed(_) => Poll::Pending,
                    };
                }
                Poll::Ready(Err(e)) => e,
            };
            // The source port could be bound but is taken towards this destination: the next one of the range.
            let next = match &mut this.retry {
                Some(retry) if error.raw_os_error() == Some(libc::EADDRNOTAVAIL) && retry.left > 0 => {
                    retry.left -= 1;
                    open(&retry.address, &retry.opts)
                }
                _ => Err(error),
            };
            this.state = match next {
                Ok(stream) => State::Waiting(stream),
                Err(e) => State::Failed(Some(e)),
            };
        }
    }
}

/// A pair of connected unix streams, both registered with this thread's driver.
pub fn pair() -> io::Result<(Stream, Stream)> {
    let mut fds = [0; 2];
    // SAFETY: the call fills the two integers.
    let r = unsafe {
        libc::socketpair(
            libc::AF_UNIX,
            libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC,
            0,
            fds.as_mut_ptr(),
        )
    };
    if r < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: fresh descriptors that nobody else owns.
    let [a, b] = fds.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    Ok((Stream::from_accepted(a)?, Stream::from_accepted(b)?))
}
