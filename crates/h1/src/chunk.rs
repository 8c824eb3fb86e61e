//! Chunked bodies (RFC 9112 section 7.1).
//!
//! The decoder can be cut at every byte. It says which bytes of its input are payload, so that a relay
//! can forward the body as it came, once validated, or frame it anew; and it says of every chunk header
//! whether it was written plainly, so that nothing but digits reaches the next hop.

use std::fmt;
use std::ops::Range;

use thalweg_http::ascii::is_tchar;
use thalweg_http::{Head, Strictness};

use crate::error::{ParseError, ParseErrorKind};
use crate::parse::{HeadParser, ParseOptions, Parsed};

/// The largest chunk that is accepted, in bytes: the reference's bound, far from where sums overflow.
pub const CHUNK_SIZE_MAX: u64 = (1 << 52) - 1;

/// The longest chunk header in bytes, extensions included. No one sends long ones but to keep a proxy
/// busy, so there is no setting for it.
pub const CHUNK_LINE_MAX: u32 = 4096;

/// How many bytes of framing a body may have beyond 16 and two per byte of payload for each chunk.
/// Without it, a body of one-byte chunks with long extensions costs far more than what it carries.
pub const CHUNK_EXCESS_MAX: u64 = 16384;

/// Why a chunked body was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkError {
    /// The size has no digit, or something that is not one.
    BadSize,
    /// The size is above [`CHUNK_SIZE_MAX`].
    TooLarge,
    /// A chunk header is longer than [`CHUNK_LINE_MAX`], or all of them together are out of proportion.
    LineTooLong,
    /// An extension has a NUL, a CR or LF that does not end the line, or a quote that is not closed. Strict: it is not a list of names and values
    /// (RFC 9112 section 7.1.1).
    BadExtension,
    /// A chunk is not followed by CR LF.
    BadEnd,
    /// The trailer section is malformed or too large.
    Trailers(ParseErrorKind),
}

impl fmt::Display for ChunkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BadSize => "a chunk size is not a hexadecimal number",
            Self::TooLarge => "a chunk is too large",
            Self::LineTooLong => "a chunk header is too long",
            Self::BadExtension => "a chunk extension is malformed",
            Self::BadEnd => "a chunk is not followed by a line end",
            Self::Trailers(kind) => return kind.fmt(f),
        })
    }
}

impl std::error::Error for ChunkError {}

/// What a step of the decoder found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChunkEvent {
    /// The input is used up, or what is left of it (a part of a trailer section) must be given again
    /// with more behind it.
    NeedMore,
    /// A chunk of this many bytes begins after the consumed bytes. `plain` says that the consumed bytes
    /// are all of its header and nothing but digits and a line end, so that they may be forwarded as they
    /// are; otherwise write a header with [`crate::encode::chunk_header`].
    Chunk {
        /// Payload bytes of the chunk, not 0.
        size: u64,
        /// Whether the header came in one piece, without extension, white space or needless zero.
        plain: bool,
    },
    /// These bytes of the input are payload.
    Data(Range<usize>),
    /// The line end behind a chunk was consumed, all of it in this step if `consumed` is 2.
    ChunkEnd,
    /// The body is complete. Trailers, if any, are in the head that was given.
    End,
}

/// One step: what was found, and how many bytes of the input it used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkStep {
    /// Bytes of the input to give up.
    pub consumed: usize,
    /// What they were.
    pub event: ChunkEvent,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Size,
    /// White space after the digits.
    SizeSpace,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    Trailers,
    Done,
}

/// Where in `*( BWS ";" BWS name [ BWS "=" BWS ( token / quoted-string ) ] )` a header is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Extension {
    /// After a semicolon.
    #[default]
    NameStart,
    Name,
    /// White space after a name.
    NameEnd,
    /// After an equals sign.
    ValueStart,
    Value,
    Quoted,
    /// After a backslash between quotes.
    Escaped,
    /// After a closing quote.
    Closed,
    /// White space after a value.
    ValueEnd,
}

impl Extension {
    /// The state after `byte`; `None` when the grammar does not have it there.
    fn next(self, byte: u8) -> Option<Extension> {
        use Extension::*;
        let text = byte == b'\t' || byte >= b' ' && byte != 0x7f;
        Some(match (self, byte) {
            (NameStart | ValueStart, b' ' | b'\t') => self,
            (NameStart | Name, byte) if is_tchar(byte) => Name,
            (ValueStart | Value, byte) if is_tchar(byte) => Value,
            (ValueStart, b'"') => Quoted,
            (Name | NameEnd, b'=') => ValueStart,
            (Name | NameEnd | Value | Closed | ValueEnd, b';') => NameStart,
            (Name | NameEnd, b' ' | b'\t') => NameEnd,
            (Value | Closed | ValueEnd, b' ' | b'\t') => ValueEnd,
            (Quoted, b'"') => Closed,
            (Quoted, b'\\') => Escaped,
            (Quoted | Escaped, _) if text => Quoted,
            _ => return None,
        })
    }

    /// The state after `byte` where only quotes matter: others may take the end of a line between them for text.
    fn next_between_quotes(self, byte: u8) -> Extension {
        use Extension::*;
        match (self, byte) {
            (Quoted, b'\\') => Escaped,
            (Quoted, b'"') => Closed,
            (Quoted | Escaped, _) | (_, b'"') => Quoted,
            _ => Name,
        }
    }

    /// Whether the line may end here.
    fn may_end(self, strict: bool) -> bool {
        match strict {
            true => matches!(self, Extension::Name | Extension::Value | Extension::Closed),
            false => !matches!(self, Extension::Quoted | Extension::Escaped),
        }
    }
}

/// A resumable decoder of one chunked body.
#[derive(Clone, Debug, Default)]
pub struct ChunkDecoder {
    state: State,
    size: u64,
    digits: bool,
    plain: bool,
    /// Where in an extension the header is, when it is read strictly.
    extension: Extension,
    /// Bytes of the current chunk header so far.
    line: u32,
    excess: u64,
    trailers: HeadParser,
}

impl ChunkDecoder {
    /// A decoder at the start of a body.
    pub fn new() -> Self {
        Self { plain: true, ..Self::default() }
    }

    /// Whether the whole body was seen.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Whether all payload was seen: at most the trailer section is missing.
    pub fn payload_is_complete(&self) -> bool {
        matches!(self.state, State::Trailers | State::Done)
    }

    /// Payload bytes of the current chunk that were not seen yet.
    pub fn remaining(&self) -> u64 {
        if self.state == State::Data { self.size } else { 0 }
    }

    /// Takes note of `len` payload bytes of the current chunk that went another way than through
    /// [`ChunkDecoder::step`], as with splicing. More than [`ChunkDecoder::remaining`] is cut to it.
    pub fn skip(&mut self, len: u64) {
        if self.state == State::Data {
            self.size -= len.min(self.size);
            if self.size == 0 {
                self.state = State::DataCr;
            }
        }
    }

    /// Looks at the start of `input` and returns the next event. Give up `consumed` bytes, then call
    /// again, until [`ChunkEvent::NeedMore`] or [`ChunkEvent::End`]. Trailers go to `trailers`.
    ///
    /// # Errors
    /// A [`ChunkError`]: the connection has no next message.
    pub fn step(
        &mut self,
        options: &ParseOptions,
        input: &[u8],
        trailers: &mut Head,
    ) -> Result<ChunkStep, ChunkError> {
        let strict = options.framing.strictness == Strictness::Strict;
        let mut at = 0;
        if self.line > 0 {
            // The header began in an earlier input: what is consumed now is not all of it.
            self.plain = false;
        }
        while let Some(&byte) = input.get(at) {
            match self.state {
                State::Size | State::SizeSpace | State::Extension | State::SizeLf => {
                    at += 1;
                    self.line += 1;
                    if self.line > CHUNK_LINE_MAX {
                        return Err(ChunkError::LineTooLong);
                    }
                    if self.header_byte(byte, strict)? {
                        let (size, plain) = (self.size, self.plain);
                        self.excess =
                            (self.excess + u64::from(self.line)).saturating_sub(16 + size.saturating_mul(2));
                        if self.excess > CHUNK_EXCESS_MAX {
                            return Err(ChunkError::LineTooLong);
                        }
                        self.line = 0;
                        self.digits = false;
                        self.plain = true;
                        if size == 0 {
                            self.state = State::Trailers;
                            self.trailers.reset();
                            // The caller keeps what follows until it is complete.
                            return match self.finish(options, &input[at..], trailers)? {
                                Some(len) => Ok(ChunkStep { consumed: at + len, event: ChunkEvent::End }),
                                None => Ok(ChunkStep { consumed: at, event: ChunkEvent::NeedMore }),
                            };
                        }
                        self.state = State::Data;
                        return Ok(ChunkStep { consumed: at, event: ChunkEvent::Chunk { size, plain } });
                    }
                }
                State::Data => {
                    debug_assert_eq!(at, 0, "a chunk begins a step");
                    let here = usize::try_from(self.size).unwrap_or(usize::MAX).min(input.len());
                    self.skip(here as u64);
                    return Ok(ChunkStep { consumed: here, event: ChunkEvent::Data(0..here) });
                }
                State::DataCr => {
                    if byte != b'\r' {
                        return Err(ChunkError::BadEnd);
                    }
                    at += 1;
                    self.state = State::DataLf;
                }
                State::DataLf => {
                    if byte != b'\n' {
                        return Err(ChunkError::BadEnd);
                    }
                    at += 1;
                    self.state = State::Size;
                    self.size = 0;
                    return Ok(ChunkStep { consumed: at, event: ChunkEvent::ChunkEnd });
                }
                State::Trailers => {
                    return match self.finish(options, input, trailers)? {
                        Some(len) => Ok(ChunkStep { consumed: len, event: ChunkEvent::End }),
                        None => Ok(ChunkStep { consumed: 0, event: ChunkEvent::NeedMore }),
                    };
                }
                State::Done => return Ok(ChunkStep { consumed: 0, event: ChunkEvent::End }),
            }
        }
        let event = if self.is_done() { ChunkEvent::End } else { ChunkEvent::NeedMore };
        Ok(ChunkStep { consumed: at, event })
    }

    /// Takes one byte of a chunk header. `true` when it ends the header.
    fn header_byte(&mut self, byte: u8, strict: bool) -> Result<bool, ChunkError> {
        match (self.state, byte) {
            (State::SizeLf, b'\n') => return Ok(true),
            (State::SizeLf, _) => return Err(ChunkError::BadExtension),
            (State::Extension, b'\n' | 0) => return Err(ChunkError::BadExtension),
            (State::Extension, b'\r') if self.extension.may_end(strict) => self.state = State::SizeLf,
            (State::Extension, b'\r') => return Err(ChunkError::BadExtension),
            (State::Extension, _) if strict => {
                self.extension = self.extension.next(byte).ok_or(ChunkError::BadExtension)?;
            }
            (State::Extension, _) => self.extension = self.extension.next_between_quotes(byte),
            // White space goes before a semicolon only.
            (State::SizeSpace, b'\r') if strict => return Err(ChunkError::BadSize),
            (_, b'\r') if self.digits => self.state = State::SizeLf,
            (_, b';') if self.digits => {
                self.plain = false;
                self.state = State::Extension;
                self.extension = Extension::NameStart;
            }
            (_, b' ' | b'\t') if self.digits => {
                self.plain = false;
                self.state = State::SizeSpace;
            }
            (State::Size, _) => {
                let Some(digit) = (byte as char).to_digit(16) else {
                    return Err(ChunkError::BadSize);
                };
                // A needless zero makes a header longer, not different.
                self.plain &= !self.digits || self.size != 0;
                self.digits = true;
                self.size = self.size << 4 | u64::from(digit);
                if self.size > CHUNK_SIZE_MAX {
                    return Err(ChunkError::TooLarge);
                }
            }
            _ => return Err(ChunkError::BadSize),
        }
        Ok(false)
    }

    fn finish(
        &mut self,
        options: &ParseOptions,
        input: &[u8],
        trailers: &mut Head,
    ) -> Result<Option<usize>, ChunkError> {
        let trailer = |error: ParseError| ChunkError::Trailers(error.kind);
        match self.trailers.parse_trailers(options, input, trailers).map_err(trailer)? {
            Parsed::Partial => Ok(None),
            Parsed::Complete(len) => {
                self.state = State::Done;
                Ok(Some(len))
            }
        }
    }
}
