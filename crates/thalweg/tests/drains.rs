//! A drain that ends by itself: `set server ... state drain timeout <time>`.

mod support;

use support::{Io, Proxy, Server, Setup, each_driver, eventually, ok};

fn command(proxy: &Proxy, line: &str) -> String {
    proxy.tell("cli", line)
}

/// How `show stat` calls where a server stands.
fn status(proxy: &Proxy, server: &str) -> String {
    let text = command(proxy, "show stat");
    let row = text.lines().find(|line| line.starts_with(&format!("be,{server},"))).expect("a row");
    row.split(',').nth(17).unwrap().to_string()
}

fn start(io: Io, servers: &str) -> Proxy {
    let text = format!("frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nbalance first\n{servers}");
    Setup::http(&text).global("stats socket <@dir>/cli level admin").start(io)
}

#[test]
fn its_end_is_maintenance_and_the_end_of_what_is_left() {
    each_driver(|io| {
        let silent = Server::start(|mut conn, _| while conn.next_request().is_some() {});
        let other = Server::named("other");
        let proxy = start(io, &format!("server a {}\nserver b {}\n", silent.addr, other.addr));
        let mut waits = proxy.connect();
        waits.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        eventually("the request is there", || (silent.accepted() == 1).then_some(()));
        assert_eq!(command(&proxy, "set server be/a state drain timeout 400ms"), "\n");
        // New requests go elsewhere, and the old one goes on meanwhile.
        assert_eq!(proxy.ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n").body, b"other");
        assert_eq!(waits.response().status, 500, "over {io}");
        assert_eq!(status(&proxy, "a"), "MAINT", "over {io}");
        let lines = [proxy.http_log(), proxy.http_log()];
        assert!(lines[1].starts_with("be/a ") && lines[1].contains(" DC-- "), "over {io}: {lines:?}");
    });
}

#[test]
fn another_word_about_the_server_cancels_it() {
    each_driver(|io| {
        let server = Server::http(|_| ok("x"));
        let list: String =
            ["a", "b", "c", "d"].iter().map(|s| format!("server {s} {}\n", server.addr)).collect();
        let proxy = start(io, &list);
        let drain =
            |server: &str, rest: &str| command(&proxy, &format!("set server be/{server} state {rest}"));
        for server in ["a", "b", "c"] {
            assert_eq!(drain(server, "drain timeout 300ms"), "\n");
        }
        drain("a", "ready");
        drain("b", "drain");
        drain("c", "drain timeout 1h");
        // Its time ends behind that of the others.
        drain("d", "drain timeout 300ms");
        eventually("the last one is in maintenance", || (status(&proxy, "d") == "MAINT").then_some(()));
        let now = ["a", "b", "c"].map(|server| status(&proxy, server));
        assert_eq!(now, ["no check", "DRAIN", "DRAIN"], "over {io}");
    });
}

#[test]
fn a_time_is_needed() {
    let server = Server::named("x");
    let proxy = start("epoll", &format!("server a {}\n", server.addr));
    for rest in ["timeout", "timeout 0", "timeout soon", "timeout -5s"] {
        let answer = command(&proxy, &format!("set server be/a state drain {rest}"));
        assert_eq!(answer, "'set server <srv> state drain timeout' expects a time above 0.\n\n", "{rest}");
        assert_eq!(status(&proxy, "a"), "no check");
    }
}
