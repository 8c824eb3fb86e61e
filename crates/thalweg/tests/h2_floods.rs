//! Peers that hurt: floods of clients and of servers end their connection, and nobody else's. How many frames each takes is counted
//! in `crates/h2`; what becomes of frames that are cut anywhere is in `crates/proxy/tests/h2_cuts.rs`.
//!
//! `H2_FLOODS=3` has each flood of clients go on for three seconds, and prints what it costs (`make h2-floods`);
//! `H2_FLOODS_ONLY` says which.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use support::h2::{Client, GET, Served, beginning, block, data_frame, frame, next_frame, stat};
use support::{Conn, Proxy, Server, Setup, each_driver, ok};
use thalweg_h2::error::ErrorCode;
use thalweg_h2::frame::{self, Header, Kind, flag};
use thalweg_h2::settings::Settings;

const BOTH: u8 = flag::END_HEADERS | flag::END_STREAM;

/// Frames of each flood, far more than any budget allows.
const FRAMES: u32 = 40_000;

/// What a flood sends as its frames of a number.
type Make = fn(u32) -> Vec<u8>;

fn get(stream: u32) -> Vec<u8> {
    frame(Kind::Headers, BOTH, stream, &block(GET))
}

fn post(stream: u32) -> Vec<u8> {
    frame(Kind::Headers, flag::END_HEADERS, stream, &block(GET))
}

/// One head, then the same again and again.
fn once(n: u32, first: Vec<u8>, then: Vec<u8>) -> Vec<u8> {
    if n == 0 { first } else { then }
}

const FLOODS: &[(&str, Make)] = &[
    ("requests that are taken back", |n| {
        [get(2 * n + 1), frame(Kind::RstStream, 0, 2 * n + 1, &[0, 0, 0, 8])].concat()
    }),
    ("windows of nothing", |n| [get(2 * n + 1), frame(Kind::WindowUpdate, 0, 2 * n + 1, &[0; 4])].concat()),
    ("data behind the end", |n| [get(2 * n + 1), data_frame(2 * n + 1, b"x", true)].concat()),
    ("malformed requests", |n| {
        frame(Kind::Headers, BOTH, 2 * n + 1, &block(&[GET, &[("connection", "close")]].concat()))
    }),
    ("pings", |_| frame(Kind::Ping, 0, 0, &[0; 8])),
    ("answers to no ping", |_| frame(Kind::Ping, flag::ACK, 0, &[0; 8])),
    ("settings", |_| frame(Kind::Settings, 0, 0, &[])),
    ("acknowledgements", |_| frame(Kind::Settings, flag::ACK, 0, &[])),
    ("priorities", |_| frame(Kind::Priority, 0, 1, &[0; 5])),
    ("unknown frames", |_| frame(Kind::Unknown(99), 0, 1, &[0; 5])),
    ("tiny windows", |_| frame(Kind::WindowUpdate, 0, 0, &[0, 0, 0, 1])),
    ("windows", |_| frame(Kind::WindowUpdate, 0, 0, &[0, 0, 0, 99])),
    ("empty data", |n| once(n, post(1), data_frame(1, b"", false))),
    ("padding", |n| once(n, post(1), frame(Kind::Data, flag::PADDED, 1, b"\0"))),
    ("continuations", |n| {
        once(n, frame(Kind::Headers, 0, 1, &block(GET)), frame(Kind::Continuation, 0, 1, b""))
    }),
    ("departures", |_| frame(Kind::Goaway, 0, 0, &[0; 8])),
    ("bombs", |n| {
        // A field of most of the table, and its number again and again.
        let field = [&b"\x40\x01a\x7f\xa1\x1e"[..], &[b'x'; 4000]].concat();
        frame(Kind::Headers, BOTH, 2 * n + 1, &[&block(GET), &field, &[0xbe; 4000][..]].concat())
    }),
];

/// Floods that may end nothing: they wait, or cost nothing that matters.
const BORNE: &[(&str, Make)] = &[
    ("small data", |n| once(n, post(1), data_frame(1, b"x", false))),
    ("requests that never end", |n| post(2 * n + 1)),
    ("answers that nobody takes", |n| {
        once(n, frame(Kind::Settings, 0, 0, &[0, 4, 0, 0, 0, 0]), get(2 * n + 1))
    }),
    ("trailers without an end", |n| once(n, post(1), frame(Kind::Headers, flag::END_HEADERS, 1, b""))),
    ("table sizes", |n| {
        // Down to nothing and up again, in front of each request.
        frame(Kind::Headers, BOTH, 2 * n + 1, &[&b"\x20\x3f\xe1\x1f"[..], &block(GET)].concat())
    }),
    ("tables that change", |n| {
        let size = if n % 2 == 0 { 0u32 } else { 4096 };
        frame(Kind::Settings, 0, 0, &[&[0, 1][..], &size.to_be_bytes()].concat())
    }),
];

/// Whether the proxy ended the connection although it took all that it was sent.
fn is_ended_by(proxy: &Proxy, make: Make) -> bool {
    let mut conn = proxy.connect();
    let _ = conn.try_send(beginning());
    for round in 0..FRAMES / 100 {
        let piece: Vec<u8> = (0..100).flat_map(|n| make(round * 100 + n)).collect();
        if conn.try_send(piece).is_err() {
            return true;
        }
    }
    // Whoever was left is told so, or finds the connection broken.
    conn.half_close();
    while let Some((header, payload)) = next_frame(&mut conn) {
        if header.kind == Kind::Goaway {
            return frame::goaway(&payload).is_ok_and(|(_, code)| code.number() != 0);
        }
    }
    true
}

#[test]
fn of_clients() {
    each_driver(|io| {
        // One that takes it that its connections break.
        let server = Server::start(|mut conn, _| {
            while conn.try_until(b"\r\n\r\n").is_some() {
                let _ = conn.try_send(ok("small"));
            }
        });
        let text = format!(
            "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nretries 0\nserver s {}\n",
            server.addr
        );
        let proxy = Setup::http(&text).start(io);
        let mut other = Client::new(proxy.connect());
        for (name, make) in FLOODS {
            assert!(is_ended_by(&proxy, *make), "{name}");
            assert_eq!(other.get("/").text(), "small", "{name}");
        }
        assert!(other.goaways.is_empty());
        drop(other);
        proxy.finish(server);
    });
}

/// Whoever keeps to the protocol, and is left nevertheless, has a line that says for what, and is counted with others of the kind.
#[test]
fn the_log_says_why() {
    each_driver(|io| {
        let text = "frontend fe\nbind <@fe>\nhttp-request return status 204\n";
        let proxy = Setup::http(text).global("stats socket <@dir>/cli level admin").start(io);
        for (name, reason, column) in [
            ("pings", "too many PING", "h2_ended_ping"),
            ("settings", "too many SETTINGS", "h2_ended_settings"),
            ("priorities", "too many frames that do nothing", "h2_ended_noise"),
        ] {
            let (_, make) = FLOODS.iter().find(|(flood, _)| *flood == name).unwrap();
            assert!(is_ended_by(&proxy, *make), "{name}");
            let line = std::iter::repeat_with(|| proxy.log()).find(|line| line.contains("closed: ")).unwrap();
            assert!(line.ends_with(&format!("fe/1: HTTP/2 connection closed: {reason}")), "{line}");
            assert_eq!(stat(&proxy, "fe", 1, column), "1", "{name}");
        }
        proxy.finish(());
    });
}

/// Many small messages are no flood: those of a client that sends more than is reasonable wait, and arrive.
#[test]
fn small_data_waits_for_its_turn() {
    const OCTETS: usize = 50_000;
    each_driver(|io| {
        let server = Server::http(|request| ok(&request.body.len().to_string()));
        let text =
            format!("frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nserver s {}\n", server.addr);
        let proxy = Setup::http(&text).start(io);
        let mut client = Client::new(proxy.connect());
        let id = client.open("POST", "/", &[], false);
        for _ in 0..OCTETS {
            client.data(id, b"x", false);
        }
        client.data(id, b"", true);
        assert_eq!(client.answer(id).text(), OCTETS.to_string());
        drop(client);
        proxy.finish(server);
    });
}

/// What a server sends instead of an answer, or with it, for the one stream that it has.
/// For each, the column of `show stat` that counts it.
const OF_SERVERS: &[(&str, &str, Make)] = &[
    ("interim responses", "h2_ended_interim", |_| frame(Kind::Headers, flag::END_HEADERS, 1, b"\x08\x03103")),
    ("pings", "h2_ended_ping", |_| frame(Kind::Ping, 0, 0, &[0; 8])),
    ("settings", "h2_ended_settings", |_| frame(Kind::Settings, 0, 0, &[])),
    ("windows", "h2_ended_window", |_| frame(Kind::WindowUpdate, 0, 0, &[0, 0, 0, 99])),
    ("empty data", "h2_ended_empty_data", |n| {
        once(n, frame(Kind::Headers, flag::END_HEADERS, 1, b"\x88"), data_frame(1, b"", false))
    }),
    ("continuations", "h2_ended_block", |n| {
        once(n, frame(Kind::Headers, 0, 1, b"\x88"), frame(Kind::Continuation, 0, 1, b""))
    }),
    ("unknown frames", "h2_ended_noise", |_| frame(Kind::Unknown(99), 0, 1, &[0; 5])),
];

/// Serves the first connection as a flood, and others well.
fn flooding(mut conn: Conn, make: Make, ended: &AtomicU32) {
    // The preface, and the request.
    let _ = conn.try_until(b"SM\r\n\r\n");
    while let Some((header, _)) = next_frame(&mut conn) {
        if header.kind == Kind::Headers {
            break;
        }
    }
    let _ = conn.try_send(&beginning()[24..]);
    for round in 0..FRAMES / 100 {
        let piece: Vec<u8> = (0..100).flat_map(|n| make(round * 100 + n)).collect();
        if conn.try_send(piece).is_err() {
            break;
        }
    }
    while next_frame(&mut conn).is_some() {}
    ended.fetch_add(1, Ordering::SeqCst);
}

#[test]
fn of_servers() {
    each_driver(|io| {
        for (name, column, make) in OF_SERVERS {
            let ended = Arc::new(AtomicU32::new(0));
            let (make, counted) = (*make, Arc::clone(&ended));
            let bad = Server::start(move |conn, _| flooding(conn, make, &counted));
            let good = Server::start(|conn, _| {
                let mut served = Served::new(conn, Settings::default());
                while let Some((id, _)) = served.next_request() {
                    served.answer(id, "small");
                }
            });
            let text = format!(
                "frontend fe\nbind <@fe>\nuse_backend bad if {{ path /bad }}\ndefault_backend good\n\
                 backend bad\nretries 0\nserver s {} proto h2\nbackend good\nserver s {} proto h2\n",
                bad.addr, good.addr
            );
            let proxy = Setup::http(&text).global("stats socket <@dir>/cli level admin").start(io);
            let mut client = Client::new(proxy.connect());
            let id = client.open("GET", "/bad", &[], true);
            let answer = client.answer(id);
            assert!(answer.status == 502 || answer.reset.is_some(), "{name}: {answer:?}");
            assert_eq!(client.get("/").text(), "small", "{name}");
            drop(client);
            support::eventually("the server's connection ended", || {
                (ended.load(Ordering::SeqCst) == 1).then_some(())
            });
            assert_eq!(stat(&proxy, "bad", 2, column), "1", "{name}");
            proxy.finish((bad, good));
        }
    });
}

/// What a flood came to.
struct Cost {
    /// Frames that were written before the client was told of the end, or until the time was over.
    frames: u32,
    /// When it was told of the end (GOAWAY with a reason), or the connection broke.
    ended: Option<Duration>,
    /// What the process spent on it.
    busy: Duration,
}

/// What all threads of a process spent so far.
fn busy(proxy: &Proxy) -> Duration {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", proxy.id())).unwrap();
    let spent = |task: std::io::Result<std::fs::DirEntry>| -> Option<u64> {
        let told = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        told.split(' ').next()?.parse().ok()
    };
    Duration::from_nanos(tasks.filter_map(spent).sum())
}

/// Receives until there is a reason to stop: GOAWAY for another cause than that all is well, or the connection's end.
fn until_told(mut conn: TcpStream) {
    let mut header = [0; 9];
    while conn.read_exact(&mut header).is_ok() {
        let header = Header::parse(&header);
        let mut payload = vec![0; header.len];
        if conn.read_exact(&mut payload).is_err() {
            return;
        }
        if header.kind == Kind::Goaway
            && frame::goaway(&payload).is_ok_and(|(_, code)| code != ErrorCode::NoError)
        {
            return;
        }
    }
}

/// Sends frames as fast as they are taken, so many at a time on one connection, whatever is said of it, until nothing is taken any
/// more or the time is over.
fn flood(proxy: &Proxy, make: Make, at_once: u32, time: Duration) -> Cost {
    let (began, before) = (Instant::now(), busy(proxy));
    let mut conn = TcpStream::connect(proxy.addr("fe")).unwrap();
    conn.set_nodelay(true).unwrap();
    conn.write_all(&beginning()).unwrap();
    let (reading, told) = (conn.try_clone().unwrap(), Arc::new(OnceLock::new()));
    let tell = Arc::clone(&told);
    let reader = std::thread::spawn(move || {
        until_told(reading.try_clone().unwrap());
        let _ = tell.set(began.elapsed());
        // What waits to be read must not be why nothing is taken.
        let _ = std::io::copy(&mut &reading, &mut std::io::sink());
    });
    let (mut frames, mut written) = (0, 0);
    while began.elapsed() < time {
        let piece: Vec<u8> = (written..written + at_once).flat_map(make).collect();
        written += at_once;
        conn.set_write_timeout(Some((time - began.elapsed().min(time)).max(Duration::from_millis(1))))
            .unwrap();
        if conn.write_all(&piece).is_err() {
            break;
        }
        if told.get().is_none() {
            frames = written;
        }
    }
    std::thread::sleep(time.saturating_sub(began.elapsed()));
    let (busy, ended) = (busy(proxy) - before, told.get().copied());
    let _ = conn.shutdown(std::net::Shutdown::Both);
    reader.join().unwrap();
    Cost { frames, ended, busy }
}

/// The time that 99 of 100 requests of another connection do not exceed, in a span of time.
fn others(proxy: &Proxy, time: Duration) -> Duration {
    let (began, mut client) = (Instant::now(), Client::new(proxy.connect()));
    let mut took = Vec::new();
    while began.elapsed() < time {
        let asked = Instant::now();
        assert_eq!(client.get("/").status, 200);
        took.push(asked.elapsed());
        std::thread::sleep(Duration::from_millis(3));
    }
    took.sort_unstable();
    took[took.len() * 99 / 100]
}

/// Takes a body in chunks. False when the connection ended before the body did.
fn takes_chunks(conn: &mut Conn) -> bool {
    while let Some(line) = conn.try_until(b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&line).unwrap().trim_end(), 16).unwrap();
        if conn.try_exactly(size + 2).is_none() {
            return false;
        }
        if size == 0 {
            return true;
        }
    }
    false
}

/// Measures something of a process of its own, in front of a server that takes bodies as fast as they come.
fn of_a_proxy(io: &'static str, measure: impl FnOnce(&Proxy)) {
    let server = Server::start(|mut conn, _| {
        while let Some(head) = conn.try_until(b"\r\n\r\n") {
            // A body that never ends has no answer.
            if head.windows(7).any(|part| part == b"chunked") && !takes_chunks(&mut conn) {
                return;
            }
            let _ = conn.try_send(ok("small"));
        }
    });
    let text = format!(
        "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nretries 0\nserver s {}\n",
        server.addr
    );
    let proxy = Setup::http(&text).start(io);
    // What the start takes is over when a request was answered: it is no cost of a flood.
    assert_eq!(Client::new(proxy.connect()).get("/").status, 200);
    measure(&proxy);
    proxy.finish(server);
}

/// Prints a table: frames that were written, when the connection ended, what the process spent, and what other connections notice.
/// Each figure is of a new process: what waits of small data keeps one busy for half a minute.
#[test]
fn what_floods_cost() {
    let Some(time) = std::env::var("H2_FLOODS").ok().and_then(|seconds| seconds.parse().ok()) else {
        eprintln!("skipped: H2_FLOODS=3 has each flood go on for three seconds");
        return;
    };
    let time = Duration::from_secs_f64(time);
    let only = std::env::var("H2_FLOODS_ONLY").unwrap_or_default();
    for io in ["epoll", "io_uring"] {
        of_a_proxy(io, |proxy| println!("{io}: others alone {:.2?}", others(proxy, time)));
        for (name, make) in FLOODS.iter().chain(BORNE).filter(|(name, _)| name.contains(&*only)) {
            for at_once in [1, 100] {
                of_a_proxy(io, |proxy| {
                    let Cost { frames, ended, busy } = flood(proxy, *make, at_once, time);
                    let ended = ended.map_or("no".to_owned(), |at| format!("{at:.1?}"));
                    print!("{io} {name}, {at_once} at once: {frames} frames, ended {ended}, busy {busy:.1?}");
                });
                of_a_proxy(io, |proxy| {
                    let beside = std::thread::scope(|scope| {
                        scope.spawn(|| flood(proxy, *make, at_once, time));
                        others(proxy, time)
                    });
                    println!(", others {beside:.2?}");
                });
            }
        }
    }
}
