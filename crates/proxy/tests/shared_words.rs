//! What a request on a kept connection writes that other threads write, too: nothing, but for the words of the balancer
//! that ARCHITECTURE.md lists. Atomics and locks of the data path come through `thalweg_shared`, which counts in
//! builds with debug assertions.

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use thalweg_runtime::driver::{Driver, DriverKind, DriverOptions};
use thalweg_shared::writes;

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

/// Lines of a configuration, and how many words that other threads write a request may write with them.
struct Case<'a> {
    sections: &'a str,
    frontend: &'a str,
    backend: &'a str,
    servers: usize,
    options: &'a str,
    allowed: u64,
}

const PLAIN: Case = Case { sections: "", frontend: "", backend: "", servers: 1, options: "", allowed: 0 };

/// The writes of [`REQUESTS`] requests.
fn writes_of(kind: DriverKind, case: &Case<'_>) -> u64 {
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
        "global\n log {} local0\n{}\ndefaults\n mode http\n log global\n option httplog\n timeout client 20s\n \
         timeout server 20s\n timeout connect 20s\nfrontend fe\n bind 127.0.0.1:1\n option socket-stats\n {}\n \
         default_backend be\nbackend be\n {}\n",
        log.local_addr().unwrap(),
        case.sections,
        case.frontend,
        case.backend
    );
    for n in 0..case.servers {
        text.push_str(&format!(" server s{n} {server_addr} {}\n", case.options));
    }
    let settings = thalweg_runtime::Config { driver: kind, ..thalweg_runtime::Config::default() };
    let proxy = support::start(&text, settings, || {});
    let count = || {
        let (told, tell) = mpsc::channel();
        proxy.handle.run_on(0, move || told.send(writes()).unwrap());
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

/// What is written per request, for each row of the table in ARCHITECTURE.md that a request can come to.
fn cases(map: &str) -> Vec<(String, Case<'static>)> {
    let backend = |backend, servers, options, allowed| Case { backend, servers, options, allowed, ..PLAIN };
    let frontend = |frontend, allowed| Case { frontend, allowed, ..PLAIN };
    let maps = format!(
        "acl listed path_beg -M -f {map}\n http-request set-header x-map %[path,map_beg({map},none)] unless listed\n \
         http-request set-header x-listed yes if listed"
    );
    let cases = [
        PLAIN,
        backend("balance uri", 3, "", 0),
        backend("balance uri\nhash-type consistent", 3, "", 0),
        backend("balance roundrobin", 1, "", 0),
        // Whose turn it is.
        backend("balance roundrobin", 3, "", 1),
        backend("balance static-rr", 3, "", 1),
        // The server's load, at the beginning and at the end.
        backend("balance random", 3, "", 2),
        backend("balance first", 3, "", 2),
        backend("balance roundrobin", 1, "maxconn 10", 2),
        // The same, each time with a ticket, the rank beside the load, and the path to the root of the tournament: two matches of
        // three servers.
        backend("balance leastconn", 3, "", 2 * (1 + 1 + 1 + 2)),
        // Expressions, variables of this request and of its client, captures, maps and lists.
        frontend(
            "http-request set-var(txn.p) path,lower,sha2(256),hex\n http-request set-var(sess.s) src\n \
             http-request set-header x-p %[var(txn.p)]%[var(sess.s)]%[rand(9)]\n unique-id-format %{+X}o%ci%rt\n \
             unique-id-header x-id\n capture request header host len 20\n \
             http-response set-header x-r %[res.fhdr(content-length),add(1)] if { path_reg ^/p }",
            0,
        ),
        frontend(maps.leak(), 0),
        // A variable of the process: its lock is taken to write, and to read.
        frontend("http-request set-var(proc.p) int(3)\n http-request set-header x-p %[var(proc.p)]", 2),
        // What the variables take, where that is limited: at each level, at the beginning and at the end.
        Case {
            sections: "tune.vars.global-max-size 100000\n tune.vars.sess-max-size 50000\n tune.vars.txn-max-size 20000",
            ..frontend("http-request set-var(txn.p) path", 2 * 3)
        },
        // The ring's lock.
        Case {
            sections: "ring r\n size 65536\n format rfc5424",
            ..frontend("log ring@r format raw local0", 1)
        },
        // The position of the sample.
        frontend("log 127.0.0.1:9 sample 1:1000 local0", 1),
        // Words of the entry: its use at the beginning and at the end, its time, and each of what is counted.
        Case {
            sections: "backend st\n stick-table type ip size 100 expire 1m store gpc(1),http_req_cnt",
            ..frontend("http-request track-sc0 src table st\n http-request sc-inc-gpc(0,0)", 7)
        },
    ];
    let named = |case: Case<'static>| {
        let Case { sections, frontend, backend, servers, options, .. } = &case;
        let name = format!("{sections:?} {frontend:?} {backend:?}, {servers} servers {options}");
        (name, case)
    };
    cases.map(named).into()
}

#[test]
fn a_request_writes_no_word_that_other_threads_write() {
    if !cfg!(debug_assertions) {
        eprintln!("skipped: this build does not count");
        return;
    }
    let map = std::env::temp_dir().join(format!("thalweg-shared-words-{}", std::process::id()));
    std::fs::write(&map, "/pa yes\n/other no\n").unwrap();
    let cases = cases(map.to_str().unwrap());
    #[allow(clippy::type_complexity)] // A table of cases.
    let drivers: [(&str, fn() -> DriverKind); 2] =
        [("epoll", || DriverKind::Epoll), ("io_uring", || DriverKind::Uring)];
    let mut failures = Vec::new();
    for (driver, kind) in drivers {
        if let Err(error) = Driver::new(kind(), &DriverOptions::default()) {
            eprintln!("skipped with {driver}, which this kernel does not allow: {error}");
            continue;
        }
        for (name, case) in &cases {
            let writes = writes_of(kind(), case);
            // Once per second, and once per some thousand streams, a little more is written.
            let spare = REQUESTS as u64 / 2;
            if writes > case.allowed * REQUESTS as u64 + spare {
                failures.push(format!("{writes} writes in {REQUESTS} requests with {driver}: {name}"));
            }
        }
    }
    let _ = std::fs::remove_file(map);
    assert!(failures.is_empty(), "{failures:#?}");
}

/// The crates whose code runs while a request is served.
const DATA_PATH: [&str; 15] = [
    "balance", "check", "config", "dns", "h1", "h2", "http", "live", "operate", "proxy", "rules", "runtime",
    "sample", "stick", "tls",
];

/// Atomics and locks that do not count would not be noticed above.
#[test]
fn shared_words_come_through_the_module_that_counts() {
    // Who may use the standard library's, and why.
    let exceptions = [
        ("proxy/src/counters.rs", "written by their own thread only"),
        ("proxy/src/counters/counter.rs", "likewise"),
        ("proxy/src/plant.rs", "for tests"),
        ("balance/src/sync.rs", "the door of its crate"),
        ("live/src/sync.rs", "the door of its crate"),
        ("runtime/src/buffer/ring.rs", "written for the kernel"),
        ("runtime/src/driver/sim/mod.rs", "the simulated network"),
        ("runtime/src/plant.rs", "for tests"),
        ("runtime/src/pool.rs", "written by their own thread only"),
        ("runtime/src/profile/mod.rs", "written by their own thread only"),
        ("runtime/src/profile/activity.rs", "written by their own thread only; this reads them"),
        ("runtime/src/profile/rows.rs", "per command"),
    ];
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    let mut folders: Vec<_> = DATA_PATH.iter().map(|name| crates.join(name).join("src")).collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.extend(Some(path).filter(|path| !path.ends_with("tests")));
                continue;
            }
            let name = path.strip_prefix(crates).unwrap().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("\nmod tests ").next().unwrap_or_default();
            let mut uses =
                code.match_indices("std::sync").map(|(at, _)| code[at..].split(';').next().unwrap_or(""));
            if uses
                .any(|used| ["Atomic", "Mutex", "RwLock", "Condvar"].iter().any(|what| used.contains(what)))
                && !exceptions.iter().any(|(known, _)| *known == name)
            {
                found.push(name);
            }
        }
    }
    assert_eq!(found, [""; 0], "these use atomics or locks that are not counted");
}
