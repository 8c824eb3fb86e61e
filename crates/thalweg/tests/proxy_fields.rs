//! Fields of a PROXY header that a server's line asks for (`set-proxy-v2-tlv-fmt`), beside the reference's.

mod support;

use std::path::Path;

use support::{Conn, Io, Server, Setup, each_driver, reference};

/// Reads a version 2 header, and returns what is behind its addresses: type and value of each field.
fn fields(conn: &mut Conn) -> String {
    let start = conn.exactly(16);
    let rest = conn.exactly(usize::from(u16::from_be_bytes([start[14], start[15]])));
    let mut at = &rest[12..];
    let mut out = String::new();
    while let [kind, high, low, behind @ ..] = at {
        let (value, next) = behind.split_at(usize::from(u16::from_be_bytes([*high, *low])));
        out.push_str(&format!("{kind:02x}={} ", String::from_utf8_lossy(value)));
        at = next;
    }
    out
}

/// Requests with these values of `x-tlv`, each on a connection of its own: what the server gets in front of them, and on
/// which of its connections.
fn requests(io: Io, program: Option<&Path>, field: &str, values: &[&str]) -> Vec<String> {
    let server = Server::start(|mut conn, number| {
        let fields = fields(&mut conn);
        while conn.next_request().is_some() {
            conn.send(support::ok(&format!("{number}: {fields}")));
        }
    });
    let mut setup = Setup::http(&format!(
        "frontend fe\nbind <@fe>\nhttp-reuse always\nhttp-request set-var(txn.tlv) req.hdr(x-tlv)\n\
         default_backend be\nbackend be\nhttp-reuse always\ndefault-server send-proxy-v2 set-proxy-v2-tlv-fmt(0xE0) {field}\n\
         server a {} pool-low-conn 100 set-proxy-v2-tlv-fmt(225) <%fp> set-proxy-v2-tlv-fmt(0342)\n",
        server.addr
    ));
    if let Some(program) = program {
        setup = setup.program(program);
    }
    let proxy = setup.start(io);
    let port = proxy.addr("fe").port().to_string();
    let ask = |value: &&str| {
        let mut conn = Conn::connect(proxy.addr("fe"));
        conn.send(format!("GET / HTTP/1.1\r\nHost: h\r\nx-tlv: {value}\r\n\r\n"));
        conn.response().text().replace(&port, "<port>")
    };
    values.iter().map(ask).collect()
}

/// Only a request with the same fields may be sent on a connection that began with them. The port is the listener's, so
/// that the client's, which every header has, is what differs between clients.
#[test]
fn fields_are_computed_for_each_request() {
    let wanted = ["0: e0=one e1=<<port>> e2= ", "1: e0=two e1=<<port>> e2= ", "2: e0= e1=<<port>> e2= "];
    // A value of the request is empty in the reference (docs/differences.md), one that was kept of it is not.
    for field in ["%[req.hdr(x-tlv)]", "%[var(txn.tlv)]"] {
        each_driver(|io| {
            assert_eq!(requests(io, None, field, &["one", "two", ""]), wanted, "{field} over {io}");
        });
    }
    if let Some(reference) = reference() {
        assert_eq!(
            requests("epoll", Some(&reference), "%[var(txn.tlv)]", &["one", "two", ""]),
            wanted,
            "of the reference"
        );
    }
}

/// What came with a client's header goes on to the server's, in TCP.
fn passed_on(io: Io, program: Option<&Path>) -> String {
    let server = Server::start(|mut conn, _| {
        let fields = fields(&mut conn);
        conn.until(b"hello");
        conn.send(fields);
    });
    let mut setup = Setup::tcp(&format!(
        "frontend fe\nbind <@fe> accept-proxy\ndefault_backend be\nbackend be\n\
         server a {} send-proxy-v2 set-proxy-v2-tlv-fmt(0x20) %[fc_pp_tlv(0xE1)] set-proxy-v2-tlv-fmt(0xE5) %ci\n",
        server.addr
    ));
    if let Some(program) = program {
        setup = setup.program(program);
    }
    let proxy = setup.start(io);
    let mut conn = Conn::connect(proxy.addr("fe"));
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x12".to_vec();
    header.extend_from_slice(&[10, 1, 1, 1, 10, 1, 1, 2, 1, 2, 3, 4]);
    header.extend_from_slice(b"\xe1\0\x03foo");
    conn.send(header);
    conn.send("hello");
    conn.rest_text()
}

#[test]
fn fields_are_passed_on() {
    each_driver(|io| assert_eq!(passed_on(io, None), "20=foo e5=10.1.1.1 ", "over {io}"));
    if let Some(reference) = reference() {
        assert_eq!(passed_on("epoll", Some(&reference)), "20=foo e5=10.1.1.1 ", "of the reference");
    }
}
