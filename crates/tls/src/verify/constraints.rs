//! Name constraints (RFC 5280 section 4.2.1.10): which names the certificates below a CA may bear.

use super::errors::Code;
use crate::der::{Malformed, Reader, tag};
use crate::x509::{Certificate, name, oid};

/// The most comparisons of a name with a constraint that one chain may cost. Beyond it the chain is refused: a hostile
/// one could ask for millions.
const COMPARISONS_MAX: usize = 100_000;

const EMAIL: u8 = tag::context(1);
const DNS: u8 = tag::context(2);
const DIRECTORY: u8 = tag::explicit(4);
const URI: u8 = tag::context(6);
const ADDRESS: u8 = tag::context(7);

/// One general name: its kind by tag, and its content.
type GeneralName<'a> = (u8, &'a [u8]);

/// What a common name is, in a certificate without DNS names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommonName {
    /// A CA's: no host's name.
    IsText,
    /// A leaf's of which no name was asked: a DNS name if it looks like one.
    IfHost,
    /// A leaf's that was compared with the host's name: whatever it looks like, it was believed to be one.
    IsHost,
}

/// Checks the names of `certificate` against the constraints of `ca`.
pub fn check(ca: &Certificate, certificate: &Certificate, common_name: CommonName) -> Result<(), Code> {
    let Some(constraints) = ca.name_constraints() else { return Ok(()) };
    let (permitted, excluded) = subtrees(constraints).map_err(|_| Code::BAD_CONSTRAINT)?;
    let names = names(certificate, common_name);
    if names.len().saturating_mul(permitted.len() + excluded.len()) > COMPARISONS_MAX {
        return Err(Code(1));
    }
    for name in names {
        let mut constrained = false;
        let mut allowed = false;
        for tree in permitted.iter().filter(|tree| tree.0 == name.0) {
            constrained = true;
            allowed |= within(name, tree.1)?;
        }
        if constrained && !allowed {
            return Err(Code::NOT_PERMITTED);
        }
        for tree in excluded.iter().filter(|tree| tree.0 == name.0) {
            if within(name, tree.1)? || (name.0 == DNS && wildcard_reaches(name.1, tree.1)) {
                return Err(Code::EXCLUDED);
            }
        }
    }
    Ok(())
}

/// Permitted and excluded subtrees.
fn subtrees(constraints: &[u8]) -> Result<(Vec<GeneralName<'_>>, Vec<GeneralName<'_>>), Malformed> {
    let mut outer = Reader::new(constraints);
    let mut inner = outer.inside(tag::SEQUENCE)?;
    outer.end()?;
    let mut lists = [Vec::new(), Vec::new()];
    for (index, list) in lists.iter_mut().enumerate() {
        let Some(value) = inner.optional(tag::explicit(index as u8))? else { continue };
        let mut trees = Reader::new(value.content);
        while !trees.is_empty() {
            let mut tree = trees.inside(tag::SEQUENCE)?;
            let base = tree.value()?;
            // minimum and maximum must be absent in this profile.
            tree.end()?;
            list.push((base.tag, base.content));
        }
    }
    inner.end()?;
    let [permitted, excluded] = lists;
    Ok((permitted, excluded))
}

fn names(certificate: &Certificate, common_name: CommonName) -> Vec<GeneralName<'_>> {
    let mut found: Vec<GeneralName<'_>> =
        certificate.general_names().iter().map(|value| (value.tag, value.content)).collect();
    let subject = certificate.subject();
    let attributes = name::attributes(subject).unwrap_or_default();
    if !attributes.is_empty() {
        found.push((DIRECTORY, subject));
    }
    for attribute in &attributes {
        if attribute.oid == oid::EMAIL_ADDRESS {
            found.push((EMAIL, attribute.value.content));
        }
    }
    if common_name != CommonName::IsText && !found.iter().any(|name| name.0 == DNS) {
        let common = attributes.iter().filter(|attribute| attribute.oid == oid::COMMON_NAME);
        let is_name = |name: &&[u8]| common_name == CommonName::IsHost || is_host(name);
        found.extend(common.map(|attribute| attribute.value.content).filter(is_name).map(|n| (DNS, n)));
    }
    found
}

/// A common name that could be a host's.
fn is_host(text: &[u8]) -> bool {
    text.contains(&b'.') && text.iter().all(|byte| byte.is_ascii_alphanumeric() || b".-_*".contains(byte))
}

fn within(name: GeneralName<'_>, base: &[u8]) -> Result<bool, Code> {
    match name.0 {
        DNS => Ok(domain_within(name.1, base)),
        DIRECTORY => directory_within(name.1, base),
        EMAIL => Ok(email_within(name.1, base)),
        URI => uri_within(name.1, base),
        ADDRESS => address_within(name.1, base),
        _ => Err(Code::UNKNOWN_CONSTRAINT),
    }
}

fn ends_with(text: &[u8], end: &[u8]) -> bool {
    text.len() >= end.len() && text[text.len() - end.len()..].eq_ignore_ascii_case(end)
}

/// `base` itself and everything below it; an empty base is everything.
fn domain_within(name: &[u8], base: &[u8]) -> bool {
    if base.is_empty() {
        return true;
    }
    if !ends_with(name, base) {
        return false;
    }
    name.len() == base.len() || base[0] == b'.' || name[name.len() - base.len() - 1] == b'.'
}

/// Whether the star in `name` stands for a name that `base` is, or one below it: `*.example.com` is good for the excluded
/// `a.example.com`, although it is not within it.
fn wildcard_reaches(name: &[u8], base: &[u8]) -> bool {
    let Some(dot) = name.iter().position(|byte| *byte == b'.') else { return false };
    let base = base.strip_prefix(b".").unwrap_or(base);
    let rest = base.iter().position(|byte| *byte == b'.').map(|at| &base[at..]);
    name[..dot].contains(&b'*') && rest.is_some_and(|rest| rest.eq_ignore_ascii_case(&name[dot..]))
}

/// The constraint's sets are the first ones of the name.
fn directory_within(subject: &[u8], base: &[u8]) -> Result<bool, Code> {
    let subject = name::attributes(subject).map_err(|_| Code::BAD_CONSTRAINT)?;
    // In the constraint the Name stands inside of an explicit tag.
    let base = name::attributes(base).map_err(|_| Code::BAD_CONSTRAINT)?;
    if base.len() > subject.len() {
        return Ok(false);
    }
    let same = |a: &name::Attribute<'_>, b: &name::Attribute<'_>| {
        a.set == b.set && a.oid == b.oid && name::same_value(&a.value, &b.value)
    };
    // All members of the last set must be compared: a set is not a prefix of a larger one.
    let whole_sets =
        subject.get(base.len()).is_none_or(|next| base.last().is_none_or(|last| last.set != next.set));
    Ok(whole_sets && base.iter().zip(&subject).all(|(a, b)| same(a, b)))
}

fn email_within(address: &[u8], base: &[u8]) -> bool {
    let Some(at) = address.iter().rposition(|byte| *byte == b'@') else { return false };
    let host = &address[at + 1..];
    match base.iter().rposition(|byte| *byte == b'@') {
        Some(base_at) => {
            // The local part is compared with its case.
            address[..at] == base[..base_at] && host.eq_ignore_ascii_case(&base[base_at + 1..])
        }
        None if base.first() == Some(&b'.') => host.len() > base.len() && ends_with(host, base),
        None => host.eq_ignore_ascii_case(base),
    }
}

fn uri_within(uri: &[u8], base: &[u8]) -> Result<bool, Code> {
    const SYNTAX: Code = Code(53);
    let start = uri.windows(3).position(|bytes| bytes == b"://").ok_or(SYNTAX)? + 3;
    let authority = &uri[start..];
    let end = authority.iter().position(|byte| b"/?#".contains(byte)).unwrap_or(authority.len());
    let authority = &authority[..end];
    let host = authority.iter().rposition(|byte| *byte == b'@').map_or(authority, |at| &authority[at + 1..]);
    let host = &host[..host.iter().position(|byte| *byte == b':').unwrap_or(host.len())];
    if host.is_empty() {
        return Err(SYNTAX);
    }
    Ok(match base.first() {
        Some(b'.') => host.len() > base.len() && ends_with(host, base),
        _ => host.eq_ignore_ascii_case(base),
    })
}

fn address_within(address: &[u8], base: &[u8]) -> Result<bool, Code> {
    if !matches!(base.len(), 8 | 32) {
        return Err(Code(53));
    }
    let (network, mask) = base.split_at(base.len() / 2);
    Ok(network.len() == address.len()
        && address.iter().zip(network).zip(mask).all(|((a, n), m)| (a ^ n) & m == 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_subtrees() {
        assert!(domain_within(b"a.Example.com", b"example.com"));
        assert!(domain_within(b"example.com", b"example.com"));
        assert!(!domain_within(b"badexample.com", b"example.com"));
        assert!(domain_within(b"a.example.com", b".example.com"));
        assert!(!domain_within(b"example.com", b".example.com"));
        assert!(email_within(b"a@x.org", b"x.org") && !email_within(b"a@b.x.org", b"x.org"));
        assert!(email_within(b"a@b.x.org", b".x.org") && !email_within(b"A@x.org", b"a@x.org"));
        assert_eq!(uri_within(b"https://u:p@a.x.org:1/", b".x.org"), Ok(true));
        assert_eq!(uri_within(b"mailto:a", b".x.org"), Err(Code(53)));
        assert_eq!(address_within(&[10, 1, 2, 3], &[10, 0, 0, 0, 255, 0, 0, 0]), Ok(true));
        assert_eq!(address_within(&[11, 1, 2, 3], &[10, 0, 0, 0, 255, 0, 0, 0]), Ok(false));
    }
}
