//! What the kernel is asked for sockets of listeners and servers: MPTCP, signed segments.

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::linux::net::TcpStreamExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use support::{Conn, Io, Proxy, Server, Setup, each_driver, eventually, nobody, ok, program, reference};
use thalweg_runtime::net::Md5Key;

/// Whether the kernel speaks MPTCP.
fn speaks_mptcp() -> bool {
    let spoken = std::fs::read_to_string("/proc/sys/net/mptcp/enabled").is_ok_and(|text| text.trim() == "1");
    if !spoken {
        eprintln!("skipped: this kernel does not speak MPTCP");
    }
    spoken
}

/// The protocol of each listener.
fn protocols(proxy: &Proxy) -> Vec<String> {
    let mut cli = Conn::connect_unix(&proxy.path("cli"));
    cli.send("show stat\n");
    let text = cli.rest_text();
    let at = text.lines().next().unwrap().split(',').position(|name| name == "proto").expect("a column");
    let rows = text.lines().filter(|line| line.contains(",sock-"));
    rows.map(|row| row.split(',').nth(at).unwrap().to_string()).collect()
}

/// Connections of MPTCP that the kernel counted on either side since it began.
fn connections() -> u64 {
    let text = std::fs::read_to_string("/proc/net/netstat").unwrap();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("MPTcpExt: "));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let pairs = names.split(' ').zip(values.split(' '));
    pairs.filter(|(name, _)| *name == "MPCapableSYNRX").map(|(_, value)| value.parse::<u64>().unwrap()).sum()
}

#[test]
fn connections_of_several_paths_are_taken_and_made() {
    if !speaks_mptcp() {
        return;
    }
    each_driver(|io| {
        let text = "listen fe\nbind <@fe>\noption socket-stats\nserver s mptcp@<@near> check inter 1h\n\
                    listen near\nbind mptcp@<@near>\noption socket-stats\nhttp-request return status 200 content-type a/b string x\n";
        let proxy = Setup::http(text).global("stats socket <@dir>/cli level admin").start(io);
        eventually("both listen", || (protocols(&proxy).len() == 2).then_some(()));
        assert_eq!(protocols(&proxy), ["tcpv4", "mptcpv4"], "over {io}");
        let before = connections();
        assert_eq!(proxy.ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n").body, b"x", "over {io}");
        assert!(connections() > before, "over {io}");
    });
}

#[test]
fn signed_connections_are_taken_from_who_has_the_password() {
    if !Md5Key::works() {
        eprintln!("skipped: this kernel signs no segments");
        return;
    }
    each_driver(|io| {
        // Checks are signed, too: the server is up once one passed.
        let text = "defaults\nmode http\ntimeout client 20s\ntimeout server 20s\ntimeout connect 50ms\nretries 0\n\
                    listen fe\nbind <@fe>\nserver s <@near> tcp-md5sig secret check init-state down inter 10ms\n\
                    listen wrong\nbind <@wrong>\nserver s <@near> tcp-md5sig other\n\
                    listen none\nbind <@none>\nserver s <@near>\n\
                    listen near\nbind <@near> tcp-md5sig secret\nhttp-request return status 200 content-type a/b string x\n";
        let proxy = Setup::http(text).start(io);
        let ask = |name: &str| {
            let mut conn = Conn::connect(proxy.addr(name));
            conn.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
            conn.response().status
        };
        eventually("its checks pass", || (ask("fe") == 200).then_some(()));
        assert_eq!((ask("wrong"), ask("none")), (503, 503), "over {io}");
    });
}

#[test]
fn an_inherited_listener_gets_the_options_of_its_bind() {
    if !Md5Key::works() {
        eprintln!("skipped: this kernel signs no segments");
        return;
    }
    each_driver(|io| {
        let listener = TcpListener::bind((support::own_ip(), 0)).unwrap();
        let addr = listener.local_addr().unwrap();
        let directory = support::Directory::new();
        let text = format!(
            "defaults\nmode http\ntimeout connect 5s\ntimeout client 5s\ntimeout server 5s\n\
             listen way\nbind unix@way.sock\nserver s {addr} tcp-md5sig secret\n\
             listen signed\nbind fd@0 tcp-md5sig secret\nhttp-request return status 200 content-type a/b string signed\n"
        );
        std::fs::write(directory.0.join("cfg"), text).unwrap();
        let mut child = Command::new(program().get_program())
            .args(["-db", "-f", "cfg"])
            .current_dir(&directory.0)
            .env("THALWEG_IO_DRIVER", io)
            .stdin(Stdio::from(OwnedFd::from(listener)))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let way = directory.0.join("way.sock");
        eventually("it listens", || way.exists().then_some(()));
        let mut conn = Conn::connect_unix(&way);
        conn.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        let text = conn.response().text();
        let unsigned = TcpStream::connect_timeout(&addr, Duration::from_millis(300));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(text, "signed", "over {io}");
        assert!(unsigned.is_err(), "over {io}: who has no password is not answered");
    });
}

/// Whether a listener with these lines leaves its connections to acknowledge at once.
fn acknowledges_at_once(io: Io, lines: &str) -> bool {
    let listener = TcpListener::bind((support::own_ip(), 0)).unwrap();
    let directory = support::Directory::new();
    let text = format!(
        "defaults\ntimeout connect 5s\ntimeout client 5s\ntimeout server 5s\nlisten it\nbind fd@0\n{lines}\n\
         listen sign\nmode http\nbind unix@sign.sock\n"
    );
    std::fs::write(directory.0.join("cfg"), text).unwrap();
    let mut child = Command::new(program().get_program())
        .args(["-db", "-f", "cfg"])
        .current_dir(&directory.0)
        .env("THALWEG_IO_DRIVER", io)
        .stdin(Stdio::from(OwnedFd::from(listener.try_clone().unwrap())))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("it listens", || directory.0.join("sign.sock").exists().then_some(()));
    // The option is the socket's, which this process has, too.
    let at_once = TcpStream::from(OwnedFd::from(listener)).quickack().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    at_once
}

#[test]
fn who_speaks_http_is_acknowledged_with_the_answer() {
    each_driver(|io| {
        for (lines, at_once) in [
            ("mode http", false),
            ("mode http\nno option tcp-smart-accept", true),
            ("mode tcp", true),
            ("mode tcp\noption tcp-smart-accept", false),
        ] {
            assert_eq!(acknowledges_at_once(io, lines), at_once, "{lines:?} over {io}");
        }
    });
}

/// Somebody who sends his request in pieces, each when the one before was acknowledged (RFC 896), does not wait for long.
#[test]
fn who_waits_for_an_acknowledgement_before_the_rest_has_it() {
    each_driver(|io| {
        let server = Server::http(|_| ok("x"));
        let proxy = Setup::http(&format!("listen fe\nbind <@fe>\nserver s {}\n", server.addr)).start(io);
        let pieces = [
            ["GET / HTTP/1.1\r\nHost", ": h\r\n\r\n"],
            ["POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n", "body"],
        ];
        for [first, then] in pieces {
            // The kernel acknowledges after 40 ms by itself: the best of many times does not depend on how busy the machine is.
            let best = (0..20).map(|_| {
                let mut stream = TcpStream::connect(proxy.addr("fe")).unwrap();
                stream.write_all(first.as_bytes()).unwrap();
                let began = Instant::now();
                // Kept back until what was sent before is acknowledged.
                stream.write_all(then.as_bytes()).unwrap();
                let mut answer = [0; 12];
                stream.read_exact(&mut answer).unwrap();
                assert_eq!(&answer, b"HTTP/1.1 200");
                began.elapsed()
            });
            let best = best.min().unwrap();
            assert!(best < Duration::from_millis(30), "{first:?}: {best:?} over {io}");
        }
        proxy.finish(server);
    });
}

/// What of its SYN is known of a connection to a listener with these words: whether something is, its type of protocol behind the link's
/// header, and the port it went to.
fn saved_syn(io: Io, program: Option<&Path>, words: &str, headers: &str) -> String {
    let text = format!(
        "global\ndefaults\nmode http\ntimeout connect 5s\ntimeout client 5s\ntimeout server 5s\nfrontend fe\nbind <@fe> {words}\n\
         tcp-request connection set-var(sess.syn) fc_saved_syn\nhttp-request return status 200 content-type text/plain \
         lf-string \"%[var(sess.syn),hex,length] %[var(sess.syn),{headers}ip.src] %[var(sess.syn),{headers}ip.data,tcp.dst]\"\n"
    );
    let setup = Setup::file(&text);
    let proxy = match program {
        Some(program) => setup.program(program).start(io),
        None => setup.start(io),
    };
    let port = proxy.addr("fe").port();
    let said = proxy.ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n").text();
    // Where nothing was kept, the reference has an empty packet.
    said.replace(&port.to_string(), "port").trim_start_matches('0').trim().to_owned()
}

/// `tcp-ss`: 20 bytes of IP, 40 of TCP with its options, and 14 of the link before these, in hexadecimal digits.
#[test]
fn the_packet_that_began_a_connection_is_kept() {
    let check = |io: Io, program: Option<&Path>| {
        for (words, headers, expected) in [
            ("", "", ""),
            ("tcp-ss 0", "", ""),
            ("tcp-ss 1", "", "120 127.0.0.1 port"),
            ("tcp-ss 2", "eth.data,", "148 127.0.0.1 port"),
        ] {
            assert_eq!(saved_syn(io, program, words, headers), expected, "{words} over {io}");
        }
    };
    each_driver(|io| check(io, None));
    if let Some(reference) = support::reference() {
        check("epoll", Some(&reference));
    }
}

/// A server that resets each connection after its request.
fn resets() -> Server {
    Server::start(|mut conn, _| {
        _ = conn.try_until(b"\r\n\r\n");
        conn.reset_when_dropped();
    })
}

/// A SOCKS4 proxy that says no.
fn denies() -> Server {
    Server::start(|mut conn, _| {
        _ = conn.try_exactly(9);
        _ = conn.try_send([0, 91, 0, 0, 0, 0, 0, 0]);
        conn.ended();
    })
}

/// Numbers, names and messages are those of HAProxy 3.5-dev5: whatever its manual says, it has 47 for `EREFUSED`.
#[test]
fn why_a_server_was_not_reached_is_told() {
    let (well, resets, denies) = (Server::http(|_| ok("x")), resets(), denies());
    let cases = [
        (nobody().to_string(), "SC 503 47 EREFUSED ECONNREFUSED returned by OS"),
        (
            format!("{} socks4 {}", nobody(), denies.addr),
            "SC 503 41 SOCKS4_DENY SOCKS4 Proxy deny the request",
        ),
        (resets.addr.to_string(), "SH 502 48 ERESET ECONNRESET returned by OS"),
        // No address of this machine (RFC 5737).
        (format!("{} source 198.51.100.99", well.addr), "SC 503 8 CANT_BIND Can't bind to source address"),
        (
            format!("{} source 198.51.100.99:2000-2001", well.addr),
            "SC 503 8 CANT_BIND Can't bind to source address",
        ),
    ];
    let play = |io, program: Option<&Path>| {
        for (server, expected) in &cases {
            let text = format!(
                "listen fe\nbind <@fe>\nretries 0\nlog-format \"%ts %ST %[bc_err] %[bc_err_name] %[bc_err_str]\"\n\
                 server s {server}\n"
            );
            let setup = Setup::http(&text);
            let proxy = match program {
                None => setup.start(io),
                Some(program) => setup.program(program).start(io),
            };
            proxy.ask("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
            let line = std::iter::repeat_with(|| proxy.log())
                .find(|line| !line.starts_with("Cannot bind "))
                .unwrap();
            assert_eq!(line, *expected, "{server}, over {io}, {program:?}");
        }
    };
    each_driver(|io| play(io, None));
    if let Some(reference) = reference() {
        play("epoll", Some(&reference));
    }
}

/// The moment that a server gets before it is tried again does not make an address come into being: sixty would take a minute.
#[test]
fn without_an_address_to_connect_from_nothing_is_waited_for() {
    let server = Server::http(|_| ok("x"));
    each_driver(|io| {
        let text = format!(
            "listen fe\nbind <@fe>\nretries 60\ntimeout connect 10s\nserver s {0} source 198.51.100.99\n\
             listen checked\nbind <@checked>\noption log-health-checks\nserver c {0} source 198.51.100.99 check\n",
            server.addr
        );
        let proxy = Setup::http(&text).start(io);
        let line = eventually("a check fails", || {
            Some(proxy.log()).filter(|line| line.starts_with("Health check for server checked/c failed"))
        });
        let words = "info: \"Can't bind to source address (Cannot assign requested address)\"";
        assert!(line.contains(words), "{line}");
        let began = Instant::now();
        let response = proxy.ask("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        assert_eq!(response.status, 503, "over {io}");
        assert!(began.elapsed() < Duration::from_secs(30), "over {io}");
    });
}
