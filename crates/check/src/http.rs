//! The HTTP side of checks: writing a request, reading one response.

use std::convert::Infallible;

use thalweg_h1::{ChunkDecoder, ChunkEvent, HeadParser, ParseOptions, Parsed};
use thalweg_http::semantics::{BodyLength, Framing, RequestContext, is_interim};
use thalweg_http::{Head, Method};

use crate::program::HttpRequest;

/// A response as far as it arrived.
pub(crate) struct Response {
    parser: HeadParser,
    pub head: Head,
    context: RequestContext,
    chunks: ChunkDecoder,
    /// Where the body's next byte is in the input, once the head is complete.
    body_at: Option<usize>,
    pub body: Vec<u8>,
    pub complete: bool,
    /// What came behind the body.
    pub trailers: Head,
    /// Where the head begins: behind interim responses.
    head_at: usize,
}

/// The response breaks the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

impl Response {
    /// A response to a request of this method.
    pub fn new(method: &[u8], upgrade: bool) -> Response {
        Response {
            parser: HeadParser::new(),
            head: Head::new(),
            context: RequestContext { method: Method::from_bytes(method), upgrade, websocket: false },
            chunks: ChunkDecoder::new(),
            body_at: None,
            body: Vec::new(),
            complete: false,
            trailers: Head::new(),
            head_at: 0,
        }
    }

    /// Whether the head is there.
    pub fn has_head(&self) -> bool {
        self.body_at.is_some()
    }

    /// The head came in frames, and so does the payload, of which the input has nothing else then. It goes on until no more comes.
    /// Interim responses are passed over.
    pub fn take_head(&mut self, head: &mut Head) {
        if !is_interim(head.status()) {
            std::mem::swap(&mut self.head, head);
            let framing = self.head.framing();
            self.head.set_framing(Framing { body: BodyLength::UntilClose, ..framing });
            self.body_at = Some(0);
        }
    }

    /// Reads what arrived since the last call; `input` begins at the same byte each time.
    pub fn read(&mut self, input: &[u8], last: bool) -> Result<(), Malformed> {
        let options = ParseOptions { head_max: input.len().max(16384), ..ParseOptions::default() };
        while self.body_at.is_none() {
            match self.parser.parse_response(
                &options,
                &self.context,
                input.get(self.head_at..).unwrap_or_default(),
                &mut self.head,
            ) {
                Ok(Parsed::Partial) => return Ok(()),
                // An interim response: the real one follows.
                Ok(Parsed::Complete(len)) if self.head.status() / 100 == 1 && self.head.status() != 101 => {
                    self.head_at += len;
                    self.parser.reset();
                }
                Ok(Parsed::Complete(len)) => self.body_at = Some(self.head_at + len),
                Err(_) => return Err(Malformed),
            }
        }
        let at = self.body_at.unwrap_or(input.len()).min(input.len());
        let rest = &input[at..];
        match self.head.framing().body {
            BodyLength::None | BodyLength::Tunnel => self.complete = true,
            BodyLength::Sized(len) => {
                let take = usize::try_from(len)
                    .unwrap_or(usize::MAX)
                    .saturating_sub(self.body.len())
                    .min(rest.len());
                self.body.extend_from_slice(&rest[..take]);
                self.body_at = Some(at + take);
                self.complete = self.body.len() as u64 >= len;
            }
            BodyLength::UntilClose => {
                self.body.extend_from_slice(rest);
                self.body_at = Some(input.len());
                self.complete = last;
            }
            BodyLength::Chunked => {
                let mut used = 0;
                while !self.complete {
                    let step = self
                        .chunks
                        .step(&options, &rest[used..], &mut self.trailers)
                        .map_err(|_| Malformed)?;
                    if let ChunkEvent::Data(range) = &step.event {
                        self.body.extend_from_slice(&rest[used..][range.clone()]);
                    }
                    used += step.consumed;
                    match step.event {
                        ChunkEvent::NeedMore => break,
                        ChunkEvent::End => self.complete = true,
                        _ => {}
                    }
                }
                self.body_at = Some(at + used);
            }
        }
        Ok(())
    }
}

/// A rendered request: its parts, ready to be written.
pub(crate) struct Rendered<'a> {
    pub uri: Vec<u8>,
    pub headers: Vec<(&'a [u8], Vec<u8>)>,
    pub body: Option<Vec<u8>>,
    /// `x-haproxy-server-state`.
    pub state: Option<Vec<u8>>,
}

/// The fields of a request, one after the other, as the reference has them: names in lower case, the length last.
pub(crate) fn fields<E>(
    parts: &Rendered<'_>,
    field: &mut impl FnMut(&[u8], &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    for (name, value) in &parts.headers {
        let name = name.to_ascii_lowercase();
        // The length comes from the body.
        if !matches!(&name[..], b"content-length" | b"transfer-encoding") {
            field(&name, &one_line(value))?;
        }
    }
    if let Some(state) = &parts.state {
        field(b"x-haproxy-server-state", &one_line(state))?;
    }
    match &parts.body {
        Some(body) => field(b"content-length", body.len().to_string().as_bytes()),
        None => Ok(()),
    }
}

/// A value computed from what a server said must not become a second field.
fn one_line(value: &[u8]) -> Vec<u8> {
    value.iter().copied().filter(|b| !matches!(b, b'\r' | b'\n' | 0)).collect()
}

/// Writes a request, with `connection: close` behind its fields.
pub(crate) fn write(request: &HttpRequest, parts: &Rendered<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    out.extend_from_slice(&request.method);
    out.push(b' ');
    out.extend_from_slice(if parts.uri.is_empty() { b"/" } else { &parts.uri });
    out.push(b' ');
    out.extend_from_slice(&request.version);
    out.extend_from_slice(b"\r\n");
    let mut add = |name: &[u8], value: &[u8]| {
        out.extend_from_slice(&[name, b": ", value, b"\r\n"].concat());
        Ok::<(), Infallible>(())
    };
    let Ok(()) = fields(parts, &mut add);
    let says = |(name, _): &(&[u8], Vec<u8>)| name.eq_ignore_ascii_case(b"connection");
    if !parts.headers.iter().any(says) && &request.version[..] != b"HTTP/1.0" {
        let Ok(()) = add(b"connection", b"close");
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(parts.body.as_deref().unwrap_or_default());
    out
}

/// The values of a field: itself, or its parts between commas outside quotes.
pub(crate) fn values(value: &[u8], full: bool) -> Vec<&[u8]> {
    if full {
        return vec![value];
    }
    let mut out = Vec::new();
    let (mut from, mut quoted, mut escaped) = (0, false, false);
    for (i, b) in value.iter().enumerate() {
        match b {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' if !quoted => {
                out.push(value[from..i].trim_ascii());
                from = i + 1;
            }
            _ => {}
        }
    }
    out.push(value[from..].trim_ascii());
    out
}
