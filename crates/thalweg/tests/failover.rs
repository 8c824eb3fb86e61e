//! A load whose servers are killed and come back: what `show stat` says afterwards fits together, with this program and
//! with an installed HAProxy, and fits what the clients saw.

mod support;

use std::collections::BTreeMap;
use std::net::{SocketAddrV4, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use support::{Conn, Io, Proxy, Server, Setup, each_driver, eventually, own_ip, reference};

const SERVERS: [&str; 3] = ["a", "b", "c"];
const CLIENTS: usize = 12;
/// How often a server is killed.
const ROUNDS: usize = 9;

/// Columns in which the servers of a backend add up to it.
const SUMS: &[&str] = &[
    "qcur",
    "scur",
    "bin",
    "bout",
    "dresp",
    "econ",
    "eresp",
    "wretr",
    "wredis",
    "weight",
    "uweight",
    "act",
    "bck",
    "lbtot",
    "hrsp_1xx",
    "hrsp_2xx",
    "hrsp_3xx",
    "hrsp_4xx",
    "hrsp_other",
    "cli_abrt",
    "srv_abrt",
    "wrew",
    "connect",
    "reuse",
    "eint",
    "reqbin",
    "reqbout",
    "resbin",
    "resbout",
];

/// Columns in which they do not, and why.
const OTHERS: &[(&str, &[&str])] = &[
    ("who it is", &["pid", "iid", "sid", "type", "slim"]),
    ("times and rates", &["lastchg", "lastsess", "qtime", "ctime", "rtime", "ttime", "rate"]),
    ("the largest", &["qmax", "smax", "rate_max", "qtime_max", "ctime_max", "rtime_max", "ttime_max"]),
    ("each attempt counts for its server; looked at below", &["stot"]),
    ("an answer of the proxy's own is none of a server's; looked at below", &["hrsp_5xx", "req_tot"]),
    ("systems that are not always there", &["ssl_*"]),
];

fn matches(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |start| name.starts_with(start))
}

/// `show stat`: the rows by proxy and server, their values by column.
type Rows = BTreeMap<(String, String), BTreeMap<String, String>>;

fn statistics(proxy: &Proxy) -> Rows {
    let mut cli = Conn::connect_unix(&proxy.path("cli"));
    cli.send("show stat\n");
    let text = cli.rest_text();
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap().trim_start_matches("# ").split(',').collect();
    let row = |line: &str| {
        let values = names.iter().map(|n| n.to_string()).zip(line.split(',').map(str::to_string));
        let row: BTreeMap<String, String> = values.collect();
        ((row["pxname"].clone(), row["svname"].clone()), row)
    };
    lines.filter(|line| !line.is_empty()).map(row).collect()
}

fn serve(addr: SocketAddrV4) -> Server {
    let listener = eventually("the address is free", || TcpListener::bind(addr).ok());
    Server::listen(listener, |mut conn, _| {
        while conn.next_request().is_some() {
            if conn.try_send(support::ok("x")).is_err() {
                return;
            }
        }
    })
}

/// One request on a connection: the status of its answer, nothing when the connection ended instead.
fn ask(conn: &mut Conn) -> Option<u16> {
    conn.try_send("GET / HTTP/1.1\r\nHost: h\r\n\r\n").ok()?;
    let head = String::from_utf8(conn.try_until(b"\r\n\r\n")?).unwrap().to_lowercase();
    let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name).map(str::trim));
    conn.try_exactly(field("content-length:").and_then(|len| len.parse().ok()).unwrap_or(0))?;
    head.split(' ').nth(1)?.parse().ok()
}

/// Lets clients ask while servers are killed and come back. Returns how often each status was seen, and what
/// `show stat` says when all is over.
fn play(io: Io, program: Option<&Path>, lines: &str) -> (BTreeMap<u16, u64>, Rows) {
    let addresses: Vec<SocketAddrV4> = SERVERS
        .iter()
        .map(|_| match TcpListener::bind((own_ip(), 0)).unwrap().local_addr().unwrap() {
            std::net::SocketAddr::V4(addr) => addr,
            std::net::SocketAddr::V6(_) => unreachable!("an IPv4 address was asked for"),
        })
        .collect();
    let mut servers: Vec<Option<Server>> = addresses.iter().map(|addr| Some(serve(*addr))).collect();
    let list: String = SERVERS
        .iter()
        .zip(&addresses)
        .map(|(name, addr)| format!("server {name} {addr} maxconn 3\n"))
        .collect();
    let text = format!(
        "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nbalance roundrobin\n{lines}\n{list}"
    );
    let mut setup = Setup::http(&text).threads(2).global("stats socket <@dir>/cli level admin");
    if let Some(program) = program {
        setup = setup.program(program);
    }
    let proxy = setup.start(io);
    let (stop, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
    let client = || {
        let mut seen: BTreeMap<u16, u64> = BTreeMap::new();
        while !stop.load(Ordering::Relaxed) {
            let mut conn = proxy.connect();
            for _ in 0..7 {
                let status = ask(&mut conn);
                asked.fetch_add(1, Ordering::Relaxed);
                *seen.entry(status.unwrap_or(0)).or_default() += 1;
                if status.is_none_or(|status| status >= 400) {
                    break;
                }
            }
        }
        seen
    };
    let seen = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        // Neither state lasts for a time: it lasts until requests were made in it.
        let more = |number: usize| {
            let from = asked.load(Ordering::Relaxed);
            eventually("requests are made", || {
                (asked.load(Ordering::Relaxed) >= from + number).then_some(())
            });
        };
        for round in 0..ROUNDS {
            more(60);
            servers[round % 3] = None;
            more(60);
            servers[round % 3] = Some(serve(addresses[round % 3]));
        }
        more(60);
        stop.store(true, Ordering::Relaxed);
        let mut all: BTreeMap<u16, u64> = BTreeMap::new();
        for client in clients {
            for (status, n) in client.join().unwrap() {
                *all.entry(status).or_default() += n;
            }
        }
        all
    });
    let rows = eventually("all sessions are over", || {
        let rows = statistics(&proxy);
        let over = |name: &str| rows[&(name.to_string(), "FRONTEND".to_string())]["scur"] == "0";
        over("fe").then_some(rows)
    });
    drop(servers);
    (seen, rows)
}

/// `ours`: the program under test. The reference's columns are the same and add up in the same way, but its attempts and what its
/// clients saw do not always fit when idle connections fail under load.
fn check(name: &str, ours: bool, (seen, rows): (BTreeMap<u16, u64>, Rows)) {
    let row = |proxy: &str, server: &str| &rows[&(proxy.to_string(), server.to_string())];
    let number = |row: &BTreeMap<String, String>, column: &str| row[column].parse::<i64>().ok();
    let (backend, frontend) = (row("be", "BACKEND"), row("fe", "FRONTEND"));
    let servers = SERVERS.map(|server| row("be", server));
    let sum = |column: &str| servers.iter().map(|row| number(row, column)).sum::<Option<i64>>();
    for column in backend.keys() {
        let (Some(all), Some(sum)) = (number(backend, column), sum(column)) else { continue };
        if SUMS.contains(&column.as_str()) {
            assert_eq!(sum, all, "{name}: {column}");
        } else {
            let known = OTHERS.iter().any(|(_, columns)| columns.iter().any(|p| matches(p, column)));
            assert!(known, "{name}: nobody says what the column {column} is");
        }
    }
    if !ours {
        return;
    }
    let of = |row, column| number(row, column).unwrap_or_else(|| panic!("{name}: no number in {column}"));
    // Each attempt beyond the first is a retry or a redispatch.
    let attempts = of(backend, "stot") + of(backend, "wretr") + of(backend, "wredis");
    assert_eq!(sum("stot"), Some(attempts), "{name}");
    // What the clients saw is what frontend and backend counted.
    let statuses =
        |class: u16| seen.iter().filter(|(s, _)| *s / 100 == class).map(|(_, n)| *n as i64).sum::<i64>();
    for row in [backend, frontend] {
        assert_eq!(
            [of(row, "hrsp_2xx"), of(row, "hrsp_5xx")],
            [statuses(2), statuses(5)],
            "{name}: {seen:?}"
        );
        assert_eq!(of(row, "scur"), 0, "{name}");
    }
    assert_eq!(sum("hrsp_2xx"), Some(statuses(2)), "{name}: {seen:?}");
    assert_eq!(sum("scur"), Some(0), "{name}");
    assert_eq!(sum("used_conn_cur"), Some(0), "{name}");
    for server in servers {
        assert!(of(server, "smax") <= of(server, "slim"), "{name}: more than the limit");
    }
    // Also those that ended without an answer.
    assert_eq!(of(frontend, "req_tot"), seen.values().sum::<u64>() as i64, "{name}: {seen:?}");
    assert!(statuses(2) > 0, "{name}");
}

#[test]
fn the_numbers_of_servers_that_come_and_go_fit_together() {
    let settings = [
        "option redispatch 1\nretries 3",
        "retries 1\nhttp-reuse always\nretry-on conn-failure empty-response",
        "option redispatch\nretries 2\nhttp-reuse never",
        "option http-server-close\noption redispatch 1",
    ];
    let reference = reference();
    for lines in settings {
        // A retry on the same server would wait for a second. Nobody waits too long: every request gets a server.
        let lines = format!("{lines}\ntimeout connect 50ms\ntimeout queue 20s");
        each_driver(|io| check(&format!("{lines:?} over {io}"), true, play(io, None, &lines)));
        if let Some(reference) = &reference {
            check(&format!("{lines:?} of the reference"), false, play("epoll", Some(reference), &lines));
        }
    }
}

/// How often a server that always fails is asked for 60 requests, with this line in its backend.
fn attempts_with(io: Io, line: &str) -> usize {
    const REQUESTS: usize = 60;
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let server = Server::http(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n".into()
    });
    let text = format!(
        "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nretries 3\nretry-on 503\n{line}\nserver a {}\n",
        server.addr
    );
    let proxy = Setup::http(&text).threads(1).start(io);
    let mut conn = proxy.connect();
    for _ in 0..REQUESTS {
        conn.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(conn.response().status, 503);
    }
    asked.load(Ordering::SeqCst) - REQUESTS
}

/// A budget bounds what is sent again, whatever `retries` allows.
#[test]
fn a_budget_bounds_what_is_sent_again() {
    each_driver(|io| {
        assert_eq!(attempts_with(io, ""), 180, "over {io}");
        // Ten at first, and a tenth of sixty; one more for each second that this takes.
        let again = attempts_with(io, "retry-budget 10");
        assert!((15..=60).contains(&again), "over {io}: {again}");
    });
}
