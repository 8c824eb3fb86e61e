//! Driving rustls through a handshake, one record at a time, and taking the keys out at its end.

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, TransmitTlsData, UnbufferedStatus};
use rustls::{CommonState, Error, HandshakeKind, PeerMisbehaved, ProtocolVersion};

use super::connection::Connection;
use super::record::{FRAGMENT_MAX, OVERHEAD_TLS13, record_length};
use crate::facts::Facts;
use crate::failure::{Failure, alert};
use crate::hello::record::{HEADER, content, grow};
use crate::notes::{self, Notes};

/// The most bytes that wait for a handshake, per connection, where the peer may send certificates: a message of 64 kB in small
/// records.
pub const HANDSHAKE_INPUT_MAX: usize = 160 * 1024;

/// The same of a client that has nothing large to send: a ClientHello, or what follows it where no certificate is asked for.
/// Nobody knows who that is, and there may be ten thousand of them.
pub const HELLO_INPUT_MAX: usize = 40 * 1024;

/// The most bytes of early data (0-RTT) that are taken, per connection.
pub const EARLY_DATA_MAX: usize = 16 * 1024;

/// The length of the record that ends early data: a message without a body (RFC 8446 section 4.5). rustls does not say whether a
/// server accepted early data, and writes this record if it did; no other one that a client encrypts in a handshake is as short.
const END_OF_EARLY_DATA: usize = OVERHEAD_TLS13 + 4;

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// More steps follow: now, if there is input for one, else when the peer sent more.
    More,
    /// The handshake is done: call `finish`.
    Done,
}

/// The end of a handshake.
#[derive(Debug)]
pub struct Connected {
    pub connection: Connection,
    pub facts: Facts,
    /// Bytes that came after the handshake and are not decrypted yet.
    pub rest: Vec<u8>,
    /// Early data of the client, decrypted. Where the handshake is complete, it is no replay.
    pub early: Vec<u8>,
}

/// What became of the early data that was to go with a ClientHello.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SentEarly {
    /// None was sent: there was none, or no session that allows it.
    #[default]
    Not,
    /// The first so many bytes were sent, and the server has not said what it does with them.
    Unanswered(usize),
    /// The server took the first so many bytes.
    Accepted(usize),
    /// The server threw it away, as if it had not been sent.
    Refused,
}

/// Either side of rustls.
pub(super) trait Shake: std::ops::Deref<Target = Self::Common> {
    type Data;
    type Common: std::ops::Deref<Target = CommonState>;
    fn process<'c, 'i>(&'c mut self, input: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;
    /// Takes early data that is ready.
    fn early_data(state: ConnectionState<'_, '_, Self::Data>, early: &mut Vec<u8>) -> Result<(), Failure>;
    /// All that was encoded is on its way; early data of ours may follow it.
    fn transmit(data: TransmitTlsData<'_, Self::Data>, gathered: &mut Gathered, out: &mut Vec<u8>);
}

impl Shake for UnbufferedServerConnection {
    type Data = ServerConnectionData;
    type Common = rustls::unbuffered::UnbufferedConnectionCommon<ServerConnectionData>;

    fn process<'c, 'i>(&'c mut self, input: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(input)
    }

    fn early_data(state: ConnectionState<'_, '_, Self::Data>, early: &mut Vec<u8>) -> Result<(), Failure> {
        let ConnectionState::ReadEarlyData(mut reader) = state else { return Err(Failure::Unexpected) };
        while let Some(record) = reader.next_record() {
            let record = record.map_err(|error| Failure::of(error, None))?;
            if early.len() + record.payload.len() > EARLY_DATA_MAX {
                return Err(Failure::TooMuchInput);
            }
            early.extend_from_slice(record.payload);
        }
        Ok(())
    }

    fn transmit(data: TransmitTlsData<'_, Self::Data>, _: &mut Gathered, _: &mut Vec<u8>) {
        data.done();
    }
}

impl Shake for UnbufferedClientConnection {
    type Data = ClientConnectionData;
    type Common = rustls::unbuffered::UnbufferedConnectionCommon<ClientConnectionData>;

    fn process<'c, 'i>(&'c mut self, input: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(input)
    }

    fn early_data(_: ConnectionState<'_, '_, Self::Data>, _: &mut Vec<u8>) -> Result<(), Failure> {
        Err(Failure::Unexpected)
    }

    fn transmit(mut data: TransmitTlsData<'_, Self::Data>, gathered: &mut Gathered, out: &mut Vec<u8>) {
        let plain = std::mem::take(&mut gathered.to_send_early);
        // One record, so that its length tells how much of it was allowed.
        let plain = &plain[..plain.len().min(FRAGMENT_MAX)];
        if let (false, Some(mut writer)) = (plain.is_empty(), data.may_encrypt_early_data()) {
            let start = out.len();
            out.resize(start + plain.len() + OVERHEAD_TLS13, 0);
            let written = writer.encrypt(plain, &mut out[start..]).unwrap_or(0);
            out.truncate(start + written);
            if let Some(sent @ 1..) = written.checked_sub(OVERHEAD_TLS13) {
                gathered.sent_early = SentEarly::Unanswered(sent);
            }
        }
        data.done();
    }
}

/// The bytes of a handshake that did not go through rustls yet.
#[derive(Debug)]
pub(super) struct Input {
    pub bytes: Vec<u8>,
    /// How many they may be at most, at once.
    pub limit: usize,
    /// How many of them rustls was shown: whole records.
    shown: usize,
}

impl Input {
    /// What rustls was not shown yet, which is left out.
    pub fn take_unseen(&mut self) -> Vec<u8> {
        self.bytes.split_off(self.shown)
    }

    pub fn new(limit: usize) -> Input {
        Input { bytes: Vec::new(), limit, shown: 0 }
    }

    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if self.bytes.len() + bytes.len() > self.limit {
            return Err(Failure::TooMuchInput);
        }
        grow(&mut self.bytes, bytes.len());
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn discard(&mut self, count: usize) {
        let count = count.min(self.shown);
        self.bytes.drain(..count);
        self.shown -= count;
    }

    /// Where the record ends that rustls was not shown yet, if it is there.
    pub fn next_record(&self) -> Result<Option<usize>, Failure> {
        let rest = &self.bytes[self.shown..];
        Ok(record_length(rest)?.filter(|length| *length <= rest.len()).map(|length| self.shown + length))
    }
}

/// What a handshake gathers on its way.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    pub notes: Notes,
    /// Early data of the client.
    pub early: Vec<u8>,
    /// Early data of ours that goes behind the ClientHello.
    pub to_send_early: Box<[u8]>,
    pub sent_early: SentEarly,
    pub server_random: [u8; 32],
    pub session_id: Vec<u8>,
    /// An alert of ours was written to the output.
    pub wrote_alert: bool,
    /// So was a ChangeCipherSpec: what follows is encrypted with TLS 1.2.
    pub wrote_change: bool,
}

/// Shows rustls one more record, if there is one, and does what it says until it wants the next.
pub(super) fn step<C: Shake>(
    conn: &mut C,
    input: &mut Input,
    gathered: &mut Gathered,
    out: &mut Vec<u8>,
) -> Result<Step, Failure> {
    if let Some(end) = input.next_record()? {
        note_server_hello(&input.bytes[input.shown..end], gathered);
        input.shown = end;
    }
    let (result, notes) = notes::during(|| turn(conn, input, gathered, out));
    if notes.peer.is_some() {
        gathered.notes.peer = notes.peer;
    }
    gathered.notes.secrets.extend(notes.secrets);
    result.map_err(|error| match error {
        Turn::Failed(failure) => failure,
        Turn::Refused(error) => {
            write_alerts(conn, input, gathered, out);
            let is_clear =
                conn.protocol_version() != Some(ProtocolVersion::TLSv1_3) && !gathered.wrote_change;
            if let (true, false, Some(description)) = (is_clear, gathered.wrote_alert, unsaid(&error)) {
                plain_alert(description, out);
                gathered.wrote_alert = true;
            }
            let verdict = gathered.notes.peer.as_ref().and_then(|peer| peer.verdict.fatal);
            Failure::of(error, verdict)
        }
    })
}

enum Turn {
    Failed(Failure),
    /// rustls refuses; an alert may wait inside of it.
    Refused(Error),
}

fn turn<C: Shake>(
    conn: &mut C,
    input: &mut Input,
    gathered: &mut Gathered,
    out: &mut Vec<u8>,
) -> Result<Step, Turn> {
    loop {
        let status = conn.process(&mut input.bytes[..input.shown]);
        let discard = status.discard;
        let outcome = match status.state {
            Ok(ConnectionState::EncodeTlsData(mut data)) => {
                encode(out, gathered, |room| data.encode(room));
                Ok(None)
            }
            Ok(ConnectionState::TransmitTlsData(data)) => {
                C::transmit(data, gathered, out);
                Ok(None)
            }
            Ok(ConnectionState::BlockedHandshake) => Ok(Some(Step::More)),
            Ok(ConnectionState::WriteTraffic(_)) => Ok(Some(Step::Done)),
            Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => Err(Turn::Failed(Failure::Closed)),
            Ok(state @ ConnectionState::ReadEarlyData(_)) => {
                C::early_data(state, &mut gathered.early).map(|()| None).map_err(Turn::Failed)
            }
            // Data comes after the handshake, and rustls is shown nothing that does.
            Ok(_) => Err(Turn::Failed(Failure::Unexpected)),
            Err(error) => Err(Turn::Refused(error)),
        };
        // rustls counts on this after errors, too: it remembers places in what it was shown.
        input.discard(discard);
        match outcome? {
            Some(Step::Done) if !conn.is_handshaking() => return Ok(Step::Done),
            Some(_) => return Ok(Step::More),
            None => {}
        }
    }
}

fn encode(
    out: &mut Vec<u8>,
    gathered: &mut Gathered,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, EncodeError>,
) {
    let start = out.len();
    let written = match write(&mut []) {
        Ok(written) => written,
        Err(EncodeError::InsufficientSize(needed)) => {
            out.resize(start + needed.required_size, 0);
            write(&mut out[start..]).unwrap_or(0)
        }
        Err(EncodeError::AlreadyEncoded) => 0,
    };
    out.truncate(start + written);
    let record = &out[start..];
    gathered.wrote_alert |= record.first() == Some(&content::ALERT);
    gathered.wrote_change |= record.first() == Some(&content::CHANGE_CIPHER_SPEC);
    if let SentEarly::Unanswered(sent) = gathered.sent_early
        && record.first() == Some(&content::APPLICATION_DATA)
        && record.len() == END_OF_EARLY_DATA
    {
        gathered.sent_early = SentEarly::Accepted(sent);
    }
    note_server_hello(record, gathered);
}

/// Takes the server's random bytes and session out of a ServerHello that passes in clear, in either direction. In an answer
/// to a first hello with the wrong key share the bytes are a constant, and the next ServerHello overwrites them.
fn note_server_hello(record: &[u8], gathered: &mut Gathered) {
    const SERVER_HELLO: u8 = 2;
    if record.first() != Some(&content::HANDSHAKE) || record.get(HEADER) != Some(&SERVER_HELLO) {
        return;
    }
    let Some(body) = record.get(HEADER + 4 + 2..) else { return };
    let Some((random, rest)) = body.split_at_checked(32) else { return };
    gathered.server_random.copy_from_slice(random);
    let Some((&length, rest)) = rest.split_first() else { return };
    gathered.session_id = rest.get(..usize::from(length)).unwrap_or_default().to_vec();
}

/// Writes what rustls wants to be sent after an error: the alert, and what it had ready before. Each call shows it what it
/// was shown, and none is made when it has nothing left: with less, or once more, it would look into the input again,
/// which it does not expect after an error, and panic.
fn write_alerts<C: Shake>(conn: &mut C, input: &mut Input, gathered: &mut Gathered, out: &mut Vec<u8>) {
    while conn.wants_write() {
        let status = conn.process(&mut input.bytes[..input.shown]);
        let discard = status.discard;
        let Ok(ConnectionState::EncodeTlsData(mut data)) = status.state else { return };
        encode(out, gathered, |room| data.encode(room));
        input.discard(discard);
    }
}

/// Encrypts data for a client whose handshake is not done: one record, to the front of `out`. Returns its length.
pub(super) fn seal<C: Shake>(
    conn: &mut C,
    input: &mut Input,
    plain: &[u8],
    out: &mut [u8],
) -> Result<usize, Failure> {
    let status = conn.process(&mut input.bytes[..input.shown]);
    let discard = status.discard;
    let written = match status.state {
        Ok(ConnectionState::WriteTraffic(mut traffic)) => {
            traffic.encrypt(plain, out).map_err(|_| Failure::Exhausted)
        }
        Ok(_) => Err(Failure::Unexpected),
        Err(error) => Err(Failure::of(error, None)),
    };
    input.discard(discard);
    written
}

/// The alert for what rustls refuses without a word: it has none for messages of TLS 1.2 that it cannot read.
fn unsaid(error: &Error) -> Option<u8> {
    match error {
        Error::InvalidMessage(_) => Some(alert::DECODE_ERROR),
        Error::InappropriateMessage { .. }
        | Error::InappropriateHandshakeMessage { .. }
        | Error::PeerMisbehaved(PeerMisbehaved::MessageInterleavedWithHandshakeMessage) => {
            Some(alert::UNEXPECTED_MESSAGE)
        }
        Error::PeerMisbehaved(_) => Some(alert::ILLEGAL_PARAMETER),
        _ => None,
    }
}

/// Writes an alert in clear, before there are keys.
pub(super) fn plain_alert(description: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(&[content::ALERT, 3, 3, 0, 2, 2, description]);
}

/// The facts that both sides have in common.
pub(super) fn facts(common: &CommonState, gathered: &mut Gathered) -> Facts {
    let noted = gathered.notes.peer.take().unwrap_or_default();
    Facts {
        version: common.protocol_version().unwrap_or(ProtocolVersion::TLSv1_2).into(),
        cipher: common.negotiated_cipher_suite().map_or(0, |suite| suite.suite().into()),
        group: common.negotiated_key_exchange_group().map(|group| group.name()),
        alpn: common.alpn_protocol().map(<[u8]>::to_vec),
        resumed: common.handshake_kind() == Some(HandshakeKind::Resumed),
        peer: noted.chain,
        root: noted.root,
        verdict: noted.verdict,
        server_random: gathered.server_random,
        session_id: std::mem::take(&mut gathered.session_id),
        secrets: std::mem::take(&mut gathered.notes.secrets),
        early_bytes: gathered.early.len(),
        ..Facts::default()
    }
}
