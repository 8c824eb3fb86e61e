//! Logs as their receivers see them: formats, steps, profiles, session errors, rings, log backends.

mod support;

use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::sync::{Mutex, mpsc};
use std::time::Instant;

use support::{Conn, PATIENCE, Proxy, Server, Setup, Signal, each_driver, ok};

const GET: &str = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n";

fn server() -> Server {
    Server::http(|_| ok("hi"))
}

/// A frontend and its only server; `more` goes into the frontend.
fn http(server: &Server, more: &str) -> Setup {
    Setup::http(&format!("listen fe\nbind <@fe> name b1\n{more}\nserver s {}\n", server.addr))
}

/// A receiver of datagrams of its own.
fn receiver() -> UdpSocket {
    let socket = UdpSocket::bind((support::own_ip(), 0)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn line(socket: &UdpSocket) -> String {
    let mut bytes = [0; 65536];
    let len = socket.recv(&mut bytes).expect("a log line");
    String::from_utf8_lossy(&bytes[..len]).trim_end().to_string()
}

#[test]
fn json_names_every_field_of_httplog() {
    each_driver(|io| {
        let server = server();
        let proxy = http(&server, "option httplog json").start(io);
        proxy.ask("GET /\"q\\ HTTP/1.1\r\nHost: h\r\n\r\n");
        let line = proxy.log();
        for field in [
            "\"frontend\": \"fe\"",
            "\"server\": \"s\"",
            "\"status\": 200",
            "\"termination_state\": \"----\"",
            "\"retries\": 0",
            "\"request\": \"GET /#22q\\\\ HTTP/1.1\"",
        ] {
            assert!(line.contains(field), "{field} in {line}");
        }
        let start = line.find('{').expect("an object");
        assert!(line.ends_with('}') && !line[start..].contains('\n'), "{line}");
        proxy.finish(server);
    });
}

#[test]
fn without_a_format_connections_are_logged_when_they_begin() {
    each_driver(|io| {
        let setup = "listen fe\nbind <@fe>\nretries 0\nserver s 127.0.0.1:1\n";
        let whole = format!(
            "defaults\nmode tcp\ntimeout connect 20s\ntimeout client 20s\ntimeout server 20s\nlog <@log> format raw local0\n{setup}"
        );
        let log = receiver();
        let whole = whole.replace("<@log>", &log.local_addr().unwrap().to_string());
        let proxy = Setup::file(&whole).start(io);
        let conn = proxy.connect();
        let (from, to) = (conn.local(), conn.peer());
        assert_eq!(line(&log), format!("Connect from {from} to {to} (fe/TCP)"));
        drop(conn);
        proxy.finish(());
    });
}

/// As HAProxy 3.5-dev5 has it: -1 is for requests without an answer.
#[test]
fn what_is_not_http_has_status_0() {
    each_driver(|io| {
        let server = server();
        let text = format!("listen fe\nbind <@fe>\nlog-format %ST\nserver s {}\n", server.addr);
        let proxy = Setup::tcp(&text).start(io);
        let mut conn = proxy.connect();
        conn.half_close();
        conn.ended();
        assert_eq!(proxy.log(), "0");
        drop(conn);
        proxy.finish(server);
    });
}

#[test]
fn broken_proxy_headers_are_named() {
    each_driver(|io| {
        let server = server();
        let check = |bytes: &str, expected: &str, more: &str| {
            let text =
                format!("listen fe\nbind <@fe> name b1 accept-proxy\n{more}\nserver s {}\n", server.addr);
            let proxy = Setup::tcp(&text).start(io);
            let mut conn = proxy.connect();
            conn.send(bytes);
            conn.half_close();
            conn.ended();
            let line = proxy.log();
            assert!(line.ends_with(expected), "{expected:?}, got {line:?}");
            drop(conn);
            proxy.finish(());
        };
        check("", " fe/b1: Connection closed while waiting for PROXY protocol header", "");
        check("PROX", " fe/b1: Truncated PROXY protocol header received", "");
        check("hello\r\n", " fe/b1: Received something which does not look like a PROXY protocol header", "");
        check("PROXY TCP4 x\r\n", " fe/b1: Received an invalid PROXY protocol header", "");
        check("PROXY TCP5 x\r\n", " fe/b1: Received an unhandled protocol in the PROXY protocol header", "");
        check("PROX", "E sess_killed 14 0", "error-log-format \"E %OG %[fc_err] %ST\"");
        drop(server);
    });
}

#[test]
fn what_is_no_request_is_logged_in_the_format_of_errors() {
    each_driver(|io| {
        let server = server();
        let proxy = http(&server, "log-format \"L %OG %ST\"\nerror-log-format \"E %OG %ST %ts\"").start(io);
        let mut conn = proxy.connect();
        conn.send("BAD\r\n\r\n");
        conn.ended();
        assert!(proxy.log().ends_with("E sess_error 400 PR"));
        proxy.ask(GET);
        assert!(proxy.log().ends_with("L txn_close 200"));
        drop(conn);
        proxy.finish(server);
    });
}

#[test]
fn steps_and_rules_log_as_they_happen() {
    each_driver(|io| {
        let server = server();
        let more = "log-format \"%OG\"\nlog-steps all\nhttp-request do-log\nhttp-response do-log";
        let proxy = http(&server, more).start(io);
        proxy.ask(GET);
        for expected in
            ["txn_accept", "txn_request", "http-req", "txn_connect", "http-res", "txn_response", "txn_close"]
        {
            let line = proxy.log();
            assert!(line.ends_with(expected), "{expected}, got {line:?}");
        }
        proxy.finish(server);
    });
}

#[test]
fn profiles_change_lines_by_target_and_step() {
    each_driver(|io| {
        let server = server();
        let (plain, other) = (receiver(), receiver());
        let (a, b) = (plain.local_addr().unwrap(), other.local_addr().unwrap());
        let more = format!(
            "log-format usual\nlog-steps request,close\nlog {a} format raw local0\nlog {b} format rfc5424 profile p local0\n"
        );
        let setup = http(&server, &more).defaults(
            "no log\nlog-profile p\nlog-tag custom\non request drop\non close format \"closed %ST\" sd \"[x y=\\\"%ST\\\"]\"",
        );
        let proxy = setup.start(io);
        proxy.ask(GET);
        assert_eq!([line(&plain), line(&plain)], ["usual", "usual"]);
        let line = line(&other);
        assert!(line.contains(" custom ") && line.ends_with(" - [x y=\"200\"] closed 200"), "{line}");
        proxy.finish(server);
    });
}

#[test]
fn rings_feed_servers_in_both_framings() {
    each_driver(|io| {
        for (framing, expected) in [("legacy", "<134>one\n"), ("octet-count", "8 <134>one")] {
            let (sender, received) = std::sync::mpsc::channel();
            let sender = std::sync::Mutex::new(sender);
            let len = expected.len();
            let sink = Server::start(move |mut conn, _| {
                sender.lock().unwrap().send(conn.exactly(len)).unwrap();
                conn.ended();
            });
            let server = server();
            let more = "log-format one\nlog ring@r local0\n";
            let ring =
                format!("ring r\nformat priority\nsize 4096\nserver s {} log-proto {framing}\n", sink.addr);
            let proxy =
                Setup::http(&format!("{ring}listen fe\nbind <@fe>\n{more}\nserver s {}\n", server.addr))
                    .start(io);
            proxy.ask(GET);
            let bytes = received.recv_timeout(PATIENCE).expect("a line from the ring");
            assert_eq!(String::from_utf8_lossy(&bytes), expected);
            proxy.finish((server, sink));
        }
    });
}

/// A server of a ring is reached from the address that its line names, and through the SOCKS4 proxy that it names.
#[test]
fn rings_reach_their_servers_as_lines_say() {
    each_driver(|io| {
        let (sender, received) = std::sync::mpsc::channel();
        let sender = std::sync::Mutex::new(sender);
        let via = Server::start(move |mut conn, _| {
            let request = conn.exactly(16);
            conn.send([0, 90, 0, 0, 0, 0, 0, 0]);
            let said = (conn.peer().ip(), request, conn.exactly(b"<134>one\n".len()));
            sender.lock().unwrap().send(said).unwrap();
            conn.ended();
        });
        let (server, source, sink) = (server(), support::own_ip(), support::nobody());
        let ring = format!("ring r\nformat priority\nserver s {sink} socks4 {} source {source}\n", via.addr);
        let more = "log-format one\nlog ring@r local0\n";
        let proxy = Setup::http(&format!("{ring}listen fe\nbind <@fe>\n{more}\nserver s {}\n", server.addr))
            .start(io);
        proxy.ask(GET);
        let (from, request, line) = received.recv_timeout(PATIENCE).expect("a line through the proxy");
        assert_eq!((from, &line[..]), (source.into(), &b"<134>one\n"[..]));
        let asked = [&[4, 1][..], &sink.port().to_be_bytes(), &sink.ip().octets(), b"HAProxy\0"].concat();
        assert_eq!(request, asked);
        proxy.finish((server, via));
    });
}

#[test]
fn a_ring_whose_server_is_dead_does_not_delay_traffic() {
    each_driver(|io| {
        let server = server();
        let ring = format!("ring r\nsize 1024\nserver s {}\n", support::nobody());
        let text = format!("{ring}listen fe\nbind <@fe>\nlog ring@r local0\nserver s {}\n", server.addr);
        let proxy = Setup::http(&text).start(io);
        for _ in 0..50 {
            assert_eq!(proxy.ask(GET).status, 200);
        }
        proxy.finish(server);
    });
}

#[test]
fn log_backends_spread_lines() {
    each_driver(|io| {
        let (a, b) = (receiver(), receiver());
        let backend = |balance: &str| {
            format!(
                "backend logs\nmode log\nbalance {balance}\nserver a udp@{}\nserver b udp@{}\n",
                a.local_addr().unwrap(),
                b.local_addr().unwrap()
            )
        };
        let start = |balance: &str, server: &Server| {
            Setup::http(&format!(
                "{}listen fe\nbind <@fe>\nlog backend@logs format raw local0\nlog-format %HU\nserver s {}\n",
                backend(balance),
                server.addr
            ))
            .start(io)
        };
        let upstream = server();
        let proxy = start("roundrobin", &upstream);
        for path in ["/1", "/2", "/3", "/4"] {
            proxy.ask(&format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n"));
        }
        assert_eq!([line(&a), line(&b), line(&a), line(&b)], ["/1", "/2", "/3", "/4"]);
        proxy.finish(upstream);
        let upstream = server();
        let proxy = start("sticky", &upstream);
        for path in ["/1", "/2"] {
            proxy.ask(&format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n"));
        }
        assert_eq!([line(&a), line(&a)], ["/1", "/2"]);
        proxy.finish(upstream);
    });
}

/// Lines are shared out by the weights of servers, and follow what operators say of them.
#[test]
fn log_backends_follow_their_servers() {
    let check = |io, program: Option<&Path>| {
        let (a, b, c, spare) = (receiver(), receiver(), receiver(), receiver());
        let [at_a, at_b, at_c, at_spare] = [&a, &b, &c, &spare].map(|one| one.local_addr().unwrap());
        let setup = Setup::http(&format!(
            "backend logs\nmode log\nbalance roundrobin\nserver a udp@{at_a} weight 2\nserver b udp@{at_b}\n\
             server spare udp@{at_spare} backup\nfrontend fe\nbind <@fe>\n\
             log backend@logs format raw local0\nlog-format line\nhttp-request return status 200\n"
        ))
        .global("stats socket <@dir>/cli level admin");
        let proxy = match program {
            Some(program) => setup.program(program).start(io),
            None => setup.start(io),
        };
        let goes_to = |told: &str, places: &[&UdpSocket]| {
            places.iter().for_each(|_| assert_eq!(proxy.ask(GET).status, 200));
            places.iter().for_each(|place| assert_eq!(line(place), "line", "{told}"));
        };
        goes_to("nothing", &[&a, &a, &b]);
        let (ip, port) = (at_c.ip(), at_c.port());
        for (told, answer, places) in [
            (&*format!("set server logs/a addr {ip} port {port}"), "changed from", &[&c, &c, &b][..]),
            ("set server logs/a state drain", "", &[&b, &b]),
            ("set server logs/a state ready", "", &[&c, &c, &b]),
            ("set server logs/b weight 0", "", &[&c, &c]),
            ("set server logs/b weight 100%", "", &[&c, &c, &b]),
            ("disable server logs/a", "", &[&b, &b]),
            ("add server logs/new 127.0.0.1:1", "backend 'logs' uses mode log.", &[&b, &b]),
            ("disable server logs/b", "", &[&spare, &spare]),
        ] {
            let said = proxy.tell("cli", told);
            assert!(said.contains(answer), "{told}: {said}");
            goes_to(told, places);
        }
    };
    if let Some(reference) = support::reference() {
        check("epoll", Some(&reference));
    }
    each_driver(|io| check(io, None));
}

/// So do those that leave over streams, with the next line.
#[test]
fn lines_over_streams_follow_their_server() {
    each_driver(|io| {
        let (sender, told) = mpsc::channel();
        let log_server = |name: &'static str| {
            let sender = Mutex::new(sender.clone());
            Server::start(move |mut conn, _| {
                while let Some(line) = conn.try_until(b"\n") {
                    let _ = sender.lock().unwrap().send((name, String::from_utf8(line).unwrap()));
                }
            })
        };
        let (old, new) = (log_server("old"), log_server("new"));
        let proxy = Setup::http(&format!(
            "backend logs\nmode log\nserver s {}\nfrontend fe\nbind <@fe>\nlog backend@logs format raw local0\n\
             log-format %HU\nhttp-request return status 200\n",
            old.addr
        ))
        .global("stats socket <@dir>/cli level admin")
        .start(io);
        let logged = |path: &str| {
            assert_eq!(proxy.ask(&format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n")).status, 200);
            told.recv_timeout(PATIENCE).unwrap()
        };
        assert_eq!(logged("/1"), ("old", "/1\n".to_owned()));
        let (ip, port) = (new.addr.ip(), new.addr.port());
        let said = proxy.tell("cli", &format!("set server logs/s addr {ip} port {port}"));
        assert!(said.contains("port changed"), "{said}");
        assert_eq!(logged("/2"), ("new", "/2\n".to_owned()));
        assert_eq!(logged("/3"), ("new", "/3\n".to_owned()));
        proxy.finish((old, new));
    });
}

/// Lines wait for a server that is not there yet: as many as there is room for (`log-bufsize`).
#[test]
fn lines_wait_for_their_server_where_there_is_room() {
    each_driver(|io| {
        for (words, all_fit) in [("", true), ("log-bufsize 600", false)] {
            let address = support::free_port(support::own_ip());
            let proxy = Setup::http(&format!(
                "backend logs\nmode log\nserver s {address} {words}\nfrontend fe\nbind <@fe>\n\
                 log backend@logs format raw local0\nlog-format %HU\nhttp-request return status 200\n",
            ))
            .start(io);
            let ask = |path: &str| {
                assert_eq!(proxy.ask(&format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n")).status, 200);
            };
            (0..40).for_each(|n| ask(&format!("/{n:060}")));
            let (sender, told) = mpsc::channel();
            let sender = Mutex::new(sender);
            let server = Server::listen(TcpListener::bind(address).unwrap(), move |mut conn, _| {
                while let Some(line) = conn.try_until(b"\n") {
                    let _ = sender.lock().unwrap().send(String::from_utf8(line).unwrap());
                }
            });
            let mut lines = vec![told.recv_timeout(PATIENCE).unwrap()];
            ask("/last");
            while lines.last().is_some_and(|line| line != "/last\n") {
                lines.push(told.recv_timeout(PATIENCE).unwrap());
            }
            assert_eq!(lines.len() == 41, all_fit, "{words} over {io}: {lines:?}");
            proxy.finish(server);
        }
    });
}

/// The status in the log is the one that an answer stands for, whatever a file or a redirection says instead; rules that
/// change it count.
#[test]
fn the_status_of_an_error_that_is_written_otherwise() {
    each_driver(|io| {
        let server = server();
        for (more, sent, logged) in [
            ("errorloc 403 /x\nhttp-request deny", 302, 403),
            ("errorloc303 429 /x\nhttp-request deny deny_status 429", 303, 429),
            ("errorfile 403 <@dir>/other\nhttp-request deny", 404, 403),
            ("http-request return status 200 errorfile <@dir>/other", 404, 200),
            ("errorloc 403 /x\nhttp-request deny\nhttp-after-response set-status 418", 418, 418),
            ("errorfile 403 /dev/null\nhttp-request deny", 0, 403),
        ] {
            let file = std::env::temp_dir().join(format!("thalweg-other-{}-{io}", std::process::id()));
            std::fs::write(&file, "HTTP/1.0 404 Gone\r\nContent-Length: 4\r\n\r\ngone").unwrap();
            let more = more.replace("<@dir>/other", file.to_str().unwrap());
            let proxy = http(&server, &format!("log-format %ST\n{more}")).start(io);
            std::fs::remove_file(&file).unwrap();
            let mut conn = proxy.connect();
            conn.send(GET);
            let status = match sent {
                0 => conn.rest().len() as u16,
                _ => conn.response().status,
            };
            assert_eq!((status, proxy.log()), (sent, logged.to_string()), "{more}");
            drop(conn);
            proxy.finish(());
        }
        drop(server);
    });
}

/// What was no request has no identifier.
#[test]
fn no_identifier_without_a_request() {
    each_driver(|io| {
        let server = server();
        let proxy = http(&server, "unique-id-format id-%rt\nlog-format \"%ID %[unique-id] %ST\"").start(io);
        proxy.ask("GET / HTTP/1.1\r\nBad Name: x\r\n\r\n");
        assert_eq!(proxy.log(), "- - 400");
        proxy.ask(GET);
        let line = proxy.log();
        assert!(line.starts_with("id-") && line.ends_with(" 200"), "{line}");
        proxy.finish(server);
    });
}

/// A format that names the identifier itself is made once, and not again for each of its parts.
#[test]
fn an_identifier_that_names_itself_ends() {
    each_driver(|io| {
        let server = server();
        let format = "%ID".repeat(8);
        let lines = format!("unique-id-format a{format}%[unique-id]b\nlog-format %ID");
        let proxy = http(&server, &lines).start(io);
        proxy.ask(GET);
        assert_eq!(proxy.log(), "ab");
        proxy.finish(server);
    });
}

#[test]
fn lines_go_to_the_server_that_their_hash_says() {
    each_driver(|io| {
        let sinks: Vec<std::net::UdpSocket> =
            (0..2).map(|_| std::net::UdpSocket::bind((support::own_ip(), 0)).unwrap()).collect();
        sinks.iter().for_each(|sink| sink.set_read_timeout(Some(support::PATIENCE)).unwrap());
        let servers: String = sinks
            .iter()
            .enumerate()
            .map(|(n, sink)| format!("    server s{n} udp@{}\n", sink.local_addr().unwrap()))
            .collect();
        let text = format!(
            "frontend f\n    bind <@in>\n    log-format \"GET %HP end\"\n    log backend@logs local0\n    \
             http-request return status 200\nbackend logs\n    mode log\n    balance log-hash 'field(-2, ),field(2,/)'\n    \
             hash-type map-based none\n{servers}"
        );
        let proxy = Setup::http(&text).start(io);
        for number in [0, 1, 1, 0, 3, 2] {
            let mut conn = support::Conn::connect(proxy.addr("in"));
            conn.send(format!("GET /{number} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
            conn.rest();
            let mut line = [0; 2048];
            let n = sinks[number % 2].recv(&mut line).unwrap();
            let line = String::from_utf8_lossy(&line[..n]);
            assert!(line.ends_with(&format!("GET /{number} end\n")), "{line}");
        }
    });
}

/// Converters that write: into the slots of captures, wherever an expression is, and to rings.
#[test]
fn values_are_captured_and_reported_on_their_way() {
    each_driver(|io| {
        let proxy = Setup::http(
            "ring r1\nformat raw\nmaxlen 1200\nsize 32768\nfrontend fe\nbind <@fe>\n\
             declare capture request len 5\ndeclare capture response len 20\n\
             http-request set-var(txn.a) req.hdr(t),capture-req(0)\n\
             http-request deny if { req.hdr(t),lower,capture-res(0) -m str none }\n\
             http-request set-var(txn.b) str(xy),debug(pre,r1)\nhttp-request set-var(txn.c) int(7),debug\n\
             log-format \"%hr %hs %[capture.req.hdr(0)] %[var(txn.a)]\"\nhttp-request return\n",
        )
        .global("stats socket <@dir>/cli level admin")
        .start(io);
        proxy.ask("GET / HTTP/1.1\r\nHost: h\r\nT: Abcdefg\r\nConnection: close\r\n\r\n");
        assert_eq!(proxy.log(), "{Abcde} {abcdefg} Abcde Abcdefg", "{io}");
        for (ring, said) in [("r1", "[debug] pre: type=str <xy>"), ("buf0", "[debug] : type=sint <7>")] {
            let mut cli = Conn::connect_unix(&proxy.path("cli"));
            cli.send(format!("show events {ring}\n"));
            let lines = cli.rest_text();
            assert!(lines.contains(said), "{ring} {io}: {lines}");
            let is_dated = lines.trim_start().starts_with("<0>2");
            assert_eq!(is_dated, ring == "buf0", "{ring} {io}: {lines}");
        }
    });
}

/// A connection in TCP mode has slots, too.
#[test]
fn bytes_of_a_connection_are_captured() {
    each_driver(|io| {
        let proxy = Setup::tcp(
            "frontend fe\nbind <@fe>\ntcp-request inspect-delay 10s\n\
             tcp-request content capture req.payload(0,4) len 3\ntcp-request content reject if { req.len ge 4 }\n\
             log-format \"%hr\"\n",
        )
        .start(io);
        let mut conn = proxy.connect();
        conn.send("ping");
        conn.ended();
        assert_eq!(proxy.log(), "{pin}", "{io}");
    });
}

/// What a request cost is counted anew for each of a connection; times are known where tasks are profiled. (They are 0 in 3.5-dev5
/// also then, but for the waiting.)
#[test]
fn a_request_tells_what_it_cost() {
    const REQUESTS: u64 = 30;
    let start = |io, profiling: &str, program: Option<&Path>| {
        let server = server();
        let format = "log-format \"%[var(txn.first)] %[cpu_calls] %[cpu_ns_tot] %[cpu_ns_avg] %[lat_ns_tot] %[lat_ns_avg]\"";
        let setup = http(&server, &format!("http-request set-var(txn.first) cpu_calls\n{format}"))
            .global(&format!("profiling.tasks {profiling}\nstats socket <@dir>/cli level admin"));
        let setup = match program {
            Some(program) => setup.program(program),
            None => setup,
        };
        (setup.start(io), server)
    };
    let figures = |proxy: &Proxy, conn: &mut Conn| -> [u64; 6] {
        conn.send(GET);
        assert_eq!(conn.response().status, 200);
        let line = proxy.log();
        let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().expect(&line)).collect();
        numbers.try_into().expect(&line)
    };
    let unprofiled = |io, program: Option<&Path>| {
        let (proxy, server) = start(io, "off", program);
        let mut conn = proxy.connect();
        for _ in 0..REQUESTS {
            let [first, calls, times @ ..] = figures(&proxy, &mut conn);
            // One before the server was asked, one when it has answered, and a few where either comes in parts.
            assert!(first == 1 && (2..REQUESTS).contains(&calls), "{first} {calls}");
            assert_eq!(times, [0; 4]);
        }
        drop((conn, server));
    };
    if let Some(reference) = support::reference() {
        unprofiled("epoll", Some(&reference));
    }
    each_driver(|io| {
        unprofiled(io, None);
        let began = Instant::now();
        let (proxy, server) = start(io, "on", None);
        let mut conn = proxy.connect();
        let mut sum = 0;
        for _ in 0..REQUESTS {
            let [_, calls, ran, ran_each, waited, waited_each] = figures(&proxy, &mut conn);
            // It still runs while this is written, so that what is asked for later is a little more.
            assert!(ran > 0 && ran_each >= ran / calls, "{ran_each} of {ran} in {calls}");
            assert_eq!(waited_each, waited / calls);
            sum += ran;
        }
        // None counts what another has cost.
        assert!(u128::from(sum) <= began.elapsed().as_nanos(), "{sum}");
        assert_eq!(proxy.tell("cli", "set profiling tasks off").trim(), "");
        assert_eq!(figures(&proxy, &mut conn)[2..], [0; 4]);
        drop(conn);
        proxy.finish(server);
    });
}

/// Which proxies pause, go on and stop, and how they are when somebody asks, as HAProxy 3.5-dev5 has it.
#[test]
fn what_becomes_of_proxies_is_in_their_logs() {
    each_driver(|io| {
        let log = receiver();
        let at = log.local_addr().unwrap();
        let text = format!(
            "frontend fe\nbind <@fe>\nlog {at} format raw local0\ndefault_backend be\n\
             frontend other\nbind <@other>\nlog {at} format raw local0\ndefault_backend be\n\
             listen silent\nbind <@silent>\nno log\nserver s 127.0.0.1:1\n\
             backend be\nlog {at} format raw local0\nserver s 127.0.0.1:1\n"
        );
        let mut proxy = Setup::http(&text).global("stats socket <@dir>/sock level admin").start(io);
        let hears = |lines: &[&str]| lines.iter().for_each(|expected| assert_eq!(line(&log), *expected));
        let stopped = |name: &str| format!("Proxy {name} stopped (cumulated conns: FE: 0, BE: 0).");
        proxy.signal(Signal::TerminalOutput);
        hears(&["Paused frontend fe.", "Paused frontend other."]);
        proxy.signal(Signal::TerminalInput);
        hears(&["Resumed frontend fe.", "Resumed frontend other."]);
        for (command, said) in [
            ("disable frontend other", "Paused frontend other.".to_owned()),
            ("enable frontend other", "Resumed frontend other.".to_owned()),
            ("shutdown frontend other", stopped("other")),
        ] {
            assert_eq!(proxy.tell("sock", command).trim(), "");
            hears(&[&said]);
            assert!(proxy.output().contains(&said), "{command}: {}", proxy.output());
        }
        proxy.signal(Signal::Hangup);
        let none = "has no servers. Conn: act(FE+BE): 0+0, 0 pend (0 unass), tot(FE+BE): 0+0.";
        for name in ["fe", "other"] {
            hears(&[
                &format!("SIGHUP received, dumping servers states for proxy {name}."),
                &format!("SIGHUP: Proxy {name} {none}"),
            ]);
        }
        hears(&[
            "SIGHUP received, dumping servers states for proxy be.",
            "SIGHUP: Server be/s is UP. Conn: 0 act, 0 pend, 0 tot.",
            "SIGHUP: Proxy be has 1 active servers and 0 backup servers available. Conn: act(FE+BE): 0+0, 0 pend (0 unass), \
             tot(FE+BE): 0+0.",
        ]);
        // What was shut down before says no second farewell.
        proxy.signal(Signal::User1);
        hears(&[&stopped("fe"), &stopped("be")]);
        assert_eq!(proxy.end(), (Some(0), None));
    });
}
