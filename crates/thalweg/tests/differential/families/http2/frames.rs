//! Frames as clients and servers of these exchanges send them.

use thalweg_h2::error::ErrorCode;
use thalweg_h2::frame::{self, Kind, flag};

use super::heads::List;
use crate::families::draw::Draw;
use crate::support::h2::{block, data_frame, frame};

/// A head in one HEADERS frame, or in as many as it needs.
pub fn head(stream: u32, list: &List, end: bool) -> Vec<u8> {
    let mut out = Vec::new();
    frame::put_header_block(&mut out, stream, &block(&list.0), end, frame::PAYLOAD_MIN);
    out
}

/// A head in a drawn shape that means the same.
pub fn shaped_head(draw: &mut Draw, stream: u32, list: &List, end: bool) -> (&'static str, Vec<u8>) {
    let bytes = block(&list.0);
    let ends = u8::from(end);
    let one = |flags, payload: &[u8]| frame(Kind::Headers, ends | flag::END_HEADERS | flags, stream, payload);
    if bytes.len() > 8000 {
        return ("", head(stream, list, end));
    }
    match draw.below(40) {
        0 | 1 => {
            let cut = draw.below(bytes.len());
            let mut out = frame(Kind::Headers, ends, stream, &bytes[..cut]);
            out.extend(frame(Kind::Continuation, flag::END_HEADERS, stream, &bytes[cut..]));
            ("continued", out)
        }
        2 => {
            let mut out = frame(Kind::Headers, ends, stream, &bytes[..1]);
            for part in bytes[1..bytes.len() - 1].chunks(bytes.len().div_ceil(8)) {
                out.extend(frame(Kind::Continuation, 0, stream, part));
            }
            out.extend(frame(Kind::Continuation, flag::END_HEADERS, stream, &bytes[bytes.len() - 1..]));
            ("continued-often", out)
        }
        3 => ("padded", one(flag::PADDED, &[&[4], &bytes[..], &[0; 4]].concat())),
        4 => ("prioritized", one(flag::PRIORITY, &[&[0, 0, 0, 0, 16], &bytes[..]].concat())),
        5 => (
            "prioritized-padded",
            one(flag::PRIORITY | flag::PADDED, &[&[1, 0, 0, 0, 0, 16], &bytes[..], &[0]].concat()),
        ),
        6 => ("resized-table", one(0, &[&[0x3f, 0xe1, 0x0f], &bytes[..]].concat())),
        7 => ("flags-unknown", one(0x42, &bytes)),
        8 => {
            let mut out = frame(Kind::Headers, ends, stream, &[]);
            out.extend(frame(Kind::Continuation, flag::END_HEADERS, stream, &bytes));
            ("continued-empty", out)
        }
        _ => ("", one(0, &bytes)),
    }
}

/// A frame, or some, that break a rule in place of a request's head.
pub fn broken_head(draw: &mut Draw, stream: u32, list: &List) -> (&'static str, Vec<u8>) {
    let bytes = block(&list.0);
    let both = flag::END_HEADERS | flag::END_STREAM;
    let get = |payload: &[u8]| frame(Kind::Headers, both, stream, payload);
    match draw.below(26) {
        0 => ("index-0", get(&[&[0x80], &bytes[..]].concat())),
        1 => ("index-none", get(&[&[0xff, 0x80, 0x01], &bytes[..]].concat())),
        2 => ("huffman-bad", get(&[&bytes[..], &[0x00, 0x81, 0xff, 0x00]].concat())),
        3 => (
            "huffman-padding",
            get(&[&bytes[..], &[0x00, 0x85, 0xff, 0xff, 0xff, 0xff, 0xff, 0x00]].concat()),
        ),
        4 => ("table-too-large", get(&[&[0x3f, 0xff, 0xff, 0x03], &bytes[..]].concat())),
        5 => ("table-late", get(&[&bytes[..], &[0x20]].concat())),
        6 => ("block-cut", get(&bytes[..bytes.len() - 1])),
        7 => ("integer-long", get(&[&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], &bytes[..]].concat())),
        8 => ("block-empty", get(&[])),
        9 => ("stream-even", frame(Kind::Headers, both, stream + 1, &bytes)),
        10 => ("stream-0", frame(Kind::Headers, both, 0, &bytes)),
        11 => (
            "padding-long",
            frame(
                Kind::Headers,
                both | flag::PADDED,
                stream,
                &[&[250], &bytes[..bytes.len().min(20)]].concat(),
            ),
        ),
        12 => {
            let depends = [&stream.to_be_bytes()[..], &[16], &bytes].concat();
            ("self-dependency", frame(Kind::Headers, both | flag::PRIORITY, stream, &depends))
        }
        13 => {
            let mut out = frame(Kind::Headers, flag::END_STREAM, stream, &bytes[..9]);
            out.extend(frame(Kind::Ping, 0, 0, &[0; 8]));
            ("interrupted", out)
        }
        14 => {
            let mut out = frame(Kind::Headers, flag::END_STREAM, stream, &bytes[..9]);
            out.extend(frame(Kind::Continuation, flag::END_HEADERS, stream + 2, &bytes[9..]));
            ("continued-elsewhere", out)
        }
        15 => ("continuation-alone", frame(Kind::Continuation, flag::END_HEADERS, stream, &bytes)),
        16 => ("data-first", data_frame(stream, b"data", true)),
        17 => ("data-0", data_frame(0, b"data", true)),
        18 => ("reset-first", frame(Kind::RstStream, 0, stream, &[0, 0, 0, 8])),
        19 => ("window-first", frame(Kind::WindowUpdate, 0, stream, &[0, 0, 0, 1])),
        20 => (
            "push",
            frame(Kind::PushPromise, flag::END_HEADERS, stream, &[&[0, 0, 0, 2], &bytes[..]].concat()),
        ),
        21 => ("too-long", frame(Kind::Headers, both, stream, &[&bytes[..], &vec![0x3f; 17_000]].concat())),
        22 => ("priority-short", frame(Kind::Priority, 0, stream, &[0, 0, 0, 0])),
        23 => ("priority-0", frame(Kind::Priority, 0, 0, &[0, 0, 0, 0, 1])),
        24 => ("reset-short", frame(Kind::RstStream, 0, stream, &[0, 0, 8])),
        _ => ("reset-0", frame(Kind::RstStream, 0, 0, &[0, 0, 0, 8])),
    }
}

/// A frame that may come at any time between others. The first ones are good.
pub fn between(draw: &mut Draw, stream: u32) -> (&'static str, Vec<u8>) {
    const GOOD: usize = 9;
    let settings = |id: u16, value: u32| {
        frame(Kind::Settings, 0, 0, &[&id.to_be_bytes()[..], &value.to_be_bytes()].concat())
    };
    // Most of those that are no good end the connection, so that one of them shows little else.
    let which = if draw.chance(60) { draw.below(GOOD) } else { GOOD + draw.below(19) };
    match which {
        0 => ("unknown-frame", frame(Kind::Unknown(0xbe), 0xff, stream, b"whatever")),
        1 => ("ping", frame(Kind::Ping, 0, 0, &[7; 8])),
        2 => ("priority", frame(Kind::Priority, 0, stream, &[0, 0, 0, 0, 1])),
        3 => ("setting-unknown", settings(0x99, 1)),
        4 => ("setting-table", settings(1, 0)),
        5 => ("settings-empty", frame(Kind::Settings, 0, 0, b"")),
        6 => ("window", frame(Kind::WindowUpdate, 0, 0, &[0, 0, 1, 0])),
        7 => ("priority-update", frame(Kind::Unknown(0x10), 0, 0, &[0, 0, 0, 1, b'u', b'=', b'1'])),
        8 => ("ping-ack", frame(Kind::Ping, flag::ACK, 0, &[7; 8])),
        9 => ("ping-short", frame(Kind::Ping, 0, 0, &[7; 7])),
        10 => ("ping-stream", frame(Kind::Ping, 0, stream, &[7; 8])),
        11 => ("settings-short", frame(Kind::Settings, 0, 0, &[0, 1, 0, 0, 0])),
        12 => ("settings-stream", frame(Kind::Settings, 0, stream, b"")),
        13 => ("settings-ack-full", frame(Kind::Settings, flag::ACK, 0, &[0, 1, 0, 0, 0, 0])),
        14 => ("setting-push", settings(2, 2)),
        15 => ("setting-window", settings(4, 0x8000_0000)),
        16 => ("setting-frame-small", settings(5, 16_383)),
        17 => ("setting-frame-large", settings(5, 1 << 24)),
        18 => ("window-zero", frame(Kind::WindowUpdate, 0, 0, &[0; 4])),
        19 => ("window-short", frame(Kind::WindowUpdate, 0, 0, &[0; 3])),
        20 => ("window-too-large", frame(Kind::WindowUpdate, 0, 0, &[0x7f, 0xff, 0xff, 0xff])),
        21 => ("goaway-stream", frame(Kind::Goaway, 0, stream, &[0; 8])),
        22 => ("goaway-short", frame(Kind::Goaway, 0, 0, &[0; 7])),
        23 => ("goaway", frame(Kind::Goaway, 0, 0, &[0; 8])),
        24 => ("goaway-error", frame(Kind::Goaway, 0, 0, &[0, 0, 0, 0, 0, 0, 0, 2])),
        25 => ("setting-protocol", settings(8, 2)),
        26 => ("window-stream-zero", frame(Kind::WindowUpdate, 0, stream, &[0; 4])),
        _ => ("window-stream-too-large", frame(Kind::WindowUpdate, 0, stream, &[0x7f, 0xff, 0xff, 0xff])),
    }
}

pub fn reset(stream: u32, code: ErrorCode) -> Vec<u8> {
    let mut out = Vec::new();
    frame::put_reset(&mut out, stream, code);
    out
}

pub fn goaway(last: u32, code: ErrorCode) -> Vec<u8> {
    let mut out = Vec::new();
    frame::put_goaway(&mut out, last, code, b"");
    out
}

/// DATA with padding.
pub fn padded_data(stream: u32, octets: &[u8], padding: u8, end: bool) -> Vec<u8> {
    let payload = [&[padding], octets, &vec![0; usize::from(padding)]].concat();
    frame(Kind::Data, u8::from(end) | flag::PADDED, stream, &payload)
}
