//! The hashing of TLS 1.3's key schedule (RFC 8446 section 7.1, HKDF: RFC 5869), with one state of HMAC for each secret.
//!
//! The library begins HMAC anew for each value that it derives from a secret, which costs two blocks of the hash, and wipes
//! what it copied octet by octet. A handshake derives some thirty, and where the CPU has no instructions for SHA-384 hashing
//! is a third of it. What a handshake without a shared key derives first, from nothing at all, is always the same and is kept.

use std::sync::LazyLock;

use aws_lc_rs::{digest, hmac};
use rustls::crypto::hmac::Tag;
use rustls::crypto::tls13::{self, HkdfExpander, OkmBlock, OutputLengthError};
use rustls::{CipherSuiteCommon, SupportedCipherSuite, Tls13CipherSuite};

use crate::options::ciphers;

/// HKDF with a hash.
struct Hkdf {
    algorithm: hmac::Algorithm,
    early: &'static LazyLock<Early>,
}

static EARLY_SHA256: LazyLock<Early> = LazyLock::new(|| Early::new(&HKDF_SHA256));
static EARLY_SHA384: LazyLock<Early> = LazyLock::new(|| Early::new(&HKDF_SHA384));
static HKDF_SHA256: Hkdf = Hkdf { algorithm: hmac::HMAC_SHA256, early: &EARLY_SHA256 };
static HKDF_SHA384: Hkdf = Hkdf { algorithm: hmac::HMAC_SHA384, early: &EARLY_SHA384 };

/// More than any hash's output.
const ZEROS: [u8; OkmBlock::MAX_LEN] = [0; OkmBlock::MAX_LEN];

impl Hkdf {
    /// As many zeros as the hash has octets.
    fn zeros(&self) -> &'static [u8] {
        &ZEROS[..self.algorithm.digest_algorithm().output_len]
    }

    fn key(&self, secret: &[u8]) -> hmac::Key {
        hmac::Key::new(self.algorithm, secret)
    }

    fn extract(&self, salt: Option<&[u8]>, secret: &[u8]) -> Secret {
        let salt = self.key(salt.unwrap_or(self.zeros()));
        Secret(self.key(hmac::sign(&salt, secret).as_ref()))
    }
}

/// A secret that others are derived from: HMAC's state after the secret's block, which each of them begins with.
struct Secret(hmac::Key);

impl Secret {
    /// A block of output: HMAC of the block before it, what it is for, and its number.
    fn block(&self, before: &[u8], info: &[&[u8]], number: u8) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(before);
        info.iter().for_each(|part| context.update(part));
        context.update(&[number]);
        context.sign()
    }
}

impl HkdfExpander for Secret {
    fn expand_slice(&self, info: &[&[u8]], output: &mut [u8]) -> Result<(), OutputLengthError> {
        let length = self.hash_len();
        if output.len() > 255 * length {
            return Err(OutputLengthError);
        }
        let mut before = None::<hmac::Tag>;
        for (part, number) in output.chunks_mut(length).zip(1..=u8::MAX) {
            let block = self.block(before.as_ref().map_or(&[], hmac::Tag::as_ref), info, number);
            part.copy_from_slice(&block.as_ref()[..part.len()]);
            before = Some(block);
        }
        Ok(())
    }

    fn expand_block(&self, info: &[&[u8]]) -> OkmBlock {
        OkmBlock::new(self.block(&[], info, 1).as_ref())
    }

    fn hash_len(&self) -> usize {
        self.0.algorithm().digest_algorithm().output_len
    }
}

/// The early secret of a handshake without a shared key, and what the next secret is made of.
struct Early {
    secret: Secret,
    /// The `HkdfLabel` of "derived" and the hash of no messages.
    label: Vec<u8>,
    /// What is derived from the secret with it.
    derived: OkmBlock,
}

impl Early {
    fn new(hkdf: &Hkdf) -> Early {
        let algorithm = hkdf.algorithm.digest_algorithm();
        let secret = hkdf.extract(None, hkdf.zeros());
        let length = algorithm.output_len as u8;
        let of_nothing = digest::digest(algorithm, b"");
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
        if salt.is_some() {
            return Box::new(self.extract(salt, self.zeros()));
        }
        let early: &'static Early = self.early;
        Box::new(early)
    }

    fn extract_from_secret(&self, salt: Option<&[u8]>, secret: &[u8]) -> Box<dyn HkdfExpander> {
        Box::new(self.extract(salt, secret))
    }

    fn expander_for_okm(&self, okm: &OkmBlock) -> Box<dyn HkdfExpander> {
        Box::new(Secret(self.key(okm.as_ref())))
    }

    fn hmac_sign(&self, key: &OkmBlock, message: &[u8]) -> Tag {
        Tag::new(hmac::sign(&self.key(key.as_ref()), message).as_ref())
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
                for hkdf in both {
                    let secret = hkdf.extract_from_secret(salt, b"secret");
                    assert_eq!(secret.hash_len(), length);
                    assert!(secret.expand_slice(&[b"x"], &mut vec![0; 255 * length + 1]).is_err());
                }
                for length in [0, 1, 12, 32, length, length + 1, 500, 255 * length] {
                    let [theirs, ours] = derive(length);
                    assert_eq!(theirs, ours, "{length} bytes");
                }
            }
        }
    }
}
