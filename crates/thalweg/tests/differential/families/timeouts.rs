//! Every timeout: with traffic that stops, that trickles, that goes one way.

use crate::case::{Bytes, Case, Kind, http, tcp};
use crate::script::{Script, answers, get, ok, post, script};

const PART: &str = "POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n12345";
const CHUNKS: &str = "POST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n";

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    cases.extend(head());
    cases.extend(server());
    cases.extend(client());
    cases.extend(connect_and_queue());
    cases.extend(tunnels());
    cases.extend(rules());
    cases
}

fn head() -> Vec<Case> {
    let mut cases = Vec::new();
    let starts = [("nothing", ""), ("line", "GET / HTTP/1.1\r\n"), ("part-of-line", "GE")];
    for (name, start) in starts {
        for (timeouts, lines) in [
            ("client", "timeout client 300ms"),
            ("http-request", "timeout http-request 300ms"),
            ("both", "timeout http-request 500ms\ntimeout client 300ms"),
            ("keep-alive", "timeout http-keep-alive 300ms\ntimeout client 700ms"),
        ] {
            cases.push(
                http(format!("timeouts/{timeouts}/head/{name}"))
                    .defaults(lines)
                    .client(script().send(start).end())
                    .plain_server(),
            );
        }
    }
    let pieces = ["GET / HTTP/1.1\r\n", "Host: h\r\n", "X: a\r\n", "Y: b\r\n", "\r\n"];
    cases.push(
        http("timeouts/http-request/head/trickled")
            .defaults("timeout http-request 350ms")
            .client(script().trickle(&pieces, 100).end())
            .plain_server(),
    );
    cases.push(
        http("timeouts/client/head/trickled")
            .defaults("timeout client 250ms")
            .client(script().trickle(&pieces, 100).end())
            .plain_server(),
    );
    // Between requests.
    for (name, lines) in [
        ("keep-alive", "timeout http-keep-alive 300ms"),
        ("request", "timeout http-request 300ms"),
        ("client", "timeout client 300ms"),
        ("keep-alive-and-request", "timeout http-keep-alive 500ms\ntimeout http-request 200ms"),
        ("all", "timeout http-keep-alive 300ms\ntimeout http-request 400ms\ntimeout client 200ms"),
    ] {
        for (second, bytes) in [("nothing", ""), ("part", "GET / HT"), ("empty-line", "\r\n")] {
            cases.push(
                http(format!("timeouts/idle/{name}/{second}"))
                    .defaults(lines)
                    .client(script().send(get("/")).message().pause(100).send(bytes).end())
                    .plain_server(),
            );
        }
    }
    cases
}

fn server() -> Vec<Case> {
    let mut cases = Vec::new();
    let requests = [
        ("get", get("/")),
        ("post", post("/", "hello")),
        ("partly-sent", PART.to_string()),
        ("partly-sent-chunked", CHUNKS.to_string()),
        ("pipelined", format!("{}{}", get("/"), get("/2"))),
    ];
    let quiet = |script: Script| script.head().tell("head").end();
    for (name, bytes) in &requests {
        cases.push(
            http(format!("timeouts/server/quiet/{name}"))
                .defaults("timeout server 300ms\ntimeout client 900ms")
                .client(script().send(bytes).end())
                .server(quiet(script())),
        );
        cases.push(
            http(format!("timeouts/server/quiet/{name}/then-pipelined"))
                .defaults("timeout server 400ms\ntimeout client 900ms")
                .client(script().send(bytes).pause(200).send(get("/more")).end())
                .server(quiet(script())),
        );
        cases.push(
            http(format!("timeouts/server/half-closed/{name}"))
                .defaults("timeout server 400ms\ntimeout client 900ms")
                .client(script().send(bytes).pause(100).half_close().end())
                .server(quiet(script())),
        );
    }
    let responses = [
        ("status-line", "HTTP/1.1 200 OK\r\n"),
        ("interim", "HTTP/1.1 103 Hints\r\n\r\n"),
        ("head-sized", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"),
        ("sized", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345"),
        ("chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n"),
        ("until-close", "HTTP/1.1 200 OK\r\n\r\n12345"),
    ];
    for (name, response) in responses {
        cases.push(
            http(format!("timeouts/server/stops-after/{name}"))
                .defaults("timeout server 300ms\ntimeout client 900ms")
                .client(script().send(get("/")).end())
                .server(script().message().send(response).end()),
        );
        cases.push(
            http(format!("timeouts/client-and-server/stops-after/{name}"))
                .defaults("timeout server 500ms\ntimeout client 300ms")
                .client(script().send(get("/")).end())
                .server(script().message().send(response).end()),
        );
        cases.push(
            http(format!("timeouts/server/stops-after/{name}/uploading"))
                .defaults("timeout server 300ms\ntimeout client 600ms")
                .client(script().send(PART).end())
                .server(script().head().send(response).end()),
        );
    }
    let head = ["HTTP/1.1 200 OK\r\n", "A: 1\r\n", "B: 2\r\n", "Content-Length: 0\r\n", "\r\n"];
    cases.push(
        http("timeouts/server/head-trickled")
            .defaults("timeout server 350ms")
            .client(script().send(get("/")).end())
            .server(script().message().trickle(&head, 150).end()),
    );
    cases.push(
        http("timeouts/server/interim-trickled")
            .defaults("timeout server 250ms")
            .client(script().send(get("/")).look(1500))
            .server(
                script().message().trickle(&["HTTP/1.1 103 Hints\r\n\r\n"; 4], 150).pause(100).send(ok("x")),
            ),
    );
    let body = ["HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "1", "2", "3", "4", "5"];
    cases.push(
        http("timeouts/server/body-trickled")
            .defaults("timeout server 250ms\ntimeout client 250ms")
            .client(script().send(get("/")).look(1200))
            .server(script().message().trickle(&body, 150)),
    );
    let slow = ["POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n", "1", "2", "3", "4"];
    cases.push(
        http("timeouts/server/upload-trickled")
            .defaults("timeout server 250ms\ntimeout client 250ms")
            .client(script().trickle(&slow, 150).look(600))
            .server(script().message().pause(150).send(ok("x"))),
    );
    cases.push(
        http("timeouts/server/upload-trickled-quiet-server")
            .defaults("timeout server 300ms\ntimeout client 900ms")
            .client(script().trickle(&slow, 150).end())
            .server(script().message().end()),
    );
    cases
}

fn client() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, bytes) in [("sized", PART), ("chunked", CHUNKS)] {
        cases.push(
            http(format!("timeouts/client/body-stops/{name}"))
                .defaults("timeout client 300ms\ntimeout server 900ms")
                .client(script().send(bytes).end())
                .server(script().head().end()),
        );
        cases.push(
            http(format!("timeouts/client/body-stops/{name}/answered"))
                .defaults("timeout client 400ms\ntimeout server 900ms")
                .client(script().send(bytes).end())
                .server(script().head().pause(200).send(ok("early")).end()),
        );
        cases.push(
            http(format!("timeouts/client/body-stops/{name}/buffered"))
                .defaults("timeout client 300ms\ntimeout server 900ms")
                .front("option http-buffer-request")
                .client(script().send(bytes).end())
                .server(script().head().end()),
        );
        cases.push(
            http(format!("timeouts/http-request/body-stops/{name}/buffered"))
                .defaults("timeout http-request 300ms\ntimeout client 600ms")
                .front("option http-buffer-request")
                .client(script().send(bytes).end())
                .server(script().head().end()),
        );
    }
    let big = format!("HTTP/1.1 200 OK\r\nContent-Length: 20000000\r\n\r\n{}", "x".repeat(20_000_000));
    for (name, lines) in [
        ("client", "timeout client 400ms\ntimeout server 1200ms"),
        ("server", "timeout client 1200ms\ntimeout server 400ms"),
    ] {
        cases.push(
            http(format!("timeouts/deaf-client/{name}"))
                .defaults(lines)
                .compare(Bytes::Start(60))
                .client(script().deaf().send(get("/")).pause(2000))
                .server(script().message().send(&big).end()),
        );
        let upload = format!(
            "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 20000000\r\n\r\n{}",
            "x".repeat(20_000_000)
        );
        cases.push(
            http(format!("timeouts/deaf-server/{name}"))
                .defaults(lines)
                .compare(Bytes::Start(60))
                .client(script().send(upload).end())
                .server(script().deaf().pause(2000)),
        );
        cases.push(
            tcp(format!("timeouts/deaf-client/{name}/tcp"))
                .defaults(lines)
                .compare(Bytes::Start(60))
                .client(script().deaf().send("hello").pause(2000))
                .server(script().until("hello").send(&big).end()),
        );
        cases.push(
            tcp(format!("timeouts/deaf-server/{name}/tcp"))
                .defaults(lines)
                .compare(Bytes::Start(60))
                .client(script().send("x".repeat(20_000_000)).end())
                .server(script().deaf().pause(2000)),
        );
    }
    cases
}

fn connect_and_queue() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, lines) in [
        ("once", "timeout connect 300ms\nretries 0"),
        ("retried", "timeout connect 300ms\nretries 2"),
        ("redispatched", "timeout connect 300ms\nretries 1\noption redispatch"),
        ("short", "timeout connect 300ms\nretries 0\ntimeout client 200ms"),
    ] {
        let ways: [(&str, String); 2] = [("get", get("/")), ("post", PART.to_string())];
        for (request, bytes) in ways {
            cases.push(
                http(format!("timeouts/connect/{name}/{request}"))
                    .defaults(lines)
                    .client(script().send(bytes).end())
                    .server_of("", Kind::Silent),
            );
        }
        cases.push(
            tcp(format!("timeouts/connect/{name}/tcp"))
                .defaults(lines)
                .client(script().send("hello").end())
                .server_of("", Kind::Silent),
        );
    }
    for (name, lines) in [
        ("queue", "timeout queue 300ms"),
        ("connect", "timeout connect 300ms"),
        ("client", "timeout client 300ms\ntimeout queue 600ms"),
    ] {
        cases.push(
            http(format!("timeouts/queue/{name}"))
                .defaults(lines)
                .client(script().send(get("/first")).look(800))
                .client(script().after("taken").send(get("/queued")).look(900).tell("over"))
                .server_with("maxconn 1", script().message().tell("taken").hear("over").send(ok("first"))),
        );
        cases.push(
            tcp(format!("timeouts/queue/{name}/tcp"))
                .defaults(lines)
                .client(script().send("1").look(800))
                .client(script().after("taken").send("2").look(900).tell("over"))
                .server_with("maxconn 1", script().exactly(1).tell("taken").hear("over").send("first")),
        );
    }
    cases
}

fn upgraded(ended: Script) -> Script {
    let response = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\
                    Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
    script().message().send(response).chain(ended)
}

fn tunnels() -> Vec<Case> {
    let mut cases = Vec::new();
    let ask = "GET /ws HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\
               Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    let timeouts = [
        ("plain", "timeout client 400ms\ntimeout server 600ms"),
        ("plain-other-way", "timeout client 600ms\ntimeout server 400ms"),
        ("tunnel", "timeout tunnel 300ms\ntimeout client 900ms\ntimeout server 900ms"),
        ("client-fin", "timeout client-fin 300ms\ntimeout tunnel 700ms"),
        ("server-fin", "timeout server-fin 300ms\ntimeout tunnel 700ms"),
        ("both-fin", "timeout client-fin 300ms\ntimeout server-fin 200ms\ntimeout tunnel 700ms"),
        (
            "fin-no-tunnel",
            "timeout client-fin 300ms\ntimeout server-fin 200ms\ntimeout client 600ms\ntimeout server 600ms",
        ),
    ];
    let client = |then: Script| script().send(ask).head().send("hi").pause(50).chain(then);
    for (name, lines) in timeouts {
        let plays: [(&str, Script, Script); 5] = [
            ("quiet", script().end(), script().end()),
            ("client-half-closes", script().half_close().end(), script().end()),
            ("server-half-closes", script().end(), script().pause(100).half_close().end()),
            ("server-goes-on", script().half_close().end(), script().trickle(&["a"; 6], 120).end()),
            ("client-goes-on", script().trickle(&["a"; 6], 120).end(), script().pause(60).half_close().end()),
        ];
        for (play, mine, theirs) in plays {
            cases.push(
                http(format!("timeouts/upgraded/{name}/{play}"))
                    .defaults(lines)
                    .client(client(mine.clone()))
                    .server(upgraded(script().until("hi").chain(theirs.clone()))),
            );
            let lines = lines.replace("timeout tunnel 700ms", "timeout client 700ms\ntimeout server 700ms");
            cases.push(
                tcp(format!("timeouts/tcp/{name}/{play}"))
                    .defaults(&lines)
                    .client(script().send("hi").pause(50).chain(mine))
                    .server(script().until("hi").chain(theirs)),
            );
        }
    }
    cases
}

fn rules() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, lines) in [
        ("tarpit", "timeout tarpit 300ms"),
        ("connect", "timeout connect 300ms"),
        ("tarpit-client", "timeout tarpit 500ms\ntimeout client 300ms"),
    ] {
        for (request, bytes) in [("get", get("/")), ("post", PART.to_string())] {
            cases.push(
                http(format!("timeouts/tarpit/{name}/{request}"))
                    .defaults(lines)
                    .front("http-request tarpit")
                    .client(script().send(bytes).end())
                    .plain_server(),
            );
        }
    }
    let inspect = "tcp-request inspect-delay 300ms\ntcp-request content reject unless { req.len gt 10 }";
    for (name, play) in [
        ("quiet", script().end()),
        ("little", script().send("abc").end()),
        ("enough", script().send("abc").pause(100).send("0123456789").look(200)),
        ("trickled", script().trickle(&["abc"; 5], 130).look(400)),
    ] {
        cases.push(
            tcp(format!("timeouts/inspect-delay/{name}"))
                .front(inspect)
                .client(play)
                .server(script().until("abc").send("seen").end()),
        );
    }
    cases.push(
        http("timeouts/inspect-delay/http")
            .front("tcp-request inspect-delay 300ms\ntcp-request content accept if { req.len gt 1000 }")
            .client(script().send(get("/")).look(600))
            .plain_server(),
    );
    cases.push(
        http("timeouts/set-timeout/server")
            .back("http-request set-timeout server 250ms")
            .client(script().send(get("/")).end())
            .server(script().message().end()),
    );
    cases.push(
        http("timeouts/set-timeout/tunnel")
            .back("http-request set-timeout tunnel 250ms")
            .client(
                script().send("GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n").end(),
            )
            .server(
                script()
                    .message()
                    .send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
                    .end(),
            ),
    );
    cases.push(
        http("timeouts/set-timeout/client")
            .front("http-request set-timeout client 250ms")
            .client(script().send(PART).end())
            .server(script().head().end()),
    );
    for (name, body) in [("sized", PART), ("chunked", CHUNKS)] {
        cases.push(
            http(format!("timeouts/wait-for-body/{name}"))
                .front("http-request wait-for-body time 300ms")
                .client(script().send(body).look(700))
                .server(script().head().send(ok("x")).end()),
        );
        cases.push(
            http(format!("timeouts/wait-for-body/{name}/at-least"))
                .front("http-request wait-for-body time 300ms at-least 4")
                .client(script().send(body).look(700))
                .server(script().head().send(ok("x")).end()),
        );
    }
    cases.push(
        http("timeouts/wait-for-body/response")
            .back("http-response wait-for-body time 300ms")
            .client(script().send(get("/")).look(700))
            .server(script().message().send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345").end()),
    );
    cases.push(
        http("timeouts/keep-alive/pool")
            .client(script().send(get("/")).message().pause(300).send(get("/again")).look(100))
            .server_with("pool-purge-delay 1s", answers(ok("x"))),
    );
    cases
}
