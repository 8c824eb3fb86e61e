//! Certificate revocation lists (RFC 5280 section 5): who issued it, until when it counts, which serials it names.

use std::sync::OnceLock;

use super::Certificate;
use super::certificate::Span;
use super::oid::extension;
use super::time;
use crate::der::{Malformed, Reader, tag};

/// The largest list that is read, in bytes.
pub const CRL_MAX: usize = 256 * 1024 * 1024;

/// One revoked certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revocation {
    serial: Span,
    pub at: time::Seconds,
    /// The reason's number, when the entry gives one.
    pub reason: Option<u32>,
}

/// A parsed list. It owns its bytes.
#[derive(Clone)]
pub struct Crl {
    der: Box<[u8]>,
    pub version: u32,
    pub this_update: time::Seconds,
    pub next_update: Option<time::Seconds>,
    /// A critical extension is unknown, so what the list says cannot be relied on.
    pub unknown_critical: bool,
    issuer: Span,
    tbs: Span,
    signature_algorithm: Span,
    signature: Span,
    /// Sorted by serial.
    revoked: Vec<Revocation>,
    /// The key that was found to have signed it. Lists are large, and each handshake with a client's certificate asks.
    signer: OnceLock<Box<[u8]>>,
}

impl Crl {
    /// As it was read.
    pub(crate) fn der(&self) -> &[u8] {
        &self.der
    }

    /// Reads one list, all of `der`.
    pub fn parse(der: &[u8]) -> Result<Crl, Malformed> {
        if der.len() > CRL_MAX {
            return Err(Malformed);
        }
        let mut outer = Reader::new(der);
        let mut list = outer.inside(tag::SEQUENCE)?;
        outer.end()?;
        let tbs = list.expect(tag::SEQUENCE)?;
        let algorithm = list.expect(tag::SEQUENCE)?;
        let signature = list.bits()?;
        list.end()?;
        let mut fields = Reader::new(tbs.content);
        let version = match fields.peek() {
            Some(tag::INTEGER) => fields.small()? + 1,
            _ => 1,
        };
        if version > 2 || fields.expect(tag::SEQUENCE)?.whole != algorithm.whole {
            return Err(Malformed);
        }
        let issuer = fields.expect(tag::SEQUENCE)?;
        super::name::attributes(issuer.whole)?;
        let this_update = time::parse(&fields.value()?)?;
        let next_update = match fields.peek() {
            Some(tag::UTC_TIME | tag::GENERALIZED_TIME) => Some(time::parse(&fields.value()?)?),
            _ => None,
        };
        let mut crl = Crl {
            der: der.into(),
            version,
            this_update,
            next_update,
            unknown_critical: false,
            issuer: Span::of(der, issuer.whole),
            tbs: Span::of(der, tbs.whole),
            signature_algorithm: Span::of(der, algorithm.content),
            signature: Span::of(der, signature),
            revoked: Vec::new(),
            signer: OnceLock::new(),
        };
        if let Some(entries) = fields.optional(tag::SEQUENCE)? {
            crl.entries(der, entries.content)?;
        }
        if let Some(extensions) = fields.optional(tag::explicit(0))? {
            crl.extensions(extensions.content)?;
        }
        fields.end()?;
        crl.revoked.sort_by(|a, b| a.serial.in_bytes(der).cmp(b.serial.in_bytes(der)));
        Ok(crl)
    }

    /// Whether it is known that the owner of this certificate signed it.
    pub fn is_known_of(&self, signer: &Certificate) -> bool {
        self.signer.get().is_some_and(|key| **key == *signer.key_info())
    }

    /// The owner of this certificate signed it: the check need not be made again.
    pub fn note_signer(&self, signer: &Certificate) {
        self.signer.get_or_init(|| signer.key_info().into());
    }

    fn entries(&mut self, der: &[u8], content: &[u8]) -> Result<(), Malformed> {
        let mut list = Reader::new(content);
        while !list.is_empty() {
            let mut entry = list.inside(tag::SEQUENCE)?;
            let serial = entry.expect(tag::INTEGER)?.content;
            if !crate::der::is_minimal(serial) {
                return Err(Malformed);
            }
            let serial = Span::of(der, serial);
            let at = time::parse(&entry.value()?)?;
            let mut reason = None;
            if let Some(extensions) = entry.optional(tag::SEQUENCE)? {
                let mut extensions = Reader::new(extensions.content);
                while !extensions.is_empty() {
                    let (id, critical, value) = extension(&mut extensions)?;
                    if id == extension::CRL_REASON {
                        reason = Reader::new(value)
                            .expect(tag::ENUMERATED)
                            .and_then(|value| crate::der::small(value.content))
                            .ok();
                    } else if critical {
                        // An indirect list names another issuer here. Not understood: then the list is none.
                        self.unknown_critical = true;
                    }
                }
            }
            entry.end()?;
            self.revoked.push(Revocation { serial, at, reason });
        }
        Ok(())
    }

    fn extensions(&mut self, content: &[u8]) -> Result<(), Malformed> {
        let mut outer = Reader::new(content);
        let mut list = outer.inside(tag::SEQUENCE)?;
        outer.end()?;
        while !list.is_empty() {
            let (id, critical, _) = extension(&mut list)?;
            self.unknown_critical |= critical
                && !matches!(
                    id,
                    extension::AUTHORITY_KEY_ID | extension::CRL_NUMBER | extension::ISSUER_ALT_NAME
                );
        }
        Ok(())
    }

    /// The whole Name of its issuer.
    pub fn issuer(&self) -> &[u8] {
        self.issuer.in_bytes(&self.der)
    }

    pub fn signed_part(&self) -> &[u8] {
        self.tbs.in_bytes(&self.der)
    }

    /// The content of the signature's AlgorithmIdentifier.
    pub fn signature_algorithm(&self) -> &[u8] {
        self.signature_algorithm.in_bytes(&self.der)
    }

    /// The algorithm's long name, as OpenSSL prints it.
    pub fn signature_algorithm_name(&self) -> String {
        let id = Reader::new(self.signature_algorithm()).expect(tag::OID).map_or(&[][..], |id| id.content);
        super::oid::long_algorithm(id)
    }

    pub fn signature(&self) -> &[u8] {
        self.signature.in_bytes(&self.der)
    }

    /// The entry of a certificate's serial, if it was revoked.
    pub fn revoked(&self, serial: &[u8]) -> Option<&Revocation> {
        let at = self.revoked.binary_search_by(|entry| entry.serial.in_bytes(&self.der).cmp(serial)).ok()?;
        Some(&self.revoked[at])
    }

    /// All entries, sorted by serial: the serial's octets and the entry.
    pub fn entries_by_serial(&self) -> impl Iterator<Item = (&[u8], &Revocation)> {
        self.revoked.iter().map(|entry| (entry.serial.in_bytes(&self.der), entry))
    }
}

fn extension<'a>(list: &mut Reader<'a>) -> Result<(&'a [u8], bool, &'a [u8]), Malformed> {
    let mut one = list.inside(tag::SEQUENCE)?;
    let id = one.expect(tag::OID)?.content;
    let critical = one.boolean_or(false)?;
    let value = one.expect(tag::OCTET_STRING)?.content;
    one.end()?;
    Ok((id, critical, value))
}
