//! What a process may no longer do with files, whoever takes it over: Landlock (Linux 5.13 and later).
//!
//! A ruleset names kinds of access to files; what it names is refused from then on, for this thread and all that it starts,
//! and cannot be given back. It costs nothing but when a file is opened or a program is run.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};

use crate::directory::Directory;

/// `LANDLOCK_ACCESS_FS_*` (linux/landlock.h).
mod access {
    pub const EXECUTE: u64 = 1;
    pub const WRITE_FILE: u64 = 1 << 1;
    pub const REMOVE_DIR: u64 = 1 << 4;
    pub const MAKE_CHAR: u64 = 1 << 6;
    pub const MAKE_DIR: u64 = 1 << 7;
    pub const MAKE_REG: u64 = 1 << 8;
    pub const MAKE_FIFO: u64 = 1 << 10;
    pub const MAKE_BLOCK: u64 = 1 << 11;
    pub const MAKE_SYM: u64 = 1 << 12;
    /// Since version 3.
    pub const TRUNCATE: u64 = 1 << 14;
}

/// `LANDLOCK_CREATE_RULESET_VERSION`
const ASK_VERSION: libc::c_ulong = 1;

/// What is refused from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Running programs.
    Programs,
    /// That, and writing to files, making and removing them. Sockets with a path can still be made and removed: a process
    /// that listens on them does so.
    ProgramsAndWriting,
}

/// `struct landlock_path_beneath_attr`
#[repr(C, packed)]
struct Beneath {
    allowed: u64,
    directory: libc::c_int,
}

/// `LANDLOCK_RULE_PATH_BENEATH`
const PATH_BENEATH: libc::c_ulong = 1;

/// Refuses this thread, and those that it starts, access to files, but for replacing those of a directory. False if the kernel has no Landlock, or does not let
/// this process use it.
///
/// # Errors
/// The process may still gain privileges (see [`crate::process::refuse_new_privileges`]).
pub fn enter(refused: Refused, but_for: Option<&Directory>) -> io::Result<bool> {
    // SAFETY: asks for a number; the pointer is not looked at.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u64>(),
            0 as libc::size_t,
            ASK_VERSION,
        )
    };
    // Not built in, or not switched on.
    if version < 1 {
        return Ok(false);
    }
    let mut handled = access::EXECUTE;
    if refused == Refused::ProgramsAndWriting {
        handled |= access::WRITE_FILE
            | access::REMOVE_DIR
            | access::MAKE_CHAR
            | access::MAKE_DIR
            | access::MAKE_REG
            | access::MAKE_FIFO
            | access::MAKE_BLOCK
            | access::MAKE_SYM;
        if version >= 3 {
            handled |= access::TRUNCATE;
        }
    }
    // The first field of `landlock_ruleset_attr`; the kernel takes the others, which this leaves out, for zero.
    let attributes: [u64; 1] = [handled];
    // SAFETY: the kernel reads as many bytes as it is told, which are there.
    let ruleset = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            attributes.as_ptr(),
            std::mem::size_of_val(&attributes) as libc::size_t,
            0 as libc::c_ulong,
        )
    };
    if ruleset < 0 {
        return Err(io::Error::last_os_error());
    }
    let allowed = handled & (access::WRITE_FILE | access::MAKE_REG | access::TRUNCATE);
    let mut entered = 0;
    if let Some(directory) = but_for.filter(|_| allowed != 0) {
        let rule = Beneath { allowed, directory: directory.as_fd().as_raw_fd() };
        let none = 0 as libc::c_ulong;
        // SAFETY: both descriptors are open, and the kernel reads a rule of this form, which is there.
        entered = unsafe {
            libc::syscall(libc::SYS_landlock_add_rule, ruleset, PATH_BENEATH, std::ptr::from_ref(&rule), none)
        };
    }
    if entered == 0 {
        // SAFETY: takes integers only; the descriptor is the one that was just made.
        entered = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset, 0 as libc::c_ulong) };
    }
    let error = io::Error::last_os_error();
    // SAFETY: the descriptor was made above and is used by nobody else.
    unsafe { libc::close(ruleset as libc::c_int) };
    if entered < 0 { Err(error) } else { Ok(true) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::process::Command;

    /// On a thread of its own, so that the other tests of this process are not concerned.
    #[test]
    fn what_is_refused_is_refused() {
        let directory = std::env::temp_dir().join(format!("thalweg-sandbox-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let file = directory.join("there");
        fs::create_dir_all(directory.join("kept")).unwrap();
        fs::write(&file, "text").unwrap();
        let here = directory.clone();
        let tried = std::thread::spawn(move || {
            crate::process::refuse_new_privileges().unwrap();
            let kept = Directory::open(&here.join("kept")).unwrap();
            if !enter(Refused::ProgramsAndWriting, Some(&kept)).unwrap() {
                eprintln!("skipped: this kernel has no Landlock");
                return;
            }
            let denied = |what: &str, result: io::Result<()>| {
                assert_eq!(result.map_err(|e| e.kind()), Err(io::ErrorKind::PermissionDenied), "{what}");
            };
            denied("a program", Command::new("/bin/sh").arg("-c").arg("true").status().map(drop));
            denied("a new file", File::create(here.join("new")).map(drop));
            denied("an old file", File::options().write(true).open(here.join("there")).map(drop));
            denied("a directory", fs::create_dir(here.join("sub")));
            denied("a link", std::os::unix::fs::symlink("there", here.join("link")));
            assert_eq!(fs::read_to_string(here.join("there")).unwrap(), "text");
            for content in ["one", "another one"] {
                kept.replace("state", content.as_bytes()).unwrap();
                assert_eq!(fs::read_to_string(here.join("kept/state")).unwrap(), content);
            }
            denied("a directory there", fs::create_dir(here.join("kept/sub")));
            drop(std::os::unix::net::UnixListener::bind(here.join("socket")).unwrap());
            fs::remove_file(here.join("socket")).unwrap();
        });
        tried.join().unwrap();
        // Nobody else is concerned.
        fs::write(&file, "more").unwrap();
        fs::remove_dir_all(&directory).unwrap();
    }
}
