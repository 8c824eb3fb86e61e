//! Certificates that verify and decrypt JSON Web Tokens (`jwt on`): `add|del|show ssl jwt`, and what converters find.

use std::collections::HashMap;
use std::sync::Arc;

use thalweg_shared::RwLock;

use super::{Answer, FileKind, Live};
use crate::certificate::Credential;

/// A certificate, as a converter that names it finds it.
#[derive(Clone, Debug)]
pub enum TokenCertificate {
    /// There is none of this name.
    Unknown,
    /// It is not for tokens.
    Unavailable,
    Usable(Arc<Credential>),
}

/// The certificates by name, for converters. A change makes another map.
#[derive(Debug, Default)]
pub struct TokenCertificates {
    current: RwLock<Arc<HashMap<String, Option<Arc<Credential>>>>>,
}

impl TokenCertificates {
    /// The certificate of this name.
    pub fn find(&self, name: &str) -> TokenCertificate {
        let current = self.current.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
        match current.get(name) {
            None => TokenCertificate::Unknown,
            Some(None) => TokenCertificate::Unavailable,
            Some(Some(credential)) => TokenCertificate::Usable(credential.clone()),
        }
    }
}

impl Live {
    /// What converters look certificates up in. From now on it follows every change.
    pub fn token_certificates(&mut self) -> Arc<TokenCertificates> {
        let shared = self.tokens.get_or_insert_default().clone();
        self.publish_tokens();
        shared
    }

    /// Tells converters of a change.
    pub(super) fn publish_tokens(&self) {
        let Some(shared) = &self.tokens else { return };
        let usable = |slot: &super::Slot| slot.credential.clone().filter(|_| slot.keywords.jwt == Some(true));
        let all = self.certificates.iter().map(|(name, slot)| (name.clone(), usable(slot))).collect();
        *shared.current.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = Arc::new(all);
    }

    /// `add ssl jwt <certificate>` and `del ssl jwt <certificate>`
    pub fn use_for_tokens(&mut self, name: &str, on: bool) -> Answer {
        let unknown = "Can't display the certificate: Not found or the certificate is a bundle!";
        let slot = self.certificates.get_mut(name).ok_or(unknown)?;
        slot.keywords.jwt = Some(on);
        self.changes.replaced(FileKind::Jwt, name);
        self.edition += 1;
        self.publish_tokens();
        Ok(String::new())
    }

    /// `show ssl jwt`: nothing when no certificate is there.
    pub fn show_token_certificates(&self) -> String {
        if self.certificates.is_empty() {
            return String::new();
        }
        let for_tokens = self.certificates.iter().filter(|(_, slot)| slot.keywords.jwt == Some(true));
        let names = for_tokens.map(|(name, _)| format!("{name}\n"));
        format!("# filename\n{}", names.collect::<String>())
    }
}
