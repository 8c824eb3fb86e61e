//! What the process tells of itself: `trace`, `show trace` and `traces` sections.

mod support;

use support::h2::{Client, Served};
use support::tls::{Authority, client};
use support::{Conn, Directory, Proxy, Server, Setup, each_driver, eventually, nobody, ok, program};
use thalweg_h2::settings::Settings;

const GET: &str = "GET /secret?q HTTP/1.1\r\nHost: h\r\nX-Odd: a\r\n\r\n";

fn setup(text: &str) -> Setup {
    Setup::http(&format!("ring r\nsize 65536\n{text}"))
        .global("stats socket <@dir>/cli level operator\nstats socket <@dir>/user level user\nstats socket <@dir>/admin level admin")
}

fn command(proxy: &Proxy, socket: &str, command: &str) -> String {
    proxy.tell(socket, command).trim_end().to_string()
}

/// The lines in the ring, without the thread in front and the client behind, which differ.
fn told(proxy: &Proxy) -> Vec<String> {
    let text = command(proxy, "cli", "show events r");
    let plain = |line: &str| {
        let line = line.strip_prefix("[00|").unwrap_or(line).to_string();
        match (line.find("client="), line.find(" strm=")) {
            (Some(from), Some(to)) => {
                let behind = line[to..].trim_start_matches(|c: char| c != 'f');
                format!("{}{behind}", &line[..from])
            }
            (Some(from), None) => line[..from].trim_end_matches(" : ").to_string(),
            _ => line,
        }
    };
    text.lines().filter(|line| !line.is_empty()).map(plain).collect()
}

/// Waits until something is told with these words, and returns all that was told.
fn until_told(proxy: &Proxy, words: &str) -> Vec<String> {
    eventually(words, || Some(told(proxy)).filter(|lines| lines.iter().any(|line| line.contains(words))))
}

#[test]
fn a_request_is_told_of_from_its_start_to_its_end() {
    each_driver(|io| {
        let server = Server::http(|_| ok("x"));
        let proxy = setup(&format!(
            "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nserver s {}\n",
            server.addr
        ))
        .start(io);
        for source in ["session", "stream", "h1"] {
            let ask = format!("trace {source} sink r level state start now");
            assert_eq!(command(&proxy, "cli", &ask), "");
        }
        assert_eq!(command(&proxy, "cli", "trace h1 verbosity advanced"), "");
        assert_eq!(proxy.ask(GET).status, 200);
        let lines = until_told(&proxy, "releasing session");
        let expected = [
            "session|1|sess_new] new session",
            "stream|1|strm_new] new stream : fe=fe",
            "h1|1|rx_headers] rcvd request headers : fe=fe - GET /secret?q | host: h | x-odd: a",
            "stream|3|strm_ana] backend chosen : fe=fe be=be",
            "stream|3|sc_state] server assigned : fe=fe be=be srv=s",
            "h1|1|tx_headers] sending request headers : fe=fe be=be srv=s - GET /secret?q | host: h | x-odd: a",
            "h1|1|rx_headers] rcvd response headers : fe=fe be=be srv=s - 200 OK | content-length: 1",
            "h1|1|tx_headers] sending response headers : fe=fe be=be srv=s - 200 OK | content-length: 1",
            "stream|1|strm_free] releasing stream : fe=fe be=be srv=s",
            "session|1|sess_end] releasing session",
        ];
        let lines: Vec<String> = lines.iter().map(|line| line.to_ascii_lowercase()).collect();
        assert_eq!(lines, expected.map(str::to_ascii_lowercase), "{io}");

        // Nothing more comes once all were stopped.
        assert_eq!(command(&proxy, "cli", "trace 0"), "All traces now stopped");
        assert_eq!(proxy.ask(GET).status, 200);
        assert_eq!(told(&proxy).len(), expected.len(), "{io}");
        proxy.finish(server);
    });
}

#[test]
fn a_trace_keeps_to_one_session_and_others_follow_it() {
    each_driver(|io| {
        let proxy = setup("frontend fe\nbind <@fe>\nhttp-request return status 204\n").start(io);
        for ask in [
            "trace session sink r lock session start sess_new stop sess_end",
            "trace h1 sink r verbosity simple follow session",
        ] {
            assert_eq!(command(&proxy, "cli", ask), "", "{ask}");
        }
        let (mut followed, mut other) = (proxy.connect(), None);
        followed.send("GET /one HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(followed.response().status, 204);
        let other = other.insert(proxy.connect());
        other.send("GET /other HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(other.response().status, 204);
        followed.send("GET /two HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(followed.response().status, 204);
        drop(followed);
        let lines = until_told(&proxy, "releasing session");
        let asked: Vec<&str> = lines
            .iter()
            .filter(|line| line.contains("rcvd"))
            .filter_map(|line| line.split(" - ").nth(1))
            .collect();
        assert_eq!(asked, ["GET /one", "GET /two"], "{io}: {lines:?}");
        assert!(command(&proxy, "cli", "show trace").contains(" [.] session    -> r [drp 0]"), "{io}");
    });
}

#[test]
fn what_goes_wrong_is_told_of() {
    each_driver(|io| {
        let authority = Authority::new("authority");
        let certificate = authority.issue("h.example");
        let text = format!(
            "frontend fe\nbind <@fe>\nbind <@tls> ssl crt {certificate}\ndefault_backend be\n\
             backend be\nserver s {} check inter 10ms rise 1 fall 1\n",
            nobody()
        );
        let proxy = setup(&text).start(io);
        for source in ["stream", "h1", "ssl", "check"] {
            let ask = format!("trace {source} sink r level error start now");
            assert_eq!(command(&proxy, "cli", &ask), "");
        }
        until_told(
            &proxy,
            "check|0|hchck_end] health-check failed : server=be/s - reason: Layer4 connection problem",
        );
        assert_eq!(
            command(&proxy, "cli", "trace check stop now stream level user"),
            "Unknown trace keyword 'stream'"
        );
        assert_eq!(command(&proxy, "cli", "trace stream level user"), "");
        assert_eq!(proxy.ask("GET / HTTP/1.1\r\nbad header\r\n\r\n").status, 400);
        let lines = until_told(&proxy, "h1|0|h1c_err] H1 parsing error in request : fe=fe");
        assert!(lines.iter().any(|line| line.contains("strm_err] stream ends : BadRequest")), "{lines:?}");
        assert_eq!(proxy.ask(GET).status, 503);
        let mut junk = Conn::connect(proxy.addr("tls"));
        junk.send("no TLS at all, but long enough");
        until_told(&proxy, "ssl|0|sslc_err] SSL handshake failed");
        let mut honest = Conn::connect(proxy.addr("tls")).encrypt(&client(|_| {}), Some("h.example"));
        honest.send(GET);
        assert_eq!(honest.response().status, 503);
    });
}

/// A peer cannot make a line of its own.
#[test]
fn what_a_client_sends_stays_in_its_line() {
    each_driver(|io| {
        let proxy = setup("frontend fe\nbind <@fe>\noption accept-unsafe-violations-in-http-request\nhttp-request return status 204\n").start(io);
        assert_eq!(command(&proxy, "cli", "trace h1 sink r verbosity advanced start now"), "");
        let mut conn = proxy.connect();
        conn.send("GET / HTTP/1.1\r\nHost: h\r\nX: \u{e9}\t\u{1b}[2J\r\n\r\n");
        let status = conn.response().status;
        let lines = told(&proxy);
        assert!(
            lines.iter().all(|line| line.is_ascii() && !line.contains('\u{1b}')),
            "{io} {status}: {lines:?}"
        );
    });
}

#[test]
fn a_section_starts_traces_with_the_process() {
    each_driver(|io| {
        let text = "frontend fe\nbind <@fe>\nhttp-request return status 204\ntraces\ntrace h1 sink r verbosity simple start now\n";
        let mut proxy = setup(text).start(io);
        assert_eq!(proxy.ask(GET).status, 204);
        until_told(&proxy, "rcvd request headers : fe=fe - GET /secret?q");
        assert!(
            command(&proxy, "cli", "show trace")
                .contains(" [R] h1         -> r [drp 0]  [HTTP/1 multiplexer]")
        );

        // A reload in place asks for what the section says then.
        proxy.edit("trace h1 sink", "trace session sink buf0 start now\ntrace 0\ntrace stream sink");
        proxy.edit("verbosity simple start", "verbosity simple start strm_new stop");
        let mut cli = Conn::connect_unix(&proxy.path("admin"));
        cli.send("reload\n");
        let said = cli.rest_text();
        assert!(said.starts_with("Success=1"), "{io}: {said}");
        let shown = command(&proxy, "cli", "show trace");
        assert!(shown.contains(" [.] h1 ") && shown.contains(" [.] stream     -> r "), "{io}: {shown}");
        // Lines have the form of their ring.
        command(&proxy, "cli", "trace session sink buf0 level state start now");
        assert_eq!(proxy.ask(GET).status, 204);
        let told = eventually("a session is told of", || {
            Some(command(&proxy, "cli", "show events buf0")).filter(|told| told.contains("new session"))
        });
        assert!(
            told.trim_start().starts_with("<0>2") && told.contains("+00:00 [00|session|"),
            "{io}: {told}"
        );
    });
}

#[test]
fn mistakes_in_a_section_are_named() {
    let said = |lines: &str| {
        let directory = Directory::new();
        let path = directory.0.join("site.cfg");
        std::fs::write(
            &path,
            format!("listen fe\nmode http\nbind 127.0.0.1:1\ntimeout client 1s\ntraces\n{lines}\n"),
        )
        .unwrap();
        let output = program().args(["-c", "-f", path.to_str().unwrap()]).output().unwrap();
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for (lines, message) in [
        ("trace zz", "No such trace source 'zz'"),
        ("trace h1 sink zz", "No such trace sink 'zz'"),
        ("trace h1 event zz", "No such trace event 'zz'"),
        ("zz", "unknown keyword 'zz' in 'traces' section"),
    ] {
        let said = said(lines);
        assert!(said.contains(&format!(": {message}")), "{lines}: {said}");
    }
    let untold = said("trace quic start now");
    assert!(untold.contains("WARNING") && untold.contains("nothing here tells of 'quic'"), "{untold}");
    assert!(!untold.contains("ALERT"), "{untold}");
    let said = said("trace h1 level");
    assert!(said.contains("'trace': Supported trace levels for source h1:"), "{said}");
}

#[test]
fn users_may_only_look() {
    each_driver(|io| {
        let proxy = setup("frontend fe\nbind <@fe>\nhttp-request return status 204\n").start(io);
        assert!(command(&proxy, "user", "show trace").contains("[HTTP/1 multiplexer]"));
        assert!(command(&proxy, "user", "trace h1 start now").contains("Permission denied"), "{io}");
    });
}

/// Frames of HTTP/2, of clients and of servers.
#[test]
fn frames_are_told_of() {
    each_driver(|io| {
        let server = Server::start(|conn, _| {
            let mut served = Served::new(conn, Settings::default());
            while let Some((id, _)) = served.next_request() {
                served.answer(id, "x");
            }
        });
        let proxy = setup(&format!(
            "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nserver s {} proto h2\n",
            server.addr
        ))
        .start(io);
        assert_eq!(command(&proxy, "cli", "trace h2 sink r level proto start now"), "");
        let mut asking = Client::new(proxy.connect());
        assert_eq!(asking.get("/").text(), "x");
        drop(asking);
        until_told(&proxy, "tx_data] sent frame");
        let text = command(&proxy, "cli", "show events r");
        let lines: Vec<&str> = text.lines().filter(|line| line.contains(" frame : ")).collect();
        for (whose, event, frame) in [
            (" client=127.", "rx_settings] rcvd frame", "Settings flags=0x00"),
            (" client=127.", "tx_settings] sent frame", "Settings flags=0x01 len=0 stream=0"),
            (" client=127.", "rx_hdr] rcvd frame", "Headers flags=0x05"),
            (" server=be/s", "tx_hdr] sent frame", "Headers flags=0x05"),
            (" server=be/s", "rx_data] rcvd frame", "Data flags=0x01 len=1 stream=1"),
            (" client=127.", "tx_data] sent frame", "Data flags=0x01 len=1 stream=1"),
        ] {
            let told = |line: &&&str| [whose, event, frame].iter().all(|part| line.contains(part));
            assert_eq!(lines.iter().filter(told).count(), 1, "{whose} {event} {frame} in {text}");
        }
        proxy.finish(server);
    });
}
