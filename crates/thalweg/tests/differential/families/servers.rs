//! Which server gets a request, when, and what happens when it fails: retries, redispatch, queues, reuse.

use crate::case::{Case, Kind, http, tcp};
use crate::script::{Script, answers, get, ok, post, script};

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    cases.extend(retries());
    cases.extend(redispatch());
    cases.extend(queues());
    cases.extend(reuse());
    cases.extend(balance());
    cases
}

const PART: &str = "POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n12345";

/// Ways in which a server's first connection fails, and the word of `retry-on` for each.
fn failures() -> Vec<(&'static str, &'static str, Script)> {
    vec![
        ("closed-unread", "empty-response", script().close()),
        ("closed", "empty-response", script().head().close()),
        ("reset", "empty-response", script().head().reset()),
        ("incomplete", "all-retryable-errors", script().head().send("HTTP/1.1 200 OK\r\nX: y").close()),
        ("junk", "junk-response", script().head().send("junk\r\n\r\n").close()),
        ("quiet", "response-timeout", script().head().end()),
        ("500", "500", script().message().send("HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\nno")),
        ("503", "503", script().message().send("HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\nno")),
        (
            "503-chunked",
            "503",
            script()
                .message()
                .send("HTTP/1.1 503 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n"),
        ),
        ("404", "404", script().message().send("HTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\nno")),
        ("425", "0rtt-rejected", script().message().send("HTTP/1.1 425 No\r\nContent-Length: 2\r\n\r\nno")),
    ]
}

fn retries() -> Vec<Case> {
    let mut cases = Vec::new();
    let requests: [(&str, String); 4] = [
        ("get", get("/r")),
        ("post", post("/r", "hello")),
        ("partly", PART.to_string()),
        (
            "chunked",
            "POST /r HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n".into(),
        ),
    ];
    for (failure, word, first) in failures() {
        for (request, bytes) in &requests {
            for (policy, words) in [("off", "none"), ("on", word)] {
                // Both are interesting only where the request could be sent again.
                if policy == "off" && *request != "get" {
                    continue;
                }
                cases.push(
                    http(format!("retries/{failure}/{request}/{policy}"))
                        .defaults(&format!(
                            "timeout server 300ms\ntimeout client 900ms\nretries 1\nretry-on {words}"
                        ))
                        .client(script().send(bytes).look(700).send(get("/next")).look(300))
                        .server_each(vec![first.clone(), answers(ok("again"))]),
                );
            }
        }
        // Every connection fails in the same way.
        cases.push(
            http(format!("retries/{failure}/get/always"))
                .defaults(&format!("timeout server 200ms\nretries 2\nretry-on {word}"))
                .client(script().send(get("/r")).look(900))
                .server(first.clone()),
        );
        // The first server fails, the second answers.
        cases.push(
            http(format!("retries/{failure}/get/redispatched"))
                .defaults(&format!("timeout server 300ms\nretries 1\noption redispatch 1\nretry-on {word}"))
                .client(script().send(get("/r")).look(900))
                .server_each(vec![first.clone(), answers(ok("again"))])
                .server(answers(ok("other"))),
        );
    }
    for (name, lines) in [
        ("none", "retries 0"),
        ("one", "retries 1"),
        ("two", "retries 2"),
        ("not-conn", "retries 2\nretry-on 503"),
    ] {
        cases.push(
            http(format!("retries/refused/{name}"))
                .defaults(lines)
                .client(script().send(get("/r")).end())
                .server_of("", Kind::Refuses),
        );
        cases.push(
            tcp(format!("retries/refused/{name}/tcp"))
                .defaults(lines)
                .client(script().send("hello").end())
                .server_of("", Kind::Refuses),
        );
    }
    cases.push(
        http("retries/refused/disabled-by-rule")
            .defaults("retries 1\nretry-on all-retryable-errors")
            .front("http-request disable-l7-retry")
            .client(script().send(get("/r")).end())
            .server_of("", Kind::Refuses),
    );
    cases.push(
        http("retries/l7/disabled-by-rule")
            .defaults("retries 1\nretry-on all-retryable-errors")
            .front("http-request disable-l7-retry")
            .client(script().send(get("/r")).look(400))
            .server_each(vec![script().head().close(), answers(ok("again"))]),
    );
    let big = "x".repeat(20_000);
    cases.push(
        http("retries/l7/too-big")
            .defaults("retries 1\nretry-on all-retryable-errors")
            .client(script().send(post("/r", &big)).look(600))
            .server_each(vec![script().message().close(), answers(ok("again"))]),
    );
    cases
}

fn redispatch() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, lines) in [
        ("off", "retries 1"),
        ("last", "retries 2\noption redispatch"),
        ("each", "retries 2\noption redispatch 1"),
        ("second", "retries 3\noption redispatch 2"),
        ("no-retries", "retries 0\noption redispatch"),
    ] {
        cases.push(
            http(format!("redispatch/refused/{name}"))
                .defaults(lines)
                .back("balance roundrobin")
                .client(script().send(get("/1")).message().send(get("/2")).message())
                .server_of("", Kind::Refuses)
                .server(answers(ok("other"))),
        );
        cases.push(
            http(format!("redispatch/all-refused/{name}"))
                .defaults(lines)
                .client(script().send(get("/1")).end())
                .server_of("", Kind::Refuses)
                .server_of("", Kind::Refuses),
        );
        cases.push(
            http(format!("redispatch/backup/{name}"))
                .defaults(lines)
                .client(script().send(get("/1")).look(2300))
                .server_of("", Kind::Refuses)
                .server_with("backup", answers(ok("backup"))),
        );
        cases.push(
            tcp(format!("redispatch/refused/{name}/tcp"))
                .defaults(lines)
                .client(script().send("hello").look(2300))
                .server_of("", Kind::Refuses)
                .server(script().until("hello").send("bye").end()),
        );
        cases.push(
            http(format!("redispatch/cookie/{name}"))
                .defaults(lines)
                .back("cookie S insert indirect")
                .client(script().send("GET / HTTP/1.1\r\nHost: h\r\nCookie: S=a\r\n\r\n").look(2300))
                .server_of("cookie a", Kind::Refuses)
                .server_with("cookie b", answers(ok("b"))),
        );
    }
    cases.push(
        http("redispatch/cookie/persist")
            .back("cookie S insert indirect\noption persist")
            .client(script().send("GET / HTTP/1.1\r\nHost: h\r\nCookie: S=a\r\n\r\n").end())
            .server_with("cookie a disabled", answers(ok("a")))
            .server_with("cookie b", answers(ok("b"))),
    );
    cases.push(
        http("redispatch/no-server")
            .client(script().send(get("/")).end())
            .server_with("disabled", answers(ok("a"))),
    );
    cases.push(
        tcp("redispatch/no-server/tcp").client(script().send("x").end()).server_with("disabled", script()),
    );
    cases
}

fn queues() -> Vec<Case> {
    let mut cases = Vec::new();
    let slow = script().forever(script().message().tell("first").pause(150).send(ok("slow")));
    cases.push(
        http("queue/one-waits")
            .client(script().send(get("/1")).message())
            .client(script().after("first").send(get("/2")).message())
            .server_with("maxconn 1", slow.clone()),
    );
    cases.push(
        http("queue/one-waits/close")
            .back("option http-server-close")
            .client(script().send(get("/1")).message())
            .client(script().after("first").send(get("/2")).message())
            .server_with("maxconn 1", slow.clone()),
    );
    cases.push(
        http("queue/full")
            .client(script().send(get("/1")).message())
            .client(script().after("first").send(get("/2")).tell("second").message())
            .client(script().after("second").pause(40).send(get("/3")).message())
            .server_with("maxconn 1 maxqueue 1", slow.clone()),
    );
    cases.push(
        http("queue/full/redispatched")
            .defaults("option redispatch")
            .client(script().send(get("/1")).message())
            .client(script().after("first").send(get("/2")).message())
            .server_with("maxconn 1 maxqueue 1", slow.clone())
            .server_with("maxconn 1 weight 1", answers(ok("other"))),
    );
    cases.push(
        http("queue/backend-and-cookie")
            .back("cookie S insert indirect")
            .client(script().send("GET /1 HTTP/1.1\r\nHost: h\r\nCookie: S=a\r\n\r\n").message())
            .client(
                script().after("first").send("GET /2 HTTP/1.1\r\nHost: h\r\nCookie: S=a\r\n\r\n").message(),
            )
            .server_with("cookie a maxconn 1", slow.clone())
            .server_with("cookie b maxconn 1", answers(ok("b"))),
    );
    cases.push(
        http("queue/fullconn")
            .back("fullconn 10")
            .client(script().send(get("/1")).message())
            .client(script().after("first").send(get("/2")).message())
            .server_with("maxconn 4 minconn 1", slow.clone()),
    );
    cases.push(
        http("queue/priority")
            .front("http-request set-priority-class int(-5) if { path /urgent }")
            .client(script().send(get("/1")).message())
            .client(script().after("first").send(get("/2")).tell("second").message())
            .client(script().after("second").pause(40).send(get("/urgent")).message())
            .server_with("maxconn 1", slow.clone()),
    );
    cases.push(
        http("queue/server-fails")
            .defaults("retries 0\ntimeout server 300ms\ntimeout queue 1s")
            .client(script().send(get("/1")).message())
            .client(script().after("first").send(get("/2")).message())
            .server_with("maxconn 1", script().message().tell("first").end()),
    );
    cases.push(
        http("queue/keep-alive-clients")
            .client(script().send(get("/1")).message().tell("first").pause(200).send(get("/1b")).message())
            .client(script().after("first").send(get("/2")).message())
            .server_with("maxconn 1", answers(ok("x"))),
    );
    cases.push(
        tcp("queue/tcp")
            .client(script().send("1").until("first").close())
            .client(script().after("taken").send("2").until("first").close())
            .server_with("maxconn 1", script().exactly(1).tell("taken").pause(150).send("first").end()),
    );
    cases.push(
        http("queue/frontend-maxconn")
            .front("maxconn 1")
            .client(script().send(get("/1")).message().tell("first").pause(200).close())
            .client(script().after("first").send(get("/2")).message())
            .plain_server(),
    );
    cases.push(
        http("queue/rate-limit")
            .front("rate-limit sessions 1")
            .client(script().send(get("/1")).message().tell("first").pause(100).close())
            .client(script().after("first").send(get("/2")).message())
            .plain_server(),
    );
    cases
}

fn reuse() -> Vec<Case> {
    let mut cases = Vec::new();
    for mode in ["never", "safe", "aggressive", "always"] {
        for (option, line) in [
            ("keep-alive", "option http-keep-alive"),
            ("server-close", "option http-server-close"),
            ("close", "option httpclose"),
        ] {
            cases.push(
                http(format!("reuse/{mode}/{option}"))
                    .defaults(line)
                    .back(&format!("http-reuse {mode}"))
                    .client(
                        script()
                            .send(get("/1"))
                            .message()
                            .tell("first")
                            .pause(60)
                            .send(get("/2"))
                            .look(60)
                            .tell("second"),
                    )
                    .client(script().after("second").send(get("/3")).message().send(get("/4")).look(60))
                    .server(answers(ok("x"))),
            );
        }
        cases.push(
            http(format!("reuse/{mode}/after-post"))
                .back(&format!("http-reuse {mode}"))
                .client(script().send(post("/1", "abc")).message().tell("first"))
                .client(script().after("first").send(post("/2", "abc")).message())
                .server(answers(ok("x"))),
        );
        cases.push(
            http(format!("reuse/{mode}/two-clients-alive"))
                .back(&format!("http-reuse {mode}"))
                .client(
                    script().send(get("/1")).message().tell("first").hear("second").send(get("/3")).message(),
                )
                .client(script().after("first").send(get("/2")).message().tell("second"))
                .server(answers(ok("x"))),
        );
    }
    for (name, options) in [
        ("pool-max-conn-0", "pool-max-conn 0"),
        ("max-reuse-0", "max-reuse 0"),
        ("max-reuse-1", "max-reuse 1"),
        // The connection is closed at the third purge, well before it is asked for.
        ("pool-purge-delay", "pool-purge-delay 60ms"),
        ("pool-low-conn", "pool-low-conn 1"),
    ] {
        let case = http(format!("reuse/server-option/{name}"))
            .client(script().send(get("/1")).message().tell("first"))
            .client(script().after("first").pause(300).send(get("/2")).message().send(get("/3")).message())
            .server_with(options, answers(ok("x")));
        // A process of its own: beside servers with other delays, the reference closes connections later.
        cases.push(if name == "pool-purge-delay" { case.global("maxconn 1000") } else { case });
    }
    for (name, lines) in [
        ("prefer-last-server", "balance roundrobin\noption prefer-last-server"),
        ("no-prefer-last-server", "balance roundrobin\nno option prefer-last-server"),
        ("auth", "balance roundrobin"),
    ] {
        let field = if name == "auth" { "Authorization: NTLM x\r\n" } else { "" };
        let request = format!("GET / HTTP/1.1\r\nHost: h\r\n{field}\r\n");
        cases.push(
            http(format!("reuse/{name}"))
                .back(lines)
                .client(script().send(&request).message().send(&request).message().send(&request).message())
                .server(answers(ok("a")))
                .server(answers(ok("b"))),
        );
    }
    for (name, field) in
        [("401-ntlm", "WWW-Authenticate: NTLM\r\n"), ("401-basic", "WWW-Authenticate: Basic\r\n")]
    {
        let response = format!("HTTP/1.1 401 No\r\n{field}Content-Length: 0\r\n\r\n");
        cases.push(
            http(format!("reuse/{name}"))
                .client(
                    script().send(get("/1")).message().tell("first").hear("second").send(get("/3")).message(),
                )
                .client(script().after("first").send(get("/2")).message().tell("second"))
                .server(answers(&response)),
        );
    }
    cases
}

fn balance() -> Vec<Case> {
    let mut cases = Vec::new();
    let requests: Vec<String> =
        ["/a?k=1", "/b/c/d?k=2", "/b/c/e?k=3", "/a;p?k=1", "/zz", "/", "/a/b/c/d/e/f"]
            .iter()
            .map(|path| format!("GET {path} HTTP/1.1\r\nHost: {}.example\r\nX-K: {path}\r\n\r\n", path.len()))
            .collect();
    for (name, line) in [
        ("roundrobin", "balance roundrobin"),
        ("static-rr", "balance static-rr"),
        ("leastconn", "balance leastconn"),
        ("first", "balance first"),
        ("source", "balance source"),
        ("uri", "balance uri"),
        ("uri-depth", "balance uri depth 2"),
        ("uri-len", "balance uri len 3"),
        ("uri-whole", "balance uri whole"),
        ("uri-consistent", "balance uri\nhash-type consistent"),
        ("uri-sdbm-avalanche", "balance uri\nhash-type map-based sdbm avalanche"),
        ("uri-djb2", "balance uri\nhash-type consistent djb2"),
        ("uri-wt6", "balance uri\nhash-type map-based wt6"),
        ("uri-crc32", "balance uri\nhash-type map-based crc32"),
        ("url-param", "balance url_param k"),
        ("hdr", "balance hdr(x-k)"),
        ("hdr-host-domain", "balance hdr(host) use_domain_only"),
        ("hash", "balance hash path"),
        ("weights", "balance roundrobin"),
    ] {
        let script = requests.iter().fold(script(), |script, request| script.send(request).message());
        let options = if name == "weights" { ["weight 3", "weight 1", "weight 2"] } else { [""; 3] };
        cases.push(
            http(format!("balance/{name}"))
                .back(line)
                .client(script)
                .server_with(options[0], answers(ok("1")))
                .server_with(options[1], answers(ok("2")))
                .server_with(options[2], answers(ok("3"))),
        );
    }
    cases
}
