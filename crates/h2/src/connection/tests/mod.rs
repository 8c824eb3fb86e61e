//! Connections, frame by frame.

mod floods;
mod pairs;

use super::*;
use crate::frame::{HEADER_LEN, Header, Kind, flag};

/// An event without what it borrows.
#[derive(Clone, Debug, PartialEq)]
enum Seen {
    Head { stream: u32, line: String, end: bool },
    Refused { stream: u32, why: Malformed },
    Data { stream: u32, data: Vec<u8>, end: bool },
    Trailers { stream: u32, fields: usize },
    Reset { stream: u32, code: ErrorCode, by_peer: bool },
    Room { stream: u32 },
    Goaway { last: u32 },
    Pong,
    Ready,
}

#[derive(Default)]
struct Log(Vec<Seen>);

impl Handler for Log {
    fn on(&mut self, event: Event<'_>) {
        let seen = match event {
            Event::Head { stream, head, end, .. } => {
                let line = match head.is_request() {
                    true => String::from_utf8_lossy(&[head.method_bytes(), b" ", head.target()].concat())
                        .into_owned(),
                    false => head.status().to_string(),
                };
                Seen::Head { stream, line, end }
            }
            Event::Refused { stream, why } => Seen::Refused { stream, why },
            // Parts of one frame are one thing to a test.
            Event::Data { stream, data, end } => match self.0.last_mut() {
                Some(Seen::Data { stream: last, data: before, end: ended }) if *last == stream && !*ended => {
                    before.extend_from_slice(data);
                    *ended = end;
                    return;
                }
                _ => Seen::Data { stream, data: data.to_vec(), end },
            },
            Event::Trailers { stream, trailers } => Seen::Trailers { stream, fields: trailers.len() },
            Event::Reset { stream, code, by_peer } => Seen::Reset { stream, code, by_peer },
            Event::Room { stream } => Seen::Room { stream },
            Event::Goaway { last, .. } => Seen::Goaway { last },
            Event::Pong => Seen::Pong,
            Event::Ready => Seen::Ready,
        };
        self.0.push(seen);
    }
}

/// One end, with what it did not use of its input yet.
struct End {
    connection: Connection,
    input: Vec<u8>,
    log: Log,
}

impl End {
    fn new(role: Role, config: Config) -> End {
        End { connection: Connection::new(role, config, 0), input: Vec::new(), log: Log::default() }
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.input.extend_from_slice(bytes);
        let used = self.connection.receive(&self.input, 0, &mut self.log)?;
        self.input.drain(..used);
        assert!(self.input.len() <= HEADER_LEN + self.connection.config.settings.max_frame_size as usize);
        Ok(())
    }

    fn events(&mut self) -> Vec<Seen> {
        std::mem::take(&mut self.log.0)
    }

    fn output(&mut self) -> Vec<u8> {
        std::mem::take(self.connection.output())
    }

    fn frames(&mut self) -> Vec<(Header, Vec<u8>)> {
        let output = self.output();
        let mut rest = &output[..];
        let mut all = Vec::new();
        while let Some((header, after)) = rest.split_first_chunk::<HEADER_LEN>() {
            let header = Header::parse(header);
            all.push((header, after[..header.len].to_vec()));
            rest = &after[header.len..];
        }
        all
    }
}

/// A server that has had the client's preface and settings.
fn server_with(config: Config) -> End {
    let mut end = End::new(Role::Server, config);
    end.feed(PREFACE).unwrap();
    end.feed(&frame(Kind::Settings, 0, 0, b"")).unwrap();
    assert_eq!(end.events(), [Seen::Ready]);
    end.output();
    end
}

fn server() -> End {
    server_with(Config::default())
}

fn frame(kind: Kind, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    [&Header { len: payload.len(), kind, flags, stream }.encode()[..], payload].concat()
}

/// GET https://a/ by indexes of the static table and a literal authority.
const GET: &[u8] = b"\x82\x87\x84\x01\x01a";
/// The same with POST.
const POST: &[u8] = b"\x83\x87\x84\x01\x01a";
const BOTH: u8 = flag::END_HEADERS | flag::END_STREAM;

fn get(stream: u32) -> Vec<u8> {
    frame(Kind::Headers, BOTH, stream, GET)
}

fn post(stream: u32) -> Vec<u8> {
    frame(Kind::Headers, flag::END_HEADERS, stream, POST)
}

/// POST with `content-length: n`, one digit.
fn post_of(stream: u32, n: u8) -> Vec<u8> {
    let block = [POST, b"\x0f\x0d\x01", &[b'0' + n]].concat();
    frame(Kind::Headers, flag::END_HEADERS, stream, &block)
}

/// A table is no larger than lengths and places in it may be, whatever the owner wants.
#[test]
fn the_largest_table_is_what_the_peer_is_told() {
    let settings = Settings { header_table_size: 1 << 20, ..Settings::default() };
    let mut end = End::new(Role::Server, Config { settings, ..Config::default() });
    // SETTINGS_HEADER_TABLE_SIZE, 65536.
    assert_eq!(end.frames()[0].1[..6], [0, 1, 0, 1, 0, 0]);
    end.feed(PREFACE).unwrap();
    end.feed(&[frame(Kind::Settings, 0, 0, b""), frame(Kind::Settings, flag::ACK, 0, b"")].concat()).unwrap();
    // A change of its size to that (RFC 7541 section 6.3).
    end.feed(&frame(Kind::Headers, BOTH, 1, &[b"\x3f\xe1\xff\x03", GET].concat())).unwrap();
    end.feed(&get(3)).unwrap();
    assert!(matches!(end.events()[..], [.., Seen::Head { stream: 1, .. }, Seen::Head { stream: 3, .. }]));
}

/// What only streams need goes from a connection that waits to one that does not.
#[test]
fn room_is_given_back_without_streams_and_lent() {
    let (mut one, mut other) = (server(), server());
    assert!(one.connection.lacks_room() && one.connection.rest().is_none(), "nothing was needed yet");
    one.feed(&get(1)).unwrap();
    assert!(one.connection.rest().is_none(), "a stream is open");
    assert!(one.connection.respond(1, &head(200), true));
    assert!(one.connection.rest().is_none(), "its answer was not sent");
    one.connection.output().clear();
    let room = one.connection.rest().unwrap();
    assert!(one.connection.lacks_room() && one.connection.output().capacity() == 0);
    other.connection.output().shrink_to_fit();
    other.connection.lend(room);
    assert!(!other.connection.lacks_room() && other.connection.output().capacity() > 0);
    for end in [&mut one, &mut other] {
        end.feed(&get(3)).unwrap();
        assert!(end.connection.respond(3, &head(200), true));
        assert_eq!(end.frames().len(), 1);
    }
}

fn failure(bytes: &[&[u8]]) -> Failure {
    let mut end = server();
    for part in bytes {
        if let Err(failure) = end.feed(part) {
            let frames = end.frames();
            let (last, payload) = frames.last().expect("a GOAWAY");
            assert_eq!(last.kind, Kind::Goaway);
            assert_eq!(frame::goaway(payload).unwrap().1, failure.code());
            assert_eq!(end.feed(b""), Err(failure), "it stays failed");
            return failure;
        }
    }
    panic!("nothing failed: {:?}", end.events());
}

/// The code of the RST_STREAM that these frames lead to.
fn reset_by(bytes: &[&[u8]]) -> ErrorCode {
    let mut end = server();
    for part in bytes {
        end.feed(part).unwrap();
    }
    let resets: Vec<_> = end.frames().into_iter().filter(|(h, _)| h.kind == Kind::RstStream).collect();
    assert_eq!(resets.len(), 1, "{resets:?}");
    frame::reset(&resets[0].1).unwrap()
}

fn head(status: u16) -> Head {
    let mut head = Head::new();
    head.start_response(thalweg_http::Version::HTTP_11, status, None).unwrap();
    head
}

#[test]
fn a_request_and_its_response() {
    let mut end = server();
    end.feed(&get(1)).unwrap();
    assert_eq!(end.events(), [Seen::Head { stream: 1, line: "GET https://a/".into(), end: true }]);
    assert!(end.connection.respond(1, &head(200), false));
    assert!(end.connection.room(1) >= 5);
    assert!(end.connection.send_data(1, b"hello", true));
    assert_eq!(end.connection.open_streams(), 0);
    let kinds: Vec<_> = end.frames().iter().map(|(h, p)| (h.kind, h.flags, p.len())).collect();
    assert_eq!(kinds, [(Kind::Headers, flag::END_HEADERS, 1), (Kind::Data, flag::END_STREAM, 5)]);
    assert!(!end.connection.respond(1, &head(200), true), "the stream is gone");
}

#[test]
fn every_cut_of_the_input_gives_the_same() {
    let mut all = Vec::new();
    all.extend_from_slice(PREFACE);
    all.extend(frame(Kind::Settings, 0, 0, b"\0\x04\0\0\x10\0"));
    all.extend(post_of(1, 5));
    all.extend(frame(Kind::Data, flag::PADDED, 1, b"\x03hel\0\0\0"));
    all.extend(frame(Kind::Data, flag::END_STREAM, 1, b"lo"));
    all.extend(frame(Kind::Ping, 0, 0, b"12345678"));
    all.extend(frame(Kind::Headers, flag::END_STREAM, 3, &GET[..2]));
    all.extend(frame(Kind::Continuation, flag::END_HEADERS, 3, &GET[2..]));
    all.extend(post(5));
    all.extend(frame(Kind::Data, 0, 5, b""));
    all.extend(frame(Kind::Headers, BOTH, 5, b"\0\x01x\x01y"));
    let play = |size: usize| {
        let mut end = End::new(Role::Server, Config::default());
        for part in all.chunks(size) {
            end.feed(part).unwrap();
        }
        assert!(end.input.is_empty());
        (end.events(), end.output())
    };
    let whole = play(all.len());
    assert_eq!(whole.0.len(), 6, "{:?}", whole.0);
    for size in 1..all.len() {
        assert_eq!(play(size), whole, "pieces of {size}");
    }
}

#[test]
fn malformed_frames_end_the_connection() {
    let push = frame(Kind::PushPromise, flag::END_HEADERS, 1, b"\0\0\0\x02");
    assert_eq!(failure(&[&push]), Failure::UnexpectedFrame);
    assert_eq!(failure(&[&frame(Kind::Ping, 0, 1, &[0; 8])]), Failure::StreamId);
    assert_eq!(failure(&[&frame(Kind::Ping, 0, 0, &[0; 7])]), Failure::FrameSize);
    assert_eq!(failure(&[&frame(Kind::Settings, 0, 1, b"")]), Failure::StreamId);
    assert_eq!(failure(&[&frame(Kind::Settings, flag::ACK, 0, &[0; 6])]), Failure::FrameSize);
    assert_eq!(failure(&[&frame(Kind::Settings, 0, 0, &[0; 5])]), Failure::FrameSize);
    assert_eq!(failure(&[&frame(Kind::Goaway, 0, 1, &[0; 8])]), Failure::StreamId);
    assert_eq!(failure(&[&frame(Kind::Headers, BOTH, 0, GET)]), Failure::StreamId);
    assert_eq!(failure(&[&frame(Kind::Headers, BOTH, 2, GET)]), Failure::StreamId);
    assert_eq!(failure(&[&frame(Kind::Data, 0, 0, b"x")]), Failure::StreamId);
    assert_eq!(failure(&[&frame(Kind::Data, 0, 1, b"x")]), Failure::UnexpectedFrame);
    assert_eq!(failure(&[&frame(Kind::RstStream, 0, 1, &[0; 4])]), Failure::UnexpectedFrame);
    assert_eq!(failure(&[&frame(Kind::RstStream, 0, 0, &[0; 4])]), Failure::StreamId);
    assert_eq!(failure(&[&get(1), &frame(Kind::RstStream, 0, 1, &[0; 3])]), Failure::FrameSize);
    assert_eq!(failure(&[&frame(Kind::WindowUpdate, 0, 1, &[0, 0, 0, 1])]), Failure::UnexpectedFrame);
    assert_eq!(failure(&[&frame(Kind::WindowUpdate, 0, 0, &[0; 4])]), Failure::UnexpectedFrame);
    assert_eq!(failure(&[&frame(Kind::Priority, 0, 1, &[0; 4])]), Failure::FrameSize);
    assert_eq!(failure(&[&frame(Kind::WindowUpdate, 0, 0, &[0x7f, 255, 255, 255])]), Failure::FlowControl);
    assert_eq!(failure(&[&frame(Kind::Priority, 0, 0, &[0; 5])]), Failure::StreamId);
    assert_eq!(failure(&[&post(1), &frame(Kind::Data, flag::PADDED, 1, b"\x02a")]), Failure::Padding);
    assert_eq!(failure(&[&post(1), &frame(Kind::Data, flag::PADDED, 1, b"")]), Failure::FrameSize);
    assert_eq!(
        failure(&[&frame(Kind::Headers, BOTH, 1, b"\xff\xff\xff\xff\xff\xff")]),
        Failure::Compression(DecodeError::Integer)
    );
    let too_long = Header { len: 16_385, kind: Kind::Data, flags: 0, stream: 1 }.encode();
    assert_eq!(failure(&[&too_long]), Failure::FrameSize);
}

#[test]
fn a_connection_begins_with_preface_and_settings() {
    let mut end = End::new(Role::Server, Config::default());
    assert_eq!(end.feed(b"GET / HTTP/1.1\r\n"), Err(Failure::Preface));
    assert!(end.frames().iter().all(|(h, _)| h.kind != Kind::Goaway), "whoever this is would not understand");
    let mut end = End::new(Role::Server, Config::default());
    end.feed(PREFACE).unwrap();
    assert_eq!(end.feed(&get(1)), Err(Failure::NoSettings));
    let mut end = End::new(Role::Server, Config::default());
    end.feed(PREFACE).unwrap();
    assert_eq!(end.feed(&frame(Kind::Settings, flag::ACK, 0, b"")), Err(Failure::NoSettings));
}

#[test]
fn header_blocks_are_not_interrupted() {
    let first = frame(Kind::Headers, flag::END_STREAM, 1, &GET[..2]);
    assert_eq!(failure(&[&first, &get(3)]), Failure::UnexpectedFrame);
    assert_eq!(failure(&[&first, &frame(Kind::Ping, 0, 0, &[0; 8])]), Failure::UnexpectedFrame);
    let other = frame(Kind::Continuation, flag::END_HEADERS, 3, &GET[2..]);
    assert_eq!(failure(&[&first, &other]), Failure::UnexpectedFrame);
    assert_eq!(failure(&[&frame(Kind::Continuation, flag::END_HEADERS, 1, GET)]), Failure::UnexpectedFrame);
}

#[test]
fn streams_are_used_once_and_in_order() {
    assert_eq!(failure(&[&get(5), &get(3)]), Failure::StreamClosed);
    let mut end = server();
    end.feed(&get(1)).unwrap();
    end.connection.respond(1, &head(200), true);
    assert_eq!(end.feed(&get(1)), Err(Failure::StreamClosed));
    assert_eq!(reset_by(&[&get(1), &frame(Kind::Data, 0, 1, b"x")]), ErrorCode::StreamClosed);
    assert_eq!(reset_by(&[&get(1), &frame(Kind::Headers, BOTH, 1, b"")]), ErrorCode::StreamClosed);
    assert_eq!(
        reset_by(&[&post(1), &frame(Kind::Headers, flag::END_HEADERS, 1, b"")]),
        ErrorCode::ProtocolError
    );
    assert_eq!(reset_by(&[&get(1), &frame(Kind::WindowUpdate, 0, 1, &[0; 4])]), ErrorCode::ProtocolError);
    assert_eq!(
        reset_by(&[&get(1), &frame(Kind::WindowUpdate, 0, 1, &[0x7f, 255, 255, 255])]),
        ErrorCode::FlowControlError
    );
}

#[test]
fn declared_and_delivered_lengths_are_the_same() {
    let data = |flags, bytes| frame(Kind::Data, flags, 1, bytes);
    assert_eq!(reset_by(&[&post_of(1, 3), &data(0, b"abcd")]), ErrorCode::ProtocolError);
    assert_eq!(reset_by(&[&post_of(1, 3), &data(flag::END_STREAM, b"ab")]), ErrorCode::ProtocolError);
    assert_eq!(
        reset_by(&[&post_of(1, 3), &data(0, b"ab"), &frame(Kind::Headers, BOTH, 1, b"")]),
        ErrorCode::ProtocolError
    );
    let block = [GET, b"\x0f\x0d\x013"].concat();
    let mut end = server();
    end.feed(&frame(Kind::Headers, BOTH, 1, &block)).unwrap();
    assert_eq!(end.events(), [Seen::Refused { stream: 1, why: Malformed::ContentLength }]);
    let mut end = server();
    end.feed(&post_of(1, 3)).unwrap();
    end.feed(&data(0, b"abc")).unwrap();
    end.feed(&data(flag::END_STREAM, b"")).unwrap();
    assert_eq!(end.events()[1..], [Seen::Data { stream: 1, data: b"abc".to_vec(), end: true }]);
}

#[test]
fn a_malformed_request_is_refused_and_the_connection_goes_on() {
    let mut end = server();
    // Two paths, an upper-case name.
    end.feed(&frame(Kind::Headers, BOTH, 1, &[GET, b"\x84"].concat())).unwrap();
    end.feed(&frame(Kind::Headers, flag::END_HEADERS, 3, &[GET, b"\0\x01X\x01y"].concat())).unwrap();
    end.feed(&frame(Kind::Data, 0, 3, b"ignored")).unwrap();
    end.feed(&frame(Kind::Headers, BOTH, 3, b"")).unwrap();
    assert!(end.frames().iter().all(|(header, _)| header.kind != Kind::RstStream), "its owner says why");
    assert_eq!(
        end.events(),
        [
            Seen::Refused { stream: 1, why: Malformed::RepeatedPseudo },
            Seen::Refused { stream: 3, why: Malformed::Name }
        ]
    );
    assert!(end.connection.respond(1, &head(400), true));
    assert!(end.connection.respond(3, &head(400), true));
    end.feed(&get(5)).unwrap();
    assert_eq!(end.events().len(), 1);
    assert_eq!(end.connection.open_streams(), 1);
}

#[test]
fn more_streams_than_allowed_are_refused() {
    let mut config = Config::default();
    config.settings.max_concurrent_streams = Some(2);
    let mut end = server_with(config);
    for id in [1, 3, 5] {
        end.feed(&get(id)).unwrap();
    }
    assert_eq!(end.connection.open_streams(), 2);
    let frames = end.frames();
    assert_eq!((frames[0].0.kind, frames[0].0.stream), (Kind::RstStream, 5));
    assert_eq!(frame::reset(&frames[0].1), Ok(ErrorCode::RefusedStream));
}

#[test]
fn windows_hold_back_and_open() {
    let mut end = server();
    end.feed(&frame(Kind::Settings, 0, 0, b"\0\x04\0\0\0\x0a")).unwrap();
    end.feed(&get(1)).unwrap();
    end.events();
    end.connection.respond(1, &head(200), false);
    assert_eq!(end.connection.room(1), 10);
    end.connection.send_data(1, &[0; 10], false);
    assert_eq!(end.connection.room(1), 0);
    end.feed(&frame(Kind::WindowUpdate, 0, 1, &[0, 0, 0, 100])).unwrap();
    assert_eq!(end.events(), [Seen::Room { stream: 1 }]);
    assert_eq!(end.connection.room(1), 100);
    // A smaller window makes it negative, a larger one opens it again.
    end.feed(&frame(Kind::Settings, 0, 0, b"\0\x04\0\0\0\0")).unwrap();
    assert_eq!(end.connection.room(1), 90);
    end.connection.send_data(1, &[0; 90], false);
    assert_eq!(end.connection.room(1), 0);
    end.feed(&frame(Kind::Settings, 0, 0, b"\0\x04\0\0\0\x01")).unwrap();
    assert_eq!(end.events(), [Seen::Room { stream: 1 }]);
}

#[test]
fn the_receive_window_is_enforced_and_given_back() {
    let mut end = server();
    end.feed(&post(1)).unwrap();
    let piece = frame(Kind::Data, 0, 1, &[7; 16_000]);
    for _ in 0..4 {
        end.feed(&piece).unwrap();
    }
    assert_eq!(end.feed(&piece), Err(Failure::FlowControl), "nothing was consumed");
    let mut end = server();
    end.feed(&post(1)).unwrap();
    for _ in 0..50 {
        end.feed(&piece).unwrap();
        end.connection.consumed(1, 16_000);
    }
    let given: u32 = end
        .frames()
        .iter()
        .filter(|(h, _)| h.kind == Kind::WindowUpdate && h.stream == 1)
        .map(|(_, p)| frame::window_update(p).unwrap())
        .sum();
    assert!((50 * 16_000 - 32_768..=50 * 16_000).contains(&given), "{given}");
}

/// Streams that began before the peer knew our window had a larger one until then.
#[test]
fn a_window_that_was_not_known_yet_is_given_back_by_its_real_size() {
    let mut config = Config::default();
    config.settings.initial_window = 10_000;
    let mut end = server_with(config);
    end.feed(&post(1)).unwrap();
    end.frames();
    end.feed(&frame(Kind::Settings, flag::ACK, 0, b"")).unwrap();
    end.feed(&frame(Kind::Data, 0, 1, &[7; 10_000])).unwrap();
    end.connection.consumed(1, 10_000);
    let frames = end.frames();
    let given = frames.iter().find(|(h, _)| h.kind == Kind::WindowUpdate && h.stream == 1);
    assert_eq!(given.map(|(_, p)| frame::window_update(p).unwrap()), Some(10_000));
    end.feed(&frame(Kind::Data, 0, 1, &[7; 10_000])).unwrap();
    assert_eq!(end.feed(&frame(Kind::Data, 0, 1, b"x")), Err(Failure::FlowControl));
}

/// The peer sent more than the window that it learns of now, and waits until that is given back.
#[test]
fn what_was_sent_before_a_window_was_known_is_given_back() {
    let mut config = Config::default();
    config.settings.initial_window = 10_000;
    let mut end = server_with(config);
    end.feed(&post(1)).unwrap();
    end.feed(&frame(Kind::Data, 0, 1, &[7; 15_000])).unwrap();
    end.connection.consumed(1, 15_000);
    end.frames();
    end.feed(&frame(Kind::Settings, flag::ACK, 0, b"")).unwrap();
    let frames = end.frames();
    let given = frames.iter().find(|(h, _)| h.kind == Kind::WindowUpdate && h.stream == 1);
    assert_eq!(given.map(|(_, p)| frame::window_update(p).unwrap()), Some(15_000));
    end.feed(&frame(Kind::Data, 0, 1, &[7; 10_000])).unwrap();
}

/// RFC 9113 section 6.9.1: "Frames with zero length with the END_STREAM flag set (that is, an empty DATA frame) MAY be sent if
/// there is no available space in either flow-control window."
#[test]
fn a_body_ends_although_more_of_it_came_than_the_window_now_known() {
    let mut config = Config::default();
    config.settings.initial_window = 10_000;
    let mut end = server_with(config);
    end.feed(&post(1)).unwrap();
    end.feed(&frame(Kind::Data, 0, 1, &[7; 15_000])).unwrap();
    end.feed(&frame(Kind::Settings, flag::ACK, 0, b"")).unwrap();
    end.feed(&frame(Kind::Data, flag::END_STREAM, 1, b"")).unwrap();
    assert!(end.frames().iter().all(|(h, _)| h.kind != Kind::RstStream));
}

#[test]
fn a_reset_gives_the_connection_its_window_back() {
    let mut end = server();
    for i in 0..200 {
        let id = 2 * i + 1;
        end.feed(&post(id)).unwrap();
        end.feed(&frame(Kind::Data, 0, id, &[7; 16_000])).unwrap();
        match i % 3 {
            0 => end.connection.reset(id, ErrorCode::Cancel),
            1 => end.feed(&frame(Kind::RstStream, 0, id, &[0, 0, 0, 8])).unwrap(),
            _ => {
                end.connection.reset(id, ErrorCode::Cancel);
                // What was on its way is thrown away, and given back too.
                end.feed(&frame(Kind::Data, flag::END_STREAM, id, &[7; 16_000])).unwrap();
            }
        }
        end.output();
    }
    assert_eq!(end.connection.open_streams(), 0);
}

#[test]
fn an_orderly_end_has_two_steps() {
    let mut end = server();
    end.connection.announce_end();
    end.feed(&get(1)).unwrap();
    assert_eq!(end.events().len(), 1, "it was on its way");
    end.connection.goaway(ErrorCode::NoError);
    end.connection.goaway(ErrorCode::NoError);
    end.feed(&get(3)).unwrap();
    assert!(end.events().is_empty());
    let lasts: Vec<_> = end
        .frames()
        .into_iter()
        .filter(|(h, _)| h.kind == Kind::Goaway)
        .map(|(_, p)| frame::goaway(&p).unwrap())
        .collect();
    assert_eq!(lasts, [(i32::MAX as u32, ErrorCode::NoError), (1, ErrorCode::NoError)]);
    assert!(end.connection.respond(1, &head(200), true), "what is open goes on");
}

#[test]
fn a_connection_may_be_limited_to_a_number_of_streams() {
    let mut end = server_with(Config { streams_total_max: 2, ..Config::default() });
    for id in [1, 3, 5] {
        end.feed(&get(id)).unwrap();
    }
    assert_eq!(end.events().len(), 2);
    assert!(end.connection.is_closing());
}

// ---- both ends ----

use crate::message;
