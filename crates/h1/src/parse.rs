//! The head parser: a state machine over bytes that keeps its place between calls.
//!
//! The input always begins where the message began and only grows. Every byte is looked at once: when
//! the input ends, the state and the position are kept, and the next call goes on from there. The result
//! does not depend on where the input was cut.
//!
//! ```text
//! request:   Leading > Method > MethodSpace > Target > TargetSpace > Version > LineEnd
//! response:  Leading > Protocol > ProtocolSpace > Status > StatusSpace > Reason > LineEnd
//! then:      FieldStart > Name > ValueStart > Value > ValueEnd > Fold > FieldStart ... > HeadEnd
//! ```

use thalweg_http::ascii::{is_ows, is_target_byte, is_tchar};
use thalweg_http::head::Span;
use thalweg_http::scan;
use thalweg_http::semantics::{self, FramingPolicy, RequestContext, Strictness};
use thalweg_http::values::list_with_empty;
use thalweg_http::{Head, Version};

use crate::error::{ParseError, ParseErrorKind};

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
        let done = self.scan(message, options, bounded, head);
        match done {
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

    /// Walks the input. `Ok(true)` when the empty line was passed.
    fn scan(
        &mut self,
        message: Message,
        options: &ParseOptions,
        input: &[u8],
        head: &mut Head,
    ) -> Result<bool, ParseError> {
        let relaxed = options.framing.strictness == Strictness::Relaxed;
        let strict = options.framing.strictness == Strictness::Strict;
        let mut at = self.at;
        // Ends the call when the input does, keeping the place.
        macro_rules! byte {
            () => {
                match input.get(at) {
                    Some(&byte) => byte,
                    None => {
                        self.at = at;
                        return Ok(false);
                    }
                }
            };
        }
        macro_rules! fail {
            ($kind:ident) => {{
                self.at = at;
                return Err(ParseError { kind: ParseErrorKind::$kind, offset: at });
            }};
        }
        // One space and no other white space: what follows is read at once (RFC 9112 section 3).
        macro_rules! one_space {
            ($kind:ident, $next:ident) => {{
                if input[at] != b' ' {
                    fail!($kind);
                }
                at += 1;
                self.mark = at;
                self.stage = Stage::$next;
            }};
        }
        // A line may end with a LF alone unless the proxy is strict (RFC 9112 section 2.2).
        macro_rules! line_end {
            () => {
                if byte!() == b'\r' {
                    if at + 1 >= input.len() {
                        self.at = at;
                        return Ok(false);
                    }
                    at += 1;
                    if input[at] != b'\n' {
                        fail!(LoneCr);
                    }
                } else if strict {
                    fail!(BareLf);
                }
                at += 1;
            };
        }
        macro_rules! skip_while {
            ($byte:ident, $test:expr) => {
                loop {
                    let $byte = byte!();
                    if !$test {
                        break;
                    }
                    at += 1;
                }
            };
        }
        loop {
            match self.stage {
                Stage::Leading => {
                    if message == Message::Trailers {
                        head.clear();
                        self.stage = Stage::FieldStart;
                        continue;
                    }
                    // Empty lines before a message are forgiven (RFC 9112 section 2.2).
                    match byte!() {
                        b'\n' if strict => fail!(BareLf),
                        b'\n' => at += 1,
                        b'\r' => {
                            if at + 1 >= input.len() {
                                self.at = at;
                                return Ok(false);
                            }
                            at += 1;
                            if input[at] != b'\n' {
                                fail!(LoneCr);
                            }
                            at += 1;
                        }
                        _ => {
                            head.clear();
                            self.mark = at;
                            self.stage = match message {
                                Message::Response => Stage::Protocol,
                                _ => Stage::Method,
                            };
                            let next = match message {
                                Message::Response => self.usual_status_line(input, at),
                                _ => self.usual_request_line(input, at),
                            };
                            if let Some(next) = next {
                                at = next;
                                self.stage = Stage::FieldStart;
                            }
                        }
                    }
                }
                Stage::Method => {
                    skip_while!(byte, is_tchar(byte));
                    if !is_ows(input[at]) || at == self.mark {
                        fail!(BadMethod);
                    }
                    self.first = Span::new(self.mark, at);
                    self.stage = Stage::MethodSpace;
                    if strict {
                        one_space!(BadMethod, Target);
                    }
                }
                Stage::MethodSpace => {
                    skip_while!(byte, is_ows(byte));
                    self.mark = at;
                    self.stage = Stage::Target;
                }
                Stage::Target => {
                    skip_while!(byte, is_target_byte(byte) || (relaxed && (byte >= 0x80 || byte == b'#')));
                    if at == self.mark {
                        fail!(BadTargetByte);
                    }
                    self.second = Span::new(self.mark, at);
                    match input[at] {
                        b' ' | b'\t' if strict => one_space!(BadTargetByte, Version),
                        b' ' | b'\t' => self.stage = Stage::TargetSpace,
                        b'\r' | b'\n' => {
                            self.mark = at;
                            self.stage = Stage::Version;
                        }
                        _ => fail!(BadTargetByte),
                    }
                }
                Stage::TargetSpace => {
                    skip_while!(byte, is_ows(byte));
                    self.mark = at;
                    self.stage = Stage::Version;
                }
                Stage::Version => {
                    loop {
                        let byte = byte!();
                        if matches!(byte, b'\r' | b'\n') {
                            break;
                        }
                        if !is_version_byte(byte, at - self.mark, relaxed) {
                            fail!(BadVersion);
                        }
                        at += 1;
                    }
                    let text = &input[self.mark..at];
                    if text.is_empty() && relaxed && &input[self.first.range()] == b"GET" {
                        // A request of HTTP/0.9 ends with its line. It is forwarded as one of HTTP/1.0.
                        self.version = Version::HTTP_10;
                        self.violations = true;
                        self.stage = Stage::HeadEnd;
                        continue;
                    }
                    if !self.settle_version(text, options.framing.strictness) {
                        fail!(BadVersion);
                    }
                    self.stage = Stage::LineEnd;
                }
                Stage::Protocol => {
                    loop {
                        let byte = byte!();
                        if is_ows(byte) {
                            break;
                        }
                        if !is_version_byte(byte, at - self.mark, relaxed) {
                            fail!(BadVersion);
                        }
                        at += 1;
                    }
                    if !self.settle_version(&input[self.mark..at], options.framing.strictness) {
                        fail!(BadVersion);
                    }
                    self.stage = Stage::ProtocolSpace;
                    if strict {
                        self.status = 0;
                        one_space!(BadVersion, Status);
                    }
                }
                Stage::ProtocolSpace => {
                    skip_while!(byte, is_ows(byte));
                    self.mark = at;
                    self.status = 0;
                    self.stage = Stage::Status;
                }
                Stage::Status => {
                    loop {
                        let byte = byte!();
                        if !byte.is_ascii_digit() {
                            break;
                        }
                        self.status = self.status * 10 + u32::from(byte - b'0');
                        // Relaxed: more digits, as long as the number fits in 16 bits.
                        let too_long = if relaxed { self.status >= 65535 } else { at - self.mark >= 3 };
                        if too_long || at - self.mark >= 8 {
                            fail!(BadStatus);
                        }
                        at += 1;
                    }
                    if at - self.mark < 3 || self.status < 100 {
                        fail!(BadStatus);
                    }
                    match input[at] {
                        b' ' | b'\t' => self.stage = Stage::StatusSpace,
                        b'\r' | b'\n' => {
                            self.second = Span::new(at, at);
                            self.stage = Stage::LineEnd;
                        }
                        _ => fail!(BadStatus),
                    }
                }
                Stage::StatusSpace => {
                    skip_while!(byte, is_ows(byte));
                    self.mark = at;
                    self.stage = Stage::Reason;
                }
                Stage::Reason => {
                    match memchr::memchr3(b'\r', b'\n', 0, &input[at..]) {
                        Some(found) => at += found,
                        None => {
                            self.at = input.len();
                            return Ok(false);
                        }
                    }
                    if input[at] == 0 {
                        if !relaxed {
                            fail!(BadReason);
                        }
                        self.violations = true;
                        at += 1;
                        continue;
                    }
                    self.second = Span::new(self.mark, at);
                    self.stage = Stage::LineEnd;
                }
                Stage::LineEnd => {
                    line_end!();
                    self.stage = Stage::FieldStart;
                }
                Stage::FieldStart => {
                    while head.parsed_len() < options.fields_max
                        && let Some(next) = usual_field(input, at, head)
                    {
                        at = next;
                    }
                    match byte!() {
                        b'\r' | b'\n' => {
                            self.stage = Stage::HeadEnd;
                            continue;
                        }
                        // Only the first field can begin so: after another it is a folding.
                        b' ' | b'\t' if !relaxed => fail!(LeadingWhitespace),
                        _ => {}
                    }
                    self.mark = at;
                    self.skip_field = false;
                    self.stage = Stage::Name;
                }
                Stage::Name => {
                    loop {
                        let byte = byte!();
                        if is_tchar(byte) {
                            at += 1;
                            continue;
                        }
                        if byte == b':' && at > self.mark {
                            break;
                        }
                        // Relaxed: a bad name is read, and its field is dropped. A line end would change
                        // where the next field begins, so it is never forgiven; nor is an empty name.
                        if !relaxed || matches!(byte, b'\r' | b'\n' | b':') {
                            fail!(BadFieldName);
                        }
                        self.skip_field = true;
                        self.violations = true;
                        at += 1;
                    }
                    self.name = Span::new(self.mark, at);
                    at += 1;
                    self.folded = false;
                    self.stage = Stage::ValueStart;
                }
                Stage::ValueStart => {
                    skip_while!(byte, is_ows(byte));
                    self.value_start = at;
                    self.stage = Stage::Value;
                }
                Stage::Value => {
                    match memchr::memchr3(b'\r', b'\n', 0, &input[at..]) {
                        Some(found) => at += found,
                        None => {
                            self.at = input.len();
                            return Ok(false);
                        }
                    }
                    if input[at] == 0 {
                        if !relaxed {
                            fail!(BadFieldValue);
                        }
                        self.violations = true;
                        at += 1;
                        continue;
                    }
                    self.mark = at;
                    self.stage = Stage::ValueEnd;
                }
                Stage::ValueEnd => {
                    line_end!();
                    self.stage = Stage::Fold;
                }
                Stage::Fold => {
                    if is_ows(byte!()) {
                        if strict {
                            fail!(Folding);
                        }
                        // An obsolete line folding: the value goes on (RFC 9112 section 5.2).
                        if self.mark == self.value_start {
                            // Nothing of the value was seen yet: it begins on this line.
                            self.stage = Stage::ValueStart;
                        } else {
                            self.folded = true;
                            self.stage = Stage::Value;
                        }
                        continue;
                    }
                    self.stage = Stage::FieldStart;
                    if self.skip_field {
                        continue;
                    }
                    let mut end = self.mark;
                    while end > self.value_start && is_trailing_space(input[end - 1], self.folded) {
                        end -= 1;
                    }
                    let value = Span::new(self.value_start, end);
                    if head.parsed_len() >= options.fields_max
                        && self.are_too_many(options.fields_max, head, input, (self.name, value))
                    {
                        fail!(TooManyFields);
                    }
                    let name_end = self.name.end() as usize;
                    let canonical = !self.folded
                        && self.value_start == name_end + 2
                        && input[name_end + 1] == b' '
                        && end == self.mark
                        && input[end] == b'\r';
                    if self.folded {
                        head.mark_folded();
                    }
                    head.push_parsed(self.name, value, canonical);
                }
                Stage::HeadEnd => {
                    line_end!();
                    self.at = at;
                    return Ok(true);
                }
            }
        }
    }

    /// Whether a head that has as many fields as it may have must not get another one. Fields that only say whether the
    /// connection is kept do not count: they are gone before anybody looks at the head. There may be as many of them again,
    /// so that the number of fields stays small.
    #[cold]
    fn are_too_many(&mut self, max: usize, head: &Head, input: &[u8], next: (Span, Span)) -> bool {
        let len = head.parsed_len();
        if len >= 2 * max {
            return true;
        }
        let is_uncounted = |(name, value): &(Span, Span)| {
            let is_kept = |option: &[u8]| {
                option.eq_ignore_ascii_case(b"close") || option.eq_ignore_ascii_case(b"keep-alive")
            };
            input[name.range()].eq_ignore_ascii_case(b"connection")
                && list_with_empty(&input[value.range()]).all(|option| option.is_empty() || is_kept(option))
        };
        if is_uncounted(&next) {
            return false;
        }
        if len - self.uncounted >= max {
            self.uncounted = head.parsed().filter(is_uncounted).count();
        }
        len - self.uncounted >= max
    }

    /// Reads the version that ends just before the current byte. Relaxed, any protocol passes for an old
    /// one; strict, only a version whose messages look like these (RFC 9110 section 2.5).
    fn settle_version(&mut self, text: &[u8], strictness: Strictness) -> bool {
        let relaxed = strictness == Strictness::Relaxed;
        match version(text) {
            Some(version) if strictness == Strictness::Strict && version.major != 1 => return false,
            Some(version) => self.version = version,
            // As the reference reads it: two digits where they are in `HTTP/1.1` count, whatever is around
            // them; another length is an old version.
            None if relaxed && text.len() == 8 && (text[5], text[7]) >= (b'1', b'1') => {
                self.version = Version::HTTP_11;
                self.violations = true;
            }
            None if relaxed && !text.is_empty() => {
                self.version = Version::HTTP_10;
                self.protocol = Span::new(self.mark, self.mark + text.len());
                self.violations = true;
            }
            None => return false,
        }
        true
    }

    /// Reads a request line as nearly all are: single spaces, nothing to relax, a version the proxy
    /// speaks, and all of it here. Returns the offset of what follows; anything else is left to the
    /// states.
    fn usual_request_line(&mut self, input: &[u8], at: usize) -> Option<usize> {
        let method_end = scan::token_end(input, at);
        if method_end == at || *input.get(method_end)? != b' ' {
            return None;
        }
        let target = method_end + 1;
        let target_end = scan::target_end(input, target);
        let minor = match input.get(target_end..target_end + 11)? {
            [b' ', b'H', b'T', b'T', b'P', b'/', b'1', b'.', minor @ (b'0' | b'1'), b'\r', b'\n'] => {
                minor - b'0'
            }
            _ => return None,
        };
        if target_end == target {
            return None;
        }
        self.first = Span::new(at, method_end);
        self.second = Span::new(target, target_end);
        self.line = Span::new(at, target_end + 11);
        self.version = Version { major: 1, minor };
        Some(target_end + 11)
    }

    /// The same for a status line, whose reason may be empty.
    fn usual_status_line(&mut self, input: &[u8], at: usize) -> Option<usize> {
        let reason = at + 13;
        let (minor, status) = match input.get(at..reason)? {
            [
                b'H',
                b'T',
                b'T',
                b'P',
                b'/',
                b'1',
                b'.',
                minor @ (b'0' | b'1'),
                b' ',
                first @ b'1'..=b'9',
                second @ b'0'..=b'9',
                third @ b'0'..=b'9',
                b' ',
            ] => (minor - b'0', [first, second, third]),
            _ => return None,
        };
        let end = scan::control(input, reason);
        if input.get(end..end + 2)? != b"\r\n" || input[reason] == b' ' {
            return None;
        }
        self.status = status.iter().fold(0, |number, digit| number * 10 + u32::from(*digit - b'0'));
        self.second = Span::new(reason, end);
        self.line = Span::new(at, end + 2);
        self.version = Version { major: 1, minor };
        Some(end + 2)
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

/// Reads a field as nearly all are written: `name: value` and CR LF, with nothing to trim and no folding,
/// all of it and the first byte of the next line being here. Returns the offset of that byte; anything
/// else is left to the states.
#[inline]
fn usual_field(input: &[u8], at: usize, head: &mut Head) -> Option<usize> {
    let name_end = scan::token_end(input, at);
    let value = name_end + 2;
    let end = match input.get(name_end..value)? {
        b": " if name_end != at => scan::control(input, value),
        _ => return None,
    };
    match input.get(end..end + 3)? {
        [b'\r', b'\n', next] if !is_ows(*next) => {}
        _ => return None,
    }
    if end == value || input[value] == b' ' || input[end - 1] == b' ' {
        return None;
    }
    head.push_parsed(Span::new(at, name_end), Span::new(value, end), true);
    Some(end + 2)
}

fn is_trailing_space(byte: u8, folded: bool) -> bool {
    is_ows(byte) || (folded && matches!(byte, b'\r' | b'\n'))
}

/// Whether `byte` may be the `index`th of a version. Strict: exactly `HTTP/d.d`.
fn is_version_byte(byte: u8, index: usize, relaxed: bool) -> bool {
    if relaxed {
        return byte.is_ascii_uppercase() || byte.is_ascii_digit() || matches!(byte, b'/' | b'.');
    }
    match index {
        0..=4 => byte == b"HTTP/"[index],
        5 | 7 => byte.is_ascii_digit(),
        6 => byte == b'.',
        _ => false,
    }
}

fn version(text: &[u8]) -> Option<Version> {
    match *text {
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
            if major.is_ascii_digit() && minor.is_ascii_digit() =>
        {
            Some(Version { major: major - b'0', minor: minor - b'0' })
        }
        _ => None,
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
