//! Tickets (RFC 5077, RFC 8446 section 4.6.1): a session under a key of ours, kept by the client.
//!
//! A ticket is the name of its key, a nonce, and the session sealed with AES-256-GCM; what it is bound to is
//! authenticated beside it. Its content is rustls' own, so that only processes of this program understand each other's
//! tickets, when they have the same key file.

use std::sync::Arc;

use thalweg_shared::RwLock;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::server::ProducesTickets;

use super::Binding;
use crate::Clock;
use crate::provider::{NoEntropy, random};

/// How many keys a file has in use: the last three. The one before the last encrypts, so that all processes know it
/// before tickets with it come around.
const IN_USE: usize = 3;

/// The most keys a file may have; the reference reads any number and uses the last three.
const FILE_KEYS_MAX: usize = 1024;

/// How long a key of our own encrypts, in seconds. After twice the time its tickets are worth nothing. The reference keeps
/// OpenSSL's key for the life of the process.
const ROTATION: u64 = 12 * 3600;

const NAME: usize = 16;
const NONCE: usize = 12;
const TAG: usize = 16;

/// The largest ticket that is looked at, in bytes: a session with a chain of certificates in it.
const TICKET_MAX: usize = 0xffff;

/// Why a key file is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TicketKeyError {
    /// A line is not base64 of 48 or 80 bytes; its number.
    BadLine(usize),
    /// There are fewer than three keys.
    TooFew(usize),
    /// There are more than 1024.
    TooMany,
    /// A key of another length than the others.
    MixedLengths(usize),
}

impl std::fmt::Display for TicketKeyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TicketKeyError::BadLine(line) => {
                write!(
                    f,
                    "line {line} is not the base64 of 48 or 80 bytes ('openssl rand -base64 80' makes one)"
                )
            }
            TicketKeyError::TooFew(count) => write!(f, "please supply at least {IN_USE} keys, not {count}"),
            TicketKeyError::TooMany => write!(f, "more than {FILE_KEYS_MAX} keys"),
            TicketKeyError::MixedLengths(line) => {
                write!(f, "the key on line {line} has another length than the first")
            }
        }
    }
}

impl std::error::Error for TicketKeyError {}

/// The keys for tickets of one or several `bind` lines. They can be rotated while connections are served.
#[derive(Debug)]
pub struct TicketKeys {
    ring: RwLock<Ring>,
    clock: Arc<dyn Clock>,
}

#[derive(Debug)]
struct Ring {
    keys: Vec<Arc<TicketKey>>,
    /// The one that encrypts.
    current: usize,
    /// When a key of our own was made; None for keys from a file, which are rotated by the operator.
    made_at: Option<u64>,
    /// How the keys came, for `show tls-keys`: in base64.
    texts: Vec<String>,
}

struct TicketKey {
    name: [u8; NAME],
    key: LessSafeKey,
}

impl std::fmt::Debug for TicketKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TicketKey(..)")
    }
}

impl TicketKey {
    /// A key out of 48 or 80 bytes: OpenSSL's form has a name, and keys for two algorithms. We need one, made of all.
    fn of(bytes: &[u8]) -> Arc<TicketKey> {
        let mut name = [0; NAME];
        name.copy_from_slice(&bytes[..NAME]);
        let mut hash = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256);
        hash.update(b"thalweg session ticket v1");
        hash.update(bytes);
        let key =
            UnboundKey::new(&AES_256_GCM, hash.finish().as_ref()).expect("a digest is as long as a key");
        Arc::new(TicketKey { name, key: LessSafeKey::new(key) })
    }
}

impl TicketKeys {
    /// Keys of our own, which rotate by themselves.
    pub fn generate(clock: Arc<dyn Clock>) -> Result<TicketKeys, NoEntropy> {
        let ring = Ring { keys: vec![fresh()?], current: 0, made_at: Some(clock.now()), texts: Vec::new() };
        Ok(TicketKeys { ring: RwLock::new(ring), clock })
    }

    /// Reads a `tls-ticket-keys` file: a key per line in base64.
    pub fn from_file(text: &str, clock: Arc<dyn Clock>) -> Result<TicketKeys, TicketKeyError> {
        let mut texts = Vec::new();
        let mut length = None;
        for (number, line) in text.lines().map(str::trim).enumerate().filter(|(_, line)| !line.is_empty()) {
            let bytes = decode(line).ok_or(TicketKeyError::BadLine(number + 1))?;
            if *length.get_or_insert(bytes.len()) != bytes.len() {
                return Err(TicketKeyError::MixedLengths(number + 1));
            }
            texts.push(line.to_owned());
            if texts.len() > FILE_KEYS_MAX {
                return Err(TicketKeyError::TooMany);
            }
        }
        if texts.len() < IN_USE {
            return Err(TicketKeyError::TooFew(texts.len()));
        }
        let texts = texts.split_off(texts.len() - IN_USE);
        let keys = texts.iter().filter_map(|text| decode(text)).map(|bytes| TicketKey::of(&bytes)).collect();
        let ring = Ring { keys, current: IN_USE - 2, made_at: None, texts };
        Ok(TicketKeys { ring: RwLock::new(ring), clock })
    }

    /// `set ssl tls-key`: the last key begins to encrypt, and this one comes after it. False when the text is no key, or has
    /// another length than those in use, or the keys are our own.
    pub fn rotate(&self, text: &str) -> bool {
        let mut ring = self.ring.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        let Some(bytes) = decode(text.trim()) else { return false };
        let same_length = ring.texts.first().and_then(|first| decode(first)).map(|first| first.len());
        if same_length != Some(bytes.len()) {
            return false;
        }
        ring.keys.remove(0);
        ring.texts.remove(0);
        ring.keys.push(TicketKey::of(&bytes));
        ring.texts.push(text.trim().to_owned());
        true
    }

    /// Has the keys that others have now, which came from a file of the same name.
    pub fn take_over(&self, others: &TicketKeys) {
        let others = others.ring.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut ring = self.ring.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        (ring.keys, ring.texts) = (others.keys.clone(), others.texts.clone());
    }

    /// The keys of a file as they came, the one that encrypts being the one before the last: `show tls-keys`.
    pub fn texts(&self) -> Vec<String> {
        self.ring.read().unwrap_or_else(|poisoned| poisoned.into_inner()).texts.clone()
    }

    fn current(&self) -> Option<Arc<TicketKey>> {
        let now = self.clock.now();
        let ring = self.ring.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        if ring.made_at.is_none_or(|made| now < made + ROTATION) {
            return Some(ring.keys[ring.current].clone());
        }
        drop(ring);
        self.renew(now);
        let ring = self.ring.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        Some(ring.keys[ring.current].clone())
    }

    /// Makes another key of our own and keeps the last one for its tickets. Without random bytes the old one stays.
    fn renew(&self, now: u64) {
        let mut ring = self.ring.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        if ring.made_at.is_some_and(|made| now >= made + ROTATION)
            && let Ok(key) = fresh()
        {
            ring.keys.insert(0, key);
            ring.keys.truncate(2);
            ring.made_at = Some(now);
        }
    }

    fn named(&self, name: &[u8]) -> Option<Arc<TicketKey>> {
        let ring = self.ring.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        ring.keys.iter().find(|key| key.name == name).cloned()
    }

    fn seal(&self, plain: &[u8], binding: &Binding) -> Option<Vec<u8>> {
        let key = self.current()?;
        let mut nonce = [0; NONCE];
        random(&mut nonce).ok()?;
        let mut ticket = Vec::with_capacity(NAME + NONCE + plain.len() + TAG);
        ticket.extend_from_slice(&key.name);
        ticket.extend_from_slice(&nonce);
        ticket.extend_from_slice(plain);
        let sealed = &mut ticket[NAME + NONCE..];
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = key.key.seal_in_place_separate_tag(nonce, Aad::from(binding), sealed).ok()?;
        ticket.extend_from_slice(tag.as_ref());
        Some(ticket)
    }

    fn open(&self, ticket: &[u8], binding: &Binding) -> Option<Vec<u8>> {
        if ticket.len() > TICKET_MAX {
            return None;
        }
        let (name, rest) = ticket.split_at_checked(NAME)?;
        let (nonce, sealed) = rest.split_at_checked(NONCE)?;
        let key = self.named(name)?;
        let mut sealed = sealed.to_vec();
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let length = key.key.open_in_place(nonce, Aad::from(binding), &mut sealed).ok()?.len();
        sealed.truncate(length);
        Some(sealed)
    }
}

fn fresh() -> Result<Arc<TicketKey>, NoEntropy> {
    let mut bytes = [0; 80];
    random(&mut bytes)?;
    Ok(TicketKey::of(&bytes))
}

fn decode(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok().filter(|bytes| matches!(bytes.len(), 48 | 80))
}

/// Tickets of one certificate under one policy.
#[derive(Debug)]
pub(crate) struct BoundTickets {
    pub keys: Arc<TicketKeys>,
    pub binding: Binding,
    /// How long a session is good, in seconds: `tune.ssl.lifetime`.
    pub lifetime: u32,
}

impl ProducesTickets for BoundTickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        self.lifetime
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let mut dated = (self.keys.clock.now() + u64::from(self.lifetime)).to_be_bytes().to_vec();
        dated.extend_from_slice(plain);
        self.keys.seal(&dated, &self.binding)
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        let mut dated = self.keys.open(cipher, &self.binding)?;
        let until = u64::from_be_bytes(dated.get(..8)?.try_into().ok()?);
        if self.keys.clock.now() > until {
            return None;
        }
        dated.drain(..8);
        Some(dated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FixedClock;

    fn line(fill: u8, length: usize) -> String {
        STANDARD.encode(vec![fill; length])
    }

    fn bound(keys: &Arc<TicketKeys>, fill: u8) -> BoundTickets {
        BoundTickets { keys: keys.clone(), binding: [fill; 32], lifetime: 300 }
    }

    #[test]
    fn a_ticket_is_good_where_it_was_made() {
        let clock = Arc::new(FixedClock::at(1000));
        let keys = Arc::new(TicketKeys::generate(clock.clone()).unwrap());
        let ticket = bound(&keys, 1).encrypt(b"session").unwrap();
        assert_eq!(bound(&keys, 1).decrypt(&ticket).as_deref(), Some(&b"session"[..]));
        assert_eq!(bound(&keys, 2).decrypt(&ticket), None, "under another policy");
        for at in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[at] ^= 1;
            assert_eq!(bound(&keys, 1).decrypt(&changed), None, "byte {at} changed");
            assert_eq!(bound(&keys, 1).decrypt(&ticket[..at]), None, "cut to {at}");
        }
        clock.set(1301);
        assert_eq!(bound(&keys, 1).decrypt(&ticket), None, "too old");
    }

    #[test]
    fn keys_of_our_own_rotate() {
        let clock = Arc::new(FixedClock::at(0));
        let keys = Arc::new(TicketKeys::generate(clock.clone()).unwrap());
        let tickets = BoundTickets { keys: keys.clone(), binding: [0; 32], lifetime: u32::MAX };
        let first = tickets.encrypt(b"one").unwrap();
        clock.set(ROTATION);
        let second = tickets.encrypt(b"two").unwrap();
        assert_ne!(first[..NAME], second[..NAME]);
        assert!(tickets.decrypt(&first).is_some() && tickets.decrypt(&second).is_some());
        clock.set(2 * ROTATION);
        tickets.encrypt(b"three").unwrap();
        assert!(tickets.decrypt(&first).is_none() && tickets.decrypt(&second).is_some());
    }

    #[test]
    fn keys_from_a_file() {
        let clock = Arc::new(FixedClock::at(0));
        let read = |text: &str| TicketKeys::from_file(text, clock.clone());
        let file = [line(1, 48), line(2, 48), String::new(), line(3, 48), line(4, 48)].join("\n");
        let (here, there) = (Arc::new(read(&file).unwrap()), Arc::new(read(&file).unwrap()));
        let ticket = bound(&here, 0).encrypt(b"x").unwrap();
        assert_eq!(ticket[..NAME], [3; NAME], "the key before the last encrypts");
        assert!(bound(&there, 0).decrypt(&ticket).is_some(), "another process has the same keys");
        assert!(here.rotate(&line(5, 48)));
        assert_eq!(bound(&here, 0).encrypt(b"x").unwrap()[..NAME], [4; NAME]);
        assert!(bound(&here, 0).decrypt(&ticket).is_some());
        assert!(here.rotate(&line(6, 48)) && bound(&here, 0).decrypt(&ticket).is_none());
        assert!(!here.rotate(&line(7, 80)) && !here.rotate("x"));
        assert_eq!(here.texts(), [line(4, 48), line(5, 48), line(6, 48)]);
        assert_eq!(read(&line(1, 48)).unwrap_err(), TicketKeyError::TooFew(1));
        assert_eq!(read("foo").unwrap_err(), TicketKeyError::BadLine(1));
        let mixed = [line(1, 48), line(2, 80), line(3, 48)].join("\n");
        assert_eq!(read(&mixed).unwrap_err(), TicketKeyError::MixedLengths(2));
    }
}
