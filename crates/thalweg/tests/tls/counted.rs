//! What the statistics say of handshakes.

use super::support::tls::{Authority, client};
use super::support::{Conn, Proxy, Server, each_driver, eventually, ok};
use super::{TLS12, front, get, https};

/// Of a row: with new keys, with those of a session before, failed.
fn counted(proxy: &Proxy, row: &str) -> String {
    let columns = ["ssl_sess", "ssl_reused_sess", "ssl_failed_handshake"];
    columns.map(|column| proxy.stat(row, column)).join(" ")
}

#[test]
fn handshakes_are_counted_where_they_happen() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let back = https(&authority.issue("back.example.com"), |_| ok("x"));
        let plain = Server::start(|mut conn, _| {
            let _ = conn.try_send("220 no TLS here\r\n");
        });
        let certificate = authority.issue("other.example.com");
        let text = format!(
            "option socket-stats\nbind <@other> ssl crt {certificate} name other\n\
             use_backend bad if {{ path /bad }}\ndefault_backend be\n\
             backend be\nhttp-reuse never\nserver s {} ssl verify none\nserver t {} ssl verify none backup\n\
             backend bad\nretries 0\nserver u {} ssl verify none\n\
             frontend metrics\nbind <@metrics>\nhttp-request use-service prometheus-exporter\n",
            back.addr, back.addr, plain.addr
        );
        let proxy = front(&authority, &text).global("stats socket <@dir>/cli level admin\n").start(io);
        let context = client(|profile| profile.versions = TLS12);
        for _ in 0..3 {
            let mut conn = proxy.connect().encrypt(&context, Some("www.example.com"));
            assert_eq!(get(&mut conn, "/").status, 200);
        }
        proxy.connect().send("GET / HTTP/1.1\r\n\r\n");
        Conn::connect(proxy.addr("other")).encrypt(&client(|_| {}), Some("other.example.com"));
        eventually("all are over", || {
            (proxy.stat("fe,FRONTEND", "ssl_failed_handshake") == "1").then_some(())
        });
        let mut conn = proxy.connect().encrypt(&client(|_| {}), None);
        assert_eq!(get(&mut conn, "/bad").status, 503);
        for (row, expected) in [
            ("fe,FRONTEND", "3 2 1"),
            ("fe,sock-1", "2 2 1"),
            ("fe,other", "1 0 0"),
            ("be,s", "1 2 0"),
            ("be,t", "0 0 0"),
            ("be,BACKEND", "1 2 0"),
            ("bad,u", "0 0 1"),
            ("bad,BACKEND", "0 0 1"),
        ] {
            assert_eq!(counted(&proxy, row), expected, "{row}, over {io}");
        }
        let mut conn = Conn::connect(proxy.addr("metrics"));
        let metrics = get(&mut conn, "/metrics?extra-counters").text();
        for sample in [
            "haproxy_frontend_ssl_reused_sess{proxy=\"fe\",mod=\"ssl\"} 2",
            "haproxy_listener_ssl_sess{proxy=\"fe\",listener=\"other\",mod=\"ssl\"} 1",
            "haproxy_backend_ssl_failed_handshake{proxy=\"bad\",mod=\"ssl\"} 1",
            "haproxy_server_ssl_sess{proxy=\"be\",server=\"s\",mod=\"ssl\"} 1",
        ] {
            assert!(metrics.lines().any(|line| line == sample), "{sample}");
        }
        proxy.tell("cli", "clear counters all");
        assert_eq!(counted(&proxy, "fe,FRONTEND"), "0 0 0");
    });
}
