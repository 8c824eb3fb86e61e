//! Health checks from outside: what is asked of servers, what the logs say, where traffic goes.

mod support;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use support::h2::Served;
use support::{Conn, Proxy, Server, Setup, each_driver, nobody, ok};
use thalweg_h2::error::ErrorCode;
use thalweg_h2::settings::Settings;

const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

/// A frontend before a backend `be` that has these lines. Without `timeout check` an answer would have to come within the
/// interval, which a busy machine may not manage.
fn setup(lines: &str) -> Setup {
    Setup::http(&format!("frontend fe\nbind <@fe>\nno log\ndefault_backend be\nbackend be\n{lines}\n"))
        .defaults("option log-health-checks\ntimeout check 20s\ndefault-server inter 50ms\n")
}

#[test]
fn check_alone_is_enough() {
    each_driver(|io| {
        let text =
            format!("frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\nserver a {} check\n", nobody());
        let proxy = Setup::http(&text).start(io);
        assert!(said(&proxy).starts_with("Server be/a is DOWN, reason: Layer4 connection problem"));
    });
}

#[test]
fn checks_have_unique_identifiers() {
    each_driver(|io| {
        let (sender, names) = std::sync::mpsc::channel();
        let sender = Mutex::new(sender);
        let server = Server::http(move |request| {
            // The proxy may be gone, and with it the test.
            let _ = sender.lock().unwrap().send(request.head.field("request-id"));
            ok("")
        });
        let proxy = setup(&format!(
            "unique-id-format of-%[be_name]\noption httpchk\nhttp-check send hdr request-id %[unique-id]\nserver a {} check",
            server.addr
        ))
        .start(io);
        assert_eq!(names.recv().unwrap(), "of-be");
        drop(proxy);
    });
}

/// A check that only connects is over before the last word of the handshake is said: the server's program never hears of it. (On a
/// machine that is very busy one in some may be late.)
#[test]
fn checks_that_say_nothing_are_not_accepted() {
    each_driver(|io| {
        let server = Server::named("s");
        let proxy = setup(&format!("server a {} check inter 20ms", server.addr)).start(io);
        std::thread::sleep(Duration::from_millis(500));
        assert!(server.accepted() <= 3, "{} over {io}", server.accepted());
        assert_eq!(proxy.ask(GET).text(), "s");
        drop(proxy);
    });
}

/// `linger`: the connection of a check ends in order; others are reset, so that they leave nothing behind.
#[test]
fn checks_end_as_their_lines_say() {
    each_driver(|io| {
        for (word, in_order) in [("", false), ("linger", true)] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let addr = listener.local_addr().unwrap();
            let proxy = setup(&format!(
                "option tcp-check\ntcp-check connect {word}\ntcp-check send x\ntcp-check expect string y\nserver a {addr} check"
            ))
            .start(io);
            let mut conn = listener.accept().unwrap().0;
            let mut byte = [0];
            conn.read_exact(&mut byte).unwrap();
            conn.write_all(b"y").unwrap();
            assert_eq!(conn.read(&mut byte).is_ok(), in_order, "{word} over {io}");
            drop(proxy);
        }
    });
}

/// The next log line from where it speaks of a server, without its time.
fn said(proxy: &Proxy) -> String {
    let line = proxy.log();
    let from =
        ["Health check", "Server ", "Backup Server", "backend "].iter().filter_map(|s| line.find(s)).min();
    let line = &line[from.unwrap_or_else(|| panic!("{line}"))..];
    match line.split_once("check duration: ") {
        Some((before, after)) => {
            let digits = after.trim_start_matches(|c: char| c.is_ascii_digit());
            format!("{before}check duration: N{digits}")
        }
        None => line.to_string(),
    }
}

#[test]
fn a_refused_connection_takes_a_server_down() {
    each_driver(|io| {
        let server = Server::named("a");
        let proxy = setup(&format!("server a {} check\nserver b {} backup", nobody(), server.addr)).start(io);
        assert_eq!(
            said(&proxy),
            "Health check for server be/a failed, reason: Layer4 connection problem, info: \"ECONNREFUSED returned by OS \
             (Connection refused)\", check duration: Nms, status: 0/2 DOWN."
        );
        assert_eq!(
            said(&proxy),
            "Server be/a is DOWN. 0 active and 1 backup servers left. Running on backup. 0 sessions active, 0 requeued, 0 \
             remaining in queue."
        );
        assert_eq!(proxy.ask(GET).text(), "a");
    });
}

#[test]
fn without_health_logs_the_change_tells_the_reason() {
    each_driver(|io| {
        let proxy = setup(&format!("no option log-health-checks\nserver a {} check", nobody())).start(io);
        assert_eq!(
            said(&proxy),
            "Server be/a is DOWN, reason: Layer4 connection problem, info: \"ECONNREFUSED returned by OS (Connection \
             refused)\", check duration: Nms. 0 active and 0 backup servers left. 0 sessions active, 0 requeued, 0 remaining \
             in queue."
        );
        assert_eq!(said(&proxy), "backend be has no server available!");
        assert_eq!(proxy.ask(GET).status, 503);
    });
}

#[test]
fn a_server_goes_down_and_comes_back() {
    each_driver(|io| {
        let sick = Arc::new(AtomicBool::new(false));
        let answer = Arc::clone(&sick);
        let server = Server::http(move |_| match answer.load(Ordering::SeqCst) {
            false => ok("well"),
            true => "HTTP/1.1 503 Sick\r\nContent-Length: 0\r\n\r\n".into(),
        });
        let proxy = setup(&format!("option httpchk\nserver a {} check rise 2 fall 2", server.addr)).start(io);
        let health = |how: &str, what: &str, status: &str| {
            assert_eq!(
                said(&proxy),
                format!(
                    "Health check for server be/a {how}, reason: {what}, check duration: Nms, status: {status}."
                )
            );
        };
        let (good, bad) =
            ("Layer7 check passed, code: 200", "Layer7 wrong status, code: 503, info: \"Sick\"");
        health("succeeded", good, "2/2 UP");
        sick.store(true, Ordering::SeqCst);
        health("failed", bad, "1/2 UP");
        health("failed", bad, "0/2 DOWN");
        assert!(said(&proxy).starts_with("Server be/a is DOWN. 0 active and 0 backup servers left."));
        assert_eq!(said(&proxy), "backend be has no server available!");
        assert_eq!(proxy.ask(GET).status, 503);
        sick.store(false, Ordering::SeqCst);
        health("succeeded", good, "1/2 DOWN");
        health("succeeded", good, "2/2 UP");
        assert_eq!(
            said(&proxy),
            "Server be/a is UP. 1 active and 0 backup servers online. 0 sessions requeued, 0 total in queue."
        );
        assert_eq!(proxy.ask(GET).text(), "well");
    });
}

#[test]
fn requests_of_checks_are_as_configured() {
    // Lines of the backend, and the request they make.
    let cases = [
        ("option httpchk", "OPTIONS / HTTP/1.0\r\n\r\n"),
        ("option httpchk /x", "OPTIONS /x HTTP/1.0\r\n\r\n"),
        ("option httpchk GET /x", "GET /x HTTP/1.0\r\n\r\n"),
        (
            "option httpchk GET /x HTTP/1.1 www.h",
            "GET /x HTTP/1.1\r\nhost: www.h\r\nconnection: close\r\n\r\n",
        ),
        (
            "option httpchk\nhttp-check send meth PUT uri-lf /%[be_name] ver HTTP/1.1 hdr Host h hdr X-S \"%[srv_name]\" body abc",
            "PUT /be HTTP/1.1\r\nhost: h\r\nx-s: a\r\ncontent-length: 3\r\nconnection: close\r\n\r\nabc",
        ),
        (
            "option httpchk\nhttp-check set-var(check.p) str(/v)\nhttp-check send uri-lf \"%[var(check.p)]\"",
            "OPTIONS /v HTTP/1.0\r\n\r\n",
        ),
        ("option redis-check", "*1\r\n$4\r\nPING\r\n"),
        ("option ldap-check", "0\x0c\x02\x01\x01`\x07\x02\x01\x03\x04\0"),
        ("option ssl-hello-chk", "\x16\x03\0\0\x79\x01\0\0\x75\x03\0"),
        ("option tcp-check\ntcp-check send-binary 50494e470d0a\ntcp-check expect string x", "PING\r\n"),
    ];
    each_driver(|io| {
        for (lines, expected) in cases {
            let server = Server::start(move |mut conn, _| {
                assert_eq!(String::from_utf8_lossy(&conn.exactly(expected.len())), expected);
                conn.send("HTTP/1.0 200 OK\r\n\r\n");
            });
            let proxy = setup(&format!("{lines}\nserver a {} check inter 5s", server.addr)).start(io);
            assert!(said(&proxy).starts_with("Health check for server be/a "), "{lines}");
        }
    });
}

#[test]
fn answers_are_judged_by_the_rules() {
    let http = "HTTP/1.1 200 Fine\r\nSet-Cookie: sessid=1, b\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n";
    let passed = "succeeded, reason: Layer7 check passed, code: 200";
    let cases = [
        ("option httpchk", http, passed),
        ("option httpchk\nhttp-check expect string hello", http, passed),
        ("option httpchk\nhttp-check expect rstring ^h.*o$", http, passed),
        ("option httpchk\nhttp-check expect status 200-399", http, passed),
        ("option httpchk\nhttp-check expect hdr name set-cookie value -m beg sessid", http, passed),
        ("option httpchk\nhttp-check expect fhdr name set-cookie value \"sessid=1, b\"", http, passed),
        (
            "option httpchk\nhttp-check expect ! string hello comment no",
            http,
            "failed, reason: Layer7 invalid response, info: \"HTTP check matched unwanted content comment: no\"",
        ),
        (
            "option httpchk\nhttp-check expect string bye",
            http,
            "failed, reason: Layer7 invalid response, info: \"HTTP content check did not match\"",
        ),
        (
            "option httpchk\nhttp-check expect rstatus ^5",
            http,
            "failed, reason: Layer7 wrong status, code: 200, info: \"Fine\"",
        ),
        (
            "option httpchk\nhttp-check disable-on-404",
            "HTTP/1.1 404 Gone\r\nContent-Length: 0\r\n\r\n",
            "conditionally succeeded, reason: Layer7 check conditionally passed, code: 404",
        ),
        (
            "option tcp-check\ntcp-check send x\ntcp-check expect string +OK",
            "+OK there",
            "succeeded, reason: Layer7 check passed, code: 0, info: \"(tcp-check)\"",
        ),
        (
            "option tcp-check\ntcp-check send x\ntcp-check expect min-recv 0 string +NO comment c",
            "+OK there",
            "failed, reason: Layer7 invalid response, info: \"TCPCHK did not match content '+NO' at step 2 comment: c\"",
        ),
        (
            "option tcp-check\ntcp-check send x\ntcp-check expect binary 4f4b ok-status L6OK on-success \"is %[srv_name]\"",
            "+OK there",
            "succeeded, reason: Layer6 check passed, info: \"is a\"",
        ),
        (
            "option tcp-check\ntcp-check send x\ntcp-check expect ! rbinary 4F4B",
            "+OK there",
            "failed, reason: Layer7 invalid response, info: \"TCPCHK matched unwanted content (binary regex) at step 2\"",
        ),
        (
            "timeout check 100ms\noption tcp-check\ntcp-check send x\ntcp-check expect string +NO tout-status L6TOUT",
            "+OK there",
            "failed, reason: Layer6 timeout, info: \" at step 2 of tcp-check (expect string '+NO')\"",
        ),
        (
            "option redis-check",
            "+PONG\r\n",
            "succeeded, reason: Layer7 check passed, code: 0, info: \"Redis server is ok\"",
        ),
        (
            "option ldap-check",
            "0\x0c\x02\x01\x01a\x07\x0a\x01\0\x04\0\x04\0",
            "succeeded, reason: Layer7 check passed, code: 0, info: \"Success\"",
        ),
        (
            "option ldap-check",
            "0\x0c\x02\x01\x02a\x07\x0a\x01\0\x04\0\x04\0",
            "failed, reason: Layer7 invalid response, info: \"Not LDAPv3 protocol\"",
        ),
        ("option ssl-hello-chk", "\x15\x03\0\0\x02\x02\x28", "succeeded, reason: Layer6 check passed"),
        ("option ssl-hello-chk", "HTTP/1.0 400 Bad\r\n\r\n", "failed, reason: Layer6 invalid response"),
        ("option redis-check", "d\0\0\0no\r\n", "failed, reason: Layer7 wrong status, code: 0, info: \"d\""),
        (
            "option pgsql-check user u",
            "R\0\0\0\x08\0\0\0\0",
            "succeeded, reason: Layer7 check passed, code: 0, info: \"PostgreSQL server is ok\"",
        ),
    ];
    each_driver(|io| {
        for (lines, answer, expected) in cases {
            // The check ends the connection, by a reset: whoever waits for its end sees an error.
            let open = Mutex::new(Vec::new());
            let server = Server::start(move |mut conn, _| {
                conn.exactly(1);
                let _ = conn.try_send(answer);
                open.lock().unwrap().push(conn);
            });
            let proxy = setup(&format!("{lines}\nserver a {} check inter 5s", server.addr)).start(io);
            let line = said(&proxy);
            assert!(
                line.starts_with(&format!("Health check for server be/a {expected}, check duration")),
                "{lines}\n{line}"
            );
        }
    });
}

/// Who ends the connection without a word, once all was heard.
#[test]
fn no_answer_is_told_as_the_reference_tells_it() {
    let quit: &[u8] = b"\x01\0\0\0\x01";
    let cases = [
        ("option mysql-check", None, "info: \"TCPCHK got an empty response at step 2\""),
        ("option mysql-check user u", Some(quit), "info: \"TCPCHK got an empty response at step 3\""),
    ];
    let play = |io, program: Option<&Path>| {
        for (lines, heard, expected) in cases {
            let server = Server::start(move |mut conn, _| {
                heard.map(|end| conn.try_until(end));
            });
            let lines = format!("{lines}\nserver a {} check inter 5s", server.addr);
            let setup = setup(&lines);
            let proxy = match program {
                None => setup.start(io),
                Some(program) => setup.program(program).start(io),
            };
            let line = said(&proxy);
            let expected = format!("failed, reason: Layer7 invalid response, {expected}");
            assert!(line.contains(&expected), "{lines}\n{line}");
        }
    };
    each_driver(|io| play(io, None));
    if let Some(reference) = support::reference() {
        play("epoll", Some(&reference));
    }
}

#[test]
fn a_server_that_starts_down_waits_for_its_checks() {
    each_driver(|io| {
        let server = Server::named("a");
        let lines = format!(
            "no option log-health-checks\noption httpchk\nserver a {} check init-state fully-down rise 3",
            server.addr
        );
        let proxy = setup(&lines).start(io);
        assert!(said(&proxy).starts_with("Server be/a is UP, reason: Layer7 check passed"));
        assert!(server.accepted() >= 3);
        assert_eq!(proxy.ask(GET).text(), "a");
    });
}

#[test]
fn checks_go_where_they_are_told() {
    each_driver(|io| {
        let (traffic, checks) = (Server::named("traffic"), Arc::new(AtomicU32::new(0)));
        let seen = Arc::clone(&checks);
        let checked = Server::start(move |mut conn, _| {
            seen.fetch_add(1, Ordering::SeqCst);
            if conn.try_until(b"\r\n\r\n").is_some() {
                _ = conn.try_send(ok(""));
            }
        });
        let place = |how: &str| format!("server a {} check {how}", traffic.addr);
        let (ip, port) = (checked.addr.ip(), checked.addr.port());
        for lines in [
            format!("option httpchk\n{}", place(&format!("addr {ip} port {port}"))),
            format!(
                "option tcp-check\ntcp-check connect addr {ip} port {port}\ntcp-check send x\n{}",
                place("")
            ),
        ] {
            let before = checks.load(Ordering::SeqCst);
            let proxy = setup(&lines).start(io);
            assert!(said(&proxy).contains(" check passed"), "{lines}");
            support::eventually("a check arrives", || (checks.load(Ordering::SeqCst) > before).then_some(()));
            assert_eq!(proxy.ask(GET).text(), "traffic");
        }
    });
}

/// A server that tracks another one has no checks, and gets traffic when the other one would. So does one at the end of a
/// chain, in another backend.
#[test]
fn servers_go_with_those_that_they_track() {
    each_driver(|io| {
        let healthy = Arc::new(AtomicBool::new(true));
        let health = Arc::clone(&healthy);
        let server = Server::http(move |request| match &*request.head.line {
            "GET /health HTTP/1.0" if !health.load(Ordering::SeqCst) => {
                "HTTP/1.1 500 Bad\r\nContent-Length: 0\r\n\r\n".into()
            }
            _ => ok("tracked"),
        });
        let proxy = Setup::http(&format!(
            "frontend fe\nbind <@fe>\nno log\ndefault_backend be\nbackend be\nserver t {0} track be/u\nserver u {0} track o/c\n\
             backend o\noption httpchk GET /health\nserver c {0} check rise 1 fall 1\n",
            server.addr
        ))
        .defaults("timeout check 20s\ndefault-server inter 50ms\n")
        .start(io);
        assert_eq!(proxy.ask(GET).text(), "tracked", "{io}");
        healthy.store(false, Ordering::SeqCst);
        assert!(said(&proxy).starts_with("Server o/c is DOWN, reason: Layer7 wrong status"), "{io}");
        assert_eq!(said(&proxy), "backend o has no server available!", "{io}");
        assert!(said(&proxy).starts_with("Server be/u is DOWN via o/c. 1 active"), "{io}");
        assert!(said(&proxy).starts_with("Server be/t is DOWN via be/u. 0 active"), "{io}");
        assert_eq!(proxy.ask(GET).status, 503, "{io}");
        healthy.store(true, Ordering::SeqCst);
        assert_eq!(said(&proxy), "backend be has no server available!", "{io}");
        assert!(said(&proxy).starts_with("Server o/c is UP, reason: Layer7 check passed"), "{io}");
        assert!(said(&proxy).starts_with("Server be/u is UP via o/c. 1 active"), "{io}");
        assert!(said(&proxy).starts_with("Server be/t is UP via be/u. 2 active"), "{io}");
        assert_eq!(proxy.ask(GET).text(), "tracked", "{io}");
    });
}

#[test]
fn servers_name_a_section_that_says_how_they_are_checked() {
    each_driver(|io| {
        let (sender, heads) = std::sync::mpsc::channel();
        let sender = Mutex::new(sender);
        let server = Server::http(move |request| {
            let told = format!("{} {}", request.head.line, request.head.field("x-a"));
            let _ = sender.lock().unwrap().send(told);
            ok("")
        });
        let text = format!(
            "healthcheck own\nhttp-check send meth GET uri-lf /%[be_name]/%[srv_name] hdr x-a b\ntype httpchk\n\
             frontend fe\nbind <@fe>\nbackend be\noption httpchk HEAD /theirs\n\
             server named {0} check inter 1h healthcheck own\nserver plain {0} check inter 1h",
            server.addr
        );
        let setup = Setup::http(&text).defaults("timeout check 20s").global("max-spread-checks 1ms");
        let _proxy = setup.start(io);
        let mut seen = [heads.recv().unwrap(), heads.recv().unwrap()];
        seen.sort();
        assert_eq!(seen, ["GET /be/named HTTP/1.0 b", "HEAD /theirs HTTP/1.0 "]);
    });
}

/// Whether HTTP/2 is spoken, and what becomes of each answer.
#[test]
fn checks_speak_http_2_where_they_are_told_to() {
    each_driver(|io| {
        let server = Server::start(|conn, _| {
            let mut served = Served::new(conn, Settings::default());
            while let Some((id, asked)) = served.next_request() {
                match asked.line.rsplit('/').next().unwrap() {
                    "sick" => served.head(id, 503, &[], true),
                    "reset" => served.reset(id, ErrorCode::InternalError),
                    "later" => {
                        served.head(id, 103, &[], false);
                        served.head(id, 200, &[("x-state", "good")], false);
                        served.data(id, b"all is ", false);
                        served.data(id, b"well", false);
                        served.trailers(id, &[("x-sum", "1")]);
                    }
                    _ => {
                        let fields: Vec<_> = asked.fields.iter().map(|(n, v)| format!("{n}: {v}")).collect();
                        let text = format!("{}|{}|{}", asked.line, fields.join(","), asked.body.len());
                        served.answer(id, &text);
                    }
                }
            }
        });
        let old = Server::http(|_| ok(""));
        let verdict_of = |server: &Server, rules: &str, words: &str| {
            let text = format!("option httpchk\n{rules}\nserver a {} check {words}", server.addr);
            let proxy = setup(&text).start(io);
            let said = said(&proxy);
            said.split_once("reason: ").unwrap().1.split_once(", check duration").unwrap().0.to_owned()
        };
        let verdict = |rules: &str, words: &str| verdict_of(&server, rules, words);
        let good = "Layer7 check passed, code: 200";
        // Each way to say it, and what of a connection is not said in frames.
        let bare = "http-check expect string \"OPTIONS /||0\"";
        assert_eq!(verdict(bare, "proto h2"), good);
        assert_eq!(verdict(bare, "check-proto h2"), good);
        let send = "http-check send meth POST uri /p ver HTTP/1.1 hdr Host h.example hdr Connection close hdr X-Y Z body abc\n\
                    http-check expect string \"POST http://h.example/p|host: h.example,x-y: Z,content-length: 3|3\"";
        assert_eq!(verdict(&format!("http-check connect proto h2\n{send}"), ""), good);
        assert_eq!(verdict(&format!("http-check connect default\n{send}"), "proto h1 check-proto h2"), good);
        // Its own words are what a connection goes by that has some.
        assert_eq!(verdict_of(&old, "http-check connect\n", "proto h2"), good);
        assert_eq!(verdict_of(&old, "", "proto h2 check-proto h1"), good);
        let other = Server::start(speaks_plain_text);
        assert_eq!(verdict_of(&other, "", "proto h2"), "Socket error");
        let ask = |path: &str, rules: &str| {
            verdict(&format!("http-check send meth GET uri /{path}\n{rules}"), "proto h2")
        };
        assert_eq!(ask("sick", ""), "Layer7 wrong status, code: 503, info: \"Service Unavailable\"");
        assert_eq!(ask("reset", ""), "Socket error");
        assert_eq!(ask("later", "http-check expect string \"all is well\""), good);
        assert_eq!(ask("later", "http-check expect hdr name x-state value good"), good);
    });
}

/// Answers the preface of HTTP/2 as a server that does not know it.
fn speaks_plain_text(mut conn: Conn, _: usize) {
    let _ = conn.try_exactly(24);
    let _ = conn.try_send(b"HTTP/1.1 400 What?\r\nContent-Length: 0\r\n\r\n");
}

/// `option grpc-check`: what the health service of a server says of a service, of the server, and what is no answer of one.
#[test]
fn grpc_servers_are_asked_for_their_health() {
    each_driver(|io| {
        let server = Server::start(|conn, _| {
            let mut served = Served::new(conn, Settings::default());
            while let Some((id, asked)) = served.next_request() {
                let fields = ["content-type", "te"].map(|name| asked.field(name));
                assert_eq!(fields, ["application/grpc", "trailers"]);
                let host = asked.field("host");
                assert_eq!(asked.line, format!("POST http://{host}/grpc.health.v1.Health/Check"));
                let kind = ("content-type", "application/grpc");
                // Behind the five octets in front of the message and the two in front of the name.
                let service = String::from_utf8_lossy(asked.body.get(7..).unwrap_or_default()).into_owned();
                let (state, result) = match &*service {
                    "" => (1, "0"),
                    "ill" => (2, "0"),
                    "failing" => (1, "13"),
                    _ if host == "other" => (1, "0"),
                    _ => {
                        let more = [kind, ("grpc-status", "5"), ("grpc-message", "unknown service")];
                        served.head(id, 200, &more, true);
                        continue;
                    }
                };
                served.head(id, 200, &[kind], false);
                served.data(id, &[0, 0, 0, 0, 2, 8, state], false);
                served.trailers(id, &[("grpc-status", result)]);
            }
        });
        let plain = Server::start(speaks_plain_text);
        let verdict = |server: &Server, words: &str| {
            let proxy =
                setup(&format!("option grpc-check {words}\nserver a {} check", server.addr)).start(io);
            let said = said(&proxy);
            said.split_once("reason: ").unwrap().1.split_once(", check duration").unwrap().0.to_owned()
        };
        let good = "Layer7 check passed, code: 0, info: \"SERVING\"";
        assert_eq!(verdict(&server, ""), good);
        assert_eq!(verdict(&server, "service x authority other"), good);
        assert_eq!(verdict(&server, "service ill"), "Layer7 wrong status, code: 0, info: \"NOT_SERVING\"");
        assert_eq!(
            verdict(&server, "service failing"),
            "Layer7 wrong status, code: 13, info: \"grpc-status 13\""
        );
        assert_eq!(
            verdict(&server, "service x"),
            "Layer7 wrong status, code: 5, info: \"grpc-status 5: unknown service\""
        );
        assert_eq!(verdict(&plain, ""), "Layer7 invalid response, info: \"this is not HTTP/2\"");
    });
}
