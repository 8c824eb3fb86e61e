//! The socket calls the drivers share, each retried when a signal interrupted it.

use crate::driver::socket::ConnectAddress;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use thalweg_sys::namespace::Namespace;

/// The calling thread's `errno`.
#[inline]
pub(crate) fn errno() -> i32 {
    // SAFETY: the location is this thread's and always valid.
    unsafe { *libc::__errno_location() }
}

#[inline]
pub(crate) fn check(ret: isize) -> Result<usize, i32> {
    if ret >= 0 { Ok(ret as usize) } else { Err(errno()) }
}

macro_rules! retry {
    ($call:expr) => {
        loop {
            // SAFETY: see the caller of the macro; every pointer is valid for the duration of the call.
            match check(unsafe { $call } as isize) {
                Err(libc::EINTR) => {}
                result => break result,
            }
        }
    };
}

// The calls of each request go to the kernel directly: those of the C library are points where a thread may be cancelled,
// which costs two atomic operations around each. Threads are never cancelled here. (Arguments are passed as whole words.)

/// `recv` into `buf`; the error is the `errno`.
#[inline]
pub(crate) fn recv(fd: RawFd, buf: &mut [u8], flags: i32) -> Result<usize, i32> {
    let flags = flags | libc::MSG_DONTWAIT;
    retry!(libc::syscall(
        libc::SYS_recvfrom,
        fd as libc::c_long,
        buf.as_mut_ptr(),
        buf.len(),
        flags as libc::c_long,
        std::ptr::null_mut::<libc::sockaddr>(),
        std::ptr::null_mut::<libc::socklen_t>(),
    ))
}

pub(crate) fn read(fd: RawFd, buf: &mut [u8]) -> Result<usize, i32> {
    retry!(libc::read(fd, buf.as_mut_ptr().cast(), buf.len()))
}

#[inline]
pub(crate) fn send(fd: RawFd, buf: &[u8], flags: i32) -> Result<usize, i32> {
    let flags = flags | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    retry!(libc::syscall(
        libc::SYS_sendto,
        fd as libc::c_long,
        buf.as_ptr(),
        buf.len(),
        flags as libc::c_long,
        std::ptr::null::<libc::sockaddr>(),
        0 as libc::c_long,
    ))
}

/// # Safety
/// `message` and everything it points at is valid for reading.
#[inline]
pub(crate) unsafe fn sendmsg(fd: RawFd, message: *const libc::msghdr, flags: i32) -> Result<usize, i32> {
    let flags = flags | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    retry!(libc::syscall(libc::SYS_sendmsg, fd as libc::c_long, message, flags as libc::c_long))
}

/// Most parts of a [`send_parts`]: those behind are left out.
pub(crate) const PARTS_MAX: usize = 64;

/// Sends what lies in several places, in this order.
pub(crate) fn send_parts(fd: RawFd, parts: &[&[u8]], flags: i32) -> Result<usize, i32> {
    let none = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
    let mut iovs = [none; PARTS_MAX];
    for (iov, part) in iovs.iter_mut().zip(parts) {
        *iov = libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() };
    }
    // SAFETY: all-zero bytes are a valid message.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = iovs.as_mut_ptr();
    message.msg_iovlen = parts.len().min(PARTS_MAX);
    // SAFETY: the message points at the array, and that at the parts, which are borrowed.
    unsafe { sendmsg(fd, &message, flags) }
}

/// Waits for events, at most `timeout` milliseconds (-1: without an end). A signal ends the wait.
#[inline]
pub(crate) fn epoll_wait(epoll: RawFd, events: &mut [libc::epoll_event], timeout: i32) -> Result<usize, i32> {
    // SAFETY: the array is valid for the call; no signal mask is given.
    check(unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait,
            epoll as libc::c_long,
            events.as_mut_ptr(),
            events.len(),
            timeout as libc::c_long,
            std::ptr::null::<libc::sigset_t>(),
            0usize,
        )
    } as isize)
}

/// Accepts one connection, non-blocking and closed on exec, with the peer's address.
pub(crate) fn accept(fd: RawFd, address: &mut ConnectAddress) -> Result<OwnedFd, i32> {
    let n = retry!({
        address.len = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        libc::syscall(
            libc::SYS_accept4,
            fd as libc::c_long,
            &raw mut address.storage,
            &raw mut address.len,
            (libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) as libc::c_long,
        )
    })?;
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(n as RawFd) })
}

/// Whether something is there to be received, or accepted.
pub(crate) fn is_readable(fd: RawFd) -> bool {
    let mut asked = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    retry!(libc::poll(&raw mut asked, 1, 0)) != Ok(0)
}

pub(crate) fn connect(fd: RawFd, address: &ConnectAddress) -> Result<usize, i32> {
    retry!(libc::syscall(
        libc::SYS_connect,
        fd as libc::c_long,
        &raw const address.storage,
        address.len as libc::c_long,
    ))
}

/// Dissolves a connection, with a reset if it is there: the socket has none then, and may connect anew (connect(2)).
pub(crate) fn disconnect(fd: RawFd) -> io::Result<()> {
    let nowhere = libc::sockaddr { sa_family: libc::AF_UNSPEC as libc::sa_family_t, sa_data: [0; 14] };
    let length = size_of::<libc::sockaddr>() as libc::socklen_t;
    // SAFETY: the address is valid for the call.
    if unsafe { libc::connect(fd, &raw const nowhere, length) } < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

pub(crate) fn shutdown_write(fd: RawFd) -> io::Result<()> {
    // SAFETY: takes no pointer.
    if unsafe { libc::shutdown(fd, libc::SHUT_WR) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

pub(crate) fn shutdown_read(fd: RawFd) -> io::Result<()> {
    // SAFETY: takes no pointer.
    if unsafe { libc::shutdown(fd, libc::SHUT_RD) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Closes a descriptor that the caller owns.
pub(crate) fn close(fd: RawFd) {
    // SAFETY: the caller owns `fd` and forgets it.
    unsafe { libc::syscall(libc::SYS_close, fd as libc::c_long) };
}

/// A non-blocking socket, closed on exec; protocol 0 is the usual one of the kind.
pub(crate) fn socket(family: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    // SAFETY: takes no pointer.
    let fd = unsafe { libc::socket(family, kind | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, protocol) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The same in a network namespace, if one is named.
pub(crate) fn socket_in(
    namespace: Option<&Namespace>,
    family: i32,
    kind: i32,
    protocol: i32,
) -> io::Result<OwnedFd> {
    let make = || socket(family, kind, protocol);
    namespace.map_or_else(make, |namespace| namespace.within(make))
}

pub(crate) fn set_nonblocking(fd: RawFd) -> io::Result<()> {
    // SAFETY: takes no pointer.
    unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFL);
        if flags < 0 {
            return Err(io::Error::last_os_error());
        }
        if flags & libc::O_NONBLOCK == 0 && libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Sets an option whose value is a plain C structure or integer.
pub(crate) fn setsockopt<T: Copy>(fd: RawFd, level: i32, name: i32, value: &T) -> io::Result<()> {
    // SAFETY: the pointer and length describe `value`.
    let r = unsafe {
        libc::setsockopt(fd, level, name, (value as *const T).cast(), size_of::<T>() as libc::socklen_t)
    };
    if r < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

pub(crate) fn setsockopt_bytes(fd: RawFd, level: i32, name: i32, value: &[u8]) -> io::Result<()> {
    // SAFETY: the pointer and length describe `value`.
    let r =
        unsafe { libc::setsockopt(fd, level, name, value.as_ptr().cast(), value.len() as libc::socklen_t) };
    if r < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Reads an option into a plain C structure or integer; returns how many bytes the kernel wrote.
pub(crate) fn getsockopt<T: Copy>(fd: RawFd, level: i32, name: i32, value: &mut T) -> io::Result<usize> {
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointer and length describe `value`; only plain integers and C structures are asked for.
    let r = unsafe { libc::getsockopt(fd, level, name, (value as *mut T).cast(), &mut len) };
    if r < 0 { Err(io::Error::last_os_error()) } else { Ok(len as usize) }
}

/// The pending error of a socket, cleared by asking.
pub(crate) fn take_error(fd: RawFd) -> i32 {
    let mut value = 0i32;
    match getsockopt(fd, libc::SOL_SOCKET, libc::SO_ERROR, &mut value) {
        Ok(_) => value,
        Err(e) => e.raw_os_error().unwrap_or(libc::EIO),
    }
}
