//! Reverse HTTP: connections that servers make, and are asked on.

mod support;

use support::h2::{Client, Served};
use support::tls::Authority;
use support::{Conn, Proxy, Response, Server, Setup, each_driver, eventually, ok};

/// The public side: who connects to `priv` is asked for what comes to `fe`.
fn edge(server: &str, rule: &str) -> Setup {
    Setup::http(&format!(
        "frontend fe\nbind <@fe>\ndefault_backend be\nfrontend priv\nbind <@priv> proto h2\n\
         tcp-request session attach-srv be/dev {rule}\nbackend be\nserver dev rhttp@ {server}\n"
    ))
    .global("expose-experimental-directives\n")
}

fn ask(proxy: &Proxy, more: &str) -> Response {
    proxy.ask(&format!("GET /x HTTP/1.1\r\nHost: h.example\r\nConnection: close\r\n{more}\r\n"))
}

/// A server that connects by itself, and says what it was asked until the connection ends.
fn connect(proxy: &Proxy) -> std::thread::JoinHandle<()> {
    let mut served = Served::dialed(Conn::connect(proxy.addr("priv")));
    std::thread::spawn(move || {
        while let Some((id, asked)) = served.next_request() {
            served.answer(id, &asked.line);
            if asked.line.ends_with("/last") {
                return;
            }
        }
    })
}

/// Waits until a request is answered by a server.
fn answered(proxy: &Proxy, more: &str) -> String {
    eventually("a server is there", || {
        let response = ask(proxy, more);
        (response.status == 200).then(|| response.text())
    })
}

/// Waits until no server is there.
fn nobody(proxy: &Proxy) {
    eventually("no server is there", || (ask(proxy, "").status == 503).then_some(()));
}

#[test]
fn requests_go_to_who_connected() {
    each_driver(|io| {
        let proxy = edge("", "").start(io);
        assert_eq!(ask(&proxy, "").status, 503);
        assert!(proxy.http_log().starts_with("be/dev n/n/-1/-1/n 503 SC-- "));
        let serving = connect(&proxy);
        assert_eq!(answered(&proxy, ""), "GET https://h.example/x");
        // Several at once, and over an HTTP/2 connection.
        let mut client = Client::new(proxy.connect());
        let ids = [client.open("GET", "/a", &[], true), client.open("GET", "/b", &[], true)];
        let texts = ids.map(|id| client.answer(id).text());
        assert_eq!(texts, ["GET http://h.example/a", "GET http://h.example/b"]);
        client.get("/last");
        serving.join().unwrap();
        nobody(&proxy);
        // Another one takes its place.
        let serving = connect(&proxy);
        assert_eq!(answered(&proxy, ""), "GET https://h.example/x");
        drop((client, proxy));
        serving.join().unwrap();
    });
}

#[test]
fn names_tell_them_apart() {
    each_driver(|io| {
        let proxy = edge("pool-conn-name hdr(x-name)", "name src,ipmask(8)").start(io);
        let serving = connect(&proxy);
        assert_eq!(answered(&proxy, "X-Name: 127.0.0.0\r\n"), "GET https://h.example/x");
        assert_eq!(ask(&proxy, "X-Name: 10.0.0.0\r\n").status, 503);
        assert_eq!(ask(&proxy, "").status, 503);
        drop(proxy);
        serving.join().unwrap();
    });
}

/// A connection is of the thread that accepted it, until a request on another one needs it. What comes on it meanwhile goes with it.
#[test]
fn a_request_on_any_thread_finds_them() {
    each_driver(|io| {
        let proxy = Setup::http(
            "frontend fe\nbind <@one> thread 1\nbind <@two> thread 2\ndefault_backend be\n\
             frontend priv\nbind <@priv> proto h2 thread 1\ntcp-request session attach-srv be/dev\n\
             backend be\nserver dev rhttp@\n",
        )
        .global("expose-experimental-directives\n")
        .threads(2)
        .start(io);
        let mut served = Served::dialed(Conn::connect(proxy.addr("priv")));
        let serving = std::thread::spawn(move || {
            let (mut pings, mut rest) = (0, Vec::new());
            while let Some((id, asked)) = served.next_request() {
                served.conn.send(&rest);
                served.answer(id, &asked.line);
                if asked.line.ends_with("/last") {
                    rest.clear();
                    break;
                }
                // A frame of which some is received on one thread, and the rest on the other.
                served.h2.ping();
                pings += 1;
                let ping = std::mem::take(served.h2.output());
                let (begun, left) = ping.split_at(pings % ping.len());
                served.conn.send(begun);
                rest = left.to_vec();
            }
            while served.pongs < pings && served.more() {}
            (pings, served.pongs)
        });
        let ask = |port: &str, path: &str| {
            let mut conn = Conn::connect(proxy.addr(port));
            conn.send(format!("GET {path} HTTP/1.1\r\nHost: h.example\r\nConnection: close\r\n\r\n"));
            conn.response()
        };
        eventually("a server is there", || (ask("two", "/").status == 200).then_some(()));
        for n in 0..40 {
            let path = format!("/{n}");
            let response = ask(if n % 2 == 0 { "one" } else { "two" }, &path);
            assert_eq!((response.status, response.text()), (200, format!("GET https://h.example{path}")));
        }
        assert_eq!(ask("one", "/last").status, 200);
        let (pings, pongs) = serving.join().unwrap();
        assert_eq!(pings, pongs, "answered pings");
        assert_eq!(ask("two", "/").status, 503);
        proxy.finish(());
    });
}

/// Who is given away must speak the protocol.
#[test]
fn what_is_no_connection_is_not_attached() {
    each_driver(|io| {
        let proxy = edge("", "").start(io);
        let mut conn = Conn::connect(proxy.addr("priv"));
        conn.send("GET / HTTP/1.1\r\nHost: h.example\r\n\r\n");
        conn.rest();
        assert_eq!(ask(&proxy, "").status, 503);
        proxy.finish(());
    });
}

/// Both sides are this program: the inner one connects, keeps as many connections as it shall, and makes others when they end.
#[test]
fn both_sides() {
    each_driver(|io| {
        let server = Server::http(|request| ok(&request.head.line));
        let outer = edge("", "").start(io);
        let inner = Setup::http(&format!(
            "frontend fe\nbind rhttp@out/edge nbconn 2\ndefault_backend be\nbackend out\nserver edge {} proto h2\n\
             backend be\nserver s {}\n",
            outer.addr("priv"),
            server.addr
        ))
        .global("expose-experimental-directives\n")
        .start(io);
        assert_eq!(answered(&outer, ""), "GET /x HTTP/1.1");
        drop(inner);
        nobody(&outer);
        outer.finish(server);
    });
}

/// Who connects asks by TLS for the name that the server's line says, and for none where that needs a request.
#[test]
fn the_inner_side_asks_for_a_name() {
    each_driver(|io| {
        let server = Server::http(|request| ok(&request.head.line));
        let authority = Authority::new("authority");
        let certificate = authority.issue("edge.example");
        for (name, more) in [
            ("edge.example", "sni str(edge.example)"),
            ("edge.example", "sni str(edge.example) pool-conn-name str(other)"),
            ("none", "sni req.hdr(host)"),
        ] {
            let outer = Setup::http(&format!(
                "frontend fe\nbind <@fe>\ndefault_backend be\n\
                 frontend priv\nbind <@priv> ssl crt {certificate} alpn h2\n\
                 tcp-request session set-var(sess.name) str(none)\n\
                 tcp-request session set-var(sess.name) ssl_fc_sni if {{ ssl_fc_has_sni }}\n\
                 tcp-request session attach-srv be/dev name var(sess.name)\n\
                 backend be\nserver dev rhttp@ pool-conn-name str({name})\n"
            ))
            .global("expose-experimental-directives\n")
            .start(io);
            let inner = Setup::http(&format!(
                "frontend fe\nbind rhttp@out/edge\ndefault_backend be\n\
                 backend out\nserver edge {} ssl verify none alpn h2 {more}\nbackend be\nserver s {}\n",
                outer.addr("priv"),
                server.addr
            ))
            .global("expose-experimental-directives\n")
            .start(io);
            assert_eq!(answered(&outer, ""), "GET /x HTTP/1.1", "{more}");
            drop((inner, outer));
        }
    });
}
