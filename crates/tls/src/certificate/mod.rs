//! Certificates with their keys: loading them, and what a handshake needs of them.

mod dummy;
mod key;
mod load;
mod passphrase;

pub use dummy::DummyWords;
pub use key::{KeyError, KeyKind, Material, PrivateKey};
pub(crate) use load::certificates;
pub use load::{ChainFile, Extra, LoadError, LoadOptions, Loader, Parts};
pub(crate) use passphrase::opened_with;
pub use passphrase::{Ask, Passphrases};

use std::sync::Arc;

use thalweg_shared::RwLock;

use rustls::SignatureScheme;
use rustls::pki_types::CertificateDer;
use rustls::sign::CertifiedKey;

use crate::ocsp::OcspResponse;
use crate::x509::{Certificate, name, time};

/// A certificate, its chain and its key, under the name that configurations and the CLI use.
#[derive(Debug)]
pub struct Credential {
    /// The file name, as the configuration resolves it.
    pub name: Arc<str>,
    /// The certificate itself, then what is sent after it.
    pub chain: Vec<Arc<Certificate>>,
    /// Absent of one that is only to verify tokens.
    pub key: Option<Arc<PrivateKey>>,
    /// Who signed it, when that is known: OCSP needs its key.
    pub issuer: Option<Arc<Certificate>>,
    /// The files that it came from; none of a certificate that the CLI brought.
    pub files: Parts,
    /// A file of signed certificate timestamps is beside it, which clients are not sent.
    pub has_timestamps: bool,
    /// The file of `issuers-chain-path` that its chain is from.
    pub chain_file: Option<Arc<str>>,
    /// The OCSP response that is stapled. It can be replaced while connections are served.
    ocsp: RwLock<Option<Arc<OcspResponse>>>,
}

impl Credential {
    pub fn new(
        name: Arc<str>,
        chain: Vec<Arc<Certificate>>,
        key: Option<Arc<PrivateKey>>,
        issuer: Option<Arc<Certificate>>,
        ocsp: Option<Arc<OcspResponse>>,
    ) -> Credential {
        debug_assert!(!chain.is_empty());
        let (files, has_timestamps, chain_file) = (Parts::default(), false, None);
        Credential { name, chain, key, issuer, files, has_timestamps, chain_file, ocsp: RwLock::new(ocsp) }
    }

    /// The certificate itself.
    pub fn leaf(&self) -> &Arc<Certificate> {
        &self.chain[0]
    }

    /// Why clients refuse it at `now`, with the dates between which it or another of its chain is in force; nothing while
    /// all of them are.
    pub fn out_of_force(&self, now: time::Seconds) -> Option<String> {
        let (place, certificate, why) =
            self.chain.iter().enumerate().find_map(|(place, certificate)| match now {
                now if now > certificate.not_after => Some((place, certificate, "has expired")),
                now if now < certificate.not_before => Some((place, certificate, "is not valid yet")),
                _ => None,
            })?;
        let which = match place {
            0 => String::new(),
            _ => format!("'{}' in the chain of ", String::from_utf8_lossy(&certificate.subject_oneline())),
        };
        let (from, to) = (time::openssl(certificate.not_before), time::openssl(certificate.not_after));
        Some(format!("{which}certificate '{}' {why}: it is in force from {from} to {to}", self.name))
    }

    /// The host names that it is chosen for when a configuration names none: the DNS names among its alternative names, and
    /// its common name. In small letters, without doubles.
    pub fn host_names(&self) -> Vec<Vec<u8>> {
        let leaf = self.leaf();
        let mut names: Vec<Vec<u8>> = Vec::new();
        let common = name::common_name(leaf.subject());
        let general = leaf.general_names();
        let dns =
            general.iter().filter(|name| name.tag == crate::der::tag::context(2)).map(|name| name.content);
        for name in dns.chain(common) {
            let name = name.to_ascii_lowercase();
            if !name.is_empty() && !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// The OCSP response that is stapled now.
    pub fn ocsp(&self) -> Option<Arc<OcspResponse>> {
        self.ocsp.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// Replaces the OCSP response.
    pub fn set_ocsp(&self, response: Option<Arc<OcspResponse>>) {
        *self.ocsp.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = response;
    }

    /// What rustls serves: the chain, the key restricted to the schemes a configuration allows, and the OCSP response if it
    /// is in force at `now`.
    pub fn certified(
        &self,
        schemes: Option<&Arc<[SignatureScheme]>>,
        now: i64,
    ) -> Result<Arc<CertifiedKey>, KeyError> {
        let chain = self.chain.iter().map(|one| CertificateDer::from(one.der().to_vec())).collect();
        let mut certified =
            CertifiedKey::new(chain, self.key.as_ref().ok_or(KeyError::Missing)?.signer(schemes)?);
        certified.ocsp = self.ocsp().filter(|response| response.is_in_force(now)).map(|r| r.der().to_vec());
        Ok(Arc::new(certified))
    }
}
