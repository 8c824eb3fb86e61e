//! Children of this process, and becoming another program: what a master needs to start, watch and outlive workers.

use std::convert::Infallible;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// With this status.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl Exit {
    /// What a shell makes of it: the status, or 128 and the signal.
    pub fn status(self) -> i32 {
        match self {
            Exit::Code(code) => code,
            Exit::Signal(signal) => 128 + signal,
        }
    }

    /// In words: `Exit`, or the name of the signal.
    pub fn reason(self) -> &'static str {
        match self {
            Exit::Code(_) => "Exit",
            Exit::Signal(libc::SIGTERM) => "Terminated",
            Exit::Signal(libc::SIGINT) => "Interrupt",
            Exit::Signal(libc::SIGKILL) => "Killed",
            Exit::Signal(libc::SIGSEGV) => "Segmentation fault",
            Exit::Signal(libc::SIGABRT) => "Aborted",
            Exit::Signal(libc::SIGBUS) => "Bus error",
            Exit::Signal(libc::SIGILL) => "Illegal instruction",
            Exit::Signal(libc::SIGFPE) => "Floating point exception",
            Exit::Signal(libc::SIGUSR1) => "User defined signal 1",
            Exit::Signal(libc::SIGHUP) => "Hangup",
            Exit::Signal(_) => "Signal",
        }
    }
}

/// A child that ended and was not asked about yet; does not wait. `None` when there is none.
pub fn ended() -> Option<(u32, Exit)> {
    let mut status = 0;
    // SAFETY: `status` is writable for the call.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
    let pid = u32::try_from(pid).ok().filter(|pid| *pid > 0)?;
    let exit = match libc::WIFSIGNALED(status) {
        true => Exit::Signal(libc::WTERMSIG(status)),
        false => Exit::Code(libc::WEXITSTATUS(status)),
    };
    Some((pid, exit))
}

/// Kills all processes of a group, which the process of that number leads.
pub fn kill_group(leader: u32) -> io::Result<()> {
    let Some(group) = i32::try_from(leader).ok().filter(|group| *group > 1) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    // SAFETY: takes integers only. Neither 0 nor 1 comes here, which would mean other processes than that group's.
    match unsafe { libc::kill(-group, libc::SIGKILL) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Lets descriptors of this process stay open, under their numbers, in the program that `command` starts. They must be
/// open when it does.
pub fn keep_open(command: &mut Command, fds: &[BorrowedFd<'_>]) {
    let fds: Vec<RawFd> = fds.iter().map(|fd| fd.as_raw_fd()).collect();
    // SAFETY: between fork and exec only fcntl is called, which is async-signal-safe, on integers that were copied before.
    unsafe {
        command.pre_exec(move || fds.iter().try_for_each(|fd| set_close_on_exec(*fd, false)));
    }
}

/// Lets no signal be blocked in the program that `command` starts, which otherwise begins with what this thread blocks.
pub fn unblock_signals(command: &mut Command) {
    // SAFETY: between fork and exec only sigemptyset and sigprocmask are called, which are async-signal-safe, on memory of
    // their own.
    unsafe {
        command.pre_exec(|| {
            let mut none = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
            libc::sigemptyset(none.as_mut_ptr());
            match libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut()) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        });
    }
}

pub(crate) fn set_close_on_exec(fd: RawFd, close: bool) -> io::Result<()> {
    // SAFETY: takes integers only.
    match unsafe { libc::fcntl(fd, libc::F_SETFD, if close { libc::FD_CLOEXEC } else { 0 }) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Becomes another program, which gets `arguments` (the first is its name) and this process's environment with `variable`
/// set. Signals that are blocked stay blocked, so that none is lost or deadly until the other program waits for them;
/// `fds` stay open under their numbers.
///
/// Returns only with an error, and then nothing has changed.
pub fn become_program(
    path: &OsStr,
    arguments: &[OsString],
    variable: (&str, &str),
    fds: &[BorrowedFd<'_>],
) -> io::Result<Infallible> {
    let text = |bytes: &[u8]| CString::new(bytes).map_err(io::Error::from);
    let path = text(path.as_bytes())?;
    let arguments = arguments.iter().map(|a| text(a.as_bytes())).collect::<io::Result<Vec<_>>>()?;
    let mut environment: Vec<CString> = std::env::vars_os()
        .filter(|(name, _)| name.as_bytes() != variable.0.as_bytes())
        .map(|(name, value)| text(&[name.as_bytes(), b"=", value.as_bytes()].concat()))
        .collect::<io::Result<_>>()?;
    environment.push(text(format!("{}={}", variable.0, variable.1).as_bytes())?);
    let pointers = |texts: &[CString]| -> Vec<*const libc::c_char> {
        texts.iter().map(|t| t.as_ptr()).chain(std::iter::once(std::ptr::null())).collect()
    };
    let (argv, envp) = (pointers(&arguments), pointers(&environment));
    fds.iter().try_for_each(|fd| set_close_on_exec(fd.as_raw_fd(), false))?;
    // SAFETY: all three are NUL-terminated and outlive the call; the lists end with a null pointer.
    unsafe { libc::execve(path.as_ptr(), argv.as_ptr(), envp.as_ptr()) };
    let error = io::Error::last_os_error();
    for fd in fds {
        let _ = set_close_on_exec(fd.as_raw_fd(), true);
    }
    Err(error)
}

/// Two connected unix sockets that keep messages apart and carry descriptors.
pub fn packet_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: `fds` has room for two integers.
    match unsafe {
        libc::socketpair(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0, fds.as_mut_ptr())
    } {
        // SAFETY: both were made just above and nobody else knows their numbers.
        0 => Ok(unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) }),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::process::Stdio;

    #[test]
    fn a_child_keeps_what_it_is_told_to() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let number = theirs.as_raw_fd();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &format!("echo kept >&{number}")]).stdin(Stdio::null());
        keep_open(&mut command, &[theirs.as_fd()]);
        let mut child = command.spawn().unwrap();
        drop(theirs);
        assert!(child.wait().unwrap().success());
        let mut said = String::new();
        (&ours).read_to_string(&mut said).unwrap();
        assert_eq!(said, "kept\n");
    }

    #[test]
    fn a_program_that_is_not_there_changes_nothing() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let name = OsString::from("/no/such/program");
        let failed = become_program(&name, std::slice::from_ref(&name), ("A", "b"), &[theirs.as_fd()]);
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::NotFound);
        // A child of this process does not get it.
        let mut child = Command::new("/bin/sleep").arg("30").spawn().unwrap();
        drop(theirs);
        assert_eq!((&ours).read(&mut [0]).unwrap(), 0);
        assert!((&ours).write(b"x").is_err());
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn endings_are_told_as_a_shell_tells_them() {
        assert_eq!((Exit::Code(3).status(), Exit::Code(3).reason()), (3, "Exit"));
        assert_eq!((Exit::Signal(15).status(), Exit::Signal(15).reason()), (143, "Terminated"));
    }
}
