//! Listening sockets passed from an old process to a new one over a unix socket, in the form HAProxy uses
//! (`_getsocks` on the CLI, option `-x` on the command line; management manual, chapter 3).
//!
//! What goes over the wire, as observed between two HAProxy processes:
//!
//! ```text
//! new -> old   "_getsocks\n"
//! old -> new   number of sockets, 4 bytes in the machine's byte order
//! old -> new   a message with at most 252 descriptors and, for each of them in the same order:
//!              length of the namespace (1), namespace, length of the interface (1), interface, options (4)
//! new -> old   how many sockets it had before this message, 4 bytes; then the next message follows
//! ```

use std::io::{self, Read, Write};
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// As many as HAProxy puts in one message; the kernel would take one more.
pub const DESCRIPTORS_PER_MESSAGE: usize = 252;

/// No process listens on more sockets than this; a larger count means that the peer speaks something else.
const SOCKETS_MAX: usize = 1 << 20;

/// How long the other process may take for each step.
const STEP_TIMEOUT: Duration = Duration::from_secs(1);

/// Room for what one message says: each descriptor with the longest namespace and interface.
const MESSAGE_SIZE_MAX: usize = DESCRIPTORS_PER_MESSAGE * (1 + 255 + 1 + 255 + 4);

/// A socket with what cannot be asked from the socket itself.
#[derive(Debug)]
pub struct HandedSocket {
    /// The socket, already bound and usually listening.
    pub fd: OwnedFd,
    /// The network namespace it is in, empty for the one of the process.
    pub namespace: String,
    /// The interface it is bound to, empty when it is not.
    pub interface: String,
}

/// How long it may take for all of them. They are in memory there, and a few hundred come at a time.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

/// At which step [`fetch`] failed.
#[derive(Debug)]
pub enum FetchError {
    /// Nobody took the connection.
    Connect(io::Error),
    /// It was taken, and then nothing sensible was said.
    Count(io::Error),
    /// Fewer or other sockets came than were announced.
    Sockets(io::Error),
}

/// Asks the process that listens on `path` for its sockets. Takes no longer than [`FETCH_TIMEOUT`] and a second.
pub fn fetch(path: &Path) -> Result<Vec<HandedSocket>, FetchError> {
    fetch_over(connect(path).map_err(FetchError::Connect)?)
}

/// The same, of the process at the other end of a connection to its CLI.
pub fn fetch_over(mut stream: UnixStream) -> Result<Vec<HandedSocket>, FetchError> {
    for limit in [UnixStream::set_read_timeout, UnixStream::set_write_timeout] {
        limit(&stream, Some(STEP_TIMEOUT)).map_err(FetchError::Connect)?;
    }
    let count = ask(&mut stream).map_err(FetchError::Count)?;
    receive_sockets(&mut stream, count, FETCH_TIMEOUT).map_err(FetchError::Sockets)
}

/// Connects, and waits no longer than a step may take when so many others wait already that there is no room.
fn connect(path: &Path) -> io::Result<UnixStream> {
    // SAFETY: takes integers only.
    let socket = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was made just above and nobody else has it.
    let stream = UnixStream::from(unsafe { OwnedFd::from_raw_fd(socket) });
    stream.set_read_timeout(Some(STEP_TIMEOUT))?;
    stream.set_write_timeout(Some(STEP_TIMEOUT))?;
    // SAFETY: all-zero bytes are a valid sockaddr_un: an address without a name.
    let mut address: libc::sockaddr_un = unsafe { mem::zeroed() };
    address.sun_family = libc::AF_UNIX as _;
    let name = path.as_os_str().as_bytes();
    // One byte is left for the NUL that ends the name.
    if name.len() >= address.sun_path.len() || name.contains(&0) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in address.sun_path.iter_mut().zip(name) {
        *to = *from as libc::c_char;
    }
    let length = mem::size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: `address` is an initialized address of `length` bytes that lives until the call returns.
    if unsafe { libc::connect(stream.as_raw_fd(), (&raw const address).cast(), length) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(stream)
}

/// How many sockets there are.
fn ask(stream: &mut UnixStream) -> io::Result<usize> {
    stream.write_all(b"_getsocks\n")?;
    receive_count(stream)
}

/// The receiving half of [`fetch`].
pub fn receive(stream: &mut UnixStream) -> io::Result<Vec<HandedSocket>> {
    let count = receive_count(stream)?;
    receive_sockets(stream, count, FETCH_TIMEOUT)
}

fn receive_count(stream: &mut UnixStream) -> io::Result<usize> {
    let mut count = [0; 4];
    stream.read_exact(&mut count)?;
    let count = i32::from_ne_bytes(count);
    let count = usize::try_from(count).ok().filter(|count| *count <= SOCKETS_MAX);
    count.ok_or_else(|| invalid("number of sockets out of range"))
}

/// `limit`: how long it may take for all of them.
fn receive_sockets(stream: &mut UnixStream, count: usize, limit: Duration) -> io::Result<Vec<HandedSocket>> {
    let start = Instant::now();
    let mut sockets = Vec::new();
    let mut text = vec![0; MESSAGE_SIZE_MAX];
    while sockets.len() < count {
        if start.elapsed() > limit {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let (length, descriptors) = receive_descriptors(stream.as_fd(), &mut text)?;
        let before = sockets.len() as i32;
        let mut rest = &text[..length];
        if descriptors.is_empty() || descriptors.len() > count - sockets.len() {
            return Err(invalid("unexpected number of sockets in a message"));
        }
        for fd in descriptors {
            let namespace = take_name(&mut rest)?;
            let interface = take_name(&mut rest)?;
            // The options are those of the other process's listener: this one has its own configuration.
            rest = rest.get(4..).ok_or_else(|| invalid("truncated message"))?;
            sockets.push(HandedSocket { fd, namespace, interface });
        }
        if !rest.is_empty() {
            return Err(invalid("message longer than its sockets"));
        }
        stream.write_all(&before.to_ne_bytes())?;
    }
    Ok(sockets)
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn take_name(rest: &mut &[u8]) -> io::Result<String> {
    let truncated = || invalid("truncated message");
    let (&length, after) = rest.split_first().ok_or_else(truncated)?;
    let name = after.get(..usize::from(length)).ok_or_else(truncated)?;
    *rest = &after[usize::from(length)..];
    String::from_utf8(name.to_vec()).map_err(|_| invalid("name is not text"))
}

/// A socket to pass on.
#[derive(Clone, Copy, Debug)]
pub struct SocketToHand<'a> {
    /// The socket.
    pub fd: BorrowedFd<'a>,
    /// The network namespace it is in, empty for the one of the process. At most 255 bytes.
    pub namespace: &'a str,
    /// The interface it is bound to, empty when it is not. At most 255 bytes.
    pub interface: &'a str,
}

/// Answers `_getsocks` on a blocking stream: passes the sockets and waits until they were received.
pub fn hand_over(stream: &mut UnixStream, sockets: &[SocketToHand<'_>]) -> io::Result<()> {
    stream.set_read_timeout(Some(STEP_TIMEOUT))?;
    stream.set_write_timeout(Some(STEP_TIMEOUT))?;
    let count = i32::try_from(sockets.len()).map_err(|_| invalid("too many sockets"))?;
    stream.write_all(&count.to_ne_bytes())?;
    for group in sockets.chunks(DESCRIPTORS_PER_MESSAGE) {
        let mut text = Vec::new();
        let mut descriptors = Vec::with_capacity(group.len());
        for socket in group {
            for name in [socket.namespace, socket.interface] {
                text.push(u8::try_from(name.len()).map_err(|_| invalid("name too long"))?);
                text.extend_from_slice(name.as_bytes());
            }
            text.extend_from_slice(&[0; 4]);
            descriptors.push(socket.fd);
        }
        send_descriptors(stream.as_fd(), &text, &descriptors)?;
        stream.read_exact(&mut [0; 4])?;
    }
    Ok(())
}

/// Room for the control message of [`DESCRIPTORS_PER_MESSAGE`] descriptors, with the alignment of its header.
#[repr(C)]
union ControlBuffer {
    header: libc::cmsghdr,
    bytes: [u8; CONTROL_SIZE],
}

const CONTROL_SIZE: usize = {
    let payload = (DESCRIPTORS_PER_MESSAGE * mem::size_of::<RawFd>()) as u32;
    // SAFETY: CMSG_SPACE only computes a size.
    unsafe { libc::CMSG_SPACE(payload) as usize }
};

/// Sends `text`, which must not be empty, in one message with at most [`DESCRIPTORS_PER_MESSAGE`] descriptors.
pub fn send_descriptors(
    socket: BorrowedFd<'_>,
    text: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    if text.is_empty() || descriptors.len() > DESCRIPTORS_PER_MESSAGE {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut control = MaybeUninit::<ControlBuffer>::zeroed();
    let mut part = libc::iovec { iov_base: text.as_ptr().cast_mut().cast(), iov_len: text.len() };
    // SAFETY: all-zero bytes are a valid msghdr: null pointers and zero lengths.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &mut part;
    message.msg_iovlen = 1;
    if !descriptors.is_empty() {
        let payload = mem::size_of_val(descriptors);
        message.msg_control = control.as_mut_ptr().cast();
        // SAFETY: CMSG_SPACE and CMSG_LEN only compute sizes. `control` has room for one header and the payload,
        // whose length was checked above, and the alignment of a header, so CMSG_FIRSTHDR is not null and CMSG_DATA
        // points to `payload` writable bytes.
        unsafe {
            message.msg_controllen = libc::CMSG_SPACE(payload as u32) as _;
            let header = libc::CMSG_FIRSTHDR(&message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(payload as u32) as _;
            // A borrowed descriptor is laid out as its number.
            std::ptr::copy_nonoverlapping(
                descriptors.as_ptr().cast::<u8>(),
                libc::CMSG_DATA(header),
                payload,
            );
        }
    }
    // SAFETY: `message` points to `part`, `text` and `control`, which all live until the call returns.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &message, libc::MSG_NOSIGNAL) };
    match usize::try_from(sent) {
        Ok(sent) if sent == text.len() => Ok(()),
        // A stream socket may take a part only; the descriptors went with it, so the rest cannot be sent again.
        Ok(_) => Err(io::ErrorKind::WriteZero.into()),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// Receives one message: how many bytes of `text` were filled, and the descriptors that came with them. The end of
/// the stream is an [`io::ErrorKind::UnexpectedEof`].
pub fn receive_descriptors(socket: BorrowedFd<'_>, text: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut control = MaybeUninit::<ControlBuffer>::zeroed();
    let mut part = libc::iovec { iov_base: text.as_mut_ptr().cast(), iov_len: text.len() };
    // SAFETY: all-zero bytes are a valid msghdr: null pointers and zero lengths.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = CONTROL_SIZE as _;
    // SAFETY: `message` points to `part`, `text` and `control`, which are writable and live until the call returns.
    let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut message, libc::MSG_CMSG_CLOEXEC) };
    let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    let mut descriptors = Vec::new();
    // SAFETY: the kernel filled `control` with well-formed headers up to msg_controllen, which CMSG_FIRSTHDR and
    // CMSG_NXTHDR stay within. SCM_RIGHTS carries descriptors that are now open in this process and owned by nobody
    // else. They may be unaligned for their type, hence read_unaligned.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(&message);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_RIGHTS {
                let payload = (*header).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                let data = libc::CMSG_DATA(header).cast::<RawFd>();
                for index in 0..payload / mem::size_of::<RawFd>() {
                    descriptors.push(OwnedFd::from_raw_fd(data.add(index).read_unaligned()));
                }
            }
            header = libc::CMSG_NXTHDR(&message, header);
        }
    }
    if received == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if message.msg_flags & libc::MSG_CTRUNC != 0 {
        return Err(invalid("descriptors were lost: too many files open"));
    }
    Ok((received, descriptors))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    fn listeners(count: usize) -> Vec<TcpListener> {
        (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect()
    }

    #[test]
    fn sockets_arrive_with_their_names() {
        let listeners = listeners(3);
        let interfaces = ["", "lo", ""];
        let (mut new, mut old) = UnixStream::pair().unwrap();
        let addresses: Vec<_> = listeners.iter().map(|l| l.local_addr().unwrap()).collect();
        let giver = thread::spawn(move || {
            let sockets: Vec<_> = listeners
                .iter()
                .zip(interfaces)
                .map(|(l, interface)| SocketToHand { fd: l.as_fd(), namespace: "", interface })
                .collect();
            hand_over(&mut old, &sockets).unwrap();
        });
        let sockets = receive(&mut new).unwrap();
        giver.join().unwrap();
        assert_eq!(sockets.len(), 3);
        for ((socket, interface), address) in sockets.into_iter().zip(interfaces).zip(addresses) {
            assert_eq!(socket.interface, interface);
            let listener = TcpListener::from(socket.fd);
            assert_eq!(listener.local_addr().unwrap(), address);
            // It still listens although the giver closed its own copies.
            TcpStream::connect(address).unwrap();
            listener.accept().unwrap();
        }
    }

    #[test]
    fn many_sockets_take_several_messages() {
        let listener = &listeners(1)[0];
        let (mut new, mut old) = UnixStream::pair().unwrap();
        let count = 2 * DESCRIPTORS_PER_MESSAGE + 1;
        thread::scope(|scope| {
            scope.spawn(|| {
                let socket = SocketToHand { fd: listener.as_fd(), namespace: "ns", interface: "" };
                hand_over(&mut old, &vec![socket; count]).unwrap();
            });
            let sockets = receive(&mut new).unwrap();
            assert_eq!(sockets.len(), count);
            assert!(sockets.iter().all(|s| s.namespace == "ns"));
        });
    }

    #[test]
    fn a_process_that_takes_no_connection_is_not_waited_for() {
        let path = std::env::temp_dir().join(format!("thalweg-handover-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        // SAFETY: takes integers only. It makes the queue of the listener shorter.
        assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 1) }, 0);
        let mut waiting = Vec::new();
        let error = loop {
            match connect(&path) {
                Ok(stream) => waiting.push(stream),
                Err(error) => break error,
            }
        };
        std::fs::remove_file(&path).unwrap();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert!(connect(Path::new("a\0b")).is_err());
    }

    #[test]
    fn sockets_that_come_one_by_one_are_not_waited_for_without_end() {
        let listener = &listeners(1)[0];
        let (mut new, mut old) = UnixStream::pair().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                // As long as somebody listens.
                while send_descriptors(old.as_fd(), &[0; 6], &[listener.as_fd()]).is_ok()
                    && old.read_exact(&mut [0; 4]).is_ok()
                {}
            });
            let error = receive_sockets(&mut new, SOCKETS_MAX, Duration::from_millis(20)).unwrap_err();
            drop(new);
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        });
    }

    #[test]
    fn nonsense_is_refused() {
        let check = |bytes: &[u8]| {
            let (mut new, mut old) = UnixStream::pair().unwrap();
            old.write_all(bytes).unwrap();
            drop(old);
            receive(&mut new).unwrap_err().kind()
        };
        assert_eq!(check(b""), io::ErrorKind::UnexpectedEof);
        assert_eq!(check(b"\n"), io::ErrorKind::UnexpectedEof);
        assert_eq!(check(&(-1_i32).to_ne_bytes()), io::ErrorKind::InvalidData);
        assert_eq!(check(&i32::MAX.to_ne_bytes()), io::ErrorKind::InvalidData);
        assert_eq!(check(&[1_i32.to_ne_bytes(), [0; 4]].concat()), io::ErrorKind::InvalidData);
        assert!(fetch(Path::new("/no/such/socket")).is_err());
        let (_new, old) = UnixStream::pair().unwrap();
        assert!(send_descriptors(old.as_fd(), b"", &[]).is_err());
    }
}
