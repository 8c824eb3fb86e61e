//! TLS end to end, on both sides: handshakes, records, names, certificates, ends, and what peers do wrong.

mod support;

use std::io::Write;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use support::h2::Served;
use support::tls::{Authority, client, client_credential, client_with, now, server, template};
use support::{Conn, Proxy, Server, Setup, each_driver, eventually, ok};
use thalweg_h2::settings::Settings;
use thalweg_tls::options::Versions;
use thalweg_tls::x509::make::Template;
use thalweg_tls::x509::oid::purpose;

const TLS12: Versions = Versions { tls12: true, tls13: false };
const TLS13: Versions = Versions { tls12: false, tls13: true };

/// An HTTP server on which TLS is spoken.
fn https(certificate: &str, answer: impl Fn(&support::Request) -> String + Send + Sync + 'static) -> Server {
    let selection = server(certificate, |_| {});
    Server::start(move |conn, _| {
        let Ok(mut conn) = conn.try_accept_tls(&selection) else { return };
        while let Some(request) = conn.next_request() {
            if conn.try_send(answer(&request)).is_err() {
                return;
            }
        }
    })
}

fn front(authority: &Authority, rest: &str) -> Setup {
    let certificate = authority.issue("www.example.com");
    Setup::http(&format!("frontend fe\nbind <@fe> ssl crt {certificate}\n{rest}"))
}

fn get(conn: &mut Conn, path: &str) -> support::Response {
    conn.send(format!("GET {path} HTTP/1.1\r\nHost: www.example.com\r\n\r\n"));
    conn.response()
}

#[test]
fn requests_on_one_connection_in_both_versions() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let proxy =
            front(&authority, "http-request return status 200 content-type text/plain string it-works\n")
                .start(io);
        for versions in [TLS12, TLS13] {
            let context = client(|profile| profile.versions = versions);
            let mut conn = proxy.connect().encrypt(&context, Some("www.example.com"));
            assert_eq!(conn.tls().facts.alpn.as_deref(), None);
            for _ in 0..3 {
                assert_eq!(get(&mut conn, "/").text(), "it-works");
                let line = proxy.http_log();
                assert!(line.contains("fe/<NOSRV>") && line.contains(" 200 LR--"), "{line}");
            }
        }
        proxy.finish(());
    });
}

/// Bytes that are not the same everywhere.
fn noise(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 + at / 251) as u8).collect()
}

#[test]
fn bodies_of_all_sizes_go_through_both_sides() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let certificate = authority.issue("back.example.com");
        let selection = server(&certificate, |_| {});
        // Sends back what it gets.
        let back = Server::start(move |conn, _| {
            let Ok(mut conn) = conn.try_accept_tls(&selection) else { return };
            while let Some(request) = conn.next_request() {
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", request.body.len());
                conn.send([head.as_bytes(), &request.body].concat());
            }
        });
        let line = format!("server s {} ssl verify none", back.addr);
        let proxy = front(&authority, &format!("default_backend be\nbackend be\n{line}\n")).start(io);
        let mut conn = proxy.connect().encrypt(&client(|_| {}), None);
        for (length, fragment) in
            [(0, 16384), (1, 1), (3000, 7), (16_384, 16_384), (70_000, 1000), (3_000_000, 16_384)]
        {
            let body = noise(length);
            let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
            let sealed = conn.tls().seal_in(&[head.as_bytes(), &body].concat(), fragment);
            let mut twin = conn.raw_twin();
            let sender = std::thread::spawn(move || twin.try_send_raw(&sealed).unwrap());
            let response = conn.response();
            sender.join().unwrap();
            assert!(response.body == body, "{length} bytes in records of {fragment}");
        }
        drop(conn);
        proxy.finish(back);
    });
}

#[test]
fn small_records_first_and_large_ones_later() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let back = Server::http(|_| ok(&"x".repeat(200_000)));
        let rest = format!("default_backend be\nbackend be\nserver s {}\n", back.addr);
        for (global, first, last) in [
            ("tune.ssl.maxrecord 1400", 1400, 16_384),
            ("tune.ssl.hard-maxrecord 2000", 2000, 2000),
            ("", 16_384, 16_384),
        ] {
            let proxy = front(&authority, &rest).global(global).start(io);
            let mut conn = proxy.connect().encrypt(&client(|_| {}), None);
            conn.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            assert_eq!(conn.response().body.len(), 200_000);
            let sizes = &conn.tls().records;
            let most = |sizes: &[usize]| sizes.iter().copied().max().unwrap_or(0);
            let early = sizes.iter().take_while(|_| true).copied().take(20).collect::<Vec<_>>();
            assert!(most(&early) <= first, "{global}: {early:?}");
            assert!(most(sizes) <= last, "{global}: {}", most(sizes));
            assert!(last < 16_384 || most(sizes) > 8_000, "{global}: {}", most(sizes));
            drop(conn);
            assert!(!proxy.output().contains("panicked"));
        }
        drop(back);
    });
}

fn behind(authority: &Authority, back: &Server, options: &str) -> Setup {
    let ca = authority.path("ca.pem");
    Setup::http(&format!(
        "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nretries 0\n\
         server s {} ssl ca-file {ca} {options}\n",
        back.addr
    ))
}

#[test]
fn servers_are_verified() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let stranger = Authority::new("Stranger");
        let good = https(&authority.issue("back.example.com"), |_| ok("good"));
        let alien = https(&stranger.issue("back.example.com"), |_| ok("alien"));
        let mut old = template("back.example.com").hosts(&["back.example.com"]);
        old.not_after = now() - 1;
        let old = https(&authority.issue_as("old.pem", &old), |_| ok("old"));
        let plain = Server::start(|mut conn, _| {
            let _ = conn.try_send("HTTP/1.0 400 Bad\r\n\r\n");
            conn.ended();
        });
        for (what, back, options, status) in [
            ("no name is asked for", &good, "verify required no-sni-auto", 200),
            ("the right name", &good, "verify required sni str(back.example.com)", 200),
            ("another name", &good, "verify required sni str(other.example.com)", 503),
            ("the name of the request", &good, "verify required", 503),
            ("verifyhost", &good, "verify required no-sni-auto verifyhost back.example.com", 200),
            (
                "verifyhost before sni",
                &good,
                "verify required verifyhost x.example.com sni str(back.example.com)",
                503,
            ),
            (
                "an address that the certificate does not have",
                &good,
                "verify required sni str(127.0.0.1)",
                503,
            ),
            ("somebody else's authority", &alien, "verify required no-sni-auto", 503),
            ("and nobody minds", &alien, "verify none", 200),
            ("its time is over", &old, "verify required no-sni-auto", 503),
            ("not TLS at all", &plain, "verify none", 503),
        ] {
            let proxy = behind(&authority, back, options).start(io);
            let status_seen =
                proxy.ask("GET / HTTP/1.1\r\nHost: www.example.com\r\nConnection: close\r\n\r\n").status;
            assert_eq!(status_seen, status, "{what}");
            let state = if status == 200 { "----" } else { "SC--" };
            assert!(proxy.http_log().contains(state), "{what}");
            assert!(!proxy.output().contains("panicked"));
        }
        drop((good, alien, old, plain));
    });
}

#[test]
fn servers_that_cannot_be_agreed_with_are_tried_again() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let selection = server(&authority.issue("www.example.com"), |_| {});
        let back = Server::start(move |mut conn, number| {
            if number % 2 == 0 {
                conn.send("no TLS here");
                conn.ended();
                return;
            }
            let mut conn = conn.accept_tls(&selection);
            while conn.next_request().is_some() {
                conn.send(ok("at last"));
            }
        });
        let text = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        // The pause between two attempts is that long.
        let setup = |retries| {
            let line =
                format!("retries {retries}\ntimeout connect 1s\nserver s {} ssl verify none", back.addr);
            Setup::http(&format!("frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\n{line}\n"))
                .start(io)
        };
        let proxy = setup(0);
        assert_eq!(proxy.ask(text).status, 503);
        assert_eq!(proxy.ask(text).status, 200);
        drop(proxy);
        assert_eq!(setup(1).ask(text).status, 200);
        drop(back);
    });
}

#[test]
fn connections_are_kept_for_the_name_that_was_asked_for() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let certificate = authority.issue_as("wild.pem", &template("x").hosts(&["*.example.com"]));
        let selection = server(&certificate, |_| {});
        let back = Server::start(move |conn, number| {
            let mut conn = conn.accept_tls(&selection);
            let name = conn.tls().facts.server_name.clone().unwrap_or_default();
            while let Some(request) = conn.next_request() {
                let asked = String::from_utf8_lossy(&name).into_owned();
                let _ = conn.try_send(ok(&format!("{number} {asked} {}", request.head.field("host"))));
            }
        });
        let proxy = behind(&authority, &back, "verify required pool-low-conn 10").start(io);
        let mut conn = proxy.connect();
        for (host, answer) in [
            ("a.example.com", "0 a.example.com a.example.com"),
            ("b.example.com:81", "1 b.example.com b.example.com:81"),
            ("a.example.com", "0 a.example.com a.example.com"),
            ("b.example.com", "1 b.example.com b.example.com"),
        ] {
            conn.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            assert_eq!(conn.response().text(), answer);
        }
        drop(conn);
        proxy.finish(back);
    });
}

#[test]
fn sessions_are_resumed_on_both_sides() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let certificate = authority.issue("www.example.com");
        let selection = server(&certificate, |_| {});
        let back = Server::start(move |conn, _| {
            let mut conn = conn.accept_tls(&selection);
            let resumed = conn.tls().facts.resumed;
            while conn.next_request().is_some() {
                let _ = conn.try_send(ok(&resumed.to_string()));
            }
        });
        let text = format!(
            "frontend fe\nbind <@fe> ssl crt {certificate}\ndefault_backend be\nbackend be\nhttp-reuse never\n\
             server s {} ssl verify none\n",
            back.addr
        );
        for (versions, options) in
            [(TLS12, ""), (TLS13, ""), (TLS12, "no-tls-tickets"), (TLS13, "no-tls-tickets")]
        {
            let text = text.replace(" ssl crt", &format!(" ssl {options} crt"));
            let global = "stats socket <@dir>/cli level admin\n";
            let proxy = Setup::http(&text).global(global).start(io);
            let context = client(|profile| profile.versions = versions);
            let mut seen = Vec::new();
            for _ in 0..2 {
                let mut conn = proxy.connect().encrypt(&context, Some("www.example.com"));
                let resumed = conn.tls().facts.resumed;
                seen.push((resumed, get(&mut conn, "/").text()));
            }
            let expected = [(false, "false".to_owned()), (true, "true".to_owned())];
            assert_eq!(seen, expected, "{versions:?} {options}");
            let info = tell(&proxy, "show info");
            // Two clients, two servers.
            assert!(info.contains("\nCumSslConns: 4\n"), "{info}");
            let lookups = if options.is_empty() { "0" } else { "1" };
            assert!(info.contains(&format!("\nSslCacheLookups: {lookups}\n")), "{info}");
            eventually("connections end", || {
                tell(&proxy, "show info").contains("\nCurrSslConns: 0\n").then_some(())
            });
            assert!(!proxy.output().contains("panicked"));
        }
        drop(back);
    });
}

#[test]
fn clients_are_verified() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let stranger = Authority::new("Stranger");
        let own = |authority: &Authority, file: &str, template: Template| {
            authority.issue_as(file, &template.purposes(&[purpose::CLIENT_AUTH]))
        };
        let good = own(&authority, "good.pem", template("client"));
        let alien = own(&stranger, "alien.pem", template("client"));
        let mut old = template("client");
        old.not_after = now() - 1;
        let old = own(&authority, "old.pem", old);
        let ca = authority.path("ca.pem");
        for (options, who, accepted) in [
            ("verify required", Some(&good), true),
            ("verify required", None, false),
            ("verify required", Some(&alien), false),
            ("verify required", Some(&old), false),
            ("verify required crt-ignore-err 10", Some(&old), true),
            ("verify optional", None, true),
            ("verify optional", Some(&alien), false),
            ("verify none", Some(&alien), true),
        ] {
            let certificate = authority.issue("www.example.com");
            let text = format!(
                "frontend fe\nbind <@fe> ssl crt {certificate} ca-file {ca} {options}\n\
                 http-request return status 200 content-type text/plain string in\n"
            );
            let proxy = Setup::http(&text).start(io);
            let context = who.map_or_else(|| client(|_| {}), |path| client_with(path));
            let answered = proxy.connect().try_encrypt(&context, None).is_ok_and(|mut conn| {
                conn.try_send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").is_ok() && conn.try_until(b"in").is_some()
            });
            assert_eq!(answered, accepted, "{options} {who:?}");
            proxy.finish(());
        }
    });
}

#[test]
fn streams_of_tcp_end_as_they_are_ended() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let certificate = authority.issue("www.example.com");
        let selection = server(&certificate, |_| {});
        let back = Server::start(move |conn, number| {
            let mut conn = conn.accept_tls(&selection);
            match number {
                // The client stops first.
                0 => {
                    assert_eq!(conn.rest(), b"question");
                    conn.send("answer");
                    conn.half_close();
                }
                // The server does.
                1 => {
                    conn.send("banner");
                    conn.half_close();
                    assert_eq!(conn.rest(), b"question");
                }
                // Nobody said that this was the end.
                _ => conn.send("part"),
            }
        });
        let text =
            format!("listen fe\nbind <@fe> ssl crt {certificate}\nserver s {} ssl verify none\n", back.addr);
        let proxy = Setup::tcp(&text).start(io);
        let context = client(|_| {});
        let mut conn = proxy.connect().encrypt(&context, None);
        conn.send("question");
        conn.half_close();
        assert_eq!(conn.rest(), b"answer");
        assert_eq!(proxy.tcp_log(), "fe/s n/n/n -- 0");
        let mut conn = proxy.connect().encrypt(&context, None);
        assert_eq!(conn.exactly(6), b"banner");
        assert_eq!(conn.rest(), b"");
        conn.send("question");
        conn.half_close();
        assert_eq!(proxy.tcp_log(), "fe/s n/n/n -- 0");
        let mut conn = proxy.connect().encrypt(&context, None);
        assert_eq!(conn.exactly(4), b"part");
        conn.ended();
        assert_eq!(proxy.tcp_log(), "fe/s n/n/n SD 0");
        drop(conn);
        proxy.finish(back);
    });
}

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

#[test]
fn proxy_headers_come_before_tls() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let certificate = authority.issue("www.example.com");
        let text = format!(
            "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nserver s <@in> send-proxy ssl verify none\n\
             frontend in\nbind <@in> accept-proxy ssl crt {certificate}\n\
             http-request return status 200 content-type text/plain lf-string %[src]\n"
        );
        let proxy = Setup::http(&text).start(io);
        let mut conn = proxy.connect();
        let own = conn.local().ip().to_string();
        assert_eq!(get(&mut conn, "/").text(), own);
        drop(conn);
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

/// What `openssl s_client` has to say, when there is one.
#[test]
fn openssl_speaks_with_it() {
    let Ok(version) = std::process::Command::new("openssl").arg("version").output() else {
        eprintln!("skipped: there is no openssl to speak with");
        return;
    };
    assert!(version.status.success());
    each_driver(|io| {
        let authority = Authority::new("Root");
        let proxy =
            front(&authority, "http-request return status 200 content-type text/plain string it-works\n")
                .start(io);
        for arguments in
            [&["-tls1_2"][..], &["-tls1_3"], &["-tls1_2", "-cipher", "ECDHE-ECDSA-CHACHA20-POLY1305"]]
        {
            let mut openssl = std::process::Command::new("openssl")
                .args(["s_client", "-quiet", "-verify_return_error", "-servername", "www.example.com"])
                .args(["-CAfile", &authority.path("ca.pem"), "-connect", &proxy.addr("fe").to_string()])
                .args(arguments)
                .stdin(std::process::Stdio::piped())
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::null())
                .spawn()
                .unwrap();
            let mut stdin = openssl.stdin.take().unwrap();
            stdin.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
            let output = openssl.wait_with_output().unwrap();
            drop(stdin);
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(text.ends_with("it-works"), "{arguments:?}: {text}");
        }
        proxy.finish(());
    });
}

#[test]
fn many_connections_at_once() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let proxy = front(&authority, "http-request return status 200 content-type text/plain string x\n")
            .threads(2)
            .start(io);
        let proxy = Arc::new(proxy);
        let addr = proxy.addr("fe");
        let context = client(|_| {});
        let clients: Vec<_> = (0..8)
            .map(|_| {
                let context = context.clone();
                std::thread::spawn(move || {
                    for _ in 0..5 {
                        let conn = Conn::tcp(TcpStream::connect(addr).unwrap());
                        let mut conn = conn.encrypt(&context, None);
                        assert_eq!(get(&mut conn, "/").text(), "x");
                    }
                })
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
        let Ok(proxy) = Arc::try_unwrap(proxy) else { panic!("it has one user") };
        Proxy::finish(proxy, ());
    });
}

#[test]
fn health_checks_speak_tls() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let protocols = vec![b"x".to_vec(), b"y".to_vec(), b"http/1.1".to_vec(), b"h2".to_vec()];
        let selection = server(&authority.issue("back.example.com"), |profile| profile.alpn = protocols);
        // Answers with the name that it was asked for, and the protocol that was agreed on.
        let back = Server::start(move |conn, _| {
            let Ok(mut conn) = conn.try_accept_tls(&selection) else { return };
            let facts = &conn.tls().facts;
            let told = |what: &Option<Vec<u8>>| String::from_utf8(what.clone().unwrap_or_default()).unwrap();
            let (name, protocol) = (told(&facts.server_name), told(&facts.alpn));
            let text = format!("<{name}> [{protocol}]");
            if protocol == "h2" {
                let mut served = Served::new(conn, Settings::default());
                while let Some((id, _)) = served.next_request() {
                    served.answer(id, &text);
                }
            } else if conn.next_request().is_some() {
                let _ = conn.try_send(ok(&text));
            }
        });
        let agrees = |protocol: &str, connect: &str| {
            format!(
                "option httpchk\n{connect}http-check send hdr Host a\nhttp-check expect string [{protocol}]"
            )
        };
        let plain = Server::start(|mut conn, _| drop(conn.ended()));
        let ca = authority.path("ca.pem");
        let verified = format!("verify required ca-file {ca}");
        let expects = |name: &str| {
            format!(
                "option httpchk\nhttp-check send hdr Host back.example.com\nhttp-check expect string <{name}>"
            )
        };
        for (what, proxy_lines, options, addr, told) in [
            ("as traffic", "", "ssl verify none", back.addr, "succeeded, reason: Layer6 check passed"),
            ("only checks", "", "check-ssl verify none", back.addr, "succeeded, reason: Layer6 check passed"),
            ("verified", "", &format!("ssl {verified} check-sni back.example.com"), back.addr, "succeeded"),
            (
                "another name",
                "",
                &format!("ssl {verified} check-sni x.example.com"),
                back.addr,
                "failed, reason: Layer6 invalid response, info: \"SSL handshake failure\"",
            ),
            ("no TLS", "", "ssl verify none", plain.addr, "failed, reason: Layer6 timeout"),
            (
                "only traffic",
                "",
                "ssl verify none no-check-ssl",
                plain.addr,
                "succeeded, reason: Layer4 check passed",
            ),
            (
                "the name of the request",
                &expects("back.example.com"),
                "ssl verify none",
                back.addr,
                "succeeded, reason: Layer7",
            ),
            (
                "no name",
                &expects(""),
                "ssl verify none no-check-sni-auto",
                back.addr,
                "succeeded, reason: Layer7",
            ),
            ("no protocol", &agrees("", ""), "ssl verify none", back.addr, "succeeded, reason: Layer7"),
            (
                "the line's protocol",
                &agrees("y", ""),
                "ssl verify none alpn y",
                back.addr,
                "succeeded, reason: Layer7",
            ),
            (
                "a protocol of its own",
                &agrees("x", ""),
                "ssl verify none alpn y check-alpn h2,x",
                back.addr,
                "succeeded, reason: Layer7",
            ),
            ("HTTP/2", &agrees("h2", ""), "ssl verify none alpn h2", back.addr, "succeeded, reason: Layer7"),
            (
                "HTTP/2 of its own",
                &agrees("h2", ""),
                "ssl verify none alpn y check-alpn h2",
                back.addr,
                "succeeded, reason: Layer7",
            ),
            (
                "a protocol by rule",
                &agrees("http/1.1", "http-check connect ssl alpn http/1.1\n"),
                "ssl verify none alpn y check-alpn x",
                back.addr,
                "succeeded, reason: Layer7",
            ),
            (
                "by rule",
                "option tcp-check\ntcp-check connect ssl sni x.example.com",
                "verify none",
                back.addr,
                "succeeded, reason: Layer6",
            ),
        ] {
            let text = format!(
                "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\noption log-health-checks\ntimeout check 2s\n{proxy_lines}\n\
                 server s {addr} check inter 1s {options}\n"
            );
            let proxy = Setup::http(&text).start(io);
            let line = proxy.log();
            assert!(line.contains(told), "{what}: {line}");
        }
        drop((back, plain));
    });
}

#[test]
fn fetches_and_logs_tell_of_both_sides() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let certificate = authority.issue("www.example.com");
        let back = https(&authority.issue("back.example.com"), |_| ok("x"));
        let mine = authority.issue_as("mine.pem", &template("me").purposes(&[purpose::CLIENT_AUTH]));
        let ca = authority.path("ca.pem");
        let fetches = [
            ("ssl_fc", "1"),
            ("ssl_fc_protocol", "TLSv1.3"),
            ("ssl_fc_cipher", "TLS_AES_256_GCM_SHA384"),
            ("ssl_fc_use_keysize", "256"),
            ("ssl_fc_sni", "www.example.com"),
            ("ssl_fc_alpn", "http/1.1"),
            ("ssl_fc_has_sni", "1"),
            ("ssl_fc_is_resumed", "0"),
            ("ssl_fc_has_crt", "1"),
            ("ssl_fc_crtname", &certificate),
            ("ssl_fc_err", "0"),
            ("ssl_fc_client_random,hex,length", "64"),
            ("ssl_fc_cipherlist_bin,hex,length", "40"),
            ("ssl_fc_protocol_hello_id", "771"),
            ("ssl_fc_exporter_secret,hex,length", "192"),
            ("ssl_c_used", "1"),
            ("ssl_c_verify", "0"),
            ("ssl_c_s_dn", "/CN=me"),
            ("ssl_c_s_dn(CN)", "me"),
            ("ssl_c_i_dn(,0,rfc2253)", "CN=Root"),
            ("ssl_c_key_alg", "id-ecPublicKey"),
            ("ssl_c_sig_alg", "ecdsa-with-SHA256"),
            ("ssl_c_version", "3"),
            ("ssl_c_sha1,hex,length", "40"),
            ("ssl_f_s_dn(CN)", "www.example.com"),
        ];
        let of_server = [
            ("ssl_bc", "1"),
            ("ssl_bc_protocol", "TLSv1.3"),
            ("ssl_bc_sni", "back.example.com"),
            ("ssl_bc_is_resumed", "0"),
            ("ssl_bc_client_random,hex,length", "64"),
            ("ssl_s_s_dn(CN)", "back.example.com"),
            ("ssl_s_chain_der,hex,length", ""),
        ];
        let headers: String = fetches
            .iter()
            .chain(&of_server)
            .enumerate()
            .map(|(number, (fetch, _))| format!("http-response set-header x-{number} %[{fetch}]\n"))
            .collect();
        let text = format!(
            "frontend fe\nbind <@fe> ssl crt {certificate} alpn http/1.1 verify required ca-file {ca}\n\
             option httpslog\n{headers}default_backend be\nbackend be\n\
             server s {} ssl verify none sni str(back.example.com)\n",
            back.addr
        );
        let global = "tune.ssl.capture-buffer-size 100\ntune.ssl.keylog on";
        let proxy = Setup::http(&text).global(global).start(io);
        let context = client(|profile| {
            profile.own = client_credential(&mine);
            profile.alpn = vec![b"http/1.1".to_vec()];
        });
        let mut conn = proxy.connect().encrypt(&context, Some("www.example.com"));
        let response = get(&mut conn, "/");
        for (number, (fetch, expected)) in fetches.iter().chain(&of_server).enumerate() {
            let value = response.head.field(&format!("x-{number}"));
            assert!(value == *expected || expected.is_empty() && !value.is_empty(), "{fetch}: {value:?}");
        }
        let line = proxy.log();
        assert!(line.contains("fe~ be/s"), "{line}");
        let end = "0/0000000000000000/0/0/0 www.example.com/TLSv1.3/TLS_AES_256_GCM_SHA384";
        assert!(line.trim_end().ends_with(end), "{line}");
        drop(conn);
        proxy.finish(back);
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

#[test]
fn servers_are_switched_to_tls_and_back() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let secure = https(&authority.issue("back.example.com"), |_| ok("secure"));
        let plain = Server::http(|_| ok("plain"));
        let text = format!(
            "frontend fe\nbind <@fe>\nuse_backend b1 if {{ path /1 }}\n\
             use_backend b2 if {{ path /2 }}\nbackend b1\nretries 0\ndefault-server ssl verify none\nserver s {} no-ssl\n\
             backend b2\nretries 0\nserver s {} ssl verify none\nbackend b3\nserver s {} no-ssl\nserver t {}\n",
            secure.addr, plain.addr, plain.addr, plain.addr
        );
        let proxy = Setup::http(&text).global("stats socket <@dir>/cli level admin\n").start(io);
        let mut conn = proxy.connect();
        let column = |backend: &str| {
            let state = tell(&proxy, &format!("show servers state {backend}"));
            state.lines().nth(2).unwrap().split(' ').nth(20).unwrap().to_owned()
        };
        assert_eq!([column("b1"), column("b2"), column("b3")], ["-1", "1", "-1"]);
        assert_eq!(get(&mut conn, "/1").status, 502);
        for (command, told) in [
            ("set server b1/s ssl on", "server ssl setting updated."),
            ("set server b2/s ssl off", "server ssl setting updated."),
            ("set server b2/s ssl maybe", "'set server <srv> ssl' expects 'on' or 'off'."),
            ("set server b3/s ssl on", "'set server <srv> ssl' cannot be set."),
            ("set server b3/t ssl on", "'set server <srv> ssl' cannot be set."),
        ] {
            let answer = tell(&proxy, command);
            assert!(answer.starts_with(told), "{command}: {answer}");
        }
        assert_eq!([column("b1"), column("b2"), column("b3")], ["1", "0", "-1"]);
        let mut conn = proxy.connect();
        assert_eq!([get(&mut conn, "/1").text(), get(&mut conn, "/2").text()], ["secure", "plain"]);
        tell(&proxy, "set server b1/s ssl off");
        assert_eq!(column("b1"), "0");
        let mut conn = proxy.connect();
        assert_eq!(get(&mut conn, "/1").status, 502, "no connection from before is used");
        drop((secure, plain));
    });
}

/// Asks the runtime CLI.
fn tell(proxy: &Proxy, command: &str) -> String {
    let path = proxy.path("cli");
    let mut cli = Conn::unix(eventually("the CLI listens", || UnixStream::connect(&path).ok()));
    cli.send(format!("{command}\n"));
    cli.rest_text()
}

/// The subject of the certificate that is shown to whoever asks for this name.
fn shown(proxy: &Proxy, name: &str) -> String {
    let mut conn = proxy.connect().encrypt(&client(|_| {}), Some(name));
    let subject = conn.tls().facts.peer[0].subject().to_vec();
    String::from_utf8_lossy(&subject).into_owned()
}

#[test]
fn certificates_change_while_it_runs() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let path = authority.issue_as("site.pem", &template("first").hosts(&["a.example.com"]));
        let list = authority.path("list");
        std::fs::write(&list, format!("{path}\n")).unwrap();
        let text = format!("frontend fe\nbind <@fe> ssl crt-list {list}\nhttp-request return status 200\n");
        let proxy = Setup::http(&text).global("stats socket <@dir>/cli level admin\n").start(io);
        assert!(shown(&proxy, "a.example.com").contains("first"));
        assert_eq!(tell(&proxy, "show ssl cert"), format!("# filename\n{path}\n\n"));

        // A certificate is replaced; connections that are open go on with the one they know.
        let mut before = proxy.connect().encrypt(&client(|_| {}), Some("a.example.com"));
        let second = authority.issue_as("second.pem", &template("second").hosts(&["a.example.com"]));
        let read = |path: &str| std::fs::read_to_string(path).unwrap();
        let answer = tell(&proxy, &format!("set ssl cert {path} <<\n{}\n", read(&second)));
        assert_eq!(answer, format!("Transaction created for certificate {path}!\n\n"));
        assert!(tell(&proxy, "show ssl cert").starts_with(&format!("# transaction\n*{path}\n")));
        assert!(shown(&proxy, "a.example.com").contains("first"));
        let answer = tell(&proxy, &format!("commit ssl cert {path}"));
        assert!(answer.starts_with(&format!("Committing {path}")) && answer.contains("Success!"), "{answer}");
        assert!(shown(&proxy, "a.example.com").contains("second"));
        assert_eq!(get(&mut before, "/").status, 200);
        let answer = tell(&proxy, &format!("show ssl cert {path}"));
        assert!(answer.contains("Status: Used") && answer.contains("Subject: /CN=second"), "{answer}");

        // What is no certificate changes nothing, and neither does what is taken back.
        let answer = tell(&proxy, &format!("set ssl cert {path} <<\nnothing\n"));
        assert!(answer.contains("Can't update"), "{answer}");
        tell(&proxy, &format!("set ssl cert {path} <<\n{}\n", read(&second).replacen("first", "third", 1)));
        let answer = tell(&proxy, &format!("abort ssl cert {path}"));
        assert_eq!(answer, format!("Transaction aborted for certificate '{path}'!\n\n"));
        assert!(shown(&proxy, "a.example.com").contains("second"));

        // Another one joins the list, and leaves.
        let other = authority.issue_as("other.pem", &template("other").hosts(&["b.example.com"]));
        let added = "new.pem";
        let added = authority.path(added);
        assert!(shown(&proxy, "b.example.com").contains("second"));
        let answer = tell(&proxy, &format!("new ssl cert {added}"));
        assert_eq!(answer, format!("New empty certificate store '{added}'!\n\n"));
        tell(&proxy, &format!("set ssl cert {added} <<\n{}\n", read(&other)));
        let answer = tell(&proxy, &format!("commit ssl cert {added}"));
        assert!(answer.contains("Success!"), "{answer}");
        let answer = tell(&proxy, &format!("add ssl crt-list {list} <<\n{added} [ssl-min-ver TLSv1.3]\n"));
        assert!(answer.contains("Success!"), "{answer}");
        assert!(shown(&proxy, "b.example.com").contains("other"));
        let old = client(|profile| profile.versions = TLS12);
        assert!(proxy.connect().try_encrypt(&old, Some("b.example.com")).is_err());
        assert!(proxy.connect().try_encrypt(&old, Some("a.example.com")).is_ok());
        let answer = tell(&proxy, "show ssl sni");
        assert!(answer.contains("a.example.com") && answer.contains("b.example.com"), "{answer}");
        let answer = tell(&proxy, &format!("del ssl cert {added}"));
        assert!(answer.contains("in use"), "{answer}");
        // The first line of the list is for clients whose name nobody has; and no file is read while it runs.
        let answer = tell(&proxy, &format!("del ssl crt-list {list} {path}"));
        assert!(answer.contains("used as default certificate"), "{answer}");
        let ca = authority.path("ca.pem");
        let answer = tell(&proxy, &format!("add ssl crt-list {list} <<\n{added} [ca-file {ca}]\n"));
        assert!(answer.contains("unable to load"), "{answer}");
        let answer = tell(&proxy, &format!("del ssl crt-list {list} {added}"));
        assert!(answer.contains("deleted"), "{answer}");
        assert!(shown(&proxy, "b.example.com").contains("second"));
        let answer = tell(&proxy, &format!("del ssl cert {added}"));
        assert!(answer.contains("deleted"), "{answer}");
        assert!(!proxy.output().contains("panicked"));
    });
}

#[test]
fn authorities_and_revocations_change_while_it_runs() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let newcomer = Authority::new("Newcomer");
        let certificate = authority.issue("www.example.com");
        let own = newcomer.issue_as("own.pem", &template("client").purposes(&[purpose::CLIENT_AUTH]));
        let ca = authority.path("ca.pem");
        let text = format!(
            "frontend fe\nbind <@fe> ssl crt {certificate} ca-file {ca} verify required\n             http-request return status 200 content-type text/plain string in\n"
        );
        let proxy = Setup::http(&text).global("stats socket <@dir>/cli level admin\n").start(io);
        let context = client_with(&own);
        let enters = || {
            proxy.connect().try_encrypt(&context, None).is_ok_and(|mut conn| {
                conn.try_send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").is_ok() && conn.try_until(b"in").is_some()
            })
        };
        assert!(!enters());
        let pem = std::fs::read_to_string(newcomer.path("ca.pem")).unwrap();
        let answer = tell(&proxy, &format!("add ssl ca-file {ca} <<\n{pem}\n"));
        assert!(answer.contains("ransaction"), "{answer}");
        assert!(!enters());
        let answer = tell(&proxy, &format!("commit ssl ca-file {ca}"));
        assert!(answer.contains("Success!"), "{answer}");
        assert!(enters());
        assert_eq!(tell(&proxy, "show ssl ca-file"), format!("# filename\n{ca} - 2 certificate(s)\n\n"));
        proxy.finish(());
    });
}

/// The name of the root is that of the path which was verified: what else the client sends says nothing.
#[test]
fn clients_do_not_choose_the_name_of_their_root() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let liar = Authority::new("Highest");
        let certificate = authority.issue("www.example.com");
        let own = authority.issue_as("own.pem", &template("client").purposes(&[purpose::CLIENT_AUTH]));
        let with_more =
            std::fs::read_to_string(&own).unwrap() + &std::fs::read_to_string(liar.path("ca.pem")).unwrap();
        let more = authority.path("more.pem");
        std::fs::write(&more, with_more).unwrap();
        let text = format!(
            "frontend fe\nbind <@fe> ssl crt {certificate} ca-file {} verify required\n\
             http-request return status 200 content-type text/plain \
             lf-string \"%[ssl_c_r_dn] %[ssl_c_chain_der,length]\"\n",
            authority.path("ca.pem")
        );
        let proxy = Setup::http(&text).start(io);
        for (path, more) in [(&own, false), (&more, true)] {
            for versions in [TLS12, TLS13] {
                let context = client(|profile| {
                    profile.own = client_credential(path);
                    profile.versions = versions;
                });
                // The second one resumes.
                for _ in 0..2 {
                    let mut conn = proxy.connect().encrypt(&context, None);
                    let text = get(&mut conn, "/").text();
                    let (root, length) = text.split_once(' ').unwrap();
                    assert_eq!((root, length.is_empty()), ("/CN=Root", !more), "{path} {versions:?}");
                }
            }
        }
        proxy.finish(());
    });
}

/// Defaults count for the lines that follow them.
#[test]
fn defaults_are_those_of_the_place_of_the_line() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let certificate = authority.issue("www.example.com");
        let back = https(&certificate, |_| ok("back"));
        let answer = "http-request return status 200 content-type text/plain lf-string %[ssl_fc_protocol]";
        let text = format!(
            "ssl-default-bind-options ssl-max-ver TLSv1.2\ndefaults\nmode http\ntimeout connect 5s\ntimeout client 5s\n\
             timeout server 5s\nfrontend fe\nbind <@fe> ssl crt {certificate}\n{answer}\n\
             global\nssl-default-bind-options ssl-max-ver TLSv1.3\nssl-default-server-options ssl-max-ver TLSv1.2\n\
             frontend other\nbind <@other> ssl crt {certificate}\n{answer}\n\
             frontend third\nbind <@third>\ndefault_backend be\nbackend be\nserver s {} ssl verify none\n\
             http-response set-header x-version %[ssl_bc_protocol]\n\
             global\nssl-default-server-options ssl-max-ver TLSv1.3\n",
            back.addr
        );
        let proxy = Setup::file(&format!("global\n{text}")).start(io);
        for (name, version) in [("fe", "TLSv1.2"), ("other", "TLSv1.3")] {
            let mut conn = Conn::connect(proxy.addr(name)).encrypt(&client(|_| {}), None);
            assert_eq!(get(&mut conn, "/").text(), version);
        }
        let mut conn = Conn::connect(proxy.addr("third"));
        assert_eq!(get(&mut conn, "/").field("x-version"), "TLSv1.2");
        drop(back);
    });
}

/// `-dV`, as `ssl-server-verify none`; a line that says otherwise counts.
#[test]
fn the_command_line_says_whether_servers_are_verified() {
    let directory = Authority::new("Root");
    let check = |global: &str, server: &str, option: &[&str]| {
        let times = "timeout client 1s\ntimeout server 1s\ntimeout connect 1s";
        let text = format!("{global}defaults\n{times}\nbackend be\nserver s 127.0.0.1:1 ssl {server}\n");
        let path = directory.path("cfg");
        std::fs::write(&path, text).unwrap();
        let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_thalweg"));
        program.args(option).args(["-c", "-f", &path]).output().unwrap().status.success()
    };
    assert!(!check("", "", &[]), "who is believed is not said");
    assert!(check("", "", &["-dV"]));
    assert!(!check("", "verify required", &["-dV"]));
    assert!(!check("global\nssl-server-verify required\n", "", &["-dV"]));
    assert!(
        check("", "verify required ca-file @system-ca", &[])
            || !std::path::Path::new("/etc/ssl/certs/ca-certificates.crt").exists()
    );
}
