//! `adaptive-maxconn`: the limit of a server follows how long its answers take.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use support::{Conn, Io, Proxy, Server, Setup, each_driver, eventually, ok};

/// A server whose answers take so many milliseconds for each `at_once` requests that it has at once, and the most that it had.
fn server(at_once: &Arc<AtomicUsize>, each_ms: u64) -> (Server, Arc<AtomicUsize>) {
    let (have, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (at_once, seen) = (Arc::clone(at_once), Arc::clone(&most));
    let server = Server::http(move |_| {
        let now = have.fetch_add(1, Ordering::SeqCst) + 1;
        seen.fetch_max(now, Ordering::SeqCst);
        let times = now.div_ceil(at_once.load(Ordering::SeqCst)) as u64;
        std::thread::sleep(Duration::from_millis(each_ms * times));
        have.fetch_sub(1, Ordering::SeqCst);
        ok("x")
    });
    (server, most)
}

fn start(io: Io, addr: std::net::SocketAddrV4, words: &str) -> Proxy {
    let text = format!(
        "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\ntimeout queue 20s\nserver a {addr} {words}\n"
    );
    Setup::http(&text).global("stats socket <@dir>/cli level admin").start(io)
}

fn limit(proxy: &Proxy) -> u32 {
    proxy.stat("be,a", "lb_maxconn").parse().expect("a limit")
}

/// So many clients ask until `done` says that it is enough. Gives how many answers there were.
fn asked_until(proxy: &Proxy, clients: usize, done: impl FnOnce()) -> u64 {
    let (over, answers) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(|| {
                let mut conn = proxy.connect();
                while !over.load(Ordering::Relaxed) {
                    conn.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
                    assert_eq!(conn.response().status, 200);
                    answers.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        done();
        over.store(true, Ordering::Relaxed);
    });
    answers.into_inner()
}

#[test]
fn the_limit_follows_what_a_server_can_do() {
    each_driver(|io| {
        let at_once = Arc::new(AtomicUsize::new(100));
        let (server, _) = server(&at_once, 20);
        let proxy = start(io, server.addr, "maxconn 60 minconn 2 adaptive-maxconn");
        assert_eq!(limit(&proxy), 8, "nothing is known");
        asked_until(&proxy, 40, || {
            eventually("all that it can do is used", || (limit(&proxy) >= 40).then_some(()));
            at_once.store(3, Ordering::SeqCst);
            eventually("it can do less", || (limit(&proxy) <= 10).then_some(()));
            assert!(limit(&proxy) >= 2, "over {io}");
            at_once.store(100, Ordering::SeqCst);
            eventually("it can do more again", || (limit(&proxy) >= 30).then_some(()));
        });
    });
}

#[test]
fn no_more_than_the_limit_are_there_at_once() {
    each_driver(|io| {
        let (server, most) = server(&Arc::new(AtomicUsize::new(100)), 5);
        let proxy = start(io, server.addr, "maxconn 12 adaptive-maxconn");
        asked_until(&proxy, 30, || {
            eventually("the limit is all of it", || (limit(&proxy) == 12).then_some(()));
            let more = proxy.stat("be,a", "stot").parse::<u64>().unwrap() + 200;
            eventually("some requests more", || {
                (proxy.stat("be,a", "stot").parse::<u64>().unwrap() > more).then_some(())
            });
            // An operator's word bounds it at once.
            let mut cli = Conn::connect_unix(&proxy.path("cli"));
            cli.send("set maxconn server be/a 5\n");
            assert_eq!(cli.rest_text(), "\n");
            assert!(limit(&proxy) <= 5, "over {io}");
        });
        let most = most.load(Ordering::SeqCst);
        assert!((9..=12).contains(&most), "over {io}: {most}");
    });
}

#[test]
fn without_the_word_it_is_as_configured() {
    each_driver(|io| {
        let (server, _) = server(&Arc::new(AtomicUsize::new(1)), 1);
        let proxy = start(io, server.addr, "adaptive-maxconn maxconn 12 no-adaptive-maxconn");
        asked_until(&proxy, 2, || {
            eventually("it was asked", || (proxy.stat("be,a", "stot") != "0").then_some(()));
        });
        assert_eq!(
            (proxy.stat("be,a", "lb_maxconn").as_str(), proxy.stat("be,a", "slim").as_str()),
            ("", "12")
        );
    });
}
