//! How far the body of a message was read.
//!
//! A connection has one [`BodyReader`], and whatever takes bytes of a body off that connection goes through it: the
//! exchange with a server, an answer of our own that throws the rest away, a rule that looks ahead. So there is one
//! answer to where the message ends, however many hands it passed through (security rules R2 and R3).

use std::cell::{Cell, OnceCell};

use thalweg_h1::chunk::{ChunkDecoder, ChunkError, ChunkEvent};
use thalweg_h1::encode::{
    CHUNK_END, CHUNK_HEADER_MAX, EncodeOptions, LAST_CHUNK, chunk_header, last_chunk_into,
};
use thalweg_h1::parse::ParseOptions;
use thalweg_http::Head;
use thalweg_http::semantics::BodyLength;
use thalweg_runtime::buffer::Buf;
use thalweg_sample::context::{Payload, Unread};

/// How the sent body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delimiter {
    /// By its length or by the end of the connection: bytes go out as they are.
    Plain,
    /// Chunks.
    Chunked,
}

/// How a body is to be written for its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// What ends it.
    pub delimiter: Delimiter,
    /// Its trailer fields are not passed on (`option http-drop-request-trailers` and its like).
    pub drop_trailers: bool,
}

/// Why no more of a body can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyError {
    /// The chunks are malformed. The connection has no next message.
    Malformed(ChunkError),
    /// No buffer is left (`tune.buffers.limit`).
    NoBuffer,
}

/// What a received body is delimited by.
#[derive(Debug)]
enum Length {
    /// This many bytes are to come.
    Sized(u64),
    Chunked(Box<Chunks>),
    UntilClose,
}

#[derive(Debug)]
struct Chunks {
    decoder: ChunkDecoder,
    trailers: Head,
    options: ParseOptions,
    /// What was found by looking ahead of `decoder`; forgotten when bytes are taken.
    ahead: Option<Box<Ahead>>,
    /// What could not be understood, for operators.
    refused: Option<Box<RefusedChunks>>,
}

/// Bytes of a chunked body that were refused.
#[derive(Debug)]
pub struct RefusedChunks {
    /// What was received together, from where it was not taken before.
    pub bytes: Box<[u8]>,
    /// The start of the piece that was refused.
    pub position: usize,
    /// Why it was.
    pub error: ChunkError,
}

/// A second reading of bytes that were received and not taken yet.
#[derive(Debug)]
struct Ahead {
    decoder: ChunkDecoder,
    trailers: Head,
    /// Bytes of the input that were looked at.
    at: usize,
    payload: Vec<u8>,
    malformed: bool,
}

/// See the module's documentation. Before the first message, and after each, it is at its end.
#[derive(Debug)]
pub struct BodyReader {
    length: Length,
    /// Its end is told apart from its last byte, where frames carry it.
    end_is_told: bool,
    /// Trailer fields that frames brought beside it were taken.
    trailers_told: bool,
    ended: bool,
    received: u64,
}

impl Default for BodyReader {
    fn default() -> BodyReader {
        BodyReader {
            length: Length::Sized(0),
            end_is_told: false,
            trailers_told: false,
            ended: true,
            received: 0,
        }
    }
}

impl BodyReader {
    /// A message's head was read: its body comes next. `options` limit the trailer section.
    pub fn begin(&mut self, body: BodyLength, options: &ParseOptions) {
        self.received = 0;
        self.end_is_told = false;
        self.trailers_told = false;
        self.ended = matches!(body, BodyLength::None | BodyLength::Sized(0));
        self.length = match body {
            BodyLength::None => Length::Sized(0),
            BodyLength::Sized(n) => Length::Sized(n),
            BodyLength::Chunked => Length::Chunked(Box::new(Chunks {
                decoder: ChunkDecoder::new(),
                trailers: Head::new(),
                options: *options,
                ahead: None,
                refused: None,
            })),
            BodyLength::UntilClose | BodyLength::Tunnel => Length::UntilClose,
        };
    }

    /// The body that just began, of however many bytes and be it none, does not end before its line says so.
    pub fn wait_for_end(&mut self) {
        self.end_is_told = true;
        self.ended = false;
    }

    /// What of a chunked body could not be understood, if that is why it ended.
    pub fn refused(&self) -> Option<&RefusedChunks> {
        match &self.length {
            Length::Chunked(chunks) => chunks.refused.as_deref(),
            _ => None,
        }
    }

    /// Nothing more on this connection is a message: all that comes belongs to the last one.
    pub fn begin_until_close(&mut self) {
        *self = BodyReader { length: Length::UntilClose, ended: false, ..BodyReader::default() };
    }

    /// True when all of the body was taken off the connection, so that what follows is another message.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// Bytes taken off the connection for this body, framing included.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Bytes still to come, when their number is known.
    pub fn remaining(&self) -> Option<u64> {
        match (&self.length, self.ended) {
            (_, true) => Some(0),
            (Length::Sized(n), _) => Some(*n),
            _ => None,
        }
    }

    /// True when the end of the connection is the end of the body.
    pub fn is_until_close(&self) -> bool {
        matches!(self.length, Length::UntilClose)
    }

    /// True when the body comes in chunks.
    pub fn is_chunked(&self) -> bool {
        matches!(self.length, Length::Chunked(_))
    }

    /// Whether the trailer fields that come beside this body were not told yet, and are now.
    pub fn tells_trailers(&mut self) -> bool {
        !std::mem::replace(&mut self.trailers_told, true)
    }

    /// The trailer fields of a chunked body that ended, if they are not in what was taken of it. Once.
    #[inline]
    pub fn take_trailers(&mut self) -> Option<Box<Head>> {
        match &mut self.length {
            Length::Chunked(chunks) if !chunks.trailers.is_empty() => {
                Some(Box::new(std::mem::take(&mut chunks.trailers)))
            }
            _ => None,
        }
    }

    /// How many of the next bytes are payload and nothing else, so that they may go from receive to send without being
    /// looked at.
    pub fn stretch(&self) -> u64 {
        match &self.length {
            _ if self.ended => 0,
            Length::Sized(remaining) => *remaining,
            Length::Chunked(chunks) => chunks.decoder.remaining(),
            Length::UntilClose => u64::MAX,
        }
    }

    /// The connection ended. False when that cuts the body.
    pub fn connection_ended(&mut self) -> bool {
        self.ended |= match self.length {
            Length::Sized(left) => self.end_is_told && left == 0,
            Length::Chunked(_) => false,
            Length::UntilClose => true,
        };
        self.ended
    }

    /// Takes note of `n` bytes of a [stretch](BodyReader::stretch) that left the connection without passing here.
    pub fn took(&mut self, n: u64) {
        self.received += n;
        match &mut self.length {
            Length::Sized(remaining) => {
                *remaining = remaining.saturating_sub(n);
                self.ended = *remaining == 0 && !self.end_is_told;
            }
            Length::Chunked(chunks) => {
                chunks.ahead = None;
                chunks.decoder.skip(n);
            }
            Length::UntilClose => {}
        }
    }

    /// Takes body bytes out of `input` (which may hold more than the body) and returns what is to be sent for them.
    /// What does not belong to the body, or must be seen again, stays in `input`.
    pub fn take(&mut self, input: &mut Option<Buf>, form: Form) -> Result<Option<Buf>, BodyError> {
        let Some(mut buf) = input.take() else { return Ok(None) };
        if self.ended {
            *input = Some(buf);
            return Ok(None);
        }
        if let Length::Chunked(chunks) = &mut self.length {
            let before = buf.len();
            let Taken { out, rest, ended } = chunks.take(buf, form)?;
            self.ended = ended;
            self.received += (before - rest.as_ref().map_or(0, |r| r.len())) as u64;
            *input = rest;
            return Ok(out);
        }
        let mine = self.mine(buf.len());
        if mine < buf.len() {
            let head = buf.split_to(mine);
            *input = Some(buf);
            buf = head;
        }
        self.took(mine as u64);
        if buf.is_empty() {
            return Ok(None);
        }
        if form.delimiter == Delimiter::Chunked { wrap_chunk(buf).map(Some) } else { Ok(Some(buf)) }
    }

    /// Takes body bytes out of `input` and throws them away.
    pub fn discard(&mut self, input: &mut Option<Buf>) -> Result<(), BodyError> {
        if self.ended {
            return Ok(());
        }
        let Some(mut buf) = input.take() else { return Ok(()) };
        if let Length::Chunked(chunks) = &mut self.length {
            let before = buf.len();
            self.ended = chunks.skip(&mut buf)?;
            self.received += (before - buf.len()) as u64;
        } else {
            let mine = self.mine(buf.len());
            buf.advance(mine);
            self.took(mine as u64);
        }
        *input = Some(buf).filter(|buf| !buf.is_empty());
        Ok(())
    }

    /// How many of `len` bytes belong to an opaque body.
    fn mine(&self, len: usize) -> usize {
        match &self.length {
            Length::Sized(remaining) => usize::try_from(*remaining).unwrap_or(usize::MAX).min(len),
            _ => len,
        }
    }

    /// What of the body is in `input`, which is left as it is. `eof` says that nothing will come behind it.
    pub fn look<'a>(&'a mut self, input: &'a [u8], eof: bool) -> Look<'a> {
        if self.ended {
            return Look::Plain { data: &[], payload_ended: true, total: Some(self.received) };
        }
        let mine = self.mine(input.len());
        match &mut self.length {
            Length::Sized(n) => {
                let remaining = *n;
                Look::Plain {
                    data: &input[..mine],
                    payload_ended: mine as u64 == remaining,
                    total: Some(remaining + self.received),
                }
            }
            Length::UntilClose => Look::Plain { data: input, payload_ended: eof, total: None },
            Length::Chunked(chunks) => {
                Look::Chunked(Decoded { work: Cell::new(Some((chunks, input))), seen: OnceCell::new() })
            }
        }
    }
}

impl Chunks {
    fn take(&mut self, buf: Buf, form: Form) -> Result<Taken, BodyError> {
        self.ahead = None;
        let Chunks { decoder, options, trailers, refused, .. } = self;
        take_chunked(decoder, buf, form, options, trailers, refused)
    }

    /// Throws away what belongs to the body; true at its end.
    fn skip(&mut self, buf: &mut Buf) -> Result<bool, BodyError> {
        self.ahead = None;
        loop {
            let step = match self.decoder.step(&self.options, buf, &mut self.trailers) {
                Ok(step) => step,
                Err(error) => return Err(refuse(&mut self.refused, buf, 0, error)),
            };
            buf.advance(step.consumed);
            match step.event {
                ChunkEvent::NeedMore => return Ok(false),
                ChunkEvent::End => return Ok(true),
                _ => {}
            }
        }
    }

    /// Reads on in `input` from where looking ahead stopped the last time.
    fn look<'a>(&'a mut self, input: &[u8]) -> Seen<'a> {
        let Chunks { decoder, trailers, options, ahead, .. } = self;
        let ahead = ahead.get_or_insert_with(|| {
            Box::new(Ahead {
                decoder: decoder.clone(),
                trailers: trailers.clone(),
                at: 0,
                payload: Vec::new(),
                malformed: false,
            })
        });
        while !ahead.malformed && !ahead.decoder.is_done() {
            let rest = input.get(ahead.at..).unwrap_or(&[]);
            let Ok(step) = ahead.decoder.step(options, rest, &mut ahead.trailers) else {
                ahead.malformed = true;
                break;
            };
            ahead.at += step.consumed;
            match step.event {
                ChunkEvent::Data(range) => ahead.payload.extend_from_slice(&rest[range]),
                ChunkEvent::NeedMore | ChunkEvent::End => break,
                _ => {}
            }
        }
        Seen {
            data: &ahead.payload,
            announced: ahead.payload.len() as u64 + ahead.decoder.remaining(),
            // Malformed chunks count as all there is.
            payload_ended: ahead.malformed || ahead.decoder.payload_is_complete(),
            ended: ahead.malformed || ahead.decoder.is_done(),
            len: (!ahead.malformed && ahead.decoder.is_done()).then_some(ahead.at),
        }
    }
}

/// What of a body was received and not taken yet.
pub enum Look<'a> {
    Plain {
        data: &'a [u8],
        /// No payload comes after `data`.
        payload_ended: bool,
        /// Bytes of the whole body, when they are known.
        total: Option<u64>,
    },
    Chunked(Decoded<'a>),
}

impl Look<'_> {
    /// For rules to look at. Chunks are read when the first of them asks.
    pub fn payload(&self) -> Payload<'_> {
        match self {
            Look::Plain { data, payload_ended, total } => Payload::new(data, *payload_ended, *total),
            Look::Chunked(decoded) => Payload::unread(decoded),
        }
    }

    /// Whether the body is there to its end.
    pub fn ended(&self) -> bool {
        match self {
            Look::Plain { payload_ended, .. } => *payload_ended,
            Look::Chunked(decoded) => decoded.seen().ended,
        }
    }

    /// Bytes that the whole body takes as it was received, if it is all there, well-formed, and does not end with the
    /// connection.
    pub fn whole_len(&self) -> Option<usize> {
        match self {
            Look::Plain { data, total, .. } => (*total == Some(data.len() as u64)).then_some(data.len()),
            Look::Chunked(decoded) => decoded.seen().len,
        }
    }

    /// Bytes of payload that are there.
    pub fn payload_len(&self) -> usize {
        self.payload().data().len()
    }
}

#[derive(Clone, Copy)]
struct Seen<'a> {
    data: &'a [u8],
    payload_ended: bool,
    ended: bool,
    /// Bytes of payload in the chunks that have begun.
    announced: u64,
    /// See [`Look::whole_len`].
    len: Option<usize>,
}

/// The payload of a chunked body, read when it is asked for.
pub struct Decoded<'a> {
    work: Cell<Option<(&'a mut Box<Chunks>, &'a [u8])>>,
    seen: OnceCell<Seen<'a>>,
}

impl<'a> Decoded<'a> {
    fn seen(&self) -> Seen<'a> {
        *self.seen.get_or_init(|| match self.work.take() {
            Some((chunks, input)) => chunks.look(input),
            None => Seen { data: &[], payload_ended: true, ended: true, announced: 0, len: None },
        })
    }
}

impl Unread for Decoded<'_> {
    fn read(&self) -> Payload<'_> {
        let seen = self.seen();
        Payload::new(seen.data, seen.payload_ended, Some(seen.announced)).of_whole(seen.ended)
    }
}

/// One chunk around the bytes of `buf`.
pub(crate) fn wrap_chunk(mut buf: Buf) -> Result<Buf, BodyError> {
    let mut header = [0; CHUNK_HEADER_MAX];
    let n = chunk_header(buf.len() as u64, &mut header);
    if buf.headroom() >= n && buf.spare() >= CHUNK_END.len() {
        let done = buf.prepend(&header[..n]).is_ok() && buf.extend_from_slice(CHUNK_END).is_ok();
        return if done { Ok(buf) } else { Err(BodyError::NoBuffer) };
    }
    let mut out = Buf::large(buf.len() + n + CHUNK_END.len());
    let done = out.extend_from_slice(&header[..n]).is_ok()
        && out.extend_from_slice(&buf).is_ok()
        && out.extend_from_slice(CHUNK_END).is_ok();
    if done { Ok(out) } else { Err(BodyError::NoBuffer) }
}

/// What [`take_chunked`] made of a buffer.
struct Taken {
    /// To be sent.
    out: Option<Buf>,
    /// Left for later.
    rest: Option<Buf>,
    ended: bool,
}

/// Most bytes that are written anew at a time: what that needs comes from outside the pools.
const REWRITE_MAX: usize = 16 * 1024;

/// Most bytes of a refused body that are kept, half of them from before the place.
const REFUSED_MAX: usize = 16 * 1024;

/// Notes what was refused and why.
#[cold]
fn refuse(slot: &mut Option<Box<RefusedChunks>>, buf: &[u8], at: usize, error: ChunkError) -> BodyError {
    let from = at.saturating_sub(REFUSED_MAX / 2);
    let to = buf.len().min(from + REFUSED_MAX);
    *slot = Some(Box::new(RefusedChunks { bytes: buf[from..to].into(), position: at - from, error }));
    BodyError::Malformed(error)
}

/// Follows a chunked body through `buf`.
///
/// As long as every header is in its plainest form the bytes are forwarded as they came; from the first one that is
/// not, the rest of the buffer is written anew, so that nothing but sizes and payload ever reaches the other side. Of a
/// large buffer that is done in parts, with what is left for later in [`Taken::rest`].
///
/// In one piece, because each step moves the same three positions, and what they mean holds only between steps.
fn take_chunked(
    decoder: &mut ChunkDecoder,
    mut buf: Buf,
    form: Form,
    options: &ParseOptions,
    trailers: &mut Head,
    refused: &mut Option<Box<RefusedChunks>>,
) -> Result<Taken, BodyError> {
    let mut at = 0;
    // Bytes from the start of `buf` that may go out as they are.
    let mut raw = 0;
    let mut rewritten: Option<Buf> = None;
    let chunked = form.delimiter == Delimiter::Chunked;
    let mut ended = false;
    let mut end = buf.len();
    loop {
        if rewritten.is_some() && end == buf.len() {
            end = end.min(at + REWRITE_MAX);
        }
        // To be taken back, when something cannot go on as it came behind much that can.
        let before = (raw >= REWRITE_MAX).then(|| decoder.clone());
        let step = match decoder.step(options, &buf[at..end], trailers) {
            Ok(step) => step,
            Err(error) => return Err(refuse(refused, &buf, at, error)),
        };
        let piece = &buf[at..at + step.consumed];
        let as_is = rewritten.is_none() && raw == at && chunked;
        if let (Some(before), true) = (before, as_is && !is_plain(&step.event, piece)) {
            *decoder = before;
            trailers.clear();
            let out = buf.split_to(raw);
            return Ok(Taken { out: Some(out), rest: Some(buf), ended });
        }
        match step.event {
            ChunkEvent::NeedMore => {
                at += step.consumed;
                break;
            }
            ChunkEvent::Chunk { plain: true, .. } | ChunkEvent::Data(_) if as_is => raw += step.consumed,
            ChunkEvent::Chunk { size, .. } => {
                let out = rewrite(&mut rewritten, &buf, raw, chunked)?;
                if chunked {
                    let mut header = [0; CHUNK_HEADER_MAX];
                    let n = chunk_header(size, &mut header);
                    put(out, &header[..n])?;
                }
            }
            ChunkEvent::Data(range) => {
                put(rewrite(&mut rewritten, &buf, raw, chunked)?, &buf[at..][range])?;
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
                    put_end(rewrite(&mut rewritten, &buf, raw, chunked)?, trailers, form)?;
                }
                at += step.consumed;
                break;
            }
        }
        at += step.consumed;
        if at == end && end < buf.len() {
            break;
        }
    }
    Ok(taken(buf, raw, at, rewritten, ended))
}

/// What came of a buffer: `raw` bytes of it go on as they came, `rewritten` in their place if there is that, and `at` were
/// read.
#[inline]
fn taken(mut buf: Buf, raw: usize, at: usize, rewritten: Option<Buf>, ended: bool) -> Taken {
    let out = match rewritten {
        Some(out) => {
            buf.advance(at);
            out
        }
        None if raw == buf.len() => return Taken { out: Some(buf), rest: None, ended },
        None => {
            // The bytes between `raw` and `at` were consumed without being forwarded: a header cut by the end of
            // the buffer. They come out again, in plain form, with the rest of it.
            let out = buf.split_to(raw);
            buf.advance(at - raw);
            out
        }
    };
    Taken { out: (!out.is_empty()).then_some(out), rest: (!buf.is_empty()).then_some(buf), ended }
}

/// Writes the last chunk, with the trailer fields that are passed on: so they are told.
fn put_end(out: &mut Buf, trailers: &mut Head, form: Form) -> Result<(), BodyError> {
    let trailers = std::mem::take(trailers);
    if trailers.is_empty() || form.drop_trailers {
        return put(out, LAST_CHUNK);
    }
    let mut space = vec![0; trailers.encoded_len() + 64];
    let written = last_chunk_into(&trailers, &EncodeOptions::default(), &mut space);
    put(out, &space[..written.ok_or(BodyError::NoBuffer)?])
}

/// Whether what was found may be forwarded as it came: no extension, no trailers, nothing cut.
fn is_plain(event: &ChunkEvent, piece: &[u8]) -> bool {
    match event {
        ChunkEvent::NeedMore | ChunkEvent::Data(_) => true,
        ChunkEvent::Chunk { plain, .. } => *plain,
        ChunkEvent::ChunkEnd => piece == CHUNK_END,
        ChunkEvent::End => piece == LAST_CHUNK,
    }
}

/// The buffer for what is written anew, which begins with the bytes that were good as they came.
fn rewrite<'a>(
    rewritten: &'a mut Option<Buf>,
    buf: &Buf,
    raw: usize,
    chunked: bool,
) -> Result<&'a mut Buf, BodyError> {
    if rewritten.is_none() {
        // A rewritten chunk is never longer than twice what came, sizes and line ends included; trailers are put by
        // growing.
        let mut out = Buf::large(buf.len().min(raw + REWRITE_MAX) * 2 + 64);
        if chunked {
            put(&mut out, &buf[..raw])?;
        }
        *rewritten = Some(out);
    }
    rewritten.as_mut().ok_or(BodyError::NoBuffer)
}

fn put(out: &mut Buf, bytes: &[u8]) -> Result<(), BodyError> {
    if out.extend_from_slice(bytes).is_ok() {
        return Ok(());
    }
    let mut larger = Buf::large((out.len() + bytes.len()) * 2);
    let fits = larger.extend_from_slice(out).is_ok() && larger.extend_from_slice(bytes).is_ok();
    *out = larger;
    if fits { Ok(()) } else { Err(BodyError::NoBuffer) }
}
