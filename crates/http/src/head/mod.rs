//! The head of a request or of a response: one object that is filled, edited, encoded and used again.
//!
//! A head owns one byte store. What the parser received is copied into it once; names and values are
//! spans of that store, and an edit appends the new bytes and moves the span, so nothing that was found
//! before is disturbed. `clear` keeps all capacity: a connection that serves its thousandth request
//! allocates nothing.
//!
//! A field whose bytes in the store are exactly `name: value\r\n` is *canonical*, and so is a start line that is there
//! as it will be sent. Canonical neighbours are neighbours in the store, so an encoder copies a whole run at once.

mod edit;
mod fill;
mod index;

use std::fmt;

use crate::header_id::HeaderId;
use crate::method::{Method, Version};
use crate::semantics::Framing;
use index::Index;

/// A range of a [`Head`]'s byte store, valid until the head is edited or cleared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Bytes from the start of the store.
    pub off: u32,
    /// Length in bytes.
    pub len: u32,
}

impl Span {
    /// The span `[start, end)`.
    #[inline]
    pub fn new(start: usize, end: usize) -> Self {
        debug_assert!(start <= end);
        Self { off: start as u32, len: (end - start) as u32 }
    }

    /// The offset just after the last byte.
    #[inline]
    pub fn end(self) -> u32 {
        self.off + self.len
    }

    /// The same as a range of indexes.
    #[inline]
    pub fn range(self) -> std::ops::Range<usize> {
        self.off as usize..self.off as usize + self.len as usize
    }

    /// Whether the span has no byte.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }
}

/// One header field: where its name and value are, and what is known about them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Field {
    /// The name, in lower case.
    pub name: Span,
    /// The value, without surrounding white space.
    pub value: Span,
    /// The well-known name, if it is one.
    pub id: HeaderId,
    flags: u8,
}

const REMOVED: u8 = 1;
const CANONICAL: u8 = 2;

impl Field {
    /// Whether the field was removed; its place remains so that indexes stay valid.
    #[inline]
    pub fn is_removed(&self) -> bool {
        self.flags & REMOVED != 0
    }

    /// Whether the store holds exactly `name: value\r\n` from the start of the name.
    #[inline]
    pub fn is_canonical(&self) -> bool {
        self.flags & CANONICAL != 0
    }
}

/// A borrowed view of one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldRef<'a> {
    /// The place of the field, which stays the same until the head is cleared or a field is inserted
    /// before it.
    pub index: usize,
    /// The well-known name, if it is one.
    pub id: HeaderId,
    /// The name, in lower case.
    pub name: &'a [u8],
    /// The value, without surrounding white space.
    pub value: &'a [u8],
    /// Where the name is in the store.
    pub name_span: Span,
    /// Where the value is in the store.
    pub value_span: Span,
}

/// Why an edit was refused; the head is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RewriteError {
    /// The edited head would not fit in the buffer.
    TooLarge,
    /// The name or value has bytes that would change the structure of the message (rule: every writer
    /// validates again).
    Invalid,
}

impl fmt::Display for RewriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLarge => "the rewritten head does not fit in the buffer",
            Self::Invalid => "the rewritten head would not be a valid message",
        })
    }
}

impl std::error::Error for RewriteError {}

/// Whether a head belongs to a request or to a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Method, target, version.
    #[default]
    Request,
    /// Version, status, reason.
    Response,
}

/// The size limit of a head when none was set, in bytes: the reference's default buffer, 16384.
pub const DEFAULT_LIMIT: usize = 16384;

/// More fields than a head may have: their places are numbers of 16 bits.
const FIELDS_END: usize = u16::MAX as usize;

/// The head of one message. See the module's documentation.
#[derive(Clone)]
pub struct Head {
    store: Vec<u8>,
    fields: Vec<Field>,
    index: Index,
    limit: usize,
    /// Bytes of all live fields as encoded, `name: value\r\n` each.
    live: usize,
    kind: Kind,
    method: Method,
    version: Version,
    status: u16,
    start: [Span; 2],
    /// Where the store has the start line as it is sent, line end included; empty when it has it nowhere.
    line: Span,
    framing: Framing,
    /// The protocol and version as received, if it was another than HTTP and was let through.
    protocol: Span,
    /// Whether some value was folded over several lines, until the fields are settled.
    folded: bool,
    /// A rule named another place than the client did in the target.
    elsewhere: bool,
}

impl Default for Head {
    fn default() -> Self {
        Self::new()
    }
}

impl Head {
    /// An empty request head with the default limit. It does not allocate until it is filled.
    pub fn new() -> Self {
        Self {
            store: Vec::new(),
            fields: Vec::new(),
            index: Index::new(),
            limit: DEFAULT_LIMIT,
            live: 0,
            kind: Kind::Request,
            method: Method::Get,
            version: Version::HTTP_11,
            status: 0,
            start: [Span::default(); 2],
            line: Span::default(),
            framing: Framing::default(),
            protocol: Span::default(),
            folded: false,
            elsewhere: false,
        }
    }

    /// Empties the head and keeps its memory and its limit.
    pub fn clear(&mut self) {
        self.store.clear();
        self.fields.clear();
        self.index.clear();
        self.live = 0;
        self.kind = Kind::Request;
        self.method = Method::Get;
        self.version = Version::HTTP_11;
        self.status = 0;
        self.start = [Span::default(); 2];
        self.line = Span::default();
        self.framing = Framing::default();
        self.protocol = Span::default();
        self.folded = false;
        self.elsewhere = false;
    }

    /// Remembers that a rule put another scheme or authority into the target than the client did.
    pub fn note_elsewhere(&mut self) {
        self.elsewhere = true;
    }

    /// Whether a rule named another place in the target; a host that a rule set alone is none.
    pub fn is_elsewhere(&self) -> bool {
        self.elsewhere
    }

    /// Bounds the encoded size of the head, in bytes (`tune.bufsize`). Edits beyond it fail with
    /// [`RewriteError::TooLarge`].
    pub fn set_limit(&mut self, bytes: usize) {
        self.limit = bytes;
    }

    // ---- the start line ----

    /// Whether this is a request.
    #[inline]
    pub fn is_request(&self) -> bool {
        self.kind == Kind::Request
    }

    /// Request or response.
    #[inline]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The method of a request.
    #[inline]
    pub fn method(&self) -> Method {
        self.method
    }

    /// The method as received. Empty for a response.
    #[inline]
    pub fn method_bytes(&self) -> &[u8] {
        if self.is_request() { self.bytes(self.start[0]) } else { b"" }
    }

    /// Where the method is in the store.
    #[inline]
    pub fn method_span(&self) -> Span {
        if self.is_request() { self.start[0] } else { Span::default() }
    }

    /// The request target as received. Empty for a response.
    #[inline]
    pub fn target(&self) -> &[u8] {
        self.bytes(self.target_span())
    }

    /// Where the request target is in the store.
    #[inline]
    pub fn target_span(&self) -> Span {
        if self.is_request() { self.start[1] } else { Span::default() }
    }

    /// The version on the message.
    #[inline]
    pub fn version(&self) -> Version {
        self.version
    }

    /// The status of a response, 0 for a request.
    #[inline]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The reason phrase of a response.
    #[inline]
    pub fn reason(&self) -> &[u8] {
        if self.is_request() { b"" } else { self.bytes(self.start[1]) }
    }

    /// Where the reason phrase is in the store.
    #[inline]
    pub fn reason_span(&self) -> Span {
        if self.is_request() { Span::default() } else { self.start[1] }
    }

    /// Makes this a request. Intended for a cleared head; fields that are present stay.
    ///
    /// # Errors
    /// [`RewriteError::Invalid`] for a method that is not a token or a target with white space or
    /// control bytes, [`RewriteError::TooLarge`] when it does not fit.
    pub fn start_request(
        &mut self,
        method: &[u8],
        target: &[u8],
        version: Version,
    ) -> Result<(), RewriteError> {
        check_method(method)?;
        check_target(target)?;
        self.room(method.len() + target.len(), self.start_len())?;
        self.kind = Kind::Request;
        self.method = Method::from_bytes(method);
        self.start = [self.append(method), self.append(target)];
        self.line = Span::default();
        self.version = version;
        self.status = 0;
        Ok(())
    }

    /// Makes this a response. Intended for a cleared head; fields that are present stay. Without a
    /// reason, the usual phrase of the status is taken.
    ///
    /// # Errors
    /// [`RewriteError::Invalid`] for a status outside 100 to 999 or a reason with control bytes,
    /// [`RewriteError::TooLarge`] when it does not fit.
    pub fn start_response(
        &mut self,
        version: Version,
        status: u16,
        reason: Option<&[u8]>,
    ) -> Result<(), RewriteError> {
        self.kind = Kind::Response;
        self.method = Method::Get;
        self.start = [Span::default(); 2];
        self.version = version;
        self.set_status(status, reason)
    }

    /// Replaces the method of a request.
    ///
    /// # Errors
    /// As [`Head::start_request`].
    pub fn set_method(&mut self, method: &[u8]) -> Result<(), RewriteError> {
        check_method(method)?;
        self.room(method.len(), self.start[0].len as usize)?;
        self.method = Method::from_bytes(method);
        self.start[0] = self.append(method);
        self.line = Span::default();
        Ok(())
    }

    /// Replaces the target of a request.
    ///
    /// # Errors
    /// As [`Head::start_request`].
    pub fn set_target(&mut self, target: &[u8]) -> Result<(), RewriteError> {
        check_target(target)?;
        self.room(target.len(), self.start[1].len as usize)?;
        self.start[1] = self.append(target);
        self.line = Span::default();
        Ok(())
    }

    /// Replaces the status of a response, and its reason: by `reason`, or by the usual phrase.
    ///
    /// # Errors
    /// As [`Head::start_response`].
    pub fn set_status(&mut self, status: u16, reason: Option<&[u8]>) -> Result<(), RewriteError> {
        if !(100..=999).contains(&status) {
            return Err(RewriteError::Invalid);
        }
        let reason = reason.unwrap_or_else(|| crate::status::reason(status).as_bytes());
        check_value(reason)?;
        self.room(reason.len(), self.start[1].len as usize)?;
        self.status = status;
        self.start[1] = self.append(reason);
        self.line = Span::default();
        Ok(())
    }

    /// Replaces the version.
    pub fn set_version(&mut self, version: Version) {
        if version != self.version {
            self.line = Span::default();
        }
        self.version = version;
        self.protocol = Span::default();
    }

    /// The protocol and version as received, when it is not a well-formed `HTTP/d.d`; empty otherwise.
    /// Only `option accept-unsafe-violations-in-http-*` lets one through. It is forwarded as it is, and
    /// the message is treated as one of [`Head::version`].
    pub fn odd_protocol(&self) -> &[u8] {
        self.bytes(self.protocol)
    }

    /// Sets what [`Head::odd_protocol`] returns. For parsers.
    pub fn set_odd_protocol(&mut self, protocol: Span) {
        self.protocol = protocol;
    }

    /// Where the store has the start line as it is sent, line end included. Empty when that has to be put together.
    #[inline]
    pub fn line_span(&self) -> Span {
        self.line
    }

    /// What was decided about the body and the connection when the message was received.
    #[inline]
    pub fn framing(&self) -> Framing {
        self.framing
    }

    /// Records what was decided about the body and the connection.
    pub fn set_framing(&mut self, framing: Framing) {
        self.framing = framing;
    }

    // ---- the store ----

    /// The bytes of a span. A span that is out of range, which is a broken promise of the caller,
    /// reads as empty.
    #[inline]
    pub fn bytes(&self, span: Span) -> &[u8] {
        self.store.get(span.range()).unwrap_or(b"")
    }

    /// The whole store, for encoders.
    #[inline]
    pub fn store(&self) -> &[u8] {
        &self.store
    }

    /// Bytes of the head in HTTP/1 form, the empty line included. Exact while the encoder adds nothing.
    pub fn encoded_len(&self) -> usize {
        self.start_len() + self.live + 2
    }

    fn start_len(&self) -> usize {
        // "METHOD target HTTP/1.1\r\n" or "HTTP/1.1 200 reason\r\n".
        let version = if self.protocol.is_empty() { 8 } else { self.protocol.len as usize };
        match self.kind {
            Kind::Request => self.start[0].len as usize + 1 + self.start[1].len as usize + 1 + version + 2,
            Kind::Response => version + 1 + self.status_len() + 1 + self.start[1].len as usize + 2,
        }
    }

    fn status_len(&self) -> usize {
        match self.status {
            0..=999 => 3,
            1000..=9999 => 4,
            _ => 5,
        }
    }

    /// Checks that `more` bytes fit once `less` bytes are gone, and makes room for them in the store.
    fn room(&mut self, more: usize, less: usize) -> Result<(), RewriteError> {
        let total = self.encoded_len().saturating_sub(less) + more;
        if total > self.limit {
            return Err(RewriteError::TooLarge);
        }
        // What edits have abandoned stays in the store until it would double its bound.
        if self.store.len() + more + 4 > self.limit.saturating_mul(2) {
            self.compact();
        }
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> Span {
        let start = self.store.len();
        self.store.extend_from_slice(bytes);
        Span::new(start, start + bytes.len())
    }

    /// Rewrites the store so that it holds live bytes only. Spans taken before are void.
    pub fn compact(&mut self) {
        let old = std::mem::take(&mut self.store);
        let mut store = Vec::with_capacity(old.capacity());
        self.line = Span::default();
        for span in self.start.iter_mut().chain([&mut self.protocol]) {
            let bytes = &old[span.range()];
            *span = Span::new(store.len(), store.len() + bytes.len());
            store.extend_from_slice(bytes);
        }
        for field in self.fields.iter_mut() {
            if field.is_removed() {
                field.name = Span::default();
                field.value = Span::default();
                continue;
            }
            let (name, value) = (&old[field.name.range()], &old[field.value.range()]);
            (field.name, field.value) = append_canonical(&mut store, name, value);
            field.flags |= CANONICAL;
        }
        self.store = store;
    }

    // ---- reading fields ----

    /// All fields, in order of reception.
    #[inline]
    pub fn fields(&self) -> impl DoubleEndedIterator<Item = FieldRef<'_>> + '_ {
        self.fields
            .iter()
            .enumerate()
            .filter(|(_, field)| !field.is_removed())
            .map(|(index, field)| self.view(index, field))
    }

    /// The fields as stored, removed ones included, for encoders.
    #[inline]
    pub fn raw_fields(&self) -> &[Field] {
        &self.fields
    }

    /// How many fields there are.
    pub fn len(&self) -> usize {
        self.fields.iter().filter(|field| !field.is_removed()).count()
    }

    /// Whether there is no field.
    pub fn is_empty(&self) -> bool {
        self.fields.iter().all(Field::is_removed)
    }

    #[inline]
    fn view(&self, index: usize, field: &Field) -> FieldRef<'_> {
        FieldRef {
            index,
            id: field.id,
            name: self.bytes(field.name),
            value: self.bytes(field.value),
            name_span: field.name,
            value_span: field.value,
        }
    }

    /// The field at `index`, if it is there and was not removed.
    #[inline]
    pub fn field(&self, index: usize) -> Option<FieldRef<'_>> {
        let field = self.fields.get(index)?;
        (!field.is_removed()).then(|| self.view(index, field))
    }

    /// The first field with a well-known name. `get(HeaderId::Other)` finds nothing.
    #[inline]
    pub fn get(&self, id: HeaderId) -> Option<FieldRef<'_>> {
        self.get_from(id, 0)
    }

    /// Whether a field with a well-known name is or was present: a quick answer for names that few messages have.
    #[inline]
    pub fn had(&self, id: HeaderId) -> bool {
        self.index.has(id)
    }

    /// The field with a well-known name, if no other ever had it.
    #[inline]
    pub fn only(&self, id: HeaderId) -> Option<FieldRef<'_>> {
        self.field(self.index.only(id)?)
    }

    /// Whether a field with a well-known name is present.
    #[inline]
    pub fn has(&self, id: HeaderId) -> bool {
        self.get(id).is_some()
    }

    /// The value of the first field with a well-known name.
    #[inline]
    pub fn value(&self, id: HeaderId) -> Option<&[u8]> {
        self.get(id).map(|field| field.value)
    }

    /// The first field with a well-known name whose index is at least `from`.
    #[inline]
    pub fn get_from(&self, id: HeaderId, from: usize) -> Option<FieldRef<'_>> {
        let from = self.index.place(id, from)?;
        self.fields
            .get(from..)?
            .iter()
            .enumerate()
            .find(|(_, field)| field.id == id && !field.is_removed())
            .map(|(index, field)| self.view(from + index, field))
    }

    /// The fields with a well-known name, in order.
    #[inline]
    pub fn get_all(&self, id: HeaderId) -> impl Iterator<Item = FieldRef<'_>> + '_ {
        let mut next = 0;
        std::iter::from_fn(move || {
            let field = self.get_from(id, next)?;
            next = field.index + 1;
            Some(field)
        })
    }

    /// The first field with this name, in any case.
    pub fn find(&self, name: &[u8]) -> Option<FieldRef<'_>> {
        self.find_from(name, 0)
    }

    /// The first field with this name, in any case, whose index is at least `from`.
    pub fn find_from(&self, name: &[u8], from: usize) -> Option<FieldRef<'_>> {
        match HeaderId::from_name(name) {
            HeaderId::Other => self
                .fields
                .get(from..)?
                .iter()
                .enumerate()
                .find(|(_, field)| {
                    field.id == HeaderId::Other
                        && field.name.len as usize == name.len()
                        && !field.is_removed()
                        && self.bytes(field.name).eq_ignore_ascii_case(name)
                })
                .map(|(index, field)| self.view(from + index, field)),
            id => self.get_from(id, from),
        }
    }

    /// All fields with this name, in any case, in order.
    pub fn find_all<'a>(&'a self, name: &'a [u8]) -> impl Iterator<Item = FieldRef<'a>> + 'a {
        let mut next = 0;
        std::iter::from_fn(move || {
            let field = self.find_from(name, next)?;
            next = field.index + 1;
            Some(field)
        })
    }

    /// Checks what must hold between any two calls; for tests.
    ///
    /// # Panics
    /// When an invariant is broken.
    pub fn check_invariants(&self) {
        if !self.line.is_empty() {
            let Version { major, minor } = self.version;
            let expected = match self.kind {
                Kind::Request => {
                    let version = format!(" HTTP/{major}.{minor}\r\n");
                    [self.method_bytes(), b" ", self.target(), version.as_bytes()].concat()
                }
                Kind::Response => {
                    let version = format!("HTTP/{major}.{minor} {} ", self.status);
                    [version.as_bytes(), self.reason(), b"\r\n"].concat()
                }
            };
            assert_eq!(self.bytes(self.line), expected, "the start line is not canonical");
            assert!(self.protocol.is_empty());
        }
        let mut live = 0;
        for (index, field) in self.fields.iter().enumerate() {
            if field.is_removed() {
                continue;
            }
            let name = self.bytes(field.name);
            assert_eq!(name.len(), field.name.len as usize, "name of field {index} out of range");
            assert!(!name.iter().any(u8::is_ascii_uppercase), "name of field {index} has upper case");
            assert_eq!(HeaderId::from_lower(name), field.id, "id of field {index}");
            assert_eq!(self.bytes(field.value).len(), field.value.len as usize);
            live += name.len() + field.value.len as usize + 4;
            if field.is_canonical() {
                let start = field.name.off as usize;
                let end = field.value.end() as usize + 2;
                let expected = [name, b": ", self.bytes(field.value), b"\r\n"].concat();
                assert_eq!(self.store.get(start..end), Some(&expected[..]), "field {index} is not canonical");
            }
            if field.id != HeaderId::Other {
                let earlier =
                    self.fields[..index].iter().filter(|f| !f.is_removed() && f.id == field.id).count();
                let found = self.get_all(field.id).nth(earlier).map(|found| found.index);
                assert_eq!(found, Some(index), "field {index} is not found by its name");
            }
        }
        assert_eq!(live, self.live, "bytes of live fields");
    }
}

impl fmt::Debug for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Request => writeln!(
                f,
                "{} {} {:?}",
                self.method_bytes().escape_ascii(),
                self.target().escape_ascii(),
                self.version
            )?,
            Kind::Response => {
                writeln!(f, "{:?} {} {}", self.version, self.status, self.reason().escape_ascii())?
            }
        }
        for field in self.fields() {
            writeln!(f, "{}: {}", field.name.escape_ascii(), field.value.escape_ascii())?;
        }
        Ok(())
    }
}

fn append_canonical(store: &mut Vec<u8>, name: &[u8], value: &[u8]) -> (Span, Span) {
    let start = store.len();
    store.extend_from_slice(name);
    store[start..].make_ascii_lowercase();
    let name = Span::new(start, store.len());
    store.extend_from_slice(b": ");
    let start = store.len();
    store.extend_from_slice(value);
    let value = Span::new(start, store.len());
    store.extend_from_slice(b"\r\n");
    (name, value)
}

fn check_method(method: &[u8]) -> Result<(), RewriteError> {
    if crate::ascii::is_token(method) { Ok(()) } else { Err(RewriteError::Invalid) }
}

fn check_target(target: &[u8]) -> Result<(), RewriteError> {
    // White space or a control byte would make a second request line out of a target.
    if target.is_empty() || target.iter().any(|&b| b <= b' ' || b == 0x7f) {
        return Err(RewriteError::Invalid);
    }
    Ok(())
}

fn check_value(value: &[u8]) -> Result<(), RewriteError> {
    // Numbers and words are looked at faster than a search begins.
    let is_bad = match value.len() {
        ..16 => value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)),
        _ => memchr::memchr3(b'\r', b'\n', 0, value).is_some(),
    };
    if is_bad {
        return Err(RewriteError::Invalid);
    }
    Ok(())
}
