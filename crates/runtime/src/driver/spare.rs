//! Sockets whose connections are over, for connections to come.
//!
//! A connection that ends with a reset ([`ConnectOptions::reset_on_close`]) needs no socket of its own: the kernel dissolves it with
//! a call (connect(2): to an address of the family `AF_UNSPEC`), which sends the same reset, drops what was not sent or read, gives
//! the port back and leaves a socket that may connect anew, with most of its options. That costs less than two thirds of a socket
//! that is made and closed each time.
//!
//! A thread keeps those of one kind, the one that was asked for last while no other was in use: thousands of servers are checked
//! with the same options. What nobody needed for a while is closed, and all of them when descriptors run short. Health checks on which nothing is said ([`ConnectOptions::silent`]) have a keeper of their own, as
//! connections that are kept and used again are always there.

use std::os::fd::{FromRawFd, OwnedFd};

use super::Driver;
use super::socket::{Bits, Socket, SocketRef};
use crate::net::{ConnectOptions, SockAddr, syscall};

/// As many checks begin together at most.
const KEPT: usize = 16;

/// What the sockets have in common.
struct Kind {
    family: i32,
    opts: ConnectOptions,
}

impl Kind {
    fn is_of(&self, address: &SockAddr, opts: &ConnectOptions) -> bool {
        self.family == address.family() && self.opts == *opts
    }
}

/// Sockets without a connection.
#[derive(Default)]
pub(super) struct Spares {
    kind: Option<Kind>,
    sockets: Vec<OwnedFd>,
    /// Those of this kind that have a connection.
    lent: usize,
    /// The fewest that there were since the last [ebb](Self::ebb): nobody needed those.
    least: usize,
}

impl Spares {
    /// Whether the socket of a connection may have another one afterwards: it ends with a reset, and its options neither belong to
    /// the address nor to the port.
    fn fits(address: &SockAddr, opts: &ConnectOptions) -> bool {
        let is_bound = opts.source.is_some() || opts.md5.is_some();
        opts.reset_on_close && !address.is_unix() && !(is_bound || opts.mptcp || opts.fastopen)
    }

    /// Begins a connection. `Some` where its socket comes [back](Self::give_back), and a spare one for it, if there is one.
    pub fn lend(&mut self, address: &SockAddr, opts: &ConnectOptions) -> Option<Option<OwnedFd>> {
        if !Self::fits(address, opts) {
            return None;
        }
        if !self.kind.as_ref().is_some_and(|kind| kind.is_of(address, opts)) {
            if self.lent > 0 {
                return None;
            }
            self.close();
            self.kind = Some(Kind { family: address.family(), opts: opts.clone() });
        }
        self.lent += 1;
        let spare = self.sockets.pop();
        self.least = self.least.min(self.sockets.len());
        Some(spare)
    }

    /// Closes those that nobody needed since the last time.
    fn ebb(&mut self) {
        self.sockets.drain(..self.least);
        self.least = self.sockets.len();
    }

    fn close(&mut self) {
        self.sockets.clear();
        self.least = 0;
    }

    /// Whether one more will be kept.
    pub fn has_room(&self) -> bool {
        self.sockets.len() < KEPT
    }

    /// The connection is over. `socket` has none any more; without one it was closed.
    pub fn give_back(&mut self, socket: Option<OwnedFd>) {
        debug_assert!(self.lent > 0, "only what was lent comes back");
        self.lent = self.lent.saturating_sub(1);
        self.sockets.extend(socket);
    }
}

impl Driver {
    /// A socket for a connection that is about to be made: see [`Spares::lend`].
    pub(crate) fn lend(&mut self, address: &SockAddr, opts: &ConnectOptions) -> Option<Option<OwnedFd>> {
        if self.simulated().is_some() {
            return None;
        }
        self.spares[usize::from(opts.silent)].lend(address, opts)
    }

    /// What was lent for a connection with these options is not used.
    pub(crate) fn not_used(&mut self, opts: &ConnectOptions) {
        self.spares[usize::from(opts.silent)].give_back(None);
    }

    /// A connection whose socket was lent is to be closed: whether it is over now, and its socket kept.
    pub(super) fn keeps_socket(&mut self, s: &mut Socket) -> bool {
        let spare = self.dissolve(s);
        let is_kept = spare.is_some();
        self.give_back(s, spare);
        is_kept
    }

    /// Ends a connection with a reset, for the sake of its socket. `None` where it has to be closed: it is not there yet, its peer
    /// was first, or it ends in order.
    fn dissolve(&mut self, s: &mut Socket) -> Option<OwnedFd> {
        let has_company = s.ops != 0 || s.bits.has(Bits::CONNECTING) || s.bits.has(Bits::SENDING);
        let ends_in_order = s.is_announced() || !s.bits.has(Bits::ABORTIVE);
        if has_company || ends_in_order || !self.keeper(s).has_room() {
            return None;
        }
        self.unregister(s);
        syscall::disconnect(s.fd).ok()?;
        // SAFETY: the record owned it and is removed.
        Some(unsafe { OwnedFd::from_raw_fd(s.fd) })
    }

    /// A connection whose socket was lent has it no more: see [`Spares::give_back`].
    pub(super) fn give_back(&mut self, s: &mut Socket, spare: Option<OwnedFd>) {
        s.bits.clear(Bits::LENT);
        self.keeper(s).give_back(spare);
    }

    fn keeper(&mut self, s: &Socket) -> &mut Spares {
        &mut self.spares[usize::from(s.bits.has(Bits::SILENT))]
    }

    /// The socket has other options than it was made with: it will not have another connection.
    pub(crate) fn set_apart(&mut self, socket: SocketRef) {
        // SAFETY: called by the owner, who holds no reference to the record.
        let s = unsafe { &mut *socket.as_ptr() };
        if s.bits.has(Bits::LENT) {
            self.give_back(s, None);
        }
    }

    /// From time to time: closes the sockets that nobody needed since. Health checks come again, and have theirs.
    pub(crate) fn close_unneeded_spares(&mut self) {
        self.spares[0].ebb();
    }

    /// Closes them all, but for those of health checks.
    pub(super) fn close_spares(&mut self) {
        self.spares[0].close();
    }

    /// A descriptor was not to be had: none is kept for connections to come.
    pub(crate) fn make_room(&mut self, errno: i32) {
        if matches!(errno, libc::EMFILE | libc::ENFILE) {
            self.spares.iter_mut().for_each(Spares::close);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    #[test]
    fn sockets_are_lent_to_connections_of_one_family_and_with_the_same_options() {
        let address = |text: &str| SockAddr::from(text.parse::<SocketAddr>().unwrap());
        let (v4, v6) = (address("127.0.0.1:80"), address("[::1]:80"));
        let silent = ConnectOptions { silent: true, reset_on_close: true, ..ConnectOptions::default() };
        let mut spares = Spares::default();
        let (a, _b) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(matches!(spares.lend(&v4, &silent), Some(None)));
        assert!(spares.lend(&v6, &silent).is_none(), "one of another kind is in use");
        spares.give_back(Some(a.into()));
        assert!(matches!(spares.lend(&address("127.0.0.2:81"), &silent), Some(Some(_))));
        spares.give_back(None);
        assert!(matches!(spares.lend(&v6, &silent), Some(None)));
        spares.give_back(None);

        // One of two that came back is needed again and again.
        let (a, b) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(matches!(spares.lend(&v4, &silent), Some(None)));
        assert!(matches!(spares.lend(&v4, &silent), Some(None)));
        spares.give_back(Some(a.into()));
        spares.give_back(Some(b.into()));
        let kept = |spares: &mut Spares| {
            spares.ebb();
            spares.sockets.len()
        };
        assert_eq!(kept(&mut spares), 2, "both were in use since");
        let needed = spares.lend(&v4, &silent).flatten();
        spares.give_back(needed);
        assert_eq!(kept(&mut spares), 1);
        assert_eq!(kept(&mut spares), 0, "nobody needed the other one either");

        let unfit = [
            ConnectOptions { reset_on_close: false, ..silent.clone() },
            ConnectOptions { mptcp: true, ..silent.clone() },
            ConnectOptions { fastopen: true, ..silent.clone() },
            ConnectOptions { source: Some(address("127.0.0.1:0")), ..silent.clone() },
            ConnectOptions { md5: Some(crate::net::Md5Key(Box::from(&b"key"[..]))), ..silent.clone() },
        ];
        for opts in unfit {
            assert!(spares.lend(&v4, &opts).is_none(), "{opts:?}");
        }
        assert!(spares.lend(&SockAddr::unnamed(), &silent).is_none());
    }
}
