//! Servers that speak HTTP/2, behind clients that speak HTTP/1 and HTTP/2.

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use support::h2::{Client, Served, next_frame, stat};
use support::tls::Authority;
use support::{Conn, Server, Setup, each_driver, eventually};
use thalweg_h2::error::ErrorCode;
use thalweg_h2::frame;
use thalweg_h2::settings::Settings;

/// A frontend before one server, with more words for the server and more lines for the backend.
fn before(server: &Server, words: &str, more: &str) -> Setup {
    Setup::http(&format!(
        "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nretries 0\n{more}\nserver s {} proto h2 {words}\n",
        server.addr
    ))
}

/// A server that serves each connection in that way; the second argument is its number.
fn serving(serve: impl Fn(Served, usize) + Send + Sync + 'static) -> Server {
    limited(Settings::default(), serve)
}

/// The same with such settings.
fn limited(settings: Settings, serve: impl Fn(Served, usize) + Send + Sync + 'static) -> Server {
    Server::start(move |conn, number| serve(Served::new(conn, settings), number))
}

/// One that says what it was asked.
fn telling() -> Server {
    serving(|mut served, _| {
        while let Some((id, asked)) = served.next_request() {
            let list = |fields: &[(String, String)]| {
                fields.iter().map(|(n, v)| format!("{n}: {v}")).collect::<Vec<_>>().join(",")
            };
            let body = String::from_utf8_lossy(&asked.body);
            let text = format!("{}|{}|{body}|{}", asked.line, list(&asked.fields), list(&asked.trailers));
            served.answer(id, &text);
        }
    })
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: h.example\r\n\r\n")
}

#[test]
fn requests_of_clients_of_both_versions() {
    each_driver(|io| {
        let server = telling();
        let proxy = before(&server, "", "").start(io);
        let mut conn = proxy.connect();
        let mut ask = |request: &str| {
            conn.send(request);
            conn.response().text()
        };
        assert_eq!(
            ask(
                "GET /a?b HTTP/1.1\r\nHost: h.example\r\nConnection: x-y\r\nX-Y: 1\r\nTE: trailers, gzip\r\nX: 1\r\n\r\n"
            ),
            "GET https://h.example/a?b|host: h.example,x-y: 1,te: trailers,x: 1||"
        );
        assert_eq!(proxy.http_log(), "be/s n/n/n/n/n 200 ---- 0 \"GET /a?b HTTP/1.1\"");
        let text = ask("POST / HTTP/1.1\r\nHost: h.example\r\nContent-Length: 5\r\n\r\nhello");
        assert!(text.ends_with("content-length: 5|hello|"), "{text}");
        let text = ask(
            "POST / HTTP/1.1\r\nHost: h.example\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\nX-Sum: 532\r\n\r\n",
        );
        assert_eq!(text, "POST https://h.example/|host: h.example|hello|x-sum: 532");
        let mut client = Client::new(proxy.connect());
        let id = client.open("POST", "/b", &[], false);
        client.data(id, b"hel", false);
        client.data(id, b"lo", false);
        client.trailers(id, &[("x-sum", "532")]);
        assert_eq!(client.answer(id).text(), "POST http://h.example/b|host: h.example|hello|x-sum: 532");
        drop((client, conn));
        proxy.finish(server);
    });
}

#[test]
fn forms_of_responses() {
    each_driver(|io| {
        let server = serving(|mut served, _| {
            while let Some((id, asked)) = served.next_request() {
                match asked.line.rsplit('/').next().unwrap() {
                    "unsized" => {
                        served.head(id, 200, &[], false);
                        served.data(id, b"abc", false);
                        served.data(id, b"defg", false);
                        served.trailers(id, &[("x-sum", "7")]);
                    }
                    "hints" => {
                        served.head(id, 103, &[("link", "</x>")], false);
                        served.answer(id, "ok");
                    }
                    "none" => served.head(id, 204, &[], true),
                    "same" => served.head(id, 304, &[("content-length", "10")], true),
                    "head" => served.head(id, 200, &[("content-length", "10")], true),
                    "cut" => {
                        served.head(id, 200, &[("content-length", "10")], false);
                        served.data(id, b"half", false);
                        served.reset(id, ErrorCode::InternalError);
                    }
                    "odd" => {
                        // A field that no response may have.
                        let block = support::h2::block(&[(":status", "200"), ("connection", "close")]);
                        frame::put_header_block(served.h2.output(), id, &block, true, 16_384);
                        served.flush();
                    }
                    other => panic!("{other}"),
                }
            }
        });
        let proxy = before(&server, "", "http-reuse always").start(io);
        let mut conn = proxy.connect();
        conn.send(get("/unsized"));
        let response = conn.response();
        assert_eq!(response.text(), "abcdefg");
        assert_eq!(response.field("transfer-encoding"), "chunked");
        assert_eq!(response.trailers, "x-sum: 7\r\n");
        conn.send(get("/hints"));
        assert!(conn.head().line.starts_with("HTTP/1.1 103"));
        assert_eq!(conn.response().text(), "ok");
        for (path, status) in [("/none", "204"), ("/same", "304")] {
            conn.send(get(path));
            let response = conn.response();
            assert!(response.head.line.contains(status), "{}", response.head.line);
            assert_eq!(response.text(), "");
        }
        conn.send("HEAD /head HTTP/1.1\r\nHost: h.example\r\n\r\n");
        assert_eq!(conn.response_to("HEAD").field("content-length"), "10");
        conn.send(get("/odd"));
        assert!(conn.response().head.line.contains("502"));
        let mut other = proxy.connect();
        other.send(get("/cut"));
        let text = String::from_utf8(other.rest()).unwrap();
        assert!(text.ends_with("\r\n\r\nhalf"), "{text}");
        let mut client = Client::new(proxy.connect());
        let answer = client.get("/unsized");
        assert_eq!((answer.text().as_str(), answer.trailers.len()), ("abcdefg", 1));
        assert_eq!(client.get("/hints").interim, [103]);
        let cut = client.get("/cut");
        assert_eq!((cut.whole, cut.reset.is_some()), (false, true));
        assert_eq!(server.accepted(), 1);
        drop((client, conn, other));
        proxy.finish(server);
    });
}

/// A server that has said all of its response, and not yet that this was all.
#[test]
fn a_stream_is_over_when_its_server_says_so() {
    each_driver(|io| {
        let (go_on, may_go_on) = mpsc::channel::<()>();
        let (resets, reset) = mpsc::channel();
        let (may_go_on, resets) = (Mutex::new(may_go_on), Mutex::new(resets));
        let server = serving(move |mut served, _| {
            let mut ids = Vec::new();
            while let Some((id, asked)) = served.next_request() {
                match asked.line.rsplit('/').next().unwrap() {
                    "none" => served.head(id, 204, &[], false),
                    "same" => served.head(id, 304, &[("content-length", "10")], false),
                    _ if asked.line.starts_with("HEAD") => {
                        served.head(id, 200, &[("content-length", "10")], false)
                    }
                    _ => {
                        served.head(id, 200, &[("content-length", "5")], false);
                        served.data(id, b"hello", false);
                    }
                }
                may_go_on.lock().unwrap().recv().unwrap();
                served.data(id, b"", true);
                ids.push(id);
            }
            let reset = ids.iter().filter_map(|id| served.so_far(*id).reset);
            resets.lock().unwrap().send((ids.len(), reset.collect::<Vec<_>>())).unwrap();
        });
        let proxy = before(&server, "", "http-reuse always").start(io);
        let asked = [("GET", "/none"), ("GET", "/same"), ("HEAD", "/"), ("GET", "/sized")];
        let mut conn = proxy.connect();
        let mut client = Client::new(proxy.connect());
        for (method, path) in asked {
            conn.send(format!("{method} {path} HTTP/1.1\r\nHost: h.example\r\n\r\n"));
            let body = conn.response_to(method).text();
            assert_eq!(body, if path == "/sized" { "hello" } else { "" }, "{method} {path}");
            go_on.send(()).unwrap();
            let id = client.open(method, path, &[], true);
            client.until("the head", |client| client.so_far(id).status > 0);
            assert!(!client.so_far(id).whole, "{method} {path}");
            go_on.send(()).unwrap();
            assert!(client.answer(id).whole, "{method} {path}");
        }
        assert_eq!(server.accepted(), 1);
        drop((client, conn));
        proxy.finish(server);
        assert_eq!(reset.recv().unwrap(), (8, vec![]));
    });
}

#[test]
fn many_requests_share_a_connection_as_far_as_its_server_allows() {
    each_driver(|io| {
        let (arrived, arrivals) = mpsc::channel();
        let settings = Settings { max_concurrent_streams: Some(3), ..Settings::default() };
        let server = limited(settings, move |mut served, number| {
            let mut waiting = Vec::new();
            while let Some((id, asked)) = served.next_request() {
                arrived.send(number).unwrap();
                waiting.push(id);
                // All are answered when somebody says so.
                if asked.line.ends_with("/now") {
                    for id in waiting.drain(..) {
                        if served.so_far(id).reset.is_some() {
                            continue;
                        }
                        served.answer(id, "answered");
                    }
                }
            }
        });
        let proxy = before(&server, "", "http-reuse always").threads(1).start(io);
        let first = proxy.ask("GET /now HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(first.text(), "answered");
        assert_eq!(arrivals.recv().unwrap(), 0);
        let mut held: Vec<Conn> = (0..3)
            .map(|_| {
                let mut conn = proxy.connect();
                conn.send(get("/held"));
                assert_eq!(arrivals.recv().unwrap(), 0, "there is room on the first connection");
                conn
            })
            .collect();
        // There is no more room on it.
        assert_eq!(proxy.ask("GET /now HTTP/1.1\r\nHost: h\r\n\r\n").text(), "answered");
        assert_eq!(arrivals.recv().unwrap(), 1);
        assert_eq!(server.accepted(), 2);
        // One that leaves makes room.
        held.pop().unwrap().reset();
        support::eventually("the place is free", || {
            let answer = proxy.ask("GET /now HTTP/1.1\r\nHost: h\r\n\r\n");
            assert_eq!(answer.text(), "answered");
            (arrivals.recv().unwrap() == 0).then_some(())
        });
        for conn in &mut held {
            assert_eq!(conn.response().text(), "answered");
        }
        drop(held);
        proxy.finish(server);
    });
}

#[test]
fn what_a_server_did_not_process_is_sent_again() {
    each_driver(|io| {
        let asked = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&asked);
        let server = serving(move |mut served, number| {
            let mut first = true;
            while let Some((id, request)) = served.next_request() {
                seen.fetch_add(1, Ordering::SeqCst);
                // The first request of each connection is answered, so that it is used again.
                let way =
                    if std::mem::take(&mut first) { "" } else { request.line.rsplit('/').next().unwrap() };
                match way {
                    "refused" => served.reset(id, ErrorCode::RefusedStream),
                    "gone" => {
                        frame::put_goaway(served.h2.output(), id - 2, ErrorCode::NoError, b"");
                        served.flush();
                    }
                    "broken" => served.reset(id, ErrorCode::InternalError),
                    _ => {
                        let text = format!("{number} {}", String::from_utf8_lossy(&request.body));
                        served.answer(id, &text);
                    }
                }
            }
        });
        let proxy = before(&server, "", "http-reuse always").threads(1).start(io);
        let mut conn = proxy.connect();
        let mut ask = |method: &str, path: &str| {
            conn.send(format!("{method} {path} HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi"));
            let response = conn.response();
            (response.head.line.split(' ').nth(1).unwrap().to_owned(), response.text())
        };
        assert_eq!(ask("GET", "/"), ("200".into(), "0 hi".into()));
        // Nothing was done for it, whatever its method is: it goes out on another connection.
        assert_eq!(ask("POST", "/refused"), ("200".into(), "1 hi".into()));
        assert_eq!(asked.load(Ordering::SeqCst), 3);
        assert_eq!(
            ask("POST", "/gone"),
            ("200".into(), "2 hi".into()),
            "the first connection is used, and ends"
        );
        assert_eq!(asked.load(Ordering::SeqCst), 5);
        // What may have been done is not.
        let (status, _) = ask("GET", "/broken");
        assert_eq!((status.as_str(), asked.load(Ordering::SeqCst)), ("502", 6));
        drop(conn);
        proxy.finish(server);
    });
}

/// A server of gRPC cancels what its client's time is over for, and the client's side takes the code for that. Who has no resets is
/// answered.
#[test]
fn what_a_server_cancels_or_refuses_ends_the_same_way_for_the_client() {
    each_driver(|io| {
        let server = serving(move |mut served, _| {
            while let Some(id) = served.next_head() {
                let line = served.so_far(id).line.clone();
                match line.rsplit('/').next().unwrap() {
                    "cancelled" => served.reset(id, ErrorCode::Cancel),
                    "hints" => {
                        served.head(id, 103, &[("link", "</x>")], false);
                        served.reset(id, ErrorCode::Cancel);
                    }
                    // Once a part of its body is here, this process cannot send it again.
                    "refused" => {
                        while served.so_far(id).body.is_empty() && served.more() {}
                        served.reset(id, ErrorCode::RefusedStream);
                    }
                    "broken" => served.reset(id, ErrorCode::InternalError),
                    _ => served.answer(id, "ok"),
                }
            }
        });
        let proxy = before(&server, "", "http-reuse always").threads(1).start(io);
        let mut client = Client::new(proxy.connect());
        assert_eq!(client.get("/").status, 200);
        let log = |line: &str| assert_eq!(proxy.http_log(), format!("be/s {line} HTTP/2.0\""));
        log("n/n/n/n/n 200 ---- 0 \"GET http://h.example/");
        let cancelled = client.get("/cancelled");
        assert_eq!((cancelled.status, cancelled.reset), (0, Some(ErrorCode::Cancel)));
        log("n/n/n/-1/n 502 SH-- 0 \"GET http://h.example/cancelled");
        let hinted = client.get("/hints");
        assert_eq!((hinted.interim, hinted.status, hinted.reset), (vec![103], 0, Some(ErrorCode::Cancel)));
        proxy.http_log();
        let id = client.open("POST", "/refused", &[], false);
        client.data(id, b"hi", false);
        let refused = client.answer(id);
        assert_eq!((refused.status, refused.reset), (0, Some(ErrorCode::RefusedStream)));
        log("n/n/n/-1/n 502 SH-- 0 \"POST http://h.example/refused");
        assert_eq!(client.get("/broken").status, 502);
        assert_eq!(client.get("/").status, 200, "the connection goes on");
        let mut conn = proxy.connect();
        conn.send(get("/cancelled"));
        assert!(conn.response().head.line.contains("502"));
        drop((client, conn));
        proxy.finish(server);
    });
}

#[test]
fn a_client_that_leaves_is_told_of() {
    each_driver(|io| {
        let (told, hears) = mpsc::channel();
        let server = serving(move |mut served, _| {
            while let Some(id) = served.next_head() {
                told.send(None).unwrap();
                while served.so_far(id).reset.is_none() && served.more() {}
                told.send(served.so_far(id).reset).unwrap();
            }
        });
        let proxy = before(&server, "", "http-reuse always").threads(1).start(io);
        let mut conn = proxy.connect();
        conn.send(get("/"));
        assert_eq!(hears.recv().unwrap(), None);
        drop(conn);
        assert_eq!(hears.recv().unwrap(), Some(ErrorCode::Cancel));
        // In the middle of its body.
        let mut client = Client::new(proxy.connect());
        let id = client.open("POST", "/", &[], false);
        client.data(id, b"half", false);
        assert_eq!(hears.recv().unwrap(), None);
        client.reset(id, ErrorCode::Cancel);
        assert_eq!(hears.recv().unwrap(), Some(ErrorCode::Cancel));
        assert_eq!(server.accepted(), 1, "nobody else was disturbed");
        drop(client);
        proxy.finish(server);
    });
}

#[test]
fn a_server_that_says_nothing_gets_no_more_on_that_connection() {
    each_driver(|io| {
        let server = serving(|mut served, number| {
            while let Some((id, _)) = served.next_request() {
                // The first connection falls silent after one answer.
                if number > 0 || id == 1 {
                    served.answer(id, &number.to_string());
                }
            }
        });
        let proxy = before(&server, "", "http-reuse always\ntimeout server 1500").threads(1).start(io);
        let ask = || proxy.ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(ask().text(), "0");
        assert!(ask().head.line.contains("504"));
        assert_eq!(ask().text(), "1");
        proxy.finish(server);
    });
}

#[test]
fn sessions_keep_a_connection_for_themselves_where_none_are_shared() {
    each_driver(|io| {
        let server = serving(|mut served, number| {
            while let Some((id, _)) = served.next_request() {
                served.answer(id, &number.to_string());
            }
        });
        let proxy = before(&server, "", "http-reuse never").threads(1).start(io);
        for number in ["0", "1"] {
            let mut client = Client::new(proxy.connect());
            for _ in 0..3 {
                assert_eq!(client.get("/").text(), number);
            }
        }
        let mut conn = proxy.connect();
        for _ in 0..3 {
            conn.send(get("/"));
            assert_eq!(conn.response().text(), "2");
        }
        drop(conn);
        proxy.finish(server);
    });
}

#[test]
fn large_bodies_both_ways_keep_to_their_windows() {
    each_driver(|io| {
        let server = serving(|mut served, _| {
            while let Some((id, asked)) = served.next_request() {
                served.head(id, 200, &[], false);
                let mut rest = &asked.body[..];
                while !rest.is_empty() {
                    let n = served.h2.room(id).min(rest.len());
                    if n == 0 && !served.more() {
                        return;
                    }
                    let (part, left) = rest.split_at(n);
                    if n > 0 {
                        served.data(id, part, left.is_empty());
                    }
                    rest = left;
                }
            }
        });
        let proxy = before(&server, "", "").start(io);
        let body: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
        let mut conn = proxy.connect();
        conn.send(format!("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n", body.len()));
        conn.send(&body);
        assert!(conn.response().body == body);
        let mut client = Client::new(proxy.connect());
        let id = client.open("PUT", "/", &[], false);
        client.data(id, &body, true);
        assert!(client.answer(id).body == body);
        drop((conn, client));
        proxy.finish(server);
    });
}

#[test]
fn upgrades_become_extended_connects() {
    each_driver(|io| {
        for takes in [true, false] {
            let settings = Settings { enable_connect_protocol: takes, ..Settings::default() };
            let server = limited(settings, |mut served, _| {
                while let Some(id) = served.next_head() {
                    let asked = served.so_far(id).clone();
                    assert_eq!(asked.field("upgrade"), "websocket");
                    served.head(id, 200, &[("x-line", &asked.line)], false);
                    while served.so_far(id).body.len() < 5 && served.more() {}
                    let said = served.so_far(id).body.clone();
                    served.data(id, &said, true);
                }
            });
            let proxy = before(&server, "", "").start(io);
            let mut conn = proxy.connect();
            conn.send(
                "GET /chat HTTP/1.1\r\nHost: h.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                 Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            );
            let head = conn.head();
            if !takes {
                assert!(head.line.contains("502"), "{}", head.line);
                continue;
            }
            assert!(head.line.starts_with("HTTP/1.1 101"), "{}", head.line);
            assert_eq!(head.field("sec-websocket-accept"), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
            assert_eq!(head.field("x-line"), "GET https://h.example/chat");
            conn.send("hello");
            assert_eq!(conn.rest_text(), "hello");
            drop(conn);
            proxy.finish(server);
        }
    });
}

#[test]
fn servers_choose_by_alpn() {
    let authority = Authority::new("authority");
    each_driver(|io| {
        let certificate = authority.issue("localhost");
        for (offered, taken, version) in [
            ("h2,http/1.1", "h2,http/1.1", "2"),
            ("h2,http/1.1", "http/1.1", "1"),
            ("http/1.1", "h2,http/1.1", "1"),
        ] {
            let proxy = Setup::http(&format!(
                "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nserver s <@own> ssl verify none alpn {offered}\n\
                 frontend own\nbind <@own> ssl crt {} alpn {taken}\n\
                 http-request return status 200 content-type text/plain lf-string %[fc_http_major]\n",
                certificate
            ))
            .start(io);
            assert_eq!(proxy.ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n").text(), version, "{offered} {taken}");
        }
    });
}

/// A number of the server's line of `show stat`.
/// What one thread does not use another one does, whatever is spoken on it: all requests go over one connection.
#[test]
fn idle_connections_go_where_they_are_needed() {
    let authority = Authority::new("authority");
    let certificate = authority.issue("localhost");
    each_driver(|io| {
        for (server, listener, version) in [
            ("proto h2", "proto h2", "2"),
            ("ssl verify none alpn h2", &*format!("ssl crt {certificate}"), "2"),
            ("ssl verify none", &*format!("ssl crt {certificate}"), "1"),
            ("", "", "1"),
        ] {
            let proxy = Setup::http(&format!(
                "frontend fe\nbind <@one> thread 1\nbind <@two> thread 2\ndefault_backend be\n\
                 backend be\nhttp-reuse always\nserver s <@own> {server}\n\
                 frontend own\nbind <@own> {listener}\n\
                 http-request return status 200 content-type text/plain lf-string %[fc_http_major]\n"
            ))
            .global("stats socket <@dir>/cli level admin")
            .threads(2)
            .start(io);
            for port in ["one", "two", "one", "two"] {
                let mut conn = Conn::connect(proxy.addr(port));
                conn.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
                assert_eq!(conn.response().text(), version, "{server}");
                // Another thread sees it a moment after it was left.
                eventually("the connection is idle", || {
                    (stat(&proxy, "be", 4, "srv_icur") == "1").then_some(())
                });
            }
            assert_eq!(stat(&proxy, "be", 4, "connect"), "1", "{server}");
            drop(proxy);
        }
    });
}

/// `idle-ping`: a server that does not answer loses its connection, and the next request goes over another one.
#[test]
fn idle_servers_are_asked_whether_they_are_there() {
    each_driver(|io| {
        let (told, tell) = mpsc::channel();
        let server = Server::start(move |conn, number| {
            let mut served = Served::new(conn, Settings::default());
            let Some((id, _)) = served.next_request() else { return };
            served.answer(id, &number.to_string());
            let frames = std::iter::from_fn(|| next_frame(&mut served.conn));
            told.send(frames.map(|(header, _)| header.kind).collect::<Vec<_>>()).unwrap();
        });
        let proxy = before(&server, "idle-ping 200ms", "").start(io);
        for number in ["0", "1"] {
            let mut conn = proxy.connect();
            conn.send(get("/"));
            assert_eq!(conn.response().text(), number);
            assert_eq!(tell.recv().unwrap(), [frame::Kind::Ping, frame::Kind::Goaway]);
        }
        proxy.finish(server);
    });
}

/// Frames, streams and connections to servers are counted for their backend, as those of clients are for their frontend.
#[test]
fn backends_count_what_servers_say() {
    each_driver(|io| {
        let server = serving(|mut served, _| {
            while let Some((id, asked)) = served.next_request() {
                match asked.line.rsplit('/').next() {
                    Some("reset") => served.reset(id, ErrorCode::InternalError),
                    Some("leave") => return,
                    _ => served.answer(id, "answered"),
                }
            }
        });
        let proxy = before(&server, "", "http-reuse always")
            .global("stats socket <@dir>/cli level admin")
            .threads(1)
            .start(io);
        for (path, status) in [("/", 200), ("/", 200), ("/reset", 502)] {
            assert_eq!(proxy.ask(&get(path)).status, status);
        }
        let told = |column: &str| stat(&proxy, "be", 2, column);
        let columns = ["h2_headers_rcvd", "h2_data_rcvd", "h2_rst_stream_rcvd", "h2_backend_total_streams"];
        assert_eq!(columns.map(told), ["2", "2", "1", "3"]);
        let columns = ["h2_total_connections", "h2_open_connections", "h2_backend_open_streams"];
        assert_eq!(columns.map(told), ["1", "1", "0"]);
        assert_eq!(proxy.ask(&get("/leave")).status, 502);
        eventually("the connection is gone", || (told("h2_open_connections") == "0").then_some(()));
        proxy.finish(server);
    });
}

/// What fetches tell of the streams on both sides, and of who gave them up for what.
#[test]
fn fetches_tell_of_streams() {
    each_driver(|io| {
        let (told, hears) = mpsc::channel();
        let settings = Settings { max_concurrent_streams: Some(77), ..Settings::default() };
        let server = limited(settings, move |mut served, _| {
            while let Some((id, asked)) = served.next_request() {
                match asked.line.as_str() {
                    "GET http://h.example/mute" => told.send(()).unwrap(),
                    "GET http://h.example/reset" => served.reset(id, ErrorCode::EnhanceYourCalm),
                    _ => served.answer(id, "small"),
                }
            }
        });
        let format = "log-format \"fs=%[fs.id],%[fs.aborted],%[fs.rst_code] bs=%[bs.id],%[bs.aborted],%[bs.rst_code] \
                      limits=%[fc_settings_streams_limit],%[bc_settings_streams_limit]\"";
        let rule =
            "http-reuse always\nhttp-after-response set-header x-now %[fs.id],%[bs.id],%[bc_nb_streams]";
        let text = format!(
            "frontend fe\nbind <@fe>\n{format}\ndefault_backend be\nbackend be\nretries 0\n{rule}\nserver s {} proto h2\n",
            server.addr
        );
        let proxy = Setup::http(&text).threads(1).start(io);
        let mut client = Client::new(proxy.connect());
        assert_eq!(client.get("/").field("x-now"), "1,1,1");
        assert_eq!(proxy.log(), "fs=1,0,- bs=1,0,- limits=100,77");
        assert_eq!(client.get("/reset").status, 502);
        assert_eq!(proxy.log(), "fs=3,0,- bs=3,1,11 limits=100,77");
        let id = client.open("GET", "/mute", &[], true);
        hears.recv().unwrap();
        client.reset(id, ErrorCode::Cancel);
        assert_eq!(proxy.log(), "fs=5,1,8 bs=5,0,- limits=100,77");
        drop(client);
        // Connections that carry one at a time have none.
        let mut conn = proxy.connect();
        conn.send(get("/"));
        assert_eq!(conn.response().field("x-now"), "0,7,1");
        assert_eq!(proxy.log(), "fs=0,0,- bs=7,0,- limits=1,77");
        drop(conn);
        proxy.finish(server);
    });
}
