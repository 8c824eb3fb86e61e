//! `curves` and `ecdhe`: the groups in which keys are agreed on.

use rustls::NamedGroup;
use rustls::crypto::SupportedKxGroup;
use rustls::crypto::aws_lc_rs::kx_group;

use crate::provider::P521;

/// A group that can be used, with the names it goes by; the first is what `ssl_fc_curve` gives.
struct Known {
    names: &'static [&'static str],
    group: &'static dyn SupportedKxGroup,
}

/// The groups that are used, in the order in which they are used without `curves`: the hybrid that a quantum computer does
/// not break first, as browsers and OpenSSL 3.5 have it, and then OpenSSL's old order.
const KNOWN: &[Known] = &[
    Known { names: &["X25519MLKEM768"], group: kx_group::X25519MLKEM768 },
    Known { names: &["X25519"], group: kx_group::X25519 },
    Known { names: &["prime256v1", "P-256", "secp256r1"], group: kx_group::SECP256R1 },
    Known { names: &["secp521r1", "P-521"], group: &P521 },
    Known { names: &["secp384r1", "P-384"], group: kx_group::SECP384R1 },
    Known { names: &["SecP256r1MLKEM768"], group: kx_group::SECP256R1MLKEM768 },
    Known { names: &["MLKEM768"], group: kx_group::MLKEM768 },
    Known { names: &["MLKEM1024"], group: kx_group::MLKEM1024 },
];

/// How many of [`KNOWN`] are used without `curves`.
const DEFAULTS: usize = 5;

/// Groups that OpenSSL knows and that are not supported.
const UNSUPPORTED: &[&str] = &[
    "X448",
    "ffdhe2048",
    "ffdhe3072",
    "ffdhe4096",
    "ffdhe6144",
    "ffdhe8192",
    "brainpoolP256r1",
    "brainpoolP384r1",
    "brainpoolP512r1",
    "secp256k1",
    "secp224r1",
    "P-224",
    "prime192v1",
    "MLKEM512",
    "SecP384r1MLKEM1024",
];

/// Why a list of groups is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupsError {
    /// A name that is no group's. OpenSSL refuses the whole list for it.
    Unknown(String),
    /// Groups of the list exist, and none of them is supported.
    NoneSupported(Vec<&'static str>),
}

impl std::fmt::Display for GroupsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            GroupsError::Unknown(name) => write!(f, "'{name}' is no curve that is known")?,
            GroupsError::NoneSupported(names) => write!(f, "none of {} is supported", names.join(", "))?,
        }
        let names: Vec<&str> = KNOWN.iter().map(|known| known.names[0]).collect();
        write!(f, "; supported are {}", names.join(", "))
    }
}

impl std::error::Error for GroupsError {}

/// What a list of groups came to.
#[derive(Clone, Debug)]
pub struct Groups {
    pub used: Vec<&'static dyn SupportedKxGroup>,
    /// Groups of the list that exist and are not supported.
    pub unsupported: Vec<&'static str>,
}

/// The groups without `curves`.
pub fn defaults() -> Vec<&'static dyn SupportedKxGroup> {
    KNOWN[..DEFAULTS].iter().map(|known| known.group).collect()
}

/// Reads `curves`: names with colons between them; with `?` before it a name may be unknown.
pub fn parse(list: &str) -> Result<Groups, GroupsError> {
    let mut groups = Groups { used: Vec::new(), unsupported: Vec::new() };
    for word in list.split(':') {
        let name = word.strip_prefix('?').unwrap_or(word);
        let is = |candidate: &&str| candidate.eq_ignore_ascii_case(name);
        if let Some(known) = KNOWN.iter().find(|known| known.names.iter().any(&is)) {
            if !groups.used.iter().any(|used| used.name() == known.group.name()) {
                groups.used.push(known.group);
            }
        } else if let Some(unsupported) = UNSUPPORTED.iter().copied().find(|n| is(n)) {
            groups.unsupported.push(unsupported);
        } else if name.len() == word.len() {
            return Err(GroupsError::Unknown(name.to_owned()));
        }
    }
    if groups.used.is_empty() {
        return Err(GroupsError::NoneSupported(groups.unsupported));
    }
    Ok(groups)
}

/// The name of a group: `ssl_fc_curve`.
pub fn name(group: NamedGroup) -> &'static str {
    KNOWN.iter().find(|known| known.group.name() == group).map_or("", |known| known.names[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_curves() {
        let names = |list: &str| {
            parse(list).map(|groups| groups.used.iter().map(|group| name(group.name())).collect::<Vec<_>>())
        };
        assert_eq!(names("P-256:X25519"), Ok(vec!["prime256v1", "X25519"]));
        assert_eq!(names("?foo:X25519MLKEM768:P-521"), Ok(vec!["X25519MLKEM768", "secp521r1"]));
        assert_eq!(names("X448:secp384r1"), Ok(vec!["secp384r1"]));
        assert_eq!(names("P-256:foo"), Err(GroupsError::Unknown("foo".into())));
        assert_eq!(names("X448"), Err(GroupsError::NoneSupported(vec!["X448"])));
        assert!(parse("").is_err());
        assert_eq!(defaults().len(), 5);
    }
}
