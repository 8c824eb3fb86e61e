//! What must be true of a connection whatever the peer sends. Shared by the smoke test and the fuzz target.

use std::collections::BTreeMap;

use thalweg_h2::connection::{Config, Connection, Event, Failure, Handler, Role};
use thalweg_h2::error::ErrorCode;
use thalweg_h2::frame::{HEADER_LEN, Header, Kind};
use thalweg_http::{Head, Version};

/// What an owner of a connection sees, in a form that does not depend on how the input was cut.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    heads: Vec<(u32, bool)>,
    refused: Vec<u32>,
    data: BTreeMap<u32, (Vec<u8>, bool)>,
    trailers: Vec<u32>,
    resets: Vec<(u32, ErrorCode, bool)>,
    /// Streams to answer now.
    due: Vec<u32>,
    consumed: Vec<(u32, usize)>,
}

impl Handler for Seen {
    fn on(&mut self, event: Event<'_>) {
        match event {
            Event::Head { stream, head, end, .. } => {
                head.check_invariants();
                assert!(
                    !self.heads.iter().any(|(id, _)| *id == stream) || !head.is_request(),
                    "one request a stream"
                );
                self.heads.push((stream, end));
                if end {
                    self.due.push(stream);
                }
            }
            Event::Refused { stream, .. } => {
                self.refused.push(stream);
                self.due.push(stream);
            }
            Event::Data { stream, data, end } => {
                let known = self.data.entry(stream).or_default();
                assert!(!known.1, "data behind the end");
                known.0.extend_from_slice(data);
                known.1 = end;
                self.consumed.push((stream, data.len()));
                if end {
                    self.due.push(stream);
                }
            }
            Event::Trailers { stream, .. } => {
                self.trailers.push(stream);
                self.due.push(stream);
            }
            Event::Reset { stream, code, by_peer } => self.resets.push((stream, code, by_peer)),
            Event::Room { .. } | Event::Goaway { .. } | Event::Pong | Event::Ready => {}
        }
    }
}

/// Whether octets are whole frames that a peer can read.
fn check_output(bytes: &[u8], role: Role) {
    let mut rest = bytes;
    if role == Role::Client {
        rest = rest.strip_prefix(&thalweg_h2::frame::PREFACE[..]).unwrap_or(rest);
    }
    while !rest.is_empty() {
        let (header, after) = rest.split_first_chunk::<HEADER_LEN>().expect("a whole header");
        let header = Header::parse(header);
        assert!(!matches!(header.kind, Kind::Unknown(_) | Kind::PushPromise));
        assert!(header.len <= 16_384);
        rest = after.get(header.len..).expect("a whole payload");
    }
}

fn play(role: Role, cut: usize, input: &[u8]) -> (Seen, Option<Failure>) {
    let mut connection = Connection::new(role, Config::default(), 0);
    let mut seen = Seen::default();
    let mut answer = Head::new();
    answer.start_response(Version::HTTP_11, 200, None).expect("a status");
    if role == Role::Client {
        let mut request = Head::new();
        request.start_request(b"GET", b"/", Version::HTTP_11).expect("a request");
        for _ in 0..3 {
            connection.open(&request, b"http", true).expect("a fresh connection takes streams");
        }
    }
    let mut at = 0;
    let mut given = 0;
    let mut failure = None;
    while given < input.len() && failure.is_none() {
        given = (given + cut.max(1)).min(input.len());
        match connection.receive(&input[at..given], 0, &mut seen) {
            Ok(used) => {
                at += used;
                assert!(at <= given);
                // What is left is the beginning of one frame, so an owner knows how much room it needs.
                assert!(given - at <= HEADER_LEN + 16_384);
            }
            Err(error) => failure = Some(error),
        }
    }
    for (stream, octets) in std::mem::take(&mut seen.consumed) {
        connection.consumed(stream, octets);
    }
    for stream in std::mem::take(&mut seen.due) {
        if role == Role::Server && connection.respond(stream, &answer, false) {
            let room = connection.room(stream).min(100);
            connection.send_data(stream, &vec![b'x'; room], true);
        }
    }
    assert!(connection.open_streams() <= 103);
    check_output(connection.output(), role);
    (seen, failure)
}

/// No input panics, spins, or is understood in two ways.
pub fn hostile(role: Role, cut: usize, input: &[u8]) {
    let whole = play(role, usize::MAX, input);
    let cut = play(role, cut % 64 + 1, input);
    assert_eq!(whole, cut, "the cut of the input changed what was seen");
}
