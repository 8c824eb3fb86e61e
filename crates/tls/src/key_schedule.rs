//! The hashing of TLS 1.3's key schedule (RFC 8446 section 7.1), with one state of HMAC for each secret.
//!
//! The library begins HMAC anew for each value that it derives from a secret, which costs two blocks of the hash. A handshake
//! derives some thirty, and where the CPU has no instructions for SHA-384 hashing is a third of it. What a handshake without a
//! shared key derives first, from nothing at all, is always the same and is kept.

use std::sync::LazyLock;

use aws_lc_rs::{digest, hmac};
use rustls::crypto::hmac::{Hmac, Key, Tag};
use rustls::crypto::tls13::{self, HkdfExpander, HkdfUsingHmac, OkmBlock, OutputLengthError};
use rustls::{CipherSuiteCommon, SupportedCipherSuite, Tls13CipherSuite};

use crate::options::ciphers;

/// HMAC with a hash.
struct Hash(hmac::Algorithm);

/// HMAC with a secret: its state after the secret's block, which each value begins with.
struct Keyed(hmac::Key);

impl Hmac for Hash {
    fn with_key(&self, key: &[u8]) -> Box<dyn Key> {
        Box::new(Keyed(hmac::Key::new(self.0, key)))
    }

    fn hash_output_len(&self) -> usize {
        self.0.digest_algorithm().output_len
    }
}

impl Key for Keyed {
    fn sign_concat(&self, first: &[u8], middle: &[&[u8]], last: &[u8]) -> Tag {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(first);
        middle.iter().for_each(|part| context.update(part));
        context.update(last);
        Tag::new(context.sign().as_ref())
    }

    fn tag_len(&self) -> usize {
        self.0.algorithm().digest_algorithm().output_len
    }
}

static SHA256: Hash = Hash(hmac::HMAC_SHA256);
static SHA384: Hash = Hash(hmac::HMAC_SHA384);

/// HKDF with a hash.
struct Hkdf {
    hmac: HkdfUsingHmac<'static>,
    early: &'static LazyLock<Early>,
}

static EARLY_SHA256: LazyLock<Early> = LazyLock::new(|| Early::new(&SHA256, &digest::SHA256));
static EARLY_SHA384: LazyLock<Early> = LazyLock::new(|| Early::new(&SHA384, &digest::SHA384));
static HKDF_SHA256: Hkdf = Hkdf { hmac: HkdfUsingHmac(&SHA256), early: &EARLY_SHA256 };
static HKDF_SHA384: Hkdf = Hkdf { hmac: HkdfUsingHmac(&SHA384), early: &EARLY_SHA384 };

/// The early secret of a handshake without a shared key, and what the next secret is made of.
struct Early {
    secret: Box<dyn HkdfExpander>,
    /// The `HkdfLabel` of "derived" and the hash of no messages.
    label: Vec<u8>,
    /// What is derived from the secret with it.
    derived: OkmBlock,
}

impl Early {
    fn new(hash: &'static Hash, algorithm: &'static digest::Algorithm) -> Early {
        let secret = tls13::Hkdf::extract_from_zero_ikm(&HkdfUsingHmac(hash), None);
        let of_nothing = digest::digest(algorithm, b"");
        let length = algorithm.output_len as u8;
        let label = [&[0, length, 13][..], b"tls13 derived", &[length], of_nothing.as_ref()].concat();
        let derived = secret.expand_block(&[&label]);
        Early { secret, label, derived }
    }

    /// Whether the parts are those of the label.
    fn is_label(&self, parts: &[&[u8]]) -> bool {
        let mut rest = &self.label[..];
        for part in parts {
            let Some(behind) = rest.strip_prefix(*part) else { return false };
            rest = behind;
        }
        rest.is_empty()
    }
}

impl HkdfExpander for &'static Early {
    fn expand_slice(&self, info: &[&[u8]], output: &mut [u8]) -> Result<(), OutputLengthError> {
        self.secret.expand_slice(info, output)
    }

    fn expand_block(&self, info: &[&[u8]]) -> OkmBlock {
        if self.is_label(info) {
            OkmBlock::new(self.derived.as_ref())
        } else {
            self.secret.expand_block(info)
        }
    }

    fn hash_len(&self) -> usize {
        self.secret.hash_len()
    }
}

impl tls13::Hkdf for Hkdf {
    fn extract_from_zero_ikm(&self, salt: Option<&[u8]>) -> Box<dyn HkdfExpander> {
        match salt {
            None => {
                let early: &'static Early = self.early;
                Box::new(early)
            }
            salt => self.hmac.extract_from_zero_ikm(salt),
        }
    }

    fn extract_from_secret(&self, salt: Option<&[u8]>, secret: &[u8]) -> Box<dyn HkdfExpander> {
        self.hmac.extract_from_secret(salt, secret)
    }

    fn expander_for_okm(&self, okm: &OkmBlock) -> Box<dyn HkdfExpander> {
        self.hmac.expander_for_okm(okm)
    }

    fn hmac_sign(&self, key: &OkmBlock, message: &[u8]) -> Tag {
        self.hmac.hmac_sign(key, message)
    }
}

/// The library's suites of TLS 1.3 with the key schedule of this module.
static SUITES: LazyLock<Vec<Tls13CipherSuite>> = LazyLock::new(|| {
    let theirs = ciphers::TLS13.iter().filter_map(SupportedCipherSuite::tls13);
    let ours = |suite: &'static Tls13CipherSuite| Tls13CipherSuite {
        common: CipherSuiteCommon {
            suite: suite.common.suite,
            hash_provider: suite.common.hash_provider,
            confidentiality_limit: suite.common.confidentiality_limit,
        },
        hkdf_provider: match suite.common.hash_provider.output_len() {
            48 => &HKDF_SHA384,
            _ => &HKDF_SHA256,
        },
        aead_alg: suite.aead_alg,
        quic: suite.quic,
    };
    theirs.map(ours).collect()
});

/// The same suite, with the key schedule of this module if it is one of TLS 1.3.
pub(crate) fn suite(suite: SupportedCipherSuite) -> SupportedCipherSuite {
    let ours = SUITES.iter().find(|ours| ours.common.suite == suite.suite());
    ours.map_or(suite, SupportedCipherSuite::Tls13)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every value that both derive is the same.
    #[test]
    fn values_are_those_of_the_library() {
        for theirs in ciphers::TLS13 {
            let ours = suite(theirs);
            let (Some(theirs), Some(ours)) = (theirs.tls13(), ours.tls13()) else { panic!("of TLS 1.3") };
            assert!(!std::ptr::eq(theirs, ours));
            let both = [theirs.hkdf_provider, ours.hkdf_provider];
            let length = theirs.common.hash_provider.output_len();
            for salt in [None, Some(&[7u8; 20][..]), Some(&[8; 200])] {
                let derive = |length: usize| {
                    both.map(|hkdf| {
                        let from_secret = hkdf.extract_from_secret(salt, b"secret");
                        let from_nothing = hkdf.extract_from_zero_ikm(salt);
                        let block = from_secret.expand_block(&[b"a", b"", b"label"]);
                        let signed = hkdf.hmac_sign(&block, b"message");
                        let mut long = vec![0; length];
                        assert!(from_nothing.expand_slice(&[b"x"], &mut long).is_ok());
                        let mut again = vec![0; length];
                        assert!(hkdf.expander_for_okm(&block).expand_slice(&[b"key"], &mut again).is_ok());
                        (block.as_ref().to_vec(), signed.as_ref().to_vec(), long, again)
                    })
                };
                let of_nothing = theirs.common.hash_provider.start().finish();
                let whole =
                    [&[0, length as u8, 13][..], b"tls13 derived", &[length as u8], of_nothing.as_ref()]
                        .concat();
                for cut in 0..=whole.len() {
                    let (before, behind) = whole.split_at(cut);
                    for parts in [
                        &[before, behind][..],
                        &[before],
                        &[behind],
                        &[behind, before],
                        &[before, behind, b"x"],
                    ] {
                        let [theirs, ours] =
                            both.map(|hkdf| hkdf.extract_from_zero_ikm(salt).expand_block(parts));
                        assert_eq!(theirs.as_ref(), ours.as_ref(), "{parts:?}");
                    }
                }
                for length in [0, 1, 12, 32, length, length + 1, 500] {
                    let [theirs, ours] = derive(length);
                    assert_eq!(theirs, ours, "{length} bytes");
                }
            }
        }
    }
}
