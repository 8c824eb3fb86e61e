//! Health checks by programs (`external-check`): what a program is told, what its end means, and what becomes of one that does
//! not end.

mod support;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use support::{Directory, Proxy, Setup, Signal, each_driver, eventually};

/// Says what it was told in a file named after its server, and ends as the name of its server asks for.
const SCRIPT: &str = r#"#!/bin/sh
out="${0%/*}/$HAPROXY_SERVER_NAME"
{ echo "$*"; env | grep -v '^PWD=\|^_=\|^SHLVL=\|^OLDPWD=' | sort; } > "$out.new"
mv "$out.new" "$out"
case $HAPROXY_SERVER_NAME in
    three) exit 3 ;;
    killed) kill -9 $$ ;;
    deaf) sleep 1000 & echo "$$ $!" > "$out.pid"; wait ;;
esac
"#;

fn script(directory: &Directory) -> PathBuf {
    let path = directory.0.join("check");
    std::fs::write(&path, SCRIPT).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn setup(text: &str, command: &Path, global: &str) -> Setup {
    let options = format!(
        "option external-check\nexternal-check command {}\nexternal-check path /usr/bin:/bin\noption log-health-checks",
        command.display()
    );
    let text = format!("frontend fe\nbind <@fe>\n{text}");
    // All at once: the first checks are spread over the interval otherwise.
    Setup::http(&text).defaults(&options).global(global).global("max-spread-checks 1ms")
}

/// The next verdict, without the time that it took.
fn said(proxy: &Proxy) -> String {
    let line = loop {
        let line = proxy.log();
        if let Some(at) = line.find("Health check for server ") {
            break line[at + "Health check for server ".len()..].to_owned();
        }
    };
    let (before, after) = line.split_once("check duration: ").unwrap();
    format!("{before}{}", after.trim_start_matches(|c: char| c.is_ascii_digit()))
}

#[test]
fn programs_judge_servers() {
    each_driver(|io| {
        let directory = Directory::new();
        let command = script(&directory);
        for (server, expected) in [
            ("zero", "succeeded, reason: External check passed, code: 0, ms, status: 3/3 UP."),
            ("three", "failed, reason: External check error, code: 3, ms, status: 0/2 DOWN."),
            ("killed", "failed, reason: External check error, code: -1, ms, status: 0/2 DOWN."),
        ] {
            let text =
                format!("backend be\nserver {server} 127.0.0.1:80 check inter 1h init-state down rise 1");
            let text = if server == "zero" { text } else { text.replace(" init-state down rise 1", "") };
            let proxy = setup(&text, &command, "external-check\ninsecure-fork-wanted").start(io);
            assert_eq!(said(&proxy), format!("be/{server} {expected}"));
        }
        let proxy = setup(
            "backend be\nserver a 127.0.0.1:80 check inter 1h\nexternal-check command /no/such/program",
            &command,
            "external-check\ninsecure-fork-wanted",
        );
        let expected = "be/a failed, reason: External check error, code: 255, ms, status: 0/2 DOWN.";
        assert_eq!(said(&proxy.start(io)), expected);
        // Whoever did not allow it runs nothing.
        let proxy = setup("backend be\nserver a 127.0.0.1:80 check inter 1h", &command, "external-check");
        assert_eq!(
            said(&proxy.start(io)),
            "be/a failed, reason: External check error, code: 255, info: \"'insecure-fork-wanted' is not set\", ms, status: \
             0/2 DOWN."
        );
        assert!(!directory.0.join("a").exists());
    });
}

#[test]
fn programs_are_told_what_they_check() {
    each_driver(|io| {
        let directory = Directory::new();
        let command = script(&directory);
        let text = "backend be\nserver tcp 127.0.0.1:80 check inter 1h maxconn 7\n\
                    listen li\nmode tcp\nbind <@li>\nserver unix /run/x.sock check inter 1h";
        let proxy =
            setup(text, &command, "external-check\ninsecure-fork-wanted").env("SECRET", "x").start(io);
        let told =
            |name: &str| eventually("a program ran", || std::fs::read_to_string(directory.0.join(name)).ok());
        assert_eq!(
            told("tcp"),
            "NOT_USED NOT_USED 127.0.0.1 80\nHAPROXY_PROXY_ADDR=\nHAPROXY_PROXY_ID=3\nHAPROXY_PROXY_NAME=be\n\
             HAPROXY_PROXY_PORT=\nHAPROXY_SERVER_ADDR=127.0.0.1\nHAPROXY_SERVER_CURCONN=0\nHAPROXY_SERVER_ID=1\n\
             HAPROXY_SERVER_MAXCONN=7\nHAPROXY_SERVER_NAME=tcp\nHAPROXY_SERVER_PORT=80\nHAPROXY_SERVER_PROTO=h1\n\
             HAPROXY_SERVER_SSL=0\nPATH=/usr/bin:/bin\n"
        );
        let at = proxy.addr("li");
        assert_eq!(
            told("unix"),
            format!(
                "{0} {1} /run/x.sock NOT_USED\nHAPROXY_PROXY_ADDR={0}\nHAPROXY_PROXY_ID=4\nHAPROXY_PROXY_NAME=li\n\
                 HAPROXY_PROXY_PORT={1}\nHAPROXY_SERVER_ADDR=/run/x.sock\nHAPROXY_SERVER_CURCONN=0\nHAPROXY_SERVER_ID=1\n\
                 HAPROXY_SERVER_MAXCONN=0\nHAPROXY_SERVER_NAME=unix\nHAPROXY_SERVER_PORT=\nHAPROXY_SERVER_PROTO=tcp\n\
                 HAPROXY_SERVER_SSL=0\nPATH=/usr/bin:/bin\n",
                at.ip(),
                at.port()
            )
        );
        drop(proxy);
        let global = "external-check preserve-env\ninsecure-fork-wanted\nsetenv MORE y";
        let text = "backend be\nserver kept 127.0.0.1:80 check inter 1h";
        let _proxy = setup(text, &command, global).env("SECRET", "x").start(io);
        let told = told("kept");
        assert!(told.contains("\nSECRET=x\n") && told.contains("\nMORE=y\n"), "{told}");
    });
}

/// The process has ended, if perhaps nobody waited for it: whoever inherited it may not.
fn is_dead(pid: &str) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    state.is_empty() || state.contains(") Z ")
}

/// Nothing is left of a program that was too slow, or runs when the process ends.
#[test]
fn a_program_that_does_not_end_is_ended_with_all_that_it_started() {
    each_driver(|io| {
        let directory = Directory::new();
        let command = script(&directory);
        let text = "backend be\nserver deaf 127.0.0.1:80 check inter 1s";
        let mut proxy = setup(text, &command, "external-check\ninsecure-fork-wanted").start(io);
        // The numbers of the program that was started last, and of the one that it started.
        let started = || {
            let text = std::fs::read_to_string(directory.0.join("deaf.pid")).ok()?;
            text.strip_suffix('\n').map(str::to_owned)
        };
        let all_end = |pids: &str| {
            eventually("all ended", || pids.split(' ').all(is_dead).then_some(()));
        };
        let first = eventually("the program started another", started);
        assert_eq!(
            said(&proxy),
            "be/deaf failed, reason: External check timeout, code: 0, ms, status: 0/2 DOWN."
        );
        all_end(&first);
        let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", proxy.id()));
        assert!(children.unwrap_or_default().split(' ').filter(|child| !child.is_empty()).count() <= 1);
        let second = eventually("the program runs again", || started().filter(|pids| *pids != first));
        proxy.signal(Signal::Terminate);
        proxy.end();
        all_end(&second);
    });
}
