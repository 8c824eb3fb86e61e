//! Handshakes that come to nothing: what is logged of them, beside the reference's lines.

mod support;

use std::path::Path;
use std::sync::mpsc::channel;

use support::tls::{Authority, client, server};
use support::{Conn, Io, Server, Setup, each_driver, h2, reference};
use thalweg_h2::frame::Kind;
use thalweg_h2::frame::flag::{END_HEADERS, END_STREAM};
use thalweg_h2::settings::Settings;
use thalweg_tls::engine::Connecting;
use thalweg_tls::options::Versions;

/// A client's first flight, of TLS 1.2: the server's whole flight is the answer, whatever groups both have.
fn hello() -> Vec<u8> {
    let context = client(|profile| profile.versions = Versions { tls12: true, tls13: false });
    let mut connecting = Connecting::new(context, None, None).unwrap();
    let mut flight = Vec::new();
    connecting.step(&mut flight).unwrap();
    flight
}

fn setup(text: &str, program: Option<&Path>) -> Setup {
    let setup = Setup::http(text);
    match program {
        Some(program) => setup.program(program),
        None => setup,
    }
}

/// What somebody does with a connection.
type Act = fn(Conn);

/// What a client does before it leaves or is sent away, and what is logged of it.
const CLIENTS: [(&str, Act, &str); 5] = [
    ("says nothing", drop, "24 0000000000000000 - PR"),
    ("says three bytes", |mut conn| conn.send(&hello()[..3]), "24 0000000000000000 - PR"),
    ("says half a hello", |mut conn| conn.send(&hello()[..60]), "24 0000000000000000 - PR"),
    (
        "leaves the answer without a word",
        |mut conn| {
            conn.send(hello());
            conn.exactly(10);
            conn.half_close();
            conn.ended();
        },
        "34 0000000000000000 - PR",
    ),
    (
        "stalls",
        |mut conn| {
            conn.send(&hello()[..60]);
            conn.ended();
        },
        "26 0000000000000000 - PR",
    ),
];

fn of_clients(io: Io, program: Option<&Path>) {
    let authority = Authority::new("Root");
    let certificate = authority.issue("www.example.com");
    let text = format!(
        "frontend fe\nbind <@fe> ssl crt {certificate}\ntimeout client-hs 1s\n\
         error-log-format \"%[fc_err] %[ssl_fc_err,hex] %[ssl_fc_err_str] %ts\"\nhttp-request return status 200\n"
    );
    let proxy = setup(&text, program).start(io);
    for (what, act, expected) in CLIENTS {
        act(proxy.connect());
        assert_eq!(proxy.log(), expected, "a client that {what}, over {io}, {program:?}");
    }
    if program.is_none() {
        // The reference has another number for one that it notices while it sends.
        let mut conn = proxy.connect();
        conn.send(hello());
        conn.exactly(10);
        conn.reset();
        assert_eq!(proxy.log(), "34 0000000000000000 - PR", "a connection that breaks, over {io}");
    }
}

#[test]
fn clients_that_leave_in_the_middle() {
    each_driver(|io| of_clients(io, None));
    if let Some(reference) = reference() {
        of_clients("epoll", Some(&reference));
    }
}

/// What a server does with the connection, and what is logged of it.
const SERVERS: [(&str, Act); 2] = [
    ("leaves the hello without a word", |mut conn| {
        conn.exactly(10);
    }),
    ("stops in the middle of its hello", |mut conn| {
        conn.exactly(10);
        conn.send(b"\x16\x03\x03\x00\x7a\x02\x00\x00\x76\x03\x03abc");
        conn.half_close();
        conn.ended();
    }),
];

fn of_servers(io: Io, program: Option<&Path>) {
    for (what, act) in SERVERS {
        let server = Server::start(move |conn, _| act(conn));
        let text = format!(
            "frontend fe\nbind <@fe>\nlog-format \"%[bc_err] %[ssl_bc_err,hex] %[ssl_bc_err_str] %ST %ts\"\n\
             default_backend be\nbackend be\nretries 0\nserver s {} ssl verify none\n",
            server.addr
        );
        let proxy = setup(&text, program).start(io);
        proxy.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let expected = "34 0000000000000000 - 503 SC";
        assert_eq!(proxy.log(), expected, "a server that {what}, over {io}, {program:?}");
    }
}

#[test]
fn servers_that_leave_in_the_middle() {
    each_driver(|io| of_servers(io, None));
    if let Some(reference) = reference() {
        of_servers("epoll", Some(&reference));
    }
}

/// Bytes that are a record, and were not encrypted by anybody.
const GARBAGE: &[u8] = b"\x17\x03\x03\x00\x20nothing that anybody could have ";

/// What a peer sends after the handshake instead of data, and what is logged of it.
const BREACHES: [(&str, Act, &str); 2] = [
    (
        "sends garbage",
        |mut conn| {
            conn.try_send_raw(GARBAGE).unwrap();
            let _ = conn.try_rest();
        },
        "43 000000000A000119 error:0A000119:SSL routines::decryption failed or bad record mac",
    ),
    (
        "sends an alert",
        |mut conn| {
            let mut alert = [0; 128];
            let written = conn.tls().connection.alert(40, &mut alert).unwrap();
            conn.try_send_raw(&alert[..written]).unwrap();
            let _ = conn.try_rest();
        },
        "43 000000000A000410 error:0A000410:SSL routines::sslv3 alert handshake failure",
    ),
];

const VERSIONS: [Versions; 2] =
    [Versions { tls12: true, tls13: false }, Versions { tls12: false, tls13: true }];

fn of_clients_after_the_handshake(io: Io, program: Option<&Path>) {
    let authority = Authority::new("Root");
    let certificate = authority.issue("www.example.com");
    let text = format!(
        "frontend fe\nbind <@fe> ssl crt {certificate}\n\
         error-log-format \"%[fc_err] %[ssl_fc_err,hex] %[ssl_fc_err_str] %ts\"\nhttp-request return status 200\n"
    );
    let proxy = setup(&text, program).start(io);
    // With TLS 1.2 the reference gives the number of a part of its library.
    let versions = if program.is_none() { &VERSIONS[..] } else { &VERSIONS[1..] };
    for (what, act, expected) in BREACHES {
        for versions in versions.iter().copied() {
            let context = client(|profile| profile.versions = versions);
            act(proxy.connect().encrypt(&context, None));
            let line = proxy.log();
            assert_eq!(
                line,
                format!("{expected} CR"),
                "a client that {what}, {versions:?}, over {io}, {program:?}"
            );
        }
    }
}

#[test]
fn clients_that_break_the_protocol_after_the_handshake() {
    each_driver(|io| of_clients_after_the_handshake(io, None));
    if let Some(reference) = reference() {
        of_clients_after_the_handshake("epoll", Some(&reference));
    }
}

fn of_servers_after_the_handshake(io: Io, program: Option<&Path>) {
    let authority = Authority::new("Root");
    let certificate = authority.issue("www.example.com");
    for (what, act, expected) in BREACHES {
        let selection = server(&certificate, |_| {});
        let back = Server::start(move |conn, _| {
            let mut conn = conn.accept_tls(&selection);
            conn.next_request();
            act(conn);
        });
        let text = format!(
            "frontend fe\nbind <@fe>\nlog-format \"%[bc_err] %[ssl_bc_err,hex] %[ssl_bc_err_str] %ST %ts\"\n\
             default_backend be\nbackend be\nretries 0\nserver s {} ssl verify none\n",
            back.addr
        );
        let proxy = setup(&text, program).start(io);
        proxy.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let line = proxy.log();
        assert_eq!(line, format!("{expected} 502 SH"), "a server that {what}, over {io}, {program:?}");
    }
}

/// How much of a response comes before, and what is logged of it then.
const BEGUN: [(&str, &str, &str); 3] = [
    ("http", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", "200 SD"),
    ("http", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", "200 SD"),
    ("tcp", "half", "0 SD"),
];

fn of_servers_in_a_body(io: Io, program: Option<&Path>) {
    let authority = Authority::new("Root");
    let certificate = authority.issue("www.example.com");
    for (what, act, expected) in BREACHES {
        for (mode, begun, ended) in BEGUN {
            let selection = server(&certificate, |_| {});
            let (go, reached) = channel();
            let reached = std::sync::Mutex::new(reached);
            let back = Server::start(move |conn, _| {
                let mut conn = conn.accept_tls(&selection);
                conn.next_request();
                conn.send(begun);
                reached.lock().unwrap().recv().unwrap();
                act(conn);
            });
            let text = format!(
                "frontend fe\nmode {mode}\nbind <@fe>\n\
                 log-format \"%[bc_err] %[ssl_bc_err,hex] %[ssl_bc_err_str] %ST %ts\"\ndefault_backend be\n\
                 backend be\nmode {mode}\nretries 0\nserver s {} ssl verify none\n",
                back.addr
            );
            let proxy = setup(&text, program).start(io);
            let mut conn = proxy.connect();
            conn.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            conn.until(b"half");
            go.send(()).unwrap();
            let _ = conn.try_rest();
            let line = proxy.log();
            assert_eq!(
                line,
                format!("{expected} {ended}"),
                "a server that {what} after {begun:?}, over {io}, {program:?}"
            );
        }
    }
}

/// Whether a response of HTTP/2 has begun, and what is logged of it then.
const BEGUN_STREAMS: [(bool, &str); 2] = [(false, "502 SH"), (true, "200 SD")];

fn of_servers_of_http2(io: Io, program: Option<&Path>) {
    let authority = Authority::new("Root");
    let certificate = authority.issue("www.example.com");
    for (what, act, expected) in BREACHES {
        for (begun, ended) in BEGUN_STREAMS {
            let selection = server(&certificate, |profile| profile.alpn = vec![b"h2".to_vec()]);
            let (go, reached) = channel();
            let reached = std::sync::Mutex::new(reached);
            let back = Server::start(move |conn, _| {
                let mut served = h2::Served::new(conn.accept_tls(&selection), Settings::default());
                let (id, _) = served.next_request().unwrap();
                if begun {
                    served.head(id, 200, &[], false);
                    served.data(id, b"half", false);
                    reached.lock().unwrap().recv().unwrap();
                }
                act(served.conn);
            });
            let text = format!(
                "frontend fe\nbind <@fe>\n\
                 log-format \"%[bc_err] %[ssl_bc_err,hex] %[ssl_bc_err_str] %ST %ts\"\ndefault_backend be\n\
                 backend be\nretries 0\nserver s {} ssl verify none alpn h2\n",
                back.addr
            );
            let proxy = setup(&text, program).start(io);
            let mut conn = proxy.connect();
            conn.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            if begun {
                conn.until(b"half");
                go.send(()).unwrap();
            }
            let _ = conn.try_rest();
            let line = proxy.log();
            assert_eq!(
                line,
                format!("{expected} {ended}"),
                "a server of HTTP/2 that {what}, begun: {begun}, over {io}, {program:?}"
            );
        }
    }
}

#[test]
fn servers_of_http2_that_break_the_protocol() {
    if let Some(reference) = reference() {
        of_servers_of_http2("epoll", Some(&reference));
    }
    each_driver(|io| of_servers_of_http2(io, None));
}

#[test]
fn servers_that_break_the_protocol_in_a_body() {
    if let Some(reference) = reference() {
        of_servers_in_a_body("epoll", Some(&reference));
    }
    each_driver(|io| of_servers_in_a_body(io, None));
}

#[test]
fn servers_that_break_the_protocol_after_the_handshake() {
    each_driver(|io| of_servers_after_the_handshake(io, None));
    if let Some(reference) = reference() {
        of_servers_after_the_handshake("epoll", Some(&reference));
    }
}

const LOG_FORMAT: &str = "log-format \"%[fc_err] %[ssl_fc_err,hex] %[ssl_fc_err_str]\"";

#[test]
fn the_log_of_tcp_tells_of_broken_tls() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let certificate = authority.issue("www.example.com");
        let silent = Server::start(|mut conn, _| {
            conn.ended();
        });
        let text = format!(
            "frontend fe\nmode tcp\nbind <@fe> ssl crt {certificate}\n{LOG_FORMAT}\ndefault_backend be\n\
             backend be\nmode tcp\nserver s {}\n",
            silent.addr
        );
        let proxy = setup(&text, None).start(io);
        for (what, act, expected) in BREACHES {
            act(proxy.connect().encrypt(&client(|_| {}), None));
            assert_eq!(proxy.log(), expected, "a client that {what}, over {io}");
        }
        proxy.finish(silent);
    });
}

/// While a request is not answered yet.
#[test]
fn the_log_of_http2_tells_of_broken_tls() {
    each_driver(|io| {
        let authority = Authority::new("Root");
        let certificate = authority.issue("www.example.com");
        let (asked, came) = channel();
        let silent = Server::start(move |mut conn, _| {
            conn.next_request();
            asked.send(()).unwrap();
            conn.ended();
        });
        let text = format!(
            "frontend fe\nbind <@fe> ssl crt {certificate}\n{LOG_FORMAT}\ndefault_backend be\n\
             backend be\nserver s {}\n",
            silent.addr
        );
        let proxy = setup(&text, None).start(io);
        let context = client(|profile| profile.alpn = vec![b"h2".to_vec()]);
        let fields = [(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/")];
        let head = h2::frame(Kind::Headers, END_STREAM | END_HEADERS, 1, &h2::block(&fields));
        for (what, act, expected) in BREACHES {
            let mut conn = proxy.connect().encrypt(&context, None);
            conn.send([h2::beginning(), head.clone()].concat());
            came.recv().unwrap();
            act(conn);
            assert_eq!(proxy.log(), expected, "a client that {what}, over {io}");
        }
        proxy.finish(silent);
    });
}
