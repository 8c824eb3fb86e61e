//! Rules of each ruleset: what ends an exchange, what edits it, what waits.

use crate::case::{Case, http, tcp};
use crate::script::{answers, get, ok, post, script};

const PART: &str = "POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n12345";

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    cases.extend(finals());
    cases.extend(edits());
    cases.extend(connection_rules());
    cases.extend(bodies());
    cases
}

/// Rules that end an exchange, with requests whose body is in different states.
fn finals() -> Vec<Case> {
    let requests: [(&str, String); 6] = [
        ("get", get("/r")),
        ("head", "HEAD /r HTTP/1.1\r\nHost: h\r\n\r\n".into()),
        ("post", post("/r", "hello")),
        ("post-partly", PART.into()),
        (
            "chunked",
            "POST /r HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n".into(),
        ),
        ("1.0", "GET /r HTTP/1.0\r\n\r\n".into()),
    ];
    let rules = [
        ("deny", "http-request deny"),
        ("deny-status", "http-request deny deny_status 429"),
        ("deny-headers", "http-request deny deny_status 404 hdr x-a %[path]"),
        ("deny-string", "http-request deny status 400 content-type text/plain string nope"),
        ("return", "http-request return status 200 content-type text/plain string hello"),
        ("return-empty", "http-request return status 204"),
        (
            "return-lf",
            "http-request return status 200 content-type text/plain lf-string \"%[path] %HM\" hdr x-b %[method]",
        ),
        ("redirect", "http-request redirect location /elsewhere"),
        ("redirect-prefix", "http-request redirect prefix http://other code 301"),
        ("redirect-scheme", "http-request redirect scheme https code 308"),
        ("redirect-cookie", "http-request redirect location /x set-cookie A=1 drop-query"),
        ("reject", "http-request reject"),
        ("silent-drop", "http-request silent-drop"),
        ("auth", "http-request auth realm here"),
        ("backend-deny", ""),
        ("backend-return", ""),
        ("backend-redirect", ""),
        ("backend-auth", ""),
        ("backend-silent-drop", ""),
        ("response-deny", ""),
        ("response-return", ""),
        ("errorfile-503", ""),
    ];
    let mut cases = Vec::new();
    for (rule, line) in rules {
        for (request, bytes) in &requests {
            let case = http(format!("rules/{rule}/{request}"))
                .defaults("timeout client 700ms")
                .client(script().send(bytes).look(150).send(get("/next")).look(200));
            let case = match rule {
                "backend-deny" => case.back("http-request deny"),
                "backend-return" => case.back("http-request return status 200"),
                "backend-redirect" => case.back("http-request redirect location /elsewhere"),
                "backend-auth" => case.back("http-request auth realm there"),
                "backend-silent-drop" => case.back("http-request silent-drop"),
                "response-deny" => case.back("http-response deny"),
                "response-return" => case.back("http-response return status 210 content-type text/plain string mine"),
                "errorfile-503" => case.back("http-request deny deny_status 503\nhttp-error status 503 content-type text/plain string own hdr x-e 1"),
                _ => case.front(line),
            };
            let response = if *request == "head" {
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n".into()
            } else {
                ok("hello")
            };
            cases.push(case.server(answers(response)));
        }
    }
    cases.push(
        http("rules/monitor-uri")
            .front("monitor-uri /m")
            .client(script().send(get("/m")).look(50).send(get("/n")))
            .plain_server(),
    );
    cases.push(
        http("rules/monitor-fail")
            .front("monitor-uri /m\nmonitor fail if { always_true }")
            .client(script().send(get("/m")))
            .plain_server(),
    );
    for (name, line) in [
        ("errorloc", "errorloc 403 /sorry"),
        ("errorloc303", "errorloc303 403 /sorry"),
        ("http-error", "http-error status 403 content-type text/plain lf-string \"no %[path]\""),
        ("hide", "http-error status 403 default-errorfiles"),
    ] {
        let case = http(format!("rules/errors/{name}")).front(line).front("http-request deny");
        cases.push(case.client(script().send(get("/"))).plain_server());
    }
    cases
}

/// Rules that change a message.
fn edits() -> Vec<Case> {
    let rules = [
        ("set-header", "http-request set-header X-A \"%[path]-%[method]\""),
        ("add-header", "http-request add-header X-Old more"),
        ("del-header", "http-request del-header x-old"),
        ("del-header-beg", "http-request del-header x- -m beg"),
        ("del-header-reg", "http-request del-header ^x.*d$ -m reg"),
        ("replace-header", "http-request replace-header X-Old (.)(.*) \\2\\1"),
        ("replace-value", "http-request replace-value X-List ^b$ B"),
        ("set-method", "http-request set-method PUT"),
        ("set-path", "http-request set-path /new%[path]"),
        ("set-pathq", "http-request set-pathq /new?z=1"),
        ("set-query", "http-request set-query a=b"),
        ("set-uri", "http-request set-uri http://other/x?y"),
        ("replace-path", "http-request replace-path (.*) /v1\\1"),
        ("replace-pathq", "http-request replace-pathq ([^?]*)(\\?.*)? \\1/end\\2"),
        ("replace-uri", "http-request replace-uri (.*) /all\\1"),
        ("set-var", "http-request set-var(txn.x) path,upper\nhttp-request set-header X-V %[var(txn.x)]"),
        (
            "set-var-fmt",
            "http-request set-var-fmt(txn.x) \"%[path]!\"\nhttp-request set-header X-V %[var(txn.x)]",
        ),
        ("set-host", "http-request set-header Host other"),
        (
            "strict",
            "http-request set-header X-Big %[req.hdr(x-old),concat(aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa)]",
        ),
        (
            "if",
            "http-request set-header X-A 1 if { path_beg /a } { method GET }\nhttp-request set-header X-B 1 unless { path /a }",
        ),
        ("capture", "http-request capture path len 10"),
        ("early-hint", "http-request early-hint Link \"<a>\""),
        ("set-src", "http-request set-src req.hdr(x-ip)\nhttp-request set-header X-S %[src]"),
        ("set-dst-port", "http-request set-dst-port int(99)\nhttp-request set-header X-D %[dst_port]"),
        ("pause", "http-request pause 100"),
        ("wait-for-body", "http-request wait-for-body time 100"),
        ("set-log-level", "http-request set-log-level silent"),
        ("set-nice", "http-request set-nice 5"),
        ("cache-free", "http-request set-header Cache-Control no-cache"),
        ("forwardfor", "option forwardfor"),
        ("forwardfor-header", "option forwardfor header X-Client if-none"),
        ("forwardfor-except", "option forwardfor except 127.0.0.0/8"),
        ("originalto", "option originalto"),
        ("forwarded", ""),
        ("unique-id", "unique-id-format %{+X}o%ci\nunique-id-header X-Id"),
        (
            "unique-id-of-a-header",
            "unique-id-format \"x   y %[bin(0d0a7f)]|%[req.hdr(x-none)]|%{+Q}[req.hdr(x-old)]|%ID\"\nunique-id-header X-Id",
        ),
        ("response-set", "http-response set-header X-R %[status]"),
        ("response-add", "http-response add-header X-Two more"),
        ("response-del", "http-response del-header x-two"),
        ("response-replace", "http-response replace-value X-Two ^a$ A"),
        ("response-status", "http-response set-status 418 reason Teapot"),
        ("response-capture", "declare capture response len 10\nhttp-response capture res.hdr(x-two) id 0"),
        ("response-pause", "http-response pause 100"),
        ("after-response", "http-after-response set-header X-After 1"),
        ("after-response-status", "http-after-response set-status 201"),
        ("after-response-del", "http-after-response del-header x-two"),
        ("both-captures", "capture request header X-Old len 5\ncapture response header X-Two len 5"),
    ];
    let request = "GET /a//b?c=d HTTP/1.1\r\nHost: h\r\nX-Old: old\r\nX-List: a, b,c\r\nX-Ip: 10.1.2.3\r\nx-upper: U\r\n\r\n";
    let response = "HTTP/1.1 200 OK\r\nX-Two: a\r\nX-Two: b\r\nContent-Length: 2\r\n\r\nhi";
    let mut cases = Vec::new();
    for (rule, lines) in rules {
        let case = http(format!("edits/{rule}"));
        let case = if rule == "forwarded" {
            case.back("option forwardfor\noption originalto\noption forwarded proto host by for")
        } else {
            case.front(lines)
        };
        cases.push(
            case.client(script().send(request).message().send(request).message()).server(answers(response)),
        );
    }
    cases
}

fn connection_rules() -> Vec<Case> {
    let rules = [
        ("connection-reject", "tcp-request connection reject"),
        ("connection-silent-drop", "tcp-request connection silent-drop"),
        ("session-reject", "tcp-request session reject"),
        ("session-silent-drop", "tcp-request session silent-drop"),
        ("content-reject", "tcp-request content reject"),
        ("content-silent-drop", "tcp-request content silent-drop"),
        (
            "content-reject-if-data",
            "tcp-request inspect-delay 200ms\ntcp-request content reject if { req.len gt 3 }",
        ),
        ("content-accept", "tcp-request content accept"),
        ("response-reject", ""),
        ("response-close", ""),
        ("response-reject-if", ""),
        ("response-silent-drop", ""),
        ("response-waits", ""),
        ("response-waits-for-payload", ""),
    ];
    let mut cases = Vec::new();
    // A response that is not complete yet.
    cases.push(
        http("rules/response-waits-to-the-end")
            .back("tcp-response inspect-delay 200ms\ntcp-response content reject if WAIT_END")
            .client(script().send(get("/")).look(400))
            .server(script().message().send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345").end()),
    );
    for (rule, lines) in rules {
        for mode in ["tcp", "http"] {
            let name = format!("rules/{rule}/{mode}");
            let case = if mode == "tcp" { tcp(name) } else { http(name) };
            let case = match rule {
                "response-reject" => case.back("tcp-response content reject"),
                "response-close" => case.back("tcp-response content close"),
                "response-reject-if" => case.back(
                    "tcp-response inspect-delay 200ms\ntcp-response content reject if { res.len gt 3 }",
                ),
                "response-silent-drop" => case.back("tcp-response content silent-drop"),
                // It is never known to be false before the time is up.
                "response-waits" => case
                    .back("tcp-response inspect-delay 200ms\ntcp-response content reject if { res.len gt 1000 }"),
                "response-waits-for-payload" => case.back(
                    "tcp-response inspect-delay 200ms\ntcp-response content reject if { res.payload(0,1000) -m found }",
                ),
                _ => case.front(lines),
            };
            let case = if mode == "tcp" {
                case.client(script().send("hello").look(400))
                    .server(script().until("hello").send("world").end())
            } else {
                case.client(script().send(get("/")).look(200).send(get("/next")).look(200)).plain_server()
            };
            cases.push(case);
        }
    }
    cases
}

/// Rules that look at bodies.
fn bodies() -> Vec<Case> {
    let rule = "http-request wait-for-body time 300ms\nhttp-request deny if { req.body -m sub evil }";
    let chunked =
        |chunks: &str| format!("POST /r HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}");
    let bodies: [(&str, String); 8] = [
        ("sized", post("/r", "an evil thing")),
        ("harmless", post("/r", "a nice thing")),
        ("chunked", chunked("4\r\nevil\r\n0\r\n\r\n")),
        ("cut", chunked("2\r\nev\r\n2\r\nil\r\n0\r\n\r\n")),
        ("extension", chunked("4;evil\r\nnice\r\n0\r\n\r\n")),
        ("trailer", chunked("4\r\nnice\r\n0\r\nx: evil\r\n\r\n")),
        ("next-request", format!("{}{}", post("/r", "nice"), post("/s", "evil"))),
        ("get-then-evil", format!("{}{}", get("/r"), "GET /evil HTTP/1.1\r\nHost: evil\r\n\r\n")),
    ];
    let mut cases = Vec::new();
    for (name, bytes) in bodies {
        cases.push(
            http(format!("bodies/{name}"))
                .front(rule)
                .client(script().send(&bytes).look(150).send(get("/next")).look(100))
                .plain_server(),
        );
        cases.push(
            http(format!("bodies/{name}/logged"))
                .front("option http-buffer-request\nhttp-request set-header X-Len \"%[req.body_len] %[req.body_size] %[req.body]\"")
                .client(script().send(&bytes).look(150))
                .plain_server(),
        );
    }
    let big = post("/r", &"x".repeat(40_000));
    cases.push(
        http("bodies/bigger-than-buffer").front(rule).client(script().send(big).look(500)).plain_server(),
    );
    cases.push(
        http("bodies/response")
            .back("http-response wait-for-body time 300ms\nhttp-response deny if { res.body -m sub evil }")
            .client(script().send(get("/")).look(200))
            .server(answers(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nev\r\n2\r\nil\r\n0\r\n\r\n",
            )),
    );
    cases
}
