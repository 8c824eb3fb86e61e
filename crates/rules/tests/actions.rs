//! What each action does to traffic. The expected results are those of the reference for the same rules and messages.

mod common;

use common::*;
use std::collections::HashSet;
use thalweg_rules::*;
use thalweg_sample::Endpoint;
use thalweg_sample::pattern::Registry;
use thalweg_sample::vars::VarValue;

const REQ: Kind = Kind::HttpRequest;
const RES: Kind = Kind::HttpResponse;

/// Runs request rules and gives the request afterwards.
fn request(lines: &[&str], before: &str) -> String {
    let mut bench = Bench::default();
    let rules = bench.rules(REQ, lines);
    let mut traffic = Traffic::request(before);
    let outcome = traffic.run(&bench, &rules, REQ, 0);
    if outcome == "Done" { show(&traffic.request) } else { outcome }
}

fn response(kind: Kind, lines: &[&str], before: &str) -> String {
    let mut bench = Bench::default();
    let rules = bench.rules(kind, lines);
    let mut traffic = Traffic::response(before);
    let outcome = traffic.run(&bench, &rules, kind, 0);
    if outcome == "Done" { show(&traffic.response) } else { outcome }
}

fn outcome(kind: Kind, lines: &[&str]) -> String {
    let mut bench = Bench::default();
    let rules = bench.rules(kind, lines);
    Traffic::default().run(&bench, &rules, kind, 0)
}

#[test]
fn header_fields_are_edited() {
    for (lines, before, after) in [
        (&["set-header A 3"][..], "GET /|host: h|a: 0|c: 1|a: 9", "GET /|host: h|c: 1|a: 3"),
        (&["add-header A 2"], "GET /|a: 0", "GET /|a: 0|a: 2"),
        (&["add-header A '%[str(x)]-%[int(4)]'"], "GET /", "GET /|a: x-4"),
        (&["set-header A '%[str()]'"], "GET /", "GET /|a: "),
        (&["del-header B"], "GET /|a: 1|b: 2|B: 3", "GET /|a: 1"),
        (&["del-header x -m beg"], "GET /|x-a: 1|b: 2|x: 3", "GET /|b: 2"),
        (&["del-header X- -m beg"], "GET /|x-a: 1|b: 2|x: 3", "GET /|b: 2|x: 3"),
        (&["del-header -A -m end"], "GET /|x-a: 1|b: 2|x: 3", "GET /|b: 2|x: 3"),
        (&["del-header - -m sub"], "GET /|x-a: 1|b: 2|x: 3", "GET /|b: 2|x: 3"),
        (&["del-header x -m str"], "GET /|x-a: 1|b: 2|x: 3", "GET /|x-a: 1|b: 2"),
        (&["del-header ^x -m reg"], "GET /|x-a: 1|b: 2|x: 3", "GET /|b: 2"),
        (&["del-header ^X -m reg"], "GET /|x-a: 1|b: 2", "GET /|x-a: 1|b: 2"),
        (
            &[r"replace-header C (.*)=(.) \2-\1-\9-\x41-\q"],
            "GET /|c: ab=cd|c: no|c: x=y",
            "GET /|c: c-ab--A-q|c: no|c: y-x--A-q",
        ),
        (&["replace-header C b X"], "GET /|c: abc", "GET /|c: X"),
        (
            &[r"replace-value C ^b(.*)$ [\1]"],
            r#"GET /|c: a, b1 ,b2,"b3,b4", c"#,
            r#"GET /|c: a,[1],[2],"b3,b4", c"#,
        ),
        (&["replace-value C b X"], "GET /|c: abc, def, zbz", "GET /|c: X, def,X"),
        (&["set-header Host z"], "GET http://h/a?b|host: h", "GET http://z/a?b|host: z"),
        (&["set-header Host z"], "GET /a|host: h", "GET /a|host: z"),
        (&["set-header A 1 if TRUE"], "GET /", "GET /|a: 1"),
        (&["set-header A 1 unless TRUE"], "GET /", "GET /"),
        (&["set-header A 1 if FALSE"], "GET /", "GET /"),
    ] {
        assert_eq!(request(lines, before), after, "{lines:?}");
    }
}

/// The reference sends `a b: c` as it is.
#[test]
fn names_that_no_field_can_have_are_warned_about_and_left_out() {
    for (line, before, after, instead) in [
        ("set-header X-Proto: https", "GET /|x-proto: http", "GET /|x-proto: https", "is about 'X-Proto'"),
        ("add-header A: 1", "GET /|a: 0", "GET /|a: 0|a: 1", "is about 'A'"),
        ("set-header 'a b' c", "GET /|a: 0", "GET /|a: 0", "does nothing"),
        ("add-header a,b c", "GET /|a: 0", "GET /|a: 0", "does nothing"),
        ("early-hint 'a b' c", "GET /|a: 0", "GET /|a: 0", "does nothing"),
    ] {
        let mut bench = Bench::default();
        let rules = bench.rules(REQ, &[line]);
        let [warning] = &bench.warnings[..] else { panic!("{line}: {:?}", bench.warnings) };
        assert!(warning.contains("contains forbidden character") && warning.contains(instead), "{warning}");
        let mut traffic = Traffic::request(before);
        assert_eq!(traffic.run(&bench, &rules, REQ, 0), "Done", "{line}");
        assert_eq!(show(&traffic.request), after, "{line}");
        assert!(traffic.fx.early_hints.is_empty(), "{line}");
    }
    for line in ["del-header 'a b'", "replace-header 'a b' . x", "replace-value a: . x"] {
        assert_eq!(request(&[line], "GET /|a: 0"), "GET /|a: 0", "{line}");
    }
}

#[test]
fn responses_are_edited() {
    for kind in [RES, Kind::HttpAfter] {
        for (lines, after) in [
            (&["set-header Server x"][..], "200|c: a, b|server: x"),
            (&["del-header server"], "200|c: a, b"),
            (&["replace-value c b z"], "200|c: a,z|server: s"),
            (&["replace-header c .* z"], "200|c: z|server: s"),
            (&["add-header d e"], "200|c: a, b|server: s|d: e"),
            (&["set-status 404"], "404|c: a, b|server: s"),
        ] {
            assert_eq!(response(kind, lines, "200|c: a, b|server: s"), after, "{lines:?}");
        }
    }
    let mut bench = Bench::default();
    let rules = bench.rules(RES, &["set-status 503 reason 'Slow Down'"]);
    let mut traffic = Traffic::default();
    assert_eq!(traffic.run(&bench, &rules, RES, 0), "Done");
    assert_eq!((traffic.response.status(), traffic.response.reason()), (503, &b"Slow Down"[..]));
}

/// A rule that could change where a message ends would desynchronise the two sides.
#[test]
fn framing_is_out_of_reach() {
    let before = "POST /|content-length: 3|transfer-encoding: chunked";
    for line in [
        "set-header content-length 5",
        "add-header Transfer-Encoding chunked",
        "del-header content-length",
        "del-header c -m beg",
        "del-header .* -m reg",
        "replace-header content-length 3 4",
        "replace-value content-length 3 4",
    ] {
        let after = request(&[line], before);
        assert!(after.starts_with("POST /|content-length: 3"), "{line}: {after}");
        assert!(!after.contains("chunked|transfer"), "{line}: {after}");
    }
}

#[test]
fn binary_header_lists() {
    // Lengths and texts: ("a", "1"), ("x-b", "2"), then an empty pair.
    let list = "bin(0161013103782d6201320000)";
    for (line, after) in [
        (format!("add-headers-bin {list}"), "GET /|a: 0|x-b: 9|a: 1|x-b: 2"),
        (format!("add-headers-bin {list} prefix x-"), "GET /|a: 0|x-b: 9|x-b: 2"),
        (format!("set-headers-bin {list}"), "GET /|a: 1|x-b: 2"),
        (format!("set-headers-bin {list} prefix x-"), "GET /|a: 0|x-b: 2"),
        ("del-headers-bin bin(016100)".into(), "GET /|x-b: 9"),
        ("del-headers-bin bin(02782d00) -m beg".into(), "GET /|a: 0"),
        ("del-headers-bin bin(022d6200) -m end".into(), "GET /|a: 0"),
        ("del-headers-bin bin(012d00) -m sub".into(), "GET /|a: 0"),
        ("del-headers-bin bin(012d00) -m str".into(), "GET /|a: 0|x-b: 9"),
        // A list that is cut is refused, not guessed.
        ("add-headers-bin bin(0161)".into(), "RewriteFailed"),
        ("add-headers-bin bin(f0ffffffffffffffff7f)".into(), "RewriteFailed"),
    ] {
        assert_eq!(request(&[&line], "GET /|a: 0|x-b: 9"), after, "{line}");
    }
}

#[test]
fn the_request_line_is_edited() {
    for (line, before, after) in [
        ("set-method FOO", "GET /", "FOO /"),
        ("set-path /n", "GET /a?b", "GET /n?b"),
        ("set-path /n", "GET http://h/a?b", "GET http://h/n?b"),
        ("set-path /n", "OPTIONS *", "OPTIONS /n"),
        ("set-pathq /n?z", "GET /a?b", "GET /n?z"),
        ("set-pathq /n", "GET /a?b", "GET /n"),
        ("set-query n=1", "GET /a?b", "GET /a?n=1"),
        ("set-query n=1", "GET /a", "GET /a?n=1"),
        ("set-query '%[str()]'", "GET /a?b", "GET /a?"),
        ("set-query '%[str()]'", "GET /a", "GET /a"),
        ("set-uri http://z:1/n?y", "GET /a?b|host: h", "GET http://z:1/n?y|host: z:1"),
        ("set-uri foo", "GET /a?b|host: h", "GET foo|host: foo"),
        ("set-uri *", "GET /a?b|host: h", "GET *|host: h"),
        (r"replace-path (.*) /foo\1", "GET /a?b", "GET /foo/a?b"),
        (r"replace-path ^/foo/(.*) /\1", "GET /foo/a?b", "GET /a?b"),
        ("replace-path x y", "GET /a?x", "GET /a?x"),
        (r"replace-pathq ([^?]*)(\?(.*))? \1/foo\2", "GET /a?b", "GET /a/foo?b"),
        (r"replace-uri ^http://(.*) https://\1", "GET http://h/a?b|host: h", "GET https://h/a?b|host: h"),
        ("normalize-uri path-merge-slashes", "GET //a//b?c//d", "GET /a/b?c//d"),
        ("normalize-uri path-merge-slashes", "GET http://h//a", "GET http://h/a"),
        ("normalize-uri query-sort-by-name", "GET /?b&a", "GET /?a&b"),
        ("normalize-uri percent-to-uppercase strict", "GET /%zz", "BadRequest"),
        ("normalize-uri path-strip-dot", "OPTIONS *", "OPTIONS *"),
    ] {
        assert_eq!(request(&[line], before), after, "{line} on {before}");
    }
}

#[test]
fn rules_that_fail_to_rewrite_end_the_request_unless_told_otherwise() {
    // A method is one word.
    let bad = "set-method '%[str(a b)]'";
    assert_eq!(request(&[bad], "GET /"), "RewriteFailed");
    assert_eq!(request(&["strict-mode off", bad, "set-header a b"], "GET /"), "GET /|a: b");
    assert_eq!(request(&["strict-mode off", "strict-mode on", bad], "GET /"), "RewriteFailed");
    let mut bench = Bench::default();
    let rules = bench.rules(REQ, &["strict-mode off", bad]);
    let mut traffic = Traffic::request("GET /");
    assert_eq!(traffic.run(&bench, &rules, REQ, 0), "Done");
    assert_eq!(traffic.fx.failed_rewrites, 1);
    // The mode is that of the evaluation, not of the ruleset.
    let strict = bench.rules(REQ, &[bad]);
    assert_eq!(traffic.run(&bench, &strict, REQ, 0), "RewriteFailed");
    // A head that is full.
    traffic.request.set_limit(40);
    let add = bench.rules(REQ, &["set-header aaaaaaaaaa aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"]);
    assert_eq!(traffic.run(&bench, &add, REQ, 0), "RewriteFailed");
}

#[test]
fn decisions() {
    for (kind, line, want) in [
        (REQ, "allow", "Accept"),
        (Kind::TcpConnection, "accept", "Accept"),
        (Kind::TcpSession, "reject", "Reject"),
        (Kind::TcpRequest, "reject", "Reject"),
        (Kind::TcpResponse, "close", "Close"),
        (REQ, "reject", "Reject"),
        (REQ, "deny", "Deny(Reply(403))"),
        (RES, "deny", "Deny(Reply(502))"),
        (REQ, "deny deny_status 429", "Deny(Reply(429))"),
        (REQ, "tarpit", "Tarpit(Reply(500))"),
        (REQ, "tarpit status 503", "Tarpit(Reply(503))"),
        (REQ, "return", "Return(Reply(200))"),
        (RES, "return status 404", "Return(Reply(404))"),
        (REQ, "silent-drop", "SilentDrop { rst_ttl: None }"),
        (REQ, "silent-drop rst-ttl 5", "SilentDrop { rst_ttl: Some(5) }"),
        (REQ, "pause 100", "Pause { ms: 100, resume: 1 }"),
        (REQ, "pause 1s", "Pause { ms: 1000, resume: 1 }"),
        (REQ, "pause int(30)", "Pause { ms: 30, resume: 1 }"),
        (REQ, "pause int(-1)", "Done"),
        (REQ, "pause str(x)", "Done"),
        (REQ, "wait-for-body time 1s", "WaitBody { ms: 1000, at_least: 0, resume: 1 }"),
        (RES, "wait-for-body time 5 at-least 1k", "WaitBody { ms: 5, at_least: 1024, resume: 1 }"),
        (REQ, "wait-for-handshake", "Done"),
        (REQ, "do-log", "Log { profile: None, resume: 1 }"),
        (Kind::TcpConnection, "do-log profile p", "Log { profile: Some(\"p\"), resume: 1 }"),
        (Kind::TcpRequest, "switch-mode http", "SwitchMode { proto: None }"),
        (Kind::TcpRequest, "switch-mode http proto h1", "SwitchMode { proto: Some(\"h1\") }"),
        (REQ, "use-service echo", "UseService(\"echo\")"),
    ] {
        assert_eq!(outcome(kind, &[line]), want, "{line}");
    }
}

#[test]
fn a_body_that_is_there_is_not_waited_for() {
    let mut bench = Bench::default();
    let rules = bench.rules(REQ, &["wait-for-body time 1s at-least 3"]);
    let mut traffic = Traffic { body: b"ab".to_vec(), ..Traffic::default() };
    assert!(traffic.run(&bench, &rules, REQ, 0).starts_with("WaitBody"));
    traffic.body.push(b'c');
    assert_eq!(traffic.run(&bench, &rules, REQ, 0), "Done");
    let mut complete = Traffic { complete: true, ..Traffic::default() };
    assert_eq!(complete.run(&bench, &rules, REQ, 0), "Done");
}

#[test]
fn evaluation_resumes_where_it_stopped() {
    let mut bench = Bench::default();
    let rules =
        bench.rules(REQ, &["set-header a 1", "pause 10", "set-header b 2", "allow", "set-header c 3"]);
    let mut traffic = Traffic::request("GET /");
    assert_eq!(traffic.run(&bench, &rules, REQ, 0), "Pause { ms: 10, resume: 2 }");
    assert_eq!(traffic.run(&bench, &rules, REQ, 2), "Accept");
    assert_eq!(show(&traffic.request), "GET /|a: 1|b: 2");
    assert_eq!(traffic.stream.last_rule, Some(("test.cfg", 4)), "the rule that decided is known");
}

#[test]
fn early_hints_are_grouped() {
    let mut bench = Bench::default();
    let lines = [
        "early-hint Link </a>",
        "early-hint Link </b>",
        "early-hint Link </c> if FALSE",
        "early-hint X y",
        "deny",
    ];
    let rules = bench.rules(REQ, &lines);
    let mut traffic = Traffic::default();
    assert_eq!(traffic.run(&bench, &rules, REQ, 0), "EarlyHints { resume: 2 }");
    assert_eq!(traffic.fx.early_hints, b"link: </a>\r\nlink: </b>\r\n");
    traffic.fx.early_hints.clear();
    assert_eq!(traffic.run(&bench, &rules, REQ, 2), "EarlyHints { resume: 4 }");
    assert_eq!(traffic.fx.early_hints, b"x: y\r\n");
    traffic.fx.early_hints.clear();
    assert_eq!(traffic.run(&bench, &rules, REQ, 4), "Deny(Reply(403))");
    let last = bench.rules(REQ, &["early-hint a b"]);
    assert_eq!(traffic.run(&bench, &last, REQ, 0), "EarlyHints { resume: 1 }");
    traffic.fx.early_hints.clear();
    assert_eq!(traffic.run(&bench, &last, REQ, 1), "Done");
}

#[test]
fn redirections() {
    let cases: &[(&str, &str, &str)] = &[
        ("location /x", "GET /a", "302|content-length: 0|location: /x|cache-control: no-cache"),
        ("location /x code 301", "GET /a", "301|content-length: 0|location: /x"),
        ("location /x code 308 keep-query", "GET /a?q", "308|content-length: 0|location: /x?q"),
        ("location /x?z code 301 keep-query", "GET /a?q", "301|content-length: 0|location: /x?z&q"),
        ("location /x code 301 keep-query", "GET /a", "301|content-length: 0|location: /x"),
        ("prefix /p code 301", "GET /a?q", "301|content-length: 0|location: /p/a?q"),
        ("prefix / code 301", "GET /a?q", "301|content-length: 0|location: /a?q"),
        ("prefix /p code 301 drop-query", "GET /a?q", "301|content-length: 0|location: /p/a"),
        ("prefix /p code 301 drop-query append-slash", "GET /a?q", "301|content-length: 0|location: /p/a/"),
        ("prefix /p code 301 append-slash", "GET /a?q", "301|content-length: 0|location: /p/a?q/"),
        ("prefix /p code 301", "OPTIONS *", "301|content-length: 0|location: /p/"),
        ("prefix /p code 301", "GET http://h:8/a?b|host: h:8", "301|content-length: 0|location: /p/a?b"),
        ("scheme https code 301", "GET /a?b|host: h:8", "301|content-length: 0|location: https://h:8/a?b"),
        ("scheme https code 301", "GET /a", "301|content-length: 0|location: https:///a"),
        (
            "location /x code 301 set-cookie A=b",
            "GET /a",
            "301|content-length: 0|location: /x|set-cookie: A=b; path=/;",
        ),
        (
            "location /x code 303 clear-cookie A=",
            "GET /a",
            "303|content-length: 0|location: /x|cache-control: no-cache|set-cookie: A=; path=/; Max-Age=0;",
        ),
        (
            "location '/%[str(z)]' code 307 set-cookie-fmt 'A=%[int(1)]'",
            "GET /a",
            "307|content-length: 0|location: /z|cache-control: no-cache|set-cookie: A=1; path=/;",
        ),
    ];
    for (line, before, after) in cases {
        let mut bench = Bench::default();
        let rules = bench.rules(REQ, &[&format!("redirect {line}")]);
        let mut traffic = Traffic::request(before);
        let got = traffic.with(&bench, REQ, |cx, fx| {
            let Outcome::Redirect(redirect) = rules.run(REQ, 0, cx, fx) else { panic!("{line}") };
            let mut head = thalweg_http::Head::new();
            redirect.write(fx, &mut head).unwrap();
            show(&head)
        });
        assert_eq!(got, *after, "{line}");
    }
    assert_eq!(request(&["redirect location '%[str()]' ignore-empty"], "GET /"), "GET /");
    assert!(request(&["redirect location '%[str()]'"], "GET /").starts_with("Redirect"));
}

#[test]
fn a_redirect_line_is_literal() {
    let mut bench = Bench::default();
    let mut rules = Ruleset::new();
    bench.compile(|env| rules.push_redirect(&["location", "/%[path]", "if", "TRUE"], env)).unwrap();
    let mut traffic = Traffic::default();
    assert!(traffic.run(&bench, &rules, REQ, 0).starts_with("Redirect"));
    assert_eq!(traffic.fx.location, b"/%[path]");
    let error = bench.compile(|env| rules.push_redirect(&["foo"], env)).unwrap_err();
    assert!(
        error.starts_with("error detected in proxy 'px' while parsing redirect rule : expects 'code'"),
        "{error}"
    );
}

#[test]
fn authentication() {
    for (line, target, status, field) in [
        ("auth realm hi", "GET /", 401, "www-authenticate: Basic realm=\"hi\""),
        ("auth", "GET /", 401, "www-authenticate: Basic realm=\"px\""),
        ("auth", "GET http://h/", 407, "proxy-authenticate: Basic realm=\"px\""),
    ] {
        let mut bench = Bench::default();
        let rules = bench.rules(REQ, &[line]);
        let mut traffic = Traffic::request(target);
        let got = traffic.with(&bench, REQ, |cx, fx| {
            let Outcome::Auth(realm) = rules.run(REQ, 0, cx, fx) else { panic!("{line}") };
            let got = Realm::status(cx.request.as_deref().unwrap());
            let mut head = head("401|www-authenticate: old|proxy-authenticate: old");
            realm.write(got, &mut head).unwrap();
            (got, show(&head))
        });
        assert_eq!(got.0, status);
        assert!(got.1.ends_with(field) && got.1.matches(": old").count() == 1, "{}", got.1);
    }
}

#[test]
fn variables() {
    let mut bench = Bench::default();
    let get = |traffic: &mut Traffic, bench: &Bench, name: &str| {
        let var = thalweg_sample::VarRef::parse(name).unwrap();
        traffic.with(bench, REQ, |cx, _| cx.with_var(var, VarValue::clone))
    };
    let rules = bench.rules(
        REQ,
        &[
            "set-var(txn.a) int(5)",
            "set-var-fmt(txn.b) 'x-%[var(txn.a)]'",
            "set-var(txn.c,ifnotexists) int(1)",
            "set-var(txn.c,ifnotexists) int(2)",
            "set-var(txn.d) int(1)",
            "unset-var(txn.d)",
            "set-var(txn.e) int(1)",
            "set-var(txn.e) var(txn.nothing)",
            "set-var(sess.f) src",
        ],
    );
    let mut traffic = Traffic::default();
    assert_eq!(traffic.run(&bench, &rules, REQ, 0), "Done");
    assert_eq!(get(&mut traffic, &bench, "txn.a"), Some(VarValue::Int(5)));
    assert_eq!(get(&mut traffic, &bench, "txn.b"), Some(VarValue::Str(b"x-5".to_vec())));
    assert_eq!(get(&mut traffic, &bench, "txn.c"), Some(VarValue::Int(1)));
    assert_eq!(get(&mut traffic, &bench, "txn.d"), None);
    assert_eq!(get(&mut traffic, &bench, "txn.e"), Some(VarValue::Int(1)), "no value, no change");
    assert_eq!(get(&mut traffic, &bench, "sess.f"), Some(VarValue::Ip4([192, 0, 2, 1].into())));
}

#[test]
fn addresses() {
    let at = |text: &str| Some(Endpoint::Inet(text.parse().unwrap()));
    let mut bench = Bench::default();
    let lines = ["set-src ipv4(10.0.0.1)", "set-dst ipv6(::1)", "set-dst-port int(8080)"];
    let rules = bench.rules(REQ, &lines);
    let mut traffic = Traffic::default();
    assert_eq!(traffic.run(&bench, &rules, REQ, 0), "Done");
    assert_eq!((traffic.stream.src, traffic.stream.dst), (at("10.0.0.1:1234"), at("[::1]:8080")));
    let changed = |traffic: &Traffic| {
        let rare = traffic.session.rare();
        (rare.src.as_deref().copied(), rare.dst.as_deref().copied())
    };
    assert_eq!(changed(&traffic), (None, None), "the connection is left alone");
    let rules =
        bench.rules(Kind::TcpConnection, &["set-src-port int(9)", "set-src str(nonsense)", "set-dst src"]);
    let mut traffic = Traffic::default();
    assert_eq!(traffic.run(&bench, &rules, Kind::TcpConnection, 0), "Done");
    assert_eq!(changed(&traffic), (at("192.0.2.1:9"), at("192.0.2.1:80")));
    let rules = bench.rules(Kind::TcpConnection, &["set-src-port int(9)"]);
    traffic.session.rare_mut().src = None;
    traffic.session.fc_src = Endpoint::Unix;
    assert_eq!(traffic.run(&bench, &rules, Kind::TcpConnection, 0), "Done");
    assert_eq!(changed(&traffic).0, at("0.0.0.0:9"));
}

#[test]
fn connection_settings() {
    let mut bench = Bench::default();
    let rules = bench.rules(
        REQ,
        &[
            "set-fc-mark 0x10",
            "set-fc-tos 46",
            "set-bc-mark int(7)",
            "set-bc-tos 0x20",
            "set-nice -2000",
            "disable-l7-retry",
        ],
    );
    let mut traffic = Traffic::default();
    traffic.run(&bench, &rules, REQ, 0);
    let want = Overrides {
        fc_mark: Some(16),
        fc_tos: Some(46),
        bc_mark: Some(7),
        bc_tos: Some(32),
        nice: Some(-1024),
        no_l7_retry: true,
        expect_proxy: false,
        expect_netscaler: false,
    };
    assert_eq!(traffic.fx.overrides, want);
    traffic.fx.reset();
    assert_eq!(traffic.fx.overrides, Overrides::default());
    let rules = bench.rules(
        Kind::TcpConnection,
        &["set-mark 1", "set-tos 2", "expect-proxy layer4", "expect-netscaler-cip layer4"],
    );
    traffic.run(&bench, &rules, Kind::TcpConnection, 0);
    let overrides = traffic.fx.overrides;
    assert_eq!((overrides.fc_mark, overrides.fc_tos), (Some(1), Some(2)));
    assert!(overrides.expect_proxy && overrides.expect_netscaler);
}

#[test]
fn stream_settings() {
    let mut bench = Bench::default();
    let rules = bench.rules(
        REQ,
        &[
            "set-log-level silent",
            "set-priority-class int(-5000)",
            "set-priority-offset int(12)",
            "set-retries 7",
            "set-retries int(500)",
            "set-timeout client 1s",
            "set-timeout connect 2s",
            "set-timeout queue 3s",
            "set-timeout server int(4)",
            "set-timeout tarpit 5",
            "set-timeout tunnel 6m",
            "set-timeout tunnel int(0)",
        ],
    );
    let mut traffic = Traffic::default();
    traffic.run(&bench, &rules, REQ, 0);
    let stream = &traffic.stream;
    assert_eq!(stream.log_level, Some(255));
    assert_eq!((stream.prio_class, stream.prio_offset, stream.max_retries), (-2047, 12, 7));
    let t = stream.timeouts;
    assert_eq!(
        [t.client, t.connect, t.queue, t.server, t.tarpit, t.tunnel],
        [1000, 2000, 3000, 4, 5, 360_000]
    );
    let rules = bench.rules(RES, &["set-log-level err"]);
    traffic.run(&bench, &rules, RES, 0);
    assert_eq!(traffic.stream.log_level, Some(3));
}

#[test]
fn captures() {
    let mut bench = Bench::default();
    let rules =
        bench.rules(REQ, &["capture str(abcdef) len 4", "capture str(x) len 9", "capture str(later) id 2"]);
    assert_eq!(bench.captures.request, [4, 9]);
    bench.captures.request.push(3);
    let references = References {
        traces: true,
        http_errors: &|_| None,
        log_profile: &|_| false,
        patterns: &Registry::default(),
        captures: Some(&bench.captures.clone()),
        resolvers: &|_| None,
        bandwidth_filter: &|_| None,
    };
    assert_eq!(rules.resolve(REQ, "px", &references), Vec::<String>::new());
    let mut traffic = Traffic::default();
    traffic.run(&bench, &rules, REQ, 0);
    let slots: Vec<_> = (0..3).map(|i| traffic.stream.req_captures.at(i)).collect();
    assert_eq!(slots, [Some(&b"abcd"[..]), Some(b"x"), Some(b"lat")]);
    let rules = bench.rules(RES, &["capture str(r) id 0", "capture str(r) id 99"]);
    assert_eq!(
        rules.resolve(RES, "px", &references),
        [
            "Proxy 'px': unable to find capture id '0' referenced by http-response capture rule.",
            "Proxy 'px': unable to find capture id '99' referenced by http-response capture rule."
        ]
    );
    traffic.run(&bench, &rules, RES, 0);
    assert_eq!(traffic.stream.res_captures.at(0), Some(&b"r"[..]));
}

#[test]
fn maps_and_acl_files_are_changed() {
    let mut bench = Bench::default();
    let read = |_: &str| Ok(b"a 1\nb 2\n".to_vec());
    let map = bench.registry.open("m.map", true, "", read).unwrap();
    let acl = bench.registry.open("a.acl", false, "", |_| Ok(b"a\n".to_vec())).unwrap();
    let rules = bench.rules(
        REQ,
        &[
            "set-map(m.map) a '%[str(x y)]'",
            "set-map(m.map) '%[str(c)]' 3",
            "del-map(m.map) b",
            "add-acl(a.acl) a",
            "add-acl(a.acl) z",
            "del-acl(nobody) z",
        ],
    );
    let references = References {
        traces: true,
        http_errors: &|_| None,
        log_profile: &|_| false,
        patterns: &bench.registry,
        captures: None,
        resolvers: &|_| None,
        bandwidth_filter: &|_| None,
    };
    assert_eq!(rules.resolve(REQ, "px", &references), Vec::<String>::new());
    let mut traffic = Traffic::default();
    assert_eq!(traffic.run(&bench, &rules, REQ, 0), "Done");
    let dump = |set: &thalweg_sample::pattern::PatternSet| {
        let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        set.entries(None, 0, 10)
            .iter()
            .map(|e| text(&e.key) + "=" + &text(&e.value))
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!((dump(&map), dump(&acl)), ("a=x y c=3".into(), "a= z=".into()));
    let rules = bench.rules(Kind::HttpAfter, &["del-acl(a.acl) a"]);
    rules.resolve(
        Kind::HttpAfter,
        "px",
        &References {
            traces: true,
            http_errors: &|_| None,
            log_profile: &|_| false,
            patterns: &bench.registry,
            captures: None,
            resolvers: &|_| None,
            bandwidth_filter: &|_| None,
        },
    );
    traffic.run(&bench, &rules, Kind::HttpAfter, 0);
    assert_eq!(dump(&acl), "z=");
}

#[test]
fn contents_are_waited_for() {
    let mut bench = Bench::default();
    let rules = bench.rules(Kind::TcpRequest, &["set-nice 3", "accept if { req.len gt 3 }", "reject"]);
    let mut traffic = Traffic { last: false, body: b"ab".to_vec(), ..Traffic::default() };
    assert_eq!(traffic.run(&bench, &rules, Kind::TcpRequest, 0), "Wait { resume: 1 }");
    traffic.body = b"abcd".to_vec();
    assert_eq!(traffic.run(&bench, &rules, Kind::TcpRequest, 1), "Accept");
    traffic.body = b"ab".to_vec();
    traffic.last = true;
    assert_eq!(traffic.run(&bench, &rules, Kind::TcpRequest, 1), "Reject");
}

/// Every supported action compiles in every ruleset it is said to be valid in, and is unknown in the others.
#[test]
fn every_action_is_where_the_table_says() {
    let arguments = |name: &str, kind: Kind| match name {
        "set-header" | "add-header" | "early-hint" => "set-header a b",
        "replace-header" | "replace-value" => "x a b c",
        "replace-path" | "replace-pathq" | "replace-uri" => "x a b",
        "add-headers-bin" | "set-headers-bin" | "del-headers-bin" => "x bin(00)",
        "del-header" | "set-path" | "set-pathq" | "set-query" | "set-uri" | "set-method" => "x a",
        "redirect" => "x location /",
        "normalize-uri" => "x fragment-strip",
        "set-map" => "set-map(f) a b",
        "del-map" => "del-map(f) a",
        "add-acl" => "add-acl(f) a",
        "del-acl" => "del-acl(f) a",
        "set-var" => "set-var(sess.a) int(1)",
        "set-var-fmt" => "set-var-fmt(sess.a) x",
        "unset-var" => "unset-var(sess.a)",
        "set-src" | "set-dst" => "x src",
        "set-src-port" | "set-dst-port" | "set-priority-class" | "set-priority-offset" => "x int(1)",
        "expect-proxy" | "expect-netscaler-cip" => "x layer4",
        "set-log-level" => "x info",
        "set-timeout" => "x tarpit 5s",
        "switch-mode" => "x http",
        "attach-srv" => "x be/s1",
        "use-service" => "x echo",
        "strict-mode" => "x on",
        "wait-for-body" => "x time 1s",
        "pause" => "x 1s",
        "set-status" => "x 200",
        "set-bandwidth-limit" => "x name limit 1k period 1s",
        "limit" => "x rate 1/1s by src",
        "set-trace-sampling" => "x 5%",
        "set-mark" | "set-tos" | "set-fc-mark" | "set-fc-tos" | "set-bc-mark" | "set-bc-tos" | "set-nice"
        | "set-retries" => "x 1",
        "do-resolve" => "do-resolve(txn.x,dns) str(a)",
        "sc-add-gpc" => "sc-add-gpc(0,0) 1",
        "sc-inc-gpc" => "sc-inc-gpc(0,0)",
        "sc-set-gpt" => "sc-set-gpt(0,0) 1",
        "sc-set-gpt0" => "x 1",
        "capture" if kind.is_response() => "x int(1) id 0",
        "capture" => "x int(1) len 5",
        _ => "x",
    };
    let mut seen = HashSet::new();
    for def in all_actions() {
        assert!(seen.insert(def.name), "{} is there twice", def.name);
        assert!(!def.doc.is_empty());
        for kind in Kind::ALL {
            let sample = arguments(def.name, kind);
            let line = match sample.split_once(' ') {
                Some((first, rest)) if !first.contains('(') => format!("{} {rest}", def.name),
                None if !sample.contains('(') => def.name.to_string(),
                _ => sample.to_string(),
            };
            let line = match def.spelling {
                Spelling::Prefix => format!("{line}0 src"),
                _ => line,
            };
            let mut bench = Bench::default();
            let result = bench.push(&mut Ruleset::new(), kind, &line);
            match (def.rulesets.contains(kind), def.is_supported()) {
                (true, true) => assert_eq!(result, Ok(()), "{} {line}", kind.name()),
                (true, false) => {
                    let error = result.expect_err(&line);
                    assert!(error.contains("known but not supported yet"), "{line}: {error}");
                }
                (false, _) => {
                    let error = result.expect_err(&line);
                    assert!(error.contains("expects"), "{line}: {error}");
                }
            }
        }
    }
    assert!(seen.len() >= 77, "{}", seen.len());
}

#[test]
fn the_last_bandwidth_limit_of_a_filter_counts() {
    let mut bench = Bench::default();
    let lines = [
        "set-bandwidth-limit a limit 7",
        "set-bandwidth-limit b period 1s",
        "set-bandwidth-limit a limit 2k if FALSE",
        "set-bandwidth-limit a period 3s limit int(5)",
        "set-bandwidth-limit b",
    ];
    let rules = bench.rules(REQ, &lines);
    let patterns = Registry::default();
    let references = References {
        traces: true,
        http_errors: &|_| None,
        log_profile: &|_| false,
        patterns: &patterns,
        captures: None,
        resolvers: &|_| None,
        bandwidth_filter: &|name| match name {
            "a" => Some(thalweg_rules::BandwidthFilter { id: 3, shared: None }),
            "b" => Some(thalweg_rules::BandwidthFilter { id: 8, shared: None }),
            _ => None,
        },
    };
    assert_eq!(rules.resolve(REQ, "px", &references), Vec::<String>::new());
    let mut traffic = Traffic::default();
    traffic.run(&bench, &rules, REQ, 0);
    let set: Vec<_> = traffic.fx.bandwidth.iter().map(|set| (set.filter, set.limit, set.period_ms)).collect();
    assert_eq!(set, [(3, Some(5), Some(3000)), (8, None, None)]);
    let unknown = bench.rules(REQ, &["set-bandwidth-limit c"]);
    assert_eq!(unknown.resolve(REQ, "px", &references).len(), 1);
}
