//! Listening sockets.

use super::options::{ListenOptions, Listening, SAVE_SYN, set};
use super::port::Events;
use super::stream::bind;
use super::{Port, SockAddr, descriptor, syscall};
use crate::driver;
use crate::driver::socket::{Bits, Socket, SocketRef};
use crate::task::{TaskId, current_task};
use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::task::Poll;

/// A listening socket of this thread's driver. Several threads may each have one on the same socket (see [`Port`]); a
/// new connection then wakes one of those that are not paused.
pub struct Listener {
    /// `None` while the port is let go.
    socket: Option<SocketRef>,
    port: Option<Member>,
    paused: bool,
    _thread_local: PhantomData<*mut ()>,
}

/// The port a listener belongs to.
struct Member {
    port: Arc<Port>,
    /// The state of the port that the listener follows.
    turn: u32,
    /// The task that accepts, which the port wakes.
    task: TaskId,
    /// The port may have connections that were waiting when it was let go.
    left: bool,
}

impl Listener {
    #[inline]
    fn record(&mut self) -> Option<&mut Socket> {
        // SAFETY: this is the record's one owner, on the driver's thread; drivers hold no reference between calls.
        self.socket.as_mut().map(|socket| unsafe { socket.as_mut() })
    }

    fn peek(&self) -> Option<&Socket> {
        // SAFETY: as `record`.
        self.socket.as_ref().map(|socket| unsafe { socket.as_ref() })
    }

    /// Binds and listens, and registers with this thread's driver.
    pub fn bind(address: &SockAddr, opts: &ListenOptions) -> io::Result<Listener> {
        if let Some(fd) = driver::with(|d| d.simulated().map(|sim| sim.open_listener(address, opts))) {
            return Ok(Listener::with(Some(register(Arc::new(fd?), None)?), None));
        }
        Listener::from_fd(open(address, opts)?)
    }

    /// Registers a socket that listens already, for instance an inherited one; it is made non-blocking.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Listener> {
        prepare_listening(&fd)?;
        Ok(Listener::with(Some(register(Arc::new(fd), None)?), None))
    }

    /// Listens on a port that other threads may listen on, too, and follows it when it is let go and taken back. It begins
    /// with the first accept, whose task the port will wake.
    pub fn on(port: Arc<Port>) -> Listener {
        let turn = port.turn().wrapping_sub(1);
        Listener::with(None, Some(Member { port, turn, task: TaskId::NONE, left: false }))
    }

    fn with(socket: Option<SocketRef>, port: Option<Member>) -> Listener {
        Listener { socket, port, paused: false, _thread_local: PhantomData }
    }

    /// Does what the port did.
    #[cold]
    fn follow(&mut self) -> io::Result<()> {
        let Some(member) = &mut self.port else { return Ok(()) };
        member.port.leave(member.task);
        member.task = current_task();
        if driver::with(|d| d.simulated().is_some()) {
            let (turn, socket) = member.port.take();
            member.turn = turn;
            if let Some(socket) = socket {
                self.socket = Some(register(socket, None)?);
            }
            return Ok(());
        }
        let (turn, shared) = member.port.join(member.task, driver::with(|d| d.waits_on_events()));
        if let Some(old) = self.socket.take() {
            driver::with(|d| d.close(old));
        }
        if let Some((socket, events)) = shared {
            prepare_listening(&socket)?;
            let registered = match register(socket.clone(), events.clone()) {
                // Another listener of this thread waits on the same descriptor.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    register(Arc::new(socket.try_clone()?), events)
                }
                registered => registered,
            };
            self.socket = Some(registered?);
        }
        self.paused = false;
        // Last: whatever failed is tried again.
        if let Some(member) = &mut self.port {
            member.turn = turn;
            member.left = true;
        }
        Ok(())
    }

    /// Whether its port gave the address up for good: there is nothing to accept but what was waiting.
    pub fn is_retired(&self) -> bool {
        self.port.as_ref().is_some_and(|member| member.port.is_retired())
    }

    /// Whether there are connections that were waiting when the port was let go.
    pub fn has_left(&mut self) -> bool {
        self.keep_up();
        let Some(member) = self.port.as_mut().filter(|member| member.left) else { return false };
        member.left = member.port.has_taken_in();
        member.left
    }

    #[cold]
    fn take_left(&mut self) -> Option<(OwnedFd, SockAddr)> {
        let member = self.port.as_mut()?;
        let left = member.port.taken_in();
        member.left = left.is_some();
        left
    }

    /// Whether the port changed since this listener followed it, or another task would be the one to tell.
    #[inline]
    fn is_behind(&self) -> bool {
        self.port.as_ref().is_some_and(|m| m.turn != m.port.turn() || m.task != current_task())
    }

    /// Accepts a connection: a non-blocking descriptor that any thread may turn into a
    /// [`Stream`](super::Stream), and the peer's address.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`, `ENOBUFS`, `ENOMEM`: there is a connection but no room for it; the caller pauses and tries
    /// later. `ECONNABORTED` and the network errors accept(2) lists concern one connection: the caller goes on. `EINVAL`:
    /// the socket does not listen.
    pub fn poll_accept(&mut self) -> Poll<io::Result<(OwnedFd, SockAddr)>> {
        if self.paused {
            return Poll::Pending;
        }
        if self.is_behind()
            && let Err(error) = self.follow()
        {
            return Poll::Ready(Err(error));
        }
        if self.port.as_ref().is_some_and(|member| member.left)
            && let Some(accepted) = self.take_left()
        {
            return Poll::Ready(Ok(accepted));
        }
        let Some(s) = self.record() else { return Poll::Pending };
        let accepted = driver::with(|d| {
            loop {
                if d.poll_input(s).is_pending() {
                    return Poll::Pending;
                }
                match d.accept(s) {
                    Ok(accepted) => return Poll::Ready(Ok(accepted)),
                    Err(libc::EAGAIN) => s.bits.clear(Bits::READABLE),
                    Err(errno) => return Poll::Ready(Err(io::Error::from_raw_os_error(errno))),
                }
            }
        });
        // The port was let go in between: that is no error.
        if matches!(accepted, Poll::Ready(Err(_))) && self.is_behind() {
            self.poll_accept()
        } else {
            accepted
        }
    }

    /// [`poll_accept`](Self::poll_accept) as a future.
    pub fn accept(&mut self) -> impl Future<Output = io::Result<(OwnedFd, SockAddr)>> + '_ {
        std::future::poll_fn(|_| self.poll_accept())
    }

    /// Does what the port did since, for a task that does not accept at present: it may be the last one that keeps an
    /// address which the process let go of.
    pub fn keep_up(&mut self) {
        if self.is_behind() {
            let paused = self.paused;
            // What fails is tried again by the next accept.
            let _ = self.follow();
            if paused {
                self.pause();
            }
        }
    }

    /// Leaves new connections in the kernel's backlog, or to other threads that share the socket.
    pub fn pause(&mut self) {
        if !self.paused {
            self.paused = true;
            if let Some(s) = self.record() {
                driver::with(|d| d.pause(s));
            }
        }
    }

    /// Accepts again, including connections that arrived in between. The task that accepts must poll once.
    ///
    /// # Errors
    /// When it cannot be registered again; it is still paused then, and may be resumed later.
    pub fn resume(&mut self) -> io::Result<()> {
        if self.paused {
            if let Some(s) = self.record() {
                driver::with(|d| d.resume(s))?;
            }
            self.paused = false;
        }
        Ok(())
    }

    /// Leaves connections where they are for a while, in milliseconds, after one could not be accepted for lack of
    /// something, and then for as long as accepting cannot begin again.
    pub async fn rest(&mut self, ms: u64) {
        self.pause();
        crate::timer::sleep(ms).await;
        while self.resume().is_err() {
            crate::timer::sleep(ms).await;
        }
    }

    /// Another descriptor of the same socket, for another thread or process.
    ///
    /// # Errors
    /// `NotConnected` while the port is let go.
    pub fn try_clone_fd(&self) -> io::Result<OwnedFd> {
        let socket = self.peek().ok_or(io::ErrorKind::NotConnected)?;
        // SAFETY: the record owns the descriptor and `self` keeps it open.
        unsafe { BorrowedFd::borrow_raw(socket.fd) }.try_clone_to_owned()
    }

    /// Whether it is paused.
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// The address it is bound to, with the port the kernel chose for port 0.
    ///
    /// # Errors
    /// `NotConnected` while the port is let go.
    pub fn local_addr(&self) -> io::Result<SockAddr> {
        let socket = self.peek().ok_or(io::ErrorKind::NotConnected)?;
        match driver::with(|d| d.simulated().map(|sim| sim.addresses(socket).0)) {
            Some(address) => Ok(address),
            None => descriptor::local_addr(socket.fd),
        }
    }
}

fn prepare_listening(fd: &OwnedFd) -> io::Result<()> {
    if driver::with(|d| d.simulated().is_none()) {
        syscall::set_nonblocking(fd.as_raw_fd())?;
        // Accepted sockets inherit it, which saves a call for each of them. Only TCP has it.
        let _ = set::nodelay(fd.as_raw_fd(), true);
    }
    Ok(())
}

fn register(socket: Arc<OwnedFd>, events: Option<Arc<Events>>) -> io::Result<SocketRef> {
    driver::with(|d| d.adopt_listener(socket, events))
}

impl AsRawFd for Listener {
    /// The descriptor, -1 while the port is let go.
    fn as_raw_fd(&self) -> RawFd {
        self.peek().map_or(-1, |s| s.fd)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(member) = &self.port {
            member.port.leave(member.task);
        }
        let Some(socket) = self.socket else { return };
        if driver::try_with(|d| d.close(socket)).is_none() {
            // Its port and other threads may have the same socket: it is closed with the last of them.
            if let Some(record) = self.record() {
                record.extra = None;
            }
            driver::left_one();
        }
    }
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Listener(fd {})", self.as_raw_fd())
    }
}

/// Binds and listens without registering, before any thread with a driver exists (while the process still has its
/// privileges, for instance).
pub fn open(address: &SockAddr, opts: &ListenOptions) -> io::Result<OwnedFd> {
    let mut refused = Vec::new();
    let socket = open_leaving_out(address, opts, &mut refused)?;
    match refused.pop() {
        Some((_, error)) => Err(error),
        None => Ok(socket),
    }
}

/// A tuning option of a listening socket that the kernel refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    Mss(u32),
    DeferAccept,
    FastOpen,
    SaveSyn,
    Congestion,
    UserTimeout,
    NotSentLowat,
    Interface,
}

/// As [`open`], but goes on without those tuning options that the kernel refuses, and adds each with its error to
/// `refused`.
pub fn open_leaving_out(
    address: &SockAddr,
    opts: &ListenOptions,
    refused: &mut Vec<(Refused, io::Error)>,
) -> io::Result<OwnedFd> {
    let kind = if opts.seqpacket && address.is_unix() { libc::SOCK_SEQPACKET } else { libc::SOCK_STREAM };
    let protocol = if opts.mptcp && !address.is_unix() { libc::IPPROTO_MPTCP } else { 0 };
    let socket = syscall::socket_in(opts.namespace.as_ref(), address.family(), kind, protocol)?;
    let fd = socket.as_raw_fd();
    buffers(fd, opts)?;
    match address {
        SockAddr::Unix(path) => bind_path(socket.as_fd(), path, opts)?,
        SockAddr::Abstract(_) => bind(fd, address)?,
        _ => {
            prepare(fd, address, opts, refused)?;
            bind(fd, address)?;
        }
    }
    if !matches!(address, SockAddr::Unix(_)) {
        listen(socket.as_fd(), opts.listening())?;
    }
    Ok(socket)
}

/// Gives a socket that another process opened and bound the options that a new one would have, but for those that need
/// one that is not bound. Goes on without those that the kernel refuses, as [`open_leaving_out`] does.
pub fn tune_bound(
    socket: BorrowedFd<'_>,
    opts: &ListenOptions,
    refused: &mut Vec<(Refused, io::Error)>,
) -> io::Result<()> {
    let fd = socket.as_raw_fd();
    let address = descriptor::local_addr(fd)?;
    buffers(fd, opts)?;
    if address.is_unix() { Ok(()) } else { tune(fd, &address, opts, refused) }
}

fn buffers(fd: RawFd, opts: &ListenOptions) -> io::Result<()> {
    opts.receive_buffer.map_or(Ok(()), |bytes| set::receive_buffer(fd, bytes))?;
    opts.send_buffer.map_or(Ok(()), |bytes| set::send_buffer(fd, bytes))
}

/// (Re)starts listening, or changes how.
pub fn listen(socket: BorrowedFd<'_>, how: Listening) -> io::Result<()> {
    let fd = socket.as_raw_fd();
    // SAFETY: takes no pointer.
    if unsafe { libc::listen(fd, i32::try_from(how.backlog).unwrap_or(i32::MAX)) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // The kernel forgets this where the socket did not listen.
    acknowledge(socket, how);
    Ok(())
}

/// When a listening socket's connections acknowledge what they receive. Who had it before may have had that otherwise.
pub fn acknowledge(socket: BorrowedFd<'_>, how: Listening) {
    // Nothing is lost where there is no such option (unix sockets, MPTCP).
    let _ = set::quickack(socket.as_raw_fd(), !how.no_quick_ack);
}

fn prepare(
    fd: RawFd,
    address: &SockAddr,
    opts: &ListenOptions,
    refused: &mut Vec<(Refused, io::Error)>,
) -> io::Result<()> {
    set::flag(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR)?;
    if opts.reuseport {
        set::flag(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT)?;
    }
    if let (SockAddr::V6(_), Some(only)) = (address, opts.v6only) {
        set::value(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, i32::from(only))?;
    }
    if opts.transparent {
        set::transparent(fd, address.family())?;
    }
    if let Some(name) = &opts.interface
        && let Err(error) = set::interface(fd, name)
    {
        refused.push((Refused::Interface, error));
    }
    tune(fd, address, opts, refused)
}

/// What can be set on a socket of TCP that is bound, too.
fn tune(
    fd: RawFd,
    address: &SockAddr,
    opts: &ListenOptions,
    refused: &mut Vec<(Refused, io::Error)>,
) -> io::Result<()> {
    let mut tuned = |what: Refused, result: io::Result<()>| {
        if let Err(error) = result {
            refused.push((what, error));
        }
    };
    if let Some(mss) = opts.mss {
        tuned(Refused::Mss(mss), set::mss(fd, mss));
    }
    if let Some(seconds) = opts.defer_accept_s {
        let seconds = seconds.min(32_767).cast_signed();
        tuned(Refused::DeferAccept, set::value(fd, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, seconds));
    }
    if let Some(queue) = opts.fastopen {
        let queue = queue.min(65_535).cast_signed();
        tuned(Refused::FastOpen, set::value(fd, libc::IPPROTO_TCP, libc::TCP_FASTOPEN, queue));
    }
    if let Some(mode) = opts.save_syn {
        tuned(Refused::SaveSyn, set::value(fd, libc::IPPROTO_TCP, SAVE_SYN, i32::from(mode)));
    }
    if let Some(name) = &opts.congestion {
        tuned(Refused::Congestion, set::congestion(fd, name));
    }
    if let Some(key) = &opts.md5 {
        set::md5_of_all(fd, address, key)?;
    }
    if let Some(ms) = opts.user_timeout_ms {
        tuned(Refused::UserTimeout, set::user_timeout_ms(fd, ms));
    }
    if let Some(mark) = opts.mark {
        set::mark(fd, mark)?;
    }
    if let Some(tos) = opts.tos {
        set::tos(fd, tos)?;
    }
    if let Some(bytes) = opts.notsent_lowat {
        tuned(Refused::NotSentLowat, set::notsent_lowat(fd, bytes));
    }
    if opts.nodelay {
        set::nodelay(fd, true)?;
    }
    if let Some(keepalive) = &opts.keepalive {
        set::keepalive(fd, keepalive)?;
    }
    Ok(())
}

/// Binds under a temporary name, sets the file's permissions, listens, and only then takes the name, so that there is
/// no moment at which clients find nobody listening or the wrong permissions.
fn bind_path(socket: BorrowedFd<'_>, path: &Path, opts: &ListenOptions) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = Path::new(&name);
    let _ = std::fs::remove_file(temporary);
    bind(socket.as_raw_fd(), &SockAddr::Unix(temporary.into()))?;
    let result = (|| {
        let c_path = std::ffi::CString::new(temporary.as_os_str().as_bytes())?;
        if opts.uid.is_some() || opts.gid.is_some() {
            // SAFETY: the path is a valid C string; u32::MAX leaves an id as it is.
            let r = unsafe {
                libc::chown(c_path.as_ptr(), opts.uid.unwrap_or(u32::MAX), opts.gid.unwrap_or(u32::MAX))
            };
            if r < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        if let Some(mode) = opts.mode {
            // SAFETY: the path is a valid C string.
            if unsafe { libc::chmod(c_path.as_ptr(), mode) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        listen(socket, opts.listening())?;
        std::fs::rename(temporary, path)
    })();
    if result.is_err() {
        let _ = std::fs::remove_file(temporary);
    }
    result
}
