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

/// Frames until a flood ends the connection, all within one millisecond, and the reason.
fn flood(mut end: End, make: &dyn Fn(u32) -> Vec<Vec<u8>>) -> Option<(u32, Failure)> {
    let mut frames = 0;
    (0..50_000).find_map(|i| {
        make(i).iter().find_map(|frame| {
            frames += 1;
            let failure = end.feed(frame).err();
            // What the owner does with a request that is none.
            for seen in end.events() {
                if let Seen::Refused { stream, .. } = seen {
                    end.connection.reset(stream, ErrorCode::ProtocolError);
                }
            }
            end.output();
            failure.map(|failure| (frames, failure))
        })
    })
}

#[test]
fn floods_end_the_connection_by_name() {
    type Make<'a> = &'a dyn Fn(u32) -> Vec<Vec<u8>>;
    let reset = |id| frame(Kind::RstStream, 0, id, &[0, 0, 0, 8]);
    let id = |i: u32| 2 * i + 1;
    let first = |i: u32, head: Vec<u8>, then: Vec<u8>| if i == 0 { vec![head] } else { vec![then] };
    let bad = |i| frame(Kind::Headers, BOTH, id(i), &[GET, b"\x84"].concat());
    let floods: [(&str, u32, Abuse, Make); 19] = [
        ("requests that are taken back", 2_002, Abuse::RapidReset, &|i| vec![get(id(i)), reset(id(i))]),
        // MadeYouReset: the peer makes us reset.
        ("windows of nothing", 1_906, Abuse::ForcedReset, &|i| {
            vec![get(id(i)), frame(Kind::WindowUpdate, 0, id(i), &[0; 4])]
        }),
        ("data behind the end", 1_906, Abuse::ForcedReset, &|i| {
            vec![get(id(i)), frame(Kind::Data, 0, id(i), b"x")]
        }),
        ("heads behind the end", 2_002, Abuse::ForcedReset, &|i| {
            vec![get(id(i)), frame(Kind::Headers, BOTH, id(i), b"")]
        }),
        ("too much data", 2_002, Abuse::ForcedReset, &|i| {
            vec![post_of(id(i), 1), frame(Kind::Data, 0, id(i), b"xx")]
        }),
        ("malformed requests", 2_001, Abuse::Glitch, &|i| vec![bad(i)]),
        ("pings", 5_001, Abuse::Ping, &|_| vec![frame(Kind::Ping, 0, 0, &[0; 8])]),
        ("answers to no ping", 20_001, Abuse::Noise, &|_| vec![frame(Kind::Ping, flag::ACK, 0, &[0; 8])]),
        ("settings", 1_001, Abuse::Settings, &|_| vec![frame(Kind::Settings, 0, 0, &[])]),
        ("acknowledgements", 20_002, Abuse::Noise, &|_| vec![frame(Kind::Settings, flag::ACK, 0, &[])]),
        ("priorities", 20_001, Abuse::Noise, &|_| vec![frame(Kind::Priority, 0, 1, &[0; 5])]),
        ("unknown frames", 20_001, Abuse::Noise, &|_| vec![frame(Kind::Unknown(99), 0, 1, &[0; 5])]),
        ("tiny windows", 20_001, Abuse::TinyWindow, &|_| {
            vec![frame(Kind::WindowUpdate, 0, 0, &[0, 0, 0, 1])]
        }),
        ("windows", 20_001, Abuse::Window, &|_| vec![frame(Kind::WindowUpdate, 0, 0, &[0, 0, 0, 99])]),
        ("empty data", 20_002, Abuse::EmptyData, &|i| first(i, post(1), frame(Kind::Data, 0, 1, b""))),
        ("padding", 20_002, Abuse::EmptyData, &|i| {
            first(i, post(1), frame(Kind::Data, flag::PADDED, 1, b"\0"))
        }),
        ("data for a stream that is over", 20_003, Abuse::Noise, &|i| match i {
            0 => vec![post(1), reset(1)],
            _ => vec![frame(Kind::Data, 0, 1, b"x")],
        }),
        ("resets of a stream that is over", 20_002, Abuse::Noise, &|i| match i {
            0 => vec![get(1), reset(1)],
            _ => vec![reset(1)],
        }),
        ("departures", 20_001, Abuse::Noise, &|_| vec![frame(Kind::Goaway, 0, 0, &[0; 8])]),
    ];
    for (name, frames, abuse, make) in floods {
        let (count, failure) = flood(server(), make).expect(name);
        assert_eq!(failure, Failure::Abuse(abuse), "{name}");
        assert!(count <= frames, "{name}: {count} frames");
    }
    let continued = |i| first(i, frame(Kind::Headers, 0, 1, GET), frame(Kind::Continuation, 0, 1, b""));
    assert_eq!(flood(server(), &continued), Some((66, Failure::BlockTooLong)));
}

/// What a server can do with one request.
#[test]
fn floods_of_servers_end_the_connection_by_name() {
    let asked = || {
        let (mut client, _) = pair();
        client.connection.open(&request(b"GET"), b"http", true).unwrap();
        client.output();
        client
    };
    let hint = |_| vec![frame(Kind::Headers, flag::END_HEADERS, 1, b"\x08\x03103")];
    assert_eq!(flood(asked(), &hint), Some((2_001, Failure::Abuse(Abuse::Interim))));
    let ping = |_| vec![frame(Kind::Ping, 0, 0, &[0; 8])];
    assert_eq!(flood(asked(), &ping), Some((5_001, Failure::Abuse(Abuse::Ping))));
    let settings = |_| vec![frame(Kind::Settings, 0, 0, &[])];
    assert_eq!(flood(asked(), &settings), Some((1_001, Failure::Abuse(Abuse::Settings))));
    let window = |_| vec![frame(Kind::WindowUpdate, 0, 0, &[0, 0, 0, 99])];
    assert_eq!(flood(asked(), &window), Some((20_001, Failure::Abuse(Abuse::Window))));
    let data = |i| {
        vec![if i == 0 {
            frame(Kind::Headers, flag::END_HEADERS, 1, b"\x88")
        } else {
            frame(Kind::Data, 0, 1, b"")
        }]
    };
    assert_eq!(flood(asked(), &data), Some((20_002, Failure::Abuse(Abuse::EmptyData))));
}

/// A list of one octet for each field is decoded once, and no list after it.
#[test]
fn a_bomb_of_header_fields_ends_the_connection() {
    let mut end = server();
    // A field of nearly the whole table, and then its number again and again.
    let field = [&b"\x40\x01a\x7f\xa1\x1e"[..], &[b'x'; 4000]].concat();
    let block = [GET, &field, &[0xbe; 200]].concat();
    assert_eq!(end.feed(&frame(Kind::Headers, BOTH, 1, &block)), Err(Failure::BlockTooLong));
}

/// Who takes what it is sent gives windows back for as long as it likes.
#[test]
fn windows_for_what_was_sent_cost_nothing() {
    let mut end = server();
    end.feed(&get(1)).unwrap();
    assert!(end.connection.respond(1, &head(200), false));
    for _ in 0..100_000 {
        assert!(end.connection.send_data(1, &[0; 100], false));
        end.output();
        for id in [0, 1] {
            end.feed(&frame(Kind::WindowUpdate, 0, id, &[0, 0, 0, 100])).unwrap();
        }
        end.events();
    }
}

#[test]
fn frames_are_handled_in_turns() {
    let turns = |config: Config, input: &[u8]| {
        let mut end = server_with(config);
        end.input = input.to_vec();
        let mut turns = 0;
        while !end.input.is_empty() {
            let used = end.connection.receive(&end.input, 0, &mut end.log).unwrap();
            assert_eq!(end.connection.is_paused(), used < end.input.len() || turns == 4);
            end.input.drain(..used);
            turns += 1;
        }
        turns
    };
    let pings = frame(Kind::Ping, 0, 0, &[0; 8]).repeat(10);
    assert_eq!(turns(Config { frames_at_once: 2, ..Config::default() }, &pings), 5);
    let reset = |id: u32| [get(id), frame(Kind::RstStream, 0, id, &[0, 0, 0, 8])].concat();
    let resets: Vec<u8> = (0..5).flat_map(|i| reset(2 * i + 1)).collect();
    assert_eq!(turns(Config { resets_at_once: 1, ..Config::default() }, &resets), 5);
}

#[test]
fn a_peer_that_does_not_read_is_left() {
    let mut end = server();
    let ping = frame(Kind::Ping, 0, 0, &[0; 8]);
    let ended = (0..200_000u64).find_map(|i| {
        end.input.extend_from_slice(&ping);
        let done = end.connection.receive(&end.input, i, &mut end.log);
        end.input.clear();
        done.err()
    });
    assert!(matches!(ended, Some(Failure::NotReading | Failure::Abuse(_))), "{ended:?}");
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

fn pair() -> (End, End) {
    let (mut client, mut server) =
        (End::new(Role::Client, Config::default()), End::new(Role::Server, Config::default()));
    for _ in 0..2 {
        let bytes = client.output();
        server.feed(&bytes).unwrap();
        let bytes = server.output();
        client.feed(&bytes).unwrap();
    }
    (client, server)
}

fn request(method: &[u8]) -> Head {
    let mut head = Head::new();
    head.start_request(method, b"/x", thalweg_http::Version::HTTP_11).unwrap();
    head.push(b"host", b"a.b").unwrap();
    head
}

#[test]
fn a_client_and_a_server_understand_each_other() {
    let (mut client, mut server) = pair();
    assert_eq!((client.events(), server.events()), (vec![Seen::Ready], vec![Seen::Ready]));
    let id = client.connection.open(&request(b"POST"), b"https", false).unwrap();
    client.connection.send_data(id, b"body", false);
    let mut trailers = Head::new();
    trailers.push(b"x-end", b"yes").unwrap();
    client.connection.send_trailers(id, &trailers);
    let bytes = client.output();
    server.feed(&bytes).unwrap();
    assert_eq!(
        server.events(),
        [
            Seen::Head { stream: 1, line: "POST https://a.b/x".into(), end: false },
            Seen::Data { stream: 1, data: b"body".to_vec(), end: false },
            Seen::Trailers { stream: 1, fields: 1 }
        ]
    );
    server.connection.consumed(1, 4);
    server.connection.respond(1, &head(103), false);
    server.connection.respond(1, &head(200), false);
    server.connection.send_data(1, b"answer", true);
    let bytes = server.output();
    client.feed(&bytes).unwrap();
    assert_eq!(
        client.events(),
        [
            Seen::Head { stream: 1, line: "103".into(), end: false },
            Seen::Head { stream: 1, line: "200".into(), end: false },
            Seen::Data { stream: 1, data: b"answer".to_vec(), end: true }
        ]
    );
    client.connection.consumed(1, 6);
    assert_eq!((client.connection.open_streams(), server.connection.open_streams()), (0, 0));
}

#[test]
fn a_response_to_head_announces_a_length_without_data() {
    let (mut client, mut server) = pair();
    client.connection.open(&request(b"HEAD"), b"http", true).unwrap();
    let bytes = client.output();
    server.feed(&bytes).unwrap();
    let mut answer = head(200);
    answer.push(b"content-length", b"1000").unwrap();
    server.connection.respond(1, &answer, true);
    let bytes = server.output();
    client.feed(&bytes).unwrap();
    let events = client.events();
    assert_eq!(events.last(), Some(&Seen::Head { stream: 1, line: "200".into(), end: true }));
}

#[test]
fn data_of_a_response_without_a_body_is_left_out() {
    let (mut client, mut server) = pair();
    for (id, ends) in [(1, true), (3, false)] {
        client.connection.open(&request(b"HEAD"), b"http", true).unwrap();
        let bytes = client.output();
        server.feed(&bytes).unwrap();
        server.connection.respond(id, &head(200), false);
        let more = [frame(Kind::Data, 0, id, b"unasked"), frame(Kind::Data, 1, id, b"!")].concat();
        let bytes = [server.output(), more].concat();
        client.feed(&bytes[..bytes.len() - usize::from(!ends)]).unwrap();
        let end = Seen::Data { stream: id, data: Vec::new(), end: true };
        assert_eq!(client.events().last() == Some(&end), ends);
    }
    assert!(client.frames().iter().all(|(header, _)| header.kind != Kind::RstStream));
}

#[test]
fn data_before_a_response_is_malformed() {
    let (mut client, _) = pair();
    client.connection.open(&request(b"GET"), b"http", true).unwrap();
    client.output();
    client.feed(&frame(Kind::Data, 0, 1, b"early")).unwrap();
    let frames = client.frames();
    let resets: Vec<_> = frames.iter().filter(|(header, _)| header.kind == Kind::RstStream).collect();
    assert_eq!(frame::reset(&resets[0].1), Ok(ErrorCode::ProtocolError));
}

#[test]
fn an_interim_response_ends_nothing() {
    let (mut client, mut server) = pair();
    client.connection.open(&request(b"GET"), b"http", true).unwrap();
    let bytes = client.output();
    server.feed(&bytes).unwrap();
    client.events();
    // CVE-2023-0056.
    let mut block = Vec::new();
    message::encode_response(&head(103), &mut server.connection.encoder, &mut block);
    client.feed(&frame(Kind::Headers, BOTH, 1, &block)).unwrap();
    assert!(matches!(client.events()[..], [Seen::Reset { stream: 1, by_peer: false, .. }]));
}

use crate::message;

#[test]
fn a_client_keeps_within_what_the_server_allows() {
    let mut config = Config::default();
    config.settings.max_concurrent_streams = Some(1);
    let (mut client, mut server) =
        (End::new(Role::Client, Config::default()), End::new(Role::Server, config));
    let bytes = client.output();
    server.feed(&bytes).unwrap();
    let bytes = server.output();
    client.feed(&bytes).unwrap();
    assert_eq!(client.connection.openable(), 1);
    client.connection.open(&request(b"GET"), b"http", true).unwrap();
    assert_eq!(client.connection.open(&request(b"GET"), b"http", true), Err(OpenError::Full));
    client.feed(&frame(Kind::Goaway, 0, 0, &[0; 8])).unwrap();
    assert_eq!(client.connection.open(&request(b"GET"), b"http", true), Err(OpenError::Closing));
}

/// A large body to an end that gives its streams most of what they share, and takes what came in odd pieces.
#[test]
fn a_large_body_goes_through_shared_windows() {
    let mut config = Config { window: (1 << 31) - 1, receive_shared: 1_600_000, ..Config::default() };
    config.settings.initial_window = 16_384;
    let mut client = End::new(Role::Client, Config::default());
    let mut server = End::new(Role::Server, config);
    let id = client.connection.open(&request(b"POST"), b"http", false).unwrap();
    let (mut sent, mut waiting, mut taken) = (0usize, 0usize, 0usize);
    while taken < 3_000_000 {
        let before = (sent, taken);
        loop {
            let n = client.connection.room(id).min(3_000_000 - sent);
            if n == 0 {
                break;
            }
            client.connection.send_data(id, &vec![7; n], false);
            sent += n;
        }
        let bytes = client.output();
        server.feed(&bytes).unwrap();
        for event in server.events() {
            if let Seen::Data { data, .. } = event {
                waiting += data.len();
            }
        }
        let part = waiting.min(100_001);
        server.connection.consumed(id, part);
        waiting -= part;
        taken += part;
        let bytes = server.output();
        client.feed(&bytes).unwrap();
        assert_ne!((sent, taken), before, "stuck");
    }
}

/// A server that answers with a body may send most of what the streams of a connection share ahead of who takes it.
#[test]
fn responses_have_their_share() {
    let mut config = Config { window: (1 << 31) - 1, receive_shared: 1_600_000, ..Config::default() };
    config.settings.initial_window = 16_384;
    let mut client = End::new(Role::Client, config);
    let mut server = End::new(Role::Server, Config::default());
    let id = client.connection.open(&request(b"GET"), b"http", true).unwrap();
    server.feed(&client.output()).unwrap();
    client.feed(&server.output()).unwrap();
    assert!(server.connection.respond(id, &head(200), false));
    let mut sent = 0;
    loop {
        // The connection's window grows once there is something to receive.
        client.feed(&server.output()).unwrap();
        server.feed(&client.output()).unwrap();
        let n = server.connection.room(id);
        if n == 0 {
            break;
        }
        assert!(server.connection.send_data(id, &vec![7; n], false));
        sent += n;
    }
    assert!((1_000_000..=1_600_000).contains(&sent), "{sent}");
}
