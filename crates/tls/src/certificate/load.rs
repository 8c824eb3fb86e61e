//! Loading certificates: one file with everything in it, or the parts in files beside it (`ssl-load-extra-files`).

use std::sync::Arc;

use super::Credential;
use super::key::{KeyError, PrivateKey};
use super::passphrase::Passphrases;
use crate::files::{Files, reason};
use crate::ocsp::OcspResponse;
use crate::pem::{self, Block};
use crate::x509::Certificate;

/// `ssl-load-extra-files`: which files beside a certificate's are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extra {
    pub bundle: bool,
    pub sctl: bool,
    pub ocsp: bool,
    pub issuer: bool,
    pub key: bool,
}

impl Extra {
    pub const ALL: Extra = Extra { bundle: true, sctl: true, ocsp: true, issuer: true, key: true };
    pub const NONE: Extra = Extra { bundle: false, sctl: false, ocsp: false, issuer: false, key: false };

    /// Reads the words after `ssl-load-extra-files`; the first that is none is the error.
    pub fn parse<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Extra, String> {
        let mut extra = Extra::NONE;
        for word in words {
            match word {
                "all" => extra = Extra::ALL,
                "none" => extra = Extra::NONE,
                "bundle" => extra.bundle = true,
                "sctl" => extra.sctl = true,
                "ocsp" => extra.ocsp = true,
                "issuer" => extra.issuer = true,
                "key" => extra.key = true,
                other => return Err(other.to_owned()),
            }
        }
        Ok(extra)
    }
}

/// How certificates are loaded.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    pub extra: Extra,
    /// `ssl-load-extra-del-ext`: `x.crt` has its key in `x.key`, not in `x.crt.key`.
    pub delete_extension: bool,
    /// `ssl-skip-self-issued-ca`: a root is not sent, the peer has it or nothing helps.
    pub skip_self_issued: bool,
    /// Keys of RSA certificates are compared by their modulus, and parsed when first used.
    pub lazy_keys: bool,
    /// `issuers-chain-path`: files with chains, for certificates that come without one.
    pub issuers: Vec<ChainFile>,
    /// `ssl-passphrase-cmd`: who opens keys under a passphrase.
    pub passphrases: Option<Arc<Passphrases>>,
}

impl Default for LoadOptions {
    fn default() -> LoadOptions {
        LoadOptions {
            extra: Extra::ALL,
            delete_extension: false,
            skip_self_issued: false,
            lazy_keys: false,
            issuers: Vec::new(),
            passphrases: None,
        }
    }
}

/// A file with a chain.
#[derive(Clone, Debug)]
pub struct ChainFile {
    pub path: Arc<str>,
    pub chain: Vec<Arc<Certificate>>,
}

/// Where the parts of a certificate are: `load` in a `crt-store`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    pub certificate: String,
    pub key: Option<String>,
    pub ocsp: Option<String>,
    pub issuer: Option<String>,
    pub sctl: Option<String>,
}

/// A certificate that cannot be loaded. `Display` gives the reference's words, with the file, and ours after them where the
/// reference has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    pub path: String,
    text: String,
}

impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for LoadError {}

impl LoadError {
    fn new(path: &str, text: String) -> LoadError {
        LoadError { path: path.to_owned(), text }
    }

    fn missing(path: &str, why: &str) -> LoadError {
        LoadError::new(path, format!("unable to stat SSL certificate from file '{path}' : {why}."))
    }

    pub(super) fn unreadable(path: &str, why: &str) -> LoadError {
        LoadError::new(path, format!("unable to load certificate from file '{path}': {why}."))
    }

    fn key(certificate: &str, path: &str, error: KeyError) -> LoadError {
        let text = match error {
            KeyError::Mismatch => {
                format!("inconsistencies between private key and certificate loaded '{certificate}'.")
            }
            KeyError::Encrypted | KeyError::Locked(_) => {
                format!("No Private Key found in '{path}': {error}.")
            }
            KeyError::Unusable(_) | KeyError::Missing => {
                format!("unable to load private key from file '{path}': {error}.")
            }
        };
        LoadError::new(path, text)
    }
}

/// The suffixes of a bundle, in the order in which its members are loaded.
const BUNDLE: [&str; 3] = [".rsa", ".dsa", ".ecdsa"];

/// The suffixes of files that belong to another one.
const SIDE_FILES: [&str; 5] = [".issuer", ".ocsp", ".sctl", ".key", ".crl"];

/// Loads certificates.
#[derive(Clone, Copy)]
pub struct Loader<'a> {
    pub files: &'a dyn Files,
    pub options: &'a LoadOptions,
}

impl Loader<'_> {
    /// What `crt` names: a file, a bundle (`x.rsa`, `x.ecdsa` for `x`), or all files of a directory in the order of their
    /// names.
    pub fn paths(&self, path: &str) -> Result<Vec<String>, LoadError> {
        match self.files.list(path) {
            Ok(names) => return Ok(self.of_directory(path, names)),
            Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
                return Ok(vec![path.to_owned()]);
            }
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(LoadError::new(
                    path,
                    format!("unable to open directory '{path}': {}.", reason(&error)),
                ));
            }
            Err(_) => {}
        }
        let members: Vec<String> = BUNDLE.iter().map(|suffix| format!("{path}{suffix}")).collect();
        let members: Vec<String> = members
            .into_iter()
            .filter(|member| self.options.extra.bundle && self.files.exists(member))
            .collect();
        if members.is_empty() {
            Err(LoadError::missing(path, "No such file or directory"))
        } else {
            Ok(members)
        }
    }

    fn of_directory(&self, path: &str, mut names: Vec<String>) -> Vec<String> {
        names.sort_unstable();
        let base = path.trim_end_matches('/');
        let is_own = |name: &&String| !name.starts_with('.') && !self.is_side_file(name);
        names
            .iter()
            .filter(is_own)
            .map(|name| format!("{base}/{name}"))
            .filter(|path| !self.is_directory(path))
            .collect()
    }

    fn is_directory(&self, path: &str) -> bool {
        self.files.list(path).is_ok()
    }

    /// Whether a file belongs to another one, as far as such files are looked for.
    fn is_side_file(&self, name: &str) -> bool {
        let extra = self.options.extra;
        SIDE_FILES.iter().any(|suffix| {
            let wanted = match *suffix {
                ".issuer" => extra.issuer,
                ".ocsp" => extra.ocsp,
                ".sctl" => extra.sctl,
                ".key" => extra.key,
                _ => false,
            };
            wanted && name.ends_with(suffix)
        })
    }

    /// Loads one file and what is beside it.
    pub fn load(&self, path: &str) -> Result<Credential, LoadError> {
        let bytes = self.files.read(path).map_err(|error| LoadError::missing(path, &reason(&error)))?;
        self.load_bytes(path, &bytes)
    }

    /// Loads a certificate whose file has this content: what `set ssl cert` brings.
    pub fn load_bytes(&self, path: &str, bytes: &[u8]) -> Result<Credential, LoadError> {
        let base = match path.rfind('.') {
            Some(dot) if self.options.delete_extension && path[dot..] == *".crt" => &path[..dot],
            _ => path,
        };
        let beside = |suffix: &str, wanted: bool| {
            let path = format!("{base}{suffix}");
            (wanted && self.files.exists(&path)).then_some(path)
        };
        let extra = self.options.extra;
        let parts = Parts {
            certificate: path.to_owned(),
            key: extra.key.then(|| format!("{base}.key")),
            ocsp: beside(".ocsp", extra.ocsp),
            issuer: beside(".issuer", extra.issuer),
            sctl: None,
        };
        let mut credential = self.assemble(path, bytes, &parts, false)?;
        if credential.key.is_none() {
            return Err(no_key(path));
        }
        credential.files.key.get_or_insert_with(|| path.to_owned());
        // These are where the reference looks, whether they are there or not.
        credential.files.ocsp = extra.ocsp.then(|| format!("{base}.ocsp"));
        credential.files.sctl = extra.sctl.then(|| format!("{base}.sctl"));
        credential.has_timestamps = beside(".sctl", extra.sctl).is_some();
        Ok(credential)
    }

    /// Loads the parts that a `crt-store` names. `name` is what the certificate is called by: its alias, or its path. It may
    /// have no key as long as no line serves it.
    pub fn load_parts(&self, name: &str, parts: &Parts) -> Result<Credential, LoadError> {
        if let Some(sctl) = &parts.sctl {
            let text = "'sctl' is not supported: the TLS library cannot send lists of signed certificate timestamps. \
                        Certificates carry them today; remove the keyword.";
            return Err(LoadError::new(sctl, text.to_owned()));
        }
        let path = &parts.certificate;
        let bytes = self.files.read(path).map_err(|error| LoadError::missing(path, &reason(&error)))?;
        self.assemble(name, &bytes, parts, parts.key.is_some())
    }

    pub(super) fn assemble(
        &self,
        name: &str,
        bytes: &[u8],
        parts: &Parts,
        key_elsewhere: bool,
    ) -> Result<Credential, LoadError> {
        let path = &parts.certificate;
        let blocks = pem::blocks(bytes).map_err(|error| LoadError::unreadable(path, &error.to_string()))?;
        let mut chain = certificates(path, &blocks)?;
        if chain.is_empty() {
            return Err(LoadError::unreadable(path, "no start line"));
        }
        let own = blocks.iter().find(|block| PrivateKey::is_key(block)).filter(|_| !key_elsewhere);
        let mut files = Parts { key: None, ..parts.clone() };
        let key = match (own, &parts.key) {
            (Some(block), _) => {
                let key = self.key_of(path, block);
                Some(key.map_err(|error| LoadError::key(path, path, error))?)
            }
            (None, Some(key_path)) => {
                files.key = Some(key_path.clone());
                Some(self.key(path, key_path)?)
            }
            (None, None) => None,
        };
        if let Some(key) = &key {
            key.fits(&chain[0], self.options.lazy_keys).map_err(|error| LoadError::key(path, path, error))?;
        }
        let chain_file = self.complete(&mut chain);
        let issuer = self.issuer(&chain, parts.issuer.as_deref())?;
        let ocsp = match &parts.ocsp {
            None => None,
            Some(ocsp) => Some(self.ocsp(ocsp, &chain[0], issuer.as_deref())?),
        };
        if self.options.skip_self_issued && chain.len() > 1 {
            let leaf = chain[0].clone();
            chain.retain(|member| Arc::ptr_eq(member, &leaf) || !member.is_self_issued());
        }
        let mut credential = Credential::new(name.into(), chain, key.map(Arc::new), issuer, ocsp);
        (credential.files, credential.chain_file) = (files, chain_file);
        Ok(credential)
    }

    fn key(&self, certificate: &str, path: &str) -> Result<PrivateKey, LoadError> {
        let Ok(bytes) = self.files.read(path) else { return Err(no_key(path)) };
        let blocks = pem::blocks(&bytes).map_err(|error| {
            LoadError::new(path, format!("unable to load private key from file '{path}': {error}."))
        })?;
        let block = blocks.iter().find(|block| PrivateKey::is_key(block)).ok_or_else(|| no_key(path))?;
        self.key_of(path, block).map_err(|error| LoadError::key(certificate, path, error))
    }

    /// The key in a section of a file, which may be under a passphrase.
    fn key_of(&self, path: &str, block: &Block) -> Result<PrivateKey, KeyError> {
        match &self.options.passphrases {
            Some(passphrases) if block.encrypted => PrivateKey::from_block(&passphrases.open(path, block)?),
            _ => PrivateKey::from_block(block),
        }
    }

    /// Brings in the chain of a certificate that comes alone: the file that it is from.
    fn complete(&self, chain: &mut Vec<Arc<Certificate>>) -> Option<Arc<str>> {
        if chain.len() > 1 {
            return None;
        }
        let leaf = chain[0].clone();
        let fits = |issuer: &Certificate| {
            issuer.subject() == leaf.issuer()
                && (leaf.authority_key_id().is_none()
                    || issuer.subject_key_id().is_none()
                    || leaf.authority_key_id() == issuer.subject_key_id())
        };
        let mut known = self.options.issuers.iter();
        let found = known.find(|known| known.chain.first().is_some_and(|first| fits(first)))?;
        chain.extend(found.chain.iter().cloned());
        Some(found.path.clone())
    }

    fn issuer(
        &self,
        chain: &[Arc<Certificate>],
        path: Option<&str>,
    ) -> Result<Option<Arc<Certificate>>, LoadError> {
        let in_chain = chain.get(1).filter(|next| next.subject() == chain[0].issuer()).cloned();
        // A file that is named has to be there, even where the chain makes it unnecessary.
        let Some(path) = path else { return Ok(in_chain) };
        let bytes = self.files.read(path).map_err(|error| LoadError::unreadable(path, &reason(&error)))?;
        let blocks = pem::blocks(&bytes).map_err(|error| LoadError::unreadable(path, &error.to_string()))?;
        let first = certificates(path, &blocks)?.into_iter().next();
        let first = first.ok_or_else(|| LoadError::unreadable(path, "no start line"))?;
        Ok(Some(in_chain.unwrap_or(first)))
    }

    fn ocsp(
        &self,
        path: &str,
        leaf: &Certificate,
        issuer: Option<&Certificate>,
    ) -> Result<Arc<OcspResponse>, LoadError> {
        let error =
            |why: &str| LoadError::new(path, format!("Error opening OCSP response file '{path}': {why}."));
        let bytes = self.files.read(path).map_err(|problem| error(&reason(&problem)))?;
        let response = OcspResponse::read(&bytes).map_err(|problem| error(&problem.to_string()))?;
        response.check(leaf, issuer).map_err(|problem| error(&problem.to_string()))?;
        Ok(Arc::new(response))
    }
}

fn no_key(path: &str) -> LoadError {
    LoadError::new(path, format!("No Private Key found in '{path}'."))
}

/// The certificates among the sections of a file.
pub(crate) fn certificates(path: &str, blocks: &[Block]) -> Result<Vec<Arc<Certificate>>, LoadError> {
    let is_certificate = |block: &&Block| matches!(block.label.as_str(), "CERTIFICATE" | "X509 CERTIFICATE");
    let parse = |block: &Block| {
        Certificate::parse(&block.der)
            .map(Arc::new)
            .map_err(|_| LoadError::unreadable(path, "a certificate in it is not valid DER"))
    };
    blocks.iter().filter(is_certificate).map(parse).collect()
}
