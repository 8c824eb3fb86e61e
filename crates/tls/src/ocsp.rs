//! OCSP responses (RFC 6960) that are stapled: reading them, and whether they are the right ones.

use crate::der::{self, Malformed, Reader, Value, tag};
use crate::verify::{Checked, check_signature};
use crate::x509::oid::{self, purpose};
use crate::x509::{Certificate, name, time};

/// The largest response that is read, in bytes: it must fit into a handshake message.
pub const RESPONSE_MAX: usize = 0xffff - 4;

/// How far clocks may disagree, in seconds; the reference allows five minutes.
const SKEW: i64 = 300;

/// What a response says of the certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Good,
    Revoked,
    Unknown,
}

impl Status {
    /// OpenSSL's word.
    pub fn word(self) -> &'static str {
        match self {
            Status::Good => "good",
            Status::Revoked => "revoked",
            Status::Unknown => "unknown",
        }
    }
}

/// Why a response is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OcspError {
    /// Not an OCSP response.
    Malformed,
    /// The responder said that it cannot answer.
    NotSuccessful,
    /// More or fewer than one certificate is answered for.
    NotSingle,
    /// The answer is about another certificate.
    OtherCertificate,
    /// The responder does not know the certificate.
    Unknown,
    /// Who signed the certificate is not known, so the answer cannot be checked.
    NoIssuer,
    /// The answer's signature is not its issuer's, nor of somebody the issuer appointed.
    BadSignature,
    /// Its time has not come, or is over.
    NotInForce,
}

impl std::fmt::Display for OcspError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            OcspError::Malformed => f.write_str("Unable to parse OCSP response"),
            OcspError::NotSuccessful => f.write_str("OCSP response status not successful"),
            OcspError::NotSingle => {
                f.write_str("OCSP response ignored because contains multiple single responses")
            }
            OcspError::OtherCertificate => {
                f.write_str("OCSP response certificate ID does not match any certificate")
            }
            OcspError::Unknown => f.write_str("OCSP single response: certificate status is unknown"),
            OcspError::NoIssuer => {
                f.write_str("the issuer of the certificate is not known (an '.issuer' file names it)")
            }
            OcspError::BadSignature => f.write_str("OCSP response signature is not valid"),
            OcspError::NotInForce => f.write_str("OCSP response is not valid at this time"),
        }
    }
}

impl std::error::Error for OcspError {}

impl From<Malformed> for OcspError {
    fn from(_: Malformed) -> OcspError {
        OcspError::Malformed
    }
}

/// A response for one certificate.
#[derive(Clone)]
pub struct OcspResponse {
    der: Vec<u8>,
    pub status: Status,
    pub this_update: time::Seconds,
    pub next_update: Option<time::Seconds>,
    pub produced_at: time::Seconds,
    /// When the certificate was revoked, if it was.
    pub revoked_at: Option<time::Seconds>,
    /// Who answers, as OpenSSL prints it.
    responder: String,
    hash: Vec<u8>,
    issuer_name_hash: Vec<u8>,
    issuer_key_hash: Vec<u8>,
    serial: Vec<u8>,
    tbs: Vec<u8>,
    algorithm: Vec<u8>,
    signature: Vec<u8>,
    certificates: Vec<Certificate>,
}

impl std::fmt::Debug for OcspResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OcspResponse({:?})", self.status)
    }
}

impl OcspResponse {
    /// Reads a response in DER, or in base64 as the CLI brings it.
    pub fn read(bytes: &[u8]) -> Result<OcspResponse, OcspError> {
        use base64::Engine;
        if bytes.first() == Some(&tag::SEQUENCE) {
            return OcspResponse::parse(bytes);
        }
        let text: Vec<u8> = bytes.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
        let der = base64::engine::general_purpose::STANDARD.decode(text).map_err(|_| OcspError::Malformed)?;
        OcspResponse::parse(&der)
    }

    /// Reads a response in DER.
    pub fn parse(der: &[u8]) -> Result<OcspResponse, OcspError> {
        if der.len() > RESPONSE_MAX {
            return Err(OcspError::Malformed);
        }
        let mut outer = Reader::new(der);
        let mut response = outer.inside(tag::SEQUENCE)?;
        outer.end()?;
        if response.expect(tag::ENUMERATED)?.content != [0] {
            return Err(OcspError::NotSuccessful);
        }
        let mut bytes = response.inside(tag::explicit(0))?.inside(tag::SEQUENCE)?;
        if bytes.expect(tag::OID)?.content != purpose::OCSP_BASIC {
            return Err(OcspError::Malformed);
        }
        let mut basic = Reader::new(bytes.expect(tag::OCTET_STRING)?.content).inside(tag::SEQUENCE)?;
        let tbs = basic.expect(tag::SEQUENCE)?;
        let algorithm = basic.expect(tag::SEQUENCE)?.content.to_vec();
        let signature = basic.bits()?.to_vec();
        let mut certificates = Vec::new();
        if let Some(list) = basic.optional(tag::explicit(0))? {
            let mut list = Reader::new(list.content).inside(tag::SEQUENCE)?;
            while !list.is_empty() && certificates.len() < 8 {
                certificates.push(Certificate::parse(list.expect(tag::SEQUENCE)?.whole)?);
            }
        }

        let mut data = Reader::new(tbs.content);
        data.optional(tag::explicit(0))?;
        let responder = data.value()?;
        let responder = match responder.tag {
            t if t == tag::explicit(1) => name::spaced(responder.content),
            t if t == tag::explicit(2) => {
                hex(Reader::new(responder.content).expect(tag::OCTET_STRING)?.content)
            }
            _ => return Err(OcspError::Malformed),
        };
        let produced_at = time::parse(&data.value()?)?;
        let mut answers = data.inside(tag::SEQUENCE)?;
        let mut answer = answers.inside(tag::SEQUENCE)?;
        if !answers.is_empty() {
            return Err(OcspError::NotSingle);
        }
        let id = answer.expect(tag::SEQUENCE)?;
        let mut fields = Reader::new(id.content);
        let hash = fields.inside(tag::SEQUENCE)?.expect(tag::OID)?.content.to_vec();
        let issuer_name_hash = fields.expect(tag::OCTET_STRING)?.content.to_vec();
        let issuer_key_hash = fields.expect(tag::OCTET_STRING)?.content.to_vec();
        let serial = fields.expect(tag::INTEGER)?.content.to_vec();
        let status_value = answer.value()?;
        let status = status(&status_value)?;
        let revoked_at = match status {
            Status::Revoked => Some(time::parse(&Reader::new(status_value.content).value()?)?),
            Status::Good | Status::Unknown => None,
        };
        let this_update = time::parse(&answer.value()?)?;
        let next_update = match answer.optional(tag::explicit(0))? {
            Some(next) => Some(time::parse(&Reader::new(next.content).value()?)?),
            None => None,
        };
        Ok(OcspResponse {
            der: der.to_vec(),
            status,
            this_update,
            next_update,
            produced_at,
            revoked_at,
            responder,
            hash,
            issuer_name_hash,
            issuer_key_hash,
            serial,
            tbs: tbs.whole.to_vec(),
            algorithm,
            signature,
            certificates,
        })
    }

    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// The response as OpenSSL prints it, without the signature's digits and the certificates that come with it.
    pub fn text(&self) -> String {
        let algorithm = Reader::new(&self.algorithm).expect(tag::OID).map_or(&[][..], |id| id.content);
        let hash = if self.hash == SHA1 { "sha1" } else { "sha256" };
        let line = |name: &str, at: Option<time::Seconds>| {
            at.map_or(String::new(), |at| format!("    {name}: {}\n", time::openssl(at)))
        };
        format!(
            "OCSP Response Data:\n    OCSP Response Status: successful (0x0)\n    Response Type: Basic OCSP Response\n    \
             Version: 1 (0x0)\n    Responder Id: {}\n    Produced At: {}\n    Responses:\n    Certificate ID:\n      Hash \
             Algorithm: {hash}\n      Issuer Name Hash: {}\n      Issuer Key Hash: {}\n      Serial Number: {}\n    Cert \
             Status: {}\n{}{}{}\n    Signature Algorithm: {}\n",
            self.responder,
            time::openssl(self.produced_at),
            hex(&self.issuer_name_hash),
            hex(&self.issuer_key_hash),
            hex(positive(&self.serial)),
            self.status.word(),
            line("Revocation Time", self.revoked_at),
            line("This Update", Some(self.this_update)),
            line("Next Update", self.next_update),
            oid::long_algorithm(algorithm),
        )
    }

    /// Whether the response may be shown to clients at this time.
    pub fn is_in_force(&self, now: time::Seconds) -> bool {
        self.this_update <= now + SKEW && self.until().is_none_or(|until| now <= until)
    }

    /// Until when the response may be shown; None when it does not say.
    pub fn until(&self) -> Option<time::Seconds> {
        self.next_update.map(|next| next + SKEW)
    }

    /// Whether a peer that shows it is to be believed now: it is in force, the right one, and so is whoever signed it.
    pub fn is_believed(&self, leaf: &Certificate, issuer: Option<&Certificate>, now: time::Seconds) -> bool {
        self.is_in_force(now) && self.check_at(leaf, issuer, Some(now)).is_ok()
    }

    /// Whether it is an answer about this certificate, signed by its issuer or by whom that appointed.
    pub fn check(&self, leaf: &Certificate, issuer: Option<&Certificate>) -> Result<(), OcspError> {
        self.check_at(leaf, issuer, None)
    }

    /// The same, and with a time: who was appointed has to be in force then.
    fn check_at(
        &self,
        leaf: &Certificate,
        issuer: Option<&Certificate>,
        at: Option<time::Seconds>,
    ) -> Result<(), OcspError> {
        // That it is revoked is told to clients, too: it is for them to turn away.
        if self.status == Status::Unknown {
            return Err(OcspError::Unknown);
        }
        if self.serial != leaf.serial() {
            return Err(OcspError::OtherCertificate);
        }
        let issuer = issuer.ok_or(OcspError::NoIssuer)?;
        let algorithm = match self.hash.as_slice() {
            SHA1 => &aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY,
            b"\x60\x86\x48\x01\x65\x03\x04\x02\x01" => &aws_lc_rs::digest::SHA256,
            _ => return Err(OcspError::OtherCertificate),
        };
        let hash = |bytes: &[u8]| aws_lc_rs::digest::digest(algorithm, bytes);
        let is_issuer = hash(leaf.issuer()).as_ref() == self.issuer_name_hash
            && hash(issuer.key_bits()).as_ref() == self.issuer_key_hash;
        if !is_issuer || name::canonical(issuer.subject()) != name::canonical(leaf.issuer()) {
            return Err(OcspError::OtherCertificate);
        }
        let signed = |by: &Certificate| {
            check_signature(by, &self.algorithm, &self.tbs, &self.signature) == Checked::Good
        };
        let appointed = |by: &Certificate| {
            by.extended_usage.is_some_and(|usage| usage.ocsp)
                && at.is_none_or(|at| (by.not_before..=by.not_after).contains(&at))
                && name::canonical(by.issuer()) == name::canonical(issuer.subject())
                && check_signature(issuer, by.signature_algorithm(), by.signed_part(), by.signature())
                    == Checked::Good
        };
        let good = signed(issuer) || self.certificates.iter().any(|by| appointed(by) && signed(by));
        if good { Ok(()) } else { Err(OcspError::BadSignature) }
    }
}

const SHA1: &[u8] = b"\x2b\x0e\x03\x02\x1a";

/// What identifies a certificate in requests and on the CLI: digests of its issuer's name and key, and its serial number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateId {
    pub issuer_name_hash: Vec<u8>,
    pub issuer_key_hash: Vec<u8>,
    pub serial: Vec<u8>,
}

impl CertificateId {
    pub fn of(leaf: &Certificate, issuer: &Certificate) -> CertificateId {
        let hash = |bytes: &[u8]| {
            aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY, bytes).as_ref().to_vec()
        };
        CertificateId {
            issuer_name_hash: hash(leaf.issuer()),
            issuer_key_hash: hash(issuer.key_bits()),
            serial: leaf.serial().to_vec(),
        }
    }

    /// The whole CertID.
    pub fn der(&self) -> Vec<u8> {
        let mut algorithm = Vec::new();
        der::write(&mut algorithm, tag::OID, SHA1);
        der::write(&mut algorithm, tag::NULL, &[]);
        let mut content = Vec::new();
        der::write(&mut content, tag::SEQUENCE, &algorithm);
        der::write(&mut content, tag::OCTET_STRING, &self.issuer_name_hash);
        der::write(&mut content, tag::OCTET_STRING, &self.issuer_key_hash);
        der::write(&mut content, tag::INTEGER, &self.serial);
        let mut out = Vec::new();
        der::write(&mut out, tag::SEQUENCE, &content);
        out
    }

    /// The key by which the CLI names the response: the encoding in hexadecimal.
    pub fn key(&self) -> String {
        self.der().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// A request for a response about this certificate (RFC 6960 section 4.1.1), without a nonce, so that it may be cached.
    pub fn request(&self) -> Vec<u8> {
        let wrap = |content: &[u8]| {
            let mut out = Vec::new();
            der::write(&mut out, tag::SEQUENCE, content);
            out
        };
        wrap(&wrap(&wrap(&wrap(&self.der()))))
    }

    /// The lines of `show ssl ocsp-response`.
    pub fn text(&self) -> String {
        format!(
            " Certificate ID:\n   Issuer Name Hash: {}\n   Issuer Key Hash: {}\n   Serial Number: {}\n",
            hex(&self.issuer_name_hash),
            hex(&self.issuer_key_hash),
            hex(positive(&self.serial)),
        )
    }
}

fn positive(serial: &[u8]) -> &[u8] {
    serial.strip_prefix(&[0]).filter(|rest| !rest.is_empty()).unwrap_or(serial)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

fn status(value: &Value<'_>) -> Result<Status, OcspError> {
    match value.tag {
        t if t == tag::context(0) => Ok(Status::Good),
        t if t == tag::explicit(1) => Ok(Status::Revoked),
        t if t == tag::context(2) => Ok(Status::Unknown),
        _ => Err(OcspError::Malformed),
    }
}
