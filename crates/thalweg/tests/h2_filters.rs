//! Filters of bodies over HTTP/2: what passes is whole, with its trailers, and not faster than allowed, whatever each side speaks.

mod support;

use std::time::{Duration, Instant};

use support::h2::{Client, Served};
use support::{Server, Setup, each_driver, ok};
use thalweg_h2::settings::Settings;

/// A body whose every byte says where it is.
fn body(len: usize) -> String {
    (0..len).map(|n| char::from(b'a' + (n / 7 % 26) as u8)).collect()
}

/// Says what it was sent, in frames or in chunks as the path asks for, and which trailers there were.
fn echo(version: u8) -> Server {
    if version == 2 {
        return Server::start(|conn, _| {
            let mut served = Served::new(conn, Settings::default());
            while let Some((id, asked)) = served.next_request() {
                served.head(id, 200, &[], false);
                for piece in asked.body.chunks(3000) {
                    while served.h2.room(id) < piece.len() && served.more() {}
                    served.data(id, piece, false);
                }
                let trailer = asked.trailers.first().map_or("", |(_, value)| value);
                served.trailers(id, &[("x-seen", trailer)]);
            }
        });
    }
    Server::http(|request| {
        let body = String::from_utf8_lossy(&request.body).into_owned();
        let chunks: String = body
            .as_bytes()
            .chunks(3000)
            .map(|chunk| format!("{:x}\r\n{}\r\n", chunk.len(), String::from_utf8_lossy(chunk)))
            .collect();
        let trailer = request.trailers.trim().strip_prefix("x-sum: ").unwrap_or("").to_owned();
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}0\r\nx-seen: {trailer}\r\n\r\n")
    })
}

fn setup(lines: &str, server: &Server, version: u8) -> Setup {
    let protocol = if version == 2 { "proto h2" } else { "" };
    Setup::http(&format!(
        "frontend fe\nbind <@fe>\n{lines}\ndefault_backend be\nbackend be\nserver s {} {protocol}\n",
        server.addr
    ))
}

/// Sends a body and trailers, and looks at what comes back.
fn exchange(client: &mut Client, path: &str, len: usize) -> Duration {
    let began = Instant::now();
    let id = client.open("POST", path, &[], false);
    client.data(id, body(len).as_bytes(), false);
    client.trailers(id, &[("x-sum", "5")]);
    let answer = client.answer(id);
    assert_eq!((answer.status, answer.body.len(), answer.whole), (200, len, true), "{path}");
    assert!(answer.body == body(len).as_bytes(), "{path}");
    assert_eq!(answer.trailers, [("x-seen".to_owned(), "5".to_owned())], "{path}");
    began.elapsed()
}

/// A stream that is slowed down keeps its own pace, and others on its connection keep theirs.
#[test]
fn one_stream_is_slowed_down_and_no_other() {
    each_driver(|io| {
        for version in [1, 2] {
            for direction in ["in", "out"] {
                let server = echo(version);
                let lines = format!(
                    "filter bwlim-{direction} slow default-limit 10k default-period 200ms\n\
                     http-request set-bandwidth-limit slow if {{ path /slow }}"
                );
                // The server reads one request after the other.
                let proxy =
                    setup(&lines, &server, version).global("tune.h2.be.max-concurrent-streams 1").start(io);
                let mut client = Client::new(proxy.connect());
                let slow = client.open("POST", "/slow", &[], false);
                client.data(slow, body(15_000).as_bytes(), false);
                let fast = exchange(&mut client, "/fast", 40_000);
                let began = Instant::now();
                client.data(slow, &body(40_000).as_bytes()[15_000..], true);
                let answer = client.answer(slow);
                assert!(answer.body == body(40_000).as_bytes(), "{direction} {version}: {answer:?}");
                // The first 10 kB at once, then as many every 200 ms; of a request some passed before.
                let (took, least) = (began.elapsed(), if direction == "in" { 350 } else { 550 });
                assert!(took >= Duration::from_millis(least), "{direction} {version}: {took:?}");
                assert!(fast < took, "{direction} {version}: {fast:?}, {took:?}");
                drop(client);
                proxy.finish(server);
            }
        }
    });
}

#[test]
fn random_pieces_pass_with_their_trailers() {
    each_driver(|io| {
        for version in [1, 2] {
            let server = echo(version);
            let lines = "filter trace random-forwarding quiet\nfilter trace name two random-forwarding max-fwd 700 quiet";
            let proxy = setup(lines, &server, version).start(io);
            let mut client = Client::new(proxy.connect());
            for len in [0, 1, 1000, 16_384, 100_000] {
                exchange(&mut client, "/", len);
            }
            drop(client);
            proxy.finish(server);
        }
    });
}

/// What a filter tells of a stream is what passed on it.
#[test]
fn trace_tells_what_passes() {
    each_driver(|io| {
        let server = Server::http(|_| ok("hello"));
        let proxy = setup("filter trace name T hexdump", &server, 1).start(io);
        let mut client = Client::new(proxy.connect());
        assert_eq!(client.get("/").text(), "hello");
        support::eventually("the trace tells of the payload and the end", || {
            let output = proxy.output();
            let lines = [
                "trace_http_payload       : channel=RESPONSE   - mode=HTTP - offset=0 - len=5 - forward=5",
                "|hello|",
                "trace_http_end           : channel=RESPONSE",
            ];
            lines.iter().all(|line| output.contains(line)).then_some(())
        });
        drop(client);
        proxy.finish(server);
    });
}
