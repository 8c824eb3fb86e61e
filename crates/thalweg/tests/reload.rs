//! Reload in place: the files are read again, and nothing that goes on is lost (`reload`, `show reload`, `show snapshots`,
//! `thalweg plan`, SIGHUP).

mod support;

use std::collections::HashSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddrV4, TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::mpsc;

use support::{Conn, Proxy, Server, Setup, each_driver, eventually, free_port, own_ip, program};
use thalweg_sys::signal::Signal;

/// What the program's CLI answers.
fn cli(proxy: &Proxy, line: &str) -> String {
    proxy.tell("cli", line).trim_end().to_owned()
}

fn setup(text: &str) -> Setup {
    Setup::http(text).global("stats socket <@dir>/cli level admin").threads(2)
}

/// Reloads, which must succeed: what is said of it.
fn reload(proxy: &Proxy) -> String {
    let said = cli(proxy, "reload");
    assert!(said.starts_with("Success=1\n--\n"), "{said}");
    said
}

/// Tries to reload, which must change nothing: what is said of it.
fn refused(proxy: &Proxy) -> String {
    let before = cli(proxy, "show snapshots");
    let said = cli(proxy, "reload");
    assert!(said.starts_with("Success=0\n--\n"), "{said}");
    assert!(said.contains("othing was changed"), "{said}");
    let generation = |text: &str| text.lines().nth(1).map(|line| line.split(' ').next().unwrap().to_owned());
    assert_eq!(generation(&cli(proxy, "show snapshots")), generation(&before), "{said}");
    said
}

/// One request on a connection that stays: the generation that served it, and the body.
fn ask(conn: &mut Conn) -> (String, String) {
    conn.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    let response = conn.response();
    assert_eq!(response.status, 200);
    (response.field("x-gen"), response.text())
}

const ONE: &str = "frontend fe\n  bind <@fe>\n  http-response set-header X-Gen g1\n  default_backend be\n";

/// A client that stays is served by the new configuration from its next request on; what was under way goes on by the old one.
#[test]
fn connections_stay_and_new_requests_follow() {
    each_driver(|io| {
        let (go_on, waits) = mpsc::channel::<()>();
        let waits = Mutex::new(waits);
        let slow = Server::start(move |mut conn, _| {
            if conn.try_until(b"\r\n\r\n").is_some() {
                conn.send("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf");
                let _ = waits.lock().unwrap().recv();
                conn.send("full");
            }
        });
        let echo = Server::start(|mut conn, _| {
            if conn.try_until(b"\r\n\r\n").is_some() {
                conn.send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n");
                while let Some(byte) = conn.try_exactly(1) {
                    let _ = conn.try_send(byte);
                }
            }
        });
        let first = Server::named("first");
        let text = format!(
            "{ONE}  use_backend slow if {{ path /slow }}\n  use_backend echo if {{ path /echo }}\nbackend be\n  server a {}\n\
             backend slow\n  server s {}\nbackend echo\n  server e {}\n",
            first.addr, slow.addr, echo.addr
        );
        let mut proxy = setup(&text).start(io);
        let mut client = Conn::connect(proxy.addr("fe"));
        assert_eq!(ask(&mut client), ("g1".into(), "first".into()));
        let mut download = Conn::connect(proxy.addr("fe"));
        download.send("GET /slow HTTP/1.1\r\nHost: h\r\n\r\n");
        let begun = download.until(b"half");
        assert!(String::from_utf8_lossy(&begun).to_lowercase().contains("x-gen: g1"));
        let mut upgraded = Conn::connect(proxy.addr("fe"));
        upgraded.send("GET /echo HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n");
        upgraded.until(b"\r\n\r\n");
        upgraded.send("x");
        assert_eq!(upgraded.exactly(1), b"x");
        // The backends of both are gone, and another server is there.
        let second = Server::named("second");
        proxy.edit("set-header X-Gen g1", "set-header X-Gen g2");
        proxy.edit("  use_backend slow if { path /slow }\n  use_backend echo if { path /echo }\n", "");
        proxy.edit(
            &format!("backend slow\n  server s {}\nbackend echo\n  server e {}\n", slow.addr, echo.addr),
            "",
        );
        proxy.edit(&format!("server a {}", first.addr), &format!("server b {}", second.addr));
        let said = reload(&proxy);
        for line in ["~ frontend fe", "- backend slow", "- server be/a", "+ server be/b"] {
            assert!(said.lines().any(|other| other == line), "{line}\n{said}");
        }
        assert_eq!(ask(&mut client), ("g2".into(), "second".into()), "{io}");
        assert!(cli(&proxy, "show snapshots").contains("\n0 former "), "{io}: something is served by it");
        for line in ["show sess", "show sess all"] {
            let shown = cli(&proxy, line);
            assert!(shown.contains("<GONE>"), "{io}: {line}\n{shown}");
        }
        upgraded.send("y");
        assert_eq!(upgraded.exactly(1), b"y", "{io}");
        go_on.send(()).unwrap();
        assert_eq!(download.exactly(4), b"full", "{io}");
        assert_eq!(ask(&mut download), ("g2".into(), "second".into()), "{io}");
        drop((upgraded, download, client));
        eventually("nothing is served by the first one any more", || {
            (!cli(&proxy, "show snapshots").contains("former")).then_some(())
        });
        proxy.finish((first, second, slow, echo));
    });
}

/// Five requests, which this server answers: how many connections were made for them, and how often one was used again.
fn connections_for_five(proxy: &Proxy, client: &mut Conn, server: &str, name: &str) -> (u64, u64) {
    let count = |column: &str| proxy.stat(&format!("be,{server}"), column).parse::<u64>().unwrap();
    let before = (count("connect"), count("reuse"));
    for _ in 0..5 {
        assert_eq!(ask(client).1, name);
    }
    (count("connect") - before.0, count("reuse") - before.1)
}

/// Connections to a server are used again when its line is another one than at the start, and when it was added at run time.
#[test]
fn connections_to_servers_that_changed_are_used_again() {
    each_driver(|io| {
        let (first, second) = (Server::named("first"), Server::named("second"));
        let text = format!("{ONE}backend be\n  http-reuse always\n  server a {}\n", first.addr);
        let mut proxy = setup(&text).start(io);
        let mut client = Conn::connect(proxy.addr("fe"));
        assert_eq!(connections_for_five(&proxy, &mut client, "a", "first"), (1, 4), "{io}");
        let line = format!("server a {}", first.addr);
        proxy.edit(&line, &format!("{line} weight 7"));
        reload(&proxy);
        assert_eq!(connections_for_five(&proxy, &mut client, "a", "first"), (1, 4), "{io}: changed");
        cli(&proxy, &format!("add server be/b {}", second.addr));
        cli(&proxy, "disable server be/a; enable server be/b");
        assert_eq!(connections_for_five(&proxy, &mut client, "b", "second"), (1, 4), "{io}: added");
        drop(client);
        proxy.finish((first, second));
    });
}

/// Listeners that are not named any more serve who waits and what is under way, and then nobody; new ones serve at once.
#[test]
fn listeners_come_and_go() {
    each_driver(|io| {
        let ((go_on, waits), (came, comes)) = (mpsc::channel::<()>(), mpsc::channel::<()>());
        let (waits, came) = (Mutex::new(waits), Mutex::new(came));
        let server = Server::http(move |request| {
            if request.head.line.contains("/slow") {
                came.lock().unwrap().send(()).unwrap();
                let _ = waits.lock().unwrap().recv();
            }
            support::ok("ok")
        });
        let text = format!("{ONE}  bind <@other>\nbackend be\n  server a {}\n", server.addr);
        let mut proxy = setup(&text).start(io);
        let (mut stays, mut idle) = (Conn::connect(proxy.addr("fe")), Conn::connect(proxy.addr("other")));
        let mut busy = Conn::connect(proxy.addr("other"));
        assert_eq!((ask(&mut stays).0, ask(&mut idle).0), ("g1".into(), "g1".into()));
        busy.send("GET /slow HTTP/1.1\r\nHost: h\r\n\r\n");
        comes.recv().unwrap();
        proxy.edit("bind <@other>", "bind <@third>");
        proxy.edit("X-Gen g1", "X-Gen g2");
        let said = reload(&proxy);
        let (gone, new) = (proxy.addr("other"), proxy.addr("third"));
        for line in [format!("- listener fe ipv4@{gone}"), format!("+ listener fe ipv4@{new}")] {
            assert!(said.lines().any(|other| other == line), "{line}\n{said}");
        }
        assert_eq!(ask(&mut Conn::connect(new)).0, "g2", "{io}");
        assert_eq!(ask(&mut stays).0, "g2", "{io}");
        // Nobody waits in vain: an idle connection is closed without a word.
        assert_eq!(idle.rest_text(), "", "{io}");
        go_on.send(()).unwrap();
        let last = busy.response();
        assert_eq!((last.field("x-gen"), last.field("connection")), ("g1".into(), "close".into()), "{io}");
        assert_eq!(busy.rest_text(), "");
        eventually("nobody listens there", || TcpStream::connect(gone).is_err().then_some(()));
        // What its connections counted counts for the frontend on and on.
        eventually("the first snapshot is gone", || {
            (!cli(&proxy, "show snapshots").contains("former")).then_some(())
        });
        assert_eq!(proxy.stat("fe,FRONTEND", "stot"), "4", "{io}");
        reload(&proxy);
        reload(&proxy);
        assert_eq!(proxy.stat("fe,FRONTEND", "stot"), "4", "{io}");
        drop((stays, busy, idle));
        proxy.finish(server);
    });
}

/// What is wrong with the files, or cannot change while the process runs, is said, and all is as before.
#[test]
fn what_cannot_be_served_changes_nothing() {
    each_driver(|io| {
        let server = Server::named("first");
        let mut proxy =
            setup(&format!("{ONE}backend be\n  balance roundrobin\n  server a {}\n", server.addr)).start(io);
        let mut client = Conn::connect(proxy.addr("fe"));
        let mut check = |proxy: &mut Proxy, from: &str, to: &str, wanted: &str| {
            proxy.edit(from, to);
            let said = refused(proxy);
            assert!(said.contains(wanted), "{wanted} in\n{said}");
            assert!(!cli(proxy, "show reload").starts_with("Success=1\n--\nNo"), "it is compared, too");
            assert_eq!(ask(&mut client).0, "g1", "{io}");
            proxy.edit(to, from);
        };
        check(
            &mut proxy,
            "default_backend be",
            "default_backend nobody",
            "unable to find required default_backend",
        );
        check(&mut proxy, "X-Gen g1", "X-Gen g1 if nonsense", "no such ACL : 'nonsense'");
        check(&mut proxy, "nbthread 2", "nbthread 1", "a change of 'nbthread' in 'global' needs a restart");
        check(
            &mut proxy,
            "roundrobin",
            "hash hdr(x)\n  hash-type consistent\n  hash-balance-factor 150",
            "'hash-balance-factor' where there was none needs a restart",
        );
        check(&mut proxy, "X-Gen g1", "X-Gen %[src,map(<@dir>/nothing)]", "failed to open");
        check(
            &mut proxy,
            "\nbackend be\n",
            "\nresolvers r\n  nameserver n 127.0.0.1:53\nbackend be\n",
            "'resolvers' sections",
        );
        let taken = free_port(own_ip());
        let _held = TcpListener::bind(taken).unwrap();
        let two = format!("bind <@fe>\n  bind {taken}");
        check(&mut proxy, "bind <@fe>", &two, "cannot bind socket");
        fs::rename(proxy.path("cfg"), proxy.path("away")).unwrap();
        assert!(refused(&proxy).contains("cfg"));
        fs::create_dir(proxy.path("cfg")).unwrap();
        assert!(refused(&proxy).contains("cfg"));
        fs::remove_dir(proxy.path("cfg")).unwrap();
        fs::rename(proxy.path("away"), proxy.path("cfg")).unwrap();
        reload(&proxy);
        drop(client);
        proxy.finish(server);
    });
}

/// Limits of the process, sizes, and how servers are chosen follow their lines.
#[test]
fn limits_and_algorithms_follow() {
    each_driver(|io| {
        let (first, second) = (Server::named("first"), Server::named("second"));
        let text = format!(
            "{ONE}backend be\n  balance roundrobin\n  server a {}\n  server b {}\n",
            first.addr, second.addr
        );
        let mut proxy = setup(&text).global("maxconn 1").global("tune.http.maxhdr 20").start(io);
        let mut client = Conn::connect(proxy.addr("fe"));
        let asked: HashSet<String> = (0..4).map(|_| ask(&mut client).1).collect();
        assert_eq!(asked.len(), 2, "{io}: they take turns");
        let mut waiting = Conn::connect(proxy.addr("fe"));
        let many = format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", "X: y\r\n".repeat(30));
        waiting.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        proxy.edit("maxconn 1\n", "maxconn 50\n");
        proxy.edit("tune.http.maxhdr 20", "tune.http.maxhdr 101");
        proxy.edit("balance roundrobin", "balance first");
        let said = reload(&proxy);
        for line in ["~ global maxconn", "~ global tune.http.maxhdr", "~ backend be"] {
            assert!(said.lines().any(|other| other == line), "{line}\n{said}");
        }
        assert_eq!(waiting.response().status, 200, "{io}: there is room for it");
        client.send(&many);
        assert_eq!(client.response().status, 200, "{io}: there is room for its fields");
        assert!((0..4).all(|_| ask(&mut client).1 == "first"), "{io}");
        proxy.edit("balance first", "balance leastconn");
        reload(&proxy);
        let asked: HashSet<String> = (0..4).map(|_| ask(&mut client).1).collect();
        assert_eq!(asked.len(), 2, "{io}: the one that waited longest comes next");
        assert!(cli(&proxy, "show info").contains("\nMaxconn: 50\n"), "{io}");
        proxy.edit("maxconn 50\n", "maxconn 2000000000\n");
        assert!(refused(&proxy).contains("open files"), "{io}");
        drop((client, waiting));
        proxy.finish((first, second));
    });
}

/// What was found out or said while the process runs stays, unless the file says otherwise now.
#[test]
fn live_state_is_kept() {
    each_driver(|io| {
        let (first, second) = (Server::named("first"), Server::named("second"));
        let text = format!(
            "{ONE}  http-request track-sc0 src table be\n  http-response set-header X-Map %[str(k),map(<@dir>/map,none)]\n\
             backend be\n  balance roundrobin\n  stick-table type ip size 1k expire 1h store http_req_cnt\n  server a {} weight 7\n\
             \x20 server b {} weight 9\n",
            first.addr, second.addr
        );
        let mut proxy = setup(&text).file_beside("map", "k file\n").start(io);
        let mut client = Conn::connect(proxy.addr("fe"));
        for _ in 0..5 {
            ask(&mut client);
        }
        let map = proxy.path("map");
        cli(&proxy, "set weight be/a 3");
        cli(&proxy, "set server be/b state maint");
        cli(&proxy, &format!("set map {} k run-time", map.display()));
        cli(&proxy, "set server be/a agent down");
        let said = cli(&proxy, &format!("add server be/added {}", second.addr));
        assert_eq!(said, "New server registered.");
        proxy.edit("X-Gen g1", "X-Gen g2");
        proxy.edit("weight 9", "weight 11");
        let said = reload(&proxy);
        assert!(said.contains("~ server be/b\n") && !said.contains("server be/a\n"), "{said}");
        assert!(said.contains(&format!("kept: changes at run time of {}\n", map.display())), "{said}");
        assert!(said.contains("kept: server be/added, added at run time"), "{said}");
        client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        let response = client.response();
        let now = (response.field("x-gen"), response.field("x-map"), response.text());
        assert_eq!(now, ("g2".into(), "run-time".into(), "first".into()), "{io}");
        assert_eq!(proxy.stat("be,a", "weight"), "3", "{io}");
        assert_eq!(proxy.stat("be,b", "status"), "MAINT", "{io}");
        assert_eq!(proxy.stat("be,BACKEND", "stot"), "6", "{io}");
        assert_eq!(proxy.stat("fe,FRONTEND", "req_tot"), "6", "{io}");
        assert!(cli(&proxy, "show table be").contains("http_req_cnt=6"), "{io}");
        cli(&proxy, "set server be/b state ready");
        assert_eq!(proxy.stat("be,b", "weight"), "11", "{io}: the file says so now");
        fs::write(&map, "k other\n").unwrap();
        let said = cli(&proxy, "reload force");
        assert!(said.starts_with("Success=1\n") && said.contains("dropped: server be/added"), "{said}");
        assert!(!cli(&proxy, "show servers state be").contains(" added "), "{io}");
        client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(client.response().field("x-map"), "other", "{io}");
        drop(client);
        proxy.finish((first, second));
    });
}

/// A server whose line leads elsewhere gets no request over a connection that was made by its former line.
#[test]
fn a_server_that_moves_leaves_its_idle_connections() {
    each_driver(|io| {
        let (first, second) = (Server::named("first"), Server::named("second"));
        let text = format!("{ONE}backend be\n  http-reuse always\n  server a {}\n", first.addr);
        let mut proxy = setup(&text).start(io);
        let mut clients: Vec<Conn> = (0..4).map(|_| Conn::connect(proxy.addr("fe"))).collect();
        for client in &mut clients {
            assert_eq!(ask(client).1, "first");
        }
        proxy.edit(&format!("server a {}", first.addr), &format!("server a {}", second.addr));
        reload(&proxy);
        for client in &mut clients {
            assert_eq!(ask(client).1, "second", "{io}");
        }
        assert_eq!(proxy.stat("be,a", "stot"), "8", "{io}");
        drop(clients);
        proxy.finish((first, second));
    });
}

/// SIGHUP of a process without a master does it, too, and `thalweg plan` says what it would do.
#[test]
fn it_can_be_asked_for_by_a_signal_and_planned() {
    let server = Server::named("first");
    let mut proxy = setup(&format!("{ONE}backend be\n  server a {}\n", server.addr)).start("epoll");
    let mut client = Conn::connect(proxy.addr("fe"));
    assert_eq!(ask(&mut client).0, "g1");
    proxy.edit("X-Gen g1", "X-Gen g2");
    let plan = |proxy: &Proxy, files: &[&str]| {
        let mut command = program();
        command.arg("plan").arg("-S").arg(proxy.path("cli")).current_dir(&proxy.directory.0);
        files.iter().for_each(|file| {
            command.args(["-f", file]);
        });
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    assert_eq!(plan(&proxy, &[]), (Some(0), "~ frontend fe\n".into()));
    let other = fs::read_to_string(proxy.path("cfg")).unwrap().replace("nbthread 2", "nbthread 1");
    fs::write(proxy.path("new.cfg"), other.replace("server a", "server b")).unwrap();
    let (code, said) = plan(&proxy, &["new.cfg"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("needs a restart") && said.contains("+ server be/b"), "{said}");
    assert_eq!(ask(&mut client).0, "g1");
    proxy.signal(Signal::Hangup);
    eventually("the signal is followed", || (ask(&mut client).0 == "g2").then_some(()));
    eventually("it is told", || proxy.output().contains("Generation 1 is in force").then_some(()));
    drop(client);
    proxy.finish(server);
}

/// What an address of the CLI answers to a line; `None` where nobody listens.
fn asked_at(addr: SocketAddrV4, line: &str) -> Option<String> {
    let mut stream = TcpStream::connect(addr).ok()?;
    stream.write_all(format!("{line}\n").as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer.trim_end().to_owned())
}

/// Sockets of the CLI come, go and change their level while clients are served; sessions that are there stay what they were.
#[test]
fn sockets_of_the_cli_follow() {
    each_driver(|io| {
        let server = Server::named("first");
        let text = format!("{ONE}backend be\n  server a {}\n", server.addr);
        let goes = "stats socket <@goes> level user\n";
        let global = format!("stats socket <@dir>/cli level admin\nstats socket <@stays> level user\n{goes}");
        let mut proxy = Setup::http(&text).global(&global).threads(2).start(io);
        let mut client = Conn::connect(proxy.addr("fe"));
        ask(&mut client);
        let [stays, goes_at] = ["stays", "goes"].map(|name| proxy.addr(name));
        assert_eq!(asked_at(stays, "show cli level").as_deref(), Some("user"));
        let mut session = Conn::connect(goes_at);
        session.send("prompt\n");
        session.until(b"> ");
        proxy.edit(goes, "stats socket <@comes> level operator\n");
        proxy.edit("<@stays> level user", "<@stays> level operator");
        let comes = proxy.addr("comes");
        assert!(reload(&proxy).contains("~ global stats"));
        eventually("the new one answers", || {
            (asked_at(comes, "show cli level").as_deref() == Some("operator")).then_some(())
        });
        assert_eq!(asked_at(stays, "show cli level").as_deref(), Some("operator"));
        eventually("nobody listens at the former one", || {
            asked_at(goes_at, "show version").is_none().then_some(())
        });
        session.send("show cli level\n");
        assert!(String::from_utf8_lossy(&session.until(b"> ")).starts_with("user\n"));
        let sockets = cli(&proxy, "show cli sockets");
        assert!(!sockets.contains(&goes_at.to_string()), "{sockets}");
        assert!(sockets.contains(&format!("{comes} operator")), "{sockets}");
        // An address that somebody else has changes nothing.
        let taken = TcpListener::bind((*goes_at.ip(), 0)).unwrap();
        let theirs = format!("{}:{}", goes_at.ip(), taken.local_addr().unwrap().port());
        proxy.edit("<@comes> level operator", &format!("{theirs} level operator"));
        refused(&proxy);
        assert_eq!(asked_at(comes, "show cli level").as_deref(), Some("operator"));
        ask(&mut client);
        drop((client, session));
        proxy.finish(server);
    });
}
