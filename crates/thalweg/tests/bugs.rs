//! What a bug leaves behind: panics are planted in tasks of the data path, one per start of the program, and afterwards
//! nothing counts what is gone, no slot is lost, and who must go on goes on.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use support::{Proxy, Server, Setup, each_driver, eventually, ok, other_program};

const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

/// Panics are planted in builds of our own that have debug assertions.
fn can_plant() -> bool {
    let can = cfg!(debug_assertions) && other_program().is_none();
    if !can {
        eprintln!("skipped: nothing can be planted in this build");
    }
    can
}

/// What the CLI answers to a command.
fn cli(proxy: &Proxy, command: &str) -> String {
    proxy.tell("sock", command)
}

/// The gauges of `show stat` that are not zero, and the connections of `show info`.
fn gauges(proxy: &Proxy) -> Vec<String> {
    let text = cli(proxy, "show stat");
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or("").trim_start_matches("# ").split(',').collect();
    let mut up = Vec::new();
    for line in lines.filter(|l| !l.is_empty()) {
        let fields: Vec<&str> = line.split(',').collect();
        for (name, value) in names.iter().zip(&fields) {
            let is_gauge =
                ["qcur", "scur", "used_conn_cur", "h1_open_conns", "h1_open_streams"].contains(name);
            if is_gauge && !matches!(*value, "" | "0") {
                up.push(format!("{}/{} {name}={value}", fields[0], fields[1]));
            }
        }
    }
    up
}

fn is_at_rest(proxy: &Proxy) {
    eventually("all gauges are down", || {
        let up = gauges(proxy);
        if !up.is_empty() {
            // Shown when patience ends.
            eprint!("{up:?}\r");
        }
        up.is_empty().then_some(())
    });
}

fn panics(proxy: &Proxy) -> usize {
    proxy.output().matches("planted at").count()
}

const HTTP: &str =
    "frontend fe\nbind <@fe> maxconn 1\nmaxconn 1\ndefault_backend be\nbackend be\nhttp-reuse always\n";

fn setup(text: &str, point: &str) -> Setup {
    Setup::http(text)
        .defaults("no log")
        .global("maxconn 10\nstats socket <@dir>/sock level admin")
        .env("THALWEG_PANIC_AT", point)
}

#[test]
fn a_request_that_ends_by_a_bug_leaves_nothing_behind() {
    if !can_plant() {
        return;
    }
    each_driver(|io| {
        for point in ["accept", "session", "backend", "connected"] {
            for mode in ["http", "tcp"] {
                if (point, mode) == ("backend", "tcp") {
                    continue;
                }
                let server = Server::named("a");
                let text = format!("{HTTP}mode {mode}\nserver a {} maxconn 1\n", server.addr);
                let text = text.replacen("maxconn 1\n", &format!("maxconn 1\nmode {mode}\n"), 1);
                let proxy = setup(&text, point).threads(2).start(io);
                let mut conn = proxy.connect();
                // It may be gone already.
                let _ = conn.try_send(GET);
                assert_eq!(String::from_utf8_lossy(&conn.ended()), "", "{point} {mode} {io}");
                eventually("the panic is reported", || (panics(&proxy) > 0).then_some(()));
                is_at_rest(&proxy);
                // With a place or a slot lost, none of these would be served.
                for _ in 0..3 {
                    assert_eq!(proxy.ask(GET).text(), "a", "{point} {mode} {io}");
                }
                is_at_rest(&proxy);
                assert!(panics(&proxy) >= 1);
            }
        }
    });
}

#[test]
fn a_request_that_a_bug_ends_in_a_queue_gives_its_place_up() {
    if !can_plant() {
        return;
    }
    each_driver(|io| {
        let (release, released) = mpsc::channel::<()>();
        let released = std::sync::Mutex::new(released);
        let requests = AtomicUsize::new(0);
        let server = Server::http(move |_| {
            if requests.fetch_add(1, Ordering::SeqCst) == 0 {
                released.lock().unwrap().recv().unwrap();
            }
            ok("a")
        });
        let text = HTTP.replace("maxconn 1", "maxconn 9");
        let text = format!("{text}server a {} maxconn 1\n", server.addr);
        let proxy = setup(&text, "queued").start(io);
        let mut first = proxy.connect();
        first.send(GET);
        eventually("the server has the first request", || (server.accepted() == 1).then_some(()));
        let mut second = proxy.connect();
        second.send(GET);
        assert_eq!(String::from_utf8_lossy(&second.ended()), "");
        eventually("the panic is reported", || (panics(&proxy) > 0).then_some(()));
        release.send(()).unwrap();
        assert_eq!(first.response().text(), "a");
        assert_eq!(proxy.ask(GET).text(), "a");
        is_at_rest(&proxy);
    });
}

#[test]
fn a_checker_that_a_bug_ended_is_started_again() {
    if !can_plant() {
        return;
    }
    each_driver(|io| {
        let checks = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&checks);
        let server = Server::http(move |_| {
            seen.fetch_add(1, Ordering::SeqCst);
            ok("fine")
        });
        let text = format!("{HTTP}option httpchk GET /check\nserver a {} check inter 20ms\n", server.addr);
        let proxy = setup(&text, "check:2").start(io);
        eventually("the panic is reported", || (panics(&proxy) > 0).then_some(()));
        let before = checks.load(Ordering::SeqCst);
        eventually("checks go on", || (checks.load(Ordering::SeqCst) >= before + 3).then_some(()));
    });
}

#[test]
fn idle_connections_are_looked_after_although_a_bug_ended_who_did() {
    if !can_plant() {
        return;
    }
    each_driver(|io| {
        let server = Server::named("a");
        let text = format!("{HTTP}server a {} pool-purge-delay 10ms\n", server.addr);
        let proxy = setup(&text, "janitor").start(io);
        let idle = || {
            let text = cli(&proxy, "show stat");
            let names: Vec<&str> = text.lines().next().unwrap().split(',').collect();
            let at = names.iter().position(|n| *n == "srv_icur").unwrap();
            text.lines().find(|l| l.starts_with("be,a,")).unwrap().split(',').nth(at).unwrap().to_owned()
        };
        assert_eq!(proxy.ask(GET).text(), "a");
        eventually("the panic is reported", || (panics(&proxy) > 0).then_some(()));
        assert_eq!(proxy.ask(GET).text(), "a");
        eventually("the idle connection is closed", || (idle() == "0").then_some(()));
    });
}
