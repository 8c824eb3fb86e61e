//! Servers: whether they are who they should be, connections and sessions kept for them, checks, and what commands change.

use std::fs;

use thalweg_h2::settings::Settings;

use super::support::h2::Served;
use super::support::tls::{Authority, client, now, server, template};
use super::support::{Conn, Server, Setup, each_driver, ok};
use super::{get, https, tell};

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

/// A reload makes no new context for a server whose line and files say the same: its idle connections are used again.
#[test]
fn connections_outlast_a_reload() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let selection = server(&authority.issue("back.example.com"), |_| {});
        let back = Server::start(move |conn, number| {
            let Ok(mut conn) = conn.try_accept_tls(&selection) else { return };
            while conn.next_request().is_some() {
                if conn.try_send(ok(&number.to_string())).is_err() {
                    return;
                }
            }
        });
        let words = "verify required verifyhost back.example.com no-sni-auto pool-low-conn 10";
        let mut proxy =
            behind(&authority, &back, words).global("stats socket <@dir>/cli level admin").start(io);
        let mut conn = proxy.connect();
        let mut served_by = |what: &str, connection: &str| {
            conn.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
            assert_eq!(conn.response().text(), connection, "{io}: {what}");
        };
        let reload = |proxy: &super::Proxy| assert!(tell(proxy, "reload").starts_with("Success=1\n"), "{io}");
        served_by("at first", "0");
        proxy.edit("retries 0", "retries 1");
        reload(&proxy);
        served_by("another line changed", "0");
        let ca = authority.path("ca.pem");
        let stranger = fs::read_to_string(Authority::new("Stranger").path("ca.pem")).unwrap();
        fs::write(&ca, fs::read_to_string(&ca).unwrap() + &stranger).unwrap();
        reload(&proxy);
        served_by("its authority is another one", "1");
        reload(&proxy);
        served_by("nothing changed", "1");
        proxy.edit("verify required", "verify none");
        reload(&proxy);
        served_by("its line is another one", "2");
        drop(conn);
        proxy.finish(back);
    });
}

/// A certificate that was replaced is the one that is shown, without new connections, and TLS that was switched off stays so.
#[test]
fn what_was_set_at_run_time_outlasts_a_reload() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let selection = server(&authority.issue("back.example.com"), |_| {});
        let back = Server::start(move |conn, number| {
            let Ok(mut conn) = conn.try_accept_tls(&selection) else { return };
            while conn.next_request().is_some() {
                if conn.try_send(ok(&number.to_string())).is_err() {
                    return;
                }
            }
        });
        let own = authority.issue_as("own.pem", &template("own"));
        let next = fs::read_to_string(authority.issue_as("next.pem", &template("next"))).unwrap();
        let words = format!("verify none no-sni-auto pool-low-conn 10 crt {own}");
        let mut proxy =
            behind(&authority, &back, &words).global("stats socket <@dir>/cli level admin").start(io);
        let mut conn = proxy.connect();
        let mut served_by = |what: &str, connection: &str| {
            conn.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
            assert_eq!(conn.response().text(), connection, "{io}: {what}");
        };
        served_by("at first", "0");
        tell(&proxy, &format!("set ssl cert {own} <<\n{next}\n"));
        assert!(tell(&proxy, &format!("commit ssl cert {own}")).contains("Success!"), "{io}");
        served_by("another certificate is shown", "1");
        for retries in 1..3 {
            proxy.edit(&format!("retries {}", retries - 1), &format!("retries {retries}"));
            let said = tell(&proxy, "reload");
            assert!(said.starts_with("Success=1\n"), "{io}: {said}");
            served_by("it stays", "1");
        }
        tell(&proxy, "set server be/s ssl off");
        assert!(tell(&proxy, "show config diff").contains("ssl on -> off"), "{io}");
        proxy.edit("retries 2", "retries 1");
        assert!(tell(&proxy, "reload").starts_with("Success=1\n"), "{io}");
        assert!(tell(&proxy, "show config diff").contains("ssl on -> off"), "{io}: it stays off");
        drop(conn);
        proxy.finish(back);
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
