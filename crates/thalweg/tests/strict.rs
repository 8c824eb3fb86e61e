//! `option http-strict`: what RFC 9110 and 9112 say must be refused gets 400 and a close, and never reaches a server.

mod support;

use support::{Request, Server, Setup, each_driver, ok};

/// Each breaks one rule; without the option each is forwarded.
const BAD: &[&str] = &[
    "GET /bad HTTP/1.1\r\nX: a\r\n\r\n",
    "GET /bad HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n",
    "GET /bad HTTP/1.1\r\nHost:\r\n\r\n",
    "GET /bad HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\n\r\n",
    "GET /bad HTTP/1.1\r\nHost: h\r\nX: a\x01b\r\n\r\n",
    "GET /bad%c0%af HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET /bad HTTP/2.0\r\nHost: h\r\n\r\n",
    "POST /bad HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "GET /bad HTTP/1.1\nHost: h\r\n\r\n",
    "GET /bad HTTP/1.1\r\nHost: h\n\r\n",
    "GET  /bad HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET http://u@h/bad HTTP/1.1\r\nHost: h\r\n\r\n",
];

/// And these are forwarded with it, too.
const GOOD: &[&str] = &[
    "GET /good HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET http://h:80/good HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET /good?a=%c3%a9|{} HTTP/1.1\r\nhost: [::1]:80\r\nx: caf\u{e9}\r\n\r\n",
    "POST /good HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3;a=\"b\"\r\nabc\r\n0\r\n\r\n",
    "POST /good HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc",
];

/// What a server should not have received is said by its answer.
fn echo() -> Server {
    Server::http(|request: &Request| ok(&request.head.line))
}

fn setup(server: &Server, defaults: &str, fe: &str, be: &str) -> Setup {
    Setup::http(&format!(
        "frontend fe\nbind <@fe>\n{fe}\ndefault_backend be\nbackend be\n{be}\nserver s {}\n",
        server.addr
    ))
    .defaults(defaults)
}

#[test]
fn bad_requests_get_400_and_a_close() {
    each_driver(|io| {
        for (defaults, fe) in [("", "option http-strict"), ("option http-strict", "")] {
            let server = echo();
            let proxy = setup(&server, defaults, fe, "").start(io);
            for request in BAD {
                let mut conn = proxy.connect();
                // What follows a refused request is never served.
                conn.send([request, GOOD[0]].concat());
                let text = conn.rest_text();
                assert!(text.starts_with("HTTP/1.1 400 "), "{request:?}: {text}");
                assert_eq!(text.matches("HTTP/1.1 ").count(), 1, "{request:?}: {text}");
                assert!(text.to_lowercase().contains("\r\nconnection: close\r\n"), "{request:?}: {text}");
            }
            let mut conn = proxy.connect();
            for request in GOOD {
                conn.send(request);
                let response = conn.response();
                assert!(response.text().contains("/good"), "{request:?}: {}", response.text());
            }
            drop(conn);
            proxy.finish(server);
        }
    });
}

#[test]
fn without_the_option_they_pass() {
    each_driver(|io| {
        let server = echo();
        let proxy = setup(&server, "option http-strict", "no option http-strict", "").start(io);
        for request in BAD {
            let mut conn = proxy.connect();
            conn.send(request);
            let response = conn.response();
            assert!(response.text().contains("bad"), "{request:?}: {}", response.text());
        }
        proxy.finish(server);
    });
}

/// The rules are for the body, too: a chunk extension that is none ends the request and both connections.
#[test]
fn bad_chunk_extensions_end_the_request() {
    each_driver(|io| {
        let server = echo();
        let proxy = setup(&server, "", "option http-strict", "").start(io);
        for chunk in ["3;\r\nabc\r\n", "3 \r\nabc\r\n", "3;a=\r\nabc\r\n", "3;a=\"\r\nabc\r\n"] {
            let mut conn = proxy.connect();
            conn.send(format!(
                "POST /bad HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}0\r\n\r\n"
            ));
            let text = conn.rest_text();
            assert!(text.starts_with("HTTP/1.1 400 "), "{chunk:?}: {text}");
        }
        // Nothing is tunnelled.
        let mut conn = proxy.connect();
        conn.send("CONNECT h:80 HTTP/1.1\r\nHost: h:80\r\n\r\n");
        assert!(conn.rest_text().starts_with("HTTP/1.1 400 "));
        drop(conn);
        proxy.finish(server);
    });
}

#[test]
fn bad_responses_get_502() {
    const RESPONSES: &[&str] = &[
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: a\r\n b\r\n\r\nok",
        "HTTP/1.1 200 OK\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: a\x1bb\r\n\r\nok",
        "HTTP/1.1 200 O\x02K\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ];
    each_driver(|io| {
        for (be, status) in [("option http-strict", "502"), ("", "200")] {
            let server = Server::http(|request: &Request| {
                let number: usize = request.head.line.split(['/', ' ']).nth(2).unwrap().parse().unwrap();
                RESPONSES[number].to_string()
            });
            let proxy = setup(&server, "", "", be).start(io);
            for (number, response) in RESPONSES.iter().enumerate() {
                let mut conn = proxy.connect();
                conn.send(format!("GET /{number} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"));
                let text = conn.rest_text();
                assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{response:?}: {text}");
            }
            proxy.finish(server);
        }
    });
}
