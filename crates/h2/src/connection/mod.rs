//! One connection: what its frames do to streams, windows and settings (RFC 9113 sections 3, 5 and 6).
//!
//! The owner feeds it what it received ([`Connection::receive`]) and sends what it leaves in [`Connection::output`].
//! Events name streams by id and borrow what they carry. Nothing here waits, and nothing grows without a bound: control
//! frames that the peer does not take, header blocks, streams and cheap frames all end the connection when there are too
//! many, with the reason by name.

mod receive;
mod room;
mod send;
mod stream;
mod windows;

use std::cell::Cell;
use std::sync::Arc;

use thalweg_http::Head;

use crate::budget::{Abuse, Budget, Exhausted, Pace};
use crate::error::ErrorCode;
use crate::flow::{ReceiveWindow, SendWindow};
use crate::frame::{self, PREFACE};
use crate::hpack::table::TABLE_MAX;
use crate::hpack::{DecodeError, Decoder, Encoder, Strings};
use crate::message::{Malformed, Message, Scratch};
use crate::settings::{Change, Settings};

pub use room::Room;
pub use send::OpenError;
use stream::{Direction, NotAnnounced, Reset, Stream, Streams};

/// Which end of the connection this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It opens streams.
    Client,
    /// It serves them.
    Server,
}

/// What the owner decides about a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// What the peer is told. `max_concurrent_streams` is enforced, on what we open as well.
    pub settings: Settings,
    /// Octets of the connection's receive window, at least 65,535. The peer gets it once it sends data: many never do.
    pub window: u32,
    /// Octets that all streams together may have to keep, besides the initial window that each has: who sends a body gets
    /// most of what is left of them (`tune.h2.fe.rxbuf`).
    pub receive_shared: u32,
    /// Octets of dynamic table that we use at most for what we send.
    pub encoder_table: usize,
    /// Octets of payload from which on it is not copied into the output: its owner sends it from where it lies, behind the output
    /// and in frames whose headers it puts in front ([`Connection::leaves_apart`]).
    pub apart_min: usize,
    /// Fields of a header list.
    pub fields_max: usize,
    /// Octets of a head in HTTP/1 form (`tune.bufsize` less what rules may add).
    pub head_max: usize,
    /// Frames that are handled in one go; 0 for no limit. Then [`Connection::is_paused`] is true, and what is left of the input
    /// must be given again when others had their turn.
    pub frames_at_once: u32,
    /// The same for RST_STREAM frames.
    pub resets_at_once: u32,
    /// Streams over the life of the connection, then it is closed in order; 0 for no limit
    /// (`tune.h2.fe.max-total-streams`).
    pub streams_total_max: u32,
    /// Who opens streams was connected to by who serves them (reverse HTTP): the beginning of the connection is the other way round.
    pub reversed: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            settings: Settings {
                enable_push: false,
                max_concurrent_streams: Some(100),
                max_header_list_size: Some(16_384),
                ..Settings::default()
            },
            window: 65_535,
            receive_shared: 0,
            encoder_table: 4096,
            apart_min: usize::MAX,
            fields_max: 100,
            head_max: 16_384,
            frames_at_once: 0,
            resets_at_once: 0,
            streams_total_max: 0,
            reversed: false,
        }
    }
}

/// Something that happened.
#[derive(Debug)]
pub enum Event<'a> {
    /// A head: of a request (server; the stream is new), of an interim or final response (client). The owner may swap
    /// the head for one of its own.
    #[allow(missing_docs)]
    Head { stream: u32, head: &'a mut Head, message: Message, end: bool },
    /// A request that is malformed or too large: to be answered (400, 431) or, for what a client got, 502. The stream is
    /// open in our direction only.
    #[allow(missing_docs)]
    Refused { stream: u32, why: Malformed },
    /// Payload. Its window is given back by [`Connection::consumed`].
    #[allow(missing_docs)]
    Data { stream: u32, data: &'a [u8], end: bool },
    /// A trailer section; the stream ended with it.
    #[allow(missing_docs)]
    Trailers { stream: u32, trailers: &'a mut Head },
    /// The stream was ended, by the peer or for its errors.
    #[allow(missing_docs)]
    Reset { stream: u32, code: ErrorCode, by_peer: bool },
    /// More may be sent on a stream whose owner found no room.
    #[allow(missing_docs)]
    Room { stream: u32 },
    /// The peer will take no new streams; those above `last` were not processed and may be sent again elsewhere.
    #[allow(missing_docs)]
    Goaway { last: u32, code: ErrorCode },
    /// The peer answered a [`Connection::ping`].
    Pong,
    /// The peer's first settings came.
    Ready,
}

/// Takes events as they happen.
pub trait Handler {
    /// Something happened.
    fn on(&mut self, event: Event<'_>);

    /// A frame came. Few want to know of each.
    #[inline]
    fn frame(&mut self, _: &frame::Header) {}
}

impl<F: FnMut(Event<'_>)> Handler for F {
    fn on(&mut self, event: Event<'_>) {
        self(event)
    }
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The first octets are not HTTP/2.
    Preface,
    /// The first frame is not a SETTINGS frame.
    NoSettings,
    /// A frame that is longer than was allowed, or has a length that it cannot have.
    FrameSize,
    /// A frame that may not come here.
    UnexpectedFrame,
    /// A stream id that the peer may not use.
    StreamId,
    /// A frame of a stream that ended.
    StreamClosed,
    /// More data than the window allows, or a window that is too large.
    FlowControl,
    /// A header block that cannot be decoded.
    Compression(DecodeError),
    /// A header block that is too long.
    BlockTooLong,
    /// Padding that is longer than the frame.
    Padding,
    /// A setting with a value that it cannot have.
    BadSetting(ErrorCode),
    /// Too much of what costs the peer nothing.
    Abuse(Abuse),
    /// The peer does not take the control frames that it asks for.
    NotReading,
}

impl Failure {
    /// The code of the GOAWAY frame.
    pub fn code(self) -> ErrorCode {
        match self {
            Failure::Preface | Failure::NoSettings | Failure::UnexpectedFrame => ErrorCode::ProtocolError,
            Failure::StreamId | Failure::Padding => ErrorCode::ProtocolError,
            Failure::FrameSize => ErrorCode::FrameSizeError,
            Failure::StreamClosed => ErrorCode::StreamClosed,
            Failure::FlowControl => ErrorCode::FlowControlError,
            Failure::Compression(_) => ErrorCode::CompressionError,
            Failure::BadSetting(code) => code,
            Failure::BlockTooLong | Failure::Abuse(_) | Failure::NotReading => ErrorCode::EnhanceYourCalm,
        }
    }
}

/// What a connection is ended for that the RFC does not forbid: too much of what it allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// The budget is used up.
    Abuse(Abuse),
    /// A header block is too long, or a bomb.
    BlockTooLong,
    /// Answers wait that the peer does not read.
    NotReading,
    /// More breaches than the configuration allows (`tune.h2.fe.glitches-threshold`).
    Glitches,
}

impl Excess {
    /// How many there are.
    pub const COUNT: usize = Abuse::COUNT + 3;

    /// Its place among all, below [`Excess::COUNT`]: what cost points comes first, in the order of [`Abuse`].
    pub fn index(self) -> usize {
        match self {
            Excess::Abuse(abuse) => abuse as usize,
            Excess::BlockTooLong => Abuse::COUNT,
            Excess::NotReading => Abuse::COUNT + 1,
            Excess::Glitches => Abuse::COUNT + 2,
        }
    }
}

impl Failure {
    /// What there was too much of, unless the peer broke the protocol.
    pub fn excess(self) -> Option<Excess> {
        match self {
            Failure::Abuse(abuse) => Some(Excess::Abuse(abuse)),
            Failure::BlockTooLong => Some(Excess::BlockTooLong),
            Failure::NotReading => Some(Excess::NotReading),
            _ => None,
        }
    }
}

/// What a connection ended for that the RFC does not forbid, in the words of the log.
impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Abuse(abuse) => write!(f, "too many {abuse}"),
            Failure::BlockTooLong => f.write_str("a header block is too long"),
            Failure::NotReading => f.write_str("answers to what it sends are not read"),
            other => write!(f, "{}", other.code()),
        }
    }
}

impl From<Exhausted> for Failure {
    fn from(exhausted: Exhausted) -> Failure {
        Failure::Abuse(exhausted.0)
    }
}

/// How many frames of some kinds a connection saw since this was last asked, and what it had to refuse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Streams that were opened, by either side.
    pub streams: u32,
    /// HEADERS frames that came.
    pub headers: u32,
    /// DATA frames that came.
    pub data: u32,
    /// SETTINGS frames that came, acknowledgements included.
    pub settings: u32,
    /// RST_STREAM frames that came.
    pub resets: u32,
    /// GOAWAY frames that came.
    pub goaways: u32,
    /// Breaches that ended the connection.
    pub connection_errors: u32,
    /// Breaches that ended a stream.
    pub stream_errors: u32,
    /// RST_STREAM frames that were sent.
    pub resets_sent: u32,
    /// GOAWAY frames that were sent.
    pub goaways_sent: u32,
}

/// Octets of control frames that wait because the peer does not read.
const OUTPUT_MAX: usize = 256 * 1024;

/// What the next octets are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Preface,
    Settings,
    Frames,
}

/// The DATA frame whose payload is being received.
#[derive(Clone, Copy, Debug)]
struct DataFrame {
    stream: u32,
    /// Octets of payload to come, padding not counted.
    left: u32,
    /// Octets of padding behind them.
    padding: u8,
    end: bool,
    /// Nobody wants it.
    ignored: bool,
}

/// A header block that goes on in CONTINUATION frames.
struct Block {
    stream: u32,
    end: bool,
    frames: u32,
    bytes: Vec<u8>,
}

/// What header blocks are read into, and written.
#[derive(Default)]
struct Spare {
    head: Head,
    scratch: Scratch,
    strings: Strings,
    block: Vec<u8>,
}

thread_local! {
    /// Lent to each block, which is done with before another one is: one for all connections of a thread, most of which wait. Boxed,
    /// so that a word is moved for that.
    static SPARE: Cell<Option<Box<Spare>>> = const { Cell::new(None) };
}

/// The longest written block whose memory is kept for the next one.
const SPARE_BLOCK_MAX: usize = 16 * 1024;

/// See the module's documentation. Most of them wait: what is rare is boxed, and what only streams need is
/// [given back](Connection::rest).
pub struct Connection {
    role: Role,
    expected: Expected,
    /// Our settings were acknowledged.
    acknowledged: bool,
    /// The frame that came last has to do with a header block.
    in_head: bool,
    failed: Option<Failure>,
    /// Shared by all connections that have the same.
    config: Arc<Config>,
    decoder: Decoder,
    encoder: Encoder,
    remote: Settings,
    streams: Streams,
    /// Until one was reset there are none.
    reset: Option<Box<Reset>>,
    send: SendWindow,
    receive: ReceiveWindow,
    data: Option<DataFrame>,
    block: Option<Box<Block>>,
    /// The largest id the peer used.
    last_remote: u32,
    /// The next id we use.
    next_local: u32,
    streams_total: u32,
    /// The peer said that it takes no streams above this one.
    goaway_received: Option<u32>,
    /// We said so.
    goaway_sent: Option<u32>,
    budget: Budget,
    pace: Pace,
    tally: Tally,
    /// Frames and resets that may still be handled in this go.
    turn: (u32, u32),
    output: Vec<u8>,
}

impl Connection {
    /// A connection on which nothing was exchanged yet; its first frames are in the output.
    pub fn new(role: Role, config: impl Into<Arc<Config>>, now_ms: u64) -> Connection {
        let config = config.into();
        let mut output = Vec::with_capacity(256);
        let connected = (role == Role::Client) != config.reversed;
        if connected {
            output.extend_from_slice(PREFACE);
        }
        let mut told = config.settings;
        // Only servers may offer CONNECT with a protocol, only clients may speak of push. Who is what has to settle first where the
        // roles change.
        told.enable_push |= role == Role::Server || config.reversed;
        told.enable_connect_protocol &= role == Role::Server;
        told.header_table_size = told.header_table_size.min(TABLE_MAX as u32);
        frame::put_settings(&mut output, told.changes());
        Connection {
            role,
            expected: if connected { Expected::Settings } else { Expected::Preface },
            acknowledged: false,
            in_head: false,
            failed: None,
            // Until our settings are acknowledged the peer may use what the RFC gives it.
            decoder: Decoder::new(4096, config.head_max),
            encoder: Encoder::new(config.encoder_table),
            remote: Settings::default(),
            streams: Streams::default(),
            reset: None,
            send: SendWindow::new(65_535),
            receive: ReceiveWindow::new(65_535),
            data: None,
            block: None,
            last_remote: 0,
            next_local: if role == Role::Client { 1 } else { 2 },
            streams_total: 0,
            goaway_received: None,
            goaway_sent: None,
            budget: Budget::new(now_ms),
            pace: Pace::new(now_ms),
            tally: Tally::default(),
            turn: (u32::MAX, u32::MAX),
            output,
            config,
        }
    }

    /// Frames to send, in order. The owner takes them out as it sends them.
    #[inline]
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// Streams that are open in some direction.
    pub fn open_streams(&self) -> usize {
        self.streams.len()
    }

    /// What the peer told.
    pub fn remote_settings(&self) -> &Settings {
        &self.remote
    }

    /// How often the peer did what it should not (`fc_glitches`).
    pub fn glitches(&self) -> u32 {
        self.budget.glitches()
    }

    /// Whether the frame that was looked at last began or continued a header block: if the connection failed, a message did.
    pub fn is_in_head(&self) -> bool {
        self.in_head
    }

    /// Why the connection ended, if it did.
    pub fn failure(&self) -> Option<Failure> {
        self.failed
    }

    /// What was counted since this was last asked.
    pub fn take_tally(&mut self) -> Tally {
        std::mem::take(&mut self.tally)
    }

    /// Whether the stream is one that we reset not long ago.
    fn was_reset(&self, id: u32) -> bool {
        self.reset.as_ref().is_some_and(|reset| reset.contains(id))
    }

    fn note_reset(&mut self, id: u32) {
        self.reset.get_or_insert_with(|| Box::new(Reset::new())).add(id);
    }

    fn put_reset(&mut self, id: u32, code: ErrorCode) {
        self.tally.resets_sent += 1;
        frame::put_reset(&mut self.output, id, code);
    }

    fn put_goaway(&mut self, last: u32, code: ErrorCode) {
        self.tally.goaways_sent += 1;
        frame::put_goaway(&mut self.output, last, code, b"");
    }

    /// Whether the last input was left because of its many frames.
    pub fn is_paused(&self) -> bool {
        self.turn.0 == 0 || self.turn.1 == 0
    }

    /// Until when nothing of what comes is handled, because the peer sends more small frames than is reasonable.
    #[inline]
    pub fn rests_until(&self, now_ms: u64) -> Option<u64> {
        self.pace.rests_until(now_ms)
    }

    /// Whether the connection ends when its last stream does.
    pub fn is_closing(&self) -> bool {
        self.goaway_sent.is_some_and(|last| last != i32::MAX as u32)
            || self.goaway_received.is_some()
            || self.failed.is_some()
    }

    /// How many more streams may be opened now, by a client.
    pub fn openable(&self) -> usize {
        if self.is_closing() || self.next_local > i32::MAX as u32 {
            return 0;
        }
        // What we would take from the peer, we do not exceed either.
        let allowed = [self.remote.max_concurrent_streams, self.config.settings.max_concurrent_streams];
        let max = allowed.into_iter().flatten().min().map_or(usize::MAX, |max| max as usize);
        max.saturating_sub(self.streams.len())
    }

    fn new_stream(&mut self, id: u32, incoming: Direction) -> &mut Stream {
        // Until the peer acknowledged our settings it may have sent by the RFC's window, which is never less than ours
        // allows it to send without knowing them.
        let receive = self.config.settings.initial_window.max(if self.acknowledged { 0 } else { 65_535 });
        self.streams.insert(Stream {
            id,
            incoming,
            outgoing: Direction::Head,
            send: SendWindow::new(self.remote.initial_window),
            receive: ReceiveWindow::new(receive),
            expected: None,
            bodiless: false,
            unconsumed: 0,
            blocked: false,
        });
        self.streams_total = self.streams_total.saturating_add(1);
        self.tally.streams += 1;
        // It was just inserted.
        self.streams.get_mut(id).expect("the stream was inserted")
    }

    /// Whether an id belongs to streams that the peer opens.
    fn is_remote(&self, id: u32) -> bool {
        (id % 2 == 1) == (self.role == Role::Server)
    }

    /// Whether no frame opened the stream yet.
    fn is_unused(&self, id: u32) -> bool {
        if self.is_remote(id) { id > self.last_remote } else { id >= self.next_local }
    }
}

#[cfg(test)]
mod tests;
