//! Servers, of HTTP/1 and HTTP/2, that answer in all kinds of ways.

use thalweg_h2::error::ErrorCode;
use thalweg_h2::frame::{Kind, flag};

use super::STEP;
use super::frames::{between, goaway, head, padded_data, reset};
use super::heads::{Change, List};
use crate::case::Kind as Server;
use crate::families::draw::Draw;
use crate::http2::{Mark, THIS, opening};
use crate::script::{Script, script};
use crate::support::h2::{block, data_frame, frame};

/// Responses of HTTP/1 that are whole.
const RESPONSES: &[(&str, &str)] = &[
    ("sized", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
    ("sized", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
    ("empty", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    ("chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"),
    ("chunks-none", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    (
        "trailers",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n0\r\nX-Sum: 7\r\nGrpc-Status: 0\r\n\r\n",
    ),
    (
        "trailers-odd",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n0\r\nContent-Length: 7\r\nConnection: close\r\nX: 1\r\n\r\n",
    ),
    ("204", "HTTP/1.1 204 No Content\r\nX-A: b\r\n\r\n"),
    ("205", "HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n"),
    ("304", "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\nContent-Length: 10\r\n\r\n"),
    ("404", "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno"),
    ("413", "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno"),
    ("500", "HTTP/1.1 500 Broken\r\nContent-Length: 2\r\n\r\nno"),
    ("599", "HTTP/1.1 599 Whatever\r\nContent-Length: 2\r\n\r\nno"),
    ("103", "HTTP/1.1 103 Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
    (
        "103-twice",
        "HTTP/1.1 103 Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 103 Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    ),
    ("100", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
    ("102", "HTTP/1.1 102 Processing\r\nX-A: b\r\n\r\nHTTP/1.1 204 None\r\n\r\n"),
    ("101", "HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\ntunnel"),
    ("101-other", "HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: other\r\n\r\ntunnel"),
    (
        "cookies",
        "HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2; path=/\r\nContent-Length: 2\r\n\r\nok",
    ),
    (
        "hop-by-hop",
        "HTTP/1.1 200 OK\r\nConnection: keep-alive, x-hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nProxy-Connection: x\r\n\
         Upgrade: h2c\r\nContent-Length: 2\r\n\r\nok",
    ),
    (
        "names",
        "HTTP/1.1 200 OK\r\nX-UPPER: A\r\nx_under: b\r\nEmpty:\r\nBlank:  a  b \r\nContent-Length: 2\r\n\r\nok",
    ),
    ("high", "HTTP/1.1 200 OK\r\nX-High: caf\u{e9}\r\nContent-Length: 2\r\n\r\nok"),
    ("te", "HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTE: trailers\r\nContent-Length: 2\r\n\r\nok"),
    ("until-close", "HTTP/1.1 200 OK\r\n\r\nuntil the end"),
    ("1.0", "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
    ("close", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello"),
    ("bad-status", "HTTP/1.1 xyz OK\r\nContent-Length: 5\r\n\r\nhello"),
    ("bad-name", "HTTP/1.1 200 OK\r\nX Bad: 1\r\nContent-Length: 5\r\n\r\nhello"),
    ("bad-length", "HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\nhello"),
    ("two-lengths", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello"),
    (
        "both-lengths",
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    ),
    ("bad-chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\nzz\r\n\r\n"),
    ("junk", "not http\r\n\r\n"),
];

/// How a server of HTTP/1 goes about it.
pub fn http1(draw: &mut Draw, words: &mut Vec<String>) -> Server {
    let (word, bytes) = *draw.one(RESPONSES);
    let head = bytes.find("\r\n\r\n").map_or(bytes.len(), |at| at + 4);
    let ends = word == "until-close";
    let again = |steps: Script| if ends { steps.close() } else { script().forever(steps) };
    let start = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n12345";
    let chunk = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n";
    let (word, script) = match draw.below(24) {
        0..10 => (word.into(), again(script().message().send(bytes))),
        10 => (format!("{word}-late"), again(script().message().pause(2 * STEP).send(bytes))),
        11 | 12 => {
            let cut = 1 + draw.below(bytes.len() - 1);
            let pieces = script().message().send(cut_at(bytes, cut).0).pause(STEP).send(cut_at(bytes, cut).1);
            (format!("{word}-in-pieces"), again(pieces))
        }
        // Whole bodies or not.
        13 | 14 => (format!("{word}-early"), script().head().send(bytes).pause(4 * STEP).close()),
        15 => (format!("{word}-early-close"), script().head().send(bytes).pause(STEP / 2).close()),
        16 => {
            let cut = 1 + draw.below(head - 1);
            ("head-cut".into(), script().message().send(cut_at(bytes, cut).0).pause(STEP).close())
        }
        17 => ("closes".into(), script().message().pause(STEP).close()),
        18 => ("resets".into(), script().message().pause(STEP).reset()),
        19 => ("body-cut".into(), script().message().send(start).pause(STEP).close()),
        20 => ("chunks-cut".into(), script().message().send(chunk).pause(STEP).close()),
        21 => ("body-broken".into(), script().message().send(start).pause(STEP).reset()),
        22 => ("body-stops".into(), script().message().send(start).end()),
        _ => ("mute".into(), script().message().end()),
    };
    words.push(format!("s-{word}"));
    Server::Plays(vec![script])
}

fn cut_at(text: &str, at: usize) -> (&[u8], &[u8]) {
    text.as_bytes().split_at(at)
}

/// What servers put into heads.
const FINE: &[Change] = &[
    ("plain", |_| {}),
    ("cookies", |l| {
        l.add("set-cookie", "a=1");
        l.add("set-cookie", "b=2");
    }),
    ("404", |l| l.set(":status", "404")),
    ("500", |l| l.set(":status", "500")),
    ("599", |l| l.set(":status", "599")),
    ("empty-value", |l| l.add("x-empty", "")),
    ("high", |l| l.add("x-high", b"caf\xc3\xa9")),
    ("trailer", |l| l.add("trailer", "x-sum")),
];

/// What they should not.
const BAD: &[Change] = &[
    ("no-status", |l| l.drop(":status")),
    ("status-twice", |l| l.first(":status", "200")),
    ("status-word", |l| l.set(":status", "abc")),
    ("status-short", |l| l.set(":status", "20")),
    ("status-long", |l| l.set(":status", "2000")),
    ("status-low", |l| l.set(":status", "099")),
    ("status-101", |l| l.set(":status", "101")),
    ("status-empty", |l| l.set(":status", "")),
    ("pseudo-late", |l| {
        l.drop(":status");
        l.add("x-a", "1");
        l.add(":status", "200");
    }),
    ("pseudo-path", |l| l.first(":path", "/")),
    ("pseudo-unknown", |l| l.first(":other", "1")),
    ("name-upper", |l| l.add("X-Upper", "1")),
    ("name-blank", |l| l.add("x a", "1")),
    ("name-empty", |l| l.add("", "1")),
    ("value-crlf", |l| l.add("x-a", "1\r\ny: 2")),
    ("value-nul", |l| l.add("x-a", "1\x002")),
    ("value-leading", |l| l.add("x-a", " 1")),
    ("connection", |l| l.add("connection", "close")),
    ("keep-alive", |l| l.add("keep-alive", "1")),
    ("transfer-encoding", |l| l.add("transfer-encoding", "chunked")),
    ("upgrade", |l| l.add("upgrade", "h2c")),
    ("te", |l| l.add("te", "gzip")),
    ("length-word", |l| l.add("content-length", "five")),
    ("length-twice-differs", |l| {
        l.add("content-length", "5");
        l.add("content-length", "6");
    }),
    ("length-twice", |l| {
        l.add("content-length", "5");
        l.add("content-length", "5");
    }),
    ("values-20k", |l| (0..20).for_each(|i| l.add(format!("x-{i}"), "v".repeat(1000)))),
    ("fields-110", |l| (0..110).for_each(|i| l.add(format!("x-{i}"), "v"))),
];

fn drawn_head(draw: &mut Draw, words: &mut Vec<String>) -> List {
    let mut list = List::of(&[(":status", "200")]);
    let changes = if draw.chance(65) { FINE } else { BAD };
    let (word, change) = *draw.one(changes);
    change(&mut list);
    words.push(format!("s-{word}"));
    list
}

/// A response in frames, complete or broken off in one of many ways; whether the connection goes on.
fn response(draw: &mut Draw, words: &mut Vec<String>) -> (Vec<u8>, bool) {
    let mut list = drawn_head(draw, words);
    let mut say = |word: &str| words.push(format!("s-{word}"));
    let sized = |list: &mut List, len: usize| list.add("content-length", len.to_string());
    let interim = |status: &str| head(THIS, &List::of(&[(":status", status), ("link", "</a>")]), false);
    let whole = |list: &List| [head(THIS, list, false), data_frame(THIS, b"hello", true)].concat();
    let frames = match draw.below(34) {
        0..6 => {
            say("sized");
            sized(&mut list, 5);
            whole(&list)
        }
        6..9 => {
            say("unsized");
            whole(&list)
        }
        9 => {
            say("none");
            head(THIS, &list, true)
        }
        10 => {
            say("ends-later");
            [head(THIS, &list, false), data_frame(THIS, b"hello", false), data_frame(THIS, b"", true)]
                .concat()
        }
        11 => {
            say("trailers");
            let trailers = List::of(&[("grpc-status", "0"), ("x-sum", "1")]);
            [head(THIS, &list, false), data_frame(THIS, b"hello", false), head(THIS, &trailers, true)]
                .concat()
        }
        12 => {
            say("trailers-only");
            list.add("grpc-status", "12");
            head(THIS, &list, true)
        }
        13 => {
            say("trailers-pseudo");
            let trailers = List::of(&[(":status", "200"), ("x-sum", "1")]);
            [head(THIS, &list, false), data_frame(THIS, b"hello", false), head(THIS, &trailers, true)]
                .concat()
        }
        14 => {
            say("trailers-no-end");
            let trailers = List::of(&[("x-sum", "1")]);
            [head(THIS, &list, false), data_frame(THIS, b"hello", false), head(THIS, &trailers, false)]
                .concat()
        }
        15 => {
            say("103");
            [interim("103"), whole(&list)].concat()
        }
        16 => {
            say("100-103");
            [interim("100"), interim("103"), whole(&list)].concat()
        }
        17 => {
            say("103-ends");
            head(THIS, &List::of(&[(":status", "103")]), true)
        }
        18 => {
            say("204");
            list.set(":status", "204");
            head(THIS, &list, true)
        }
        19 => {
            say("204-body");
            list.set(":status", "204");
            whole(&list)
        }
        20 => {
            say("304");
            list.set(":status", "304");
            sized(&mut list, 10);
            head(THIS, &list, true)
        }
        21 => {
            say("more");
            sized(&mut list, 3);
            whole(&list)
        }
        22 => {
            say("less");
            sized(&mut list, 9);
            whole(&list)
        }
        23 => {
            say("less-none");
            sized(&mut list, 9);
            head(THIS, &list, true)
        }
        24 => {
            say("data-first");
            data_frame(THIS, b"hello", true)
        }
        25 => {
            say("resets");
            let codes =
                [ErrorCode::Cancel, ErrorCode::RefusedStream, ErrorCode::InternalError, ErrorCode::NoError];
            reset(THIS, *draw.one(&codes))
        }
        26 => {
            say("resets-after-head");
            [head(THIS, &list, false), reset(THIS, ErrorCode::InternalError)].concat()
        }
        27 => {
            say("resets-in-body");
            [head(THIS, &list, false), data_frame(THIS, b"hel", false), reset(THIS, ErrorCode::Cancel)]
                .concat()
        }
        28 => {
            say("resets-after-end");
            [whole(&list), reset(THIS, ErrorCode::NoError)].concat()
        }
        29 => {
            say("padded");
            [head(THIS, &list, false), padded_data(THIS, b"hello", 7, true)].concat()
        }
        30 => {
            say("continued");
            let bytes = block(&list.0);
            let (start, rest) = bytes.split_at(bytes.len().min(1));
            let mut out = frame(Kind::Headers, 0, THIS, start);
            out.extend(frame(Kind::Continuation, flag::END_HEADERS, THIS, rest));
            out.extend(data_frame(THIS, b"hello", true));
            out
        }
        31 => {
            say("hpack-bad");
            frame(Kind::Headers, flag::END_HEADERS, THIS, &[0x80])
        }
        32 => {
            say("pushes");
            let promised =
                block(&[(":method", "GET"), (":scheme", "http"), (":authority", "h"), (":path", "/")]);
            let push =
                frame(Kind::PushPromise, flag::END_HEADERS, THIS, &[&[0, 0, 0, 2], &promised[..]].concat());
            [push, whole(&list)].concat()
        }
        _ => {
            say("body-cut");
            sized(&mut list, 9);
            return ([head(THIS, &list, false), data_frame(THIS, b"hel", false)].concat(), false);
        }
    };
    (frames, true)
}

/// How a server of HTTP/2 goes about it.
pub fn http2(draw: &mut Draw, words: &mut Vec<String>) -> Server {
    let start = script().exactly(24).send(opening(false));
    let early = draw.chance(15);
    let asked = match early {
        true => {
            words.push("s-early".into());
            script().frames(Mark::NewStream)
        }
        false => script().frames(Mark::NewStream).frames(Mark::Over(THIS)),
    };
    let (frames, goes_on) = response(draw, words);
    let mut say = |word: &str| words.push(format!("s-{word}"));
    let play = match draw.below(20) {
        _ if !goes_on => start.chain(asked).reply(frames).pause(STEP).close(),
        0 => {
            say("late");
            start.forever(asked.pause(2 * STEP).reply(frames))
        }
        1 => {
            let (word, more) = between(draw, THIS);
            say(word);
            start.forever(asked.reply(more).reply(frames))
        }
        2 => {
            say("goaway-first");
            start.chain(asked).send(goaway(0, ErrorCode::NoError)).pause(STEP).close()
        }
        3 => {
            say("goaway-and-answer");
            start.chain(asked).send(goaway(1, ErrorCode::NoError)).reply(frames).end()
        }
        4 => {
            say("goaway-error");
            start.chain(asked).send(goaway(1, ErrorCode::InternalError)).pause(STEP).close()
        }
        5 => {
            say("closes");
            start.chain(asked).pause(STEP).close()
        }
        6 => {
            say("breaks");
            start.chain(asked).pause(STEP).reset()
        }
        7 => {
            say("mute");
            start.chain(asked).end()
        }
        8 => {
            say("not-http2");
            script().exactly(24).send("HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n").end()
        }
        9 => {
            say("no-settings");
            script().exactly(24).send(frame(Kind::Ping, 0, 0, &[0; 8])).end()
        }
        _ => start.forever(asked.reply(frames)),
    };
    Server::Plays(vec![play])
}
