//! Which server each request gets, beside an installed HAProxy: the same configuration, the same requests in the same
//! order, for every algorithm and every way to hash. Configurations go the whole way from their text to the server, so
//! that no step between the keyword and the algorithm is left out.

mod support;

use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::path::Path;
use std::thread;

use support::{Conn, Io, Server, Setup, each_driver, nobody, own_ip, reference};

/// The servers: one socket that listens on every loopback address, and answers with the one it was reached at.
struct Farm {
    port: u16,
    ips: Vec<Ipv4Addr>,
}

const SERVERS: usize = 6;

impl Farm {
    fn start() -> Farm {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                thread::spawn(move || answer(stream));
            }
        });
        Farm { port, ips: (0..SERVERS).map(|_| own_ip()).collect() }
    }

    fn addr(&self, n: usize) -> SocketAddrV4 {
        SocketAddrV4::new(self.ips[n], self.port)
    }

    /// The number of the server with this address.
    fn number(&self, ip: &str) -> usize {
        self.ips.iter().position(|own| own.to_string() == ip).unwrap_or(SERVERS)
    }
}

/// Answers requests, and what is not HTTP by its own address and the end.
fn answer(mut stream: TcpStream) {
    let ip = stream.local_addr().unwrap().ip().to_string();
    let _ = stream.set_nodelay(true);
    let mut have = Vec::new();
    let mut chunk = [0u8; 16384];
    loop {
        match stream.read(&mut chunk) {
            Ok(n) if n > 0 => have.extend_from_slice(&chunk[..n]),
            _ => return,
        }
        if !have.starts_with(b"GET ") && !have.starts_with(b"POST ") {
            let _ = stream.write_all(ip.as_bytes());
            return;
        }
        while let Some(end) = have.windows(4).position(|w| w == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&have[..end]).to_lowercase();
            let length = head.lines().find_map(|l| l.strip_prefix("content-length:")?.trim().parse().ok());
            let total = end + 4 + length.unwrap_or(0);
            if have.len() < total {
                break;
            }
            have.drain(..total);
            let response = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{ip}", ip.len());
            if stream.write_all(response.as_bytes()).is_err() {
                return;
            }
        }
    }
}

/// Lines of `server`, by the kind of farm.
fn servers(farm: &Farm, kind: &str) -> String {
    let options: [&str; SERVERS] = match kind {
        "plain" => ["", "", "", "", "", ""],
        "weights" => ["weight 3", "weight 1", "weight 2", "weight 5", "weight 4", "weight 6"],
        "skewed" => ["weight 1", "weight 2", "weight 5", "weight 10", "weight 31", "weight 256"],
        "ids" => ["id 70", "id 3", "id 20", "id 4097", "id 65536", "id 1000000"],
        // The last one takes no part, nor do those that are out of service.
        "states" => ["weight 3", "weight 0", "disabled", "weight 2", "backup", "weight 1"],
        "backups" => ["disabled", "backup", "disabled", "backup weight 3", "disabled", "backup"],
        "one" => ["disabled", "disabled", "", "disabled", "disabled", "disabled"],
        "id32" => [
            "hash-key id32 id 70",
            "hash-key id32 id 1",
            "hash-key id32 id 2",
            "hash-key id32 id 16777216",
            "hash-key id32 id 99999",
            "hash-key id32 id 4294967",
        ],
        "addr" => ["hash-key addr"; SERVERS],
        "addr-port" => ["hash-key addr-port weight 7"; SERVERS],
        "guid" => [
            "hash-key guid guid a:1",
            "hash-key guid guid a:2",
            "hash-key guid guid other",
            "hash-key guid guid x.y_z",
            "hash-key guid",
            "hash-key guid guid a:6",
        ],
        other => panic!("{other}"),
    };
    let mut text = String::new();
    for (n, options) in options.iter().enumerate() {
        // Names of guids are unique in the process.
        let _ = writeln!(text, "server s{n} {} {options}", farm.addr(n));
    }
    text
}

struct Case {
    name: String,
    lines: String,
    farm: &'static str,
}

const FUNCTIONS: [&str; 9] =
    ["", "sdbm", "sdbm avalanche", "djb2", "djb2 avalanche", "wt6", "wt6 avalanche", "crc32", "none"];

const KEYS: [&str; 19] = [
    "source",
    "uri",
    "uri whole",
    "uri path-only",
    "uri whole path-only",
    "uri len 7",
    "uri depth 1",
    "uri depth 2",
    "uri depth 3 len 12",
    "uri depth 1 whole",
    "uri path-only depth 2",
    "url_param id",
    "url_param id check_post",
    "hdr(x-key)",
    "hdr(host)",
    "hdr(Host) use_domain_only",
    "hash req.hdr(x-key)",
    "hash req.hdr_ip(x-src),ipmask(24)",
    "hash path,lower",
];

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |lines: String, farm: &'static str| {
        let name = format!("b{}", cases.len());
        cases.push(Case { name, lines, farm });
    };
    // Every key with every function, on a farm that shows the most.
    for key in KEYS {
        for method in ["map-based", "consistent"] {
            for function in FUNCTIONS {
                let functions_matter =
                    matches!(key, "source" | "uri" | "hash req.hdr(x-key)" | "url_param id");
                if functions_matter || matches!(function, "" | "djb2 avalanche") {
                    add(format!("balance {key}\nhash-type {method} {function}"), "weights");
                }
            }
        }
    }
    // Every farm, with one key.
    for farm in ["plain", "skewed", "ids", "states", "backups", "one", "id32", "addr", "addr-port", "guid"] {
        for method in ["map-based", "consistent"] {
            if farm == "guid" && method == "map-based" {
                continue;
            }
            add(format!("balance hash req.hdr(x-key)\nhash-type {method} crc32"), farm);
            add(format!("balance hdr(x-sometimes)\nhash-type {method}"), farm);
        }
        if !matches!(farm, "guid" | "id32" | "addr" | "addr-port") {
            for algorithm in ["roundrobin", "static-rr", "first"] {
                add(format!("balance {algorithm}"), farm);
            }
            add("balance roundrobin\noption allbackups".into(), farm);
        }
    }
    for algorithm in ["roundrobin", "static-rr"] {
        add(format!("balance {algorithm}"), "weights");
    }
    cases
}

/// Requests that differ in everything a key may be made of.
fn requests() -> Vec<String> {
    let paths = [
        "/",
        "/a",
        "/a/",
        "/a/b",
        "/a/b/",
        "/a/b/c",
        "/a/b/c?id=7",
        "/a/b?x=/1/2&id=7",
        "/a?id=",
        "/a?id",
        "/a?xid=9",
        "/a?x=1;id=3",
        "/a?ID=8",
        "/A/B",
        "/long/directory/names/and/many/of/them?id=a%20b&id=2",
        "//double//slash",
        "/?id=127.0.0.1",
        "/p?id=-1&z",
        "/p?z&id=4294967299",
        "http://www.example.com/a/b/c",
        "http://www.example.com/a/b/c?id=7",
        "http://www.example.com",
        "http://other:8080/a",
        "/x?id=1",
        "/x?&&id=44",
    ];
    let hosts = [
        "www.example.com",
        "example.com",
        "localhost",
        "a.b.c.d:80",
        "127.0.0.1",
        "[::1]:80",
        "www.example.com.",
        "x:",
        ".com",
        "haproxy.1wt.eu:8000",
    ];
    let sources =
        ["10.1.2.3", "10.1.3.4", "192.168.255.1", "2001:db8::1", "2001:db8:1:2:3:4:5:6", "::", "1.1.1.1"];
    let mut out = Vec::new();
    for (i, path) in paths.iter().enumerate() {
        let (host, source) = (hosts[i % hosts.len()], sources[i % sources.len()]);
        let host = if path.starts_with("http") { path.split('/').nth(2).unwrap() } else { host };
        let sometimes = if i % 3 == 0 { String::new() } else { format!("X-Sometimes: {i}\r\n") };
        out.push(format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nX-Src: {source}\r\nX-Key: {}\r\n{sometimes}",
            ["k", "", "key-12", "1234567890", "ab,cd"][i % 5].repeat(i % 4 + 1),
        ));
    }
    for (i, body) in ["id=5", "x=1&id=6", "", "id=", "a=b", "x&&id=8", "id=1 2"].iter().enumerate() {
        out.push(format!(
            "POST /post{i} HTTP/1.1\r\nHost: h{i}\r\nX-Src: 10.0.0.{i}\r\nX-Key: p{i}\r\nContent-Length: {}\r\nX-Body: {body}\r\n",
            body.len()
        ));
    }
    out
}

/// Algorithms of TCP backends. Those that look at a request take turns there.
const TCP_KEYS: [&str; 9] = [
    "rdp-cookie",
    "rdp-cookie(msts)",
    "rdp-cookie(MSTSHASH)",
    "rdp-cookie(other)",
    "source",
    "hash src,ipmask(24)",
    "uri",
    "hdr(host)",
    "url_param id",
];

/// What TCP clients send first: RDP connection requests among other things.
fn greetings() -> Vec<Vec<u8>> {
    let cookies = [
        "Cookie: mstshash=alice",
        "Cookie: mstshash=bob",
        "cookie:MSTSHASH=carol",
        "Cookie: msts=3640205228.15629.0000",
        "Cookie: mstshash=",
        "Cookie: other=x",
        "Cookie: mstshash",
        "Nothing: at all",
    ];
    let rdp = cookies.iter().map(|cookie| {
        let text = format!("{cookie}\r\n");
        let len = u8::try_from(11 + text.len()).unwrap();
        let mut out = vec![3, 0, 0, len, len - 5, 0xe0, 0, 0, 0, 0, 0];
        out.extend_from_slice(text.as_bytes());
        out
    });
    rdp.chain([b"hello, this is no RDP".to_vec(), b"\x03\x00no length".to_vec()]).collect()
}

/// The servers that TCP clients get: for each algorithm, with each method, those of each greeting twice.
fn play_tcp(io: Io, program: Option<&Path>, farm: &Farm) -> Vec<(String, Vec<usize>)> {
    let mut text = String::from(
        "global\nnbthread 1\ndefaults\nmode tcp\ntimeout connect 20s\ntimeout client 20s\ntimeout server 20s\n",
    );
    let mut cases = Vec::new();
    for key in TCP_KEYS {
        for method in ["map-based", "consistent djb2"] {
            let name = format!("t{}", cases.len());
            let servers = servers(farm, "weights");
            let _ = write!(
                text,
                "listen {name}\nbind <@{name}>\ntcp-request inspect-delay 20s\n\
                 tcp-request content accept if {{ req.len gt 10 }}\nbalance {key}\nhash-type {method}\n{servers}"
            );
            cases.push((name, format!("balance {key}, hash-type {method}")));
        }
    }
    let mut setup = Setup::file(&text);
    if let Some(program) = program {
        setup = setup.program(program);
    }
    let proxy = setup.start(io);
    let ask = |name: &str, greeting: &[u8]| {
        let mut conn = Conn::connect(proxy.addr(name));
        conn.send(greeting);
        farm.number(&conn.rest_text())
    };
    let greetings = greetings();
    let got = |name: &str| greetings.iter().chain(&greetings).map(|g| ask(name, g)).collect();
    cases.into_iter().map(|(name, lines)| (lines, got(&name))).collect()
}

#[test]
fn each_tcp_client_gets_the_server_that_it_gets_from_the_reference() {
    let Some(reference) = reference() else { return };
    let farm = Farm::start();
    let wanted = play_tcp("epoll", Some(&reference), &farm);
    each_driver(|io| {
        for ((lines, got), (_, wanted)) in play_tcp(io, None, &farm).iter().zip(&wanted) {
            assert_eq!(got, wanted, "{lines} over {io}");
        }
    });
}

/// The servers that each case's requests got.
fn play(io: Io, program: Option<&Path>, farm: &Farm, cases: &[Case]) -> Vec<Vec<usize>> {
    let mut text = String::from(
        "global\nnbthread 1\ndefaults\nmode http\nhttp-reuse always\ntimeout connect 20s\ntimeout client 20s\n\
         timeout server 20s\nfrontend fe\nbind <@fe>\nhttp-request set-src hdr(x-src)\nuse_backend %[req.hdr(x-be)]\n",
    );
    for case in cases {
        let mut lines = servers(farm, case.farm);
        if case.farm == "guid" {
            lines = lines.replace("guid guid ", &format!("guid guid {}-", case.name));
        }
        let _ = write!(text, "backend {}\n{}\n{lines}", case.name, case.lines);
    }
    let mut setup = Setup::file(&text);
    if let Some(program) = program {
        setup = setup.program(program);
    }
    let proxy = setup.start(io);
    let requests = requests();
    let ask = |case: &Case| {
        let mut conn = Conn::connect(proxy.addr("fe"));
        let mut all = String::new();
        for request in &requests {
            let body = request.split_once("X-Body: ").map_or("", |(_, body)| body.trim_end_matches("\r\n"));
            let _ = write!(all, "{request}X-Be: {}\r\n\r\n{body}", case.name);
        }
        conn.send(all);
        let answers = requests.iter().map(|request| {
            let response = conn.response();
            assert!(
                response.head.line.contains(" 200 "),
                "{}: {:?}: {:?}",
                case.lines,
                request,
                response.head
            );
            farm.number(&String::from_utf8_lossy(&response.body))
        });
        answers.collect()
    };
    cases.iter().map(ask).collect()
}

#[test]
fn each_request_gets_the_server_that_it_gets_from_the_reference() {
    let Some(reference) = reference() else { return };
    let farm = Farm::start();
    let cases = cases();
    let wanted = play("epoll", Some(&reference), &farm, &cases);
    each_driver(|io| {
        let got = play(io, None, &farm, &cases);
        let mut failures = String::new();
        for (case, (got, wanted)) in cases.iter().zip(got.iter().zip(&wanted)) {
            if got == wanted {
                continue;
            }
            let _ = writeln!(
                failures,
                "{} [{}]\n   ours {got:?}\n  their {wanted:?}",
                case.lines.replace('\n', ", "),
                case.farm
            );
            for (i, request) in requests().iter().enumerate().filter(|(i, _)| got[*i] != wanted[*i]).take(3) {
                let _ = writeln!(failures, "      {i}: {request:?}");
            }
        }
        assert!(failures.is_empty(), "{} cases over {io}:\n{failures}", failures.matches("their").count());
    });
}

/// One server that begins slowly beside one that does not, in the program and twice in the reference: what `show stat` says
/// of its weight lies between that of a reference that began before and of one that began after it.
#[test]
fn slow_starts_are_as_slow_as_those_of_the_reference() {
    let Some(reference) = reference() else { return };
    /// Percent: a step of the reference's, which counts whole seconds of the four.
    const STEP: u64 = 26;
    const ALGORITHMS: [&str; 5] = ["roundrobin", "leastconn", "random", "uri", "static-rr"];
    let mut text = String::from(
        "global\nstats socket <@dir>/cli level admin\ndefaults\nmode http\ntimeout connect 20s\ntimeout client 20s\n\
         timeout server 20s\n",
    );
    for algorithm in ALGORITHMS {
        let _ = write!(
            text,
            "listen {algorithm}\nbind <@{algorithm}>\nbalance {algorithm}\nserver fast {0} weight 100\n\
             server slow {0} weight 100 slowstart 4s\n",
            support::nobody()
        );
    }
    let tell = |proxy: &support::Proxy, command: &str| {
        let mut cli = Conn::connect_unix(&proxy.path("cli"));
        cli.send(format!("{command}\n"));
        cli.rest_text()
    };
    // For each algorithm the weight of the server and of the backend, and percent of it.
    let figures = |proxy: &support::Proxy| -> [[u64; 3]; ALGORITHMS.len()] {
        let table = tell(proxy, "show stat");
        let cell = |row: String, column: usize| {
            let row = table.lines().find(|line| line.starts_with(&row)).unwrap();
            row.split(',').nth(column).unwrap().parse().unwrap_or(100)
        };
        let slow = |name: &str| format!("{name},slow,");
        ALGORITHMS
            .map(|name| [cell(slow(name), 18), cell(format!("{name},BACKEND,"), 18), cell(slow(name), 29)])
    };
    each_driver(|io| {
        let theirs = || Setup::file(&text).program(&reference).start("epoll");
        let programs = [theirs(), Setup::file(&text).start(io), theirs()];
        for proxy in &programs {
            for algorithm in ALGORITHMS {
                tell(proxy, &format!("disable server {algorithm}/slow"));
                tell(proxy, &format!("enable server {algorithm}/slow"));
            }
        }
        let mut ended = false;
        while !ended {
            let after = figures(&programs[2]);
            let ours = figures(&programs[1]);
            let before = figures(&programs[0]);
            for (n, algorithm) in ALGORITHMS.iter().enumerate() {
                for (at, ours) in ours[n].into_iter().enumerate() {
                    let between = after[n][at].saturating_sub(STEP)..=before[n][at] + STEP;
                    assert!(
                        between.contains(&ours),
                        "{algorithm} over {io}, figure {at}: {ours}, not in {between:?}"
                    );
                }
            }
            ended = after.iter().chain(&ours).all(|figures| figures[0] == 100);
            // Leaves the processor to the programs; the result does not depend on how long.
            thread::sleep(std::time::Duration::from_millis(20));
        }
    });
}

/// Changes of weight and state move the shares of each algorithm as they do in the reference.
#[test]
fn shares_follow_changes_of_weight_as_in_the_reference() {
    let Some(reference) = reference() else { return };
    const REQUESTS: usize = 360;
    let farm = Farm::start();
    // Those that choose among equals by chance are allowed a difference that chance does not bring.
    let algorithms = [
        ("roundrobin", 2),
        ("static-rr", 2),
        ("first", 0),
        ("uri", 0),
        ("uri\nhash-type consistent", 0),
        ("leastconn", REQUESTS / 5),
        ("random(1)", REQUESTS / 5),
    ];
    let changes = [
        "show version",
        "set server b/s0 weight 40",
        "set server b/s1 weight 50%",
        "set server b/s2 state maint",
        "set server b/s2 state ready",
        "set server b/s2 weight 0",
        "set server b/s0 state drain",
    ];
    let play = |io, program: Option<&Path>, algorithm: &str| -> Vec<[usize; 3]> {
        let mut text = format!(
            "global\nnbthread 1\nstats socket <@dir>/cli level admin\ndefaults\nmode http\ntimeout connect 20s\n\
             timeout client 20s\ntimeout server 20s\nfrontend fe\nbind <@fe>\ndefault_backend b\nbackend b\n\
             balance {algorithm}\n"
        );
        for n in 0..3 {
            let _ = writeln!(text, "server s{n} {} weight {}", farm.addr(n), 10 * (n + 1));
        }
        let mut setup = Setup::file(&text);
        if let Some(program) = program {
            setup = setup.program(program);
        }
        let proxy = setup.start(io);
        let mut conn = Conn::connect(proxy.addr("fe"));
        let shares = |change: &str| {
            let mut cli = Conn::connect_unix(&proxy.path("cli"));
            cli.send(format!("{change}\n"));
            cli.rest_text();
            let mut shares = [0; 3];
            for n in 0..REQUESTS {
                conn.send(format!("GET /{n} HTTP/1.1\r\nHost: h\r\n\r\n"));
                shares[farm.number(&conn.response().text())] += 1;
            }
            shares
        };
        changes.map(shares).to_vec()
    };
    for (algorithm, allowed) in algorithms {
        let wanted = play("epoll", Some(&reference), algorithm);
        each_driver(|io| {
            let got = play(io, None, algorithm);
            for ((change, got), wanted) in changes.iter().zip(&got).zip(&wanted) {
                let close = got.iter().zip(wanted).all(|(a, b)| a.abs_diff(*b) <= allowed);
                assert!(close, "{algorithm} over {io} after '{change}': {got:?}, not {wanted:?}");
            }
        });
    }
}

/// A server that fails at once is not the fastest: it is asked now and then, as is one that refuses connections.
#[test]
fn servers_that_fail_are_avoided_by_ewma() {
    const REQUESTS: usize = 200;
    each_driver(|io| {
        let good = Server::named("good");
        let fails = Server::http(|_| "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n".into());
        let text = format!(
            "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nbalance ewma\nretries 0\n\
             server a {}\nserver b {}\nserver c {}\n",
            good.addr,
            fails.addr,
            nobody()
        );
        let proxy = Setup::http(&text).threads(1).start(io);
        let mut conn = proxy.connect();
        let asked = (0..REQUESTS).filter(|_| {
            conn.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
            let response = conn.response();
            if response.field("connection") == "close" {
                conn = proxy.connect();
            }
            response.status == 200
        });
        let served = asked.count();
        // Taking turns would serve a third.
        assert!(served > REQUESTS * 3 / 4, "over {io}: {served}");
    });
}
