//! Private keys: RSA, ECDSA and Ed25519, in PKCS#8, PKCS#1 or SEC 1.

use std::sync::{Arc, OnceLock};

use rustls::pki_types::{PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer};
use rustls::sign::{Signer, SigningKey};
use rustls::{SignatureAlgorithm, SignatureScheme};

use crate::der::{Reader, tag};
use crate::pem::Block;
use crate::x509::make::MadeKey;
use crate::x509::{Certificate, oid};

/// What kind of key a certificate has; a client gets the kind that it can verify.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyKind {
    Ecdsa,
    Rsa,
    /// Ed25519.
    Other,
}

impl KeyKind {
    pub fn of(certificate: &Certificate) -> KeyKind {
        match certificate.key_type() {
            oid::RSA_ENCRYPTION | oid::RSA_PSS => KeyKind::Rsa,
            oid::EC_PUBLIC_KEY => KeyKind::Ecdsa,
            _ => KeyKind::Other,
        }
    }

    /// The word of `show ssl sni`.
    pub fn word(self) -> &'static str {
        match self {
            KeyKind::Ecdsa => "ecdsa",
            KeyKind::Rsa => "rsa",
            KeyKind::Other => "dsa",
        }
    }
}

/// Why a key cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// It is under a passphrase, and there is nobody to ask.
    Encrypted,
    /// It is under a passphrase, and could not be opened: why.
    Locked(String),
    /// The library cannot use it; its words.
    Unusable(String),
    /// The certificate is another key's.
    Mismatch,
    /// There is none.
    Missing,
}

impl std::fmt::Display for KeyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            KeyError::Encrypted => f.write_str(
                "the private key is protected by a passphrase, and no 'ssl-passphrase-cmd' says it: add that to the global \
                 section, or store the key without one, readable by nobody else ('openssl pkey -in old.key -out new.key')",
            ),
            KeyError::Locked(why) => write!(f, "the private key is protected by a passphrase; {why}"),
            KeyError::Unusable(why) => write!(
                f,
                "the private key cannot be used ({why}); RSA keys of 2048 to 8192 bits, ECDSA keys on P-256, P-384 and \
                 P-521 and Ed25519 keys can"
            ),
            KeyError::Mismatch => f.write_str("the private key is not the certificate's"),
            KeyError::Missing => f.write_str("there is no private key"),
        }
    }
}

impl std::error::Error for KeyError {}

/// What a private key is made of.
pub enum Material<'k> {
    /// An RSA key in PKCS #1.
    Pkcs1(&'k [u8]),
    /// The number of a key on a curve; its certificate says which.
    Number(&'k [u8]),
}

/// A private key. It is parsed when it is first used, unless it has to be parsed to see that it fits its certificate.
pub struct PrivateKey {
    der: PrivateKeyDer<'static>,
    label: String,
    parsed: OnceLock<Arc<dyn SigningKey>>,
}

impl std::fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PrivateKey(..)")
    }
}

impl PrivateKey {
    /// Whether a PEM section is a private key.
    pub fn is_key(block: &Block) -> bool {
        block.label.ends_with("PRIVATE KEY")
    }

    /// The key in a PEM section.
    pub fn from_block(block: &Block) -> Result<PrivateKey, KeyError> {
        if block.encrypted {
            return Err(KeyError::Encrypted);
        }
        let bytes = block.der.clone();
        let der = match block.label.as_str() {
            "PRIVATE KEY" => PrivatePkcs8KeyDer::from(bytes).into(),
            "RSA PRIVATE KEY" => PrivatePkcs1KeyDer::from(bytes).into(),
            "EC PRIVATE KEY" => PrivateSec1KeyDer::from(bytes).into(),
            other => return Err(KeyError::Unusable(format!("it is a '{other}'"))),
        };
        Ok(PrivateKey { der, label: block.label.clone(), parsed: OnceLock::new() })
    }

    /// The PEM label and content, for `dump ssl cert`.
    pub fn pem(&self) -> String {
        crate::pem::encode(&self.label, self.der.secret_der())
    }

    /// The key as other protocols need it: an RSA key, or the private number of one on a curve.
    pub fn material(&self) -> Option<Material<'_>> {
        let mut outer = Reader::new(self.der.secret_der()).inside(tag::SEQUENCE).ok()?;
        match &self.der {
            PrivateKeyDer::Pkcs1(_) => Some(Material::Pkcs1(self.der.secret_der())),
            PrivateKeyDer::Sec1(_) => {
                outer.expect(tag::INTEGER).ok()?;
                Some(Material::Number(outer.expect(tag::OCTET_STRING).ok()?.content))
            }
            PrivateKeyDer::Pkcs8(_) => {
                outer.expect(tag::INTEGER).ok()?;
                let kind = outer.inside(tag::SEQUENCE).ok()?.expect(tag::OID).ok()?.content;
                let inner = outer.expect(tag::OCTET_STRING).ok()?.content;
                if kind == oid::RSA_ENCRYPTION {
                    return Some(Material::Pkcs1(inner));
                }
                if kind != oid::EC_PUBLIC_KEY {
                    return None;
                }
                let mut key = Reader::new(inner).inside(tag::SEQUENCE).ok()?;
                key.expect(tag::INTEGER).ok()?;
                Some(Material::Number(key.expect(tag::OCTET_STRING).ok()?.content))
            }
            _ => None,
        }
    }

    /// The key as one that signs certificates; None when it is of a kind that does not.
    pub fn signing(&self) -> Option<MadeKey> {
        match self.material()? {
            Material::Pkcs1(key) => MadeKey::existing(key, true),
            Material::Number(_) => MadeKey::existing(self.der.secret_der(), false),
        }
    }

    fn parsed(&self) -> Result<&Arc<dyn SigningKey>, KeyError> {
        if let Some(key) = self.parsed.get() {
            return Ok(key);
        }
        let key = rustls::crypto::aws_lc_rs::sign::any_supported_type(&self.der)
            .map_err(|error| KeyError::Unusable(error.to_string()))?;
        Ok(self.parsed.get_or_init(|| key))
    }

    /// Checks that the certificate is this key's. With `lazily` a large RSA key is compared by its modulus and parsed when
    /// it is first used, which makes a start with many certificates fast.
    pub fn fits(&self, certificate: &Certificate, lazily: bool) -> Result<(), KeyError> {
        if lazily && let Some(same) = self.has_modulus_of(certificate) {
            return if same { Ok(()) } else { Err(KeyError::Mismatch) };
        }
        let public = self.parsed()?.public_key();
        match public {
            Some(public) if public.as_ref() == certificate.key_info() => Ok(()),
            _ => Err(KeyError::Mismatch),
        }
    }

    /// Whether this RSA key has the certificate's modulus; None when either is no RSA key.
    fn has_modulus_of(&self, certificate: &Certificate) -> Option<bool> {
        if certificate.key_type() != oid::RSA_ENCRYPTION {
            return None;
        }
        let mut outer = Reader::new(self.der.secret_der());
        let mut inner = outer.inside(tag::SEQUENCE).ok()?;
        inner.expect(tag::INTEGER).ok()?;
        if let PrivateKeyDer::Pkcs8(_) = self.der {
            if inner.inside(tag::SEQUENCE).ok()?.expect(tag::OID).ok()?.content != oid::RSA_ENCRYPTION {
                return Some(false);
            }
            let mut key = Reader::new(inner.expect(tag::OCTET_STRING).ok()?.content);
            inner = key.inside(tag::SEQUENCE).ok()?;
            inner.expect(tag::INTEGER).ok()?;
        }
        let modulus = inner.expect(tag::INTEGER).ok()?.content;
        let public =
            Reader::new(certificate.key_bits()).inside(tag::SEQUENCE).ok()?.expect(tag::INTEGER).ok()?;
        Some(modulus == public.content)
    }

    /// The key as rustls uses it, signing with no other schemes than these.
    pub fn signer(&self, schemes: Option<&Arc<[SignatureScheme]>>) -> Result<Arc<dyn SigningKey>, KeyError> {
        let key = self.parsed()?.clone();
        Ok(match schemes {
            None => key,
            Some(schemes) => Arc::new(Restricted { key, schemes: schemes.clone() }),
        })
    }
}

/// A key that signs with some schemes only: `sigalgs`.
#[derive(Debug)]
struct Restricted {
    key: Arc<dyn SigningKey>,
    schemes: Arc<[SignatureScheme]>,
}

impl SigningKey for Restricted {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let allowed: Vec<SignatureScheme> =
            offered.iter().copied().filter(|scheme| self.schemes.contains(scheme)).collect();
        self.key.choose_scheme(&allowed)
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.key.algorithm()
    }
}
