//! Servers that come and go while the process runs (`add server`, `del server`, `wait srv-removable`).

mod support;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use support::{Conn, Proxy, Server, Setup, each_driver, eventually};

/// What the program's CLI answers.
fn cli(proxy: &Proxy, line: &str) -> String {
    proxy.tell("cli", line).trim_end().to_owned()
}

const ADDED: &str = "New server registered.";
const DELETED: &str = "Server deleted.";

fn setup(backend: &str) -> Setup {
    let text = format!(
        "frontend fe\n  bind <@fe>\n  use_backend %[path,field(2,/)] if {{ path_beg /be }}\n  default_backend be\n{backend}"
    );
    Setup::http(&text).global("stats socket <@dir>/cli level admin").threads(2)
}

/// One request on a connection that stays: what it is answered.
fn ask(conn: &mut Conn) -> String {
    conn.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    let response = conn.response();
    format!("{}{}", response.status, response.text())
}

/// Whatever chooses a server, one that was added gets its share once it is enabled, also of clients that were there before, and
/// one that was removed gets nothing.
#[test]
fn a_server_serves_from_when_it_is_enabled_until_it_is_disabled() {
    for balance in ["roundrobin", "leastconn", "random", "hdr(x) hash-type consistent", "first"] {
        each_driver(|io| {
            let (first, second) = (Server::named("first"), Server::named("second"));
            let balance = balance.replace(" hash-type", "\n  hash-type");
            let text = format!("backend be\n  balance {balance}\n  server a {}\n", first.addr);
            let proxy = setup(&text).start(io);
            let mut clients: Vec<Conn> = (0..4).map(|_| Conn::connect(proxy.addr("fe"))).collect();
            let mut asked = |many: usize| -> String {
                let mut seen: Vec<String> = Vec::new();
                for turn in 0..many {
                    let client = &mut clients[turn % 4];
                    client.send(format!("GET / HTTP/1.1\r\nHost: h\r\nX: {turn}\r\n\r\n"));
                    seen.push(client.response().text());
                }
                seen.sort();
                seen.dedup();
                seen.join(" ")
            };
            assert_eq!(asked(8), "first", "{balance} {io}");
            assert_eq!(cli(&proxy, &format!("add server be/b {} id 1000", second.addr)), ADDED);
            assert_eq!(asked(8), "first", "{balance} {io}: it is in maintenance");
            assert_eq!(cli(&proxy, "enable server be/b"), "");
            if balance == "first" {
                assert_eq!(cli(&proxy, "disable server be/a"), "");
                assert_eq!(asked(8), "second", "{balance} {io}");
            } else {
                assert_eq!(asked(64), "first second", "{balance} {io}");
                assert_eq!(cli(&proxy, "disable server be/a"), "");
                assert_eq!(asked(8), "second", "{balance} {io}");
            }
            assert_eq!(cli(&proxy, "enable server be/a"), "");
            assert_eq!(cli(&proxy, "del server be/b"), "Only servers in maintenance mode can be deleted.");
            assert_eq!(cli(&proxy, "disable server be/b"), "");
            assert_eq!(cli(&proxy, "wait 10s srv-removable be/b"), "Done.");
            assert_eq!(cli(&proxy, "del server be/b"), DELETED);
            assert_eq!(asked(8), "first", "{balance} {io}");
            assert!(!cli(&proxy, "show servers state").contains(" b "));
            // Its number is another one's, who inherits nothing.
            assert_eq!(cli(&proxy, &format!("add server be/c {}", second.addr)), ADDED);
            let stat = cli(&proxy, "show stat be 4 -1");
            let line = stat.lines().find(|line| line.starts_with("be,c,")).expect("its line");
            assert!(line.starts_with("be,c,0,0,0,0,,0,0,0,,0,,0,0,0,0,MAINT,1,1,0,"), "{line}");
        });
    }
}

/// A server is not removed while a stream is on it or waits for it, is waited for, and what ends in its queue is answered.
#[test]
fn a_server_in_use_stays() {
    each_driver(|io| {
        let held = Server::start(|mut conn, _| {
            if conn.try_until(b"\r\n\r\n").is_some() {
                conn.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab");
                conn.ended();
            }
        });
        let proxy = setup("backend be\n  balance roundrobin\n  timeout queue 60s\n").start(io);
        assert_eq!(cli(&proxy, &format!("add server be/a {} maxconn 1", held.addr)), ADDED);
        cli(&proxy, "enable server be/a");
        let mut first = Conn::connect(proxy.addr("fe"));
        first.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        first.until(b"ab");
        let mut waiting = Conn::connect(proxy.addr("fe"));
        waiting.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        eventually("the second one waits", || {
            cli(&proxy, "show stat be 2 -1").contains("be,BACKEND,1,").then_some(())
        });
        cli(&proxy, "disable server be/a");
        let in_use = "Server still has connections attached to it, cannot remove it.";
        assert_eq!(cli(&proxy, "del server be/a"), in_use);
        assert_eq!(
            cli(&proxy, "wait 50ms srv-removable be/a"),
            "Interrupted. The condition was not met in time."
        );
        cli(&proxy, "shutdown sessions server be/a");
        assert_eq!(cli(&proxy, "wait 20s srv-removable be/a"), "Done.");
        assert_eq!(cli(&proxy, "del server be/a"), DELETED);
        // Who waited for any server is served by the next one.
        let other = Server::named("other");
        assert_eq!(cli(&proxy, &format!("add server be/b {}", other.addr)), ADDED);
        cli(&proxy, "enable server be/b");
        assert!(waiting.rest_text().ends_with("other"), "{io}");
        drop(first);
    });
}

/// Says that it is over when it goes.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Servers come and go under load, as fast as an operator can say so: no request fails, numbers are used again, and no memory is
/// left behind.
#[test]
fn no_request_notices_servers_that_come_and_go() {
    each_driver(|io| {
        let (stays, comes) = (Server::named("stays"), Server::named("comes"));
        let text = format!("backend be\n  balance roundrobin\n  server a {}\n", stays.addr);
        let proxy = setup(&text).start(io);
        let (over, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
        thread::scope(|scope| {
            for fresh in [false, false, true] {
                let (proxy, over, asked) = (&proxy, &over, &asked);
                scope.spawn(move || {
                    let mut conn = Conn::connect(proxy.addr("fe"));
                    while !over.load(Ordering::Relaxed) {
                        let answer = ask(&mut conn);
                        assert!(answer == "200stays" || answer == "200comes", "{answer}");
                        asked.fetch_add(1, Ordering::Relaxed);
                        if fresh {
                            conn = Conn::connect(proxy.addr("fe"));
                        }
                    }
                });
            }
            // However this ends, the clients end with it.
            let _stop = Stop(&over);
            let say = |line: String, expected: &str| {
                let answer = cli(&proxy, &line);
                assert!(answer.contains(expected), "{line}: {answer}");
            };
            let churn = |turns: usize| {
                for turn in 0..turns {
                    let name = format!("be/s{}", turn % 7);
                    say(format!("add server {name} {} check inter 10ms pool-low-conn 3", comes.addr), ADDED);
                    say(format!("enable server {name}; enable health {name}"), "");
                    say(format!("disable server {name}"), "");
                    say(format!("wait 10s srv-removable {name}"), "Done.");
                    say(format!("del server {name}"), DELETED);
                }
            };
            churn(50);
            let before = proxy.resident_kb();
            churn(200);
            let after = proxy.resident_kb();
            assert!(after < before + 2000, "{before} kB, then {after} kB");
        });
        assert!(asked.load(Ordering::Relaxed) > 0);
        // All of them had the same few numbers.
        assert_eq!(cli(&proxy, &format!("add server be/last {}", comes.addr)), ADDED);
        let state = cli(&proxy, "show servers state be");
        assert!(state.contains(" be 2 last "), "{state}");
    });
}

/// A backend that is added serves once it is published, and goes when nothing is in it or on it. One that has its number
/// afterwards inherits nothing.
#[test]
fn backends_come_and_go() {
    each_driver(|io| {
        let (server, usual) = (Server::named("late"), Server::named("usual"));
        let held = Server::start(|mut conn, _| {
            if conn.try_until(b"\r\n\r\n").is_some() {
                conn.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab");
                conn.ended();
            }
        });
        let text = format!(
            "backend be\n  server a {}\ndefaults late\n  mode http\n  timeout connect 5s\n  timeout server 60s\n",
            usual.addr
        );
        let proxy = setup(&text).start(io);
        let ask = |conn: &mut Conn, path: &str| {
            conn.send(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n"));
            conn.response().status
        };
        // A client that was there before asks for it, too.
        let mut client = Conn::connect(proxy.addr("fe"));
        for round in 0..20 {
            let name = format!("be-{round}");
            let path = format!("/{name}");
            assert_eq!(cli(&proxy, &format!("add backend {name} from late")), "New backend registered.");
            assert_eq!(cli(&proxy, &format!("add server {name}/s {}", server.addr)), ADDED);
            cli(&proxy, &format!("enable server {name}/s"));
            cli(&proxy, &format!("publish backend {name}"));
            assert_eq!(ask(&mut client, &path), 200, "{io} {round}");
            // Its own request, and none of one that had its number before.
            eventually(&format!("{name} has counted"), || {
                let stat = cli(&proxy, &format!("show stat {name} 2 -1"));
                let row = stat.lines().find(|line| line.starts_with(&name)).expect("its row");
                let total = row.split(',').nth(7).expect("a column").to_owned();
                assert!(total == "0" || total == "1", "{row}");
                (total == "1").then_some(())
            });
            if round == 0 {
                assert_eq!(cli(&proxy, &format!("add server {name}/held {}", held.addr)), ADDED);
                cli(&proxy, &format!("disable server {name}/s; enable server {name}/held"));
                let mut busy = Conn::connect(proxy.addr("fe"));
                busy.send(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n"));
                busy.until(b"ab");
                cli(&proxy, &format!("unpublish backend {name}; disable server {name}/held"));
                assert_eq!(
                    cli(&proxy, &format!("del backend {name}")),
                    "Only a backend without server can be deleted."
                );
                cli(&proxy, &format!("shutdown sessions server {name}/held"));
                assert_eq!(cli(&proxy, &format!("wait 20s srv-removable {name}/held")), "Done.");
                assert_eq!(cli(&proxy, &format!("del server {name}/held")), DELETED);
            }
            cli(&proxy, &format!("unpublish backend {name}; disable server {name}/s"));
            assert_eq!(cli(&proxy, &format!("wait 20s srv-removable {name}/s")), "Done.");
            assert_eq!(cli(&proxy, &format!("del server {name}/s")), DELETED);
            assert_eq!(cli(&proxy, &format!("wait 20s be-removable {name}")), "Done.");
            assert_eq!(cli(&proxy, &format!("del backend {name}")), "Backend deleted.");
            assert_eq!(ask(&mut client, &path), 200, "{io}: the usual one serves whom nobody else does");
        }
        assert_eq!(
            cli(&proxy, "del backend be"),
            "This proxy cannot be removed at runtime due to other configuration elements pointing to it."
        );
    });
}

#[test]
fn protocols_that_do_not_suit_the_backend_are_refused() {
    each_driver(|io| {
        let text = "backend be\n  option httpchk\nbackend tcp\n  mode tcp\n";
        let proxy = setup(text).start(io);
        let answers = [
            ("add server tcp/s 127.0.0.1:9 proto h2", "MUX protocol is not usable for server."),
            ("add server be/s 127.0.0.1:9 proto none", "MUX protocol is not usable for server."),
            ("add server be/s 127.0.0.1:9 check proto h2", ADDED),
            ("add server be/t 127.0.0.1:9 proto h2", ADDED),
        ];
        for (line, answer) in answers {
            assert_eq!(cli(&proxy, line), answer, "{line}");
        }
    });
}

/// A server that joins starts with what it says it does, which the process keeps unless it is told to forget.
#[test]
fn a_new_server_starts_with_presets() {
    let backends = "backend be\n  default-server weight 10\n  default-server name other weight 5\n  \
                    server s 127.0.0.1:9 weight 77 maxconn 3\nbackend plain\n  server a 127.0.0.1:9\n\
                    backend named\n  default-server name x weight 1\n";
    each_driver(|io| {
        let proxy = setup(backends).start(io);
        let say = |line: &str| cli(&proxy, line);
        assert_eq!(say("show default-server"), "* be\n  be/other\n* named/x", "over {io}");
        assert_eq!(say("show default-server be"), "* be\n  be/other");
        assert_eq!(say("show default-server plain"), "");
        let origins = [
            ("", 1),
            ("from none", 1),
            ("from be:", 10),
            ("from srv:other", 5),
            ("from srv:s", 77),
            ("from srv:n4", 77),
            ("from be: weight 3", 3),
            ("from be:plain", 1),
            ("from srv:named/x maxconn 2", 1),
        ];
        for (at, (origin, weight)) in origins.into_iter().enumerate() {
            assert_eq!(say(&format!("add server be/n{at} 127.0.0.1:9 {origin}")), ADDED, "{origin}");
            let shown = format!("{weight} (initial {weight})");
            assert_eq!(say(&format!("get weight be/n{at}")), shown, "over {io}: {origin}");
        }
        let missing = say("add server be/no 127.0.0.1:9 from srv:nobody");
        assert_eq!(missing, "from: unknown server 'nobody' in backend 'be'.");

        let proxy = setup(backends).global("tune.defaults.purge all").start(io);
        assert_eq!(cli(&proxy, "show default-server"), "");
        assert_eq!(cli(&proxy, "add server be/a 127.0.0.1:9 from be:"), ADDED);
        assert_eq!(cli(&proxy, "get weight be/a"), "1 (initial 1)");
    });
}
