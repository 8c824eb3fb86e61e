//! Clients of HTTP/2: requests with all kinds of heads and bodies, and ways to leave.

use thalweg_h2::error::ErrorCode;

use super::frames::{between, broken_head, goaway, head, padded_data, reset, shaped_head};
use super::heads::{self, Change, List};
use super::{LEAVE, LOOK, STEP};
use crate::families::draw::Draw;
use crate::http2::{Mark, opening};
use crate::script::{Script, script};
use crate::support::h2::data_frame;

const TRAILERS: &[Change] = &[
    ("trailers", |l| l.add("x-sum", "1")),
    ("trailers-two", |l| {
        l.add("x-sum", "1");
        l.add("grpc-status", "0");
    }),
    ("trailers-none", |_| {}),
    ("trailers-pseudo", |l| l.add(":path", "/")),
    ("trailers-upper", |l| l.add("X-Sum", "1")),
    ("trailers-length", |l| l.add("content-length", "5")),
    ("trailers-connection", |l| l.add("connection", "close")),
    ("trailers-encoding", |l| l.add("transfer-encoding", "chunked")),
    ("trailers-host", |l| l.add("host", "other")),
    ("trailers-cookie", |l| l.add("cookie", "a=1")),
    ("trailers-crlf", |l| l.add("x-sum", "1\r\ny: z")),
];

/// What follows a head, its end included. The head is changed where the body's length is announced.
fn body(draw: &mut Draw, words: &mut Vec<String>, stream: u32, list: &mut List) -> Option<Script> {
    let mut say = |word: &str| words.push(word.into());
    let sized = |list: &mut List, len: usize| list.add("content-length", len.to_string());
    let frames = |parts: &[Vec<u8>]| Some(script().send(parts.concat()));
    match draw.below(22) {
        0 => {
            say("body-empty");
            frames(&[data_frame(stream, b"", true)])
        }
        1 | 2 => {
            say("body-sized");
            sized(list, 5);
            frames(&[data_frame(stream, b"hello", true)])
        }
        3 => {
            say("body-parts");
            sized(list, 5);
            frames(&[data_frame(stream, b"he", false), data_frame(stream, b"llo", true)])
        }
        4 | 5 => {
            say("body-unsized");
            frames(&[data_frame(stream, b"he", false), data_frame(stream, b"llo", true)])
        }
        6 => {
            say("body-slow");
            sized(list, 5);
            let start = script().pause(STEP).send(data_frame(stream, b"he", false));
            Some(start.pause(STEP).send(data_frame(stream, b"llo", true)))
        }
        7 => {
            say("body-end-later");
            frames(&[data_frame(stream, b"hello", false), data_frame(stream, b"", true)])
        }
        8 => {
            say("body-padded");
            sized(list, 5);
            frames(&[padded_data(stream, b"hello", 9, false), padded_data(stream, b"", 3, true)])
        }
        9 => {
            say("body-empty-frames");
            frames(&[
                data_frame(stream, b"", false),
                data_frame(stream, b"hello", false),
                data_frame(stream, b"", true),
            ])
        }
        10 => {
            say("body-more");
            sized(list, 3);
            frames(&[data_frame(stream, b"hello", true)])
        }
        11 => {
            say("body-more-later");
            sized(list, 5);
            Some(
                script()
                    .send(data_frame(stream, b"hello", false))
                    .pause(STEP)
                    .send(data_frame(stream, b"!", true)),
            )
        }
        12 => {
            say("body-less");
            sized(list, 9);
            frames(&[data_frame(stream, b"hello", true)])
        }
        13 => {
            say("body-less-none");
            sized(list, 9);
            None
        }
        14 => {
            say("body-zero");
            sized(list, 0);
            draw.chance(50).then(|| script().send(data_frame(stream, b"", true)))
        }
        15 | 16 => {
            let (word, change) = *draw.one(TRAILERS);
            say(word);
            let mut trailers = List::default();
            change(&mut trailers);
            let ends = !draw.chance(10);
            if !ends {
                say("no-end");
            }
            frames(&[data_frame(stream, b"hello", false), head(stream, &trailers, ends)])
        }
        17 => {
            say("body-large");
            let octets = vec![b'x'; 40_000];
            if draw.chance(50) {
                sized(list, octets.len());
            }
            Some(script().data(stream, octets, true))
        }
        18 => {
            say("body-after-end");
            frames(&[data_frame(stream, b"hello", true), data_frame(stream, b"more", true)])
        }
        19 => {
            say("body-padding-long");
            let mut odd = padded_data(stream, b"hello", 3, true);
            // The padding is as long as what is left of the frame then.
            odd[9] = 200;
            frames(&[odd])
        }
        20 => {
            say("body-cut");
            sized(list, 9);
            frames(&[data_frame(stream, b"he", false)])
        }
        _ => {
            say("body-and-reset");
            sized(list, 9);
            frames(&[data_frame(stream, b"he", false), reset(stream, ErrorCode::Cancel)])
        }
    }
}

/// One request, and what is waited for behind it.
fn request(draw: &mut Draw, words: &mut Vec<String>, stream: u32, last: bool) -> Script {
    let mut list = heads::request(draw, words);
    if draw.chance(6) {
        let (word, bytes) = broken_head(draw, stream, &list);
        words.push(word.into());
        return script().send(bytes).look(2 * STEP);
    }
    let posts =
        words.iter().rev().take(4).any(|w| matches!(w.as_str(), "post" | "put" | "connect" | "extended"));
    let body =
        if draw.chance(if posts { 85 } else { 12 }) { body(draw, words, stream, &mut list) } else { None };
    let (word, bytes) = shaped_head(draw, stream, &list, body.is_none());
    if !word.is_empty() {
        words.push(word.into());
    }
    let mut out = script().send(bytes);
    if draw.chance(12) {
        let (word, bytes) = between(draw, stream);
        words.push(word.into());
        out = out.send(bytes);
    }
    if let Some(body) = body {
        out = out.chain(body);
    }
    match draw.below(12) {
        0 if last => leave(draw, words, stream, out),
        1 if !last => {
            words.push("and-next".into());
            out
        }
        _ => out.frames(Mark::Over(stream)),
    }
}

/// Goes before the answer is complete.
fn leave(draw: &mut Draw, words: &mut Vec<String>, stream: u32, so_far: Script) -> Script {
    let (when, so_far) = match draw.below(4) {
        0 => ("at-once", so_far.pause(STEP / 2)),
        1 => ("later", so_far.pause(LEAVE)),
        2 => ("after-head", so_far.frames(Mark::Head(stream)).pause(STEP / 2)),
        _ => ("in-body", so_far.frames(Mark::Octets(stream, 1)).pause(STEP / 2)),
    };
    let code = *draw.one(&[
        ErrorCode::Cancel,
        ErrorCode::NoError,
        ErrorCode::InternalError,
        ErrorCode::Unknown(0x99),
    ]);
    let (how, script) = match draw.below(8) {
        0..3 => ("resets", so_far.send(reset(stream, code)).look(LOOK)),
        3 => ("closes", so_far.close()),
        4 => ("breaks", so_far.reset()),
        5 => ("half-closes", so_far.half_close().look(LOOK)),
        6 => ("goaway", so_far.send(goaway(0, ErrorCode::NoError)).look(LOOK)),
        _ => ("goaway-error-closes", so_far.send(goaway(0, ErrorCode::ProtocolError)).pause(STEP).close()),
    };
    words.push(format!("{how}-{when}"));
    script
}

/// A client with one to three requests.
pub fn client(draw: &mut Draw, words: &mut Vec<String>) -> Script {
    let mut out = script().send(opening(true));
    let count = *draw.one(&[1, 1, 1, 2, 2, 3]);
    for n in 0..count {
        let stream = 2 * n + 1;
        out = out.chain(request(draw, words, stream, n + 1 == count));
    }
    out.look(STEP)
}
