//! Local ports are scarce: a connection to a server that this side closes must not keep one for a minute (TIME_WAIT).

mod support;

use std::net::SocketAddrV4;

use support::{Server, Setup, each_driver, eventually, ok};

const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

/// Connections to a server whose port this side keeps, by the kernel's table.
fn kept_ports(server: SocketAddrV4) -> usize {
    let remote = format!("{:08X}:{:04X}", u32::from_ne_bytes(server.ip().octets()), server.port());
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let fields = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    // The third column is the peer, the fourth the state: 06 is TIME_WAIT.
    fields.filter(|f| f.get(2) == Some(&remote.as_str()) && f.get(3) == Some(&"06")).count()
}

#[test]
fn a_connection_per_request_keeps_no_port() {
    each_driver(|io| {
        let server = Server::http(|_| ok("fine"));
        let text = format!(
            "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\noption http-server-close\nserver s {}\n",
            server.addr
        );
        let proxy = Setup::http(&text).start(io);
        for _ in 0..50 {
            assert_eq!(proxy.ask(GET).text(), "fine");
        }
        eventually("all connections to the server are closed", || {
            (server.accepted() == 50 && proxy.descriptors() < 100).then_some(())
        });
        proxy.is_idle();
        assert_eq!(kept_ports(server.addr), 0);
    });
}

#[test]
fn a_tunnel_ends_in_order() {
    each_driver(|io| {
        // The server reads to the end of what the client sent through the tunnel: a reset would fail that.
        let server = Server::start(|mut conn, _| {
            let Some(_) = conn.next_head() else { return };
            conn.send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n");
            assert_eq!(conn.rest_text(), "all of it");
            conn.send("bye");
        });
        let text =
            format!("frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nserver s {}\n", server.addr);
        let proxy = Setup::http(&text).start(io);
        let mut client = proxy.connect();
        client.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n");
        assert!(client.head().line.contains("101"));
        client.send("all of it");
        client.half_close();
        assert_eq!(client.rest_text(), "bye");
        proxy.finish(server);
    });
}
