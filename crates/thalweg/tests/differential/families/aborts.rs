//! Someone leaves: the client or the server, at each step, in order, by half, or by a reset.

use crate::case::{Bytes, Case, Kind, http, tcp};
use crate::script::{Script, answers, get, ok, post, script};

/// How somebody leaves.
const WAYS: [&str; 3] = ["close", "half-close", "reset"];

fn leave(script: Script, way: &str) -> Script {
    match way {
        "close" => script.close(),
        "half-close" => script.half_close().look(300),
        _ => script.reset(),
    }
}

/// A server that reads a request and then does nothing until the connection ends.
fn mute() -> Script {
    script().message().tell("request").end()
}

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    cases.extend(clients());
    cases.extend(servers());
    cases.extend(tcp_sides());
    cases
}

fn clients() -> Vec<Case> {
    let mut cases = Vec::new();
    let part = "POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n12345";
    let chunks = "POST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n";
    // What the client sends before it waits for the server to have it, and leaves.
    let waiting: [(&str, String, bool); 5] = [
        ("after-get", get("/"), true),
        ("after-post", post("/", "hello"), true),
        ("in-sized-body", part.into(), false),
        ("in-chunked-body", chunks.into(), false),
        ("after-pipelined", format!("{}{}", get("/"), get("/2")), true),
    ];
    for way in WAYS {
        for (name, bytes) in
            [("nothing", ""), ("in-line", "GET / HT"), ("in-head", "GET / HTTP/1.1\r\nHost:")]
        {
            cases.push(
                http(format!("client-leaves/{name}/{way}"))
                    .client(leave(script().send(bytes).pause(60), way))
                    .plain_server(),
            );
        }
        for (name, bytes, complete) in &waiting {
            for option in ["abortonclose", "no-abortonclose"] {
                let line =
                    if option == "abortonclose" { "option abortonclose" } else { "no option abortonclose" };
                let server = if *complete { mute() } else { script().head().tell("request").end() };
                cases.push(
                    http(format!("client-leaves/{name}/{way}/{option}"))
                        .defaults("timeout server 500ms\ntimeout client 800ms")
                        .back(line)
                        .client(leave(script().send(bytes).hear("request").pause(60), way))
                        .server(server),
                );
            }
        }
        // While its response comes.
        let partly = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345";
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n";
        let endless = "HTTP/1.1 200 OK\r\n\r\n12345";
        for (name, response) in [("sized", partly), ("chunked", chunked), ("endless", endless)] {
            cases.push(
                http(format!("client-leaves/in-{name}-response/{way}"))
                    .defaults("timeout server 500ms\ntimeout client 800ms")
                    .client(leave(script().send(get("/")).until("12345").pause(60), way))
                    .server(script().message().send(response).end()),
            );
            cases.push(
                http(format!("client-leaves/in-{name}-response/{way}/server-goes-on"))
                    .defaults("timeout server 500ms\ntimeout client 800ms")
                    .client(leave(script().send(get("/")).until("12345").pause(60).tell("left"), way))
                    .server(script().message().send(response).hear("left").pause(100).send("abc").end()),
            );
            cases.push(
                http(format!("client-leaves/in-{name}-response/{way}/uploading"))
                    .defaults("timeout server 500ms\ntimeout client 800ms")
                    .client(leave(script().send(part).until("12345").pause(60), way))
                    .server(script().head().send(response).end()),
            );
        }
        // Between requests.
        cases.push(
            http(format!("client-leaves/idle/{way}"))
                .client(leave(script().send(get("/")).message().pause(60), way))
                .plain_server(),
        );
        // While it waits for a connection, or in a queue.
        cases.push(
            http(format!("client-leaves/connecting/{way}"))
                .defaults("timeout connect 400ms\nretries 1")
                .client(leave(script().send(get("/")).pause(150), way))
                .server_of("", Kind::Silent),
        );
        cases.push(
            http(format!("client-leaves/between-attempts/{way}"))
                .defaults("retries 2")
                .client(leave(script().send(get("/")).pause(300), way))
                .server_of("", Kind::Refuses),
        );
        cases.push(
            http(format!("client-leaves/queued/{way}"))
                .client(script().send(get("/first")).message())
                .client(leave(script().after("request").send(get("/queued")).pause(150).tell("left"), way))
                .server_with(
                    "maxconn 1",
                    script()
                        .message()
                        .tell("request")
                        .hear("left")
                        .pause(150)
                        .send(ok("first"))
                        .forever(script().message().send(ok("then"))),
                ),
        );
        // While rules wait for its body.
        cases.push(
            http(format!("client-leaves/body-waited-for/{way}"))
                .front("http-request wait-for-body time 500ms")
                .client(leave(script().send(part).pause(100), way))
                .plain_server(),
        );
        cases.push(
            http(format!("client-leaves/tarpit/{way}"))
                .defaults("timeout tarpit 400ms")
                .front("http-request tarpit")
                .client(leave(script().send(get("/")).pause(100), way))
                .plain_server(),
        );
        // While it is sent more than fits anywhere.
        let big = format!("HTTP/1.1 200 OK\r\nContent-Length: 20000000\r\n\r\n{}", "x".repeat(20_000_000));
        cases.push(
            http(format!("client-leaves/deaf/{way}"))
                .defaults("timeout client 600ms")
                .compare(Bytes::Start(60))
                .client(leave(script().deaf().send(get("/")).pause(200), way))
                .server(script().message().send(big).end()),
        );
    }
    cases
}

fn servers() -> Vec<Case> {
    let mut cases = Vec::new();
    // What the server reads and sends before it leaves.
    let part = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345";
    let points: [(&str, Script); 9] = [
        ("at-once", script()),
        ("unread", script().pause(80)),
        ("after-request", script().message()),
        ("in-status-line", script().message().send("HTTP/1.1 2")),
        ("in-head", script().message().send("HTTP/1.1 200 OK\r\nX:")),
        ("after-100", script().message().send("HTTP/1.1 100 Continue\r\n\r\n")),
        ("in-sized-body", script().message().send(part)),
        (
            "in-chunked-body",
            script().message().send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n"),
        ),
        ("in-endless-body", script().message().send("HTTP/1.1 200 OK\r\n\r\n12345")),
    ];
    let requests = [("get", get("/")), ("post", post("/", "hello"))];
    for (name, point) in &points {
        for way in WAYS {
            for (request, bytes) in &requests {
                let server = leave(point.clone().pause(40), way);
                cases.push(
                    http(format!("server-leaves/{name}/{way}/{request}"))
                        .defaults("retries 0\ntimeout server 400ms")
                        .client(script().send(bytes).look(150).send(get("/next")).look(500))
                        .server(server),
                );
            }
        }
    }
    for way in WAYS {
        // While it is sent a request's body.
        let big =
            format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 20000000\r\n\r\n{}", "x".repeat(200_000));
        cases.push(
            http(format!("server-leaves/uploading/{way}"))
                .defaults("retries 0\ntimeout server 400ms\ntimeout client 800ms")
                .compare(Bytes::Start(40))
                .client(script().send(big).pause(150).send("more").end())
                .server(leave(script().head().pause(60), way)),
        );
        // While nobody uses its connection.
        cases.push(
            http(format!("server-leaves/idle/{way}"))
                .client(script().send(get("/")).message().pause(250).send(get("/again")).look(200))
                .server(leave(script().message().send(ok("hello")).pause(60), way)),
        );
    }
    cases.push(
        http("server-leaves/answer-then-reset")
            .client(script().send(get("/")).look(100).send(get("/again")).look(200))
            .server(script().message().send(ok("hello")).reset()),
    );
    cases.push(
        http("server-leaves/answered-half-closed")
            .client(script().send(get("/")).look(100).send(get("/again")).look(200))
            .server(script().message().send(ok("hello")).half_close().chain(answers(ok("x")))),
    );
    cases
}

fn tcp_sides() -> Vec<Case> {
    let mut cases = Vec::new();
    for way in WAYS {
        for (name, first) in [("nothing", ""), ("something", "hello")] {
            cases.push(
                tcp(format!("tcp/client-leaves/{name}/{way}"))
                    .defaults("timeout server 600ms\ntimeout client 600ms")
                    .client(leave(script().send(first).pause(80), way).chain(script().look(400)))
                    .server(script().end()),
            );
            cases.push(
                tcp(format!("tcp/server-leaves/{name}/{way}"))
                    .defaults("timeout server 600ms\ntimeout client 600ms")
                    .client(script().send(first).end())
                    .server(leave(script().send(first).pause(80), way)),
            );
        }
        cases.push(
            tcp(format!("tcp/client-leaves/then-server-answers/{way}"))
                .client(leave(script().send("question").tell("left"), way).chain(script().look(600)))
                .server(script().until("question").hear("left").pause(150).send("answer").close()),
        );
        cases.push(
            tcp(format!("tcp/server-leaves/then-client-goes-on/{way}"))
                .client(script().until("bye").pause(150).send("more").pause(100).close())
                .server(leave(script().send("bye").pause(50), way).chain(script().look(500))),
        );
        cases.push(
            tcp(format!("tcp/client-leaves/connecting/{way}"))
                .defaults("timeout connect 400ms\nretries 1")
                .client(leave(script().send("hello").pause(150), way).chain(script().look(1200)))
                .server_of("", Kind::Silent),
        );
        cases.push(
            tcp(format!("tcp/client-leaves/queued/{way}"))
                .client(script().send("1").until("first"))
                .client(leave(script().after("taken").send("2").pause(150).tell("left"), way))
                .server_with(
                    "maxconn 1",
                    script().exactly(1).tell("taken").hear("left").pause(200).send("first").end(),
                ),
        );
        cases.push(
            tcp(format!("tcp/client-leaves/inspected/{way}"))
                .front("tcp-request inspect-delay 400ms\ntcp-request content accept if { req.len gt 100 }")
                .client(leave(script().send("hello").pause(100), way).chain(script().look(500)))
                .server(script().end()),
        );
    }
    cases.push(
        tcp("tcp/refused")
            .defaults("retries 0")
            .client(script().send("hello").end())
            .server_of("", Kind::Refuses),
    );
    cases.push(
        tcp("tcp/refused-retried")
            .defaults("retries 1")
            .client(script().send("hello").end())
            .server_of("", Kind::Refuses),
    );
    cases
}
