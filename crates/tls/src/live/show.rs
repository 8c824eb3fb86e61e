//! `show ssl cert|ca-file|crl-file|sni`, in the reference's form.

use std::sync::Arc;

use super::certificates::{Draft, Origin};
use super::{Answer, FileKind, Live};
use crate::certificate::{KeyKind, Parts};
use crate::ocsp::{CertificateId, OcspResponse};
use crate::session::TicketKeys;
use crate::x509::{Certificate, Crl, name, time};

impl Live {
    /// `show ssl cert`
    pub fn show_certificates(&self) -> String {
        let mut out = String::new();
        if let Some(transaction) = &self.transaction {
            out.push_str(&format!("# transaction\n*{}\n", transaction.name));
        }
        out.push_str(if self.certificates.is_empty() { "" } else { "# filename\n" });
        self.certificates.keys().for_each(|name| out.push_str(&format!("{name}\n")));
        out
    }

    /// The certificates in use: the name of each, and when its validity ends.
    pub fn validity(&self) -> impl Iterator<Item = (&str, time::Seconds)> {
        self.certificates.iter().filter_map(|(name, slot)| {
            let credential = slot.credential.as_ref()?;
            Some((name.as_str(), credential.leaf().not_after))
        })
    }

    /// `show ssl cert <name>`; with `*` before it the one in the transaction.
    pub fn show_certificate(&self, name: &str) -> Answer {
        let not_found = "Can't display the certificate: Not found or the certificate is a bundle!";
        // A name that begins with a star itself is written behind a backslash.
        let (name, is_draft) = match (name.strip_prefix('*'), name.strip_prefix('\\')) {
            (Some(plain), _) => (plain, true),
            (None, Some(plain)) => (plain, false),
            (None, None) => (name, false),
        };
        if let Some(certificate) =
            name.strip_suffix(".ocsp").filter(|_| !self.certificates.contains_key(name))
        {
            let response = self.response_of(certificate, is_draft).ok_or(not_found)?;
            return Ok(response.map(|response| response.text()).unwrap_or_default());
        }
        let mut out = format!("Filename: {}{name}\n", if is_draft { "*" } else { "" });
        let mut chain_file = None;
        let (draft, status) = match is_draft {
            true => {
                let plain = name;
                let transaction = self.transaction.as_ref().filter(|transaction| transaction.name == plain);
                let draft = transaction.ok_or(not_found)?.draft.clone();
                if self.certificates.get(plain).is_some_and(|slot| slot.origin != Origin::New) {
                    out.push_str(&format!("Crt filename: {plain}\n"));
                }
                (draft, "Uncommitted")
            }
            false => {
                let slot = self.certificates.get(name).ok_or(not_found)?;
                let credential = slot.credential.as_ref();
                let draft = credential.map_or_else(Draft::default, |credential| Draft {
                    chain: credential.chain.clone(),
                    key: credential.key.clone(),
                    issuer: credential.issuer.clone(),
                    ocsp: credential.ocsp(),
                });
                match slot.origin {
                    Origin::New => {}
                    Origin::Replaced => out.push_str(&format!("Crt filename: {name}\n")),
                    Origin::Files => {
                        out.push_str(&credential.map(|one| filenames(&one.files)).unwrap_or_default())
                    }
                }
                chain_file = credential.and_then(|credential| credential.chain_file.clone());
                let status = match (credential, self.instances(name)) {
                    (None, _) => "Empty",
                    (_, 0) if slot.keywords.jwt == Some(true) => "Used for JWT verification",
                    (_, 0) => "Unused",
                    _ => "Used",
                };
                (draft, status)
            }
        };
        let keywords = self.certificates.get(name).map(|slot| &slot.keywords);
        let word = |on: Option<bool>| if on == Some(true) { "on" } else { "off" };
        let update = word(keywords.and_then(|keywords| keywords.ocsp_update));
        let jwt = word(keywords.and_then(|keywords| keywords.jwt));
        out.push_str(&format!("Option: ocsp-update {update}\nOption: jwt {jwt}\nStatus: {status}\n"));
        if let Some(path) = chain_file {
            out.push_str(&format!("Chain Filename: {path}\n"));
        }
        if let Some(leaf) = draft.chain.first() {
            out.push_str(&details(leaf));
            for above in &draft.chain[1..] {
                out.push_str(&format!("Chain Subject: {}\n", text(&above.subject_oneline())));
                out.push_str(&format!("Chain Issuer: {}\n", text(&above.issuer_oneline())));
            }
        }
        let id = draft.chain.first().zip(draft.issuer.as_ref()).filter(|_| {
            draft.ocsp.is_some() || self.certificates.get(name).is_some_and(|slot| self.is_updated(slot))
        });
        let key = id.map(|(leaf, issuer)| CertificateId::of(leaf, issuer).key()).unwrap_or_default();
        out.push_str(&format!("OCSP Response Key: {key}\n"));
        Ok(out)
    }

    /// The OCSP response of a certificate, or of what a transaction prepares for it; None when there is none of these.
    fn response_of(&self, name: &str, is_draft: bool) -> Option<Option<Arc<OcspResponse>>> {
        if is_draft {
            let transaction = self.transaction.as_ref().filter(|transaction| transaction.name == name)?;
            return Some(transaction.draft.ocsp.clone());
        }
        let slot = self.certificates.get(name)?;
        Some(slot.credential.as_ref().and_then(|credential| credential.ocsp()))
    }

    /// `show ssl ocsp-response [text|base64] [<id>|<path>]`
    pub fn show_ocsp_responses(&self, which: Option<&str>, base64: bool) -> Answer {
        use base64::Engine;
        let mut rows = self.certificates.iter().filter_map(|(path, slot)| {
            let credential = slot.credential.as_ref()?;
            let id = CertificateId::of(credential.leaf(), credential.issuer.as_deref()?);
            Some((path, id, credential.ocsp()?))
        });
        let Some(which) = which else {
            let mut out = String::new();
            for (path, id, _) in rows {
                out.push_str(if out.is_empty() { "# Certificate IDs\n" } else { "" });
                out.push_str(&format!(
                    "Certificate ID key : {}\nCertificate path : {path}\n{}",
                    id.key(),
                    id.text()
                ));
            }
            return Ok(out);
        };
        match rows.find(|(path, id, _)| *path == which || id.key() == which) {
            None if which.len() % 2 == 0 && which.bytes().all(|digit| digit.is_ascii_hexdigit()) => {
                Err("Certificate ID or path does not match any certificate.".to_owned())
            }
            None => Err("'show ssl ocsp-response' expects a valid certid or certificate path.".to_owned()),
            Some((_, _, response)) if base64 => {
                Ok(base64::engine::general_purpose::STANDARD.encode(response.der()) + "\n")
            }
            Some((_, _, response)) => Ok(response.text()),
        }
    }

    /// `show ssl ca-file`
    pub fn show_ca_files(&self) -> String {
        let row = |star: &str, name: &str, count: usize| format!("{star}{name} - {count} certificate(s)\n");
        let mut out = String::new();
        if let Some((name, store)) = &self.trust.transaction {
            out.push_str(&format!("# transaction\n{}", row("*", name, store.certificates().len())));
        }
        out.push_str("# filename\n");
        self.trust
            .files
            .iter()
            .for_each(|(name, store)| out.push_str(&row("", name, store.certificates().len())));
        out
    }

    /// `show ssl ca-file <name>[:<index>]`
    pub fn show_ca_file(&self, name: &str) -> Answer {
        let found = |name: &str| match name.strip_prefix('*') {
            Some(plain) => self
                .trust
                .transaction
                .as_ref()
                .filter(|(other, _)| other == plain)
                .map(|(_, store)| store.clone()),
            None => self.trust.get(name),
        };
        let (file, index, store) = match (found(name), indexed(name)) {
            (Some(store), _) => (name, None, store),
            (None, Some((file, index))) => {
                (file, Some(index), found(file).ok_or("Can't display the CA file : Not found!")?)
            }
            (None, None) => return Err("Can't display the CA file : Not found!".to_owned()),
        };
        let status = if file.starts_with('*') {
            "Uncommitted"
        } else if self.ca_uses(file) > 0 {
            "Used"
        } else {
            "Unused"
        };
        let mut out = String::new();
        for (number, certificate) in store.certificates().iter().enumerate() {
            if index.is_some_and(|index| index != number + 1) {
                continue;
            }
            if out.is_empty() {
                out = format!("Filename: {file}\nStatus: {status}\n");
            }
            out.push_str(&format!(" \nCertificate #{}:\n{}", number + 1, details(certificate)));
        }
        Ok(out)
    }

    /// `show ssl crl-file`
    pub fn show_crl_files(&self) -> String {
        let mut out = String::new();
        if let Some((name, _)) = &self.crls.transaction {
            out.push_str(&format!("# transaction\n*{name}\n"));
        }
        out.push_str("# filename\n");
        self.crls.files.keys().for_each(|name| out.push_str(&format!("{name}\n")));
        out
    }

    /// `show ssl crl-file <name>[:<index>]`
    pub fn show_crl_file(&self, name: &str) -> Answer {
        let found = |name: &str| match name.strip_prefix('*') {
            Some(plain) => {
                let transaction = self.crls.transaction.as_ref().filter(|(other, _)| other == plain);
                transaction.map(|(_, crls)| crls.clone())
            }
            None => self.crls.get(name),
        };
        let unknown = "Can't display the CRL file : Not found!";
        let (file, index, crls) = match (found(name), indexed(name)) {
            (Some(crls), _) => (name, None, crls),
            (None, Some((file, index))) => (file, Some(index), found(file).ok_or(unknown)?),
            (None, None) => return Err(unknown.to_owned()),
        };
        let status = match file.strip_prefix('*') {
            _ if crls.is_empty() => "Empty",
            Some(_) => "Uncommitted",
            None if self.crl_uses(file) > 0 => "Used",
            None => "Unused",
        };
        let mut out = format!("Filename: {file}\nStatus: {status}\n");
        for (number, crl) in crls.lists().iter().enumerate() {
            if index.is_none_or(|index| index == number + 1) {
                out.push_str(&format!(
                    " \nCertificate Revocation List #{}:\n{}",
                    number + 1,
                    revocations(crl)
                ));
            }
        }
        Ok(out)
    }

    /// A file of ticket keys, by path or `#<number>`, and its number.
    fn ticket_file(&self, which: &str) -> Option<(usize, &TicketKeys)> {
        let number = which.strip_prefix('#').and_then(|number| number.parse::<usize>().ok());
        let found = self.ticket_files.iter().enumerate();
        let mut found = found.filter(|(at, (path, _))| number == Some(*at) || path == which);
        found.next().map(|(at, (_, keys))| (at, &**keys))
    }

    /// `show tls-keys [<id>|*]`: None when there is no such file.
    pub fn show_ticket_keys(&self, which: Option<&str>) -> Option<String> {
        let Some(which) = which else {
            let rows = self.ticket_files.iter().enumerate().map(|(at, (path, _))| format!("{at} ({path})\n"));
            return Some(format!("# id (file)\n{}", rows.collect::<String>()));
        };
        let rows = |at: usize, keys: &TicketKeys| -> String {
            let texts = keys.texts().into_iter().enumerate();
            texts.map(|(number, text)| format!("{at}.{number} {text}\n")).collect()
        };
        let mut out = "# id secret\n".to_owned();
        if which == "*" {
            for (at, (path, keys)) in self.ticket_files.iter().enumerate() {
                out.push_str(&format!("# {at} ({path})\n{}", rows(at, keys)));
            }
            return Some(out);
        }
        let (at, keys) = self.ticket_file(which)?;
        out.push_str(&format!("# {at} ({})\n{}", self.ticket_files[at].0, rows(at, keys)));
        Some(out)
    }

    /// `set ssl tls-key`: None when there is no such file, false when the key is none.
    pub fn set_ticket_key(&mut self, which: &str, key: &str) -> Option<bool> {
        let (at, keys) = self.ticket_file(which)?;
        let is_set = keys.rotate(key);
        if is_set {
            self.changes.replaced(FileKind::TicketKeys, &self.ticket_files[at].0);
            self.edition += 1;
        }
        Some(is_set)
    }

    /// `show ssl sni [-f <frontend>] [-A] [-t <offset>]`: the rows of all `bind` lines, or of one frontend's; with `-A` of
    /// certificates whose time is over in so many seconds.
    pub fn show_sni(&self, frontend: Option<&str>, expired_in_s: Option<i64>) -> String {
        let mut out =
            "# Frontend/Bind\tSNI\tNegative Filter\tType\tFilename\tNotAfter\tNotBefore\n".to_owned();
        let of_frontend = |bind: &&super::Bind| {
            frontend.is_none_or(|frontend| bind.name.split('/').next() == Some(frontend))
        };
        let now = self.shared.clock.now() as i64;
        let expired_at = expired_in_s.map(|offset| now.saturating_add(offset));
        for bind in self.binds.iter().filter(of_frontend) {
            for row in bind.line.selection().rows() {
                let leaf = row.served.credential.leaf();
                if expired_at.is_some_and(|at| leaf.not_after >= at) {
                    continue;
                }
                let excluded =
                    row.excluded.iter().map(|name| format!("!{} ", text(name))).collect::<String>();
                out.push_str(&format!(
                    "{}\t{}\t{}\t{}\t{}\t{}\t{}\n",
                    bind.name,
                    text(&row.filter),
                    if excluded.is_empty() { "-" } else { &excluded },
                    KeyKind::of(leaf).word(),
                    row.served.credential.name,
                    time::openssl(leaf.not_after),
                    time::openssl(leaf.not_before),
                ));
            }
        }
        out
    }
}

/// The files that a certificate came from.
fn filenames(files: &Parts) -> String {
    let line = |what: &str, path: Option<&String>| {
        path.map_or(String::new(), |path| format!("{what} filename: {path}\n"))
    };
    [
        line("Crt", Some(&files.certificate).filter(|path| !path.is_empty())),
        line("Key", files.key.as_ref()),
        line("OCSP", files.ocsp.as_ref()),
        line("OCSP Issuer", files.issuer.as_ref()),
        line("SCTL", files.sctl.as_ref()),
    ]
    .concat()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

fn details(certificate: &Certificate) -> String {
    let names =
        certificate.dns_names().map(|name| format!("DNS:{}", text(name))).collect::<Vec<_>>().join(", ");
    let algorithm = certificate.key_kind_and_size().unwrap_or_else(|| certificate.key_algorithm_name());
    format!(
        "Serial: {}\nnotBefore: {}\nnotAfter: {}\nSubject Alternative Name: {names}\nAlgorithm: {algorithm}\nSHA1 \
         FingerPrint: {}\nSubject: {}\nIssuer: {}\n",
        hex(certificate.serial_digits()),
        time::openssl(certificate.not_before),
        time::openssl(certificate.not_after),
        hex(&certificate.sha1()),
        text(&certificate.subject_oneline()),
        text(&certificate.issuer_oneline()),
    )
}

fn revocations(crl: &Crl) -> String {
    let mut out = format!(
        "Version {}\nSignature Algorithm: {}\nIssuer: {}\nLast Update: {}\nNext Update: {}\n",
        crl.version,
        crl.signature_algorithm_name(),
        text(&name::oneline(crl.issuer())),
        time::openssl(crl.this_update),
        crl.next_update.map_or("NONE".to_owned(), time::openssl),
    );
    let mut entries = crl.entries_by_serial().peekable();
    if entries.peek().is_none() {
        return out + "No Revoked Certificates.\n";
    }
    out.push_str("Revoked Certificates:\n");
    for (serial, entry) in entries {
        let digits = serial.strip_prefix(&[0]).filter(|rest| !rest.is_empty()).unwrap_or(serial);
        out.push_str(&format!("    Serial Number: {}\n", hex(digits)));
        out.push_str(&format!("        Revocation Date: {}\n", time::openssl(entry.at)));
    }
    out
}

/// `<name>:<index>`
fn indexed(name: &str) -> Option<(&str, usize)> {
    let (file, index) = name.rsplit_once(':')?;
    Some((file, index.parse().ok()?))
}
