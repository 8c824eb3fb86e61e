//! TCP end to end: half-closed connections, timeouts, retries, addresses of all kinds, the PROXY protocol, large
//! transfers.

mod support;

use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Duration;

use support::{Conn, Proxy, Server, Setup, Silent, each_driver, eventually, nobody};

fn setup(server: impl std::fmt::Display) -> Setup {
    Setup::tcp(&format!(
        "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nretries 0\nserver s {server}\n"
    ))
}

fn echo() -> Server {
    Server::start(|mut conn, _| {
        let said = conn.rest();
        let _ = conn.try_send(said);
    })
}

#[test]
fn either_side_may_stop_first() {
    each_driver(|io| {
        let server = Server::start(|mut conn, number| {
            if number % 2 == 0 {
                // The client stops first, and the server goes on.
                assert_eq!(conn.rest(), b"question");
                conn.send("answer");
            } else {
                conn.send("banner");
                conn.half_close();
                assert_eq!(conn.rest(), b"question");
            }
        });
        let proxy = setup(server.addr).start(io);
        let mut conn = proxy.connect();
        conn.send("question");
        conn.half_close();
        assert_eq!(conn.rest(), b"answer");
        let mut conn = proxy.connect();
        assert_eq!(conn.rest(), b"banner");
        conn.send("question");
        drop(conn);
        assert_eq!(proxy.tcp_log(), "be/s n/n/n -- 0");
        assert_eq!(proxy.tcp_log(), "be/s n/n/n -- 0");
        proxy.finish(server);
    });
}

/// `use_backend`, `force-be-switch` and `use-server` look at what the client sent, and the log knows both ends of the
/// connection to the server.
#[test]
fn what_the_client_says_chooses_backend_and_server() {
    each_driver(|io| {
        let says = |name: &'static str| {
            Server::start(move |mut conn, _| {
                conn.exactly(1);
                conn.send(name);
            })
        };
        let (one, two, other) = (says("one"), says("two"), says("other"));
        let first = |letters: &str| format!("{{ req.payload(0,1) -m str {letters} }}");
        let proxy = Setup::tcp(&format!(
            "frontend fe\nbind <@fe>\nlog-format \"%b/%s %bi %[bc_dst]:%[bc_dst_port]\"\n\
             tcp-request inspect-delay 20s\ntcp-request content accept if {{ req.len gt 0 }}\n\
             force-be-switch if {}\nuse_backend hidden if {}\ndefault_backend be\n\
             backend hidden\nbe-unpublished\nserver other {}\n\
             backend be\nuse-server two if {}\nuse-server one unless {}\nserver one {}\nserver two {}\n",
            first("c"),
            first("c d"),
            other.addr,
            first("b"),
            first("b"),
            one.addr,
            two.addr,
        ))
        .start(io);
        for (said, answer, server) in [
            ("b", "two", format!("be/two 127.0.0.1 {}", two.addr)),
            ("a", "one", format!("be/one 127.0.0.1 {}", one.addr)),
            ("b", "two", format!("be/two 127.0.0.1 {}", two.addr)),
            ("c", "other", format!("hidden/other 127.0.0.1 {}", other.addr)),
            ("d", "one", format!("be/one 127.0.0.1 {}", one.addr)),
        ] {
            let mut conn = proxy.connect();
            conn.send(said);
            assert_eq!(conn.rest_text(), answer, "{said}");
            drop(conn);
            assert_eq!(proxy.log(), server);
        }
        proxy.finish((one, two, other));
    });
}

#[test]
fn timeouts_after_a_half_close_and_in_a_tunnel() {
    each_driver(|io| {
        for (what, defaults, client_stops, server_stops) in [
            ("server-fin", "timeout server-fin 50ms", true, false),
            ("client-fin", "timeout client-fin 50ms", false, true),
            ("tunnel", "timeout tunnel 50ms", false, false),
        ] {
            // Keeps its own direction open until the test is over.
            let (keep, kept) = mpsc::channel::<()>();
            let kept = Mutex::new(kept);
            let server = Server::start(move |mut conn, _| {
                if server_stops {
                    conn.half_close();
                }
                conn.ended();
                if client_stops {
                    let _ = kept.lock().unwrap().recv();
                }
            });
            let proxy = setup(server.addr).defaults(defaults).start(io);
            let mut conn = proxy.connect();
            conn.send("x");
            if client_stops {
                conn.half_close();
            }
            conn.ended();
            let state = if what == "server-fin" { "sD" } else { "cD" };
            assert_eq!(proxy.tcp_log(), format!("be/s n/n/n {state} 0"), "{what}");
            drop((conn, keep));
            proxy.finish(server);
        }
    });
}

#[test]
fn retries_and_another_server() {
    each_driver(|io| {
        let server = echo();
        let text = format!(
            "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nbalance first\nretries 2\noption redispatch\n\
             timeout connect 200ms\nserver gone {}\nserver s {}\n",
            nobody(),
            server.addr
        );
        let proxy = Setup::tcp(&text).start(io);
        let mut conn = proxy.connect();
        conn.send("x");
        conn.half_close();
        assert_eq!(conn.rest(), b"x");
        let line = proxy.tcp_log();
        assert!(line.starts_with("be/s n/n/n -- +"), "{line}");
        drop(conn);
        proxy.finish(server);
    });
}

#[test]
fn a_source_address() {
    each_driver(|io| {
        let server = Server::start(|mut conn, _| {
            let peer = conn.peer().ip().to_string();
            conn.send(peer);
        });
        let proxy = setup(format!("{} source 127.200.1.2", server.addr)).start(io);
        assert_eq!(proxy.connect().rest_text(), "127.200.1.2");
        proxy.finish(server);
    });
}

#[test]
fn unix_and_abstract_sockets() {
    each_driver(|io| {
        let directory = support::Directory::new();
        let path = directory.0.join("server");
        let server = Server::unix(path.clone(), |mut conn, _| {
            let said = conn.rest();
            conn.send(said);
        });
        let name = format!("thalweg-{}-{io}", std::process::id());
        let text = format!(
            "listen a\nbind unix@{0}\nserver s abns@{name}\nlisten b\nbind abns@{name}\nserver s unix@{1}\n",
            "<@dir>/front",
            path.display()
        );
        let proxy = Setup::tcp(&text).start(io);
        let front = proxy.path("front");
        let mut conn = eventually("the socket answers", || {
            std::os::unix::net::UnixStream::connect(&front).ok().map(Conn::unix)
        });
        conn.send("through two sockets");
        conn.half_close();
        assert_eq!(conn.rest(), b"through two sockets");
        drop(proxy);
        drop(server);
    });
}

#[test]
fn proxy_protocol() {
    each_driver(|io| {
        let server = echo();
        for version in ["send-proxy", "send-proxy-v2"] {
            let text = format!(
                "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nserver s <@two> {version}\n\
                 frontend two\nbind <@two> accept-proxy\nlog-format \"%ci:%cp %fi:%fp\"\ndefault_backend last\n\
                 backend last\nserver s {}\n",
                server.addr
            );
            let proxy = Setup::tcp(&text).start(io);
            let mut conn = proxy.connect();
            let expected = format!("{} {}", conn.local(), conn.peer());
            conn.send("x");
            conn.half_close();
            assert_eq!(conn.rest(), b"x");
            let lines = [proxy.log(), proxy.log()];
            assert!(lines.contains(&expected), "{lines:?} {expected}");
            drop(conn);
            // Without its header nobody gets in.
            let mut conn = Conn::connect(proxy.addr("two"));
            conn.send("GET / HTTP/1.1\r\n\r\n");
            assert_eq!(conn.ended(), b"");
            drop(conn);
            proxy.finish(());
        }
        // On the wire.
        let server = Server::start(|mut conn, _| {
            let line = conn.until(b"\r\n");
            conn.send(line);
        });
        let proxy = setup(format!("{} send-proxy", server.addr)).start(io);
        let mut conn = proxy.connect();
        let (from, to) = (conn.local(), conn.peer());
        let expected = format!("PROXY TCP4 {} {} {} {}\r\n", from.ip(), to.ip(), from.port(), to.port());
        assert_eq!(conn.rest_text(), expected);
        drop(conn);
        proxy.finish(server);
    });
}

/// Bytes that repeat with no power of two.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

#[test]
fn large_transfers() {
    const LEN: usize = 8 << 20;
    each_driver(|io| {
        for options in ["", "option splice-auto", "option splice-request\noption splice-response"] {
            let server = Server::start(|mut conn, _| {
                let mut sender = conn.twin();
                let sending = thread::spawn(move || {
                    sender.send(pattern(LEN));
                    sender.half_close();
                });
                assert!(conn.rest() == pattern(LEN), "what the server received");
                sending.join().unwrap();
            });
            let proxy = setup(server.addr).defaults(options).start(io);
            let mut conn = proxy.connect();
            let mut sender = conn.twin();
            let sending = thread::spawn(move || {
                sender.send(pattern(LEN));
                sender.half_close();
            });
            assert!(conn.rest() == pattern(LEN), "what the client received, with {options:?}");
            sending.join().unwrap();
            assert_eq!(proxy.tcp_log(), "be/s n/n/n -- 0");
            drop(conn);
            proxy.finish(server);
        }
    });
}

/// What is on its way to the client when a server that has ended is sent more is not lost, whoever has it.
#[test]
fn what_a_server_said_before_it_takes_no_more_arrives() {
    // More than the kernel holds for a client that does not read.
    const LEN: usize = 300_000;
    each_driver(|io| {
        for options in ["", "option splice-auto"] {
            let directory = support::Directory::new();
            let path = directory.0.join("server");
            let (ended, end) = mpsc::channel();
            let ended = Mutex::new(ended);
            let server = Server::unix(path.clone(), move |mut conn, _| {
                conn.send(pattern(LEN));
                drop(conn);
                ended.lock().unwrap().send(()).unwrap();
            });
            let text = format!("listen be\nbind unix@<@dir>/front\nserver s unix@{}\n", path.display());
            let proxy = Setup::tcp(&text).defaults(options).start(io);
            let front = proxy.path("front");
            let mut conn = eventually("the socket answers", || {
                std::os::unix::net::UnixStream::connect(&front).ok().map(Conn::unix)
            });
            end.recv().unwrap();
            conn.send("more");
            // Time to find that out, which it need not take.
            thread::sleep(Duration::from_millis(100));
            assert!(conn.rest() == pattern(LEN), "over {io} with {options:?}");
            assert_eq!(proxy.tcp_log(), "be/s n/n/n SD 0", "over {io} with {options:?}");
            proxy.finish(server);
        }
    });
}

#[test]
fn a_slow_connection_is_given_up() {
    each_driver(|io| {
        let silent = Silent::start();
        let proxy: Proxy = setup(silent.addr).defaults("timeout connect 50ms").start(io);
        let mut conn = proxy.connect();
        conn.ended();
        assert_eq!(proxy.tcp_log(), "be/s n/-1/n sC 0");
        drop(conn);
        proxy.finish(silent);
    });
}

/// Rules on the bytes of a client see the head of a request, if that is what they are: they wait for the rest of one, and for
/// nothing when it is none. They are bytes to rules all the same, and go to the server as they are.
#[test]
fn rules_on_bytes_see_a_request() {
    each_driver(|io| {
        let named = |name: &'static str| {
            Server::start(move |mut conn, _| {
                let said = conn.until(b"\n");
                conn.send(format!("{name}: {}", String::from_utf8_lossy(&said).trim_end()));
            })
        };
        let (one, two) = (named("one"), named("two"));
        let text = format!(
            "frontend fe\nbind <@fe>\ntcp-request inspect-delay 1h\ntcp-request content reject if {{ path /no }}\n\
             tcp-request content reject if {{ req.payload(0,8) -m str \"GET /bad\" }}\n\
             use_backend two if {{ req.hdr(host) -i two }}\ndefault_backend one\n\
             backend one\nserver s {}\nbackend two\nserver s {}\n",
            one.addr, two.addr
        );
        let proxy = Setup::tcp(&text).start(io);
        for (said, answer) in [
            ("GET /yes HTTP/1.1\r\nHost: one\r\n\r\n", "one: GET /yes HTTP/1.1"),
            ("GET /yes HTTP/1.1\r\nHost: TWO\r\n\r\n", "two: GET /yes HTTP/1.1"),
            ("GET /no HTTP/1.1\r\nHost: one\r\n\r\n", ""),
            ("GET /bad HTTP/1.1\r\nHost: one\r\n\r\n", ""),
            ("\u{1}no request\n", "one: \u{1}no request"),
        ] {
            let mut conn = proxy.connect();
            // In pieces: the first does not tell.
            let (first, rest) = said.split_at(1);
            conn.send(first);
            conn.send(rest);
            let got = conn.rest_text();
            assert_eq!(got, answer, "{said:?}");
        }
        proxy.finish((one, two));
    });
}

/// A TCP frontend's rules of HTTP are for connections that go on as HTTP, without a warning; the reference does the same.
#[test]
fn connections_that_go_on_as_http_meet_the_rules_of_their_frontend() {
    each_driver(|io| {
        for switch in ["", "tcp-request content switch-mode http if HTTP\n"] {
            let text = format!(
                "frontend fe\nmode tcp\nbind <@fe>\ntcp-request inspect-delay 5s\n{switch}\
                 http-request deny if {{ path /secret }}\nhttp-request set-header x-frontend yes\n\
                 redirect location /there if {{ path /here }}\nhttp-after-response set-header x-after yes\n\
                 default_backend be\n\
                 backend be\nmode http\nhttp-request return status 200 hdr x-seen %[req.hdr(x-frontend)]\n"
            );
            let proxy = Setup::tcp(&text).start(io);
            assert!(!proxy.output().contains("rules ignored"), "{}", proxy.output());
            let ask = |path: &str| {
                proxy.ask(&format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"))
            };
            let answer = ask("/");
            assert_eq!(
                (answer.status, answer.field("x-seen").as_str(), answer.field("x-after").as_str()),
                (200, "yes", "yes")
            );
            assert_eq!(ask("/secret").status, 403);
            let moved = ask("/here");
            assert_eq!((moved.status, moved.field("location").as_str()), (302, "/there"));
            proxy.finish(());
        }
    });
}

/// A TCP stream that becomes one of HTTP goes on with the first request: what its rules set, kept and tracked is there, and they
/// are evaluated again for the next one only. The reference does the same.
#[test]
fn the_first_request_goes_on_behind_the_rules_of_its_connection() {
    each_driver(|io| {
        // The second one becomes HTTP before anything is received.
        for condition in [" if HTTP", ""] {
            let text = format!(
                "frontend fe\nmode tcp\nbind <@fe>\nstick-table type ip size 10 expire 1m store conn_cnt,http_req_cnt\n\
                 tcp-request inspect-delay 20s\n\
                 tcp-request content set-var(txn.as) internal.strm.is_htx,iif(http,tcp)\n\
                 tcp-request content set-var(sess.times) var(sess.times),add(1) if {{ var(sess.times) -m found }}\n\
                 tcp-request content set-var(sess.times) int(1) if !{{ var(sess.times) -m found }}\n\
                 tcp-request content track-sc0 src\ntcp-request content capture str(kept) len 10\n\
                 tcp-request content switch-mode http{condition}\n\
                 http-request return status 200 hdr x-seen \"%[var(txn.as)] %[var(sess.times)] \
                 %[capture.req.hdr(0)] %[sc0_conn_cnt] %[sc0_http_req_cnt]\"\n"
            );
            let proxy = Setup::tcp(&text).start(io);
            let mut conn = proxy.connect();
            for (piece, waits) in [("GET / HT", true), ("TP/1.1\r\nHo", true), ("st: h\r\n\r\n", false)] {
                conn.send(piece);
                assert!(!waits || conn.is_silent(), "{piece:?}");
            }
            assert_eq!(conn.response().field("x-seen"), "tcp 1 kept 1 1", "{condition:?}");
            conn.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
            assert_eq!(conn.response().field("x-seen"), "http 2 kept 2 2", "{condition:?}");
            // One that ends in its head leaves nothing behind.
            let mut ending = proxy.connect();
            ending.send("GET / HT");
            ending.half_close();
            ending.ended();
            proxy.finish((conn, ending));
        }
    });
}

/// The backend of HTTP that the bytes of a TCP client have led to is that of its first request. They are bytes although they can be
/// read as a request. A listener of bytes alone (`proto none`) lets nothing become HTTP.
#[test]
fn a_backend_of_http_is_chosen_once() {
    each_driver(|io| {
        let text = "frontend fe\nmode tcp\nbind <@fe>\nbind <@bytes> proto none\ntcp-request inspect-delay 20s\n\
                    tcp-request content accept if { req.len 27 }\n\
                    use_backend bytes if { req.payload(0,4) -m str \"GET \" }\ndefault_backend requests\n\
                    backend bytes\nmode http\nhttp-request return status 201\n\
                    backend requests\nmode http\nhttp-request return status 202\n";
        let proxy = Setup::tcp(text).start(io);
        let mut conn = proxy.connect();
        for status in [201, 202] {
            conn.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
            assert_eq!(conn.response().status, status);
        }
        let mut refused = Conn::connect(proxy.addr("bytes"));
        refused.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(refused.rest(), b"");
        proxy.finish((conn, refused));
    });
}
