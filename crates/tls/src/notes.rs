//! What a handshake's step leaves behind.
//!
//! rustls calls our verifiers and key logs in the middle of a step and gives them no place to leave more than "yes" or
//! "no". A step runs on one thread from its beginning to its end, so what they saw can wait here until it returns. This is
//! the crate's only state that is not in a value somebody owns.

use std::cell::RefCell;
use std::sync::Arc;

use crate::verify::Verdict;
use crate::x509::Certificate;

/// What a step's callbacks saw.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    pub peer: Option<Noted>,
    /// Labels of RFC 9850 (`CLIENT_RANDOM`, `EXPORTER_SECRET` ...) and the secrets.
    pub secrets: Vec<(String, Vec<u8>)>,
}

/// What a verifier saw of the peer.
#[derive(Clone, Debug, Default)]
pub struct Noted {
    pub chain: Vec<Arc<Certificate>>,
    /// The end of the path that was verified, which the peer need not have sent.
    pub root: Option<Arc<Certificate>>,
    pub verdict: Verdict,
}

thread_local! {
    static NOTES: RefCell<Notes> = RefCell::new(Notes::default());
}

/// Runs a step and returns what its callbacks saw.
pub fn during<R>(step: impl FnOnce() -> R) -> (R, Notes) {
    NOTES.with(|notes| *notes.borrow_mut() = Notes::default());
    let result = step();
    (result, NOTES.with(|notes| notes.take()))
}

pub fn saw_peer(noted: Noted) {
    NOTES.with(|notes| notes.borrow_mut().peer = Some(noted));
}

/// Keeps the secrets of handshakes: for `ssl_fc_*_secret`, where a configuration asks for them.
#[derive(Debug)]
pub struct KeepSecrets;

impl rustls::KeyLog for KeepSecrets {
    fn log(&self, label: &str, _client_random: &[u8], secret: &[u8]) {
        NOTES.with(|notes| notes.borrow_mut().secrets.push((label.to_owned(), secret.to_vec())));
    }
}
