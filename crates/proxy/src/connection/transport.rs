//! The bytes of one connection, however they are carried: as they are, or encrypted.
//!
//! What the proxy asks of a connection goes through here, so that one whose bytes are encrypted can take the place of a
//! plain one. Only who moves bytes inside the kernel needs the [socket itself](Transport::raw), and must do without one
//! where the bytes on the socket are not those of the message.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::task::Poll;

use thalweg_runtime::TaskId;
use thalweg_runtime::buffer::Buf;
use thalweg_runtime::net::{Departure, Keepalive, SockAddr, SocketId, Stream, TcpInfo};

use thalweg_sample::facts::TlsFacts;
use thalweg_tls::Failure;

use super::tls::{Place, Sealing, Tls};

/// See the module's documentation. Its methods are those of [`Stream`].
#[derive(Debug)]
pub enum Transport {
    /// A socket.
    Plain(Stream),
    /// A socket on which TLS is spoken. Boxed: connections that have none are many and wait.
    Tls(Box<Tls>),
}

impl From<Stream> for Transport {
    #[inline]
    fn from(stream: Stream) -> Transport {
        Transport::Plain(stream)
    }
}

/// Bytes in, bytes out.
impl Transport {
    /// The socket, if its bytes are those of the message: they may be moved without being looked at.
    #[inline]
    pub fn raw(&mut self) -> Option<&mut Stream> {
        match self {
            Transport::Plain(stream) => Some(stream),
            Transport::Tls(_) => None,
        }
    }

    /// What is known of the server with which TLS is spoken.
    pub fn tls_facts(&self) -> Option<&Rc<TlsFacts>> {
        match self {
            Transport::Plain(_) => None,
            Transport::Tls(tls) => tls.facts.as_ref(),
        }
    }

    /// A connection with TLS holds a place below `maxsslconn` for as long as it lives.
    pub fn holds(&mut self, place: Place) {
        if let Transport::Tls(tls) = self {
            tls.place = Some(place);
        }
    }

    /// Whether TLS is spoken.
    pub fn is_encrypted(&self) -> bool {
        matches!(self, Transport::Tls(_))
    }

    /// Why nothing is sent or received any more, if it was TLS that failed: see [`Tls::failure`].
    pub fn tls_failure(&self) -> Option<&Failure> {
        match self {
            Transport::Plain(_) => None,
            Transport::Tls(tls) => tls.failure(),
        }
    }

    /// Whether TLS is spoken with a client whose handshake is not done: see [`Tls::is_early`].
    #[inline]
    pub fn is_early(&self) -> bool {
        match self {
            Transport::Plain(_) => false,
            Transport::Tls(tls) => tls.is_early(),
        }
    }

    /// Ready when the handshake is done: see [`Tls::poll_complete`].
    ///
    /// # Errors
    /// As there.
    pub fn poll_complete(&mut self) -> Poll<io::Result<()>> {
        match self {
            Transport::Plain(_) => Poll::Ready(Ok(())),
            Transport::Tls(tls) => tls.poll_complete(),
        }
    }

    /// The peer shall not be told that what it was sent is whole.
    pub fn leave_without_a_word(&mut self) {
        if let Transport::Tls(tls) = self {
            tls.leave_without_a_word();
        }
    }

    /// See [`Stream::poll_recv`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn poll_recv(&mut self, max: usize) -> Poll<io::Result<Buf>> {
        match self {
            Transport::Plain(stream) => stream.poll_recv(max),
            Transport::Tls(tls) => tls.poll_recv(max),
        }
    }

    /// [`Transport::poll_recv`] as a future.
    pub fn recv(&mut self, max: usize) -> impl Future<Output = io::Result<Buf>> + '_ {
        std::future::poll_fn(move |_| self.poll_recv(max))
    }

    /// See [`Stream::poll_send_ready`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn poll_send_ready(&mut self) -> Poll<io::Result<()>> {
        match self {
            Transport::Plain(stream) => stream.poll_send_ready(),
            Transport::Tls(tls) => tls.poll_send_ready(),
        }
    }

    /// [`Transport::poll_send_ready`] as a future.
    pub fn send_ready(&mut self) -> impl Future<Output = io::Result<()>> + '_ {
        std::future::poll_fn(move |_| self.poll_send_ready())
    }

    /// See [`Stream::start_send`].
    #[inline]
    pub fn start_send(&mut self, buf: Buf) {
        match self {
            Transport::Plain(stream) => stream.start_send(buf),
            Transport::Tls(tls) => tls.start_send(&[&buf]),
        }
    }

    /// See [`Stream::start_send2`].
    #[inline]
    pub fn start_send2(&mut self, head: Buf, body: Buf) {
        match self {
            Transport::Plain(stream) => stream.start_send2(head, body),
            Transport::Tls(tls) => tls.start_send(&[&head, &body]),
        }
    }

    /// See [`Stream::send_at_once`]. Over TLS all is taken.
    ///
    /// # Errors
    /// As there.
    pub fn send_at_once(&mut self, parts: &[&[u8]]) -> io::Result<usize> {
        match self {
            Transport::Plain(stream) => stream.send_at_once(parts),
            Transport::Tls(tls) => {
                tls.start_send(parts);
                Ok(parts.iter().map(|part| part.len()).sum())
            }
        }
    }

    /// See [`Stream::end_with_next_send`].
    #[inline]
    pub fn end_with_next_send(&mut self) {
        match self {
            Transport::Plain(stream) => stream.end_with_next_send(),
            Transport::Tls(tls) => tls.end_with_next_send(),
        }
    }

    /// See [`Stream::shutdown_write`].
    ///
    /// # Errors
    /// As there.
    pub fn shutdown_write(&mut self) -> io::Result<()> {
        match self {
            Transport::Plain(stream) => stream.shutdown_write(),
            Transport::Tls(tls) => tls.shutdown_write(),
        }
    }

    /// See [`Stream::discard_input`].
    pub fn discard_input(&mut self, max: usize) -> usize {
        match self {
            Transport::Plain(stream) => stream.discard_input(max),
            Transport::Tls(tls) => tls.discard_input(max),
        }
    }
}

/// What is known of the peer, and of what is on its way.
impl Transport {
    /// See [`Stream::in_flight`].
    #[inline]
    pub fn in_flight(&self) -> usize {
        match self {
            Transport::Plain(stream) => stream.in_flight(),
            Transport::Tls(tls) => tls.in_flight(),
        }
    }

    /// See [`Stream::last_received_ms`].
    #[inline]
    pub fn last_received_ms(&self) -> u64 {
        match self {
            Transport::Plain(stream) => stream.last_received_ms(),
            Transport::Tls(tls) => tls.stream().last_received_ms(),
        }
    }

    /// See [`Stream::last_sent_ms`].
    #[inline]
    pub fn last_sent_ms(&self) -> u64 {
        match self {
            Transport::Plain(stream) => stream.last_sent_ms(),
            Transport::Tls(tls) => tls.stream().last_sent_ms(),
        }
    }

    /// See [`Stream::departure`].
    #[inline]
    pub fn departure(&mut self) -> Departure {
        match self {
            Transport::Plain(stream) => stream.departure(),
            Transport::Tls(tls) => tls.stream_mut().departure(),
        }
    }

    /// Whether anything arrived on a connection that should be silent: such a one must not be used again. See
    /// [`Stream::has_input_now`].
    #[inline]
    pub fn has_input_now(&mut self) -> bool {
        match self {
            Transport::Plain(stream) => stream.has_input_now(),
            Transport::Tls(tls) => tls.has_input_now(),
        }
    }

    /// See [`Stream::ask_input`].
    pub fn ask_input(&mut self) -> bool {
        match self {
            Transport::Plain(stream) => stream.ask_input(),
            Transport::Tls(tls) => tls.ask_input(),
        }
    }

    /// See [`Stream::watch`].
    pub fn watch(&mut self, task: TaskId) {
        match self {
            Transport::Plain(stream) => stream.watch(task),
            Transport::Tls(tls) => tls.stream_mut().watch(task),
        }
    }
}

/// The socket below: its options and addresses are the connection's, whatever its bytes mean.
impl Transport {
    #[inline]
    fn socket(&self) -> &Stream {
        match self {
            Transport::Plain(stream) => stream,
            Transport::Tls(tls) => tls.stream(),
        }
    }

    #[inline]
    fn socket_mut(&mut self) -> &mut Stream {
        match self {
            Transport::Plain(stream) => stream,
            Transport::Tls(tls) => tls.stream_mut(),
        }
    }

    /// The descriptor, for options and for the numbers that operators see.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket().as_fd()
    }

    /// Its socket, to ask about when it may be gone.
    pub fn socket_id(&self) -> SocketId {
        self.socket().id()
    }

    /// The peer's address.
    ///
    /// # Errors
    /// Of the kernel.
    pub fn peer_addr(&self) -> io::Result<SockAddr> {
        self.socket().peer_addr()
    }

    /// This end's address.
    ///
    /// # Errors
    /// Of the kernel.
    pub fn local_addr(&self) -> io::Result<SockAddr> {
        self.socket().local_addr()
    }

    /// What the kernel measured.
    ///
    /// # Errors
    /// Of the kernel.
    pub fn tcp_info(&self) -> io::Result<TcpInfo> {
        self.socket().tcp_info()
    }

    /// See [`Stream::saved_syn`].
    ///
    /// # Errors
    /// Of the kernel.
    pub fn saved_syn(&self) -> io::Result<Vec<u8>> {
        self.socket().saved_syn()
    }

    /// Dropping the connection resets it instead of ending it in order.
    pub fn set_linger_rst(&mut self) {
        self.socket_mut().set_linger_rst();
    }

    /// See [`Stream::set_reset_on_close`].
    pub fn set_reset_on_close(&mut self, on: bool) {
        self.socket_mut().set_reset_on_close(on);
    }

    /// See [`Stream::set_prompt_close`].
    pub fn set_prompt_close(&mut self) {
        self.socket_mut().set_prompt_close();
    }

    /// Acknowledges at once, or with the next data.
    ///
    /// # Errors
    /// Of the kernel.
    pub fn set_quickack(&self, on: bool) -> io::Result<()> {
        self.socket().set_quickack(on)
    }

    /// Probes a silent peer.
    ///
    /// # Errors
    /// Of the kernel.
    pub fn set_keepalive(&self, keepalive: &Keepalive) -> io::Result<()> {
        self.socket().set_keepalive(keepalive)
    }

    /// Sets the mark of packets; needs a privilege.
    ///
    /// # Errors
    /// Of the kernel.
    pub fn set_mark(&self, mark: u32) -> io::Result<()> {
        self.socket().set_mark(mark)
    }

    /// Sets the type of service or traffic class.
    ///
    /// # Errors
    /// Of the kernel.
    pub fn set_tos(&self, tos: u8) -> io::Result<()> {
        self.socket().set_tos(tos)
    }

    /// Makes the largest segment `by` bytes smaller than what the kernel chose.
    ///
    /// # Errors
    /// Of the kernel.
    pub fn lower_mss(&self, by: u32) -> io::Result<()> {
        self.socket().lower_mss(by)
    }

    /// See [`Stream::poll_detach`].
    pub fn poll_detach(&mut self) -> Poll<()> {
        self.socket_mut().poll_detach()
    }

    /// The descriptor of a plain connection on which nothing is on its way; others are closed.
    pub fn into_fd(self) -> Option<OwnedFd> {
        match self {
            Transport::Plain(stream) => Some(stream.into_fd().ok()?.0),
            Transport::Tls(_) => None,
        }
    }

    /// Takes the connection off its thread, for another one: see [`Stream::into_fd`]. `None`, and it is closed, when that
    /// cannot be: something is on its way, or it is about to end.
    pub fn into_detached(self) -> Option<Detached> {
        match self {
            Transport::Plain(stream) => {
                let (fd, ahead) = stream.into_fd().ok()?;
                Some(Detached {
                    fd,
                    ahead: ahead.iter().flat_map(|buf| buf.iter().copied()).collect(),
                    tls: None,
                })
            }
            Transport::Tls(tls) => {
                let (fd, ahead, tls) = tls.into_sealing()?;
                Some(Detached { fd, ahead, tls: Some(Box::new(tls)) })
            }
        }
    }
}

/// A connection between two threads.
pub struct Detached {
    fd: OwnedFd,
    /// Received and not taken, as it came.
    ahead: Vec<u8>,
    /// What its bytes are encrypted with.
    tls: Option<Box<Sealing>>,
}

impl Detached {
    /// Whether nothing was received that nobody took.
    pub fn is_silent(&self) -> bool {
        self.ahead.is_empty() && self.tls.as_ref().is_none_or(|tls| tls.is_silent())
    }

    /// The connection, of the calling thread from here on, and what was received that nobody took.
    ///
    /// # Errors
    /// When the thread's driver does not take the descriptor.
    pub fn attach(self) -> io::Result<(Transport, Option<Buf>)> {
        let stream = Stream::from_accepted(self.fd)?;
        let ahead = (!self.ahead.is_empty()).then(|| Buf::copy_of(&self.ahead));
        match self.tls {
            None => Ok((Transport::Plain(stream), ahead)),
            Some(sealing) => Ok((Transport::Tls(Box::new(sealing.on(stream, ahead))), None)),
        }
    }
}
