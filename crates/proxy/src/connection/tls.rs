//! A connection whose bytes are encrypted, after its handshake.
//!
//! What was received is decrypted where it lies, and what one receive brought in several records is given as one piece. What
//! is sent, head and body together, is encrypted into one buffer and sent with one call. Nothing is allocated per record: the
//! buffers are those of the pools.
//!
//! An end that the peer did not announce (`close_notify`) is none: whoever cuts a connection could make a message that ends
//! with it look complete. It is told as an error.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use thalweg_runtime::buffer::{Buf, default_size};
use thalweg_runtime::clock;
use thalweg_runtime::net::Stream;
use thalweg_runtime::timer;
use thalweg_sample::facts::TlsFacts;
use thalweg_shared::AtomicU32;
use thalweg_tls::engine::{Connection, Event, FRAGMENT_MAX, RECORD_MAX};
use thalweg_tls::{Failure, alert};

use crate::instance::Live;
use crate::plant::bug;
use crate::rate::Window;

/// After this much in one go a peer that reads it is past its slow start: records grow to their full size, which costs less.
const GROWS_AFTER: u64 = 64 * 1024;

/// A connection that was silent for as long begins again with small records: its congestion window has shrunk, too.
const SHRINKS_AFTER_MS: u64 = 1000;

/// How long a client may say nothing after its handshake before it has its tickets.
const SILENCE_MS: u64 = 5;

/// Room for an alert, besides what waits to be said first.
const ALERT_ROOM: usize = 128;

/// The most receives that look whether an idle connection has anything to say but tickets and key updates.
const LOOKS_MAX: usize = 4;

/// How large the records are that we send (`tune.ssl.maxrecord`, `tune.ssl.hard-maxrecord`), and how often a peer may change
/// its key (`tune.ssl.keyupdate-rate-limit`).
#[derive(Clone, Copy, Debug)]
pub struct RecordLimits {
    /// Most plaintext bytes at first.
    first: usize,
    /// And later.
    later: usize,
    /// Key updates of the peer per second; 0 for no limit.
    key_updates: u32,
}

impl RecordLimits {
    /// From the numbers of the configuration, of which 0 says nothing.
    pub fn new(max: usize, hard_max: usize, key_updates: u32) -> RecordLimits {
        let or_full = |size: usize| if size == 0 { FRAGMENT_MAX } else { size.min(FRAGMENT_MAX) };
        let later = or_full(hard_max);
        RecordLimits { first: or_full(max).min(later), later, key_updates }
    }
}

/// Connections of this process on which TLS is spoken now.
static OPEN: AtomicU32 = AtomicU32::new(0);

/// How many they are.
pub fn open() -> u32 {
    OPEN.load(Ordering::Relaxed)
}

/// Counts one for as long as it lives.
struct Open(());

impl Open {
    fn new() -> Open {
        OPEN.fetch_add(1, Ordering::Relaxed);
        Open(())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A place below `maxsslconn`, for as long as this lives. Connections with clients have theirs from where they are accepted.
pub struct Place(Arc<Live>);

impl Place {
    /// A place, if one is left.
    pub fn take(live: &Arc<Live>) -> Option<Place> {
        live.tls_gate.try_enter().then(|| Place(Arc::clone(live)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.tls_gate.leave();
    }
}

/// See the module's documentation.
pub struct Tls {
    stream: Stream,
    connection: Connection,
    /// Received and not decrypted: a record that is not whole, or records for which there was no room.
    sealed: Option<Buf>,
    /// What was received behind that.
    next: Option<Buf>,
    /// Decrypted and not given to the reader.
    opened: Option<Buf>,
    /// When whoever says nothing has what nobody asked for. Once something was decrypted it goes with the answer to that.
    silence: Silence,
    limits: RecordLimits,
    /// When the peer changed its key.
    key_updates: Window,
    /// What is known of a server, for all streams that use the connection.
    pub facts: Option<Rc<TlsFacts>>,
    /// Its place among those that may be, if it is one with a server.
    pub place: Option<Place>,
    open: Open,
    /// Sent since the connection was silent last.
    sent_in_a_row: u64,
    end: End,
    /// Nothing can be sent any more.
    broken: bool,
    /// What is wrong with what came, behind what was given to the reader. The reader has heard of it when the connection is broken.
    failed: Option<Failure>,
}

/// What a connection is without its socket: it may go to another thread.
pub struct Sealing {
    connection: Connection,
    /// Decrypted and not given to the reader.
    opened: Vec<u8>,
    limits: RecordLimits,
    key_updates: Window,
    facts: Option<TlsFacts>,
    place: Option<Place>,
    open: Open,
    sent_in_a_row: u64,
}

impl Sealing {
    /// Whether nothing is there that the reader did not take.
    pub fn is_silent(&self) -> bool {
        self.opened.is_empty()
    }

    /// The connection, on its socket again. `sealed`: received and not decrypted.
    pub fn on(self, stream: Stream, sealed: Option<Buf>) -> Tls {
        Tls {
            stream,
            connection: self.connection,
            sealed,
            next: None,
            opened: (!self.opened.is_empty()).then(|| Buf::copy_of(&self.opened)),
            silence: Silence::Heard,
            limits: self.limits,
            key_updates: self.key_updates,
            facts: self.facts.map(Rc::new),
            place: self.place,
            open: self.open,
            sent_in_a_row: self.sent_in_a_row,
            end: End::Open,
            broken: false,
            failed: None,
        }
    }
}

/// Whether the peer said anything yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Silence {
    /// It did.
    Heard,
    /// Not yet, and nobody has waited for it.
    Fresh,
    /// Not yet; it has what waits for it at this millisecond.
    Until(u64),
}

/// How far our direction's end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Open,
    /// The next send brings it with it.
    WithNextSend,
    /// It waits for a send that is on its way.
    Due,
    /// The peer was told.
    Told,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tls({:?})", self.stream)
    }
}

impl Tls {
    /// What a handshake gave: the connection, what came behind the handshake undecrypted (`rest`), and data that came with
    /// it (`early`).
    pub fn new(
        stream: Stream,
        connection: Connection,
        rest: &[u8],
        early: &[u8],
        limits: RecordLimits,
    ) -> Tls {
        let some = |bytes: &[u8]| (!bytes.is_empty()).then(|| Buf::copy_of(bytes));
        Tls {
            stream,
            connection,
            sealed: some(rest),
            next: None,
            opened: some(early),
            silence: if early.is_empty() { Silence::Fresh } else { Silence::Heard },
            limits,
            key_updates: Window::default(),
            facts: None,
            place: None,
            open: Open::new(),
            sent_in_a_row: 0,
            end: End::Open,
            broken: false,
            failed: None,
        }
    }

    /// Takes the connection off its thread: its socket, what was received and not decrypted, and all else. `None`, and it is
    /// closed, when something is on its way or it is about to end.
    pub fn into_sealing(self) -> Option<(OwnedFd, Vec<u8>, Sealing)> {
        if self.end != End::Open || self.broken || self.failed.is_some() || self.is_early() {
            return None;
        }
        let (fd, ahead) = self.stream.into_fd().ok()?;
        let sealed: Vec<u8> =
            self.sealed.iter().chain(&self.next).chain(&ahead).flat_map(|buf| buf.iter().copied()).collect();
        let sealing = Sealing {
            connection: self.connection,
            opened: self.opened.as_deref().unwrap_or_default().to_vec(),
            limits: self.limits,
            key_updates: self.key_updates,
            facts: self.facts.map(|facts| TlsFacts { known: facts.known.clone(), failure: None }),
            place: self.place,
            open: self.open,
            sent_in_a_row: self.sent_in_a_row,
        };
        Some((fd, sealed, sealing))
    }

    /// The socket below.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// The same, for its options.
    pub fn stream_mut(&mut self) -> &mut Stream {
        &mut self.stream
    }

    /// See [`Stream::poll_recv`]. An error besides those: what came is no TLS, or the peer cut the connection.
    pub fn poll_recv(&mut self, max: usize) -> Poll<io::Result<Buf>> {
        let max = max.max(1);
        self.send_what_is_due();
        loop {
            if let Some(buf) = self.opened.take() {
                return Poll::Ready(Ok(self.up_to(buf, max)));
            }
            if self.connection.is_closed() {
                return Poll::Ready(Ok(Buf::empty()));
            }
            if let Some(buf) = self.open(max)? {
                return Poll::Ready(Ok(self.up_to(buf, max)));
            }
            if self.connection.is_closed() {
                continue;
            }
            if let Some(next) = self.next.take() {
                self.take_in(next);
                continue;
            }
            let more = match self.stream.poll_recv(max) {
                Poll::Pending => {
                    self.answer_silence();
                    return Poll::Pending;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(more)) => more,
            };
            if more.is_empty() {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
            self.take_in(more);
        }
    }

    /// At most `max` of these bytes; the others wait.
    fn up_to(&mut self, mut buf: Buf, max: usize) -> Buf {
        if buf.len() <= max {
            return buf;
        }
        let first = buf.split_to(max);
        self.opened = Some(buf);
        first
    }

    /// Puts received bytes behind those of a record that is not whole. What belongs to that record is copied to it, so that
    /// the rest can stay where it is.
    fn take_in(&mut self, mut more: Buf) {
        let Some(mut begun) = self.sealed.take().filter(|begun| !begun.is_empty()) else {
            self.sealed = Some(more);
            return;
        };
        let mut header = [0; 5];
        let known = begun.iter().chain(more.iter()).copied();
        let known = header.iter_mut().zip(known).map(|(to, from)| *to = from).count();
        let length = if known == header.len() { record_length(&header) } else { header.len() };
        let missing = length.saturating_sub(begun.len()).min(more.len());
        if begun.is_from_ring() || begun.spare() < missing {
            let mut record = buffer_for_record(length.max(begun.len() + missing));
            // It has room for the whole record.
            let _ = record.extend_from_slice(&begun);
            begun = record;
        }
        let _ = begun.extend_from_slice(&more[..missing]);
        more.advance(missing);
        self.sealed = Some(begun);
        self.next = (!more.is_empty() && !bug("record-lost")).then_some(more);
    }

    /// Decrypts the whole records that are there, up to `max` bytes and one record. None: there is no data in them.
    fn open(&mut self, max: usize) -> io::Result<Option<Buf>> {
        if let Some(failure) = self.failed.take() {
            return Err(self.fail(failure));
        }
        let Some(mut buf) = self.sealed.take() else { return Ok(None) };
        let was_early = self.is_early();
        // Plaintext is gathered at the front, behind what was decrypted before; a record is longer than what is in it.
        let (mut at, mut start, mut end) = (0, 0, 0);
        let mut failure = None;
        while at < buf.len() && (end - start < max || end == start) {
            match self.connection.open(&mut buf[at..]) {
                Ok(None) => break,
                Ok(Some(opened)) => {
                    match opened.event {
                        Event::Data(range) => {
                            let (from, to) = (at + range.start, at + range.end);
                            if end == start {
                                // The first needs not be moved.
                                (start, end) = (from, to);
                            } else {
                                buf.copy_within(from..to, end);
                                end += to - from;
                            }
                        }
                        Event::KeyUpdate if self.has_too_many_keys() => {
                            failure = Some(Failure::Flood);
                            break;
                        }
                        Event::KeyUpdate | Event::Nothing | Event::Closed => {}
                    }
                    at += opened.consumed;
                    if self.connection.is_closed() {
                        // Bytes behind the end do not count.
                        at = buf.len();
                    }
                }
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        // Who sent data ahead may have been answered before there were tickets.
        if self.connection.is_asked() || was_early || failure.is_some() {
            self.answer();
        }
        if end > start {
            self.silence = Silence::Heard;
            let rest = &buf[at..];
            // What was good comes first.
            self.failed = failure;
            if self.failed.is_none() && !rest.is_empty() {
                self.sealed = Some(kept(rest));
            }
            buf.truncate(end);
            buf.advance(start);
            return Ok(Some(buf));
        }
        if let Some(failure) = failure {
            return Err(self.fail(failure));
        }
        buf.advance(at);
        if !buf.is_empty() {
            self.sealed = Some(buf);
        }
        Ok(None)
    }

    /// Counts a key update of the peer: whether it changes its key more often than it may.
    #[cold]
    fn has_too_many_keys(&mut self) -> bool {
        let rate = self.key_updates.count(clock::now_ms());
        self.limits.key_updates != 0 && rate > self.limits.key_updates
    }

    /// Sends a reply to a key update, or tickets, now or with what is sent next.
    fn answer(&mut self) {
        if !self.connection.has_reply() || !matches!(self.stream.poll_send_ready(), Poll::Ready(Ok(()))) {
            return;
        }
        let mut out = buffer_for(self.connection.reply_length());
        let written = self.connection.reply(out.unused_mut());
        out.commit(written);
        if written > 0 {
            self.stream.start_send(out);
        }
    }

    /// Whoever says nothing after the handshake has its tickets soon: it may be waiting for us, and be gone before we have
    /// anything else to say. Not at once, as a request is nearly always right behind the handshake, and a packet of their own
    /// costs what the symmetric cryptography of a whole connection does not.
    fn answer_silence(&mut self) {
        if !self.connection.has_reply() {
            return;
        }
        let now = clock::now_ms();
        let at = match self.silence {
            Silence::Heard => return,
            Silence::Fresh => now + SILENCE_MS,
            Silence::Until(at) => at,
        };
        self.silence = Silence::Until(at);
        if now < at { timer::want(at) } else { self.answer() }
    }

    /// Whether the client's handshake is not done: what it sent ahead may be what somebody else sends once more.
    #[inline]
    pub fn is_early(&self) -> bool {
        !self.connection.is_complete()
    }

    /// Ready when the handshake is done. What comes meanwhile waits for the reader.
    ///
    /// # Errors
    /// The peer left, or it failed.
    pub fn poll_complete(&mut self) -> Poll<io::Result<()>> {
        while self.is_early() {
            if let Some(data) = self.open(RECORD_MAX)? {
                // All early data together is no more than a record.
                let all = [self.opened.as_deref().unwrap_or_default(), &data].concat();
                self.opened = Some(Buf::copy_of(&all));
            } else if self.is_early() {
                let more = match self.next.take() {
                    Some(next) => next,
                    None => match self.stream.poll_recv(RECORD_MAX) {
                        Poll::Pending => return Poll::Pending,
                        Poll::Ready(more) => more?,
                    },
                };
                if more.is_empty() {
                    return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
                }
                self.take_in(more);
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Nothing is sent or received any more: the peer did something wrong, or says that we did.
    #[cold]
    fn fail(&mut self, failure: Failure) -> io::Error {
        if let Some(description) = failure.alert() {
            self.tell(description);
        }
        self.end = End::Told;
        self.broken = true;
        let error = io::Error::new(io::ErrorKind::InvalidData, failure.to_string());
        self.failed = Some(failure);
        error
    }

    /// Why nothing is sent or received any more, if it was TLS that failed.
    pub fn failure(&self) -> Option<&Failure> {
        self.failed.as_ref().filter(|_| self.broken)
    }

    /// Tells the peer what it did wrong, if that can be done at once.
    fn tell(&mut self, description: u8) {
        if self.end != End::Told && matches!(self.stream.poll_send_ready(), Poll::Ready(Ok(()))) {
            self.say(description);
        }
    }

    /// Sends an alert, behind what waits to be said first.
    fn say(&mut self, description: u8) {
        let mut out = buffer_for(self.connection.reply_length() + ALERT_ROOM);
        if let Ok(written @ 1..) = self.connection.alert(description, out.unused_mut()) {
            out.commit(written);
            self.stream.start_send(out);
        }
    }

    /// See [`Stream::poll_send_ready`].
    pub fn poll_send_ready(&mut self) -> Poll<io::Result<()>> {
        if self.end == End::Due {
            self.send_what_is_due();
        }
        if self.end == End::Due && self.is_early() {
            // The end waits for the handshake.
            return Poll::Pending;
        }
        if self.broken {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        self.stream.poll_send_ready()
    }

    /// See [`Stream::start_send2`], of any number of parts.
    pub fn start_send(&mut self, parts: &[&[u8]]) {
        let plain = parts.iter().map(|part| part.len()).sum();
        if plain == 0 {
            return;
        }
        debug_assert!(matches!(self.end, End::Open | End::WithNextSend), "nothing is sent after the end");
        let fragment = self.fragment();
        // What waits to be said first, and the end behind it, are small.
        let mut out = buffer_for(self.connection.sealed_length(plain, fragment) + 256);
        let sealed = self.connection.seal(parts, fragment, out.unused_mut());
        match sealed {
            Ok(sealed) if sealed.taken == plain => out.commit(sealed.written),
            // The keys are used up, which TLS 1.2 cannot mend.
            _ => {
                self.broken = true;
                return;
            }
        }
        self.sent_in_a_row += plain as u64;
        if self.end == End::WithNextSend && self.is_early() {
            self.end = End::Due;
        } else if self.end == End::WithNextSend {
            self.end = End::Told;
            let closed = self.connection.close(out.unused_mut());
            out.commit(closed.unwrap_or(0));
            self.stream.end_with_next_send();
        }
        self.stream.start_send(out);
    }

    /// How large the next records are.
    fn fragment(&mut self) -> usize {
        if self.limits.first == self.limits.later {
            return self.limits.later;
        }
        let silent = clock::now_ms().saturating_sub(self.stream.last_sent_ms());
        if silent > SHRINKS_AFTER_MS {
            self.sent_in_a_row = 0;
        }
        if self.sent_in_a_row < GROWS_AFTER { self.limits.first } else { self.limits.later }
    }

    /// See [`Stream::end_with_next_send`].
    pub fn end_with_next_send(&mut self) {
        if self.end == End::Open {
            self.end = End::WithNextSend;
        }
    }

    /// The connection will end without an announcement.
    pub fn leave_without_a_word(&mut self) {
        self.end = End::Told;
    }

    /// Tells the peer that no more comes, and ends this direction of the connection below, once what was handed over is sent.
    pub fn shutdown_write(&mut self) -> io::Result<()> {
        match self.end {
            End::Told => return self.stream.shutdown_write(),
            End::Due => return Ok(()),
            End::Open | End::WithNextSend => self.end = End::Due,
        }
        self.send_what_is_due();
        Ok(())
    }

    fn send_what_is_due(&mut self) {
        if self.end != End::Due {
            return;
        }
        // The end is told when the handshake is done, or will not be.
        match self.poll_complete() {
            Poll::Pending => return,
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(_)) => self.broken = true,
        }
        if self.stream.poll_send_ready().is_pending() {
            return;
        }
        self.end = End::Told;
        if !self.broken && !bug("close-unsaid") {
            self.say(alert::CLOSE_NOTIFY);
        }
        // Whether the peer is still there to hear of it is not known.
        let _ = self.stream.shutdown_write();
    }

    /// See [`Stream::discard_input`].
    pub fn discard_input(&mut self, max: usize) -> usize {
        (self.sealed, self.next, self.opened) = (None, None, None);
        self.stream.discard_input(max)
    }

    /// See [`Stream::in_flight`].
    pub fn in_flight(&self) -> usize {
        self.stream.in_flight() + usize::from(self.end == End::Due)
    }

    /// See [`Stream::has_input_now`]. Tickets and key updates, which a peer sends when it likes, are taken and are no input.
    pub fn has_input_now(&mut self) -> bool {
        for _ in 0..LOOKS_MAX {
            if self.opened.is_some() || self.failed.is_some() {
                return true;
            }
            if self.has_sealed() {
                match self.open(RECORD_MAX) {
                    Ok(None) if !self.has_sealed() && !self.connection.is_closed() => {}
                    // The beginning of something, or the end.
                    Ok(None) => return true,
                    Ok(Some(buf)) => {
                        self.opened = Some(buf);
                        return true;
                    }
                    Err(_) => return true,
                }
            }
            if !self.stream.has_input_now() {
                return false;
            }
            match self.stream.poll_recv(RECORD_MAX) {
                Poll::Pending => return false,
                Poll::Ready(Ok(more)) if !more.is_empty() => self.take_in(more),
                Poll::Ready(_) => return true,
            }
        }
        true
    }

    /// See [`Stream::ask_input`].
    pub fn ask_input(&mut self) -> bool {
        if self.opened.is_some() || self.has_sealed() || self.stream.ask_input() {
            return true;
        }
        self.answer_silence();
        false
    }

    fn has_sealed(&self) -> bool {
        self.sealed.is_some() || self.next.is_some()
    }
}

/// An empty buffer for this many bytes that leave at once.
fn buffer_for(length: usize) -> Buf {
    let pooled = if length <= default_size() { Buf::from_reserve() } else { Buf::bulk() };
    pooled.filter(|buf| buf.spare() >= length).unwrap_or_else(|| Buf::large(length))
}

/// An empty buffer for a record that may take long to come: no bulk buffer, of which there are few.
fn buffer_for_record(length: usize) -> Buf {
    let pooled = if length <= default_size() { Buf::with_capacity_default() } else { None };
    pooled.filter(|buf| buf.spare() >= length).unwrap_or_else(|| Buf::large(length))
}

/// A copy of the beginning of records, with room for all of the first.
fn kept(bytes: &[u8]) -> Buf {
    let length = bytes.first_chunk().map_or(0, record_length);
    let mut buf = buffer_for_record(length.max(bytes.len()));
    let _ = buf.extend_from_slice(bytes);
    buf
}

/// The length of a record by its header; a length that no record has is refused where records are opened.
fn record_length(header: &[u8; 5]) -> usize {
    (header.len() + usize::from(u16::from_be_bytes([header[3], header[4]]))).min(RECORD_MAX)
}
