//! One side of an exchange, which carries messages or plain bytes: what it is connected to, what was received and not
//! consumed, and how far the message that is on it was read.
//!
//! The message part is the same for every kind of line. A message ends where its reader says, comes to a [`Cut`] before
//! that, and may have trailer fields behind its body.

use std::io;
use std::task::Poll;

use thalweg_h1::chunk::ChunkError;
use thalweg_h1::parse::ParseOptions;
use thalweg_http::Head;
use thalweg_http::semantics::BodyLength;
use thalweg_runtime::buffer::{self, Buf};
use thalweg_runtime::{clock, timer};

use crate::plant::bug;

use super::body::{BodyError, BodyReader, Form, Look};
use super::line::Line;

/// Most bytes taken by one receive.
pub const RECV_MAX: usize = 16 * 1024;

/// What comes of a message behind its head, in this order. Before its end, it may come to a [`Cut`].
#[derive(Debug)]
pub enum Data {
    /// Some of the body, in the form that was asked for.
    Bytes(Buf),
    /// The trailer fields behind the body; of chunks that go on as chunks, they are in the bytes.
    Trailers(Box<Head>),
    /// The message is over.
    End,
}

/// Why a message ends before its end.
#[derive(Debug)]
pub enum Cut {
    /// The sender ended what it sends.
    Closed,
    /// The connection broke.
    Broken(io::Error),
    /// The chunks are malformed.
    Malformed(ChunkError),
    /// No buffer is left for more of it (`tune.buffers.limit`).
    NoBuffer,
}

impl From<BodyError> for Cut {
    fn from(error: BodyError) -> Cut {
        match error {
            BodyError::Malformed(error) => Cut::Malformed(error),
            BodyError::NoBuffer => Cut::NoBuffer,
        }
    }
}

/// See the module's documentation.
pub struct Port {
    /// What its bytes come from and go to.
    pub line: Line,
    /// Received and not consumed yet.
    pub input: Option<Buf>,
    /// How far the body of the current message was read. Nobody else keeps count.
    pub body: BodyReader,
    /// The peer will send nothing more.
    pub eof: bool,
    /// Some of the last body went past the buffers. The next one may do so as well, so that little of it is received with
    /// its head.
    pub was_moved: bool,
}

impl Port {
    /// One on which nothing was received yet.
    pub fn new(line: impl Into<Line>) -> Port {
        Port { line: line.into(), input: None, body: BodyReader::default(), eof: false, was_moved: false }
    }

    /// What was received and not consumed yet.
    pub fn received(&self) -> &[u8] {
        self.input.as_deref().unwrap_or(&[])
    }

    /// True when something was received and not consumed yet.
    pub fn has_input(&self) -> bool {
        self.input.as_ref().is_some_and(|b| !b.is_empty())
    }

    /// Adds received bytes behind those kept from earlier.
    pub fn append(&mut self, buf: Buf) -> Result<(), BodyError> {
        append(&mut self.input, buf)
    }

    /// The same for what must not be lost, as the message goes on whatever becomes of the buffers: where there is none, outside of
    /// their limit, which takes no more memory than the two that are given back.
    pub fn keep(&mut self, buf: Buf) {
        let outside = |needed| (!bug("kept-lost")).then(|| Buf::large(needed));
        let kept = match self.input.take() {
            Some(old) if !old.is_empty() => {
                join(old, &buf, |needed| Buf::for_keeping(needed).or_else(|| outside(needed)))
            }
            _ => Ok(buf),
        };
        debug_assert!(kept.is_ok() || bug("kept-lost"));
        self.input = kept.ok();
    }

    /// Receives once. An empty buffer is the end of what the peer sends, and is remembered.
    pub fn poll_recv(&mut self) -> Poll<io::Result<Buf>> {
        self.poll_recv_up_to(RECV_MAX)
    }

    /// The same, taking at most `max` bytes: [`buffer::BULK_SIZE`] where a body, or a head with one behind it, is on its way to
    /// somebody who takes all of it. Less when something waits to be joined with it, which is done outside the pools.
    pub fn poll_recv_up_to(&mut self, max: usize) -> Poll<io::Result<Buf>> {
        let max = if self.input.is_some() { max.min(RECV_MAX) } else { max };
        let mut received = self.line.poll_recv(max);
        if bug("byte-dropped")
            && let Poll::Ready(Ok(buf)) = &mut received
            && buf.len() == buf.capacity()
        {
            buf.truncate(buf.len() - 1);
        }
        if matches!(&received, Poll::Ready(Ok(buf)) if buf.is_empty()) {
            self.eof = true;
        }
        received
    }

    /// Receives once, behind what is there already. 0 is the end of what the peer sends; whether that is the end of the
    /// message says [`Port::end`].
    #[inline]
    pub fn poll_more(&mut self, max: usize) -> Poll<Result<usize, Cut>> {
        match self.poll_recv_up_to(max) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(error)) => Poll::Ready(Err(Cut::Broken(error))),
            Poll::Ready(Ok(buf)) if buf.is_empty() => Poll::Ready(Ok(0)),
            Poll::Ready(Ok(buf)) => {
                let n = buf.len();
                Poll::Ready(self.append(buf).map(|()| n).map_err(Cut::from))
            }
        }
    }

    /// A message's head was read: its body comes next. `options` limit the trailer section.
    #[inline]
    pub fn begin_body(&mut self, body: BodyLength, options: &ParseOptions) {
        let body = match body {
            // There are no chunks where frames say where the message ends.
            BodyLength::Chunked if self.line.is_framed() => BodyLength::UntilClose,
            body => body,
        };
        self.body.begin(body, options);
    }

    /// The head of a response was read: its body comes next. Where frames say where it ends, it does so with them and not with its
    /// last byte: who leaves before that gives up a stream that was not over, which its server is told of.
    #[inline]
    pub fn begin_response_body(&mut self, body: BodyLength, options: &ParseOptions) {
        self.begin_body(body, options);
        if self.line.is_framed() && body != BodyLength::Tunnel && !self.line.has_ended() {
            self.body.wait_for_end();
        }
    }

    /// Takes note of the end of a message that frames have told already.
    #[inline]
    pub fn note_end(&mut self) {
        if self.line.is_framed() && !self.body.is_ended() && !self.has_input() && self.line.has_ended() {
            self.eof = true;
            self.body.connection_ended();
        }
    }

    /// What frames brought of a body together with its head is at hand, so that both can leave together.
    #[inline]
    pub fn fetch_first(&mut self) {
        if self.line.is_framed() && !self.body.is_ended() && !self.has_input() {
            // Why there is no more of it is found out by who forwards it.
            let _ = self.poll_more(RECV_MAX);
        }
    }

    /// What was received of the message; none before more of it is. `form` is that of the bytes.
    #[inline]
    pub fn take_data(&mut self, form: Form) -> Result<Option<Data>, Cut> {
        loop {
            if self.body.is_ended() {
                return Ok(Some(self.take_trailers().map_or(Data::End, Data::Trailers)));
            }
            if !self.has_input() {
                return Ok(None);
            }
            let before = self.received().len();
            let taken = self.body.take(&mut self.input, form)?;
            self.note_end();
            if let Some(bytes) = taken {
                return Ok(Some(Data::Bytes(bytes)));
            }
            // A part of a trailer section must be seen again with more behind it.
            if !self.body.is_ended() && self.received().len() == before {
                return Ok(None);
            }
        }
    }

    /// The same, received if need be, at most `max` bytes at once.
    pub fn poll_data(&mut self, form: Form, max: usize) -> Poll<Result<Data, Cut>> {
        loop {
            if let Some(data) = self.take_data(form)? {
                return Poll::Ready(Ok(data));
            }
            if !self.eof {
                match self.poll_more(max)? {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(0) => {}
                    Poll::Ready(_) => continue,
                }
            }
            self.end()?;
        }
    }

    /// The trailer fields of the message that ended, if it has some and they were not taken. A line with frames keeps them, as the
    /// message may be [put back](Port::put_back).
    #[inline]
    pub fn take_trailers(&mut self) -> Option<Box<Head>> {
        match self.line.is_framed() {
            true if self.body.tells_trailers() => self.line.trailers(),
            true => None,
            false => self.body.take_trailers(),
        }
    }

    /// The peer sends nothing more: the body ends with that, or is cut by it.
    pub fn end(&mut self) -> Result<(), Cut> {
        if self.body.connection_ended() { Ok(()) } else { Err(Cut::Closed) }
    }

    /// Waits until the kernel has taken all that was sent, for as long as it takes some of it at least every `silence_ms`
    /// (`None`: however long it takes). False when the rest will not arrive.
    pub async fn all_is_sent(&mut self, silence_ms: Option<u64>) -> bool {
        std::future::poll_fn(|_| {
            if let Poll::Ready(sent) = self.line.poll_send_ready() {
                return Poll::Ready(sent.is_ok());
            }
            if let Some(ms) = silence_ms {
                let at = self.line.last_sent_ms().saturating_add(ms + 1);
                if clock::now_ms() >= at {
                    return Poll::Ready(false);
                }
                timer::want(at);
            }
            Poll::Pending
        })
        .await
    }

    /// What of the current message's body was received, without taking it.
    ///
    /// Rules see at most `tune.bufsize` of it, however much was received at once.
    pub fn look(&mut self) -> Look<'_> {
        if self.line.is_framed() && self.body.is_until_close() {
            return self.look_at_payload();
        }
        let input = self.input.as_deref().unwrap_or(&[]);
        let most = buffer::default_size();
        match input.get(..most) {
            Some(first) if first.len() < input.len() => self.body.look(first, false),
            _ => self.body.look(input, self.eof),
        }
    }

    /// The same of a body without a length on a line with frames, which knows of the end before somebody asks for more.
    fn look_at_payload(&mut self) -> Look<'_> {
        let input = self.input.as_deref().unwrap_or(&[]);
        let ended = self.eof || self.line.has_ended();
        let data = input.get(..buffer::default_size()).filter(|first| first.len() < input.len());
        match data {
            Some(first) => Look::Plain { data: first, payload_ended: false, total: None },
            None => {
                let total = self.body.received() + input.len() as u64;
                Look::Plain { data: input, payload_ended: ended, total: ended.then_some(total) }
            }
        }
    }

    /// Whether all of the current message's body was received, of which [`Port::look`] may show a part only.
    pub fn has_whole_body(&mut self) -> bool {
        if self.line.is_framed() && self.body.is_until_close() {
            // Not `eof`, which is set when the line breaks, too.
            return self.line.has_ended();
        }
        self.body.look(self.input.as_deref().unwrap_or(&[]), self.eof).ended()
    }

    /// Throws away what was received of the current message's body.
    pub fn discard_body(&mut self) -> Result<(), BodyError> {
        self.body.discard(&mut self.input)
    }

    /// The current message's body as it was received, when all of it is there and nothing of it was taken.
    pub fn copy_of_body(&mut self) -> Option<Buf> {
        let len = self.look().whole_len()?;
        self.received().get(..len).map(Buf::copy_of)
    }

    /// Puts back what [`Port::copy_of_body`] gave, in front of what came after it, as if it had not been taken. `framing`
    /// is that of the message.
    pub fn put_back(
        &mut self,
        body: Buf,
        framing: BodyLength,
        options: &ParseOptions,
    ) -> Result<(), BodyError> {
        // What was not taken of it is still there, and must not be there twice.
        let left = body.len().saturating_sub(usize::try_from(self.body.received()).unwrap_or(usize::MAX));
        let later = self.input.take().map(|mut later| {
            later.advance(left);
            later
        });
        self.input = Some(match later {
            Some(later) if !later.is_empty() => join(body, &later, Buf::for_keeping)?,
            _ => body,
        });
        self.begin_body(framing, options);
        Ok(())
    }

    /// True when one message ended, nothing of another was received, and nothing is on its way out.
    pub fn is_idle(&self) -> bool {
        // What ends in frames is the message.
        let goes_on = !self.eof || self.line.is_framed();
        self.body.is_ended() && self.input.is_none() && goes_on && self.line.in_flight() == 0
    }
}

/// Adds received bytes behind those kept from earlier.
pub fn append(input: &mut Option<Buf>, buf: Buf) -> Result<(), BodyError> {
    match input.take() {
        None => *input = Some(buf),
        Some(old) if old.is_empty() => *input = Some(buf),
        Some(old) => *input = Some(join(old, &buf, Buf::for_keeping)?),
    }
    Ok(())
}

/// `old` with the bytes of `new` behind it, in memory of this thread's own; where `old` has no room, in that of `make`.
fn join(mut old: Buf, new: &[u8], make: impl FnOnce(usize) -> Option<Buf>) -> Result<Buf, BodyError> {
    if !old.is_from_ring() {
        if old.spare() < new.len() {
            old.compact();
        }
        if old.extend_from_slice(new).is_ok() {
            return Ok(old);
        }
    }
    let needed = old.len() + new.len();
    let mut joined = make(needed).ok_or(BodyError::NoBuffer)?;
    let fits = joined.extend_from_slice(&old).is_ok() && joined.extend_from_slice(new).is_ok();
    if fits { Ok(joined) } else { Err(BodyError::NoBuffer) }
}
