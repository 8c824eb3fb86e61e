//! Sockets whose connections are over, for connections to come.
//!
//! A connection that ends with a reset ([`ConnectOptions::reset_on_close`]) needs no socket of its own: the kernel dissolves it with
//! a call (connect(2): to an address of the family `AF_UNSPEC`), which sends the same reset, drops what was not sent or read, gives
//! the port back and leaves a socket that may connect anew, with most of its options. That costs less than two thirds of a socket
//! that is made and closed each time.
//!
//! A thread keeps those of one kind, the one that was asked for last while no other was in use: thousands of servers are checked
//! with the same options. Health checks on which nothing is said ([`ConnectOptions::silent`]) have a keeper of their own, as
//! connections that are kept and used again are always there.

use std::os::fd::OwnedFd;

use crate::net::{ConnectOptions, SockAddr};

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
            self.sockets.clear();
            self.kind = Some(Kind { family: address.family(), opts: opts.clone() });
        }
        self.lent += 1;
        Some(self.sockets.pop())
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
