//! The epoll driver: edge-triggered, each descriptor registered once, for all that it may receive. Room to send is asked for
//! the first time that there was none, which most connections never see: each answer to that question is an event, and
//! the kernel gives one for each socket that is registered with it.
//!
//! An event sets [`Bits::READABLE`] or [`Bits::WRITABLE`]; only a call that said "would block", or a receive that
//! returned less than it had room for, clears it. Calls are tried directly while the bit is set.

use super::socket::{Bits, ConnectAddress, Socket, moment};
use super::table::SocketTable;
use super::{Alarm, DriverOptions, PollStats, Wait};
use crate::buffer::Buf;
use crate::clock;
use crate::net::{descriptor, syscall};
use crate::task::current_task;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::task::Poll;

/// Token of the wake-up event; a record's is its number. Closing a file that another process shares, if only for the
/// moment between its fork and its exec, does not end the events about it, so they must not name an address.
const WAKE: u64 = u64::MAX;
/// Token of the timer.
const ALARM: u64 = u64::MAX - 1;
/// What is told of a connected socket.
const INPUT: i32 = libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET;

pub(crate) struct Epoll {
    fd: OwnedFd,
    events: Vec<libc::epoll_event>,
    /// Ends waits, to the nanosecond.
    timer: OwnedFd,
    alarm: Alarm,
}

impl Epoll {
    pub fn new(opts: &DriverOptions, wake: RawFd) -> io::Result<Epoll> {
        // SAFETY: takes no pointer; the result is checked before it is owned.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` is open and owned by nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let epoll = Epoll {
            fd,
            events: vec![libc::epoll_event { events: 0, u64: 0 }; opts.events_max.clamp(1, 65_536)],
            timer: timerfd()?,
            alarm: Alarm::UNSET,
        };
        // Setting it again takes an event back that was not seen, so that nobody has to read it.
        epoll.control(
            libc::EPOLL_CTL_ADD,
            epoll.timer.as_raw_fd(),
            (libc::EPOLLIN | libc::EPOLLET) as u32,
            ALARM,
        )?;
        epoll.control(libc::EPOLL_CTL_ADD, wake, (libc::EPOLLIN | libc::EPOLLET) as u32, WAKE)?;
        Ok(epoll)
    }

    fn control(&self, operation: i32, fd: RawFd, events: u32, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events, u64: token };
        // SAFETY: the event is valid for the call.
        if unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), operation, fd, &mut event) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    pub fn register(&mut self, s: &mut Socket) -> io::Result<()> {
        if s.bits.has(Bits::REGISTERED) {
            return Ok(());
        }
        let is_connected = s.bits.has(Bits::READABLE | Bits::WRITABLE);
        let events = if s.bits.has(Bits::LISTENER) {
            libc::EPOLLIN | libc::EPOLLET | libc::EPOLLEXCLUSIVE
        } else if is_connected {
            INPUT
        } else {
            return Ok(());
        };
        self.add(s, events)
    }

    fn add(&mut self, s: &mut Socket, events: i32) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, s.fd, events as u32, s.number.into())?;
        s.bits.set(Bits::REGISTERED);
        if events & libc::EPOLLOUT != 0 {
            s.bits.set(Bits::OUTPUT_WATCHED);
        }
        Ok(())
    }

    pub fn unregister(&mut self, s: &mut Socket) {
        if s.bits.has(Bits::REGISTERED) {
            let _ = self.control(libc::EPOLL_CTL_DEL, s.fd, 0, 0);
            s.bits.clear(Bits::REGISTERED | Bits::OUTPUT_WATCHED);
        }
    }

    pub fn close(&mut self, s: &mut Socket) {
        // Closing the last descriptor of a file removes it from the set. A listener's file may be shared with other
        // threads, and another process (inherited, or handed over at a reload), where the registration would live on.
        if s.bits.has(Bits::LISTENER) {
            self.unregister(s);
        }
        s.clear_tx();
        if !s.leave_shared() {
            syscall::close(s.fd);
        }
        s.fd = -1;
    }

    #[inline]
    pub fn poll_recv(&mut self, s: &mut Socket, max: usize) -> Poll<io::Result<Buf>> {
        if let Some(buf) = s.pop_rx(max) {
            return Poll::Ready(Ok(buf));
        }
        if !s.bits.has(Bits::READABLE) {
            s.reader = current_task();
            return Poll::Pending;
        }
        let Poll::Ready((mut buf, room)) = s.room(max) else {
            s.reader = current_task();
            let is_announced = s.bits.has(Bits::ANNOUNCED);
            return is_announced.then(|| s.verdict_alone()).flatten().map_or(Poll::Pending, Poll::Ready);
        };
        match syscall::recv(s.fd, &mut buf.unused_mut()[..room], 0) {
            Ok(0) => Poll::Ready(s.take_verdict().unwrap_or_else(|| Ok(Buf::empty()))),
            Ok(n) => {
                buf.commit(n);
                s.rx_ms = moment();
                s.note_received(n, room);
                // Less than asked for: the queue was empty, and anything later raises a new event. The end
                // of the stream may have been announced already, then it must be asked for again.
                if n < room && !s.bits.has(Bits::ANNOUNCED) {
                    s.bits.clear(Bits::READABLE);
                }
                Poll::Ready(Ok(buf))
            }
            Err(libc::EAGAIN) => {
                s.bits.clear(Bits::READABLE);
                s.reader = current_task();
                Poll::Pending
            }
            Err(errno) => Poll::Ready(Err(io::Error::from_raw_os_error(errno))),
        }
    }

    pub fn poll_readable(&mut self, s: &mut Socket) -> Poll<io::Result<()>> {
        if self.has_input(s) {
            return Poll::Ready(Ok(()));
        }
        s.reader = current_task();
        Poll::Pending
    }

    pub fn has_input(&mut self, s: &mut Socket) -> bool {
        if s.rx.is_some() || s.has_verdict() {
            return true;
        }
        if !s.bits.has(Bits::READABLE) {
            return false;
        }
        let something = s.look();
        if !something {
            s.bits.clear(Bits::READABLE);
        }
        something
    }

    pub fn is_leaving(&mut self, s: &mut Socket) -> bool {
        s.reader = current_task();
        s.bits.has(Bits::ANNOUNCED) || s.has_verdict()
    }

    pub fn arm_input(&mut self, _: &mut Socket) {}
    pub fn want_input(&mut self, _: &mut Socket) {}

    /// The kernel had no room, and [`Bits::WRITABLE`] is cleared: sees to it that an event tells of some. The change looks at
    /// the socket, so that room which came in between is told of, too.
    pub fn want_output(&mut self, s: &mut Socket) {
        if !s.bits.has(Bits::OUTPUT_WATCHED) && s.bits.has(Bits::REGISTERED) {
            // It is registered, so that nothing is to be allocated: it cannot fail.
            let events = (INPUT | libc::EPOLLOUT) as u32;
            let changed = self.control(libc::EPOLL_CTL_MOD, s.fd, events, s.number.into());
            debug_assert!(changed.is_ok(), "{changed:?}");
            s.bits.set(Bits::OUTPUT_WATCHED);
        }
    }

    #[inline]
    pub fn start_send(&mut self, s: &mut Socket) {
        s.bits.set(Bits::SENDING);
        self.continue_send(s);
    }

    fn continue_send(&mut self, s: &mut Socket) {
        while s.bits.has(Bits::SENDING) {
            let (left, result) = s.send_now();
            match result {
                Ok(n) => {
                    s.tx_advance(n);
                    if n < left {
                        // The send buffer is full, which an event will end.
                        s.bits.clear(Bits::WRITABLE);
                        s.settle_tx();
                        return self.want_output(s);
                    }
                }
                Err(libc::EAGAIN) => {
                    s.bits.clear(Bits::WRITABLE);
                    return self.want_output(s);
                }
                Err(errno) => s.tx_failed(errno),
            }
        }
        if s.bits.has(Bits::SHUT_PENDING) {
            s.bits.clear(Bits::SHUT_PENDING);
            let _ = syscall::shutdown_write(s.fd);
        }
    }

    pub fn shutdown_write(&mut self, s: &mut Socket) -> io::Result<()> {
        syscall::shutdown_write(s.fd)
    }

    /// Connects. `is_loopback`: the kernel plays both sides within the call, and knows the peer then (it says that the
    /// attempt is under way all the same), unless it was refused or the listener's queue is full.
    /// Nobody waits for events of a connection that is there and `is_silent`.
    pub fn connect(
        &mut self,
        s: &mut Socket,
        address: &ConnectAddress,
        is_loopback: bool,
        is_silent: bool,
    ) -> io::Result<()> {
        match syscall::connect(s.fd, address) {
            Err(libc::EINPROGRESS) if !is_loopback || descriptor::peer_addr(s.fd).is_err() => {
                // From here on an event tells, also of what happened before.
                return self.add(s, INPUT | libc::EPOLLOUT);
            }
            Ok(_) | Err(libc::EINPROGRESS) => s.connect_ended(0),
            // Reported where a failure that takes longer is.
            Err(errno) => {
                s.connect_ended(errno);
                return Ok(());
            }
        }
        s.bits.set(Bits::WRITABLE);
        if is_silent { Ok(()) } else { self.add(s, INPUT) }
    }

    #[inline]
    pub fn poll(&mut self, wait: Wait, sockets: &SocketTable) -> io::Result<PollStats> {
        let waited = self.wait(wait);
        clock::refresh();
        let n = match waited {
            Ok(n) => n,
            Err(libc::EINTR) => return Ok(PollStats { entered: true, ..PollStats::default() }),
            Err(errno) => return Err(io::Error::from_raw_os_error(errno)),
        };
        let mut told = n as u32;
        for i in 0..n {
            let event = self.events[i];
            let token = event.u64;
            if token == ALARM {
                self.alarm.went_off();
                told -= 1;
            }
            if token >= ALARM {
                continue;
            }
            let Some(socket) = sockets.at(token as usize) else { continue };
            // SAFETY: the table has the record; its owner does not run between `epoll_wait` and the end of this loop.
            let s = unsafe { &mut *socket.as_ptr() };
            self.handle(s, event.events as i32);
        }
        Ok(PollStats { events: told, submitted: 0, entered: true })
    }

    #[inline]
    fn handle(&mut self, s: &mut Socket, events: i32) {
        if s.bits.has(Bits::CONNECTING) {
            // The error decides, and without one only writability is success.
            let errno =
                if events & (libc::EPOLLERR | libc::EPOLLHUP) != 0 { syscall::take_error(s.fd) } else { 0 };
            if errno == 0 && events & libc::EPOLLOUT == 0 {
                return;
            }
            s.connect_ended(errno);
            if errno != 0 {
                s.wake_writer();
                return;
            }
        }
        if events & (libc::EPOLLRDHUP | libc::EPOLLERR | libc::EPOLLHUP) != 0 {
            s.bits.set(Bits::ANNOUNCED);
        }
        if events & (libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLERR | libc::EPOLLHUP) != 0 {
            s.bits.set(Bits::READABLE);
            s.wake_reader();
        }
        if events & (libc::EPOLLOUT | libc::EPOLLERR | libc::EPOLLHUP) != 0 {
            s.bits.set(Bits::WRITABLE);
            if s.bits.has(Bits::SENDING) {
                self.continue_send(s);
                if s.bits.has(Bits::SENDING) {
                    return;
                }
            }
            s.wake_writer();
        }
    }

    fn wait(&mut self, wait: Wait) -> Result<usize, i32> {
        if let Wait::Until(at_ns) = wait
            && self.alarm.must_move(at_ns)
        {
            set_timer(&self.timer, at_ns)?;
        }
        let timeout = if wait == Wait::Now { 0 } else { -1 };
        syscall::epoll_wait(self.fd.as_raw_fd(), &mut self.events, timeout)
    }
}

fn timerfd() -> io::Result<OwnedFd> {
    // SAFETY: takes no pointer; the result is checked before it is owned.
    let fd = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` is open and owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets a timer to a moment of the monotonic clock.
fn set_timer(timer: &OwnedFd, at_ns: u64) -> Result<usize, i32> {
    let never = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // Zero would stop it.
    let at_ns = at_ns.max(1);
    let it_value = libc::timespec {
        tv_sec: (at_ns / 1_000_000_000).cast_signed(),
        tv_nsec: (at_ns % 1_000_000_000).cast_signed(),
    };
    let time = libc::itimerspec { it_interval: never, it_value };
    let old = std::ptr::null_mut();
    // SAFETY: the time is valid for the call, and the old one is not asked for.
    syscall::check(
        unsafe { libc::timerfd_settime(timer.as_raw_fd(), libc::TFD_TIMER_ABSTIME, &time, old) } as isize
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::SockAddr;
    use std::net::TcpListener;
    use std::os::unix::net::UnixStream;

    /// Who only wants to know whether a connection can be made asks for no events of it.
    #[test]
    fn a_silent_connection_is_not_registered_once_it_is_there() {
        let (wake, _other) = UnixStream::pair().unwrap();
        let mut epoll = Epoll::new(&DriverOptions::default(), wake.as_raw_fd()).unwrap();
        let mut table = SocketTable::new();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = SockAddr::from(listener.local_addr().unwrap());
        // Whether it is known at once that the connection is there, whether nothing is said, and whether events are asked for.
        for (is_loopback, is_silent, is_registered) in
            [(true, true, false), (true, false, true), (false, true, true), (false, false, true)]
        {
            let fd = syscall::socket_in(None, address.family(), libc::SOCK_STREAM, 0).unwrap();
            let socket = table.insert(fd.as_raw_fd(), Bits::CONNECTING);
            // SAFETY: the test owns the record, and has no other reference to it.
            let s = unsafe { &mut *socket.as_ptr() };
            epoll.connect(s, &address.to_raw().unwrap(), is_loopback, is_silent).unwrap();
            let found = (s.bits.has(Bits::REGISTERED), s.bits.has(Bits::CONNECTING));
            assert_eq!(found, (is_registered, !is_loopback), "{is_loopback} {is_silent}");
            table.remove(socket);
        }
    }
}
