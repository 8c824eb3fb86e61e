//! The verifiers that a handshake asks: of clients for a `bind` line, of servers for a `server` line.

use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error};
use rustls::{OtherError, SignatureScheme};

use super::chain::{self, Purpose, Request};
use super::errors::{Code, Ignored};
use super::signature;
use super::trust::{Crls, TrustStore};
use crate::notes::{self, Noted};
use crate::server::NAMELESS;
use crate::x509::Certificate;

/// `verify none|optional|required` on a `bind` line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    #[default]
    None,
    Optional,
    Required,
}

/// What a verification came to: the numbers of `ssl_c_verify`, `ssl_c_err`, `ssl_c_ca_err` and
/// `ssl_c_ca_err_depth`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The last error, ignored or not; 0 when there was none.
    pub result: Code,
    /// The first error of the leaf.
    pub leaf: Code,
    /// The first error of a certificate above it, and the depth.
    pub ca: Code,
    pub ca_depth: u8,
    /// The error that ended the verification, and whether it was the leaf's.
    pub fatal: Option<(Code, bool)>,
}

/// How clients are verified.
#[derive(Clone, Debug, Default)]
pub struct ClientPolicy {
    pub verify: Verify,
    /// `ca-file` and `ca-verify-file`.
    pub trust: Arc<TrustStore>,
    pub crls: Option<Arc<Crls>>,
    pub ignored_leaf: Ignored,
    pub ignored_ca: Ignored,
    /// The schemes a client may sign with, in order; `client-sigalgs`.
    pub schemes: Vec<SignatureScheme>,
    /// The names of `ca-file` that are sent to clients, so that they choose a certificate. Empty with `no-ca-names`.
    pub names: Vec<Vec<u8>>,
}

/// How a server is verified.
#[derive(Clone, Debug, Default)]
pub struct ServerPolicy {
    /// `verify required`.
    pub required: bool,
    pub trust: Arc<TrustStore>,
    pub crls: Option<Arc<Crls>>,
    /// `verifyhost`. Without it the name of SNI is what the certificate must bear, if one is sent.
    pub host: Option<Vec<u8>>,
    /// The schemes a server may sign with, in order.
    pub schemes: Vec<SignatureScheme>,
}

/// Verifies what a peer sent and notes it.
fn judge(
    leaf: &CertificateDer<'_>,
    others: &[CertificateDer<'_>],
    request: &Request<'_>,
    ignored_leaf: Ignored,
    ignored_ca: Ignored,
) -> Result<Verdict, Error> {
    let leaf = Certificate::parse(leaf).map_err(|_| CertificateError::BadEncoding)?;
    let mut sent = vec![Arc::new(leaf)];
    for other in others.iter().take(chain::SENT_MAX) {
        sent.push(Arc::new(Certificate::parse(other).map_err(|_| CertificateError::BadEncoding)?));
    }
    let noted = judge_chain(sent, request, ignored_leaf, ignored_ca);
    let verdict = noted.verdict;
    notes::saw_peer(noted);
    match verdict.fatal {
        None => Ok(verdict),
        Some((code, _)) => Err(refusal(code)),
    }
}

/// Notes the certificates of a peer that nobody asked to verify: fetches give their fields all the same. What comes with the
/// peer's own certificate may be anything.
fn note_unverified(leaf: &CertificateDer<'_>, others: &[CertificateDer<'_>]) -> Result<(), Error> {
    let leaf = Certificate::parse(leaf).map_err(|_| CertificateError::BadEncoding)?;
    let others = others.iter().take(chain::SENT_MAX).map_while(|other| Certificate::parse(other).ok());
    let chain = std::iter::once(leaf).chain(others).map(Arc::new).collect();
    notes::saw_peer(Noted { chain, root: None, verdict: Verdict::default() });
    Ok(())
}

/// Verifies a chain, and keeps the numbers that fetches and logs give.
pub(crate) fn judge_chain(
    sent: Vec<Arc<Certificate>>,
    request: &Request<'_>,
    ignored_leaf: Ignored,
    ignored_ca: Ignored,
) -> Noted {
    let mut verdict = Verdict::default();
    let mut accept = |depth: usize, code: Code| {
        verdict.result = code;
        let ignored = if depth == 0 {
            if verdict.leaf == Code::OK {
                verdict.leaf = code;
            }
            ignored_leaf.contains(code)
        } else {
            if verdict.ca == Code::OK {
                verdict.ca = code;
                verdict.ca_depth = depth as u8;
            }
            ignored_ca.contains(code)
        };
        if !ignored {
            verdict.fatal = Some((code, depth == 0));
        }
        ignored
    };
    let (outcome, path) = chain::verify_path(&sent, request, &mut accept);
    if let Err(code) = outcome
        && verdict.fatal.is_none()
    {
        verdict.result = code;
        verdict.fatal = Some((code, true));
    }
    Noted { chain: sent, root: path.last().cloned(), verdict }
}

/// The error that makes rustls send the alert that OpenSSL sends for this number.
fn refusal(code: Code) -> Error {
    match code {
        Code::EXPIRED | Code::NOT_YET_VALID => CertificateError::Expired.into(),
        Code::REVOKED => CertificateError::Revoked.into(),
        Code::NO_ISSUER
        | Code::NO_LOCAL_ISSUER
        | Code::SELF_SIGNED_LEAF
        | Code::SELF_SIGNED_IN_CHAIN
        | Code::UNVERIFIED_LEAF
        | Code::INVALID_CA
        | Code::PATH_TOO_LONG => CertificateError::UnknownIssuer.into(),
        Code::BAD_SIGNATURE => CertificateError::BadSignature.into(),
        Code::WRONG_PURPOSE => CertificateError::InvalidPurpose.into(),
        Code::WRONG_HOST => CertificateError::NotValidForName.into(),
        Code::NOT_STAPLED | Code::STAPLE_UNFIT => CertificateError::InvalidOcspResponse.into(),
        _ => CertificateError::Other(OtherError(Arc::new(Refused(code)))).into(),
    }
}

/// A refusal that rustls has no name for.
#[derive(Debug)]
struct Refused(Code);

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.name().unwrap_or("unknown error"))
    }
}

impl std::error::Error for Refused {}

/// Verifies clients for one `bind` line.
#[derive(Debug)]
pub struct ClientVerifier {
    policy: ClientPolicy,
    names: Vec<DistinguishedName>,
}

impl ClientVerifier {
    pub fn new(policy: ClientPolicy) -> ClientVerifier {
        let names = policy.names.iter().map(|name| DistinguishedName::from(name.clone())).collect();
        ClientVerifier { policy, names }
    }

    /// Verifies a chain again, as is done when a session is resumed: lists and clocks may have moved since.
    pub(crate) fn verify(&self, sent: Vec<Arc<Certificate>>, now: i64) -> Noted {
        judge_chain(sent, &self.request(now), self.policy.ignored_leaf, self.policy.ignored_ca)
    }

    pub fn policy(&self) -> &ClientPolicy {
        &self.policy
    }

    fn request(&self, now: i64) -> Request<'_> {
        Request {
            trust: &self.policy.trust,
            crls: self.policy.crls.as_deref(),
            purpose: Purpose::Client,
            now,
            host: None,
            stapled: None,
        }
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn offer_client_auth(&self) -> bool {
        self.policy.verify != Verify::None
    }

    fn client_auth_mandatory(&self) -> bool {
        self.policy.verify == Verify::Required
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.names
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let request = self.request(now.as_secs() as i64);
        judge(end_entity, intermediates, &request, self.policy.ignored_leaf, self.policy.ignored_ca)
            .map(|_| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        signed(message, cert, dss, false, &self.policy.schemes)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        signed(message, cert, dss, true, &self.policy.schemes)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.policy.schemes.clone()
    }
}

/// Verifies servers for one `server` line.
#[derive(Debug)]
pub struct ServerVerifier {
    policy: ServerPolicy,
}

impl ServerVerifier {
    pub fn new(policy: ServerPolicy) -> ServerVerifier {
        ServerVerifier { policy }
    }
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if !self.policy.required {
            note_unverified(end_entity, intermediates)?;
            return Ok(ServerCertVerified::assertion());
        }
        let address;
        let host = match (&self.policy.host, server_name) {
            (Some(host), _) => Some(host.as_slice()),
            (None, ServerName::DnsName(name)) => Some(name.as_ref().as_bytes()),
            (None, name) if *name == ServerName::from(NAMELESS) => None,
            (None, ServerName::IpAddress(name)) => {
                address = IpAddr::from(*name).to_string();
                Some(address.as_bytes())
            }
            // A kind of name that a later rustls may bring.
            (None, _) => return Err(CertificateError::NotValidForName.into()),
        };
        let request = Request {
            trust: &self.policy.trust,
            crls: self.policy.crls.as_deref(),
            purpose: Purpose::Server,
            now: now.as_secs() as i64,
            host,
            stapled: Some(ocsp_response),
        };
        judge(end_entity, intermediates, &request, Ignored::default(), Ignored::default())
            .map(|_| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        signed(message, cert, dss, false, &self.policy.schemes)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        signed(message, cert, dss, true, &self.policy.schemes)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.policy.schemes.clone()
    }
}

fn signed(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    dss: &DigitallySignedStruct,
    tls13: bool,
    schemes: &[SignatureScheme],
) -> Result<HandshakeSignatureValid, Error> {
    let certificate = Certificate::parse(certificate).map_err(|_| CertificateError::BadEncoding)?;
    signature::handshake(&certificate, message, dss, tls13, schemes)
}
