//! Moving many bytes from one stream to another without looking at them.
//!
//! Two means: **copy** through one buffer per thread, large enough to save calls and small enough to stay in the
//! processor's cache; and **splice** through a pipe, which passes the pages on in which the bytes arrived. Who splices on
//! request ([`TransferMode::Splice`]) keeps a pipe, with what its receiver has no room for. [`TransferMode::Auto`] borrows a
//! pipe of the thread for each turn: what is left in it then is copied out, so that a slow receiver holds no descriptors. It
//! copies from then on when what comes is too little to be worth a pipe.

use super::{Stream, syscall};
use crate::buffer::{BULK_SIZE, Buf};
use crate::driver;
use crate::driver::socket::{Bits, Socket, moment};
use std::cell::RefCell;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::task::Poll;

use thalweg_shared::{AtomicU32, Ordering};

/// Bytes of the thread's shared buffer, and of a pipe. What is left in a pipe fits into a bulk buffer.
const SHARED: usize = 256 * 1024;
const _: () = assert!(SHARED <= BULK_SIZE);
/// Bytes asked of the first receive, before it is known how fast the receiver takes them.
const FIRST: usize = 128 * 1024;
/// Least bytes asked of a receive.
const LEAST: usize = 16 * 1024;
/// A piece of less than this costs less to copy than to pass through a pipe.
const SPLICE_LEAST: usize = 8 * 1024;
/// Free pipes kept per thread.
const PIPES_MAX: usize = 64;

/// Bytes of a pipe (`tune.pipesize`), 0 for as many as the shared buffer has.
static PIPE_SIZE: AtomicU32 = AtomicU32::new(0);
/// Most pipes of the process (`maxpipes`), 0 for no limit.
static PIPES_LIMIT: AtomicU32 = AtomicU32::new(0);
/// Pipes there are. Touched when a pipe is made or closed, not when one is used again.
static PIPES_NOW: AtomicU32 = AtomicU32::new(0);

/// Sets the bytes of each pipe and the most pipes of the process, 0 for the default and for no limit. Call it before
/// threads start.
pub fn set_pipe_limits(size: u32, most: u32) {
    PIPE_SIZE.store(size, Ordering::Relaxed);
    PIPES_LIMIT.store(most, Ordering::Relaxed);
}

/// How bytes are moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransferMode {
    /// Through a pipe of the thread while much comes at once, else through its shared buffer.
    #[default]
    Auto,
    /// Through a pipe, without copying (`option splice-*`).
    Splice,
    /// Through the thread's shared buffer.
    Copy,
}

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static PIPES: RefCell<Vec<Pipe>> = const { RefCell::new(Vec::new()) };
}

/// Runs `f` on the thread's shared buffer. `f` must not come back here.
pub(crate) fn with_shared<R>(f: impl FnOnce(&mut [u8]) -> R) -> R {
    BUFFER.with_borrow_mut(|buffer| {
        if buffer.is_empty() {
            // Pages that nothing was received into take no memory.
            *buffer = vec![0; SHARED];
        }
        f(buffer)
    })
}

struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
    _counted: Counted,
}

/// One of the pipes that `maxpipes` allows.
struct Counted;

impl Counted {
    fn new() -> Option<Counted> {
        let limit = PIPES_LIMIT.load(Ordering::Relaxed);
        let now = PIPES_NOW.fetch_add(1, Ordering::Relaxed);
        // Made first, so that leaving it gives the place back.
        let counted = Counted;
        (limit == 0 || now < limit).then_some(counted)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        PIPES_NOW.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Pipe {
    fn take() -> io::Result<Pipe> {
        if let Some(pipe) = PIPES.with_borrow_mut(Vec::pop) {
            return Ok(pipe);
        }
        let counted = Counted::new().ok_or(io::ErrorKind::ResourceBusy)?;
        let mut fds = [0; 2];
        // SAFETY: the call fills the two integers.
        if unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_NONBLOCK | libc::O_CLOEXEC) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: fresh descriptors that nobody else owns; the size is a wish that the kernel may refuse.
        let pipe = unsafe {
            let size = match PIPE_SIZE.load(Ordering::Relaxed) {
                0 => SHARED as i32,
                given => given.cast_signed(),
            };
            libc::fcntl(fds[1], libc::F_SETPIPE_SZ, size);
            Pipe {
                read: OwnedFd::from_raw_fd(fds[0]),
                write: OwnedFd::from_raw_fd(fds[1]),
                _counted: counted,
            }
        };
        Ok(pipe)
    }

    fn give_back(self) {
        let _ = PIPES.try_with(|pipes| {
            let mut pipes = pipes.borrow_mut();
            if pipes.len() < PIPES_MAX {
                pipes.push(self);
            }
        });
    }
}

/// The most that a chunk's header takes: sixteen digits and a line end.
const CHUNK_HEADER_MAX: usize = 18;

/// What is written around the bytes that go through the pipe, and not sent yet.
#[derive(Default)]
struct Frame {
    bytes: [u8; CHUNK_HEADER_MAX],
    at: usize,
    len: usize,
    /// The end of the chunk is due when the pipe is empty.
    open: bool,
}

impl Frame {
    fn begin(&mut self, n: usize) {
        self.write(format_args!("{n:x}\r\n"));
        self.open = true;
    }

    fn end(&mut self) {
        self.write(format_args!("\r\n"));
        self.open = false;
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        let mut rest = &mut self.bytes[..];
        // There is room for any number.
        let _ = rest.write_fmt(text);
        let left = rest.len();
        (self.at, self.len) = (0, CHUNK_HEADER_MAX - left);
    }

    /// What has to be sent before anything else.
    fn due(&self) -> &[u8] {
        &self.bytes[self.at..self.len]
    }
}

/// One direction of a relay. It remembers what was received and not sent yet, which is only when the receiver is
/// slower than the sender, and at most 256 kB.
pub struct Transfer {
    mode: TransferMode,
    /// Each portion becomes a chunk (RFC 9112 section 7.1).
    frame: Option<Frame>,
    held: Option<Buf>,
    pipe: Option<Pipe>,
    in_pipe: usize,
    ask: usize,
    spliced: u64,
    taken: u64,
    output_is_full: bool,
}

impl Transfer {
    /// A transfer by the given means.
    pub fn new(mode: TransferMode) -> Transfer {
        Transfer {
            mode,
            frame: None,
            held: None,
            pipe: None,
            in_pipe: 0,
            ask: FIRST,
            spliced: 0,
            taken: 0,
            output_is_full: false,
        }
    }

    /// The same, making chunks of what it moves. The last one, which ends them, is left to the caller.
    pub fn in_chunks(mode: TransferMode) -> Transfer {
        let mut transfer = Transfer::new(mode);
        transfer.frame = Some(Frame::default());
        transfer
    }

    /// Whether bytes go through a pipe. They do not, from then on, where none could be had, the sockets cannot, or it is
    /// not worth it.
    pub fn is_splicing(&self) -> bool {
        self.mode != TransferMode::Copy
    }

    /// Bytes moved by splice so far.
    pub fn spliced(&self) -> u64 {
        self.spliced
    }

    /// Bytes taken out of the receiving side so far, those that are held and those that were lost included.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Bytes received, or due around them, and not yet accepted by the sending side's kernel; they are lost when this is
    /// dropped.
    pub fn held(&self) -> usize {
        let framing = self.frame.as_ref().map_or(0, |frame| frame.due().len() + usize::from(frame.open));
        self.in_pipe + self.held.as_ref().map_or(0, |b| b.len()) + framing
    }

    /// Whether the receiver is what the last poll stopped at.
    pub fn is_blocked_on_send(&self) -> bool {
        self.output_is_full || self.held() > 0
    }

    /// Moves bytes. `Ready(n)`: the kernel accepted `n > 0` more bytes for `tx`; `Ready(0)`: `rx` ended and everything
    /// was sent. Never takes more than `limit` bytes out of `rx`, counted from what `tx` accepted: the caller
    /// subtracts each `n` from its limit and stops at zero. Moves at most 256 kB per call.
    ///
    /// What `rx` received ahead is moved too. Both streams can be used as usual afterwards.
    ///
    /// # Errors
    /// With the side it came from.
    pub fn poll(&mut self, rx: &mut Stream, tx: &mut Stream, limit: u64) -> Poll<Result<u64, TransferError>> {
        if limit == 0 {
            return Poll::Ready(Ok(0));
        }
        self.output_is_full = true;
        match tx.poll_send_ready() {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(e)) => return Poll::Ready(Err(TransferError::Send(e))),
            Poll::Pending => return Poll::Pending,
        }
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        if self.held() > 0 {
            // Only when the kernel said that there is room: the odd bytes that it would take at any time are no sign
            // that the peer takes anything.
            if driver::with(|d| d.poll_output(tx.record())).is_pending() {
                return Poll::Pending;
            }
            let sent = self.send_held(tx)?;
            return if sent > 0 { Poll::Ready(Ok(sent as u64)) } else { Poll::Pending };
        }
        if driver::with(|d| d.poll_output(tx.record())).is_pending() {
            return Poll::Pending;
        }
        self.output_is_full = false;
        // What was received ahead comes first.
        if rx.record().rx.is_some() {
            return with_shared(|buffer| {
                let n = limit.min(buffer.len());
                let n = rx.record().copy_rx(&mut buffer[..n]);
                self.taken += n as u64;
                let sent = self.send_or_hold(tx, &buffer[..n], usize::MAX)?;
                if sent > 0 { Poll::Ready(Ok(sent as u64)) } else { Poll::Pending }
            });
        }
        let s = rx.record();
        if !driver::with(|d| d.quiesce(s)) {
            return Poll::Pending;
        }
        if s.rx.is_some() {
            return self.poll(rx, tx, limit as u64);
        }
        if let Some(error) = { s.rx_error }.take() {
            return Poll::Ready(Err(TransferError::Receive(error)));
        }
        if !s.bits.has(Bits::READABLE) && driver::with(|d| d.poll_input(s)).is_pending() {
            return Poll::Pending;
        }
        let to = tx.record();
        if to.bits.has(Bits::NODELAY_DUE) {
            to.set_nodelay();
        }
        let splices = match self.mode {
            TransferMode::Copy => false,
            TransferMode::Splice => true,
            // What is left of a chunk would have to be copied out with its frame.
            TransferMode::Auto => self.frame.is_none(),
        };
        if splices && driver::with(|d| d.simulated().is_none()) {
            return self.splice(rx, tx, limit);
        }
        self.copy(rx, tx, limit)
    }

    fn copy(&mut self, rx: &mut Stream, tx: &mut Stream, limit: usize) -> Poll<Result<u64, TransferError>> {
        with_shared(|buffer| {
            loop {
                let ask = self.ask.min(limit);
                let s = rx.record();
                match driver::with(|d| d.direct_recv(s, &mut buffer[..ask], 0)) {
                    Ok(0) => return Poll::Ready(Ok(0)),
                    Ok(n) => {
                        self.note_taken(n, ask, s);
                        if n < ask {
                            driver::with(|d| d.took_less(s));
                        }
                        let sent = self.send_or_hold(tx, &buffer[..n], ask)?;
                        return if sent > 0 { Poll::Ready(Ok(sent as u64)) } else { Poll::Pending };
                    }
                    Err(libc::EAGAIN) => {
                        s.bits.clear(Bits::READABLE);
                        if driver::with(|d| d.poll_input(s)).is_pending() {
                            return Poll::Pending;
                        }
                    }
                    Err(errno) => {
                        let e = io::Error::from_raw_os_error(errno);
                        return Poll::Ready(Err(TransferError::Receive(e)));
                    }
                }
            }
        })
    }

    /// One receive that asked for `asked` bytes brought `n`.
    fn note_taken(&mut self, n: usize, asked: usize, s: &mut Socket) {
        self.taken += n as u64;
        s.rx_ms = moment();
        s.note_moved(n);
        if self.mode == TransferMode::Auto && n < SPLICE_LEAST.min(asked) {
            self.stop_splicing();
        }
    }

    /// Copies from now on. Who did not ask for pipes keeps no more for a slow receiver than a buffer holds.
    fn stop_splicing(&mut self) {
        if self.mode == TransferMode::Auto {
            self.ask = LEAST;
        }
        self.mode = TransferMode::Copy;
    }

    /// Sends `bytes` and keeps what the kernel had no room for.
    fn send_or_hold(&mut self, tx: &mut Stream, bytes: &[u8], asked: usize) -> Result<usize, TransferError> {
        if let Some(frame) = &mut self.frame {
            frame.begin(bytes.len());
            let mut chunk = Buf::large(bytes.len() + CHUNK_HEADER_MAX + 2);
            for part in [frame.due(), bytes, b"\r\n"] {
                // It has room for all of them.
                let _ = chunk.extend_from_slice(part);
            }
            *frame = Frame::default();
            self.held = Some(chunk);
            return self.send_held(tx);
        }
        let sent = send(tx, bytes)?;
        if sent < bytes.len() {
            self.held = Some(Buf::copy_of(&bytes[sent..]));
        }
        self.note_sent(bytes.len(), sent, asked);
        Ok(sent)
    }

    /// Of `n` bytes, when `asked` were asked for, the receiver took `sent`: decides how many are asked for next.
    fn note_sent(&mut self, n: usize, sent: usize, asked: usize) {
        if sent < n {
            // The receiver is the slower side: take about as much as it took.
            self.ask = sent.clamp(LEAST, SHARED);
        } else if n == asked {
            self.ask = (self.ask * 2).min(SHARED);
        }
    }

    /// Gives a borrowed pipe back. What the receiver had no room for goes to `rest` first.
    fn leave_pipe(&mut self, mut rest: Buf) -> Result<(), TransferError> {
        let Some(pipe) = self.pipe.take() else { return Ok(()) };
        while self.in_pipe > 0 {
            let room = self.in_pipe;
            let read = syscall::read(pipe.read.as_raw_fd(), &mut rest.unused_mut()[..room]);
            let n = read.map_err(|errno| TransferError::Receive(io::Error::from_raw_os_error(errno)))?;
            if n == 0 {
                return Err(TransferError::Receive(io::ErrorKind::UnexpectedEof.into()));
            }
            rest.commit(n);
            self.in_pipe -= n;
        }
        if !rest.is_empty() {
            rest.leave_bulk();
            self.held = Some(rest);
        }
        pipe.give_back();
        Ok(())
    }

    fn send_held(&mut self, tx: &mut Stream) -> Result<usize, TransferError> {
        let Some(held) = &mut self.held else { return self.drain_pipe(tx) };
        let sent = send(tx, held)?;
        held.advance(sent);
        if held.is_empty() {
            self.held = None;
        }
        Ok(sent)
    }

    fn splice(&mut self, rx: &mut Stream, tx: &mut Stream, limit: usize) -> Poll<Result<u64, TransferError>> {
        // Where what is left in a borrowed pipe goes: as much of it is there as slow receivers may keep.
        let borrows = self.mode == TransferMode::Auto;
        let rest = if borrows { Buf::bulk() } else { None };
        if self.pipe.is_none() && (!borrows || rest.is_some()) {
            self.pipe = Pipe::take().ok();
        }
        if self.pipe.is_none() {
            // The copy works without one.
            self.stop_splicing();
            return self.copy(rx, tx, limit);
        }
        let polled = self.splice_through(rx, tx, limit);
        match (rest, &polled) {
            // Nothing moves any more, and others need no pipe of their own while this is not dropped.
            (_, Poll::Ready(Err(_))) => self.give_up_pipe(),
            (Some(rest), _) => self.leave_pipe(rest)?,
            (None, _) => {}
        }
        polled
    }

    fn splice_through(
        &mut self,
        rx: &mut Stream,
        tx: &mut Stream,
        limit: usize,
    ) -> Poll<Result<u64, TransferError>> {
        let Some(into) = self.pipe.as_ref().map(|pipe| pipe.write.as_raw_fd()) else { return Poll::Pending };
        let most = if self.mode == TransferMode::Auto { self.ask } else { SHARED };
        let ask = most.min(limit);
        loop {
            let s = rx.record();
            match splice(s.fd, into, ask) {
                Ok(0) => return Poll::Ready(Ok(0)),
                Ok(n) => {
                    self.in_pipe = n;
                    if let Some(frame) = &mut self.frame {
                        frame.begin(n);
                    }
                    self.note_taken(n, ask, s);
                    let sent = self.drain_pipe(tx)?;
                    self.note_sent(n, sent, ask);
                    return if sent > 0 { Poll::Ready(Ok(sent as u64)) } else { Poll::Pending };
                }
                Err(libc::EAGAIN) => {
                    s.bits.clear(Bits::READABLE);
                    if driver::with(|d| d.poll_input(s)).is_pending() {
                        return Poll::Pending;
                    }
                }
                Err(libc::EINVAL | libc::ENOSYS) => {
                    self.stop_splicing();
                    return self.copy(rx, tx, limit);
                }
                Err(errno) => {
                    return Poll::Ready(Err(TransferError::Receive(io::Error::from_raw_os_error(errno))));
                }
            }
        }
    }

    fn drain_pipe(&mut self, tx: &mut Stream) -> Result<usize, TransferError> {
        let Some(pipe) = &self.pipe else { return Ok(0) };
        let mut sent = 0;
        let mut moved = 0;
        loop {
            let s = tx.record();
            let due = self.frame.as_ref().map_or(&[][..], Frame::due);
            let framing = !due.is_empty();
            let result = if framing {
                let more = if self.in_pipe > 0 { libc::MSG_MORE } else { 0 };
                syscall::send(s.fd, due, more)
            } else if self.in_pipe > 0 {
                splice(pipe.read.as_raw_fd(), s.fd, self.in_pipe)
            } else {
                match &mut self.frame {
                    Some(frame) if frame.open => frame.end(),
                    _ => break,
                }
                continue;
            };
            match result {
                Ok(0) => break,
                Ok(n) => {
                    sent += n;
                    s.note_sent(n);
                    match &mut self.frame {
                        Some(frame) if framing => frame.at += n,
                        _ => {
                            self.in_pipe -= n.min(self.in_pipe);
                            moved += n;
                        }
                    }
                }
                Err(libc::EAGAIN) => {
                    s.bits.clear(Bits::WRITABLE);
                    if driver::with(|d| d.poll_output(s)).is_pending() {
                        break;
                    }
                }
                Err(errno) => return Err(TransferError::Send(io::Error::from_raw_os_error(errno))),
            }
        }
        self.spliced += moved as u64;
        Ok(sent)
    }

    /// Gives the pipe back. One with bytes in it must not be reused: it is closed, and they are lost.
    fn give_up_pipe(&mut self) {
        if let (0, Some(pipe)) = (self.in_pipe, self.pipe.take()) {
            pipe.give_back();
        }
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.give_up_pipe();
    }
}

/// Which side of a transfer failed.
#[derive(Debug)]
pub enum TransferError {
    /// Receiving from `rx`.
    Receive(io::Error),
    /// Sending to `tx`.
    Send(io::Error),
}

impl std::fmt::Display for TransferError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TransferError::Receive(e) => write!(f, "receiving failed: {e}"),
            TransferError::Send(e) => write!(f, "sending failed: {e}"),
        }
    }
}

impl std::error::Error for TransferError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            TransferError::Receive(e) | TransferError::Send(e) => Some(e),
        }
    }
}

/// Sends until everything went or the kernel has no room; registers for room then.
fn send(tx: &mut Stream, bytes: &[u8]) -> Result<usize, TransferError> {
    let mut sent = 0;
    let s = tx.record();
    while sent < bytes.len() {
        match driver::with(|d| d.direct_send(s, &bytes[sent..])) {
            Ok(n) => {
                sent += n;
                s.note_sent(n);
            }
            Err(libc::EAGAIN) => {
                s.bits.clear(Bits::WRITABLE);
                if driver::with(|d| d.poll_output(s)).is_pending() {
                    break;
                }
            }
            Err(errno) => return Err(TransferError::Send(io::Error::from_raw_os_error(errno))),
        }
    }
    Ok(sent)
}

fn splice(from: i32, to: i32, len: usize) -> Result<usize, i32> {
    loop {
        // SAFETY: no offsets are passed.
        let n = unsafe {
            libc::splice(
                from,
                std::ptr::null_mut(),
                to,
                std::ptr::null_mut(),
                len,
                libc::SPLICE_F_NONBLOCK | libc::SPLICE_F_MOVE,
            )
        };
        match syscall::check(n) {
            Err(libc::EINTR) => {}
            result => return result,
        }
    }
}
