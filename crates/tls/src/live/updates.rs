//! `ocsp-update`: which OCSP responses are fetched, when, and what came of it (configuration manual, section 12.7.1).
//!
//! Whoever owns a clock and sockets asks for what is [due](Live::due_update), fetches it, and says what
//! [came](Live::updated). Certificates that share an identity share a response.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::task::Waker;

use base64::Engine;

use super::{Answer, Live};
use crate::certificate::Credential;
use crate::ocsp::{CertificateId, OcspResponse};
use crate::select::Selection;
use crate::x509::time;

/// How responses are kept up to date: `ocsp-update.*` in `global`.
#[derive(Clone, Debug)]
pub struct UpdateOptions {
    /// `ocsp-update.mode`: of certificates that say nothing about it.
    pub on: bool,
    /// `ocsp-update.disable`
    pub disabled: bool,
    /// `ocsp-update.mindelay`: seconds between two requests at least.
    pub min_s: i64,
    /// `ocsp-update.maxdelay`: and at most.
    pub max_s: i64,
}

impl Default for UpdateOptions {
    fn default() -> UpdateOptions {
        UpdateOptions { on: false, disabled: false, min_s: 300, max_s: 3600 }
    }
}

/// What an attempt came to, with the reference's numbers and words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// There was none yet.
    #[default]
    Unknown,
    Successful,
    /// No answer, or none with status 200.
    Http,
    /// The answer is of another type.
    NoResponse,
    /// Not a response about this certificate that can be believed; why.
    Unfit(String),
}

impl Outcome {
    pub fn number(&self) -> u32 {
        match self {
            Outcome::Unknown => 0,
            Outcome::Successful => 1,
            Outcome::Http => 2,
            Outcome::NoResponse => 3,
            Outcome::Unfit(_) => 4,
        }
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Outcome::Unknown => f.write_str("Unknown"),
            Outcome::Successful => f.write_str("Update successful"),
            Outcome::Http => f.write_str("HTTP error"),
            Outcome::NoResponse => f.write_str("Missing \"ocsp-response\" header"),
            Outcome::Unfit(why) => write!(f, "OCSP response check failure ({why})"),
        }
    }
}

/// What is to be asked, of whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// By which [`Live::updated`] knows it again.
    pub key: String,
    pub uri: String,
    /// In DER.
    pub request: Vec<u8>,
    /// The same in base64, as it stands in a path (RFC 6960 section A.1).
    pub encoded: String,
}

/// One response that is kept up to date.
#[derive(Clone, Debug, Default)]
struct Entry {
    id: Option<CertificateId>,
    uri: String,
    /// The certificate that is named: the first of those that share the response.
    path: String,
    /// When it is to be fetched; None when only an operator asks for it.
    next: Option<i64>,
    /// That is being done.
    under_way: bool,
    last: Option<i64>,
    successes: u32,
    failures: u32,
    /// Failures since the last success.
    in_a_row: u32,
    outcome: Outcome,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Updates {
    pub options: UpdateOptions,
    entries: BTreeMap<String, Entry>,
    /// Certificates came or went since the entries were made.
    stale: bool,
    /// Who sleeps until something is due.
    waiting: Option<Waker>,
}

impl Updates {
    /// Certificates came or went.
    pub fn changed(&mut self) {
        self.stale = true;
        self.wake();
    }

    /// Something may be due sooner than was said.
    fn wake(&mut self) {
        if let Some(waiting) = self.waiting.take() {
            waiting.wake();
        }
    }
}

impl Live {
    /// `ocsp-update.*`
    pub fn set_update_options(&mut self, options: UpdateOptions) {
        self.updates.options = options;
        self.updates.changed();
    }

    /// A warning about certificates that are not to be believed without an OCSP response (RFC 7633), for which there is none that
    /// is in force and none is fetched.
    pub(super) fn unstapled(&self, selection: &Selection) -> Option<String> {
        let now = self.shared.clock.now() as i64;
        let mut lacking = selection.served().iter().map(|served| &served.credential).filter(|credential| {
            let has_one = || credential.ocsp().is_some_and(|response| response.is_in_force(now));
            let slot = self.certificates.get(&*credential.name);
            credential.leaf().must_staple && !has_one() && !slot.is_some_and(|slot| self.is_updated(slot))
        });
        let first = &lacking.next()?.name;
        let others = match lacking.count() {
            0 => String::new(),
            count => format!(" (and {count} more)"),
        };
        Some(format!(
            "'{first}'{others} is a certificate that clients may refuse without an OCSP response (must-staple) : there is none              that is in force, put one into '{first}.ocsp' or use 'ocsp-update on'"
        ))
    }

    /// Whether this certificate's response is fetched.
    pub(super) fn is_updated(&self, slot: &super::Slot) -> bool {
        let options = &self.updates.options;
        !options.disabled && slot.keywords.ocsp_update.unwrap_or(options.on)
    }

    /// Makes the entries those of the certificates that are there now.
    fn sync(&mut self) {
        if !std::mem::take(&mut self.updates.stale) {
            return;
        }
        let mut before = std::mem::take(&mut self.updates.entries);
        let mut entries: BTreeMap<String, Entry> = BTreeMap::new();
        let now = self.shared.clock.now() as i64;
        let selections: Vec<_> = self.binds.iter().map(|bind| bind.line.selection()).collect();
        let served = selections.iter().flat_map(|selection| selection.served());
        let used: HashSet<&str> = served.map(|served| &*served.credential.name).collect();
        for (path, slot) in &self.certificates {
            let wanted = || used.contains(path.as_str()) && self.is_updated(slot);
            let Some(credential) = slot.credential.as_ref().filter(|_| wanted()) else { continue };
            let Some((id, uri)) = asked_for(credential) else { continue };
            let key = id.key();
            if entries.contains_key(&key) {
                continue;
            }
            let known = before.remove(&key);
            let entry = known.unwrap_or_else(|| Entry {
                next: Some(match credential.ocsp().filter(|response| response.is_in_force(now)) {
                    None => now,
                    Some(response) => self.updates.options.after(now, &response),
                }),
                ..Entry::default()
            });
            entries.insert(key, Entry { id: Some(id), uri, path: path.clone(), ..entry });
        }
        // What an operator asked for is finished though nobody asks for it regularly.
        entries.extend(before.into_iter().filter(|(_, entry)| entry.under_way || entry.next.is_none()));
        self.updates.entries = entries;
    }

    /// The next request that is due, which is under way from now on; or in how many seconds one will be, if any. `waiting` is
    /// woken when that changes.
    pub fn due_update(&mut self, waiting: &Waker) -> Result<Due, Option<u64>> {
        self.sync();
        self.updates.waiting = Some(waiting.clone());
        let now = self.shared.clock.now() as i64;
        let entries = self.updates.entries.iter_mut();
        let idle = entries.filter(|(_, entry)| !entry.under_way);
        let waiting = idle.filter_map(|(key, entry)| Some((entry.next?, key, entry)));
        let Some((next, key, entry)) = waiting.min_by_key(|(next, ..)| *next) else { return Err(None) };
        if next > now {
            return Err(Some((next - now) as u64));
        }
        entry.under_way = true;
        let request = entry.id.as_ref().map(CertificateId::request).unwrap_or_default();
        let encoded = base64::engine::general_purpose::STANDARD.encode(&request);
        let encoded = encoded.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
        Ok(Due { key: key.clone(), uri: entry.uri.clone(), request, encoded })
    }

    /// What came of a request: the response's bytes, or what went wrong. The answer is the line for the log; None when
    /// nobody wants to know any more.
    pub fn updated(&mut self, key: &str, came: Result<&[u8], Outcome>) -> Option<String> {
        let now = self.shared.clock.now() as i64;
        let response = came.and_then(|bytes| self.take_response(key, bytes));
        let is_regular = self.is_regular(key);
        let options = self.updates.options.clone();
        let entry = self.updates.entries.get_mut(key)?;
        entry.under_way = false;
        let next = match &response {
            Ok(response) => {
                entry.last = Some(now);
                entry.successes += 1;
                entry.in_a_row = 0;
                options.after(now, response)
            }
            Err(_) => {
                entry.failures += 1;
                entry.in_a_row += 1;
                // Whoever cannot answer is asked less and less often.
                let doubled = options.min_s.saturating_mul(1 << entry.in_a_row.min(16).saturating_sub(1));
                now + doubled.min(options.max_s)
            }
        };
        entry.next = is_regular.then_some(next);
        entry.outcome = response.err().unwrap_or(Outcome::Successful);
        Some(format!(
            "<OCSP-UPDATE> {} {} \"{}\" {} {}",
            entry.path,
            entry.outcome.number(),
            entry.outcome,
            entry.failures,
            entry.successes
        ))
    }

    /// Whether a response is fetched without being asked for.
    fn is_regular(&self, key: &str) -> bool {
        let Some(path) = self.updates.entries.get(key).map(|entry| entry.path.as_str()) else { return false };
        self.certificates.get(path).is_some_and(|slot| self.is_updated(slot)) && self.instances(path) > 0
    }

    /// Gives a response to the certificates that it answers for.
    fn take_response(&mut self, key: &str, bytes: &[u8]) -> Result<Arc<OcspResponse>, Outcome> {
        let unfit = |error: &dyn std::fmt::Display| Outcome::Unfit(error.to_string());
        let response = Arc::new(OcspResponse::read(bytes).map_err(|error| unfit(&error))?);
        let now = self.shared.clock.now() as i64;
        if !response.is_in_force(now) {
            return Err(unfit(&crate::ocsp::OcspError::NotInForce));
        }
        let mut verdict = Err(unfit(&crate::ocsp::OcspError::OtherCertificate));
        let serial = self.updates.entries.get(key).and_then(|entry| Some(entry.id.as_ref()?.serial.clone()));
        for credential in self.certificates.values().filter_map(|slot| slot.credential.as_ref()) {
            let is_meant = serial.as_deref() == Some(credential.leaf().serial())
                && asked_for(credential).is_some_and(|(id, _)| id.key() == key);
            if !is_meant {
                continue;
            }
            match response.check(credential.leaf(), credential.issuer.as_deref()) {
                Ok(()) => {
                    credential.set_ocsp(Some(response.clone()));
                    verdict = Ok(response.clone());
                }
                Err(error) if verdict.is_err() => verdict = Err(unfit(&error)),
                Err(_) => {}
            }
        }
        verdict
    }

    /// `update ssl ocsp-response <certificate>`: makes its response due now. The answer is by what [`Live::update_result`]
    /// finds it, and how often it was tried before.
    pub fn ask_for_update(&mut self, name: &str) -> Result<(String, u32), String> {
        let failed = |why: &str| Err(format!("{why}\nCan't send ocsp request for {name}!"));
        self.sync();
        let Some(slot) = self.certificates.get(name) else {
            return failed(
                "Unknown certificate! 'update ssl ocsp-response' expects an already known certificate file name.",
            );
        };
        let credential = slot.credential.as_ref();
        let known = credential.filter(|one| one.ocsp().is_some() || self.is_updated(slot));
        let Some(credential) = known else {
            return failed(
                "'update ssl ocsp-response' only works on certificates that already have a known OCSP response.",
            );
        };
        let Some((id, uri)) = asked_for(credential) else {
            return failed("The certificate names no OCSP responder, or its issuer is not known.");
        };
        let (key, now) = (id.key(), self.shared.clock.now() as i64);
        let new = || Entry { id: Some(id), uri, path: name.to_owned(), next: Some(now), ..Entry::default() };
        let entry = self.updates.entries.entry(key.clone()).or_insert_with(new);
        entry.next = Some(now);
        let tries = entry.successes + entry.failures;
        self.updates.wake();
        Ok((key, tries))
    }

    /// What came of a request that was asked for when `tries` had been made; None while it is under way.
    pub fn update_result(&self, name: &str, key: &str, tries: u32) -> Option<Answer> {
        let text = || Some(self.certificates.get(name)?.credential.as_ref()?.ocsp()?.text());
        match self.updates.entries.get(key) {
            Some(entry) if entry.successes + entry.failures == tries => None,
            Some(Entry { outcome: Outcome::Successful, .. }) => Some(Ok(text().unwrap_or_default())),
            Some(entry) => Some(Err(format!("{}.", entry.outcome))),
            None => Some(Err("The certificate is gone.".to_owned())),
        }
    }

    /// `show ssl ocsp-updates`
    pub fn show_updates(&mut self) -> String {
        self.sync();
        let mut out =
            "OCSP Certid | Path | Next Update | Last Update | Successes | Failures | Last Update Status | \
                       Last Update Status (str)\n"
                .to_owned();
        let entries = self.updates.entries.iter();
        let mut entries: Vec<(&String, &Entry)> = entries.filter(|(_, entry)| entry.next.is_some()).collect();
        entries.sort_by_key(|(_, entry)| entry.next);
        for (key, entry) in entries {
            let date = |at: Option<i64>| at.map_or("-".to_owned(), time::log);
            out.push_str(&format!(
                "{key} | {} | {} | {} | {} | {} | {} | {}\n",
                entry.path,
                date(entry.next),
                date(entry.last),
                entry.successes,
                entry.failures,
                entry.outcome.number(),
                entry.outcome
            ));
        }
        out
    }
}

impl UpdateOptions {
    /// When a response is fetched again: before its time is over, and within the two delays.
    fn after(&self, now: i64, response: &OcspResponse) -> i64 {
        let over = response.next_update.unwrap_or(now);
        over.min(now.saturating_add(self.max_s)).max(now.saturating_add(self.min_s))
    }
}

/// What is asked for a certificate, and whom: nothing when it names nobody, or its issuer is not known.
fn asked_for(credential: &Credential) -> Option<(CertificateId, String)> {
    let uri = credential.leaf().ocsp_uri()?;
    Some((CertificateId::of(credential.leaf(), credential.issuer.as_deref()?), uri.to_owned()))
}
