//! Clients that speak HTTP/2, before servers that speak HTTP/1.

mod support;

use std::sync::{Mutex, mpsc};

use base64::Engine as _;

use support::h2::{Client, GET, beginning, block, frame, next_frame, stat};
use support::tls::{self, Authority};
use support::{Conn, Proxy, Server, Setup, each_driver, eventually, ok};
use thalweg_h2::error::ErrorCode;
use thalweg_h2::frame::{Kind, flag};

/// A frontend before one server, with more lines for the frontend.
fn before(server: &Server, more: &str) -> Setup {
    Setup::http(&format!(
        "frontend fe\nbind <@fe>\n{more}\ndefault_backend be\nbackend be\nretries 0\nserver s {}\n",
        server.addr
    ))
}

fn client(proxy: &Proxy) -> Client {
    Client::new(proxy.connect())
}

/// A server that says what it was asked.
fn telling() -> Server {
    Server::http(|request| {
        let fields: Vec<String> =
            request.head.fields.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        let body = String::from_utf8_lossy(&request.body);
        ok(&format!("{}|{}|{body}|{}", request.head.line, fields.join(","), request.trailers))
    })
}

#[test]
fn requests_and_responses() {
    each_driver(|io| {
        let server = telling();
        let proxy = before(&server, "").start(io);
        let mut client = client(&proxy);
        let answer = client.get("/a?b");
        assert_eq!((answer.status, answer.text().as_str()), (200, "GET /a?b HTTP/1.1|host: h.example||"));
        assert_eq!(proxy.http_log(), "be/s n/n/n/n/n 200 ---- 0 \"GET http://h.example/a?b HTTP/2.0\"");
        let id = client.open("POST", "/", &[("content-length", "5")], false);
        client.data(id, b"hel", false);
        client.data(id, b"lo", true);
        assert!(client.answer(id).text().ends_with("content-length: 5|hello|"));
        let id = client.open("POST", "/", &[], false);
        client.data(id, b"hel", false);
        client.data(id, b"lo", false);
        client.trailers(id, &[("x-sum", "532")]);
        let text = client.answer(id).text();
        assert!(text.contains("transfer-encoding: chunked|hello|x-sum: 532"), "{text}");
        let id = client.open("GET", "/", &[("cookie", "a=1"), ("cookie", "b=2")], true);
        assert!(client.answer(id).text().contains("cookie: a=1; b=2"));
        assert!(client.goaways.is_empty());
        drop(client);
        proxy.finish(server);
    });
}

#[test]
fn forms_of_responses() {
    each_driver(|io| {
        let server = Server::start(|mut conn, _| {
            while let Some(request) = conn.next_request() {
                let path = request.head.line.split(' ').nth(1).unwrap().to_owned();
                conn.send(match path.as_str() {
                    "/chunks" => {
                        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4\r\ndefg\r\n0\r\nX-Sum: 7\r\n\r\n"
                    }
                    "/hints" => {
                        "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
                    }
                    "/none" => "HTTP/1.1 204 No Content\r\n\r\n",
                    "/same" => "HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n",
                    "/head" => "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n",
                    "/cut" => "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
                    _ => "HTTP/1.1 200 OK\r\nKeep-Alive: x\r\n\r\nuntil the end",
                });
                if matches!(path.as_str(), "/cut" | "/close") {
                    return;
                }
            }
        });
        let proxy = before(&server, "").start(io);
        let mut client = client(&proxy);
        let chunks = client.get("/chunks");
        assert_eq!((chunks.text().as_str(), chunks.field("transfer-encoding")), ("abcdefg", ""));
        assert_eq!(chunks.trailers, [("x-sum".into(), "7".into())]);
        let hints = client.get("/hints");
        assert_eq!((hints.interim.as_slice(), hints.text().as_str()), (&[103][..], "ok"));
        assert_eq!(client.get("/none").status, 204);
        let same = client.get("/same");
        assert_eq!((same.status, same.field("content-length")), (304, "10"));
        let id = client.open("HEAD", "/head", &[], true);
        let head = client.answer(id);
        assert_eq!((head.field("content-length"), head.body.len(), head.whole), ("10", 0, true));
        let close = client.get("/close");
        assert_eq!((close.text().as_str(), close.field("keep-alive")), ("until the end", ""));
        let cut = client.get("/cut");
        assert_eq!((cut.text().as_str(), cut.whole, cut.reset), ("half", false, Some(ErrorCode::Cancel)));
        for _ in 0..6 {
            assert!(proxy.http_log().contains(" ---- "));
        }
        assert_eq!(proxy.http_log(), "be/s n/n/n/n/n 200 SD-- 0 \"GET http://h.example/cut HTTP/2.0\"");
        drop(client);
        proxy.finish(server);
    });
}

/// Bodies that came together with their heads, with a length and without one, for a server that failed at first.
#[test]
fn requests_with_bodies_are_sent_again() {
    each_driver(|io| {
        let server = Server::start(|mut conn, number| {
            let Some(request) = conn.next_request() else { return };
            if number % 2 == 1 {
                let body = String::from_utf8_lossy(&request.body).into_owned();
                // It says that it leaves, so that the next request does not meet it on its way out.
                let answer = ok(&format!("{body}|{}", request.trailers));
                conn.send(answer.replacen("\r\n", "\r\nConnection: close\r\n", 1));
            }
        });
        let proxy = Setup::http(&format!(
            "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nretries 1\nretry-on empty-response\nserver s {}\n",
            server.addr
        ))
        .start(io);
        let mut client = client(&proxy);
        for (length, trailers) in [(Some("5"), false), (None, false), (None, true)] {
            let id = client.begin("POST", "/", length.map(|n| ("content-length", n)).as_slice(), false);
            client.h2.send_data(id, b"hello", !trailers);
            match trailers {
                true => client.trailers(id, &[("x-sum", "532")]),
                false => client.flush(),
            }
            let expected = if trailers { "hello|x-sum: 532\r\n" } else { "hello|" };
            assert_eq!(client.answer(id).text(), expected, "{length:?}");
        }
        assert_eq!(server.accepted(), 6);
        drop(client);
        proxy.finish(server);
    });
}

/// A rule made the request one whose response has a body, which the client gets nothing of: the stream ends when the server's
/// connection is free again.
#[test]
fn what_is_thrown_away_is_read_before_the_stream_ends() {
    each_driver(|io| {
        let (go_on, may_go_on) = mpsc::channel::<()>();
        let may_go_on = Mutex::new(may_go_on);
        let server = Server::start(move |mut conn, _| {
            while conn.next_request().is_some() {
                conn.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello");
                may_go_on.lock().unwrap().recv().unwrap();
                conn.send("world");
            }
        });
        let proxy = before(&server, "http-request set-method GET").start(io);
        let mut client = client(&proxy);
        for _ in 0..2 {
            let id = client.open("HEAD", "/", &[], true);
            client.until("the head", |client| client.so_far(id).status > 0);
            assert!(!client.so_far(id).whole);
            go_on.send(()).unwrap();
            let answer = client.answer(id);
            assert_eq!((answer.whole, answer.body.len(), answer.field("content-length")), (true, 0, "10"));
        }
        assert_eq!(server.accepted(), 1);
        drop(client);
        proxy.finish(server);
    });
}

#[test]
fn large_bodies_both_ways_and_many_at_once() {
    each_driver(|io| {
        let server = Server::http(|request| ok(&String::from_utf8_lossy(&request.body)));
        let proxy = before(&server, "").start(io);
        let mut client = client(&proxy);
        let body: Vec<u8> = (0..3_000_000u32).map(|i| b'a' + (i / 1000 % 26) as u8).collect();
        let id = client.open("POST", "/", &[], false);
        client.data(id, &body, true);
        assert!(client.answer(id).body == body);
        let ids: Vec<u32> = (0..100).map(|n| client.open("POST", &format!("/{n}"), &[], false)).collect();
        for id in &ids {
            client.data(*id, &body[..20_000 + *id as usize], true);
        }
        for id in ids {
            assert!(client.answer(id).body == body[..20_000 + id as usize], "{id}");
        }
        drop(client);
        proxy.finish(server);
    });
}

/// One stream that is not read stalls no other, and goes on when it is.
/// The end of a body that has no length is known, however much of it was waited for.
#[test]
fn a_body_that_is_waited_for_may_be_larger_than_a_buffer() {
    each_driver(|io| {
        let server = telling();
        let proxy = before(&server, "option http-buffer-request").start(io);
        let mut client = client(&proxy);
        // About the size of a buffer, and some frames more.
        for len in [16_384, 16_385, 16_397, 17_000, 18_000, 40_000] {
            let body = "abcdefghij".repeat(4_000);
            let id = client.open("POST", "/", &[], false);
            for part in body.as_bytes()[..len - 1].chunks(1_000) {
                client.data(id, part, false);
            }
            client.data(id, &body.as_bytes()[len - 1..len], true);
            let answer = client.answer(id);
            assert_eq!(answer.status, 200, "{len}");
            assert!(answer.text().ends_with(&format!("|{}|", &body[..len])), "{len}");
            // The end in a frame of its own.
            let id = client.open("POST", "/", &[], false);
            client.data(id, b"abc", false);
            client.data(id, b"", true);
            assert!(client.answer(id).text().ends_with("|abc|"));
        }
        drop(client);
        proxy.finish(server);
    });
}

#[test]
fn a_reader_that_stops_stalls_nobody_else() {
    each_driver(|io| {
        let server = Server::http(|request| match request.head.line.contains("/big") {
            true => ok(&"x".repeat(500_000)),
            false => ok("small"),
        });
        let proxy = before(&server, "").start(io);
        let mut client = Client::with(proxy.connect(), 10_000);
        client.gives_back = false;
        let big = client.open("GET", "/big", &[], true);
        client.until("its window is full", |client| client.so_far(big).body.len() == 10_000);
        for _ in 0..10 {
            assert_eq!(client.get("/").text(), "small");
        }
        assert_eq!(client.so_far(big).body.len(), 10_000);
        client.gives_back = true;
        client.h2.consumed(big, 10_000);
        client.flush();
        let answer = client.answer(big);
        assert_eq!((answer.body.len(), answer.reset), (500_000, None));
        drop(client);
        proxy.finish(server);
    });
}

#[test]
fn clients_that_give_up() {
    each_driver(|io| {
        let (sender, began) = mpsc::channel();
        let sender = std::sync::Mutex::new(sender);
        let server = Server::start(move |mut conn, _| {
            while let Some(head) = conn.next_head() {
                sender.lock().unwrap().send(()).unwrap();
                if head.line.contains("/begins") {
                    conn.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
                }
                if !head.line.contains("/answers") {
                    // The proxy leaves.
                    conn.ended();
                    return;
                }
                conn.send(ok("fine"));
            }
        });
        let proxy = before(&server, "").start(io);
        let mut client = client(&proxy);
        let waits = client.open("GET", "/waits", &[], true);
        began.recv().unwrap();
        client.reset(waits, ErrorCode::Cancel);
        assert_eq!(proxy.http_log(), "be/s n/n/n/-1/n 400 CD-- 0 \"GET http://h.example/waits HTTP/2.0\"");
        let half = client.open("POST", "/half", &[("content-length", "10")], false);
        client.data(half, b"12345", false);
        began.recv().unwrap();
        client.reset(half, ErrorCode::Cancel);
        assert_eq!(proxy.http_log(), "be/s n/n/n/-1/n 400 CH-- 0 \"POST http://h.example/half HTTP/2.0\"");
        let begins = client.open("GET", "/begins", &[], true);
        client.until("some of it", |client| client.so_far(begins).body == b"half");
        began.recv().unwrap();
        client.reset(begins, ErrorCode::Cancel);
        assert_eq!(proxy.http_log(), "be/s n/n/n/n/n 200 CD-- 0 \"GET http://h.example/begins HTTP/2.0\"");
        assert_eq!(client.get("/answers").text(), "fine");
        assert!(proxy.http_log().contains("200 ----"));
        // The whole connection goes.
        client.open("GET", "/waits", &[], true);
        began.recv().unwrap();
        began.recv().unwrap();
        client.conn.reset_when_dropped();
        drop(client);
        assert_eq!(proxy.http_log(), "be/s n/n/n/-1/n 400 CD-- 0 \"GET http://h.example/waits HTTP/2.0\"");
        proxy.finish(server);
    });
}

/// A client that ended its direction in the middle of a response and then disappears is noticed, although nothing more is
/// received from it.
#[test]
fn clients_that_give_up_after_their_end() {
    each_driver(|io| {
        let server = Server::start(|mut conn, _| {
            if conn.next_head().is_none() {
                return;
            }
            conn.send("HTTP/1.1 200 OK\r\n\r\n");
            let block = vec![b'z'; 1 << 20];
            while conn.try_send(&block).is_ok() {}
        });
        let proxy = before(&server, "").defaults("timeout client 1h\ntimeout server 1h").start(io);
        let mut client = Client::with(proxy.connect(), 1 << 30);
        let id = client.open("GET", "/", &[], true);
        client.until("the response began", |client| !client.so_far(id).body.is_empty());
        client.conn.half_close();
        // What is sent now was sent by who may know of the end.
        let before = client.so_far(id).body.len();
        client.until("it goes on", |client| client.so_far(id).body.len() > before + (4 << 20));
        client.conn.reset_when_dropped();
        drop(client);
        assert_eq!(proxy.http_log(), "be/s n/n/n/n/n 200 CD-- 0 \"GET http://h.example/ HTTP/2.0\"");
        proxy.finish(server);
    });
}

#[test]
fn rules_answer_and_refuse() {
    each_driver(|io| {
        let server = telling();
        let rules = "http-request deny if { path /deny }\n\
                     http-request return status 200 content-type text/plain string hello if { path /own }\n\
                     http-request early-hint link </x> if { path /hint }\n\
                     http-request set-uri http://other.example/else if { path /else }\n\
                     http-request set-path /changed if { path /path }\n\
                     http-request wait-for-body time 20s if { path /wait }\n\
                     http-request reject if { path /reject }\n";
        let proxy = before(&server, rules).start(io);
        let mut client = client(&proxy);
        assert_eq!(client.get("/deny").status, 403);
        assert_eq!(client.get("/own").text(), "hello");
        assert_eq!(client.get("/hint").interim, [103]);
        assert!(client.get("/else").text().starts_with("GET http://other.example/else HTTP/1.1|"));
        assert!(client.get("/path").text().starts_with("GET /changed HTTP/1.1|"));
        // An answer does not wait for the rest of a request, which then is not wanted.
        let id = client.open("POST", "/deny", &[], false);
        assert_eq!(client.answer(id).status, 403);
        client.until("the reset", |client| client.so_far(id).reset == Some(ErrorCode::NoError));
        let id = client.open("POST", "/wait", &[], false);
        client.data(id, b"abc", false);
        client.data(id, b"def", true);
        assert!(client.answer(id).text().contains("|abcdef|"));
        let id = client.open("GET", "/reject", &[], true);
        assert_eq!(client.answer(id).reset, Some(ErrorCode::EnhanceYourCalm));
        client.rest();
        assert_eq!(client.goaways.last().map(|(_, code)| *code), Some(ErrorCode::EnhanceYourCalm));
        proxy.finish(server);
    });
}

/// What is no request is refused by itself, and what breaks the connection ends it.
#[test]
fn what_is_no_request_is_refused() {
    each_driver(|io| {
        let server = telling();
        let proxy = before(&server, "").start(io);
        let mut conn = proxy.connect();
        conn.send(beginning());
        let both = flag::END_HEADERS | flag::END_STREAM;
        let with = |more: &[(&str, &str)]| block(&[GET, more].concat());
        let odd = [
            with(&[("X-Upper", "1")]),
            with(&[("connection", "close")]),
            with(&[("te", "gzip")]),
            with(&[(":path", "/again")]),
            with(&[("x", "a\0b")]),
            block(&GET[..3]),
        ];
        for (n, list) in odd.iter().enumerate() {
            let id = 2 * n as u32 + 1;
            conn.send(frame(Kind::Headers, both, id, list));
            let (header, payload) = next_frame(&mut conn).unwrap();
            assert_eq!((header.kind, header.stream, payload[3]), (Kind::RstStream, id, 1), "{list:?}");
            assert_eq!(proxy.http_log(), "fe/<NOSRV> -1/-1/-1/-1/n 0 PR-- 0 \"<BADREQ>\"");
        }
        // An even number is none of a client.
        conn.send(frame(Kind::Headers, both, 14, &block(GET)));
        let (header, payload) = next_frame(&mut conn).unwrap();
        assert_eq!((header.kind, payload[7]), (Kind::Goaway, 1));
        assert!(next_frame(&mut conn).is_none());
        proxy.finish(server);
    });
}

#[test]
fn ways_in() {
    each_driver(|io| {
        let server = telling();
        let authority = Authority::new("authority");
        let certificate = authority.issue("h.example");
        let text = format!(
            "frontend fe\nbind <@fe>\nbind <@h2> proto h2\nbind <@h1> proto h1\nbind <@tls> ssl crt {certificate}\n\
             bind <@no> ssl crt {certificate} alpn http/1.1\n\
             http-request return status 200 content-type text/plain lf-string \"%[fc_http_major] %[ssl_fc_alpn] %HV\"\n\
             frontend as2\nmode tcp\nbind <@as2>\ntcp-request content switch-mode http proto h2\ndefault_backend own\n\
             frontend as1\nmode tcp\nbind <@as1>\ntcp-request content switch-mode http proto h1\ndefault_backend own\n\
             frontend auto\nmode tcp\nbind <@auto>\ntcp-request content switch-mode http\ndefault_backend own\n\
             backend own\nhttp-request return status 200 content-type text/plain lf-string %[fc_http_major]\n\
             frontend off\nbind <@off>\noption disable-h2-upgrade\nhttp-request return status 200\n"
        );
        let proxy = Setup::http(&text).start(io);
        let said = |conn: Conn| Client::new(conn).get("/").text();
        assert_eq!(said(proxy.connect()), "2  HTTP/2.0");
        assert_eq!(said(Conn::connect(proxy.addr("h2"))), "2  HTTP/2.0");
        let secured = |name: &str, alpn: &[&str]| {
            let context =
                tls::client(|profile| profile.alpn = alpn.iter().map(|p| p.as_bytes().to_vec()).collect());
            Conn::connect(proxy.addr(name)).encrypt(&context, Some("h.example"))
        };
        assert_eq!(said(secured("tls", &["h2", "http/1.1"])), "2 h2 HTTP/2.0");
        {
            let mut conn = secured("tls", &["http/1.1"]);
            conn.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
            assert_eq!(conn.response().text(), "1 http/1.1 HTTP/1.1");
        }
        for (name, byte) in [("h1", ""), ("off", "")] {
            let mut conn = Conn::connect(proxy.addr(name));
            conn.send([&beginning(), byte.as_bytes()].concat());
            assert!(conn.rest_text().starts_with("HTTP/1.1 405 "), "{name}");
        }
        // What came as TCP: as a rule says, or as the client begins.
        for (name, major) in [("as2", "2"), ("auto", "2")] {
            assert!(said(Conn::connect(proxy.addr(name))).starts_with(major), "{name}");
        }
        let mut conn = Conn::connect(proxy.addr("as1"));
        conn.send(beginning());
        assert!(conn.rest_text().starts_with("HTTP/1.1 405 "));
        // The preface in two pieces, cut behind what HTTP/1 takes for a head.
        let mut conn = proxy.connect();
        conn.send(&beginning()[..18]);
        proxy.is_idle();
        let both = flag::END_HEADERS | flag::END_STREAM;
        conn.send([&beginning()[18..], &frame(Kind::Headers, both, 1, &block(GET))].concat());
        assert_eq!(next_frame(&mut conn).unwrap().0.kind, Kind::Headers);
        drop(conn);
        proxy.finish(server);
    });
}

#[test]
fn websockets_through_extended_connect() {
    each_driver(|io| {
        let server = Server::start(|mut conn, _| {
            let head = conn.head();
            assert_eq!(
                (head.field("upgrade").as_str(), head.field("sec-websocket-key").len()),
                ("websocket", 24)
            );
            let key = head.field("sec-websocket-key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
            let accept =
                base64::engine::general_purpose::STANDARD.encode(thalweg_sample::sha1(key.as_bytes()));
            let accept = if head.line.contains("/wrong") { "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" } else { &accept };
            conn.send(format!(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\
                 Sec-WebSocket-Accept: {accept}\r\n\r\n",
            ));
            if head.line.contains("/wrong") {
                conn.ended();
                return;
            }
            let said = conn.exactly(5);
            conn.send([b"echo ", said.as_slice()].concat());
            conn.ended();
        });
        let proxy = before(&server, "").start(io);
        let mut conn = proxy.connect();
        conn.send(beginning());
        let asks = |path| {
            block(&[
                (":method", "CONNECT"),
                (":protocol", "websocket"),
                (":scheme", "http"),
                (":authority", "h.example"),
                (":path", path),
                ("sec-websocket-version", "13"),
            ])
        };
        conn.send(frame(Kind::Headers, flag::END_HEADERS, 1, &asks("/chat")));
        assert_eq!(next_frame(&mut conn).unwrap().0.kind, Kind::Headers);
        conn.send(frame(Kind::Data, 0, 1, b"hello"));
        assert_eq!(next_frame(&mut conn).unwrap().1, b"echo hello");
        conn.send(frame(Kind::Data, flag::END_STREAM, 1, b""));
        let (header, _) = next_frame(&mut conn).unwrap();
        assert!(header.kind == Kind::Data && header.has(flag::END_STREAM), "{header:?}");
        assert_eq!(proxy.http_log(), "be/s n/n/n/n/n 101 ---- 0 \"GET http://h.example/chat HTTP/2.0\"");
        // The client has no key to see that this is not what it asked for.
        conn.send(frame(Kind::Headers, flag::END_HEADERS, 3, &asks("/wrong")));
        assert_eq!(next_frame(&mut conn).unwrap().0.kind, Kind::Headers);
        assert_eq!(proxy.http_log(), "be/s n/n/n/-1/n 502 PH-- 0 \"GET http://h.example/wrong HTTP/2.0\"");
        drop(conn);
        proxy.finish(server);
    });
}

/// Settings that change what clients are told and allowed.
#[test]
fn settings() {
    each_driver(|io| {
        let server = telling();
        let global = "tune.h2.fe.max-concurrent-streams 2\ntune.h2.fe.initial-window-size 20000\n\
                      tune.h2.header-table-size 8192\ntune.h2.fe.max-total-streams 4\n\
                      tune.h2.fe.glitches-threshold 8\ntune.h2.log-errors none\n\
                      tune.h2.fe.max-frames-at-once 2\ntune.h2.fe.max-rst-at-once 1";
        let rules = "stick-table type ip size 10 expire 1m store glitch_cnt\n\
                     tcp-request session track-sc0 src\n\
                     http-request return status 200 content-type text/plain lf-string \
                     \"%[fc_settings_streams_limit] %[fc_glitches] %[sc0_glitch_cnt]\" if { path /told }\n\
                     http-request wait-for-body time 20s";
        let proxy = before(&server, rules).global(global).start(io);
        let mut client = client(&proxy);
        assert_eq!(client.get("/told").text(), "2 0 0");
        let told = client.h2.remote_settings();
        assert_eq!(
            (told.max_concurrent_streams, told.initial_window, told.header_table_size),
            (Some(2), 20_000, 8192)
        );
        let first = client.open("POST", "/", &[], false);
        let second = client.open("POST", "/", &[], false);
        client.data(first, b"a", true);
        client.data(second, b"b", true);
        assert_eq!((client.answer(first).status, client.answer(second).status), (200, 200));
        let last = Client::with(proxy.connect(), 1000).get_all(&["/", "/", "/", "/"]);
        assert_eq!(last, (i32::MAX as u32 & 7, ErrorCode::NoError));
        // More at once than that are refused.
        let mut conn = proxy.connect();
        conn.send(beginning());
        for id in [1, 3, 5] {
            let list = [("content-length", "1"), (":method", "POST")];
            let list = block(&[&[list[1]], &GET[1..], &list[..1]].concat());
            conn.send(frame(Kind::Headers, flag::END_HEADERS, id, &list));
        }
        let (header, payload) = next_frame(&mut conn).unwrap();
        assert_eq!((header.kind, header.stream, payload[3]), (Kind::RstStream, 5, 7));
        drop(conn);
        // Glitches: told at three quarters, ended at all of them.
        let mut conn = proxy.connect();
        conn.send(beginning());
        let odd = block(&[GET, &[("connection", "close")]].concat());
        let mut seen = Vec::new();
        for n in 0..8 {
            conn.send(frame(Kind::Headers, flag::END_HEADERS | flag::END_STREAM, 2 * n + 1, &odd));
            while let Some((header, payload)) = next_frame(&mut conn) {
                if header.kind == Kind::Goaway {
                    seen.push((n, payload[7]));
                }
                if header.kind == Kind::RstStream {
                    break;
                }
            }
        }
        while let Some((header, payload)) = next_frame(&mut conn) {
            if header.kind == Kind::Goaway {
                seen.push((8, payload[7]));
            }
        }
        assert_eq!((seen.first(), seen.last()), (Some(&(6, 0)), Some(&(8, 11))), "{seen:?}");
        drop(client);
        proxy.finish(server);
    });
}

/// What operators see: `show stat`, `show sess`, fetches of streams.
#[test]
fn counters_and_sessions() {
    each_driver(|io| {
        let (sender, go_on) = mpsc::channel::<()>();
        let go_on = std::sync::Mutex::new(go_on);
        let server = Server::start(move |mut conn, _| {
            while conn.next_request().is_some() {
                go_on.lock().unwrap().recv().unwrap();
                conn.send(ok("late"));
            }
        });
        let rules = "http-request return status 200 content-type text/plain lf-string %[fc_nb_streams] if { path /nb }";
        let proxy = before(&server, rules).global("stats socket <@dir>/cli level admin").start(io);
        let ask = |command: &str| {
            let mut cli = Conn::connect_unix(&proxy.path("cli"));
            cli.send(format!("{command}\n"));
            cli.rest_text()
        };
        let mut client = client(&proxy);
        let ids: Vec<u32> = (0..3).map(|_| client.open("GET", "/", &[], true)).collect();
        assert_eq!(client.get("/nb").text(), "4");
        let stat = |column: &str| stat(&proxy, "fe", 1, column).parse::<u64>().unwrap();
        let seen = ["h2sess", "h1sess", "h2req", "h1req", "h2_open_connections", "h2_backend_open_streams"]
            .map(stat);
        assert_eq!(seen, [1, 0, 4, 0, 1, 3]);
        assert_eq!(ask("show sess").matches("proto=").count(), 3);
        ids.iter().for_each(|_| sender.send(()).unwrap());
        for id in ids {
            assert_eq!(client.answer(id).text(), "late");
        }
        assert_eq!(
            ["h2_headers_rcvd", "h2_backend_total_streams", "h2_total_connections"].map(stat),
            [4, 4, 1]
        );
        drop(client);
        eventually("the connection is gone", || (stat("h2_open_connections") == 0).then_some(()));
        assert_eq!(stat("h2_backend_open_streams"), 0);
        proxy.finish(server);
    });
}

/// The process stops: requests on their way are answered, and the connection ends after them.
#[test]
fn a_soft_stop_in_two_steps() {
    each_driver(|io| {
        let (sender, go_on) = mpsc::channel::<()>();
        let go_on = std::sync::Mutex::new(go_on);
        let server = Server::start(move |mut conn, _| {
            while conn.next_request().is_some() {
                go_on.lock().unwrap().recv().unwrap();
                conn.send(ok("late"));
            }
        });
        let mut proxy = before(&server, "").start(io);
        let mut client = client(&proxy);
        let id = client.open("GET", "/", &[], true);
        client.until("the settings", |client| client.h2.remote_settings().enable_connect_protocol);
        proxy.signal(support::Signal::User1);
        client.until("the end is told", |client| client.goaways.len() == 2);
        assert_eq!(client.goaways[0], (i32::MAX as u32, ErrorCode::NoError));
        assert_eq!(client.goaways[1], (id, ErrorCode::NoError));
        sender.send(()).unwrap();
        assert_eq!(client.answer(id).text(), "late");
        client.rest();
        drop(client);
        assert_eq!(proxy.end(), (Some(0), None));
    });
}

/// A server of HTTP/1 is asked for the path, whatever host a rule names, and for a whole URI only where a rule made it one of
/// another place. The reference does the same.
#[test]
fn a_host_that_a_rule_sets_makes_no_other_target() {
    each_driver(|io| {
        for (rules, expected) in [
            ("http-request set-header Host x", "/a?b x"),
            ("http-request set-header Host x\nhttp-request set-path /z", "/z?b x"),
            ("http-request set-uri http://other/y", "http://other/y other"),
            ("http-request set-header Host x\nhttp-request set-uri http://other/y", "http://other/y other"),
            ("http-request set-uri http://other/y\nhttp-request set-header Host x", "http://x/y x"),
        ] {
            let server = Server::start(|mut conn, _| {
                while let Some(request) = conn.next_request() {
                    let target = request.head.line.split(' ').nth(1).unwrap_or("").to_string();
                    conn.send(ok(&format!("{target} {}", request.head.field("host"))));
                }
            });
            let proxy = before(&server, rules).start(io);
            let mut client = client(&proxy);
            let id = client.open("GET", "/a?b", &[], true);
            assert_eq!(client.answer(id).text(), expected, "{rules}");
            drop(client);
            proxy.finish(server);
        }
    });
}

/// `close-spread-time infinite`: nobody is told of a soft stop, and streams go on.
#[test]
fn a_soft_stop_may_be_kept_from_clients() {
    each_driver(|io| {
        let text = "frontend fe\nbind <@fe> proto h2\nhttp-request return status 200\n";
        let proxy = Setup::http(text).global("close-spread-time infinite").start(io);
        let mut client = client(&proxy);
        let before = client.open("GET", "/", &[], true);
        assert_eq!(client.answer(before).status, 200);
        proxy.signal(support::Signal::User1);
        support::eventually("the stop is announced", || proxy.output().contains("fe stopped").then_some(()));
        for _ in 0..2 {
            let after = client.open("GET", "/", &[], true);
            assert_eq!(client.answer(after).status, 200);
        }
        assert!(client.goaways.is_empty(), "{:?}", client.goaways);
    });
}

/// `idle-ping`: who answers stays beyond `timeout client`, who does not is left when the next question is due.
#[test]
fn idle_clients_are_asked_whether_they_are_there() {
    each_driver(|io| {
        let setup = |every: &str| {
            let text = format!(
                "frontend fe\nbind <@fe> proto h2 idle-ping {every}\nhttp-request return status 204\n"
            );
            Setup::http(&text)
        };
        let proxy = setup("200ms").start(io);
        let mut silent = proxy.connect();
        silent.send(beginning());
        let kinds: Vec<_> =
            std::iter::from_fn(|| next_frame(&mut silent)).map(|(header, _)| header.kind).collect();
        assert_eq!(kinds, [Kind::Ping, Kind::Goaway]);
        drop(silent);
        proxy.finish(());
        let proxy = setup("2s").defaults("timeout client 3s").start(io);
        let mut there = proxy.connect();
        there.send(beginning());
        for _ in 0..2 {
            let (header, payload) = next_frame(&mut there).expect("a question");
            assert_eq!((header.kind, header.flags), (Kind::Ping, 0));
            there.send(frame(Kind::Ping, flag::ACK, 0, &payload));
        }
        drop(there);
        proxy.finish(());
    });
}

/// What a client is told of WebSockets, and whether a thread that has nothing to do lets it go for its mistakes.
#[test]
fn settings_for_odd_clients() {
    each_driver(|io| {
        for (line, told) in [("", true), ("h2-workaround-bogus-websocket-clients", false)] {
            let proxy = Setup::http("frontend fe\nbind <@fe>\nhttp-request return status 204\n").global(line);
            let proxy = proxy.start(io);
            let mut client = client(&proxy);
            assert_eq!(client.get("/").status, 204);
            assert_eq!(client.h2.remote_settings().enable_connect_protocol, told, "{line}");
            drop(client);
            proxy.finish(());
        }
        for (line, left) in
            [("tune.glitches.kill.cpu-usage 0", true), ("tune.glitches.kill.cpu-usage 100", false)]
        {
            let proxy = Setup::http("frontend fe\nbind <@fe>\nhttp-request return status 204\n")
                .global("tune.h2.fe.glitches-threshold 4")
                .global(line)
                .start(io);
            let mut conn = proxy.connect();
            conn.send(beginning());
            let odd = block(&[GET, &[("connection", "close")]].concat());
            for id in [1, 3, 5, 7] {
                conn.send(frame(Kind::Headers, flag::END_HEADERS | flag::END_STREAM, id, &odd));
                let answer = std::iter::from_fn(|| next_frame(&mut conn)).map(|(header, _)| header.kind);
                assert!({ answer }.any(|kind| kind == Kind::RstStream), "{line}");
            }
            let _ = conn.try_send(frame(Kind::Ping, 0, 0, &[0; 8]));
            let mut answers = std::iter::from_fn(|| next_frame(&mut conn));
            let (last, _) =
                answers.find(|(header, _)| matches!(header.kind, Kind::Ping | Kind::Goaway)).unwrap();
            assert_eq!(last.kind == Kind::Goaway, left, "{line}");
            drop(conn);
            proxy.finish(());
        }
    });
}

/// A server that answers before it has the request, from a client that does not go on with it once it has the answer, as curl: the
/// answer is whole, and the stream ends without an error (RFC 9113 section 8.1).
#[test]
fn an_early_answer_is_whole_for_who_stops_sending() {
    each_driver(|io| {
        let server = Server::start(|mut conn, _| {
            conn.until(b"\r\n\r\n");
            conn.send(ok("early"));
            // Until the connection ends.
            let _ = conn.try_until(b"never");
        });
        let proxy = before(&server, "timeout client 300ms").start(io);
        let mut client = client(&proxy);
        let id = client.open("POST", "/", &[("content-length", "10")], false);
        client.data(id, b"12345", false);
        client.until("the stream is over", |client| client.so_far(id).reset.is_some());
        let answer = client.so_far(id);
        assert_eq!((answer.status, answer.text(), answer.whole), (200, "early".to_owned(), true));
        assert_eq!(answer.reset, Some(ErrorCode::NoError));
        drop(client);
        proxy.finish(server);
    });
}
