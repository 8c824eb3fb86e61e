//! What a PROXY header to a server says (`set-proxy-v2-tlv-fmt`, `proxy-v2-options`), beside the reference's.

mod support;

use std::path::Path;

use std::sync::{Arc, Mutex};

use support::tls::{Authority, client, client_credential, template};
use support::{Conn, Io, Server, Setup, each_driver, eventually, reference};
use thalweg_tls::options::Versions;
use thalweg_tls::x509::oid::purpose;

/// Type and value of each field, one after the other.
fn told(mut at: &[u8]) -> String {
    let mut out = String::new();
    while let [kind, high, low, behind @ ..] = at {
        let (value, next) = behind.split_at(usize::from(u16::from_be_bytes([*high, *low])));
        match (kind, value) {
            (0x03, _) => out.push_str("crc "),
            // Of the client's TLS: flags, the result of the verification, fields.
            (0x20, [flags, r0, r1, r2, r3, within @ ..]) => {
                let result = u32::from_be_bytes([*r0, *r1, *r2, *r3]);
                out.push_str(&format!("tls({flags} {result} {}) ", told(within).trim_end()));
            }
            _ => out.push_str(&format!("{kind:02x}={} ", String::from_utf8_lossy(value))),
        }
        at = next;
    }
    out
}

/// Reads a version 2 header, and returns what is behind its addresses: type and value of each field.
fn fields(conn: &mut Conn) -> String {
    let start = conn.exactly(16);
    let rest = conn.exactly(usize::from(u16::from_be_bytes([start[14], start[15]])));
    told(&rest[12..])
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

/// What a server is told of clients that speak TLS or not, with and without a certificate, and of a session that goes on.
fn tls_of_clients(io: Io, program: Option<&Path>, options: &str) -> Vec<String> {
    let authority = Authority::new("Root");
    let certificate = authority.issue("www.example.com");
    let own = template("somebody").purposes(&[purpose::CLIENT_AUTH]);
    let own = authority.issue_as("client.pem", &own);
    let server = Server::start(|mut conn, _| {
        let fields = fields(&mut conn);
        if conn.next_request().is_some() {
            conn.send(support::ok(&fields));
        }
    });
    let mut setup = Setup::http(&format!(
        "frontend fe\nbind <@fe>\nbind <@tls> ssl crt {certificate} ca-file {} verify optional alpn http/1.1\n\
         http-reuse never\nunique-id-format u%[path]\nunique-id-header x-id\ndefault_backend be\n\
         backend be\nserver a {} {options}\n",
        authority.path("ca.pem"),
        server.addr
    ));
    if let Some(program) = program {
        setup = setup.program(program);
    }
    let proxy = setup.start(io);
    let ask = |mut conn: Conn| {
        conn.send("GET /1 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        conn.response().text()
    };
    let anybody = client(|profile| {
        profile.versions = Versions { tls12: true, tls13: false };
        profile.alpn = vec![b"http/1.1".to_vec()];
    });
    let somebody = client(|profile| profile.own = client_credential(&own));
    let encrypted = || Conn::connect(proxy.addr("tls"));
    vec![
        ask(Conn::connect(proxy.addr("fe"))),
        ask(encrypted().encrypt(&anybody, None)),
        ask(encrypted().encrypt(&somebody, Some("www.example.com"))),
        // Its session goes on.
        ask(encrypted().encrypt(&somebody, Some("www.example.com"))),
    ]
}

#[test]
fn headers_tell_of_tls() {
    let all = "ssl,cert-cn,cert-key,cert-sig,ssl-cipher,authority,unique-id,crc32c";
    let cipher12 = "23=ECDHE-ECDSA-AES256-GCM-SHA384";
    let cipher13 = "23=TLS_AES_256_GCM_SHA384";
    let own = "25=EC256 24=ecdsa-with-SHA256";
    let everything = |who: &str| format!("crc 02=www.example.com 05=u/1 tls({who} {own} {cipher13}) ");
    let check = |options: &str, expected: [String; 4]| {
        each_driver(|io| assert_eq!(tls_of_clients(io, None, options), expected, "{options} over {io}"));
        if let Some(reference) = reference() {
            let said = tls_of_clients("epoll", Some(&reference), options);
            assert_eq!(said, expected, "{options} of the reference");
        }
    };
    check(
        &format!("send-proxy-v2 proxy-v2-options {all}"),
        [
            "crc 05=u/1 tls(0 0 ) ".into(),
            format!("crc 01=http/1.1 05=u/1 tls(1 0 21=TLSv1.2 {own} {cipher12}) "),
            everything("7 0 21=TLSv1.3 22=somebody"),
            everything("5 0 21=TLSv1.3 22=somebody"),
        ],
    );
    let names = |flags: u8| format!("tls({flags} 0 21=TLSv1.3 22=somebody) ");
    check(
        "send-proxy-v2-ssl-cn",
        ["tls(0 0 ) ".into(), "01=http/1.1 tls(1 0 21=TLSv1.2) ".into(), names(7), names(5)],
    );
    let versions = |flags: u8| format!("tls({flags} 0 21=TLSv1.3) ");
    check(
        "send-proxy send-proxy-v2-ssl no-send-proxy",
        ["tls(0 0 ) ".into(), "01=http/1.1 tls(1 0 21=TLSv1.2) ".into(), versions(7), versions(5)],
    );
    check("send-proxy-v2", [String::new(), "01=http/1.1 ".into(), String::new(), String::new()]);
}

/// How the health checks of these lines begin. Of a line of version 1, its family and the count of the other words.
fn checks(io: Io, program: Option<&Path>, global: &str, lines: &[&str]) -> Vec<String> {
    let heard: Vec<Arc<Mutex<Option<String>>>> = lines.iter().map(|_| Arc::default()).collect();
    let servers: Vec<Server> = heard
        .iter()
        .map(|heard| {
            let heard = Arc::clone(heard);
            Server::start(move |mut conn, _| {
                let start = conn.exactly(16);
                let said = if let Some(more) = start.strip_prefix(b"PROXY ") {
                    let rest = conn.until(b"\r\n");
                    let line = String::from_utf8([more, &rest].concat()).unwrap();
                    // The port is another one each time.
                    let words: Vec<&str> = line.split(' ').collect();
                    format!("v1 {} {}", words[0], words[1..].len())
                } else {
                    let rest = conn.exactly(usize::from(u16::from_be_bytes([start[14], start[15]])));
                    let addresses = if start[13] == 0 { 0 } else { 12 };
                    format!("{:02x} {:02x} {}", start[12], start[13], told(&rest[addresses..]))
                };
                *heard.lock().unwrap() = Some(said);
            })
        })
        .collect();
    let servers_text: String = servers
        .iter()
        .zip(lines)
        .enumerate()
        .map(|(at, (server, line))| format!("server s{at} {} check {line}\n", server.addr))
        .collect();
    let mut setup =
        Setup::tcp(&format!("frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\n{servers_text}"))
            .global(global);
    if let Some(program) = program {
        setup = setup.program(program);
    }
    let proxy = setup.start(io);
    let said = heard.iter().map(|heard| eventually("a check", || heard.lock().unwrap().clone())).collect();
    drop((proxy, servers));
    said
}

/// A check is nobody's connection, and says so.
#[test]
fn checks_begin_with_a_header() {
    let lines = [
        "send-proxy",
        "check-send-proxy",
        "send-proxy-v2",
        "send-proxy-v2-ssl",
        "send-proxy-v2 proxy-v2-options cert-cn proxy-v2-options crc32c",
        "send-proxy-v2-ssl set-proxy-v2-tlv-fmt(0xE0) y no-send-proxy-v2 send-proxy-v2",
        "send-proxy-v2-ssl no-send-proxy-v2-ssl send-proxy-v2",
        "send-proxy-v2-ssl no-send-proxy-v2-ssl-cn send-proxy",
    ];
    for (global, version) in [("", "20 00"), ("pp2-never-send-local", "21 11")] {
        let v2 = |fields: &str| format!("{version} {fields}");
        let expected = [
            "v1 TCP4 4".to_owned(),
            "v1 TCP4 4".into(),
            v2(""),
            v2("tls(0 0 ) "),
            v2("crc tls(0 0 ) "),
            v2("e0=y tls(0 0 ) "),
            v2(""),
            "v1 TCP4 4".into(),
        ];
        each_driver(|io| assert_eq!(checks(io, None, global, &lines), expected, "{global} over {io}"));
        if let Some(reference) = reference() {
            assert_eq!(
                checks("epoll", Some(&reference), global, &lines),
                expected,
                "{global} of the reference"
            );
        }
    }
}

/// What the client is told by `lines` of a `listen` section in this mode, after it sent `bytes`.
fn said(program: Option<&Path>, io: Io, text: &str, bytes: &str) -> String {
    let mut setup = if text.contains("http-request") { Setup::http(text) } else { Setup::tcp(text) };
    if let Some(program) = program {
        setup = setup.program(program);
    }
    let proxy = setup.start(io);
    let mut conn = Conn::connect(proxy.addr("fe"));
    conn.send(bytes);
    conn.rest_text()
}

/// A stream of bytes has its identifier, too, when a header to a server names it.
#[test]
fn an_identifier_goes_in_front_of_bytes() {
    let told = |program: Option<&Path>, io| {
        let server = Server::start(|mut conn, _| {
            let fields = fields(&mut conn);
            conn.send(fields);
        });
        let options = "send-proxy-v2 proxy-v2-options unique-id";
        let text =
            format!("listen fe\nbind <@fe>\nunique-id-format u-%ft\nserver a {} {options}\n", server.addr);
        said(program, io, &text, "")
    };
    each_driver(|io| assert_eq!(told(None, io), "05=u-fe ", "{io}"));
    if let Some(reference) = reference() {
        assert_eq!(told(Some(&reference), "epoll"), "05=u-fe ", "the reference");
    }
}

/// The header tells who the session is with; the connection stays that with whom sent it.
#[test]
fn a_header_is_about_the_session() {
    let text = "listen fe\nbind <@fe> accept-proxy\nhttp-request return status 200 content-type text/plain lf-string \
                \"%[src] %[src_port] %[dst] %[dst_port] %[fc_src,ipmask(8)] %[fc_dst,ipmask(8)] %[fc_rcvd_proxy]\"\n";
    let request = "PROXY TCP4 9.8.7.6 5.4.3.2 1 2\r\nGET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    let expected = "\r\n\r\n9.8.7.6 1 5.4.3.2 2 127.0.0.0 127.0.0.0 1";
    let check = |said: String, by: &str| assert!(said.ends_with(expected), "{by}: {said}");
    each_driver(|io| check(said(None, io, text, request), io));
    if let Some(reference) = reference() {
        check(said(Some(&reference), "epoll", text, request), "the reference");
    }
}
