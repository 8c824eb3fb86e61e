//! The states: heads in whatever way they are written, and cut.

use thalweg_http::ascii::{is_ows, is_target_byte, is_tchar};
use thalweg_http::head::Span;
use thalweg_http::semantics::Strictness;
use thalweg_http::values::list_with_empty;
use thalweg_http::{Head, HeaderId, Version};

use super::usual::usual_fields;
use super::{HeadParser, Message, ParseOptions, Stage};
use crate::error::{ParseError, ParseErrorKind};

/// What is read, and how kindly.
#[derive(Clone, Copy)]
pub(super) struct Reading<'a> {
    input: &'a [u8],
    message: Message,
    fields_max: usize,
    relaxed: bool,
    strict: bool,
}

/// Why a state does not come to the next one.
enum Halt {
    /// The input ends here.
    More,
    /// Not a head.
    Refused(ParseErrorKind),
}

type Walk<T = ()> = Result<T, Halt>;

fn refuse<T>(kind: ParseErrorKind) -> Walk<T> {
    Err(Halt::Refused(kind))
}

impl<'a> Reading<'a> {
    pub(super) fn new(message: Message, options: &ParseOptions, input: &'a [u8]) -> Reading<'a> {
        let strictness = options.framing.strictness;
        Reading {
            input,
            message,
            fields_max: options.fields_max,
            relaxed: strictness == Strictness::Relaxed,
            strict: strictness == Strictness::Strict,
        }
    }
}

impl HeadParser {
    /// Walks the input. `Ok(true)` when the empty line was passed.
    pub(super) fn walk(&mut self, reading: &Reading<'_>, head: &mut Head) -> Result<bool, ParseError> {
        loop {
            let walked = match self.stage {
                Stage::Leading => self.before_message(reading, head),
                Stage::Method => self.method(reading),
                Stage::MethodSpace => self.space(reading, Stage::Target),
                Stage::Target => self.target(reading),
                Stage::TargetSpace => self.space(reading, Stage::Version),
                Stage::Version => self.version(reading),
                Stage::Protocol => self.protocol(reading),
                Stage::ProtocolSpace => self.space(reading, Stage::Status),
                Stage::Status => self.status(reading),
                Stage::StatusSpace => self.space(reading, Stage::Reason),
                Stage::Reason => self.reason(reading),
                Stage::LineEnd => self.line_end(reading).map(|()| self.stage = Stage::FieldStart),
                Stage::FieldStart => self.field_start(reading, head),
                Stage::Name => self.name(reading),
                Stage::ValueStart => self.value_start(reading),
                Stage::Value => self.value(reading),
                Stage::ValueEnd => self.line_end(reading).map(|()| self.stage = Stage::Fold),
                Stage::Fold => self.fold(reading, head),
                Stage::HeadEnd => match self.line_end(reading) {
                    Ok(()) => return Ok(true),
                    halt => halt,
                },
            };
            match walked {
                Ok(()) => {}
                Err(Halt::More) => return Ok(false),
                Err(Halt::Refused(kind)) => return Err(ParseError { kind, offset: self.at }),
            }
        }
    }

    // ---- steps ----

    /// The byte that is looked at.
    fn byte(&self, reading: &Reading<'_>) -> Walk<u8> {
        reading.input.get(self.at).copied().ok_or(Halt::More)
    }

    /// Goes on behind the bytes that pass; returns the one that does not.
    fn skip(&mut self, reading: &Reading<'_>, passes: impl Fn(u8) -> bool) -> Walk<u8> {
        loop {
            let byte = self.byte(reading)?;
            if !passes(byte) {
                return Ok(byte);
            }
            self.at += 1;
        }
    }

    /// Goes on to what may end a value or make it a bad one.
    fn skip_text(&mut self, reading: &Reading<'_>) -> Walk<u8> {
        let input = reading.input;
        self.at = memchr::memchr3(b'\r', b'\n', 0, &input[self.at..]).map_or(input.len(), |n| self.at + n);
        self.byte(reading)
    }

    fn space(&mut self, reading: &Reading<'_>, next: Stage) -> Walk {
        self.skip(reading, is_ows)?;
        self.mark = self.at;
        self.stage = next;
        Ok(())
    }

    /// One space and no other white space: what follows is read at once (RFC 9112 section 3).
    fn one_space(&mut self, reading: &Reading<'_>, otherwise: ParseErrorKind, next: Stage) -> Walk {
        if self.byte(reading)? != b' ' {
            return refuse(otherwise);
        }
        self.at += 1;
        self.mark = self.at;
        self.stage = next;
        Ok(())
    }

    /// A line may end with a LF alone unless the proxy is strict (RFC 9112 section 2.2).
    fn line_end(&mut self, reading: &Reading<'_>) -> Walk {
        if self.byte(reading)? == b'\r' {
            return self.line_feed(reading);
        }
        if reading.strict {
            return refuse(ParseErrorKind::BareLf);
        }
        self.at += 1;
        Ok(())
    }

    /// Passes a CR and the LF behind it.
    fn line_feed(&mut self, reading: &Reading<'_>) -> Walk {
        let next = *reading.input.get(self.at + 1).ok_or(Halt::More)?;
        self.at += 1;
        if next != b'\n' {
            return refuse(ParseErrorKind::LoneCr);
        }
        self.at += 1;
        Ok(())
    }

    // ---- states of the start line ----

    /// Empty lines before a message are forgiven (RFC 9112 section 2.2).
    fn before_message(&mut self, reading: &Reading<'_>, head: &mut Head) -> Walk {
        if reading.message == Message::Trailers {
            head.clear();
            self.stage = Stage::FieldStart;
            return Ok(());
        }
        match self.byte(reading)? {
            b'\n' | b'\r' => self.line_end(reading),
            _ => {
                head.clear();
                self.mark = self.at;
                self.stage = match reading.message {
                    Message::Response => Stage::Protocol,
                    _ => Stage::Method,
                };
                Ok(())
            }
        }
    }

    fn method(&mut self, reading: &Reading<'_>) -> Walk {
        let byte = self.skip(reading, is_tchar)?;
        if !is_ows(byte) || self.at == self.mark {
            return refuse(ParseErrorKind::BadMethod);
        }
        self.first = Span::new(self.mark, self.at);
        self.stage = Stage::MethodSpace;
        if reading.strict {
            self.one_space(reading, ParseErrorKind::BadMethod, Stage::Target)?;
        }
        Ok(())
    }

    fn target(&mut self, reading: &Reading<'_>) -> Walk {
        let relaxed = reading.relaxed;
        let byte =
            self.skip(reading, |byte| is_target_byte(byte) || (relaxed && (byte >= 0x80 || byte == b'#')))?;
        if self.at == self.mark {
            return refuse(ParseErrorKind::BadTargetByte);
        }
        self.second = Span::new(self.mark, self.at);
        match byte {
            b' ' | b'\t' if reading.strict => {
                self.one_space(reading, ParseErrorKind::BadTargetByte, Stage::Version)?;
            }
            b' ' | b'\t' => self.stage = Stage::TargetSpace,
            b'\r' | b'\n' => {
                self.mark = self.at;
                self.stage = Stage::Version;
            }
            _ => return refuse(ParseErrorKind::BadTargetByte),
        }
        Ok(())
    }

    fn version(&mut self, reading: &Reading<'_>) -> Walk {
        self.skip_version(reading, |byte| matches!(byte, b'\r' | b'\n'))?;
        let text = &reading.input[self.mark..self.at];
        if text.is_empty() && reading.relaxed && &reading.input[self.first.range()] == b"GET" {
            // A request of HTTP/0.9 ends with its line. It is forwarded as one of HTTP/1.0.
            self.version = Version::HTTP_10;
            self.violations = true;
            self.stage = Stage::HeadEnd;
            return Ok(());
        }
        self.settle_version(text, reading)?;
        self.stage = Stage::LineEnd;
        Ok(())
    }

    fn protocol(&mut self, reading: &Reading<'_>) -> Walk {
        self.skip_version(reading, is_ows)?;
        self.settle_version(&reading.input[self.mark..self.at], reading)?;
        self.stage = Stage::ProtocolSpace;
        if reading.strict {
            self.one_space(reading, ParseErrorKind::BadVersion, Stage::Status)?;
        }
        Ok(())
    }

    fn skip_version(&mut self, reading: &Reading<'_>, is_end: impl Fn(u8) -> bool) -> Walk {
        let mark = self.mark;
        loop {
            let byte = self.byte(reading)?;
            if is_end(byte) {
                return Ok(());
            }
            if !is_version_byte(byte, self.at - mark, reading.relaxed) {
                return refuse(ParseErrorKind::BadVersion);
            }
            self.at += 1;
        }
    }

    /// Reads the version that ends just before the current byte. Relaxed, any protocol passes for an old
    /// one; strict, only a version whose messages look like these (RFC 9110 section 2.5).
    fn settle_version(&mut self, text: &[u8], reading: &Reading<'_>) -> Walk {
        match version(text) {
            Some(version) if reading.strict && version.major != 1 => {
                return refuse(ParseErrorKind::BadVersion);
            }
            Some(version) => self.version = version,
            // As the reference reads it: two digits where they are in `HTTP/1.1` count, whatever is around
            // them; another length is an old version.
            None if reading.relaxed && text.len() == 8 && (text[5], text[7]) >= (b'1', b'1') => {
                self.version = Version::HTTP_11;
                self.violations = true;
            }
            None if reading.relaxed && !text.is_empty() => {
                self.version = Version::HTTP_10;
                self.protocol = Span::new(self.mark, self.mark + text.len());
                self.violations = true;
            }
            None => return refuse(ParseErrorKind::BadVersion),
        }
        Ok(())
    }

    fn status(&mut self, reading: &Reading<'_>) -> Walk {
        let mark = self.mark;
        if self.at == mark {
            self.status = 0;
        }
        let end = loop {
            let byte = self.byte(reading)?;
            if !byte.is_ascii_digit() {
                break byte;
            }
            self.status = self.status * 10 + u32::from(byte - b'0');
            // Relaxed: more digits, as long as the number fits in 16 bits.
            let too_long = if reading.relaxed { self.status >= 65535 } else { self.at - mark >= 3 };
            if too_long || self.at - mark >= 8 {
                return refuse(ParseErrorKind::BadStatus);
            }
            self.at += 1;
        };
        if self.at - mark < 3 || self.status < 100 {
            return refuse(ParseErrorKind::BadStatus);
        }
        match end {
            b' ' | b'\t' => self.stage = Stage::StatusSpace,
            b'\r' | b'\n' => {
                self.second = Span::new(self.at, self.at);
                self.stage = Stage::LineEnd;
            }
            _ => return refuse(ParseErrorKind::BadStatus),
        }
        Ok(())
    }

    fn reason(&mut self, reading: &Reading<'_>) -> Walk {
        if self.skip_text(reading)? == 0 {
            return self.pass_nul(reading, ParseErrorKind::BadReason);
        }
        self.second = Span::new(self.mark, self.at);
        self.stage = Stage::LineEnd;
        Ok(())
    }

    /// Relaxed, a NUL is let through.
    fn pass_nul(&mut self, reading: &Reading<'_>, otherwise: ParseErrorKind) -> Walk {
        if !reading.relaxed {
            return refuse(otherwise);
        }
        self.violations = true;
        self.at += 1;
        Ok(())
    }

    // ---- states of fields ----

    fn field_start(&mut self, reading: &Reading<'_>, head: &mut Head) -> Walk {
        let max = reading.fields_max.saturating_sub(self.forgotten);
        self.at = usual_fields(reading.input, self.at, max, head);
        match self.byte(reading)? {
            b'\r' | b'\n' => {
                self.stage = Stage::HeadEnd;
                return Ok(());
            }
            // Only the first field can begin so: after another it is a folding.
            b' ' | b'\t' if !reading.relaxed => return refuse(ParseErrorKind::LeadingWhitespace),
            _ => {}
        }
        self.mark = self.at;
        self.skip_field = false;
        self.stage = Stage::Name;
        Ok(())
    }

    fn name(&mut self, reading: &Reading<'_>) -> Walk {
        loop {
            let byte = self.skip(reading, is_tchar)?;
            if byte == b':' && self.at > self.mark {
                break;
            }
            // Relaxed: a bad name is read, and its field is dropped. A line end would change
            // where the next field begins, so it is never forgiven; nor is an empty name.
            if !reading.relaxed || matches!(byte, b'\r' | b'\n' | b':') {
                return refuse(ParseErrorKind::BadFieldName);
            }
            self.skip_field = true;
            self.violations = true;
            self.at += 1;
        }
        self.name = Span::new(self.mark, self.at);
        self.at += 1;
        self.folded = false;
        self.stage = Stage::ValueStart;
        Ok(())
    }

    fn value_start(&mut self, reading: &Reading<'_>) -> Walk {
        self.skip(reading, is_ows)?;
        self.value_start = self.at;
        self.stage = Stage::Value;
        Ok(())
    }

    fn value(&mut self, reading: &Reading<'_>) -> Walk {
        if self.skip_text(reading)? == 0 {
            return self.pass_nul(reading, ParseErrorKind::BadFieldValue);
        }
        self.mark = self.at;
        self.stage = Stage::ValueEnd;
        Ok(())
    }

    /// The line of a value is over: the next one goes on with it, or it is a field.
    fn fold(&mut self, reading: &Reading<'_>, head: &mut Head) -> Walk {
        if is_ows(self.byte(reading)?) {
            if reading.strict {
                return refuse(ParseErrorKind::Folding);
            }
            // An obsolete line folding: the value goes on (RFC 9112 section 5.2).
            if self.mark == self.value_start {
                // Nothing of the value was seen yet: it begins on this line.
                self.stage = Stage::ValueStart;
            } else {
                self.folded = true;
                self.stage = Stage::Value;
            }
            return Ok(());
        }
        self.stage = Stage::FieldStart;
        if self.skip_field {
            return Ok(());
        }
        self.add_field(reading, head)
    }

    fn add_field(&mut self, reading: &Reading<'_>, head: &mut Head) -> Walk {
        let input = reading.input;
        let mut end = self.mark;
        while end > self.value_start && is_trailing_space(input[end - 1], self.folded) {
            end -= 1;
        }
        let value = Span::new(self.value_start, end);
        let max = reading.fields_max;
        if self.forgotten + head.parsed_len() >= max
            && self.are_too_many(max, head, input, (self.name, value))
        {
            return refuse(ParseErrorKind::TooManyFields);
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
        head.push_parsed(HeaderId::Other, self.name, value, canonical);
        Ok(())
    }

    /// Whether a head that has as many fields as it may have must not get another one. Fields that only say whether the
    /// connection is kept do not count: they are gone before anybody looks at the head. There may be as many of them again,
    /// so that the number of fields stays small.
    #[cold]
    fn are_too_many(&mut self, max: usize, head: &Head, input: &[u8], next: (Span, Span)) -> bool {
        let len = self.forgotten + head.parsed_len();
        if len >= 2 * max {
            return true;
        }
        if is_uncounted(input, next) {
            return false;
        }
        if len - self.uncounted >= max {
            self.uncounted = self.forgotten_uncounted + uncounted(head, input);
        }
        len - self.uncounted >= max
    }
}

/// How many of the fields that were read from `input` do not count towards their number.
pub(super) fn uncounted(head: &Head, input: &[u8]) -> usize {
    head.parsed().filter(|field| is_uncounted(input, *field)).count()
}

/// Whether a field only says whether the connection is kept.
fn is_uncounted(input: &[u8], (name, value): (Span, Span)) -> bool {
    let is_kept =
        |option: &[u8]| option.eq_ignore_ascii_case(b"close") || option.eq_ignore_ascii_case(b"keep-alive");
    input[name.range()].eq_ignore_ascii_case(b"connection")
        && list_with_empty(&input[value.range()]).all(|option| option.is_empty() || is_kept(option))
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
