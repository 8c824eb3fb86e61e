//! The keywords of `load`, which a certificate may be given in a `crt-store`, a `crt-list` and `ssl-f-use`. Wherever a
//! certificate is named it has to be the same one, or nobody could tell which key or setting counts.

use super::{Live, Slot};
use crate::certificate::Parts;

/// What was said of a certificate beside its file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keywords {
    pub key: Option<String>,
    pub ocsp: Option<String>,
    pub issuer: Option<String>,
    pub sctl: Option<String>,
    pub ocsp_update: Option<bool>,
    pub jwt: Option<bool>,
}

impl Keywords {
    /// The files among these parts, and these settings.
    pub fn of(parts: &Parts, ocsp_update: Option<bool>, jwt: Option<bool>) -> Keywords {
        let Parts { key, ocsp, issuer, sctl, .. } = parts.clone();
        Keywords { key, ocsp, issuer, sctl, ocsp_update, jwt }
    }

    pub fn is_empty(&self) -> bool {
        *self == Keywords::default()
    }

    /// Whether other files than those beside the certificate's are named.
    pub fn names_files(&self) -> bool {
        self.key.is_some() || self.ocsp.is_some() || self.issuer.is_some() || self.sctl.is_some()
    }
}

/// Which words stand where a certificate is named again, in the first line of a complaint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Conflict {
    /// It had none, and has some now.
    Added,
    /// It had some, and has none now.
    Missing,
    Different,
}

impl Live {
    /// Takes note of what a certificate that is loaded was given. `in_store`: by a `crt-store`, whose certificates may be
    /// named without their keywords.
    pub fn declare(&mut self, name: &str, keywords: Keywords, in_store: bool) {
        if let Some(slot) = self.certificates.get_mut(name) {
            slot.keywords = keywords;
            slot.in_store = in_store;
        }
        self.updates.changed();
        self.publish_tokens();
    }

    /// Whether a certificate that is loaded already may be named with these keywords: lines that tell what differs.
    pub fn may_declare(&self, name: &str, keywords: &Keywords) -> Result<(), String> {
        let Some(slot) = self.certificates.get(name) else { return Ok(()) };
        if *keywords == slot.keywords || (keywords.is_empty() && slot.in_store) {
            return Ok(());
        }
        let conflict = match (slot.keywords.is_empty() && !slot.in_store, keywords.is_empty()) {
            (true, _) => Conflict::Added,
            (_, true) => Conflict::Missing,
            _ => Conflict::Different,
        };
        Err(self.differences(slot, keywords, conflict))
    }

    fn differences(&self, slot: &Slot, now: &Keywords, conflict: Conflict) -> String {
        // Of one that came alone the files are those that were found.
        let found =
            slot.credential.as_ref().map(|one| Keywords::of(&one.files, None, None)).unwrap_or_default();
        let before = match conflict {
            Conflict::Added => &Keywords { ocsp_update: slot.keywords.ocsp_update, ..found },
            Conflict::Missing | Conflict::Different => &slot.keywords,
        };
        let mut lines = match conflict {
            Conflict::Added => {
                "   Can't use the certificate previously defined without any keyword with these keywords:\n"
                    .to_owned()
            }
            Conflict::Missing => {
                "   Can't use the certificate previously defined with keywords without these keywords:\n"
                    .to_owned()
            }
            Conflict::Different => String::new(),
        };
        let mut differs = |word: &str, before: String, now: String| {
            if before != now {
                lines.push_str(&format!("  - different parameter '{word}' : previously {before} vs {now}\n"));
            }
        };
        let path = |path: &Option<String>| format!("'{}'", path.as_deref().unwrap_or("(null)"));
        let word = |on: bool| if on { "on" } else { "off" };
        let update = |on: Option<bool>| match on {
            Some(on) => format!("'{}'", word(on)),
            None => format!("'default' (ocsp-update.mode {})", word(self.updates.options.on)),
        };
        let jwt = |on: Option<bool>| format!("'{}'", word(on == Some(true)));
        differs("key", path(&before.key), path(&now.key));
        differs("ocsp", path(&before.ocsp), path(&now.ocsp));
        differs("issuer", path(&before.issuer), path(&now.issuer));
        differs("sctl", path(&before.sctl), path(&now.sctl));
        differs("ocsp-update", update(before.ocsp_update), update(now.ocsp_update));
        differs("jwt", jwt(before.jwt), jwt(now.jwt));
        lines.trim_end().to_owned()
    }
}
