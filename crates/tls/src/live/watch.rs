//! Certificates whose files change while they are served (`crt-watch on`).
//!
//! Somebody writes files while we look, so a change counts once two looks in a row found the same, and what cannot be read, does
//! not fit together or is out of force stays aside: the certificate that was loaded before is served on.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use thalweg_shared::{Mutex, MutexGuard};

use super::certificates::Origin;
use super::{Answer, Live, Slot};
use crate::certificate::{Credential, LoadOptions, Loader, Parts};
use crate::crt_list::Line;
use crate::files::{Files, Stamp};

/// What a look at the files found of one certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Its files changed, and it is served as they say now.
    Replaced(String),
    /// It is new in a directory that is served whole.
    Added(String),
    /// Its files changed and are not used; why.
    Refused(String, String),
    /// Its file is not there any more.
    Gone(String),
}

impl Found {
    /// Whether everything is as whoever changed the files wanted it.
    pub fn is_well(&self) -> bool {
        matches!(self, Found::Replaced(_) | Found::Added(_))
    }
}

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Found::Replaced(name) => {
                write!(f, "crt-watch: '{name}' changed on disk and is what clients are shown from now on.")
            }
            Found::Added(name) => {
                write!(f, "crt-watch: '{name}' is new and is what clients are shown from now on.")
            }
            Found::Refused(name, why) => {
                let why = why.trim_end_matches('.');
                write!(
                    f,
                    "crt-watch: '{name}' changed on disk and is not used: {why}. What was loaded before stays in use."
                )
            }
            Found::Gone(name) => {
                write!(f, "crt-watch: '{name}' is not on disk any more. What was loaded before stays in use.")
            }
        }
    }
}

/// What the files of a certificate were like, in the order of [`Known::paths`]; `None` for one that is not there.
type Stamps = Vec<Option<Stamp>>;

/// A certificate and its files.
#[derive(Debug)]
struct Known {
    parts: Parts,
    /// A `crt-store` or a list names each file; otherwise they are looked for beside the certificate.
    is_named: bool,
    /// The directory that it is new in.
    directory: Option<String>,
    /// As it was loaded, or refused.
    seen: Stamps,
    /// As the last look found it, if that was something else.
    changing: Option<Stamps>,
}

impl Known {
    fn paths(&self) -> impl Iterator<Item = &String> {
        let Parts { certificate, key, ocsp, issuer, sctl: _ } = &self.parts;
        [Some(certificate), key.as_ref(), ocsp.as_ref(), issuer.as_ref()].into_iter().flatten()
    }

    fn stamps(&self, files: &dyn Files) -> Stamps {
        self.paths().map(|path| files.stamp(path)).collect()
    }

    /// Whether the files are other ones than before, and nobody is writing them.
    fn has_changed(&mut self, files: &dyn Files) -> bool {
        let now = self.stamps(files);
        if now == self.seen {
            self.changing = None;
            return false;
        }
        if self.changing.as_ref() != Some(&now) {
            self.changing = Some(now);
            return false;
        }
        self.changing = None;
        self.seen = now;
        true
    }

    fn load(&self, name: &str, loader: &Loader<'_>) -> Result<Credential, String> {
        let loaded = match self.is_named {
            true => loader.load_parts(name, &self.parts),
            false => loader.load(name),
        };
        loaded.map_err(|error| error.to_string())
    }
}

/// Looks at the files of certificates, again and again.
#[derive(Debug, Default)]
pub struct Watcher {
    known: BTreeMap<String, Known>,
}

/// What a look begins with.
struct Watched {
    /// Each certificate with its files, if it came from files, and whether each of them is named.
    certificates: Vec<(String, Option<Parts>, bool)>,
    /// The lists, of which some are directories.
    lists: Vec<String>,
    options: LoadOptions,
    /// Files that changed before that, in seconds since 1970, were read as they are.
    loaded_at: i64,
}

/// How far the clock of a file system may be behind the process's, in seconds.
const CLOCKS_DIFFER_S: i64 = 1;

fn lock(live: &Mutex<Live>) -> MutexGuard<'_, Live> {
    live.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watcher {
    /// Looks once. What changed is served by `live` afterwards, which is not held while files are read.
    pub fn look(&mut self, files: &dyn Files, live: &Mutex<Live>) -> Vec<Found> {
        let Watched { certificates, lists, options, loaded_at } = lock(live).watched();
        let loader = Loader { files, options: &options };
        self.follow(files, certificates, loaded_at);
        self.find_new(&loader, lists);
        let mut found = Vec::new();
        let mut gone = Vec::new();
        for (name, known) in &mut self.known {
            if !known.has_changed(files) {
                continue;
            }
            if known.seen.first().is_none_or(Option::is_none) {
                match &known.directory {
                    None => found.push(Found::Gone(name.clone())),
                    // It never was served.
                    Some(_) => gone.push(name.clone()),
                }
                continue;
            }
            let loaded = known.load(name, &loader);
            let done = loaded.and_then(|credential| match &known.directory {
                None => lock(live).replace_certificate(credential),
                Some(directory) => lock(live).add_of_directory(directory, credential).map(Some),
            });
            match done {
                Ok(None) => {}
                Ok(Some(name)) if known.directory.take().is_some() => found.push(Found::Added(name)),
                Ok(Some(name)) => found.push(Found::Replaced(name)),
                Err(why) => found.push(Found::Refused(name.clone(), why)),
            }
        }
        gone.iter().for_each(|name| drop(self.known.remove(name)));
        found
    }

    /// Takes over which certificates there are. Those that are seen for the first time were loaded a while ago: files that changed
    /// since then, or may have, are read again.
    fn follow(
        &mut self,
        files: &dyn Files,
        certificates: Vec<(String, Option<Parts>, bool)>,
        loaded_at: i64,
    ) {
        let mut before = std::mem::take(&mut self.known);
        for (name, parts, is_named) in certificates {
            let known = match (before.remove(&name), parts) {
                // What an operator committed has no files, and theirs are watched on.
                (Some(known), None) => known,
                (Some(known), Some(parts)) => Known { parts, is_named, ..known },
                (None, None) => continue,
                (None, Some(parts)) => {
                    let mut known =
                        Known { parts, is_named, directory: None, seen: Vec::new(), changing: None };
                    let stamps = known.stamps(files);
                    if stamps.iter().flatten().all(|stamp| stamp.changed.0 + CLOCKS_DIFFER_S < loaded_at) {
                        known.seen = stamps;
                    }
                    known
                }
            };
            self.known.insert(name, known);
        }
        self.known.extend(before.into_iter().filter(|(_, known)| known.directory.is_some()));
    }

    /// Finds files that are new in directories.
    fn find_new(&mut self, loader: &Loader<'_>, lists: Vec<String>) {
        for directory in lists {
            if loader.files.list(&directory).is_err() {
                continue;
            }
            for path in loader.paths(&directory).unwrap_or_default() {
                self.known.entry(path).or_insert_with_key(|path| Known {
                    parts: Parts { certificate: path.clone(), ..Parts::default() },
                    is_named: false,
                    directory: Some(directory.clone()),
                    seen: Vec::new(),
                    changing: None,
                });
            }
        }
    }
}

/// Whether clients would see no difference.
fn is_same(one: &Credential, other: &Credential) -> bool {
    let chain = |credential: &Credential| -> Vec<Vec<u8>> {
        credential.chain.iter().map(|certificate| certificate.der().to_vec()).collect()
    };
    let key = |credential: &Credential| credential.key.as_ref().map(|key| key.pem());
    let ocsp = |credential: &Credential| credential.ocsp().map(|response| response.der().to_vec());
    chain(one) == chain(other) && key(one) == key(other) && ocsp(one) == ocsp(other)
}

impl Live {
    fn watched(&self) -> Watched {
        let of = |(name, slot): (&String, &Slot)| {
            let credential = slot.credential.as_ref()?;
            let parts = Some(credential.files.clone()).filter(|parts| !parts.certificate.is_empty());
            Some((name.clone(), parts, slot.in_store || slot.keywords.names_files()))
        };
        Watched {
            certificates: self.certificates.iter().filter_map(of).collect(),
            lists: self.lists.keys().cloned().collect(),
            options: LoadOptions { lazy_keys: false, ..self.options.clone() },
            loaded_at: self.loaded_at,
        }
    }

    fn is_expired(&self, credential: &Credential) -> bool {
        credential.leaf().not_after < self.shared.clock.now() as i64
    }

    /// Serves a certificate that was read from its files again. The name that it has; `None` if it is the one that is served.
    fn replace_certificate(&mut self, credential: Credential) -> Result<Option<String>, String> {
        let name = credential.name.to_string();
        let Some(before) = self.certificates.get(&name).cloned() else {
            return Err("it was deleted meanwhile".into());
        };
        if let Some(old) =
            before.credential.as_ref().filter(|old| old.leaf().der() == credential.leaf().der())
        {
            if credential.ocsp().is_none() {
                // What a responder said of it still counts.
                credential.set_ocsp(old.ocsp());
            }
            if is_same(old, &credential) {
                return Ok(None);
            }
        }
        if self.is_expired(&credential) {
            return Err("it has expired".into());
        }
        let slot = Slot { credential: Some(Arc::new(credential)), origin: Origin::Files, ..before };
        self.put(&name, slot).map(Some)
    }

    /// Serves a certificate that is new in a directory. The name that it has.
    fn add_of_directory(&mut self, directory: &str, credential: Credential) -> Answer {
        let name = credential.name.to_string();
        if self.is_expired(&credential) {
            return Err("it has expired".into());
        }
        let Some(lines) = self.lists.get_mut(directory) else {
            return Err("its directory is not served".into());
        };
        let number = lines.last().map_or(0, |line| line.number) + 1;
        let parts = Parts { certificate: name.clone(), ..Parts::default() };
        lines.push(Line { path: name.clone(), parts, number, ..Line::default() });
        let added = self.put(&name, Slot::loaded(Arc::new(credential)));
        if added.is_err() {
            self.certificates.remove(&name);
            self.lists.get_mut(directory).and_then(Vec::pop);
        }
        added
    }

    /// Serves this certificate under a name, or what was served before if that cannot be.
    fn put(&mut self, name: &str, slot: Slot) -> Answer {
        let before = self.certificates.insert(name.to_owned(), slot).unwrap_or_default();
        if let Err(why) = self.rebuild_with_certificate(name) {
            self.certificates.insert(name.to_owned(), before);
            return Err(why);
        }
        self.updates.changed();
        self.publish_tokens();
        Ok(name.to_owned())
    }
}
