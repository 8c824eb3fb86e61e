//! Which versions of TLS are spoken: `ssl-min-ver`, `ssl-max-ver`, `no-tlsv1x`, `force-tlsv1x`.

/// A version that a configuration can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    Ssl30,
    Tls10,
    Tls11,
    Tls12,
    Tls13,
}

const ALL: [Version; 5] = [Version::Ssl30, Version::Tls10, Version::Tls11, Version::Tls12, Version::Tls13];

impl Version {
    /// Reads `TLSv1.2` and its siblings.
    pub fn parse(text: &str) -> Option<Version> {
        ALL.into_iter().find(|version| version.name() == text)
    }

    /// The name, as configurations write it and as `ssl_fc_protocol` gives it.
    pub fn name(self) -> &'static str {
        match self {
            Version::Ssl30 => "SSLv3",
            Version::Tls10 => "TLSv1.0",
            Version::Tls11 => "TLSv1.1",
            Version::Tls12 => "TLSv1.2",
            Version::Tls13 => "TLSv1.3",
        }
    }
}

/// What a line says about versions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VersionOptions {
    /// `ssl-min-ver`
    pub min: Option<Version>,
    /// `ssl-max-ver`
    pub max: Option<Version>,
    /// A bit for each `no-*`, in the order of [`Version`].
    disabled: u8,
}

/// The versions that are spoken. At least one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    pub tls12: bool,
    pub tls13: bool,
}

/// What to tell about versions, in words that follow `for bind 'x' at [file:line]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VersionNote {
    /// `no-*` beside `ssl-min-ver` or `ssl-max-ver`.
    DisabledIgnored,
    /// TLS 1.1 or older was asked for by name; from TLS 1.2 on is what it gets.
    RaisedTo12(Version),
}

impl std::fmt::Display for VersionNote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            VersionNote::DisabledIgnored => f.write_str(
                "no-sslv3/no-tlsv1x are ignored. Use only 'ssl-min-ver' and 'ssl-max-ver' to fix.",
            ),
            VersionNote::RaisedTo12(version) => write!(
                f,
                "{} is not supported: nothing below TLSv1.2 is spoken, because the old versions can no longer be made \
                 safe. Clients that know nothing newer are refused; use 'ssl-min-ver TLSv1.2' to silence this warning.",
                version.name()
            ),
        }
    }
}

/// No version is left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoVersion {
    /// The options exclude every version.
    AllDisabled,
    /// The options allow only versions that are not supported.
    OnlyOld(Version),
}

impl std::fmt::Display for NoVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NoVersion::AllDisabled => f.write_str("all SSL/TLS versions are disabled"),
            NoVersion::OnlyOld(version) => write!(
                f,
                "all SSL/TLS versions are disabled: only versions up to {} are allowed, and nothing below TLSv1.2 is \
                 supported",
                version.name()
            ),
        }
    }
}

impl std::error::Error for NoVersion {}

impl VersionOptions {
    /// Takes note of a keyword such as `no-tlsv12` or `force-tlsv13`; false when it is none of these.
    pub fn keyword(&mut self, word: &str) -> bool {
        let version = |name: &str| match name {
            "sslv3" => Some(Version::Ssl30),
            "tlsv10" => Some(Version::Tls10),
            "tlsv11" => Some(Version::Tls11),
            "tlsv12" => Some(Version::Tls12),
            "tlsv13" => Some(Version::Tls13),
            _ => None,
        };
        if let Some(version) = word.strip_prefix("no-").and_then(version) {
            self.disabled |= 1 << version as u8;
        } else if let Some(version) = word.strip_prefix("force-").and_then(version) {
            (self.min, self.max) = (Some(version), Some(version));
        } else {
            return false;
        }
        true
    }

    /// What remains of `self` where it is silent: `ssl-default-bind-options` below the options of a line.
    pub fn or(self, default: VersionOptions) -> VersionOptions {
        VersionOptions {
            min: self.min.or(default.min),
            max: self.max.or(default.max),
            disabled: self.disabled | default.disabled,
        }
    }

    /// The versions to speak, and what to warn about.
    pub fn resolve(self) -> Result<(Versions, Vec<VersionNote>), NoVersion> {
        let mut notes = Vec::new();
        let limited = self.min.is_some() || self.max.is_some();
        if limited && self.disabled != 0 {
            notes.push(VersionNote::DisabledIgnored);
        }
        if let (Some(min), Some(max)) = (self.min, self.max)
            && min > max
        {
            return Err(NoVersion::AllDisabled);
        }
        let allowed = |version: Version| {
            self.min.is_none_or(|min| version >= min)
                && self.max.is_none_or(|max| version <= max)
                && (limited || self.disabled & (1 << version as u8) == 0)
        };
        let versions = Versions { tls12: allowed(Version::Tls12), tls13: allowed(Version::Tls13) };
        if !versions.tls12 && !versions.tls13 {
            let old = ALL.into_iter().rev().find(|version| *version < Version::Tls12 && allowed(*version));
            return Err(match old {
                Some(old) => NoVersion::OnlyOld(old),
                None => NoVersion::AllDisabled,
            });
        }
        if let Some(min) = self.min.filter(|min| *min < Version::Tls12) {
            notes.push(VersionNote::RaisedTo12(min));
        }
        Ok((versions, notes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(words: &str) -> VersionOptions {
        let mut options = VersionOptions::default();
        let mut words = words.split_whitespace();
        while let Some(word) = words.next() {
            match word {
                "min" => options.min = Version::parse(words.next().unwrap()),
                "max" => options.max = Version::parse(words.next().unwrap()),
                _ => assert!(options.keyword(word), "{word}"),
            }
        }
        options
    }

    #[test]
    fn options_leave_versions() {
        let both = Versions { tls12: true, tls13: true };
        let only12 = Versions { tls12: true, tls13: false };
        let only13 = Versions { tls12: false, tls13: true };
        let ignored = VersionNote::DisabledIgnored;
        for (words, versions, notes) in [
            ("", both, vec![]),
            ("no-tlsv12", only13, vec![]),
            ("no-tlsv13", only12, vec![]),
            ("no-tlsv10 no-sslv3", both, vec![]),
            ("force-tlsv12", only12, vec![]),
            ("min TLSv1.3", only13, vec![]),
            ("max TLSv1.2", only12, vec![]),
            ("no-tlsv12 min TLSv1.2", both, vec![ignored]),
            ("min TLSv1.0", both, vec![VersionNote::RaisedTo12(Version::Tls10)]),
        ] {
            assert_eq!(options(words).resolve(), Ok((versions, notes)), "{words}");
        }
        for (words, error) in [
            ("no-tlsv12 no-tlsv13 no-tlsv11 no-tlsv10 no-sslv3", NoVersion::AllDisabled),
            ("min TLSv1.3 max TLSv1.2", NoVersion::AllDisabled),
            ("force-tlsv11", NoVersion::OnlyOld(Version::Tls11)),
            ("force-sslv3", NoVersion::OnlyOld(Version::Ssl30)),
            ("max TLSv1.1", NoVersion::OnlyOld(Version::Tls11)),
            ("no-tlsv12 no-tlsv13", NoVersion::OnlyOld(Version::Tls11)),
        ] {
            assert_eq!(options(words).resolve(), Err(error), "{words}");
        }
        assert!(!VersionOptions::default().keyword("no-tls-tickets"));
    }
}
