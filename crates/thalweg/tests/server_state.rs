//! Servers that go on as they were in a former process (`server-state-file`, `load-server-state-from-file`).

mod support;

use std::os::unix::net::UnixStream;

use support::{Conn, Proxy, Setup, each_driver, eventually, reference};

fn tell(proxy: &Proxy, command: &str) -> String {
    let path = proxy.path("cli");
    let mut cli = Conn::unix(eventually("the CLI listens", || UnixStream::connect(&path).ok()));
    cli.send(format!("{command}\n"));
    cli.rest_text()
}

/// A process whose servers nobody reaches; those that have checks are not checked soon.
fn setup(servers: &str, state: &str) -> Setup {
    let presets = "defaults\nmode http\ntimeout client 20s\ntimeout connect 20s\ntimeout server 20s\n\
                   load-server-state-from-file global\ndefault-server inter 1h\n";
    Setup::file(&format!(
        "global\nstats socket <@dir>/cli level admin\nserver-state-base <@dir>\nserver-state-file state\nspread-checks 0\n\
         max-spread-checks 1h\n{presets}{servers}frontend fe\nbind <@fe>\nhttp-request return status 200\n"
    ))
    .file_beside("state", state)
}

/// Some columns of `show servers state`: of a server, what comes after its name, without the time since its last change.
fn row(proxy: &Proxy, server: &str) -> String {
    let rows = tell(proxy, "show servers state");
    let line = rows.lines().find(|line| line.split(' ').nth(3) == Some(server));
    let fields: Vec<&str> = line.unwrap_or_else(|| panic!("{server} in {rows}")).split(' ').collect();
    [&fields[4..9], &fields[10..]].concat().join(" ")
}

/// What a server may have, the row of the file, and what `show servers state` has then.
const CASES: [(&str, &str, &str); 18] = [
    ("", "2 0 5 1", "127.0.0.1 2 0 5 1"),
    ("", "0 0 1 1", "127.0.0.1 0 0 1 1"),
    ("", "3 0 1 1", "127.0.0.1 3 0 1 1"),
    ("", "2 1 1 1", "127.0.0.1 0 1 1 1"),
    ("", "2 8 1 1", "127.0.0.1 2 8 1 1"),
    ("", "2 0 5 2", "127.0.0.1 2 0 1 1"),
    ("weight 9", "2 0 0 9", "127.0.0.1 2 0 0 9"),
    ("disabled", "2 0 5 1", "127.0.0.1 0 5 5 1"),
    ("disabled", "2 1 5 1", "127.0.0.1 0 5 5 1"),
    ("disabled", "0 5 5 1", "127.0.0.1 0 5 5 1"),
    ("disabled", "2 4 5 1", "127.0.0.1 2 4 5 1"),
    ("check", "0 0 1 1", "127.0.0.1 0 0 1 1"),
    ("check", "2 0 1 1", "127.0.0.1 2 0 1 1"),
    ("check", "0 1 1 1", "127.0.0.1 0 1 1 1"),
    ("check init-state fully-down", "2 0 1 1", "127.0.0.1 2 0 1 1"),
    ("check agent-check agent-port 9", "2 0 1 1", "127.0.0.1 2 0 1 1"),
    ("", "9 0 1 1", "127.0.0.1 2 0 1 1"),
    ("", "2 0 257 1", "127.0.0.1 2 0 1 1"),
];

#[test]
fn servers_go_on_as_they_were() {
    let mut servers = "backend be\n".to_owned();
    let mut state = "1\n# names of columns\n".to_owned();
    for (at, (options, saved, _)) in CASES.iter().enumerate() {
        servers += &format!("server s{at} 127.0.0.1:9 {options}\n");
        state += &format!("3 be {} s{at} 127.0.0.9 {saved} 100 6 3 4 6 0 0 0 - 9 - 0 0 - - 0\n", at + 1);
    }
    let check = |setup: Setup, io: &'static str| {
        let proxy = setup.start(io);
        for (at, (options, saved, expected)) in CASES.iter().enumerate() {
            let now = row(&proxy, &format!("s{at}"));
            assert!(now.starts_with(&format!("{expected} ")), "{io}: '{options}' with {saved} is {now}");
        }
        let said = proxy.output();
        for line in [
            "Server be/s1 is DOWN, changed from server-state after a reload.",
            "Server be/s2 is stopping, changed from server-state after a reload.",
            "server-state application failed for server 'be/s16', invalid srv_op_state value '9'",
            "server-state application failed for server 'be/s17', invalid srv_uweight value '257'",
        ] {
            assert!(said.contains(line), "{io}: {line}\n{said}");
        }
    };
    each_driver(|io| check(setup(&servers, &state), io));
    if let Some(reference) = reference() {
        check(setup(&servers, &state).program(&reference), "epoll");
    }
}

/// Maintenance that the file has from a line that says `disabled` no more, a corrupt row, and one of nobody.
#[test]
fn what_does_not_fit_is_told_and_the_rest_is_used() {
    let servers = "backend be\nserver a 127.0.0.1:9 check init-state fully-up\nserver b 127.0.0.1:9\nserver c 127.0.0.1:9 ssl verify none\n\
                   server d 127.0.0.1:9 check\n";
    let rest = "100 6 3 4 6 0 0 0 - 9 - 0";
    let state = format!(
        "1\r\n2 be 1 a 127.0.0.1 0 5 1 1 {rest} 0 - - 0\nshort row\n2 be 2 b 127.0.0.1 2 0 7 1 {rest} 0 - - 0\n\
         2 be 2 b 127.0.0.1 2 0 8 1 {rest} 0 - - 0\n2 be 3 gone 127.0.0.1 2 0 8 1 {rest} 0 - - 0\n\
         2 nobody 3 gone 127.0.0.1 2 0 8 1 {rest} 0 - - 0\n2 be 3 c 127.0.0.1 2 0 3 1 {rest} 0 - - 0\n\
         2 be 4 d 127.0.0.1 2 0 3 1 {rest} 81 127.0.0.7 zz 0"
    );
    each_driver(|io| {
        let proxy = setup(servers, &state).start(io);
        assert!(row(&proxy, "a").starts_with("127.0.0.1 2 0 1 1 "), "{io}");
        assert!(row(&proxy, "b").starts_with("127.0.0.1 2 0 7 1 "), "{io}");
        assert!(
            row(&proxy, "c").ends_with("- 9 - 1 0 - - 0"),
            "TLS is what the line says: {io} {}",
            row(&proxy, "c")
        );
        assert!(row(&proxy, "d").contains("- 9 - 0 81 127.0.0.7"), "{io} {}", row(&proxy, "d"));
        let (said, path) = (proxy.output(), proxy.path("state"));
        let path = path.display();
        for line in [
            format!(
                "global server state file '{path}' at line 3: a row has 20 fields or more, not 2; it is not used."
            ),
            format!("'{path}' at line 5: 'be/b' has a row in line 4 already; this one is not used."),
            format!("'{path}' at line 6: backend 'be' has no server 'gone'; the row is not used."),
            format!("'{path}' at line 7: there is no backend 'nobody'; the row is not used."),
            "server-state partially applied for server 'be/d', agent checks are not enabled on this server"
                .into(),
        ] {
            assert!(said.contains(&line), "{io}: {line}\n{said}");
        }
    });
}

#[test]
fn a_file_of_another_kind_changes_nothing() {
    let servers = "backend be\nserver a 127.0.0.1:9\nbackend own\nload-server-state-from-file local\nserver a 127.0.0.1:9\n\
                   backend other\nload-server-state-from-file local\nserver-state-file-name elsewhere\nserver a 127.0.0.1:9\n\
                   backend none\nload-server-state-from-file none\nserver a 127.0.0.1:9\n";
    let row_of = |backend: &str, weight: u32| {
        format!("9 {backend} 9 a 127.0.0.1 2 0 {weight} 1 100 6 3 4 6 0 0 0 - 9 - 0 0 - - 0\n")
    };
    let weights = |proxy: &Proxy| {
        let rows = tell(proxy, "show servers state");
        let weight = |row: &str| row.split(' ').nth(7).unwrap_or_default().to_owned();
        rows.lines()
            .filter(|row| row.split(' ').nth(3) == Some("a"))
            .map(weight)
            .collect::<Vec<_>>()
            .join(" ")
    };
    let check = |program: Option<&std::path::Path>, io: &'static str| {
        let with = |state: &str, setup_more: fn(Setup, &str) -> Setup, own: &str| {
            let setup = setup_more(setup(servers, state), own);
            match program {
                Some(program) => setup.program(program),
                None => setup,
            }
            .start(io)
        };
        let all: String = ["be", "own", "other", "none"].map(|backend| row_of(backend, 5)).concat();
        // Only the first backend uses the common file, and only the others' own ones have a say about them.
        let proxy = with(&format!("1\n{all}"), |setup, _| setup, "");
        assert_eq!(weights(&proxy), "5 1 1 1", "{io}");
        let said = proxy.output();
        assert!(said.contains("Proxy 'own': Can't open server state file '"), "{said}");
        assert!(said.contains("/own': No such file or directory."), "{said}");
        let both = |setup: Setup, own: &str| setup.file_beside("own", own).file_beside("elsewhere", own);
        let proxy = with("1\n", both, &format!("1\n{all}"));
        assert_eq!(weights(&proxy), "1 5 5 1", "{io}");
        for (text, complaint) in [
            ("", "config: Empty global server state file"),
            ("2\n", "config: Can't get version of the global server"),
        ] {
            let state = format!("{text}{}", if text.is_empty() { "" } else { &all });
            let proxy = with(&state, |setup, _| setup, "");
            assert_eq!(weights(&proxy), "1 1 1 1", "{io}");
            assert!(proxy.output().contains(complaint), "{io} {}", proxy.output());
        }
    };
    each_driver(|io| check(None, io));
    if let Some(reference) = reference() {
        check(Some(&reference), "epoll");
    }
}

/// What operators did, and what follows from names, is what the next process begins with.
#[test]
fn a_process_takes_over_what_operators_did() {
    let servers = "backend be\nserver a 127.0.0.1:9 check init-state fully-up weight 10\nserver b 127.0.0.1:9\nserver c 127.0.0.1:9\n\
                   server d 127.0.0.1:9 check init-state fully-up\nserver e localhost:9 init-addr last,127.0.0.3\n\
                   server f 127.0.0.1:9 track d\n";
    each_driver(|io| {
        let state = {
            let proxy = setup(servers, "1\n").start(io);
            assert!(row(&proxy, "e").starts_with("127.0.0.3 2 0"), "{io}");
            for command in [
                "set server be/a weight 50%",
                "set server be/b state maint",
                "set server be/c state drain",
                "set server be/d health down",
                "disable health be/d",
                "set server be/e addr 127.0.0.8 port 81",
            ] {
                tell(&proxy, command);
            }
            tell(&proxy, "show servers state")
        };
        let proxy = setup(servers, &state).start(io);
        for (server, expected) in [
            ("a", "127.0.0.1 2 0 5 10 "),
            ("b", "127.0.0.1 0 1 1 1 "),
            ("c", "127.0.0.1 2 8 1 1 "),
            ("d", "127.0.0.1 0 0 1 1 "),
            ("e", "127.0.0.8 2 0 1 1 "),
            ("f", "127.0.0.1 0 0 1 1 "),
        ] {
            let now = row(&proxy, server);
            assert!(now.starts_with(expected), "{io}: {server} is {now}");
            let before = state.lines().find(|line| line.split(' ').nth(3) == Some(server)).unwrap_or("");
            let fields =
                |text: &str, skip: usize| text.split(' ').skip(skip).map(str::to_owned).collect::<Vec<_>>();
            // Everything but the times and what checks found meanwhile.
            assert_eq!(
                fields(before, 12)[1..],
                fields(&now, 7)[1..],
                "{io}: {server} was {before}, is {now}"
            );
        }
        assert!(
            proxy.output().contains("Server be/d is DOWN, changed from server-state"),
            "{}",
            proxy.output()
        );
    });
}
