//! The NetScaler client IP insertion protocol (`accept-netscaler-cip`, `expect-netscaler-cip`), beside the reference.

mod support;

use std::net::UdpSocket;
use std::path::Path;

use support::{Conn, Io, PATIENCE, Setup, each_driver, free_port, nobody, own_ip, reference};

const MAGIC: u32 = 195_939_070;

/// What a NetScaler says of a client: IP and TCP headers of its last packet.
struct Packet {
    ip: Vec<u8>,
    tcp: Vec<u8>,
}

impl Packet {
    fn v4() -> Packet {
        let ip = vec![0x45, 0, 0, 40, 0, 1, 0, 0, 64, 6, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
        Packet { ip, tcp: tcp() }
    }

    fn v6() -> Packet {
        let mut ip = vec![0x60, 0, 0, 0, 0, 20, 6, 64];
        for last in [1, 2] {
            ip.extend_from_slice(&[0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
        }
        Packet { ip, tcp: tcp() }
    }

    /// With options in both headers.
    fn with_options(mut self) -> Packet {
        self.ip[0] = 0x48;
        self.ip.extend_from_slice(&[1; 12]);
        self.tcp[12] = 0x80;
        self.tcp.extend_from_slice(&[1; 12]);
        self
    }

    fn headers(&self) -> Vec<u8> {
        [&self.ip[..], &self.tcp].concat()
    }

    /// The header of before version 10.5.
    fn older(&self, magic: u32) -> Vec<u8> {
        let headers = self.headers();
        let len = u32::try_from(headers.len()).unwrap();
        [&magic.to_be_bytes()[..], &len.to_be_bytes(), &headers].concat()
    }

    /// The header of version 10.5 on.
    fn newer(&self, magic: u32) -> Vec<u8> {
        let headers = self.headers();
        let len = u16::try_from(headers.len()).unwrap();
        let whole = u32::from(len) + 12;
        [&magic.to_be_bytes()[..], &whole.to_be_bytes(), &[0, 1], &len.to_be_bytes(), &headers].concat()
    }
}

/// From port 1000 to port 80.
fn tcp() -> Vec<u8> {
    vec![0x03, 0xe8, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 2, 0, 100, 0, 0, 0, 0]
}

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

/// The body of what a client is told who sends `bytes` and a request; empty when its connection is closed.
fn said(program: Option<&Path>, io: Io, bind: &str, rule: &str, bytes: &[u8]) -> String {
    let text = format!(
        "listen fe\nbind <@fe> {bind}\n{rule}\nhttp-request return status 200 content-type text/plain lf-string \
         \"%[src] %[src_port] %[dst] %[dst_port] %[fc_src] %[fc_rcvd_proxy]\"\n"
    );
    let mut setup = Setup::http(&text);
    if let Some(program) = program {
        setup = setup.program(program);
    }
    let proxy = setup.start(io);
    let mut conn = Conn::connect(proxy.addr("fe"));
    conn.send([bytes, REQUEST].concat());
    let said = String::from_utf8_lossy(&conn.ended()).into_owned();
    said.split_once("\r\n\r\n").map_or_else(String::new, |(_, body)| body.to_owned())
}

/// Both programs tell a client the same.
fn check(bind: &str, rule: &str, bytes: &[u8], expected: &str) {
    let what = format!("{bind} {rule} {bytes:x?}");
    each_driver(|io| assert_eq!(said(None, io, bind, rule, bytes), expected, "{io}: {what}"));
    if let Some(reference) = reference() {
        assert_eq!(said(Some(&reference), "epoll", bind, rule, bytes), expected, "the reference: {what}");
    }
}

const FOUR: &str = "1.2.3.4 1000 5.6.7.8 80 127.0.0.1 0";
const SIX: &str = "2001:db8::1 1000 2001:db8::2 80 127.0.0.1 0";

#[test]
fn addresses_are_those_of_the_packet() {
    let bind = format!("accept-netscaler-cip {MAGIC}");
    for (packet, expected) in [(Packet::v4(), FOUR), (Packet::v6(), SIX), (Packet::v4().with_options(), FOUR)]
    {
        check(&bind, "", &packet.older(MAGIC), expected);
        check(&bind, "", &packet.newer(MAGIC), expected);
    }
}

/// What is no such header closes the connection, without an answer.
#[test]
fn nobody_else_is_served() {
    let bind = format!("accept-netscaler-cip {MAGIC}");
    let mut datagram = Packet::v4();
    datagram.ip[9] = 17;
    let mut version = Packet::v4();
    version.ip[0] = 0x55;
    for bytes in [
        Packet::v4().older(1),
        datagram.older(MAGIC),
        datagram.newer(MAGIC),
        version.older(MAGIC),
        b"PROXY TCP4 1.2.3.4 5.6.7.8 1000 80\r\n".to_vec(),
        Vec::new(),
    ] {
        check(&bind, "", &bytes, "");
    }
}

/// A rule asks for the number of the listener, which is 0 where it has none. A PROXY header comes behind it.
#[test]
fn rules_ask_for_it() {
    let rule = "tcp-request connection expect-netscaler-cip layer4 if { src 127.0.0.1 }";
    let bind = format!("accept-proxy accept-netscaler-cip {MAGIC}");
    let proxy = b"PROXY TCP4 9.8.7.6 5.4.3.2 1 2\r\n";
    check("", rule, &Packet::v6().newer(0), SIX);
    check("", rule, &Packet::v4().older(MAGIC), "");
    check("", rule, b"", "");
    let both = [&Packet::v4().newer(MAGIC)[..], proxy].concat();
    check(&bind, "", &both, "9.8.7.6 1 5.4.3.2 2 127.0.0.1 1");
    check(&bind, rule, &both, "9.8.7.6 1 5.4.3.2 2 127.0.0.1 1");
    check(&bind, "", &Packet::v4().newer(MAGIC), "");
    check(&bind, "", proxy, "");
}

/// A header may come in as many pieces as it has bytes, which the reference takes for truncated.
#[test]
fn a_header_may_come_in_pieces() {
    each_driver(|io| {
        let text = format!(
            "listen fe\nbind <@fe> accept-netscaler-cip {MAGIC}\nhttp-request return status 200 content-type text/plain \
             lf-string \"%[src]\"\n"
        );
        let proxy = Setup::http(&text).start(io);
        for header in [Packet::v4().older(MAGIC), Packet::v6().newer(MAGIC)] {
            let mut conn = Conn::connect(proxy.addr("fe"));
            for byte in &header {
                conn.send([*byte]);
            }
            conn.send(REQUEST);
            assert!(["1.2.3.4", "2001:db8::1"].contains(&&*conn.response().text()));
        }
    });
}

/// Listeners that are no proxy's take the header, too: the sender of a message is who it names.
#[test]
fn relays_of_logs_know_their_senders() {
    let play = |io: Io, program: Option<&Path>| {
        let collector = UdpSocket::bind((own_ip(), 0)).unwrap();
        collector.set_read_timeout(Some(PATIENCE)).unwrap();
        let target = collector.local_addr().unwrap();
        let text = format!(
            "log-forward relay\nbind <@fe> accept-netscaler-cip {MAGIC}\ntimeout client 10s\noption host replace\n\
             log {target} format rfc3164 local3\n"
        );
        let setup = Setup::file(&text);
        let proxy = match program {
            Some(program) => setup.program(program).start(io),
            None => setup.start(io),
        };
        let message = b"<134>Nov 22 08:14:54 myhost app[123]: hello\n";
        for header in [Packet::v4().older(MAGIC), Packet::v4().with_options().newer(MAGIC)] {
            let mut sender = Conn::connect(proxy.addr("fe"));
            sender.send([&header[..], message].concat());
            let mut line = [0; 1024];
            let len = collector.recv(&mut line).unwrap();
            let line = String::from_utf8_lossy(&line[..len]);
            // The reference names the end of the connection.
            let host = if program.is_none() { " 1.2.3.4" } else { "" };
            assert!(line.contains(&format!("{host} app[123]: hello")), "over {io}: {line}");
        }
        let mut stranger = Conn::connect(proxy.addr("fe"));
        stranger.send(message);
        assert_eq!(stranger.ended(), b"", "over {io}: who is not introduced is not heard");
    };
    each_driver(|io| play(io, None));
    if let Some(reference) = reference() {
        play("epoll", Some(&reference));
    }
}

/// Peers come through a NetScaler, and nobody comes in without its header.
#[test]
fn peers_come_through_a_netscaler() {
    let play = |io: Io, program: Option<&Path>| {
        let here = free_port(own_ip());
        let text = format!(
            "global\nlocalpeer A\npeers p\nbind {here} accept-netscaler-cip {MAGIC}\nserver A\nserver B {}\n\
             table t type ip size 10 store gpc0\nlisten l\nmode http\nbind <@fe>\ntimeout client 5s\ntimeout connect 5s\n\
             timeout server 5s\nhttp-request track-sc0 src table p/t\nhttp-request return status 200\n",
            nobody()
        );
        let setup = Setup::file(&text);
        let proxy = match program {
            Some(program) => setup.program(program).start(io),
            None => setup.start(io),
        };
        assert_eq!(proxy.ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n").status, 200);
        for header in [Packet::v4().older(MAGIC), Packet::v6().newer(MAGIC)] {
            let mut peer = Conn::connect(here);
            peer.send([&header[..], b"HAProxyS 2.1\nA\nB 1 0\n"].concat());
            assert_eq!(peer.exactly(4), b"200\n", "over {io}");
        }
        let mut stranger = Conn::connect(here);
        stranger.send("HAProxyS 2.1\nA\nB 1 0\n");
        assert!(!stranger.ended().starts_with(b"200"), "over {io}");
    };
    each_driver(|io| play(io, None));
    if let Some(reference) = reference() {
        play("epoll", Some(&reference));
    }
}
