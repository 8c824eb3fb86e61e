//! `new|set|commit|abort|del|dump ssl cert`, `set ssl ocsp-response`.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{Answer, Concern, FileKind, Keywords, Live, Source};
use crate::certificate::{Credential, KeyError, PrivateKey, certificates};
use crate::ocsp::OcspResponse;
use crate::pem;
use crate::x509::Certificate;

/// A certificate under a name; empty after `new ssl cert`.
#[derive(Clone, Debug, Default)]
pub(super) struct Slot {
    pub credential: Option<Arc<Credential>>,
    pub origin: Origin,
    pub keywords: Keywords,
    /// A `crt-store` names it.
    pub in_store: bool,
}

/// How a certificate came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Origin {
    /// By `new ssl cert`.
    #[default]
    New,
    /// From files.
    Files,
    /// From files, and was replaced since.
    Replaced,
}

impl Slot {
    /// Whether the CLI brought it, and nobody said anything of it yet.
    pub fn is_undeclared(&self) -> bool {
        self.origin == Origin::New && self.keywords.is_empty()
    }

    pub fn loaded(credential: Arc<Credential>) -> Slot {
        Slot { credential: Some(credential), origin: Origin::Files, ..Slot::default() }
    }
}

/// What `set ssl cert` prepared. There is one at a time.
#[derive(Clone, Debug)]
pub(super) struct Transaction {
    pub name: String,
    pub draft: Draft,
}

/// A certificate in the making.
#[derive(Clone, Debug, Default)]
pub(super) struct Draft {
    pub chain: Vec<Arc<Certificate>>,
    pub key: Option<Arc<PrivateKey>>,
    pub issuer: Option<Arc<Certificate>>,
    pub ocsp: Option<Arc<OcspResponse>>,
}

impl Draft {
    fn of(slot: &Slot) -> Draft {
        slot.credential.as_ref().map_or_else(Draft::default, |credential| Draft {
            chain: credential.chain.clone(),
            key: credential.key.clone(),
            issuer: credential.issuer.clone(),
            ocsp: credential.ocsp(),
        })
    }
}

/// What a payload replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    All,
    Key,
    Ocsp,
    Issuer,
}

impl Live {
    /// `new ssl cert <name>`
    pub fn new_certificate(&mut self, name: &str) -> Answer {
        if self.certificates.contains_key(name) {
            return Err(format!("Certificate '{name}' already exists!"));
        }
        self.certificates.insert(name.to_owned(), Slot::default());
        Ok(format!("New empty certificate store '{name}'!"))
    }

    /// `set ssl cert <name> <payload>`: the name may end with `.key`, `.ocsp` or `.issuer` for a part.
    pub fn set_certificate(&mut self, path: &str, payload: &[u8]) -> Answer {
        let failed = |why: &str| Err(format!("{why}\nCan't update {path}!"));
        let Some((name, part)) = self.part_of(path) else {
            return failed("Can't replace a certificate which is not referenced by the configuration!");
        };
        if let Some(transaction) = self.transaction.as_ref().filter(|transaction| transaction.name != name) {
            return failed(&format!(
                "The ongoing transaction is about '{}' but you are trying to set '{name}'",
                transaction.name
            ));
        }
        let begun = self.transaction.is_some();
        let mut draft = match &self.transaction {
            Some(transaction) => transaction.draft.clone(),
            None => self.certificates.get(&name).map(Draft::of).unwrap_or_default(),
        };
        if let Err(why) = apply(&mut draft, part, &name, payload) {
            return failed(&format!("{why}\nCan't load the payload"));
        }
        self.transaction = Some(Transaction { name: name.clone(), draft });
        let what = if begun { "updated" } else { "created" };
        Ok(format!("Transaction {what} for certificate {name}!"))
    }

    /// Whether a path of `set ssl cert` is about the certificate of that name.
    pub(super) fn names(&self, name: &str, path: &str) -> bool {
        self.part_of(path).is_some_and(|(found, _)| found == name)
    }

    fn part_of(&self, path: &str) -> Option<(String, Part)> {
        if self.certificates.contains_key(path) {
            return Some((path.to_owned(), Part::All));
        }
        let parts = [(".key", Part::Key), (".ocsp", Part::Ocsp), (".issuer", Part::Issuer)];
        let (base, part) =
            parts.iter().find_map(|(suffix, part)| Some((path.strip_suffix(suffix)?, *part)))?;
        let deleted = format!("{base}.crt");
        let candidates = [Some(base), self.options.delete_extension.then_some(deleted.as_str())];
        let name = candidates.into_iter().flatten().find(|name| self.certificates.contains_key(*name))?;
        Some((name.to_owned(), part))
    }

    /// `commit ssl cert <name>`
    pub fn commit_certificate(&mut self, name: &str) -> Answer {
        let failed = |why: String| Err(format!("{why}\nCan't commit {name}!"));
        let transaction = match &self.transaction {
            None => return failed("No ongoing transaction! !".to_owned()),
            Some(transaction) if transaction.name != name => {
                return failed(format!(
                    "The ongoing transaction is about '{}' but you are trying to set '{name}'",
                    transaction.name
                ));
            }
            Some(transaction) => transaction,
        };
        let credential = match finish(name, &transaction.draft, self.instances(name) > 0) {
            Ok(credential) => Arc::new(credential),
            Err(why) => return failed(why),
        };
        let before = self.certificates.get(name).cloned().unwrap_or_default();
        let origin = match before.origin {
            Origin::Files | Origin::Replaced => Origin::Replaced,
            Origin::New => Origin::New,
        };
        let new = Slot { credential: Some(credential), origin, ..before };
        let old = self.certificates.insert(name.to_owned(), new).unwrap_or_default();
        if let Err(why) = self.rebuild_with_certificate(name) {
            // What was served is served on.
            self.certificates.insert(name.to_owned(), old);
            return failed(why);
        }
        self.transaction = None;
        // It was about the one before.
        self.changes.forget(FileKind::OcspResponse, name);
        self.updates.changed();
        self.publish_tokens();
        let dots = ".".repeat(self.instances(name));
        let notice = self.out_of_force(name).map_or_else(String::new, |why| format!("notice: {why}\n"));
        Ok(format!("Committing {name}{dots}\n{notice}Success!"))
    }

    /// Everything is read, and what stays of the configuration before is taken over.
    pub fn forget_former(&mut self) {
        self.servers.iter_mut().for_each(|server| server.before = None);
    }

    pub(super) fn rebuild_with_certificate(&mut self, name: &str) -> Result<(), String> {
        self.rebuild(
            |_, sources, lists| {
                let names = |source: &Source| match source {
                    Source::Certificate(certificate, _) => certificate == name,
                    Source::List(list) => {
                        lists.get(list).is_some_and(|lines| lines.iter().any(|line| line.path == name))
                    }
                };
                if sources.iter().any(names) { Concern::Certificates } else { Concern::None }
            },
            |uses| uses.certificate.as_deref() == Some(name),
        )
    }

    /// How often a certificate is in use.
    pub(super) fn instances(&self, name: &str) -> usize {
        let served = |bind: &super::Bind| {
            let selection = bind.line.selection();
            selection.served().iter().filter(|served| &*served.credential.name == name).count()
        };
        let servers = self
            .servers
            .iter()
            .filter(|server| server.is_used() && server.uses.certificate.as_deref() == Some(name));
        self.binds.iter().map(served).sum::<usize>() + servers.count()
    }

    /// `abort ssl cert <name>`
    pub fn abort_certificate(&mut self, name: &str) -> Answer {
        match &self.transaction {
            None => Err("No ongoing transaction!".to_owned()),
            Some(transaction) if transaction.name != name => Err(format!(
                "The ongoing transaction is about '{}' but you are trying to abort a transaction for '{name}'",
                transaction.name
            )),
            Some(_) => {
                self.transaction = None;
                Ok(format!("Transaction aborted for certificate '{name}'!"))
            }
        }
    }

    /// `del ssl cert <name>`
    pub fn delete_certificate(&mut self, name: &str) -> Answer {
        let why = if !self.certificates.contains_key(name) {
            format!("certificate '{name}' doesn't exist!")
        } else if self.instances(name) > 0 || self.lists.values().flatten().any(|line| line.path == name) {
            format!("certificate '{name}' in use, can't be deleted!")
        } else if self.certificates.get(name).is_some_and(|slot| slot.keywords.jwt == Some(true)) {
            format!("certificate '{name}' in use for JWT validation, can't be deleted!")
        } else {
            self.certificates.remove(name);
            [FileKind::OcspResponse, FileKind::Jwt]
                .into_iter()
                .for_each(|kind| self.changes.forget(kind, name));
            self.updates.changed();
            self.publish_tokens();
            if self.transaction.as_ref().is_some_and(|transaction| transaction.name == name) {
                self.transaction = None;
            }
            return Ok(format!("Certificate '{name}' deleted!"));
        };
        Err(format!("Can't remove the certificate: {why}"))
    }

    /// `dump ssl cert <name>`: key and certificates in PEM, for an administrator only.
    pub fn dump_certificate(&self, name: &str) -> Answer {
        let draft = match name.strip_prefix('*') {
            Some(name) => self.transaction.as_ref().filter(|t| t.name == name).map(|t| t.draft.clone()),
            None => self.certificates.get(name).map(Draft::of),
        };
        let Some(draft) = draft else {
            return Err("Can't display the certificate: Not found or the certificate is a bundle!".to_owned());
        };
        let mut out = draft.key.map(|key| key.pem()).unwrap_or_default();
        draft.chain.iter().for_each(|one| out.push_str(&pem::encode("CERTIFICATE", one.der())));
        Ok(out)
    }

    /// `set ssl ocsp-response <base64>`: the certificate is the one that the response answers for.
    pub fn set_ocsp_response(&mut self, payload: &str) -> Answer {
        let der = STANDARD.decode(payload).map_err(|_| NOT_BASE64.to_owned())?;
        let response = OcspResponse::parse(&der).map_err(|error| format!("{error}."))?;
        let fits = |slot: &&Slot| {
            let credential = slot.credential.as_ref();
            credential.is_some_and(|one| response.check(one.leaf(), one.issuer.as_deref()).is_ok())
        };
        let credentials: Vec<Arc<Credential>> =
            self.certificates.values().filter(fits).filter_map(|slot| slot.credential.clone()).collect();
        if credentials.is_empty() {
            let nobody = crate::ocsp::OcspError::OtherCertificate;
            return Err(format!("{nobody}."));
        }
        let response = Arc::new(response);
        for credential in credentials {
            credential.set_ocsp(Some(response.clone()));
            self.changes.replaced(FileKind::OcspResponse, &credential.name);
        }
        self.edition += 1;
        self.updates.changed();
        Ok("OCSP Response updated!".to_owned())
    }
}

/// The answer to what cannot be an OCSP response.
const NOT_BASE64: &str = "'set ssl ocsp-response' received invalid base64 encoded response.";

/// Lays a payload over a draft.
fn apply(draft: &mut Draft, part: Part, name: &str, payload: &[u8]) -> Result<(), String> {
    if part == Part::Ocsp {
        let response = OcspResponse::read(payload).map_err(|error| format!("{error}."))?;
        draft.ocsp = Some(Arc::new(response));
        return Ok(());
    }
    let unreadable = |why: &str| format!("unable to load certificate from file '{name}': {why}.");
    let blocks = pem::blocks(payload).map_err(|error| unreadable(&error.to_string()))?;
    let found = certificates(name, &blocks).map_err(|error| error.to_string())?;
    let key = blocks.iter().find(|block| PrivateKey::is_key(block));
    match part {
        Part::All => {
            if found.is_empty() {
                return Err(unreadable("no start line"));
            }
            draft.issuer = found.get(1).filter(|next| next.subject() == found[0].issuer()).cloned();
            draft.chain = found;
            // It answered for the old certificate.
            draft.ocsp = None;
        }
        Part::Issuer => {
            draft.issuer = Some(found.into_iter().next().ok_or_else(|| unreadable("no start line"))?);
            return Ok(());
        }
        Part::Key if key.is_none() => return Err(format!("No Private Key found in '{name}.key'.")),
        Part::Key | Part::Ocsp => {}
    }
    if let Some(block) = key {
        let key = PrivateKey::from_block(block).map_err(|error| error.to_string())?;
        draft.key = Some(Arc::new(key));
    }
    Ok(())
}

/// The certificate of a draft, if it is whole. One that is served has a key.
fn finish(name: &str, draft: &Draft, served: bool) -> Result<Credential, String> {
    let missing = "The transaction must contain at least a certificate and a private key!";
    let leaf = draft.chain.first().ok_or(missing)?;
    if served && draft.key.is_none() {
        return Err(missing.to_owned());
    }
    let fits = draft.key.as_ref().map_or(Ok(()), |key| key.fits(leaf, false));
    fits.map_err(|error| match error {
        KeyError::Mismatch => {
            format!("inconsistencies between private key and certificate loaded '{name}'.")
        }
        other => other.to_string(),
    })?;
    if let Some(response) = &draft.ocsp {
        response.check(leaf, draft.issuer.as_deref()).map_err(|error| format!("{error}."))?;
    }
    Ok(Credential::new(
        name.into(),
        draft.chain.clone(),
        draft.key.clone(),
        draft.issuer.clone(),
        draft.ocsp.clone(),
    ))
}
