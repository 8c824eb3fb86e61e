//! What only the kernel knows of addresses, or does with connections.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Whether `addr` belongs to this host: whether a socket can be bound to it.
pub fn is_local(addr: IpAddr) -> bool {
    std::net::UdpSocket::bind(SocketAddr::new(addr, 0)).is_ok()
}

/// How [`vanish`] makes a connection disappear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vanish {
    /// Closing the socket sends nothing at all.
    Silent,
    /// Without the privilege for that, closing must reset the connection; the packet dies on its first hop.
    Reset,
}

/// Prepares a socket so that the peer does not learn that it is closed (`silent-drop`). With `ttl`, or
/// without the privilege to close in silence, a reset is sent with that time to live (1 unless given).
pub fn vanish(socket: BorrowedFd<'_>, ttl: Option<u8>) -> Vanish {
    let set = |level: i32, option: i32, value: i32| {
        // SAFETY: the pointer and the length describe `value`.
        let result = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                level,
                option,
                (&raw const value).cast(),
                size_of::<i32>() as libc::socklen_t,
            )
        };
        result == 0
    };
    if ttl.is_none() && set(libc::IPPROTO_TCP, libc::TCP_REPAIR, 1) {
        return Vanish::Silent;
    }
    let hops = i32::from(ttl.unwrap_or(1));
    if !set(libc::IPPROTO_IP, libc::IP_TTL, hops) {
        // Not IPv4: the same for IPv6. Where neither works the reset travels as usual.
        set(libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, hops);
    }
    Vanish::Reset
}

/// The name of this host, cut at its first NUL; empty when it cannot be told.
pub fn hostname() -> String {
    let mut name = [0u8; 256];
    // SAFETY: the pointer and the length describe `name`.
    let failed = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len()) };
    if failed != 0 {
        return String::new();
    }
    let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_local_and_documentation_is_not() {
        assert!(is_local(IpAddr::from([127, 0, 0, 1])));
        assert!(!is_local(IpAddr::from([192, 0, 2, 1])));
        assert!(!hostname().is_empty());
    }
}
