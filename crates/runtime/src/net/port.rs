//! A listening socket as the threads of a process share it: each accepts from it with a [`Listener`](super::Listener) of
//! its own, and the process may let go of the address for a while and take it back.
//!
//! A thread that waits with io_uring does not wait on the socket itself but on an epoll instance in which the socket is
//! the only entry. An operation in flight keeps the file it waits on open until the kernel has taken the ring apart,
//! which happens some milliseconds after a process was killed: until then the kernel would go on to accept
//! connections for nobody. An entry in an epoll instance keeps nothing open. One instance is shared by all threads, so that
//! a connection still wakes one of them only. A thread that stops waiting may have been the one that was woken: it
//! [passes that on](Events::again).

use super::listener::listen;
use super::{Listening, SockAddr, descriptor, syscall};
use crate::driver::socket::ConnectAddress;
use crate::task::{Reason, TaskId};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Arc, PoisonError, Weak};

use thalweg_shared::{AtomicBool, AtomicU32, Mutex, MutexGuard, Ordering};

/// How a process lets go of the address of a listening socket.
pub enum LetGo {
    /// Not at all: the address is not its own to give (an inherited socket), or whoever wants it takes it (a path).
    Keep,
    /// By ending the listening state: another socket with `SO_REUSEADDR` can listen then.
    Unlisten(Listening),
    /// By closing the socket; the function opens another one.
    Close(Box<dyn Fn() -> io::Result<OwnedFd> + Send + Sync>),
}

/// A listening socket of a process.
pub struct Port {
    /// Changes whenever the socket does. Read before each accept, written by [`let_go`](Self::let_go) and
    /// [`take_back`](Self::take_back) only.
    turn: AtomicU32,
    how: LetGo,
    /// Another process may accept from the socket, too.
    shared: AtomicBool,
    retired: AtomicBool,
    state: Mutex<State>,
}

struct State {
    held: bool,
    socket: Option<Shared>,
    /// Connections that were waiting when the port was let go, oldest first. At most a backlog each time.
    taken_in: VecDeque<(OwnedFd, SockAddr)>,
    /// The tasks that accept, which must notice when the socket changes.
    tasks: Vec<TaskId>,
}

/// A socket, one descriptor for all threads, and what tells of its connections without keeping it open.
struct Shared {
    socket: Arc<OwnedFd>,
    /// Made for the first thread that wants it.
    events: Option<Arc<Events>>,
}

/// Tells of the connections of one listening socket.
pub(crate) struct Events {
    epoll: OwnedFd,
    /// Entered under its number, which may be another file's once it is closed.
    socket: Weak<OwnedFd>,
}

impl Events {
    fn of(socket: &Arc<OwnedFd>) -> io::Result<Events> {
        // SAFETY: takes no pointer; the result is checked before it is owned.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` is open and owned by nobody else.
        let events = Events { epoll: unsafe { OwnedFd::from_raw_fd(fd) }, socket: Arc::downgrade(socket) };
        events.control(libc::EPOLL_CTL_ADD, socket)?;
        Ok(events)
    }

    fn control(&self, operation: i32, socket: &OwnedFd) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        // SAFETY: the event is valid for the call.
        let r = unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), operation, socket.as_raw_fd(), &mut event) };
        if r < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Tells once more, if there is a connection: the kernel looks at a new entry and wakes a waiter. (At one that changes
    /// it does so only if it was not ready before.)
    pub fn again(&self) {
        // A socket that is closed has nothing to tell, and two threads that do this at once leave an entry, too.
        if let Some(socket) = self.socket.upgrade() {
            let _ = self.control(libc::EPOLL_CTL_DEL, &socket);
            let _ = self.control(libc::EPOLL_CTL_ADD, &socket);
        }
    }

    /// What to wait on.
    pub fn fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }
}

impl Shared {
    fn new(socket: OwnedFd) -> Shared {
        Shared { socket: Arc::new(socket), events: None }
    }

    /// What tells of its connections. Without a descriptor for that, threads wait on the socket itself.
    fn events(&mut self) -> Option<Arc<Events>> {
        if self.events.is_none() {
            self.events = Events::of(&self.socket).ok().map(Arc::new);
        }
        self.events.clone()
    }
}

impl Port {
    /// A port that listens on `socket`.
    pub fn new(socket: OwnedFd, how: LetGo) -> Port {
        let state = State {
            held: true,
            socket: Some(Shared::new(socket)),
            taken_in: VecDeque::new(),
            tasks: Vec::new(),
        };
        Port {
            turn: AtomicU32::new(0),
            how,
            shared: AtomicBool::new(false),
            retired: AtomicBool::new(false),
            state: Mutex::new(state),
        }
    }

    /// Other processes may have the socket: [`retire`](Self::retire) must not end its listening state.
    pub fn share(&self) {
        self.shared.store(true, Ordering::Relaxed);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The socket, to hand it to another process; `None` while there is none.
    pub fn socket(&self) -> Option<Arc<OwnedFd>> {
        self.state().socket.as_ref().map(|shared| shared.socket.clone())
    }

    /// The address.
    ///
    /// # Errors
    /// `NotConnected` while there is no socket.
    pub fn local_addr(&self) -> io::Result<SockAddr> {
        descriptor::local_addr(self.socket().ok_or(io::ErrorKind::NotConnected)?.as_raw_fd())
    }

    /// Gives the address up. Connections that were not accepted yet are accepted now, and given to the listeners; those of
    /// a path and of an inherited socket go on to queue up.
    ///
    /// # Errors
    /// When the kernel does not let the socket stop listening; it listens on then.
    pub fn let_go(&self) -> io::Result<()> {
        let mut state = self.state();
        if !state.held || matches!(self.how, LetGo::Keep) {
            return Ok(());
        }
        state.held = false;
        self.announce();
        let stopped = state.take_in(true);
        match &self.how {
            LetGo::Close(_) => state.socket = None,
            _ => state.held = stopped.is_err(),
        }
        self.changed(&state);
        stopped
    }

    /// Gives the address up for good, with all that [`let_go`](Self::let_go) does not give up. A socket that other
    /// processes [share](Self::share) goes on to listen there.
    pub fn retire(&self) {
        let mut state = self.state();
        // An inherited socket is the parent's.
        let address = state.socket.as_ref().and_then(|s| descriptor::local_addr(s.socket.as_raw_fd()).ok());
        let ours = match self.how {
            LetGo::Keep => address.is_some_and(|address| address.is_unix()),
            _ => true,
        };
        if state.held {
            state.held = false;
            self.announce();
            // Where the listening state cannot be ended, closing the socket does it.
            let _ = state.take_in(ours && !self.shared.load(Ordering::Relaxed));
        }
        state.socket = None;
        // Not before: whoever sees it and finds nobody waiting goes, and the last one that goes leaves those that wait to be reset.
        self.retired.store(true, Ordering::Release);
        self.changed(&state);
    }

    /// Whether it gave its address up for good. Those that were waiting then are known.
    pub fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    /// Takes the address back.
    ///
    /// # Errors
    /// `EADDRINUSE` when somebody else has it. It can be tried again.
    pub fn take_back(&self) -> io::Result<()> {
        let mut state = self.state();
        if state.held {
            return Ok(());
        }
        match (&self.how, &state.socket) {
            (LetGo::Unlisten(how), Some(shared)) => listen(shared.socket.as_fd(), *how)?,
            (LetGo::Close(open), _) => {
                let socket = open()?;
                syscall::set_nonblocking(socket.as_raw_fd())?;
                state.socket = Some(Shared::new(socket));
            }
            _ => {}
        }
        state.held = true;
        self.changed(&state);
        Ok(())
    }

    /// A thread that finds the socket not listening shall know why, and wait for the lock to know what comes instead.
    fn announce(&self) {
        self.turn.fetch_add(1, Ordering::Release);
    }

    fn changed(&self, state: &State) {
        self.turn.fetch_add(1, Ordering::Release);
        for task in &state.tasks {
            task.wake(Reason::OTHER);
        }
    }

    /// The number of the present state.
    #[inline]
    pub(super) fn turn(&self) -> u32 {
        self.turn.load(Ordering::Acquire)
    }

    /// The present state for a listener of this thread, whose task is told of the next: its number, the socket if it is
    /// held, and, for a thread that waits on that, what tells of its connections.
    #[allow(clippy::type_complexity)] // Taken apart at once by its one caller.
    pub(super) fn join(
        &self,
        task: TaskId,
        wants_events: bool,
    ) -> (u32, Option<(Arc<OwnedFd>, Option<Arc<Events>>)>) {
        let mut state = self.state();
        if task != TaskId::NONE && !state.tasks.contains(&task) {
            state.tasks.push(task);
        }
        let held = state.held;
        let shared = state.socket.as_mut().filter(|_| held).map(|shared| {
            let events = if wants_events { shared.events() } else { None };
            (shared.socket.clone(), events)
        });
        (self.turn(), shared)
    }

    /// The next connection that was waiting when the port was let go.
    pub(super) fn taken_in(&self) -> Option<(OwnedFd, SockAddr)> {
        self.state().taken_in.pop_front()
    }

    /// Whether there is one.
    pub(super) fn has_taken_in(&self) -> bool {
        !self.state().taken_in.is_empty()
    }

    /// The socket itself, for the simulator, whose listeners are its only owners. There is one thread there.
    pub(super) fn take(&self) -> (u32, Option<Arc<OwnedFd>>) {
        let shared = self.state().socket.take();
        (self.turn(), shared.map(|s| s.socket))
    }

    /// The listener whose task this is exists no longer.
    pub(super) fn leave(&self, task: TaskId) {
        self.state().tasks.retain(|other| *other != task);
    }
}

impl State {
    /// Accepts all that waits, and then, if `ends`, ends the listening state of the socket. Between the two there are
    /// microseconds in which a connection of TCP can be lost; one to a unix socket is refused.
    fn take_in(&mut self, ends: bool) -> io::Result<()> {
        let Some(shared) = &self.socket else { return Ok(()) };
        let fd = shared.socket.as_raw_fd();
        // One that came from elsewhere blocks as long as no thread has listened on it, and a stop may come before that.
        syscall::set_nonblocking(fd)?;
        let is_unix = descriptor::local_addr(fd).is_ok_and(|address| address.is_unix());
        if ends && is_unix {
            syscall::shutdown_read(fd)?;
        }
        // A thread that lacks descriptors leaves the rest to be reset.
        loop {
            // SAFETY: all-zero bytes are valid for these C structures.
            let mut address: ConnectAddress = unsafe { std::mem::zeroed() };
            match syscall::accept(fd, &mut address) {
                Ok(fd) => self.taken_in.push_back((fd, SockAddr::from_raw(&address))),
                Err(libc::ECONNABORTED | libc::EPERM) => {}
                Err(_) => break,
            }
        }
        if ends && !is_unix { unlisten(shared.socket.as_fd()) } else { Ok(()) }
    }
}

impl std::fmt::Debug for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Port({:?})", self.socket())
    }
}

/// Ends the listening state of a TCP socket, which stays bound.
fn unlisten(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: all-zero bytes are valid for this C structure.
    let mut nowhere: libc::sockaddr = unsafe { std::mem::zeroed() };
    nowhere.sa_family = libc::AF_UNSPEC as libc::sa_family_t;
    // SAFETY: the pointer and the length describe `nowhere`.
    let r = unsafe {
        libc::connect(socket.as_raw_fd(), &raw const nowhere, size_of_val(&nowhere) as libc::socklen_t)
    };
    if r < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
