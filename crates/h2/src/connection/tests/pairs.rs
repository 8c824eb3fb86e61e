//! Both ends together.

use super::*;

pub fn pair() -> (End, End) {
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

pub fn request(method: &[u8]) -> Head {
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
