//! Where messages end: every kind of request with every kind of response, one after the other and pipelined, and what
//! is malformed.

use crate::case::{Case, http};
use crate::script::{Script, answers, get, ok, script};

/// How long a client looks at a response before it goes on: nothing tells it where the response ends.
const PAUSE: u64 = 100;

const REQUESTS: &[(&str, &str)] = &[
    ("get", "GET /r HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("head", "HEAD /r HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("get-close", "GET /r HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"),
    ("get-1.0", "GET /r HTTP/1.0\r\nHost: h\r\n\r\n"),
    ("get-1.0-keep-alive", "GET /r HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\n\r\n"),
    ("post-sized", "POST /r HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nabcde"),
    ("post-empty", "POST /r HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"),
    ("post-unframed", "POST /r HTTP/1.1\r\nHost: h\r\n\r\n"),
    (
        "post-chunked",
        "POST /r HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
    ),
    (
        "post-extensions",
        "POST /r HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b;c=\"d\"\r\nabc\r\n0;e\r\n\r\n",
    ),
    (
        "post-trailers",
        "POST /r HTTP/1.1\r\nHost: h\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\nTrailer: x-t\r\n\r\n\
         5\r\nabcde\r\n0\r\nx-t: 1\r\nX-U: 2\r\n\r\n",
    ),
    ("post-1.0", "POST /r HTTP/1.0\r\nContent-Length: 5\r\n\r\nabcde"),
    ("get-with-body", "GET /r HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc"),
];

/// What a server answers, and whether it closes then.
const RESPONSES: &[(&str, &str, bool)] = &[
    ("sized", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false),
    ("empty", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false),
    (
        "chunked",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
        false,
    ),
    (
        "extensions",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0;z\r\n\r\n",
        false,
    ),
    (
        "trailers",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-t\r\n\r\n5\r\nhello\r\n0\r\nx-t: 1\r\n\r\n",
        false,
    ),
    ("until-close", "HTTP/1.1 200 OK\r\nX-A: b\r\n\r\nhello", true),
    ("1.0", "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", true),
    ("1.0-keep-alive", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello", false),
    ("1.0-until-close", "HTTP/1.0 200 OK\r\n\r\nhello", true),
    ("close", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello", true),
    ("204", "HTTP/1.1 204 No Content\r\nX-A: b\r\n\r\n", false),
    ("304", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nETag: \"x\"\r\n\r\n", false),
    (
        "100-then-sized",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        false,
    ),
    (
        "103-then-chunked",
        "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n\
         HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        false,
    ),
];

/// What a server that has nothing to send for HEAD sends.
fn head_only(response: &str) -> String {
    let last = response.rfind("HTTP/1.").unwrap_or(0);
    let end = response[last..].find("\r\n\r\n").map_or(response.len(), |at| last + at + 4);
    response[..end].to_string()
}

fn server(request: &str, response: &str, close: bool) -> Script {
    let response = if request == "head" { head_only(response) } else { response.to_string() };
    if close { script().message().send(response).close() } else { answers(response) }
}

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, request) in REQUESTS {
        for (answer, response, close) in RESPONSES {
            let method = request.split(' ').next().unwrap_or("");
            let next = if *name == "head" { request.replace("/r", "/next") } else { get("/next") };
            // The response to a request with another method than the server's script expects would be out of step.
            let next = if method == "HEAD" { next } else { get("/next") };
            let client = script().send(request).look(PAUSE);
            // A body without a length is sent in chunks, and its connection stays open: another request after it would
            // only repeat this known difference.
            let client = if answer.ends_with("until-close") { client } else { client.send(next) };
            cases.push(
                http(format!("framing/{name}/{answer}"))
                    .client(client)
                    .server(server(name, response, *close)),
            );
        }
    }
    cases.extend(pipelined());
    cases.extend(expectations());
    cases.extend(early());
    cases.extend(malformed_requests());
    cases.extend(malformed_responses());
    cases
}

/// Requests that come together.
fn pipelined() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, request) in REQUESTS {
        if *name == "head" {
            continue;
        }
        let two = format!("{request}{}", get("/second"));
        cases.push(
            http(format!("pipelining/{name}/together"))
                .client(script().send(&two))
                .server(answers(ok("hello"))),
        );
        // Cut in the middle of the second head.
        let cut = request.len() + 7;
        cases.push(
            http(format!("pipelining/{name}/cut"))
                .client(script().send(&two[..cut]).look(60).send(&two[cut..]))
                .server(answers(ok("hello"))),
        );
    }
    let many: String = (0..12).map(|i| get(&format!("/{i}"))).collect();
    cases.push(http("pipelining/twelve").client(script().send(&many)).server(answers(ok("hello"))));
    cases.push(
        http("pipelining/then-half-close")
            .client(script().send(&many).half_close())
            .server(answers(ok("hello"))),
    );
    let slow = script().forever(script().message().pause(40).send(ok("hello")));
    cases.push(http("pipelining/slow-server").client(script().send(&many)).server(slow));
    cases
}

/// `Expect: 100-continue` and what the parts make of it.
fn expectations() -> Vec<Case> {
    let head = "POST /r HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
    let chunked = "POST /r HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n";
    let go_on = "HTTP/1.1 100 Continue\r\n\r\n";
    let waits = |head: &str, body: &str| {
        script().send(head).until("\r\n\r\n").send(body).look(PAUSE).send(get("/next"))
    };
    vec![
        http("expect/continued").client(waits(head, "abcde")).server(
            script().head().send(go_on).exactly(5).send(ok("x")).forever(script().message().send(ok("y"))),
        ),
        http("expect/continued-chunked").client(waits(chunked, "5\r\nabcde\r\n0\r\n\r\n")).server(
            script()
                .head()
                .send(go_on)
                .until("0\r\n\r\n")
                .send(ok("x"))
                .forever(script().message().send(ok("y"))),
        ),
        http("expect/refused")
            .client(script().send(head).look(PAUSE).send(get("/next")))
            .server(script().head().send("HTTP/1.1 417 No\r\nContent-Length: 0\r\n\r\n")),
        http("expect/refused-close").client(script().send(head).look(PAUSE).send(get("/next"))).server(
            script().head().send("HTTP/1.1 417 No\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").close(),
        ),
        http("expect/not-waited")
            .client(script().send(format!("{head}abcde")).look(PAUSE).send(get("/next")))
            .server(script().message().send(go_on).send(ok("x")).forever(script().message().send(ok("y")))),
        http("expect/buffered")
            .front("option http-buffer-request")
            .client(waits(head, "abcde"))
            .server(script().message().send(ok("x")).forever(script().message().send(ok("y")))),
        http("expect/1.0")
            .client(
                script()
                    .send("POST /r HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
                    .look(PAUSE)
                    .send("abcde"),
            )
            .server(script().message().send(go_on).send(ok("x"))),
        http("expect/other")
            .client(script().send("GET / HTTP/1.1\r\nHost: h\r\nExpect: x\r\n\r\n"))
            .server(answers(ok("x"))),
        http("expect/denied")
            .front("http-request deny")
            .client(script().send(head).look(PAUSE).send("abcde").look(PAUSE).send(get("/next")))
            .server(answers(ok("x"))),
    ]
}

/// Responses that come before their request is complete.
fn early() -> Vec<Case> {
    let head = "POST /r HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n";
    let chunked = "POST /r HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
    let kinds = [
        ("sized", head, "abcde", "fghij"),
        ("chunked", chunked, "5\r\nabcde\r\n", "5\r\nfghij\r\n0\r\n\r\n"),
    ];
    let responses = [
        ("keep-alive", ok("early"), false),
        ("close", "HTTP/1.1 403 No\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno".to_string(), true),
        (
            "close-open",
            "HTTP/1.1 403 No\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno".to_string(),
            false,
        ),
        (
            "chunked",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n".to_string(),
            false,
        ),
    ];
    let mut cases = Vec::new();
    for (kind, head, first, second) in kinds {
        for (answer, response, close) in &responses {
            let server = script().head().send(response);
            let server =
                if *close { server.close() } else { server.until(second).chain(answers(ok("next"))) };
            let client = |rest: bool| {
                let start = script().send(head).send(first).look(PAUSE);
                if rest { start.send(second).look(PAUSE).send(get("/next")) } else { start }
            };
            cases.push(
                http(format!("early/{kind}/{answer}/completed")).client(client(true)).server(server.clone()),
            );
            cases.push(http(format!("early/{kind}/{answer}/left")).client(client(false)).server(server));
        }
    }
    cases
}

fn malformed_requests() -> Vec<Case> {
    let long = "x".repeat(20_000);
    let long_target = format!("GET /{long} HTTP/1.1\r\nHost: h\r\n\r\n");
    let long_field = format!("GET / HTTP/1.1\r\nHost: h\r\nX: {long}\r\n\r\n");
    let many_fields = format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", "X: y\r\n".repeat(150));
    let requests: &[(&str, &str)] = &[
        ("junk", "junk\r\n\r\n"),
        ("empty-lines-first", "\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n"),
        ("no-version", "GET /\r\n\r\n"),
        ("version-0.9", "GET / HTTP/0.9\r\n\r\n"),
        ("version-1.2", "GET / HTTP/1.2\r\nHost: h\r\n\r\n"),
        ("version-2.0", "GET / HTTP/2.0\r\nHost: h\r\n\r\n"),
        ("version-junk", "GET / XTTP/1.1\r\nHost: h\r\n\r\n"),
        ("version-lower-case", "GET / http/1.1\r\nHost: h\r\n\r\n"),
        ("bare-lf", "GET / HTTP/1.1\nHost: h\n\n"),
        ("lone-cr", "GET / HTTP/1.1\rHost: h\r\n\r\n"),
        ("no-host", "GET / HTTP/1.1\r\n\r\n"),
        ("two-hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
        ("two-equal-hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"),
        ("empty-host", "GET / HTTP/1.1\r\nHost:\r\n\r\n"),
        ("bad-host", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n"),
        ("host-port", "GET / HTTP/1.1\r\nHost: a:80\r\n\r\n"),
        ("absolute", "GET http://h/x HTTP/1.1\r\nHost: h\r\n\r\n"),
        ("absolute-other-host", "GET http://a/x HTTP/1.1\r\nHost: b\r\n\r\n"),
        ("absolute-no-host", "GET http://a/x HTTP/1.1\r\n\r\n"),
        ("asterisk", "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n"),
        ("asterisk-get", "GET * HTTP/1.1\r\nHost: h\r\n\r\n"),
        ("relative-target", "GET x HTTP/1.1\r\nHost: h\r\n\r\n"),
        ("fragment", "GET /a#b HTTP/1.1\r\nHost: h\r\n\r\n"),
        ("target-utf8", "GET /\u{e9} HTTP/1.1\r\nHost: h\r\n\r\n"),
        ("target-control", "GET /\u{1} HTTP/1.1\r\nHost: h\r\n\r\n"),
        ("target-space", "GET /a b HTTP/1.1\r\nHost: h\r\n\r\n"),
        ("method-lower-case", "get / HTTP/1.1\r\nHost: h\r\n\r\n"),
        ("method-odd", "G@T / HTTP/1.1\r\nHost: h\r\n\r\n"),
        ("method-long", "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJ / HTTP/1.1\r\nHost: h\r\n\r\n"),
        ("space-before-colon", "GET / HTTP/1.1\r\nHost : h\r\n\r\n"),
        ("no-colon", "GET / HTTP/1.1\r\nHost h\r\n\r\n"),
        ("empty-name", "GET / HTTP/1.1\r\nHost: h\r\n: x\r\n\r\n"),
        ("name-odd", "GET / HTTP/1.1\r\nHost: h\r\nX(y: z\r\n\r\n"),
        ("name-8bit", "GET / HTTP/1.1\r\nHost: h\r\nX\u{e9}: z\r\n\r\n"),
        ("value-nul", "GET / HTTP/1.1\r\nHost: h\r\nX: a\0b\r\n\r\n"),
        ("value-control", "GET / HTTP/1.1\r\nHost: h\r\nX: a\u{1}b\r\n\r\n"),
        ("value-8bit", "GET / HTTP/1.1\r\nHost: h\r\nX: \u{e9}\r\n\r\n"),
        ("folded", "GET / HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\n\r\n"),
        ("folded-first", "GET / HTTP/1.1\r\n Host: h\r\n\r\n"),
        ("value-cr", "GET / HTTP/1.1\r\nHost: h\r\nX: a\rb\r\n\r\n"),
        ("length-negative", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n"),
        ("length-plus", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: +3\r\n\r\nabc"),
        ("length-hex", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0x3\r\n\r\nabc"),
        ("length-empty", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length:\r\n\r\n"),
        ("length-huge", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999\r\n\r\n"),
        (
            "length-twice-equal",
            "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
        ),
        ("length-list-equal", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3, 3\r\n\r\nabc"),
        ("length-twice", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"),
        (
            "length-and-chunked",
            "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        ),
        ("encoding-gzip", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n"),
        (
            "encoding-gzip-chunked",
            "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        ),
        (
            "encoding-chunked-gzip",
            "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
        ),
        (
            "encoding-twice",
            "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
        ("encoding-empty", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:\r\n\r\n"),
        ("encoding-1.0", "POST / HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        ("encoding-odd", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
        (
            "encoding-upper-case",
            "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: CHUNKED\r\n\r\n1\r\na\r\n0\r\n\r\n",
        ),
        ("chunk-junk", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"),
        (
            "chunk-no-crlf",
            "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcXX0\r\n\r\n",
        ),
        ("chunk-bare-lf", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\n0\n\n"),
        (
            "chunk-huge",
            "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
        ),
        (
            "chunk-space",
            "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3 \r\nabc\r\n0\r\n\r\n",
        ),
        (
            "chunk-zeros",
            "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0003\r\nabc\r\n000\r\n\r\n",
        ),
        (
            "chunk-0x",
            "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n",
        ),
        ("trailer-junk", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\njunk\r\n\r\n"),
        (
            "trailer-framing",
            "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 3\r\n\r\n",
        ),
        (
            "upgrade-h2c",
            "GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade, http2-settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
        ),
        ("h2-preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        ("tls", "\u{16}\u{3}\u{1}\0\u{5}hello"),
        ("long-target", &long_target),
        ("long-field", &long_field),
        ("many-fields", &many_fields),
        (
            "connection-names",
            "GET / HTTP/1.1\r\nHost: h\r\nConnection: x-a, close\r\nX-A: 1\r\nKeep-Alive: 3\r\n\r\n",
        ),
        ("proxy-connection", "GET / HTTP/1.1\r\nHost: h\r\nProxy-Connection: keep-alive\r\n\r\n"),
        ("te", "GET / HTTP/1.1\r\nHost: h\r\nTE: gzip, trailers\r\nConnection: TE\r\n\r\n"),
    ];
    let mut cases = Vec::new();
    for (name, request) in requests {
        let server = answers(ok("hello"));
        cases.push(
            http(format!("malformed-request/{name}"))
                .client(script().send(request).look(PAUSE).send(get("/next")))
                .server(server.clone()),
        );
        cases.push(
            http(format!("malformed-request/{name}/relaxed"))
                .front("option accept-unsafe-violations-in-http-request")
                .client(script().send(request))
                .server(server),
        );
    }
    cases
}

fn malformed_responses() -> Vec<Case> {
    let long = format!("HTTP/1.1 200 OK\r\nX: {}\r\nContent-Length: 0\r\n\r\n", "x".repeat(20_000));
    let many = format!("HTTP/1.1 200 OK\r\n{}Content-Length: 0\r\n\r\n", "X: y\r\n".repeat(150));
    let responses: &[(&str, &str)] = &[
        ("junk", "junk\r\n\r\n"),
        ("empty-line-first", "\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        ("version-0.9", "HTTP/0.9 200 OK\r\nContent-Length: 0\r\n\r\n"),
        ("version-1.2", "HTTP/1.2 200 OK\r\nContent-Length: 0\r\n\r\n"),
        ("version-2.0", "HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n"),
        ("version-lower-case", "http/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        ("status-short", "HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n"),
        ("status-long", "HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n"),
        ("status-letters", "HTTP/1.1 abc OK\r\nContent-Length: 0\r\n\r\n"),
        ("status-099", "HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n"),
        ("status-600", "HTTP/1.1 600 Odd\r\nContent-Length: 0\r\n\r\n"),
        ("status-999", "HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n"),
        ("no-reason", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n"),
        ("no-reason-space", "HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n"),
        ("bare-lf", "HTTP/1.1 200 OK\nContent-Length: 2\n\nhi"),
        ("space-before-colon", "HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n"),
        ("no-colon", "HTTP/1.1 200 OK\r\nX\r\nContent-Length: 0\r\n\r\n"),
        ("value-nul", "HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 0\r\n\r\n"),
        ("value-8bit", "HTTP/1.1 200 OK\r\nX: \u{e9}\r\nContent-Length: 0\r\n\r\n"),
        ("name-odd", "HTTP/1.1 200 OK\r\nX(y: a\r\nContent-Length: 0\r\n\r\n"),
        ("folded", "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n"),
        ("length-bad", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"),
        ("length-twice", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nhi"),
        ("length-twice-equal", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi"),
        (
            "length-and-chunked",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
        ),
        ("encoding-gzip", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nhi"),
        (
            "encoding-gzip-chunked",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
        ),
        ("encoding-1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"),
        ("chunk-junk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"),
        ("chunk-junk-later", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\nxyz\r\n"),
        ("chunk-no-crlf", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhiXX0\r\n\r\n"),
        ("trailer-junk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\njunk\r\n\r\n"),
        ("101-unasked", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nhi"),
        ("more-than-length", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 500 No\r\n\r\n"),
        ("body-after-204", "HTTP/1.1 204 No\r\nContent-Length: 2\r\n\r\nhi"),
        ("204-chunked", "HTTP/1.1 204 No\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        ("205", "HTTP/1.1 205 Reset\r\nContent-Length: 0\r\n\r\n"),
        (
            "100-with-length",
            "HTTP/1.1 100 Continue\r\nContent-Length: 2\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        ),
        ("connection-names", "HTTP/1.1 200 OK\r\nConnection: x-a\r\nX-A: 1\r\nContent-Length: 0\r\n\r\n"),
        ("many-hundreds", &"HTTP/1.1 102 Wait\r\n\r\n".repeat(20)),
        ("long", &long),
        ("many-fields", &many),
    ];
    let mut cases = Vec::new();
    for (name, response) in responses {
        for (way, close) in [("open", false), ("closed", true)] {
            let server = if close { script().message().send(response).close() } else { answers(response) };
            cases.push(
                http(format!("malformed-response/{name}/{way}"))
                    .defaults("timeout server 250ms")
                    .client(script().send(get("/r")).look(PAUSE).send(get("/next")).look(400))
                    .server(server),
            );
        }
    }
    cases
}
