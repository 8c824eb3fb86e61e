//! Descriptors that the parent process left open for this one, by their numbers.
//!
//! Which they are is noted before `main`, when this program cannot have opened any itself: a number says nothing about who
//! owns a descriptor, and one that is used or closed by mistake is another part's file. What is noted here is copied, lent,
//! or given away once.

use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Numbers from here on are not looked at: the look costs some ten nanoseconds each.
pub const NUMBERS: usize = 16_384;

/// Those of the standard streams, which the standard library opens where the parent did not, and which stay.
const STANDARD: std::ops::RangeInclusive<RawFd> = 0..=2;

const WORDS: usize = NUMBERS / 64;

/// A set of numbers.
struct Numbers([u64; WORDS]);

impl Numbers {
    const EMPTY: Numbers = Numbers([0; WORDS]);

    fn has(&self, number: RawFd) -> bool {
        usize::try_from(number).is_ok_and(|n| n < NUMBERS && self.0[n / 64] & 1 << (n % 64) != 0)
    }

    fn set(&mut self, number: RawFd, to: bool) {
        let Some(n) = usize::try_from(number).ok().filter(|n| *n < NUMBERS) else { return };
        match to {
            true => self.0[n / 64] |= 1 << (n % 64),
            false => self.0[n / 64] &= !(1 << (n % 64)),
        }
    }
}

struct Known {
    /// Open, and this module's: no other object owns them.
    held: Numbers,
    /// Lent for the rest of the process.
    lent: Numbers,
}

static KNOWN: Mutex<Known> = Mutex::new(Known { held: Numbers::EMPTY, lent: Numbers::EMPTY });

fn known() -> MutexGuard<'static, Known> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs [`note`] before `main`.
// SAFETY: the section has pointers to functions of this form, each of which is called once before `main`, and `note` uses
// nothing that would have to be set up before.
#[cfg(not(miri))]
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE: extern "C" fn() = note;

/// Notes what is open.
#[cfg(not(miri))]
extern "C" fn note() {
    // A process may poll no more at once than it may have open.
    const STEP: usize = 64;
    let mut known = known();
    let mut polled = [libc::pollfd { fd: 0, events: 0, revents: 0 }; STEP];
    for first in (0..NUMBERS).step_by(STEP) {
        for (at, entry) in polled.iter_mut().enumerate() {
            entry.fd = (first + at) as RawFd;
        }
        // SAFETY: the pointer and the length describe `polled`, and the call does not wait.
        if unsafe { libc::poll(polled.as_mut_ptr(), STEP as libc::nfds_t, 0) } >= 0 {
            let open = polled.iter().filter(|entry| entry.revents & libc::POLLNVAL == 0);
            open.for_each(|entry| known.held.set(entry.fd, true));
        }
    }
}

fn not_open() -> io::Error {
    io::Error::from_raw_os_error(libc::EBADF)
}

/// A copy of an inherited descriptor.
///
/// # Errors
/// `EBADF` when the parent did not leave it open, or it was given away.
pub fn copy(number: RawFd) -> io::Result<OwnedFd> {
    let known = known();
    if !known.held.has(number) && !STANDARD.contains(&number) {
        return Err(not_open());
    }
    // SAFETY: takes integers. While the lock is held nobody is given the descriptor, who might close it.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 0) };
    drop(known);
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// An inherited descriptor itself, which nobody else gets from then on.
///
/// # Errors
/// `EBADF` when the parent did not leave it open, or it was given away before. `EBUSY` when it was lent, and for the
/// standard streams.
pub fn take(number: RawFd) -> io::Result<OwnedFd> {
    let mut known = known();
    if STANDARD.contains(&number) || known.lent.has(number) {
        return Err(io::Error::from_raw_os_error(libc::EBUSY));
    }
    if !known.held.has(number) {
        return Err(not_open());
    }
    known.held.set(number, false);
    // SAFETY: it was open before `main`, and neither lent nor given to anybody since: this is its one owner.
    let taken = unsafe { OwnedFd::from_raw_fd(number) };
    drop(known);
    // Nor is it meant for the programs that this one starts. What cannot be set was not to be.
    let _ = super::child::set_close_on_exec(number, true);
    Ok(taken)
}

/// An inherited descriptor for the rest of the process: it cannot be taken any more.
///
/// # Errors
/// `EBADF` when the parent did not leave it open, or it was given away.
pub fn lend(number: RawFd) -> io::Result<BorrowedFd<'static>> {
    let mut known = known();
    if !STANDARD.contains(&number) {
        if !known.held.has(number) {
            return Err(not_open());
        }
        known.lent.set(number, true);
    }
    // SAFETY: it is open, and stays so: the standard streams are never closed, only replaced, and one that is lent is not
    // given to anybody who could close it.
    Ok(unsafe { BorrowedFd::borrow_raw(number) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::{AsFd, AsRawFd};
    use std::os::unix::net::UnixStream;
    use std::process::Command;

    /// Tells the child of the test which descriptors it was left.
    const VARIABLE: &str = "THALWEG_TEST_INHERITED";

    fn errno<T>(result: io::Result<T>) -> Option<i32> {
        result.err().and_then(|error| error.raw_os_error())
    }

    /// What the child of the test below finds.
    fn in_the_child(first: RawFd, second: RawFd) {
        let copied = copy(first).unwrap();
        assert_ne!(copied.as_raw_fd(), first);
        let taken = take(first).unwrap();
        assert_eq!(taken.as_raw_fd(), first);
        assert_eq!(errno(take(first)), Some(libc::EBADF), "once");
        assert_eq!(errno(copy(first)), Some(libc::EBADF));
        assert_eq!(errno(lend(first)), Some(libc::EBADF));
        drop(taken);
        // The number comes again, and is somebody's then.
        let others: Vec<UnixStream> =
            (0..=first).flat_map(|_| <[_; 2]>::from(UnixStream::pair().unwrap())).collect();
        assert!(others.iter().any(|other| other.as_raw_fd() == first));
        assert_eq!(errno(copy(first)), Some(libc::EBADF));
        assert_eq!(lend(second).unwrap().as_raw_fd(), second);
        assert_eq!(errno(take(second)), Some(libc::EBUSY), "somebody writes to it");
        assert!(copy(second).is_ok());
    }

    #[test]
    #[cfg_attr(miri, ignore = "starts a process")]
    fn what_the_parent_left_open_is_given_away_once() {
        if let Ok(numbers) = std::env::var(VARIABLE) {
            let (first, second) = numbers.split_once(' ').unwrap();
            return in_the_child(first.parse().unwrap(), second.parse().unwrap());
        }
        let (first, second) = UnixStream::pair().unwrap();
        let name = "inherited::tests::what_the_parent_left_open_is_given_away_once";
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", name, "--test-threads=1"]);
        command.env(VARIABLE, format!("{} {}", first.as_raw_fd(), second.as_raw_fd()));
        crate::child::keep_open(&mut command, &[first.as_fd(), second.as_fd()]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }

    #[test]
    fn what_this_program_opened_is_nobody_elses() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let number = ours.as_raw_fd();
        assert_eq!(errno(copy(number)), Some(libc::EBADF));
        assert_eq!(errno(take(number)), Some(libc::EBADF));
        assert_eq!(errno(lend(number)), Some(libc::EBADF));
        for number in [-1, RawFd::MAX, NUMBERS as RawFd] {
            assert_eq!(errno(copy(number)), Some(libc::EBADF));
            assert_eq!(errno(take(number)), Some(libc::EBADF));
        }
    }

    #[test]
    fn the_standard_streams_stay() {
        assert_eq!(lend(2).unwrap().as_raw_fd(), 2);
        assert_eq!(errno(take(2)), Some(libc::EBUSY));
        assert!(copy(2).is_ok());
    }
}
