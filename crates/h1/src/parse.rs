//! The head parser: a state machine over bytes that keeps its place between calls ([`states`]), and a shorter way for heads
//! that are written as nearly all are ([`usual`]).
//!
//! The input always begins where the message began and only grows. Every byte is looked at once: when
//! the input ends, the state and the position are kept, and the next call goes on from there. The result
//! does not depend on where the input was cut. Who waits for long may have the fields [forgotten](HeadParser::forget_fields)
//! meanwhile: then every byte is looked at twice.
//!
//! ```text
//! request:   Leading > Method > MethodSpace > Target > TargetSpace > Version > LineEnd
//! response:  Leading > Protocol > ProtocolSpace > Status > StatusSpace > Reason > LineEnd
//! then:      FieldStart > Name > ValueStart > Value > ValueEnd > Fold > FieldStart ... > HeadEnd
//! ```

mod states;
mod usual;

use thalweg_http::head::Span;
use thalweg_http::semantics::{self, FramingPolicy, RequestContext};
use thalweg_http::{Head, Version};

use crate::error::{ParseError, ParseErrorKind};
use states::Reading;

/// The limits and relaxations of a proxy.
#[derive(Clone, Copy, Debug)]
pub struct ParseOptions {
    /// The largest head in bytes, its empty line included (`tune.bufsize` less `tune.maxrewrite`).
    pub head_max: usize,
    /// The largest number of fields: `tune.http.maxhdr` less one, because that counts the first line.
    pub fields_max: usize,
    /// What is relaxed.
    pub framing: FramingPolicy,
}

impl Default for ParseOptions {
    fn default() -> Self {
        Self { head_max: 16384 - 1024, fields_max: 100, framing: FramingPolicy::default() }
    }
}

/// What the parser has so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// The head is not complete: call again with more input.
    Partial,
    /// The head is complete and was judged; the body begins at this offset of the input.
    Complete(usize),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Leading,
    Method,
    MethodSpace,
    Target,
    TargetSpace,
    Version,
    Protocol,
    ProtocolSpace,
    Status,
    StatusSpace,
    Reason,
    LineEnd,
    FieldStart,
    Name,
    ValueStart,
    Value,
    ValueEnd,
    Fold,
    HeadEnd,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Message {
    Request,
    Response,
    Trailers,
}

/// A resumable parser of one head. [`HeadParser::reset`] makes it ready for the next.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeadParser {
    stage: Stage,
    /// The first byte that was not looked at.
    at: usize,
    /// Where the element being read began.
    mark: usize,
    first: Span,
    second: Span,
    /// The start line, if it is as the encoder writes it.
    line: Span,
    version: Version,
    /// The version as written, if it is not `HTTP/d.d`.
    protocol: Span,
    status: u32,
    name: Span,
    value_start: usize,
    folded: bool,
    skip_field: bool,
    violations: bool,
    /// Fields that do not count towards their number, as far as that was asked for.
    uncounted: usize,
    /// Fields that were forgotten, and those of them that do not count.
    forgotten: usize,
    forgotten_uncounted: usize,
}

type Step = Result<Parsed, ParseError>;

impl HeadParser {
    /// A parser at the start of a message.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets everything, for the next message.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// Forgets the fields that were read from `input` into `head` so far. A head that waits for more may do so for long, and
    /// they take more memory than they are worth: once it is complete it is read again.
    pub fn forget_fields(&mut self, input: &[u8], head: &mut Head) {
        self.forgotten += head.parsed_len();
        self.forgotten_uncounted += states::uncounted(head, input);
        head.clear();
    }

    /// Whether any byte of a message was seen; empty lines before it do not count.
    pub fn has_started(&self) -> bool {
        self.stage != Stage::Leading
    }

    fn in_start_line(&self) -> bool {
        !matches!(
            self.stage,
            Stage::FieldStart
                | Stage::Name
                | Stage::ValueStart
                | Stage::Value
                | Stage::ValueEnd
                | Stage::Fold
                | Stage::HeadEnd
        )
    }

    /// Whether something was accepted only because the proxy's option relaxes the rules, which
    /// `show errors` reports.
    pub fn accepted_violations(&self) -> bool {
        self.violations
    }

    /// Reads a request head into `head`, which is cleared when the message begins.
    ///
    /// `input` begins at the same byte as in the call before.
    ///
    /// # Errors
    /// A [`ParseError`]: the connection has no next message. The head then has whatever was read of the
    /// start line, for the log.
    pub fn parse_request(&mut self, options: &ParseOptions, input: &[u8], head: &mut Head) -> Step {
        self.run(Message::Request, options, &RequestContext::default(), input, head)
    }

    /// Reads a response head into `head`, which is cleared when the message begins. `request` is what
    /// the server was asked.
    ///
    /// # Errors
    /// As [`HeadParser::parse_request`].
    pub fn parse_response(
        &mut self,
        options: &ParseOptions,
        request: &RequestContext,
        input: &[u8],
        head: &mut Head,
    ) -> Step {
        self.run(Message::Response, options, request, input, head)
    }

    /// Reads a trailer section, up to and with its empty line, into the fields of `head`.
    ///
    /// # Errors
    /// As [`HeadParser::parse_request`].
    pub fn parse_trailers(&mut self, options: &ParseOptions, input: &[u8], head: &mut Head) -> Step {
        self.run(Message::Trailers, options, &RequestContext::default(), input, head)
    }

    fn run(
        &mut self,
        message: Message,
        options: &ParseOptions,
        request: &RequestContext,
        input: &[u8],
        head: &mut Head,
    ) -> Step {
        // Nothing beyond the limit is looked at, so that the verdict does not depend on how much more
        // was received.
        let bounded = &input[..input.len().min(options.head_max)];
        let is_usual = self.at == 0
            && self.stage == Stage::Leading
            && self.read_usual(message, options.fields_max, bounded, head);
        let done = match is_usual {
            true => Ok(true),
            false => self.walk(&Reading::new(message, options, bounded), head),
        };
        match done {
            Ok(true) if self.forgotten > 0 => {
                self.reset();
                self.run(message, options, request, input, head)
            }
            Ok(true) => self.finish(message, options, request, bounded, head),
            Ok(false) if input.len() >= options.head_max => {
                let kind = if self.in_start_line() {
                    ParseErrorKind::StartLineTooLong
                } else {
                    ParseErrorKind::HeadTooLarge
                };
                self.salvage(message, bounded, head);
                Err(ParseError { kind, offset: options.head_max })
            }
            Ok(false) => Ok(Parsed::Partial),
            Err(error) => {
                self.salvage(message, bounded, head);
                Err(error)
            }
        }
    }

    fn finish(
        &mut self,
        message: Message,
        options: &ParseOptions,
        request: &RequestContext,
        input: &[u8],
        head: &mut Head,
    ) -> Step {
        head.load(&input[..self.at]);
        match message {
            Message::Request => {
                head.set_parsed_request(self.first, self.second, self.version, self.line);
            }
            Message::Response => {
                head.set_parsed_response(self.version, self.status as u16, self.second, self.line);
            }
            Message::Trailers => {}
        }
        head.set_odd_protocol(self.protocol);
        head.settle_fields();
        match message {
            Message::Request => {
                semantics::accept_request(head, options.framing)?;
            }
            Message::Response => {
                semantics::accept_response(head, request, options.framing)?;
            }
            Message::Trailers => semantics::accept_trailers(head, options.framing)?,
        }
        Ok(Parsed::Complete(self.at))
    }

    /// Leaves what was read of a bad message in the head, so that a log line can show it.
    fn salvage(&self, message: Message, input: &[u8], head: &mut Head) {
        let known = self.at.min(input.len());
        head.load(&input[..known]);
        let inside = |span: Span| if span.end() as usize <= known { span } else { Span::default() };
        match message {
            Message::Request => {
                let (method, target) = (inside(self.first), inside(self.second));
                head.set_parsed_request(method, target, self.version, Span::default());
            }
            Message::Response => {
                let (status, reason) = (self.status as u16, inside(self.second));
                head.set_parsed_response(self.version, status, reason, Span::default());
            }
            Message::Trailers => {}
        }
        head.settle_fields();
    }
}

/// Whether `input` is, or may become, the connection preface of HTTP/2 (RFC 9113 section 3.4):
/// `Some(true)` when it is complete, `None` when more is needed.
pub fn is_h2_preface(input: &[u8]) -> Option<bool> {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let len = input.len().min(PREFACE.len());
    if input[..len] != PREFACE[..len] {
        return Some(false);
    }
    (len == PREFACE.len()).then_some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(input: &[u8]) -> (Step, Head) {
        let mut head = Head::new();
        let result = HeadParser::new().parse_request(&ParseOptions::default(), input, &mut head);
        (result, head)
    }

    /// Compared with the reference, whose `tune.http.maxhdr` counts the first line as well.
    #[test]
    fn fields_about_the_connection_do_not_count() {
        let options = ParseOptions { fields_max: 3, ..ParseOptions::default() };
        let reads = |fields: &str| {
            let input = format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
            let mut head = Head::new();
            HeadParser::new().parse_request(&options, input.as_bytes(), &mut head).is_ok()
        };
        assert!(reads("a: 1\r\nb: 2\r\n"));
        assert!(!reads("a: 1\r\nb: 2\r\nc: 3\r\n"));
        for value in ["close", "Keep-Alive", "close, keep-alive", "", " , close,"] {
            assert!(reads(&format!("a: 1\r\nb: 2\r\nConnection: {value}\r\n")), "{value}");
            assert!(
                reads(&format!("connection: {value}\r\na: 1\r\nCONNECTION: {value}\r\nb: 2\r\n")),
                "{value}"
            );
            assert!(!reads(&format!("Connection: {value}\r\na: 1\r\nb: 2\r\nc: 3\r\n")), "{value}");
        }
        for other in [
            "Connection: foo",
            "Connection: close, foo",
            "Connection: upgrade",
            "Keep-Alive: 5",
            "TE: trailers",
        ] {
            assert!(!reads(&format!("a: 1\r\nb: 2\r\n{other}\r\n")), "{other}");
        }
        let many = "Connection: close\r\n".repeat(4);
        assert!(!reads(&format!("a: 1\r\nb: 2\r\n{many}")), "there is a limit to them as well");
    }

    #[test]
    fn a_request_is_read_normalised_and_written_back() {
        let input = b"GET /x?y HTTP/1.1\r\nHost: a\r\nX-A:  b \r\nConnection: keep-alive\r\n\r\nrest";
        let (result, head) = parse(input);
        assert_eq!(result, Ok(Parsed::Complete(input.len() - 4)));
        head.check_invariants();
        let mut out = Vec::new();
        crate::encode_vec(&head, &crate::EncodeOptions::default(), &mut out);
        assert_eq!(out, b"GET /x?y HTTP/1.1\r\nhost: a\r\nx-a: b\r\n\r\n");
    }

    /// What the encoder copies from the store is what was received only as long as nobody changed it.
    #[test]
    fn a_start_line_that_was_edited_is_written_anew() {
        let written = |head: &Head| {
            head.check_invariants();
            let mut out = Vec::new();
            crate::encode_vec(head, &crate::EncodeOptions::default(), &mut out);
            String::from_utf8(out).unwrap_or_default()
        };
        let request = |edit: fn(&mut Head)| {
            let (_, mut head) = parse(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
            assert!(!head.line_span().is_empty());
            edit(&mut head);
            written(&head)
        };
        assert_eq!(request(|_| ()), "GET /a HTTP/1.1\r\nhost: h\r\n\r\n");
        assert_eq!(request(|h| h.set_method(b"PUT").unwrap()), "PUT /a HTTP/1.1\r\nhost: h\r\n\r\n");
        assert_eq!(request(|h| h.set_target(b"/b").unwrap()), "GET /b HTTP/1.1\r\nhost: h\r\n\r\n");
        assert_eq!(request(|h| h.set_version(Version::HTTP_10)), "GET /a HTTP/1.0\r\nhost: h\r\n\r\n");
        assert_eq!(request(|h| h.remove(0)), "GET /a HTTP/1.1\r\n\r\n");
        assert_eq!(request(Head::compact), "GET /a HTTP/1.1\r\nhost: h\r\n\r\n");
        let response = |input: &[u8], edit: fn(&mut Head)| {
            let mut head = Head::new();
            let (options, asked) = (ParseOptions::default(), RequestContext::default());
            let parsed = HeadParser::new().parse_response(&options, &asked, input, &mut head);
            assert!(matches!(parsed, Ok(Parsed::Complete(_))));
            edit(&mut head);
            written(&head)
        };
        let ok = b"HTTP/1.0 200 Fine\r\nage: 1\r\n\r\n";
        assert_eq!(response(ok, |_| ()), "HTTP/1.0 200 Fine\r\nage: 1\r\n\r\n");
        assert_eq!(response(ok, |h| h.set_version(Version::HTTP_11)), "HTTP/1.1 200 Fine\r\nage: 1\r\n\r\n");
        assert_eq!(
            response(ok, |h| h.set_status(404, None).unwrap()),
            "HTTP/1.0 404 Not Found\r\nage: 1\r\n\r\n"
        );
        for odd in ["HTTP/1.1 200 \r\n\r\n", "HTTP/1.1 200\r\n\r\n", "HTTP/1.1  200  OK\r\n\r\n"] {
            assert_eq!(response(odd.as_bytes(), |_| ()), "HTTP/1.1 200 OK\r\n\r\n", "{odd:?}");
        }
    }

    #[test]
    fn the_preface_of_http2_is_recognised_as_it_comes() {
        assert_eq!(is_h2_preface(b""), None);
        assert_eq!(is_h2_preface(b"PRI * HT"), None);
        assert_eq!(is_h2_preface(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nxx"), Some(true));
        assert_eq!(is_h2_preface(b"PRX"), Some(false));
        assert_eq!(is_h2_preface(b"GET / HTTP/1.1\r\n\r\nxxxxxxxxxxxxxxx"), Some(false));
    }
}
