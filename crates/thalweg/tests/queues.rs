//! Requests that wait for a server: what the logs say of how long.

mod support;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc;

use support::{Conn, Io, Proxy, Server, Setup, each_driver, eventually, reference};

fn waiting(proxy: &Proxy) -> u64 {
    let mut conn = Conn::connect_unix(&proxy.path("sock"));
    conn.send("show stat\n");
    conn.half_close();
    let text = conn.rest_text();
    text.lines()
        .filter(|l| l.starts_with("be,"))
        .filter_map(|l| l.split(',').nth(2)?.parse::<u64>().ok())
        .sum()
}

/// The log lines of six requests for one place, of which the fifth gives up.
fn lines(io: Io, program: Option<&Path>, balance: &str) -> BTreeSet<String> {
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    let server = Server::http(move |_| {
        released.lock().unwrap().recv().unwrap();
        support::ok("x")
    });
    let text = format!(
        "frontend fe\nbind <@fe>\nlog-format \"%HU %ts %s %sq %bq %sc %bc\"\ndefault_backend be\nbackend be\nbalance {balance}\n\
         server a {} maxconn 1\n",
        server.addr
    );
    let mut setup = Setup::http(&text).global("stats socket <@dir>/sock level admin");
    if let Some(program) = program {
        setup = setup.program(program);
    }
    let proxy = setup.start(io);
    let mut conns = Vec::new();
    for n in 0..6 {
        let mut conn = proxy.connect();
        conn.send(format!("GET /{n} HTTP/1.1\r\nHost: h\r\n\r\n"));
        conns.push(conn);
        if n == 0 {
            eventually("the first one is served", || (server.accepted() == 1).then_some(()));
        }
        eventually("it waits", || (waiting(&proxy) == n).then_some(()));
    }
    let mut lines = BTreeSet::new();
    drop(conns.remove(4));
    lines.insert(proxy.log());
    for conn in &mut conns {
        release.send(()).unwrap();
        assert_eq!(conn.response().text(), "x");
        lines.insert(proxy.log());
    }
    lines
}

/// What counts is who was served before, not who stood there.
#[test]
fn logs_tell_how_many_were_served_first() {
    let own = [
        "/0 -- a 0 0 0 4",
        "/1 -- a 1 0 0 3",
        "/2 -- a 2 0 0 2",
        "/3 -- a 3 0 0 1",
        "/4 CQ a 1 0 1 5",
        "/5 -- a 4 0 0 0",
    ];
    let common = [
        "/0 -- a 0 0 0 4",
        "/1 -- a 0 1 0 3",
        "/2 -- a 0 2 0 2",
        "/3 -- a 0 3 0 1",
        "/4 CQ <NOSRV> 0 1 0 5",
        "/5 -- a 0 4 0 0",
    ];
    for (balance, wanted) in [("uri", own), ("roundrobin", common)] {
        let wanted: BTreeSet<String> = wanted.iter().map(|l| (*l).to_string()).collect();
        each_driver(|io| assert_eq!(lines(io, None, balance), wanted, "{balance} over {io}"));
        if let Some(reference) = reference() {
            assert_eq!(lines("epoll", Some(&reference), balance), wanted, "{balance} in the reference");
        }
    }
}

/// An operator says that the server of three requests, which has one of them, may have three.
fn raise_the_limit(io: Io, program: Option<&Path>) {
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    let server = Server::http(move |_| {
        let _ = released.lock().unwrap().recv();
        support::ok("x")
    });
    let text = format!(
        "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nfullconn 1000\nserver a {} maxconn 1\n",
        server.addr
    );
    let mut setup = Setup::http(&text).global("stats socket <@dir>/sock level admin");
    if let Some(program) = program {
        setup = setup.program(program);
    }
    let proxy = setup.start(io);
    let conns: Vec<Conn> = (0..3)
        .map(|_| {
            let mut conn = proxy.connect();
            conn.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
            conn
        })
        .collect();
    eventually("two wait", || (waiting(&proxy) == 2).then_some(()));
    let mut cli = Conn::connect_unix(&proxy.path("sock"));
    cli.send("set maxconn server be/a 3\n");
    cli.half_close();
    assert_eq!(cli.rest_text().trim(), "");
    eventually("the server has all of them", || (server.accepted() == 3).then_some(()));
    for _ in 0..3 {
        release.send(()).unwrap();
    }
    conns.into_iter().for_each(|mut conn| assert_eq!(conn.response().text(), "x"));
}

/// A limit without `minconn` does not follow the load of the backend, whoever gave it.
#[test]
fn a_limit_that_is_raised_applies_at_once() {
    each_driver(|io| raise_the_limit(io, None));
    if let Some(reference) = reference() {
        raise_the_limit("epoll", Some(&reference));
    }
}
