//! Heads, chunk headers and trailers as bytes.

use std::ops::Range;

use thalweg_http::semantics::decimal;
use thalweg_http::{Head, HeaderId};

use crate::case::CaseMap;

/// What the connection adds to a head when it is sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct EncodeOptions<'a> {
    /// The option to announce in a `connection` field of its own, from
    /// [`thalweg_http::semantics::connection_option`].
    pub connection: Option<&'a [u8]>,
    /// Send `proxy-connection` instead of `connection`, for a proxy behind this one that knows no other.
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
    let line = head.line_span();
    if line.is_empty() {
        start_line(head, &mut out)?;
    }
    fields(head, options, line.range(), &mut out)?;
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

/// Writes the fields behind `run`, a part of the store that is to be written first.
fn fields(head: &Head, options: &EncodeOptions<'_>, mut run: Range<usize>, out: &mut Out<'_>) -> Option<()> {
    let case = options.case.filter(|case| !case.is_empty());
    let store = head.store();
    // What is next to each other in the store, in the form it is sent in, is copied in one go.
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
    fields(trailers, options, 0..0, &mut out)?;
    out.put(b"\r\n")?;
    Some(out.at)
}

/// Whether a head announces chunks, which is what [`LAST_CHUNK`] may follow.
pub fn is_chunked(head: &Head) -> bool {
    head.has(HeaderId::TransferEncoding)
}

/// The header of a chunk of `len` bytes, as [`chunk_header`] writes it, for those who do not count
/// allocations.
pub fn chunk_of(len: u64) -> Vec<u8> {
    let mut header = [0; CHUNK_HEADER_MAX];
    let written = chunk_header(len, &mut header);
    header[..written].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::CaseMap;
    use thalweg_http::Version;

    fn head() -> Head {
        let mut head = Head::new();
        head.start_request(b"GET", b"/x", Version::HTTP_11).unwrap();
        head.push(b"host", b"a").unwrap();
        head.push(b"x-a", b"1").unwrap();
        head
    }

    fn text(head: &Head, options: &EncodeOptions<'_>) -> String {
        let mut out = Vec::new();
        encode_vec(head, options, &mut out);
        assert_eq!(out.len(), encoded_len(head, options));
        let mut exact = vec![0; out.len()];
        assert_eq!(encode_into(head, options, &mut exact), Some(out.len()));
        assert_eq!(exact, out);
        for short in 0..out.len() {
            assert_eq!(encode_into(head, options, &mut exact[..short]), None, "{short} bytes are not enough");
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn heads_are_written_with_what_the_connection_adds() {
        let mut head = head();
        assert_eq!(text(&head, &EncodeOptions::default()), "GET /x HTTP/1.1\r\nhost: a\r\nx-a: 1\r\n\r\n");
        let close = EncodeOptions { connection: Some(b"close"), ..EncodeOptions::default() };
        assert_eq!(text(&head, &close), "GET /x HTTP/1.1\r\nhost: a\r\nx-a: 1\r\nconnection: close\r\n\r\n");
        let proxy = EncodeOptions { proxy_connection: true, ..close };
        assert_eq!(
            text(&head, &proxy),
            "GET /x HTTP/1.1\r\nhost: a\r\nx-a: 1\r\nproxy-connection: close\r\n\r\n"
        );
        let mut case = CaseMap::default();
        case.add(b"host", b"Host").unwrap();
        case.add(b"connection", b"CONNECTION").unwrap();
        let adjusted = EncodeOptions { case: Some(&case), ..close };
        assert_eq!(
            text(&head, &adjusted),
            "GET /x HTTP/1.1\r\nHost: a\r\nx-a: 1\r\nCONNECTION: close\r\n\r\n"
        );
        head.start_response(Version::HTTP_10, 404, None).unwrap();
        assert_eq!(
            text(&head, &close),
            "HTTP/1.0 404 Not Found\r\nhost: a\r\nx-a: 1\r\nconnection: close\r\n\r\n"
        );
        head.set_version(Version::HTTP_2);
        head.set_status(200, Some(b"Fine")).unwrap();
        assert_eq!(text(&head, &EncodeOptions::default()), "HTTP/1.1 200 Fine\r\nhost: a\r\nx-a: 1\r\n\r\n");
    }

    #[test]
    fn edited_fields_are_written_where_they_are() {
        let mut head = head();
        head.push(b"x-b", b"2").unwrap();
        head.push(b"x-c", b"3").unwrap();
        head.replace_value(1, b"one").unwrap();
        head.remove(2);
        head.rename(3, b"X-D").unwrap();
        head.prepend(b"x-0", b"0").unwrap();
        head.check_invariants();
        assert_eq!(
            text(&head, &EncodeOptions::default()),
            "GET /x HTTP/1.1\r\nx-0: 0\r\nhost: a\r\nx-a: one\r\nx-d: 3\r\n\r\n"
        );
        head.compact();
        head.check_invariants();
        assert_eq!(
            text(&head, &EncodeOptions::default()),
            "GET /x HTTP/1.1\r\nx-0: 0\r\nhost: a\r\nx-a: one\r\nx-d: 3\r\n\r\n"
        );
    }

    #[test]
    fn chunk_headers_are_short() {
        for (size, expected) in [
            (1, "1\r\n"),
            (15, "F\r\n"),
            (16, "10\r\n"),
            (0xabc, "ABC\r\n"),
            (u64::MAX, "FFFFFFFFFFFFFFFF\r\n"),
        ] {
            assert_eq!(chunk_of(size), expected.as_bytes());
        }
    }

    #[test]
    fn trailers_follow_the_last_chunk() {
        let mut trailers = Head::new();
        let mut out = [0; 64];
        let options = EncodeOptions::default();
        let len = last_chunk_into(&trailers, &options, &mut out).unwrap();
        assert_eq!(&out[..len], LAST_CHUNK);
        trailers.push(b"X-Sum", b"1").unwrap();
        let len = last_chunk_into(&trailers, &options, &mut out).unwrap();
        assert_eq!(&out[..len], b"0\r\nx-sum: 1\r\n\r\n");
        assert_eq!(last_chunk_into(&trailers, &options, &mut out[..8]), None);
    }
}
