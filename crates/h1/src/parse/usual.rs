//! Heads as nearly all are written: a start line with single spaces, fields with one space before the value and none behind
//! it, CR and LF at the ends of lines. Whatever is written otherwise is left to the states, from where it begins.

use thalweg_http::ascii::{is_ows, is_tchar, is_token};
use thalweg_http::head::Span;
use thalweg_http::{Head, HeaderId, Version, scan};

use super::{HeadParser, Message, Stage};

impl HeadParser {
    /// Reads what is there of a message that begins with the first byte. Whether that is all of its head.
    #[inline]
    pub(super) fn read_usual(
        &mut self,
        message: Message,
        fields_max: usize,
        input: &[u8],
        head: &mut Head,
    ) -> bool {
        let line_end = match message {
            Message::Request => self.usual_request_line(input),
            Message::Response => self.usual_status_line(input),
            Message::Trailers => None,
        };
        let Some(line_end) = line_end else { return false };
        head.clear();
        self.stage = Stage::FieldStart;
        self.at = usual_fields(input, line_end, fields_max, head);
        let is_complete = input.get(self.at..self.at + 2) == Some(b"\r\n");
        if is_complete {
            self.at += 2;
        }
        is_complete
    }

    /// A request line of a version the proxy speaks, with nothing to relax. Returns the offset of what follows.
    #[inline]
    fn usual_request_line(&mut self, input: &[u8]) -> Option<usize> {
        let method_end = input.iter().position(|&byte| !is_tchar(byte))?;
        if method_end == 0 || input[method_end] != b' ' {
            return None;
        }
        let target = method_end + 1;
        let target_end = scan::target_end(input, target);
        let (b" HTTP/1.", rest) = input.get(target_end..)?.split_first_chunk()? else { return None };
        let minor = match rest.first_chunk()? {
            [minor @ (b'0' | b'1'), b'\r', b'\n'] if target_end != target => minor - b'0',
            _ => return None,
        };
        let line_end = target_end + b" HTTP/1.1\r\n".len();
        self.first = Span::new(0, method_end);
        self.second = Span::new(target, target_end);
        self.line = Span::new(0, line_end);
        self.version = Version { major: 1, minor };
        Some(line_end)
    }

    /// A status line, whose reason may be empty.
    #[inline]
    fn usual_status_line(&mut self, input: &[u8]) -> Option<usize> {
        let (version, rest) = input.split_first_chunk()?;
        let minor = match version {
            b"HTTP/1.1" => 1,
            b"HTTP/1.0" => 0,
            _ => return None,
        };
        let status = match rest.first_chunk()? {
            [b' ', first @ b'1'..=b'9', second @ b'0'..=b'9', third @ b'0'..=b'9', b' '] => {
                [first, second, third].map(|digit| u32::from(digit - b'0'))
            }
            _ => return None,
        };
        let reason = b"HTTP/1.1 200 ".len();
        let end = scan::control(input, reason);
        if input.get(end..end + 2)? != b"\r\n" || input[reason] == b' ' {
            return None;
        }
        self.status = status[0] * 100 + status[1] * 10 + status[2];
        self.second = Span::new(reason, end);
        self.line = Span::new(0, end + 2);
        self.version = Version { major: 1, minor };
        Some(end + 2)
    }
}

/// Names are looked for in so many bytes, so that a line without a colon is not searched to the end of all that is there.
const NAME_MAX: usize = 64;

/// Reads fields from `at` on, until there is one that is not as usual or not all here, or `max` of them are in the head. Returns
/// the offset of what follows.
pub(super) fn usual_fields(input: &[u8], mut at: usize, max: usize, head: &mut Head) -> usize {
    while head.parsed_len() < max
        && input.get(at).is_some_and(|&byte| byte != b'\r')
        && let Some(field) = usual_field(input, at)
    {
        at = field.next;
        head.push_parsed(field.id, field.name, field.value, true);
    }
    at
}

struct UsualField {
    id: HeaderId,
    name: Span,
    value: Span,
    /// Where the next line begins.
    next: usize,
}

/// Reads a field that is all here, with the first byte of the next line: by that it is known that the value does not go on.
#[inline]
fn usual_field(input: &[u8], at: usize) -> Option<UsualField> {
    let name_end = scan::colon(&input[..input.len().min(at + NAME_MAX)], at);
    let name = input.get(at..name_end)?;
    let id = HeaderId::from_name(name);
    // A name that is known needs no look at its characters.
    if id == HeaderId::Other && !is_token(name) {
        return None;
    }
    let start = name_end + 2;
    if input.get(name_end..start)? != b": " {
        return None;
    }
    let end = scan::control(input, start);
    // Nothing to trim.
    if let [] | [b' ', ..] | [.., b' '] = input.get(start..end)? {
        return None;
    }
    match input.get(end..end + 3)? {
        [b'\r', b'\n', next] if !is_ows(*next) => {}
        _ => return None,
    }
    Some(UsualField { id, name: Span::new(at, name_end), value: Span::new(start, end), next: end + 2 })
}
