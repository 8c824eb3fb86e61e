//! Keys that a stick table cannot have, tables that are full, and tables that have other keys than the one that is tracked: what
//! expressions and commands say then. All is played to the reference, too, where there is one.

mod support;

use support::{Proxy, Server, Setup, each_driver, reference};

/// Plays the same to this program and to the reference, each with servers of its own.
fn each_program<S>(servers: impl Fn() -> S, text: impl Fn(&S) -> String, play: impl Fn(&Proxy)) {
    let setup = |servers: &S| Setup::http(&text(servers)).global("stats socket <@dir>/sock level admin");
    each_driver(|io| {
        let servers = servers();
        let proxy = setup(&servers).start(io);
        play(&proxy);
        proxy.finish(servers);
    });
    if let Some(program) = reference() {
        let servers = servers();
        let proxy = setup(&servers).program(&program).start("epoll");
        play(&proxy);
        proxy.finish(servers);
    }
}

/// Tables that an expression of this test asks, and what it is answered.
fn answers(from: &str, cases: &[(&str, &str)]) {
    let tables = "backend ip\nstick-table type ip size 10 expire 1h store gpc0,gpt0\n\
                  backend other\nstick-table type ip size 10 expire 1h store gpc0,gpc0_rate(1h)\n\
                  backend ip6\nstick-table type ipv6 size 10 expire 1h store gpc0\n\
                  backend short\nstick-table type string len 5 size 10 store gpc0\n\
                  backend long\nstick-table type string len 50 size 10 store gpc0\n\
                  backend full\nstick-table type integer size 1 nopurge expire 1h store gpc0,conn_cnt\n\
                  backend fullip\nstick-table type ip size 1 nopurge expire 1h store gpc0,gpc1,conn_cnt\n";
    let lines: String = cases
        .iter()
        .enumerate()
        .map(|(n, (expression, _))| format!("http-after-response set-header x-{n} \"<%[{expression}]>\"\n"))
        .collect();
    let text = format!(
        "{tables}frontend fe\nbind <@fe>\nhttp-request set-src str({from})\nhttp-request track-sc0 src table ip\n\
         http-request track-sc1 str(abcdefg) table long\nhttp-request return status 200\n{lines}"
    );
    each_program(
        || (),
        |()| text.clone(),
        |proxy| {
            for (table, key) in [("full", "7"), ("fullip", "9.9.9.9")] {
                assert_eq!(proxy.tell("sock", &format!("set table {table} key {key} data.gpc0 1")), "\n");
            }
            let response = proxy.ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
            for (n, (expression, answer)) in cases.iter().enumerate() {
                let said = response.field(&format!("x-{n}"));
                assert_eq!(said, format!("<{answer}>"), "{expression} from {from}");
            }
        },
    );
}

/// What cannot be a key has no entry, and what there is no room for gets none: both are counted nowhere.
#[test]
fn what_is_no_key_has_no_entry() {
    answers(
        "192.0.2.1",
        &[
            ("str(zzz),table_gpc0(ip)", "0"),
            ("str(zzz),table_gpt0(ip)", "0"),
            ("str(zzz),table_conn_cnt(ip)", "0"),
            ("str(zzz),table_trackers(ip)", "0"),
            ("str(zzz),table_inc_gpc0(ip)", "0"),
            ("str(zzz),table_clr_gpc0(ip)", "0"),
            ("str(zzz),in_table(ip)", "0"),
            ("str(zzz),table_expire(ip,5)", "5"),
            ("str(zzz),table_idle(ip,6)", "6"),
            ("str(zzz),table_expire(ip)", ""),
            ("str(2001:db8::1),in_table(ip)", "0"),
            ("var(txn.none),table_gpc0(short)", ""),
            ("int(8),table_inc_gpc0(full)", "0"),
            ("int(8),table_clr_gpc0(full)", "0"),
            ("int(7),table_inc_gpc0(full)", "2"),
            ("src_inc_gpc0(fullip)", "0"),
            ("src_clr_gpc1(fullip)", "0"),
            ("src_updt_conn_cnt(fullip)", ""),
            ("table_cnt(ip)", "1"),
        ],
    );
    answers(
        "2001:db8::1",
        &[
            ("sc0_tracked", "0"),
            ("src_get_gpc0(ip)", "0"),
            ("src_inc_gpc0(ip)", "0"),
            ("src_clr_gpc0(ip)", "0"),
            ("src_updt_conn_cnt(ip)", ""),
            ("src_inc_gpc0(ip6)", "1"),
            ("table_cnt(ip)", "0"),
        ],
    );
}

/// A counter that is asked about another table looks for its key there, if keys are the same, and makes no entry.
#[test]
fn counters_look_for_their_keys_in_other_tables() {
    answers(
        "192.0.2.1",
        &[
            ("sc0_inc_gpc0(other)", "0"),
            ("sc0_get_gpc0(other)", "0"),
            ("src,in_table(other)", "0"),
            ("src_inc_gpc0(other)", "1"),
            ("sc0_inc_gpc0(other)", "2"),
            ("sc0_gpc0_rate(other)", "2"),
            ("sc0_get_gpc0(ip6)", ""),
            ("sc0_inc_gpc0(short)", ""),
            ("sc0_trackers(long)", ""),
            ("sc0_trackers(fullip)", "0"),
            ("sc1_inc_gpc0(long)", "1"),
            ("sc1_inc_gpc0(short)", ""),
            ("table_cnt(short)", "0"),
        ],
    );
}

/// Refusals whose texts scripts may look for, and numbers as the reference reads them.
#[test]
fn commands_say_what_they_do_not_take() {
    let text =
        "backend t\nstick-table type integer size 10 store gpc0,bytes_in_cnt\nfrontend fe\nbind <@fe>\n";
    each_program(
        || (),
        |()| text.to_owned(),
        |proxy| {
            let only = "content-based lookup is only supported with the \"show\" and \"clear\" actions\n\n";
            let (malformed, none) = ("Malformed ptr.\n\n", "No entry can be found matching ptr.\n\n");
            let no_number = "Require a valid integer value to store\n\n";
            for (command, answer) in [
                ("show table t ptr 0x", malformed),
                ("clear table t ptr 0x12zz", malformed),
                ("set table t ptr 0xg data.gpc0 1", malformed),
                ("show table t ptr 0x0", none),
                ("show table t ptr 0xffffffffffffffffffff", none),
                ("show table t ptr 0X12", "Pointer expected (0xffff notation)\n\n"),
                ("set table t data.gpc0 eq 1", only),
                ("set table t data.nothing", only),
                ("set table t key 1 data.gpc0 +5", no_number),
                ("set table t key 1 data.bytes_in_cnt 9223372036854775807", "\n"),
                ("set table t key 1 data.bytes_in_cnt 9223372036854775808", no_number),
                (
                    "show table t data.gpc0 eq +5",
                    "Filter entry #1: Require a valid integer value to compare against\n\n",
                ),
            ] {
                assert_eq!(proxy.tell("sock", command), answer, "{command}");
            }
        },
    );
}

/// `ignore-persist` is about cookies: whom a table knows goes on to its server.
#[test]
fn tables_are_not_ignored_with_cookies() {
    let servers = || [Server::named("a"), Server::named("b"), Server::named("c")];
    let text = |[a, b, c]: &[Server; 3]| {
        format!(
            "listen fe\nbind <@fe>\nbalance roundrobin\nstick-table type string len 20 size 100 expire 1h\n\
             ignore-persist if {{ path /ignore }}\ncookie S insert indirect\nstick on req.hdr(x-key)\n\
             server a {} cookie a\nserver b {} cookie b\nserver c {} cookie c\n",
            a.addr, b.addr, c.addr
        )
    };
    each_program(servers, text, |proxy| {
        let ask = |path: &str, more: &str| {
            proxy.ask(&format!("GET {path} HTTP/1.1\r\nHost: h\r\nX-Key: k\r\n{more}\r\n")).text()
        };
        assert_eq!(ask("/", ""), "a");
        for _ in 0..4 {
            assert_eq!(ask("/ignore", "Cookie: S=b\r\n"), "a");
        }
        assert_eq!(ask("/", "Cookie: S=b\r\n"), "b");
    });
}

/// An empty name is that of the proxy's own table, as if it were named; without one the counter's table is asked.
#[test]
fn an_empty_name_is_the_proxys_own_table() {
    each_program(
        || (),
        |()| {
            "frontend fe\nbind <@fe>\nstick-table type ip size 10 expire 1h store gpc0\n\
             http-request track-sc0 src table other\nhttp-request return status 200 content-type text/plain lf-string \
             \"%[sc_get_gpc0(0,)] %[sc_inc_gpc0(0,)] %[sc_inc_gpc0(0)] %[sc_get_gpc0(0,)] %[sc_get_gpc0(0)] \
             %[sc_get_gpc0(0,fe)] %[sc_tracked(0,)] %[sc_trackers(0,)] %[sc_trackers(0)]\"\n\
             backend other\nstick-table type ip size 10 expire 1h store gpc0\n"
                .to_owned()
        },
        |proxy| {
            for count in 1..3 {
                let said = proxy.ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n").text();
                assert_eq!(said, format!("0 0 {count} 0 {count} 0 1 0 1"));
            }
        },
    );
}
