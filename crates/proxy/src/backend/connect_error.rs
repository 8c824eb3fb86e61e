//! Why no connection to a server could be made.

use std::io;

use thalweg_sample::facts::ConnError;

/// Why no connection could be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectError {
    /// `timeout connect` passed.
    Timeout,
    /// The server, or the network on the way to it, refused.
    Refused(i32),
    /// This process has no descriptor, memory or source port left.
    Resource(i32),
    /// The server has as many connections as it may, and none of them is idle (`strict-maxconn`).
    NoSeat,
    /// The server could not be agreed with on TLS; the number of `bc_err`.
    Handshake(ConnError),
    /// The same, and the request went with the handshake: nobody knows whether the server processed it.
    HandshakeWithRequest(ConnError),
}

impl ConnectError {
    pub(super) fn of(error: &io::Error) -> ConnectError {
        match error.raw_os_error().unwrap_or(0) {
            code @ (libc_codes::EMFILE
            | libc_codes::ENFILE
            | libc_codes::ENOMEM
            | libc_codes::ENOBUFS
            | libc_codes::EADDRNOTAVAIL
            | libc_codes::EADDRINUSE
            | libc_codes::EACCES
            | libc_codes::EPERM) => ConnectError::Resource(code),
            libc_codes::ETIMEDOUT => ConnectError::Timeout,
            code => ConnectError::Refused(code),
        }
    }
}

/// Numbers of the errors that matter here (Linux, all architectures).
pub mod libc_codes {
    pub const EPERM: i32 = 1;
    pub const ENOMEM: i32 = 12;
    pub const EACCES: i32 = 13;
    pub const ENFILE: i32 = 23;
    pub const EINVAL: i32 = 22;
    pub const EMFILE: i32 = 24;
    pub const EADDRINUSE: i32 = 98;
    pub const EADDRNOTAVAIL: i32 = 99;
    pub const ENOBUFS: i32 = 105;
    pub const ETIMEDOUT: i32 = 110;
    pub const ECONNREFUSED: i32 = 111;
}
