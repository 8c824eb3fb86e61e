//! TLS of what is no proxy: servers of rings and of log backends, `log-forward` sections, the CLI; and keys of tokens.

mod support;

use std::path::Path;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use support::tls::{Authority, client, server, template};
use support::{Conn, Server, Setup, each_driver};
use thalweg_tls::x509::oid::purpose;

/// A server of logs on which TLS is spoken: what it was sent, as it comes. Connections that it cannot agree with are dropped.
fn log_server(authority: &Authority) -> (Server, mpsc::Receiver<String>) {
    let selection = server(&authority.issue("logs.example.com"), |_| {});
    let (tell, told) = mpsc::channel();
    let tell = Mutex::new(tell);
    let server = Server::start(move |conn, _| {
        let Ok(mut conn) = conn.try_accept_tls(&selection) else { return };
        while let Some(line) = conn.try_until(b"\n") {
            let _ = tell.lock().unwrap().send(String::from_utf8(line).unwrap());
        }
    });
    (server, told)
}

/// The longest that a line of a log may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn rings_and_log_backends_are_sent_over_tls() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let ca = authority.path("ca.pem");
        for (target, section) in [
            ("ring@secret", "ring secret\nformat raw\nmaxlen 500\nsize 8192\n"),
            ("backend@secret", "backend secret\nmode log\n"),
        ] {
            let (server, told) = log_server(&authority);
            let proxy = Setup::http(&format!(
                "frontend fe\nbind <@fe>\nlog {target} format raw local0\nlog-format <%HP>\n\
                 http-request return status 200\n\
                 {section}server s {} ssl verify required ca-file {ca} verifyhost logs.example.com\n",
                server.addr
            ))
            .start(io);
            for path in ["/one", "/two"] {
                proxy.ask(&format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
                let line = told.recv_timeout(PATIENCE).unwrap();
                assert!(line.contains(&format!("<{path}>")), "{target} over {io}: {line}");
            }
            proxy.finish(server);
        }
    });
}

/// A server of logs that cannot be verified is told nothing.
#[test]
fn servers_of_rings_are_verified() {
    each_driver(|io| {
        let (authority, stranger) = (Authority::new("Root"), Authority::new("Stranger"));
        let (alien, told) = log_server(&stranger);
        let (known, heard) = log_server(&authority);
        let options = format!("ssl ca-file {}", authority.path("ca.pem"));
        let proxy = Setup::http(&format!(
            "frontend fe\nbind <@fe>\nlog ring@secret format raw local0\nlog-format <%HP>\n\
             http-request return status 200\n\
             ring secret\nformat raw\nmaxlen 500\nsize 8192\nserver a {} {options}\nserver b {} {options}\n",
            alien.addr, known.addr
        ))
        .start(io);
        proxy.ask("GET /secret HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(heard.recv_timeout(PATIENCE).unwrap().contains("/secret"));
        // The other one was connected to at the same time.
        assert_eq!(told.try_recv().ok(), None);
        proxy.finish((alien, known));
    });
}

#[test]
fn messages_arrive_over_tls() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let certificate = authority.issue("logs.example.com");
        let ca = authority.path("ca.pem");
        let (tell, told) = mpsc::channel();
        let tell = Mutex::new(tell);
        let back = Server::start(move |mut conn, _| {
            while let Some(line) = conn.try_until(b"\n") {
                let _ = tell.lock().unwrap().send(String::from_utf8(line).unwrap());
            }
        });
        let proxy = Setup::tcp(&format!(
            "log-forward in\nbind <@in> ssl crt {certificate} ca-file {ca} verify required\ntimeout client 10s\n\
             log ring@out local0\n\
             ring out\nformat raw\nsize 8192\nserver s {}\nfrontend fe\nbind <@fe>\n",
            back.addr
        ))
        .start(io);
        // Neither plain text nor somebody unknown gets through.
        let mut plain = Conn::connect(proxy.addr("in"));
        plain.send("<13>Oct 11 22:14:15 host plain: no\n");
        plain.ended();
        let nobody = Conn::connect(proxy.addr("in")).try_encrypt(&client(|_| {}), None);
        let refused = nobody.is_err() || nobody.is_ok_and(|mut conn| conn.try_rest().is_err());
        assert!(refused, "over {io}");
        let own = template("sender").purposes(&[purpose::CLIENT_AUTH]);
        let own = support::tls::client_with(&authority.issue_as("client.pem", &own));
        let mut conn = Conn::connect(proxy.addr("in")).encrypt(&own, None);
        conn.send("<13>Oct 11 22:14:15 host app: first\n<13>Oct 11 22:14:15 host app: second\n");
        for word in ["first", "second"] {
            let line = told.recv_timeout(PATIENCE).unwrap();
            assert!(line.contains(word), "over {io}: {line}");
        }
        drop(conn);
        proxy.finish(back);
    });
}

#[test]
fn the_cli_speaks_tls() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let certificate = authority.issue("cli.example.com");
        let ca = authority.path("ca.pem");
        let proxy = Setup::http("frontend fe\nbind <@fe>\n")
            .global(&format!(
                "stats socket <@cli> level admin ssl crt {certificate} ca-file {ca} verify required"
            ))
            .start(io);
        let own = template("operator").purposes(&[purpose::CLIENT_AUTH]);
        let own = support::tls::client_with(&authority.issue_as("client.pem", &own));
        let mut conn = Conn::connect(proxy.addr("cli")).encrypt(&own, None);
        conn.send("show version\n");
        // Its end is announced.
        assert!(String::from_utf8(conn.try_rest().unwrap()).unwrap().contains("0.1.0"), "over {io}");
        let mut plain = Conn::connect(proxy.addr("cli"));
        plain.send("show version\n");
        assert!(!String::from_utf8_lossy(&plain.rest()).contains("0.1.0"), "over {io}");
        let context: Arc<_> = client(|_| {});
        let nobody = Conn::connect(proxy.addr("cli")).try_encrypt(&context, None);
        let said = nobody.and_then(|mut conn| {
            conn.try_send("show version\n")?;
            conn.try_rest()
        });
        assert!(said.is_err(), "over {io}: {said:?}");
        drop(conn);
        proxy.finish(());
    });
}

/// A token may be verified with the key whose file a variable names, if the configuration has named that file, too.
#[test]
fn a_variable_names_the_file_of_a_key() {
    // RFC 7515 appendix A.3.
    const KEY: &str = "-----BEGIN PUBLIC KEY-----\n\
        MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEf83OJ3D2xF1Bg8vub9tLe1gHMzV7\n\
        6e8Tus9uPHvRVEXH8UTNG72bfocs3+257rn0s2ldbqkLJK2KRiMohYjlrQ==\n\
        -----END PUBLIC KEY-----\n";
    const TOKEN: &str = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0\
        cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
    let text = format!(
        "frontend fe\nbind <@fe>\nhttp-request set-var(txn.token) str({TOKEN})\nhttp-request set-var(txn.file) hdr(file)\n\
         http-request deny unless {{ var(txn.token),jwt_verify(ES256,<@dir>/named) 1 }}\n\
         http-request deny if {{ var(txn.token),jwt_verify(HS256,<@dir>/secret) 1 }}\n\
         http-request return status 200 hdr said %[var(txn.token),jwt_verify(ES256,txn.file)]\n"
    );
    let check = |io, program: Option<&Path>| {
        let mut setup = Setup::http(&text);
        for file in ["named", "secret", "other"] {
            setup = setup.file_beside(file, KEY);
        }
        if let Some(program) = program {
            setup = setup.program(program);
        }
        let proxy = setup.start(io);
        for (file, said) in [("named", "1"), ("secret", "-5"), ("other", "-5")] {
            let path = proxy.path(file);
            let answer = proxy.ask(&format!("GET / HTTP/1.1\r\nHost: h\r\nFile: {}\r\n\r\n", path.display()));
            assert_eq!(answer.field("said"), said, "{file}");
        }
    };
    if let Some(reference) = support::reference() {
        check("epoll", Some(&reference));
    }
    each_driver(|io| check(io, None));
}
