//! What the tests have in common: authorities made on the spot, files in memory, and a wire between two ends.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};

use thalweg_tls::bind::{BindContext, Profile, Served, Shared};
use thalweg_tls::certificate::{Credential, LoadOptions, Loader};
use thalweg_tls::engine::{Accepting, Connected, Connecting, Connection, Event, Step};
use thalweg_tls::files::{Files, Stamp};
use thalweg_tls::select::{Filter, Selection};
use thalweg_tls::server::{ServerContext, ServerProfile};
use thalweg_tls::session::{SessionCache, TicketKeys};
use thalweg_tls::verify::{ServerPolicy, TrustStore};
use thalweg_tls::x509::Certificate;
use thalweg_tls::x509::make::{MadeKey, NewKey, Template, name, revocations};
use thalweg_tls::x509::oid;
use thalweg_tls::{Failure, FixedClock, pem};

/// The time in the tests: 2026-11-22.
pub const NOW: u64 = 1_795_305_600;
pub const DAY: i64 = 86_400;

/// An authority with its key.
pub struct Authority {
    pub key: MadeKey,
    pub name: Vec<u8>,
    pub certificate: Arc<Certificate>,
}

/// In force from yesterday on for a year.
pub fn template(common_name: &str) -> Template {
    Template::new(common_name, NOW as i64 - DAY, NOW as i64 + 365 * DAY)
}

impl Authority {
    pub fn new(common_name: &str) -> Authority {
        Authority::with(template(common_name).ca(None), None)
    }

    /// An authority whose certificate is this template's, signed by another one or by itself.
    pub fn with(template: Template, parent: Option<&Authority>) -> Authority {
        let key = MadeKey::generate(NewKey::P256).unwrap();
        let (issuer, signer) = parent.map_or((&template.subject, &key), |parent| (&parent.name, &parent.key));
        let der = template.sign(&key, issuer, signer).unwrap();
        let certificate = Arc::new(Certificate::parse(&der).unwrap());
        Authority { name: template.subject.clone(), key, certificate }
    }

    pub fn store(&self) -> Arc<TrustStore> {
        Arc::new(TrustStore::new([self.certificate.clone()]))
    }

    /// A certificate of this template with a new key: PEM of both.
    pub fn issue(&self, template: &Template, kind: NewKey) -> String {
        let key = MadeKey::generate(kind).unwrap();
        let der = template.sign(&key, &self.name, &self.key).unwrap();
        pem::encode("CERTIFICATE", &der) + &pem::encode("PRIVATE KEY", key.pkcs8())
    }

    pub fn server(&self, host: &str, kind: NewKey) -> Arc<Credential> {
        credential(&format!("{host}.pem"), &self.issue(&template(host).hosts(&[host]), kind))
    }

    pub fn crl(&self, serials: &[&[u8]]) -> Vec<u8> {
        let times = (NOW as i64 - DAY, NOW as i64 + DAY);
        revocations(&self.name, &self.key, times, serials).unwrap()
    }

    pub fn pem(&self) -> String {
        pem::encode("CERTIFICATE", self.certificate.der())
    }
}

pub fn common_name(text: &str) -> Vec<u8> {
    name(&[(oid::COMMON_NAME, text)])
}

/// A certificate out of PEM text.
pub fn credential(path: &str, text: &str) -> Arc<Credential> {
    let files = MemoryFiles::default();
    let loader = Loader { files: &files, options: &LoadOptions::default() };
    Arc::new(loader.load_bytes(path, text.as_bytes()).unwrap_or_else(|error| panic!("{error}")))
}

/// Files that exist in the test only. A name with a slash is in the directory before it.
#[derive(Default)]
pub struct MemoryFiles(Mutex<HashMap<String, Vec<u8>>>);

impl MemoryFiles {
    pub fn with(files: &[(&str, &str)]) -> MemoryFiles {
        let memory = MemoryFiles::default();
        files.iter().for_each(|(path, text)| memory.put(path, text.as_bytes()));
        memory
    }

    pub fn put(&self, path: &str, bytes: &[u8]) {
        self.0.lock().unwrap().insert(path.to_owned(), bytes.to_vec());
    }
}

impl Files for MemoryFiles {
    fn stamp(&self, path: &str) -> Option<Stamp> {
        let bytes = self.read(path).ok()?;
        let sum = bytes.iter().fold(0u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
        Some(Stamp { changed: (0, 0), length: bytes.len() as u64, inode: sum })
    }

    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        self.0.lock().unwrap().get(path).cloned().ok_or_else(|| io::Error::from_raw_os_error(2))
    }

    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        let files = self.0.lock().unwrap();
        let prefix = format!("{}/", path.trim_end_matches('/'));
        let names: Vec<String> =
            files.keys().filter_map(|file| file.strip_prefix(&prefix)).map(str::to_owned).collect();
        match (names.is_empty(), files.contains_key(path)) {
            (false, _) => Ok(names),
            (true, true) => Err(io::Error::from_raw_os_error(20)),
            (true, false) => Err(io::Error::from_raw_os_error(2)),
        }
    }
}

pub fn clock() -> Arc<FixedClock> {
    Arc::new(FixedClock::at(NOW))
}

pub fn shared(clock: &Arc<FixedClock>) -> Shared {
    Shared {
        clock: clock.clone(),
        tickets: Some(Arc::new(TicketKeys::generate(clock.clone()).unwrap())),
        cache: Arc::new(SessionCache::new(1000, 300, clock.clone())),
        lifetime: 300,
        keep_secrets: false,
        keep_hello: 0,
    }
}

/// A `bind` line that serves these under one profile, the first one being the default.
pub fn bind(profile: &Profile, shared: Shared, served: &[&Arc<Credential>]) -> Arc<Selection> {
    let context = Arc::new(BindContext::new(profile, shared).unwrap());
    let mut selection = Selection::new(false);
    for (index, credential) in served.iter().enumerate() {
        selection.add(Arc::new(Served::new(Arc::clone(credential), context.clone())), &[]);
        if index == 0 {
            selection.last_is_default();
        }
    }
    Arc::new(selection)
}

pub fn filters(words: &str) -> Vec<Filter> {
    words.split_whitespace().map(Filter::parse).collect()
}

/// A `server` line that trusts this authority.
pub fn trusting(authority: &Authority) -> ServerProfile {
    let policy = ServerPolicy { required: true, trust: authority.store(), ..ServerProfile::default().policy };
    ServerProfile { policy, ..ServerProfile::default() }
}

pub fn server(profile: &ServerProfile, clock: &Arc<FixedClock>) -> Arc<ServerContext> {
    Arc::new(ServerContext::new(profile, clock.clone()).unwrap())
}

/// How a handshake of ours with ours ended, on each side.
pub struct Outcome {
    pub client: Result<Connected, Failure>,
    pub server: Result<Connected, Failure>,
}

impl Outcome {
    /// Both ends. The client has read what came with the end of the handshake: session tickets.
    pub fn unwrap(self) -> (Connected, Connected) {
        let (mut client, server) =
            (self.client.expect("the client's side"), self.server.expect("the server's side"));
        let mut rest = std::mem::take(&mut client.rest);
        if !rest.is_empty() {
            assert_eq!(receive(&mut client.connection, &mut rest).unwrap(), b"");
        }
        (client, server)
    }
}

/// Shakes hands over a wire that delivers at most `chunk` bytes at a time.
pub fn shake(
    selection: &Arc<Selection>,
    context: &Arc<ServerContext>,
    name: Option<&str>,
    chunk: usize,
) -> Outcome {
    shake_offering(selection, context, name, None, chunk)
}

/// The same, with protocols of ALPN that are not those of the line.
pub fn shake_offering(
    selection: &Arc<Selection>,
    context: &Arc<ServerContext>,
    name: Option<&str>,
    protocols: Option<&[Vec<u8>]>,
    chunk: usize,
) -> Outcome {
    let mut client = Connecting::new(context.clone(), name.map(str::as_bytes), protocols).unwrap();
    let mut server = Accepting::new(selection.clone());
    let (mut up, mut down) = (Vec::new(), Vec::new());
    let (mut client_done, mut server_done) = (None, None);
    for _ in 0..100_000 {
        while client_done.is_none() && client.is_ready() {
            match client.step(&mut up) {
                Ok(Step::More) => {}
                Ok(Step::Done) => client_done = Some(Ok(())),
                Err(failure) => client_done = Some(Err(failure)),
            }
        }
        while server_done.is_none() && server.is_ready() {
            match server.step(&mut down) {
                Ok(Step::More) => {}
                Ok(Step::Done) => server_done = Some(Ok(())),
                Err(failure) => server_done = Some(Err(failure)),
            }
        }
        if up.is_empty() && down.is_empty() {
            break;
        }
        if !up.is_empty() {
            let part: Vec<u8> = up.drain(..chunk.min(up.len())).collect();
            if server_done.is_none()
                && let Err(failure) = server.feed(&part, &mut down)
            {
                server_done = Some(Err(failure));
            }
        }
        // What comes after a side is done is the connection's, and is fed to it all the same.
        if !down.is_empty() {
            let part: Vec<u8> = down.drain(..chunk.min(down.len())).collect();
            if !matches!(client_done, Some(Err(_))) {
                client.feed(&part).unwrap();
            }
        }
    }
    let mut alert = Vec::new();
    let server = match server_done.unwrap_or(Err(Failure::Closed)) {
        Ok(()) => server.finish(&mut alert),
        Err(failure) => Err(failure),
    };
    let client = match client_done.unwrap_or(Err(Failure::Closed)) {
        Ok(()) => client.feed(&alert).and_then(|()| client.finish()),
        Err(failure) => Err(failure),
    };
    Outcome { client, server }
}

/// Sends plaintext from one end to the other in records of at most `fragment` bytes.
pub fn send(from: &mut Connection, to: &mut Connection, pieces: &[&[u8]], fragment: usize) -> Vec<u8> {
    let total: usize = pieces.iter().map(|piece| piece.len()).sum();
    let mut wire = vec![0; from.sealed_length(total, fragment) + 256];
    let sealed = from.seal(pieces, fragment, &mut wire).unwrap();
    assert_eq!(sealed.taken, total);
    wire.truncate(sealed.written);
    receive(to, &mut wire).unwrap()
}

/// Opens all records of `wire`.
pub fn receive(to: &mut Connection, wire: &mut [u8]) -> Result<Vec<u8>, Failure> {
    let mut plain = Vec::new();
    let mut at = 0;
    while let Some(opened) = to.open(&mut wire[at..])? {
        if let Event::Data(range) = opened.event {
            plain.extend_from_slice(&wire[at..][range]);
        }
        at += opened.consumed;
        if at == wire.len() {
            break;
        }
    }
    assert_eq!(at, wire.len(), "a record was not whole");
    Ok(plain)
}
