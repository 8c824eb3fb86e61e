//! Rules see the payload of their message, and large bodies end where their message ends.

use std::sync::{Mutex, mpsc};
use std::thread;

use super::endings::OK;
use super::response;
use super::support::{Server, Setup, each_driver};

/// Bodies as they may come, cut into pieces, each with its payload. What follows them belongs to another message.
const BODIES: [(&[&str], &str); 7] = [
    (&["Content-Length: 7\r\n\r\na=1&b=2"], "a=1&b=2"),
    (&["Content-Length: 7\r\n\r\na=1", "&b=2"], "a=1&b=2"),
    (&["Content-Length: 3\r\n\r\na=1&evil=1"], "a=1"),
    (&["Content-Length: 0\r\n\r\nevil=1"], ""),
    (&["Transfer-Encoding: chunked\r\n\r\n3\r\na=1\r\n4;x=y\r\n&b=2\r\n0\r\nT: u\r\n\r\nevil=1"], "a=1&b=2"),
    (&["Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n2\r\n=1\r\n4", "\r\n&b", "=2\r\n0\r\n\r\n"], "a=1&b=2"),
    (&["Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n3\r\na=1\r\n0\r\n\r\n"], ""),
];

/// Rules see the payload of this message: no framing, and nothing of what follows it, wherever they are evaluated.
#[test]
fn rules_see_the_payload_of_a_request() {
    each_driver(|io| {
        let (one, two) = (Server::named("one"), Server::named("two"));
        let proxy = Setup::http(&format!(
            "frontend fe
bind <@fe>
http-request wait-for-body time 10s
http-request deny deny_status 403 if {{ req.body -m sub evil }}
http-request return status 200 hdr x-body <%[req.body]> hdr x-len %[req.body_len] hdr x-size %[req.body_size] \
                          hdr x-a <%[req.body_param(a)]> if {{ path /return }}
http-request return status 200 content-type text/plain lf-string %[req.body,length] if {{ path /string }}
http-request redirect location /%[req.body_len] if {{ path /redirect }}
use_backend two if {{ req.body -m str a=1 }}
default_backend be
backend be
use-server two if {{ req.body_param(a) -m str 1 }}
server one {one}
server two {two} weight 0
backend two
server two {two}
",
            one = one.addr,
            two = two.addr
        ))
        .start(io);
        for (pieces, payload) in BODIES {
            let ask = |path: &str| {
                let mut conn = proxy.connect();
                let head = format!("POST {path} HTTP/1.1\r\nHost: h\r\n");
                let form = "Content-Type: application/x-www-form-urlencoded\r\n";
                conn.send(format!("{head}{form}{}", pieces[0]));
                for piece in &pieces[1..] {
                    thread::yield_now();
                    conn.send(piece);
                }
                conn.response()
            };
            let answer = ask("/return");
            let size = payload.len().to_string();
            let seen = ["x-body", "x-len", "x-size", "x-a"].map(|name| answer.field(name));
            let a = if payload.is_empty() { "" } else { "1" };
            assert_eq!(
                seen,
                [format!("<{payload}>"), size.clone(), size.clone(), format!("<{a}>")],
                "{pieces:?}"
            );
            assert_eq!(ask("/string").text(), size, "{pieces:?}");
            assert_eq!(ask("/redirect").field("location"), format!("/{size}"), "{pieces:?}");
            assert_eq!(ask("/").text(), if payload.is_empty() { "one" } else { "two" }, "{pieces:?}");
        }
        // Cut in two chunks it is the same word; behind the message it is another message.
        let denied = proxy.ask(
            "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nev\r\n2\r\nil\r\n0\r\n\r\n",
        );
        assert_eq!(denied.status, 403);
        let mut conn = proxy.connect();
        conn.send("GET / HTTP/1.1\r\nHost: h\r\n\r\nGET /evil HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!((conn.response().status, conn.response().status), (200, 200));
        drop(conn);
        proxy.finish((one, two));
    });
}

/// The same for responses, those that end with their connection too.
#[test]
fn rules_see_the_payload_of_a_response() {
    each_driver(|io| {
        let bodies = || BODIES.into_iter().chain([(&["X: y\r\n\r\na=1&", "b=2"][..], "a=1&b=2")]);
        let server = Server::start(move |mut conn, _| {
            let Some(head) = conn.next_head() else { return };
            let which: usize = head.line.split(['/', ' ']).nth(2).unwrap().parse().unwrap();
            let (pieces, _) = bodies().nth(which).unwrap();
            conn.send(format!("HTTP/1.1 200 OK\r\n{}", pieces[0]));
            for piece in &pieces[1..] {
                thread::yield_now();
                let _ = conn.try_send(piece);
            }
        });
        let proxy = Setup::http(&format!(
            "frontend fe
bind <@fe>
default_backend be
backend be
http-response wait-for-body time 10s
http-response deny if {{ res.body -m sub evil }}
http-response set-header x-body <%[res.body]>
http-response set-header x-len %[res.body_len]
http-response set-header x-size %[res.body_size]
server s {}
",
            server.addr
        ))
        .start(io);
        for (which, (pieces, payload)) in bodies().enumerate() {
            let answer = proxy.ask(&format!("GET /{which} HTTP/1.1\r\nHost: h\r\n\r\n"));
            let seen = ["x-body", "x-len", "x-size"].map(|name| answer.field(name));
            let size = payload.len().to_string();
            assert_eq!(seen, [format!("<{payload}>"), size.clone(), size], "{pieces:?}");
            assert_eq!(answer.text(), payload, "{pieces:?}");
        }
        proxy.finish(server);
    });
}

/// A body of 700 kB, framed in one of several ways.
fn large(framing: &str) -> (String, Vec<u8>, Vec<u8>) {
    let payload: Vec<u8> = (0..700_000u32).map(|n| (n % 251) as u8).collect();
    let sizes: &[usize] = match framing {
        "sized" => return (format!("Content-Length: {}\r\n", payload.len()), payload.clone(), payload),
        "one chunk" => &[700_000],
        _ => &[1, 300_000, 70_000, 65_536, 3, 65_535, 16_384, 150_000],
    };
    let mut body = Vec::new();
    let mut rest = &payload[..];
    for size in sizes.iter().cycle() {
        let (chunk, more) = rest.split_at((*size).min(rest.len()));
        body.extend(format!("{:x}\r\n", chunk.len()).bytes());
        body.extend(chunk);
        body.extend(b"\r\n");
        if chunk.is_empty() {
            break;
        }
        rest = more;
    }
    ("Transfer-Encoding: chunked\r\n".into(), body, payload)
}

const FRAMINGS: [&str; 3] = ["sized", "one chunk", "many chunks"];

const SPLICE: [&str; 2] = ["", "option splice-auto"];

/// Long stretches are moved by the kernel's means, and end where their message ends.
#[test]
fn large_bodies_both_ways() {
    each_driver(|io| {
        for (framing, splice) in FRAMINGS.into_iter().flat_map(|f| SPLICE.map(|s| (f, s))) {
            let server = Server::start(move |mut conn, _| {
                while let Some(request) = conn.next_request() {
                    let (field, body, payload) = large(framing);
                    assert!(request.body.is_empty() || request.body == payload, "{framing}");
                    conn.send(format!("HTTP/1.1 200 OK\r\n{field}\r\n"));
                    conn.send(body);
                }
            });
            let text = "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nserver s";
            let proxy = Setup::http(&format!("{text} {}\n", server.addr)).defaults(splice).start(io);
            let mut conn = proxy.connect();
            let (field, body, payload) = large(framing);
            for _ in 0..3 {
                let mut sender = conn.twin();
                thread::scope(|scope| {
                    scope.spawn(|| {
                        sender.send(format!("POST / HTTP/1.1\r\nHost: h\r\n{field}\r\n"));
                        sender.send(&body);
                        sender.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
                    });
                    for _ in 0..2 {
                        assert!(conn.response().body == payload, "{framing} {splice}");
                    }
                });
            }
            drop(conn);
            proxy.finish(server);
        }
    });
}

/// What was taken from the client and never reached the server, in a buffer or in a pipe, was part of the body all the
/// same.
#[test]
fn a_server_that_leaves_in_a_large_body() {
    each_driver(|io| {
        for (framing, splice) in FRAMINGS.into_iter().flat_map(|f| SPLICE.map(|s| (f, s))) {
            let (sender, seen) = mpsc::channel();
            let sender = Mutex::new(sender);
            let server = Server::start(move |mut conn, _| {
                while let Some(head) = conn.next_head() {
                    sender.lock().unwrap().send(head.line.clone()).unwrap();
                    if head.line.starts_with("POST") {
                        // Its buffers fill before it leaves.
                        let _ = conn.try_exactly(100_000);
                        return;
                    }
                    let _ = conn.try_send(OK);
                }
            });
            let text = "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nretries 0\nserver s";
            let proxy = Setup::http(&format!("{text} {}\n", server.addr)).defaults(splice).start(io);
            let (field, body, _) = large(framing);
            for _ in 0..10 {
                let mut conn = proxy.connect();
                let mut other = conn.twin();
                let kept = thread::scope(|scope| {
                    scope.spawn(|| {
                        let _ = other.try_send(format!("POST /first HTTP/1.1\r\nHost: h\r\n{field}\r\n"));
                        let _ = other.try_send(&body);
                        let _ = other.try_send("GET /second HTTP/1.1\r\nHost: h\r\n\r\n");
                    });
                    let first = response(&mut conn, "POST");
                    assert!(first.is_none_or(|(status, _)| status == 502), "{framing} {splice}");
                    response(&mut conn, "GET").inspect(|(status, head)| assert_eq!(*status, 200, "{head}"))
                });
                assert_eq!(seen.recv().unwrap(), "POST /first HTTP/1.1");
                if kept.is_some() {
                    assert_eq!(seen.recv().unwrap(), "GET /second HTTP/1.1");
                }
            }
            assert!(seen.try_recv().is_err(), "{framing} {splice}: the server saw more than was sent");
            proxy.finish(server);
        }
    });
}
