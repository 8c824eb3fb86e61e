//! Servers behind a SOCKS4 proxy: `socks4`, `check-via-socks4`, `via-socks4`. The bytes are those of HAProxy 3.5-dev5.

mod support;

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use support::{Conn, Proxy, Server, Setup, each_driver, ok};

const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

/// A SOCKS4 proxy: answers with a code, in pieces, and relays one exchange when that is 90. Counts who came.
fn socks(code: u8, came: &Arc<AtomicUsize>) -> Server {
    let came = Arc::clone(came);
    Server::start(move |mut conn, _| {
        let request = conn.exactly(16);
        assert_eq!((&request[..2], &request[8..]), (&[4, 1][..], &b"HAProxy\0"[..]));
        came.fetch_add(1, Ordering::SeqCst);
        let ip = Ipv4Addr::new(request[4], request[5], request[6], request[7]);
        let to = SocketAddrV4::new(ip, u16::from_be_bytes([request[2], request[3]]));
        conn.send([0]);
        conn.send([code, 0, 0, 0, 0, 0, 0]);
        if code == 90 {
            let mut server = Conn::connect(to);
            server.send(conn.until(b"\r\n\r\n"));
            conn.send(server.rest());
        }
        conn.ended();
    })
}

fn lines(server: &Server, socks: &Server, more: &str) -> String {
    format!(
        "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nretries 0\nserver a {} socks4 {} {more}\n",
        server.addr, socks.addr
    )
}

/// The next line about a check, without its time.
fn said(proxy: &Proxy) -> String {
    let line = proxy.log();
    let line = &line[line.find("server be/a").unwrap_or_else(|| panic!("{line}"))..];
    let (before, after) = line.split_once(", check duration: ").unwrap();
    format!("{before}{}", after.trim_start_matches(|c: char| c.is_ascii_digit()))
}

#[test]
fn traffic_goes_through_the_proxy() {
    each_driver(|io| {
        let came = Arc::default();
        let heard: Arc<Mutex<Vec<u8>>> = Arc::default();
        let lines_heard = Arc::clone(&heard);
        let server = Server::start(move |mut conn, _| {
            let head = conn.until(b"\r\n\r\n");
            lines_heard.lock().unwrap().extend(head);
            conn.send("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi");
        });
        let via = socks(90, &came);
        let proxy = Setup::http(&lines(&server, &via, "send-proxy")).start(io);
        assert_eq!(proxy.ask(GET).text(), "hi");
        assert_eq!(came.load(Ordering::SeqCst), 1);
        // What follows the proxy's answer is for the server.
        let heard = String::from_utf8(heard.lock().unwrap().clone()).unwrap();
        assert!(heard.starts_with("PROXY TCP4 ") && heard.contains("\r\nGET / HTTP/1.1\r\n"), "{heard}");
    });
}

#[test]
fn a_proxy_that_says_no_is_a_failure_to_connect() {
    each_driver(|io| {
        let came = Arc::default();
        let server = Server::named("a");
        for (code, status) in [(91, 503), (0, 503)] {
            let via = socks(code, &came);
            let proxy = Setup::http(&lines(&server, &via, "")).start(io);
            assert_eq!(proxy.ask(GET).status, status);
            assert!(proxy.http_log().contains(" SC-- "), "code {code}");
        }
        assert_eq!((server.accepted(), came.load(Ordering::SeqCst)), (0, 2));
    });
}

#[test]
fn checks_go_through_the_proxy_where_that_is_said() {
    each_driver(|io| {
        // Its end is what the proxy waits for.
        let server = Server::start(|mut conn, _| {
            conn.until(b"\r\n\r\n");
            conn.send(ok(""));
        });
        let setup = |socks: &Server, more: &str, server_words: &str| {
            let text = lines(&server, socks, &format!("check inter 1h {server_words}\n{more}"));
            Setup::http(&text).defaults("option log-health-checks\ntimeout check 20s").start(io)
        };
        let came = Arc::default();
        let via = socks(90, &came);
        let passed = "server be/a succeeded, reason: Layer7 check passed, code: 200ms, status: 3/3 UP.";
        assert_eq!(said(&setup(&via, "option httpchk", "check-via-socks4")), passed);
        assert_eq!(said(&setup(&via, "option httpchk\nhttp-check connect via-socks4", "")), passed);
        assert_eq!(came.load(Ordering::SeqCst), 2);
        assert_eq!(said(&setup(&via, "option httpchk", "")), passed);
        assert_eq!(came.load(Ordering::SeqCst), 2);
        let no = socks(91, &came);
        assert_eq!(
            said(&setup(&no, "option httpchk", "check-via-socks4")),
            "server be/a failed, reason: Socket error, info: \"SOCKS4 Proxy deny the request\"ms, status: 0/2 DOWN."
        );
    });
}
