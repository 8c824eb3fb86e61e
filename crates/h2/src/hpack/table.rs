//! The static and the dynamic table (RFC 7541 section 2.3).

use std::collections::VecDeque;
use std::ops::Range;

use thalweg_http::HeaderId;

/// What each entry costs besides its name and value (RFC 7541 section 4.1).
pub const ENTRY_OVERHEAD: usize = 32;

/// A name as the decoder found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// A field; [`HeaderId::Other`] for those that are not well known.
    Field(HeaderId),
    /// A pseudo-header field.
    Pseudo(Pseudo),
    /// A name with a colon in front that RFC 9113 and RFC 8441 do not define.
    UnknownPseudo,
    /// It has upper case, or characters that a name may not have.
    Malformed,
}

/// The pseudo-header fields (RFC 9113 section 8.3, RFC 8441 section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Pseudo {
    Authority,
    Method,
    Path,
    Scheme,
    Status,
    Protocol,
}

impl Pseudo {
    /// As it is written.
    pub fn name(self) -> &'static [u8] {
        match self {
            Pseudo::Authority => b":authority",
            Pseudo::Method => b":method",
            Pseudo::Path => b":path",
            Pseudo::Scheme => b":scheme",
            Pseudo::Status => b":status",
            Pseudo::Protocol => b":protocol",
        }
    }

    /// Where it is in [`STATIC`].
    pub fn static_places(self) -> Range<usize> {
        match self {
            Pseudo::Authority => 0..1,
            Pseudo::Method => 1..3,
            Pseudo::Path => 3..5,
            Pseudo::Scheme => 5..7,
            Pseudo::Status => 7..14,
            Pseudo::Protocol => 0..0,
        }
    }
}

impl Name {
    /// Judges a name as it was received.
    pub fn of(bytes: &[u8]) -> Name {
        match bytes {
            [b':', ..] => match bytes {
                b":authority" => Name::Pseudo(Pseudo::Authority),
                b":method" => Name::Pseudo(Pseudo::Method),
                b":path" => Name::Pseudo(Pseudo::Path),
                b":scheme" => Name::Pseudo(Pseudo::Scheme),
                b":status" => Name::Pseudo(Pseudo::Status),
                b":protocol" => Name::Pseudo(Pseudo::Protocol),
                _ => Name::UnknownPseudo,
            },
            _ => match HeaderId::from_lower(bytes) {
                HeaderId::Other if !is_lower_token(bytes) => Name::Malformed,
                id => Name::Field(id),
            },
        }
    }

    /// As it is written, where the kind says that.
    #[inline]
    pub fn text(self) -> Option<&'static [u8]> {
        match self {
            Name::Field(HeaderId::Other) | Name::UnknownPseudo | Name::Malformed => None,
            Name::Field(id) => Some(id.name().as_bytes()),
            Name::Pseudo(pseudo) => Some(pseudo.name()),
        }
    }
}

/// Whether bytes are a field name as RFC 9113 section 8.2.1 wants it: a token without upper case.
fn is_lower_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|b| thalweg_http::ascii::is_tchar(*b) && !b.is_ascii_uppercase())
}

/// One entry of the static table.
pub struct Static {
    /// The name, judged.
    pub kind: Name,
    /// The name.
    pub name: &'static [u8],
    /// The value.
    pub value: &'static [u8],
}

macro_rules! statics {
    ($($kind:ident $id:ident $name:literal $value:literal;)*) => {
        &[$(Static { kind: statics!(@ $kind $id), name: $name, value: $value },)*]
    };
    (@ p $id:ident) => { Name::Pseudo(Pseudo::$id) };
    (@ f $id:ident) => { Name::Field(HeaderId::$id) };
}

/// RFC 7541 appendix A. Entry 0 here is index 1 on the wire.
pub static STATIC: &[Static] = statics! {
    p Authority b":authority" b"";
    p Method b":method" b"GET";
    p Method b":method" b"POST";
    p Path b":path" b"/";
    p Path b":path" b"/index.html";
    p Scheme b":scheme" b"http";
    p Scheme b":scheme" b"https";
    p Status b":status" b"200";
    p Status b":status" b"204";
    p Status b":status" b"206";
    p Status b":status" b"304";
    p Status b":status" b"400";
    p Status b":status" b"404";
    p Status b":status" b"500";
    f AcceptCharset b"accept-charset" b"";
    f AcceptEncoding b"accept-encoding" b"gzip, deflate";
    f AcceptLanguage b"accept-language" b"";
    f AcceptRanges b"accept-ranges" b"";
    f Accept b"accept" b"";
    f AccessControlAllowOrigin b"access-control-allow-origin" b"";
    f Age b"age" b"";
    f Allow b"allow" b"";
    f Authorization b"authorization" b"";
    f CacheControl b"cache-control" b"";
    f ContentDisposition b"content-disposition" b"";
    f ContentEncoding b"content-encoding" b"";
    f ContentLanguage b"content-language" b"";
    f ContentLength b"content-length" b"";
    f ContentLocation b"content-location" b"";
    f ContentRange b"content-range" b"";
    f ContentType b"content-type" b"";
    f Cookie b"cookie" b"";
    f Date b"date" b"";
    f Etag b"etag" b"";
    f Expect b"expect" b"";
    f Expires b"expires" b"";
    f From b"from" b"";
    f Host b"host" b"";
    f IfMatch b"if-match" b"";
    f IfModifiedSince b"if-modified-since" b"";
    f IfNoneMatch b"if-none-match" b"";
    f IfRange b"if-range" b"";
    f IfUnmodifiedSince b"if-unmodified-since" b"";
    f LastModified b"last-modified" b"";
    f Link b"link" b"";
    f Location b"location" b"";
    f MaxForwards b"max-forwards" b"";
    f ProxyAuthenticate b"proxy-authenticate" b"";
    f ProxyAuthorization b"proxy-authorization" b"";
    f Range b"range" b"";
    f Referer b"referer" b"";
    f Other b"refresh" b"";
    f RetryAfter b"retry-after" b"";
    f Server b"server" b"";
    f SetCookie b"set-cookie" b"";
    f StrictTransportSecurity b"strict-transport-security" b"";
    f TransferEncoding b"transfer-encoding" b"";
    f UserAgent b"user-agent" b"";
    f Vary b"vary" b"";
    f Via b"via" b"";
    f WwwAuthenticate b"www-authenticate" b"";
};

/// Index in [`STATIC`] of the first entry with each well-known name.
pub fn static_name(id: HeaderId) -> Option<usize> {
    static INDEX: std::sync::LazyLock<[u8; thalweg_http::header_id::COUNT]> =
        std::sync::LazyLock::new(|| {
            let mut index = [u8::MAX; thalweg_http::header_id::COUNT];
            for (i, entry) in STATIC.iter().enumerate().rev() {
                if let Name::Field(id) = entry.kind
                    && id != HeaderId::Other
                {
                    index[id as usize] = i as u8;
                }
            }
            index
        });
    let found = INDEX[id as usize];
    (found != u8::MAX).then_some(usize::from(found))
}

/// The largest bound of a table, in octets by the RFC's way of counting: lengths and places of entries are small numbers.
pub const TABLE_MAX: usize = 65_536;

/// What is kept of an entry. There is one for each field that repeats, on each connection that waits: hence its size.
#[derive(Clone, Copy)]
struct Entry {
    /// Where its text begins in `bytes`, counted from the table's beginning, evicted entries included.
    at: u32,
    /// See [`hash`]; of interest to the encoder.
    hash: u32,
    name_len: u16,
    value_len: u16,
    kind: Name,
    clean: bool,
}

const _: () = assert!(size_of::<Entry>() == 16);

impl Entry {
    /// Octets of name and value.
    fn len(&self) -> usize {
        usize::from(self.name_len) + usize::from(self.value_len)
    }

    /// Octets of its name in the store.
    fn stored_name_len(&self) -> usize {
        if self.kind.text().is_some() { 0 } else { self.name_len.into() }
    }

    /// Octets that it has in the store.
    fn stored_len(&self) -> usize {
        self.stored_name_len() + usize::from(self.value_len)
    }
}

/// An entry of the dynamic table, borrowed.
pub struct Dynamic<'a> {
    /// The name, judged when it was inserted.
    pub kind: Name,
    /// The name.
    pub name: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// Whether the value has only characters that a value may have.
    pub clean: bool,
}

/// The dynamic table: entries in the order of insertion over one store of bytes, where what was evicted is always in
/// front. Connections wait for long, so that it has little more memory than what is in it needs; names that are well known
/// have none.
pub struct Table {
    entries: VecDeque<Entry>,
    bytes: Vec<u8>,
    /// What `bytes[0]` would be, counted from the table's beginning. It wraps.
    base: u32,
    /// RFC 7541 section 4.1.
    size: u32,
    max: u32,
}

/// Entries that room is made for at once, at least.
const ENTRIES_STEP: usize = 4;
/// Room for text comes in multiples of this many octets.
const BYTES_STEP: usize = 128;
/// The share of itself that a table grows by at least: so that neither growing nor dropping what was evicted is done often.
const GROWTH_SHARE: usize = 8;

impl Table {
    /// An empty table of at most `max` octets, by the RFC's way of counting, and no more than [`TABLE_MAX`]. It allocates when it
    /// is first used.
    pub fn new(max: usize) -> Table {
        let max = max.min(TABLE_MAX) as u32;
        Table { entries: VecDeque::new(), bytes: Vec::new(), base: 0, size: 0, max }
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Octets in use, by the RFC's way of counting.
    pub fn size(&self) -> usize {
        self.size as usize
    }

    /// The bound of [`Table::size`].
    pub fn max(&self) -> usize {
        self.max as usize
    }

    /// Octets of memory that it has besides itself.
    pub fn memory(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>() + self.bytes.capacity()
    }

    /// Changes the bound, which may evict entries. It stays at most [`TABLE_MAX`].
    pub fn set_max(&mut self, max: usize) {
        self.max = max.min(TABLE_MAX) as u32;
        self.evict(max);
    }

    fn evict(&mut self, room: usize) {
        while self.size() > room {
            let Some(oldest) = self.entries.pop_front() else { break };
            self.size -= (oldest.len() + ENTRY_OVERHEAD) as u32;
        }
        if self.entries.is_empty() {
            self.base = self.base.wrapping_add(self.bytes.len() as u32);
            self.bytes.clear();
        }
    }

    /// The entry `age` insertions ago; 0 is the newest.
    #[inline]
    pub fn get(&self, age: usize) -> Option<Dynamic<'_>> {
        let entry = self.entries.get(self.entries.len().checked_sub(age + 1)?)?;
        let (name, value) = self.text(entry)?;
        Some(Dynamic { kind: entry.kind, name, value, clean: entry.clean })
    }

    #[inline]
    fn text(&self, entry: &Entry) -> Option<(&[u8], &[u8])> {
        let start = self.place(entry);
        let known = entry.kind.text();
        let stored = if known.is_some() { 0 } else { usize::from(entry.name_len) };
        let both = self.bytes.get(start..start + stored + usize::from(entry.value_len))?;
        let (name, value) = both.split_at(stored);
        Some((known.unwrap_or(name), value))
    }

    /// Where the text of an entry begins in the store.
    #[inline]
    fn place(&self, entry: &Entry) -> usize {
        entry.at.wrapping_sub(self.base) as usize
    }

    /// Inserts an entry, evicting the oldest ones. One that is larger than the table empties it and is not kept
    /// (RFC 7541 section 4.4). `kind` is that of the name; `hash` is for [`Table::find`], where that is used.
    pub fn insert(&mut self, kind: Name, name: &[u8], value: &[u8], clean: bool, hash: u32) {
        debug_assert!(kind.text().is_none_or(|known| known == name));
        let cost = name.len() + value.len() + ENTRY_OVERHEAD;
        self.evict(self.max().saturating_sub(cost));
        let (Ok(name_len), Ok(value_len)) = (u16::try_from(name.len()), u16::try_from(value.len())) else {
            return;
        };
        if cost > self.max() {
            return;
        }
        let mut entry = Entry { at: 0, hash, name_len, value_len, kind, clean };
        self.make_room(entry.stored_len());
        entry.at = self.base.wrapping_add(self.bytes.len() as u32);
        self.bytes.extend_from_slice(&name[..entry.stored_name_len()]);
        self.bytes.extend_from_slice(value);
        self.size += cost as u32;
        self.entries.push_back(entry);
    }

    /// Inserts an entry whose name is that of the entry `age` insertions ago.
    pub fn insert_with_name_of(&mut self, age: usize, value: &[u8], clean: bool) {
        let Some(entry) = self.get(age) else { return };
        let kind = entry.kind;
        match kind.text() {
            Some(name) => self.insert(kind, name, value, clean, 0),
            None => {
                // The name may be evicted by its own heir, so it is copied first (RFC 7541 section 4.4).
                let name = entry.name.to_vec();
                self.insert(kind, &name, value, clean, 0);
            }
        }
    }

    /// Makes room for another entry with so much text: where evicted ones were, if that is enough.
    fn make_room(&mut self, len: usize) {
        let count = self.entries.len();
        if count == self.entries.capacity() {
            self.entries.reserve_exact((count / GROWTH_SHARE).max(ENTRIES_STEP));
        }
        if self.bytes.len() + len <= self.bytes.capacity() {
            return;
        }
        let evicted = self.entries.front().map_or(self.bytes.len(), |oldest| self.place(oldest));
        self.bytes.drain(..evicted);
        self.base = self.base.wrapping_add(evicted as u32);
        let needed = self.bytes.len() + len;
        let wanted = (needed + needed / GROWTH_SHARE).next_multiple_of(BYTES_STEP);
        if wanted > self.bytes.capacity() {
            self.bytes.reserve_exact(wanted - self.bytes.len());
        }
    }

    /// For the encoder: how long ago exactly this field was inserted, with its [`hash`].
    pub fn find(&self, kind: Name, name: &[u8], value: &[u8], hash: u32) -> Option<usize> {
        let is_it = |entry: &Entry| {
            entry.hash == hash
                && entry.kind == kind
                && self.text(entry).is_some_and(|text| text == (name, value))
        };
        self.entries.iter().rev().position(is_it)
    }

    /// For the encoder: how long ago a field with this name was inserted.
    pub fn find_name(&self, kind: Name, name: &[u8]) -> Option<usize> {
        let is_it = |entry: &Entry| {
            entry.kind == kind
                && (kind.text().is_some() || self.text(entry).is_some_and(|text| text.0 == name))
        };
        self.entries.iter().rev().position(is_it)
    }
}

/// Of name and value, eight octets at a time: enough to tell most entries apart.
pub fn hash(name: &[u8], value: &[u8]) -> u32 {
    const PRIME: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, eight: u64| (hash.rotate_left(5) ^ eight).wrapping_mul(PRIME);
    let mixed = [name, value].into_iter().fold(0, |hash, text| {
        let (eights, rest) = text.as_chunks::<8>();
        let hash = eights
            .iter()
            .fold(mix(hash, text.len() as u64), |hash, eight| mix(hash, u64::from_le_bytes(*eight)));
        mix(hash, rest.iter().fold(0, |eight, byte| eight << 8 | u64::from(*byte)))
    });
    (mixed >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn static_names_are_judged_as_received_ones() {
        assert_eq!(STATIC.len(), 61);
        for entry in STATIC {
            assert_eq!(entry.kind, Name::of(entry.name), "{}", String::from_utf8_lossy(entry.name));
        }
        use Pseudo::{Authority, Method, Path, Protocol, Scheme, Status};
        for pseudo in [Authority, Method, Path, Scheme, Status, Protocol] {
            let places = (0..STATIC.len()).filter(|at| STATIC[*at].kind == Name::Pseudo(pseudo));
            assert_eq!(places.collect::<Vec<_>>(), pseudo.static_places().collect::<Vec<_>>());
        }
        assert_eq!(static_name(HeaderId::AcceptEncoding), Some(15));
        assert_eq!(static_name(HeaderId::Other), None);
        assert_eq!(static_name(HeaderId::XForwardedFor), None);
    }

    #[test]
    fn names_are_judged() {
        assert_eq!(Name::of(b"x-a"), Name::Field(HeaderId::Other));
        assert_eq!(Name::of(b":protocol"), Name::Pseudo(Pseudo::Protocol));
        assert_eq!(Name::of(b":x"), Name::UnknownPseudo);
        for bad in [&b""[..], b"Host", b"x a", b"x:a", b"x\0", b"\xff"] {
            assert_eq!(Name::of(bad), Name::Malformed, "{bad:?}");
        }
    }

    #[test]
    fn old_entries_leave_and_the_store_stays_bounded() {
        let mut table = Table::new(200);
        for i in 0..1000u32 {
            let value = i.to_string();
            let hash = hash(b"x-n", value.as_bytes());
            table.insert(Name::of(b"x-n"), b"x-n", value.as_bytes(), true, hash);
            assert!(table.size() <= 200);
            assert!(table.memory() <= 400);
            assert_eq!(table.get(0).unwrap().value, value.as_bytes());
            let oldest = table.len() - 1;
            assert_eq!(table.get(oldest).unwrap().value, (i as usize - oldest).to_string().as_bytes());
            assert!(table.get(table.len()).is_none());
        }
        let find = |value| table.find(Name::of(b"x-n"), b"x-n", value, hash(b"x-n", value));
        assert_eq!((find(b"998"), find(b"1")), (Some(1), None));
        assert_eq!(table.find_name(Name::of(b"x-n"), b"x-n"), Some(0));
        assert_eq!(table.find_name(Name::of(b"x-m"), b"x-m"), None);
        table.set_max(40);
        assert_eq!((table.len(), table.size()), (1, 38));
        table.insert(Name::of(b"x-large"), b"x-large", &[b'a'; 40], true, 0);
        assert_eq!((table.len(), table.size()), (0, 0));
    }

    /// The fields of a browser's request, of which names that are well known are kept nowhere.
    #[test]
    fn a_table_has_little_more_memory_than_its_text() {
        let mut table = Table::new(4096);
        let mut text = 0;
        for (n, name) in [b"user-agent", b"accept-lan", b"x-own-name"].iter().cycle().enumerate().take(24) {
            let value = vec![b'a'; 20 + n];
            let kind = Name::of(*name);
            table.insert(kind, *name, &value, true, 0);
            text += value.len() + if kind.text().is_some() { 0 } else { name.len() };
            let most = 16 * (n + 1 + ENTRIES_STEP) + text + text / GROWTH_SHARE + BYTES_STEP;
            assert!(table.memory() <= most, "{} octets for {} entries of {text}", table.memory(), n + 1);
            let newest = table.get(0).unwrap();
            assert_eq!((newest.name, newest.value), (&name[..], &value[..]));
        }
        let before = table.memory();
        for n in 0..10_000u32 {
            table.insert(Name::of(b"date"), b"date", n.to_string().repeat(8).as_bytes(), true, 0);
        }
        assert!(before < table.memory() && table.memory() <= 4096 + 4096 / GROWTH_SHARE + BYTES_STEP);
    }
}
