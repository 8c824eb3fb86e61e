//! What a server is told before anything else: the PROXY header of its line (`send-proxy`, `proxy-v2-options`).

use std::net::SocketAddr;
use std::sync::Arc;

use thalweg_config::model::{ProxyHeader, ProxyHeaderV2};
use thalweg_sample::context::Ctx;
use thalweg_sample::facts::Endpoint;
use thalweg_sample::logformat::LogFormat;
use thalweg_tls::facts::Facts;

use crate::connection::proxy_header::{self, ssl, tlv, write_tlv};

/// Type and value of a field that a server's line asks for (`set-proxy-v2-tlv-fmt`).
pub type HeaderField = (u8, Vec<u8>);

/// A common name has 64 characters at most (X.520). A longer one is left out rather than cut, so that it passes for no other.
const COMMON_NAME_MAX: usize = 1024;

/// What is known of a client when a connection is made for it.
#[derive(Clone, Copy)]
pub struct Introduced<'a> {
    /// Its address, and the one it connected to.
    pub ends: (Endpoint, Endpoint),
    /// Its TLS, if it speaks it.
    pub tls: Option<&'a Facts>,
    pub unique_id: Option<&'a [u8]>,
}

/// The fields of a header that a line asks for (`set-proxy-v2-tlv-fmt`), rendered. Those without a format are empty.
pub fn fields(asked: &[(u8, Option<Arc<LogFormat>>)], cx: &mut Ctx<'_>) -> Vec<HeaderField> {
    let rendered = asked.iter().map(|(kind, format)| {
        let mut value = Vec::new();
        if let Some(format) = format {
            format.render(cx, &mut value);
        }
        (*kind, value)
    });
    rendered.collect()
}

/// The header of a connection for a client; empty if the line asks for none.
pub fn of_client(kind: &ProxyHeader, client: &Introduced<'_>, fields: &[HeaderField]) -> Vec<u8> {
    let addresses = match client.ends {
        (Endpoint::Inet(from), Endpoint::Inet(to)) => Some((from, to)),
        _ => None,
    };
    let mut out = Vec::new();
    match kind {
        ProxyHeader::None => {}
        ProxyHeader::V1 => proxy_header::write_v1(&mut out, addresses),
        ProxyHeader::V2(options) => write(&mut out, options, (addresses, false), client, fields),
    }
    out
}

/// The header of a connection that the process makes for itself, between these addresses. It is nobody's, so version 2 says
/// `LOCAL` and has no addresses, unless receivers cannot cope with that (`pp2-never-send-local`).
pub fn of_check(
    kind: &ProxyHeader,
    ends: Option<(SocketAddr, SocketAddr)>,
    never_local: bool,
    fields: &[HeaderField],
) -> Vec<u8> {
    let nobody = Introduced { ends: (Endpoint::Unknown, Endpoint::Unknown), tls: None, unique_id: None };
    let mut out = Vec::new();
    match kind {
        // Whoever asks only that checks send a header gets the version that anybody reads.
        ProxyHeader::None | ProxyHeader::V1 => proxy_header::write_v1(&mut out, ends),
        ProxyHeader::V2(options) => {
            let addresses = ends.filter(|_| never_local);
            write(&mut out, options, (addresses, !never_local), &nobody, fields);
        }
    }
    out
}

/// Writes a header of version 2. The order is the reference's.
fn write(
    out: &mut Vec<u8>,
    options: &ProxyHeaderV2,
    (addresses, local): (Option<(SocketAddr, SocketAddr)>, bool),
    client: &Introduced<'_>,
    fields: &[HeaderField],
) {
    let mut tlvs: Vec<(u8, &[u8])> = fields.iter().map(|(kind, value)| (*kind, &**value)).collect();
    let crc_at = options.crc32c.then_some(tlvs.len());
    if let Some(protocol) = client.tls.and_then(|tls| tls.alpn.as_deref()) {
        tlvs.push((tlv::ALPN, protocol));
    }
    if let (true, Some(name)) = (options.authority, client.tls.and_then(|tls| tls.server_name.as_deref())) {
        tlvs.push((tlv::AUTHORITY, name));
    }
    if let (true, Some(id)) = (options.unique_id, client.unique_id) {
        tlvs.push((tlv::UNIQUE_ID, id));
    }
    let of_tls = options.tells_of_tls().then(|| describe(options, client.tls));
    tlvs.extend(of_tls.as_deref().map(|value| (tlv::SSL, value)));
    proxy_header::write_v2(out, addresses, local, &tlvs, crc_at);
}

/// The value of the field that tells of the client's TLS (proxy-protocol.txt section 2.2.6).
///
/// The result of the verification is 0, too, where there was no certificate, as in the reference: only the flags say whether there
/// was one.
fn describe(options: &ProxyHeaderV2, tls: Option<&Facts>) -> Vec<u8> {
    let Some(tls) = tls else { return vec![0; ssl::FIXED_LEN] };
    let mut client = ssl::CLIENT_SSL;
    let certificate = tls.peer_certificate();
    if certificate.is_some() {
        client |= ssl::CLIENT_CERT_SESSION;
        if !tls.resumed {
            client |= ssl::CLIENT_CERT_CONNECTION;
        }
    }
    let mut out = vec![client];
    out.extend_from_slice(&u32::from(tls.verdict.result.0).to_be_bytes());
    write_tlv(&mut out, ssl::VERSION, tls.protocol().as_bytes());
    if let (true, Some(certificate)) = (options.cert_cn, certificate) {
        let name = thalweg_tls::x509::name::common_name(certificate.subject());
        if let Some(name) = name.filter(|name| name.len() <= COMMON_NAME_MAX) {
            write_tlv(&mut out, ssl::COMMON_NAME, name);
        }
    }
    if let Some(own) = &tls.own {
        if let (true, Some(key)) = (options.cert_key, own.key_kind_and_size()) {
            write_tlv(&mut out, ssl::KEY_ALGORITHM, key.as_bytes());
        }
        if options.cert_sig {
            write_tlv(&mut out, ssl::SIGNATURE_ALGORITHM, own.signature_algorithm_name().as_bytes());
        }
    }
    if options.ssl_cipher {
        write_tlv(&mut out, ssl::CIPHER, tls.cipher_name().as_bytes());
    }
    out
}
