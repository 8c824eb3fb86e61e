//! TLS end to end, on both sides: handshakes, records, names, certificates, ends, and what peers do wrong.

mod counted;
mod keys;
mod live;
mod misbehaved;
mod servers;
#[path = "../support/mod.rs"]
mod support;
mod tickets;

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;

use support::tls::{Authority, client, client_credential, client_with, now, server, template};
use support::{Conn, Proxy, Server, Setup, each_driver, eventually, ok};
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

/// Asks the runtime CLI.
fn tell(proxy: &Proxy, command: &str) -> String {
    proxy.tell("cli", command)
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
            ("ssl_c_s_dn(cn,-1)", "me"),
            ("ssl_c_s_dn(CN,0)", ""),
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

#[test]
fn forwarded_says_that_the_client_was_encrypted() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let certificate = authority.issue("www.example.com");
        let server = Server::http(|request: &support::Request| ok(&request.head.field("forwarded")));
        let text = format!(
            "frontend fe\nbind <@fe> ssl crt {certificate}\ndefault_backend be\nbackend be\noption forwarded proto\n\
             server s {}\n",
            server.addr
        );
        let proxy = Setup::http(&text).start(io);
        let mut conn = proxy.connect().encrypt(&client(|_| ()), Some("www.example.com"));
        assert_eq!(get(&mut conn, "/").text(), "proto=https");
        drop(conn);
        proxy.finish(server);
    });
}
