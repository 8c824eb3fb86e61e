//! Signatures over certificates, lists and handshakes. The arithmetic is aws-lc-rs', through the algorithms that rustls
//! brings; what is ours is which algorithm may check what.

use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY, UnparsedPublicKey};
use rustls::SignatureScheme;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::alg_id;
use rustls::{CertificateError, DigitallySignedStruct, Error, PeerMisbehaved};

use crate::x509::{Certificate, Crl};

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

/// Checks the signature over a list of revoked certificates. Lists come from whoever wrote the configuration, and many
/// authorities still sign them with RSA and SHA-1: that, which nothing else may use, is good enough to tell whose list it is.
pub fn check_list(signer: &Certificate, list: &Crl) -> Checked {
    if list.is_known_of(signer) {
        return Checked::Good;
    }
    let checked = check_list_anew(signer, list);
    if checked == Checked::Good {
        list.note_signer(signer);
    }
    checked
}

fn check_list_anew(signer: &Certificate, list: &Crl) -> Checked {
    let (algorithm, message, signature) = (list.signature_algorithm(), list.signed_part(), list.signature());
    if algorithm != RSA_WITH_SHA1 || signer.key_algorithm() != alg_id::RSA_ENCRYPTION.as_ref() {
        return check(signer, algorithm, message, signature);
    }
    let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY, signer.key_bits());
    if key.verify(message, signature).is_ok() { Checked::Good } else { Checked::Bad }
}

/// The content of the AlgorithmIdentifier of `sha1WithRSAEncryption` (RFC 3279 section 2.2.1).
const RSA_WITH_SHA1: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x05\x05\x00";

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::x509::make::{MadeKey, NewKey, Template, revocations};

    /// Handshakes of one authority's clients check its list once, and those of another of the same name do not gain by it.
    #[test]
    fn a_list_is_checked_anew_only_for_another_key() {
        let authority = || {
            let key = MadeKey::generate(NewKey::P256).unwrap();
            let template = Template::new("Root", 0, i64::from(u32::MAX)).ca(None);
            let der = template.sign(&key, &template.subject, &key).unwrap();
            (key, template.subject, Certificate::parse(&der).unwrap())
        };
        let ((key, name, own), (_, _, other)) = (authority(), authority());
        let list = revocations(&name, &key, (0, 1000), &[b"\x07"]).unwrap();
        let list = Crl::parse(&list).unwrap();
        assert_eq!(check_list(&other, &list), Checked::Bad);
        assert!(!list.is_known_of(&own) && !list.is_known_of(&other));
        for _ in 0..2 {
            assert_eq!(check_list(&own, &list), Checked::Good);
            assert!(list.is_known_of(&own), "it is not checked again");
            assert_eq!(check_list(&other, &list), Checked::Bad);
        }
    }
}
