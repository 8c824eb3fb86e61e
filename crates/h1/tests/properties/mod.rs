//! What must hold for any bytes at all. Used by the ordinary tests with seeded mutations, and by the
//! fuzz targets.

use thalweg_h1::{
    ChunkDecoder, ChunkError, ChunkEvent, EncodeOptions, HeadParser, ParseError, ParseOptions, Parsed,
    chunk_of, encode_vec,
};
use thalweg_http::semantics::RequestContext;
use thalweg_http::{BodyLength, FramingPolicy, Head, Method, Strictness};

/// What a head is parsed as. The first byte of a fuzzer's input chooses.
#[derive(Clone, Copy, Debug)]
pub struct Mode {
    strictness: Strictness,
    response: Option<RequestContext>,
    tight: bool,
}

impl Mode {
    pub fn from_byte(byte: u8) -> Self {
        let context = |method, upgrade, websocket| Some(RequestContext { method, upgrade, websocket });
        Self {
            strictness: match (byte & 1, byte & 64) {
                (0, 0) => Strictness::Compatible,
                (_, 0) => Strictness::Relaxed,
                _ => Strictness::Strict,
            },
            response: match byte >> 1 & 7 {
                0..=3 => None,
                4 => context(Method::Get, false, false),
                5 => context(Method::Head, false, false),
                6 => context(Method::Connect, false, false),
                _ => context(Method::Get, true, byte & 16 != 0),
            },
            tight: byte & 32 != 0,
        }
    }

    fn options(self) -> ParseOptions {
        let framing = FramingPolicy { strictness: self.strictness, ..FramingPolicy::default() };
        let mut options = ParseOptions { framing, ..ParseOptions::default() };
        if self.tight {
            options.head_max = 64;
            options.fields_max = 3;
        }
        options
    }

    fn step(self, parser: &mut HeadParser, input: &[u8], head: &mut Head) -> Result<Parsed, ParseError> {
        match &self.response {
            None => parser.parse_request(&self.options(), input, head),
            Some(request) => parser.parse_response(&self.options(), request, input, head),
        }
    }
}

fn encoded(head: &Head) -> Vec<u8> {
    let mut out = Vec::new();
    encode_vec(head, &EncodeOptions::default(), &mut out);
    assert_eq!(out.len(), head.encoded_len(), "the computed length is exact");
    out
}

/// Parses `input` whole and cut, and checks what is forwarded. Returns whether it was accepted.
pub fn head(mode: Mode, cut: usize, input: &[u8]) -> bool {
    let mut whole = Head::new();
    let mut parser = HeadParser::new();
    let result = mode.step(&mut parser, input, &mut whole);

    let mut pieces = Head::new();
    let mut parser = HeadParser::new();
    let cut = cut % (input.len() + 1);
    let mut result_cut = mode.step(&mut parser, &input[..cut], &mut pieces);
    if result_cut == Ok(Parsed::Partial) {
        result_cut = mode.step(&mut parser, input, &mut pieces);
    }
    assert_eq!(result, result_cut, "cut at {cut}");

    // The same when the fields are forgotten meanwhile.
    let mut again = Head::new();
    let mut parser = HeadParser::new();
    let mut result_again = mode.step(&mut parser, &input[..cut], &mut again);
    if result_again == Ok(Parsed::Partial) {
        parser.forget_fields(&input[..cut], &mut again);
        result_again = mode.step(&mut parser, input, &mut again);
    }
    assert_eq!(result, result_again, "forgotten at {cut}");
    if result != Ok(Parsed::Partial) {
        whole.check_invariants();
    }

    let Ok(Parsed::Complete(len)) = result else {
        if let Err(error) = result {
            assert!(error.offset <= input.len());
        }
        return false;
    };
    assert!(len <= input.len());
    let first = encoded(&whole);
    assert_eq!(first, encoded(&pieces), "cut at {cut}");
    assert_eq!(first, encoded(&again), "forgotten at {cut}");
    no_line_was_added(&whole, &first);
    another_parser_agrees(&whole, &first);

    // What the strict option accepts is read as without it.
    if mode.strictness == Strictness::Strict {
        let mut kind = Head::new();
        let compatible = Mode { strictness: Strictness::Compatible, ..mode };
        assert_eq!(compatible.step(&mut HeadParser::new(), input, &mut kind), result);
        assert_eq!((encoded(&kind), kind.framing()), (first.clone(), whole.framing()));
        assert!(
            whole.fields().all(|field| !field.value.iter().any(|&b| b < b' ' && b != b'\t' || b == 0x7f))
        );
    }

    // Whoever reads what is forwarded finds the same message.
    let mut again = Head::new();
    let mut parser = HeadParser::new();
    let roomy = Mode { tight: false, ..mode };
    assert_eq!(roomy.step(&mut parser, &first, &mut again), Ok(Parsed::Complete(first.len())));
    assert_eq!(encoded(&again), first);
    assert_eq!(whole.framing().body, again.framing().body);
    framing_is_plain(&again);
    true
}

/// A head of `n` fields has `n` lines, a start line and an empty one, whatever was in it.
fn no_line_was_added(head: &Head, bytes: &[u8]) {
    let lines = bytes.windows(2).filter(|pair| pair == b"\r\n").count();
    assert_eq!(lines, head.len() + 2);
    assert_eq!(bytes.iter().filter(|&&b| b == b'\n').count(), lines);
    assert_eq!(bytes.iter().filter(|&&b| b == b'\r').count(), lines);
    assert_eq!(bytes.windows(4).position(|four| four == b"\r\n\r\n"), Some(bytes.len() - 4));
}

/// Another parser, which knows nothing of this one, reads the same method, target and fields.
pub fn another_parser_agrees(head: &Head, bytes: &[u8]) {
    // It refuses control bytes where this one follows the reference and lets them pass.
    let odd = |text: &[u8]| text.iter().any(|&b| (b < 0x20 && b != b'\t') || b == 0x7f);
    if head.fields().any(|field| odd(field.value))
        || odd(head.reason())
        || !head.odd_protocol().is_empty()
        || bytes.len() < 16
        || (head.version().major, head.version().minor) < (1, 0)
        || head.status() > 999
        || head.reason().iter().any(|&b| b >= 0x80)
        || head.target().iter().any(|&b| b >= 0x80)
    {
        return;
    }
    let mut fields = [httparse::EMPTY_HEADER; 256];
    let list = |fields: &[httparse::Header<'_>]| {
        fields.iter().map(|field| (field.name.to_string(), field.value.to_vec())).collect::<Vec<_>>()
    };
    let found = if head.is_request() {
        let mut request = httparse::Request::new(&mut fields);
        let status = request.parse(bytes);
        assert_eq!(status, Ok(httparse::Status::Complete(bytes.len())), "{}", bytes.escape_ascii());
        assert_eq!(request.method.map(str::as_bytes), Some(head.method_bytes()));
        assert_eq!(request.path.map(str::as_bytes), Some(head.target()));
        list(request.headers)
    } else {
        let mut response = httparse::Response::new(&mut fields);
        let status = response.parse(bytes);
        assert_eq!(status, Ok(httparse::Status::Complete(bytes.len())), "{}", bytes.escape_ascii());
        assert_eq!(response.code, Some(head.status()));
        list(response.headers)
    };
    let ours: Vec<(String, Vec<u8>)> = head
        .fields()
        .map(|field| (String::from_utf8_lossy(field.name).into_owned(), field.value.to_vec()))
        .collect();
    assert_eq!(found, ours);
}

/// What is forwarded says how long it is in one way, once.
fn framing_is_plain(head: &Head) {
    use thalweg_http::HeaderId::{ContentLength, Host, TransferEncoding};
    let count = |id| head.get_all(id).count();
    assert!(count(ContentLength) + count(TransferEncoding) <= 1, "{head:?}");
    assert!(count(Host) <= 1 || !head.is_request(), "{head:?}");
    match head.framing().body {
        BodyLength::Chunked => assert_eq!(head.value(TransferEncoding), Some(&b"chunked"[..])),
        BodyLength::Sized(length) => {
            assert_eq!(head.value(ContentLength), Some(length.to_string().as_bytes()));
        }
        BodyLength::Tunnel => assert_eq!(count(ContentLength) + count(TransferEncoding), 0),
        BodyLength::None | BodyLength::UntilClose => {}
    }
}

/// A body, read to its end or to what is wrong with it.
#[derive(Debug, PartialEq)]
struct Body {
    result: Result<bool, ChunkError>,
    payload: Vec<u8>,
    trailers: Vec<u8>,
    used: usize,
    /// The body as a relay would forward it.
    relayed: Vec<u8>,
}

fn decode(strictness: Strictness, input: &[u8], cut: usize) -> Body {
    let framing = FramingPolicy { strictness, ..FramingPolicy::default() };
    let options = ParseOptions { framing, ..ParseOptions::default() };
    let mut decoder = ChunkDecoder::new();
    let mut trailers = Head::new();
    let mut body =
        Body { result: Ok(false), payload: Vec::new(), trailers: Vec::new(), used: 0, relayed: Vec::new() };
    for end in [cut, input.len()] {
        let mut steps = 0;
        loop {
            steps += 1;
            assert!(steps <= 2 * input.len() + 4, "the decoder makes no progress");
            let here = &input[body.used.min(end)..end];
            let step = match decoder.step(&options, here, &mut trailers) {
                Ok(step) => step,
                Err(error) => {
                    body.result = Err(error);
                    body.used = 0;
                    return body;
                }
            };
            assert!(step.consumed <= here.len());
            body.used += step.consumed;
            match step.event {
                ChunkEvent::NeedMore => break,
                ChunkEvent::Chunk { size, plain } => {
                    if plain {
                        body.relayed.extend_from_slice(&here[..step.consumed]);
                    } else {
                        body.relayed.extend_from_slice(&chunk_of(size));
                    }
                }
                ChunkEvent::Data(range) => {
                    assert!(!range.is_empty());
                    body.payload.extend_from_slice(&here[range.clone()]);
                    body.relayed.extend_from_slice(&here[range]);
                }
                ChunkEvent::ChunkEnd => body.relayed.extend_from_slice(b"\r\n"),
                ChunkEvent::End => {
                    let mut end = vec![0; 32768];
                    let options = EncodeOptions::default();
                    let len = thalweg_h1::encode::last_chunk_into(&trailers, &options, &mut end).unwrap();
                    body.trailers = end[..len].to_vec();
                    body.relayed.extend_from_slice(&end[..len]);
                    body.result = Ok(true);
                    trailers.check_invariants();
                    return body;
                }
            }
        }
    }
    body
}

/// Reads a chunked body whole and cut, relays it, and reads what was relayed. Returns whether it was
/// complete.
pub fn chunks(cut: usize, input: &[u8]) -> bool {
    let compatible = chunks_read(Strictness::Compatible, cut, input);
    let strict = chunks_read(Strictness::Strict, cut, input);
    assert!(strict.is_none() || strict == compatible, "strict reads another body");
    compatible.is_some()
}

/// The payload and the bytes used, if the body is complete.
fn chunks_read(strictness: Strictness, cut: usize, input: &[u8]) -> Option<(Vec<u8>, usize)> {
    let decode = |input: &[u8], cut: usize| decode(strictness, input, cut);
    let cut = cut % (input.len() + 1);
    let whole = decode(input, 0);
    let pieces = decode(input, cut);
    // How a header is relayed depends on the cut in its case only: `A` or `a`.
    assert_eq!((&whole.result, &whole.payload), (&pieces.result, &pieces.payload), "cut at {cut}");
    assert_eq!(whole.trailers, pieces.trailers);
    assert_eq!(whole.used, pieces.used);
    if whole.result != Ok(true) {
        return None;
    }
    for relayed in [&whole.relayed, &pieces.relayed] {
        let again = decode(relayed, 0);
        assert_eq!(again.result, Ok(true));
        assert_eq!(again.payload, whole.payload);
        assert_eq!(again.trailers, whole.trailers);
        assert_eq!(again.used, relayed.len());
        assert!(!relayed.contains(&b';') || whole.payload.contains(&b';') || whole.trailers.contains(&b';'));
    }
    Some((whole.payload, whole.used))
}
