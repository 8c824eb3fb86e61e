//! The handshake with a client.

use std::sync::Arc;

use rustls::ProtocolVersion;
use rustls::server::{ServerConfig, UnbufferedServerConnection};

use super::connection::{Connection, Peer};
use super::handshake::{
    self, Connected, Gathered, HANDSHAKE_INPUT_MAX, HELLO_INPUT_MAX, Input, Step, plain_alert,
};
use super::record::Key;
use crate::bind::Served;
use crate::facts::{Facts, HelloFacts, Stapled};
use crate::failure::{Failure, Missing};
use crate::hello::record::{Assembler, first_message};
use crate::hello::{ClientHello, FALLBACK_SCSV, HelloError, MESSAGE_MAX, list16};
use crate::notes::Noted;
use crate::select::Selection;
use crate::verify::Code;
use crate::x509::Certificate;

/// A handshake with a client, in steps that the caller may run when it suits: one takes the time of a key exchange and a
/// signature at most.
///
/// Feed it what the client sends; while [`Accepting::is_ready`], call [`Accepting::step`] and send what it writes; after
/// [`Step::Done`] call [`Accepting::finish`]. After an error send what was written, too: the alert is in it.
#[derive(Debug)]
pub struct Accepting {
    selection: Arc<Selection>,
    input: Input,
    state: State,
    gathered: Gathered,
    /// What was known when it failed.
    known: Facts,
}

#[derive(Debug)]
enum State {
    /// The ClientHello is not whole yet.
    Hello {
        assembler: Assembler,
        complete: bool,
    },
    Running(Box<Running>),
    Failed,
}

struct Running {
    conn: UnbufferedServerConnection,
    served: Arc<Served>,
    client_random: [u8; 32],
    server_name: Option<Vec<u8>>,
    hello: Option<Box<HelloFacts>>,
    /// If this is no resumption.
    stapled: Stapled,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}

impl Running {
    /// What is known of the connection, which is told once.
    fn facts(&mut self, gathered: &mut Gathered) -> Facts {
        let known = handshake::facts(&self.conn, gathered);
        Facts {
            stapled: if known.resumed { Stapled::Unasked } else { self.stapled },
            server_name: self.server_name.clone(),
            own: Some(self.served.credential.leaf().clone()),
            own_name: Some(self.served.credential.name.clone()),
            client_random: self.client_random,
            hello: self.hello.take(),
            ..known
        }
    }
}

impl Accepting {
    /// A handshake for a client of a `bind` line with these certificates.
    pub fn new(selection: Arc<Selection>) -> Accepting {
        let state = State::Hello { assembler: Assembler::default(), complete: false };
        Accepting {
            selection,
            input: Input::new(HELLO_INPUT_MAX),
            state,
            gathered: Gathered::default(),
            known: Facts::default(),
        }
    }

    /// Takes bytes that the client sent. An error is written as an alert to `out`.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Failure> {
        let fed = self.input.feed(bytes).and_then(|()| match &mut self.state {
            State::Hello { assembler, complete } => {
                // The bytes of a hello in small records take more room than the hello; the hello itself has its own bound.
                const { assert!(MESSAGE_MAX < HELLO_INPUT_MAX) };
                let bytes = &self.input.bytes;
                *complete = assembler.advance(bytes).map_err(|error| {
                    Failure::Hello(match (error, bytes.get(1)) {
                        // A record of another kind.
                        (HelloError::NotTls, Some(3)) => HelloError::NotClientHello,
                        (HelloError::NotTls, _) if !is_http(bytes) => HelloError::BadRecord,
                        (error, _) => error,
                    })
                })?;
                Ok(())
            }
            State::Running(_) | State::Failed => Ok(()),
        });
        fed.inspect_err(|failure| self.fail(failure, out))
    }

    /// Whether there is input for a step.
    pub fn is_ready(&self) -> bool {
        match &self.state {
            State::Hello { complete, .. } => *complete,
            State::Running(_) => !matches!(self.input.next_record(), Ok(None)),
            State::Failed => false,
        }
    }

    /// Does one step of the handshake, and writes what is to be sent.
    pub fn step(&mut self, out: &mut Vec<u8>) -> Result<Step, Failure> {
        let stepped = self.begin().and_then(|()| match &mut self.state {
            State::Running(running) => {
                handshake::step(&mut running.conn, &mut self.input, &mut self.gathered, out)
            }
            State::Hello { .. } => Ok(Step::More),
            State::Failed => Err(Failure::Closed),
        });
        stepped.inspect_err(|failure| self.fail(failure, out))
    }

    /// Chooses certificate and options once the ClientHello is whole.
    fn begin(&mut self) -> Result<(), Failure> {
        let State::Hello { complete: true, .. } = &self.state else { return Ok(()) };
        let first = first_message(&self.input.bytes).map_err(Failure::Hello)?.ok_or(Failure::Unexpected)?;
        let hello = ClientHello::of(&first).map_err(Failure::Hello)?;
        if hello.renegotiates {
            // rustls does not look.
            return Err(Failure::Renegotiation);
        }
        let has_tls13 = hello.offers_version(ProtocolVersion::TLSv1_3.into());
        let served = self.selection.choose(&hello).ok_or(Failure::NoCertificate)?;
        if served.context.speaks_tls13() {
            match has_tls13 {
                true => has_all_of_tls13(&hello)?,
                false if list16(hello.ciphers).any(|suite| suite == FALLBACK_SCSV) => {
                    return Err(Failure::Fallback);
                }
                false => {}
            }
        }
        let mut config = served
            .config(served.context.order(&hello))
            .map_err(|error| Failure::Protocol(rustls::Error::General(error.to_string())))?;
        if !has_tls13 {
            config = served.config_before_tls13(&config).unwrap_or(config);
        }
        let ours = &config.alpn_protocols;
        let offers = hello.alpn.is_some();
        if offers
            && !ours.is_empty()
            && !hello.protocols().any(|theirs| ours.iter().any(|name| name == theirs))
        {
            // Nobody's protocol is spoken by both: the connection goes on without one, as in the reference. rustls would
            // refuse it (RFC 7301 section 3.2).
            let mut without = ServerConfig::clone(&config);
            without.alpn_protocols.clear();
            config = Arc::new(without);
        }
        if served.context.asks_for_certificates() {
            self.input.limit = HANDSHAKE_INPUT_MAX;
        }
        let conn = UnbufferedServerConnection::new(config).map_err(Failure::Protocol)?;
        let mut client_random = [0; 32];
        client_random.copy_from_slice(hello.random);
        let server_name = hello.server_name.map(<[u8]>::to_vec);
        let stapled = if hello.wants_ocsp { served.stapled() } else { Stapled::Unasked };
        let keep = served.context.shared().keep_hello;
        let hello = (keep > 0).then(|| Box::new(HelloFacts::of(&hello, keep)));
        self.state =
            State::Running(Box::new(Running { conn, served, client_random, server_name, hello, stapled }));
        Ok(())
    }

    /// Early data that came so far, decrypted. Whoever uses it before [`Step::Done`] must be ready for a replay.
    pub fn take_early_data(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.gathered.early)
    }

    /// Whether early data came that may be used before the handshake is done: see [`Accepting::into_early`]. Not where clients
    /// show certificates, which are verified at the end, nor where secrets are kept, some of which are made there.
    pub fn is_early(&self) -> bool {
        let State::Running(running) = &self.state else { return false };
        let context = &running.served.context;
        !self.gathered.early.is_empty()
            && running.conn.is_handshaking()
            && !context.asks_for_certificates()
            && !context.shared().keep_secrets
    }

    /// The connection of a client that sent [early data](Accepting::is_early), before its handshake is done.
    pub fn into_early(mut self) -> Result<Connected, Failure> {
        let State::Running(running) = &mut self.state else { return Err(Failure::Unexpected) };
        let facts = running.facts(&mut self.gathered);
        let early = self.take_early_data();
        let rest = self.input.take_unseen();
        Ok(Connected { connection: Connection::early(Box::new(self)), facts, rest, early })
    }

    /// Encrypts data for a client whose handshake is not done: one record, to the front of `out`. Returns its length.
    pub(super) fn seal(&mut self, plain: &[u8], out: &mut [u8]) -> Result<usize, Failure> {
        let State::Running(running) = &mut self.state else { return Err(Failure::Closed) };
        handshake::seal(&mut running.conn, &mut self.input, plain, out)
    }

    /// What is known of a handshake that is not done, or failed.
    pub fn so_far(&self) -> Facts {
        let peer = self.gathered.notes.peer.as_ref();
        let Noted { chain: peer, root, verdict } = peer.cloned().unwrap_or_default();
        Facts { peer, root, verdict, ..self.known.clone() }
    }

    fn fail(&mut self, failure: &Failure, out: &mut Vec<u8>) {
        if let State::Running(running) = &self.state {
            let conn = &running.conn;
            self.known = Facts {
                version: conn.protocol_version().map_or(0, u16::from),
                cipher: conn.negotiated_cipher_suite().map_or(0, |suite| suite.suite().into()),
                server_name: running.server_name.clone(),
                ..Facts::default()
            };
        }
        if let (Some(description), false) = (failure.alert(), self.gathered.wrote_alert) {
            // Before the keys are known the alert goes in clear. Later rustls wrote it, or the peer cannot read one.
            if matches!(self.state, State::Hello { .. }) {
                plain_alert(description, out);
            }
        }
        self.state = State::Failed;
        self.input = Input::new(0);
    }

    /// The connection, after [`Step::Done`]. A client that resumed a session is verified again here, with the lists and the
    /// time of now; an alert is written to `out` if it fails.
    pub fn finish(mut self, out: &mut Vec<u8>) -> Result<Connected, Failure> {
        let State::Running(mut running) = self.state else { return Err(Failure::Unexpected) };
        let Running { conn, served, .. } = &*running;
        let version = conn.protocol_version().unwrap_or(ProtocolVersion::TLSv1_2);
        if let (None, Some(chain)) = (&self.gathered.notes.peer, conn.peer_certificates()) {
            let parsed = chain.iter().map(|one| Certificate::parse(one).map(Arc::new)).collect();
            let chain: Vec<Arc<Certificate>> = Result::unwrap_or(parsed, Vec::new());
            let now = served.context.shared().clock.now() as i64;
            self.gathered.notes.peer = Some(served.context.verifier().verify(chain, now));
        }
        let facts = running.facts(&mut self.gathered);
        let (secrets, kernel) = running.conn.dangerous_into_kernel_connection().map_err(Failure::Protocol)?;
        let (tx, rx) = (Key::new(version, secrets.tx)?, Key::new(version, secrets.rx)?);
        let mut connection = Connection::new(tx, rx, Peer::Client(kernel), version);
        if let Some((code, leaf)) = facts.verdict.fatal {
            let mut alert = [0; 64];
            let written = connection.alert(alert_of(code), &mut alert)?;
            out.extend_from_slice(&alert[..written]);
            return Err(Failure::Certificate { code, leaf });
        }
        Ok(Connected { connection, facts, rest: self.input.bytes, early: self.gathered.early })
    }
}

/// RFC 8446 section 9.2: what a ClientHello of TLS 1.3 must have.
fn has_all_of_tls13(hello: &ClientHello<'_>) -> Result<(), Failure> {
    let missing = match (hello.groups, hello.key_shares, hello.signature_schemes) {
        (None, Some(_), _) => Missing::Groups,
        (Some(_), None, _) => Missing::Shares,
        (None, None, _) if !hello.has_psk => Missing::Groups,
        (_, _, None) if !hello.has_psk => Missing::Schemes,
        _ => return Ok(()),
    };
    Err(Failure::Missing(missing))
}

/// Whether somebody speaks HTTP where TLS is spoken: the words that OpenSSL looks for.
fn is_http(bytes: &[u8]) -> bool {
    [&b"GET "[..], b"POST ", b"HEAD ", b"PUT "].iter().any(|method| bytes.starts_with(method))
}

/// The alert for a certificate that is not accepted (RFC 8446 section 6.2).
fn alert_of(code: Code) -> u8 {
    match code {
        Code::EXPIRED | Code::NOT_YET_VALID => 45,
        Code::REVOKED => 44,
        Code::NO_LOCAL_ISSUER | Code::NO_ISSUER | Code::SELF_SIGNED_IN_CHAIN | Code::SELF_SIGNED_LEAF => 48,
        _ => 42,
    }
}
