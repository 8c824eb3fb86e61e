//! `log-forward`: messages of other programs on their way through (configuration manual, section 12.6).

mod support;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddrV4, TcpStream, UdpSocket};
use std::thread;

use support::{PATIENCE, Proxy, Setup, Signal, each_driver, eventually, own_ip};

/// Where forwarded messages arrive.
struct Collector(UdpSocket);

impl Collector {
    fn new() -> Collector {
        let socket = UdpSocket::bind((own_ip(), 0)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Collector(socket)
    }

    fn addr(&self) -> std::net::SocketAddr {
        self.0.local_addr().unwrap()
    }

    fn next(&self) -> String {
        let mut message = [0; 65536];
        let n = self.0.recv(&mut message).unwrap();
        String::from_utf8(message[..n].to_vec()).unwrap()
    }
}

/// A proxy that forwards to collectors, with some lines of the section, and a socket that sends from its own address.
fn start(io: &'static str, lines: &str, targets: &[(&Collector, &str)]) -> (Proxy, UdpSocket) {
    let mut text =
        format!("log-forward relay\n    dgram-bind <@in>\n    bind <@in>\n    timeout client 10s\n{lines}\n");
    for (collector, options) in targets {
        text.push_str(&format!("    log {} {options} local3\n", collector.addr()));
    }
    let proxy = Setup::file(&text).start(io);
    let sender = UdpSocket::bind((own_ip(), 0)).unwrap();
    sender.connect(proxy.addr("in")).unwrap();
    (proxy, sender)
}

fn host_of(socket: &UdpSocket) -> String {
    socket.local_addr().unwrap().ip().to_string()
}

const RFC3164: &str = "<134>Nov 22 08:14:54 myhost app[123]: hello world";
const RFC5424: &str = "<165>1 2003-08-24T05:14:15Z - app 7 id [a b=\"c\"] hello";

#[test]
fn datagrams_are_sent_on_in_the_form_that_is_asked_for() {
    each_driver(|io| {
        let forms = ["", "format local", "format rfc3164", "format rfc5424", "format short", "format raw"];
        let collectors: Vec<Collector> = forms.iter().map(|_| Collector::new()).collect();
        let targets: Vec<_> = collectors.iter().zip(forms).collect();
        let (_proxy, sender) = start(io, "", &targets);
        let host = host_of(&sender);
        for (message, expected) in [
            (
                RFC3164,
                [
                    format!("{RFC3164}\n"),
                    "<134>Nov 22 08:14:54 app[123]: hello world\n".into(),
                    format!("{RFC3164}\n"),
                    "-08:14:54-00:00 myhost app 123 - - hello world\n".into(),
                    "<6>hello world\n".into(),
                    "hello world\n".into(),
                ],
            ),
            (
                RFC5424,
                [
                    format!("<165>1 2003-08-24T05:14:15Z {host} app 7 id [a b=\"c\"] hello\n"),
                    "<165>Aug 24 05:14:15 app[7]: hello\n".into(),
                    format!("<165>Aug 24 05:14:15 {host} app[7]: hello\n"),
                    format!("<165>1 2003-08-24T05:14:15Z {host} app 7 id [a b=\"c\"] hello\n"),
                    "<5>hello\n".into(),
                    "hello\n".into(),
                ],
            ),
        ] {
            sender.send(message.as_bytes()).unwrap();
            for (collector, expected) in collectors.iter().zip(&expected) {
                let got = collector.next();
                match expected.strip_prefix("-") {
                    // The year is that of the test.
                    Some(end) => assert!(got.starts_with("<134>1 2") && got.ends_with(end), "{got}"),
                    None => assert_eq!(&got, expected),
                }
            }
        }
    });
}

#[test]
fn levels_options_and_hosts_are_obeyed() {
    each_driver(|io| {
        let (urgent, all) = (Collector::new(), Collector::new());
        let text = "    option host append";
        let targets = [(&all, "format rfc3164")];
        let (proxy, sender) = start(io, text, &targets);
        let host = host_of(&sender);
        sender.send(RFC3164.as_bytes()).unwrap();
        assert_eq!(all.next(), format!("<134>Nov 22 08:14:54 myhost,{host} app[123]: hello world\n"));
        drop(proxy);
        let lines = format!("    option dont-parse-log\n    log {} local1 err", urgent.addr());
        let (_proxy, sender) = start(io, &lines, &[(&all, "")]);
        for message in [RFC3164, "<1>x", "no priority at all"] {
            sender.send(message.as_bytes()).unwrap();
            assert_eq!(all.next(), format!("{message}\n"));
            // What was not read has the most urgent level.
            assert_eq!(urgent.next(), format!("{message}\n"));
        }
        drop(_proxy);
        let lines = format!("    log {} format raw local1 err", urgent.addr());
        let (_proxy, sender) = start(io, &lines, &[(&all, "format raw")]);
        for (message, text) in
            [("<134>Nov 22 08:14:54 h a: info", "info\n"), ("<131>Nov 22 08:14:54 h a: err", "err\n")]
        {
            sender.send(message.as_bytes()).unwrap();
            assert_eq!(all.next(), text);
        }
        assert_eq!(urgent.next(), "err\n");
    });
}

#[test]
fn streams_are_cut_into_messages() {
    each_driver(|io| {
        let all = Collector::new();
        let (proxy, _) = start(io, "", &[(&all, "format raw")]);
        let addr = proxy.addr("in");
        let mut conn = TcpStream::connect(addr).unwrap();
        // Both ways to say where a message ends, cut at every byte.
        for byte in b"11 <13>message<13>line one\n<13>line two\r\n9 <13>a\nb c" {
            conn.write_all(&[*byte]).unwrap();
            conn.set_nodelay(true).unwrap();
        }
        for expected in ["message\n", "line one\n", "line two\n", "a\nb c\n"] {
            assert_eq!(all.next(), expected);
        }
        // The last line needs no end.
        conn.write_all(b"<13>last").unwrap();
        conn.shutdown(Shutdown::Write).unwrap();
        assert_eq!(all.next(), "last\n");
        assert_eq!(conn.read(&mut [0; 8]).unwrap(), 0);
        for broken in [b"abc\n".to_vec(), b"0 x".to_vec(), b"99999999 <13>x".to_vec(), vec![b'<'; 20_000]] {
            let mut conn = TcpStream::connect(addr).unwrap();
            conn.set_read_timeout(Some(PATIENCE)).unwrap();
            let _ = conn.write_all(&broken);
            assert!(matches!(conn.read(&mut [0; 8]), Ok(0) | Err(_)));
        }
        drop(proxy);
        let (proxy, _) = start(io, "    option assume-rfc6587-ntf", &[(&all, "format raw")]);
        let mut conn = TcpStream::connect(proxy.addr("in")).unwrap();
        conn.write_all(b"abc\n7 <13>xyz\n").unwrap();
        assert_eq!([all.next(), all.next()], ["abc\n", "7 <13>xyz\n"]);
    });
}

/// Who sent a message is what the PROXY header says, which may come together with messages, or in pieces.
#[test]
fn senders_may_be_introduced() {
    each_driver(|io| {
        let all = Collector::new();
        let text = format!(
            "log-forward relay\nbind <@in> accept-proxy\ntimeout client 10s\noption host replace\nlog {} format rfc3164 local3\n",
            all.addr()
        );
        let proxy = Setup::file(&text).start(io);
        let addr = proxy.addr("in");
        let mut conn = TcpStream::connect(addr).unwrap();
        conn.write_all(format!("PROXY TCP4 192.0.2.7 192.0.2.8 1 2\r\n{RFC3164}\n").as_bytes()).unwrap();
        assert!(all.next().contains(" 192.0.2.7 app[123]: hello world"));
        let mut pieces = TcpStream::connect(addr).unwrap();
        pieces.set_nodelay(true).unwrap();
        for byte in format!("PROXY UNKNOWN\r\n{RFC3164}\n").bytes() {
            pieces.write_all(&[byte]).unwrap();
        }
        let host = pieces.local_addr().unwrap().ip();
        let line = all.next();
        assert!(line.contains(&format!(" {host} app[123]: hello world")), "{line}");
        // Who is not introduced is not heard.
        let mut stranger = TcpStream::connect(addr).unwrap();
        stranger.set_read_timeout(Some(PATIENCE)).unwrap();
        let _ = stranger.write_all(format!("{RFC3164}\n").as_bytes());
        assert!(matches!(stranger.read(&mut [0; 8]), Ok(0) | Err(_)));
        conn.write_all(format!("{RFC3164} last\n").as_bytes()).unwrap();
        assert!(all.next().ends_with("hello world last\n"));
    });
}

#[test]
fn streams_beyond_the_limit_wait_and_silent_ones_end() {
    each_driver(|io| {
        let all = Collector::new();
        let (proxy, _) = start(io, "    maxconn 1\n    timeout client 300ms", &[(&all, "format raw")]);
        let mut first = TcpStream::connect(proxy.addr("in")).unwrap();
        first.write_all(b"<13>first\n").unwrap();
        assert_eq!(all.next(), "first\n");
        let mut second = TcpStream::connect(proxy.addr("in")).unwrap();
        second.write_all(b"<13>second\n").unwrap();
        first.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(first.read(&mut [0; 8]).unwrap(), 0, "the silent one ended");
        assert_eq!(all.next(), "second\n");
    });
}

#[test]
fn a_soft_stop_lets_go_of_all_sockets() {
    each_driver(|io| {
        let all = Collector::new();
        let (mut proxy, sender) = start(io, "", &[(&all, "format raw")]);
        sender.send(b"<13>x").unwrap();
        assert_eq!(all.next(), "x\n");
        let addr: SocketAddrV4 = proxy.addr("in");
        proxy.signal(Signal::User1);
        assert_eq!(proxy.end(), (Some(0), None));
        eventually("both are free", || {
            UdpSocket::bind(addr).ok()?;
            std::net::TcpListener::bind(addr).ok()
        });
    });
}

#[test]
fn a_flood_of_messages_all_arrive() {
    each_driver(|io| {
        let all = Collector::new();
        let (proxy, _) = start(io, "", &[(&all, "format raw")]);
        let addr = proxy.addr("in");
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                thread::spawn(move || {
                    let mut conn = TcpStream::connect(addr).unwrap();
                    for number in 0..50 {
                        conn.write_all(format!("<13>{writer}-{number}\n").as_bytes()).unwrap();
                    }
                })
            })
            .collect();
        let mut seen: Vec<String> = (0..200).map(|_| all.next()).collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 200);
    });
}

#[test]
fn what_arrives_is_counted() {
    each_driver(|io| {
        let collector = Collector::new();
        let text = format!(
            "global\n    stats socket <@dir>/cli\nlog-forward relay\n    dgram-bind <@in>\n    bind <@in>\n    log {} local3\n",
            collector.addr()
        );
        let proxy = Setup::file(&text).start(io);
        let sender = UdpSocket::bind((own_ip(), 0)).unwrap();
        sender.connect(proxy.addr("in")).unwrap();
        sender.send(RFC3164.as_bytes()).unwrap();
        let mut stream = TcpStream::connect(proxy.addr("in")).unwrap();
        stream.write_all(format!("{RFC3164}\n{RFC3164}\n").as_bytes()).unwrap();
        for _ in 0..3 {
            collector.next();
        }
        let mut cli = support::Conn::connect_unix(&proxy.path("cli"));
        cli.send("show info\n");
        let text = cli.rest_text();
        assert!(text.contains("\nCumRecvLogs: 3\n"), "{text}");
    });
}
