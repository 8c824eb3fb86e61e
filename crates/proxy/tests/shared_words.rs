//! What a request on a kept connection writes that other threads write, too: nothing, but for the words of the balancer
//! that ARCHITECTURE.md lists. Atomics and locks of the data path come through `thalweg_balance::sync`, which counts in
//! builds with debug assertions.

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use thalweg_balance::sync::shared_writes;
use thalweg_runtime::driver::{Driver, DriverKind, DriverOptions};

const REQUESTS: usize = 500;

/// Answers every head.
fn serve(mut stream: TcpStream) {
    let mut head = Vec::new();
    let mut part = [0u8; 4096];
    while let Ok(n) = stream.read(&mut part) {
        if n == 0 {
            return;
        }
        head.extend_from_slice(&part[..n]);
        if head.ends_with(b"\r\n\r\n") {
            head.clear();
            if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_err() {
                return;
            }
        }
    }
}

fn exchange(client: &mut TcpStream, log: &UdpSocket, times: usize) {
    let mut part = [0u8; 4096];
    for _ in 0..times {
        client.write_all(b"GET /path HTTP/1.1\r\nHost: www.example.com\r\n\r\n").unwrap();
        let mut received = Vec::new();
        while !received.ends_with(b"\r\n\r\nok") {
            let n = client.read(&mut part).unwrap();
            assert!(n > 0, "the proxy closed");
            received.extend_from_slice(&part[..n]);
        }
        assert!(received.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&received));
        log.recv(&mut part).unwrap();
    }
}

/// The writes of [`REQUESTS`] requests with these lines in the backend.
fn writes_of(kind: DriverKind, lines: &str, servers: usize, options: &str) -> u64 {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let server_addr = server.local_addr().unwrap();
    thread::spawn(move || {
        while let Ok((stream, _)) = server.accept() {
            thread::spawn(move || serve(stream));
        }
    });
    let log = UdpSocket::bind("127.0.0.1:0").unwrap();
    log.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut text = format!(
        "global\n log {} local0\ndefaults\n mode http\n log global\n option httplog\n timeout client 20s\n timeout server 20s\n \
         timeout connect 20s\nfrontend fe\n bind 127.0.0.1:1\n option socket-stats\n default_backend be\nbackend be\n {lines}\n",
        log.local_addr().unwrap()
    );
    for n in 0..servers {
        text.push_str(&format!(" server s{n} {server_addr} {options}\n"));
    }
    let settings = thalweg_runtime::Config { driver: kind, ..thalweg_runtime::Config::default() };
    let proxy = support::start(&text, settings, || {});
    let count = || {
        let (told, tell) = mpsc::channel();
        proxy.handle.run_on(0, move || told.send(shared_writes()).unwrap());
        tell.recv().unwrap()
    };
    let mut client = support::connect(proxy.addr);
    exchange(&mut client, &log, 20);
    let before = count();
    exchange(&mut client, &log, REQUESTS);
    let writes = count() - before;
    drop(client);
    proxy.stop();
    writes
}

#[test]
fn a_request_writes_no_word_that_other_threads_write() {
    if !cfg!(debug_assertions) {
        eprintln!("skipped: this build does not count");
        return;
    }
    // Backend, servers, their options, and the words that a request may write.
    let cases = [
        ("", 1, "", 0),
        ("balance uri", 3, "", 0),
        ("balance uri\nhash-type consistent", 3, "", 0),
        ("balance roundrobin", 1, "", 0),
        // Whose turn it is.
        ("balance roundrobin", 3, "", 1),
        ("balance static-rr", 3, "", 1),
        // The server's load, at the beginning and at the end.
        ("balance random", 3, "", 2),
        ("balance first", 3, "", 2),
        ("balance roundrobin", 1, "maxconn 10", 2),
        // The same, each time with a ticket, and the path to the root of the tournament: two matches of three servers.
        ("balance leastconn", 3, "", 2 * (1 + 1 + 2)),
    ];
    #[allow(clippy::type_complexity)] // A table of cases.
    let drivers: [(&str, fn() -> DriverKind); 2] =
        [("epoll", || DriverKind::Epoll), ("io_uring", || DriverKind::Uring)];
    for (name, kind) in drivers {
        if let Err(error) = Driver::new(kind(), &DriverOptions::default()) {
            eprintln!("skipped with {name}, which this kernel does not allow: {error}");
            continue;
        }
        for (lines, servers, options, allowed) in cases {
            let writes = writes_of(kind(), lines, servers, options);
            // Once per second, and once per some thousand streams, a little more is written.
            let spare = REQUESTS as u64 / 2;
            assert!(
                writes <= allowed * REQUESTS as u64 + spare,
                "{writes} writes in {REQUESTS} requests with {name}: {lines:?}, {servers} servers {options}"
            );
        }
    }
}

/// Atomics and locks that do not count would not be noticed above.
#[test]
fn shared_words_come_through_the_module_that_counts() {
    // Who may use the standard library's, and why.
    let exceptions = [
        ("proxy/src/counters.rs", "written by their own thread only"),
        ("proxy/src/plant.rs", "for tests"),
        ("proxy/src/instance.rs", "a lock of variables of the process, which the expressions' crate defines"),
        ("proxy/src/world.rs", "the same"),
        ("balance/src/sync.rs", "it is the module"),
    ];
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    let mut folders = vec![crates.join("proxy/src"), crates.join("balance/src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(crates).unwrap().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            let uses = text.lines().filter(|line| line.contains("std::sync")).filter(|line| {
                ["Atomic", "Mutex", "RwLock", "Condvar"].iter().any(|what| line.contains(what))
            });
            if uses.count() > 0 && !exceptions.iter().any(|(known, _)| *known == name) {
                found.push(name);
            }
        }
    }
    assert_eq!(found, [""; 0], "these use atomics or locks that are not counted");
}
