//! How many idle connections to servers are kept.

mod support;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use support::{Conn, Io, Server, Setup, each_driver, eventually, ok, reference};

/// How many clients ask at once.
const CLIENTS: usize = 60;

/// Connections that are open at a server: once so many requests were answered at the same time, and once a request for something else was
/// answered while as many clients as that are connected twice.
fn kept(io: Io, program: Option<&Path>, ratios: (u32, u32)) -> (usize, usize) {
    let [open, asked] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    let go = Arc::new(AtomicBool::new(false));
    let (is_open, is_asked, may_answer) = (Arc::clone(&open), Arc::clone(&asked), Arc::clone(&go));
    let server = Server::start(move |mut conn, _| {
        is_open.fetch_add(1, Ordering::SeqCst);
        while conn.next_request().is_some() {
            is_asked.fetch_add(1, Ordering::SeqCst);
            while !may_answer.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
            conn.send(ok("x"));
        }
        is_open.fetch_sub(1, Ordering::SeqCst);
    });
    let (low, high) = ratios;
    let text = format!(
        "global\nnbthread 1\nmaxconn 200\ntune.pool-low-fd-ratio {low}\ntune.pool-high-fd-ratio {high}\ndefaults\nmode http\n\
         http-reuse always\ntimeout connect 5s\ntimeout client 20s\ntimeout server 20s\nfrontend fe\nbind <@fe>\ndefault_backend be\n\
         backend be\nserver a {} pool-low-conn 1000 pool-purge-delay 60s pool-conn-name path\n",
        server.addr
    );
    let setup = Setup::file(&text);
    let setup = program.map_or_else(|| Setup::file(&text), |program| setup.program(program));
    let proxy = setup.start(io);
    let mut clients: Vec<Conn> = (0..CLIENTS).map(|_| proxy.connect()).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    }
    eventually("requests", || (asked.load(Ordering::SeqCst) == CLIENTS).then_some(()));
    go.store(true, Ordering::SeqCst);
    clients.iter_mut().for_each(|client| assert_eq!(client.response().text(), "x"));
    let settled = || {
        let mut before = usize::MAX;
        eventually("nothing changes", || {
            std::thread::sleep(Duration::from_millis(100));
            let now = open.load(Ordering::SeqCst);
            (std::mem::replace(&mut before, now) == now).then_some(now)
        })
    };
    let first = settled();
    let more: Vec<Conn> = (0..CLIENTS).map(|_| proxy.connect()).collect();
    std::thread::sleep(Duration::from_millis(100));
    clients[0].send("GET /other HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(clients[0].response().text(), "x");
    let second = settled();
    drop((clients, more));
    proxy.finish(server);
    (first, second)
}

/// `tune.pool-low-fd-ratio` and `tune.pool-high-fd-ratio`: above the first one idle connection of a server is kept, above the second
/// none, and one is closed for each that is opened. 200 connections are some 440 files; 60 requests need 120 of them.
#[test]
fn idle_connections_go_when_files_are_short() {
    for (ratios, expected) in [
        ((80, 90), (CLIENTS, CLIENTS + 1)),
        // With 120 to 180 files in use, one new connection is not kept.
        ((32, 90), (CLIENTS, CLIENTS)),
        // It also costs one that was idle.
        ((32, 33), (CLIENTS, CLIENTS - 1)),
        ((10, 90), (1, 1)),
        ((5, 10), (0, 0)),
    ] {
        each_driver(|io| assert_eq!(kept(io, None, ratios), expected, "{ratios:?} over {io}"));
        if let Some(reference) = reference() {
            assert_eq!(kept("epoll", Some(&reference), ratios), expected, "{ratios:?} with the reference");
        }
    }
}
