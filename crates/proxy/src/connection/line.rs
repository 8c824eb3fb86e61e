//! What a port is connected to: a connection of its own, or an answer that is made here.
//!
//! A message is received from and sent to any of them in the same way. A line with frames of its own has payload only: the
//! message's end is the end of what is received, so that its body is read [until then](super::body::BodyReader::begin).
//! What only a connection of one's own has, such as options of its socket, is asked of the [wire](Line::wire).

use std::io;
use std::rc::Rc;
use std::task::Poll;

use thalweg_runtime::buffer::Buf;
use thalweg_runtime::net::{Departure, SocketId, Stream};
use thalweg_runtime::{TaskId, current_task};
use thalweg_sample::facts::TlsFacts;

use thalweg_http::Head;
use thalweg_tls::Failure;

use super::local::Local;
use super::mux::{Marks, MuxStream};
use super::transport::Transport;

/// See the module's documentation.
#[derive(Debug)]
pub enum Line {
    /// A connection that carries one message at a time, each way.
    Wire(Transport),
    /// A stream of a connection that carries several: it has payload only. Boxed, as the next.
    Mux(Box<MuxStream>),
    /// An answer of this process. It takes nothing, and neither leaves nor is late. Without anything to receive from, all of
    /// the answer is in its port. Boxed: every connection that waits has a line.
    Local(Option<Box<Local>>),
}

impl From<Transport> for Line {
    #[inline]
    fn from(transport: Transport) -> Line {
        Line::Wire(transport)
    }
}

impl Line {
    /// The connection, if the line has one to itself.
    #[inline]
    pub fn wire(&self) -> Option<&Transport> {
        match self {
            Line::Wire(wire) => Some(wire),
            Line::Mux(_) | Line::Local(_) => None,
        }
    }

    /// The same, to change it.
    #[inline]
    pub fn wire_mut(&mut self) -> Option<&mut Transport> {
        match self {
            Line::Wire(wire) => Some(wire),
            Line::Mux(_) | Line::Local(_) => None,
        }
    }

    /// The connection itself, for who keeps it beyond the message.
    #[inline]
    pub fn into_wire(self) -> Option<Transport> {
        match self {
            Line::Wire(wire) => Some(wire),
            Line::Mux(_) | Line::Local(_) => None,
        }
    }

    /// What is known of TLS on the connection, if it is spoken there.
    pub fn tls_facts(&self) -> Option<&Rc<TlsFacts>> {
        match self {
            Line::Wire(wire) => wire.tls_facts(),
            Line::Mux(stream) => stream.tls_facts(),
            Line::Local(_) => None,
        }
    }

    /// Why nothing is sent or received any more, if it was TLS that failed.
    pub fn tls_failure(&self) -> Option<&Failure> {
        match self {
            Line::Wire(wire) => wire.tls_failure(),
            Line::Mux(stream) => stream.mux().tls_failure(),
            Line::Local(_) => None,
        }
    }

    /// Whether TLS is spoken with a client whose handshake is not done: what it sent may be what somebody else sends once more.
    #[inline]
    pub fn is_early(&self) -> bool {
        match self {
            Line::Wire(wire) => wire.is_early(),
            Line::Mux(stream) => stream.mux().is_early(),
            Line::Local(_) => false,
        }
    }

    /// Ready when the handshake is done.
    ///
    /// # Errors
    /// The peer left, or it failed.
    pub fn poll_complete(&mut self) -> Poll<io::Result<()>> {
        match self {
            Line::Wire(wire) => wire.poll_complete(),
            Line::Mux(stream) => stream.poll_complete(),
            Line::Local(_) => Poll::Ready(Ok(())),
        }
    }

    /// Sends the request of a stream on a line with frames: see [`MuxStream::open`].
    pub fn open_stream(&mut self, head: &Head, scheme: &[u8], ends: bool) {
        match self {
            Line::Mux(stream) => stream.open(head, scheme, ends),
            Line::Wire(_) | Line::Local(_) => debug_assert!(false, "the line has no frames"),
        }
    }

    /// See [`Transport::raw`].
    #[inline]
    pub fn raw(&mut self) -> Option<&mut Stream> {
        self.wire_mut().and_then(Transport::raw)
    }

    /// The socket at its end.
    pub fn socket_id(&self) -> SocketId {
        match self {
            Line::Wire(wire) => wire.socket_id(),
            Line::Mux(stream) => stream.socket_id(),
            Line::Local(_) => SocketId::NONE,
        }
    }

    /// Receives what is there, at most `max` bytes; an empty buffer is the end of what comes.
    ///
    /// # Errors
    /// Why no more will come before the end.
    #[inline]
    pub fn poll_recv(&mut self, max: usize) -> Poll<io::Result<Buf>> {
        match self {
            Line::Wire(wire) => wire.poll_recv(max),
            Line::Mux(stream) => stream.poll_recv(max),
            Line::Local(Some(local)) => local.poll_recv(max),
            Line::Local(None) => Poll::Ready(Ok(Buf::copy_of(&[]))),
        }
    }

    /// [`Line::poll_recv`] as a future.
    pub fn recv(&mut self, max: usize) -> impl Future<Output = io::Result<Buf>> + '_ {
        std::future::poll_fn(move |_| self.poll_recv(max))
    }

    /// Ready when something may be sent.
    ///
    /// # Errors
    /// Why nothing can be sent any more.
    #[inline]
    pub fn poll_send_ready(&mut self) -> Poll<io::Result<()>> {
        match self {
            Line::Wire(wire) => wire.poll_send_ready(),
            Line::Mux(stream) => stream.poll_send_ready(),
            Line::Local(_) => Poll::Ready(Ok(())),
        }
    }

    /// [`Line::poll_send_ready`] as a future.
    pub fn send_ready(&mut self) -> impl Future<Output = io::Result<()>> + '_ {
        std::future::poll_fn(move |_| self.poll_send_ready())
    }

    /// Sends all of `buf`. See [`Stream::start_send`].
    #[inline]
    pub fn start_send(&mut self, buf: Buf) {
        match self {
            Line::Wire(wire) => wire.start_send(buf),
            Line::Mux(stream) => stream.start_send(buf),
            Line::Local(_) => debug_assert!(false, "an answer takes nothing"),
        }
    }

    /// Sends two buffers in one call.
    #[inline]
    pub fn start_send2(&mut self, head: Buf, body: Buf) {
        match self {
            Line::Wire(wire) => wire.start_send2(head, body),
            Line::Mux(stream) => {
                debug_assert!(head.is_empty(), "heads are no bytes here");
                stream.start_send(body);
            }
            Line::Local(_) => debug_assert!(false, "an answer takes nothing"),
        }
    }

    /// Sends what the kernel takes at once of these parts. See [`Stream::send_at_once`].
    ///
    /// # Errors
    /// As there.
    pub fn send_at_once(&mut self, parts: &[&[u8]]) -> io::Result<usize> {
        match self {
            Line::Wire(wire) => wire.send_at_once(parts),
            Line::Mux(_) | Line::Local(_) => {
                debug_assert!(false, "only a wire is sent to at once");
                Err(io::ErrorKind::Unsupported.into())
            }
        }
    }

    /// Whether the receiver was the slower side since this was last asked, where [`Line::poll_send_ready`] does not say so:
    /// a stream of a connection waits for the connection's task in any case.
    #[inline]
    pub fn take_stall(&mut self) -> bool {
        match self {
            Line::Mux(stream) => stream.take_stall(),
            Line::Wire(_) | Line::Local(_) => false,
        }
    }

    /// The next send is the last one: see [`Stream::end_with_next_send`].
    #[inline]
    pub fn end_with_next_send(&mut self) {
        if let Line::Wire(wire) = self {
            wire.end_with_next_send();
        }
    }

    /// The same for payload on a line with frames, where what ends is the message.
    #[inline]
    pub fn end_message_with_next_send(&mut self) {
        if let Line::Mux(stream) = self {
            stream.end_with_next_send();
        }
    }

    /// Whether the line has frames, which say where messages end: heads are [sent as such](Line::send_head), and bodies
    /// without a form of their own.
    #[inline]
    pub fn is_framed(&self) -> bool {
        matches!(self, Line::Mux(_))
    }

    /// Sends a head on a line with frames. `ends`: the message ends with it. False when the peer is gone.
    pub fn send_head(&mut self, head: &Head, ends: bool) -> bool {
        match self {
            Line::Mux(stream) => stream.send_head(head, ends),
            Line::Wire(_) | Line::Local(_) => {
                debug_assert!(false, "the line has no frames");
                false
            }
        }
    }

    /// The message ends behind what was sent of it, with trailer fields if there are any; of interest to lines with frames
    /// only.
    #[inline]
    pub fn finish(&mut self, trailers: Option<Box<Head>>) {
        if let Line::Mux(stream) = self {
            stream.finish(trailers);
        }
    }

    /// Whether a line with frames has given all payload of its message.
    pub fn has_ended(&self) -> bool {
        match self {
            Line::Mux(stream) => stream.has_ended(),
            Line::Wire(_) | Line::Local(_) => false,
        }
    }

    /// The connection carries no further message, as far as this side says: for lines with frames, whose connections have
    /// others on their way.
    pub fn announce_end(&mut self) {
        if let Line::Mux(stream) = self {
            stream.announce_end();
        }
    }

    /// Trailer fields that a line with frames gave beside the payload.
    #[inline]
    pub fn trailers(&self) -> Option<Box<Head>> {
        match self {
            Line::Mux(stream) => stream.trailers(),
            Line::Wire(_) | Line::Local(_) => None,
        }
    }

    /// Ends this direction once everything handed over was sent.
    ///
    /// # Errors
    /// See [`Stream::shutdown_write`].
    pub fn shutdown_write(&mut self) -> io::Result<()> {
        match self {
            Line::Wire(wire) => wire.shutdown_write(),
            Line::Mux(stream) => {
                stream.finish(None);
                Ok(())
            }
            Line::Local(_) => Ok(()),
        }
    }

    /// Tells the peer that nothing more comes, where that is said before a connection is closed: in TLS.
    pub fn say_end(&mut self) {
        if self.wire().is_some_and(Transport::is_encrypted) {
            // Whether the peer is still there to hear of it is not known.
            let _ = self.shutdown_write();
        }
    }

    /// The opposite: what was sent is not whole, and its end is not to be announced.
    pub fn leave_without_a_word(&mut self) {
        if let Line::Wire(wire) = self {
            wire.leave_without_a_word();
        }
    }

    /// Receives what is there, at most `max` bytes, and throws it away; returns how much that was.
    pub fn discard_input(&mut self, max: usize) -> usize {
        match self {
            Line::Wire(wire) => wire.discard_input(max),
            Line::Mux(stream) => stream.discard_input(max),
            Line::Local(_) => 0,
        }
    }

    /// Bytes handed over and not known to be accepted yet.
    #[inline]
    pub fn in_flight(&self) -> usize {
        match self {
            Line::Wire(wire) => wire.in_flight(),
            Line::Mux(stream) => stream.in_flight(),
            Line::Local(_) => 0,
        }
    }

    /// When bytes were last received, in milliseconds of the runtime's clock.
    #[inline]
    pub fn last_received_ms(&self) -> u64 {
        match self {
            Line::Wire(wire) => wire.last_received_ms(),
            Line::Mux(stream) => stream.last_received_ms(),
            Line::Local(_) => 0,
        }
    }

    /// When a send last made progress, in milliseconds of the runtime's clock.
    #[inline]
    pub fn last_sent_ms(&self) -> u64 {
        match self {
            Line::Wire(wire) => wire.last_sent_ms(),
            Line::Mux(stream) => stream.last_sent_ms(),
            Line::Local(_) => 0,
        }
    }

    /// Whether the peer is leaving: see [`Stream::departure`].
    #[inline]
    pub fn departure(&mut self) -> Departure {
        match self {
            Line::Wire(wire) => wire.departure(),
            Line::Mux(stream) => stream.departure(),
            Line::Local(_) => Departure::No,
        }
    }

    /// The stream of a connection that carries several, and what its peer said of it; nothing of others.
    pub fn seen(&self) -> thalweg_sample::facts::MuxStream {
        match self {
            Line::Mux(stream) => stream.seen(),
            Line::Wire(_) | Line::Local(_) => thalweg_sample::facts::MuxStream::default(),
        }
    }

    /// Whether anything arrived on a line that should be silent.
    #[inline]
    pub fn has_input_now(&mut self) -> bool {
        match self {
            Line::Wire(wire) => wire.has_input_now(),
            Line::Mux(stream) => stream.has_input_now(),
            Line::Local(_) => false,
        }
    }

    /// The same, asking the kernel.
    pub fn ask_input(&mut self) -> bool {
        match self {
            Line::Wire(wire) => wire.ask_input(),
            Line::Mux(stream) => stream.has_input_now(),
            Line::Local(_) => false,
        }
    }

    /// Makes input wake `task` instead of the current one.
    pub fn watch(&mut self, task: TaskId) {
        match self {
            Line::Wire(wire) => wire.watch(task),
            Line::Mux(stream) => stream.watch(task),
            Line::Local(_) => {}
        }
    }

    /// The task that looks after the connection between messages.
    pub fn keeper(&self) -> TaskId {
        match self {
            Line::Mux(stream) => stream.keeper(),
            Line::Wire(_) | Line::Local(_) => current_task(),
        }
    }

    /// Sets the mark of its packets (`set-fc-mark`). Without the privilege they stay unmarked, as with the reference.
    pub fn set_mark(&self, mark: u32) {
        match self {
            Line::Wire(wire) => _ = wire.set_mark(mark),
            Line::Mux(stream) => stream.set_marks(Marks { mark: Some(mark), tos: None }),
            Line::Local(_) => {}
        }
    }

    /// Sets the type of service of its packets (`set-fc-tos`).
    pub fn set_tos(&self, tos: u8) {
        match self {
            Line::Wire(wire) => _ = wire.set_tos(tos),
            Line::Mux(stream) => stream.set_marks(Marks { mark: None, tos: Some(tos) }),
            Line::Local(_) => {}
        }
    }

    /// Dropping the line breaks it, so that the peer does not take that for an end in order.
    pub fn set_linger_rst(&mut self) {
        if let Line::Wire(wire) = self {
            wire.set_linger_rst();
        }
    }

    /// Prepares the connection to disappear without the peer being told, once it is dropped. `ttl` is the time to live of
    /// the reset that is sent where the kernel does not allow silence.
    pub fn vanish(&mut self, ttl: Option<u8>) {
        match self {
            Line::Wire(wire) => {
                if thalweg_sys::net::vanish(wire.as_fd(), ttl) == thalweg_sys::net::Vanish::Reset {
                    wire.set_linger_rst();
                }
            }
            Line::Mux(stream) => stream.vanish(ttl),
            Line::Local(_) => {}
        }
    }

    /// See [`Stream::set_reset_on_close`].
    pub fn set_reset_on_close(&mut self, on: bool) {
        if let Line::Wire(wire) = self {
            wire.set_reset_on_close(on);
        }
    }
}
