//! Facts about addresses and connections that only the kernel knows.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;

/// What the kernel measured on a TCP connection. Times in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct TcpInfo {
    pub rtt_us: u32,
    pub rttvar_us: u32,
    pub unacked: u32,
    pub sacked: u32,
    pub lost: u32,
    pub retrans: u32,
    pub fackets: u32,
    pub reordering: u32,
}

/// The figures of the TCP connection `fd`; `None` when it is not one.
pub fn tcp_info(fd: RawFd) -> Option<TcpInfo> {
    // SAFETY: every field of `tcp_info` is an integer, for which zero is a value.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the pointer and the length describe `info`; the kernel writes at most `len` bytes.
    let failed =
        unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, (&raw mut info).cast(), &mut len) };
    (failed == 0).then_some(TcpInfo {
        rtt_us: info.tcpi_rtt,
        rttvar_us: info.tcpi_rttvar,
        unacked: info.tcpi_unacked,
        sacked: info.tcpi_sacked,
        lost: info.tcpi_lost,
        retrans: info.tcpi_retrans,
        fackets: info.tcpi_fackets,
        reordering: info.tcpi_reordering,
    })
}

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

/// Prepares the socket `fd` so that the peer does not learn that it is closed (`silent-drop`). With `ttl`, or
/// without the privilege to close in silence, a reset is sent with that time to live (1 unless given).
pub fn vanish(fd: RawFd, ttl: Option<u8>) -> Vanish {
    let set = |level: i32, option: i32, value: i32| {
        // SAFETY: the pointer and the length describe `value`.
        let result = unsafe {
            libc::setsockopt(
                fd,
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
        assert_eq!(tcp_info(-1), None);
        assert!(!hostname().is_empty());
    }
}
