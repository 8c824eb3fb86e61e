//! What a verification relies on: certificates that are trusted (`ca-file`) and revocation lists (`crl-file`).

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use crate::x509::{Certificate, Crl, name};

/// The certificates of a `ca-file`, found by the name of their subject.
#[derive(Clone, Debug, Default)]
pub struct TrustStore {
    all: Vec<Arc<Certificate>>,
    by_subject: HashMap<Vec<u8>, Vec<usize>>,
    fingerprint: u64,
}

impl TrustStore {
    pub fn new(certificates: impl IntoIterator<Item = Arc<Certificate>>) -> TrustStore {
        let mut store = TrustStore::default();
        for certificate in certificates {
            store.add(certificate);
        }
        store
    }

    /// Adds one, unless it is there already.
    pub fn add(&mut self, certificate: Arc<Certificate>) {
        let places = self.by_subject.entry(name::canonical(certificate.subject())).or_default();
        if !places.iter().any(|at| self.all[*at].der() == certificate.der()) {
            places.push(self.all.len());
            self.fingerprint = with(self.fingerprint, certificate.der());
            self.all.push(certificate);
        }
    }

    /// Equal for stores with the same certificates in the same order. Only of use within one process.
    pub(crate) fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// All of them, in the order of their file.
    pub fn certificates(&self) -> &[Arc<Certificate>] {
        &self.all
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether exactly this certificate is trusted.
    pub fn contains(&self, certificate: &Certificate) -> bool {
        self.named(certificate.subject()).any(|known| known.der() == certificate.der())
    }

    /// Those whose subject is this name.
    pub fn named(&self, subject: &[u8]) -> impl Iterator<Item = &Arc<Certificate>> {
        let places = self.by_subject.get(&name::canonical(subject));
        places.into_iter().flatten().map(|at| &self.all[*at])
    }
}

/// What came so far, and one more.
fn with(fingerprint: u64, der: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (fingerprint, der).hash(&mut hasher);
    hasher.finish()
}

/// The lists of a `crl-file`, found by the name of their issuer.
#[derive(Clone, Default)]
pub struct Crls {
    all: Vec<Arc<Crl>>,
    by_issuer: HashMap<Vec<u8>, Vec<usize>>,
    fingerprint: u64,
}

impl std::fmt::Debug for Crls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Crls({})", self.all.len())
    }
}

impl Crls {
    pub fn new(lists: impl IntoIterator<Item = Arc<Crl>>) -> Crls {
        let mut crls = Crls::default();
        for list in lists {
            crls.by_issuer.entry(name::canonical(list.issuer())).or_default().push(crls.all.len());
            crls.fingerprint = with(crls.fingerprint, list.der());
            crls.all.push(list);
        }
        crls
    }

    /// Equal for the same lists in the same order. Only of use within one process.
    pub(crate) fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    pub fn lists(&self) -> &[Arc<Crl>] {
        &self.all
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The lists of an issuer of this name: the most recent one that has begun to count first, those that have not last.
    pub fn of(&self, issuer: &[u8], now: i64) -> Vec<&Arc<Crl>> {
        let places = self.by_issuer.get(&name::canonical(issuer));
        let mut lists: Vec<&Arc<Crl>> = places.into_iter().flatten().map(|at| &self.all[*at]).collect();
        lists.sort_by_key(|list| std::cmp::Reverse((list.this_update <= now, list.this_update)));
        lists
    }
}
