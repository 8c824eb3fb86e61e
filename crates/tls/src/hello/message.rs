//! The ClientHello itself (RFC 8446 section 4.1.2) and the extensions that decide something here.

use super::HelloError;
use super::record::First;

/// A ClientHello. Fields are slices of the message, lists without their length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientHello<'a> {
    /// The version in the first record's header.
    pub record_version: u16,
    /// `legacy_version`, which is TLS 1.2 in a TLS 1.3 hello: `ssl_fc_protocol_hello_id`.
    pub legacy_version: u16,
    pub random: &'a [u8],
    pub session_id: &'a [u8],
    /// Two bytes each: `ssl_fc_cipherlist_bin`, `req.ssl_cipherlist`.
    pub ciphers: &'a [u8],
    pub compressions: &'a [u8],
    /// The host name of the extension server_name: `req.ssl_sni`.
    pub server_name: Option<&'a [u8]>,
    /// The protocol names of ALPN, each after its length: `req.ssl_alpn`.
    pub alpn: Option<&'a [u8]>,
    /// Two bytes each: `ssl_fc_supported_versions_bin`.
    pub versions: Option<&'a [u8]>,
    /// Two bytes each: `ssl_fc_eclist_bin`, `req.ssl_supported_groups`.
    pub groups: Option<&'a [u8]>,
    /// One byte each: `ssl_fc_ecformats_bin`.
    pub point_formats: Option<&'a [u8]>,
    /// Two bytes each: `ssl_fc_sigalgs_bin`, `req.ssl_sigalgs`.
    pub signature_schemes: Option<&'a [u8]>,
    /// The entries of the extension key_share.
    pub key_shares: Option<&'a [u8]>,
    /// The client can resume with a ticket, or with a key that it names.
    pub has_session_ticket: bool,
    pub has_psk: bool,
    pub has_early_data: bool,
    pub wants_ocsp: bool,
    /// It says that it goes on from a connection before (RFC 5746), which a first hello must not.
    pub renegotiates: bool,
    /// All extensions as they came: type, length, body each.
    pub extensions: &'a [u8],
}

mod extension {
    pub const SERVER_NAME: u16 = 0;
    pub const STATUS_REQUEST: u16 = 5;
    pub const SUPPORTED_GROUPS: u16 = 10;
    pub const POINT_FORMATS: u16 = 11;
    pub const SIGNATURE_ALGORITHMS: u16 = 13;
    pub const ALPN: u16 = 16;
    pub const SESSION_TICKET: u16 = 35;
    pub const PRE_SHARED_KEY: u16 = 41;
    pub const EARLY_DATA: u16 = 42;
    pub const SUPPORTED_VERSIONS: u16 = 43;
    pub const KEY_SHARE: u16 = 51;
    pub const RENEGOTIATION_INFO: u16 = 0xff01;
}

impl<'a> ClientHello<'a> {
    /// Reads the hello out of the first message of a stream.
    pub fn of(first: &'a First<'a>) -> Result<ClientHello<'a>, HelloError> {
        if first.kind != 1 {
            return Err(HelloError::NotClientHello);
        }
        let mut hello = ClientHello::parse(&first.body)?;
        hello.record_version = first.record_version;
        Ok(hello)
    }

    /// Reads the body of a ClientHello: everything after type and length of the handshake message.
    pub fn parse(body: &'a [u8]) -> Result<ClientHello<'a>, HelloError> {
        let mut input = Input(body);
        let mut hello = ClientHello { legacy_version: input.u16()?, ..ClientHello::default() };
        hello.random = input.take(32)?;
        hello.session_id = input.counted8()?;
        hello.ciphers = input.counted16()?;
        hello.compressions = input.counted8()?;
        let lists_fit = hello.session_id.len() <= 32
            && !hello.ciphers.is_empty()
            && hello.ciphers.len().is_multiple_of(2)
            && !hello.compressions.is_empty();
        if !lists_fit {
            return Err(HelloError::Malformed);
        }
        // A hello without extensions is as old as SSL 3 and legal until TLS 1.2.
        if !input.0.is_empty() {
            hello.extensions = input.counted16()?;
            input.end()?;
            hello.read_extensions()?;
        }
        Ok(hello)
    }

    fn read_extensions(&mut self) -> Result<(), HelloError> {
        let mut seen = Seen::default();
        let mut list = Input(self.extensions);
        while !list.0.is_empty() {
            let kind = list.u16()?;
            let body = list.counted16()?;
            if !seen.first_time(kind) {
                return Err(HelloError::DuplicateExtension);
            }
            self.extension(kind, body)?;
        }
        Ok(())
    }

    fn extension(&mut self, kind: u16, body: &'a [u8]) -> Result<(), HelloError> {
        match kind {
            extension::SERVER_NAME => self.server_name = server_name(body)?,
            extension::STATUS_REQUEST => self.wants_ocsp = body.first() == Some(&1),
            extension::SUPPORTED_GROUPS => self.groups = Some(pairs16(body)?),
            extension::POINT_FORMATS => self.point_formats = Some(whole(body, Input::counted8)?),
            extension::SIGNATURE_ALGORITHMS => self.signature_schemes = Some(pairs16(body)?),
            extension::ALPN => {
                let names = whole(body, Input::counted16)?;
                let mut list = Input(names);
                while !list.0.is_empty() {
                    if list.counted8()?.is_empty() {
                        return Err(HelloError::Malformed);
                    }
                }
                self.alpn = Some(names);
            }
            extension::SESSION_TICKET => self.has_session_ticket = true,
            extension::PRE_SHARED_KEY => self.has_psk = true,
            extension::EARLY_DATA => self.has_early_data = true,
            extension::SUPPORTED_VERSIONS => {
                let versions = whole(body, Input::counted8)?;
                if !versions.len().is_multiple_of(2) {
                    return Err(HelloError::Malformed);
                }
                self.versions = Some(versions);
            }
            extension::RENEGOTIATION_INFO => self.renegotiates = body != [0],
            extension::KEY_SHARE => self.key_shares = Some(whole(body, Input::counted16)?),
            _ => {}
        }
        Ok(())
    }

    /// The types of all extensions in order: `ssl_fc_extlist_bin`.
    pub fn extension_types(&self) -> impl Iterator<Item = u16> + use<'a> {
        let mut list = Input(self.extensions);
        std::iter::from_fn(move || {
            let kind = list.u16().ok()?;
            list.counted16().ok()?;
            Some(kind)
        })
    }

    /// The protocols of ALPN, in the client's order.
    pub fn protocols(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut list = Input(self.alpn.unwrap_or_default());
        std::iter::from_fn(move || list.counted8().ok())
    }

    /// The entries of key_share: group and length of the key.
    pub fn shares(&self) -> KeyShares<'a> {
        KeyShares(Input(self.key_shares.unwrap_or_default()))
    }

    /// The highest version that is offered, GREASE aside: `req.ssl_ver`.
    pub fn highest_version(&self) -> u16 {
        let offered = list16(self.versions.unwrap_or_default()).filter(|version| !is_grease(*version)).max();
        offered.unwrap_or(self.legacy_version)
    }

    /// Whether this version is offered.
    pub fn offers_version(&self, version: u16) -> bool {
        match self.versions {
            Some(versions) => list16(versions).any(|offered| offered == version),
            None => version <= self.legacy_version && version < 0x0304,
        }
    }

    /// The client says that it wants elliptic curves: `req.ssl_ec_ext`.
    pub fn has_curves(&self) -> bool {
        self.groups.is_some()
    }
}

/// The groups of the extension key_share, in order.
#[derive(Clone, Debug)]
pub struct KeyShares<'a>(Input<'a>);

impl Iterator for KeyShares<'_> {
    type Item = u16;

    fn next(&mut self) -> Option<u16> {
        let group = self.0.u16().ok()?;
        self.0.counted16().ok()?;
        Some(group)
    }
}

/// The members of a list of two-byte values. A byte that is left over at the end is not one.
pub fn list16(bytes: &[u8]) -> impl Iterator<Item = u16> + use<'_> {
    bytes.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
}

/// Values that clients mix into their lists so that servers learn to ignore what they do not know (RFC 8701). They
/// change with each connection, so fingerprints leave them out.
pub fn is_grease(value: u16) -> bool {
    value & 0x0f0f == 0x0a0a && value >> 8 == value & 0xff
}

fn server_name(body: &[u8]) -> Result<Option<&[u8]>, HelloError> {
    let mut list = Input(whole(body, Input::counted16)?);
    let mut found = None;
    while !list.0.is_empty() {
        let kind = list.take(1)?[0];
        let name = list.counted16()?;
        if kind != 0 {
            continue;
        }
        // One host name at most, and not an empty one (RFC 6066 section 3).
        if found.is_some() || name.is_empty() {
            return Err(HelloError::Malformed);
        }
        found = Some(name);
    }
    Ok(found)
}

fn pairs16(body: &[u8]) -> Result<&[u8], HelloError> {
    let list = whole(body, Input::counted16)?;
    if list.len().is_multiple_of(2) { Ok(list) } else { Err(HelloError::Malformed) }
}

/// What `read` takes from `body`, which must be all of it.
fn whole<'a>(
    body: &'a [u8],
    read: impl FnOnce(&mut Input<'a>) -> Result<&'a [u8], HelloError>,
) -> Result<&'a [u8], HelloError> {
    let mut input = Input(body);
    let taken = read(&mut input)?;
    input.end()?;
    Ok(taken)
}

#[derive(Clone, Debug)]
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], HelloError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(HelloError::Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn u16(&mut self) -> Result<u16, HelloError> {
        let bytes = self.take(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn counted8(&mut self) -> Result<&'a [u8], HelloError> {
        let count = self.take(1)?[0];
        self.take(usize::from(count))
    }

    fn counted16(&mut self) -> Result<&'a [u8], HelloError> {
        let count = self.u16()?;
        self.take(usize::from(count))
    }

    fn end(&self) -> Result<(), HelloError> {
        if self.0.is_empty() { Ok(()) } else { Err(HelloError::Malformed) }
    }
}

/// Which extensions came already. A hostile message has 16,000 of them: comparing each with each would cost 130
/// million steps, a set of bits costs one each. The low numbers, which are nearly all that exist, take no heap.
#[derive(Default)]
struct Seen {
    low: [u64; 2],
    high: Option<Box<[u64; 1024]>>,
}

impl Seen {
    fn first_time(&mut self, kind: u16) -> bool {
        let (index, bit) = (usize::from(kind >> 6), 1u64 << (kind & 63));
        let word = match self.low.get_mut(index) {
            Some(word) => word,
            None => &mut self.high.get_or_insert_with(|| Box::new([0; 1024]))[index],
        };
        let first = *word & bit == 0;
        *word |= bit;
        first
    }
}
