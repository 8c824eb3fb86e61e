//! A peer that sends many small DATA frames is listened to now and then, and loses nothing.

use thalweg_h2::connection::{Config, Connection, Event, Role};
use thalweg_h2::frame;

/// Small frames that are sent.
const FRAMES: usize = 100_000;

/// What a client sends: a head, and as many octets, each in a frame of its own.
fn sent() -> Vec<u8> {
    let mut bytes = frame::PREFACE.to_vec();
    frame::put_settings(&mut bytes, []);
    // POST, http, /, and h.
    let block = b"\x83\x86\x84\x41\x01h";
    bytes.extend_from_slice(&[0, 0, block.len() as u8, 1, 4, 0, 0, 0, 1]);
    bytes.extend_from_slice(block);
    bytes.extend((0..FRAMES).flat_map(|_| [0, 0, 1, 0, 0, 0, 0, 0, 1, b'x']));
    bytes
}

#[test]
fn small_frames_are_taken_at_a_steady_pace() {
    let config = Config { window: 1 << 30, receive_shared: 1 << 30, ..Config::default() };
    let mut server = Connection::new(Role::Server, config, 0);
    let (mut input, mut came, mut now_ms) = (sent(), 0, 0);
    while came < FRAMES {
        let mut stream = 0;
        let mut now = 0;
        let used = server
            .receive(&input, now_ms, &mut |event: Event<'_>| {
                if let Event::Data { stream: id, data, .. } = event {
                    (stream, now) = (id, now + data.len());
                }
            })
            .unwrap();
        server.consumed(stream, now);
        server.output().clear();
        input.drain(..used);
        came += now;
        match server.rests_until(now_ms) {
            Some(at) => {
                assert!(at > now_ms);
                // Who looks before that finds nothing to do.
                assert_eq!(server.receive(&input, at - 1, &mut |_: Event<'_>| panic!("it rests")), Ok(0));
                now_ms = at;
            }
            None => assert_eq!(came, FRAMES),
        }
    }
    assert!((4200..=4250).contains(&now_ms), "84,000 frames beyond the first took {now_ms} ms");
}
