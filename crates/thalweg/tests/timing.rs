//! When things end, in real time: timeouts that are neither early nor doubled, and clients whose going is noticed. The
//! full set of cases is played in virtual time (`crates/proxy/tests/virtual_time.rs`); these are for what only a kernel
//! can show, on both I/O drivers and, where it is installed, beside the reference.

mod support;

use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use support::{Conn, Proxy, Server, Setup, Silent, each_driver};

const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
const POST: &str = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc";
const UPLOAD: &str = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n12345";
const BEGIN: &str = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345";
const ANSWER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
/// More than all buffers on the way hold.
const LARGE: usize = 64 << 20;

/// The limit under test. What takes twice as long is wrong, and a busy machine has all of the time in between.
const LIMIT: Duration = Duration::from_millis(2000);

/// One limit, and what makes it expire.
struct Case {
    name: &'static str,
    mode: &'static str,
    limits: &'static str,
    /// Lines of the frontend.
    front: &'static str,
    /// What follows the server's address; `silent` for one that takes no connection.
    server: &'static str,
    serve: fn(Conn),
    ask: fn(&mut Conn),
    state: &'static str,
}

fn flood(conn: &mut Conn) {
    let block = vec![b'z'; 1 << 20];
    for _ in 0..LARGE >> 20 {
        if conn.try_send(&block).is_err() {
            return;
        }
    }
}

/// Says something each fifth of the limit, until nobody listens.
fn trickle(conn: &mut Conn, what: &str) {
    while conn.try_send(what).is_ok() {
        thread::sleep(LIMIT / 5);
    }
}

fn cases() -> Vec<Case> {
    let case = |name, mode, limits, serve: fn(Conn), ask: fn(&mut Conn), state| Case {
        name,
        mode,
        limits,
        front: "",
        server: "",
        serve,
        ask,
        state,
    };
    vec![
        case(
            "http-request",
            "http",
            "timeout http-request 2s",
            |_| (),
            |c| {
                c.send("GET / HTTP/1.1\r\n");
                let mut twin = c.twin();
                thread::spawn(move || trickle(&mut twin, "a: b\r\n"));
            },
            "cR",
        ),
        Case {
            server: "maxconn 1",
            // Whichever of the two comes second waits, and is logged first.
            ..case(
                "queue",
                "http",
                "timeout queue 2s",
                |mut c| _ = c.ended(),
                |c| {
                    let std::net::SocketAddr::V4(to) = c.peer() else {
                        unreachable!("it listens on 127.0.0.1")
                    };
                    let mut other = Conn::connect(to);
                    other.send(GET);
                    thread::spawn(move || other.ended());
                    c.send(GET);
                },
                "sQ",
            )
        },
        Case {
            server: "silent",
            ..case("connect", "http", "timeout connect 2s", |_| (), |c| c.send(GET), "sC")
        },
        Case {
            front: "http-request tarpit",
            ..case("tarpit", "http", "timeout tarpit 2s", |_| (), |c| c.send(GET), "PT")
        },
        Case {
            front: "tcp-request inspect-delay 2s\ntcp-request content reject if WAIT_END",
            ..case(
                "inspect-delay",
                "tcp",
                "",
                |_| (),
                |c| {
                    let mut twin = c.twin();
                    thread::spawn(move || trickle(&mut twin, "x"));
                },
                "PR",
            )
        },
        case("server", "http", "timeout server 2s", |mut c| _ = c.ended(), |c| c.send(GET), "sH"),
        case(
            "server, a head that trickles",
            "http",
            "timeout server 2s",
            |mut c| {
                c.head();
                c.send("HTTP/1.1 200 OK\r\n");
                trickle(&mut c, "a: b\r\n");
            },
            |c| c.send(GET),
            "sH",
        ),
        case(
            "server, while the client sends more",
            "http",
            "timeout server 2s",
            |mut c| _ = c.ended(),
            |c| {
                c.send(GET);
                let mut twin = c.twin();
                thread::spawn(move || trickle(&mut twin, "x"));
            },
            "sH",
        ),
        case(
            "server that does not take the request",
            "http",
            "timeout server 2s",
            |mut c| {
                c.head();
                thread::sleep(LIMIT * 3);
            },
            |c| {
                let mut twin = c.twin();
                thread::spawn(move || {
                    twin.send(format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {LARGE}\r\n\r\n"));
                    flood(&mut twin);
                });
            },
            "SH",
        ),
        case("client", "http", "timeout client 2s", |mut c| _ = c.ended(), |c| c.send(UPLOAD), "cH"),
        case(
            "client, after an early response",
            "http",
            "timeout client 2s",
            |mut c| {
                c.head();
                c.send(ANSWER);
                c.ended();
            },
            |c| c.send(UPLOAD),
            "cL",
        ),
        case(
            "client that takes nothing",
            "http",
            "timeout client 2s",
            |mut c| {
                c.head();
                c.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n"));
                flood(&mut c);
            },
            |c| c.send(GET),
            "cD",
        ),
        case(
            "response that pauses",
            "http",
            "timeout server 2s",
            |mut c| {
                c.head();
                c.send(BEGIN);
                c.ended();
            },
            |c| c.send(GET),
            "sD",
        ),
        case(
            "both, in TCP",
            "tcp",
            "timeout client 2s\ntimeout server 2s",
            |mut c| _ = c.ended(),
            |_| (),
            "cD",
        ),
        case(
            "client that takes nothing, in TCP",
            "tcp",
            "timeout client 2s",
            |mut c| flood(&mut c),
            |_| (),
            "cD",
        ),
        case(
            "server that takes nothing, in TCP",
            "tcp",
            "timeout server 2s",
            |_c| thread::sleep(LIMIT * 3),
            |c| {
                let mut twin = c.twin();
                thread::spawn(move || flood(&mut twin));
            },
            "sD",
        ),
        case("tunnel", "tcp", "timeout tunnel 2s", |mut c| _ = c.ended(), |_| (), "cD"),
        case(
            "server-fin",
            "tcp",
            "timeout server-fin 2s",
            |mut c| {
                c.ended();
                thread::sleep(LIMIT * 3);
            },
            |c| c.half_close(),
            "sD",
        ),
        case(
            "client-fin",
            "tcp",
            "timeout client-fin 2s",
            |mut c| {
                c.half_close();
                c.ended();
            },
            |_| (),
            "cD",
        ),
    ]
}

/// Plays a case. The state in the log line, and how long it was in coming.
fn play(case: &Case, io: &'static str, reference: Option<&std::path::Path>) -> (String, Duration) {
    let serve = case.serve;
    let server = Server::start(move |conn, _| serve(conn));
    let nobody = Silent::start();
    let (addr, options) =
        if case.server == "silent" { (nobody.addr, "") } else { (server.addr, case.server) };
    let text = format!(
        "frontend fe\nbind <@fe>\nlog-format %ts\n{}\ndefault_backend be\nbackend be\nretries 0\nserver s {addr} {options}\n",
        case.front
    );
    let setup = if case.mode == "http" { Setup::http(&text) } else { Setup::tcp(&text) };
    let mut setup = setup.defaults(case.limits);
    if let Some(file) = reference {
        setup = setup.program(file);
    }
    let proxy = setup.start(io);
    let began = Instant::now();
    let mut conn = proxy.connect();
    (case.ask)(&mut conn);
    let state = proxy.log();
    let took = began.elapsed();
    drop((conn, proxy, server));
    (state, took)
}

#[test]
fn limits_are_neither_early_nor_doubled() {
    let reference = support::reference();
    each_driver(|io| {
        thread::scope(|scope| {
            for case in cases() {
                let reference = reference.as_deref();
                scope.spawn(move || {
                    let (state, took) = play(&case, io, None);
                    assert_eq!(state, case.state, "{} with {io}", case.name);
                    assert!(took >= LIMIT, "{} with {io}: after {took:?}", case.name);
                    assert!(took < LIMIT * 19 / 10, "{} with {io}: after {took:?}", case.name);
                    if let (Some(file), "epoll") = (reference, io) {
                        let (theirs, _) = play(&case, io, Some(file));
                        assert_eq!(theirs, case.state, "{} with the reference", case.name);
                    }
                });
            }
        });
    });
}

/// How long the proxy of a case waits between two requests of a client.
fn kept(io: &'static str, reference: Option<&std::path::Path>) -> Duration {
    let server = Server::named("s");
    let text = format!("listen l\nbind <@fe>\nserver s {}\n", server.addr);
    let mut setup = Setup::http(&text).defaults("timeout http-keep-alive 2s");
    if let Some(file) = reference {
        setup = setup.program(file);
    }
    let proxy = setup.start(io);
    let mut conn = proxy.connect();
    let began = Instant::now();
    conn.send(GET);
    conn.response();
    conn.ended();
    let took = began.elapsed();
    drop((conn, proxy, server));
    took
}

/// How long a health check waits for its answer.
fn checked(io: &'static str, reference: Option<&std::path::Path>) -> Duration {
    let (sender, told) = mpsc::channel();
    let sender = Mutex::new(sender);
    let server = Server::start(move |mut conn, _| {
        let began = Instant::now();
        conn.ended();
        // Later checks are of no interest.
        let _ = sender.lock().unwrap().send(began.elapsed());
    });
    let text = format!(
        "listen l\nbind <@fe>\noption httpchk\ntimeout check 2s\nserver s {} check inter 100ms\n",
        server.addr
    );
    let mut setup = Setup::http(&text);
    if let Some(file) = reference {
        setup = setup.program(file);
    }
    let proxy = setup.start(io);
    let took = told.recv().unwrap();
    drop((proxy, server));
    took
}

#[test]
fn kept_connections_and_checks_end_in_time() {
    let reference = support::reference();
    each_driver(|io| {
        for (name, wait) in [("http-keep-alive", kept as fn(_, _) -> _), ("check", checked)] {
            let took = wait(io, None);
            // The server of a check begins to count when it gets its turn.
            assert!(took >= LIMIT / 2, "{name} with {io}: after {took:?}");
            assert!(took < LIMIT * 19 / 10, "{name} with {io}: after {took:?}");
            if let (Some(file), "epoll") = (reference.as_deref(), io) {
                let theirs = wait(io, Some(file));
                assert!(theirs < LIMIT * 19 / 10, "{name} with the reference: after {theirs:?}");
            }
        }
    });
}

/// A proxy that would wait for an hour, with one connection at a time to its server.
fn patient(server: &Server, more: &str) -> Setup {
    Setup::http(&format!(
        "frontend fe\nbind <@fe>\nlog-format \"%ts %ST\"\ndefault_backend be\n\
         backend be\nretries 0\nserver s {} maxconn 1\n",
        server.addr
    ))
    .defaults("timeout client 1h\ntimeout server 1h\ntimeout queue 1h")
    .defaults(more)
}

/// A server that tells when it has read a head and said its part, and when the proxy left.
fn telling(says: &'static str) -> (mpsc::Receiver<&'static str>, Server) {
    let (sender, told) = mpsc::channel();
    let sender = Mutex::new(sender);
    let server = Server::start(move |mut conn, _| {
        conn.head();
        if !says.is_empty() {
            conn.send(says);
        }
        let tell = |what| _ = sender.lock().unwrap().send(what);
        tell("asked");
        conn.ended();
        tell("left");
    });
    (told, server)
}

fn leave(proxy: &Proxy, request: &str, reads: &str, how: &str, told: &mpsc::Receiver<&'static str>) {
    let mut conn = proxy.connect();
    conn.send(request);
    assert_eq!(told.recv().unwrap(), "asked");
    if !reads.is_empty() {
        conn.until(reads.as_bytes());
    }
    match how {
        "end" => conn.half_close(),
        "close" => {}
        _ => conn.reset_when_dropped(),
    }
    if how != "end" {
        drop(conn);
        assert_eq!(told.recv().unwrap(), "left");
        return;
    }
    assert_eq!(told.recv().unwrap(), "left");
    conn.ended();
}

#[test]
fn clients_that_leave_are_noticed() {
    let two = format!("{GET}{GET}");
    let post_and_more = format!("{POST}GET / HTTP/1.1\r\n");
    each_driver(|io| {
        for (says, reads, phase) in [("", "", 'H'), (BEGIN, "12345", 'D')] {
            for request in [GET, POST, &two, &post_and_more] {
                for how in ["end", "close", "reset"] {
                    let (told, server) = telling(says);
                    let proxy = patient(&server, "").start(io);
                    leave(&proxy, request, reads, how, &told);
                    let status = if phase == 'H' { 400 } else { 200 };
                    let phase = if how == "reset" { 'D' } else { phase };
                    assert_eq!(proxy.log(), format!("C{phase} {status}"), "{request:?} {how} with {io}");
                    // The slot is free: the next one is served at once.
                    let mut conn = proxy.connect();
                    conn.send(GET);
                    assert_eq!(told.recv().unwrap(), "asked");
                    drop((conn, proxy, server));
                }
            }
        }
    });
}

/// A client that sends more ahead than is received from it hides nothing either.
#[test]
fn a_client_that_leaves_behind_much_that_it_sent() {
    let many = GET.repeat(40_000);
    each_driver(|io| {
        let (told, server) = telling("");
        let proxy = patient(&server, "").start(io);
        let mut conn = proxy.connect();
        let mut twin = conn.twin();
        let sending = many.clone();
        // What does not fit into the buffers on the way is lost with the connection.
        let sender = thread::spawn(move || _ = twin.try_send(sending));
        assert_eq!(told.recv().unwrap(), "asked");
        conn.reset_when_dropped();
        conn.half_close();
        let _ = sender.join();
        drop(conn);
        assert_eq!(told.recv().unwrap(), "left");
        assert!(proxy.log().starts_with('C'), "with {io}");
        drop((proxy, server));
    });
}

/// Whoever leaves a queue makes room in it, also with requests behind the one that waits.
#[test]
fn clients_that_leave_a_queue_are_noticed() {
    each_driver(|io| {
        for request in [GET, POST, &format!("{GET}{GET}")] {
            let (told, server) = telling("");
            let proxy = patient(&server, "").start(io);
            let mut first = proxy.connect();
            first.send(GET);
            assert_eq!(told.recv().unwrap(), "asked");
            let mut second = proxy.connect();
            second.send(request);
            second.half_close();
            assert!(second.ended().is_empty());
            assert_eq!(proxy.log(), "CQ -1", "{request:?} with {io}");
            drop((first, second, proxy, server));
        }
    });
}

/// A client that goes on uploading although it was answered is read from so that it gets the answer, but not for ever.
#[test]
fn a_client_that_uploads_without_end() {
    const HEAD: &str = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000000\r\n\r\n";
    each_driver(|io| {
        for rule in ["", "http-request deny"] {
            let server = Server::start(|mut conn, _| {
                conn.head();
                conn.send("HTTP/1.1 413 No\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno");
                // What it still sends is not read.
                thread::sleep(LIMIT);
            });
            let text = format!("listen l\nbind <@fe>\n{rule}\nserver s {}\n", server.addr);
            let proxy = Setup::http(&text).defaults("timeout client 1h\ntimeout server 1h").start(io);
            let mut conn = proxy.connect();
            conn.send(HEAD);
            let mut twin = conn.twin();
            let uploading = thread::spawn(move || {
                let piece = [b'x'; 1024];
                // Half a minute.
                (0..3000).any(|_| {
                    thread::sleep(Duration::from_millis(10));
                    twin.try_send(piece).is_err()
                })
            });
            let response = conn.response();
            assert_eq!(response.status, if rule.is_empty() { 413 } else { 403 }, "with {io}");
            assert!(uploading.join().unwrap(), "{rule:?} with {io}: it could upload for ever");
            drop((conn, proxy, server));
        }
    });
}
