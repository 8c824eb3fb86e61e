//! Each rule on a file that it is for, and on one that is fine.

use std::collections::BTreeSet;

use thalweg_lint::{File, Form, Known, RULES, lint, render};

const DAY: i64 = 86_400;

fn known() -> Known {
    Known {
        warnings: vec![(0, 2, 3, "missing timeouts".into())],
        certificates: vec![
            ("/etc/tls/old.pem".into(), 90 * DAY),
            ("/etc/tls/soon.pem".into(), 110 * DAY),
            ("/etc/tls/good.pem".into(), 1000 * DAY),
        ],
        now: 100 * DAY,
        soon_s: 30 * DAY,
    }
}

/// `line: rule` of what is found in a file.
fn found(text: &str) -> Vec<String> {
    let files = [File { name: "a.cfg", text }];
    lint(&files, &Known::default()).iter().map(|f| format!("{}: {}", f.line, f.rule)).collect()
}

#[test]
fn rules_find_what_they_are_for() {
    for (text, expected) in [
        (
            "frontend a\n acl x path /\n acl y path /\n acl y path /z\n use_backend b if !x\nbackend b\n",
            &["3: unused-acl"][..],
        ),
        ("frontend a\n acl x path /\n http-request set-var(txn.v) acl(x)\n", &[]),
        (
            "defaults d\n acl x path /\n acl y path /\nfrontend a from d\n http-request deny if x\n",
            &["3: unused-acl"],
        ),
        (
            "listen a\nbackend b\nbackend c\n server s 1.1.1.1:1 track d/s check\nbackend d\nbackend e\n",
            &["2: unused-backend", "3: unused-backend", "6: unused-backend"],
        ),
        ("frontend a\n use_backend %[path]\nbackend b\n", &[]),
        (
            "frontend a\n tcp-request connection track-sc0 src table t\n default_backend b\nbackend b\nbackend t\n",
            &[],
        ),
        (
            "frontend a\n acl x path /\n http-request deny if x\n http-request deny status 404 if x\n http-request set-header a b if x\n",
            &["4: unreachable-rule"],
        ),
        (
            "frontend a\n acl x path /\n http-request deny if x\n http-request redirect location / if x\n",
            &["4: unreachable-rule"],
        ),
        (
            "frontend a\n acl x path /\n http-request deny if x\n http-request set-path /a\n http-request return if x\n",
            &[],
        ),
        (
            "frontend a\n acl x path /\n http-request deny if x !x\n http-request deny unless { path / } ! { path / }\n \
             http-request deny if x { path /b } || { dst_port 80 } { dst_port 443 8443 } { method GET }\n",
            &["3: contradiction", "4: contradiction", "5: contradiction"],
        ),
        // One alternative that can be, values that may be the same, names that say more than one thing, what varies.
        (
            "frontend a\n acl x path /\n acl y path /\n acl y path /b\n http-request deny if x !x or { src_port 5 }\n \
             http-request deny if { dst_port 80 } { dst_port 080 }\n http-request deny if { path / } { path -i /B }\n \
             http-request deny if { hdr(a) b } { hdr(a) c }\n http-request deny if x y\n \
             http-request deny if { rand(2) 1 } !{ rand(2) 1 }\n http-request deny if x x { dst_port 80 443 } { dst_port 443 }\n",
            &[],
        ),
        ("frontend a\n use_backend b\n use_backend b if { path / }\nbackend b\n", &["3: unreachable-rule"]),
        (
            "frontend a\n use_backend b if { rand(2) eq 1 }\n use_backend c if { rand(2) eq 1 }\nbackend b\nbackend c\n",
            &[],
        ),
        ("frontend a\n .if 1\n use_backend b\n .else\n use_backend c\n .endif\nbackend b\nbackend c\n", &[]),
        (
            "listen a\n server s 1.1.1.1:1 ssl verify none\n default-server verify none\n",
            &["2: verify-none", "3: verify-none"],
        ),
        ("global\n ssl-server-verify none\n", &["2: verify-none"]),
        ("listen a\n bind :443 ssl crt x verify none\n", &[]),
        (
            "global\n ssl-default-bind-options ssl-min-ver TLSv1.1\nlisten a\n bind :1 ssl force-tlsv10\n",
            &["2: weak-tls", "4: weak-tls"],
        ),
        ("global\n ssl-default-bind-options ssl-min-ver TLSv1.2\n", &[]),
        (
            "defaults\n timeout client 30\n timeout server 30s\n timeout connect 5000\n timeout queue 0\n timeout tunnel 9d\n timeout check 0\n timeout http-keep-alive 3d\n",
            &["2: odd-timeout", "7: odd-timeout", "8: odd-timeout"],
        ),
        (
            "defaults\n mode http\nfrontend a\n bind :1\nfrontend b\n bind :2\n timeout http-request 5s\nfrontend c\n mode tcp\n bind :3\n",
            &["3: missing-http-request-timeout"],
        ),
        ("defaults\n mode http\n timeout http-request 5s\nlisten a\n bind :1\n", &[]),
        (
            "listen a\n server s 1.1.1.1:1\n server t 1.1.1.1:2\nlisten b\n server s 1.1.1.1:1\nlisten c\n server s 1.1.1.1:1 check\n server t 1.1.1.1:2\n",
            &["2: missing-check"],
        ),
        ("defaults\n default-server check\nlisten a\n server s 1.1.1.1:1\n server t 1.1.1.1:2\n", &[]),
        (
            "global\n stats socket /run/a mode 666 level admin\n stats socket /run/b mode 660 level admin\n stats socket :9999 level admin\n stats socket 127.0.0.1:99\n stats socket /run/c mode 666 level user\n",
            &["2: open-socket", "4: open-socket"],
        ),
        (
            "listen a\n bind :1\n stats enable\nlisten b\n bind :2\n stats enable\n stats auth a:b\nlisten c\n bind 127.0.0.1:1\n stats uri /\n",
            &["3: open-statistics"],
        ),
        ("userlist u\n user a password $5$x\n user b insecure-password b\n", &["3: clear-password"]),
    ] {
        assert_eq!(found(text), expected, "{text}");
    }
}

#[test]
fn what_the_loader_knows_is_found_too() {
    let text = "listen a\n bind :443 ssl crt /etc/tls/old.pem crt /etc/tls/\n";
    let files = [File { name: "a.cfg", text }];
    let findings = lint(&files, &known());
    let seen: Vec<String> =
        findings.iter().map(|f| format!("{}:{}: {}", f.line, f.column, f.message)).collect();
    assert_eq!(
        seen,
        [
            "2:3: missing timeouts",
            "2:20: the certificate '/etc/tls/old.pem' ended 10 days ago",
            "2:41: the certificate '/etc/tls/soon.pem' ends in 10 days",
        ]
    );
}

#[test]
fn rules_have_names_reasons_and_an_order() {
    let names: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
    assert!(names.is_sorted());
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    assert!(RULES.iter().all(|rule| rule.why.ends_with('.')));
}

#[test]
fn findings_are_written_for_people_and_programs() {
    let text = "backend \"b\\\"x\"\nbackend c\n";
    let files = [File { name: "a \"b\".cfg", text }];
    let findings = lint(&files, &Known::default());
    assert_eq!(
        render(Form::Text, &files, &findings),
        "a \"b\".cfg:1:9: warning: nothing uses the backend 'b\"x' [unused-backend]\n    No rule sends anything there: its \
         name may be misspelled in one.\na \"b\".cfg:2:9: warning: nothing uses the backend 'c' [unused-backend]\n"
    );
    let json: serde_json::Value = serde_json::from_str(&render(Form::Json, &files, &findings)).unwrap();
    assert_eq!(json[0]["file"], "a \"b\".cfg");
    assert_eq!((json[1]["line"].as_u64(), json[1]["rule"].as_str()), (Some(2), Some("unused-backend")));
    let sarif: serde_json::Value = serde_json::from_str(&render(Form::Sarif, &files, &findings)).unwrap();
    assert_eq!(sarif["version"], "2.1.0");
    let run = &sarif["runs"][0];
    assert_eq!(run["tool"]["driver"]["rules"].as_array().map(Vec::len), Some(RULES.len()));
    assert_eq!(run["results"][1]["locations"][0]["physicalLocation"]["region"]["startLine"], 2);
    let empty: serde_json::Value = serde_json::from_str(&render(Form::Sarif, &files, &[])).unwrap();
    assert_eq!(empty["runs"][0]["results"].as_array().map(Vec::len), Some(0));
}
