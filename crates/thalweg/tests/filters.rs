//! Filters on real sockets: what passes is whole, and not faster than allowed.

mod support;

use std::time::{Duration, Instant};

use support::{Proxy, Server, Setup, each_driver, ok};

/// A body whose every byte says where it is.
fn body(len: usize) -> String {
    (0..len).map(|n| char::from(b'a' + (n / 7 % 26) as u8)).collect()
}

fn setup(frontend: &str, backend: &str, server: &Server) -> Setup {
    let addr = server.addr;
    Setup::http(&format!(
        "frontend fe\nbind <@fe>\n{frontend}\ndefault_backend be\nbackend be\n{backend}\nserver s {addr}\n"
    ))
}

/// The time that an exchange takes.
fn timed<T>(exchange: impl FnOnce() -> T) -> (Duration, T) {
    let began = Instant::now();
    let result = exchange();
    (began.elapsed(), result)
}

fn get(proxy: &Proxy, path: &str) -> (Duration, String) {
    timed(|| proxy.ask(&format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n")).text())
}

#[test]
fn responses_are_slowed_down_once_a_rule_says_so() {
    each_driver(|io| {
        let server = Server::http(|_| ok(&body(50_000)));
        let limit = "filter bwlim-out slow default-limit 20k default-period 500ms min-size 1k";
        let rules = "http-request set-bandwidth-limit slow if { path /slow }\n\
                     http-request set-bandwidth-limit slow limit int(1000000) if { path /fast }\n\
                     http-request set-bandwidth-limit slow limit 10k if { path /slower }\n\
                     http-response set-bandwidth-limit slow if { res.hdr(content-length) -m found } { path /late }";
        let rules = rules.replace("path /late", "var(txn.p) -m str /late");
        let proxy =
            setup("http-request set-var(txn.p) path", &format!("{limit}\n{rules}"), &server).start(io);
        for (path, least) in [("/", 0), ("/fast", 0), ("/slow", 700), ("/late", 700), ("/slower", 1900)] {
            let (took, text) = get(&proxy, path);
            assert!(text == body(50_000), "{path}: {} bytes", text.len());
            assert!(took >= Duration::from_millis(least), "{path}: {took:?}");
        }
    });
}

#[test]
fn what_a_service_says_passes_filters_and_what_rules_say_does_not() {
    each_driver(|io| {
        let addr = support::nobody();
        let servers: String = (0..30).map(|n| format!("server s{n} {addr}\n")).collect();
        let proxy = Setup::http(&format!(
            "listen fe\nbind <@fe>\nfilter bwlim-out slow default-limit 60k default-period 500ms\n\
             http-request set-bandwidth-limit slow\n\
             http-request return status 200 content-type text/plain lf-string \"{}\" if {{ path /own }}\n\
             http-request use-service prometheus-exporter\n{servers}",
            body(14_000)
        ))
        .start(io);
        let mut conn = proxy.connect();
        conn.send("GET /?scope=server HTTP/1.1\r\nHost: h\r\n\r\n");
        let (took, text) = timed(|| conn.response().text());
        let complete = text.matches("server=\"s29\"").count();
        assert!(complete > 20 && text.len() > 130_000, "{complete} in {} bytes", text.len());
        assert!(took >= Duration::from_millis(700), "{took:?}");
        conn.send("GET /own HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(conn.response().text(), body(14_000));
    });
}

#[test]
fn requests_are_slowed_down_and_chunks_keep_their_trailers() {
    each_driver(|io| {
        let server = Server::http(|request| {
            let same = request.body == body(40_000).as_bytes();
            ok(&format!("{same} {}", request.trailers.trim()))
        });
        let lines = "filter bwlim-in slow default-limit 10k default-period 200ms\nhttp-request set-bandwidth-limit slow";
        let proxy = setup(lines, "", &server).start(io);
        let mut conn = proxy.connect();
        for kept in 0..2 {
            let (took, text) = timed(|| {
                conn.send(format!(
                    "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 40000\r\n\r\n{}",
                    body(40_000)
                ));
                conn.response().text()
            });
            assert_eq!(text.trim(), "true", "{kept}");
            // The first 10 kB at once, then as many every 200 ms.
            assert!(took >= Duration::from_millis(550), "{took:?}");
        }
        let chunks: String = body(40_000)
            .as_bytes()
            .chunks(3000)
            .map(|chunk| format!("{:x}\r\n{}\r\n", chunk.len(), String::from_utf8_lossy(chunk)))
            .collect();
        conn.send(format!(
            "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}0\r\nx-sum: 5\r\n\r\n"
        ));
        assert_eq!(conn.response().text(), "true x-sum: 5");
    });
}

#[test]
fn a_server_is_not_blamed_for_what_is_held_back() {
    each_driver(|io| {
        let server = Server::http(|_| ok(&body(30_000)));
        let lines = "filter bwlim-out slow default-limit 10k default-period 400ms\nhttp-request set-bandwidth-limit slow";
        let proxy =
            setup(lines, "", &server).defaults("timeout server 150ms\ntimeout client 150ms").start(io);
        let (_, text) = get(&proxy, "/");
        assert_eq!(text.len(), 30_000);
        assert!(proxy.http_log().contains(" ---- "), "{}", proxy.output());
    });
}

#[test]
fn a_filter_may_let_random_pieces_pass() {
    each_driver(|io| {
        let server = Server::http(|request| match request.head.line.contains("chunked") {
            true => format!(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{}\r\n0\r\nx-t: 1\r\n\r\n",
                request.body.len(),
                String::from_utf8_lossy(&request.body)
            ),
            false => ok(&String::from_utf8_lossy(&request.body)),
        });
        let lines =
            "filter trace random-forwarding quiet\nfilter trace name two random-forwarding max-fwd 700 quiet";
        let proxy = setup(lines, "filter trace quiet random-forwarding", &server).start(io);
        let mut conn = proxy.connect();
        for (n, len) in [1, 0, 1000, 16_384, 100_000, 300_000].into_iter().enumerate() {
            let path = if n % 2 == 0 { "/chunked" } else { "/sized" };
            conn.send(format!(
                "POST {path} HTTP/1.1\r\nHost: h\r\nContent-Length: {len}\r\n\r\n{}",
                body(len)
            ));
            let response = conn.response();
            assert!(response.text() == body(len), "{path} {len}: {}", response.body.len());
            assert_eq!(response.trailers.trim(), if n % 2 == 0 { "x-t: 1" } else { "" });
        }
        conn.send("HEAD /chunked HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(conn.response_to("HEAD").status, 200);
        conn.send("GET /sized HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(conn.response().status, 200);
    });
}

#[test]
fn tunnels_and_tcp_streams_are_filtered_too() {
    each_driver(|io| {
        let echo = Server::start(|mut conn, _| {
            while let Some(bytes) = conn.try_exactly(1) {
                conn.send(bytes);
            }
        });
        let text = format!(
            "listen li\nbind <@fe>\nfilter trace random-forwarding quiet\n\
             filter bwlim-out slow default-limit 2k default-period 300ms\n\
             tcp-request content set-bandwidth-limit slow\nserver s {}\n",
            echo.addr
        );
        let proxy = Setup::tcp(&text).start(io);
        let mut conn = proxy.connect();
        conn.send(body(6000));
        let (took, echoed) = timed(|| conn.exactly(6000));
        assert!(echoed == body(6000).as_bytes());
        assert!(took >= Duration::from_millis(500), "{took:?}");
        conn.half_close();
        assert!(conn.rest().is_empty());

        let upgrades = Server::start(|mut conn, _| {
            conn.head();
            conn.send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n");
            while let Some(bytes) = conn.try_exactly(1) {
                conn.send(bytes);
            }
        });
        let proxy = setup("filter trace random-forwarding quiet", "", &upgrades).start(io);
        let mut conn = proxy.connect();
        conn.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n");
        assert_eq!(conn.head().line, "HTTP/1.1 101 Switching Protocols");
        conn.send(body(5000));
        assert!(conn.exactly(5000) == body(5000).as_bytes());
        conn.half_close();
        assert!(conn.rest().is_empty());
    });
}

#[test]
fn trace_tells_what_passes() {
    each_driver(|io| {
        let server = Server::http(|_| ok("hello"));
        let proxy = setup("filter trace name T hexdump", "", &server).start(io);
        assert_eq!(get(&proxy, "/").1, "hello");
        let told = support::eventually("the end of the trace", || {
            let output = proxy.output();
            output.contains("trace_http_end           : channel=RESPONSE").then_some(output)
        });
        for line in [
            "[T/fe                ] trace_http_end           : channel=REQUEST    - mode=HTTP",
            "trace_http_payload       : channel=RESPONSE   - mode=HTTP - offset=0 - len=5 - forward=5",
            "000000: 68 65 6c 6c 6f                                   |hello|",
        ] {
            assert!(told.contains(line), "{line} in {told}");
        }
    });
}

/// What a sequence leaves out does not run, in its direction and its proxy only.
#[test]
fn a_sequence_says_which_filters_run() {
    each_driver(|io| {
        let server = Server::http(|_| ok(&body(30_000)));
        let frontend = "filter trace name A\nfilter trace name B\nfilter-sequence response trace";
        // It would let the answer pass in five minutes.
        let slow = "filter bwlim-out slow default-limit 1k default-period 10s\nhttp-request set-bandwidth-limit slow";
        let backend = format!(
            "filter-sequence response trace\nfilter trace name C\nfilter trace name D\n{slow}\nfilter-sequence request trace"
        );
        let proxy = setup(frontend, &backend, &server).start(io);
        assert_eq!(get(&proxy, "/").1, body(30_000));
        let end = |name: &str, proxy: &str, direction: &str| {
            format!("[{:<20}] trace_http_end           : channel={direction}", format!("{name}/{proxy}"))
        };
        let told = support::eventually("the end of the trace", || {
            let output = proxy.output();
            output.contains(&end("C", "be", "RESPONSE")).then_some(output)
        });
        for (name, side, requests, responses) in [
            ("A", "fe", true, true),
            ("B", "fe", true, false),
            ("C", "be", true, true),
            ("D", "be", false, false),
        ] {
            assert_eq!(told.contains(&end(name, side, "REQUEST")), requests, "{name}: {told}");
            assert_eq!(told.contains(&end(name, side, "RESPONSE")), responses, "{name}: {told}");
        }
    });
}

/// Streams with the same key share one limit; others do not, and when they are over the entry is free again.
#[test]
fn streams_with_the_same_key_share_a_limit() {
    each_driver(|io| {
        let server = Server::http(|_| ok(&body(40_000)));
        let limit = "filter bwlim-out slow limit 20k key path table t min-size 1k\nhttp-request set-bandwidth-limit slow";
        let table = "stick-table type string len 20 size 10 expire 1h store bytes_out_rate(500ms)";
        let proxy = Setup::http(&format!(
            "frontend fe\nbind <@fe>\n{limit}\ndefault_backend be\nbackend be\nserver s {}\nbackend t\n{table}\n",
            server.addr
        ))
        .global("stats socket <@dir>/sock level admin")
        .start(io);
        // Alone: 20 kB at once, and as much in each half of a second.
        let (alone, text) = get(&proxy, "/a");
        assert!(text == body(40_000), "{} bytes", text.len());
        assert!(alone >= Duration::from_millis(350), "{alone:?}");
        // Three together have three times as much to wait for.
        let together = timed(|| {
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| assert!(get(&proxy, "/b").1 == body(40_000)));
                }
            });
        })
        .0;
        assert!(together >= Duration::from_millis(2000), "{together:?}");
        let cli = |command: &str| {
            let mut conn = support::Conn::connect_unix(&proxy.path("sock"));
            conn.send(format!("{command}\n"));
            conn.half_close();
            conn.rest_text()
        };
        support::eventually("the entries are free", || {
            let shown = cli("show table t");
            (shown.contains("used:2") && shown.matches("use=0").count() == 2).then_some(())
        });
    });
}
