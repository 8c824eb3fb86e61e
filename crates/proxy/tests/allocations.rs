//! A kept connection costs no allocation per request once it is warm: requests go through a real frontend, its rules,
//! a balanced backend with a pooled server connection, and a log line to a UDP socket, and the allocations of the
//! proxy's thread are counted.

#[path = "support/counting.rs"]
mod counting;
mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use thalweg_runtime::driver::DriverKind;

const REQUEST: &[u8] =
    b"GET /path/to/thing?q=1 HTTP/1.1\r\nHost: www.example.com\r\nUser-Agent: test\r\nAccept: */*\r\n\
                         Cookie: a=1; b=2\r\n\r\n";

/// Answers every head with the same small response.
fn serve(listener: &TcpListener) {
    let (mut stream, _) = listener.accept().unwrap();
    let response = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nServer: s\r\nContent-Length: 1000\r\n\r\n{}",
        "x".repeat(1000)
    );
    let mut head = Vec::new();
    let mut byte = [0u8; 4096];
    while let Ok(n) = stream.read(&mut byte) {
        if n == 0 {
            return;
        }
        head.extend_from_slice(&byte[..n]);
        if head.ends_with(b"\r\n\r\n") {
            head.clear();
            stream.write_all(response.as_bytes()).unwrap();
        }
    }
}

fn exchange(client: &mut TcpStream, log: &UdpSocket, times: usize) {
    let mut received = Vec::new();
    let mut part = [0u8; 4096];
    for _ in 0..times {
        client.write_all(REQUEST).unwrap();
        received.clear();
        loop {
            let n = client.read(&mut part).unwrap();
            assert!(n > 0, "the proxy closed");
            received.extend_from_slice(&part[..n]);
            if let Some(end) = received.windows(4).position(|w| w == b"\r\n\r\n")
                && received.len() >= end + 4 + 1000
            {
                break;
            }
        }
        assert!(received.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&received));
        log.recv(&mut part).unwrap();
    }
}

fn count_with(kind: DriverKind) -> usize {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let server_addr = server.local_addr().unwrap();
    thread::spawn(move || serve(&server));
    let log = UdpSocket::bind("127.0.0.1:0").unwrap();
    log.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let text = format!(
        "global\n log {} local0\ndefaults\n mode http\n log global\n option httplog\n option forwardfor\n timeout client 20s\n \
         timeout server 20s\n timeout connect 20s\n timeout http-request 20s\n timeout http-keep-alive 20s\n\
         frontend fe\n bind 127.0.0.1:1\n acl api path_beg /api/\n acl host hdr(host) -i www.example.com example.com\n \
         http-request set-header X-Proto http\n http-request del-header Proxy\n http-request deny if api !host\n \
         http-response set-header X-Frame-Options DENY\n \
         http-response del-header Server\n use_backend be if host\n default_backend be\n\
         backend be\n balance roundrobin\n http-request add-header X-Backend %[be_name]\n server s {server_addr}\n",
        log.local_addr().unwrap()
    );
    let settings = thalweg_runtime::Config { driver: kind, ..thalweg_runtime::Config::default() };
    let proxy = support::start(&text, settings, counting::count_this_thread);
    let mut client = support::connect(proxy.addr);
    exchange(&mut client, &log, 200);
    // The runtime registers its own figures once, some time after the start: the steady state is the best of a few
    // rounds. What a request allocates shows in all of them.
    let rounds = (0..5).map(|_| counting::counted(|| exchange(&mut client, &log, 1000)));
    let least = rounds.min().unwrap();
    proxy.stop();
    least
}

#[test]
fn a_request_on_a_kept_connection_allocates_nothing() {
    support::each_driver(|name, kind| {
        let count = count_with(kind());
        assert_eq!(count, 0, "allocations in 1000 requests with {name}; the first:\n{}", counting::first());
    });
}
