//! Clients that speak something else, say nothing, say too much, or leave at the wrong moment.

use super::support::tls::{Authority, client, server};
use super::support::{Server, each_driver, eventually, ok};
use super::{TLS13, front, get, https, tell};

#[test]
fn a_response_that_somebody_cuts_is_not_whole() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let certificate = authority.issue("www.example.com");
        let selection = server(&certificate, |_| {});
        let back = Server::start(move |conn, number| {
            let mut conn = conn.accept_tls(&selection);
            conn.next_request();
            conn.send("HTTP/1.0 200 OK\r\n\r\nuntil the end");
            if number == 0 {
                conn.half_close();
                conn.ended();
            }
        });
        let rest = format!("default_backend be\nbackend be\nserver s {} ssl verify none\n", back.addr);
        let proxy = front(&authority, &rest).start(io);
        for (state, whole) in [("----", true), ("SD--", false)] {
            let mut conn = proxy.connect().encrypt(&client(|_| {}), None);
            conn.send("GET / HTTP/1.0\r\n\r\n");
            conn.until(b"until the end");
            let end = conn.try_rest();
            assert_eq!(end.is_ok(), whole, "{end:?}");
            let line = proxy.http_log();
            assert!(line.contains(&format!(" 200 {state}")), "{line}");
        }
        proxy.finish(back);
    });
}

#[test]
fn connections_end_with_a_word() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let proxy = front(
            &authority,
            "timeout http-keep-alive 50ms\nhttp-request return status 200 content-type text/plain string x\n",
        )
        .start(io);
        // Asked for, in the answer to junk, and after a while.
        for request in [
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            "junk\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        ] {
            let mut conn = proxy.connect().encrypt(&client(|_| {}), None);
            conn.send(request);
            conn.rest();
        }
        proxy.finish(());
    });
}

fn hello() -> Vec<u8> {
    let mut connecting =
        thalweg_tls::engine::Connecting::new(client(|_| {}), Some(b"www.example.com"), None).unwrap();
    let mut out = Vec::new();
    connecting.step(&mut out).unwrap();
    out
}

#[test]
fn what_is_no_handshake_ends_the_connection() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let proxy = front(&authority, "timeout client-hs 100ms\nhttp-request return status 200\n").start(io);
        let hello = hello();
        let cut = &hello[..hello.len() / 2];
        let cases: [(&str, &[u8], &str); 6] = [
            ("plain HTTP", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "SSL handshake failure"),
            ("an alert", &[21, 3, 3, 0, 2, 2, 40], "SSL handshake failure"),
            ("a record that is too long", &[22, 3, 1, 0xff, 0xff, 1, 0, 0, 0], "SSL handshake failure"),
            ("zeros", &[0; 300], "SSL handshake failure"),
            ("nothing", b"", "Timeout during SSL handshake"),
            ("half of a hello", cut, "Timeout during SSL handshake"),
        ];
        for (what, bytes, message) in cases {
            let mut conn = proxy.connect();
            conn.send(bytes);
            conn.ended();
            let line = proxy.log();
            assert!(line.contains("fe/1: ") && line.contains(message), "{what}: {line}");
        }
        let mut conn = proxy.connect();
        conn.send(cut);
        conn.half_close();
        conn.ended();
        assert!(proxy.log().contains("Connection closed during SSL handshake"));
        // A record for each byte is slow and allowed.
        let mut split = Vec::new();
        for byte in &hello[5..] {
            split.extend([22, 3, 1, 0, 1, *byte]);
        }
        let mut conn = proxy.connect();
        conn.send(split);
        assert_eq!(conn.exactly(1), [22], "a ServerHello");
        drop(conn);
        proxy.finish(());
    });
}

#[test]
fn floods_of_nothing_are_cut() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let proxy =
            front(&authority, "http-request return status 200 content-type text/plain string x\n").start(io);
        let mut conn = proxy.connect().encrypt(&client(|profile| profile.versions = TLS13), None);
        assert_eq!(get(&mut conn, "/").text(), "x");
        for _ in 0..40 {
            conn.tls().connection.refresh().unwrap();
            let mut update = [0; 128];
            let written = conn.tls().connection.reply(&mut update);
            if conn.try_send_raw(&update[..written]).is_err() {
                break;
            }
        }
        conn.ended();
        // A few are answered.
        let mut conn = proxy.connect().encrypt(&client(|profile| profile.versions = TLS13), None);
        for _ in 0..100 {
            conn.tls().connection.refresh().unwrap();
            assert_eq!(get(&mut conn, "/").text(), "x");
        }
        drop(conn);
        proxy.finish(());
    });
}

/// Behind the handshake, before a request and in the middle of one: alerts that are only warnings, and that end nothing by themselves.
#[test]
fn floods_of_alerts_are_cut() {
    const USER_CANCELED: u8 = 90;
    each_driver(|io| {
        let authority = Authority::new("Root");
        let proxy =
            front(&authority, "http-request return status 200 content-type text/plain string x\n").start(io);
        for begun in ["", "GET / HT"] {
            for (count, ends) in [(32, false), (33, true)] {
                let mut conn = proxy.connect().encrypt(&client(|profile| profile.versions = TLS13), None);
                conn.send(begun);
                let mut flood = Vec::new();
                for _ in 0..count {
                    let mut alert = [0; 128];
                    let written = conn.tls().connection.alert(USER_CANCELED, &mut alert).unwrap();
                    flood.extend_from_slice(&alert[..written]);
                }
                conn.try_send_raw(&flood).unwrap();
                if ends {
                    conn.ended();
                } else {
                    conn.send(&"GET / HTTP/1.1\r\nHost: www.example.com\r\n\r\n"[begun.len()..]);
                    assert_eq!(conn.response().text(), "x", "{count} after {begun:?}, over {io}");
                }
            }
        }
        proxy.finish(());
    });
}

/// A client that changes its key with each byte of its request.
#[test]
fn keys_change_only_so_often() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        for (setting, answered) in [("10", false), ("0", true), ("100", true)] {
            let proxy =
                front(&authority, "http-request return status 200 content-type text/plain string x\n")
                    .global(&format!("tune.ssl.keyupdate-rate-limit {setting}"))
                    .start(io);
            let mut conn = proxy.connect().encrypt(&client(|profile| profile.versions = TLS13), None);
            let mut bytes = Vec::new();
            for byte in b"GET / HTTP/1.1\r\nHost: www.example.com\r\n\r\n" {
                conn.tls().connection.refresh().unwrap();
                bytes.extend(conn.tls().seal(&[*byte]));
            }
            let sent = conn.try_send_raw(&bytes).is_ok();
            if answered {
                assert!(sent && conn.response().text() == "x", "{setting}");
            } else {
                conn.ended();
            }
            drop(conn);
            proxy.finish(());
        }
    });
}

/// `maxsslconn`: whoever comes next waits, and a connection to a server that would be one too many is none.
#[test]
fn connections_have_a_limit() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let back = https(&authority.issue("back.example.com"), |_| ok("back"));
        let rest = format!(
            "http-request return status 200 unless {{ path /back }}\ndefault_backend be\nbackend be\nretries 0\n\
             server s {} ssl verify none\n",
            back.addr
        );
        let setup = front(&authority, &rest);
        let proxy = setup.global("maxsslconn 2\nstats socket <@dir>/cli level admin\n").start(io);
        let context = client(|_| {});
        let mut first = proxy.connect().encrypt(&context, None);
        assert_eq!(get(&mut first, "/back").text(), "back");
        // Client and server: both places are taken, and the connection to the server is kept.
        let waiting = proxy.connect();
        let info = |name: &str| {
            let told = tell(&proxy, "show info");
            let line = told.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
            line[name.len() + 2..].to_owned()
        };
        assert_eq!([info("MaxSslConns"), info("CurrSslConns")], ["2", "2"]);
        tell(&proxy, "set server be/s state maint");
        eventually("the server's connection is gone", || (info("CurrSslConns") == "1").then_some(()));
        // The one that waited has its turn. Now none is left for a server.
        let mut second = waiting.encrypt(&context, None);
        tell(&proxy, "set server be/s state ready");
        assert_eq!(get(&mut second, "/").status, 200);
        assert_eq!(get(&mut second, "/back").status, 503);
        drop(second);
        assert_eq!(get(&mut first, "/").status, 200);
        eventually("there is a place", || (get(&mut first, "/back").status == 200).then_some(()));
        tell(&proxy, "set rate-limit ssl-sessions global 7");
        assert_eq!(info("SslRateLimit"), "7");
        drop((first, back));
    });
}
