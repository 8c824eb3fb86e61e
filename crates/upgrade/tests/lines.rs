//! Single lines, and text of any kind.

use proptest::prelude::*;
use thalweg_upgrade::{Kind, upgrade};

/// Upgrades a line of a backend in HTTP mode; the new lines, and how well it went.
fn of(line: &str) -> (String, Kind) {
    let before = "backend b\n  mode http\n";
    let upgraded = upgrade(format!("{before}  {line}\n").as_bytes());
    let text = String::from_utf8(upgraded.text).unwrap();
    let new = text.strip_prefix(before).unwrap().lines().map(str::trim).collect::<Vec<_>>().join(" | ");
    (new, upgraded.changes.iter().map(|change| change.kind).max().unwrap_or(Kind::Same))
}

#[test]
fn lines_become_what_they_meant() {
    for (old, new, kind) in [
        ("redispatch # x", "option redispatch # x", Kind::Same),
        ("contimeout 5", "timeout connect 5", Kind::Same),
        ("reqadd X:\\ a%b if c", "http-request add-header X a%%b if c", Kind::Same),
        (
            "reqrep ^GET\\ /a\\ (.*) GET\\ /b\\ \\1",
            "http-request replace-pathq ^/a /b if { method GET }",
            Kind::Near,
        ),
        (
            "reqrep ^([^\\ ]*)\\ /a/([^/]*)/(.*) \\1\\ /\\3/\\2",
            "http-request replace-pathq ^/a/([^/]*)/(.*) '/\\2/\\1'",
            Kind::Near,
        ),
        (
            "reqirep ^(.*)\\ /a(.*)\\ (HTTP/1.[01]) \\1\\ /b\\2\\ \\3 unless x or y",
            "http-request replace-pathq (?i)^/a(.*) '/b\\1' unless x or y",
            Kind::Near,
        ),
        (
            "reqrep ^PUT\\ /a PUT\\ /b unless x or !y",
            "http-request replace-pathq ^/a /b if { method PUT } !x y",
            Kind::Near,
        ),
        (
            "rsprep ^Location:[\\ ]*http://a(:[0-9]+)?/(.*) Location:\\ https://a/\\2",
            "http-response replace-header Location ^http://a(:[0-9]+)?/(.*) 'https://a/\\2'",
            Kind::Near,
        ),
        ("rspidel ^(A|B):", "http-response del-header A | http-response del-header B", Kind::Same),
        (
            "rspidel ^Set-Cookie:\\ x= if y",
            "http-response del-header Set-Cookie if { res.fhdr(Set-Cookie) -m reg -i ^x= } y",
            Kind::Near,
        ),
        ("hash-type avalanche", "hash-type map-based sdbm avalanche", Kind::Same),
        ("option httpchk GET /x", "option httpchk GET /x", Kind::Same),
        (
            "option httpchk GET /x HTTP/1.1\\r\\nHost:\\ a\\ b%",
            "option httpchk | http-check send meth GET uri /x ver HTTP/1.1 hdr Host 'a b%%'",
            Kind::Same,
        ),
        ("http-request set-tos 3 if x", "http-request set-fc-tos 3 if x", Kind::Same),
        ("tcp-request content set-mark 3", "tcp-request content set-fc-mark 3", Kind::Same),
        ("log-format %Ci\\ %%cc\\ %ci", "log-format %ci\\ %%cc\\ %ci", Kind::Same),
        ("grace 3s # why", "# why", Kind::Same),
        ("server a 1.1.1.1:80 process", "server a 1.1.1.1:80 process", Kind::Same),
    ] {
        assert_eq!(of(old), (new.to_owned(), kind), "{old}");
    }
}

/// `grace` of proxies went with 2.5; the one of `global` came, and is something else.
#[test]
fn grace_of_the_process_stays() {
    let text = b"global\n  grace 10s\n";
    let upgraded = upgrade(text);
    assert_eq!((&*upgraded.text, upgraded.changes.len()), (&text[..], 0));
}

#[test]
fn what_cannot_be_told_is_left() {
    for line in [
        "reqrep (a)\\1 b",
        "reqrep foo bar",
        "reqrep ^([^\\ ]*)\\ /a POST\\ /b",
        "reqrep ^([^\\ ]*)\\ /a\\ (.*) \\1\\ /b\\2",
        "reqrep ^([^\\ ]*)\\ (.*) \\1\\ http://a\\2",
        "reqirep ^X-A:\\ (a)(.*) X-B:\\ \\2",
        "reqadd novalue",
        "reqpass ^Host:",
        "reqdeny ^A:\\ b unless { src 1.1.1.1 } c",
        "reqrep ^Host:",
        "option http_proxy",
        "cliexp x",
    ] {
        let (new, kind) = of(line);
        let untouched = new.starts_with("# upgrade: ") && new.ends_with(line);
        assert!(kind == Kind::Left && untouched, "{line}: {new}");
    }
}

#[test]
fn a_mark_is_set_once() {
    let once = upgrade(b"backend b\n  cliexp x\n");
    let twice = upgrade(&once.text);
    assert_eq!(once.text, twice.text);
    assert!(!twice.is_complete());
}

fn word() -> impl Strategy<Value = String> {
    proptest::sample::select(vec![
        "global",
        "listen",
        "frontend",
        "backend",
        "defaults",
        "a",
        "b",
        ":80",
        "reqrep",
        "reqirep",
        "reqidel",
        "reqadd",
        "rspadd",
        "rspirep",
        "block",
        "if",
        "unless",
        "or",
        "{",
        "}",
        "^Host:",
        "^(A|B):",
        "^([^\\ ]*)\\ /(.*)",
        "\\1",
        "\\1\\ /\\2",
        "server",
        "dispatch",
        "nbproc",
        "2",
        "process",
        "1/2",
        "cpu-map",
        "option",
        "httpchk",
        "redispatch",
        "\"",
        "'x y'",
        "#",
        "\\",
        "\n",
        "\n",
        "\n  ",
        "\r\n",
        "appsession",
        "stick-table",
        "monitor-net",
        "(",
        "[",
        "^",
        "table",
        "fe_conn(a)",
        "é",
    ])
    .prop_map(str::to_owned)
}

proptest! {
    /// Whatever it is given, it ends; and what it gives needs no more than it left.
    #[test]
    fn any_text_is_survived(words in prop::collection::vec(word(), 0..40)) {
        let once = upgrade(words.join(" ").as_bytes());
        let twice = upgrade(&once.text);
        let left = |u: &thalweg_upgrade::Upgraded| u.changes.iter().filter(|c| c.kind == Kind::Left).count();
        prop_assert!(left(&twice) <= left(&once), "{}", String::from_utf8_lossy(&once.text));
    }

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        upgrade(&bytes);
    }
}

/// Time goes with the size of a file, however many sections and servers have one name. It took minutes.
#[test]
fn names_that_many_have_take_no_longer_each() {
    const MANY: usize = 20_000;
    let began = std::time::Instant::now();
    let text =
        format!("{}{}", "backend b\n mode http\n".repeat(MANY), " server s 192.0.2.1:80\n".repeat(MANY));
    let upgraded = String::from_utf8(upgrade(text.as_bytes()).text).unwrap();
    for last in [format!("backend b-{MANY}\n"), format!(" server s-{MANY} ")] {
        assert!(upgraded.contains(&last), "{last}");
    }
    assert!(began.elapsed().as_secs() < 30, "{:?}", began.elapsed());
}
