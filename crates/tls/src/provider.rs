//! The one place where the library's own entropy comes in, and where its algorithms are listed.
//!
//! rustls asks a `CryptoProvider` for everything: key exchange, signatures, random bytes. Ours is AWS-LC's. Its random
//! numbers come from the system and cannot be given from outside; nothing of ours depends on their value. The clock is
//! given: see [`crate::Clock`].

use std::sync::{Arc, OnceLock};

use aws_lc_rs::agreement::{self, ECDH_P521, EphemeralPrivateKey, UnparsedPublicKey};
use aws_lc_rs::rand::SystemRandom;
use rustls::crypto::{ActiveKeyExchange, CryptoProvider, SharedSecret, SupportedKxGroup};
use rustls::{NamedGroup, PeerMisbehaved};

/// AWS-LC's algorithms, all of those that are supported.
pub fn provider() -> &'static Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    PROVIDER.get_or_init(|| Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
}

/// Fills `bytes` with random ones. The system's generator does not fail once the machine is up; should it, the caller
/// has no key and must refuse.
pub fn random(bytes: &mut [u8]) -> Result<(), NoEntropy> {
    aws_lc_rs::rand::fill(bytes).map_err(|_| NoEntropy)
}

/// The system gave no random bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoEntropy;

impl std::fmt::Display for NoEntropy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the system gave no random bytes")
    }
}

impl std::error::Error for NoEntropy {}

/// Key agreement on the curve P-521, which rustls does not bring and users of `ecdhe secp521r1` have.
#[derive(Debug)]
pub struct AgreeP521;

pub static P521: AgreeP521 = AgreeP521;

impl SupportedKxGroup for AgreeP521 {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, rustls::Error> {
        let secret = EphemeralPrivateKey::generate(&ECDH_P521, &SystemRandom::new())
            .map_err(|_| rustls::crypto::GetRandomFailed)?;
        let public = secret.compute_public_key().map_err(|_| rustls::crypto::GetRandomFailed)?;
        Ok(Box::new(StartedP521 { secret, public }))
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::secp521r1
    }
}

struct StartedP521 {
    secret: EphemeralPrivateKey,
    public: agreement::PublicKey,
}

impl ActiveKeyExchange for StartedP521 {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, rustls::Error> {
        let invalid = rustls::Error::from(PeerMisbehaved::InvalidKeyShare);
        // Uncompressed points only (RFC 8446 section 4.2.8.2).
        if peer.first() != Some(&4) {
            return Err(invalid);
        }
        let peer = UnparsedPublicKey::new(&ECDH_P521, peer);
        agreement::agree_ephemeral(self.secret, peer, invalid, |secret| Ok(SharedSecret::from(secret)))
    }

    fn pub_key(&self) -> &[u8] {
        self.public.as_ref()
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::secp521r1
    }
}
