//! Bodies of every size around the limits of buffers, in every framing, both ways, one after the other on connections that
//! are kept: what arrives is what was sent, and it ends where its message ends. And bodies that are cut, reset, or not
//! read, at every step.

mod support;

use std::{fs, thread};

use support::{Conn, Io, Proxy, Server, Setup, each_driver, eventually, h2};

/// Where something changes: blocks of a receive ring, pooled buffers, bulk buffers, each with and without a head.
fn sizes() -> Vec<usize> {
    let mut sizes = vec![0, 1, 3000, 100_000, 1_000_000];
    for limit in [4096, 16_384, 262_144] {
        for around in [-300, -150, -1, 0, 1, 200] {
            sizes.push((limit + around) as usize);
        }
    }
    sizes
}

/// Bytes that are the same nowhere else.
fn body(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// How a body is delimited.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Sized,
    /// Chunks of this many bytes.
    Chunks(usize),
    /// The same, the last ones with an extension, and trailer fields.
    OddChunks(usize),
    UntilClose,
}

const FORMS: [Form; 7] = [
    Form::Sized,
    Form::Chunks(700),
    Form::Chunks(40_000),
    Form::Chunks(500_000),
    Form::OddChunks(3000),
    Form::OddChunks(50_000),
    Form::UntilClose,
];

impl Form {
    fn field(self, len: usize) -> String {
        match self {
            Form::Sized => format!("Content-Length: {len}\r\n"),
            Form::UntilClose => "Connection: close\r\n".into(),
            _ => "Transfer-Encoding: chunked\r\n".into(),
        }
    }

    fn write(self, body: &[u8]) -> Vec<u8> {
        let (Form::Chunks(size) | Form::OddChunks(size)) = self else { return body.to_vec() };
        let odd = matches!(self, Form::OddChunks(_));
        let mut out = Vec::new();
        for (i, chunk) in body.chunks(size).enumerate() {
            let extension = if odd && (i + 1) * size * 2 > body.len() { ";x=\"y\"" } else { "" };
            out.extend_from_slice(format!("{:x}{extension}\r\n", chunk.len()).as_bytes());
            out.extend_from_slice(chunk);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(if odd { b"0\r\nX-Trailer: yes\r\n\r\n" } else { b"0\r\n\r\n" });
        out
    }
}

/// Answers `/<form>/<seed>/<length>`, and checks a request's body by its own `X-Seed`.
fn server() -> Server {
    Server::start(|mut conn, _| {
        while let Some(request) = conn.next_request() {
            let seed = request.head.field("x-seed").parse().unwrap_or(0);
            assert!(request.body == body(seed, request.body.len()), "not the body of {:?}", request.head);
            let parts: Vec<&str> = request.head.line.split([' ', '/']).collect();
            let number = |i: usize| parts[i].parse::<usize>().unwrap();
            let (form, seed, len) = (FORMS[number(2)], number(3) as u64, number(4));
            let head = format!("HTTP/1.1 200 OK\r\nX-Got: {}\r\n{}\r\n", request.body.len(), form.field(len));
            let mut message = head.into_bytes();
            message.extend(form.write(&body(seed, len)));
            if conn.try_send(&message).is_err() || form == Form::UntilClose {
                return;
            }
        }
    })
}

fn get(form: usize, seed: u64, len: usize) -> String {
    format!("GET /{form}/{seed}/{len} HTTP/1.1\r\nHost: x\r\n\r\n")
}

fn expect(client: &mut Conn, seed: u64, len: usize, what: &str) {
    let response = client.response();
    assert_eq!(response.body.len(), len, "{what}");
    assert!(response.body == body(seed, len), "{what}");
}

/// With the server's address in place of `SERVER`.
fn setup(text: &str, server: &Server) -> Setup {
    Setup::http(&text.replace("SERVER", &server.addr.to_string()))
}

const PLAIN: &str = "listen web\n bind <@fe>\n server s SERVER";
/// Every byte passes through buffers.
const COPIED: &str = "listen web\n bind <@fe>\n server s SERVER\nglobal\n nosplice";
const SPLICED: &str =
    "listen web\n bind <@fe>\n option splice-request\n option splice-response\n server s SERVER";

fn responses(io: Io, text: &str) {
    let server = server();
    let proxy = setup(text, &server).start(io);
    let mut client = proxy.connect();
    let mut seed = 0;
    for (f, form) in FORMS.iter().enumerate() {
        for len in sizes() {
            seed += 1;
            client.send(get(f, seed, len));
            expect(&mut client, seed, len, &format!("{io} {form:?} {len}"));
        }
    }
    drop(client);
    proxy.finish(server);
}

#[test]
fn responses_arrive_whole() {
    each_driver(|io| responses(io, PLAIN));
}

#[test]
fn responses_arrive_whole_when_they_are_copied() {
    each_driver(|io| responses(io, COPIED));
}

#[test]
fn responses_arrive_whole_when_they_are_spliced() {
    each_driver(|io| responses(io, SPLICED));
}

#[test]
fn responses_of_clients_that_know_no_chunks() {
    each_driver(|io| {
        let server = server();
        let proxy = setup(PLAIN, &server).start(io);
        for (f, form) in FORMS.iter().enumerate() {
            for len in [0, 16_384, 300_000] {
                let mut client = proxy.connect();
                client.send(format!("GET /{f}/{len}/{len} HTTP/1.0\r\n\r\n"));
                expect(&mut client, len as u64, len, &format!("{io} {form:?} {len}"));
            }
        }
        proxy.finish(server);
    });
}

/// The next request is in the same write as the body before it.
fn requests(io: Io, text: &str) {
    let server = server();
    let proxy = setup(text, &server).start(io);
    let mut client = proxy.connect();
    let mut seed = 0;
    for form in FORMS.into_iter().filter(|form| *form != Form::UntilClose) {
        for len in sizes() {
            seed += 1;
            let mut message =
                format!("POST /0/{seed}/10 HTTP/1.1\r\nHost: x\r\nX-Seed: {seed}\r\n{}\r\n", form.field(len))
                    .into_bytes();
            message.extend(form.write(&body(seed, len)));
            let ahead = get(1, seed, 5000);
            let ahead = ahead.repeat(1 + len % 40);
            message.extend_from_slice(ahead.as_bytes());
            client.send(&message);
            let what = format!("{io} {form:?} {len}");
            let response = client.response();
            assert_eq!(response.field("x-got"), len.to_string(), "{what}");
            assert!(response.body == body(seed, 10), "{what}");
            for _ in 0..1 + len % 40 {
                expect(&mut client, seed, 5000, &what);
            }
        }
    }
    drop(client);
    proxy.finish(server);
}

#[test]
fn requests_arrive_whole_and_end_before_the_next() {
    each_driver(|io| requests(io, PLAIN));
}

#[test]
fn requests_arrive_whole_when_they_are_copied() {
    each_driver(|io| requests(io, COPIED));
}

#[test]
fn requests_arrive_whole_when_they_are_spliced() {
    each_driver(|io| requests(io, SPLICED));
}

/// How many ends of pipes a process has.
fn pipes(proxy: &Proxy) -> usize {
    let of = format!("/proc/{}/fd", proxy.id());
    let links = fs::read_dir(of).unwrap().filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("pipe:")).count()
}

/// What the socket says of the bytes that went through pipes.
fn spliced(proxy: &Proxy) -> u64 {
    let told: Vec<u64> = ["h1_spliced_bytes_in", "h1_spliced_bytes_out"]
        .map(|column| h2::stat(proxy, "web", 1, column).parse().unwrap())
        .to_vec();
    told.iter().sum()
}

/// Long bodies whose length is known pass the buffers by without being asked to, unless that is forbidden.
#[test]
fn long_bodies_go_through_pipes_unless_that_is_forbidden() {
    each_driver(|io| {
        for (text, through_pipes) in [(PLAIN, true), (COPIED, false)] {
            let server = server();
            let proxy = setup(text, &server).global("stats socket <@dir>/cli level admin").start(io);
            let mut client = proxy.connect();
            client.send(get(0, 1, 1_000_000));
            expect(&mut client, 1, 1_000_000, io);
            // What it moved is counted at the end of the stream, when the next one is answered.
            client.send(get(0, 2, 10));
            expect(&mut client, 2, 10, io);
            assert_eq!(spliced(&proxy) > 0, through_pipes, "{io}");
            drop(client);
            proxy.finish(server);
        }
    });
}

/// More of them than there are bulk buffers: each gets all of its own body in the end.
#[test]
fn readers_that_do_not_read() {
    each_driver(|io| {
        let server = server();
        let patient = "timeout client 10m\ntimeout server 10m";
        let proxy = setup(PLAIN, &server).defaults(patient).start(io);
        let len = 5_000_000;
        let pipes = pipes(&proxy);
        let mut clients: Vec<Conn> = (0..36).map(|_| proxy.connect()).collect();
        for (i, client) in clients.iter_mut().enumerate() {
            client.send(get(i % 2 * 2, i as u64, len));
        }
        // Every response has begun, and nobody takes any of it.
        for client in &mut clients {
            eventually("a response begins", || (!client.is_silent()).then_some(()));
        }
        // They hold none of the descriptors that bodies go through: the thread has one pipe for all.
        assert!(self::pipes(&proxy) <= pipes + 2, "{io}");
        // Another one's body is not held up by theirs.
        let mut quick = proxy.connect();
        for seed in 0..5 {
            quick.send(get(0, seed, 1_000_000));
            expect(&mut quick, seed, 1_000_000, io);
        }
        for (i, client) in clients.iter_mut().enumerate() {
            expect(client, i as u64, len, io);
        }
        drop((clients, quick));
        proxy.finish(server);
    });
}

/// A server that ends, or breaks, the connection in the middle of a body; and a client that does.
#[test]
fn bodies_that_are_cut() {
    each_driver(|io| {
        let server = Server::start(|mut conn, _| {
            let Some(request) = conn.next_request() else { return };
            let parts: Vec<&str> = request.head.line.split([' ', '/']).collect();
            let at: usize = parts[4].parse().unwrap();
            let form = if parts[3] == "c" { Form::Chunks(100_000) } else { Form::Sized };
            let mut message = format!("HTTP/1.1 200 OK\r\n{}\r\n", form.field(400_000)).into_bytes();
            let head = message.len();
            message.extend(form.write(&body(7, 400_000)));
            message.truncate(head + at);
            let _ = conn.try_send(&message);
            match parts[2] {
                "end" => {}
                "reset" => conn.reset(),
                // The client leaves.
                _ => drop(conn.ended()),
            }
        });
        let proxy = setup(PLAIN, &server).start(io);
        for how in ["end", "reset", "leave", "break"] {
            for form in ["s", "c"] {
                for at in [1, 5000, 16_384, 100_000, 262_144, 399_999] {
                    let mut client = proxy.connect();
                    client.send(format!("GET /{how}/{form}/{at} HTTP/1.1\r\nHost: x\r\n\r\n"));
                    let head = client.head();
                    match how {
                        "leave" => drop(client),
                        "break" => client.reset(),
                        _ => {
                            // Nothing that looks like an end follows.
                            let got = client.ended();
                            let what = format!("{io} {how} {form} {at} {head:?}");
                            assert!(got.len() <= at, "{what}: {}", got.len());
                            assert!(!got.ends_with(b"0\r\n\r\n"), "{what}");
                            let sent = if form == "c" { Form::Chunks(100_000) } else { Form::Sized };
                            assert!(sent.write(&body(7, 400_000)).starts_with(&got), "{what}");
                            // A part of a chunk's header goes nowhere.
                            if how == "end" && at > 1 {
                                assert_eq!(got.len(), at, "{what}");
                            }
                        }
                    }
                }
            }
        }
        proxy.finish(server);
    });
}

/// Rules see what fits into `tune.bufsize`, however much is received at once.
#[test]
fn rules_see_a_buffer_of_a_body() {
    each_driver(|io| {
        let server = server();
        let text = "listen web\n bind <@fe>\n http-response wait-for-body time 5s at-least 10k\n \
                    http-response set-header x-len %[res.body_len]\n \
                    http-request wait-for-body time 5s at-least 10k\n \
                    http-request set-header x-seen %[req.body_len]\n \
                    http-response set-header x-seen %[var(txn.seen)]\n \
                    http-request set-var(txn.seen) req.body_len\n server s SERVER";
        let proxy = setup(text, &server).start(io);
        let mut client = proxy.connect();
        for seed in 1..6 {
            let sent = body(seed, 300_000);
            client.send(format!(
                "POST /0/{seed}/300000 HTTP/1.1\r\nHost: x\r\nX-Seed: {seed}\r\nContent-Length: 300000\r\n\r\n"
            ));
            let mut twin = client.twin();
            let sender = thread::spawn(move || twin.send(sent));
            let response = client.response();
            sender.join().unwrap();
            assert!(response.body == body(seed, 300_000), "{io}");
            for field in ["x-len", "x-seen"] {
                let seen: usize = response.field(field).parse().unwrap();
                assert!((10_240..=16_384).contains(&seen), "{io}: {field} {seen}");
            }
        }
        drop(client);
        proxy.finish(server);
    });
}
