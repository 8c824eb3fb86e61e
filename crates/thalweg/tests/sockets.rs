//! What the kernel is asked for sockets of listeners and servers: MPTCP, signed segments.

mod support;

use support::{Conn, Proxy, Setup, each_driver, eventually};

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
    let signed = thalweg_runtime::net::ListenOptions {
        md5: Some(thalweg_runtime::net::Md5Key((*b"x").into())),
        ..Default::default()
    };
    let any = thalweg_runtime::net::SockAddr::from(std::net::SocketAddr::from(([127, 0, 0, 1], 0)));
    if let Err(error) = thalweg_runtime::net::listener::open(&any, &signed) {
        eprintln!("skipped: this kernel signs no segments: {error}");
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
