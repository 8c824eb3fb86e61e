//! `sigalgs` and `client-sigalgs`: what handshakes are signed with.

use rustls::SignatureScheme;

use SignatureScheme as S;

/// The schemes in OpenSSL's order of preference.
pub const DEFAULTS: [SignatureScheme; 10] = [
    S::ECDSA_NISTP256_SHA256,
    S::ECDSA_NISTP384_SHA384,
    S::ECDSA_NISTP521_SHA512,
    S::ED25519,
    S::RSA_PSS_SHA256,
    S::RSA_PSS_SHA384,
    S::RSA_PSS_SHA512,
    S::RSA_PKCS1_SHA256,
    S::RSA_PKCS1_SHA384,
    S::RSA_PKCS1_SHA512,
];

/// Names in TLS 1.3's form and in OpenSSL's older one, and the scheme when it is supported.
const NAMES: &[(&str, &str, Option<SignatureScheme>)] = &[
    ("ecdsa_secp256r1_sha256", "ECDSA+SHA256", Some(S::ECDSA_NISTP256_SHA256)),
    ("ecdsa_secp384r1_sha384", "ECDSA+SHA384", Some(S::ECDSA_NISTP384_SHA384)),
    ("ecdsa_secp521r1_sha512", "ECDSA+SHA512", Some(S::ECDSA_NISTP521_SHA512)),
    ("ed25519", "ed25519", Some(S::ED25519)),
    ("ed448", "ed448", None),
    ("rsa_pss_rsae_sha256", "RSA-PSS+SHA256", Some(S::RSA_PSS_SHA256)),
    ("rsa_pss_rsae_sha384", "RSA-PSS+SHA384", Some(S::RSA_PSS_SHA384)),
    ("rsa_pss_rsae_sha512", "RSA-PSS+SHA512", Some(S::RSA_PSS_SHA512)),
    ("rsa_pss_pss_sha256", "PSS+SHA256", None),
    ("rsa_pss_pss_sha384", "PSS+SHA384", None),
    ("rsa_pss_pss_sha512", "PSS+SHA512", None),
    ("rsa_pkcs1_sha256", "RSA+SHA256", Some(S::RSA_PKCS1_SHA256)),
    ("rsa_pkcs1_sha384", "RSA+SHA384", Some(S::RSA_PKCS1_SHA384)),
    ("rsa_pkcs1_sha512", "RSA+SHA512", Some(S::RSA_PKCS1_SHA512)),
    ("rsa_pkcs1_sha224", "RSA+SHA224", None),
    ("ecdsa_sha224", "ECDSA+SHA224", None),
    ("rsa_pkcs1_sha1", "RSA+SHA1", None),
    ("ecdsa_sha1", "ECDSA+SHA1", None),
    ("dsa_sha1", "DSA+SHA1", None),
    ("dsa_sha224", "DSA+SHA224", None),
    ("dsa_sha256", "DSA+SHA256", None),
];

/// Why a list of schemes is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchemesError {
    Unknown(String),
    NoneSupported,
}

impl std::fmt::Display for SchemesError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SchemesError::Unknown(name) => write!(f, "'{name}' is no signature algorithm that is known")?,
            SchemesError::NoneSupported => write!(f, "none of them is supported")?,
        }
        let names: Vec<&str> = NAMES.iter().filter(|row| row.2.is_some()).map(|row| row.0).collect();
        write!(f, "; supported are {}", names.join(", "))
    }
}

impl std::error::Error for SchemesError {}

/// Reads a list of names with colons between them. Schemes that exist and are not supported are left out.
pub fn parse(list: &str) -> Result<Vec<SignatureScheme>, SchemesError> {
    let mut schemes = Vec::new();
    for word in list.split(':') {
        let row = NAMES
            .iter()
            .find(|(name, old, _)| name.eq_ignore_ascii_case(word) || old.eq_ignore_ascii_case(word))
            .ok_or_else(|| SchemesError::Unknown(word.to_owned()))?;
        schemes.extend(row.2.filter(|scheme| !schemes.contains(scheme)));
    }
    if schemes.is_empty() { Err(SchemesError::NoneSupported) } else { Ok(schemes) }
}

/// The name of a scheme in TLS 1.3's form.
pub fn name(scheme: SignatureScheme) -> &'static str {
    NAMES.iter().find(|row| row.2 == Some(scheme)).map_or("", |row| row.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_schemes() {
        assert_eq!(
            parse("RSA+SHA256:ecdsa_secp256r1_sha256"),
            Ok(vec![S::RSA_PKCS1_SHA256, S::ECDSA_NISTP256_SHA256])
        );
        assert_eq!(parse("ed448:ED25519:ed25519"), Ok(vec![S::ED25519]));
        assert_eq!(parse("RSA+SHA1"), Err(SchemesError::NoneSupported));
        assert_eq!(parse("RSA+SHA256:FOO"), Err(SchemesError::Unknown("FOO".into())));
        assert!(DEFAULTS.iter().all(|scheme| !name(*scheme).is_empty()));
    }
}
