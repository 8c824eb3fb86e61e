//! Asking about a socket that may be gone.

use super::TcpInfo;
use super::options;
use crate::driver;
use std::os::fd::BorrowedFd;

/// One socket of this thread, which its owner may have closed meanwhile. It is none of those that came later, even where
/// their descriptors have the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketId(u64);

impl SocketId {
    /// Of no socket.
    pub const NONE: SocketId = SocketId(0);

    pub(crate) fn of(number: u32, turn: u32) -> SocketId {
        SocketId(u64::from(turn) << 32 | u64::from(number))
    }

    /// The record's number and turn.
    pub(crate) fn parts(self) -> (usize, u32) {
        ((self.0 as u32) as usize, (self.0 >> 32) as u32)
    }

    /// What the kernel measured; `None` when the socket is gone, on other threads, of what is no TCP connection, and in the
    /// simulator.
    pub fn tcp_info(self) -> Option<TcpInfo> {
        driver::try_with(|d| {
            let s = d.find(self)?;
            // SAFETY: the record is in use and owns its descriptor, which nobody closes during this call.
            options::tcp_info(unsafe { BorrowedFd::borrow_raw(s.fd) }).ok()
        })?
    }
}

impl From<SocketId> for u64 {
    fn from(id: SocketId) -> u64 {
        id.0
    }
}

impl From<u64> for SocketId {
    fn from(id: u64) -> SocketId {
        SocketId(id)
    }
}
