//! One direction of an exchange: bytes from one connection to the other.
//!
//! A pump never waits for the other direction. It holds at most one buffer, takes new input only when the previous
//! send was accepted by the kernel, and ends exactly where the body ends, so that what follows it on the connection
//! is left for whoever comes next (security rules R2 and R3).

use std::io;
use std::task::Poll;

use thalweg_h1::chunk::{ChunkDecoder, ChunkError, ChunkEvent};
use thalweg_h1::encode::{
    CHUNK_END, CHUNK_HEADER_MAX, EncodeOptions, LAST_CHUNK, chunk_header, last_chunk_into,
};
use thalweg_h1::parse::ParseOptions;
use thalweg_http::Head;
use thalweg_http::semantics::BodyLength;
use thalweg_runtime::buffer::Buf;
use thalweg_runtime::net::transfer::TransferError;
use thalweg_runtime::net::{Stream, Transfer, TransferMode};

/// Bodies with at least this much to come leave the buffers and are moved by [`Transfer`].
const TRANSFER_MIN: u64 = 64 * 1024;
/// Most bytes taken by one receive.
const RECV_MAX: usize = 16 * 1024;
/// Bytes moved by one pump before other tasks get their turn.
const TURN_MAX: u64 = 1024 * 1024;

/// How the received body ends.
#[derive(Debug)]
enum Source {
    Sized(u64),
    Chunked(Box<ChunkDecoder>),
    UntilClose,
}

/// How the sent body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delimiter {
    /// By its length or by the end of the connection: bytes go out as they are.
    Plain,
    /// Chunks.
    Chunked,
}

/// Why a pump stopped early.
#[derive(Debug)]
pub enum PumpError {
    /// Receiving failed.
    Receive(io::Error),
    /// The sender closed before the body was complete.
    Truncated,
    /// The chunks are malformed.
    Malformed(ChunkError),
    /// Sending failed.
    Send(io::Error),
    /// No buffer is left (`tune.buffers.limit`).
    NoBuffer,
}

/// See the module's documentation.
pub struct Pump {
    source: Source,
    delimiter: Delimiter,
    /// Ready to be sent.
    pending: Option<Buf>,
    /// All input was taken.
    ended: bool,
    transfer: Option<Transfer>,
    transfer_mode: Option<TransferMode>,
    /// Payload bytes received, framing included.
    pub received: u64,
    /// Payload bytes that went through a pipe of the kernel.
    pub spliced: u64,
    /// Something was received since this was last cleared: the sender is alive.
    pub progressed: bool,
    /// The receiver is what the last poll stopped at.
    pub blocked_on_send: bool,
    inside_chunk_line: bool,
    drop_trailers: bool,
    /// The receiver gets nothing of the body.
    discarding: bool,
}

impl Pump {
    /// A pump for a body framed as `body`, sent as `delimiter`. `splice` allows moving long stretches without
    /// looking at them.
    pub fn new(
        body: BodyLength,
        delimiter: Delimiter,
        transfer_mode: Option<TransferMode>,
        drop_trailers: bool,
    ) -> Pump {
        let (source, ended) = match body {
            BodyLength::None => (Source::Sized(0), true),
            BodyLength::Sized(n) => (Source::Sized(n), n == 0),
            BodyLength::Chunked => (Source::Chunked(Box::new(ChunkDecoder::new())), false),
            BodyLength::UntilClose | BodyLength::Tunnel => (Source::UntilClose, false),
        };
        Pump {
            source,
            delimiter,
            pending: None,
            ended,
            transfer: None,
            transfer_mode,
            received: 0,
            spliced: 0,
            progressed: false,
            blocked_on_send: false,
            inside_chunk_line: false,
            drop_trailers,
            discarding: false,
        }
    }

    /// Takes the body from its sender without giving it to the receiver.
    pub fn discard_all(&mut self) {
        self.discarding = true;
        self.transfer_mode = None;
    }

    /// Keeps a head, and the part of the body that goes with it, until the receiver can take them.
    pub fn hold(&mut self, mut head: Buf, body: Option<Buf>) {
        if let Some(body) = body
            && head.extend_from_slice(&body).is_err()
        {
            let mut both = Buf::large(head.len() + body.len());
            // It has room for both.
            let _ = both.extend_from_slice(&head);
            let _ = both.extend_from_slice(&body);
            head = both;
        }
        self.pending = Some(head);
    }

    /// True when the whole body was taken from its sender and handed to the kernel for its receiver.
    pub fn is_done(&self) -> bool {
        self.ended && self.pending.is_none()
    }

    /// True when the whole body was taken from its sender.
    pub fn is_received(&self) -> bool {
        self.ended
    }

    /// Bytes still to come, when their number is known.
    pub fn remaining(&self) -> Option<u64> {
        match (&self.source, self.ended) {
            (_, true) => Some(0),
            (Source::Sized(n), _) => Some(*n),
            _ => None,
        }
    }

    /// Takes body bytes out of `input` (which may hold more than the body) and returns what is to be sent for them.
    /// What does not belong to the body, or must be seen again, stays in `input`.
    pub fn take(
        &mut self,
        input: &mut Option<Buf>,
        options: &ParseOptions,
        trailers: &mut Head,
    ) -> Result<Option<Buf>, PumpError> {
        let taken = self.take_body(input, options, trailers)?;
        Ok(taken.filter(|_| !self.discarding))
    }

    fn take_body(
        &mut self,
        input: &mut Option<Buf>,
        options: &ParseOptions,
        trailers: &mut Head,
    ) -> Result<Option<Buf>, PumpError> {
        let Some(mut buf) = input.take() else { return Ok(None) };
        if self.ended {
            *input = Some(buf);
            return Ok(None);
        }
        match &mut self.source {
            Source::UntilClose => {
                self.received += buf.len() as u64;
                if self.delimiter == Delimiter::Chunked { wrap_chunk(buf).map(Some) } else { Ok(Some(buf)) }
            }
            Source::Sized(remaining) => {
                let mine = usize::try_from(*remaining).unwrap_or(usize::MAX).min(buf.len());
                if mine < buf.len() {
                    let head = buf.split_to(mine);
                    *input = Some(buf);
                    buf = head;
                }
                *remaining -= mine as u64;
                self.ended = *remaining == 0;
                self.received += mine as u64;
                if buf.is_empty() {
                    return Ok(None);
                }
                if self.delimiter == Delimiter::Chunked { wrap_chunk(buf).map(Some) } else { Ok(Some(buf)) }
            }
            Source::Chunked(decoder) => {
                let before = buf.len();
                let Taken { out, rest, ended, inside_line } =
                    take_chunked(decoder, buf, self.delimiter, options, trailers, self.drop_trailers)?;
                self.ended = ended;
                self.inside_chunk_line = inside_line;
                self.received += (before - rest.as_ref().map_or(0, |r| r.len())) as u64;
                *input = rest;
                Ok(out)
            }
        }
    }

    /// Takes body bytes out of `input` and throws them away.
    pub fn discard(
        &mut self,
        input: &mut Option<Buf>,
        options: &ParseOptions,
        trailers: &mut Head,
    ) -> Result<(), PumpError> {
        while !self.ended && input.as_ref().is_some_and(|b| !b.is_empty()) {
            let before = input.as_ref().map_or(0, |b| b.len());
            drop(self.take(input, options, trailers)?);
            if input.as_ref().map_or(0, |b| b.len()) == before {
                break;
            }
        }
        Ok(())
    }

    /// True when the last bytes taken were a part of the line that gives a chunk's size.
    pub fn is_inside_chunk_line(&self) -> bool {
        self.inside_chunk_line
    }

    /// Moves what can be moved now from `rx` to `tx`. `input` holds bytes of `rx` received earlier. Ready when the
    /// body is complete and handed to the kernel.
    pub fn poll(
        &mut self,
        input: &mut Option<Buf>,
        rx: &mut Stream,
        tx: &mut Stream,
        options: &ParseOptions,
        trailers: &mut Head,
    ) -> Poll<Result<(), PumpError>> {
        let start = self.received;
        self.blocked_on_send = false;
        loop {
            if let Some(buf) = self.pending.take() {
                match tx.poll_send_ready() {
                    Poll::Pending => {
                        self.pending = Some(buf);
                        self.blocked_on_send = true;
                        return Poll::Pending;
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(PumpError::Send(error))),
                    Poll::Ready(Ok(())) => tx.start_send(buf),
                }
            }
            if self.ended {
                return Poll::Ready(Ok(()));
            }
            if self.received - start > TURN_MAX {
                thalweg_runtime::current_task().wake(thalweg_runtime::Reason::YIELD);
                return Poll::Pending;
            }
            if input.as_ref().is_some_and(|b| !b.is_empty()) {
                let before = input.as_ref().map_or(0, |b| b.len());
                self.pending = self.take(input, options, trailers)?;
                let after = input.as_ref().map_or(0, |b| b.len());
                if self.pending.is_some() || self.ended || after < before {
                    continue;
                }
                // A part of a trailer section that must be seen again with more behind it.
            }
            match tx.poll_send_ready() {
                Poll::Pending => {
                    self.blocked_on_send = true;
                    return Poll::Pending;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(PumpError::Send(error))),
                Poll::Ready(Ok(())) => {}
            }
            if input.is_none() && self.can_transfer() {
                match self.poll_transfer(rx, tx) {
                    Poll::Ready(Ok(())) => continue,
                    other => return other,
                }
            }
            match rx.poll_recv(RECV_MAX) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(PumpError::Receive(error))),
                Poll::Ready(Ok(buf)) if buf.is_empty() => {
                    if matches!(self.source, Source::UntilClose) {
                        self.ended = true;
                        if self.delimiter == Delimiter::Chunked && !self.discarding {
                            self.pending = Some(Buf::copy_of(LAST_CHUNK));
                        }
                        continue;
                    }
                    return Poll::Ready(Err(PumpError::Truncated));
                }
                Poll::Ready(Ok(buf)) => {
                    self.progressed = true;
                    append(input, buf)?;
                }
            }
        }
    }

    fn can_transfer(&self) -> bool {
        self.transfer_mode.is_some()
            && self.delimiter == Delimiter::Plain
            && match self.source {
                Source::Sized(n) => n >= TRANSFER_MIN || self.transfer.is_some(),
                Source::UntilClose => self.received >= TRANSFER_MIN,
                Source::Chunked(_) => false,
            }
    }

    fn poll_transfer(&mut self, rx: &mut Stream, tx: &mut Stream) -> Poll<Result<(), PumpError>> {
        let left = match &self.source {
            Source::Sized(remaining) => *remaining,
            _ => u64::MAX,
        };
        let mode = self.transfer_mode.unwrap_or(TransferMode::Auto);
        let transfer = self.transfer.get_or_insert_with(|| Transfer::new(mode));
        let moved = transfer.poll(rx, tx, left.min(TURN_MAX));
        self.spliced = transfer.spliced();
        match moved {
            Poll::Pending => {
                self.blocked_on_send = transfer.is_blocked_on_send();
                Poll::Pending
            }
            Poll::Ready(Err(TransferError::Receive(error))) => Poll::Ready(Err(PumpError::Receive(error))),
            Poll::Ready(Err(TransferError::Send(error))) => Poll::Ready(Err(PumpError::Send(error))),
            Poll::Ready(Ok(0)) => match self.source {
                Source::UntilClose => {
                    self.ended = true;
                    self.transfer = None;
                    Poll::Ready(Ok(()))
                }
                _ => Poll::Ready(Err(PumpError::Truncated)),
            },
            Poll::Ready(Ok(n)) => {
                self.received += n;
                self.progressed = true;
                if let Source::Sized(remaining) = &mut self.source {
                    *remaining -= n;
                    self.ended = *remaining == 0;
                }
                if self.ended {
                    self.transfer = None;
                }
                Poll::Ready(Ok(()))
            }
        }
    }
}

/// Adds received bytes behind those kept from earlier.
pub fn append(input: &mut Option<Buf>, buf: Buf) -> Result<(), PumpError> {
    match input.take() {
        None => *input = Some(buf),
        Some(old) if old.is_empty() => *input = Some(buf),
        Some(old) => *input = Some(join(old, &buf)?),
    }
    Ok(())
}

/// `old` with the bytes of `new` behind it, in memory of this thread's own.
pub fn join(mut old: Buf, new: &[u8]) -> Result<Buf, PumpError> {
    if !old.is_from_ring() {
        if old.spare() < new.len() {
            old.compact();
        }
        if old.extend_from_slice(new).is_ok() {
            return Ok(old);
        }
    }
    let needed = old.len() + new.len();
    let mut joined = Buf::with_capacity_default().ok_or(PumpError::NoBuffer)?;
    if joined.spare() < needed {
        joined = Buf::large(needed.next_power_of_two());
    }
    let fits = joined.extend_from_slice(&old).is_ok() && joined.extend_from_slice(new).is_ok();
    if fits { Ok(joined) } else { Err(PumpError::NoBuffer) }
}

/// One chunk around the bytes of `buf`.
pub fn wrap_chunk(mut buf: Buf) -> Result<Buf, PumpError> {
    let mut header = [0; CHUNK_HEADER_MAX];
    let n = chunk_header(buf.len() as u64, &mut header);
    if buf.headroom() >= n && buf.spare() >= CHUNK_END.len() {
        let done = buf.prepend(&header[..n]).is_ok() && buf.extend_from_slice(CHUNK_END).is_ok();
        return if done { Ok(buf) } else { Err(PumpError::NoBuffer) };
    }
    let mut out = Buf::large(buf.len() + n + CHUNK_END.len());
    let done = out.extend_from_slice(&header[..n]).is_ok()
        && out.extend_from_slice(&buf).is_ok()
        && out.extend_from_slice(CHUNK_END).is_ok();
    if done { Ok(out) } else { Err(PumpError::NoBuffer) }
}

/// What [`take_chunked`] made of a buffer.
struct Taken {
    /// To be sent.
    out: Option<Buf>,
    /// Left for later.
    rest: Option<Buf>,
    ended: bool,
    /// The buffer ended inside the line of a chunk's size.
    inside_line: bool,
}

/// Follows a chunked body through `buf`.
///
/// As long as every header is in its plainest form the bytes are forwarded as they came; from the first one that is
/// not, the rest of the buffer is written anew, so that nothing but sizes and payload ever reaches the other side.
fn take_chunked(
    decoder: &mut ChunkDecoder,
    mut buf: Buf,
    delimiter: Delimiter,
    options: &ParseOptions,
    trailers: &mut Head,
    drop_trailers: bool,
) -> Result<Taken, PumpError> {
    let mut inside_line = false;
    let mut at = 0;
    // Bytes from the start of `buf` that may go out as they are.
    let mut raw = 0;
    let mut rewritten: Option<Buf> = None;
    let chunked = delimiter == Delimiter::Chunked;
    let mut ended = false;
    loop {
        let step = decoder.step(options, &buf[at..], trailers).map_err(PumpError::Malformed)?;
        let piece = &buf[at..at + step.consumed];
        let as_is = rewritten.is_none() && raw == at && chunked;
        match step.event {
            ChunkEvent::NeedMore => {
                at += step.consumed;
                inside_line = step.consumed > 0;
                break;
            }
            ChunkEvent::Chunk { plain: true, .. } if as_is => raw += step.consumed,
            ChunkEvent::Chunk { size, .. } => {
                let out = rewrite(&mut rewritten, &buf, raw, chunked)?;
                if chunked {
                    let mut header = [0; CHUNK_HEADER_MAX];
                    let n = chunk_header(size, &mut header);
                    put(out, &header[..n])?;
                }
            }
            ChunkEvent::Data(range) => {
                if as_is {
                    raw += step.consumed;
                } else {
                    let data = &buf[at..][range];
                    put(rewrite(&mut rewritten, &buf, raw, chunked)?, data)?;
                }
            }
            ChunkEvent::ChunkEnd => {
                if as_is && step.consumed == CHUNK_END.len() {
                    raw += step.consumed;
                } else {
                    let out = rewrite(&mut rewritten, &buf, raw, chunked)?;
                    if chunked {
                        put(out, CHUNK_END)?;
                    }
                }
            }
            ChunkEvent::End => {
                ended = true;
                if as_is && piece == LAST_CHUNK {
                    raw += step.consumed;
                } else if chunked {
                    let out = rewrite(&mut rewritten, &buf, raw, chunked)?;
                    if trailers.is_empty() || drop_trailers {
                        put(out, LAST_CHUNK)?;
                    } else {
                        let mut space = vec![0; trailers.encoded_len() + 64];
                        let n = last_chunk_into(trailers, &EncodeOptions::default(), &mut space)
                            .ok_or(PumpError::NoBuffer)?;
                        put(out, &space[..n])?;
                    }
                }
                at += step.consumed;
                break;
            }
        }
        at += step.consumed;
    }
    match rewritten {
        Some(out) => {
            buf.advance(at);
            let rest = (!buf.is_empty()).then_some(buf);
            Ok(Taken { out: (!out.is_empty()).then_some(out), rest, ended, inside_line })
        }
        None if raw == buf.len() => Ok(Taken { out: Some(buf), rest: None, ended, inside_line }),
        None => {
            // The bytes between `raw` and `at` were consumed without being forwarded: a header cut by the end of
            // the buffer. They come out again, in plain form, with the rest of it.
            let out = buf.split_to(raw);
            buf.advance(at - raw);
            let rest = (!buf.is_empty()).then_some(buf);
            Ok(Taken { out: (!out.is_empty()).then_some(out), rest, ended, inside_line })
        }
    }
}

/// The buffer for what is written anew, which begins with the bytes that were good as they came.
fn rewrite<'a>(
    rewritten: &'a mut Option<Buf>,
    buf: &Buf,
    raw: usize,
    chunked: bool,
) -> Result<&'a mut Buf, PumpError> {
    if rewritten.is_none() {
        // A rewritten chunk is never longer than twice what came, sizes and line ends included; trailers are put by
        // growing.
        let mut out = Buf::large(buf.len() * 2 + 64);
        if chunked {
            put(&mut out, &buf[..raw])?;
        }
        *rewritten = Some(out);
    }
    rewritten.as_mut().ok_or(PumpError::NoBuffer)
}

fn put(out: &mut Buf, bytes: &[u8]) -> Result<(), PumpError> {
    if out.extend_from_slice(bytes).is_ok() {
        return Ok(());
    }
    let mut larger = Buf::large((out.len() + bytes.len()) * 2);
    let fits = larger.extend_from_slice(out).is_ok() && larger.extend_from_slice(bytes).is_ok();
    *out = larger;
    if fits { Ok(()) } else { Err(PumpError::NoBuffer) }
}
