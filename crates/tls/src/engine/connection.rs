//! A connection after its handshake.

use std::ops::Range;

use rustls::ProtocolVersion;
use rustls::client::ClientConnectionData;
use rustls::kernel::KernelConnection;
use rustls::server::ServerConnectionData;

use super::accept::Accepting;
use super::handshake::Step;
use super::record::{FRAGMENT_MAX, Key, OVERHEAD_TLS13, record_length};
use crate::failure::{Failure, alert};
use crate::hello::record::content;

/// How many records in a row may carry nothing for us: empty ones, warnings, key updates, session tickets. rustls and
/// OpenSSL draw the same line at 32 for empty ones.
pub const WARNINGS_MAX: u8 = 32;

/// The largest handshake message that is taken after the handshake: a session ticket.
const MESSAGE_MAX: usize = 0xffff;

/// The type of the handshake message that announces a new key (RFC 8446 section 4).
const KEY_UPDATE: u8 = 24;

/// The most bytes of our own that wait to be sent: a key update and an alert.
const REPLY_MAX: usize = 96;

/// What rustls keeps for later: making new keys, and for clients storing sessions.
pub(super) enum Peer {
    Client(KernelConnection<ServerConnectionData>),
    Server(KernelConnection<ClientConnectionData>),
}

/// What records are encrypted with.
#[allow(clippy::large_enum_variant)] // Nearly all connections are that large.
enum Keys {
    Agreed(Agreed),
    /// The client sent data ahead, and its handshake is not done yet: rustls has the keys. `None` when it failed.
    Early(Option<Box<Accepting>>),
}

/// The keys of a connection whose handshake is done.
struct Agreed {
    tx: Key,
    rx: Key,
    peer: Peer,
}

/// A connection that exchanges data. Once its handshake is done, it allocates nothing per record.
///
/// - In: [`Connection::open`] decrypts a record where it lies.
/// - Out: [`Connection::seal`] encrypts pieces of plaintext into the caller's buffer; [`Connection::close`] says that no
///   more comes.
/// - Replies to the peer's key updates, and tickets for a client, wait inside and go out with the next call of `seal`, or of
///   [`Connection::reply`] when there is nothing to send.
///
/// A client that resumes a session may send data ahead ([`Accepting::into_early`]). It is answered before its handshake is done;
/// until [`Connection::is_complete`] what it sent may be what somebody else sends once more.
pub struct Connection {
    keys: Keys,
    version: ProtocolVersion,
    /// Records in a row that carried nothing for us.
    idle_records: u8,
    closed: bool,
    reply: Reply,
    /// What rustls wrote at the end of the handshake and nobody waits for, to be sent before the reply: tickets, or an alert.
    waiting: Vec<u8>,
    /// A handshake message that is not whole yet. Nearly always empty, and then without memory.
    message: Vec<u8>,
}

/// Bytes of ours that wait.
struct Reply {
    bytes: [u8; REPLY_MAX],
    length: u8,
    /// A key update waits: one is enough, however many the peer asks for (RFC 8446 section 4.6.3).
    has_update: bool,
}

/// What was in a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Plaintext, at this place of the input.
    Data(Range<usize>),
    /// Nothing for the caller. There may be a reply to send.
    Nothing,
    /// Nothing for the caller either: the peer has a new key. There may be a reply to send.
    KeyUpdate,
    /// The peer said that no more comes. Bytes after this record do not count.
    Closed,
}

/// One record was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// How many bytes of the input it took.
    pub consumed: usize,
    pub event: Event,
}

/// Plaintext was sealed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sealed {
    /// How many bytes of plaintext were taken.
    pub taken: usize,
    /// How many bytes of the output were written.
    pub written: usize,
}

impl Connection {
    pub(super) fn new(tx: Key, rx: Key, peer: Peer, version: ProtocolVersion) -> Connection {
        Connection::with_keys(Keys::Agreed(Agreed { tx, rx, peer }), version)
    }

    /// One whose handshake is not done.
    pub(super) fn early(accepting: Box<Accepting>) -> Connection {
        Connection::with_keys(Keys::Early(Some(accepting)), ProtocolVersion::TLSv1_3)
    }

    fn with_keys(keys: Keys, version: ProtocolVersion) -> Connection {
        let reply = Reply { bytes: [0; REPLY_MAX], length: 0, has_update: false };
        let (waiting, message) = (Vec::new(), Vec::new());
        Connection { keys, version, idle_records: 0, closed: false, reply, waiting, message }
    }

    /// Whether the handshake is done, as it is with all connections but those of clients that sent data ahead.
    #[inline]
    pub fn is_complete(&self) -> bool {
        matches!(self.keys, Keys::Agreed(_))
    }

    fn agreed(&mut self) -> Result<&mut Agreed, Failure> {
        match &mut self.keys {
            Keys::Agreed(agreed) => Ok(agreed),
            Keys::Early(_) => Err(Failure::Unexpected),
        }
    }

    /// Decrypts the record at the front of `input`. `Ok(None)` asks for more bytes.
    ///
    /// After an error nothing more can be read; [`Connection::alert`] tells the peer.
    pub fn open(&mut self, input: &mut [u8]) -> Result<Option<Opened>, Failure> {
        if self.closed {
            return Ok(Some(Opened { consumed: input.len(), event: Event::Closed }));
        }
        let Some(length) = record_length(input)? else { return Ok(None) };
        let Some(record) = input.get_mut(..length) else { return Ok(None) };
        let Keys::Agreed(Agreed { rx, .. }) = &mut self.keys else {
            let event = self.open_early(record)?;
            return Ok(Some(Opened { consumed: length, event }));
        };
        let (kind, range) = rx.open(record)?;
        let event = match kind {
            // A handshake message must not be interrupted (RFC 8446 section 5.1).
            _ if !self.message.is_empty() && kind != content::HANDSHAKE => return Err(Failure::Unexpected),
            content::APPLICATION_DATA if !range.is_empty() => {
                self.idle_records = 0;
                Event::Data(range)
            }
            content::APPLICATION_DATA => self.idle()?,
            content::ALERT => self.alert_received(&record[range])?,
            content::HANDSHAKE => self.handshake_received(&record[range])?,
            _ => return Err(Failure::Unexpected),
        };
        Ok(Some(Opened { consumed: length, event }))
    }

    /// Shows rustls one record of a client whose handshake is not done. What it says is put where the record was.
    #[cold]
    fn open_early(&mut self, record: &mut [u8]) -> Result<Event, Failure> {
        let Keys::Early(kept) = &mut self.keys else { return Err(Failure::Unexpected) };
        let mut accepting = kept.take().ok_or(Failure::Closed)?;
        accepting.feed(record, &mut self.waiting)?;
        let mut done = false;
        while !done && accepting.is_ready() {
            done = accepting.step(&mut self.waiting)? == Step::Done;
        }
        let early = accepting.take_early_data();
        match done {
            true => self.keys = accepting.finish(&mut self.waiting)?.connection.keys,
            false => *kept = Some(accepting),
        }
        if early.is_empty() {
            return self.idle();
        }
        self.idle_records = 0;
        let place = record.get_mut(..early.len()).ok_or(Failure::Overflow)?;
        place.copy_from_slice(&early);
        Ok(Event::Data(0..early.len()))
    }

    fn idle(&mut self) -> Result<Event, Failure> {
        self.idle_records += 1;
        if self.idle_records > WARNINGS_MAX { Err(Failure::Flood) } else { Ok(Event::Nothing) }
    }

    fn alert_received(&mut self, body: &[u8]) -> Result<Event, Failure> {
        let &[level, description] = body else { return Err(Failure::Unexpected) };
        if description == alert::CLOSE_NOTIFY {
            self.closed = true;
            return Ok(Event::Closed);
        }
        // Levels have no meaning any more in TLS 1.3: all but these two end the connection.
        let is_warning = match self.version {
            ProtocolVersion::TLSv1_3 => description == alert::USER_CANCELED,
            _ => level == 1,
        };
        if is_warning { self.idle() } else { Err(Failure::Alert(description)) }
    }

    fn handshake_received(&mut self, body: &[u8]) -> Result<Event, Failure> {
        if body.is_empty() {
            return Err(Failure::Unexpected);
        }
        let mut event = self.idle()?;
        let mut gathered = std::mem::take(&mut self.message);
        gathered.extend_from_slice(body);
        let mut rest = gathered.as_slice();
        while let [kind, a, b, c, after @ ..] = rest {
            let length = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
            if length > MESSAGE_MAX {
                return Err(Failure::TooMuchInput);
            }
            let Some(body) = after.get(..length) else { break };
            rest = &after[length..];
            self.message_received(*kind, body, rest.is_empty())?;
            if *kind == KEY_UPDATE {
                event = Event::KeyUpdate;
            }
        }
        let read = gathered.len() - rest.len();
        gathered.drain(..read);
        if !gathered.is_empty() {
            self.message = gathered;
        }
        Ok(event)
    }

    fn message_received(&mut self, kind: u8, body: &[u8], is_last: bool) -> Result<(), Failure> {
        const HELLO_REQUEST: u8 = 0;
        const CLIENT_HELLO: u8 = 1;
        const SESSION_TICKET: u8 = 4;
        let tls13 = self.version == ProtocolVersion::TLSv1_3;
        match (kind, &mut self.agreed()?.peer) {
            (KEY_UPDATE, _) if tls13 => self.key_updated(body, is_last),
            (SESSION_TICKET, Peer::Server(kernel)) if tls13 => {
                kernel.handle_new_session_ticket(body).map_err(|error| Failure::of(error, None))
            }
            // A renegotiation, which is refused as OpenSSL refuses it: with a warning, and life goes on.
            (CLIENT_HELLO, Peer::Client(_)) | (HELLO_REQUEST, Peer::Server(_)) if !tls13 => {
                self.queue(content::ALERT, &[1, alert::NO_RENEGOTIATION])
            }
            _ => Err(Failure::Unexpected),
        }
    }

    fn key_updated(&mut self, body: &[u8], is_last: bool) -> Result<(), Failure> {
        let requested = update_requested(body)?;
        // What follows in the same record was encrypted with the key that has just ended.
        if !is_last {
            return Err(Failure::Unexpected);
        }
        let version = self.version;
        let Agreed { rx, peer, .. } = self.agreed()?;
        let update = match peer {
            Peer::Client(kernel) => kernel.update_rx_secret(),
            Peer::Server(kernel) => kernel.update_rx_secret(),
        };
        *rx = Key::new(version, update.map_err(|error| Failure::of(error, None))?)?;
        if requested && !self.reply.has_update { self.renew(false) } else { Ok(()) }
    }

    /// Makes a new key for what we send, and lets the peer know with the next bytes that go out. Only TLS 1.3 can; the keys
    /// are renewed by themselves before they have protected as much as they may.
    pub fn refresh(&mut self) -> Result<(), Failure> {
        if self.agreed()?.tx.is_tls13() { self.renew(false) } else { Err(Failure::Exhausted) }
    }

    /// As [`Connection::refresh`], and asks the peer for the same.
    pub fn refresh_both(&mut self) -> Result<(), Failure> {
        if self.agreed()?.tx.is_tls13() { self.renew(true) } else { Err(Failure::Exhausted) }
    }

    /// Tells the peer that the next record has another key, and makes it; `asks` it to do the same.
    fn renew(&mut self, asks: bool) -> Result<(), Failure> {
        self.queue(content::HANDSHAKE, &[KEY_UPDATE, 0, 0, 1, asks.into()])?;
        self.reply.has_update = true;
        let version = self.version;
        let Agreed { tx, peer, .. } = self.agreed()?;
        let update = match peer {
            Peer::Client(kernel) => kernel.update_tx_secret(),
            Peer::Server(kernel) => kernel.update_tx_secret(),
        };
        *tx = Key::new(version, update.map_err(|error| Failure::of(error, None))?)?;
        Ok(())
    }

    /// Encrypts a small message of ours, to be sent before anything else. When there is no room the peer asked for more than
    /// it takes.
    fn queue(&mut self, kind: u8, body: &[u8]) -> Result<(), Failure> {
        let start = usize::from(self.reply.length);
        let Keys::Agreed(Agreed { tx, .. }) = &mut self.keys else { return Err(Failure::Unexpected) };
        let room = &mut self.reply.bytes[start..];
        if room.len() < body.len() + tx.overhead() {
            return Err(Failure::Flood);
        }
        let written = tx.seal(kind, body.len(), room, |to| to.copy_from_slice(body))?;
        self.reply.length += written as u8;
        Ok(())
    }

    /// Keeps what the last step of a client's handshake wrote, to go with what is sent next, if the client can do without: the
    /// tickets of TLS 1.3. Before that version the handshake ends with these bytes, and they stay in `out`.
    pub fn keep(&mut self, out: &mut Vec<u8>) {
        if self.version == ProtocolVersion::TLSv1_3 && self.is_complete() {
            self.waiting.append(out);
        }
    }

    /// Whether bytes of ours wait that the peer asked for; tickets can go with what is sent next.
    #[inline]
    pub fn is_asked(&self) -> bool {
        self.reply.length != 0
    }

    /// Whether bytes of ours wait to be sent.
    #[inline]
    pub fn has_reply(&self) -> bool {
        self.reply_length() != 0
    }

    /// How many they are.
    #[inline]
    pub fn reply_length(&self) -> usize {
        self.waiting.len() + usize::from(self.reply.length)
    }

    /// Moves the waiting bytes to the front of `out`, all or, when there is no room, none. Returns how many.
    pub fn reply(&mut self, out: &mut [u8]) -> usize {
        let length = self.reply_length();
        let Some(room) = out.get_mut(..length) else { return 0 };
        let (first, then) = room.split_at_mut(self.waiting.len());
        first.copy_from_slice(&self.waiting);
        then.copy_from_slice(&self.reply.bytes[..usize::from(self.reply.length)]);
        self.waiting = Vec::new();
        self.reply.length = 0;
        self.reply.has_update = false;
        length
    }

    /// How much output `seal` needs for this much plaintext, in records of at most `fragment` bytes.
    pub fn sealed_length(&self, plain: usize, fragment: usize) -> usize {
        let overhead = match &self.keys {
            Keys::Agreed(Agreed { tx, .. }) => tx.overhead(),
            Keys::Early(_) => OVERHEAD_TLS13,
        };
        self.waiting.len() + plain + plain.div_ceil(fragment.clamp(1, FRAGMENT_MAX)) * overhead
    }

    /// Encrypts the pieces, one after the other, as if they were one: records of at most `fragment` bytes, as many as fit
    /// into `out`. A head and a body make one record together.
    pub fn seal(&mut self, pieces: &[&[u8]], fragment: usize, out: &mut [u8]) -> Result<Sealed, Failure> {
        let fragment = fragment.clamp(1, FRAGMENT_MAX);
        let total: usize = pieces.iter().map(|piece| piece.len()).sum();
        let mut sealed = Sealed::default();
        if let Keys::Agreed(Agreed { tx, .. }) = &self.keys
            && tx.is_tls13()
            && tx.is_nearly_used_up()
            && !self.has_reply()
        {
            self.renew(false)?;
        }
        if self.has_reply() {
            sealed.written = self.reply(out);
            if sealed.written == 0 {
                return Ok(sealed);
            }
        }
        let mut source = Pieces { pieces, index: 0, at: 0 };
        while sealed.taken < total {
            let to = &mut out[sealed.written..];
            let left = fragment.min(total - sealed.taken);
            let (taken, written) = match &mut self.keys {
                Keys::Agreed(Agreed { tx, .. }) => {
                    let length = left.min(to.len().saturating_sub(tx.overhead()));
                    if length == 0 {
                        break;
                    }
                    (length, tx.seal(content::APPLICATION_DATA, length, to, |plain| source.copy(plain))?)
                }
                Keys::Early(accepting) => {
                    let mut plain = vec![0; left];
                    source.copy(&mut plain);
                    (left, accepting.as_mut().ok_or(Failure::Closed)?.seal(&plain, to)?)
                }
            };
            sealed.taken += taken;
            sealed.written += written;
        }
        Ok(sealed)
    }

    /// Writes `close_notify`: no more comes from us. Returns the bytes written, 0 when there is no room, or the handshake is not
    /// done.
    pub fn close(&mut self, out: &mut [u8]) -> Result<usize, Failure> {
        self.alert(alert::CLOSE_NOTIFY, out)
    }

    /// Writes an alert. Returns the bytes written, 0 when there is no room, or the handshake is not done: rustls writes what is to
    /// be said of that.
    pub fn alert(&mut self, description: u8, out: &mut [u8]) -> Result<usize, Failure> {
        let waiting = self.reply_length();
        let Ok(Agreed { tx, .. }) = self.agreed() else { return Ok(0) };
        if out.len() < waiting + 2 + tx.overhead() {
            return Ok(0);
        }
        let written = self.reply(out);
        let level = if description == alert::CLOSE_NOTIFY { 1 } else { 2 };
        let body = [level, description];
        let tx = &mut self.agreed()?.tx;
        Ok(written + tx.seal(content::ALERT, 2, &mut out[written..], |to| to.copy_from_slice(&body))?)
    }

    /// Whether the peer said that no more comes.
    pub fn is_closed(&self) -> bool {
        self.closed
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("version", &self.version).finish_non_exhaustive()
    }
}

/// Walks over pieces of plaintext.
struct Pieces<'a> {
    pieces: &'a [&'a [u8]],
    index: usize,
    at: usize,
}

impl Pieces<'_> {
    fn copy(&mut self, mut to: &mut [u8]) {
        while !to.is_empty() {
            let rest = &self.pieces[self.index][self.at..];
            let count = rest.len().min(to.len());
            let (now, later) = to.split_at_mut(count);
            now.copy_from_slice(&rest[..count]);
            to = later;
            self.at += count;
            if self.at == self.pieces[self.index].len() {
                self.index += 1;
                self.at = 0;
            }
        }
    }
}

/// Whether the sender of a KeyUpdate wants one, too (RFC 8446 section 4.6.3).
fn update_requested(body: &[u8]) -> Result<bool, Failure> {
    match body {
        [0] => Ok(false),
        [1] => Ok(true),
        [_] => Err(Failure::Illegal),
        _ => Err(Failure::WrongLength),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_updates_ask_for_one_or_are_none() {
        let of = |body: &[u8]| update_requested(body).map_err(|failure| failure.alert().unwrap());
        assert_eq!((of(&[0]), of(&[1])), (Ok(false), Ok(true)));
        assert_eq!(of(&[2]), Err(alert::ILLEGAL_PARAMETER));
        for body in [&[][..], &[0, 0], &[1, 0, 0]] {
            assert_eq!(of(body), Err(alert::DECODE_ERROR), "{body:?}");
        }
    }
}
