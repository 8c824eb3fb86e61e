//! The key block of TLS 1.2 (RFC 5246 section 6.3), made once for each handshake.
//!
//! The library makes it for the last messages of a handshake, and makes it once more when it hands out the keys, which is 5 % of a
//! handshake. Here a thread keeps the last one until it is asked for again, or for another. Who asks again must know the
//! secret that it was made from.

use std::cell::RefCell;
use std::hint::black_box;
use std::sync::LazyLock;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use rustls::crypto::ActiveKeyExchange;
use rustls::crypto::tls12::Prf;
use rustls::{CipherSuiteCommon, Error, SupportedCipherSuite, Tls12CipherSuite};

use crate::options::ciphers;

/// The label of a key block.
const KEY_EXPANSION: &[u8] = b"key expansion";

thread_local! {
    static LAST: RefCell<Option<KeyBlock>> = const { RefCell::new(None) };
}

/// A key block, and what it was made of. It is wiped when it goes.
struct KeyBlock {
    secret: Vec<u8>,
    seed: Vec<u8>,
    block: Vec<u8>,
}

impl KeyBlock {
    fn is_of(&self, length: usize, secret: &[u8], seed: &[u8]) -> bool {
        let same_secret = verify_slices_are_equal(&self.secret, secret).is_ok();
        same_secret && self.seed == seed && self.block.len() == length
    }
}

impl Drop for KeyBlock {
    fn drop(&mut self) {
        for kept in [&mut self.secret, &mut self.block] {
            kept.fill(0);
            black_box(kept);
        }
    }
}

/// The library's function of one hash, which is asked for a key block once.
struct Once(&'static dyn Prf);

impl Prf for Once {
    fn for_key_exchange(
        &self,
        output: &mut [u8; 48],
        exchange: Box<dyn ActiveKeyExchange>,
        peer: &[u8],
        label: &[u8],
        seed: &[u8],
    ) -> Result<(), Error> {
        self.0.for_key_exchange(output, exchange, peer, label, seed)
    }

    fn for_secret(&self, output: &mut [u8], secret: &[u8], label: &[u8], seed: &[u8]) {
        if label != KEY_EXPANSION {
            return self.0.for_secret(output, secret, label, seed);
        }
        LAST.with_borrow_mut(|last| match last.take() {
            // A secret is one suite's, and so one hash's.
            Some(known) if known.is_of(output.len(), secret, seed) => output.copy_from_slice(&known.block),
            _ => {
                self.0.for_secret(output, secret, label, seed);
                let [secret, seed, block] = [secret, seed, &*output].map(<[u8]>::to_vec);
                *last = Some(KeyBlock { secret, seed, block });
            }
        });
    }
}

/// The library's suites of TLS 1.2 with the function of this module.
static SUITES: LazyLock<Vec<Tls12CipherSuite>> = LazyLock::new(|| {
    let theirs = ciphers::TLS12.iter().filter_map(|suite| match suite {
        SupportedCipherSuite::Tls12(suite) => Some(*suite),
        SupportedCipherSuite::Tls13(_) => None,
    });
    let ours = |suite: &'static Tls12CipherSuite| Tls12CipherSuite {
        common: CipherSuiteCommon {
            suite: suite.common.suite,
            hash_provider: suite.common.hash_provider,
            confidentiality_limit: suite.common.confidentiality_limit,
        },
        prf_provider: Box::leak(Box::new(Once(suite.prf_provider))),
        kx: suite.kx,
        sign: suite.sign,
        aead_alg: suite.aead_alg,
    };
    theirs.map(ours).collect()
});

/// The same suite, with the function of this module if it is one of TLS 1.2.
pub(crate) fn suite(suite: SupportedCipherSuite) -> SupportedCipherSuite {
    let ours = SUITES.iter().find(|ours| ours.common.suite == suite.suite());
    ours.map_or(suite, SupportedCipherSuite::Tls12)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Counts what it is asked, and answers with what it was asked with.
    struct Counted(AtomicUsize);

    impl Prf for Counted {
        fn for_key_exchange(
            &self,
            _: &mut [u8; 48],
            _: Box<dyn ActiveKeyExchange>,
            _: &[u8],
            _: &[u8],
            _: &[u8],
        ) -> Result<(), Error> {
            Err(Error::General("nobody asks".to_owned()))
        }

        fn for_secret(&self, output: &mut [u8], secret: &[u8], label: &[u8], seed: &[u8]) {
            self.0.fetch_add(1, Ordering::Relaxed);
            output.fill(secret[0] ^ label[0] ^ seed[0]);
        }
    }

    #[test]
    fn a_key_block_is_made_once_and_given_to_who_knows_its_secret() {
        static MADE: Counted = Counted(AtomicUsize::new(0));
        let once = Once(&MADE);
        let ask = |length: usize, secret: u8, label: &[u8], seed: u8| {
            let mut output = vec![0; length];
            once.for_secret(&mut output, &[secret; 48], label, &[seed; 64]);
            assert_eq!(output, vec![secret ^ label[0] ^ seed; length]);
            MADE.0.swap(0, Ordering::Relaxed)
        };
        // Asked for, again, and a third time: it was given away.
        assert_eq!([1, 2, 3].map(|_| ask(80, 1, KEY_EXPANSION, 2)), [1, 0, 1]);
        // Another secret, other randoms, another length: each takes the place of the one before.
        assert_eq!(ask(80, 9, KEY_EXPANSION, 2), 1);
        assert_eq!(ask(80, 9, KEY_EXPANSION, 3), 1);
        assert_eq!(ask(40, 9, KEY_EXPANSION, 3), 1);
        assert_eq!(ask(40, 9, KEY_EXPANSION, 3), 0);
        // What the messages between are made with leaves it where it is.
        assert_eq!(ask(80, 1, KEY_EXPANSION, 2), 1);
        assert_eq!([1, 2].map(|_| ask(12, 1, b"client finished", 2)), [1, 1]);
        assert_eq!(ask(80, 1, KEY_EXPANSION, 2), 0);
    }

    #[test]
    fn every_suite_of_tls12_has_it() {
        for theirs in ciphers::TLS12 {
            let SupportedCipherSuite::Tls12(ours) = suite(theirs) else { panic!("of TLS 1.2") };
            assert!(
                theirs.suite() == ours.common.suite && SUITES.iter().any(|known| std::ptr::eq(known, ours))
            );
        }
    }
}
