//! Private keys under a passphrase: PKCS #8 (RFC 8018, PBES2) and the form that OpenSSL wrote before (RFC 1423 headers).
//!
//! What is read is what OpenSSL writes: keys derived with PBKDF2, or with MD5 in the old form, and AES in CBC mode.

use std::num::NonZeroU32;
use std::sync::PoisonError;

use aws_lc_rs::cipher::{
    AES_128, AES_192, AES_256, Algorithm, DecryptionContext, PaddedBlockDecryptingKey, UnboundCipherKey,
};
use aws_lc_rs::iv::FixedLength;
use aws_lc_rs::pbkdf2::{self, PBKDF2_HMAC_SHA1, PBKDF2_HMAC_SHA256, PBKDF2_HMAC_SHA384, PBKDF2_HMAC_SHA512};
use md5::{Digest, Md5};
use thalweg_shared::Mutex;

use super::key::KeyError;
use crate::der::{Malformed, Reader, tag};
use crate::pem::Block;

/// The most rounds of PBKDF2 that are done: some seconds. OpenSSL writes 2048.
const ROUNDS_MAX: u32 = 10_000_000;

/// The length of a block of AES.
const BLOCK: usize = 16;

/// The bytes of an IV that are the salt in the old form.
const OLD_SALT: usize = 8;

const PBES2: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x05\x0d";
const PBKDF2: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x05\x0c";

/// Functions that PBKDF2 is made of (RFC 8018 appendix B.1).
const FUNCTIONS: [(&[u8], pbkdf2::Algorithm); 4] = [
    (b"\x2a\x86\x48\x86\xf7\x0d\x02\x07", PBKDF2_HMAC_SHA1),
    (b"\x2a\x86\x48\x86\xf7\x0d\x02\x09", PBKDF2_HMAC_SHA256),
    (b"\x2a\x86\x48\x86\xf7\x0d\x02\x0a", PBKDF2_HMAC_SHA384),
    (b"\x2a\x86\x48\x86\xf7\x0d\x02\x0b", PBKDF2_HMAC_SHA512),
];

/// A cipher: its identifier, its name in headers, itself, and the length of its keys.
type Cipher = (&'static [u8], &'static str, &'static Algorithm, usize);

static CIPHERS: [Cipher; 3] = [
    (b"\x60\x86\x48\x01\x65\x03\x04\x01\x02", "AES-128-CBC", &AES_128, 16),
    (b"\x60\x86\x48\x01\x65\x03\x04\x01\x16", "AES-192-CBC", &AES_192, 24),
    (b"\x60\x86\x48\x01\x65\x03\x04\x01\x2a", "AES-256-CBC", &AES_256, 32),
];

/// Whoever knows passphrases.
pub trait Ask: Send + Sync {
    /// The passphrase of the key in a file, or why there is none.
    fn ask(&self, path: &str) -> Result<Vec<u8>, String>;
}

/// The passphrases of a process: those that opened a key are tried on the next one before anybody is asked.
pub struct Passphrases {
    /// Nobody is asked any more once the process serves.
    asked: Mutex<Option<Box<dyn Ask>>>,
    known: Mutex<Vec<Vec<u8>>>,
}

impl std::fmt::Debug for Passphrases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Passphrases(..)")
    }
}

impl Passphrases {
    pub fn new(asked: Box<dyn Ask>) -> Passphrases {
        Passphrases { asked: Mutex::new(Some(asked)), known: Mutex::default() }
    }

    /// From now on there are only the passphrases that are known.
    pub fn stop_asking(&self) {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The section that is under a passphrase, in clear.
    pub(super) fn open(&self, path: &str, block: &Block) -> Result<Block, KeyError> {
        let locked = Locked::known(block)?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(der) = known.iter().find_map(|passphrase| locked.open(passphrase)) {
            return Ok(locked.block(der));
        }
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(asked) = &*asked else {
            let why = "none of the passphrases fits that were known at the start";
            return Err(KeyError::Locked(why.to_owned()));
        };
        let answer = asked.ask(path).map_err(KeyError::Locked)?;
        // A program that ends its line means what is before it, unless that is a part of the passphrase.
        let line = answer.strip_suffix(b"\n").map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        for passphrase in [Some(answer.as_slice()), line].into_iter().flatten() {
            if let Some(der) = locked.open(passphrase) {
                known.push(passphrase.to_vec());
                return Ok(locked.block(der));
            }
        }
        Err(KeyError::Locked("what 'ssl-passphrase-cmd' says does not open it".to_owned()))
    }
}

/// The section that is under this passphrase, in clear.
pub(crate) fn opened_with(block: &Block, passphrase: &[u8]) -> Result<Block, KeyError> {
    let locked = Locked::known(block)?;
    let der = locked.open(passphrase);
    der.map(|der| locked.block(der))
        .ok_or_else(|| KeyError::Locked("the passphrase does not open it".to_owned()))
}

/// How a key comes out of a passphrase.
enum Derivation<'a> {
    Pbkdf2 {
        function: pbkdf2::Algorithm,
        salt: &'a [u8],
        rounds: NonZeroU32,
    },
    /// OpenSSL's own, with MD5.
    Old,
}

/// A key under a passphrase, taken apart.
struct Locked<'a> {
    label: &'a str,
    derivation: Derivation<'a>,
    cipher: &'static Cipher,
    iv: [u8; BLOCK],
    data: &'a [u8],
}

impl<'a> Locked<'a> {
    fn known(block: &'a Block) -> Result<Locked<'a>, KeyError> {
        Locked::of(block).ok_or_else(|| {
            let why = "its form is not supported: write it anew with 'openssl pkey -aes256'";
            KeyError::Locked(why.to_owned())
        })
    }

    /// None: in no form that is supported.
    fn of(block: &'a Block) -> Option<Locked<'a>> {
        match &block.encryption {
            None => Self::pkcs8(&block.der).ok().flatten(),
            Some(words) => {
                let (name, iv) = words.split_once(',')?;
                let cipher = CIPHERS.iter().find(|cipher| cipher.1 == name.trim())?;
                let iv = bytes_of_hex(iv.trim())?;
                Some(Locked {
                    label: &block.label,
                    derivation: Derivation::Old,
                    cipher,
                    iv,
                    data: &block.der,
                })
            }
        }
    }

    /// `EncryptedPrivateKeyInfo` (RFC 5958 section 3) with PBES2.
    fn pkcs8(der: &'a [u8]) -> Result<Option<Locked<'a>>, Malformed> {
        let mut outer = Reader::new(der).inside(tag::SEQUENCE)?;
        let mut algorithm = outer.inside(tag::SEQUENCE)?;
        let data = outer.expect(tag::OCTET_STRING)?.content;
        if algorithm.expect(tag::OID)?.content != PBES2 {
            return Ok(None);
        }
        let mut both = algorithm.inside(tag::SEQUENCE)?;
        let mut derivation = both.inside(tag::SEQUENCE)?;
        if derivation.expect(tag::OID)?.content != PBKDF2 {
            return Ok(None);
        }
        let mut words = derivation.inside(tag::SEQUENCE)?;
        let salt = words.expect(tag::OCTET_STRING)?.content;
        let rounds = NonZeroU32::new(words.small()?).filter(|rounds| rounds.get() <= ROUNDS_MAX);
        // The length of the key, which the cipher says, too.
        words.optional(tag::INTEGER)?;
        let function = match words.optional(tag::SEQUENCE)? {
            None => Some(PBKDF2_HMAC_SHA1),
            Some(named) => {
                let id = Reader::new(named.content).expect(tag::OID)?.content;
                FUNCTIONS.iter().find(|known| known.0 == id).map(|known| known.1)
            }
        };
        let mut cipher = both.inside(tag::SEQUENCE)?;
        let id = cipher.expect(tag::OID)?.content;
        let known = CIPHERS.iter().find(|cipher| cipher.0 == id);
        let iv = cipher.expect(tag::OCTET_STRING)?.content.try_into().ok();
        Ok((|| {
            let derivation = Derivation::Pbkdf2 { function: function?, salt, rounds: rounds? };
            Some(Locked { label: "PRIVATE KEY", derivation, cipher: known?, iv: iv?, data })
        })())
    }

    /// The key in DER, if this is its passphrase.
    fn open(&self, passphrase: &[u8]) -> Option<Vec<u8>> {
        let (_, _, algorithm, length) = *self.cipher;
        let key = match &self.derivation {
            Derivation::Pbkdf2 { function, salt, rounds } => {
                let mut key = vec![0; length];
                pbkdf2::derive(*function, *rounds, salt, passphrase, &mut key);
                key
            }
            Derivation::Old => old_key(passphrase, &self.iv[..OLD_SALT], length),
        };
        let key = UnboundCipherKey::new(algorithm, &key).ok()?;
        let key = PaddedBlockDecryptingKey::cbc_pkcs7(key).ok()?;
        let mut data = self.data.to_vec();
        let plain = key.decrypt(&mut data, DecryptionContext::Iv128(FixedLength::from(&self.iv))).ok()?;
        // The padding of one wrong passphrase in 256 looks right.
        let mut reader = Reader::new(plain);
        let whole = reader.expect(tag::SEQUENCE).ok()?.whole;
        reader.is_empty().then(|| whole.to_vec())
    }

    fn block(&self, der: Vec<u8>) -> Block {
        Block { label: self.label.to_owned(), der, encrypted: false, encryption: None }
    }
}

/// OpenSSL's `EVP_BytesToKey` with MD5 and one round.
fn old_key(passphrase: &[u8], salt: &[u8], length: usize) -> Vec<u8> {
    let mut key = Vec::new();
    let mut last: Vec<u8> = Vec::new();
    while key.len() < length {
        last = Md5::new().chain_update(&last).chain_update(passphrase).chain_update(salt).finalize().to_vec();
        key.extend_from_slice(&last);
    }
    key.truncate(length);
    key
}

fn bytes_of_hex(text: &str) -> Option<[u8; BLOCK]> {
    let mut bytes = [0; BLOCK];
    if text.len() != 2 * BLOCK || !text.is_ascii() {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}
