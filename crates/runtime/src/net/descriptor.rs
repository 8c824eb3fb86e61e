//! Descriptors from elsewhere: inherited from a parent, passed over a unix socket, or asked about.

use super::SockAddr;
use super::syscall::{check, getsockopt};
use crate::driver::socket::ConnectAddress;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Most descriptors in one message (`SCM_MAX_FD` of the kernel).
pub const PASS_MAX: usize = 253;

/// What kind of socket a descriptor is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketKind {
    /// Its own address.
    pub local: SockAddr,
    /// A byte stream or sequenced packets, not datagrams.
    pub stream: bool,
    /// It listens already.
    pub listening: bool,
}

/// Finds out what an inherited descriptor is.
///
/// # Errors
/// `ENOTSOCK` and the like when it is no socket.
pub fn inspect(fd: BorrowedFd<'_>) -> io::Result<SocketKind> {
    let fd = fd.as_raw_fd();
    let (mut kind, mut listening) = (0i32, 0i32);
    getsockopt(fd, libc::SOL_SOCKET, libc::SO_TYPE, &mut kind)?;
    let _ = getsockopt(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN, &mut listening);
    Ok(SocketKind { local: local_addr(fd)?, stream: kind != libc::SOCK_DGRAM, listening: listening != 0 })
}

/// What an open descriptor of the process is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Open {
    /// A socket that others connect to.
    Listener(SockAddr),
    /// A socket that is connected.
    Connection {
        /// This end.
        local: SockAddr,
        /// The other one.
        peer: SockAddr,
    },
    /// Another socket: of datagrams, or of an attempt to connect.
    Socket(SockAddr),
    /// An end of a pipe.
    Pipe,
    /// A file of this kind, or an object of the kernel that has none.
    File(&'static str),
}

/// What a descriptor of this process is, by its number; `None` where none is open. Another thread may close it meanwhile, and
/// open another one.
pub fn of_number(number: RawFd) -> Option<Open> {
    // SAFETY: all-zero bytes are a valid `stat`.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to `status`, which the call fills; the number may be of nothing that is open.
    if unsafe { libc::fstat(number, &mut status) } != 0 {
        return None;
    }
    let file = match status.st_mode & libc::S_IFMT {
        libc::S_IFSOCK => {
            let local = local_addr(number).ok()?;
            let mut listening = 0i32;
            let _ = getsockopt(number, libc::SOL_SOCKET, libc::SO_ACCEPTCONN, &mut listening);
            return Some(match peer_addr(number) {
                _ if listening != 0 => Open::Listener(local),
                Ok(peer) => Open::Connection { local, peer },
                Err(_) => Open::Socket(local),
            });
        }
        libc::S_IFIFO => return Some(Open::Pipe),
        libc::S_IFREG => "file",
        libc::S_IFDIR => "directory",
        libc::S_IFCHR => "device",
        _ => "kernel",
    };
    Some(Open::File(file))
}

pub(crate) fn local_addr(fd: RawFd) -> io::Result<SockAddr> {
    name(fd, libc::getsockname)
}

pub(crate) fn peer_addr(fd: RawFd) -> io::Result<SockAddr> {
    name(fd, libc::getpeername)
}

fn name(
    fd: RawFd,
    call: unsafe extern "C" fn(RawFd, *mut libc::sockaddr, *mut libc::socklen_t) -> i32,
) -> io::Result<SockAddr> {
    // SAFETY: all-zero bytes are valid for these C structures.
    let mut raw: ConnectAddress = unsafe { std::mem::zeroed() };
    raw.len = size_of::<libc::sockaddr_storage>() as u32;
    // SAFETY: the pointers describe `raw`, which the call fills.
    if unsafe { call(fd, (&raw mut raw.storage).cast(), &mut raw.len) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(SockAddr::from_raw(&raw))
}

// Room for the control message of PASS_MAX descriptors, aligned as `cmsghdr` is.
const CONTROL_WORDS: usize = (16 + PASS_MAX * 4).div_ceil(8) + 1;

/// Sends `bytes` (at least one) and descriptors over a unix socket in one message. Returns how many bytes went; the
/// descriptors went with the first.
///
/// # Errors
/// `InvalidInput` for no bytes or more than [`PASS_MAX`] descriptors; `WouldBlock` on a full non-blocking socket.
pub fn send_with_descriptors(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    fds: &[BorrowedFd<'_>],
) -> io::Result<usize> {
    if bytes.is_empty() || fds.len() > PASS_MAX {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let raw: Vec<RawFd> = fds.iter().map(|fd| fd.as_raw_fd()).collect();
    let payload = (raw.len() * size_of::<RawFd>()) as u32;
    let mut control = [0u64; CONTROL_WORDS];
    let mut iov = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: the header points at `iov` and `control`, which outlive the call; the control message is written within
    // `CMSG_SPACE`, which fits the array for PASS_MAX descriptors.
    let n = unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &mut iov;
        header.msg_iovlen = 1;
        if !raw.is_empty() {
            header.msg_control = control.as_mut_ptr().cast();
            header.msg_controllen = libc::CMSG_SPACE(payload) as usize;
            let cmsg = libc::CMSG_FIRSTHDR(&header);
            (*cmsg).cmsg_level = libc::SOL_SOCKET;
            (*cmsg).cmsg_type = libc::SCM_RIGHTS;
            (*cmsg).cmsg_len = libc::CMSG_LEN(payload) as usize;
            std::ptr::copy_nonoverlapping(raw.as_ptr().cast::<u8>(), libc::CMSG_DATA(cmsg), payload as usize);
        }
        libc::sendmsg(socket.as_raw_fd(), &header, libc::MSG_NOSIGNAL)
    };
    check(n).map_err(io::Error::from_raw_os_error)
}

/// Receives bytes and the descriptors that came with them (closed on exec). Zero bytes mean the end of the stream.
///
/// # Errors
/// `InvalidData` when more than [`PASS_MAX`] descriptors came and some were lost.
pub fn receive_with_descriptors(
    socket: BorrowedFd<'_>,
    bytes: &mut [u8],
) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut control = [0u64; CONTROL_WORDS];
    let mut iov = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let mut fds = Vec::new();
    // SAFETY: the header points at `iov` and `control`, which outlive the calls; control messages are walked with the
    // kernel's own macros and read within `cmsg_len`; the descriptors are fresh and owned by nobody else.
    let (n, truncated) = unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &mut iov;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control);
        let n = libc::recvmsg(socket.as_raw_fd(), &mut header, libc::MSG_CMSG_CLOEXEC);
        if n >= 0 {
            let mut cmsg = libc::CMSG_FIRSTHDR(&header);
            while !cmsg.is_null() {
                if (*cmsg).cmsg_level == libc::SOL_SOCKET && (*cmsg).cmsg_type == libc::SCM_RIGHTS {
                    let data = libc::CMSG_DATA(cmsg).cast::<RawFd>();
                    let count = ((*cmsg).cmsg_len - libc::CMSG_LEN(0) as usize) / size_of::<RawFd>();
                    for i in 0..count {
                        fds.push(OwnedFd::from_raw_fd(data.add(i).read_unaligned()));
                    }
                }
                cmsg = libc::CMSG_NXTHDR(&header, cmsg);
            }
        }
        (n, header.msg_flags & libc::MSG_CTRUNC != 0)
    };
    let n = check(n).map_err(io::Error::from_raw_os_error)?;
    if truncated {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "descriptors were lost: too many in one message",
        ));
    }
    Ok((n, fds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn numbers_tell_what_they_are() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address: SockAddr = listener.local_addr().unwrap().into();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let own: SockAddr = client.local_addr().unwrap().into();
        let (reader, _writer) = std::io::pipe().unwrap();
        let null = std::fs::File::open("/dev/null").unwrap();
        let told = |fd: &dyn AsRawFd| of_number(fd.as_raw_fd());
        assert_eq!(told(&listener), Some(Open::Listener(address.clone())));
        assert_eq!(told(&client), Some(Open::Connection { local: own, peer: address }));
        assert_eq!(told(&reader), Some(Open::Pipe));
        assert_eq!(told(&null), Some(Open::File("device")));
        assert_eq!(of_number(-1), None);
    }

    #[test]
    fn descriptors_travel_with_bytes() {
        let (a, b) = UnixStream::pair().unwrap();
        let (c, mut d) = UnixStream::pair().unwrap();
        let many: Vec<BorrowedFd<'_>> = vec![c.as_fd(); PASS_MAX];
        assert_eq!(send_with_descriptors(a.as_fd(), b"hello", &many).unwrap(), 5);
        let mut bytes = [0; 16];
        let (n, fds) = receive_with_descriptors(b.as_fd(), &mut bytes).unwrap();
        assert_eq!((&bytes[..n], fds.len()), (&b"hello"[..], PASS_MAX));
        let mut passed = UnixStream::from(fds.into_iter().next().unwrap());
        passed.write_all(b"x").unwrap();
        let mut one = [0];
        d.read_exact(&mut one).unwrap();
        assert_eq!(&one, b"x");
        drop(a);
        assert_eq!(receive_with_descriptors(b.as_fd(), &mut bytes).unwrap().0, 0);
    }

    #[test]
    fn a_descriptor_says_what_it_is() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let kind = inspect(listener.as_fd()).unwrap();
        assert!(kind.listening && kind.stream);
        assert_eq!(kind.local, SockAddr::from(listener.local_addr().unwrap()));
        let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let kind = inspect(udp.as_fd()).unwrap();
        assert!(!kind.listening && !kind.stream);
        assert!(inspect(std::fs::File::open("/dev/null").unwrap().as_fd()).is_err());
    }
}
