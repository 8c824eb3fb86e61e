//! Settings that are easily accepted and forgotten: each test fails when nobody reads the setting.

mod support;

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use support::{Conn, Proxy, Server, Setup, Signal, each_driver, ok};

const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";

/// A frontend with `more` lines in front of a backend `be` that has `lines`.
fn setup(more: &str, lines: &str) -> Setup {
    Setup::http(&format!("frontend fe\nbind <@fe>\n{more}\ndefault_backend be\nbackend be\n{lines}\n"))
}

fn status(proxy: &Proxy, request: &str) -> u16 {
    let mut conn = proxy.connect();
    conn.send(request);
    conn.response().status
}

#[test]
fn rates_hold_connections_back() {
    let once_a_second = |setup: Setup| {
        let proxy = setup.start("epoll");
        let began = Instant::now();
        for _ in 0..3 {
            assert_eq!(status(&proxy, GET), 200);
        }
        // One in the first second, one in the next, and the third not before the one after.
        assert!(began.elapsed() >= Duration::from_millis(900), "{:?}", began.elapsed());
    };
    let answer = "http-request return status 200";
    once_a_second(setup(&format!("rate-limit sessions 1\n{answer}"), ""));
    once_a_second(setup(answer, "").global("maxsessrate 1"));
    once_a_second(setup(answer, "").global("maxconnrate 1"));
}

#[test]
fn unusual_header_names_are_removed_or_refused() {
    each_driver(|io| {
        let server = Server::http(|request| ok(if request.head.has("a_b") { "there" } else { "gone" }));
        let request = "GET / HTTP/1.1\r\nHost: h\r\na_b: 1\r\n\r\n";
        let serve = |option: &str| {
            let more = if option.is_empty() {
                String::new()
            } else {
                format!("option http-restrict-req-hdr-names {option}")
            };
            setup(&more, &format!("server s {}", server.addr)).start(io)
        };
        assert_eq!(serve("preserve").ask(request).text(), "there");
        assert_eq!(serve("delete").ask(request).text(), "gone");
        assert_eq!(serve("reject").ask(request).status, 403);
        assert_eq!(serve("reject").ask(GET).text(), "gone");
    });
}

#[test]
fn a_session_stays_with_its_last_server() {
    each_driver(|io| {
        let (a, b) = (Server::named("a"), Server::named("b"));
        let names = |option: &str| {
            let lines = format!(
                "balance roundrobin\nhttp-reuse never\n{option}\nserver a {}\nserver b {}",
                a.addr, b.addr
            );
            let proxy = setup("", &lines).start(io);
            let mut conn = proxy.connect();
            let mut names = String::new();
            for _ in 0..4 {
                conn.send(GET);
                names.push_str(&conn.response().text());
            }
            names
        };
        assert_eq!(names(""), "abab");
        assert_eq!(names("option prefer-last-server"), "aaaa");
    });
}

#[test]
fn cacheable_cookies_are_blocked() {
    each_driver(|io| {
        let server = Server::http(|request| {
            let more = request.head.field("answer-with").replace('|', "\r\n");
            format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n{more}\r\n\r\nok")
        });
        let proxy = setup("", &format!("option checkcache\nserver s {}", server.addr)).start(io);
        let check = |fields: &str, expected: u16| {
            let request = format!("GET / HTTP/1.1\r\nHost: h\r\nAnswer-With: {fields}\r\n\r\n");
            assert_eq!(status(&proxy, &request), expected, "{fields}");
        };
        check("a: b", 200);
        check("set-cookie: a=b", 502);
        check("set-cookie: a=b|cache-control: private", 200);
        check("set-cookie: a=b|cache-control: max-age=10", 502);
        check("set-cookie: a=b|cache-control: foo, no-store", 200);
        check("set-cookie: a=b|cache-control: no-cache=\"set-cookie\"", 200);
        check("set-cookie: a=b|pragma: no-cache", 200);
        check("set-cookie: a=b|pragma: no-cache|cache-control: public", 502);
    });
}

#[test]
fn idle_connections_may_outlive_a_soft_stop_until_their_next_request() {
    each_driver(|io| {
        let waits = |setup: Setup| {
            let proxy = setup.start(io);
            let mut conn = proxy.connect();
            conn.send(GET);
            assert_eq!(conn.response().status, 200);
            let mut other = proxy.connect();
            other.send(GET);
            assert_eq!(other.response().status, 200);
            drop(other);
            proxy.signal(Signal::User1);
            support::eventually("the stop is announced", || {
                proxy.output().contains("fe stopped").then_some(())
            });
            let mut told = || {
                conn.send(GET);
                conn.response().field("connection")
            };
            let first = told();
            if first == "close" {
                conn.ended();
                return vec![first];
            }
            vec![first, told()]
        };
        let answer = "http-request return status 200";
        let told = waits(setup(&format!("option idle-close-on-response\n{answer}"), ""));
        assert_eq!(told, ["close"]);
        // Who would be told at random in the course of so many days is not told in their first minute.
        for time in ["infinite", "24d"] {
            let told = waits(setup(answer, "").global(&format!("close-spread-time {time}")));
            assert_eq!(told, ["", ""], "{time}");
        }
    });
}

#[test]
fn what_is_sent_is_no_sign_of_life_with_independent_streams() {
    each_driver(|io| {
        // It talks until it is told that the client will say nothing more, which is what the time-out makes of it.
        let server = Server::start(|mut conn, _| {
            let told = Arc::new(AtomicBool::new(false));
            let (mut ear, heard) = (conn.twin(), Arc::clone(&told));
            let listener = std::thread::spawn(move || {
                ear.rest();
                heard.store(true, Ordering::SeqCst);
            });
            while !told.load(Ordering::SeqCst) && conn.try_send("x").is_ok() {
                std::thread::sleep(Duration::from_millis(10));
            }
            conn.half_close();
            listener.join().unwrap();
        });
        let text = format!(
            "frontend fe\nbind <@fe>\noption independent-streams\ntimeout client 200ms\ndefault_backend be\n\
             backend be\nserver s {}\n",
            server.addr
        );
        let proxy = Setup::tcp(&text).start(io);
        let mut conn = proxy.connect();
        conn.rest();
        assert!(proxy.tcp_log().contains(" cD "));
    });
}

#[test]
fn process_variables_have_their_values_before_the_first_request() {
    each_driver(|io| {
        let more =
            "http-request return status 200 content-type text/plain lf-string %[var(proc.a)]-%[var(proc.b)]";
        let global = "set-var proc.a int(5),add(1)\nset-var-fmt proc.b \"b%[var(proc.a)]\"";
        let proxy = setup(more, "").global(global).threads(2).start(io);
        assert_eq!(proxy.ask(GET).text(), "6-b6");
    });
}

#[test]
fn variables_stop_at_their_limits() {
    each_driver(|io| {
        let more = "http-request set-var(txn.small) str(a)\n\
                    http-request set-var(txn.large) str(0123456789012345678901234567890123456789)\n\
                    http-request return status 200 content-type text/plain lf-string \
                    %[var(txn.small),length]/%[var(txn.large),length]";
        let proxy = setup(more, "").start(io);
        assert_eq!(proxy.ask(GET).text(), "1/40");
        let proxy = setup(more, "").global("tune.vars.txn-max-size 100").start(io);
        assert_eq!(proxy.ask(GET).text(), "1/");
    });
}

#[test]
fn the_process_is_as_nice_as_it_should_be() {
    let proxy = setup("", "server s 127.0.0.1:1")
        .global("tune.renice.startup 3\ntune.renice.runtime 7")
        .start("epoll");
    let stat = fs::read_to_string(format!("/proc/{}/stat", proxy.id())).unwrap();
    // The command's name is in parentheses and may hold blanks; the nice value is the nineteenth field.
    let after_name = stat.rsplit_once(") ").unwrap().1;
    assert_eq!(after_name.split(' ').nth(16), Some("7"), "{stat}");
}

#[test]
fn connections_may_be_accepted_one_at_a_time() {
    each_driver(|io| {
        let proxy = setup("http-request return status 200", "").global("tune.maxaccept 1").start(io);
        let mut conns: Vec<_> = (0..20).map(|_| proxy.connect()).collect();
        for conn in &mut conns {
            conn.send(GET);
        }
        assert!(conns.iter_mut().all(|conn| conn.response().status == 200));
    });
}

/// Says something to the program's CLI and returns the answer.
fn tell(proxy: &Proxy, command: &str) -> String {
    let mut cli = support::Conn::connect_unix(&proxy.path("cli"));
    cli.send(format!("{command}\n"));
    cli.rest_text()
}

/// The next log line that is about a stream and not about a server's state.
fn stream_line(proxy: &Proxy) -> String {
    loop {
        let line = proxy.log();
        if !line.starts_with("Server ") && !line.starts_with("backend ") {
            return line;
        }
    }
}

#[test]
fn sessions_end_with_their_server_when_that_is_asked_for() {
    each_driver(|io| {
        let server = Server::start(|mut conn, _| {
            conn.send("hello");
            conn.ended();
        });
        let text = format!(
            "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\n\
             server s {} on-marked-down shutdown-sessions\nserver b {} backup\n",
            server.addr, server.addr
        );
        let proxy = Setup::tcp(&text).global("stats socket <@dir>/cli level admin").threads(2).start(io);
        let mut conns: Vec<_> = (0..4).map(|_| proxy.connect()).collect();
        for conn in &mut conns {
            assert_eq!(conn.exactly(5), b"hello");
        }
        tell(&proxy, "set server be/s state maint");
        for conn in &mut conns {
            conn.ended();
            assert!(stream_line(&proxy).contains(" DC "));
        }
    });
}

#[test]
fn requests_end_with_their_server_when_that_is_asked_for() {
    each_driver(|io| {
        let (sender, arrived) = std::sync::mpsc::channel();
        let sender = std::sync::Mutex::new(sender);
        let server = Server::start(move |mut conn, _| {
            conn.head();
            sender.lock().unwrap().send(()).unwrap();
            conn.ended();
        });
        let lines = format!("server s {} on-marked-down shutdown-sessions", server.addr);
        let proxy = setup("", &lines).global("stats socket <@dir>/cli level admin").start(io);
        let mut conn = proxy.connect();
        conn.send(GET);
        arrived.recv().unwrap();
        tell(&proxy, "set server be/s state maint");
        assert_eq!(conn.response().status, 500);
        assert!(stream_line(&proxy).contains(" DC"));
    });
}

/// Also while a stream is being connected or its response is judged: what counts is when it came to the server.
#[test]
fn requests_end_with_their_server_in_every_phase() {
    each_driver(|io| {
        let answers = Server::start(|mut conn, _| {
            conn.head();
            conn.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nx");
            conn.ended();
        });
        let silent = support::Silent::start();
        for (addr, rule) in [
            (silent.addr, ""),
            (answers.addr, "http-response pause 1h"),
            (answers.addr, "http-response wait-for-body time 1h"),
        ] {
            let text = format!(
                "frontend fe\nbind <@fe>\nlog-format %ts\ndefault_backend be\n\
                 backend be\n{rule}\nserver s {addr} on-marked-down shutdown-sessions\n"
            );
            let limits = "timeout connect 1h\ntimeout server 1h";
            let setup = Setup::http(&text).defaults(limits).global("stats socket <@dir>/cli level admin");
            let proxy = setup.start(io);
            let mut conn = proxy.connect();
            conn.send(GET);
            support::eventually("the stream is where it is to be", || {
                let stat = tell(&proxy, "show stat");
                let column = |name: &str| {
                    let at = stat.lines().next()?.split(',').position(|column| column == name)?;
                    stat.lines().find(|line| line.starts_with("be,s,"))?.split(',').nth(at)
                };
                let answered = if rule.is_empty() { "0" } else { "1" };
                (column("scur") == Some("1") && column("hrsp_2xx") == Some(answered)).then_some(())
            });
            tell(&proxy, "set server be/s state maint");
            assert_eq!(conn.response().status, 500, "{rule} with {io}");
            assert_eq!(stream_line(&proxy), "DC", "{rule} with {io}");
        }
    });
}

/// Also behind an answer that its client has not taken yet: the 500 waits for that, and does not end with the server that it tells of.
#[test]
fn a_stream_that_ends_with_its_server_is_told_behind_answers_that_wait_for_their_reader() {
    each_driver(|io| {
        let server = Server::start(|mut conn, _| {
            conn.head();
            conn.ended();
        });
        let text = format!(
            "frontend fe\nbind <@fe>\nhttp-request return status 200 content-type text/plain file <@dir>/here if {{ path /here }}\n\
             default_backend be\nbackend be\nserver s {} on-marked-down shutdown-sessions\n",
            server.addr
        );
        let setup = Setup::http(&text).global("stats socket <@dir>/cli level admin\ntune.sndbuf.client 4608");
        let proxy = setup.file_beside("here", "x".repeat(8000)).start(io);
        // Between those of whom all is in the kernel's buffers, and those whose last request waits, is one that has an answer leaving.
        let mut conns: Vec<_> = (1..=40).map(|here| (here, proxy.connect())).collect();
        for (here, conn) in &mut conns {
            conn.send(format!("{}{GET}", "GET /here HTTP/1.1\r\nHost: h\r\n\r\n".repeat(*here)));
        }
        let mut last = (0, 0);
        support::eventually("all came as far as they can", || {
            let came = server.accepted();
            last = if came == last.0 { (came, last.1 + 1) } else { (came, 0) };
            (came > 0 && last.1 == 100).then_some(())
        });
        tell(&proxy, "set server be/s state maint");
        for (here, conn) in &mut conns {
            for _ in 0..*here {
                assert_eq!(conn.response().status, 200, "{here} with {io}");
            }
            let last = conn.response().status;
            assert!(matches!(last, 500 | 503), "{last} behind {here} with {io}");
        }
    });
}

#[test]
fn sessions_of_backup_servers_end_when_a_server_comes_back() {
    each_driver(|io| {
        let server = Server::start(|mut conn, _| {
            conn.send("hello");
            conn.ended();
        });
        let text = format!(
            "frontend fe\nbind <@fe>\ndefault_backend be\nbackend be\n\
             server s {} disabled on-marked-up shutdown-backup-sessions\nserver b {} backup\n",
            server.addr, server.addr
        );
        let proxy = Setup::tcp(&text).global("stats socket <@dir>/cli level admin").start(io);
        let mut conn = proxy.connect();
        assert_eq!(conn.exactly(5), b"hello");
        tell(&proxy, "set server be/s state ready");
        conn.ended();
    });
}

#[test]
fn a_server_that_comes_back_gets_its_share_little_by_little() {
    each_driver(|io| {
        let (a, b) = (Server::named("a"), Server::named("b"));
        let after_a_pause = |option: &str| {
            let lines = format!("balance roundrobin\nserver a {} {option}\nserver b {}", a.addr, b.addr);
            let proxy = setup("", &lines).global("stats socket <@dir>/cli level admin").start(io);
            tell(&proxy, "set server be/a state maint");
            tell(&proxy, "set server be/a state ready");
            (0..20).filter(|_| proxy.ask(GET).text() == "a").count()
        };
        assert_eq!(after_a_pause(""), 10);
        let few = after_a_pause("slowstart 1h");
        assert!(few <= 3, "{few} of 20");
    });
}

#[test]
fn an_option_that_the_kernel_refuses_is_left_out_with_a_warning() {
    let text = "frontend fe\nbind <@fe> cc nosuch mss 5\nhttp-request return status 200\n";
    let proxy = Setup::http(text).start("epoll");
    assert_eq!(status(&proxy, GET), 200);
    let said = proxy.output();
    let first = "for frontend fe: protocol tcpv4: cannot set MSS to 5, (Invalid argument) for [";
    let second = "for frontend fe: protocol tcpv4: cannot set TCP congestion control algorithm, (No such file or directory) for [";
    assert!(said.contains(first) && said.contains(second), "{said}");
}

/// A client that names a whole URI to a proxy was asked for `Proxy-Authorization` (407), and then `Authorization` was read: nobody
/// could log in. What is expected was compared with HAProxy 3.5-dev5.
#[test]
fn a_proxy_reads_the_credentials_that_it_asks_for() {
    let (basic, bearer) = ("Basic am9lOnB3", "Bearer token");
    let own = "http-request auth realm r unless { http_auth(users) } or { http_auth_bearer token }\n\
        http-request return status 200 content-type text/plain lf-string \"%[http_auth_type] %[http_auth_user]\"\n";
    let proxy = Setup::http(&format!(
        "userlist users\nuser joe insecure-password pw\n\
         frontend fe\nbind <@fe>\noption http-use-proxy-header\n{own}frontend other\nbind <@other>\n{own}"
    ))
    .start("epoll");
    for (at, target, asks, reads) in [
        ("fe", "http://h/", "407 proxy-authenticate", "Proxy-Authorization"),
        ("fe", "/", "401 www-authenticate", "Authorization"),
        ("other", "http://h/", "401 www-authenticate", "Authorization"),
    ] {
        let (status, challenge) = asks.split_once(' ').unwrap();
        for field in ["Authorization", "Proxy-Authorization"] {
            for (credentials, shown) in [(basic, "Basic joe"), (bearer, "Bearer ")] {
                let mut conn = Conn::connect(proxy.addr(at));
                conn.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n{field}: {credentials}\r\n\r\n"));
                let response = conn.response();
                let what = format!("{at} {target} {field} {credentials}");
                if field == reads {
                    assert_eq!((response.status, response.text().as_str()), (200, shown), "{what}");
                } else {
                    assert_eq!(response.status.to_string(), status, "{what}");
                    assert_eq!(response.field(challenge), "Basic realm=\"r\"", "{what}");
                }
            }
        }
    }
}
