//! Peers that make work, take memory, or do not read.

use super::pairs::{pair, request};
use super::*;

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
        ("windows of nothing", 2_002, Abuse::ForcedReset, &|i| {
            vec![get(id(i)), frame(Kind::WindowUpdate, 0, id(i), &[0; 4])]
        }),
        // Its data is for nobody, too.
        ("data behind the end", 1_520, Abuse::ForcedReset, &|i| {
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
        ("answers to no ping", 3_126, Abuse::Noise, &|_| vec![frame(Kind::Ping, flag::ACK, 0, &[0; 8])]),
        ("settings", 1_001, Abuse::Settings, &|_| vec![frame(Kind::Settings, 0, 0, &[])]),
        ("acknowledgements", 3_127, Abuse::Noise, &|_| vec![frame(Kind::Settings, flag::ACK, 0, &[])]),
        ("priorities", 3_126, Abuse::Noise, &|_| vec![frame(Kind::Priority, 0, 1, &[0; 5])]),
        ("unknown frames", 3_126, Abuse::Noise, &|_| vec![frame(Kind::Unknown(99), 0, 1, &[0; 5])]),
        ("tiny windows", 3_126, Abuse::TinyWindow, &|_| vec![frame(Kind::WindowUpdate, 0, 0, &[0, 0, 0, 1])]),
        ("windows", 3_126, Abuse::Window, &|_| vec![frame(Kind::WindowUpdate, 0, 0, &[0, 0, 0, 99])]),
        ("empty data", 3_127, Abuse::EmptyData, &|i| first(i, post(1), frame(Kind::Data, 0, 1, b""))),
        ("padding", 3_127, Abuse::EmptyData, &|i| {
            first(i, post(1), frame(Kind::Data, flag::PADDED, 1, b"\0"))
        }),
        ("data for a stream that is over", 3_128, Abuse::Noise, &|i| match i {
            0 => vec![post(1), reset(1)],
            _ => vec![frame(Kind::Data, 0, 1, b"x")],
        }),
        ("resets of a stream that is over", 3_127, Abuse::Noise, &|i| match i {
            0 => vec![get(1), reset(1)],
            _ => vec![reset(1)],
        }),
        ("departures", 3_126, Abuse::Noise, &|_| vec![frame(Kind::Goaway, 0, 0, &[0; 8])]),
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
    assert_eq!(flood(asked(), &window), Some((3_126, Failure::Abuse(Abuse::Window))));
    let data = |i| {
        vec![if i == 0 {
            frame(Kind::Headers, flag::END_HEADERS, 1, b"\x88")
        } else {
            frame(Kind::Data, 0, 1, b"")
        }]
    };
    assert_eq!(flood(asked(), &data), Some((3_127, Failure::Abuse(Abuse::EmptyData))));
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

/// Who takes it by the drop (CVE-2019-9511) does not, on a stream or on the connection; and large windows cost nothing.
#[test]
fn windows_that_let_drops_out_cost_much() {
    let drops = |window: u32, id: u32, increment: u32| {
        let mut end = server();
        let initial = [&[0, 4][..], &window.to_be_bytes()].concat();
        end.feed(&frame(Kind::Settings, 0, 0, &initial)).unwrap();
        end.feed(&get(1)).unwrap();
        if id == 1 {
            end.feed(&frame(Kind::WindowUpdate, 0, 0, &(1u32 << 30).to_be_bytes())).unwrap();
        }
        assert!(end.connection.respond(1, &head(200), false));
        (0..20_000).find(|_| {
            let octets = end.connection.room(1);
            assert!(octets == 0 || end.connection.send_data(1, &vec![0; octets], false));
            end.output();
            end.feed(&frame(Kind::WindowUpdate, 0, id, &increment.to_be_bytes())).is_err()
        })
    };
    let spent = |after: Option<u32>, least: u32| {
        assert!(after.is_some_and(|n| (least..least + 20).contains(&n)), "{after:?}")
    };
    spent(drops(0, 1, 1), 770);
    spent(drops(0, 1, 255), 880);
    spent(drops(1 << 20, 0, 1), 783);
    assert_eq!(drops(0, 1, 16_384), None);
    assert_eq!(drops(1 << 30, 0, 2_000), None);
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
