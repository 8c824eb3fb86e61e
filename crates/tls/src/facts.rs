//! What is known of a connection once its handshake is done: the answers of `ssl_fc_*`, `ssl_bc_*`, `ssl_c_*`,
//! `ssl_f_*` and `ssl_s_*`.

use std::sync::Arc;

use rustls::NamedGroup;

use crate::hello::{ClientHello, FALLBACK_SCSV, RENEGOTIATION_SCSV, is_grease, list16};
use crate::options::{ciphers, groups};
use crate::verify::Verdict;
use crate::x509::{Certificate, name};

/// Facts of one connection.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The version on the wire, 0x0303 or 0x0304.
    pub version: u16,
    /// The suite's number on the wire.
    pub cipher: u16,
    /// The group keys were agreed on in; None in a resumption without one.
    pub group: Option<NamedGroup>,
    /// `ssl_fc_alpn`
    pub alpn: Option<Vec<u8>>,
    /// `ssl_fc_is_resumed`
    pub resumed: bool,
    /// `ssl_fc_sni`: what the client asked for.
    pub server_name: Option<Vec<u8>>,
    /// What the peer sent, its own certificate first: `ssl_c_*` on a `bind` line, `ssl_s_*` on a `server` line. In a
    /// resumption the certificates of the first handshake.
    pub peer: Vec<Arc<Certificate>>,
    /// The root of the path that was verified: `ssl_c_r_dn`. What the peer sent says nothing about it.
    pub root: Option<Arc<Certificate>>,
    /// The certificate of ours that the peer was shown: `ssl_f_*`.
    pub own: Option<Arc<Certificate>>,
    /// `ssl_fc_crtname`
    pub own_name: Option<Arc<str>>,
    /// `ssl_c_verify` and its siblings.
    pub verdict: Verdict,
    /// `ssl_fc_client_random`
    pub client_random: [u8; 32],
    /// `ssl_fc_server_random`
    pub server_random: [u8; 32],
    /// `ssl_fc_session_id`
    pub session_id: Vec<u8>,
    /// Labels of RFC 9850 and secrets, when the configuration asks for them.
    pub secrets: Vec<(String, Vec<u8>)>,
    /// What became of the OCSP response of our certificate.
    pub stapled: Stapled,
    /// How much early data came: `ssl_fc_has_early`.
    pub early_bytes: usize,
    /// The lists of the ClientHello, when the configuration asks for them (`tune.ssl.capture-buffer-size`).
    pub hello: Option<Box<HelloFacts>>,
}

/// Whether a client was shown the OCSP response of our certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stapled {
    /// There is none, or nobody asked: who resumes a session is shown no certificate.
    #[default]
    Unasked,
    Sent,
    /// It asked, and the response is no longer in force.
    Outdated,
}

/// The lists of a ClientHello, for fingerprints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HelloFacts {
    /// `ssl_fc_protocol_hello_id`
    pub version: u16,
    /// `ssl_fc_cipherlist_bin`
    pub ciphers: Vec<u8>,
    /// `ssl_fc_extlist_bin`: the types of the extensions, two bytes each
    pub extensions: Vec<u8>,
    /// `ssl_fc_eclist_bin`
    pub groups: Vec<u8>,
    /// `ssl_fc_ecformats_bin`
    pub point_formats: Vec<u8>,
    /// `ssl_fc_sigalgs_bin`
    pub schemes: Vec<u8>,
    /// `ssl_fc_supported_versions_bin`
    pub versions: Vec<u8>,
}

impl HelloFacts {
    /// Keeps the lists of a hello, each cut to what fits into `most` bytes together.
    pub fn of(hello: &ClientHello<'_>, most: usize) -> HelloFacts {
        let mut left = most;
        let mut keep = |list: &[u8]| {
            let kept = list[..list.len().min(left)].to_vec();
            left -= kept.len();
            kept
        };
        let extensions: Vec<u8> = hello.extension_types().flat_map(u16::to_be_bytes).collect();
        HelloFacts {
            version: hello.legacy_version,
            ciphers: keep(hello.ciphers),
            extensions: keep(&extensions),
            groups: keep(hello.groups.unwrap_or_default()),
            point_formats: keep(hello.point_formats.unwrap_or_default()),
            schemes: keep(hello.signature_schemes.unwrap_or_default()),
            versions: keep(hello.versions.unwrap_or_default()),
        }
    }
}

/// A list of two-byte values without those that clients mix in at random: what the fetches give when asked to leave them
/// out.
pub fn without_grease(list: &[u8]) -> Vec<u8> {
    list16(list).filter(|value| !is_grease(*value)).flat_map(u16::to_be_bytes).collect()
}

/// A list of suites by name with commas between them: `ssl_fc_cipherlist_str`. Signals that stand among them have names, too.
pub fn cipher_names(list: &[u8]) -> String {
    let name = |code: u16| match (code, ciphers::name(code)) {
        (RENEGOTIATION_SCSV, _) => "TLS_EMPTY_RENEGOTIATION_INFO_SCSV".to_owned(),
        (FALLBACK_SCSV, _) => "TLS_FALLBACK_SCSV".to_owned(),
        (code, "(NONE)") => format!("UNKNOWN({code:04x})"),
        (_, name) => name.to_owned(),
    };
    list16(list).map(name).collect::<Vec<_>>().join(",")
}

impl Facts {
    /// `ssl_fc_protocol`
    pub fn protocol(&self) -> &'static str {
        match self.version {
            0x0304 => "TLSv1.3",
            0x0303 => "TLSv1.2",
            _ => "",
        }
    }

    /// `ssl_fc_cipher`
    pub fn cipher_name(&self) -> &'static str {
        ciphers::name(self.cipher)
    }

    /// `ssl_fc_alg_keysize` and `ssl_fc_use_keysize`
    pub fn key_bits(&self) -> u16 {
        ciphers::key_bits(self.cipher)
    }

    /// `ssl_fc_curve`
    pub fn curve(&self) -> &'static str {
        self.group.map_or("", groups::name)
    }

    /// The peer's own certificate.
    pub fn peer_certificate(&self) -> Option<&Arc<Certificate>> {
        self.peer.first()
    }

    /// `ssl_s_chain_der`: all that the peer sent, one after the other.
    pub fn chain_der(&self) -> Vec<u8> {
        der_of(&self.peer)
    }

    /// `ssl_c_chain_der`: what came with the peer's own certificate. OpenSSL keeps the two apart on this side.
    pub fn rest_der(&self) -> Vec<u8> {
        der_of(self.peer.get(1..).unwrap_or_default())
    }

    /// `ssl_c_r_dn`
    pub fn root_name(&self) -> Option<Vec<u8>> {
        self.root.as_ref().map(|certificate| name::oneline(certificate.subject()))
    }

    /// A secret by its label, `EXPORTER_SECRET` for example.
    pub fn secret(&self, label: &str) -> Option<&[u8]> {
        self.secrets.iter().find(|(known, _)| known == label).map(|(_, secret)| secret.as_slice())
    }
}

fn der_of(certificates: &[Arc<Certificate>]) -> Vec<u8> {
    certificates.iter().flat_map(|certificate| certificate.der()).copied().collect()
}

/// `ssl_c_san`: the alternative names as OpenSSL prints them.
pub fn alternative_names(certificate: &Certificate) -> String {
    let one = |value: &crate::der::Value<'_>| {
        let text = String::from_utf8_lossy(value.content);
        match (value.tag & 0x1f, value.content) {
            (0, _) => "othername:<unsupported>".to_owned(),
            (1, _) => format!("email:{text}"),
            (2, _) => format!("DNS:{text}"),
            (3, _) => "X400Name:<unsupported>".to_owned(),
            (4, name) => format!("DirName:{}", name::spaced(name)),
            (5, _) => "EdiPartyName:<unsupported>".to_owned(),
            (6, _) => format!("URI:{text}"),
            (7, [a, b, c, d]) => format!("IP Address:{a}.{b}.{c}.{d}"),
            (7, address) if address.len() == 16 => {
                let words = list16(address).map(|word| format!("{word:X}"));
                format!("IP Address:{}", words.collect::<Vec<_>>().join(":"))
            }
            (7, _) => "IP Address:<invalid>".to_owned(),
            (8, id) => format!("Registered ID:{}", crate::x509::oid::dotted(id)),
            _ => "<unsupported>".to_owned(),
        }
    };
    certificate.general_names().iter().map(one).collect::<Vec<_>>().join(", ")
}
