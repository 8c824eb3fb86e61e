//! Well-known field names, resolved once when a message is parsed.
//!
//! A name becomes a one-byte id through a perfect hash, so that finding a header by a well-known name
//! is an index into a table, for the parser, the framing rules and every compiled expression.

use crate::scan::Ends;

macro_rules! header_ids {
    ($($variant:ident = $name:literal,)+) => {
        /// A well-known field name, or [`HeaderId::Other`].
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        #[allow(missing_docs)]
        pub enum HeaderId {
            /// Any name that is not in the table.
            #[default]
            Other,
            $($variant,)+
        }

        const NAMES: &[&str] = &["", $($name,)+];
        const IDS: &[HeaderId] = &[HeaderId::Other, $(HeaderId::$variant,)+];
    };
}

header_ids! {
    Host = "host",
    Connection = "connection",
    ContentLength = "content-length",
    TransferEncoding = "transfer-encoding",
    ContentType = "content-type",
    UserAgent = "user-agent",
    Accept = "accept",
    AcceptEncoding = "accept-encoding",
    AcceptLanguage = "accept-language",
    Cookie = "cookie",
    Referer = "referer",
    CacheControl = "cache-control",
    Authorization = "authorization",
    Origin = "origin",
    Upgrade = "upgrade",
    Expect = "expect",
    Te = "te",
    Trailer = "trailer",
    XForwardedFor = "x-forwarded-for",
    XForwardedProto = "x-forwarded-proto",
    XForwardedHost = "x-forwarded-host",
    XForwardedPort = "x-forwarded-port",
    XRealIp = "x-real-ip",
    Forwarded = "forwarded",
    Via = "via",
    Date = "date",
    Server = "server",
    SetCookie = "set-cookie",
    Location = "location",
    Etag = "etag",
    LastModified = "last-modified",
    Expires = "expires",
    Vary = "vary",
    Age = "age",
    Pragma = "pragma",
    IfNoneMatch = "if-none-match",
    IfModifiedSince = "if-modified-since",
    IfMatch = "if-match",
    IfUnmodifiedSince = "if-unmodified-since",
    IfRange = "if-range",
    Range = "range",
    ContentRange = "content-range",
    AcceptRanges = "accept-ranges",
    ContentEncoding = "content-encoding",
    ContentDisposition = "content-disposition",
    ContentLanguage = "content-language",
    ContentLocation = "content-location",
    Allow = "allow",
    Link = "link",
    KeepAlive = "keep-alive",
    ProxyConnection = "proxy-connection",
    ProxyAuthorization = "proxy-authorization",
    ProxyAuthenticate = "proxy-authenticate",
    WwwAuthenticate = "www-authenticate",
    RetryAfter = "retry-after",
    Warning = "warning",
    StrictTransportSecurity = "strict-transport-security",
    XFrameOptions = "x-frame-options",
    XContentTypeOptions = "x-content-type-options",
    XXssProtection = "x-xss-protection",
    ContentSecurityPolicy = "content-security-policy",
    AccessControlAllowOrigin = "access-control-allow-origin",
    AccessControlAllowMethods = "access-control-allow-methods",
    AccessControlAllowHeaders = "access-control-allow-headers",
    AccessControlMaxAge = "access-control-max-age",
    AccessControlAllowCredentials = "access-control-allow-credentials",
    AccessControlExposeHeaders = "access-control-expose-headers",
    AccessControlRequestMethod = "access-control-request-method",
    AccessControlRequestHeaders = "access-control-request-headers",
    SecWebsocketKey = "sec-websocket-key",
    SecWebsocketAccept = "sec-websocket-accept",
    SecWebsocketVersion = "sec-websocket-version",
    SecWebsocketProtocol = "sec-websocket-protocol",
    SecWebsocketExtensions = "sec-websocket-extensions",
    UpgradeInsecureRequests = "upgrade-insecure-requests",
    SecFetchSite = "sec-fetch-site",
    SecFetchMode = "sec-fetch-mode",
    SecFetchDest = "sec-fetch-dest",
    SecFetchUser = "sec-fetch-user",
    SecChUa = "sec-ch-ua",
    SecChUaMobile = "sec-ch-ua-mobile",
    SecChUaPlatform = "sec-ch-ua-platform",
    XRequestedWith = "x-requested-with",
    XRequestId = "x-request-id",
    Dnt = "dnt",
    Http2Settings = "http2-settings",
    XOriginalTo = "x-original-to",
    SetCookie2 = "set-cookie2",
    Cookie2 = "cookie2",
    AltSvc = "alt-svc",
    ServerTiming = "server-timing",
    Traceparent = "traceparent",
    Priority = "priority",
    EarlyData = "early-data",
    AcceptCharset = "accept-charset",
    ContentMd5 = "content-md5",
    XPoweredBy = "x-powered-by",
    ReferrerPolicy = "referrer-policy",
    PermissionsPolicy = "permissions-policy",
    XCache = "x-cache",
    From = "from",
    MaxForwards = "max-forwards",
    RateLimitLimit = "ratelimit-limit",
    RateLimitRemaining = "ratelimit-remaining",
    RateLimitReset = "ratelimit-reset",
}

/// How many ids there are, [`HeaderId::Other`] included: the size of a table indexed by id.
pub const COUNT: usize = NAMES.len();

const HASH_BITS: u32 = 9;
// Found by trial: no two names of the table collide, which the construction of `SLOTS` verifies when it
// is compiled. Adding a name may need another multiplier.
const MULTIPLIER: u64 = 0xd6a5_be92_f5a5_64eb;

#[inline]
const fn slot(ends: Ends, len: usize) -> usize {
    (ends.mix().wrapping_add(len as u64).wrapping_mul(MULTIPLIER) >> (64 - HASH_BITS)) as usize
}

const fn slots() -> [u8; 1 << HASH_BITS] {
    let mut slots = [0u8; 1 << HASH_BITS];
    let mut id = 1;
    while id < NAMES.len() {
        let name = NAMES[id].as_bytes();
        let at = slot(Ends::of(name), name.len());
        assert!(slots[at] == 0, "two header names share a slot: choose another multiplier");
        slots[at] = id as u8;
        id += 1;
    }
    slots
}

static SLOTS: [u8; 1 << HASH_BITS] = slots();

/// What most names can be compared by.
#[derive(Clone, Copy)]
struct Known {
    ends: Ends,
    case_bits: Ends,
    len: usize,
    id: HeaderId,
}

static KNOWN: [Known; COUNT] = {
    let nothing = Ends { first: 0, last: 0 };
    let none = Known { ends: nothing, case_bits: nothing, len: usize::MAX, id: HeaderId::Other };
    let mut known = [none; COUNT];
    let mut id = 1;
    while id < COUNT {
        let name = NAMES[id].as_bytes();
        let ends = Ends::of(name);
        known[id] = Known { ends, case_bits: ends.case_bits(), len: name.len(), id: IDS[id] };
        id += 1;
    }
    known
};

/// The longest beginning of a line that is copied as a whole.
pub(crate) const BEGINNING_MAX: usize = 32;

static BEGINNINGS: [([u8; BEGINNING_MAX], u8); COUNT] = {
    let mut all = [([0; BEGINNING_MAX], 0); COUNT];
    let mut id = 1;
    while id < COUNT {
        let name = NAMES[id].as_bytes();
        if name.len() + 2 <= BEGINNING_MAX {
            let mut at = 0;
            while at < name.len() {
                all[id].0[at] = name[at];
                at += 1;
            }
            all[id].0[at] = b':';
            all[id].0[at + 1] = b' ';
            all[id].1 = name.len() as u8 + 2;
        }
        id += 1;
    }
    all
};

impl HeaderId {
    /// The id of `name`, which must be in lower case; upper case never matches.
    #[inline]
    pub fn from_lower(name: &[u8]) -> Self {
        let ends = Ends::of(name);
        let known = Known::at(ends, name);
        let is = known.len == name.len() && known.ends == ends;
        if is && (name.len() <= Ends::ALL || name == known.id.name().as_bytes()) {
            return known.id;
        }
        Self::Other
    }

    /// The id of `name`, whatever its case.
    #[inline]
    pub fn from_name(name: &[u8]) -> Self {
        let ends = Ends::of(name);
        let known = Known::at(ends, name);
        let is = known.len == name.len() && ends.are(known.ends, known.case_bits);
        if is && (name.len() <= Ends::ALL || is_long(name, known.id)) {
            return known.id;
        }
        Self::Other
    }

    /// Puts `name` in lower case, which this is the id of.
    #[inline]
    pub(crate) fn lower(self, name: &mut [u8]) {
        let known = &KNOWN[self as usize];
        match known.len <= Ends::ALL && known.len == name.len() {
            true => known.ends.write(name),
            false => lower_unknown(name),
        }
    }

    /// How a line with this name begins, `name: `, padded so that it can be copied as a whole, and how long that is. Nothing for
    /// [`HeaderId::Other`] and for the few names that are longer.
    #[inline]
    pub(crate) fn beginning(self) -> (&'static [u8; BEGINNING_MAX], usize) {
        let (text, len) = &BEGINNINGS[self as usize];
        (text, usize::from(*len))
    }

    /// The name in lower case, empty for [`HeaderId::Other`].
    pub fn name(self) -> &'static str {
        NAMES[self as usize]
    }
}

impl Known {
    /// The only one that `name` may be.
    #[inline]
    fn at(ends: Ends, name: &[u8]) -> &'static Known {
        &KNOWN[usize::from(SLOTS[slot(ends, name.len())])]
    }
}

// What few names need is not inlined: the loops over a head's names have no registers to spare for it.

/// Whether `name` is the whole of a long name, whatever its case.
#[inline(never)]
fn is_long(name: &[u8], id: HeaderId) -> bool {
    name.eq_ignore_ascii_case(id.name().as_bytes())
}

/// Puts a long name, or one of no id, in lower case.
#[inline(never)]
fn lower_unknown(name: &mut [u8]) {
    name.make_ascii_lowercase();
}

/// Some of the well-known names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IdSet([u64; 2]);

const _: () = assert!(COUNT <= 128, "one bit per id must fit");

impl IdSet {
    #[inline]
    const fn place(id: HeaderId) -> (usize, u64) {
        (id as usize >> 6 & 1, 1 << (id as u32 & 63))
    }

    /// Whether this one is among them.
    #[inline]
    pub fn has(&self, id: HeaderId) -> bool {
        let (word, bit) = Self::place(id);
        self.0[word] & bit != 0
    }

    /// Adds one; whether it was not among them.
    #[inline]
    pub fn insert(&mut self, id: HeaderId) -> bool {
        let (word, bit) = Self::place(id);
        let before = self.0[word];
        self.0[word] = before | bit;
        before & bit == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_finds_itself_and_nothing_else_does() {
        for &id in &IDS[1..] {
            let name = id.name();
            assert_eq!(HeaderId::from_lower(name.as_bytes()), id, "{name}");
            assert_eq!(HeaderId::from_name(name.to_uppercase().as_bytes()), id, "{name}");
            assert_eq!(HeaderId::from_lower(name.to_uppercase().as_bytes()), HeaderId::Other, "{name}");
            for at in 0..name.len() {
                let mut near = name.as_bytes().to_vec();
                near[at] ^= 1;
                assert_ne!(HeaderId::from_lower(&near), id);
                near[at] = name.as_bytes()[at] ^ 0x20;
                let same = name.as_bytes()[at].is_ascii_alphabetic();
                assert_eq!(HeaderId::from_name(&near) == id, same, "only letters have two cases");
                near.remove(at);
                assert_ne!(HeaderId::from_lower(&near), id);
            }
        }
        assert_eq!(HeaderId::from_lower(b""), HeaderId::Other);
        assert_eq!(HeaderId::from_name(&[b'x'; 300]), HeaderId::Other);
        assert_eq!(COUNT, IDS.len());
    }
}
