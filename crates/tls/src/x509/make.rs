//! Making certificates: for `generate-certificates` and `generate-dummy`, and for tests, which want odd ones.

use aws_lc_rs::digest::{Digest, SHA256, SHA384, digest};
use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_SHA256,
    RsaKeyPair, Signature,
};

use super::oid::{self, extension, purpose};
use super::time::Seconds;
use crate::der::{self, tag};
use crate::pem;
use crate::provider::{NoEntropy, random};

/// The kind of a key that is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewKey {
    P256,
    P384,
    Rsa2048,
    Rsa3072,
    Rsa4096,
}

/// A key pair that signs certificates, or is certified.
pub struct MadeKey {
    pair: Pair,
    pkcs8: Vec<u8>,
}

enum Pair {
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Rsa(RsaKeyPair),
}

impl std::fmt::Debug for MadeKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MadeKey(..)")
    }
}

impl MadeKey {
    /// A new key.
    pub fn generate(kind: NewKey) -> Result<MadeKey, NoEntropy> {
        let entropy = SystemRandom::new();
        let ecdsa = |algorithm| -> Result<(EcdsaKeyPair, Vec<u8>), NoEntropy> {
            let document = EcdsaKeyPair::generate_pkcs8(algorithm, &entropy).map_err(|_| NoEntropy)?;
            let pair = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref()).map_err(|_| NoEntropy)?;
            Ok((pair, document.as_ref().to_vec()))
        };
        let rsa = |size| -> Result<(Pair, Vec<u8>), NoEntropy> {
            let pair = RsaKeyPair::generate(size).map_err(|_| NoEntropy)?;
            let der = pair.as_der().map_err(|_| NoEntropy)?.as_ref().to_vec();
            Ok((Pair::Rsa(pair), der))
        };
        let (pair, pkcs8) = match kind {
            NewKey::P256 => {
                ecdsa(&ECDSA_P256_SHA256_ASN1_SIGNING).map(|(pair, der)| (Pair::P256(pair), der))?
            }
            NewKey::P384 => {
                ecdsa(&ECDSA_P384_SHA384_ASN1_SIGNING).map(|(pair, der)| (Pair::P384(pair), der))?
            }
            NewKey::Rsa2048 => rsa(KeySize::Rsa2048)?,
            NewKey::Rsa3072 => rsa(KeySize::Rsa3072)?,
            NewKey::Rsa4096 => rsa(KeySize::Rsa4096)?,
        };
        Ok(MadeKey { pair, pkcs8 })
    }

    /// A key that exists: RSA in PKCS #1 (`rsa`), or ECDSA on P-256 or P-384 in SEC 1 or PKCS #8. None when it is another.
    pub(crate) fn existing(der: &[u8], rsa: bool) -> Option<MadeKey> {
        let ecdsa = |algorithm| EcdsaKeyPair::from_private_key_der(algorithm, der).ok();
        let pair = if rsa {
            Pair::Rsa(RsaKeyPair::from_der(der).ok()?)
        } else if let Some(pair) = ecdsa(&ECDSA_P256_SHA256_ASN1_SIGNING) {
            Pair::P256(pair)
        } else {
            Pair::P384(ecdsa(&ECDSA_P384_SHA384_ASN1_SIGNING)?)
        };
        Some(MadeKey { pair, pkcs8: der.to_vec() })
    }

    /// The key in PKCS#8, or as it was read.
    pub fn pkcs8(&self) -> &[u8] {
        &self.pkcs8
    }

    /// The SubjectPublicKeyInfo.
    fn key_info(&self) -> Vec<u8> {
        const P256: &[u8] = b"\x2a\x86\x48\xce\x3d\x03\x01\x07";
        const P384: &[u8] = b"\x2b\x81\x04\x00\x22";
        let (kind, curve, key) = match &self.pair {
            Pair::P256(pair) => (oid::EC_PUBLIC_KEY, Some(P256), pair.public_key().as_ref()),
            Pair::P384(pair) => (oid::EC_PUBLIC_KEY, Some(P384), pair.public_key().as_ref()),
            Pair::Rsa(pair) => (oid::RSA_ENCRYPTION, None, pair.public_key().as_ref()),
        };
        let mut algorithm = Vec::new();
        der::write(&mut algorithm, tag::OID, kind);
        match curve {
            Some(curve) => der::write(&mut algorithm, tag::OID, curve),
            None => der::write(&mut algorithm, tag::NULL, &[]),
        }
        let mut content = Vec::new();
        der::write(&mut content, tag::SEQUENCE, &algorithm);
        der::write(&mut content, tag::BIT_STRING, &[&[0], key].concat());
        wrapped(tag::SEQUENCE, &content)
    }

    /// The AlgorithmIdentifier of this key's signatures.
    fn algorithm(&self) -> Vec<u8> {
        let mut content = Vec::new();
        match self.pair {
            Pair::P256(_) | Pair::P384(_) => {
                der::write(&mut content, tag::OID, b"\x2a\x86\x48\xce\x3d\x04\x03\x02");
            }
            Pair::Rsa(_) => {
                der::write(&mut content, tag::OID, b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0b");
                der::write(&mut content, tag::NULL, &[]);
            }
        }
        wrapped(tag::SEQUENCE, &content)
    }

    /// Signs the SHA-256 of a message, as the reference does with any key.
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, NoEntropy> {
        let entropy = SystemRandom::new();
        let bytes = |signature: Signature| signature.as_ref().to_vec();
        match &self.pair {
            Pair::P256(pair) => pair.sign(&entropy, message).map(bytes).map_err(|_| NoEntropy),
            Pair::P384(pair) => {
                // ECDSA signs a number. A digest that is shorter than the curve's is that number as it stands (FIPS 186-5 section
                // 6.4.1), and so with zeros before it: as long as the only digest that the library signs with this curve.
                let short = digest(&SHA256, message);
                let mut number = [0; 48];
                number[16..].copy_from_slice(short.as_ref());
                let number = Digest::import_less_safe(&number, &SHA384).map_err(|_| NoEntropy)?;
                pair.sign_digest(&number).map(bytes).map_err(|_| NoEntropy)
            }
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &entropy, message, &mut signature).map_err(|_| NoEntropy)?;
                Ok(signature)
            }
        }
    }

    /// Signs a structure: it, the algorithm, the signature.
    fn signed(&self, tbs: &[u8]) -> Result<Vec<u8>, NoEntropy> {
        let signature = self.sign(tbs)?;
        let mut content = tbs.to_vec();
        content.extend_from_slice(&self.algorithm());
        der::write(&mut content, tag::BIT_STRING, &[&[0], signature.as_slice()].concat());
        Ok(wrapped(tag::SEQUENCE, &content))
    }
}

/// What a certificate is to say.
#[derive(Clone, Debug)]
pub struct Template {
    /// 1 has no extensions.
    pub version: u8,
    /// Big endian; made positive. Empty: random.
    pub serial: Vec<u8>,
    /// The whole Name of the subject.
    pub subject: Vec<u8>,
    pub not_before: Seconds,
    pub not_after: Seconds,
    /// Extensions: identifier, whether critical, value.
    pub extensions: Vec<(Vec<u8>, bool, Vec<u8>)>,
}

impl Template {
    /// A certificate for somebody called `common_name`, in force for these seconds.
    pub fn new(common_name: &str, not_before: Seconds, not_after: Seconds) -> Template {
        Template {
            version: 3,
            serial: Vec::new(),
            subject: name(&[(oid::COMMON_NAME, common_name)]),
            not_before,
            not_after,
            extensions: Vec::new(),
        }
    }

    /// It is a CA, with so many CAs below it at most.
    pub fn ca(mut self, path_length: Option<u8>) -> Template {
        let mut content = wrapped(tag::BOOLEAN, &[0xff]);
        if let Some(length) = path_length {
            der::write(&mut content, tag::INTEGER, &[length]);
        }
        self.extensions.push((extension::BASIC_CONSTRAINTS.to_vec(), true, wrapped(tag::SEQUENCE, &content)));
        // keyCertSign and cRLSign
        self.extensions.push((extension::KEY_USAGE.to_vec(), true, wrapped(tag::BIT_STRING, &[1, 0x06])));
        self
    }

    /// It is for these hosts.
    pub fn hosts(mut self, hosts: &[&str]) -> Template {
        let mut content = Vec::new();
        hosts.iter().for_each(|host| der::write(&mut content, tag::context(2), host.as_bytes()));
        self.extensions.push((extension::SUBJECT_ALT_NAME.to_vec(), false, wrapped(tag::SEQUENCE, &content)));
        self
    }

    /// It may be used for these purposes only.
    pub fn purposes(mut self, purposes: &[&[u8]]) -> Template {
        let mut content = Vec::new();
        purposes.iter().for_each(|purpose| der::write(&mut content, tag::OID, purpose));
        self.extensions.push((
            extension::EXTENDED_KEY_USAGE.to_vec(),
            false,
            wrapped(tag::SEQUENCE, &content),
        ));
        self
    }

    /// It is a server's.
    pub fn server(self) -> Template {
        self.purposes(&[purpose::SERVER_AUTH])
    }

    /// Any other extension.
    pub fn extension(mut self, id: &[u8], critical: bool, value: &[u8]) -> Template {
        self.extensions.push((id.to_vec(), critical, value.to_vec()));
        self
    }

    /// The certificate of `key`, which is its own authority, and the key: PEM of both, as files have it.
    pub fn self_signed(&self, key: &MadeKey) -> Result<String, NoEntropy> {
        let der = self.sign(key, &self.subject, key)?;
        Ok(pem::encode("CERTIFICATE", &der) + &pem::encode("PRIVATE KEY", key.pkcs8()))
    }

    /// The certificate of `key`, signed by `signer` under the name `issuer` (a whole Name).
    pub fn sign(&self, key: &MadeKey, issuer: &[u8], signer: &MadeKey) -> Result<Vec<u8>, NoEntropy> {
        self.sign_for(&key.key_info(), issuer, signer)
    }

    /// The same for a key of which only the SubjectPublicKeyInfo is there.
    pub fn sign_for(&self, key_info: &[u8], issuer: &[u8], signer: &MadeKey) -> Result<Vec<u8>, NoEntropy> {
        let mut serial = self.serial.clone();
        if serial.is_empty() {
            serial = vec![0; 16];
            random(&mut serial)?;
            serial[0] = serial[0] & 0x7f | 0x40;
        }
        if serial[0] & 0x80 != 0 {
            serial.insert(0, 0);
        }
        let mut content = Vec::new();
        if self.version > 1 {
            let version = wrapped(tag::INTEGER, &[self.version - 1]);
            der::write(&mut content, tag::explicit(0), &version);
        }
        der::write(&mut content, tag::INTEGER, &serial);
        content.extend_from_slice(&signer.algorithm());
        content.extend_from_slice(issuer);
        let validity = [time(self.not_before), time(self.not_after)].concat();
        der::write(&mut content, tag::SEQUENCE, &validity);
        content.extend_from_slice(&self.subject);
        content.extend_from_slice(key_info);
        if !self.extensions.is_empty() {
            let mut list = Vec::new();
            for (id, critical, value) in &self.extensions {
                let mut one = wrapped(tag::OID, id);
                if *critical {
                    der::write(&mut one, tag::BOOLEAN, &[0xff]);
                }
                der::write(&mut one, tag::OCTET_STRING, value);
                der::write(&mut list, tag::SEQUENCE, &one);
            }
            der::write(&mut content, tag::explicit(3), &wrapped(tag::SEQUENCE, &list));
        }
        signer.signed(&wrapped(tag::SEQUENCE, &content))
    }
}

/// A revocation list that names these serials.
pub fn revocations(
    issuer: &[u8],
    signer: &MadeKey,
    (this_update, next_update): (Seconds, Seconds),
    serials: &[&[u8]],
) -> Result<Vec<u8>, NoEntropy> {
    let mut content = wrapped(tag::INTEGER, &[1]);
    content.extend_from_slice(&signer.algorithm());
    content.extend_from_slice(issuer);
    content.extend_from_slice(&time(this_update));
    content.extend_from_slice(&time(next_update));
    if !serials.is_empty() {
        let mut list = Vec::new();
        for serial in serials {
            let mut entry = wrapped(tag::INTEGER, serial);
            entry.extend_from_slice(&time(this_update));
            der::write(&mut list, tag::SEQUENCE, &entry);
        }
        der::write(&mut content, tag::SEQUENCE, &list);
    }
    signer.signed(&wrapped(tag::SEQUENCE, &content))
}

/// A whole Name of these attributes, each in a set of its own.
pub fn name(attributes: &[(&[u8], &str)]) -> Vec<u8> {
    const UTF8_STRING: u8 = 0x0c;
    let mut sets = Vec::new();
    for (id, value) in attributes {
        let mut attribute = wrapped(tag::OID, id);
        der::write(&mut attribute, UTF8_STRING, value.as_bytes());
        der::write(&mut sets, tag::SET, &wrapped(tag::SEQUENCE, &attribute));
    }
    wrapped(tag::SEQUENCE, &sets)
}

fn time(seconds: Seconds) -> Vec<u8> {
    let text = super::time::digits_of(seconds);
    if (1950..2050).contains(&text.0) {
        wrapped(tag::UTC_TIME, &text.1.as_bytes()[2..])
    } else {
        wrapped(tag::GENERALIZED_TIME, text.1.as_bytes())
    }
}

fn wrapped(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len() + 6);
    der::write(&mut out, tag, content);
    out
}
