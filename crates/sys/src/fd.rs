//! Writing to descriptors that are shared with other programs, such as a terminal.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Writes `bytes` to `fd` if that does not block, without making the descriptor itself non-blocking: it may be a
/// terminal or a pipe that other programs use. `WouldBlock` when there is no room now.
///
/// Writes of up to 4096 bytes to a pipe are whole or not at all.
pub fn write_if_ready(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    let fd = fd.as_raw_fd();
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

/// A pipe with any room has room for this much.
const PIPE_ROOM: usize = 4096;

/// Writes messages to the standard error, and drops what has no room there: a process that serves must not wait for whoever
/// reads its messages, and not fail when nobody does.
pub fn complain(text: &[u8]) {
    let error = io::stderr();
    let _ = text.chunks(PIPE_ROOM).try_for_each(|part| write_if_ready(error.as_fd(), part).map(|_| ()));
}

/// The same on the standard output, for what somebody asked to see there.
pub fn say(text: &[u8]) {
    let output = io::stdout();
    let _ = text.chunks(PIPE_ROOM).try_for_each(|part| write_if_ready(output.as_fd(), part).map(|_| ()));
}

/// Makes calls on a descriptor return at once when they would wait.
pub fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: takes integers only.
    let flags = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) };
    // SAFETY: as above.
    if flags < 0 || unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Waits until one of the descriptors has something to read or was closed by its peer; returns the position of the
/// first that has.
pub fn wait_readable(fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut polled: Vec<libc::pollfd> =
        fds.iter().map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 }).collect();
    loop {
        // SAFETY: the pointer and the length describe `polled`.
        let ready = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, -1) };
        if ready < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        } else if let Some(at) = polled.iter().position(|p| p.revents != 0) {
            return Ok(at);
        }
    }
}

/// Whether a connection is over in both directions: a peer that only said that it sends no more still listens. Known at
/// once of unix sockets; of TCP after something that was sent came back with a reset.
pub fn is_hung_up(fd: BorrowedFd<'_>) -> bool {
    let mut polled = libc::pollfd { fd: fd.as_raw_fd(), events: 0, revents: 0 };
    // SAFETY: the pointer is to one entry, and the call does not wait.
    unsafe { libc::poll(&raw mut polled, 1, 0) > 0 && polled.revents & (libc::POLLHUP | libc::POLLERR) != 0 }
}

#[cfg(test)]
mod wait_tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn half_a_hang_up_is_none() {
        let (a, mut b) = UnixStream::pair().unwrap();
        b.write_all(b"x").unwrap();
        assert!(!is_hung_up(a.as_fd()));
        b.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(!is_hung_up(a.as_fd()));
        drop(b);
        assert!(is_hung_up(a.as_fd()));
    }

    #[test]
    fn the_first_that_is_ready_is_found() {
        let (a, mut b) = UnixStream::pair().unwrap();
        let (c, d) = UnixStream::pair().unwrap();
        b.write_all(b"x").unwrap();
        assert_eq!(wait_readable(&[c.as_fd(), a.as_fd()]).unwrap(), 1);
        drop(d);
        assert_eq!(wait_readable(&[c.as_fd(), a.as_fd()]).unwrap(), 0);
    }
}
