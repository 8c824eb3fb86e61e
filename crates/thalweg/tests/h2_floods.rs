//! Peers that hurt: floods of clients and of servers end their connection, and nobody else's. How many frames each takes is counted
//! in `crates/h2`; what becomes of frames that are cut anywhere is in `crates/proxy/tests/h2_cuts.rs`.

mod support;

use std::sync::atomic::{AtomicU32, Ordering};

use support::h2::{Client, GET, Served, beginning, block, data_frame, frame, next_frame, stat};
use support::{Conn, Proxy, Server, Setup, each_driver, ok};
use thalweg_h2::frame::{self, Kind, flag};
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
            let ended = std::sync::Arc::new(AtomicU32::new(0));
            let (make, counted) = (*make, std::sync::Arc::clone(&ended));
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
