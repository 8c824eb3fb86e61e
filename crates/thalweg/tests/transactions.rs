//! Several changes as one: `begin config`, `check config`, `commit config`, `abort config`.

mod support;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use support::{Conn, Proxy, Server, Setup, each_driver, eventually, ok};

/// What the program's CLI answers.
fn cli(proxy: &Proxy, line: &str) -> String {
    proxy.tell("cli", line).trim_end().to_owned()
}

/// A session that goes on.
struct Session(Conn);

impl Session {
    fn new(proxy: &Proxy) -> Session {
        let mut conn = Conn::connect_unix(&proxy.path("cli"));
        conn.send("prompt i\n");
        conn.until(b"\n");
        Session(conn)
    }

    /// What a line is answered with, up to the empty line.
    fn ask(&mut self, line: &str) -> String {
        self.0.send(format!("{line}\n"));
        // An answer that says nothing is an empty line alone.
        let mut answer = self.0.exactly(1);
        if answer != b"\n" {
            answer.extend(self.0.until(b"\n\n"));
        }
        String::from_utf8(answer).unwrap().trim_end().to_owned()
    }

    fn ask_all(&mut self, lines: &[&str]) -> Vec<String> {
        lines.iter().map(|line| self.ask(line)).collect()
    }
}

const TEXT: &str = "\
global
    stats socket <@dir>/cli level admin
defaults plain
    mode http
    timeout client 20s
    timeout connect 20s
    timeout server 20s
frontend fe from plain
    bind <@fe>
    http-request deny if { path,map(<@dir>/map) -m found }
    use_backend other if { path -f <@dir>/paths }
    default_backend app
backend app from plain
    server s1 <@one>
    server s2 <@two> disabled
backend other from plain
    server o <@three>
backend watched from plain
    server w <@three> check agent-check agent-port 9
backend spare from plain
    be-unpublished
";

fn setup() -> Setup {
    Setup::file(TEXT).file_beside("map", "/x 1\n").file_beside("paths", "/other\n")
}

/// What is not as the files say, and what the map holds.
fn state(proxy: &Proxy) -> String {
    let map = cli(proxy, &format!("show map {}", proxy.path("map").display()));
    let entries: Vec<_> = map.lines().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect();
    format!("{}\n{}", cli(proxy, "show config diff"), entries.join("\n"))
}

fn generation(proxy: &Proxy) -> u64 {
    let text = cli(proxy, "show snapshots");
    text.lines().nth(1).unwrap().split(' ').next().unwrap().parse().unwrap()
}

fn changes(proxy: &Proxy) -> Vec<String> {
    let map = proxy.path("map").display().to_string();
    [
        "add server app/s3 192.0.2.3:80 weight 5".to_owned(),
        "add server app/s4 192.0.2.4:80".into(),
        "enable server app/s3".into(),
        "set server app/s3 addr 192.0.2.33 port 81".into(),
        "set server app/s1 weight 50".into(),
        "set maxconn server app/s1 9".into(),
        "del server app/s2".into(),
        "set server watched/w check-addr 192.0.2.7 port 70".into(),
        "set server watched/w agent-addr 192.0.2.8".into(),
        "set server watched/w agent-send hello".into(),
        "disable server other/o".into(),
        "del server other/o".into(),
        "add backend more from plain".into(),
        "add server more/m 192.0.2.5:80 id 7".into(),
        "publish backend more".into(),
        "del backend spare".into(),
        format!("add map {map} /y 2"),
        format!("set map {map} /x 3"),
        format!("add map {map} /z 4"),
        format!("del map {map} /y"),
    ]
    .into()
}

const CHANGED: &str = "\
~ server app/s1 weight 1 -> 50
~ server app/s1 maxconn 0 -> 9
- server app/s2
+ server app/s3 192.0.2.33:81 weight 5
+ server app/s4 192.0.2.4:80 disabled
- server other/o
~ server watched/w check-addr -> 192.0.2.7
~ server watched/w check-port -> 70
~ server watched/w agent-addr -> 192.0.2.8
~ server watched/w agent-send -> hello
+ backend more from plain
+ server more/m 192.0.2.5:80 id 7 disabled
- backend spare
~ map <map> entries -> 2 # entries are in a file of their own, which is not written
/x 3
/z 4";

#[test]
fn all_changes_are_made_at_once() {
    each_driver(|io| {
        let proxy = setup().start(io);
        let before = (state(&proxy), generation(&proxy));
        let mut session = Session::new(&proxy);
        assert!(session.ask("begin config").starts_with("Transaction begun at revision "), "{io}");
        let changes = changes(&proxy);
        for (at, change) in changes.iter().enumerate() {
            assert_eq!(session.ask(change), format!("Noted as change {}.", at + 1), "{io}: {change}");
        }
        // It is what is in force that is shown.
        assert_eq!(session.ask("get weight app/s1"), "1 (initial 1)", "{io}");
        let said = session.ask("check config");
        assert!(
            said.starts_with(&format!("{} changes can be made, at revision ", changes.len())),
            "{io}: {said}"
        );
        assert_eq!((state(&proxy), generation(&proxy)), before, "{io}: nothing is changed yet");
        let said = session.ask("commit config");
        assert!(said.starts_with(&format!("{} changes were made: revision ", changes.len())), "{io}: {said}");
        let expected = CHANGED.replace("<map>", &proxy.path("map").display().to_string());
        assert_eq!(state(&proxy), expected, "{io}");
        // Servers and backends came and went in one snapshot.
        assert_eq!(generation(&proxy), before.1 + 1, "{io}");
        assert_eq!(
            session.ask("commit config"),
            "There is no transaction: 'begin config' begins one.",
            "{io}"
        );
        proxy.finish(());
    });
}

/// One change that cannot be made keeps all of them from being made.
#[test]
fn one_wrong_change_changes_nothing() {
    each_driver(|io| {
        let proxy = setup().start(io);
        let before = (state(&proxy), generation(&proxy));
        let map = proxy.path("map").display().to_string();
        for (wrong, reason) in [
            ("set server app/s1 weight 257", "Absolute weight can only be between 0 and 256"),
            ("set server app/nobody weight 1", "No such server."),
            ("set server nowhere/s weight 1", "No such backend."),
            ("set server app/s1 state odd", "expects 'ready', 'drain' and 'maint'"),
            ("set server app/s1 addr odd", "Invalid addr 'odd'"),
            ("set server app/s1 addr 192.0.2.1 port odd", "problem converting port"),
            ("set server app/s1 name other", "In a transaction 'set server' takes"),
            ("set server app/s1 check-port 80", "health checks are not enabled"),
            ("set server app/s1 agent-port 80", "agent checks are not enabled"),
            ("set server app/s1 fqdn a.example.com", "no resolution is configured"),
            ("set server app/s1 ssl on", "cannot be set"),
            ("set server app/s1 health odd", "In a transaction 'set server' takes"),
            ("set server watched/w check-port odd", "provided port is not an integer"),
            ("set server watched/w check-addr odd", "invalid addr 'odd'"),
            ("set server watched/w agent-addr odd", "invalid addr 'odd'"),
            ("set server watched/w agent-port 65536", "provided port is invalid"),
            ("set server app/s3 health up", "said by its 'add server'"),
            ("set maxconn server app/s1 x", "preceded by garbage"),
            ("del server app/s1", "Only servers in maintenance mode can be deleted."),
            ("del server app/s2", "No such server."),
            ("add server app/s3 192.0.2.9:80", "Already exists a server"),
            ("add server app/s9 192.0.2.9:80 odd", "unknown keyword 'odd'"),
            ("add server app/s9 192.0.2.9:80 crt nowhere.pem ssl verify none", "nowhere.pem"),
            ("add server more/s9 192.0.2.9:80 id 7", "same 'id' or 'guid'"),
            ("del backend app", "Only a backend without server"),
            ("del backend more", "Only a backend without server"),
            ("del backend spare", "No such backend."),
            ("add backend app from plain", "already used"),
            ("add backend b from nowhere", "Cannot find default proxy"),
            ("publish backend nowhere", "No such backend."),
            (&format!("set map {map} /y 1"), "entry not found."),
            (&format!("del map {map} /nowhere"), "entry not found."),
            (&format!("del map {map} #0x100000000000"), "no '#' and numbers"),
            (&format!("add map @1 {map} a b"), "leave '@' and its number out"),
            (&format!("add acl {map} a"), "no such file"),
            ("add map nowhere a b", "There is no such file"),
            ("add map", "name of the file is missing"),
            ("enable server", "Transactions take"),
        ] {
            let mut session = Session::new(&proxy);
            session.ask("begin config");
            let changes = changes(&proxy);
            changes.iter().for_each(|change| drop(session.ask(change)));
            assert_eq!(
                session.ask(wrong),
                format!("Noted as change {}.", changes.len() + 1),
                "{io}: {wrong}"
            );
            for command in ["check config", "commit config"] {
                let said = session.ask(command);
                let is_reason = said.to_lowercase().contains(&reason.to_lowercase());
                assert!(
                    is_reason && said.ends_with("\nNothing was changed."),
                    "{io}: {command}: {wrong}: {said}"
                );
            }
            assert_eq!((state(&proxy), generation(&proxy)), before, "{io}: {wrong}");
            assert_eq!(
                session.ask("abort config"),
                format!("{} changes are forgotten.", changes.len() + 1),
                "{io}"
            );
        }
        proxy.finish(());
    });
}

#[test]
fn two_editors_notice_each_other() {
    each_driver(|io| {
        let proxy = setup().start(io);
        let (mut one, mut two) = (Session::new(&proxy), Session::new(&proxy));
        for session in [&mut one, &mut two] {
            assert_eq!(session.ask("begin config 0"), "Transaction begun at revision 0.", "{io}");
        }
        one.ask("set server app/s1 weight 5");
        two.ask("set server app/s1 maxconn 5");
        two.ask("abort config");
        two.ask_all(&["begin config", "set maxconn server app/s1 6"]);
        assert_eq!(two.ask("commit config"), "1 changes were made: revision 1.", "{io}");
        let said = one.ask("commit config");
        assert!(said.starts_with("Somebody else made changes: the revision is 1, not 0."), "{io}: {said}");
        assert_eq!(cli(&proxy, "get weight app/s1"), "1 (initial 1)", "{io}");
        assert_eq!(one.ask("check config"), "1 changes can be made, at revision 1.", "{io}");
        assert_eq!(one.ask("commit config"), "1 changes were made: revision 2.", "{io}");
        assert_eq!(cli(&proxy, "get weight app/s1"), "5 (initial 1)", "{io}");
        let said = cli(&proxy, "begin config 1");
        assert!(said.starts_with("Somebody else made changes: the revision is 2, not 1."), "{io}: {said}");
        // Whatever changes something counts, on whatever way; what shows something does not.
        for (line, grows) in [
            ("set server app/s1 weight 7", true),
            ("add server app/s9 192.0.2.9:80", true),
            ("set server app/s1 weight 700", false),
            ("show config", false),
            ("set anon on", false),
        ] {
            let revision = |proxy: &Proxy| {
                let text = cli(proxy, "show config");
                let number = text.split("revision ").nth(1).unwrap().split(',').next().unwrap();
                number.parse::<u64>().unwrap()
            };
            let before = revision(&proxy);
            cli(&proxy, line);
            assert_eq!(revision(&proxy) > before, grows, "{io}: {line}");
        }
        proxy.finish(());
    });
}

/// A server that serves somebody stays, and so does everything else of the transaction.
#[test]
fn what_is_in_use_keeps_all_as_it_is() {
    each_driver(|io| {
        let (go_on, waits) = mpsc::channel::<()>();
        let waits = Mutex::new(waits);
        let slow = Server::http(move |_| {
            let _ = waits.lock().unwrap().recv();
            ok("slow")
        });
        let text = TEXT.replace("<@one>", &slow.addr.to_string());
        let proxy =
            Setup::file(&text).file_beside("map", "/x 1\n").file_beside("paths", "/other\n").start(io);
        let mut client = proxy.connect();
        client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        eventually("the request is at the server", || (slow.accepted() > 0).then_some(()));
        let before = state(&proxy);
        let mut session = Session::new(&proxy);
        session.ask_all(&[
            "begin config",
            "add server app/s3 192.0.2.3:80",
            "disable server app/s1",
            "del server app/s1",
        ]);
        let said = session.ask("commit config");
        assert_eq!(
            said,
            "app/s1: Server still has connections attached to it, cannot remove it.\nNothing was changed.",
            "{io}"
        );
        assert_eq!(state(&proxy), before, "{io}");
        go_on.send(()).unwrap();
        assert_eq!(client.response().text(), "slow", "{io}");
        eventually("it is not in use any more", || {
            session.ask("commit config").starts_with("3 changes were made").then_some(())
        });
        assert!(
            state(&proxy).starts_with("- server app/s1\n+ server app/s3 192.0.2.3:80 disabled\n"),
            "{io}"
        );
        drop(client);
        proxy.finish(slow);
    });
}

/// Servers are replaced again and again under load: no request finds none.
#[test]
fn traffic_sees_all_or_nothing() {
    each_driver(|io| {
        let servers = [Server::named("a"), Server::named("b")];
        let text = TEXT
            .replace("<@one>", &servers[0].addr.to_string())
            .replace("    server s2 <@two> disabled\n", "");
        let proxy =
            Setup::file(&text).file_beside("map", "/x 1\n").file_beside("paths", "/other\n").start(io);
        let (stop, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
        thread::scope(|scope| {
            let client = scope.spawn(|| {
                let mut conn = proxy.connect();
                while !stop.load(Ordering::Relaxed) {
                    conn.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
                    assert_eq!(conn.response().status, 200, "{io}");
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
            let mut session = Session::new(&proxy);
            for round in 1..=10 {
                let (old, new) = (format!("app/s{round}"), format!("app/s{}", round + 1));
                let address = servers[round % 2].addr;
                session.ask_all(&[
                    "begin config",
                    &format!("add server {new} {address}"),
                    &format!("enable server {new}"),
                    &format!("disable server {old}"),
                ]);
                let said = session.ask("commit config");
                assert!(said.starts_with("3 changes were made"), "{io}: {round}: {said}");
                session.ask_all(&["begin config", &format!("del server {old}")]);
                eventually("the former one is free", || {
                    session.ask("commit config").starts_with("1 changes were made").then_some(())
                });
                let seen = answered.load(Ordering::Relaxed);
                eventually("it goes on", || (answered.load(Ordering::Relaxed) > seen).then_some(()));
            }
            stop.store(true, Ordering::Relaxed);
            client.join().unwrap();
        });
        proxy.finish(servers);
    });
}

/// A map that is cleared and filled again is never seen empty, and payloads are noted, too.
#[test]
fn maps_are_replaced_whole() {
    each_driver(|io| {
        let proxy = setup().start(io);
        let map = proxy.path("map").display().to_string();
        let mut session = Session::new(&proxy);
        session.ask_all(&["begin config", &format!("add map {map} /gone 1"), &format!("clear map {map}")]);
        assert_eq!(session.ask(&format!("add map {map} <<\n/a 1\n/b 2\n")), "Noted as change 3.", "{io}");
        session.ask_all(&[
            &format!("set map {map} /a 3"),
            &format!("add map {map} /c 4"),
            &format!("del map {map} /b"),
        ]);
        assert!(session.ask("commit config").starts_with("6 changes were made"), "{io}");
        assert!(state(&proxy).ends_with("\n/a 3\n/c 4"), "{io}: {}", state(&proxy));
        proxy.finish(());
    });
}

/// Clients that leave, words that make no sense, and commands that are not for transactions.
#[test]
fn odd_sessions_change_nothing() {
    each_driver(|io| {
        let proxy = setup().start(io);
        let before = state(&proxy);
        for end in
            ["", "\n", "; commit conf", "\nset server app/s1 weight 7", "\nset server app/s1 weight 7\n"]
        {
            Conn::connect_unix(&proxy.path("cli"))
                .send(format!("prompt i\nbegin config\nset server app/s1 weight 5{end}"));
        }
        assert_eq!(
            cli(&proxy, "begin config; set server app/s1 weight 5"),
            "Transaction begun at revision 0.\n\nNoted as change 1."
        );
        let mut session = Session::new(&proxy);
        for (line, said) in [
            ("commit config", "There is no transaction"),
            ("check config", "There is no transaction"),
            ("abort config", "There is no transaction"),
            ("begin config x", "'x' is no revision"),
            ("begin config -1", "'-1' is no revision"),
            ("begin config 99999999999999999999999", "is no revision"),
            ("begin config 7", "Somebody else made changes: the revision is 0, not 7."),
            ("begin config 0 0", "takes a revision, or nothing"),
            ("begin config", "Transaction begun"),
            ("begin config", "There is a transaction"),
            ("commit config now", "takes nothing"),
            ("reload", "cannot be part of a transaction"),
            ("set ssl tls-key x y", "cannot be part of a transaction"),
            ("clear counters all", "cannot be part of a transaction"),
            ("set anon on", ""),
            ("show version", "0.1"),
            ("commit config", "0 changes were made"),
        ] {
            let answer = session.ask(line);
            assert!(answer.contains(said), "{io}: {line}: {answer}");
        }
        for level in ["operator", "user"] {
            for command in ["begin config", "check config", "commit config", "abort config"] {
                assert_eq!(cli(&proxy, &format!("{level}; {command}")), "\nPermission denied", "{io}");
            }
        }
        // Rights that are given up in the middle are gone at its end.
        let answers =
            session.ask_all(&["begin config", "set server app/s1 weight 5", "operator", "commit config"]);
        assert_eq!(answers.last().unwrap(), "Permission denied", "{io}");
        assert_eq!(state(&proxy), before, "{io}");
        proxy.finish(());
    });
}
