//! What the kernel is asked for sockets of listeners and servers: MPTCP, signed segments.

mod support;

use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use support::{Conn, Io, Proxy, Setup, each_driver, eventually, program};
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
