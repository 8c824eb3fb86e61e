//! Certificates that are made when a client asks for a name that nobody has (`generate-certificates`): signed by the line's
//! authority (`ca-sign-file`), with the key of the certificate that the client would have been shown.

use std::sync::Arc;

use thalweg_shared::{Mutex, MutexGuard};

use hashbrown::HashMap;

use crate::bind::Served;
use crate::certificate::{Credential, KeyError, PrivateKey, certificates, opened_with};
use crate::der::{self, Reader, tag};
use crate::pem;
use crate::x509::Certificate;
use crate::x509::make::{MadeKey, Template};
use crate::x509::oid::{self, extension};

/// How long a certificate is in force before and after it was made, in seconds.
const DAY: i64 = 86_400;
const YEAR: i64 = 365 * DAY;

/// The longest common name (RFC 5280 appendix A.1, `ub-common-name`), in bytes.
const COMMON_NAME_MAX: usize = 64;

/// An authority that signs what is made, and how many certificates are kept.
#[derive(Debug)]
pub struct Generator {
    authority: Arc<Certificate>,
    key: MadeKey,
    keep: usize,
}

impl Generator {
    /// Reads the certificate and the key of a `ca-sign-file`. `passphrase` is `ca-sign-pass`, `keep`
    /// `tune.ssl.ssl-ctx-cache-size`. The error is what is wrong with the file.
    pub fn new(text: &[u8], passphrase: Option<&str>, keep: usize) -> Result<Generator, String> {
        let blocks = pem::blocks(text).map_err(|error| error.to_string())?;
        let authority = certificates("", &blocks).map_err(|_| "a certificate in it is not valid DER")?;
        let authority = authority.into_iter().next().ok_or("there is no certificate in it")?;
        let block =
            blocks.iter().find(|block| PrivateKey::is_key(block)).ok_or("there is no private key in it")?;
        let opened = passphrase.filter(|_| block.encrypted).map(|words| opened_with(block, words.as_bytes()));
        let opened = opened.transpose().map_err(|error| error.to_string())?;
        let block = opened.as_ref().unwrap_or(block);
        let key = PrivateKey::from_block(block).map_err(|error| error.to_string())?;
        key.fits(&authority, false).map_err(|error: KeyError| error.to_string())?;
        let key = key.signing().ok_or("only RSA keys and ECDSA keys on P-256 and P-384 can sign")?;
        Ok(Generator { authority, key, keep })
    }

    /// Makes a certificate for a host, in small letters, with the key of another one.
    fn make(&self, host: &str, like: &Credential, now: i64) -> Option<Credential> {
        let mut template = Template::new("", now - DAY, now + YEAR);
        template.subject = self.subject(host)?;
        let mut constraints = Vec::new();
        der::write(&mut constraints, tag::SEQUENCE, &[]);
        // digitalSignature and keyEncipherment
        let mut usage = Vec::new();
        der::write(&mut usage, tag::BIT_STRING, &[5, 0xa0]);
        let template = template
            .extension(extension::BASIC_CONSTRAINTS, false, &constraints)
            .extension(extension::KEY_USAGE, true, &usage)
            .server()
            .hosts(&[host]);
        let template = match self.authority.subject_key_id() {
            None => template,
            Some(id) => {
                let (mut content, mut value) = (Vec::new(), Vec::new());
                der::write(&mut content, tag::context(0), id);
                der::write(&mut value, tag::SEQUENCE, &content);
                template.extension(extension::AUTHORITY_KEY_ID, false, &value)
            }
        };
        let der = template.sign_for(like.leaf().key_info(), self.authority.subject(), &self.key).ok()?;
        let leaf = Arc::new(Certificate::parse(&der).ok()?);
        // Clients have the authority; what is above it, if anything, is sent as it is with the others.
        let chain = vec![leaf, self.authority.clone()];
        Some(Credential::new(host.into(), chain, like.key.clone(), Some(self.authority.clone()), None))
    }

    /// The authority's name, and the host's below it, as the reference calls what it makes.
    fn subject(&self, host: &str) -> Option<Vec<u8>> {
        let mut content = Reader::new(self.authority.subject()).expect(tag::SEQUENCE).ok()?.content.to_vec();
        // It must not be the authority's own name, or the certificate looks as if it had signed itself.
        let text = if host.len() <= COMMON_NAME_MAX { host } else { "a long name" };
        let (mut attribute, mut one) = (Vec::new(), Vec::new());
        der::write(&mut attribute, tag::OID, oid::COMMON_NAME);
        der::write(&mut attribute, tag::UTF8_STRING, text.as_bytes());
        der::write(&mut one, tag::SEQUENCE, &attribute);
        der::write(&mut content, tag::SET, &one);
        let mut subject = Vec::new();
        der::write(&mut subject, tag::SEQUENCE, &content);
        Some(subject)
    }
}

/// What was made for the clients of one line. It begins anew when what the line serves changes.
#[derive(Debug)]
pub struct Made {
    generator: Arc<Generator>,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    by_name: HashMap<Box<str>, (Arc<Served>, u64)>,
    /// Counts uses, so that the one that was used longest ago makes room.
    uses: u64,
}

impl Made {
    pub fn new(generator: Arc<Generator>) -> Made {
        Made { generator, kept: Mutex::default() }
    }

    /// The certificate for a name in small letters that nobody has, like the one that is shown to such clients. None: it is no
    /// host's name, or cannot be made.
    pub(crate) fn serve(&self, name: &[u8], like: &Arc<Served>) -> Option<Arc<Served>> {
        let is_host = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._".contains(byte);
        let host = std::str::from_utf8(name)
            .ok()
            .filter(|name| !name.is_empty() && name.bytes().all(|b| is_host(&b)))?;
        if let Some(served) = self.kept().find(host) {
            return Some(served);
        }
        // Two that ask at once are made one each: nobody waits for a signature under the lock.
        let now = like.context.shared().clock.now() as i64;
        let credential = self.generator.make(host, &like.credential, now)?;
        let served = Arc::new(Served::new(Arc::new(credential), like.context.clone()));
        self.kept().keep(host, served.clone(), self.generator.keep);
        Some(served)
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Kept {
    fn find(&mut self, host: &str) -> Option<Arc<Served>> {
        self.uses += 1;
        let (served, used) = self.by_name.get_mut(host)?;
        *used = self.uses;
        Some(served.clone())
    }

    fn keep(&mut self, host: &str, served: Arc<Served>, most: usize) {
        if most == 0 {
            return;
        }
        while self.by_name.len() >= most {
            let oldest = self.by_name.iter().min_by_key(|(_, (_, used))| *used);
            let Some(oldest) = oldest.map(|(name, _)| name.clone()) else { return };
            self.by_name.remove(&oldest);
        }
        self.uses += 1;
        self.by_name.insert(host.into(), (served, self.uses));
    }
}
