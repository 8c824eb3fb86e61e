//! Certificates, authorities and revocations that change while connections are served.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use thalweg_tls::pem;
use thalweg_tls::x509::make::revocations;
use thalweg_tls::x509::oid::purpose;

use super::support::tls::{Authority, DAY, client, client_with, now, template};
use super::support::{Proxy, Setup, each_driver};
use super::{TLS12, get, tell};

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

/// Certificates, lists of them and authorities change with all else of a transaction, or not at all.
#[test]
fn certificates_change_in_a_transaction() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let issue =
            |file: &str, name: &str, host: &str| authority.issue_as(file, &template(name).hosts(&[host]));
        let path = issue("site.pem", "first", "a.example.com");
        let second = issue("second.pem", "second", "a.example.com");
        let other = issue("other.pem", "other", "b.example.com");
        let (list, ca) = (authority.path("list"), authority.path("ca.pem"));
        std::fs::write(&list, format!("{path}\n")).unwrap();
        let text = format!(
            "frontend fe\nbind <@fe> ssl crt-list {list}\nhttp-request return status 200\nbackend be\n\
             server s 192.0.2.1:443 ssl verify required ca-file {ca}\n"
        );
        let proxy = Setup::http(&text).global("stats socket <@dir>/cli level admin\n").start(io);
        let read = |path: &str| std::fs::read_to_string(path).unwrap();
        let added = authority.path("new.pem");
        let changes = [
            "set server be/s weight 7".to_owned(),
            "set server be/s ssl off".into(),
            // What is set is in place with the next change, or with the last.
            format!("set ssl cert {path} <<\n{}\n", read(&second)),
            format!("new ssl cert {added}"),
            format!("set ssl cert {added} <<\n{}\n", read(&other)),
            format!("add ssl crt-list {list} {added}"),
            format!("add ssl ca-file {ca} <<\n{}\n", read(&Authority::new("Newcomer").path("ca.pem"))),
        ];
        // A session ends with its commands: the prompt keeps it for those behind a payload.
        let play = |last: &[&str]| {
            let all = changes.iter().map(String::as_str).chain(last.iter().copied());
            let lines: String = all.map(|line| format!("{line}\n")).collect();
            tell(&proxy, &format!("prompt i\nbegin config\n{lines}quit"))
        };
        let state = || {
            let shown = ["a.example.com", "b.example.com"].map(|name| shown(&proxy, name));
            let told = ["get weight be/s", "show ssl cert", "show ssl ca-file", "show config diff"];
            (shown, told.map(|command| tell(&proxy, command)))
        };
        let before = state();
        for (wrong, why) in [
            (format!("del ssl cert {path}"), "in use"),
            (format!("del ssl cert {added}"), "in use"),
            (format!("new ssl cert {path}"), "already exists"),
            (format!("commit ssl cert {path}"), "No ongoing transaction"),
            (format!("set ssl cert {path} <<\nnothing\n"), "Can't load the payload"),
            ("set ssl cert nowhere <<\nnothing\n".into(), "not referenced"),
            (format!("set ssl cert {path}.key <<\n{}\n", key_of(&read(&other))), "Can't commit"),
            (format!("set ssl cert {path}"), "a payload is missing"),
            (format!("add ssl crt-list {list} nowhere"), "does not exist"),
            (format!("del ssl crt-list {list} {path}"), "used as default certificate"),
            (format!("del ssl ca-file {ca}"), "in use"),
            ("new ssl crl-file".into(), "A name is missing"),
            ("del server be/s".into(), "Only servers in maintenance"),
        ] {
            let said = play(&[&wrong, "check config", "commit config"]);
            assert_eq!(said.matches("Nothing was changed.").count(), 2, "{io}: {wrong}: {said}");
            assert!(said.contains(why), "{io}: {wrong}: {said}");
            assert_eq!(state(), before, "{io}: {wrong}");
        }
        let said = play(&["check config"]);
        assert!(said.contains("7 changes can be made"), "{io}: {said}");
        assert_eq!(state(), before, "{io}: nothing is changed yet");
        let said = play(&["commit config"]);
        assert!(said.contains("7 changes were made"), "{io}: {said}");
        let (shown, [weight, certificates, authorities, diff]) = state();
        assert!(shown[0].contains("second") && shown[1].contains("other"), "{io}: {shown:?}");
        assert!(weight.starts_with("7 "), "{io}: {weight}");
        assert!(certificates.contains(&added) && !certificates.contains('*'), "{io}: {certificates}");
        assert!(authorities.contains("2 certificate(s)"), "{io}: {authorities}");
        assert!(diff.contains("be/s ssl on -> off"), "{io}: {diff}");
        proxy.finish(());
    });
}

/// The key in a file of certificates.
fn key_of(pem: &str) -> &str {
    &pem[pem.find("-----BEGIN PRIVATE KEY").expect("a key")..]
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

/// What commands made of files is said, and stays when the files are read again, unless that is wanted.
#[test]
fn what_files_hold_and_commands_changed_outlasts_a_reload() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let path = authority.issue_as("site.pem", &template("first").hosts(&["a.example.com"]));
        let other = authority.issue_as("other.pem", &template("other").hosts(&["b.example.com"]));
        let [list, ca, crl, keys, added] =
            ["list", "ca.pem", "crl.pem", "keys", "new.pem"].map(|file| authority.path(file));
        let revoked = |serials: &[&[u8]]| {
            let der =
                revocations(&authority.name, &authority.key, (now() - DAY, now() + DAY), serials).unwrap();
            pem::encode("X509 CRL", &der)
        };
        let key = |byte: u8| STANDARD.encode([byte; 48]);
        std::fs::write(&list, format!("{path}\n")).unwrap();
        std::fs::write(&crl, revoked(&[])).unwrap();
        std::fs::write(&keys, [1, 2, 3].map(|byte| key(byte) + "\n").concat()).unwrap();
        let text = format!(
            "frontend fe\nbind <@fe> ssl crt-list {list} ca-file {ca} crl-file {crl} verify optional tls-ticket-keys {keys}\n\
             http-request return status 200\n"
        );
        let proxy = Setup::http(&text).global("stats socket <@dir>/cli level admin\n").start(io);
        let done = |command: String| {
            let said = tell(&proxy, &command);
            assert!(
                ["Success!", "ransaction", "New ", "updated"].iter().any(|word| said.contains(word))
                    || said.trim().is_empty(),
                "{said}"
            );
        };
        let read = |path: &str| std::fs::read_to_string(path).unwrap();
        done(format!("new ssl cert {added}"));
        done(format!("set ssl cert {added} <<\n{}\n", read(&other)));
        done(format!("commit ssl cert {added}"));
        done(format!("add ssl crt-list {list} {added}"));
        done(format!("add ssl ca-file {ca} <<\n{}\n", read(&Authority::new("Newcomer").path("ca.pem"))));
        done(format!("commit ssl ca-file {ca}"));
        done(format!("set ssl crl-file {crl} <<\n{}\n", revoked(&[&[7]])));
        done(format!("commit ssl crl-file {crl}"));
        done(format!("set ssl tls-key {keys} {}", key(4)));
        done(format!("add ssl jwt {path}"));
        let names = [
            ("certificate", &added),
            ("ca-file", &ca),
            ("crl-file", &crl),
            ("crt-list", &list),
            ("tls-ticket-keys", &keys),
            ("jwt", &path),
        ];
        let is_changed = |what: &str| {
            assert!(shown(&proxy, "b.example.com").contains("other"), "{io}: {what}");
            assert!(tell(&proxy, "show ssl ca-file").contains("2 certificate(s)"), "{io}: {what}");
            assert!(
                tell(&proxy, &format!("show ssl crl-file {crl}")).contains("Serial Number: 07"),
                "{io}: {what}"
            );
            assert!(tell(&proxy, "show tls-keys *").contains(&key(4)), "{io}: {what}");
            assert!(tell(&proxy, "show ssl jwt").contains(&path), "{io}: {what}");
            let diff = tell(&proxy, "show config diff");
            for (kind, name) in names {
                assert!(
                    diff.contains(&format!("~ {kind} {name} content -> set # ")),
                    "{io}: {what}: {kind} in {diff}"
                );
            }
            assert!(diff.contains(&format!("+ certificate {added} new\n")), "{io}: {what}: {diff}");
        };
        is_changed("at first");
        for what in ["after a reload", "after another one"] {
            let said = tell(&proxy, "reload");
            assert!(said.starts_with("Success=1\n"), "{io}: {said}");
            for (kind, name) in names {
                assert!(said.contains(&format!("kept: {kind} {name}")), "{io}: {kind}: {said}");
            }
            is_changed(what);
        }
        let said = tell(&proxy, "reload force");
        for (kind, name) in names {
            assert!(said.contains(&format!("dropped: {kind} {name}")), "{io}: {kind}: {said}");
        }
        assert!(shown(&proxy, "b.example.com").contains("first"), "{io}");
        assert!(tell(&proxy, "show ssl ca-file").contains("1 certificate(s)"), "{io}");
        assert!(!tell(&proxy, "show tls-keys *").contains(&key(4)), "{io}");
        assert_eq!(tell(&proxy, "show config diff").trim(), "", "{io}");
        proxy.finish(());
    });
}

/// Where no line uses TLS the commands answer as where nothing is loaded, in the words of the reference.
#[test]
fn nothing_is_loaded_without_a_line_that_uses_tls() {
    let text = "frontend fe\nbind <@fe>\nhttp-request return status 200\n";
    let proxy = Setup::http(text).global("stats socket <@dir>/cli level admin\n").start("epoll");
    for (command, expected) in [
        ("show ssl cert", ""),
        ("show ssl ca-file", "# filename\n"),
        ("show ssl crt-list", ""),
        (
            "show ssl sni -f fe",
            "# Frontend/Bind\tSNI\tNegative Filter\tType\tFilename\tNotAfter\tNotBefore\n",
        ),
        ("show ssl sni -f x", "Couldn't find the specified frontend!\n"),
        (
            "show ssl ocsp-updates",
            "OCSP Certid | Path | Next Update | Last Update | Successes | Failures | Last Update Status | Last Update \
             Status (str)\n",
        ),
        ("show ssl ocsp-response 00", "Certificate ID or path does not match any certificate.\n"),
        (
            "show ssl ocsp-response x",
            "'show ssl ocsp-response' expects a valid certid or certificate path.\n",
        ),
        ("show ssl ocsp-response text", "'show ssl ocsp-response [text|base64]' expects a valid certid.\n"),
        ("show tls-keys", "# id (file)\n"),
        ("show tls-keys *", "# id secret\n"),
        ("set ssl ocsp-response x", "'set ssl ocsp-response' received invalid base64 encoded response.\n"),
        ("commit ssl cert x", "No ongoing transaction! !\nCan't commit x!\n"),
        ("abort ssl ca-file x", "No ongoing transaction!\n"),
        ("del ssl crl-file x", "Can't remove the CRL file: CRL file 'x' doesn't exist!\n"),
        ("add ssl crt-list x y", "Can't edit the crt-list: crt-list 'x' does not exist!\n"),
        ("new ssl cert x", "New empty certificate store 'x'!\n"),
        ("show ssl cert", "# filename\nx\n"),
    ] {
        assert_eq!(tell(&proxy, command), format!("{expected}\n"), "{command}");
    }
}
