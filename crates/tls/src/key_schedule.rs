//! The hashing of TLS 1.3's key schedule (RFC 8446 section 7.1), with one state of HMAC for each secret.
//!
//! The library begins HMAC anew for each value that it derives from a secret, which costs two blocks of the hash. A handshake
//! derives some thirty, and where the CPU has no instructions for SHA-384 hashing is a third of it.

use std::sync::LazyLock;

use aws_lc_rs::hmac;
use rustls::crypto::hmac::{Hmac, Key, Tag};
use rustls::crypto::tls13::HkdfUsingHmac;
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
static HKDF_SHA256: HkdfUsingHmac<'static> = HkdfUsingHmac(&SHA256);
static HKDF_SHA384: HkdfUsingHmac<'static> = HkdfUsingHmac(&SHA384);

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
                for length in [0, 1, 12, 32, length, length + 1, 500] {
                    let [theirs, ours] = derive(length);
                    assert_eq!(theirs, ours, "{length} bytes");
                }
            }
        }
    }
}
