//! `show stat` after scripted traffic, column by column beside an installed HAProxy: requests that fail in every way,
//! servers that are dead, retries, redispatches, queues, listeners of their own (`option socket-stats`).

mod support;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use support::h2::Client;
use support::{Conn, Io, Proxy, Request, Server, Setup, each_driver, eventually, nobody, ok, reference};

/// Columns that are not compared, and why.
const NOT_COMPARED: &[(&str, &str)] = &[
    ("addr", "another one in each run"),
    ("slim", "derived from the limit on files where nothing sets it"),
    ("lastsess", "seconds"),
    ("lastchg", "seconds"),
    ("downtime", "seconds"),
    ("rate", "of the last second"),
    ("req_rate", "of the last second"),
    ("conn_rate", "of the last second"),
    ("rate_max", "over seconds of the clock; the reference's slide"),
    ("req_rate_max", "over seconds of the clock; the reference's slide"),
    ("conn_rate_max", "over seconds of the clock; the reference's slide"),
    ("qtime", "milliseconds"),
    ("ctime", "milliseconds"),
    ("rtime", "milliseconds"),
    ("ttime", "milliseconds"),
    ("qtime_max", "milliseconds"),
    ("ctime_max", "milliseconds"),
    ("rtime_max", "milliseconds"),
    ("ttime_max", "milliseconds"),
    ("bin", "bytes as received; the reference counts its internal form"),
    ("bout", "bytes as received; the reference counts its internal form"),
    ("reqbin", "bytes as received; the reference counts its internal form"),
    ("reqbout", "bytes as received; the reference counts its internal form"),
    ("resbin", "bytes as received; the reference counts its internal form"),
    ("resbout", "bytes as received; the reference counts its internal form"),
    ("h1_bytes_in", "bytes as received; the reference counts its internal form"),
    ("h1_bytes_out", "bytes as received; the reference counts its internal form"),
    ("need_conn_est", "an estimate of the reference's own"),
    ("idle_conn_cur", "it depends on when the server closes"),
    ("safe_conn_cur", "it depends on when the server closes"),
    ("srv_icur", "it depends on when the server closes"),
    ("h1_open_connections", "it depends on when the server closes"),
    ("smax", "a session may end after the next one began"),
];

type Rows = BTreeMap<String, BTreeMap<String, String>>;

fn cli(proxy: &Proxy, command: &str) -> String {
    proxy.tell("sock", command)
}

fn rows(proxy: &Proxy) -> Rows {
    let text = cli(proxy, "show stat");
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or("").trim_start_matches("# ").split(',').collect();
    let row = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let of = names.iter().zip(&fields).map(|(n, v)| ((*n).to_owned(), (*v).to_owned()));
        (format!("{}/{}", fields[0], fields[1]), of.collect())
    };
    lines.filter(|l| !l.is_empty()).map(row).collect()
}

/// The rows once nothing is going on.
fn rows_at_rest(proxy: &Proxy) -> Rows {
    eventually("nothing goes on", || {
        let rows = rows(proxy);
        let busy = |row: &BTreeMap<String, String>| row["scur"] != "0" && !row["scur"].is_empty();
        (!rows.values().any(busy)).then_some(rows)
    })
}

/// What the scripted servers do, by the target of the request.
fn answer(request: &Request) -> String {
    let target = request.head.line.split(' ').nth(1).unwrap_or("");
    match target {
        "/500" => "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n".into(),
        "/301" => "HTTP/1.1 301 Moved\r\nContent-Length: 0\r\n\r\n".into(),
        "/interim" => format!("HTTP/1.1 100 Continue\r\n\r\n{}", ok("x")),
        _ => ok("abc"),
    }
}

struct Scenario {
    name: &'static str,
    /// Lines of the frontend and of the backend.
    frontend: &'static str,
    backend: &'static str,
    /// Servers by name: true for one that answers, and options.
    servers: &'static [(&'static str, bool, &'static str)],
    targets: &'static [&'static str],
}

const BOTH: &[(&str, bool, &str)] = &[("a", true, ""), ("b", true, "")];
const ONE_DEAD: &[(&str, bool, &str)] = &[("a", false, ""), ("b", true, "")];
const ALL_DEAD: &[(&str, bool, &str)] = &[("a", false, ""), ("b", false, "")];

const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "all is well",
        frontend: "",
        backend: "",
        servers: BOTH,
        targets: &["/", "/500", "/301", "/", "/"],
    },
    Scenario {
        name: "one server is dead, at once to the other",
        frontend: "",
        backend: "option redispatch 1",
        servers: ONE_DEAD,
        targets: &["/", "/", "/", "/"],
    },
    Scenario {
        name: "one server is dead, to the other at the end",
        frontend: "",
        backend: "retries 2\noption redispatch",
        servers: ONE_DEAD,
        targets: &["/", "/", "/"],
    },
    Scenario {
        name: "one server is dead, the same one again",
        frontend: "",
        backend: "retries 2",
        servers: ONE_DEAD,
        targets: &["/", "/", "/", "/"],
    },
    Scenario {
        name: "all servers are dead",
        frontend: "",
        backend: "option redispatch 1\nretries 2",
        servers: ALL_DEAD,
        targets: &["/", "/"],
    },
    Scenario {
        name: "no server is in service",
        frontend: "",
        backend: "",
        servers: &[("a", true, "disabled")],
        targets: &["/", "/"],
    },
    Scenario {
        name: "a cookie names a dead server",
        frontend: "",
        backend: "cookie S insert\nretries 1",
        servers: &[("a", false, "cookie a"), ("b", true, "cookie b")],
        targets: &["/", "/"],
    },
    Scenario {
        name: "answers of our own, and denials",
        frontend: "http-request deny if { path /deny }\nhttp-request return status 200 if { path /return }\n\
                   http-request redirect location / if { path /redirect }\nhttp-request reject if { path /reject }\n\
                   monitor-uri /monitor\nhttp-response deny if { status 301 }",
        backend: "http-request deny if { path /late }\nhttp-response deny if { status 500 }",
        servers: BOTH,
        targets: &["/deny", "/return", "/redirect", "/reject", "/monitor", "/301", "/late", "/500", "/"],
    },
    Scenario {
        name: "listeners have counters of their own",
        frontend: "option socket-stats\ntcp-request connection reject if { dst_port 1 }\nhttp-request deny if { path /deny }\n\
                   http-response deny if { status 500 }\nhttp-request return status 200 if { path /return }",
        backend: "",
        servers: BOTH,
        targets: &["/", "/deny", "/500", "/return", "/"],
    },
];

fn play(io: Io, program: Option<&Path>, scenario: &Scenario) -> Rows {
    let server = Server::http(answer);
    let mut servers = String::new();
    for (name, lives, options) in scenario.servers {
        let addr = if *lives { server.addr } else { nobody() };
        let _ = writeln!(servers, "server {name} {addr} {options}");
    }
    let text = format!(
        "global\nnbthread 1\nstats socket <@dir>/sock level admin\ndefaults\nmode http\ntimeout connect 20s\n\
         timeout client 20s\ntimeout server 20s\nfrontend fe\nbind <@fe> name first\nbind <@other> name second\n{}\ndefault_backend be\n\
         backend be\nbalance roundrobin\n{}\n{servers}",
        scenario.frontend, scenario.backend
    );
    let mut setup = Setup::file(&text);
    if let Some(program) = program {
        setup = setup.program(program);
    }
    let proxy = setup.start(io);
    cli(&proxy, "clear counters all");
    for target in scenario.targets {
        let mut conn = proxy.connect();
        conn.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\nCookie: S=a\r\nConnection: close\r\n\r\n"));
        conn.ended();
    }
    // What is no request, and connections without one.
    for bytes in ["BAD\r\n\r\n", "GET / HT"] {
        let mut conn = proxy.connect();
        conn.send(bytes);
        conn.half_close();
        conn.ended();
    }
    rows_at_rest(&proxy)
}

#[test]
fn every_column_is_what_the_reference_shows() {
    let Some(reference) = reference() else { return };
    // At the same time: most of it is the second between two attempts on a server that is dead. (A shorter `timeout connect`
    // would shorten that, and end attempts on a busy machine.)
    let play_all = |io: Io, program: Option<&Path>| -> Vec<Rows> {
        thread::scope(|scope| {
            let plays: Vec<_> =
                SCENARIOS.iter().map(|scenario| scope.spawn(move || play(io, program, scenario))).collect();
            plays.into_iter().map(|play| play.join().unwrap()).collect()
        })
    };
    let wanted = play_all("epoll", Some(&reference));
    each_driver(|io| {
        let mut failures = String::new();
        for ((scenario, got), wanted) in SCENARIOS.iter().zip(play_all(io, None)).zip(&wanted) {
            assert_eq!(got.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>());
            for (name, columns) in &got {
                for (column, value) in columns {
                    let skipped = NOT_COMPARED.iter().any(|(skipped, _)| skipped == column);
                    if let Some(wanted) = wanted[name].get(column).filter(|w| !skipped && *w != value) {
                        let _ =
                            writeln!(failures, "{}: {name} {column}: {value}, not {wanted}", scenario.name);
                    }
                }
            }
        }
        assert!(failures.is_empty(), "over {io}:\n{failures}");
    });
}

/// Servers that are killed and started again while requests go on.
#[test]
fn the_sums_of_the_servers_are_the_backends_numbers() {
    each_driver(|io| {
        let start = |addr| {
            let listener = eventually("the address is free", || std::net::TcpListener::bind(addr).ok());
            Server::listen(listener, |mut conn, _| {
                while let Some(request) = conn.next_request() {
                    if conn.try_send(answer(&request)).is_err() {
                        return;
                    }
                }
            })
        };
        let any = |_| std::net::SocketAddrV4::new(support::own_ip(), 0);
        let mut servers: Vec<Server> = (0..3).map(|n| start(any(n))).collect();
        let mut lines = String::new();
        for (n, server) in servers.iter().enumerate() {
            let _ = writeln!(lines, "server s{n} {}", server.addr);
        }
        let text = format!(
            "frontend fe\nbind <@fe>\nno log\ndefault_backend be\nbackend be\nbalance roundrobin\noption redispatch 1\n\
             retry-on conn-failure empty-response\nretries 2\ntimeout connect 20ms\n{lines}"
        );
        let proxy = Setup::http(&text).global("stats socket <@dir>/sock level admin").threads(2).start(io);
        let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let clients: Vec<_> = (0..4)
            .map(|_| {
                let (addr, stop, asked) = (proxy.addr("fe"), Arc::clone(&stop), Arc::clone(&asked));
                thread::spawn(move || {
                    while !stop.load(Ordering::SeqCst) {
                        let mut conn = Conn::connect(addr);
                        conn.send("GET / HTTP/1.1\r\nHost: h\r\n\r\nGET /500 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
                        conn.ended();
                        asked.fetch_add(1, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        for round in 0..12 {
            let before = asked.load(Ordering::SeqCst);
            eventually("requests go on", || (asked.load(Ordering::SeqCst) > before + 20).then_some(()));
            let addr = servers[round % 3].addr;
            drop(servers.remove(round % 3));
            let before = asked.load(Ordering::SeqCst);
            eventually("requests go on", || (asked.load(Ordering::SeqCst) > before + 20).then_some(()));
            servers.insert(round % 3, start(addr));
        }
        stop.store(true, Ordering::SeqCst);
        clients.into_iter().for_each(|client| client.join().unwrap());
        let rows = rows_at_rest(&proxy);
        let number = |row: &str, column: &str| rows[row][column].parse::<u64>().unwrap_or(0);
        for column in [
            "bin", "bout", "reqbout", "resbout", "econ", "eresp", "wretr", "wredis", "lbtot", "connect",
            "reuse", "cli_abrt", "srv_abrt", "dresp",
        ] {
            let sum: u64 = (0..3).map(|n| number(&format!("be/s{n}"), column)).sum();
            assert_eq!(sum, number("be/BACKEND", column), "{column} over {io}: {rows:#?}");
        }
        assert!(number("be/BACKEND", "wredis") > 0, "no server was missed");
        assert_eq!(number("be/BACKEND", "stot"), number("fe/FRONTEND", "req_tot"));
    });
}

/// Heads and bodies, in each direction and on each side.
#[test]
fn bytes_are_counted_on_all_four_ways() {
    each_driver(|io| {
        let server = Server::http(|_| ok(&"y".repeat(3000)));
        let text = format!(
            "frontend fe\nbind <@fe>\nno log\ndefault_backend be\nbackend be\nserver a {}\n",
            server.addr
        );
        let proxy = Setup::http(&text).global("stats socket <@dir>/sock level admin").start(io);
        let head = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5000\r\n\r\n";
        let body = "x".repeat(5000);
        assert_eq!(proxy.ask(&format!("{head}{body}")).text().len(), 3000);
        let answer = ok(&"y".repeat(3000)).len() as u64;
        let rows = rows_at_rest(&proxy);
        let number = |row: &str, column: &str| rows[row][column].parse::<u64>().unwrap_or(0);
        let sent = (head.len() + body.len()) as u64;
        for row in ["fe/FRONTEND", "be/BACKEND", "be/a"] {
            let counted = ["reqbin", "reqbout", "resbin", "resbout"].map(|column| number(row, column));
            assert_eq!(counted, [sent, sent, answer, answer], "{row} over {io}");
        }
    });
}

/// The largest rates stay what they were, whether anything comes after them or not, on all threads together.
#[test]
fn the_largest_rates_stay() {
    each_driver(|io| {
        let text = "frontend fe\nbind <@fe>\nno log\nhttp-request return status 200\nlisten tcp\nmode tcp\nno log\nbind <@tcp>\n\
                    tcp-request content reject\n";
        let proxy = Setup::http(text).global("stats socket <@dir>/sock level admin").threads(2).start(io);
        for _ in 0..20 {
            proxy.ask("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
            Conn::connect(proxy.addr("tcp")).ended();
        }
        let number = |rows: &Rows, row: &str, column: &str| rows[row][column].parse::<u64>().unwrap_or(0);
        let largest = |rows: &Rows| {
            let of = |row: &str, columns: &[&str]| -> Vec<u64> {
                columns.iter().map(|c| number(rows, row, c)).collect()
            };
            [
                of("fe/FRONTEND", &["rate_max", "req_rate_max", "conn_rate_max"]),
                of("tcp/FRONTEND", &["rate_max", "conn_rate_max"]),
            ]
            .concat()
        };
        let burst = largest(&rows(&proxy));
        assert!(burst.iter().all(|rate| *rate >= 4), "over {io}: {burst:?}");
        let is_quiet =
            |rows: &Rows| number(rows, "fe/FRONTEND", "rate") + number(rows, "tcp/FRONTEND", "rate") == 0;
        eventually("nothing happened for two seconds", || is_quiet(&rows(&proxy)).then_some(()));
        assert_eq!(largest(&rows(&proxy)), burst, "over {io}");
        for _ in 0..3 {
            proxy.ask("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        }
        assert_eq!(largest(&rows(&proxy)), burst, "over {io}");
    });
}

/// `show info` counts streams: each of a connection of HTTP/2, and those of TCP. Whoever asks is one, too.
#[test]
fn streams_are_counted_one_by_one() {
    let text = "frontend fe\nbind <@fe> proto h2\nno log\ntimeout tarpit 60s\nhttp-request tarpit\nlisten tcp\nmode tcp\nno log\n\
                bind <@tcp>\ntcp-request inspect-delay 60s\ntcp-request content accept if WAIT_END\n";
    let count = |setup: Setup, io: Io| {
        let proxy = setup.start(io);
        let mut client = Client::new(proxy.connect());
        (0..5).for_each(|_| _ = client.open("GET", "/", &[], true));
        client.flush();
        let _tcp = Conn::connect(proxy.addr("tcp"));
        let info = |name: &str| {
            let text = cli(&proxy, "show info");
            let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            found.and_then(|number| number.parse::<u64>().ok()).expect("a number")
        };
        eventually("six streams are there", || (info("CurrStreams") == 7).then_some(()));
        // Whoever asks again is one more.
        let (streams, requests) = (info("CumStreams"), info("CumReq"));
        assert_eq!((streams + 1, streams > 6), (requests, true), "over {io}");
    };
    let setup = || Setup::http(text).global("stats socket <@dir>/sock level admin");
    each_driver(|io| count(setup(), io));
    if let Some(reference) = reference() {
        count(setup().program(&reference), "epoll");
    }
}
