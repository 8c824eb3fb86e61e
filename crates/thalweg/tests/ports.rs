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

/// The end of a connection leaves in one segment with the last byte of the response: a client that closes as soon as it
/// has its response would otherwise be the first to do so, and keep a port of its own for a minute.
#[test]
fn a_response_brings_the_end_of_its_connection() {
    use std::io::{ErrorKind, Read, Write};
    each_driver(|io| {
        let body = "x".repeat(3000);
        let server = Server::http({
            let body = body.clone();
            move |_| ok(&body)
        });
        let text =
            format!("frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nserver s {}\n", server.addr);
        let proxy = Setup::http(&text).start(io);
        for _ in 0..20 {
            let mut client = std::net::TcpStream::connect(proxy.addr("fe")).unwrap();
            client.write_all(GET.as_bytes()).unwrap();
            let mut response = Vec::new();
            while !response.ends_with(body.as_bytes()) {
                let mut bytes = [0; 8192];
                let n = client.read(&mut bytes).unwrap();
                assert!(n > 0, "{}", String::from_utf8_lossy(&response));
                response.extend_from_slice(&bytes[..n]);
            }
            client.set_nonblocking(true).unwrap();
            match client.read(&mut [0]) {
                Ok(0) => {}
                Ok(_) => panic!("more than the response"),
                Err(error) => {
                    assert_ne!(error.kind(), ErrorKind::WouldBlock, "the end comes later");
                    panic!("{error}");
                }
            }
        }
        proxy.finish(server);
    });
}
