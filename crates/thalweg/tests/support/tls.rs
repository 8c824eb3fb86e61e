//! TLS for the black-box tests: authorities made on the spot, and both ends of a handshake on a test's connections.

use std::io;
use std::path::Path;
use std::sync::Arc;

use thalweg_tls::bind::{BindContext, Profile, Served, Shared};
use thalweg_tls::certificate::{Credential, LoadOptions, Loader};
use thalweg_tls::engine::{Accepting, Connected, Connecting, Connection, Event, SentEarly, Step};
use thalweg_tls::facts::Facts;
use thalweg_tls::files::Disk;
use thalweg_tls::select::Selection;
use thalweg_tls::server::{ServerContext, ServerProfile};
use thalweg_tls::session::{SessionCache, TicketKeys};
use thalweg_tls::x509::Certificate;
use thalweg_tls::x509::make::{MadeKey, NewKey, Template};
use thalweg_tls::{Failure, SystemClock, pem};

use super::{Conn, Directory};

/// In seconds.
pub const DAY: i64 = 86_400;

/// Seconds since 1970.
pub fn now() -> i64 {
    thalweg_tls::Clock::now(&SystemClock) as i64
}

/// A certificate that is in force from yesterday on for a year.
pub fn template(common_name: &str) -> Template {
    Template::new(common_name, now() - DAY, now() + 365 * DAY)
}

/// An authority, and a directory with its certificate (`ca.pem`) and those that it issued.
pub struct Authority {
    pub directory: Directory,
    pub name: Vec<u8>,
    pub key: MadeKey,
    pub certificate: Arc<Certificate>,
}

impl Authority {
    pub fn new(common_name: &str) -> Authority {
        let key = MadeKey::generate(NewKey::P256).unwrap();
        let template = template(common_name).ca(None);
        let der = template.sign(&key, &template.subject, &key).unwrap();
        let directory = Directory::new();
        std::fs::write(directory.0.join("ca.pem"), pem::encode("CERTIFICATE", &der)).unwrap();
        let certificate = Arc::new(Certificate::parse(&der).unwrap());
        Authority { directory, name: template.subject.clone(), key, certificate }
    }

    /// Issues a certificate for a host, with its key in the same file; the file's path.
    pub fn issue(&self, host: &str) -> String {
        self.issue_as(&format!("{host}.pem"), &template(host).hosts(&[host]))
    }

    pub fn issue_as(&self, file: &str, template: &Template) -> String {
        let key = MadeKey::generate(NewKey::P256).unwrap();
        let der = template.sign(&key, &self.name, &self.key).unwrap();
        let text = pem::encode("CERTIFICATE", &der) + &pem::encode("PRIVATE KEY", key.pkcs8());
        std::fs::write(self.directory.0.join(file), text).unwrap();
        self.path(file)
    }

    /// The path of a file of its directory.
    pub fn path(&self, file: &str) -> String {
        self.directory.0.join(file).to_str().unwrap().to_owned()
    }
}

fn load(path: &str) -> Arc<Credential> {
    let options = LoadOptions::default();
    let loader = Loader { files: &Disk, options: &options };
    assert!(Path::new(path).exists(), "{path}");
    Arc::new(loader.load(path).unwrap_or_else(|error| panic!("{error}")))
}

/// A client that believes anybody, with these changes.
pub fn client(change: impl FnOnce(&mut ServerProfile)) -> Arc<ServerContext> {
    let mut profile = ServerProfile::default();
    change(&mut profile);
    Arc::new(ServerContext::new(&profile, Arc::new(SystemClock)).unwrap())
}

/// A certificate for a client's profile.
pub fn client_credential(path: &str) -> Option<Arc<Credential>> {
    Some(load(path))
}

/// A client that shows this certificate.
pub fn client_with(path: &str) -> Arc<ServerContext> {
    client(|profile| profile.own = client_credential(path))
}

/// A server with this certificate, with these changes.
pub fn server(path: &str, change: impl FnOnce(&mut Profile)) -> Arc<Selection> {
    let clock = Arc::new(SystemClock);
    let mut profile = Profile::default();
    change(&mut profile);
    let shared = Shared {
        clock: clock.clone(),
        tickets: Some(Arc::new(TicketKeys::generate(clock.clone()).unwrap())),
        cache: Arc::new(SessionCache::new(100, 300, clock)),
        lifetime: 300,
        keep_secrets: false,
        keep_hello: 0,
    };
    let context = Arc::new(BindContext::new(&profile, shared).unwrap());
    let mut selection = Selection::new(false);
    selection.add(Arc::new(Served::new(load(path), context)), &[]);
    selection.last_is_default();
    Arc::new(selection)
}

/// TLS on a connection of a test.
pub struct Session {
    pub connection: Connection,
    pub facts: Facts,
    /// Received and not decrypted.
    raw: Vec<u8>,
    /// Decrypted and not read.
    plain: Vec<u8>,
    /// How much was in each record that came.
    pub records: Vec<usize>,
    /// How often the peer changed its key.
    pub key_updates: usize,
}

impl Session {
    fn new(connected: Connected) -> Session {
        let Connected { connection, facts, rest, early } = connected;
        Session { connection, facts, raw: rest, plain: early, records: Vec::new(), key_updates: 0 }
    }

    pub fn seal(&mut self, plain: &[u8]) -> Vec<u8> {
        self.seal_in(plain, 16_384)
    }

    /// Encrypts in records of at most `fragment` bytes.
    pub fn seal_in(&mut self, plain: &[u8], fragment: usize) -> Vec<u8> {
        let mut out = vec![0; self.connection.sealed_length(plain.len(), fragment) + 256];
        let sealed = self.connection.seal(&[plain], fragment, &mut out).unwrap();
        assert_eq!(sealed.taken, plain.len());
        out.truncate(sealed.written);
        out
    }

    /// What says that no more comes.
    pub fn close(&mut self) -> Vec<u8> {
        let mut out = vec![0; 256];
        let written = self.connection.close(&mut out).unwrap();
        out.truncate(written);
        out
    }

    fn open(&mut self) -> Result<(), Failure> {
        let mut at = 0;
        while let Some(opened) = self.connection.open(&mut self.raw[at..])? {
            match opened.event {
                Event::Data(range) => {
                    self.records.push(range.len());
                    self.plain.extend_from_slice(&self.raw[at..][range]);
                }
                Event::KeyUpdate => self.key_updates += 1,
                Event::Nothing | Event::Closed => {}
            }
            at += opened.consumed;
            if at == self.raw.len() || self.connection.is_closed() {
                break;
            }
        }
        self.raw.drain(..at);
        Ok(())
    }
}

/// A client that knows the keys, and has not told its server that the handshake is done.
pub struct Hesitant {
    pub conn: Conn,
    /// What it has to say for that.
    last: Vec<u8>,
    /// What became of its early data.
    pub sent: SentEarly,
}

impl Hesitant {
    /// Says some of what ends the handshake.
    pub fn begin_to_finish(&mut self) {
        let some: Vec<u8> = self.last.drain(..10).collect();
        self.conn.try_send_raw(&some).unwrap();
    }

    /// Ends the handshake and says this, with one send.
    pub fn finish_with(mut self, plain: &[u8]) -> Conn {
        let sealed = self.conn.tls().seal(plain);
        self.conn.try_send_raw(&[self.last, sealed].concat()).unwrap();
        self.conn
    }

    /// Ends the handshake.
    pub fn finish(mut self) -> Conn {
        self.conn.try_send_raw(&self.last).unwrap();
        self.conn
    }
}

fn broken(failure: &Failure) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, failure.to_string())
}

impl Conn {
    /// Shakes hands as a client, asking for this name.
    pub fn encrypt(self, context: &Arc<ServerContext>, name: Option<&str>) -> Conn {
        self.try_encrypt(context, name).unwrap_or_else(|error| panic!("{error}"))
    }

    pub fn try_encrypt(mut self, context: &Arc<ServerContext>, name: Option<&str>) -> io::Result<Conn> {
        let mut connecting = Connecting::new(context.clone(), name.map(str::as_bytes), None)
            .map_err(|error| broken(&error))?;
        let mut out = Vec::new();
        loop {
            while connecting.is_ready() {
                let step = connecting.step(&mut out);
                self.try_send_raw(&std::mem::take(&mut out))?;
                if step.map_err(|error| broken(&error))? == Step::Done {
                    let connected = connecting.finish().map_err(|error| broken(&error))?;
                    self.tls = Some(Box::new(Session::new(connected)));
                    return Ok(self);
                }
            }
            let mut bytes = [0; 16_384];
            let length = self.read_raw(&mut bytes)?;
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            connecting.feed(&bytes[..length]).map_err(|error| broken(&error))?;
        }
    }

    /// Sends a ClientHello and `early` behind it, and takes the server's answer. What ends the handshake is not sent: see
    /// [`Hesitant`].
    pub fn encrypt_early(mut self, context: &Arc<ServerContext>, early: &[u8]) -> Hesitant {
        let mut connecting = Connecting::with_early_data(context.clone(), None, None, early.into()).unwrap();
        let mut out = Vec::new();
        loop {
            while connecting.is_ready() {
                if connecting.step(&mut out).unwrap() == Step::Done {
                    let sent = connecting.sent_early();
                    self.tls = Some(Box::new(Session::new(connecting.finish().unwrap())));
                    return Hesitant { conn: self, last: out, sent };
                }
            }
            self.try_send_raw(&std::mem::take(&mut out)).unwrap();
            let mut bytes = [0; 16_384];
            let length = self.read_raw(&mut bytes).unwrap();
            assert!(length > 0, "the server left");
            connecting.feed(&bytes[..length]).unwrap();
        }
    }

    /// Shakes hands as a server.
    pub fn accept_tls(self, selection: &Arc<Selection>) -> Conn {
        self.try_accept_tls(selection).unwrap_or_else(|error| panic!("{error}"))
    }

    pub fn try_accept_tls(mut self, selection: &Arc<Selection>) -> io::Result<Conn> {
        let mut accepting = Accepting::new(selection.clone());
        let mut out = Vec::new();
        loop {
            while accepting.is_ready() {
                let step = accepting.step(&mut out);
                self.try_send_raw(&std::mem::take(&mut out))?;
                if step.map_err(|error| broken(&error))? == Step::Done {
                    let connected = accepting.finish(&mut out).map_err(|error| broken(&error))?;
                    self.tls = Some(Box::new(Session::new(connected)));
                    return Ok(self);
                }
            }
            let mut bytes = [0; 16_384];
            let length = self.read_raw(&mut bytes)?;
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            accepting.feed(&bytes[..length], &mut out).map_err(|error| broken(&error))?;
        }
    }

    /// Another handle of the same socket, for bytes that are encrypted already.
    pub fn raw_twin(&self) -> Conn {
        Conn { socket: Arc::clone(&self.socket), tls: None, pending: Vec::new() }
    }

    /// Everything until the end, or what is wrong with the end.
    pub fn try_rest(&mut self) -> io::Result<Vec<u8>> {
        while self.more()? {}
        Ok(std::mem::take(&mut self.pending))
    }

    /// What is known of its TLS.
    pub fn tls(&mut self) -> &mut Session {
        self.tls.as_mut().expect("a connection with TLS")
    }

    /// Reads decrypted bytes; an end that was not announced is an error.
    pub(super) fn read_tls(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let tls = self.tls();
            tls.open().map_err(|error| broken(&error))?;
            if !tls.plain.is_empty() {
                let length = into.len().min(tls.plain.len());
                into[..length].copy_from_slice(&tls.plain[..length]);
                tls.plain.drain(..length);
                return Ok(length);
            }
            if tls.connection.is_closed() {
                return Ok(0);
            }
            let mut bytes = [0; 65_536];
            let length = self.read_raw(&mut bytes)?;
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.tls().raw.extend_from_slice(&bytes[..length]);
        }
    }
}
