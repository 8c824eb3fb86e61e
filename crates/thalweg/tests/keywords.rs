//! The lists of `-dK` beside those of an installed HAProxy, line by line.
//!
//! `HAPROXY_ORACLE` names the program to compare with; otherwise it is the `haproxy` found in `PATH`. Without one of the
//! right version the test is skipped and says so.

#[path = "support/own_commands.rs"]
mod own_commands;

use std::path::{Path, PathBuf};
use std::process::Command;

use own_commands::OWN_COMMANDS;

/// What is behind the words of a command that a worker has, in the list of them.
const OF_WORKERS: &str = " [WORKER] ";

/// Keywords of ours that the reference does not have, as they are listed. Of commands, see [`OWN_COMMANDS`].
const OUR_OWN: &[&str] = &[
    "global/crt-watch",
    "global/sandbox",
    "global/ssl-load-errors",
    "global/state-dir",
    "global/tune.io.driver",
    "listen/http-request limit",
    "listen/http-request set-trace-sampling",
    "listen/option http-strict [ FE BE HTTP ]",
    "listen/retry-budget",
    "listen/server <name> <addr> zone +1",
    "listen/zone",
    "[ . . . . . . . . . . . Y Y Y Y Y Y Y Y Y . . ] txn.hedged: sint",
    "[ Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y . Y ] span_id: str",
    "[ Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y Y . Y ] trace_id: str",
];

fn reference() -> Option<PathBuf> {
    let program = match std::env::var_os("HAPROXY_ORACLE") {
        Some(path) => PathBuf::from(path),
        None => std::env::split_paths(&std::env::var_os("PATH")?)
            .map(|dir| dir.join("haproxy"))
            .find(|path| path.is_file())?,
    };
    let version = Command::new(&program).arg("-v").output().ok()?;
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    // Our own program may be installed under this name, and other versions have other keywords.
    (version.starts_with("HAProxy version 3.5") && !version.contains("Thalweg")).then_some(program)
}

/// The lines of a class. Those of a section get its name in front, since some keywords are in several.
fn lines(program: &Path, class: &str) -> Vec<String> {
    let output = Command::new(program).args([&format!("-dK{class}"), "-q", "-c", "-f", "/dev/null"]).output();
    let text = String::from_utf8(output.expect("it runs").stdout).expect("text");
    let mut section = String::new();
    let place = |line: &str| match line.strip_prefix('\t') {
        Some(keyword) => format!("{section}/{keyword}"),
        None => {
            section = line.to_string();
            line.to_string()
        }
    };
    text.lines().map(place).collect()
}

/// The sums over a fleet are our own, too (`sc_http_req_rate_all`): too many to be listed.
fn is_our_own(line: &str) -> bool {
    // A fetch may have its points of evaluation before it.
    let name = line.split(['(', ':']).next().unwrap_or(line);
    let is_command = line.strip_suffix(OF_WORKERS).is_some_and(|words| OWN_COMMANDS.contains(&words));
    OUR_OWN.contains(&line) || is_command || name.ends_with("_all")
}

/// Every line of ours is one of the reference's, and they come in its order.
#[test]
fn lists_are_the_references() {
    let Some(reference) = reference() else {
        eprintln!("skipped: no HAProxy 3.5 found to compare with (set HAPROXY_ORACLE)");
        return;
    };
    let program = Path::new(env!("CARGO_BIN_EXE_thalweg"));
    for class in ["acl", "cfg", "cli", "cnv", "flt", "help", "smp", "srv", "svc", "all", "svc,cnv"] {
        let theirs = lines(&reference, class);
        let ours: Vec<String> = lines(program, class).into_iter().filter(|line| !is_our_own(line)).collect();
        let shared: Vec<&String> = theirs.iter().filter(|line| ours.contains(line)).collect();
        for (ours, theirs) in ours.iter().zip(&shared) {
            assert_eq!(ours, *theirs, "class {class}");
        }
        assert_eq!(ours.len(), shared.len(), "class {class}");
    }
}

/// What works and is listed by the reference is listed by us.
#[test]
fn nothing_that_works_is_left_out() {
    let Some(reference) = reference() else {
        eprintln!("skipped: no HAProxy 3.5 found to compare with (set HAPROXY_ORACLE)");
        return;
    };
    let ours = lines(Path::new(env!("CARGO_BIN_EXE_thalweg")), "cfg");
    let works = |line: &str| {
        thalweg_config::catalog().iter().filter(|entry| !entry.section.is_empty()).any(|entry| {
            let space = if entry.prefix.is_empty() { "" } else { " " };
            let name = format!("{}/{}{space}{}", entry.section, entry.prefix, entry.name);
            line.strip_prefix(name.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(" +") || rest.starts_with(" ["))
        })
    };
    let missing: Vec<String> =
        lines(&reference, "cfg").into_iter().filter(|line| works(line) && !ours.contains(line)).collect();
    assert_eq!(missing, Vec::<String>::new());
}
