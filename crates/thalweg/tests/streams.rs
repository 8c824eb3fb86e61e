//! Streams as an operator sees and ends them: `show sess` with its filters, `shutdown session`,
//! `shutdown sessions server` (management manual, section 9.3).

mod support;

use support::{Conn, Proxy, Server, Setup, each_driver, eventually, nobody};

fn cli(proxy: &Proxy, line: &str) -> String {
    proxy.tell("cli", line)
}

/// The streams that a `show sess` lists, once they are as many as expected.
fn listed(proxy: &Proxy, line: &str, expected: usize) -> Vec<String> {
    eventually(&format!("{line}: {expected} streams; {}", cli(proxy, line)), || {
        let text = cli(proxy, line);
        let found: Vec<String> = text.lines().filter(|l| l.starts_with("0x")).map(str::to_owned).collect();
        (found.len() == expected).then_some(found)
    })
}

/// What a stream is called.
fn id(line: &str) -> &str {
    line.split(':').next().unwrap_or("")
}

/// Every way for a stream to wait, each in a backend of its own, and a TCP frontend.
fn setup(server: &Server) -> Setup {
    let text = format!(
        "frontend fe\n  bind <@fe>\n  option httplog\n  timeout http-request 60s\n  use_backend %[path,field(2,/)]\n\
         backend pause\n  http-request pause 60s\n  http-request return status 200\n\
         backend tarpit\n  timeout tarpit 60s\n  http-request tarpit\n\
         backend body\n  http-request wait-for-body time 60s\n  server s {addr}\n\
         backend silent\n  server s {addr}\n\
         backend begun\n  server s {addr}\n\
         backend retry\n  retries 60\n  server s {nobody}\n\
         backend queue\n  timeout queue 60s\n  server s {addr} maxconn 1\n\
         listen relay\n  mode tcp\n  option tcplog\n  bind <@relay>\n  server s {addr}\n\
         listen inspect\n  mode tcp\n  option tcplog\n  bind <@inspect>\n  tcp-request inspect-delay 60s\n\
         \x20 tcp-request content accept if {{ req.len gt 1000 }}\n  server s {addr}\n",
        addr = server.addr,
        nobody = nobody(),
    );
    Setup::http(&text).global("stats socket <@dir>/cli level admin").threads(2)
}

/// A server that begins responses to `/begun` and says nothing else.
fn server() -> Server {
    Server::start(|mut conn, _| {
        if let Some(request) = conn.try_until(b"\r\n\r\n")
            && request.starts_with(b"GET /begun")
        {
            conn.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nfirst");
        }
        conn.ended();
    })
}

#[test]
fn a_stream_ends_when_an_operator_says_so_wherever_it_waits() {
    each_driver(|io| {
        let server = server();
        let proxy = setup(&server).start(io);
        let post = |path: &str| format!("POST /{path} HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc");
        let get = |path: &str| format!("GET /{path} HTTP/1.1\r\nHost: h\r\n\r\n");
        for (listener, request, place) in [
            ("fe", get("pause"), "be=pause srv=<none>"),
            ("fe", get("tarpit"), "be=tarpit srv=<none>"),
            ("fe", post("body"), "be=body srv=<none>"),
            ("fe", get("silent"), "be=silent srv=s"),
            ("fe", post("silent"), "be=silent srv=s"),
            ("fe", get("begun"), "be=begun srv=s"),
            ("fe", get("retry"), "be=retry srv=s"),
            ("relay", "abc".into(), "be=relay srv=s"),
            ("inspect", "abc".into(), "be=inspect srv=<none>"),
        ] {
            let mut conn = Conn::connect(proxy.addr(listener));
            conn.send(&request);
            if place.starts_with("be=begun") {
                assert_eq!(conn.until(b"first").len(), 46);
            }
            let found = eventually(place, || {
                listed(&proxy, "show sess", 1).into_iter().find(|line| line.contains(place))
            });
            assert!(found.contains(&format!("proto=tcpv4 src={} fe={listener} ", conn.local())), "{found}");
            let details = cli(&proxy, &format!("show sess {}", id(&found)));
            assert!(details.contains(&format!("\n  frontend={listener} (id=")), "{details}");
            assert_eq!(cli(&proxy, &format!("shutdown session {}", id(&found))), "\n");
            // Nothing is said to the client, and no other stream has the name.
            assert_eq!(conn.rest(), b"", "{place}");
            listed(&proxy, "show sess", 0);
            assert!(cli(&proxy, &format!("shutdown session {}", id(&found))).starts_with("No such session"));
            assert_eq!(cli(&proxy, &format!("show sess {}", id(&found))), "Session not found.\n\n");
            let line = proxy.log();
            let expected = if listener == "fe" { " 500 " } else { " KC " };
            assert!(line.contains(expected) && line.contains(" KC"), "{place}: {line}");
            if place.starts_with("be=begun") {
                assert!(line.contains(" 500 46 "), "what was sent is counted: {line}");
            }
        }
        // The frontend is as good as new, on a connection that is kept.
        proxy.has_no_connections();
    });
}

#[test]
fn the_streams_of_a_server_end_together_and_its_queue_moves_on() {
    each_driver(|io| {
        let server = server();
        let proxy = setup(&server).start(io);
        let ask = || {
            let mut conn = proxy.connect();
            conn.send("GET /queue HTTP/1.1\r\nHost: h\r\n\r\n");
            conn
        };
        let mut first = ask();
        listed(&proxy, "show sess server queue/s", 1);
        let mut others = [ask(), ask()];
        let all = listed(&proxy, "show sess backend queue", 3);
        let waiting: Vec<&String> = all.iter().filter(|line| line.contains("srv=<none>")).collect();
        assert_eq!(waiting.len(), 2, "{all:#?}");
        // One that waits leaves the queue; those behind it are not held up by it.
        assert_eq!(cli(&proxy, &format!("shutdown session {}", id(waiting[0]))), "\n");
        listed(&proxy, "show sess backend queue", 2);
        assert_eq!(cli(&proxy, "shutdown sessions server queue/s"), "\n");
        assert_eq!(first.rest(), b"");
        // The last one got the place.
        listed(&proxy, "show sess server queue/s", 1);
        assert_eq!(cli(&proxy, "shutdown sessions server queue/s"), "\n");
        for conn in &mut others {
            assert_eq!(conn.rest(), b"");
        }
        for _ in 0..3 {
            let line = proxy.log();
            assert!(line.contains(" KC"), "{line}");
        }
        proxy.has_no_connections();
    });
}

#[test]
fn streams_are_listed_by_what_is_asked_for() {
    each_driver(|io| {
        let server = server();
        let proxy = setup(&server).start(io);
        let mut held = Vec::new();
        for path in ["pause", "silent", "silent", "retry"] {
            let mut conn = proxy.connect();
            conn.send(format!("GET /{path} HTTP/1.1\r\nHost: h\r\n\r\n"));
            held.push(conn);
        }
        let mut relay = Conn::connect(proxy.addr("relay"));
        relay.send("abc");
        held.push(relay);
        // A connection that is silent has no stream.
        held.push(proxy.connect());
        for (line, count) in [
            ("show sess", 5),
            ("show sess all", 5),
            ("show sess backend silent", 2),
            ("show sess server silent/s", 2),
            ("show sess backend pause", 1),
            ("show sess backend body", 0),
            ("show sess frontend fe", 4),
            ("show sess frontend relay", 1),
            ("show sess frontend fe backend retry", 1),
            ("show sess frontend relay backend retry", 0),
            ("show sess older 0", 5),
            ("show sess older 1h", 0),
            ("show sess susp", 0),
        ] {
            listed(&proxy, line, count);
        }
        // Anonymous dumps name nobody.
        let text = cli(&proxy, "set anon on 5;show sess all");
        assert!(!text.contains("127.") && !text.contains("silent"), "{text}");
    });
}

#[test]
fn many_streams_are_listed_page_by_page() {
    let server = server();
    let proxy = setup(&server).files(8000).start("epoll");
    let held: Vec<Conn> = (0..2500)
        .map(|_| {
            let mut conn = proxy.connect();
            conn.send("GET /pause HTTP/1.1\r\nHost: h\r\n\r\n");
            conn
        })
        .collect();
    let found = listed(&proxy, "show sess", held.len());
    let names: std::collections::BTreeSet<&str> = found.iter().map(|line| id(line)).collect();
    assert_eq!(names.len(), held.len(), "each has a name of its own");
}

/// Request lines are shown to who asks for them, as hashes in anonymous sessions (whose key the configuration names), and
/// those of the stream before are gone.
#[test]
fn request_lines_are_shown_when_asked_for() {
    each_driver(|io| {
        let server = server();
        let proxy =
            setup(&server).global("stats socket <@dir>/cli level admin\nanonkey 12345").threads(1).start(io);
        let mut client = Conn::connect(proxy.addr("fe"));
        client.send("GET /pau?x=1 HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(client.response().status, 503, "{io}");
        client.send("GET /silent?x=1 HTTP/1.1\r\nHost: h\r\n\r\n");
        let mut tcp = Conn::connect(proxy.addr("relay"));
        tcp.send("GET /tcp HTTP/1.1\r\n\r\n");
        let lines = listed(&proxy, "show sess show-uri", 2);
        let of = |frontend: &str| lines.iter().find(|line| line.contains(frontend)).unwrap().clone();
        assert!(of(" fe=fe ").ends_with(" uri=\"GET /silent?x=1 HTTP/1.1\""), "{lines:?}");
        assert!(!of(" fe=relay ").contains("uri="), "{lines:?}");
        let detail = cli(&proxy, &format!("show sess {} show-uri", id(&of(" fe=fe "))));
        assert!(detail.contains("\n  uri=\"GET /silent?x=1 HTTP/1.1\"\n"), "{detail}");
        assert!(!cli(&proxy, "show sess").contains("uri="), "{io}");
        let anonymous = cli(&proxy, "set anon on;show sess show-uri frontend fe");
        let hash = anonymous.split("uri=\"").nth(1).unwrap_or("");
        // The reference shows the same for this line with this key.
        assert!(hash.starts_with("c5c50c\"\n"), "{anonymous}");
    });
}
