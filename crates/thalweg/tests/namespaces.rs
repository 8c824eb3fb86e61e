//! Sockets in network namespaces.

mod support;

use std::net::{TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use support::{Io, Setup, each_driver, eventually, reference};

/// A network namespace of this test's own, with a loopback interface.
struct Namespace(String);

impl Namespace {
    /// `None` where the machine does not let this user make one.
    fn make() -> Option<Namespace> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let namespace = Namespace(format!("thalweg-test-{}-{number}", std::process::id()));
        let made = ip(&["netns", "add", &namespace.0])
            && ip(&["netns", "exec", &namespace.0, "ip", "link", "set", "lo", "up"]);
        if !made {
            eprintln!("skipped: no network namespace can be made here");
        }
        made.then_some(namespace)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        ip(&["netns", "del", &self.0]);
    }
}

fn ip(words: &[&str]) -> bool {
    let ran = Command::new("ip").args(words).stdout(Stdio::null()).stderr(Stdio::null()).status();
    ran.is_ok_and(|status| status.success())
}

/// A frontend here, whose server listens there: traffic and checks get through, and nobody listens here at the server's address.
#[test]
fn listeners_and_servers_are_in_the_namespaces_that_they_name() {
    let Some(namespace) = Namespace::make() else { return };
    let play = |io: Io, program: Option<&Path>| {
        let here = support::free_port(support::own_ip());
        let name = &namespace.0;
        let text = format!(
            "global\nstats socket <@dir>/cli level admin\nnamespace_list\nnamespace {name}\n\
             defaults\nmode http\ntimeout connect 2s\ntimeout client 2s\ntimeout server 2s\n\
             frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\noption httpchk GET /\n\
             server there {here} namespace {name} check inter 100ms\nserver here {here} backup check inter 100ms rise 1 fall 1\n\
             frontend there\nbind {here} namespace {name}\nhttp-request return status 200 content-type a/b string there\n"
        );
        let setup = Setup::file(&text);
        let proxy = match program {
            Some(program) => setup.program(program).start(io),
            None => setup.start(io),
        };
        eventually("both are checked", || {
            let status = |row: &str| proxy.stat(row, "check_status");
            (status("be,there") == "L7OK" && status("be,here") == "L4CON").then_some(())
        });
        assert_eq!(proxy.ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n").text(), "there", "over {io}");
        assert!(TcpStream::connect(here).is_err(), "over {io}");
    };
    each_driver(|io| play(io, None));
    if let Some(reference) = reference() {
        play("epoll", Some(&reference));
    }
}

/// Connections that come from an address of the request, which no interface has (`usesrc hdr_ip`).
#[test]
fn servers_see_the_address_that_a_request_names() {
    let Some(namespace) = Namespace::make() else { return };
    let name = &namespace.0;
    let inside = |words: &str| {
        let words: Vec<_> = ["netns", "exec", name, "ip"].into_iter().chain(words.split(' ')).collect();
        ip(&words)
    };
    // What is sent to these addresses arrives here, but none may be bound to without the privilege.
    let has_routes =
        inside("route add local 198.51.100.0/24 dev lo table 100") && inside("rule add lookup 100 pref 1");
    if !has_routes {
        return eprintln!("skipped: no routes can be made here");
    }
    let xff = "X-Forwarded-For: 198.51.100.7, 198.51.100.8\r\nX-Forwarded-For: 198.51.100.9\r\n";
    // What stands for the line, the fields of the request, and the address that the server sees.
    let cases = [
        ("0.0.0.0 usesrc hdr_ip(x-forwarded-for)", xff, "198.51.100.9"),
        ("0.0.0.0 usesrc hdr_ip(X-Forwarded-For,-2)", xff, "198.51.100.8"),
        ("0.0.0.0 usesrc hdr_ip(x-forwarded-for,1)", xff, "198.51.100.7"),
        ("127.0.0.5:7701 usesrc hdr_ip(x-forwarded-for,1)", xff, "198.51.100.7"),
        ("127.0.0.5 usesrc hdr_ip(x-forwarded-for)", "X-Forwarded-For: nobody\r\n", "127.0.0.5"),
        ("127.0.0.5 usesrc hdr_ip(x-forwarded-for)", "X-Forwarded-For: 0.0.0.0\r\n", "127.0.0.5"),
        ("0.0.0.0 usesrc hdr_ip(x-forwarded-for)", "X-Forwarded-For: nobody\r\n", "127.0.0.1"),
        ("127.0.0.5:7702 usesrc 198.51.100.44", "", "198.51.100.44"),
        ("127.0.0.5:7703 usesrc 198.51.100.44:7704", "", "198.51.100.44:7704"),
        // Ports of no address are not looked at.
        ("0.0.0.0:7705", "", "127.0.0.1"),
        ("0.0.0.0:7706-7707", "", "127.0.0.1"),
        // The reference answers these with 500, against its manual.
        ("127.0.0.5 usesrc hdr_ip(x-forwarded-for)", "", "127.0.0.5"),
        ("127.0.0.5 usesrc hdr_ip(x-forwarded-for,4)", xff, "127.0.0.5"),
        ("127.0.0.5 usesrc hdr_ip(x-forwarded-for,0)", xff, "127.0.0.5"),
    ];
    let play = |io: Io, program: Option<&Path>, cases: &[(&str, &str, &str)]| {
        for (from, fields, expected) in cases {
            let here = support::free_port(support::own_ip());
            for (of_backend, of_server) in [(format!("source {from}"), ""), (String::new(), *from)] {
                // Ranges are for servers.
                if of_backend.contains("7706-") {
                    continue;
                }
                let of_server =
                    if of_server.is_empty() { String::new() } else { format!("source {of_server}") };
                let text = format!(
                    "global\nstats socket <@dir>/cli level admin\nnamespace_list\nnamespace {name}\n\
                     defaults\nmode http\ntimeout connect 2s\ntimeout client 2s\ntimeout server 2s\n\
                     frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\n{of_backend}\n\
                     server there {here} namespace {name} {of_server}\n\
                     frontend there\nbind {here} namespace {name}\n\
                     http-request return status 200 content-type a/b lf-string %[src]:%[src_port]\n"
                );
                let setup = Setup::file(&text);
                let proxy = match program {
                    Some(program) => setup.program(program).start(io),
                    None => setup.start(io),
                };
                let answer = proxy.ask(&format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n")).text();
                let port = answer.rsplit(':').next().unwrap_or_default();
                let is_right =
                    &answer == expected || answer == format!("{expected}:{port}") && !port.starts_with("77");
                assert!(is_right, "{from}, {fields:?} over {io}: {answer:?}");
            }
        }
    };
    each_driver(|io| play(io, None, &cases));
    if let Some(reference) = reference() {
        play("epoll", Some(&reference), &cases[..cases.len() - 3]);
    }
}

/// Logs that programs in a namespace send are heard there.
#[test]
fn logs_are_heard_in_a_namespace() {
    let Some(namespace) = Namespace::make() else { return };
    let play = |io: Io, program: Option<&Path>| {
        let collector = UdpSocket::bind((support::own_ip(), 0)).unwrap();
        collector.set_read_timeout(Some(support::PATIENCE)).unwrap();
        let name = &namespace.0;
        let text = format!(
            "log-forward relay\ndgram-bind 127.0.0.1:5514 namespace {name}\nlog {} format raw local3\n\
             listen l\nmode tcp\nbind <@fe>\ntimeout client 5s\ntimeout connect 5s\ntimeout server 5s\n",
            collector.local_addr().unwrap()
        );
        let setup = Setup::file(&text);
        let _proxy = match program {
            Some(program) => setup.program(program).start(io),
            None => setup.start(io),
        };
        let send = "echo -n '<13>hello' > /dev/udp/127.0.0.1/5514";
        assert!(ip(&["netns", "exec", name, "bash", "-c", send]));
        let mut line = [0; 100];
        let len = collector.recv(&mut line).unwrap();
        assert!(line[..len].starts_with(b"hello"), "over {io}: {:?}", &line[..len]);
    };
    each_driver(|io| play(io, None));
    if let Some(reference) = reference() {
        play("epoll", Some(&reference));
    }
}
