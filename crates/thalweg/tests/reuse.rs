//! Which connection to a server each request is sent on.

mod support;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use support::h2::Client;
use support::{Conn, Io, Proxy, Server, Setup, each_driver, eventually, ok, reference};

const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";

/// Says something to the program's CLI and returns the answer.
fn tell(proxy: &Proxy, command: &str) -> String {
    let mut cli = Conn::connect_unix(&proxy.path("cli"));
    cli.send(format!("{command}\n"));
    cli.rest_text()
}

/// Columns of `show servers conn` of the only server, from `served` on.
fn connections(proxy: &Proxy) -> Vec<i64> {
    let text = tell(proxy, "show servers conn");
    let line = text.lines().nth(1).unwrap_or("");
    line.split(' ').skip(6).filter_map(|n| n.parse().ok()).collect()
}

/// The number of the server's connection that each request came on, with these lines in the frontend and these words on
/// the server's line. `Connection: close` ends the client's, so that only connections shared by all clients are used.
fn numbers(
    io: Io,
    program: Option<&Path>,
    lines: &str,
    server_words: &str,
    requests: &[&str],
) -> Vec<String> {
    let server = Server::start(|mut conn, n| {
        while conn.next_request().is_some() {
            conn.send(support::ok(&n.to_string()));
        }
    });
    let text = format!(
        "global\nnbthread 1\ndefaults\nmode http\nhttp-reuse always\ntimeout connect 20s\ntimeout client 20s\n\
         timeout server 20s\nfrontend fe\nbind <@fe>\n{lines}\ndefault_backend be\nbackend be\nserver a {} pool-low-conn 100 {server_words}\n",
        server.addr
    );
    let mut setup = Setup::file(&text);
    if let Some(program) = program {
        setup = setup.program(program);
    }
    let proxy = setup.start(io);
    let ask = |target: &&str| {
        let mut conn = Conn::connect(proxy.addr("fe"));
        conn.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
        conn.response().text()
    };
    requests.iter().map(ask).collect()
}

/// What a rule sets on a connection stays on it: only a request that asks for the same may be sent on it.
#[test]
fn marked_connections_are_for_requests_with_the_same_mark() {
    let lines = "http-request set-bc-tos 32 if { path_beg /tos }\nhttp-request set-bc-tos 64 if { path_beg /other }\n\
                 http-request set-bc-mark 7 if { path_sub mark }";
    let requests = [
        "/",
        "/tos",
        "/",
        "/tos",
        "/other",
        "/tos-mark",
        "/mark",
        "/",
        "/mark",
        "/tos",
        "/other",
        "/tos-mark",
    ];
    let wanted = ["0", "1", "0", "1", "2", "3", "4", "0", "4", "1", "2", "3"];
    each_driver(|io| assert_eq!(numbers(io, None, lines, "", &requests), wanted, "over {io}"));
    if let Some(reference) = reference() {
        assert_eq!(numbers("epoll", Some(&reference), lines, "", &requests), wanted, "of the reference");
    }
}

/// A connection that has a name is for requests whose name is the same, and those without a name share others.
#[test]
fn connections_with_a_name_are_for_requests_with_that_name() {
    let words = "pool-conn-name url_param(n)";
    let requests = ["/?n=a", "/?n=b", "/?n=a", "/", "/?n=b", "/?n=", "/"];
    let wanted = ["0", "1", "0", "2", "1", "2", "2"];
    each_driver(|io| assert_eq!(numbers(io, None, "", words, &requests), wanted, "over {io}"));
    if let Some(reference) = reference() {
        assert_eq!(numbers("epoll", Some(&reference), "", words, &requests), wanted, "of the reference");
    }
}

/// What a server says, the request it says it to, and whether the connection belongs to the client from then on.
const CHALLENGES: [(&str, bool); 10] = [
    ("401 No\r\nWWW-Authenticate: NTLM", true),
    ("401 No\r\nwww-authenticate: ntlm TlRMTVNT", true),
    ("401 No\r\nWWW-Authenticate: Negotiate", true),
    ("401 No\r\nWWW-Authenticate: Basic realm=\"a, b\", Negotiate", true),
    ("401 No\r\nWWW-Authenticate: Basic realm=x\r\nWWW-Authenticate: NTLM", true),
    ("407 No\r\nProxy-Authenticate: NTLM", true),
    ("401 No\r\nWWW-Authenticate: Basic realm=NTLM", false),
    ("401 No\r\nProxy-Authenticate: NTLM", false),
    ("407 No\r\nWWW-Authenticate: Negotiate", false),
    ("200 OK\r\nWWW-Authenticate: Negotiate", false),
];

/// The server connections on which two clients' requests came: the first client gets a challenge, then an answer; then
/// the other one asks, then the first one again. There are two servers, which take turns.
fn after_challenge(io: Io, program: Option<&Path>, challenge: &'static str) -> [String; 4] {
    let serve = |name: &'static str| {
        Server::start(move |mut conn, n| {
            while let Some(request) = conn.next_request() {
                let first = if request.head.line.contains("/login") { challenge } else { "200 OK" };
                let body = format!("{name}{n}");
                conn.send(format!("HTTP/1.1 {first}\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
            }
        })
    };
    let (a, b) = (serve("a"), serve("b"));
    let mut setup = Setup::http(&format!(
        "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nhttp-reuse always\nbalance roundrobin\n\
         server a {}\nserver b {}\n",
        a.addr, b.addr
    ));
    if let Some(program) = program {
        setup = setup.program(program);
    }
    let proxy = setup.start(io);
    let (mut one, mut other) = (proxy.connect(), proxy.connect());
    let ask = |conn: &mut Conn, path: &str| {
        conn.send(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n"));
        conn.response().text()
    };
    let asked = [ask(&mut one, "/login"), ask(&mut one, "/"), ask(&mut other, "/"), ask(&mut one, "/")];
    drop((one, other));
    if program.is_none() {
        proxy.finish((a, b));
    }
    asked
}

/// Who authenticates a connection to a server must be the only one whose requests go over it: to the server, whatever
/// comes on it comes from that client.
#[test]
fn a_connection_that_a_client_authenticates_is_its_own() {
    let wanted = |own| if own { ["a0", "a0", "b0", "a0"] } else { ["a0", "b0", "a0", "b0"] };
    each_driver(|io| {
        for (challenge, own) in CHALLENGES {
            assert_eq!(after_challenge(io, None, challenge), wanted(own), "over {io}: {challenge}");
        }
    });
    let Some(reference) = reference() else { return };
    for (challenge, own) in CHALLENGES {
        assert_eq!(after_challenge("epoll", Some(&reference), challenge), wanted(own), "{challenge}");
    }
}

/// Of a client that asks seven backends, one after the other and once more: the number of the connection that each request of the
/// second round came on.
fn second_round(io: Io, program: Option<&Path>, line: &str) -> String {
    let servers: Vec<Server> = (0..7)
        .map(|_| {
            Server::start(|mut conn, n| {
                while conn.next_request().is_some() {
                    if conn.try_send(support::ok(&n.to_string())).is_err() {
                        return;
                    }
                }
            })
        })
        .collect();
    let backend =
        |(n, server): (usize, &Server)| format!("backend b{n}\nhttp-reuse never\nserver s {}\n", server.addr);
    let backends: String = servers.iter().enumerate().map(backend).collect();
    let text = format!("frontend fe\nbind <@fe>\n{line}\nuse_backend b%[url_param(b)]\n{backends}");
    let mut setup = Setup::http(&text);
    if let Some(program) = program {
        setup = setup.program(program);
    }
    let proxy = setup.start(io);
    let mut conn = proxy.connect();
    let mut ask = |n: usize| {
        conn.send(format!("GET /?b={n} HTTP/1.1\r\nHost: h\r\n\r\n"));
        conn.response().text()
    };
    (0..7).for_each(|n| assert_eq!(ask(n), "0"));
    (0..7).map(ask).collect()
}

#[test]
fn a_session_keeps_no_more_connections_than_it_may() {
    let reference = reference();
    for (line, expected) in [
        ("", "0000011"),
        ("max-session-srv-conns 2", "0011111"),
        ("max-session-srv-conns 0", "1111111"),
        ("max-session-srv-conns 9", "0000000"),
    ] {
        each_driver(|io| assert_eq!(second_round(io, None, line), expected, "{line} over {io}"));
        if let Some(reference) = &reference {
            assert_eq!(second_round("epoll", Some(reference), line), expected, "{line} of the reference");
        }
    }
}

/// A connection that a session keeps for itself is counted as such, and let go of when the server closes it.
#[test]
fn private_connections_end_with_their_server_and_their_session() {
    each_driver(|io| {
        let server = Server::start(|mut conn, n| {
            while let Some(request) = conn.next_request() {
                conn.send(support::ok(&n.to_string()));
                if request.head.line.contains("/close") {
                    return;
                }
            }
        });
        let proxy = Setup::http(&format!(
            "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nhttp-reuse never\nserver s {}\n",
            server.addr
        ))
        .global("stats socket <@dir>/cli level admin")
        .start(io);
        let private = |n| {
            eventually("the number of private connections", || (connections(&proxy)[4] == n).then_some(()));
        };
        let mut conn = proxy.connect();
        for (path, number) in [("/", "0"), ("/", "0"), ("/close", "0"), ("/", "1")] {
            conn.send(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n"));
            assert_eq!(conn.response().text(), number);
            // The server's end is noticed although nobody asks for the connection.
            private(i64::from(path == "/"));
        }
        // Reuse counts, also of a session's own connections.
        let stat = tell(&proxy, "show stat -1 4 -1 typed");
        let reuse = stat.lines().find(|line| line.contains(".reuse.")).unwrap_or(&stat);
        assert!(reuse.ends_with(":2"), "{reuse}");
        drop(conn);
        private(0);
        proxy.finish(server);
    });
}

/// Whoever works on a server that is in maintenance finds it unused.
#[test]
fn maintenance_closes_idle_connections() {
    each_driver(|io| {
        let ended = Arc::new(AtomicUsize::new(0));
        let ended_too = Arc::clone(&ended);
        let server = Server::start(move |mut conn, _| {
            while conn.next_request().is_some() {
                conn.send(support::ok("x"));
            }
            ended_too.fetch_add(1, Ordering::SeqCst);
        });
        for command in ["set server be/s state maint", "disable server be/s"] {
            let before = ended.load(Ordering::SeqCst);
            let proxy = Setup::http(&format!(
                "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nserver s {} pool-purge-delay 1h\n",
                server.addr
            ))
            .global("stats socket <@dir>/cli level admin")
            .threads(2)
            .start(io);
            let mut clients: Vec<Conn> = (0..8).map(|_| proxy.connect()).collect();
            for client in &mut clients {
                client.send(GET);
                assert_eq!(client.response().status, 200);
            }
            let idle = || *connections(&proxy).get(8).unwrap();
            assert!(idle() > 0);
            tell(&proxy, command);
            eventually("no connection is idle", || (idle() == 0).then_some(()));
            eventually("the server sees the end of all", || {
                (ended.load(Ordering::SeqCst) - before == 8).then_some(())
            });
        }
    });
}

/// A server that closes whenever a connection is used again gets such a request twice, however many connections are
/// idle: once on one of them, once on a new one.
#[test]
fn a_request_meets_one_connection_at_most_that_its_server_closes() {
    each_driver(|io| {
        let asked = Arc::new(AtomicUsize::new(0));
        let asked_too = Arc::clone(&asked);
        let gate = Arc::new(std::sync::Barrier::new(5));
        let server = Server::start(move |mut conn, _| {
            let request = conn.next_request();
            if request.is_some_and(|request| request.head.line.contains("/together")) {
                gate.wait();
            }
            conn.send(support::ok("x"));
            if conn.next_request().is_some() {
                asked_too.fetch_add(1, Ordering::SeqCst);
            }
        });
        let proxy = Setup::http(&format!(
            "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nhttp-reuse always\nserver s {}\n",
            server.addr
        ))
        .start(io);
        let mut clients: Vec<Conn> = (0..5).map(|_| proxy.connect()).collect();
        for client in &mut clients {
            client.send("GET /together HTTP/1.1\r\nHost: h\r\n\r\n");
        }
        for client in &mut clients {
            assert_eq!(client.response().status, 200);
        }
        clients[0].send(GET);
        assert_eq!(clients[0].response().status, 200);
        assert_eq!((asked.load(Ordering::SeqCst), server.accepted()), (1, 6));
        drop(clients);
        proxy.finish(server);
    });
}

/// A response that a rule keeps from the client is read to its end if that is there, and its connection used again. One
/// whose end is not there, or after which no HTTP follows, ends its connection.
#[test]
fn a_connection_whose_response_was_refused_may_be_used_again() {
    let responses = [
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "0"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "0"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", "1"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello", "1"),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n9",
            "1",
        ),
        ("HTTP/1.1 200 OK\r\n\r\nhello", "1"),
        ("HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", "1"),
    ];
    each_driver(|io| {
        for (response, number) in responses {
            let server = Server::start(move |mut conn, n| {
                while let Some(request) = conn.next_request() {
                    let refused = request.head.line.contains("/refused");
                    conn.send(if refused { response.to_string() } else { support::ok(&n.to_string()) });
                }
            });
            let proxy = Setup::http(&format!(
                "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nhttp-request set-var(txn.p) path\n\
                 http-response deny if {{ var(txn.p) -m str /refused }}\nserver s {}\n",
                server.addr
            ))
            .start(io);
            let mut client = proxy.connect();
            client.send("GET /refused HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n");
            assert_eq!(client.response().status, 502, "{response:?}");
            client.send(GET);
            assert_eq!(client.response().text(), number, "over {io}: {response:?}");
            drop(client);
            proxy.finish(server);
        }
    });
}

/// What a server says beyond its response is nobody's: neither this client's nor the next one's. It ends the connection,
/// and no place on the server stays taken.
#[test]
fn what_a_server_says_out_of_turn_reaches_nobody() {
    const WRONG: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong";
    let behind = [
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", WRONG),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "\r\n"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "x"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 103 Early\r\n\r\n"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", WRONG),
        ("HTTP/1.1 204 None\r\n\r\n", WRONG),
        ("HTTP/1.1 304 Not\r\nContent-Length: 100\r\n\r\n", WRONG),
        ("HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", WRONG),
    ];
    each_driver(|io| {
        for (response, more) in behind {
            // At once, and when the connection is idle.
            for late in [false, true] {
                let (idle, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
                let (told, ended_too) = (Arc::clone(&idle), Arc::clone(&ended));
                let server = Server::start(move |mut conn, n| {
                    let Some(_) = conn.next_request() else { return };
                    if n > 0 {
                        conn.send(support::ok("right"));
                        conn.ended();
                        return;
                    }
                    if late {
                        conn.send(response);
                        eventually("the client has its response", || {
                            (told.load(Ordering::SeqCst) == 1).then_some(())
                        });
                        conn.send(more);
                    } else {
                        conn.send(format!("{response}{more}"));
                    }
                    conn.ended();
                    ended_too.fetch_add(1, Ordering::SeqCst);
                });
                let proxy = Setup::http(&format!(
                    "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nhttp-reuse always\n\
                     server s {} maxconn 1\n",
                    server.addr
                ))
                .start(io);
                let (mut one, mut other) = (proxy.connect(), proxy.connect());
                one.send(GET);
                let status = one.response().status;
                assert!(response.contains(&status.to_string()), "{status} for {response:?}");
                idle.store(1, Ordering::SeqCst);
                // Its end is what the server can see of it.
                eventually("the connection ends", || (ended.load(Ordering::SeqCst) == 1).then_some(()));
                assert!(one.is_silent(), "over {io}: more after {response:?}");
                other.send(GET);
                assert_eq!(other.response().text(), "right", "over {io}: {response:?}, {more:?}");
                drop((one, other));
                proxy.finish(server);
            }
        }
    });
}

/// `option httpclose` of a backend is about the connections to its servers: those of clients live on.
#[test]
fn httpclose_of_a_backend_leaves_the_clients_alone() {
    each_driver(|io| {
        let server = Server::http(|request| ok(&request.head.field("connection")));
        let text = format!(
            "frontend f\nbind <@fe>\ndefault_backend b\nbackend b\noption httpclose\nserver s {}\n",
            server.addr
        );
        let proxy = Setup::http(&text).start(io);
        let mut client = proxy.connect();
        for _ in 0..2 {
            client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
            let response = client.response();
            assert_eq!(response.text(), "close");
            assert!(!response.head.has("connection"), "{}", response.field("connection"));
        }
        assert_eq!(server.accepted(), 2);
        drop(client);
        proxy.finish(server);
    });
}

/// `http-reuse safe`: the first request of a client goes over a connection that another one used, as in the reference; that of a client
/// of HTTP/1 does not.
#[test]
fn first_requests_use_connections_of_others() {
    each_driver(|io| {
        let server = Server::http(|_| ok("answered"));
        let backend =
            format!("frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nserver s {}\n", server.addr);
        let proxy = Setup::http(&backend).threads(1).start(io);
        for _ in 0..3 {
            assert_eq!(Client::new(proxy.connect()).get("/").text(), "answered");
        }
        assert_eq!(server.accepted(), 1);
        assert_eq!(proxy.ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n").text(), "answered");
        assert_eq!(server.accepted(), 2);
        proxy.finish(server);
    });
}

/// A server that answers each request with the number of its connection, and knows how many of these are open.
fn counting_server(head: &'static str) -> (Server, Arc<AtomicUsize>) {
    let open = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&open);
    let server = Server::start(move |mut conn, n| {
        counted.fetch_add(1, Ordering::SeqCst);
        while conn.next_request().is_some() {
            let body = n.to_string();
            conn.send(format!("HTTP/1.1 {head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
        }
        counted.fetch_sub(1, Ordering::SeqCst);
    });
    (server, open)
}

/// A proxy before such a server.
fn limited(
    io: Io,
    program: Option<&Path>,
    threads: u32,
    lines: &str,
    server: SocketAddr,
    words: &str,
) -> Proxy {
    let text = format!(
        "global\nnbthread {threads}\ndefaults\nmode http\ntimeout connect 2s\ntimeout client 20s\ntimeout server 20s\n\
         frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\n{lines}\nserver a {server} pool-low-conn 100 {words}\n"
    );
    match program {
        Some(program) => Setup::file(&text).program(program).start(io),
        None => Setup::file(&text).start(io),
    }
}

/// `strict-maxconn`: idle connections that are not for a request make room for one that is. Without it they stay.
#[test]
fn idle_connections_make_room_below_a_strict_limit() {
    let play = |io: Io, program: Option<&Path>, words: &str, most: usize| {
        let (server, open) = counting_server("200 OK");
        let words = format!("pool-conn-name path maxconn 2 {words}");
        let proxy = limited(io, program, 1, "http-reuse always", server.addr.into(), &words);
        for n in 0..4 {
            let answer = proxy.ask(&format!("GET /{n} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"));
            assert_eq!(answer.text(), n.to_string(), "over {io}");
        }
        eventually("idle connections are closed", || (open.load(Ordering::SeqCst) <= most).then_some(()));
        assert_eq!(open.load(Ordering::SeqCst) > 2, most > 2, "over {io}");
        proxy.finish(server);
    };
    each_driver(|io| play(io, None, "strict-maxconn", 2));
    each_driver(|io| play(io, None, "", 4));
    if let Some(reference) = reference() {
        play("epoll", Some(&reference), "strict-maxconn", 2);
        play("epoll", Some(&reference), "", 4);
    }
}

/// What a session keeps for itself makes room, too, unless its client authenticated on it: that ends with its session.
#[test]
fn sessions_make_room_below_a_strict_limit() {
    each_driver(|io| {
        let (server, _) = counting_server("200 OK");
        let proxy = limited(io, None, 1, "http-reuse never", server.addr.into(), "maxconn 1 strict-maxconn");
        let mut first = proxy.connect();
        first.send(GET);
        assert_eq!(first.response().text(), "0");
        assert_eq!(proxy.ask(GET).text(), "1");
        first.send(GET);
        assert_eq!(first.response().text(), "2");
        drop(first);
        proxy.finish(server);
    });
    each_driver(|io| {
        let (server, _) = counting_server("401 Who\r\nWWW-Authenticate: NTLM");
        let proxy = limited(io, None, 1, "retries 0", server.addr.into(), "maxconn 1 strict-maxconn");
        let mut first = proxy.connect();
        first.send(GET);
        assert_eq!(first.response().text(), "0");
        assert_eq!(proxy.ask(GET).status, 503);
        first.send(GET);
        assert_eq!(first.response().text(), "0");
        drop(first);
        assert_eq!(proxy.ask(GET).text(), "1");
        proxy.finish(server);
    });
}

/// The limit is one for all threads: each has others close what they keep idle.
#[test]
fn threads_make_room_for_each_other_below_a_strict_limit() {
    each_driver(|io| {
        let (server, open) = counting_server("200 OK");
        let words = "pool-conn-name path maxconn 3 strict-maxconn";
        let proxy = limited(io, None, 2, "http-reuse always", server.addr.into(), words);
        std::thread::scope(|scope| {
            for client in 0..6 {
                let proxy = &proxy;
                scope.spawn(move || {
                    for n in 0..20 {
                        let target = (n * 7 + client) % 5;
                        let request =
                            format!("GET /{target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
                        assert_eq!(proxy.ask(&request).status, 200, "over {io}");
                    }
                });
            }
        });
        eventually("no more than three are left", || (open.load(Ordering::SeqCst) <= 3).then_some(()));
        proxy.finish(server);
    });
}

/// Passes connections on to another address, and knows how many came, and how many were open at once. It counts when one comes, after it looked
/// whether those before are still there: so no more are counted than there were at that moment.
struct Turnstile {
    addr: SocketAddr,
    most: Arc<AtomicUsize>,
    all: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
}

impl Turnstile {
    fn start(to: SocketAddr) -> Turnstile {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let addr = listener.local_addr().unwrap();
        let [most, all] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
        let stop = Arc::new(AtomicBool::new(false));
        let (counted, came_so_far, stopped) = (Arc::clone(&most), Arc::clone(&all), Arc::clone(&stop));
        std::thread::spawn(move || {
            let mut open: Vec<[TcpStream; 2]> = Vec::new();
            while !stopped.load(Ordering::SeqCst) {
                let came = listener.accept();
                let is_new = came.is_ok();
                if let Ok((from, _)) = came {
                    let pair = [from, TcpStream::connect(to).unwrap()];
                    pair.iter().for_each(|stream| stream.set_nonblocking(true).unwrap());
                    open.push(pair);
                }
                open.retain(|[from, to]| pass(from, to) && pass(to, from));
                match is_new {
                    true => {
                        counted.fetch_max(open.len(), Ordering::SeqCst);
                        came_so_far.fetch_add(1, Ordering::SeqCst);
                    }
                    false => std::thread::sleep(Duration::from_micros(200)),
                }
            }
        });
        Turnstile { addr, most, all, stop }
    }
}

impl Drop for Turnstile {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}

/// Passes on what is there; false when nothing more comes.
fn pass(mut from: &TcpStream, mut to: &TcpStream) -> bool {
    let mut buffer = [0; 1 << 16];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return false,
            // A few bytes at a time, for which there is room.
            Ok(n) => to.write_all(&buffer[..n]).unwrap_or_default(),
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
    }
}

/// Not for a moment are there more connections than a strict limit allows, whatever is spoken on them.
#[test]
fn a_strict_limit_is_never_exceeded() {
    each_driver(|io| {
        for (of_server, words) in [("", ""), ("proto h2", "proto h2")] {
            let answers = format!(
                "defaults\nmode http\ntimeout client 20s\nfrontend fe\nbind <@fe> {of_server}\nhttp-request return status 200\n"
            );
            let server = Setup::file(&answers).start(io);
            let turnstile = Turnstile::start(server.addr("fe").into());
            let words = format!("{words} pool-conn-name path maxconn 3 strict-maxconn");
            let proxy = limited(io, None, 2, "http-reuse always", turnstile.addr, &words);
            std::thread::scope(|scope| {
                for client in 0..8 {
                    let proxy = &proxy;
                    scope.spawn(move || {
                        for n in 0..40 {
                            let target = (n * 7 + client) % 6;
                            let request =
                                format!("GET /{target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
                            assert_eq!(proxy.ask(&request).status, 200, "over {io}");
                        }
                    });
                }
            });
            assert_eq!(turnstile.most.load(Ordering::SeqCst), 3, "{words} over {io}");
        }
    });
}

/// The targets that each connection of a server carried: checks ask for `/check`, which is not answered behind other requests if
/// `deaf`; the proxy has these words on the server's line, and one request is sent on each of two connections.
fn carried(io: Io, program: Option<&Path>, words: &str, deaf: bool) -> Vec<Vec<String>> {
    let carried: Arc<Mutex<Vec<Vec<String>>>> = Arc::default();
    let seen = Arc::clone(&carried);
    let server = Server::start(move |mut conn, n| {
        while let Some(request) = conn.next_request() {
            let target = request.head.line.split(' ').nth(1).unwrap_or("").to_owned();
            let is_check = target == "/check";
            let mut seen = seen.lock().unwrap();
            let len = seen.len().max(n + 1);
            seen.resize(len, Vec::new());
            seen[n].push(target);
            if is_check && deaf && seen[n].len() > 1 {
                return;
            }
            drop(seen);
            conn.send(ok("fine"));
            if is_check {
                return;
            }
        }
    });
    let text = format!(
        "global\nnbthread 1\nstats socket <@dir>/cli level admin\ndefaults\nmode http\nhttp-reuse always\ntimeout connect 2s\n\
         timeout client 20s\ntimeout server 20s\nfrontend fe\nbind <@fe>\ndefault_backend be\nbackend be\n\
         option httpchk GET /check\nserver a {} pool-low-conn 100 check inter 200ms fall 1 {words}\n",
        server.addr
    );
    let setup = Setup::file(&text);
    let proxy =
        program.map_or_else(|| setup.start(io), |program| Setup::file(&text).program(program).start(io));
    for _ in 0..2 {
        let before = carried.lock().unwrap().len();
        let answer = proxy.ask("GET /wanted HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        assert_eq!(answer.text(), "fine", "{words} over {io}");
        eventually("two more checks", || {
            let seen = carried.lock().unwrap();
            let checks =
                seen.iter().skip(before).filter(|targets| targets.last().is_some_and(|t| t == "/check"));
            (checks.count() >= 2).then_some(())
        });
    }
    let stat = tell(&proxy, "show stat");
    assert!(!stat.contains(",DOWN"), "{words} over {io}: {stat}");
    let seen = carried.lock().unwrap().clone();
    proxy.finish(server);
    seen
}

/// `check-reuse-pool`: a check goes over a connection that traffic left idle, if there is one for it, and says nothing of the server when
/// that connection was at its end.
#[test]
fn checks_use_idle_connections_where_asked() {
    let is_shared =
        |connections: &[Vec<String>]| connections.iter().any(|targets| *targets == ["/wanted", "/check"]);
    let play = |io: Io, program: Option<&Path>| {
        for (words, expected) in [
            ("", false),
            ("check-reuse-pool", true),
            ("check-reuse-pool no-check-reuse-pool", false),
            ("check-reuse-pool check-send-proxy no-check-send-proxy", true),
            ("check-reuse-pool pool-conn-name str(x)", false),
            ("check-reuse-pool pool-conn-name str(x) check-pool-conn-name x", true),
            ("check-reuse-pool pool-conn-name str(x) check-pool-conn-name y", false),
        ] {
            let connections = carried(io, program, words, false);
            assert_eq!(is_shared(&connections), expected, "{words} over {io}: {connections:?}");
        }
    };
    each_driver(|io| play(io, None));
    if let Some(reference) = reference() {
        play("epoll", Some(&reference));
    }
    each_driver(|io| {
        let connections = carried(io, None, "check-reuse-pool", true);
        assert!(is_shared(&connections), "{connections:?}");
    });
}

/// `check-reuse-pool` with HTTP/2: checks and traffic share a connection, whichever of them made it.
#[test]
fn checks_and_traffic_share_connections_of_http2() {
    let play = |io: Io, program: Option<&Path>, words: &str| {
        let answers = "global\nstats socket <@dir>/cli level admin\ndefaults\nmode http\ntimeout client 20s\n\
                       frontend fe\nbind <@fe>\nhttp-request return status 200\n";
        let server = Setup::file(answers).start(io);
        let turnstile = Turnstile::start(server.addr("fe").into());
        let words = format!("proto h2 check inter 100ms {words}");
        let lines = "option httpchk GET /check\nhttp-reuse always";
        let proxy = limited(io, program, 1, lines, turnstile.addr, &words);
        let requests = || {
            let info = tell(&server, "show info");
            info.lines().find_map(|line| line.strip_prefix("CumReq: ")?.parse::<u32>().ok()).unwrap_or(0)
        };
        for so_far in [3, 7] {
            eventually("checks", || (requests() >= so_far).then_some(()));
            assert_eq!(proxy.ask(GET).status, 200, "{words} over {io}");
        }
        eventually("more checks", || (requests() >= 11).then_some(()));
        turnstile.all.load(Ordering::SeqCst)
    };
    for (words, shares) in [
        ("", false),
        ("check-reuse-pool", true),
        ("check-reuse-pool check-proto h2", true),
        ("check-reuse-pool check-proto h1", false),
    ] {
        each_driver(|io| assert_eq!(play(io, None, words) == 1, shares, "{words} over {io}"));
        if let Some(reference) = reference() {
            assert_eq!(play("epoll", Some(&reference), words) == 1, shares, "{words} with the reference");
        }
    }
}
