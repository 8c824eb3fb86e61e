//! Signals, received where and when the program wants them.
//!
//! A signal handler may do almost nothing, so there is none: the signals are blocked in every thread, and one thread
//! waits for them with [`SignalSet::wait`] and then acts like any other code.

use std::cell::Cell;
use std::io;
use std::mem::MaybeUninit;

/// The signals the program knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Signal {
    /// SIGUSR1: finish what is in progress, then leave.
    User1,
    /// SIGUSR2: ignored, except by a master process.
    User2,
    /// SIGTERM: leave now.
    Terminate,
    /// SIGINT: leave now.
    Interrupt,
    /// SIGHUP: show the state of servers.
    Hangup,
    /// SIGQUIT: show the state of memory.
    Quit,
    /// SIGTTOU: stop listening for a while.
    TerminalOutput,
    /// SIGTTIN: listen again.
    TerminalInput,
    /// SIGCHLD: a child ended.
    Child,
}

impl Signal {
    /// All of them.
    pub const ALL: [Signal; 9] = [
        Signal::User1,
        Signal::User2,
        Signal::Terminate,
        Signal::Interrupt,
        Signal::Hangup,
        Signal::Quit,
        Signal::TerminalOutput,
        Signal::TerminalInput,
        Signal::Child,
    ];

    /// The number the system gives it.
    pub fn number(self) -> i32 {
        match self {
            Signal::User1 => libc::SIGUSR1,
            Signal::User2 => libc::SIGUSR2,
            Signal::Terminate => libc::SIGTERM,
            Signal::Interrupt => libc::SIGINT,
            Signal::Hangup => libc::SIGHUP,
            Signal::Quit => libc::SIGQUIT,
            Signal::TerminalOutput => libc::SIGTTOU,
            Signal::TerminalInput => libc::SIGTTIN,
            Signal::Child => libc::SIGCHLD,
        }
    }
}

/// Signals that are blocked and can be waited for.
pub struct SignalSet {
    set: libc::sigset_t,
    /// A SIGTTIN was taken that comes behind the SIGTTOU that was handed out last.
    has_resume: Cell<bool>,
}

impl SignalSet {
    /// Blocks signals in this thread and in those it starts afterwards: call it before any thread exists.
    pub fn block(signals: &[Signal]) -> io::Result<SignalSet> {
        let set = set_of(signals.iter().map(|signal| signal.number()));
        // SAFETY: `set` is initialized; a null third argument asks for nothing back.
        let error = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) };
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
        Ok(SignalSet { set, has_resume: Cell::new(false) })
    }

    /// Lets them act on this thread again, those that came meanwhile at once.
    pub fn unblock(&self) {
        // SAFETY: the set is initialized; a null third argument asks for nothing back.
        unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &self.set, std::ptr::null_mut()) };
    }

    /// Waits for the next one. When SIGTTOU and SIGTTIN both wait, SIGTTOU comes first: the kernel hands out the lower number,
    /// which is SIGTTIN, and who sends the two in a row means a process that serves again.
    pub fn wait(&self) -> io::Result<Signal> {
        if self.has_resume.take() {
            return Ok(Signal::TerminalInput);
        }
        loop {
            let mut number = 0;
            // SAFETY: the set is initialized and `number` is writable.
            let error = unsafe { libc::sigwait(&self.set, &mut number) };
            if error != 0 {
                return Err(io::Error::from_raw_os_error(error));
            }
            if number == libc::SIGTTIN && take_waiting(libc::SIGTTOU) {
                self.has_resume.set(true);
                number = libc::SIGTTOU;
            }
            if let Some(signal) = Signal::ALL.into_iter().find(|signal| signal.number() == number) {
                return Ok(signal);
            }
        }
    }
}

/// The set of signals with these numbers, which are numbers of signals.
fn set_of(numbers: impl IntoIterator<Item = i32>) -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `set` is writable; sigemptyset initializes it, which the following calls and assume_init rely on.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for number in numbers {
            libc::sigaddset(set.as_mut_ptr(), number);
        }
        set.assume_init()
    }
}

/// Takes a blocked signal that waits already; false when it does not.
fn take_waiting(number: i32) -> bool {
    let (set, at_once) = (set_of([number]), libc::timespec { tv_sec: 0, tv_nsec: 0 });
    // SAFETY: both are initialized; a null second argument asks for no details.
    unsafe { libc::sigtimedwait(&set, std::ptr::null_mut(), &at_once) == number }
}

/// Sends a signal to a process. [`io::ErrorKind::NotFound`] when there is no such process.
pub fn send(pid: u32, signal: Signal) -> io::Result<()> {
    let pid = i32::try_from(pid).ok().filter(|pid| *pid > 0).ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: no pointer is involved.
    if unsafe { libc::kill(pid, signal.number()) } == 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        error if error.raw_os_error() == Some(libc::ESRCH) => Err(io::ErrorKind::NotFound.into()),
        error => Err(error),
    }
}

/// Ends this process by a signal, so that its parent sees that it did: restores the default action and sends it.
pub fn die_by(signal: Signal) -> ! {
    // SAFETY: SIG_DFL is a valid action for these signals; the set is initialized; raise and _exit take
    // integers. Nothing runs afterwards.
    unsafe {
        libc::signal(signal.number(), libc::SIG_DFL);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set_of([signal.number()]), std::ptr::null_mut());
        libc::raise(signal.number());
        libc::_exit(128 + signal.number())
    }
}

/// Makes the signals that stop background jobs harmless for this process: a daemon that writes to the terminal it
/// was started from goes on.
pub fn ignore_broken_pipes() {
    // SAFETY: SIG_IGN is a valid action for SIGPIPE.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blocked_signal_is_waited_for() {
        // Only this thread blocks it, and raise() sends to the calling thread: no other test is disturbed.
        let set = SignalSet::block(&[Signal::TerminalInput]).unwrap();
        // SAFETY: the signal is blocked in this thread.
        unsafe { libc::raise(libc::SIGTTIN) };
        assert_eq!(set.wait().unwrap(), Signal::TerminalInput);
    }

    #[test]
    fn a_pause_and_its_end_come_in_this_order() {
        let set = SignalSet::block(&[Signal::TerminalInput, Signal::TerminalOutput]).unwrap();
        for sent in [[libc::SIGTTOU, libc::SIGTTIN], [libc::SIGTTIN, libc::SIGTTOU]] {
            for number in sent {
                // SAFETY: the signal is blocked in this thread, which is the one that gets it.
                unsafe { libc::raise(number) };
            }
            assert_eq!(set.wait().unwrap(), Signal::TerminalOutput);
            assert_eq!(set.wait().unwrap(), Signal::TerminalInput);
        }
    }

    #[test]
    fn a_process_that_does_not_exist_is_not_found() {
        // Above the greatest pid a kernel gives.
        let error = send(1 << 30, Signal::User1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert_eq!(send(0, Signal::User1).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(send(u32::MAX, Signal::User1).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
