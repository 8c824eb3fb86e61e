//! A server connection that goes from one thread to another, by asking, takes no allocation, and no lock.

#[path = "support/counting.rs"]
mod counting;
mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use support::Running;
use thalweg_runtime::driver::DriverKind;
use thalweg_shared::locks;

const TAKEOVERS: usize = 300;

/// Answers every head, and counts connections.
fn serve(listener: TcpListener) -> Arc<AtomicUsize> {
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            count.fetch_add(1, Ordering::SeqCst);
            thread::spawn(move || {
                let (mut head, mut part) = (Vec::new(), [0; 4096]);
                while let Ok(n @ 1..) = stream.read(&mut part) {
                    head.extend_from_slice(&part[..n]);
                    if head.ends_with(b"\r\n\r\n") {
                        head.clear();
                        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
                    }
                }
            });
        }
    });
    connections
}

/// The clients of a proxy, one of each thread, that ask by turns: the only server connection follows them.
struct Clients<'a> {
    proxy: &'a Running,
    conns: Vec<TcpStream>,
}

impl Clients<'_> {
    /// So many requests, by turns of the first of them.
    fn ask(&mut self, times: usize, clients: usize) {
        let mut answer = [0; 4096];
        for n in 0..times {
            let thread = n % clients;
            let conn = &mut self.conns[thread];
            conn.write_all(b"GET /path HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
            let mut len = 0;
            while !answer[..len].ends_with(b"\r\n\r\nok") {
                let n = conn.read(&mut answer[len..]).unwrap();
                assert!(n > 0, "the proxy closed");
                len += n;
            }
            assert!(answer.starts_with(b"HTTP/1.1 200 "), "request {n}");
            let (servers, begin) = (&self.proxy.instance.servers, Instant::now());
            while servers.of(0, thread).idle_connections.get() != 1 {
                assert!(begin.elapsed() < Duration::from_secs(20), "request {n}: no idle connection");
                thread::yield_now();
            }
        }
    }
}

/// Allocations in so many takeovers, and locks taken, by both threads.
fn count_with(kind: DriverKind, options: &str) -> (usize, u64) {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let server_addr = server.local_addr().unwrap();
    let connections = serve(server);
    let text = format!(
        "defaults\n mode http\n timeout client 20s\n timeout server 20s\n timeout connect 20s\n\
         frontend fe\n bind 127.0.0.1:1\n default_backend be\n\
         backend be\n http-reuse always\n server s {server_addr} {options}\n"
    );
    let settings = thalweg_runtime::Config { driver: kind, threads: 2, ..thalweg_runtime::Config::default() };
    let proxy = support::start(&text, settings, counting::count_this_thread);
    let mut clients =
        Clients { proxy: &proxy, conns: proxy.addrs.iter().map(|addr| support::connect(*addr)).collect() };
    clients.ask(200, 2);
    let locks = || -> u64 {
        let of_thread = |thread| {
            let (told, tell) = mpsc::channel();
            proxy.handle.run_on(thread, move || told.send(locks()).unwrap());
            tell.recv().unwrap()
        };
        of_thread(0) + of_thread(1)
    };
    // What is done once in a while is counted in one of the rounds; what a takeover takes in all of them.
    let mut least = |askers| {
        let round = |_| {
            let before = locks();
            let allocations = counting::counted(|| clients.ask(TAKEOVERS, askers));
            (allocations, locks() - before)
        };
        let rounds: Vec<_> = (0..5).map(round).collect();
        (rounds.iter().map(|round| round.0).min().unwrap(), rounds.iter().map(|round| round.1).min().unwrap())
    };
    // What requests take that find a connection on their thread is theirs.
    let (taken, own) = (least(2), least(1));
    drop(clients);
    assert_eq!(connections.load(Ordering::SeqCst), 1, "it was taken over each time");
    proxy.stop();
    assert!(own.0 <= 2 * TAKEOVERS, "a name and a key at most: {own:?}");
    (taken.0.saturating_sub(own.0), taken.1.saturating_sub(own.1))
}

#[test]
fn a_takeover_allocates_nothing_and_takes_no_lock() {
    support::each_driver(|name, kind| {
        for options in ["", "pool-conn-name str(name)"] {
            let taken = count_with(kind(), options);
            let what = format!("allocations and locks in {TAKEOVERS} takeovers with {name} and '{options}'");
            assert_eq!(taken, (0, 0), "{what}; the first allocation:\n{}", counting::first());
        }
    });
}
