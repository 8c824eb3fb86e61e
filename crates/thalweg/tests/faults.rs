//! Faults of servers, clients and of the machine: each ends with the right status and log line, leaves no descriptor
//! and no work behind, and the next request is served.

mod support;

use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use thalweg_sys::signal::Signal;

use support::{Conn, Io, PATIENCE, Proxy, Server, Setup, each_driver, eventually, ok};

const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
const POST: &str = "POST /f HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n12345";

/// A proxy of two threads before a server that answers `/` as it should and does `fault` for everything else.
fn with_fault(io: Io, more: &str, fault: impl Fn(&mut Conn) + Send + Sync + 'static) -> (Proxy, Server) {
    let server = Server::start(move |mut conn, _| {
        loop {
            let Some(head) = conn.next_head() else { return };
            if head.line.contains(" / ") {
                if conn.try_send(ok("fine")).is_err() {
                    return;
                }
            } else {
                return fault(&mut conn);
            }
        }
    });
    let text = format!(
        "frontend fe\nbind <@fe>\n{more}\ndefault_backend be\nbackend be\nretries 1\noption abortonclose\nserver s {}\n",
        server.addr
    );
    let proxy = Setup::http(&text).defaults("option http-server-close").threads(2).start(io);
    (proxy, server)
}

/// Serves one request, runs the fault many times, and expects everything to be as it was.
fn survives(proxy: &Proxy, mut fault: impl FnMut()) {
    let served = |proxy: &Proxy| assert_eq!(proxy.ask(GET).text(), "fine");
    served(proxy);
    fault();
    let before = proxy.descriptors();
    for _ in 0..20 {
        fault();
    }
    proxy.descriptors_back_to(before);
    served(proxy);
    proxy.is_idle();
}

#[test]
fn servers_that_fail_in_the_head() {
    each_driver(|io| {
        #[allow(clippy::type_complexity)] // A table of cases.
        let faults: [(&str, fn(&mut Conn)); 4] = [
            ("closes", |_| {}),
            ("resets", |conn| conn.reset_when_dropped()),
            ("resets in the head", |conn| {
                conn.send("HTTP/1.1 200 OK\r\nX");
                conn.reset_when_dropped();
            }),
            ("talks nonsense", |conn| conn.send("nonsense\r\n\r\n")),
        ];
        for (what, fault) in faults {
            let (proxy, server) = with_fault(io, "", fault);
            survives(&proxy, || {
                assert_eq!(proxy.ask("GET /f HTTP/1.1\r\nHost: h\r\n\r\n").status, 502, "{what}")
            });
            survives(&proxy, || assert_eq!(proxy.ask(POST).status, 502, "{what}"));
            proxy.finish(server);
        }
    });
}

#[test]
fn servers_that_fail_in_the_body() {
    each_driver(|io| {
        let faults: [fn(&mut Conn); 4] = [
            |conn| conn.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345"),
            |conn| {
                conn.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345");
                conn.reset_when_dropped();
            },
            |conn| conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"),
            |conn| conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n"),
        ];
        for fault in faults {
            let (proxy, server) = with_fault(io, "", fault);
            survives(&proxy, || {
                let mut conn = proxy.connect();
                conn.send("GET /f HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
                let got = String::from_utf8_lossy(&conn.ended()).into_owned();
                // The client can tell that something is missing.
                assert!(!got.ends_with("0\r\n\r\n"), "{got}");
            });
            proxy.finish(server);
        }
    });
}

#[test]
fn an_idle_connection_closed_as_it_is_used() {
    each_driver(|io| {
        let closed = std::sync::Arc::new(AtomicUsize::new(0));
        let counted = std::sync::Arc::clone(&closed);
        let server = Server::start(move |mut conn, _| {
            // Answers once, and closes when the next request has come: it was on its way when the server gave up.
            conn.head();
            conn.send(ok("fine"));
            if conn.next_head().is_some() {
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        let text =
            format!("frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nserver s {}\n", server.addr);
        let proxy = Setup::http(&text).start(io);
        let mut conn = proxy.connect();
        for _ in 0..5 {
            conn.send(GET);
            assert_eq!(conn.response().text(), "fine");
        }
        assert!(closed.load(Ordering::SeqCst) >= 4);
        drop(conn);
        proxy.finish(server);
    });
}

#[test]
fn clients_that_disappear() {
    each_driver(|io| {
        let (sender, reached) = mpsc::channel();
        let sender = std::sync::Mutex::new(sender);
        let (proxy, server) = with_fault(io, "", move |conn| {
            sender.lock().unwrap().send(()).unwrap();
            let _ = conn.try_send("HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n");
            while conn.try_send([0; 16384]).is_ok() {}
        });
        survives(&proxy, || drop(proxy.connect()));
        survives(&proxy, || proxy.connect().send("GET / HT"));
        survives(&proxy, || {
            let mut conn = proxy.connect();
            conn.send("GET /");
            conn.reset();
        });
        // In the request's body, and in the response's.
        for request in [POST, "GET /f HTTP/1.1\r\nHost: h\r\n\r\n"] {
            for reset in [false, true] {
                survives(&proxy, || {
                    let mut conn = proxy.connect();
                    conn.send(request);
                    reached.recv().unwrap();
                    if reset { conn.reset() } else { drop(conn) }
                });
            }
        }
        proxy.finish(server);
    });
}

/// Nothing but what the peers do may end these connections: every timeout is longer than the test.
#[test]
fn crowds_that_leave_in_the_middle_of_something() {
    each_driver(|io| {
        let server = Server::start(|mut conn, number| {
            while let Some(head) = conn.next_head() {
                conn.send(ok("fine"));
                if head.line.contains("/last") {
                    if number % 2 == 0 {
                        conn.reset_when_dropped();
                    }
                    return;
                }
            }
        });
        let text = format!(
            "frontend fe\nbind <@fe>\nbind <@dir>/fe\ndefault_backend be\nbackend be\nserver s {}\n",
            server.addr
        );
        let proxy = Setup::http(&text)
            .defaults(
                "timeout client 1h\ntimeout server 1h\ntimeout http-request 1h\ntimeout http-keep-alive 1h",
            )
            .threads(2)
            .start(io);
        let before = proxy.descriptors();
        let addr = proxy.addr("fe");
        let path = proxy.path("fe");
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let path = &path;
                scope.spawn(move || {
                    for i in 0..150 {
                        let tcp = (i + thread) % 4 != 0;
                        let mut conn = if tcp { Conn::connect(addr) } else { Conn::connect_unix(path) };
                        // Some were served before, and some of those by a server connection that ends with its answer.
                        for served in 0..i % 4 {
                            let last = if served == 1 { "/last" } else { "/" };
                            if conn.try_send(format!("GET {last} HTTP/1.1\r\nHost: h\r\n\r\n")).is_err() {
                                break;
                            }
                            assert!(matches!(conn.response().status, 200));
                        }
                        let _ = conn.try_send(["GET / HT", "GET / HTTP/1.1\r\nHost: h", ""][i % 3]);
                        if i % 5 != 0 {
                            conn.reset_when_dropped();
                        }
                    }
                });
            }
        });
        assert_eq!(proxy.ask(GET).text(), "fine");
        // The connections that wait for more work end, too.
        drop(server);
        proxy.descriptors_back_to(before);
        proxy.finish(());
    });
}

#[test]
fn clients_that_leave_the_queue_or_a_thinking_server() {
    each_driver(|io| {
        let (sender, reached) = mpsc::channel();
        let sender = std::sync::Mutex::new(sender);
        let server = Server::start(move |mut conn, _| {
            while let Some(head) = conn.next_head() {
                if head.line.contains(" / ") {
                    // Its client may have left meanwhile.
                    if conn.try_send(ok("fine")).is_err() {
                        return;
                    }
                } else {
                    sender.lock().unwrap().send(()).unwrap();
                    conn.ended();
                    return;
                }
            }
        });
        let text = format!(
            "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\noption abortonclose\nserver s {} maxconn 1\n",
            server.addr
        );
        let proxy = Setup::http(&text).defaults("option http-server-close").threads(2).start(io);
        survives(&proxy, || {
            let mut thinking = proxy.connect();
            thinking.send("GET /f HTTP/1.1\r\nHost: h\r\n\r\n");
            reached.recv().unwrap();
            let mut waiting: Vec<_> = (0..5).map(|_| proxy.connect()).collect();
            for conn in &mut waiting {
                conn.send(GET);
            }
            // Some leave before their turn; the others get it when the first one gives up.
            waiting.truncate(3);
            drop(thinking);
            for conn in &mut waiting {
                assert_eq!(conn.response().text(), "fine");
            }
        });
        proxy.finish(server);
    });
}

/// A client that only ends its direction may wait for its response; one that resets its connection after that does not.
#[test]
fn a_reset_behind_the_end_of_a_direction_ends_the_exchange() {
    each_driver(|io| {
        let (sender, told) = mpsc::channel();
        let sender = std::sync::Mutex::new(sender);
        let server = Server::start(move |mut conn, _| {
            let tell = |what| sender.lock().unwrap().send(what).unwrap();
            conn.request();
            tell("was asked");
            conn.ended();
            tell("is not asked any more");
        });
        let text = format!("listen fe\nbind <@fe>\nno option abortonclose\nserver s {}\n", server.addr);
        let proxy = Setup::http(&text).defaults("timeout server 10m").start(io);
        let mut conn = proxy.connect();
        conn.send(GET);
        conn.half_close();
        assert_eq!(told.recv_timeout(PATIENCE), Ok("was asked"), "{io}");
        // The end is known by now, and nothing else is to be done.
        proxy.is_idle();
        conn.reset();
        assert_eq!(told.recv_timeout(PATIENCE), Ok("is not asked any more"), "{io}");
        proxy.finish(server);
    });
}

#[test]
fn no_files_are_left() {
    each_driver(|io| {
        let server = Server::named("fine");
        let text =
            format!("frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nserver s {}\n", server.addr);
        let proxy = Setup::http(&text)
            .global("no strict-limits\nmaxconn 1000")
            .defaults("option http-server-close")
            .files(64)
            .start(io);
        assert_eq!(proxy.ask(GET).text(), "fine");
        let before = proxy.descriptors();
        let mut crowd: Vec<Conn> = (0..100).map(|_| proxy.connect()).collect();
        eventually("all files are used", || (open_files(&proxy) >= 60).then_some(()));
        // Whoever was not accepted waits in the backlog, and is served once there is room. One that was accepted
        // when no file was left for its server is told so.
        for conn in &mut crowd {
            let _ = conn.try_send(GET);
        }
        proxy.is_idle();
        while let Some(mut conn) = crowd.pop() {
            if crowd.len() < 40 {
                let status = conn.response().status;
                assert!(status == 200 || status == 503, "{status}");
            }
        }
        proxy.descriptors_back_to(before);
        assert_eq!(proxy.ask(GET).text(), "fine");
        proxy.finish(server);
    });
}

/// With a limit of memory (`-m`), clients that take all of it do not end the process. Who comes then waits, and is served once
/// they are gone; and the process can still be told to end.
#[test]
fn no_memory_is_left() {
    let head = format!("GET / HTTP/1.1\r\nHost: h\r\n{}", format!("X-Y: {}\r\n", "y".repeat(143)).repeat(95));
    each_driver(|io| {
        let server = Server::named("fine");
        let text =
            format!("frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nserver s {}\n", server.addr);
        let mut proxy = Setup::http(&text)
            .global("maxconn 8000\nstats socket <@dir>/cli level admin")
            .defaults("option http-server-close\ntimeout client 1h\ntimeout http-request 1h")
            .argument("-m")
            .argument("40")
            .start(io);
        // Nothing is answered for lack of a buffer, or it is said that there were failures.
        let failures = || {
            let mut cli = Conn::connect_unix(&proxy.path("cli"));
            let info = cli.try_send("show info\n").ok().and_then(|()| cli.try_until(b"\n\n"))?;
            let info = String::from_utf8_lossy(&info).into_owned();
            assert!(info.contains("Memmax_MB: 40\n"), "{info}");
            let failed = info.lines().find_map(|line| line.strip_prefix("PoolFailed: ")).unwrap();
            Some(failed.parse::<u64>().unwrap())
        };
        assert_eq!(proxy.ask(GET).text(), "fine");
        let before = proxy.descriptors();
        assert_eq!(failures(), Some(0));
        let mut crowd = Vec::new();
        while failures() == Some(0) {
            assert!(crowd.len() < 6000, "there is more memory than that");
            for _ in 0..50 {
                let mut conn = proxy.connect();
                let _ = conn.try_send(&head);
                crowd.push(conn);
            }
            proxy.is_idle();
        }
        // More of the same does no harm.
        for _ in 0..200 {
            let mut conn = proxy.connect();
            let _ = conn.try_send(&head);
            crowd.push(conn);
        }
        proxy.is_idle();
        let mut late = proxy.connect();
        late.send(GET);
        drop(crowd);
        assert_eq!(late.response().text(), "fine");
        drop(late);
        proxy.descriptors_back_to(before);
        assert_eq!(proxy.ask(GET).text(), "fine");
        proxy.signal(Signal::Terminate);
        assert_eq!(proxy.end(), (None, Some(15)), "{}", proxy.output());
    });
}

fn open_files(proxy: &Proxy) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", proxy.id())).unwrap().count()
}

/// Listening sockets that all threads share take two files each at most, however many threads there are: what the limit of
/// files has room for is computed from that.
#[test]
fn listeners_take_few_files() {
    const LISTENERS: usize = 200;
    each_driver(|io| {
        let binds: String = (0..LISTENERS).map(|n| format!("bind <@p{n}>\n")).collect();
        let proxy =
            Setup::http(&format!("frontend f\n{binds}http-request return status 200")).threads(4).start(io);
        // All of them are served, so that threads listen.
        for n in 0..LISTENERS {
            let mut client = Conn::connect(proxy.addr(&format!("p{n}")));
            client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
            assert_eq!(client.response().status, 200);
        }
        let open = open_files(&proxy);
        assert!(open < 2 * LISTENERS + 100, "{open} files for {LISTENERS} listeners with {io}");
    });
}

#[test]
fn connection_limits() {
    each_driver(|io| {
        for (what, global, frontend, bind) in [
            ("process", "maxconn 2", "", ""),
            ("frontend", "", "maxconn 2", ""),
            ("listener", "", "", "maxconn 2"),
        ] {
            let server = Server::named("fine");
            let text = format!(
                "frontend fe\nbind <@fe> {bind}\n{frontend}\ndefault_backend be\nbackend be\nserver s {}\n",
                server.addr
            );
            let proxy = Setup::http(&text).global(global).threads(2).start(io);
            let mut inside: Vec<_> = (0..2).map(|_| proxy.connect()).collect();
            for conn in &mut inside {
                conn.send(GET);
                assert_eq!(conn.response().status, 200, "{what}");
            }
            // The third one is connected by the kernel and waits; the others are served as before.
            let mut third = proxy.connect();
            third.send(GET);
            for conn in &mut inside {
                conn.send(GET);
                assert_eq!(conn.response().status, 200, "{what}");
            }
            assert!(third.is_silent(), "{what}");
            proxy.is_idle();
            inside.pop();
            assert_eq!(third.response().status, 200, "{what}");
            drop((inside, third));
            proxy.finish(server);
        }
    });
}

#[test]
fn an_operator_is_heard_when_clients_wait_for_buffers() {
    const CLIENTS: usize = 40;
    each_driver(|io| {
        let rules = "http-request wait-for-body time 60s at-least 100k\nhttp-request return status 200\n";
        let text = format!("frontend fe\nbind <@fe>\n{rules}");
        let global = "tune.buffers.limit 6\ntune.buffers.reserve 2\nstats socket <@dir>/cli level admin";
        let proxy = Setup::http(&text).global(global).start(io);
        let part =
            format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n{}", "x".repeat(5000));
        let mut clients: Vec<_> = (0..CLIENTS).map(|_| proxy.connect()).collect();
        clients.iter_mut().for_each(|client| client.send(&part));
        let ask = |command: &str| {
            let mut cli = Conn::connect_unix(&proxy.path("cli"));
            cli.send(command);
            String::from_utf8_lossy(&cli.until(b"\n\n")).into_owned()
        };
        let all = format!("CurrConns: {CLIENTS}\n");
        eventually("all are there", || ask("show info\n").contains(&all).then_some(()));
        // By now they have taken what there is.
        (0..20).for_each(|_| assert!(ask("show activity\n").contains("thread_id")));
        drop(clients);
        proxy.finish(());
    });
}

#[test]
fn the_log_line_of_a_fault() {
    each_driver(|io| {
        let (proxy, server) = with_fault(io, "", |_| {});
        proxy.ask("GET /f HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(proxy.http_log(), "be/s n/n/n/-1/n 502 SH-- 0 \"GET /f HTTP/1.1\"");
        proxy.finish(server);
        let text = format!(
            "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nretries 2\ntimeout connect 200ms\nserver s {}\n",
            support::nobody()
        );
        let proxy = Setup::http(&text).start(io);
        assert_eq!(proxy.ask(GET).status, 503);
        assert_eq!(proxy.http_log(), "be/s n/n/-1/-1/n 503 SC-- 2 \"GET / HTTP/1.1\"");
        proxy.finish(());
    });
}

#[test]
fn a_response_survives_what_its_client_sends_behind_the_request() {
    each_driver(|io| {
        let server = Server::http(|_| ok("hello"));
        let text = format!("listen l\nbind <@fe>\nserver s {}\n", server.addr);
        let proxy = Setup::http(&text).start(io);
        for n in 0..2000 {
            let mut conn = proxy.connect();
            conn.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
            // Whatever comes of it, the answer must not be lost to the reset that closing with unread input is.
            for _ in 0..n % 12 {
                let _ = conn.try_send("more\r\n");
            }
            assert_eq!(conn.response().text(), "hello");
        }
        proxy.finish(server);
    });
}

/// A client that goes on sending behind its last request is read from for a moment only, and holds up nobody meanwhile.
#[test]
fn a_flood_behind_the_last_request_is_cut_off() {
    is_cut_off(b"GET / HTTP/1.1\r\nno field\r\n\r\n");
}

/// The same behind what ends a connection of HTTP/2: a first frame that is no SETTINGS.
#[test]
fn a_flood_behind_the_end_of_http2_is_cut_off() {
    is_cut_off(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x08\x06\0\0\0\0\0");
}

fn is_cut_off(last: &[u8]) {
    each_driver(|io| {
        let proxy = Setup::http("frontend fe\nbind <@fe>\nhttp-request return status 204\n").start(io);
        let mut flood = TcpStream::connect(proxy.addr("fe")).unwrap();
        flood.write_all(last).unwrap();
        let began = Instant::now();
        thread::scope(|scope| {
            let sent = scope
                .spawn(|| while flood.write_all(&[b'x'; 1 << 18]).is_ok() && began.elapsed() < PATIENCE {});
            while !sent.is_finished() {
                assert_eq!(proxy.ask("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").status, 204);
            }
        });
        assert!(began.elapsed() < PATIENCE, "{io}: it is still read from");
    });
}
