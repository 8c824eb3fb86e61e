//! The log's own options, and others that change how a connection is handled.

use crate::case::{Case, Kind, http, tcp};
use crate::script::{answers, get, ok, post, script};

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let formats = [
        ("httplog", "option httplog"),
        ("httplog-clf", "option httplog clf"),
        ("plain", ""),
        ("tcplog", "option tcplog"),
        ("logasap", "option httplog\noption logasap"),
        ("dontlognull", "option httplog\noption dontlognull"),
        ("dontlog-normal", "option httplog\noption dontlog-normal"),
        ("separate-errors", "option httplog\noption log-separate-errors"),
        ("error-log-format", "option httplog\nerror-log-format \"error %ST %tsc %b\""),
        ("no-log", "no log"),
    ];
    let ways: [(&str, &str); 5] = [
        ("fine", "GET /fine HTTP/1.1\r\nHost: h\r\n\r\n"),
        ("denied", "GET /denied HTTP/1.1\r\nHost: h\r\n\r\n"),
        ("bad", "bad\r\n\r\n"),
        ("500", "GET /500 HTTP/1.1\r\nHost: h\r\n\r\n"),
        ("nothing", ""),
    ];
    for (format, lines) in formats {
        for (way, bytes) in ways {
            let response =
                if way == "500" { "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n".into() } else { ok("x") };
            let client = if way == "nothing" { script().pause(30).close() } else { script().send(bytes) };
            cases.push(
                http(format!("logs/{format}/{way}"))
                    .own_log()
                    .front(lines)
                    .front("http-request deny if { path /denied }\ncapture request header Host len 9")
                    .client(client)
                    .server(answers(response)),
            );
        }
    }
    for (format, lines) in [
        ("tcplog", "option tcplog"),
        ("plain", ""),
        ("clf", "option tcplog clf"),
        ("dontlog-normal", "option tcplog\noption dontlog-normal"),
    ] {
        cases.push(
            tcp(format!("logs/tcp/{format}/fine"))
                .own_log()
                .front(lines)
                .client(script().send("hello").until("bye").close())
                .server(script().until("hello").send("bye").end()),
        );
        cases.push(
            tcp(format!("logs/tcp/{format}/refused"))
                .own_log()
                .defaults("retries 0")
                .front(lines)
                .client(script().send("hello").end())
                .server_of("", Kind::Refuses),
        );
    }
    for (name, line) in
        [("dontlognull", "option dontlognull"), ("all", ""), ("probes", "option http-ignore-probes")]
    {
        cases.push(
            http(format!("logs/silent-client/{name}"))
                .defaults("timeout http-request 200ms")
                .front(line)
                .client(script().end())
                .plain_server(),
        );
    }
    cases.push(
        http("logs/logasap/common")
            .defaults("option logasap")
            .client(script().send(get("/")).message())
            .server(
                script().forever(
                    script()
                        .message()
                        .send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n12")
                        .pause(150)
                        .send("34"),
                ),
            ),
    );
    cases.extend(options());
    cases
}

fn options() -> Vec<Case> {
    let mut cases = Vec::new();
    let requests: [(&str, String); 5] = [
        ("get", get("/")),
        ("close", "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".into()),
        ("1.0", "GET / HTTP/1.0\r\n\r\n".into()),
        ("1.0-keep-alive", "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n".into()),
        ("post", post("/", "hello")),
    ];
    let responses = [
        ("sized", ok("x"), false),
        ("close", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx".to_string(), true),
        (
            "chunked",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n".to_string(),
            false,
        ),
    ];
    // Bodies that are larger than buffers.
    let large = "0123456789".repeat(3000);
    for (name, request) in [("get", get("/")), ("post", post("/", &large))] {
        cases.push(
            http(format!("options/small-buffers/{name}"))
                .global("tune.bufsize 4096\ntune.maxrewrite 512\n")
                .client(script().send(request).message().send(get("/next")).message())
                .server(answers(ok(&large))),
        );
    }
    for (option, lines) in [
        ("server-close", "option http-server-close"),
        ("httpclose", "option httpclose"),
        ("pretend-keepalive", "option http-server-close\noption http-pretend-keepalive"),
        ("no-http-keep-alive", "no option http-keep-alive"),
        ("buffer-request", "option http-buffer-request"),
        ("ignore-probes", "option http-ignore-probes\noption dontlognull"),
        ("delayed", "no option http-no-delay"),
        ("h1-case", "option h1-case-adjust-bogus-client\noption h1-case-adjust-bogus-server"),
        ("drop-trailers", "option http-drop-request-trailers\noption http-drop-response-trailers"),
        ("proxy-option", "option http-use-proxy-header"),
        ("nolinger", "option nolinger"),
        ("splice", "option splice-auto"),
        ("idle-close", "option idle-close-on-response"),
        ("abortonclose", "option abortonclose"),
    ] {
        for (request, bytes) in &requests {
            for (answer, response, close) in &responses {
                // HTTP/1.0 clients get no chunks here: a known difference, seen often enough elsewhere.
                if request.starts_with("1.0") && *answer == "chunked" {
                    continue;
                }
                let server =
                    if *close { script().message().send(response).close() } else { answers(response) };
                cases.push(
                    http(format!("options/{option}/{request}/{answer}"))
                        .defaults(lines)
                        .client(script().send(bytes).look(80).send(get("/next")).look(80))
                        .server(server),
                );
            }
        }
    }
    cases
}
