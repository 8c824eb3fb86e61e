//! Files of certificates: those that cannot be loaded, and those that change while they are served.

mod support;

use support::tls::{Authority, DAY, client, now, template};
use support::{Conn, Proxy, Setup, each_driver, eventually, program};
use thalweg_tls::x509::make::Template;
use thalweg_tls::x509::time;

/// The name in the certificate that is shown to whoever asks for this name.
fn shown(proxy: &Proxy, name: &str) -> String {
    let mut conn = proxy.connect().encrypt(&client(|_| {}), Some(name));
    let subject = conn.tls().facts.peer[0].subject();
    let name = thalweg_tls::x509::name::common_name(subject).unwrap();
    String::from_utf8_lossy(name).into_owned()
}

/// Waits until a client is shown this certificate.
fn until_shown(proxy: &Proxy, name: &str, wanted: &str) {
    eventually(wanted, || (shown(proxy, name) == wanted).then_some(()));
}

/// Waits for a line of the log with these words.
fn logged(proxy: &Proxy, words: &str) -> String {
    loop {
        let line = proxy.log();
        if line.contains(words) {
            return line;
        }
    }
}

/// Writes a file under another name and moves it to its place, as careful programs do.
fn replace(path: &str, text: &str) {
    let beside = format!("{path}.new");
    std::fs::write(&beside, text).unwrap();
    std::fs::rename(beside, path).unwrap();
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn certificates_that_change_on_disk_are_served() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let path = authority.issue_as("site.pem", &template("first").hosts(&["a.example.com"]));
        let text = format!("frontend fe\nbind <@fe> ssl crt {path}\nhttp-request return status 200\n");
        let proxy = Setup::http(&text).global("crt-watch on").start(io);
        assert_eq!(shown(&proxy, "a.example.com"), "first");

        let second = read(&authority.issue_as("x", &template("second").hosts(&["a.example.com"])));
        replace(&path, &second);
        until_shown(&proxy, "a.example.com", "second");

        // Half a file is no certificate, nor is one whose key is another's, and one that is over is of no use.
        let (certificate, key) = second.split_at(second.find("-----BEGIN PRIVATE").unwrap());
        let third = read(&authority.issue_as("x", &template("third").hosts(&["a.example.com"])));
        let mut over = template("over").hosts(&["a.example.com"]);
        over.not_after = now() - 1;
        let over = read(&authority.issue_as("x", &over));
        let foreign = &third[third.find("-----BEGIN PRIVATE").unwrap()..];
        for (text, why) in [
            (&third[..200], "bad end line"),
            (certificate, "No Private Key found"),
            (&format!("{certificate}{foreign}"), "inconsistencies between private key and certificate"),
            (&over, "it has expired"),
        ] {
            replace(&path, text);
            let line = logged(&proxy, &format!("crt-watch: '{path}' changed on disk and is not used: "));
            assert!(line.contains(why), "{line}");
            assert_eq!(shown(&proxy, "a.example.com"), "second", "{why} over {io}");
        }
        // A key of its own file completes what the certificate's lacks.
        std::fs::write(format!("{path}.key"), key).unwrap();
        replace(&path, &third);
        until_shown(&proxy, "a.example.com", "third");
        std::fs::remove_file(&path).unwrap();
        logged(&proxy, &format!("crt-watch: '{path}' is not on disk any more."));
        assert_eq!(shown(&proxy, "a.example.com"), "third");
        assert!(!proxy.output().contains("panicked"));
    });
}

#[test]
fn certificates_are_watched_after_a_reload() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let issued = |name: &str, host: &str| read(&authority.issue_as("x", &template(name).hosts(&[host])));
        let (one, two) = (authority.path("one.pem"), authority.path("two.pem"));
        replace(&one, &issued("first", "a.example.com"));
        replace(&two, &issued("other", "b.example.com"));
        let text = format!("frontend fe\nbind <@fe> ssl crt {one}\nhttp-request return status 200\n");
        let setup = Setup::http(&text).global("stats socket <@dir>/cli level admin").global("crt-watch on");
        let mut proxy = setup.start(io);
        assert_eq!(shown(&proxy, "a.example.com"), "first");
        proxy.edit(&format!("crt {one}"), &format!("crt {one} crt {two}"));
        let mut cli = Conn::connect_unix(&proxy.path("cli"));
        cli.send("reload\n");
        let said = cli.rest_text();
        assert!(said.starts_with("Success=1"), "{io}: {said}");
        assert_eq!(shown(&proxy, "b.example.com"), "other", "{io}");
        replace(&one, &issued("second", "a.example.com"));
        until_shown(&proxy, "a.example.com", "second");
        replace(&two, &issued("another", "b.example.com"));
        until_shown(&proxy, "b.example.com", "another");
    });
}

#[test]
fn certificates_that_are_new_in_a_directory_are_served() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let directory = authority.path("served");
        std::fs::create_dir(&directory).unwrap();
        let put = |file: &str, name: &str, host: &str| {
            let made = authority.issue_as("x", &template(name).hosts(&[host]));
            std::fs::rename(made, format!("{directory}/{file}")).unwrap();
        };
        put("a.pem", "first", "a.example.com");
        let text = format!(
            "frontend fe\nbind <@fe> ssl strict-sni crt {directory}\nhttp-request return status 200\n"
        );
        let proxy = Setup::http(&text).global("crt-watch on").start(io);
        assert_eq!(shown(&proxy, "a.example.com"), "first");
        let context = client(|_| {});
        assert!(proxy.connect().try_encrypt(&context, Some("b.example.com")).is_err());
        std::fs::write(format!("{directory}/broken.pem"), "nothing\n").unwrap();
        put("b.pem", "second", "b.example.com");
        eventually("b.example.com", || proxy.connect().try_encrypt(&context, Some("b.example.com")).ok());
        assert_eq!(shown(&proxy, "b.example.com"), "second");
        put("b.pem", "third", "b.example.com");
        until_shown(&proxy, "b.example.com", "third");
        assert_eq!(shown(&proxy, "a.example.com"), "first");
        assert!(!proxy.output().contains("panicked"));
    });
}

/// What the program says of a file, and whether it accepts it.
fn verdict(text: &str, directory: &std::path::Path) -> (bool, String) {
    let file = directory.join("cfg");
    std::fs::write(&file, text).unwrap();
    let output = program().args(["-c", "-f"]).arg(&file).output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn what_cannot_be_loaded_may_be_left_out() {
    let authority = Authority::new("Root");
    let directory = authority.path("served");
    std::fs::create_dir(&directory).unwrap();
    let good = read(&authority.issue("good.example.com"));
    std::fs::write(format!("{directory}/good.pem"), &good).unwrap();
    std::fs::write(format!("{directory}/a.pem"), "nothing\n").unwrap();
    std::fs::write(format!("{directory}/z.pem"), &good[..300]).unwrap();
    let list = authority.path("list");
    std::fs::write(&list, format!("{directory}/a.pem\n{directory}/good.pem\n{directory}/z.pem\n")).unwrap();
    let tell = |errors: &str, crt: &str| {
        let text = format!(
            "global\n{errors}\ndefaults\nmode http\ntimeout client 1s\ntimeout connect 1s\ntimeout server 1s\n\
             frontend fe\nbind 127.0.0.1:1 ssl {crt}\n"
        );
        verdict(&text, &authority.directory.0)
    };
    for crt in [format!("crt {directory}"), format!("crt-list {list}")] {
        for (errors, accepted) in
            [("", false), ("ssl-load-errors fail", false), ("ssl-load-errors warn", true)]
        {
            let (is_accepted, said) = tell(errors, &crt);
            assert_eq!(is_accepted, accepted, "{errors} {crt}: {said}");
            // Each of them is named, not the first one only.
            for (file, why) in [("a.pem", "no start line"), ("z.pem", "bad end line")] {
                let severity = if accepted { "[WARNING]" } else { "[ALERT]" };
                let line = said.lines().find(|line| line.contains(&format!("{directory}/{file}")));
                let line = line.unwrap_or_else(|| panic!("{crt}: {said}"));
                assert!(line.starts_with(severity) && line.contains(why), "{line}");
            }
        }
    }
    // With nothing left there is nothing to serve.
    let (accepted, said) = tell("ssl-load-errors warn", &format!("crt {directory}/a.pem"));
    assert!(!accepted && said.contains("no SSL certificate specified"), "{said}");
    // Nor is there where a list or a directory is empty, which clients may be told of all the same.
    let (list, empty) = (format!("{directory}/list"), format!("{directory}/empty"));
    std::fs::write(&list, "").unwrap();
    std::fs::create_dir(&empty).unwrap();
    for words in [format!("crt-list {list}"), format!("crt {empty}")] {
        for (strict, told) in [("", "(use 'crt')"), (" strict-sni", "ssl connections will fail (use 'crt')")]
        {
            let (accepted, said) = tell("ssl-load-errors fail", &format!("{words}{strict}"));
            assert!(accepted != strict.is_empty() && said.contains(told), "{words}{strict}: {said}");
        }
    }
    let (accepted, said) = tell("ssl-load-errors maybe", &format!("crt {directory}"));
    assert!(
        !accepted && said.contains("'ssl-load-errors' expects 'fail', 'warn' or 'strict' as argument."),
        "{said}"
    );
}

/// The program is one that every system has: the passphrase is the name of the file without its ending.
#[test]
fn keys_are_opened_by_what_a_program_says() {
    let authority = Authority::new("Root");
    let keys = include_str!("../../tls/tests/data/locked-keys.pem");
    // The certificate and the first of the keys.
    let end = keys.match_indices("-----BEGIN").nth(2).unwrap().0;
    let path = authority.path("secret.pem");
    std::fs::write(&path, &keys[..end]).unwrap();
    for (command, refusal) in [
        ("basename .pem", None),
        ("basename .txt", Some("what 'ssl-passphrase-cmd' says does not open it")),
        ("false", Some("'false' failed: exit status: 1")),
        ("/no/such/program", Some("'/no/such/program' cannot be run: No such file or directory")),
    ] {
        let text = format!(
            "global\nssl-passphrase-cmd {command}\ndefaults\nmode http\ntimeout client 1s\n\
             frontend fe\nbind 127.0.0.1:1 ssl crt {path}\n"
        );
        let (accepted, said) = verdict(&text, &authority.directory.0);
        assert_eq!(accepted, refusal.is_none(), "{command}: {said}");
        assert!(refusal.is_none_or(|words| said.contains(words)), "{command}: {said}");
    }
}

/// A certificate that is not there yet may be stood in for by one that nobody takes for another, until its file comes.
#[test]
fn certificates_are_made_where_there_are_none() {
    let authority = Authority::new("Root");
    let there = authority.issue_as("there.pem", &template("there"));
    let (rsa, ecdsa) = (authority.path("rsa.pem"), authority.path("ecdsa.pem"));
    let text = format!(
        "crt-store\nload crt {there} generate-dummy on\nload crt {rsa} generate-dummy on\n\
         load crt {ecdsa} generate-dummy on keytype ECDSA curves P-256 alias curve\n\
         frontend fe\nbind <@fe> ssl crt {there} strict-sni\nbind <@rsa> ssl crt {rsa}\nbind <@ecdsa> ssl crt @/curve\n\
         http-request return status 200\n"
    );
    let proxy =
        Setup::http(&text).global("stats socket <@dir>/cli level admin\ncrt-watch on\n").start("epoll");
    for (name, algorithm, subject) in [
        (&there, "EC256", "there"),
        (&rsa, "RSA2048", "expired"),
        (&"@/curve".to_owned(), "EC256", "expired"),
    ] {
        let shown = proxy.tell("cli", &format!("show ssl cert {name}"));
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines.contains(&&*format!("Algorithm: {algorithm}")), "{shown}");
        assert!(lines.contains(&&*format!("Subject: /CN={subject}")), "{shown}");
    }
    let key = |listener| {
        let mut conn = Conn::connect(proxy.addr(listener)).encrypt(&client(|_| {}), None);
        let leaf = conn.tls().facts.peer[0].clone();
        (leaf.not_after < now(), leaf.key_kind_and_size())
    };
    assert_eq!(key("rsa"), (true, Some("RSA2048".to_owned())));
    assert_eq!(key("ecdsa"), (true, Some("EC256".to_owned())));
    authority.issue_as("rsa.pem", &template("here-it-is"));
    eventually("the file is served", || (key("rsa") == (false, Some("EC256".to_owned()))).then_some(()));

    for (words, why) in [
        ("keytype RSA", "keyword 'keytype', 'bits' and 'curves' require 'generate-dummy' set to 'on'"),
        ("generate-dummy off", "unable to stat SSL certificate from file"),
        ("generate-dummy maybe", "cannot parse 'generate-dummy' value 'maybe', 'on' or 'off' is expected."),
        ("generate-dummy on keytype DSA", "keyword 'keytype' requires either 'RSA' or 'ECDSA'."),
        ("generate-dummy on bits many", "cannot parse 'bits' value 'many', an integer is expected."),
        ("generate-dummy on bits 100", "'bits' : a key of 100 bits cannot be made; 2048, 3072 and 4096 can."),
        (
            "generate-dummy on keytype ECDSA curves x",
            "unsupported curves 'x'. P-256 and P-384 are supported.",
        ),
        ("domains a.b", "'domains' is not supported: there is no ACME client."),
    ] {
        let file = authority.path("cfg");
        let store = format!("crt-store\nload crt {} {words}\n", authority.path("nowhere.pem"));
        std::fs::write(
            &file,
            format!("{store}frontend fe\nmode http\ntimeout client 1s\nbind 127.0.0.1:1\n"),
        )
        .unwrap();
        let output = program().args(["-c", "-f", &file]).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && told.contains(why), "{words}: {told}");
    }
}

/// A certificate that clients refuse is served all the same, since a restart is not to take a site down, but not in silence.
#[test]
fn certificates_that_are_not_in_force_are_told_of() {
    let authority = Authority::new("Root");
    let issue = |file: &str, from: i64, to: i64| {
        let between = |at: i64| now() + at * DAY;
        authority.issue_as(file, &Template::new(file, between(from), between(to)).hosts(&["a.example.com"]))
    };
    let good = issue("good.pem", -1, 1);
    let old = issue("old.pem", -2, -1);
    let early = issue("early.pem", 1, 2);
    let chained = authority.path("chained.pem");
    std::fs::write(&chained, read(&good) + &read(&old)).unwrap();
    let dates = |from: i64, to: i64| {
        let [from, to] = [from, to].map(|at| time::openssl(now() + at * DAY));
        // Not their times of the day, which the test is too slow for.
        [from[..6].to_owned(), to[..6].to_owned()]
    };
    for (bind, server, expected) in [
        (&good, &good, None),
        (&old, &good, Some((format!("certificate '{old}' has expired"), dates(-2, -1)))),
        (&early, &good, Some((format!("certificate '{early}' is not valid yet"), dates(1, 2)))),
        (
            &chained,
            &good,
            Some((format!("in the chain of certificate '{chained}' has expired"), dates(-2, -1))),
        ),
        (&good, &old, Some((format!("'server be/s' : certificate '{old}' has expired"), dates(-2, -1)))),
    ] {
        let text = format!(
            "defaults\nmode http\ntimeout client 1s\ntimeout connect 1s\ntimeout server 1s\n\
             frontend fe\nbind 127.0.0.1:1 ssl crt {bind}\ndefault_backend be\n\
             backend be\nserver s 127.0.0.1:2 ssl verify none crt {server}\n"
        );
        // Where warnings end a start, too, and where it is an error by the user's own word.
        for (global, is_error, severity) in
            [("zero-warning", false, "[NOTICE]"), ("ssl-load-errors strict", true, "[ALERT]")]
        {
            let (accepted, told) = verdict(&format!("global\n{global}\n{text}"), &authority.directory.0);
            assert_eq!(accepted, expected.is_none() || !is_error, "{told}");
            let Some((why, [from, to])) = &expected else {
                assert!(!told.contains("certificate"), "{told}");
                continue;
            };
            let line = told.lines().find(|line| line.contains(why)).unwrap_or_else(|| panic!("{told}"));
            assert!(line.contains(severity) && line.contains(&format!("in force from {from} ")), "{line}");
            assert!(line.contains(&format!(" to {to} ")), "{line}");
        }
    }

    // Nor is one that the CLI brings.
    let text = format!("frontend fe\nbind <@fe> ssl crt {good}\nhttp-request return status 200\n");
    let proxy = Setup::http(&text).global("stats socket <@dir>/cli level admin\n").start("epoll");
    for (from, noticed) in [(&old, true), (&good, false)] {
        proxy.tell("cli", &format!("set ssl cert {good} <<\n{}\n", read(from)));
        let told = proxy.tell("cli", &format!("commit ssl cert {good}"));
        let lines: Vec<&str> = told.trim_end().lines().collect();
        assert_eq!((lines[0], lines.last()), (&*format!("Committing {good}."), Some(&"Success!")), "{told}");
        let is_notice = lines[1].starts_with(&format!("notice: certificate '{good}' has expired"));
        assert_eq!((lines.len() == 3, is_notice), (noticed, noticed), "{told}");
    }
}
