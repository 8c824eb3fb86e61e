//! From bytes of a TCP stream to the first handshake message: records in, one message out.

use std::borrow::Cow;

use super::{HelloError, MESSAGE_MAX};

/// The bytes of a record's header: type, version, length.
pub const HEADER: usize = 5;

/// The bytes of a handshake message before its body: type and length.
const MESSAGE_HEADER: usize = 4;

/// The largest content of a record that is sent in clear (RFC 8446 section 5.1).
pub const PLAIN_MAX: usize = 1 << 14;

/// What a record carries (RFC 8446 section 5.1).
pub mod content {
    pub const CHANGE_CIPHER_SPEC: u8 = 20;
    pub const ALERT: u8 = 21;
    pub const HANDSHAKE: u8 = 22;
    pub const APPLICATION_DATA: u8 = 23;
}

/// The first handshake message of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct First<'a> {
    /// Its type: 1 is ClientHello, 2 is ServerHello.
    pub kind: u8,
    /// The version in the first record's header; TLS 1.0 in nearly every ClientHello.
    pub record_version: u16,
    /// Its body, without type and length. Borrowed unless it came in several records.
    pub body: Cow<'a, [u8]>,
    /// How many bytes of the stream it and the records around it take.
    pub consumed: usize,
}

/// The first handshake message of `input`; `Ok(None)` asks for more bytes.
pub fn first_message(input: &[u8]) -> Result<Option<First<'_>>, HelloError> {
    let mut at = 0;
    let mut record_version = 0;
    let mut gathered: Vec<u8> = Vec::new();
    loop {
        let rest = &input[at..];
        let Some(header) = header(rest).map_err(|error| later(error, at))? else { return Ok(None) };
        if at == 0 {
            record_version = header.version;
        }
        let Some(content) = rest.get(HEADER..HEADER + header.length) else {
            // The length of the message may be known already, and be too much.
            let known = if gathered.is_empty() { &rest[HEADER..] } else { &gathered[..] };
            message_length(known)?;
            return Ok(None);
        };
        at += HEADER + header.length;
        if gathered.is_empty()
            && let Some(length) = message_length(content)?
            && let Some(body) = content.get(MESSAGE_HEADER..MESSAGE_HEADER + length)
        {
            let body = Cow::Borrowed(body);
            return Ok(Some(First { kind: content[0], record_version, body, consumed: at }));
        }
        gathered.extend_from_slice(content);
        if let Some(length) = message_length(&gathered)?
            && gathered.len() >= MESSAGE_HEADER + length
        {
            let kind = gathered[0];
            gathered.truncate(MESSAGE_HEADER + length);
            let body = Cow::Owned(gathered.split_off(MESSAGE_HEADER));
            return Ok(Some(First { kind, record_version, body, consumed: at }));
        }
    }
}

/// Finds the first handshake message of a stream as it grows, looking at each record once: a client that sends a record
/// per byte, each in a packet of its own, shall not cost the square of it. It keeps none of the bytes, which wait in the
/// stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct Assembler {
    /// Where the first record begins that is not whole.
    at: usize,
    /// How much of the message is in the records before that.
    gathered: usize,
    /// The first bytes of it: type and length.
    start: [u8; MESSAGE_HEADER],
}

impl Assembler {
    /// Looks at what is new of `input`, which is always the stream from its start. True when the message is whole:
    /// [`first_message`] has it.
    pub fn advance(&mut self, input: &[u8]) -> Result<bool, HelloError> {
        loop {
            if let Some(length) = message_length(&self.start[..self.gathered.min(MESSAGE_HEADER)])?
                && self.gathered >= MESSAGE_HEADER + length
            {
                return Ok(true);
            }
            let rest = &input[self.at..];
            let Some(header) = header(rest).map_err(|error| later(error, self.at))? else { return Ok(false) };
            let Some(content) = rest.get(HEADER..HEADER + header.length) else {
                // The length of the message may be known already, and be too much.
                if self.gathered == 0 {
                    message_length(&rest[HEADER..])?;
                }
                return Ok(false);
            };
            let missing = &mut self.start[self.gathered.min(MESSAGE_HEADER)..];
            missing.iter_mut().zip(content).for_each(|(to, from)| *to = *from);
            self.gathered += content.len();
            self.at += HEADER + header.length;
        }
    }
}

/// Makes room for so many more bytes, and hardly any besides: what waits for a peer that may never come back is not to be
/// twice as large as what was sent.
pub(crate) fn grow(bytes: &mut Vec<u8>, more: usize) {
    const STEP: usize = 1024;
    let length = bytes.len() + more;
    if length > bytes.capacity() {
        bytes.reserve_exact(length.next_multiple_of(STEP) - bytes.len());
    }
}

/// The type of the first handshake message as soon as it is there: `req.ssl_hello_type`, `res.ssl_hello_type`.
pub fn hello_type(input: &[u8]) -> Result<Option<u8>, HelloError> {
    Ok(header(input)?.and_then(|_| input.get(HEADER).copied()))
}

/// An error after the first record: it was TLS so far, and something else came in the middle of the message.
fn later(error: HelloError, at: usize) -> HelloError {
    if at > 0 && error == HelloError::NotTls { HelloError::NotClientHello } else { error }
}

struct Header {
    version: u16,
    length: usize,
}

fn header(input: &[u8]) -> Result<Option<Header>, HelloError> {
    match *input {
        [] => Ok(None),
        [kind, ..] if kind != content::HANDSHAKE => Err(HelloError::NotTls),
        [_, major, ..] if major != 3 => Err(HelloError::BadRecord),
        [_, major, minor, high, low, ..] => {
            let length = usize::from(u16::from_be_bytes([high, low]));
            // An empty handshake record is forbidden (RFC 8446 section 5.1), and would cost us a round each.
            match length {
                0 => return Err(HelloError::EmptyRecord),
                1..=PLAIN_MAX => {}
                _ => return Err(HelloError::LongRecord),
            }
            Ok(Some(Header { version: u16::from_be_bytes([major, minor]), length }))
        }
        _ => Ok(None),
    }
}

fn message_length(message: &[u8]) -> Result<Option<usize>, HelloError> {
    let [_, a, b, c, ..] = *message else { return Ok(None) };
    let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
    if length > MESSAGE_MAX { Err(HelloError::TooLarge) } else { Ok(Some(length)) }
}
