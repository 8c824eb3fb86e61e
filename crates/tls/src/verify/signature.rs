//! Signatures over certificates, lists and handshakes. The arithmetic is aws-lc-rs', through the algorithms that rustls
//! brings; what is ours is which algorithm may check what.

use rustls::SignatureScheme;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::{CertificateError, DigitallySignedStruct, Error, PeerMisbehaved};

use crate::x509::Certificate;

/// What a signature turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checked {
    Good,
    Bad,
    /// No algorithm here checks it: SHA-1, MD5, DSA, an unknown curve.
    Unsupported,
}

/// The algorithms that check signatures.
pub fn algorithms() -> WebPkiSupportedAlgorithms {
    crate::provider::provider().signature_verification_algorithms
}

/// Checks what `signer` signed: `algorithm` is the content of the AlgorithmIdentifier beside the signature.
pub fn check(signer: &Certificate, algorithm: &[u8], message: &[u8], signature: &[u8]) -> Checked {
    let mut outcome = Checked::Unsupported;
    for candidate in algorithms().all {
        if candidate.signature_alg_id().as_ref() != algorithm
            || candidate.public_key_alg_id().as_ref() != signer.key_algorithm()
        {
            continue;
        }
        match candidate.verify_signature(signer.key_bits(), message, signature) {
            Ok(()) => return Checked::Good,
            Err(_) => outcome = Checked::Bad,
        }
    }
    outcome
}

/// Checks the signature over a handshake that the owner of `certificate` made, in TLS 1.3 or 1.2.
///
/// rustls' own function refuses certificates of version 1, which OpenSSL makes by default and users have.
pub fn handshake(
    certificate: &Certificate,
    message: &[u8],
    signed: &DigitallySignedStruct,
    tls13: bool,
    allowed: &[SignatureScheme],
) -> Result<HandshakeSignatureValid, Error> {
    if !allowed.contains(&signed.scheme) || (tls13 && !fit_for_tls13(signed.scheme)) {
        return Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into());
    }
    let supported = algorithms();
    let Some((_, candidates)) = supported.mapping.iter().find(|(scheme, _)| *scheme == signed.scheme) else {
        return Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into());
    };
    // In TLS 1.3 a scheme names its curve, which is the first candidate's; in TLS 1.2 it does not.
    let candidates = if tls13 { &candidates[..1] } else { candidates };
    for candidate in candidates {
        if candidate.public_key_alg_id().as_ref() == certificate.key_algorithm()
            && candidate.verify_signature(certificate.key_bits(), message, signed.signature()).is_ok()
        {
            return Ok(HandshakeSignatureValid::assertion());
        }
    }
    Err(CertificateError::BadSignature.into())
}

/// TLS 1.3 took RSA PKCS#1 and SHA-1 out of handshakes (RFC 8446 section 4.2.3).
fn fit_for_tls13(scheme: SignatureScheme) -> bool {
    !matches!(
        scheme,
        SignatureScheme::RSA_PKCS1_SHA1
            | SignatureScheme::RSA_PKCS1_SHA256
            | SignatureScheme::RSA_PKCS1_SHA384
            | SignatureScheme::RSA_PKCS1_SHA512
            | SignatureScheme::ECDSA_SHA1_Legacy
    )
}
