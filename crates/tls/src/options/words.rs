//! The words of a `bind` line about TLS, of a line of a `crt-list` in its brackets, and of `ssl-default-bind-*`: read one by
//! one, laid over each other, and turned into a [`Profile`].

use std::sync::Arc;

use rustls::crypto::SupportedKxGroup;
use rustls::{SignatureScheme, SupportedCipherSuite};

use super::{VersionOptions, alpn, ciphers, groups, schemes};
use crate::bind::Profile;
use crate::options::Version;
use crate::verify::{ClientPolicy, Crls, Ignored, TrustStore, Verify};

/// What a line says, in its own words. What it does not say is None.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Words {
    pub alpn: Option<String>,
    pub ciphers: Option<String>,
    pub ciphersuites: Option<String>,
    pub curves: Option<String>,
    pub sigalgs: Option<String>,
    pub client_sigalgs: Option<String>,
    pub versions: VersionOptions,
    pub verify: Option<Verify>,
    pub ca_file: Option<String>,
    pub ca_verify_file: Option<String>,
    pub crl_file: Option<String>,
    pub no_ca_names: bool,
    pub ignored_leaf: Option<Ignored>,
    pub ignored_ca: Option<Ignored>,
    pub early_data: bool,
    pub prefer_client: bool,
    /// False with `no-tls-tickets`.
    pub tickets: Option<bool>,
    /// `strict-sni` and `no-strict-sni`
    pub strict_sni: Option<bool>,
}

/// What became of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// It and so many after it were taken.
    Taken(usize),
    /// It is no word about TLS.
    NotMine,
}

/// Where certificates and lists of a name come from.
pub trait Authorities {
    /// The certificates of a `ca-file`.
    fn trust(&self, path: &str) -> Option<Arc<TrustStore>>;
    /// The lists of a `crl-file`.
    fn crls(&self, path: &str) -> Option<Arc<Crls>>;
}

/// A line that cannot be served: the text follows `Proxy 'x': `, with `for bind 'y' at [file:line]` after its first part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WordsError(pub String);

impl std::fmt::Display for WordsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WordsError {}

impl Words {
    /// Reads `word`, with what it needs of the words after it. An error is in the reference's words.
    pub fn read(&mut self, word: &str, after: &[&str]) -> Result<Read, String> {
        if self.versions.keyword(word) {
            return Ok(Read::Taken(0));
        }
        let flag = match word {
            "no-alpn" => {
                self.alpn = Some(String::new());
                true
            }
            "no-ca-names" => set(&mut self.no_ca_names),
            "allow-0rtt" => set(&mut self.early_data),
            "prefer-client-ciphers" => set(&mut self.prefer_client),
            "tls-tickets" | "no-tls-tickets" => {
                self.tickets = Some(word == "tls-tickets");
                true
            }
            "strict-sni" | "no-strict-sni" => {
                self.strict_sni = Some(word == "strict-sni");
                true
            }
            _ => false,
        };
        if flag {
            return Ok(Read::Taken(0));
        }
        let Some(missing) = missing(word) else { return Ok(Read::NotMine) };
        let value =
            *after.first().filter(|value| !value.is_empty()).ok_or(format!("'{word}' : {missing}"))?;
        match word {
            "alpn" => {
                alpn::parse(value).map_err(|error| error.to_string())?;
                self.alpn = Some(value.to_owned());
            }
            "npn" => {
                return Err("'npn' is not supported: no client speaks it any more; use 'alpn'".to_owned());
            }
            "ciphers" => self.ciphers = Some(value.to_owned()),
            "ciphersuites" => self.ciphersuites = Some(value.to_owned()),
            "curves" | "ecdhe" => self.curves = Some(value.to_owned()),
            "sigalgs" => self.sigalgs = Some(value.to_owned()),
            "client-sigalgs" => self.client_sigalgs = Some(value.to_owned()),
            "ca-file" => self.ca_file = Some(value.to_owned()),
            "ca-verify-file" => self.ca_verify_file = Some(value.to_owned()),
            "crl-file" => self.crl_file = Some(value.to_owned()),
            "verify" => self.verify = Some(verify(value)?),
            "crt-ignore-err" => self.ignored_leaf = Some(ignored(word, value)?),
            "ca-ignore-err" => self.ignored_ca = Some(ignored(word, value)?),
            _ => {
                let version =
                    Version::parse(value).ok_or_else(|| format!("'{value}' : unknown ssl/tls version"))?;
                let slot =
                    if word == "ssl-min-ver" { &mut self.versions.min } else { &mut self.versions.max };
                *slot = Some(version);
            }
        }
        Ok(Read::Taken(1))
    }

    /// `self`, and `below` where it is silent: a line of a `crt-list` over its `bind`, a `bind` over the defaults.
    pub fn over(&self, below: &Words) -> Words {
        let pick = |own: &Option<String>, other: &Option<String>| own.clone().or_else(|| other.clone());
        Words {
            alpn: pick(&self.alpn, &below.alpn),
            ciphers: pick(&self.ciphers, &below.ciphers),
            ciphersuites: pick(&self.ciphersuites, &below.ciphersuites),
            curves: pick(&self.curves, &below.curves),
            sigalgs: pick(&self.sigalgs, &below.sigalgs),
            client_sigalgs: pick(&self.client_sigalgs, &below.client_sigalgs),
            versions: self.versions.or(below.versions),
            verify: self.verify.or(below.verify),
            ca_file: pick(&self.ca_file, &below.ca_file),
            ca_verify_file: pick(&self.ca_verify_file, &below.ca_verify_file),
            crl_file: pick(&self.crl_file, &below.crl_file),
            no_ca_names: self.no_ca_names || below.no_ca_names,
            ignored_leaf: self.ignored_leaf.or(below.ignored_leaf),
            ignored_ca: self.ignored_ca.or(below.ignored_ca),
            early_data: self.early_data || below.early_data,
            prefer_client: self.prefer_client || below.prefer_client,
            tickets: self.tickets.or(below.tickets),
            strict_sni: self.strict_sni.or(below.strict_sni),
        }
    }

    /// What the words come to, and what the user is to be warned of.
    pub fn profile(&self, authorities: &dyn Authorities) -> Result<(Profile, Vec<String>), WordsError> {
        let mut warnings = Vec::new();
        let (versions, notes) = self.versions.resolve().map_err(|error| WordsError(error.to_string()))?;
        warnings.extend(notes.iter().map(ToString::to_string));
        let mut profile = Profile { versions, ..Profile::default() };
        if let Some(list) = &self.ciphers {
            profile.ciphers = tls12_suites(list, &mut warnings)?;
        }
        if let Some(list) = &self.ciphersuites {
            profile.ciphersuites = tls13_suites(list)?;
            profile.any_aes = false;
        }
        if let Some(list) = &self.curves {
            profile.groups = curves(list)?;
        }
        if let Some(list) = &self.sigalgs {
            profile.schemes = Some(algorithms(list)?.into());
        }
        if let Some(list) = &self.client_sigalgs {
            profile.client.schemes = algorithms(list)?;
        }
        if let Some(list) = self.alpn.as_deref().filter(|list| !list.is_empty()) {
            profile.alpn = alpn::parse(list).map_err(|error| WordsError(error.to_string()))?;
        }
        profile.prefer_client = self.prefer_client;
        profile.early_data = if self.early_data { crate::engine::EARLY_DATA_MAX as u32 } else { 0 };
        self.client(&mut profile.client, authorities)?;
        Ok((profile, warnings))
    }

    fn client(&self, client: &mut ClientPolicy, authorities: &dyn Authorities) -> Result<(), WordsError> {
        client.verify = self.verify.unwrap_or_default();
        if client.verify == Verify::None {
            return Ok(());
        }
        let find = |path: &str| {
            authorities.trust(path).ok_or_else(|| WordsError(format!("'ca-file' : unable to load {path}")))
        };
        let told = self.ca_file.as_deref().map(find).transpose()?;
        if let Some(told) = told.as_ref().filter(|_| !self.no_ca_names) {
            client.names = told.certificates().iter().map(|ca| ca.subject().to_vec()).collect();
        }
        let untold = self.ca_verify_file.as_deref().map(find).transpose()?;
        client.trust = match (told, untold) {
            (Some(only), None) | (None, Some(only)) => only,
            (Some(told), Some(untold)) => {
                let mut both = TrustStore::clone(&told);
                untold.certificates().iter().for_each(|ca| both.add(ca.clone()));
                Arc::new(both)
            }
            (None, None) => {
                return Err(WordsError("verify is enabled but no CA file specified".to_owned()));
            }
        };
        if let Some(path) = &self.crl_file {
            let crls = authorities.crls(path);
            client.crls =
                Some(crls.ok_or_else(|| WordsError(format!("'crl-file' : unable to load {path}")))?);
        }
        client.ignored_leaf = self.ignored_leaf.unwrap_or_default();
        client.ignored_ca = self.ignored_ca.unwrap_or_default();
        Ok(())
    }
}

/// The suites of `ciphers`; a list of which none is supported is warned of, since TLS 1.3 may still be spoken.
pub(super) fn tls12_suites(
    list: &str,
    warnings: &mut Vec<String>,
) -> Result<Vec<SupportedCipherSuite>, WordsError> {
    let chosen = ciphers::ciphers(list)
        .map_err(|error| WordsError(format!("unable to set SSL cipher list to '{list}': {error}")))?;
    if chosen.suites.is_empty() {
        warnings.push(format!(
            "none of the ciphers in '{list}' is supported, so TLSv1.2 is not spoken: only ECDHE with AES-GCM or \
             ChaCha20-Poly1305 is"
        ));
    }
    Ok(chosen.suites)
}

/// The suites of `ciphersuites`.
pub(super) fn tls13_suites(list: &str) -> Result<Vec<SupportedCipherSuite>, WordsError> {
    let failed = |why: String| WordsError(format!("unable to set TLS 1.3 cipher suites to '{list}': {why}"));
    let chosen = ciphers::ciphersuites(list).map_err(|error| failed(error.to_string()))?;
    if chosen.suites.is_empty() {
        return Err(failed(format!("{} is not supported", chosen.unsupported.join(", "))));
    }
    Ok(chosen.suites)
}

/// The groups of `curves`.
pub(super) fn curves(list: &str) -> Result<Vec<&'static dyn SupportedKxGroup>, WordsError> {
    let chosen = groups::parse(list);
    chosen
        .map(|chosen| chosen.used)
        .map_err(|error| WordsError(format!("unable to set SSL curves list to '{list}': {error}")))
}

/// The schemes of `sigalgs`.
pub(super) fn algorithms(list: &str) -> Result<Vec<SignatureScheme>, WordsError> {
    schemes::parse(list).map_err(|error| {
        WordsError(format!("unable to set SSL Signature Algorithm list to '{list}': {error}"))
    })
}

fn set(flag: &mut bool) -> bool {
    *flag = true;
    true
}

/// What the reference says when a word comes without its value; None when it is no word about TLS.
pub(super) fn missing(word: &str) -> Option<&'static str> {
    Some(match word {
        "alpn" => "missing the comma-delimited ALPN protocol suite",
        "npn" => "missing the comma-delimited NPN protocol suite",
        "ciphers" => "missing cipher suite",
        "ciphersuites" => "missing cipher suite",
        "curves" => "missing curve suite",
        "ecdhe" => "missing named curve",
        "sigalgs" | "client-sigalgs" => "missing signature algorithm list",
        "ca-file" | "ca-verify-file" => "missing CAfile path",
        "crl-file" => "missing CRLfile path",
        "verify" => "missing verify method",
        "crt-ignore-err" | "ca-ignore-err" => "missing error IDs list",
        "ssl-min-ver" | "ssl-max-ver" => "missing the ssl/tls version",
        _ => return None,
    })
}

fn verify(value: &str) -> Result<Verify, String> {
    match value {
        "none" => Ok(Verify::None),
        "optional" => Ok(Verify::Optional),
        "required" => Ok(Verify::Required),
        other => Err(format!(
            "'verify' : unknown verify method '{other}', only 'none', 'optional', and 'required' are supported"
        )),
    }
}

fn ignored(word: &str, list: &str) -> Result<Ignored, String> {
    Ignored::parse(list).map_err(|unknown| {
        format!("'{word}' : error constant '{}' unknown in error IDs list '{list}'", unknown.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::line::{self, Files};

    fn words(text: &str) -> Result<Words, String> {
        let mut words = Words::default();
        line::read(text, |word, after| words.read(word, after))?;
        Ok(words)
    }

    #[test]
    fn lines_that_can_be_served() {
        let line = "alpn h2,http/1.1 ciphers ECDHE+AESGCM curves P-256 ssl-min-ver TLSv1.3 sigalgs ecdsa_secp256r1_sha256 \
                    verify optional ca-file ca.pem crt-ignore-err 10 no-ca-names allow-0rtt prefer-client-ciphers";
        let (profile, warnings) = words(line).unwrap().profile(&Files).unwrap();
        assert_eq!((profile.alpn.len(), profile.ciphers.len(), profile.groups.len()), (2, 4, 1));
        assert!(
            !profile.versions.tls12 && profile.early_data > 0 && profile.prefer_client && warnings.is_empty()
        );
        // Authorities that clients are not told of are enough.
        assert!(words("verify required ca-verify-file ca.pem").unwrap().profile(&Files).is_ok());
        let over = words("ciphers AES256-SHA no-alpn").unwrap().over(&words(line).unwrap());
        let (profile, warnings) = over.profile(&Files).unwrap();
        assert!(profile.alpn.is_empty() && profile.ciphers.is_empty());
        let defaults = words("no-tls-tickets strict-sni").unwrap();
        let over = words("tls-tickets").unwrap().over(&defaults);
        assert_eq!((over.tickets, over.strict_sni), (Some(true), Some(true)));
        assert!(warnings[0].contains("TLSv1.2 is not spoken"), "{warnings:?}");
    }

    #[test]
    fn lines_that_cannot() {
        for (line, error) in [
            ("alpn", "'alpn' : missing the comma-delimited ALPN protocol suite"),
            ("ca-file", "'ca-file' : missing CAfile path"),
            (
                "verify foo",
                "'verify' : unknown verify method 'foo', only 'none', 'optional', and 'required' are supported",
            ),
            ("ssl-min-ver TLSv1.4", "'TLSv1.4' : unknown ssl/tls version"),
            ("ca-ignore-err foo", "'ca-ignore-err' : error constant 'foo' unknown in error IDs list 'foo'"),
            ("npn x", "'npn' is not supported: no client speaks it any more; use 'alpn'"),
            ("maxconn 10", "unknown maxconn"),
        ] {
            assert_eq!(words(line), Err(error.to_owned()), "{line}");
        }
        for (line, error) in [
            ("ciphers FOO", "unable to set SSL cipher list to 'FOO': no cipher matches it"),
            ("ciphersuites FOO", "unable to set TLS 1.3 cipher suites to 'FOO': no cipher matches it"),
            ("force-sslv3", "all SSL/TLS versions are disabled: only versions up to SSLv3 are allowed"),
            ("verify required", "verify is enabled but no CA file specified"),
            ("verify required ca-file x", "'ca-file' : unable to load x"),
            ("verify required ca-file ca.pem crl-file y", "'crl-file' : unable to load y"),
            ("curves FOO", "unable to set SSL curves list to 'FOO': 'FOO' is no curve that is known"),
        ] {
            let found = words(line).unwrap().profile(&Files).unwrap_err().to_string();
            assert!(found.starts_with(error), "{line}: {found}");
        }
    }
}
