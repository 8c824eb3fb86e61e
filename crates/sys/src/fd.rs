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
