//! Persistence by cookie.

use crate::case::{Case, http};
use crate::script::{answers, get, script};

pub fn cases() -> Vec<Case> {
    let modes = [
        ("insert", "cookie S insert"),
        ("insert-indirect", "cookie S insert indirect"),
        ("insert-nocache", "cookie S insert indirect nocache"),
        ("insert-postonly", "cookie S insert postonly"),
        ("insert-preserve", "cookie S insert preserve"),
        ("insert-httponly-secure", "cookie S insert httponly secure"),
        ("insert-domain", "cookie S insert domain .example.com"),
        ("insert-attr", "cookie S insert attr SameSite=Strict"),
        ("insert-dynamic", "cookie S insert dynamic\ndynamic-cookie-key secret"),
        ("rewrite", "cookie S rewrite"),
        ("prefix", "cookie S prefix"),
        ("prefix-indirect", "cookie S prefix indirect nocache"),
        ("passive", "cookie S"),
        ("passive-indirect", "cookie S indirect"),
    ];
    let requests = [
        ("none", ""),
        ("known", "Cookie: S=b\r\n"),
        ("unknown", "Cookie: S=zz\r\n"),
        ("empty", "Cookie: S=\r\n"),
        ("among-others", "Cookie: x=1; S=b; y=2\r\n"),
        ("prefixed", "Cookie: S=b~value\r\n"),
        ("twice", "Cookie: S=a\r\nCookie: S=b\r\n"),
        ("other", "Cookie: T=b\r\n"),
    ];
    let responses = [
        ("plain", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"),
        (
            "sets",
            "HTTP/1.1 200 OK\r\nSet-Cookie: S=mine; path=/\r\nSet-Cookie: o=1\r\nContent-Length: 1\r\n\r\nx",
        ),
    ];
    let mut cases = Vec::new();
    for (mode, line) in modes {
        for (request, field) in requests {
            for (response, bytes) in responses {
                // The requests that matter most, with both responses; the others with one.
                if response == "sets" && !["none", "known", "prefixed"].contains(&request) {
                    continue;
                }
                let (a, b) = if mode.contains("dynamic") { ("", "") } else { ("cookie a", "cookie b") };
                cases.push(
                    http(format!("cookies/{mode}/{request}/{response}"))
                        .front("capture cookie S len 20")
                        .back(line)
                        .client(script().send(format!("GET / HTTP/1.1\r\nHost: h\r\n{field}\r\n")).message())
                        .server_with(a, answers(bytes))
                        .server_with(b, answers(bytes)),
                );
            }
        }
    }
    cases.push(
        http("cookies/post")
            .back("cookie S insert postonly")
            .client(script().send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n").message())
            .server_with("cookie a", answers(responses[0].1)),
    );
    cases.push(
        http("cookies/ignored-by-rule")
            .back("cookie S insert indirect\nignore-persist if { path /i }")
            .client(script().send("GET /i HTTP/1.1\r\nHost: h\r\nCookie: S=b\r\n\r\n").message())
            .server_with("cookie a", answers(responses[0].1))
            .server_with("cookie b", answers(responses[0].1)),
    );
    cases.push(
        http("cookies/forced")
            .back("cookie S insert indirect\nforce-persist if { path / }")
            .client(script().send("GET / HTTP/1.1\r\nHost: h\r\nCookie: S=b\r\n\r\n").message())
            .server_with("cookie a", answers(responses[0].1))
            .server_with("cookie b disabled", answers(responses[0].1)),
    );
    cases.push(
        http("cookies/use-server")
            .back("cookie S insert indirect\nuse-server s1 if { path /two }")
            .client(script().send(get("/two")).message().send(get("/one")).message())
            .server_with("cookie a", answers(responses[0].1))
            .server_with("cookie b", answers(responses[0].1)),
    );
    for (name, status) in
        [("200", "200 OK"), ("302", "302 Found"), ("304", "304 Not Modified"), ("404", "404 No")]
    {
        let response = format!("HTTP/1.1 {status}\r\nETag: \"x\"\r\nContent-Length: 0\r\n\r\n");
        cases.push(
            http(format!("cookies/nocache/{name}"))
                .back("cookie S insert nocache")
                .client(script().send(get("/")).look(100))
                .server_with("cookie a", answers(response)),
        );
    }
    for (name, fields) in [
        ("public", "Cache-Control: public"),
        ("public-fresh", "Cache-Control: public, max-age=9"),
        ("public-shared", "Cache-Control: Public\r\nCache-Control: s-maxage=9"),
        ("public-stale", "Cache-Control: public, max-age=0"),
        ("public-private", "Cache-Control: public, max-age=9, private"),
        ("fresh", "Cache-Control: max-age=9"),
    ] {
        for (method, status) in [("GET", "200 OK"), ("GET", "201 Made"), ("POST", "200 OK")] {
            let response = format!("HTTP/1.1 {status}\r\n{fields}\r\nContent-Length: 0\r\n\r\n");
            let request = format!("{method} / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n");
            cases.push(
                http(format!("cookies/nocache/{name}/{method}-{}", &status[..3]))
                    .back("cookie S insert nocache")
                    .client(script().send(request).message())
                    .server_with("cookie a", answers(response)),
            );
        }
    }
    cases.push(
        http("cookies/redirected")
            .back("cookie S insert\nhttp-request redirect location /x set-cookie A=1")
            .client(script().send(get("/")).message())
            .server_with("cookie a", answers(responses[0].1)),
    );
    cases
}
