//! A terminal whose keys are read one by one.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// The standard input as a terminal that gives each key at once, shows none, and sends no signal for any. It is again as it was when
/// this is dropped.
#[derive(Debug)]
pub struct Keys {
    before: libc::termios,
}

impl Keys {
    /// Begins; an error if the standard input is no terminal.
    pub fn begin() -> io::Result<Keys> {
        let input = io::stdin();
        let mut before = MaybeUninit::uninit();
        // SAFETY: the pointer is to one value of the kind that the call writes.
        if unsafe { libc::tcgetattr(input.as_raw_fd(), before.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call that succeeded has written all of it.
        let before = unsafe { before.assume_init() };
        let mut raw = before;
        raw.c_lflag &= !(libc::ICANON | libc::ECHO | libc::ISIG);
        set(input.as_fd(), &raw)?;
        Ok(Keys { before })
    }

    /// The keys that were pressed, waiting up to `ms` milliseconds for the first one. None when nothing was, or the input ended.
    pub fn read(&self, ms: u32) -> io::Result<Option<Vec<u8>>> {
        let input = io::stdin();
        let fd = input.as_raw_fd();
        let mut polled = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: the pointer is to one entry.
        let ready = unsafe { libc::poll(&raw mut polled, 1, i32::try_from(ms).unwrap_or(i32::MAX)) };
        if ready < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(None) } else { Err(error) };
        }
        if ready == 0 {
            return Ok(None);
        }
        let mut keys = vec![0; 64];
        // SAFETY: the pointer and the length describe `keys`.
        let read = unsafe { libc::read(fd, keys.as_mut_ptr().cast(), keys.len()) };
        match usize::try_from(read) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                keys.truncate(read);
                Ok(Some(keys))
            }
            Err(_) => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        let _ = set(io::stdin().as_fd(), &self.before);
    }
}

fn set(fd: BorrowedFd<'_>, how: &libc::termios) -> io::Result<()> {
    // SAFETY: the pointer is to one value of the kind that the call reads.
    match unsafe { libc::tcsetattr(fd.as_raw_fd(), libc::TCSADRAIN, how) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Lines and columns of the terminal that the standard output is, if it is one.
pub fn size() -> Option<(usize, usize)> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the pointer is to one value of the kind that the call writes.
    let asked = unsafe { libc::ioctl(io::stdout().as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) };
    (asked == 0 && size.ws_row > 0).then(|| (usize::from(size.ws_row), usize::from(size.ws_col)))
}
