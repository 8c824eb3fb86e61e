//! The words of a `server` line about TLS, and of `default-server` and `ssl-default-server-*`.

use super::words::{Authorities, Read, WordsError, algorithms, curves, missing, tls12_suites, tls13_suites};
use super::{Version, VersionOptions, alpn};
use crate::server::ServerProfile;

/// What a line says, in its own words. What it does not say is None.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerWords {
    /// `ssl`, and false with `no-ssl`.
    pub ssl: Option<bool>,
    pub alpn: Option<String>,
    pub ciphers: Option<String>,
    pub ciphersuites: Option<String>,
    pub curves: Option<String>,
    pub sigalgs: Option<String>,
    pub client_sigalgs: Option<String>,
    pub versions: VersionOptions,
    /// `verify required` is true.
    pub verify: Option<bool>,
    pub host: Option<String>,
    pub ca_file: Option<String>,
    pub crl_file: Option<String>,
    /// `crt`
    pub certificate: Option<String>,
    /// The expression after `sni`, to be read by whoever evaluates it.
    pub sni: Option<String>,
    /// `sni-auto` and `no-sni-auto`
    pub sni_auto: Option<bool>,
    /// False with `no-ssl-reuse`.
    pub reuse: Option<bool>,
    /// False with `no-tls-tickets`.
    pub tickets: Option<bool>,
    /// `allow-0rtt`, which nothing takes back.
    pub early_data: bool,
    /// `check-ssl` and `no-check-ssl`
    pub check_ssl: Option<bool>,
    pub check_sni: Option<String>,
    /// `check-sni-auto` and `no-check-sni-auto`
    pub check_sni_auto: Option<bool>,
    pub check_alpn: Option<String>,
}

impl ServerWords {
    /// Reads `word`, with what it needs of the words after it. An error is in the reference's words.
    pub fn read(&mut self, word: &str, after: &[&str]) -> Result<Read, String> {
        if self.versions.keyword(word) {
            return Ok(Read::Taken(0));
        }
        let flag = match word {
            "ssl" => Some((&mut self.ssl, true)),
            "no-ssl" => Some((&mut self.ssl, false)),
            "sni-auto" => Some((&mut self.sni_auto, true)),
            "no-sni-auto" => Some((&mut self.sni_auto, false)),
            "ssl-reuse" => Some((&mut self.reuse, true)),
            "no-ssl-reuse" => Some((&mut self.reuse, false)),
            "tls-tickets" => Some((&mut self.tickets, true)),
            "no-tls-tickets" => Some((&mut self.tickets, false)),
            "check-ssl" => Some((&mut self.check_ssl, true)),
            "no-check-ssl" => Some((&mut self.check_ssl, false)),
            "check-sni-auto" => Some((&mut self.check_sni_auto, true)),
            "no-check-sni-auto" => Some((&mut self.check_sni_auto, false)),
            _ => None,
        };
        if let Some((place, value)) = flag {
            *place = Some(value);
            return Ok(Read::Taken(0));
        }
        match word {
            "no-renegotiate" => return Ok(Read::Taken(0)),
            "allow-0rtt" => {
                self.early_data = true;
                return Ok(Read::Taken(0));
            }
            "renegotiate" => return Err(unsupported(word, "the TLS library never renegotiates")),
            "npn" => return Err(unsupported(word, "no server speaks it any more; use 'alpn'")),
            "no-verifyhost" => {
                self.host = None;
                return Ok(Read::Taken(0));
            }
            _ => {}
        }
        let Some(missing) = missing_of_server(word) else { return Ok(Read::NotMine) };
        let value =
            *after.first().filter(|value| !value.is_empty()).ok_or(format!("'{word}' : {missing}."))?;
        let place = match word {
            "verify" => {
                self.verify = Some(match value {
                    "none" => false,
                    "required" => true,
                    other => {
                        return Err(format!(
                            "'verify' : unknown verify method '{other}', only 'none' and 'required' are supported."
                        ));
                    }
                });
                return Ok(Read::Taken(1));
            }
            "ssl-min-ver" | "ssl-max-ver" => {
                let version =
                    Version::parse(value).ok_or_else(|| format!("'{value}' : unknown ssl/tls version"))?;
                let slot =
                    if word == "ssl-min-ver" { &mut self.versions.min } else { &mut self.versions.max };
                *slot = Some(version);
                return Ok(Read::Taken(1));
            }
            "alpn" | "check-alpn" => {
                alpn::parse(value).map_err(|error| error.to_string())?;
                if word == "alpn" { &mut self.alpn } else { &mut self.check_alpn }
            }
            "ciphers" => &mut self.ciphers,
            "ciphersuites" => &mut self.ciphersuites,
            "curves" => &mut self.curves,
            "sigalgs" => &mut self.sigalgs,
            "client-sigalgs" => &mut self.client_sigalgs,
            "ca-file" => &mut self.ca_file,
            "crl-file" => &mut self.crl_file,
            "crt" => &mut self.certificate,
            "sni" => &mut self.sni,
            "check-sni" => &mut self.check_sni,
            _ => &mut self.host,
        };
        *place = Some(value.to_owned());
        Ok(Read::Taken(1))
    }

    /// `self`, and `below` where it is silent: a `server` over its `default-server`, that over the defaults.
    pub fn over(&self, below: &ServerWords) -> ServerWords {
        let pick = |own: &Option<String>, other: &Option<String>| own.clone().or_else(|| other.clone());
        ServerWords {
            ssl: self.ssl.or(below.ssl),
            alpn: pick(&self.alpn, &below.alpn),
            ciphers: pick(&self.ciphers, &below.ciphers),
            ciphersuites: pick(&self.ciphersuites, &below.ciphersuites),
            curves: pick(&self.curves, &below.curves),
            sigalgs: pick(&self.sigalgs, &below.sigalgs),
            client_sigalgs: pick(&self.client_sigalgs, &below.client_sigalgs),
            versions: self.versions.or(below.versions),
            verify: self.verify.or(below.verify),
            host: pick(&self.host, &below.host),
            ca_file: pick(&self.ca_file, &below.ca_file),
            crl_file: pick(&self.crl_file, &below.crl_file),
            certificate: pick(&self.certificate, &below.certificate),
            sni: pick(&self.sni, &below.sni),
            sni_auto: self.sni_auto.or(below.sni_auto),
            reuse: self.reuse.or(below.reuse),
            tickets: self.tickets.or(below.tickets),
            early_data: self.early_data || below.early_data,
            check_ssl: self.check_ssl.or(below.check_ssl),
            check_sni: pick(&self.check_sni, &below.check_sni),
            check_sni_auto: self.check_sni_auto.or(below.check_sni_auto),
            check_alpn: pick(&self.check_alpn, &below.check_alpn),
        }
    }

    /// What the words come to, but for the certificate of `crt`, which [`crate::live::Live`] brings in; and what the user is
    /// to be warned of. `verify_default` is `ssl-server-verify`.
    pub fn profile(
        &self,
        authorities: &dyn Authorities,
        verify_default: bool,
    ) -> Result<(ServerProfile, Vec<String>), WordsError> {
        let mut warnings = Vec::new();
        let (versions, notes) = self.versions.resolve().map_err(|error| WordsError(error.to_string()))?;
        warnings.extend(notes.iter().map(ToString::to_string));
        let mut profile = ServerProfile {
            versions,
            reuse: self.reuse.unwrap_or(true),
            tickets: self.tickets.unwrap_or(true),
            early_data: self.early_data,
            ..ServerProfile::default()
        };
        if let Some(list) = &self.ciphers {
            profile.ciphers = tls12_suites(list, &mut warnings)?;
        }
        if let Some(list) = &self.ciphersuites {
            profile.ciphersuites = tls13_suites(list)?;
        }
        if let Some(list) = &self.curves {
            profile.groups = curves(list)?;
        }
        if let Some(list) = &self.sigalgs {
            profile.policy.schemes = algorithms(list)?;
        }
        if let Some(list) = &self.alpn {
            profile.alpn = alpn::parse(list).map_err(|error| WordsError(error.to_string()))?;
        }
        if let Some(list) = &self.client_sigalgs {
            profile.own_schemes = Some(algorithms(list)?.into());
        }
        let policy = &mut profile.policy;
        policy.required = self.verify.unwrap_or(verify_default);
        policy.host = self.host.as_ref().map(|host| host.clone().into_bytes());
        match &self.ca_file {
            Some(path) => {
                let trust = authorities.trust(path);
                policy.trust =
                    trust.ok_or_else(|| WordsError(format!("'ca-file' : unable to load {path}.")))?;
            }
            None if policy.required => return Err(WordsError(NO_CA_FILE.to_owned())),
            None => {}
        }
        if let Some(path) = &self.crl_file {
            let crls = authorities.crls(path);
            policy.crls =
                Some(crls.ok_or_else(|| WordsError(format!("'crl-file' : unable to load {path}.")))?);
        }
        Ok((profile, warnings))
    }
}

const NO_CA_FILE: &str = "verify is enabled by default but no CA file specified. If you're running on a LAN where you're \
                          certain to trust the server's certificate, please set an explicit 'verify none' statement on the \
                          'server' line, or use 'ssl-server-verify none' in the global section to disable server-side \
                          verifications by default.";

fn unsupported(word: &str, why: &str) -> String {
    format!("'{word}' is not supported on a server: {why}")
}

fn missing_of_server(word: &str) -> Option<&'static str> {
    match word {
        "sni" => Some("missing sni expression"),
        "check-sni" => Some("missing SNI"),
        "check-alpn" => Some("missing the comma-delimited ALPN protocol suite"),
        "verifyhost" => Some("missing hostname to verify against"),
        "crt" => Some("missing certificate file path"),
        "ecdhe" | "ca-verify-file" | "crt-ignore-err" | "ca-ignore-err" | "npn" => None,
        other => missing(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::line::{self, Files};

    fn words(text: &str) -> Result<ServerWords, String> {
        let mut words = ServerWords::default();
        line::read(text, |word, after| words.read(word, after))?;
        Ok(words)
    }

    #[test]
    fn lines_that_can_be_spoken_to() {
        let line = "ssl verify required ca-file ca.pem verifyhost a.com sni str(x) alpn h2 force-tlsv13 crt c.pem \
                    no-ssl-reuse check-ssl check-sni b check-alpn http/1.1 no-renegotiate no-tls-tickets \
                    client-sigalgs ed25519 allow-0rtt";
        let read = words(line).unwrap();
        let (profile, warnings) = read.profile(&Files, true).unwrap();
        assert!(
            profile.policy.required
                && !profile.reuse
                && !profile.tickets
                && profile.early_data
                && !profile.versions.tls12
                && warnings.is_empty()
        );
        assert_eq!(profile.own_schemes.as_deref(), Some(&[rustls::SignatureScheme::ED25519][..]));
        assert_eq!((read.sni.as_deref(), read.certificate.as_deref()), (Some("str(x)"), Some("c.pem")));
        let over = words("no-ssl verify none").unwrap().over(&read);
        assert_eq!((over.ssl, over.verify, over.alpn.as_deref()), (Some(false), Some(false), Some("h2")));
        assert!(words("ssl").unwrap().profile(&Files, false).is_ok(), "ssl-server-verify none");
    }

    #[test]
    fn lines_that_cannot() {
        for (line, error) in [
            (
                "verify optional",
                "'verify' : unknown verify method 'optional', only 'none' and 'required' are supported.",
            ),
            ("alpn", "'alpn' : missing the comma-delimited ALPN protocol suite."),
            ("sni", "'sni' : missing sni expression."),
            ("verifyhost", "'verifyhost' : missing hostname to verify against."),
            ("weight 10", "unknown weight"),
        ] {
            assert_eq!(words(line), Err(error.to_owned()), "{line}");
        }
        for (line, error) in [
            ("ssl", "verify is enabled by default but no CA file specified."),
            ("ssl verify required", "verify is enabled by default but no CA file specified."),
            ("ssl ca-file x", "'ca-file' : unable to load x."),
            ("ssl verify none crl-file x", "'crl-file' : unable to load x."),
            ("ssl verify none ciphers FOO", "unable to set SSL cipher list to 'FOO'"),
            ("ssl verify none force-tlsv10", "all SSL/TLS versions are disabled"),
            ("ssl verify none client-sigalgs FOO", "unable to set SSL Signature Algorithm list to 'FOO'"),
        ] {
            let found = words(line).unwrap().profile(&Files, true).unwrap_err().to_string();
            assert!(found.starts_with(error), "{line}: {found}");
        }
    }
}
