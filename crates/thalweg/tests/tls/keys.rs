//! Keys that change: those of a connection while it is used, and those of tickets.

use super::support::tls::{Authority, client, server};
use super::support::{Conn, Server, each_driver};
use super::{TLS12, TLS13, front, get, noise, tell};
use thalweg_tls::engine::WARNINGS_MAX;

/// Octets between two changes of a key.
const PIECE: usize = 10_000;
/// Changes of each end; below what `tune.ssl.keyupdate-rate-limit` allows in a second, and with two tickets no more than a peer takes in
/// a row, as all may be answered before there is a response.
const CHANGES: usize = WARNINGS_MAX as usize - 2;

/// Sends back what comes, and asks for a new key before each piece.
fn echo_with_new_keys(conn: &mut Conn) {
    let head = conn.next_head().unwrap();
    let length: usize = head.field("content-length").parse().unwrap();
    conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n"));
    for _ in 0..length / PIECE {
        let piece = conn.exactly(PIECE);
        conn.tls().connection.refresh_both().unwrap();
        conn.send(piece);
    }
}

/// A client and a server that change their keys all the time, and want the proxy to do the same, while it is sending and receiving.
#[test]
fn of_connections_while_bodies_flow_both_ways() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let selection = server(&authority.issue("back.example.com"), |profile| profile.versions = TLS13);
        let (counted, changes) = std::sync::mpsc::channel();
        let back = Server::start(move |conn, _| {
            let mut conn = conn.accept_tls(&selection);
            echo_with_new_keys(&mut conn);
            // What the proxy said of its keys may come behind all that it had to send.
            conn.ended();
            counted.send(conn.tls().key_updates).unwrap();
        });
        let rest = format!("default_backend be\nbackend be\nserver s {} ssl verify none\n", back.addr);
        let proxy = front(&authority, &rest).start(io);
        let mut conn = proxy.connect().encrypt(&client(|profile| profile.versions = TLS13), None);
        let body = noise(CHANGES * PIECE);
        let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
        let mut sealed = conn.tls().seal(head.as_bytes());
        for piece in body.chunks(PIECE) {
            conn.tls().connection.refresh_both().unwrap();
            sealed.extend(conn.tls().seal(piece));
        }
        let mut twin = conn.raw_twin();
        let sender = std::thread::spawn(move || twin.try_send_raw(&sealed).unwrap());
        let response = conn.response();
        sender.join().unwrap();
        assert!(response.body == body, "what came back over {io}");
        // Requests that wait for the same send have one answer.
        assert!(conn.tls().key_updates > 0, "the proxy's key towards the client, over {io}");
        drop(conn);
        proxy.finish(back);
        assert!(changes.recv().unwrap() > 0, "the proxy's key towards the server, over {io}");
    });
}

/// A ticket is taken until its key was replaced twice: once it stays for those who have one.
#[test]
fn of_tickets() {
    // In base64, which ends with no padding: 48 octets.
    let key = |letter: char| letter.to_string().repeat(64);
    each_driver(|io| {
        let authority = Authority::new("Root");
        let file = authority.path("ticket.keys");
        std::fs::write(&file, ['A', 'B', 'C'].map(key).join("\n") + "\n").unwrap();
        let certificate = authority.issue("www.example.com");
        let text = format!(
            "frontend fe\nbind <@fe> ssl crt {certificate} tls-ticket-keys {file}\n\
             http-request return status 200 content-type text/plain lf-string %[ssl_fc_is_resumed]\n"
        );
        let setup = super::Setup::http(&text).global("stats socket <@dir>/cli level admin\n");
        let proxy = setup.start(io);
        for (versions, [second, third]) in [(TLS12, ['D', 'E']), (TLS13, ['F', 'G'])] {
            let contexts = [(); 3].map(|()| client(|profile| profile.versions = versions));
            let asked = |context| {
                let mut conn = proxy.connect().encrypt(context, Some("www.example.com"));
                get(&mut conn, "/").text()
            };
            contexts.iter().for_each(|context| assert_eq!(asked(context), "0"));
            let changes = [(None, "1"), (Some(second), "1"), (Some(third), "0")];
            for (context, (new, resumed)) in contexts.iter().zip(changes) {
                if let Some(new) = new {
                    let told = tell(&proxy, &format!("set ssl tls-key {file} {}", key(new)));
                    assert_eq!(told.trim(), "TLS ticket key updated!");
                }
                assert_eq!(asked(context), resumed, "{versions:?} {new:?} over {io}");
            }
        }
        proxy.finish(());
    });
}
