//! Heads, chunk headers and trailers as bytes.

use thalweg_http::semantics::decimal;
use thalweg_http::{Head, HeaderId};

use crate::case::CaseMap;

/// What the connection adds to a head when it is sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct EncodeOptions<'a> {
    /// The option to announce in a `connection` field of its own, from
    /// [`thalweg_http::semantics::connection_option`].
    pub connection: Option<&'a [u8]>,
    /// Send `proxy-connection` instead of `connection` (`option http-use-proxy-header`).
    pub proxy_connection: bool,
    /// Names to send in another case (`option h1-case-adjust-bogus-*`).
    pub case: Option<&'a CaseMap>,
}

/// A place to write to that knows how much is left.
struct Out<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl Out<'_> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        let end = self.at + bytes.len();
        self.bytes.get_mut(self.at..end)?.copy_from_slice(bytes);
        self.at = end;
        Some(())
    }
}

/// The number of bytes [`encode_into`] writes.
pub fn encoded_len(head: &Head, options: &EncodeOptions<'_>) -> usize {
    head.encoded_len() + connection_len(options)
}

fn connection_name(options: &EncodeOptions<'_>) -> &'static [u8] {
    if options.proxy_connection { b"proxy-connection" } else { b"connection" }
}

fn connection_len(options: &EncodeOptions<'_>) -> usize {
    options.connection.map_or(0, |option| connection_name(options).len() + option.len() + 4)
}

/// Writes the head, its empty line included, at the start of `out`, and returns its length. `None` when
/// it does not fit; `out` then holds a part of it.
///
/// Versions above 1.1 are sent as 1.1, because that is what the proxy speaks.
pub fn encode_into(head: &Head, options: &EncodeOptions<'_>, out: &mut [u8]) -> Option<usize> {
    let mut out = Out { bytes: out, at: 0 };
    start_line(head, &mut out)?;
    fields(head, options, &mut out)?;
    if let Some(option) = options.connection {
        let name = connection_name(options);
        out.put(options.case.map_or(name, |case| case.adjusted(name)))?;
        out.put(b": ")?;
        out.put(option)?;
        out.put(b"\r\n")?;
    }
    out.put(b"\r\n")?;
    Some(out.at)
}

/// Appends the head to `out`.
pub fn encode_vec(head: &Head, options: &EncodeOptions<'_>, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + encoded_len(head, options), 0);
    let written = encode_into(head, options, &mut out[start..]);
    debug_assert!(written.is_some(), "the computed length is exact");
    out.truncate(start + written.unwrap_or(0));
}

fn version(head: &Head, out: &mut Out<'_>) -> Option<()> {
    let odd = head.odd_protocol();
    if !odd.is_empty() {
        return out.put(odd);
    }
    let version = head.version();
    if version.is_11_or_later() {
        return out.put(b"HTTP/1.1");
    }
    out.put(&[b'H', b'T', b'T', b'P', b'/', b'0' + version.major % 10, b'.', b'0' + version.minor % 10])
}

fn start_line(head: &Head, out: &mut Out<'_>) -> Option<()> {
    if head.is_request() {
        out.put(head.method_bytes())?;
        out.put(b" ")?;
        out.put(head.target())?;
        out.put(b" ")?;
        version(head, out)?;
        out.put(b"\r\n")
    } else {
        version(head, out)?;
        let status = head.status();
        let mut buffer = [0u8; 20];
        out.put(b" ")?;
        out.put(decimal(u64::from(status), &mut buffer))?;
        out.put(b" ")?;
        out.put(head.reason())?;
        out.put(b"\r\n")
    }
}

fn fields(head: &Head, options: &EncodeOptions<'_>, out: &mut Out<'_>) -> Option<()> {
    let case = options.case.filter(|case| !case.is_empty());
    let store = head.store();
    // Fields that are neighbours in the store, in the form they are sent in, are copied in one go.
    let mut run = 0..0usize;
    for field in head.raw_fields() {
        if field.is_removed() {
            continue;
        }
        if field.is_canonical() && case.is_none() {
            let (start, end) = (field.name.off as usize, field.value.end() as usize + 2);
            if start != run.end {
                out.put(store.get(run)?)?;
                run = start..start;
            }
            run.end = end;
            continue;
        }
        out.put(store.get(run)?)?;
        run = 0..0;
        let name = head.bytes(field.name);
        let name = case.map_or(name, |case| case.adjusted(name));
        out.put(name)?;
        out.put(b": ")?;
        out.put(head.bytes(field.value))?;
        out.put(b"\r\n")?;
    }
    out.put(store.get(run)?)
}

/// The longest chunk header: sixteen digits and a line end.
pub const CHUNK_HEADER_MAX: usize = 18;

/// Writes the header of a chunk of `len` bytes, `len` not being 0, at the start of `out` and returns the
/// length of the header. The chunk's bytes follow, then [`CHUNK_END`].
pub fn chunk_header(len: u64, out: &mut [u8; CHUNK_HEADER_MAX]) -> usize {
    let digits = (16 - (len.leading_zeros() / 4) as usize).max(1);
    for (place, byte) in out[..digits].iter_mut().enumerate() {
        let shift = 4 * (digits - 1 - place);
        *byte = b"0123456789ABCDEF"[(len >> shift) as usize & 15];
    }
    out[digits] = b'\r';
    out[digits + 1] = b'\n';
    digits + 2
}

/// What follows the bytes of a chunk.
pub const CHUNK_END: &[u8] = b"\r\n";

/// The end of a chunked body without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Writes the end of a chunked body with the fields of `trailers` at the start of `out` and returns its
/// length, or `None` when it does not fit.
pub fn last_chunk_into(trailers: &Head, options: &EncodeOptions<'_>, out: &mut [u8]) -> Option<usize> {
    let mut out = Out { bytes: out, at: 0 };
    out.put(b"0\r\n")?;
    fields(trailers, options, &mut out)?;
    out.put(b"\r\n")?;
    Some(out.at)
}

/// Whether a head announces chunks, which is what [`LAST_CHUNK`] may follow.
pub fn is_chunked(head: &Head) -> bool {
    head.has(HeaderId::TransferEncoding)
}
