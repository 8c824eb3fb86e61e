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
