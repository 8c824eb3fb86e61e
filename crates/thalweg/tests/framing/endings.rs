//! The ways in which an exchange can end.

/// A way to end an exchange.
pub struct Ending {
    pub name: &'static str,
    /// Lines of the frontend that only concern its requests: `{if}` becomes the condition.
    pub rules: &'static str,
    /// What the server does with the request.
    pub act: Act,
    /// Nothing comes back before all of the body is there.
    pub needs_body: bool,
    /// Status of the answer; 0: the connection is closed without one.
    pub status: u16,
    /// Another status that is right when the body came in pieces.
    pub or: u16,
    /// After a body that was sent whole, the connection is kept.
    pub keeps: bool,
    pub method: &'static str,
    /// More header fields.
    pub fields: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Reads the body, then sends this.
    Answer(&'static str),
    /// Sends this when it has the head, then reads the body.
    Early(&'static str),
    /// Sends this when it has the head, then closes.
    EarlyClose(&'static str),
    /// Reads the body, sends this, and closes.
    Close(&'static str),
    /// Resets the connection when it has the head.
    ResetAtHead,
    /// Reads the body and never answers.
    Silent,
    /// Fails the first time, as above; answers the second time.
    FailOnce(&'static str),
}

pub const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

const NO: &str = "HTTP/1.1 413 No\r\nContent-Length: 2\r\n\r\nno";

const NO_CLOSE: &str = "HTTP/1.1 413 No\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno";

impl Ending {
    /// A rule that ends the exchange.
    const fn rule(name: &'static str, rules: &'static str, status: u16, keeps: bool) -> Ending {
        Ending {
            name,
            rules,
            act: Act::Answer(OK),
            needs_body: false,
            status,
            or: status,
            keeps,
            method: "POST",
            fields: "",
        }
    }

    /// Something the server does.
    const fn server(name: &'static str, act: Act, status: u16, keeps: bool) -> Ending {
        let needs_body = matches!(act, Act::Answer(_) | Act::Close(_) | Act::Silent);
        Ending { name, rules: "", act, needs_body, status, or: status, keeps, method: "POST", fields: "" }
    }

    const fn under(self, rules: &'static str) -> Ending {
        Ending { rules, ..self }
    }

    /// What is right, too, when the body came in pieces: it is not there to be sent again.
    const fn or(self, or: u16) -> Ending {
        Ending { or, ..self }
    }

    const fn needs_body(self) -> Ending {
        Ending { needs_body: true, ..self }
    }

    const fn acts(self, act: Act) -> Ending {
        Ending { act, ..self }
    }

    const fn asks(self, method: &'static str, fields: &'static str) -> Ending {
        Ending { method, fields, ..self }
    }
}

pub fn endings() -> Vec<Ending> {
    const EXPECT: &str = "Expect: 100-continue\r\n";
    let rule = Ending::rule;
    let server = Ending::server;
    vec![
        rule("deny", "http-request deny {if}", 403, true),
        rule("deny-status", "http-request deny deny_status 429 {if}", 429, true),
        rule("return", "http-request return status 200 content-type text/plain string x {if}", 200, true),
        rule("return-expect", "http-request return status 200 {if}", 200, true).asks("POST", EXPECT),
        rule("redirect", "http-request redirect location /elsewhere {if}", 302, true),
        rule("redirect-line", "redirect location /elsewhere {if}", 302, true),
        rule("auth", "http-request auth {if}", 401, true),
        rule("reject", "http-request reject {if}", 0, false),
        rule("content-reject", "tcp-request content reject {if}", 0, false),
        rule("silent-drop", "http-request silent-drop {if}", 0, false),
        rule("tarpit", "http-request tarpit {if}", 500, false),
        rule("wait-deny", "http-request wait-for-body time 10s {if}\nhttp-request deny {if}", 403, true)
            .needs_body(),
        rule(
            "wait-some-deny",
            "http-request wait-for-body time 10s at-least 1 {if}\nhttp-request deny {if}",
            403,
            true,
        )
        .needs_body(),
        rule(
            "wait-return-expect",
            "http-request wait-for-body time 10s {if}\nhttp-request return status 200 {if}",
            200,
            true,
        )
        .needs_body()
        .asks("POST", EXPECT),
        rule("look-deny", "http-request deny if { req.body_len ge 0 } {and}", 403, true),
        rule("no-server", "use_backend empty {if}", 503, true),
        rule("refused", "use_backend refused {if}", 503, true),
        rule("redispatched", "use_backend redispatched {if}", 200, true).needs_body(),
        rule("queue", "use_backend full {if}", 503, true),
        rule("server-redirect", "use_backend redirecting {if}", 302, true).asks("GET", ""),
        server("ok", Act::Answer(OK), 200, true),
        server("ok-expect", Act::Answer(OK), 200, true).asks("POST", EXPECT),
        server("put", Act::Answer(OK), 200, true).asks("PUT", ""),
        server("head", Act::Answer("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"), 200, true)
            .asks("HEAD", ""),
        server("204", Act::Answer("HTTP/1.1 204 No\r\n\r\n"), 204, true),
        server("204-length", Act::Answer("HTTP/1.1 204 No\r\nContent-Length: 7\r\n\r\n"), 204, true),
        server("304", Act::Answer("HTTP/1.1 304 No\r\nContent-Length: 7\r\n\r\n"), 304, true),
        server(
            "chunked",
            Act::Answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nA: b\r\n\r\n"),
            200,
            true,
        ),
        server("until-close", Act::Close("HTTP/1.1 200 OK\r\n\r\nok"), 200, true),
        server("close-after", Act::Close(OK), 200, true).under("use_backend closing {if}"),
        server(
            "both-framings",
            Act::Close(
                "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            ),
            200,
            true,
        ),
        server(
            "more-than-length",
            Act::Close("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\n"),
            200,
            true,
        ),
        server(
            "interim",
            Act::Answer("HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
            200,
            true,
        ),
        server("interim-close", Act::Close("HTTP/1.1 103 Early\r\n\r\n"), 502, true),
        server("upgrade-refused", Act::Answer(OK), 200, true)
            .asks("POST", "Connection: Upgrade\r\nUpgrade: x\r\n"),
        server("connect-refused", Act::Answer(NO), 413, true).asks("CONNECT", ""),
        server("early", Act::Early(NO), 413, true),
        server("early-200", Act::Early(OK), 200, true),
        server("early-expect", Act::Early(NO), 413, true).asks("POST", EXPECT),
        server("early-close", Act::EarlyClose(NO), 413, true).under("use_backend closing {if}"),
        server("early-says-close", Act::EarlyClose(NO_CLOSE), 413, true),
        server("early-until-close", Act::EarlyClose("HTTP/1.1 200 OK\r\n\r\nok"), 200, true),
        server("close-at-head", Act::EarlyClose(""), 502, true),
        server("close", Act::Close(""), 502, true),
        server("close-expect", Act::EarlyClose(""), 502, true).asks("POST", EXPECT),
        server("reset", Act::ResetAtHead, 502, true),
        server("junk-at-head", Act::EarlyClose("junk\r\n\r\n"), 502, true),
        server("junk", Act::Close("junk\r\n\r\n"), 502, true),
        server("half-head", Act::Close("HTTP/1.1 200 OK\r\nContent-"), 502, true),
        server("bad-length", Act::Answer("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"), 502, true),
        server("silent", Act::Silent, 504, true).under("use_backend impatient {if}"),
        server("truncated", Act::Close("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nok"), 0, false),
        server(
            "bad-chunk",
            Act::Answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n"),
            502,
            true,
        ),
        server(
            "cut-chunk",
            Act::Close("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nok"),
            0,
            false,
        ),
        server("retry", Act::FailOnce(""), 200, true).under("use_backend retrying {if}").needs_body().or(502),
        server("retry-junk", Act::FailOnce("junk\r\n\r\n"), 200, true)
            .under("use_backend retrying {if}")
            .needs_body()
            .or(502),
        server("retry-503", Act::FailOnce("HTTP/1.1 503 No\r\nContent-Length: 3\r\n\r\nnot"), 200, true)
            .under("use_backend retrying {if}")
            .needs_body()
            .or(503),
        server("res-deny", Act::Answer(OK), 502, true).under("http-response deny {seen}"),
        server("res-deny-early", Act::Early(OK), 502, true).under("http-response deny {seen}"),
        server("res-return", Act::Answer(OK), 200, true).under("http-response return status 200 {seen}"),
        server("res-return-early", Act::Early(OK), 200, true).under("http-response return status 200 {seen}"),
        server("res-return-close", Act::EarlyClose(NO_CLOSE), 200, true)
            .under("http-response return status 200 {seen}"),
        server("res-redirect", Act::Answer(OK), 302, true)
            .under("http-response redirect location /elsewhere {seen}"),
        server("res-wait-deny", Act::Answer(OK), 502, true)
            .under("http-response wait-for-body time 10s {seen}\nhttp-response deny {seen}"),
        server(
            "res-wait-chunks-return",
            Act::Answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"),
            200,
            true,
        )
        .under("http-response wait-for-body time 10s {seen}\nhttp-response return status 200 {seen}"),
        server("res-status-204", Act::Answer(OK), 204, true).under("http-response set-status 204 {seen}"),
        rule("deny-early", "http-request deny {if}", 403, true).acts(Act::Early(OK)),
    ]
}
