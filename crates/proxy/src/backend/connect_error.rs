//! Why no connection to a server could be made.

use std::io;

use thalweg_runtime::net::SourceError;
use thalweg_sample::facts::ConnError;

/// Why no connection could be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectError {
    /// `timeout connect` passed.
    Timeout,
    /// The server, or the network on the way to it, refused; the number of `bc_err`.
    Refused(ConnError),
    /// There is no such address to connect from, or none of its ports is free; the number of `bc_err`.
    NoSource(ConnError),
    /// This process has no descriptor, memory or port left.
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
        if let Some(source) = SourceError::of(error) {
            let has_no_port = source.is_for_ports();
            return ConnectError::NoSource(if has_no_port {
                ConnError::FREE_PORTS
            } else {
                ConnError::CANT_BIND
            });
        }
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
            libc_codes::ECONNREFUSED => ConnectError::Refused(ConnError::EREFUSED),
            libc_codes::ECONNRESET => ConnectError::Refused(ConnError::ERESET),
            _ => ConnectError::Refused(ConnError::SOCK_ERR),
        }
    }

    /// The number of `bc_err`.
    pub fn number(&self) -> ConnError {
        match *self {
            ConnectError::Refused(number) | ConnectError::NoSource(number) => number,
            ConnectError::Handshake(number) | ConnectError::HandshakeWithRequest(number) => number,
            ConnectError::Resource(libc_codes::EMFILE) => ConnError::PROC_FDLIM,
            ConnectError::Resource(libc_codes::ENFILE) => ConnError::SYS_FDLIM,
            ConnectError::Resource(libc_codes::ENOMEM | libc_codes::ENOBUFS) => ConnError::SYS_MEMLIM,
            ConnectError::Resource(libc_codes::EADDRNOTAVAIL | libc_codes::EADDRINUSE) => {
                ConnError::ADDR_INUSE
            }
            ConnectError::Resource(_) => ConnError::SOCK_ERR,
            ConnectError::Timeout | ConnectError::NoSeat => ConnError::default(),
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
    pub const ECONNRESET: i32 = 104;
    pub const ENOBUFS: i32 = 105;
    pub const ETIMEDOUT: i32 = 110;
    pub const ECONNREFUSED: i32 = 111;
}
