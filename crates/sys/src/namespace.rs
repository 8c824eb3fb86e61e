//! Network namespaces (network_namespaces(7)): a socket belongs to the one that its thread was in when it was made.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use crate::process::check;

/// Where `ip netns` keeps those that have a name.
const NAMED: &str = "/var/run/netns";

/// A network namespace that has a name, and the way back from it. Open, so that it can be entered when its file cannot be reached any
/// more. Two are the same when their names are.
#[derive(Clone, Debug)]
pub struct Namespace {
    name: Arc<str>,
    inside: Arc<OwnedFd>,
    home: Arc<OwnedFd>,
}

impl PartialEq for Namespace {
    fn eq(&self, other: &Namespace) -> bool {
        self.name == other.name
    }
}

impl Eq for Namespace {}

impl Namespace {
    /// Opens the namespace that `ip netns` knows by this name.
    ///
    /// # Errors
    /// There is none, or the process may not know.
    pub fn open(name: &str) -> io::Result<Namespace> {
        let open = |path: &Path| File::open(path).map(|file| Arc::new(OwnedFd::from(file)));
        Ok(Namespace {
            name: name.into(),
            inside: open(&Path::new(NAMED).join(name))?,
            home: open(Path::new("/proc/thread-self/ns/net"))?,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Does something on this thread, in the namespace.
    ///
    /// # Errors
    /// That of `make`, or the process may not enter (`CAP_SYS_ADMIN`).
    pub fn within<R>(&self, make: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        enter(&self.inside)?;
        let _back = Back(&self.home);
        make()
    }
}

/// Brings the thread back.
struct Back<'a>(&'a OwnedFd);

impl Drop for Back<'_> {
    fn drop(&mut self) {
        // All that the thread opens from here on would be elsewhere than its configuration says.
        if enter(self.0).is_err() {
            std::process::abort();
        }
    }
}

fn enter(namespace: &OwnedFd) -> io::Result<()> {
    // SAFETY: takes integers only.
    check(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_not_opened() {
        assert_eq!(Namespace::open("no-such-namespace").unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
