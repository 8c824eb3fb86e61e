//! Frames (RFC 9113 sections 4 and 6): from octets to values and back. No state.

use crate::error::ErrorCode;
use crate::settings::Change;
pub use crate::settings::{PAYLOAD_MAX, PAYLOAD_MIN};

/// Octets in front of every frame's payload.
pub const HEADER_LEN: usize = 9;
/// What a client sends first (RFC 9113 section 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Types of frames (RFC 9113 section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    Data,
    Headers,
    Priority,
    RstStream,
    Settings,
    PushPromise,
    Ping,
    Goaway,
    WindowUpdate,
    Continuation,
    /// Ignored wherever it may come (RFC 9113 section 4.1).
    Unknown(u8),
}

impl Kind {
    fn of(number: u8) -> Kind {
        match number {
            0 => Kind::Data,
            1 => Kind::Headers,
            2 => Kind::Priority,
            3 => Kind::RstStream,
            4 => Kind::Settings,
            5 => Kind::PushPromise,
            6 => Kind::Ping,
            7 => Kind::Goaway,
            8 => Kind::WindowUpdate,
            9 => Kind::Continuation,
            other => Kind::Unknown(other),
        }
    }

    /// Its number (RFC 9113 section 6).
    pub fn number(self) -> u8 {
        match self {
            Kind::Data => 0,
            Kind::Headers => 1,
            Kind::Priority => 2,
            Kind::RstStream => 3,
            Kind::Settings => 4,
            Kind::PushPromise => 5,
            Kind::Ping => 6,
            Kind::Goaway => 7,
            Kind::WindowUpdate => 8,
            Kind::Continuation => 9,
            Kind::Unknown(other) => other,
        }
    }
}

/// Flags of frames.
pub mod flag {
    /// DATA, HEADERS: nothing follows on the stream in this direction.
    pub const END_STREAM: u8 = 0x1;
    /// SETTINGS, PING: an acknowledgement.
    pub const ACK: u8 = 0x1;
    /// HEADERS, CONTINUATION: the header block ends here.
    pub const END_HEADERS: u8 = 0x4;
    /// DATA, HEADERS: the payload is padded.
    pub const PADDED: u8 = 0x8;
    /// HEADERS: five octets of priority come first.
    pub const PRIORITY: u8 = 0x20;
}

/// What stands in front of a frame's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Octets of payload, up to 2^24 - 1.
    pub len: usize,
    /// What it is.
    pub kind: Kind,
    /// See [`flag`].
    pub flags: u8,
    /// The stream, or 0 for the connection. The reserved bit was taken off.
    pub stream: u32,
}

impl Header {
    /// Reads a header.
    #[inline]
    pub fn parse(bytes: &[u8; HEADER_LEN]) -> Header {
        let [a, b, c, kind, flags, s0, s1, s2, s3] = *bytes;
        Header {
            len: usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c),
            kind: Kind::of(kind),
            flags,
            stream: u32::from_be_bytes([s0, s1, s2, s3]) & 0x7fff_ffff,
        }
    }

    /// Writes a header. The length must be below 2^24, which all callers see to.
    #[inline]
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        debug_assert!(self.len <= PAYLOAD_MAX);
        let [_, a, b, c] = (self.len as u32).to_be_bytes();
        let [s0, s1, s2, s3] = self.stream.to_be_bytes();
        [a, b, c, self.kind.number(), self.flags, s0, s1, s2, s3]
    }

    /// Whether a flag is set.
    #[inline]
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Why a payload cannot be read. Unless its place says otherwise, a connection error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadError {
    /// A length that the frame cannot have: FRAME_SIZE_ERROR.
    Length,
    /// As much padding as there is payload, or more: PROTOCOL_ERROR.
    Padding,
    /// A stream that depends on itself: PROTOCOL_ERROR.
    SelfDependency,
}

impl PayloadError {
    /// The code it ends the stream or connection with.
    pub fn code(self) -> ErrorCode {
        match self {
            PayloadError::Length => ErrorCode::FrameSizeError,
            PayloadError::Padding | PayloadError::SelfDependency => ErrorCode::ProtocolError,
        }
    }
}

/// The part of a DATA or HEADERS payload without its padding.
///
/// # Errors
/// [`PayloadError::Padding`], or [`PayloadError::Length`] without room for the length of the padding.
#[inline]
pub fn unpadded<'a>(header: &Header, payload: &'a [u8]) -> Result<&'a [u8], PayloadError> {
    if !header.has(flag::PADDED) {
        return Ok(payload);
    }
    let (padding, rest) = payload.split_first().ok_or(PayloadError::Length)?;
    let len = rest.len().checked_sub(usize::from(*padding)).ok_or(PayloadError::Padding)?;
    Ok(&rest[..len])
}

/// The fragment of a header block in a HEADERS payload. Priorities are read over; they are deprecated (RFC 9113
/// section 5.3.2).
///
/// # Errors
/// As [`unpadded`]; and [`PayloadError::SelfDependency`].
pub fn header_fragment<'a>(header: &Header, payload: &'a [u8]) -> Result<&'a [u8], PayloadError> {
    let rest = unpadded(header, payload)?;
    if !header.has(flag::PRIORITY) {
        return Ok(rest);
    }
    let (priority, rest) = rest.split_at_checked(5).ok_or(PayloadError::Length)?;
    priority_of(header.stream, priority)?;
    Ok(rest)
}

fn priority_of(stream: u32, bytes: &[u8]) -> Result<(), PayloadError> {
    let bytes: [u8; 5] = bytes.try_into().map_err(|_| PayloadError::Length)?;
    let [a, b, c, d, _weight] = bytes;
    let on = u32::from_be_bytes([a, b, c, d]) & 0x7fff_ffff;
    if on == stream { Err(PayloadError::SelfDependency) } else { Ok(()) }
}

/// Checks a PRIORITY payload.
///
/// # Errors
/// [`PayloadError::Length`] and [`PayloadError::SelfDependency`], both errors of the stream only.
pub fn priority(header: &Header, payload: &[u8]) -> Result<(), PayloadError> {
    priority_of(header.stream, payload)
}

/// The code in a RST_STREAM payload.
///
/// # Errors
/// [`PayloadError::Length`].
pub fn reset(payload: &[u8]) -> Result<ErrorCode, PayloadError> {
    let bytes: [u8; 4] = payload.try_into().map_err(|_| PayloadError::Length)?;
    Ok(ErrorCode::of(u32::from_be_bytes(bytes)))
}

/// The increment in a WINDOW_UPDATE payload; 0 is an error by its place.
///
/// # Errors
/// [`PayloadError::Length`].
#[inline]
pub fn window_update(payload: &[u8]) -> Result<u32, PayloadError> {
    let bytes: [u8; 4] = payload.try_into().map_err(|_| PayloadError::Length)?;
    Ok(u32::from_be_bytes(bytes) & 0x7fff_ffff)
}

/// The eight octets of a PING payload.
///
/// # Errors
/// [`PayloadError::Length`].
pub fn ping(payload: &[u8]) -> Result<[u8; 8], PayloadError> {
    payload.try_into().map_err(|_| PayloadError::Length)
}

/// Last stream and code of a GOAWAY payload; what follows them is for people.
///
/// # Errors
/// [`PayloadError::Length`].
pub fn goaway(payload: &[u8]) -> Result<(u32, ErrorCode), PayloadError> {
    let (fixed, _text) = payload.split_first_chunk::<8>().ok_or(PayloadError::Length)?;
    let [a, b, c, d, e, f, g, h] = *fixed;
    let last = u32::from_be_bytes([a, b, c, d]) & 0x7fff_ffff;
    Ok((last, ErrorCode::of(u32::from_be_bytes([e, f, g, h]))))
}

/// The changes in a SETTINGS payload, in order. Unknown ones are left out.
///
/// # Errors
/// [`PayloadError::Length`].
pub fn settings(payload: &[u8]) -> Result<impl Iterator<Item = Change> + '_, PayloadError> {
    let (changes, rest) = payload.as_chunks::<6>();
    if !rest.is_empty() {
        return Err(PayloadError::Length);
    }
    Ok(changes.iter().filter_map(|[i0, i1, v0, v1, v2, v3]| {
        Change::of(u16::from_be_bytes([*i0, *i1]), u32::from_be_bytes([*v0, *v1, *v2, *v3]))
    }))
}

fn put(out: &mut Vec<u8>, kind: Kind, flags: u8, stream: u32, payload: &[u8]) {
    out.extend_from_slice(&Header { len: payload.len(), kind, flags, stream }.encode());
    out.extend_from_slice(payload);
}

/// Appends a SETTINGS frame.
pub fn put_settings(out: &mut Vec<u8>, changes: impl IntoIterator<Item = Change>) {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_LEN]);
    for change in changes {
        let (id, value) = change.wire();
        out.extend_from_slice(&id.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
    let len = out.len() - start - HEADER_LEN;
    let header = Header { len, kind: Kind::Settings, flags: 0, stream: 0 }.encode();
    out[start..start + HEADER_LEN].copy_from_slice(&header);
}

/// Appends the acknowledgement of a SETTINGS frame.
pub fn put_settings_ack(out: &mut Vec<u8>) {
    put(out, Kind::Settings, flag::ACK, 0, &[]);
}

/// Appends a PING frame.
pub fn put_ping(out: &mut Vec<u8>, payload: [u8; 8], ack: bool) {
    put(out, Kind::Ping, if ack { flag::ACK } else { 0 }, 0, &payload);
}

/// Appends a WINDOW_UPDATE frame.
pub fn put_window_update(out: &mut Vec<u8>, stream: u32, increment: u32) {
    put(out, Kind::WindowUpdate, 0, stream, &increment.to_be_bytes());
}

/// Appends a RST_STREAM frame.
pub fn put_reset(out: &mut Vec<u8>, stream: u32, code: ErrorCode) {
    put(out, Kind::RstStream, 0, stream, &code.number().to_be_bytes());
}

/// Appends a GOAWAY frame.
pub fn put_goaway(out: &mut Vec<u8>, last: u32, code: ErrorCode, text: &[u8]) {
    let payload = [&last.to_be_bytes()[..], &code.number().to_be_bytes(), text].concat();
    put(out, Kind::Goaway, 0, 0, &payload);
}

/// The header of a DATA frame; its payload follows.
#[inline]
pub fn data_header(stream: u32, len: usize, end: bool) -> [u8; HEADER_LEN] {
    let flags = if end { flag::END_STREAM } else { 0 };
    Header { len, kind: Kind::Data, flags, stream }.encode()
}

/// Appends the HEADERS frame, and the CONTINUATION frames if they are needed, for a header block. `payload_max` is what
/// the peer takes in one frame.
pub fn put_header_block(out: &mut Vec<u8>, stream: u32, block: &[u8], end: bool, payload_max: usize) {
    let mut kind = Kind::Headers;
    let mut flags = if end { flag::END_STREAM } else { 0 };
    let mut rest = block;
    loop {
        let (part, after) = rest.split_at(rest.len().min(payload_max));
        if after.is_empty() {
            flags |= flag::END_HEADERS;
        }
        put(out, kind, flags, stream, part);
        if after.is_empty() {
            return;
        }
        (kind, flags, rest) = (Kind::Continuation, 0, after);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers_of(mut bytes: &[u8]) -> Vec<(Header, Vec<u8>)> {
        let mut all = Vec::new();
        while let Some((header, rest)) = bytes.split_first_chunk::<HEADER_LEN>() {
            let header = Header::parse(header);
            let (payload, rest) = rest.split_at(header.len);
            all.push((header, payload.to_vec()));
            bytes = rest;
        }
        assert!(bytes.is_empty());
        all
    }

    #[test]
    fn headers_come_back() {
        for kind in (0..=255).map(Kind::of) {
            let header = Header { len: 0x01_02_03, kind, flags: 0xa5, stream: 0x7fff_fffe };
            assert_eq!(Header::parse(&header.encode()), header);
        }
        let mut bytes = Header { len: 0, kind: Kind::Data, flags: 0, stream: 1 }.encode();
        bytes[5] |= 0x80;
        assert_eq!(Header::parse(&bytes).stream, 1, "the reserved bit is ignored");
    }

    #[test]
    fn padding_is_taken_off() {
        let padded = Header { len: 0, kind: Kind::Data, flags: flag::PADDED, stream: 1 };
        assert_eq!(unpadded(&padded, b"\x02ab\0\0"), Ok(&b"ab"[..]));
        assert_eq!(unpadded(&padded, b"\x00ab"), Ok(&b"ab"[..]));
        assert_eq!(unpadded(&padded, b"\x02\0\0"), Ok(&b""[..]));
        assert_eq!(unpadded(&padded, b"\x03\0\0"), Err(PayloadError::Padding));
        assert_eq!(unpadded(&padded, b""), Err(PayloadError::Length));
    }

    #[test]
    fn priorities_are_read_over() {
        let header = |flags| Header { len: 0, kind: Kind::Headers, flags, stream: 3 };
        let both = header(flag::PRIORITY | flag::PADDED);
        assert_eq!(header_fragment(&both, b"\x01\0\0\0\x01\x10block\0"), Ok(&b"block"[..]));
        assert_eq!(header_fragment(&header(flag::PRIORITY), b"\0\0\0\x01"), Err(PayloadError::Length));
        let on_itself = header_fragment(&header(flag::PRIORITY), b"\x80\0\0\x03\x10");
        assert_eq!(on_itself, Err(PayloadError::SelfDependency));
        // CVE-2018-20615: five octets of priority in a shorter payload, hidden by padding.
        assert_eq!(header_fragment(&both, b"\x05\0\0\0\x01\x10"), Err(PayloadError::Length));
    }

    #[test]
    fn fixed_payloads_have_their_length() {
        assert_eq!(reset(&[0, 0, 0, 8]), Ok(ErrorCode::Cancel));
        assert_eq!(window_update(&[0x80, 0, 0, 1]), Ok(1));
        assert_eq!(ping(&[1; 8]), Ok([1; 8]));
        assert_eq!(goaway(&[0, 0, 0, 5, 0, 0, 0, 2, b'x']), Ok((5, ErrorCode::InternalError)));
        assert!(settings(&[0; 12]).is_ok());
        assert!(reset(&[0; 3]).is_err() && reset(&[0; 5]).is_err());
        assert!(window_update(&[0; 3]).is_err() && ping(&[0; 7]).is_err() && ping(&[0; 9]).is_err());
        assert!(goaway(&[0; 7]).is_err() && settings(&[0; 7]).is_err());
    }

    #[test]
    fn long_blocks_continue() {
        let block: Vec<u8> = (0..25).collect();
        for (max, frames) in [(25, 1), (24, 2), (10, 3), (5, 5)] {
            let mut out = Vec::new();
            put_header_block(&mut out, 7, &block, true, max);
            let all = headers_of(&out);
            assert_eq!(all.len(), frames);
            assert_eq!(all[0].0.kind, Kind::Headers);
            assert!(all[0].0.has(flag::END_STREAM));
            assert!(all[1..].iter().all(|(h, _)| h.kind == Kind::Continuation && !h.has(flag::END_STREAM)));
            let ends: Vec<bool> = all.iter().map(|(h, _)| h.has(flag::END_HEADERS)).collect();
            assert_eq!(ends.iter().filter(|end| **end).count(), 1);
            assert_eq!(ends.last(), Some(&true));
            assert_eq!(all.into_iter().flat_map(|(_, p)| p).collect::<Vec<_>>(), block);
        }
        let mut out = Vec::new();
        put_header_block(&mut out, 7, &[], false, 10);
        assert_eq!(headers_of(&out).len(), 1);
    }

    #[test]
    fn settings_come_back() {
        let mut out = Vec::new();
        let changes = [Change::EnablePush(0), Change::InitialWindow(65_535), Change::HeaderTableSize(0)];
        put_settings(&mut out, changes);
        let all = headers_of(&out);
        assert_eq!(settings(&all[0].1).unwrap().collect::<Vec<_>>(), changes);
        assert_eq!(settings(&[0, 0x99, 0, 0, 0, 1]).unwrap().count(), 0, "unknown ones are left out");
    }
}
