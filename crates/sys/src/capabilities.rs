//! Privileges of root that a process may keep when it is root no more (capabilities(7)).

use std::io;

use crate::process::check;

/// Some privileges, of those that something here may need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(u32);

/// The names that people know them by, and their bits (`linux/capability.h`).
const KNOWN: [(&str, u32); 4] = [
    ("cap_net_raw", 1 << 13),
    ("cap_net_admin", 1 << 12),
    ("cap_net_bind_service", 1 << 10),
    ("cap_sys_admin", 1 << 21),
];

/// The version of what the kernel is given below: 64 bits for each set, in two parts.
const VERSION_3: u32 = 0x2008_0522;

#[repr(C)]
struct Header {
    version: u32,
    pid: libc::c_int,
}

/// One part of the three sets of a thread.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Sets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

impl Capabilities {
    /// The names that are known.
    pub fn names() -> impl Iterator<Item = &'static str> {
        KNOWN.iter().map(|(name, _)| *name)
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Capabilities> {
        KNOWN.iter().find(|(known, _)| *known == name).map(|(_, bit)| Capabilities(*bit))
    }

    /// These and others.
    #[must_use]
    pub fn and(self, others: Capabilities) -> Capabilities {
        Capabilities(self.0 | others.0)
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Lets the process keep what it is permitted when it becomes another user.
    pub fn survive_change_of_user() -> io::Result<()> {
        // SAFETY: takes integers only.
        check(unsafe { libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0) })
    }

    /// Gives up all others, and puts these in force. This concerns the calling thread, and those that it makes from then on.
    ///
    /// # Errors
    /// The thread is not permitted them.
    pub fn keep_only(self) -> io::Result<()> {
        let header = Header { version: VERSION_3, pid: 0 };
        let low = Sets { effective: self.0, permitted: self.0, inheritable: 0 };
        let sets = [low, Sets::default()];
        // SAFETY: the kernel reads a header and, for this version, two parts; both are readable for the call.
        match unsafe { libc::syscall(libc::SYS_capset, &raw const header, sets.as_ptr()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_and_add_up() {
        assert_eq!(Capabilities::names().count(), 4);
        assert_eq!(Capabilities::named("cap_chown"), None);
        let all = Capabilities::names().filter_map(Capabilities::named);
        assert_eq!(all.fold(Capabilities::default(), Capabilities::and), Capabilities(0x20_3400));
        assert!(Capabilities::default().is_empty());
    }
}
