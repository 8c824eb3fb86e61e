//! `zone`: requests stay with servers of the zone of this process, while there are enough of them.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use support::{Io, Proxy, Server, Setup, each_driver, eventually, ok};

const REQUEST: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";

/// Two servers here and two elsewhere, all of this address.
fn start(io: Io, line: &str, options: &str, server: &Server) -> Proxy {
    let one = |name: &str, zone: &str| format!("server {name} {} zone {zone} {options}\n", server.addr);
    let servers = [one("a", "here"), one("b", "here"), one("c", "there"), one("d", "there")].concat();
    let text = format!(
        "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nbalance roundrobin\n{line}\n{servers}"
    );
    Setup::http(&text).global("stats socket <@dir>/cli level admin").start(io)
}

fn command(proxy: &Proxy, line: &str) -> String {
    proxy.tell("cli", line)
}

/// How many of so many requests each server gets.
fn shares(proxy: &Proxy, requests: usize) -> [u64; 4] {
    command(proxy, "clear counters all");
    let mut conn = proxy.connect();
    for _ in 0..requests {
        conn.send(REQUEST);
        assert_eq!(conn.response().status, 200);
    }
    let text = command(proxy, "show stat");
    let at = text.lines().next().unwrap().split(',').position(|name| name == "lbtot").unwrap();
    ["a", "b", "c", "d"].map(|server| {
        let row = text.lines().find(|line| line.starts_with(&format!("be,{server},"))).expect("a row");
        row.split(',').nth(at).unwrap().parse().unwrap()
    })
}

#[test]
fn what_is_missing_goes_elsewhere() {
    let server = Server::named("x");
    each_driver(|io| {
        let proxy = start(io, "zone here", "", &server);
        assert_eq!(shares(&proxy, 40), [20, 20, 0, 0], "over {io}");
        // Half of the zone is five sevenths of what keeps all requests.
        command(&proxy, "set server be/a state maint");
        let [a, b, c, d] = shares(&proxy, 140);
        assert!(
            a == 0 && b.abs_diff(100) <= 4 && c.abs_diff(20) <= 4 && d.abs_diff(20) <= 4,
            "over {io}: {b} {c} {d}"
        );
        command(&proxy, "set server be/b state maint");
        assert_eq!(shares(&proxy, 40), [0, 0, 20, 20], "over {io}");
        command(&proxy, "set server be/a state ready");
        command(&proxy, "set server be/b state ready");
        assert_eq!(shares(&proxy, 40), [20, 20, 0, 0], "over {io}");
    });
}

#[test]
fn a_line_says_how_much_of_a_zone_must_be_left() {
    let server = Server::named("x");
    each_driver(|io| {
        let proxy = start(io, "zone here spill-over 50%", "", &server);
        command(&proxy, "set server be/a state maint");
        assert_eq!(shares(&proxy, 20), [0, 20, 0, 0], "over {io}");
    });
}

#[test]
fn without_a_zone_of_the_process_zones_do_not_matter() {
    let server = Server::named("x");
    each_driver(|io| {
        let proxy = start(io, "", "", &server);
        assert_eq!(shares(&proxy, 40), [10, 10, 10, 10], "over {io}");
    });
}

#[test]
fn a_zone_that_is_full_spills_over_at_once() {
    each_driver(|io| {
        let came = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&came);
        // The first two are never answered.
        let server = Server::start(move |mut conn, _| {
            while conn.next_request().is_some() {
                if count.fetch_add(1, Ordering::SeqCst) >= 2 && conn.try_send(ok("x")).is_err() {
                    return;
                }
            }
        });
        let proxy = start(io, "zone here", "maxconn 1", &server);
        let mut held = [proxy.connect(), proxy.connect()];
        for (conn, n) in held.iter_mut().zip(1..) {
            conn.send(REQUEST);
            eventually("it holds a server", || (came.load(Ordering::SeqCst) == n).then_some(()));
        }
        let [a, b, c, d] = shares(&proxy, 10);
        assert_eq!((a, b, c + d), (0, 0, 10), "over {io}");
    });
}
