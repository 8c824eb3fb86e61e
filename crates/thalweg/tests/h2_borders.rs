//! Messages that one version of HTTP has no words for, or other words: what of them crosses from HTTP/2 to HTTP/1 and back.
//! Each of these was found by the generated exchanges (`differential/families/http2`).

mod support;

use support::h2::{Client, GET, Served, beginning, block, frame, next_frame};
use support::{Conn, Server, Setup, each_driver, ok};
use thalweg_h2::frame::{Kind, flag};
use thalweg_h2::settings::Settings;

/// A status of 200 as HPACK has it (RFC 7541 appendix A).
const OK_200: u8 = 0x88;
const BOTH: u8 = flag::END_HEADERS | flag::END_STREAM;

/// A frontend before one server, with more words for it.
fn before(server: &Server, words: &str) -> Setup {
    Setup::http(&format!(
        "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nretries 0\nserver s {} {words}\n",
        server.addr
    ))
}

/// A server of HTTP/1 that says what it was asked, headers and body.
fn telling() -> Server {
    Server::http(|request| {
        let fields: Vec<String> = request.head.fields.iter().map(|(n, v)| format!("{n}: {v}")).collect();
        ok(&format!("{}|{}|{}", request.head.line, fields.join(","), String::from_utf8_lossy(&request.body)))
    })
}

/// A server of HTTP/2 that serves each connection in that way.
fn serving(serve: impl Fn(Served) + Send + Sync + 'static) -> Server {
    Server::start(move |conn, _| serve(Served::new(conn, Settings::default())))
}

/// A head that is not the usual one, as a client sends it.
fn send_head(conn: &mut Conn, stream: u32, flags: u8, list: &[(&str, &str)]) {
    conn.send(frame(Kind::Headers, flag::END_HEADERS | flags, stream, &block(list)));
}

/// A body of which nothing was announced is whole before its stream ends: a server gets its length, and no chunks besides.
#[test]
fn an_announced_body_of_nothing_has_one_length() {
    each_driver(|io| {
        let server = telling();
        let proxy = before(&server, "").start(io);
        let mut client = Client::new(proxy.connect());
        let id = client.open("POST", "/", &[("content-length", "0")], false);
        assert_eq!(client.answer(id).text(), "POST / HTTP/1.1|host: h.example,content-length: 0|");
        drop(client);
        proxy.finish(server);
    });
}

/// A server of HTTP/1 would wait for the body, or take the next request on its connection for it.
#[test]
fn tunnels_have_no_length() {
    each_driver(|io| {
        let server = telling();
        let proxy = before(&server, "").start(io);
        let mut conn = proxy.connect();
        conn.send(beginning());
        let length = ("content-length", "30");
        send_head(&mut conn, 1, 0, &[(":method", "CONNECT"), (":authority", "h.example:443"), length]);
        let extended = [(":method", "CONNECT"), (":protocol", "other"), length];
        send_head(&mut conn, 3, 0, &[&extended[..2], &GET[1..], &extended[2..]].concat());
        let mut texts = Vec::new();
        while texts.len() < 2 {
            let (header, payload) = next_frame(&mut conn).unwrap();
            if header.kind == Kind::Data && !payload.is_empty() {
                texts.push(String::from_utf8_lossy(&payload).into_owned());
            }
        }
        assert!(texts.iter().all(|text| !text.contains("content-length")), "{texts:?}");
        drop(conn);
        proxy.finish(server);
    });
}

/// Any success agrees to an extended CONNECT (RFC 8441 section 5), which a 200 of HTTP/1 does not.
#[test]
fn a_server_that_changes_no_protocol_agreed_to_none() {
    each_driver(|io| {
        let server = Server::http(|request| match request.head.line.contains("/no") {
            true => "HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno".into(),
            false => ok("a page"),
        });
        let proxy = before(&server, "").start(io);
        let mut conn = proxy.connect();
        conn.send(beginning());
        let mut status = |stream: u32, path: &str| {
            let connect = [(":method", "CONNECT"), (":protocol", "websocket"), (":path", path)];
            send_head(&mut conn, stream, 0, &[&connect[..], &GET[1..3]].concat());
            loop {
                let (header, payload) = next_frame(&mut conn).unwrap();
                if header.kind == Kind::Headers && header.stream == stream {
                    return payload;
                }
            }
        };
        assert_ne!(status(1, "/")[0], OK_200);
        assert_ne!(status(3, "/no")[0], OK_200);
        drop(conn);
        assert_eq!(proxy.http_log(), "be/s n/n/n/-1/n 502 PH-- 0 \"GET http://h.example/ HTTP/2.0\"");
        assert_eq!(proxy.http_log(), "be/s n/n/n/n/n 403 ---- 0 \"GET http://h.example/no HTTP/2.0\"");
        proxy.finish(server);
    });
}

/// A request that its client resets with the same octets goes to no server.
#[test]
fn a_request_that_is_taken_back_at_once_makes_no_work() {
    each_driver(|io| {
        let server = telling();
        let proxy = before(&server, "").start(io);
        let mut conn = proxy.connect();
        let cancel = frame(Kind::RstStream, 0, 1, &[0, 0, 0, 8]);
        let next = frame(Kind::Headers, BOTH, 3, &block(GET));
        conn.send([beginning(), frame(Kind::Headers, BOTH, 1, &block(GET)), cancel, next].concat());
        assert_eq!(next_frame(&mut conn).unwrap().0.stream, 3);
        assert_eq!(proxy.http_log(), "be/<NOSRV> n/-1/-1/-1/n -1 CR-- 0 \"GET http://h.example/ HTTP/2.0\"");
        assert_eq!(server.accepted(), 1);
        drop(conn);
        proxy.finish(server);
    });
}

/// A stream that ends with its length unmet was no request, and has a line in the log as such.
#[test]
fn a_length_without_a_body_is_malformed() {
    each_driver(|io| {
        let server = telling();
        let proxy = before(&server, "").start(io);
        let mut conn = proxy.connect();
        conn.send(beginning());
        send_head(&mut conn, 1, flag::END_STREAM, &[GET, &[("content-length", "9")]].concat());
        let (header, payload) = next_frame(&mut conn).unwrap();
        assert_eq!((header.kind, header.stream, payload[3]), (Kind::RstStream, 1, 1));
        assert_eq!(proxy.http_log(), "fe/<NOSRV> -1/-1/-1/-1/n 0 PR-- 0 \"<BADREQ>\"");
        drop(conn);
        proxy.finish(server);
    });
}

/// What is asked of the server as a whole, and the scheme of a request without an authority, stay what they are.
#[test]
fn targets_and_schemes_cross() {
    each_driver(|io| {
        let server = serving(|mut served| {
            while let Some((id, asked)) = served.next_request() {
                served.answer(id, &asked.line);
            }
        });
        let proxy = before(&server, "proto h2").start(io);
        let mut client = Client::new(proxy.connect());
        let id = client.open("OPTIONS", "*", &[], true);
        assert_eq!(client.answer(id).text(), "OPTIONS http://h.example");
        drop(client);
        let mut conn = proxy.connect();
        let bare = [(":method", "GET"), (":scheme", "http"), (":path", "/a"), ("host", "h.example")];
        conn.send(beginning());
        send_head(&mut conn, 1, flag::END_STREAM, &bare);
        let text = loop {
            let (header, payload) = next_frame(&mut conn).unwrap();
            if header.kind == Kind::Data {
                break String::from_utf8_lossy(&payload).into_owned();
            }
        };
        assert_eq!(text, "GET http://h.example/a");
        drop(conn);
        let mut conn = proxy.connect();
        conn.send("OPTIONS * HTTP/1.1\r\nHost: h.example\r\n\r\n");
        assert_eq!(conn.response().text(), "OPTIONS https://h.example");
        drop(conn);
        proxy.finish(server);
    });
}

/// A response that ends with its head has no body; a client of HTTP/1 is told so, and the next response follows.
#[test]
fn a_response_that_ends_with_its_head_has_a_length() {
    each_driver(|io| {
        let server = serving(|mut served| {
            while let Some((id, _)) = served.next_request() {
                served.head(id, 200, &[("grpc-status", "12")], true);
            }
        });
        let proxy = before(&server, "proto h2").start(io);
        let mut conn = proxy.connect();
        for _ in 0..2 {
            conn.send("GET / HTTP/1.1\r\nHost: h.example\r\n\r\n");
            assert_eq!(conn.response().field("content-length"), "0");
        }
        conn.send("HEAD / HTTP/1.1\r\nHost: h.example\r\n\r\n");
        assert_eq!(conn.response_to("HEAD").field("content-length"), "");
        drop(conn);
        proxy.finish(server);
    });
}

/// The stream of a CONNECT stays open for the tunnel that it asks for.
#[test]
fn a_tunnel_through_http_2() {
    each_driver(|io| {
        let server = serving(|mut served| {
            let Some(id) = served.next_head() else { return };
            assert!(!served.so_far(id).whole, "there is no tunnel on a stream that ended");
            served.head(id, 200, &[], false);
            while served.so_far(id).body != b"ping" {
                assert!(served.more(), "the tunnel ended");
            }
            served.data(id, b"pong", true);
            served.rest();
        });
        let proxy = before(&server, "proto h2").start(io);
        let mut conn = proxy.connect();
        conn.send("CONNECT h.example:443 HTTP/1.1\r\nHost: h.example:443\r\n\r\n");
        assert!(conn.head().line.contains(" 200 "));
        conn.send("ping");
        assert_eq!(conn.exactly(4), b"pong");
        drop(conn);
        proxy.finish(server);
    });
}
