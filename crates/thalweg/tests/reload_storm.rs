//! A storm of reloads: while files change again and again, nobody who is served notices.
//!
//! `make reload-storm` plays a long one (500 reloads in 100 seconds, up to 10,000 servers) with the optimised build and prints figures,
//! and beside it, where HAProxy is installed, the same with its own way of reloading. `make test` plays a short one. Of a long one
//! `RELOAD_STORM_IO` names the I/O driver, if it is not to be played with both.
//!
//! Memory is shown while it is calm, and calm again once each of the ten configurations was there (what everybody needs once, code that is
//! read for the first time above all, is there then). The second
//! shows whether it grows without end, the first what it costs that others were there.

mod support;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use support::tls::{Authority, client};
use support::{Conn, Io, Proxy, Server, Setup, each_driver, eventually, ok, reference, with_children};
use thalweg_tls::server::ServerContext;

/// How long a storm is.
#[derive(Clone, Copy)]
struct Scale {
    reloads: usize,
    /// From one reload to the next at least.
    period: Duration,
    /// How long it is calm before.
    calm: Duration,
    /// Servers of the configurations, in turn.
    servers: [usize; 3],
    prints: bool,
}

impl Scale {
    fn chosen() -> Scale {
        match std::env::var("RELOAD_STORM").ok().and_then(|text| text.parse().ok()) {
            Some(reloads) => Scale {
                reloads,
                period: Duration::from_millis(200),
                calm: Duration::from_secs(10),
                servers: [1, 100, 10_000],
                prints: true,
            },
            None => Scale {
                reloads: 20,
                period: Duration::ZERO,
                calm: Duration::ZERO,
                servers: [1, 3, 50],
                prints: false,
            },
        }
    }
}

/// Configurations that come one after the other, and then again.
const TEXTS: usize = 10;
/// Of a long download: pieces, their bytes, and the pause behind each.
const PIECES: usize = 20;
const PIECE: usize = 32 * 1024;
const PAUSE: Duration = Duration::from_millis(10);
/// Bytes of an upload.
const UPLOAD: usize = 1 << 20;

/// Where the storm takes place.
struct Ground {
    io: Io,
    proxy: Proxy,
    /// The socket of a master that reloads by another process; none where the process does.
    master: Option<PathBuf>,
    context: Arc<ServerContext>,
    over: AtomicBool,
    is_calm: AtomicBool,
    /// By kind of client: how often it was served.
    served: [AtomicUsize; KINDS.len()],
    /// Requests that the CLI showed last.
    counted: AtomicU64,
    failures: Mutex<Vec<String>>,
    /// Microseconds of requests on kept connections, while it is calm and then.
    times: [Mutex<Vec<u64>>; 2],
}

/// What a client keeps from one turn to the next.
type Kept = Option<Conn>;

/// One turn of a client, which panics when something is wrong.
type Turn = fn(&Ground, &mut Kept);

/// Who is served.
const KINDS: [(&str, Turn); 9] = [
    ("requests on kept connections", keeps),
    ("the same, another client", keeps),
    ("requests on new connections", comes_anew),
    ("requests over TLS", encrypts),
    ("long downloads", downloads),
    ("uploads", uploads),
    ("echoes of WebSockets", upgrades),
    ("echoes of TCP relays", relays),
    ("questions to the CLI", asks_for_counters),
];

fn served_by_one(conn: &mut Conn) {
    conn.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody");
    let response = conn.response();
    assert_eq!((response.status, response.text()), (200, "ok".into()));
    let said = [response.field("x-gen"), response.field("x-seen")];
    assert_eq!(said[0], said[1], "one configuration from head to end");
}

fn keeps(ground: &Ground, kept: &mut Kept) {
    let mut conn = kept.take().unwrap_or_else(|| Conn::connect(ground.proxy.addr("fe")));
    let began = Instant::now();
    served_by_one(&mut conn);
    let us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
    let phase = usize::from(!ground.is_calm.load(Ordering::Relaxed));
    ground.times[phase].lock().unwrap().push(us);
    *kept = Some(conn);
}

fn comes_anew(ground: &Ground, _: &mut Kept) {
    served_by_one(&mut Conn::connect(ground.proxy.addr("fe")));
}

fn encrypts(ground: &Ground, _: &mut Kept) {
    served_by_one(&mut Conn::connect(ground.proxy.addr("tls")).encrypt(&ground.context, Some("h")));
}

fn downloads(ground: &Ground, _: &mut Kept) {
    let mut conn = Conn::connect(ground.proxy.addr("fe"));
    conn.send("GET /big HTTP/1.1\r\nHost: h\r\n\r\n");
    let response = conn.response();
    assert_eq!((response.status, response.body.len()), (200, PIECES * PIECE));
}

fn uploads(ground: &Ground, _: &mut Kept) {
    let mut conn = Conn::connect(ground.proxy.addr("fe"));
    conn.send(format!("POST /up HTTP/1.1\r\nHost: h\r\nContent-Length: {UPLOAD}\r\n\r\n"));
    for piece in vec![b'u'; UPLOAD].chunks(UPLOAD / PIECES) {
        conn.send(piece);
        thread::sleep(PAUSE);
    }
    let response = conn.response();
    assert_eq!((response.status, response.text()), (200, UPLOAD.to_string()));
}

fn upgrades(ground: &Ground, kept: &mut Kept) {
    let mut conn = kept.take().unwrap_or_else(|| {
        let mut conn = Conn::connect(ground.proxy.addr("fe"));
        conn.send("GET /echo HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n");
        assert!(conn.until(b"\r\n\r\n").starts_with(b"HTTP/1.1 101 "));
        conn
    });
    echo(&mut conn);
    *kept = Some(conn);
}

fn relays(ground: &Ground, kept: &mut Kept) {
    let mut conn = kept.take().unwrap_or_else(|| Conn::connect(ground.proxy.addr("relay")));
    echo(&mut conn);
    *kept = Some(conn);
}

fn echo(conn: &mut Conn) {
    conn.send("x");
    assert_eq!(conn.exactly(1), b"x");
    thread::sleep(PAUSE);
}

/// Counters only grow.
fn asks_for_counters(ground: &Ground, _: &mut Kept) {
    // A new process counts anew.
    if ground.master.is_none() {
        let total = requests(&ground.proxy);
        let before = ground.counted.swap(total, Ordering::Relaxed);
        assert!(total >= before, "{total} requests after {before}");
    }
    thread::sleep(PAUSE);
}

fn cli(path: PathBuf, line: &str) -> String {
    let mut conn = Conn::connect_unix(&path);
    conn.send(format!("{line}\n"));
    conn.rest_text()
}

/// What the frontend counted (`req_tot`).
fn requests(proxy: &Proxy) -> u64 {
    let text = cli(proxy.path("cli"), "show stat");
    let titles = text.lines().next().unwrap_or_default();
    let column = titles.split(',').position(|title| title == "req_tot").expect("a column of that name");
    let row = text.lines().find(|line| line.starts_with("fe,FRONTEND,")).expect("a row");
    row.split(',').nth(column).and_then(|text| text.parse().ok()).expect("a number")
}

/// A configuration: each differs from the others in rules, servers, a listener, the certificate, the name of its backend.
fn text(number: usize, scale: &Scale, servers: &[Server], certificates: &[String]) -> String {
    let count = scale.servers[number % scale.servers.len()];
    let lines: String = (0..count)
        .map(|at| {
            // Checks never fail as often as would matter, however busy the machine is.
            let check = if at < servers.len() { " check inter 1s fall 1000 init-state fully-up" } else { "" };
            let addr = servers[at % servers.len()].addr;
            format!("  server s{at} {addr} weight {} maxconn 100{check}\n", 1 + number % 5)
        })
        .collect();
    let extra = if number % 2 == 1 { "  bind <@extra>\n" } else { "" };
    let (certificate, backend) = (&certificates[number % certificates.len()], number / 2 % 2);
    format!(
        "frontend fe\n  bind <@fe>\n  bind <@tls> ssl crt {certificate}\n{extra}  http-request set-header X-Gen {number}\n\
         \x20 http-response set-header X-Gen {number}\n  http-request set-var(txn.m) str(k),map(<@dir>/map)\n\
         \x20 default_backend be{backend}\nbackend be{backend}\n  balance roundrobin\n  option httpchk\n{lines}"
    )
}

fn serve(mut conn: Conn) {
    while let Some(request) = conn.next_request() {
        let line = &request.head.line;
        let sent = if line.contains("/big") {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", PIECES * PIECE);
            conn.try_send(head).and_then(|()| {
                (0..PIECES).try_for_each(|_| {
                    thread::sleep(PAUSE);
                    conn.try_send([b'd'; PIECE])
                })
            })
        } else if line.contains("/up") {
            conn.try_send(ok(&request.body.len().to_string()))
        } else if line.contains("/echo") {
            let _ = conn
                .try_send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n");
            return answer_with_the_same(conn);
        } else {
            let seen = request.head.field("x-gen");
            conn.try_send(format!("HTTP/1.1 200 OK\r\nX-Seen: {seen}\r\nContent-Length: 2\r\n\r\nok"))
        };
        if sent.is_err() {
            return;
        }
    }
}

fn answer_with_the_same(mut conn: Conn) {
    while let Some(byte) = conn.try_exactly(1) {
        if conn.try_send(byte).is_err() {
            return;
        }
    }
}

/// Serves one client, turn after turn. What goes wrong is kept, and the client begins anew.
fn play(ground: &Ground, kind: usize) {
    let mut kept = None;
    while !ground.over.load(Ordering::Relaxed) {
        let (name, turn) = KINDS[kind];
        match catch_unwind(AssertUnwindSafe(|| turn(ground, &mut kept))) {
            Ok(()) => _ = ground.served[kind].fetch_add(1, Ordering::Relaxed),
            Err(panic) => {
                let why = panic.downcast_ref::<String>().map_or("", String::as_str);
                ground.failures.lock().unwrap().push(format!("{name}: {why}"));
                kept = None;
            }
        }
    }
}

/// Physical memory of a process and its children, in kilobytes: all of it, and what is not of files.
fn resident_kb(pid: u32) -> [u64; 2] {
    ["VmRSS:", "RssAnon:"].map(|title| {
        let of_one = |pid: u32| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix(title));
            line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0)
        };
        with_children(pid).into_iter().map(of_one).sum()
    })
}

/// A percentile of the times, in milliseconds.
fn percentile(times: &mut [u64], percent: usize) -> f64 {
    times.sort_unstable();
    times
        .get((times.len() * percent / 100).min(times.len().saturating_sub(1)))
        .map_or(0.0, |us| *us as f64 / 1e3)
}

/// Plays the storm; what went wrong.
fn storm(io: Io, scale: Scale, other: Option<PathBuf>) -> Vec<String> {
    let servers: Vec<Server> = (0..8).map(|_| Server::start(|conn, _| serve(conn))).collect();
    let echo = Server::start(|conn, _| answer_with_the_same(conn));
    let authority = Authority::new("storm");
    let certificates = ["one.example", "two.example", "three.example"].map(|host| authority.issue(host));
    let tail =
        format!("listen relay\n  mode tcp\n  option tcplog\n  bind <@relay>\n  server r {}\n", echo.addr);
    let texts: Vec<String> = (0..TEXTS).map(|n| text(n, &scale, &servers, &certificates)).collect();
    let mut setup = Setup::http(&format!("{}{tail}", texts[0]))
        .global("stats socket <@dir>/cli level admin\nmaxconn 1000")
        .defaults("timeout tunnel 60s\n")
        .file_beside("map", "k v\n")
        .threads(2);
    let master = std::env::temp_dir().join(format!("thalweg-storm-{}.sock", std::process::id()));
    if let Some(program) = &other {
        setup = setup.program(program).argument("-W").argument("-S").argument(master.to_str().unwrap());
    }
    let mut proxy = setup.start(io);
    let texts: Vec<String> = texts.iter().map(|text| proxy.filled(text)).collect();
    let ground = Ground {
        io,
        proxy,
        master: other.map(|_| master),
        context: client(|_| {}),
        over: AtomicBool::new(false),
        is_calm: AtomicBool::new(true),
        served: Default::default(),
        counted: AtomicU64::new(0),
        failures: Mutex::default(),
        times: Default::default(),
    };
    let (mut answers, mut memory) = (Vec::new(), Vec::new());
    thread::scope(|scope| {
        let ground = &ground;
        (0..KINDS.len()).for_each(|kind| _ = scope.spawn(move || play(ground, kind)));
        let played = catch_unwind(AssertUnwindSafe(|| {
            calm(ground, &scale);
            memory.push(("calm", resident_kb(ground.proxy.id())));
            ground.is_calm.store(false, Ordering::Relaxed);
            if scale.prints {
                // What everybody needs once, code that is read for the first time above all, is not what grows.
                blow(ground, &Scale { reloads: TEXTS, ..scale }, &texts, &mut answers);
                thread::sleep(scale.calm);
                memory.push(("calm, each configuration was there once", resident_kb(ground.proxy.id())));
            }
            blow(ground, &scale, &texts, &mut answers);
            if scale.prints {
                memory.push(("at the end of the storm", resident_kb(ground.proxy.id())));
                thread::sleep(scale.calm);
                memory.push(("a while later, with the same clients", resident_kb(ground.proxy.id())));
            }
        }));
        // Whatever went wrong, everybody goes home.
        ground.over.store(true, Ordering::Relaxed);
        played.unwrap_or_else(|panic| resume_unwind(panic));
    });
    let mut failures = ground.failures.lock().unwrap().clone();
    if ground.master.is_none() {
        eventually("only what is in force is left", || {
            (!cli(ground.proxy.path("cli"), "show snapshots").contains("former")).then_some(())
        });
        let asked: usize =
            [0, 1, 2, 3, 4, 5, 6].iter().map(|kind| ground.served[*kind].load(Ordering::Relaxed)).sum();
        // An echo is no request, but its connection began with one.
        let upgraded = ground.served[6].load(Ordering::Relaxed) - 1;
        let counted = requests(&ground.proxy);
        if failures.is_empty() && counted != (asked - upgraded) as u64 {
            failures.push(format!("{counted} requests are counted of {asked}"));
        }
    }
    if scale.prints {
        thread::sleep(scale.calm / 2);
        memory.push(("without clients", resident_kb(ground.proxy.id())));
        print(&ground, &memory, &mut answers, &failures);
    }
    if ground.master.is_none() {
        ground.proxy.finish((servers, echo));
    }
    failures
}

/// Everybody is served, and after a while all that is used is there.
fn calm(ground: &Ground, scale: &Scale) {
    eventually("everybody is served", || {
        let all = ground.served.iter().all(|served| served.load(Ordering::Relaxed) > 2);
        (all || !ground.failures.lock().unwrap().is_empty()).then_some(())
    });
    thread::sleep(scale.calm);
}

/// Reloads, again and again. `answers` gets how long each answer took, in microseconds.
fn blow(ground: &Ground, scale: &Scale, texts: &[String], answers: &mut Vec<u64>) {
    let file = ground.proxy.path("cfg");
    let mut now = 0;
    for turn in 1..=scale.reloads {
        let began = Instant::now();
        let next = turn % texts.len();
        let whole = fs::read_to_string(&file).unwrap();
        assert!(whole.contains(&texts[now]));
        fs::write(&file, whole.replace(&texts[now], &texts[next])).unwrap();
        fs::write(ground.proxy.path("map"), format!("k {turn}\n")).unwrap();
        now = next;
        let asked = Instant::now();
        let path = ground.master.clone().unwrap_or_else(|| ground.proxy.path("cli"));
        let said = cli(path, "reload");
        answers.push(u64::try_from(asked.elapsed().as_micros()).unwrap_or(u64::MAX));
        if !said.starts_with("Success=1") {
            ground.failures.lock().unwrap().push(format!("reload {turn}: {said}"));
        }
        if scale.prints {
            thread::sleep(scale.period.saturating_sub(began.elapsed()));
            continue;
        }
        let before = ground.served[0].load(Ordering::Relaxed);
        eventually("requests go on", || {
            let goes_on = ground.served[0].load(Ordering::Relaxed) > before + 1;
            (goes_on || !ground.failures.lock().unwrap().is_empty()).then_some(())
        });
    }
}

fn print(ground: &Ground, memory: &[(&str, [u64; 2])], answers: &mut [u64], failures: &[String]) {
    let who = if ground.master.is_some() { "the reference, by its master" } else { "in place" };
    println!("--- {who}, {} reloads, {}", answers.len(), ground.io);
    for ((name, _), served) in KINDS.iter().zip(&ground.served) {
        println!("{:>9} {name}", served.load(Ordering::Relaxed));
    }
    let [calm, windy] = [0, 1].map(|phase| percentile(&mut ground.times[phase].lock().unwrap(), 99));
    println!("p99 of requests on kept connections: calm {calm:.2} ms, during the storm {windy:.2} ms");
    println!(
        "a reload is answered: median {:.0} ms, longest {:.0} ms",
        percentile(answers, 50),
        percentile(answers, 100)
    );
    for (when, kb) in memory {
        let [all, own] = kb.map(|kb| kb as f64 / 1024.0);
        println!("memory {when}: {all:.1} MB, of it not of files {own:.1}");
    }
    println!("{} failures", failures.len());
    failures.iter().take(10).for_each(|failure| println!("  {failure}"));
}

/// Every request is answered, by one configuration from head to end; connections that may stay do; counters only grow.
#[test]
fn a_storm_of_reloads_is_noticed_by_nobody() {
    let scale = Scale::chosen();
    let play = |io| {
        let failures = storm(io, scale, None);
        assert!(failures.is_empty(), "{io}: {failures:#?}");
    };
    match std::env::var("RELOAD_STORM_IO") {
        Ok(chosen) => {
            let known = ["epoll", "io_uring"].into_iter().find(|io| *io == chosen);
            play(known.expect("RELOAD_STORM_IO is epoll or io_uring"));
        }
        // All of them, also of a program that is not this build's.
        Err(_) if scale.prints => ["epoll", "io_uring"].into_iter().for_each(play),
        Err(_) => each_driver(play),
    }
    if scale.prints
        && let Some(program) = reference()
    {
        storm("epoll", scale, Some(program));
    }
}
