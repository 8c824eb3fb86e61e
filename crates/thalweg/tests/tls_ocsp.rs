//! OCSP responses that the proxy fetches itself (`ocsp-update`), from a responder of the test.

mod support;

use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use support::tls::{Authority, server, template};
use support::{Conn, Proxy, Server, Setup, each_driver, eventually};
use thalweg_tls::ocsp::OcspResponse;
use thalweg_tls::x509::Certificate;
use thalweg_tls::x509::oid::extension;
use thalweg_tls::{der, pem};

fn tell(proxy: &Proxy, command: &str) -> String {
    let path = proxy.path("cli");
    let mut cli = Conn::unix(eventually("the CLI listens", || UnixStream::connect(&path).ok()));
    cli.send(format!("{command}\n"));
    cli.rest_text()
}

/// The extension that names a responder.
fn responder(uri: &str) -> Vec<u8> {
    let mut access = Vec::new();
    der::write(&mut access, der::tag::OID, thalweg_tls::x509::oid::purpose::OCSP);
    der::write(&mut access, der::tag::context(6), uri.as_bytes());
    let (mut one, mut list) = (Vec::new(), Vec::new());
    der::write(&mut one, der::tag::SEQUENCE, &access);
    der::write(&mut list, der::tag::SEQUENCE, &one);
    list
}

/// A response about a certificate of this authority, which OpenSSL makes; nothing where there is none.
fn response(authority: &Authority, certificate: &str, revoked: bool) -> Option<Vec<u8>> {
    let path = |file: &str| authority.directory.0.join(file);
    std::fs::write(path("ca.key"), pem::encode("PRIVATE KEY", authority.key.pkcs8())).unwrap();
    let text = std::fs::read(certificate).unwrap();
    let leaf = Certificate::parse(&pem::blocks(&text).unwrap()[0].der).unwrap();
    let serial: String = leaf.serial_digits().iter().map(|byte| format!("{byte:02X}")).collect();
    let (at, letter) = if revoked { ("250101000000Z", "R") } else { ("", "V") };
    std::fs::write(path("index"), format!("{letter}\t960101000000Z\t{at}\t{serial}\tunknown\t/CN=a\n"))
        .unwrap();
    let output = Command::new("openssl")
        .args("ocsp -index index -rsigner ca.pem -rkey ca.key -CA ca.pem -issuer ca.pem -no_nonce".split(' '))
        .args(["-ndays", "7", "-respout", "response", "-cert", certificate])
        .current_dir(&authority.directory.0)
        .output()
        .ok()?;
    Some(std::fs::read(path("response")).unwrap_or_else(|_| panic!("{output:?}")))
}

/// A response that was good until 2020: this one with another date, signed again by the authority whose key `response` wrote.
fn outdated(authority: &Authority, good: &[u8]) -> Vec<u8> {
    let wrap = |tag: u8, parts: &[&[u8]]| {
        let mut out = Vec::new();
        der::write(&mut out, tag, &parts.concat());
        out
    };
    let mut answer = der::Reader::new(good).inside(der::tag::SEQUENCE).unwrap();
    answer.expect(der::tag::ENUMERATED).unwrap();
    let mut bytes = answer.inside(der::tag::explicit(0)).unwrap().inside(der::tag::SEQUENCE).unwrap();
    let kind = bytes.value().unwrap().whole;
    let basic = bytes.expect(der::tag::OCTET_STRING).unwrap().content;
    let mut basic = der::Reader::new(basic).inside(der::tag::SEQUENCE).unwrap();
    let mut told = basic.value().unwrap().whole.to_vec();
    let algorithm = basic.value().unwrap().whole;
    // The time of the next update: its tag, and that of a GeneralizedTime with its fifteen bytes.
    let next = told.windows(4).position(|four| four == [0xa0, 0x11, 0x18, 15]).unwrap();
    told[next + 4..next + 8].copy_from_slice(b"2020");
    let path = |file: &str| authority.directory.0.join(file);
    std::fs::write(path("told"), &told).unwrap();
    let output = Command::new("openssl")
        .args("dgst -sha256 -sign ca.key told".split(' '))
        .current_dir(&authority.directory.0)
        .output()
        .unwrap();
    let signature = wrap(der::tag::BIT_STRING, &[&[0], &output.stdout]);
    let basic = wrap(der::tag::SEQUENCE, &[&told, algorithm, &signature]);
    let bytes = wrap(der::tag::SEQUENCE, &[kind, &wrap(der::tag::OCTET_STRING, &[&basic])]);
    let success = wrap(der::tag::ENUMERATED, &[&[0]]);
    wrap(der::tag::SEQUENCE, &[&success, &wrap(der::tag::explicit(0), &[&bytes])])
}

/// A response whose time is over is no longer sent, and whoever asked for it is counted.
#[test]
fn responses_that_are_over_are_not_sent() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let path = authority.issue("a.example.com");
        let Some(good) = response(&authority, &path, false) else {
            eprintln!("skipped: there is no openssl");
            return;
        };
        std::fs::copy(authority.path("ca.pem"), format!("{path}.issuer")).unwrap();
        let text = format!("frontend fe\nbind <@fe> ssl crt {path}\nhttp-request return status 200\n");
        for (file, told, counts) in [
            (good.clone(), "Cert Status: good", ["1", "0"]),
            (outdated(&authority, &good), "OCSP response: no response sent", ["0", "1"]),
        ] {
            std::fs::write(format!("{path}.ocsp"), file).unwrap();
            let proxy = Setup::http(&text).global("stats socket <@dir>/cli level admin\n").start(io);
            let seen = stapled(&proxy);
            assert!(seen.contains(told), "{seen}");
            let columns = ["ssl_ocsp_staple", "ssl_failed_ocsp_staple"];
            assert_eq!(columns.map(|column| proxy.stat("fe,FRONTEND", column)), counts, "over {io}");
        }
    });
}

#[test]
fn responses_are_fetched() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let (answer, asked) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
        let fails = Arc::new(AtomicBool::new(true));
        let back = {
            let (answer, asked, fails) = (answer.clone(), asked.clone(), fails.clone());
            Server::start(move |mut conn, _| {
                let Some(request) = conn.next_request() else { return };
                asked.lock().unwrap().push(request.head.line.clone());
                let body = answer.lock().unwrap().clone();
                let status = if fails.load(Ordering::SeqCst) { "500 No" } else { "200 OK" };
                let head = format!(
                    "HTTP/1.1 {status}\r\nContent-Type: application/ocsp-response\r\nContent-Length: {}\r\n\r\n",
                    body.len()
                );
                let _ = conn.try_send([head.as_bytes(), &body].concat());
            })
        };
        let uri = format!("http://{}/ocsp", back.addr);
        let access = responder(&uri);
        let template = template("a.example.com").hosts(&["a.example.com"]);
        let template = template.extension(extension::AUTHORITY_INFO_ACCESS, false, &access);
        let path = authority.issue_as("a.pem", &template);
        let Some(good) = response(&authority, &path, false) else {
            eprintln!("skipped: there is no openssl");
            return;
        };
        let revoked = response(&authority, &path, true).unwrap();
        std::fs::copy(authority.path("ca.pem"), format!("{path}.issuer")).unwrap();
        let list = authority.path("list");
        std::fs::write(&list, format!("{path} [ocsp-update on]\n")).unwrap();
        let text = format!("frontend fe\nbind <@fe> ssl crt-list {list}\nhttp-request return status 200\n");
        let proxy = Setup::http(&text)
            .global("stats socket <@dir>/cli level admin\nocsp-update.mindelay 1000\n")
            .start(io);

        // Nobody answers at first, and it is not tried again at once.
        let line = proxy.log();
        assert!(line.ends_with(&format!("<OCSP-UPDATE> {path} 2 \"HTTP error\" 1 0")), "{line}");
        let start = asked.lock().unwrap()[0].clone();
        assert!(start.starts_with("GET /ocsp/M") && start.ends_with(" HTTP/1.1"), "{start}");
        let row = |at: usize| {
            let shown = tell(&proxy, "show ssl ocsp-updates");
            shown.lines().nth(1).unwrap().split(" | ").map(str::to_owned).collect::<Vec<_>>()[at..].join("|")
        };
        assert_eq!(row(3), "-|0|1|2|HTTP error");
        assert!(tell(&proxy, &format!("show ssl cert {path}.ocsp")).trim().is_empty());

        // What cannot be believed changes nothing.
        fails.store(false, Ordering::SeqCst);
        *answer.lock().unwrap() = b"nonsense".to_vec();
        let told = tell(&proxy, &format!("update ssl ocsp-response {path}"));
        assert!(told.starts_with("OCSP response check failure (Unable to parse OCSP response)."), "{told}");
        assert!(proxy.log().contains(" 4 \"OCSP response check failure (Unable"));

        let set = good.clone();
        *answer.lock().unwrap() = good;
        let told = tell(&proxy, &format!("update ssl ocsp-response {path}"));
        assert!(told.contains("Cert Status: good"), "{told}");
        assert!(proxy.log().ends_with(&format!("<OCSP-UPDATE> {path} 1 \"Update successful\" 2 1")));
        assert!(row(4).starts_with("1|2|1|Update successful"));
        assert!(stapled(&proxy).contains("Cert Status: good"));

        // The next one takes its place.
        *answer.lock().unwrap() = revoked;
        let told = tell(&proxy, &format!("update ssl ocsp-response {path}"));
        assert!(told.contains("Cert Status: revoked"), "{told}");
        assert!(stapled(&proxy).contains("Cert Status: revoked"));
        assert_eq!(
            ["ssl_ocsp_staple", "ssl_failed_ocsp_staple"].map(|column| proxy.stat("fe,FRONTEND", column)),
            ["2", "0"]
        );
        // Nobody is woken while nothing is due.
        tell(&proxy, "set profiling tasks on");
        std::thread::sleep(Duration::from_millis(1200));
        let ran = tell(&proxy, "show profiling tasks");
        assert!(ran.contains("cli") && !ran.contains("ocsp-update"), "{ran}");

        // A reload reads the certificate again, and neither asks for what is known nor forgets what was set.
        let before = asked.lock().unwrap().len();
        assert!(tell(&proxy, "reload").starts_with("Success=1\n"));
        assert!(stapled(&proxy).contains("Cert Status: revoked"));
        assert_eq!((asked.lock().unwrap().len(), tell(&proxy, "show config diff").trim()), (before, ""));
        let set = format!("set ssl ocsp-response {}", STANDARD.encode(&set));
        assert!(tell(&proxy, &set).contains("updated"));
        assert!(
            tell(&proxy, "show config diff")
                .starts_with(&format!("~ ocsp-response {path} content -> set # "))
        );
        let said = tell(&proxy, "reload");
        assert!(said.contains(&format!("kept: ocsp-response {path} as set at run time")), "{said}");
        assert!(stapled(&proxy).contains("Cert Status: good"));
        let said = tell(&proxy, "reload force");
        assert!(said.contains(&format!("dropped: ocsp-response {path}")), "{said}");

        let told = tell(&proxy, "update ssl ocsp-response nobody");
        assert!(told.starts_with("Unknown certificate!"), "{told}");
        drop(back);
    });
}

/// What a client of OpenSSL's sees of the response.
fn stapled(proxy: &Proxy) -> String {
    let output = Command::new("openssl")
        .args([
            "s_client",
            "-status",
            "-servername",
            "a.example.com",
            "-connect",
            &proxy.addr("fe").to_string(),
        ])
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_certificate_has_the_same_keywords_everywhere() {
    let authority = Authority::new("Root");
    let path = authority.issue("a.example.com");
    let write = |file: &str, text: String| {
        std::fs::write(authority.path(file), text).unwrap();
        authority.path(file)
    };
    let on = write("on", format!("{path} [ocsp-update on]\n"));
    let both = write("both", format!("{path} [ocsp-update on]\n{path} b.com\n"));
    let check = |store: &str, binds: &[&str]| {
        let binds: String = binds.iter().map(|bind| format!("bind 127.0.0.1:1 ssl {bind}\n")).collect();
        let times = "timeout client 1s\ntimeout server 1s\ntimeout connect 1s";
        let file = write("cfg", format!("defaults\nmode http\n{times}\nfrontend fe\n{binds}{store}"));
        Command::new(env!("CARGO_BIN_EXE_thalweg")).args(["-c", "-f", &file]).output().unwrap()
    };
    let crt = format!("crt {path}");
    let on = format!("crt-list {on}");
    let update = "previously 'on' vs 'default' (ocsp-update.mode off)";
    for (binds, told) in [
        (vec![&crt[..], &on], "previously 'default' (ocsp-update.mode off) vs 'on'"),
        (vec![&on, &crt], update),
        (vec![&format!("crt-list {both}")], update),
    ] {
        let output = check("", &binds);
        assert!(!output.status.success(), "{binds:?}");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(&format!("different parameter 'ocsp-update' : {told}")), "{text}");
    }
    // What a store says counts wherever nothing is said.
    let store = format!("crt-store\nload crt {path} ocsp-update on\n");
    assert!(check(&store, &[&crt, &on]).status.success());
}

/// What a server's certificate wants and what it staples, and whether it is believed.
#[test]
fn what_servers_staple_is_looked_at() {
    // RFC 7633: a list of the extensions that a server has to send, of which 5 is the response.
    let must_staple = [0x30, 3, 2, 1, 5];
    each_driver(|io| {
        let authority = Authority::new("Root");
        let plain = template("a.example.com").hosts(&["a.example.com"]);
        let strict = plain.clone().extension(extension::TLS_FEATURE, false, &must_staple);
        let (plain, strict) =
            (authority.issue_as("plain.pem", &plain), authority.issue_as("strict.pem", &strict));
        let Some(good) = response(&authority, &strict, false) else {
            eprintln!("skipped: there is no openssl");
            return;
        };
        let good_of_plain = response(&authority, &plain, false);
        let revoked = |path: &str| response(&authority, path, true);
        for (what, path, stapled, believed) in [
            ("nothing", &plain, None, true),
            ("that it is good", &plain, good_of_plain.clone(), true),
            ("that it is revoked", &plain, revoked(&plain), false),
            ("something about another one", &plain, Some(good.clone()), true),
            ("nothing although it must", &strict, None, false),
            ("that it is good, as it must", &strict, Some(good), true),
            ("that it is revoked, as it must", &strict, revoked(&strict), false),
            ("something about another one although it must", &strict, good_of_plain, false),
        ] {
            let selection = server(path, |_| {});
            let stapled = stapled.map(|der| Arc::new(OcspResponse::parse(&der).unwrap()));
            selection.served()[0].credential.set_ocsp(stapled);
            let back = Server::start(move |conn, _| {
                if let Ok(mut conn) = conn.try_accept_tls(&selection)
                    && conn.next_request().is_some()
                {
                    conn.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
                }
            });
            let text = format!(
                "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nretries 0\n\
                 server s {} ssl verify required ca-file {} verifyhost a.example.com\n",
                back.addr,
                authority.path("ca.pem")
            );
            let proxy = Setup::http(&text).start(io);
            let answer = proxy.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            assert_eq!(
                answer.status,
                if believed { 200 } else { 503 },
                "a server that staples {what}, over {io}"
            );
            drop(back);
        }
    });
}

/// A certificate that clients refuse without a response is one that somebody has to care for.
#[test]
fn certificates_that_must_be_stapled_are_warned_of() {
    let authority = Authority::new("Root");
    let template = template("a.example.com").hosts(&["a.example.com"]);
    let path =
        authority.issue_as("a.pem", &template.extension(extension::TLS_FEATURE, false, &[0x30, 3, 2, 1, 5]));
    for (global, warned) in [("", true), ("ocsp-update.mode on\n", false)] {
        let file = authority.path("cfg");
        let text = format!(
            "global\n{global}defaults\nmode http\ntimeout client 1s\nfrontend fe\nbind 127.0.0.1:1 ssl crt {path}\n"
        );
        std::fs::write(&file, text).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_thalweg")).args(["-c", "-f", &file]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert_eq!(
            said.contains("clients may refuse without an OCSP response (must-staple)"),
            warned,
            "{said}"
        );
    }
}
