//! `new|set|add|commit|abort|del ssl ca-file` and `crl-file`.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Answer, Concern, FileKind, Live};
use crate::options::words::Words;
use crate::pem;
use crate::verify::{Crls, TrustStore};
use crate::x509::{Certificate, Crl};

/// Files of one kind, and the one that is being changed.
#[derive(Debug)]
pub(super) struct FileSet<T> {
    /// `CA` or `CRL`, as messages say.
    pub kind: &'static str,
    pub files: BTreeMap<String, Arc<T>>,
    pub transaction: Option<(String, Arc<T>)>,
}

impl<T: Default> FileSet<T> {
    pub fn new(kind: &'static str) -> FileSet<T> {
        FileSet { kind, files: BTreeMap::new(), transaction: None }
    }

    pub fn insert(&mut self, name: &str, content: T) {
        self.files.insert(name.to_owned(), Arc::new(content));
    }

    pub fn get(&self, name: &str) -> Option<Arc<T>> {
        self.files.get(name).cloned()
    }

    fn create(&mut self, name: &str) -> Answer {
        let kind = self.kind;
        if self.files.contains_key(name) {
            return Err(format!("{kind} file '{name}' already exists!"));
        }
        self.insert(name, T::default());
        Ok(format!("New {kind} file created '{name}'!"))
    }

    /// The file that a transaction may be about: an error in the reference's words otherwise.
    fn may_set(&self, name: &str) -> Result<(), String> {
        let kind = self.kind;
        if !self.files.contains_key(name) {
            return Err(format!(
                "Can't replace a {kind} file which is not referenced by the configuration!\nCan't update {name}!"
            ));
        }
        match &self.transaction {
            Some((other, _)) if other != name => Err(format!(
                "The ongoing transaction is about '{other}' but you are trying to set '{name}'\nCan't update {name}!"
            )),
            _ => Ok(()),
        }
    }

    fn set(&mut self, name: &str, content: T) -> Answer {
        let what = if self.transaction.is_some() { "updated" } else { "created" };
        self.transaction = Some((name.to_owned(), Arc::new(content)));
        Ok(format!("transaction {what} for {} {name}!", self.kind))
    }

    fn abort(&mut self, name: &str) -> Answer {
        match &self.transaction {
            None => Err("No ongoing transaction!".to_owned()),
            Some((other, _)) if other != name => Err(format!(
                "The ongoing transaction is about '{other}' but you are trying to abort a transaction for '{name}'"
            )),
            Some(_) => {
                self.transaction = None;
                Ok(format!("Transaction aborted for certificate '{name}'!"))
            }
        }
    }

    /// Takes the transaction out, to be put back when it cannot be finished.
    fn committing(&self, name: &str) -> Result<Arc<T>, String> {
        match &self.transaction {
            None => Err(format!("No ongoing transaction! !\nCan't commit {name}!")),
            Some((other, _)) if other != name => Err(format!(
                "The ongoing transaction is about '{other}' but you are trying to set '{name}'\nCan't commit {name}!"
            )),
            Some((_, content)) => Ok(content.clone()),
        }
    }

    fn delete(&mut self, name: &str, used: bool) -> Answer {
        let kind = self.kind;
        let why = if !self.files.contains_key(name) {
            format!("{kind} file '{name}' doesn't exist!")
        } else if used {
            format!("{kind} file '{name}' in use, can't be deleted!")
        } else {
            self.files.remove(name);
            self.transaction.take_if(|(other, _)| other == name);
            return Ok(format!("{kind} file '{name}' deleted!"));
        };
        Err(format!("Can't remove the {kind} file: {why}"))
    }
}

/// The certificates in a `ca-file`'s text; None when there is none, or one that cannot be read.
pub fn read_trust(text: &[u8]) -> Option<Vec<Arc<Certificate>>> {
    let blocks = pem::blocks(text).ok()?;
    let found = crate::certificate::certificates("", &blocks).ok()?;
    (!found.is_empty()).then_some(found)
}

/// The lists in a `crl-file`'s text.
pub fn read_crls(text: &[u8]) -> Option<Crls> {
    let blocks = pem::blocks(text).ok()?;
    let lists = blocks.iter().filter(|block| block.label == "X509 CRL");
    let lists: Vec<Arc<Crl>> =
        lists.map(|block| Crl::parse(&block.der).map(Arc::new)).collect::<Result<_, _>>().ok()?;
    (!lists.is_empty()).then(|| Crls::new(lists))
}

impl Live {
    /// `new ssl ca-file <name>`
    pub fn new_ca_file(&mut self, name: &str) -> Answer {
        let created = self.trust.create(name)?;
        self.changes.added(FileKind::CaFile, name);
        Ok(created)
    }

    /// `new ssl crl-file <name>`
    pub fn new_crl_file(&mut self, name: &str) -> Answer {
        let created = self.crls.create(name)?;
        self.changes.added(FileKind::CrlFile, name);
        Ok(created)
    }

    /// `set ssl ca-file <name> <payload>`
    pub fn set_ca_file(&mut self, name: &str, payload: &[u8]) -> Answer {
        self.trust.may_set(name)?;
        let certificates =
            read_trust(payload).ok_or_else(|| format!("Invalid payload\nCan't update {name}!"))?;
        self.trust.set(name, TrustStore::new(certificates))
    }

    /// `add ssl ca-file <name> <payload>`: beside what is there.
    pub fn add_ca_file(&mut self, name: &str, payload: &[u8]) -> Answer {
        self.trust.may_set(name)?;
        let certificates =
            read_trust(payload).ok_or_else(|| format!("Invalid payload\nCan't update {name}!"))?;
        let before = match &self.trust.transaction {
            Some((_, content)) => content.clone(),
            None => self.trust.get(name).unwrap_or_default(),
        };
        let mut store = TrustStore::clone(&before);
        certificates.into_iter().for_each(|certificate| store.add(certificate));
        self.trust.set(name, store)
    }

    /// `set ssl crl-file <name> <payload>`
    pub fn set_crl_file(&mut self, name: &str, payload: &[u8]) -> Answer {
        self.crls.may_set(name)?;
        let crls = read_crls(payload).ok_or_else(|| format!("Invalid payload\nCan't update {name}!"))?;
        self.crls.set(name, crls)
    }

    /// `commit ssl ca-file <name>`
    pub fn commit_ca_file(&mut self, name: &str) -> Answer {
        let new = self.trust.committing(name)?;
        self.put_ca_file(name, new).map_err(|why| format!("{why}\nCan't commit {name}!"))?;
        self.changes.replaced(FileKind::CaFile, name);
        self.trust.transaction = None;
        Ok(format!("Committing {name}{}\nSuccess!", ".".repeat(self.ca_uses(name))))
    }

    /// `commit ssl crl-file <name>`
    pub fn commit_crl_file(&mut self, name: &str) -> Answer {
        let new = self.crls.committing(name)?;
        self.put_crl_file(name, new).map_err(|why| format!("{why}\nCan't commit {name}!"))?;
        self.changes.replaced(FileKind::CrlFile, name);
        self.crls.transaction = None;
        Ok(format!("Committing {name}{}\nSuccess!", ".".repeat(self.crl_uses(name))))
    }

    /// Has all that names this file use these authorities, or those of before if that cannot be.
    pub(super) fn put_ca_file(&mut self, name: &str, new: Arc<TrustStore>) -> Result<(), String> {
        let old = self.trust.files.insert(name.to_owned(), new);
        let uses = |words: &Words| {
            words.ca_file.as_deref() == Some(name) || words.ca_verify_file.as_deref() == Some(name)
        };
        let rebuilt = self.rebuild_with(uses, |server| server.ca_file.as_deref() == Some(name));
        if let (Err(_), Some(old)) = (&rebuilt, old) {
            self.trust.files.insert(name.to_owned(), old);
        }
        rebuilt
    }

    /// Has all that names this file use these lists, or those of before if that cannot be.
    pub(super) fn put_crl_file(&mut self, name: &str, new: Arc<Crls>) -> Result<(), String> {
        let old = self.crls.files.insert(name.to_owned(), new);
        let uses = |words: &Words| words.crl_file.as_deref() == Some(name);
        let rebuilt = self.rebuild_with(uses, |server| server.crl_file.as_deref() == Some(name));
        if let (Err(_), Some(old)) = (&rebuilt, old) {
            self.crls.files.insert(name.to_owned(), old);
        }
        rebuilt
    }

    fn rebuild_with(
        &mut self,
        uses: impl Fn(&Words) -> bool,
        server: impl Fn(&super::ServerUses) -> bool,
    ) -> Result<(), String> {
        self.rebuild(
            |words, sources, lists| {
                let in_list = |source: &super::Source| match source {
                    super::Source::Certificate(..) => false,
                    super::Source::List(list) => {
                        lists.get(list).is_some_and(|lines| lines.iter().any(|line| uses(&line.words)))
                    }
                };
                if uses(words) || sources.iter().any(in_list) { Concern::Options } else { Concern::None }
            },
            server,
        )
    }

    /// `abort ssl ca-file <name>`
    pub fn abort_ca_file(&mut self, name: &str) -> Answer {
        self.trust.abort(name)
    }

    /// `abort ssl crl-file <name>`
    pub fn abort_crl_file(&mut self, name: &str) -> Answer {
        self.crls.abort(name)
    }

    /// `del ssl ca-file <name>`
    pub fn delete_ca_file(&mut self, name: &str) -> Answer {
        let used = self.ca_uses(name) > 0;
        let deleted = self.trust.delete(name, used)?;
        self.changes.forget(FileKind::CaFile, name);
        Ok(deleted)
    }

    /// `del ssl crl-file <name>`
    pub fn delete_crl_file(&mut self, name: &str) -> Answer {
        let used = self.crl_uses(name) > 0;
        let deleted = self.crls.delete(name, used)?;
        self.changes.forget(FileKind::CrlFile, name);
        Ok(deleted)
    }

    /// How many certificates are served under a policy with this authority, and servers verified with it.
    pub(super) fn ca_uses(&self, name: &str) -> usize {
        let uses = |words: &Words| {
            words.ca_file.as_deref() == Some(name) || words.ca_verify_file.as_deref() == Some(name)
        };
        let servers = self
            .servers
            .iter()
            .filter(|server| server.is_used() && server.uses.ca_file.as_deref() == Some(name));
        self.lines_with(uses) + servers.count()
    }

    pub(super) fn crl_uses(&self, name: &str) -> usize {
        let servers = self
            .servers
            .iter()
            .filter(|server| server.is_used() && server.uses.crl_file.as_deref() == Some(name));
        self.lines_with(|words| words.crl_file.as_deref() == Some(name)) + servers.count()
    }

    fn lines_with(&self, uses: impl Fn(&Words) -> bool) -> usize {
        let mut count = 0;
        for bind in &self.binds {
            for source in &bind.sources {
                count += match source {
                    super::Source::Certificate(..) => usize::from(uses(&bind.words)),
                    super::Source::List(list) => {
                        let lines = self.lists.get(list).into_iter().flatten();
                        lines.filter(|line| uses(&line.words.over(&bind.words))).count()
                    }
                };
            }
        }
        count
    }
}
