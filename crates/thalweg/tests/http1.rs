//! HTTP/1 on both sides, end to end: connections that are kept and closed, framing, interim responses, tunnels, local
//! answers.

mod support;

use std::sync::mpsc;

use support::{Conn, Io, Proxy, Request, Server, Setup, each_driver, nobody, ok};

const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";

fn setup(server: &Server, fe: &str, be: &str) -> Setup {
    Setup::http(&format!(
        "frontend fe\nbind <@fe>\n{fe}\ndefault_backend be\nbackend be\n{be}\nserver s {}\n",
        server.addr
    ))
}

fn start(io: Io, server: &Server, fe: &str, be: &str) -> Proxy {
    setup(server, fe, be).start(io)
}

/// Answers with what it got: the request line, some fields, the body, the trailers.
fn mirror() -> Server {
    Server::http(|request: &Request| {
        let fields: Vec<_> =
            request.head.fields.iter().map(|(n, v)| format!("{}={v}", n.to_lowercase())).collect();
        let body = String::from_utf8_lossy(&request.body);
        ok(&format!("{}|{}|{body}|{}", request.head.line, fields.join(","), request.trailers))
    })
}

#[test]
fn keep_alive_and_pipelining() {
    each_driver(|io| {
        let server = mirror();
        let proxy = start(io, &server, "", "");
        let mut conn = proxy.connect();
        for n in 0..5 {
            conn.send(format!("GET /{n} HTTP/1.1\r\nHost: h\r\n\r\n"));
            assert!(conn.response().text().starts_with(&format!("GET /{n} HTTP/1.1|")));
        }
        let many: String = (0..50)
            .map(|n| format!("POST /p{n} HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc"))
            .collect();
        conn.send(many);
        for n in 0..50 {
            let text = conn.response().text();
            assert!(text.starts_with(&format!("POST /p{n} ")) && text.ends_with("|abc|"), "{text}");
        }
        // One connection to the server was enough.
        assert_eq!(server.accepted(), 1);
        drop(conn);
        proxy.finish(server);
    });
}

#[test]
fn close_modes() {
    each_driver(|io| {
        for (fe, request, client_stays, server_stays) in [
            ("option http-server-close", GET, true, false),
            ("option httpclose", GET, false, false),
            ("", "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", false, false),
            ("", "GET / HTTP/1.0\r\n\r\n", false, false),
            ("", "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", true, true),
        ] {
            let server = mirror();
            let proxy = start(io, &server, fe, "");
            let mut conn = proxy.connect();
            conn.send(request);
            let response = conn.response();
            assert_eq!(response.status, 200);
            if client_stays {
                conn.send(GET);
                conn.response();
            } else {
                assert_eq!(response.field("connection").to_lowercase(), "close", "{fe} {request}");
                assert_eq!(conn.rest(), b"", "{fe} {request}");
                proxy.ask(GET);
            }
            assert_eq!(server.accepted(), if server_stays { 1 } else { 2 }, "{fe} {request}");
            drop(conn);
            proxy.finish(server);
        }
    });
}

/// What the server is told about its connection follows from the version of the request that it gets; a request for
/// another protocol is told nothing.
#[test]
fn the_server_is_told_whether_to_stay() {
    each_driver(|io| {
        let old = "GET / HTTP/1.0\r\n\r\n";
        let upgrade = "GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n";
        for (option, request, expected) in [
            ("", GET, ""),
            ("", old, "keep-alive"),
            ("option http-server-close", GET, "close"),
            ("option http-server-close", old, ""),
            ("option http-server-close\noption http-pretend-keepalive", GET, ""),
            ("option http-server-close\noption http-pretend-keepalive", old, "keep-alive"),
            ("", upgrade, "upgrade"),
            ("option http-server-close", upgrade, "upgrade"),
        ] {
            let server = Server::http(|request| ok(&format!("<{}>", request.head.field("connection"))));
            let proxy = start(io, &server, "", option);
            assert_eq!(proxy.ask(request).text(), format!("<{expected}>"), "{option} {request}");
            proxy.finish(server);
        }
    });
}

#[test]
fn continue_is_passed_both_ways() {
    each_driver(|io| {
        let server = Server::start(|mut conn, _| {
            let head = conn.head();
            assert_eq!(head.field("expect"), "100-continue");
            conn.send("HTTP/1.1 100 Continue\r\n\r\n");
            let body = conn.exactly(5);
            conn.send(ok(&String::from_utf8_lossy(&body)));
            conn.ended();
        });
        let proxy = start(io, &server, "", "");
        let mut conn = proxy.connect();
        conn.send("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
        assert_eq!(conn.response().status, 100);
        conn.send("hello");
        assert_eq!(conn.response().text(), "hello");
        drop(conn);
        proxy.finish(server);
    });
}

#[test]
fn interim_responses_reach_the_client() {
    each_driver(|io| {
        let server = Server::http(|_| {
            format!(
                "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n{}",
                ok("x")
            )
        });
        let proxy = start(io, &server, "", "");
        let mut conn = proxy.connect();
        conn.send(GET);
        let first = conn.response();
        assert_eq!((first.status, first.field("link").as_str()), (103, "</a>"));
        assert_eq!(conn.response().status, 103);
        assert_eq!(conn.response().text(), "x");
        drop(conn);
        proxy.finish(server);
    });
}

#[test]
fn responses_without_a_body() {
    each_driver(|io| {
        let server = Server::http(|request: &Request| {
            let target = request.head.line.split(' ').nth(1).unwrap();
            match target {
                "/head" => "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n".into(),
                "/204" => "HTTP/1.1 204 No Content\r\n\r\n".into(),
                "/304" => "HTTP/1.1 304 Not Modified\r\nContent-Length: 77\r\n\r\n".into(),
                "/empty" => "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".into(),
                _ => ok("x"),
            }
        });
        let proxy = start(io, &server, "", "");
        let mut conn = proxy.connect();
        for (method, target, status) in
            [("HEAD", "/head", 200), ("GET", "/204", 204), ("GET", "/304", 304), ("GET", "/empty", 200)]
        {
            conn.send(format!("{method} {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
            assert_eq!(conn.response_to(method).status, status);
            conn.send(GET);
            assert_eq!(conn.response().text(), "x");
        }
        assert_eq!(server.accepted(), 1);
        drop(conn);
        proxy.finish(server);
    });
}

#[test]
fn chunks_and_trailers_both_ways() {
    each_driver(|io| {
        let server = Server::http(|request: &Request| {
            if request.head.line.starts_with("GET") {
                return "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\nabcdefg\r\n0\r\n\r\n"
                    .into();
            }
            assert_eq!(request.body, b"hello world");
            assert_eq!(request.trailers.to_lowercase(), "x-sum: 1\r\n");
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;ext=1\r\nabc\r\n4\r\ndefg\r\n0\r\nX-End: 2\r\n\r\n".into()
        });
        let proxy = start(io, &server, "", "");
        let mut conn = proxy.connect();
        for _ in 0..3 {
            conn.send("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n");
            conn.send("0\r\nX-Sum: 1\r\n\r\n");
            let response = conn.response();
            assert_eq!(
                (response.text().as_str(), response.trailers.to_lowercase().as_str()),
                ("abcdefg", "x-end: 2\r\n")
            );
        }
        drop(conn);
        // A client of 1.0 knows no chunks.
        let old = proxy.ask("GET / HTTP/1.0\r\n\r\n");
        assert_eq!((old.text().as_str(), old.head.has("transfer-encoding")), ("abcdefg", false));
        proxy.finish(server);
    });
}

#[test]
fn bodies_that_end_with_the_connection() {
    each_driver(|io| {
        let server = Server::start(|mut conn, _| {
            conn.head();
            conn.send("HTTP/1.0 200 OK\r\n\r\nsome ");
            conn.send("text");
        });
        let proxy = start(io, &server, "", "");
        let mut conn = proxy.connect();
        for _ in 0..2 {
            conn.send(GET);
            let response = conn.response();
            assert_eq!(
                (response.text().as_str(), response.field("transfer-encoding").as_str()),
                ("some text", "chunked")
            );
        }
        let old = proxy.ask("GET / HTTP/1.0\r\n\r\n");
        assert_eq!((old.text().as_str(), old.head.has("transfer-encoding")), ("some text", false));
        drop(conn);
        proxy.finish(server);
    });
}

#[test]
fn tunnels() {
    each_driver(|io| {
        for (request, answer) in [
            (
                "GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
                "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
            ),
            ("CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"),
        ] {
            let server = Server::start(move |mut conn, _| {
                conn.head();
                conn.send(answer);
                // An echo, until the client has said everything.
                let mut said = Vec::new();
                while !said.ends_with(b"bye") {
                    let next = conn.exactly(1);
                    conn.send(&next);
                    said.extend(next);
                }
                assert_eq!(conn.rest(), b"");
                conn.send("farewell");
            });
            let proxy = start(io, &server, "", "");
            let mut conn = proxy.connect();
            conn.send(request);
            let head = conn.head();
            assert_eq!(head.line.split(' ').nth(1), answer.split(' ').nth(1));
            conn.send([0x81, 0x05]);
            assert_eq!(conn.exactly(2), [0x81, 0x05]);
            conn.send("GET / HTTP/1.1\r\n\r\nbye");
            assert_eq!(conn.exactly(21), b"GET / HTTP/1.1\r\n\r\nbye");
            conn.half_close();
            assert_eq!(conn.rest(), b"farewell");
            drop(conn);
            proxy.finish(server);
        }
    });
}

#[test]
fn a_final_response_while_the_request_still_flows() {
    each_driver(|io| {
        let (go, wait) = mpsc::channel::<()>();
        let wait = std::sync::Mutex::new(wait);
        let server = Server::start(move |mut conn, _| {
            conn.head();
            conn.exactly(10);
            conn.send(ok("early"));
            wait.lock().unwrap().recv().unwrap();
            assert_eq!(conn.exactly(10), b"0123456789");
            conn.ended();
        });
        let proxy = start(io, &server, "", "");
        let mut conn = proxy.connect();
        conn.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 20\r\n\r\n0123456789");
        assert_eq!(conn.response().text(), "early");
        go.send(()).unwrap();
        conn.send("0123456789");
        drop(conn);
        proxy.finish(server);
    });
}

#[test]
fn timeouts_of_idle_clients() {
    each_driver(|io| {
        let server = mirror();
        let proxy = start(io, &server, "timeout http-request 100ms\ntimeout http-keep-alive 20s", "");
        let mut conn = proxy.connect();
        assert_eq!(conn.response().status, 408);
        assert_eq!(conn.rest(), b"");
        drop(proxy);
        let proxy = start(io, &server, "timeout http-request 20s\ntimeout http-keep-alive 50ms", "");
        let mut conn = proxy.connect();
        conn.send(GET);
        assert_eq!(conn.response().status, 200);
        // Between requests the connection is closed without a word.
        assert_eq!(conn.rest(), b"");
        drop(conn);
        proxy.finish(server);
    });
}

#[test]
fn an_error_file() {
    each_driver(|io| {
        let file = std::env::temp_dir().join(format!("thalweg-503-{}-{io}.http", std::process::id()));
        std::fs::write(
            &file,
            "HTTP/1.1 503 Sorry\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\nsorry\n",
        )
        .unwrap();
        let text = format!(
            "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nerrorfile 503 {}\n",
            file.display()
        );
        let proxy = Setup::http(&text).start(io);
        let response = proxy.ask(GET);
        assert_eq!((response.status, response.text().as_str()), (503, "sorry\n"));
        assert_eq!(response.field("content-type"), "text/plain");
        proxy.finish(());
        std::fs::remove_file(file).unwrap();
    });
}

#[test]
fn rules_can_wait_for_the_body() {
    each_driver(|io| {
        let server = mirror();
        let fe =
            "option http-buffer-request\nhttp-request deny deny_status 403 if { req.body -m sub secret }";
        let proxy = start(io, &server, fe, "");
        let mut conn = proxy.connect();
        conn.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 12\r\n\r\nsec");
        conn.send("ret stuff");
        assert_eq!(conn.response().status, 403);
        drop(conn);
        let mut conn = proxy.connect();
        conn.send("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
        assert!(conn.response().text().contains("|abc|"));
        drop(conn);
        proxy.finish(server);
    });
}

#[test]
fn a_buffered_request_goes_on_at_its_very_end() {
    each_driver(|io| {
        for fe in ["option http-buffer-request", "http-request wait-for-body time 20s"] {
            let server = mirror();
            let proxy = start(io, &server, fe, "");
            // All of the payload, and not all of the message.
            let mut conn = proxy.connect();
            conn.send(
                "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n",
            );
            // Another request is served meanwhile, and is the first that the server sees.
            assert_eq!(proxy.ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n").status, 200);
            assert_eq!(server.accepted(), 1, "{fe}");
            conn.send("\r\n");
            assert!(conn.response().text().contains("|abc|"));
            drop(conn);
            // A client that leaves before the end has sent no request.
            let mut conn = proxy.connect();
            conn.send("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n");
            conn.half_close();
            assert_eq!(conn.response().status, 400);
            drop(conn);
            proxy.finish(server);
        }
    });
}

#[test]
fn forwarded_for() {
    each_driver(|io| {
        let server = mirror();
        let sent = |fe: &str, field: &str| {
            let proxy = start(io, &server, fe, "");
            let text = proxy.ask(&format!("GET / HTTP/1.1\r\nHost: h\r\n{field}\r\n")).text();
            let fields = text.split('|').nth(1).unwrap().to_string();
            let values: Vec<_> =
                fields.split(',').filter_map(|f| f.strip_prefix("x-forwarded-for=")).collect();
            values.join("+")
        };
        assert_eq!(sent("option forwardfor", ""), "127.0.0.1");
        assert_eq!(sent("option forwardfor", "X-Forwarded-For: 1.2.3.4\r\n"), "1.2.3.4+127.0.0.1");
        assert_eq!(sent("option forwardfor if-none", "X-Forwarded-For: 1.2.3.4\r\n"), "1.2.3.4");
        assert_eq!(sent("option forwardfor if-none", ""), "127.0.0.1");
        assert_eq!(sent("option forwardfor except 127.0.0.0/8", ""), "");
        assert_eq!(sent("option forwardfor except 10.0.0.0/8", ""), "127.0.0.1");
        // A client that came over IPv6, as a PROXY header says.
        let proxy = Setup::http(&format!(
            "frontend fe\nbind <@fe> accept-proxy\noption forwardfor\ndefault_backend be\nbackend be\nserver s {}\n",
            server.addr
        ))
        .start(io);
        let mut conn = proxy.connect();
        conn.send(format!("PROXY TCP6 2001:db8::7 2001:db8::1 1000 80\r\n{GET}"));
        let text = conn.response().text();
        assert!(text.contains("x-forwarded-for=2001:db8::7"), "{text}");
        drop(conn);
        proxy.finish(server);
    });
}

#[test]
fn local_answers_keep_the_connection() {
    each_driver(|io| {
        let text = "frontend fe\nbind <@fe>\nhttp-request return status 200 content-type text/plain string hi if { path /r }\n\
                    http-request redirect prefix http://x code 301 if { path_beg /p }\n\
                    http-request deny deny_status 429 if { path /d }\n";
        let proxy = Setup::http(text).start(io);
        let mut conn = proxy.connect();
        for _ in 0..2 {
            conn.send("GET /r HTTP/1.1\r\nHost: h\r\n\r\n");
            assert_eq!(conn.response().text(), "hi");
            conn.send("GET /p/q?z HTTP/1.1\r\nHost: h\r\n\r\n");
            assert_eq!(conn.response().field("location"), "http://x/p/q?z");
            conn.send("GET /d HTTP/1.1\r\nHost: h\r\n\r\n");
            assert_eq!(conn.response().status, 429);
        }
        // The body of a request that is answered here does not become the next request.
        conn.send(
            "POST /r HTTP/1.1\r\nHost: h\r\nContent-Length: 30\r\n\r\nGET /evil HTTP/1.1\r\nHost: h\r\n\r\n",
        );
        assert_eq!(conn.response().text(), "hi");
        drop(conn);
        proxy.finish(());
    });
}

/// However the request is answered, a chunk size without end is a bad request, and costs nothing afterwards.
/// A client that says that it has nothing more to ask still gets what it asked for, also from this process and also where
/// `abortonclose` would give a server's response up.
#[test]
fn answers_of_our_own_reach_who_ended_its_direction() {
    each_driver(|io| {
        let server = Server::http(|_| ok(&"x".repeat(200_000)));
        let text = format!(
            "listen fe\nbind <@fe>\noption abortonclose\nuse_backend be if {{ path / }}\n\
             http-request return status 200 content-type text/plain string own if {{ path /own }}\n\
             http-request use-service prometheus-exporter if {{ path /service }}\n\
             backend be\nno option abortonclose\nserver s {}\n",
            server.addr
        );
        let proxy = Setup::http(&text).global("tune.sndbuf.client 4096").start(io);
        for (path, expected) in [("/own", "own"), ("/service?scope=global", "haproxy_process_nbthread")] {
            let mut conn = proxy.connect();
            // The answer has to wait for the response in front of it, which the client does not read yet.
            conn.send(format!("GET / HTTP/1.1\r\nHost: h\r\n\r\nGET {path} HTTP/1.1\r\nHost: h\r\n\r\n"));
            conn.half_close();
            assert_eq!(conn.response().body.len(), 200_000);
            let response = conn.response();
            assert!(response.text().contains(expected), "{path}: {}", response.status);
            let logs = [proxy.http_log(), proxy.http_log()];
            assert!(logs[0].contains(" ---- ") && logs[1].contains(" LR-- "), "{logs:?}");
        }
    });
}

#[test]
fn what_rules_say_of_the_connection_is_heard_and_not_repeated() {
    each_driver(|io| {
        let server = Server::http(|_| ok("hello"));
        let fe = "http-request return status 200 hdr connection foo if { path /foo }\n\
                  http-request return status 200 hdr connection \"close, foo\" if { path /end }\n\
                  http-response set-header connection \"%[var(txn.c)]\" if { var(txn.c) -m found }\n\
                  http-after-response set-header connection close if { var(txn.after) -m found }\n\
                  http-request set-var(txn.c) str(keep-alive) if { path /stay }\n\
                  http-request set-var(txn.c) 'str(\"foo, close\")' if { path /over }\n\
                  http-request set-var(txn.after) str(1) if { path /after }";
        let proxy = start(io, &server, fe, "");
        let mut conn = proxy.connect();
        let mut ask = |path: &str| {
            conn.send(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n"));
            let response = conn.response();
            let said = response.field("connection");
            if said.contains("close") {
                assert_eq!(conn.ended(), b"");
                conn = proxy.connect();
            }
            said
        };
        for (path, expected) in [
            ("/foo", "foo"),
            ("/end", "foo,close"),
            ("/", ""),
            ("/stay", ""),
            ("/over", "foo,close"),
            ("/after", "close"),
        ] {
            assert_eq!(ask(path), expected, "{path}");
        }
    });
}

#[test]
fn a_chunk_size_line_without_end() {
    each_driver(|io| {
        let server = Server::start(|mut conn, _| drop(conn.ended()));
        for (what, rest) in [
            ("server", format!("default_backend be\nbackend be\nserver s {}\n", server.addr)),
            ("return", "http-request return status 200\n".into()),
            ("deny", "http-request deny\n".into()),
            ("redirect", "http-request redirect location /\n".into()),
            ("nothing", String::new()),
            ("refusal", format!("default_backend be\nbackend be\nretries 0\nserver s {}\n", nobody())),
        ] {
            for line in
                ["0".repeat(100_000), format!("1;{}", "x".repeat(100_000)), "fffffffffffffffff\r\n".into()]
            {
                let proxy = Setup::http(&format!("frontend fe\nbind <@fe>\n{rest}")).start(io);
                let mut conn = proxy.connect();
                let _ = conn.try_send(format!(
                    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n{line}"
                ));
                let end = String::from_utf8_lossy(&conn.ended()).into_owned();
                // Where the answer was sent before the line came, the connection ends with it.
                assert!(end.starts_with("HTTP/1.1 400 ") || what != "server", "{what}: {end:?}");
                drop(conn);
                proxy.finish(());
            }
        }
        drop(server);
    });
}

/// The same bytes in two pieces, cut anywhere, are the same request, and the same response.
#[test]
fn cut_anywhere() {
    each_driver(|io| {
        let (cut, next) = mpsc::channel::<usize>();
        let next = std::sync::Mutex::new(next);
        let response = "HTTP/1.1 200 OK\r\nX-A: b\r\nTransfer-Encoding: chunked\r\n\r\n3;e=1\r\nabc\r\n0\r\nX-T: u\r\n\r\n";
        let server = Server::start(move |mut conn, _| {
            while let Some(request) = conn.next_request() {
                assert_eq!(
                    (request.body.as_slice(), request.trailers.to_lowercase().as_str()),
                    (&b"hello"[..], "x-y: z\r\n")
                );
                assert_eq!(request.head.field("x-long"), "value with spaces");
                let at = next.lock().unwrap().recv().unwrap();
                conn.send(&response[..at]);
                std::thread::yield_now();
                conn.send(&response[at..]);
            }
        });
        let request = "POST /path?q HTTP/1.1\r\nHost: h\r\nX-Long: value with spaces\r\nTransfer-Encoding: chunked\r\n\r\n\
                       5;ext=\"v\"\r\nhello\r\n0\r\nX-Y: z\r\n\r\n";
        let proxy = start(io, &server, "", "");
        let mut conn = proxy.connect();
        for at in 1..request.len() {
            cut.send(1 + at % (response.len() - 1)).unwrap();
            conn.send(&request[..at]);
            std::thread::yield_now();
            conn.send(&request[at..]);
            let response = conn.response();
            assert_eq!(
                (response.text().as_str(), response.field("x-a").as_str()),
                ("abc", "b"),
                "cut at {at}"
            );
            assert_eq!(response.trailers.to_lowercase(), "x-t: u\r\n", "cut at {at}");
        }
        drop(conn);
        proxy.finish(server);
    });
}

/// A connection that is only half there: byte by byte.
#[test]
fn byte_by_byte() {
    each_driver(|io| {
        let server = mirror();
        let proxy = start(io, &server, "", "");
        let mut conn: Conn = proxy.connect();
        for byte in "POST /slow HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody".bytes() {
            conn.send([byte]);
        }
        assert!(conn.response().text().ends_with("|body|"));
        drop(conn);
        proxy.finish(server);
    });
}

/// What an HTTP/1.0 client's request tells the server about its connection is what the proxy wants of it.
#[test]
fn an_http_1_0_request_keeps_the_servers_connection() {
    each_driver(|io| {
        for (fe, be, expected) in [
            ("", "", "connection=keep-alive"),
            ("option httpclose", "", "connection=keep-alive"),
            ("option http-server-close", "", ""),
            ("", "option httpclose", ""),
            ("", "option http-server-close\noption http-pretend-keepalive", "connection=keep-alive"),
        ] {
            let server = mirror();
            let proxy = start(io, &server, fe, be);
            for field in ["", "Connection: keep-alive\r\n", "Connection: close\r\n"] {
                let response = proxy.ask(&format!("GET / HTTP/1.0\r\n{field}\r\n"));
                assert_eq!(
                    response.text(),
                    format!("GET / HTTP/1.0|{expected}||"),
                    "{fe:?} {be:?} {field:?}"
                );
            }
            let response = proxy.ask(GET);
            let closes = if be == "option httpclose" || fe == "option http-server-close" {
                ",connection=close"
            } else {
                ""
            };
            assert_eq!(response.text(), format!("GET / HTTP/1.1|host=h{closes}||"), "{fe:?} {be:?}");
            proxy.finish(server);
        }
    });
}

/// `monitor-uri` is a path, however the target is written.
#[test]
fn a_monitor_in_every_form_of_target() {
    each_driver(|io| {
        let proxy =
            Setup::http("frontend fe\nbind <@fe>\nmonitor-uri /up\nhttp-request deny deny_status 404\n")
                .start(io);
        for (target, status) in [
            ("/up", 200),
            ("http://h/up", 200),
            ("http://h:80/up", 200),
            ("/up?", 404),
            ("http://h/up?x", 404),
            ("/upper", 404),
            ("http://h/", 404),
        ] {
            let response = proxy.ask(&format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
            assert_eq!(response.status, status, "{target}");
        }
        proxy.finish(());
        // What is no path is the whole target.
        let text = "frontend fe\nbind <@fe>\nmonitor-uri http://h/up\nhttp-request deny deny_status 404\n";
        let proxy = Setup::http(text).start(io);
        for (target, status) in [("/up", 404), ("http://h/up", 200), ("http://i/up", 404)] {
            let host = if target.contains("//i") { "i" } else { "h" };
            let response = proxy.ask(&format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            assert_eq!(response.status, status, "{target}");
        }
        proxy.finish(());
    });
}

/// `tune.http.maxhdr` counts the first line.
#[test]
fn as_many_fields_as_allowed() {
    each_driver(|io| {
        let fields = |n: usize| (0..n).map(|i| format!("x-{i}: y\r\n")).collect::<String>();
        for (max, global) in [(100, ""), (9, "tune.http.maxhdr 10")] {
            let server = Server::http(move |request| {
                let n: usize = request.head.field("x-wanted").parse().unwrap();
                format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n{}\r\n", fields(n - 1))
            });
            let proxy = setup(&server, "", "").global(global).start(io);
            for (request, response, status) in [(max, max, 200), (max + 1, max, 400), (max, max + 1, 502)] {
                let head = format!("GET / HTTP/1.1\r\nHost: h\r\nX-Wanted: {response}\r\n");
                let answer = proxy.ask(&format!("{head}{}\r\n", fields(request - 2)));
                assert_eq!(answer.status, status, "{request} and {response} fields of {max}");
            }
            proxy.finish(server);
        }
    });
}

/// HTTP/1.0 knows no chunks: a response that has them is the last one of its connections, also when the server stays.
#[test]
fn chunks_of_http_1_0_end_both_connections() {
    each_driver(|io| {
        let server = Server::start(|mut conn, _| {
            if conn.next_head().is_some() {
                conn.send("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n");
                conn.ended();
            }
        });
        let proxy = Setup::http(&format!("listen l\nbind <@fe>\nserver s {}\n", server.addr)).start(io);
        let mut conn = proxy.connect();
        conn.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        let response = conn.response();
        assert_eq!(
            (response.text().as_str(), response.field("connection").as_str()),
            ("ok", "close"),
            "{io}"
        );
        assert_eq!(conn.rest_text(), "", "{io}");
        proxy.finish(server);
    });
}

#[test]
fn forwarded_comes_before_the_older_fields() {
    each_driver(|io| {
        let server = mirror();
        let proxy = start(io, &server, "option forwardfor", "option originalto\noption forwarded proto");
        let text = proxy.ask(GET).text();
        let fields = text.split('|').nth(1).expect("the fields");
        let names: Vec<&str> = fields.split(',').filter_map(|field| field.split('=').next()).collect();
        assert_eq!(names, ["host", "forwarded", "x-forwarded-for", "x-original-to"]);
        proxy.finish(server);
    });
}

/// `disable-l7-retry` is about requests that a server may have seen: one that could not be connected to has not.
#[test]
fn connecting_is_tried_again_whatever_a_rule_says_of_requests() {
    each_driver(|io| {
        let server = mirror();
        let be = format!("balance roundrobin\nretries 2\noption redispatch 1\nserver dead {}", nobody());
        let proxy = start(io, &server, "http-request disable-l7-retry", &be);
        for _ in 0..2 {
            assert_eq!(proxy.ask(GET).status, 200);
        }
        proxy.finish(server);
    });
}

/// What a frontend of `mode tcp` says of requests is about those of connections that its backend makes HTTP of.
#[test]
fn a_tcp_frontend_before_a_backend_of_http_keeps_its_options() {
    each_driver(|io| {
        let server = mirror();
        let text = format!(
            "frontend f\nbind <@fe>\nmode tcp\nmonitor-uri /alive\noption forwardfor\noption originalto\n\
             stats uri /page\ndefault_backend b\nbackend b\nserver s {}\n",
            server.addr
        );
        let proxy = Setup::http(&text).start(io);
        let echoed = proxy.ask(GET).text();
        assert!(echoed.contains("x-forwarded-for=127.0.0.1,x-original-to=127."), "{echoed}");
        let asked = |path: &str| proxy.ask(&format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n")).text();
        assert!(asked("/alive").contains("Service ready"), "{io}");
        assert!(asked("/page").contains("<html"), "{io}");
        proxy.finish(server);
    });
}

/// Who takes a prefix away and leaves nothing means the root.
#[test]
fn a_path_that_rules_emptied_is_the_root() {
    each_driver(|io| {
        let server = mirror();
        let rules = "http-request set-path %[path,regsub(^/api,)]\nhttp-request replace-pathq ^/q(.*) \\1\n\
                     http-request replace-uri ^/all(.*) \\1";
        let proxy = start(io, &server, rules, "");
        for (asked, sent) in [
            ("/api", "/"),
            ("/api?a=b", "/?a=b"),
            ("/api/x", "/x"),
            ("http://h/api?a", "http://h/?a"),
            ("/q", "/"),
            ("/q?a", "/?a"),
            ("/all", "/"),
        ] {
            let text = proxy.ask(&format!("GET {asked} HTTP/1.1\r\nHost: h\r\n\r\n")).text();
            assert!(text.starts_with(&format!("GET {sent} HTTP/1.1|")), "{asked}: {text}");
        }
        proxy.finish(server);
    });
}
