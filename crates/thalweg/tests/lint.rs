//! `thalweg lint` from the command line. Its rules are tested beside the crate.

mod support;

use std::fs;
use std::process::Output;

use support::tls::{Authority, now, template};
use support::{Directory, program};

fn lint(arguments: &[&str]) -> Output {
    program().arg("lint").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn certificates_that_end_are_found() {
    let authority = Authority::new("Root");
    let mut soon = template("soon.example.com").hosts(&["soon.example.com"]);
    soon.not_after = now() + 10 * 86_400 + 60;
    let (soon, good) = (authority.issue_as("soon.pem", &soon), authority.issue("good.example.com"));
    let directory = Directory::new();
    let file = directory.0.join("a.cfg");
    let path = file.to_str().unwrap();
    let body = format!(
        "defaults\n  mode http\n  timeout client 5s\n  timeout server 5s\n  timeout connect 5s\n  timeout http-request 5s\n\
         listen a\n  bind 127.0.0.1:1 ssl crt {good} crt {soon}\n  server s 127.0.0.1:2\n"
    );
    fs::write(&file, body).unwrap();
    let found = lint(&["-f", path]);
    let expected = format!("warning: the certificate '{soon}' ends in 10 days [certificate-ends]");
    assert_eq!(found.status.code(), Some(1), "{}", text(&found.stderr));
    assert!(text(&found.stdout).starts_with(&format!("{path}:8:")), "{}", text(&found.stdout));
    assert!(text(&found.stdout).contains(&expected), "{}", text(&found.stdout));
    let patient = lint(&["--days", "5", path]);
    assert_eq!((patient.status.code(), text(&patient.stdout)), (Some(0), String::new()));
}

#[test]
fn the_exit_code_tells_warnings_from_notes() {
    let directory = Directory::new();
    let file = directory.0.join("a.cfg");
    let path = file.to_str().unwrap();
    let check = |body: &str, code: i32, expected: &str| {
        fs::write(&file, body).unwrap();
        let found = lint(&["--format", "json", path]);
        let said = text(&found.stdout) + &text(&found.stderr);
        assert_eq!(found.status.code(), Some(code), "{body}: {said}");
        assert!(said.contains(expected), "{body}: {said}");
    };
    let timeouts = "timeout client 5s\n timeout server 5s\n timeout connect 5s\n";
    check("global\n maxconn 10\n", 0, "[]");
    check(&format!("listen a\n bind 127.0.0.1:1\n {timeouts}"), 0, "[]");
    check(
        &format!("listen a\n mode http\n bind 127.0.0.1:1\n {timeouts}"),
        0,
        "missing-http-request-timeout",
    );
    check(&format!("listen a\n bind 127.0.0.1:1\n {timeouts}backend b\n {timeouts}"), 1, "unused-backend");
    check("listen a\n bind 127.0.0.1:1\n", 1, "missing timeouts");
    check("listen a\n bnd 127.0.0.1:1\n", 2, "unknown keyword 'bnd'");
    let rules = lint(&["--rules"]);
    assert!(text(&rules.stdout).lines().count() > 10);
    assert_eq!(lint(&["--format", "xml", path]).status.code(), Some(2));
}
