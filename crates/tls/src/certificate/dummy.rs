//! Certificates that are made at the start because there is none yet: `load ... generate-dummy on` in a `crt-store`.

use super::Credential;
use super::load::{LoadError, Loader, Parts};
use crate::x509::make::{MadeKey, NewKey, Template};
use crate::x509::time::Seconds;

const DAY: Seconds = 86_400;

/// The words of a line that say whether to make a certificate, and with which key.
#[derive(Clone, Copy, Debug, Default)]
pub struct DummyWords<'a> {
    /// `generate-dummy`
    pub on: bool,
    /// `keytype`
    pub kind: Option<&'a str>,
    /// `bits`
    pub bits: Option<&'a str>,
    /// `curves`
    pub curve: Option<&'a str>,
}

impl DummyWords<'_> {
    /// The key to make; `None` when none is to be made.
    ///
    /// # Errors
    /// What is wrong with a word.
    pub fn key(&self) -> Result<Option<NewKey>, String> {
        if !self.on {
            let says_more = self.kind.or(self.bits).or(self.curve).is_some();
            let needed = "keyword 'keytype', 'bits' and 'curves' require 'generate-dummy' set to 'on'";
            return if says_more { Err(needed.to_owned()) } else { Ok(None) };
        }
        let bits = self.bits.map(|text| {
            text.parse::<u32>()
                .map_err(|_| format!("cannot parse 'bits' value '{text}', an integer is expected."))
        });
        let key = match (self.kind, bits.transpose()?, self.curve) {
            (None | Some("RSA"), None | Some(2048), _) => NewKey::Rsa2048,
            (None | Some("RSA"), Some(3072), _) => NewKey::Rsa3072,
            (None | Some("RSA"), Some(4096), _) => NewKey::Rsa4096,
            (None | Some("RSA"), Some(bits), _) => {
                return Err(format!(
                    "'bits' : a key of {bits} bits cannot be made; 2048, 3072 and 4096 can."
                ));
            }
            (Some("ECDSA"), _, Some("P-256" | "prime256v1")) => NewKey::P256,
            (Some("ECDSA"), _, None | Some("P-384" | "secp384r1")) => NewKey::P384,
            (Some("ECDSA"), _, Some(curve)) => {
                return Err(format!("unsupported curves '{curve}'. P-256 and P-384 are supported."));
            }
            (Some(_), ..) => return Err("keyword 'keytype' requires either 'RSA' or 'ECDSA'.".to_owned()),
        };
        Ok(Some(key))
    }
}

impl Loader<'_> {
    /// Makes a certificate that stands in for the file of these parts, if that is not there. It ended yesterday and is called
    /// `expired`, so that nobody takes it for another one.
    pub fn load_or_make(
        &self,
        name: &str,
        parts: &Parts,
        key: Option<NewKey>,
        now: Seconds,
    ) -> Result<Credential, LoadError> {
        let Some(key) = key.filter(|_| !self.files.exists(&parts.certificate)) else {
            return self.load_parts(name, parts);
        };
        let template = Template::new("expired", now - 2 * DAY, now - DAY);
        let text = MadeKey::generate(key)
            .and_then(|key| template.self_signed(&key))
            .map_err(|error| LoadError::unreadable(&parts.certificate, &error.to_string()))?;
        self.assemble(name, text.as_bytes(), parts, parts.key.is_some())
    }
}
