//! Large bodies over HTTP/2: what leaves from where it was received arrives whole, whatever its receiver takes at a time.

mod support;

use support::h2::Client;
use support::tls::{self, Authority};
use support::{Conn, Proxy, Server, Setup, each_driver, ok};

/// The body of `/n`, in blocks that say where they are.
fn body(n: usize) -> String {
    (0..500 + n).map(|block| format!("{n} {block:06};").repeat(200)).collect()
}

fn telling() -> Server {
    Server::http(|request| {
        let digits: String = request.head.line.chars().skip(5).take_while(char::is_ascii_digit).collect();
        ok(&body(digits.parse().unwrap()))
    })
}

/// Opens some streams and reads them one after the other.
fn reads(mut client: Client, case: &str) {
    let ids: Vec<u32> = (0..6).map(|n| client.open("GET", &format!("/{n}"), &[], true)).collect();
    for (n, id) in ids.into_iter().enumerate() {
        let (answer, expected) = (client.answer(id), body(n));
        assert_eq!(
            (answer.status, answer.body.len(), answer.whole),
            (200, expected.len(), true),
            "{case} {n}"
        );
        assert!(answer.body == expected.as_bytes(), "{case} {n}");
    }
}

fn before(server: &Server, certificate: &str, global: &str) -> Setup {
    Setup::http(&format!(
        "frontend fe\nbind <@fe>\nbind <@tls> ssl crt {certificate} alpn h2\ndefault_backend be\nbackend be\nserver s {}\n",
        server.addr
    ))
    .global(global)
}

fn secured(proxy: &Proxy) -> Conn {
    let context = tls::client(|profile| profile.alpn = vec![b"h2".to_vec()]);
    Conn::connect(proxy.addr("tls")).encrypt(&context, Some("h.example"))
}

#[test]
fn large_bodies_arrive_whole() {
    each_driver(|io| {
        let authority = Authority::new("authority");
        let certificate = authority.issue("h.example");
        for (global, windows) in
            [("", &[1 << 22, 65_535, 17_000][..]), ("tune.h2.zero-copy-fwd-send off", &[1 << 22])]
        {
            let server = telling();
            let proxy = before(&server, &certificate, global).start(io);
            // All that there is, what many clients have, and a little more than a frame.
            for window in windows {
                reads(Client::with(proxy.connect(), *window), &format!("clear {window} {global}"));
                reads(Client::with(secured(&proxy), *window), &format!("TLS {window} {global}"));
            }
            proxy.finish(server);
        }
    });
}
