use super::*;
use crate::hpack::{Decoder, Strings};

type Fields<'a> = &'a [(&'a str, &'a str)];

const REQUEST: Expect = Expect::Request { connect_protocol: true };

fn read(fields: Fields<'_>, expect: Expect, ends: bool) -> Result<(Message, Head), Malformed> {
    let (mut head, mut scratch) = (Head::new(), Scratch::default());
    let mut reader = Reader::new(&mut head, &mut scratch, expect, 100, 16_384);
    for (name, value) in fields {
        let clean = !value.bytes().any(|b| b < 32 && b != 9);
        reader.field(Name::of(name.as_bytes()), name.as_bytes(), value.as_bytes(), clean);
    }
    let message = reader.finish(ends)?;
    head.check_invariants();
    Ok((message, head))
}

const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "https"), (":authority", "example.com"), (":path", "/a?b")];

fn with<'a>(more: Fields<'a>) -> Vec<(&'a str, &'a str)> {
    GET.iter().chain(more).copied().collect()
}

fn refused(fields: Fields<'_>) -> Malformed {
    read(fields, REQUEST, true).err().unwrap_or_else(|| panic!("accepted: {fields:?}"))
}

fn line(head: &Head) -> String {
    let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
    let fields: Vec<String> = head.fields().map(|f| format!("{}: {}", text(f.name), text(f.value))).collect();
    format!("{} {} | {}", text(head.method_bytes()), text(head.target()), fields.join(" | "))
}

/// The fields of a block, as they were sent.
fn decoded(block: &[u8]) -> Vec<(String, String)> {
    struct All(Vec<(String, String)>);
    impl Sink for All {
        fn field(&mut self, _: Name, name: &[u8], value: &[u8], _: bool) {
            let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
            self.0.push((text(name), text(value)));
        }
    }
    let mut all = All(Vec::new());
    Decoder::new(4096, 16_384).decode(block, &mut Strings::default(), &mut all).unwrap();
    all.0
}

#[test]
fn a_request_reads_as_one_of_http_1() {
    let (message, head) = read(&with(&[("accept", "*/*")]), REQUEST, true).unwrap();
    assert_eq!(line(&head), "GET https://example.com/a?b | host: example.com | accept: */*");
    assert_eq!(head.framing().body, BodyLength::None);
    assert_eq!(message, Message::default());
    assert_eq!(head.version(), Version::HTTP_2);
}

#[test]
fn without_an_authority_the_host_field_stands() {
    let fields = [(":method", "GET"), (":scheme", "http"), (":path", "/"), ("host", "a.b")];
    assert_eq!(line(&read(&fields, REQUEST, true).unwrap().1), "GET / | host: a.b");
}

#[test]
fn cookies_are_joined() {
    let (_, head) = read(&with(&[("cookie", "a=1"), ("x", "y"), ("cookie", "b=2")]), REQUEST, true).unwrap();
    assert_eq!(head.value(HeaderId::Cookie), Some(&b"a=1; b=2"[..]));
    assert_eq!(head.get_all(HeaderId::Cookie).count(), 1);
}

#[test]
fn lengths_are_those_of_the_body() {
    let length = |fields: Fields<'_>, ends| {
        read(&with(fields), REQUEST, ends).map(|(m, h)| (m.length, h.framing().body))
    };
    assert_eq!(length(&[("content-length", "5")], false), Ok((Some(5), BodyLength::Sized(5))));
    assert_eq!(
        length(&[("content-length", "5"), ("content-length", "5")], false),
        Ok((Some(5), BodyLength::Sized(5)))
    );
    assert_eq!(length(&[("content-length", "0")], false), Ok((Some(0), BodyLength::None)));
    assert_eq!(length(&[], false), Ok((None, BodyLength::Chunked)));
    for bad in ["", "-1", "+1", "1x", "5, 6", "99999999999999999999"] {
        assert_eq!(length(&[("content-length", bad)], false), Err(Malformed::ContentLength), "{bad:?}");
    }
    assert_eq!(
        length(&[("content-length", "5"), ("content-length", "6")], false),
        Err(Malformed::ContentLength)
    );
}

#[test]
fn malformed_requests_are_refused() {
    for (missing, (name, _)) in GET.iter().enumerate().filter(|(_, field)| field.0 != ":authority") {
        let fields: Vec<_> = GET.iter().enumerate().filter(|(i, _)| *i != missing).map(|(_, f)| *f).collect();
        assert_eq!(refused(&fields), Malformed::MissingPseudo, "{name}");
    }
    for twice in GET {
        assert_eq!(refused(&with(&[twice])), Malformed::RepeatedPseudo);
    }
    assert_eq!(refused(&with(&[("x", "y"), (":path", "/")])), Malformed::RepeatedPseudo);
    assert_eq!(
        refused(&[(":method", "GET"), (":scheme", "https"), ("x", "y"), (":path", "/")]),
        Malformed::LatePseudo
    );
    assert_eq!(refused(&with(&[(":status", "200")])), Malformed::UnknownPseudo);
    assert_eq!(refused(&with(&[(":unknown", "x")])), Malformed::UnknownPseudo);
    assert_eq!(refused(&with(&[("Accept", "x")])), Malformed::Name);
    assert_eq!(refused(&with(&[("a b", "x")])), Malformed::Name);
    assert_eq!(refused(&with(&[("", "x")])), Malformed::Name);
    for value in ["a\rb", "a\nb", "a\0b", "a\x0bb"] {
        assert_eq!(refused(&with(&[("x", value)])), Malformed::Value);
    }
    for name in ["connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade"] {
        assert_eq!(refused(&with(&[(name, "x")])), Malformed::ConnectionSpecific);
    }
    assert_eq!(refused(&with(&[("te", "gzip")])), Malformed::ConnectionSpecific);
    assert!(read(&with(&[("te", "trailers")]), REQUEST, true).is_ok());
}

#[test]
fn a_status_without_a_body_announces_none() {
    let announced = |status| {
        let (_, head) =
            read(&[(":status", status), ("content-length", "5")], Expect::Response, false).unwrap();
        head.get_all(HeaderId::ContentLength).count()
    };
    assert_eq!(["100", "103", "204"].map(announced), [0; 3]);
    // A description of what a GET would have got, and a body.
    assert_eq!(["304", "200"].map(announced), [1; 2]);
}

/// As the reference does, although RFC 9113 section 8.2.1 allows none.
#[test]
fn white_space_around_values_is_taken_off() {
    let (_, head) = read(&with(&[("x", " a b\t"), ("y", "  ")]), REQUEST, true).unwrap();
    assert!(line(&head).ends_with("| x: a b | y: "), "{}", line(&head));
}

#[test]
fn trailers_do_not_frame_or_route() {
    for name in ["content-length", "host", "transfer-encoding", "connection"] {
        assert_eq!(read(&[(name, "1")], Expect::Trailers, true).err(), Some(Malformed::ConnectionSpecific));
    }
    let (_, head) = read(&[("te", "trailers"), ("x", "y")], Expect::Trailers, true).unwrap();
    assert_eq!(head.fields().count(), 1);
}

#[test]
fn what_could_become_another_request_is_refused() {
    let changed = |at: usize, value: &'static str| {
        let mut fields = GET;
        fields[at].1 = value;
        refused(&fields)
    };
    // CVE-2021-39241: a method with spaces is a second request line.
    assert_eq!(changed(0, "GET /admin HTTP/1.1"), Malformed::Request);
    assert_eq!(changed(0, ""), Malformed::Request);
    // What could be read as a preface behind us.
    assert_eq!(changed(0, "PRI"), Malformed::Request);
    // CVE-2021-39240: a scheme with a slash changes the authority.
    for scheme in ["", "http://x/", "ht tp", "1http"] {
        assert_eq!(changed(1, scheme), Malformed::Request, "{scheme:?}");
    }
    for authority in ["", "a b", "a/b", "a,b", "user@a", "a\\b", "a:b:c"] {
        assert_eq!(changed(2, authority), Malformed::Authority, "{authority:?}");
    }
    for path in ["", "a", "//\u{7f}", "/a b", "/a#b", "*", "http://x/"] {
        assert_eq!(changed(3, path), Malformed::Control, "{path:?}");
    }
    // CVE-2021-39242: no rule sees another host than the server does.
    for hosts in [&[("host", "other.example")][..], &[("host", "example.com"), ("host", "other.example")]] {
        let (_, head) = read(&with(hosts), REQUEST, true).unwrap();
        assert_eq!(line(&head), "GET https://example.com/a?b | host: example.com");
    }
    let twice = [(":method", "GET"), (":scheme", "http"), (":path", "/"), ("host", "a"), ("host", "b")];
    assert_eq!(refused(&twice), Malformed::Authority);
}

#[test]
fn options_of_the_server_itself() {
    let fields = [(":method", "OPTIONS"), (":scheme", "https"), (":authority", "a.b"), (":path", "*")];
    let (_, head) = read(&fields, REQUEST, true).unwrap();
    assert_eq!(line(&head), "OPTIONS https://a.b | host: a.b");
    let bare = [fields[0], fields[1], fields[3]];
    assert_eq!(line(&read(&bare, REQUEST, true).unwrap().1), "OPTIONS * | ");
    let mut block = Vec::new();
    encode_request(&head, b"https", &mut Encoder::new(4096), &mut block);
    let path = (":path".to_string(), "*".to_string());
    assert!(decoded(&block).contains(&path), "{:?}", decoded(&block));
}

#[test]
fn connect_has_an_authority_and_nothing_else() {
    let fields = [(":method", "CONNECT"), (":authority", "a.b:22")];
    let (_, head) = read(&fields, REQUEST, false).unwrap();
    assert!(line(&head).starts_with("CONNECT a.b:22 |"), "{}", line(&head));
    let (_, sized) = read(&[fields[0], fields[1], ("content-length", "9")], REQUEST, false).unwrap();
    assert_eq!(line(&sized), line(&head), "a length that a server would wait for");
    assert_eq!(head.framing().body, BodyLength::Tunnel);
    assert_eq!(
        refused(
            &with(&[])
                .iter()
                .map(|f| if f.0 == ":method" { (":method", "CONNECT") } else { *f })
                .collect::<Vec<_>>()
        ),
        Malformed::MissingPseudo
    );
    assert_eq!(refused(&[(":method", "CONNECT")]), Malformed::MissingPseudo);
}

#[test]
fn an_extended_connect_reads_as_an_upgrade() {
    let mut fields = with(&[("sec-websocket-version", "13")]);
    fields[0].1 = "CONNECT";
    fields.insert(4, (":protocol", "websocket"));
    let (message, head) = read(&fields, REQUEST, false).unwrap();
    assert!(message.extended_connect);
    assert_eq!(head.method(), Method::Get);
    assert_eq!(head.value(HeaderId::Upgrade), Some(&b"websocket"[..]));
    assert!(head.framing().websocket && head.framing().upgrade);
    assert_eq!(
        read(&fields, Expect::Request { connect_protocol: false }, false).err(),
        Some(Malformed::UnknownPseudo)
    );
    fields.push(("content-length", "9"));
    let (_, sized) = read(&fields, REQUEST, false).unwrap();
    assert_eq!(line(&sized), line(&head), "a length that a server would wait for");
    fields[4].1 = "chat";
    let (_, head) = read(&fields, REQUEST, false).unwrap();
    assert_eq!(head.value(HeaderId::Upgrade), Some(&b"chat"[..]));
    assert!(!head.framing().websocket && head.framing().upgrade);
    for odd in ["h2c", "a b", ""] {
        fields[4].1 = odd;
        assert_eq!(read(&fields, REQUEST, false).err(), Some(Malformed::Control), "{odd}");
    }
    fields[0].1 = "GET";
    assert_eq!(read(&fields, REQUEST, false).err(), Some(Malformed::MissingPseudo));
}

#[test]
fn responses() {
    let read = |fields: Fields<'_>| read(fields, Expect::Response, false).map(|(_, head)| head);
    let head = read(&[(":status", "404"), ("set-cookie", "a=1"), ("set-cookie", "b=2")]).unwrap();
    assert_eq!((head.status(), head.reason()), (404, &b"Not Found"[..]));
    assert_eq!(head.get_all(HeaderId::SetCookie).count(), 2);
    for status in ["", "20", "2000", "abc", "099", "101"] {
        assert_eq!(read(&[(":status", status)]).err(), Some(Malformed::Control), "{status:?}");
    }
    assert_eq!(read(&[("x", "y")]).err(), Some(Malformed::MissingPseudo));
    assert_eq!(read(&[(":status", "200"), (":path", "/")]).err(), Some(Malformed::UnknownPseudo));
}

#[test]
fn trailers_have_no_pseudo_header_fields() {
    assert!(read(&[("grpc-status", "0")], Expect::Trailers, true).is_ok());
    assert_eq!(read(&[(":status", "200")], Expect::Trailers, true).err(), Some(Malformed::LatePseudo));
}

#[test]
fn size_and_number_are_bounded() {
    let long = "x".repeat(16_000);
    assert_eq!(refused(&with(&[("a", &long), ("b", &long)])), Malformed::TooLarge);
    let many: Vec<_> = with(&[]).into_iter().chain(std::iter::repeat_n(("a", "b"), 101)).collect();
    assert_eq!(refused(&many), Malformed::TooLarge);
    let cookies: Vec<_> = with(&[]).into_iter().chain(std::iter::repeat_n(("cookie", ""), 101)).collect();
    assert_eq!(refused(&cookies), Malformed::TooLarge, "empty ones count too");
}

#[test]
fn what_is_encoded_is_read() {
    let (mut encoder, mut decoder) = (Encoder::new(4096), Decoder::new(4096, 16_384));
    for _ in 0..3 {
        let (_, head) =
            read(&with(&[("accept", "*/*"), ("cookie", "a=1"), ("x-a", "b")]), REQUEST, true).unwrap();
        let mut block = Vec::new();
        encode_request(&head, b"https", &mut encoder, &mut block);
        let (mut again, mut scratch) = (Head::new(), Scratch::default());
        let mut reader = Reader::new(&mut again, &mut scratch, REQUEST, 100, 16_384);
        decoder.decode(&block, &mut Strings::default(), &mut reader).unwrap();
        reader.finish(true).unwrap();
        assert_eq!(
            line(&again),
            "GET https://example.com/a?b | host: example.com | accept: */* | x-a: b | cookie: a=1"
        );
    }
    let (_, head) =
        read(&[(":status", "302"), ("location", "/x"), ("server", "s")], Expect::Response, true).unwrap();
    let mut block = Vec::new();
    encode_response(&head, &mut encoder, &mut block);
    let (mut again, mut scratch) = (Head::new(), Scratch::default());
    let mut reader = Reader::new(&mut again, &mut scratch, Expect::Response, 100, 16_384);
    decoder.decode(&block, &mut Strings::default(), &mut reader).unwrap();
    reader.finish(true).unwrap();
    assert_eq!((again.status(), again.len()), (302, 2));
}
