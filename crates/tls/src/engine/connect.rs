//! The handshake with a server.

use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::{Error, PeerMisbehaved, ProtocolVersion};

use super::connection::{Connection, Peer};
use super::handshake::{self, Connected, Gathered, Input, SentEarly, Step};
use super::record::Key;
use crate::facts::Facts;
use crate::failure::Failure;
use crate::server::{NAMELESS, ServerContext};
use crate::verify::Verdict;
use crate::x509::Certificate;

/// A handshake with a server, in steps; see [`super::Accepting`]. The first step needs no input: it writes the
/// ClientHello.
pub struct Connecting {
    conn: Box<UnbufferedClientConnection>,
    input: Input,
    gathered: Gathered,
    begun: bool,
    context: Arc<ServerContext>,
    server_name: Option<Vec<u8>>,
    client_random: [u8; 32],
}

impl std::fmt::Debug for Connecting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connecting").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}

/// A name that cannot be sent in SNI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadName(pub Vec<u8>);

impl std::fmt::Display for BadName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "'{}' is no host name that SNI can carry", String::from_utf8_lossy(&self.0))
    }
}

impl std::error::Error for BadName {}

impl Connecting {
    /// A handshake with a server of this line, which is told this name (`sni`), or none, and offered these protocols, or
    /// those of the line.
    pub fn new(
        context: Arc<ServerContext>,
        server_name: Option<&[u8]>,
        protocols: Option<&[Vec<u8>]>,
    ) -> Result<Connecting, Failure> {
        Connecting::with_early_data(context, server_name, protocols, Box::default())
    }

    /// The same, and `early` goes with the ClientHello if a session with the server is resumed that allows it (0-RTT), as far
    /// as there is room for it: [`Connecting::sent_early`] tells. Whoever listens on the way can have the server process it
    /// again, so it must be harmless.
    pub fn with_early_data(
        context: Arc<ServerContext>,
        server_name: Option<&[u8]>,
        protocols: Option<&[Vec<u8>]>,
        early: Box<[u8]>,
    ) -> Result<Connecting, Failure> {
        let name = match server_name {
            None => None,
            Some(bytes) => {
                let text = std::str::from_utf8(bytes).ok();
                let name = text.and_then(|text| ServerName::try_from(text.to_owned()).ok());
                // An address is not sent (RFC 6066 section 3), but the certificate must have it.
                match name.filter(|name| *name != ServerName::from(NAMELESS)) {
                    // Where anybody is believed, a name that cannot be sent is not sent.
                    None if !context.is_strict() => None,
                    None => {
                        let bad = BadName(bytes.to_vec()).to_string();
                        return Err(Failure::Protocol(rustls::Error::General(bad)));
                    }
                    name => name,
                }
            }
        };
        let conn = context.begin(name, protocols, !early.is_empty()).map_err(Failure::Protocol)?;
        Ok(Connecting {
            conn: Box::new(conn),
            input: Input::new(handshake::HANDSHAKE_INPUT_MAX),
            gathered: Gathered { to_send_early: early, ..Gathered::default() },
            begun: false,
            context,
            server_name: server_name.map(<[u8]>::to_vec),
            client_random: [0; 32],
        })
    }

    /// Takes bytes that the server sent.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.input.feed(bytes)
    }

    /// Whether there is something to do.
    pub fn is_ready(&self) -> bool {
        !self.begun || !matches!(self.input.next_record(), Ok(None))
    }

    /// Does one step of the handshake, and writes what is to be sent; after an error, too.
    pub fn step(&mut self, out: &mut Vec<u8>) -> Result<Step, Failure> {
        let (is_first, start) = (!std::mem::replace(&mut self.begun, true), out.len());
        let stepped = handshake::step(&mut *self.conn, &mut self.input, &mut self.gathered, out);
        // The ClientHello goes out in clear: header, type and length, version, random bytes.
        if is_first && let Some(random) = out.get(start + 11..start + 43) {
            self.client_random.copy_from_slice(random);
        }
        if let Err(Failure::Protocol(Error::PeerMisbehaved(
            PeerMisbehaved::OfferedEarlyDataWithOldProtocolVersion,
        ))) = stepped
        {
            // A server that knows no TLS 1.3 cannot read it.
            self.gathered.sent_early = SentEarly::Refused;
        }
        stepped
    }

    /// What became of the early data, as far as that is known: before the handshake is done, nobody knows whether the server
    /// processed what it was sent.
    pub fn sent_early(&self) -> SentEarly {
        match self.gathered.sent_early {
            // The handshake came to its end without it, so that it was thrown away (RFC 8446 section 4.2.10).
            SentEarly::Unanswered(_) if !self.conn.is_handshaking() => SentEarly::Refused,
            known => known,
        }
    }

    /// What is known of a server whose handshake failed.
    pub fn peer(&self) -> Option<(&[Arc<Certificate>], Verdict)> {
        self.gathered.notes.peer.as_ref().map(|noted| (noted.chain.as_slice(), noted.verdict))
    }

    /// The connection, after [`Step::Done`].
    pub fn finish(mut self) -> Result<Connected, Failure> {
        let version = self.conn.protocol_version().unwrap_or(ProtocolVersion::TLSv1_2);
        if self.gathered.notes.peer.is_none() {
            let sent = self.conn.peer_certificates().unwrap_or_default();
            let chain = sent.iter().filter_map(|one| Certificate::parse(one).ok()).map(Arc::new).collect();
            self.gathered.notes.peer = Some(crate::notes::Noted { chain, ..Default::default() });
        }
        let own = self.context.own();
        let facts = Facts {
            server_name: self.server_name.take(),
            client_random: self.client_random,
            own: own.map(|credential| credential.leaf().clone()),
            own_name: own.map(|credential| credential.name.clone()),
            ..handshake::facts(&self.conn, &mut self.gathered)
        };
        let (secrets, kernel) = self.conn.dangerous_into_kernel_connection().map_err(Failure::Protocol)?;
        let (tx, rx) = (Key::new(version, secrets.tx)?, Key::new(version, secrets.rx)?);
        let connection = Connection::new(tx, rx, Peer::Server(kernel), version);
        Ok(Connected { connection, facts, rest: self.input.bytes, early: Vec::new() })
    }
}
