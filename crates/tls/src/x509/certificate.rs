//! A certificate: what the handshake, the verifier and the sample fetches need of it, read once.

use super::oid::{self, extension, purpose};
use super::{name, time};
use crate::der::{self, Malformed, Reader, Value, tag};

/// The largest certificate that is read, in bytes. A TLS handshake message cannot be much larger, and nobody's is.
pub const CERTIFICATE_MAX: usize = 64 * 1024;

/// A part of a certificate's bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    start: u32,
    end: u32,
}

/// Purposes of the extension "extended key usage" that matter here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtendedUsage {
    pub server: bool,
    pub client: bool,
    pub ocsp: bool,
    pub any: bool,
}

/// Bits of the extension "key usage".
pub mod usage {
    pub const DIGITAL_SIGNATURE: u16 = 1 << 15;
    pub const KEY_ENCIPHERMENT: u16 = 1 << 13;
    pub const KEY_AGREEMENT: u16 = 1 << 11;
    pub const KEY_CERT_SIGN: u16 = 1 << 10;
    pub const CRL_SIGN: u16 = 1 << 9;
}

/// A parsed certificate. It owns its bytes; everything else says where in them a field is.
#[derive(Clone)]
pub struct Certificate {
    der: Box<[u8]>,
    /// 1, 2 or 3.
    pub version: u32,
    pub not_before: time::Seconds,
    pub not_after: time::Seconds,
    /// The extension "basic constraints": whether it is a CA, and how many CAs may be below it.
    pub basic: Option<(bool, Option<u32>)>,
    pub key_usage: Option<u16>,
    pub extended_usage: Option<ExtendedUsage>,
    /// The bits of Netscape's extension "certificate type".
    pub netscape_type: Option<u8>,
    /// A critical extension is one that this program does not know, or knows and cannot honour.
    pub unknown_critical: bool,
    /// The TLS feature "status_request" (RFC 7633): the certificate is to be served with an OCSP response only.
    pub must_staple: bool,
    tbs: Span,
    serial: Span,
    issuer: Span,
    subject: Span,
    not_before_text: (u8, Span),
    not_after_text: (u8, Span),
    key_info: Span,
    key_algorithm: Span,
    key_bits: Span,
    signature_algorithm: Span,
    signature: Span,
    alternative_names: Option<Span>,
    name_constraints: Option<Span>,
    policies: Option<Span>,
    subject_key_id: Option<Span>,
    authority_key_id: Option<Span>,
    information_access: Option<Span>,
}

impl std::fmt::Debug for Certificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Certificate({})", String::from_utf8_lossy(&self.subject_oneline()))
    }
}

impl Certificate {
    /// Reads one certificate, all of `der`.
    pub fn parse(der: &[u8]) -> Result<Certificate, Malformed> {
        if der.len() > CERTIFICATE_MAX {
            return Err(Malformed);
        }
        let span = |part: &[u8]| Span::of(der, part);
        let mut outer = Reader::new(der);
        let mut certificate = outer.inside(tag::SEQUENCE)?;
        outer.end()?;
        let tbs = certificate.expect(tag::SEQUENCE)?;
        let outer_algorithm = certificate.expect(tag::SEQUENCE)?;
        let signature = certificate.bits()?;
        certificate.end()?;

        let mut fields = Reader::new(tbs.content);
        let version = version(&mut fields)?;
        let serial = fields.expect(tag::INTEGER)?;
        let inner_algorithm = fields.expect(tag::SEQUENCE)?;
        if inner_algorithm.whole != outer_algorithm.whole || !der::is_minimal(serial.content) {
            return Err(Malformed);
        }
        let issuer = fields.expect(tag::SEQUENCE)?;
        let mut validity = fields.inside(tag::SEQUENCE)?;
        let (not_before, not_after) = (validity.value()?, validity.value()?);
        validity.end()?;
        let subject = fields.expect(tag::SEQUENCE)?;
        let key_info = fields.expect(tag::SEQUENCE)?;
        let mut key = Reader::new(key_info.content);
        let key_algorithm = key.expect(tag::SEQUENCE)?;
        let key_bits = key.bits()?;
        key.end()?;
        name::attributes(issuer.whole)?;
        name::attributes(subject.whole)?;

        let mut parsed = Certificate {
            der: der.into(),
            version,
            not_before: time::parse(&not_before)?,
            not_after: time::parse(&not_after)?,
            basic: None,
            key_usage: None,
            extended_usage: None,
            netscape_type: None,
            unknown_critical: false,
            must_staple: false,
            tbs: span(tbs.whole),
            serial: span(serial.content),
            issuer: span(issuer.whole),
            subject: span(subject.whole),
            not_before_text: (not_before.tag, span(not_before.content)),
            not_after_text: (not_after.tag, span(not_after.content)),
            key_info: span(key_info.whole),
            key_algorithm: span(key_algorithm.content),
            key_bits: span(key_bits),
            signature_algorithm: span(outer_algorithm.content),
            signature: span(signature),
            alternative_names: None,
            name_constraints: None,
            policies: None,
            subject_key_id: None,
            authority_key_id: None,
            information_access: None,
        };
        // Unique identifiers of version 2: read over.
        fields.optional(tag::context(1))?;
        fields.optional(tag::context(2))?;
        if let Some(extensions) = fields.optional(tag::explicit(3))? {
            if version != 3 {
                return Err(Malformed);
            }
            parsed.extensions(der, extensions.content)?;
        }
        fields.end()?;
        Ok(parsed)
    }

    fn extensions(&mut self, der: &[u8], content: &[u8]) -> Result<(), Malformed> {
        let mut outer = Reader::new(content);
        let mut list = outer.inside(tag::SEQUENCE)?;
        outer.end()?;
        let mut seen: Vec<&[u8]> = Vec::new();
        while !list.is_empty() {
            let mut one = list.inside(tag::SEQUENCE)?;
            let id = one.expect(tag::OID)?.content;
            let critical = one.boolean_or(false)?;
            let value = one.expect(tag::OCTET_STRING)?.content;
            one.end()?;
            // An extension must not come twice (RFC 5280 section 4.2): which one would count?
            if seen.contains(&id) {
                return Err(Malformed);
            }
            seen.push(id);
            if !self.extension(der, id, value)? && critical {
                self.unknown_critical = true;
            }
        }
        Ok(())
    }

    /// Takes note of one extension; says whether it is one that is honoured.
    fn extension(&mut self, der: &[u8], id: &[u8], value: &[u8]) -> Result<bool, Malformed> {
        let span = Some(Span::of(der, value));
        match id {
            extension::BASIC_CONSTRAINTS => {
                let mut inner = sequence(value)?;
                let is_ca = inner.boolean_or(false)?;
                let length = if inner.is_empty() { None } else { Some(inner.small()?) };
                inner.end()?;
                self.basic = Some((is_ca, length));
            }
            extension::KEY_USAGE => match Reader::new(value).expect(tag::BIT_STRING)?.content {
                [0..=7, bits @ ..] => {
                    let high = bits.first().copied().unwrap_or(0);
                    let low = bits.get(1).copied().unwrap_or(0);
                    self.key_usage = Some(u16::from_be_bytes([high, low]));
                }
                _ => return Err(Malformed),
            },
            extension::EXTENDED_KEY_USAGE => {
                let mut inner = sequence(value)?;
                let mut usage = ExtendedUsage::default();
                while !inner.is_empty() {
                    match inner.expect(tag::OID)?.content {
                        purpose::SERVER_AUTH => usage.server = true,
                        purpose::CLIENT_AUTH => usage.client = true,
                        purpose::OCSP_SIGNING => usage.ocsp = true,
                        purpose::ANY => usage.any = true,
                        _ => {}
                    }
                }
                self.extended_usage = Some(usage);
            }
            extension::TLS_FEATURE => {
                let mut inner = sequence(value)?;
                while !inner.is_empty() {
                    // 5 is status_request.
                    self.must_staple |= inner.small()? == 5;
                }
            }
            extension::SUBJECT_ALT_NAME => self.alternative_names = span,
            extension::NAME_CONSTRAINTS => self.name_constraints = span,
            extension::POLICIES => self.policies = span,
            extension::SUBJECT_KEY_ID => {
                let content = Reader::new(value).expect(tag::OCTET_STRING)?.content;
                self.subject_key_id = Some(Span::of(der, content));
            }
            extension::AUTHORITY_KEY_ID => {
                if let Some(id) = sequence(value)?.optional(tag::context(0))? {
                    self.authority_key_id = Some(Span::of(der, id.content));
                }
            }
            extension::AUTHORITY_INFO_ACCESS => self.information_access = span,
            // Known, and without a consequence here: policies are not asked for by any configuration.
            extension::CRL_DISTRIBUTION_POINTS
            | extension::POLICY_MAPPINGS
            | extension::POLICY_CONSTRAINTS
            | extension::INHIBIT_ANY_POLICY
            | extension::ISSUER_ALT_NAME => {}
            extension::NETSCAPE_CERT_TYPE => match Reader::new(value).expect(tag::BIT_STRING)?.content {
                [0..=7, bits @ ..] => self.netscape_type = Some(bits.first().copied().unwrap_or(0)),
                _ => return Err(Malformed),
            },
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The whole certificate.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// What its issuer signed.
    pub fn signed_part(&self) -> &[u8] {
        self.part(self.tbs)
    }

    /// The serial number's octets as encoded, two's complement.
    pub fn serial(&self) -> &[u8] {
        self.part(self.serial)
    }

    /// The serial number as `ssl_c_serial` gives it: without the zero that makes a large number positive.
    pub fn serial_digits(&self) -> &[u8] {
        match self.serial() {
            [0, rest @ ..] if !rest.is_empty() => rest,
            all => all,
        }
    }

    /// The whole Name of its issuer.
    pub fn issuer(&self) -> &[u8] {
        self.part(self.issuer)
    }

    /// The whole Name of its subject.
    pub fn subject(&self) -> &[u8] {
        self.part(self.subject)
    }

    pub fn subject_oneline(&self) -> Vec<u8> {
        name::oneline(self.subject())
    }

    pub fn issuer_oneline(&self) -> Vec<u8> {
        name::oneline(self.issuer())
    }

    /// Issuer and subject are the same name: a root, or one that signed itself.
    pub fn is_self_issued(&self) -> bool {
        self.issuer() == self.subject() || name::canonical(self.issuer()) == name::canonical(self.subject())
    }

    /// `notBefore` as `ssl_c_notbefore` prints it.
    pub fn not_before_short(&self) -> Vec<u8> {
        let (tag, span) = self.not_before_text;
        time::short(&Value { tag, content: self.part(span), whole: &[] })
    }

    /// `notAfter` as `ssl_c_notafter` prints it.
    pub fn not_after_short(&self) -> Vec<u8> {
        let (tag, span) = self.not_after_text;
        time::short(&Value { tag, content: self.part(span), whole: &[] })
    }

    /// The whole SubjectPublicKeyInfo.
    pub fn key_info(&self) -> &[u8] {
        self.part(self.key_info)
    }

    /// The content of the key's AlgorithmIdentifier: its type, and the curve of an elliptic one.
    pub fn key_algorithm(&self) -> &[u8] {
        self.part(self.key_algorithm)
    }

    /// The public key itself.
    pub fn key_bits(&self) -> &[u8] {
        self.part(self.key_bits)
    }

    /// The content octets of the key's type.
    pub fn key_type(&self) -> &[u8] {
        Reader::new(self.key_algorithm()).expect(tag::OID).map_or(&[], |id| id.content)
    }

    /// `ssl_c_key_alg`: `rsaEncryption`, `id-ecPublicKey` ...
    pub fn key_algorithm_name(&self) -> String {
        named(self.key_type())
    }

    /// Kind and size of the key as `show ssl cert` and PROXY headers (`cert-key`) have it: `RSA2048`, `EC256`; other keys have no
    /// such name.
    pub fn key_kind_and_size(&self) -> Option<String> {
        let kind = match self.key_type() {
            oid::RSA_ENCRYPTION => "RSA",
            oid::EC_PUBLIC_KEY => "EC",
            _ => return None,
        };
        Some(format!("{kind}{}", self.key_size()))
    }

    /// The content of the signature's AlgorithmIdentifier.
    pub fn signature_algorithm(&self) -> &[u8] {
        self.part(self.signature_algorithm)
    }

    /// `ssl_c_sig_alg`: `RSA-SHA256`, `ecdsa-with-SHA384` ...
    pub fn signature_algorithm_name(&self) -> String {
        named(Reader::new(self.signature_algorithm()).expect(tag::OID).map_or(&[], |id| id.content))
    }

    pub fn signature(&self) -> &[u8] {
        self.part(self.signature)
    }

    /// The bits of an RSA modulus, of a curve's field, or of another key; 0 when unknown.
    pub fn key_size(&self) -> usize {
        match self.key_type() {
            oid::RSA_ENCRYPTION | oid::RSA_PSS => rsa_bits(self.key_bits()).unwrap_or(0),
            oid::EC_PUBLIC_KEY => match self.key_bits().len() {
                65 => 256,
                97 => 384,
                133 => 521,
                57 => 224,
                _ => 0,
            },
            b"\x2b\x65\x70" => 256,
            b"\x2b\x65\x71" => 456,
            _ => 0,
        }
    }

    /// The content of the extension "subject alternative name", if there is one.
    pub fn alternative_names(&self) -> Option<&[u8]> {
        self.alternative_names.map(|span| self.part(span))
    }

    /// Its general names in order: tag and content.
    pub fn general_names(&self) -> Vec<Value<'_>> {
        let mut found = Vec::new();
        if let Some(mut list) = self.alternative_names().and_then(|value| sequence(value).ok()) {
            while let (false, Ok(value)) = (list.is_empty(), list.value()) {
                found.push(value);
            }
        }
        found
    }

    /// The DNS names among them.
    pub fn dns_names(&self) -> impl Iterator<Item = &[u8]> {
        self.general_names()
            .into_iter()
            .filter(|value| value.tag == tag::context(2))
            .map(|value| value.content)
    }

    pub fn name_constraints(&self) -> Option<&[u8]> {
        self.name_constraints.map(|span| self.part(span))
    }

    pub fn subject_key_id(&self) -> Option<&[u8]> {
        self.subject_key_id.map(|span| self.part(span))
    }

    pub fn authority_key_id(&self) -> Option<&[u8]> {
        self.authority_key_id.map(|span| self.part(span))
    }

    /// The identifiers of its policies, in dots.
    pub fn policies(&self) -> Vec<String> {
        let mut found = Vec::new();
        if let Some(mut list) = self.policies.and_then(|span| sequence(self.part(span)).ok()) {
            while let (false, Ok(mut one)) = (list.is_empty(), list.inside(tag::SEQUENCE)) {
                if let Ok(id) = one.expect(tag::OID) {
                    found.push(oid::dotted(id.content));
                }
            }
        }
        found
    }

    /// Where its issuer answers OCSP requests, if the certificate says so.
    pub fn ocsp_uri(&self) -> Option<&str> {
        let mut list = sequence(self.part(self.information_access?)).ok()?;
        while !list.is_empty() {
            let mut one = list.inside(tag::SEQUENCE).ok()?;
            let method = one.expect(tag::OID).ok()?.content;
            let place = one.value().ok()?;
            if method == purpose::OCSP && place.tag == tag::context(6) {
                return std::str::from_utf8(place.content).ok();
            }
        }
        None
    }

    /// Its SHA-1 fingerprint, which `ssl_c_sha1` gives.
    pub fn sha1(&self) -> [u8; 20] {
        digest(&aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY, &self.der)
    }

    /// Its SHA-256 fingerprint.
    pub fn sha256(&self) -> [u8; 32] {
        digest(&aws_lc_rs::digest::SHA256, &self.der)
    }

    fn part(&self, span: Span) -> &[u8] {
        &self.der[span.start as usize..span.end as usize]
    }
}

impl Span {
    /// Where `part`, a slice of `whole`, is in it.
    pub(super) fn of(whole: &[u8], part: &[u8]) -> Span {
        let start = part.as_ptr() as usize - whole.as_ptr() as usize;
        debug_assert!(start + part.len() <= whole.len());
        Span { start: start as u32, end: (start + part.len()) as u32 }
    }

    pub(super) fn in_bytes(self, whole: &[u8]) -> &[u8] {
        &whole[self.start as usize..self.end as usize]
    }
}

/// The version, 1 when it is not said.
fn version(fields: &mut Reader<'_>) -> Result<u32, Malformed> {
    let Some(explicit) = fields.optional(tag::explicit(0))? else { return Ok(1) };
    let mut inner = Reader::new(explicit.content);
    let version = inner.small()?;
    inner.end()?;
    if version > 2 { Err(Malformed) } else { Ok(version + 1) }
}

fn sequence(value: &[u8]) -> Result<Reader<'_>, Malformed> {
    let mut outer = Reader::new(value);
    let inner = outer.inside(tag::SEQUENCE)?;
    outer.end()?;
    Ok(inner)
}

fn named(id: &[u8]) -> String {
    oid::algorithm(id).map_or_else(|| oid::dotted(id), str::to_owned)
}

fn rsa_bits(key: &[u8]) -> Result<usize, Malformed> {
    let modulus = sequence(key)?.expect(der::tag::INTEGER)?.content;
    let digits = modulus.strip_prefix(&[0]).unwrap_or(modulus);
    let first = digits.first().ok_or(Malformed)?;
    Ok(digits.len() * 8 - first.leading_zeros() as usize)
}

fn digest<const N: usize>(algorithm: &'static aws_lc_rs::digest::Algorithm, data: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(aws_lc_rs::digest::digest(algorithm, data).as_ref());
    out
}
