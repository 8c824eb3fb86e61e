//! Ten servers of which one is slow, fails, or refuses connections: what clients notice, for each way to choose servers.
//!
//! `make unlike-servers` plays it at length with the optimised build and prints a table, with HAProxy and nginx beside where they are
//! installed. `make test` plays it in short, and looks at errors only: times are the machine's.

mod support;

use std::io::Write;
use std::net::SocketAddrV4;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use support::{Conn, Directory, Proxy, Server, Setup, eventually, free_port, nobody, ok, own_ip, reference};

const SERVERS: usize = 10;
const CLIENTS: usize = 16;

/// How long a server takes that is as it should be, and how long the slow one.
const USUAL: Duration = Duration::from_millis(20);
const SLOW: Duration = Duration::from_millis(200);

const FAILURE: &str = "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n";

/// What is wrong with one server of the ten.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Trouble {
    Nothing,
    Slow,
    /// Every fifth request fails.
    Fails,
    Refuses,
}

const TROUBLES: [Trouble; 4] = [Trouble::Nothing, Trouble::Slow, Trouble::Fails, Trouble::Refuses];

/// Ways to choose servers, by the lines of the backend.
const WAYS: [(&str, &str); 7] = [
    ("roundrobin", "balance roundrobin"),
    ("leastconn", "balance leastconn"),
    ("ewma", "balance ewma"),
    (
        "roundrobin, outlier-detection",
        "balance roundrobin\noption outlier-detection requests 20 interval 500ms latency 3",
    ),
    (
        "ewma, outlier-detection",
        "balance ewma\noption outlier-detection requests 20 interval 500ms latency 3",
    ),
    ("roundrobin, hedge p90", "balance roundrobin\noption hedge p90\nretry-budget 20"),
    ("roundrobin, hedge 60ms", "balance roundrobin\noption hedge 60ms\nretry-budget 20"),
];

/// Ten servers.
struct Servers {
    addresses: Vec<SocketAddrV4>,
    _running: Vec<Server>,
}

fn servers(trouble: Trouble) -> Servers {
    let usual = || Server::http(|_| answer_after(USUAL));
    let first = match trouble {
        Trouble::Nothing => Some(usual()),
        Trouble::Slow => Some(Server::http(|_| answer_after(SLOW))),
        Trouble::Fails => {
            let asked = AtomicUsize::new(0);
            Some(Server::http(move |_| match asked.fetch_add(1, Ordering::Relaxed) % 5 {
                0 => FAILURE.into(),
                _ => answer_after(USUAL),
            }))
        }
        Trouble::Refuses => None,
    };
    let address = first.as_ref().map_or_else(nobody, |server| server.addr);
    let running: Vec<Server> = first.into_iter().chain((1..SERVERS).map(|_| usual())).collect();
    let others = running.iter().map(|server| server.addr).filter(|addr| *addr != address);
    Servers { addresses: [address].into_iter().chain(others).collect(), _running: running }
}

fn answer_after(time: Duration) -> String {
    thread::sleep(time);
    ok("x")
}

/// What clients noticed.
struct Noticed {
    /// Microseconds from a request to its answer, in order.
    times: Vec<u128>,
    errors: usize,
}

impl Noticed {
    fn percentile(&self, percent: usize) -> f64 {
        self.times[(self.times.len() * percent / 100).min(self.times.len() - 1)] as f64 / 1000.0
    }
}

/// Clients that ask one request after the other, each on its connection, after as many that are not counted.
fn ask(address: SocketAddrV4, requests: usize) -> Noticed {
    let client = || {
        let mut conn = Conn::connect(address);
        let mut noticed = Noticed { times: Vec::new(), errors: 0 };
        for n in 0..2 * requests / CLIENTS {
            let began = Instant::now();
            conn.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
            let status = conn.response().status;
            if n >= requests / CLIENTS {
                noticed.times.push(began.elapsed().as_micros());
                noticed.errors += usize::from(status != 200);
            }
        }
        noticed
    };
    let all = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect::<Vec<_>>()
    });
    let errors = all.iter().map(|one| one.errors).sum();
    let mut times: Vec<u128> = all.into_iter().flat_map(|one| one.times).collect();
    times.sort_unstable();
    Noticed { times, errors }
}

/// A proxy of this kind with ten servers.
fn proxy(program: Option<&std::path::Path>, lines: &str, servers: &Servers) -> Proxy {
    let list: String =
        servers.addresses.iter().enumerate().map(|(n, addr)| format!("server s{n} {addr}\n")).collect();
    let text = format!(
        "frontend fe\nbind <@fe>\nno log\ndefault_backend be\nbackend be\nretries 3\noption redispatch 1\n{lines}\n{list}"
    );
    let setup = Setup::http(&text).threads(1);
    match program {
        Some(program) => setup.program(program).start("epoll"),
        None => setup.start("epoll"),
    }
}

/// nginx, ended with this.
struct Nginx(Child, #[expect(dead_code, reason = "its files go away with it")] Directory);

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn nginx(way: &str, servers: &Servers) -> Option<(Nginx, SocketAddrV4)> {
    let directory = Directory::new();
    let address = free_port(own_ip());
    let list: String = servers.addresses.iter().map(|addr| format!("server {addr};")).collect();
    let place = directory.0.display();
    let text = format!(
        "daemon off; master_process off; worker_processes 1; pid {place}/pid; error_log /dev/null;\n\
         events {{ worker_connections 1000; }}\n\
         http {{ access_log off; client_body_temp_path {place}/b; proxy_temp_path {place}/p; fastcgi_temp_path {place}/f;\n\
         uwsgi_temp_path {place}/u; scgi_temp_path {place}/s; keepalive_requests 1000000;\n\
         upstream be {{ {way} {list} keepalive 100; }}\n\
         server {{ listen {address}; location / {{ proxy_pass http://be; proxy_http_version 1.1;\n\
         proxy_set_header Connection \"\"; }} }} }}\n"
    );
    let file = directory.0.join("nginx.conf");
    std::fs::File::create(&file).and_then(|mut file| file.write_all(text.as_bytes())).expect("a file");
    let started = Command::new("nginx").arg("-c").arg(&file).stderr(Stdio::null()).spawn().ok()?;
    let nginx = Nginx(started, directory);
    eventually("nginx listens", || std::net::TcpStream::connect(address).ok());
    Some((nginx, address))
}

/// The requests that are counted of each measurement at length, if the variable asks for that.
fn at_length() -> Option<usize> {
    std::env::var("UNLIKE_SERVERS").ok()?.parse().ok()
}

fn row(name: &str, mut measure: impl FnMut(&Servers) -> Option<Noticed>) {
    let cells: Vec<String> = TROUBLES
        .iter()
        .filter_map(|trouble| {
            let noticed = measure(&servers(*trouble))?;
            let (p50, p99, errors) = (noticed.percentile(50), noticed.percentile(99), noticed.errors);
            Some(format!(" {p50:.1} / {p99:.1}, {errors} |"))
        })
        .collect();
    if !cells.is_empty() {
        println!("| {name} |{}", cells.concat());
    }
}

#[test]
fn what_clients_notice() {
    let Some(requests) = at_length() else { return in_short() };
    println!("median / p99 in milliseconds, errors of {requests} requests\n| | {TROUBLES:?} |");
    for (name, lines) in WAYS {
        row(name, |servers| Some(ask(proxy(None, lines, servers).addr("fe"), requests)));
    }
    for (name, lines) in &WAYS[..2] {
        let Some(program) = reference() else { break };
        row(&format!("HAProxy, {name}"), |servers| {
            Some(ask(proxy(Some(&program), lines, servers).addr("fe"), requests))
        });
    }
    for (name, way) in [("nginx, round robin", ""), ("nginx, least_conn", "least_conn;")] {
        row(name, |servers| nginx(way, servers).map(|(_nginx, address)| ask(address, requests)));
    }
}

/// Who cannot be connected to is tried elsewhere, and nobody notices.
fn in_short() {
    for (name, lines) in WAYS {
        for trouble in [Trouble::Slow, Trouble::Refuses] {
            let servers = servers(trouble);
            let noticed = ask(proxy(None, lines, &servers).addr("fe"), 10 * CLIENTS);
            assert_eq!(noticed.errors, 0, "{name}, {trouble:?}");
        }
    }
}
