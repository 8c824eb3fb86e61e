//! Verifying a chain of certificates, with OpenSSL's errors at OpenSSL's depths and in its order, because
//! `crt-ignore-err` and `ca-ignore-err` let a connection pass by number and depth.
//!
//! A path is built once, upwards, without going back: at each step the issuer is looked for among the trusted
//! certificates, then among those that the peer sent. The work is bounded by [`DEPTH_MAX`]: one signature per step.

use std::sync::Arc;

use super::constraints::{self, CommonName};
use super::errors::Code;
use super::host;
use super::signature::{self, Checked};
use super::trust::{Crls, TrustStore};
use crate::ocsp::{OcspResponse, Status};
use crate::x509::{Certificate, Crl, name, usage};

/// The longest path, the leaf and the root counted.
pub const DEPTH_MAX: usize = 32;

/// How many certificates beyond the leaf a peer may send that are looked at.
pub const SENT_MAX: usize = 64;

/// How many issuers of the same name are looked at, at each step.
const SAME_NAME_MAX: usize = 8;

/// How many signatures are checked to tell issuers of the same name apart, for one chain. A peer that is nobody yet can
/// send dozens of certificates that all might have signed each other, each with a large key.
const TRIALS_MAX: usize = 32;

/// What a certificate is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The peer is a client.
    Client,
    /// The peer is a server.
    Server,
}

/// What a chain is held to.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub trust: &'a TrustStore,
    /// None: nothing was configured, revocation is not checked. Some: every certificate of the path needs a list.
    pub crls: Option<&'a Crls>,
    pub purpose: Purpose,
    /// Seconds since 1970.
    pub now: i64,
    /// The name that the leaf must bear.
    pub host: Option<&'a [u8]>,
    /// The OCSP response that the peer stapled, empty without one. None: it was not asked for one.
    pub stapled: Option<&'a [u8]>,
}

/// Verifies what a peer sent, its own certificate first. `accept` is asked for each error, with the depth it was found at
/// (0 is the leaf), whether to go on; the first that it does not accept ends the verification and is returned.
pub fn verify(
    sent: &[Arc<Certificate>],
    request: &Request<'_>,
    accept: &mut dyn FnMut(usize, Code) -> bool,
) -> Result<(), Code> {
    verify_path(sent, request, accept).0
}

/// The same, and the path that was found, however far it went: the peer's certificate first, the root last.
pub fn verify_path(
    sent: &[Arc<Certificate>],
    request: &Request<'_>,
    accept: &mut dyn FnMut(usize, Code) -> bool,
) -> (Result<(), Code>, Vec<Arc<Certificate>>) {
    let Some(leaf) = sent.first() else { return (Err(Code(1)), Vec::new()) };
    let mut walk = Walk { request, accept, path: vec![leaf.clone()], trials: TRIALS_MAX };
    (check(&mut walk, sent), walk.path)
}

fn check(walk: &mut Walk<'_>, sent: &[Arc<Certificate>]) -> Result<(), Code> {
    let (leaf, request) = (&sent[0], walk.request);
    walk.build(&sent[1..])?;
    walk.extensions()?;
    walk.strengths()?;
    if let Some(name) = request.host
        && !host::matches(leaf, name)
    {
        walk.fail(0, Code::WRONG_HOST)?;
    }
    if let Some(crls) = request.crls {
        for depth in 0..walk.path.len() {
            if let Err(code) = walk.revocation(crls, depth) {
                walk.fail(depth, code)?;
            }
        }
    }
    walk.signatures_and_times()?;
    walk.constraints()?;
    request.stapled.map_or(Ok(()), |response| walk.staple(response))
}

struct Walk<'a> {
    request: &'a Request<'a>,
    accept: &'a mut dyn FnMut(usize, Code) -> bool,
    path: Vec<Arc<Certificate>>,
    /// How many more signatures may be checked to choose between issuers.
    trials: usize,
}

impl Walk<'_> {
    fn fail(&mut self, depth: usize, code: Code) -> Result<(), Code> {
        if (self.accept)(depth, code) { Ok(()) } else { Err(code) }
    }

    fn build(&mut self, sent: &[Arc<Certificate>]) -> Result<(), Code> {
        let mut sent: Vec<&Arc<Certificate>> = sent.iter().take(SENT_MAX).collect();
        let mut has_trusted = false;
        let trust = self.request.trust;
        loop {
            let top = self.path.len() - 1;
            let current = self.path[top].clone();
            if is_self_signed(&current) {
                if has_trusted || trust.contains(&current) {
                    return Ok(());
                }
                let code = if top == 0 { Code::SELF_SIGNED_LEAF } else { Code::SELF_SIGNED_IN_CHAIN };
                return self.fail(top, code);
            }
            if self.path.len() == DEPTH_MAX {
                return self.fail(top, Code::CHAIN_TOO_LONG);
            }
            if let Some(issuer) = self.issuer_among(trust.named(current.issuer()), &current) {
                has_trusted = true;
                self.path.push(issuer);
            } else if !has_trusted && let Some(issuer) = self.issuer_among(sent.iter().copied(), &current) {
                sent.retain(|certificate| !Arc::ptr_eq(certificate, &issuer));
                self.path.push(issuer);
            } else {
                let code = if has_trusted { Code::NO_ISSUER } else { Code::NO_LOCAL_ISSUER };
                return self.fail(top, code);
            }
        }
    }

    /// The best issuer of `current` among these: its name and key identifier fit; preferably it
    /// did sign, may sign and is in force. A certificate that is in the path already is no candidate, or two that signed each other would
    /// make a loop.
    fn issuer_among<'c>(
        &mut self,
        candidates: impl Iterator<Item = &'c Arc<Certificate>>,
        current: &Certificate,
    ) -> Option<Arc<Certificate>> {
        let fitting: Vec<&Arc<Certificate>> = candidates
            .filter(|candidate| may_have_issued(candidate, current))
            .filter(|candidate| !self.path.iter().any(|member| member.der() == candidate.der()))
            .take(SAME_NAME_MAX)
            .collect();
        if let [only] = fitting[..] {
            return Some(only.clone());
        }
        let now = self.request.now;
        // The first of equals, as they stand in their file.
        let mut best = None;
        for candidate in fitting {
            let has_signed = self.trials > 0 && {
                self.trials -= 1;
                signed_by(current, candidate) == Checked::Good
            };
            let may_sign = candidate.key_usage.is_none_or(|bits| bits & usage::KEY_CERT_SIGN != 0);
            let rank = (has_signed, may_sign, (candidate.not_before..=candidate.not_after).contains(&now));
            if best.is_none_or(|(other, _): ((bool, bool, bool), _)| rank > other) {
                best = Some((rank, candidate));
            }
        }
        best.map(|(_, candidate)| candidate.clone())
    }

    fn extensions(&mut self) -> Result<(), Code> {
        let mut below = 0;
        for depth in 0..self.path.len() {
            let certificate = self.path[depth].clone();
            if certificate.unknown_critical {
                self.fail(depth, Code::UNKNOWN_CRITICAL)?;
            }
            let is_top = depth + 1 == self.path.len();
            if depth > 0 && !may_be_ca(&certificate, is_top) {
                self.fail(depth, Code::INVALID_CA)?;
            }
            if !fits_purpose(&certificate, self.request.purpose, depth > 0) {
                self.fail(depth, Code::WRONG_PURPOSE)?;
            }
            if depth > 0 {
                if let Some((_, Some(length))) = certificate.basic
                    && below > length
                {
                    self.fail(depth, Code::PATH_TOO_LONG)?;
                }
                if !certificate.is_self_issued() {
                    below += 1;
                }
            }
        }
        Ok(())
    }

    /// What the issuer says of the leaf by a response that the peer brings. Nobody has to bring one, unless the certificate says that
    /// it is not to be believed without (RFC 7633).
    fn staple(&mut self, response: &[u8]) -> Result<(), Code> {
        let (leaf, now) = (self.path[0].clone(), self.request.now);
        let issuer = self.path.get(1).map(|issuer| &**issuer);
        let read = OcspResponse::parse(response).ok();
        let believed = read.filter(|response| response.is_believed(&leaf, issuer, now));
        match believed {
            Some(OcspResponse { status: Status::Revoked, .. }) => self.fail(0, Code::REVOKED),
            // One that has no end could be shown for ever.
            Some(OcspResponse { status: Status::Good, next_update: Some(_), .. }) => Ok(()),
            _ if !leaf.must_staple => Ok(()),
            _ if response.is_empty() => self.fail(0, Code::NOT_STAPLED),
            _ => self.fail(0, Code::STAPLE_UNFIT),
        }
    }

    /// Keys of fewer than 112 bits of security, and digests that can be forged.
    fn strengths(&mut self) -> Result<(), Code> {
        for depth in 0..self.path.len() {
            let certificate = self.path[depth].clone();
            let size = certificate.key_size();
            let is_rsa = certificate.key_algorithm_name() == "rsaEncryption";
            if is_rsa && size < 2048 {
                self.fail(depth, if depth == 0 { Code::WEAK_LEAF_KEY } else { Code::WEAK_CA_KEY })?;
            }
            // Nobody relies on what a root says of itself.
            let is_root = depth + 1 == self.path.len() && is_self_signed(&certificate);
            let algorithm = certificate.signature_algorithm_name();
            if !is_root && (algorithm.ends_with("SHA1") || algorithm.ends_with("MD5")) {
                self.fail(depth, Code::WEAK_DIGEST)?;
            }
        }
        Ok(())
    }

    fn revocation(&self, crls: &Crls, depth: usize) -> Result<(), Code> {
        let certificate = &self.path[depth];
        let issuer = self.path.get(depth + 1).unwrap_or(certificate);
        // An authority that changed its key has lists of both under one name: the first that counts is the one, and if
        // none does, the first tells why.
        let mut why = Code::NO_CRL;
        for crl in crls.of(certificate.issuer(), self.request.now).into_iter().take(SAME_NAME_MAX) {
            match self.crl_counts(crl, issuer) {
                // Reason 8 takes an entry back.
                Ok(()) => match crl.revoked(certificate.serial()) {
                    Some(entry) if entry.reason != Some(8) => return Err(Code::REVOKED),
                    _ => return Ok(()),
                },
                Err(code) if why == Code::NO_CRL => why = code,
                Err(_) => {}
            }
        }
        Err(why)
    }

    fn crl_counts(&self, crl: &Crl, issuer: &Certificate) -> Result<(), Code> {
        let now = self.request.now;
        if name::canonical(issuer.subject()) != name::canonical(crl.issuer()) {
            return Err(Code(33));
        }
        if issuer.key_usage.is_some_and(|bits| bits & usage::CRL_SIGN == 0) {
            return Err(Code::NO_CRL_SIGN);
        }
        if crl.this_update > now {
            return Err(Code::CRL_NOT_YET_VALID);
        }
        if crl.next_update.is_some_and(|next| next < now) {
            return Err(Code::CRL_EXPIRED);
        }
        if crl.unknown_critical {
            return Err(Code::UNKNOWN_CRITICAL_CRL);
        }
        match signature::check_list(issuer, crl) {
            Checked::Good => Ok(()),
            Checked::Bad | Checked::Unsupported => Err(Code::BAD_CRL_SIGNATURE),
        }
    }

    /// From the top down: each certificate's signature by the one above it, then whether it is in force.
    fn signatures_and_times(&mut self) -> Result<(), Code> {
        for depth in (0..self.path.len()).rev() {
            let certificate = self.path[depth].clone();
            match self.path.get(depth + 1).cloned() {
                Some(issuer) => match signed_by(&certificate, &issuer) {
                    Checked::Good => {}
                    Checked::Bad => self.fail(depth, Code::BAD_SIGNATURE)?,
                    Checked::Unsupported => self.fail(depth, Code::UNKNOWN_SIGNATURE)?,
                },
                // An issuer that is missing was accepted: the leaf at least shall be known to be unverified.
                None if depth == 0 && !is_self_signed(&certificate) => self.fail(0, Code::UNVERIFIED_LEAF)?,
                None => {}
            }
            if certificate.not_before > self.request.now {
                self.fail(depth, Code::NOT_YET_VALID)?;
            }
            if certificate.not_after < self.request.now {
                self.fail(depth, Code::EXPIRED)?;
            }
        }
        Ok(())
    }

    /// From the top down, as OpenSSL finds them.
    fn constraints(&mut self) -> Result<(), Code> {
        for depth in (0..self.path.len()).rev() {
            let certificate = self.path[depth].clone();
            if depth > 0 && certificate.is_self_issued() {
                continue;
            }
            let common_name = match (depth, self.request.host) {
                (0, None) => CommonName::IfHost,
                (0, Some(_)) => CommonName::IsHost,
                _ => CommonName::IsText,
            };
            for above in (depth + 1..self.path.len()).rev() {
                if let Err(code) = constraints::check(&self.path[above].clone(), &certificate, common_name) {
                    self.fail(depth, code)?;
                }
            }
        }
        Ok(())
    }
}

/// Issued under its own name and, as far as it says, by its own key.
fn is_self_signed(certificate: &Certificate) -> bool {
    certificate.is_self_issued()
        && match (certificate.authority_key_id(), certificate.subject_key_id()) {
            (Some(authority), Some(subject)) => authority == subject,
            _ => true,
        }
}

fn may_have_issued(issuer: &Certificate, certificate: &Certificate) -> bool {
    let ids_fit = match (certificate.authority_key_id(), issuer.subject_key_id()) {
        (Some(authority), Some(subject)) => authority == subject,
        _ => true,
    };
    ids_fit && name::canonical(issuer.subject()) == name::canonical(certificate.issuer())
}

fn signed_by(certificate: &Certificate, issuer: &Certificate) -> Checked {
    let algorithm = certificate.signature_algorithm();
    signature::check(issuer, algorithm, certificate.signed_part(), certificate.signature())
}

/// Basic constraints say "CA", and the key usage does not say otherwise. At the top of the path a certificate may be as old
/// as version 1, if it signed itself.
fn may_be_ca(certificate: &Certificate, is_top: bool) -> bool {
    if certificate.key_usage.is_some_and(|bits| bits & usage::KEY_CERT_SIGN == 0) {
        return false;
    }
    match certificate.basic {
        Some((is_ca, _)) => is_ca,
        None if !is_top => false,
        None => (certificate.version == 1 && certificate.is_self_issued()) || certificate.key_usage.is_some(),
    }
}

fn fits_purpose(certificate: &Certificate, purpose: Purpose, is_ca: bool) -> bool {
    // The old extension of Netscape's: bits for a client, a server, and a CA of either. It speaks of a CA that nothing newer
    // speaks of.
    let counts = !is_ca || (certificate.basic.is_none() && certificate.key_usage.is_none());
    let old = match (is_ca, purpose) {
        (true, _) => 0x04,
        (false, Purpose::Client) => 0x80,
        (false, Purpose::Server) => 0x40,
    };
    if counts && certificate.netscape_type.is_some_and(|bits| bits & old == 0) {
        return false;
    }
    let extended_fits = certificate.extended_usage.is_none_or(|extended| match purpose {
        Purpose::Client => extended.client,
        Purpose::Server => extended.server,
    });
    let wanted = match purpose {
        _ if is_ca => return extended_fits,
        Purpose::Client => usage::DIGITAL_SIGNATURE | usage::KEY_AGREEMENT,
        Purpose::Server => usage::DIGITAL_SIGNATURE | usage::KEY_AGREEMENT | usage::KEY_ENCIPHERMENT,
    };
    extended_fits && certificate.key_usage.is_none_or(|bits| bits & wanted != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::x509::make::{MadeKey, NewKey, Template};
    use crate::x509::oid::extension;

    /// Certificates of one name, half of which might have signed the other half and the other way round.
    #[test]
    fn certificates_that_all_might_have_signed_each_other_cost_few_signatures() {
        let key = MadeKey::generate(NewKey::P256).unwrap();
        let made = |own: u8, issuer: u8| {
            let id = |byte: u8| vec![4, 1, byte];
            let template = Template::new("CA", 0, 1_000)
                .ca(None)
                .extension(extension::SUBJECT_KEY_ID, false, &id(own))
                .extension(extension::AUTHORITY_KEY_ID, false, &[0x30, 3, 0x80, 1, issuer]);
            let der = template.sign(&key, &template.subject.clone(), &key).unwrap();
            Arc::new(Certificate::parse(&der).unwrap())
        };
        let sent: Vec<_> = (0..60).map(|number| made(number % 2, (number + 1) % 2)).collect();
        let trust = TrustStore::default();
        let request = Request {
            trust: &trust,
            crls: None,
            purpose: Purpose::Server,
            now: 500,
            host: None,
            stapled: None,
        };
        let mut accept = |_: usize, _: Code| false;
        let path = vec![sent[0].clone()];
        let mut walk = Walk { request: &request, accept: &mut accept, path, trials: TRIALS_MAX };
        assert_eq!(walk.build(&sent[1..]), Err(Code::CHAIN_TOO_LONG));
        assert_eq!(walk.trials, 0, "and not one more");
    }
}
