//! Exchanges that become tunnels, and TCP.

use crate::case::{Case, http, tcp};
use crate::script::{answers, get, ok, script};

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let ask = "GET /ws HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\
               Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    let other = "GET /up HTTP/1.1\r\nHost: h\r\nUpgrade: other\r\nConnection: upgrade\r\n\r\n";
    let posted = "POST /up HTTP/1.1\r\nHost: h\r\nUpgrade: other\r\nConnection: upgrade\r\nContent-Length: 3\r\n\r\nabc";
    let switched = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\
                    Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
    let switched_other = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: other\r\nConnection: upgrade\r\n\r\n";
    for (name, request, response) in
        [("websocket", ask, switched), ("other", other, switched_other), ("post", posted, switched_other)]
    {
        let start = || script().message().send(response);
        cases.push(
            http(format!("upgrades/{name}/both-ways"))
                .client(script().send(request).head().send("ping").until("pong").half_close().end())
                .server(start().until("ping").send("pong").end().close()),
        );
        cases.push(
            http(format!("upgrades/{name}/eager-client"))
                .client(script().send(request).send("ping").until("pong").close())
                .server(start().until("ping").send("pong").end()),
        );
        cases.push(
            http(format!("upgrades/{name}/eager-server"))
                .client(script().send(request).until("first").send("ok").end())
                .server(start().send("first").until("ok").close()),
        );
        cases.push(
            http(format!("upgrades/{name}/server-resets"))
                .client(script().send(request).head().send("ping").end())
                .server(start().until("ping").reset()),
        );
        cases.push(
            http(format!("upgrades/{name}/client-resets"))
                .client(script().send(request).head().send("ping").until("pong").reset())
                .server(start().until("ping").send("pong").end()),
        );
        cases.push(
            http(format!("upgrades/{name}/refused"))
                .client(script().send(request).message().send(get("/next")))
                .server(answers("HTTP/1.1 400 No\r\nContent-Length: 2\r\n\r\nno")),
        );
        cases.push(
            http(format!("upgrades/{name}/ignored"))
                .client(script().send(request).message().send(get("/next")))
                .server(answers(ok("plain"))),
        );
        cases.push(
            http(format!("upgrades/{name}/server-close"))
                .defaults("option http-server-close")
                .client(script().send(request).head().send("ping").until("pong").half_close().end())
                .server(start().until("ping").send("pong").end().close()),
        );
        cases.push(
            http(format!("upgrades/{name}/denied"))
                .front("http-request deny")
                .client(script().send(request).look(60).send(get("/next")))
                .server(start()),
        );
    }
    // Keys that do not match.
    cases.push(
        http("upgrades/websocket/bad-key")
            .client(script().send(ask).look(300))
            .server(script().message().send(switched.replace("s3pP", "xxxx")).end()),
    );
    cases.push(
        http("upgrades/websocket/no-key")
            .client(
                script().send(ask.replace("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", "")).look(300),
            )
            .server(script().message().send(switched).end()),
    );
    let connect = "CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\n\r\n";
    for (name, response) in [
        ("200", "HTTP/1.1 200 OK\r\n\r\n"),
        ("200-length", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n"),
        ("204", "HTTP/1.1 204 OK\r\n\r\n"),
    ] {
        cases.push(
            http(format!("upgrades/connect/{name}"))
                .client(script().send(connect).head().send("ping").until("pong").half_close().end())
                .server(script().head().send(response).until("ping").send("pong").end().close()),
        );
    }
    for (name, response) in [
        ("407", "HTTP/1.1 407 No\r\nContent-Length: 2\r\n\r\nno"),
        ("502-chunked", "HTTP/1.1 502 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n"),
    ] {
        cases.push(
            http(format!("upgrades/connect/{name}"))
                .client(script().send(connect).message().send(get("/next")))
                .server(answers(response)),
        );
    }
    for (name, target) in [
        ("no-port", "CONNECT h HTTP/1.1\r\nHost: h\r\n\r\n"),
        ("path", "CONNECT /x HTTP/1.1\r\nHost: h\r\n\r\n"),
        ("length", "CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\nContent-Length: 3\r\n\r\nabc"),
        ("other-host", "CONNECT a:443 HTTP/1.1\r\nHost: b:443\r\n\r\n"),
        ("early-data", "CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\n\r\nearly"),
    ] {
        cases.push(
            http(format!("upgrades/connect/{name}"))
                .client(script().send(target).look(300))
                .server(script().head().send("HTTP/1.1 200 OK\r\n\r\n").look(150).close()),
        );
    }
    cases.extend(streams());
    cases
}

/// TCP proxies.
fn streams() -> Vec<Case> {
    let mut cases = Vec::new();
    cases.push(
        tcp("streams/echo")
            .client(script().send("hello").until("HELLO").send("more").until("MORE").half_close().end())
            .server(script().until("hello").send("HELLO").until("more").send("MORE").end().close()),
    );
    cases.push(
        tcp("streams/server-first")
            .client(script().until("220").send("QUIT").end())
            .server(script().send("220").until("QUIT").close()),
    );
    cases.push(
        tcp("streams/half-closed-both")
            .client(script().send("a").half_close().until("b").end())
            .server(script().until("a").end().pause(100).send("b").close()),
    );
    let big = "0123456789abcdef".repeat(20_000);
    cases.push(
        tcp("streams/big-up")
            .client(script().send(&big).half_close().end())
            .server(script().exactly(big.len()).end().send("done").close()),
    );
    cases.push(
        tcp("streams/big-down")
            .client(script().send("x").end())
            .server(script().until("x").send(&big).close()),
    );
    cases.push(
        tcp("streams/use-backend")
            .front("tcp-request inspect-delay 300ms\ntcp-request content accept if { req.len gt 4 }\nuse_backend o<n> if { req.payload(0,2) -m str he }")
            .more("backend o<n> from d<n>\nserver s1 <s1>\n")
            .client(script().send("hello").look(100))
            .server(script().until("hello").send("seen").close()),
    );
    cases.push(
        tcp("streams/option-clitcpka")
            .defaults("option clitcpka\noption srvtcpka\noption tcp-smart-accept\noption tcp-smart-connect")
            .client(script().send("hello").until("bye").close())
            .server(script().until("hello").send("bye").end()),
    );
    cases.push(
        tcp("streams/logasap")
            .defaults("option logasap")
            .client(script().send("hello").until("bye").pause(100).close())
            .server(script().until("hello").send("bye").end()),
    );
    for (name, line) in [
        ("nothing", ""),
        ("force-persist", "force-persist if { always_true }"),
        ("force-persist-not", "force-persist if { always_false }"),
        ("ignore-persist", "ignore-persist if { always_true }"),
        ("option-persist", "option persist"),
    ] {
        cases.push(
            tcp(format!("streams/use-disabled-server/{name}"))
                .back(&format!("{line}\nuse-server s1 if {{ always_true }}"))
                .client(script().send("hello").until("!").close())
                .server_with("disabled", script().exactly(5).send("first!").end())
                .server(script().exactly(5).send("second!").end()),
        );
    }
    for (name, line) in [
        ("dontlognull", "option dontlognull"),
        ("log-all", ""),
        ("early", "option dontlognull\noption logasap"),
    ] {
        cases.push(
            tcp(format!("streams/silent-client/{name}"))
                .defaults(line)
                .client(script().pause(80).close())
                .server(script().end()),
        );
        cases.push(
            tcp(format!("streams/talking-server/{name}"))
                .defaults(line)
                .client(script().until("hi").close())
                .server(script().send("hi").end()),
        );
    }
    cases
}
