//! From fields to header blocks.
//!
//! What repeats from message to message on a connection goes through the dynamic table: names and values of a few fields
//! that are known to stay the same. What differs each time, or must not be guessed by who watches the lengths (cookies,
//! credentials), is sent as a literal that nobody keeps.

use thalweg_http::HeaderId;

use super::table::{ENTRY_OVERHEAD, Name, Pseudo, STATIC, TABLE_MAX, Table, hash, static_name};
use super::{huffman, integer};

/// A literal without indexing.
const WITHOUT_INDEXING: u8 = 0x00;
/// A literal that no one on the way may index (RFC 7541 section 7.1.3).
const NEVER_INDEXED: u8 = 0x10;
/// A literal that is inserted into the table.
const INSERT: u8 = 0x40;
/// An entry of a table.
const INDEXED: u8 = 0x80;
/// A change of the table's size.
const RESIZE: u8 = 0x20;

/// Entries larger than this share of the table are not worth what they evict.
const ENTRY_SHARE: usize = 4;

/// The encoder of one direction of a connection.
pub struct Encoder {
    table: Table,
    /// What we would use at most.
    wanted: u32,
    /// The smallest bound since the last block, when it changed (RFC 7541 section 4.2).
    resized: Option<u32>,
}

impl Encoder {
    /// An encoder that uses at most `wanted` octets of dynamic table, or [`TABLE_MAX`] if that is less, and as many as a peer allows
    /// that said nothing yet (4096).
    pub fn new(wanted: usize) -> Encoder {
        let wanted = wanted.min(TABLE_MAX) as u32;
        let mut encoder = Encoder { table: Table::new(4096), wanted, resized: None };
        if wanted < 4096 {
            encoder.set_allowed(4096);
        }
        encoder
    }

    /// The peer's SETTINGS_HEADER_TABLE_SIZE.
    pub fn set_allowed(&mut self, octets: usize) {
        let max = octets.min(self.wanted as usize) as u32;
        if max as usize != self.table.max() {
            self.table.set_max(max as usize);
            self.resized = Some(self.resized.map_or(max, |smallest| smallest.min(max)));
        }
    }

    /// Must be called before the first field of each block.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        if let Some(smallest) = self.resized.take() {
            let smallest = smallest as usize;
            integer::encode(smallest, 5, RESIZE, out);
            if smallest != self.table.max() {
                integer::encode(self.table.max(), 5, RESIZE, out);
            }
        }
    }

    /// `:status`.
    pub fn status(&mut self, status: u16, out: &mut Vec<u8>) {
        let mut text = [b'0'; 3];
        let mut rest = status;
        for digit in text.iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        self.pseudo(Pseudo::Status, &text, out);
    }

    /// A pseudo-header field; these come before all others.
    pub fn pseudo(&mut self, pseudo: Pseudo, value: &[u8], out: &mut Vec<u8>) {
        let places = pseudo.static_places();
        if let Some(at) = places.clone().find(|at| STATIC[*at].value == value && !value.is_empty()) {
            integer::encode(at + 1, 7, INDEXED, out);
            return;
        }
        let first = places.clone().next();
        // A client talks to few authorities; paths differ.
        let repeats = matches!(pseudo, Pseudo::Authority | Pseudo::Scheme | Pseudo::Method | Pseudo::Status);
        self.put(first, Name::Pseudo(pseudo), pseudo.name(), value, repeats, false, out);
    }

    /// A field; `name` is in lower case.
    pub fn field(&mut self, id: HeaderId, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        let at = static_name(id);
        if let Some(at) = at
            && STATIC[at].value == value
            && !value.is_empty()
        {
            integer::encode(at + 1, 7, INDEXED, out);
            return;
        }
        self.put(at, Name::Field(id), name, value, repeats(id), is_secret(id, value), out);
    }

    #[allow(clippy::too_many_arguments)] // What a field is, and what is to become of it.
    fn put(
        &mut self,
        static_name: Option<usize>,
        kind: Name,
        name: &[u8],
        value: &[u8],
        repeats: bool,
        secret: bool,
        out: &mut Vec<u8>,
    ) {
        let cost = name.len() + value.len() + ENTRY_OVERHEAD;
        let insert = repeats && cost <= self.table.max() / ENTRY_SHARE;
        let hash = if insert { hash(name, value) } else { 0 };
        if insert && let Some(age) = self.table.find(kind, name, value, hash) {
            integer::encode(STATIC.len() + 1 + age, 7, INDEXED, out);
            return;
        }
        let (prefix, flags) = match (insert, secret) {
            (true, _) => (6, INSERT),
            (_, true) => (4, NEVER_INDEXED),
            _ => (4, WITHOUT_INDEXING),
        };
        let known = match static_name {
            Some(at) => Some(at + 1),
            None if insert => self.table.find_name(kind, name).map(|age| STATIC.len() + 1 + age),
            None => None,
        };
        match known {
            Some(index) => integer::encode(index, prefix, flags, out),
            None => {
                out.push(flags);
                string(name, out);
            }
        }
        string(value, out);
        if insert {
            self.table.insert(kind, name, value, true, hash);
        }
    }
}

/// Fields whose values stay the same over many messages of a connection.
fn repeats(id: HeaderId) -> bool {
    matches!(
        id,
        HeaderId::Server
            | HeaderId::ContentType
            | HeaderId::CacheControl
            | HeaderId::Vary
            | HeaderId::Via
            | HeaderId::Date
            | HeaderId::UserAgent
            | HeaderId::Accept
            | HeaderId::AcceptEncoding
            | HeaderId::AcceptLanguage
            | HeaderId::AcceptRanges
            | HeaderId::ContentEncoding
            | HeaderId::XForwardedFor
            | HeaderId::XForwardedProto
            | HeaderId::XForwardedHost
            | HeaderId::XForwardedPort
            | HeaderId::StrictTransportSecurity
            | HeaderId::XFrameOptions
            | HeaderId::XContentTypeOptions
            | HeaderId::XXssProtection
            | HeaderId::ReferrerPolicy
            | HeaderId::PermissionsPolicy
            | HeaderId::ContentSecurityPolicy
            | HeaderId::AccessControlAllowOrigin
            | HeaderId::AccessControlAllowMethods
            | HeaderId::AccessControlAllowHeaders
            | HeaderId::AccessControlAllowCredentials
            | HeaderId::AltSvc
            | HeaderId::XPoweredBy
            | HeaderId::Te
    )
}

/// Fields whose values must not be tried out through a table (RFC 7541 section 7.1): credentials, and cookies short
/// enough to be guessed.
fn is_secret(id: HeaderId, value: &[u8]) -> bool {
    match id {
        HeaderId::Authorization | HeaderId::ProxyAuthorization => true,
        HeaderId::Cookie | HeaderId::SetCookie => value.len() < 20,
        _ => false,
    }
}

/// A string in the shorter of its two forms.
fn string(text: &[u8], out: &mut Vec<u8>) {
    let coded = huffman::encoded_len(text);
    if coded < text.len() {
        integer::encode(coded, 7, 0x80, out);
        huffman::encode(text, out);
    } else {
        integer::encode(text.len(), 7, 0, out);
        out.extend_from_slice(text);
    }
}
