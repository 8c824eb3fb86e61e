//! Options of sockets, in the units the configuration uses, and reading the kernel's view of a connection.

use super::SockAddr;
use super::syscall::{getsockopt, setsockopt, setsockopt_bytes};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use thalweg_sys::namespace::Namespace;

/// When the kernel probes a silent peer. What is `None` stays as the system has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keepalive {
    /// Probes without an answer after which the connection is dead (`tcpka-cnt`), 1 to 127.
    pub count: Option<u32>,
    /// Seconds of silence before the first probe (`tcpka-idle`), 1 to 32,767.
    pub idle_s: Option<u32>,
    /// Seconds between probes (`tcpka-intvl`), 1 to 32,767.
    pub interval_s: Option<u32>,
}

/// A key for TCP MD5 signatures (RFC 2385): 1 to 80 bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Md5Key(pub Box<[u8]>);

impl Md5Key {
    /// Whether this kernel signs segments of TCP (`CONFIG_TCP_MD5SIG`): a listener that nobody knows is asked to.
    pub fn works() -> bool {
        let anybody = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let key = Md5Key(Box::from(*b"key"));
        TcpListener::bind(anybody)
            .is_ok_and(|listener| set::md5_of_all(listener.as_raw_fd(), &anybody.into(), &key).is_ok())
    }
}

impl std::fmt::Debug for Md5Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Md5Key(..)")
    }
}

/// How an outgoing connection is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectOptions {
    /// Address to connect from; port 0 leaves the port to the kernel, which picks it at connect time so that it
    /// may be shared by connections to different destinations (`IP_BIND_ADDRESS_NO_PORT`).
    pub source: Option<SockAddr>,
    /// First and last source port to choose from; needs `source`.
    pub source_ports: Option<(u16, u16)>,
    /// `source` is not an address of this host (`usesrc`); needs a privilege.
    pub transparent: bool,
    /// The network namespace that the connection is made in.
    pub namespace: Option<Namespace>,
    /// Network interface the packets go through.
    pub interface: Option<Box<str>>,
    /// Packet mark (`SO_MARK`); needs a privilege.
    pub mark: Option<u32>,
    /// Type of service or traffic class.
    pub tos: Option<u8>,
    /// Send small segments at once (`TCP_NODELAY`).
    pub nodelay: bool,
    /// Probe a silent peer.
    pub keepalive: Option<Keepalive>,
    /// Milliseconds after which unacknowledged data breaks the connection (`TCP_USER_TIMEOUT`).
    pub user_timeout_ms: Option<u32>,
    /// Maximum segment size in bytes.
    pub mss: Option<u32>,
    /// Congestion control algorithm by its kernel name.
    pub congestion: Option<Box<str>>,
    /// Send the first data with the SYN where a cookie is known (`TCP_FASTOPEN_CONNECT`).
    pub fastopen: bool,
    /// Sign segments.
    pub md5: Option<Md5Key>,
    /// Multipath TCP (RFC 8684), falling back to TCP where the other side does not know it.
    pub mptcp: bool,
    /// Do not acknowledge at once (`option tcp-smart-connect` sets this).
    pub no_quick_ack: bool,
    /// Receive buffer in bytes (`tune.rcvbuf.server`).
    pub receive_buffer: Option<u32>,
    /// Send buffer in bytes (`tune.sndbuf.server`).
    pub send_buffer: Option<u32>,
    /// Bytes not sent yet that the kernel takes at most (`tune.notsent-lowat.server`).
    pub notsent_lowat: Option<u32>,
    /// Closing the connection before the peer did resets it. For exchanges that are over when they are closed: one that
    /// ends in order keeps its port for a minute (TIME_WAIT, RFC 9293 section 3.3.2), and with a connection per request
    /// the ports run out. Its socket may be used for several in turn.
    pub reset_on_close: bool,
    /// Nothing will be sent or received on it: it is made to see whether it can be. Where that is known at once, events are not
    /// asked for.
    pub silent: bool,
    /// The connection has ended when it is closed, and not a moment later: for who counts what is open.
    pub prompt_close: bool,
}

impl Default for ConnectOptions {
    /// What the kernel does by itself, with `nodelay`.
    fn default() -> Self {
        ConnectOptions {
            source: None,
            source_ports: None,
            transparent: false,
            namespace: None,
            interface: None,
            mark: None,
            tos: None,
            nodelay: true,
            keepalive: None,
            user_timeout_ms: None,
            mss: None,
            congestion: None,
            fastopen: false,
            md5: None,
            mptcp: false,
            no_quick_ack: false,
            receive_buffer: None,
            send_buffer: None,
            notsent_lowat: None,
            reset_on_close: false,
            silent: false,
            prompt_close: false,
        }
    }
}

/// How a listening socket is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenOptions {
    /// Connections the kernel completes ahead of `accept`; bounded by `net.core.somaxconn`.
    pub backlog: u32,
    /// Several sockets share the address, the kernel spreads connections over them (`SO_REUSEPORT`).
    pub reuseport: bool,
    /// IPv6 only (`Some(true)`), IPv4 as well (`Some(false)`), or as the system has it.
    pub v6only: Option<bool>,
    /// Accept connections to addresses that are not of this host, or bind before the address exists.
    pub transparent: bool,
    /// The network namespace to listen in.
    pub namespace: Option<Namespace>,
    /// Network interface to listen on.
    pub interface: Option<Box<str>>,
    /// Maximum segment size in bytes.
    pub mss: Option<u32>,
    /// Wait for data this many seconds before `accept` sees a connection (`TCP_DEFER_ACCEPT`).
    pub defer_accept_s: Option<u32>,
    /// Length of the queue of connections opened with data (`TCP_FASTOPEN`).
    pub fastopen: Option<u32>,
    /// Keep the SYN of each connection for [`saved_syn`](super::Stream::saved_syn): 1 from its IP header on, 2 from that of the
    /// link on (`TCP_SAVE_SYN`).
    pub save_syn: Option<u8>,
    /// Congestion control algorithm by its kernel name.
    pub congestion: Option<Box<str>>,
    /// Require signed segments from everybody.
    pub md5: Option<Md5Key>,
    /// Multipath TCP (RFC 8684); plain TCP clients are served as well.
    pub mptcp: bool,
    /// Milliseconds after which unacknowledged data breaks a connection (`tcp-ut`).
    pub user_timeout_ms: Option<u32>,
    /// Packet mark.
    pub mark: Option<u32>,
    /// Type of service or traffic class.
    pub tos: Option<u8>,
    /// Receive buffer in bytes (`tune.rcvbuf.client`).
    pub receive_buffer: Option<u32>,
    /// Send buffer in bytes (`tune.sndbuf.client`).
    pub send_buffer: Option<u32>,
    /// Bytes not sent yet that the kernel takes at most (`tune.notsent-lowat.client`).
    pub notsent_lowat: Option<u32>,
    /// What is received is acknowledged with the next data instead of at once (inherited from the listener).
    pub no_quick_ack: bool,
    /// Accepted connections send small segments at once (inherited from the listener).
    pub nodelay: bool,
    /// Accepted connections probe a silent peer (inherited from the listener).
    pub keepalive: Option<Keepalive>,
    /// Permissions of a unix socket's file.
    pub mode: Option<u32>,
    /// Owner of a unix socket's file.
    pub uid: Option<u32>,
    /// Group of a unix socket's file.
    pub gid: Option<u32>,
    /// A socket that keeps message boundaries (`SOCK_SEQPACKET`), unix only.
    pub seqpacket: bool,
}

/// What a socket forgets when it listens no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listening {
    /// See [`ListenOptions::backlog`].
    pub backlog: u32,
    /// See [`ListenOptions::no_quick_ack`].
    pub no_quick_ack: bool,
}

impl ListenOptions {
    /// What of it is set when the socket listens.
    pub fn listening(&self) -> Listening {
        Listening { backlog: self.backlog, no_quick_ack: self.no_quick_ack }
    }
}

impl Default for ListenOptions {
    fn default() -> Self {
        ListenOptions {
            backlog: 4096,
            reuseport: false,
            v6only: None,
            transparent: false,
            namespace: None,
            interface: None,
            mss: None,
            defer_accept_s: None,
            fastopen: None,
            save_syn: None,
            congestion: None,
            md5: None,
            mptcp: false,
            user_timeout_ms: None,
            mark: None,
            tos: None,
            receive_buffer: None,
            send_buffer: None,
            notsent_lowat: None,
            no_quick_ack: false,
            nodelay: true,
            keepalive: None,
            mode: None,
            uid: None,
            gid: None,
            seqpacket: false,
        }
    }
}

/// Options that listening and connecting sockets have in common, set by `fd` so that they serve both.
pub(crate) mod set {
    use super::*;

    fn int(fd: RawFd, level: i32, name: i32, value: i32) -> io::Result<()> {
        setsockopt(fd, level, name, &value)
    }

    /// `TCP_NODELAY`.
    pub fn nodelay(fd: RawFd, on: bool) -> io::Result<()> {
        int(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, i32::from(on))
    }

    /// `TCP_QUICKACK`: acknowledge at once, or with the next data.
    pub fn quickack(fd: RawFd, on: bool) -> io::Result<()> {
        int(fd, libc::IPPROTO_TCP, libc::TCP_QUICKACK, i32::from(on))
    }

    /// `SO_KEEPALIVE` and its three parameters.
    pub fn keepalive(fd: RawFd, k: &Keepalive) -> io::Result<()> {
        int(fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
        for (name, value) in [
            (libc::TCP_KEEPCNT, k.count),
            (libc::TCP_KEEPIDLE, k.idle_s),
            (libc::TCP_KEEPINTVL, k.interval_s),
        ] {
            if let Some(value) = value {
                int(fd, libc::IPPROTO_TCP, name, value.cast_signed())?;
            }
        }
        Ok(())
    }

    /// `SO_MARK`.
    pub fn mark(fd: RawFd, mark: u32) -> io::Result<()> {
        setsockopt(fd, libc::SOL_SOCKET, libc::SO_MARK, &mark)
    }

    /// Type of service of an IPv4 socket, traffic class of an IPv6 one (and the type of service of its mapped
    /// connections).
    pub fn tos(fd: RawFd, tos: u8) -> io::Result<()> {
        let v6 = int(fd, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, i32::from(tos));
        let v4 = int(fd, libc::IPPROTO_IP, libc::IP_TOS, i32::from(tos));
        v4.or(v6)
    }

    /// `TCP_USER_TIMEOUT` in milliseconds.
    pub fn user_timeout_ms(fd: RawFd, ms: u32) -> io::Result<()> {
        setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, &ms)
    }

    /// `TCP_MAXSEG`.
    pub fn mss(fd: RawFd, mss: u32) -> io::Result<()> {
        setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_MAXSEG, &mss)
    }

    /// `TCP_MAXSEG`, `by` bytes less than it is.
    pub fn lower_mss(fd: RawFd, by: u32) -> io::Result<()> {
        let mut now = 0i32;
        getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_MAXSEG, &mut now)?;
        // The kernel accepts nothing below its own least value.
        mss(fd, now.cast_unsigned().saturating_sub(by).max(88))
    }

    /// `TCP_NOTSENT_LOWAT`, in bytes.
    pub fn notsent_lowat(fd: RawFd, bytes: u32) -> io::Result<()> {
        setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, &bytes)
    }

    /// `TCP_CONGESTION`.
    pub fn congestion(fd: RawFd, name: &str) -> io::Result<()> {
        setsockopt_bytes(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, name.as_bytes())
    }

    /// `SO_BINDTODEVICE`.
    pub fn interface(fd: RawFd, name: &str) -> io::Result<()> {
        setsockopt_bytes(fd, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, name.as_bytes())
    }

    /// Addresses that are not of this host may be bound: `IP_TRANSPARENT`, else `IP_FREEBIND`.
    pub fn transparent(fd: RawFd, family: i32) -> io::Result<()> {
        if family == libc::AF_INET6 {
            return int(fd, libc::IPPROTO_IPV6, libc::IPV6_TRANSPARENT, 1)
                .or_else(|_| int(fd, libc::IPPROTO_IPV6, libc::IPV6_FREEBIND, 1));
        }
        int(fd, libc::IPPROTO_IP, libc::IP_TRANSPARENT, 1)
            .or_else(|_| int(fd, libc::IPPROTO_IP, libc::IP_FREEBIND, 1))
    }

    /// `SO_RCVBUF`, in bytes.
    pub fn receive_buffer(fd: RawFd, bytes: u32) -> io::Result<()> {
        setsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, &bytes)
    }

    /// `SO_SNDBUF`, in bytes.
    pub fn send_buffer(fd: RawFd, bytes: u32) -> io::Result<()> {
        setsockopt(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, &bytes)
    }

    /// `TCP_MD5SIG_EXT` for segments exchanged with anybody of the family of this address.
    pub fn md5_of_all(fd: RawFd, address: &SockAddr, key: &Md5Key) -> io::Result<()> {
        let nobody = match address {
            SockAddr::V6(_) => SockAddr::from(SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))),
            _ => SockAddr::from(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))),
        };
        sign(fd, &nobody, key, true)
    }

    /// `TCP_MD5SIG` for segments exchanged with `peer`.
    pub fn md5(fd: RawFd, peer: &SockAddr, key: &Md5Key) -> io::Result<()> {
        sign(fd, peer, key, false)
    }

    /// Segments exchanged with `peer` are signed; with its whole family if that is said.
    fn sign(fd: RawFd, peer: &SockAddr, key: &Md5Key, whole_family: bool) -> io::Result<()> {
        /// `struct tcp_md5sig` of the kernel's interface (tcp(7)).
        #[repr(C)]
        #[derive(Clone, Copy)]
        struct Md5Sig {
            address: libc::sockaddr_storage,
            flags: u8,
            prefix_len: u8,
            key_len: u16,
            interface: i32,
            key: [u8; 80],
        }
        const TCP_MD5SIG: i32 = 14;
        const TCP_MD5SIG_EXT: i32 = 32;
        /// The length of the prefix counts: none is everybody.
        const TCP_MD5SIG_FLAG_PREFIX: u8 = 1;
        if key.0.is_empty() || key.0.len() > 80 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "an MD5 key has 1 to 80 bytes"));
        }
        let mut sig = Md5Sig {
            address: peer.to_raw()?.storage,
            flags: if whole_family { TCP_MD5SIG_FLAG_PREFIX } else { 0 },
            prefix_len: 0,
            key_len: key.0.len() as u16,
            interface: 0,
            key: [0; 80],
        };
        sig.key[..key.0.len()].copy_from_slice(&key.0);
        let name = if whole_family { TCP_MD5SIG_EXT } else { TCP_MD5SIG };
        setsockopt(fd, libc::IPPROTO_TCP, name, &sig)
    }

    /// Closing discards unsent data and answers with a reset (`SO_LINGER` with a zero time).
    pub fn linger_reset(fd: RawFd) -> io::Result<()> {
        setsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER, &libc::linger { l_onoff: 1, l_linger: 0 })
    }

    pub(crate) fn flag(fd: RawFd, level: i32, name: i32) -> io::Result<()> {
        int(fd, level, name, 1)
    }

    pub(crate) fn value(fd: RawFd, level: i32, name: i32, value: i32) -> io::Result<()> {
        int(fd, level, name, value)
    }
}

/// Lets the closing of a socket reset its connection.
///
/// # Errors
/// Of the kernel.
pub fn linger_reset(socket: BorrowedFd<'_>) -> io::Result<()> {
    set::linger_reset(socket.as_raw_fd())
}

/// What the kernel measured about a TCP connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Smoothed round-trip time in microseconds (`fc_rtt`).
    pub rtt_us: u32,
    /// Its variance in microseconds (`fc_rttvar`).
    pub rtt_variance_us: u32,
    /// Segments unacknowledged (`fc_unacked`).
    pub unacked: u32,
    /// Segments selectively acknowledged (`fc_sacked`).
    pub sacked: u32,
    /// Retransmissions of the segment in flight (`fc_retrans`).
    pub retransmits: u32,
    /// Segments thought lost (`fc_lost`).
    pub lost: u32,
    /// Segments acknowledged beyond a gap (`fc_fackets`).
    pub fackets: u32,
    /// Reordering metric (`fc_reordering`).
    pub reordering: u32,
    /// Sending maximum segment size in bytes.
    pub send_mss: u32,
    /// The connection exists no longer: it was reset, or ended by both sides.
    pub is_gone: bool,
}

/// The kernel's number of a connection's state after its end.
const TCP_CLOSE: u8 = 7;

/// Reads [`TcpInfo`].
pub(crate) fn tcp_info(fd: BorrowedFd<'_>) -> io::Result<TcpInfo> {
    // SAFETY: all-zero bytes are valid for this C structure of integers.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    getsockopt(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, &mut info)?;
    Ok(TcpInfo {
        rtt_us: info.tcpi_rtt,
        rtt_variance_us: info.tcpi_rttvar,
        unacked: info.tcpi_unacked,
        sacked: info.tcpi_sacked,
        retransmits: info.tcpi_retrans,
        lost: info.tcpi_lost,
        fackets: info.tcpi_fackets,
        reordering: info.tcpi_reordering,
        send_mss: info.tcpi_snd_mss,
        is_gone: info.tcpi_state == TCP_CLOSE,
    })
}

/// `TCP_SAVE_SYN` and `TCP_SAVED_SYN` of Linux.
pub(crate) const SAVE_SYN: i32 = 27;
const SAVED_SYN: i32 = 28;

/// The SYN that the kernel kept, once.
pub(crate) fn saved_syn(fd: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    // Headers of link, IP and TCP, and what may be between those of IPv6.
    let mut packet = [0_u8; 512];
    let len = getsockopt(fd.as_raw_fd(), libc::IPPROTO_TCP, SAVED_SYN, &mut packet)?;
    Ok(packet.get(..len).unwrap_or_default().to_vec())
}

/// The destination a connection had before a firewall redirected it here (`SO_ORIGINAL_DST`, IPv4 and IPv6).
pub(crate) fn original_destination(fd: RawFd, family: i32) -> io::Result<SockAddr> {
    const SO_ORIGINAL_DST: i32 = 80;
    // SAFETY: all-zero bytes are valid for these C structures.
    let mut raw: crate::driver::socket::ConnectAddress = unsafe { std::mem::zeroed() };
    let level = if family == libc::AF_INET6 { libc::IPPROTO_IPV6 } else { libc::IPPROTO_IP };
    raw.len = getsockopt(fd, level, SO_ORIGINAL_DST, &mut raw.storage)? as u32;
    Ok(SockAddr::from_raw(&raw))
}
