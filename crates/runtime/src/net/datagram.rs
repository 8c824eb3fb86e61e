//! Datagram sockets: UDP (with segmentation offload) and unix.
//!
//! What is queued during a round of the loop leaves at its end in one `sendmmsg`. What the kernel has no room for
//! waits, up to a bound, until the socket is writable; beyond the bound datagrams are dropped and counted, because
//! whoever sends datagrams (logs, DNS, QUIC) must not be stopped by a slow receiver.

use super::options::set;
use super::stream::bind;
use super::{SockAddr, descriptor, syscall};
use crate::buffer::{Buf, poll_alloc};
use crate::driver::socket::{Bits, ConnectAddress, Socket, SocketRef};
use crate::driver::{self, sim::SimDriver};
use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::task::Poll;
use thalweg_sys::namespace::Namespace;

/// Datagrams handed to the kernel per call.
const BATCH: usize = 64;
/// Control bytes for one message: a segment size, or the received segment size and destination address.
const CONTROL_WORDS: usize = 16;
/// `UDP_SEGMENT` of udp(7): the size of the datagrams one large send is cut into.
const UDP_SEGMENT: i32 = 103;
/// `UDP_GRO` of udp(7): several datagrams of one size are received as one.
const UDP_GRO: i32 = 104;
/// Segments the kernel accepts per send (`UDP_MAX_SEGMENTS`).
pub const SEGMENTS_MAX: usize = 64;

/// How a datagram socket is made.
#[derive(Clone, Debug)]
pub struct DatagramOptions {
    /// Address to bind to; `None` leaves it to the kernel.
    pub bind: Option<SockAddr>,
    /// Several sockets share the address (`SO_REUSEPORT`).
    pub reuseport: bool,
    /// Datagrams that may wait at a time.
    pub queue_max: usize,
    /// Bytes that may wait at a time.
    pub queue_bytes_max: usize,
    /// Receive several datagrams of one size as one buffer (`UDP_GRO`).
    pub receive_offload: bool,
    /// Report the address each datagram was sent to (`IP_PKTINFO`).
    pub destination: bool,
    /// The network namespace that it is in.
    pub namespace: Option<Namespace>,
    /// Network interface.
    pub interface: Option<Box<str>>,
    /// Addresses that are not of this host may be bound.
    pub transparent: bool,
    /// Packet mark; needs a privilege.
    pub mark: Option<u32>,
    /// Type of service or traffic class.
    pub tos: Option<u8>,
    /// Receive buffer in bytes.
    pub receive_buffer: Option<u32>,
    /// Send buffer in bytes.
    pub send_buffer: Option<u32>,
}

impl Default for DatagramOptions {
    fn default() -> Self {
        DatagramOptions {
            bind: None,
            reuseport: false,
            queue_max: 1024,
            queue_bytes_max: 1 << 20,
            receive_offload: false,
            destination: false,
            namespace: None,
            interface: None,
            transparent: false,
            mark: None,
            tos: None,
            receive_buffer: None,
            send_buffer: None,
        }
    }
}

/// What was received.
#[derive(Debug)]
pub struct Received {
    /// The bytes: one datagram, or several of `segment` bytes each (the last may be shorter).
    pub bytes: Buf,
    /// Who sent it.
    pub from: SockAddr,
    /// Size of each datagram, when several came as one.
    pub segment: Option<u16>,
    /// The local address it was sent to, when asked for; its port is the socket's.
    pub to: Option<std::net::IpAddr>,
    /// The datagram was longer than the buffer and its end is lost.
    pub truncated: bool,
}

/// A datagram socket of this thread's driver.
pub struct Datagram {
    outbox: Rc<RefCell<Outbox>>,
    socket: SocketRef,
    /// Several datagrams may come as one, larger than a pooled buffer.
    offload: bool,
    _thread_local: PhantomData<*mut ()>,
}

#[derive(Clone)]
struct Queued {
    start: usize,
    len: usize,
    /// Index into `Outbox::addresses`; `None` goes to the connected peer.
    to: Option<usize>,
    segment: u16,
}

/// Datagrams that wait for the end of the round.
pub(crate) struct Outbox {
    socket: SocketRef,
    fd: RawFd,
    bytes: Vec<u8>,
    queued: Vec<Queued>,
    addresses: Vec<ConnectAddress>,
    listed: bool,
    open: bool,
    queue_max: usize,
    queue_bytes_max: usize,
    sent: u64,
    dropped: u64,
}

impl Datagram {
    fn record(&mut self) -> &mut Socket {
        // SAFETY: this is the record's one owner, on the driver's thread; drivers hold no reference between calls.
        unsafe { self.socket.as_mut() }
    }

    /// A socket that sends to, and receives from, one peer.
    pub fn connect(peer: &SockAddr, opts: &DatagramOptions) -> io::Result<Datagram> {
        if let Some(fd) =
            driver::with(|d| d.simulated().map(|s| s.open_datagram(opts.bind.as_ref(), Some(peer))))
        {
            return Datagram::register(fd?, opts);
        }
        let socket = open(peer.family(), opts)?;
        let raw = peer.to_raw()?;
        syscall::connect(socket.as_raw_fd(), &raw).map_err(io::Error::from_raw_os_error)?;
        Datagram::register(socket, opts)
    }

    /// A socket bound to an address.
    pub fn bind(address: &SockAddr, opts: &DatagramOptions) -> io::Result<Datagram> {
        if let Some(fd) = driver::with(|d| d.simulated().map(|s| s.open_datagram(Some(address), None))) {
            return Datagram::register(fd?, opts);
        }
        let opts = DatagramOptions { bind: Some(address.clone()), ..opts.clone() };
        Datagram::register(open(address.family(), &opts)?, &opts)
    }

    /// A socket bound to an address, for [`Datagram::from_fd`] on another thread.
    ///
    /// # Errors
    /// The address cannot be bound, or an option is refused.
    pub fn open(address: &SockAddr, opts: &DatagramOptions) -> io::Result<OwnedFd> {
        open(address.family(), &DatagramOptions { bind: Some(address.clone()), ..opts.clone() })
    }

    /// Registers a socket made elsewhere; it is made non-blocking.
    pub fn from_fd(fd: OwnedFd, opts: &DatagramOptions) -> io::Result<Datagram> {
        if driver::with(|d| d.simulated().is_none()) {
            syscall::set_nonblocking(fd.as_raw_fd())?;
        }
        Datagram::register(fd, opts)
    }

    fn register(fd: OwnedFd, opts: &DatagramOptions) -> io::Result<Datagram> {
        let raw = fd.as_raw_fd();
        let socket = driver::with(|d| d.adopt(fd, Bits::READABLE | Bits::WRITABLE))?;
        let outbox = Outbox {
            socket,
            fd: raw,
            bytes: Vec::new(),
            queued: Vec::new(),
            addresses: Vec::new(),
            listed: false,
            open: true,
            queue_max: opts.queue_max.max(1),
            queue_bytes_max: opts.queue_bytes_max.max(65_536),
            sent: 0,
            dropped: 0,
        };
        let offload = opts.receive_offload;
        Ok(Datagram { outbox: Rc::new(RefCell::new(outbox)), socket, offload, _thread_local: PhantomData })
    }

    /// Queues a datagram for the connected peer; it leaves at the end of the round. `false` when it was dropped
    /// because too many wait.
    pub fn queue(&mut self, bytes: &[u8]) -> bool {
        self.enqueue(bytes, None, 0)
    }

    /// Queues a datagram for `to`.
    pub fn queue_to(&mut self, bytes: &[u8], to: &SockAddr) -> bool {
        self.enqueue(bytes, Some(to), 0)
    }

    /// Queues several datagrams of `segment` bytes each (the last may be shorter) as one send, which the kernel or
    /// the network card cuts apart (`UDP_SEGMENT`). At most [`SEGMENTS_MAX`] and 65,507 bytes; more are dropped.
    pub fn queue_segments(&mut self, bytes: &[u8], segment: u16, to: Option<&SockAddr>) -> bool {
        if segment == 0 || bytes.len().div_ceil(usize::from(segment)) > SEGMENTS_MAX || bytes.len() > 65_507 {
            self.outbox.borrow_mut().dropped += 1;
            return false;
        }
        // One segment needs no cutting.
        let cut = if bytes.len() > usize::from(segment) { segment } else { 0 };
        self.enqueue(bytes, to, cut)
    }

    #[inline]
    fn enqueue(&mut self, bytes: &[u8], to: Option<&SockAddr>, segment: u16) -> bool {
        let mut outbox = self.outbox.borrow_mut();
        let to = match to.map(SockAddr::to_raw) {
            None => None,
            Some(Ok(raw)) => Some(raw),
            Some(Err(_)) => {
                outbox.dropped += 1;
                return false;
            }
        };
        if !outbox.push(bytes, to, segment) {
            return false;
        }
        if !outbox.listed {
            outbox.listed = true;
            drop(outbox);
            driver::with(|d| d.queue_outbox(&self.outbox));
        }
        true
    }

    /// Receives one buffer of one or (with receive offload) several datagrams. A datagram longer than a pooled
    /// buffer (or, with offload, than 64 kB) is cut.
    ///
    /// # Errors
    /// `ECONNREFUSED` when the peer of a connected socket is not there; the socket remains usable.
    pub fn poll_recv_from(&mut self) -> Poll<io::Result<Received>> {
        let offload = self.offload;
        let s = self.record();
        loop {
            if driver::with(|d| d.poll_input(s)).is_pending() {
                return Poll::Pending;
            }
            let result = match driver::with(|d| d.simulated().map(|sim| sim.recv_datagram(s))) {
                Some(result) => result,
                None if offload => super::transfer::with_shared(|room| {
                    let mut received = receive(s.fd, room)?;
                    received.0.bytes = Buf::copy_of(&room[..received.1]);
                    Ok(received.0)
                }),
                None => {
                    let Poll::Ready(mut buf) = poll_alloc() else { return Poll::Pending };
                    receive(s.fd, buf.unused_mut()).map(|(mut received, n)| {
                        buf.commit(n);
                        received.bytes = buf;
                        received
                    })
                }
            };
            match result {
                Ok(received) => return Poll::Ready(Ok(received)),
                Err(libc::EAGAIN) => s.bits.clear(Bits::READABLE),
                Err(errno) => return Poll::Ready(Err(io::Error::from_raw_os_error(errno))),
            }
        }
    }

    /// [`poll_recv_from`](Self::poll_recv_from) as a future.
    pub fn recv_from(&mut self) -> impl Future<Output = io::Result<Received>> + '_ {
        std::future::poll_fn(move |_| self.poll_recv_from())
    }

    /// Datagrams the kernel accepted, and datagrams that were dropped because too many waited or the kernel refused
    /// them. A send that is cut into segments counts once.
    pub fn counts(&self) -> (u64, u64) {
        let outbox = self.outbox.borrow();
        (outbox.sent, outbox.dropped)
    }

    /// The address it is bound to.
    pub fn local_addr(&self) -> io::Result<SockAddr> {
        // SAFETY: as `record`; only read.
        let s = unsafe { self.socket.as_ref() };
        match driver::with(|d| d.simulated().map(|sim| sim.addresses(s).0)) {
            Some(address) => Ok(address),
            None => descriptor::local_addr(s.fd),
        }
    }

    /// The descriptor, for options.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the record owns the descriptor and `self` keeps it open.
        unsafe { BorrowedFd::borrow_raw(self.socket.as_ref().fd) }
    }
}

impl Drop for Datagram {
    fn drop(&mut self) {
        let socket = self.socket;
        // What is queued leaves now: a log line written just before the end must not be lost.
        let closed = driver::try_with(|d| {
            let mut outbox = self.outbox.borrow_mut();
            if !outbox.queued.is_empty() {
                outbox.flush(d.simulated());
            }
            outbox.open = false;
            d.close(socket);
        });
        if closed.is_none() {
            syscall::close(self.record().fd);
            driver::left_one();
        }
    }
}

impl Outbox {
    fn push(&mut self, bytes: &[u8], to: Option<ConnectAddress>, segment: u16) -> bool {
        if self.queued.len() >= self.queue_max || self.bytes.len() + bytes.len() > self.queue_bytes_max {
            self.dropped += 1;
            return false;
        }
        let to = to.map(|raw| {
            // Runs of datagrams for one peer are the usual case.
            if !self.addresses.last().is_some_and(|last| same_address(last, &raw)) {
                self.addresses.push(raw);
            }
            self.addresses.len() - 1
        });
        self.queued.push(Queued { start: self.bytes.len(), len: bytes.len(), to, segment });
        self.bytes.extend_from_slice(bytes);
        true
    }

    /// Sends what is queued. `true` when nothing is left; else the outbox stays listed and is tried again.
    pub(crate) fn flush(&mut self, sim: Option<&mut SimDriver>) -> bool {
        let mut done = 0;
        if !self.open {
            self.queued.clear();
        } else if let Some(sim) = sim {
            for q in &self.queued {
                // SAFETY: the socket is open, so its owner still holds the record.
                let s = unsafe { self.socket.as_ref() };
                let to = q.to.map(|i| SockAddr::from_raw(&self.addresses[i]));
                sim.send_datagram(s, &self.bytes[q.start..q.start + q.len], to, q.segment);
                self.sent += 1;
            }
            done = self.queued.len();
        } else {
            let mut retried = false;
            while done < self.queued.len() {
                match self.send_batch(done) {
                    Ok(n) => {
                        done += n.max(1);
                        self.sent += n as u64;
                        retried = false;
                    }
                    Err(libc::EAGAIN) => break,
                    // The error may be left from an earlier datagram (connection refused): once more, then drop.
                    Err(_) if !retried => retried = true,
                    Err(_) => {
                        self.dropped += 1;
                        done += 1;
                        retried = false;
                    }
                }
            }
        }
        if done >= self.queued.len() {
            self.queued.clear();
            self.bytes.clear();
            self.addresses.clear();
            self.listed = false;
            return true;
        }
        if done > 0 {
            self.forget(done);
        }
        false
    }

    pub(crate) fn socket(&self) -> SocketRef {
        self.socket
    }

    /// Removes the first `done` datagrams and their bytes.
    fn forget(&mut self, done: usize) {
        let cut = self.queued[done].start;
        self.bytes.drain(..cut);
        self.queued.drain(..done);
        for q in &mut self.queued {
            q.start -= cut;
        }
    }

    fn send_batch(&mut self, first: usize) -> Result<usize, i32> {
        let count = (self.queued.len() - first).min(BATCH);
        // SAFETY: all-zero bytes are valid for these C structures.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        let mut iovs: [libc::iovec; BATCH] = unsafe { std::mem::zeroed() };
        let mut controls = [[0u64; 4]; BATCH];
        for (i, q) in self.queued[first..first + count].iter().enumerate() {
            iovs[i] =
                libc::iovec { iov_base: self.bytes[q.start..].as_ptr().cast_mut().cast(), iov_len: q.len };
            let header = &mut headers[i].msg_hdr;
            header.msg_iov = &mut iovs[i];
            header.msg_iovlen = 1;
            if let Some(to) = q.to {
                let address = &self.addresses[to];
                header.msg_name = (&raw const address.storage).cast_mut().cast();
                header.msg_namelen = address.len;
            }
            if q.segment > 0 {
                header.msg_control = controls[i].as_mut_ptr().cast();
                // SAFETY: the array holds CMSG_SPACE(2) = 24 bytes, and the macros stay inside of it.
                unsafe {
                    header.msg_controllen = libc::CMSG_SPACE(2) as usize;
                    let cmsg = libc::CMSG_FIRSTHDR(header);
                    (*cmsg).cmsg_level = libc::IPPROTO_UDP;
                    (*cmsg).cmsg_type = UDP_SEGMENT;
                    (*cmsg).cmsg_len = libc::CMSG_LEN(2) as usize;
                    libc::CMSG_DATA(cmsg).cast::<u16>().write_unaligned(q.segment);
                }
            }
        }
        // SAFETY: the headers point at arrays and buffers that outlive the call.
        let n = unsafe {
            libc::sendmmsg(
                self.fd,
                headers.as_mut_ptr(),
                count as u32,
                libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
            )
        };
        match syscall::check(n as isize) {
            Err(libc::EINTR) => Ok(0),
            Err(libc::ENOBUFS) => Err(libc::EAGAIN),
            result => result,
        }
    }
}

fn same_address(a: &ConnectAddress, b: &ConnectAddress) -> bool {
    // SAFETY: both are plain bytes of the same size, zeroed before they were filled.
    let [a_bytes, b_bytes] = [a, b]
        .map(|x| unsafe { std::slice::from_raw_parts((&raw const x.storage).cast::<u8>(), x.len as usize) });
    a.len == b.len && a_bytes == b_bytes
}

fn open(family: i32, opts: &DatagramOptions) -> io::Result<OwnedFd> {
    let socket = syscall::socket_in(opts.namespace.as_ref(), family, libc::SOCK_DGRAM, 0)?;
    let fd = socket.as_raw_fd();
    if let Some(bytes) = opts.receive_buffer {
        set::receive_buffer(fd, bytes)?;
    }
    if let Some(bytes) = opts.send_buffer {
        set::send_buffer(fd, bytes)?;
    }
    if let Some(mark) = opts.mark {
        set::mark(fd, mark)?;
    }
    if family != libc::AF_UNIX {
        if opts.reuseport {
            set::flag(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT)?;
        }
        if let Some(tos) = opts.tos {
            set::tos(fd, tos)?;
        }
        if let Some(name) = &opts.interface {
            set::interface(fd, name)?;
        }
        if opts.transparent {
            set::transparent(fd, family)?;
        }
        if opts.receive_offload {
            set::value(fd, libc::IPPROTO_UDP, UDP_GRO, 1)?;
        }
        if opts.destination {
            if family == libc::AF_INET6 {
                set::flag(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO)?;
            } else {
                set::flag(fd, libc::IPPROTO_IP, libc::IP_PKTINFO)?;
            }
        }
    }
    if let Some(address) = &opts.bind {
        bind(fd, address)?;
    }
    Ok(socket)
}

/// Receives into `room`; the bytes' number comes back beside what is known about them.
fn receive(fd: RawFd, room: &mut [u8]) -> Result<(Received, usize), i32> {
    // SAFETY: all-zero bytes are valid for these C structures.
    let mut from: ConnectAddress = unsafe { std::mem::zeroed() };
    let mut control = [0u64; CONTROL_WORDS];
    let mut iov = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
    // SAFETY: as above.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    let n = loop {
        header.msg_name = (&raw mut from.storage).cast();
        header.msg_namelen = size_of::<libc::sockaddr_storage>() as u32;
        header.msg_iov = &mut iov;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control);
        // SAFETY: the header points at `from`, `iov`, `control` and the buffer, which outlive the call.
        let n = unsafe { libc::recvmsg(fd, &mut header, libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC) };
        match syscall::check(n) {
            Err(libc::EINTR) => {}
            result => break result?,
        }
    };
    from.len = header.msg_namelen;
    let mut received = Received {
        bytes: Buf::empty(),
        from: SockAddr::from_raw(&from),
        segment: None,
        to: None,
        truncated: header.msg_flags & libc::MSG_TRUNC != 0,
    };
    // SAFETY: control messages are walked with the kernel's own macros; each is read as the structure its level and
    // type say it is, unaligned.
    unsafe {
        let mut cmsg = libc::CMSG_FIRSTHDR(&header);
        while !cmsg.is_null() {
            let data = libc::CMSG_DATA(cmsg);
            match ((*cmsg).cmsg_level, (*cmsg).cmsg_type) {
                (libc::IPPROTO_UDP, UDP_GRO) => {
                    received.segment = u16::try_from(data.cast::<i32>().read_unaligned()).ok();
                }
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    let info = data.cast::<libc::in_pktinfo>().read_unaligned();
                    let octets = info.ipi_addr.s_addr.to_ne_bytes();
                    received.to = Some(std::net::Ipv4Addr::from(octets).into());
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let info = data.cast::<libc::in6_pktinfo>().read_unaligned();
                    received.to = Some(std::net::Ipv6Addr::from(info.ipi6_addr.s6_addr).into());
                }
                _ => {}
            }
            cmsg = libc::CMSG_NXTHDR(&header, cmsg);
        }
    }
    if received.segment.is_some_and(|s| usize::from(s) >= n) {
        received.segment = None;
    }
    Ok((received, n))
}
