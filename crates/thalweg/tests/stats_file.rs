//! Counters that go on from those of a process before (`stats-file`, `dump stats-file`).

mod support;

use std::os::unix::net::UnixStream;

use support::{Conn, Proxy, Setup, each_driver, eventually, reference};

fn tell(proxy: &Proxy, command: &str) -> String {
    let path = proxy.path("cli");
    let mut cli = Conn::unix(eventually("the CLI listens", || UnixStream::connect(&path).ok()));
    cli.send(format!("{command}\n"));
    cli.rest_text()
}

const CONFIGURATION: &str = "global\nstats socket <@dir>/cli level admin\nstats-file before\ndefaults\nmode http\n\
    timeout client 20s\ntimeout connect 20s\ntimeout server 20s\noption socket-stats\n\
    frontend fe\nguid g-fe\nbind <@fe> guid-prefix g-l\nbind <@two> guid-prefix g-m\nhttp-request return status 200\n\
    listen li\nguid g-li\nbind <@li>\nserver s 127.0.0.1:9 guid g-s\n";

/// Rows of what is not there, columns that are not known, values that are no numbers, rows of the other side.
const BEFORE: &str = "// a comment\n#fe guid,stot,nonsense,req_tot,bin,hrsp_2xx,\ng-fe,100,7,90,5000,80,\n\
    g-l-0,60,7,50,3000,80,\ng-m-0,x,,30,\ng-nobody,1,1,1,1,1,\ng-s,5,5,5,5,5,\n#what guid,stot\ng-li,9,\n\
    \n#be guid,req_tot,stot,econ,\ng-li,30,33,3,\ng-s,10,18446744073709551616,2,extra,words\n";

/// A row of the dump: its identifier, and its values by column.
fn value(dump: &str, guid: &str, column: &str) -> String {
    let mut columns: Vec<&str> = Vec::new();
    for line in dump.lines() {
        if line.starts_with('#') {
            columns = line.split(',').collect();
        } else if line.split(',').next() == Some(guid)
            && let Some(at) = columns.iter().position(|name| *name == column)
        {
            return line.split(',').nth(at).unwrap_or("").to_owned();
        }
    }
    panic!("no {guid} in {dump}");
}

#[test]
fn counters_go_on_from_the_file() {
    let check = |setup: Setup, io: &'static str| {
        let proxy = setup.file_beside("before", BEFORE).start(io);
        let mut client = Conn::connect(proxy.addr("fe"));
        client.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        assert_eq!(client.response().status, 200, "{io}");
        client.ended();
        let dump =
            eventually(&format!("the request is counted: {}", tell(&proxy, "dump stats-file")), || {
                let dump = tell(&proxy, "dump stats-file");
                (value(&dump, "g-fe", "hrsp_2xx") == "81").then_some(dump)
            });
        for (guid, column, expected) in [
            ("g-fe", "stot", "101"),
            ("g-fe", "hrsp_2xx", "81"),
            ("g-li", "econ", "3"),
            ("g-li", "lbtot", "0"),
            ("g-s", "req_tot", "10"),
            ("g-s", "econ", "2"),
        ] {
            assert_eq!(value(&dump, guid, column), expected, "{guid} {column} {io}\n{dump}");
        }
        dump
    };
    each_driver(|io| {
        let dump = check(Setup::file(CONFIGURATION), io);
        assert_eq!(value(&dump, "g-l-0", "stot"), "101", "what no listener has is the first one's: {io}");
        assert_eq!(value(&dump, "g-s", "stot"), "0", "{io}");
    });
    if let Some(reference) = reference() {
        check(Setup::file(CONFIGURATION).program(&reference), "epoll");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_no_reason_not_to_start() {
    each_driver(|io| {
        let proxy = Setup::file(CONFIGURATION).start(io);
        let dump = tell(&proxy, "dump stats-file");
        assert_eq!(value(&dump, "g-fe", "stot"), "0", "{io}");
        let said = proxy.output();
        assert!(said.contains("config: Can't load stats-file 'before': cannot open file."), "{said}");
    });
}
