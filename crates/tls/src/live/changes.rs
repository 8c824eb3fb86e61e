//! What commands changed of what was read from files, and what of it the next configuration takes over.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::certificates::Origin;
use super::{Live, Slot};

/// What commands can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    Certificate,
    CaFile,
    CrlFile,
    CrtList,
    TicketKeys,
    /// Of a certificate.
    OcspResponse,
    /// Whether a certificate is for tokens.
    Jwt,
}

impl FileKind {
    /// What it is called in commands.
    pub fn word(self) -> &'static str {
        match self {
            FileKind::Certificate => "certificate",
            FileKind::CaFile => "ca-file",
            FileKind::CrlFile => "crl-file",
            FileKind::CrtList => "crt-list",
            FileKind::TicketKeys => "tls-ticket-keys",
            FileKind::OcspResponse => "ocsp-response",
            FileKind::Jwt => "jwt",
        }
    }
}

/// Something that is not as it was read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileChange {
    pub kind: FileKind,
    /// The name of the file, or of the certificate that it is about.
    pub name: String,
    /// There was none of this name.
    pub is_new: bool,
}

/// What was changed, and whether it was new; but certificates, which know that themselves ([`Origin`]). What was deleted is not
/// among it: nothing used it.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes(BTreeMap<(FileKind, String), bool>);

impl Changes {
    pub fn added(&mut self, kind: FileKind, name: &str) {
        self.0.insert((kind, name.to_owned()), true);
    }

    pub fn replaced(&mut self, kind: FileKind, name: &str) {
        self.0.entry((kind, name.to_owned())).or_insert(false);
    }

    pub fn forget(&mut self, kind: FileKind, name: &str) {
        self.0.remove(&(kind, name.to_owned()));
    }
}

impl Live {
    /// What commands changed since files were read.
    pub fn changes(&self) -> Vec<FileChange> {
        let of_slot = |(name, slot): (&String, &Slot)| {
            let is_new = match slot.origin {
                Origin::Files => return None,
                Origin::Replaced => false,
                Origin::New => true,
            };
            slot.credential.as_ref()?;
            Some(FileChange { kind: FileKind::Certificate, name: name.clone(), is_new })
        };
        let of_book = |((kind, name), is_new): (&(FileKind, String), &bool)| FileChange {
            kind: *kind,
            name: name.clone(),
            is_new: *is_new,
        };
        self.certificates.iter().filter_map(of_slot).chain(self.changes.0.iter().map(of_book)).collect()
    }

    /// Takes over what commands changed `before` this was read: it is in the place of what files of the same names hold. What was new
    /// stays unless there is a file of that name by now. What a line does not take any more is as its file has it.
    pub fn keep_changes(&mut self, before: &Live) {
        for change in before.changes() {
            match change.kind {
                FileKind::Certificate => self.keep_certificate(before, &change),
                FileKind::CaFile => self.keep_ca_file(before, &change),
                FileKind::CrlFile => self.keep_crl_file(before, &change),
                FileKind::CrtList => self.keep_list(before, &change.name),
                FileKind::TicketKeys => self.keep_ticket_keys(before, &change.name),
                // With those that were fetched.
                FileKind::OcspResponse => {}
                FileKind::Jwt => self.keep_use_for_tokens(before, &change.name),
            }
        }
        self.keep_responses(before);
        self.updates.changed();
        self.publish_tokens();
    }

    fn keep_certificate(&mut self, before: &Live, change: &FileChange) {
        let name = &change.name;
        let Some(kept) = before.certificates.get(name).cloned() else { return };
        match self.certificates.get(name).cloned() {
            None if change.is_new => _ = self.certificates.insert(name.clone(), kept),
            Some(read) if !change.is_new => {
                let kept = Slot { credential: kept.credential, origin: Origin::Replaced, ..read.clone() };
                self.certificates.insert(name.clone(), kept);
                if self.rebuild_with_certificate(name).is_err() {
                    self.certificates.insert(name.clone(), read);
                }
            }
            _ => {}
        }
    }

    fn keep_ca_file(&mut self, before: &Live, change: &FileChange) {
        let FileChange { kind, name, is_new } = change;
        let Some(kept) = before.trust.get(name) else { return };
        if self.trust.get(name).is_none() == *is_new && self.put_ca_file(name, kept).is_ok() {
            self.changes.0.insert((*kind, name.clone()), *is_new);
        }
    }

    fn keep_crl_file(&mut self, before: &Live, change: &FileChange) {
        let FileChange { kind, name, is_new } = change;
        let Some(kept) = before.crls.get(name) else { return };
        if self.crls.get(name).is_none() == *is_new && self.put_crl_file(name, kept).is_ok() {
            self.changes.0.insert((*kind, name.clone()), *is_new);
        }
    }

    /// A list with its certificates, be they in its file or not.
    fn keep_list(&mut self, before: &Live, name: &str) {
        let (Some(lines), Some(read)) = (before.lists.get(name), self.lists.get(name).cloned()) else {
            return;
        };
        for line in lines {
            if let Some(slot) = before.certificates.get(&line.path) {
                self.certificates.entry(line.path.clone()).or_insert_with(|| slot.clone());
            }
        }
        self.lists.insert(name.to_owned(), lines.clone());
        match self.rebuild_with_list(name) {
            Ok(()) => self.changes.replaced(FileKind::CrtList, name),
            Err(_) => _ = self.lists.insert(name.to_owned(), read),
        }
    }

    fn keep_ticket_keys(&mut self, before: &Live, path: &str) {
        if let (Some(before), Some(now)) = (before.ticket_keys(path), self.ticket_keys(path)) {
            now.take_over(&before);
            self.changes.replaced(FileKind::TicketKeys, path);
        }
    }

    fn keep_use_for_tokens(&mut self, before: &Live, name: &str) {
        let used = before.certificates.get(name).and_then(|slot| slot.keywords.jwt);
        if let Some(on) = used {
            // Who is not there any more is for nothing.
            let _ = self.use_for_tokens(name, on);
        }
    }

    /// What was set for a certificate that stays is in force, and what a responder said is not asked for again.
    fn keep_responses(&mut self, before: &Live) {
        for (name, slot) in &self.certificates {
            let Some(now) = &slot.credential else { continue };
            let old = before.certificates.get(name).and_then(|slot| slot.credential.as_ref());
            let Some(old) = old.filter(|old| old.leaf().der() == now.leaf().der()) else { continue };
            let was_set = before.changes.0.contains_key(&(FileKind::OcspResponse, name.clone()));
            if was_set {
                self.changes.replaced(FileKind::OcspResponse, name);
            }
            let Some(response) = old.ocsp().filter(|_| !Arc::ptr_eq(old, now)) else { continue };
            let is_newer = || now.ocsp().is_none_or(|read| read.this_update < response.this_update);
            if was_set || self.is_updated(slot) && is_newer() {
                now.set_ocsp(Some(response));
            }
        }
    }
}
