//! Writing to descriptors that are shared with other programs, such as a terminal.

use std::io;
use std::os::fd::RawFd;

/// Writes `bytes` to `fd` if that does not block, without making the descriptor itself non-blocking: it may be a
/// terminal or a pipe that other programs use. `WouldBlock` when there is no room now.
///
/// Writes of up to 4096 bytes to a pipe are whole or not at all.
pub fn write_if_ready(fd: RawFd, bytes: &[u8]) -> io::Result<usize> {
    let mut poll = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
    // SAFETY: `poll` is one valid entry.
    let ready = unsafe { libc::poll(&mut poll, 1, 0) };
    match ready {
        0 => return Err(io::ErrorKind::WouldBlock.into()),
        n if n < 0 => return Err(io::Error::last_os_error()),
        _ => {}
    }
    // SAFETY: the pointer and the length describe `bytes`.
    let written = unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
    usize::try_from(written).map_err(|_| io::Error::last_os_error())
}

/// Closes a descriptor that came from the parent process and that no object of this program owns. An error does not
/// matter: it was not open.
///
/// The number must not be one that this program opened itself, or another part of it would lose its file. Standard
/// streams (0 to 2) are left alone for that reason.
pub fn close_inherited(fd: RawFd) {
    if fd > 2 {
        // SAFETY: takes an integer. By the contract above no object of this program owns the descriptor.
        unsafe { libc::close(fd) };
    }
}
